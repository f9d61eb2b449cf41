//! Packet flight: how bursty a stream is on its way.
//!
//! Comes in: arrivals, each a [`Time`] and its bytes ([`Flight::push`]), from a receiver's reads or from a capture
//! ([`crate::pcap`]). Goes out: a [`Summary`], figures for machines and what [`crate::report`] draws. Pure, and
//! bounded to about 3 MiB however long it goes on.
//!
//! A *burst* is a run of arrivals with gaps shorter than [`Settings::burst_gap`]. All fixed axes (bins, window lengths,
//! line rates) are constants here, so that two summaries compare key by key.

mod bins;
mod bursts;
mod figures;
mod line;
mod series;
mod spread;
pub mod units;
mod verdict;
mod windows;

pub use bins::{BURST_EDGES_BYTES, Bins, GAP_EDGES_NANOS};
pub use figures::{BurstBin, Figures, GapBin, LargestBurst, LineFigures, Start, WindowFigures};
pub use line::LINES_BPS;
pub use series::{COLUMNS_MAX, Column, DETAIL_MS, Detail, Overview};
pub use windows::WINDOWS_MS;

use bursts::Bursts;
use glassline_media::Time;
use line::Lines;
use series::{DetailTrack, OverviewTrack};
use std::time::Duration;
use windows::Windows;

/// TCP payload of a full packet on Ethernet, bytes: MTU 1,500 less 20 (IPv4), 20 (TCP) and 12 (its time stamps).
pub const TCP_PAYLOAD_BYTES: u64 = 1448;
/// What MPEG-TS over UDP sends at once, bytes: seven TS packets.
pub const UDP_PAYLOAD_BYTES: u64 = 7 * 188;

/// Packets that `bytes` of TCP payload need on Ethernet.
pub const fn tcp_packets(bytes: u64) -> u64 {
    bytes.div_ceil(TCP_PAYLOAD_BYTES)
}

/// What an arrival is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Basis {
    /// A packet, stamped by the capture: exact.
    Packets,
    /// A read of a TCP receiver, stamped after it: packets that came close together are one.
    Reads,
}

impl Basis {
    /// "packets" or "reads".
    pub const fn name(self) -> &'static str {
        match self {
            Basis::Packets => "packets",
            Basis::Reads => "reads",
        }
    }
}

/// How to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// What the arrivals are.
    pub basis: Basis,
    /// Arrivals closer than this belong to one burst.
    pub burst_gap: Duration,
    /// So long after the first arrival nothing counts: servers begin with what they have kept.
    pub skip: Duration,
}

impl Settings {
    /// The gap that ends a burst where nothing else is asked for. Packets back to back stand closer than this on
    /// lines of 120 Mb/s and more.
    pub const BURST_GAP: Duration = Duration::from_micros(100);

    /// The usual gap, and nothing skipped.
    pub const fn new(basis: Basis) -> Settings {
        Settings { basis, burst_gap: Settings::BURST_GAP, skip: Duration::ZERO }
    }
}

/// Takes arrivals and gathers what there is to say.
#[derive(Clone, Debug)]
pub struct Flight {
    settings: Settings,
    first: Option<Time>,
    skipped: Start,
    /// The first and the latest arrival that count, and their number.
    span: Option<(Time, Time)>,
    arrivals: u64,
    packets: u64,
    bytes: u64,
    backward_stamps: u64,
    bursts: Bursts,
    windows: Windows,
    lines: Lines,
    overview: OverviewTrack,
    detail: DetailTrack,
}

impl Flight {
    /// Before the first arrival.
    pub fn new(settings: Settings) -> Flight {
        Flight {
            settings,
            first: None,
            skipped: Start { seconds: settings.skip.as_secs_f64(), arrivals: 0, bytes: 0 },
            span: None,
            arrivals: 0,
            packets: 0,
            bytes: 0,
            backward_stamps: 0,
            bursts: Bursts::new(settings.burst_gap),
            windows: Windows::default(),
            lines: Lines::default(),
            overview: OverviewTrack::default(),
            detail: DetailTrack::default(),
        }
    }

    /// `bytes` in `packets` packets came at `at`. A stamp that is earlier than the one before counts as that one,
    /// and is counted. Nothing of no bytes is an arrival.
    pub fn push(&mut self, at: Time, bytes: u64, packets: u64) {
        if bytes == 0 {
            return;
        }
        let first = *self.first.get_or_insert(at);
        if at.since(first) < self.settings.skip {
            self.skipped.arrivals += 1;
            self.skipped.bytes += bytes;
            return;
        }
        let (start, last) = self.span.unwrap_or((at, at));
        self.backward_stamps += u64::from(at < last);
        let at = at.max(last);
        self.span = Some((start, at));
        self.arrivals += 1;
        self.packets += packets;
        self.bytes += bytes;
        let offset_nanos = at.since(start).as_nanos() as u64;
        self.bursts.push(offset_nanos, bytes, packets);
        self.windows.push(offset_nanos, bytes);
        self.lines.push(offset_nanos, bytes);
        self.overview.push(offset_nanos, bytes);
        self.detail.push(offset_nanos, bytes);
    }

    /// Bytes that count, so far.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What there is to say.
    pub fn finish(mut self) -> Summary {
        self.bursts.finish();
        self.windows.finish();
        self.detail.finish();
        let figures = self.figures();
        Summary { figures, overview: self.overview.into_overview(), detail: self.detail.into_detail() }
    }

    fn figures(&self) -> Figures {
        let duration_s = self.span.map_or(0.0, |(first, last)| last.since(first).as_secs_f64());
        let rate_bps = (duration_s > 0.0).then(|| self.bytes as f64 * 8.0 / duration_s);
        let mut figures = Figures {
            basis: self.settings.basis.name(),
            arrivals: self.arrivals,
            packets: self.packets,
            bytes: self.bytes,
            duration_s,
            rate_bps,
            backward_stamps: self.backward_stamps,
            start_left_out: self.skipped,
            burst_gap_us: self.settings.burst_gap.as_secs_f64() * 1e6,
            windows: self.windows.figures(),
            burst_bytes: self.bursts.bytes.distribution(1.0),
            burst_packets: self.bursts.packets.distribution(1.0),
            largest_burst: self.bursts.largest(),
            gap_ms: self.bursts.gaps.distribution(1e-6),
            lines: self.lines.figures(rate_bps),
            burst_histogram: self.bursts.burst_histogram(),
            gap_histogram: self.bursts.gap_histogram(),
            verdict: String::new(),
        };
        figures.verdict = verdict::of(&figures);
        figures
    }
}

/// What a [`Flight`] was like.
#[derive(Clone, Debug)]
pub struct Summary {
    /// For machines and tables.
    pub figures: Figures,
    /// The whole time, in columns.
    pub overview: Overview,
    /// The half second around the fullest millisecond.
    pub detail: Detail,
}

#[cfg(test)]
mod tests;
