//! One link over several paths: what becomes of messages when one of them falls silent, or an end restarts.

use crate::link_support::paths::{Pair, millis};
use crate::link_support::quantile;
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Queue, Random};
use glassline_transport::link::{Bonding, Error, Event, Path};

fn path(delay: u64) -> LinkConfig {
    LinkConfig::rate(5_000_000).with_delay(millis(delay)).with_queue(Queue::packets(200))
}

#[test]
fn the_second_path_takes_over_and_gives_back() {
    let mut pair = Pair::up(Bonding::Failover, [path(20), path(50)], 1);
    let start = pair.now();
    let got = pair.talk(0, 25, |milli, pair| match milli {
        3000 => pair.set_loss(0, Loss::Random(1.0)),
        13_000 => pair.set_loss(0, Loss::None),
        _ => {}
    });
    assert_eq!(got.len(), 2500, "nothing is lost");
    assert!(got.windows(2).all(|pair| pair[0].0 < pair[1].0), "and all is in order");
    let worst = got.iter().map(|got| got.1).max().unwrap();
    assert!(worst < millis(600), "{worst:?}");
    let during = |from: u64, to: u64| {
        let range = start + millis(from)..start + millis(to);
        let mut delays: Vec<_> = got.iter().filter(|got| range.contains(&got.0)).map(|got| got.1).collect();
        quantile(&mut delays, 0.99)
    };
    assert!(during(0, 2900) < millis(25), "{:?}", during(0, 2900));
    assert!(during(3600, 12_900) < millis(56), "{:?}", during(3600, 12_900));
    assert!(during(18_000, 25_000) < millis(25), "{:?}", during(18_000, 25_000));
    let moves = pair.moves(End::Near);
    let at = |milli| start + millis(milli);
    let [(left, 1), (back, 0)] = moves[..] else { panic!("{moves:?}") };
    assert!((at(3000)..at(3600)).contains(&left) && (at(15_000)..at(17_500)).contains(&back), "{moves:?}");
}

#[test]
fn a_silent_path_is_left_though_nothing_is_sent() {
    let mut pair = Pair::up(Bonding::Failover, [path(20), path(50)], 2);
    let start = pair.now();
    pair.set_loss(0, Loss::Random(1.0));
    pair.run(millis(1000));
    for end in End::BOTH {
        let moves = pair.moves(end);
        assert!(matches!(moves[..], [(at, 1)] if at < start + millis(1000)), "{moves:?}");
    }
    // It is gone after a while, comes back with the network, and the other one may fail then.
    pair.run(millis(8000));
    let down = |event: &(Time, End, Event)| matches!(event.2, Event::PathDown { path } if path.via == 0);
    assert_eq!(pair.events.iter().filter(|event| down(event)).count(), 2);
    pair.set_loss(0, Loss::None);
    pair.run(millis(5000));
    for end in End::BOTH {
        assert_eq!(pair.moves(end).last().unwrap().1, 0);
        assert_eq!(pair.link(end).unwrap().paths().count(), 2);
    }
    assert!(!pair.events.iter().any(|event| matches!(event.2, Event::Closed { .. })));
}

