//! The moving background: clouds with grain, copied line by line, each line at its own offset.
//!
//! Because the offsets wave, no single motion vector describes the movement: it costs an encoder bits, as a real
//! scene does, and costs us a copy.

use super::canvas::{Area, rgb};
use glassline_media::picture::Picture;
use std::f32::consts::TAU;

/// A texture that repeats in both directions; lines are longer than a period by the width of the picture, so
/// that a line at any offset is one copy.
#[derive(Clone, Debug)]
pub(super) struct Texture {
    /// Luma, Cb, Cr.
    planes: [Vec<u8>; 3],
    /// Length of a line of luma; even.
    stride: usize,
    /// Columns and rows of luma until it repeats; powers of two.
    period: (usize, usize),
}

impl Texture {
    /// A texture for pictures of `width` × `height`.
    pub(super) fn new(width: u32, height: u32) -> Texture {
        let period = (
            width.next_power_of_two().clamp(64, 1024) as usize,
            height.next_power_of_two().clamp(64, 512) as usize,
        );
        let stride = period.0 + (width as usize).next_multiple_of(2);
        let mut luma = vec![0; stride * period.1];
        let mut cb = vec![0; luma.len() / 4];
        let mut cr = vec![0; luma.len() / 4];
        // Features keep their share of the picture, from tiny to large.
        let cell = (period.1 / 4).max(16);
        let mist = clouds(period, cell, 5, 1);
        let ridges = clouds(period, cell, 3, 77);
        let hues = clouds(period, cell * 2, 2, 1234);
        for y in 0..period.1 {
            for x in 0..period.0 {
                let at = y * period.0 + x;
                let ridge = 1.0 - (2.0 * ridges[at] - 1.0).abs();
                let light = (0.4 * mist[at] + 0.6 * ridge.powi(5)).clamp(0.0, 1.0);
                let violet = ((hues[at] - 0.42) * 5.0).clamp(0.0, 1.0);
                let mix = |teal: f32, purple: f32| teal + (purple - teal) * violet;
                let colour = rgb(
                    10.0 + light * mix(18.0, 120.0),
                    16.0 + light * mix(150.0, 62.0),
                    40.0 + light * mix(150.0, 170.0),
                );
                let grain = (hash(x, y, 9) >> 24) as f32 / 255.0 - 0.5;
                luma[y * stride + x] = (f32::from(colour.0[0]) + grain * 10.0).clamp(16.0, 235.0) as u8;
                if x % 2 == 0 && y % 2 == 0 {
                    cb[y / 2 * (stride / 2) + x / 2] = colour.0[1];
                    cr[y / 2 * (stride / 2) + x / 2] = colour.0[2];
                }
            }
        }
        let mut planes = [luma, cb, cr];
        for (index, plane) in planes.iter_mut().enumerate() {
            let shift = usize::from(index > 0);
            for line in plane.chunks_exact_mut(stride >> shift) {
                for x in period.0 >> shift..line.len() {
                    line[x] = line[x - (period.0 >> shift)];
                }
            }
        }
        Texture { planes, stride, period }
    }

