//! `glassline encode`: pictures and sound in, H.264 and Opus in MPEG-TS out, with no added delay.
//!
//! ```text
//! source thread ──► queue ──► x264, Opus ──► muxer ──► every output      (one thread from the queue on)
//!   test, y4m,      (bounded; a live source's oldest waiting picture gives way)
//!   ffmpeg, v4l2
//! ```
//! Nothing waits on the way: an access unit is coded, muxed and written before the next one is looked at.
//! `serve --demo` runs the same pipeline with a sink of its own ([`start_demo`]).

mod input;
mod output;
mod pipeline;
mod queue;
mod sink;
mod sound;
mod source;
mod stats;
#[cfg(test)]
mod tests;

use crate::rate::{self, Bitrate};
use crate::{config, failure};
use anyhow::{Context, Result};
use glassline_codec::h264::x264;
use glassline_io::clock::Clock;
use glassline_media::{FrameRate, Size};
use input::Input;
use output::Output;
use pipeline::{Demand, Pipeline};
use queue::Queue;
use signal_hook::consts::{SIGINT, SIGTERM};
use sink::Sinks;
use sound::Audio;
use source::{Length, Source};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
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
    /// Where to: FILE.ts (overwritten), - (standard output), udp://HOST:PORT (multicast too),
    /// http://HOST[:PORT]/live/NAME.ts, null: (nowhere). Several get the same stream
    #[arg(value_name = "OUTPUT", required = true)]
    outputs: Vec<Output>,
    /// How x264 weighs speed against quality: ultrafast to placebo
    #[arg(long, value_name = "PRESET", default_value = x264::Settings::DEFAULT_PRESET)]
    preset: String,
    /// Bit rate of the picture: the mean, and over the VBV the maximum, as in 5M or 800k (bit/s)
    #[arg(long, value_name = "RATE", default_value = "5M")]
    bitrate: Bitrate,
    /// Size of the VBV in time: how long a viewer on a link of just this rate has to buffer
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = rate::parse_duration)]
    vbv: Duration,
    /// Time from one key frame to the next: where a viewer can join
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = rate::parse_duration)]
    keyint: Duration,
    /// Threads that x264 uses, all on one picture; 0 chooses by processors
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: u32,
    /// The least number of slices in a picture; 0 leaves it to the threads
    #[arg(long, value_name = "N", default_value_t = 0)]
    slices: u32,
    /// How sound is coded [default: opus where the input has sound]
    #[arg(long, value_enum, value_name = "CODEC")]
    audio: Option<Audio>,
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
    /// File with the key that a server asks for from publishers
    #[arg(long, value_name = "FILE")]
    publish_key_file: Option<PathBuf>,
    /// Tell where the milliseconds go: each second on a terminal, and as a table at the end
    #[arg(long)]
    stats: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline encode test:1280x720@50 http://127.0.0.1:8080/live/demo.ts
  glassline encode film.y4m film.ts --preset slow --bitrate 8M
  glassline encode test:1920x1080@60000/1001 udp://239.1.2.3:5000 copy.ts --bitrate 10M --vbv 200ms
  glassline encode film.mkv http://127.0.0.1:8080/live/film.ts --loop
  glassline encode 'v4l2:/dev/video0?size=1280x720&rate=50' udp://127.0.0.1:5000 --preset superfast
  ffmpeg -f decklink -i 'DeckLink Mini Recorder' -f yuv4mpegpipe -strict -1 - | glassline encode - udp://127.0.0.1:5000
  glassline encode test:1280x720@50 null: --duration 10s --stats";

/// What becomes of interlaced pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Deinterlace {
    /// A whole picture of each field: 50i becomes 50p
    Auto,
    /// Both fields stay in one picture, as if they were of one time
    Off,
}

/// How a stream is coded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Settings {
    /// x264's preset.
    pub(crate) preset: String,
    /// Bits a second of the picture.
    pub(crate) bitrate: Bitrate,
    /// Size of the VBV in time.
    pub(crate) vbv: Duration,
    /// From one key frame to the next.
    pub(crate) keyint: Duration,
    /// x264's threads; 0 chooses by processors.
    pub(crate) threads: u32,
    /// The least number of slices in a picture.
    pub(crate) slices: u32,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            preset: x264::Settings::DEFAULT_PRESET.to_owned(),
            bitrate: Bitrate::from_bits_per_second(5_000_000),
            vbv: Duration::from_secs(1),
            keyint: Duration::from_secs(1),
            threads: 0,
            slices: 0,
        }
    }
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            preset: self.preset.clone(),
            bitrate: self.bitrate,
            vbv: self.vbv,
            keyint: self.keyint,
            threads: self.threads,
            slices: self.slices,
        }
    }

    /// Whether pictures of a file are handed over when their time has come.
    fn paced(&self) -> bool {
        self.realtime || !self.no_realtime && self.outputs.iter().any(Output::is_network)
    }

    /// The sound that the stream gets.
    fn audio(&self) -> Result<Audio> {
        let has_sound = self.input.has_sound();
        match self.audio {
            Some(audio) if audio != Audio::None && !has_sound => {
                Err(failure::usage("this input carries no sound", "leave --audio out, or take a test: input"))
            }
            Some(audio) => Ok(audio),
            None => Ok(if has_sound { Audio::default() } else { Audio::None }),
        }
    }
}

