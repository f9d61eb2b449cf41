//! Forwards: a stream that one server publishes to another, by RTMP and by SRT, and what operators see of it.

use crate::link::said;
use crate::{GLASSLINE, glassline};
use glassline_media::bitstream::h264;
use glassline_media::container::ts::demux::{Demuxer, Event};
use glassline_test_support::http::{connect, get, read_head};
use glassline_test_support::program::{Running, Scratch, Server};
use glassline_test_support::wait::{PATIENCE, until, until_some};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;

/// A server that takes RTMP and SRT with a publish key, and where.
fn far(scratch: &Scratch) -> (Server, String, String) {
    let text = "[rtmp]\nlisten = ['127.0.0.1:0']\n[srt]\nlisten = ['127.0.0.1:0']\nlatency = '20ms'\n[publish]\nkey = 'a-publish-key'\n";
    let file = scratch.write("far.toml", text);
    let mut server = Server::start(GLASSLINE, &["--config", &file]);
    let rtmp = said(&mut server.process, "RTMP publishers are served address=");
    let srt = said(&mut server.process, "SRT is served address=");
    (server, rtmp, srt)
}

fn encoder(server: &Server, name: &str) -> Running {
    let to = server.url(&format!("/live/{name}.ts"));
    Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &to]))
}

fn forwards(server: &Server, name: &str) -> Vec<Value> {
    let peers =
        server.stream(name).and_then(|stream| stream["peers"].as_array().cloned()).unwrap_or_default();
    peers.into_iter().filter(|peer| peer["role"] == "forward").collect()
}

fn watch(server: &Server, name: &str) -> TcpStream {
    let mut viewer = connect(server.address());
    viewer.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    viewer
}

/// The slices of the next pictures of a viewer, from a key frame on, each picture's in one.
fn pictures(viewer: &mut TcpStream, count: usize) -> Vec<Vec<u8>> {
    let (mut demuxer, mut found, mut buffer) = (Demuxer::new(), Vec::new(), vec![0; 64 << 10]);
    while found.len() < count {
        let read = viewer.read(&mut buffer).unwrap();
        assert!(read > 0, "the stream ends");
        demuxer.push(&buffer[..read]);
        while let Some(event) = demuxer.poll() {
            if let Event::AccessUnit { unit, .. } = event
                && unit.codec.is_video()
            {
                let slices = h264::nals(&unit.data).filter(|nal| nal.kind().is_slice());
                found.push(slices.flat_map(|nal| nal.bytes.to_vec()).collect());
            }
        }
    }
    found
}

#[test]
fn a_stream_is_published_to_another_server_by_rtmp_and_srt_picture_for_picture() {
    let scratch = Scratch::new("forward");
    let (far, rtmp, srt) = far(&scratch);
    let text = format!(
        "[stream.stage]\nforward = ['rtmp://{rtmp}/live/one?key=a-publish-key',\n 'srt://{srt}?streamid=publish:two:a-publish-key&latency=20']\n"
    );
    let file = scratch.write("near.toml", text);
    let tested = glassline(&["serve", "--config", &file, "--test-config"]);
    assert_eq!(tested.status, Some(0), "{}", tested.stderr);
    let near = Server::start(GLASSLINE, &["--config", &file]);
    let _encoder = encoder(&near, "stage");
    near.wait_for_pictures("stage");
    far.wait_for_pictures("one");
    far.wait_for_pictures("two");
    let mut viewers = [watch(&near, "stage"), watch(&far, "one"), watch(&far, "two")];
    let [own, one, two] = viewers.each_mut().map(|viewer| pictures(viewer, 100));
    for (name, theirs) in [("RTMP", one), ("SRT", two)] {
        let begin =
            own.iter().position(|picture| theirs.contains(picture)).expect("a picture that both have");
        let at = theirs.iter().position(|picture| *picture == own[begin]).unwrap();
        let both: Vec<_> = own[begin..].iter().zip(&theirs[at..]).collect();
        assert!(both.len() >= 40, "{name}: {} pictures", both.len());
        assert!(both.iter().all(|(one, same)| one == same), "{name}: pictures differ");
    }
    for name in ["one", "two"] {
        assert_eq!(far.count(name, "continuity_errors"), 0);
    }
    let forward = forwards(&near, "stage").remove(0);
    assert_eq!(
        (&forward["target"], &forward["state"], &forward["protocol"], &forward["reason"]),
        (&format!("rtmp://{rtmp}/live").into(), &"publishing".into(), &"rtmp".into(), &Value::Null),
        "{forward}"
    );
    assert!(forward["bytes"].as_u64().unwrap() > 10_000 && forward["address"].is_string(), "{forward}");
    let metrics = near.metrics();
    assert_eq!(metrics.sum("glassline_rtmp_forwards_publishing", "") as u64, 1);
    assert!(metrics.sum("glassline_rtmp_forward_bytes_total", "") > 10_000.0);
    assert_eq!(metrics.sum("glassline_rtmp_forward_dropped_pictures_total", "") as u64, 0);
    // The stream keys are nowhere.
    let shown = [
        get(near.address(), "/api/streams").text(),
        get(near.address(), "/metrics").text(),
        near.process.output(),
    ];
    for text in shown {
        assert!(!text.contains("a-publish-key"), "{text}");
    }
}

