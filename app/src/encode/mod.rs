//! `glassline encode`: pictures and sound in, H.264 and Opus in MPEG-TS out, with no added delay.
//!
//! ```text
//! source thread ──► queue ──► x264 ──► muxer ──► every output      (a thread for each rendition from its queue on)
//!   test, y4m,│     (bounded; a live source's oldest waiting picture gives way)
//!   ffmpeg,   │
//!   v4l2      └► sound, coded once for all renditions (with --audio-in on a thread of its own)
//! ```
//! Nothing waits on the way: a slice is muxed and written while x264 is at the next one. `serve` runs the same for its
//! `[encode.NAME]` sections, with a sink of its own ([`Job`]).

mod adapt;
mod budget;
mod constant_rate;
mod control;
mod control_socket;
mod feed;
mod film;
mod input;
mod inputs;
mod inside;
mod keyint;
mod ladder;
mod line;
mod output;
mod picture;
mod pipeline;
mod queue;
mod session;
#[cfg(test)]
mod session_tests;
mod settings;
mod sink;
mod sound;
mod source;
mod stall;
mod stats;
#[cfg(test)]
mod tests;
mod vp8;

use crate::trust::Trust;
use crate::{failure, output as stdout};
use anyhow::{Context, Result};
pub(crate) use control::{Controls, Status};
pub(crate) use control_socket::answers_to;
use feed::Feed;
use glassline_io::clock::Clock;
use glassline_media::quantity;
use input::Input;
use inputs::Inputs;
pub(crate) use inside::{Job, Publish, Stopper, check_section, input_in, require, sound_in, stream_names};
pub(crate) use line::Line;
use output::Output;
use pipeline::{Packets, Pipeline};
use queue::Queue;
use session::{Rendition, Session};
pub(crate) use settings::Settings;
use signal_hook::consts::{SIGINT, SIGTERM};
use sink::{Credentials, Sinks};
use sound::{Audio, AudioIn, Refusal};
use source::{Format, Length, Source};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Encode pictures and sound to H.264 and Opus in MPEG-TS, without added delay
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to encode: test:WIDTHxHEIGHT@RATE (moving pattern, clock and tone), FILE.y4m, - (y4m on standard
    /// input), v4l2:DEVICE[?size=WxH&rate=R&format=F] (a capture device), or a file that FFmpeg reads (file:PATH
    /// where its name looks like something else), with its sound
    #[arg(value_name = "INPUT")]
    input: Input,
    /// Where to: FILE.ts, FILE.mp4 or FILE.ivf (overwritten), - (standard output), udp://HOST:PORT or rtp://HOST:PORT (multicast
    /// too; behind it ?ttl=N&interface=NAME&source=ADDRESS&packets=N), http://HOST[:PORT]/live/NAME.ts or https://…,
    /// null: (nowhere). Several get the same stream, and one that is slow or fails does not hold the others
    #[arg(value_name = "OUTPUT", required = true)]
    outputs: Vec<Output>,
    /// How pictures are coded; VP8 goes into FILE.ivf, - or null:, alone and as fast as it goes
    #[arg(long, value_enum, value_name = "CODEC", default_value = "h264")]
    codec: VideoCodec,
    #[command(flatten)]
    settings: Settings,
    #[command(flatten)]
    vp8: vp8::Options,
    #[command(flatten)]
    sound: sound::Wanted,
    /// Stop after this many pictures
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after this much time of the stream
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// Hand pictures of a file over when their time has come [default: where an output is on the network]
    #[arg(long, conflicts_with = "no_realtime")]
    realtime: bool,
    /// Encode a file as fast as it goes, to the network too
    #[arg(long)]
    no_realtime: bool,
    /// Begin a file again at its end: pictures with their sound, and FILE.wav beside other pictures
    #[arg(long = "loop")]
    looped: bool,
    /// What becomes of interlaced pictures
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    deinterlace: Deinterlace,
    /// One of several versions, each at a size, rate and bit rate of its own, from one capture: its outputs are
    /// NAME-720p50.ts and so on, or have {rendition} or {index} in them; udp:// ports go up by two
    #[arg(long = "rendition", value_name = "WxH@RATE:BITRATE", conflicts_with = "bitrate")]
    renditions: Vec<ladder::Rendition>,
    /// File with the key that a server asks for from publishers
    #[arg(long, value_name = "FILE")]
    publish_key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    /// Take commands on a Unix socket at PATH, a line each: keyframe, bitrate RATE, status. As in
    /// echo keyframe | socat - UNIX:PATH
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Tell where the milliseconds go: each second on a terminal, and as a table at the end
    #[arg(long)]
    stats: bool,
    /// Print the table of --stats as JSON, one line a rendition, on standard output; of VP8 the report, on standard
    /// error where the stream goes to standard output
    #[arg(long)]
    json: bool,
    /// Draw where each millisecond went
    #[arg(long, value_name = "FILE.svg")]
    budget: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  glassline encode test:1280x720@50 http://127.0.0.1:8080/live/demo.ts
  glassline encode film.y4m film.ts --preset slow --bitrate 8M
  glassline encode test:1920x1080@60000/1001 'udp://239.1.2.3:5000?ttl=8' copy.mp4 --bitrate 10M --vbv 200ms
  glassline encode test:1280x720@50 https://relay.example/live/stage.ts --publish-key-file publish.key
  glassline encode film.y4m film.ts --audio-in film.wav --audio aac --audio-bitrate 192k
  glassline encode test:1280x720@50 udp://239.1.2.3:5000 --audio-in alsa:hw:1,0 --audio s302m
  glassline encode film.mkv http://127.0.0.1:8080/live/film.ts --loop
  glassline encode 'v4l2:/dev/video0?size=1280x720&rate=50' udp://127.0.0.1:5000 --preset superfast
  ffmpeg -f decklink -i 'DeckLink Mini Recorder' -f yuv4mpegpipe -strict -1 - | glassline encode - udp://127.0.0.1:5000
  glassline encode test:1280x720@50 udp://10.0.0.2:5000 --bitrate 2M --vbv 1frame --intra-refresh --adapt
  glassline encode test:1280x720@50 udp://239.1.2.3:5000 --cbr --vbv 200ms --bitrate 5M --mux-rate 6M
  glassline encode - http://127.0.0.1:8080/live/hall.ts \
      --rendition 1280x720@50:8M --rendition 1280x720@25:2M --rendition 640x360@25:500k
  glassline encode test:1280x720@50 null: --duration 10s --stats
  glassline encode film.y4m film.ivf --codec vp8 --bitrate 1200k --vbv 1s --speed 6
  glassline encode night.y4m night.ivf --codec vp8 --bitrate 800k --denoise 3";

/// How pictures are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum VideoCodec {
    /// By libx264
    H264,
    /// By our own encoder
    Vp8,
}

