//! An ALSA capture device. There is no sound card where this is tested: what it does with one follows ALSA's
//! documentation, and the tests read the `null` device.

use alsa::pcm::{Access, Format as AlsaFormat, HwParams, PCM};
use alsa::{Direction, ValueOr};
use glassline_media::SampleFormat;
use glassline_media::samples::Format;
use std::time::Duration;
use thiserror::Error;

/// How often a device hands samples over: shorter is sooner, and wakes the processor more often.
const PERIOD_MICROS: u32 = 5_000;
/// What a device holds at least before samples are lost, in microseconds.
const BUFFER_MICROS: u32 = 500_000;
/// What is tried, the best first.
const FORMATS: [SampleFormat; 4] =
    [SampleFormat::S32, SampleFormat::S24, SampleFormat::F32, SampleFormat::S16];

/// Why a device cannot be used.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum AlsaError {
    /// It cannot be opened.
    #[error("alsa:{name} cannot be opened: {error}")]
    Open {
        /// As it was named.
        name: String,
        /// ALSA's words.
        error: alsa::Error,
    },
    /// It does not do what is asked of it.
    #[error("alsa:{name} cannot be set up: {error}")]
    SetUp {
        /// As it was named.
        name: String,
        /// ALSA's words.
        error: alsa::Error,
    },
    /// It has failed, or is gone.
    #[error("alsa:{name}: {error}")]
    Read {
        /// As it was named.
        name: String,
        /// ALSA's words.
        error: alsa::Error,
    },
}

/// An open device.
pub struct Device {
    pcm: PCM,
    name: String,
    sample: SampleFormat,
    format: Format,
    /// A period's bytes.
    buffer: Vec<u8>,
}

/// What came with samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// How long ago the last of them was captured.
    pub age: Duration,
    /// Samples were lost before them.
    pub lost: bool,
}

impl Device {
    /// Opens the device. `request` says what is asked of it; where it is not given that is two channels (or what it
    /// has) near 48 kHz, as finely resolved as there are.
    ///
    /// # Errors
    /// ALSA's.
    pub fn open(name: &str, request: Option<(SampleFormat, Format)>) -> Result<Device, AlsaError> {
        let pcm = PCM::new(name, Direction::Capture, false)
            .map_err(|error| AlsaError::Open { name: name.to_owned(), error })?;
        let (sample, format) =
            set_up(&pcm, request).map_err(|error| AlsaError::SetUp { name: name.to_owned(), error })?;
        let period = pcm.hw_params_current().and_then(|now| now.get_period_size()).unwrap_or(240);
        // Some devices have periods of seconds; those are read in pieces.
        let frames = usize::try_from(period).unwrap_or(240).clamp(1, format.rate_hz as usize / 50);
        let frame_bytes = sample.bytes() * usize::from(format.channels);
        Ok(Device { pcm, name: name.to_owned(), sample, format, buffer: vec![0; frames * frame_bytes] })
    }

    /// Rate and channels.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// How it gives samples.
    #[must_use]
    pub fn sample(&self) -> SampleFormat {
        self.sample
    }

    /// Waits for a period of sound and appends it, interleaved.
    ///
    /// # Errors
    /// The device has failed.
    pub fn read(&mut self, samples: &mut Vec<f32>) -> Result<Read, AlsaError> {
        let frame_bytes = self.sample.bytes() * usize::from(self.format.channels);
        let mut lost = false;
        loop {
            match self.pcm.io_bytes().readi(&mut self.buffer) {
                Ok(0) => {}
                Ok(frames) => {
                    // What the device has captured by now and not handed over yet came after the last sample.
                    let waiting = self.pcm.delay().unwrap_or(0).max(0) as u64;
                    let age = Duration::from_nanos(waiting * 1_000_000_000 / u64::from(self.format.rate_hz));
                    self.sample.decode(&self.buffer[..frames * frame_bytes], samples);
                    return Ok(Read { age, lost });
                }
                Err(error) => {
                    // An overrun or a suspend: the device goes on, and what it could not hold is lost.
                    self.pcm
                        .try_recover(error, true)
                        .map_err(|error| AlsaError::Read { name: self.name.clone(), error })?;
                    lost = true;
                }
            }
        }
    }
}

fn set_up(pcm: &PCM, request: Option<(SampleFormat, Format)>) -> alsa::Result<(SampleFormat, Format)> {
    let params = HwParams::any(pcm)?;
    params.set_access(Access::RWInterleaved)?;
    // Rates are brought to 48 kHz here, with the clock in sight.
    params.set_rate_resample(false)?;
    let sample = match request {
        Some((sample, _)) => sample,
        None => FORMATS
            .into_iter()
            .find(|format| params.test_format(name_of(*format)).is_ok())
            .unwrap_or(SampleFormat::S16),
    };
    params.set_format(name_of(sample))?;
    let channels = match request {
        Some((_, format)) => {
            params.set_channels(format.channels.into())?;
            format.channels
        }
        None => u8::try_from(params.set_channels_near(2)?).unwrap_or(u8::MAX),
    };
    let rate_hz =
        params.set_rate_near(request.map_or(48_000, |(_, format)| format.rate_hz), ValueOr::Nearest)?;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_device_is_read_at_its_nominal_rate() {
        let device = match Device::open("null", None) {
            Ok(device) => device,
            Err(error) => {
                // ALSA's own configuration defines the device: with it, it opens.
                let known = std::path::Path::new("/usr/share/alsa/alsa.conf").exists();
                assert!(!known, "ALSA's null device: {error}");
                let why = "ALSA's configuration is not installed";
                return glassline_test_support::skip("the_null_device_is_read_at_its_nominal_rate", why);
            }
        };
        let mut device = device;
        assert_eq!((device.format.channels, device.sample), (2, SampleFormat::S32));
        let mut samples = Vec::new();
        for _ in 0..400 {
            assert!(!device.read(&mut samples).unwrap().lost);
        }
        let frames = device.buffer.len() / 8;
        assert_eq!(samples.len(), 400 * 2 * frames);
        assert!(samples.iter().all(|sample| *sample == 0.0));
    }

    #[test]
    fn a_device_that_is_not_there_is_said() {
        let refused = Device::open("hw:no-such-card", None).err().unwrap();
        assert!(refused.to_string().contains("alsa:hw:no-such-card cannot be opened"), "{refused}");
    }
}
