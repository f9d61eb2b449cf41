//! Figures of a link and of its paths.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::counter::count;
use crate::link::{Ecn, Path};
use glassline_media::quantity::ByteRate;
use std::time::Duration;

/// Counts and measures of a link.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkStatistics {
    /// Datagrams sent, since the link was first up.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Datagrams received and authenticated.
    pub received_packets: u64,
    /// Their bytes.
    pub received_bytes: u64,
    /// Datagrams deemed lost on their way to the peer, which have not come since.
    pub lost_packets: u64,
    /// Datagrams that were deemed lost and came late: others had overtaken them.
    pub late_packets: u64,
    /// Datagrams to this link that were forged or replayed, or that came twice.
    pub refused_packets: u64,
    /// Handshakes finished.
    pub sessions: u64,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The least round trip.
    pub least_rtt: Duration,
    /// How long our packets wait in queues on their way.
    pub queue_delay: Duration,
    /// What the path to the peer carries as far as is known.
    pub bandwidth: ByteRate,
    /// The rate at which we send at most.
    pub pacing_rate: ByteRate,
    /// Bytes that may be under way.
    pub window_bytes: u64,
    /// The largest datagram that the path is known to carry, bytes.
    pub datagram_bytes: u16,
    /// Bytes under way.
    pub in_flight_bytes: u64,
    /// The share of our packets that are lost, smoothed.
    pub loss: f64,
    /// The peer's estimate of how long 1000 of our bytes take to arrive (Salsify's τ).
    pub arrival_per_kilobyte: Option<Duration>,
    /// Our datagrams that came to the peer with the mark of congestion.
    pub congested_packets: u64,
    /// What our datagrams are marked with: [`Settings::ecn`], or nothing where marks do not arrive.
    pub mark: Ecn,
    /// Whether the rate is found in competition with other flows that fill the queue, not by delay.
    pub competitive: bool,
}

impl LinkStatistics {
    /// So many datagrams leave, with so many bytes together.
    #[inline]
    pub(super) fn handle_sent(&mut self, packets: usize, bytes: usize) {
        count(&mut self.sent_packets, packets as u64);
        count(&mut self.sent_bytes, bytes as u64);
    }
}

/// Measures of one path of a link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PathStatistics {
    /// Where it leads.
    pub path: Path,
    /// Which of the link's paths it is, from 0 on.
    pub number: u8,
    /// Whether messages go over it now.
    pub carries: bool,
    /// Whether it does not answer.
    pub silent: bool,
    /// The smoothed round trip.
    pub rtt: Duration,
    /// The share of our packets that are lost, smoothed.
    pub loss: f64,
    /// What the path carries as far as is known.
    pub bandwidth: ByteRate,
    /// How long our packets wait in queues on it.
    pub queue_delay: Duration,
    /// Bytes of the datagrams that have left by it, since its handshake.
    pub sent_bytes: u64,
    /// It is used only while the others carry too little.
    pub spare: bool,
    /// How much longer our packets are under way than on the quickest path, as far as is known.
    pub behind: Duration,
    /// The largest datagram that it is known to carry, bytes.
    pub datagram_bytes: u16,
}
