//! Foreign programs and this server, of which one is killed and starts again: the other notices, and streams go on.

use crate::rtsp::free_port;
use crate::{GLASSLINE, have};
use glassline_test_support::loopback::free_udp;
use glassline_test_support::program::{Running, Scratch, Server, run};
use glassline_test_support::wait::until;
use std::process::Command;
use std::time::{Duration, Instant};

/// From a kill to the stream that goes on, with two seconds for that, and one for programs that start on a busy machine. libsrt by
/// itself gives a silent connection up after five.
const HEALED: Duration = Duration::from_secs(3);

/// Twenty seconds of pictures.
fn clip(scratch: &Scratch) -> String {
    let path = scratch.file("clip.ts");
    let source = "testsrc2=s=320x180:r=25:d=20";
    let arguments = ["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", source, "-c:v", "libx264"];
    let more = ["-preset", "ultrafast", "-g", "25", "-bf", "0", "-pix_fmt", "yuv420p", "-f", "mpegts", &path];
    let outcome = run("ffmpeg", &[&arguments[..], &more].concat(), 60);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    path
}

/// FFmpeg, which sends the clip again and again.
fn ffmpeg(clip: &str, mux: &[&str], to: &str) -> Running {
    let input = ["-nostdin", "-v", "error", "-re", "-stream_loop", "-1", "-i", clip, "-c", "copy"];
    Running::start(Command::new("ffmpeg").args(input).args(mux).arg(to))
}

/// The reference's tool, which writes what it reads of `from` into a file.
fn transmit(from: &str, out: &str) -> Running {
    let script = format!("exec srt-live-transmit -q -a:no '{from}' file://con > '{out}'");
    Running::start(Command::new("sh").args(["-c", &script]))
}

fn bytes(file: &str) -> u64 {
    std::fs::metadata(file).map_or(0, |about| about.len())
}

#[test]
fn peers_by_srt_hear_from_the_next_server_that_the_one_before_was_killed() {
    let test = "peers_by_srt_hear_from_the_next_server_that_the_one_before_was_killed";
    if !have(test, &["ffmpeg", "srt-live-transmit"]) {
        return;
    }
    let (scratch, port) = (Scratch::new("restart-srt"), free_udp().port());
    let clip = clip(&scratch);
    let file = scratch.write("server.toml", format!("[srt]\nlisten = ['127.0.0.1:{port}']\n"));
    let mut server = Server::start(GLASSLINE, &["--config", &file]);
    let to = format!("srt://127.0.0.1:{port}?streamid=publish:hall&latency=60000");
    let mut publisher = ffmpeg(&clip, &["-f", "mpegts"], &to);
    server.wait_for_pictures("hall");
    let out = scratch.file("out.ts");
    let from = format!("srt://127.0.0.1:{port}?streamid=read:hall&latency=60");
    let mut reader = transmit(&from, &out);
    until("a second of the stream", || bytes(&out) > 40_000);
    server.process.kill();
    let killed = Instant::now();
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let (mut first, mut other) = (None, None);
    until("the end of both", || {
        first = first.or_else(|| publisher.ended().map(|_| killed.elapsed()));
        other = other.or_else(|| reader.ended().map(|_| killed.elapsed()));
        first.is_some() && other.is_some()
    });
    eprintln!("the publisher has ended {first:?} after the server, the reader {other:?}");
    for took in [first, other].into_iter().flatten() {
        assert!(took < HEALED, "{took:?}");
    }
    until("both are counted", || server.metrics().sum("glassline_srt_resets_total", "") >= 2.0);
    let _publisher = ffmpeg(&clip, &["-f", "mpegts"], &to);
    server.wait_for_pictures("hall");
}

