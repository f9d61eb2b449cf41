//! Live sound: read as it comes, followed onto the capture clock, handed over at once.

use super::wav_file::{Converter, time_of};
use crate::capture::{Error, Result, SOUND_RATE_HZ};
use glassline_io::clock::Clock;
use glassline_media::samples::{Follower, Format};
use glassline_media::{AudioBlock, SampleFormat, Time};
use std::io::{ErrorKind, Read};
use std::thread;
use std::time::Duration;

/// Samples of each channel that are resampled at a time: 1 ms.
const CHUNK_FRAMES: usize = 48;
/// How much sound is read at a time at most. Smaller pieces tell better when the last one came.
const READ_TIME: Duration = Duration::from_millis(20);
/// What has this much of sound ready at once is not captured but read. More than a pipe holds.
const AHEAD: Duration = Duration::from_secs(1);

/// A device or pipe that gives sound as it is captured.
pub(super) trait LiveSound: Send {
    /// What the sound is like.
    fn format(&self) -> Format;

    /// Whether it cannot be a file, so that sound which is ready at once has waited somewhere since it was captured.
    fn is_always_live(&self) -> bool {
        false
    }

    /// Waits for sound and appends it, interleaved; nothing where none came for a while, `None` at the end.
    fn read(&mut self, timer: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>>;
}

/// When sound came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Arrival {
    /// When the last sample was captured, as far as the source can tell: never before that.
    pub(super) end: Time,
    /// Samples were lost before these.
    pub(super) lost: bool,
}

/// The capture clock.
pub(super) trait Timer {
    fn now(&self) -> Time;
    fn sleep_until(&self, time: Time);
}

impl Timer for Clock {
    fn now(&self) -> Time {
        Clock::now(self)
    }

    fn sleep_until(&self, time: Time) {
        let wait = time.since(Clock::now(self));
        if !wait.is_zero() {
            thread::sleep(wait);
        }
    }
}

/// Reads `capture` until it ends, `push` returns false or, while nothing comes, `is_stopped` returns true; passes blocks at
/// 48 kHz to `push`, stamped on the capture clock. A source that turns out not to be live is read at its nominal rate from
/// then on.
pub(super) fn pump(
    capture: &mut dyn LiveSound,
    timer: &dyn Timer,
    push: &mut dyn FnMut(AudioBlock) -> bool,
    is_stopped: &dyn Fn() -> bool,
) -> Result<()> {
    let format = capture.format();
    let channels = usize::from(format.channels);
    let mut follower = Follower::new(format, SOUND_RATE_HZ, CHUNK_FRAMES);
    // What came while it is not known yet what kind of source this is.
    let mut early = Vec::new();
    let mut samples = Vec::new();
    let mut told = 0;
    loop {
        samples.clear();
        let Some(arrival) = capture.read(timer, &mut samples)? else { return Ok(()) };
        if samples.is_empty() && !arrival.lost {
            if is_stopped() {
                return Ok(());
            }
            continue;
        }
        if arrival.lost {
            follower.restart();
            early.clear();
            tracing::warn!("sound was lost: its source went on elsewhere, or was not read in time");
        }
        let block = follower.push(&samples, arrival.end)?;
        if !follower.is_settled() {
            early.extend_from_slice(&samples);
            if !capture.is_always_live() && follower.ahead(arrival.end) > AHEAD {
                tracing::info!("the sound comes as fast as it is read: it is read at its nominal rate");
                return pace(capture, timer, push, early);
            }
            // Bounded where a source gives a few samples a minute.
            early.truncate(4 * channels * format.rate_hz as usize);
            continue;
        }
        early.clear();
        if block.is_some_and(|block| !push(block)) {
            return Ok(());
        }
        if follower.restarts() > told {
            told = follower.restarts();
            tracing::warn!("sound and its time stamps did not go together any more; it was set right");
        }
    }
}

/// Reads `capture` at its nominal rate from now on; `early` was read before.
fn pace(
    capture: &mut dyn LiveSound,
    timer: &dyn Timer,
    push: &mut dyn FnMut(AudioBlock) -> bool,
    early: Vec<f32>,
) -> Result<()> {
    let start = timer.now();
    let mut converter = Converter::new(capture.format())?;
    converter.push(&early)?;
    let mut samples = early;
    let mut ended = false;
    loop {
        while let Some(mut block) = converter.poll(ended) {
            block.captured = start + block.captured.since(Time::ZERO);
            timer.sleep_until(block.captured + time_of(block.frames() as u64));
            if !push(block) {
                return Ok(());
            }
        }
        if ended {
            return Ok(());
        }
        samples.clear();
        match capture.read(timer, &mut samples)? {
            Some(_) => converter.push(&samples)?,
            None => {
                converter.finish()?;
                ended = true;
            }
        }
    }
}

#[cfg(feature = "alsa")]
impl LiveSound for glassline_io::capture::alsa::Device {
    fn format(&self) -> Format {
        self.format()
    }

    fn read(&mut self, timer: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        let glassline_io::capture::alsa::Read { age, lost } = self.read(samples)?;
        let end = Time::from_nanos(timer.now().as_nanos().saturating_sub(age.as_nanos() as u64));
        Ok(Some(Arrival { end, lost }))
    }
}

/// Raw samples from a pipe, FIFO or file.
pub(super) struct Raw {
    name: String,
    input: Box<dyn Read + Send>,
    sample: SampleFormat,
    format: Format,
    buffer: Vec<u8>,
    /// Bytes of a frame that is not whole yet, at the buffer's beginning.
    held: usize,
}

impl Raw {
    pub(super) fn new(
        name: String,
        input: Box<dyn Read + Send>,
        sample: SampleFormat,
        format: Format,
    ) -> Raw {
        let frame_bytes = sample.bytes() * usize::from(format.channels);
        let frames = READ_TIME.as_millis() as usize * format.rate_hz as usize / 1000;
        Raw { name, input, sample, format, buffer: vec![0; frames.max(1) * frame_bytes], held: 0 }
    }
}

impl LiveSound for Raw {
    fn format(&self) -> Format {
        self.format
    }

    fn read(&mut self, timer: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        let frame_bytes = self.sample.bytes() * usize::from(self.format.channels);
        loop {
            let length = match self.input.read(&mut self.buffer[self.held..]) {
                Ok(0) => return Ok(None),
                Ok(length) => self.held + length,
                Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                Err(error) => return Err(Error::read(&self.name)(error)),
            };
            let whole = length / frame_bytes * frame_bytes;
            let end = timer.now();
            self.sample.decode(&self.buffer[..whole], samples);
            self.buffer.copy_within(whole..length, 0);
            self.held = length - whole;
            if whole > 0 {
                return Ok(Some(Arrival { end, lost: false }));
            }
        }
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
