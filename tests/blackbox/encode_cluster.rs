//! `encode` with the addresses of several servers: it goes on at the next one when its own is lost.

use crate::cluster_nats::{Nats, cluster};
use crate::pull::watch;
use crate::{GLASSLINE, serve};
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{PACKET_BYTES, Packet};
use glassline_test_support::http::read_once;
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::{PATIENCE, until, until_some};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::UnixStream;
use std::process::Command;

/// An encoder of these pictures, which publishes to one of these servers under the name `e`.
pub(crate) struct Encoder {
    process: Running,
    control: String,
    _scratch: Scratch,
}

impl Encoder {
    pub(crate) fn start(servers: &[SocketAddr], more: &[&str]) -> Encoder {
        let scratch = Scratch::new("encode-cluster");
        let control = scratch.file("control");
        let urls: Vec<String> = servers.iter().map(|server| format!("http://{server}/live/e.ts")).collect();
        let mut command = Command::new(GLASSLINE);
        command.args(["encode", "test:320x180@25", &urls.join(","), "--keyint", "1h", "--control", &control]);
        Encoder { process: Running::start(command.args(more)), control, _scratch: scratch }
    }

    /// What it says of its output.
    pub(crate) fn output(&self) -> Value {
        let mut stream = until_some("the control socket", || UnixStream::connect(&self.control).ok());
        writeln!(stream, "status").unwrap();
        let mut line = String::new();
        BufReader::new(stream).read_line(&mut line).unwrap();
        serde_json::from_str::<Value>(&line).unwrap()["outputs"][0].clone()
    }

    pub(crate) fn until_at(&self, server: SocketAddr) {
        let url = format!("http://{server}/live/e.ts");
        until("the encoder to publish there", || {
            let output = self.output();
            output["server"] == url && output["state"] == "sending" && output["bytes"].as_u64() > Some(0)
        });
    }

    pub(crate) fn end(mut self) -> String {
        self.process.signal("TERM");
        assert_eq!(self.process.wait().code(), Some(0), "{}", self.process.output());
        self.process.output()
    }
}

/// What a viewer has seen of a stream: each packet has to follow the one before it on its PID, or a jump has to be announced.
#[derive(Default)]
pub(crate) struct Continuity {
    last: BTreeMap<u16, u8>,
    announced: BTreeMap<u16, bool>,
    rest: Vec<u8>,
    pub(crate) packets: u64,
    pub(crate) jumps: u64,
}

impl Continuity {
    pub(crate) fn see(&mut self, viewer: &mut TcpStream) {
        let mut buffer = [0; 4096];
        let count = read_once(viewer, &mut buffer).expect("the viewer is not ended");
        assert!(count > 0, "the viewer is ended after {} packets", self.packets);
        self.rest.extend_from_slice(&buffer[..count]);
        let whole = self.rest.len() / PACKET_BYTES * PACKET_BYTES;
        let seen: Vec<u8> = self.rest.drain(..whole).collect();
        for packet in packets(&seen).map(|bytes| Packet::parse(bytes).expect("a packet")) {
            self.check(&packet);
        }
    }

    fn check(&mut self, packet: &Packet<'_>) {
        let (pid, now) = (packet.pid, packet.continuity);
        self.packets += 1;
        let is_announced = packet.discontinuity() || self.announced.remove(&pid).is_some();
        if packet.discontinuity() && !packet.has_payload {
            self.announced.insert(pid, true);
        }
        let Some(before) = self.last.insert(pid, now).filter(|_| pid != 0x1FFF) else { return };
        let follows = now == if packet.has_payload { (before + 1) & 15 } else { before };
        assert!(follows || is_announced, "PID {pid}: {now} after {before}, which is not announced");
        self.jumps += u64::from(packet.discontinuity() && pid != 0 && !packet.has_payload);
    }
}

/// Each viewer gets an announced jump, and what comes behind it.
pub(crate) fn see_a_jump(viewers: &mut [(TcpStream, Continuity)]) {
    for (viewer, seen) in viewers {
        while seen.jumps == 0 {
            seen.see(viewer);
        }
        let before = seen.packets;
        while seen.packets < before + 100 {
            seen.see(viewer);
        }
    }
}

