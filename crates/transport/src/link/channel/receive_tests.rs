use super::*;
use crate::link::channel::spares::SPARE_LIFE;
use crate::link::steps;
use crate::link::wire::frame::{Data, Frame, Parity};
use crate::link::wire::row::write_row_head;
use crate::link::wire::varint::Reader;
use proptest::prelude::*;
use std::collections::BTreeSet;

const WINDOW: u64 = 1 << 20;

fn receiver(reliable: bool, ordered: bool, max_receive_time: Option<Duration>) -> Receiver {
    let options = Options { reliable, ordered, max_receive_time, max_size: 10_000, ..Options::default() };
    Receiver::new(options, None, WINDOW)
}

fn whole(message: u64, bytes: &[u8]) -> Data<'_> {
    Data { channel: 0, message, total: bytes.len() as u32, offset: 0, bytes }
}

fn take(receiver: &mut Receiver) -> Vec<Bytes> {
    std::iter::from_fn(|| receiver.pop()).map(|message| message.bytes).collect()
}

proptest! {
    /// Fragments in any order, some of them twice: each message comes once, in its order where that is wished.
    #[test]
    fn fragments_in_any_order_become_messages(
        sizes in prop::collection::vec(0usize..300, 1..12), cut in 1usize..100, ordered in any::<bool>(),
        order in prop::collection::vec(any::<prop::sample::Index>(), 0..200),
    ) {
        let messages: Vec<Vec<u8>> = sizes.iter().zip(1u8..).map(|(size, fill)| vec![fill; *size]).collect();
        let mut parts = Vec::new();
        for (number, bytes) in messages.iter().enumerate() {
            let mut offset = 0;
            loop {
                let end = (offset + cut).min(bytes.len());
                let (total, bytes) = (bytes.len() as u32, &bytes[offset..end]);
                parts.push(Data { channel: 0, message: number as u64, total, offset: offset as u32, bytes });
                offset = end;
                if offset >= total as usize {
                    break;
                }
            }
        }
        let mut receiver = receiver(true, ordered, None);
        let mut got = Vec::new();
        for index in order {
            receiver.handle_data(Time::ZERO, index.get(&parts)).unwrap();
            got.extend(take(&mut receiver));
        }
        for part in parts.iter().rev() {
            receiver.handle_data(Time::ZERO, part).unwrap();
            got.extend(take(&mut receiver));
        }
        if !ordered {
            got.sort_by_key(|bytes| messages.iter().position(|message| message == bytes));
            let mut expected = messages.clone();
            expected.sort_by_key(|bytes| messages.iter().position(|message| message == bytes));
            prop_assert_eq!(got, expected);
        } else {
            prop_assert_eq!(got, messages.clone());
        }
        prop_assert!(receiver.held_bytes() == 0 && receiver.is_even());
        prop_assert_eq!(receiver.next(), messages.len() as u64);
    }

    /// Whatever comes: bounds hold and nothing panics.
    #[test]
    fn no_data_breaks_it(
        reliable in any::<bool>(), ordered in any::<bool>(), timeout in prop::option::of(0u64..20),
        steps in prop::collection::vec((0u64..70_000, 0u32..12_000, 0u32..12_000, 0usize..200, 0u8..6), 0..200),
    ) {
        let mut receiver = receiver(reliable, ordered, timeout.map(Duration::from_millis));
        let bytes = [0; 200];
        for (step, (message, total, offset, length, action)) in steps.into_iter().enumerate() {
            let now = Time::from_millis(step as u64);
            match action {
                0 => drop(receiver.handle_cancel(message)),
                1 => drop(take(&mut receiver)),
                2 => drop(receiver.handle_timeout(now)),
                _ => {
                    let message = message % 40;
                    let total = total.max(offset + length as u32);
                    let _ = receiver.handle_data(now, &Data { channel: 0, message, total, offset, bytes: &bytes[..length] });
                }
            }
            prop_assert!(receiver.held_bytes() <= 2 * receiver.window + 12_000);
            let open = receiver.parts.len() as u64 + receiver.waiting.len() as u64 + receiver.gone_count.get();
            let most = if reliable { MAX_AHEAD } else { 2 * MAX_OPEN };
            prop_assert!(open <= most);
            let parts: u64 = receiver.parts.values().map(|part| part.counted).sum();
            let waiting: u64 = receiver.waiting.values().map(|waiting| waiting.0.cost()).sum();
            prop_assert_eq!(receiver.held.get(), parts + waiting);
        }
    }
}

