use super::*;
use bytes::Bytes;
use glassline_io::udp::{Arrivals, Port};
use glassline_test_support::wait::{PATIENCE, until, until_some};
use glassline_transport::link::{
    Bonding, CloseReason, Compression, Credentials, Ecn, Error, Event, Key, LinkStatistics, Options, Outcome,
    Settings,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc;
use std::time::Duration;

fn settings(name: &str) -> Settings {
    let reset_secret = Some(Key([8; 32]).of_listener(name));
    Settings {
        name: name.as_bytes().to_vec(),
        reset_secret,
        ..Settings::new(Credentials::Shared(Key([7; 32])))
    }
}

fn any() -> Local {
    Local::at("127.0.0.1:0".parse().unwrap())
}

fn listener() -> Endpoint {
    Endpoint::listen(settings("ground"), &[any()]).unwrap()
}

fn caller(name: &str) -> Endpoint {
    Endpoint::open(settings(name), &[any()]).unwrap()
}

/// Two ends of one link.
fn pair(to: &Endpoint, from: &Endpoint) -> (Link, Link) {
    let up = from.connect(to.local_addresses()[0]).unwrap();
    assert!(up.wait_connected(PATIENCE).unwrap());
    (up, to.accept_timeout(PATIENCE).unwrap().expect("somebody has connected"))
}

/// The next message, which must come.
fn take(link: &Link, channel: u8) -> Bytes {
    link.receive_timeout(channel, PATIENCE).unwrap().expect("a message")
}

#[test]
fn messages_pass_both_ways() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(3, Options::default()).unwrap();
    down.open(3, Options::default()).unwrap();
    let large = Bytes::from(vec![9; 5 << 20]);
    up.send(3, large.clone()).unwrap();
    up.send(3, Bytes::new()).unwrap();
    assert_eq!(take(&down, 3), large);
    assert_eq!(take(&down, 3), "");
    down.send(3, &b"thanks"[..]).unwrap();
    assert_eq!(take(&up, 3), "thanks");
    assert!(up.flush(PATIENCE).unwrap() && down.flush(PATIENCE).unwrap());
    assert_eq!(down.peer_name().unwrap(), b"air");
    assert_eq!(down.remote_address(), Some(air.local_addresses()[0]));
    let counted = up.channel_statistics(3).unwrap();
    assert_eq!((counted.sent.messages, counted.sent.delivered, counted.received.messages), (2, 2, 1));
    assert!(up.statistics().unwrap().sent_bytes > 5 << 20);
    assert_eq!(ground.counters().connects, 1);
}

#[test]
fn a_full_queue_makes_the_sender_wait_and_loses_nothing() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    // Neither the queue nor the window holds all of them.
    up.open(0, Options { queue: 16, ..Options::default() }).unwrap();
    let sender = std::thread::spawn(move || {
        for number in 0..50_000u32 {
            up.send(0, number.to_be_bytes().to_vec()).unwrap();
        }
        assert!(up.flush(PATIENCE).unwrap());
        up
    });
    let mut expected = 0u32;
    let mut some = Vec::new();
    while expected < 50_000 {
        if expected.is_multiple_of(3) {
            down.receive_all(0, &mut some).unwrap();
        } else {
            some.push(take(&down, 0));
        }
        for message in some.drain(..) {
            assert_eq!(message, expected.to_be_bytes()[..]);
            expected += 1;
        }
    }
    sender.join().unwrap();
}

#[test]
fn a_receiver_that_does_not_take_stops_the_sender() {
    let window = 1 << 20;
    let sized = |name| Settings { window_bytes: window, ..settings(name) };
    let ground = Endpoint::listen(sized("ground"), &[any()]).unwrap();
    let air = Endpoint::open(sized("air"), &[any()]).unwrap();
    let (up, down) = pair(&ground, &air);
    let options = Options { max_size: 100_000, queue_bytes: 1 << 20, ..Options::default() };
    up.open(0, options).unwrap();
    let (mut sent, message) = (0, Bytes::from(vec![1; 50_000]));
    // Until neither the receiver's window nor our own queue takes any more.
    until("a full queue", || match up.try_send(0, message.clone()) {
        Ok(_) => {
            sent += 1;
            false
        }
        Err(error) => {
            assert_eq!(error, Error::QueueFull { channel: 0 });
            sent * 50_000 > window
        }
    });
    assert!(sent * 50_000 <= 3 * window, "{sent} messages are held");
    for _ in 0..sent {
        assert_eq!(take(&down, 0), message);
    }
    assert!(up.flush(PATIENCE).unwrap());
}

