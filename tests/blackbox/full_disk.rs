//! Disks that are full, of which `/dev/full` is one, and logs that are moved away.

use crate::{GLASSLINE, glassline, serve_with};
use glassline_test_support::http::{get, publish};
use glassline_test_support::numbered::Shape;
use glassline_test_support::program::{Scratch, Server, run};
use glassline_test_support::wait::until;
use std::fs;
use std::io::Write;
use std::os::unix::fs::{PermissionsExt, symlink};

const SHAPE: Shape = Shape { packets: 5, group: 5 };
const FULL: &str = "No space left on device";

/// A program whose standard error is a full disk.
fn without_stderr(scratch: &Scratch) -> String {
    let program = scratch.write("silent", format!("#!/bin/sh\nexec {GLASSLINE} \"$@\" 2> /dev/full\n"));
    fs::set_permissions(&program, PermissionsExt::from_mode(0o755)).unwrap();
    program
}

fn serves(server: &Server) {
    let mut publisher = publish(server.address(), "/live/stage.ts");
    publisher.write_all(&SHAPE.picture(0)).unwrap();
    until("the stream", || server.count("stage", "bytes_in") > 0);
    assert_eq!(get(server.address(), "/healthz").status, 200);
}

#[test]
fn a_full_disk_for_the_access_log_is_told_once_and_ends_nothing() {
    let (server, _scratch) = serve_with("[log]\naccess = '/dev/full'\n");
    serves(&server);
    let words = "the access log cannot be written";
    until("the complaint", || server.process.output().contains(words));
    serves(&server);
    let output = server.process.output();
    assert!(output.contains(FULL) && output.matches(words).count() == 1, "{output}");
}

#[test]
fn a_full_disk_for_the_log_ends_nothing() {
    let scratch = Scratch::new("full-log");
    let program = without_stderr(&scratch);
    for format in ["text", "json"] {
        let config =
            scratch.write("glassline.toml", format!("[log]\nlevel = 'trace'\nformat = '{format}'\n"));
        let mut server = Server::start(&program, &["--config", &config]);
        serves(&server);
        // A reload that fails says so there, too.
        scratch.write("glassline.toml", "nothing = 1\n");
        server.process.signal("HUP");
        serves(&server);
        server.process.signal("TERM");
        assert_eq!(server.process.wait().code(), Some(0));
    }
    // Status 2 as ever, though the words are lost.
    assert_eq!(run(&program, &["serve", "--config", "/no/such/file"], 60).status, Some(2));
}

#[test]
fn a_full_disk_for_what_is_encoded_is_told_with_status_1() {
    let scratch = Scratch::new("full-file");
    let full = |name: &str| {
        symlink("/dev/full", scratch.path().join(name)).unwrap();
        scratch.file(name)
    };
    let encode = |more: &[&str]| {
        glassline(&[&["encode", "test:320x180@25", "--limit", "50", "--keyint", "10"][..], more].concat())
    };
    for name in ["a.ts", "a.mp4"] {
        let outcome = encode(&[&full(name)]);
        let told = outcome.stderr.contains(&format!("cannot write {}", scratch.file(name)));
        assert!(outcome.status == Some(1) && told && outcome.stderr.contains(FULL), "{}", outcome.stderr);
    }
    let ivf = full("a.ivf");
    let outcome = encode(&["--codec", "vp8", &ivf]);
    assert!(outcome.status == Some(1) && outcome.stderr.contains(FULL), "{}", outcome.stderr);
    // Beside one that goes on, which has all of it.
    let (bad, good) = (full("b.ts"), scratch.file("good.ts"));
    let outcome = encode(&[&bad, &good]);
    assert!(
        outcome.status == Some(1) && outcome.stderr.contains("the other outputs go on"),
        "{}",
        outcome.stderr
    );
    let alone = scratch.file("alone.ts");
    assert_eq!(encode(&[&alone]).status, Some(0));
    let bytes = |file: &str| fs::metadata(file).unwrap().len();
    assert!(bytes(&good) * 10 > bytes(&alone) * 9, "{} of {}", bytes(&good), bytes(&alone));
}

