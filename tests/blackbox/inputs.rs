//! `encode`: pictures that come in streams, in loops, late, or otherwise than they began.

use crate::encode::contents;
use crate::{GLASSLINE, glassline};
use glassline_test_support::program::{Outcome, Scratch};
use std::io::Write;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

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
    let pictures = contents(&outcome.stdout).pictures;
    let gap = pictures.windows(2).map(|pair| pair[1] - pair[0]).max().unwrap();
    // The stall, less what was still waiting for its turn.
    assert!(gap > 90 * 1000, "{} ms: {pictures:?}", gap / 90);
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
