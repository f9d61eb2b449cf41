//! `glassline encode`: arguments, wiring and words of [`glassline_studio::encode`], and the loop of VP8.

mod budget;
mod control_socket;
mod line;
mod link;
mod options;
pub(crate) mod outputs;
mod report;
mod section;
#[cfg(test)]
#[cfg(feature = "x264")]
mod sound_tests;
#[cfg(test)]
#[cfg(feature = "x264")]
mod tests;
mod vp8;
mod words;

use crate::brief::{Brief, brief};
use crate::failure;
use crate::stop::{Second, StopSignals};
use crate::trust::Trust;
use anyhow::Result;
pub(crate) use control_socket::answers_to;
use glassline_call::contribution::SrtOutput;
use glassline_io::clock::Clock;
use glassline_media::quantity;
use glassline_studio::capture::Length;
use glassline_studio::encode::{Encoding, Ended, Request};
use glassline_studio::output::{Credentials, Opener, Output, Outputs, Target};
pub(crate) use line::Line;
use link::LinkArgs;
pub(crate) use options::{EncodeOptions, NamedInput};
pub(crate) use outputs::read_key;
pub(crate) use section::{check_section, encoder_request, explain, require, stream_names};
use std::path::PathBuf;
use std::time::Duration;
pub(crate) use vp8::IvfOutput;
pub(crate) use words::{control as control_words, input as input_words};

/// What `-h` shows.
const BRIEF: [Brief; 11] = [
    (
        "input",
        "test:1280x720@50 (a test picture), any FILE that FFmpeg reads, v4l2:/dev/video0, rtp:FILE.sdp, or - (y4m)",
    ),
    ("outputs", "http://HOST:PORT/live/NAME.ts, udp://HOST:PORT, FILE.ts, FILE.mp4 or - (standard output)"),
    ("preset", "Speed against quality: ultrafast to placebo, or auto"),
    ("bitrate", "Bit rate of the video, as in 5M or 800k"),
    ("keyint", "Distance between key frames, where viewers join"),
    ("audio", "Audio codec"),
    ("audio_in", "Where audio comes from: alsa:DEVICE or FILE.wav"),
    ("duration", "Stop after this much of the stream"),
    ("looped", "Start a file again at its end"),
    ("publish_key_file", "File with the publish key, if the server requires one"),
    ("stats", "Show the latency of each stage"),
];

const FIRST_EXAMPLES: &str = "\
Examples:
  glassline encode test:1280x720@50 http://127.0.0.1:8080/live/demo.ts
  glassline encode film.mkv http://127.0.0.1:8080/live/film.ts --loop
  glassline encode v4l2:/dev/video0 https://relay.example/live/stage.ts --publish-key-file publish.key

`glassline encode --help` has all options.";

