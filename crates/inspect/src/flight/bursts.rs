//! Bursts and the gaps between them.

use super::bins::{BURST_EDGES_BYTES, Bins, GAP_EDGES_NANOS};
use super::figures::{BurstBin, GapBin, LargestBurst};
use super::spread::Spread;
use std::time::Duration;

/// One burst.
#[derive(Clone, Copy, Debug)]
struct Burst {
    first_nanos: u64,
    last_nanos: u64,
    bytes: u64,
    packets: u64,
}

#[derive(Clone, Debug)]
pub(super) struct Bursts {
    gap_nanos: u64,
    current: Option<Burst>,
    largest: Option<Burst>,
    pub(super) bytes: Spread,
    pub(super) packets: Spread,
    /// Nanoseconds from a burst's last arrival to the next one's first.
    pub(super) gaps: Spread,
    by_size: Bins,
    by_gap: Bins,
}

impl Bursts {
    pub(super) fn new(gap: Duration) -> Bursts {
        Bursts {
            gap_nanos: u64::try_from(gap.as_nanos()).unwrap_or(u64::MAX),
            current: None,
            largest: None,
            bytes: Spread::default(),
            packets: Spread::default(),
            gaps: Spread::default(),
            by_size: Bins::new(&BURST_EDGES_BYTES),
            by_gap: Bins::new(&GAP_EDGES_NANOS),
        }
    }

    /// Offsets never descend.
    pub(super) fn push(&mut self, offset_nanos: u64, bytes: u64, packets: u64) {
        if let Some(burst) = &mut self.current {
            let gap = offset_nanos - burst.last_nanos;
            if gap < self.gap_nanos {
                burst.last_nanos = offset_nanos;
                burst.bytes += bytes;
                burst.packets += packets;
                return;
            }
            self.gaps.push(gap);
            self.by_gap.push(gap, gap);
            self.finish();
        }
        self.current = Some(Burst { first_nanos: offset_nanos, last_nanos: offset_nanos, bytes, packets });
    }

    /// Ends the burst that is going on.
    pub(super) fn finish(&mut self) {
        let Some(burst) = self.current.take() else { return };
        self.bytes.push(burst.bytes);
        self.packets.push(burst.packets);
        self.by_size.push(burst.bytes, burst.bytes);
        if self.largest.is_none_or(|largest| burst.bytes > largest.bytes) {
            self.largest = Some(burst);
        }
    }

    pub(super) fn largest(&self) -> Option<LargestBurst> {
        self.largest.map(|burst| LargestBurst {
            bytes: burst.bytes,
            packets: burst.packets,
            at_s: burst.first_nanos as f64 / 1e9,
            lasts_ms: (burst.last_nanos - burst.first_nanos) as f64 / 1e6,
        })
    }

    pub(super) fn burst_histogram(&self) -> Vec<BurstBin> {
        let bin = |(from_bytes, to_bytes, bursts, bytes)| BurstBin { from_bytes, to_bytes, bursts, bytes };
        self.by_size.iter().map(bin).collect()
    }

    pub(super) fn gap_histogram(&self) -> Vec<GapBin> {
        let bin = |(from, to, gaps, nanos): (u64, u64, u64, u64)| GapBin {
            from_us: from as f64 / 1e3,
            to_us: to as f64 / 1e3,
            gaps,
            total_ms: nanos as f64 / 1e6,
        };
        self.by_gap.iter().map(bin).collect()
    }
}
