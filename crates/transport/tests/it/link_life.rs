//! The life of a link: connecting, restarts, other addresses, ends; and what strangers can do to it.

use crate::link_support::{World, settings};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Loss, Network};
use glassline_transport::link::{
    CloseReason, Credentials, Endpoint, Error, Event, Key, Link, Options, Outcome, Path, Settings, public_key,
};
use std::time::Duration;

const DELAY: Duration = Duration::from_millis(50);

fn network(seed: u64) -> Network {
    Network::symmetric(LinkConfig::rate(10_000_000).with_delay(DELAY), seed).unwrap()
}

fn up(seed: u64) -> World {
    let mut world = World::shared(network(seed), seed);
    world.connect();
    world.link(End::Near).unwrap().open(0, Options::default()).unwrap();
    world.run_until_up();
    world
}

#[test]
fn data_is_there_after_one_and_a_half_round_trips() {
    let mut world = World::shared(network(1), 1);
    world.connect();
    world.link(End::Near).unwrap().open(5, Options::default()).unwrap();
    world.send(End::Near, 5, "hello");
    world.run_until(Time::from_millis(1000), |world| world.take(End::Far, 5) == ["hello"]);
    assert!(world.now() < Time::from_millis(155), "{:?}", world.now());
}

#[test]
fn key_pairs_link_those_who_know_each_other() {
    let (one, two) = (Key([5; 32]), Key([6; 32]));
    let pair =
        |private: &Key, peer| Credentials::Pair { private: private.clone(), peers: vec![public_key(peer)] };
    let near = Settings::new(pair(&one, &two));
    let far = Settings { listen: true, ..Settings::new(pair(&two, &one)) };
    let mut world = World::new(network(2), [near, far.clone()], 2);
    world.connect();
    world.run_until_up();
    let stranger = Settings::new(pair(&Key([7; 32]), &two));
    let mut world = World::new(network(2), [stranger, far], 2);
    world.connect();
    world.run(Duration::from_secs(2));
    assert!(world.ends[1].counters().unauthenticated > 0);
    assert_eq!(world.ends[1].links().count(), 0);
}

/// Both ends send each 10 ms; one is killed and comes back. How long after its first datagram the link is up at the end
/// that has stayed, and the first message of the new link is at either end; and that message after its first datagram was
/// heard.
fn restart(end: End, delay: Duration) -> [Duration; 3] {
    let network = Network::symmetric(LinkConfig::rate(10_000_000).with_delay(delay), 3).unwrap();
    let mut world = World::shared(network, 3);
    world.connect();
    world.run_until_up();
    world.run(Duration::from_secs(2));
    world.restart(end, settings()[end as usize].clone());
    let from = world.now();
    if end == End::Near {
        world.connect();
    }
    let (mut next, events, arrived) = (from, world.events.len(), &mut None);
    world.run_until(from + Duration::from_secs(5), |world| {
        let now = world.now();
        for end in End::BOTH {
            if now >= next
                && let Some(link) = world.link(end)
            {
                let _ = link.open(0, Options::default());
                let _ = link.send(now, 0, from.as_nanos().to_be_bytes().to_vec());
            }
        }
        next = if now >= next { now + Duration::from_millis(10) } else { next };
        let is_new = |message: &bytes::Bytes| message[..] == from.as_nanos().to_be_bytes();
        if End::BOTH.into_iter().any(|end| world.take(end, 0).iter().any(is_new)) {
            *arrived = Some(now);
        }
        arrived.is_some()
    });
    let up = world.events[events..].iter().find(|event| event.2 == Event::Connected { again: true }).unwrap();
    assert_eq!(up.1, end.other());
    let (sent, heard) = (world.first_sent[end as usize].unwrap(), world.first_heard[end as usize].unwrap());
    let arrived = arrived.unwrap_or_else(|| panic!("{end:?}: nothing came"));
    [up.0 - sent, arrived - sent, arrived - heard]
}

#[test]
fn an_end_that_restarts_is_taken_back_at_once() {
    for millis in [20, 100, 300] {
        let rtt = Duration::from_millis(millis);
        let most = rtt * 3 / 2 + Duration::from_millis(50);
        for end in End::BOTH {
            let [up, arrived, after_heard] = restart(end, rtt / 2);
            assert!(up <= most && after_heard <= most, "{end:?}, {rtt:?}: {up:?}, {after_heard:?}");
            // A listener's first datagram only tells that it has forgotten the link: the way of that adds to the handshake.
            let way = if end == End::Far { rtt / 2 } else { Duration::ZERO };
            assert!(arrived <= most + way, "{end:?}, {rtt:?}: {arrived:?}");
            // And no time is lost on the way. 1,200 bytes take one millisecond on the wire.
            let wire = Duration::from_millis(5);
            assert!(up <= rtt * 3 / 2 + wire, "{end:?}, {rtt:?}: {up:?}");
            assert!(arrived <= rtt * 3 / 2 + way + wire, "{end:?}, {rtt:?}: {arrived:?}");
        }
    }
}

