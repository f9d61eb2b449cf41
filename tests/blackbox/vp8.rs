//! `encode --codec vp8`: VP8 in IVF, at a rate or with a quantiser.

use crate::commands::assert_fails;
use crate::glassline;
use glassline_codec::vp8::{FrameTag, Limits, State, decode};
use glassline_media::container::ivf::{Frame, Header, Reader};
use glassline_test_support::program::Scratch;
use serde_json::Value;

fn frames(bytes: &[u8]) -> (Header, Vec<Frame>) {
    let (mut reader, mut rest, mut frames) = (Reader::new(), bytes, Vec::new());
    while let Some(frame) = reader.parse(&mut rest).unwrap() {
        frames.push(frame);
    }
    reader.finish().unwrap();
    (*reader.header().unwrap(), frames)
}

/// Encodes to a file and gives the report and the stream.
fn encode(scratch: &Scratch, arguments: &[&str]) -> (Value, Header, Vec<Frame>) {
    let out = scratch.file("out.ivf");
    let outcome = glassline(
        &[&["encode"][..], &arguments[..1], &[&out, "--codec", "vp8", "--json"], &arguments[1..]].concat(),
    );
    assert_eq!(outcome.status, Some(0), "{arguments:?}: {}", outcome.stderr);
    let (header, frames) = frames(&std::fs::read(&out).unwrap());
    let report: Value = serde_json::from_str(&outcome.text()).unwrap();
    assert_eq!(report["frames"], frames.len());
    assert_eq!(report["bytes"], frames.iter().map(|frame| frame.bytes.len()).sum::<usize>());
    (report, header, frames)
}

fn keys(frames: &[Frame]) -> Vec<usize> {
    let is_key = |frame: &Frame| FrameTag::parse(&frame.bytes).unwrap().key.is_some();
    frames.iter().enumerate().filter(|(_, frame)| is_key(frame)).map(|(at, _)| at).collect()
}

#[test]
fn a_quantiser_gives_a_stream_that_decodes() {
    let scratch = Scratch::new("vp8-quantizer");
    let (report, header, frames) =
        encode(&scratch, &["test:176x144@25", "--quantizer", "30", "--limit", "12"]);
    assert_eq!((header.codec, header.width, header.height, header.frames), (Header::VP8, 176, 144, 12));
    assert_eq!(header.rate.to_string(), "25");
    assert_eq!(
        frames.iter().map(|frame| frame.time_stamp).collect::<Vec<_>>(),
        (0..12).collect::<Vec<u64>>()
    );
    assert_eq!(report["key_frames"], 1);
    // The key frame, and what else others look at for long, is finer.
    let mean = report["mean_quantizer"].as_f64().unwrap();
    assert!((20.0..30.0).contains(&mean), "{mean}");
    assert_eq!(keys(&frames), [0]);
    for value in [&report["encode_ms"]["p50"], &report["encode_ms"]["max"], &report["cpu_s"], &report["kbps"]]
    {
        assert!(value.as_f64().unwrap() > 0.0, "{report}");
    }
    let mut state = State::new();
    for frame in &frames {
        let decoded = decode(&state, &frame.bytes, &Limits::default()).unwrap();
        assert_eq!(decoded.picture.unwrap().size().to_string(), "176x144");
        state = decoded.state;
    }
    let (finer, ..) = encode(&scratch, &["test:176x144@25", "--quantizer", "10", "--limit", "12"]);
    assert!(finer["bytes"].as_u64() > report["bytes"].as_u64(), "{finer}");
}

#[test]
fn a_rate_is_kept_and_no_frame_is_late() {
    let scratch = Scratch::new("vp8-rate");
    let input = ["test:320x180@25", "--duration", "4s", "--bitrate", "200k", "--vbv", "500ms"];
    let (report, _, frames) = encode(&scratch, &input);
    assert_eq!((frames.len(), &report["late_frames"]), (100, &0.into()));
    // The decoder's buffer by hand: half full at the first frame.
    let (mut buffered, share) = (50_000.0, 200_000.0 / 25.0);
    for (number, frame) in frames.iter().enumerate() {
        buffered -= frame.bytes.len() as f64 * 8.0;
        assert!(buffered >= 0.0, "frame {number} comes too late");
        buffered = (buffered + share).min(100_000.0);
    }
    let rate = report["kbps"].as_f64().unwrap();
    assert!((140.0..=212.5).contains(&rate), "{rate} kbit/s");
}

#[test]
fn key_frames_come_when_they_are_asked_for() {
    let scratch = Scratch::new("vp8-keyint");
    for (keyint, expected) in [("10", &[0, 10, 20][..]), ("600ms", &[0, 15]), ("infinite", &[0])] {
        let (report, _, frames) =
            encode(&scratch, &["test:64x48@25", "--limit", "25", "--keyint", keyint, "--quantizer", "40"]);
        assert_eq!(keys(&frames), expected, "{keyint}");
        assert_eq!(report["key_frames"], expected.len());
    }
}

#[test]
fn the_stream_is_the_same_on_any_number_of_threads_and_another_at_any_speed() {
    let scratch = Scratch::new("vp8-threads");
    let bytes = |arguments: &[&str]| {
        let all = [&["test:160x96@25", "--limit", "8"][..], arguments].concat();
        encode(&scratch, &all).2.into_iter().map(|frame| frame.bytes).collect::<Vec<_>>()
    };
    let one = bytes(&["--threads", "1"]);
    assert_eq!(one, bytes(&["--threads", "2"]));
    assert_eq!(
        one,
        bytes(&["--threads", "0", "--speed", "6", "--bitrate", "1200k", "--vbv", "1s"]),
        "the defaults"
    );
    assert_ne!(bytes(&["--speed", "0"]), bytes(&["--speed", "10"]));
}

