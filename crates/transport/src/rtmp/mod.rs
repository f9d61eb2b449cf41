//! RTMP (Adobe RTMP 1.0; Enhanced RTMP v2), as publishers and the servers that they publish to speak it.
//!
//! ```text
//! bytes ─► server::ServerSession ─► Event: publish, metadata, media (bodies of FLV tags)
//!              handshake ─► chunk ─► message ─► amf0
//! bodies of FLV tags ─► client::ClientSession ─► bytes: one stream is published at an Address
//! ```
//! The bodies of tags are made by [`flv::mux`](glassline_media::container::flv::mux) and taken apart by [`flv::demux::Tags`](glassline_media::container::flv::demux::Tags). Playing is not
//! offered.

mod address;
pub mod amf0;
pub mod chunk;
pub mod client;
pub mod handshake;
mod message;
pub mod metadata;
mod sent;
pub mod server;

pub use address::Address;
pub use client::{ClientError, ClientEvent, ClientSession};
pub use metadata::Metadata;
pub use server::{Event, Media, Publish, Refusal, ServerSession, SessionError};
