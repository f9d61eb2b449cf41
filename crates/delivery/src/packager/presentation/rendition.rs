//! One rendition: what it is, and the segments of it that are kept.

use super::super::RenditionName;
use super::segment::{Part, Segment, duration_of};
use glassline_media::bitstream::h264::ColourDescription;
use glassline_media::bitstream::hdr::Range;
use glassline_media::time::FrameRate;
use std::collections::VecDeque;
use std::time::Duration;

/// What a rendition is in one epoch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrackInfo {
    /// The epoch, and the number of its CMAF header.
    pub epoch: u32,
    /// The codec as RFC 6381 has it: `avc1.64001F`, `mp4a.40.2`, `opus`.
    pub codec: String,
    /// Ticks a second of its times.
    pub timescale: u32,
    /// What is in it.
    pub kind: Kind,
    /// How long a picture or a frame of sound lasts, in ticks.
    pub sample_ticks: u32,
    /// How long a chunk lasts at most, in ticks.
    pub chunk_ticks: u32,
    /// How long a part lasts at most, in ticks: `PART-TARGET`.
    pub part_ticks: u32,
}

/// Pictures or sound.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Pictures.
    Video {
        /// Width, pixels.
        width_px: u32,
        /// Height, pixels.
        height_px: u32,
        /// Pictures a second: as the stream says, or as they come where that is absurd; `None` where it
        /// says nothing.
        frame_rate: Option<FrameRate>,
        /// Shape of a pixel, width to height, where the stream says it.
        sample_aspect: Option<(u16, u16)>,
        /// Colour, where the stream says it.
        colour: Option<ColourDescription>,
        /// How light and dark they can be.
        range: Range,
    },
    /// Sound.
    Audio {
        /// Channels.
        channels: u16,
        /// Samples a second.
        rate_hz: u32,
        /// ISO 639-2 code of the language, three lower-case letters.
        language: Option<[u8; 3]>,
    },
}

/// Bit rates that were measured, in bits a second; at least 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bandwidth {
    /// Of the largest segment for its time.
    pub peak_bps: u64,
    /// Of all that is kept.
    pub average_bps: u64,
}

/// The next part that will begin, or that has begun and is not complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// The segment's number.
    pub segment: u64,
    /// The part's, from 0.
    pub part: u32,
}

/// One rendition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rendition {
    name: RenditionName,
    pub(in crate::packager) tracks: VecDeque<TrackInfo>,
    /// The last of them may be open.
    pub(in crate::packager) segments: VecDeque<Segment>,
    /// The first that playlists list; those before it are kept for viewers with an older playlist.
    pub(in crate::packager) listed_from: u64,
    /// The number that the next segment has.
    pub(in crate::packager) next: u64,
    /// The longest segment so far.
    pub(in crate::packager) longest: Duration,
    /// The largest rate of a segment so far, bits a second.
    pub(in crate::packager) peak_bps: u64,
    /// Key frames that were remembered so far.
    pub(in crate::packager) key_frames: u64,
}

impl Rendition {
    pub(in crate::packager) fn new(name: RenditionName, next: u64) -> Rendition {
        Rendition {
            name,
            tracks: VecDeque::new(),
            segments: VecDeque::new(),
            listed_from: next,
            next,
            longest: Duration::ZERO,
            peak_bps: 0,
            key_frames: 0,
        }
    }

    /// Its name.
    pub fn name(&self) -> RenditionName {
        self.name
    }

    /// What it is now; `None` before it has begun.
    pub fn track(&self) -> Option<&TrackInfo> {
        self.tracks.back()
    }

    /// What it was in an epoch.
    pub fn track_in(&self, epoch: u32) -> Option<&TrackInfo> {
        self.tracks.iter().find(|track| track.epoch == epoch)
    }

    /// The segments that playlists list, the oldest first. The last one may not be complete.
    pub fn listed(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        let unlisted = self.segments.iter().take_while(|segment| segment.number < self.listed_from).count();
        self.segments.range(unlisted..)
    }

    /// The complete ones of them.
    pub fn complete(&self) -> impl DoubleEndedIterator<Item = &Segment> + Clone {
        self.listed().filter(|segment| segment.complete)
    }

    /// The segment that is not complete.
    pub fn open(&self) -> Option<&Segment> {
        self.segments.back().filter(|segment| !segment.complete)
    }

    /// A segment that is kept, listed or not.
    pub fn segment(&self, number: u64) -> Option<&Segment> {
        let first = self.segments.front()?.number;
        self.segments.get(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// The number of the first segment that playlists list: `EXT-X-MEDIA-SEQUENCE`.
    pub fn media_sequence(&self) -> u64 {
        self.listed_from
    }

    /// The first part that is not complete.
    pub fn position(&self) -> Position {
        match self.open() {
            Some(open) => Position { segment: open.number, part: open.parts.len() as u32 },
            None => Position { segment: self.next, part: 0 },
        }
    }

    /// The last part that is complete, as rendition reports name it.
    pub fn last_part(&self) -> Option<Position> {
        let last = self.listed().rev().find(|segment| !segment.parts.is_empty() || segment.complete)?;
        Some(Position { segment: last.number, part: (last.parts.len() as u32).saturating_sub(1) })
    }

    /// The part that players ask for next. Where segments are as long as each other and the open one has come to the
    /// length of the one before it, that is the next segment's first: a key frame is due.
    pub fn next_part(&self) -> Position {
        let position = self.position();
        let Some(open) = self.open().filter(|open| open.open_part.is_none()) else { return position };
        let before = open.number.checked_sub(1).and_then(|before| self.segment(before));
        let usual = before.filter(|before| before.epoch == open.epoch && before.complete && !before.gap);
        let slack = self.track().map_or(0, |track| u64::from(track.sample_ticks / 2));
        match usual {
            Some(before) if open.duration.saturating_add(slack) >= before.duration => {
                Position { segment: open.number + 1, part: 0 }
            }
            _ => position,
        }
    }

    /// `PART-TARGET`: how long a part lasts at most.
    pub fn part_target(&self) -> Duration {
        let longest =
            self.tracks.iter().map(|track| duration_of(track.part_ticks.into(), track.timescale)).max();
        longest.unwrap_or_default()
    }

    /// The rates that were measured over what is listed; the peak is that since the rendition began.
    pub fn bandwidth(&self) -> Bandwidth {
        let (mut bytes, mut time) = (0u64, Duration::ZERO);
        let complete = self.complete().filter(|segment| !segment.gap);
        let measured = complete.clone().next().is_some();
        for segment in self.listed().filter(|segment| segment.complete && !segment.gap || !measured) {
            bytes = bytes.saturating_add(segment.size_bytes);
            time = time.saturating_add(segment.duration_time());
        }
        let average_bps = rate_bps(bytes, time).max(1);
        Bandwidth { peak_bps: self.peak_bps.max(average_bps), average_bps }
    }

    /// Whether something of it can be played: a part, at least, is complete.
    pub fn is_playable(&self) -> bool {
        self.last_part().is_some()
    }
}

/// Bits a second of so many bytes in a time.
pub(in crate::packager) fn rate_bps(bytes: u64, time: Duration) -> u64 {
    let nanos = time.as_nanos().max(1);
    u64::try_from(u128::from(bytes) * 8 * 1_000_000_000 / nanos).unwrap_or(u64::MAX)
}

impl Segment {
    /// A part that is complete or has begun.
    pub fn part(&self, number: u32) -> Option<&Part> {
        let index = number as usize;
        match self.parts.get(index) {
            Some(part) => Some(part),
            None if index == self.parts.len() => self.open_part.as_ref(),
            None => None,
        }
    }
}
