//! `glassline receive`.

use super::receiving::{ReceiveOptions, Receiving};
use super::sending::{SendInput, SendOptions, Sending};
use super::{both, told};
use crate::brief::{Brief, brief};
use crate::failure;
use crate::link::{self, Channel, HeaderArgs, Identity, Run};
use crate::stop::StopSignals;
use anyhow::Result;
use glassline_call::link::session::Mode;
use glassline_call::link::{Endpoint, Local};
use glassline_transport::link::Settings;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// Receive what `glassline send` sends, and show it
#[derive(Debug, clap::Args)]
#[command(
    after_help = FIRST_EXAMPLES,
    after_long_help = EXAMPLES,
    arg_required_else_help = true,
    mut_args(|arg| brief(arg, &BRIEF))
)]
pub(crate) struct Args {
    /// Address to listen on; with port 0 the system chooses a port. Several may stand here, one for each network by which a sender
    /// with several paths comes
    #[arg(value_name = "link://ADDR:PORT", required = true)]
    listen: Vec<String>,
    /// Where the pictures go: FILE.y4m, FILE.ivf (encoded again, because the received pictures depend on what the
    /// receiver holds), - (standard output: y4m, each picture at its display time), or null: (nowhere). With audio,
    /// encoded to H.264: FILE.ts, FILE.mp4, udp://HOST:PORT, a relay at http://HOST:PORT/live/NAME.ts, or preview:
    /// (preview:ADDR:PORT), a web page with a player, by default at http://127.0.0.1:8081/ and only for this machine.
    /// Pictures that were sent as H.264 go unchanged into all of these except y4m and IVF, and into FILE.h264. Pictures
    /// that were sent as AV1 go unchanged into FILE.ivf, FILE.mp4, FILE.webm (which takes them alone) and preview:, and
    /// with --out-codec av1 into FILE.ts, udp:// and http:// too
    #[arg(value_name = "OUTPUT")]
    output: String,
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    header: HeaderArgs,
    /// Also send pictures back over the same link, to the peer that connected last: a source as in `glassline send`
    #[arg(long, value_name = "INPUT")]
    both: Option<SendInput>,
    /// Exit when the sender has gone
    #[arg(long)]
    once: bool,
    /// A channel beside the video, in both directions, as in `glassline link`: ID:OPTIONS, where ID is 0 to 59; what
    /// one end reads (in=), the other end writes (out=). With klv=mavlink what an autopilot says on it becomes KLV
    /// metadata of FILE.ts, udp://, http:// or preview:, and with klv=st0601 sets of MISB ST 0601 go there as they are
    #[arg(long, value_name = "ID:OPTIONS")]
    channel: Vec<Channel>,
    /// Write measurements to this file, one line of JSON per second
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Print the report at the end as JSON: on standard output, or on standard error if pictures go to standard
    /// output
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    receiving: ReceiveOptions,
    #[command(flatten, next_help_heading = "What is sent back (with --both)")]
    sending: SendOptions,
}

/// What `-h` shows.
const BRIEF: [Brief; 9] = [
    ("listen", "Address to listen on"),
    (
        "output",
        "preview: (a page with a player), - (y4m for a pipe), FILE.mp4, FILE.ts, FILE.webm (of AV1), http://HOST:PORT/live/NAME.ts or null:",
    ),
    ("key", "File with the key that both ends have (glassline key new)"),
    ("audio_out", "Where audio goes with y4m: alsa:DEVICE or FILE.wav"),
    ("both", "Send pictures back over the same link"),
    ("once", "Exit when the sender has gone"),
    ("channel", "A channel beside the video: telemetry, commands"),
    ("out_bitrate", "Bit rate of the stream that is encoded from the pictures"),
    ("stats", "Write measurements once per second"),
];

const FIRST_EXAMPLES: &str = "\
Examples:
  glassline receive link://0.0.0.0:7000 preview: --key drone.key   (then open http://127.0.0.1:8081/watch/preview)
  glassline receive link://0.0.0.0:7000 - --key drone.key | ffplay -fflags nobuffer -
  glassline receive link://0.0.0.0:7000 flight.mp4 --key drone.key

`glassline receive --help` has all options.";

