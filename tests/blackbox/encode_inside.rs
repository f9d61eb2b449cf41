//! `serve` with `[encode.NAME]`: streams that it makes itself, and what may be asked of their encoders.

use crate::hot::upgrade;
use crate::{glassline, serve_with};
use glassline_test_support::http::{ask, connect, get, publish, read_head};
use glassline_test_support::program::{Scratch, Server};
use glassline_test_support::wait::until;
use serde_json::Value;
use std::io::{Read, Write};

fn section(name: &str, more: &str) -> String {
    format!(
        "[encode.{name}]\ninput = 'test:320x180@25'\npreset = 'ultrafast'\nkeyint = '1h'\nthreads = 1\n{more}\n"
    )
}

fn encoder(server: &Server, name: &str) -> Value {
    let encoders = get(server.address(), "/api/encoders").json();
    let mut list = encoders["encoders"].as_array().unwrap().iter();
    list.find(|encoder| encoder["name"] == name).cloned().unwrap_or(Value::Null)
}

fn running(server: &Server, name: &str, field: &str) -> u64 {
    encoder(server, name)["running"][field].as_u64().unwrap_or(0)
}

fn post(server: &Server, path: &str) -> u16 {
    ask(server.address(), "POST", path, &["Content-Length: 0"]).status
}

fn reload(server: &Server, scratch: &Scratch, config: &str) {
    let words = "the configuration was read again";
    let count = || server.process.output().matches(words).count();
    let before = count();
    scratch.write("glassline.toml", config);
    server.process.signal("HUP");
    until("the reload", || count() > before);
}

#[test]
fn streams_are_made_inside_and_their_encoders_do_as_they_are_told() {
    let (server, _scratch) = serve_with(&section("studio", "bitrate = '1M'"));
    server.wait_for_pictures("studio");
    until("pictures", || running(&server, "studio", "pictures") > 5);
    assert_eq!(
        (encoder(&server, "studio")["state"].as_str(), running(&server, "studio", "bitrate_bps")),
        (Some("running"), 1_000_000)
    );
    let before = running(&server, "studio", "random_access_points");
    assert_eq!(post(&server, "/api/streams/studio/keyframe"), 204);
    until("the key frame", || running(&server, "studio", "random_access_points") == before + 1);
    assert_eq!(post(&server, "/api/streams/studio/bitrate?rate=300k"), 204);
    until("the other rate", || running(&server, "studio", "bitrate_bps") == 300_000);
    assert_eq!(running(&server, "studio", "random_access_points"), before + 1);
    for (path, status) in [
        ("/api/streams/studio/bitrate", 400),
        ("/api/streams/studio/bitrate?rate=300", 400),
        ("/api/streams/studio/bitrate?rate=1k", 400),
        ("/api/streams/none/keyframe", 404),
        ("/api/streams/studio/dance", 405),
    ] {
        assert_eq!(post(&server, path), status, "{path}");
    }
    assert_eq!(get(server.address(), "/api/streams/studio/keyframe").status, 405);
    let _publisher = publish(server.address(), "/live/foreign.ts");
    until("the other stream", || server.stream("foreign").is_some());
    let answer = ask(server.address(), "POST", "/api/streams/foreign/keyframe", &["Content-Length: 0"]);
    assert_eq!((answer.status, answer.header("content-type")), (409, Some("application/problem+json")));
    assert!(answer.json()["detail"].as_str().unwrap().contains("--control"));
    // A page from elsewhere may not ask on its visitor's behalf.
    let fields = ["Content-Length: 0", "Origin: http://elsewhere.example", "Sec-Fetch-Site: cross-site"];
    assert_eq!(ask(server.address(), "POST", "/api/streams/studio/keyframe", &fields).status, 403);
    let metrics = server.metrics();
    assert_eq!(metrics.sum("glassline_encoder_running", "studio") as u64, 1);
    for stage in ["queued", "encoder_in", "first_slice", "encoded", "muxed", "sent"] {
        let labels = format!("{{stream=\"studio\",stage=\"{stage}\"");
        let pictures = metrics.sum("glassline_encoder_stage_seconds_count", &labels);
        let all = metrics.sum("glassline_encoder_stage_seconds_bucket", &format!("{labels},le=\"+Inf\"}}"));
        assert!(pictures > 5.0 && all == pictures, "{stage}: {pictures}, {all}");
    }
}

/// A name that a built-in encoder has is nobody else's, while the encoder runs and while it does not.
#[test]
fn names_of_encoders_inside_are_not_taken_over() {
    let failing = "[encode.broken]\ninput = 'none.y4m'\n";
    let ladder = section("hall", "renditions = ['160x90@25:300k']");
    let demo = "[demo]\nenabled = true\nname = 'test'\nsize = '160x90'\nbitrate = '300k'\n";
    let (server, scratch) = serve_with(&format!("{}{failing}{ladder}{demo}", section("studio", "")));
    for name in ["studio", "hall-90p25", "test"] {
        server.wait_for_pictures(name);
    }
    for target in ["studio.ts", "studio.flv", "broken.ts", "hall-90p25.ts", "test.ts"] {
        for query in ["", "?takeover=1"] {
            let refused =
                ask(server.address(), "PUT", &format!("/live/{target}{query}"), &["Content-Length: 0"]);
            assert_eq!(refused.status, 409, "{target}{query}: {}", refused.text());
            assert!(refused.text().contains("encoder"), "{}", refused.text());
        }
    }
    assert!(["studio", "hall-90p25", "test"].iter().all(|name| server.count(name, "publishers") == 1));
    assert!(server.stream("broken").is_none());
    assert_eq!(ask(server.address(), "PUT", "/live/hall.ts", &["Content-Length: 0"]).status, 204);
    // What a reload takes away is free again.
    reload(&server, &scratch, &section("studio", ""));
    assert_eq!(ask(server.address(), "PUT", "/live/broken.ts", &["Content-Length: 0"]).status, 204);
    assert_eq!(ask(server.address(), "PUT", "/live/studio.ts", &["Content-Length: 0"]).status, 409);
}

