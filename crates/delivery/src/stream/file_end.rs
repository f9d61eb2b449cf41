//! What an intake works on: the end of the file, to which it appends a publisher's bytes; what it counts; why it refuses bytes.
//! The intake of MPEG-TS is [`super::ts`], that of all other muxes [`super::carried`].

use super::flush::Burst;
use super::mux::Mux;
use super::past::Past;
use glassline_media::Time;
use glassline_media::container::split;
use serde::{Deserialize, Serialize};
use std::time::Duration;
use thiserror::Error;

/// A stream that shows no key frame for this long is entered at any start of a unit: better a picture that
/// needs a moment to become whole than none.
pub(super) const KEY_FRAME_TIMEOUT: Duration = Duration::from_secs(12);

/// The end of the file, as an intake sees it.
pub(super) struct FileEnd<'a> {
    /// Its offset.
    pub(super) head: &'a mut u64,
    /// Entries, and when which offset was reached.
    pub(super) past: &'a mut Past,
    /// What the appended bytes were, for the flush policy.
    pub(super) burst: Burst,
    /// The time of the push.
    pub(super) now: Time,
    /// When what is pushed came, where it was held back since.
    pub(super) held_since: Option<Time>,
    /// Appends to the file; [`FileEnd::head`] is moved by the caller.
    pub(super) append: &'a mut dyn FnMut(&[u8]),
}

/// What the bytes so far were worth.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Bytes that the publishers sent.
    pub bytes_in: u64,
    /// Bytes that belonged to no packet and were dropped.
    pub garbage_bytes: u64,
    /// Packets missing or doubled, by their continuity counters.
    pub continuity_errors: u64,
    /// Publishers that have come.
    pub sessions: u64,
}

/// Why a publisher's bytes are refused.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum StreamError {
    /// No packet in the first bytes, or none any more.
    #[error("found no MPEG-TS packets in {bytes} bytes")]
    NotMpegTs {
        /// Bytes looked at.
        bytes: u64,
    },
    /// Not the mux that was announced, or not what can be carried of it.
    #[error("no sound {mux}: {error}")]
    Carried {
        /// What was announced.
        mux: Mux,
        /// What is wrong.
        error: split::Error,
    },
    /// Of a mux that is not known, bytes that are in no block.
    #[error("bytes in no Metacube block")]
    NoBlock,
}
