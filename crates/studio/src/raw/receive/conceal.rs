//! Frames with holes.

use super::memory::FrameMemory;
use glassline_media::pixels::{FrameUnpacker, Packer};
use glassline_media::{Chroma, Layout, Picture, PixelFormat, Size, Time};
use glassline_transport::raw_video::Format;
use std::ops::Range;

/// Fills what is missing of a frame: with what was there before, or black.
pub(super) struct Concealer {
    line_bytes: usize,
    /// A black pgroup.
    black: Vec<u8>,
    packer: Packer,
    /// Where frames are in planes.
    unpacker: Option<FrameUnpacker>,
    room: Vec<u8>,
}

impl Concealer {
    pub(super) fn new(format: &Format, unpacker: Option<FrameUnpacker>) -> Concealer {
        let (line_bytes, black) = (format.line_bytes(), black(format.pixels()));
        Concealer { line_bytes, black, packer: Packer::new(), unpacker, room: Vec::new() }
    }

    /// Fills `holes` of `frame`, from `before` where there was a frame before it.
    pub(super) fn fill(&mut self, frame: &mut FrameMemory, holes: &[Range<usize>], before: Option<&Picture>) {
        // In planes only what was lost is ever in pgroups again, and a stream that loses nothing pays nothing.
        let before = match before {
            Some(before) if before.format().layout == Layout::Planar => self.packer.pack(before).ok(),
            before => before.cloned(),
        };
        for hole in holes {
            self.room.clear();
            match &before {
                Some(before) => {
                    let (plane, line_bytes) = (&before.planes()[0], self.line_bytes);
                    let mut at = hole.start;
                    while at < hole.end {
                        let (line, start) = (at / line_bytes, at % line_bytes);
                        let end = line_bytes.min(start + hole.end - at);
                        self.room.extend_from_slice(&plane.line(line)[start..end]);
                        at += end - start;
                    }
                }
                None => {
                    let group = self.black.iter().cycle().skip(hole.start % self.black.len().max(1));
                    self.room.extend(group.take(hole.len()));
                }
            }
            frame.write(hole.start, &self.room, self.unpacker.as_mut());
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
    use super::super::memory::FramePool;
    use super::*;
    use glassline_transport::raw_video::Scan;

    #[test]
    fn holes_are_what_was_before_or_black_in_pgroups_and_in_planes() {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 8).unwrap();
        let format = Format::new(pixels, Size::new(4, 2).unwrap(), Scan::Progressive).unwrap();
        for layout in [Layout::Pgroups, Layout::Planar] {
            let mut unpacker = FrameUnpacker::new(pixels, format.size()).filter(|_| layout == Layout::Planar);
            let mut concealer = Concealer::new(&format, unpacker.clone());
            let pool = FramePool::new(&format, layout, 2).unwrap();
            let mut filled = |byte: u8| {
                let mut frame = pool.take().unwrap();
                frame.write(0, &[byte; 16], unpacker.as_mut());
                frame
            };
            let mut frame = filled(9);
            concealer.fill(&mut frame, &[4..8, 8..12], None);
            let before = filled(7).into_picture(Time::ZERO);
            concealer.fill(&mut frame, &[0..4, 16..16], Some(&before));
            let picture = frame.into_picture(Time::ZERO);
            assert_eq!(picture.format().layout, layout);
            let packed = match layout {
                Layout::Pgroups => picture,
                Layout::Planar => Packer::new().pack(&picture).unwrap(),
            };
            let bytes: Vec<u8> = packed.planes()[0].lines().flatten().copied().collect();
            assert_eq!(bytes, [7, 7, 7, 7, 128, 16, 128, 16, 128, 16, 128, 16, 9, 9, 9, 9]);
        }
    }

    #[test]
    fn ten_bits_are_black_too() {
        // Cb 512, Y 64, Cr 512, Y 64, ten bits each.
        assert_eq!(black(PixelFormat::planar(Chroma::Yuv422, 10)), [0x80, 0x04, 0x08, 0x00, 0x40]);
    }
}
