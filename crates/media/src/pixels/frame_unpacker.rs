//! Frames of pgroups to planes, packet by packet.

use super::pgroup::group_line_bytes;
use super::simd::Simd;
use crate::picture::{PixelFormat, Size};

/// Unpacks frames of one format and size as their bytes come, in any order, into planes that lie in the caller's memory without
/// padding. All that can be known before is worked out once, since packets are small and many.
#[derive(Clone, Debug)]
pub struct FrameUnpacker {
    simd: Simd,
    format: PixelFormat,
    /// Bytes of a group, and of a line of groups.
    group_bytes: u32,
    line_bytes: u32,
    /// Bytes that a group has in a line of each plane, and bytes of such a line; of 4:2:0 the luma of the group's other line comes
    /// last.
    per_group: [usize; 4],
    strides: [usize; 3],
    /// Lines of pgroups.
    rows: usize,
    /// Lines of luma.
    height: usize,
    is_paired: bool,
    /// What is below an odd height of 4:2:0.
    below: Vec<u8>,
}

impl FrameUnpacker {
    /// For frames of `size` in the pgroups of `format`, whichever layout that says. `None` where there are no pgroups for it, and
    /// where a line is no whole number of them.
    pub fn new(format: PixelFormat, size: Size) -> Option<FrameUnpacker> {
        let packed = PixelFormat::pgroups(format.chroma, format.depth_bits)?;
        let (group, planar) = (packed.pgroup()?, packed.to_planar());
        if !size.width.is_multiple_of(group.width) {
            return None;
        }
        let stride = |plane: usize| match plane < planar.planes() {
            true => planar.plane_size(size, plane).width as usize * planar.sample_bytes(),
            false => 0,
        };
        let strides = [stride(0), stride(1), stride(2)];
        let lines = packed.plane_size(size, 0);
        let is_paired = group.lines > 1;
        Some(FrameUnpacker {
            simd: Simd::best(),
            format: packed,
            group_bytes: group.bytes as u32,
            line_bytes: lines.width,
            per_group: group_line_bytes(packed),
            strides,
            rows: lines.height as usize,
            height: size.height as usize,
            is_paired,
            below: vec![0; if is_paired { strides[0] } else { 0 }],
        })
    }

    /// Unpacks whole groups of a frame, which begin at byte `at` of it, into its planes (of which luma alone has one). What lies
    /// behind the frame, and a group that is cut short, is left out.
    ///
    /// # Panics
    /// Where a plane is shorter than the frame.
    pub fn unpack(&mut self, at: usize, bytes: &[u8], planes: [&mut [u8]; 3]) {
        // A frame has less than 4 GiB, and dividing 32 bits is quicker.
        let Ok(at) = u32::try_from(at) else { return };
        let (mut row, mut start, mut rest) = ((at / self.line_bytes) as usize, at % self.line_bytes, bytes);
        let [luma, blue, red] = planes;
        while !rest.is_empty() && row < self.rows {
            let (run, behind) = rest.split_at(rest.len().min((self.line_bytes - start) as usize));
            let (first, count) = ((start / self.group_bytes) as usize, run.len() / self.group_bytes as usize);
            let groups = &run[..count * self.group_bytes as usize];
            let part = |line: usize, plane: usize, y: usize| {
                let from = y * self.strides[plane] + first * self.per_group[line];
                from..from + count * self.per_group[line]
            };
            let (blue, red) = (&mut blue[part(1, 1, row)], &mut red[part(2, 2, row)]);
            if self.is_paired {
                let (upper, lower) = luma.split_at_mut((2 * row + 1) * self.strides[0]);
                let upper = &mut upper[part(0, 0, 2 * row)];
                let lower = if 2 * row + 1 < self.height { lower } else { &mut self.below };
                let lower = &mut lower[part(3, 0, 0)];
                self.simd.unpack_pgroups(self.format, groups, &mut [upper, blue, red, lower]);
            } else {
                let luma = &mut luma[part(0, 0, row)];
                self.simd.unpack_pgroups(self.format, groups, &mut [luma, blue, red, &mut []]);
            }
            (row, start, rest) = (row + 1, 0, behind);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Packer, Unpacker};
    use super::*;
    use crate::picture::{Chroma, Picture};
    use crate::time::Time;
    use proptest::prelude::*;

    fn noise(format: PixelFormat, size: Size) -> Picture {
        let (mut picture, mut state) = (Picture::new(format.to_planar(), size, Time::ZERO), 7u32);
        for line in picture.planes_mut().iter_mut().flat_map(|plane| plane.lines_mut()) {
            for sample in line.chunks_mut(format.to_planar().sample_bytes()) {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let value = (state >> 16) as u16 >> (16 - format.depth_bits);
                sample.copy_from_slice(&value.to_le_bytes()[..sample.len()]);
            }
        }
        Packer::new().pack(&picture).unwrap()
    }

    fn formats() -> impl Strategy<Value = PixelFormat> {
        let chroma = prop::sample::select(vec![
            Chroma::Mono,
            Chroma::Yuv420,
            Chroma::Yuv422,
            Chroma::Yuv444,
            Chroma::Rgb,
        ]);
        (chroma, prop::sample::select(vec![8u8, 10, 12, 16]))
            .prop_filter_map("pgroups", |(chroma, depth)| PixelFormat::pgroups(chroma, depth))
    }

    proptest! {
        #[test]
        fn pieces_in_any_order_are_the_whole_unpacked(
            format in formats(), groups in 1u32..40, height in 1u32..7, cuts in prop::collection::vec(1usize..50, 1..60),
            is_backward: bool,
        ) {
            let group = format.pgroup().unwrap();
            let size = Size::new(groups * group.width, height).unwrap();
            let packed = noise(format, size);
            let bytes: Vec<u8> = packed.planes()[0].lines().flatten().copied().collect();
            let whole = Unpacker::new().unpack(&packed);
            let planar = format.to_planar();
            let mut planes: [Vec<u8>; 3] = std::array::from_fn(|plane| {
                let size = if plane < planar.planes() { planar.plane_size(size, plane) } else { Size { width: 0, height: 0 } };
                vec![0; size.width as usize * size.height as usize * planar.sample_bytes()]
            });
            let mut unpacker = FrameUnpacker::new(format, size).unwrap();
            let (mut pieces, mut at, mut next) = (Vec::new(), 0, cuts.iter().cycle());
            while at < bytes.len() {
                let end = bytes.len().min(at + next.next().unwrap() * group.bytes);
                pieces.push((at, &bytes[at..end]));
                at = end;
            }
            if is_backward {
                pieces.reverse();
            }
            for (at, piece) in pieces {
                unpacker.unpack(at, piece, planes.each_mut().map(|plane| &mut plane[..]));
            }
            // Behind the frame there is nothing.
            unpacker.unpack(bytes.len(), &bytes, planes.each_mut().map(|plane| &mut plane[..]));
            for (plane, expected) in planes.iter().zip(whole.planes()) {
                prop_assert!(expected.lines().flatten().eq(plane));
            }
        }
    }

    #[test]
    fn lines_of_broken_groups_are_refused() {
        let format = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        assert!(FrameUnpacker::new(format, Size::new(3, 2).unwrap()).is_none());
        assert!(
            FrameUnpacker::new(PixelFormat::planar(Chroma::Yuv411, 8), Size::new(8, 2).unwrap()).is_none()
        );
    }
}
