//! Ways in and out of the streams of a server, a module for each: each knows [streams](glassline_streams) and no other way.
//!
//! ```text
//! pull   ─ a thread that fetches streams from where they are (HTTP, UDP, RTP, RTSP) ─► Streams::publish
//! output ─ a thread that sends streams in datagrams (UDP, RTP) ◄─ StreamReader
//! forward ─ threads that publish streams to services over RTMP ◄─ Subscription
//! entrance ─ how a door lets publishers and viewers in: rules, limits, the publisher slot, the place of a viewer
//! srt ─ a listener for SRT, and connections by SRT as sources and outputs
//! rtmp   ─ a thread that takes publishers of RTMP and RTMPS ─► entrance
//! rtsp   ─ a thread that programs publish to and play from over RTSP ◄─► entrance
//! slate  ─ a thread that plays what is shown while publishers are away ─► Live::play_slate
//! webhook ─ threads that tell receivers of events, by POST
//! wire   ─ a socket with or without TLS, as a connection reads and writes it; `outgoing` waits for room in it
//! tls_ends ─ TLS of connections that the next process serves
//! ```
//! What a thread asks of the server that it belongs to stands in traits ([`Server`], [`pull::Sources`],
//! [`output::Destinations`]). A further protocol becomes a further module here.
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod arrival;
mod crowd;
pub mod entrance;
pub mod forward;
mod log_throttle;
pub mod outgoing;
pub mod output;
pub mod pull;
pub mod rtmp;
mod rtp_ports;
pub mod rtsp;
pub mod slate;
pub mod srt;
#[cfg(test)]
mod testing;
#[cfg(test)]
mod testing_tls;
pub mod tls_ends;
mod tracks;
pub mod webhook;
pub mod wire;

use glassline_io::clock::Clock;
use glassline_streams::Streams;
use std::sync::Arc;
use std::time::Duration;

/// The server that a thread belongs to.
pub trait Server: Send + Sync {
    /// Its streams.
    fn streams(&self) -> &Arc<Streams>;

    /// Whether its threads go on. Where they do not they are woken, return, and may be started again.
    fn is_running(&self) -> bool;

    /// Rests for so long after a panic, or until the thread has to return.
    fn rest(&self, pause: Duration);

    /// The clock that everything is stamped with.
    fn clock(&self) -> Clock {
        self.streams().clock()
    }
}
