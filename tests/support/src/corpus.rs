//! The fuzz targets' corpora, run as plain tests: what fuzzing found once stays found.

use std::path::Path;

/// Calls `run` with each input of `fuzz/corpus/NAME`. A seed, which somebody has written and named, is given also cut
/// short and with bits turned over; what the fuzzer has made is given as it is.
///
/// # Panics
/// Where the corpus is missing: it has at least four seeds.
pub fn run(name: &str, run: impl Fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus").join(name);
    let mut seeds = 0;
    for entry in std::fs::read_dir(folder).expect("the corpus is there") {
        let entry = entry.expect("its folder can be read");
        let data = std::fs::read(entry.path()).expect("an input can be read");
        run(&data);
        if is_made(&entry.file_name().to_string_lossy()) {
            continue;
        }
        seeds += 1;
        for step in 1..20 {
            run(&data[..data.len() * step / 20]);
            let mut damaged = data.clone();
            for at in (step..data.len()).step_by(97) {
                damaged[at] ^= 1 << (step % 8);
            }
            run(&damaged);
        }
    }
    assert!(seeds >= 4, "the corpus of {name} has {seeds} seeds");
}

/// Whether a file has a name as libFuzzer gives it, the SHA-1 of its bytes.
fn is_made(name: &str) -> bool {
    name.len() == 40 && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}
