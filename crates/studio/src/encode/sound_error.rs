//! Why sound cannot be coded as asked.

use std::time::Duration;
use thiserror::Error;

/// What a codec does not have or take.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum SoundError {
    /// A codec was named, and there is nothing to code.
    #[error("this input carries no sound")]
    None,
    /// A bit rate beside samples that are not compressed.
    #[error("a bit rate is for sound that is compressed")]
    BitrateOfSamples,
    /// Bits of a sample beside sound that is compressed.
    #[error("bits of a sample are for s302m")]
    BitsOfCompressed,
    /// Bits of a sample that SMPTE ST 302 does not know.
    #[error("{0} bits: ST 302 knows 16, 20 and 24")]
    Bits(u32),
    /// More channels than are coded.
    #[error("the sound has {0} channels; Opus and AAC are coded with 1 or 2")]
    ManyChannels(u8),
    /// A number of channels that AES3 has no pairs for.
    #[error("the sound has {0} channels; s302m takes 1, 2, 4, 6 or 8")]
    OddChannels(u8),
    /// Packets longer than s302m has.
    #[error("{0:?}: s302m takes up to 10ms")]
    FrameOfS302m(Duration),
    /// A length of packets beside a codec that has one length alone.
    #[error("the sound in a packet is for Opus and s302m; AAC has frames of 21 ms alone")]
    FrameFixed,
    /// Packets of a length that Opus does not have.
    #[error("{0:?}: Opus has 2.5ms, 5ms, 10ms and 20ms")]
    FrameOfOpus(Duration),
}
