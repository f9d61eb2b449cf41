//! Hysteresis: a limit that is broken for a while begins an alarm, and one that is kept for a while ends it.

use super::event::State;
use super::rules::Rule;
use glassline_media::Time;

/// One alarm of one stream.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Latch {
    is_active: bool,
    /// Since when observations have said the opposite.
    opposed_since: Option<Time>,
}

impl Latch {
    /// Takes an observation: whether the limit is broken at `at`. Returns what has changed by it. Times that go back count as no time.
    pub(super) fn observe(&mut self, is_broken: bool, at: Time, rule: &Rule) -> Option<State> {
        if is_broken == self.is_active {
            self.opposed_since = None;
            return None;
        }
        let since = *self.opposed_since.get_or_insert(at);
        let needed = if is_broken { rule.after } else { rule.clear };
        if at.since(since) < needed {
            return None;
        }
        self.is_active = is_broken;
        self.opposed_since = None;
        Some(if is_broken { State::Begun } else { State::Over })
    }

    /// Whether the next observations decide something.
    pub(super) fn is_undecided(&self) -> bool {
        self.opposed_since.is_some()
    }

    /// Whether the alarm is there.
    pub(super) fn is_active(&self) -> bool {
        self.is_active
    }

    /// Observations are missing: what was begun before them proves nothing.
    pub(super) fn forget(&mut self) {
        self.opposed_since = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::Alarm;
    use proptest::prelude::*;
    use std::time::Duration;

    fn rule(after_ms: u64, clear_ms: u64) -> Rule {
        let [after, clear] = [after_ms, clear_ms].map(Duration::from_millis);
        Rule { after, clear, ..Rule::default_of(Alarm::Silence) }
    }

    #[test]
    fn it_begins_and_ends_at_the_border_and_once() {
        let (mut latch, rule) = (Latch::default(), rule(2000, 1000));
        let mut observe = |is_broken, millis| latch.observe(is_broken, Time::from_millis(millis), &rule);
        assert_eq!(observe(true, 100), None);
        assert_eq!(observe(true, 2099), None);
        assert_eq!(observe(true, 2100), Some(State::Begun));
        assert_eq!(observe(true, 9000), None);
        assert_eq!(observe(false, 9100), None);
        assert_eq!(observe(true, 9200), None);
        assert_eq!(observe(false, 9300), None);
        assert_eq!(observe(false, 10_299), None);
        assert_eq!(observe(false, 10_300), Some(State::Over));
        assert_eq!(observe(false, 99_000), None);
    }

    #[test]
    fn no_duration_is_at_once() {
        let mut latch = Latch::default();
        assert_eq!(latch.observe(true, Time::ZERO, &rule(0, 0)), Some(State::Begun));
        assert_eq!(latch.observe(false, Time::ZERO, &rule(0, 0)), Some(State::Over));
    }

    proptest! {
        #[test]
        fn begun_and_over_take_turns_and_need_their_time(
            steps in proptest::collection::vec((any::<bool>(), 0u64..700), 1..200), after in 0u64..3000, clear in 0u64..3000,
        ) {
            let (mut latch, rule, mut now) = (Latch::default(), rule(after, clear), 0);
            let (mut last, mut since) = (State::Over, None::<(bool, u64)>);
            for (is_broken, step) in steps {
                now += step;
                if since.is_none_or(|(before, _)| before != is_broken) {
                    since = Some((is_broken, now));
                }
                if let Some(state) = latch.observe(is_broken, Time::from_millis(now), &rule) {
                    prop_assert_ne!(state, last);
                    prop_assert_eq!(is_broken, state == State::Begun);
                    let needed = if is_broken { after } else { clear };
                    prop_assert!(now - since.unwrap().1 >= needed);
                    last = state;
                }
                prop_assert_eq!(latch.is_active(), last == State::Begun);
            }
        }
    }
}
