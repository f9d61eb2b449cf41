//! Streams that leave in datagrams, to machines and groups.

use crate::hot::upgrade;
use crate::pull::{SHAPE, free_port, see, source, watch};
use crate::{serve, serve_with};
use glassline_test_support::http::{get, publish};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::{PATIENCE, until};
use socket2::{Domain, Socket, Type};
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};

/// What a receiver sees of an output.
struct Receiver {
    socket: UdpSocket,
    check: Check,
    /// Bytes of a header before the packets: 12 for RTP.
    header: usize,
    /// Header of the last datagram, and how many began with a marker.
    last: Option<Vec<u8>>,
    markers: u64,
    datagrams: u64,
}

impl Receiver {
    fn new(socket: UdpSocket, shape: Shape, header: usize) -> Receiver {
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        Receiver { socket, check: Check::new(shape), header, last: None, markers: 0, datagrams: 0 }
    }

    fn here(shape: Shape, header: usize) -> Receiver {
        Receiver::new(UdpSocket::bind("127.0.0.1:0").unwrap(), shape, header)
    }

    fn address(&self) -> SocketAddr {
        self.socket.local_addr().unwrap()
    }

    /// Receives until so many video packets were seen, all of them right.
    fn see(&mut self, packets: u64) {
        let mut buffer = [0; 2000];
        while self.check.packets < packets {
            let count = self.socket.recv(&mut buffer).unwrap();
            let (header, payload) = buffer[..count].split_at(self.header);
            assert!((1..=7).contains(&(payload.len() / 188)) && payload.len().is_multiple_of(188), "{count}");
            self.datagrams += 1;
            if self.header == 12 {
                self.see_header(header);
            }
            self.check.push(payload).unwrap_or_else(|wrong| panic!("{wrong}"));
        }
    }

    fn see_header(&mut self, header: &[u8]) {
        assert_eq!((header[0], header[1] & 0x7F), (0x80, 33));
        self.markers += u64::from(header[1] >> 7);
        let number = |bytes: &[u8]| u16::from_be_bytes(bytes[2..4].try_into().unwrap());
        let stamp = |bytes: &[u8]| u32::from_be_bytes(bytes[4..8].try_into().unwrap());
        if let Some(last) = &self.last {
            assert_eq!((number(header), &header[8..]), (number(last).wrapping_add(1), &last[8..]));
            // A minute of ticks at most, and never back.
            assert!(stamp(header).wrapping_sub(stamp(last)) < 90_000 * 60);
        }
        self.last = Some(header.to_vec());
    }
}

fn sending(options: &str, outputs: &[String]) -> (Server, Scratch) {
    serve_with(&format!("{options}\n[stream.out]\noutputs = {outputs:?}\n"))
}

fn output(server: &Server, index: usize, field: &str) -> serde_json::Value {
    server.stream("out").map_or(serde_json::Value::Null, |stream| stream["outputs"][index][field].clone())
}

fn send(publisher: &mut TcpStream, shape: Shape, pictures: std::ops::Range<u64>) {
    pictures.for_each(|number| publisher.write_all(&shape.picture(number)).unwrap());
}

/// A socket that has joined a group at the loopback interface for one source, which is this machine.
fn join(group: Ipv4Addr) -> UdpSocket {
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    socket.bind(&SocketAddr::from((group, free_port())).into()).unwrap();
    socket.join_ssm_v4(&Ipv4Addr::LOCALHOST, &group, &Ipv4Addr::LOCALHOST).unwrap();
    socket.into()
}

