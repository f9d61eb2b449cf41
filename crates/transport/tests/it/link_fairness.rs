//! The link beside a TCP that fills the queue (CUBIC) and one that keeps it half full (BBR), at one bottleneck.

use crate::link_support::{World, figure, millis, quantile};
use crate::tcp_models::{Bbr, Control, Cubic, Flow, SEGMENT};
use glassline_transport::emulator::{End, LinkConfig, Network, Queue};
use glassline_transport::link::Options;
use std::time::Duration;

const RATE: u64 = 20_000_000;
/// One way; the round trip of the empty path is twice that.
const WAY: Duration = Duration::from_millis(20);
/// By how much the other flow begins later with each seed, milliseconds.
const LATER: u64 = 733;

/// Our share of what both carried in 60 s, and the share of the path that was used, with a queue of `depth`
/// bandwidth-delay products. With each seed from the second on the other begins later, at another time.
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
        let begun = milli >= (seed - 1) * LATER;
        for segment in if begun { flow.poll_transmit(now) } else { Vec::new() } {
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

fn tell_share(rival: &str, path: &str, share: f64) {
    figure("our share beside one flow of TCP", &format!("beside {rival}"), path, "%", share * 100.0);
}

/// Behind a queue of one to eight products both have 30 to 70 %; behind eight we have `deep` at least.
fn each_has_its_share<C: Control>(name: &str, rival: impl Fn() -> C, deep: f64) {
    for (depth, seeds) in [(1.0, 1..=4), (2.0, 1..=1), (4.0, 1..=1), (8.0, 1..=1)] {
        let least = if depth == 8.0 { deep } else { 0.3 };
        for seed in seeds {
            let (share, used) = beside(rival(), depth, seed);
            tell_share(name, &format!("queue of {depth} BDP"), share);
            assert!(
                (least..=0.7).contains(&share) && used > 0.9,
                "{name}, {depth} products, seed {seed}: {share} of {used}"
            );
        }
    }
}

#[test]
fn beside_cubic_each_has_its_share() {
    each_has_its_share("CUBIC", Cubic::default, 0.2);
}

#[test]
fn beside_cubic_with_a_short_queue_or_over_a_long_way_nobody_starves() {
    for (depth, way) in [(0.5, WAY), (1.0, Duration::from_millis(50))] {
        let (share, used) = beside_over(way, Cubic::default(), depth, 1);
        tell_share("CUBIC", &format!("queue of {depth} BDP, {} ms each way", way.as_millis()), share);
        assert!((0.3..=0.7).contains(&share) && used > 0.9, "{depth} products, {way:?}: {share} of {used}");
    }
}

#[test]
fn beside_bbr_each_has_its_share() {
    each_has_its_share("BBR", Bbr::default, 0.3);
}

/// Video of 25 pictures a second at `rate` of the path beside CUBIC, a queue of one product: the share of its bytes that
/// came, and the ages of pictures when they came, median and 95th percentile.
fn video_beside(rate: f64) -> (f64, Duration, Duration) {
    let product = RATE as f64 / 8.0 * 2.0 * WAY.as_secs_f64();
    let up = LinkConfig::rate(RATE).with_delay(WAY).with_queue(Queue::bytes(product as u64));
    let down = LinkConfig::rate(1_000_000_000).with_delay(WAY);
    let mut world = World::shared(Network::new(up, down, 1).unwrap(), 1);
    world.connect();
    let video = Options { reliable: false, newest: true, ..Options::default() };
    world.link(End::Near).unwrap().open(0, video).unwrap();
    world.run_until_up();
    let (start, mut flow) = (world.now(), Flow::new(Cubic::default()));
    let (mut delays, mut sent) = (Vec::new(), 0u32);
    for milli in 0..40_000 {
        let now = start + Duration::from_millis(milli);
        if milli % 40 == 0 {
            let mut picture = vec![0; (RATE as f64 * rate / 8.0 / 25.0) as usize];
            picture[..8].copy_from_slice(&milli.to_be_bytes());
            world.send(End::Near, 0, picture);
            sent += 1;
        }
        let to = world.network.address(End::Far);
        for segment in flow.poll_transmit(now) {
            world.network.send_to(End::Near, to, segment);
        }
        world.run_until(now + Duration::from_millis(1), |_| false);
        for picture in world.take(End::Far, 0) {
            let taken = u64::from_be_bytes(picture[..8].try_into().unwrap());
            delays.push(world.now() - (start + Duration::from_millis(taken)));
        }
        for (at, bytes) in world.foreign.drain(..) {
            flow.handle_arrival(at + WAY, &bytes);
        }
    }
    let shown = delays.len() as f64 / f64::from(sent);
    (shown, quantile(&mut delays, 0.5), quantile(&mut delays, 0.95))
}

#[test]
fn video_below_its_share_comes_through_beside_cubic() {
    for (rate, least, median) in [(0.1, 0.975, 64), (0.25, 0.935, 72), (0.4, 0.925, 83)] {
        let (shown, p50, p95) = video_beside(rate);
        let who = format!("{:.0} % of the path", rate * 100.0);
        let case = "video beside CUBIC, 20 ms each way";
        figure(case, &who, "pictures that came", "%", shown * 100.0);
        figure(case, &who, "picture's delay p50", "ms", millis(p50));
        figure(case, &who, "picture's delay p95", "ms", millis(p95));
        assert!(shown >= least, "{rate}: {shown}");
        assert!(p50 <= Duration::from_millis(median), "{rate}: {p50:?}, {p95:?}");
        assert!(p95 < Duration::from_millis(150), "{rate}: {p50:?}, {p95:?}");
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
        let who = if cubic { "CUBIC" } else { "BBR" };
        figure("the models of TCP alone", who, "of the path used", "%", used * 100.0);
        assert!(used > 0.85, "CUBIC {cubic}: {used}");
    }
}
