//! What viewers of segmented video have seen: sums and distributions that several processes' add up.

use crate::load::Spread;
use crate::load::tally::count_reason;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// All that viewers have seen. Times are nanoseconds.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct LiveTally {
    /// Viewers that have begun.
    pub begun: u64,
    /// Viewers that have got a chunk of media.
    pub playing: u64,
    /// From a viewer's begin, its connections' and playlists' included, to its first whole chunk of media.
    pub join: Spread,
    /// From a request to its answer's first byte: of what is there already, and of segments that grow; not of answers that
    /// wait for what is due (blocking reloads and hinted parts).
    pub first_byte: Spread,
    /// From a chunk's capture to its last byte here: chunks that were captured after the viewer had begun.
    pub chunk_delay: Spread,
    /// Of each viewer: the mean of its chunks' delays.
    pub viewer_mean: Spread,
    /// Of each viewer: its longest.
    pub viewer_worst: Spread,
    /// Chunks that came later than what is presented then.
    pub stalls: u64,
    /// Viewers with at least one.
    pub stalled_viewers: u64,
    /// Chunks, and those of them that say nothing of their capture.
    pub chunks: u64,
    /// See `chunks`.
    pub unstamped: u64,
    /// Chunks from the future, or of hours ago: another machine's clock.
    pub foreign: u64,
    /// Answers that were asked for.
    pub requests: u64,
    /// Answers with a status of 300 and more, but for `hints_unmet`.
    pub http_errors: u64,
    /// Hinted parts that were answered 404: the segment ended before them.
    pub hints_unmet: u64,
    /// Connections that failed, and requests without an answer in time.
    pub lost: u64,
    /// Playlists and media that are none.
    pub malformed: u64,
    /// What failed, and how often.
    pub reasons: BTreeMap<String, u64>,
    /// Bytes of bodies.
    pub bytes: u64,
    /// How long figures were gathered.
    pub seconds: f64,
    /// Processor time of the load's thread, in seconds.
    pub cpu_seconds: f64,
    /// How long that was; of several processes the sum.
    pub run_seconds: f64,
}

impl LiveTally {
    pub(super) fn fail(&mut self, reason: &str) {
        count_reason(&mut self.reasons, reason, 1);
    }

    /// All that went wrong.
    pub fn failures(&self) -> u64 {
        self.http_errors + self.lost + self.malformed
    }

    /// Adds what another process has seen at the same time.
    pub fn merge(&mut self, other: &LiveTally) {
        for (own, others) in [
            (&mut self.join, &other.join),
            (&mut self.first_byte, &other.first_byte),
            (&mut self.chunk_delay, &other.chunk_delay),
            (&mut self.viewer_mean, &other.viewer_mean),
            (&mut self.viewer_worst, &other.viewer_worst),
        ] {
            own.merge(others);
        }
        for (own, others) in [
            (&mut self.begun, other.begun),
            (&mut self.playing, other.playing),
            (&mut self.stalls, other.stalls),
            (&mut self.stalled_viewers, other.stalled_viewers),
            (&mut self.chunks, other.chunks),
            (&mut self.unstamped, other.unstamped),
            (&mut self.foreign, other.foreign),
            (&mut self.requests, other.requests),
            (&mut self.http_errors, other.http_errors),
            (&mut self.hints_unmet, other.hints_unmet),
            (&mut self.lost, other.lost),
            (&mut self.malformed, other.malformed),
            (&mut self.bytes, other.bytes),
        ] {
            *own += others;
        }
        for (reason, count) in &other.reasons {
            count_reason(&mut self.reasons, reason, *count);
        }
        self.seconds = self.seconds.max(other.seconds);
        self.cpu_seconds += other.cpu_seconds;
        self.run_seconds += other.run_seconds;
    }
}
