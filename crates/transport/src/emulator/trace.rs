//! Traces of a network's capacity, as Mahimahi writes them.
//!
//! Text, one whole number a line, none smaller than the one before: milliseconds since the start, at each of which the
//! network could deliver 1504 bytes. A millisecond that stands several times could deliver as often. After its last
//! line a trace begins again, that line's time taken as the new zero.

use super::scale::Scale;
use std::time::Duration;
use thiserror::Error;

/// What one delivery opportunity carries: 1500 bytes of a packet and 4 of Mahimahi's header of a TUN device.
pub const OPPORTUNITY_BYTES: u32 = 1504;

/// A text that is no trace.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum TraceError {
    /// More than [`Trace::MAX_TEXT_BYTES`].
    #[error("a trace of {found} bytes; at most {} are taken", Trace::MAX_TEXT_BYTES)]
    Size {
        /// Bytes of the text.
        found: usize,
    },
    /// Not a number of milliseconds.
    #[error("line {line} is {found:?}; expected milliseconds, a whole number up to {}", u32::MAX)]
    Line {
        /// From 1.
        line: usize,
        /// Its first characters.
        found: String,
    },
    /// Time goes back.
    #[error("line {line} is {found} ms, after {before} ms on the line before; times must not fall")]
    Order {
        /// From 1.
        line: usize,
        /// What stands there.
        found: u32,
        /// What stands before it.
        before: u32,
    },
    /// More than [`Trace::MAX_PER_MILLISECOND`].
    #[error("line {line}: more than {} opportunities in millisecond {at}", Trace::MAX_PER_MILLISECOND)]
    Dense {
        /// From 1.
        line: usize,
        /// The millisecond.
        at: u32,
    },
    /// More than [`Trace::MAX_PER_MILLISECOND`] once it was scaled.
    #[error(
        "{scale} times the trace has more than {} opportunities in millisecond {at}",
        Trace::MAX_PER_MILLISECOND
    )]
    Scaled {
        /// By which it was scaled.
        scale: Scale,
        /// The millisecond.
        at: u32,
    },
    /// No line at all.
    #[error("a trace without a line; expected at least one number of milliseconds")]
    Empty,
    /// Its last line is zero, so that it would repeat without end within a moment.
    #[error("the last line is 0 ms; a trace must last for some time, so that it can repeat")]
    NoTime,
}

/// When a network could deliver how much. Never empty, and longer than no time.
///
/// ```
/// use glassline_transport::emulator::Trace;
/// let trace: Trace = "0\n5\n5\n10\n".parse()?;
/// assert_eq!((trace.opportunities(), trace.period().as_millis()), (4, 10));
/// # Ok::<(), glassline_transport::emulator::TraceError>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    /// Each millisecond that has opportunities, with their number. Milliseconds rise.
    runs: Vec<Run>,
    opportunities: u64,
}

/// The opportunities of one millisecond.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Run {
    pub(super) at_ms: u32,
    pub(super) count: u32,
}

/// Rounds of fewer opportunities are put together before they are scaled: then rounding changes capacity by 0.1 % at most.
const SCALED_OPPORTUNITIES: u64 = 1000;

impl Trace {
    /// The longest text that is taken: 64 MiB, some ten million opportunities.
    pub const MAX_TEXT_BYTES: usize = 64 << 20;
    /// The most opportunities of a millisecond: 120 Gbit/s.
    pub const MAX_PER_MILLISECOND: u32 = 10_000;

