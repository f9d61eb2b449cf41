//! Streams that come in RTP: packets that the network shuffled, doubled and lost.

use crate::hot::upgrade;
use crate::pull::{HASTE, SHAPE, free_port, see, source, until_live, watch};
use crate::serve_with;
use glassline_test_support::numbered::Check;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use std::io::Read;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};

/// A sender, made without any code of the product.
struct Sender {
    socket: UdpSocket,
    to: SocketAddr,
    ssrc: u8,
}

impl Sender {
    fn new(to: SocketAddr, ssrc: u8) -> Sender {
        Sender { socket: UdpSocket::bind("127.0.0.1:0").unwrap(), to, ssrc }
    }

    /// At another address of this machine.
    fn elsewhere(to: SocketAddr, ssrc: u8) -> Sender {
        Sender { socket: UdpSocket::bind("127.0.0.2:0").unwrap(), to, ssrc }
    }

    /// Sends a picture, whose number is its packet's too.
    fn send(&self, number: u64) {
        let mut packet = vec![0x80, 33, (number >> 8) as u8, number as u8, 1, 2, 3, 4, 0, 0, 0, self.ssrc];
        packet.extend(SHAPE.picture(number));
        self.socket.send_to(&packet, self.to).unwrap();
    }

    /// Sends pictures in order, from `number` on, until the source is live. Returns the next one's number.
    fn begin(&self, server: &Server, number: u64) -> u64 {
        let mut number = number;
        until("the source to be live", || {
            self.send(number);
            number += 1;
            source(server, "rtp")["state"] == "live"
        });
        number
    }
}

fn pulling(options: &str) -> (Server, Scratch, SocketAddr) {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (server, scratch) = serve_with(&format!("{HASTE}{options}\n[stream.rtp]\nsource = 'rtp://{to}'\n"));
    until("the socket to be open", || source(&server, "rtp")["datagrams"] == 0);
    (server, scratch, to)
}

fn rtp(server: &Server, field: &str) -> u64 {
    source(server, "rtp")["rtp"][field].as_u64().unwrap()
}

#[test]
fn shuffled_and_doubled_packets_make_a_whole_stream() {
    let (server, _scratch, to) = pulling("reorder = '1s'");
    // Over the wrap of the sequence numbers.
    let sender = Sender::new(to, 7);
    let mut next = sender.begin(&server, 65_400);
    let (mut viewer, mut check) = (watch(&server, "rtp"), Check::new(SHAPE));
    see(&mut viewer, &mut check, 5);
    let seen = check.packets;
    let groups = 60;
    for _ in 0..groups {
        for step in [2, 0, 1, 1, 4, 3, 0] {
            sender.send(next + step);
        }
        next += 5;
        see(&mut viewer, &mut check, seen + 5);
    }
    until("the last picture", || {
        server.count("rtp", "continuity_errors") == 0 && rtp(&server, "reordered") >= groups * 3
    });
    assert!(next > 65_600, "no wrap");
    see(&mut viewer, &mut check, seen + groups * 25 - 25);
    assert_eq!(check.moves, 0);
    assert_eq!((rtp(&server, "lost"), rtp(&server, "late"), rtp(&server, "restarts")), (0, 0, 0));
    assert_eq!((rtp(&server, "reordered"), rtp(&server, "duplicate")), (groups * 3, groups * 2));
    assert_eq!(rtp(&server, "received"), source(&server, "rtp")["datagrams"].as_u64().unwrap());
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_stream_source_rtp_duplicate_total", "rtp"), (groups * 2) as f64);
    assert_eq!(metrics.sum("glassline_stream_source_rtp_lost_total", "rtp"), 0.0);
}

