use super::*;
use crate::link::wire::frame::Frame;
use crate::link::wire::varint::Reader;
use proptest::prelude::*;

const WINDOW: u64 = 1 << 20;

fn sender(options: Options) -> Sender {
    Sender::new(0, options)
}

const ON: Conditions<'_> = Conditions {
    whole: 1200,
    window: WINDOW,
    copies: &[],
    dictionary: None,
    lossy: false,
    stamps: true,
    parity: true,
    path: 0,
    copy_room: None,
    fill: true,
};

fn write(sender: &mut Sender, room: usize) -> Option<Written> {
    let mut out = Vec::new();
    let written = sender.write(Time::ZERO, room, &ON, &mut out);
    assert!(out.len() <= room);
    written
}

#[test]
fn a_newer_message_replaces_what_waits_and_not_what_has_begun() {
    let mut events = VecDeque::new();
    let mut sender = sender(Options { newest: true, receipts: true, ..Options::default() });
    let mut push = |sender: &mut Sender| {
        sender.push(Time::ZERO, Bytes::from(vec![0; 3000]), false, &mut events).unwrap()
    };
    push(&mut sender);
    assert_eq!(write(&mut sender, 1200).unwrap().message, 0);
    push(&mut sender);
    push(&mut sender);
    assert_eq!(sender.counters.cancelled, 1);
    let rest: Vec<u64> = std::iter::from_fn(|| write(&mut sender, 1200)).map(|part| part.message).collect();
    assert_eq!(rest, [0, 0, 1, 1, 1], "the one that was replaced has no number");
    assert_eq!(events, [Event::Finished { channel: 0, message: MessageId(1), outcome: Outcome::Cancelled }]);
}

#[test]
fn a_newer_message_ends_the_one_that_has_begun_where_that_is_wished() {
    for reliable in [true, false] {
        let mut events = VecDeque::new();
        let wish = Options { newest: true, cancel_begun: true, receipts: true, ..Options::default() };
        let mut sender = sender(Options { reliable, ..wish });
        let message = |size: usize| Bytes::from(vec![size as u8; size]);
        sender.push(Time::ZERO, message(3000), false, &mut events).unwrap();
        let part = write(&mut sender, 1200).unwrap();
        // Its bytes make room for those of the next.
        assert!(sender.has_room(sender.options.queue_bytes));
        sender.push(Time::ZERO, message(500), false, &mut events).unwrap();
        assert_eq!(sender.held_bytes(), 500);
        let ended = |message, outcome| Event::Finished { channel: 0, message: MessageId(message), outcome };
        assert_eq!(events, [ended(0, Outcome::Cancelled)]);
        assert_eq!(sender.cancels.iter().copied().collect::<Vec<_>>(), [0], "the peer is told");
        // What was under way of it is neither resent nor counted again, whatever becomes of it.
        sender.handle_lost(part, &mut events);
        sender.handle_acked(part, &mut events);
        let next = write(&mut sender, 1200).unwrap();
        assert_eq!((next.message, next.length), (1, 500));
        assert_eq!(write(&mut sender, 1200), None);
        sender.handle_acked(next, &mut events);
        assert_eq!(events.pop_back(), Some(ended(1, Outcome::Delivered)));
        assert_eq!((sender.counters.cancelled, sender.counters.delivered, sender.held_bytes()), (1, 1, 0));
        assert!(sender.is_idle());
    }
}

#[test]
fn small_messages_are_not_cut_to_fill_a_packet() {
    let mut events = VecDeque::new();
    let mut sender = sender(Options::default());
    sender.push(Time::ZERO, Bytes::from(vec![0; 500]), false, &mut events).unwrap();
    assert_eq!(write(&mut sender, 400), None);
    assert_eq!(write(&mut sender, 600).unwrap().length, 500);
}

#[test]
fn old_messages_are_given_up_and_the_peer_is_told_of_those_that_had_begun() {
    let mut events = VecDeque::new();
    let after = Some(Duration::from_millis(100));
    let mut sender = sender(Options { cancel_after: after, ..Options::default() });
    sender.push(Time::ZERO, Bytes::from(vec![0; 3000]), false, &mut events).unwrap();
    write(&mut sender, 1200);
    sender.push(Time::from_millis(10), Bytes::from(vec![0; 3000]), false, &mut events).unwrap();
    assert_eq!(sender.next_timeout(), Time::from_millis(100));
    sender.handle_timeout(Time::from_millis(100), &mut events);
    assert_eq!(sender.next_timeout(), Time::from_millis(110));
    sender.handle_timeout(Time::from_millis(110), &mut events);
    assert!(sender.is_idle() && sender.held_bytes() == 0 && !sender.has_data(WINDOW));
    assert_eq!(sender.cancels.iter().copied().collect::<Vec<_>>(), [0]);
}

