//! Sources of pictures: they draw, read or capture pictures and hand them over when their time has come.
//!
//! ```text
//!   test pattern ─────────────────────────────────────────────────────────┐
//!   y4m: file, standard input, ffmpeg ─► prepare ─► timeline ─────────────┼─► Consumer
//!   capture device, at the driver's time ─► prepare ──────────────────────┤
//!   uncompressed video over RTP, at its time stamps' ─► prepare ──────────┘
//! ```
//! [`paced`] hands pictures over when their time has come; [`prepare`] makes 8-bit 4:2:0 of everything and whole
//! pictures of fields; [`timeline`] finds out when pictures without time stamps were captured.

mod device;
#[cfg(test)]
mod file_tests;
mod paced;
mod pictures;
mod prepare;
mod rtp;
mod stream;
#[cfg(test)]
mod tests;
mod timeline;

pub(super) use device::{MAX_LOST, STOP_CHECK_INTERVAL, believed};

use super::{Consumer, Error, FfmpegInput, Input, Item, Result, SOUND_RATE_HZ, TONE_CHANNELS};
use glassline_io::capture::Capture;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_measure::pattern::Pattern;
use glassline_measure::tone::Tone;
use glassline_media::pixels::FieldOrder;
use glassline_media::{
    Colour, FrameRate, Picture, PixelFormat, Size, Stage, Stamps, Ticks, Time, Utc, choice,
};
pub use pictures::Pictures;
use prepare::Prepare;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::thread;
use std::time::Duration;
use stream::Y4m;

/// Sound that is later than this is left out: the process was stopped meanwhile, and its receivers did not wait.
const SOUND_TOO_LATE: Duration = Duration::from_millis(500);

choice! {
    /// How interlaced pictures are handled.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
    pub enum Deinterlace {
        /// Make a whole picture from each field: 50i becomes 50p.
        Auto = "auto" as default,
        /// Keep both fields in one picture, which is coded and flagged as interlaced.
        Off = "off",
        /// Treat pictures as progressive: for material with a wrong flag.
        Ignore = "ignore",
    }
}

/// What the pictures are like.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Format {
    /// Width and height.
    pub size: Size,
    /// Pictures a second.
    pub rate: FrameRate,
    /// What the samples mean.
    pub colour: Colour,
    /// Width to height of a sample, where it is said.
    pub sample_aspect: Option<(u32, u32)>,
    /// Where a picture is two fields of two times: which comes first.
    pub fields: Option<FieldOrder>,
    /// Whether pictures come when they come, and none can be had again.
    pub live: bool,
}

/// When to stop by oneself.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Length {
    /// After so many pictures.
    pub pictures: Option<u64>,
    /// After so much time of the stream.
    pub time: Option<Duration>,
}

impl Length {
    /// Whether picture `number` (from 0) is one too many.
    pub(in crate::capture) fn ends_before(self, number: u64, rate: FrameRate) -> bool {
        self.pictures.is_some_and(|pictures| number >= pictures)
            || self.time.is_some_and(|time| rate.time_of(number) >= time)
    }
}

/// Which samples pictures have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pixels {
    /// 8-bit 4:2:0, which encoders take, of even width and height.
    #[default]
    I420,
    /// Those that the input has; fields stay together. Of capture devices it is 8-bit 4:2:0 all the same.
    Own,
}

/// What is asked of a source.
#[derive(Clone, Debug, Default)]
pub struct Request {
    /// What is known of the input, where FFmpeg decodes it.
    pub file: Option<FfmpegInput>,
    /// Samples in a block of the test picture's tone; `None` without the tone.
    pub sound: Option<usize>,
    /// Whether pictures of a file or a pipe are handed over when their time has come.
    pub paced: bool,
    /// Whether a file is read over and over.
    pub looped: bool,
    /// What becomes of interlaced pictures that are converted.
    pub deinterlace: Deinterlace,
    /// Which samples pictures have.
    pub pixels: Pixels,
    /// When to stop by oneself.
    pub length: Length,
    /// What was read of standard input already ([`CodedInput::on_stdin`](super::CodedInput::on_stdin)).
    pub begun: Vec<u8>,
}

/// Gives pictures and sound.
pub struct Source {
    kind: Kind,
    format: Format,
    length: Length,
    clock: Clock,
    wall: Wall,
    pixels: PixelFormat,
    begin: Option<Time>,
}

