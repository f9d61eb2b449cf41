//! `encode`: pictures that come in streams, in loops, late, or otherwise than they began.

use crate::encode::contents;
use crate::{GLASSLINE, glassline};
use glassline_media::container::ts::{Demuxer, Event};
use glassline_test_support::program::{Outcome, Scratch};
use glassline_test_support::wait::at_once;
use serde_json::Value;
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

fn succeeded(outcome: &Outcome) {
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
}

/// A y4m stream of grey pictures.
fn grey(size: (usize, usize), pictures: usize) -> Vec<u8> {
    let mut bytes = format!("YUV4MPEG2 W{} H{} F25:1 Ip C420jpeg\n", size.0, size.1).into_bytes();
    for number in 0..pictures {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend(std::iter::repeat_n(40 + number as u8, size.0 * size.1));
        bytes.extend(std::iter::repeat_n(128, size.0 * size.1 / 2));
    }
    bytes
}

#[test]
fn a_stream_that_changes_its_size_is_refused_where_it_does() {
    let scratch = Scratch::new("change");
    let output = scratch.file("out.ts");
    let input = scratch.write("in.y4m", [grey((64, 48), 3), grey((32, 48), 3)].concat());
    let outcome = glassline(&["encode", &input, &output]);
    assert_eq!(outcome.status, Some(1));
    for word in ["in.y4m", "change to 32x48", "after 3 of 64x48"] {
        assert!(outcome.stderr.contains(word), "{word:?} is not in {}", outcome.stderr);
    }
    assert_eq!(contents(&std::fs::read(&output).unwrap()).pictures.len(), 3);
    // Of the same size, one goes on behind the other.
    let input = scratch.write("in.y4m", [grey((64, 48), 3), grey((64, 48), 4)].concat());
    succeeded(&glassline(&["encode", &input, &output]));
    assert_eq!(contents(&std::fs::read(&output).unwrap()).pictures.len(), 7);
}

#[test]
fn a_file_can_be_looped_and_nothing_else() {
    let scratch = Scratch::new("loop");
    let (input, output) = (scratch.write("in.y4m", grey((64, 48), 10)), scratch.file("out.ts"));
    succeeded(&glassline(&["encode", &input, &output, "--loop", "--limit", "35"]));
    let pictures = contents(&std::fs::read(&output).unwrap()).pictures;
    assert_eq!(pictures.len(), 35);
    assert!(pictures.windows(2).all(|pair| pair[1] - pair[0] == 3600), "{pictures:?}");
    for input in ["-", "test:64x48@25", "v4l2:/dev/video0"] {
        let outcome = glassline(&["encode", input, &output, "--loop"]);
        assert_eq!(outcome.status, Some(2), "{input}");
        assert!(outcome.stderr.contains("--loop"), "{}", outcome.stderr);
    }
    // A file without a picture would be looped for ever.
    let input = scratch.write("none.y4m", grey((64, 48), 0));
    succeeded(&glassline(&["encode", &input, &output, "--loop"]));
}

#[test]
fn a_pipe_that_stalls_is_told_and_the_clock_goes_on() {
    let mut child = Command::new(GLASSLINE)
        .args(["encode", "-", "-", "--realtime", "--preset", "ultrafast"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || {
        let stream = grey((64, 48), 20);
        let (before, after) = stream.split_at(stream.len() / 2);
        input.write_all(before).unwrap();
        // Longer than the ten pictures before take, by far more than what counts as a stall.
        thread::sleep(Duration::from_millis(2000));
        input.write_all(after).unwrap();
    });
    let outcome = child.wait_with_output().unwrap();
    feeder.join().unwrap();
    let said = String::from_utf8_lossy(&outcome.stderr);
    assert!(outcome.status.success() && said.contains("gave no picture for"), "{said}");
    // Not by `contents`: how often tables come in a stall is a matter of time, and of how busy the machine is.
    let mut demuxer = Demuxer::new();
    demuxer.push(&outcome.stdout);
    demuxer.finish();
    let mut pictures = Vec::new();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            pictures.push(unit.pts.0);
        }
    }
    assert_eq!(demuxer.counters().continuity_errors, 0);
    assert!(pictures.is_sorted(), "{pictures:?}");
    let gap = pictures.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    // The stall, less what was still waiting for its turn.
    assert!(gap > 90 * 1000, "{} ms: {pictures:?}", gap / 90);
}

