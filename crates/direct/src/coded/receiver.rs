//! The receiving end of access units: gives them in order, and none without what it needs.

use super::wire::UnitHeader;
use crate::wire::{LackingPicture, Report, WireError};
use bytes::Bytes;
use glassline_media::Time;
use std::collections::BTreeMap;
use std::time::Duration;

/// Units that wait for one before them, at most.
const WAITING_MAX: usize = 64;
/// For so long a unit waits for the one that it needs: it is being sent again.
const FRAME_TIMEOUT: Duration = Duration::from_millis(300);

/// A unit that can be decoded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReceivedUnit {
    /// What the sender said of it.
    pub header: UnitHeader,
    /// Annex B.
    pub data: Bytes,
    /// Units before it were lost, which it does not need.
    pub after_gap: bool,
}

/// Takes the access units of channel [`VIDEO`](crate::VIDEO).
///
/// Numbers of one run of the sender rise, whatever comes: a run's place is taken by another one only with the first unit of
/// that which can be given, so that what was given last is always known.
#[derive(Debug, Default)]
pub struct CodedReceiver {
    /// The run of which a unit was given last.
    run: Option<Run>,
    /// Another one that nothing could be given of yet.
    next: Option<Run>,
    shown: u64,
    passed: u64,
}

/// What is known of one run of the sender.
#[derive(Debug, Default)]
struct Run {
    epoch: u32,
    waiting: BTreeMap<u64, (UnitHeader, Bytes, Time)>,
    /// The newest that was given, and the newest of those that others refer to.
    given: Option<u64>,
    reference: Option<u64>,
    newest: Option<u64>,
    lacking: Option<LackingPicture>,
    is_due: bool,
    shown: u64,
    passed: u64,
}

impl CodedReceiver {
    /// An end that holds nothing yet.
    pub fn new() -> CodedReceiver {
        CodedReceiver::default()
    }

    /// Takes a message; returns the units that can be decoded now, in order.
    ///
    /// # Errors
    /// It is no such message.
    pub fn handle(&mut self, now: Time, message: &Bytes) -> Result<Vec<ReceivedUnit>, WireError> {
        let (header, data) = UnitHeader::parse(message)?;
        let data = message.slice_ref(data);
        let epoch = header.epoch;
        let is_next = self.run.as_ref().is_none_or(|run| run.epoch != epoch);
        if is_next && self.next.as_ref().is_none_or(|next| next.epoch != epoch) {
            self.next = Some(Run { epoch, ..Run::default() });
        }
        let Some(run) = (if is_next { &mut self.next } else { &mut self.run }) else {
            return Ok(Vec::new());
        };
        let passed = run.passed;
        let units = run.handle(now, header, data);
        self.passed += run.passed - passed;
        self.shown += units.len() as u64;
        if is_next && !units.is_empty() {
            self.run = self.next.take();
        }
        Ok(units)
    }

    fn runs(&self) -> impl Iterator<Item = &Run> {
        self.run.iter().chain(&self.next)
    }

    fn runs_mut(&mut self) -> impl Iterator<Item = &mut Run> {
        self.run.iter_mut().chain(&mut self.next)
    }

    /// When the caller has to call [`CodedReceiver::handle_timeout`], if at all.
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = self.runs().flat_map(|run| run.waiting.values());
        waiting.map(|(_, _, since)| *since + FRAME_TIMEOUT).min()
    }

    /// Time has passed: what waits for too long is given up, and the sender is told.
    pub fn handle_timeout(&mut self, now: Time) {
        let passed: u64 = self.runs_mut().map(|run| run.expire(now)).sum();
        self.passed += passed;
    }

    /// A message for channel [`REPORTS`](crate::REPORTS), where there is something to say. Where two runs of the sender have
    /// something, the newer one's is first.
    pub fn poll_report(&mut self) -> Option<Vec<u8>> {
        let run = self.next.iter_mut().chain(&mut self.run).find(|run| run.is_due)?;
        run.is_due = false;
        let Run { epoch, newest, lacking, shown, passed, .. } = *run;
        Some(Report { epoch, newest, lacking, shown, passed, ..Report::default() }.to_bytes())
    }

    /// Units that were given, and those that came and were not, of all runs.
    pub fn counts(&self) -> (u64, u64) {
        (self.shown, self.passed)
    }
}

