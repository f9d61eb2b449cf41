//! How large datagrams may be on a path: what is found, and what becomes of messages when it changes.

use crate::link_support::{World, settings};
use glassline_transport::emulator::{End, LinkConfig, Network};
use glassline_transport::link::{Event, Options, Settings};
use std::time::Duration;

const HEADERS: u32 = Network::HEADER_BYTES as u32;

/// A link whose ends take datagrams of so many bytes, over paths that carry `limits` bytes up and down.
fn world(takes: [u16; 2], limits: [u32; 2]) -> World {
    world_of(LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20)), takes, limits)
}

fn world_of(config: LinkConfig, takes: [u16; 2], limits: [u32; 2]) -> World {
    let limited = |limit| LinkConfig { max_packet_bytes: Some(limit + HEADERS), ..config.clone() };
    let network = Network::new(limited(limits[0]), limited(limits[1]), 1).unwrap();
    let [near, far] = settings();
    let with = |settings, datagram_bytes| Settings { datagram_bytes, ..settings };
    let mut world = World::new(network, [with(near, takes[0]), with(far, takes[1])], 1);
    world.connect();
    world.run_until_up();
    for end in End::BOTH {
        world.link(end).unwrap().open(0, Options::default()).unwrap();
    }
    world
}

fn found(world: &mut World) -> [u16; 2] {
    End::BOTH.map(|end| world.link(end).unwrap().statistics().datagram_bytes)
}

/// Has both ends send a message of 30,000 bytes each 100 ms.
fn talk(world: &mut World, seconds: u64) {
    for _ in 0..seconds * 10 {
        for end in End::BOTH {
            world.send(end, 0, vec![end as u8; 30_000]);
        }
        world.run(Duration::from_millis(100));
    }
}

#[test]
fn each_direction_finds_what_its_path_carries() {
    for limit in [1200, 1232, 1300, 1372, 1452, 1472, 5000, 8972, 40_000] {
        let mut world = world([65_000; 2], [limit, 1472]);
        world.wire = Some(Vec::new());
        talk(&mut world, 30);
        let [up, down] = found(&mut world);
        assert!(u32::from(up) <= limit && u32::from(up) + 20 >= limit, "{up} of {limit}");
        assert_eq!(down, 1472, "{limit}");
        // Probes that get lost are not what messages wait for, nor a reason to slow down.
        assert_eq!([world.take(End::Far, 0).len(), world.take(End::Near, 0).len()], [300, 300]);
        assert_eq!(world.link(End::Near).unwrap().statistics().lost_packets, 0, "{limit}");
        let wire = world.wire.take().unwrap();
        let too_large =
            wire.iter().filter(|datagram| datagram.0 == End::Near && datagram.1.len() > limit as usize);
        assert!(too_large.count() < 70, "{limit}");
    }
}

#[test]
fn nobody_gets_more_than_it_takes() {
    let mut world = world([9000, 1300], [9000, 9000]);
    world.wire = Some(Vec::new());
    talk(&mut world, 2);
    assert_eq!(found(&mut world), [1300, 1300]);
    assert!(world.wire.take().unwrap().iter().all(|datagram| datagram.1.len() <= 1300));
    let mut small = self::world([1200, 1452], [9000, 9000]);
    talk(&mut small, 2);
    assert_eq!(found(&mut small), [1200, 1200]);
}

#[test]
fn a_path_that_swallows_what_it_carried_is_noticed() {
    for busy in [true, false] {
        let mut world = world([1472; 2], [1472; 2]);
        talk(&mut world, 2);
        assert_eq!(found(&mut world), [1472, 1472]);
        world.take(End::Far, 0);
        // A tunnel has come between.
        End::BOTH.into_iter().for_each(|end| world.network.set_max_packet_bytes(end, Some(1280 + HEADERS)));
        let (mut sent, mut got, start) = (0, 0, world.now());
        let mut done = start;
        for _ in 0..100 {
            let size = if busy { 30_000 } else { 1400 };
            world.send(End::Near, 0, vec![1; size]);
            sent += 1;
            let until = world.now() + Duration::from_millis(100);
            world.run_until(until, |world| {
                got += world.take(End::Far, 0).len();
                false
            });
            if got + 1 >= sent && done == start {
                done = world.now();
            }
        }
        world.run(Duration::from_secs(5));
        got += world.take(End::Far, 0).len();
        assert_eq!(got, sent);
        let [up, _] = found(&mut world);
        assert!((1260..=1280).contains(&up), "{up}");
        assert!(done > start && done - start < Duration::from_secs(3), "{busy}: {:?}", done - start);
    }
}

#[test]
fn a_path_that_becomes_wider_is_used() {
    let mut world = world([1472; 2], [1300, 1472]);
    talk(&mut world, 10);
    let [before, _] = found(&mut world);
    assert!((1280..=1300).contains(&before), "{before}");
    world.network.set_max_packet_bytes(End::Near, None);
    world.run(Duration::from_secs(620));
    assert_eq!(found(&mut world), [1472, 1472]);
}

#[test]
fn a_path_that_carries_less_than_it_must_is_told() {
    // One on which what is lost can leave again at once, so that every probe might carry some of it, and a slower one.
    let quick = LinkConfig::rate(1_000_000_000).with_delay(Duration::from_micros(50));
    let slow = LinkConfig::rate(20_000_000).with_delay(Duration::from_millis(20));
    for (config, sizes) in [(&slow, &[30_000][..]), (&slow, &[1000, 1000, 1000]), (&quick, &[50_000])] {
        let mut world = world_of(config.clone(), [1472; 2], [1472; 2]);
        talk(&mut world, 2);
        assert_eq!((world.take(End::Far, 0).len(), world.take(End::Near, 0).len()), (20, 20));
        let told = |world: &World, end| {
            let is_it = |event: &Event| matches!(event, Event::PathTooNarrow { .. });
            world.events.iter().filter(|event| event.1 == end && is_it(&event.2)).count()
        };
        world.network.set_max_packet_bytes(End::Near, Some(600 + HEADERS));
        sizes.iter().for_each(|size| world.send(End::Near, 0, vec![1; *size]));
        world.run(Duration::from_secs(10));
        assert_eq!([told(&world, End::Near), told(&world, End::Far)], [1, 0], "{sizes:?}");
        assert!(world.link(End::Near).unwrap().is_up(), "what is small still passes");
        // All of it comes when the path is as wide as it has to be.
        world.network.set_max_packet_bytes(End::Near, Some(1200 + HEADERS));
        world.run(Duration::from_secs(3));
        assert_eq!(world.take(End::Far, 0).len(), sizes.len());
        assert_eq!(told(&world, End::Near), 1);
    }
}
