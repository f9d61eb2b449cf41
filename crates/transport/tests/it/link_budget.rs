//! A sender that fits each picture to what the link says would leave at once.

use crate::link_support::{World, figure, millis, quantile, settings};
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use glassline_transport::emulator::{End, LinkConfig, Network, Queue, Reorder, Service};
use glassline_transport::link::{Controller, Fec, Options, Settings};
use std::time::Duration;

/// How often a picture is taken.
const INTERVAL: Duration = Duration::from_millis(20);
/// The share of the budget that a picture is given.
const SHARE: f64 = 0.8;

/// What one stretch gave: the share of the path's rate that pictures had in its second half, and how long they took
/// there, at the 95th percentile.
fn stretch(world: &mut World, rate: u64, seconds: u64) -> (f64, Duration) {
    world.network.set_service(End::Near, Service::Rate(rate)).unwrap();
    let (mut bytes, mut delays) = (0, Vec::new());
    for picture in 0..seconds * 50 {
        let now = world.now();
        let link = world.link(End::Near).unwrap();
        let size = (link.budget(now, 1, INTERVAL) as f64 * SHARE).clamp(300.0, 100_000.0);
        let mut message = vec![0; size as usize];
        message[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        let _ = link.send(now, 1, message);
        world.run_until(now + INTERVAL, |world| {
            for message in world.take(End::Far, 1) {
                if picture >= seconds * 25 {
                    bytes += message.len() as u64;
                    let sent = Time::from_nanos(u64::from_be_bytes(message[..8].try_into().unwrap()));
                    delays.push(world.now() - sent);
                }
            }
            false
        });
    }
    (bytes as f64 * 16.0 / (rate * seconds) as f64, quantile(&mut delays, 0.95))
}

#[test]
fn pictures_that_fit_the_budget_fill_the_path_and_follow_its_rate() {
    for delay in [10, 50, 150].map(Duration::from_millis) {
        let config = LinkConfig::rate(7_500_000).with_delay(delay).with_queue(Queue::packets(256));
        let network = Network::new(config.clone(), config, 1).unwrap();
        let mut world = World::shared(network, 1);
        world.connect();
        let video = Options { reliable: false, newest: true, ..Options::default() };
        world.link(End::Near).unwrap().open(1, video).unwrap();
        world.run_until_up();
        for (rate, seconds) in [(7_500_000, 12), (2_500_000, 10), (10_000_000, 20)] {
            let (share, took) = stretch(&mut world, rate, seconds);
            let (case, who) = ("pictures of 0.8 budgets", format!("{} ms each way", delay.as_millis()));
            let rate_mbps = rate as f64 / 1e6;
            figure(case, &who, &format!("of {rate_mbps} Mbit/s used"), "%", share * 100.0);
            figure(
                case,
                &who,
                &format!("delay beyond the way's p95, {rate_mbps} Mbit/s"),
                "ms",
                millis(took) - millis(delay),
            );
            assert!((0.4..0.95).contains(&share), "{delay:?}, {rate} bit/s: {share}");
            // The way, the picture's own length, and a short queue.
            assert!(took < delay + INTERVAL + Duration::from_millis(15), "{delay:?}, {rate} bit/s: {took:?}");
        }
    }
}

/// A link over 6 Mbit/s on which pictures have shown what it carries. Channel 1 has these options.
fn known(options: Options) -> World {
    let config =
        LinkConfig::rate(6_000_000).with_delay(Duration::from_millis(20)).with_queue(Queue::packets(256));
    let mut world = World::shared(Network::new(config.clone(), config, 1).unwrap(), 1);
    world.connect();
    world.link(End::Near).unwrap().open(1, options).unwrap();
    world.run_until_up();
    for _ in 0..150 {
        let now = world.now();
        let link = world.link(End::Near).unwrap();
        let size = (link.budget(now, 1, INTERVAL) as f64 * SHARE).clamp(300.0, 100_000.0);
        let _ = link.send(now, 1, vec![0; size as usize]);
        world.run_until(now + INTERVAL, |world| {
            world.take(End::Far, 1);
            false
        });
    }
    world
}

fn video() -> Options {
    Options { reliable: false, newest: true, priority: 100, ..Options::default() }
}

fn budget(world: &mut World, channel: u8) -> f64 {
    let now = world.now();
    world.link(End::Near).unwrap().budget(now, channel, INTERVAL) as f64
}

#[test]
fn a_budget_ahead_counts_what_leaves_meanwhile_and_is_what_the_budget_is_then() {
    let mut world = known(video());
    let free = budget(&mut world, 1);
    let now = world.now();
    world.link(End::Near).unwrap().send(now, 1, vec![0; 2 * free as usize]).unwrap();
    world.run_until(now + Duration::from_millis(30), |_| false);
    let now = world.now();
    let link = world.link(End::Near).unwrap();
    let ahead =
        [0, 8].map(|millis| link.budget_ahead(now, Duration::from_millis(millis), 1, INTERVAL) as f64);
    let (before, then) = (budget(&mut world, 1), now + Duration::from_millis(8));
    assert!(before < 0.9 * free && ahead[0] == before, "{ahead:?}, {before} of {free}");
    world.run_until(then, |_| false);
    // What is answered meanwhile tells of more.
    let after = budget(&mut world, 1);
    assert!(ahead[1] > 1.1 * before && ahead[1] < 1.05 * after, "{ahead:?}, {after}");
}

/// Opens another channel and hands it so much.
fn hand_over(world: &mut World, channel: u8, options: Options, bytes: usize) {
    let now = world.now();
    let link = world.link(End::Near).unwrap();
    link.open(channel, options).unwrap();
    link.send(now, channel, vec![0; bytes]).unwrap();
}

#[test]
fn a_channel_has_what_those_that_go_first_leave() {
    let mut world = known(video());
    let alone = budget(&mut world, 1);
    assert!(alone > 5_000.0, "{alone}");
    assert_eq!(budget(&mut world, 7), 0.0, "a channel that is not open");
    // A large file that goes last takes nothing of a picture, and has nothing of a picture's time itself.
    hand_over(&mut world, 2, Options { priority: 200, ..Options::default() }, 1 << 20);
    assert_eq!(budget(&mut world, 1), alone);
    assert_eq!(budget(&mut world, 2), 0.0);
    // What goes first is taken off.
    hand_over(&mut world, 3, Options { priority: 0, ..Options::default() }, 2_000);
    assert!((budget(&mut world, 1) - (alone - 2_000.0)).abs() <= 1.0);
    // Among equals it is the share by weight, as long as they wait with more.
    hand_over(&mut world, 4, Options { weight: 3 * video().weight, ..video() }, 1 << 19);
    let share = budget(&mut world, 1) / (alone - 2_000.0);
    assert!((share - 0.25).abs() < 0.01, "{share}");
}

#[test]
fn what_waits_on_the_channel_itself_is_taken_off_unless_it_would_be_replaced() {
    for (newest, left) in [(true, 1.0), (false, 0.0)] {
        let mut world = known(Options { newest, ..video() });
        let before = budget(&mut world, 1);
        let now = world.now();
        world.link(End::Near).unwrap().send(now, 1, vec![0; 100_000]).unwrap();
        assert_eq!(budget(&mut world, 1), before * left, "newest: {newest}");
    }
}

#[test]
fn parity_is_taken_off_the_budget() {
    let plain = budget(&mut known(video()), 1);
    let mut world = known(Options { fec: Fec::Always(25), ..video() });
    let with_parity = budget(&mut world, 1);
    assert!(with_parity < 0.85 * plain && with_parity > 0.6 * plain, "{with_parity} of {plain}");
    // A message of that size and its parity leave within the time that was asked about.
    let sent = |world: &mut World| {
        let link = world.link(End::Near).unwrap();
        (link.statistics().sent_bytes, link.send_counters(1).unwrap().parity_bytes)
    };
    let (before, now) = (sent(&mut world), world.now());
    world.link(End::Near).unwrap().send(now, 1, vec![0; with_parity as usize]).unwrap();
    world.run_until(now + INTERVAL + Duration::from_millis(2), |_| false);
    let after = sent(&mut world);
    assert!(after.1 > before.1, "parity is sent");
    assert!((after.0 - before.0) as f64 > with_parity * 1.2, "{after:?} after {before:?}");
}

/// Pictures of the budget, though of `most` bytes at most, over 6 Mbit/s under `controller`: bits that came in the last second
/// of five, and the last budget in bytes.
fn with_controller(controller: Controller, most: u64) -> (f64, u64) {
    let config =
        LinkConfig::rate(6_000_000).with_delay(Duration::from_millis(20)).with_queue(Queue::packets(256));
    let ends = settings().map(|settings| Settings { controller, ..settings });
    let mut world = World::new(Network::new(config.clone(), config, 1).unwrap(), ends, 1);
    world.connect();
    world.link(End::Near).unwrap().open(1, video()).unwrap();
    world.run_until_up();
    let (mut bytes, mut budget) = (0, 0);
    for picture in 0..250 {
        let now = world.now();
        let link = world.link(End::Near).unwrap();
        budget = link.budget(now, 1, INTERVAL);
        let _ = link.send(now, 1, vec![0; budget.clamp(300, most) as usize]);
        world.run_until(now + INTERVAL, |world| {
            let came: usize = world.take(End::Far, 1).iter().map(|message| message.len()).sum();
            bytes += if picture >= 200 { came } else { 0 };
            false
        });
    }
    (bytes as f64 * 8.0, budget)
}

#[test]
fn a_controller_decides_what_is_sent() {
    let fixed = Controller::Fixed(ByteRate::from_bytes_per_second(250_000));
    let (bits, budget) = with_controller(fixed, 100_000);
    assert!(
        (bits / 2e6 - 1.0).abs() < 0.1 && (4_000..=5_000).contains(&budget),
        "{bits} of 2 Mbit/s, {budget} bytes"
    );
    let (bits, _) = with_controller(Controller::SALSIFY, 100_000);
    assert!(bits > 5e6, "{bits} of 6 Mbit/s");
    // An application that pauses: without grace periods its pauses count as the path's.
    let Controller::Salsify { delay, .. } = Controller::SALSIFY else { unreachable!() };
    let (_, with) = with_controller(Controller::SALSIFY, 3_000);
    let (_, without) = with_controller(Controller::Salsify { delay, grace_periods: false }, 3_000);
    assert!(without * 2 < with, "{without} and {with} bytes");
}

/// A small message each 20 ms for so long.
fn murmur(world: &mut World, time: Duration) {
    let end = world.now() + time;
    while world.now() < end {
        let now = world.now();
        let _ = world.link(End::Near).unwrap().send(now, 1, vec![0; 300]);
        world.run_until(now + INTERVAL, |world| {
            world.take(End::Far, 1);
            false
        });
    }
}

#[test]
fn what_is_known_of_a_path_that_does_not_answer_grows_old() {
    let mut world = known(video());
    let silence = |world: &mut World| {
        let now = world.now();
        world.link(End::Near).unwrap().silence(now)
    };
    murmur(&mut world, Duration::from_secs(1));
    let (before, spoken) = (budget(&mut world, 1), silence(&mut world));
    assert!(before > 5_000.0 && spoken < Duration::from_millis(5), "{before} bytes, {spoken:?}");
    world.network.set_service(End::Near, Service::Rate(0)).unwrap();
    let mut last = before;
    for step in 1..=5 {
        murmur(&mut world, Duration::from_millis(200));
        let (now, silence) = (budget(&mut world, 1), silence(&mut world));
        assert!(now < last, "step {step}: {now} after {last} bytes");
        assert!(
            silence > Duration::from_millis(200) * step - Duration::from_millis(180),
            "step {step}: {silence:?}"
        );
        last = now;
    }
    assert!(last < before / 5.0, "{last} of {before} bytes after a second");
    // The path is back.
    world.network.set_service(End::Near, Service::Rate(6_000_000)).unwrap();
    murmur(&mut world, Duration::from_secs(1));
    assert!(silence(&mut world) < Duration::from_millis(5));
    assert!(budget(&mut world, 1) > before / 2.0, "{} of {before} bytes", budget(&mut world, 1));
}

#[test]
fn packets_that_are_overtaken_are_not_lost() {
    // One of ten comes as late as three packets take.
    let reorder = Reorder { probability: 0.1, hold: Duration::from_millis(5) };
    let plain =
        LinkConfig::rate(6_000_000).with_delay(Duration::from_millis(20)).with_queue(Queue::packets(256));
    let config = LinkConfig { reorder, ..plain.clone() };
    let mut world = World::shared(Network::new(config, plain, 1).unwrap(), 1);
    world.connect();
    world.link(End::Near).unwrap().open(1, Options { reliable: true, newest: false, ..video() }).unwrap();
    world.run_until_up();
    let mut figures = Vec::new();
    for _ in 0..2 {
        for _ in 0..250 {
            let now = world.now();
            let _ = world.link(End::Near).unwrap().send(now, 1, vec![0; 10_000]);
            world.run_until(now + INTERVAL, |world| {
                world.take(End::Far, 1);
                false
            });
        }
        let link = world.link(End::Near).unwrap();
        let (all, sent) = (link.statistics(), link.send_counters(1).unwrap());
        figures.push([all.sent_packets, all.lost_packets, all.late_packets, sent.resent_bytes]);
    }
    let [sent, lost, late, resent] = std::array::from_fn(|at| figures[1][at] - figures[0][at]);
    // Of 2,000 packets 200 are overtaken.
    assert!(sent > 2_000 && lost + late < 20 && resent < 20_000, "{figures:?}");
    assert_eq!(figures[1][1], 0, "none was lost: {figures:?}");
}
