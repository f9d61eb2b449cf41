//! `encode`'s outputs: datagrams, HTTPS, MP4, several at once, and what can be asked of it as it runs.

use crate::{GLASSLINE, glassline, serve};
use glassline_media::container::ts::{PACKET_BYTES, Packet};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::{PATIENCE, until, until_some};
use serde_json::Value;
use socket2::{Domain, Socket, Type};
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::process::Command;

fn encode(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).arg("encode").args(arguments))
}

fn receive(socket: &UdpSocket) -> Vec<u8> {
    let mut buffer = [0; 2000];
    let count = socket.recv(&mut buffer).unwrap();
    buffer[..count].to_vec()
}

fn socket() -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    socket
}

/// The stream's clock in a datagram, 90 kHz.
fn clock(packets: &[u8]) -> Option<u64> {
    packets
        .as_chunks::<PACKET_BYTES>()
        .0
        .iter()
        .find_map(|packet| Some(Packet::parse(packet).ok()?.pcr()?.base()))
}

#[test]
fn datagrams_are_as_the_address_says() {
    let (bare, rtp) = (socket(), socket());
    let address = |socket: &UdpSocket| socket.local_addr().unwrap();
    let urls = [format!("udp://{}?packets=3&ttl=2", address(&bare)), format!("rtp://{}", address(&rtp))];
    let _encoder = encode(&["test:320x180@25", &urls[0], &urls[1]]);
    let mut longest = 0;
    for _ in 0..50 {
        let datagram = receive(&bare);
        assert!(datagram.len().is_multiple_of(PACKET_BYTES) && datagram[0] == 0x47);
        longest = longest.max(datagram.len());
    }
    assert_eq!(longest, 3 * PACKET_BYTES);
    let mut last: Option<(u16, u32)> = None;
    let mut clocks: Vec<(u64, u32)> = Vec::new();
    while clocks.len() < 10 {
        let datagram = receive(&rtp);
        let (header, packets) = datagram.split_at(12);
        assert_eq!((header[0], header[1] & 0x7F, packets[0]), (0x80, 33, 0x47));
        let sequence = u16::from_be_bytes(header[2..4].try_into().unwrap());
        let stamp = u32::from_be_bytes(header[4..8].try_into().unwrap());
        if let Some((before, earlier)) = last {
            assert_eq!(sequence, before.wrapping_add(1));
            assert!(stamp.wrapping_sub(earlier) < 90_000, "never back: {stamp} after {earlier}");
        }
        last = Some((sequence, stamp));
        clocks.extend(clock(packets).map(|clock| (clock, stamp)));
    }
    // Up to an offset, the stamp is the clock.
    let offset = clocks[0].1.wrapping_sub(clocks[0].0 as u32);
    assert!(clocks.iter().all(|(clock, stamp)| stamp.wrapping_sub(*clock as u32) == offset), "{clocks:?}");
}

#[test]
fn a_group_is_reached_by_the_interface_that_is_named() {
    let group = Ipv4Addr::new(239, 255, 78, 9);
    let socket = Socket::new(Domain::IPV4, Type::DGRAM, None).unwrap();
    socket.set_reuse_address(true).unwrap();
    socket.bind(&SocketAddr::from((group, 0)).into()).unwrap();
    socket.join_multicast_v4(&group, &Ipv4Addr::LOCALHOST).unwrap();
    let socket = UdpSocket::from(socket);
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let url = format!("udp://{}?interface=lo", socket.local_addr().unwrap());
    let _encoder = encode(&["test:320x180@25", &url]);
    assert_eq!(receive(&socket)[0], 0x47);
    let outcome = glassline(&["encode", "test:320x180@25", "udp://239.1.2.3:5000?interface=nowhere0"]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains("nowhere0"), "{}", outcome.stderr);
    let outcome = glassline(&["encode", "test:320x180@25", "udp://10.0.0.1:5000?pkt_size=1316"]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("another option"), "{}", outcome.stderr);
}

#[test]
fn it_is_published_over_https_to_whom_is_trusted() {
    let (identity, folder) = (Identity::new(&["127.0.0.1"]), Scratch::new("encode-https"));
    identity.write(&folder, "one");
    let config = "listen = ['127.0.0.1:0']\n[tls]\nlisten = ['127.0.0.1:0']\n\
                  certificates = [{ chain = 'one.pem', key = 'one.key' }]\n[publish]\nkey = 'publish-secret'\n";
    let file = folder.write("glassline.toml", config);
    let server = serve(&["--config", &file]);
    let output = server.process.output();
    let (_, rest) = output.split_once("https://").unwrap();
    let url = format!("https://{}/live/s.ts", rest.split('/').next().unwrap());
    let key = folder.write("publish.key", "publish-secret\n");
    let ca = folder.file("one.pem");
    let mut encoder = encode(&["test:320x180@25", &url, "--publish-key-file", &key, "--ca", &ca]);
    server.wait_for_pictures("s");
    encoder.signal("TERM");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());

    let refused = |arguments: &[&str]| {
        let outcome = glassline(&[&["encode", "test:320x180@25", &url], arguments].concat());
        assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
        outcome.stderr
    };
    let other = folder.write("other.pem", &Identity::new(&["127.0.0.1"]).chain);
    let told = refused(&["--publish-key-file", &key, "--ca", &other]);
    assert!(told.contains("certificate") && told.contains("--ca"), "{told}");
    let told = refused(&["--ca", &ca]);
    assert!(told.contains("401") && told.contains("--publish-key-file"), "{told}");
    let outcome = glassline(&["encode", "test:320x180@25", &url, "--ca", &folder.file("none.pem")]);
    assert!(outcome.status == Some(2) && outcome.stderr.contains("check --ca"), "{}", outcome.stderr);
    // The system's roots come from where the variable says.
    let mut command = Command::new(GLASSLINE);
    command.args(["encode", "test:320x180@25", &url, "--publish-key-file", &key]).env("SSL_CERT_FILE", &ca);
    let _encoder = Running::start(&mut command);
    until("the stream", || server.stream("s").is_some_and(|stream| stream["publishers"] == 2));
}

