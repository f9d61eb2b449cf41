use super::*;
use crate::picture::{Colour, FieldOrder};
use crate::time::{Time, Utc};
use proptest::prelude::*;

const CHROMAS: [Chroma; 5] = [Chroma::Mono, Chroma::Yuv420, Chroma::Yuv422, Chroma::Yuv444, Chroma::Rgb];
const DEPTHS: [u8; 4] = [8, 10, 12, 16];

fn levels() -> impl Iterator<Item = Simd> {
    [Some(Simd::PORTABLE), Simd::avx2()].into_iter().flatten()
}

/// A planar picture of noise.
fn noise(format: PixelFormat, (width, height): (u32, u32), seed: u32) -> Picture {
    let mut picture = Picture::new(format, Size::new(width, height).unwrap(), Time::from_millis(7));
    (picture.colour, picture.fields) = (Colour::BT709, Some(FieldOrder::TopFirst));
    picture.captured_utc = Some(Utc::from_micros(5));
    let mut state = seed;
    for line in picture.planes_mut().iter_mut().flat_map(Plane::lines_mut) {
        for sample in line.chunks_mut(format.sample_bytes()) {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = (state >> 16) as u16 >> (16 - format.depth_bits);
            sample.copy_from_slice(&value.to_le_bytes()[..sample.len()]);
        }
    }
    picture
}

/// The samples of a plane's lines.
fn samples(picture: &Picture) -> Vec<Vec<Vec<u16>>> {
    let value = |sample: &[u8]| u16::from(sample[0]) | sample.get(1).map_or(0, |&high| u16::from(high) << 8);
    let line = |line: &[u8]| line.chunks(picture.format().sample_bytes()).map(value).collect();
    picture.planes().iter().map(|plane| plane.lines().map(line).collect()).collect()
}

