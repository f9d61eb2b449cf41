use super::*;
use proptest::prelude::*;

/// A reorderer and what it gave out.
struct Bench {
    reorder: Reorder,
    out: Vec<u32>,
}

impl Bench {
    fn new(window_ms: u64, packets: usize) -> Bench {
        let settings = Settings { window: Duration::from_millis(window_ms), packets };
        Bench { reorder: Reorder::new(settings), out: Vec::new() }
    }

    /// Packet `number` of a sender whose first one has the sequence number `first`.
    fn push(&mut self, ssrc: u32, first: u16, number: u32, at_ms: u64) {
        self.push_from(Origin::default(), ssrc, first, number, at_ms);
    }

    fn push_from(&mut self, from: Origin, ssrc: u32, first: u16, number: u32, at_ms: u64) {
        let sequence = first.wrapping_add(number as u16);
        let header = Header { marker: false, payload_type: 33, sequence, timestamp: 0, ssrc };
        let out = &mut self.out;
        let mut keep = |payload: &[u8]| out.push(u32::from_be_bytes(payload.try_into().unwrap()));
        self.reorder.push(&header, &number.to_be_bytes(), from, Time::from_millis(at_ms), &mut keep);
    }

    fn timeout(&mut self, at_ms: u64) {
        let out = &mut self.out;
        let mut keep = |payload: &[u8]| out.push(u32::from_be_bytes(payload.try_into().unwrap()));
        self.reorder.handle_timeout(Time::from_millis(at_ms), &mut keep);
    }

    fn took(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.out)
    }
}

#[test]
fn packets_in_order_leave_at_once_over_the_wrap() {
    let mut bench = Bench::new(50, 512);
    for number in 0..200_000 {
        bench.push(7, 65_530, number, 0);
        assert_eq!(bench.took(), [number]);
        assert_eq!(bench.reorder.poll_timeout(), None);
    }
    assert_eq!(bench.reorder.counters(), Counters { received: 200_000, ..Counters::default() });
}

#[test]
fn a_gap_is_waited_for_and_then_given_up() {
    let mut bench = Bench::new(50, 512);
    for (number, at_ms) in [(0, 0), (2, 10), (3, 20)] {
        bench.push(7, 0, number, at_ms);
    }
    assert_eq!((bench.took(), bench.reorder.poll_timeout()), (vec![0], Some(Time::from_millis(60))));
    bench.push(7, 0, 1, 59);
    assert_eq!((bench.took(), bench.reorder.poll_timeout()), (vec![1, 2, 3], None));
    for (number, at_ms) in [(7, 100), (5, 120)] {
        bench.push(7, 0, number, at_ms);
    }
    bench.timeout(149);
    assert_eq!(bench.took(), [0u32; 0]);
    // What came first has waited for its time: both gaps before it are given up.
    bench.timeout(150);
    assert_eq!((bench.took(), bench.reorder.poll_timeout()), (vec![5, 7], None));
    bench.reorder.handle_timeout(Time::NEVER, &mut |_| panic!("nothing is held"));
    for number in [4, 6, 5, 7, 8] {
        bench.push(7, 0, number, 151);
    }
    assert_eq!(bench.took(), [8]);
    let expected =
        Counters { received: 11, lost: 2, reordered: 2, late: 2, duplicate: 2, ..Counters::default() };
    assert_eq!(bench.reorder.counters(), expected);
}

#[test]
fn two_gaps_are_given_up_when_their_own_time_comes() {
    let mut bench = Bench::new(50, 512);
    for (number, at_ms) in [(0, 0), (2, 0), (4, 30)] {
        bench.push(7, 0, number, at_ms);
    }
    bench.timeout(50);
    assert_eq!((bench.took(), bench.reorder.poll_timeout()), (vec![0, 2], Some(Time::from_millis(80))));
    // A later packet gives up what is over too, without a call of the timer.
    bench.push(7, 0, 6, 80);
    assert_eq!((bench.took(), bench.reorder.counters().lost), (vec![4], 2));
}

#[test]
fn no_more_is_held_than_allowed_and_a_window_of_nothing_holds_nothing() {
    let mut bench = Bench::new(50, 4);
    bench.push(7, 0, 0, 0);
    (2..6).for_each(|number| bench.push(7, 0, number, 0));
    assert_eq!((bench.took(), bench.reorder.held()), (vec![0], 4));
    bench.push(7, 0, 8, 0);
    assert_eq!((bench.took(), bench.reorder.held()), (vec![2, 3, 4, 5], 1));

    let mut bench = Bench::new(0, 4);
    [0, 2, 1, 3].into_iter().for_each(|number| bench.push(7, 0, number, 0));
    assert_eq!((bench.took(), bench.reorder.counters().late), (vec![0, 2, 3], 1));
}

#[test]
fn a_sender_that_begins_anew_is_followed_from_its_first_packet() {
    let mut bench = Bench::new(50, 512);
    [0, 1, 3].into_iter().for_each(|number| bench.push(7, 100, number, 0));
    // Another sender, once the first one is silent: what is held of the old one comes first.
    bench.push(8, 40_000, 10, 200);
    assert_eq!(bench.took(), [0, 1]);
    bench.push(8, 40_000, 11, 201);
    assert_eq!(bench.took(), [3, 10, 11]);
    // The same one, far away.
    [30_000, 30_001, 30_002].into_iter().for_each(|number| bench.push(8, 40_000, number, 401));
    assert_eq!(bench.took(), [30_000, 30_001, 30_002]);
    let counters = bench.reorder.counters();
    assert_eq!((counters.restarts, counters.lost, counters.stray), (2, 1, 0));
}

