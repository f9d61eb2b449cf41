use super::*;
use crate::link::reordering::{ORDERLY_LOSSES, PACKET_THRESHOLD, PACKET_THRESHOLD_MAX};
use crate::link::steps;
use crate::link::wire::frame::{Frame, write_ack};
use crate::link::wire::varint::Reader;

fn acknowledge(recovery: &mut Recovery, now: Time, ranges: &[(u64, u64)]) -> Sample {
    let mut bytes = Vec::new();
    write_ack(ranges.iter().copied(), 0, 0, 0, &mut bytes);
    let Some(Frame::Ack(ack)) = Frame::parse(&mut Reader::new(&bytes)) else { panic!("no ACK") };
    recovery.handle_ack(now, &ack).unwrap()
}

fn flying(count: u64) -> Recovery {
    let mut recovery = Recovery::new(Time::ZERO);
    for number in 0..count {
        recovery.handle_sent(Time::from_millis(number), number, 1000, true, &[Content::Open(number as u8)]);
    }
    recovery
}

#[test]
fn three_later_ones_make_a_loss_and_time_makes_the_others() {
    let mut recovery = flying(6);
    let sample = acknowledge(&mut recovery, Time::from_millis(100), &[(4, 4)]);
    assert_eq!(recovery.lost, [Content::Open(0), Content::Open(1)]);
    assert_eq!(
        (sample.acked_packets, sample.lost_packets, sample.acked_bytes, recovery.in_flight()),
        (1, 2, 1000, 3000)
    );
    assert_eq!(sample.rtt, Some(Duration::from_millis(96)));
    recovery.lost.clear();
    let at = recovery.next_timeout();
    assert_eq!(at, Time::from_millis(2) + Duration::from_millis(96) * 9 / 8);
    let (sample, probe) = recovery.handle_timeout(at);
    assert_eq!((recovery.lost.clone(), sample.lost_packets, probe), (vec![Content::Open(2)], 1, false));
}

#[test]
fn what_was_deemed_lost_and_comes_late_is_told_as_acknowledged() {
    let mut recovery = flying(6);
    acknowledge(&mut recovery, Time::from_millis(100), &[(5, 5)]);
    recovery.acked.clear();
    acknowledge(&mut recovery, Time::from_millis(101), &[(0, 5)]);
    let expected: Vec<_> = (0..5u8).map(Content::Open).collect();
    let mut acked = recovery.acked.clone();
    acked.sort_by_key(|content| if let Content::Open(number) = content { *number } else { 99 });
    assert_eq!(acked, expected);
    assert_eq!((recovery.in_flight(), recovery.remembered()), (0, 0));
}

#[test]
fn silence_brings_probes_further_and_further_apart() {
    let mut recovery = flying(1);
    let mut gaps = Vec::new();
    let mut before = Time::ZERO;
    for probe in 1..=6 {
        let at = recovery.next_timeout();
        assert!(recovery.handle_timeout(at).1, "a probe");
        assert!(!recovery.handle_timeout(at).1, "and not two");
        assert_eq!(recovery.probes(), probe);
        gaps.push(at - before);
        before = at;
    }
    let later = &gaps[1..];
    assert_eq!(later[0], LEAST_PROBE_GAP);
    assert!(later.windows(2).all(|pair| pair[0] <= pair[1]), "{gaps:?}");
    assert!(!recovery.is_blind(), "{gaps:?}");
    for _ in 0..40 {
        let at = recovery.next_timeout();
        assert!(at - before <= MAX_PROBE_GAP && recovery.handle_timeout(at).1);
        recovery.handle_sent(at, recovery.base + recovery.packets.len() as u64, 50, true, &[]);
        before = at;
    }
    assert_eq!(recovery.next_timeout() - before, MAX_PROBE_GAP);
    assert!(recovery.is_blind());
}

#[test]
fn an_acknowledgement_of_what_was_never_sent_is_none() {
    let mut recovery = flying(3);
    let mut bytes = Vec::new();
    write_ack([(0, 3)].into_iter(), 0, 0, 0, &mut bytes);
    let Some(Frame::Ack(ack)) = Frame::parse(&mut Reader::new(&bytes)) else { panic!("no ACK") };
    assert_eq!(recovery.handle_ack(Time::ZERO, &ack).err(), Some(NeverSent));
}

#[test]
fn the_delivery_rate_is_that_of_the_path() {
    let mut recovery = Recovery::new(Time::ZERO);
    let mut rate = None;
    // A packet of 1000 bytes each 10 ms, acknowledged 50 ms later.
    for step in 0..40u64 {
        let now = Time::from_millis(step * 10);
        if step >= 5 {
            let sample = acknowledge(&mut recovery, now, &[(0, step - 5)]);
            rate = sample.delivery.or(rate);
        }
        recovery.handle_sent(now, step, 1000, true, &[]);
    }
    let rate = rate.unwrap().rate.bytes_per_second();
    assert!((90_000..=110_000).contains(&rate), "{rate}");
}

