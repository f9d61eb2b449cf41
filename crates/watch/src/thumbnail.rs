//! Small pictures of a stream, to be seen among others: decoded pictures, made smaller, and as JPEG.
//!
//! Each sample of a small picture is the mean of the area that it covers, in whole numbers: luma and chroma on their own, so that
//! all subsamplings come out at the size of luma. Range and matrix (BT.601, BT.709, BT.2020) become the full range of JFIF's RGB;
//! a curve of high dynamic range (PQ, HLG) stays as it is, and looks pale.

use glassline_codec::avcodec::DecodedPicture;
use glassline_media::pixels::Expander;
use glassline_media::{Chroma, Picture, PixelFormat, Plane, Size, Time};
use jpeg_encoder::{ColorType, Encoder};
use std::sync::Arc;

/// The longest side of a small picture. Larger ones are made smaller, smaller ones stay.
const SIDE_MAX: u32 = 320;
/// The most bytes that a small picture takes as JPEG.
pub(crate) const JPEG_BYTES_MAX: usize = 32 << 10;
/// Qualities of JPEG, of which the first is taken that keeps to the bound.
const QUALITIES: [u8; 4] = [80, 55, 30, 10];
/// A sample is at most so many times as wide as high, or as high as wide; what says otherwise says nothing.
const ASPECT_MAX: u32 = 16;

/// A small picture: three planes of one size, in the colour of the stream.
#[derive(Debug)]
pub(crate) struct Thumbnail(Picture);

impl Thumbnail {
    /// `picture`, at most 320 pixels wide and high, as wide to its height as it is shown; `None` where a side is too long for
    /// [`Size`].
    ///
    /// Each sample is read once, lines at the border of two rows twice.
    pub(crate) fn of(picture: &DecodedPicture<'_>) -> Option<Thumbnail> {
        let size = Size::new(picture.width_px.try_into().ok()?, picture.height_px.try_into().ok()?).ok()?;
        let small = size_of(size, picture.sample_aspect);
        let mut out = Picture::new(PixelFormat::planar(Chroma::Yuv444, 8), small, Time::ZERO);
        // Of the large picture, since its size may decide.
        out.colour = glassline_media::Colour { matrix: picture.colour.matrix_of(size), ..picture.colour };
        let [luma, chroma @ ..] = out.planes_mut() else { return None };
        let sides = (picture.width_px, picture.height_px);
        average(sides, luma, &|y, line| {
            line.clear();
            line.extend_from_slice(&picture.luma[y * picture.stride..][..picture.width_px]);
        });
        for (index, plane) in chroma.iter_mut().enumerate() {
            match &picture.chroma {
                Some(from) => {
                    average((from.width_px, from.height_px), plane, &|y, line| from.line(index, y, line));
                }
                // Without colour.
                None => plane.bytes_mut().fill(128),
            }
        }
        Some(Thumbnail(out))
    }

    /// The picture as JPEG of at most [`JPEG_BYTES_MAX`].
    pub(crate) fn jpeg(&self) -> Option<Arc<[u8]>> {
        let rgb = Expander::new(PixelFormat::planar(Chroma::Rgb, 8)).full_range(true).expand(self.0.clone());
        let [red, green, blue] = rgb.planes() else { return None };
        let mut pixels = Vec::with_capacity(3 * rgb.size().width as usize * rgb.size().height as usize);
        for ((red, green), blue) in red.lines().zip(green.lines()).zip(blue.lines()) {
            for ((red, green), blue) in red.iter().zip(green).zip(blue) {
                pixels.extend_from_slice(&[*red, *green, *blue]);
            }
        }
        let [width, height] = [rgb.size().width, rgb.size().height].map(u16::try_from);
        let (width, height) = (width.ok()?, height.ok()?);
        let mut jpeg = Vec::new();
        for quality in QUALITIES {
            jpeg.clear();
            Encoder::new(&mut jpeg, quality).encode(&pixels, width, height, ColorType::Rgb).ok()?;
            if jpeg.len() <= JPEG_BYTES_MAX {
                return Some(jpeg.into());
            }
        }
        None
    }
}

/// The size of the small picture of one of `size`, with samples of a shape.
fn size_of(size: Size, (wide, high): (u32, u32)) -> Size {
    let is_known = wide > 0 && high > 0 && wide / high < ASPECT_MAX && high / wide < ASPECT_MAX;
    let (wide, high) = if is_known { (wide, high) } else { (1, 1) };
    // As it is shown, a picture is so wide to its height.
    let (width, height) =
        (u128::from(size.width) * u128::from(wide), u128::from(size.height) * u128::from(high));
    let [width_max, height_max] = [size.width, size.height].map(|side| u128::from(side.min(SIDE_MAX)));
    let small_width = width_max.min(height_max * width / height).max(1);
    let small_height = ((small_width * height + width / 2) / width).clamp(1, height_max);
    let side = |side: u128| u32::try_from(side).unwrap_or(1);
    Size { width: side(small_width), height: side(small_height) }
}