/// The wall clock at a capture time. Pictures carry it, and nothing else depends on it: setting the machine's clock moves
/// neither time stamps nor the pace.
#[derive(Clone)]
struct Wall(Arc<dyn Fn(Time) -> Utc + Send + Sync>);

impl Wall {
    /// The machine's.
    fn of(clock: Clock) -> Wall {
        Wall(Arc::new(move |time| clock.utc_at(time)))
    }

    fn at(&self, time: Time) -> Utc {
        (self.0)(time)
    }
}

/// Refuses pictures of high dynamic range where they would be converted to 8 bits. PQ and HLG are laid out for 10 bits at
/// least (BT.2100 table 9): 8 bits show bands, and a decoder that takes the curve for BT.709's shows washed-out pictures.
fn refuse_hdr(colour: Colour) -> Result<()> {
    colour.hdr_curve().map_or(Ok(()), |curve| Err(Error::HighDynamicRange { curve }))
}

/// How pictures come.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Pace {
    /// By the clock, and no matter what.
    Live,
    /// Out of a file, when their time has come (`timed`) or as fast as they go.
    File {
        /// Of the pictures.
        rate: FrameRate,
        /// Whether each is handed over when its time has come.
        timed: bool,
    },
}

enum Kind {
    /// With the tone in blocks of so many samples, if it has one.
    Test {
        sound: Option<usize>,
    },
    Y4m {
        stream: Box<Y4m>,
        prepare: Prepare,
        paced: bool,
    },
    Capture {
        capture: Box<dyn Capture>,
        prepare: Prepare,
    },
    /// Uncompressed video over RTP.
    Rtp {
        received: Box<rtp::Received>,
        prepare: Prepare,
    },
    /// The receiving end of a channel from another part of the program.
    Handed(Receiver<Item>),
}

impl Source {
    /// Opens `input` and reads what it says about its pictures. May take as long as the input does.
    ///
    /// # Errors
    /// The input's.
    pub fn open(input: &Input, request: &Request, clock: Clock) -> Result<Source> {
        let source = Source::open_any(input, request, clock)?;
        if request.pixels == Pixels::I420 {
            refuse_hdr(source.format.colour)?;
        }
        Ok(source)
    }

    fn open_any(input: &Input, request: &Request, clock: Clock) -> Result<Source> {
        let Request { file, sound, paced, looped, deinterlace, pixels, length, begun } = request.clone();
        let stream = match input {
            Input::Test { size, rate } => return Ok(Source::test(*size, *rate, sound, length, clock)),
            Input::V4l2 { device, requested } => {
                let capture = device::open(device, requested, clock)?;
                return Ok(Source::capture(capture, deinterlace, length, clock));
            }
            Input::Rtp { description, options, rate } => {
                let opened = rtp::open(description, options, *rate, clock)?;
                let (prepare, pixels) = match pixels {
                    Pixels::I420 => {
                        (Prepare::new(opened.fields, deinterlace, opened.rate), PixelFormat::I420)
                    }
                    Pixels::Own => {
                        (Prepare::keeping(opened.fields, opened.rate), opened.received.format().pixels())
                    }
                };
                let (pixels_in, size_in) =
                    (opened.received.format().pixels(), opened.received.format().size());
                let format = Format {
                    size: prepare.size(size_in),
                    rate: prepare.rate(opened.rate),
                    colour: prepare.colour(opened.colour, pixels_in, size_in),
                    sample_aspect: opened.sample_aspect,
                    fields: prepare.fields(),
                    live: true,
                };
                let kind = Kind::Rtp { received: Box::new(opened.received), prepare };
                return Ok(Source { pixels, ..Source::of(kind, format, length, clock) });
            }
            Input::Stdin => Y4m::stdin(begun)?,
            Input::File(path) => Y4m::file(path, looped)?,
            Input::Decoded(film) => match file {
                Some(file) => Y4m::ffmpeg(&file, looped)?,
                None => Y4m::ffmpeg(&FfmpegInput::open(film)?, looped)?,
            },
        };
        let header = stream.header();
        let (prepare, pixels) = match pixels {
            Pixels::I420 => {
                (Prepare::new(stream.fields(), deinterlace, header.frame_rate), PixelFormat::I420)
            }
            Pixels::Own => (Prepare::keeping(stream.fields(), header.frame_rate), header.format),
        };
        let format = Format {
            size: prepare.size(header.size),
            rate: prepare.rate(header.frame_rate),
            colour: stream.colour(),
            sample_aspect: header.sample_aspect,
            fields: prepare.fields(),
            live: paced && stream.is_stdin(),
        };
        let kind = Kind::Y4m { stream: Box::new(stream), prepare, paced };
        Ok(Source { pixels, ..Source::of(kind, format, length, clock) })
    }

