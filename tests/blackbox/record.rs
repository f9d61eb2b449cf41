//! `record`, and `encode` of uncompressed video over RTP, as `send-raw` sends it.

use crate::raw_probe::{SOUND_TYPE, Sending};
use crate::{GLASSLINE, glassline};
use glassline_test_support::loopback::free_udp;
use glassline_test_support::noise;
use glassline_test_support::program::{Running, Scratch, run};
use glassline_test_support::wait::until;
use serde_json::Value;
use std::net::UdpSocket;
use std::path::Path;
use std::process::Command;

const SIZE: (usize, usize) = (160, 90);

fn url() -> String {
    format!("rtp://{}", free_udp())
}

/// `send-raw` of an endless stream, once its description is there.
fn send(arguments: &[&str], sdp: &str) -> Running {
    let mut command = Command::new(GLASSLINE);
    command.arg("send-raw").args(arguments).args(["--sdp", sdp]);
    let sender = Running::start(&mut command);
    until("the session description", || Path::new(sdp).metadata().is_ok_and(|file| file.len() > 0));
    sender
}

fn record(arguments: &[&str]) -> Value {
    let outcome = glassline(&[&["record"], arguments, &["--json"]].concat());
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let last = outcome.text().lines().last().unwrap_or_default().to_owned();
    serde_json::from_str(&last).unwrap_or_else(|error| panic!("{error}: {last}"))
}

/// The stream's three pictures follow one another in what was recorded.
fn expect_pictures(recorded: &[u8], pictures: &[Vec<u8>], count: usize) {
    let bytes = pictures[0].len();
    assert_eq!(recorded.len(), count * bytes);
    let which = |frame: &[u8]| pictures.iter().position(|picture| picture == frame);
    let found: Vec<usize> =
        recorded.chunks(bytes).map(|frame| which(frame).expect("one of the pictures")).collect();
    assert!(found.windows(2).all(|pair| pair[1] != pair[0]), "{found:?}");
}

#[test]
fn what_was_sent_is_recorded_bit_for_bit() {
    let scratch = Scratch::new("record");
    let (width, height) = SIZE;
    let head = format!("W{width} H{height} F25:1 Ip C422p10");
    let (y4m, pictures) = noise::y4m(&head, width * height * 4, 10, 3);
    let (input, sdp) = (scratch.write("in.y4m", y4m), scratch.file("in.sdp"));
    let (one, two) = (url(), url());
    let _sender = send(&[&input, &one, "--also", &two, "--loop"], &sdp);
    let rtp = format!("rtp:{sdp}");

    let output = scratch.file("out.y4m");
    let report = record(&[&rtp, &output, "--duration", "400ms"]);
    assert_eq!(
        (&report["written_frames"], &report["lost"], &report["dropped_frames"]),
        (&10.into(), &0.into(), &0.into())
    );
    for key in ["frames", "packets", "lost", "reordered", "kernel_drops", "dropped_frames", "seconds"] {
        assert!(report[key].is_number(), "{key} of {report}");
    }
    assert!(report["duplicates"].as_u64() > Some(0), "two paths bring each packet twice: {report}");
    let recorded = std::fs::read(&output).unwrap();
    let header = recorded.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let text = String::from_utf8_lossy(&recorded[..header]);
    for word in ["W160 ", "H90 ", "F25:1 ", "Ip ", "C422p10"] {
        assert!(text.contains(word), "{word:?} is not in {text:?}");
    }
    let frames = recorded[header..].chunks(6 + width * height * 4);
    let samples: Vec<u8> = frames.flat_map(|frame| frame[6..].to_vec()).collect();
    expect_pictures(&samples, &pictures, 10);

    let output = scratch.file("out.yuv");
    let report = record(&[&rtp, &output, "--duration", "200ms"]);
    expect_pictures(&std::fs::read(&output).unwrap(), &pictures, 5);
    assert_eq!(report["written_bytes"], 5 * width * height * 4);
}

