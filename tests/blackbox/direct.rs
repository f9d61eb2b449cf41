//! `send` and `receive`: live video over a link, each picture as large as the network takes.

use crate::{GLASSLINE, glassline};
use glassline_media::AccessUnit;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_test_support::http;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{until, until_some};
use serde_json::Value;
use std::io::{Read, Write};
use std::process::{Command, Stdio};

const SOURCE: &str = "test:320x180@25";

fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).args(arguments))
}

/// A receiver, and where it is.
pub(super) fn receive(address: &str, arguments: &[&str]) -> (Running, String) {
    let mut running = start(&[&["receive", &format!("link://{address}")], arguments].concat());
    let what = "listening address=";
    let address = until_some(what, || {
        let output = running.output();
        let ended = running.ended();
        let found =
            output.split_once(what).map(|(_, rest)| rest.split_whitespace().next().unwrap().to_owned());
        assert!(found.is_some() || ended.is_none(), "it ended with {ended:?}: {output}");
        found
    });
    (running, address)
}

/// The newest figures of a file of statistics.
fn newest(stats: &str) -> Option<Value> {
    let text = std::fs::read_to_string(stats).ok()?;
    text.lines().rev().find_map(|line| serde_json::from_str(line).ok())
}

/// How many pictures an end has shown, as its newest figures say.
fn shown(stats: &str) -> u64 {
    newest(stats).and_then(|line| line["video"]["shown"].as_u64()).unwrap_or(0)
}

fn lines(path: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn what_is_sent_is_shown_in_order_and_both_ends_tell_of_it() {
    let scratch = Scratch::new("direct");
    let key = scratch.file("direct.key");
    assert_eq!(glassline(&["key", "new", &key]).status, Some(0));
    let (film, stats, decisions) =
        (scratch.file("film.y4m"), scratch.file("receive.jsonl"), scratch.file("decisions.jsonl"));
    let said = scratch.file("said.txt");
    let (words, done) = (scratch.write("words.txt", "up\nleft\n"), scratch.file("done.txt"));
    let heard = format!("7:lines,out={said},in={words}");
    let (mut receiver, address) = receive(
        "127.0.0.1:0",
        &[&film, "--key", &key, "--once", "--json", "--stats", &stats, "--channel", &heard],
    );
    let channel = format!("7:lines,priority=0,in={words},out={done}");
    let sent = glassline(&[
        "send",
        SOURCE,
        &format!("link://{address}"),
        "--key",
        &key,
        "--limit",
        "100",
        "--decisions",
        &decisions,
        "--channel",
        &channel,
        "--json",
    ]);
    assert_eq!(sent.status, Some(0), "{}", sent.stderr);
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());

    let report: Value = serde_json::from_str(sent.text().trim()).unwrap();
    let count = |name: &str| report[name].as_u64().unwrap();
    assert_eq!((count("captured"), count("key"), count("mismatches")), (100, 1, 0), "{report}");
    assert!(count("sent") >= 50, "{report}");
    let output = receiver.output();
    let told = output.lines().find(|line| line.starts_with('{')).unwrap();
    let told: Value = serde_json::from_str(told).unwrap();
    assert_eq!((told["damaged"].as_u64(), told["size"].as_str()), (Some(0), Some("320x180")), "{told}");
    let pictures = told["shown"].as_u64().unwrap();
    assert!(pictures > 0 && pictures <= count("sent"), "{told} of {report}");
    for stage in ["queued", "encoded", "received", "reassembled", "decoded", "shown"] {
        assert!(told["stages_ms"][stage]["count"].as_u64() > Some(0), "{stage}: {told}");
    }

    // The film is what was shown, at the source's rate.
    let bytes = std::fs::read(&film).unwrap();
    assert!(bytes.starts_with(b"YUV4MPEG2 W320 H180 F25:1"), "{:?}", &bytes[..40]);
    let frames = (bytes.len() - 40) / (320 * 180 * 3 / 2);
    assert_eq!(frames as u64, pictures);
    // And of each picture it is told what was decided.
    let decisions = lines(&decisions);
    assert!(decisions.len() as u64 + count("replaced") == 100, "{}", decisions.len());
    let numbers: Vec<u64> = decisions.iter().filter_map(|line| line["number"].as_u64()).collect();
    assert!(numbers.is_sorted() && numbers.len() as u64 == count("sent"));
    // Beside the pictures, either way.
    for came in [said, done] {
        assert_eq!(std::fs::read_to_string(&came).unwrap(), "up\nleft\n", "{came}");
    }
}

