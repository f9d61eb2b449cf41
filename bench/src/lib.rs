//! What the benches share. Each is a program of its own that starts the peers beside `glassline` in the same run,
//! prints a table for people and writes `target/bench/NAME.json`.
//!
//! Black box: nothing here calls the code that it measures; load, streams and checks are the lab's (`glassline-lab`).
//! Three exceptions: what VP8's candidates and sizes cost is asked of the codec, since no command line shows it; the
//! link's core runs in the same loop as its peers' (`bench-link`); and the bare loops beside which the receiver of raw video is
//! measured are made of `io`'s sockets and `media`'s kernels (`bench-rawvideo`).
#![forbid(unsafe_code)]

pub mod bd_rate;
mod earlier;
pub mod figures;
pub mod http;
pub mod machine;
pub mod metrics;
pub mod namespace;
pub mod process;
pub mod report;
