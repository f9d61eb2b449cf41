//! Keys, configurations and descriptions, whatever their paths name: bounded in length and time, and read once from a pipe.

use crate::{GLASSLINE, glassline, serve_with};
use glassline_test_support::http::get;
use glassline_test_support::program::{Outcome, Scratch, run};
use glassline_test_support::wait::until;
use std::fs;
use std::os::unix::fs::symlink;

/// What bash makes of `script`, in which `$GLASSLINE` is the program.
fn bash(script: &str, arguments: &[&str]) -> Outcome {
    let all = [&["-c", script, GLASSLINE][..], arguments].concat();
    run("bash", &all, 60)
}

#[test]
fn a_key_comes_from_a_pipe_as_well() {
    let digits = "4711".repeat(16);
    let shown = bash("\"$0\" key show <(echo \"private $1\")", &[&digits]);
    assert!(shown.status == Some(0), "{}", shown.stderr);
    assert_eq!(shown.text().trim().len(), 64);
    let by_stdin = bash("echo \"private $1\" | \"$0\" key show /dev/stdin", &[&digits]);
    assert_eq!(by_stdin.text(), shown.text());
    let signed = bash("\"$0\" sign --key-file <(echo a-viewer-key) http://h/live/a.ts", &[]);
    assert!(signed.text().starts_with("http://h/live/a.ts?expires="), "{}", signed.stderr);
    let good = bash("\"$0\" serve --test-config --config <(echo \"contact = 'x@example.org'\")", &[]);
    assert!(good.status == Some(0), "{}", good.stderr);
}

#[test]
fn what_has_no_end_or_is_too_long_is_refused_with_the_bound() {
    let scratch = Scratch::new("small-files");
    let long = scratch.write("long", vec![b'#'; 2 << 20]);
    for file in ["/dev/zero", &long] {
        let description = format!("rtp:{file}");
        for arguments in [
            &["serve", "--test-config", "--config", file][..],
            &["record", &description, "null:"],
            &["probe", "https://127.0.0.1:1/", "--ca", file],
        ] {
            let refused = glassline(arguments);
            assert_eq!(refused.status, Some(2), "{arguments:?}: {}", refused.stderr);
            let words = format!("{file} is too long: at most 1048576 bytes");
            assert!(refused.stderr.contains(&words), "{arguments:?}: {}", refused.stderr);
        }
    }
}

#[test]
fn a_reload_reads_regular_files_and_links_to_them_alone() {
    let (server, scratch) = serve_with("contact = 'first@example.org'\n");
    let file = scratch.path().join("glassline.toml");
    let says = |words: &str| server.process.output().matches(words).count();
    let put = |target: &str| {
        // As certbot does: the link is another one from one moment to the next.
        let next = scratch.path().join("next");
        symlink(target, &next).unwrap();
        fs::rename(&next, &file).unwrap();
    };
    for (number, other) in ["/dev/zero", "/dev/stdin"].into_iter().enumerate() {
        put(other);
        server.process.signal("HUP");
        until("the refusal", || says("the configuration stays as it was") == number + 1);
    }
    assert_eq!(says("only regular files are read; write its content into a file"), 2);
    assert!(server.own_memory_bytes() < 200 << 20, "{} bytes", server.own_memory_bytes());
    put(&scratch.write("second.toml", "contact = 'second@example.org'\n"));
    server.process.signal("HUP");
    until("the reload", || says("the configuration was read again") == 1);
    assert_eq!(get(server.address(), "/healthz").status, 200);
}