#[cfg(feature = "av1")]
#[test]
fn av1_is_shown_as_it_was_sent_and_what_it_cannot_do_is_told() {
    let scratch = Scratch::new("direct");
    let (film, decisions) = (scratch.file("film.y4m"), scratch.file("decisions.jsonl"));
    let (mut receiver, address) = receive("127.0.0.1:0", &[&film, "--insecure", "--once", "--json"]);
    let to = format!("link://{address}");
    let options = ["--insecure", "--codec", "av1", "--duration", "2s", "--json", "--decisions", &decisions];
    let sent = glassline(&[&["send", SOURCE, &to][..], &options].concat());
    assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
    let (sent, shown) = (report(&sent.text()), report(&receiver.output()));
    let count = |report: &Value, name: &str| report[name].as_u64().unwrap();
    assert_eq!((count(&sent, "key"), count(&sent, "mismatches"), count(&shown, "damaged")), (1, 0, 0));
    let bytes = std::fs::read(&film).unwrap();
    let frames = (bytes.len() - 40) / (320 * 180 * 3 / 2);
    assert!(frames as u64 == count(&shown, "shown") && frames > 20, "{frames}: {shown}");
    // One encoding a picture, for the most part, each of them AV1's.
    let decisions = lines(&decisions);
    let encoded: usize = decisions.iter().map(|line| line["candidates"].as_array().unwrap().len()).sum();
    assert!(encoded < 2 * decisions.len(), "{encoded} of {} pictures", decisions.len());
    for (arguments, complaint) in [
        (&[SOURCE, "--codec", "av1", "--speed", "4"][..], "this codec has 7 to 10"),
        (&["test:8x8@25", "--codec", "av1"], "sides of 16 to 8192"),
    ] {
        let run = glassline(&[&["send"], arguments, &["--insecure", "link://127.0.0.1:9"]].concat());
        assert!(run.status != Some(0) && run.stderr.contains(complaint), "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn a_film_of_what_came_is_one_that_any_decoder_takes() {
    let scratch = Scratch::new("direct");
    let film = scratch.file("film.ivf");
    let (mut receiver, address) = receive("127.0.0.1:0", &[&film, "--insecure", "--once", "--json"]);
    let to = format!("link://{address}");
    let sent = glassline(&["send", SOURCE, &to, "--insecure", "--duration", "2s"]);
    assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
    let output = receiver.output();
    let told: Value =
        serde_json::from_str(output.lines().find(|line| line.starts_with('{')).unwrap()).unwrap();
    let sums = glassline(&["decode", &film, "--md5"]);
    assert_eq!(sums.status, Some(0), "{}", sums.stderr);
    assert_eq!(Some(sums.text().lines().count() as u64), told["shown"].as_u64(), "{told}");
    assert!(sums.text().lines().count() > 20);
}

/// The report that an end prints as JSON.
fn report(output: &str) -> Value {
    let line = output.lines().find(|line| line.starts_with('{')).unwrap_or_else(|| panic!("{output}"));
    serde_json::from_str(line).unwrap()
}

/// Seconds and loudest sample of a WAVE file with 16-bit stereo at 48 kHz.
fn sound_of(path: &str) -> (f64, i16) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!((&bytes[..4], &bytes[36..40]), (&b"RIFF"[..], &b"data"[..]));
    let samples: Vec<i16> =
        bytes[44..].chunks_exact(2).map(|pair| i16::from_le_bytes([pair[0], pair[1]])).collect();
    let loudest = samples.iter().map(|sample| sample.saturating_abs()).max().unwrap_or(0);
    (samples.len() as f64 / 96_000.0, loudest)
}

#[test]
fn sound_comes_with_the_pictures() {
    let scratch = Scratch::new("direct");
    for (case, options) in [("music", &[][..]), ("speech", &["--speech", "--audio-redundancy", "1"])] {
        let wave = scratch.file(&format!("{case}.wav"));
        let (mut receiver, address) =
            receive("127.0.0.1:0", &["null:", "--insecure", "--once", "--json", "--audio-out", &wave]);
        let to = format!("link://{address}");
        let arguments =
            [&["send", SOURCE, &to, "--insecure", "--duration", "2s", "--json"], options].concat();
        let sent = glassline(&arguments);
        assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
        let (told, heard) = (report(&sent.text()), report(&receiver.output()));
        let packets = told["sound"]["packets"].as_u64().unwrap();
        let played = heard["sound"]["played"].as_u64().unwrap();
        assert!(packets >= 80 && played * 10 >= packets * 8, "{told} {heard}");
        let (seconds, loudest) = sound_of(&wave);
        assert!(seconds > 1.0 && loudest > 3000, "{case}: {seconds} s, {loudest}");
    }
    // What cannot be is told before anything runs.
    for (arguments, complaint) in [
        (&["film.y4m", "--speech"][..], "carries no sound"),
        (&[SOURCE, "--audio-frame", "7ms"], "2.5ms, 5ms, 10ms or 20ms"),
        (&[SOURCE, "--audio-out", "null:"], "--both OUTPUT"),
        (&[SOURCE, "--audio-redundancy", "5"], "from 0 to 4"),
    ] {
        let arguments =
            [&["send", arguments[0], "link://127.0.0.1:9", "--insecure"], &arguments[1..]].concat();
        let run = glassline(&arguments);
        assert_eq!(run.status, Some(2), "{arguments:?}: {}", run.stderr);
        assert!(run.stderr.contains(complaint), "{arguments:?}: {}", run.stderr);
    }
}

/// The access units of a transport stream.
fn units_of(path: &str) -> Vec<AccessUnit> {
    let mut demuxer = Demuxer::new();
    demuxer.push(&std::fs::read(path).unwrap());
    demuxer.finish();
    let events = std::iter::from_fn(|| demuxer.poll());
    events
        .filter_map(|event| if let Event::AccessUnit { unit, .. } = event { Some(unit) } else { None })
        .collect()
}

/// A film in H.264 that our own encoder made, in Annex B.
struct Film {
    path: String,
    /// How many it has: the encoder leaves pictures out where the machine is busy.
    pictures: u64,
    key_frames: u64,
}

fn h264_film(scratch: &Scratch) -> Film {
    let stream = scratch.file("film.ts");
    let made = glassline(&[
        "encode",
        "test:320x180@25",
        &stream,
        "--limit",
        "40",
        "--audio",
        "none",
        "--keyint",
        "10",
    ]);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    let units = units_of(&stream);
    let film: Vec<u8> = units.iter().flat_map(|unit| unit.data.to_vec()).collect();
    let path = scratch.file("film.h264");
    std::fs::write(&path, film).unwrap();
    let key_frames = units.iter().filter(|unit| unit.random_access).count() as u64;
    Film { path, pictures: units.len() as u64, key_frames }
}

#[test]
fn h264_of_a_camera_comes_as_it_was() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip("h264_of_a_camera_comes_as_it_was", "built without x264");
    }
    let scratch = Scratch::new("direct");
    let Film { path: film, pictures, key_frames } = h264_film(&scratch);
    let sent = std::fs::read(&film).unwrap();
    for case in ["file", "pipe"] {
        let came = scratch.file("came.h264");
        let (mut receiver, address) = receive("127.0.0.1:0", &[&came, "--insecure", "--once", "--json"]);
        let to = format!("link://{address}");
        let run = match case {
            "file" => glassline(&["send", &film, &to, "--insecure", "--json"]),
            _ => {
                let mut child = Command::new(GLASSLINE)
                    .args(["send", "-", &to, "--insecure", "--json"])
                    .stdin(Stdio::piped())
                    .stdout(Stdio::piped())
                    .spawn()
                    .unwrap();
                child.stdin.take().unwrap().write_all(&sent).unwrap();
                let ended = child.wait_with_output().unwrap();
                assert!(ended.status.success() && receiver.wait().success(), "{}", receiver.output());
                let told = report(&String::from_utf8(ended.stdout).unwrap());
                // A pipe that gives all at once is no camera: what is not sent in time is left out, up to a key frame.
                assert!(told["key"].as_u64() >= Some(1), "{told}");
                assert!(std::fs::read(&came).unwrap().starts_with(&sent[..16]));
                continue;
            }
        };
        assert_eq!((run.status, receiver.wait().code()), (Some(0), Some(0)), "{case}: {}", run.stderr);
        let told = report(&run.text());
        assert_eq!(
            (told["sent"].as_u64(), told["key"].as_u64()),
            (Some(pictures), Some(key_frames)),
            "{case}: {told}"
        );
        assert!(std::fs::read(&came).unwrap() == sent, "{case}");
    }
    let refused = glassline(&["send", &film, "link://127.0.0.1:9", "--insecure", "--speed", "3"]);
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    assert!(refused.stderr.contains("--speed belongs to pictures in VP8"), "{}", refused.stderr);
}