/// What becomes of interlaced pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Deinterlace {
    /// A whole picture of each field: 50i becomes 50p
    Auto,
    /// Both fields stay in one picture, which is coded and flagged as interlaced
    Off,
    /// They are taken for whole pictures: for material that is flagged wrongly
    Ignore,
}

impl Args {
    /// Whether pictures of a file are handed over when their time has come.
    fn paced(&self) -> bool {
        self.realtime || !self.no_realtime && self.outputs.iter().any(Output::is_network)
    }

    /// Refuses to begin again what does not end.
    fn check_loop(&self) -> Result<()> {
        let of_file = self.input.path().is_some() || matches!(self.sound.audio_in, Some(AudioIn::Wav(_)));
        if self.looped && !of_file {
            return Err(failure::usage("only a file can be looped", "leave --loop out"));
        }
        Ok(())
    }

    /// Whether pictures come by the clock, live or paced.
    fn is_timed(&self) -> bool {
        matches!(self.input, Input::Test { .. } | Input::V4l2 { .. }) || self.paced()
    }
}

/// Encodes until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(crate) fn run(line: Line) -> Result<()> {
    output::check(&line.args.input, &line.args.outputs)?;
    if line.args.codec == VideoCodec::Vp8 {
        return vp8::run(&line);
    }
    line.refuse_these(&vp8::OWN_OPTIONS, "belongs to VP8")?;
    run_h264(line.args)
}

