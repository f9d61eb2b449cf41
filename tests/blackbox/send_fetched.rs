//! `send` of what is fetched: cameras by RTSP, streams by HTTP, datagrams, and a session description.

use crate::camera::{Camera, Habits};
use crate::direct::receive;
use crate::tls::serve_identity;
use crate::{GLASSLINE, glassline, serve_with};
use glassline_media::bitstream::h264::nals;
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::until;
use serde_json::Value;
use std::net::TcpListener;
use std::process::Command;
use std::sync::atomic::Ordering;

const PICTURES: &str = "test:320x180@25";

fn start(arguments: &[&str]) -> Running {
    Running::start(Command::new(GLASSLINE).args(arguments))
}

fn free_address() -> String {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string()
}

/// Sends `input` to a receiver that writes H.264.
fn send(scratch: &Scratch, input: &str, options: &[&str]) -> (Running, Running, String) {
    let came = scratch.file("came.h264");
    let (receiver, address) = receive("127.0.0.1:0", &[&came, "--insecure", "--once", "--json"]);
    let to = format!("link://{address}");
    (start(&[&["send", input, &to, "--insecure", "--json"], options].concat()), receiver, came)
}

/// The numbers of a [`Camera`]'s pictures that have come.
fn numbers(came: &str) -> Vec<u32> {
    let text = String::from_utf8_lossy(&std::fs::read(came).unwrap_or_default()).into_owned();
    text.split("picture ").skip(1).filter_map(|rest| rest.get(..6)?.parse().ok()).collect()
}

/// A picture in each ten milliseconds, of which each 25th is a key frame: what is missing is missing up to one of those.
fn assert_whole_groups(found: &[u32]) {
    for pair in found.windows(2) {
        assert!(pair[1] == pair[0] + 1 || pair[1].is_multiple_of(25), "a gap before no key frame: {pair:?}");
    }
}

fn told(running: &Running) -> Value {
    let output = running.output();
    let line = output.lines().find(|line| line.starts_with('{'));
    serde_json::from_str(line.unwrap_or_else(|| panic!("no report: {output}"))).unwrap()
}

/// The slices of a byte stream.
fn slices(bytes: &[u8]) -> Vec<Vec<u8>> {
    nals(bytes).filter(|nal| nal.kind().is_slice()).map(|nal| nal.bytes.to_vec()).collect()
}

/// Pictures that are published, and a copy of them.
fn publish(scratch: &Scratch, to: &str, seconds: &str) -> (Running, String) {
    let copy = scratch.file("published.ts");
    let words = ["--duration", seconds, "--audio", "none", "--keyint", "500ms", "--realtime"];
    (start(&[&["encode", PICTURES, to, &copy][..], &words].concat()), copy)
}

/// What has come is what was published, slice by slice, with gaps in front of key frames alone: what the link does not take at
/// once is left out up to the next one. There are so many slices at least.
fn assert_unchanged(came: &str, published: &str, at_least: usize) {
    let mut demuxer = glassline_media::container::ts::Demuxer::new();
    demuxer.push(&std::fs::read(published).unwrap());
    demuxer.finish();
    let mut sent = Vec::new();
    while let Some(event) = demuxer.poll() {
        if let glassline_media::container::ts::Event::AccessUnit { unit, .. } = event {
            sent.extend(slices(&unit.data));
        }
    }
    let came = slices(&std::fs::read(came).unwrap());
    let mut next = 0;
    for (number, slice) in came.iter().enumerate() {
        let found = sent[next..].iter().position(|other| other == slice);
        let skipped =
            found.unwrap_or_else(|| panic!("slice {number} of {} was not published so", came.len()));
        let is_key = slice[0] & 0x1f == 5;
        assert!(
            skipped == 0 || is_key,
            "{skipped} are missing before slice {number}, which is no key frame's"
        );
        next += skipped + 1;
    }
    assert!(came.len() >= at_least, "{} of {}", came.len(), sent.len());
}

