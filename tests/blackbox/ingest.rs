//! CMAF that is put to the server, track by track.

use crate::hot::upgrade;
use crate::{serve, serve_with};
use glassline_media::bitstream::h264::{self, NalType, Sei};
use glassline_media::container::cmaf::{Brand, LiveTimeline, Media, Run, Track, write_chunk, write_init};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks, Utc};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{Answer, ask, connect, get, publish, read_answer, read_head};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::Server;
use glassline_test_support::wait::until;
use std::io::{Read, Write};
use std::net::TcpStream;

/// Baseline, 320x180, 25 pictures a second, as x264 writes it.
const SPS: &[u8] = &[
    0x67, 0x42, 0xc0, 0x0d, 0xd9, 0x01, 0x41, 0x9f, 0x9f, 0x01, 0x10, 0x00, 0x00, 0x03, 0x00, 0x10, 0x00,
    0x00, 0x03, 0x03, 0x20, 0xf1, 0x42, 0xa4, 0x80,
];
/// 320x240, main profile, 25 pictures a second.
const OTHER_SPS: &[u8] = &[
    0x67, 0x4d, 0x40, 0x0d, 0xec, 0xa0, 0xa0, 0xfd, 0x80, 0x88, 0, 0, 3, 0, 8, 0, 0, 3, 1, 0x90, 0x78, 0xa1,
    0x4c, 0xb0,
];
const PPS: &[u8] = &[0x68, 0xcb, 0x83, 0xcb, 0x20];

fn unit(codec: Codec, data: Vec<u8>, at: i64) -> AccessUnit {
    let (pts, stamps) = (Ticks(at), Stamps::default());
    AccessUnit { codec, data: data.into(), pts, dts: pts, random_access: false, stamps }
}

/// The picture of this number, a key frame each second.
fn picture(sps: &[u8], number: i64) -> AccessUnit {
    let mut data = h264::ACCESS_UNIT_DELIMITER.to_vec();
    let is_key = number % 25 == 0;
    if is_key {
        for nal in [sps, PPS] {
            data.extend_from_slice(&[0, 0, 0, 1]);
            data.extend_from_slice(nal);
        }
    }
    data.extend_from_slice(&[0, 0, 0, 1, if is_key { 0x65 } else { 0x41 }]);
    data.resize(data.len() + 500, 0x88);
    unit(Codec::H264, data, number * 3600)
}

/// 20 ms of Opus.
fn sound(number: i64) -> AccessUnit {
    unit(Codec::Opus, [&[0xfc][..], &[0xe4; 40]].concat(), number * 1800)
}

/// A track as an encoder writes it.
struct Encoder {
    timeline: LiveTimeline,
    make: Box<dyn Fn(i64) -> AccessUnit>,
    next: i64,
}

impl Encoder {
    fn new(make: impl Fn(i64) -> AccessUnit + 'static) -> Encoder {
        let track = Track { id: 1, media: Media::of(&make(0), false).unwrap() };
        Encoder { timeline: LiveTimeline::new(track, Ticks(0)), make: Box::new(make), next: 0 }
    }

    fn video() -> Encoder {
        Encoder::new(|number| picture(SPS, number))
    }

    fn sound() -> Encoder {
        Encoder::new(sound)
    }

    fn header(&self) -> Vec<u8> {
        let mut out = Vec::new();
        write_init(Brand::Cmaf, std::slice::from_ref(self.timeline.track()), &mut out);
        out
    }

    /// The next units, a chunk each.
    fn chunks(&mut self, count: i64) -> Vec<u8> {
        let mut out = Vec::new();
        for _ in 0..count {
            let timed = self.timeline.push(&(self.make)(self.next)).unwrap();
            self.next += 1;
            let run = Run {
                track_id: 1,
                decode_time: timed.decode_time,
                samples: &[timed.sample],
                data: &timed.data,
            };
            write_chunk(self.next as u32, None, &[run], &mut out);
        }
        out
    }
}

