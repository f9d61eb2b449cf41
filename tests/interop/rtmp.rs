//! Foreign programs that publish over RTMP: FFmpeg, a newer FFmpeg with Enhanced RTMP, GStreamer.

use crate::{GLASSLINE, have};
use glassline_test_support::http::get;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::skip;
use glassline_test_support::tls::Identity;
use glassline_test_support::wait::{until, until_some};
use std::process::Command;

const INPUTS: &str =
    "-v error -re -f lavfi -i testsrc2=size=320x180:rate=30 -f lavfi -i sine=sample_rate=48000 -t 6 -g 30";

/// A server with RTMP and RTMPS.
struct Served {
    server: Server,
    rtmp: String,
    rtmps: String,
    scratch: Scratch,
}

fn serve() -> Served {
    let scratch = Scratch::new("rtmp-interop");
    Identity::new(&["localhost"]).write(&scratch, "one");
    let file = scratch.write(
        "glassline.toml",
        "[tls]\ncertificates = [{ chain = 'one.pem', key = 'one.key' }]\n[viewer]\nbacklog = '30s'\n[publish]\nreturn_window = '0s'\n\
         [rtmp]\nlisten = ['127.0.0.1:0']\ntls_listen = ['127.0.0.1:0']\n",
    );
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let address = |what: &str| {
        until_some(what, || {
            let output = server.process.output();
            let line = output.lines().find(|line| line.contains(what))?.to_owned();
            Some(line.split_once("address=")?.1.split_whitespace().next()?.to_owned())
        })
    };
    let (rtmp, rtmps) = (address("RTMP publishers"), address("RTMPS publishers"));
    Served { server, rtmp, rtmps, scratch }
}

impl Served {
    /// Publishes by `command`, and checks that all that comes out decodes.
    fn expect(&self, name: &str, command: &mut Command, codecs: &[&str]) {
        let mut publisher = Running::start(command);
        let out = self.scratch.file(&format!("{name}.ts"));
        until("pictures", || {
            publisher.ended();
            get(self.server.address(), &format!("/live/{name}/index.m3u8")).status == 200
        });
        let found = self.server.stream(name).unwrap();
        let names: Vec<_> =
            found["codecs"].as_array().unwrap().iter().map(|codec| codec["name"].as_str().unwrap()).collect();
        assert_eq!(names, codecs, "{found}");
        let url = self.server.url(&format!("/live/{name}.ts"));
        let mut viewer = Command::new("ffmpeg");
        viewer.args(["-v", "error", "-y", "-i", &url, "-c", "copy", &out]);
        let mut viewer = Running::start(&mut viewer);
        // The last that there is to see of the stream.
        let mut last = found;
        until("the end of the publisher", || {
            last = self.server.stream(name).unwrap_or_else(|| last.clone());
            publisher.ended().is_some()
        });
        assert!(publisher.wait().success(), "{}", publisher.output());
        assert!(viewer.wait().success(), "{}", viewer.output());
        // One publisher: there was no seam.
        assert_eq!((&last["continuity_errors"], &last["publishers"]), (&0.into(), &1.into()), "{last}");
        let decoded = run("ffmpeg", &["-v", "error", "-i", &out, "-f", "null", "-"], 60);
        // Milliseconds are no whole parts of a picture's time.
        let is_rounding = |line: &&str| line.contains("non monotonically") || line.contains("Last message");
        let complaints: Vec<_> = decoded.stderr.lines().filter(|line| !is_rounding(line)).collect();
        assert!(decoded.status == Some(0) && complaints.is_empty(), "{name}: {complaints:?}");
        let entries = ["-v", "error", "-count_packets", "-show_entries", "stream=nb_read_packets"];
        let counted: Vec<&str> = entries.into_iter().chain(["-of", "csv=p=0", &out]).collect();
        let counted = run("ffprobe", &counted, 60).text();
        let counts: Vec<u32> =
            counted.lines().filter_map(|line| line.trim_matches(',').parse().ok()).collect();
        assert!(counts.len() >= 2 && counts.iter().all(|count| *count > 60), "{counted}");
        assert_eq!(self.server.metrics().sum("glassline_panics_total", "") as u64, 0);
    }
}

fn ffmpeg(program: &str, coding: &str, url: &str) -> Command {
    let mut command = Command::new(program);
    command.args(INPUTS.split(' ')).args(coding.split(' ')).args(["-f", "flv", url]);
    command
}