#[test]
fn many_at_once() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(1, Options::default()).unwrap();
    let messages: Vec<Bytes> = (0..20_000u32).map(|n| Bytes::from(n.to_be_bytes().to_vec())).collect();
    let sent = messages.clone();
    let sender = std::thread::spawn(move || (up.send_all(1, sent).unwrap(), up));
    let mut got = Vec::new();
    while got.len() < messages.len() {
        down.receive_all(1, &mut got).unwrap();
    }
    assert_eq!(got, messages);
    assert_eq!(sender.join().unwrap().0, 20_000);
}

#[test]
fn what_a_peer_has_packed_is_unpacked_a_few_megabytes_at_a_time() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(0, Options { compression: Compression::Zstd, ..Options::default() }).unwrap();
    let message = Bytes::from(vec![0; 2 << 20]);
    for _ in 0..20 {
        up.send(0, message.clone()).unwrap();
    }
    assert!(up.flush(PATIENCE).unwrap());
    until("all of them", || down.channel_statistics(0).unwrap().received.messages == 20);
    let mut count = 0;
    while count < 20 {
        let mut got = Vec::new();
        let taken = down.receive_all(0, &mut got).unwrap();
        assert!(taken == got.len() && taken <= 2, "{taken} messages of 2 MiB at once");
        assert!(got.iter().all(|taken| *taken == message));
        count += taken;
    }
}

#[test]
fn any_of_several_channels() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    for channel in [2, 9, 63] {
        up.open(channel, Options::default()).unwrap();
        up.send(channel, vec![channel]).unwrap();
    }
    assert!(up.flush(PATIENCE).unwrap());
    let without = Channels::ALL.without(2);
    assert_eq!(down.receive_any(without, PATIENCE).unwrap().unwrap(), (9, vec![9].into()));
    assert_eq!(down.receive_any(without, PATIENCE).unwrap().unwrap(), (63, vec![63].into()));
    assert_eq!(down.receive_any(without, Duration::ZERO).unwrap(), None);
    let two: Channels = [2, 200].into_iter().collect();
    assert_eq!(down.receive_any(two, PATIENCE).unwrap().unwrap(), (2, vec![2].into()));
    assert_eq!(down.receive_timeout(77, Duration::ZERO).unwrap(), None, "there is no such channel");
}

#[test]
fn several_peers_on_one_listener() {
    let ground = listener();
    let names = ["one", "two", "three"];
    let callers: Vec<Endpoint> = names.iter().map(|name| caller(name)).collect();
    let links: Vec<(Link, Link)> = callers.iter().map(|air| pair(&ground, air)).collect();
    for ((up, down), name) in links.iter().zip(names) {
        up.open(0, Options::default()).unwrap();
        down.open(0, Options::default()).unwrap();
        up.send(0, name.as_bytes()).unwrap();
        assert_eq!(down.peer_name().unwrap(), name.as_bytes());
        down.send(0, take(down, 0)).unwrap();
        assert_eq!(take(up, 0), name.as_bytes());
    }
    links[1].0.close("enough");
    let gone = until_some("the end", || links[1].1.close_reason());
    assert_eq!(gone, CloseReason::Peer { code: 0, reason: "enough".into() });
    assert!(links[0].1.is_connected() && links[2].1.is_connected());
}

