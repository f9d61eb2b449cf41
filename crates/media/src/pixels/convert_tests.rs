use super::*;
use proptest::prelude::*;

fn format(chroma: Chroma, depth_bits: u8) -> PixelFormat {
    PixelFormat::planar(chroma, depth_bits)
}

/// A picture whose samples `of` says, by plane, column and line.
fn drawn(
    format: PixelFormat,
    (width, height): (u32, u32),
    of: impl Fn(usize, usize, usize) -> u16,
) -> Picture {
    let mut picture = Picture::new(format, Size::new(width, height).unwrap(), Time::from_millis(7));
    picture.colour = crate::Colour::BT709;
    for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
        for (y, line) in plane.lines_mut().enumerate() {
            for (x, sample) in line.chunks_mut(format.sample_bytes()).enumerate() {
                sample.copy_from_slice(&of(index, x, y).to_le_bytes()[..sample.len()]);
            }
        }
    }
    picture
}

fn samples(picture: &Picture, plane: usize) -> Vec<Vec<u8>> {
    picture.planes()[plane].lines().map(<[u8]>::to_vec).collect()
}

#[test]
fn what_is_right_already_is_not_touched() {
    let picture = drawn(PixelFormat::I420, (6, 4), |plane, x, y| (plane * 100 + x * 10 + y) as u16);
    let converted = Converter::new().convert(picture.clone(), Scan::Progressive);
    assert!(std::ptr::eq(picture.planes()[0].bytes(), converted.planes()[0].bytes()));
}

#[test]
fn flat_pictures_keep_their_colour_in_every_format() {
    for chroma in [Chroma::Yuv420, Chroma::Yuv411, Chroma::Yuv422, Chroma::Yuv444] {
        for depth_bits in 8..=16 {
            for (width, height) in [(1, 1), (2, 2), (5, 3), (66, 34), (131, 70)] {
                let value = |plane: usize| [90u16, 40, 200][plane] << (depth_bits - 8);
                let picture = drawn(format(chroma, depth_bits), (width, height), |plane, _, _| value(plane));
                for scan in [Scan::Progressive, Scan::Interlaced] {
                    let out = Converter::new().convert(picture.clone(), scan);
                    assert_eq!(out.format(), PixelFormat::I420);
                    let even = (width.next_multiple_of(2), height.next_multiple_of(2));
                    assert_eq!((out.size().width, out.size().height), even);
                    assert_eq!((out.captured, out.colour), (picture.captured, picture.colour));
                    for (plane, value) in [90, 40, 200].into_iter().enumerate() {
                        let flat = samples(&out, plane).concat().iter().all(|&sample| sample == value);
                        assert!(flat, "{chroma:?} {depth_bits} {width}x{height} {scan:?} plane {plane}");
                    }
                }
            }
        }
    }
}

#[test]
fn pictures_without_chroma_are_grey() {
    let picture = drawn(format(Chroma::Mono, 10), (4, 2), |_, x, _| x as u16 * 4 + 2);
    let out = Converter::new().convert(picture, Scan::Progressive);
    assert_eq!(samples(&out, 0), [[1, 2, 3, 4], [1, 2, 3, 4]]);
    assert_eq!((samples(&out, 1), samples(&out, 2)), (vec![vec![128; 2]], vec![vec![128; 2]]));
}

#[test]
fn odd_sizes_grow_by_the_last_column_and_line() {
    let picture = drawn(PixelFormat::I420, (3, 3), |plane, x, y| (plane * 100 + y * 10 + x) as u16);
    let out = Converter::new().convert(picture, Scan::Progressive);
    assert_eq!(samples(&out, 0), [[0, 1, 2, 2], [10, 11, 12, 12], [20, 21, 22, 22], [20, 21, 22, 22]]);
    assert_eq!(samples(&out, 1), [[100, 101], [110, 111]]);
}

#[test]
fn fields_are_not_mixed() {
    // The fields differ by a hundred; their chroma is kept apart on alternate lines.
    let picture =
        drawn(format(Chroma::Yuv422, 8), (4, 8), |_, _, y| 50 + (y as u16 % 2) * 100 + y as u16 / 4);
    let out = Converter::new().convert(picture.clone(), Scan::Interlaced);
    assert_eq!(samples(&out, 1), [[50, 50], [150, 150], [51, 51], [151, 151]]);
    let out = Converter::new().convert(picture, Scan::Progressive);
    assert_eq!(samples(&out, 1)[0], [100, 100]);
}

/// The bytes of a capture card for a 4:2:2 picture.
fn packed(picture: &Picture, format: PackedFormat, stride: usize) -> Vec<u8> {
    let size = picture.size();
    let mut bytes = vec![0xee; format.picture_bytes(size, stride)];
    let [luma, blue, red] = picture.planes() else { unreachable!() };
    for y in 0..size.height as usize {
        let (luma, blue, red) = (luma.line(y), blue.line(y), red.line(y));
        let luma = |x: usize| luma.get(x).copied().unwrap_or(0);
        for (pair, (&blue, &red)) in blue.iter().zip(red).enumerate() {
            let (one, two) = (luma(2 * pair), luma(2 * pair + 1));
            let quad = match format {
                PackedFormat::Yuyv => [one, blue, two, red],
                PackedFormat::Uyvy => [blue, one, red, two],
                _ => {
                    let at = (size.height as usize + y) * stride + 2 * pair;
                    bytes[at..at + 2].copy_from_slice(&[blue, red]);
                    let at = y * stride + 2 * pair;
                    bytes[at..at + 2].copy_from_slice(&[one, two]);
                    continue;
                }
            };
            bytes[y * stride + 4 * pair..][..4].copy_from_slice(&quad);
        }
    }
    bytes
}

