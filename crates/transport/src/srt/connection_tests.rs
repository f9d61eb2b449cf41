//! Both ends over a line in virtual time.

use super::super::{Caller, CallerError, Handled, Listener, Passphrase, Rejection, Settings};
use super::*;
use proptest::prelude::*;
use std::net::SocketAddr;

const CALLER: &str = "192.0.2.1:4000";
const RIVAL: &str = "192.0.2.1:4001";
const LISTENER: &str = "192.0.2.2:8890";

/// A line with a delay each way and losses that are drawn from a seed.
struct Line {
    delay: Duration,
    /// Of each thousand packets so many are lost, and each loss takes so many.
    loss: u64,
    burst: u64,
    state: u64,
    in_burst: [u64; 2],
    /// Arrival, whether it goes up, the datagram.
    under_way: Vec<(Time, bool, Vec<u8>)>,
}

impl Line {
    fn new(delay_ms: u64, loss: u64, burst: u64, seed: u64) -> Line {
        let delay = Duration::from_millis(delay_ms);
        Line { delay, loss, burst, state: seed | 1, in_burst: [0; 2], under_way: Vec::new() }
    }

    fn draw(&mut self, below: u64) -> u64 {
        // xorshift64: the same sequence each time.
        self.state ^= self.state << 13;
        self.state ^= self.state >> 7;
        self.state ^= self.state << 17;
        self.state % below
    }

    fn send(&mut self, now: Time, up: bool, datagram: &[u8]) {
        let way = usize::from(up);
        if self.in_burst[way] == 0 && self.loss > 0 && self.draw(1000) < self.loss {
            self.in_burst[way] = self.burst;
        }
        if self.in_burst[way] > 0 {
            self.in_burst[way] -= 1;
            return;
        }
        self.under_way.push((now + self.delay, up, datagram.to_vec()));
    }
}

/// Both ends: the caller sends to the listener.
struct World {
    now: Time,
    line: Line,
    caller: Caller,
    listener: Listener,
    socket: Option<u32>,
    rejects: Option<Rejection>,
    delivered: Vec<(Time, Vec<u8>)>,
    out: Vec<u8>,
}

impl World {
    fn new(line: Line, of_caller: Settings, of_listener: Settings) -> World {
        let now = Time::from_millis(5000);
        World {
            now,
            line,
            caller: Caller::new(of_caller, "publish:stage", LISTENER.parse().unwrap(), [3; 32], now),
            listener: Listener::new(of_listener, 4, [4; 32], Time::from_millis(1)),
            socket: None,
            rejects: None,
            delivered: Vec::new(),
            out: Vec::new(),
        }
    }

    fn from() -> SocketAddr {
        CALLER.parse().unwrap()
    }

    fn handle(&mut self, up: bool, datagram: &[u8]) {
        if !up {
            return self.caller.handle_datagram(self.now, datagram);
        }
        if let Handled::Request(request) = self.listener.handle_datagram(self.now, Self::from(), datagram) {
            assert_eq!(request.stream_id, b"publish:stage");
            match self.rejects {
                Some(why) => self.listener.reject(self.now, &request, why),
                None => self.socket = self.listener.accept(self.now, *request).ok().or(self.socket),
            }
        }
    }

    fn transmit(&mut self) {
        let (now, mut out) = (self.now, std::mem::take(&mut self.out));
        self.caller.handle_timeout(now);
        while let Some(transmit) = self.caller.poll_transmit(now, &mut out) {
            out.chunks(transmit.segment_bytes).for_each(|datagram| self.line.send(now, true, datagram));
        }
        while let Some((_, datagram)) = self.listener.poll_answer() {
            self.line.send(now, false, &datagram);
        }
        for (_, _, connection) in self.listener.connections() {
            connection.handle_timeout(now);
            connection.deliver(now, |payload, _| self.delivered.push((now, payload.to_vec())));
            while let Some(transmit) = connection.poll_transmit(now, &mut out) {
                out.chunks(transmit.segment_bytes).for_each(|datagram| self.line.send(now, false, datagram));
            }
        }
        self.out = out;
    }