/// Asks the encoder that listens at `path`.
fn ask(path: &str, command: &str) -> Value {
    let mut stream = until_some("the socket", || UnixStream::connect(path).ok());
    writeln!(stream, "{command}").unwrap();
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line}"))
}

#[test]
fn an_encoder_is_controlled_by_its_socket() {
    let scratch = Scratch::new("control");
    let path = scratch.file("control");
    let mut encoder =
        encode(&["test:320x180@25", "null:", "--keyint", "1h", "--bitrate", "1M", "--control", &path]);
    let rendition = || ask(&path, "status")["renditions"][0].clone();
    let points = || rendition()["random_access_points"].as_u64().unwrap();
    until("pictures", || rendition()["pictures"].as_u64() > Some(3));
    assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    let before = points();
    assert_eq!(ask(&path, "keyframe")["ok"], true);
    until("the key frame", || points() == before + 1);
    assert_eq!(rendition()["bitrate_bps"], 1_000_000);
    assert_eq!(ask(&path, "bitrate 300k")["ok"], true);
    until("the other rate", || rendition()["bitrate_bps"] == 300_000);
    assert_eq!(points(), before + 1, "without a key frame");
    let refused = ask(&path, "bitrate 300");
    assert!(refused["ok"] == false && refused["error"].as_str().unwrap().contains("unit"), "{refused}");
    let outputs = ask(&path, "status")["outputs"].clone();
    assert_eq!(
        (&outputs[0]["output"], &outputs[0]["state"]),
        (&Value::from("null:"), &Value::from("sending"))
    );
    let second = glassline(&["encode", "test:320x180@25", "null:", "--control", &path]);
    assert!(second.status == Some(2) && second.stderr.contains("listens there"), "{}", second.stderr);
    encoder.signal("TERM");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
    assert!(!std::path::Path::new(&path).exists(), "the socket goes with its encoder");
}

#[test]
fn a_relays_restart_costs_one_key_frame() {
    let scratch = Scratch::new("restart");
    let path = scratch.file("control");
    let mut server = serve(&[]);
    let (address, url) = (server.address(), server.url("/live/on.ts"));
    let mut encoder = encode(&["test:320x180@25", &url, "--keyint", "1h", "--control", &path]);
    let count = |what: &str| ask(&path, "status")["renditions"][0][what].as_u64().unwrap();
    // The server has a picture's first slice before the encoder counts the picture.
    let points = |server: &Server| {
        server.wait_for_pictures("on");
        let pictures = count("pictures");
        until("pictures behind those", || count("pictures") > pictures + 1);
        count("random_access_points")
    };
    let connections = |encoder: &Running| encoder.output().matches("publishing to").count() as u64;
    let (before, made) = (points(&server), connections(&encoder));
    server.process.kill();
    drop(server);
    server = Server::start_at(GLASSLINE, &address.to_string(), &[]);
    // A connection that is made in the moment in which the address changes hands is lost again.
    assert_eq!(points(&server) - before, connections(&encoder) - made, "{}", encoder.output());
    assert!(encoder.ended().is_none());
}

#[test]
fn a_slow_and_a_failing_output_do_not_hold_the_others() {
    // One accepts and takes nothing, one refuses.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = serve(&[]);
    let scratch = Scratch::new("several");
    let (path, file) = (scratch.file("control"), scratch.file("good.ts"));
    let slow = format!("http://{}/live/slow.ts", silent.local_addr().unwrap());
    let refused = server.url("/live/bad name.ts").replace(' ', "%20");
    let arguments = [
        "test:640x360@50",
        &file,
        &slow,
        &refused,
        "--bitrate",
        "20M",
        "--preset",
        "ultrafast",
        "--control",
        &path,
    ];
    let mut encoder = encode(&arguments);
    let outputs = || ask(&path, "status")["outputs"].clone();
    let state = |index: usize| outputs()[index]["state"].as_str().unwrap().to_owned();
    until("the refusal", || state(2) == "failed");
    until("pictures to be left out", || outputs()[1]["left_out"].as_u64() > Some(0));
    assert_eq!(state(0), "sending");
    let bytes = || outputs()[0]["bytes"].as_u64().unwrap();
    let before = bytes();
    until("more in the file", || bytes() > before + 100_000);
    encoder.signal("TERM");
    // The one that failed is not forgotten.
    assert_eq!(encoder.wait().code(), Some(1), "{}", encoder.output());
    assert!(encoder.output().contains("the other outputs go on"), "{}", encoder.output());
    assert_eq!(std::fs::metadata(&file).unwrap().len() % 188, 0);
    assert_eq!(get(server.address(), "/healthz").status, 200);
}
