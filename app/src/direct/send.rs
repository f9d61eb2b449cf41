//! `glassline send`.

use super::receiving::{ReceiveOptions, Receiving};
use super::sending::{SendInput, SendOptions, Sending};
use super::{both, told};
use crate::brief::{Brief, brief};
use crate::link::{self, Channel, HeaderArgs, Identity, PathArgs, Remote, Run};
use crate::stop::StopSignals;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_call::link::Endpoint;
use glassline_call::link::session::Mode;
use glassline_media::quantity;
use glassline_transport::link::{Bonding, Settings};
use std::path::PathBuf;
use std::time::Duration;

/// How long connecting may take before the log says that there is no answer.
const SAY_AFTER: Duration = Duration::from_secs(10);

/// Send live video to a receiver; each picture is as large as the network carries at that moment, or is not sent
#[derive(Debug, clap::Args)]
#[command(
    after_help = FIRST_EXAMPLES,
    after_long_help = EXAMPLES,
    arg_required_else_help = true,
    mut_args(|arg| brief(arg, &BRIEF))
)]
pub(crate) struct Args {
    /// What to send: test:WIDTHxHEIGHT@RATE (moving pattern, clock and tone), FILE.y4m, - (standard input: y4m, or
    /// H.264 as a camera's encoder writes it), v4l2:DEVICE[?size=WxH&rate=R&format=F] (a capture device; with
    /// format=h264 a camera's own H.264, sent unchanged), FILE.h264 (sent unchanged), or a file that FFmpeg can read
    /// (file:PATH if its name looks like something else). H.264 that is fetched is sent unchanged, too, and its sound as
    /// Opus: rtsp://[USER:PASSWORD@]CAMERA/PATH (rtsps:// over TLS), rtp:FILE.sdp (plain RTP as a session description
    /// says), and MPEG-TS by http(s)://SERVER/NAME.ts, udp://ADDRESS:PORT or rtp://ADDRESS:PORT (an address of this
    /// machine, or a multicast group's)
    #[arg(value_name = "INPUT")]
    input: SendInput,
    /// Address of the receiver
    #[arg(value_name = "link://HOST:PORT")]
    to: String,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    header: HeaderArgs,
    #[command(flatten)]
    paths: PathArgs,
    /// Show what the other end sends back (`receive --both`): an output as in `glassline receive`
    #[arg(long, value_name = "OUTPUT")]
    both: Option<String>,
    /// A channel beside the video, in both directions, as in `glassline link`: ID:OPTIONS, where ID is 0 to 59; what
    /// one end reads (in=), the other end writes (out=)
    #[arg(long, value_name = "ID:OPTIONS")]
    channel: Vec<Channel>,
    /// Give up if the other end does not answer for this long; without it, connecting is retried forever
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    connect_timeout: Option<Duration>,
    /// Write measurements to this file, one line of JSON per second
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Print the report at the end as JSON: on standard output, or on standard error if pictures go to standard
    /// output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    sending: SendOptions,
    #[command(flatten, next_help_heading = "What is received (with --both)")]
    receiving: ReceiveOptions,
}

/// What `-h` shows.
const BRIEF: [Brief; 10] = [
    (
        "input",
        "v4l2:/dev/video0, rtsp://CAMERA/PATH, test:1280x720@30 (a test picture), any FILE that FFmpeg reads, FILE.h264, or - (y4m or H.264)",
    ),
    ("to", "Address of the receiver"),
    ("key", "File with the key that both ends have (glassline key new)"),
    ("codec", "Video codec"),
    ("bitrate", "Highest bit rate of the video, as in 3M"),
    ("audio_in", "Where audio comes from: alsa:DEVICE or FILE.wav"),
    ("channel", "A channel beside the video: telemetry, commands"),
    ("both", "Show what the other end sends back"),
    ("duration", "Stop after this much of the stream"),
    ("stats", "Write measurements once per second"),
];

const FIRST_EXAMPLES: &str = "\
Examples:
  glassline key new drone.key             (copy it to both ends)
  glassline receive link://0.0.0.0:7000 preview: --key drone.key          (at the ground)
  glassline send v4l2:/dev/video0 link://ground:7000 --key drone.key      (at the drone)

`glassline send --help` has all options.";