#[test]
fn a_camera_s_pictures_are_sent_unchanged_and_it_is_told_at_the_end() {
    let scratch = Scratch::new("send-camera");
    // admin:s3cret/
    let camera = Camera::start(Habits { basic: Some("YWRtaW46czNjcmV0Lw=="), ..Habits::default() });
    let url = format!("rtsp://admin:s3cret%2F@{}/live?token=hush", camera.address);
    // On a machine that gave both ends no time for a while a picture is lost on the way, which is told: what came then is of the machine.
    let passed = || {
        let (mut sender, mut receiver, came) = send(&scratch, &url, &["--limit", "120"]);
        assert_eq!((sender.wait().code(), receiver.wait().code()), (Some(0), Some(0)), "{}", sender.output());
        let (found, report) = (numbers(&came), told(&sender));
        assert!(found[0].is_multiple_of(25), "it begins with a key frame: {found:?}");
        assert_whole_groups(&found);
        assert_eq!(report["captured"], 120, "{report}");
        (sender, came, found, report)
    };
    let kept_up = |(_, _, _, report): &(Running, String, Vec<u32>, Value)| report["lost"] == 0;
    let session = (1..5).map(|session| (session, passed())).find(|(_, passed)| kept_up(passed));
    let (sessions, (sender, came, found, report)) = session.expect("a session in which none is lost");
    assert!(found.len() > 40 && report["sent"].as_u64() == Some(found.len() as u64), "{report}");
    // bluenviron/mediamtx #5861: the camera's parameter sets stand in its description alone, and decoders need them.
    let head = std::fs::read(&came).unwrap()[..64].to_vec();
    assert!(head.windows(4).any(|bytes| bytes == [0, 0, 1, 0x67]), "no parameter sets: {head:x?}");
    until("the camera to be told", || camera.requests("TEARDOWN") == sessions);
    let output = sender.output();
    assert!(output.contains("source is live") && output.contains("/live?…"), "{output}");
    for secret in ["s3cret", "hush", "YWRtaW4"] {
        assert!(!output.contains(secret), "{output}");
    }
}

#[test]
fn a_camera_that_refuses_ends_it_in_words_also_before_a_receiver_is_there() {
    let camera = Camera::start(Habits { basic: Some("YWRtaW46czNjcmV0Lw=="), ..Habits::default() });
    let nowhere = format!("link://{}", free_address());
    for (credentials, words, advice) in [
        ("admin:wr0ng@", "the server refuses user and password", "check them in the address"),
        ("", "the server wants a user and a password", "write them into the address"),
    ] {
        let url = format!("rtsp://{credentials}{}/live", camera.address);
        let ended = glassline(&["send", &url, &nowhere, "--insecure"]);
        assert_eq!(ended.status, Some(1), "{}", ended.stderr);
        assert!(ended.stderr.contains(words) && ended.stderr.contains(advice), "{}", ended.stderr);
        assert!(!ended.stderr.contains("wr0ng"), "{}", ended.stderr);
    }
    let (server, _scratch) = serve_with("");
    let ended = glassline(&["send", &server.url("/live/none.ts"), &nowhere, "--insecure"]);
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("404") && ended.stderr.contains("check the path"), "{}", ended.stderr);
}

#[test]
fn datagrams_at_an_address_of_another_machine_end_in_words() {
    // RFC 5737: an address of documents.
    let ended = glassline(&["send", "udp://192.0.2.1:5000", "link://127.0.0.1:9", "--insecure"]);
    assert_eq!(ended.status, Some(1), "{}", ended.stderr);
    assert!(ended.stderr.contains("an address of this machine"), "{}", ended.stderr);
}

#[test]
fn a_receiver_tells_at_once_that_what_it_sends_back_is_refused_and_goes_on() {
    let scratch = Scratch::new("send-both");
    let camera = Camera::start(Habits { basic: Some("YWRtaW46czNjcmV0Lw=="), ..Habits::default() });
    let url = format!("rtsp://admin:wr0ng@{}/live", camera.address);
    let came = scratch.file("came.h264");
    let (receiver, address) = receive("127.0.0.1:0", &[&came, "--insecure", "--both", &url]);
    let own = Camera::start(Habits::default());
    let to = format!("link://{address}");
    let _sender =
        start(&["send", &format!("rtsp://{}/live", own.address), &to, "--insecure", "--both", "null:"]);
    until("the refusal to be told", || receiver.output().contains("no more pictures are sent"));
    let before = numbers(&came).len();
    until("pictures all the same", || numbers(&came).len() >= before + 50);
}

