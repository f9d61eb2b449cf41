//! What the two systems that are measured have in common: the line between the ends, where it happens, and the figures that
//! come of what was seen.

use super::clip::Clip;
use super::matching::Matched;
use super::process::Watch;
use super::scratch::Scratch;
use crate::experiment::{Outcome, StageTime};
use crate::link::{DirectionSettings, Emulation, Ends, Networks, Report, Settings};
use anyhow::{Context, Result};
use glassline_direct::SenderCounters;
use glassline_io::tun::Tun;
use glassline_measure::ssim::Ssim;
use glassline_media::Size;
use glassline_transport::emulator::{Bin, Figures, LinkConfig, Service};
use serde::Serialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::time::Duration;

/// How long a connection may take to come up.
pub(super) const CONNECT: Duration = Duration::from_secs(30);
/// Pictures are waited for so long after the last was captured.
pub(super) const AFTER: Duration = Duration::from_secs(5);

/// The line between both sides, one emulation after the other.
#[derive(Debug)]
pub(super) struct Line {
    networks: Networks,
    devices: Option<(Tun, Tun)>,
}

/// What a line is like for one run.
#[derive(Clone, Debug)]
pub(super) struct Way {
    pub(super) up: LinkConfig,
    pub(super) down: LinkConfig,
    pub(super) seed: u64,
    /// Pictures are compared with what was captured.
    pub(super) is_judged: bool,
}

impl Line {
    /// Between both ends of these networks.
    pub(super) fn new(ends: Ends) -> Line {
        Line { networks: ends.networks, devices: Some((ends.near, ends.far)) }
    }

    pub(super) fn networks(&self) -> &Networks {
        &self.networks
    }

    /// Has it carry packets; traces begin now.
    pub(super) fn start(&mut self, way: &Way) -> Result<Emulation> {
        let (near, far) = self.devices.take().context("the line is in use, or has failed")?;
        let direction = |config: &LinkConfig| DirectionSettings { config: config.clone(), log: None };
        Emulation::start(
            near,
            far,
            Settings { up: direction(&way.up), down: direction(&way.down), seed: way.seed },
        )
    }

    pub(super) fn end(&mut self, emulation: Emulation) -> Result<Report> {
        let carried = emulation.end()?;
        self.devices = Some((carried.near, carried.far));
        Ok(carried.report)
    }
}

/// Where it happens.
pub(super) struct Field<'a> {
    pub(super) line: Line,
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
    pub(super) link: Report,
    /// Of the ways up and down while it was looked at.
    pub(super) window: [Figures; 2],
    /// From the line's begin to the first picture that was shown.
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
    /// From the line's begin, and with it the trace's, to the first picture that was shown, s.
    pub connected_s: f64,
    /// How much later than due the emulator has handed packets on, ms: the 99th percentile.
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
            lateness_p99_ms: self.link.lateness_ms.p99,
            peer: Some(self.details.clone()).filter(|details| !details.is_null()),
        }
    }

    /// What became of each picture.
    pub(super) fn outcome(&self, way: &Way) -> Outcome {
        let [up, _] = &self.window;
        let all = Bin::merged(up.bins().0);
        Outcome {
            slots: self.matched.slots.clone(),
            ssim: self.ssim,
            capacity_bytes: match way.up.service {
                Service::Unlimited => None,
                Service::Rate(rate) => Some(rate as f64 / 8.0 * up.duration().as_secs_f64()),
                Service::Trace(_) | Service::TraceOnce(_) => Some(all.capacity_bytes as f64),
            },
            carried_bytes: all.departed_bytes,
            queue_p50: up.queue_delay().quantile(0.5),
            queue_p95: up.queue_delay().quantile(0.95),
            dropped_packets: all.dropped_packets,
            counters: self.counters,
            stages: self.stages.clone(),
            ..Outcome::default()
        }
    }
}