/// Encode video and audio to H.264 and Opus in MPEG-TS, without added delay
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = FIRST_EXAMPLES, after_long_help = EXAMPLES, mut_args(|arg| brief(arg, &BRIEF)))]
pub(crate) struct Args {
    #[command(flatten)]
    options: EncodeOptions,
    /// Where the stream goes: FILE.ts, FILE.mp4 or FILE.ivf (overwritten), - (standard output), udp://HOST:PORT or
    /// rtp://HOST:PORT (also multicast; options: ?ttl=N&interface=NAME&source=ADDRESS&packets=N&dscp=N),
    /// http://HOST[:PORT]/live/NAME.ts or https://… (options: ?dscp=N&flow_label=true; several servers of a cluster with commas
    /// between their addresses: the stream goes to one of them, and to the next when that is lost), link://HOST:PORT (a link over a bad network, or over several at
    /// once: --key, --path), null: (nowhere). Several outputs get the same stream, and one
    /// that is slow or fails does not delay the others
    #[arg(value_name = "OUTPUT", required = true)]
    outputs: Vec<Target>,
    /// Video codec; VP8 goes to a single output, FILE.ivf, - or null:, and is encoded as fast as possible
    #[arg(long, value_enum, value_name = "CODEC", default_value = "h264", display_order = 0)]
    codec: VideoCodec,
    #[command(flatten)]
    vp8: vp8::Options,
    /// Stop after this many pictures
    #[arg(long, value_name = "N")]
    limit: Option<u64>,
    /// Stop after this much of the stream
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    duration: Option<Duration>,
    /// Encode a file at its own speed [default: if an output is on the network]
    #[arg(long, conflicts_with = "no_realtime")]
    realtime: bool,
    /// Encode a file as fast as possible, also to the network
    #[arg(long)]
    no_realtime: bool,
    /// File with the publish key, if the server requires one
    #[arg(long, value_name = "FILE")]
    publish_key_file: Option<PathBuf>,
    #[command(flatten)]
    trust: Trust,
    #[command(flatten)]
    link: LinkArgs,
    /// Accept commands on a Unix socket at PATH, one per line: keyframe, bitrate RATE, size WxH, rate PICTURES, preset NAME,
    /// status. For example: echo keyframe | socat - UNIX:PATH
    #[arg(long, value_name = "PATH")]
    control: Option<PathBuf>,
    /// Show the latency of each stage: every second on a terminal, and in a table at the end
    #[arg(long)]
    stats: bool,
    /// Print the table of --stats as JSON on standard output, one line for each rendition; for VP8 the report, on
    /// standard error if the stream goes to standard output
    #[arg(long)]
    json: bool,
    /// Draw the latency of each stage
    #[arg(long, value_name = "FILE.svg")]
    budget: Option<PathBuf>,
}

const EXAMPLES: &str = "\
Examples:
  glassline encode test:1280x720@50 http://127.0.0.1:8080/live/demo.ts
  glassline encode film.y4m film.ts --preset slow --bitrate 8M
  glassline encode test:1920x1080@60000/1001 'udp://239.1.2.3:5000?ttl=8' copy.mp4 --bitrate 10M --vbv 200ms
  glassline encode test:1280x720@50 https://relay.example/live/stage.ts --publish-key-file publish.key
  glassline encode test:1280x720@50 http://10.0.0.1:8080/live/stage.ts,http://10.0.0.2:8080/live/stage.ts
  glassline encode film.y4m film.ts --audio-in film.wav --audio aac --audio-bitrate 192k
  glassline encode test:1280x720@50 udp://239.1.2.3:5000 --audio-in alsa:hw:1,0 --audio s302m
  glassline encode film.mkv http://127.0.0.1:8080/live/film.ts --loop
  glassline encode 'v4l2:/dev/video0?size=1280x720&rate=50' udp://127.0.0.1:5000 --preset superfast
  glassline encode 'rtp:camera.sdp?interface=eth1' udp://127.0.0.1:5000 --preset superfast
  ffmpeg -f decklink -i 'DeckLink Mini Recorder' -f yuv4mpegpipe -strict -1 - | glassline encode - udp://127.0.0.1:5000
  glassline encode test:1280x720@50 udp://10.0.0.2:5000 --bitrate 2M --vbv 1frame --intra-refresh --adapt
  glassline encode test:1280x720@50 udp://239.1.2.3:5000 --cbr --vbv 200ms --bitrate 5M --mux-rate 6M
  glassline encode - http://127.0.0.1:8080/live/hall.ts \
      --rendition 1280x720@50:8M --rendition 1280x720@25:2M --rendition 640x360@25:500k
  glassline encode test:1280x720@50 link://relay.example:7000 --key hall.key --path eth0 --path wwan0
  glassline encode test:1280x720@50 null: --duration 10s --stats
  glassline encode film.y4m film.ivf --codec vp8 --bitrate 1200k --vbv 1s --speed 6
  glassline encode night.y4m night.ivf --codec vp8 --bitrate 800k --denoise 3";

/// How pictures are coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum VideoCodec {
    /// Encoded by libx264
    H264,
    /// Encoded by Glassline's own encoder
    Vp8,
}

