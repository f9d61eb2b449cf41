//! One track's access units in the order of decoding, whatever the order in which its segments come.

use super::counters::Counters;
use glassline_media::{AccessUnit, Ticks, Time};
use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

/// How long a gap in front of a segment may take to be filled by another request.
const GAP_WAIT: Duration = Duration::from_millis(250);
/// A gap up to this long is none while the request before it may fill it: stamps are rounded.
const ROUNDING: i64 = 900;
/// A gap up to this long is none where that request is over: encoders leave a picture out, and cameras are late.
const LEFT_OUT: i64 = 9000;
/// A time that is further away than this from where the track was begins it anew.
const JUMP: i64 = 10 * Ticks::RATE as i64;

/// A unit of a track, and where it came from.
#[derive(Clone, Debug)]
pub(super) struct Arrived {
    pub(super) unit: AccessUnit,
    /// How long it lasts; 0 where its sample does not say.
    pub(super) duration: Ticks,
    /// The request that brought it.
    pub(super) body: u64,
    pub(super) at: Time,
    /// The track's times begin anew with it.
    pub(super) jumps: bool,
}

/// Puts a track's units in order: each once, none behind a later one. What follows the unit before it goes on at once.
#[derive(Debug, Default)]
pub(super) struct Order {
    /// Goes on without a look.
    ready: VecDeque<Arrived>,
    /// Ascending by decoding time.
    held: VecDeque<Arrived>,
    /// The newest unit that went on, where it ends, and its request.
    last: Option<(Ticks, Ticks, u64)>,
    /// Requests that have brought units and are not over.
    open: BTreeSet<u64>,
    bytes: usize,
    /// How long the last unit lasts that says it; 0: none has.
    usual: Ticks,
}

impl Order {
    /// Takes a unit. One that is there already, or too late, is dropped and counted.
    pub(super) fn push(&mut self, mut arrived: Arrived, counters: &mut Counters) {
        self.mend(&mut arrived);
        let dts = arrived.unit.dts;
        let newest = self.held.back().map(|held| held.unit.dts).or(self.last.map(|(dts, ..)| dts));
        if newest.is_some_and(|newest| (dts - newest).0.saturating_abs() > JUMP) {
            self.ready.append(&mut self.held);
            self.last = None;
            arrived.jumps = true;
        }
        if self.last.is_some_and(|(last, ..)| dts <= last) {
            counters.late_units = counters.late_units.saturating_add(1);
            return;
        }
        let place = self.held.partition_point(|held| held.unit.dts < dts);
        if self.held.get(place).is_some_and(|held| held.unit.dts == dts) {
            counters.late_units = counters.late_units.saturating_add(1);
            return;
        }
        self.bytes = self.bytes.saturating_add(arrived.unit.data.len());
        self.open.insert(arrived.body);
        self.held.insert(place, arrived);
    }

    /// FFmpeg 7.1 (`frag_every_frame`) writes 0 for a duration that it does not know yet, and stamps that sample with the time at
    /// which it ends: the next one may have the same stamp. Such a sample begins where the one before it in its request ends.
    fn mend(&mut self, arrived: &mut Arrived) {
        if arrived.duration > Ticks(0) {
            self.usual = arrived.duration;
            return;
        }
        let newest = self.held.back().map(|held| (held.unit.dts, held.body));
        let newest = newest.or(self.last.map(|(dts, _, body)| (dts, body)));
        let Some((before, _)) = newest.filter(|(_, body)| *body == arrived.body) else { return };
        let usual = self.usual.0;
        let early = Ticks(arrived.unit.dts.0.saturating_sub(usual));
        let apart = (early - before).0.saturating_sub(usual).saturating_abs();
        if usual > 0 && apart <= ROUNDING {
            arrived.unit.pts = Ticks(arrived.unit.pts.0.saturating_sub(usual));
            arrived.unit.dts = early;
        }
    }

    /// A request is over, and brings no more.
    pub(super) fn end(&mut self, body: u64) {
        self.open.remove(&body);
    }

    /// The next unit that may go on.
    pub(super) fn poll(&mut self, now: Time, counters: &mut Counters) -> Option<Arrived> {
        let next = match self.ready.pop_front() {
            Some(next) => next,
            None => {
                if self.waits_until().is_some_and(|at| now < at) {
                    return None;
                }
                let next = self.held.pop_front()?;
                counters.gaps = counters.gaps.saturating_add(self.is_behind_gap(&next).into());
                next
            }
        };
        self.bytes = self.bytes.saturating_sub(next.unit.data.len());
        self.last = Some((next.unit.dts, next.unit.dts + next.duration, next.body));
        Some(next)
    }

    /// When [`Order::poll`] gives what it does not give yet.
    pub(super) fn waits_until(&self) -> Option<Time> {
        if !self.ready.is_empty() {
            return None;
        }
        let next = self.held.front()?;
        self.is_behind_gap(next).then(|| next.at + GAP_WAIT)
    }

