//! What is received: `receive`'s output, and that of `send --both`.

use super::figures::{self, Report};
use super::sink;
use crate::link::{Extra, Run};
use crate::output::{self, ReaderGone};
use anyhow::{Context, Result};
use glassline_codec::vp8::Limits;
use glassline_engine::direct::VideoReceiver;
#[cfg(feature = "opus")]
use glassline_engine::direct::{AudioOut, SoundReceiver};
use std::io;
use std::sync::Arc;

/// Where what comes goes, beside its pictures.
#[derive(Clone, Debug, Default, PartialEq, clap::Args)]
#[command(next_help_heading = "What is received")]
pub(super) struct ReceiveOptions {
    /// Where sound goes: alsa:DEVICE, FILE.wav, fd:N (raw samples on an open descriptor: s16le, 48 kHz, stereo), or null:
    /// [default: null:]
    #[cfg(feature = "opus")]
    #[arg(long, value_name = "OUTPUT")]
    audio_out: Option<AudioOut>,
}

/// An output that is open, and what shows there.
pub(super) struct Receiving {
    video: Arc<VideoReceiver>,
    #[cfg(feature = "opus")]
    sound: Arc<SoundReceiver>,
    /// Pictures go to standard output.
    to_stdout: bool,
}

impl Receiving {
    pub(super) fn open(output: &str, options: &ReceiveOptions) -> Result<Receiving> {
        #[cfg(not(feature = "opus"))]
        let ReceiveOptions {} = options;
        let (sink, to_stdout) = sink::open(output)?;
        let video = VideoReceiver::new(sink, Limits::default()).context("cannot start a thread")?;
        #[cfg(feature = "opus")]
        let sound = {
            let to = options.audio_out.clone().unwrap_or(AudioOut::Null);
            super::sound::open_output(&to, video.lip_sync())?
        };
        Ok(Receiving {
            video: Arc::new(video),
            #[cfg(feature = "opus")]
            sound,
            to_stdout,
        })
    }

    /// The run with what receives.
    pub(super) fn serve(&self, run: Run) -> Run {
        let run = run.with_service(Arc::clone(&self.video) as _);
        #[cfg(feature = "opus")]
        let run = run.with_service(Arc::clone(&self.sound) as _);
        run
    }

    /// Figures for each second, by these names.
    pub(super) fn figures(
        &self,
        video: &'static str,
        sound: &'static str,
    ) -> impl FnMut() -> Vec<Extra> + use<> {
        let mut of_video = figures::of_receiver(Arc::clone(&self.video), video);
        #[cfg(feature = "opus")]
        let of_sound = Arc::clone(&self.sound);
        #[cfg(not(feature = "opus"))]
        let _ = sound;
        move || {
            let extras = vec![of_video()];
            #[cfg(feature = "opus")]
            return extras.into_iter().chain(figures::of_heard(&of_sound, sound)).collect();
            #[cfg(not(feature = "opus"))]
            extras
        }
    }

    /// Waits until all that came is shown.
    ///
    /// # Errors
    /// The outputs'.
    pub(super) fn finish(&self) -> Result<()> {
        let shown = self.video.finish();
        #[cfg(feature = "opus")]
        let shown = shown.and(self.sound.finish());
        shown.map_err(explain)
    }

    pub(super) fn report(&self) -> Report {
        let report = figures::received(&self.video.statistics());
        #[cfg(feature = "opus")]
        if let Some(sound) = figures::of_heard(&self.sound, "sound") {
            return report.with(sound);
        }
        report
    }

    /// Tells a report where no pictures go.
    pub(super) fn tell(&self, report: &Report, as_json: bool) -> Result<()> {
        match (as_json, self.to_stdout) {
            (true, false) => output::print(&report.json()?),
            (true, true) => output::print_aside(&report.json()?),
            (false, _) => output::print_aside(&report.text()),
        }
    }
}

fn explain(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { ReaderGone.into() } else { error.into() }
}
