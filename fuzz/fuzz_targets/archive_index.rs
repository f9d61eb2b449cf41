//! Parts of the index of a recording. What is checked stands in `bodies/`, free of the fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/archive_index.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
