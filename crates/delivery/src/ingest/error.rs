//! Why what is put is refused.

use glassline_media::container::cmaf::{FourCc, ReadError};
use thiserror::Error;

/// Why a body is refused. The bytes that came before stay in the stream.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum IngestError {
    /// It begins with no box that a track begins with.
    #[error("the body begins with '{found}', expected a box of CMAF")]
    NotCmaf {
        /// What stands where a box's type would.
        found: FourCc,
    },
    /// What is in the boxes cannot be.
    #[error("not CMAF: {0}")]
    Read(#[from] ReadError),
    /// It ends inside of a box.
    #[error("the body ends inside of a box, after {bytes} bytes")]
    CutOff {
        /// Bytes of the body.
        bytes: u64,
    },
    /// A track of a codec that is not taken.
    #[error("a track of '{sample_entry}'")]
    Codec {
        /// What its samples are called.
        sample_entry: FourCc,
    },
    /// A second track of sound.
    #[error("a second track of sound")]
    SecondSound,
    /// Two tracks of pictures that would have one name.
    #[error("a second track of pictures that would be {name:?}")]
    SameName {
        /// What stands behind the stream's name.
        name: String,
    },
    /// The stream of a version of the pictures is not to be had.
    #[error("the stream {name:?} of this version is not to be had: {reason}")]
    Stream {
        /// Its name.
        name: String,
        /// Why not.
        reason: String,
    },
    /// As many tracks as there may be are there.
    #[error("more than {limit} tracks")]
    TooManyTracks {
        /// The limit.
        limit: usize,
    },
    /// As many requests as may be are going on.
    #[error("more than {limit} requests at once")]
    TooManyBodies {
        /// The limit.
        limit: usize,
    },
    /// Segments of a track for which no header has been put.
    #[error("a segment without its header")]
    NoHeader,
    /// Segments that could belong to several headers.
    #[error("a segment that may belong to several headers")]
    Ambiguous,
    /// Boxes that are not complete hold too much memory.
    #[error("more than {limit} bytes of boxes that are not complete")]
    TooMuch {
        /// The limit, for all requests of a stream.
        limit: usize,
    },
    /// The track's times have nothing to do with those of the others.
    #[error("the track's times are far from those of the others")]
    OtherClock,
}

impl IngestError {
    /// The status that answers it.
    pub const fn status(&self) -> u16 {
        match self {
            IngestError::Read(_) | IngestError::CutOff { .. } | IngestError::Ambiguous => 400,
            IngestError::OtherClock => 400,
            IngestError::SameName { .. } | IngestError::SecondSound | IngestError::Stream { .. } => 409,
            IngestError::NoHeader => 412,
            IngestError::TooMuch { .. } => 413,
            IngestError::NotCmaf { .. } | IngestError::Codec { .. } => 415,
            IngestError::TooManyTracks { .. } | IngestError::TooManyBodies { .. } => 429,
        }
    }

    /// What the publisher is to do.
    pub const fn advice(&self) -> &'static str {
        match self {
            IngestError::NotCmaf { .. } => {
                "Put CMAF: a header (ftyp, moov), then segments or chunks (moof, mdat), as 'ffmpeg … -f dash' makes them; \
                 MPEG-TS goes to /live/NAME.ts."
            }
            IngestError::Read(_) => "The title says which box is wrong, and where it is.",
            IngestError::CutOff { .. } => "Put whole boxes: each moof with its mdat.",
            IngestError::Codec { .. } => {
                "H.264, H.265 and AV1 are taken, and AAC, Opus (one or two channels), MP3, AC-3 and E-AC-3; leave this track away."
            }
            IngestError::SecondSound => {
                "A stream has one track of sound; put the others under names of their own."
            }
            IngestError::SameName { .. } => {
                "Tracks of pictures under one name differ in height or frame rate, or in the bit rate that their headers say \
                 (btrt); put this one under another name."
            }
            IngestError::Stream { .. } => {
                "Each version of the pictures is a stream of its own: end the other publisher of that name, or allow it."
            }
            IngestError::TooManyTracks { .. } => "Put fewer tracks under one name.",
            IngestError::TooManyBodies { .. } => "End requests before others are begun.",
            IngestError::NoHeader => "Put the track's header (ftyp, moov) first, then this segment again.",
            IngestError::Ambiguous => {
                "Name headers and segments such that they tell: init-video.mp4 and video-1.m4s, video/init.mp4 and \
                 video/1.m4s, or put both at one path."
            }
            IngestError::TooMuch { .. } => "Send smaller chunks: one for each picture is best.",
            IngestError::OtherClock => {
                "All tracks under one name need one clock: their decoding times, in seconds, agree."
            }
        }
    }
}
