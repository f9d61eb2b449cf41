//! Paths on which the processor is what limits: many full packets of one message in a row, a short queue.

use crate::link_support::{World, settings};
use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
use glassline_transport::link::{Options, Settings};
use std::time::Duration;

/// A link over 4 Gbit/s that has been used for a while: a message of 2 MiB after the other on channel 0.
fn world(loss: f64, seed: u64) -> World {
    let config = LinkConfig { loss: Loss::Random(loss), ..LinkConfig::rate(4_000_000_000) };
    let config = config.with_delay(Duration::from_micros(300));
    let network = Network::new(config.clone(), config, seed).unwrap();
    let with = |settings| Settings { datagram_bytes: 1452, ..settings };
    let mut world = World::new(network, settings().map(with), seed);
    world.connect();
    world.run_until_up();
    let near = world.link(End::Near).unwrap();
    near.open(0, Options { queue_bytes: 64 << 20, ..Options::default() }).unwrap();
    near.open(1, Options { priority: 0, ..Options::default() }).unwrap();
    world
}

fn message(number: usize, size: usize) -> Vec<u8> {
    (0..size).map(|at| (at * 7 + at / 251 + number) as u8).collect()
}

#[test]
fn large_messages_fill_packets_in_a_row_and_come_as_they_were() {
    for (loss, seed) in [(0.0, 1), (0.002, 2)] {
        let mut world = world(loss, seed);
        // Sizes around what the last packets take, too.
        let sizes: Vec<usize> = (0..24).map(|number| (2 << 20) - 700 * number).collect();
        let mut got = [Vec::new(), Vec::new()];
        for (number, size) in sizes.iter().enumerate() {
            world.send(End::Near, 0, message(number, *size));
            world.send(End::Near, 1, message(number, 300));
            world.run(Duration::from_millis(if number == 12 { 60 } else { 5 }));
            (0u8..).zip(&mut got).for_each(|(channel, got)| got.extend(world.take(End::Far, channel)));
            if number == 12 {
                world.wire = Some(Vec::new());
            }
        }
        world.run(Duration::from_secs(1));
        (0u8..).zip(&mut got).for_each(|(channel, got)| got.extend(world.take(End::Far, channel)));
        let wire = world.wire.take().unwrap();
        for ((channel, sizes), got) in [(0, sizes.clone()), (1, vec![300; sizes.len()])].into_iter().zip(got)
        {
            assert_eq!(got.len(), sizes.len(), "channel {channel}, seed {seed}");
            for (number, (got, size)) in got.iter().zip(sizes).enumerate() {
                assert_eq!(*got, message(number, size), "message {number}, channel {channel}, seed {seed}");
            }
        }
        let statistics = world.link(End::Near).unwrap().statistics();
        assert!(statistics.bandwidth.bytes_per_second() > 200_000_000, "{statistics:?}");
        assert!(loss > 0.0 || statistics.lost_packets == 0, "{statistics:?}");
        // Whole blocks of AES.
        let up = wire.iter().filter(|datagram| datagram.0 == End::Near);
        let (full, all) = up.fold((0, 0), |(full, all), datagram| {
            (full + usize::from(datagram.1.len() == 1437), all + usize::from(datagram.1.len() > 1000))
        });
        assert!(full * 10 > all * 9, "{full} of {all}");
    }
}