#[test]
fn what_goes_over_both_paths_feels_neither_fail() {
    for channel in [0, 1] {
        let mut pair = Pair::up(Bonding::Both, [path(20), path(30)], 3);
        let got = pair.talk(channel, 25, |milli, pair| match milli {
            3000 => pair.set_loss(0, Loss::Random(1.0)),
            13_000 => pair.set_loss(0, Loss::None),
            _ => {}
        });
        let worst = got.iter().map(|got| got.1).max().unwrap();
        assert!(got.len() == 2500 && worst < millis(35), "{channel}: {} {worst:?}", got.len());
        assert!(!pair.events.iter().any(|event| matches!(event.2, Event::Closed { .. })));
    }
    // Where the one that is left loses packets too, what it loses is sent again at once.
    let mut pair = Pair::up(Bonding::Both, [path(20), path(30).with_loss(Loss::Random(0.02))], 3);
    let got = pair.talk(0, 10, |milli, pair| {
        if milli == 3000 {
            pair.set_loss(0, Loss::Random(1.0));
        }
    });
    let worst = got.iter().map(|got| got.1).max().unwrap();
    assert!(got.len() == 1000 && worst < millis(400), "{} {worst:?}", got.len());
    // While both carry, losses of one are not felt at all.
    let lossy = path(21).with_loss(Loss::Random(0.05));
    let mut pair = Pair::up(Bonding::Both, [path(20), lossy], 4);
    let got = pair.talk(1, 10, |_, _| {});
    let worst = got.iter().map(|got| got.1).max().unwrap();
    assert_eq!(got.len(), 1000);
    assert!(worst < millis(25), "{worst:?}");
    assert!(pair.link(End::Near).unwrap().is_idle());
}

#[test]
fn a_slow_second_path_holds_nothing_up() {
    let slow = LinkConfig::rate(200_000).with_delay(millis(80)).with_queue(Queue::packets(50));
    let mut pair = Pair::up(Bonding::Both, [path(20), slow], 5);
    let mut got = 0;
    for _ in 0..100 {
        pair.send(End::Near, 0, vec![7; 30_000]);
        pair.run(millis(100));
        got += pair.take(End::Far, 0).len();
    }
    pair.run(millis(500));
    got += pair.take(End::Far, 0).len();
    assert_eq!(got, 100, "2.4 Mbit/s fit into the first path alone");
    let dropped = pair.networks[1].link(End::Near).counters().dropped().packets;
    assert!(dropped < 60, "the slow path's queue is not run over: {dropped}");
}

#[test]
fn either_end_restarts_with_its_paths() {
    for bonding in [Bonding::Failover, Bonding::Both, Bonding::Sum] {
        for end in End::BOTH {
            let mut pair = Pair::up(bonding, [path(20), path(30)], 6);
            pair.send(End::Near, 0, vec![1; 100]);
            pair.run(millis(500));
            assert_eq!(pair.take(End::Far, 0).len(), 1);
            pair.restart(end);
            pair.run(millis(2500));
            pair.open(End::Near);
            for number in 0..10u8 {
                pair.send(End::Near, 0, vec![number; 50]);
            }
            pair.run(millis(300));
            let got = pair.take(End::Far, 0);
            assert!(got.iter().map(|bytes| bytes[0]).eq(0..10), "{bonding:?} {end:?}: {got:?}");
            for end in End::BOTH {
                assert_eq!(pair.link(end).unwrap().paths().count(), 2, "{bonding:?} {end:?}");
                assert_eq!(pair.ends[end as usize].links().count(), 1);
            }
        }
    }
}

#[test]
fn a_close_ends_both_paths() {
    let mut pair = Pair::up(Bonding::Both, [path(20), path(30)], 7);
    let now = pair.now();
    pair.set_loss(0, Loss::Random(1.0));
    pair.link(End::Near).unwrap().close(now, "done");
    pair.run(millis(1000));
    assert_eq!(pair.ends.iter().map(|end| end.links().count()).sum::<usize>(), 0);
}

#[test]
fn a_second_path_is_the_connecting_end_s_to_give() {
    let mut pair = Pair::up(Bonding::Both, [path(20), path(30)], 8);
    let (now, far) = (pair.now(), pair.links[1].unwrap());
    let path = Path { remote: "203.0.113.9:9".parse().unwrap(), via: 0 };
    assert!(matches!(pair.ends[1].add_path(now, far, path), Err(Error::Path { .. })));
    let near = pair.links[0].unwrap();
    assert!(matches!(pair.ends[0].add_path(now, near, path), Err(Error::Path { .. })));
    let first = Path { remote: pair.networks[0].address(End::Far), via: 0 };
    let mut alone = Pair::new(Bonding::Both, [self::path(20), self::path(30)], 8);
    let id = alone.ends[0].connect(Time::ZERO, first).unwrap();
    assert!(matches!(alone.ends[0].add_path(Time::ZERO, id, first), Err(Error::Path { .. })));
}

