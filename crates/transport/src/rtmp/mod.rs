//! RTMP (Adobe RTMP 1.0; Enhanced RTMP v2), as publishers speak it.
//!
//! ```text
//! bytes ─► server::ServerSession ─► Event: publish, metadata, media (bodies of FLV tags)
//!              handshake ─► chunk ─► message ─► amf0
//! ```
//! The bodies of tags are taken apart by [`flv::demux::Tags`](glassline_media::container::flv::demux::Tags). Playing is not
//! offered.

pub mod amf0;
pub mod chunk;
pub mod handshake;
mod message;
pub mod metadata;
pub mod server;

pub use metadata::Metadata;
pub use server::{Event, Media, Publish, Refusal, ServerSession, SessionError};
