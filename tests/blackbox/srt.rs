//! SRT: publishers and viewers at the server, streams from one server to another, what strangers are told.

use crate::link::said;
use crate::{GLASSLINE, glassline, serve_with};
use glassline_media::Time;
use glassline_test_support::http::{connect, get, publish, read_head};
use glassline_test_support::loopback::free_udp;
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{PATIENCE, until};
use glassline_transport::srt::{Caller, Settings};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::process::Command;

const SHAPE: Shape = Shape { packets: 60, group: 10 };

/// A server that takes SRT, and where.
fn server(scratch: &Scratch, more: &str) -> (Server, String) {
    let text = format!("[srt]\nlisten = ['127.0.0.1:0']\nlatency = '20ms'\n{more}");
    let file = scratch.write("server.toml", text);
    let mut server = Server::start(GLASSLINE, &["--config", &file]);
    let address = said(&mut server.process, "SRT is served address=");
    (server, address)
}

fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).args(arguments))
}

fn watch(server: &Server, name: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

fn peers(server: &Server, name: &str) -> Vec<serde_json::Value> {
    server.stream(name).and_then(|stream| stream["peers"].as_array().cloned()).unwrap_or_default()
}

#[test]
fn an_encoder_publishes_by_srt_and_a_viewer_reads_by_it() {
    let scratch = Scratch::new("srt");
    let (server, address) = server(&scratch, "");
    let to = format!("srt://{address}?streamid=publish:hall&latency=20");
    let mut encoder = start(&["encode", "test:64x64@25", &to]);
    server.wait_for_pictures("hall");
    let mut packets = vec![0; 188 * 200];
    watch(&server, "hall").read_exact(&mut packets).unwrap();
    assert!(packets.chunks(188).all(|packet| packet[0] == 0x47));
    assert_eq!(server.count("hall", "continuity_errors"), 0);
    until("the publisher among the peers", || {
        peers(&server, "hall").iter().any(|peer| peer["role"] == "publish" && peer["protocol"] == "srt")
    });
    let from = format!("srt://{address}?streamid=read:hall&latency=20");
    let probed = glassline(&["probe", &from, "--json", "--duration", "2s"]);
    assert_eq!(probed.status, Some(0), "{}", probed.stderr);
    let report: serde_json::Value = serde_json::from_slice(&probed.stdout).unwrap();
    assert!(report.to_string().contains("H.264"), "{report}");
    // No other publisher gets the name, by neither door.
    assert_eq!(read_head(&mut publish(server.address(), "/live/hall.ts")).status, 409);
    let mut other = start(&["encode", "test:64x64@25", &to]);
    until("the other is told", || other.output().contains("another publisher has the name"));
    other.signal("INT");
    assert_eq!(other.wait().code(), Some(1), "{}", other.output());
    // The encoder ends well: all has arrived.
    encoder.signal("INT");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
    until("the name is free", || server.stream("hall").is_none_or(|stream| stream["live"] == false));
}

#[test]
fn a_stream_goes_from_one_server_to_another_whole_and_heals_when_that_restarts() {
    let scratch = Scratch::new("srt-servers");
    let port = free_udp().port();
    let text = format!("[srt]\nlisten = ['127.0.0.1:{port}']\n");
    let file = scratch.write("far.toml", text);
    let far = Server::start(GLASSLINE, &["--config", &file]);
    let url = format!("srt://127.0.0.1:{port}");
    let (near, _near) =
        serve_with(&format!("[stream.stage]\noutputs = ['{url}?streamid=publish:stage&latency=60']\n"));
    let mut publisher = publish(near.address(), "/live/stage.ts");
    let mut number = 0;
    until("the stream at the far server", || {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        far.count("stage", "bytes_in") > 0
    });
    let (mut viewer, mut check) = (watch(&far, "stage"), Check::new(SHAPE));
    let (mut buffer, first) = (vec![0; 64 << 10], number);
    while number < first + 100 || check.packets < 50 * SHAPE.packets {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        let count = viewer.read(&mut buffer).unwrap();
        check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert_eq!(far.count("stage", "continuity_errors"), 0);
    let output = near.stream("stage").unwrap()["outputs"][0].clone();
    assert_eq!(
        (&output["url"], &output["sending"]),
        (&format!("{url}?streamid=publish:stage").into(), &true.into()),
        "{output}"
    );
    drop(far);
    let far = Server::start(GLASSLINE, &["--config", &file]);
    until("the stream at the server that is back", || {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        far.count("stage", "bytes_in") > 0
    });
}

#[test]
fn a_source_by_srt_is_called_or_calls() {
    let scratch = Scratch::new("srt-source");
    let (origin, address) = server(&scratch, "");
    let port = free_udp().port();
    let (edge, _edge) = serve_with(&format!(
        "[stream.called]\nsource = 'srt://{address}?streamid=read:hall&latency=20'\n\
         [stream.calls]\nsource = 'srt://127.0.0.1:{port}?mode=listener&latency=20'\n"
    ));
    let state = |name: &str| edge.stream(name).unwrap()["source"]["state"].clone();
    until("the source has nothing yet", || state("called") == "waiting");
    let _first =
        start(&["encode", "test:64x64@25", &format!("srt://{address}?streamid=publish:hall&latency=20")]);
    let _second = start(&["encode", "test:64x64@25", &format!("srt://127.0.0.1:{port}?latency=20")]);
    for name in ["called", "calls"] {
        edge.wait_for_pictures(name);
        assert_eq!(state(name), "live");
        assert_eq!(edge.count(name, "continuity_errors"), 0);
    }
    assert_eq!(origin.count("hall", "viewers"), 1, "the edge is a viewer");
}

#[test]
fn keys_and_passphrases_are_those_of_all_doors() {
    let scratch = Scratch::new("srt-keys");
    let secret = scratch.write("passphrase.key", "correct horse\n");
    let (server, address) = server(
        &scratch,
        &format!(
            "passphrase_file = '{secret}'\n[publish]\nkey = 'a-publish-key'\n[viewer]\nkey = 'a-viewer-key'\n"
        ),
    );
    let viewer_key = scratch.write("viewer.key", "a-viewer-key\n");
    let refused = |query: &str, why: &str| {
        let outcome = glassline(&["probe", &format!("srt://{address}?{query}"), "--duration", "1s"]);
        let said = outcome.stderr;
        assert!(outcome.status == Some(1) && said.contains(why), "{query}: {said}");
        assert!(!said.contains("horse") && !said.contains("a-viewer-key"), "{said}");
    };
    let with = "passphrase=correct%20horse&latency=20";
    refused("streamid=read:hall", "passphrase");
    refused("streamid=read:hall&passphrase=battery%20staple", "the passphrase is wrong");
    refused(&format!("{with}&streamid=read:hall"), "key or token");
    refused(&format!("{with}&streamid=read:hall:a-publish-key"), "key or token");
    refused(&format!("{with}&streamid=read:hall:a-viewer-key"), "no such stream");
    let to = format!("srt://{address}?{with}&pbkeylen=32&streamid=%23!::r=hall,m=publish,s=a-publish-key");
    let _encoder = start(&["encode", "test:64x64@25", &to]);
    server.wait_for_pictures("hall");
    let signed =
        glassline(&["sign", &format!("srt://{address}?streamid=read:hall"), "--key-file", &viewer_key]);
    let signed = format!("{}&{with}", signed.text().trim());
    assert!(signed.contains("streamid=read:hall:") && !signed.contains("a-viewer-key"), "{signed}");
    for from in [signed, format!("srt://{address}?{with}&streamid=read:hall:a-viewer-key")] {
        let probed = glassline(&["probe", &from, "--duration", "1s"]);
        assert_eq!(probed.status, Some(0), "{}", probed.stderr);
    }
    let log = server.process.output();
    assert!(
        !log.contains("a-publish-key") && !log.contains("a-viewer-key") && !log.contains("horse"),
        "{log}"
    );
}

/// Nothing of these is kept, and little is answered.
#[test]
fn strangers_datagrams_cost_the_server_nothing() {
    let scratch = Scratch::new("srt-strangers");
    let (server, address) = server(&scratch, "max_connections = 2\n");
    let address: SocketAddr = address.parse().unwrap();
    let stranger = UdpSocket::bind("127.0.0.1:0").unwrap();
    stranger.set_nonblocking(true).unwrap();
    let memory = server.own_memory_bytes();
    let (mut sent, mut got, mut state) = (0usize, 0usize, 1u64);
    let mut answer = [0; 2048];
    for round in 0..60_000u32 {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        // Inductions, conclusions with cookies of chance, data and control packets of no connection.
        let mut datagram = vec![0u8; 64 + (round % 5) as usize * 100];
        let (first, kind) = match round % 4 {
            0 => (0x8000_0000u32, 1u32),
            1 => (0x8000_0000, 0xffff_ffff),
            2 => (0x8002_0000, 7),
            _ => (round, 9),
        };
        datagram[..4].copy_from_slice(&first.to_be_bytes());
        datagram[16..20].copy_from_slice(&(4 + (round & 1)).to_be_bytes());
        datagram[22..24].copy_from_slice(&2u16.to_be_bytes());
        datagram[36..40].copy_from_slice(&kind.to_be_bytes());
        datagram[44..48].copy_from_slice(&((state >> 32) as u32).to_be_bytes());
        if round % 4 >= 2 {
            datagram[12..16].copy_from_slice(&((state >> 32) as u32).to_be_bytes());
        }
        if stranger.send_to(&datagram, address).is_ok() {
            sent += datagram.len();
        }
        while let Ok(count) = stranger.recv(&mut answer) {
            got += count;
        }
    }
    assert!(got <= sent, "{got} bytes were answered to {sent}");
    // It serves as before.
    let to = format!("srt://{address}?streamid=publish:hall&latency=20");
    let _encoder = start(&["encode", "test:64x64@25", &to]);
    server.wait_for_pictures("hall");
    let grown = server.own_memory_bytes().saturating_sub(memory);
    assert!(grown < 96 << 20, "{grown} bytes");
}

#[test]
fn a_silent_publisher_gives_its_name_up() {
    let scratch = Scratch::new("srt-silent");
    let (server, address) = server(&scratch, "[publish]\nsilence_timeout = '1s'\n");
    let to = format!("srt://{address}?streamid=publish:hall&latency=20");
    let encoder = start(&["encode", "test:64x64@25", &to]);
    server.wait_for_pictures("hall");
    encoder.signal("STOP");
    until("the name is free", || server.stream("hall").is_none_or(|stream| stream["live"] == false));
    encoder.signal("CONT");
    until("it is back", || server.stream("hall").is_some_and(|stream| stream["live"] == true));
}

#[test]
fn the_latency_is_a_stage_of_the_budget() {
    let scratch = Scratch::new("srt-hold");
    let (server, address) = server(&scratch, "");
    let to = format!("srt://{address}?streamid=publish:hall&latency=120");
    let _encoder = start(&["encode", "test:64x64@25", &to]);
    server.wait_for_pictures("hall");
    let held_ms = |picture: &serde_json::Value| {
        let [received, released, flushed] =
            ["relay_received", "relay_released", "relay_flushed"].map(|stage| picture[stage].as_i64());
        assert!(released >= received && flushed >= released, "{picture}");
        (released.unwrap() - received.unwrap()) / 1000
    };
    let mut told = serde_json::Value::Null;
    until("pictures that were held back", || {
        told = get(server.address(), "/live/hall/stages.json").json();
        told["pictures"].as_array().is_some_and(|pictures| pictures.len() > 10)
    });
    let longest = told["pictures"].as_array().unwrap().iter().map(held_ms).max().unwrap();
    // A busy machine reads late, and the hold is shorter then.
    assert!((60..1000).contains(&longest), "{longest} ms: {told}");
    let latency = get(server.address(), "/api/streams/hall/latency").json();
    let step = latency["relay"].as_array().unwrap().last().unwrap();
    assert!(step["stages"]["hold"]["p50_us"].is_u64(), "{step}");
    let labels = "{stream=\"hall\",stage=\"relay_released\"";
    assert!(server.metrics().sum("glassline_relay_stage_seconds_count", labels) > 10.0);
}

#[test]
fn a_viewer_is_let_in_before_it_gets_anything() {
    let scratch = Scratch::new("srt-first");
    let (server, address) = server(&scratch, "");
    let _encoder = start(&["encode", "test:64x64@25", &format!("srt://{address}?streamid=publish:hall")]);
    server.wait_for_pictures("hall");
    let address: SocketAddr = address.parse().unwrap();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(PATIENCE)).unwrap();
    let mut caller = Caller::new(Settings::default(), "read:hall", address, [7; 32], Time::ZERO);
    let (mut out, mut datagram) = (Vec::new(), [0; 2048]);
    // The reference takes data in front of the answer for a lost answer, and asks again after a quarter of a second.
    for _ in 0..2 {
        while caller.poll_transmit(Time::ZERO, &mut out).is_some() {
            socket.send_to(&out, address).unwrap();
        }
        let count = socket.recv(&mut datagram).unwrap();
        assert_eq!(datagram[..2], [0x80, 0], "a handshake");
        caller.handle_datagram(Time::ZERO, &datagram[..count]);
    }
    assert!(caller.connection().is_some(), "{:?}", caller.error());
}

/// By the listener for all and by that of one source: what has the name, or the place, is asked, and does not answer.
#[test]
fn an_encoder_that_was_killed_gets_its_name_back() {
    let scratch = Scratch::new("srt-killed");
    let port = free_udp().port();
    let (server, address) = server(
        &scratch,
        &format!("[stream.called]\nsource = 'srt://127.0.0.1:{port}?mode=listener&latency=20'\n"),
    );
    for (name, to) in [
        ("hall", format!("srt://{address}?streamid=publish:hall&latency=20")),
        ("called", format!("srt://127.0.0.1:{port}?latency=20")),
    ] {
        let mut encoder = start(&["encode", "test:64x64@25", &to]);
        server.wait_for_pictures(name);
        encoder.kill();
        let before = server.count(name, "bytes_in");
        let mut encoder = start(&["encode", "test:64x64@25", &to]);
        until("the stream goes on", || {
            assert!(encoder.ended().is_none(), "{name}: {}", encoder.output());
            server.count(name, "bytes_in") > before + 20_000
        });
    }
    let said = server.process.output();
    assert!(said.contains("publisher was gone and came again"), "{said}");
    assert!(said.contains("source is not there: the peer has begun anew"), "{said}");
}
