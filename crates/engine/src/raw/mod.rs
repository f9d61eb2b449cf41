//! Uncompressed video over RTP, running: RFC 4175 and ST 2110.
//!
//! * [`described`]: from a session description to what a receiver is told.
//! * [`receive`]: one stream, of one path or two, into pictures (`transport::raw_video` + `io::udp::flow`).
//! * [`record`]: these into a file.

pub mod described;
pub mod receive;
pub mod record;
#[cfg(test)]
mod testing;
