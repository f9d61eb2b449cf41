//! What lines of given rates would have to hold back: for each, a queue that fills with what comes and drains at the
//! line's rate. Its greatest length is the buffer that loses nothing there.

use super::figures::LineFigures;

/// The lines' rates, bits a second: always these, so that reports compare.
pub const LINES_BPS: [u64; 13] = [
    1_000_000,
    2_000_000,
    5_000_000,
    10_000_000,
    20_000_000,
    50_000_000,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
];

#[derive(Clone, Copy, Debug, Default)]
struct Queue {
    now_bytes: f64,
    max_bytes: f64,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Lines {
    last_nanos: u64,
    queues: [Queue; LINES_BPS.len()],
}

impl Lines {
    /// Offsets never descend. Whole arrivals are stored before they go on.
    pub(super) fn push(&mut self, offset_nanos: u64, bytes: u64) {
        let passed_s = (offset_nanos - self.last_nanos) as f64 / 1e9;
        self.last_nanos = offset_nanos;
        for (queue, line_bps) in self.queues.iter_mut().zip(LINES_BPS) {
            let drained = passed_s * line_bps as f64 / 8.0;
            queue.now_bytes = (queue.now_bytes - drained).max(0.0) + bytes as f64;
            queue.max_bytes = queue.max_bytes.max(queue.now_bytes);
        }
    }

    /// The lines that can carry the stream at all: those of more than its mean rate.
    pub(super) fn figures(&self, rate_bps: Option<f64>) -> Vec<LineFigures> {
        let Some(rate_bps) = rate_bps else { return Vec::new() };
        let lines = LINES_BPS.into_iter().zip(&self.queues);
        lines
            .filter(|(line_bps, _)| *line_bps as f64 > rate_bps)
            .map(|(line_bps, queue)| LineFigures {
                line_bps,
                queue_bytes: queue.max_bytes.round() as u64,
                delay_ms: queue.max_bytes * 8e3 / line_bps as f64,
            })
            .collect()
    }
}
