//! Any bytes as a picture that may have captions. What is checked stands in `bodies/`, free of the
//! fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/captions.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
