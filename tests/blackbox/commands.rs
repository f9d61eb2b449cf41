//! Usage, exit status and messages, and how commands end.

use crate::{GLASSLINE, glassline, serve};
use glassline_test_support::program::{Outcome, Running, Scratch};
use glassline_test_support::wait::until;
use std::net::TcpListener;
use std::process::Command;

/// Checks status and that standard error, without a backtrace, tells each of the words.
pub(crate) fn assert_fails(outcome: &Outcome, status: i32, words: &[&str]) {
    assert_eq!(outcome.status, Some(status), "{}", outcome.stderr);
    for word in words {
        assert!(outcome.stderr.contains(word), "{word:?} is not in: {}", outcome.stderr);
    }
    assert!(
        !outcome.stderr.contains("panicked") && !outcome.stderr.contains("RUST_BACKTRACE"),
        "{}",
        outcome.stderr
    );
}

#[test]
fn bad_usage_has_status_2() {
    assert_fails(&glassline(&["serve", "--no-such-flag"]), 2, &["--no-such-flag"]);
    assert_fails(&glassline(&["no-such-command"]), 2, &["no-such-command"]);
    assert_fails(&glassline(&["serve", "--listen", "nowhere"]), 2, &["nowhere"]);
    assert_fails(&glassline(&["encode", "test:320x180@25"]), 2, &["OUTPUT"]);
    assert_fails(&glassline(&["encode", "test:320x180", "null:"]), 2, &["test:"]);
    assert_fails(&glassline(&["encode", "test:320x180@25", "null:", "--bitrate", "5000"]), 2, &["5000"]);
    assert_fails(&glassline(&["probe"]), 2, &["Usage"]);
}

#[test]
fn help_and_version_have_status_0() {
    for arguments in
        [&["--help"][..], &["--version"], &["serve", "--help"], &["encode", "--help"], &["probe", "--help"]]
    {
        let outcome = glassline(arguments);
        assert_eq!(outcome.status, Some(0), "{arguments:?}: {}", outcome.stderr);
        assert!(outcome.text().contains("glassline"), "{arguments:?}: {}", outcome.text());
    }
}

#[test]
fn a_bad_configuration_has_status_2_and_says_where() {
    let scratch = Scratch::new("config");
    let missing = scratch.file("none.toml");
    assert_fails(&glassline(&["serve", "--config", &missing]), 2, &["none.toml"]);
    let folder = scratch.path().to_string_lossy().into_owned();
    assert_fails(&glassline(&["serve", "--config", &folder]), 2, &[&folder]);
    let misspelt = scratch.write("misspelt.toml", "workers = 1\n[viewer]\nbacklgo = '5s'\n");
    for arguments in
        [&["serve", "--config", &misspelt][..], &["serve", "--test-config", "--config", &misspelt]]
    {
        assert_fails(&glassline(arguments), 2, &["misspelt.toml:3", "backlgo", "\"backlog\""]);
    }
    let binary = scratch.write("binary.toml", [0xFF, 0xFE, 0, 1]);
    assert_fails(&glassline(&["serve", "--config", &binary]), 2, &["binary.toml"]);
    let good = scratch.write("good.toml", "workers = 1\n");
    let outcome = glassline(&["serve", "--test-config", "--config", &good]);
    assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
}

#[test]
fn a_port_in_use_is_named() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let outcome = glassline(&["serve", "--listen", &address]);
    assert_fails(&outcome, 1, &[&address, "--listen"]);
}

#[test]
fn inputs_that_are_not_there_or_no_video() {
    let scratch = Scratch::new("inputs");
    let out = scratch.file("out.ts");
    let folder = scratch.path().to_string_lossy().into_owned();
    let empty = scratch.write("empty.y4m", "");
    let garbage = scratch
        .write("garbage.y4m", (0..100_000u32).map(|at| (at.wrapping_mul(at) >> 7) as u8).collect::<Vec<_>>());
    let cut = scratch.write("cut.y4m", "YUV4MPEG2 W64 H64 F25:1\nFRAME\nabc");
    let giant = scratch.write("giant.y4m", "YUV4MPEG2 W4000000000 H4000000000 F25:1\nFRAME\n");
    let missing = scratch.file("none.y4m");
    assert_fails(&glassline(&["encode", &folder, &out]), 1, &[&folder, "is a folder"]);
    for input in [&missing, &empty, &garbage, &giant, &cut] {
        let outcome = glassline(&["encode", input, &out]);
        assert_fails(&outcome, 1, &[input.rsplit('/').next().unwrap()]);
    }
    for (name, input) in
        [("none.ts", scratch.file("none.ts")), ("", folder), ("empty", empty), ("garbage", garbage)]
    {
        assert_fails(&glassline(&["probe", &input]), 1, &[name]);
    }
    assert_fails(
        &glassline(&["encode", "test:320x180@25", "--limit", "5", "/no/such/folder/out.ts"]),
        1,
        &["out.ts"],
    );
}

#[test]
fn nobody_there_is_an_error_that_names_the_address() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("http://{free}/live/x.ts");
    assert_fails(&glassline(&["probe", &url, "--duration", "1s"]), 1, &[&free.to_string()]);
    let server = serve(&[]);
    assert_fails(&glassline(&["probe", &server.url("/live/none.ts"), "--duration", "1s"]), 1, &["none"]);
}

#[test]
fn signals_end_it_cleanly() {
    for signal in ["TERM", "INT"] {
        let mut server = serve(&["--demo"]);
        server.wait_for_pictures("demo");
        // With somebody watching, and somebody who never says what they want.
        let mut viewer = glassline_test_support::http::connect(server.address());
        std::io::Write::write_all(&mut viewer, b"GET /live/demo.ts HTTP/1.1\r\nHost: h\r\n\r\n").unwrap();
        assert_eq!(glassline_test_support::http::read_head(&mut viewer).status, 200);
        let _silent = glassline_test_support::http::connect(server.address());
        server.process.signal(signal);
        let status = server.process.wait();
        assert_eq!(status.code(), Some(0), "{signal}: {}", server.process.output());
        // The viewer's stream ends.
        assert!(!glassline_test_support::http::read_all(&mut viewer).is_empty());
    }
}

#[test]
fn an_encoder_ends_its_file_when_it_is_told_to_end() {
    let scratch = Scratch::new("end");
    let out = scratch.file("out.ts");
    let mut encoder = Running::start(Command::new(GLASSLINE).args(["encode", "test:320x180@25", &out]));
    until("a file", || std::fs::metadata(&out).is_ok_and(|file| file.len() > 100_000));
    encoder.signal("TERM");
    let status = encoder.wait();
    assert_eq!(status.code(), Some(0), "{}", encoder.output());
    let bytes = std::fs::read(&out).unwrap();
    assert_eq!(bytes.len() % 188, 0, "the last packet is torn");
}

#[test]
fn json_logs_are_json_lines() {
    let mut server = serve(&["--log-format", "json"]);
    glassline_test_support::http::get(server.address(), "/healthz");
    server.process.signal("TERM");
    server.process.wait();
    let mut lines = 0;
    for line in server.process.output().lines().filter(|line| line.starts_with('{')) {
        let record: serde_json::Value =
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{error}: {line}"));
        assert!(record["level"].is_string() && record["message"].is_string(), "{line}");
        lines += 1;
    }
    assert!(lines > 0, "{}", server.process.output());
}
