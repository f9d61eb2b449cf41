//! What `send-raw` sends, as FFmpeg and GStreamer receive it; and what these send, as `record` receives it.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Running, Scratch, run};
use glassline_test_support::wait::until;
use glassline_test_support::{noise, skip};
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

const SIZE: (usize, usize) = (320, 180);
/// Frames that are received, the first of which may be one that was under way.
const FRAMES: usize = 4;

/// A sender of three pictures of noise, over and over and slowly, since receivers lose packets that come fast.
struct Sending {
    _process: Running,
    scratch: Scratch,
    port: u16,
    /// As they lie in y4m.
    pictures: Vec<Vec<u8>>,
}

impl Sending {
    fn start(depth_bits: u32) -> Sending {
        let scratch = Scratch::new("raw-video");
        let (width, height) = SIZE;
        let (space, bytes) = if depth_bits == 8 { ("422", 2) } else { ("422p10", 4) };
        let head = format!("W{width} H{height} F5:1 Ip C{space}");
        let (y4m, pictures) = noise::y4m(&head, width * height * bytes, depth_bits, 3);
        let (input, sdp) = (scratch.write("in.y4m", y4m), scratch.file("out.sdp"));
        let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(GLASSLINE);
        command.args(["send-raw", &input, &format!("rtp://127.0.0.1:{port}"), "--loop", "--sdp", &sdp]);
        let process = Running::start(&mut command);
        until("the session description", || Path::new(&sdp).metadata().is_ok_and(|file| file.len() > 0));
        Sending { _process: process, scratch, port, pictures }
    }

    /// Whether frames follow each other as ours do, but for the first.
    fn check(&self, received: &[u8], expected: &[Vec<u8>]) {
        let frame_bytes = expected[0].len();
        assert_eq!((received.len() % frame_bytes, received.len() / frame_bytes), (0, FRAMES));
        let which = |frame: &[u8]| expected.iter().position(|expected| expected == frame);
        let found: Vec<_> = received.chunks(frame_bytes).skip(1).map(which).collect();
        assert!(found.iter().all(Option::is_some), "{found:?}");
        assert!(found.windows(2).all(|pair| pair[1] != pair[0]), "{found:?}");
    }
}