#[test]
fn unreliable_messages_do_not_wait_for_lost_ones() {
    let mut receiver = receiver(false, true, None);
    let _ = receiver.handle_data(Time::ZERO, &whole(0, b"zero"));
    let _ = receiver.handle_data(Time::ZERO, &whole(2, b"two"));
    let _ = receiver.handle_data(Time::ZERO, &whole(1, b"one, late"));
    assert_eq!(take(&mut receiver), ["zero", "two"]);
    assert_eq!(receiver.counters.skipped, 1);
}

#[test]
fn a_message_is_skipped_when_a_later_one_has_waited_long_enough() {
    let mut receiver = receiver(true, true, Some(Duration::from_millis(50)));
    let _ = receiver.handle_data(Time::from_millis(10), &whole(1, b"one"));
    let _ = receiver.handle_data(Time::from_millis(20), &whole(2, b"two"));
    assert_eq!(receiver.next_timeout(), Time::from_millis(60));
    assert!(!receiver.handle_timeout(Time::from_millis(59)) && take(&mut receiver).is_empty());
    assert!(receiver.handle_timeout(Time::from_millis(60)));
    assert_eq!(take(&mut receiver), ["one", "two"]);
    assert!(receiver.skipped && receiver.next() == 3);
    assert_eq!(receiver.next_timeout(), Time::NEVER);
}

#[test]
fn a_cancelled_message_holds_nothing_up() {
    let mut receiver = receiver(true, true, None);
    let part = Data { channel: 0, message: 0, total: 9, offset: 0, bytes: b"part" };
    let _ = receiver.handle_data(Time::ZERO, &part);
    let _ = receiver.handle_data(Time::ZERO, &whole(1, b"one"));
    assert!(receiver.handle_cancel(0));
    assert_eq!(take(&mut receiver), ["one"]);
    assert_eq!(receiver.held_bytes(), 0);
}

#[test]
fn a_sender_that_ignores_the_window_is_caught() {
    let mut receiver = receiver(true, true, None);
    let bytes = vec![0; 10_000];
    let overrun =
        (1..1000).find(|message| receiver.handle_data(Time::ZERO, &whole(*message, &bytes)).is_err());
    assert!(overrun.is_some_and(|message| message <= 2 * WINDOW / 10_000 + 1));
    assert_eq!(receiver.handle_data(Time::ZERO, &whole(70_000, b"far ahead")), Err(Overrun));
}

#[test]
fn large_messages_take_turns_in_few_buffers_which_go_when_no_more_come() {
    let options = Options { max_size: 1 << 20, ..Options::default() };
    let mut receiver = Receiver::new(options, None, WINDOW);
    let (mut places, mut kept) = (BTreeSet::new(), None);
    for number in 0..20u64 {
        let message = vec![number as u8; (1 << 20) - number as usize * 1000];
        for (part, bytes) in message.chunks(1 << 18).enumerate() {
            let offset = (part << 18) as u32;
            let data = Data { channel: 0, message: number, total: message.len() as u32, offset, bytes };
            receiver.handle_data(Time::from_millis(number), &data).unwrap();
        }
        let taken = receiver.pop().unwrap().bytes;
        assert_eq!(taken, message);
        places.insert(taken.as_ptr());
        if number == 7 {
            // What the application keeps stays as it is.
            kept = Some(taken);
        }
    }
    assert!(kept.unwrap().iter().all(|byte| *byte == 7));
    assert!(places.len() <= 4, "{}", places.len());
    assert!((1 << 20..=2 << 20).contains(&receiver.spare_bytes()), "{}", receiver.spare_bytes());
    assert_eq!(receiver.next_timeout(), Time::from_millis(19) + SPARE_LIFE);
    receiver.handle_timeout(receiver.next_timeout());
    assert_eq!((receiver.spare_bytes(), receiver.next_timeout()), (0, Time::NEVER));
}

