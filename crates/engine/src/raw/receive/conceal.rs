//! Frames with holes.

use glassline_media::pixels::Packer;
use glassline_media::{Chroma, Memory, Picture, PixelFormat, Size, Time};
use std::ops::Range;

/// Fills what is missing of a frame: with what was there before, or black.
pub(super) struct Concealer {
    /// A black pgroup.
    black: Vec<u8>,
}

impl Concealer {
    pub(super) fn new(pixels: PixelFormat) -> Concealer {
        Concealer { black: black(pixels) }
    }

    /// Fills `holes` of `frame`, from `before` where there was a frame before it.
    pub(super) fn fill(&self, frame: &mut [u8], holes: &[Range<usize>], before: Option<&dyn Memory>) {
        for hole in holes {
            let Some(into) = frame.get_mut(hole.clone()) else { continue };
            match before.and_then(|before| before.bytes().get(hole.clone())) {
                Some(before) => into.copy_from_slice(before),
                None => {
                    let group = self.black.iter().cycle().skip(hole.start % self.black.len().max(1));
                    into.iter_mut().zip(group).for_each(|(byte, black)| *byte = *black);
                }
            }
        }
    }
}

/// A pgroup of the lowest luma, without colour, in the limited range.
fn black(pixels: PixelFormat) -> Vec<u8> {
    let Some(group) = pixels.pgroup() else { return Vec::new() };
    let planar = pixels.to_planar();
    let size = Size { width: group.width, height: group.lines };
    let mut picture = Picture::new(planar, size, Time::ZERO);
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        let level: u16 = if index > 0 && pixels.chroma != Chroma::Rgb { 128 } else { 16 };
        let level = (level << (pixels.depth_bits - 8)).to_le_bytes();
        let bytes = planar.sample_bytes();
        for line in plane.lines_mut() {
            line.chunks_exact_mut(bytes).for_each(|sample| sample.copy_from_slice(&level[..bytes]));
        }
    }
    let packed = Packer::new().pack(&picture);
    packed.map_or(Vec::new(), |packed| packed.planes()[0].line(0).to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holes_are_what_was_before_or_black() {
        let concealer = Concealer::new(PixelFormat::planar(Chroma::Yuv422, 8));
        let mut frame = vec![9; 16];
        concealer.fill(&mut frame, &[4..8, 14..16], None);
        assert_eq!(frame, [9, 9, 9, 9, 128, 16, 128, 16, 9, 9, 9, 9, 9, 9, 128, 16]);
        let mut block = glassline_io::pages::Pool::new(16, 1).unwrap().take().unwrap();
        block.bytes_mut().copy_from_slice(&[7; 16]);
        concealer.fill(&mut frame, &[0..2, 2..2], Some(&block));
        assert_eq!(frame[..4], [7, 7, 9, 9]);
    }

    #[test]
    fn ten_bits_are_black_too() {
        // Cb 512, Y 64, Cr 512, Y 64, ten bits each.
        assert_eq!(black(PixelFormat::planar(Chroma::Yuv422, 10)), [0x80, 0x04, 0x08, 0x00, 0x40]);
    }
}