    /// Whether something is missing in front of the unit that another request may bring. What an encoder leaves out within
    /// one request comes no more.
    fn is_behind_gap(&self, next: &Arrived) -> bool {
        self.last.is_some_and(|(_, end, body)| {
            let least = if self.open.contains(&body) { ROUNDING } else { LEFT_OUT };
            body != next.body && (next.unit.dts - end).0 > least
        })
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The first unit that waits.
    pub(super) fn first(&self) -> Option<&AccessUnit> {
        self.ready.front().or(self.held.front()).map(|held| &held.unit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packager::testing::{PICTURE, picture};

    fn unit(number: i64, body: u64, at_ms: u64) -> Arrived {
        Arrived {
            unit: picture(number == 0, 10, number * PICTURE),
            duration: Ticks(PICTURE),
            body,
            at: Time::from_millis(at_ms),
            jumps: false,
        }
    }

    #[derive(Default)]
    struct Track {
        order: Order,
        counters: Counters,
    }

    impl Track {
        fn push(&mut self, number: i64, body: u64, at_ms: u64) -> Vec<i64> {
            self.order.push(unit(number, body, at_ms), &mut self.counters);
            self.poll(at_ms)
        }

        fn poll(&mut self, at_ms: u64) -> Vec<i64> {
            let now = Time::from_millis(at_ms);
            let next = || Some(self.order.poll(now, &mut self.counters)?.unit.dts.0 / PICTURE);
            std::iter::from_fn(next).collect()
        }
    }

    #[test]
    fn samples_that_are_stamped_with_their_end_are_neither_lost_nor_moved() {
        let mut track = Track::default();
        // As FFmpeg 7.1 has them: the stamp, and the duration, both in pictures.
        let said = [(0, 1), (2, 0), (2, 1), (3, 1), (5, 0), (6, 0), (7, 0), (7, 1), (9, 0), (9, 1), (10, 1)];
        for (number, duration) in said {
            let duration = Ticks(duration * PICTURE);
            track.order.push(Arrived { duration, ..unit(number, 1, 0) }, &mut track.counters);
        }
        let given = std::iter::from_fn(|| track.order.poll(Time::ZERO, &mut track.counters));
        let numbers: Vec<_> = given.map(|given| given.unit.dts.0 / PICTURE).collect();
        assert_eq!(numbers, (0..11).collect::<Vec<_>>());
        assert_eq!((track.counters.late_units, track.counters.gaps), (0, 0));
        // One that says no duration and is where it belongs stays there.
        let mut track = Track::default();
        for number in 0..4 {
            track.order.push(Arrived { duration: Ticks(0), ..unit(number, 1, 0) }, &mut track.counters);
        }
        let given = std::iter::from_fn(|| track.order.poll(Time::ZERO, &mut track.counters));
        assert_eq!(given.map(|given| given.unit.dts.0 / PICTURE).collect::<Vec<_>>(), [0, 1, 2, 3]);
    }

    #[test]
    fn what_follows_goes_on_at_once_and_each_but_once() {
        let mut track = Track::default();
        assert_eq!(track.push(0, 1, 0), [0]);
        assert_eq!(track.push(1, 1, 0), [1]);
        assert_eq!(track.push(2, 2, 0), [2]);
        assert_eq!(track.push(1, 2, 0), [0; 0]);
        assert_eq!(track.push(2, 3, 0), [0; 0]);
        assert_eq!(track.counters.late_units, 2);
        assert_eq!(track.order.bytes(), 0);
    }

    #[test]
    fn segments_in_the_wrong_order_are_put_right() {
        let mut track = Track::default();
        assert_eq!(track.push(0, 1, 0), [0]);
        track.order.end(1);
        assert_eq!(track.push(5, 3, 10), [0; 0]);
        assert_eq!(track.push(6, 3, 20), [0; 0]);
        assert_eq!(track.push(6, 4, 20), [0; 0]);
        assert_eq!(track.order.waits_until(), Some(Time::from_millis(260)));
        for number in 1..4 {
            assert_eq!(track.push(number, 2, 30), [number], "and what it still brings is waited for");
        }
        assert_eq!(track.push(4, 2, 30), [4, 5, 6]);
        assert_eq!((track.counters.late_units, track.counters.gaps), (1, 0));
    }

    #[test]
    fn a_segment_that_never_comes_is_waited_for_once() {
        let mut track = Track::default();
        assert_eq!(track.push(0, 1, 0), [0]);
        assert_eq!(track.push(50, 3, 10), [0; 0]);
        assert_eq!(track.push(51, 3, 20), [0; 0]);
        assert_eq!(track.poll(259), [0; 0]);
        assert_eq!(track.poll(260), [50, 51]);
        assert_eq!(track.push(52, 3, 261), [52]);
        assert_eq!(track.push(1, 2, 300), [0; 0]);
        assert_eq!((track.counters.late_units, track.counters.gaps), (1, 1));
    }

    #[test]
    fn a_picture_that_an_encoder_left_out_between_segments_is_not_waited_for() {
        let mut track = Track::default();
        assert_eq!(track.push(0, 1, 0), [0]);
        track.order.end(1);
        assert_eq!(track.push(2, 2, 10), [2]);
    }

    #[test]
    fn a_gap_within_a_request_is_the_encoders_own() {
        let mut track = Track::default();
        assert_eq!(track.push(0, 1, 0), [0]);
        assert_eq!(track.push(100, 1, 1), [100]);
        assert_eq!(track.counters.gaps, 0);
    }

    #[test]
    fn a_track_that_begins_anew_jumps() {
        let mut track = Track::default();
        assert_eq!(track.push(1000, 1, 0), [1000]);
        track.order.push(unit(0, 2, 5), &mut track.counters);
        let jumped = track.order.poll(Time::ZERO, &mut track.counters).unwrap();
        assert!(jumped.jumps);
        assert_eq!(track.push(1, 2, 5), [1]);
        assert_eq!((track.counters.late_units, track.counters.gaps), (0, 0));
    }
}