/// 4:2:2 in pgroups (RFC 4175 §4.3): Cb Y Cr Y, of 8 bits or of 10, the high bits first.
fn pgroups(planes: &[u8], depth_bits: usize) -> Vec<u8> {
    let (width, height) = SIZE;
    let sample_bytes = depth_bits.div_ceil(8);
    let samples: Vec<u64> = planes
        .chunks(sample_bytes)
        .map(|bytes| bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
        .collect();
    let (luma, chroma) = samples.split_at(width * height);
    let (blue, red) = chroma.split_at(width / 2 * height);
    let mut out = Vec::new();
    for (luma, (blue, red)) in luma.chunks(2).zip(blue.iter().zip(red)) {
        let group = [*blue, luma[0], *red, luma[1]].iter().fold(0, |bits, value| bits << depth_bits | value);
        out.extend(&group.to_be_bytes()[8 - depth_bits * 4 / 8..]);
    }
    out
}

/// FFmpeg as a receiver of a description, with what it makes of it.
fn ffmpeg_of(sdp: &str, makes: &[&str]) -> glassline_test_support::program::Outcome {
    let receives = ["-v", "warning", "-nostdin", "-protocol_whitelist", "file,udp,rtp", "-i", sdp];
    let outcome = run("ffmpeg", &[&receives, makes].concat(), 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    outcome
}

fn ffmpeg_receives(test: &str, depth_bits: u32) {
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let sending = Sending::start(depth_bits);
    let (sdp, frames) = (sending.scratch.file("out.sdp"), FRAMES.to_string());
    let frames = ["-fps_mode", "passthrough", "-frames:v", &frames, "-f", "rawvideo", "-"];
    let outcome = ffmpeg_of(&sdp, &frames);
    // Of 8 bits it keeps the groups as they are, 10 it lays into planes.
    let expected: Vec<Vec<u8>> = match depth_bits {
        8 => sending.pictures.iter().map(|picture| pgroups(picture, 8)).collect(),
        _ => sending.pictures.clone(),
    };
    sending.check(&outcome.stdout, &expected);
}

#[test]
fn ffmpeg_receives_8_bits_bit_for_bit() {
    ffmpeg_receives("ffmpeg_receives_8_bits_bit_for_bit", 8);
}

#[test]
fn ffmpeg_receives_10_bits_bit_for_bit() {
    ffmpeg_receives("ffmpeg_receives_10_bits_bit_for_bit", 10);
}

fn gstreamer_receives(test: &str, depth_bits: u32) {
    if !have(test, &["gst-launch-1.0", "gst-inspect-1.0"]) {
        return;
    }
    if run("gst-inspect-1.0", &["--exists", "rtpvrawdepay"], 60).status != Some(0) {
        skip(test, "GStreamer has no rtpvrawdepay");
        return;
    }
    let sending = Sending::start(depth_bits);
    let (width, height) = SIZE;
    let caps = format!(
        "caps=application/x-rtp,media=video,clock-rate=90000,encoding-name=RAW,sampling=YCbCr-4:2:2,\
         depth=(string){depth_bits},width=(string){width},height=(string){height},payload=96"
    );
    let (port, eos) = (format!("port={}", sending.port), format!("eos-after={}", FRAMES + 1));
    let file = sending.scratch.file("received");
    let location = format!("location={file}");
    let pipeline = [
        "-q",
        "udpsrc",
        "address=127.0.0.1",
        &port,
        &caps,
        "!",
        "rtpvrawdepay",
        "!",
        "identity",
        &eos,
        "!",
        "filesink",
        &location,
    ];
    let outcome = run("gst-launch-1.0", &pipeline, 60);
    assert_eq!(outcome.status, Some(0), "{} {}", outcome.text(), outcome.stderr);
    let expected: Vec<_> =
        sending.pictures.iter().map(|picture| pgroups(picture, depth_bits as usize)).collect();
    sending.check(&std::fs::read(file).unwrap(), &expected);
}

#[test]
fn gstreamer_receives_8_bits_bit_for_bit() {
    gstreamer_receives("gstreamer_receives_8_bits_bit_for_bit", 8);
}

#[test]
fn gstreamer_receives_10_bits_bit_for_bit() {
    gstreamer_receives("gstreamer_receives_10_bits_bit_for_bit", 10);
}

/// A recording of so many frames of 4:2:2 that another program sends to `port`; the frames in it are those of `pictures`, one
/// after the other.
fn expect_recorded(
    (depth_bits, scan): (usize, &str),
    sender: impl FnOnce(&Scratch, u16, &[Vec<u8>]) -> Running,
) {
    let scratch = Scratch::new("raw-video-in");
    let (width, height) = SIZE;
    let sample_bytes = depth_bits.div_ceil(8);
    let (_, pictures) = noise::y4m("", width * height * 2 * sample_bytes, depth_bits as u32, 3);
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let sdp = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=Another\r\nt=0 0\r\nm=video {port} RTP/AVP 96\r\nc=IN IP4 127.0.0.1\r\n\
         a=rtpmap:96 raw/90000\r\na=fmtp:96 sampling=YCbCr-4:2:2; width={width}; height={height}; depth={depth_bits}; \
         colorimetry=BT709-2{scan}\r\na=framerate:10\r\n"
    );
    let (sdp, output) = (scratch.write("in.sdp", sdp), scratch.file("out.yuv"));
    let mut command = Command::new(GLASSLINE);
    command.args(["record", &format!("rtp:{sdp}"), &output, "--duration", "600ms", "--json"]);
    let mut recording = Running::start(&mut command);
    until("it receives", || recording.output().contains("receiving at"));
    let _sender = sender(&scratch, port, &pictures);
    assert_eq!(recording.wait().code(), Some(0));
    until("the report", || recording.output().contains("\"lost\":0,"));
    // Of 8 bits the groups are kept as they are, 10 are laid into planes.
    let expected: Vec<Vec<u8>> = match depth_bits {
        8 => pictures.iter().map(|picture| pgroups(picture, 8)).collect(),
        _ => pictures,
    };
    let recorded = std::fs::read(&output).unwrap();
    let which = |frame: &[u8]| expected.iter().position(|expected| expected == frame);
    let found: Vec<_> = recorded.chunks(expected[0].len()).map(which).collect();
    assert_eq!(found.len(), 6);
    assert!(found.iter().all(Option::is_some), "{found:?}");
    assert!(found.windows(2).all(|pair| pair[1] != pair[0]), "{found:?}");
}

/// What a description says of frames in two fields.
const INTERLACED: &str = "; interlace";

fn gstreamer_sends(test: &str, (depth_bits, scan): (usize, &str), format: &str) {
    if !have(test, &["gst-launch-1.0", "gst-inspect-1.0"]) {
        return;
    }
    if run("gst-inspect-1.0", &["--exists", "rtpvrawpay"], 60).status != Some(0) {
        skip(test, "GStreamer has no rtpvrawpay");
        return;
    }
    let fields = if scan == INTERLACED { "interlaced=true top-field-first=true" } else { "" };
    expect_recorded((depth_bits, scan), |scratch, port, pictures| {
        let samples: Vec<u8> =
            (0..60).flat_map(|number| pgroups(&pictures[number % 3], depth_bits)).collect();
        let file = scratch.write("in.raw", samples);
        let (width, height) = SIZE;
        let pipeline = format!(
            "-q filesrc location={file} ! rawvideoparse format={format} width={width} height={height} framerate=10/1 {fields} ! \
             rtpvrawpay mtu=1400 pt=96 ! udpsink host=127.0.0.1 port={port} sync=true"
        );
        let mut command = Command::new("gst-launch-1.0");
        command.args(pipeline.split_whitespace());
        Running::start(&mut command)
    });
}

#[test]
fn gstreamers_8_bits_are_recorded_bit_for_bit() {
    gstreamer_sends("gstreamers_8_bits_are_recorded_bit_for_bit", (8, ""), "uyvy");
}

#[test]
fn gstreamers_10_bits_are_recorded_bit_for_bit() {
    gstreamer_sends("gstreamers_10_bits_are_recorded_bit_for_bit", (10, ""), "uyvp");
}

/// GStreamer 1.22 numbers the lines of a field as those of the frame.
#[test]
fn gstreamers_fields_are_recorded_bit_for_bit() {
    gstreamer_sends("gstreamers_fields_are_recorded_bit_for_bit", (8, INTERLACED), "uyvy");
}

fn ffmpeg_sends(test: &str, scan: &str) {
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let fields = if scan == INTERLACED { "-vf setfield=tff -field_order tt -strict -1" } else { "" };
    expect_recorded((8, scan), |scratch, port, pictures| {
        let samples: Vec<u8> = (0..60).flat_map(|number| pgroups(&pictures[number % 3], 8)).collect();
        let file = scratch.write("in.raw", samples);
        let (width, height) = SIZE;
        let arguments = format!(
            "-v error -re -f rawvideo -pixel_format uyvy422 -video_size {width}x{height} -framerate 10 -i {file} {fields} \
             -c:v rawvideo -f rtp -payload_type 96 rtp://127.0.0.1:{port}?pkt_size=1400"
        );
        let mut command = Command::new("ffmpeg");
        command.args(arguments.split_whitespace());
        Running::start(&mut command)
    });
}

#[test]
fn ffmpegs_8_bits_are_recorded_bit_for_bit() {
    ffmpeg_sends("ffmpegs_8_bits_are_recorded_bit_for_bit", "");
}

/// FFmpeg gives both fields of a frame one time stamp.
#[test]
fn ffmpegs_fields_are_recorded_bit_for_bit() {
    ffmpeg_sends("ffmpegs_fields_are_recorded_bit_for_bit", INTERLACED);
}

/// A film of FFmpeg's with sound and a time code of its own.
fn film(scratch: &Scratch) -> String {
    let path = scratch.file("film.mov");
    let arguments = [
        "-v",
        "error",
        "-nostdin",
        "-f",
        "lavfi",
        "-i",
        "testsrc2=s=320x180:r=25:d=4",
        "-f",
        "lavfi",
        "-i",
        "sine=frequency=997:sample_rate=48000:duration=4",
        "-pix_fmt",
        "yuv422p",
        "-c:v",
        "mpeg4",
        "-q:v",
        "2",
        "-c:a",
        "pcm_s24le",
        "-ac",
        "2",
        "-timecode",
        "01:00:00:00",
        &path,
    ];
    let made = run("ffmpeg", &arguments, 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    path
}

#[test]
fn a_film_goes_with_its_sound_and_its_time_code() {
    const NAME: &str = "a_film_goes_with_its_sound_and_its_time_code";
    if !have(NAME, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let scratch = Scratch::new("raw-film");
    let (film, sdp) = (film(&scratch), scratch.file("film.sdp"));
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut command = Command::new(GLASSLINE);
    command.args(["send-raw", &film, &format!("rtp://127.0.0.1:{port}"), "--loop", "--sdp", &sdp]);
    let _sender = Running::start(&mut command);
    until("the session description", || Path::new(&sdp).metadata().is_ok_and(|file| file.len() > 0));
    let text = std::fs::read_to_string(&sdp).unwrap();
    for section in [format!("m=audio {} ", port + 2), format!("m=video {} ", port + 4)] {
        assert!(text.contains(&section), "{section} is not in {text}");
    }
    let told = run(GLASSLINE, &["probe", &format!("rtp:{sdp}"), "--duration", "2s", "--json"], 60);
    let told: serde_json::Value = serde_json::from_slice(&told.stdout).unwrap();
    let code = told["flows"][2]["ancillary"]["time_code"].as_str().unwrap_or_default().to_owned();
    assert!(code.starts_with("01:00:0"), "{told}");
    // FFmpeg's receiver has both, and the tone is what it was: a few of its samples are lost where it joins.
    let wav = scratch.file("out.wav");
    let pictures = ["-map", "0:v:0", "-frames:v", "25", "-f", "null", "-"];
    ffmpeg_of(&sdp, &[&pictures[..], &["-map", "0:a:0", "-t", "1", &wav]].concat());
    let recorded = std::fs::read(&wav).unwrap();
    let samples = recorded[44..].as_chunks::<4>().0.iter().map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
    let crossings =
        samples.clone().zip(samples.clone().skip(1)).filter(|(one, next)| *one < 0 && *next >= 0).count();
    let expected = 997.0 * samples.len() as f64 / 48_000.0;
    assert!(samples.len() > 40_000 && (crossings as f64 - expected).abs() < 4.0, "{crossings} of {expected}");
}
