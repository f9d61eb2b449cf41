use super::*;
use crate::picture::{FieldOrder, Size};
use crate::pixels::Converter;
use crate::pixels::reference::{Samples, drawn, levels, noise, packed, padded, samples};
use proptest::prelude::*;

const CHROMAS: [Chroma; 5] = [Chroma::Mono, Chroma::Yuv420, Chroma::Yuv411, Chroma::Yuv422, Chroma::Yuv444];

/// A sample of chroma at a place of luma, for pictures in which no chroma is left out.
fn naive_chroma(plane: &Samples, chroma: Chroma, (x, y): (usize, usize), has_fields: bool) -> u16 {
    let rows = plane.len();
    let row = match chroma {
        // The last row of the line's field at or above it.
        Chroma::Yuv420 if has_fields => {
            let of_field: Vec<usize> = (0..rows).filter(|row| row % 2 == y % 2).collect();
            of_field.get(y / 4).or(of_field.last()).copied().unwrap_or(0)
        }
        Chroma::Yuv420 => y / 2,
        _ => y,
    };
    let line: Vec<u32> = plane[row].iter().copied().map(u32::from).collect();
    let doubled = |line: &[u32]| -> Vec<u32> {
        let next = |x: usize| line[(x + 1).min(line.len() - 1)];
        line.iter().enumerate().flat_map(|(x, &here)| [here, (here + next(x)).div_ceil(2)]).collect()
    };
    let line = match chroma {
        Chroma::Yuv444 => line,
        Chroma::Yuv411 => doubled(&doubled(&line)),
        _ => doubled(&line),
    };
    line[x] as u16
}

/// A picture in 4:4:4 as deep as it is, sample by sample.
fn naive_444(picture: &Picture) -> Vec<Samples> {
    let planes = samples(picture);
    let (width, height) = (picture.size().width as usize, picture.size().height as usize);
    let format = picture.format();
    let sample = |index: usize, x: usize, y: usize| match planes.get(index) {
        _ if index == 0 => planes[0][y][x],
        Some(plane) => naive_chroma(plane, format.chroma, (x, y), picture.fields.is_some()),
        None => 128 << (format.depth_bits - 8),
    };
    let plane = |index| (0..height).map(|y| (0..width).map(|x| sample(index, x, y)).collect()).collect();
    (0..3).map(plane).collect()
}

fn rounded(sample: u16, from: u8, to: u8) -> u16 {
    if to >= from {
        return sample << (to - from);
    }
    let steps = 1u32 << (from - to);
    ((u32::from(sample) + steps / 2) / steps).min((1 << to) - 1) as u16
}

fn formats() -> impl Strategy<Value = PixelFormat> {
    let chroma = proptest::sample::select(&CHROMAS[..]);
    (chroma, 8u8..=16).prop_map(|(chroma, depth_bits)| PixelFormat::planar(chroma, depth_bits))
}

#[test]
fn what_is_right_already_is_not_touched() {
    let picture = noise(PixelFormat::I420, (6, 4), 1);
    let out = Expander::new(PixelFormat::I420).expand(picture.clone());
    assert!(std::ptr::eq(picture.planes()[0].bytes(), out.planes()[0].bytes()));
}

#[test]
fn everything_about_a_picture_is_kept() {
    let mut picture = noise(PixelFormat::I420, (6, 4), 1);
    picture.fields = Some(FieldOrder::BottomFirst);
    for chroma in [Chroma::Mono, Chroma::Yuv411, Chroma::Yuv422, Chroma::Yuv444, Chroma::Rgb] {
        let out = Expander::new(PixelFormat::planar(chroma, 12)).expand(picture.clone());
        assert_eq!((out.size(), out.fields), (picture.size(), picture.fields));
        assert_eq!((out.captured, out.captured_utc), (picture.captured, picture.captured_utc));
        let matrix = if chroma == Chroma::Rgb { 6 } else { 2 };
        assert_eq!(out.colour, Colour { matrix, ..picture.colour });
    }
}

