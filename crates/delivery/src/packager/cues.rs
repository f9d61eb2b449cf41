//! Key frames of pictures that no rendition is made of: where segments of the sound beside them are cut, so that those of MPEG-TS,
//! in which the pictures are, begin at one.

use super::start::{Arrived, VIDEO_WAIT};
use glassline_media::bitstream::h264::find_start_code;
use glassline_media::{AccessUnit, Codec, Ticks};
use std::collections::VecDeque;

/// Key frames that are remembered until the sound reaches them.
const CUES_MAX: usize = 64;
/// Frames of sound that wait for a key frame at most, whatever their stamps say.
const EARLY_MAX: usize = 1000;
/// What begins a sequence, and a picture (13818-2 table 6-1).
const SEQUENCE_HEADER: u8 = 0xb3;
const PICTURE: u8 = 0x00;

/// A key frame: when it is presented, and where it begins in the source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cue {
    pub(super) pts: Ticks,
    pub(super) at: u64,
}

/// Key frames that the sound has not reached, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Cues {
    waiting: VecDeque<Cue>,
    /// There were some.
    has_begun: bool,
    /// Sound that waits for the first one.
    early: VecDeque<Arrived>,
}

impl Cues {
    pub(super) fn push(&mut self, cue: Cue) {
        if self.waiting.len() == CUES_MAX {
            self.waiting.pop_front();
        }
        self.waiting.push_back(cue);
        self.has_begun = true;
    }

    /// Whether there have been any.
    pub(super) fn has_begun(&self) -> bool {
        self.has_begun
    }

    /// Takes sound with which an epoch would begin. Returns what it begins with once there is a key frame: what is in front of that
    /// is left out. Where none comes for long it begins without.
    pub(super) fn hold(&mut self, arrived: Arrived) -> Option<VecDeque<Arrived>> {
        let pts = arrived.unit.pts;
        let since = self.early.front().map_or(pts, |first| first.unit.pts);
        self.early.push_back(arrived);
        let first = self.waiting.front().map(|first| first.pts);
        let is_early = first.map_or(!self.has_begun, |first| pts < first);
        if is_early && (0..VIDEO_WAIT).contains(&(pts - since).0) && self.early.len() < EARLY_MAX {
            return None;
        }
        let mut ready = std::mem::take(&mut self.early);
        if let Some(first) = first.filter(|_| !is_early) {
            ready.retain(|held| held.unit.pts >= first);
        }
        Some(ready)
    }

    /// The newest key frame that sound of this time has reached; those before it are forgotten.
    pub(super) fn reached(&mut self, pts: Ticks) -> Option<Cue> {
        let mut reached = None;
        while self.waiting.front().is_some_and(|cue| cue.pts <= pts) {
            reached = self.waiting.pop_front();
        }
        reached
    }

    /// The same with times that are later by so many ticks.
    pub(super) fn moved(mut self, ticks: i64) -> Cues {
        self.waiting.iter_mut().for_each(|cue| cue.pts = cue.pts + Ticks(ticks));
        self
    }
}

/// Whether decoding can begin at a picture of MPEG-2: a sequence header stands in front of it.
pub(super) fn begins_sequence(unit: &AccessUnit) -> bool {
    let mut from = 0;
    while unit.codec == Codec::Mpeg2Video
        && let Some(at) = find_start_code(&unit.data, from)
    {
        from = at + 3;
        match unit.data.get(from) {
            Some(&SEQUENCE_HEADER) => return true,
            Some(&PICTURE) | None => return false,
            Some(_) => {}
        }
    }
    false
}