fn run_h264(args: Args) -> Result<()> {
    if args.json && !args.stats {
        return Err(failure::usage("--json prints the table of --stats", "give --stats too"));
    }
    if let Some(output) = args.outputs.iter().find(|output| output.is_ivf()) {
        let message = format_args!("{output}: IVF files get no H.264");
        return Err(failure::usage(message, "give --codec vp8, or choose a .ts or .mp4 file"));
    }
    if args.json && args.outputs.contains(&Output::Stdout) {
        let message = "--json prints to standard output, which carries the stream";
        return Err(failure::usage(message, "leave --json out, or send the stream elsewhere"));
    }
    args.check_loop()?;
    let Inputs { film, sound: sound_input, audio } =
        Inputs::open(&args.input, &args.sound, args.is_timed(), Refusal::on_command_line)?;
    if audio.codec == Audio::S302m
        && let Some(output) = args.outputs.iter().find(|output| output.is_mp4())
    {
        let message = format_args!("{output}: MP4 files get no SMPTE 302M sound");
        return Err(failure::usage(message, "choose --audio opus, aac or none, or a .ts file"));
    }
    let key = args.publish_key_file.as_deref().map(sink::read_key).transpose()?;
    let clock = Clock::new();
    let length = Length { pictures: args.limit, time: args.duration };
    let tone = audio.block_frames().filter(|_| sound_input.is_none());
    let request = source::Request {
        film: film.clone(),
        sound: tone,
        paced: args.paced(),
        looped: args.looped,
        deinterlace: args.deinterlace,
        length,
    };
    let source = Source::open(&args.input, &request, clock)?;
    let pace = source.pace();
    let ladder = args.ladder(source.format())?;
    let sound = sound::Encoder::open(&audio)?;
    let status = |step: &Step| Pipeline::status(step.format, &step.settings);
    let controls = Controls::new(ladder.iter().map(status).collect());
    let stream = sound.as_ref().map(sound::Encoder::stream);
    let mut pipelines = Vec::new();
    for (index, step) in ladder.iter().enumerate() {
        let (format, settings) = (step.format, &step.settings);
        pipelines.push(Pipeline::new(format, settings, stream, controls.clone(), index, clock)?);
    }
    if args.stats {
        // One line has room for one rendition: the first.
        pipelines[0].stats.report_live();
    }
    let live = source.is_live();
    let queues: Vec<_> = ladder.iter().map(|_| Arc::new(Queue::new(live))).collect();
    let mut feed = Feed::new(queues.clone(), sound, controls.clone());
    if !args.renditions.is_empty() {
        feed = feed.with_ladder(&args.renditions, source.format(), args.settings.keyint)?;
    }
    // Outputs come last: nothing is overwritten or connected where an argument is wrong.
    let credentials = Credentials { key, trust: args.trust.clone() };
    let mut sinks = Vec::new();
    for (step, queue) in ladder.iter().zip(&queues) {
        sinks.push(Sinks::open(&step.outputs, &credentials, queue)?);
    }
    let boards = sinks.iter().flat_map(Sinks::boards).collect::<Vec<_>>();
    let listen = |path: &PathBuf| control_socket::listen(path, controls.clone(), boards);
    let _listening = args.control.as_ref().map(listen).transpose()?;
    let sinks: Vec<_> = sinks.into_iter().map(|sinks| Arc::new(Mutex::new(sinks))).collect();
    let feed = Arc::new(feed);
    stop_on_signal(&feed)?;
    if let Some(input) = sound_input {
        input.start(&feed, pace, args.looped, clock)?;
    }
    let rendition = |((pipeline, queue), sinks): ((Pipeline, &Arc<Queue>), &Arc<Mutex<Sinks>>)| {
        let writing = Arc::clone(sinks);
        let sink = Box::new(move |packets: &Packets<'_>| writing.lock().expect(UNPOISONED).write(packets));
        Rendition { pipeline, queue: Arc::clone(queue), sink }
    };
    let renditions = pipelines.into_iter().zip(&queues).zip(&sinks).map(rendition).collect();
    let (mut pipelines, ended) = Session::start(source, feed, renditions)?.join();
    Inputs::end(film.as_ref());
    let finished = sinks.iter().map(|sinks| sinks.lock().expect(UNPOISONED).finish());
    // Every one is ended, whether another failed or not.
    let ended = finished.fold(ended, |ended, finished| ended.and(finished));
    let mut budgets = Vec::new();
    for ((pipeline, status), queue) in pipelines.iter_mut().zip(controls.status()).zip(&queues) {
        let stats = &mut pipeline.stats;
        stats.end_live();
        let which = if ladder.len() > 1 { format!("{}: ", status.name) } else { String::new() };
        tracing::info!("{which}{}", stats.summary(queue.dropped()));
        if args.json {
            stdout::print(&format!("{}\n", stats.json(&status.name, queue.dropped())))?;
        } else if args.stats {
            stdout::print_aside(&format!("{which}{}", stats.table()))?;
        }
        budgets.push(budget::draw(stats, &format!("{}, preset {}", status.name, args.settings.preset)));
    }
    if let Some(path) = &args.budget {
        budget::write(path, &budgets)?;
    }
    ended
}

/// A rendition before it runs.
struct Step {
    format: Format,
    settings: Settings,
    outputs: Vec<Output>,
}

impl Args {
    /// The renditions of a source of `format`: those that were asked for, or the source as it is.
    fn ladder(&self, format: Format) -> Result<Vec<Step>> {
        if self.renditions.is_empty() {
            return Ok(vec![Step { format, settings: self.settings.clone(), outputs: self.outputs.clone() }]);
        }
        if self.settings.mux_rate.is_some() && self.renditions.len() > 1 {
            let message = "renditions have rates of their own, and one --mux-rate is not for all of them";
            return Err(failure::usage(message, "leave --mux-rate out"));
        }
        let mut steps = Vec::new();
        for (index, rung) in ladder::rungs(&self.renditions, &self.settings, format)?.into_iter().enumerate()
        {
            let ladder::Rung { name, format, settings } = rung;
            steps.push(Step { format, settings, outputs: ladder::outputs(&self.outputs, &name, index)? });
        }
        let all: Vec<Output> = steps.iter().flat_map(|step| step.outputs.clone()).collect();
        output::check(&self.input, &all)?;
        Ok(steps)
    }
}

const UNPOISONED: &str = "a sink that panics ends the process";

/// Ends the encoder cleanly at SIGINT or SIGTERM. A second one, where the end hangs, ends the process.
fn stop_on_signal(feed: &Arc<Feed>) -> Result<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
    let feed = Arc::clone(feed);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if feed.is_stopped() {
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                feed.stop();
            }
        })
        .context("cannot start the thread for signals")?;
    Ok(())
}
