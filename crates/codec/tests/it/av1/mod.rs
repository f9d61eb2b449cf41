//! AV1 by slots: what is encoded is what is decoded, whichever candidates are sent and whatever is lost.

mod encoder;
mod hostile;
mod slots;

use glassline_codec::av1::{Encoder, Settings, Slot};
use glassline_measure::pattern::Pattern;
use glassline_media::{FrameRate, Picture, PixelFormat, Size, Time, Utc};

fn size(width: u32, height: u32) -> Size {
    Size::new(width, height).unwrap()
}

fn slot(index: u8) -> Slot {
    Slot::new(index).unwrap()
}

fn settings(size: Size) -> Settings {
    Settings { size, frame_rate: FrameRate::new(30, 1).unwrap(), threads: 2, speed: 9 }
}

fn encoder(size: Size) -> Encoder {
    Encoder::new(&settings(size)).unwrap()
}

/// The first pictures of the moving test pattern.
fn pattern(size: Size, count: u64) -> Vec<Picture> {
    let rate = FrameRate::new(30, 1).unwrap();
    let mut pattern = Pattern::new(size, rate);
    (0..count).map(|number| pattern.draw(number, Time::ZERO + rate.time_of(number), Utc::default())).collect()
}

/// Numbers that look random, the same each time (xorshift).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        ((self.next() >> 16) % end as u64) as usize
    }

    fn is_percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// A picture in which nothing can be predicted.
fn noise(size: Size, seed: u64) -> Picture {
    let mut random = Random(seed * 2 + 1);
    let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
    for plane in picture.planes_mut() {
        plane.lines_mut().flatten().for_each(|sample| *sample = (random.next() >> 24) as u8);
    }
    picture
}
