//! What can go wrong in a VP8 stream.

use thiserror::Error;

/// Why a frame was not decoded, or a saved state not restored. The state that was given is as it was.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// The frame ends before its header does.
    #[error("vp8: a frame of {found} bytes; its header takes {expected}")]
    Short {
        /// Bytes of the frame.
        found: usize,
        /// Bytes that the header takes.
        expected: usize,
    },
    /// A key frame without its start code.
    #[error("vp8: start code {found:02x?} where 9d 01 2a was expected")]
    StartCode {
        /// What stands there.
        found: [u8; 3],
    },
    /// A bitstream version that RFC 6386 does not define.
    #[error("vp8: bitstream version {found}; versions 0 to 3 are defined")]
    Version {
        /// What the frame says.
        found: u8,
    },
    /// A side is zero.
    #[error("vp8: a key frame of {width}x{height}: a side is zero")]
    Size {
        /// Found width.
        width: u16,
        /// Found height.
        height: u16,
    },
    /// A picture larger than the caller's limit.
    #[error(
        "vp8: a picture of {width}x{height} has {} samples, and the limit on pictures is {max_pixels}",
        u32::from(*width) * u32::from(*height)
    )]
    TooLarge {
        /// Found width.
        width: u16,
        /// Found height.
        height: u16,
        /// The limit.
        max_pixels: u32,
    },
    /// An inter frame where no key frame was decoded before.
    #[error(
        "vp8: an inter frame, but the state holds no picture to predict from; a key frame is needed first"
    )]
    NoKeyFrame,
    /// A partition that would be longer than what is left of the frame.
    #[error("vp8: partition {partition} takes {expected} bytes; {found} are left in the frame")]
    Partition {
        /// 0 is the one of modes and motion vectors; tokens follow from 1.
        partition: usize,
        /// Bytes left.
        found: usize,
        /// Bytes that the header names.
        expected: usize,
    },
    /// The bytes of a partition end before its macroblocks do.
    #[error("vp8: partition {partition} ends in macroblock row {row} of {rows}")]
    Truncated {
        /// 0 is the one of modes and motion vectors; tokens follow from 1.
        partition: usize,
        /// The row in which the bytes ran out.
        row: usize,
        /// Rows of the frame.
        rows: usize,
    },
    /// Bytes that [`State::save`](super::State::save) did not write.
    #[error("vp8: not a saved state: {problem} at byte {at}")]
    Saved {
        /// What is wrong.
        problem: &'static str,
        /// Where.
        at: usize,
    },
}
