//! The median of what was measured in a while.

use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// The newest values, each with its time. Holds at most `max` of them.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Recent {
    values: VecDeque<(Time, f64)>,
    span: Duration,
    max: usize,
}

impl Recent {
    /// None yet; values are kept for `span`.
    pub(super) fn new(span: Duration, max: usize) -> Recent {
        Recent { values: VecDeque::new(), span, max }
    }

    /// Adds a value. What is no number is left out.
    pub(super) fn push(&mut self, at: Time, value: f64) {
        if value.is_nan() {
            return;
        }
        self.values.push_back((at, value));
        while self.values.len() > self.max
            || self.values.front().is_some_and(|(first, _)| at.since(*first) > self.span)
        {
            self.values.pop_front();
        }
    }

    /// The median: the middle value, of an even number the lower one of both.
    pub(super) fn median(&self) -> Option<f64> {
        let mut values: Vec<f64> = self.values.iter().map(|(_, value)| *value).collect();
        let middle = values.len().checked_sub(1)? / 2;
        Some(*values.select_nth_unstable_by(middle, f64::total_cmp).1)
    }

    /// How long the values have been gathered.
    pub(super) fn covered(&self) -> Duration {
        match (self.values.front(), self.values.back()) {
            (Some((first, _)), Some((last, _))) => last.since(*first),
            _ => Duration::ZERO,
        }
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The values, oldest first.
    pub(super) fn values(&self) -> impl Iterator<Item = f64> {
        self.values.iter().map(|(_, value)| *value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn it_is_the_middle_of_what_is_young_enough(values in proptest::collection::vec(-1e9f64..1e9, 0..40)) {
            let mut recent = Recent::new(Duration::from_secs(10), 8);
            for (at, &value) in values.iter().enumerate() {
                recent.push(Time::from_millis(at as u64 * 2000), value);
            }
            // Six values fit into ten seconds, ends included.
            let mut kept: Vec<f64> = values.iter().rev().take(6).copied().collect();
            kept.sort_by(f64::total_cmp);
            prop_assert_eq!(recent.len(), kept.len());
            prop_assert_eq!(recent.median(), kept.get(kept.len().saturating_sub(1) / 2).copied());
        }
    }
}
