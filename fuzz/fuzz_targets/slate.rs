//! Any bytes of a publisher behind a slate, and as the file of one. What is checked stands in `bodies/`, free of the
//! fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/slate.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