proptest! {
    /// What a card packs is what the planes give: the two ways in agree.
    #[test]
    fn packed_and_planar_agree(
        (width, height) in (1u32..70, 1u32..20),
        form in prop_oneof![Just(PackedFormat::Yuyv), Just(PackedFormat::Uyvy), Just(PackedFormat::Nv16)],
        padding in 0usize..5,
        interlaced: bool,
        seed: u32,
    ) {
        let noise = |plane: usize, x: usize, y: usize| {
            let mixed = (seed ^ (plane * 7919 + x * 104_729 + y * 1_299_709) as u32).wrapping_mul(2_654_435_761);
            (mixed >> 24) as u16
        };
        let planar = drawn(format(Chroma::Yuv422, 8), (width, height), noise);
        let scan = if interlaced { Scan::Interlaced } else { Scan::Progressive };
        let stride = form.line_bytes(planar.size()) + padding;
        let bytes = packed(&planar, form, stride);
        for simd in [Some(Simd::PORTABLE), Simd::avx2()].into_iter().flatten() {
            let mut converter = Converter::with(simd);
            let expected = converter.convert(planar.clone(), scan);
            let at = (scan, planar.captured);
            let found = converter.unpack(&bytes, form, planar.size(), stride, at).unwrap();
            for plane in 0..3 {
                prop_assert_eq!(samples(&found, plane), samples(&expected, plane), "plane {}", plane);
            }
            let short = converter.unpack(&bytes[1..], form, planar.size(), stride, at);
            let is_short = matches!(short, Err(PixelsError::Short { .. }));
            prop_assert!(is_short);
            let narrow = converter.unpack(&bytes, form, planar.size(), stride - padding - 1, at);
            let is_narrow = matches!(narrow, Err(PixelsError::Stride { .. }));
            prop_assert!(is_narrow);
        }
    }

    #[test]
    fn any_picture_is_converted_alike_by_every_level(
        (width, height) in (1u32..140, 1u32..12),
        chroma in proptest::sample::select(&[
            Chroma::Mono, Chroma::Yuv420, Chroma::Yuv411, Chroma::Yuv422, Chroma::Yuv444,
        ][..]),
        depth_bits in 8u8..=16,
        interlaced: bool,
        seed: u32,
    ) {
        let picture = drawn(format(chroma, depth_bits), (width, height), |plane, x, y| {
            let mixed = (seed ^ (plane * 31 + x * 7919 + y * 104_729) as u32).wrapping_mul(2_654_435_761);
            (mixed >> 16) as u16 >> (16 - depth_bits)
        });
        let scan = if interlaced { Scan::Interlaced } else { Scan::Progressive };
        let plain = Converter::with(Simd::PORTABLE).convert(picture.clone(), scan);
        let best = Converter::new().convert(picture, scan);
        for plane in 0..3 {
            prop_assert_eq!(samples(&plain, plane), samples(&best, plane), "plane {}", plane);
        }
    }
}

#[test]
fn nv12_comes_apart() {
    let size = Size::new(4, 2).unwrap();
    let bytes = *b"abcdefghUVWX";
    let out = Converter::new().unpack(&bytes, PackedFormat::Nv12, size, 4, (Scan::Progressive, Time::ZERO));
    let out = out.unwrap();
    assert_eq!(samples(&out, 0), [*b"abcd", *b"efgh"]);
    assert_eq!((samples(&out, 1), samples(&out, 2)), (vec![b"UW".to_vec()], vec![b"VX".to_vec()]));
}

#[test]
fn planes_are_used_again_without_harm_to_those_who_hold_them() {
    let mut converter = Converter::new();
    let one = converter.convert(drawn(format(Chroma::Yuv422, 8), (64, 4), |_, _, _| 1), Scan::Progressive);
    let two = converter.convert(drawn(format(Chroma::Yuv422, 8), (64, 4), |_, _, _| 2), Scan::Progressive);
    assert_eq!((one.planes()[0].line(0)[0], two.planes()[0].line(0)[0]), (1, 2));
    let place = one.planes()[0].bytes().as_ptr();
    drop(one);
    let three = converter.convert(drawn(format(Chroma::Yuv422, 8), (64, 4), |_, _, _| 3), Scan::Progressive);
    assert_eq!((three.planes()[0].bytes().as_ptr(), three.planes()[0].line(3)[63]), (place, 3));
}

#[test]
fn rgb_is_tagged_as_what_it_becomes() {
    let tagged = |(width, height), colour| {
        let rgb = PixelFormat::planar(Chroma::Rgb, 8);
        let size = Size::new(width, height).unwrap();
        let mut picture = Picture::new(rgb, size, Time::ZERO);
        picture.colour = colour;
        let out = Converter::new().convert(picture, Scan::Progressive).colour;
        assert_eq!(out, Converter::colour(colour, rgb, size));
        assert!(!out.full_range);
        [out.primaries, out.transfer, out.matrix]
    };
    let of = |primaries, transfer| Colour { primaries, transfer, matrix: 0, full_range: true };
    assert_eq!(tagged((1280, 720), of(2, 2)), [1, 1, 1]);
    assert_eq!(tagged((64, 576), of(2, 2)), [5, 6, 5]);
    assert_eq!(tagged((64, 48), of(2, 2)), [6, 6, 6]);
    assert_eq!(tagged((64, 48), of(1, 13)), [1, 13, 1]);
    assert_eq!(tagged((64, 48), of(9, 2)), [9, 14, 9]);
    let luma = Colour { full_range: true, ..Colour::UNSPECIFIED };
    assert_eq!(Converter::colour(luma, PixelFormat::I420, Size::new(64, 48).unwrap()), luma);
}