#[test]
fn it_goes_on_at_the_next_server_when_its_own_is_killed_and_viewers_elsewhere_follow() {
    let test = "it_goes_on_at_the_next_server_when_its_own_is_killed_and_viewers_elsewhere_follow";
    let Some(nats) = Nats::start(test, &[]) else { return };
    let [mut a, b, c] = cluster(&nats, ["a", "b", "c"]);
    let addresses = [&a, &b, &c].map(|node| node.server.address());
    let encoder = Encoder::start(&addresses, &["--stats", "--json"]);
    encoder.until_at(addresses[0]);
    let mut viewers = Vec::new();
    for node in [&b, &c] {
        node.until_owner("e", "a");
        let (mut viewer, mut seen) = (watch(&node.server, "e"), Continuity::default());
        while seen.packets < 100 {
            seen.see(&mut viewer);
        }
        viewers.push((viewer, seen));
    }
    assert_eq!(encoder.output()["resumed"], 0);
    a.server.process.kill();
    see_a_jump(&mut viewers);
    until("the gap to be told", || encoder.output()["resumed"] == 1);
    let output = encoder.output();
    let at = addresses.iter().position(|address| output["server"] == format!("http://{address}/live/e.ts"));
    let owner = ["a", "b", "c"][at.expect("one of them")];
    assert_ne!(owner, "a");
    c.until_owner("e", owner);
    assert!(output["missing_s"].as_f64() > Some(0.0), "{output}");
    assert!(output["left_out"].as_u64() > Some(0), "{output}");
    let told = encoder.end();
    assert!(
        told.contains("goes on behind a gap of") && told.contains("are missing there; it has gone on once"),
        "{told}"
    );
    let table =
        told.lines().find_map(|line| serde_json::from_str::<Value>(line).ok()).expect("a line of JSON");
    assert_eq!(table["outputs"][0]["resumed"], 1, "{table}");
}

#[test]
fn a_server_that_takes_nothing_is_left_for_the_next_one() {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).unwrap();
    // What the system holds for it is small, so that it is soon full.
    socket.set_recv_buffer_size(4096).unwrap();
    socket.bind(&"127.0.0.1:0".parse::<SocketAddr>().unwrap().into()).unwrap();
    socket.listen(1).unwrap();
    let silent = TcpListener::from(socket);
    let server = serve(&[]);
    let addresses = [silent.local_addr().unwrap(), server.address()];
    let encoder = Encoder::start(&addresses, &["--bitrate", "4M"]);
    server.wait_for_pictures("e");
    encoder.until_at(addresses[1]);
    let told = encoder.end();
    assert!(told.contains("nothing") && told.contains("at once"), "{told}");
}

#[test]
fn a_server_that_leads_elsewhere_is_followed_and_is_told_no_key_for_another_one() {
    let server = serve(&[]);
    let leading = TcpListener::bind("127.0.0.1:0").unwrap();
    let scratch = Scratch::new("encode-led");
    let key = scratch.write("publish.key", "hush\n");
    let urls = [leading.local_addr().unwrap(), "127.31.9.20:9".parse().unwrap()];
    let encoder = Encoder::start(&urls, &["--publish-key-file", &key]);
    let (mut connection, _) = leading.accept().unwrap();
    connection.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        connection.read_exact(&mut byte).unwrap();
        head.push(byte[0]);
    }
    let head = String::from_utf8(head).unwrap();
    assert!(head.contains("Authorization: Bearer hush") && head.contains("Expect: 100-continue"), "{head}");
    let place = server.url("/live/led.ts");
    write!(
        connection,
        "HTTP/1.1 307 Temporary Redirect\r\nLocation: {place}\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"
    )
    .unwrap();
    server.wait_for_pictures("led");
    let output = encoder.output();
    assert_eq!((&output["server"], &output["resumed"]), (&Value::from(place), &Value::from(0)), "{output}");
    encoder.end();
}
