//! Direct video in AV1 that is passed on as it came, and viewers that come later.

use crate::{GLASSLINE, glassline};
use glassline_media::Codec;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, bitstream};
use glassline_test_support::http;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::SocketAddr;
use std::process::Command;

const SOURCE: &str = "test:320x180@25";

fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).args(arguments))
}

/// A receiver into `output`, and the link to it.
fn receive(output: &str, arguments: &[&str]) -> (Running, String) {
    let mut running =
        start(&[&["receive", "link://127.0.0.1:0", output, "--insecure", "--json"], arguments].concat());
    let what = "listening address=";
    let link = until_some(what, || {
        let (output, ended) = (running.output(), running.ended());
        let found =
            output.split_once(what).and_then(|(_, rest)| rest.split_whitespace().next().map(str::to_owned));
        assert!(found.is_some() || ended.is_none(), "it ended with {ended:?}: {output}");
        found
    });
    (running, format!("link://{link}"))
}

/// A sender of AV1, and where its figures are.
fn send(scratch: &Scratch, link: &str) -> (Running, String) {
    let stats = scratch.file("send.jsonl");
    let options = ["--insecure", "--codec", "av1", "--speed", "10", "--stats", &stats];
    (start(&[&["send", SOURCE, link], &options[..]].concat()), stats)
}

/// What a sender tells newest of its pictures.
fn count(stats: &str, name: &str) -> u64 {
    let text = std::fs::read_to_string(stats).unwrap_or_default();
    let newest = text.lines().rev().find_map(|line| serde_json::from_str::<Value>(line).ok());
    newest.and_then(|line| line["video"][name].as_u64()).unwrap_or(0)
}

fn units_of(stream: &[u8]) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    let events = std::iter::from_fn(|| demuxer.poll());
    let units = events.filter_map(|event| match event {
        Event::AccessUnit { unit, .. } => Some(unit),
        _ => None,
    });
    units.collect()
}

/// What a viewer that comes now gets of a stream, up to `pictures` of them.
fn watch(server: SocketAddr, stream: &str, pictures: usize) -> Vec<AccessUnit> {
    let mut viewer = http::connect(server);
    write!(viewer, "GET /live/{stream}.ts HTTP/1.1\r\nHost: {server}\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(http::read_head(&mut viewer).status, 200);
    let (mut came, mut buffer) = (Vec::new(), vec![0; 188 * 64]);
    until_some("pictures for a viewer", || {
        let length = viewer.read(&mut buffer).unwrap();
        assert!(length > 0, "the stream has ended");
        came.extend_from_slice(&buffer[..length]);
        let units = units_of(&came);
        let is_enough = units.iter().filter(|unit| unit.codec.is_video()).count() >= pictures;
        is_enough.then_some(units)
    })
}

/// They begin with a key frame of AV1, and each says when it was captured; where there is sound, it is there too.
fn assert_av1(units: &[AccessUnit]) {
    let pictures: Vec<&AccessUnit> = units.iter().filter(|unit| unit.codec.is_video()).collect();
    assert!(pictures.iter().all(|unit| unit.codec == Codec::Av1));
    assert!(pictures[0].random_access && bitstream::is_key(Codec::Av1, &pictures[0].data));
    for unit in &pictures {
        let (mut head, _) = bitstream::head(Codec::Av1, &unit.data);
        let said = head.find_map(|nal| bitstream::messages(Codec::Av1, &nal)?.capture_utc());
        assert!(said.is_some(), "it says when it was captured");
    }
    let has_sound = units.iter().any(|unit| unit.codec == Codec::Opus);
    assert!(has_sound || cfg!(not(feature = "opus")));
}

#[test]
fn a_page_of_the_program_itself_gets_a_key_frame_when_a_viewer_comes_and_none_before() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "a_page_of_the_program_itself_gets_a_key_frame_when_a_viewer_comes_and_none_before",
            "built without x264",
        );
    }
    let scratch = Scratch::new("direct-av1-page");
    let (mut receiver, link) = receive("preview:127.0.0.1:0", &[]);
    let page = receiver.page_address();
    let (mut sender, stats) = send(&scratch, &link);
    // More than the two seconds that the sender keeps between key frames.
    until("pictures without a viewer", || count(&stats, "shown") > 100);
    assert_eq!(count(&stats, "key"), 1);
    assert_av1(&watch(page, "preview", 30));
    until("a key frame for the viewer", || count(&stats, "key") >= 2);
    let before = count(&stats, "shown");
    until("further pictures without a viewer", || count(&stats, "shown") > before + 130);
    let keys = count(&stats, "key");
    assert!(keys <= 3, "{keys} key frames");
    // Another viewer makes another one come.
    assert_av1(&watch(page, "preview", 60));
    until("a key frame for the other viewer", || count(&stats, "key") > keys);
    sender.signal("TERM");
    assert_eq!(sender.wait().code(), Some(0), "{}", sender.output());
    receiver.signal("TERM");
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
    assert!(!receiver.output().contains("ERROR"), "{}", receiver.output());
}

