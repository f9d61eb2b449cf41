//! The program `glassline` beside foreign programs: what they send comes in, what we send plays.
//!
//! A test whose program is absent is skipped and counted.
#![allow(clippy::unwrap_used)]

mod alarm_state;
mod alarms;
mod alarms_measured;
mod alarms_segments;
mod budget;
mod captions;
mod carried;
mod codecs;
mod colour;
mod cubemap;
mod curl;
mod datagrams;
#[cfg(feature = "av1")]
mod direct_av1;
#[cfg(feature = "av1")]
mod direct_webm;
#[cfg(feature = "archive")]
mod export;
mod ffmpeg;
mod flv_packaged;
mod forward;
mod glass;
mod gstreamer;
mod he_aac;
mod https;
mod ingest;
mod inputs;
mod irregular;
mod klv_telemetry;
mod lab_glass;
mod metadata;
mod mp4;
mod pictures;
mod program_changes;
mod raw_video;
mod real_time;
#[cfg(feature = "archive")]
mod recordings;
mod recovery;
mod restarts;
mod rtmp;
mod rtsp;
#[cfg(feature = "archive")]
mod s3;
mod score;
mod sdp;
mod segmented;
mod send_fetched;
mod slate;
mod sound;
mod srt;
mod telephone;
mod thumbnails;
mod transport_segments;
mod validity;
mod vlc;
mod vp8;
mod wrap;

use glassline_test_support::program::{Running, Server};
use glassline_test_support::{has_program, shared, skip};
use std::process::Command;

/// The program under test.
const GLASSLINE: &str = env!("CARGO_BIN_EXE_glassline");

/// Whether all of these programs are there; says so where the test is to be skipped.
fn have(test: &str, programs: &[&str]) -> bool {
    let missing: Vec<_> = programs.iter().copied().filter(|name| !has_program(name)).collect();
    if !missing.is_empty() {
        skip(test, &format!("{} is not installed", missing.join(", ")));
    }
    missing.is_empty()
}

/// A server with the demo stream, which has pictures.
fn demo() -> Server {
    let server = Server::start(GLASSLINE, &["--demo"]);
    server.wait_for_pictures("demo");
    server
}

/// A server without streams.
fn serve() -> Server {
    Server::start(GLASSLINE, &[])
}

/// Pictures that the demo's encoder has left out so far, as a busy machine makes it do: the only gaps that a viewer of it
/// may see.
fn left_out_by_demo(server: &Server) -> u32 {
    server.metrics().sum("glassline_encoder_dropped_pictures_total", "") as u32
}

/// FFmpeg that publishes Big Buck Bunny for ever, as it is: one key frame in 5.3 s.
fn publish_bunny(test: &str, server: &Server, name: &str) -> Option<Running> {
    let Some(file) = shared("media/bbb_720p25.mp4") else {
        skip(test, "the shared folder has no media/bbb_720p25.mp4");
        return None;
    };
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "warning", "-re", "-stream_loop", "-1", "-i"]).arg(file);
    command.args(["-c", "copy", "-f", "mpegts"]).arg(server.url(&format!("/live/{name}.ts")));
    let publisher = Running::start(&mut command);
    server.wait_for_pictures(name);
    Some(publisher)
}
