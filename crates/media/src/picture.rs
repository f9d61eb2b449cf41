//! Pictures before they are coded: planes, pixel format, colour, fields, capture time.
//!
//! Samples lie in planes of their own ([`Layout::Planar`]: what codecs and measurements work on), or together in one plane as
//! uncompressed video has them on the wire ([`Layout::Pgroups`]: what a receiver writes in place). The bytes are the
//! allocator's, or [`Memory`] that `io` supplies.

use crate::time::{Time, Utc};
use serde::{Deserialize, Serialize};
use std::sync::Arc;
use thiserror::Error;

/// Width and height of a picture, in luma samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Size {
    /// Luma samples a line.
    pub width: u32,
    /// Lines.
    pub height: u32,
}

impl Size {
    /// The largest width and height that any room takes. Bounds what hostile headers can make us allocate.
    pub const MAX_SIDE: u32 = 16_384;

    /// `width` × `height`, or an error where a side is zero or larger than [`Size::MAX_SIDE`].
    pub fn new(width: u32, height: u32) -> Result<Size, PictureError> {
        let sane = 1..=Self::MAX_SIDE;
        if sane.contains(&width) && sane.contains(&height) {
            Ok(Size { width, height })
        } else {
            Err(PictureError::Size { width, height })
        }
    }
}

impl std::fmt::Display for Size {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

/// How colour is subsampled against luma.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Chroma {
    /// Luma alone.
    Mono,
    /// Halved in both directions.
    Yuv420,
    /// A quarter of the width (DV in 525-line countries).
    Yuv411,
    /// Halved in width.
    Yuv422,
    /// Not subsampled.
    Yuv444,
    /// No luma and colour differences but red, green and blue; planes are in this order.
    Rgb,
}

impl Chroma {
    /// Right shifts of width and height from luma to chroma, or `None` without chroma.
    pub const fn shifts(self) -> Option<(u32, u32)> {
        match self {
            Chroma::Mono => None,
            Chroma::Yuv420 => Some((1, 1)),
            Chroma::Yuv411 => Some((2, 0)),
            Chroma::Yuv422 => Some((1, 0)),
            Chroma::Yuv444 | Chroma::Rgb => Some((0, 0)),
        }
    }
}

/// How samples lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Each component in a plane of its own. Samples over 8 bits take two bytes, little endian, low bits used.
    Planar,
    /// All components in one plane, as RFC 4175 §4.3 and ST 2110-20 §6.2 pack them: pgroups, bit by bit and big endian, one
    /// behind the other without padding. Each line of the plane is a line of the picture; of 4:2:0, two.
    Pgroups,
}

/// The smallest run of samples that takes whole bytes (RFC 4175 §4.3, ST 2110-20 §6.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pgroup {
    /// Bytes.
    pub bytes: usize,
    /// Luma samples of a line that are in it.
    pub width: u32,
    /// Lines that are in it: two of 4:2:0.
    pub lines: u32,
}

/// Components, their depth, and how they lie in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PixelFormat {
    /// Components and subsampling.
    pub chroma: Chroma,
    /// Bits a sample, 8 to 16.
    pub depth_bits: u8,
    /// How they lie in memory.
    pub layout: Layout,
}

impl PixelFormat {
    /// 8-bit 4:2:0, three planes: what the encoders take.
    pub const I420: PixelFormat = PixelFormat::planar(Chroma::Yuv420, 8);

    /// Components in planes of their own, of 8 to 16 bits.
    pub const fn planar(chroma: Chroma, depth_bits: u8) -> PixelFormat {
        PixelFormat { chroma, depth_bits, layout: Layout::Planar }
    }

    /// The same components in pgroups; `None` where the standards have none: 4:1:1, and depths but 8, 10, 12 and 16.
    pub const fn pgroups(chroma: Chroma, depth_bits: u8) -> Option<PixelFormat> {
        let format = PixelFormat { chroma, depth_bits, layout: Layout::Pgroups };
        if format.pgroup().is_some() { Some(format) } else { None }
    }