#[test]
fn who_only_acknowledges_remembers_little() {
    let mut recovery = Recovery::new(Time::ZERO);
    for number in 0..10_000 {
        recovery.handle_sent(Time::from_millis(number), number, 40, false, &[Content::Ack(number)]);
    }
    assert!(recovery.remembered() < 400, "{}", recovery.remembered());
}

#[test]
fn what_leaves_in_a_row_is_measured_by_itself_however_long_the_pause_before() {
    let mut recovery = Recovery::new(Time::ZERO);
    let (mut number, mut now) = (0, Time::ZERO);
    for row in 0..3 {
        let (first, began) = (number, now);
        for packet in 0..6 {
            if packet == 5 {
                recovery.mark_app_limited();
            }
            recovery.handle_sent(began + Duration::from_millis(packet), number, 1000, true, &[]);
            number += 1;
        }
        // They leave a millisecond apart, and two milliseconds apart they come.
        for packet in 0..6 {
            let came = began + Duration::from_millis(50 + 2 * packet);
            let mut bytes = Vec::new();
            let us = (came - Time::ZERO).as_micros() as u64;
            write_ack([(0, first + packet)].into_iter(), 0, us, 0, &mut bytes);
            let Some(Frame::Ack(ack)) = Frame::parse(&mut Reader::new(&bytes)) else { panic!("no ACK") };
            let sample = recovery.handle_ack(came + Duration::from_millis(50), &ack).unwrap();
            let expected = (packet >= 2).then(|| ByteRate::from_bytes_per_second(500_000));
            assert_eq!(sample.train_rate, expected, "row {row}, packet {packet}");
            assert!(
                sample.delivery.is_none_or(|delivery| delivery.app_limited),
                "row {row}: the pauses are the application's"
            );
        }
        now = began + Duration::from_secs(1);
    }
}

#[test]
fn who_acknowledges_all_but_one_packet_neither_fills_the_memory_nor_takes_the_time() {
    let mut recovery = Recovery::new(Time::ZERO);
    // A peer whose answers take a minute, so that what is lost is remembered for two.
    recovery.handle_sent(Time::ZERO, 0, 50, true, &[]);
    acknowledge(&mut recovery, Time::from_millis(60_000), &[(0, 0)]);
    let _ = steps::take();
    let start = Time::from_millis(60_000);
    for number in 1..100_000u64 {
        let now = start + Duration::from_micros(number);
        // Of three packets one asks for an acknowledgement and gets it, but for the first of all.
        recovery.handle_sent(now, number, 50, number % 3 == 1, &[Content::Ack(number)]);
        if number > 10 {
            acknowledge(&mut recovery, now, &[(2, number)]);
        }
        recovery.acked.clear();
        let steps = steps::take();
        assert!(steps < 60, "packet {number}: {steps} steps");
    }
    assert!(recovery.remembered() <= MAX_REMEMBERED + 64, "{}", recovery.remembered());
    // One that acknowledges nothing at all.
    let mut recovery = flying(1);
    for number in 1..100_000u64 {
        recovery.handle_sent(Time::from_millis(1), number, 50, number % 3 == 0, &[Content::Ack(number)]);
    }
    let most = MAX_REMEMBERED + 2 * MAX_REMEMBERED * 50 / LARGE_PACKET as usize;
    assert!(recovery.remembered() <= most, "{}", recovery.remembered());
    assert!(recovery.in_flight() <= 50 * most as u64);
}

#[test]
fn a_path_that_changes_the_order_is_given_time_until_it_keeps_it() {
    let mut recovery = flying(200);
    let mut now = Time::from_millis(300);
    // Packet 0 comes behind 5 others: it was deemed lost.
    acknowledge(&mut recovery, now, &[(1, 5)]);
    assert_eq!(recovery.lost, [Content::Open(0)]);
    let late = acknowledge(&mut recovery, now, &[(0, 5)]);
    assert_eq!((late.late_packets, late.acked_packets, late.lost_packets), (1, 1, 0));
    recovery.lost.clear();
    // The next one that is as late is no loss, by number or by time.
    now += Duration::from_millis(1);
    let sample = acknowledge(&mut recovery, now, &[(7, 11)]);
    assert_eq!((sample.lost_packets, recovery.lost.len()), (0, 0));
    acknowledge(&mut recovery, now, &[(6, 11)]);
    // One that is later still teaches that, up to a bound.
    acknowledge(&mut recovery, now, &[(13, 150)]);
    acknowledge(&mut recovery, now, &[(12, 150)]);
    assert_eq!(recovery.reordering.packets, PACKET_THRESHOLD_MAX);
    assert!(recovery.reordering.time <= recovery.rtt.smoothed);
    // Losses that are none of order bring the path's good name back.
    for _ in 0..ORDERLY_LOSSES {
        recovery.reordering.handle_loss();
    }
    assert_eq!((recovery.reordering.packets, recovery.reordering.time), (PACKET_THRESHOLD, Duration::ZERO));
}