const EXAMPLES: &str = "\
Examples:
  glassline receive link://0.0.0.0:7000 - --key drone.key | ffplay -fflags nobuffer -
  glassline receive link://0.0.0.0:7000 preview: --key drone.key          (then open http://127.0.0.1:8081/watch/preview)
  glassline receive link://0.0.0.0:7000 - --key drone.key --audio-out alsa:default | ffplay -fflags nobuffer -
  glassline receive link://0.0.0.0:7000 flight.y4m --key drone.key --audio-out flight.wav --stats flight.jsonl
  glassline receive 'link://[::]:7000' null: --key ground.key --peer $(cat drone.pub) --once --json
  glassline receive link://0.0.0.0:7000 flight.ivf --key drone.key \\
      --channel 0:priority=0,in=udp:127.0.0.1:14551,out=udp:127.0.0.1:14550
                                        commands to the sender and telemetry from it, beside the video
  glassline receive link://0.0.0.0:7000 flight.ts --key drone.key \\
      --channel 0:priority=0,klv=mavlink,out=udp:127.0.0.1:14550
                                        and the telemetry is KLV metadata in the file, each set beside its picture
  glassline receive link://10.0.0.2:7000 link://10.0.1.2:7000 flight.mp4 --key drone.key     (at two networks)
  glassline receive link://0.0.0.0:7000 http://127.0.0.1:8080/live/drone.ts --key drone.key --out-bitrate 3M
  glassline receive link://0.0.0.0:7000 - --key call.key --both v4l2:/dev/video0 --audio-in alsa:default --speech

A picture that was not sent, or was lost, is skipped: the previous picture stays until the next one arrives. Audio is
played together with the pictures that were captured at the same time. The delay in the report is the difference of both
machines' wall clocks; it is meaningful only if the clocks agree (NTP, PTP, or one machine).";

/// The address in `link://ADDR:PORT`.
fn listen_address(text: &str) -> Result<SocketAddr> {
    let address = super::address(text)?;
    address.parse().map_err(|_| {
        failure::usage(
            format!("{address:?} is no address of this machine and a port"),
            "write link://0.0.0.0:7000, or link://[::]:7000 for IPv6 too",
        )
    })
}

fn joined(addresses: &[SocketAddr]) -> String {
    addresses.iter().map(ToString::to_string).collect::<Vec<_>>().join(" and ")
}

/// Receives until the sender has gone (`--once`) or a signal asks for the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let addresses = args.listen.iter().map(|text| listen_address(text)).collect::<Result<Vec<_>>>()?;
    if args.both.is_none() && args.sending != SendOptions::default() {
        return Err(failure::usage(
            "an option says how pictures are sent back, and none are",
            "name their source with --both INPUT",
        ));
    }
    let settings = args.identity.settings()?;
    let signals = StopSignals::catch()?;
    let telemetry = super::telemetry(&args.channel, Some(&args.output))?;
    let channels = super::open_channels(&args.channel, telemetry.as_ref())?;
    let receiving = Receiving::open(&args.output, &args.receiving, telemetry)?;
    let sending = args.both.as_ref().map(|input| Sending::open(input, &args.sending)).transpose()?;
    sending.iter().for_each(Sending::go_on_when_refused);
    let reset_secret =
        addresses.first().and_then(|first| link::reset_secret(args.identity.key(), *first, None));
    args.header.warn();
    let locals: Vec<_> = addresses.iter().map(|address| args.header.mark(Local::at(*address))).collect();
    // Video alone has nothing that would have to go on: a sender that is silent has gone.
    let resume = if args.once && args.channel.is_empty() { Duration::ZERO } else { settings.resume };
    let endpoint =
        Endpoint::listen(Settings { reset_secret, resume, ..settings }, &locals).map_err(|error| {
            failure::failed(
                format!("cannot listen at {}: {error}", joined(&addresses)),
                "name an address of this machine and a port that is free",
            )
        })?;
    tracing::info!(address = %joined(endpoint.local_addresses()), "listening");
    let figures = told(
        receiving.figures("video", "sound"),
        sending.as_ref().map(|sending| sending.figures("video_sent", "sound_sent")),
    );
    let run = receiving.serve(Run::new(
        channels,
        args.stats.as_deref(),
        Some(figures),
        Some(receiving.pictures()),
    )?);
    let run = match &sending {
        Some(sending) => sending.serve(run),
        None => run,
    };
    let ran = run.run(endpoint, Mode::Listen { once: args.once }, None, signals);
    let sent = sending.as_ref().map_or(Ok(()), Sending::end);
    let finished = receiving.finish();
    // What came is told, whether all of it got to the output or not.
    let report = both(receiving.report(), sending.as_ref().map(Sending::report), "sent");
    if ran.is_ok() || report.has_pictures() {
        receiving.tell(&report, args.json)?;
    }
    sent.and(ran).and(finished)
}
