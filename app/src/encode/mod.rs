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
mod input;
mod inside;
mod ladder;
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

use crate::{failure, output as stdout, rate};
use anyhow::{Context, Result};
pub(crate) use control::{Controls, Status};
use feed::Feed;
use glassline_io::clock::Clock;
use input::Input;
pub(crate) use inside::{Job, Stopper, check_section, input_in, require};
use ladder::Plan;
use output::Output;
use pipeline::{Packets, Pipeline};
use queue::Queue;
use session::{Rendition, Session};
pub(crate) use settings::Settings;
use signal_hook::consts::{SIGINT, SIGTERM};
use sink::{Credentials, Sinks};
use sound::{Audio, AudioIn, RawFormat};
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
    /// where its name looks like something else; pictures alone)
    #[arg(value_name = "INPUT")]
    input: Input,
    /// Where to: FILE.ts or FILE.mp4 (overwritten), - (standard output), udp://HOST:PORT or rtp://HOST:PORT (multicast
    /// too; behind it ?ttl=N&interface=NAME&source=ADDRESS&packets=N), http://HOST[:PORT]/live/NAME.ts or https://…,
    /// null: (nowhere). Several get the same stream, and one that is slow or fails does not hold the others
    #[arg(value_name = "OUTPUT", required = true)]
    outputs: Vec<Output>,
    #[command(flatten)]
    settings: Settings,
    /// How sound is coded [default: opus where there is sound]
    #[arg(long, value_enum, value_name = "CODEC")]
    audio: Option<Audio>,
    /// Where sound comes from: alsa:DEVICE, FILE.wav, or fd:N (raw samples on an open descriptor)
    #[arg(long, value_name = "SOURCE")]
    audio_in: Option<AudioIn>,
    /// What raw samples are like, and what is asked of an ALSA device: s16le, s24le, s32le, f32le or f64le, rate and
    /// channels [default: s16le:48000:2; of a device the best that it has]
    #[arg(long, value_name = "FORMAT:RATE:CHANNELS", requires = "audio_in")]
    audio_format: Option<RawFormat>,
    /// Bit rate of the sound [default: 128k]
    #[arg(long, value_name = "RATE")]
    audio_bitrate: Option<rate::Bitrate>,
    /// Sound in a packet: of Opus 2.5ms, 5ms, 10ms or 20ms, of s302m 1ms to 10ms [default: opus 5ms, s302m 1ms]
    #[arg(long, value_name = "TIME", value_parser = rate::parse_duration)]
    audio_frame: Option<Duration>,
    /// Bits of a sample of s302m: 16, 20 or 24 [default: 24]
    #[arg(long, value_name = "BITS")]
    audio_bits: Option<u32>,
    /// Stop after this many pictures
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after this much time of the stream
    #[arg(long, value_name = "TIME", value_parser = rate::parse_duration)]
    duration: Option<Duration>,
    /// Hand pictures of a file over when their time has come [default: where an output is on the network]
    #[arg(long, conflicts_with = "no_realtime")]
    realtime: bool,
    /// Encode a file as fast as it goes, to the network too
    #[arg(long)]
    no_realtime: bool,
    /// Begin a file again at its end
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
    /// File with the certificate of the authority (PEM) that https servers are trusted by, in place of the system's
    #[arg(long, value_name = "FILE")]
    ca: Option<PathBuf>,
    /// Take commands on a Unix socket at PATH, a line each: keyframe, bitrate RATE, status. As in
    /// echo keyframe | socat - UNIX:PATH
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Tell where the milliseconds go: each second on a terminal, and as a table at the end
    #[arg(long)]
    stats: bool,
    /// Print the table as JSON, one line a rendition, on standard output
    #[arg(long, requires = "stats")]
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
  glassline encode test:1280x720@50 null: --duration 10s --stats";

/// What becomes of interlaced pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Deinterlace {
    /// A whole picture of each field: 50i becomes 50p
    Auto,
    /// Both fields stay in one picture, as if they were of one time
    Off,
}

impl Args {
    /// Whether pictures of a file are handed over when their time has come.
    fn paced(&self) -> bool {
        self.realtime || !self.no_realtime && self.outputs.iter().any(Output::is_network)
    }

