//! The source thread: draws or reads pictures and hands them to the queue when their time has come.

use super::feed::{Feed, Item};
use super::input::Input;
use crate::failure;
use anyhow::{Context, Result};
use glassline_io::clock::Clock;
use glassline_media::container::y4m::{self, Interlacing};
use glassline_media::measure::pattern::Pattern;
use glassline_media::measure::tone::Tone;
use glassline_media::{Colour, FrameRate, Picture, PixelFormat, Size, Ticks, Time};
use std::collections::VecDeque;
use std::io::Read;
use std::thread;
use std::time::Duration;

const SOUND_RATE_HZ: u32 = 48_000;
pub(super) const SOUND_CHANNELS: u8 = 2;
/// Sound that is later than this is left out: the process was stopped, and nobody waits for it.
const SOUND_TOO_LATE: Duration = Duration::from_millis(500);
const READ_BYTES: usize = 1 << 20;

/// What the pictures are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Format {
    pub(super) size: Size,
    pub(super) rate: FrameRate,
    pub(super) colour: Colour,
    pub(super) live: bool,
}

/// When to stop by oneself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Length {
    /// After so many pictures.
    pub(super) pictures: Option<u64>,
    /// After so much time of the stream.
    pub(super) time: Option<Duration>,
}

impl Length {
    /// Whether picture `number` (from 0) is one too many.
    fn ends_before(self, number: u64, rate: FrameRate) -> bool {
        self.pictures.is_some_and(|pictures| number >= pictures)
            || self.time.is_some_and(|time| rate.time_of(number) >= time)
    }
}

/// Gives pictures and sound.
pub(super) struct Source {
    kind: Kind,
    format: Format,
    length: Length,
    clock: Clock,
}

enum Kind {
    /// With the tone in blocks of so many samples, if there is to be one.
    Test {
        sound: Option<usize>,
    },
    Y4m {
        file: Box<Y4m>,
        paced: bool,
    },
}

impl Source {
    /// Opens `input` and reads what it says about its pictures. `sound` is for the test input alone, `paced` for
    /// files alone.
    pub(super) fn open(
        input: &Input,
        sound: Option<usize>,
        paced: bool,
        length: Length,
        clock: Clock,
    ) -> Result<Source> {
        let (name, bytes): (String, Box<dyn Read + Send>) = match input {
            Input::Test { size, rate } => return Ok(Source::test(*size, *rate, sound, length, clock)),
            Input::Stdin => ("standard input".to_owned(), Box::new(std::io::stdin())),
            Input::File(path) => {
                let name = path.display().to_string();
                let file = std::fs::File::open(path)
                    .map_err(|error| failure::failed(format_args!("{name}: {error}"), "check the name"))?;
                (name, Box::new(file))
            }
        };
        let file = Y4m::open(name, bytes)?;
        let format = file.format;
        Ok(Source { kind: Kind::Y4m { file: Box::new(file), paced }, format, length, clock })
    }

    /// The live test pattern and, if asked for, the tone in blocks of `sound` samples.
    pub(super) fn test(
        size: Size,
        rate: FrameRate,
        sound: Option<usize>,
        length: Length,
        clock: Clock,
    ) -> Source {
        let format = Format { size, rate, colour: Colour::BT709, live: true };
        Source { kind: Kind::Test { sound }, format, length, clock }
    }

    /// What the pictures are like.
    pub(super) fn format(&self) -> Format {
        self.format
    }

    /// Whether pictures come when they come, and none can be had again.
    pub(super) fn is_live(&self) -> bool {
        self.format.live
    }

    /// Feeds `feed` until the source ends or the end is asked for.
    pub(super) fn run(self, feed: &Feed) {
        let ended = match self.kind {
            Kind::Test { sound } => {
                run_test(self.format, sound, self.length, self.clock, feed);
                Ok(())
            }
            Kind::Y4m { mut file, paced } => run_y4m(&mut file, paced, self.length, self.clock, feed),
        };
        feed.end(ended);
    }
}