#[test]
fn no_more_is_begun_than_the_receiver_has_room_for() {
    let mut events = VecDeque::new();
    let mut sender = sender(Options::default());
    for _ in 0..10 {
        sender.push(Time::ZERO, Bytes::from(vec![0; 1000]), false, &mut events).unwrap();
    }
    let mut out = Vec::new();
    let on = Conditions { window: 3 * (1000 + MESSAGE_COST) + 100, ..ON };
    let begun = std::iter::from_fn(|| sender.write(Time::ZERO, 1200, &on, &mut out)).count();
    assert_eq!(begun, 3);
    sender.handle_consumed(2);
    let begun = std::iter::from_fn(|| sender.write(Time::ZERO, 1200, &on, &mut out)).count();
    assert_eq!(begun, 2);
    sender.handle_consumed(1 << 40);
}

proptest! {
    /// Parts are lost, acknowledged late or twice: a reliable channel's message ends delivered, exactly once, and
    /// nothing is kept then.
    #[test]
    fn reliable_messages_end_delivered(
        sizes in prop::collection::vec(0usize..5000, 1..10),
        fates in prop::collection::vec((0u8..4, 100usize..1500), 0..400),
    ) {
        let mut events = VecDeque::new();
        let mut sender = sender(Options { receipts: true, ..Options::default() });
        for size in &sizes {
            sender.push(Time::ZERO, Bytes::from(vec![0; *size]), false, &mut events).unwrap();
        }
        let mut flying: Vec<Written> = Vec::new();
        for (fate, room) in fates {
            match fate {
                0 if !flying.is_empty() => sender.handle_lost(flying.remove(0), &mut events),
                1 if !flying.is_empty() => {
                    let part = flying.remove(flying.len() / 2);
                    sender.handle_lost(part, &mut events);
                    sender.handle_acked(part, &mut events);
                }
                _ => flying.extend(write(&mut sender, room)),
            }
        }
        for _ in 0..1000 {
            flying.extend(write(&mut sender, 1500));
            flying.drain(..).for_each(|part| sender.handle_acked(part, &mut events));
        }
        prop_assert!(sender.is_idle(), "{:?}", sender.counters);
        prop_assert_eq!(sender.held_bytes(), 0);
        prop_assert_eq!(events.len(), sizes.len());
        prop_assert_eq!(sender.counters.delivered as usize, sizes.len());
    }
}

#[test]
fn what_fills_a_packet_has_no_length_and_fills_one_again_when_it_was_lost() {
    for size in [1300usize, 2355, 2356, 2357, 2358, 2359, 2360, 2361, 5000] {
        let mut events = VecDeque::new();
        let mut sender = sender(Options::default());
        let message: Vec<u8> = (0..size).map(|at| at as u8).collect();
        sender.push(Time::ZERO, message.clone().into(), false, &mut events).unwrap();
        let mut got = vec![0; size];
        let mut lost = true;
        while !sender.is_idle() {
            let mut out = Vec::new();
            let written = sender.write(Time::ZERO, 1200, &ON, &mut out).expect("there is more");
            let Some(Frame::Data(data)) = Frame::parse(&mut Reader::new(&out)) else { panic!("no data") };
            assert_eq!((data.offset, data.bytes.len()), (written.offset, written.length as usize));
            if std::mem::take(&mut lost) {
                assert_eq!((out.len(), out[0] & 1), (1200, 1), "to the end");
                sender.handle_lost(written, &mut events);
                // It does not fit behind anything, but into a packet of its own.
                assert_eq!(write(&mut sender, 1190), None);
                continue;
            }
            let end = data.offset as usize + data.bytes.len();
            got[data.offset as usize..end].copy_from_slice(data.bytes);
            sender.handle_acked(written, &mut events);
        }
        assert_eq!(got, message);
    }
}

