use super::*;
use crate::link::channel::receive::Receiver;
use crate::link::wire::frame::Frame;
use crate::link::wire::varint::Reader;
use crate::link::{Event, Fec, Options, Outcome};
use glassline_media::Time;
use proptest::prelude::*;
use std::collections::VecDeque;
use std::time::Duration;

const WINDOW: u64 = 64 << 10;

const ON: Conditions<'_> = Conditions {
    whole: 1200,
    window: WINDOW,
    copies: &[],
    dictionary: None,
    lossy: true,
    stamps: true,
    parity: true,
    path: 0,
    copy_room: None,
    fill: false,
};

fn options(fec: Fec) -> Options {
    Options { fec, receipts: true, max_size: 20_000, ..Options::default() }
}

/// A sender with one message of five shards, all parts of which have left.
struct Sent {
    sender: Sender,
    parts: Vec<Written>,
    due: Option<Due>,
    events: VecDeque<Event>,
}

impl Sent {
    fn with(options: Options, on: &Conditions<'_>) -> Sent {
        let (mut sender, mut events) = (Sender::new(0, options), VecDeque::new());
        sender.push(Time::ZERO, Bytes::from(vec![7; 5200]), true, &mut events).unwrap();
        let mut out = Vec::new();
        let parts: Vec<Written> =
            std::iter::from_fn(|| sender.write(Time::ZERO, 1200, on, &mut out)).collect();
        let dues: Vec<Due> = parts.iter().filter_map(|part| sender.parity_due(*part)).collect();
        assert!(dues.len() <= 1);
        Sent { sender, parts, due: dues.first().copied(), events }
    }

    fn new(percent: u8) -> Sent {
        let sent = Sent::with(options(Fec::WhenLossy(percent)), &ON);
        assert_eq!(sent.parts.len(), 5);
        sent
    }

    /// Has a shard of parity leave.
    fn leave(&mut self, index: u32) -> Option<Written> {
        let part = self.due.unwrap().part(index);
        (self.sender.write_parity_shard(part, 1200, 1200, &mut Vec::new()) == Some(true)).then_some(part)
    }

    fn lose(&mut self, part: Written) {
        self.sender.handle_lost(part, &mut self.events);
    }

    fn ack(&mut self, part: Written) {
        self.sender.handle_acked(part, &mut self.events);
    }

    /// What is sent again, by where it begins.
    fn again(&mut self) -> Vec<Written> {
        let mut out = Vec::new();
        let again: Vec<Written> =
            std::iter::from_fn(|| self.sender.write(Time::ZERO, 1200, &ON, &mut out)).collect();
        assert!(again.iter().all(|part| part.again));
        again
    }

    fn is_delivered(&self) -> bool {
        let is_delivered =
            |event: &Event| matches!(event, Event::Finished { outcome: Outcome::Delivered, .. });
        let ended = self.events.iter().filter(|event| is_delivered(event)).count();
        assert!(ended <= 1 && (ended == 1) == self.sender.is_idle(), "{:?}", self.events);
        ended == 1
    }
}

#[test]
fn what_parity_may_make_good_is_not_sent_again() {
    let mut sent = Sent::new(20);
    let due = sent.due.unwrap();
    assert_eq!((due.count, due.shard, due.carried, due.is_for_copies), (1, 1040, [5200, 0, 0, 0], false));
    let parity = sent.leave(0).unwrap();
    assert_eq!(sent.leave(0), None, "it leaves once");
    sent.lose(sent.parts[1]);
    assert!(sent.again().is_empty() && !sent.sender.has_data(WINDOW));
    for at in [0, 2, 3, 4] {
        sent.ack(sent.parts[at]);
    }
    assert!(!sent.is_delivered());
    sent.ack(parity);
    assert!(sent.is_delivered());
    assert_eq!((sent.sender.held_bytes(), sent.sender.counters.resent_bytes), (0, 0));
}

#[test]
fn what_is_lost_with_its_parity_is_sent_again_once_that_is_known() {
    // The part is known to be lost first, or the parity.
    for parity_first in [false, true] {
        let mut sent = Sent::new(20);
        let parity = sent.leave(0).unwrap();
        let lost = [parity, sent.parts[3]];
        let order = if parity_first { lost } else { [lost[1], lost[0]] };
        sent.lose(order[0]);
        assert!(sent.again().is_empty());
        sent.lose(order[1]);
        let again = sent.again();
        assert_eq!(again.iter().map(|part| (part.offset, part.length)).collect::<Vec<_>>(), [(3120, 1040)]);
        for part in [0, 1, 2, 4].map(|at| sent.parts[at]) {
            sent.ack(part);
        }
        sent.lose(again[0]);
        let again = sent.again();
        assert_eq!(again.len(), 1);
        sent.ack(again[0]);
        assert!(sent.is_delivered());
    }
}