#[test]
fn what_is_received_becomes_a_stream_with_sound() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "what_is_received_becomes_a_stream_with_sound",
            "built without x264",
        );
    }
    let scratch = Scratch::new("direct");
    for codec in ["vp8", "h264"] {
        let stream = scratch.file(&format!("{codec}.ts"));
        let (mut receiver, address) = receive("127.0.0.1:0", &[&stream, "--insecure", "--once", "--json"]);
        let to = format!("link://{address}");
        let sent =
            glassline(&["send", SOURCE, &to, "--insecure", "--duration", "2s", "--codec", codec, "--json"]);
        assert_eq!(
            (sent.status, receiver.wait().code()),
            (Some(0), Some(0)),
            "{codec}: {}",
            receiver.output()
        );
        let looked = glassline(&["probe", &stream, "--json"]);
        assert_eq!(looked.status, Some(0), "{codec}: {}", looked.stderr);
        let units = units_of(&stream);
        let of = |video: bool| units.iter().filter(|unit| unit.codec.is_video() == video).count();
        assert!(of(true) > 15 && of(false) > 50, "{codec}: {} pictures, {} of sound", of(true), of(false));
        assert!(units.iter().find(|unit| unit.codec.is_video()).unwrap().random_access, "{codec}");
    }
}

/// The page of `process` is there and its stream runs; the process ends well when it is asked to, and the stream with it.
fn assert_shown_on_a_page(mut process: Running) {
    let page = process.page_address();
    for path in ["/", "/watch/preview"] {
        let answer = http::get(page, path);
        assert_eq!(answer.status, 200, "{path}");
        assert!(answer.text().contains("/assets/app.js"), "{path}");
    }
    until("the stream of the page", || http::get(page, "/api/streams/preview").status == 200);
    let mut viewer = http::connect(page);
    write!(viewer, "GET /live/preview.ts HTTP/1.1\r\nHost: {page}\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(http::read_head(&mut viewer).status, 200);
    let mut packets = vec![0; 188 * 200];
    viewer.read_exact(&mut packets).unwrap();
    assert!(packets.chunks(188).all(|packet| packet[0] == 0x47));
    process.signal("TERM");
    assert_eq!(process.wait().code(), Some(0), "{}", process.output());
    http::read_all(&mut viewer);
    assert!(process.output().contains("\"shown\""), "{}", process.output());
}

#[test]
fn what_is_received_is_shown_on_a_page_of_the_program_itself() {
    const NAME: &str = "what_is_received_is_shown_on_a_page_of_the_program_itself";
    if cfg!(not(feature = "x264")) {
        let refused = glassline(&["receive", "link://127.0.0.1:0", "preview:127.0.0.1:0", "--insecure"]);
        assert_eq!(refused.status, Some(2), "{}", refused.stderr);
        assert!(refused.stderr.contains("no H.264 encoder"), "{}", refused.stderr);
        return glassline_test_support::skip(NAME, "built without x264");
    }
    let (receiver, address) = receive("127.0.0.1:0", &["preview:127.0.0.1:0", "--insecure", "--json"]);
    let _sender = start(&["send", SOURCE, &format!("link://{address}"), "--insecure"]);
    assert_shown_on_a_page(receiver);

    let (_receiver, address) = receive("127.0.0.1:0", &["null:", "--insecure", "--both", SOURCE]);
    let to = format!("link://{address}");
    assert_shown_on_a_page(start(&[
        "send",
        SOURCE,
        &to,
        "--insecure",
        "--both",
        "preview:127.0.0.1:0",
        "--json",
    ]));

    for (output, options, complaint) in [
        ("preview:8081", &[][..], "no address of this machine"),
        ("preview:", &["--publish-key-file", "key"], "an option is for a server"),
        ("preview:127.0.0.1:0", &["--audio-out", "a.wav"], "takes the sound too"),
    ] {
        let arguments = [&["receive", "link://127.0.0.1:0", output, "--insecure"], options].concat();
        let run = glassline(&arguments);
        assert_eq!(run.status, Some(2), "{arguments:?}: {}", run.stderr);
        let is_announced = run.stderr.contains("/watch/preview");
        assert!(run.stderr.contains(complaint) && !is_announced, "{arguments:?}: {}", run.stderr);
    }
}

#[test]
fn pictures_and_sound_go_both_ways_over_one_link() {
    let scratch = Scratch::new("direct");
    let (there, here) = (scratch.file("there.y4m"), scratch.file("here.y4m"));
    let (loud_there, loud_here) = (scratch.file("there.wav"), scratch.file("here.wav"));
    let (mut receiver, address) = receive(
        "127.0.0.1:0",
        &[
            &there,
            "--insecure",
            "--once",
            "--json",
            "--audio-out",
            &loud_there,
            "--both",
            "test:160x96@25",
            "--audio-redundancy",
            "2",
        ],
    );
    let to = format!("link://{address}");
    let sent = glassline(&[
        "send",
        SOURCE,
        &to,
        "--insecure",
        "--limit",
        "60",
        "--json",
        "--both",
        &here,
        "--audio-out",
        &loud_here,
    ]);
    assert_eq!((sent.status, receiver.wait().code()), (Some(0), Some(0)), "{}", receiver.output());
    let (near, far) = (report(&sent.text()), report(&receiver.output()));
    assert!(far["shown"].as_u64() > Some(20) && far["sound"]["played"].as_u64() > Some(50), "{far}");
    assert!(far["sent"]["sent"].as_u64() > Some(20) && far["sent"]["mismatches"] == 0, "{far}");
    assert!(near["received"]["shown"].as_u64() > Some(20) && near["received"]["size"] == "160x96", "{near}");
    assert!(near["received"]["sound"]["played"].as_u64() > Some(50), "{near}");
    for (film, head) in [(&there, &b"YUV4MPEG2 W320 H180"[..]), (&here, b"YUV4MPEG2 W160 H96")] {
        assert!(std::fs::read(film).unwrap().starts_with(head), "{film}");
    }
    assert!(sound_of(&loud_there).1 > 3000 && sound_of(&loud_here).1 > 3000);
}

#[test]
fn either_end_may_be_killed_and_begin_anew() {
    let scratch = Scratch::new("direct");
    let key = scratch.file("direct.key");
    assert_eq!(glassline(&["key", "new", &key]).status, Some(0));
    let stats = |number: u32| scratch.file(&format!("receive{number}.jsonl"));
    let (mut receiver, address) = receive("127.0.0.1:0", &["null:", "--key", &key, "--stats", &stats(0)]);
    let to = format!("link://{address}");
    let sending = scratch.file("send.jsonl");
    let send = ["send", SOURCE, &to, "--key", &key, "--name", "air", "--stats", &sending];
    let mut sender = start(&send);
    until("pictures", || shown(&stats(0)) > 25);
    receiver.kill();
    let (receiver, _) = receive(&address, &["null:", "--key", &key, "--stats", &stats(1)]);
    until("pictures at the next receiver", || shown(&stats(1)) > 25);
    assert!(sender.ended().is_none());
    sender.kill();
    let before = shown(&stats(1));
    let sender = start(&send);
    until("pictures of the next sender", || shown(&stats(1)) > before + 25);
    // Both end at a signal, and say what they have done.
    for (mut running, words) in [(sender, "sent "), (receiver, "showed ")] {
        running.signal("TERM");
        assert_eq!(running.wait().code(), Some(0), "{}", running.output());
        assert!(running.output().contains(words), "{}", running.output());
    }
}

#[test]
fn a_sender_ends_at_its_time_where_the_receiver_has_died() {
    let scratch = Scratch::new("direct");
    let stats = scratch.file("receive.jsonl");
    let (mut receiver, address) = receive("127.0.0.1:0", &["null:", "--insecure", "--stats", &stats]);
    let mut sender = start(&["send", SOURCE, &format!("link://{address}"), "--insecure", "--duration", "3s"]);
    until("pictures", || shown(&stats) > 5);
    receiver.kill();
    assert_eq!(sender.wait().code(), Some(1), "{}", sender.output());
    assert!(sender.output().contains("does not answer any more"), "{}", sender.output());
}

#[test]
fn an_output_that_fails_ends_no_link_and_begins_again() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "an_output_that_fails_ends_no_link_and_begins_again",
            "built without x264",
        );
    }
    let scratch = Scratch::new("direct");
    let server = Server::start(GLASSLINE, &["--open-publish"]);
    let (relay, stream) = (server.address(), server.url("/live/drone.ts"));
    let stats = scratch.file("receive.jsonl");
    // A channel beside the pictures whose output fails at once.
    let arguments =
        [&stream, "--insecure", "--stats", &stats, "--channel", "7:lines,out=/dev/full", "--once"];
    let (mut receiver, address) = receive("127.0.0.1:0", &arguments);
    let to = format!("link://{address}");
    let said = scratch.write("said.txt", "battery 50 %\n");
    let mut sender = start(&["send", SOURCE, &to, "--insecure", "--channel", &format!("7:lines,in={said}")]);
    let comes = |server: &Server| {
        until("the stream at the relay", || http::get(server.address(), "/api/streams/drone").status == 200);
        until("its pictures", || server.count("drone", "bytes_in") > 50_000);
    };
    comes(&server);
    until("the channel's output has failed", || receiver.output().contains("No space left on device"));
    drop(server);
    let server = Server::start_at(GLASSLINE, &relay.to_string(), &["--open-publish"]);
    comes(&server);
    assert!(sender.ended().is_none() && receiver.ended().is_none(), "{}", receiver.output());
    sender.signal("TERM");
    assert_eq!(sender.wait().code(), Some(0), "{}", sender.output());
    // What was lost is in the exit status.
    assert_eq!(receiver.wait().code(), Some(1), "{}", receiver.output());
    assert!(receiver.output().contains("showed "), "{}", receiver.output());
}