impl Args {
    /// Whether pictures of a file are handed over when their time has come.
    fn paced(&self) -> bool {
        self.realtime || !self.no_realtime && self.outputs.iter().any(Target::is_network)
    }

    fn length(&self) -> Length {
        Length { pictures: self.limit, time: self.duration }
    }

    /// What the engine is asked for.
    fn request(&self) -> Result<Request> {
        self.options.request(self.paced(), self.length()).map_err(words::input)
    }
}

/// Encodes until the input ends, the limit is reached, or SIGINT or SIGTERM asks for the end.
pub(crate) fn run(line: Line) -> Result<()> {
    let input = line.args.options.input().map_err(words::input)?;
    outputs::check(&input, &line.args.outputs)?;
    if line.args.codec == VideoCodec::Vp8 {
        return vp8::run(&line, &input);
    }
    line.refuse_these(&vp8::OWN_OPTIONS, "belongs to VP8")?;
    run_h264(line.args)
}

fn run_h264(args: Args) -> Result<()> {
    args.check()?;
    let key = args.publish_key_file.as_deref().map(outputs::read_key).transpose()?;
    let request = args.request()?;
    let mut encoding = Encoding::open(&request, Clock::new()).map_err(words::explain)?;
    let targets = outputs::of_renditions(&args.outputs, &request.input, &encoding)?;
    if args.stats {
        // One line has room for one rendition: the first.
        report::show_progress(&mut encoding);
    }
    // Outputs come last: nothing is overwritten or connected where an argument is wrong.
    let is_tls = targets.iter().flatten().any(Target::is_tls);
    let connector = is_tls.then(|| args.trust.connector()).transpose()?;
    let mut opener = Opener::new(Credentials { key, connector }, encoding.liveness());
    opener = opener.with_srt(|address, liveness, status| {
        Ok(Box::new(SrtOutput::start(address, liveness, status)?) as Box<dyn Output>)
    });
    if let Some(links) = args.link.opener(&args.outputs)? {
        opener = opener.with_links(links);
    }
    let opened: Result<Vec<_>, _> = targets.iter().map(|targets| opener.open(targets)).collect();
    let given = words::Given { ca: args.trust.ca.as_deref(), key: args.publish_key_file.as_deref() };
    let opened = opened.map_err(|error| words::output(error, given))?;
    let statuses: Vec<_> = opened.iter().map(Outputs::statuses).collect();
    let listen = |path: &PathBuf| control_socket::listen(path, encoding.controls(), statuses.concat());
    let _listening = args.control.as_ref().map(listen).transpose()?;
    let stopper = encoding.stopper();
    StopSignals::catch()?.call(Second::EndsProcess, move |_| stopper.stop())?;
    let controls = encoding.controls();
    let Ended { stats, result } =
        encoding.run(opened.into_iter().map(|outputs| Box::new(outputs) as Box<dyn Output>).collect());
    report::print_at_end(&args, &controls, &stats, &statuses)?;
    result.map_err(|error| words::explain_given(error, given))
}

impl Args {
    /// Refuses what does not go together, before anything is opened.
    fn check(&self) -> Result<()> {
        if self.json && !self.stats {
            return Err(failure::usage("--json prints the table of --stats", "give --stats too"));
        }
        if let Some(output) = self.outputs.iter().find(|output| output.is_ivf()) {
            let message = format_args!("{output}: IVF files get no H.264");
            return Err(failure::usage(message, "give --codec vp8, or choose a .ts or .mp4 file"));
        }
        if self.no_realtime
            && let Some(output) =
                self.outputs.iter().find(|output| matches!(output, Target::Link(_) | Target::Srt(_)))
        {
            let message =
                format_args!("{output}: what is late is given up there, and --no-realtime outruns it");
            return Err(failure::usage(message, "leave --no-realtime out"));
        }
        if self.json && self.outputs.contains(&Target::Stdout) {
            let message = "--json prints to standard output, which carries the stream";
            return Err(failure::usage(message, "leave --json out, or send the stream elsewhere"));
        }
        Ok(())
    }
}
