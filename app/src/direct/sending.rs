//! What is sent: `send`'s input, and that of `receive --both`.

use super::figures::{self, Report};
#[cfg(feature = "opus")]
use super::sound::SoundArgs;
use crate::encode::{Deinterlace, input_words};
use crate::failure;
use crate::link::{self, Extra, Run};
use anyhow::{Context, Result};
use glassline_engine::capture::{FfmpegInput, Input, Length, Request, Source};
use glassline_engine::direct::{CodecMode, Decision, SendSettings, SenderSettings, VideoSender};
#[cfg(feature = "opus")]
use glassline_engine::direct::{SoundCapture, SoundSender};
use glassline_io::clock::Clock;
use glassline_io::process::processors;
use glassline_io::random;
use glassline_media::quantity::{self, Bitrate};
use glassline_transport::link::Fec;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sides are 14 bits (RFC 6386 §9.1).
const MAX_SIDE: u32 = 16_383;
/// More threads than this bring nothing at 720p.
const MOST_THREADS: usize = 4;
const DEFAULT_SPEED: u8 = 6;
const DEFAULT_CANDIDATES: u8 = 4;
const DEFAULT_PARITY: Fec = Fec::WhenLossy(25);

/// How pictures and sound are captured, coded and sent.
#[derive(Clone, Debug, PartialEq, clap::Args)]
#[command(next_help_heading = "What is sent")]
pub(super) struct SendOptions {
    /// No more bits than this a second for pictures, however much the network takes, as in 3M
    #[arg(long, value_name = "RATE")]
    bitrate: Option<Bitrate>,
    /// The encoder's speed against quality, from 0 (best) to 10 (fastest)
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SPEED, value_parser = clap::value_parser!(u8).range(0..=10))]
    speed: u8,
    /// In how many qualities each picture is encoded at most: more meet the network better, for more processor time;
    /// fewer are made where time is short
    #[arg(long, value_name = "N", default_value_t = DEFAULT_CANDIDATES, value_parser = clap::value_parser!(u8).range(1..=6))]
    candidates: u8,
    /// Parity that goes along with each picture, so that it survives losses: a share while packets are lost (25%), always
    /// (always:25%), or none
    #[arg(long, value_name = "SHARE", default_value = "25%", value_parser = link::parse_parity)]
    fec: Fec,
    /// Threads that encode; 0 chooses by processors
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: u8,
    /// Steer the encoder as others do, for comparisons: a quantiser for a second, and every picture is sent
    #[arg(long)]
    conventional: bool,
    /// Stop after this many pictures
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after this much time of the stream
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// Begin a file again at its end
    #[arg(long = "loop")]
    looped: bool,
    /// What becomes of interlaced pictures
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    deinterlace: Deinterlace,
    /// Write what was decided of each picture, a line of JSON each: budgets, candidates, what was chosen and why
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    #[cfg(feature = "opus")]
    #[command(flatten)]
    sound: SoundArgs,
}

impl Default for SendOptions {
    /// As where nothing is given.
    fn default() -> SendOptions {
        SendOptions {
            bitrate: None,
            speed: DEFAULT_SPEED,
            candidates: DEFAULT_CANDIDATES,
            fec: DEFAULT_PARITY,
            threads: 0,
            conventional: false,
            limit: None,
            duration: None,
            looped: false,
            deinterlace: Deinterlace::Auto,
            decisions: None,
            #[cfg(feature = "opus")]
            sound: SoundArgs::default(),
        }
    }
}

/// An input that is open, and what sends it.
pub(super) struct Sending {
    video: Arc<VideoSender>,
    #[cfg(feature = "opus")]
    sound: Option<Arc<SoundSender>>,
}

