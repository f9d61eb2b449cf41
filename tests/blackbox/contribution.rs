//! MPEG-TS over a link: from an encoder to a relay, from a relay to another one, over two paths; and what is no stream.

use crate::link::{key, said};
use crate::pull::free_port;
use crate::{GLASSLINE, glassline, serve_with};
use glassline_test_support::http::{connect, publish, read_head};
use glassline_test_support::numbered::{Check, Shape};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{PATIENCE, until};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

const SHAPE: Shape = Shape { packets: 60, group: 10 };

/// A server with a stream that comes over a link, and the address of its listener.
fn relay(scratch: &Scratch, name: &str) -> (Server, String) {
    let key = key(scratch);
    let text = format!(
        "[stream.{name}]\nsource = 'link://127.0.0.1:0'\nlink_key_file = '{key}'\n[pull]\nsilence_timeout = '1s'\n"
    );
    let file = scratch.write(&format!("{name}.toml"), text);
    let mut server = Server::start(GLASSLINE, &["--config", &file]);
    let address = said(&mut server.process, "address=");
    (server, address)
}

fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).args(arguments))
}

fn source(server: &Server, name: &str) -> serde_json::Value {
    server.stream(name).expect("a stream with a source is listed")["source"].clone()
}

fn watch(server: &Server, name: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

#[test]
fn an_encoder_s_stream_comes_over_a_link_and_is_watched() {
    let scratch = Scratch::new("contribution");
    let (server, address) = relay(&scratch, "hall");
    assert_eq!(source(&server, "hall")["state"], "connecting");
    let (to, key) = (format!("link://{address}"), key(&scratch));
    let mut encoder = start(&["encode", "test:64x64@25", &to, "--key", &key]);
    server.wait_for_pictures("hall");
    let mut packets = vec![0; 188 * 200];
    watch(&server, "hall").read_exact(&mut packets).unwrap();
    assert!(packets.chunks(188).all(|packet| packet[0] == 0x47));
    assert_eq!(source(&server, "hall")["state"], "live");
    assert_eq!(server.count("hall", "continuity_errors"), 0);
    // No other publisher gets the name.
    let mut other = publish(server.address(), "/live/hall.ts");
    assert_eq!(read_head(&mut other).status, 409);
    // The encoder ends: the source is away. It comes back with another name of the same key.
    encoder.signal("INT");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
    until("the source is away", || source(&server, "hall")["state"] == "waiting");
    let _encoder = start(&["encode", "test:64x64@50", &to, "--key", &key]);
    until("it is back", || server.count("hall", "publishers") == 2);
}

#[test]
fn a_stream_of_one_server_is_sent_to_another_whole() {
    let scratch = Scratch::new("contribution-serve");
    let (far, address) = relay(&scratch, "stage");
    let key = key(&scratch);
    let url = format!("link://{address}");
    let (near, _near) = serve_with(&format!(
        "[stream.stage]\noutputs = ['{url}?key_file={key}&deadline=5s&path=127.0.0.1&path=127.0.0.2']\n"
    ));
    let mut publisher = publish(near.address(), "/live/stage.ts");
    let mut number = 0;
    until("the stream at the far server", || {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        source(&far, "stage")["state"] == "live" && far.count("stage", "bytes_in") > 0
    });
    let (mut viewer, mut check) = (watch(&far, "stage"), Check::new(SHAPE));
    let (mut buffer, first) = (vec![0; 64 << 10], number);
    while number < first + 200 || check.packets < 100 * SHAPE.packets {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        let count = viewer.read(&mut buffer).unwrap();
        check.push(&buffer[..count]).unwrap_or_else(|wrong| panic!("{wrong}"));
    }
    assert_eq!(far.count("stage", "continuity_errors"), 0);
    let output = near.stream("stage").unwrap()["outputs"][0].clone();
    assert_eq!((&output["url"], &output["sending"]), (&url.into(), &true.into()), "{output}");
    // The publisher comes back: the far server's viewers go on, behind a discontinuity that is marked.
    drop(publisher);
    until("the first is gone", || near.stream("stage").is_none_or(|stream| stream["live"] == false));
    let mut publisher = publish(near.address(), "/live/stage.ts");
    let before = far.count("stage", "bytes_in");
    until("the next publisher's stream", || {
        publisher.write_all(&SHAPE.picture(number)).unwrap();
        number += 1;
        far.count("stage", "bytes_in") > before + 100_000
    });
}

/// Whichever of two paths is there carries the stream; nothing of it is missing.
#[test]
fn two_paths_carry_a_stream_whatever_is_said_of_how() {
    let scratch = Scratch::new("contribution-paths");
    for bonding in [None, Some("both"), Some("sum"), Some("failover")] {
        let (server, address) = relay(&scratch, "hall");
        let (to, key) = (format!("link://{address}"), key(&scratch));
        let how = bonding.map(|how| ["--bonding", how]);
        let mut arguments =
            vec!["encode", "test:64x64@25", &to, "--key", &key, "--path=127.0.0.1", "--path=127.0.0.2"];
        arguments.extend(how.iter().flatten());
        let mut encoder = start(&arguments);
        server.wait_for_pictures("hall");
        until("both paths", || encoder.output().contains("a further path is there"));
        let before = server.count("hall", "bytes_in");
        until("the stream goes on", || server.count("hall", "bytes_in") > before + 100_000);
        assert_eq!(server.count("hall", "continuity_errors"), 0, "{bonding:?}");
        encoder.signal("INT");
        assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
    }
}

#[test]
fn a_peer_without_the_key_gets_no_link_and_garbage_no_stream() {
    let scratch = Scratch::new("contribution-bad");
    let (server, address) = relay(&scratch, "hall");
    let other = scratch.file("other.key");
    assert_eq!(glassline(&["key", "new", &other]).status, Some(0));
    let to = format!("link://{address}");
    let mut stranger = start(&["encode", "test:64x64@25", &to, "--key", &other]);
    // What is no run of TS packets, over a good link.
    let key = key(&scratch);
    let lines = scratch.write("lines", "no packet\n".repeat(500));
    let channel = format!("0:lines,in={lines}");
    let outcome = glassline(&[
        "link",
        "connect",
        &address,
        "--key",
        &key,
        "--channel",
        &channel,
        "--connect-timeout=30s",
    ]);
    assert_ne!(outcome.status, Some(2), "{}", outcome.stderr);
    until("garbage is counted", || source(&server, "hall")["garbage_bytes"].as_u64() > Some(500));
    until("the stranger is told", || stranger.output().contains("is the key the same"));
    assert_eq!(source(&server, "hall")["state"], "connecting");
    // It ends without having had a link, and says so.
    stranger.signal("INT");
    assert_eq!(stranger.wait().code(), Some(1), "{}", stranger.output());
    assert!(stranger.output().contains("the link was never up"), "{}", stranger.output());
}

#[test]
fn of_two_senders_the_first_has_the_name_until_it_goes() {
    let scratch = Scratch::new("contribution-two");
    let (server, address) = relay(&scratch, "hall");
    let (to, key) = (format!("link://{address}"), key(&scratch));
    let mut first = start(&["encode", "test:64x64@25", &to, "--key", &key]);
    server.wait_for_pictures("hall");
    let _second = start(&["encode", "test:64x64@50", &to, "--key", &key]);
    until("the second is not listened to", || server.process.output().contains("a further peer sends"));
    assert_eq!((server.count("hall", "publishers"), server.count("hall", "continuity_errors")), (1, 0));
    // It is killed: its link is silent, and the name is free.
    first.kill();
    until("the second has the name", || server.count("hall", "publishers") == 2);
    until("pictures of the second", || {
        server.count("hall", "continuity_errors") == 0 && source(&server, "hall")["state"] == "live"
    });
}

#[test]
fn what_is_wrong_with_a_link_is_said_with_its_place() {
    let scratch = Scratch::new("contribution-config");
    let (key, pair) = (key(&scratch), scratch.file("pair.key"));
    assert_eq!(glassline(&["key", "new", "--pair", &pair]).status, Some(0));
    let test = |text: &str| {
        let file = scratch.write("glassline.toml", text);
        let outcome = glassline(&["serve", "--config", &file, "--test-config"]);
        (outcome.status, outcome.stderr)
    };
    let port = free_port();
    for (text, said) in [
        (
            "[stream.a]\nsource = 'link://host:7000'\n".to_owned(),
            ":2: stream.a.source: a link as a source is an address",
        ),
        (
            format!("[stream.a]\nsource = 'link://127.0.0.1:{port}'\n"),
            ":2: stream.a.source: a link needs a key",
        ),
        ("[stream.a]\noutputs = ['link://h:7000']\n".to_owned(), ":2: stream.a.outputs: a link needs a key"),
        (format!("[stream.a]\nlink_key_file = '{key}'\n"), ":2: stream.a.link_key_file: belongs to a link"),
        ("[stream.a]\noutputs = ['link://h']\n".to_owned(), "a link wants a host and a port"),
        ("[stream.a]\noutputs = ['link://h:7000?latency=3']\n".to_owned(), "\"latency\" is another option"),
        (
            "[stream.a]\noutputs = ['link://h:7000?deadline=1m']\n".to_owned(),
            "out of range; from 20ms to 30s",
        ),
        (
            "[stream.a]\noutputs = ['link://h:7000?bonding=all']\n".to_owned(),
            "sum, both and failover are known",
        ),
        (format!("[stream.a]\nsource = 'link://127.0.0.1:{port}'\nlink_key_file = 'none.key'\n"), "none.key"),
        (
            format!("[stream.a]\nsource = 'link://127.0.0.1:{port}'\nlink_key_file = '{pair}'\n"),
            "is one half of a key pair",
        ),
        (
            format!(
                "[stream.a]\nsource = 'link://127.0.0.1:{port}'\nlink_key_file = '{key}'\n\
                 [stream.b]\nsource = 'link://127.0.0.1:{port}'\nlink_key_file = '{key}'\n"
            ),
            ":5: stream.b.source: is the address of stream.a, too",
        ),
        (
            format!("[stream.a]\nsource = 'link://127.0.0.1:{port}'\nlink_key_file = '{key}'\nmux = 'flv'\n"),
            "links carry MPEG-TS",
        ),
    ] {
        let (status, stderr) = test(&text);
        assert_eq!(status, Some(2), "{text}: {stderr}");
        assert!(stderr.contains(said), "{text}: {stderr}");
    }
    for (arguments, said) in [
        (&["link://127.0.0.1:9"][..], "needs a key"),
        (&["null:", "--key", &key], "no output is one"),
        (&["link://127.0.0.1", "--key", &key], "link://HOST:PORT"),
        (&["link://127.0.0.1:9", "--key", &key, "--deadline=1ms"], "out of range"),
        (&["link://127.0.0.1:9", "--key", &key, "--no-realtime"], "what is late is given up"),
        (&["link://127.0.0.1:9", "--key", &key, "--bonding=both"], "--path"),
    ] {
        let outcome = glassline(&[&["encode", "test:64x64@25"], arguments].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(said), "{arguments:?}: {}", outcome.stderr);
    }
}
