//! A peer that holds the keys and keeps no rule: what it makes us hold is what it sent, within budgets, and honest peers
//! lose nothing by them.

use crate::link_support::{World, settings};
use glassline_media::Time;
use glassline_transport::emulator::{End, LinkConfig, Network};
use glassline_transport::link::fuzzing::Linked;
use glassline_transport::link::wire::frame::{Data, Frame, Parity};
use glassline_transport::link::{
    CloseReason, Credentials, Endpoint, Event, Key, LinkId, Options, Path, Settings,
};
use std::time::Duration;

/// Bytes of frames in a datagram.
const PACKET: usize = 1150;

fn path(last: u8) -> Path {
    Path { remote: ([192, 0, 2, last], 7000).into(), via: 0 }
}

/// A link whose peer is us, without handshake and keys.
struct Victim {
    linked: Linked,
    packet: Vec<u8>,
    packets: usize,
    bytes: usize,
}

impl Victim {
    fn new(settings: Settings) -> Victim {
        let linked = Linked::new(settings, Time::ZERO, path(1));
        Victim { linked, packet: Vec::new(), packets: 0, bytes: 0 }
    }

    /// Sends a frame with others in one packet; `false` if the link has ended with those before.
    fn send(&mut self, frame: Frame<'_>) -> bool {
        let mut bytes = Vec::new();
        frame.write(&mut bytes);
        let goes_on = self.packet.len() + bytes.len() <= PACKET || self.flush();
        self.packet.append(&mut bytes);
        goes_on
    }

    fn flush(&mut self) -> bool {
        (self.packets, self.bytes) = (self.packets + 1, self.bytes + self.packet.len());
        let goes_on = self.linked.link().handle_unsealed(Time::from_millis(1), path(1), &self.packet);
        self.packet.clear();
        goes_on
    }

    fn open(&mut self, channel: u8, options: Options) {
        assert!(self.send(Frame::Open { channel, options: options.on_the_wire() }));
    }

    fn held(&self) -> u64 {
        self.linked.held_bytes()
    }
}

fn part(channel: u8, message: u64, total: u32, offset: u32, bytes: &[u8]) -> Frame<'_> {
    Frame::Data(Data { channel, message, total, offset, bytes })
}

#[test]
fn packets_that_announce_large_messages_take_no_memory() {
    for reliable in [true, false] {
        let mut victim = Victim::new(Settings::new(Credentials::Insecure));
        for channel in 0..64 {
            victim.open(channel, Options { reliable, ..Options::default() });
        }
        let mut message = 0;
        while victim.packets < 25 {
            let channel = (message % 64) as u8;
            assert!(victim.send(part(channel, message / 64, 16 << 20, (16 << 20) - 1, b"x")));
            message += 1;
        }
        assert!(message > 1000, "{message}");
        assert!(victim.held() < 1000 * message, "{} for {message} messages", victim.held());
    }
}

#[test]
fn all_channels_of_a_link_share_a_budget() {
    let settings =
        Settings { window_bytes: 1 << 20, link_bytes: 6 << 20, ..Settings::new(Credentials::Insecure) };
    let limited = Options { max_size: 100_000, ..Options::default() };
    // Unreliable messages that nobody takes: the oldest go, and the link goes on.
    let mut victim = Victim::new(settings.clone());
    for channel in 0..64 {
        victim.open(channel, Options { reliable: false, ..limited });
    }
    let bytes = [5; 1000];
    for message in 0..64 * 400 {
        assert!(victim.send(part((message % 64) as u8, message / 64, 1000, 0, &bytes)));
        assert!(victim.held() <= 6 << 20, "{}", victim.held());
    }
    assert!(victim.bytes > 20 << 20 && victim.held() > 5 << 20, "{} {}", victim.bytes, victim.held());
    // The same of reliable ones, or parts of them, is against the rules.
    for total in [1000, 100_000] {
        let mut victim = Victim::new(settings.clone());
        (0..64).for_each(|channel| victim.open(channel, limited));
        let goes_on = (0..64 * 400).all(|message| {
            assert!(victim.held() <= (6 << 20) + 2 * PACKET as u64, "{}", victim.held());
            victim.send(part((message % 64) as u8, message / 64, total, 0, &bytes))
        });
        assert!(!goes_on && victim.bytes > 2 << 20 && victim.bytes < 8 << 20, "{}", victim.bytes);
        let closed = std::iter::from_fn(|| victim.linked.link().poll_event()).last();
        let reason = CloseReason::Violation("more data on all channels than there is room for");
        assert_eq!(closed, Some(Event::Closed { reason }));
        // What will never be whole is not kept.
        assert!(total == 1000 || victim.held() == 0, "{}", victim.held());
    }
}