#[test]
fn a_duration_ends_channels_too_whose_inputs_never_do() {
    let scratch = Scratch::new("direct");
    let got = scratch.file("got.txt");
    let channel = format!("7:lines,in=udp:127.0.0.1:0,out={got}");
    let (mut receiver, address) =
        receive("127.0.0.1:0", &["null:", "--insecure", "--once", "--channel", &channel]);
    let to = format!("link://{address}");
    let fifo = scratch.file("telemetry");
    assert!(std::process::Command::new("mkfifo").arg(&fifo).status().unwrap().success());
    // Opened both ways, so that the input stays open.
    let mut telemetry = std::fs::File::options().read(true).write(true).open(&fifo).unwrap();
    let channel = format!("7:lines,in={fifo},out=udp:127.0.0.1:9");
    let mut sender = start(&["send", SOURCE, &to, "--insecure", "--duration", "2s", "--channel", &channel]);
    std::io::Write::write_all(&mut telemetry, b"battery 50 %\n").unwrap();
    assert_eq!(sender.wait().code(), Some(0), "{}", sender.output());
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
    // What had come until then has arrived.
    assert_eq!(std::fs::read_to_string(&got).unwrap(), "battery 50 %\n");
    drop(telemetry);
}

#[test]
fn several_paths_carry_the_pictures_together() {
    let scratch = Scratch::new("direct");
    let key = scratch.file("direct.key");
    assert_eq!(glassline(&["key", "new", &key]).status, Some(0));
    let (stats, told) = (scratch.file("send.jsonl"), scratch.file("receive.jsonl"));
    let other = format!("link://{}", glassline_test_support::loopback::free_udp());
    let (mut receiver, address) = receive("127.0.0.1:0", &[&other, "null:", "--key", &key, "--stats", &told]);
    let to = format!("link://{address}");
    let ways = ["--path", "127.0.0.2", "--path", "127.0.0.3", "--path", "127.0.0.4,spare"];
    let options = ["--key", &key, "--duration", "20s", "--stats", &stats];
    let mut sender = start(&[&["send", SOURCE, &to][..], &ways, &options].concat());
    until("three paths, of which two carry", || {
        let Some(line) = newest(&stats) else { return false };
        let Some(paths) = line["links"][0]["paths"].as_array() else { return false };
        let carried = |path: &Value| path["sent_bytes"].as_u64().unwrap();
        let (spare, others): (Vec<_>, Vec<_>) = paths.iter().partition(|path| path["spare"] == true);
        assert!(spare.iter().all(|path| carried(path) < 20_000), "{paths:?}");
        spare.len() == 1 && others.len() == 2 && others.iter().all(|path| carried(path) > 20_000)
    });
    until("pictures", || shown(&told) > 20);
    assert!(receiver.output().matches("a further path is there").count() == 2, "{}", receiver.output());
    for process in [&mut sender, &mut receiver] {
        process.signal("TERM");
        assert_eq!(process.wait().code(), Some(0), "{}", process.output());
    }
}