const EXAMPLES: &str = "\
Examples:
  glassline key new drone.key             (copy it to both ends)
  glassline receive link://0.0.0.0:7000 - --key drone.key | ffplay -fflags nobuffer -
  glassline send test:1280x720@30 link://ground:7000 --key drone.key
  glassline send 'v4l2:/dev/video0?size=1280x720&rate=30' link://ground:7000 --key drone.key --audio-in alsa:default
  rpicam-vid -t 0 --inline --width 1280 --height 720 -o - | glassline send - link://ground:7000 --key drone.key
  glassline send 'v4l2:/dev/video0?format=h264' link://ground:7000 --key drone.key --adapt
  glassline send rtsp://admin:PASSWORD@192.168.1.64/stream1 link://ground:7000 --key drone.key
  glassline send v4l2:/dev/video0 link://ground:7000 --key drone.key --codec h264 --bitrate 4M
  glassline send film.y4m link://192.0.2.1:7000 --key drone.key --loop --bitrate 3M
  glassline send v4l2:/dev/video0 link://ground:7000 --key drone.key --path wwan0 --path wwan1 --path wlan0,spare
                                        by two modems at once, and by a third way when these carry too little
  glassline send test:1280x720@30 link://ground:7000 --key drone.key --stats send.jsonl --decisions each.jsonl
  glassline send v4l2:/dev/video0 link://ground:7000 --key drone.key \\
      --channel 0:priority=0,in=serial:/dev/ttyACM0,57600,out=serial:/dev/ttyACM0,57600
  glassline send v4l2:/dev/video0 link://other:7000 --key call.key --both - --audio-in alsa:default --speech \\
      --audio-out alsa:default | ffplay -fflags nobuffer -

Each picture is encoded in several qualities; what the link can carry at that moment decides which one is sent, or that
none is. After a loss the next picture is predicted from one that the receiver has: nothing is sent again. A link that is
lost is established again. With --duration or --limit the command ends after its last picture, together with its channels.
Without them, after the end of a file, it continues until the inputs of the channels have ended at both ends: udp: and
serial: inputs never end, so that only a signal ends it. `glassline link --help` lists the options of channels; `glassline
lab link` emulates networks.";

/// Sends until the input ends or a signal asks for the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let address = super::address(&args.to)?;
    if args.both.is_none() && args.receiving != ReceiveOptions::default() {
        return Err(failure::usage(
            "an option says where goes what is sent back, and nothing is taken",
            "name the pictures' output with --both OUTPUT",
        ));
    }
    let paths = args.paths.check(Bonding::Sum)?;
    let settings = Settings {
        connect_timeout: args.connect_timeout.unwrap_or(SAY_AFTER),
        bonding: paths.bonding,
        ..args.identity.settings()?
    };
    let signals = StopSignals::catch()?;
    let telemetry = super::telemetry(&args.channel, args.both.as_deref())?;
    let channels = super::open_channels(&args.channel, telemetry.as_ref())?;
    let to = link::addresses(address)?;
    let sending = Sending::open(&args.input, &args.sending)?;
    let open = |output: &String| Receiving::open(output, &args.receiving, telemetry.clone());
    let receiving = args.both.as_ref().map(open).transpose()?;
    let figures = told(
        sending.figures("video", "sound"),
        receiving.as_ref().map(|receiving| receiving.figures("video_received", "sound_received")),
    );
    let pictures = receiving.as_ref().map(Receiving::pictures);
    let run = sending.serve(Run::new(channels, args.stats.as_deref(), Some(figures), pictures)?);
    // What is fetched ends where it is refused, or is no H.264: nothing is sent after that.
    let ends = args.sending.is_bounded() || sending.is_fetched();
    let run = if ends { run.ending_with_services() } else { run };
    let run = match &receiving {
        Some(receiving) => receiving.serve(run),
        None => run,
    };
    args.header.warn();
    let locals: Vec<_> = paths.locals(&to)?.into_iter().map(|local| args.header.mark(local)).collect();
    let endpoint = Endpoint::open(settings, &locals)
        .with_context(|| format!("cannot open a socket at {}", paths.names()))?;
    let mode = Mode::Connect { to, give_up: args.connect_timeout.is_some(), spares: paths.spares() };
    let remote = Remote { name: address.to_owned(), wanted: None };
    let ran = run.run(endpoint, mode, Some(&remote), signals);
    let sent = sending.end();
    let finished = receiving.as_ref().map_or(Ok(()), Receiving::finish);
    // What came is told, whether all of it got to the output or not.
    let report = both(sending.report(), receiving.as_ref().map(Receiving::report), "received");
    match (&receiving, args.json) {
        _ if ran.is_err() && !report.has_pictures() => {}
        (Some(receiving), as_json) => receiving.tell(&report, as_json)?,
        (None, true) => output::print(&report.json()?)?,
        (None, false) => output::print_aside(&report.text())?,
    }
    // Where the input has failed, the link has by that.
    sent.and(ran).and(finished)
}
