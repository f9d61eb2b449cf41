//! Where sound comes from, by its name, and how it is set going.

use super::fetched::FetchedSound;
use super::ffmpeg_audio::FfmpegAudio;
use super::file_audio::{FileAudio, Track};
use super::live::{LiveSound, Raw, Timer as _, pump};
use super::rtp::RtpSound;
use super::wav_file::{WavFile, time_of};
use crate::capture::{Consumer, Error, Fetched, FfmpegInput, Input, Item, Pace, ParseError, Result};
use crate::raw::described::{self, Options};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::container::wav;
use glassline_media::samples::Format;
use glassline_media::{AudioBlock, SampleFormat, Time};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::thread;

/// Where sound comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AudioIn {
    /// A WAVE file.
    Wav(PathBuf),
    /// Raw samples on an open file descriptor.
    Fd(u32),
    /// An ALSA capture device.
    Alsa(String),
    /// The first audio of a session description (ST 2110-30, AES67).
    Rtp(PathBuf),
}

impl FromStr for AudioIn {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<AudioIn, ParseError> {
        if let Some(number) = text.strip_prefix("fd:") {
            let wrong = |_| ParseError(format!("{text:?}: fd: wants a number, as in fd:3"));
            return number.parse().map(AudioIn::Fd).map_err(wrong);
        }
        if let Some(device) = text.strip_prefix("alsa:") {
            if device.is_empty() || device.contains('\0') {
                return Err(ParseError(format!(
                    "{text:?} names no device; write alsa:default or alsa:hw:1,0 (arecord -L lists them)"
                )));
            }
            return Ok(AudioIn::Alsa(device.to_owned()));
        }
        if let Some(path) = text.strip_prefix("rtp:").filter(|path| !path.is_empty()) {
            return Ok(AudioIn::Rtp(path.into()));
        }
        let path = PathBuf::from(text);
        if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("wav")) {
            return Ok(AudioIn::Wav(path));
        }
        Err(ParseError(format!(
            "{text:?} is none of alsa:DEVICE, rtp:FILE.sdp, FILE.wav and fd:N (raw samples); other files: \
             ffmpeg -i FILE -f s16le -ac 2 -ar 48000 - | glassline encode … --audio-in fd:0"
        )))
    }
}

/// What raw samples are like: `s16le:48000:2`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RawFormat {
    sample: SampleFormat,
    format: Format,
}

impl Default for RawFormat {
    fn default() -> RawFormat {
        RawFormat { sample: SampleFormat::S16, format: Format { rate_hz: 48_000, channels: 2 } }
    }
}

impl FromStr for RawFormat {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<RawFormat, ParseError> {
        RawFormat::parse(text).map_err(ParseError)
    }
}

impl RawFormat {
    fn parse(text: &str) -> Result<RawFormat, String> {
        let [sample, rate, channels] = text.split(':').collect::<Vec<_>>()[..] else {
            return Err(format!("{text:?} is not FORMAT:RATE:CHANNELS, as in s16le:48000:2"));
        };
        let sample =
            SampleFormat::ALL.into_iter().find(|format| format.name() == sample).ok_or_else(|| {
                let all: Vec<_> = SampleFormat::ALL.iter().map(|format| format.name()).collect();
                format!("{sample:?} is no sample format; one of {}", all.join(", "))
            })?;
        let (least, most) = (wav::RATES_HZ.start(), wav::RATES_HZ.end());
        let rate_hz = rate.parse().ok().filter(|rate| wav::RATES_HZ.contains(rate));
        let rate_hz =
            rate_hz.ok_or_else(|| format!("{rate:?} is no rate; {least} to {most} samples a second"))?;
        let channels = channels.parse().ok().filter(|count| (1..=wav::MAX_CHANNELS).contains(count));
        let channels = channels.ok_or_else(|| format!("{text:?}: 1 to {} channels", wav::MAX_CHANNELS))?;
        Ok(RawFormat { sample, format: Format { rate_hz, channels } })
    }
}

/// A sound input that is open.
pub struct SoundInput(Kind);

enum Kind {
    Track(Track),
    Live(Box<dyn LiveSound>),
}

impl SoundInput {
    /// Opens `input`. `raw` says what raw samples are like, and what is asked of a device.
    ///
    /// # Errors
    /// The input's, and [`Error::FormatOfWav`] for a format beside a WAVE file.
    pub fn open(input: &AudioIn, raw: Option<RawFormat>) -> Result<SoundInput> {
        Ok(SoundInput(match input {
            AudioIn::Wav(_) if raw.is_some() => return Err(Error::FormatOfWav),
            AudioIn::Wav(path) => Kind::Track(Track::Wav(Box::new(WavFile::open(path)?))),
            AudioIn::Fd(number) => {
                let RawFormat { sample, format } = raw.unwrap_or_default();
                let input = open_fd(*number).map_err(|error| Error::Descriptor { number: *number, error })?;
                Kind::Live(Box::new(Raw::new(format!("fd:{number}"), input, sample, format)))
            }
            AudioIn::Alsa(device) => Kind::Live(open_alsa(device, raw)?),
            AudioIn::Rtp(_) if raw.is_some() => return Err(Error::FormatOfDescription),
            AudioIn::Rtp(path) => {
                let sound = SoundInput::rtp(path, &Options::default(), Clock::new())?;
                return sound.ok_or_else(|| Error::NoSoundDescribed { path: path.clone() });
            }
        }))
    }