    /// The same components in planes.
    #[must_use]
    pub const fn to_planar(self) -> PixelFormat {
        PixelFormat::planar(self.chroma, self.depth_bits)
    }

    /// What a pgroup of these components is, in whichever layout they are now; `None` as in [`PixelFormat::pgroups`].
    pub const fn pgroup(self) -> Option<Pgroup> {
        let (samples, width, lines) = match self.chroma {
            Chroma::Mono => (1, 1, 1),
            Chroma::Yuv420 => (6, 2, 2),
            Chroma::Yuv411 => return None,
            Chroma::Yuv422 => (4, 2, 1),
            Chroma::Yuv444 | Chroma::Rgb => (3, 1, 1),
        };
        if !matches!(self.depth_bits, 8 | 10 | 12 | 16) {
            return None;
        }
        // As many of the smallest groups as make whole bytes.
        let bits = samples * self.depth_bits as usize;
        let count = if bits.is_multiple_of(8) {
            1
        } else if (2 * bits).is_multiple_of(8) {
            2
        } else {
            4
        };
        Some(Pgroup { bytes: count * bits / 8, width: count as u32 * width, lines })
    }

    /// Whether each byte of a plane is a sample: components in planes of their own, of 8 bits. Pgroups are not, although their
    /// planes are counted in bytes, too.
    pub const fn is_planar_8bit(self) -> bool {
        self.depth_bits == 8 && self.is_planar()
    }

    /// Whether each component has a plane of its own.
    pub const fn is_planar(self) -> bool {
        matches!(self.layout, Layout::Planar)
    }

    /// Bytes that a sample takes in a plane of its own; 1 in pgroups, since their planes are counted in bytes.
    pub const fn sample_bytes(self) -> usize {
        if self.depth_bits > 8 && self.is_planar() { 2 } else { 1 }
    }

    /// Planes: 1 or 3.
    pub const fn planes(self) -> usize {
        if matches!(self.chroma, Chroma::Mono) || matches!(self.layout, Layout::Pgroups) { 1 } else { 3 }
    }

    /// Width and height of plane `index` of a picture of `size`, in samples; odd sizes round up. The one plane of pgroups is
    /// as wide as its lines have bytes.
    pub fn plane_size(self, size: Size, index: usize) -> Size {
        if let (Layout::Pgroups, Some(group)) = (self.layout, self.pgroup()) {
            let width = size.width.div_ceil(group.width) * group.bytes as u32;
            return Size { width, height: size.height.div_ceil(group.lines) };
        }
        let (x, y) = if index == 0 { (0, 0) } else { self.chroma.shifts().unwrap_or((0, 0)) };
        Size { width: size.width.div_ceil(1 << x), height: size.height.div_ceil(1 << y) }
    }

    /// Bytes of a picture of `size` with lines packed without padding.
    pub fn packed_bytes(self, size: Size) -> usize {
        (0..self.planes())
            .map(|index| {
                let plane = self.plane_size(size, index);
                plane.width as usize * plane.height as usize * self.sample_bytes()
            })
            .sum()
    }
}

/// What the sample values mean (ITU-T H.273 code points).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Colour {
    /// Colour primaries; 1 is BT.709, 2 unspecified.
    pub primaries: u8,
    /// Transfer characteristics.
    pub transfer: u8,
    /// Matrix coefficients.
    pub matrix: u8,
    /// Whether luma runs over all code values instead of 16–235 (at 8 bits).
    pub full_range: bool,
}

impl Colour {
    /// BT.709, limited range: high-definition television.
    pub const BT709: Colour = Colour { primaries: 1, transfer: 1, matrix: 1, full_range: false };
    /// Nothing is known but that the range is limited.
    pub const UNSPECIFIED: Colour = Colour { primaries: 2, transfer: 2, matrix: 2, full_range: false };