#[test]
fn a_publisher_that_was_killed_gets_its_name_back() {
    let test = "a_publisher_that_was_killed_gets_its_name_back";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    let (scratch, srt, rtmp, rtsp) =
        (Scratch::new("restart-name"), free_udp().port(), free_port(), free_port());
    let clip = clip(&scratch);
    let config = format!(
        "[publish]\nkey = 'contribution'\n[srt]\nlisten = ['127.0.0.1:{srt}']\n[rtmp]\nlisten = ['127.0.0.1:{rtmp}']\n\
         [rtsp]\nlisten = ['127.0.0.1:{rtsp}']\n"
    );
    let file = scratch.write("server.toml", config);
    let server = Server::start(GLASSLINE, &["--config", &file]);
    for (name, mux, to) in [
        ("srt", &["-f", "mpegts"][..], format!("srt://127.0.0.1:{srt}?streamid=publish:srt:contribution")),
        ("rtmp", &["-f", "flv"], format!("rtmp://127.0.0.1:{rtmp}/live/rtmp?key=contribution")),
        (
            "udp",
            &["-f", "rtsp", "-rtsp_transport", "udp"],
            format!("rtsp://127.0.0.1:{rtsp}/live/udp?key=contribution"),
        ),
        (
            "tcp",
            &["-f", "rtsp", "-rtsp_transport", "tcp"],
            format!("rtsp://127.0.0.1:{rtsp}/live/tcp?key=contribution"),
        ),
    ] {
        let mut publisher = ffmpeg(&clip, mux, &to);
        server.wait_for_pictures(name);
        publisher.kill();
        let killed = Instant::now();
        // FFmpeg does not ask again where it is refused.
        let mut publisher = ffmpeg(&clip, mux, &to);
        let address = |stream: serde_json::Value| {
            let peers = stream["peers"].as_array().cloned().unwrap_or_default();
            let publishes = peers.into_iter().find(|peer| peer["role"] == "publish")?;
            publishes["address"].as_str().map(str::to_owned)
        };
        let before = server.count(name, "bytes_in");
        until("its stream goes on", || {
            assert!(publisher.ended().is_none(), "{name}: {}", publisher.output());
            server.count(name, "bytes_in") > before + 20_000
                && server.stream(name).and_then(address).is_some()
        });
        let took = killed.elapsed();
        eprintln!("{name}: the stream goes on {took:?} after its publisher was killed");
        assert!(took < HEALED, "{name}: {took:?}");
    }
}

#[test]
fn what_is_called_by_srt_and_starts_again_is_called_again() {
    let test = "what_is_called_by_srt_and_starts_again_is_called_again";
    if !have(test, &["ffmpeg", "srt-live-transmit"]) {
        return;
    }
    let (scratch, from, to) = (Scratch::new("restart-called"), free_udp().port(), free_udp().port());
    let clip = clip(&scratch);
    let file = scratch.write(
        "server.toml",
        format!(
            "[stream.stage]\nsource = 'srt://127.0.0.1:{from}?latency=60'\noutputs = ['srt://127.0.0.1:{to}?latency=60']\n"
        ),
    );
    let server = Server::start(GLASSLINE, &["--config", &file]);
    let sends = format!("srt://127.0.0.1:{from}?mode=listener&latency=60000");
    let mut source = ffmpeg(&clip, &["-f", "mpegts"], &sends);
    let (listens, out) = (format!("srt://127.0.0.1:{to}?mode=listener&latency=60"), scratch.file("out.ts"));
    let mut output = transmit(&listens, &out);
    until("a second of the stream", || bytes(&out) > 40_000);
    source.kill();
    let killed = Instant::now();
    let _source = ffmpeg(&clip, &["-f", "mpegts"], &sends);
    until("the source is called again", || {
        let source = server.stream("stage").map(|stream| stream["source"].clone()).unwrap_or_default();
        source["failures"].as_u64() > Some(0) && source["state"] == "live"
    });
    let of_source = killed.elapsed();
    eprintln!("the source is called again {of_source:?} after it was killed");
    output.kill();
    let killed = Instant::now();
    let (_output, before) = (transmit(&listens, &out), bytes(&out));
    until("the output goes on", || bytes(&out) > 20_000 && bytes(&out) != before);
    let of_output = killed.elapsed();
    eprintln!("the output goes on {of_output:?} after it was killed");
    assert!(of_source < HEALED && of_output < HEALED, "{of_source:?}, {of_output:?}");
    // What is noticed by silence alone is told in other words.
    let said = server.process.output();
    assert!(said.contains("source is not there: the peer has begun anew"), "{said}");
}