#[test]
fn lines_of_chroma_stay_in_their_field() {
    let mut picture = drawn(PixelFormat::I420, Size::new(2, 6).unwrap(), |_, _, y| 10 * y as u16);
    let to = PixelFormat::planar(Chroma::Yuv422, 8);
    let column = |picture: &Picture| samples(picture)[1].concat();
    assert_eq!(column(&Expander::new(to).expand(picture.clone())), [0, 0, 10, 10, 20, 20]);
    picture.fields = Some(FieldOrder::TopFirst);
    assert_eq!(column(&Expander::new(to).expand(picture)), [0, 10, 0, 10, 20, 10]);
}

proptest! {
    #[test]
    fn more_chroma_and_other_depths_are_what_the_naive_way_gives(
        from in formats(),
        to in prop_oneof![Just(Chroma::Yuv422), Just(Chroma::Yuv444)],
        depth_bits in 8u8..=16,
        size in (1u32..80, 1u32..14),
        padding in 0usize..70,
        has_fields: bool,
        seed: u32,
    ) {
        let mut picture = noise(from, size, seed);
        picture.fields = has_fields.then_some(FieldOrder::TopFirst);
        let to = PixelFormat::planar(if from.chroma == Chroma::Yuv444 { Chroma::Yuv444 } else { to }, depth_bits);
        let mut expected = naive_444(&picture);
        if to.chroma == Chroma::Yuv422 {
            // Even samples are those that were there.
            expected[1..].iter_mut().flatten().for_each(|line| *line = line.iter().copied().step_by(2).collect());
        }
        expected.iter_mut().flatten().flatten().for_each(|sample| *sample = rounded(*sample, from.depth_bits, depth_bits));
        let out = Expander::new(to).expand(padded(&picture, padding));
        prop_assert_eq!(out.format(), to);
        prop_assert_eq!(&samples(&out), &expected);
        if let Some(packed) = packed(&picture) {
            prop_assert_eq!(&samples(&Expander::new(to).expand(packed)), &expected);
        }
    }

    #[test]
    fn less_chroma_is_what_the_converter_gives(
        from in formats(),
        size in (1u32..80, 1u32..14),
        has_fields: bool,
        seed: u32,
    ) {
        // Even sizes alone, which the converter leaves as they are; and 8 bits, so that both round in the same places.
        let from = PixelFormat::planar(from.chroma, 8);
        let mut picture = noise(from, (2 * size.0, 2 * size.1), seed);
        picture.fields = has_fields.then_some(FieldOrder::TopFirst);
        let expected = samples(&Converter::new().convert(picture.clone(), Scan::Progressive));
        let found = samples(&Expander::new(PixelFormat::I420).expand(picture));
        for (found, expected) in found.iter().flatten().flatten().zip(expected.iter().flatten().flatten()) {
            // Means are rounded once by the one and twice by the other.
            prop_assert!(found.abs_diff(*expected) <= u16::from(from.chroma == Chroma::Yuv444), "{found} {expected}");
        }
    }

    #[test]
    fn what_was_expanded_comes_back(
        chroma in prop_oneof![Just(Chroma::Yuv422), Just(Chroma::Yuv420)],
        depth_bits in 8u8..=16,
        size in (1u32..60, 1u32..14),
        has_fields: bool,
        seed: u32,
    ) {
        // In height by fields: fours of lines, so that each row has its two.
        let lines = if has_fields { 4 } else { 2 };
        let mut picture = noise(PixelFormat::I420, (2 * size.0, lines * size.1), seed);
        picture.fields = has_fields.then_some(FieldOrder::TopFirst);
        let out = Expander::new(PixelFormat::planar(chroma, depth_bits)).expand(picture.clone());
        for form in [Some(&out), packed(&out).as_ref()].into_iter().flatten() {
            prop_assert_eq!(&Converter::new().convert(form.clone(), Scan::Progressive), &picture);
        }
    }

    /// Within one step of floating point where nothing is deeper than 12 bits.
    #[test]
    fn rgb_is_what_the_matrix_gives(
        from in formats(),
        depth_bits in 8u8..=16,
        size in (1u32..80, 1u32..14),
        padding in 0usize..70,
        has_fields: bool,
        (is_full, is_full_rgb) in (proptest::bool::ANY, proptest::bool::ANY),
        seed: u32,
    ) {
        let mut picture = noise(from, size, seed);
        picture.fields = has_fields.then_some(FieldOrder::TopFirst);
        picture.colour = Colour { full_range: is_full, ..Colour::BT709 };
        let to = PixelFormat::planar(Chroma::Rgb, depth_bits);
        let planes = naive_444(&picture);
        let scale = |depth_bits: u8, is_full: bool| {
            let steps = f64::from(1u32 << (depth_bits - 8));
            let max = f64::from((1u32 << depth_bits) - 1);
            if is_full { (0.0, max, max, steps) } else { (16.0 * steps, 219.0 * steps, 224.0 * steps, steps) }
        };
        let (zero, one, chroma_one, steps) = scale(from.depth_bits, is_full);
        let (rgb_zero, rgb_one, ..) = scale(depth_bits, is_full_rgb);
        let expected = |plane: usize, x: usize, y: usize| {
            let luma = (f64::from(planes[0][y][x]) - zero) / one;
            let chroma = |index: usize| (f64::from(planes[index][y][x]) - 128.0 * steps) / chroma_one;
            let value = luma + match plane {
                0 => 1.5748 * chroma(2),
                1 => -0.187_324 * chroma(1) - 0.468_124 * chroma(2),
                _ => 1.8556 * chroma(1),
            };
            (rgb_zero + rgb_one * value).clamp(0.0, f64::from((1u32 << depth_bits) - 1))
        };
        let slack = 0.52 + 3.0 * f64::from(1u32 << depth_bits) / f64::from(1u32 << (29 - from.depth_bits))
            + f64::from(1u32 << depth_bits) * 2e-6;
        let mut first = None;
        for simd in levels() {
            let out = Expander::with(simd, to).full_range(is_full_rgb).expand(padded(&picture, padding));
            prop_assert_eq!(out.colour, Colour { full_range: is_full_rgb, ..Colour::BT709 });
            let found = samples(&out);
            for (plane, lines) in found.iter().enumerate() {
                for (y, line) in lines.iter().enumerate() {
                    for (x, &sample) in line.iter().enumerate() {
                        let expected = expected(plane, x, y);
                        prop_assert!((f64::from(sample) - expected).abs() < slack, "{plane} {x} {y}: {sample} {expected}");
                    }
                }
            }
            prop_assert_eq!(&found, first.get_or_insert(found.clone()));
        }
    }

    #[test]
    fn any_format_becomes_any_other(
        (from, to) in (proptest::sample::select(&CHROMAS[..]), proptest::sample::select(&CHROMAS[..])),
        (from_rgb, to_rgb) in (proptest::bool::ANY, proptest::bool::ANY),
        (from_bits, to_bits) in (8u8..=16, 8u8..=16),
        size in (1u32..40, 1u32..12),
        interlaced: bool,
        value in 0u16..256,
    ) {
        let from = PixelFormat::planar(if from_rgb { Chroma::Rgb } else { from }, from_bits);
        let to = PixelFormat::planar(if to_rgb { Chroma::Rgb } else { to }, to_bits);
        // Grey stays grey, in all of a picture.
        let size = Size::new(size.0, size.1).unwrap();
        let value = value.clamp(20, 230);
        let level = |plane: usize| if plane == 0 || from_rgb { value } else { 128 };
        let mut picture = drawn(from, size, |plane, _, _| level(plane) << (from_bits - 8));
        picture.fields = interlaced.then_some(FieldOrder::TopFirst);
        let out = Expander::new(to).expand(picture);
        prop_assert_eq!((out.format(), out.size()), (to, size));
        for (index, plane) in samples(&out).iter().enumerate() {
            let expected = if index == 0 || to_rgb { value } else { 128 } << (to_bits - 8);
            let slack = if to_bits + from_bits > 26 { 8 } else { 0 };
            prop_assert!(plane.iter().flatten().all(|sample| sample.abs_diff(expected) <= slack), "{index}");
        }
    }
}