    /// The sound that the stream gets. `channels` are those of `--audio-in`.
    fn audio(&self, channels: Option<u8>) -> Result<sound::Settings> {
        let has_sound = self.input.has_sound() || channels.is_some();
        let codec = match self.audio {
            Some(audio) if audio != Audio::None && !has_sound => {
                return Err(failure::usage(
                    "this input carries no sound",
                    "leave --audio out, give --audio-in, or take a test: input",
                ));
            }
            Some(audio) => audio,
            None if has_sound => Audio::default(),
            None => Audio::None,
        };
        let (bitrate, frame, bits) = (self.audio_bitrate, self.audio_frame, self.audio_bits);
        let channels = channels.unwrap_or(source::SOUND_CHANNELS);
        Ok(sound::Settings { codec, channels, bitrate, frame, bits })
    }

    /// The sound input that was named, opened, unless no sound is wanted.
    fn open_sound(&self) -> Result<Option<sound::Opened>> {
        let wanted = self.audio_in.as_ref().filter(|_| self.audio != Some(Audio::None));
        let opened = wanted.map(|input| sound::Opened::open(input, self.audio_format)).transpose()?;
        if opened.as_ref().is_some_and(sound::Opened::is_live) && !self.is_timed() {
            return Err(failure::usage(
                "live sound does not go with a file that is coded as fast as it goes",
                "give --realtime, or take sound from FILE.wav",
            ));
        }
        Ok(opened)
    }

    /// Whether pictures come by the clock, live or paced.
    fn is_timed(&self) -> bool {
        matches!(self.input, Input::Test { .. } | Input::V4l2 { .. }) || self.paced()
    }
}

/// Encodes until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(crate) fn run(args: Args) -> Result<()> {
    output::check(&args.input, &args.outputs)?;
    if args.json && args.outputs.contains(&Output::Stdout) {
        let message = "--json prints to standard output, which carries the stream";
        return Err(failure::usage(message, "leave --json out, or send the stream elsewhere"));
    }
    let sound_input = args.open_sound()?;
    let audio = args.audio(sound_input.as_ref().map(sound::Opened::channels))?;
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
        sound: tone,
        paced: args.paced(),
        looped: args.looped,
        deinterlace: args.deinterlace,
        length,
    };
    let source = Source::open(&args.input, &request, clock)?;
    let decoder = source.decoder();
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
        let plan = Plan::new(&args.renditions, source.format().rate, args.settings.keyint)?;
        let sizes: Vec<_> = ladder.iter().map(|step| step.format.size).collect();
        feed = feed.with_ladder(plan, source.format().size, &sizes);
    }
    // Outputs come last: nothing is overwritten or connected where an argument is wrong.
    let credentials = Credentials { key, ca: args.ca.clone() };
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
        input.start(&feed, args.is_timed(), clock)?;
    }
    let rendition = |((pipeline, queue), sinks): ((Pipeline, &Arc<Queue>), &Arc<Mutex<Sinks>>)| {
        let writing = Arc::clone(sinks);
        let sink = Box::new(move |packets: &Packets<'_>| writing.lock().expect(UNPOISONED).write(packets));
        Rendition { pipeline, queue: Arc::clone(queue), sink }
    };
    let renditions = pipelines.into_iter().zip(&queues).zip(&sinks).map(rendition).collect();
    let (mut pipelines, ended) = Session::start(source, feed, renditions)?.join();
    if let Some(decoder) = decoder {
        decoder.end();
    }
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
            eprint!("{which}{}", stats.table());
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
        if self.settings.intra_refresh || self.settings.constant_size {
            let message = "renditions have their key frames in common, and with intra refresh there are none";
            return Err(failure::usage(message, "leave --intra-refresh and --constant-size out"));
        }
        if self.settings.mux_rate.is_some() && self.renditions.len() > 1 {
            let message = "renditions have rates of their own, and one --mux-rate is not for all of them";
            return Err(failure::usage(message, "leave --mux-rate out"));
        }
        let mut steps = Vec::new();
        for (index, (rendition, name)) in
            self.renditions.iter().zip(ladder::names(&self.renditions)?).enumerate()
        {
            let settings =
                Settings { bitrate: rendition.bitrate, common_keys: true, ..self.settings.clone() };
            let format = Format { size: rendition.size, rate: rendition.rate, ..format };
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
