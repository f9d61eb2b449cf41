//! Decides which lines are logged and which are only counted. Strangers can cause as many lines as they like; they
//! must neither fill the disk nor hide the other lines.
//!
//! For each kind of line, the first [`AT_ONCE`] lines of an [`INTERVAL`] are logged. Further ones are counted, and
//! logged at the end of the interval as a number with one example. After an interval with more than [`AT_ONCE`]
//! lines, the next intervals only count, until one has fewer again. So a kind costs at most so many lines and one
//! more in each interval, however often it occurs.
//!
//! Pure: time is an argument.

use glassline_media::Time;
use std::collections::HashMap;
use std::hash::Hash;
use std::time::Duration;

/// Lines of a kind that are logged as they come.
pub(super) const AT_ONCE: u64 = 50;
/// How often the number of further lines is logged.
pub(super) const INTERVAL: Duration = Duration::from_secs(10);

/// What happens to a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// It is logged.
    Tell,
    /// It is counted, as the first of its interval: it may serve as the example.
    CountFirst,
    /// It is counted.
    Count,
}

/// What is logged at the end of an interval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Summary<K> {
    /// The kind of the lines.
    pub(super) kind: K,
    /// Lines that were only counted.
    pub(super) lines: u64,
    /// The time in which they came.
    pub(super) time: Duration,
    /// One of them; empty if none was given.
    pub(super) example: String,
}

/// The kinds of lines that came recently: at most as many as places in the program that log.
#[derive(Debug)]
pub(super) struct Recurring<K>(HashMap<K, Window>);

/// An interval of one kind.
#[derive(Debug)]
struct Window {
    began: Time,
    /// Lines that may be logged in it.
    budget: u64,
    lines: u64,
    counted: u64,
    example: String,
}

impl Window {
    fn new(began: Time, budget: u64) -> Window {
        Window { began, budget, lines: 0, counted: 0, example: String::new() }
    }

    fn end(&self) -> Time {
        self.began + INTERVAL
    }

    /// Whether no summary is logged at its end.
    fn is_quiet(&self) -> bool {
        self.counted == 0 && self.budget > 0
    }
}

impl<K> Default for Recurring<K> {
    fn default() -> Recurring<K> {
        Recurring(HashMap::new())
    }
}

impl<K: Eq + Hash + Clone> Recurring<K> {
    /// Takes a line of `kind` that comes at `now`.
    pub(super) fn offer(&mut self, kind: K, now: Time) -> Verdict {
        let window = self.0.entry(kind).or_insert_with(|| Window::new(now, AT_ONCE));
        if window.is_quiet() && now >= window.end() {
            *window = Window::new(now, AT_ONCE);
        }
        window.lines += 1;
        if window.lines <= window.budget {
            return Verdict::Tell;
        }
        window.counted += 1;
        if window.counted == 1 { Verdict::CountFirst } else { Verdict::Count }
    }

    /// Keeps the text of the first counted line of `kind`.
    pub(super) fn keep_example(&mut self, kind: &K, example: String) {
        if let Some(window) = self.0.get_mut(kind) {
            window.example = example;
        }
    }

    /// When [`Recurring::handle_timeout`] has something to do. Changes with that and with [`Recurring::offer`].
    #[must_use]
    pub(super) fn poll_timeout(&self) -> Option<Time> {
        self.0.values().filter(|window| !window.is_quiet()).map(Window::end).min()
    }

    /// The summaries of intervals that are over at `now`.
    pub(super) fn handle_timeout(&mut self, now: Time) -> Vec<Summary<K>> {
        let mut summaries = Vec::new();
        self.0.retain(|kind, window| {
            if now < window.end() {
                return true;
            }
            summaries.extend(summary(kind, window, now));
            let goes_on = window.lines > AT_ONCE;
            *window = Window::new(now, 0);
            goes_on
        });
        summaries
    }

    /// The summaries of all intervals, at the end of the program.
    pub(super) fn finish(&mut self, now: Time) -> Vec<Summary<K>> {
        self.0.drain().filter_map(|(kind, mut window)| summary(&kind, &mut window, now)).collect()
    }
}

fn summary<K: Clone>(kind: &K, window: &mut Window, now: Time) -> Option<Summary<K>> {
    (window.counted > 0).then(|| Summary {
        kind: kind.clone(),
        lines: window.counted,
        time: now.since(window.began),
        example: std::mem::take(&mut window.example),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn offer(recurring: &mut Recurring<&'static str>, count: u64, now: Time) -> u64 {
        (0..count).filter(|_| recurring.offer("refused", now) == Verdict::Tell).count() as u64
    }

    #[test]
    fn the_first_are_told_and_the_rest_is_one_line_an_interval() {
        let mut recurring = Recurring::default();
        assert_eq!(offer(&mut recurring, AT_ONCE - 1, at(0)), AT_ONCE - 1);
        assert_eq!(recurring.poll_timeout(), None, "nothing is left to say");
        assert_eq!(recurring.offer("refused", at(1)), Verdict::Tell);
        assert_eq!(recurring.offer("refused", at(1)), Verdict::CountFirst);
        recurring.keep_example(&"refused", "for instance".to_owned());
        assert_eq!(offer(&mut recurring, 1_000_000, at(2)), 0);
        assert_eq!(recurring.offer("other", at(2)), Verdict::Tell, "each kind for itself");
        assert_eq!(recurring.poll_timeout(), Some(at(10)));
        assert_eq!(recurring.handle_timeout(at(9)), []);
        let summary = Summary {
            kind: "refused",
            lines: 1_000_001,
            time: Duration::from_secs(10),
            example: "for instance".to_owned(),
        };
        assert_eq!(recurring.handle_timeout(at(10)), [summary]);
        // It goes on: none is told, until an interval had few.
        assert_eq!(offer(&mut recurring, AT_ONCE + 1, at(11)), 0);
        assert_eq!(
            recurring.handle_timeout(at(20)).iter().map(|told| told.lines).collect::<Vec<_>>(),
            [AT_ONCE + 1]
        );
        assert_eq!(offer(&mut recurring, AT_ONCE, at(21)), 0);
        assert_eq!(recurring.handle_timeout(at(30))[0].lines, AT_ONCE);
        assert_eq!(recurring.poll_timeout(), None);
        assert_eq!(offer(&mut recurring, AT_ONCE + 10, at(31)), AT_ONCE);
    }

    #[test]
    fn what_comes_slowly_is_always_told_and_takes_no_memory_for_long() {
        let mut recurring = Recurring::default();
        for second in 0..1000 {
            assert_eq!(offer(&mut recurring, 2, at(second)), 2, "{second}");
        }
        offer(&mut recurring, AT_ONCE + 1, at(2000));
        assert_eq!(recurring.handle_timeout(at(2010)).len(), 1);
        assert_eq!(recurring.handle_timeout(at(2020)), []);
        assert!(recurring.0.is_empty());
    }

    #[test]
    fn the_end_tells_what_was_counted() {
        let mut recurring = Recurring::default();
        offer(&mut recurring, AT_ONCE + 5, at(0));
        recurring.offer("once", at(0));
        let told = recurring.finish(at(3));
        assert_eq!(told.len(), 1);
        assert_eq!((told[0].kind, told[0].lines, told[0].time), ("refused", 5, Duration::from_secs(3)));
        assert_eq!(recurring.finish(at(3)), []);
    }
}