    /// Opens the sound that is `named`, else what a description of `input` has beside its pictures; `None` where it has none.
    ///
    /// # Errors
    /// As those of [`SoundInput::open`] and [`SoundInput::rtp`].
    pub fn named_or_described(
        named: Option<&AudioIn>,
        raw: Option<RawFormat>,
        input: &Input,
        clock: Clock,
    ) -> Result<Option<SoundInput>> {
        match (named, input) {
            (Some(named), _) => SoundInput::open(named, raw).map(Some),
            (None, Input::Rtp { description, options, .. }) => SoundInput::rtp(description, options, clock),
            (None, _) => Ok(None),
        }
    }

    /// The sound of a file that FFmpeg decodes, with so many channels.
    ///
    /// # Errors
    /// FFmpeg's.
    pub fn ffmpeg(file: &FfmpegInput, channels: u8) -> Result<SoundInput> {
        Ok(SoundInput(Kind::Track(Track::Ffmpeg(Box::new(FfmpegAudio::open(file, channels)?)))))
    }

    /// The first audio of a session description, live, of which the first two channels are taken; `None` where it has none.
    ///
    /// # Errors
    /// The description's, and the sockets'.
    pub fn rtp(description: &Path, options: &Options, clock: Clock) -> Result<Option<SoundInput>> {
        let description = described::read(description)?;
        let Some((flow, audio)) = description.audio() else { return Ok(None) };
        Ok(Some(SoundInput(Kind::Live(Box::new(RtpSound::open(flow, audio, options, clock)?)))))
    }

    /// The sound of a stream that is fetched into this process, in two channels; nothing where it has none that can be decoded.
    #[must_use]
    pub fn fetched(source: Arc<dyn Fetched>, clock: Clock) -> SoundInput {
        SoundInput(Kind::Live(Box::new(FetchedSound::new(source, clock))))
    }

    /// Channels of the sound.
    #[must_use]
    pub fn channels(&self) -> u8 {
        match &self.0 {
            Kind::Track(track) => track.channels(),
            Kind::Live(capture) => capture.format().channels,
        }
    }

    /// Whether it comes by the clock, so that it cannot go with pictures that do not.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(self.0, Kind::Live(_))
    }

    /// Starts handing the sound to `consumer`, beside pictures that come at `pace`. A file's sound goes along with a file's
    /// pictures and begins again where they do; beside other pictures a thread plays it, over and over if `looped`.
    ///
    /// # Errors
    /// [`Error::Thread`].
    pub fn start<C: Consumer + 'static>(
        self,
        consumer: &Arc<C>,
        pace: Pace,
        looped: bool,
        clock: Clock,
    ) -> Result<()> {
        match (self.0, pace) {
            (Kind::Track(track), Pace::File { rate, timed }) => {
                consumer.accompany(FileAudio::new(track, rate.time_of(1), timed, looped));
            }
            (Kind::Track(track), Pace::Live) => {
                spawn(consumer, move |consumer| play(track, looped, consumer, clock))?;
            }
            (Kind::Live(mut live), _) => spawn(consumer, move |consumer| {
                let mut push = |block| consumer.push(Item::Sound(block));
                pump(&mut *live, &clock, &mut push, &|| consumer.is_stopped())
            })?,
        }
        Ok(())
    }
}

fn spawn<C: Consumer + 'static>(
    consumer: &Arc<C>,
    run: impl FnOnce(&C) -> Result<()> + Send + 'static,
) -> Result<()> {
    let consumer = Arc::clone(consumer);
    thread::Builder::new()
        .name("sound".to_owned())
        .spawn(move || {
            match contain(Border::Encoder, || run(&consumer)).unwrap_or_else(|it| Err(it.into())) {
                // Pictures go on without it.
                Ok(()) if !consumer.is_stopped() => tracing::info!("the sound has ended"),
                Ok(()) => {}
                Err(error) => tracing::error!("the sound has ended: {error:#}"),
            }
        })
        .map_err(|error| Error::Thread { what: "sound", error })?;
    Ok(())
}

/// Plays a file by the clock: its beginning is captured with the first picture, and where it begins again, with its end.
fn play(mut track: Track, looped: bool, consumer: &impl Consumer, clock: Clock) -> Result<()> {
    let Some(mut start) = consumer.first_picture() else { return Ok(()) };
    loop {
        let mut end = start;
        while let Some(mut block) = track.next_block()? {
            block.captured = start + block.captured.since(Time::ZERO);
            end = end_of(&block);
            clock.sleep_until(end);
            if !consumer.push(Item::Sound(block)) {
                return Ok(());
            }
        }
        // Nothing would be played for ever in no time.
        if !looped || end == start {
            return Ok(());
        }
        track.again()?;
        start = end;
    }
}

fn end_of(block: &AudioBlock) -> Time {
    block.captured + time_of(block.frames() as u64)
}

/// The descriptor by its name in the file system: a second one on the same pipe, or the same file from its beginning.
fn open_fd(number: u32) -> std::io::Result<Box<dyn Read + Send>> {
    if number == 0 {
        return Ok(Box::new(std::io::stdin()));
    }
    Ok(Box::new(File::open(format!("/dev/fd/{number}"))?))
}

#[cfg(feature = "alsa")]
fn open_alsa(device: &str, raw: Option<RawFormat>) -> Result<Box<dyn LiveSound>> {
    let requested = raw.map(|RawFormat { sample, format }| (sample, format));
    let opened = glassline_io::capture::alsa::Device::open(device, requested)?;
    let (Format { rate_hz, channels }, sample) = (opened.format(), opened.sample().name());
    tracing::info!("alsa:{device}: {sample} at {rate_hz} Hz, {channels} channels");
    Ok(Box::new(opened))
}

#[cfg(not(feature = "alsa"))]
fn open_alsa(_: &str, _: Option<RawFormat>) -> Result<Box<dyn LiveSound>> {
    Err(Error::AlsaNotBuiltIn)
}

#[cfg(test)]
#[path = "input_tests.rs"]
mod tests;
