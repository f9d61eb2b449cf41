//! What a stream may ask of a decoder.

use super::error::Error;
use glassline_media::Size;

/// What a stream may ask of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest picture that is taken, width times height in samples. A frame of a few bytes makes us allocate
    /// 1.5 bytes a sample of whole macroblocks, and spend the time to fill them.
    pub max_pixels: u32,
}

impl Default for Limits {
    /// 8192×8192 samples: what cameras have, and 8K video.
    fn default() -> Limits {
        Limits { max_pixels: 8192 * 8192 }
    }
}

impl Limits {
    /// All that the format has room for, and the encoder makes: sides of 14 bits (RFC 6386 §9.1).
    pub const FORMAT: Limits = Limits { max_pixels: 16_383 * 16_383 };
    /// Bytes that a decoder has for each sample of a picture at most: four frames of 4:2:0, three of them to predict from.
    pub const BYTES_A_PIXEL: u64 = 6;

    /// Whether a picture of `size` is taken.
    ///
    /// # Errors
    /// [`Error::TooLarge`].
    pub fn check_size(&self, size: Size) -> Result<(), Error> {
        let side = |side| u16::try_from(side).unwrap_or(u16::MAX);
        self.check(side(size.width), side(size.height))
    }

    pub(crate) fn check(&self, width: u16, height: u16) -> Result<(), Error> {
        if u32::from(width) * u32::from(height) > self.max_pixels {
            return Err(Error::TooLarge { width, height, max_pixels: self.max_pixels });
        }
        Ok(())
    }
}
