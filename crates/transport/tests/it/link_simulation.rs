//! Many seeds of bad networks: whatever they do, what the channels promise holds.

use crate::link_support::{World, settings};
use glassline_media::Time;
use glassline_transport::emulator::{
    End, LinkConfig, Loss, Network, OutageEffect, OutageTimes, Queue, Random,
};
use glassline_transport::link::{Compression, Event, Fec, Options, Settings};
use std::collections::BTreeSet;
use std::ops::Range;
use std::time::Duration;

/// Those from `GLASSLINE_SEEDS` (`FROM..TO`), or as many as take seconds.
fn seeds(count: u64) -> Range<u64> {
    let given = std::env::var("GLASSLINE_SEEDS").ok();
    let given = given.as_deref().and_then(|given| given.split_once(".."));
    given.and_then(|(from, to)| Some(from.parse().ok()?..to.parse().ok()?)).unwrap_or(0..count)
}

fn below(random: &mut Random, limit: u64) -> u64 {
    random.up_to(limit - 1)
}

fn network(random: &mut Random) -> Network {
    let config = |random: &mut Random| {
        let millis = |random: &mut Random, limit| Duration::from_millis(below(random, limit));
        let mut config = LinkConfig::rate(300_000 + below(random, 20_000_000))
            .with_delay(millis(random, 80))
            .with_jitter(millis(random, 10))
            .with_queue(Queue::packets(5 + below(random, 300) as u32));
        config = match below(random, 4) {
            0 => config,
            1 => config.with_loss(Loss::Random(below(random, 20) as f64 / 100.0)),
            _ => config.with_loss(Loss::GilbertElliott {
                to_bad: 0.01,
                to_good: 0.2,
                loss_good: 0.001,
                loss_bad: 0.7,
            }),
        };
        if below(random, 2) == 0 {
            config =
                config.with_duplicates(0.05).with_reorder(0.05, Duration::from_millis(1 + below(random, 60)));
        }
        if below(random, 4) == 0 {
            let (on, off) = (Duration::from_millis(800), Duration::from_millis(1 + below(random, 400)));
            config = config.with_outages(OutageTimes::Random { on, off }, OutageEffect::Drop);
        }
        config
    };
    let (up, down) = (config(random), config(random));
    Network::new(up, down, random.up_to(u64::MAX)).unwrap()
}

