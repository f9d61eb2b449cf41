//! `encode --rendition`: several versions of one capture, on one clock, with key frames in common.

use crate::encode::{Contents, contents, watch};
use crate::{GLASSLINE, glassline, serve, serve_with};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_test_support::http::{ask, get};
use glassline_test_support::program::{Running, Scratch};
use glassline_test_support::wait::until;
use std::process::Command;
use std::thread;

const LADDER: [&str; 6] =
    ["--rendition", "320x180@50:1M", "--rendition", "160x90@25:300k", "--rendition", "320x180@25:500k"];
const NAMES: [&str; 3] = ["180p50", "90p25", "180p25"];

/// A y4m file of a hundred grey pictures at 50 a second, each a little lighter.
fn grey() -> Vec<u8> {
    let mut bytes = b"YUV4MPEG2 W320 H180 F50:1 Ip C420jpeg\n".to_vec();
    for number in 0..100u8 {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend(std::iter::repeat_n(40 + number, 320 * 180));
        bytes.extend(std::iter::repeat_n(128, 320 * 180 / 2));
    }
    bytes
}

fn keys(contents: &Contents) -> Vec<i64> {
    contents.pictures.iter().zip(&contents.keys).filter(|(_, key)| **key).map(|(pts, _)| *pts).collect()
}

#[test]
fn renditions_have_one_clock_and_their_key_frames_in_common() {
    let scratch = Scratch::new("ladder");
    let (input, output) = (scratch.write("in.y4m", grey()), scratch.file("out.ts"));
    let how = ["--keyint", "500ms", "--preset", "ultrafast"];
    let outcome = glassline(&[&["encode", &input, &output], &LADDER[..], &how].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let found: Vec<Contents> = NAMES
        .iter()
        .map(|name| contents(&std::fs::read(scratch.file(&format!("out-{name}.ts"))).unwrap()))
        .collect();
    assert_eq!(found.iter().map(|found| found.pictures.len()).collect::<Vec<_>>(), [100, 50, 50]);
    // Each second picture of the full rate, at the same times: whole pictures are left out.
    let halved: Vec<i64> = found[0].pictures.iter().copied().step_by(2).collect();
    assert!(found[1].pictures == halved && found[2].pictures == halved);
    // 25 pictures are no whole number of those at 25 a second: 26 are.
    let common = keys(&found[0]);
    assert_eq!(common.iter().map(|pts| (pts - common[0]) / 1800).collect::<Vec<_>>(), [0, 26, 52, 78]);
    assert!(found.iter().all(|found| keys(found) == common), "{found:?}");
    assert!(!std::path::Path::new(&output).exists());
}

#[test]
fn a_live_ladder_is_published_as_streams_that_belong_together() {
    let server = serve(&[]);
    let url = server.url("/live/hall.ts");
    let mut encoder = Running::start(
        Command::new(GLASSLINE)
            .args(["encode", "test:320x180@50", &url, "--preset", "ultrafast"])
            .args(LADDER),
    );
    for name in NAMES {
        server.wait_for_pictures(&format!("hall-{name}"));
    }
    let size = |name: &str| {
        let stream = server.stream(&format!("hall-{name}")).unwrap();
        let codecs = stream["codecs"].as_array().unwrap().clone();
        let video = codecs.iter().find(|codec| codec["width"].as_u64() > Some(0)).unwrap();
        (video["width"].as_u64().unwrap(), stream["group"].as_str().map(str::to_owned))
    };
    assert_eq!(size("180p50"), (320, Some("hall".to_owned())));
    assert_eq!(size("90p25"), (160, Some("hall".to_owned())));
    encoder.signal("TERM");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
    until("the streams to be off", || {
        let text = get(server.address(), "/api/streams").json();
        text["streams"].as_array().unwrap().iter().all(|stream| stream["live"] == false)
    });
}

/// When the key frames of a stream are shown that was cut out of a live one.
fn key_frames(stream: &[u8]) -> Vec<i64> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    let events = std::iter::from_fn(|| demuxer.poll());
    let key = |event| match event {
        Event::AccessUnit { unit, .. } if unit.codec.is_video() && unit.random_access => Some(unit.pts.0),
        _ => None,
    };
    events.filter_map(key).collect()
}

