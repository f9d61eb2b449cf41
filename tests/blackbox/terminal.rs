//! What others have written, and a terminal shows: nothing of it steers the terminal.

use crate::raw_probe::send_raw;
use crate::{glassline, serve_with};
use glassline_media::printable::is_control;
use glassline_test_support::http::read_once;
use glassline_test_support::program::{Outcome, Scratch};
use glassline_test_support::wait::until;
use std::io::Write;
use std::net::{SocketAddr, TcpListener};

/// Clears the screen by a C1 control, and turns the reading direction.
const HOSTILE: &str = "\u{9b}2J\u{202e}gpj";
/// How it is shown.
const SHOWN: &str = "\\u009b2J\\u202egpj";

fn assert_harmless(said: &str, shown: &str) {
    let steers = |character: char| is_control(character) && character != '\n' && character != '\t';
    assert!(!said.chars().any(steers), "{said:?}");
    assert!(said.contains(shown), "it is not there at all: {said:?}");
}

fn all_of(outcome: &Outcome) -> String {
    outcome.text() + &outcome.stderr
}

/// A server that gives every request the same answer.
fn answering(answer: String) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = Vec::new();
            let mut byte = [0];
            while !request.ends_with(b"\r\n\r\n")
                && read_once(&mut stream, &mut byte).is_ok_and(|count| count > 0)
            {
                request.push(byte[0]);
            }
            let _ = stream.write_all(answer.as_bytes());
        }
    });
    address
}

#[test]
fn a_redirect_and_its_reason_are_shown_harmlessly() {
    let to = answering(format!(
        "HTTP/1.1 302 Found\r\nLocation: http://example.org/{HOSTILE}\r\nContent-Length: 0\r\n\r\n"
    ));
    let probed = glassline(&["probe", &format!("http://{to}/live/a.ts")]);
    assert_eq!(probed.status, Some(1), "{}", probed.stderr);
    assert_harmless(&all_of(&probed), SHOWN);
}

#[test]
fn a_session_description_is_shown_harmlessly() {
    let folder = Scratch::new("terminal-sdp");
    let (_sender, _, text) = send_raw(&folder);
    let name = text.lines().find(|line| line.starts_with("s=")).unwrap();
    let hostile = folder.write("hostile.sdp", text.replace(name, &format!("s=\x1b]0;title\x07{HOSTILE}")));
    let target = format!("rtp:{hostile}");
    for arguments in
        [&["probe", &target, "--duration", "1s"][..], &["probe", &target, "--duration", "1s", "--json"]]
    {
        let probed = glassline(arguments);
        assert_eq!(probed.status, Some(0), "{}", probed.stderr);
        assert_harmless(&all_of(&probed), &format!("\\u001b]0;title\\u0007{SHOWN}"));
    }
    let json = glassline(&["probe", &target, "--duration", "1s", "--json"]).text();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["name"], format!("\x1b]0;title\x07{HOSTILE}"), "in JSON it is what it was");
    // One that is none is told with what stands in it.
    let bad = folder.write("bad.sdp", text.replace("a=rtpmap:", &format!("a=rtpmap:{HOSTILE}")));
    let refused = glassline(&["record", &format!("rtp:{bad}"), "null:"]);
    assert_eq!(refused.status, Some(2), "{}", refused.stderr);
    let steers = |character: char| is_control(character) && character != '\n';
    assert!(!refused.stderr.chars().any(steers), "{:?}", refused.stderr);
}

#[test]
fn names_of_files_are_shown_harmlessly() {
    let missing = format!("/nonexistent/{HOSTILE}\x1b[2J");
    let shown = format!("/nonexistent/{SHOWN}\\u001b[2J");
    for arguments in [&["probe", &missing][..], &["serve", "--config", &missing], &["key", "show", &missing]]
    {
        assert_harmless(&all_of(&glassline(arguments)), &shown);
    }
    // One more than the command takes: clap explains it, and leaves out of it what looks like a sequence.
    assert_harmless(
        &all_of(&glassline(&["key", "show", "a", &missing])),
        "unexpected argument '/nonexistent/",
    );
}

#[test]
fn the_log_shows_what_others_say_harmlessly() {
    for format in ["text", "json"] {
        let log = format!("[log]\nformat = '{format}'\n");
        let (server, folder) = serve_with(&log);
        // TOML has the same digits for them.
        let key = format!("[publish]\nkey_file = \"/nonexistent/{SHOWN}\"\n");
        folder.write("glassline.toml", log + &key);
        server.process.signal("HUP");
        until("the line", || server.process.output().contains("the configuration stays as it was"));
        assert_harmless(&server.process.output(), SHOWN);
    }
}
