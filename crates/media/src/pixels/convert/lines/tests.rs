use super::*;
use crate::picture::{Colour, FieldOrder, Size};
use crate::pixels::reference::{Samples, levels, noise, packed, padded, samples};
use proptest::prelude::*;

const CHROMAS: [Chroma; 6] =
    [Chroma::Mono, Chroma::Yuv420, Chroma::Yuv411, Chroma::Yuv422, Chroma::Yuv444, Chroma::Rgb];

/// One sample of `depth_bits` to 8 bits.
fn rounded(sample: u32, depth_bits: u8) -> u32 {
    let steps = 1 << (depth_bits - 8);
    ((sample + steps / 2) / steps).min(255)
}

fn mean(one: u32, other: u32) -> u32 {
    (one + other).div_ceil(2)
}

/// The two lines behind chroma line `row`: of one field, where there are fields.
fn lines_of(row: usize, height: usize, has_fields: bool) -> [usize; 2] {
    let lines: Vec<usize> = if has_fields {
        (0..height).filter(|y| y % 2 == row % 2).skip(row / 2 * 2).take(2).collect()
    } else {
        (0..height).skip(2 * row).take(2).collect()
    };
    [lines[0], *lines.last().unwrap()]
}

/// A plane of chroma in 4:2:0 of 8 bits, sample by sample.
fn naive_chroma(plane: &Samples, format: PixelFormat, size: Size, has_fields: bool) -> Samples {
    let (width, height) = (size.width.div_ceil(2) as usize, size.height.div_ceil(2) as usize);
    let depth_bits = format.depth_bits;
    let deep = |x: usize, y: usize| u32::from(plane[y][x.min(plane[y].len() - 1)]);
    let eight = |x: usize, y: usize| rounded(deep(x, y), depth_bits);
    let sample = |x: usize, row: usize| {
        if format.chroma == Chroma::Yuv420 {
            return eight(x, row);
        }
        let [one, two] = lines_of(row, size.height as usize, has_fields);
        let both = |x: usize| rounded(mean(deep(x, one), deep(x, two)), depth_bits);
        match format.chroma {
            Chroma::Yuv422 => both(x),
            Chroma::Yuv411 if x.is_multiple_of(2) => both(x / 2),
            Chroma::Yuv411 => mean(both(x / 2), both(x / 2 + 1)),
            _ => {
                let column = |x: usize| eight(x, one) + eight(x, two);
                (column((2 * x).saturating_sub(1)) + 2 * column(2 * x) + column(2 * x + 1) + 4) / 8
            }
        }
    };
    (0..height).map(|row| (0..width).map(|x| sample(x, row) as u16).collect()).collect()
}

/// What any picture in planes but RGB becomes.
fn naive(picture: &Picture) -> Vec<Samples> {
    let (format, size) = (picture.format(), picture.size());
    let planes = samples(picture);
    let luma = |y: usize| {
        let line = &planes[0][y.min(planes[0].len() - 1)];
        let sample = |x: usize| rounded(line[x.min(line.len() - 1)].into(), format.depth_bits) as u16;
        (0..size.width.next_multiple_of(2) as usize).map(sample).collect()
    };
    let luma = (0..size.height.next_multiple_of(2) as usize).map(luma).collect();
    let chroma = |index: usize| match planes.get(index) {
        Some(plane) => naive_chroma(plane, format, size, picture.fields.is_some()),
        None => vec![vec![128; size.width.div_ceil(2) as usize]; size.height.div_ceil(2) as usize],
    };
    vec![luma, chroma(1), chroma(2)]
}

/// An RGB picture in 4:4:4 of 8 bits, in floating point. `red` and `blue`: their shares in luma.
fn naive_ycbcr(picture: &Picture, [red, blue]: [f64; 2]) -> Picture {
    let planes = samples(picture);
    let depth_bits = picture.format().depth_bits;
    let steps = f64::from(1u32 << (depth_bits - 8));
    let (zero, one) = if picture.colour.full_range {
        (0.0, f64::from((1u32 << depth_bits) - 1))
    } else {
        (16.0 * steps, 219.0 * steps)
    };
    let mut out = crate::pixels::reference::drawn(
        PixelFormat::planar(Chroma::Yuv444, 8),
        picture.size(),
        |plane, x, y| {
            let [r, g, b] = [0, 1, 2].map(|index| (f64::from(planes[index][y][x]) - zero) / one);
            let luma = red * r + (1.0 - red - blue) * g + blue * b;
            let value = match plane {
                0 => 16.0 + 219.0 * luma,
                1 => 128.0 + 224.0 * (b - luma) / (2.0 - 2.0 * blue),
                _ => 128.0 + 224.0 * (r - luma) / (2.0 - 2.0 * red),
            };
            value.round().clamp(0.0, 255.0) as u16
        },
    );
    out.fields = picture.fields;
    out
}

