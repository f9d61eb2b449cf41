//! Pgroups to lines of planes and back, as they are defined (RFC 4175 §4.3, ST 2110-20 §6.2): the samples of a group follow each
//! other without gaps, the most significant bit first.

use crate::picture::{Chroma, PixelFormat};

/// Luma (or red), Cb (green), Cr (blue), and the second line of luma that a pgroup of 4:2:0 holds. Each has place for the samples
/// of all groups; what a format does not have is empty.
pub(crate) type Lines<'a> = [&'a mut [u8]; 4];

/// The same to read.
pub(crate) type ReadLines<'a> = [&'a [u8]; 4];

/// Calls a function of `<bits, samples>` with the lines to which a group's samples belong, in the group's order.
macro_rules! by_format {
    ($format:expr, $function:ident($($argument:expr),*)) => {
        match ($format.chroma, $format.depth_bits) {
            (Chroma::Mono, 8) => $function::<8, 1>([0], $($argument),*),
            (Chroma::Mono, 10) => $function::<10, 4>([0; 4], $($argument),*),
            (Chroma::Mono, 12) => $function::<12, 2>([0; 2], $($argument),*),
            (Chroma::Mono, 16) => $function::<16, 1>([0], $($argument),*),
            (Chroma::Yuv420, 8) => $function::<8, 6>([0, 0, 3, 3, 1, 2], $($argument),*),
            (Chroma::Yuv420, 10) => {
                $function::<10, 12>([0, 0, 3, 3, 1, 2, 0, 0, 3, 3, 1, 2], $($argument),*)
            }
            (Chroma::Yuv420, 12) => $function::<12, 6>([0, 0, 3, 3, 1, 2], $($argument),*),
            (Chroma::Yuv420, 16) => $function::<16, 6>([0, 0, 3, 3, 1, 2], $($argument),*),
            (Chroma::Yuv422, 8) => $function::<8, 4>([1, 0, 2, 0], $($argument),*),
            (Chroma::Yuv422, 10) => $function::<10, 4>([1, 0, 2, 0], $($argument),*),
            (Chroma::Yuv422, 12) => $function::<12, 4>([1, 0, 2, 0], $($argument),*),
            (Chroma::Yuv422, 16) => $function::<16, 4>([1, 0, 2, 0], $($argument),*),
            (Chroma::Yuv444, 8) => $function::<8, 3>([1, 0, 2], $($argument),*),
            (Chroma::Yuv444, 10) => {
                $function::<10, 12>([1, 0, 2, 1, 0, 2, 1, 0, 2, 1, 0, 2], $($argument),*)
            }
            (Chroma::Yuv444, 12) => $function::<12, 6>([1, 0, 2, 1, 0, 2], $($argument),*),
            (Chroma::Yuv444, 16) => $function::<16, 3>([1, 0, 2], $($argument),*),
            (Chroma::Rgb, 8) => $function::<8, 3>([0, 1, 2], $($argument),*),
            (Chroma::Rgb, 10) => {
                $function::<10, 12>([0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2], $($argument),*)
            }
            (Chroma::Rgb, 12) => $function::<12, 6>([0, 1, 2, 0, 1, 2], $($argument),*),
            (Chroma::Rgb, 16) => $function::<16, 3>([0, 1, 2], $($argument),*),
            // `PixelFormat::pgroup` has no others.
            _ => {}
        }
    };
}

pub(in super::super) fn unpack_pgroups(format: PixelFormat, groups: &[u8], lines: &mut Lines<'_>) {
    unpack_pgroups_from(0, format, groups, lines);
}

/// The same from group `first` on.
pub(in super::super) fn unpack_pgroups_from(
    first: usize,
    format: PixelFormat,
    groups: &[u8],
    lines: &mut Lines<'_>,
) {
    by_format!(format, unpack_each(first, groups, lines));
}

pub(in super::super) fn pack_pgroups(format: PixelFormat, lines: &ReadLines<'_>, groups: &mut [u8]) {
    pack_pgroups_from(0, format, lines, groups);
}

/// The same from group `first` on.
pub(in super::super) fn pack_pgroups_from(
    first: usize,
    format: PixelFormat,
    lines: &ReadLines<'_>,
    groups: &mut [u8],
) {
    by_format!(format, pack_each(first, lines, groups));
}

/// Bytes of a sample in a plane.
const fn sample_bytes(depth_bits: usize) -> usize {
    depth_bits.div_ceil(8)
}

/// Bytes that a group has of each line.
#[inline(always)]
fn bytes_of_lines<const DEPTH: usize, const SAMPLES: usize>(order: [usize; SAMPLES]) -> [usize; 4] {
    let mut bytes = [0; 4];
    order.iter().for_each(|&line| bytes[line] += sample_bytes(DEPTH));
    bytes
}

#[inline(always)]
fn unpack_each<const DEPTH: usize, const SAMPLES: usize>(
    order: [usize; SAMPLES],
    first: usize,
    groups: &[u8],
    lines: &mut Lines<'_>,
) {
    let (group_bytes, step) = (DEPTH * SAMPLES / 8, sample_bytes(DEPTH));
    let line_bytes = bytes_of_lines::<DEPTH, SAMPLES>(order);
    for (number, group) in groups.chunks_exact(group_bytes).enumerate().skip(first) {
        let mut bytes = [0; 16];
        bytes[..group_bytes].copy_from_slice(group);
        let bits = u128::from_be_bytes(bytes);
        let [one, two, three, four] = lines;
        let places = [
            &mut one[number * line_bytes[0]..][..line_bytes[0]],
            &mut two[number * line_bytes[1]..][..line_bytes[1]],
            &mut three[number * line_bytes[2]..][..line_bytes[2]],
            &mut four[number * line_bytes[3]..][..line_bytes[3]],
        ];
        let mut written = [0; 4];
        for (index, line) in order.into_iter().enumerate() {
            let sample = (bits >> (128 - DEPTH * (index + 1))) as u16 & (u16::MAX >> (16 - DEPTH));
            places[line][written[line]..][..step].copy_from_slice(&sample.to_le_bytes()[..step]);
            written[line] += step;
        }
    }
}

#[inline(always)]
fn pack_each<const DEPTH: usize, const SAMPLES: usize>(
    order: [usize; SAMPLES],
    first: usize,
    lines: &ReadLines<'_>,
    groups: &mut [u8],
) {
    let (group_bytes, step) = (DEPTH * SAMPLES / 8, sample_bytes(DEPTH));
    let line_bytes = bytes_of_lines::<DEPTH, SAMPLES>(order);
    for (number, group) in groups.chunks_exact_mut(group_bytes).enumerate().skip(first) {
        let places: [&[u8]; 4] =
            std::array::from_fn(|line| &lines[line][number * line_bytes[line]..][..line_bytes[line]]);
        let (mut bits, mut read) = (0u128, [0; 4]);
        for (index, line) in order.into_iter().enumerate() {
            let mut sample = [0; 2];
            sample[..step].copy_from_slice(&places[line][read[line]..][..step]);
            // Bits above the depth are no part of a sample.
            let sample = u16::from_le_bytes(sample) & (u16::MAX >> (16 - DEPTH));
            bits |= u128::from(sample) << (128 - DEPTH * (index + 1));
            read[line] += step;
        }
        group.copy_from_slice(&bits.to_be_bytes()[..group_bytes]);
    }
}
