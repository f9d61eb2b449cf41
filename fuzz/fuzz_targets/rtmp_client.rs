//! RTMP from a server that means harm. What is checked stands in `bodies/`, free of the fuzzer, so that tests can run it too.
#![no_main]

#[path = "../bodies/rtmp_client.rs"]
mod body;

libfuzzer_sys::fuzz_target!(|data: &[u8]| body::run(data));
