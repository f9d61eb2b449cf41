//! An ALSA capture device. There is no sound card where this is tested: what it does with one follows ALSA's
//! documentation, and the tests read the `null` device.

use super::capture::{Arrival, Capture, Timer};
use super::input::RawFormat;
use crate::failure;
use alsa::pcm::{Access, Format as AlsaFormat, HwParams, PCM};
use alsa::{Direction, ValueOr};
use anyhow::{Context, Result};
use glassline_media::SampleFormat;
use glassline_media::samples::Format;
use std::time::Duration;

/// How often a device hands samples over: shorter is sooner, and wakes the processor more often.
const PERIOD_MICROS: u32 = 5_000;
/// What a device holds at least before samples are lost, in microseconds.
const BUFFER_MICROS: u32 = 500_000;
/// What is tried, the best first.
const FORMATS: [SampleFormat; 4] =
    [SampleFormat::S32, SampleFormat::S24, SampleFormat::F32, SampleFormat::S16];

/// An open device.
pub(super) struct Device {
    pcm: PCM,
    name: String,
    sample: SampleFormat,
    format: Format,
    /// A period's bytes.
    buffer: Vec<u8>,
}

impl Device {
    /// Opens the device. `wanted` says what is asked of it; where it is not given that is two channels (or what it
    /// has) near 48 kHz, as finely resolved as there are.
    pub(super) fn open(name: &str, wanted: Option<RawFormat>) -> Result<Device> {
        let hint = "arecord -L lists the devices; --audio-format asks for another format, rate or channels";
        let pcm = PCM::new(name, Direction::Capture, false)
            .map_err(|error| failure::failed(format_args!("alsa:{name} cannot be opened: {error}"), hint))?;
        let (sample, format) = set_up(&pcm, wanted)
            .map_err(|error| failure::failed(format_args!("alsa:{name} cannot be set up: {error}"), hint))?;
        let period = pcm.hw_params_current().and_then(|now| now.get_period_size()).unwrap_or(240);
        // Some devices have periods of seconds; those are read in pieces.
        let frames = usize::try_from(period).unwrap_or(240).clamp(1, format.rate_hz as usize / 50);
        let frame_bytes = sample.bytes() * usize::from(format.channels);
        let (rate, channels) = (format.rate_hz, format.channels);
        tracing::info!("alsa:{name}: {} at {rate} Hz, {channels} channels", sample.name());
        Ok(Device { pcm, name: name.to_owned(), sample, format, buffer: vec![0; frames * frame_bytes] })
    }
}

fn set_up(pcm: &PCM, wanted: Option<RawFormat>) -> alsa::Result<(SampleFormat, Format)> {
    let params = HwParams::any(pcm)?;
    params.set_access(Access::RWInterleaved)?;
    // Rates are brought to 48 kHz here, with the clock in sight.
    params.set_rate_resample(false)?;
    let asked = wanted.unwrap_or_default();
    let sample = match wanted {
        Some(_) => asked.sample(),
        None => FORMATS
            .into_iter()
            .find(|format| params.test_format(name_of(*format)).is_ok())
            .unwrap_or(SampleFormat::S16),
    };
    params.set_format(name_of(sample))?;
    let channels = match wanted {
        Some(_) => {
            params.set_channels(asked.format().channels.into())?;
            asked.format().channels
        }
        None => u8::try_from(params.set_channels_near(2)?).unwrap_or(u8::MAX),
    };
    let rate_hz = params.set_rate_near(asked.format().rate_hz, ValueOr::Nearest)?;
    params.set_period_time_near(PERIOD_MICROS, ValueOr::Nearest)?;
    params.set_buffer_time_near(BUFFER_MICROS, ValueOr::Nearest)?;
    pcm.hw_params(&params)?;
    Ok((sample, Format { rate_hz, channels }))
}

fn name_of(format: SampleFormat) -> AlsaFormat {
    match format {
        SampleFormat::S16 => AlsaFormat::S16LE,
        SampleFormat::S24 => AlsaFormat::S243LE,
        SampleFormat::S32 => AlsaFormat::S32LE,
        SampleFormat::F32 => AlsaFormat::FloatLE,
        SampleFormat::F64 => AlsaFormat::Float64LE,
    }
}

impl Capture for Device {
    fn format(&self) -> Format {
        self.format
    }

    fn read(&mut self, timer: &dyn Timer, samples: &mut Vec<f32>) -> Result<Option<Arrival>> {
        let frame_bytes = self.sample.bytes() * usize::from(self.format.channels);
        let mut lost = false;
        loop {
            match self.pcm.io_bytes().readi(&mut self.buffer) {
                Ok(0) => {}
                Ok(frames) => {
                    // What the device has captured by now and not handed over yet came after the last sample.
                    let waiting = self.pcm.delay().unwrap_or(0).max(0) as u64;
                    let since =
                        Duration::from_nanos(waiting * 1_000_000_000 / u64::from(self.format.rate_hz));
                    let now = timer.now().as_nanos();
                    let end = glassline_media::Time::from_nanos(now.saturating_sub(since.as_nanos() as u64));
                    self.sample.decode(&self.buffer[..frames * frame_bytes], samples);
                    return Ok(Some(Arrival { end, lost }));
                }
                Err(error) => {
                    // An overrun or a suspend: the device goes on, and what it could not hold is lost.
                    self.pcm.try_recover(error, true).with_context(|| format!("alsa:{}", self.name))?;
                    lost = true;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::sound::capture::pump;
    use glassline_media::Time;
    use std::cell::Cell;

    struct Virtual(Cell<Time>);

    impl Timer for Virtual {
        fn now(&self) -> Time {
            self.0.get()
        }

        fn sleep_until(&self, time: Time) {
            self.0.set(self.0.get().max(time));
        }
    }

    #[test]
    fn the_null_device_is_read_at_its_nominal_rate() {
        let device = match Device::open("null", None) {
            Ok(device) => device,
            Err(error) => {
                // ALSA's own configuration defines the device: with it, it opens.
                let known = std::path::Path::new("/usr/share/alsa/alsa.conf").exists();
                assert!(!known, "ALSA's null device: {error:#}");
                let why = "ALSA's configuration is not installed";
                return glassline_test_support::skip("the_null_device_is_read_at_its_nominal_rate", why);
            }
        };
        let mut device = device;
        assert_eq!((device.format.channels, device.sample), (2, SampleFormat::S32));
        let timer = Virtual(Cell::new(Time::from_millis(1000)));
        let mut blocks = Vec::new();
        pump(&mut device, &timer, &mut |block| {
            blocks.push(block);
            blocks.len() < 400
        })
        .unwrap();
        let last = blocks.last().unwrap();
        // 400 blocks of 5 ms, given at the end of each, by a clock that only they move.
        assert_eq!((last.captured, timer.now()), (Time::from_millis(2995), Time::from_millis(3000)));
        assert!(blocks.iter().all(|block| block.samples.iter().all(|sample| *sample == 0.0)));
    }

    #[test]
    fn a_device_that_is_not_there_is_said() {
        let refused = Device::open("hw:no-such-card", None).err().unwrap();
        assert!(format!("{refused:#}").contains("arecord -L"), "{refused:#}");
    }
}