#[test]
fn what_came_before_the_end_can_be_taken_after_it() {
    let ground = listener();
    let down = {
        let air = caller("air");
        let (up, down) = pair(&ground, &air);
        up.open(5, Options::default()).unwrap();
        for number in 0..100u8 {
            up.send(5, vec![number; 1000]).unwrap();
        }
        assert!(up.flush(PATIENCE).unwrap());
        down
        // The handle goes, and the endpoint with it: the peer is told.
    };
    until("the end", || down.has_ended());
    for number in 0..100u8 {
        assert_eq!(down.receive(5).unwrap(), vec![number; 1000]);
    }
    assert_eq!(down.receive(5), Err(Error::Closed));
    assert_eq!(down.try_send(5, vec![1]), Err(Error::Closed));
    let closed = CloseReason::Peer { code: 0, reason: String::new() };
    assert_eq!(down.events().last(), Some(&Event::Closed { reason: closed }));
    // Its place is free for the same peer.
    let again = caller("air");
    let (_up, next) = pair(&ground, &again);
    assert_ne!(next.id(), down.id());
}

#[test]
fn a_receiver_who_waits_learns_of_the_end() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    let other = down.clone();
    let waiting = std::thread::spawn(move || other.receive(0));
    let events = down.clone();
    let told = std::thread::spawn(move || {
        while let Some(event) = events.wait_event(PATIENCE) {
            if let Event::Closed { reason } = event {
                return Some(reason);
            }
        }
        None
    });
    up.close("done");
    assert_eq!(waiting.join().unwrap(), Err(Error::Closed));
    assert_eq!(told.join().unwrap(), Some(CloseReason::Peer { code: 0, reason: "done".into() }));
    // And those who wait on an endpoint that is dropped.
    let (_up, down) = pair(&ground, &air);
    let waiting = std::thread::spawn(move || down.receive(0));
    drop(ground);
    assert_eq!(waiting.join().unwrap(), Err(Error::Closed));
}

#[test]
fn receipts_tell_how_messages_ended() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(4, Options { receipts: true, ..Options::default() }).unwrap();
    let message = up.send(4, &b"x"[..]).unwrap();
    let finished = until_some("a receipt", || {
        up.events().into_iter().find(|event| matches!(event, Event::Finished { .. }))
    });
    assert_eq!(finished, Event::Finished { channel: 4, message, outcome: Outcome::Delivered });
    assert_eq!(take(&down, 4), "x");
}

#[test]
fn a_stranger_disturbs_nobody_and_learns_nothing() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(0, Options::default()).unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    for size in [0, 1, 12, 40, 1200, 9000] {
        for first in [0u8, 0x40, 0x60, 0x81, 0x82, 0x83, 0x84, 0xff] {
            let garbage = vec![first; size];
            stranger.send_to(&garbage, ground.local_addresses()[0]).unwrap();
            stranger.send_to(&garbage, air.local_addresses()[0]).unwrap();
        }
        up.send(0, vec![1; size]).unwrap();
        assert_eq!(take(&down, 0).len(), size);
    }
    let counted = until_some("all of it", || Some(ground.counters().strangers).filter(|count| *count >= 30));
    assert!(counted <= 48, "{counted}");
    stranger.set_nonblocking(true).unwrap();
    assert!(stranger.recv(&mut [0; 100]).is_err(), "silence");
    // A wrong key meets it too.
    let wrong = Settings {
        connect_timeout: Duration::from_millis(400),
        reconnect: false,
        ..Settings::new(Credentials::Shared(Key([8; 32])))
    };
    let wrong = Endpoint::open(wrong, &[any()]).unwrap();
    let link = wrong.connect(ground.local_addresses()[0]).unwrap();
    assert_eq!(link.wait_connected(PATIENCE), Err(Error::Closed));
    assert_eq!(link.close_reason(), Some(CloseReason::Unreachable));
}

/// So many datagrams of 1,200 bytes by somebody who knows no key: data of links that are not there, or Connects.
fn strangers(connects: bool, count: u32, salt: u32) -> Vec<u8> {
    let mut bytes = vec![0x5A; count as usize * 1200];
    for (number, datagram) in (0u32..).zip(bytes.chunks_mut(1200)) {
        // A Connect but for its gate: an empty token, Noise of 48 bytes.
        let begin: &[u8] = if connects { &[0x81, 1, 0] } else { &[0x40] };
        datagram[..begin.len()].copy_from_slice(begin);
        datagram[begin.len()..][..8].copy_from_slice(&[salt.to_be_bytes(), number.to_be_bytes()].concat());
        if connects {
            datagram[11..14].copy_from_slice(&[0, 0, 48]);
        }
    }
    bytes
}

