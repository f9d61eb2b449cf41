//! A look at what a receiver gets, as it comes and before anything is made of it.

use glassline_media::Time;
use std::net::SocketAddr;

/// A message of a path, as the kernel gave it.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// Its first bytes: those of its first datagram's headers at least, where the datagram is as long as was expected.
    pub head: &'a [u8],
    /// All of its bytes.
    pub bytes: usize,
    /// When it came.
    pub at: Time,
    /// Datagrams that the socket had dropped before it, modulo 2³².
    pub drops: u32,
    /// Its source address.
    pub from: Option<SocketAddr>,
}

/// Sees each message. Of a flow that is not collected ([`FlowSettings::is_collected`]) that is each datagram.
///
/// The receiving thread calls it, so it must be quick and must not wait.
///
/// [`FlowSettings::is_collected`]: glassline_io::udp::flow::FlowSettings::is_collected
pub trait Tap: Send {
    /// A message has come by a path.
    fn see(&mut self, path: usize, message: &Message<'_>);
}