/// Encodes until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(crate) fn run(args: Args) -> Result<()> {
    output::check(&args.input, &args.outputs)?;
    let audio = args.audio()?;
    let key = args.publish_key_file.as_deref().map(sink::read_key).transpose()?;
    let clock = Clock::new();
    let length = Length { pictures: args.limit, time: args.duration };
    let request = source::Request {
        sound: audio != Audio::None,
        paced: args.paced(),
        looped: args.looped,
        deinterlace: args.deinterlace,
        length,
    };
    let source = Source::open(&args.input, &request, clock)?;
    let companion = source.companion();
    let mut pipeline = Pipeline::new(source.format(), &args.settings(), audio, clock)?;
    if args.stats {
        pipeline.stats.report_live();
    }
    // Outputs come last: nothing is overwritten or connected where an argument is wrong.
    let queue = Arc::new(Queue::new(source.is_live()));
    let mut sinks = Sinks::open(&args.outputs, key.as_deref(), &queue)?;
    stop_on_signal(&queue)?;
    // Not joined: it may hang in a read of standard input, which nothing but the end of the process ends.
    spawn_source(source, &queue)?;
    let ended = pipeline.run(&queue, &mut |packets| sinks.write(packets));
    let ended = ended.and_then(|()| sinks.finish());
    queue.stop();
    if let Some(companion) = companion {
        companion.end();
    }
    pipeline.stats.end_live();
    tracing::info!("{}", pipeline.stats.summary(queue.dropped()));
    if args.stats {
        eprint!("{}", pipeline.stats.table());
    }
    ended
}

/// A running pipeline.
#[derive(Debug)]
pub(crate) struct Handle {
    queue: Arc<Queue>,
    thread: JoinHandle<Result<()>>,
}

impl Handle {
    /// Asks the pipeline to end. Returns at once.
    pub(crate) fn stop(&self) {
        self.queue.stop();
    }

    /// Waits for the end, which [`Handle::stop`] or a failure brings.
    pub(crate) fn join(self) -> Result<()> {
        match self.thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

/// Runs the test picture that the configuration describes. `sink` is as in [`spawn_demo`].
pub(crate) fn start_demo(
    demo: &config::Demo,
    sink: impl FnMut(&[u8]) -> Result<()> + Send + 'static,
) -> Result<Handle> {
    let settings = Settings { preset: demo.preset.clone(), bitrate: demo.bitrate, ..Settings::default() };
    spawn_demo(demo.size, demo.frame_rate, &settings, sink)
}

/// Runs the live test pattern and tone in threads of its own until told to stop. `sink` gets whole TS packets, those
/// of one access unit at a time, on the encoder's thread: while it runs, nothing is
/// coded. An error of its ends the pipeline.
fn spawn_demo(
    size: Size,
    rate: FrameRate,
    settings: &Settings,
    mut sink: impl FnMut(&[u8]) -> Result<()> + Send + 'static,
) -> Result<Handle> {
    let clock = Clock::new();
    let audio = Audio::default();
    let source = Source::test(size, rate, audio != Audio::None, Length::default(), clock);
    let mut pipeline = Pipeline::new(source.format(), settings, audio, clock)?;
    let queue = Arc::new(Queue::new(source.is_live()));
    spawn_source(source, &queue)?;
    let feed = Arc::clone(&queue);
    let thread = thread::Builder::new().name("encode".to_owned()).spawn(move || {
        let ended = pipeline.run(&feed, &mut |packets| {
            sink(packets.bytes)?;
            Ok(Demand::Nothing)
        });
        feed.stop();
        if let Err(error) = &ended {
            tracing::error!("the test picture ended: {error:#}");
        }
        ended
    });
    Ok(Handle { queue, thread: thread.context("cannot start the encoder's thread")? })
}

fn spawn_source(source: Source, queue: &Arc<Queue>) -> Result<()> {
    let queue = Arc::clone(queue);
    thread::Builder::new()
        .name("source".to_owned())
        .spawn(move || source.run(&queue))
        .context("cannot start the source's thread")?;
    Ok(())
}

/// Ends the pipeline cleanly at SIGINT or SIGTERM. A second one, where the end hangs, ends the process.
fn stop_on_signal(queue: &Arc<Queue>) -> Result<()> {
    let mut signals =
        signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
    let queue = Arc::clone(queue);
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || {
            for signal in signals.forever() {
                if queue.is_stopped() {
                    let _ = signal_hook::low_level::emulate_default_handler(signal);
                }
                queue.stop();
            }
        })
        .context("cannot start the thread for signals")?;
    Ok(())
}