fn row(first: u64, messages: &[&[u8]]) -> Vec<u8> {
    let mut out = Vec::new();
    write_row_head(0, first, messages.iter().map(|message| message.len()), &mut out);
    messages.iter().for_each(|message| out.extend_from_slice(message));
    out
}

fn handle_row(receiver: &mut Receiver, bytes: &[u8]) -> Result<bool, Overrun> {
    let Some(Frame::Row(row)) = Frame::parse(&mut Reader::new(bytes)) else { panic!("no row") };
    receiver.handle_row(Time::ZERO, &row)
}

#[test]
fn a_row_is_its_messages_each_once_and_in_order() {
    let mut receiver = receiver(true, true, None);
    assert_eq!(handle_row(&mut receiver, &row(2, &[b"two", b"", b"four"])), Ok(false));
    let part = Data { channel: 0, message: 1, total: 9, offset: 0, bytes: b"part" };
    assert_eq!(receiver.handle_data(Time::ZERO, &part), Ok(false));
    assert_eq!(handle_row(&mut receiver, &row(0, &[b"zero", b"one", b"not two"])), Ok(true));
    assert_eq!(take(&mut receiver), ["zero", "one", "two", "", "four"]);
    assert_eq!((receiver.counters.messages, receiver.counters.duplicate_bytes), (5, 7));
    assert_eq!((receiver.held_bytes(), receiver.next()), (0, 5));
    let long = vec![0; 10_001];
    assert_eq!(
        handle_row(&mut receiver, &row(5, &[b"five", &long])),
        Err(Overrun),
        "larger than the channel's"
    );
    assert_eq!(handle_row(&mut receiver, &row(1 << 40, &[b"far ahead"])), Err(Overrun));
}

/// Of a row, one message of which is refused, those before it have come: they are held, counted, and can be taken.
#[test]
fn a_row_that_is_refused_half_way_leaves_what_came_before_in_order() {
    let long = vec![0; 10_001];
    for (reliable, ordered) in [(true, true), (true, false), (false, true), (false, false)] {
        // With nothing before it, and with a message that came out of its order.
        for early in [false, true] {
            let mut receiver = receiver(reliable, ordered, Some(Duration::from_secs(10)));
            if early {
                receiver.handle_data(Time::ZERO, &whole(5, b"five")).unwrap();
            }
            let refused = handle_row(&mut receiver, &row(0, &[b"zero", b"one", &long]));
            assert_eq!(refused, Err(Overrun), "{reliable} {ordered} {early}");
            let ready: u64 = receiver.ready.iter().map(|(_, whole)| whole.cost()).sum();
            assert_eq!(receiver.ready_bytes.get(), ready, "{reliable} {ordered} {early}");
            let waiting: u64 = receiver.waiting.values().map(|(whole, _)| whole.cost()).sum();
            assert_eq!(receiver.held.get(), waiting, "{reliable} {ordered} {early}");
            assert_eq!(receiver.counters.messages, 2 + u64::from(early));
            let taken = take(&mut receiver);
            assert!(
                taken.ends_with(&["zero".into(), "one".into()]),
                "{reliable} {ordered} {early}: {taken:?}"
            );
            assert_eq!(receiver.ready_bytes.get(), 0);
        }
    }
}

#[test]
fn what_is_kept_for_messages_to_come_has_the_room_that_those_held_leave() {
    let options = Options { max_size: 1 << 20, ..Options::default() };
    let mut receiver = Receiver::new(options, None, WINDOW);
    let whole = vec![0; 1 << 20];
    let half = |message: u64, offset: usize| Data {
        channel: 0,
        message,
        total: 1 << 20,
        offset: offset as u32,
        bytes: &whole[..1 << 19],
    };
    for message in 0..3 {
        for offset in [0, 1 << 19] {
            receiver.handle_data(Time::ZERO, &half(message, offset)).unwrap();
        }
    }
    assert_eq!(take(&mut receiver).len(), 3);
    assert_eq!(receiver.spare_bytes(), 2 << 20);
    // More than a window comes, none of it complete.
    for message in 3..6 {
        receiver.handle_data(Time::ZERO, &half(message, 0)).unwrap();
        assert!(receiver.held_bytes() + receiver.spare_bytes() <= 2 * receiver.window);
    }
    // Of each message half has come, and as much again is ready for the rest.
    assert!((3 << 20..(3 << 20) + 2000).contains(&receiver.held_bytes()), "{}", receiver.held_bytes());
    assert_eq!(receiver.spare_bytes(), 0);
}

