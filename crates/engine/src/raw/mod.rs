//! Uncompressed video over RTP (RFC 4175, ST 2110-20): threads around `transport::raw_video`.

pub mod send;
