//! Pictures that come in as no camera sends them: one and then nothing, all at once, cut short, of odd or changing size.

use crate::{GLASSLINE, glassline};
use bytes::Bytes;
use glassline_media::bitstream::h264::nals;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_test_support::program::{Outcome, Scratch};
use glassline_test_support::wait::PATIENCE;
use std::io::Write;
use std::net::UdpSocket;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::Instant;

const WIDTH: usize = 320;
const HEIGHT: usize = 192;

fn header(width: usize, height: usize) -> Vec<u8> {
    format!("YUV4MPEG2 W{width} H{height} F25:1 Ip A1:1 C420jpeg\n").into_bytes()
}

/// A picture with enough in it to fill several packets a slice.
fn picture(width: usize, height: usize, number: usize) -> Vec<u8> {
    let mut bytes = b"FRAME\n".to_vec();
    let mut noise = 1u32;
    bytes.extend((0..width * height).map(|at| {
        noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (at % width + number * 3) as u8 / 2 + (noise >> 27) as u8 + 40
    }));
    bytes.extend(std::iter::repeat_n(128, 2 * width.div_ceil(2) * height.div_ceil(2)));
    bytes
}

fn y4m(pictures: usize) -> Vec<u8> {
    let frames = (0..pictures).flat_map(|number| picture(WIDTH, HEIGHT, number));
    header(WIDTH, HEIGHT).into_iter().chain(frames).collect()
}

/// The slices of each picture in a stream that has ended.
fn pictures(stream: &[u8]) -> Vec<Vec<Vec<u8>>> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    units(&mut demuxer)
}

/// The slices of each picture that the demuxer holds for whole.
fn units(demuxer: &mut Demuxer) -> Vec<Vec<Vec<u8>>> {
    let events = std::iter::from_fn(|| demuxer.poll());
    let units = events.filter_map(|event| match event {
        Event::AccessUnit { unit, .. } => Some(unit.data),
        _ => None,
    });
    let slices = |unit: Bytes| -> Vec<Vec<u8>> {
        nals(&unit).filter(|nal| nal.kind().is_slice()).map(|nal| nal.bytes.to_vec()).collect()
    };
    units.map(slices).collect()
}

/// An encoder that gets pictures one by one and sends to us.
struct Fed {
    child: Child,
    input: Option<ChildStdin>,
    receiver: UdpSocket,
    demuxer: Demuxer,
    received: Vec<Vec<Vec<u8>>>,
}

