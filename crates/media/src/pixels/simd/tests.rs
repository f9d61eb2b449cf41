//! Each level gives what the portable one gives, over lengths, alignments and contents.

mod pgroups;

use super::*;
use crate::pixels::matrix::Codes;
use proptest::prelude::*;

/// Bytes that are noise, or flat, or lie at the ends of the range, with `skip` of them passed over.
fn bytes(seed: u64, kind: u8, length: usize) -> Vec<u8> {
    let mut state = seed | 1;
    (0..length)
        .map(|index| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let noise = (state >> 56) as u8;
            match kind % 4 {
                0 => noise,
                1 => {
                    if noise & 1 == 0 {
                        0
                    } else {
                        255
                    }
                }
                2 => (index / 3) as u8,
                _ => seed as u8,
            }
        })
        .collect()
}

/// What a level makes of the same lines: everything that it wrote, and that it wrote nothing else.
fn run(simd: Simd, name: &str, seed: u64, (width, skip, shift): (usize, usize, u32)) -> Vec<Vec<u8>> {
    let line = |number: u64, length: usize| {
        let kind = (seed >> 7) as u8;
        bytes(seed.wrapping_add(number * 7919), kind, length + skip).split_off(skip)
    };
    let mut out = vec![vec![0xa5; width + skip + 9]; 3];
    let halves = width.div_ceil(2);
    let [one, two, three] = &mut out[..] else { unreachable!("three lines") };
    let place = skip..skip + width;
    match name {
        "narrow" => simd.narrow(&line(0, 2 * width), shift, &mut one[place]),
        "average" => simd.average(&line(0, width), &line(1, width), &mut one[place]),
        "average_deep" => {
            simd.average_deep(&line(0, 2 * width), &line(1, 2 * width), shift, &mut one[place]);
        }
        "quarter" => simd.quarter(&line(0, width), &line(1, width), &mut one[skip..skip + halves]),
        "unpack" => {
            let lines = [&mut one[place], &mut two[skip..skip + halves], &mut three[skip..skip + halves]];
            simd.unpack(&line(0, 4 * halves), shift.is_multiple_of(2), lines);
        }
        "split" => simd.split(&line(0, 2 * width), &mut one[place.clone()], &mut two[place]),
        "matrix" => {
            let depths = [[8, 8], [8, 10], [10, 8], [16, 16]][shift as usize % 4];
            let [from, to] = depths.map(|depth_bits| Codes { depth_bits, is_full: seed.is_multiple_of(3) });
            let matrix = if shift < 5 { Matrix::to_rgb(1, from, to) } else { Matrix::to_ycbcr(6, from, to) };
            let mut lines = [0, 1, 2].map(|number| line(number, width / 2 * matrix.from_bytes));
            let high = if from.depth_bits == 10 { 3 } else { 0xff };
            lines
                .iter_mut()
                .flat_map(|line| line.iter_mut().skip(1).step_by(2))
                .for_each(|byte| *byte &= high);
            let place = skip..skip + width / 2 * matrix.to_bytes;
            let out = [&mut one[place.clone()], &mut two[place.clone()], &mut three[place]];
            simd.matrix(&matrix, lines.each_ref().map(|line| &line[..]), out);
        }
        "interpolate" => {
            let lines: Vec<Vec<u8>> = (0..8).map(|number| line(number, width)).collect();
            let past = PastLines {
                before: &lines[2],
                before_above: &lines[3],
                before_below: &lines[4],
                old: &lines[5],
                old_above: &lines[6],
                old_below: &lines[7],
            };
            let lines = FieldLines { above: &lines[0], below: &lines[1], past: (shift != 1).then_some(past) };
            simd.interpolate(&lines, &mut one[place]);
        }
        other => panic!("{other} is no kernel"),
    }
    out
}

const NAMES: [&str; 8] =
    ["narrow", "average", "average_deep", "quarter", "unpack", "split", "matrix", "interpolate"];

#[test]
fn every_level_gives_the_same_bits_at_every_width() {
    let Some(simd) = Simd::avx2() else {
        #[cfg(target_arch = "x86_64")]
        assert!(!is_x86_feature_detected!("avx2"), "the processor has AVX2");
        glassline_test_support::skip("every_level_gives_the_same_bits_at_every_width", "no AVX2 here");
        return;
    };
    for name in NAMES {
        for width in (0..140).chain([719, 720, 1280, 1921]) {
            for seed in [3, 128, 256, 384, 1 << 40] {
                let at = (width, width % 5, 1 + (width % 8) as u32);
                assert_eq!(run(simd, name, seed, at), run(Simd::PORTABLE, name, seed, at), "{name} {at:?}");
            }
        }
    }
}

proptest! {
    #[test]
    fn every_level_gives_the_same_bits(
        name in proptest::sample::select(&NAMES[..]),
        seed: u64,
        at in (0usize..400, 0usize..40, 1u32..=8),
    ) {
        if let Some(simd) = Simd::avx2() {
            prop_assert_eq!(run(simd, name, seed, at), run(Simd::PORTABLE, name, seed, at));
        }
    }
}

#[test]
fn samples_are_rounded_and_stay_in_range() {
    let deep: Vec<u8> = [0u16, 1, 2, 5, 6, 1021, 1023, 65535].iter().flat_map(|v| v.to_le_bytes()).collect();
    let mut out = [0; 8];
    Simd::best().narrow(&deep, 2, &mut out);
    assert_eq!(out, [0, 0, 1, 1, 2, 255, 255, 255]);
    Simd::best().average_deep(&deep, &deep, 8, &mut out);
    assert_eq!(out, [0, 0, 0, 0, 0, 4, 4, 255]);
}

#[test]
fn chroma_is_halved_where_h264_has_it() {
    // A step at an even sample: the sample there is three quarters bright, the one before it not at all.
    let line = [0, 0, 0, 0, 200, 200, 200, 200];
    let mut out = [0; 4];
    Simd::best().quarter(&line, &line, &mut out);
    assert_eq!(out, [0, 0, 150, 200]);
}

#[test]
fn packed_bytes_come_apart() {
    for (luma_first, bytes) in [(true, *b"aUbVcWdX"), (false, *b"UaVbWcXd")] {
        let (mut luma, mut blue, mut red) = ([0; 3], [0; 2], [0; 2]);
        Simd::best().unpack(&bytes, luma_first, [&mut luma, &mut blue, &mut red]);
        assert_eq!((luma, blue, red), (*b"abc", *b"UW", *b"VX"));
    }
}

#[test]
fn what_stands_still_is_taken_from_the_field_before() {
    let lines: [[u8; 16]; 3] = std::array::from_fn(|line| std::array::from_fn(|x| (line * 60 + x) as u8));
    let past = PastLines {
        before: &lines[1],
        before_above: &lines[1],
        before_below: &lines[1],
        old: &lines[1],
        old_above: &lines[0],
        old_below: &lines[2],
    };
    let mut out = [0; 16];
    let still = FieldLines { above: &lines[0], below: &lines[2], past: Some(past) };
    Simd::best().interpolate(&still, &mut out);
    assert_eq!(out, lines[1]);
    // The same with all of it moving: from above and below alone.
    let (black, white) = ([0; 16], [255; 16]);
    let moving = PastLines { before: &black, old: &white, ..past };
    Simd::best().interpolate(&FieldLines { past: Some(moving), ..still }, &mut out);
    assert_eq!(out[4], lines[1][4], "the mean of both neighbours");
}
