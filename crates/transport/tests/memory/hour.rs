//! One simulated hour at twice what a path carries: nothing grows.

use crate::link_support::World;
use crate::{alone, resident};
use glassline_transport::emulator::{End, LinkConfig, Network, Queue};
use glassline_transport::link::{Error, Options};
use std::time::Duration;

#[test]
fn an_hour_at_twice_the_rate_grows_by_nothing() {
    let _alone = alone();
    let config =
        LinkConfig::rate(400_000).with_delay(Duration::from_millis(20)).with_queue(Queue::packets(100));
    let mut world = World::shared(Network::symmetric(config, 5).unwrap(), 5);
    world.connect();
    let link = world.link(End::Near).unwrap();
    link.open(0, Options { queue_bytes: 200_000, max_size: 2000, ..Options::default() }).unwrap();
    link.open(1, Options { reliable: false, queue: 50, max_size: 2000, priority: 2, ..Options::default() })
        .unwrap();
    world.run_until_up();
    let (mut refused, mut most, mut packets, mut before) = (0, 0, 0, 0);
    // On each of two channels what the path carries in all.
    for step in 0..3600 * 40 {
        for channel in [0, 1] {
            let now = world.now();
            let link = world.link(End::Near).unwrap();
            refused += u32::from(link.send(now, channel, vec![0; 1250]) == Err(Error::QueueFull { channel }));
            most = most.max(link.held_bytes().0);
            packets = packets.max(link.remembered_packets());
        }
        world.run(Duration::from_millis(25));
        world.take(End::Far, 0);
        world.take(End::Far, 1);
        world.events.clear();
        if step == 300 * 40 {
            before = resident();
        }
    }
    assert!(
        refused > 100_000 && most <= 200_000 + 50 * 2000 + 40_000 && packets < 500,
        "{refused} {most} {packets}"
    );
    let after = resident();
    assert!(after <= before + (1 << 20), "{before} bytes after five minutes, {after} after an hour");
}
