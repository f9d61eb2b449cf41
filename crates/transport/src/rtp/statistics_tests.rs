use super::*;
use proptest::prelude::*;
use std::collections::BTreeSet;

fn header(sequence: u16, timestamp: u32, ssrc: u32) -> Header {
    Header { marker: false, payload_type: 96, sequence, timestamp, ssrc }
}

fn pushed(numbers: &[u16]) -> (Statistics, Vec<Arrival>) {
    let mut statistics = Statistics::new(90_000);
    let arrivals = numbers.iter().map(|number| statistics.push(&header(*number, 0, 7), Time::ZERO)).collect();
    (statistics, arrivals)
}

const ONE: u64 = 1 << 32;

#[test]
fn a_late_packet_is_no_longer_lost() {
    let (statistics, arrivals) = pushed(&[10, 14, 12, 12, 15]);
    assert_eq!(
        arrivals,
        [
            Arrival::Next { number: ONE + 10 },
            Arrival::Gap { number: ONE + 14, missing: 3 },
            Arrival::Late { number: ONE + 12 },
            Arrival::Duplicate { number: ONE + 12 },
            Arrival::Next { number: ONE + 15 },
        ]
    );
    let counters = statistics.counters();
    assert_eq!((counters.expected, counters.received, counters.lost()), (6, 4, 2));
    assert_eq!((counters.reordered, counters.duplicates, counters.longest_loss), (1, 1, 1));
}

#[test]
fn the_first_packets_may_be_out_of_order() {
    let (statistics, _) = pushed(&[0, 65_533, 1, 65_535]);
    let counters = statistics.counters();
    assert_eq!((counters.expected, counters.received, counters.reordered), (5, 4, 2));
    assert_eq!((counters.lost(), counters.longest_loss), (1, 1));
}

#[test]
fn one_packet_from_elsewhere_is_a_stray_and_two_are_a_restart() {
    let (mut statistics, arrivals) = pushed(&[1, 2, 40_000, 3, 30_000, 20_000, 20_001, 20_003]);
    assert_eq!(arrivals[2], Arrival::Stray);
    assert_eq!(arrivals[6], Arrival::Restart { number: ONE + 20_001 });
    let counters = statistics.counters();
    assert_eq!((counters.strays, counters.restarts), (2, 1));
    assert_eq!((counters.expected, counters.received, counters.lost()), (7, 6, 1));
    for sequence in [500, 501] {
        statistics.push(&header(sequence, 0, 8), Time::ZERO);
    }
    let later = statistics.counters();
    assert_eq!((statistics.ssrc(), later.restarts), (Some(8), 2));
    assert_eq!(later.since(&counters).received, 2);
}

#[test]
fn extended_numbers_tell_a_loss_of_more_than_a_turn() {
    let mut statistics = Statistics::new(90_000).with_dropout_max(1 << 20);
    statistics.push_extended(&header(5, 0, 1), 9, Time::ZERO);
    let arrival = statistics.push_extended(&header(6, 0, 1), 11, Time::ZERO);
    assert_eq!(arrival, Arrival::Gap { number: ONE + (11 << 16) + 6, missing: 131_072 });
    assert_eq!(statistics.counters().longest_loss, 131_072);
    // The high bits wrap too.
    let mut statistics = Statistics::new(90_000);
    statistics.push_extended(&header(0xFFFF, 0, 1), 0xFFFF, Time::ZERO);
    assert_eq!(statistics.push_extended(&header(0, 0, 1), 0, Time::ZERO), Arrival::Next { number: 2 * ONE });
}

#[test]
fn a_sender_without_high_bits_does_not_restart_at_each_wrap() {
    let mut statistics = Statistics::new(90_000);
    for number in 0..200_000u32 {
        statistics.push_extended(&header(number as u16, 0, 1), 0, Time::ZERO);
    }
    let counters = statistics.counters();
    assert_eq!((counters.received, counters.lost(), counters.restarts, counters.strays), (200_000, 0, 0, 0));
}

#[test]
fn jitter_is_that_of_the_rfc() {
    let mut statistics = Statistics::new(1000);
    let mut expected = 0.0f64;
    let mut last = None;
    for (sequence, stamp, millis) in [(0, 100, 0u64), (1, 120, 25), (2, 140, 38), (3, 160, 61)] {
        statistics.push(&header(sequence, stamp, 1), Time::from_millis(millis));
        let transit = millis as f64 - f64::from(stamp);
        if let Some(last) = last.replace(transit) {
            expected += ((transit - last).abs() - expected) / 16.0;
        }
    }
    let found = statistics.jitter().as_secs_f64() * 1e3;
    assert!((found - expected).abs() < 1e-3, "{found} ms, expected {expected}");
    assert!((expected - 0.872).abs() < 1e-3);
}

/// What [`Statistics`] should say of these numbers, counted in the simplest way.
fn naive(numbers: &[u64]) -> Counters {
    let mut seen = BTreeSet::new();
    let mut counters = Counters::default();
    for &number in numbers {
        let highest = seen.last().copied();
        if !seen.insert(number) {
            counters.duplicates += 1;
        } else if highest.is_some_and(|highest| number < highest) {
            counters.reordered += 1;
        }
    }
    let (first, last) = (*seen.first().unwrap(), *seen.last().unwrap());
    counters.expected = last - first + 1;
    counters.received = seen.len() as u64;
    let gaps = seen.iter().zip(seen.iter().skip(1)).map(|(one, next)| next - one - 1);
    counters.longest_loss = gaps.max().unwrap_or(0);
    counters
}

proptest! {
    #[test]
    fn it_counts_as_the_naive_model_does(
        start in any::<u32>(),
        steps in prop::collection::vec((0u8..8, 0u64..3000, any::<u64>()), 1..600),
        extended: bool,
    ) {
        let mut statistics = Statistics::new(90_000);
        let mut numbers = vec![ONE + u64::from(start)];
        for (kind, jump, random) in steps {
            let (highest, first) = (*numbers.iter().max().unwrap(), numbers[0]);
            numbers.push(match kind {
                // Mostly in order; then gaps, small ones and large ones; then late ones and duplicates.
                0..=3 => highest + 1,
                4 => highest + 1 + random % 5,
                5 => highest + jump,
                _ => (highest - random % 4000).max(first.saturating_sub(100)),
            });
        }
        for &number in &numbers {
            let header = header(number as u16, 0, 1);
            if extended {
                statistics.push_extended(&header, (number >> 16) as u16, Time::ZERO);
            } else {
                statistics.push(&header, Time::ZERO);
            }
        }
        prop_assert_eq!(statistics.counters(), naive(&numbers));
    }

    #[test]
    fn any_headers_add_up(packets in prop::collection::vec((any::<u16>(), any::<u16>(), any::<u32>(), 0u32..3, any::<u64>()), 0..200)) {
        let mut statistics = Statistics::new(0).with_dropout_max(u32::MAX);
        for &(sequence, high, timestamp, ssrc, now) in &packets {
            let header = header(sequence, timestamp, ssrc);
            if high % 2 == 0 {
                statistics.push(&header, Time::from_nanos(now));
            } else {
                statistics.push_extended(&header, high, Time::from_nanos(now));
            }
        }
        let counters = statistics.counters();
        let waiting = u64::from(statistics.candidate.is_some());
        let sum = counters.received + counters.duplicates + counters.strays + waiting;
        prop_assert_eq!(sum, packets.len() as u64);
        prop_assert!(counters.received <= counters.expected);
        prop_assert!(counters.longest_loss <= counters.lost());
    }
}