#[test]
fn a_reload_adds_and_removes_forwards_and_leaves_the_others() {
    let scratch = Scratch::new("forward-reload");
    let (far, rtmp, _) = far(&scratch);
    let forward = |names: &[&str]| {
        let list: Vec<String> =
            names.iter().map(|name| format!("'rtmp://{rtmp}/live/{name}?key=a-publish-key'")).collect();
        scratch
            .write("near.toml", format!("[stream.stage]\nbacklog = '20s'\nforward = [{}]\n", list.join(", ")))
    };
    let file = forward(&["one", "two"]);
    let near = Server::start(GLASSLINE, &["--config", &file]);
    let _encoder = encoder(&near, "stage");
    far.wait_for_pictures("one");
    far.wait_for_pictures("two");
    forward(&["two", "three"]);
    near.process.signal("HUP");
    far.wait_for_pictures("three");
    until("the end of the first", || far.stream("one").is_none_or(|stream| stream["live"] == false));
    assert_eq!(forwards(&near, "stage").len(), 2);
    assert_eq!(far.count("two", "publishers"), 1, "the one that stays goes on");
    let restarts = |forward: &Value| {
        let figures = forward["figures"].as_array().unwrap();
        figures.iter().find(|figure| figure["name"] == "restarts").unwrap()["value"].as_f64().unwrap()
    };
    assert!(forwards(&near, "stage").iter().all(|forward| restarts(forward) == 0.0));
}

#[test]
fn a_service_that_refuses_the_key_is_told_of_and_the_key_is_not() {
    let scratch = Scratch::new("forward-refused");
    let (_far, rtmp, _) = far(&scratch);
    let text = format!("[stream.stage]\nforward = ['rtmp://{rtmp}/live/one?key=WRONG-SECRET']\n");
    let near = Server::start(GLASSLINE, &["--config", &scratch.write("near.toml", text)]);
    let _encoder = encoder(&near, "stage");
    let forward = until_some("the refusal", || {
        forwards(&near, "stage").into_iter().find(|forward| forward["state"] == "refused")
    });
    let reason = forward["reason"].as_str().unwrap();
    assert!(reason.starts_with("publish was refused: NetStream.Publish.Denied"), "{reason}");
    assert!(forward["retry_in_s"].as_f64().unwrap() <= 60.0);
    assert!(near.process.output().contains("publish was refused"), "the log says it");
    assert!(!near.process.output().contains("SECRET") && !forward.to_string().contains("SECRET"));
    assert!(near.count("stage", "continuity_errors") == 0, "the stream goes on");
}

#[test]
fn codecs_that_a_service_does_not_take_are_told() {
    let scratch = Scratch::new("forward-codec");
    let (_far, rtmp, _) = far(&scratch);
    let text = format!("[stream.stage]\nforward = ['rtmp://{rtmp}/live/one?key=a-publish-key']\n");
    let near = Server::start(GLASSLINE, &["--config", &scratch.write("near.toml", text)]);
    let mut source = glassline_test_support::ts::Source::default();
    // The same tables, with MPEG-2 video in place of H.264.
    let mut publisher = glassline_test_support::http::publish(near.address(), "/live/stage.ts");
    let mpeg2 = mpeg2_tables();
    let forward = until_some("the refusal", || {
        publisher.write_all(&[mpeg2.clone(), source.picture(true, 5)].concat()).unwrap();
        forwards(&near, "stage").into_iter().find(|forward| forward["state"] == "refused")
    });
    let reason = forward["reason"].as_str().unwrap();
    assert!(
        reason.starts_with("the stream's pictures are MPEG-2 video, which the server does not take"),
        "{reason}"
    );
}

/// PAT and PMT of a program of MPEG-2 video.
fn mpeg2_tables() -> Vec<u8> {
    use glassline_media::container::ts::{ElementaryStream, psi};
    let (mut pat, mut pmt, mut out) = (Vec::new(), Vec::new(), Vec::new());
    psi::Pat { transport_stream_id: 1, version: 0, current: true, programs: vec![(1, 0x1000)] }
        .write(&mut pat);
    let streams = vec![ElementaryStream::new(0x100, 0x02, Vec::new())];
    psi::Pmt { program_number: 1, version: 0, current: true, pcr_pid: 0x100, streams }.write(&mut pmt);
    psi::write_packets(0, &pat, &mut 0, &mut out);
    psi::write_packets(0x1000, &pmt, &mut 0, &mut out);
    out
}