#[test]
fn what_is_lost_is_counted_and_the_rest_is_right() {
    let (server, _scratch, to) = pulling("reorder = '20ms'");
    let sender = Sender::new(to, 7);
    let mut next = sender.begin(&server, 0);
    let mut viewer = watch(&server, "rtp");
    // Each tenth is lost, but never a key frame.
    let expected: Vec<u8> = (0..next + 200)
        .filter(|number| *number < next || number % 10 != 3)
        .flat_map(|number| SHAPE.picture(number))
        .collect();
    let end = next + 200;
    while next < end {
        if next % 10 != 3 {
            sender.send(next);
        }
        next += 1;
        if next.is_multiple_of(25) {
            // No time limit decides: what comes is waited for.
            let lost = (0..next).filter(|number| *number >= end - 200 && number % 10 == 3).count() as u64;
            until("the loss to be counted", || rtp(&server, "lost") == lost);
        }
    }
    let lost = (end - 200..end).filter(|number| number % 10 == 3).count() as u64;
    until("the loss to be counted", || rtp(&server, "lost") == lost);
    // One that comes after it was given up changes nothing.
    sender.send((0..end).rev().find(|number| number % 10 == 3).unwrap());
    until("it to be late", || rtp(&server, "late") == 1);
    assert_eq!((rtp(&server, "reordered"), rtp(&server, "duplicate")), (0, 0));
    assert_eq!(server.count("rtp", "continuity_errors"), lost);

    // The viewer has all else, bit for bit: PAT and PMT, then from a key frame to the end.
    let mut body = vec![0; 376];
    viewer.read_exact(&mut body).unwrap();
    let mut first = [0; 188];
    viewer.read_exact(&mut first).unwrap();
    let at = expected.chunks(188).position(|packet| packet == first).expect("a packet that was sent") * 188;
    assert_eq!(first[3..6], [first[3] & 0x0F | 0x30, 1, 0x40], "a key frame");
    let mut rest = vec![0; expected.len() - at - 188];
    viewer.read_exact(&mut rest).unwrap();
    assert!(rest == expected[at + 188..], "the stream is not what was sent");
}

#[test]
fn another_sender_is_followed_and_a_stray_one_is_not() {
    let (server, _scratch, to) = pulling("");
    let (sender, other) = (Sender::new(to, 7), Sender::elsewhere(to, 8));
    let next = sender.begin(&server, 0);
    let bytes = |pictures: std::ops::Range<u64>| -> u64 {
        pictures.map(|number| SHAPE.picture(number).len() as u64).sum()
    };
    let until_bytes = |wanted| until("its pictures", || server.count("rtp", "bytes_in") == wanted);
    // One packet of another one among ours is refused.
    other.send(20_000);
    sender.send(next);
    until_bytes(bytes(0..next + 1));
    assert_eq!((rtp(&server, "refused"), rtp(&server, "restarts")), (1, 0));
    // Many are, too, for as long as ours sends: whatever they are, and as much as would have an unknown source given up.
    let junk = vec![0x55; 1_316];
    for step in 1..20 {
        (0..50).for_each(|number| other.send(20_000 + 50 * step + number));
        (0..100).for_each(|_| _ = other.socket.send_to(&junk, to).unwrap());
        sender.send(next + step);
        until_bytes(bytes(0..next + 1 + step));
    }
    assert_eq!((rtp(&server, "restarts"), rtp(&server, "lost")), (0, 0));
    // Once ours is silent, two in a row are a sender that has come instead: one that was started again on the same machine.
    let (successor, refused, mut number) = (Sender::new(to, 9), rtp(&server, "refused"), 40_000);
    until("the other one to be taken", || {
        successor.send(number);
        number += 1;
        rtp(&server, "restarts") == 1
    });
    until("its pictures", || {
        let first = 40_000 + rtp(&server, "refused") - refused;
        server.count("rtp", "bytes_in") == bytes(0..next + 20) + bytes(first..number)
    });
    assert_eq!((rtp(&server, "restarts"), rtp(&server, "lost")), (1, 0));
    assert_eq!(source(&server, "rtp")["failures"], 0);
}