#[test]
fn strays_change_nothing() {
    let mut bench = Bench::new(50, 512);
    for number in 0..10 {
        bench.push(7, 0, number, 0);
        bench.push(9, 5, number, 0);
        assert_eq!(bench.took(), [number]);
    }
    bench.push(9, 5, 500, 0);
    let counters = bench.reorder.counters();
    assert_eq!((counters.restarts, counters.stray, counters.lost), (0, 11, 0));
}

/// Rows of packets in their order, which a count of two in a row would follow: of another SSRC, of the same one by other
/// numbers, and of the same one with the right numbers from another address.
#[test]
fn another_sender_takes_nothing_over_while_the_first_one_sends() {
    let from = |address: &str| Origin::of(address.parse().ok());
    let (sender, near, far) = (from("10.0.0.5:5004"), from("10.0.0.5:40000"), from("10.0.0.9:5004"));
    let mut bench = Bench::new(50, 512);
    for number in 0..1_000 {
        let at_ms = u64::from(number) * 20;
        bench.push_from(sender, 7, 0, number, at_ms);
        for step in 0..3 {
            bench.push_from(far, 9, 300, 3 * number + step, at_ms + 1);
            bench.push_from(near, 9, 300, 3 * number + step, at_ms + 1);
            bench.push_from(sender, 7, 30_000, 3 * number + step, at_ms + 1);
            bench.push_from(far, 7, 0, number + 1 + step, at_ms + 1);
        }
        assert_eq!(bench.took(), [number]);
    }
    let counters = bench.reorder.counters();
    let expected = Counters { received: 13_000, stray: 12_000, ..Counters::default() };
    assert_eq!(counters, expected);
    // It is silent for a second: the next one is followed from its first packet, and what was between counts as no loss.
    let end = 999 * 20;
    bench.push_from(far, 9, 300, 0, end + 999);
    bench.push_from(far, 9, 300, 1, end + 1_000);
    bench.push_from(far, 9, 300, 2, end + 1_001);
    assert_eq!(bench.took(), [1, 2]);
    let counters = bench.reorder.counters();
    assert_eq!((counters.restarts, counters.lost, counters.stray), (1, 0, 12_001));
}

proptest! {
    /// Each packet is moved by less than the window: all come out in order, exactly once, and duplicates do no harm.
    #[test]
    fn any_order_within_the_window_comes_out_in_order_once(
        first: u16,
        moved in prop::collection::vec((0u32..40, any::<bool>()), 1..400),
    ) {
        // Packet 0 begins the session; number n is sent at n and arrives up to 40 ms later.
        let mut arrivals: Vec<(u32, u32)> = vec![(0, 0)];
        for (index, (delay, twice)) in moved.iter().enumerate() {
            let number = index as u32 + 1;
            arrivals.push((number + delay, number));
            if *twice {
                arrivals.push((number + delay / 2 + 20, number));
            }
        }
        arrivals.sort();
        let mut bench = Bench::new(41, 512);
        for (at, number) in &arrivals {
            bench.timeout(u64::from(*at));
            bench.push(3, first, *number, u64::from(*at));
        }
        let count = moved.len() as u32 + 1;
        prop_assert_eq!(bench.took(), (0..count).collect::<Vec<_>>());
        let counters = bench.reorder.counters();
        prop_assert_eq!((counters.lost, counters.late, counters.restarts), (0, 0, 0));
        prop_assert_eq!(counters.duplicate + u64::from(count), counters.received);
        prop_assert_eq!(bench.reorder.poll_timeout(), None);
    }

    /// Whatever comes: numbers given out only grow between restarts, nothing is held too long or in too great number.
    #[test]
    fn no_packets_break_the_order_or_the_bounds(
        packets in prop::collection::vec((0u32..2, any::<u16>(), 0u32..8, 0u64..30), 0..300),
        near: bool,
    ) {
        let mut bench = Bench::new(50, 8);
        let (mut at, mut given) = (0, 0);
        for (ssrc, sequence, step, time) in packets {
            at += time;
            bench.timeout(at);
            let restarts = bench.reorder.counters().restarts;
            bench.push(if near { 0 } else { ssrc }, 0, if near { step } else { u32::from(sequence) }, at);
            prop_assert!(bench.reorder.held() <= 8);
            let deadline = bench.reorder.poll_timeout();
            prop_assert!(deadline.is_none_or(|due| due > Time::from_millis(at)));
            let took = bench.took();
            given += took.len() as u64;
            if bench.reorder.counters().restarts == restarts {
                prop_assert!(took.windows(2).all(|two| (two[1].wrapping_sub(two[0]) as u16) < 0x8000));
            }
        }
        let counters = bench.reorder.counters();
        let held = bench.reorder.held() as u64 + u64::from(bench.reorder.candidate.is_some());
        let told = given + counters.late + counters.duplicate + counters.stray + held;
        prop_assert_eq!(told, counters.received);
    }
}