#[test]
fn fields_segments_packings_and_sizes_of_packets_make_the_same_pictures() {
    let scratch = Scratch::new("record-cut");
    let (width, height) = SIZE;
    let (y4m, pictures) = noise::y4m(&format!("W{width} H{height} F25:1 C422p10"), width * height * 4, 10, 3);
    let input = scratch.write("in.y4m", y4m);
    for (number, (scan, packing, payload)) in [
        ("interlaced", "gpm", "1300"),
        ("psf", "bpm", "1452"),
        ("progressive", "bpm", "800"),
        ("interlaced", "bpm", "8952"),
        ("progressive", "gpm", "8952"),
    ]
    .into_iter()
    .enumerate()
    {
        let (sdp, output) = (scratch.file(&format!("{number}.sdp")), scratch.file(&format!("{number}.yuv")));
        let options = ["--scan", scan, "--packing", packing, "--payload", payload];
        let _sender = send(&[&[&input[..], &url(), "--loop"][..], &options].concat(), &sdp);
        let report = record(&[&format!("rtp:{sdp}"), &output, "--duration", "240ms"]);
        assert_eq!(
            (&report["lost"], &report["incomplete_frames"]),
            (&0.into(), &0.into()),
            "{options:?}: {report}"
        );
        expect_pictures(&std::fs::read(&output).unwrap(), &pictures, 6);
    }
}

#[test]
fn a_signal_ends_it_and_what_came_is_told() {
    let scratch = Scratch::new("record-signal");
    let sdp = scratch.file("in.sdp");
    let _sender = send(&["test:160x90@50", &url(), "--format", "rgb-10"], &sdp);
    let output = scratch.file("out.yuv");
    let mut command = Command::new(GLASSLINE);
    command.args(["record", &format!("rtp:{sdp}"), &output, "--json"]);
    let mut recording = Running::start(&mut command);
    until("the layout", || {
        recording.output().contains("-pixel_format gbrp10le -video_size 160x90 -framerate 50")
    });
    until("frames", || Path::new(&output).metadata().is_ok_and(|file| file.len() > 0));
    recording.signal("INT");
    assert_eq!(recording.wait().code(), Some(0));
    until("the report", || recording.output().contains("\"kernel_drops\""));
    let length = Path::new(&output).metadata().unwrap().len();
    assert!(length > 0 && length.is_multiple_of(160 * 90 * 6), "{length}");
}

