//! The link beside a TCP that fills the queue (CUBIC) and one that keeps it half full (BBR), at one bottleneck.
#![allow(clippy::unwrap_used)]

mod link_support;
mod tcp_models;

use glassline_transport::emulator::{End, LinkConfig, Network, Queue};
use glassline_transport::link::Options;
use link_support::World;
use std::time::Duration;
use tcp_models::{Bbr, Control, Cubic, Flow, SEGMENT};

const RATE: u64 = 20_000_000;
/// One way; the round trip of the empty path is twice that.
const WAY: Duration = Duration::from_millis(20);

/// Our share of what both carried in 60 s, and the share of the path that was used, with a queue of `depth`
/// bandwidth-delay products.
fn beside(control: impl Control, depth: f64, seed: u64) -> (f64, f64) {
    beside_over(WAY, control, depth, seed)
}

/// The same where a packet takes `way` each way.
fn beside_over(way: Duration, control: impl Control, depth: f64, seed: u64) -> (f64, f64) {
    let product = RATE as f64 / 8.0 * 2.0 * way.as_secs_f64();
    let up = LinkConfig::rate(RATE).with_delay(way).with_queue(Queue::bytes((depth * product) as u64));
    let down = LinkConfig::rate(1_000_000_000).with_delay(way);
    let mut world = World::shared(Network::new(up, down, seed).unwrap(), seed);
    world.connect();
    let options = Options { max_size: 50_000, ..Options::default() };
    world.link(End::Near).unwrap().open(0, options).unwrap();
    world.run_until_up();
    let (start, mut flow, mut ours) = (world.now(), Flow::new(control), 0);
    for milli in 0..60_000 {
        let now = start + Duration::from_millis(milli);
        while world.link(End::Near).unwrap().held_bytes().0 < 600_000 {
            world.send(End::Near, 0, vec![0; 50_000]);
        }
        let to = world.network.address(End::Far);
        for segment in flow.poll_transmit(now) {
            world.network.send_to(End::Near, to, segment);
        }
        world.run_until(now + Duration::from_millis(1), |_| false);
        ours += world.take(End::Far, 0).iter().map(|message| message.len() as u64).sum::<u64>();
        for (at, bytes) in world.foreign.drain(..) {
            flow.handle_arrival(at + way, &bytes);
        }
    }
    let theirs = flow.arrived * SEGMENT as u64;
    let carried = (ours + theirs) as f64;
    (ours as f64 / carried, carried / (RATE as f64 / 8.0 * 60.0))
}

#[test]
fn beside_cubic_each_has_its_share() {
    for (depth, shares) in [(1.0, 0.3..=0.7), (2.0, 0.3..=0.7), (4.0, 0.3..=0.7), (8.0, 0.15..=0.7)] {
        let (share, used) = beside(Cubic::default(), depth, 1);
        println!("CUBIC, {depth} products: {share:.3} of {used:.3}");
        assert!(shares.contains(&share) && used > 0.9, "{depth} products: {share} of {used}");
    }
}

#[test]
fn beside_cubic_with_a_short_queue_or_over_a_long_way_nobody_starves() {
    for (depth, way) in [(0.5, WAY), (1.0, Duration::from_millis(50))] {
        let (share, used) = beside_over(way, Cubic::default(), depth, 1);
        println!("CUBIC, {depth} products, {way:?} each way: {share:.3} of {used:.3}");
        assert!((0.3..=0.7).contains(&share) && used > 0.9, "{depth} products, {way:?}: {share} of {used}");
    }
}

#[test]
fn beside_bbr_each_has_its_share() {
    for (depth, shares) in [(1.0, 0.3..=0.7), (2.0, 0.3..=0.7), (4.0, 0.3..=0.8), (8.0, 0.3..=0.9)] {
        let (share, used) = beside(Bbr::default(), depth, 1);
        println!("BBR, {depth} products: {share:.3} of {used:.3}");
        assert!(shares.contains(&share) && used > 0.9, "{depth} products: {share} of {used}");
    }
}

#[test]
fn a_model_alone_uses_the_path() {
    // What the shares above are worth: without ours either takes nearly all.
    for cubic in [true, false] {
        let up = LinkConfig::rate(RATE).with_delay(WAY).with_queue(Queue::bytes(100_000));
        let down = LinkConfig::rate(1_000_000_000).with_delay(WAY);
        let mut world = World::shared(Network::new(up, down, 1).unwrap(), 1);
        let mut flow: Flow<Box<dyn Control>> =
            Flow::new(if cubic { Box::new(Cubic::default()) } else { Box::new(Bbr::default()) });
        let start = world.now();
        for milli in 0..20_000 {
            let now = start + Duration::from_millis(milli);
            let to = world.network.address(End::Far);
            for segment in flow.poll_transmit(now) {
                world.network.send_to(End::Near, to, segment);
            }
            world.run_until(now + Duration::from_millis(1), |_| false);
            for (at, bytes) in world.foreign.drain(..) {
                flow.handle_arrival(at + WAY, &bytes);
            }
        }
        let used = flow.arrived as f64 * SEGMENT as f64 / (RATE as f64 / 8.0 * 20.0);
        println!("alone, CUBIC {cubic}: {used:.3}");
        assert!(used > 0.85, "CUBIC {cubic}: {used}");
    }
}
