//! What the tests of several rooms share: where test data lies, and how a test that lacks something is
//! *skipped and counted* instead of silently green.
#![forbid(unsafe_code)]

pub mod beside;
pub mod capture;
pub mod corpus;
pub mod flight;
pub mod http;
pub mod loopback;
pub mod metrics;
pub mod multicast;
pub mod noise;
pub mod numbered;
pub mod packets;
pub mod program;
pub mod rtmp;
#[cfg(test)]
mod skip_names;
pub mod synthetic;
pub mod tls;
pub mod ts;
pub mod wait;
pub mod xml;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that the running test, the function `test`, was skipped and why; the test then returns. Only the absence of
/// something is a reason: a program, a file, a device, a permission. What our own program says is none.
///
/// The line goes to standard error and, where `GLASSLINE_SKIP_LOG` names a file, into that file, from which
/// `make test` counts. The Rust test runner itself would count the test as passed. The line begins with the test
/// program's name and the test's path in it, which no other test has.
///
/// # Panics
/// Where `test` is not the running test: two skips of one name would be counted as one.
pub fn skip(test: &str, reason: &str) {
    let thread = std::thread::current();
    let key = skip_key(&test_program(), thread.name(), test).unwrap_or_else(|wrong| panic!("{wrong}"));
    eprintln!("SKIPPED {key}: {reason}");
    if let Some(log) = std::env::var_os("GLASSLINE_SKIP_LOG") {
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(log).expect("skip log opens");
        // One write, so that lines of several test programs do not mix.
        let line = format!("{key}: {}\n", reason.replace('\n', " "));
        file.write_all(line.as_bytes()).expect("skip log takes a line");
    }
}

/// The running test program's name, without the hash that Cargo puts behind it.
fn test_program() -> String {
    let name = std::env::current_exe().ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let name = name.unwrap_or_default();
    name.rsplit_once('-').map_or(name.clone(), |(name, _)| name.to_owned())
}

/// What a skip is counted by. The runner names each test's thread by the test's path; with one thread for all tests it
/// runs them in the main one.
fn skip_key(program: &str, thread: Option<&str>, test: &str) -> Result<String, String> {
    match thread {
        Some(path) if path != "main" => match path.rsplit("::").next() == Some(test) {
            true => Ok(format!("{program}::{path}")),
            false => Err(format!("the test {path} is skipped by the name of {test:?}")),
        },
        _ => Ok(format!("{program}::{test}")),
    }
}

/// Whether the dynamic linker knows a shared library whose file begins with `prefix`.
pub fn has_library(prefix: &str) -> bool {
    ["ldconfig", "/sbin/ldconfig"].iter().any(|program| {
        let listed = Command::new(program).arg("-p").output();
        listed.is_ok_and(|listed| {
            String::from_utf8_lossy(&listed.stdout).lines().any(|line| line.trim_start().starts_with(prefix))
        })
    })
}

/// Why no network with a TUN device can be made on this machine, as `unshare` and `ip` find; `None` where one can, by an
/// ordinary user or, where we are root, by root. `become_user` is what makes the user: words in front of a command.
pub fn no_private_network(become_user: &[&str]) -> Option<String> {
    let words = ["--net", "ip", "tuntap", "add", "mode", "tun", "name", "skip0"];
    let ways = [&["--user", "--map-root-user"][..], &[]];
    let mut reason = String::new();
    for way in ways {
        let command = [become_user, &["unshare"], way, &words].concat();
        match Command::new(command[0]).args(&command[1..]).output() {
            Ok(made) if made.status.success() => return None,
            Ok(made) => reason = String::from_utf8_lossy(&made.stderr).trim().to_owned(),
            Err(error) => reason = format!("unshare: {error}"),
        }
    }
    Some(format!("no private network with a TUN device here: {reason}"))
}

/// A file below the shared test data (`GLASSLINE_SHARED`, default `../shared` beside the checkout), or `None`
/// where it is absent.
pub fn shared(path: &str) -> Option<PathBuf> {
    let root = std::env::var_os("GLASSLINE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let file = root.join(path);
    file.exists().then_some(file)
}

/// Whether a foreign program stands in `PATH`.
pub fn has_program(name: &str) -> bool {
    Command::new("sh")
        .args(["-c", &format!("command -v {name}")])
        .output()
        .is_ok_and(|found| found.status.success())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_skip_counts_by_program_and_path_and_only_for_its_own_test() {
        let key = |thread, test| skip_key("blackbox", thread, test);
        assert_eq!(key(Some("marks::it_is_set"), "it_is_set"), Ok("blackbox::marks::it_is_set".into()));
        assert_eq!(key(Some("it_is_set"), "it_is_set"), Ok("blackbox::it_is_set".into()));
        assert!(key(Some("marks::it_is_set"), "set").is_err());
        assert!(key(Some("marks::it_is_set"), "marks::it_is_set").is_err());
        // One thread for all tests has no test's name.
        assert_eq!(key(Some("main"), "it_is_set"), Ok("blackbox::it_is_set".into()));
        assert_eq!(key(None, "it_is_set"), Ok("blackbox::it_is_set".into()));
    }
}