#[test]
fn a_flood_of_strangers_is_counted_and_a_link_goes_on() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(0, Options::default()).unwrap();
    let stranger = Port::open(&any()).unwrap();
    let to = ground.local_addresses()[0];
    let mut sent = ground.counters().strangers;
    for round in 0..200u32 {
        let bytes = strangers(round % 2 == 0, 44, round);
        let mut rest = &bytes[..];
        while !rest.is_empty() {
            rest = &rest[stranger.send(to, rest, 1200, 0).unwrap().unwrap_or(0)..];
        }
        sent += 44;
        up.send(0, round.to_be_bytes().to_vec()).unwrap();
        assert_eq!(take(&down, 0), round.to_be_bytes()[..]);
        until("all of them", || ground.counters().strangers == sent);
    }
    assert!(!stranger.receive(&mut Arrivals::default()).unwrap(), "silence");
    let counters = ground.counters();
    assert_eq!((counters.connects, counters.resets), (1, 0));
    assert!(ground.accept_timeout(Duration::ZERO).unwrap().is_none());
    assert_eq!(up.statistics().unwrap().sessions, 1, "the link has noticed nothing");
}

#[test]
fn a_link_has_two_paths_and_goes_on_over_either() {
    let ground = listener();
    let both = Settings { bonding: Bonding::Both, ..settings("air") };
    let air = Endpoint::open(both, &[any(), any()]).unwrap();
    let to = ground.local_addresses()[0];
    let up = air.connect(to).unwrap();
    assert_eq!(air.add_path(&up, 2, to, None), Err(Error::Path { what: "no such socket was opened" }));
    air.add_path(&up, 1, to, None).unwrap();
    assert!(air.add_path(&up, 1, to, None).is_err(), "two are all");
    assert_eq!(up.wait_connected(PATIENCE), Ok(true));
    let mut seen = Vec::new();
    until("both paths", || {
        seen.extend(up.events());
        seen.iter().any(|event| matches!(event, Event::PathUp { .. }))
    });
    up.open(0, Options::default()).unwrap();
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("it is one link");
    for number in 0..100u32 {
        up.send(0, number.to_be_bytes().to_vec()).unwrap();
        assert_eq!(take(&down, 0), number.to_be_bytes()[..]);
    }
    assert!(ground.accept_timeout(Duration::ZERO).unwrap().is_none(), "and no other");
}

#[test]
fn a_listener_that_comes_back_is_found_again() {
    let ground = listener();
    let air = caller("air");
    let (up, down) = pair(&ground, &air);
    up.open(0, Options::default()).unwrap();
    up.send(0, &b"before"[..]).unwrap();
    assert_eq!(take(&down, 0), "before");
    let address = ground.local_addresses()[0];
    // It is cut off without a word: its socket goes, and with it all that it knows.
    ground.abandon();
    // The thread first: while it runs, a handle that is dropped would say goodbye.
    drop(ground);
    drop(down);
    let ground = Endpoint::listen(settings("ground"), &[Local::at(address)]).unwrap();
    up.send(0, &b"after"[..]).unwrap();
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("it comes back by itself");
    until("the link", || up.events().contains(&Event::Connected { again: true }) || up.is_connected());
    // What had begun when it was cut off is lost; what is sent now arrives.
    let mut number = 0u32;
    let got = until_some("a message", || {
        number += 1;
        let _ = up.try_send(0, number.to_be_bytes().to_vec());
        down.receive_timeout(0, Duration::from_millis(20)).unwrap()
    });
    assert!(got == "after" || got.len() == 4);
}

