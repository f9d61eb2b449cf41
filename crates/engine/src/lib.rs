//! The engine: what runs. Threads that marry the pure cores to the operating system; nothing else does.
//!
//! * [`link`]: channels between peers over a bad network (`transport::link` + `io`).
//! * [`parallel`]: the threads of encoders (`codec` + `io`).
//! * [`relay`]: one stream to everyone, over HTTP (`delivery` + `io`).
#![forbid(unsafe_code)]

pub mod link;
pub mod parallel;
pub mod relay;
