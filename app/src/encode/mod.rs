//! `glassline encode`: pictures and sound in, H.264 and Opus in MPEG-TS out, with no added delay.
//!
//! ```text
//! source thread ──► queue ──► x264 ──► muxer ──► every output      (a thread for each rendition from its queue on)
//!   test, y4m │     (bounded; a live source's oldest waiting picture gives way)
//!             └► Opus: once for all renditions
//! ```
//! Nothing waits on the way: a slice is muxed and written while x264 is at the next one. `serve` runs the same for its
//! `[encode.NAME]` sections, with a sink of its own ([`Job`]).

mod adapt;
mod budget;
mod control;
mod control_socket;
mod feed;
mod input;
mod inside;
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
use output::Output;
use pipeline::{Packets, Pipeline};
use queue::Queue;
use session::{Rendition, Session};
pub(crate) use settings::Settings;
use signal_hook::consts::{SIGINT, SIGTERM};
use sink::{Credentials, Sinks};
use sound::Audio;
use source::{Length, Source};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Encode pictures and sound to H.264 and Opus in MPEG-TS, without added delay
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to encode: test:WIDTHxHEIGHT@RATE (moving pattern, clock and tone), FILE.y4m, or - (y4m on standard
    /// input)
    #[arg(value_name = "INPUT")]
    input: Input,
    /// Where to: FILE.ts or FILE.mp4 (overwritten), - (standard output), udp://HOST:PORT or rtp://HOST:PORT (multicast
    /// too; behind it ?ttl=N&interface=NAME&source=ADDRESS&packets=N), http://HOST[:PORT]/live/NAME.ts or https://…,
    /// null: (nowhere). Several get the same stream, and one that is slow or fails does not hold the others
    #[arg(value_name = "OUTPUT", required = true)]
    outputs: Vec<Output>,
    #[command(flatten)]
    settings: Settings,
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
  ffmpeg -i film.mkv -pix_fmt yuv420p -f yuv4mpegpipe - | glassline encode - udp://127.0.0.1:5000
  glassline encode test:1280x720@50 udp://10.0.0.2:5000 --bitrate 2M --vbv 1frame --intra-refresh --adapt
  glassline encode test:1280x720@50 null: --duration 10s --stats";

impl Args {
    /// Whether pictures of a file are handed over when their time has come.
    fn paced(&self) -> bool {
        self.realtime || !self.no_realtime && self.outputs.iter().any(Output::is_network)
    }

    /// The sound that the stream gets.
    fn audio(&self) -> Result<Audio> {
        let has_sound = self.input.has_sound();
        match self.audio {
            Some(audio) if audio != Audio::None && !has_sound => {
                Err(failure::usage("y4m carries no sound", "leave --audio out, or take a test: input"))
            }
            Some(audio) => Ok(audio),
            None => Ok(if has_sound { Audio::default() } else { Audio::None }),
        }
    }
}

/// Encodes until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(crate) fn run(args: Args) -> Result<()> {
    output::check(&args.input, &args.outputs)?;
    if args.json && args.outputs.contains(&Output::Stdout) {
        let message = "--json prints to standard output, which carries the stream";
        return Err(failure::usage(message, "leave --json out, or send the stream elsewhere"));
    }
    let audio = args.audio()?;
    let key = args.publish_key_file.as_deref().map(sink::read_key).transpose()?;
    let clock = Clock::new();
    let length = Length { pictures: args.limit, time: args.duration };
    let source = Source::open(&args.input, audio != Audio::None, args.paced(), length, clock)?;
    let sound = sound::Encoder::open(audio)?;
    let controls = Controls::new(vec![Pipeline::status(source.format(), &args.settings)]);
    let sound_format = sound.as_ref().map(sound::Encoder::format);
    let mut pipeline =
        Pipeline::new(source.format(), &args.settings, sound_format, controls.clone(), 0, clock)?;
    if args.stats {
        pipeline.stats.report_live();
    }
    // Outputs come last: nothing is overwritten or connected where an argument is wrong.
    let queue = Arc::new(Queue::new(source.is_live()));
    let credentials = Credentials { key, ca: args.ca.clone() };
    let sinks = Sinks::open(&args.outputs, &credentials, &queue)?;
    let listen = |path: &PathBuf| control_socket::listen(path, controls.clone(), sinks.boards());
    let _listening = args.control.as_ref().map(listen).transpose()?;
    let sinks = Arc::new(Mutex::new(sinks));
    let feed = Arc::new(Feed::new(vec![Arc::clone(&queue)], sound, controls.clone()));
    stop_on_signal(&feed)?;
    let writing = Arc::clone(&sinks);
    let sink = Box::new(move |packets: &Packets<'_>| writing.lock().expect(UNPOISONED).write(packets));
    let renditions = vec![Rendition { pipeline, queue: Arc::clone(&queue), sink }];
    let (mut pipelines, ended) = Session::start(source, feed, renditions)?.join();
    let finished = sinks.lock().expect(UNPOISONED).finish();
    let ended = ended.and(finished);
    let mut budgets = Vec::new();
    for (pipeline, status) in pipelines.iter_mut().zip(controls.status()) {
        let stats = &mut pipeline.stats;
        stats.end_live();
        tracing::info!("{}", stats.summary(queue.dropped()));
        if args.json {
            stdout::print(&format!("{}\n", stats.json(&status.name, queue.dropped())))?;
        } else if args.stats {
            eprint!("{}", stats.table());
        }
        budgets.push(budget::draw(stats, &format!("{}, preset {}", status.name, args.settings.preset)));
    }
    if let Some(path) = &args.budget {
        budget::write(path, &budgets)?;
    }
    ended
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