    /// Lets time pass, in steps of half a millisecond.
    fn run(&mut self, until: Time) {
        while self.now < until {
            self.now += Duration::from_micros(500);
            let mut arrived = Vec::new();
            let now = self.now;
            self.line.under_way.retain_mut(|(at, up, datagram)| {
                let is_there = *at <= now;
                if is_there {
                    arrived.push((*at, *up, std::mem::take(datagram)));
                }
                !is_there
            });
            arrived.sort_by_key(|(at, ..)| *at);
            arrived.into_iter().for_each(|(_, up, datagram)| self.handle(up, &datagram));
            self.transmit();
        }
    }

    fn connect(&mut self) {
        let until = self.now + Duration::from_secs(3);
        while self.now < until && self.caller.connection().is_none() && self.caller.error().is_none() {
            self.run(self.now + Duration::from_millis(1));
        }
    }

    /// Sends so many packets in bunches of a picture, 25 a second, and waits for the last one. Returns those that are missing.
    fn stream(&mut self, packets: u32) -> u32 {
        let mut number = 0u32;
        while number < packets {
            for _ in 0..8.min(packets - number) {
                let mut payload = number.to_be_bytes().to_vec();
                payload.extend_from_slice(&self.now.as_nanos().to_be_bytes());
                payload.resize(1316, 0x47);
                let now = self.now;
                let connection = self.caller.connection().expect("it is connected");
                assert!(connection.send(now, &payload));
                number += 1;
            }
            self.run(self.now + Duration::from_millis(40));
        }
        self.run(self.now + Duration::from_secs(2));
        packets - self.delivered.len() as u32
    }

    fn statistics(&mut self) -> Statistics {
        let (now, socket) = (self.now, self.socket.expect("it is connected"));
        self.listener.connection(socket).expect("it is there").1.statistics(now)
    }
}

fn settings(latency_ms: u64) -> Settings {
    let latency = Some(Duration::from_millis(latency_ms));
    Settings { latency, peer_latency: latency, ..Settings::default() }
}

fn with_passphrase(text: &str) -> Settings {
    Settings { passphrase: Some(Passphrase::new(text).unwrap()), ..settings(120) }
}

#[test]
fn what_is_sent_arrives_in_order_after_the_handshakes_delay_and_the_latency() {
    let mut world = World::new(Line::new(20, 0, 1, 1), settings(120), settings(60));
    world.connect();
    assert_eq!(world.stream(400), 0);
    for (index, (at, payload)) in world.delivered.iter().enumerate() {
        assert_eq!(payload[..4], (index as u32).to_be_bytes());
        let sent = Time::from_nanos(u64::from_be_bytes(payload[4..12].try_into().unwrap()));
        let delay = at.since(sent).as_micros();
        assert!((139_000..142_000).contains(&delay), "the delay is {delay} µs");
    }
    let figures = world.statistics();
    assert_eq!((figures.latency, figures.lost), (Duration::from_millis(120), 0));
    assert!((39_000..43_000).contains(&figures.rtt.as_micros()), "{figures:?}");
}

/// A stream of 2 Mbit/s of which 2 % is lost. GLASSLINE_SRT_PACKETS: how many packets, for the figures of longer runs.
#[test]
fn losses_are_made_good_within_the_latency() {
    let packets =
        std::env::var("GLASSLINE_SRT_PACKETS").ok().and_then(|count| count.parse().ok()).unwrap_or(8000);
    for (latency, loss, burst, missing_max) in
        [(120, 20, 1, packets / 8000), (200, 20, 1, 0), (200, 2, 10, 0)]
    {
        let mut world = World::new(Line::new(20, loss, burst, 77), settings(latency), settings(latency));
        world.connect();
        let missing = world.stream(packets);
        let figures = world.statistics();
        println!("{latency} ms, bursts of {burst}: {missing} of {packets} are missing; {figures:?}");
        assert!(figures.lost > 50, "{figures:?}");
        assert!(missing <= missing_max, "{latency} ms: {missing} of {packets} are missing; {figures:?}");
        assert!(world.delivered.is_sorted_by_key(|(_, payload)| payload[..4].to_vec()));
    }
}

#[test]
fn a_lost_handshake_is_said_again() {
    for seed in 1..20 {
        let mut world = World::new(Line::new(20, 300, 1, seed * 7919), settings(120), settings(120));
        world.connect();
        assert!(world.caller.connection().is_some(), "seed {seed}: {:?}", world.caller.error());
        assert_eq!(world.listener.peers(), 1, "a handshake that comes again is the same connection");
    }
}

