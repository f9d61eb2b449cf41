//! VP8 on threads: the same frames as on one.

use glassline_codec::vp8::{
    EncodeWorkspace, Encoded, Limits, Parallel, Quality, Request, Serial, State, decode, encode_candidates_in,
};
use glassline_media::{Picture, PixelFormat, Size, Time};
use glassline_studio::parallel::Threads;

/// Waves that move, with some noise, and a corner that does not.
fn picture(size: Size, number: u32, seed: u32) -> Picture {
    let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
    let mut noise = (seed + number).wrapping_mul(77_777) | 1;
    for plane in picture.planes_mut() {
        for (y, line) in plane.lines_mut().enumerate() {
            for (x, sample) in line.iter_mut().enumerate() {
                noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let (x, y) = (x as u32, y as u32);
                let moved = if x + y < 60 { 0 } else { (2 + seed % 3) * number };
                let wave = ((x + moved) % 37 * 5 + (y + moved / 2) % 23 * 4) & 255;
                *sample = (wave * 3 / 4 + (noise >> 27)) as u8;
            }
        }
    }
    picture
}

/// A few pictures, each encoded in all qualities; the stream goes on from the first.
fn stream(
    size: Size,
    seed: u32,
    request: &Request,
    qualities: &[Quality],
    parallel: &dyn Parallel,
) -> Vec<Encoded> {
    let (mut state, mut workspace, mut all) = (State::new(), EncodeWorkspace::new(), Vec::new());
    for number in 0..3 {
        let picture = picture(size, number, seed);
        let encoded = encode_candidates_in(&state, &picture, request, qualities, &mut workspace, parallel)
            .expect("it is encoded");
        for one in &encoded {
            let decoded = decode(&state, &one.bytes, &Limits::default()).expect("it is decoded");
            assert_eq!(decoded.state, one.state, "{size}, {request:?}");
        }
        state = encoded[0].state.clone();
        all.extend(encoded);
    }
    all
}

/// Sizes around the pieces that rows are handed down in, thin and flat ones; all kinds of qualities, speeds, partitions
/// and numbers of threads take turns.
#[test]
fn threads_do_not_change_the_bits() {
    let sizes = [(16, 16), (17, 90), (250, 20), (128, 128), (144, 100), (136, 72), (400, 48), (33, 200)];
    let qualities = [
        &[Quality::Quantizer(30)][..],
        &[Quality::Quantizer(8), Quality::Quantizer(90), Quality::Quantizer(40)],
        &[Quality::Quantizer(20), Quality::Bytes { target: 3000, never_above: true }],
    ];
    let threads = [2, 3, 5].map(|count| Threads::new(count).unwrap());
    let mut seed = 0;
    for (at, (width, height)) in sizes.into_iter().enumerate() {
        let size = Size::new(width, height).unwrap();
        for speed in [6, [0, 4, 8, 10][at % 4]] {
            seed += 1;
            let qualities = qualities[seed % qualities.len()];
            let token_partitions = [1, 2, 4, 8][seed % 4];
            let request = Request { speed, token_partitions, ..Request::default() };
            let threads = &threads[seed % threads.len()];
            let alone = stream(size, seed as u32, &request, qualities, &Serial);
            let shared = stream(size, seed as u32, &request, qualities, threads);
            for (number, (alone, shared)) in alone.iter().zip(&shared).enumerate() {
                let name = format!("{size}, {request:?}, {qualities:?}, {threads:?}, frame {number}");
                assert!(alone.bytes == shared.bytes, "{name}");
                assert_eq!(alone.state, shared.state, "{name}");
                assert_eq!(alone.stats, shared.stats, "{name}");
            }
        }
    }
}

#[test]
fn threads_are_counted_as_asked() {
    assert_eq!([0, 1, 2, 4].map(|count| Threads::new(count).unwrap().threads()), [1, 1, 2, 4]);
}