#[test]
fn of_what_is_lost_as_much_is_sent_again_as_parity_does_not_make_good() {
    let mut sent = Sent::new(40);
    let pieces = [0, 1].map(|index| sent.leave(index).unwrap());
    for at in [0, 1] {
        sent.lose(sent.parts[at]);
    }
    assert!(sent.again().is_empty());
    sent.lose(sent.parts[2]);
    let again = sent.again();
    assert_eq!(again.len(), 1);
    // A shard that was deemed lost, and comes all the same.
    sent.lose(pieces[0]);
    assert_eq!(sent.again().len(), 1);
    for part in [sent.parts[3], sent.parts[4], pieces[1], pieces[0]] {
        sent.ack(part);
    }
    assert!(!sent.is_delivered());
    sent.ack(again[0]);
    assert!(sent.is_delivered());
}

#[test]
fn parity_that_has_not_left_is_waited_for_by_nothing() {
    let mut sent = Sent::new(20);
    sent.lose(sent.parts[4]);
    let again = sent.again();
    assert_eq!(again.len(), 1);
    for part in [0, 1, 2, 3].map(|at| sent.parts[at]) {
        sent.ack(part);
    }
    // It may stand for what is under way again, and is of no use once that has arrived.
    assert!(sent.sender.is_parity_wanted(sent.due.unwrap().part(0)));
    sent.ack(again[0]);
    assert!(sent.is_delivered());
    assert_eq!((sent.leave(0), sent.sender.counters.parity_bytes), (None, 0));
}

#[test]
fn a_probe_takes_what_is_gone_first_and_counts_it_once() {
    let mut sent = Sent::new(20);
    let parity = sent.leave(0).unwrap();
    sent.lose(sent.parts[0]);
    assert!(sent.sender.probe());
    let again = sent.again();
    assert_eq!((again[0].offset, again[0].length), (0, 1040));
    // It is under way, so that parity may make another one good.
    sent.lose(sent.parts[1]);
    assert!(sent.again().iter().all(|part| part.offset < 1200), "no more than what was probed with");
    for part in [sent.parts[2], sent.parts[3], sent.parts[4], parity, again[0]] {
        sent.ack(part);
    }
    assert!(sent.is_delivered());
}

#[test]
fn there_is_no_parity_where_it_is_not_taken_or_copies_leave_in_time() {
    let lossy = options(Fec::WhenLossy(20));
    for (on, has_parity) in [
        (ON, true),
        (Conditions { parity: false, ..ON }, false),
        (Conditions { lossy: false, ..ON }, false),
        (Conditions { copy_room: Some(5200), ..ON }, false),
        (Conditions { copy_room: Some(5199), ..ON }, true),
    ] {
        let sent = Sent::with(lossy, &on);
        assert_eq!(sent.due.is_some(), has_parity, "{on:?}");
        // One that has parity does not go twice beside it, where it could.
        let is_for_copies = has_parity && on.copy_room.is_some();
        assert_eq!(sent.sender.is_twice(0), (!is_for_copies, false), "{on:?}");
        assert!(sent.due.is_none_or(|due| due.is_for_copies == is_for_copies));
    }
    let copies = [Duration::from_millis(7)];
    for (on, has_parity) in [
        (ON, true),
        (Conditions { copies: &copies, ..ON }, false),
        (Conditions { copy_room: Some(0), ..ON }, false),
    ] {
        let (mut sender, mut events) = (Sender::new(0, lossy), VecDeque::new());
        sender.push(Time::ZERO, Bytes::from(vec![7; 500]), false, &mut events).unwrap();
        let part = sender.write(Time::ZERO, 1200, &on, &mut Vec::new()).unwrap();
        assert_eq!(sender.parity_due(part).is_some(), has_parity, "{on:?}");
    }
}

#[test]
fn a_shard_that_fits_into_no_packet_any_more_is_left_out() {
    let mut sent = Sent::new(20);
    let part = sent.due.unwrap().part(0);
    let mut out = Vec::new();
    assert_eq!(sent.sender.write_parity_shard(part, 500, 1200, &mut out), Some(false));
    assert_eq!(sent.sender.write_parity_shard(part, 500, 500, &mut out), None);
    assert!(out.is_empty() && sent.sender.counters.parity_bytes == 0);
}

/// What is under way: the frames of a packet, and what the sender remembers of it.
type Packet = (Vec<u8>, Written);

/// A sender and a receiver, and packets between them.
struct Ends {
    sender: Sender,
    receiver: Receiver,
    flying: Vec<Packet>,
    parity: VecDeque<Written>,
    events: VecDeque<Event>,
    received: Vec<Bytes>,
}

