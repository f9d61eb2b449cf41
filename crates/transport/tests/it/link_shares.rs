//! Video that wants more than its share, each picture of the size that the link says: beside a TCP that fills the queue
//! (CUBIC) neither starves, and alone on a path whose rate changes nobody is seen who is not there.

use crate::link_support::{World, figure, millis, quantile};
use crate::tcp_models::{Cubic, Flow, SEGMENT};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Network, Queue, Service};
use glassline_transport::link::{Fec, Options};
use std::time::Duration;

const RATE: u64 = 6_000_000;
/// One way; the round trip of the empty path is twice that.
const WAY: Duration = Duration::from_millis(20);
/// From one picture to the next, milliseconds.
const INTERVAL: u64 = 33;
/// Within so many intervals a picture is to leave.
const HORIZON: f64 = 1.25;
/// The least picture that an encoder gives.
const LEAST: f64 = 600.0;

/// What became of a run.
struct Shared {
    /// Our share of what both carried, and what of the path both used.
    share: f64,
    used: f64,
    /// Of all pictures those that came, and their delays.
    came: f64,
    p50: Duration,
    p95: Duration,
}

/// A link to the far end on whose channel 0 pictures go.
fn video(up: LinkConfig, seed: u64) -> World {
    let down = LinkConfig::rate(1_000_000_000).with_delay(WAY);
    let mut world = World::shared(Network::new(up, down, seed).unwrap(), seed);
    world.connect();
    let options = Options {
        reliable: false,
        ordered: false,
        newest: true,
        fec: Fec::WhenLossy(25),
        cancel_after: Some(Duration::from_secs(1)),
        ..Options::default()
    };
    world.link(End::Near).unwrap().open(0, options).unwrap();
    world.run_until_up();
    world
}

/// Sends a picture of `fill` of the budget, which bears when it was taken; none where not even the least fits.
fn send_picture(world: &mut World, fill: f64) {
    let now = world.now();
    let horizon = Duration::from_millis(INTERVAL).mul_f64(HORIZON);
    let link = world.link(End::Near).unwrap();
    let budget = link.budget(now, 0, horizon) as f64;
    if budget >= LEAST {
        let mut picture = vec![0; (fill * budget).clamp(LEAST, 400_000.0) as usize];
        picture[..8].copy_from_slice(&now.as_nanos().to_be_bytes());
        let _ = link.send(now, 0, picture);
    }
}

/// How old the pictures are that have come.
fn ages(world: &mut World) -> Vec<Duration> {
    let taken = |picture: &[u8]| Time::from_nanos(u64::from_be_bytes(picture[..8].try_into().unwrap()));
    let pictures = world.take(End::Far, 0);
    pictures.iter().map(|picture| world.now() - taken(picture)).collect()
}

/// A minute beside CUBIC, which begins later with each seed, behind a queue of `depth` bandwidth-delay products.
fn beside_cubic(depth: f64, seed: u64, fill: f64) -> Shared {
    let product = RATE as f64 / 8.0 * 2.0 * WAY.as_secs_f64();
    let up = LinkConfig::rate(RATE).with_delay(WAY).with_queue(Queue::bytes((depth * product) as u64));
    let mut world = video(up, seed);
    let carried = |world: &World| world.network.link(End::Near).counters().delivered.bytes;
    let (start, before, mut flow) = (world.now(), carried(&world), Flow::new(Cubic::default()));
    let (mut delays, mut pictures) = (Vec::new(), 0);
    for milli in 0..60_000 {
        let now = start + Duration::from_millis(milli);
        if milli % INTERVAL == 0 {
            send_picture(&mut world, fill);
            pictures += 1;
        }
        let to = world.network.address(End::Far);
        for segment in if milli >= (seed - 1) * 733 { flow.poll_transmit(now) } else { Vec::new() } {
            world.network.send_to(End::Near, to, segment);
        }
        world.run_until(now + Duration::from_millis(1), |_| false);
        delays.extend(ages(&mut world));
        for (at, bytes) in world.foreign.drain(..) {
            flow.handle_arrival(at + WAY, &bytes);
        }
    }
    let all = (carried(&world) - before) as f64;
    Shared {
        share: 1.0 - flow.arrived as f64 * SEGMENT as f64 / all,
        used: all / (RATE as f64 / 8.0 * 60.0),
        came: delays.len() as f64 / f64::from(pictures),
        p50: quantile(&mut delays, 0.5),
        p95: quantile(&mut delays, 0.95),
    }
}

#[test]
fn video_that_wants_more_than_its_share_has_it_beside_cubic() {
    for depth in [1.0, 2.0, 3.0, 4.0] {
        for seed in 1..=4 {
            for fill in [0.9, 1.0] {
                let shared = beside_cubic(depth, seed, fill);
                let case = "video that wants more than its share beside CUBIC, 6 Mbit/s";
                let who = format!("queue of {depth} BDP");
                figure(case, &who, "our share", "%", shared.share * 100.0);
                figure(case, &who, "pictures that came", "%", shared.came * 100.0);
                figure(case, &who, "picture's delay p50", "ms", millis(shared.p50));
                figure(case, &who, "picture's delay p95", "ms", millis(shared.p95));
                let what = format!("{depth} products, seed {seed}, {fill}");
                assert!((0.3..=0.7).contains(&shared.share), "{what}: {}", shared.share);
                assert!(shared.used > 0.95, "{what}: {} used", shared.used);
                assert!(shared.came > 0.8, "{what}: {} came", shared.came);
                // The way, the queue, the time that a picture may take to leave, and what it waits for its turn.
                let most = WAY + 2 * WAY.mul_f64(depth) + Duration::from_millis(2 * INTERVAL);
                assert!(shared.p95 < most, "{what}: {:?}", shared.p95);
            }
        }
    }
}

/// Pictures that are sent in competition, of a sender that is alone on a path that has another of `rates` each half second.
fn competes_alone(rates: &[u64], seed: u64) -> u32 {
    let mut state = seed;
    let mut random = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let up = LinkConfig::rate(RATE).with_delay(WAY).with_queue(Queue::packets(256));
    let mut world = video(up, seed);
    let start = world.now();
    let mut competes = 0;
    for picture in 0..120 * 1000 / INTERVAL {
        if picture % 15 == 0 {
            let rate = rates[random() as usize % rates.len()];
            world.network.set_service(End::Near, Service::Rate(rate)).unwrap();
        }
        send_picture(&mut world, 0.9);
        competes += u32::from(world.link(End::Near).unwrap().statistics().competitive);
        world.run_until(start + Duration::from_millis((picture + 1) * INTERVAL), |world| {
            ages(world);
            false
        });
    }
    competes
}

#[test]
fn alone_on_a_path_whose_rate_changes_nobody_else_is_seen() {
    // Cellular ways: each half second another rate, now and then none for a while.
    let fast = [0, 300_000, 600_000, 1_000_000, 2_000_000, 3_000_000, 6_000_000, 9_000_000];
    let slow = [0, 100_000, 200_000, 400_000, 800_000, 1_200_000, 1_600_000];
    for seed in 1..=8 {
        assert_eq!(competes_alone(&fast, seed), 0, "pictures sent in competition with nobody, seed {seed}");
        assert_eq!(competes_alone(&slow, seed), 0, "the same on a slow way, seed {seed}");
    }
}