    /// The code point (H.273 table 4) of the matrix between RGB and luma with colour differences, for a picture of `size`: its own,
    /// or that of its primaries where it names none (as RGB does: its matrix is the identity); else BT.709 for high definition and
    /// BT.601 for up to 576 lines of less than 1280 samples.
    pub fn matrix_of(self, size: Size) -> u8 {
        match (self.matrix, self.primaries) {
            (1 | 4..=7 | 9 | 10, _) => self.matrix,
            (_, 1) => 1,
            (_, 5 | 6) => 6,
            (_, 9) => 9,
            _ if size.width >= 1280 || size.height > 576 => 1,
            _ => 6,
        }
    }

    /// Which curve of high dynamic range (BT.2100) the samples have, if it is one: PQ or HLG.
    pub const fn hdr_curve(self) -> Option<&'static str> {
        match self.transfer {
            16 => Some("PQ"),
            18 => Some("HLG"),
            _ => None,
        }
    }
}

/// Which field of an interlaced picture was captured first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldOrder {
    /// The lines from 0: all HD formats.
    TopFirst,
    /// The lines from 1: DV and 525-line television.
    BottomFirst,
}

/// Memory of planes that is not the allocator's: huge pages that a receiver has the kernel write into, out of a pool to which
/// they return when they are dropped. `io` supplies it.
pub trait Memory: std::fmt::Debug + Send + Sync {
    /// All of it.
    fn bytes(&self) -> &[u8];
    /// All of it, to write into.
    fn bytes_mut(&mut self) -> &mut [u8];
}

/// Where a plane's bytes are.
#[derive(Clone, Debug)]
enum Bytes {
    Own(Arc<[u8]>),
    Lent(Arc<dyn Memory>),
}

/// One plane: lines of samples at a stride. Planes are shared, not copied; writing to a shared one copies it.
#[derive(Clone, Debug)]
pub struct Plane {
    bytes: Bytes,
    stride_bytes: usize,
    size: Size,
    sample_bytes: usize,
}

impl Plane {
    /// Where a line begins, for SIMD: strides are multiples of this many bytes, but for planes of [`Plane::lent`].
    pub const STRIDE_ALIGN: usize = 64;

    fn new(size: Size, sample_bytes: usize) -> Plane {
        let stride_bytes = (size.width as usize * sample_bytes).next_multiple_of(Self::STRIDE_ALIGN);
        let bytes = Bytes::Own(vec![0; stride_bytes * size.height as usize].into());
        Plane { bytes, stride_bytes, size, sample_bytes }
    }

    /// A plane of 8-bit samples that lie in memory already: `size.height` lines of `size.width` samples, `stride_bytes`
    /// apart. `bytes` may go on behind the last line, as where a codec works in whole blocks.
    ///
    /// # Panics
    /// If the stride is shorter than a line or no multiple of [`Plane::STRIDE_ALIGN`], or `bytes` end before the
    /// last line's stride does: the caller has laid them out.
    pub fn shared(bytes: Arc<[u8]>, stride_bytes: usize, size: Size) -> Plane {
        assert!(stride_bytes >= size.width as usize && stride_bytes.is_multiple_of(Self::STRIDE_ALIGN));
        assert!(bytes.len() >= stride_bytes * size.height as usize);
        Plane { bytes: Bytes::Own(bytes), stride_bytes, size, sample_bytes: 1 }
    }

    /// A plane in memory that is not the allocator's: `size.height` lines of `size.width` samples of `sample_bytes`, from its
    /// beginning and `stride_bytes` apart.
    ///
    /// # Panics
    /// If the stride is shorter than a line, or the memory ends before the last line's stride does: the caller has laid it
    /// out.
    pub fn lent(memory: Arc<dyn Memory>, stride_bytes: usize, size: Size, sample_bytes: usize) -> Plane {
        assert!(stride_bytes >= size.width as usize * sample_bytes);
        assert!(memory.bytes().len() >= stride_bytes * size.height as usize);
        Plane { bytes: Bytes::Lent(memory), stride_bytes, size, sample_bytes }
    }

    fn is_shared(&self) -> bool {
        match &self.bytes {
            Bytes::Own(bytes) => Arc::strong_count(bytes) > 1,
            Bytes::Lent(memory) => Arc::strong_count(memory) > 1,
        }
    }

