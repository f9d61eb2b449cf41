//! Which packets came, and when to say so.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::Time;
use std::time::Duration;

use super::wire::frame;

/// The most ranges remembered; the oldest goes where another is needed.
const MAX_RANGES: usize = 64;
/// Packets that ask for an acknowledgement, at most, before one is sent at once.
const MANY: u32 = 64;

/// The numbers of packets received, and what of them is still to be acknowledged.
#[derive(Debug, Default)]
pub(crate) struct Received {
    /// First and last number, ascending.
    ranges: Vec<(u64, u64)>,
    largest_at: Time,
    /// When the first packet that asks for an acknowledgement and has none came.
    asked_at: Option<Time>,
    asked: u32,
    /// A number is missing before one that asks for an acknowledgement, or one came late: the sender should know at once
    /// (RFC 9000 §13.2.1).
    disorder: bool,
    acked_at: Time,
}

impl Received {
    pub(crate) fn largest(&self) -> Option<u64> {
        self.ranges.last().map(|range| range.1)
    }

    /// A packet has come that did not come before.
    #[inline]
    pub(crate) fn insert(&mut self, now: Time, number: u64, eliciting: bool) {
        match self.ranges.last_mut() {
            Some(last) if number == last.1.saturating_add(1) => last.1 = number,
            Some(last) if number > last.1 => {
                // Where this one asks for nothing, the next one that asks has the gap before it all the same.
                self.disorder = true;
                self.ranges.push((number, number));
            }
            None => self.ranges.push((number, number)),
            Some(_) => {
                self.disorder |= eliciting;
                self.insert_late(number);
            }
        }
        if self.largest() == Some(number) {
            self.largest_at = now;
        }
        if self.ranges.len() > MAX_RANGES {
            self.ranges.remove(0);
        }
        if eliciting {
            self.asked = self.asked.saturating_add(1);
            self.asked_at.get_or_insert(now);
        }
    }

    fn insert_late(&mut self, number: u64) {
        let at = self.ranges.partition_point(|range| range.1 < number);
        if self.ranges[at].0 <= number {
            return;
        }
        let before = at.checked_sub(1).filter(|at| self.ranges[*at].1.saturating_add(1) == number);
        let joins_after = self.ranges[at].0 == number.saturating_add(1);
        match (before, joins_after) {
            (Some(before), true) => {
                self.ranges[before].1 = self.ranges[at].1;
                self.ranges.remove(at);
            }
            (Some(before), false) => self.ranges[before].1 = number,
            (None, true) => self.ranges[at].0 = number,
            (None, false) => self.ranges.insert(at, (number, number)),
        }
    }

    /// When an acknowledgement is due at the latest; the more often, the shorter the way (`rtt`).
    pub(crate) fn next_timeout(&self, rtt: Duration) -> Time {
        let Some(asked_at) = self.asked_at else { return Time::NEVER };
        if self.asked >= MANY || self.disorder {
            return asked_at;
        }
        let spacing = divided(rtt, 16).min(Duration::from_millis(4));
        let timeout = max_delay(rtt);
        if self.asked >= 2 {
            asked_at.max(self.acked_at + spacing).min(asked_at + timeout)
        } else {
            asked_at + timeout
        }
    }

    /// Whether anything that asks for it is not acknowledged.
    pub(crate) fn is_asked(&self) -> bool {
        self.asked_at.is_some()
    }

    /// Appends an ACK of all that came, if anything did; gives the largest number in it.
    pub(crate) fn write_ack(
        &mut self,
        now: Time,
        epoch: Time,
        arrival_ns: u64,
        out: &mut Vec<u8>,
    ) -> Option<u64> {
        let largest = self.largest()?;
        let micros = |duration: Duration| u64::try_from(duration.as_micros()).unwrap_or(u64::MAX);
        let (delay, at) = (micros(now - self.largest_at), micros(self.largest_at - epoch));
        frame::write_ack(self.ranges.iter().rev().copied(), delay, at, arrival_ns, out);
        (self.asked_at, self.asked, self.disorder, self.acked_at) = (None, 0, false, now);
        Some(largest)
    }

