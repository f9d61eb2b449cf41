//! How long the test pattern takes: the median over 300 pictures, by size.
//!
//! With a file name as argument it writes two seconds of 1280×720 as y4m there instead, to be looked at.
#![allow(clippy::disallowed_types, clippy::disallowed_methods)]

use glassline_measure::pattern::Pattern;
use glassline_media::container::y4m;
use glassline_media::{FrameRate, Size, Time, Utc};
use std::time::Instant;

fn main() {
    let frame_rate = FrameRate::new(30, 1).expect("30/1 is a rate");
    let arguments: Vec<String> =
        std::env::args().skip(1).filter(|argument| !argument.starts_with("--")).collect();
    if let [path, sides @ ..] = &arguments[..] {
        let side =
            |index: usize, default| sides.get(index).and_then(|side| side.parse().ok()).unwrap_or(default);
        let size = Size::new(side(0, 1280), side(1, 720)).expect("sides are in range");
        std::fs::write(path, two_seconds(size, frame_rate)).expect("the file can be written");
        return;
    }
    for (width, height) in [(640, 360), (1280, 720), (1920, 1080), (3840, 2160)] {
        let size = Size::new(width, height).expect("sides are in range");
        let start = Instant::now();
        let mut pattern = Pattern::new(size, frame_rate);
        let new = start.elapsed();
        let mut times: Vec<_> = (0..300)
            .map(|number| {
                let start = Instant::now();
                let utc = Utc::from_micros(number * 33_333);
                std::hint::black_box(pattern.draw(number, Time::ZERO, utc));
                start.elapsed()
            })
            .collect();
        times.sort_unstable();
        println!("{size}: new {new:?}, draw median {:?}, 99 % {:?}", times[150], times[297]);
    }
}

fn two_seconds(size: Size, frame_rate: FrameRate) -> Vec<u8> {
    let mut pattern = Pattern::new(size, frame_rate);
    let mut bytes = Vec::new();
    for number in 0..60 {
        let utc = Utc::from_nanos(1_700_000_000_000_000_000 + frame_rate.time_of(number).as_nanos() as u64);
        let picture = pattern.draw(number, Time::ZERO + frame_rate.time_of(number), utc);
        if number == 0 {
            y4m::write_header(&y4m::Header::of(&picture, frame_rate), &mut bytes)
                .expect("the pattern is YCbCr in planes");
        }
        y4m::write_picture(&picture, &mut bytes);
    }
    bytes
}
