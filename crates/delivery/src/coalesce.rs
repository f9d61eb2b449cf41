//! Which viewers a worker serves when a stream has news.
//!
//! What a worker costs is the number of its sends: one that carries two pictures costs little more than one that carries
//! one. So a worker that has time sends each picture to each viewer by itself, and a busy one lets several leave in one
//! send. How many is any number from 1 to 6, not a whole one, so that a worker's load and its viewers' delay change
//! smoothly with each other.
//!
//! A stream's viewers are divided into groups, and the sends of the groups are spread evenly over the pictures:
//!
//! ```text
//! pictures            1    2    3    4    5    6        1.5 pictures a send
//! group 0             ■    ─────■    ■    ─────■
//! group 1             ─────■    ■    ─────■    ■
//! group 2             ■    ■    ─────■    ■    ────
//! ```
//! Viewers that have waited for one picture more are served before the others, so that a round's length adds little to
//! their delay. A key frame, which makes the longest rounds, goes to a part of the viewers at a time.

use glassline_media::Time;
use std::time::Duration;

/// Pictures a send, at most.
pub const MOST_PICTURES: f64 = 6.0;
/// Enough that a group is a small part of a round, and that each of 1, 2, 3, 4 and 6 pictures a send has whole groups.
const GROUPS: usize = 12;
/// The longest that bytes wait for a group's next send: of a stream with few pictures fewer leave together.
const SEND_WAIT_MAX: Duration = Duration::from_millis(100);
/// News further apart than this say nothing about when the next come.
const LONGEST_INTERVAL: Duration = Duration::from_millis(500);
/// What leaves as one packet of segmentation offload, about: a send with more costs as much as two.
const PACKET_BYTES: u64 = 60_000;
/// A whole send, in the steps in which a group's progress to its next one is counted: [`GROUPS`] and each whole number of
/// pictures divide it.
const SEND: u32 = 55_440;

/// When a stream's viewers on a worker are served, by groups of the numbers of their slots.
#[derive(Debug)]
pub struct Coalescer {
    groups: [Group; GROUPS],
    last_news: Option<Time>,
    /// Time between news; a running mean.
    interval: Option<Duration>,
    /// How many leave together now.
    pictures: f64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    /// What is there of its next send, of [`SEND`].
    progress: u32,
    /// Since when there is something for it.
    waiting_since: Option<Time>,
}

/// Which viewers are served.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// A bit for each group.
    groups: u32,
    /// Those of them for whom there was something before the last news.
    waited: u32,
}

fn bit(slot: u32) -> u32 {
    1 << (slot % GROUPS as u32)
}

impl Chosen {
    const ALL: Chosen = Chosen { groups: (1 << GROUPS) - 1, waited: 0 };

    /// Whether the viewer in `slot` is served.
    pub fn has(self, slot: u32) -> bool {
        self.groups & bit(slot) != 0
    }

    /// Whether the viewer in `slot` waited already before these news. The caller serves such viewers first.
    pub fn has_waited(self, slot: u32) -> bool {
        self.waited & bit(slot) != 0
    }

    /// Whether there are none.
    pub fn is_none(self) -> bool {
        self.groups == 0
    }
}

impl Default for Coalescer {
    fn default() -> Coalescer {
        let group =
            |number: usize| Group { progress: number as u32 * (SEND / GROUPS as u32), waiting_since: None };
        Coalescer { groups: std::array::from_fn(group), last_news: None, interval: None, pictures: 1.0 }
    }
}

/// Up to how many pictures a send saves work, where each news of a stream brings `brings` bytes (0 where that is not known):
/// a send with more pictures would not leave as one packet.
pub fn useful(brings: u64) -> f64 {
    (PACKET_BYTES / brings.max(1)).clamp(1, MOST_PICTURES as u64) as f64
}