    /// Reads a trace. A line break at the end may be missing.
    ///
    /// # Errors
    /// Where the text is no trace, or above the limits; tells the line.
    pub fn parse(text: &[u8]) -> Result<Trace, TraceError> {
        if text.len() > Trace::MAX_TEXT_BYTES {
            return Err(TraceError::Size { found: text.len() });
        }
        let text = text.strip_suffix(b"\n").unwrap_or(text);
        if text.is_empty() {
            return Err(TraceError::Empty);
        }
        let mut trace = Trace { runs: Vec::new(), opportunities: 0 };
        for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
            trace.add(index + 1, line)?;
        }
        if trace.period_ms() == 0 {
            return Err(TraceError::NoTime);
        }
        trace.runs.shrink_to_fit();
        Ok(trace)
    }

    fn add(&mut self, line: usize, text: &[u8]) -> Result<(), TraceError> {
        let digits = text.strip_suffix(b"\r").unwrap_or(text);
        let number = std::str::from_utf8(digits)
            .ok()
            .filter(|digits| !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()));
        let at_ms = number.and_then(|digits| digits.parse().ok()).ok_or_else(|| TraceError::Line {
            line,
            found: String::from_utf8_lossy(&text[..text.len().min(24)]).into_owned(),
        })?;
        match self.runs.last_mut() {
            Some(last) if last.at_ms == at_ms && last.count == Trace::MAX_PER_MILLISECOND => {
                return Err(TraceError::Dense { line, at: at_ms });
            }
            Some(last) if last.at_ms == at_ms => last.count += 1,
            Some(last) if last.at_ms > at_ms => {
                return Err(TraceError::Order { line, found: at_ms, before: last.at_ms });
            }
            _ => self.runs.push(Run { at_ms, count: 1 }),
        }
        self.opportunities += 1;
        Ok(())
    }

    /// The trace as it goes on from `offset` into a round; what is before `offset` comes at the round's end. The round
    /// then ends with the last opportunity before `offset`, so that it may be some milliseconds shorter. An offset
    /// beyond the round is taken modulo its length; one that leaves nothing but time 0 changes nothing.
    #[must_use]
    pub fn from(&self, offset: Duration) -> Trace {
        let period = self.period_ms();
        let offset = (offset.as_millis() % u128::from(period.max(1))) as u32;
        let split = self.runs.partition_point(|run| run.at_ms < offset);
        let (before, behind) = self.runs.split_at(split);
        let moved = |run: &Run, by: u32| Run { at_ms: run.at_ms + by, count: run.count };
        let mut runs: Vec<Run> =
            behind.iter().map(|run| Run { at_ms: run.at_ms - offset, count: run.count }).collect();
        for run in before {
            let run = moved(run, period - offset);
            // A round's last line and the next one's first are of one time.
            match runs.last_mut() {
                Some(last) if last.at_ms == run.at_ms => last.count += run.count,
                _ => runs.push(run),
            }
        }
        if runs.last().is_none_or(|last| last.at_ms == 0) {
            return self.clone();
        }
        Trace { runs, opportunities: self.opportunities }
    }

    /// The trace with its capacity scaled: so many of its opportunities are left, or as many more stand in their
    /// milliseconds, spread as evenly as their number allows. Its last line stays, and with it the length of a round;
    /// a round of few opportunities becomes several, over which they thin out. The capacity is that share of the
    /// trace's to 0.1 %; of rounds that take weeks, of which few fit into a trace, to one opportunity of a round.
    ///
    /// # Errors
    /// A millisecond would have more than [`Trace::MAX_PER_MILLISECOND`].
    pub fn scaled(&self, scale: Scale) -> Result<Trace, TraceError> {
        let rounds = self.rounds_to_scale(scale);
        let all = self.opportunities.saturating_mul(rounds);
        // Counted from the end, so that the last opportunity is kept.
        let kept_after = |passed: u64| scale.of_rounded_up(all - passed);
        let mut trace = Trace { runs: Vec::new(), opportunities: kept_after(0) };
        let mut passed = 0;
        for round in 0..rounds {
            for run in &self.runs {
                let kept = kept_after(passed) - kept_after(passed + u64::from(run.count));
                passed += u64::from(run.count);
                // `rounds_to_scale` has seen to it that time fits.
                let at_ms = (round * u64::from(self.period_ms()) + u64::from(run.at_ms)) as u32;
                let so_far =
                    trace.runs.last().filter(|last| last.at_ms == at_ms).map_or(0, |last| last.count);
                let count = kept + u64::from(so_far);
                if count > u64::from(Trace::MAX_PER_MILLISECOND) {
                    return Err(TraceError::Scaled { scale, at: at_ms });
                }
                // A round's last line and the next one's first may be of one time.
                match trace.runs.last_mut() {
                    Some(last) if last.at_ms == at_ms => last.count = count as u32,
                    _ if kept > 0 => trace.runs.push(Run { at_ms, count: count as u32 }),
                    _ => {}
                }
            }
        }
        trace.runs.shrink_to_fit();
        Ok(trace)
    }

    /// Rounds that are scaled as one: as many as leave a whole number of opportunities, or [`SCALED_OPPORTUNITIES`] of them.
    fn rounds_to_scale(&self, scale: Scale) -> u64 {
        let exact = scale.whole_multiple(self.opportunities);
        let enough = scale.multiple_for(self.opportunities, SCALED_OPPORTUNITIES);
        let in_time = u64::from(u32::MAX) / u64::from(self.period_ms().max(1));
        exact.min(enough).min(in_time).max(1)
    }

    /// Opportunities before `length` has passed, counted by whole rounds and what of another one is before it.
    pub fn opportunities_within(&self, length: Duration) -> u64 {
        let (period, length) = (u128::from(self.period_ms().max(1)), length.as_millis());
        let rest = (length % period) as u32;
        let part: u64 =
            self.runs.iter().take_while(|run| run.at_ms < rest).map(|run| u64::from(run.count)).sum();
        (length / period) as u64 * self.opportunities + part
    }

    /// Opportunities of one round: lines of the text.
    pub fn opportunities(&self) -> u64 {
        self.opportunities
    }

    /// How long a round takes: the last line's time.
    pub fn period(&self) -> Duration {
        Duration::from_millis(self.period_ms().into())
    }

    /// What it can carry, in bits a second, all packets (with Mahimahi's 4 bytes each) counted.
    pub fn mean_bits_per_second(&self) -> f64 {
        self.opportunities as f64 * f64::from(OPPORTUNITY_BYTES) * 8.0 / self.period().as_secs_f64()
    }

    fn period_ms(&self) -> u32 {
        self.runs.last().map_or(0, |run| run.at_ms)
    }
}

