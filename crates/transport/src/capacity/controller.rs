//! What decides how fast a link sends.

use glassline_media::quantity::ByteRate;
use std::time::Duration;

/// What decides how fast a link sends. All but the first are for comparisons and for paths that somebody else has divided:
/// they share no path with others, and mend no mistake of whoever chose them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Controller {
    /// The queue on the way is held short, and a share among those who fill it ([`super::Capacity`]).
    #[default]
    Adaptive,
    /// Salsify's (NSDI 2018 §4): under way is what arrives within a time by the receiver's estimate of how fast packets come
    /// (τ); whole pictures leave five times as fast, and pauses between them are the application's.
    Salsify {
        /// Within which what is under way is to arrive (the paper: 100 ms).
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
