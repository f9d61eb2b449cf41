//! What `blurred` has learnt of a stream outlives the server, where `[watch]` names a file for it.

use crate::{GLASSLINE, have};
use glassline_test_support::http::{get, publish};
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::{has_library, skip, wait};
use std::io::Write;
use std::net::SocketAddr;

/// A picture and a key frame a second.
fn clip(scratch: &Scratch, name: &str, seconds: u32, filter: &str) -> Vec<u8> {
    let path = scratch.file(name);
    let source = format!("testsrc2=s=320x180:r=1:d={seconds},{filter}");
    let input = ["-nostdin", "-v", "error", "-y", "-f", "lavfi", "-i", &source];
    let codec =
        ["-c:v", "libx264", "-preset", "ultrafast", "-g", "1", "-pix_fmt", "yuv420p", "-f", "mpegts", &path];
    let outcome = run("ffmpeg", &[&input[..], &codec].concat(), 120);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
    std::fs::read(path).unwrap()
}

/// Publishes a clip of `seconds` faster than it lasts, and no faster than it is decoded.
fn send(server: &Server, clip: &[u8], seconds: u32) {
    let mut publisher = publish(server.address(), "/live/hall.ts");
    // Under load some are skipped. `None` before the watch has begun.
    let looked_at = || -> Option<usize> {
        let metrics = get(server.address(), "/metrics").text();
        let count = |name: &str| {
            let family = format!("glassline_watch_{name}_total{{stream=\"hall\"}} ");
            metrics.lines().find_map(|line| line.strip_prefix(&family)?.parse::<usize>().ok())
        };
        Some(count("pictures")? + count("skipped")?)
    };
    let mut before = None;
    for (number, chunk) in clip.chunks(clip.len().div_ceil(seconds as usize)).enumerate() {
        publisher.write_all(chunk).unwrap();
        let before = *before.get_or_insert_with(|| wait::until_some("the watch", looked_at));
        // What has come last is not whole yet.
        wait::until("the pictures", || looked_at().unwrap() - before + 6 > number);
    }
    // Until its end is known, so that the next publisher is another one.
    drop(publisher);
    wait::until("the end", || server.stream("hall").is_none_or(|stream| stream["live"] == false));
}

fn is_blurred(address: SocketAddr) -> bool {
    let report = get(address, "/api/alarms").json();
    report["recent"]
        .as_array()
        .unwrap()
        .iter()
        .any(|event| event["alarm"] == "blurred" && event["state"] == "begun")
}

#[test]
fn a_restart_does_not_forget_how_sharp_a_stream_was() {
    let test = "a_restart_does_not_forget_how_sharp_a_stream_was";
    if !have(test, &["ffmpeg"]) {
        return;
    }
    if !has_library("libavcodec.so.") {
        return skip(test, "libavcodec is not installed");
    }
    let scratch = Scratch::new("alarm-state");
    let config = scratch.write("glassline.toml", "[watch]\nstate_file = 'state.json'\n");
    let without = scratch.write("without.toml", "[watch]\n");
    let start = |config: &str| Server::start(GLASSLINE, &["--config", config, "--open-publish"]);
    let sharp = clip(&scratch, "sharp.ts", 130, "null");
    let blurred = clip(&scratch, "blurred.ts", 30, "gblur=sigma=6");

    let mut server = start(&config);
    send(&server, &sharp, 130);
    assert!(!is_blurred(server.address()));
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0), "{}", server.process.output());
    let state: serde_json::Value =
        serde_json::from_slice(&std::fs::read(scratch.file("state.json")).unwrap()).unwrap();
    assert!(state["streams"]["hall"]["sharpness"].as_array().unwrap().len() >= 60, "{state}");

    let server = start(&config);
    send(&server, &blurred, 30);
    wait::until("the alarm", || is_blurred(server.address()));
    // Without the file nothing is known yet, by the same pictures.
    let server = start(&without);
    send(&server, &blurred, 30);
    assert!(!is_blurred(server.address()));
    // A file that is damaged is said, and no more.
    scratch.write("state.json", "{\"version\":1,\"streams\":");
    let server = start(&config);
    wait::until("the warning", || server.process.output().contains("it is damaged"));
    send(&server, &blurred, 30);
    assert!(!is_blurred(server.address()));
}
