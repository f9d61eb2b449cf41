//! Publishers over RTMP and RTMPS, made by hand: what they get, and what those that mean harm do not.

use crate::link::said;
use crate::tls::{NAME, serve_tls};
use crate::{GLASSLINE, serve_with};
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::rtmp::{self, Amf, COMMAND, Client, DATA, VIDEO, amf, chunk};
use glassline_test_support::tls;
use glassline_test_support::wait::{PATIENCE, until};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A server with RTMP, and where that is.
struct Served {
    server: Server,
    rtmp: SocketAddr,
    _scratch: Scratch,
}

fn serve(settings: &str) -> Served {
    let (mut server, scratch) = serve_with(&format!("[rtmp]\nlisten = ['127.0.0.1:0']\n{settings}"));
    let rtmp = said(&mut server.process, "address=").parse().unwrap();
    Served { server, rtmp, _scratch: scratch }
}

/// An address that nothing listens on.
fn free_address() -> SocketAddr {
    std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap()
}

impl Served {
    fn client(&self) -> Client<TcpStream> {
        Client::connect(self.rtmp)
    }

    fn metric(&self, name: &str) -> u64 {
        self.server.metrics().sum(&format!("glassline_rtmp_{name}"), "") as u64
    }
}

const KEY: &str = "[publish]\nkey = 'a-publish-key'\n";

/// Whether the connection has been ended.
fn is_over(client: &mut Client<TcpStream>) -> bool {
    let mut rest = Vec::new();
    client.stream.read_to_end(&mut rest).is_ok()
}

