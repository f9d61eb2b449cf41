//! A network measured before it carries anything: what passes of bursts of packets, in both directions.
//!
//! A [`Caller`] and a [`Listener`] share a key. The caller decides: it sends bursts itself and asks the listener to send others.
//! Each packet carries the time at which it was sent, and its receiver takes down when it arrived. From this [`analysis`] infers
//! the rate of the bottleneck, the length of the queue before it, and what is lost without load.
//!
//! ```text
//! caller                                   listener
//!   Hello ────────────────────────────────►          160 bytes, keyed
//!         ◄──────────────────────────────── Challenge 85 bytes: a token for this address
//!   Start ────────────────────────────────►          the token, the caller's bounds
//!         ◄──────────────────────────────── Accept    the lower bound of both
//!   Packet × n ───────────────────────────►          a train upwards
//!   Fetch ────────────────────────────────►
//!         ◄──────────────────────────────── Report × n: which packets arrived when
//!   Ask ──────────────────────────────────►
//!         ◄──────────────────────────────── Packet × n: a train downwards
//!   Ask ──────────────────────────────────►
//!         ◄──────────────────────────────── Sent      how it was sent
//!   Bye ──────────────────────────────────►
//! ```
//!
//! All of this is pure: datagrams and `now` come in, datagrams and deadlines go out. [`crate::path_socket`] runs it on sockets.

pub mod analysis;
mod bound;
mod burst;
mod caller;
mod direction;
mod listener;
mod mtu;
mod plan;
mod report;
mod step;
mod train;
pub mod wire;

pub use bound::RateBound;
pub use burst::BurstRecord;
pub use caller::{Caller, CallerSettings, Failure};
pub use direction::DirectionRecord;
pub use listener::{Listener, ListenerEvent, ListenerSettings};
pub use plan::volume_bound;
pub use report::{Direction, PathReport, Reasons, Recommendation};
pub use train::{Arrival, Sent, TrainSpec};

use glassline_media::Time;
use std::net::SocketAddr;
use std::time::Duration;

/// Payload of a packet of a burst, bytes.
pub const PACKET_BYTES: u16 = 1200;
/// The smallest packet of a train: header, fields and tag of its message, bytes of payload.
pub const MIN_PACKET_BYTES: u16 = 45;
/// The largest payload: that of an Ethernet of 9,000 bytes.
pub const MAX_PACKET_BYTES: u16 = 8972;
/// The largest burst, packets.
pub const MAX_BURST: u16 = 1500;
/// The speed within a burst, bits of IP packets a second: the sender's own device and the queue before it are not filled
/// (a device of 1 Gbit/s takes packets this fast), and lines up to some three quarters of it can be measured.
pub const BURST_BPS: u64 = 1_000_000_000;

/// Datagrams to be sent at once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Where to.
    pub to: SocketAddr,
    /// The datagrams, end to end.
    pub bytes: Vec<u8>,
    /// The size of each datagram but the last.
    pub segment_bytes: usize,
    /// Whether these are packets of a train: the caller of the state machine reports what did not leave by `handle_refused`.
    pub is_train: bool,
}

/// What IP and UDP add to each payload, bytes (RFC 791, RFC 8200, RFC 768). An address of IPv4 within IPv6 is IPv4 on the wire.
pub fn header_bytes(address: SocketAddr) -> u64 {
    if address.ip().to_canonical().is_ipv4() { 28 } else { 48 }
}

/// Nanoseconds of a duration; those of 584 years for a longer one.
pub(crate) fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The earlier of two deadlines.
pub(crate) fn earlier(one: Option<Time>, other: Option<Time>) -> Option<Time> {
    [one, other].into_iter().flatten().min()
}

#[cfg(test)]
#[path = "simulation_tests.rs"]
mod simulation;

/// A report of an emulated line, for tests of what shows it.
#[cfg(test)]
pub(crate) use simulation::example as analysis_example;