impl Run {
    fn handle(&mut self, now: Time, header: UnitHeader, data: Bytes) -> Vec<ReceivedUnit> {
        self.is_due = true;
        self.newest = self.newest.max(Some(header.number));
        if self.given >= Some(header.number) {
            self.passed += 1;
            return Vec::new();
        }
        self.waiting.insert(header.number, (header, data, now));
        while self.waiting.len() > WAITING_MAX {
            self.waiting.pop_first();
            self.passed += 1;
        }
        self.give()
    }

    /// Gives what can be decoded.
    fn give(&mut self) -> Vec<ReceivedUnit> {
        let mut units = Vec::new();
        loop {
            let can_go = |header: &UnitHeader| match header.needs {
                None => true,
                Some(needs) => self.reference == Some(needs),
            };
            let ready =
                self.waiting.iter().find(|(_, (header, _, _))| can_go(header)).map(|(number, _)| *number);
            let Some(number) = ready else { return units };
            // What stands before it is of no use any more.
            let rest = self.waiting.split_off(&number);
            self.passed += std::mem::replace(&mut self.waiting, rest).len() as u64;
            let Some((header, data, _)) = self.waiting.remove(&number) else { return units };
            let after_gap = self.given.is_none_or(|given| given + 1 != number) && number > 0;
            self.given = Some(number);
            if header.reference || header.needs.is_none() {
                self.reference = Some(number);
            }
            self.lacking = self.lacking.filter(|lacking| lacking.number > number);
            self.shown += 1;
            units.push(ReceivedUnit { header, data, after_gap });
        }
    }

