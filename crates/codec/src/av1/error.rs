//! What can go wrong with AV1.

use glassline_media::Size;
use thiserror::Error;

/// Why a picture was not encoded, or a unit not decoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum Error {
    /// A setting has a value that is not taken.
    #[error("av1: {setting} is {found}; it must be {expected}")]
    Setting {
        /// The setting's name.
        setting: &'static str,
        /// The value that was given.
        found: String,
        /// What would have been right.
        expected: &'static str,
    },
    /// A picture is not what the encoder was opened for.
    #[error("av1: got a picture of {found}, opened for {expected}")]
    Input {
        /// Size and format of the picture.
        found: String,
        /// Size and format that the encoder takes.
        expected: String,
    },
    /// A picture would be predicted from the slot that it is written to, or there was no key picture before it.
    #[error("av1: a picture needs a slot to be predicted from, and another one to be written to")]
    Slots,
    /// There is no picture yet, or none since the last error: a key picture is needed first.
    #[error("av1: there is no picture to go on from; a key picture is needed first")]
    NoPicture,
    /// A unit of more samples than the decoder takes.
    #[error(
        "av1: a picture of {width}x{height} has {} samples, and the limit on pictures is {max_pixels}",
        u64::from(*width) * u64::from(*height)
    )]
    TooLarge {
        /// Found width.
        width: u32,
        /// Found height.
        height: u32,
        /// The limit.
        max_pixels: u32,
    },
    /// A unit with pictures of another format than 8-bit 4:2:0.
    #[error("av1: pictures of {bits} bits, {chroma}; only 8 bits, 4:2:0 are taken")]
    Format {
        /// Bits of a sample.
        bits: u8,
        /// What chroma is like.
        chroma: &'static str,
    },
    /// Bytes that are not one temporal unit with one frame that is shown.
    #[error("av1: a unit of {bytes} bytes with {problem}, where one frame that is shown was expected")]
    Unit {
        /// Length of the unit.
        bytes: usize,
        /// What is in it.
        problem: &'static str,
    },
    /// A unit that the library cannot decode.
    #[error("av1: a unit of {bytes} bytes cannot be decoded: {reason}")]
    Corrupt {
        /// Length of the unit.
        bytes: usize,
        /// The library's reason.
        reason: String,
    },
    /// A library failed.
    #[error("{library} failed to {action}: {reason}")]
    Library {
        /// The library.
        library: &'static str,
        /// What it was asked to do.
        action: &'static str,
        /// The library's own text.
        reason: String,
    },
}

impl Error {
    pub(super) fn setting(setting: &'static str, found: impl ToString, expected: &'static str) -> Error {
        Error::Setting { setting, found: found.to_string(), expected }
    }

    /// Refuses what has more samples than the limit.
    pub(super) fn check_size(size: Size, max_pixels: u32) -> Result<(), Error> {
        let Size { width, height } = size;
        let is_small = u64::from(width) * u64::from(height) <= u64::from(max_pixels);
        if is_small { Ok(()) } else { Err(Error::TooLarge { width, height, max_pixels }) }
    }
}
