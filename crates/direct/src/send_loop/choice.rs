//! What is told of the choice between codecs, and sizes of AV1.

use super::Coding;
use crate::settings::VideoCodec;
use glassline_media::Size;

/// What was done beside the pictures, with time that was left.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aside {
    /// A picture that has left was encoded by the other codec.
    Encoded(Coding),
    /// The other codec has compared its pictures with themselves at this size.
    Compared(Size),
    /// A picture of this size was compared with its source.
    Judged(Size),
}

/// Why pictures are sent in a codec.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CodecReason {
    /// In a second of pictures those of the other codec or size were so much nearer to the source, dB (negative: farther), or `None`: as
    /// good as the source in both.
    Compared {
        /// By how much.
        gain_db: Option<f64>,
    },
    /// The receiver takes no other.
    Receiver,
    /// AV1 takes more time than there is.
    TooSlow,
    /// There was no time for a comparison.
    NoTime,
    /// AV1 is not encoded at this size here.
    Size,
}

impl CodecReason {
    /// One word.
    pub const fn name(self) -> &'static str {
        match self {
            CodecReason::Compared { .. } => "compared",
            CodecReason::Receiver => "receiver",
            CodecReason::TooSlow => "too_slow",
            CodecReason::NoTime => "no_time",
            CodecReason::Size => "size",
        }
    }

    /// By how much what was compared is better, dB, where that was told.
    pub const fn gain_db(self) -> Option<f64> {
        match self {
            CodecReason::Compared { gain_db } => gain_db,
            _ => None,
        }
    }
}

/// What was found out about the codec of the next pictures.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CodecChoice {
    /// The codec.
    pub codec: VideoCodec,
    /// The size, with AV1; VP8 finds it picture by picture.
    pub size: Option<Size>,
    /// Codec or size are others than before.
    pub changed: bool,
    /// Why.
    pub reason: CodecReason,
}
