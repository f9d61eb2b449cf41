//! The least delay that a line allows: what a sender would reach that knows the line's future and takes no time to encode.

use glassline_media::FrameRate;
use glassline_transport::emulator::Trace;
use std::time::Duration;

/// The 95th percentile of the delay of pictures of ideal sizes, over the first `length` of a trace and with `delay` on
/// the way: each picture takes all that the line lets pass until the next one is captured, and no more, and so arrives
/// with the last opportunity of that time. Where there is none no picture is sent; by the paper's rule it arrives with
/// the next one that is. What a picture takes of the line is no part of it: smaller pictures would arrive sooner, and
/// leave room unused.
pub fn floor_p95(trace: &Trace, rate: FrameRate, length: Duration, delay: Duration) -> Duration {
    let count = (length.as_secs_f64() * rate.as_f64()) as u64;
    let mut delays = Vec::new();
    // Captured, and not shown yet.
    let mut waiting: Vec<Duration> = Vec::new();
    for number in 0..count {
        let (captured, next) = (rate.time_of(number), rate.time_of(number + 1));
        waiting.push(captured);
        // What comes in a millisecond leaves in a later one, as the emulator has it.
        let last = last_opportunity(trace, captured.as_millis() + 1, next.as_millis());
        if let Some(last) = last {
            let arrives = Duration::from_millis(last) + delay;
            delays.extend(waiting.drain(..).map(|captured| arrives.saturating_sub(captured)));
        }
    }
    delays.sort_unstable();
    // By the nearest rank.
    let rank = (0.95 * delays.len() as f64).ceil() as usize;
    delays.get(rank.saturating_sub(1)).copied().unwrap_or_default()
}

/// The last millisecond from `first` to `last` that has an opportunity.
fn last_opportunity(trace: &Trace, first: u128, last: u128) -> Option<u64> {
    let until = |ms: u128| trace.opportunities_within(Duration::from_millis(ms as u64 + 1));
    let all = until(last);
    if first > last || until(first.saturating_sub(1)) == all {
        return None;
    }
    // The first millisecond with which all of them are over.
    let (mut low, mut high) = (first, last);
    while low < high {
        let middle = low.midpoint(high);
        if until(middle) == all { high = middle } else { low = middle + 1 }
    }
    Some(low as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATE: u32 = 25;

    fn floor(text: &str, seconds: u64) -> u128 {
        let rate = FrameRate::new(RATE, 1).unwrap();
        let trace: Trace = text.parse().unwrap();
        floor_p95(&trace, rate, Duration::from_secs(seconds), Duration::from_millis(20)).as_millis()
    }

    /// To the millisecond.
    fn assert_floor(text: &str, seconds: u64, expected: u128) {
        let found = floor(text, seconds);
        assert!(found.abs_diff(expected) <= 1, "{found} is not {expected}");
    }

    #[test]
    fn a_steady_line_carries_a_picture_until_the_next_one() {
        assert_floor("1\n", 10, 40 + 20);
        // At 10, 20, … 40 after the capture: the last of them.
        assert_floor("10\n", 10, 40 + 20);
    }

    #[test]
    fn what_is_captured_while_nothing_passes_arrives_with_the_next_one() {
        // Half of each second nothing passes: the longest wait is that of the first picture in it.
        let trace: String = (1..=500).map(|ms| format!("{ms}\n")).collect::<String>() + "1000\n";
        // Of 25 pictures the first is captured at 520 and shown at 1020, the second waits 40 ms less.
        assert_floor(&trace, 20, 460);
        // All arrive with the one that is captured at 960; the first waits longest, and is one in 25.
        assert_floor("1000\n", 1, 1000 + 20 - 40);
    }

    #[test]
    fn a_trace_without_an_opportunity_in_time_has_no_pictures() {
        assert_eq!(floor("60000\n", 1), 0);
    }
}
