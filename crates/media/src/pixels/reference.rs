//! For tests: pictures as numbers, and pictures of noise at any stride.

use crate::picture::{Colour, Memory, Picture, PixelFormat, Plane, Size};
use crate::pixels::{Packer, Simd};
use crate::time::{Time, Utc};
use std::sync::Arc;

/// The lines of a plane.
pub(super) type Samples = Vec<Vec<u16>>;

#[derive(Debug)]
struct Boxed(Vec<u8>);

impl Memory for Boxed {
    fn bytes(&self) -> &[u8] {
        &self.0
    }
    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.0
    }
}

/// All samples of a picture in planes.
pub(super) fn samples(picture: &Picture) -> Vec<Samples> {
    assert!(picture.format().is_planar());
    let value = |sample: &[u8]| u16::from(sample[0]) | sample.get(1).map_or(0, |&high| u16::from(high) << 8);
    let line = |line: &[u8]| line.chunks(picture.format().sample_bytes()).map(value).collect();
    picture.planes().iter().map(|plane| plane.lines().map(line).collect()).collect()
}

/// A picture in planes; `of` gives its samples, by plane, column and line.
pub(super) fn drawn(format: PixelFormat, size: Size, of: impl Fn(usize, usize, usize) -> u16) -> Picture {
    let mut picture = Picture::new(format, size, Time::from_millis(7));
    picture.captured_utc = Some(Utc::from_micros(5));
    picture.colour = Colour { transfer: 13, ..Colour::UNSPECIFIED };
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        for (y, line) in plane.lines_mut().enumerate() {
            for (x, sample) in line.chunks_mut(format.sample_bytes()).enumerate() {
                sample.copy_from_slice(&of(index, x, y).to_le_bytes()[..sample.len()]);
            }
        }
    }
    picture
}

/// A picture in planes of noise.
pub(super) fn noise(format: PixelFormat, (width, height): (u32, u32), seed: u32) -> Picture {
    drawn(format, Size::new(width, height).unwrap(), |plane, x, y| {
        let mixed = (seed ^ (plane * 31 + x * 7919 + y * 104_729) as u32).wrapping_mul(2_654_435_761);
        (mixed >> 16) as u16 >> (16 - format.depth_bits)
    })
}

/// The same picture with so many bytes behind each line, and as many behind the last.
pub(super) fn padded(picture: &Picture, padding: usize) -> Picture {
    let sample_bytes = picture.format().sample_bytes();
    let planes = picture.planes().iter().map(|plane| {
        let bytes = plane.lines().flat_map(|line| [line, &vec![0xee; padding][..]].concat()).collect();
        let stride = plane.size().width as usize * sample_bytes + padding;
        Plane::lent(Arc::new(Boxed(bytes)), stride, plane.size(), sample_bytes)
    });
    let mut out = Picture::of_planes(picture.format(), picture.size(), planes.collect(), picture.captured);
    (out.colour, out.captured_utc, out.fields) = (picture.colour, picture.captured_utc, picture.fields);
    out
}

/// In pgroups, where there are some for it.
pub(super) fn packed(picture: &Picture) -> Option<Picture> {
    Packer::with(Simd::PORTABLE).pack(picture).ok()
}

/// Each level that there is.
pub(super) fn levels() -> impl Iterator<Item = Simd> {
    [Some(Simd::PORTABLE), Simd::avx2()].into_iter().flatten()
}
