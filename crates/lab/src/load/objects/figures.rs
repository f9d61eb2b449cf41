//! What clients of objects have seen, and whether their bytes were right.

use crate::load::Spread;
use crate::load::tally::count_reason;
use std::collections::BTreeMap;

/// All that clients of objects have seen since it was reset.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    /// From the request to the body's first byte, nanoseconds.
    pub first_byte: Spread,
    /// From the time at which a chunk became available until its last byte was here, nanoseconds: chunks that became
    /// available after the request.
    pub chunk_delay: Spread,
    /// Chunks that came later than one step after they became available: a player without a reserve has stopped.
    pub stalls: u64,
    /// Bytes that are not those that the origin has.
    pub wrong_bytes: u64,
    /// Bytes of bodies.
    pub bytes: u64,
    /// Objects that came whole.
    pub objects: u64,
    /// Objects that were passed over, since the client was still busy with the one before.
    pub skipped: u64,
    /// Requests that failed, or were answered by another status than 200, and objects that ended too early.
    pub failures: u64,
    /// Why.
    pub reasons: BTreeMap<String, u64>,
}

impl Figures {
    pub(super) fn fail(&mut self, reason: &str) {
        self.failures += 1;
        count_reason(&mut self.reasons, reason, 1);
    }
}
