//! FFmpeg as viewer, as judge of our streams, and as publisher.

use crate::{GLASSLINE, demo, have, left_out_by_demo, pictures, publish_bunny, serve};
use glassline_test_support::program::{Outcome, Scratch, left_out, run};
use glassline_test_support::wait::until;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Checks that a run went well and that FFmpeg found nothing to say at level warning.
fn assert_silent(outcome: &Outcome) {
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    assert_eq!(outcome.stderr.trim(), "", "FFmpeg complains");
}

fn probe_json(input: &str, extra: &[&str]) -> Value {
    let arguments = [&["-v", "warning", "-of", "json", "-show_streams"], extra, &[input]].concat();
    let outcome = run("ffprobe", &arguments, 60);
    assert_silent(&outcome);
    serde_json::from_str(&outcome.text()).unwrap()
}

fn stream<'a>(report: &'a Value, kind: &str) -> &'a Value {
    let streams = report["streams"].as_array().unwrap();
    streams
        .iter()
        .find(|stream| stream["codec_type"] == kind)
        .unwrap_or_else(|| panic!("no {kind}: {report}"))
}

#[test]
fn ffprobe_understands_the_demo() {
    if !have("ffprobe_understands_the_demo", &["ffprobe"]) {
        return;
    }
    let server = demo();
    let report = probe_json(&server.url("/live/demo.ts"), &[]);
    let video = stream(&report, "video");
    assert_eq!(
        (video["codec_name"].as_str(), video["width"].as_u64()),
        (Some("h264"), Some(1280)),
        "{video}"
    );
    assert_eq!(
        (video["height"].as_u64(), video["r_frame_rate"].as_str()),
        (Some(720), Some("50/1")),
        "{video}"
    );
    assert_eq!(video["has_b_frames"].as_u64(), Some(0), "{video}");
    let audio = stream(&report, "audio");
    assert_eq!(
        (audio["codec_name"].as_str(), audio["sample_rate"].as_str()),
        (Some("opus"), Some("48000")),
        "{audio}"
    );
}

#[test]
fn ffmpeg_decodes_the_demo_without_a_word() {
    if !have("ffmpeg_decodes_the_demo_without_a_word", &["ffmpeg"]) {
        return;
    }
    let server = demo();
    let url = server.url("/live/demo.ts");
    // All of it is decoded, and errors count: -xerror ends at the first.
    let arguments = ["-v", "warning", "-xerror", "-i", &url, "-t", "3", "-f", "null", "-"];
    assert_silent(&run("ffmpeg", &arguments, 60));
}

#[test]
fn the_delay_is_read_back_from_decoded_pictures() {
    if !have("the_delay_is_read_back_from_decoded_pictures", &["ffmpeg"]) {
        return;
    }
    let server = demo();
    let mut decoder = Command::new("ffmpeg")
        .args(["-v", "error", "-fflags", "nobuffer", "-flags", "low_delay", "-probesize", "100000", "-i"])
        .arg(server.url("/live/demo.ts"))
        .args(["-an", "-fps_mode", "passthrough", "-f", "yuv4mpegpipe", "-pix_fmt", "yuv420p", "-"])
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let seen = pictures::read_y4m(decoder.stdout.take().unwrap(), 200);
    decoder.kill().unwrap();
    decoder.wait().unwrap();
    assert_eq!(seen.len(), 200);
    let seen = pictures::check(&seen, 50.0, left_out_by_demo(&server));
    let mut delays: Vec<f64> = seen[seen.len() / 2..].iter().map(|seen| seen.delay_ms).collect();
    delays.sort_by(f64::total_cmp);
    let (median, most) = (delays[delays.len() / 2], delays[delays.len() - 1]);
    eprintln!("capture to decoded by FFmpeg: median {median:.1} ms, most {most:.1} ms");
    // No figure decides here; only that it is a delay at all.
    assert!(median > 0.0 && most < 20_000.0, "{median} ms, {most} ms");
}