impl std::str::FromStr for Trace {
    type Err = TraceError;
    fn from_str(text: &str) -> Result<Trace, TraceError> {
        Trace::parse(text.as_bytes())
    }
}

/// A place in a trace that repeats.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cursor {
    round: u64,
    index: usize,
    once: bool,
}

impl Cursor {
    /// At the beginning; `once`: nothing comes after the last line.
    pub(super) fn new(once: bool) -> Cursor {
        Cursor { once, ..Cursor::default() }
    }

    /// When the next opportunities are, in milliseconds since the start, and how many; `None` at the end.
    pub(super) fn peek(&self, trace: &Trace) -> Option<(u64, u32)> {
        let run = trace.runs.get(self.index)?;
        Some((self.round * u64::from(trace.period_ms()) + u64::from(run.at_ms), run.count))
    }

    /// Goes past the next millisecond that has some.
    pub(super) fn pass(&mut self, trace: &Trace) {
        if self.index < trace.runs.len() {
            self.index += 1;
        }
        if self.index == trace.runs.len() && !self.once {
            *self = Cursor { round: self.round + 1, index: 0, once: false };
        }
    }

    /// Goes past all up to and including millisecond `until`, however many; never back.
    pub(super) fn skip(&mut self, trace: &Trace, until: u64) {
        if self.peek(trace).is_none_or(|(at, _)| at > until) {
            return;
        }
        let period = u64::from(trace.period_ms());
        let (mut round, mut within) = (until / period, until % period);
        if self.once && round > 0 {
            (round, within) = (0, period);
        }
        self.round = round;
        self.index = trace.runs.partition_point(|run| u64::from(run.at_ms) <= within);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn times(trace: &Trace, once: bool, count: usize) -> Vec<(u64, u32)> {
        let mut cursor = Cursor::new(once);
        let mut found = Vec::new();
        while let Some(next) = cursor.peek(trace).filter(|_| found.len() < count) {
            found.push(next);
            cursor.pass(trace);
        }
        found
    }

    #[test]
    fn a_trace_repeats_with_its_last_line_as_zero() {
        let trace: Trace = "0\n2\n2\n5".parse().unwrap();
        assert_eq!(times(&trace, false, 6), [(0, 1), (2, 2), (5, 1), (5, 1), (7, 2), (10, 1)]);
        assert_eq!(times(&trace, true, 6), [(0, 1), (2, 2), (5, 1)]);
        assert!((trace.mean_bits_per_second() - 4.0 * 1504.0 * 8.0 / 0.005).abs() < 1.0);
        // One opportunity each millisecond: Mahimahi's way to say 12 Mbit/s.
        assert_eq!(times(&"1\n".parse().unwrap(), false, 3), [(1, 1), (2, 1), (3, 1)]);
    }

    #[test]
    fn a_trace_goes_on_from_anywhere() {
        let trace: Trace = "0\n2\n2\n5\n9".parse().unwrap();
        let from = |millis| trace.from(Duration::from_millis(millis));
        assert_eq!(from(0), trace);
        assert_eq!(times(&from(2), true, 9), [(0, 2), (3, 1), (7, 2)]);
        assert_eq!(times(&from(3), true, 9), [(2, 1), (6, 2), (8, 2)]);
        assert_eq!(from(3 + 9), from(3));
        assert_eq!(from(3).opportunities(), 5);
        let within = |millis| trace.opportunities_within(Duration::from_millis(millis));
        assert_eq!([0, 1, 3, 9, 10, 18].map(within), [0, 1, 3, 5, 6, 10]);
    }

    #[test]
    fn what_is_no_trace_is_refused_with_its_line() {
        for (text, words) in [
            ("", "without a line"),
            ("\n", "without a line"),
            ("0\n", "last line is 0"),
            ("1\n\n2\n", "line 2 is \"\""),
            ("1\n2\n\n", "line 3 is \"\""),
            ("1\nx\n", "line 2 is \"x\""),
            ("-1\n", "line 1 is \"-1\""),
            ("+1\n", "line 1"),
            (" 1\n", "line 1"),
            ("1.5\n", "line 1"),
            ("4294967296\n", "up to 4294967295"),
            ("99999999999999999999999999999999999999\n", "\"999999999999999999999999\""),
            ("5\n4\n", "line 2 is 4 ms, after 5 ms"),
        ] {
            let error = text.parse::<Trace>().unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
        let dense = "7\n".repeat(Trace::MAX_PER_MILLISECOND as usize + 1);
        assert!(matches!(dense.parse::<Trace>(), Err(TraceError::Dense { line: 10_001, at: 7 })));
        assert!(Trace::parse(&[0xFF, 0, b'\n']).is_err());
        assert!(matches!(Trace::parse(&vec![b'1'; (64 << 20) + 1]), Err(TraceError::Size { .. })));
    }

    #[test]
    fn line_ends_of_other_systems_are_taken() {
        assert_eq!("1\r\n2\r\n".parse::<Trace>(), "1\n2".parse());
    }

    proptest! {
        #[test]
        fn no_bytes_break_it(bytes in prop::collection::vec(prop::sample::select(b"0123456789\n\r -x".to_vec()), 0..60)) {
            if let Ok(trace) = Trace::parse(&bytes) {
                prop_assert!(trace.opportunities() > 0 && trace.period() > Duration::ZERO);
            }
        }

        #[test]
        fn skipping_is_passing(
            steps in prop::collection::vec(0u32..6, 1..20),
            targets in prop::collection::vec(0u64..400, 1..10),
            once: bool,
        ) {
            let mut at = 0;
            let text: String = steps.iter().map(|step| { at += step; format!("{at}\n") }).collect();
            let Ok(trace) = text.parse::<Trace>() else { return Ok(()) };
            let (mut skipping, mut passing) = (Cursor::new(once), Cursor::new(once));
            for target in targets {
                skipping.skip(&trace, target);
                while passing.peek(&trace).is_some_and(|(at, _)| at <= target) {
                    passing.pass(&trace);
                }
                prop_assert_eq!(skipping.peek(&trace), passing.peek(&trace));
            }
        }
    }
}
