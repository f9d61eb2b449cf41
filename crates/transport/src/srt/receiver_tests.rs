use super::*;
use proptest::prelude::*;

const LATENCY: Duration = Duration::from_millis(100);
const RTT: Duration = Duration::from_millis(40);

fn at(millis: u64) -> Time {
    Time::from_millis(1000 + millis)
}

/// Packets are sent a millisecond after each other, and are under way as long as the handshake was.
fn receiver() -> Receiver {
    Receiver::new(Sequence::new(0x7fff_fffe), LATENCY, 0, at(0))
}

fn packet(number: u32, again: bool) -> Data<'static> {
    Data {
        sequence: Sequence::new(0x7fff_fffe).plus(number),
        key: 0,
        is_retransmitted: again,
        message: 1,
        timestamp: number * 1000,
        destination: 1,
        payload: &[7; 20],
    }
}

fn push(receiver: &mut Receiver, number: u32, millis: u64) -> bool {
    receiver.handle(&packet(number, false), at(millis), |payload| {
        payload[0] = number as u8;
        true
    })
}

fn delivered(receiver: &mut Receiver, millis: u64) -> Vec<u8> {
    let mut numbers = Vec::new();
    receiver.deliver(at(millis), |payload, _| numbers.push(payload[0]));
    numbers
}

fn losses(receiver: &mut Receiver, millis: u64) -> Vec<(u32, u32)> {
    let body = receiver.report(at(millis), RTT, Duration::from_millis(1));
    super::super::packet::parse_losses(&body).map(|(a, b)| (a.value(), b.value())).collect()
}

#[test]
fn a_payload_is_delivered_at_its_time_whenever_it_came() {
    let mut receiver = receiver();
    push(&mut receiver, 0, 0);
    // It has waited on the way.
    push(&mut receiver, 1, 30);
    assert_eq!(receiver.next_due(), Some(at(100)));
    assert!(delivered(&mut receiver, 99).is_empty());
    assert_eq!(delivered(&mut receiver, 100), [0]);
    assert_eq!(delivered(&mut receiver, 101), [1]);
}

#[test]
fn a_gap_is_reported_at_once_and_again_after_a_round_trip() {
    let mut receiver = receiver();
    push(&mut receiver, 0, 0);
    assert!(push(&mut receiver, 4, 4));
    assert_eq!(receiver.acknowledged().value(), 0x7fff_ffff);
    assert_eq!(losses(&mut receiver, 4), [(0x7fff_ffff, 1)], "a run goes over the end of the numbers");
    assert_eq!(losses(&mut receiver, 5), [], "it is under way");
    // Reports are lost too: the first is given twice.
    assert_eq!(losses(&mut receiver, 14).len(), 1);
    assert_eq!(losses(&mut receiver, 40), []);
    assert_eq!(receiver.report_due(), Some(at(49)));
    receiver.handle(&packet(2, true), at(44), |_| true);
    assert_eq!(losses(&mut receiver, 49), [(0x7fff_ffff, 0x7fff_ffff), (1, 1)]);
    assert_eq!((receiver.counts.lost, receiver.counts.recovered), (3, 1));
}

#[test]
fn what_does_not_come_in_time_is_left_out_and_counted() {
    let mut receiver = receiver();
    push(&mut receiver, 0, 0);
    push(&mut receiver, 3, 3);
    assert_eq!(delivered(&mut receiver, 103), [0, 3]);
    assert_eq!(receiver.counts.dropped, 2);
    assert_eq!(receiver.report_due(), None);
    assert!(!push(&mut receiver, 1, 104));
    assert_eq!(receiver.counts.late, 1);
    assert_eq!(receiver.acknowledged().minus(Sequence::new(0x7fff_fffe)), 4);
}

#[test]
fn what_comes_out_of_order_once_is_waited_for_the_next_time() {
    let mut receiver = receiver();
    push(&mut receiver, 0, 0);
    assert!(push(&mut receiver, 2, 2));
    push(&mut receiver, 1, 5);
    push(&mut receiver, 4, 10);
    assert_eq!(losses(&mut receiver, 10), [], "three milliseconds may pass");
    assert_eq!(losses(&mut receiver, 13).len(), 1);
}

#[test]
fn a_clock_that_runs_fast_is_followed_slowly() {
    let mut receiver = receiver();
    // A minute in which the sender's clock gains 6 ms: 100 millionths.
    let mut last = 0;
    for number in 0..6000u32 {
        let sent = u64::from(number) * 10;
        let data = Data { timestamp: number * 10_001, ..packet(number, false) };
        receiver.handle(&data, at(sent), |_| true);
        let due = receiver.slots.back().and_then(Option::as_ref).map(|arrived| arrived.due).unwrap();
        last = due.since(at(sent)).as_micros();
        receiver.deliver(at(sent + 200), |_, _| {});
    }
    assert!((98_000..102_500).contains(&last), "it holds back for {last} µs");
}