#[test]
fn ffmpeg_publishes_over_rtmp_and_rtmps() {
    if !have("ffmpeg_publishes_over_rtmp_and_rtmps", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let served = serve();
    let Served { rtmp, rtmps, .. } = &served;
    let cases = [
        (
            "plain",
            "-c:v libx264 -preset ultrafast -bf 0 -c:a aac",
            format!("rtmp://{rtmp}/live/plain"),
            ["H.264", "AAC"],
        ),
        (
            "reordered",
            "-c:v libx264 -preset veryfast -bf 3 -c:a libmp3lame -ar 44100",
            format!("rtmp://{rtmp}/live/reordered"),
            ["H.264", "MPEG audio"],
        ),
        (
            "secured",
            "-c:v libx264 -preset ultrafast -c:a aac -ac 1",
            format!("rtmps://{rtmps}/live/secured"),
            ["H.264", "AAC"],
        ),
        // Beyond the 24 bits of a time: 4.7 h.
        (
            "late",
            "-c:v libx264 -preset ultrafast -c:a aac -output_ts_offset 16775",
            format!("rtmp://{rtmp}/live/late"),
            ["H.264", "AAC"],
        ),
    ];
    for (name, coding, url, codecs) in cases {
        served.expect(name, &mut ffmpeg("ffmpeg", coding, &url), &codecs);
    }
}

#[test]
fn ffmpeg_is_told_why_it_may_not_publish() {
    if !have("ffmpeg_is_told_why_it_may_not_publish", &["ffmpeg", "ffprobe"]) {
        return;
    }
    let served = serve();
    let Served { rtmp, .. } = &served;
    let mut first = Running::start(&mut ffmpeg(
        "ffmpeg",
        "-c:v libx264 -preset ultrafast -c:a aac",
        &format!("rtmp://{rtmp}/live/one"),
    ));
    until("the first publisher", || {
        served.server.stream("one").is_some_and(|stream| stream["bytes_in"] != 0)
    });
    let mut second = Running::start(&mut ffmpeg(
        "ffmpeg",
        "-c:v libx264 -preset ultrafast -c:a aac",
        &format!("rtmp://{rtmp}/live/one"),
    ));
    assert!(!second.wait().success());
    assert!(second.output().contains("takeover=1"), "{}", second.output());
    assert!(first.wait().success(), "{}", first.output());
    let played =
        run("ffmpeg", &["-v", "error", "-i", &format!("rtmp://{rtmp}/live/one"), "-f", "null", "-"], 30);
    assert!(
        played.status != Some(0) && played.stderr.contains("RTMP play is not offered"),
        "{}",
        played.stderr
    );
}

/// A newer FFmpeg than the system's: Enhanced RTMP is there from 6.1 on, for other codecs than H.265, AV1 and VP9 from 7.1 on.
fn newer_ffmpeg() -> Option<String> {
    let own = std::env::var("GLASSLINE_NEWER_FFMPEG").ok();
    own.or_else(|| {
        let words = ["-c", "import imageio_ffmpeg; print(imageio_ffmpeg.get_ffmpeg_exe())"];
        let found =
            Command::new("python3").args(words).output().ok().filter(|output| output.status.success())?;
        Some(String::from_utf8(found.stdout).ok()?.trim().to_owned())
    })
}

#[test]
fn a_newer_ffmpeg_publishes_by_enhanced_rtmp() {
    let test = "a_newer_ffmpeg_publishes_by_enhanced_rtmp";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let Some(newer) = newer_ffmpeg() else {
        skip(test, "no newer FFmpeg: pip install imageio-ffmpeg, or GLASSLINE_NEWER_FFMPEG=FILE");
        return;
    };
    let encoders = run(&newer, &["-v", "error", "-encoders"], 20).text();
    let served = serve();
    for (name, encoder, coding, codecs) in [
        (
            "hevc",
            "libx265",
            "-c:v libx265 -preset ultrafast -x265-params keyint=30:min-keyint=30:log-level=error -c:a aac",
            ["H.265", "AAC"],
        ),
        ("av1", "libsvtav1", "-c:v libsvtav1 -preset 12 -c:a libopus", ["AV1", "Opus"]),
        ("ac3", "ac3", "-c:v libx264 -preset ultrafast -c:a ac3", ["H.264", "AC-3"]),
        ("eac3", "eac3", "-c:v libx264 -preset ultrafast -c:a eac3", ["H.264", "E-AC-3"]),
    ] {
        if !encoders.contains(encoder) {
            skip(test, &format!("the newer FFmpeg lacks {encoder}"));
            continue;
        }
        let url = format!("rtmp://{}/live/{name}", served.rtmp);
        served.expect(name, &mut ffmpeg(&newer, coding, &url), &codecs);
    }
    // What MPEG-TS has no place for is told.
    let url = format!("rtmp://{}/live/flac", served.rtmp);
    let mut refused = Running::start(&mut ffmpeg(&newer, "-c:v libx264 -preset ultrafast -c:a flac", &url));
    assert!(!refused.wait().success());
    until("the log", || {
        served.server.process.output().contains("the sound is FLAC, which this server does not carry")
    });
}

#[test]
fn gstreamer_publishes_over_rtmp() {
    let test = "gstreamer_publishes_over_rtmp";
    if !have(test, &["ffmpeg", "ffprobe", "gst-launch-1.0"]) {
        return;
    }
    let served = serve();
    let scratch = Scratch::new("rtmp-gstreamer");
    let file = scratch.file("a.mkv");
    let inputs = INPUTS.replace("-re ", "");
    // GStreamer 1.22 gives pictures that are shown in another order wrong times in FLV, where its source has no decoding times.
    let coding = "-c:v libx264 -preset veryfast -bf 0 -c:a aac -f matroska";
    let made: Vec<&str> = inputs.split(' ').chain(coding.split(' ')).chain([file.as_str()]).collect();
    assert_eq!(run("ffmpeg", &made, 60).status, Some(0));
    let pipeline = format!(
        "-q filesrc location={file} ! matroskademux name=d d.video_0 ! queue ! h264parse ! identity sync=true ! m. \
         d.audio_0 ! queue ! aacparse ! identity sync=true ! m. flvmux name=m streamable=true ! \
         rtmp2sink location=rtmp://{}/live/gst",
        served.rtmp
    );
    let mut command = Command::new("gst-launch-1.0");
    command.args(pipeline.split_whitespace());
    for element in ["rtmp2sink", "flvmux", "h264parse"] {
        if run("gst-inspect-1.0", &[element], 20).status != Some(0) {
            skip(test, &format!("GStreamer lacks {element}"));
            return;
        }
    }
    served.expect("gst", &mut command, &["H.264", "AAC"]);
}
