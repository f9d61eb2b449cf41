//! Any bytes as a line of MAVLink. What is checked stands in `bodies/`, free of the fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/mavlink.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