#[test]
fn a_stream_leaves_for_machines_and_groups_and_each_picture_at_once() {
    let group = Receiver::new(join(Ipv4Addr::new(239, 255, 77, 10)), SHAPE, 0);
    let mut receivers = [Receiver::here(SHAPE, 0), Receiver::here(SHAPE, 12), group];
    let to: Vec<SocketAddr> = receivers.iter().map(Receiver::address).collect();
    let (server, _scratch) = sending(
        "",
        &[
            format!("udp://{}", to[0]),
            format!("rtp://{}", to[1]),
            format!("udp://{}?interface=lo&source=127.0.0.1&ttl=2", to[2]),
        ],
    );
    let mut publisher = publish(server.address(), "/live/out.ts");
    for number in 0..50 {
        // Nothing follows that could push it.
        send(&mut publisher, SHAPE, number..number + 1);
        receivers.iter_mut().for_each(|receiver| receiver.see((number + 1) * SHAPE.packets));
    }
    // Another publisher: the seam is announced, and nothing else.
    drop(publisher);
    until("it to be off", || server.stream("out").is_some_and(|stream| stream["live"] == false));
    let mut publisher = publish(server.address(), "/live/out.ts");
    send(&mut publisher, SHAPE, 100..150);
    for receiver in &mut receivers {
        receiver.see(100 * SHAPE.packets);
        assert_eq!(receiver.check.moves, 1);
    }
    assert_eq!(receivers[1].markers, 1);
    for (index, receiver) in receivers.iter().enumerate() {
        let count = |field: &str| output(&server, index, field).as_u64();
        until("the counts", || count("datagrams") == Some(receiver.datagrams));
        assert_eq!((count("errors"), count("moved_forward")), (Some(0), Some(0)));
        assert_eq!(
            (output(&server, index, "sending"), output(&server, index, "error")),
            (true.into(), ().into())
        );
        // Both sessions, PAT and PMT in front, the seam's packets.
        assert!(count("bytes") > Some(100 * SHAPE.packets * 188));
    }
    assert_eq!(output(&server, 1, "url"), format!("rtp://{}", to[1]));
    assert_eq!(server.count("out", "viewers"), 0, "an output is no viewer");
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_stream_output_sending", "stream=\"out\""), 3.0);
    let sum: u64 = receivers.iter().map(|receiver| receiver.datagrams).sum();
    assert_eq!(metrics.sum("glassline_stream_output_datagrams_total", "stream=\"out\"") as u64, sum);
}

#[test]
fn large_pictures_arrive_whole_and_a_stream_may_be_born_again() {
    const LARGE: Shape = Shape { packets: 250, group: 10 };
    let mut receiver = Receiver::here(LARGE, 12);
    let (server, _scratch) =
        sending("[publish]\nreturn_window = '0s'", &[format!("rtp://{}?packets=3", receiver.address())]);
    for life in 0..3u64 {
        let mut publisher = publish(server.address(), "/live/out.ts");
        for number in life * 100..life * 100 + 10 {
            send(&mut publisher, LARGE, number..number + 1);
            let all = life * 10 + number % 100 + 1;
            receiver.see(all * LARGE.packets);
        }
        assert_eq!((receiver.check.moves, receiver.markers), (life, life + 1));
        drop(publisher);
        until("its end", || server.stream("out").is_none());
    }
    // Three packets a datagram, and the shorter ones at the pictures' ends.
    assert!(receiver.datagrams > 30 * LARGE.packets / 3 && receiver.datagrams < 30 * LARGE.packets / 3 + 100);
}

#[test]
fn what_cannot_be_sent_is_told_and_the_rest_goes_on() {
    let mut receiver = Receiver::here(SHAPE, 0);
    let nobody = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (server, _scratch) = sending(
        "",
        &[
            "udp://239.1.2.3:5000?interface=nowhere0".to_owned(),
            // An address of nobody's to send from, and a place where nobody listens.
            "rtp://127.0.0.1:5004?source=192.0.2.1".to_owned(),
            format!("udp://{nobody}"),
            // By a name, which may have an IPv6 address too; and a name that nobody has (RFC 6761).
            format!("udp://localhost:{}?source=127.0.0.1", receiver.address().port()),
            "udp://none.invalid:5000".to_owned(),
        ],
    );
    let mut publisher = publish(server.address(), "/live/out.ts");
    for number in 0..200 {
        send(&mut publisher, SHAPE, number..number + 1);
        receiver.see((number + 1) * SHAPE.packets);
    }
    let error = |index: usize| output(&server, index, "error").as_str().unwrap_or_default().to_owned();
    until("the interface to be told", || error(0) == "no network interface \"nowhere0\"");
    until("the address to be told", || error(1).starts_with("Cannot assign requested address"));
    until("the name to be told", || !error(4).is_empty());
    for index in [0, 1, 4] {
        assert_eq!(output(&server, index, "sending"), false);
        assert!(output(&server, index, "errors").as_u64() > Some(0));
    }
    assert_eq!((error(2), output(&server, 2, "errors")), (String::new(), 0.into()));
    // Not for each picture: it is tried again after a second, and told ever more rarely.
    let told = server.process.output().lines().filter(|line| line.contains("nowhere0")).count();
    assert!((1..20).contains(&told), "told {told} times");
    assert!(get(server.address(), "/live/out.ts?encoding=none").status == 400, "it serves");
}

