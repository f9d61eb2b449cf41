//! The engine: what runs. Threads that marry the pure cores to the operating system; nothing else does.
//!
//! * [`relay`]: one stream to everyone, over HTTP (`delivery` + `io`).
#![forbid(unsafe_code)]

pub mod relay;