    /// Width and height in samples; of pgroups, bytes of a line and lines.
    pub fn size(&self) -> Size {
        self.size
    }

    /// Bytes from the start of a line to the start of the next.
    pub fn stride_bytes(&self) -> usize {
        self.stride_bytes
    }

    /// All lines with their padding: `stride_bytes × height` bytes, or more where a codec has laid them out.
    pub fn bytes(&self) -> &[u8] {
        match &self.bytes {
            Bytes::Own(bytes) => bytes,
            Bytes::Lent(memory) => memory.bytes(),
        }
    }

    /// All lines, to write into. Copies the plane first if it is shared.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        if let Bytes::Lent(memory) = &mut self.bytes
            && Arc::get_mut(memory).is_none()
        {
            self.bytes = Bytes::Own(memory.bytes().into());
        }
        match &mut self.bytes {
            Bytes::Own(bytes) => Arc::make_mut(bytes),
            // There is no other reference to it: see above.
            Bytes::Lent(memory) => Arc::get_mut(memory).map_or(&mut [], |memory| memory.bytes_mut()),
        }
    }

    /// Line `y` without its padding.
    pub fn line(&self, y: usize) -> &[u8] {
        let start = y * self.stride_bytes;
        &self.bytes()[start..start + self.size.width as usize * self.sample_bytes]
    }

    /// Line `y` without its padding, to write into. Copies the plane first if it is shared.
    pub fn line_mut(&mut self, y: usize) -> &mut [u8] {
        let (start, length) = (y * self.stride_bytes, self.size.width as usize * self.sample_bytes);
        &mut self.bytes_mut()[start..start + length]
    }

    /// The lines from the top, without padding, to write into. Copies the plane first if it is shared.
    pub fn lines_mut(&mut self) -> impl Iterator<Item = &mut [u8]> {
        let (stride, length) = (self.stride_bytes, self.size.width as usize * self.sample_bytes);
        self.bytes_mut().chunks_exact_mut(stride).map(move |line| &mut line[..length])
    }

    /// The lines from the top, without padding.
    pub fn lines(&self) -> impl Iterator<Item = &[u8]> {
        (0..self.size.height as usize).map(|y| self.line(y))
    }
}

/// Planes with the same samples are equal, however these lie in memory.
impl PartialEq for Plane {
    fn eq(&self, other: &Plane) -> bool {
        (self.size, self.sample_bytes) == (other.size, other.sample_bytes) && self.lines().eq(other.lines())
    }
}

impl Eq for Plane {}

/// One uncompressed picture. Cloning shares the planes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    format: PixelFormat,
    size: Size,
    planes: Vec<Plane>,
    /// Where even and odd lines are two fields, captured one after the other: which came first.
    pub fields: Option<FieldOrder>,
    /// What the samples mean.
    pub colour: Colour,
    /// When it was captured: taken once, and the source of every later time stamp.
    pub captured: Time,
    /// The wall clock at `captured`, where it is known.
    pub captured_utc: Option<Utc>,
}

impl Picture {
    /// A picture with all samples zero.
    pub fn new(format: PixelFormat, size: Size, captured: Time) -> Picture {
        let planes = (0..format.planes())
            .map(|index| Plane::new(format.plane_size(size, index), format.sample_bytes()))
            .collect();
        Picture::of(format, size, planes, captured)
    }

    fn of(format: PixelFormat, size: Size, planes: Vec<Plane>, captured: Time) -> Picture {
        let colour = Colour::UNSPECIFIED;
        Picture { format, size, planes, fields: None, colour, captured, captured_utc: None }
    }

    /// A picture of planes that are there already: luma, then Cb and Cr where the format has them. Shares them.
    ///
    /// # Panics
    /// If number, sizes or sample size of the planes are not those of `format` and `size`.
    pub fn of_planes(format: PixelFormat, size: Size, planes: Vec<Plane>, captured: Time) -> Picture {
        assert_eq!(planes.len(), format.planes());
        for (index, plane) in planes.iter().enumerate() {
            assert_eq!(plane.size, format.plane_size(size, index));
            assert_eq!(plane.sample_bytes, format.sample_bytes());
        }
        Picture::of(format, size, planes, captured)
    }

