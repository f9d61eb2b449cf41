//! What a worker can afford for each of its viewers.

/// Bytes of a worker's round of viewers that are behind: a tenth of a second of a core. A connection that got nothing
/// for 200 ms counts as idle and begins with ten segments again (RFC 5681 §4.1), so that sends cost more the later they
/// come.
const ROUND_BYTES: u64 = 300 << 20;
/// A packet at least: a little less than the shortest that leaves as one, so that it is not two. Four in a row cost little
/// more than half of what four alone do; more change little.
const TURN_BYTES: [u64; 2] = [56 << 10, 240 << 10];

/// What a worker can afford for each of its viewers.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Allowance {
    /// Whether there is processor time for pacing.
    pub(crate) pacing: bool,
    /// Bytes of the stream in one turn, but for the rest of a packet. A viewer that is behind would otherwise get as
    /// much as its socket and the peer's hold, and the kernel gives more room to connections that got more: on a worker
    /// that cannot serve all its viewers some would starve.
    pub(crate) turn_bytes: u64,
}

impl Allowance {
    /// For a worker that serves so many connections.
    pub(crate) fn new(pacing: bool, connections: usize) -> Allowance {
        let [least, most] = TURN_BYTES;
        Allowance { pacing, turn_bytes: (ROUND_BYTES / (connections.max(1) as u64)).clamp(least, most) }
    }
}