#[test]
fn ffprobe_finds_our_file_clean() {
    if !have("ffprobe_finds_our_file_clean", &["ffprobe", "ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("ffprobe");
    let file = scratch.file("out.ts");
    let outcome = run(GLASSLINE, &["encode", "test:640x360@25", "--limit", "75", &file], 120);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    let report = probe_json(&file, &["-show_packets"]);
    let video = stream(&report, "video")["index"].as_u64();
    // With streams and packets asked for, they come under this name.
    let packets = report["packets"].as_array().or_else(|| report["packets_and_frames"].as_array()).unwrap();
    let stamps = |field: &str| -> Vec<i64> {
        let of_video = packets.iter().filter(|packet| packet["stream_index"].as_u64() == video);
        of_video
            .map(|packet| packet[field].as_i64().unwrap_or_else(|| panic!("no {field}: {packet}")))
            .collect()
    };
    let (pts, dts) = (stamps("pts"), stamps("dts"));
    // The pattern is live: a picture that a busy machine does not get done is left out, and counted.
    let left_out = left_out(&outcome.stderr);
    assert!(left_out < 35, "{left_out} of 75 pictures were left out");
    assert!(pts.len() as u32 + left_out == 75 && pts == dts, "{left_out} left out: {pts:?}, {dts:?}");
    assert!(pts.iter().all(|stamp| (stamp - pts[0] + 1) % 3600 <= 2), "{pts:?}");
    let flags = packets.iter().filter(|packet| packet["stream_index"].as_u64() == video);
    let keys =
        flags.filter(|packet| packet["flags"].as_str().is_some_and(|flags| flags.starts_with('K'))).count();
    assert!(keys >= 2, "{keys} key frames in 3 s");
    assert!(
        packets.iter().all(|packet| !packet["flags"].as_str().unwrap_or("").contains('C')),
        "a corrupt packet"
    );

    let decoded = run("ffmpeg", &["-v", "warning", "-xerror", "-i", &file, "-f", "null", "-"], 60);
    assert_silent(&decoded);
    let pipe = run(
        "ffmpeg",
        &[
            "-v",
            "error",
            "-i",
            &file,
            "-an",
            "-fps_mode",
            "passthrough",
            "-f",
            "yuv4mpegpipe",
            "-pix_fmt",
            "yuv420p",
            "-",
        ],
        60,
    );
    let seen = pictures::read_y4m(&pipe.stdout[..], usize::MAX);
    assert_eq!(seen.len(), pts.len());
    pictures::check(&seen, 25.0, left_out);
}

#[test]
fn what_ffmpeg_publishes_is_watched_clean() {
    let test = "what_ffmpeg_publishes_is_watched_clean";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let server = serve();
    let Some(_publisher) = publish_bunny(test, &server, "bbb") else { return };
    // Past the loop's seam, so that viewers begin at a key frame and read over the next seam.
    until("the second time around", || {
        server.stream("bbb").is_some_and(|stream| stream["key_frame_interval_s"].as_f64() > Some(1.0))
    });
    let url = server.url("/live/bbb.ts");
    let report = probe_json(&url, &[]);
    assert_eq!(stream(&report, "video")["codec_name"], "h264");
    assert_eq!(stream(&report, "video")["width"], 1280);
    assert_eq!(stream(&report, "audio")["codec_name"], "aac");
    assert_silent(&run(
        "ffmpeg",
        &["-v", "warning", "-xerror", "-i", &url, "-frames:v", "100", "-f", "null", "-"],
        60,
    ));
    let entry = server.stream("bbb").unwrap();
    assert_eq!(
        (entry["continuity_errors"].as_u64(), entry["garbage_bytes"].as_u64()),
        (Some(0), Some(0)),
        "{entry}"
    );

    let probe = run(GLASSLINE, &["probe", &url, "--json", "--duration", "2s"], 60);
    assert_eq!(probe.status, Some(0), "{}", probe.stderr);
    let report: Value = serde_json::from_str(&probe.text()).unwrap();
    assert!(report.to_string().contains("H.264") && report.to_string().contains("AAC"), "{report}");
}

#[test]
fn ffmpeg_may_stop_and_come_back() {
    let test = "ffmpeg_may_stop_and_come_back";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let server = serve();
    let Some(mut publisher) = publish_bunny(test, &server, "back") else { return };
    let mut viewer = Command::new("ffmpeg")
        .args(["-v", "error", "-i", &server.url("/live/back.ts"), "-c", "copy", "-f", "mpegts", "-"])
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the viewer", || server.count("back", "viewers") == 1);
    for session in 2..4 {
        publisher.signal("TERM");
        publisher.wait();
        until("it to be off", || server.stream("back").is_some_and(|stream| stream["live"] == false));
        let before = server.count("back", "bytes_out");
        publisher = publish_bunny(test, &server, "back").unwrap();
        until("the viewer to get more", || server.count("back", "bytes_out") > before + 500_000);
        assert_eq!((server.count("back", "viewers"), server.count("back", "publishers")), (1, session));
    }
    assert!(viewer.try_wait().unwrap().is_none(), "the viewer has ended");
    viewer.kill().unwrap();
    viewer.wait().unwrap();
}