    /// Copies the texture as it is after `seconds` into `area` but for `hole`. The corners of `hole` are cut off by
    /// `radius`. All are even.
    pub(super) fn draw(&self, picture: &mut Picture, area: Area, hole: Area, radius: u32, seconds: f64) {
        // A movement by whole periods is none; taking it off early keeps the floats precise after days.
        let drift = |speed: f64, period: usize| (seconds * speed).rem_euclid(period as f64) as f32;
        let scale = self.period.1 as f32 / 512.0;
        let (right, down) =
            (drift(96.0 * f64::from(scale), self.period.0), drift(41.0 * f64::from(scale), self.period.1));
        let swing = |rate: f64| (seconds * rate).fract() as f32 * TAU;
        let (first, second) = (swing(0.31), swing(0.23));
        let offsets: Vec<(usize, usize)> = (0..area.height.div_ceil(2))
            .map(|pair| {
                let turn = pair as f32 / 256.0 / scale.max(0.1) * TAU;
                let x = right
                    + self.period.0 as f32
                    + 40.0 * scale * (turn + first).sin()
                    + 14.0 * scale * (2.7 * turn - second).sin();
                let y = down
                    + self.period.1 as f32
                    + pair as f32 * 2.0
                    + 26.0 * scale * (0.8 * turn + second).sin();
                ((x / 2.0) as usize % (self.period.0 / 2) * 2, y as usize % self.period.1)
            })
            .collect();
        for (index, (plane, texture)) in picture.planes_mut().iter_mut().zip(&self.planes).enumerate() {
            let shift = usize::from(index > 0);
            let stride = plane.stride_bytes();
            let (width, height) = (plane.size().width as usize, plane.size().height as usize);
            let bytes = plane.bytes_mut();
            let end = (area.bottom() as usize).div_ceil(1 << shift).min(height);
            for y in area.y as usize >> shift..end {
                let line = y - (area.y as usize >> shift);
                let (offset, row) = offsets[line >> (1 - shift)];
                let row = if shift == 0 { (row + line % 2) % self.period.1 } else { row / 2 };
                let source = &texture[row * (self.stride >> shift) + (offset >> shift)..][..width];
                let target = &mut bytes[y * stride..][..width];
                let in_hole = (hole.y as usize >> shift..hole.bottom() as usize >> shift).contains(&y);
                if in_hole {
                    let inner = hole.inset(radius);
                    let straight = (inner.y as usize >> shift..inner.bottom() as usize >> shift).contains(&y);
                    let cut = if straight { 0 } else { radius };
                    let (left, right) =
                        ((hole.x + cut) as usize >> shift, (hole.right() - cut) as usize >> shift);
                    target[..left].copy_from_slice(&source[..left]);
                    target[right..].copy_from_slice(&source[right..]);
                } else {
                    target.copy_from_slice(source);
                }
            }
        }
    }
}

/// Value noise in `octaves`, 0 to 1, for each texel of a period, at which it repeats; `cell`, the distance of the
/// coarsest octave's values, is a power of two.
fn clouds(period: (usize, usize), cell: usize, octaves: u32, seed: u32) -> Vec<f32> {
    let mix = |a: f32, b: f32, t: f32| a + (b - a) * t;
    let mut texels = vec![0.0; period.0 * period.1];
    let total = 2.0 - 0.5f32.powi(octaves as i32 - 1);
    for octave in 0..octaves {
        let cell = (cell >> octave).clamp(2, period.0.min(period.1));
        let (columns, rows) = (period.0 / cell, period.1 / cell);
        let weight = 0.5f32.powi(octave as i32) / total;
        let value = |column: usize, row: usize| {
            weight * (hash(column % columns, row % rows, seed + octave) >> 8) as f32 / (1 << 24) as f32
        };
        let ease: Vec<f32> =
            (0..cell).map(|at| at as f32 / cell as f32).map(|t| t * t * (3.0 - 2.0 * t)).collect();
        for (row, lines) in texels.chunks_exact_mut(cell * period.0).enumerate() {
            let corners: Vec<_> =
                (0..=columns).map(|column| (value(column, row), value(column, row + 1))).collect();
            for (line, &down) in lines.chunks_exact_mut(period.0).zip(&ease) {
                for (texels, corners) in line.chunks_exact_mut(cell).zip(corners.windows(2)) {
                    let left = mix(corners[0].0, corners[0].1, down);
                    let right = mix(corners[1].0, corners[1].1, down);
                    for (texel, &across) in texels.iter_mut().zip(&ease) {
                        *texel += mix(left, right, across);
                    }
                }
            }
        }
    }
    texels
}

/// Scatters two coordinates over 32 bits (the finaliser of MurmurHash3).
fn hash(x: usize, y: usize, seed: u32) -> u32 {
    let mut value = (x as u32).wrapping_mul(0x9e37_79b1)
        ^ (y as u32).wrapping_mul(0x85eb_ca77)
        ^ seed.wrapping_mul(0xc2b2_ae3d);
    value = (value ^ value >> 16).wrapping_mul(0x85eb_ca6b);
    value = (value ^ value >> 13).wrapping_mul(0xc2b2_ae35);
    value ^ value >> 16
}
