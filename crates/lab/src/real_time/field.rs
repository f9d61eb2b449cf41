//! What the two systems that are measured have in common: where it happens, and the figures that
//! come of what was seen.

use super::clip::Clip;
use super::lines::{Carried, Lines, Way};
use super::matching::Matched;
use super::process::Watch;
use super::scratch::Scratch;
use crate::experiment::{LineOutcome, Outcome, StageTime};
use glassline_direct::SenderCounters;
use glassline_measure::ssim::Ssim;
use glassline_media::Size;
use glassline_transport::emulator::Spread;
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a connection may take to come up.
pub(super) const CONNECT: Duration = Duration::from_secs(30);
/// Pictures are waited for so long after the last was captured.
pub(super) const AFTER: Duration = Duration::from_secs(5);

/// Where it happens.
pub(super) struct Field<'a> {
    pub(super) lines: Lines,
    pub(super) clip: &'a Clip,
    pub(super) scratch: &'a Scratch,
    pub(super) watch: Watch<'a>,
}

/// What came of one run.
#[derive(Debug)]
pub(super) struct Run {
    pub(super) matched: Matched,
    pub(super) ssim: Ssim,
    /// How many pictures `ssim` is of.
    pub(super) judged: u64,
    /// Of each picture that was shown.
    pub(super) sizes: Vec<Size>,
    /// Of each line.
    pub(super) carried: Vec<Carried>,
    /// From the lines' begin to the first picture that was shown.
    pub(super) connected: Duration,
    pub(super) counters: SenderCounters,
    /// Where the time of pictures went, as the ends themselves say; empty of a black box.
    pub(super) stages: Vec<StageTime>,
    pub(super) bits_per_s: f64,
    pub(super) details: Value,
}

/// What a real-time run tells beside the figures that one in virtual time has, too.
#[derive(Clone, Debug, Serialize)]
pub struct RealTime {
    /// The same over a line without limit and delay: what the testbed, encoders, decoders and pipes take; `None` where it was not
    /// measured.
    pub testbed: Option<Testbed>,
    /// Of how many pictures the quality is.
    pub judged: u64,
    /// Pictures that were shown with a barcode that could not be read.
    pub unread: u64,
    /// How many pictures were shown in which size.
    pub sizes: BTreeMap<String, u64>,
    /// From the lines' begin, and with it the traces', to the first picture that was shown, s.
    pub connected_s: f64,
    /// How much later than due the emulator has handed packets on, ms: the 99th percentile, of several lines the longest.
    pub lateness_p99_ms: f64,
    /// What a browser says of how it has sent; `None` of ours.
    pub peer: Option<Value>,
}

/// Delays without a network.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Testbed {
    /// The median, ms.
    pub delay_p50_ms: f64,
    /// The 95th percentile, ms.
    pub delay_p95_ms: f64,
    /// Pictures a second that were shown.
    pub shown_per_s: f64,
}

impl Run {
    /// What only a real-time run tells.
    pub(super) fn real_time(&self, testbed: Option<Testbed>) -> RealTime {
        let mut sizes = BTreeMap::new();
        for size in &self.sizes {
            *sizes.entry(size.to_string()).or_default() += 1;
        }
        RealTime {
            testbed,
            judged: self.judged,
            unread: self.matched.unread,
            sizes,
            connected_s: self.connected.as_secs_f64(),
            lateness_p99_ms: self.carried.iter().map(|line| line.report.lateness_ms.p99).fold(0.0, f64::max),
            peer: Some(self.details.clone()).filter(|details| !details.is_null()),
        }
    }

    /// What became of each picture.
    pub(super) fn outcome(&self, way: &Way) -> Outcome {
        let lines: Vec<LineOutcome> =
            self.carried.iter().zip(&way.lines).map(|(carried, line)| carried.outcome(line)).collect();
        let mut queue_delay = Spread::default();
        self.carried.iter().for_each(|line| queue_delay.merge(line.window.queue_delay()));
        Outcome {
            slots: self.matched.slots.clone(),
            ssim: self.ssim,
            capacity_bytes: lines.iter().map(|line| line.capacity_bytes).sum(),
            carried_bytes: lines.iter().map(|line| line.carried_bytes).sum(),
            queue_p50: queue_delay.quantile(0.5),
            queue_p95: queue_delay.quantile(0.95),
            dropped_packets: lines.iter().map(|line| line.dropped_packets).sum(),
            lines,
            counters: self.counters,
            stages: self.stages.clone(),
            ..Outcome::default()
        }
    }
}
