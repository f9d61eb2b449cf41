//! Channels: each direction of each has its own trade of bandwidth, delay and reliability.
//!
//! * `send`: messages wait, begin, are cut into fragments, resent, cancelled.
//! * `compression`, `fec`: what makes messages smaller, or their loss harmless.
//! * `receive`: fragments become messages again, in order or not, each once; `spares`: the memory that they stand in.

pub(crate) mod compression;
pub(crate) mod fec;
pub(crate) mod receive;
pub(crate) mod send;
mod spares;
