//! A sender that fits each picture to what the link says would leave at once.

use crate::link_support::{World, figure, millis, quantile};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Network, Queue, Service};
use glassline_transport::link::Options;
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
        let size = (link.budget(INTERVAL) as f64 * SHARE).clamp(300.0, 100_000.0);
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