#[test]
fn a_camera_that_falls_silent_or_loses_packets_goes_on_with_a_key_frame() {
    let scratch = Scratch::new("send-silent");
    let camera = Camera::start(Habits { loses: Some(40), ..Habits::default() });
    let (sender, mut receiver, came) = send(&scratch, &format!("rtsp://{}/live", camera.address), &[]);
    until("pictures", || numbers(&came).len() >= 100);
    camera.is_silent.store(true, Ordering::SeqCst);
    until("the silence to be told", || sender.output().contains("source is not there: no packet"));
    camera.is_silent.store(false, Ordering::SeqCst);
    let before = numbers(&came).len();
    until("pictures again", || numbers(&came).len() >= before + 100);
    sender.signal("INT");
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
    let found = numbers(&came);
    assert_whole_groups(&found);
    assert!(found.iter().all(|number| number % 40 != 39), "a picture that lacks a packet: {found:?}");
    assert!(found.windows(2).any(|pair| pair[1] < pair[0]), "it never began anew");
}

/// bluenviron/mediamtx #1300: a camera's wall clock is not always one. What is near enough for a relay may still be none of a
/// picture that is sent at once.
#[test]
fn a_camera_whose_clock_is_wrong_is_told_of_and_arrival_counts() {
    for (ahead_s, told_s) in [(-8, Some("8.")), (-3_600, None)] {
        let scratch = Scratch::new("send-clock");
        let clock_ahead_s = Some(ahead_s);
        let camera = Camera::start(Habits { refuses_datagrams: true, clock_ahead_s, ..Habits::default() });
        let url = format!("rtsp://{}/live", camera.address);
        let (mut sender, mut receiver, _came) = send(&scratch, &url, &["--limit", "100"]);
        assert_eq!((sender.wait().code(), receiver.wait().code()), (Some(0), Some(0)), "{}", sender.output());
        let output = sender.output();
        let words = told_s.map(|seconds| format!("the camera's clock is {seconds}"));
        assert_eq!(output.matches("the camera's clock is").count(), usize::from(words.is_some()), "{output}");
        assert!(words.is_none_or(|words| output.contains(&words)), "{output}");
        // As old as it was under way, in ms.
        let shown = told(&receiver);
        let delay = shown["delay_ms"]["p50"].as_f64().unwrap();
        assert!((0.0..5_000.0).contains(&delay), "{ahead_s}: {shown}");
    }
}

/// scottlamb/moonfire-nvr #302: cameras with live555 write part of a packet where the connection is full, and go on with the next
/// one.
#[test]
fn a_camera_that_garbles_its_connection_goes_on_with_a_key_frame() {
    let scratch = Scratch::new("send-garbled");
    let habits = Habits { refuses_datagrams: true, garbles: Some(60), ..Habits::default() };
    let camera = Camera::start(habits);
    let (sender, mut receiver, came) = send(&scratch, &format!("rtsp://{}/live", camera.address), &[]);
    until("pictures", || numbers(&came).len() >= 200);
    sender.signal("INT");
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
    assert_whole_groups(&numbers(&came));
}

#[test]
fn another_server_s_stream_is_sent_unchanged_and_comes_back_with_it() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "another_server_s_stream_is_sent_unchanged_and_comes_back_with_it",
            "built without x264",
        );
    }
    let scratch = Scratch::new("send-restart");
    let (http, rtsp) = (free_address(), free_address());
    let config = scratch.write("glassline.toml", format!("[rtsp]\nlisten = ['{rtsp}']\n"));
    let serve = || Server::start_at(GLASSLINE, &http, &["--config", &config]);
    let server = serve();
    let (_publisher, copy) = publish(&scratch, &server.url("/live/cam.ts"), "60s");
    server.wait_for_pictures("cam");
    let (sender, mut receiver, came) = send(&scratch, &format!("rtsp://{rtsp}/live/cam"), &[]);
    let pictures = || slices(&std::fs::read(&came).unwrap_or_default()).len();
    until("pictures", || pictures() >= 50);
    assert_unchanged(&came, &copy, 20);
    drop(server);
    until("its absence to be told", || sender.output().contains("source is not there"));
    let server = serve();
    let to = server.url("/live/cam.ts");
    let _publisher = start(&["encode", PICTURES, &to, "--audio", "none", "--keyint", "500ms"]);
    server.wait_for_pictures("cam");
    let before = pictures();
    let back = std::time::Instant::now();
    until("pictures again", || pictures() > before + 5);
    eprintln!("pictures again after {:?}", back.elapsed());
    sender.signal("INT");
    assert_eq!(receiver.wait().code(), Some(0), "{}", receiver.output());
    let output = sender.output();
    assert_eq!(output.matches("source is live").count(), 2, "{output}");
}

