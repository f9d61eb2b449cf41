//! The log of the spool of recordings, as a start reads it. What is checked stands in `bodies/`, free of the fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/archive_log.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