/// A long request, in chunks.
fn begin(server: &Server, target: &str) -> TcpStream {
    let mut stream = connect(server.address());
    let host = server.address();
    write!(stream, "POST {target} HTTP/1.1\r\nHost: {host}\r\nTransfer-Encoding: chunked\r\n\r\n").unwrap();
    stream
}

fn send(stream: &mut TcpStream, bytes: &[u8]) {
    write!(stream, "{:x}\r\n", bytes.len()).unwrap();
    stream.write_all(bytes).unwrap();
    stream.write_all(b"\r\n").unwrap();
}

/// A whole request.
fn put_with(server: &Server, target: &str, fields: &str, bytes: &[u8]) -> Answer {
    let mut stream = connect(server.address());
    let (host, length) = (server.address(), bytes.len());
    write!(stream, "PUT {target} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n{fields}Content-Length: {length}\r\n\r\n")
        .unwrap();
    // It may be refused before all of it is taken.
    let _ = stream.write_all(bytes);
    read_answer(&mut stream)
}

fn put(server: &Server, target: &str, bytes: &[u8]) -> u16 {
    put_with(server, target, "", bytes).status
}

/// A viewer that takes the stream apart.
struct Viewer {
    stream: TcpStream,
    demuxer: Demuxer,
}

impl Viewer {
    fn new(server: &Server, name: &str) -> Viewer {
        let mut stream = connect(server.address());
        write!(stream, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(read_head(&mut stream).status, 200);
        Viewer { stream, demuxer: Demuxer::new() }
    }

    fn next(&mut self) -> AccessUnit {
        loop {
            if let Some(event) = self.demuxer.poll() {
                if let Event::AccessUnit { unit, .. } = event {
                    return unit;
                }
                continue;
            }
            let mut buffer = [0; 4096];
            let count = read_once(&mut self.stream, &mut buffer).unwrap();
            assert!(count > 0, "the stream has ended");
            self.demuxer.push(&buffer[..count]);
        }
    }

    fn next_picture(&mut self) -> AccessUnit {
        loop {
            let unit = self.next();
            if unit.codec.is_video() {
                return unit;
            }
        }
    }
}

fn is_live(server: &Server, name: &str) -> bool {
    server.stream(name).is_some_and(|stream| stream["live"] == true)
}

#[test]
fn a_picture_is_with_the_viewer_when_its_chunk_is_here() {
    let server = serve(&[]);
    let (mut video, mut audio) = (Encoder::video(), Encoder::sound());
    let mut pictures = begin(&server, "/live/cam/Streams(video.cmfv)");
    let mut sounds = begin(&server, "/live/cam/Streams(audio.cmfa)");
    send(&mut pictures, &[video.header(), video.chunks(1)].concat());
    send(&mut sounds, &[audio.header(), audio.chunks(2)].concat());
    server.wait_for_pictures("cam");
    let mut viewer = Viewer::new(&server, "cam");
    assert_eq!(viewer.next_picture().dts, viewer_time(0));
    for number in 1..60 {
        // The request goes on: all but the last byte, then that.
        let chunk = video.chunks(1);
        let (most, last) = chunk.split_at(chunk.len() - 1);
        send(&mut pictures, most);
        send(&mut sounds, &audio.chunks(2));
        send(&mut pictures, last);
        assert_eq!(viewer.next_picture().dts, viewer_time(number));
    }
    assert_eq!(get(server.address(), "/live/cam/index.m3u8").status, 200);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_ingest_publishers", "") as u64, 1);
    assert_eq!(metrics.sum("glassline_ingest_chunks_total", "") as u64, 60 + 120);
    // The publisher says that all is over.
    for stream in [&mut pictures, &mut sounds] {
        send(stream, b"\0\0\0\x08mfra");
        stream.write_all(b"0\r\n\r\n").unwrap();
        assert_eq!(read_head(stream).status, 204);
    }
    until("the publisher to be gone", || !is_live(&server, "cam"));
    assert_eq!(server.count("cam", "publishers"), 1);
}

/// When a picture is decoded as the wire says it.
fn viewer_time(number: i64) -> Ticks {
    Ticks(number * 3600 + 27_000)
}

#[test]
fn headers_and_segments_are_put_by_name_and_the_rest_is_passed_over() {
    let server = serve(&[]);
    let (mut video, mut audio) = (Encoder::video(), Encoder::sound());
    assert_eq!(put(&server, "/live/a/manifest.mpd", b"<MPD/>"), 204);
    assert!(server.stream("a").is_none(), "a manifest is no stream");
    assert_eq!(put(&server, "/live/a/init-stream0.m4s", &video.header()), 204);
    assert_eq!(put(&server, "/live/a/init-stream1.m4s", &audio.header()), 204);
    for number in 1..4 {
        assert_eq!(put(&server, &format!("/live/a/chunk-stream0-{number:05}.m4s"), &video.chunks(25)), 204);
        assert_eq!(put(&server, &format!("/live/a/chunk-stream1-{number:05}.m4s"), &audio.chunks(50)), 204);
        assert_eq!(put(&server, "/live/a/manifest.mpd", &[b' '; 100_000]), 204);
        let delete = ask(server.address(), "DELETE", "/live/a/chunk-stream0-00001.m4s", &[]);
        assert_eq!(delete.status, 204);
    }
    server.wait_for_pictures("a");
    let mut viewer = Viewer::new(&server, "a");
    let first = viewer.next_picture();
    assert!(h264::is_key(&first.data));
    assert_eq!(get(server.address(), "/live/a/index.m3u8").status, 200);
    assert_eq!(server.metrics().sum("glassline_ingest_manifests_total", "") as u64, 4);
    assert_eq!(server.count("a", "continuity_errors"), 0);
}

#[test]
fn a_name_has_one_publisher_whatever_it_sends() {
    let server = serve(&[]);
    let mut video = Encoder::video();
    let mut cmaf = begin(&server, "/live/one/v.cmfv");
    send(&mut cmaf, &[video.header(), video.chunks(5)].concat());
    until("the publisher", || is_live(&server, "one"));
    let refused = read_answer(&mut publish(server.address(), "/live/one.ts"));
    assert_eq!(refused.status, 409);
    // Another credential is another publisher.
    let fields = "Authorization: Bearer other\r\n";
    assert_eq!(put_with(&server, "/live/one/v.cmfv", fields, &video.header()).status, 409);
    // MPEG-TS takes it over, and CMAF takes it back.
    let shape = Shape { packets: 5, group: 5 };
    let mut ts = publish(server.address(), "/live/one.ts?takeover=1");
    ts.write_all(&shape.picture(0)).unwrap();
    assert_eq!(read_head(&mut cmaf).status, 409);
    assert_eq!(put(&server, "/live/one/v.cmfv", &video.header()), 409);
    assert_eq!(put(&server, "/live/one/v.cmfv?takeover=1", &video.header()), 204);
    assert_eq!(read_answer(&mut ts).status, 409);
    // Another address: another publisher, as all of this machine may be.
    assert_eq!(put(&server, "/live/one/v.cmfv", &video.chunks(1)), 204);
}

#[test]
fn who_may_not_publish_may_put_and_delete_nothing() {
    let (server, _scratch) = serve_with("[publish]\nkey = 'correct-horse'\n");
    let header = Encoder::video().header();
    for target in ["/live/a/init.mp4", "/live/a/index.m3u8", "/live/a/init.mp4?key=wrong"] {
        assert_eq!(put(&server, target, &header), 401, "{target}");
        assert_eq!(ask(server.address(), "DELETE", target, &[]).status, 401, "{target}");
    }
    let with_key = "?key=correct-horse";
    assert_eq!(put(&server, &format!("/live/a/init.mp4{with_key}"), &header), 204);
    assert_eq!(ask(server.address(), "DELETE", &format!("/live/a/x.m4s{with_key}"), &[]).status, 204);
    assert!(!server.process.output().contains("correct-horse"));
    // A page of another origin may not either.
    let fields = "Origin: http://evil.example\r\nAuthorization: Bearer correct-horse\r\n";
    assert_eq!(put_with(&server, "/live/a/init.mp4", fields, &header).status, 403);
}

#[test]
fn silence_gives_the_name_up_and_segments_are_no_silence() {
    let (server, _scratch) = serve_with("[publish]\nsilence_timeout = '1s'\n");
    let mut video = Encoder::video();
    let mut long = begin(&server, "/live/quiet/v.cmfv");
    send(&mut long, &[video.header(), video.chunks(2)].concat());
    until("the publisher", || is_live(&server, "quiet"));
    assert_eq!(read_head(&mut long).status, 408);
    until("the name to be free", || !is_live(&server, "quiet"));
    // Whole segments of 30 s say that the next one may take as long.
    let mut slow = Encoder::new(|number| AccessUnit {
        pts: Ticks(number * 90_000),
        dts: Ticks(number * 90_000),
        ..picture(SPS, 25 * number)
    });
    assert_eq!(put(&server, "/live/slow/init.mp4", &slow.header()), 204);
    assert_eq!(put(&server, "/live/slow/1.m4s", &slow.chunks(30)), 204);
    until("another stream to be silent for longer", || {
        let target = "/live/other/v.cmfv";
        let mut other = begin(&server, target);
        send(&mut other, &[Encoder::video().header(), Encoder::video().chunks(1)].concat());
        read_head(&mut other).status == 408
    });
    assert!(is_live(&server, "slow"));
}

#[test]
fn what_cannot_be_taken_is_answered_clearly() {
    let (server, _scratch) = serve_with("[viewer]\nbody_timeout = '1s'\n");
    let refused = |target: &str, bytes: &[u8], status: u16, words: &str| {
        let answer = put_with(&server, target, "", bytes);
        assert_eq!(answer.status, status, "{}", answer.text());
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert!(answer.text().contains(words), "{}", answer.text());
    };
    let mut video = Encoder::video();
    let header = video.header();
    let mut other = header.clone();
    let at = other.windows(4).position(|window| window == b"avc1").unwrap();
    other[at..at + 4].copy_from_slice(b"vp09");
    refused("/live/a/v.cmfv", &other, 415, "vp09");
    refused("/live/a/v.cmfv", b"GARBAGE BYTES", 415, "expected a box of CMAF");
    refused("/live/a/v.cmfv", &header[..100], 400, "ends inside of a box");
    refused("/live/a/v.cmfv", &[&header[..], b"\x7f\xff\xff\xffmoof"].concat(), 400, "at most 1 MiB");
    refused("/live/b/1.m4s", &video.chunks(1), 412, "without its header");
    refused(&format!("/live/a/{}", "x".repeat(300)), &header, 404, "no such address");
    assert_eq!(put(&server, "/live/c/v.cmfv", &header), 204);
    assert_eq!(put(&server, "/live/c/a.cmfa", &Encoder::sound().header()), 204);
    refused("/live/c/b.cmfa", &Encoder::sound().header(), 409, "second track of sound");
    // One that begins and sends nothing.
    let mut mute = begin(&server, "/live/d/v.cmfv");
    assert_eq!(read_head(&mut mute).status, 408);
    let metrics = server.metrics();
    assert!(metrics.sum("glassline_ingest_refused_total", "") as u64 >= 6);
    assert_eq!(metrics.sum("glassline_ingest_refused_tracks_total", "") as u64, 2);
    let log = server.process.output();
    assert!(log.contains("vp09"), "{log}");
}

#[test]
fn versions_become_a_ladder_of_streams() {
    let server = serve(&[]);
    let (mut low, mut high, mut audio) =
        (Encoder::video(), Encoder::new(|number| picture(OTHER_SPS, number)), Encoder::sound());
    assert_eq!(put(&server, "/live/hall/init-0.mp4", &low.header()), 204);
    assert_eq!(put(&server, "/live/hall/init-1.mp4", &high.header()), 204);
    assert_eq!(put(&server, "/live/hall/init-2.mp4", &audio.header()), 204);
    for number in 1..3 {
        for (track, bytes) in [low.chunks(25), high.chunks(25), audio.chunks(50)].iter().enumerate() {
            assert_eq!(put(&server, &format!("/live/hall/{track}-{number}.m4s"), bytes), 204);
        }
    }
    for (name, height) in [("hall-240p25", 240), ("hall-180p25", 180)] {
        server.wait_for_pictures(name);
        until("the picture's size", || {
            server.stream(name).is_some_and(|stream| stream["codecs"][0]["height"] == height)
        });
        assert_eq!(server.stream(name).unwrap()["group"], "hall");
        let mut viewer = Viewer::new(&server, name);
        let heard = (0..20).any(|_| viewer.next().codec == Codec::Opus);
        assert!(heard, "{name} has the sound");
    }
    until("no stream of the name itself", || server.stream("hall").is_none());
    // The name is taken all the same.
    let shape = Shape { packets: 5, group: 5 };
    assert_eq!(read_answer(&mut publish(server.address(), "/live/hall.ts")).status, 409);
    let mut ts = publish(server.address(), "/live/hall.ts?takeover=1");
    ts.write_all(&shape.picture(0)).unwrap();
    until("the new publisher", || is_live(&server, "hall") && !is_live(&server, "hall-180p25"));
}

#[test]
fn our_own_segments_come_back_with_the_time_of_capture() {
    let server = serve(&["--demo"]);
    server.wait_for_pictures("demo");
    let playlist = |name: &str| get(server.address(), &format!("/live/demo/{name}")).text();
    let mut all = String::new();
    until("two segments", || {
        all = playlist("video.m3u8");
        all.matches("#EXTINF").count() >= 2
    });
    let header = all.split("#EXT-X-MAP:URI=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let header_bytes = get(server.address(), &format!("/live/demo/{header}")).body;
    assert_eq!(put(&server, "/live/copy/init.mp4", &header_bytes), 204);
    let segments: Vec<&str> = all.lines().filter(|line| !line.starts_with('#')).take(2).collect();
    for (number, segment) in segments.iter().enumerate() {
        let bytes = get(server.address(), &format!("/live/demo/{segment}")).body;
        assert_eq!(put(&server, &format!("/live/copy/{number}.m4s"), &bytes), 204);
    }
    server.wait_for_pictures("copy");
    let mut viewer = Viewer::new(&server, "copy");
    let picture = viewer.next_picture();
    let said: Vec<Utc> = h264::nals(&picture.data)
        .filter(|nal| nal.kind() == NalType::Sei)
        .filter_map(|nal| Sei::parse(nal.payload()).capture_utc())
        .collect();
    assert_eq!(said.len(), 1, "once");
}

#[test]
fn a_reload_keeps_a_publisher_and_an_upgrade_frees_its_name() {
    let (mut server, scratch) = serve_with("[publish]\nsilence_timeout = '20s'\n");
    let mut video = Encoder::video();
    let mut long = begin(&server, "/live/kept/v.cmfv");
    send(&mut long, &[video.header(), video.chunks(5)].concat());
    server.wait_for_pictures("kept");
    let mut viewer = Viewer::new(&server, "kept");
    assert_eq!(viewer.next_picture().dts, viewer_time(0));
    scratch.write("glassline.toml", "[publish]\nsilence_timeout = '21s'\n");
    let reloads = || server.process.output().matches("the configuration was read again").count();
    let before = reloads();
    server.process.signal("HUP");
    until("the reload", || reloads() > before);
    send(&mut long, &video.chunks(5));
    for number in 1..10 {
        assert_eq!(viewer.next_picture().dts, viewer_time(number));
    }
    // The next program does not know what was half read.
    upgrade(&mut server, &scratch.file("glassline.toml"));
    let mut rest = Vec::new();
    let _ = long.read_to_end(&mut rest);
    let mut again = Encoder::video();
    assert_eq!(put(&server, "/live/kept/v.cmfv", &again.header()), 204);
    assert_eq!(put(&server, "/live/kept/v.cmfv", &again.chunks(3)), 204);
    until("the pictures", || viewer.next_picture().dts == viewer_time(2));
}