#[test]
fn what_cannot_be_is_told_before_anything_runs() {
    let scratch = Scratch::new("direct");
    let film = scratch.write("film.y4m", "no film");
    for (arguments, status, complaint) in [
        (&["send", SOURCE, "127.0.0.1:7000", "--insecure"][..], 2, "write link://HOST:PORT"),
        (&["send", "test:320x180", "link://127.0.0.1:7000", "--insecure"], 2, "has no rate"),
        (&["send", SOURCE, "link://127.0.0.1:7000"], 2, "--key"),
        (&["send", &film, "link://127.0.0.1:7000", "--insecure"], 1, "film.y4m"),
        (
            &["send", SOURCE, "link://127.0.0.1:7000", "--insecure", "--channel", "61:lines"],
            2,
            "from 0 to 59",
        ),
        (
            &["receive", "link://127.0.0.1:0", "null:", "--insecure", "--channel", "60:lines"],
            2,
            "from 0 to 59",
        ),
        (&["receive", "link://nowhere:7000", "null:", "--insecure"], 2, "link://0.0.0.0:7000"),
        (&["receive", "link://127.0.0.1:0", "film.mkv", "--insecure"], 2, ".y4m"),
        (&["receive", "link://127.0.0.1:0", "/nowhere/film.ivf", "--insecure"], 1, "cannot write"),
        (&["receive", "link://192.0.2.1:7000", "null:", "--insecure"], 1, "cannot listen"),
    ] {
        let outcome = glassline(arguments);
        assert_eq!(outcome.status, Some(status), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(complaint), "{arguments:?}: {}", outcome.stderr);
    }
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let to = format!("link://{}", socket.local_addr().unwrap());
    let outcome = glassline(&["send", SOURCE, &to, "--insecure", "--connect-timeout", "1s"]);
    assert_eq!(outcome.status, Some(1));
    assert!(outcome.stderr.contains("does not answer"), "{}", outcome.stderr);
}

