//! How patient and how persistent a pusher is.

use std::time::Duration;

/// How patient and how persistent a pusher is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// What is waited after a first failure, at most.
    pub retry_min: Duration,
    /// What is waited after many, at most. A connection that lasted for longer was a good one.
    pub retry_max: Duration,
    /// How long what was made may wait to be sent; then pictures are left out until it has gone.
    pub behind_after: Duration,
    /// How much may wait.
    pub pending_max_bytes: usize,
    /// How long a connection may be made, whatever number of addresses the name has, and again for the handshake of TLS.
    pub connect_timeout: Duration,
    /// How long a connection may take nothing at all, and how long the server's machine may acknowledge nothing of what was sent.
    pub blocked_max: Duration,
    /// How long the rest of an answer may take, and the answer to the end of the stream.
    pub answer_timeout: Duration,
    /// After a lost connection the server may hold our name for that long: "taken" (409) is then no final answer.
    pub name_held: Duration,
    /// How long after a loss servers that have said "not yet" (409, 503) are asked again without a growing pause, where there are
    /// several. A server that has lost its publisher without a word gives the name up within 5 s.
    pub eager_for: Duration,
    /// How often each of them is asked in that time.
    pub eager_pause: Duration,
    /// How long a server may think before it says whether it takes the stream (100, RFC 9110 §10.1.1), where there are several: one
    /// that does not know the question says nothing.
    pub consent_timeout: Duration,
}

impl Policy {
    /// For a live stream, which goes on without the server.
    pub const LIVE: Policy = Policy {
        retry_min: Duration::from_millis(500),
        retry_max: Duration::from_secs(5),
        behind_after: Duration::from_secs(1),
        pending_max_bytes: 8 << 20,
        connect_timeout: Duration::from_secs(5),
        blocked_max: Duration::from_secs(5),
        answer_timeout: Duration::from_secs(2),
        name_held: Duration::from_secs(15),
        eager_for: Duration::from_secs(6),
        eager_pause: Duration::from_millis(100),
        consent_timeout: Duration::from_millis(500),
    };
    /// For a file, which waits for the server.
    pub const FILE: Policy = Policy { blocked_max: Duration::from_secs(10), ..Policy::LIVE };

    /// The same where another server can take the stream: one that is silent is left sooner. A SYN that is lost is sent again after
    /// a second, and a line that comes back sends again within two.
    #[must_use]
    pub const fn of_several(self) -> Policy {
        Policy { connect_timeout: Duration::from_millis(1500), blocked_max: Duration::from_secs(2), ..self }
    }

    /// How long an attempt may take in all, the name's resolution with it, where another server can be asked.
    pub(super) fn attempt(&self, tls: bool) -> Duration {
        self.connect_timeout.saturating_mul(if tls { 2 } else { 1 })
    }
}