#[test]
fn rgb_is_told_what_it_has_become() {
    let convert = |chroma, colour: Colour| {
        let mut picture = noise(PixelFormat::planar(chroma, 8), (4, 2), 1);
        picture.colour = colour;
        Converter::new().convert(picture, Scan::Progressive).colour
    };
    let full = Colour { matrix: 0, full_range: true, ..Colour::BT709 };
    assert_eq!(convert(Chroma::Rgb, full), Colour::BT709);
    let bt601 = Colour { primaries: 6, transfer: 6, matrix: 6, full_range: false };
    assert_eq!(convert(Chroma::Rgb, Colour::UNSPECIFIED), bt601);
    assert_eq!(convert(Chroma::Yuv444, full), full, "what is not RGB keeps its range");
}

#[test]
fn scan_or_fields_make_a_picture_interlaced() {
    let mut picture = noise(PixelFormat::planar(Chroma::Yuv422, 10), (8, 8), 3);
    let progressive = Converter::new().convert(picture.clone(), Scan::Progressive);
    let interlaced = Converter::new().convert(picture.clone(), Scan::Interlaced);
    assert_ne!(progressive.planes(), interlaced.planes());
    picture.fields = Some(FieldOrder::BottomFirst);
    for picture in [packed(&picture).unwrap(), picture] {
        let out = Converter::new().convert(picture.clone(), Scan::Progressive);
        assert_eq!((out.planes(), out.fields), (interlaced.planes(), picture.fields));
        assert_eq!((out.captured, out.captured_utc), (picture.captured, picture.captured_utc));
        assert_eq!(out.colour, picture.colour);
    }
}

proptest! {
    #[test]
    fn every_picture_becomes_what_the_naive_way_makes_of_it(
        chroma in proptest::sample::select(&CHROMAS[..5]),
        depth_bits in 8u8..=16,
        size in (1u32..150, 1u32..14),
        padding in 0usize..70,
        has_fields: bool,
        seed: u32,
    ) {
        let mut picture = noise(PixelFormat::planar(chroma, depth_bits), size, seed);
        picture.fields = has_fields.then_some(FieldOrder::TopFirst);
        let expected = naive(&picture);
        for form in [Some(&picture), packed(&picture).as_ref()].into_iter().flatten() {
            for simd in levels() {
                let out = Converter::with(simd).convert(padded(form, padding), Scan::Progressive);
                prop_assert_eq!(&samples(&out), &expected, "{:?}", form.format());
            }
        }
    }

    /// Within one step of floating point, and alike in every form and by every level.
    #[test]
    fn rgb_becomes_what_its_matrix_says(
        depth_bits in 8u8..=16,
        size in (1u32..150, 1u32..14),
        padding in 0usize..70,
        has_fields: bool,
        (matrix, shares) in proptest::sample::select(&[(2u8, [0.299, 0.114]), (1, [0.2126, 0.0722]), (9, [0.2627, 0.0593])][..]),
        full_range: bool,
        seed: u32,
    ) {
        let mut picture = noise(PixelFormat::planar(Chroma::Rgb, depth_bits), size, seed);
        picture.fields = has_fields.then_some(FieldOrder::TopFirst);
        picture.colour = Colour { matrix, full_range, ..Colour::UNSPECIFIED };
        let expected = naive(&naive_ycbcr(&picture, shares));
        let first = samples(&Converter::with(Simd::PORTABLE).convert(picture.clone(), Scan::Progressive));
        for (found, expected) in first.iter().flatten().flatten().zip(expected.iter().flatten().flatten()) {
            prop_assert!(found.abs_diff(*expected) <= 1, "{found} {expected}");
        }
        for form in [Some(&picture), packed(&picture).as_ref()].into_iter().flatten() {
            for simd in levels() {
                let out = Converter::with(simd).convert(padded(form, padding), Scan::Progressive);
                prop_assert_eq!(&samples(&out), &first, "{:?}", form.format());
            }
        }
    }

    /// Buffers of one format do not spoil the next.
    #[test]
    fn formats_may_follow_each_other(
        formats in proptest::collection::vec((proptest::sample::select(&CHROMAS[..]), 8u8..=16, (1u32..40, 1u32..9)), 2..5),
        seed: u32,
    ) {
        let mut converter = Converter::new();
        for (chroma, depth_bits, size) in formats {
            let picture = noise(PixelFormat::planar(chroma, depth_bits), size, seed);
            let expected = Converter::new().convert(picture.clone(), Scan::Interlaced);
            for form in [Some(&picture), packed(&picture).as_ref()].into_iter().flatten() {
                let found = converter.convert(form.clone(), Scan::Interlaced);
                prop_assert_eq!(found.planes(), expected.planes());
            }
        }
    }
}
