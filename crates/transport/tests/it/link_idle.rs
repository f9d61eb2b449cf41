//! What a path carries, as far as is known, while next to nothing is sent over it.

use crate::link_support::{World, figure, millis, quantile, settings};
use glassline_transport::emulator::{End, LinkConfig, Network, Queue, Service};
use glassline_transport::link::Options;
use std::time::Duration;

const RATE: u64 = 8_000_000;
const DELAY: Duration = Duration::from_millis(20);

/// A link on which a message of 100 bytes leaves every half second for `seconds`: what the path carries by its estimate,
/// as a share of 8 Mbit/s, the share of that which was sent, and the longest delay of a message. The rate is halved
/// after `seconds`, and the estimate taken again after as long.
fn idle(percent: u8, seconds: u64) -> ([f64; 2], f64, Duration) {
    let config = LinkConfig::rate(RATE).with_delay(DELAY).with_queue(Queue::packets(256));
    let network = Network::new(config.clone(), config, 1).unwrap();
    let mut ends = settings();
    ends[0].probing_percent = percent;
    let mut world = World::new(network, ends, 1);
    world.connect();
    world.link(End::Near).unwrap().open(0, Options::default()).unwrap();
    world.run_until_up();
    let (mut known, mut delays) = ([0.0; 2], Vec::new());
    for (part, rate) in [(0, RATE), (1, RATE / 2)] {
        world.network.set_service(End::Near, Service::Rate(rate)).unwrap();
        for _ in 0..2 * seconds {
            let sent = world.now();
            world.send(End::Near, 0, vec![7; 100]);
            world.run_until(sent + Duration::from_millis(500), |world| {
                let came = world.take(End::Far, 0).len();
                delays.extend((0..came).map(|_| world.now() - sent));
                false
            });
        }
        let statistics = world.link(End::Near).unwrap().statistics();
        known[part] = statistics.bandwidth.bytes_per_second() as f64 * 8.0 / RATE as f64;
    }
    let sent = world.network.link(End::Near).counters().arrived.bytes as f64 * 8.0;
    (known, sent / (RATE as f64 * 1.5 * seconds as f64), quantile(&mut delays, 1.0))
}

fn tell(who: &str, known: [f64; 2], sent: f64, slowest: Duration) {
    let case = "an idle link of 8 Mbit/s";
    figure(case, who, "of the rate known", "%", known[0] * 100.0);
    figure(case, who, "of 8 Mbit/s known half a minute after the rate is halved", "%", known[1] * 100.0);
    figure(case, who, "of the rate spent", "%", sent * 100.0);
    figure(case, who, "slowest message, 20 ms of it the way", "ms", millis(slowest));
}

#[test]
fn padding_keeps_the_estimate_fresh_for_a_few_percent_of_the_rate() {
    let (known, sent, slowest) = idle(3, 30);
    tell("padding of 3 %", known, sent, slowest);
    assert!((0.85..1.1).contains(&known[0]), "{known:?}");
    assert!((0.4..0.6).contains(&known[1]), "{known:?}");
    assert!(sent < 0.035, "{sent}");
    assert!(slowest < Duration::from_millis(45), "{slowest:?}");
    let (known, sent, slowest) = idle(0, 30);
    tell("no padding", known, sent, slowest);
    assert!(known[0] < 0.2 && sent < 0.005, "without padding: {known:?}, {sent}");
}