#[test]
fn messages_survive_a_new_address_of_either_end() {
    let mut world = up(4);
    let mut next = 0u32;
    for round in 0..4 {
        let from = world.now();
        for step in 0..100 {
            world.send(End::Near, 0, next.to_be_bytes().to_vec());
            next += 1;
            world.run_until(from + Duration::from_millis(10 * (step + 1)), |_| false);
        }
        let address = format!("203.0.113.{round}:{}", 4000 + round).parse().unwrap();
        world.network.rebind(End::Near, address);
    }
    world.run(Duration::from_secs(2));
    let got = world.take(End::Far, 0);
    assert!(got.iter().map(|bytes| bytes[..].try_into().unwrap()).map(u32::from_be_bytes).eq(0..next));
    let moved = world.events.iter().filter(|event| matches!(event.2, Event::PathChanged { .. })).count();
    assert_eq!(moved, 4);
}

/// A closing link stays for some round trips: on a fast path for a few milliseconds, for which a busy machine may let its thread wait.
#[test]
fn a_close_is_told_however_late_its_end_comes_to_it() {
    let mut world = up(5);
    let now = world.now();
    let path = world.link(End::Far).unwrap().path().unwrap();
    world.link(End::Near).unwrap().close(now, "enough");
    let late = now + Duration::from_secs(60);
    let [near, far] = &mut world.ends;
    near.handle_timeout(late);
    let mut datagram = Vec::new();
    assert!(near.poll_transmit(late, &mut datagram).is_some(), "the peer is told first");
    assert_eq!(near.links().count(), 1);
    // Then it is over, whatever still comes.
    near.handle_timeout(late);
    assert_eq!(near.links().count(), 0);
    far.handle_datagram(now, path, &mut datagram);
    let reason = CloseReason::Peer { code: 0, reason: "enough".into() };
    let told = std::iter::from_fn(|| far.poll_event())
        .any(|(_, event)| event == Event::Closed { reason: reason.clone() });
    assert!(told);
}

#[test]
fn a_close_is_told_and_a_vanished_peer_noticed() {
    let mut world = up(5);
    let now = world.now();
    world.link(End::Near).unwrap().close(now, "enough");
    world.run(Duration::from_secs(2));
    let reason = CloseReason::Peer { code: 0, reason: "enough".into() };
    assert!(
        world
            .events
            .iter()
            .any(|event| (event.1, &event.2) == (End::Far, &Event::Closed { reason: reason.clone() }))
    );
    assert_eq!(world.ends.iter().map(|end| end.links().count()).sum::<usize>(), 0);

    let mut world = up(5);
    world.network.set_loss(End::Far, Loss::Random(1.0)).unwrap();
    world.network.set_loss(End::Near, Loss::Random(1.0)).unwrap();
    let (mut refused, mut most) = (0, 0);
    for _ in 0..1000 {
        let now = world.now();
        if let Some(Err(Error::QueueFull { .. })) =
            world.link(End::Near).map(|link| link.send(now, 0, vec![0; 100_000]))
        {
            refused += 1;
        }
        most = most.max(world.link(End::Near).map_or(0, |link| link.held_bytes().0));
        world.run(Duration::from_millis(10));
    }
    assert!(refused > 0 && most <= 32 << 20, "{refused} {most}");
    let timed_out = Event::Suspended { reason: CloseReason::TimedOut };
    assert_eq!(world.events.iter().filter(|event| event.2 == timed_out).count(), 2);
    // The one that connected goes on trying, and is back with the network.
    world.network.set_loss(End::Far, Loss::None).unwrap();
    world.network.set_loss(End::Near, Loss::None).unwrap();
    world.run_until_up();
}

