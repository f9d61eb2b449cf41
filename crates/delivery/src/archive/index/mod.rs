//! The index of a recording: what was recorded and what was not, in parts that are only ever added.
//!
//! A part is an object of JSON lines, whole or absent:
//!
//! ```text
//! {"format":"glassline-archive","version":1,"name":"hall","session":"20261130T022552.123Z","part":7}
//! {"track":{"rendition":"video","epoch":1,"codec":"avc1.64001F","timescale":90000,…}}     before its first segment
//! {"segment":{"rendition":"video","number":898202776,"epoch":1,"start":180000,"duration":180000,…}}
//! {"ts":{"number":898202776,"bytes":1204140,"crc32c":"9a0b1c2d"}}                          the same as MPEG-TS, where that is asked for
//! {"hole":{"rendition":"video","first":898202777,"last":898202779,"from":…,"to":…,"reason":"spool"}}
//! {"ended":"2026-11-30T04:00:00.000000Z"}                                                 in the last part
//! {"lines":4,"crc32c":"0a1b2c3d"}
//! ```
//! Each part can be read alone: it has the tracks of all its segments. The last line has the number of lines before it and the
//! CRC-32C (Castagnoli, RFC 3720 appendix B.4) of their bytes, so that a torn part is known by its end. Of two lines about one
//! segment the one in the later part counts. Members and lines that a reader does not know are left out; a part of a larger
//! `version` is refused.

mod holes;
mod line;
mod part;
mod recording;

pub use part::{Part, PartError, PartWriter};
pub use recording::{Recording, Refused};

use crate::packager::{KeyFrame, RenditionName, TrackInfo, duration_of, later};
use glassline_media::Utc;
use std::time::Duration;

/// The version of the format that is written, and the largest that is read.
pub const VERSION: u32 = 1;
/// The longest line, in bytes: a segment with the 64 key frames that the packager remembers takes less than 4 KiB.
pub const LINE_MAX_BYTES: usize = 16 << 10;
/// The largest part, in bytes. Writers begin a new one at [`PART_BYTES`].
pub const PART_MAX_BYTES: usize = 1 << 20;
/// A writer ends a part that has come to so many bytes.
pub const PART_BYTES: usize = 64 << 10;
/// The most segments of all renditions that are read of one recording: nine days of four renditions in segments of one and a half
/// seconds.
pub const SEGMENTS_MAX: usize = 1 << 21;
/// The most tracks: renditions times epochs.
pub const TRACKS_MAX: usize = 1 << 14;
/// The most holes.
pub const HOLES_MAX: usize = 1 << 14;
/// The longest segment, so that a wrong length in one line cannot spoil a whole playlist.
pub const SEGMENT_MAX: Duration = Duration::from_secs(3600);
/// The largest segment, in bytes.
pub const SEGMENT_MAX_BYTES: u64 = 1 << 32;
/// The most key frames of a segment.
pub const KEY_FRAMES_MAX: usize = 64;

/// CRC-32C of `bytes`, as parts of an index and their segments have it.
#[must_use]
pub fn crc32c(bytes: &[u8]) -> u32 {
    Crc32c::default().with(bytes).value()
}

const CRC: crc::Crc<u32, crc::Table<16>> = crc::Crc::<u32, crc::Table<16>>::new(&crc::CRC_32_ISCSI);

/// A CRC-32C of bytes that come one piece after another.
#[derive(Clone)]
pub struct Crc32c(crc::Digest<'static, u32, crc::Table<16>>);

static SHARED_CRC: crc::Crc<u32, crc::Table<16>> = CRC;

impl Default for Crc32c {
    fn default() -> Crc32c {
        Crc32c(SHARED_CRC.digest())
    }
}

impl Crc32c {
    /// The same with `bytes` behind what came.
    #[must_use]
    pub fn with(mut self, bytes: &[u8]) -> Crc32c {
        self.update(bytes);
        self
    }

    /// `bytes` follow what came.
    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    /// The CRC of all that came.
    #[must_use]
    pub fn value(&self) -> u32 {
        self.0.clone().finalize()
    }
}

impl std::fmt::Debug for Crc32c {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Crc32c({:08x})", self.value())
    }
}