#[test]
fn with_an_admin_listener_encoders_are_asked_there() {
    let config = section("studio", "") + "[admin]\nlisten = ['127.0.0.1:0']\n";
    let (server, _scratch) = serve_with(&config);
    // The public address is told first, the admin's in brackets.
    let output = server.process.output();
    let admin =
        output.split("all streams: http://").nth(1).unwrap().split('/').next().unwrap().parse().unwrap();
    until("the encoder", || {
        ask(admin, "POST", "/api/streams/studio/keyframe", &["Content-Length: 0"]).status == 204
    });
    assert_eq!(post(&server, "/api/streams/studio/keyframe"), 404);
    assert_eq!(get(server.address(), "/api/encoders").status, 404);
}

#[test]
fn a_reload_begins_anew_what_has_changed_and_nothing_else() {
    let config = section("a", "bitrate = '1M'") + &section("b", "");
    let (server, scratch) = serve_with(&config);
    for name in ["a", "b"] {
        server.wait_for_pictures(name);
        until("the encoder", || running(&server, name, "pictures") > 3);
    }
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/a.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    let points = running(&server, "a", "random_access_points");
    // Another rate alone: no key frame, no seam.
    reload(&server, &scratch, &(section("a", "bitrate = '400k'") + &section("b", "")));
    until("the other rate", || running(&server, "a", "bitrate_bps") == 400_000);
    assert_eq!((running(&server, "a", "random_access_points"), server.count("a", "publishers")), (points, 1));
    // Another picture for a; b goes on.
    let other = section("a", "bitrate = '400k'").replace("320x180", "160x90");
    reload(&server, &scratch, &(other + &section("b", "")));
    until("the other picture", || {
        server.stream("a").is_some_and(|stream| {
            stream["publishers"] == 2
                && stream["codecs"].as_array().unwrap().iter().any(|codec| codec["width"] == 160)
        })
    });
    assert_eq!(server.count("b", "publishers"), 1);
    viewer.read_exact(&mut vec![0; 50_000]).unwrap();
    // What is no longer named ends, what is new begins.
    reload(&server, &scratch, &section("c", ""));
    server.wait_for_pictures("c");
    assert_eq!((encoder(&server, "a"), encoder(&server, "b")), (Value::Null, Value::Null));
    until("the end of b", || server.stream("b").is_none_or(|stream| stream["live"] == false));
}

#[test]
fn an_encoder_that_fails_is_told_and_tried_again_and_nothing_else_is_touched() {
    let failing = "[encode.file]\ninput = 'in.y4m'\n";
    let (server, scratch) = serve_with(&(section("studio", "") + failing));
    server.wait_for_pictures("studio");
    until("the failure", || encoder(&server, "file")["state"] == "waiting");
    let told = encoder(&server, "file");
    assert!(
        told["error"].as_str().unwrap().contains("in.y4m") && told["retry_in_ms"].as_f64().is_some(),
        "{told}"
    );
    assert!(server.process.output().contains("its encoder does not run"), "{}", server.process.output());
    assert_eq!(post(&server, "/api/streams/file/keyframe"), 409);
    assert_eq!(server.count("studio", "publishers"), 1);
    // The file comes: relative to the configuration's folder. It is short, and begun anew when it ends.
    let mut bytes = b"YUV4MPEG2 W64 H48 F25:1 Ip A1:1 C420jpeg\n".to_vec();
    for number in 0..15u8 {
        bytes.extend_from_slice(b"FRAME\n");
        bytes.extend(std::iter::repeat_n(40 + number * 4, 64 * 48 * 3 / 2));
    }
    scratch.write("in.y4m", bytes);
    server.wait_for_pictures("file");
    until("it to be begun anew", || server.count("file", "publishers") >= 2);
    assert_eq!(server.count("studio", "publishers"), 1);
    let missing = scratch.write("bad.toml", "[encode.x]\npreset = 'fast'\n");
    let outcome = glassline(&["serve", "--config", &missing, "--test-config"]);
    assert!(
        outcome.status == Some(2) && outcome.stderr.contains("encode.x: has no input"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn encoders_begin_anew_in_a_new_program_under_their_viewers() {
    let (mut server, scratch) = serve_with(&section("studio", ""));
    server.wait_for_pictures("studio");
    let mut viewer = connect(server.address());
    write!(viewer, "GET /live/studio.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
    assert_eq!(read_head(&mut viewer).status, 200);
    upgrade(&mut server, &scratch.file("glassline.toml"));
    until("the new encoder", || running(&server, "studio", "pictures") > 5);
    assert_eq!(server.count("studio", "publishers"), 2);
    // The same connection goes on.
    let written = server.count("studio", "bytes_in");
    until("more of it", || server.count("studio", "bytes_in") > written + 20_000);
    let mut got = vec![0; (written + 20_000) as usize / 188 * 188 / 2];
    viewer.read_exact(&mut got).unwrap();
    assert_eq!(server.count("studio", "viewers"), 1);
    server.process.signal("TERM");
    assert_eq!(server.process.wait().code(), Some(0));
}
