//! The bench of raw video, in its shortest form: a receiver of ours, a bare loop, and what both say.

use std::path::Path;
use std::process::Command;

#[test]
fn a_short_run_has_a_rate_of_ours_and_of_a_bare_loop() {
    let bench = Path::new(env!("CARGO_BIN_EXE_bench-rawvideo"));
    if !bench.with_file_name("glassline").exists() {
        let reason = "glassline is not built beside the bench (cargo build -p glassline)";
        return glassline_test_support::skip("a_short_run_has_a_rate_of_ours_and_of_a_bare_loop", reason);
    }
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("rawvideo");
    let words = "--who ours,copy --networks loopback --depths 10 --payloads 1220 --parts rates --steps 1 --seconds 0.2 --confirm 0.2";
    let run = Command::new(bench).args(words.split(' ')).arg("--out").arg(&out).output().unwrap();
    let [printed, told] = [&run.stdout, &run.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    assert!(run.status.success(), "{printed}\n{told}");
    let figures = std::fs::read_to_string(out.join("rawvideo.json")).unwrap();
    // How fast it was, no test decides: others may have the processor.
    for words in ["highest loss-free rate", "1080p 10 bit, 1220 B, loopback", "copy loop"] {
        assert!(figures.contains(words), "{words} in {figures}");
    }
}
