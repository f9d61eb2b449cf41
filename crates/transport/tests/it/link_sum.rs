//! One link over several paths that carry its messages together.

use crate::link_support::paths::{Pair, millis};
use crate::link_support::{figure, quantile};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Queue};
use glassline_transport::link::{Bonding, Event, Fec, Options, Path};
use std::time::Duration;

/// The channel of pictures.
const VIDEO: u8 = 2;
/// From one picture to the next.
const INTERVAL: Duration = Duration::from_micros(33_333);

fn line(bits_per_second: u64, delay: u64) -> LinkConfig {
    LinkConfig::rate(bits_per_second).with_delay(millis(delay)).with_queue(Queue::packets(256))
}

/// What came of pictures that fill the budget.
#[derive(Default)]
struct Film {
    /// When each came, by when it was sent.
    came: Vec<(Time, Time)>,
    sent: usize,
    skipped: usize,
}

impl Film {
    fn delays(&self) -> Vec<Duration> {
        self.came.iter().map(|(sent, came)| *came - *sent).collect()
    }

    fn p95(&self) -> Duration {
        quantile(&mut self.delays(), 0.95)
    }

    /// The longest time without a picture that begins in a part of the run.
    fn longest_gap(&self, from: Time, to: Time) -> Duration {
        let mut came: Vec<_> = self.came.iter().map(|(_, came)| *came).collect();
        came.sort_unstable();
        let gaps = came.windows(2).filter(|pair| pair[0] >= from && pair[0] < to);
        gaps.map(|pair| pair[1] - pair[0]).max().unwrap_or_default()
    }
}