#[test]
fn payloads_are_encrypted_where_both_ends_have_the_passphrase() {
    let secret = || with_passphrase("correct horse");
    let mut world = World::new(Line::new(20, 20, 1, 5), secret(), secret());
    world.connect();
    let mut payload = vec![0x47; 1316];
    payload[..4].copy_from_slice(b"seen");
    let now = world.now;
    assert!(world.caller.connection().unwrap().send(now, &payload));
    world.transmit();
    assert!(
        world
            .line
            .under_way
            .iter()
            .all(|(_, _, datagram)| !datagram.windows(4).any(|bytes| bytes == b"seen"))
    );
    world.run(world.now + Duration::from_secs(1));
    assert_eq!(world.delivered.pop().map(|(_, payload)| payload), Some(payload));
    assert!(world.statistics().is_encrypted);
}

#[test]
fn a_refusal_tells_its_reason() {
    let refused = |of_caller: Settings, of_listener: Settings, rejects| {
        let mut world = World::new(Line::new(20, 0, 1, 5), of_caller, of_listener);
        world.rejects = rejects;
        world.connect();
        assert_eq!(world.listener.peers(), 0);
        world.caller.error()
    };
    let (secret, other) = (|| with_passphrase("correct horse"), || with_passphrase("battery staple"));
    let rejected = |why| Some(CallerError::Rejected(why));
    assert_eq!(refused(secret(), other(), None), rejected(Rejection::BAD_SECRET));
    assert_eq!(refused(settings(120), secret(), None), rejected(Rejection::UNSECURE));
    assert_eq!(refused(secret(), settings(120), None), rejected(Rejection::UNSECURE));
    let conflict = Some(Rejection::CONFLICT);
    assert_eq!(refused(settings(120), settings(120), conflict), rejected(Rejection::CONFLICT));
}

#[test]
fn a_key_is_renewed_without_a_break() {
    let secret = || with_passphrase("correct horse");
    let mut world = World::new(Line::new(20, 20, 1, 5), secret(), secret());
    world.connect();
    // As if nearly all packets of the first key had left.
    let connection = world.caller.connection().unwrap();
    connection.renewal.since = 0u64.wrapping_sub(KEY_PACKETS - KEY_ANNOUNCED - 40);
    connection.sender.counts.sent = 0;
    assert_eq!(world.stream_wrapping(4400), 0);
    let connection = world.caller.connection().unwrap();
    assert_eq!(connection.keys.as_ref().map(Keys::current), Some(2));
    assert_eq!(connection.renewal.told_again, None, "the peer has answered");
}

impl World {
    /// [`World::stream`] with a count of packets that is far on already.
    fn stream_wrapping(&mut self, packets: u32) -> u32 {
        let connection = self.caller.connection().unwrap();
        connection.sender.counts.sent = KEY_PACKETS - KEY_ANNOUNCED - 40;
        connection.renewal.since = 0;
        self.stream(packets)
    }
}

#[test]
fn an_end_that_goes_or_falls_silent_is_told() {
    let mut world = World::new(Line::new(20, 0, 1, 5), settings(120), settings(120));
    world.connect();
    let socket = world.socket.unwrap();
    world.run(world.now + Duration::from_secs(8));
    let ended = |world: &mut World| world.listener.connection(socket).unwrap().1.ended();
    assert_eq!(ended(&mut world), None, "packets that keep it alive go");
    let now = world.now;
    world.caller.connection().unwrap().close(now);
    world.run(world.now + Duration::from_millis(30));
    assert_eq!(ended(&mut world), Some(Ended::ByPeer));

    let mut world = World::new(Line::new(20, 0, 1, 5), settings(120), settings(120));
    world.connect();
    let socket = world.socket.unwrap();
    world.line.loss = 1000;
    world.run(world.now + Duration::from_secs(6));
    assert_eq!(world.listener.connection(socket).unwrap().1.ended(), Some(Ended::Silent));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Datagrams of a peer that have been changed on the way, and others of no meaning.
    #[test]
    fn any_datagrams_are_taken_in_bounds(
        datagrams in proptest::collection::vec((0u8..12, proptest::collection::vec(any::<u8>(), 0..80)), 1..120),
    ) {
        let mut world = World::new(Line::new(1, 0, 1, 5), with_passphrase("correct horse"), with_passphrase("correct horse"));
        world.connect();
        let socket = world.socket.unwrap();
        for (kind, body) in datagrams {
            let first = if kind >= 8 { u32::from(kind) << 20 } else { 1 << 31 | u32::from(kind) << 16 };
            let mut datagram = first.to_be_bytes().to_vec();
            datagram.extend_from_slice(&[0xe8, 0, 0, kind, 0, 0, 1, 0]);
            datagram.extend_from_slice(&socket.to_be_bytes());
            datagram.extend_from_slice(&body);
            let now = world.now;
            world.listener.handle_datagram(now, World::from(), &datagram);
            world.run(world.now + Duration::from_millis(1));
            if let Some((_, connection)) = world.listener.connection(socket) {
                prop_assert!(connection.controls.len() <= CONTROLS_MAX && connection.acks.kept.len() <= ACKS_KEPT);
            }
        }
    }
}

