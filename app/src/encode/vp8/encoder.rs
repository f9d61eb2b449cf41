//! From the command line to `vp8::Encoder`, and what each picture took.

use super::super::Line;
use super::report::Coded;
use super::{BITRATE, SPEED};
use anyhow::{Context, Result};
use glassline_codec::vp8::{self, EncoderSettings, RateSettings, StreamQuality};
use glassline_io::clock::Clock;
use glassline_io::process::process_cpu_time;
use glassline_media::Picture;
use glassline_studio::capture::Format;
use glassline_studio::parallel::Threads;

/// Encodes picture after picture, and takes the time.
pub(super) struct Encoder {
    encoder: vp8::Encoder,
    threads: Threads,
}

impl Encoder {
    /// As the command line says, for pictures of `format`.
    pub(super) fn new(line: &Line, format: Format, threads: usize) -> Result<Encoder> {
        let threads = Threads::new(threads).context("cannot make threads")?;
        Ok(Encoder { encoder: vp8::Encoder::new(&settings(line, format)), threads })
    }

    /// Encodes the next picture.
    pub(super) fn encode(&mut self, picture: &Picture) -> Result<(Vec<u8>, Coded)> {
        let (begun, cpu_before) = (Clock.now(), process_cpu_time());
        let frame = self.encoder.encode(picture, &self.threads)?;
        let coded = Coded {
            bytes: frame.bytes.len(),
            key: frame.stats.key,
            quantizer: frame.quantizer,
            again: frame.tries > 1,
            took: Clock.now() - begun,
            cpu: process_cpu_time().saturating_sub(cpu_before),
        };
        Ok((frame.bytes, coded))
    }

    /// Pictures that a decoder with the buffer of the rate control would have got too late.
    pub(super) fn late(&self) -> Option<u64> {
        self.encoder.late_frames()
    }
}

fn settings(line: &Line, format: Format) -> EncoderSettings {
    let (settings, options) = (&line.args.options, &line.args.vp8);
    let quality = match options.quantizer {
        Some(index) => StreamQuality::Quantizer(index),
        None => {
            let bitrate = settings.bitrate.unwrap_or(BITRATE);
            let buffer = settings.vbv.time(format.rate);
            StreamQuality::Rate(RateSettings::new(bitrate.bits_per_second(), format.rate, buffer))
        }
    };
    EncoderSettings {
        frame_rate: format.rate,
        key_interval: if line.has("keyint") { settings.keyint.pictures(format.rate) } else { None },
        quality,
        speed: options.speed.unwrap_or(SPEED),
        denoise: options.denoise(),
    }
}
