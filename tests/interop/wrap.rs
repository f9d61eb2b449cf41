//! A stream whose 33-bit time stamps begin anew while it runs: no receiver may notice. The capture clock is the
//! monotonic one, so the encoder runs in a time namespace in which that is about to pass 2³³ ticks of 90 kHz.

use crate::{GLASSLINE, have, pictures, serve};
use glassline_io::clock::Clock;
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{Packet, Pcr};
use glassline_test_support::program::{Running, Scratch, left_out, run};
use glassline_test_support::skip;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Seconds from zero to the wrap.
const WRAP_S: f64 = (1u64 << 33) as f64 / 90_000.0;

/// The words that start a program `before` seconds before the wrap, where the machine allows it.
fn near_the_wrap(test: &str, before: f64) -> Option<Vec<String>> {
    let now = Clock::new().now().as_nanos() as f64 / 1e9;
    // The next multiple that is ahead: a clock cannot be put back behind zero.
    let wraps = ((now + before) / WRAP_S).ceil().max(1.0);
    let offset = (wraps * WRAP_S - before - now).round() as i64;
    let words = ["unshare", "-r", "--time", "--monotonic", &offset.to_string()].map(str::to_owned).to_vec();
    let allowed = have(test, &["unshare"]).then(|| {
        let mut command = Command::new(&words[0]);
        command
            .args(&words[1..])
            .arg("true")
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success())
    })?;
    if !allowed {
        skip(test, "no time namespace is allowed here");
    }
    allowed.then_some(words)
}

fn encode(words: &[String], arguments: &[&str]) -> Command {
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args([GLASSLINE, "encode", "test:320x180@25"]).args(arguments);
    command
}

#[test]
fn a_recording_goes_on_over_the_wrap() {
    let test = "a_recording_goes_on_over_the_wrap";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let Some(words) = near_the_wrap(test, 4.0) else { return };
    let scratch = Scratch::new("wrap");
    let file = scratch.file("out.ts");
    let mut encoder = Running::start(&mut encode(&words, &[&file, "--limit", "200"]));
    assert!(encoder.wait().success(), "{}", encoder.output());
    let bytes = std::fs::read(&file).unwrap();
    let clocks: Vec<_> = packets(&bytes).filter_map(|packet| Packet::parse(packet).unwrap().pcr()).collect();
    let wraps = clocks.windows(2).filter(|pair| pair[1].ticks() < pair[0].ticks()).count();
    assert_eq!(wraps, 1, "the clock passes its wrap");
    assert!(clocks.windows(2).all(|pair| pair[1].since(pair[0]) < Pcr::RATE), "the clock jumps");

    let decoded = run("ffmpeg", &["-v", "warning", "-xerror", "-i", &file, "-f", "null", "-"], 60);
    assert_eq!((decoded.status, decoded.stderr.trim()), (Some(0), ""));
    let entries = ["-v", "warning", "-show_entries", "packet=pts_time,stream_index", "-of", "csv=p=0", &file];
    let listed = run("ffprobe", &[&entries[..], &["-select_streams", "v"]].concat(), 60);
    let stamps: Vec<f64> =
        listed.text().lines().filter_map(|line| line.split(',').nth(1)?.parse().ok()).collect();
    let left_out = left_out(&encoder.output());
    assert!(left_out < 100, "{left_out} of 200 pictures were left out");
    assert_eq!(stamps.len() as u32 + left_out, 200, "{stamps:?}");
    assert!(stamps.is_sorted_by(|one, next| one < next), "{stamps:?}");
    assert!(stamps[stamps.len() - 1] - stamps[0] < 9.0, "{stamps:?}");

    let probe = run(GLASSLINE, &["probe", &file, "--json"], 60);
    assert_eq!(probe.status, Some(0), "{}", probe.stderr);
    let report: Value = serde_json::from_str(&probe.text()).unwrap();
    assert_eq!(report["clock"]["jumps"], 0, "{report}");
    for stream in report["streams"].as_array().unwrap() {
        assert_eq!(stream["pts_jumps"], 0, "{stream}");
    }
    let seconds = report["duration_s"].as_f64().unwrap();
    assert!((7.0..9.0).contains(&seconds), "{seconds} s");
}

#[test]
fn a_relay_and_its_viewers_go_on_over_the_wrap() {
    let test = "a_relay_and_its_viewers_go_on_over_the_wrap";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let Some(words) = near_the_wrap(test, 8.0) else { return };
    let server = serve();
    let publish = server.url("/live/wrap.ts");
    let mut encoder = Running::start(&mut encode(&words, &[&publish, "--limit", "2000"]));
    server.wait_for_pictures("wrap");
    // Two viewers from before the wrap to the stream's end: a decoder, and our own look at it.
    let mut decoder = Command::new("ffmpeg")
        .args(["-v", "warning", "-i", &publish, "-t", "11", "-an", "-fps_mode", "passthrough"])
        .args(["-f", "yuv4mpegpipe", "-pix_fmt", "yuv420p", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let probe = Command::new(GLASSLINE)
        .args(["probe", &publish, "--json", "--duration", "11s"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let seen = pictures::read_y4m(decoder.stdout.take().unwrap(), usize::MAX);
    let complaints = decoder.wait_with_output().unwrap().stderr;
    assert!(encoder.ended().is_none(), "{}", encoder.output());
    assert_eq!(String::from_utf8_lossy(&complaints).trim(), "");
    let report: Value = serde_json::from_slice(&probe.wait_with_output().unwrap().stdout).unwrap();
    assert_eq!((&report["clock"]["jumps"], &report["errors"]["continuity_errors"]), (&0.into(), &0.into()));
    assert!(report["duration_s"].as_f64().unwrap() > 8.0, "{}", report["duration_s"]);
    let entry = server.stream("wrap").unwrap();
    assert_eq!(entry["continuity_errors"], 0, "{entry}");
    encoder.signal("INT");
    assert!(encoder.wait().success(), "{}", encoder.output());
    let left_out = left_out(&encoder.output());
    // 11 s of them.
    assert!(
        seen.len() as u32 + left_out >= 270,
        "{} pictures over the wrap, {left_out} left out",
        seen.len()
    );
    pictures::check(&seen, 25.0, left_out);
}