/// A row of what `--stats --json` told, its median in milliseconds.
fn median(told: &Value, name: &str) -> f64 {
    let rows = told["milliseconds"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == name).unwrap_or_else(|| panic!("no {name} in {told}"));
    row["p50"].as_f64().unwrap()
}

#[test]
fn a_picture_that_waits_at_the_start_does_not_delay_those_behind_it() {
    const RATE: u32 = 25;
    // A camera that began before the encoder: so many pictures are there at once, then one each 40 ms.
    let expect = |bunch: u32| {
        let mut child = Command::new(GLASSLINE)
            .args(["encode", "-", "null:", "--realtime", "--preset", "ultrafast", "--stats", "--json"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let feeder = thread::spawn(move || {
            let stream = grey((64, 48), 150);
            let header = stream.iter().position(|byte| *byte == b'\n').unwrap() + 1;
            input.write_all(&stream[..header]).unwrap();
            let began = Instant::now();
            for (number, picture) in (0u32..).zip(stream[header..].chunks((stream.len() - header) / 150)) {
                let due = began + Duration::from_secs(1) * number.saturating_sub(bunch) / RATE;
                thread::sleep(due.saturating_duration_since(Instant::now()));
                input.write_all(picture).unwrap();
            }
        });
        let outcome = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        let said = String::from_utf8_lossy(&outcome.stderr);
        assert!(outcome.status.success(), "{said}");
        let told: Value = serde_json::from_slice(&outcome.stdout).unwrap();
        // A machine that is busy makes pictures late, and none early. A grid that lies a picture's time behind the
        // camera holds each of them for 40 ms.
        let held = median(&told, "held");
        assert!(held < 10.0, "half of the pictures are held for {held} ms or more: {told}\n{said}");
    };
    at_once(|| expect(1), || expect(3));
}

#[test]
fn a_writer_that_is_too_fast_is_held_to_its_rate() {
    let mut child = Command::new(GLASSLINE)
        .args(["encode", "-", "-", "--realtime", "--preset", "ultrafast"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let mut input = child.stdin.take().unwrap();
    let feeder = thread::spawn(move || input.write_all(&grey((64, 48), 76)).unwrap());
    let began = Instant::now();
    let outcome = child.wait_with_output().unwrap();
    let took = began.elapsed();
    feeder.join().unwrap();
    assert!(outcome.status.success());
    let mut demuxer = Demuxer::new();
    demuxer.push(&outcome.stdout);
    demuxer.finish();
    let units = std::iter::from_fn(|| demuxer.poll()).filter_map(|event| match event {
        Event::AccessUnit { unit, .. } => Some(unit.pts.0),
        _ => None,
    });
    let stamps: Vec<i64> = units.collect();
    // An encoder that a busy machine keeps waiting leaves pictures out.
    assert!((40..=76).contains(&stamps.len()), "{stamps:?}");
    assert!(stamps.is_sorted_by(|one, next| next - one >= 1799), "{stamps:?}");
    // Three seconds, less two pictures' time that may have been taken for a camera's lead; a busy machine adds to it.
    assert!(took >= Duration::from_millis(2900), "{took:?}");
}

#[test]
fn a_device_that_is_none_is_refused() {
    for (device, word) in
        [("/dev/no-such-device", "check that it is there"), ("/dev/null", "no capture device")]
    {
        let outcome = glassline(&["encode", &format!("v4l2:{device}"), "null:"]);
        assert_eq!(outcome.status, Some(1));
        assert!(outcome.stderr.contains(word) && outcome.stderr.contains(device), "{}", outcome.stderr);
    }
}
