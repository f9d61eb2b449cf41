//! A still slide, and then a fade to pictures that move: what is coded for almost nothing, and then all at once costs most.

use crate::glassline;
use glassline_media::container::ts::{Demuxer, Event};
use glassline_test_support::program::Scratch;
use std::fmt::Write as _;

const WIDTH: usize = 320;
const HEIGHT: usize = 180;
const RATE: usize = 25;
const SLIDE_S: usize = 12;
const FADE_S: usize = 1;
const LENGTH_S: usize = 16;
const KILOBITS: usize = 600;

/// Letters on a slide, as far as an encoder can tell.
fn slide(x: usize, y: usize) -> f64 {
    if y % 24 < 12 && (x / 3 * 7 + y / 24 * 13) % 5 < 2 { 40.0 } else { 220.0 }
}

/// A texture that moves, with noise.
fn live(x: usize, y: usize, number: usize) -> f64 {
    let hash = |place: usize| (place as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let texture = hash((x + 3 * number) / 5 * 7919 + (y + number) / 5 * 104_729) >> 57;
    let noise = hash(x + WIDTH * (y + HEIGHT * number)) >> 60;
    40.0 + texture as f64 + noise as f64
}

fn film() -> Vec<u8> {
    let mut head = String::new();
    let _ = writeln!(head, "YUV4MPEG2 W{WIDTH} H{HEIGHT} F{RATE}:1 Ip A1:1 C420jpeg");
    let mut film = head.into_bytes();
    for number in 0..LENGTH_S * RATE {
        film.extend_from_slice(b"FRAME\n");
        let share = (number as f64 / RATE as f64 - SLIDE_S as f64).clamp(0.0, FADE_S as f64) / FADE_S as f64;
        for place in 0..WIDTH * HEIGHT {
            let (x, y) = (place % WIDTH, place / WIDTH);
            film.push((slide(x, y) * (1.0 - share) + live(x, y, number) * share) as u8);
        }
        film.resize(film.len() + WIDTH * HEIGHT / 2, 128);
    }
    film
}

/// When each picture is decoded, seconds from the first, and its bits.
fn pictures(stream: &[u8]) -> Vec<(f64, f64)> {
    let mut demuxer = Demuxer::new();
    demuxer.push(stream);
    demuxer.finish();
    let mut pictures = Vec::new();
    while let Some(event) = demuxer.poll() {
        if let Event::AccessUnit { unit, .. } = event {
            pictures.push((unit.dts.0 as f64 / 90_000.0, unit.data.len() as f64 * 8.0));
        }
    }
    let first = pictures[0].0;
    pictures.into_iter().map(|(time, bits)| (time - first, bits)).collect()
}

/// The smallest share of the VBV that is full once the first key frame is behind it. Of each picture's bits the VBV gives what
/// came in since the one before.
fn least_of_vbv(pictures: &[(f64, f64)], vbv_s: f64) -> f64 {
    let rate = KILOBITS as f64 * 1000.0;
    let size = rate * vbv_s;
    let (mut full, mut at, mut least) = (size, 0.0, size);
    for &(time, bits) in pictures {
        full = size.min(full + (time - at) * rate) - bits;
        at = time;
        least = least.min(full);
    }
    least / size
}

#[test]
fn a_fade_behind_a_still_slide_never_breaks_the_vbv() {
    let scratch = Scratch::new("fade");
    let (input, output) = (scratch.write("in.y4m", film()), scratch.file("out.ts"));
    let rate = format!("{KILOBITS}k");
    for (settings, vbv_s) in [
        (&["--preset", "veryfast"][..], 1.0),
        (&["--preset", "superfast"], 1.0),
        (&["--preset", "veryfast", "--vbv", "400ms"], 0.4),
        (&["--preset", "veryfast", "--look-ahead", "1s"], 1.0),
    ] {
        let arguments = ["encode", &input, &output, "--audio", "none", "--bitrate", &rate];
        let outcome = glassline(&[&arguments[..], settings].concat());
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let pictures = pictures(&std::fs::read(&output).unwrap());
        assert_eq!(pictures.len(), LENGTH_S * RATE);
        let least = least_of_vbv(&pictures, vbv_s);
        assert!(least >= 0.0, "{settings:?}: {least}");
        // It is a hard case: the slide takes less than a tenth of the rate, what follows all of it.
        let bits = |from: usize, to: usize| -> f64 {
            let within = |&&(time, _): &&(f64, f64)| (from as f64..to as f64).contains(&time);
            pictures.iter().filter(within).map(|(_, bits)| bits).sum::<f64>() / (to - from) as f64
        };
        let (still, moving) = (bits(4, SLIDE_S), bits(SLIDE_S + FADE_S, LENGTH_S));
        assert!(still * 4.0 < moving, "{settings:?}: {still} and {moving} bit/s");
    }
}
