//! SRT with foreign programs: FFmpeg, GStreamer and the reference's own tools publish and read, in the clear and encrypted.

use crate::{GLASSLINE, have};
use glassline_test_support::loopback::free_udp;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::skip;
use glassline_test_support::wait::until;
use std::process::Command;

/// A server that takes SRT at a port, with a passphrase or without.
fn server(scratch: &Scratch, passphrase: Option<&str>) -> (Server, u16) {
    let port = free_udp().port();
    let mut text = format!("[srt]\nlisten = ['127.0.0.1:{port}']\n[publish]\nopen = true\n");
    if let Some(passphrase) = passphrase {
        let file = scratch.write("passphrase.key", passphrase);
        text = text.replace("[publish]", &format!("passphrase_file = '{file}'\n[publish]"));
    }
    let file = scratch.write("server.toml", text);
    (Server::start(GLASSLINE, &["--config", &file]), port)
}

fn speaks_srt(test: &str, program: &str) -> bool {
    if !have(test, &[program]) {
        return false;
    }
    let knows = match program {
        "ffmpeg" => run("ffmpeg", &["-hide_banner", "-protocols"], 20).text().contains("srt"),
        _ => run("gst-inspect-1.0", &["srtsink"], 20).status == Some(0),
    };
    if !knows {
        skip(test, &format!("{program} has no SRT"));
    }
    knows
}

/// Ten seconds of pictures of which each is another, as MPEG-TS.
fn clip(scratch: &Scratch) -> String {
    let path = scratch.file("clip.ts");
    let source = "testsrc2=s=320x180:r=25:d=10";
    let arguments = ["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", "libx264"];
    let more = ["-preset", "ultrafast", "-g", "25", "-bf", "0", "-pix_fmt", "yuv420p", "-f", "mpegts", &path];
    let outcome = run("ffmpeg", &[&arguments[..], &more].concat(), 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    path
}

/// The checksums of pictures that FFmpeg decodes of `input`.
fn checksums(input: &[&str]) -> Vec<String> {
    let arguments = [&["-nostdin", "-v", "error"], input, &["-an", "-f", "framemd5", "-"]].concat();
    let outcome = run("ffmpeg", &arguments, 60);
    let sums = outcome.text();
    let sums = sums.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.rsplit_once(','));
    sums.map(|(_, sum)| sum.trim().to_owned()).collect()
}

/// Whether `part` stands in `whole` as one run.
fn is_run_of(part: &[String], whole: &[String]) -> bool {
    part.len() >= 50 && whole.windows(part.len()).any(|window| window == part)
}

#[test]
fn ffmpeg_publishes_and_reads_by_srt_each_picture_as_it_was() {
    let test = "ffmpeg_publishes_and_reads_by_srt_each_picture_as_it_was";
    if !speaks_srt(test, "ffmpeg") {
        return;
    }
    for (passphrase, options) in [
        (None, ""),
        (Some("correct horse"), "&passphrase=correct%20horse&pbkeylen=16"),
        (Some("correct horse"), "&passphrase=correct%20horse&pbkeylen=32"),
    ] {
        let scratch = Scratch::new("srt-ffmpeg");
        let (server, port) = server(&scratch, passphrase);
        let clip = clip(&scratch);
        let original = checksums(&["-i", &clip]);
        let to = format!("srt://127.0.0.1:{port}?streamid=publish:hall&latency=100000{options}");
        let to = to.replace("%20", " ");
        let mut publisher = Running::start(
            Command::new("ffmpeg")
                .args(["-nostdin", "-v", "error", "-re", "-i", &clip, "-c", "copy", "-f", "mpegts", &to]),
        );
        server.wait_for_pictures("hall");
        let from = format!("srt://127.0.0.1:{port}?streamid=read:hall&latency=100000{options}");
        let from = from.replace("%20", " ");
        let read = checksums(&["-t", "4", "-i", &from]);
        assert!(is_run_of(&read, &original), "{options}: {} pictures; {}", read.len(), publisher.output());
        assert_eq!(server.count("hall", "continuity_errors"), 0);
        publisher.kill();
    }
}