#[test]
fn parity_is_counted_as_it_comes() {
    let settings =
        Settings { window_bytes: 1 << 20, link_bytes: 4 << 20, ..Settings::new(Credentials::Insecure) };
    let mut victim = Victim::new(settings);
    for channel in 0..64 {
        victim.open(channel, Options { reliable: false, max_size: 100_000, ..Options::default() });
    }
    let bytes = [5; 1000];
    for step in 0..64 * 300u64 {
        let (channel, message, index) = ((step % 64) as u8, step / 64 / 40, (step / 64 % 40) as u32);
        let parity =
            Parity { channel, message, packed: false, total: 90_000, count: 40, index, bytes: &bytes };
        assert!(victim.send(Frame::Parity(parity)));
        assert!(victim.held() <= 4 << 20, "{}", victim.held());
    }
    assert!(victim.bytes > 15 << 20);
}

/// A listener whose application takes nothing, and those who connect to it.
struct Hall {
    listener: Endpoint,
    others: Vec<(Endpoint, LinkId)>,
    now: Time,
    /// What became of links, at the listener and at the others.
    closed: Vec<CloseReason>,
    told: Vec<(usize, CloseReason)>,
}

impl Hall {
    fn new(settings: Settings, count: u8) -> Hall {
        let key = Credentials::Shared(Key([7; 32]));
        let listener =
            Endpoint::new(Settings { listen: true, credentials: key.clone(), ..settings }, [1; 32]);
        let others = (0..count).map(|number| {
            let named = Settings { name: vec![number], reconnect: false, ..Settings::new(key.clone()) };
            let mut endpoint = Endpoint::new(named, [2 + number; 32]);
            let id = endpoint.connect(Time::ZERO, path(1)).unwrap();
            let options = Options { max_size: 10_000, ..Options::default() };
            endpoint.link_mut(id).unwrap().open(0, options).unwrap();
            (endpoint, id)
        });
        let others = others.collect();
        Hall { listener, others, now: Time::ZERO, closed: Vec::new(), told: Vec::new() }
    }

    /// Hands over what all have to send; then a millisecond passes.
    fn turn(&mut self) {
        let (now, mut buffer) = (self.now, Vec::new());
        for (number, (endpoint, _)) in self.others.iter_mut().enumerate() {
            while let Some(transmit) = endpoint.poll_transmit(now, &mut buffer) {
                let from = path(10 + number as u8);
                buffer
                    .chunks_mut(transmit.segment_bytes)
                    .for_each(|bytes| self.listener.handle_datagram(now, from, bytes));
            }
        }
        while let Some(transmit) = self.listener.poll_transmit(now, &mut buffer) {
            let std::net::IpAddr::V4(to) = transmit.path.remote.ip() else { continue };
            let endpoint = &mut self.others[usize::from(to.octets()[3] - 10)].0;
            buffer
                .chunks_mut(transmit.segment_bytes)
                .for_each(|bytes| endpoint.handle_datagram(now, path(1), bytes));
        }
        while let Some((_, event)) = self.listener.poll_event() {
            if let Event::Closed { reason } = event {
                self.closed.push(reason);
            }
        }
        self.now += Duration::from_millis(1);
        self.listener.handle_timeout(self.now);
        for (number, (endpoint, _)) in self.others.iter_mut().enumerate() {
            endpoint.handle_timeout(self.now);
            while let Some((_, event)) = endpoint.poll_event() {
                if let Event::Closed { reason } = event {
                    self.told.push((number, reason));
                }
            }
        }
    }