/// Paths that come and go at any time, in all modes, and ends that restart: what is reliable comes once and in order,
/// and nothing is kept when all has ended.
#[test]
fn promises_hold_on_any_paths() {
    for seed in 0..900u64 {
        let mut random = Random::new(seed);
        let mut below = |limit: u64| random.up_to(limit - 1);
        let (bonding, count) = match below(3) {
            0 => (Bonding::Failover, 2),
            1 => (Bonding::Both, 2),
            _ => (Bonding::Sum, 2 + below(3) as usize),
        };
        let configs: Vec<_> = std::iter::repeat_with(|| {
            LinkConfig::rate(500_000 + below(8_000_000))
                .with_delay(millis(1 + below(60)))
                .with_jitter(millis(below(8)))
                .with_loss(Loss::Random(below(10) as f64 / 100.0))
                .with_duplicates(0.02)
                .with_reorder(0.03, millis(1 + below(30)))
                .with_queue(Queue::packets(20 + below(200) as u32))
        })
        .take(count)
        .collect();
        let kept: Vec<_> = (0..count).map(|_| below(10) as f64 / 100.0).collect();
        let mut pair = Pair::new(bonding, configs, seed);
        pair.connect();
        pair.run(millis(3000));
        pair.open(End::Near);
        let (mut got, mut unreliable, mut sent) = (Vec::new(), Vec::new(), [0u32; 2]);
        let take = |pair: &mut Pair, got: &mut Vec<u32>, unreliable: &mut Vec<u32>| {
            let number = |bytes: bytes::Bytes| u32::from_be_bytes(bytes[..4].try_into().unwrap());
            got.extend(pair.take(End::Far, 0).into_iter().map(number));
            unreliable.extend(pair.take(End::Far, 1).into_iter().map(number));
        };
        let mut down: Option<usize> = None;
        for _ in 0..60 {
            if below(8) == 0 {
                if let Some(via) = down.take() {
                    pair.set_loss(via, Loss::Random(kept[via]));
                } else {
                    let via = below(count as u64) as usize;
                    pair.set_loss(via, Loss::Random(1.0));
                    down = Some(via);
                }
            }
            let channel = below(2) as usize;
            let size = if below(6) == 0 { 4 + below(9000) } else { 4 + below(500) };
            let mut bytes = vec![0; size as usize];
            bytes[..4].copy_from_slice(&sent[channel].to_be_bytes());
            sent[channel] += 1;
            pair.send(End::Near, channel as u8, bytes);
            let until = pair.now() + millis(below(120));
            pair.run_until(until, |pair| take(pair, &mut got, &mut unreliable));
        }
        (0..count).for_each(|via| pair.set_loss(via, Loss::Random(kept[via])));
        let until = pair.now() + millis(12_000);
        pair.run_until(until, |pair| take(pair, &mut got, &mut unreliable));
        assert!(got.iter().copied().eq(0..sent[0]), "seed {seed} {bonding:?}: {got:?} of {}", sent[0]);
        let all = unreliable.len();
        unreliable.sort_unstable();
        unreliable.dedup();
        assert!(unreliable.len() == all && all <= sent[1] as usize, "seed {seed}: {unreliable:?}");
        assert!(!pair.events.iter().any(|event| matches!(event.2, Event::Closed { .. })), "seed {seed}");
        for end in End::BOTH {
            let link = pair.link(end).unwrap();
            assert_eq!(
                (link.held_bytes(), link.is_idle()),
                ((0, 0), true),
                "seed {seed} {bonding:?} {end:?}"
            );
            assert_eq!(link.paths().count(), count, "seed {seed}");
            assert!(link.remembered_packets() < 2000, "seed {seed}");
        }
    }
}