impl Fed {
    fn start(options: &[&str]) -> Fed {
        let receiver = UdpSocket::bind("127.0.0.1:0").unwrap();
        let url = format!("udp://{}", receiver.local_addr().unwrap());
        let mut child = Command::new(GLASSLINE)
            .args(["encode", "-", &url])
            .args(options)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let input = child.stdin.take();
        Fed { child, input, receiver, demuxer: Demuxer::new(), received: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Receives until so many pictures are there from their first to their last byte, and no more.
    fn receive(&mut self, count: usize) -> &[Vec<Vec<u8>>] {
        let deadline = Instant::now() + PATIENCE;
        let mut datagram = vec![0; 2000];
        while self.received.len() < count {
            let left = deadline.saturating_duration_since(Instant::now());
            assert!(!left.is_zero(), "{} pictures of {count}", self.received.len());
            self.receiver.set_read_timeout(Some(left)).unwrap();
            let Ok(bytes) = self.receiver.recv(&mut datagram) else { continue };
            assert!(
                bytes > 0 && bytes <= 7 * 188 && bytes.is_multiple_of(188),
                "a datagram of {bytes} bytes"
            );
            self.demuxer.push(&datagram[..bytes]);
            self.received.extend(units(&mut self.demuxer));
        }
        assert_eq!(self.received.len(), count);
        &self.received
    }

    fn end(mut self) {
        drop(self.input.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
        assert_eq!(self.demuxer.counters().continuity_errors, 0);
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Whole pictures that come out in one piece.
const WHOLE: [&str; 4] = ["--threads", "1", "--slices", "1"];

const MODES: [&[&str]; 5] = [
    &["--realtime", "--threads", "1", "--slices", "1"],
    &["--realtime", "--threads", "1", "--slices", "8"],
    &["--realtime", "--threads", "2", "--slices", "2", "--preset", "superfast"],
    &["--no-realtime", "--threads", "2"],
    &["--no-realtime", "--intra-refresh", "--vbv", "1frame"],
];

#[test]
fn one_picture_and_then_nothing_is_on_the_wire_whole() {
    let scratch = Scratch::new("one-picture");
    let file = scratch.write("in.y4m", y4m(3));
    for mode in MODES {
        let reference = glassline(&[&["encode", &file, "-"], mode].concat());
        assert_eq!(reference.status, Some(0), "{mode:?}: {}", reference.stderr);
        let expected = pictures(&reference.stdout);
        assert_eq!(expected.len(), 3, "{mode:?}");
        let mut encoder = Fed::start(mode);
        encoder.write(&header(WIDTH, HEIGHT));
        for number in 0..3 {
            // Nothing follows: neither a picture nor the end.
            encoder.write(&picture(WIDTH, HEIGHT, number));
            let found = encoder.receive(number + 1);
            assert_eq!(found[number].len(), expected[number].len(), "{mode:?}: slices of picture {number}");
            // What a picture becomes does not depend on when it comes; with threads it does on which is ahead.
            if mode.contains(&"1") && !mode.contains(&"2") {
                assert!(found[number] == expected[number], "{mode:?}: picture {number} is another one");
            }
            assert!(encoder.child.try_wait().unwrap().is_none(), "{mode:?} has ended");
        }
        encoder.end();
    }
}

#[test]
fn a_picture_that_comes_in_pieces_is_waited_for() {
    let scratch = Scratch::new("pieces");
    let file = scratch.write("in.y4m", y4m(2));
    let options = [&WHOLE[..], &["--no-realtime"]].concat();
    let reference = glassline(&[&["encode", &file, "-"], &options[..]].concat());
    let expected = pictures(&reference.stdout);
    assert_eq!(expected.len(), 2, "{}", reference.stderr);
    let mut encoder = Fed::start(&options);
    encoder.write(&header(WIDTH, HEIGHT));
    let (first, second) = (picture(WIDTH, HEIGHT, 0), picture(WIDTH, HEIGHT, 1));
    // The source stalls within its second picture: the first one is not kept for that.
    encoder.write(&[&first[..], &second[..1000]].concat());
    assert!(encoder.receive(1) == &expected[..1], "the first picture is another one");
    encoder.write(&second[1000..]);
    assert!(encoder.receive(2) == expected, "the second picture is another one");
    encoder.end();
}

#[test]
fn a_burst_of_pictures_loses_none() {
    let scratch = Scratch::new("burst");
    // Ten a second, so that a busy machine has time for each: of a live writer's pictures no more than two wait.
    let slow =
        [&b"YUV4MPEG2 W320 H192 F10:1 Ip A1:1 C420jpeg\n"[..], &y4m(20)[header(WIDTH, HEIGHT).len()..]]
            .concat();
    let file = scratch.write("in.y4m", &slow);
    for how in ["--realtime", "--no-realtime"] {
        let reference = glassline(&[&["encode", &file, "-", how], &WHOLE[..]].concat());
        let expected = pictures(&reference.stdout);
        assert_eq!(expected.len(), 20, "{}", reference.stderr);
        let mut child = Command::new(GLASSLINE)
            .args(["encode", "-", "-", how])
            .args(WHOLE)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        let bytes = slow.clone();
        let feeder = std::thread::spawn(move || input.write_all(&bytes).unwrap());
        let outcome = child.wait_with_output().unwrap();
        feeder.join().unwrap();
        assert!(outcome.status.success());
        let found = pictures(&outcome.stdout);
        assert_eq!(found.len(), 20, "{how}");
        assert!(found == expected, "{how}: the pictures are others");
    }
}

/// Codes a file that is wrong in some way. No panic, no signal, one line of explanation.
fn refused(bytes: &[u8], status: i32, words: &[&str]) -> Outcome {
    let scratch = Scratch::new("wrong");
    let file = scratch.write("in.y4m", bytes);
    let outcome = glassline(&[&["encode", &file, "-"], &WHOLE[..]].concat());
    assert_eq!(outcome.status, Some(status), "{}", outcome.stderr);
    let last = outcome.stderr.lines().last().unwrap_or_default();
    for word in words {
        assert!(last.contains(word), "{word:?} is not in {last:?}");
    }
    outcome
}

#[test]
fn a_file_that_is_cut_short_is_coded_up_to_its_last_whole_picture() {
    let whole = y4m(4);
    for cut in [1, 100_000 - 30_000, picture(WIDTH, HEIGHT, 0).len() - 8] {
        let outcome = refused(&whole[..whole.len() - cut], 1, &["in.y4m", "picture 3"]);
        assert_eq!(pictures(&outcome.stdout).len(), 3, "{cut} bytes are missing");
    }
    // Cut between two pictures it is just shorter.
    let frame = picture(WIDTH, HEIGHT, 0).len();
    assert_eq!(pictures(&accepted(&whole[..whole.len() - frame])).len(), 3);
    refused(&header(WIDTH, HEIGHT)[..20], 1, &["in.y4m", "header"]);
    refused(b"", 1, &["in.y4m"]);
}

fn accepted(bytes: &[u8]) -> Vec<u8> {
    let scratch = Scratch::new("right");
    let file = scratch.write("in.y4m", bytes);
    let outcome = glassline(&[&["encode", &file, "-"], &WHOLE[..]].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn a_size_that_changes_on_the_way_ends_the_stream_and_is_said() {
    let mut bytes = y4m(3);
    bytes.extend(header(64, 48));
    bytes.extend(picture(64, 48, 0));
    let outcome = refused(&bytes, 1, &["in.y4m", "after 3 of 320x192"]);
    assert_eq!(pictures(&outcome.stdout).len(), 3);
}

#[test]
fn headers_that_lie_are_refused() {
    for (header, words) in [
        ("YUV4MPEG2 W0 H48 F25:1 C420jpeg\n", &["in.y4m"][..]),
        ("YUV4MPEG2 W999999 H999999 F25:1 C420jpeg\n", &["in.y4m"]),
        ("YUV4MPEG2 W64 H48 F0:1 C420jpeg\n", &["in.y4m"]),
        ("YUV4MPEG2 W64 H48 F25:0 C420jpeg\n", &["in.y4m"]),
        ("YUV4MPEG2 W64 H48 F25:1 C420p99\n", &["in.y4m"]),
        ("YUV4MPEG2 F25:1\n", &["in.y4m"]),
        ("RIFF....AVI LIST", &["in.y4m"]),
    ] {
        refused(&[header.as_bytes(), &[0; 5000]].concat(), 1, words);
    }
}
