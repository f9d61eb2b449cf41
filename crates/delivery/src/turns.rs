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
/// What leaves as one packet of segmentation offload, about: a turn with more costs as much as two.
const PACKET_BYTES: f64 = 60_000.0;
/// How far the mean of what news bring may stray before there are other turns: a change serves everybody at once.
const STRAY: f64 = 1.2;

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
    last_head: Option<u64>,
    /// What news bring; a running mean.
    bytes: Option<f64>,
    /// Turns that bring as much together as leaves as one packet.
    in_a_packet: u32,
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
        Turns {
            count: 1,
            next: 0,
            waiting_since: Default::default(),
            last_news: None,
            interval: None,
            last_head: None,
            bytes: None,
            in_a_packet: MOST_TURNS,
        }
    }
}

impl Turns {
    /// There is news, up to offset `head` of the stream, on a worker that has `wanted` turns. Returns who is to be served.
    pub fn news(&mut self, wanted: u32, head: u64, now: Time) -> Chosen {
        let brought = self.last_head.replace(head).map(|last| head.saturating_sub(last) as f64);
        if let Some(brought) = brought {
            // Key frames come seldom, and are no reason for other turns.
            self.bytes = Some(self.bytes.map_or(brought, |mean| mean + (brought - mean) / 32.0));
        }
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

    /// When the first group will be [due](Turns::due); `None` while no group waits. Every call that takes `&mut self` may
    /// change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.waiting_since.iter().flatten().min().copied()? + self.patience())
    }

    /// Turns that save anything: with more of them each would bring more than leaves as one packet.
    pub fn useful(&self) -> u32 {
        self.in_a_packet.min(MOST_TURNS)
    }

    fn take(&mut self, groups: u32) -> Chosen {
        for (group, waiting) in self.waiting_since.iter_mut().enumerate() {
            if groups >> group & 1 == 1 {
                *waiting = None;
            }
        }
        Chosen { count: self.count, groups }
    }

    /// As many turns as there is patience for, and as bring anything: it is packets that cost, not their bytes.
    fn fitting(&mut self, wanted: u32) -> u32 {
        let Some(interval) = self.interval else { return 1 };
        let most = PATIENCE.as_micros() / interval.as_micros().max(1) + 1;
        if let Some(bytes) = self.bytes {
            let turns = |bytes: f64| ((PACKET_BYTES / bytes.max(1.0)) as u32).max(1);
            if !(turns(bytes * STRAY)..=turns(bytes / STRAY)).contains(&self.in_a_packet) {
                self.in_a_packet = turns(bytes);
            }
        }
        let most = u32::try_from(most).unwrap_or(u32::MAX).min(self.in_a_packet);
        wanted.clamp(1, MOST_TURNS).min(most)
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
            let chosen = turns.news(wanted, 0, now);
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
                turns.news(6, 0, now);
            }
            assert_eq!(turns.count, most, "each {millis} ms");
        }
    }

    #[test]
    fn a_turn_brings_no_more_than_a_packet_takes() {
        for (picture, most) in [(1_000, 6), (12_500, 4), (25_000, 2), (50_000, 1), (125_000, 1)] {
            let (mut turns, mut now, mut head, mut changes) = (Turns::default(), Time::ZERO, 0, 0);
            for number in 0..1000 {
                now += PICTURE;
                // A key frame a second, five times as large, and others that differ.
                head += if number % 50 == 0 { 5 * picture } else { picture * (80 + number % 30) / 100 };
                let before = turns.count;
                turns.news(6, head, now);
                changes += u32::from(number > 200 && turns.count != before);
            }
            assert!(
                (1..=most).contains(&turns.count) && turns.count + 1 >= most,
                "{picture}: {}",
                turns.count
            );
            assert_eq!(changes, 0, "{picture}");
        }
    }

    proptest! {
        /// However news come, whoever has something to get gets it before its deadline, and nobody is served for nothing.
        #[test]
        fn nobody_waits_beyond_the_patience(
            steps in proptest::collection::vec((1u64..150, 1u32..8, 0u64..100_000), 1..200),
        ) {
            let (mut turns, mut now, mut head) = (Turns::default(), Time::ZERO, 0);
            let mut waiting: Vec<Option<Time>> = vec![None; 12];
            for (millis, wanted, bytes) in steps {
                head += bytes;
                let next = now + Duration::from_millis(millis);
                while let Some(at) = turns.poll_timeout().filter(|at| *at < next) {
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
                let chosen = turns.news(wanted, head, now);
                for (slot, since) in waiting.iter_mut().enumerate() {
                    if chosen.has(slot as u32) {
                        *since = None;
                    }
                    prop_assert!(since.is_none_or(|since| now.since(since) <= PATIENCE));
                }
            }
            if let Some(at) = turns.poll_timeout() {
                prop_assert!(at <= now + PATIENCE);
            }
            prop_assert_eq!(turns.poll_timeout().is_some(), waiting.iter().any(Option::is_some));
        }
    }
}