#[test]
fn bare_packets_of_another_sender_are_not_mixed_in() {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (server, _scratch) = serve_with(&format!("{HASTE}[stream.rtp]\nsource = 'udp://{to}'\n"));
    until("the socket to be open", || source(&server, "rtp")["datagrams"] == 0);
    let (ours, other) = (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.2:0").unwrap());
    let mut sent = 0;
    for number in 0..50 {
        let picture = SHAPE.picture(number);
        sent += picture.len() as u64;
        ours.send_to(&picture, to).unwrap();
        until("its picture", || server.count("rtp", "bytes_in") == sent);
        (0..5).for_each(|step| _ = other.send_to(&SHAPE.picture(90 + step), to).unwrap());
        other.send_to(&[0x55; 500], to).unwrap();
    }
    until("all datagrams", || source(&server, "rtp")["datagrams"] == 50 * 7);
    assert_eq!((server.count("rtp", "bytes_in"), server.count("rtp", "garbage_bytes")), (sent, 0));
}

#[test]
fn udp_takes_rtp_where_it_surely_is_and_bare_packets_after_it() {
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, free_port()));
    let (server, _scratch) = serve_with(&format!("{HASTE}[stream.rtp]\nsource = 'udp://{to}'\n"));
    until("the socket to be open", || source(&server, "rtp")["datagrams"] == 0);
    let sender = Sender::new(to, 7);
    let next = sender.begin(&server, 0);
    [1, 0, 3, 2].into_iter().for_each(|step| sender.send(next + step));
    let bytes = |pictures: u64| (0..pictures).map(|number| SHAPE.picture(number).len() as u64).sum::<u64>();
    until("its pictures", || server.count("rtp", "bytes_in") == bytes(next + 4));
    assert_eq!((rtp(&server, "reordered"), rtp(&server, "lost")), (2, 0));
    until("silence to be seen", || source(&server, "rtp")["state"] == "waiting");
    for number in 0..50 {
        sender.socket.send_to(&SHAPE.picture(number), to).unwrap();
    }
    until("the bare ones", || server.count("rtp", "bytes_in") == bytes(next + 4) + bytes(50));
    assert_eq!((server.count("rtp", "garbage_bytes"), rtp(&server, "refused")), (0, 0));
}

#[test]
fn a_source_goes_on_over_an_upgrade() {
    let (mut server, scratch, to) = pulling("");
    let config = scratch.file("glassline.toml");
    let sender = Sender::new(to, 7);
    let mut next = sender.begin(&server, 0);
    let (mut viewer, mut check) = (watch(&server, "rtp"), Check::new(SHAPE));
    // A viewer has its head before its place: what comes in between it need not see.
    see(&mut viewer, &mut check, SHAPE.packets);
    for _ in 0..3 {
        // What the old program has not read is the new one's.
        (next..next + 40).for_each(|number| sender.send(number));
        next += 40;
        upgrade(&mut server, &config);
        until("all packets", || rtp(&server, "received") == next);
        let seen = check.packets;
        see(&mut viewer, &mut check, seen + 40 * SHAPE.packets);
    }
    for field in ["lost", "late", "refused", "restarts"] {
        assert_eq!(rtp(&server, field), 0, "{field}");
    }
    assert_eq!((check.moves, source(&server, "rtp")["reconnects"].as_u64()), (0, Some(0)));
}

#[test]
fn datagrams_that_are_no_rtp_are_told() {
    let (server, _scratch, to) = pulling("");
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    let complains =
        |why: &str| source(&server, "rtp")["error"].as_str().is_some_and(|error| error.contains(why));
    // Bare MPEG-TS, which udp:// is for.
    until("the version to be told", || {
        (0..10).for_each(|_| drop(socket.send_to(&SHAPE.picture(1), to)));
        complains("version 1 where RTP says 2")
    });
    let audio = [&[0x80, 96, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1][..], &[0; 900]].concat();
    until("the payload type to be told", || {
        (0..10).for_each(|_| drop(socket.send_to(&audio, to)));
        complains("payload type 96 where MPEG-TS has 33")
    });
    assert!(rtp(&server, "refused") > 70);
    // And then the right ones.
    let sender = Sender::new(to, 7);
    sender.begin(&server, 0);
    until_live(&server, "rtp");
}