#[test]
fn what_is_encoded_onto_a_full_disk_ends_with_a_whole_piece() {
    let scratch = Scratch::new("full-piece");
    for name in ["a.ts", "a.mp4"] {
        let file = scratch.file(name);
        // No file may be larger than 200 kB, which is as good as a full disk.
        let script = format!(
            "trap '' XFSZ; ulimit -f 391; exec {GLASSLINE} encode test:320x180@25 {file} --keyint 5 --bitrate 2M --limit 500"
        );
        let outcome = run("sh", &["-c", &script], 120);
        assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
        let bytes = fs::read(&file).unwrap();
        assert!((100_000..=391 * 512).contains(&bytes.len()), "{} bytes", bytes.len());
        if name == "a.ts" {
            assert!(
                bytes.as_chunks::<188>().0.iter().all(|packet| packet[0] == 0x47)
                    && bytes.len().is_multiple_of(188)
            );
            continue;
        }
        let (mut at, mut kinds) = (0, Vec::new());
        while let Some(head) = bytes.get(at..at + 8) {
            kinds.push(String::from_utf8_lossy(&head[4..]).into_owned());
            at += u32::from_be_bytes(*head.first_chunk().unwrap()) as usize;
        }
        assert_eq!((at, kinds.last().map(String::as_str)), (bytes.len(), Some("mdat")), "{kinds:?}");
    }
}

#[test]
fn figures_that_cannot_be_written_end_with_status_1() {
    let scratch = Scratch::new("full-stats");
    let with = |redirections: &str, arguments: &str| {
        let line = format!(
            "exec {GLASSLINE} encode test:320x180@25 null: --limit 5 --stats {arguments} {redirections}"
        );
        run("sh", &["-c", &line], 120)
    };
    let outcome = with("> /dev/full", "--json");
    let told = outcome.stderr.contains("cannot write to standard output") && outcome.stderr.contains(FULL);
    assert!(outcome.status == Some(1) && told, "{}", outcome.stderr);
    // There is nowhere left to say it.
    assert_eq!(with("2> /dev/full", "").status, Some(1));
    assert_eq!(with("2> /dev/full", "--json").status, Some(0));

    // A link's go to a file.
    let key = scratch.file("link.key");
    assert_eq!(glassline(&["key", "new", &key]).status, Some(0));
    let arguments = ["link", "listen", "127.0.0.1:0", "--key", &key, "--stats", "/dev/full"];
    let outcome = glassline(&[&arguments[..], &["--channel", "7:lines,out=-"]].concat());
    assert_eq!(outcome.status, Some(1), "{}", outcome.stderr);
    assert!(outcome.stderr.contains("cannot write the statistics"), "{}", outcome.stderr);
}

#[test]
fn an_access_log_is_the_crews_and_is_opened_anew_where_it_was_moved_away() {
    let (server, scratch) = serve_with("[log]\naccess = 'access.log'\n");
    let (log, old) = (scratch.path().join("access.log"), scratch.path().join("access.log.1"));
    let has = |file: &std::path::Path, path: &str| {
        fs::read_to_string(file).is_ok_and(|text| text.contains(&format!("GET {path} ")))
    };
    let others = |file: &std::path::Path| fs::metadata(file).unwrap().permissions().mode() & 0o137;
    assert_eq!(get(server.address(), "/healthz").status, 200);
    until("a line", || has(&log, "/healthz"));
    assert_eq!(others(&log), 0, "0640, or what the umask leaves of it");
    fs::rename(&log, &old).unwrap();
    // Until it is told, it writes where it did.
    assert_eq!(get(server.address(), "/readyz").status, 200);
    until("a line in the old file", || has(&old, "/readyz"));
    assert!(!log.exists());
    server.process.signal("HUP");
    until("the new file", || log.exists());
    until("the reload", || server.process.output().contains("the configuration was read again"));
    let rotated = fs::read_to_string(&old).unwrap();
    assert_eq!(get(server.address(), "/gen204").status, 204);
    until("a line in the new file", || has(&log, "/gen204"));
    assert_eq!(others(&log), 0);
    assert_eq!(fs::read_to_string(&old).unwrap(), rotated, "nothing is written there any more");
    // One that is there keeps its mode.
    fs::set_permissions(&log, PermissionsExt::from_mode(0o600)).unwrap();
    server.process.signal("HUP");
    until("the second reload", || {
        server.process.output().matches("the configuration was read again").count() == 2
    });
    assert_eq!(fs::metadata(&log).unwrap().permissions().mode() & 0o777, 0o600);
}