impl Coalescer {
    /// The stream has news, which bring `brings` bytes each time, and the worker wants `wanted` pictures in a send. Returns
    /// the viewers that the worker has to serve now.
    pub fn news(&mut self, wanted: f64, brings: u64, now: Time) -> Chosen {
        let gap = self.last_news.replace(now).map(|last| now.since(last));
        if let Some(gap) = gap.filter(|gap| *gap < LONGEST_INTERVAL) {
            self.interval = Some(self.interval.map_or(gap, |mean| (mean * 7 + gap) / 8));
        }
        self.pictures = wanted.clamp(1.0, self.pictures_within_wait().min(useful(brings)));
        let waited = self.chosen(|group| group.waiting_since.is_some());
        // Rounded up: after three thirds of a send there is one.
        let step = (f64::from(SEND) / self.pictures).ceil() as u32;
        for group in &mut self.groups {
            group.waiting_since.get_or_insert(now);
            group.progress += step;
        }
        let is_late = self.late_at(now);
        let groups = self.chosen(|group| group.progress >= SEND || is_late(group));
        for group in &mut self.groups {
            group.progress %= SEND;
        }
        self.take(groups, waited)
    }

    /// The stream is over: all viewers are told.
    pub fn end(&mut self) -> Chosen {
        self.take(Chosen::ALL.groups, 0);
        Chosen::ALL
    }

    /// Which viewers have waited for so long that the news with which they would be served seem to be late.
    pub fn due(&mut self, now: Time) -> Chosen {
        let groups = self.chosen(self.late_at(now));
        self.take(groups, groups)
    }