impl Ends {
    fn new(percent: u8) -> Ends {
        let options = options(Fec::Always(percent));
        Ends {
            sender: Sender::new(0, options),
            receiver: Receiver::new(options.on_the_wire(), None, WINDOW),
            flying: Vec::new(),
            parity: VecDeque::new(),
            events: VecDeque::new(),
            received: Vec::new(),
        }
    }

    fn write(&mut self, room: usize) {
        let mut out = Vec::new();
        let Some(part) = self.sender.write(Time::ZERO, room, &ON, &mut out) else { return };
        self.flying.push((out, part));
        if let Some(due) = self.sender.parity_due(part) {
            self.parity.extend((0..due.count).map(|index| due.part(index)));
        }
    }

    fn write_parity(&mut self) {
        let Some(part) = self.parity.pop_front() else { return };
        let mut out = Vec::new();
        if self.sender.write_parity_shard(part, 1200, 1200, &mut out) == Some(true) {
            self.flying.push((out, part));
        }
    }

    /// A packet comes; the application takes what it has then, as far as it likes.
    fn deliver(&mut self, (bytes, _): &Packet, takes: bool) {
        match Frame::parse(&mut Reader::new(bytes)).unwrap() {
            Frame::Data(data) => self.receiver.handle_data(Time::ZERO, &data).unwrap(),
            Frame::Parity(parity) => self.receiver.handle_parity(Time::ZERO, &parity).unwrap(),
            other => panic!("{other:?}"),
        };
        assert!(self.receiver.held_bytes() <= 2 * WINDOW, "{}", self.receiver.held_bytes());
        if takes {
            self.take();
        }
        if let Some(next) = self.receiver.consumed() {
            self.receiver.told(next);
            self.sender.handle_consumed(next);
        }
    }

    fn take(&mut self) {
        while let Some(message) = self.receiver.pop() {
            assert_eq!(message.number, self.received.len() as u64);
            self.received.push(message.bytes);
        }
    }

    fn step(&mut self, fate: u8, at: usize, room: usize) {
        if fate == 0 || self.flying.is_empty() {
            return self.write(room);
        }
        if fate == 1 {
            return self.write_parity();
        }
        let packet = self.flying.swap_remove(at % self.flying.len());
        match fate {
            2 | 3 => self.sender.handle_lost(packet.1, &mut self.events),
            // It comes and is deemed lost, for good or until its acknowledgement comes.
            4 | 5 => {
                self.deliver(&packet, at.is_multiple_of(2));
                self.sender.handle_lost(packet.1, &mut self.events);
                if fate == 5 {
                    self.sender.handle_acked(packet.1, &mut self.events);
                }
            }
            _ => {
                self.deliver(&packet, at.is_multiple_of(2));
                if fate == 6 {
                    self.deliver(&packet, true);
                }
                self.sender.handle_acked(packet.1, &mut self.events);
            }
        }
    }
}

fn message(number: usize, size: usize) -> Bytes {
    (0..size).map(|at| (at * 7 + number * 31 + (at >> 8)) as u8).collect()
}

proptest! {
    /// Packets are lost, overtake each other, come twice, or are deemed lost and come: each message comes once, in order and as it
    /// was, within the window, and nothing is kept then.
    #[test]
    fn each_message_comes_once_and_nothing_is_kept(
        sizes in prop::collection::vec(0usize..20_000, 1..20), percent in 1u8..=100,
        steps in prop::collection::vec((0u8..9, any::<usize>(), 200usize..1400), 0..600),
    ) {
        let mut ends = Ends::new(percent);
        for (number, size) in sizes.iter().enumerate() {
            let pushed = message(number, *size);
            ends.sender.push(Time::ZERO, pushed, false, &mut ends.events).unwrap();
        }
        for (fate, at, room) in steps {
            ends.step(fate, at, room);
        }
        for _ in 0..2000 {
            ends.write(1400);
            ends.write_parity();
            if let Some(packet) = ends.flying.pop() {
                ends.deliver(&packet, true);
                ends.sender.handle_acked(packet.1, &mut ends.events);
            }
        }
        ends.take();
        prop_assert!(ends.sender.is_idle(), "{:?}", ends.sender.counters);
        prop_assert_eq!((ends.sender.held_bytes(), ends.receiver.held_bytes()), (0, 0));
        prop_assert!(ends.received.iter().cloned().eq(sizes.iter().enumerate().map(|(number, size)| message(number, *size))));
        prop_assert_eq!((ends.events.len(), ends.sender.counters.delivered as usize), (sizes.len(), sizes.len()));
        ends.sender.handle_consumed(ends.receiver.next());
        prop_assert_eq!(ends.sender.outstanding(), 0);
    }
}
