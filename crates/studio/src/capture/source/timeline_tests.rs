//! The grid against writers of every kind: cameras that began earlier, jitter, stalls, clocks that differ, files.

use super::*;
use proptest::prelude::*;
use std::collections::VecDeque;

const SECOND: u64 = 1_000_000_000;

fn rate(numerator: u32, denominator: u32) -> FrameRate {
    FrameRate::new(numerator, denominator).unwrap()
}

fn millis(millis: u64) -> Time {
    Time::from_millis(millis)
}

/// A picture's way.
#[derive(Clone, Copy, Debug)]
struct Placed {
    /// Which one of the writer's.
    index: usize,
    arrived: u64,
    captured: u64,
}

impl Placed {
    /// How long it waited for its place.
    fn held(self) -> u64 {
        self.captured.saturating_sub(self.arrived)
    }
}

/// Who writes into a pipe.
enum Writer<'a> {
    /// Picture k is there at this time, in nanoseconds, whether it is taken or not.
    Live(&'a [u64]),
    /// Picture k is there so long after the one before was taken.
    Works(&'a [u64]),
}

/// What a writer's pictures became.
#[derive(Debug, Default)]
struct Played {
    placed: Vec<Placed>,
    dropped: Vec<usize>,
    stalls: usize,
}

/// Reads ahead as the source does, up to `room` pictures, each of which takes `read` nanoseconds.
fn play(rate: FrameRate, follows: bool, room: usize, read: u64, writer: &Writer<'_>) -> Played {
    let mut timeline = Timeline::new(rate, follows);
    let (mut played, mut waiting) = (Played::default(), VecDeque::new());
    let (mut now, mut next, mut taken) = (SECOND, 0, SECOND);
    loop {
        while let Some(captured) = timeline.poll(Time::from_nanos(now)) {
            assert!(captured.as_nanos() <= now);
            let (index, arrived) = waiting.pop_front().expect("a picture that waits");
            let captured = captured.as_nanos();
            if let Some(last) = played.placed.last() {
                let apart = captured - last.captured;
                assert!(apart >= rate.time_of(1).as_nanos() as u64 / 2, "{apart} ns after {last:?}");
            }
            played.placed.push(Placed { index, arrived, captured });
        }
        let there = match writer {
            Writer::Live(times) => times.get(next).map(|time| SECOND + time),
            Writer::Works(times) => times.get(next).map(|time| taken + time),
        };
        if waiting.len() >= room && there.is_some() {
            timeline.full(Time::from_nanos(now));
        }
        let arrival = there.filter(|_| waiting.len() < room).map(|there| there.max(now) + read);
        let due = timeline.poll_timeout().map(Time::as_nanos);
        match (arrival, due) {
            (None, None) => return played,
            (Some(at), due) if due.is_none_or(|due| at < due) => {
                (now, taken) = (at, at);
                match timeline.arrive(Time::from_nanos(now)) {
                    Arrival::Dropped => played.dropped.push(next),
                    Arrival::Waits => waiting.push_back((next, now)),
                    Arrival::Stalled(_) => {
                        played.stalls += 1;
                        waiting.push_back((next, now));
                    }
                }
                next += 1;
            }
            (_, due) => now = due.expect("one of both").max(now),
        }
    }
}

/// `seconds` of a camera at `real` pictures a second, whose first `bunch` pictures were there at the beginning.
fn camera(real: f64, seconds: u64, bunch: u64) -> Vec<u64> {
    let count = (seconds as f64 * real) as u64;
    (0..count).map(|number| (number.saturating_sub(bunch) as f64 * 1e9 / real) as u64).collect()
}

fn live(rate: FrameRate, times: &[u64]) -> Played {
    play(rate, true, rate.as_f64() as usize, 700_000, &Writer::Live(times))
}

/// The longest that a picture was held of those that came after `from` seconds.
fn longest_hold(played: &Played, from: u64) -> u64 {
    let later = played.placed.iter().filter(|placed| placed.arrived >= SECOND * (from + 1));
    later.map(|placed| placed.held()).max().expect("pictures as late as that")
}

#[test]
fn a_picture_that_waited_at_the_start_delays_no_other() {
    // Picture 1 right behind picture 0, then one each 20 ms.
    let played = live(rate(50, 1), &camera(50.0, 10, 1));
    assert_eq!((played.placed.len(), played.dropped.len()), (500, 0));
    for placed in &played.placed[4..] {
        assert_eq!(placed.held(), 0, "{placed:?}");
    }
}

#[test]
fn a_long_bunch_at_the_start_is_caught_up_with_and_loses_nothing() {
    for bunch in [2, 5, 12, 25, 40] {
        let played = live(rate(50, 1), &camera(50.0, 20, bunch));
        assert_eq!((played.placed.len(), played.dropped.len()), (1000, 0), "{bunch}");
        assert!(longest_hold(&played, 5) < 200_000, "{bunch}: {}", longest_hold(&played, 5));
    }
}

#[test]
fn another_rate_than_the_header_s_is_followed() {
    for (told, real) in [(25, 24.97), (25, 25.03), (50, 49.95), (50, 50.05), (30, 29.97), (60, 59.94)] {
        let played = live(rate(told, 1), &camera(real, 300, 0));
        assert_eq!((played.dropped.len(), played.stalls), (0, 0), "{real} of {told}");
        assert!(longest_hold(&played, 1) < 100_000, "{real} of {told}: {}", longest_hold(&played, 1));
        for placed in &played.placed {
            let stale = placed.arrived.saturating_sub(placed.captured);
            assert!(stale < 4_000_000, "{real} of {told}: {placed:?}");
        }
    }
}

#[test]
fn after_a_stall_nothing_waits_and_what_is_old_gives_way() {
    for stall in [130u64, 250, 333, 500, 511, 2_000] {
        // What was captured meanwhile comes at once.
        let at = 5 * SECOND;
        let held = |time: &u64| {
            if (at..at + stall * 1_000_000).contains(time) { at + stall * 1_000_000 } else { *time }
        };
        let times: Vec<u64> = camera(50.0, 20, 1).iter().map(held).collect();
        let played = live(rate(50, 1), &times);
        assert_eq!(played.stalls, 1, "{stall}");
        let old = (stall / 20) as usize;
        assert!(
            (old.saturating_sub(2)..=old + 1).contains(&played.dropped.len()),
            "{stall}: {:?}",
            played.dropped
        );
        let hold = longest_hold(&played, 5 + stall.div_ceil(1000) + 1);
        assert!(hold < 100_000, "{stall}: {hold}");
        let first =
            played.placed.iter().find(|placed| placed.arrived > SECOND + at + stall * 1_000_000).unwrap();
        assert_eq!(first.held(), 0, "{first:?}");
    }
}

#[test]
fn a_camera_that_pauses_delays_nothing_afterwards() {
    for pause in [60u64, 90, 250, 511, 3_000] {
        let times: Vec<u64> = camera(50.0, 20, 0)
            .iter()
            .map(|time| if *time < 5 * SECOND { *time } else { time + pause * 1_000_000 })
            .collect();
        let played = live(rate(50, 1), &times);
        assert_eq!(played.dropped.len(), 0, "{pause}");
        assert!(longest_hold(&played, 0) < 100_000, "{pause}: {}", longest_hold(&played, 0));
    }
}

#[test]
fn fields_that_come_in_pairs_do_not_wait_for_each_other() {
    // 25 interlaced pictures a second: both fields are there at once.
    let times: Vec<u64> = (0..1000u64).map(|field| field / 2 * 40_000_000).collect();
    let mut timeline = Timeline::new(rate(50, 1), true);
    let mut held = Vec::new();
    for time in times {
        let now = Time::from_nanos(SECOND + time);
        timeline.arrive(now);
        while let Some(due) = timeline.poll_timeout() {
            timeline.poll(due.max(now)).expect("its time has come");
            held.push(due.since(now));
        }
    }
    assert!(held[200..].iter().all(|held| *held < Duration::from_micros(200)), "{:?}", &held[200..210]);
}

#[test]
fn a_file_keeps_to_its_rate() {
    let mut file = Timeline::new(rate(50, 1), false);
    // All is there at once: each picture waits for its time.
    let mut places = Vec::new();
    for _ in 0..5 {
        assert_eq!(file.arrive(millis(1)), Arrival::Waits);
        let due = file.poll_timeout().unwrap();
        places.extend(file.poll(due).map(|captured| captured.as_nanos() / 1_000_000));
    }
    assert_eq!(places, [1, 21, 41, 61, 81]);
    // A disk that was slow moves the grid, and nothing is left out.
    assert_eq!(file.arrive(millis(301)), Arrival::Stalled(Duration::from_millis(200)));
    assert_eq!(file.poll(millis(301)), Some(millis(301)));
    file.arrive(millis(301));
    assert_eq!((file.poll_timeout(), file.poll(millis(320))), (Some(millis(321)), None));
}

#[test]
fn a_file_that_is_written_as_fast_as_it_goes_keeps_to_its_rate_from_the_first_picture_on() {
    let played = play(rate(25, 1), true, 25, 1_000_000, &Writer::Works(&[0; 1000]));
    for placed in &played.placed {
        let place = SECOND + 1_000_000 + placed.index as u64 * 40_000_000;
        assert_eq!(placed.captured, place, "{placed:?}");
    }
    assert_eq!(played.placed.len(), 1000);
}

#[test]
fn a_stall_of_a_file_s_writer_loses_nothing() {
    let mut work = vec![1_000_000; 1000];
    (work[300], work[600]) = (3 * SECOND, 10 * SECOND);
    let played = play(rate(50, 1), true, 50, 700_000, &Writer::Works(&work));
    assert_eq!((played.placed.len(), played.stalls), (1000, 2));
}

#[test]
fn the_earliest_arrival_counts_and_jitter_is_taken_out() {
    let mut pipe = Timeline::new(rate(50, 1), true);
    let mut place = |micros: u64| {
        let now = Time::from_nanos(micros * 1000);
        pipe.arrive(now);
        let due = pipe.poll_timeout().unwrap();
        pipe.poll(due.max(now)).unwrap().as_nanos() / 1000
    };
    assert_eq!((place(5_000), place(20_000)), (5_000, 20_000));
    for number in 2..50u64 {
        let captured = place(number * 20_000 + (number * 7919) % 5_000);
        assert!(captured.abs_diff(number * 20_000) <= 4 * number, "{number}: {captured}");
    }
}

/// What a live writer's pictures go through.
#[derive(Clone, Debug)]
struct Pattern {
    rate: FrameRate,
    /// By how much the writer's clock differs, in millionths.
    ppm: f64,
    bunch: u64,
    /// Each picture is late by as much, in nanoseconds.
    jitter: Vec<u64>,
    /// When writing stalls and for how long, in nanoseconds; whether what was captured meanwhile comes then.
    stall: Option<(u64, u64, bool)>,
}

impl Pattern {
    const SECONDS: u64 = 24;

    /// When pictures are there.
    fn times(&self) -> Vec<u64> {
        let camera = camera(self.rate.as_f64() * (1.0 + self.ppm * 1e-6), Self::SECONDS, self.bunch);
        let mut last = 0;
        let late = camera.iter().zip(self.jitter.iter().cycle()).filter_map(|(time, jitter)| {
            let time = time + jitter;
            match self.stall {
                Some((at, length, comes)) if (at..at + length).contains(&time) => {
                    comes.then_some(at + length)
                }
                _ => Some(time),
            }
        });
        late.map(|time| {
            last = last.max(time);
            last
        })
        .collect()
    }
}

prop_compose! {
    fn pattern()(
        rate in prop_oneof![Just(rate(50, 1)), Just(rate(25, 1)), Just(rate(60_000, 1001))],
        ppm in -1_300f64..1_300.0,
        bunch in prop_oneof![Just(0u64), Just(1), 2..10u64, 10..20u64],
        most in 1u64..15_000_000,
        jitter in proptest::collection::vec(0f64..1.0, 50..300),
        stall in proptest::option::of((4 * SECOND..8 * SECOND, 1_000_000..3 * SECOND, any::<bool>())),
    ) -> Pattern {
        let jitter = jitter.iter().map(|part| (part * most as f64) as u64).collect();
        Pattern { rate, ppm, bunch, jitter, stall }
    }
}

proptest! {
    #[test]
    fn a_live_writer_s_pictures_are_held_for_no_longer_than_jitter_needs(pattern in pattern()) {
        let jitter = pattern.jitter.iter().copied().max().unwrap();
        let times = pattern.times();
        let played = live(pattern.rate, &times);
        // Nothing is left out but behind a stall: what is as old, and at most one that jitter makes look so.
        prop_assert_eq!(played.placed.len() + played.dropped.len(), times.len());
        let old = match pattern.stall {
            None => 0,
            Some((_, _, false)) => 1,
            Some((_, length, true)) => length as usize / pattern.rate.time_of(1).as_nanos() as usize + 1,
        };
        prop_assert!(played.dropped.len() <= old, "{} are dropped, not {old}", played.dropped.len());
        for placed in &played.placed {
            // Once it is known what writes: six seconds after the beginning, and after a stall.
            let since = placed.arrived - SECOND;
            let known = pattern.stall.map_or(0, |(at, length, _)| if since > at { at + length } else { 0 });
            if since > known + 6 * SECOND {
                prop_assert!(placed.held() <= jitter + 200_000, "{placed:?} is held for {}", placed.held());
            }
            // Sound that is captured at the same time has a stamp that lies as near.
            if since > known + 6 * SECOND && (pattern.stall.is_none_or(|(_, _, comes)| comes) || since < known) {
                let there = SECOND + times[placed.index];
                let off = placed.captured.abs_diff(there);
                prop_assert!(off <= 2 * jitter + 6_000_000, "{placed:?} is off by {off}");
            }
        }
        let held: u64 = played.placed.iter().rev().take(100).map(|placed| placed.held()).sum();
        prop_assert!(held / 100 <= jitter / 20 + 50_000, "{} ns on the average", held / 100);
    }

    #[test]
    fn a_writer_that_is_too_fast_is_held_to_its_rate_and_loses_nothing(
        rate in prop_oneof![Just(rate(50, 1)), Just(rate(25, 1)), Just(rate(60_000, 1001))],
        // By how much.
        speed in prop_oneof![1.06f64..1.4, 1.4f64..4.0, Just(1000.0)],
        jitter in proptest::collection::vec(0.3f64..1.7, 10..50),
        read in 1_000u64..1_500_000,
    ) {
        let period = rate.time_of(1).as_nanos() as f64;
        let room = rate.as_f64() as usize;
        let pictures = 80 * room;
        let mean = jitter.iter().sum::<f64>() / jitter.len() as f64;
        let work = (period / speed - read as f64).max(0.0);
        let work: Vec<u64> =
            jitter.iter().cycle().take(pictures).map(|part| (part / mean * work) as u64).collect();
        let played = play(rate, true, room, read, &Writer::Works(&work));
        prop_assert_eq!((played.placed.len(), played.dropped.len(), played.stalls), (pictures, 0, 0));
        let start = played.placed[0].captured;
        // Until its room is full a small lead is followed; a larger one of a writer that is nearly as slow as its rate,
        // and may look for a second as if it was.
        let most = if speed >= 1.4 { 2.0 * period } else { nanos(LEAD_MAX) as f64 };
        for placed in &played.placed {
            let place = start + rate.time_of(placed.index as u64).as_nanos() as u64;
            let early = place.saturating_sub(placed.captured) as f64;
            let least = (placed.captured - start).min(25 * SECOND) as f64 / GAIN as f64;
            prop_assert!(early <= most + least, "{placed:?} is early by {early}");
        }
        let apart = |one: &Placed, other: &Placed| (other.captured - one.captured) as f64;
        let (middle, last) = (&played.placed[pictures - 500], played.placed.last().unwrap());
        let mean = apart(middle, last) / 499.0;
        prop_assert!((mean / period - 1.0).abs() < 1e-3, "{} of a picture's time apart", mean / period);
    }

    /// Whatever comes when: capture times rise, nothing is placed before it came, nothing waits for ever.
    #[test]
    fn no_arrival_is_too_odd(
        gaps in proptest::collection::vec(prop_oneof![0u64..50_000, 0u64..500, 0u64..3_000_000], 1..300),
        follows: bool,
        room in 1usize..60,
    ) {
        let mut time = 0;
        let times: Vec<u64> = gaps.iter().map(|gap| { time += gap * 1000; time }).collect();
        let played = play(rate(50, 1), follows, room, 1000, &Writer::Live(&times));
        prop_assert_eq!(played.placed.len() + played.dropped.len(), times.len());
        prop_assert!(follows || played.dropped.is_empty());
        for placed in &played.placed {
            prop_assert!(placed.held() <= (room as u64 + 2) * 21_000_000, "{placed:?}");
        }
    }
}