    /// Gives up what waits for too long; returns how much.
    fn expire(&mut self, now: Time) -> u64 {
        let before = self.waiting.len();
        let mut lacking = None;
        self.waiting.retain(|number, (header, _, since)| {
            let stays = *since + FRAME_TIMEOUT > now;
            if !stays {
                lacking = header.needs.map(|source| LackingPicture { number: *number, source });
            }
            stays
        });
        let gone = (before - self.waiting.len()) as u64;
        self.passed += gone;
        if lacking.is_some() {
            self.lacking = lacking;
            self.is_due = true;
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::coded::{CodedSender, Unit};
    use glassline_media::Utc;
    use glassline_transport::link::{MessageId, Outcome};
    use proptest::prelude::*;

    fn unit(number: u64, key: bool, reference: bool) -> Unit {
        Unit {
            data: Bytes::from(number.to_be_bytes().to_vec()),
            key,
            reference,
            continues: false,
            captured: Utc::from_micros(number),
            passed: Default::default(),
        }
    }

    fn numbers(units: &[ReceivedUnit]) -> Vec<u64> {
        units.iter().map(|unit| u64::from_be_bytes(unit.data[..].try_into().unwrap())).collect()
    }

    #[test]
    fn what_a_loss_breaks_waits_for_a_key_frame_on_both_sides() {
        let (mut sender, mut receiver) = (CodedSender::new(7, None), CodedReceiver::new());
        let id = |number: u64| MessageId(number);
        let now = Time::from_millis(10);
        let mut messages = Vec::new();
        for number in 0..4 {
            messages.push(sender.message(&unit(number, number == 0, true), 0).unwrap());
            sender.sent(id(number));
        }
        assert_eq!(numbers(&receiver.handle(now, &messages[0]).unwrap()), [0]);
        // The second is late: the two behind it wait for it.
        assert!(receiver.handle(now, &messages[2]).unwrap().is_empty());
        assert!(receiver.handle(now, &messages[3]).unwrap().is_empty());
        assert_eq!(numbers(&receiver.handle(now, &messages[1]).unwrap()), [1, 2, 3]);
        // The fifth is lost: what follows is given up, and the sender is told; it asks for a key frame.
        for number in 4..6 {
            messages.push(sender.message(&unit(number, false, true), 0).unwrap());
        }
        assert!(receiver.handle(now, &messages[5]).unwrap().is_empty());
        assert!(!sender.wants_key());
        receiver.handle_timeout(receiver.poll_timeout().unwrap());
        sender.handle_report(&receiver.poll_report().unwrap()).unwrap();
        assert!(sender.wants_key() && sender.message(&unit(6, false, true), 1 << 20).is_none());
        assert_eq!((sender.counters().dropped, sender.counters().shown), (1, 4));
        let key = sender.message(&unit(7, true, true), 0).unwrap();
        assert!(!sender.wants_key());
        let given = receiver.handle(now, &key).unwrap();
        assert_eq!((numbers(&given), given[0].after_gap), (vec![7], true));
        // What a receipt calls lost breaks the chain too, but nothing that a later key frame stands behind.
        sender.handle_outcome(id(3), Outcome::Lost);
        assert!(!sender.wants_key());
        sender.message(&unit(8, false, true), 0).unwrap();
        sender.sent(id(8));
        sender.handle_outcome(id(8), Outcome::Cancelled);
        assert!(sender.wants_key());
    }

    /// A stream whose only key frame is its first picture, 25 pictures a second. One picture is lost; which one is the first
    /// that the receiver is given after it, and how many came before.
    fn after_a_loss_without_key_frames(lost: u64, is_key: impl Fn(u64) -> bool) -> (CodedSender, Vec<u64>) {
        let (mut sender, mut receiver) = (CodedSender::new(7, None), CodedReceiver::new());
        let mut given = Vec::new();
        for picture in 0..200u64 {
            let now = Time::from_millis(picture * 40);
            let captured = Utc::from_micros(picture * 40_000);
            let unit = Unit { captured, ..unit(picture, is_key(picture), true) };
            if let Some(message) = sender.message(&unit, 1 << 20) {
                sender.sent(MessageId(picture));
                if picture == lost {
                    sender.handle_outcome(MessageId(picture), Outcome::Lost);
                } else {
                    given.extend(numbers(&receiver.handle(now, &message).unwrap()));
                    sender.handle_outcome(MessageId(picture), Outcome::Delivered);
                }
            }
            if receiver.poll_timeout().is_some_and(|due| due <= now) {
                receiver.handle_timeout(now);
            }
            while let Some(report) = receiver.poll_report() {
                sender.handle_report(&report).unwrap();
            }
        }
        (sender, given)
    }

    #[test]
    fn a_stream_without_key_frames_goes_on_within_its_bound_after_a_loss() {
        let (sender, given) = after_a_loss_without_key_frames(50, |picture| picture == 0);
        // Two seconds are 50 pictures of 25 a second, from the first that was not sent.
        let expected: Vec<u64> = (0..50).chain(101..200).collect();
        assert_eq!(given, expected);
        assert_eq!((sender.counters().resumed, sender.counters().dropped), (1, 50));
        // One that has key frames does not wait for that, nor goes on without one.
        let (sender, given) = after_a_loss_without_key_frames(50, |picture| picture % 25 == 0);
        assert_eq!(given, (0..50).chain(75..200).collect::<Vec<_>>());
        assert_eq!((sender.counters().resumed, sender.counters().dropped), (0, 24));
        // Who never had a key frame gets nothing.
        let (sender, given) = after_a_loss_without_key_frames(50, |_| false);
        assert_eq!((given.len(), sender.counters().sent), (0, 0));
    }

    #[test]
    fn pictures_that_nobody_refers_to_are_left_out_where_they_do_not_fit() {
        let (mut sender, mut receiver) = (CodedSender::new(7, None), CodedReceiver::new());
        let now = Time::from_millis(10);
        for (number, key, reference, budget, goes) in [
            (0, true, true, 0, true),
            (1, false, false, 7, false),
            (2, false, false, 8, true),
            (3, false, true, 0, true),
        ] {
            let message = sender.message(&unit(number, key, reference), budget);
            assert_eq!(message.is_some(), goes, "{number}");
            // The second of those that go is lost, and nobody needs it.
            if let Some(message) = message.filter(|_| number != 2) {
                assert_eq!(numbers(&receiver.handle(now, &message).unwrap()), [number]);
            }
        }
        assert_eq!(sender.counters().skipped, 1);
    }

    #[test]
    fn another_run_begins_with_its_first_unit_that_can_be_given() {
        let message = |epoch: u32, numbers: std::ops::Range<u64>| {
            let mut sender = CodedSender::new(epoch, None);
            numbers
                .map(|number| sender.message(&unit(number, number == 0, true), 0).unwrap())
                .collect::<Vec<_>>()
        };
        let (old, new) = (message(1, 0..4), message(2, 0..2));
        let (mut receiver, now) = (CodedReceiver::new(), Time::from_millis(10));
        for message in &old[..3] {
            assert_eq!(receiver.handle(now, message).unwrap().len(), 1);
        }
        // A unit of the next run overtakes its key frame: the old run goes on meanwhile, and none of its units comes twice.
        assert!(receiver.handle(now, &new[1]).unwrap().is_empty());
        let report = Report::parse(&receiver.poll_report().unwrap()).unwrap();
        assert_eq!((report.epoch, report.newest, report.shown), (2, Some(1), 0));
        assert!(receiver.handle(now, &old[0]).unwrap().is_empty());
        assert_eq!(numbers(&receiver.handle(now, &old[3]).unwrap()), [3]);
        assert_eq!(numbers(&receiver.handle(now, &new[0]).unwrap()), [0, 1]);
        assert_eq!(receiver.counts(), (6, 1));
        // What comes late of the old one waits for what it needs, and takes nothing from the new one.
        assert!(receiver.handle(now, &old[2]).unwrap().is_empty());
        assert!(receiver.handle(now, &new[1]).unwrap().is_empty());
        receiver.handle_timeout(receiver.poll_timeout().unwrap());
        assert_eq!((receiver.counts(), receiver.poll_timeout()), ((6, 3), None));
    }

    proptest! {
        /// Of however many runs, and in whatever order their units come.
        #[test]
        fn numbers_of_one_run_rise(order in prop::collection::vec((0usize..3, 0usize..12, 0u64..200), 0..100)) {
            let messages: Vec<Vec<Bytes>> = (0..3)
                .map(|epoch| {
                    let mut sender = CodedSender::new(epoch, None);
                    (0..12).map(|number| sender.message(&unit(number, number % 6 == 0, true), 0).unwrap()).collect()
                })
                .collect();
            let (mut receiver, mut now, mut newest) = (CodedReceiver::new(), Time::ZERO, None);
            for (run, number, wait) in order {
                now += Duration::from_millis(wait);
                receiver.handle_timeout(now);
                for unit in receiver.handle(now, &messages[run][number]).unwrap() {
                    let (epoch, number) = (unit.header.epoch, unit.header.number);
                    prop_assert!(newest.is_none_or(|(before, last)| before != epoch || last < number));
                    newest = Some((epoch, number));
                }
                let (shown, passed) = receiver.counts();
                prop_assert!(shown + passed <= 100);
            }
        }

        #[test]
        fn whatever_comes_goes_on_in_order_and_with_what_it_needs(
            order in prop::collection::vec((0usize..60, 0u64..40), 0..150),
        ) {
            let (mut sender, mut receiver) = (CodedSender::new(1, None), CodedReceiver::new());
            let messages: Vec<Bytes> = (0..60)
                .map(|number| sender.message(&unit(number, number % 20 == 0, number % 3 != 2), 1 << 20).unwrap())
                .collect();
            let mut now = Time::ZERO;
            let (mut last, mut reference) = (None, None);
            for (index, wait) in order {
                now += Duration::from_millis(wait);
                receiver.handle_timeout(now);
                for unit in receiver.handle(now, &messages[index]).unwrap() {
                    let number = unit.header.number;
                    prop_assert!(last < Some(number));
                    prop_assert!(unit.header.needs.is_none() || unit.header.needs == reference);
                    last = Some(number);
                    if unit.header.reference {
                        reference = Some(number);
                    }
                }
                prop_assert!(receiver.runs().all(|run| run.waiting.len() <= WAITING_MAX));
            }
        }
    }
}
