//! Links between two peers over a bad network as they run, and the direct video, sound, data and transport streams on them.
//!
//! * [`link`]: the socket loop of `transport::link`, its handles, and sessions that come back after a link was lost.
//! * [`contribution`]: MPEG-TS over a link, from an encoder or a server to another server.
//! * [`mod@direct`]: services on a link: a sender with its source, a receiver with its display.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

pub mod contribution;
pub mod direct;
pub mod link;
