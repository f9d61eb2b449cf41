//! The socket between an old process and the one that takes its place. What is checked stands in `bodies/`, free of the fuzzer, so that tests can run
//! it too.
#![no_main]

#[path = "../bodies/meeting.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