#[test]
fn a_relay_elsewhere_gets_av1_where_that_is_asked_for_with_key_frames_from_time_to_time() {
    let scratch = Scratch::new("direct-av1-relay");
    let server = Server::start(GLASSLINE, &[]);
    let (mut receiver, link) = receive(&server.url("/live/drone.ts"), &["--out-codec", "av1"]);
    let (mut sender, stats) = send(&scratch, &link);
    until("a second key frame", || count(&stats, "key") >= 2);
    let (keys, shown) = (count(&stats, "key"), count(&stats, "shown"));
    until("a further key frame", || count(&stats, "key") > keys);
    let between = count(&stats, "shown") - shown;
    assert!((70..=200).contains(&between), "{between} pictures from one to the next");
    assert_av1(&watch(server.address(), "drone", 30));
    let told = server.stream("drone").unwrap();
    assert!(told.to_string().contains("AV1"), "{told}");
    sender.signal("TERM");
    assert_eq!(sender.wait().code(), Some(0), "{}", sender.output());
    receiver.signal("TERM");
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
}

/// Sends two seconds of AV1 into a file.
fn send_into(file: &str, options: &[&str]) -> Value {
    let (mut receiver, link) = receive(file, &[&["--once"], options].concat());
    let sent = glassline(&[
        "send",
        SOURCE,
        &link,
        "--insecure",
        "--codec",
        "av1",
        "--speed",
        "10",
        "--duration",
        "2s",
        "--json",
    ]);
    assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
    serde_json::from_str(sent.text().trim()).unwrap()
}

#[test]
fn files_have_av1_as_it_came_or_h264_as_the_options_say() {
    let scratch = Scratch::new("direct-av1-files");
    let stream = scratch.file("passed.ts");
    let sent = send_into(&stream, &["--out-codec", "av1"]);
    assert_eq!(
        sent["key"].as_u64(),
        Some(1),
        "what is read from its beginning needs no further key frame: {sent}"
    );
    let units = units_of(&std::fs::read(&stream).unwrap());
    assert_av1(&units);
    assert!(units.iter().filter(|unit| unit.codec.is_video()).count() > 20);
    let looked = glassline(&["probe", &stream, "--json"]);
    assert!(looked.status == Some(0) && looked.text().contains("AV1"), "{} {}", looked.text(), looked.stderr);
    if cfg!(not(feature = "x264")) {
        return;
    }
    let contains = |path: &str, what: &[u8]| {
        let bytes = std::fs::read(path).unwrap();
        bytes.windows(what.len()).any(|window| window == what)
    };
    for (name, options, is_av1) in [
        ("plain.ts", &[][..], false),
        ("plain.mp4", &[], true),
        ("asked.mp4", &["--out-codec", "h264"], false),
        ("bitrate.mp4", &["--out-bitrate", "1M"], false),
    ] {
        let (path, is_stream) = (scratch.file(name), name == "plain.ts");
        send_into(&path, options);
        if is_stream {
            let units = units_of(&std::fs::read(&path).unwrap());
            assert!(units.iter().all(|unit| unit.codec != Codec::Av1), "{name}");
            assert!(units.iter().any(|unit| unit.codec == Codec::H264), "{name}");
        } else {
            assert_eq!((contains(&path, b"av1C"), contains(&path, b"avcC")), (is_av1, !is_av1), "{name}");
        }
    }
}

#[test]
fn a_file_of_frames_as_they_come_keeps_a_sender_that_may_choose_at_one_codec_and_size() {
    let scratch = Scratch::new("direct-av1-auto");
    let (file, decisions) = (scratch.file("kept.ivf"), scratch.file("decisions.jsonl"));
    let (mut receiver, link) = receive(&file, &["--once"]);
    let options = ["--insecure", "--codec", "auto", "--duration", "4s", "--json", "--decisions", &decisions];
    let sent = glassline(&[&["send", SOURCE, &link][..], &options].concat());
    assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
    let told: Value = serde_json::from_str(sent.text().trim()).unwrap();
    assert_eq!((told["codec"].as_str(), told["codec_changes"].as_u64()), (Some("av1"), Some(0)), "{told}");
    assert!(told["sent"].as_u64() > Some(20), "{told}");
    let decisions = std::fs::read_to_string(decisions).unwrap();
    for decision in decisions.lines().map(|line| serde_json::from_str::<Value>(line).unwrap()) {
        assert_eq!((&decision["codec"], &decision["size"]), (&"av1".into(), &"320x180".into()), "{decision}");
    }
    assert_eq!(std::fs::read(file).unwrap().get(8..12), Some(&b"AV01"[..]));
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let scratch = Scratch::new("direct-av1-refused");
    for (output, options, complaint) in [
        ("preview:127.0.0.1:0", &["--out-codec", "av1", "--out-bitrate", "3M"][..], "passes on what comes"),
        ("a.mp4", &["--out-codec", "av1", "--out-preset", "fast"], "passes on what comes"),
        ("a.webm", &["--out-codec", "h264"], "gets AV1 as it comes"),
        ("a.y4m", &["--out-codec", "av1"], "says how a stream is made"),
    ] {
        let output = if output.contains(':') { output.to_owned() } else { scratch.file(output) };
        let refused =
            glassline(&[&["receive", "link://127.0.0.1:0", &output, "--insecure"], options].concat());
        assert_eq!(refused.status, Some(2), "{output}: {}", refused.stderr);
        assert!(refused.stderr.contains(complaint), "{output}: {}", refused.stderr);
    }
    let (mut receiver, link) = receive(&scratch.file("a.ts"), &["--out-codec", "av1"]);
    let _sender = start(&["send", SOURCE, &link, "--insecure"]);
    assert_eq!(receiver.wait().code(), Some(1), "{}", receiver.output());
    assert!(receiver.output().contains("VP8 comes, and AV1 alone was asked for"), "{}", receiver.output());
}