#[test]
fn stamps_that_run_ahead_hold_nothing_back_for_long() {
    let mut receiver = receiver();
    let data = Data { timestamp: 1 << 30, ..packet(0, false) };
    receiver.handle(&data, at(0), |_| true);
    assert_eq!(receiver.next_due(), Some(at(1100)));
}

proptest! {
    /// Whatever comes: memory is bounded, payloads come in order and once.
    #[test]
    fn any_packets_are_kept_in_bounds_and_delivered_in_order(
        packets in proptest::collection::vec((0u32..40_000, any::<bool>(), any::<u16>()), 1..300),
    ) {
        let mut receiver = receiver();
        let mut numbers: Vec<u64> = Vec::new();
        for (index, (number, again, stamp)) in packets.into_iter().enumerate() {
            let now = at(index as u64);
            let data = Data { timestamp: u32::from(stamp) * 1000, ..packet(number, again) };
            receiver.handle(&data, now, |payload| {
                payload[..4].copy_from_slice(&number.to_be_bytes());
                true
            });
            let _ = receiver.report(now, RTT, RTT);
            receiver.deliver(now, |payload, _| {
                numbers.push(payload.first_chunk::<4>().map_or(0, |bytes| u32::from_be_bytes(*bytes)).into());
            });
            prop_assert!(receiver.slots.len() <= WINDOW && receiver.missing.len() <= WINDOW);
            let due = receiver.next_due();
            prop_assert!(due.is_none_or(|due| due <= now + LATENCY + AHEAD_MAX));
        }
        prop_assert!(numbers.is_sorted_by(|a, b| a < b), "{numbers:?}");
    }
}

fn push_by(receiver: &mut Receiver, line: u8, number: u32, millis: u64) {
    receiver.note_line(line, &packet(number, false), at(millis));
    push(receiver, number, millis);
}

#[test]
fn of_several_lines_a_packet_is_lost_once_each_has_brought_a_later_one() {
    let mut receiver = receiver();
    // By line 1 packets are under way 60 ms longer: 1 and 3 are by it, and come after 2 and 4.
    push_by(&mut receiver, 0, 0, 0);
    push_by(&mut receiver, 1, 1, 1);
    push_by(&mut receiver, 0, 2, 2);
    push_by(&mut receiver, 0, 4, 4);
    push_by(&mut receiver, 0, 7, 7);
    for millis in 7..30 {
        assert_eq!(losses(&mut receiver, millis), [], "{millis} ms");
    }
    push_by(&mut receiver, 1, 3, 30);
    assert_eq!(losses(&mut receiver, 30), [], "5 and 6 may still come by line 1");
    push_by(&mut receiver, 1, 6, 31);
    assert_eq!(losses(&mut receiver, 31), [(3, 3)], "5 cannot come any more");
    assert_eq!((receiver.counts.recovered, receiver.counts.reported), (2, 1));
}

#[test]
fn a_line_that_brings_nothing_is_not_waited_for() {
    let mut receiver = receiver();
    receiver.latency = Duration::from_secs(1);
    push_by(&mut receiver, 1, 0, 0);
    push_by(&mut receiver, 0, 1, 1);
    push_by(&mut receiver, 0, 3, 3);
    assert_eq!(losses(&mut receiver, 150), []);
    push_by(&mut receiver, 0, 4, 201);
    assert_eq!(losses(&mut receiver, 201), [(0, 0)]);
    // One that is heard, but has brought nothing later, is waited for up to a share of the latency.
    push_by(&mut receiver, 1, 5, 300);
    push_by(&mut receiver, 0, 7, 301);
    receiver.note_line(1, &packet(5, true), at(480));
    receiver.note_line(1, &packet(5, true), at(630));
    let reported = |receiver: &mut Receiver, millis| losses(receiver, millis).contains(&(4, 4));
    assert!(!reported(&mut receiver, 630));
    assert!(reported(&mut receiver, 635));
}

#[test]
fn time_stamps_go_on_over_their_end() {
    // They wrap every 71 minutes.
    let began = u32::MAX - 1500;
    let mut receiver = Receiver::new(Sequence::new(0x7fff_fffe), LATENCY, began, at(0));
    for number in 0..4 {
        let data = Data { timestamp: began.wrapping_add(number * 1000), ..packet(number, false) };
        receiver.handle(&data, at(u64::from(number)), |payload| {
            payload[0] = number as u8;
            true
        });
    }
    for number in 0..4u32 {
        assert_eq!(receiver.next_due(), Some(at(100 + u64::from(number))));
        assert_eq!(delivered(&mut receiver, 100 + u64::from(number)), [number as u8]);
    }
}
