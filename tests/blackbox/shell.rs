//! The program as a shell sees it: exit status, what goes to which output, and that it ends quietly.

use crate::GLASSLINE;
use std::io::Read;
use std::process::{Command, Output, Stdio};

fn run(arguments: &[&str]) -> Output {
    Command::new(GLASSLINE).args(arguments).env_remove("GLASSLINE_LOG").output().unwrap()
}

#[test]
fn bad_usage_is_status_2_and_failure_is_status_1() {
    for (arguments, status) in [
        (&["--version"][..], 0),
        (&["probe", "--help"], 0),
        (&["nonsense"], 2),
        (&["probe"], 2),
        (&["probe", "--duration", "5", "x"], 2),
        (&["encode", "test:64x64@25", "null:", "--rate-control", "predicted", "--cbr"], 2),
        (&["probe", "ftp://localhost/x.ts"], 2),
        (&["probe", "https://localhost/a b"], 2),
        (&["probe", "/no/such/file"], 1),
        (&["probe", "/"], 1),
        (&["probe", "http://127.0.0.1:1/x.ts"], 1),
        (&["probe", "https://127.0.0.1:1/x.ts"], 1),
        (&["probe", env!("CARGO_MANIFEST_PATH")], 1),
    ] {
        let output = run(arguments);
        assert_eq!(output.status.code(), Some(status), "{arguments:?}");
        let errors = String::from_utf8(output.stderr).unwrap();
        if status == 1 {
            assert!(output.stdout.is_empty(), "{arguments:?}");
            assert!(errors.starts_with("glassline: ") && errors.contains("; "), "{errors}");
            assert_eq!(errors.lines().count(), 1, "{errors}");
        }
    }
}

#[test]
fn a_reader_that_goes_away_ends_it_quietly() {
    let mut child = Command::new(GLASSLINE)
        .args(["completions", "zsh"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let mut errors = String::new();
    child.stderr.take().unwrap().read_to_string(&mut errors).unwrap();
    assert_eq!((errors.as_str(), child.wait().unwrap().code()), ("", Some(0)));
}