/// Worked by hand from the tables of ST 2110-20 §6.2: a line of groups, and the samples of each plane.
#[test]
fn groups_are_those_of_the_standard() {
    type Planes<'a> = &'a [&'a [&'a [u16]]];
    let golden: [(Chroma, u8, &[u8], Planes<'_>); 20] = [
        (Chroma::Mono, 8, &[1, 2, 3, 4], &[&[&[1, 2, 3, 4]]]),
        // 1000000001 0100000010 1111111100 0000000011
        (Chroma::Mono, 10, &[0x80, 0x50, 0x2f, 0xf0, 0x03], &[&[&[0x201, 0x102, 0x3fc, 0x003]]]),
        (Chroma::Mono, 12, &[0xab, 0xc1, 0x23], &[&[&[0xabc, 0x123]]]),
        (Chroma::Mono, 16, &[0xab, 0xcd, 0x12, 0x34], &[&[&[0xabcd, 0x1234]]]),
        (Chroma::Yuv420, 8, &[1, 2, 3, 4, 5, 6], &[&[&[1, 2], &[3, 4]], &[&[5]], &[&[6]]]),
        // Fours of samples: 0000000001 0000000010 0000000011 0000000100, and so on.
        (
            Chroma::Yuv420,
            10,
            &[0, 0x40, 0x20, 0x0c, 4, 1, 0x40, 0x60, 0x1c, 8, 2, 0x40, 0xa0, 0x2c, 0x0c],
            &[&[&[1, 2, 7, 8], &[3, 4, 9, 10]], &[&[5, 11]], &[&[6, 12]]],
        ),
        (Chroma::Yuv420, 12, &[0, 0x10, 2, 0, 0x30, 4, 0, 0x50, 6], &[&[&[1, 2], &[3, 4]], &[&[5]], &[&[6]]]),
        (
            Chroma::Yuv420,
            16,
            &[9, 1, 9, 2, 9, 3, 9, 4, 9, 5, 9, 6],
            &[&[&[0x901, 0x902], &[0x903, 0x904]], &[&[0x905]], &[&[0x906]]],
        ),
        (Chroma::Yuv422, 8, &[1, 2, 3, 4], &[&[&[2, 4]], &[&[1]], &[&[3]]]),
        (
            Chroma::Yuv422,
            10,
            &[0x80, 0x50, 0x2f, 0xf0, 0x03],
            &[&[&[0x102, 0x003]], &[&[0x201]], &[&[0x3fc]]],
        ),
        (
            Chroma::Yuv422,
            12,
            &[0xab, 0xc1, 0x23, 0xde, 0xf4, 0x56],
            &[&[&[0x123, 0x456]], &[&[0xabc]], &[&[0xdef]]],
        ),
        (Chroma::Yuv422, 16, &[9, 1, 9, 2, 9, 3, 9, 4], &[&[&[0x902, 0x904]], &[&[0x901]], &[&[0x903]]]),
        (Chroma::Yuv444, 8, &[1, 2, 3, 4, 5, 6], &[&[&[2, 5]], &[&[1, 4]], &[&[3, 6]]]),
        (
            Chroma::Yuv444,
            10,
            &[0, 0x40, 0x20, 0x0c, 4, 1, 0x40, 0x60, 0x1c, 8, 2, 0x40, 0xa0, 0x2c, 0x0c],
            &[&[&[2, 5, 8, 11]], &[&[1, 4, 7, 10]], &[&[3, 6, 9, 12]]],
        ),
        (Chroma::Yuv444, 12, &[0, 0x10, 2, 0, 0x30, 4, 0, 0x50, 6], &[&[&[2, 5]], &[&[1, 4]], &[&[3, 6]]]),
        (Chroma::Yuv444, 16, &[9, 1, 9, 2, 9, 3], &[&[&[0x902]], &[&[0x901]], &[&[0x903]]]),
        (Chroma::Rgb, 8, &[1, 2, 3, 4, 5, 6], &[&[&[1, 4]], &[&[2, 5]], &[&[3, 6]]]),
        (
            Chroma::Rgb,
            10,
            &[0, 0x40, 0x20, 0x0c, 4, 1, 0x40, 0x60, 0x1c, 8, 2, 0x40, 0xa0, 0x2c, 0x0c],
            &[&[&[1, 4, 7, 10]], &[&[2, 5, 8, 11]], &[&[3, 6, 9, 12]]],
        ),
        (Chroma::Rgb, 12, &[0, 0x10, 2, 0, 0x30, 4, 0, 0x50, 6], &[&[&[1, 4]], &[&[2, 5]], &[&[3, 6]]]),
        (Chroma::Rgb, 16, &[9, 1, 9, 2, 9, 3], &[&[&[0x901]], &[&[0x902]], &[&[0x903]]]),
    ];
    for (chroma, depth_bits, groups, planes) in golden {
        let format = PixelFormat::pgroups(chroma, depth_bits).unwrap();
        let size = Size::new(planes[0][0].len() as u32, planes[0].len() as u32).unwrap();
        let mut packed = Picture::new(format, size, Time::ZERO);
        packed.planes_mut()[0].line_mut(0).copy_from_slice(groups);
        let planar = Unpacker::new().unpack(&packed);
        assert_eq!(samples(&planar), planes, "{chroma:?} {depth_bits}");
        assert_eq!(Packer::new().pack(&planar).unwrap(), packed, "{chroma:?} {depth_bits}");
    }
}

#[test]
fn everything_about_a_picture_is_kept() {
    let picture = noise(PixelFormat::planar(Chroma::Yuv422, 10), (6, 2), 3);
    let packed = Packer::new().pack(&picture).unwrap();
    assert_eq!(packed.format(), PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap());
    // Comparison looks at times, colour and fields, too.
    assert_eq!(Unpacker::new().unpack(&packed), picture);
    let same = Packer::new().pack(&packed).unwrap();
    assert!(std::ptr::eq(same.planes()[0].bytes(), packed.planes()[0].bytes()));
    for (chroma, depth_bits) in [(Chroma::Yuv411, 8), (Chroma::Yuv420, 9)] {
        let found = Packer::new().pack(&noise(PixelFormat::planar(chroma, depth_bits), (8, 2), 1));
        assert!(matches!(found, Err(PixelsError::NoPgroups { .. })), "{found:?}");
    }
}

