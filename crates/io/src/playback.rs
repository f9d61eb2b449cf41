//! An ALSA device that plays sound. There is no sound card where this is tested: what it does with one follows ALSA's
//! documentation, and the tests play to the `null` device.

use alsa::pcm::{Access, Format, HwParams, PCM};
use alsa::{Direction, ValueOr};
use thiserror::Error;

/// How often a device takes samples.
const PERIOD_MICROS: u32 = 5_000;
/// What a device holds at most.
const BUFFER_MICROS: u32 = 120_000;
/// Samples that are handed over before it begins, and again after it ran dry.
const AHEAD_MICROS: u32 = 15_000;
/// With more than this waiting in the device a block is left out: the device's crystal is slower than the sender's clock.
const WAITING_MAX_MICROS: u32 = 60_000;

/// Why a device cannot be used.
#[derive(Debug, Error)]
#[error("alsa:{name} {what}: {error}")]
pub struct PlaybackError {
    name: String,
    what: &'static str,
    error: alsa::Error,
}

/// An open device.
pub struct Device {
    pcm: PCM,
    name: String,
    channels: usize,
    rate_hz: u32,
    left_out: u64,
    ran_dry: u64,
}

impl Device {
    /// Opens the device for so many samples a second of so many channels; ALSA makes of them what the device takes.
    ///
    /// # Errors
    /// ALSA's.
    pub fn open(name: &str, rate_hz: u32, channels: u8) -> Result<Device, PlaybackError> {
        let failed = |what| move |error| PlaybackError { name: name.to_owned(), what, error };
        let pcm = PCM::new(name, Direction::Playback, false).map_err(failed("cannot be opened"))?;
        set_up(&pcm, rate_hz, channels).map_err(failed("cannot be set up"))?;
        let channels = usize::from(channels);
        Ok(Device { pcm, name: name.to_owned(), channels, rate_hz, left_out: 0, ran_dry: 0 })
    }

    /// Plays interleaved samples. Waits while the device is full; leaves them out where more wait than is good.
    ///
    /// # Errors
    /// The device has failed.
    pub fn play(&mut self, samples: &[f32]) -> Result<(), PlaybackError> {
        let waiting = self.pcm.delay().unwrap_or(0).max(0) as u64;
        if waiting > u64::from(self.rate_hz) * u64::from(WAITING_MAX_MICROS) / 1_000_000 {
            self.left_out += 1;
            return Ok(());
        }
        let failed = |error| PlaybackError { name: self.name.clone(), what: "does not play", error };
        let io = self.pcm.io_f32().map_err(failed)?;
        let mut rest = samples;
        while !rest.is_empty() {
            match io.writei(rest) {
                Ok(frames) => rest = rest.get(frames * self.channels..).unwrap_or_default(),
                Err(error) => {
                    // It ran dry, or was suspended: it begins again with what follows.
                    self.pcm.try_recover(error, true).map_err(failed)?;
                    self.ran_dry += 1;
                }
            }
        }
        Ok(())
    }

    /// How often it ran dry, and blocks that were left out.
    #[must_use]
    pub fn troubles(&self) -> (u64, u64) {
        (self.ran_dry, self.left_out)
    }

    /// Waits until all is played.
    ///
    /// # Errors
    /// The device has failed.
    pub fn finish(&mut self) -> Result<(), PlaybackError> {
        self.pcm.drain().map_err(|error| PlaybackError {
            name: self.name.clone(),
            what: "does not end",
            error,
        })
    }
}

fn set_up(pcm: &PCM, rate_hz: u32, channels: u8) -> alsa::Result<()> {
    let params = HwParams::any(pcm)?;
    params.set_access(Access::RWInterleaved)?;
    params.set_format(Format::float())?;
    params.set_channels(channels.into())?;
    params.set_rate_resample(true)?;
    params.set_rate(rate_hz, ValueOr::Nearest)?;
    params.set_period_time_near(PERIOD_MICROS, ValueOr::Nearest)?;
    params.set_buffer_time_near(BUFFER_MICROS, ValueOr::Nearest)?;
    pcm.hw_params(&params)?;
    let software = pcm.sw_params_current()?;
    let ahead = u64::from(rate_hz) * u64::from(AHEAD_MICROS) / 1_000_000;
    software.set_start_threshold(ahead as i64)?;
    pcm.sw_params(&software)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_null_device_plays_what_it_is_given() {
        let mut device = match Device::open("null", 48_000, 2) {
            Ok(device) => device,
            Err(error) => {
                let known = std::path::Path::new("/usr/share/alsa/alsa.conf").exists();
                assert!(!known, "ALSA's null device: {error}");
                let why = "ALSA's configuration is not installed";
                return glassline_test_support::skip("the_null_device_plays_what_it_is_given", why);
            }
        };
        for _ in 0..200 {
            device.play(&[0.25; 960]).unwrap();
        }
        device.finish().unwrap();
        assert_eq!(device.troubles().0, 0);
    }

    #[test]
    fn a_device_that_is_not_there_is_said() {
        let refused = Device::open("hw:no-such-card", 48_000, 2).err().unwrap();
        assert!(refused.to_string().starts_with("alsa:hw:no-such-card cannot be opened"), "{refused}");
    }
}