#[test]
fn one_relay_feeds_others_by_a_group() {
    let group = SocketAddr::from((Ipv4Addr::new(239, 255, 77, 11), free_port()));
    let pulling = || serve_with(&format!("[stream.far]\nsource = 'rtp://127.0.0.1@{group}?interface=lo'\n"));
    let edges = [pulling(), pulling()];
    for (edge, _) in &edges {
        until("the group to be joined", || source(edge, "far")["datagrams"] == 0);
    }
    let (origin, _scratch) = sending("", &[format!("rtp://{group}?interface=lo&source=127.0.0.1")]);
    let mut publisher = publish(origin.address(), "/live/out.ts");
    send(&mut publisher, SHAPE, 0..5);
    for (edge, _) in &edges {
        until("the stream", || edge.count("far", "bytes_in") > 0);
    }
    let mut viewers = edges.each_ref().map(|(edge, _)| (watch(edge, "far"), Check::new(SHAPE)));
    for number in 5..100 {
        send(&mut publisher, SHAPE, number..number + 1);
        // The viewers' first picture may be that of a later key frame than the first.
        for (viewer, check) in &mut viewers {
            let seen = check.packets;
            see(viewer, check, seen + SHAPE.packets);
        }
    }
    for (edge, _) in &edges {
        let rtp = source(edge, "far")["rtp"].clone();
        assert_eq!((rtp["lost"].as_u64(), rtp["refused"].as_u64()), (Some(0), Some(0)), "{rtp}");
        assert_eq!(edge.count("far", "continuity_errors"), 0);
    }
}

#[test]
fn outputs_go_on_over_an_upgrade() {
    let mut receivers = [Receiver::here(SHAPE, 0), Receiver::here(SHAPE, 12)];
    let scratch = Scratch::new("outputs");
    let urls =
        ["udp", "rtp"].iter().zip(&receivers).map(|(scheme, to)| format!("{scheme}://{}", to.address()));
    let text = format!("[stream.out]\noutputs = {:?}\n", urls.collect::<Vec<_>>());
    let config = scratch.write("glassline.toml", text);
    let mut server = serve(&["--config", &config]);
    let mut publisher = publish(server.address(), "/live/out.ts");
    for turn in 0..4 {
        for number in turn * 23..(turn + 1) * 23 {
            send(&mut publisher, SHAPE, number..number + 1);
            receivers.iter_mut().for_each(|receiver| receiver.see((number + 1) * SHAPE.packets));
        }
        upgrade(&mut server, &config);
    }
    // Nothing was missed, nothing came again; RTP's numbers were checked all along.
    assert!(receivers.iter().all(|receiver| receiver.check.moves == 0) && receivers[1].markers == 1);
    for (index, receiver) in receivers.iter().enumerate() {
        assert_eq!(output(&server, index, "datagrams"), receiver.datagrams);
    }
}

#[test]
fn outputs_come_and_go_by_reload() {
    let (mut first, mut second) = (Receiver::here(SHAPE, 0), Receiver::here(SHAPE, 0));
    let scratch = Scratch::new("outputs");
    let write = |outputs: &[SocketAddr]| {
        let list: Vec<String> = outputs.iter().map(|to| format!("udp://{to}")).collect();
        scratch.write("glassline.toml", format!("[stream.out]\nflush = 'frame'\noutputs = {list:?}\n"))
    };
    let server = serve(&["--config", &write(&[])]);
    let mut publisher = publish(server.address(), "/live/out.ts");
    send(&mut publisher, SHAPE, 0..5);
    until("its bytes", || server.count("out", "bytes_in") > 0);
    for (outputs, count) in
        [(vec![first.address()], 1), (vec![second.address(), first.address()], 2), (vec![], 0)]
    {
        write(&outputs);
        server.process.signal("HUP");
        let outputs = || server.stream("out").map(|stream| stream["outputs"].as_array().unwrap().len());
        until("the reload", || outputs() == Some(count));
        if count == 1 {
            // It begins with the newest key frame, though the stream is there already.
            first.see(5 * SHAPE.packets);
        }
        if count == 2 {
            second.see(5 * SHAPE.packets);
            send(&mut publisher, SHAPE, 5..20);
            first.see(20 * SHAPE.packets);
            second.see(20 * SHAPE.packets);
        }
    }
    send(&mut publisher, SHAPE, 20..25);
    until("its bytes", || server.count("out", "bytes_in") > 24 * 5 * 188);
    for receiver in [&first, &second] {
        receiver.socket.set_nonblocking(true).unwrap();
        assert!(receiver.socket.recv(&mut [0; 2000]).is_err(), "it is sent to no more");
        assert_eq!(receiver.check.moves, 0);
    }
}
