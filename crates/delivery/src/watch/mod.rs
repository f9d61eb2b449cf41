//! Alarms on a stream: what a crew would see or hear if it looked all the time.
//!
//! ```text
//! bytes, program, access units ─┐
//! samples of sound ─────────────┼─► Watcher ─► Raised: an alarm has begun, or is over ─► AlarmEvent (JSON)
//! figures of pictures ──────────┘      └─► Wanted: which unit has to be decoded for it
//! ```
//! Nothing here decodes. The caller reads a stream, gives its units to the [`Watcher`], decodes those that it wants, and gives it
//! the samples, or of pictures the [`PictureFigures`] that a [`PictureMeter`] takes from luma. Durations are measured on the
//! stream's own time, so that a file that is read at once gives the alarms that it would give live; only that nothing arrives at
//! all is measured by the caller's clock.
//!
//! Each [`Alarm`] has a [`Rule`]: a limit, how long the limit has to be broken until the alarm begins, and how long it has to be
//! kept until the alarm is over. Both need two observations: a stream with a key frame every ten seconds is black for
//! two seconds only once a second picture shows it, and the watcher asks for that picture.

mod alarm;
mod arrivals;
mod av_sync;
mod blurred;
mod board;
mod captions;
mod event;
mod flicker;
mod latch;
mod loudness;
mod median;
mod picture;
mod pictures;
mod rules;
mod run_schedule;
mod sound;
mod timeline;
mod watcher;

pub use alarm::{Alarm, Source};
pub use event::{AlarmEvent, Raised, State};
pub use picture::{FiguresWanted, Luma, PictureFigures, PictureMeter};
pub use pictures::Decoding;
pub use rules::{Rule, Rules, RulesError};
pub use watcher::{Active, Saved, Wanted, Watcher};

#[cfg(test)]
mod watcher_tests;