#[test]
fn nothing_that_was_recorded_does_anything_again() {
    let mut world = up(6);
    world.wire = Some(Vec::new());
    for number in 0..20u32 {
        world.send(End::Near, 0, number.to_be_bytes().to_vec());
        world.run(Duration::from_millis(20));
    }
    world.restart(End::Near, settings()[0].clone());
    world.connect();
    world.link(End::Near).unwrap().open(0, Options::default()).unwrap();
    world.run_until_up();
    world.run(Duration::from_millis(300));
    let got = world.take(End::Far, 0).len();
    assert_eq!(got, 20);
    let events = world.events.len();
    let recorded = world.wire.take().unwrap();
    assert!(recorded.iter().any(|datagram| datagram.1[0] == 0x81), "a Connect is among them");
    let attacker = "203.0.113.66:6666".parse().unwrap();
    for (end, bytes) in &recorded {
        world.network.inject(end.other(), attacker, bytes.clone());
        world.run(Duration::from_millis(1));
    }
    world.run(Duration::from_secs(1));
    assert_eq!(world.events.len(), events, "{:?}", &world.events[events..]);
    assert!(world.take(End::Far, 0).is_empty());
    world.send(End::Near, 0, "still there");
    world.run(Duration::from_millis(200));
    assert_eq!(world.take(End::Far, 0), ["still there"]);
}

#[test]
fn strangers_meet_silence_and_nobody_gets_more_than_he_sent() {
    let mut world = up(7);
    world.run(Duration::from_secs(1));
    let stranger = Path { remote: "203.0.113.66:6666".parse().unwrap(), via: 0 };
    let now = world.now();
    let mut out = Vec::new();
    let far = &mut world.ends[1];
    while far.poll_transmit(now, &mut out).is_some() {}
    let mut state = 1u64;
    for round in 0..2000 {
        let mut bytes: Vec<u8> = (0..round % 1300)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                (state >> 56) as u8
            })
            .collect();
        if let Some(first) = bytes.first_mut() {
            *first = [0x40, 0x60, 0x81, 0x82, 0x83, 0x84][round % 6];
        }
        far.handle_datagram(now, stranger, &mut bytes);
        assert_eq!(far.poll_transmit(now, &mut out), None, "an answer to a stranger");
    }
    assert!(far.counters().strangers >= 1990);

    // Connects of many who know the key, all from one address that may be forged.
    let (mut sent, mut answered, mut retries) = (0, 0, 0);
    for number in 0..200u8 {
        let mut other = Endpoint::new(settings()[0].clone(), [number; 32]);
        other.connect(now, stranger).unwrap();
        let transmit = other.poll_transmit(now, &mut out).unwrap();
        sent += transmit.bytes;
        let from = Path { remote: format!("203.0.113.{}:99", number % 100).parse().unwrap(), via: 0 };
        let mut connect = out.clone();
        far.handle_datagram(now, from, &mut connect);
        while let Some(answer) = far.poll_transmit(now, &mut out) {
            answered += answer.bytes;
            retries += usize::from(out[0] == 0x83);
        }
    }
    assert!(answered < sent / 4, "{answered} for {sent}");
    assert!(far.pending_handshakes() <= 32 && retries > 100, "{} {retries}", far.pending_handshakes());
    // Who is really there proves it with the token, and comes in.
    let mut fresh = World::new(network(8), settings(), 99);
    std::mem::swap(&mut fresh.ends[1], &mut world.ends[1]);
    fresh.connect();
    fresh.run_until_up();
    assert!(fresh.now() < Time::from_millis(1500));
}

#[test]
fn keys_are_replaced_again_and_again() {
    let [near, far] = settings();
    let often = |settings| Settings { key_update_packets: 50, ..settings };
    let network = Network::symmetric(
        LinkConfig::rate(10_000_000).with_delay(Duration::from_millis(10)).with_loss(Loss::Random(0.05)),
        11,
    );
    let mut world = World::new(network.unwrap(), [often(near), often(far)], 11);
    world.connect();
    world.link(End::Near).unwrap().open(0, Options::default()).unwrap();
    world.run_until_up();
    world.wire = Some(Vec::new());
    for _ in 0..200 {
        world.send(End::Near, 0, vec![7; 10_000]);
        world.run(Duration::from_millis(20));
    }
    world.run(Duration::from_secs(1));
    assert_eq!(world.take(End::Far, 0).len(), 200);
    let wire = world.wire.take().unwrap();
    let phases = wire.iter().filter(|datagram| datagram.0 == End::Near).map(|datagram| datagram.1[0] & 0x20);
    let changes = phases.collect::<Vec<_>>().windows(2).filter(|pair| pair[0] != pair[1]).count();
    assert!(changes >= 10, "{changes}");
    assert_eq!(world.ends[0].counters().refused + world.ends[1].counters().refused, 0);
}

