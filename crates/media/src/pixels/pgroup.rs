//! Between pgroups, which uncompressed video has on the wire, and planes (RFC 4175 §4.3, ST 2110-20 §6.2).
//!
//! ```text
//!            a group's samples, the most significant bit first         planes
//! 4:2:2      Cb Y0 Cr Y1                                               Y, Cb, Cr
//! 4:2:0      Y00 Y01 Y10 Y11 Cb Cr   (first digit: which of two lines) Y, Cb, Cr
//! 4:4:4      Cb Y Cr                                                   Y, Cb, Cr
//! RGB        R G B                                                     R, G, B
//! luma       Y                                                         Y
//! ```
//! Where these are no whole bytes, two or four of them are a group; of 10-bit 4:2:0, chroma follows each four samples of luma.
//! [`Layout`] says how deep samples lie in planes. A width that is no multiple of a group's is filled up with the last sample of a
//! line, and an odd height of 4:2:0 with its last line; unpacking leaves both out.
//!
//! Whole pictures go through [`Unpacker`] and [`Packer`]. A receiver that unpacks from the buffer in which the packets came, while
//! the processor's cache has it, borrows the picture's planes once ([`PlanarLines`]) and writes run by run
//! ([`Unpacker::unpack_run`]), or has planes without padding and hands over bytes by where they are in a frame
//! ([`super::FrameUnpacker`]).

use super::PixelsError;
use super::simd::{Lines, ReadLines, Simd};
use crate::picture::{Chroma, Layout, Picture, PicturePool, PixelFormat, Plane, Size};
use std::ops::Range;

/// Most bytes that a group has of one line of a plane: four samples of two bytes.
const GROUP_LINE_BYTES: usize = 8;

/// Bytes that a group of `format` has of each line that it touches, in the order of [`Lines`].
pub(super) fn group_line_bytes(format: PixelFormat) -> [usize; 4] {
    let width = format.pgroup().map_or(0, |group| group.width as usize);
    let luma = width * format.to_planar().sample_bytes();
    let chroma = format.chroma.shifts().map_or(0, |(shift, _)| luma >> shift);
    [luma, chroma, chroma, if format.chroma == Chroma::Yuv420 { luma } else { 0 }]
}

/// One line of pgroups to the lines of planes that are in it, which may end within the last group.
///
/// # Panics
/// Where a line of 4:2:0 has no second line; the last one of an odd height gives a line that is thrown away.
pub(crate) fn unpack_line(simd: Simd, format: PixelFormat, groups: &[u8], mut lines: Lines<'_>) {
    let Some(group) = format.pgroup() else { return };
    let per_group = group_line_bytes(format);
    let room =
        (0..4).filter(|&line| per_group[line] > 0).map(|line| lines[line].len() / per_group[line]).min();
    let whole = (groups.len() / group.bytes).min(room.unwrap_or(0));
    let (now, rest) = groups.split_at(whole * group.bytes);
    simd.unpack_pgroups(format, now, &mut lines);
    let Some(rest) = rest.get(..group.bytes) else { return };
    let mut last = [[0; GROUP_LINE_BYTES]; 4];
    Simd::PORTABLE.unpack_pgroups(format, rest, &mut last.each_mut().map(|line| &mut line[..]));
    for ((line, last), per_group) in lines.into_iter().zip(last).zip(per_group) {
        let end = line.get_mut(whole * per_group..).unwrap_or_default();
        let length = end.len().min(per_group);
        end[..length].copy_from_slice(&last[..length]);
    }
}

/// Lines of planes to one line of pgroups; the last group is filled up with the last samples.
pub(crate) fn pack_line(simd: Simd, format: PixelFormat, lines: &ReadLines<'_>, groups: &mut [u8]) {
    let Some(group) = format.pgroup() else { return };
    let (per_group, sample_bytes) = (group_line_bytes(format), format.to_planar().sample_bytes());
    let have =
        (0..4).filter(|&line| per_group[line] > 0).map(|line| lines[line].len() / per_group[line]).min();
    let whole = (groups.len() / group.bytes).min(have.unwrap_or(0));
    let (now, rest) = groups.split_at_mut(whole * group.bytes);
    simd.pack_pgroups(format, lines, now);
    let Some(rest) = rest.get_mut(..group.bytes) else { return };
    let mut last = [[0; GROUP_LINE_BYTES]; 4];
    for ((line, last), per_group) in lines.iter().zip(&mut last).zip(per_group) {
        let end = &line[(whole * per_group).min(line.len())..];
        let repeated = line.rchunks_exact(sample_bytes).next().into_iter().flatten().cycle();
        for (out, &byte) in last[..per_group].iter_mut().zip(end.iter().chain(repeated)) {
            *out = byte;
        }
    }
    Simd::PORTABLE.pack_pgroups(format, &last.each_ref().map(|line| &line[..]), rest);
}

