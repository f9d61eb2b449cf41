//! Foreign programs and RTSP: VLC as a camera, FFmpeg as publisher, FFmpeg and GStreamer as viewers.

use crate::{GLASSLINE, have, vlc};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::net::{TcpListener, TcpStream};

/// A clip with a moving picture and a tone, by FFmpeg.
pub(super) fn clip(scratch: &Scratch, arguments: &[&str]) -> String {
    let file = scratch.path().join("clip.mkv").display().to_string();
    let inputs =
        ["-v", "error", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25", "-f", "lavfi", "-i", "sine=440"];
    let command: Vec<&str> =
        inputs.iter().chain(arguments).chain(&["-t", "20", "-y", &file]).copied().collect();
    let made = run("ffmpeg", &command, 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    file
}

pub(super) fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// VLC, which serves the clip again and again.
pub(super) fn camera(scratch: &Scratch, clip: &str, port: u16) -> Running {
    let mut words = vlc::words(scratch.path());
    let out = format!("#rtp{{sdp=rtsp://127.0.0.1:{port}/clip}}");
    words.extend(["--loop", "--sout-keep", clip, "--sout", &out].map(Into::into));
    let running = Running::start(&mut vlc::command(&words));
    until("VLC to listen", || TcpStream::connect(("127.0.0.1", port)).is_ok());
    running
}

#[test]
fn vlc_is_a_camera() {
    let test = "vlc_is_a_camera";
    if !have(test, &["ffmpeg", "ffprobe", "cvlc", "setpriv"]) {
        return;
    }
    let scratch = Scratch::new("rtsp");
    let clip = clip(&scratch, &["-c:v", "libx264", "-g", "25", "-bf", "2", "-c:a", "aac", "-b:a", "96k"]);
    let port = free_port();
    let _vlc = camera(&scratch, &clip, port);
    let file =
        scratch.write("glassline.toml", format!("[stream.cam]\nsource = 'rtsp://127.0.0.1:{port}/clip'\n"));
    let server = Server::start(GLASSLINE, &["--config", &file]);
    until("the source to be live", || {
        server.stream("cam").is_some_and(|stream| stream["source"]["state"] == "live")
    });
    let url = server.url("/live/cam.ts");
    let probe = run(
        "ffmpeg",
        &["-v", "warning", "-i", &url, "-t", "4", "-map", "0:v", "-map", "0:a", "-f", "null", "-"],
        60,
    );
    assert_eq!(probe.status, Some(0), "{}", probe.stderr);
    let shown = run(
        "ffprobe",
        &[
            "-v",
            "error",
            "-show_entries",
            "stream=codec_name",
            "-of",
            "csv=p=0",
            "-read_intervals",
            "%+2",
            &url,
        ],
        60,
    );
    let codecs = shown.text();
    assert!(codecs.contains("h264") && codecs.contains("aac"), "{codecs} {}", shown.stderr);
}

/// A server with RTSP, and its address.
fn serve(config: &str) -> (Server, Scratch, String) {
    let (scratch, port) = (Scratch::new("rtsp"), free_port());
    let file = scratch.write("glassline.toml", format!("{config}[rtsp]\nlisten = ['127.0.0.1:{port}']\n"));
    (Server::start(GLASSLINE, &["--config", &file]), scratch, format!("rtsp://127.0.0.1:{port}/live"))
}

const DEMO: &str = "[demo]\nenabled = true\nsize = '640x360'\nframe_rate = 25\nbitrate = '1M'\n";

#[test]
fn ffmpeg_publishes_over_both_transports() {
    let test = "ffmpeg_publishes_over_both_transports";
    if !have(test, &["ffmpeg", "ffprobe"]) {
        return;
    }
    let (server, scratch, address) = serve("[publish]\nkey = 'contribution'\n");
    for (transport, coding) in [
        ("tcp", &["-c:v", "libx264", "-g", "25", "-bf", "2", "-c:a", "aac"][..]),
        (
            "udp",
            &[
                "-c:v",
                "libx265",
                "-x265-params",
                "log-level=error:keyint=25",
                "-preset",
                "ultrafast",
                "-c:a",
                "libopus",
            ],
        ),
    ] {
        let clip = clip(&scratch, coding);
        let mut command = std::process::Command::new("ffmpeg");
        command.args([
            "-v",
            "error",
            "-re",
            "-i",
            &clip,
            "-c",
            "copy",
            "-f",
            "rtsp",
            "-rtsp_transport",
            transport,
        ]);
        // By Digest, of which FFmpeg takes the last challenge: the user is the stream's name.
        let shown = format!("rtsp://{transport}:contribution@");
        command.arg(format!("{}/{transport}", address.replace("rtsp://", &shown)));
        let publisher = Running::start(&mut command);
        let url = server.url(&format!("/live/{transport}.ts"));
        until("the stream", || server.count(transport, "bytes_in") > 300_000 / 4);
        let seen = run(
            "ffmpeg",
            &["-v", "warning", "-i", &url, "-t", "3", "-map", "0:v", "-map", "0:a", "-f", "null", "-"],
            60,
        );
        assert_eq!((seen.status, seen.stderr.trim()), (Some(0), ""), "{transport}: {}", publisher.output());
        assert_eq!(server.count(transport, "continuity_errors"), 0);
    }
}

#[test]
fn ffmpeg_and_gstreamer_play_over_both_transports() {
    let test = "ffmpeg_and_gstreamer_play_over_both_transports";
    if !have(test, &["ffmpeg", "gst-launch-1.0"]) {
        return;
    }
    let (server, _scratch, address) = serve(DEMO);
    server.wait_for_pictures("demo");
    for transport in ["tcp", "udp"] {
        let url = format!("{address}/demo");
        let seen = run(
            "ffmpeg",
            &[
                "-v",
                "warning",
                "-rtsp_transport",
                transport,
                "-i",
                &url,
                "-t",
                "3",
                "-map",
                "0:v",
                "-map",
                "0:a",
                "-f",
                "null",
                "-",
            ],
            60,
        );
        assert_eq!(seen.status, Some(0), "{transport}: {}", seen.stderr);
        assert!(
            !seen.stderr.contains("error") && !seen.stderr.contains("concealing"),
            "{transport}: {}",
            seen.stderr
        );
        let location = format!("location={url}");
        let protocols = format!("protocols={transport}");
        let seen = run(
            "gst-launch-1.0",
            &[
                "rtspsrc",
                &location,
                &protocols,
                "latency=100",
                "!",
                "rtph264depay",
                "!",
                "h264parse",
                "!",
                "fakesink",
                "num-buffers=60",
            ],
            60,
        );
        assert_eq!(seen.status, Some(0), "{transport}: {}{}", seen.text(), seen.stderr);
    }
}