/// A message that says which one it is.
fn message(number: u32, random: &mut Random) -> Vec<u8> {
    let size = if below(random, 10) == 0 { 4 + below(random, 20_000) } else { 4 + below(random, 400) };
    let mut bytes = vec![number as u8; size as usize];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn number_of(bytes: &[u8]) -> u32 {
    assert!(bytes[4..].iter().all(|byte| *byte == bytes[3]), "a message is what was sent");
    u32::from_be_bytes(bytes[..4].try_into().unwrap())
}

fn both_up(world: &mut World) -> bool {
    End::BOTH.into_iter().all(|end| world.link(end).is_some_and(|link| link.is_up()))
}

/// Reliable ordered, reliable unordered, unreliable ordered and unreliable unordered channels, both ways.
#[test]
fn promises_hold_on_any_network() {
    let mut cut_off = 0;
    let seeds = seeds(10_000);
    for seed in seeds.clone() {
        let mut random = Random::new(seed);
        // Keys change often, and what is kept is little.
        let key_update_packets = 20 + seed % 60;
        let small = |settings| Settings {
            // Padding is most of the packets where there is any.
            probing_percent: if seed % 8 == 0 { 5 } else { 0 },
            datagram_bytes: 1452,
            key_update_packets,
            window_bytes: WINDOW,
            ..settings
        };
        let mut world = World::new(network(&mut random), settings().map(small), seed);
        world.wire = Some(Vec::new());
        world.connect();
        world.run_until(Time::from_millis(60_000), both_up);
        let mut got = [[(); 4]; 2].map(|channels| channels.map(|()| Vec::new()));
        let mut sent = [[0u32; 4]; 2];
        for end in End::BOTH {
            let link = world.link(end).unwrap_or_else(|| panic!("seed {seed}: {end:?} is not up"));
            for channel in 0..4 {
                let (reliable, ordered) = (channel < 2, channel % 2 == 0);
                let compression =
                    [Compression::Zstd, Compression::Deflate, Compression::None][seed as usize % 3];
                let fec = if seed % 4 < 2 { Fec::Never } else { Fec::WhenLossy(20) };
                let limits =
                    Options { max_size: LARGEST, queue: 20, queue_bytes: QUEUE, ..Options::default() };
                let options = Options { reliable, ordered, priority: channel, compression, fec, ..limits };
                link.open(channel, options).unwrap();
            }
        }
        let take = |world: &mut World, got: &mut [[Vec<u32>; 4]; 2]| {
            for end in End::BOTH {
                for channel in 0..4u8 {
                    let messages = world.take(end, channel);
                    got[end as usize][usize::from(channel)]
                        .extend(messages.iter().map(|bytes| number_of(bytes)));
                }
                let Some(link) = world.link(end) else { continue };
                let (sending, received) = link.held_bytes();
                assert!(
                    sending <= 4 * QUEUE && received <= 4 * 2 * WINDOW,
                    "seed {seed}: {sending} {received}"
                );
                assert!(link.remembered_packets() < 5000, "seed {seed}");
            }
            false
        };
        for step in 0..40 {
            for end in End::BOTH {
                let channel = below(&mut random, 4) as u8;
                let number = &mut sent[end as usize][usize::from(channel)];
                let bytes = message(*number, &mut random);
                let now = world.now();
                if world.link(end).is_some_and(|link| link.send(now, channel, bytes).is_ok()) {
                    *number += 1;
                }
            }
            if below(&mut random, 60) == 0 {
                world.network.rebind(End::Near, format!("203.0.113.{step}:77").parse().unwrap());
            }
            let until = world.now() + Duration::from_millis(below(&mut random, 50));
            world.run_until(until, |world| take(world, &mut got));
        }
        let until = world.now() + Duration::from_secs(60);
        world.run_until(until, |world| {
            take(world, &mut got);
            End::BOTH.into_iter().all(|end| world.link(end).is_none_or(|link| link.is_idle()))
        });
        // The last cancels and acknowledgements arrive.
        let until = world.now() + Duration::from_secs(10);
        world.run_until(until, |world| take(world, &mut got));
        no_number_is_used_twice(seed, &world.wire.take().unwrap());
        if world.cut_off && !world.lost {
            cut_off += 1;
            continue;
        }
        assert!(
            !world.lost,
            "seed {seed}: {:#?}",
            world
                .events
                .iter()
                .filter(|event| !matches!(event.2, Event::Readable { .. } | Event::Opened { .. }))
                .collect::<Vec<_>>()
        );
        for end in End::BOTH {
            let got = &got[end.other() as usize];
            let sent = sent[end as usize];
            assert!(got[0].iter().copied().eq(0..sent[0]), "seed {seed}: {:?} of {}", got[0], sent[0]);
            let mut unordered = got[1].clone();
            unordered.sort_unstable();
            assert!(unordered.iter().copied().eq(0..sent[1]), "seed {seed}: {unordered:?} of {}", sent[1]);
            assert!(got[2].windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: {:?}", got[2]);
            let once: BTreeSet<u32> = got[3].iter().copied().collect();
            assert!(
                once.len() == got[3].len() && got[3].iter().all(|number| *number < sent[3]),
                "seed {seed}"
            );
            let link = world.link(end).unwrap();
            assert_eq!(link.held_bytes(), (0, 0), "seed {seed}");
        }
    }
    // Networks that carry nothing for longer than a link waits are few.
    assert!(cut_off <= seeds.count() / 200 + 1, "{cut_off}");
}

/// No nonce is used twice: the numbers of a session's packets go on when its keys change, and each session, a link that
/// was lost and connected again among them, has a connection ID of its own; so all differ.
fn no_number_is_used_twice(seed: u64, wire: &[(End, Vec<u8>)]) {
    let data = wire.iter().filter(|datagram| datagram.1[0] < 0x80);
    let mut seen: Vec<_> =
        data.map(|(end, bytes)| (*end, <[u8; 12]>::try_from(&bytes[1..13]).unwrap())).collect();
    assert!(!seen.is_empty(), "seed {seed}: nothing was sent");
    seen.sort_unstable();
    assert!(seen.windows(2).all(|pair| pair[0] != pair[1]), "seed {seed}: a number twice");
}

/// What an end keeps on a channel of those simulations: for the application, to be sent, and the largest message.
const WINDOW: u64 = 64_000;
const QUEUE: usize = 60_000;
const LARGEST: u32 = 21_000;

/// Either end dies and comes back again and again: messages of one life come in order and once.
#[test]
fn restarts_are_survived() {
    for seed in seeds(10_000) {
        let mut random = Random::new(seed ^ 0xABCD);
        let delay = Duration::from_millis(below(&mut random, 60));
        let config = LinkConfig::rate(5_000_000).with_delay(delay).with_loss(Loss::Random(0.03));
        let mut world = World::new(Network::symmetric(config, seed).unwrap(), settings(), seed);
        world.connect();
        let mut got: Vec<u32> = Vec::new();
        let mut next = 0u32;
        for _ in 0..4 {
            world.run_until(world.now() + Duration::from_secs(8), both_up);
            let link = world.link(End::Near).unwrap();
            assert!(link.is_up(), "seed {seed}: not up");
            let _ = link.open(0, Options::default());
            for _ in 0..20 {
                world.send(End::Near, 0, next.to_be_bytes().to_vec());
                next += 1;
                world.run(Duration::from_millis(5));
                got.extend(world.take(End::Far, 0).iter().map(|bytes| number_of(bytes)));
            }
            let end = End::BOTH[below(&mut random, 2) as usize];
            world.restart(end, settings()[end as usize].clone());
            if end == End::Near {
                world.connect();
            }
        }
        // Nobody dies any more: all that is sent from now on arrives.
        world.run_until(world.now() + Duration::from_secs(8), both_up);
        let _ = world.link(End::Near).unwrap().open(0, Options::default());
        let last = next..next + 20;
        last.clone().for_each(|number| world.send(End::Near, 0, number.to_be_bytes().to_vec()));
        world.run_until(world.now() + Duration::from_secs(8), |world| {
            got.extend(world.take(End::Far, 0).iter().map(|bytes| number_of(bytes)));
            got.last() == Some(&(last.end - 1))
        });
        assert!(got.windows(2).all(|pair| pair[0] < pair[1]), "seed {seed}: {got:?}");
        assert!(got.ends_with(&last.collect::<Vec<_>>()), "seed {seed}: {got:?}");
    }
}

#[test]
fn equals_share_by_weight_and_the_urgent_go_first() {
    let config =
        LinkConfig::rate(4_000_000).with_delay(Duration::from_millis(20)).with_queue(Queue::packets(100));
    let mut world = World::shared(Network::symmetric(config, 6).unwrap(), 6);
    world.connect();
    let link = world.link(End::Near).unwrap();
    for channel in 0..20 {
        let weight = if channel < 10 { 1 } else { 3 };
        let options = Options { priority: 5, weight, queue: 40, max_size: 3000, ..Options::default() };
        link.open(channel, options).unwrap();
    }
    link.open(63, Options { priority: 0, ..Options::default() }).unwrap();
    world.run_until_up();
    let mut bytes = [0usize; 20];
    let mut late = Duration::ZERO;
    for step in 0..2000u32 {
        let now = world.now();
        for channel in 0..20 {
            while world.link(End::Near).unwrap().send(now, channel, vec![0; 1000]).is_ok() {}
        }
        if step % 50 == 0 {
            world.send(End::Near, 63, now.as_nanos().to_be_bytes().to_vec());
        }
        world.run_until(now + Duration::from_millis(5), |world| {
            for message in world.take(End::Far, 63) {
                let sent = Time::from_nanos(u64::from_be_bytes(message[..].try_into().unwrap()));
                if step > 200 {
                    late = late.max(world.now() - sent);
                }
            }
            false
        });
        for channel in 0..20u8 {
            let taken: usize = world.take(End::Far, channel).iter().map(|message| message.len()).sum();
            bytes[usize::from(channel)] += if step > 400 { taken } else { 0 };
        }
    }
    let (one, three) = (bytes[..10].iter().sum::<usize>() / 10, bytes[10..].iter().sum::<usize>() / 10);
    assert!(bytes[..10].iter().all(|bytes| bytes.abs_diff(one) < one / 5), "{bytes:?}");
    assert!(bytes[10..].iter().all(|bytes| bytes.abs_diff(three) < three / 5), "{bytes:?}");
    assert!((one * 5 / 2..one * 7 / 2).contains(&three), "{one} {three}");
    assert!(late < Duration::from_millis(60), "{late:?}");
}
