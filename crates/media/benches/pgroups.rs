//! Pgroups to planes, in GB/s of pgroups: hot in the cache, and of a whole 1080-line frame, beside reading bit by bit and
//! copying. `cargo bench -p glassline-media --bench pgroups`
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use glassline_media::pixels::{Packer, PlanarLines, Simd, Unpacker};
use glassline_media::{Chroma, Picture, PixelFormat, Size, Time};
use std::hint::black_box;
use std::time::Instant;

/// The best of some rounds, in GB/s of `bytes` a call: others on the machine only make it slower.
fn gigabytes_per_s(bytes: usize, mut body: impl FnMut()) -> f64 {
    let calls = (64 << 20) / bytes + 1;
    let round = |_| {
        let start = Instant::now();
        (0..calls).for_each(|_| body());
        (calls * bytes) as f64 / start.elapsed().as_secs_f64() / 1e9
    };
    (0..9).map(round).fold(0.0, f64::max)
}

/// Reads samples as a decoder reads a bit stream.
struct BitReader<'a> {
    rest: std::slice::Iter<'a, u8>,
    bits: u64,
    count: u32,
}

impl BitReader<'_> {
    fn take(&mut self, depth: u32) -> u16 {
        while self.count < depth {
            let byte = self.rest.next().copied().unwrap_or(0);
            self.bits = self.bits << 8 | u64::from(byte);
            self.count += 8;
        }
        self.count -= depth;
        (self.bits >> self.count) as u16 & ((1 << depth) - 1)
    }
}

fn bit_by_bit(groups: &[u8], depth: u32, luma: &mut [u16], blue: &mut [u16], red: &mut [u16]) {
    let mut reader = BitReader { rest: groups.iter(), bits: 0, count: 0 };
    for ((luma, blue), red) in luma.chunks_exact_mut(2).zip(blue).zip(red) {
        *blue = reader.take(depth);
        luma[0] = reader.take(depth);
        *red = reader.take(depth);
        luma[1] = reader.take(depth);
    }
}

fn main() {
    let sizes = [
        ("in the cache", Size { width: 1920, height: 8 }),
        ("whole frame", Size { width: 1920, height: 1080 }),
    ];
    for (place, size) in sizes {
        for depth in [8u8, 10, 12] {
            let Some(format) = PixelFormat::pgroups(Chroma::Yuv422, depth) else { continue };
            let mut packed = Picture::new(format, size, Time::ZERO);
            for (index, byte) in packed.planes_mut()[0].bytes_mut().iter_mut().enumerate() {
                *byte = ((index * 167) >> 3) as u8;
            }
            let bytes = format.packed_bytes(size);
            let mut planar = Picture::new(format.to_planar(), size, Time::ZERO);
            for (name, simd) in [("portable", Simd::PORTABLE), ("best", Simd::best())] {
                let unpacker = Unpacker::with(simd);
                let mut lines = PlanarLines::of(&mut planar);
                let rows = size.height as usize;
                let speed = gigabytes_per_s(bytes, || {
                    unpacker.unpack_lines(black_box(&packed), 0..rows, &mut lines);
                });
                println!("4:2:2 {depth} bits to planes, {place}, {name}: {speed:.1} GB/s");
                let packer = Packer::with(simd);
                let picture = planar.clone();
                let speed = gigabytes_per_s(bytes, || {
                    for (y, line) in packed.planes_mut()[0].lines_mut().enumerate() {
                        packer.pack_line(black_box(&picture), y, line);
                    }
                });
                println!("planes to 4:2:2 {depth} bits, {place}, {name}: {speed:.1} GB/s");
            }
            let samples = size.width as usize * size.height as usize;
            let (mut luma, mut blue, mut red) =
                (vec![0; samples], vec![0; samples / 2], vec![0; samples / 2]);
            let groups: Vec<u8> = packed.planes()[0].lines().flatten().copied().collect();
            let speed = gigabytes_per_s(bytes, || {
                bit_by_bit(black_box(&groups), u32::from(depth), &mut luma, &mut blue, &mut red);
            });
            println!("4:2:2 {depth} bits to planes, {place}, bit reader: {speed:.1} GB/s");
            black_box((&luma, &blue, &red));
            let mut copy = vec![0; bytes];
            let speed = gigabytes_per_s(bytes, || copy.copy_from_slice(black_box(&groups)));
            println!("4:2:2 {depth} bits, {place}, copied: {speed:.1} GB/s");
            black_box(&copy);
        }
    }
}
