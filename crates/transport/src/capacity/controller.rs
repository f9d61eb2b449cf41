//! What decides how fast a link sends.

use glassline_media::quantity::ByteRate;
use std::time::Duration;

/// What decides how fast a link sends. All but the first are for comparisons and for paths on which a share is reserved
/// for the link: they do not share a path with other flows, and do not correct a delay or rate that was chosen wrongly.
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