impl Sending {
    pub(super) fn open(input: &Input, options: &SendOptions) -> Result<Sending> {
        let file = match input {
            Input::Decoded(path) => Some(FfmpegInput::open(path).map_err(input_words)?),
            _ => None,
        };
        #[cfg(feature = "opus")]
        let sound = options.sound.open(input, file.as_ref())?;
        #[cfg(feature = "opus")]
        let block =
            sound.as_ref().filter(|sound| sound.input.is_none()).map(|sound| sound.sender.block_frames());
        #[cfg(not(feature = "opus"))]
        let block = None;
        let source = open_source(input, file, block, options)?;
        let decisions = options.decisions.as_deref().map(Decisions::create).transpose()?;
        let observer = decisions.map(|decisions| {
            let told = move |decision: &Decision, took| decisions.write(decision, took);
            Box::new(told) as Box<dyn Fn(&Decision, Duration) + Send + Sync>
        });
        let threads = match options.threads {
            0 => processors().min(MOST_THREADS),
            asked => usize::from(asked),
        };
        let sender = SenderSettings {
            speed: options.speed,
            candidates: usize::from(options.candidates),
            bitrate_max: options.bitrate,
            codec: if options.conventional { CodecMode::Conventional } else { CodecMode::Functional },
            ..SenderSettings::new(epoch()?, source.format().rate)
        };
        let send = SendSettings { sender, parity: options.fec, threads };
        #[cfg(feature = "opus")]
        let (sound, capture) = sound
            .map(|sound| {
                let taker = Arc::clone(&sound.sender) as _;
                (sound.sender, SoundCapture { input: sound.input, looped: options.looped, taker })
            })
            .unzip();
        #[cfg(not(feature = "opus"))]
        let capture = None;
        let video = VideoSender::new(source, capture, send, observer);
        let video = Arc::new(video.context("cannot start the encoder's threads")?);
        Ok(Sending {
            video,
            #[cfg(feature = "opus")]
            sound,
        })
    }

    /// The run with what sends.
    pub(super) fn serve(&self, run: Run) -> Run {
        let run = run.with_service(Arc::clone(&self.video) as _);
        #[cfg(feature = "opus")]
        if let Some(sound) = &self.sound {
            return run.with_service(Arc::clone(sound) as _);
        }
        run
    }

    /// Figures for each second, by these names.
    pub(super) fn figures(
        &self,
        video: &'static str,
        sound: &'static str,
    ) -> impl FnMut() -> Vec<Extra> + use<> {
        let mut of_video = figures::of_sender(Arc::clone(&self.video), video);
        #[cfg(feature = "opus")]
        let of_sound = self.sound.clone();
        #[cfg(not(feature = "opus"))]
        let _ = sound;
        move || {
            let extras = vec![of_video()];
            #[cfg(feature = "opus")]
            return extras
                .into_iter()
                .chain(of_sound.as_ref().map(|of| figures::of_sound(of, sound)))
                .collect();
            #[cfg(not(feature = "opus"))]
            extras
        }
    }

    /// Ends the source.
    ///
    /// # Errors
    /// The source's own end, if that was no good one.
    pub(super) fn end(&self) -> Result<()> {
        self.video.stop();
        match self.video.take_end() {
            Some(Err(error)) => Err(input_words(error)),
            _ => Ok(()),
        }
    }

    pub(super) fn report(&self) -> Report {
        let report = figures::sent(&self.video.statistics());
        #[cfg(feature = "opus")]
        if let Some(sound) = &self.sound {
            return report.with(figures::of_sound(sound, "sound"));
        }
        report
    }
}

fn open_source(
    input: &Input,
    file: Option<FfmpegInput>,
    sound: Option<usize>,
    options: &SendOptions,
) -> Result<Source> {
    let request = Request {
        file,
        sound,
        paced: true,
        looped: options.looped,
        deinterlace: options.deinterlace.into(),
        length: Length { pictures: options.limit, time: options.duration },
    };
    let source = Source::open(input, &request, Clock::new()).map_err(input_words)?;
    let size = source.format().size;
    if size.width > MAX_SIDE || size.height > MAX_SIDE {
        let message = format_args!("pictures of {size}: VP8 takes sides up to {MAX_SIDE}");
        return Err(failure::failed(message, "scale them before"));
    }
    Ok(source)
}

/// Names this run for the receiver.
fn epoch() -> Result<u32> {
    let seed = random::seed().context("cannot draw a number for this run")?;
    Ok(u32::from_be_bytes([seed[0], seed[1], seed[2], seed[3]]))
}

/// The file of decisions.
struct Decisions(Mutex<BufWriter<File>>);

impl Decisions {
    fn create(path: &Path) -> Result<Decisions> {
        let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(Decisions(Mutex::new(BufWriter::new(file))))
    }

    fn write(&self, decision: &Decision, took: Duration) {
        let mut file = self.0.lock().expect("nobody panics while writing");
        // A full disk is told once, at the end of the run, by what is missing; the video goes on.
        if let Err(error) = writeln!(file, "{}", figures::decision(decision, took)) {
            tracing::debug!(%error, "cannot write a decision");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: SendOptions,
    }

    #[test]
    fn nothing_given_is_the_default() {
        assert_eq!(Line::parse_from(["line"]).options, SendOptions::default());
        assert_ne!(Line::parse_from(["line", "--loop"]).options, SendOptions::default());
    }
}
