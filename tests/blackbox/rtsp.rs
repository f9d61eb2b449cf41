//! Publishers and viewers over RTSP, by a client made without any code of the product.

use crate::pull::{HASTE, source, until_live};
use crate::serve_with;
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

/// A server with RTSP at an address of its own.
fn serving(config: &str) -> (Server, Scratch, SocketAddr) {
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let (server, scratch) = serve_with(&format!("{config}[rtsp]\nlisten = ['{address}']\n"));
    (server, scratch, address)
}

struct Client {
    connection: TcpStream,
    address: SocketAddr,
    number: u32,
    session: Option<String>,
}

impl Client {
    fn new(address: SocketAddr) -> Client {
        let connection = TcpStream::connect(address).unwrap();
        connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        Client { connection, address, number: 0, session: None }
    }

    /// Sends a request, and reads its response past packets between.
    fn ask(&mut self, method: &str, path: &str, headers: &str, body: &str) -> String {
        self.number += 1;
        let session =
            self.session.as_ref().map(|session| format!("Session: {session}\r\n")).unwrap_or_default();
        let length =
            if body.is_empty() { String::new() } else { format!("Content-Length: {}\r\n", body.len()) };
        let headers: String = headers.lines().map(|line| format!("{line}\r\n")).collect();
        write!(
            self.connection,
            "{method} rtsp://{}{path} RTSP/1.0\r\nCSeq: {}\r\n{session}{headers}{length}\r\n{body}",
            self.address, self.number
        )
        .unwrap();
        let answer = loop {
            match self.next() {
                Some(Message::Text(text)) => break text,
                Some(Message::Packet(..)) => {}
                None => panic!("it ended in place of an answer to {method}"),
            }
        };
        if let Some(session) = answer.lines().find_map(|line| line.strip_prefix("Session: ")) {
            self.session = session.split(';').next().map(str::to_owned);
        }
        answer
    }

