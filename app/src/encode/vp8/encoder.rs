//! The encoder of one stream: its state, how good each picture is to be, and when key frames come.

use super::super::Line;
use super::report::Coded;
use super::{BITRATE, SPEED};
use anyhow::{Context, Result};
use glassline_codec::vp8::{
    Denoise, Denoised, EncodeWorkspace, Plan, Quality, RateControl, RateSettings, Request, Role, State,
    Verdict, denoise_in, encode_in,
};
use glassline_engine::capture::Format;
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
    plan: Plan,
    threads: Threads,
    denoise: Option<Denoise>,
    /// The picture before, where noise is taken out.
    denoised: Option<Denoised>,
}

/// How good pictures are to be.
enum Aim {
    /// All with one quantiser index, but for those that others look at.
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
            plan: Plan::new(format.rate.as_f64(), key_interval),
            threads: Threads::new(threads).context("cannot make threads")?,
            denoise: options.denoise(),
            denoised: None,
        })
    }

    /// Encodes the next picture.
    pub(super) fn encode(&mut self, picture: &Picture) -> Result<(Vec<u8>, Coded)> {
        let (begun, cpu_before) = (Clock.now(), process_cpu_time());
        if let Some(strength) = self.denoise {
            let before = self.denoised.as_ref();
            let denoised = denoise_in(before, picture, strength, &mut self.workspace, &self.threads)?;
            self.denoised = Some(denoised);
        }
        let picture = self.denoised.as_ref().map_or(picture, Denoised::picture);
        let mut role = self.plan.role();
        let (mut index, mut tries) = (self.quantizer(role), 1);
        let encoded = loop {
            let request = Request { quality: Quality::Quantizer(index), ..self.request };
            let request = self.plan.request(role, request);
            let encoded = encode_in(&self.state, picture, &request, &mut self.workspace, &self.threads)?;
            if self.plan.is_cut(&encoded.stats) {
                role = Role::Key;
                index = self.quantizer(role);
                continue;
            }
            let Aim::Rate(control) = &self.aim else { break encoded };
            match control.judge(role, index, encoded.bytes.len(), tries) {
                Verdict::Keep => break encoded,
                Verdict::Again(other) => index = other,
            }
            tries += 1;
        };
        if let Aim::Rate(control) = &mut self.aim {
            control.encoded(encoded.bytes.len(), index, role);
        }
        self.plan.encoded(role, &encoded.stats);
        self.state = encoded.state;
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

    fn quantizer(&self, role: Role) -> u8 {
        match &self.aim {
            Aim::Quantizer(nominal) => self.plan.quantizer(role, *nominal),
            Aim::Rate(control) => control.quantizer(role),
        }
    }

    /// Pictures that a decoder with the buffer of the rate control would have got too late.
    pub(super) fn late(&self) -> Option<u64> {
        match &self.aim {
            Aim::Quantizer(_) => None,
            Aim::Rate(control) => Some(control.late_frames()),
        }
    }
}