/// Fills `to` with the means of a plane of `width` times `height` samples, line `y` of which `put` puts into a vector.
fn average((width, height): (usize, usize), to: &mut Plane, put: &dyn Fn(usize, &mut Vec<u8>)) {
    let (columns, rows) = (to.size().width as usize, to.size().height as usize);
    let (mut line, mut sums) = (Vec::with_capacity(width), vec![0u32; width]);
    // In each direction, a sample of the large plane is as wide as the small one has samples, and the other way round: then both
    // planes have the same size, and all borders are whole numbers.
    let all = (width * height) as u64;
    for (row, out) in to.lines_mut().enumerate() {
        // First down, line by line, then across: that way nearly all of it is done to many samples at once.
        sums.fill(0);
        let (top, bottom) = (row * height, (row + 1) * height);
        for y in top / rows..=(bottom - 1) / rows {
            let covered = (bottom.min((y + 1) * rows) - top.max(y * rows)) as u32;
            put(y, &mut line);
            sums.iter_mut().zip(&line).for_each(|(sum, &sample)| *sum += covered * u32::from(sample));
        }
        for (column, out) in out.iter_mut().enumerate() {
            let sum = sum_of(&sums, column * width, (column + 1) * width, columns);
            *out = ((sum + all / 2) / all) as u8;
        }
    }
}

/// The sum of `sums` from `from` to `to`, where each is `wide`.
fn sum_of(sums: &[u32], from: usize, to: usize, wide: usize) -> u64 {
    let (first, last) = (from / wide, (to - 1) / wide);
    let part = |index: usize, covered: usize| u64::from(sums[index]) * covered as u64;
    if first == last {
        return part(first, to - from);
    }
    let whole: u64 = sums[first + 1..last].iter().map(|&sum| u64::from(sum)).sum();
    part(first, (first + 1) * wide - from) + whole * wide as u64 + part(last, to - last * wide)
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::Colour;
    use proptest::prelude::*;

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    #[test]
    fn it_is_as_wide_to_its_height_as_it_is_shown() {
        for (from, aspect, expected) in [
            (size(1920, 1080), (1, 1), size(320, 180)),
            (size(1920, 1080), (0, 0), size(320, 180)),
            (size(720, 576), (64, 45), size(320, 180)),
            (size(720, 576), (16, 15), size(320, 240)),
            (size(1440, 1080), (4, 3), size(320, 180)),
            (size(1080, 1920), (1, 1), size(180, 320)),
            (size(64, 48), (1, 1), size(64, 48)),
            (size(64, 48), (2, 1), size(64, 24)),
            (size(64, 48), (1, 2), size(32, 48)),
            (size(64, 48), (u32::MAX, 1), size(64, 48)),
            (size(16_384, 1), (1, 1), size(320, 1)),
            (size(1, 16_384), (15, 1), size(1, 320)),
        ] {
            assert_eq!(size_of(from, aspect), expected, "{from} {aspect:?}");
        }
    }

    proptest! {
        #[test]
        fn means_are_those_of_the_areas(
            (width, height) in (1usize..70, 1usize..40), (columns, rows) in (1u32..50, 1u32..50), seed in any::<u32>(),
        ) {
            let noise = |x: usize, y: usize| {
                let mixed = (x as u32).wrapping_mul(0x9e37_79b9) ^ (y as u32).wrapping_mul(0x85eb_ca6b) ^ seed;
                (mixed.wrapping_mul(0xc2b2_ae35) >> 24) as u8
            };
            let mut picture = Picture::new(PixelFormat::planar(Chroma::Mono, 8), size(columns, rows), Time::ZERO);
            let plane = &mut picture.planes_mut()[0];
            average((width, height), plane, &|y, line| *line = (0..width).map(|x| noise(x, y)).collect());
            let overlap = |index: usize, from: f64, to: f64| {
                (to.min(index as f64 + 1.0) - from.max(index as f64)).max(0.0)
            };
            let border = |index: u32, of: u32, length: usize| f64::from(index) * length as f64 / f64::from(of);
            for row in 0..rows {
                let (top, bottom) = (border(row, rows, height), border(row + 1, rows, height));
                for column in 0..columns {
                    let (left, right) = (border(column, columns, width), border(column + 1, columns, width));
                    let mut sum = 0.0;
                    for y in 0..height {
                        for x in 0..width {
                            sum += f64::from(noise(x, y)) * overlap(x, left, right) * overlap(y, top, bottom);
                        }
                    }
                    let mean = sum / ((right - left) * (bottom - top));
                    let found = f64::from(plane.line(row as usize)[column as usize]);
                    prop_assert!((found - mean).abs() <= 0.5 + 1e-6, "{column},{row}: {found}, mean {mean}");
                }
            }
        }
    }

    /// A picture of one luma, without chroma.
    fn grey(luma: &[u8], side: usize, full_range: bool) -> Thumbnail {
        let picture = DecodedPicture {
            luma,
            width_px: side,
            height_px: side,
            stride: side,
            chroma: None,
            colour: Colour { full_range, ..Colour::BT709 },
            sample_aspect: (1, 1),
        };
        Thumbnail::of(&picture).unwrap()
    }

    #[test]
    fn both_ranges_become_the_full_one() {
        for (luma, full_range, expected) in
            [(16, false, 0), (235, false, 255), (0, true, 0), (255, true, 255), (126, false, 128)]
        {
            let small = grey(&[luma; 64 * 64], 64, full_range);
            let rgb =
                Expander::new(PixelFormat::planar(Chroma::Rgb, 8)).full_range(true).expand(small.0.clone());
            assert!(rgb.planes().iter().all(|plane| plane.line(9)[9].abs_diff(expected) <= 1), "{luma}");
            assert!(small.jpeg().unwrap().starts_with(&[0xff, 0xd8, 0xff]));
        }
    }

    #[test]
    fn noise_keeps_to_the_bound() {
        let mut state = 1u32;
        let noise: Vec<u8> = (0..320 * 320)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 24) as u8
            })
            .collect();
        let jpeg = grey(&noise, 320, true).jpeg().unwrap();
        assert!((8 << 10..=JPEG_BYTES_MAX).contains(&jpeg.len()), "{}", jpeg.len());
    }
}
