//! What was measured in one direction.

use super::burst::BurstRecord;
use super::mtu::MtuSearch;

/// All that was measured in one direction.
#[derive(Clone, Debug)]
pub struct DirectionRecord {
    /// What IP and UDP add to each payload, bytes.
    pub header_bytes: u64,
    /// Small packets far apart: the path without load.
    pub idle: Option<BurstRecord>,
    pub(super) mtu: MtuSearch,
    /// The bursts, in the order in which they were sent.
    pub bursts: Vec<BurstRecord>,
    /// Datagrams that the receiving socket had no room for.
    pub socket_dropped: u32,
    /// Why no further burst was sent before a queue was found; `None` where all were.
    pub stopped: Option<String>,
}

impl DirectionRecord {
    pub(super) fn new(header_bytes: u64) -> DirectionRecord {
        DirectionRecord {
            header_bytes,
            idle: None,
            mtu: MtuSearch::new(header_bytes),
            bursts: Vec::new(),
            socket_dropped: 0,
            stopped: None,
        }
    }

    /// Whether anything has arrived.
    pub fn is_empty(&self) -> bool {
        self.idle.iter().chain(&self.bursts).all(|train| train.arrivals.is_empty())
    }
}
