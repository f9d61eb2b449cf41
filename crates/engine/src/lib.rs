//! The engine: what runs. Threads that marry the pure cores to the operating system; nothing else does.
//!
//! * [`capture`], [`encode`], [`output`]: pictures and sound, the encoder that runs, where its streams go.
//! * [`direct`]: video that fits the network frame by frame, on a link (`direct` + `link`).
//! * [`edge`]: objects that are served while they fill (`delivery::fill`).
//! * [`link`]: channels between peers over a bad network (`transport::link` + `io`).
//! * [`parallel`]: the threads of encoders (`codec` + `io`).
//! * [`raw`]: uncompressed video over RTP (`transport::raw_video` + `io`).
//! * [`relay`]: one stream to everyone, over HTTP (`delivery` + `io`).
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod capture;
mod datagrams;
pub mod direct;
pub mod edge;
pub mod encode;
pub mod http;
pub mod link;
pub mod output;
pub mod parallel;
pub mod raw;
pub mod relay;
mod wav_writer;