/// The planes of a picture, borrowed once so that many runs of pgroups can be written into them: asking each time whether planes
/// are shared would cost as much as unpacking a packet.
#[derive(Debug)]
pub struct PlanarLines<'a> {
    format: PixelFormat,
    size: Size,
    /// Bytes, stride and length of a line.
    planes: [(&'a mut [u8], usize, usize); 3],
    /// Where the second line of 4:2:0 goes that is below an odd height.
    below: Vec<u8>,
}

impl<'a> PlanarLines<'a> {
    /// Of a planar picture. Copies planes that are shared.
    ///
    /// # Panics
    /// Where `picture` is in pgroups.
    pub fn of(picture: &'a mut Picture) -> PlanarLines<'a> {
        let (format, size) = (picture.format(), picture.size());
        assert_eq!(format.layout, Layout::Planar, "planes to unpack into");
        let mut planes = picture.planes_mut().iter_mut().map(|plane| {
            let (stride, length) =
                (plane.stride_bytes(), plane.size().width as usize * format.sample_bytes());
            (plane.bytes_mut(), stride, length)
        });
        let planes = std::array::from_fn(|_| planes.next().unwrap_or_default());
        PlanarLines { format, size, planes, below: Vec::new() }
    }

    /// Width and height of the picture.
    pub fn size(&self) -> Size {
        self.size
    }

    /// The lines that line `y` of pgroups holds, from group `first` on.
    fn lines(&mut self, y: usize, first: usize) -> Lines<'_> {
        let per_group = group_line_bytes(self.format);
        let [(luma, luma_stride, luma_bytes), blue, red] = &mut self.planes;
        let from = |line: usize, bytes: usize| (first * per_group[line]).min(bytes);
        let [blue, red] = [(blue, 1), (red, 2)].map(|((bytes, stride, length), line)| {
            let bytes = bytes.get_mut(y * *stride..).unwrap_or_default();
            bytes.get_mut(from(line, *length)..*length).unwrap_or_default()
        });
        let luma_from = from(0, *luma_bytes);
        if self.format.chroma != Chroma::Yuv420 {
            let luma = &mut luma[y * *luma_stride..];
            return [&mut luma[luma_from..*luma_bytes], blue, red, &mut []];
        }
        let (upper, lower) = luma[2 * y * *luma_stride..].split_at_mut(*luma_stride);
        let lower = if 2 * y + 1 < self.size.height as usize {
            lower
        } else {
            self.below.resize(*luma_bytes, 0);
            &mut self.below
        };
        [&mut upper[luma_from..*luma_bytes], blue, red, &mut lower[luma_from..*luma_bytes]]
    }
}

/// Makes planes of pgroups. Keeps planes to be used again; otherwise each picture is on its own.
#[derive(Clone, Debug)]
pub struct Unpacker {
    simd: Simd,
    pool: PicturePool,
}

impl Default for Unpacker {
    fn default() -> Unpacker {
        Unpacker::new()
    }
}

impl Unpacker {
    /// With the fastest instructions that there are.
    pub fn new() -> Unpacker {
        Unpacker::with(Simd::best())
    }

    /// With given instructions. The result is the same.
    pub fn with(simd: Simd) -> Unpacker {
        Unpacker { simd, pool: PicturePool::default() }
    }

    /// `picture` in planes of the same components and depth; times, colour and fields are kept. One in planes is cloned, which
    /// copies nothing.
    ///
    /// Cost: about that of copying it.
    pub fn unpack(&mut self, picture: &Picture) -> Picture {
        if picture.format().layout == Layout::Planar {
            return picture.clone();
        }
        let mut out = taken(&mut self.pool, picture, picture.format().to_planar());
        self.unpack_lines(
            picture,
            0..picture.planes()[0].size().height as usize,
            &mut PlanarLines::of(&mut out),
        );
        self.pool.keep(&out);
        out
    }

    /// Lines of the plane of `picture`, which is in pgroups, into the planes of another of the same size, components and depth. Of
    /// 4:2:0 each of these lines is two of the picture.
    ///
    /// # Panics
    /// If the two pictures differ in size, components or depth, or the plane has fewer lines.
    pub fn unpack_lines(&self, picture: &Picture, lines: Range<usize>, to: &mut PlanarLines<'_>) {
        assert_eq!((picture.format().to_planar(), picture.size()), (to.format, to.size));
        assert_eq!(picture.format().layout, Layout::Pgroups, "pgroups to unpack");
        let plane = &picture.planes()[0];
        for y in lines {
            unpack_line(self.simd, picture.format(), plane.line(y), to.lines(y, 0));
        }
    }

    /// A run of whole pgroups, as a packet brings it, into line `line` (of 4:2:0: lines `line` and `line` + 1) from sample `x_px`
    /// on. What goes beyond the end of the line is left out, and so is a group that is cut short.
    ///
    /// # Errors
    /// [`PixelsError::Run`] where the line is not of the picture, `x_px` lies within a group or behind the line's end, or the
    /// components are none that pgroups hold. Nothing is written then.
    pub fn unpack_run(
        &self,
        groups: &[u8],
        (x_px, line): (u32, u32),
        to: &mut PlanarLines<'_>,
    ) -> Result<(), PixelsError> {
        let run = PixelsError::Run { x_px, line, size: to.size };
        let group = to.format.pgroup().ok_or_else(|| run.clone())?;
        let inside = x_px < to.size.width && line < to.size.height;
        if !inside || !x_px.is_multiple_of(group.width) || !line.is_multiple_of(group.lines) {
            return Err(run);
        }
        let format = to.format;
        let lines = to.lines((line / group.lines) as usize, (x_px / group.width) as usize);
        unpack_line(self.simd, format, groups, lines);
        Ok(())
    }
}

/// A picture of `pool` for what `picture` becomes in another format.
pub(super) fn taken(pool: &mut PicturePool, picture: &Picture, format: PixelFormat) -> Picture {
    let mut out = pool.take(format, picture.size(), picture.captured);
    (out.colour, out.captured_utc, out.fields) = (picture.colour, picture.captured_utc, picture.fields);
    out
}

/// Makes pgroups of planes. Keeps planes to be used again; otherwise each picture is on its own.
#[derive(Clone, Debug)]
pub struct Packer {
    simd: Simd,
    pool: PicturePool,
}

impl Default for Packer {
    fn default() -> Packer {
        Packer::new()
    }
}

impl Packer {
    /// With the fastest instructions that there are.
    pub fn new() -> Packer {
        Packer::with(Simd::best())
    }

    /// With given instructions. The result is the same.
    pub fn with(simd: Simd) -> Packer {
        Packer { simd, pool: PicturePool::default() }
    }

    /// `picture` in pgroups of the same components and depth; times, colour and fields are kept. One in pgroups is cloned, which
    /// copies nothing.
    ///
    /// # Errors
    /// [`PixelsError::NoPgroups`] where the standards have none for its components and depth.
    ///
    /// Cost: about that of copying it.
    pub fn pack(&mut self, picture: &Picture) -> Result<Picture, PixelsError> {
        let from = picture.format();
        if from.layout == Layout::Pgroups {
            return Ok(picture.clone());
        }
        let format = PixelFormat::pgroups(from.chroma, from.depth_bits)
            .ok_or(PixelsError::NoPgroups { found: from })?;
        let mut out = taken(&mut self.pool, picture, format);
        for (y, groups) in out.planes_mut()[0].lines_mut().enumerate() {
            self.pack_line(picture, y, groups);
        }
        self.pool.keep(&out);
        Ok(out)
    }

    /// Line `y` of what [`Packer::pack`] gives, into as many bytes as such a line has: for a sender that packs what it is about to
    /// send. `picture` is in planes. Of 4:2:0 it is two lines of the picture.
    ///
    /// # Panics
    /// Where the picture has no such line, or is in pgroups.
    pub fn pack_line(&self, picture: &Picture, y: usize, groups: &mut [u8]) {
        let format = picture.format();
        assert_eq!(format.layout, Layout::Planar, "planes to pack");
        let [luma, chroma @ ..] = picture.planes() else { return };
        let chroma = |index: usize| chroma.get(index).map_or(&[][..], |plane: &Plane| plane.line(y));
        let lines = if format.chroma == Chroma::Yuv420 {
            let lower = (2 * y + 1).min(luma.size().height as usize - 1);
            [luma.line(2 * y), chroma(0), chroma(1), luma.line(lower)]
        } else {
            [luma.line(y), chroma(0), chroma(1), &[]]
        };
        pack_line(self.simd, format, &lines, groups);
    }
}

#[cfg(test)]
#[path = "pgroup_tests.rs"]
mod tests;