#[test]
fn a_publisher_over_rtmp_is_watched() {
    let served = serve("");
    let mut client = served.client();
    client.publish_live("hall");
    let told = Amf::Texts(&[("videocodecid", "avc1"), ("encoder", "by hand")]);
    client.send(&chunk(DATA, 0, 1, &amf(&[Amf::Text("@setDataFrame"), Amf::Text("onMetaData"), told])));
    client.send_pictures(0..2);
    until("the pictures", || served.server.count("hall", "bytes_in") > 0);
    let mut viewer = connect(served.server.address());
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(viewer, "GET /live/hall.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    // Each picture is here before the next one has come.
    let mut packets = Vec::new();
    for number in 2..30 {
        client.send(&chunk(VIDEO, number * 40, 1, &rtmp::picture(number % 10 == 0)));
        let before = packets.len();
        while packets.len() == before {
            let mut buffer = [0; 64 << 10];
            let count = viewer.read(&mut buffer).unwrap();
            packets.extend_from_slice(&buffer[..count]);
        }
    }
    assert!(packets.chunks(188).all(|packet| packet[0] == 0x47));
    let stream = served.server.stream("hall").unwrap();
    assert_eq!(stream["codecs"][0]["name"], "H.264", "{stream}");
    assert_eq!((&stream["continuity_errors"], &stream["publishers"]), (&0.into(), &1.into()));
    let peer = &stream["peers"][0];
    assert_eq!((&peer["protocol"], &peer["role"]), (&"rtmp".into(), &"publish".into()));
    assert_eq!((served.metric("publishers"), served.metric("connections_total")), (1, 1));
    // It says that it is over.
    client.send(&chunk(
        COMMAND,
        0,
        0,
        &amf(&[Amf::Text("deleteStream"), Amf::Number(4.0), Amf::Null, Amf::Number(1.0)]),
    ));
    assert_eq!(client.status().unwrap().0, "NetStream.Unpublish.Success");
    until("the end", || served.server.stream("hall").is_none_or(|stream| stream["live"] == false));
    assert_eq!(served.metric("publishers"), 0);
    // And publishes again on the same connection.
    assert_eq!(client.publish("hall").0, "NetStream.Publish.Start");
}

#[test]
fn a_publisher_over_rtmps_is_watched_and_plain_bytes_are_refused() {
    let rtmps = free_address();
    let secure = serve_tls(&format!("[rtmp]\ntls_listen = ['{rtmps}']\n"));
    let mut client = Client::over(tls::connect(rtmps, NAME, &tls::client(&[&secure.identity])));
    client.publish_live("hall");
    client.send_pictures(0..3);
    until("the pictures", || secure.server.count("hall", "bytes_in") > 0);
    assert_eq!(secure.server.stream("hall").unwrap()["peers"][0]["protocol"], "rtmps");
    client.send_pictures(3..5);
    let mut plain = TcpStream::connect(rtmps).unwrap();
    plain.set_read_timeout(Some(PATIENCE)).unwrap();
    plain.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = plain.read_to_end(&mut Vec::new());
    until("a broken connection", || {
        secure.server.metrics().sum("glassline_rtmp_broken_total", "") as u64 >= 1
    });
}

#[test]
fn a_publisher_needs_the_key_and_is_told_so() {
    let served = serve(KEY);
    let mut client = served.client();
    client.open("live");
    let (code, words) = client.publish("hall?key=another");
    assert_eq!(code, "NetStream.Publish.Denied");
    assert!(words.contains("key"), "{words}");
    assert!(is_over(&mut client));
    for (app, name) in [("live", "hall?key=a-publish-key"), ("live?key=a-publish-key", "stage")] {
        let mut client = served.client();
        client.open(app);
        assert_eq!(client.publish(name).0, "NetStream.Publish.Start");
    }
    let mut client = served.client();
    client.open("live");
    assert_eq!(client.publish("no name?key=a-publish-key").0, "NetStream.Publish.Denied");
    let mut client = served.client();
    client.open("vod");
    let (code, words) = client.status().unwrap();
    assert_eq!(code, "NetConnection.Connect.InvalidApp");
    assert!(words.contains("/live"), "{words}");
    let mut client = served.client();
    client.open("live");
    client.send(&chunk(
        COMMAND,
        0,
        1,
        &amf(&[Amf::Text("play"), Amf::Number(0.0), Amf::Null, Amf::Text("hall")]),
    ));
    let (code, words) = client.status().unwrap();
    assert_eq!(code, "NetStream.Play.Failed");
    assert!(words.contains("not offered"), "{words}");
    assert!(is_over(&mut client));
    until("the refusals", || served.metric("refused_total") == 4);
}

#[test]
fn a_second_publisher_is_refused_over_rtmp_unless_it_takes_over() {
    let served = serve("");
    let mut first = served.client();
    first.publish_live("one");
    first.send_pictures(0..2);
    let mut second = served.client();
    second.open("live");
    let (code, words) = second.publish("one");
    assert_eq!(code, "NetStream.Publish.Denied");
    assert!(words.contains("takeover=1"), "{words}");
    assert!(is_over(&mut second));
    // One over HTTP gets the same answer.
    assert_eq!(read_head(&mut publish(served.server.address(), "/live/one.ts")).status, 409);
    let mut third = served.client();
    third.publish_live("one?takeover=1");
    first.send_pictures(2..3);
    let (code, words) = first.status().unwrap();
    assert_eq!(
        (code.as_str(), words.as_str()),
        ("NetStream.Publish.Denied", "another publisher has taken the name over")
    );
    assert!(is_over(&mut first));
    third.send_pictures(0..2);
    until("the new one", || served.server.count("one", "publishers") == 2);
}

#[test]
fn a_codec_that_is_not_carried_is_named() {
    let served = serve("");
    for (kind, tag, name) in [(VIDEO, &[0x24, 1, 2, 3][..], "VP6"), (rtmp::AUDIO, b"\x90fLaC1234", "FLAC")] {
        let mut client = served.client();
        client.publish_live("odd");
        client.send(&chunk(kind, 0, 1, tag));
        let (code, words) = client.status().unwrap();
        assert_eq!(code, "NetStream.Publish.Rejected");
        assert!(words.contains(name) && words.contains("publish "), "{words}");
        assert!(is_over(&mut client));
        until("the name is free", || served.metric("publishers") == 0);
    }
    until("both to be told", || {
        let said = served.server.process.output();
        said.contains("the pictures are VP6") && said.contains("the sound is FLAC")
    });
}

#[test]
fn times_that_jump_make_a_seam_and_a_silent_publisher_gives_its_name_up() {
    let served = serve("[publish]\nsilence_timeout = '1s'\nreturn_window = '0s'\n");
    let mut client = served.client();
    client.publish_live("jump");
    client.send_pictures(100_000..100_003);
    until("pictures", || served.server.count("jump", "bytes_in") > 0);
    client.send_pictures(0..3);
    // The seam begins the stream anew: another session, as if another publisher had come.
    until("a seam", || served.server.count("jump", "publishers") == 2);
    let (code, words) = client.status().unwrap();
    assert_eq!(code, "NetStream.Publish.Rejected");
    assert!(words.contains("nothing came"), "{words}");
    assert!(is_over(&mut client));
    assert_eq!(served.metric("timed_out_total"), 1);
}

/// Fills a socket's way with bytes until the peer ends the connection.
fn is_ended_by(served: &Served, bytes: &[u8]) {
    let mut client = served.client();
    // It may be ended while it still sends.
    let _ = client.stream.write_all(bytes);
    let _ = client.stream.read_to_end(&mut Vec::new());
}

#[test]
fn peers_that_mean_harm_are_ended_and_others_go_on() {
    let served = serve("");
    let mut good = served.client();
    good.publish_live("good");
    good.send_pictures(0..2);
    let connect = amf(&[Amf::Text("connect"), Amf::Number(1.0)]);
    let nested = [&connect[..], &b"\x03\0\x01a".repeat(10)].concat();
    let harmful = [
        // A chunk size of 2^31; none; a message of 16 MiB before there is a publisher; a header that continues nothing.
        chunk(rtmp::SET_CHUNK_SIZE, 0, 0, &0x8000_0000_u32.to_be_bytes()),
        chunk(rtmp::SET_CHUNK_SIZE, 0, 0, &[0; 4]),
        vec![6, 0, 0, 0, 0xff, 0xff, 0xff, 9, 1, 0, 0, 0],
        vec![0xc7, 0xff],
        // Values within values, more of them than there may be, a length that is not there.
        [
            chunk(rtmp::SET_CHUNK_SIZE, 0, 0, &4096u32.to_be_bytes()),
            chunk(COMMAND, 0, 0, &[&nested[..], &b"\x03\0\x01a".repeat(20)].concat()),
        ]
        .concat(),
        chunk(COMMAND, 0, 0, &[&connect[..], &b"\x0a\xff\xff\xff\xff"[..], &[5; 60]].concat()),
        // More chunk streams than there may be, each with a message that is not whole.
        (3..60)
            .flat_map(|stream| [&[stream, 0, 0, 0, 0, 1, 0, 9, 1, 0, 0, 0][..], &[0; 128]].concat())
            .collect(),
    ];
    for bytes in &harmful {
        is_ended_by(&served, bytes);
    }
    until("all of them", || served.metric("broken_total") == harmful.len() as u64);
    // Another protocol.
    let mut stranger = TcpStream::connect(served.rtmp).unwrap();
    stranger.set_read_timeout(Some(PATIENCE)).unwrap();
    stranger.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let _ = stranger.read_to_end(&mut Vec::new());
    until("the stranger", || served.metric("broken_total") == harmful.len() as u64 + 1);
    good.send_pictures(2..4);
    assert_eq!(served.metric("publishers"), 1);
    assert_eq!(served.server.metrics().sum("glassline_panics_total", "") as u64, 0);
    assert_eq!(get(served.server.address(), "/healthz").status, 200);
}

#[test]
fn a_flood_of_half_open_connections_leaves_room_for_a_publisher() {
    let served = serve("");
    // Without a byte, within the handshake, and behind it.
    let silent: Vec<TcpStream> = (0..152).map(|_| TcpStream::connect(served.rtmp).unwrap()).collect();
    for mut stream in silent.iter().take(10) {
        stream.write_all(&[3; 100]).unwrap();
    }
    until("those that are too many", || served.metric("crowded_out_total") == 24);
    // Those that were admitted time out, and then a publisher has its place.
    until("the others", || served.metric("timed_out_total") == 128);
    let mut client = served.client();
    client.publish_live("late");
    client.send_pictures(0..2);
    until("its pictures", || served.server.count("late", "bytes_in") > 0);
}

#[test]
fn listeners_change_by_a_reload_and_publishers_stay() {
    let (first, second) = (free_address(), free_address());
    let scratch = Scratch::new("rtmp-reload");
    let file = scratch.write("glassline.toml", format!("[rtmp]\nlisten = ['{first}']\n"));
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let mut client = Client::connect(first);
    client.publish_live("stay");
    client.send_pictures(0..2);
    let change = |text: String| {
        scratch.write("glassline.toml", text);
        server.process.signal("HUP");
    };
    change(format!("[rtmp]\nlisten = ['{second}']\n"));
    until("the new listener", || TcpStream::connect(second).is_ok());
    until("the end of the old one", || TcpStream::connect(first).is_err());
    let before = server.count("stay", "bytes_in");
    client.send_pictures(2..6);
    until("the publisher's pictures", || server.count("stay", "bytes_in") > before);
    Client::connect(second).publish_live("new");
    // An address that is taken changes nothing.
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    change(format!("[rtmp]\nlisten = ['{}']\n", taken.local_addr().unwrap()));
    until("the complaint", || server.process.output().contains("[rtmp]: cannot listen on"));
    assert!(TcpStream::connect(second).is_ok());
    // Off.
    change(String::new());
    until("no listener", || TcpStream::connect(second).is_err());
    until("no publishers", || server.metrics().sum("glassline_rtmp_publishers", "") as u64 == 0);
}

#[test]
fn a_server_says_what_is_wrong_with_its_listeners() {
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let scratch = Scratch::new("rtmp-taken");
    let text = format!("listen = ['127.0.0.1:0']\n[rtmp]\nlisten = ['{}']\n", taken.local_addr().unwrap());
    let file = scratch.write("glassline.toml", text);
    let outcome = run(GLASSLINE, &["serve", "--config", &file], 20);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("[rtmp]: cannot listen on"), "{}", outcome.stderr);
    let file = scratch.write("tls.toml", "[rtmp]\ntls_listen = ['127.0.0.1:1936']\n");
    let outcome = run(GLASSLINE, &["serve", "--test-config", "--config", &file], 20);
    assert_eq!(outcome.status, Some(2));
    assert!(outcome.stderr.contains("rtmp.tls_listen: needs a certificate"), "{}", outcome.stderr);
}

#[test]
fn an_upgrade_goes_on_with_rtmp() {
    let rtmp = free_address();
    let scratch = Scratch::new("rtmp-upgrade");
    let file = scratch.write("glassline.toml", format!("[rtmp]\nlisten = ['{rtmp}']\n"));
    let mut old = Server::start(GLASSLINE, &["--config", &file]);
    let mut client = Client::connect(rtmp);
    client.publish_live("up");
    client.send_pictures(0..2);
    let listen = old.address().to_string();
    let arguments = ["serve", "--listen", &listen, "--config", &file, "--upgrade"];
    let mut new = Running::start(std::process::Command::new(GLASSLINE).args(arguments));
    until("the new process", || new.output().contains("RTMP publishers are served"));
    assert_eq!(old.process.wait().code(), Some(0));
    // The publisher is ended, and comes back as encoders do.
    let mut rest = Vec::new();
    let _ = client.stream.read_to_end(&mut rest);
    let mut client = Client::connect(rtmp);
    client.publish_live("up");
    client.send_pictures(0..2);
    assert!(new.ended().is_none());
}
