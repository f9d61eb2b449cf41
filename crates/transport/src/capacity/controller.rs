//! What decides how fast a link sends.

use glassline_media::quantity::ByteRate;
use std::time::Duration;

/// What decides how fast a link sends. All but the first are for comparisons, and Salsify's and a fixed rate for paths on which
/// a share is reserved for the link: those two do not share a path with other flows, and do not correct a delay or rate that was
/// chosen wrongly. The last three are published controllers for real-time video, each with what its file below
/// `capacity::rivals` says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    /// Holds the path's queue short, and a share of the path among flows that fill the queue ([`super::Capacity`]).
    #[default]
    Adaptive,
    /// Salsify's (NSDI 2018 §4): under way is what arrives within a time by the receiver's estimate of how fast packets come
    /// (τ); whole pictures leave five times as fast, and pauses between them are the application's.
    Salsify {
        /// The time within which what is in flight should arrive (the paper: 100 ms).
        delay: Duration,
        /// Whether the receiver is told of pauses of the application's (grace periods). Without that, each pause makes the path
        /// look slower.
        grace_periods: bool,
    },
    /// This rate, whatever happens to what is sent.
    Fixed(ByteRate),
    /// Google Congestion Control (draft-ietf-rmcat-gcc-02): the rate falls while the delay grows, and rises by 8 % a second.
    Gcc,
    /// SCReAM v2 (draft-johansson-ccwg-rfc8298bis-screamv2): a window that the queue's delay, losses and marks lower.
    Scream,
    /// Network Delivery Time Control (draft-ageneau-ccwg-ndtc): frames leave over dithered times, and over what time they come
    /// tells what the path has left, of which they take 60 %.
    Dither,
}

impl Controller {
    /// With the paper's figures.
    pub const SALSIFY: Controller =
        Controller::Salsify { delay: Duration::from_millis(100), grace_periods: true };

    /// Whether the receiver is told of pauses.
    pub(crate) fn tells_pauses(self) -> bool {
        !matches!(self, Controller::Salsify { grace_periods: false, .. })
    }
}