#[test]
fn a_sender_that_stops_or_never_comes_does_not_keep_a_recording() {
    let scratch = Scratch::new("record-stops");
    let (width, height) = SIZE;
    let (y4m, _) = noise::y4m(&format!("W{width} H{height} F25:1 C422"), width * height * 2, 8, 5);
    let (input, sdp) = (scratch.write("in.y4m", y4m), scratch.file("in.sdp"));
    let url = url();
    // The description alone, of a sender that is not there yet.
    drop(send(&[&input, &url, "--loop"], &sdp));
    let rtp = format!("rtp:{sdp}");
    let outcome = glassline(&["record", &rtp, "null:", "--timeout", "300ms", "--json"]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    let said = format!("nothing has come to {}", url.trim_start_matches("rtp://"));
    assert!(outcome.stderr.contains(&said), "{}", outcome.stderr);
    assert!(outcome.text().contains("\"ended\":\"timeout\""), "{}", outcome.text());

    for (limit, reason) in [(["--duration", "1500ms"], "sender_stopped"), (["--timeout", "4s"], "timeout")] {
        let mut command = Command::new(GLASSLINE);
        command.args(["record", &rtp, "null:", "--json"]).args(limit);
        let mut recording = Running::start(&mut command);
        until("the receiver", || recording.output().contains("receiving at"));
        let outcome = glassline(&["send-raw", &input, &url]);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        assert_eq!(recording.wait().code(), Some(0));
        let output = recording.output();
        for words in [&format!("\"ended\":\"{reason}\""), "\"written_frames\":5", "\"lost\":0"] {
            assert!(output.contains(words), "{words} is not in {output}");
        }
        assert_eq!(output.contains("0.2 s of the 1.5s"), reason == "sender_stopped", "{output}");
    }
}

#[test]
fn a_path_that_brings_nothing_is_told_while_the_other_carries_the_stream() {
    let scratch = Scratch::new("record-paths");
    let (sent, described) = (scratch.file("sent.sdp"), scratch.file("described.sdp"));
    let (first, second) = (url(), url());
    let _sender = send(&["test:160x90@25", &first, "--also", &second], &sent);
    // The second path is described with a port that nothing comes to.
    let port = |url: &str| url.rsplit_once(':').unwrap().1.to_owned();
    let silent = port(&url());
    let text = std::fs::read_to_string(&sent).unwrap();
    let changed = text.replace(&format!("m=video {} ", port(&second)), &format!("m=video {silent} "));
    assert_ne!(changed, text);
    std::fs::write(&described, changed).unwrap();
    let outcome = glassline(&["record", &format!("rtp:{described}"), "null:", "--duration", "5s", "--json"]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(outcome.text().lines().last().unwrap()).unwrap();
    let address = second.trim_start_matches("rtp://").rsplit_once(':').unwrap().0;
    let said = format!("nothing comes by {address}:{silent}: the other path carries the stream alone");
    assert_eq!(outcome.stderr.matches(&said).count(), 1, "{}", outcome.stderr);
    let path = |index: usize, what: &str| report["paths"][index][what].as_u64().unwrap();
    assert_eq!((path(0, "missing"), path(1, "packets")), (0, 0), "{report}");
    assert_eq!(path(0, "packets"), report["packets"].as_u64().unwrap(), "{report}");
    assert!(path(1, "missing") > 1_000, "{report}");
}

#[test]
fn what_cannot_be_recorded_is_told_with_what_can() {
    let scratch = Scratch::new("record-refused");
    let sdp = scratch.file("in.sdp");
    let _sender = send(&["test:160x90@50", &url(), "--format", "rgb-8"], &sdp);
    let rtp = format!("rtp:{sdp}");
    let garbage = format!("rtp:{}", scratch.write("garbage.sdp", b"v=0\r\nmore of nothing"));
    let y4m = scratch.file("out.y4m");
    for (arguments, words) in [
        (&[rtp.as_str(), y4m.as_str()][..], &["Rgb", "FILE.yuv"][..]),
        (&[rtp.as_str(), "out.mp4"], &["FILE.y4m", "null:"]),
        (&["in.sdp", "null:"], &["rtp:FILE.sdp"]),
        (&["rtp:/no/such.sdp", "null:"], &["/no/such.sdp", "SDP"]),
        (&[garbage.as_str(), "null:"], &["garbage.sdp"]),
        (&[rtp.as_str(), "null:", "--processor", "4000"], &["--processor 4000", "choose"]),
        (&[rtp.as_str(), "/no/such/folder/out.yuv"], &["/no/such/folder"]),
    ] {
        let outcome = glassline(&[&["record"], arguments].concat());
        assert_eq!(outcome.status, Some(2), "{arguments:?}: {}", outcome.stderr);
        for word in words {
            assert!(outcome.stderr.contains(word), "{arguments:?}: {word:?} is not in {}", outcome.stderr);
        }
    }
    assert!(!Path::new(&y4m).exists());
    // What is sent is in use by nobody; what is received is.
    let mut command = Command::new(GLASSLINE);
    command.args(["record", &rtp, "null:"]);
    let recording = Running::start(&mut command);
    until("it receives", || recording.output().contains("receiving at"));
    let outcome = glassline(&["record", &rtp, "null:"]);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("another program"), "{}", outcome.stderr);
}

#[test]
fn uncompressed_video_is_encoded_live() {
    let scratch = Scratch::new("encode-rtp");
    let (sdp, output) = (scratch.file("in.sdp"), scratch.file("out.ts"));
    let _sender = send(&["test:320x180@25", &url(), "--format", "422-10"], &sdp);
    let input = format!("rtp:{sdp}");
    let outcome = glassline(&[
        "encode",
        &input,
        &output,
        "--duration",
        "2s",
        "--preset",
        "ultrafast",
        "--audio",
        "none",
        "--stats",
        "--json",
    ]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.text()).unwrap();
    // A machine that stands still for longer than two pictures drops some, and says so.
    let (pictures, dropped) = (report["pictures"].as_u64().unwrap(), report["dropped"].as_u64().unwrap());
    assert!(pictures + dropped == 50 && pictures >= 25, "{report}");
    let probe = glassline(&["probe", &output, "--json"]);
    let report: Value = serde_json::from_str(&probe.text()).unwrap();
    let video =
        report["streams"].as_array().unwrap().iter().find(|stream| stream["kind"] == "video").unwrap();
    assert_eq!(
        (&video["video"]["width_px"], &video["video"]["height_px"]),
        (&320.into(), &180.into()),
        "{video}"
    );
    let wrong = glassline(&["encode", &format!("{input}?colour=5"), &output]);
    assert_eq!(wrong.status, Some(2), "{}", wrong.stderr);
    assert!(wrong.stderr.contains("interface=eth1"), "{}", wrong.stderr);
}

#[test]
fn a_full_disk_leaves_whole_frames_and_is_told_as_it_is() {
    let scratch = Scratch::new("record-full");
    let (width, height) = SIZE;
    let frame_bytes = 6 + width * height * 4;
    let (y4m, _) = noise::y4m(&format!("W{width} H{height} F200:1 Ip C422p10"), width * height * 4, 10, 3);
    let (input, sdp, output) =
        (scratch.write("in.y4m", y4m), scratch.file("in.sdp"), scratch.file("out.y4m"));
    let _sender = send(&[&input, &url(), "--loop"], &sdp);
    // No file may be larger than 6 MB, which is as good as a full disk.
    let script = format!(
        "trap '' XFSZ; ulimit -f {}; exec {GLASSLINE} record rtp:{sdp} {output} --json",
        6_000_000 / 512
    );
    let outcome = run("sh", &["-c", &script], 60);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(outcome.text().lines().last().unwrap()).unwrap();
    let recorded = std::fs::read(&output).unwrap();
    let header = recorded.iter().position(|byte| *byte == b'\n').unwrap() + 1;
    let frames = (recorded.len() - header) / frame_bytes;
    assert_eq!(recorded.len(), header + frames * frame_bytes, "it ends with a whole frame");
    assert!(frames > 60 && recorded.len() <= 6_000_000, "{frames} frames");
    assert_eq!(report["written_frames"], frames, "{report}");
    assert_eq!(report["written_bytes"], recorded.len(), "{report}");
    assert_eq!(report["ended"], "error");
    assert!(outcome.stderr.contains(&format!("{frames} whole frames")), "{}", outcome.stderr);
}

#[test]
fn a_full_disk_leaves_a_wave_file_whose_head_says_what_is_there() {
    let scratch = Scratch::new("record-full-sound");
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (sdp, wav) = (sound_sdp(&scratch, port), scratch.file("out.wav"));
    let _sound = Sending::sound(port);
    // No file may be larger than 700 kB and a piece of a sample.
    let script = format!("trap '' XFSZ; ulimit -f 1367; exec {GLASSLINE} record rtp:{sdp} {wav} --json");
    let outcome = run("sh", &["-c", &script], 60);
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    let report: Value = serde_json::from_str(outcome.text().lines().last().unwrap()).unwrap();
    let recorded = std::fs::read(&wav).unwrap();
    let frames = (recorded.len() - 44) / 12;
    assert!(recorded.len() == 44 + 12 * frames && frames > 58_000, "{} bytes", recorded.len());
    let length = u32::from_le_bytes(recorded[40..44].try_into().unwrap());
    assert_eq!((length as usize, &report["written_samples"]), (12 * frames, &frames.into()), "{report}");
    assert_eq!((&report["written_bytes"], &report["ended"]), (&recorded.len().into(), &"error".into()));
}

/// The description of four channels of sound at a port.
fn sound_sdp(scratch: &Scratch, port: u16) -> String {
    let text = format!(
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=Sound\r\nt=0 0\r\nm=audio {port} RTP/AVP {SOUND_TYPE}\r\n\
         c=IN IP4 127.0.0.1\r\na=rtpmap:{SOUND_TYPE} L24/48000/4\r\na=ptime:1\r\n"
    );
    scratch.write("sound.sdp", text)
}

#[test]
fn sound_is_recorded_bit_for_bit_and_goes_into_encoders() {
    let scratch = Scratch::new("record-sound");
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (sdp, wav) = (sound_sdp(&scratch, port), scratch.file("out.wav"));
    let sound = Sending::sound(port);
    let report = record(&[&format!("rtp:{sdp}"), &wav, "--duration", "1s"]);
    assert_eq!(
        (&report["written_samples"], &report["ended"]),
        (&48_000.into(), &"duration".into()),
        "{report}"
    );
    let recorded = std::fs::read(&wav).unwrap();
    assert_eq!(recorded.len(), 44 + 48_000 * 4 * 3);
    assert_eq!(report["written_bytes"], recorded.len());
    let length = u32::from_le_bytes(recorded[40..44].try_into().unwrap());
    assert_eq!((length, &recorded[22..24], &recorded[34..36]), (48_000 * 12, &[4, 0][..], &[24, 0][..]));
    // The tone that is sent, from some place in its period of 480 samples on.
    let sample = |at: usize| {
        let bytes = &recorded[44 + 3 * at..][..3];
        i32::from_le_bytes([0, bytes[0], bytes[1], bytes[2]]) >> 8
    };
    let tone = |at: usize| (f64::from((at as f32 * 0.13).sin() * 0.5) * 8_388_608.0).round() as i32;
    let fits = |begin: usize| (0..960).all(|at| (sample(4 * at) - tone((begin + at) % 480)).abs() <= 1);
    assert!((0..480).any(fits), "what is recorded is not what was sent");
    assert!((0..48_000).all(|at| sample(4 * at + 2) == 0 && sample(4 * at + 3) == 0));

    if cfg!(feature = "x264") {
        let stream = scratch.file("out.ts");
        let arguments =
            ["encode", "test:320x180@25", &stream, "--audio-in", &format!("rtp:{sdp}"), "--limit", "25"];
        let outcome = glassline(&arguments);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        assert!(outcome.stderr.contains("2 of 4 channels"), "{}", outcome.stderr);
        let looked = glassline(&["probe", &stream, "--json"]);
        assert!(looked.text().contains("Opus"), "{}", looked.text());
    }
    drop(sound);

    // Nobody sends: told, and the exit status says so. A description without sound, and one without a file.
    let outcome = glassline(&["record", &format!("rtp:{sdp}"), &wav, "--timeout", "500ms"]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains("nothing has come"), "{}", outcome.stderr);
    let pictures = scratch.write(
        "pictures.sdp",
        "v=0\r\no=- 1 1 IN IP4 127.0.0.1\r\ns=-\r\nt=0 0\r\nm=video 5004 RTP/AVP 96\r\nc=IN IP4 127.0.0.1\r\n\
         a=rtpmap:96 raw/90000\r\na=fmtp:96 sampling=YCbCr-4:2:2; width=64; height=36; depth=8; exactframerate=25\r\n",
    );
    for arguments in [
        &["record", &format!("rtp:{pictures}"), &wav][..],
        &["encode", "test:320x180@25", "null:", "--audio-in", &format!("rtp:{pictures}")],
    ] {
        let outcome = glassline(arguments);
        assert!(
            outcome.status != Some(0) && outcome.stderr.contains("describes no sound"),
            "{}",
            outcome.stderr
        );
    }
}