    /// Components, depth and layout.
    pub fn format(&self) -> PixelFormat {
        self.format
    }

    /// Width and height in luma samples.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The planes: luma, then Cb and Cr where the format has them; or the one of pgroups.
    pub fn planes(&self) -> &[Plane] {
        &self.planes
    }

    /// Whether a clone shares one of the planes, so that writing to it would copy.
    pub fn is_shared(&self) -> bool {
        self.planes.iter().any(Plane::is_shared)
    }

    /// The planes, to write into.
    pub fn planes_mut(&mut self) -> &mut [Plane] {
        &mut self.planes
    }
}

/// Lends out the planes of earlier pictures again, so that a source allocates none while it runs: fresh pages cost a 720p picture
/// more than its conversion does.
#[derive(Clone, Debug, Default)]
pub struct PicturePool {
    kept: Vec<Picture>,
}

impl PicturePool {
    /// Pictures that are kept at most; where a caller holds more of them at a time, the others are allocated.
    const MAX: usize = 8;

    /// A picture to write into. Its samples are those of an earlier picture: the caller writes all of them.
    pub fn take(&mut self, format: PixelFormat, size: Size, captured: Time) -> Picture {
        self.kept.retain(|kept| kept.format == format && kept.size() == size);
        let Some(free) = self.kept.iter().position(|kept| !kept.is_shared()) else {
            return Picture::new(format, size, captured);
        };
        let picture = self.kept.swap_remove(free);
        Picture { fields: None, colour: Colour::UNSPECIFIED, captured, captured_utc: None, ..picture }
    }

    /// Remembers a picture that is about to be given away: it can be taken again once its last clone is gone.
    pub fn keep(&mut self, picture: &Picture) {
        if self.kept.len() < Self::MAX {
            self.kept.push(picture.clone());
        }
    }
}