#[test]
fn ffmpeg_listens_for_what_the_server_and_the_encoder_send() {
    let test = "ffmpeg_listens_for_what_the_server_and_the_encoder_send";
    if !speaks_srt(test, "ffmpeg") {
        return;
    }
    let scratch = Scratch::new("srt-listener");
    let port = free_udp().port();
    let out = scratch.file("out.ts");
    let at = format!("srt://127.0.0.1:{port}?mode=listener&latency=100000&listen_timeout=20000000");
    let mut ffmpeg = Running::start(
        Command::new("ffmpeg")
            .args(["-nostdin", "-v", "error", "-y", "-i", &at, "-c", "copy", "-t", "3", &out]),
    );
    let to = format!("srt://127.0.0.1:{port}?latency=100");
    let mut encoder = Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &to]));
    assert_eq!(ffmpeg.wait().code(), Some(0), "{}", ffmpeg.output());
    assert!(checksums(&["-i", &out]).len() >= 70, "{}", encoder.output());
    encoder.kill();
}

#[test]
fn gstreamer_publishes_and_reads_by_srt() {
    let test = "gstreamer_publishes_and_reads_by_srt";
    if !speaks_srt(test, "gst-launch-1.0") || !have(test, &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("srt-gstreamer");
    let (server, port) = server(&scratch, Some("correct horse"));
    let clip = clip(&scratch);
    let original = checksums(&["-i", &clip]);
    let sink = format!("uri=srt://127.0.0.1:{port}");
    let mut publisher = Running::start(Command::new("gst-launch-1.0").args([
        "-q",
        "filesrc",
        &format!("location={clip}"),
        "!",
        "tsparse",
        "set-timestamps=true",
        "!",
        "srtsink",
        &sink,
        "streamid=#!::r=hall,m=publish",
        "latency=100",
        "passphrase=correct horse",
    ]));
    server.wait_for_pictures("hall");
    let out = scratch.file("out.ts");
    let mut reader = Running::start(Command::new("gst-launch-1.0").args([
        "-q",
        "srtsrc",
        &sink,
        "streamid=read:hall",
        "latency=100",
        "passphrase=correct horse",
        "!",
        "filesink",
        &format!("location={out}"),
    ]));
    until("four seconds", || std::fs::metadata(&out).is_ok_and(|about| about.len() > 200_000));
    reader.kill();
    publisher.kill();
    let read = checksums(&["-i", &out]);
    // What was cut in the middle is no picture.
    assert!(is_run_of(&read[..read.len().saturating_sub(2)], &original), "{} pictures", read.len());
    assert_eq!(server.count("hall", "continuity_errors"), 0);
}

#[test]
fn the_reference_s_own_tool_reads() {
    let test = "the_reference_s_own_tool_reads";
    if !have(test, &["srt-live-transmit", "ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("srt-tools");
    let (server, port) = server(&scratch, None);
    let clip = clip(&scratch);
    let mut publisher = Running::start(Command::new("ffmpeg").args([
        "-nostdin",
        "-v",
        "error",
        "-re",
        "-i",
        &clip,
        "-c",
        "copy",
        "-f",
        "mpegts",
        &format!("http://{}/live/hall.ts", server.address()),
    ]));
    server.wait_for_pictures("hall");
    let out = scratch.file("out.ts");
    let script =
        format!("exec srt-live-transmit -q 'srt://127.0.0.1:{port}?streamid=read:hall' file://con > '{out}'");
    let mut reader = Running::start(Command::new("sh").args(["-c", &script]));
    until("some seconds", || std::fs::metadata(&out).is_ok_and(|about| about.len() > 200_000));
    reader.kill();
    publisher.kill();
    let read = checksums(&["-i", &out]);
    assert!(is_run_of(&read[..read.len().saturating_sub(2)], &checksums(&["-i", &clip])), "{}", read.len());
}
