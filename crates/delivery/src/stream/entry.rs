//! Places where a viewer can enter a stream, and what a decoder needs in front of the bytes there.

use glassline_media::container::ts::EntryPoint;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// A place where a viewer can begin.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Entry {
    /// Offset of the first byte to send.
    pub offset: u64,
    pub(super) point: Point,
}

/// What a decoder needs first.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Point {
    /// PAT and PMT, and what else stands in front of an access unit.
    Packets(EntryPoint),
    /// Many have the same, which processes tell each other once: see [`super::Stream::restored`].
    Header(#[serde(skip)] Arc<[u8]>),
}

impl Entry {
    /// What to send in front of the file's bytes: PAT and PMT, or the mux's header. For a viewer that is `moved` from
    /// another place of the same stream also packets that announce the discontinuity on each PID; such a one has the
    /// header already.
    pub fn prelude(&self, moved: bool) -> Vec<u8> {
        match &self.point {
            Point::Packets(point) => point.prelude(moved),
            Point::Header(_) if moved => Vec::new(),
            Point::Header(header) => header.to_vec(),
        }
    }
}
