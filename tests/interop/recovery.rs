//! Streams with periodic intra refresh, which have no key frame after the first: whoever joins at a recovery point has
//! exact pictures after as many as the encoder says.

use crate::{GLASSLINE, have, serve};
use glassline_test_support::http::read_once;
use glassline_test_support::http::{connect, publish, read_head};
use glassline_test_support::program::{Scratch, run};
use glassline_test_support::wait::until;
use std::collections::BTreeMap;
use std::io::{ErrorKind, Write};
use std::time::Duration;

const PICTURES: usize = 150;
/// From one recovery point to the next.
const PERIOD: usize = 60;

/// H.264 by x264 with intra refresh, six seconds of 320×180.
fn intra_refresh() -> Vec<u8> {
    let source = "testsrc2=size=320x180:rate=25:duration=6";
    let x264 = format!("intra-refresh=1:keyint={PERIOD}:scenecut=0");
    let mut arguments = vec!["-v", "error", "-f", "lavfi", "-i", source, "-c:v", "libx264"];
    arguments.extend([
        "-preset",
        "superfast",
        "-tune",
        "zerolatency",
        "-x264-params",
        &x264,
        "-f",
        "mpegts",
        "-",
    ]);
    let outcome = run("ffmpeg", &arguments, 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

/// Takes back what the container says of places to join.
fn unannounced(mut bytes: Vec<u8>) -> Vec<u8> {
    for packet in bytes.as_chunks_mut::<188>().0 {
        if packet[3] & 0x20 != 0 && packet[4] > 0 {
            packet[5] &= !0x40;
        }
    }
    bytes
}

/// Each decoded picture's hash, by its time stamp, and what FFmpeg says.
fn decode(bytes: &[u8], scratch: &Scratch, name: &str) -> (BTreeMap<i64, String>, String) {
    let file = scratch.write(name, bytes);
    let mut arguments =
        vec!["-v", "warning", "-flags", "output_corrupt", "-i", &file, "-map", "0:v", "-copyts"];
    arguments.extend(["-fps_mode", "passthrough", "-f", "framemd5", "-"]);
    let outcome = run("ffmpeg", &arguments, 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let picture = |line: &str| {
        let fields: Vec<&str> = line.split(',').map(str::trim).collect();
        Some((fields.get(2)?.parse().ok()?, (*fields.get(5)?).to_owned()))
    };
    let text = outcome.text();
    (text.lines().filter(|line| !line.starts_with('#')).filter_map(picture).collect(), outcome.stderr)
}

/// What FFmpeg has to say of pictures that are not right yet, if it is to show them.
const NOT_RIGHT_YET: [&str; 2] = ["corrupt decoded frame", "Last message repeated"];

#[test]
fn a_viewer_at_a_recovery_point_has_exact_pictures_after_as_many_as_the_stream_says() {
    if !have("a_viewer_at_a_recovery_point_has_exact_pictures_after_as_many_as_the_stream_says", &["ffmpeg"])
    {
        return;
    }
    let scratch = Scratch::new("recovery");
    let whole = intra_refresh();
    let (expected, said) = decode(&whole, &scratch, "whole.ts");
    assert_eq!((expected.len(), said.as_str()), (PICTURES, ""));
    for (name, sent) in [("told", whole.clone()), ("untold", unannounced(whole))] {
        let server = serve();
        let mut publisher = publish(server.address(), &format!("/live/{name}.ts"));
        publisher.write_all(&sent).unwrap();
        until("the stream", || server.count(name, "bytes_in") == sent.len() as u64);
        let join = &server.stream(name).expect("it is there")["join"];
        assert_eq!(join["at"], "recovery point", "{join}");
        let settling = join["settling_frames"].as_u64().unwrap() as usize;
        assert!((1..PICTURES - 2 * PERIOD).contains(&settling), "{join}");

        let joined = watch(&server, name);
        assert_eq!(joined.len() % 188, 0);
        let (seen, said) = decode(&joined, &scratch, name);
        // The last recovery point of the stream is its picture 120.
        let stamps: Vec<i64> = expected.keys().copied().skip(2 * PERIOD).collect();
        let exact = &stamps[settling..];
        for stamp in exact {
            assert_eq!(seen.get(stamp), expected.get(stamp), "{name}: the picture at {stamp} is not exact");
        }
        // The number is no larger than it has to be: what comes before it differs.
        let before = &stamps[settling - 1];
        assert_ne!(seen.get(before), expected.get(before), "{name}");
        assert!(seen.keys().all(|stamp| stamps.contains(stamp)), "{name}: {:?}", seen.keys());
        for line in said.lines() {
            assert!(NOT_RIGHT_YET.iter().any(|due| line.contains(due)), "{name}: {line}");
        }

        let file = scratch.write("joined.ts", &joined);
        let report = run(GLASSLINE, &["probe", "--json", "--check", &file], 60);
        assert!(matches!(report.status, Some(0 | 1)), "{}", report.stderr);
        let report: serde_json::Value = serde_json::from_str(&report.text()).unwrap();
        let video = &report["streams"][0]["video"];
        assert_eq!(
            (video["key_frames"].as_u64(), video["recovery_points"].as_u64()),
            (Some(0), Some(1)),
            "{video}"
        );
        assert_eq!(video["settling_frames_max"].as_u64(), Some(settling as u64));
        let broken = |rule: &str| {
            let rules = report["check"]["rules"].as_array().unwrap();
            rules.iter().find(|it| it["rule"] == rule).unwrap()["broken"].as_u64().unwrap()
        };
        assert_eq!((broken("continuity"), broken("dts_order"), broken("clock_jump")), (0, 0, 0));
    }
}

/// What a viewer of the stream gets until nothing more comes.
fn watch(server: &glassline_test_support::program::Server, name: &str) -> Vec<u8> {
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/{name}.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    let head = read_head(&mut viewer);
    assert_eq!(head.status, 200);
    viewer.set_read_timeout(Some(Duration::from_secs(1))).unwrap();
    let (mut bytes, mut buffer) = (Vec::new(), [0; 65536]);
    loop {
        match read_once(&mut viewer, &mut buffer) {
            Ok(0) => return bytes,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                return bytes;
            }
            Err(error) => panic!("{error}"),
        }
    }
}