/// The test pattern is a camera whose shutter opens exactly at the frame rate: a picture's capture time is when it
/// was due, and what drawing and waking cost counts as delay.
fn run_test(format: Format, sound: Option<usize>, length: Length, clock: Clock, feed: &Feed) {
    let rate = format.rate;
    let mut pattern = Pattern::new(format.size, rate);
    let mut tone = Tone::new(SOUND_RATE_HZ, SOUND_CHANNELS);
    let block_frames = sound.unwrap_or(0);
    let block_time = |block: u64| {
        Duration::from_nanos(block * block_frames as u64 * 1_000_000_000 / u64::from(SOUND_RATE_HZ))
    };
    let start = clock.now();
    let (mut number, mut blocks) = (0u64, 0u64);
    while !length.ends_before(number, rate) {
        let due = start + rate.time_of(number);
        let (block_start, block_end) = (start + block_time(blocks), start + block_time(blocks + 1));
        // At the same time the picture goes first: coding sound would delay it.
        let pushed = if sound.is_some() && block_end < due {
            blocks += 1;
            sleep_until(block_end, clock);
            if clock.now().since(block_end) > SOUND_TOO_LATE {
                continue;
            }
            feed.push(Item::Sound(tone.next(block_frames, block_start, clock.utc_at(block_start))))
        } else {
            sleep_until(due, clock);
            // Later than the next picture's time: this one is left out, as a camera would.
            if clock.now() >= start + rate.time_of(number + 1) {
                feed.count_dropped(1);
                number += 1;
                continue;
            }
            let picture = pattern.draw(number, due, clock.utc_at(due));
            number += 1;
            feed.push(Item::Picture { picture, pts: Ticks::from_time(due), queued: clock.now() })
        };
        if !pushed {
            return;
        }
    }
}

/// A file's time stamps follow from its frame rate. Paced, they lie on the clock; otherwise they begin at zero.
fn run_y4m(file: &mut Y4m, paced: bool, length: Length, clock: Clock, feed: &Feed) -> Result<()> {
    let rate = file.format.rate;
    let start = clock.now();
    let mut number = 0;
    while !length.ends_before(number, rate) {
        let Some(mut picture) = file.next_picture()? else { break };
        let time = rate.time_of(number);
        let pts = if paced {
            picture.captured = start + time;
            picture.captured_utc = Some(clock.utc_at(picture.captured));
            sleep_until(picture.captured, clock);
            Ticks::from_time(picture.captured)
        } else {
            picture.captured = clock.now();
            Ticks::from_time(Time::ZERO + time)
        };
        if !feed.push(Item::Picture { picture, pts, queued: clock.now() }) {
            break;
        }
        number += 1;
    }
    Ok(())
}

fn sleep_until(time: Time, clock: Clock) {
    let wait = time.since(clock.now());
    if !wait.is_zero() {
        thread::sleep(wait);
    }
}

/// A y4m stream whose header has been read.
struct Y4m {
    name: String,
    input: Box<dyn Read + Send>,
    reader: y4m::Reader,
    buffer: Vec<u8>,
    /// Pictures that came along with the header.
    ready: VecDeque<Picture>,
    format: Format,
}

impl Y4m {
    fn open(name: String, mut input: Box<dyn Read + Send>) -> Result<Y4m> {
        let mut reader = y4m::Reader::new();
        let mut buffer = vec![0; READ_BYTES];
        let mut ready = VecDeque::new();
        let header = loop {
            if let Some(header) = reader.header() {
                break header.clone();
            }
            let length = input.read(&mut buffer).with_context(|| name.clone())?;
            let mut bytes = &buffer[..length];
            if length == 0 {
                reader.finish().with_context(|| name.clone())?;
            }
            while let Some(picture) = reader.parse(&mut bytes).with_context(|| name.clone())? {
                ready.push_back(picture);
            }
        };
        if header.format != PixelFormat::I420 {
            let message = format_args!("{name}: pictures are {:?}, not 8-bit 4:2:0", header.format);
            return Err(failure::failed(message, "convert them, as ffmpeg -pix_fmt yuv420p does"));
        }
        if !matches!(header.interlacing, Interlacing::Unknown | Interlacing::Progressive) {
            tracing::warn!("{name} is interlaced and is coded as if it were not");
        }
        let format =
            Format { size: header.size, rate: header.frame_rate, colour: header.colour, live: false };
        Ok(Y4m { name, input, reader, buffer, ready, format })
    }

    fn next_picture(&mut self) -> Result<Option<Picture>> {
        while self.ready.is_empty() {
            let length = self.input.read(&mut self.buffer).with_context(|| self.name.clone())?;
            if length == 0 {
                self.reader.finish().with_context(|| self.name.clone())?;
                return Ok(None);
            }
            let mut bytes = &self.buffer[..length];
            while let Some(picture) = self.reader.parse(&mut bytes).with_context(|| self.name.clone())? {
                self.ready.push_back(picture);
            }
        }
        Ok(self.ready.pop_front())
    }
}