    fn send(&mut self, number: usize, bytes: usize) {
        let (endpoint, id) = &mut self.others[number];
        let Some(link) = endpoint.link_mut(*id) else { return };
        while link.has_room(0, bytes) && link.send(self.now, 0, vec![0; bytes]).is_ok() {}
    }
}

#[test]
fn the_link_that_holds_most_gives_way_where_an_endpoint_has_no_room() {
    let settings =
        Settings { window_bytes: 1 << 20, endpoint_bytes: 2_500_000, ..Settings::new(Credentials::Insecure) };
    let mut hall = Hall::new(settings, 4);
    (0..100).for_each(|_| hall.turn());
    assert_eq!(hall.listener.links().count(), 4);
    // Three fill their windows, whose sum is too much; the fourth sends little.
    let now = hall.now;
    let (endpoint, id) = &mut hall.others[3];
    endpoint.link_mut(*id).unwrap().send(now, 0, &b"little"[..]).unwrap();
    for _ in 0..3000 {
        (0..3).for_each(|number| hall.send(number, 9000));
        hall.turn();
        assert!(hall.listener.held_bytes() <= 2_500_000, "{}", hall.listener.held_bytes());
    }
    assert_eq!(hall.closed, [CloseReason::NoRoom]);
    assert_eq!(hall.listener.links().count(), 3, "the place is free again");
    let reason = CloseReason::Peer { code: 2, reason: "no room for what was sent".into() };
    assert!(hall.told.len() == 1 && hall.told[0].0 < 3 && hall.told[0].1 == reason, "{:?}", hall.told);
    // The others' messages are there: all of the one that sent little, a window of each that is left.
    let ids: Vec<LinkId> = hall.listener.links().map(|link| link.0).collect();
    let mut sizes = ids.into_iter().map(|id| {
        let link = hall.listener.link_mut(id).unwrap();
        std::iter::from_fn(|| link.receive(0)).map(|message| message.len()).sum::<usize>()
    });
    let (least, most) =
        sizes.by_ref().fold((usize::MAX, 0), |(least, most), size| (least.min(size), most.max(size)));
    assert!(least == 6 && most > 900_000, "{least} {most}");
    assert_eq!(hall.listener.held_bytes(), 0);
}

#[test]
fn a_fault_ends_the_link_that_was_at_work_and_no_other() {
    let mut hall = Hall::new(Settings::new(Credentials::Insecure), 3);
    (0..100).for_each(|_| hall.turn());
    let ids: Vec<LinkId> = hall.listener.links().map(|link| link.0).collect();
    assert_eq!(ids.len(), 3);
    // Whatever was called of this link last has panicked.
    hall.listener.link_mut(ids[1]).unwrap();
    hall.listener.recover();
    assert!(hall.listener.link(ids[1]).is_none());
    hall.turn();
    assert_eq!(hall.closed, [CloseReason::Fault]);
    (0..3).for_each(|number| hall.send(number, 100));
    (0..100).for_each(|_| hall.turn());
    for id in [ids[0], ids[2]] {
        let link = hall.listener.link_mut(id).unwrap();
        assert!(link.receive(0).is_some(), "the others go on");
    }
    // What a stranger has caused ends no link.
    hall.listener.handle_datagram(hall.now, path(99), &mut [0; 40]);
    hall.listener.recover();
    assert_eq!(hall.listener.links().count(), 2);
}