    /// The largest possible size of the ACK, bytes.
    pub(crate) fn ack_size(&self) -> usize {
        frame::ack_size(self.ranges.len().min(frame::MAX_RANGES))
    }

    /// The other end has our acknowledgement of everything up to `largest`: older ranges need not be told again.
    pub(crate) fn handle_ack_of_ack(&mut self, largest: u64) {
        let keep = self.ranges.partition_point(|range| range.1 < largest);
        self.ranges.drain(..keep.min(self.ranges.len().saturating_sub(1)));
    }
}

/// How long an acknowledgement may wait on a way of `rtt`: a fourth of it, between 1 and 10 ms. Both ends reckon so.
pub(crate) fn max_delay(rtt: Duration) -> Duration {
    divided(rtt, 4).clamp(Duration::from_millis(1), Duration::from_millis(10))
}

/// A part of `time`; nothing for `by` zero.
pub(super) fn divided(time: Duration, by: u32) -> Duration {
    time.checked_div(by).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::wire::frame::Frame;
    use crate::link::wire::varint::Reader;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        #[test]
        fn an_ack_tells_what_came(numbers in prop::collection::vec(0u64..50, 1..80)) {
            let (mut received, mut set) = (Received::default(), BTreeSet::new());
            for number in numbers {
                if set.insert(number) {
                    received.insert(Time::ZERO, number, true);
                }
            }
            let mut out = Vec::new();
            received.write_ack(Time::ZERO, Time::ZERO, 0, &mut out);
            let Some(Frame::Ack(ack)) = Frame::parse(&mut Reader::new(&out)) else { panic!("no ACK") };
            let told: BTreeSet<u64> = ack.ranges().flat_map(|(low, high)| low..=high).collect();
            prop_assert_eq!(told, set);
            prop_assert!(!received.is_asked());
        }
    }

    #[test]
    fn acks_are_sent_in_time_and_not_for_each_packet() {
        let (mut received, rtt) = (Received::default(), Duration::from_millis(160));
        assert_eq!(received.next_timeout(rtt), Time::NEVER);
        received.insert(Time::from_millis(5), 0, true);
        assert_eq!(received.next_timeout(rtt), Time::from_millis(15), "one waits for another");
        received.insert(Time::from_millis(6), 1, true);
        assert_eq!(received.next_timeout(rtt), Time::from_millis(5), "two don't");
        let mut out = Vec::new();
        received.write_ack(Time::from_millis(6), Time::ZERO, 0, &mut out);
        received.insert(Time::from_millis(7), 2, true);
        received.insert(Time::from_millis(7), 3, true);
        assert_eq!(received.next_timeout(rtt), Time::from_millis(10), "but not all too often");
        received.insert(Time::from_millis(7), 5, true);
        assert_eq!(received.next_timeout(rtt), Time::from_millis(7), "a gap is told at once");
    }

    #[test]
    fn a_packet_that_asks_for_nothing_does_not_hide_the_gap_before_the_next_one() {
        let (mut received, rtt) = (Received::default(), Duration::from_millis(40));
        received.insert(Time::from_millis(1), 0, false);
        // After an outage: an acknowledgement, and behind it a probe.
        received.insert(Time::from_millis(9_000), 40, false);
        assert_eq!(received.next_timeout(rtt), Time::NEVER, "it asks for nothing");
        received.insert(Time::from_millis(9_015), 41, true);
        assert_eq!(received.next_timeout(rtt), Time::from_millis(9_015), "a gap is told at once");
        let mut out = Vec::new();
        received.write_ack(Time::from_millis(9_015), Time::ZERO, 0, &mut out);
        received.insert(Time::from_millis(9_020), 42, true);
        assert_eq!(received.next_timeout(rtt), Time::from_millis(9_030), "once");
    }

    #[test]
    fn what_is_known_to_be_known_is_forgotten_and_memory_is_bounded() {
        let mut received = Received::default();
        (0..1000u64).for_each(|number| received.insert(Time::ZERO, number * 2, true));
        assert_eq!(received.ranges.len(), MAX_RANGES);
        received.handle_ack_of_ack(1990);
        assert_eq!(received.ranges.len(), 5);
        received.handle_ack_of_ack(5000);
        assert_eq!(received.largest(), Some(1998));
    }
}