#[test]
fn receipts_tell_how_each_message_ended() {
    let mut world = up(12);
    let link: &mut Link = world.link(End::Near).unwrap();
    link.open(1, Options { receipts: true, ..Options::default() }).unwrap();
    link.open(2, Options { receipts: true, newest: true, ..Options::default() }).unwrap();
    let options =
        Options { receipts: true, cancel_after: Some(Duration::from_millis(5)), ..Options::default() };
    link.open(3, options).unwrap();
    world.send(End::Near, 1, vec![1; 50_000]);
    for _ in 0..3 {
        world.send(End::Near, 2, vec![2; 100]);
    }
    world.send(End::Near, 3, vec![3; 2_000_000]);
    world.run(Duration::from_secs(3));
    let ends = |channel| -> Vec<Outcome> {
        let finished = world.events.iter().filter_map(|event| match event.2 {
            Event::Finished { channel: found, outcome, .. } if found == channel => Some(outcome),
            _ => None,
        });
        finished.collect()
    };
    assert_eq!(ends(1), [Outcome::Delivered]);
    assert_eq!(ends(2), [Outcome::Cancelled, Outcome::Cancelled, Outcome::Delivered]);
    assert_eq!(ends(3), [Outcome::Cancelled]);
}

fn at(address: &str) -> Path {
    Path { remote: address.parse().unwrap(), via: 0 }
}

fn endpoint(settings: &Settings, seed: u8) -> Endpoint {
    Endpoint::new(settings.clone(), [seed; 32])
}

/// All datagrams that an end has to send now.
fn sent(end: &mut Endpoint, now: Time) -> Vec<Vec<u8>> {
    let (mut all, mut buffer) = (Vec::new(), Vec::new());
    while let Some(transmit) = end.poll_transmit(now, &mut buffer) {
        all.extend(buffer.chunks(transmit.segment_bytes).map(<[u8]>::to_vec));
    }
    all
}

/// Hands all that `from` has to send to `to`, and gives it.
fn hand(from: &mut Endpoint, to: &mut Endpoint, path: Path, now: Time) -> Vec<Vec<u8>> {
    let all = sent(from, now);
    all.iter().for_each(|datagram| to.handle_datagram(now, path, &mut datagram.clone()));
    all
}

/// Passes datagrams to and fro until neither end has any.
fn exchange(near: &mut Endpoint, far: &mut Endpoint, here: Path, there: Path, now: Time) {
    for _ in 0..20 {
        if hand(near, far, here, now).is_empty() & hand(far, near, there, now).is_empty() {
            return;
        }
    }
    panic!("they speak without end");
}

fn is_up(end: &Endpoint) -> bool {
    end.links().any(|(_, link)| link.is_up())
}

#[test]
fn only_the_listener_that_had_a_link_can_reset_it() {
    let [near, far] = settings();
    let (here, there, now) = (at("192.0.2.1:4000"), at("192.0.2.2:7000"), Time::from_millis(5));
    let (mut caller, mut first) = (endpoint(&near, 1), endpoint(&far, 2));
    caller.connect(now, there).unwrap();
    exchange(&mut caller, &mut first, here, there, now);
    assert!(is_up(&caller) && is_up(&first));
    let id = caller.links().next().unwrap().0;
    caller.link_mut(id).unwrap().open(0, Options::default()).unwrap();
    caller.link_mut(id).unwrap().send(now, 0, vec![7; 500]).unwrap();
    let data = sent(&mut caller, now).pop().unwrap();

    // Others that listen with the same key: one on another machine, one at another port of this one, one that keeps nothing.
    let other = |reset_secret| Settings { reset_secret, ..far.clone() };
    let elsewhere = [Some(Key([77; 32])), Some(Key([10; 32]).of_listener("0.0.0.0:7001@")), None];
    for (seed, secret) in (10..).zip(elsewhere) {
        let mut second = endpoint(&other(secret), seed);
        second.handle_datagram(now, here, &mut data.clone());
        assert_eq!(
            sent(&mut second, now),
            Vec::<Vec<u8>>::new(),
            "it tells whoever asks the token of another's link"
        );
        assert_eq!((second.counters().strangers, second.counters().resets), (1, 0));
    }
    // The first one, which has forgotten all but its secret.
    let mut again = endpoint(&far, 3);
    again.handle_datagram(now, here, &mut data.clone());
    let reset = sent(&mut again, now);
    assert_eq!((reset.len(), reset[0][0]), (1, 0x84));
    caller.handle_datagram(now, there, &mut reset[0].clone());
    assert!(!is_up(&caller), "it believes the one whose link it was");
    // One that keeps nothing gives no token beforehand: nobody can reset its links.
    let (mut caller, mut first) = (endpoint(&near, 4), endpoint(&other(None), 5));
    caller.connect(now, there).unwrap();
    exchange(&mut caller, &mut first, here, there, now);
    assert!(is_up(&caller) && is_up(&first));
    let id = caller.links().next().unwrap().0;
    caller.link_mut(id).unwrap().open(0, Options::default()).unwrap();
    caller.link_mut(id).unwrap().send(now, 0, vec![7; 500]).unwrap();
    let data = sent(&mut caller, now).pop().unwrap();
    let token = &reset[0][10..];
    for token in [token, &[0; 16]] {
        caller.handle_datagram(now, there, &mut [&[0x84, 1][..], &data[1..9], token].concat());
        assert!(is_up(&caller));
    }
}