#[test]
fn standard_output_and_nowhere_are_outputs() {
    let scratch = Scratch::new("vp8-outputs");
    let (_, mut header, expected) = encode(&scratch, &["test:64x48@25", "--limit", "5"]);
    let piped = glassline(&["encode", "test:64x48@25", "-", "--codec", "vp8", "--limit", "5", "--json"]);
    header.frames = 0;
    assert_eq!(frames(&piped.stdout), (header, expected));
    assert!(piped.stderr.contains("\"kbps\""), "the report goes to standard error: {}", piped.stderr);
    let nowhere = glassline(&["encode", "test:64x48@25", "null:", "--codec", "vp8", "--limit", "5"]);
    assert_eq!((nowhere.status, nowhere.text().as_str()), (Some(0), ""));
    assert!(nowhere.stderr.contains("5 pictures of 64x48"), "{}", nowhere.stderr);
}

#[test]
fn noise_is_taken_out_where_that_is_wanted() {
    let scratch = Scratch::new("vp8-denoise");
    let mut noisy = b"YUV4MPEG2 W64 H48 F30:1 C420jpeg\n".to_vec();
    let mut random = 1u32;
    for _ in 0..12 {
        noisy.extend_from_slice(b"FRAME\n");
        noisy.extend((0..64 * 48 * 3 / 2).map(|_| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            90 + (random >> 24) as u8 / 16
        }));
    }
    let noisy = scratch.write("noisy.y4m", noisy);
    let bytes = |arguments: &[&str]| {
        let (report, ..) =
            encode(&scratch, &[&[noisy.as_str(), "--quantizer", "10"][..], arguments].concat());
        report["bytes"].as_u64().unwrap()
    };
    let (plain, strong) = (bytes(&[]), bytes(&["--denoise", "3"]));
    assert!(strong * 3 < plain * 2, "{strong} bytes of {plain}");
    assert_eq!((bytes(&["--denoise", "0"]), bytes(&["--denoise", "3", "--threads", "2"])), (plain, strong));
}

#[test]
fn odd_sizes_stay_as_they_are() {
    let scratch = Scratch::new("vp8-odd");
    let picture: Vec<u8> = (0..19 * 13 + 2 * 10 * 7).map(|at| (at * 7) as u8).collect();
    let odd =
        scratch.write("odd.y4m", [&b"YUV4MPEG2 W19 H13 F30:1 C420jpeg\nFRAME\n"[..], &picture].concat());
    let (report, header, _) = encode(&scratch, &[&odd, "--quantizer", "0"]);
    assert_eq!((&report["width"], header.width, header.height), (&19.into(), 19, 13));
    let ivf = scratch.file("out.ivf");
    let score = glassline(&["lab", "score", &odd, &ivf, "--json"]);
    let score: Value = serde_json::from_str(&score.text()).unwrap();
    assert!(score["mean"]["psnr_y_db"].as_f64().unwrap() > 40.0, "{score}");
}

#[test]
fn what_does_not_go_together_is_refused() {
    let refused = |arguments: &[&str], words: &[&str]| {
        let all = [&["encode", "test:64x48@25"][..], arguments].concat();
        assert_fails(&glassline(&all), 2, words);
    };
    let vp8 = |arguments: &[&str], words: &[&str]| {
        refused(&[&["null:", "--codec", "vp8", "--limit", "1"][..], arguments].concat(), words);
    };
    vp8(&["--bitrate", "1200"], &["1200", "unit"]);
    vp8(&["--preset", "fast"], &["--preset", "H.264"]);
    vp8(&["--slices", "2"], &["--slices", "H.264"]);
    vp8(&["--audio", "opus"], &["--audio", "H.264"]);
    vp8(&["--stats"], &["--stats", "H.264"]);
    vp8(&["--speed", "11"], &["11", "0..=10"]);
    vp8(&["--denoise", "4"], &["4", "0..=3"]);
    refused(&["null:", "--limit", "1", "--denoise", "2"], &["--denoise", "VP8"]);
    vp8(&["--quantizer", "128"], &["128", "0..=127"]);
    vp8(&["--quantizer", "20", "--bitrate", "1M"], &["--quantizer", "--bitrate"]);
    vp8(&["--keyint", "0"], &["--keyint", "infinite"]);
    vp8(&["other.ivf"], &["one output"]);
    refused(&["out.ts", "--codec", "vp8"], &["out.ts", "FILE.ivf"]);
    refused(&["udp://127.0.0.1:9", "--codec", "vp8"], &["udp://", "FILE.ivf"]);
    refused(&["out.ivf"], &["out.ivf", "--codec vp8"]);
    refused(&["null:", "--speed", "3"], &["--speed", "VP8"]);
    refused(&["null:", "--quantizer", "3"], &["--quantizer", "VP8"]);
    refused(&["null:", "--json"], &["--stats"]);
    assert_fails(
        &glassline(&["encode", "v4l2:/dev/video99", "null:", "--codec", "vp8"]),
        2,
        &["capture device"],
    );
}
