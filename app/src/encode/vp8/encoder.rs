//! The encoder of one stream: its state, how good each picture is to be, and when key frames come.

use super::super::Line;
use super::super::source::Format;
use super::report::Coded;
use super::{BITRATE, SPEED};
use anyhow::{Context, Result};
use glassline_codec::vp8::{
    EncodeWorkspace, Quality, RateControl, RateSettings, Request, State, Verdict, encode_in,
};
use glassline_engine::parallel::Threads;
use glassline_io::clock::Clock;
use glassline_io::process::process_cpu_time;
use glassline_media::Picture;

/// Encodes picture after picture.
pub(super) struct Encoder {
    state: State,
    workspace: EncodeWorkspace,
    request: Request,
    aim: Aim,
    /// Pictures from one key frame to the next, where they come regularly.
    key_interval: Option<u64>,
    threads: Threads,
    pictures: u64,
}

/// How good pictures are to be.
enum Aim {
    /// All with one quantiser index.
    Quantizer(u8),
    /// As the rate allows.
    Rate(Box<RateControl>),
}

impl Encoder {
    /// As the command line says, for pictures of `format`.
    pub(super) fn new(line: &Line, format: Format, threads: usize) -> Result<Encoder> {
        let (settings, options) = (&line.args.settings, &line.args.vp8);
        let key_interval = match line.has("keyint") {
            true => settings.keyint.pictures(format.rate),
            false => None,
        };
        let aim = match options.quantizer {
            Some(index) => Aim::Quantizer(index),
            None => {
                let bitrate = if line.has("bitrate") { settings.bitrate } else { BITRATE };
                let buffer = settings.vbv.time(format.rate);
                let rate = RateSettings::new(bitrate.bits_per_second(), format.rate, buffer);
                Aim::Rate(Box::new(RateControl::new(&RateSettings { key_interval, ..rate })))
            }
        };
        Ok(Encoder {
            state: State::new(),
            workspace: EncodeWorkspace::new(),
            request: Request { speed: options.speed.unwrap_or(SPEED), ..Request::default() },
            aim,
            key_interval: key_interval.map(u64::from),
            threads: Threads::new(threads).context("cannot make threads")?,
            pictures: 0,
        })
    }

    /// Encodes the next picture.
    pub(super) fn encode(&mut self, picture: &Picture) -> Result<(Vec<u8>, Coded)> {
        let (begun, cpu_before) = (Clock.now(), process_cpu_time());
        let key_frame =
            self.pictures == 0 || self.key_interval.is_some_and(|every| self.pictures.is_multiple_of(every));
        let mut index = match &self.aim {
            Aim::Quantizer(index) => *index,
            Aim::Rate(control) => control.quantizer(key_frame),
        };
        let mut tries = 1;
        let encoded = loop {
            let request = Request { quality: Quality::Quantizer(index), key_frame, ..self.request };
            let encoded = encode_in(&self.state, picture, &request, &mut self.workspace, &self.threads)?;
            let Aim::Rate(control) = &self.aim else { break encoded };
            match control.judge(encoded.stats.key, index, encoded.bytes.len(), tries) {
                Verdict::Keep => break encoded,
                Verdict::Again(other) => index = other,
            }
            tries += 1;
        };
        if let Aim::Rate(control) = &mut self.aim {
            control.encoded(encoded.bytes.len(), index, encoded.stats.key);
        }
        self.state = encoded.state;
        self.pictures += 1;
        let coded = Coded {
            bytes: encoded.bytes.len(),
            key: encoded.stats.key,
            quantizer: index,
            again: tries > 1,
            took: Clock.now() - begun,
            cpu: process_cpu_time().saturating_sub(cpu_before),
        };
        Ok((encoded.bytes, coded))
    }

    /// Pictures that a decoder with the buffer of the rate control would have got too late.
    pub(super) fn late(&self) -> Option<u64> {
        match &self.aim {
            Aim::Quantizer(_) => None,
            Aim::Rate(control) => Some(control.late_frames()),
        }
    }
}