/// A segment that was recorded. Times are in ticks of its track.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordedSegment {
    /// Its number. Segments of different renditions with the same number are of the same time.
    pub number: u64,
    /// Its epoch: the number of its CMAF header.
    pub epoch: u32,
    /// When it is presented, since the epoch's zero.
    pub start: u64,
    /// How long.
    pub duration: u64,
    /// When its first picture or sound was captured, or came in.
    pub utc: Utc,
    /// That time is one of capture, by what the stream says.
    pub captured: bool,
    /// It begins with a key frame or a recovery point.
    pub independent: bool,
    /// Bytes of its object; 0: nothing came in its time, and it has no object.
    pub bytes: u64,
    /// CRC-32C of its object.
    pub crc32c: u32,
    /// Where its key frames are; of sound none.
    pub key_frames: Vec<KeyFrame>,
}

impl RecordedSegment {
    /// Nothing came in its time: there is no object of it.
    pub const fn is_gap(&self) -> bool {
        self.bytes == 0
    }

    /// How long it lasts, where `timescale` ticks are a second.
    pub fn duration_time(&self, timescale: u32) -> Duration {
        duration_of(self.duration, timescale)
    }

    /// When it ends by the wall clock, where `timescale` ticks are a second.
    pub fn end_utc(&self, timescale: u32) -> Utc {
        later(self.utc, self.duration_time(timescale))
    }
}

/// A segment of pictures and sound as MPEG-TS, beside the CMAF segments of its number. Of a time that has one, nothing is lost where it is
/// missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MpegTsSegment {
    /// Its number.
    pub number: u64,
    /// Bytes of its object.
    pub bytes: u64,
    /// CRC-32C of its object.
    pub crc32c: u32,
}

/// Segments that were not recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Of which rendition.
    pub rendition: RenditionName,
    /// The number of the first segment that is not there.
    pub first: u64,
    /// The number of the last one; at least the first.
    pub last: u64,
    /// When the first one began, as far as is known.
    pub from: Utc,
    /// When the last one ended, as far as is known.
    pub to: Utc,
    /// Why.
    pub reason: HoleReason,
}

/// Why segments were not recorded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HoleReason {
    /// The spool was full, because the store took nothing: the oldest segments went.
    Spool,
    /// The disk of the spool was too slow or full: what came was dropped.
    Queue,
    /// The store refused them for good.
    Store,
    /// The server stopped at once, and what it had not written is gone.
    Crash,
    /// They were deleted to keep less.
    Retention,
    /// Another reason, which this version does not know.
    Other,
}

impl HoleReason {
    const ALL: [HoleReason; 6] = [
        HoleReason::Spool,
        HoleReason::Queue,
        HoleReason::Store,
        HoleReason::Crash,
        HoleReason::Retention,
        HoleReason::Other,
    ];

    /// How many there are.
    pub const COUNT: usize = HoleReason::ALL.len();

    /// All of them.
    pub fn all() -> impl Iterator<Item = HoleReason> {
        HoleReason::ALL.into_iter()
    }

    /// Its place among them.
    pub const fn index(self) -> usize {
        match self {
            HoleReason::Spool => 0,
            HoleReason::Queue => 1,
            HoleReason::Store => 2,
            HoleReason::Crash => 3,
            HoleReason::Retention => 4,
            HoleReason::Other => 5,
        }
    }

    /// As the index has it.
    pub const fn name(self) -> &'static str {
        match self {
            HoleReason::Spool => "spool",
            HoleReason::Queue => "queue",
            HoleReason::Store => "store",
            HoleReason::Crash => "crash",
            HoleReason::Retention => "retention",
            HoleReason::Other => "other",
        }
    }

    /// The one of this name; [`HoleReason::Other`] where this version knows none.
    pub fn of(name: &str) -> HoleReason {
        HoleReason::ALL.into_iter().find(|reason| reason.name() == name).unwrap_or(HoleReason::Other)
    }
}

/// What a line of a part says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Line {
    /// What a rendition is in an epoch.
    Track(RenditionName, TrackInfo),
    /// A segment was recorded.
    Segment(RenditionName, RecordedSegment),
    /// The segments of a number are there as MPEG-TS, too.
    MpegTs(MpegTsSegment),
    /// Segments were not.
    Hole(Hole),
    /// The recording ended then; nothing follows.
    Ended(Utc),
}

impl Line {
    /// As a part has it, without the line's end. JSON has no line's end within it.
    #[must_use]
    pub fn to_json(&self) -> String {
        line::write(self)
    }

    /// Reads what [`Line::to_json`] wrote; `Ok(None)`: it says nothing that this version knows.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Option<Line>, String> {
        line::read(text)
    }
}

#[cfg(test)]
pub(in crate::archive) mod testing;
#[cfg(test)]
mod tests;