    /// When the first group will be [due](Coalescer::due); `None` while no group waits. Every call that takes `&mut self`
    /// may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        Some(self.groups.iter().filter_map(|group| group.waiting_since).min()? + self.send_wait())
    }

    /// Pictures a send that [`SEND_WAIT_MAX`] is enough for.
    fn pictures_within_wait(&self) -> f64 {
        let Some(interval) = self.interval else { return 1.0 };
        (SEND_WAIT_MAX.as_micros() / interval.as_micros().max(1) + 1) as f64
    }

    /// Each group's send comes within one interval less, where news come as they are used to.
    fn send_wait(&self) -> Duration {
        (self.interval.unwrap_or_default() * self.pictures.ceil() as u32).min(SEND_WAIT_MAX)
    }

    fn late_at(&self, now: Time) -> impl Fn(&Group) -> bool + use<> {
        let wait = self.send_wait();
        move |group| group.waiting_since.is_some_and(|since| now >= since + wait)
    }

    fn chosen(&self, is_chosen: impl Fn(&Group) -> bool) -> u32 {
        let chosen = self.groups.iter().enumerate().filter(|(_, group)| is_chosen(group));
        chosen.fold(0, |groups, (number, _)| groups | 1 << number)
    }

    fn take(&mut self, groups: u32, waited: u32) -> Chosen {
        for (number, group) in self.groups.iter_mut().enumerate() {
            if groups >> number & 1 == 1 {
                group.waiting_since = None;
            }
        }
        Chosen { groups, waited: waited & groups }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const PICTURE: Duration = Duration::from_millis(20);

    /// So many pictures, of which `wanted` are to leave together: how many groups each serves, and how many of those have
    /// waited.
    fn served(coalescer: &mut Coalescer, wanted: f64, pictures: usize) -> Vec<(u32, u32)> {
        (0..pictures)
            .map(|_| {
                let now = coalescer.last_news.unwrap_or_default() + PICTURE;
                let chosen = coalescer.news(wanted, 0, now);
                assert_eq!(chosen.waited & !chosen.groups, 0);
                (chosen.groups.count_ones(), chosen.waited.count_ones())
            })
            .collect()
    }

    #[test]
    fn each_picture_goes_to_all_or_to_an_even_part_of_the_viewers() {
        let mut coalescer = Coalescer::default();
        assert_eq!(served(&mut coalescer, 1.0, 2), [(12, 0); 2]);
        assert_eq!(served(&mut coalescer, 2.0, 4)[1..], [(6, 6); 3], "those that have waited");
        assert_eq!(served(&mut coalescer, 1.5, 9)[1..], [(8, 4); 8]);
        assert_eq!(served(&mut coalescer, 6.0, 9)[1..], [(2, 2); 8]);
        assert_eq!(served(&mut coalescer, 1.0, 3), [(12, 10), (12, 0), (12, 0)]);
    }

    #[test]
    fn any_number_of_pictures_can_leave_together() {
        for tenths in 10..=60 {
            let (mut coalescer, wanted) = (Coalescer::default(), f64::from(tenths) / 10.0);
            let sends: u32 = served(&mut coalescer, wanted, 600).iter().map(|(groups, _)| groups).sum();
            let pictures = 600.0 * 12.0 / f64::from(sends);
            assert!((pictures / wanted - 1.0).abs() < 0.02, "{wanted}: {pictures}");
        }
    }

    #[test]
    fn a_stream_with_few_pictures_lets_few_leave_together() {
        let (mut coalescer, mut now) = (Coalescer::default(), Time::ZERO);
        for (millis, most) in [(200, 1.0), (60, 2.0), (5, 6.0)] {
            for _ in 0..60 {
                now += Duration::from_millis(millis);
                coalescer.news(6.0, 0, now);
            }
            assert_eq!(coalescer.pictures, most, "each {millis} ms");
        }
    }

    #[test]
    fn a_send_brings_no_more_than_a_packet_takes() {
        for (picture, most) in
            [(0, 6.0), (1_000, 6.0), (12_500, 4.0), (25_000, 2.0), (50_000, 1.0), (125_000, 1.0)]
        {
            assert_eq!(useful(picture), most, "{picture}");
            let mut coalescer = Coalescer::default();
            for number in 1..9 {
                coalescer.news(6.0, picture, Time::ZERO + PICTURE * number);
            }
            assert_eq!(coalescer.pictures, most, "{picture}");
        }
    }

    proptest! {
        /// However news come, each viewer for whom there is something gets it before its deadline, and none is served for
        /// nothing.
        #[test]
        fn no_viewer_waits_longer_than_may_be(
            steps in proptest::collection::vec((1u64..150, 1f64..8.0, 0u64..100_000), 1..200),
        ) {
            let (mut coalescer, mut now) = (Coalescer::default(), Time::ZERO);
            let mut waiting: Vec<Option<Time>> = vec![None; 24];
            for (millis, wanted, bytes) in steps {
                let next = now + Duration::from_millis(millis);
                while let Some(at) = coalescer.poll_timeout().filter(|at| *at < next) {
                    now = now.max(at);
                    let chosen = coalescer.due(now);
                    prop_assert!(!chosen.is_none());
                    for (slot, since) in waiting.iter_mut().enumerate() {
                        if chosen.has(slot as u32) {
                            prop_assert!(since.take().is_some(), "served for nothing");
                        }
                    }
                }
                now = next;
                let waited: Vec<bool> = waiting.iter().map(Option::is_some).collect();
                waiting.iter_mut().for_each(|since| { since.get_or_insert(now); });
                let chosen = coalescer.news(wanted, bytes, now);
                for (slot, since) in waiting.iter_mut().enumerate() {
                    if chosen.has(slot as u32) {
                        *since = None;
                        prop_assert_eq!(chosen.has_waited(slot as u32), waited[slot]);
                    }
                    prop_assert!(since.is_none_or(|since| now.since(since) <= SEND_WAIT_MAX));
                }
            }
            if let Some(at) = coalescer.poll_timeout() {
                prop_assert!(at <= now + SEND_WAIT_MAX);
            }
            prop_assert_eq!(coalescer.poll_timeout().is_some(), waiting.iter().any(Option::is_some));
        }
    }
}
