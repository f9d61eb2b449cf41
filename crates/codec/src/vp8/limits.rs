//! What a stream may ask of a decoder.

use super::error::Error;

/// What a stream may ask of us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest picture that is taken, width times height in samples. A frame of a few bytes makes us allocate
    /// 1.5 bytes a sample of whole macroblocks, and spend the time to fill them.
    pub max_pixels: u32,
}

impl Default for Limits {
    /// 4096×2304 samples.
    fn default() -> Limits {
        Limits { max_pixels: 4096 * 2304 }
    }
}

impl Limits {
    pub(crate) fn check(&self, width: u16, height: u16) -> Result<(), Error> {
        if u32::from(width) * u32::from(height) > self.max_pixels {
            return Err(Error::TooLarge { width, height, max_pixels: self.max_pixels });
        }
        Ok(())
    }
}
