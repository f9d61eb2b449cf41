//! Uncompressed video over RTP, running: RFC 4175 and ST 2110.
//!
//! * [`receive`]: one stream, of one path or two, into pictures (`transport::raw_video` + `io::udp::flow`).

pub mod receive;
