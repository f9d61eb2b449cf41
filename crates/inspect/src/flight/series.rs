//! Bytes over time, for drawing: the whole time in a bounded number of columns, and the half second around the
//! fullest millisecond bin by bin.

use std::collections::VecDeque;
use std::time::Duration;

const NANOS_PER_MS: u64 = 1_000_000;
/// Columns of the overview at most; when they are full, each two become one.
pub const COLUMNS_MAX: usize = 2048;
/// Length of the detail, milliseconds.
pub const DETAIL_MS: usize = 500;
/// The detail begins at a multiple of this, so that its 10 and 100 ms are those of the figures.
const DETAIL_GRID_MS: u64 = 100;

/// A piece of the whole time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Column {
    /// Bytes in its fullest millisecond.
    pub peak_bytes: u64,
    /// All of its bytes.
    pub bytes: u64,
}

/// The whole time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// Time a column stands for: a whole number (a power of two) of milliseconds.
    pub column: Duration,
    /// From the first arrival to the last; at most [`COLUMNS_MAX`].
    pub columns: Vec<Column>,
}

/// The half second around the fullest millisecond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detail {
    /// When it begins, from the first arrival: a whole number of 100 ms.
    pub start: Duration,
    /// Bytes of each millisecond; [`DETAIL_MS`] of them, fewer where the stream is over before.
    pub bytes_per_ms: Vec<u64>,
}

#[derive(Clone, Debug)]
pub(super) struct OverviewTrack {
    column_ms: u64,
    columns: Vec<Column>,
    /// The millisecond that is filling.
    millisecond: u64,
    bytes: u64,
}

impl Default for OverviewTrack {
    fn default() -> OverviewTrack {
        OverviewTrack { column_ms: 1, columns: vec![Column::default()], millisecond: 0, bytes: 0 }
    }
}

impl OverviewTrack {
    /// Offsets never descend.
    pub(super) fn push(&mut self, offset_nanos: u64, bytes: u64) {
        let millisecond = offset_nanos / NANOS_PER_MS;
        if millisecond != self.millisecond {
            (self.millisecond, self.bytes) = (millisecond, 0);
            while millisecond / self.column_ms >= COLUMNS_MAX as u64 {
                self.halve();
            }
            self.columns.resize((millisecond / self.column_ms) as usize + 1, Column::default());
        }
        self.bytes += bytes;
        if let Some(column) = self.columns.last_mut() {
            column.bytes += bytes;
            column.peak_bytes = column.peak_bytes.max(self.bytes);
        }
    }

    fn halve(&mut self) {
        let both = |pair: &[Column]| Column {
            peak_bytes: pair.iter().map(|column| column.peak_bytes).max().unwrap_or(0),
            bytes: pair.iter().map(|column| column.bytes).sum(),
        };
        self.columns = self.columns.chunks(2).map(both).collect();
        self.column_ms *= 2;
    }

    pub(super) fn into_overview(self) -> Overview {
        Overview { column: Duration::from_millis(self.column_ms), columns: self.columns }
    }
}

/// Keeps the last [`DETAIL_MS`] milliseconds, and a copy of them once the fullest one stands about in the middle.
#[derive(Clone, Debug, Default)]
pub(super) struct DetailTrack {
    /// The milliseconds before `filling`.
    recent: VecDeque<u64>,
    filling: u64,
    bytes: u64,
    fullest_bytes: u64,
    /// Where a copy is to begin that is not taken yet.
    wanted: Option<u64>,
    kept: Option<(u64, Vec<u64>)>,
}

impl DetailTrack {
    /// Offsets never descend.
    pub(super) fn push(&mut self, offset_nanos: u64, bytes: u64) {
        let millisecond = offset_nanos / NANOS_PER_MS;
        if millisecond != self.filling {
            self.close();
            // After so many empty ones only empty ones are left, and every copy is taken.
            for _ in 0..(millisecond - self.filling).min(DETAIL_MS as u64) {
                self.close();
            }
            self.filling = millisecond;
        }
        self.bytes += bytes;
    }

    /// Ends the millisecond that is filling.
    fn close(&mut self) {
        if self.recent.len() == DETAIL_MS {
            self.recent.pop_front();
        }
        self.recent.push_back(self.bytes);
        if self.bytes > self.fullest_bytes {
            self.fullest_bytes = self.bytes;
            let earliest = self.filling.saturating_sub(DETAIL_MS as u64 / 2);
            self.wanted = Some((earliest + DETAIL_GRID_MS / 2) / DETAIL_GRID_MS * DETAIL_GRID_MS);
        }
        self.bytes = 0;
        self.filling += 1;
        if let Some(start) = self.wanted.filter(|start| self.filling == start + DETAIL_MS as u64) {
            self.keep(start);
        }
    }

    fn keep(&mut self, start: u64) {
        let first = self.filling - self.recent.len() as u64;
        let skip = start.saturating_sub(first) as usize;
        self.kept = Some((start, self.recent.iter().skip(skip).copied().collect()));
        self.wanted = None;
    }

    pub(super) fn finish(&mut self) {
        if self.bytes > 0 {
            self.close();
        }
        if let Some(start) = self.wanted {
            self.keep(start);
        }
    }

    pub(super) fn into_detail(self) -> Detail {
        let (start_ms, bytes_per_ms) = self.kept.unwrap_or_default();
        Detail { start: Duration::from_millis(start_ms), bytes_per_ms }
    }
}
