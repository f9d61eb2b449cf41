//! What the loop and the choice between codecs, and sizes of AV1, tell each other and their caller.

use crate::settings::VideoCodec;
use glassline_media::Size;
use std::time::Duration;

/// How the picture is encoded that waits for [`SendLoop::choose`](crate::SendLoop::choose).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coding {
    /// At which size.
    pub size: Size,
    /// The encoder's speed against quality, 0 to 10.
    pub speed: u8,
    /// In how many qualities, as far as it is not a key frame.
    pub candidates: usize,
    /// One after the other, each as costly as the first.
    pub in_turn: bool,
}

/// What the link said of the picture under way.
#[derive(Clone, Copy, Debug)]
#[cfg_attr(not(feature = "av1"), expect(dead_code, reason = "only a comparison of codecs asks"))]
pub(super) struct Asked {
    /// What it could take before it was encoded, and what it was expected to take then; bytes.
    pub(super) before: u64,
    pub(super) ahead: u64,
    /// What it could take then, within which time, and whether several paths share it.
    pub(super) then: u64,
    pub(super) horizon: Duration,
    pub(super) is_shared: bool,
}

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
    /// The source's size is another than before, or AV1 is not encoded at it here.
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
