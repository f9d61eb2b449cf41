//! A version with a look-ahead beside one without delay, and what is changed of a version while it runs.

use crate::commands::assert_fails;
use crate::{GLASSLINE, glassline, serve, serve_with};
use glassline_media::AccessUnit;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_test_support::http::{ask, get};
use glassline_test_support::program::{Running, Scratch, run};
use glassline_test_support::wait::{until, until_some};
use glassline_test_support::{has_program, skip};
use std::process::Command;

const TWO: [&str; 4] = [
    "--rendition",
    "320x180@25:600k;preset=ultrafast",
    "--rendition",
    "320x180@25:300k+64k;look-ahead=500ms;bframes=3;preset=veryfast;profile=main;level=3.1;ref=2;tune=film",
];

fn units(stream: &[u8]) -> (Vec<AccessUnit>, Vec<AccessUnit>) {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let (mut video, mut audio) = (Vec::new(), Vec::new());
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            if unit.codec.is_video() { video.push(unit) } else { audio.push(unit) }
        }
    }
    let counters = demuxer.counters();
    assert_eq!((counters.continuity_errors, counters.damaged_units), (0, 0));
    (video, audio)
}

#[test]
fn one_capture_gives_the_hall_no_delay_and_the_outside_quality() {
    let scratch = Scratch::new("quality");
    let output = scratch.file("out.ts");
    let arguments = ["encode", "test:320x180@25", &output, "--duration", "3s", "--stats", "--json"];
    let outcome = glassline(&[&arguments[..], &TWO].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("looks 13 pictures ahead"), "{}", outcome.stderr);
    let read = |name: &str| units(&std::fs::read(scratch.file(name)).unwrap());
    let (hall, hall_sound) = read("out-180p25-600k.ts");
    let (outside, outside_sound) = read("out-180p25-300k.ts");
    assert!(hall.iter().all(|unit| unit.pts == unit.dts));
    assert!(outside.iter().any(|unit| unit.dts < unit.pts), "there are B-frames");
    assert!(outside.windows(2).all(|pair| pair[0].dts < pair[1].dts));
    // All that was captured comes out at the end, and is the same as in the other one where a busy machine has left nothing out.
    let tables: Vec<serde_json::Value> =
        outcome.text().lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let count = |index: usize, what: &str| tables[index][what].as_u64().unwrap();
    assert_eq!(count(0, "pictures") + count(0, "dropped"), count(1, "pictures") + count(1, "dropped"));
    assert_eq!((outside.len() as u64, hall.len() as u64), (count(1, "pictures"), count(0, "pictures")));
    // Sound of a rate of its own: half the bytes, and as much of it.
    let bytes = |units: &[AccessUnit]| units.iter().map(|unit| unit.data.len()).sum::<usize>();
    assert!(
        bytes(&outside_sound) < bytes(&hall_sound) * 2 / 3 && outside_sound.len() + 20 > hall_sound.len()
    );
    let rows = tables[1]["milliseconds"].as_array().unwrap();
    let ahead = rows.iter().find(|row| row["name"] == "look_ahead").unwrap();
    assert!(ahead["p50"].as_f64().unwrap() >= 500.0, "{ahead}");
    assert!(tables[0]["milliseconds"].as_array().unwrap().iter().all(|row| row["name"] != "look_ahead"));
}

