//! Pictures that come in as no camera sends them: one and then nothing, all at once, cut short, of odd or changing size.

use crate::{GLASSLINE, glassline};
use glassline_media::bitstream::h264::nals;
use glassline_media::container::ts::Packet;
use glassline_media::container::ts::packet::packets;
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

/// The slices of a stream's pictures as they are there so far; the last one may be a part.
fn slices(stream: &[u8]) -> Vec<Vec<u8>> {
    let (mut video, mut elementary) = (None, Vec::new());
    for bytes in packets(stream) {
        let packet = Packet::parse(bytes).unwrap();
        let starts = packet.unit_start && packet.payload.starts_with(&[0, 0, 1, 0xE0]);
        if starts {
            video = Some(packet.pid);
        }
        if video == Some(packet.pid) {
            let from = if starts { 9 + usize::from(packet.payload[8]) } else { 0 };
            elementary.extend_from_slice(&packet.payload[from..]);
        }
    }
    nals(&elementary).filter(|nal| nal.kind().is_slice()).map(|nal| nal.bytes.to_vec()).collect()
}

/// An encoder that gets pictures one by one and sends to us.
struct Fed {
    child: Child,
    input: Option<ChildStdin>,
    receiver: UdpSocket,
    received: Vec<u8>,
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
        Fed { child, input, receiver, received: Vec::new() }
    }

    fn write(&mut self, bytes: &[u8]) {
        let input = self.input.as_mut().unwrap();
        input.write_all(bytes).unwrap();
        input.flush().unwrap();
    }

    /// Receives until exactly these slices are there.
    fn receive(&mut self, expected: &[Vec<u8>]) {
        let deadline = Instant::now() + PATIENCE;
        let mut datagram = vec![0; 2000];
        while slices(&self.received) != expected {
            let left = deadline.saturating_duration_since(Instant::now());
            let found = slices(&self.received);
            assert!(!left.is_zero(), "{} slices of {}", found.len(), expected.len());
            assert!(found.len() <= expected.len(), "{} slices, more than {}", found.len(), expected.len());
            self.receiver.set_read_timeout(Some(left)).unwrap();
            let Ok(count) = self.receiver.recv(&mut datagram) else { continue };
            assert!(
                count > 0 && count <= 7 * 188 && count.is_multiple_of(188),
                "a datagram of {count} bytes"
            );
            self.received.extend_from_slice(&datagram[..count]);
        }
    }

    fn end(mut self) {
        drop(self.input.take());
        assert_eq!(self.child.wait().unwrap().code(), Some(0));
    }
}

impl Drop for Fed {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

const MODES: [&[&str]; 4] = [
    &["--threads", "1"],
    &["--threads", "1", "--slices", "8"],
    &["--threads", "2"],
    &["--threads", "2", "--preset", "superfast", "--no-realtime"],
];

#[test]
fn one_picture_and_then_nothing_is_on_the_wire_whole() {
    let scratch = Scratch::new("one-picture");
    let file = scratch.write("in.y4m", y4m(3));
    for mode in MODES {
        // What each picture becomes does not depend on when it comes.
        let reference = glassline(&[&["encode", &file, "-"], mode].concat());
        assert_eq!(reference.status, Some(0), "{mode:?}: {}", reference.stderr);
        let expected = slices(&reference.stdout);
        assert!(
            expected.len() >= 3 && expected.len().is_multiple_of(3),
            "{mode:?}: {} slices",
            expected.len()
        );
        let mut encoder = Fed::start(mode);
        encoder.write(&header(WIDTH, HEIGHT));
        for number in 0..3 {
            // Nothing follows: neither a picture nor the end.
            encoder.write(&picture(WIDTH, HEIGHT, number));
            encoder.receive(&expected[..expected.len() / 3 * (number + 1)]);
            assert!(encoder.child.try_wait().unwrap().is_none(), "{mode:?} has ended");
        }
        encoder.end();
    }
}

#[test]
fn a_picture_that_comes_in_pieces_is_waited_for() {
    let scratch = Scratch::new("pieces");
    let file = scratch.write("in.y4m", y4m(2));
    let reference = glassline(&["encode", &file, "-", "--threads", "1"]);
    let expected = slices(&reference.stdout);
    let mut encoder = Fed::start(&["--threads", "1"]);
    encoder.write(&header(WIDTH, HEIGHT));
    let (first, second) = (picture(WIDTH, HEIGHT, 0), picture(WIDTH, HEIGHT, 1));
    // The source stalls within its second picture: the first one is not kept for that.
    encoder.write(&[&first[..], &second[..1000]].concat());
    encoder.receive(&expected[..1]);
    encoder.write(&second[1000..]);
    encoder.receive(&expected);
    encoder.end();
}

#[test]
fn a_burst_of_pictures_loses_none() {
    let scratch = Scratch::new("burst");
    let file = scratch.write("in.y4m", y4m(20));
    let reference = glassline(&["encode", &file, "-", "--threads", "1"]);
    let expected = slices(&reference.stdout);
    assert_eq!(expected.len(), 20);
    for how in ["--realtime", "--no-realtime"] {
        let mut encoder = Fed::start(&["--threads", "1", how]);
        encoder.write(&y4m(20));
        encoder.receive(&expected);
        encoder.end();
    }
}

/// Codes a file that is wrong in some way. No panic, no signal, one line of explanation.
fn refused(bytes: &[u8], status: i32, words: &[&str]) -> Outcome {
    let scratch = Scratch::new("wrong");
    let file = scratch.write("in.y4m", bytes);
    let outcome = glassline(&["encode", &file, "-", "--threads", "1"]);
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
        assert_eq!(slices(&outcome.stdout).len(), 3, "{cut} bytes are missing");
    }
    // Cut between two pictures it is just shorter.
    let frame = picture(WIDTH, HEIGHT, 0).len();
    assert_eq!(slices(&refused_nothing(&whole[..whole.len() - frame])).len(), 3);
    refused(&header(WIDTH, HEIGHT)[..20], 1, &["in.y4m", "header"]);
    refused(b"", 1, &["in.y4m"]);
}

fn refused_nothing(bytes: &[u8]) -> Vec<u8> {
    let scratch = Scratch::new("right");
    let file = scratch.write("in.y4m", bytes);
    let outcome = glassline(&["encode", &file, "-", "--threads", "1"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome.stdout
}

#[test]
fn a_size_that_changes_on_the_way_ends_the_stream_and_is_said() {
    let mut bytes = y4m(3);
    bytes.extend(header(64, 48));
    bytes.extend(picture(64, 48, 0));
    let outcome = refused(&bytes, 1, &["in.y4m", "picture 3"]);
    assert_eq!(slices(&outcome.stdout).len(), 3);
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