/// Recorded Connects of `count` callers that nobody has answered.
fn recorded(near: &Settings, count: u8, there: Path, now: Time) -> Vec<Vec<u8>> {
    let connect = |seed| {
        let mut caller = endpoint(near, seed);
        caller.connect(now, there).unwrap();
        sent(&mut caller, now).pop().unwrap()
    };
    (100..100 + count).map(connect).collect()
}

/// Whether somebody at `here` gets in at `far`, whose answers to others are lost.
fn comes_in(near: &Settings, far: &mut Endpoint, here: Path, there: Path, now: Time) -> bool {
    sent(far, now);
    let mut caller = endpoint(near, 9);
    caller.connect(now, there).unwrap();
    exchange(&mut caller, far, here, there, now);
    is_up(&caller)
}

#[test]
fn one_recorded_connect_locks_no_address_out() {
    let [near, far] = settings();
    let (there, now) = (at("192.0.2.2:7000"), Time::from_millis(5));
    let connect = recorded(&near, 1, there, now).remove(0);
    let mut listener = endpoint(&far, 2);
    // As if it came from many ports of an address that is not the sender's.
    for port in 1000..2000 {
        listener.handle_datagram(now, at(&format!("192.0.2.1:{port}")), &mut connect.clone());
        let answers = sent(&mut listener, now);
        assert!(answers.iter().map(Vec::len).sum::<usize>() < connect.len() / 4);
    }
    assert_eq!(listener.pending_handshakes(), 1, "it is one handshake wherever it comes from");
    assert!(comes_in(&near, &mut listener, at("192.0.2.1:4000"), there, now));
    assert_eq!(listener.links().count(), 1);
}

#[test]
fn at_every_bound_who_is_there_proves_it_and_comes_in() {
    let [near, far] = settings();
    let (there, now) = (at("192.0.2.2:7000"), Time::from_millis(5));
    let connects = recorded(&near, 60, there, now);
    // All of one address; each of another one; with less room than is needed before a proof is asked for.
    let few = Settings { max_pending: 8, ..far.clone() };
    for (settings, of_one) in [(&far, true), (&far, false), (&few, true), (&few, false)] {
        let mut listener = endpoint(settings, 2);
        for (number, connect) in connects.iter().enumerate() {
            let from = if of_one {
                format!("192.0.2.1:{}", 1000 + number)
            } else {
                format!("203.0.113.{number}:99")
            };
            listener.handle_datagram(now, at(&from), &mut connect.clone());
            sent(&mut listener, now);
        }
        let most = if of_one { settings.max_pending_per_address } else { settings.retry_above };
        assert_eq!(listener.pending_handshakes(), most.min(settings.max_pending));
        assert!(listener.counters().retries > 20);
        assert!(comes_in(&near, &mut listener, at("192.0.2.1:4000"), there, now), "{of_one}");
        // Who was let in made no more room than there is.
        assert!(listener.pending_handshakes() <= most.min(settings.max_pending));
    }
}

#[test]
fn who_has_proven_its_address_is_bounded_too() {
    let [near, far] = settings();
    let (there, now) = (at("192.0.2.2:7000"), Time::from_millis(5));
    let mut listener = endpoint(&Settings { max_pending: 40, retry_above: 0, ..far }, 2);
    let mut entered = 0;
    for seed in 100..200u8 {
        let from = at(&format!("192.0.2.{}:{}", 10 + seed % 4, 1000 + u16::from(seed)));
        let mut caller = endpoint(&near, seed);
        caller.connect(now, there).unwrap();
        hand(&mut caller, &mut listener, from, now);
        let retry = hand(&mut listener, &mut caller, there, now);
        assert_eq!((retry.len(), retry[0][0]), (1, 0x83));
        // It comes with its token, and goes away then.
        hand(&mut caller, &mut listener, from, now);
        entered += sent(&mut listener, now).len();
        assert!(listener.pending_handshakes() <= 40);
    }
    assert_eq!((entered, listener.pending_handshakes()), (40, 40));
    assert_eq!(listener.counters().limited, 60);
}