#[test]
fn ffmpeg_decodes_every_picture_in_its_order() {
    if !has_program("ffmpeg") {
        skip("ffmpeg_decodes_every_picture_in_its_order", "no ffmpeg");
        return;
    }
    let scratch = Scratch::new("quality-ffmpeg");
    for name in ["out.ts", "out.mp4"] {
        let output = scratch.file(name);
        let outcome = glassline(&[
            "encode",
            "test:320x180@25",
            &output,
            "--duration",
            "2s",
            "--look-ahead",
            "400ms",
            "--preset",
            "veryfast",
        ]);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let mut command = Command::new("ffprobe");
        command.args(["-v", "error", "-select_streams", "v", "-show_entries", "frame=pts_time,pict_type"]);
        let told = command.args(["-of", "csv=p=0", &output]).output().unwrap();
        assert!(told.stderr.is_empty(), "{name}: {}", String::from_utf8_lossy(&told.stderr));
        let text = String::from_utf8(told.stdout).unwrap();
        let times: Vec<f64> = text.lines().filter_map(|line| line.split(',').next()?.parse().ok()).collect();
        assert!(times.len() >= 20, "{name}: {text}");
        // A machine that is busy leaves whole pictures out.
        let pictures = |pair: &[f64]| (pair[1] - pair[0]) / 0.04;
        let is_whole = |count: f64| count > 0.5 && (count - count.round()).abs() < 0.03;
        assert!(times.windows(2).all(|pair| is_whole(pictures(pair))), "{name}: {times:?}");
        assert!(text.contains(",B"), "{name}: {text}");
    }
}

