//! A decoded picture in the memory of its decoder.

use glassline_media::Colour;

/// A decoded picture.
#[derive(Clone, Copy, Debug)]
pub struct DecodedPicture<'a> {
    /// Luma in samples of 8 bits, line by line; finer ones are cut to that.
    pub luma: &'a [u8],
    /// Width in pixels.
    pub width_px: usize,
    /// Height in pixels.
    pub height_px: usize,
    /// Bytes from a line of luma to the next.
    pub stride: usize,
    /// Cb and Cr; `None` where there are none, or not in planes of their own.
    pub chroma: Option<DecodedChroma<'a>>,
    /// What the samples mean; code points that are not known are 2.
    pub colour: Colour,
    /// Width and height of a sample as it is shown; zero where the stream does not say.
    pub sample_aspect: (u32, u32),
}

/// Cb and Cr of a decoded picture.
#[derive(Clone, Copy, Debug)]
pub struct DecodedChroma<'a> {
    pub(super) planes: [&'a [u8]; 2],
    /// Width in samples.
    pub width_px: usize,
    /// Height in samples.
    pub height_px: usize,
    pub(super) stride: usize,
    /// Samples have two bytes, the lower one first, and so many bits more than 8.
    pub(super) shift: Option<u32>,
}

impl DecodedChroma<'_> {
    /// Puts line `y` of Cb (`index` 0) or Cr (1) into `line`, in samples of 8 bits.
    ///
    /// # Panics
    /// There is no such plane or line.
    pub fn line(&self, index: usize, y: usize, line: &mut Vec<u8>) {
        line.clear();
        let bytes = &self.planes[index][y * self.stride..];
        match self.shift {
            None => line.extend_from_slice(&bytes[..self.width_px]),
            Some(shift) => {
                let (samples, _) = bytes[..2 * self.width_px].as_chunks();
                line.extend(samples.iter().map(|sample| (u16::from_le_bytes(*sample) >> shift) as u8));
            }
        }
    }
}
