//! Pictures that lie in a library's memory, and what names a picture.

use glassline_media::{Picture, PixelFormat, Size};
use std::fmt;
use twox_hash::xxhash3_128;

/// Three planes of 8-bit 4:2:0 as a library has laid them out.
pub(super) struct Planes<'a> {
    pub(super) size: Size,
    /// Bytes from the first sample of each plane to its last one.
    pub(super) bytes: [&'a [u8]; 3],
    /// Bytes from the start of a line to the start of the next.
    pub(super) strides: [usize; 3],
}

impl<'a> Planes<'a> {
    /// Bytes from the first sample of a plane to its last one.
    pub(super) fn span(size: Size, stride: usize) -> usize {
        stride * (size.height as usize).saturating_sub(1) + size.width as usize
    }

    fn lines(&self, index: usize) -> impl Iterator<Item = &'a [u8]> {
        let width = PixelFormat::I420.plane_size(self.size, index).width as usize;
        // The last line's bytes end with its last sample.
        self.bytes[index].chunks(self.strides[index]).map(move |line| &line[..width])
    }

    pub(super) fn hash(&self) -> PictureHash {
        PictureHash::of_lines(self.size, (0..3).flat_map(|index| self.lines(index)))
    }

    /// Copies the samples to a picture of the same size.
    pub(super) fn copy_to(&self, picture: &mut Picture) {
        for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
            for (to, from) in plane.lines_mut().zip(self.lines(index)) {
                to.copy_from_slice(from);
            }
        }
    }
}

/// 128 bits that name the picture in a slot: XXH3-128 of its size and of the visible samples of its three planes. Equal for
/// equal pictures, on every platform. It is not cryptographic: two pictures of the same hash can be made on purpose.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PictureHash(u128);

impl PictureHash {
    /// The hash of a picture; only size and samples matter. It takes about a tenth of a millisecond at 1280×720.
    pub fn of(picture: &Picture) -> PictureHash {
        let lines = picture.planes().iter().flat_map(|plane| plane.lines());
        PictureHash::of_lines(picture.size(), lines)
    }

    fn of_lines<'a>(size: Size, lines: impl Iterator<Item = &'a [u8]>) -> PictureHash {
        let mut hasher = xxhash3_128::Hasher::new();
        hasher.write(&size.width.to_le_bytes());
        hasher.write(&size.height.to_le_bytes());
        lines.for_each(|line| hasher.write(line));
        PictureHash(hasher.finish_128())
    }

    /// The hash as bytes, for the wire: little endian.
    pub const fn to_bytes(self) -> [u8; 16] {
        self.0.to_le_bytes()
    }

    /// The hash that [`PictureHash::to_bytes`] gave.
    pub const fn from_bytes(bytes: [u8; 16]) -> PictureHash {
        PictureHash(u128::from_le_bytes(bytes))
    }
}

impl fmt::Display for PictureHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

impl fmt::Debug for PictureHash {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PictureHash({self})")
    }
}
