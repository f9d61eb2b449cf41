//! Which viewers a worker serves when a stream has news.
//!
//! A worker that has time serves everybody each time. One that is busy serves a part of them: of N turns each viewer has
//! one, gets what came since its last, and what is sent to it costs little more than a single picture would. No viewer
//! waits for more than N - 1 pictures, and no picture has to reach everybody at once, which is what the longest delays come
//! from: a key frame's round is N times shorter.

use glassline_media::Time;
use std::time::Duration;

/// Turns at most.
pub const MOST_TURNS: u32 = 6;
/// The longest that bytes wait for a viewer's turn: a stream with few pictures has fewer turns.
const PATIENCE: Duration = Duration::from_millis(100);
/// News further apart than this say nothing about when the next come.
const LONGEST_INTERVAL: Duration = Duration::from_millis(500);

/// The viewers of a stream on a worker, dealt out over turns by the numbers of their slots.
#[derive(Debug)]
pub struct Turns {
    count: u32,
    next: u32,
    /// Since when there is something for those whose turn it is not.
    waiting_since: [Option<Time>; MOST_TURNS as usize],
    last_news: Option<Time>,
    /// Time between news; a running mean.
    interval: Option<Duration>,
}

/// Whose turn it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    count: u32,
    /// A bit for each of them.
    groups: u32,
}

impl Chosen {
    const ALL: Chosen = Chosen { count: 1, groups: 1 };

    /// Whether it is the turn of the viewer in `slot`.
    pub fn has(self, slot: u32) -> bool {
        self.groups >> (slot % self.count) & 1 == 1
    }

    /// Whether it is nobody's.
    pub fn is_nobody(self) -> bool {
        self.groups == 0
    }
}

impl Default for Turns {
    fn default() -> Turns {
        Turns { count: 1, next: 0, waiting_since: Default::default(), last_news: None, interval: None }
    }
}

impl Turns {
    /// There is news, on a worker that has `wanted` turns. Returns who is to be served.
    pub fn news(&mut self, wanted: u32, now: Time) -> Chosen {
        let gap = self.last_news.replace(now).map(|last| now.since(last));
        if let Some(gap) = gap.filter(|gap| *gap < LONGEST_INTERVAL) {
            self.interval = Some(self.interval.map_or(gap, |mean| (mean * 7 + gap) / 8));
        }
        let count = self.fitting(wanted);
        if count != self.count {
            // Others are together from now on: nobody is to be forgotten.
            *self = Turns { count, next: 0, waiting_since: Default::default(), ..*self };
            return Chosen::ALL;
        }
        for waiting in &mut self.waiting_since[..count as usize] {
            waiting.get_or_insert(now);
        }
        let turn = 1 << self.next;
        self.next = (self.next + 1) % count;
        let chosen = self.take(turn);
        Chosen { groups: chosen.groups | self.due(now).groups, ..chosen }
    }

    /// The stream is over: everybody is told.
    pub fn end(&mut self) -> Chosen {
        self.waiting_since = Default::default();
        Chosen::ALL
    }

    /// Who has waited for a turn for so long that the news it comes with seem to be late.
    pub fn due(&mut self, now: Time) -> Chosen {
        let patience = self.patience();
        let is_due = |since: &Option<Time>| since.is_some_and(|since| now >= since + patience);
        let groups = self.waiting_since.iter().enumerate().filter(|(_, since)| is_due(since));
        let groups = groups.fold(0, |groups, (group, _)| groups | 1 << group);
        self.take(groups)
    }

    /// When somebody will be [due](Turns::due).
    pub fn deadline(&self) -> Option<Time> {
        Some(self.waiting_since.iter().flatten().min().copied()? + self.patience())
    }

    fn take(&mut self, groups: u32) -> Chosen {
        for (group, waiting) in self.waiting_since.iter_mut().enumerate() {
            if groups >> group & 1 == 1 {
                *waiting = None;
            }
        }
        Chosen { count: self.count, groups }
    }

    /// As many turns as there is patience for.
    fn fitting(&self, wanted: u32) -> u32 {
        let Some(interval) = self.interval else { return 1 };
        let most = PATIENCE.as_micros() / interval.as_micros().max(1) + 1;
        wanted.clamp(1, MOST_TURNS).min(u32::try_from(most).unwrap_or(u32::MAX))
    }

    /// Everybody's turn comes within one interval less, where news come as they are used to.
    fn patience(&self) -> Duration {
        (self.interval.unwrap_or_default() * self.count).min(PATIENCE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PICTURE: Duration = Duration::from_millis(20);

    #[test]
    fn everybody_is_served_each_time_or_each_has_its_turn() {
        let (mut turns, mut now) = (Turns::default(), Time::ZERO);
        let mut served = |wanted| {
            now += PICTURE;
            let chosen = turns.news(wanted, now);
            (0..6).filter(|slot| chosen.has(*slot)).collect::<Vec<u32>>()
        };
        assert_eq!(served(1), [0, 1, 2, 3, 4, 5]);
        assert_eq!(served(1), [0, 1, 2, 3, 4, 5]);
        assert_eq!(served(3), [0, 1, 2, 3, 4, 5], "nobody is forgotten at a change");
        assert_eq!([served(3), served(3), served(3), served(3)], [[0, 3], [1, 4], [2, 5], [0, 3]]);
        assert_eq!(served(1), [0, 1, 2, 3, 4, 5]);
    }

    #[test]
    fn a_stream_with_few_pictures_has_few_turns() {
        let (mut turns, mut now) = (Turns::default(), Time::ZERO);
        for (millis, most) in [(200, 1), (60, 2), (5, 6)] {
            for _ in 0..60 {
                now += Duration::from_millis(millis);
                turns.news(6, now);
            }
            assert_eq!(turns.count, most, "each {millis} ms");
        }
    }

    proptest! {
        /// However news come, whoever has something to get gets it before its deadline, and nobody is served for nothing.
        #[test]
        fn nobody_waits_beyond_the_patience(
            steps in proptest::collection::vec((1u64..150, 1u32..8), 1..200),
        ) {
            let (mut turns, mut now) = (Turns::default(), Time::ZERO);
            let mut waiting: Vec<Option<Time>> = vec![None; 12];
            for (millis, wanted) in steps {
                let next = now + Duration::from_millis(millis);
                while let Some(at) = turns.deadline().filter(|at| *at < next) {
                    now = now.max(at);
                    let chosen = turns.due(now);
                    prop_assert!(!chosen.is_nobody());
                    for (slot, since) in waiting.iter_mut().enumerate() {
                        if chosen.has(slot as u32) {
                            prop_assert!(since.take().is_some(), "served for nothing");
                        }
                    }
                }
                now = next;
                waiting.iter_mut().for_each(|since| { since.get_or_insert(now); });
                let chosen = turns.news(wanted, now);
                for (slot, since) in waiting.iter_mut().enumerate() {
                    if chosen.has(slot as u32) {
                        *since = None;
                    }
                    prop_assert!(since.is_none_or(|since| now.since(since) <= PATIENCE));
                }
            }
            if let Some(at) = turns.deadline() {
                prop_assert!(at <= now + PATIENCE);
            }
            prop_assert_eq!(turns.deadline().is_some(), waiting.iter().any(Option::is_some));
        }
    }
}
