//! What the tests of several rooms share: where test data lies, and how a test that lacks something is
//! *skipped and counted* instead of silently green.
#![forbid(unsafe_code)]

pub mod capture;
pub mod corpus;
pub mod http;
pub mod metrics;
pub mod multicast;
pub mod numbered;
pub mod program;
pub mod tls;
pub mod ts;
pub mod wait;
pub mod xml;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Says that the running test was skipped and why; the test then returns.
///
/// The line goes to standard error and, where `GLASSLINE_SKIP_LOG` names a file, into that file, from which
/// `make test` counts. The Rust test runner itself would count the test as passed.
pub fn skip(test: &str, reason: &str) {
    eprintln!("SKIPPED {test}: {reason}");
    if let Some(log) = std::env::var_os("GLASSLINE_SKIP_LOG") {
        let mut file =
            std::fs::OpenOptions::new().create(true).append(true).open(log).expect("skip log opens");
        writeln!(file, "{test}: {reason}").expect("skip log takes a line");
    }
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
