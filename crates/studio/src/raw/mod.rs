//! Uncompressed video over RTP, running: RFC 4175 and ST 2110.
//!
//! * [`described`]: from a session description to what a receiver is told.
//! * [`receive`]: one stream, of one path or two, into pictures (`transport::raw_video` + `io::udp::flow`).
//! * [`look`]: what is in the flows of a description, and how they come.
//! * [`record`]: these into a file.
//! * [`send`]: pictures into a stream, at their time (`transport::raw_video` + `io::udp::burst`).

pub(crate) mod datagrams;
pub mod described;
pub mod look;
pub mod receive;
pub mod record;
pub mod send;
#[cfg(test)]
mod testing;
