//! Fragmented MP4 (ISO/IEC 14496-12) and CMAF (ISO/IEC 23000-19), written and read; the codecs' own parts from 14496-15 (H.264),
//! 14496-14 (AAC) and "Encapsulation of Opus in ISO Base Media File Format" 0.6.
//!
//! ```text
//! initialisation: ftyp moov(mvhd, a trak for each track, mvex)                 write_init
//! in front of a segment or chunk: [styp] [emsg…]                               write_segment_type, write_event
//! fragment, or CMAF chunk: [prft] moof(mfhd, a traf for each track) mdat       write_chunk
//! a file's end: mfra(tfra, mfro)                                               Recorder::finish
//! a file without fragments: ftyp moov mdat                                     Progressive
//! ```
//! Access units come in, bytes go out. [`Recorder`] makes a file of pictures and sound that plays while it grows. A
//! packager uses [`Media`], [`write_init`] and [`write_chunk`] with one track each, and [`LiveTimeline`], which gives each
//! unit's sample at once. The other way, [`Reader`] takes the bytes of a stream in any chop and tells tracks and chunks, and
//! [`ReadTrack::to_unit`] makes access units of their samples.

mod boxes;
mod chunk;
mod init;
#[cfg(test)]
mod live_tests;
mod progressive;
mod read;
mod record;
mod sample_entry;
mod segment;
#[cfg(test)]
mod tests;
mod timeline;
mod track;

pub use chunk::{Captured, Run, Sample, write_chunk};
pub use init::{Brand, duration_box, write_init};
pub use progressive::{InitTrack, PlacedSample, Progressive, ProgressiveError};
pub use read::{Chunk, Event, FourCc, ProducerTime, ReadError, ReadRun, ReadSample, ReadTrack, Reader};
pub(super) use read::{SampleForm, Unfit};
pub use record::Recorder;
pub use segment::{CAPTURE_SCHEME, EventMessage, EventTime, SegmentKind, write_event, write_segment_type};
pub use timeline::{LiveTimeline, Timed, Timeline};
pub use track::{Media, Pictures, Track};

pub use super::growing::Patch;

use crate::access_unit::{AccessUnit, Codec};
use crate::bitstream;
use crate::time::Ticks;

/// The codecs that are written to MP4.
pub const WRITTEN: &str = "H.264, H.265, AV1, AAC, Opus, MP3, AC-3 and E-AC-3";

/// Why an access unit does not go into a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// MP4 could hold it, or not, but it is not made here.
    #[error("{} is not written to MP4; {WRITTEN} are", codec.name())]
    Codec {
        /// The codec.
        codec: Codec,
    },
    /// Layers I and II of MPEG audio, which no player of fragmented MP4 can be expected to decode.
    #[error("MPEG audio of layer {found} is not written to MP4; of layer III it is")]
    Layer {
        /// The layer.
        found: u8,
    },
    /// A unit does not say what has to be known of it.
    #[error("an access unit of {} has no {what}", codec.name())]
    Configuration {
        /// The codec.
        codec: Codec,
        /// What is missing.
        what: &'static str,
    },
    /// Size or coding of the pictures are no longer what the file's beginning says.
    #[error("the parameter sets have changed, which a file cannot follow")]
    Changed,
    /// A time stamp that does not follow the one before it, or only after hours.
    #[error("a unit of {} is at {}, after one at {}", codec.name(), found.0, last.0)]
    Time {
        /// The codec.
        codec: Codec,
        /// Its decoding time.
        found: Ticks,
        /// That of the unit before it.
        last: Ticks,
    },
}

/// Whether a file can begin with the unit: a key frame with its parameter sets.
fn begins(unit: &AccessUnit) -> bool {
    bitstream::is_key(unit.codec, &unit.data) && Media::of(unit, false).is_ok()
}
