//! The figures in words that need no knowledge of networks.

use super::figures::{Figures, LineFigures};
use super::units::{bits_per_second, bytes, seconds, things};
use super::{LINES_BPS, TCP_PAYLOAD_BYTES};

/// Up to so many packets every line and every queue takes at once: what TCP may send unasked (RFC 6928).
const SMOOTH_BYTES: u64 = 10 * TCP_PAYLOAD_BYTES;
/// A line that is this much faster than the mean is what the sentence is about: one that has room for the stream.
const HEADROOM: f64 = 2.0;

/// The slowest of the fixed lines on which the stream takes no more than half.
pub(super) fn fitting_line(figures: &Figures) -> Option<&LineFigures> {
    let rate_bps = figures.rate_bps?;
    let fits = |line: &&LineFigures| line.line_bps as f64 >= HEADROOM * rate_bps;
    figures.lines.iter().find(fits)
}

pub(super) fn of(figures: &Figures) -> String {
    let Some((largest, _)) = figures.largest_burst.zip(figures.rate_bps) else {
        return "Too little came to say anything.".into();
    };
    let burst = format!("{} ({})", bytes(largest.bytes as f64), things(largest.packets, "packet"));
    let Some(line) = fitting_line(figures) else {
        let fastest = bits_per_second(LINES_BPS[LINES_BPS.len() - 1] as f64);
        return format!("Bursts of up to {burst}; the stream takes more than half of a {fastest} line.");
    };
    let name = bits_per_second(line.line_bps as f64);
    let queue = bytes(line.queue_bytes as f64);
    if line.queue_bytes <= SMOOTH_BYTES {
        return format!(
            "Smooth: no more than {burst} come at once. On a {name} line at most {queue} ever wait, \
             which any buffer holds."
        );
    }
    format!(
        "Bursts of up to {burst}. On a {name} line up to {queue} must wait, for {}: a smaller buffer there \
         loses packets.",
        seconds(line.delay_ms / 1e3)
    )
}