#[test]
fn what_is_announced_takes_nothing() {
    for reliable in [true, false] {
        let options = Options { reliable, ..Options::default() };
        let mut receiver = Receiver::new(options, None, 32 << 20);
        let total = options.max_size;
        // The first bytes of large messages, and the last.
        for message in 0..1000 {
            for offset in [0, total - 100] {
                let data = Data { channel: 0, message, total, offset, bytes: &[7; 100] };
                assert!(receiver.handle_data(Time::ZERO, &data).is_ok());
            }
        }
        assert!((200_000..1_000_000).contains(&receiver.held_bytes()), "{}", receiver.held_bytes());
    }
}

#[test]
fn messages_without_bytes_are_bounded_where_nobody_takes_them() {
    let mut reliable = receiver(true, true, None);
    let overrun = (0..).find(|message| reliable.handle_data(Time::ZERO, &whole(*message, b"")).is_err());
    assert!(overrun.is_some_and(|message| message <= 2 * reliable.window / MESSAGE_COST), "{overrun:?}");
    // A large window does not make them more than a sender may have begun.
    let mut wide = Receiver::new(Options::default(), None, 1 << 30);
    let overrun = (0..).find(|message| wide.handle_data(Time::ZERO, &whole(*message, b"")).is_err());
    assert_eq!(overrun, Some(MAX_AHEAD));
    assert!(wide.pop().is_some() && wide.handle_data(Time::ZERO, &whole(MAX_AHEAD, b"")).is_ok());
    let mut rows = Receiver::new(Options::default(), None, 1 << 30);
    let bytes: Vec<&[u8]> = vec![b""; 60];
    let overrun = (0..).find(|turn| handle_row(&mut rows, &row(turn * 60, &bytes)).is_err());
    assert_eq!(overrun, Some(MAX_AHEAD / 60));
    // On an unreliable channel the oldest go, however long a queue is wished for.
    let own = Options { queue: u32::MAX, ..Options::default() };
    let mut unreliable = Receiver::new(Options { reliable: false, max_size: 10, ..own }, Some(&own), WINDOW);
    for message in 0..100_000 {
        unreliable.handle_data(Time::ZERO, &whole(message, b"")).unwrap();
        assert!(unreliable.held_bytes() <= unreliable.window);
    }
    assert_eq!(unreliable.counters.dropped, 100_000 - WINDOW / MESSAGE_COST);
}

/// Frames that name as many messages as may be named, in the order that is the worst: what the next one costs does not
/// depend on them.
#[test]
fn a_packet_costs_the_same_after_whatever_came_before() {
    for (reliable, ordered) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut receiver = receiver(reliable, ordered, Some(Duration::from_secs(10)));
        let _ = steps::take();
        let (mut most, mut sum, mut count) = (0, 0, 0);
        let mut counted = |least: u64| {
            let steps = steps::take();
            (most, sum, count) = (most.max(steps), sum + steps, count + 1);
            // Each of those before is looked at once when all go.
            assert!(steps <= 40 || steps <= least, "{reliable} {ordered}: {steps} steps");
        };
        let at = |step: u64| Time::from_nanos(step * 1000);
        // Every second one is given up, so that none of them joins another; between them parts come, and whole ones.
        for step in 1..20_000u64 {
            receiver.handle_cancel(2 * step % 20_000 + 1);
            let _ = receiver.next_timeout();
            counted(0);
        }
        for step in 1..1500u64 {
            let part = Data { channel: 0, message: 4 * step % 20_000, total: 9, offset: 4, bytes: b"part" };
            let _ = receiver.handle_data(at(step), &part);
            let _ = receiver.handle_data(at(step), &whole(4 * step % 20_000 + 2, b"whole"));
            let _ = (receiver.handle_timeout(at(step)), receiver.next_timeout());
            counted(0);
        }
        // All that wait are delivered at once: so many steps, once.
        receiver.handle_data(at(6000), &whole(0, b"first")).unwrap();
        receiver.handle_timeout(at(30_000_000));
        counted(200_000);
        assert!(sum <= 20 * count, "{reliable} {ordered}: {sum} steps for {count} packets, {most} at most");
    }
}

