//! What a relay says of itself as a whole, at one moment.

use std::time::Duration;

/// What publishers of CMAF have put, and what of it was not taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IngestCounts {
    /// Publishers now.
    pub publishers: u64,
    /// Requests for headers and segments.
    pub requests: u64,
    /// Of these, refused.
    pub refused: u64,
    /// Manifests and playlists, which are not looked at.
    pub manifests: u64,
    /// Access units and samples, and tracks, that were taken or not.
    pub media: glassline_delivery::ingest::Counters,
}

/// The relay as a whole. Counts are since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Since the start.
    pub uptime: Duration,
    /// Connections now.
    pub connections: u64,
    /// Connections accepted.
    pub accepted: u64,
    /// Connections refused because there were too many.
    pub refused: u64,
    /// Of these, because too many from one address had not been answered.
    pub refused_unanswered: u64,
    /// Connections ended that rested between two requests, to make room for others.
    pub gave_way: u64,
    /// Requests.
    pub requests: u64,
    /// Requests answered with an error.
    pub errors: u64,
    /// Connections ended because a peer took too long.
    pub timed_out: u64,
    /// Of these, with a request's body that did not come.
    pub bodies_timed_out: u64,
    /// Streams that ended before their publishers' time to return was over, to make room for others.
    pub streams_displaced: u64,
    /// Bytes of streams that came faster than they could be packaged, and are in no segment.
    pub unpackaged_bytes: u64,
    /// What publishers of CMAF have put.
    pub ingest: IngestCounts,
    /// TLS handshakes that were completed.
    pub tls_handshakes: u64,
    /// Connections to listeners for TLS that ended without one.
    pub tls_failed: u64,
    /// Connections now that have their TLS done by a process that was replaced.
    pub tls_apart: u64,
    /// Viewers' connections that have a mark of their own now.
    pub marks_in_use: usize,
    /// Viewers' connections that found no mark of their own left.
    pub marks_exhausted: u64,
}