    fn next(&mut self) -> Option<Message> {
        let mut first = [0];
        match self.connection.read(&mut first) {
            Ok(1) => {}
            Ok(_) => return None,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
        if first == *b"$" {
            let mut head = [0; 3];
            self.connection.read_exact(&mut head).unwrap();
            let mut packet = vec![0; usize::from(u16::from_be_bytes([head[1], head[2]]))];
            self.connection.read_exact(&mut packet).unwrap();
            return Some(Message::Packet(head[0], packet));
        }
        let mut head = first.to_vec();
        while !head.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            self.connection.read_exact(&mut byte).unwrap();
            head.push(byte[0]);
        }
        let mut text = String::from_utf8(head).unwrap();
        let length = text.lines().find_map(|line| line.strip_prefix("Content-Length: ")?.parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.connection.read_exact(&mut body).unwrap();
        text += &String::from_utf8(body).unwrap();
        Some(Message::Text(text))
    }

    /// Publishes on the connection, up to RECORD.
    fn publish(&mut self, path: &str, headers: &str) -> String {
        let announced = self.ask("ANNOUNCE", path, headers, SDP);
        if announced.starts_with("RTSP/1.0 200") {
            let set_up = self.ask(
                "SETUP",
                &format!("{path}/streamid=0"),
                "Transport: RTP/AVP/TCP;unicast;interleaved=0-1;mode=record",
                "",
            );
            assert!(set_up.contains("interleaved=0-1"), "{set_up}");
            assert!(self.ask("RECORD", path, "", "").starts_with("RTSP/1.0 200"));
        }
        announced
    }

    fn send(&mut self, number: u32) {
        let packet = packet(number);
        let length = (packet.len() as u16).to_be_bytes();
        self.connection.write_all(&[&b"$\0"[..], &length, &packet].concat()).unwrap();
    }
}

enum Message {
    Text(String),
    Packet(u8, Vec<u8>),
}

const SDP: &str = "v=0\r\nm=video 0 RTP/AVP 96\r\na=rtpmap:96 H264/90000\r\n\
    a=fmtp:96 packetization-mode=1;sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg==\r\na=control:streamid=0\r\n";

/// A picture in one packet; each tenth is a key frame.
fn packet(number: u32) -> Vec<u8> {
    let mut packet = vec![0x80, 0xE0];
    packet.extend((number as u16).to_be_bytes());
    packet.extend((number * 3600).to_be_bytes());
    packet.extend([0, 0, 0, 9]);
    packet.extend(if number.is_multiple_of(10) { [0x65, 0x88] } else { [0x41, 0x9a] });
    packet.extend(format!("picture {number:06}.").bytes());
    packet
}

/// The number of the picture that a packet of one has.
fn number(packet: &[u8]) -> Option<u32> {
    let text = String::from_utf8_lossy(packet);
    text.split_once("picture ").and_then(|(_, rest)| rest.get(..6)?.parse().ok())
}

#[test]
fn what_is_published_is_played_on_the_connection_and_in_datagrams() {
    let (server, _scratch, address) = serving("");
    let mut publisher = Client::new(address);
    publisher.publish("/live/hall", "");
    let mut sent = 0;
    while sent < 15 {
        publisher.send(sent);
        sent += 1;
    }
    until("the stream", || server.count("hall", "bytes_in") > 0);
    let (mut viewer, mut far) = (Client::new(address), Client::new(address));
    let described = viewer.ask("DESCRIBE", "/live/hall", "Accept: application/sdp", "");
    assert!(
        described.contains("H264/90000")
            && described.contains("sprop-parameter-sets=Z0LAHtkDxWhAAAADAEAAAAwDxYuS,aMuMsg=="),
        "{described}"
    );
    viewer.ask("SETUP", "/live/hall/trackID=0", "Transport: RTP/AVP/TCP;unicast;interleaved=6-7", "");
    assert!(viewer.ask("PLAY", "/live/hall/", "", "").starts_with("RTSP/1.0 200"));
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
    let port = socket.local_addr().unwrap().port();
    far.ask("DESCRIBE", "/live/hall", "", "");
    let set_up = far.ask(
        "SETUP",
        "/live/hall/trackID=0",
        &format!("Transport: RTP/AVP;unicast;client_port={port}-{}", port.wrapping_add(1).max(1)),
        "",
    );
    assert!(set_up.contains("server_port="), "{set_up}");
    assert!(far.ask("PLAY", "/live/hall/", "", "").starts_with("RTSP/1.0 200"));
    // Both begin at the key frame that was there, and see all that comes.
    let (mut near_seen, mut far_seen, mut reports) = (Vec::new(), Vec::new(), 0);
    while near_seen.len() < 30 {
        publisher.send(sent);
        sent += 1;
        let before = near_seen.len();
        while near_seen.len() == before {
            match viewer.next() {
                Some(Message::Packet(6, packet)) => near_seen.extend(number(&packet)),
                Some(Message::Packet(7, report)) => reports += usize::from(report[1] == 200),
                _ => panic!("it ended"),
            }
        }
    }
    assert!(near_seen.iter().copied().eq(10..40), "{near_seen:?}");
    assert!(reports >= 1);
    let mut datagram = [0; 2048];
    while far_seen.len() < 20 {
        let count = socket.recv(&mut datagram).unwrap();
        far_seen.extend(number(&datagram[..count]));
    }
    assert!(far_seen.iter().copied().eq(10..30), "{far_seen:?}");
    let stream = server.stream("hall").unwrap();
    let peers = stream["peers"].as_array().unwrap();
    assert_eq!(peers.len(), 3, "{stream}");
    assert_eq!(server.metrics().sum("glassline_rtsp_viewers", ""), 2.0);
    // The stream ends for its viewers when its publisher has gone for good; one that tears down is gone at once.
    assert!(publisher.ask("TEARDOWN", "/live/hall", "", "").starts_with("RTSP/1.0 200"));
    until("the publisher to be gone", || server.metrics().sum("glassline_rtsp_publishers", "") == 0.0);
}

#[test]
fn a_key_is_shown_in_the_address_or_as_a_password() {
    let config = "[publish]\nkey = 'c0ntribution'\n[viewer]\nkey = 'v1ewer-k3y'\n";
    let (server, _scratch, address) = serving(config);
    let mut none = Client::new(address);
    let challenge = none.publish("/live/hall", "");
    assert!(challenge.starts_with("RTSP/1.0 401"), "{challenge}");
    assert!(
        challenge.contains("WWW-Authenticate: Digest realm=\"glassline\"")
            && challenge.contains("Basic realm")
    );
    assert!(none.publish("/live/hall?key=v1ewer-k3y", "").starts_with("RTSP/1.0 401"));
    // any:c0ntribution
    let mut basic = Client::new(address);
    assert!(
        basic
            .publish("/live/hall", "Authorization: Basic YW55OmMwbnRyaWJ1dGlvbg==")
            .starts_with("RTSP/1.0 200")
    );
    // The name is taken.
    let mut second = Client::new(address);
    let refused = second.publish("/live/hall?key=c0ntribution", "");
    assert!(refused.starts_with("RTSP/1.0 409"), "{refused}");
    let mut third = Client::new(address);
    assert!(third.publish("/live/hall?key=c0ntribution&takeover=1", "").starts_with("RTSP/1.0 200"));
    for number in 0..11 {
        third.send(number);
    }
    until("the stream", || server.count("hall", "bytes_in") > 0);
    let mut viewer = Client::new(address);
    assert!(viewer.ask("DESCRIBE", "/live/hall?key=c0ntribution", "", "").starts_with("RTSP/1.0 401"));
    assert!(viewer.ask("DESCRIBE", "/live/other?key=v1ewer-k3y", "", "").starts_with("RTSP/1.0 404"));
    assert!(viewer.ask("DESCRIBE", "/live/hall?key=v1ewer-k3y", "", "").starts_with("RTSP/1.0 200"));
    let all = server.process.output();
    assert!(all.contains("hall") && !all.contains("c0ntribution") && !all.contains("v1ewer-k3y"), "{all}");
}

#[test]
fn clients_that_do_nothing_are_few_and_hostile_ones_harm_no_other() {
    let (server, _scratch, address) = serving("");
    let mut publisher = Client::new(address);
    publisher.publish("/live/hall", "");
    let mut sent = 0;
    while sent < 11 {
        publisher.send(sent);
        sent += 1;
    }
    until("the stream", || server.count("hall", "bytes_in") > 0);
    // One that has the stream described and does not play is none that was let in.
    let idle: Vec<TcpStream> = (0..152)
        .map(|_| {
            let mut connection = TcpStream::connect(address).unwrap();
            let _ = write!(connection, "DESCRIBE rtsp://{address}/live/hall RTSP/1.0\r\nCSeq: 1\r\n\r\n");
            connection
        })
        .collect();
    let crowded_out = || server.metrics().sum("glassline_rtsp_crowded_out_total", "");
    until("connections to be turned away", || crowded_out() >= 24.0);
    until("the others to be told", || server.metrics().sum("glassline_rtsp_viewers", "") == 128.0);
    assert_eq!(crowded_out(), 24.0);
    drop(idle);
    for (bytes, status) in [
        (&b"GET / HTTP/1.1\r\n\r\n"[..], "RTSP/1.0 400 "),
        (b"OPTIONS * RTSP/1.0\r\nContent-Length: 99999999\r\n\r\n", "RTSP/1.0 400 "),
        (&[b'A'; 400_000], "RTSP/1.0 400 "),
        (b"$\0\xff\xff", ""),
        (
            b"SETUP rtsp://h/live/hall RTSP/1.0\r\nTransport: RTP/AVP;multicast;destination=192.0.2.1\r\n\r\n",
            "RTSP/1.0 455 ",
        ),
    ] {
        let mut hostile = None;
        until("another one to be let in", || {
            let mut connection = TcpStream::connect(address).unwrap();
            connection.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
            let _ = connection.write_all(b"OPTIONS * RTSP/1.0\r\n\r\n");
            let mut answer = [0; 15];
            let is_in = connection.read_exact(&mut answer).is_ok();
            assert!(!is_in || answer == *b"RTSP/1.0 200 OK");
            hostile = Some(connection).filter(|_| is_in);
            is_in
        });
        let mut hostile = hostile.unwrap();
        let _ = hostile.write_all(bytes);
        let _ = hostile.shutdown(std::net::Shutdown::Write);
        let mut answer = Vec::new();
        let _ = hostile.read_to_end(&mut answer);
        let answer = String::from_utf8_lossy(&answer);
        let (_, answer) = answer.split_once("\r\n\r\n").unwrap_or_default();
        // Where bytes are left unread, the answer may be lost with the connection.
        let is_it = if status.is_empty() { answer.is_empty() } else { answer.starts_with(status) };
        let is_it = is_it || (bytes.len() > 100_000 && answer.is_empty());
        assert!(is_it, "{status}: {answer}");
    }
    // One that asks on and on and reads nothing is ended; what it is answered does not pile up.
    let mut deaf = TcpStream::connect(address).unwrap();
    deaf.set_write_timeout(Some(Duration::from_secs(60))).unwrap();
    let questions = b"A * RTSP/1.0\r\n\r\n".repeat(1000);
    while deaf.write_all(&questions).is_ok() {}
    until("it to be ended", || server.metrics().sum("glassline_rtsp_broken_total", "") >= 1.0);
    // The publisher that was there before goes on.
    let before = server.count("hall", "bytes_in");
    while sent < 31 {
        publisher.send(sent);
        sent += 1;
    }
    until("its pictures", || server.count("hall", "bytes_in") > before);
    assert_eq!(server.metrics().sum("glassline_panics_total", "connection"), 0.0);
}

#[test]
fn one_server_is_the_camera_of_another_over_tls_and_with_a_key() {
    let (identity, folder) = (Identity::new(&["localhost"]), Scratch::new("rtsps"));
    identity.write(&folder, "one");
    let plain = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let secured = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let config = format!(
        "[tls]\nlisten = ['127.0.0.1:0']\ncertificates = [{{ chain = 'one.pem', key = 'one.key' }}]\n\
         [viewer]\nkey = 'viewer-key'\n[rtsp]\nlisten = ['{plain}']\ntls_listen = ['{secured}']\n"
    );
    let near = crate::serve(&["--config", &folder.write("glassline.toml", config)]);
    let mut publisher = Client::new(plain);
    publisher.publish("/live/hall", "");
    let mut number = 0;
    let mut send = || {
        publisher.send(number);
        number += 1;
        std::thread::sleep(Duration::from_millis(10));
    };
    (0..11).for_each(|_| send());
    until("the stream", || near.count("hall", "bytes_in") > 0);
    let edge = Scratch::new("edge");
    edge.write("ca.pem", &identity.chain);
    let pulling = |user: &str, key: &str| {
        format!(
            "{HASTE}[stream.far]\nca = 'ca.pem'\nsource = 'rtsps://{user}:{key}@localhost:{}/live/hall'\n",
            secured.port()
        )
    };
    // By Digest the user is the stream's name.
    let far = crate::serve(&["--config", &edge.write("glassline.toml", pulling("hall", "viewer-key"))]);
    until("the source to be live", || {
        send();
        source(&far, "far")["state"] == "live"
    });
    until("pictures", || {
        send();
        far.count("far", "bytes_in") > 10_000
    });
    until_live(&far, "far");
    assert_eq!(source(&far, "far")["failures"], 0);
    // Another key is refused.
    edge.write("glassline.toml", pulling("hall", "other-key"));
    far.process.signal("HUP");
    until("the refusal", || {
        send();
        source(&far, "far")["error"] == "the server refuses user and password"
    });
}
