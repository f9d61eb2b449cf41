//! How long conversion and deinterlacing of a 1080-line picture take: the median over 100, portable and best.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use glassline_media::pixels::{Converter, Deinterlacer, Expander, FieldOrder, PackedFormat, Scan, Simd};
use glassline_media::{Chroma, Picture, PixelFormat, Size, Time};
use std::time::{Duration, Instant};

fn median(mut body: impl FnMut()) -> Duration {
    let mut times: Vec<_> = (0..100)
        .map(|_| {
            let start = Instant::now();
            body();
            start.elapsed()
        })
        .collect();
    times.sort_unstable();
    times[times.len() / 2]
}

fn noise(picture: &mut Picture) {
    let mut state = 1u32;
    for byte in picture.planes_mut().iter_mut().flat_map(|plane| plane.bytes_mut()) {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *byte = (state >> 30) as u8;
    }
}

fn main() {
    let size = Size::new(1920, 1080).expect("sides are in range");
    let levels = [("portable", Simd::PORTABLE), ("best", Simd::best())];
    for (chroma, depth_bits) in [
        (Chroma::Yuv420, 10),
        (Chroma::Yuv422, 8),
        (Chroma::Yuv422, 10),
        (Chroma::Yuv444, 8),
        (Chroma::Yuv444, 10),
    ] {
        let mut picture = Picture::new(PixelFormat::planar(chroma, depth_bits), size, Time::ZERO);
        noise(&mut picture);
        for (name, simd) in levels {
            let mut converter = Converter::with(simd);
            let time = median(|| {
                std::hint::black_box(converter.convert(picture.clone(), Scan::Progressive));
            });
            println!("{chroma:?} {depth_bits} bits to 4:2:0, {name}: {time:?}");
        }
    }
    for (chroma, depth_bits) in [
        (Chroma::Yuv422, 8),
        (Chroma::Yuv422, 10),
        (Chroma::Yuv422, 12),
        (Chroma::Yuv420, 8),
        (Chroma::Rgb, 8),
    ] {
        let format = PixelFormat::pgroups(chroma, depth_bits).expect("the standards have it");
        let mut picture = Picture::new(format, size, Time::ZERO);
        noise(&mut picture);
        for (name, simd) in levels {
            let mut converter = Converter::with(simd);
            let time = median(|| {
                std::hint::black_box(converter.convert(picture.clone(), Scan::Progressive));
            });
            println!("{chroma:?} {depth_bits} bits in pgroups to 4:2:0, {name}: {time:?}");
        }
    }
    let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
    noise(&mut picture);
    for (chroma, depth_bits) in
        [(Chroma::Yuv422, 8), (Chroma::Yuv422, 10), (Chroma::Yuv444, 10), (Chroma::Rgb, 8), (Chroma::Rgb, 12)]
    {
        for (name, simd) in levels {
            let mut expander = Expander::with(simd, PixelFormat::planar(chroma, depth_bits));
            let time = median(|| {
                std::hint::black_box(expander.expand(picture.clone()));
            });
            println!("4:2:0 to {chroma:?} {depth_bits} bits, {name}: {time:?}");
        }
    }
    for format in [PackedFormat::Yuyv, PackedFormat::Nv12] {
        let stride = format.line_bytes(size);
        let bytes = vec![77; format.picture_bytes(size, stride)];
        for (name, simd) in levels {
            let mut converter = Converter::with(simd);
            let time = median(|| {
                let at = (Scan::Progressive, Time::ZERO);
                let picture = converter.unpack(&bytes, format, size, stride, at);
                std::hint::black_box(picture.expect("large enough"));
            });
            println!("{format:?} to 4:2:0, {name}: {time:?}");
        }
    }
    let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
    noise(&mut picture);
    for (name, simd) in levels {
        let mut deinterlacer = Deinterlacer::with(simd, FieldOrder::TopFirst);
        let time = median(|| {
            std::hint::black_box(deinterlacer.push(picture.clone(), Duration::from_millis(20)));
        });
        println!("deinterlace to two pictures, {name}: {time:?}");
    }
}
