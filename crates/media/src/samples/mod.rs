//! Samples of sound as they come from a source with a clock of its own, brought to a rate and a clock that are wanted.
//!
//! ```text
//! samples, when they arrived ─► SourceClock: which sample was captured when
//!                            └► Resampler, steered by it ─► AudioBlock with stamps on the capture clock    (Follower)
//! ```

mod clock;
mod follow;
mod resample;

pub use clock::SourceClock;
pub use follow::{Follower, Format};
pub use resample::Resampler;

/// Why sound cannot be resampled, in the resampler's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("cannot resample sound: {0}")]
pub struct ResampleError(String);