    fn of(kind: Kind, format: Format, length: Length, clock: Clock) -> Source {
        let wall = Wall::of(clock);
        Source { kind, format, length, clock, wall, pixels: PixelFormat::I420, begin: None }
    }

    /// The live test pattern and, if asked for, the tone in blocks of `sound` samples.
    pub fn test(size: Size, rate: FrameRate, sound: Option<usize>, length: Length, clock: Clock) -> Source {
        let format =
            Format { size, rate, colour: Colour::BT709, sample_aspect: None, fields: None, live: true };
        Source::of(Kind::Test { sound }, format, length, clock)
    }

    /// A device that is capturing.
    pub fn capture(
        capture: Box<dyn Capture>,
        deinterlace: Deinterlace,
        length: Length,
        clock: Clock,
    ) -> Source {
        let given = capture.format();
        let prepare = Prepare::new(given.fields, deinterlace, given.rate);
        let format = Format {
            size: prepare.size(given.size),
            rate: prepare.rate(given.rate),
            colour: given.colour,
            sample_aspect: None,
            fields: prepare.fields(),
            live: true,
        };
        Source::of(Kind::Capture { capture, prepare }, format, length, clock)
    }

    /// What another thread hands over as it comes: pictures of `format` with their times, and sound. It ends with its senders.
    #[must_use]
    pub fn handed(items: Receiver<Item>, format: Format, clock: Clock) -> Source {
        Source::of(Kind::Handed(items), format, Length::default(), clock)
    }

    /// The same with another wall clock, which can be set without setting the machine's.
    #[must_use]
    pub fn with_wall(self, wall: impl Fn(Time) -> Utc + Send + Sync + 'static) -> Source {
        Source { wall: Wall(Arc::new(wall)), ..self }
    }

    /// The same source, but its first picture is captured at `begin` and not at once. This holds for sources without a clock
    /// of their own: the test pattern, and a file that is handed over by the clock.
    #[must_use]
    pub fn beginning_at(self, begin: Time) -> Source {
        Source { begin: Some(begin), ..self }
    }

    /// What the pictures are like.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// Components and depth of their samples.
    #[must_use]
    pub fn pixels(&self) -> PixelFormat {
        self.pixels
    }

    /// Whether pictures come when they come, and none can be had again.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.format.live
    }

    /// Whether it is the test pattern, which comes by our own clock.
    #[must_use]
    pub fn is_test(&self) -> bool {
        matches!(self.kind, Kind::Test { .. })
    }

    /// How its pictures come, for the sound that goes with them.
    #[must_use]
    pub fn pace(&self) -> Pace {
        match &self.kind {
            _ if self.format.live => Pace::Live,
            Kind::Y4m { paced, .. } => Pace::File { rate: self.format.rate, timed: *paced },
            Kind::Test { .. } | Kind::Capture { .. } | Kind::Rtp { .. } | Kind::Handed(_) => Pace::Live,
        }
    }

    /// Hands pictures, and the test pattern's tone, to `consumer` until the source ends or the consumer wants no more; then
    /// tells the consumer how that ended. Blocks until then.
    pub fn run(self, consumer: &dyn Consumer) {
        let ended = contain(Border::Encoder, || self.hand_over_all(consumer));
        consumer.end(ended.unwrap_or_else(|panicked| Err(panicked.into())));
    }

    fn hand_over_all(self, consumer: &dyn Consumer) -> Result<()> {
        let Source { kind, format, length, clock, wall, pixels: _, begin } = self;
        let rate = format.rate;
        let mut outlet = Outlet { consumer, clock, wall, rate, number: 0, last: None, again: false };
        match kind {
            Kind::Test { sound } => {
                run_test(format, sound, begin, length, &outlet);
                Ok(())
            }
            Kind::Y4m { mut stream, mut prepare, paced } => {
                if paced {
                    paced::run(&mut stream, &mut prepare, begin, length, &mut outlet)
                } else {
                    run_unpaced(&mut stream, &mut prepare, length, &mut outlet)
                }
            }
            Kind::Handed(items) => {
                for item in items {
                    if !outlet.consumer.push(item) {
                        break;
                    }
                }
                Ok(())
            }
            Kind::Rtp { mut received, mut prepare } => {
                rtp::run(&mut received, &mut prepare, length, &mut outlet)
            }
            Kind::Capture { mut capture, mut prepare } => {
                device::run(&mut *capture, &mut prepare, length, &mut outlet)
            }
        }
    }
}

