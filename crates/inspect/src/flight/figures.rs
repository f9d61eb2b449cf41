//! The figures of a flight, as JSON writes them. Suffixes are units.

use crate::distribution::Distribution;
use serde::Serialize;

/// All of them.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Figures {
    /// "packets" or "reads".
    pub basis: &'static str,
    /// Packets or reads that count.
    pub arrivals: u64,
    /// Packets; where reads or captures hold several in one, as many as they make on Ethernet.
    pub packets: u64,
    /// Payload that counts.
    pub bytes: u64,
    /// From the first arrival to the last.
    pub duration_s: f64,
    /// Mean rate; `None` where no time passed.
    pub rate_bps: Option<f64>,
    /// Arrivals stamped earlier than the one before.
    pub backward_stamps: u64,
    /// What came before the figures begin.
    pub start_left_out: Start,
    /// A burst ends where nothing comes for so long.
    pub burst_gap_us: f64,
    /// The rate in windows of each of [`super::WINDOWS_MS`].
    pub windows: Vec<WindowFigures>,
    /// Bytes of the bursts.
    pub burst_bytes: Option<Distribution>,
    /// Packets of the bursts.
    pub burst_packets: Option<Distribution>,
    /// The largest burst, the first of several.
    pub largest_burst: Option<LargestBurst>,
    /// From a burst's last arrival to the next one's first.
    pub gap_ms: Option<Distribution>,
    /// What would have to wait before lines of fixed rates.
    pub lines: Vec<LineFigures>,
    /// Bursts by size, on fixed edges ([`super::BURST_EDGES_BYTES`]).
    pub burst_histogram: Vec<BurstBin>,
    /// Gaps by length, on fixed edges ([`super::GAP_EDGES_NANOS`]).
    pub gap_histogram: Vec<GapBin>,
    /// All of it in one or two sentences.
    pub verdict: String,
}

/// What was left out at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Start {
    /// So long after the first arrival.
    pub seconds: f64,
    /// Arrivals in that time.
    pub arrivals: u64,
    /// Their payload.
    pub bytes: u64,
}

/// The rate in windows of one length.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct WindowFigures {
    /// Length of the windows.
    pub window_ms: u64,
    /// Bits a second in each, empty windows included.
    pub rate_bps: Distribution,
}

/// The largest burst.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LargestBurst {
    /// Its bytes.
    pub bytes: u64,
    /// Its packets.
    pub packets: u64,
    /// When it begins, from the first arrival that counts.
    pub at_s: f64,
    /// From its first arrival to its last.
    pub lasts_ms: f64,
}

/// What would have to wait before a line of this rate.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct LineFigures {
    /// The line's rate.
    pub line_bps: u64,
    /// The most that waits: a smaller buffer loses packets.
    pub queue_bytes: u64,
    /// How long the last of that waits.
    pub delay_ms: f64,
}

/// Bursts of a range of sizes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct BurstBin {
    /// Lower edge, itself included.
    pub from_bytes: u64,
    /// Upper edge, not included.
    pub to_bytes: u64,
    /// How many.
    pub bursts: u64,
    /// What is in them.
    pub bytes: u64,
}

/// Gaps of a range of lengths.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct GapBin {
    /// Lower edge, itself included.
    pub from_us: f64,
    /// Upper edge, not included.
    pub to_us: f64,
    /// How many.
    pub gaps: u64,
    /// Their lengths added up.
    pub total_ms: f64,
}
