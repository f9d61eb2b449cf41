//! The bench of the edge, in its short form: a cache of ours in front of the stamped origin gives each byte right.

use std::path::Path;
use std::process::Command;

#[test]
fn a_short_run_finds_no_wrong_byte() {
    let bench = Path::new(env!("CARGO_BIN_EXE_bench-edge"));
    if !bench.with_file_name("glassline").exists() {
        let reason = "glassline is not built beside the bench (cargo build -p glassline)";
        return glassline_test_support::skip("a_short_run_finds_no_wrong_byte", reason);
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("edge");
    let run = Command::new(bench).arg("--quick").arg("--out").arg(&out).output().unwrap();
    let [printed, told] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(run.status.success(), "{printed}\n{told}");
    let figures = std::fs::read_to_string(out.join("edge.json")).unwrap();
    for words in ["chunk delay p99", "fetches of an object", "requests for a CPU second"] {
        assert!(figures.contains(words), "{words} in {figures}");
    }
}