/// A listener of another process with the same secret: the peer hears of the end as soon as it sends.
#[test]
fn a_listener_that_begins_anew_ends_the_connections_of_the_one_before() {
    for (secret, is_ended) in
        [(Some(b"one boot".as_slice()), true), (Some(b"another".as_slice()), false), (None, false)]
    {
        let mut world = World::new(Line::new(10, 0, 0, 1), Settings::default(), Settings::default());
        world.listener.set_socket_secret(b"one boot");
        world.connect();
        assert_eq!(world.stream(100), 0);
        let peer = world.caller.connection().unwrap().peer;
        world.listener = Listener::new(Settings::default(), 4, [5; 32], world.now);
        secret.into_iter().for_each(|secret| world.listener.set_socket_secret(secret));
        let began = world.now;
        // It has nothing to send but that it is there.
        while world.now.since(began) < Duration::from_millis(1500)
            && world.caller.connection().unwrap().ended().is_none()
        {
            world.run(world.now + Duration::from_millis(1));
        }
        let ended = world.caller.connection().unwrap().ended();
        assert_eq!(ended, is_ended.then_some(Ended::ByPeer), "{secret:?} of {peer}");
        assert!(!is_ended || world.now.since(began) <= KEEP_ALIVE + Duration::from_millis(50));
        assert_eq!(world.listener.peers(), 0);
    }
}

#[test]
fn a_peer_that_is_asked_answers_and_one_that_is_gone_does_not() {
    for loss in [0, 200] {
        let mut world = World::new(Line::new(30, loss, 1, 9), Settings::default(), Settings::default());
        world.connect();
        world.stream(100);
        let socket = world.socket.unwrap();
        let contest = |world: &mut World| {
            let now = world.now;
            world.listener.connection(socket).unwrap().1.contest(RIVAL.parse().unwrap(), now)
        };
        // It sends nothing but that it is there, each second.
        world.run(world.now + Duration::from_millis(2400));
        assert_eq!(contest(&mut world), Life::Asked);
        let mut life = Life::Asked;
        for _ in 0..8 {
            world.run(world.now + Duration::from_millis(250));
            life = contest(&mut world);
            if life != Life::Asked {
                break;
            }
        }
        assert_eq!(life, Life::There, "of a line that loses {loss} in a thousand");
        // Its program was killed, while packets of it were under way, which say nothing of what came after them.
        world.caller.connection().unwrap().send(world.now, b"late");
        world.run(world.now + Duration::from_micros(500));
        let killed = world.now;
        world.caller = Caller::new(
            Settings::default(),
            "publish:other",
            LISTENER.parse().unwrap(),
            [8; 32],
            Time::NEVER,
        );
        assert!(loss > 0 || !world.line.under_way.is_empty());
        let mut life = contest(&mut world);
        while life == Life::Asked {
            world.run(world.now + Duration::from_millis(250));
            life = contest(&mut world);
        }
        let took = world.now.since(killed);
        assert!(
            life == Life::Gone && took >= Duration::from_millis(900) && took <= Duration::from_millis(1500),
            "{took:?}"
        );
    }
}

#[test]
fn a_peer_that_has_ended_its_connection_has_no_place_to_keep() {
    let mut world = World::new(Line::new(1, 0, 0, 1), Settings::default(), Settings::default());
    world.connect();
    let now = world.now;
    world.caller.connection().unwrap().close(now);
    world.run(now + Duration::from_millis(5));
    let socket = world.socket.unwrap();
    let contested = world.listener.connection(socket).unwrap().1.contest(RIVAL.parse().unwrap(), now);
    assert_eq!(contested, Life::Gone);
}