#[test]
fn a_fault_in_a_handshake_ends_no_link_and_the_stranger_comes_in_all_the_same() {
    let mut hall = Hall::new(Settings::new(Credentials::Insecure), 2);
    (0..100).for_each(|_| hall.turn());
    let settings = Settings { name: vec![77], ..Settings::new(Credentials::Shared(Key([7; 32]))) };
    let mut stranger = Endpoint::new(settings, [77; 32]);
    let (mut now, mut buffer) = (hall.now, Vec::new());
    stranger.connect(now, path(1)).unwrap();
    let mut faults = 0;
    for _ in 0..2_000 {
        while let Some(transmit) = stranger.poll_transmit(now, &mut buffer) {
            for datagram in buffer.chunks_mut(transmit.segment_bytes) {
                hall.listener.handle_datagram(now, path(77), datagram);
                // As if the answer to its first Connect had panicked, with the handshake half-written.
                if faults == 0 && hall.listener.pending_handshakes() > 0 {
                    hall.listener.recover();
                    faults += 1;
                    assert_eq!(hall.listener.pending_handshakes(), 0);
                }
            }
        }
        while let Some(transmit) = hall.listener.poll_transmit(now, &mut buffer) {
            let to_stranger = transmit.path == path(77);
            buffer.chunks_mut(transmit.segment_bytes).filter(|_| to_stranger).for_each(|datagram| {
                stranger.handle_datagram(now, path(1), datagram);
            });
        }
        stranger.handle_timeout(now);
        if hall.listener.links().count() == 3 {
            break;
        }
        now += Duration::from_millis(10);
    }
    assert_eq!((faults, hall.listener.links().count()), (1, 3), "two that were there, and the stranger");
}

fn network(seed: u64) -> Network {
    let config = LinkConfig::rate(50_000_000).with_delay(Duration::from_millis(10));
    Network::symmetric(config, seed).unwrap()
}

#[test]
fn channels_that_nobody_takes_from_hold_up_no_other() {
    let small = |settings| Settings { window_bytes: 256 << 10, ..settings };
    let mut world = World::new(network(1), settings().map(small), 1);
    world.connect();
    let link = world.link(End::Near).unwrap();
    for channel in 0..8 {
        let options = Options { max_size: 20_000, queue_bytes: 1 << 20, ..Options::default() };
        link.open(channel, options).unwrap();
    }
    link.open(9, Options { max_size: 1000, ..Options::default() }).unwrap();
    world.run_until_up();
    let mut got = 0;
    for step in 0..300u32 {
        for channel in 0..8 {
            let now = world.now();
            let link = world.link(End::Near).unwrap();
            while link.has_room(channel, 10_000) && link.send(now, channel, vec![0; 10_000]).is_ok() {}
        }
        world.send(End::Near, 9, step.to_be_bytes().to_vec());
        world.run(Duration::from_millis(20));
        got += world.take(End::Far, 9).len();
    }
    world.run(Duration::from_millis(100));
    got += world.take(End::Far, 9).len();
    assert_eq!(got, 300);
    // They share two windows.
    let held = world.link(End::Far).unwrap().held_bytes().1;
    assert!((400 << 10..=(2 * 256) << 10).contains(&held), "{held}");
    assert!(!world.lost && !world.cut_off);
}

/// What is consumed is told soon enough by each of many channels that none waits for ever.
#[test]
fn as_many_channels_as_there_are_make_progress_in_small_windows() {
    let small = |settings| Settings { window_bytes: 100_000, ..settings };
    let mut world = World::new(network(2), settings().map(small), 2);
    world.connect();
    let link = world.link(End::Near).unwrap();
    for channel in 0..64 {
        let max_size = if channel == 0 { 60_000 } else { 30_000 };
        link.open(channel, Options { max_size, ..Options::default() }).unwrap();
    }
    world.run_until_up();
    for channel in 0..64 {
        for number in 0..20u32 {
            world.send(End::Near, channel, vec![channel; 100 + (number as usize * 7919) % 29_000]);
        }
    }
    let mut got = [0; 64];
    let until = world.now() + Duration::from_secs(60);
    world.run_until(until, |world| {
        for channel in 0..64u8 {
            got[usize::from(channel)] += world.take(End::Far, channel).len();
        }
        got == [20; 64]
    });
    assert_eq!(got, [20; 64]);
}