/// What a playlist's newest segments have, decoded by FFmpeg.
#[test]
fn ll_hls_and_ll_dash_carry_the_order_of_decoding() {
    let scratch = Scratch::new("quality-hls");
    let config = "[encode.hall]\ninput = 'test:320x180@25'\naudio = 'opus'\npreset = 'veryfast'\nkeyint = '500ms'\n\
                  look_ahead = '400ms'\nbframes = 2\n[package]\nsegment = '1s'\npart = '200ms'\n";
    let (server, _config) = serve_with(config);
    server.wait_for_pictures("hall");
    let list = until_some("three segments", || {
        let list = get(server.address(), "/live/hall/video.m3u8").text();
        (list.lines().filter(|line| line.ends_with(".m4s")).count() >= 3).then_some(list)
    });
    let init = get(server.address(), "/live/hall/video/init.mp4");
    let map = list.split("#EXT-X-MAP:URI=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap();
    let init = if init.status == 200 { init } else { get(server.address(), &format!("/live/hall/{map}")) };
    let segment = list.lines().filter(|line| line.ends_with(".m4s")).nth(1).unwrap();
    let body = get(server.address(), &format!("/live/hall/{segment}")).body;
    let file = scratch.file("segment.mp4");
    std::fs::write(&file, [init.body, body].concat()).unwrap();
    let manifest = get(server.address(), "/live/hall/manifest.mpd");
    assert_eq!(manifest.status, 200);
    if !has_program("ffprobe") {
        skip("ll_hls_and_ll_dash_carry_the_order_of_decoding", "no ffprobe");
        return;
    }
    let mut command = Command::new("ffprobe");
    command.args([
        "-v",
        "error",
        "-select_streams",
        "v",
        "-show_entries",
        "packet=pts,dts",
        "-of",
        "csv=p=0",
        &file,
    ]);
    let text = String::from_utf8(command.output().unwrap().stdout).unwrap();
    let stamps: Vec<(i64, i64)> = text
        .lines()
        .filter_map(|line| {
            let mut parts = line.split(',');
            Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
        })
        .collect();
    assert!(stamps.len() >= 20, "{text}");
    assert!(stamps.windows(2).all(|pair| pair[0].1 < pair[1].1), "{stamps:?}");
    assert!(
        stamps.iter().any(|(pts, dts)| pts > dts) && stamps.iter().all(|(pts, dts)| pts >= dts),
        "{stamps:?}"
    );
}

#[test]
fn operators_change_size_rate_and_preset_and_viewers_get_a_new_beginning() {
    let config = "[encode.hall]\ninput = 'test:320x180@50'\naudio = 'none'\npreset = 'ultrafast'\nkeyint = '500ms'\n[package]\nsegment = '1s'\npart = '200ms'\n";
    let (server, _config) = serve_with(config);
    server.wait_for_pictures("hall");
    let post = |path: &str| ask(server.address(), "POST", path, &["Content-Length: 0"]).status;
    let mut command = Command::new(GLASSLINE);
    let mut viewer =
        Running::start(command.args(["probe", &server.url("/live/hall.ts"), "--duration", "60s"]));
    let width = || {
        let codecs = server.stream("hall")?["codecs"].as_array()?.clone();
        codecs.iter().find_map(|codec| codec["width"].as_u64())
    };
    assert_eq!(width(), Some(320));
    let list = || get(server.address(), "/live/hall/video.m3u8").text();
    until("a segment", || list().contains(".m4s"));
    assert!(!list().contains("#EXT-X-DISCONTINUITY\n"));
    assert_eq!(post("/api/streams/hall/size?size=160x90"), 204);
    until("the other size", || width() == Some(160));
    // Players of segments need another header, and are told where it begins.
    until("segments of the other size", || {
        let list = list();
        list.contains("#EXT-X-DISCONTINUITY\n") && list.matches("#EXT-X-MAP:").count() >= 2
    });
    let encoder = || {
        let encoders = get(server.address(), "/api/encoders").json();
        encoders["encoders"].as_array().unwrap().iter().find(|one| one["name"] == "hall").unwrap().clone()
    };
    assert_eq!(post("/api/streams/hall/preset?preset=veryfast"), 204);
    until("the other preset", || encoder()["running"]["preset"] == "veryfast");
    assert_eq!(server.metrics().sum("glassline_encoder_preset", "preset=\"veryfast\""), 1.0);
    assert_eq!(post("/api/streams/hall/rate?rate=25"), 204);
    until("the other rate", || encoder()["running"]["name"] == "160x90@25");
    for (path, status) in [
        ("/api/streams/hall/size", 400),
        ("/api/streams/hall/size?size=161x90", 400),
        ("/api/streams/hall/rate?rate=30", 400),
        ("/api/streams/hall/preset?preset=fastest", 400),
        ("/api/streams/none/size?size=160x90", 404),
    ] {
        assert_eq!(post(path), status, "{path}");
    }
    assert!(viewer.ended().is_none(), "{}", viewer.output());
    viewer.signal("INT");
    viewer.wait();
}

#[test]
fn a_preset_that_is_found_out_is_told() {
    let server = serve(&[]);
    let url = server.url("/live/auto.ts");
    let mut command = Command::new(GLASSLINE);
    let mut encoder = Running::start(command.args(["encode", "test:160x90@25", &url, "--preset", "auto"]));
    // A picture of this size leaves room for a slower preset on any machine that runs this.
    until("a slower preset", || encoder.output().contains("preset faster from now on"));
    encoder.signal("TERM");
    assert_eq!(encoder.wait().code(), Some(0), "{}", encoder.output());
}

#[test]
fn what_quality_does_not_go_with_is_refused_with_the_reason() {
    let refused = |more: &[&str], words: &[&str]| {
        let outcome = glassline(&[&["encode", "test:320x180@50", "null:"], more].concat());
        assert_fails(&outcome, 2, words);
    };
    refused(&["--look-ahead", "6s"], &["300", "10 s of 25 pictures a second, 5 s of 50"]);
    refused(&["--look-ahead", "1s", "--cbr"], &["look-ahead", "no delay"]);
    refused(&["--level", "1.1"], &["level is 1.1", "or more"]);
    refused(&["--level", "7"], &["no level of H.264"]);
    refused(&["--crf", "52"], &["constant rate factor"]);
    refused(&["--bframes", "17"], &["between 0 and 16"]);
    refused(&["--rendition", "320x180@50:1M;lookahead=1s"], &["look-ahead"]);
    let scratch = Scratch::new("quality-config");
    let file =
        scratch.write("glassline.toml", "[encode.hall]\ninput = 'test:320x180@50'\nlook_ahead = '6s'\n");
    let outcome = run(GLASSLINE, &["serve", "--config", &file, "--test-config"], 30);
    assert_fails(&outcome, 2, &["encode.hall.look_ahead", "300"]);
}