#[test]
fn a_section_of_the_server_makes_a_whole_ladder() {
    let config = "[encode.hall]\ninput = 'test:320x180@50'\npreset = 'ultrafast'\nkeyint = '400ms'\nthreads = 1\n\
                  renditions = ['320x180@50:1M', '160x90@25:300k', '320x180@25:500k']\n";
    let (server, scratch) = serve_with(config);
    let names = NAMES.map(|name| format!("hall-{name}"));
    for name in &names {
        server.wait_for_pictures(name);
        assert_eq!(server.stream(name).unwrap()["group"], "hall");
    }
    assert!(server.stream("hall").is_none());
    let common: Vec<Vec<i64>> = thread::scope(|scope| {
        let viewers: Vec<_> =
            names.iter().map(|name| scope.spawn(|| key_frames(&watch(&server, name, 250_000)))).collect();
        viewers.into_iter().map(|viewer| viewer.join().unwrap()).collect()
    });
    // Each began and ended where it could: between those places all have the same key frames.
    let first = common.iter().map(|keys| keys[0]).max().unwrap();
    let last = common.iter().map(|keys| keys[keys.len() - 1]).min().unwrap();
    let inner = |keys: &Vec<i64>| -> Vec<i64> {
        keys.iter().copied().filter(|key| (first..=last).contains(key)).collect()
    };
    assert!(inner(&common[0]).len() >= 3, "{common:?}");
    assert!(common.iter().all(|keys| inner(keys) == inner(&common[0])), "{common:?}");
    // Each is asked by its own name; a key frame is one of all.
    let encoders = || get(server.address(), "/api/encoders").json()["encoders"].as_array().unwrap().clone();
    let of = |name: &str| {
        let found = encoders().into_iter().find(|encoder| encoder["name"] == name).unwrap();
        (found["section"].as_str().unwrap().to_owned(), found["running"]["bitrate_bps"].as_u64().unwrap())
    };
    assert_eq!(of("hall-90p25"), ("hall".to_owned(), 300_000));
    let post = |path: &str| ask(server.address(), "POST", path, &["Content-Length: 0"]).status;
    assert_eq!(post("/api/streams/hall-90p25/bitrate?rate=200k"), 204);
    until("the other rate", || of("hall-90p25").1 == 200_000);
    assert_eq!((of("hall-180p50").1, of("hall-180p25").1), (1_000_000, 500_000));
    assert_eq!((post("/api/streams/hall-180p50/keyframe"), post("/api/streams/hall/keyframe")), (204, 404));
    // Another bit rate is taken without a seam.
    scratch.write("glassline.toml", config.replace("90@25:300k", "90@25:400k"));
    server.process.signal("HUP");
    until("the section's other rate", || of("hall-90p25").1 == 400_000);
    assert_eq!(server.count("hall-90p25", "publishers"), 1);
}

#[test]
fn what_is_no_ladder_is_refused() {
    for (arguments, complaint) in [
        (&["null:", "--rendition", "64x48@20:1M"][..], "no whole part of the source's 50"),
        (&["null:", "--rendition", "64x48@50"], "WIDTHxHEIGHT@RATE:BITRATE"),
        (&["null:", "--rendition", "64x48@50:1M", "--rendition", "64x48@50:1M"], "two renditions"),
        (&["null:", "--rendition", "64x48@50:1M", "--intra-refresh"], "key frames in common"),
        (&["null:", "--rendition", "64x48@50:1M", "--bitrate", "1M"], "--bitrate"),
        (&["-", "--rendition", "64x48@50:1M"], "standard output"),
    ] {
        let outcome = glassline(&[&["encode", "test:64x48@50"], arguments].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(complaint), "{arguments:?}: {}", outcome.stderr);
    }
}