#[test]
fn small_messages_in_a_row_are_one_frame_and_end_one_by_one() {
    let mut events = VecDeque::new();
    let mut sender = sender(Options { receipts: true, ..Options::default() });
    let mut out = Vec::new();
    let row = |sender: &mut Sender, out: &mut Vec<u8>| {
        out.clear();
        let row = sender.write_row(Time::ZERO, 1200, &ON, out);
        assert!(out.len() <= 1200);
        row
    };
    sender.push(Time::ZERO, Bytes::from(vec![9; 200]), false, &mut events).unwrap();
    assert_eq!(row(&mut sender, &mut out), None, "one alone is none");
    for number in 0..12u8 {
        let size = if number == 10 { 3000 } else { 200 };
        sender.push(Time::ZERO, Bytes::from(vec![number; size]), false, &mut events).unwrap();
    }
    let (first, bytes) = row(&mut sender, &mut out).unwrap();
    assert_eq!((first.count(), bytes, out.len()), (5, 1000, 1004 + 5 * 2));
    let (second, _) = row(&mut sender, &mut out).unwrap();
    assert_eq!(second.count(), 5);
    assert_eq!(row(&mut sender, &mut out), None, "what follows does not fit");
    // The tenth, and the large one.
    let rest: Vec<Written> = std::iter::from_fn(|| write(&mut sender, 1200)).take(4).collect();
    assert_eq!(rest.iter().map(|part| part.message).collect::<Vec<_>>(), [10, 11, 11, 11]);

    let mut both = second;
    assert!(both.join(first) && !both.join(first));
    assert_eq!(both.count(), 10);
    sender.handle_row_lost(first, &mut events);
    sender.handle_row_acked(second, &mut events);
    let again: Vec<Written> = std::iter::from_fn(|| write(&mut sender, 1200)).take(5).collect();
    assert!(again.iter().all(|part| part.again && part.length == 200), "{again:?}");
    again.into_iter().for_each(|part| sender.handle_acked(part, &mut events));
    sender.handle_row_acked(both, &mut events);
    assert_eq!(sender.counters.delivered, 10);
    rest.into_iter().for_each(|part| sender.handle_acked(part, &mut events));
    let last = write(&mut sender, 1200).unwrap();
    sender.handle_acked(last, &mut events);
    assert!(sender.is_idle() && sender.held_bytes() == 0 && events.len() == 13);
}

#[test]
fn a_row_has_no_more_than_the_receiver_has_room_for() {
    let mut events = VecDeque::new();
    let mut sender = sender(Options::default());
    for _ in 0..100 {
        sender.push(Time::ZERO, Bytes::from(vec![0; 10]), false, &mut events).unwrap();
    }
    let mut rows = |window| {
        let on = Conditions { window, ..ON };
        let row = sender.write_row(Time::ZERO, 1200, &on, &mut Vec::new());
        row.map(|row| row.0.count())
    };
    let cost = 10 + MESSAGE_COST;
    let (five, seven) = (5 * cost + 5, 7 * cost + 5);
    assert_eq!((rows(five), rows(five), rows(seven), rows(100 * cost)), (Some(5), None, Some(2), Some(63)));
}

#[test]
fn messages_that_wait_go_with_their_stamps_or_without_as_the_peer_takes_them_when_they_begin() {
    let mut events = VecDeque::new();
    let mut sender = sender(Options { stamped: true, ..Options::default() });
    for number in 0..3u8 {
        let carried = stamp::put(None, &[number; 3]);
        sender.push(Time::ZERO, carried, false, &mut events).unwrap();
    }
    let old = Conditions { stamps: false, ..ON };
    let mut out = Vec::new();
    assert_eq!(sender.write_row(Time::ZERO, 1200, &old, &mut out), None, "a row would have the stamps");
    let first = sender.write(Time::ZERO, 1200, &old, &mut out).unwrap();
    assert_eq!((first.length, &out[out.len() - 4..]), (3, &[3, 0, 0, 0][..]));
    assert_eq!(sender.held_bytes(), 3 + 11 + 11);
    // A peer of another version comes in its place.
    sender.restart(&mut events);
    out.clear();
    let (row, bytes) = sender.write_row(Time::ZERO, 1200, &ON, &mut out).unwrap();
    assert_eq!((row.count(), bytes), (2, 22));
    assert!(out.ends_with(&[0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2]));
}