#[test]
fn what_does_not_fill_a_group_is_repeated_in_it_and_left_out_again() {
    let picture = noise(PixelFormat::planar(Chroma::Yuv420, 8), (3, 3), 9);
    let packed = Packer::new().pack(&picture).unwrap();
    let [luma, ..] = &samples(&picture)[..] else { unreachable!() };
    let groups = packed.planes()[0].line(1);
    let expected = [&luma[2][0..2], &luma[2][0..2]].concat();
    assert_eq!(groups[..4].iter().map(|&byte| u16::from(byte)).collect::<Vec<_>>(), expected);
    assert!(groups[6..10].iter().all(|&byte| u16::from(byte) == luma[2][2]), "{groups:?} {luma:?}");
}

#[test]
fn a_run_goes_where_its_packet_says_and_nowhere_else() {
    let picture = noise(PixelFormat::planar(Chroma::Yuv422, 10), (40, 4), 5);
    let packed = Packer::new().pack(&picture).unwrap();
    let mut out = Picture::new(picture.format(), picture.size(), Time::ZERO);
    let unpacker = Unpacker::new();
    let mut lines = PlanarLines::of(&mut out);
    assert_eq!(lines.size(), picture.size());
    for at in [(1, 0), (40, 0), (0, 4), (u32::MAX - 1, 0)] {
        let found = unpacker.unpack_run(&[0xff; 50], at, &mut lines);
        assert!(matches!(found, Err(PixelsError::Run { .. })), "{at:?}");
    }
    // From the twelfth sample to the line's end and beyond, with a group that is cut short.
    let line = [packed.planes()[0].line(2), &[0xff; 23]].concat();
    unpacker.unpack_run(&line[30..], (12, 2), &mut lines).unwrap();
    let (found, expected) = (samples(&out), samples(&picture));
    for (plane, from) in [(0, 12), (1, 6), (2, 6)] {
        assert_eq!(found[plane][2][from..], expected[plane][2][from..]);
        assert!(
            found[plane][2][..from].iter().chain(&found[plane][1]).chain(&found[plane][3]).all(|&x| x == 0)
        );
    }
}

proptest! {
    /// In pieces as packets bring them, in any order, or at once.
    #[test]
    fn what_was_packed_is_unpacked(
        chroma in proptest::sample::select(&CHROMAS[..]),
        depth_bits in proptest::sample::select(&DEPTHS[..]),
        size in (1u32..200, 1u32..8),
        piece in 1usize..30,
        seed: u32,
    ) {
        let picture = noise(PixelFormat::planar(chroma, depth_bits), size, seed);
        for simd in levels() {
            let packed = Packer::with(simd).pack(&picture).unwrap();
            let unpacker = Unpacker::with(simd);
            prop_assert_eq!(&Unpacker::with(simd).unpack(&packed), &picture);
            let mut out = picture.clone();
            out.planes_mut().iter_mut().for_each(|plane| plane.bytes_mut().fill(0xa5));
            let mut lines = PlanarLines::of(&mut out);
            let group = packed.format().pgroup().unwrap();
            for (y, line) in packed.planes()[0].lines().enumerate() {
                let runs: Vec<&[u8]> = line.chunks(piece * group.bytes).collect();
                for (number, run) in runs.iter().enumerate().rev() {
                    let at = ((number * piece) as u32 * group.width, y as u32 * group.lines);
                    unpacker.unpack_run(run, at, &mut lines).unwrap();
                }
            }
            prop_assert_eq!(&out, &picture);
        }
    }

    /// Groups in which nothing is left over come back as they were, whatever is in them.
    #[test]
    fn what_was_unpacked_is_packed(
        chroma in proptest::sample::select(&CHROMAS[..]),
        depth_bits in proptest::sample::select(&DEPTHS[..]),
        (fours, twos) in (1u32..60, 1u32..5),
        seed: u32,
    ) {
        let format = PixelFormat::pgroups(chroma, depth_bits).unwrap();
        let mut packed = Picture::new(format, Size::new(4 * fours, 2 * twos).unwrap(), Time::ZERO);
        let mut state = seed;
        for byte in packed.planes_mut()[0].lines_mut().flatten() {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            *byte = (state >> 24) as u8;
        }
        for simd in levels() {
            let planar = Unpacker::with(simd).unpack(&packed);
            prop_assert_eq!(&Packer::with(simd).pack(&planar).unwrap(), &packed);
        }
    }
}
