//! What the benches share. Each is a program of its own that starts the peers beside `glassline` in the same run,
//! prints a table for people and writes `target/bench/NAME.json`.
//!
//! Black box: nothing here calls the code that it measures; load, streams and checks are the lab's (`glassline-lab`).
//! Two exceptions: what VP8's candidates and sizes cost is asked of the codec, since no command line shows it; and the
//! link's core runs in the same loop as its peers' (`bench-link`).
#![forbid(unsafe_code)]

pub mod bd_rate;
mod earlier;
pub mod figures;
pub mod http;
pub mod machine;
pub mod process;
pub mod report;