#[test]
fn parts_cost_the_same_however_many_there_are() {
    let options = Options { reliable: false, max_size: 1 << 20, ..Options::default() };
    let mut receiver = Receiver::new(options, None, 8 << 20);
    let _ = steps::take();
    // Each second byte from the end on, which touch nothing and lie ahead of what came; then what is between.
    let mut sum = 0;
    for turn in 0..2u32 {
        for step in 0..10_000u32 {
            let offset = 20_000 - 2 * step - turn;
            let data = Data { channel: 0, message: 1, total: 1 << 20, offset, bytes: &[1] };
            receiver.handle_data(Time::ZERO, &data).unwrap();
            let steps = steps::take();
            assert!(steps <= 20 || turn == 1, "{turn} {step}: {steps}");
            sum += steps;
        }
    }
    assert!(sum <= 20 * 20_000, "{sum}");
    // The same where parity has come, of shards as small as can be.
    let (mut sum, mut count) = (0, 0);
    for index in 0..4000u32 {
        let parity = Parity {
            channel: 0,
            message: 2,
            packed: false,
            total: 16_000,
            count: 8000,
            index,
            bytes: &[1, 2],
        };
        receiver.handle_parity(Time::ZERO, &parity).unwrap();
        let data = Data { channel: 0, message: 2, total: 16_000, offset: index * 3, bytes: &[1] };
        receiver.handle_data(Time::ZERO, &data).unwrap();
        (sum, count) = (sum + steps::take(), count + 2);
    }
    assert!(sum <= 20 * count, "{sum} steps for {count} frames");
}

/// A part of a message of 100 bytes.
fn half(message: u64, second: bool) -> Data<'static> {
    Data { channel: 0, message, total: 100, offset: if second { 50 } else { 0 }, bytes: &[7; 50] }
}

#[test]
fn a_message_tells_its_number_and_when_it_came() {
    let mut receiver = receiver(true, false, None);
    let at = Time::from_millis;
    receiver.handle_data(at(10), &half(0, true)).unwrap();
    receiver.handle_data(at(11), &whole(1, b"one")).unwrap();
    receiver.handle_data(at(25), &half(0, false)).unwrap();
    let mut tell =
        || receiver.pop().map(|message| (message.number, message.first, message.last, message.skipped));
    assert_eq!(tell(), Some((1, at(11), at(11), 0)));
    assert_eq!(tell(), Some((0, at(10), at(25), 0)));
    assert_eq!(tell(), None);
}

#[test]
fn a_message_tells_how_many_before_it_were_passed_over() {
    let mut receiver = receiver(false, true, None);
    let at = Time::from_millis;
    // Of 0 and 1 nothing comes, of 3 a half, and 5 is given up by the sender.
    receiver.handle_data(at(1), &whole(2, b"two")).unwrap();
    receiver.handle_data(at(2), &half(3, false)).unwrap();
    receiver.handle_data(at(3), &whole(4, b"four")).unwrap();
    receiver.handle_cancel(5);
    receiver.handle_data(at(4), &whole(6, b"six")).unwrap();
    let told: Vec<_> =
        std::iter::from_fn(|| receiver.pop()).map(|message| (message.number, message.skipped)).collect();
    // What is known when a message is taken is told with it.
    assert_eq!(told, [(2, 4), (4, 0), (6, 0)]);
    receiver.handle_data(at(5), &whole(9, b"nine")).unwrap();
    assert_eq!(receiver.pop().map(|message| (message.number, message.skipped)), Some((9, 2)));
    assert_eq!(receiver.counters.skipped, 6);
}