/// Opens the channel of pictures, and sends 30 of them a second, each as large as `fill` of what the link has for 1.35 times the time
/// from one to the next.
fn film(pair: &mut Pair, seconds: u64, fill: f64, mut change: impl FnMut(u64, &mut Pair)) -> Film {
    let options = Options {
        reliable: false,
        ordered: false,
        newest: true,
        priority: 8,
        fec: Fec::WhenLossy(25),
        receipts: true,
        ..Options::default()
    };
    pair.link(End::Near).unwrap().open(VIDEO, options).unwrap();
    let (mut film, start) = (Film::default(), pair.now());
    let take = |pair: &mut Pair, film: &mut Film| {
        for message in pair.take(End::Far, VIDEO) {
            let sent = Time::from_nanos(u64::from_be_bytes(message[..8].try_into().unwrap()));
            film.came.push((sent, pair.now()));
        }
    };
    for number in 0..seconds * 30 {
        change(number * 1000 / 30, pair);
        let now = pair.now();
        let budget = pair.link(End::Near).unwrap().budget(now, VIDEO, INTERVAL.mul_f64(1.35));
        if budget >= 400 {
            let mut bytes = vec![7; (budget as f64 * fill) as usize];
            bytes[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
            film.sent += 1;
            pair.send(End::Near, VIDEO, bytes);
        } else {
            film.skipped += 1;
        }
        let until = start + INTERVAL * (number as u32 + 1);
        pair.run_until(until, |pair| take(pair, &mut film));
    }
    let until = pair.now() + millis(1000);
    pair.run_until(until, |pair| take(pair, &mut film));
    film
}

/// Bytes that each network has carried from near to far.
fn carried(pair: &Pair) -> Vec<u64> {
    pair.networks.iter().map(|network| network.link(End::Near).counters().delivered.bytes).collect()
}

#[test]
fn two_lines_carry_their_sum() {
    // An encoder meets its budget from below.
    for fill in [0.9, 0.75] {
        let mut pair = Pair::up(Bonding::Sum, [line(2_000_000, 30), line(3_000_000, 80)], 1);
        let before = carried(&pair);
        let film = film(&mut pair, 30, fill, |_, _| {});
        let used: Vec<_> = carried(&pair).iter().zip(before).map(|(after, before)| after - before).collect();
        let share = used.iter().sum::<u64>() as f64 / (5_000_000.0 / 8.0 * 30.0);
        let p95 = film.p95();
        let case = format!("2 + 3 Mbit/s, 30 and 80 ms, {fill} of the budget");
        figure(&case, "sum", "of both", "%", share * 100.0);
        figure(&case, "sum", "p95", "ms", p95.as_secs_f64() * 1e3);
        assert!(share > 0.8, "{share}: {used:?}");
        assert!(p95 < millis(160), "{p95:?}");
        assert!(
            film.came.len() * 100 > film.sent * 97 && film.skipped < 20,
            "{} of {}",
            film.came.len(),
            film.sent
        );
    }
}

#[test]
fn either_of_two_lines_may_be_cut() {
    for via in 0..2 {
        for both_ways in [true, false] {
            let mut pair = Pair::up(Bonding::Sum, [line(2_000_000, 30), line(3_000_000, 80)], 2);
            let start = pair.now();
            let mut slower = Duration::ZERO;
            let film = film(&mut pair, 20, 0.9, |milli, pair| match milli {
                8000 => {
                    slower = pair.link(End::Near).unwrap().paths().map(|path| path.rtt).max().unwrap();
                    match both_ways {
                        true => pair.set_loss(via, Loss::Random(1.0)),
                        false => pair.networks[via].set_loss(End::Near, Loss::Random(1.0)).unwrap(),
                    }
                }
                14_000 => pair.set_loss(via, Loss::None),
                _ => {}
            });
            let gap = film.longest_gap(start + millis(7800), start + millis(8400));
            let case = format!("line {via} cut {}", if both_ways { "both ways" } else { "one way" });
            figure(&case, "sum", "longest gap", "ms", gap.as_secs_f64() * 1e3);
            // A round trip of the slower line, and two pictures.
            assert!(gap <= slower + 2 * INTERVAL, "{case}: {gap:?}, {slower:?}");
            let rest = film.longest_gap(start + millis(8400), start + millis(19_000));
            assert!(rest <= millis(160), "{via} {both_ways}: {rest:?}");
        }
    }
}

#[test]
fn a_message_that_the_quick_line_carries_in_time_waits_for_no_other() {
    let mut pair = Pair::up(Bonding::Sum, [line(8_000_000, 10), line(8_000_000, 150)], 3);
    for number in 0..200 {
        pair.send(End::Near, 1, vec![7; 3000]);
        let until = pair.now() + millis(20);
        let mut came = 0;
        pair.run_until(until, |pair| came += pair.take(End::Far, 1).len());
        // The rate is found out first.
        assert!(came == 1 || number < 100, "{number}: {came}");
    }
}

#[test]
fn small_messages_go_over_two_lines_and_come_once() {
    let mut pair = Pair::up(Bonding::Sum, [line(4_000_000, 20), line(4_000_000, 25)], 4);
    for channel in [0, 1] {
        let got = pair.talk(channel, 10, |milli, pair| match milli {
            4000 => pair.set_loss(0, Loss::Random(1.0)),
            7000 => pair.set_loss(0, Loss::None),
            _ => {}
        });
        let worst = got.iter().map(|got| got.1).max().unwrap();
        assert_eq!(got.len(), 1000, "{channel}");
        assert!(worst < millis(35), "{channel}: {worst:?}");
    }
}

#[test]
fn a_spare_line_carries_only_what_is_needed() {
    let mut pair = Pair::new(Bonding::Sum, [line(3_000_000, 30), line(3_000_000, 30)], 5);
    let now = pair.now();
    let id = pair.ends[0].connect(now, pair.path(0)).unwrap();
    pair.links[0] = Some(id);
    let below = glassline_media::quantity::ByteRate::from_bytes_per_second(100_000);
    let spare = pair.path(1);
    pair.ends[0].add_spare_path(now, id, spare, below).unwrap();
    pair.run(millis(1000));
    assert_eq!(pair.link(End::Near).unwrap().paths().count(), 2);
    let before = carried(&pair);
    let mut during = Vec::new();
    let film = film(&mut pair, 20, 0.9, |milli, pair| {
        if milli == 8000 {
            during = carried(pair);
            pair.set_loss(0, Loss::Random(1.0));
        }
    });
    assert!(during[0] - before[0] > 1_500_000, "{during:?} {before:?}");
    assert!(during[1] - before[1] < 30_000, "{during:?} {before:?}");
    let after = carried(&pair)[1] - during[1];
    assert!(after > 1_500_000 && film.came.len() > 500, "{after} {}", film.came.len());
}

#[test]
fn four_lines_are_the_most() {
    let mut pair = Pair::up(Bonding::Sum, (0..4).map(|via| line(2_000_000, 20 + 10 * via)), 6);
    let before = carried(&pair);
    film(&mut pair, 20, 0.9, |_, _| {});
    let used: u64 = carried(&pair).iter().zip(before).map(|(after, before)| after - before).sum();
    let share = used as f64 / (8_000_000.0 / 8.0 * 20.0);
    assert!(share > 0.8, "{share}");
    let (now, id) = (pair.now(), pair.links[0].unwrap());
    let fifth = Path { remote: "203.0.113.9:9".parse().unwrap(), via: 4 };
    assert!(pair.ends[0].add_path(now, id, fifth).is_err());
    assert!(!pair.events.iter().any(|event| matches!(event.2, Event::PathDown { .. })));
}

#[test]
fn lines_of_any_rates_and_delays_lose_no_message_to_each_other() {
    // The rates in kbit/s and the delays in milliseconds of two lines; and how much of the sum they carry at least.
    let cases = [
        ([3000, 2000], [30, 80], 0.75),
        ([1000, 4000], [30, 130], 0.75),
        ([2000, 2000], [20, 20], 0.9),
        ([2000, 2000], [20, 40], 0.9),
        // The second one is too slow for pictures that the first one carries meanwhile.
        ([4000, 1000], [20, 300], 0.7),
    ];
    for (rates, delays, least) in cases {
        let lines = [0, 1].map(|line| self::line(rates[line] * 1000, delays[line]));
        let mut pair = Pair::up(Bonding::Sum, lines, 7);
        let before = carried(&pair);
        let film = film(&mut pair, 20, 0.9, |_, _| {});
        let used: u64 = carried(&pair).iter().zip(before).map(|(after, before)| after - before).sum();
        let share = used as f64 / ((rates[0] + rates[1]) as f64 * 1000.0 / 8.0 * 20.0);
        let case = format!("{rates:?} kbit/s, {delays:?} ms");
        figure(&case, "sum", "of both", "%", share * 100.0);
        figure(&case, "sum", "p95", "ms", film.p95().as_secs_f64() * 1e3);
        assert!(share > least, "{case}: {share}");
        assert!(film.came.len() * 100 >= film.sent * 97, "{case}: {} of {}", film.came.len(), film.sent);
    }
}

#[test]
fn a_line_that_is_dead_from_the_start_holds_no_other_up() {
    for dead in 0..3 {
        let mut pair = Pair::new(Bonding::Sum, (0..3).map(|via| line(2_000_000, 20 + via)), 8);
        pair.set_loss(dead, Loss::Random(1.0));
        pair.connect();
        pair.run(millis(3000));
        pair.open(End::Near);
        assert_eq!(pair.link(End::Near).unwrap().paths().count(), 2, "{dead}");
        let film = film(&mut pair, 5, 0.9, |_, _| {});
        assert!(
            film.came.len() > 140 && film.p95() < millis(100),
            "{dead}: {} {:?}",
            film.came.len(),
            film.p95()
        );
        // It is there as soon as it carries something.
        pair.set_loss(dead, Loss::None);
        pair.run(millis(3000));
        assert_eq!(pair.link(End::Near).unwrap().paths().count(), 3, "{dead}");
    }
}
