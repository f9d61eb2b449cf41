//! The rate in windows of fixed length, one behind the other from the first arrival on.

use super::figures::WindowFigures;
use super::spread::Spread;

/// Lengths of the windows, milliseconds.
pub const WINDOWS_MS: [u64; 3] = [1, 10, 100];

/// One length of window.
#[derive(Clone, Debug)]
struct Window {
    length_ms: u64,
    /// Which window is filling, and with how much.
    index: u64,
    bytes: u64,
    /// Bytes of the windows before.
    full: Spread,
}

impl Window {
    fn push(&mut self, offset_nanos: u64, bytes: u64) {
        let index = offset_nanos / (self.length_ms * 1_000_000);
        if index != self.index {
            self.full.push(self.bytes);
            // Silence counts, however long, at once.
            self.full.push_many(0, index - self.index - 1);
            (self.index, self.bytes) = (index, 0);
        }
        self.bytes += bytes;
    }
}

#[derive(Clone, Debug)]
pub(super) struct Windows([Window; WINDOWS_MS.len()]);

impl Default for Windows {
    fn default() -> Windows {
        Windows(WINDOWS_MS.map(|length_ms| Window { length_ms, index: 0, bytes: 0, full: Spread::default() }))
    }
}

impl Windows {
    /// Offsets never descend.
    pub(super) fn push(&mut self, offset_nanos: u64, bytes: u64) {
        self.0.iter_mut().for_each(|window| window.push(offset_nanos, bytes));
    }

    /// The last windows count, though they may not have been whole.
    pub(super) fn finish(&mut self) {
        for window in self.0.iter_mut().filter(|window| window.bytes > 0) {
            window.full.push(std::mem::take(&mut window.bytes));
        }
    }

    pub(super) fn figures(&self) -> Vec<WindowFigures> {
        let figures = |window: &Window| {
            let scale = 8e3 / window.length_ms as f64;
            let rate = window.full.distribution(scale)?;
            Some(WindowFigures { window_ms: window.length_ms, rate_bps: rate })
        };
        self.0.iter().filter_map(figures).collect()
    }
}