#[test]
fn a_reader_that_goes_away_ends_the_receiver() {
    let (mut receiver, address) = {
        // Its standard output goes to a reader that takes one byte.
        let command = format!("{GLASSLINE} receive link://127.0.0.1:0 - --insecure | head -c 1 > /dev/null");
        let mut running = Running::start(Command::new("sh").args(["-c", &command]));
        let address = until_some("the receiver", || {
            assert!(running.ended().is_none(), "{}", running.output());
            let output = running.output();
            let (_, rest) = output.split_once("listening address=")?;
            Some(rest.split_whitespace().next()?.to_owned())
        });
        (running, address)
    };
    let _sender = start(&["send", SOURCE, &format!("link://{address}"), "--insecure"]);
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
}

#[test]
fn an_experiment_tells_delay_and_quality() {
    let scratch = Scratch::new("experiment");
    let slots = scratch.file("slots.csv");
    let network = ["--up", "2M", "--delay", "20ms", "--queue", "256p", "--duration", "2s"];
    let outcome =
        glassline(&[&["lab", "experiment", SOURCE, "--json", "--slots", &slots], &network[..]].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let figures: Value = serde_json::from_str(outcome.text().trim()).unwrap();
    assert_eq!((figures["pictures"].as_u64(), figures["key"].as_u64()), (Some(50), Some(1)), "{figures}");
    assert!(figures["delay_p50_ms"].as_f64() > Some(20.0) && figures["ssim_y_db"].as_f64() > Some(5.0));
    let table = std::fs::read_to_string(&slots).unwrap();
    assert_eq!(table.lines().count(), 51);
    let again = glassline(&[&["lab", "experiment", SOURCE, "--json"], &network[..]].concat());
    assert_eq!(again.text(), outcome.text());
    let refused = glassline(&["lab", "experiment", SOURCE, "--up", "2M", "--controller", "bbr"]);
    assert_eq!(refused.status, Some(2));
    assert!(refused.stderr.contains("salsify"), "{}", refused.stderr);
}