/// The way to the consumer, of pictures that were not drawn.
struct Outlet<'a> {
    consumer: &'a dyn Consumer,
    clock: Clock,
    wall: Wall,
    /// Of the pictures that are pushed.
    rate: FrameRate,
    /// Pictures pushed so far.
    number: u64,
    last: Option<Ticks>,
    /// The next picture is the first of a file that has begun again.
    again: bool,
}

impl Outlet<'_> {
    /// Pushes a picture that was captured at `captured`, once that time has come, and was there at `arrived`; false where the
    /// consumer wants no more. One that is not later than the last is left out and counted.
    fn push_at(&mut self, mut picture: Picture, captured: Time, arrived: Time) -> bool {
        let pts = Ticks::from_time(captured);
        if self.last.is_some_and(|last| pts <= last) {
            self.consumer.count_dropped(1);
            return true;
        }
        sleep_until(captured, self.clock);
        picture.captured = captured;
        picture.captured_utc = Some(self.wall.at(captured));
        self.push(picture, pts, arrived)
    }

    fn push(&mut self, picture: Picture, pts: Ticks, arrived: Time) -> bool {
        self.number += 1;
        self.last = Some(pts);
        if std::mem::take(&mut self.again) && !self.consumer.begin_again(pts) {
            return false;
        }
        let stamps = Stamps::captured_at(picture.captured)
            .with(Stage::Arrived, arrived)
            .with(Stage::Queued, self.clock.now());
        self.consumer.push(Item::Picture { picture, pts, stamps })
    }
}

/// The test pattern acts as a camera that opens its shutter exactly at the frame rate: a picture's capture time is when it
/// was due, and what drawing and waking cost counts as delay.
fn run_test(format: Format, sound: Option<usize>, begin: Option<Time>, length: Length, outlet: &Outlet<'_>) {
    let Outlet { consumer, clock, wall, .. } = outlet;
    let clock = *clock;
    let rate = format.rate;
    let mut pattern = Pattern::new(format.size, rate);
    let mut tone = Tone::new(SOUND_RATE_HZ, TONE_CHANNELS);
    let block_frames = sound.unwrap_or(0);
    let block_time = |block: u64| {
        Duration::from_nanos(block * block_frames as u64 * 1_000_000_000 / u64::from(SOUND_RATE_HZ))
    };
    let start = begin.unwrap_or_else(|| clock.now());
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
            consumer.push(Item::Sound(tone.next(block_frames, block_start, wall.at(block_start))))
        } else {
            sleep_until(due, clock);
            // Later than the next picture's time: this one is left out, as a camera would.
            if clock.now() >= start + rate.time_of(number + 1) {
                consumer.count_dropped(1);
                number += 1;
                continue;
            }
            let picture = pattern.draw(number, due, wall.at(due));
            number += 1;
            let drawn = clock.now();
            let stamps = Stamps::captured_at(due).with(Stage::Arrived, drawn).with(Stage::Queued, drawn);
            consumer.push(Item::Picture { picture, pts: Ticks::from_time(due), stamps })
        };
        if !pushed {
            return;
        }
    }
}

/// As fast as they are taken, time stamps follow from the frame rate and begin at zero.
fn run_unpaced(
    stream: &mut Y4m,
    prepare: &mut Prepare,
    length: Length,
    outlet: &mut Outlet<'_>,
) -> Result<()> {
    while !length.ends_before(outlet.number, outlet.rate) {
        let Some(picture) = stream.next_picture()? else { break };
        let arrived = outlet.clock.now();
        outlet.again |= stream.take_again();
        for mut picture in prepare.pictures(picture) {
            if length.ends_before(outlet.number, outlet.rate) {
                break;
            }
            picture.captured = arrived;
            let pts = Ticks::from_time(Time::ZERO + outlet.rate.time_of(outlet.number));
            if !outlet.push(picture, pts, arrived) {
                return Ok(());
            }
        }
    }
    Ok(())
}

pub(in crate::capture) fn sleep_until(time: Time, clock: Clock) {
    let wait = time.since(clock.now());
    if !wait.is_zero() {
        thread::sleep(wait);
    }
}