/// A picture that cannot be.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum PictureError {
    /// A side is zero or too large.
    #[error("picture of {width}x{height}: each side must be 1 to {}", Size::MAX_SIDE)]
    Size {
        /// Found width.
        width: u32,
        /// Found height.
        height: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn odd_sizes_round_chroma_up() {
        let size = Size::new(5, 3).unwrap();
        assert_eq!(PixelFormat::I420.plane_size(size, 1), Size { width: 3, height: 2 });
        assert_eq!(PixelFormat::I420.packed_bytes(size), 15 + 6 + 6);
        let ten_bit = PixelFormat::planar(Chroma::Yuv422, 10);
        assert_eq!(ten_bit.packed_bytes(size), 2 * (15 + 9 + 9));
    }

    #[test]
    fn a_clone_shares_planes_until_one_writes() {
        let first = Picture::new(PixelFormat::I420, Size::new(64, 64).unwrap(), Time::ZERO);
        let mut second = first.clone();
        assert!(std::ptr::eq(first.planes()[1].bytes(), second.planes()[1].bytes()));
        second.planes_mut()[1].line_mut(0)[0] = 7;
        assert_eq!(first.planes()[1].line(0)[0], 0);
        assert_eq!(second.planes()[1].line(0)[0], 7);
    }

    #[test]
    fn bytes_are_samples_in_planes_of_8_bits_alone() {
        let packed = PixelFormat::pgroups(Chroma::Yuv422, 8).unwrap();
        assert!(PixelFormat::I420.is_planar_8bit() && packed.to_planar().is_planar_8bit());
        assert!(!packed.is_planar_8bit() && !PixelFormat::planar(Chroma::Yuv420, 9).is_planar_8bit());
    }

    #[test]
    fn pgroups_are_those_of_the_standards() {
        let group = |chroma, depth_bits| {
            let group = PixelFormat::pgroups(chroma, depth_bits)?.pgroup()?;
            Some((group.bytes, group.width, group.lines))
        };
        // ST 2110-20 tables 1 to 4.
        for (chroma, expected) in [
            (Chroma::Mono, [(1, 1, 1), (5, 4, 1), (3, 2, 1), (2, 1, 1)]),
            (Chroma::Yuv420, [(6, 2, 2), (15, 4, 2), (9, 2, 2), (12, 2, 2)]),
            (Chroma::Yuv422, [(4, 2, 1), (5, 2, 1), (6, 2, 1), (8, 2, 1)]),
            (Chroma::Yuv444, [(3, 1, 1), (15, 4, 1), (9, 2, 1), (6, 1, 1)]),
            (Chroma::Rgb, [(3, 1, 1), (15, 4, 1), (9, 2, 1), (6, 1, 1)]),
        ] {
            assert_eq!([8, 10, 12, 16].map(|depth| group(chroma, depth)), expected.map(Some), "{chroma:?}");
        }
        assert_eq!((group(Chroma::Yuv411, 8), group(Chroma::Yuv422, 9)), (None, None));
        let size = Size::new(1920, 1080).unwrap();
        let bytes = |chroma, depth| PixelFormat::pgroups(chroma, depth).unwrap().packed_bytes(size);
        assert_eq!(bytes(Chroma::Yuv422, 10), 1080 * 4800);
        assert_eq!(bytes(Chroma::Yuv420, 8), 1920 * 1080 * 3 / 2);
        let picture = Picture::new(
            PixelFormat::pgroups(Chroma::Yuv420, 8).unwrap(),
            Size::new(6, 5).unwrap(),
            Time::ZERO,
        );
        assert_eq!((picture.size().to_string(), picture.planes().len()), ("6x5".to_owned(), 1));
        assert_eq!(picture.planes()[0].size().to_string(), "18x3");
    }

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

    #[test]
    fn lent_memory_is_written_in_place_until_it_is_shared() {
        let size = Size::new(4, 2).unwrap();
        let memory: Arc<dyn Memory> = Arc::new(Boxed((0..20).collect()));
        let at = memory.bytes().as_ptr();
        let mut plane = Plane::lent(memory, 10, size, 2);
        plane.line_mut(1)[0] = 99;
        assert_eq!((plane.bytes().as_ptr(), plane.line(1)), (at, &[99, 11, 12, 13, 14, 15, 16, 17][..]));
        let mut other = plane.clone();
        assert!(plane.is_shared());
        other.line_mut(0)[0] = 7;
        assert_ne!(plane, other);
        assert_eq!((plane.line(0)[0], other.line(0)[0], other.line(1)[0]), (0, 7, 99));
        assert!(!plane.is_shared() && plane.bytes().as_ptr() == at);
        let mut again = Plane::new(size, 2);
        again.lines_mut().zip(plane.lines()).for_each(|(to, from)| to.copy_from_slice(from));
        assert_eq!(again, plane, "at another stride");
    }

    #[test]
    fn a_pool_gives_planes_again_once_nobody_holds_them() {
        let size = Size::new(64, 64).unwrap();
        let mut pool = PicturePool::default();
        let mut first = pool.take(PixelFormat::I420, size, Time::ZERO);
        first.planes_mut()[0].line_mut(0)[0] = 7;
        pool.keep(&first);
        let second = pool.take(PixelFormat::I420, size, Time::ZERO);
        assert_eq!(second.planes()[0].line(0)[0], 0, "the first one is still held");
        drop(first);
        let third = pool.take(PixelFormat::I420, size, Time::from_millis(5));
        assert_eq!((third.planes()[0].line(0)[0], third.captured), (7, Time::from_millis(5)));
        assert!(!third.is_shared());
        let other = pool.take(PixelFormat::I420, Size::new(32, 32).unwrap(), Time::ZERO);
        assert_eq!(other.size().width, 32);
    }

    #[test]
    fn sizes_out_of_range_are_refused() {
        assert!(Size::new(0, 1).is_err());
        assert!(Size::new(1, 16_385).is_err());
    }
}