#[test]
fn streams_by_http_and_in_datagrams_are_sent_unchanged() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "streams_by_http_and_in_datagrams_are_sent_unchanged",
            "built without x264",
        );
    }
    let (server, _scratch) = serve_with("");
    let port = free_address().rsplit_once(':').unwrap().1.to_owned();
    for (to, from) in [
        (server.url("/live/cam.ts"), server.url("/live/cam.ts")),
        (format!("udp://127.0.0.1:{port}"), format!("udp://127.0.0.1:{port}")),
        (format!("rtp://127.0.0.1:{port}"), format!("rtp://127.0.0.1:{port}")),
    ] {
        let scratch = Scratch::new("send-datagrams");
        let (_publisher, copy) = publish(&scratch, &to, "60s");
        if from.starts_with("http") {
            server.wait_for_pictures("cam");
        }
        let (mut sender, mut receiver, came) = send(&scratch, &from, &["--duration", "2s"]);
        let ended = (sender.wait().code(), receiver.wait().code());
        assert_eq!(ended, (Some(0), Some(0)), "{from}: {}", sender.output());
        assert_unchanged(&came, &copy, 20);
    }
}

#[test]
fn what_is_fetched_over_tls_is_trusted_by_its_certificate() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "what_is_fetched_over_tls_is_trusted_by_its_certificate",
            "built without x264",
        );
    }
    let (identity, folder) = (Identity::new(&["localhost"]), Scratch::new("send-tls"));
    identity.write(&folder, "one");
    let ca = folder.write("ca.pem", &identity.chain);
    let rtsps = free_address();
    let secure = serve_identity(&format!("[rtsp]\ntls_listen = ['{rtsps}']\n"), identity, folder);
    let scratch = Scratch::new("send-secured");
    let (_publisher, copy) = publish(&scratch, &secure.server.url("/live/cam.ts"), "60s");
    secure.server.wait_for_pictures("cam");
    let rtsps_port = rtsps.rsplit_once(':').unwrap().1;
    for from in [
        format!("https://localhost:{}/live/cam.ts", secure.address.port()),
        format!("rtsps://localhost:{rtsps_port}/live/cam"),
    ] {
        // Which it has to be told: else it would be asked in vain for ever.
        let ended = glassline(&["send", &from, "link://127.0.0.1:9", "--insecure"]);
        assert_eq!(ended.status, Some(1), "{from}: {}", ended.stderr);
        assert!(ended.stderr.contains("--source-ca"), "{from}: {}", ended.stderr);
        let options = ["--duration", "2s", "--source-ca", &ca];
        let (mut sender, mut receiver, came) = send(&scratch, &from, &options);
        let ended = (sender.wait().code(), receiver.wait().code());
        assert_eq!(ended, (Some(0), Some(0)), "{from}: {}", sender.output());
        assert_unchanged(&came, &copy, 20);
    }
}

#[test]
fn what_a_session_description_describes_is_sent_unchanged() {
    if cfg!(not(feature = "x264")) {
        return glassline_test_support::skip(
            "what_a_session_description_describes_is_sent_unchanged",
            "built without x264",
        );
    }
    let scratch = Scratch::new("send-described");
    let port: u16 = 2 * (free_address().rsplit_once(':').unwrap().1.parse::<u16>().unwrap() / 2);
    let sdp = scratch.file("cam.sdp");
    let config = format!("[stream.cam]\noutputs = ['rtp+sdp://127.0.0.1:{port}?sdp={sdp}']\n");
    let (server, _config) = serve_with(&config);
    let (_publisher, copy) = publish(&scratch, &server.url("/live/cam.ts"), "60s");
    until("the description", || std::fs::read(&sdp).is_ok_and(|text| !text.is_empty()));
    let (mut sender, mut receiver, came) = send(&scratch, &format!("rtp:{sdp}"), &["--duration", "2s"]);
    assert_eq!((sender.wait().code(), receiver.wait().code()), (Some(0), Some(0)), "{}", sender.output());
    assert_unchanged(&came, &copy, 20);
}