#[test]
fn a_caller_that_comes_back_is_the_same_peer() {
    let (ground, air) = (listener(), caller("air"));
    let (up, down) = pair(&ground, &air);
    up.open(0, Options::default()).unwrap();
    up.send(0, &b"before"[..]).unwrap();
    assert_eq!(take(&down, 0), "before");
    air.abandon();
    drop(air);
    drop(up);
    let air = caller("air");
    let up = air.connect(ground.local_addresses()[0]).unwrap();
    up.open(0, Options::default()).unwrap();
    up.send(0, &b"after"[..]).unwrap();
    // The listener's handle goes on, and nobody else has come.
    assert_eq!(take(&down, 0), "after");
    assert!(down.events().contains(&Event::Connected { again: true }));
    assert!(ground.accept_timeout(Duration::ZERO).unwrap().is_none());
}

/// What a network on the way does to the marks of datagrams towards the listener.
type OnTheWay = fn(number: u64, mark: u8) -> u8;

/// Passes datagrams between whoever sends to it first and `to`, until the sender of `stop` goes.
fn relay(to: SocketAddr, change: OnTheWay, stop: mpsc::Receiver<()>) -> SocketAddr {
    let (near, far) = (Port::open(&any()).unwrap(), Port::open(&any()).unwrap());
    let address = near.local_address().unwrap();
    std::thread::spawn(move || {
        let (mut arrivals, mut from, mut number) = (Arrivals::default(), None, 0);
        while stop.try_recv() != Err(mpsc::TryRecvError::Disconnected) {
            let mut idle = !near.receive(&mut arrivals).unwrap_or(false);
            for arrival in arrivals.datagrams() {
                from = Some(arrival.from);
                number += 1;
                let _ = far.send(to, arrival.bytes, 0, change(number, arrival.mark));
            }
            idle &= !far.receive(&mut arrivals).unwrap_or(false);
            for arrival in arrivals.datagrams() {
                if let Some(from) = from {
                    let _ = near.send(from, arrival.bytes, 0, arrival.mark);
                }
            }
            if idle {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    address
}

/// Sends over such a network until `is_so`.
fn marked_until(what: &str, ecn: Ecn, change: OnTheWay, is_so: impl Fn(&LinkStatistics) -> bool) {
    let ground = listener();
    let air = Endpoint::open(Settings { ecn, ..settings("air") }, &[any()]).unwrap();
    let (_running, stop) = mpsc::channel();
    let up = air.connect(relay(ground.local_addresses()[0], change, stop)).unwrap();
    assert!(up.wait_connected(PATIENCE).unwrap());
    let down = ground.accept_timeout(PATIENCE).unwrap().expect("somebody has connected");
    up.open(0, Options::default()).unwrap();
    until(what, || {
        for _ in 0..10 {
            up.send(0, vec![1; 500]).unwrap();
            assert_eq!(take(&down, 0).len(), 500);
        }
        let statistics = up.statistics().unwrap();
        statistics.sent_packets > 200 && is_so(&statistics)
    });
}

#[test]
fn marks_of_congestion_pass_the_sockets_both_ways() {
    marked_until(
        "marks stay",
        Ecn::Ect0,
        |_, mark| mark,
        |statistics| {
            assert_eq!((statistics.mark, statistics.congested_packets), (Ecn::Ect0, 0));
            true
        },
    );
    // A router whose queue grows.
    let router: OnTheWay = |number, mark| if mark != 0 && number % 8 == 0 { 3 } else { mark };
    for ecn in [Ecn::Ect0, Ecn::Ect1] {
        marked_until("the peer tells of it", ecn, router, |statistics| {
            statistics.mark == ecn && statistics.congested_packets > 5
        });
    }
    // One that wipes them out.
    marked_until("marks are given up", Ecn::Ect0, |_, _| 0, |statistics| statistics.mark == Ecn::NotCapable);
}

#[test]
fn sockets_that_cannot_be_are_told() {
    assert!(Endpoint::listen(settings(""), &[]).is_err());
    let ground = listener();
    let taken = Endpoint::listen(settings(""), &[Local::at(ground.local_addresses()[0])]);
    assert_eq!(taken.unwrap_err().kind(), std::io::ErrorKind::AddrInUse);
}
