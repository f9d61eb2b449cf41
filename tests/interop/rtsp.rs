//! Foreign programs and RTSP: VLC as a camera.

use crate::{GLASSLINE, have, vlc};
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::net::{TcpListener, TcpStream};

/// A clip with a moving picture and a tone, by FFmpeg.
fn clip(scratch: &Scratch, arguments: &[&str]) -> String {
    let file = scratch.path().join("clip.ts").display().to_string();
    let inputs =
        ["-v", "error", "-f", "lavfi", "-i", "testsrc=size=320x240:rate=25", "-f", "lavfi", "-i", "sine=440"];
    let command: Vec<&str> =
        inputs.iter().chain(arguments).chain(&["-t", "20", "-f", "mpegts", &file]).copied().collect();
    let made = run("ffmpeg", &command, 60);
    assert_eq!(made.status, Some(0), "{}", made.stderr);
    file
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// VLC, which serves the clip again and again.
fn camera(scratch: &Scratch, clip: &str, port: u16) -> Running {
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
