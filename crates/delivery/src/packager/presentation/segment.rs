//! A segment and what is in it.

use glassline_media::Utc;
use std::ops::Range;
use std::time::Duration;

/// Key frames of a segment that are remembered, for the playlist of key frames; what comes after is left out of it.
const KEY_FRAMES_MAX: usize = 64;

/// A segment. Times are in ticks of its track, [`Segment::timescale`] a second.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Its number. Segments of different renditions with the same number are of the same time.
    pub number: u64,
    /// The epoch that it is in: one more than that of the segment before it is a discontinuity.
    pub epoch: u32,
    /// Ticks a second.
    pub timescale: u32,
    /// When it is presented, since the epoch's zero.
    pub start: u64,
    /// How long; until it is complete, as long as what has come of it.
    pub duration: u64,
    /// When what is at its start was captured, or, where the stream does not tell, when it came in.
    pub program_date_time: Utc,
    /// That time is one of capture, by what the stream says.
    pub captured: bool,
    /// It begins with a key frame or a recovery point. Sound always does.
    pub independent: bool,
    /// Nothing came in its time: it has no bytes and is only listed.
    pub gap: bool,
    /// Nothing more is added.
    pub complete: bool,
    /// The part of the source that it was made of, for what is made of the same bytes: of the rendition that segments are cut
    /// by, once it is complete.
    pub source: Option<Range<u64>>,
    /// Its complete parts. A part that has begun is [`Segment::open_part`].
    pub parts: Vec<Part>,
    /// The part that has begun and is not complete.
    pub open_part: Option<Part>,
    /// Its bytes so far.
    pub size_bytes: u64,
    /// Where its key frames are, the first 64 of them; of sound none.
    pub key_frames: Vec<KeyFrame>,
    /// How many key frames were remembered in all segments before it.
    pub first_key_frame: u64,
}

/// A part of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// How long it lasts, in ticks of the track.
    pub duration: u64,
    /// It begins with a key frame or a recovery point. Sound always does.
    pub independent: bool,
    /// Where it begins in its segment.
    pub offset_bytes: u64,
    /// How many bytes it has so far.
    pub size_bytes: u64,
}

/// A key frame of a segment: a chunk of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyFrame {
    /// When, in ticks of the track since the segment's start.
    pub time: u64,
    /// Where its chunk begins in the segment.
    pub offset_bytes: u64,
    /// How many bytes the chunk has.
    pub size_bytes: u64,
}

impl Segment {
    /// How long it lasts.
    pub fn duration_time(&self) -> Duration {
        duration_of(self.duration, self.timescale)
    }

    /// When it is presented, since the epoch's zero.
    pub fn start_time(&self) -> Duration {
        duration_of(self.start, self.timescale)
    }

    /// When it ends, in ticks since the epoch's zero.
    pub fn end(&self) -> u64 {
        self.start.saturating_add(self.duration)
    }

    /// When its end was captured, or came in.
    pub fn end_date_time(&self) -> Utc {
        later(self.program_date_time, self.duration_time())
    }

    /// How long a part of it lasts.
    pub fn part_time(&self, part: &Part) -> Duration {
        duration_of(part.duration, self.timescale)
    }

    /// Remembers a key frame, if there is room; returns whether there was.
    pub(in crate::packager) fn add_key_frame(&mut self, key_frame: KeyFrame) -> bool {
        let has_room = self.key_frames.len() < KEY_FRAMES_MAX;
        if has_room {
            self.key_frames.push(key_frame);
        }
        has_room
    }
}

/// `ticks` of which `timescale` make a second, rounded down to the nanosecond.
pub(crate) fn duration_of(ticks: u64, timescale: u32) -> Duration {
    let timescale = u64::from(timescale.max(1));
    let nanos = (ticks % timescale) * 1_000_000_000 / timescale;
    Duration::new(ticks / timescale, nanos as u32)
}

/// `duration` in ticks of which `timescale` make a second, to the nearest.
pub(crate) fn ticks_of(duration: Duration, timescale: u32) -> u64 {
    let ticks = (duration.as_nanos() * u128::from(timescale) + 500_000_000) / 1_000_000_000;
    u64::try_from(ticks).unwrap_or(u64::MAX)
}

/// The time `duration` after `utc`.
#[must_use]
pub fn later(utc: Utc, duration: Duration) -> Utc {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    Utc::from_nanos(utc.as_nanos().saturating_add(nanos))
}
