//! Any bytes as a cue of SCTE 35. What is checked stands in `bodies/`, free of the fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/scte35.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
