//! `glassline send`.

use super::figures;
use crate::encode::{Deinterlace, input_words};
use crate::link::{self, Channel, Identity, Remote, Run};
use crate::stop::StopSignals;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_engine::capture::{Input, Length, Request, Source};
use glassline_engine::direct::{CodecMode, Decision, SendSettings, SenderSettings, VideoSender};
use glassline_engine::link::session::Mode;
use glassline_engine::link::{Endpoint, Local};
use glassline_io::clock::Clock;
use glassline_io::process::processors;
use glassline_io::random;
use glassline_media::quantity::{self, Bitrate};
use glassline_transport::link::{Fec, Settings};
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Sides are 14 bits (RFC 6386 §9.1).
const MAX_SIDE: u32 = 16_383;
/// More threads than this bring nothing at 720p.
const MOST_THREADS: usize = 4;
/// How long a connect is tried before it is said that nobody answers.
const SAY_AFTER: Duration = Duration::from_secs(10);

/// Send live video to a receiver, each picture as large as the network takes now, or not at all
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    /// What to send: test:WIDTHxHEIGHT@RATE (moving pattern and clock), FILE.y4m, - (y4m on standard input),
    /// v4l2:DEVICE[?size=WxH&rate=R&format=F] (a capture device), or a file that FFmpeg reads (file:PATH where its
    /// name looks like something else)
    #[arg(value_name = "INPUT")]
    input: Input,
    /// Where the receiver is
    #[arg(value_name = "link://HOST:PORT")]
    to: String,
    #[command(flatten)]
    identity: Identity,
    /// No more bits than this a second, however much the network takes, as in 3M
    #[arg(long, value_name = "RATE")]
    bitrate: Option<Bitrate>,
    /// The encoder's speed against quality, from 0 (best) to 10 (fastest)
    #[arg(long, value_name = "N", default_value_t = 6, value_parser = clap::value_parser!(u8).range(0..=10))]
    speed: u8,
    /// In how many qualities each picture is encoded at most: more meet the network better, for more processor time;
    /// fewer are made where time is short
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u8).range(1..=6))]
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
    /// A channel beside the video, as in `glassline link`: ID:OPTIONS, where ID is 0 to 59
    #[arg(long, value_name = "ID:OPTIONS")]
    channel: Vec<Channel>,
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
    /// End when nobody answers for so long; without it the connect is tried for ever
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    connect_timeout: Option<Duration>,
    /// Write what is measured once a second, a line of JSON each
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Write what was decided of each picture, a line of JSON each: budgets, candidates, what was chosen and why
    #[arg(long, value_name = "FILE")]
    decisions: Option<PathBuf>,
    /// Print the report at the end as JSON, on standard output
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline key new drone.key             (copy it to both ends)
  glassline receive link://0.0.0.0:7000 - --key drone.key | ffplay -fflags nobuffer -
  glassline send test:1280x720@30 link://ground:7000 --key drone.key
  glassline send 'v4l2:/dev/video0?size=1280x720&rate=30' link://ground:7000 --key drone.key
  glassline send film.y4m link://192.0.2.1:7000 --key drone.key --loop --bitrate 3M
  glassline send test:1280x720@30 link://ground:7000 --key drone.key --stats send.jsonl --decisions each.jsonl
  glassline send v4l2:/dev/video0 link://ground:7000 --key drone.key \\
      --channel 0:priority=0,in=serial:/dev/ttyACM0,57600,out=serial:/dev/ttyACM0,57600

Each picture is encoded in some qualities; what the link takes at that moment decides which one goes, or that none
does. After a loss the next picture is coded against one that the receiver has: nothing is sent again. The link is made
anew when it was lost. `glassline link --help` lists the options of channels; `glassline lab link` emulates networks.";

/// Sends until the input ends or a signal asks for the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let address = super::address(&args.to)?;
    let settings =
        Settings { connect_timeout: args.connect_timeout.unwrap_or(SAY_AFTER), ..args.identity.settings()? };
    let signals = StopSignals::catch()?;
    let channels = link::open_channels(&args.channel)?;
    let to = link::one_address(address)?;
    let source = open(args)?;
    let decisions = args.decisions.as_deref().map(Decisions::create).transpose()?;
    let observer = decisions.map(|decisions| {
        let told = move |decision: &Decision, took| decisions.write(decision, took);
        Box::new(told) as Box<dyn Fn(&Decision, Duration) + Send + Sync>
    });
    let threads = match args.threads {
        0 => processors().min(MOST_THREADS),
        asked => usize::from(asked),
    };
    let sender = SenderSettings {
        speed: args.speed,
        candidates: usize::from(args.candidates),
        bitrate_max: args.bitrate,
        codec: if args.conventional { CodecMode::Conventional } else { CodecMode::Functional },
        ..SenderSettings::new(epoch()?, source.format().rate)
    };
    let send = SendSettings { sender, parity: args.fec, threads };
    let sender =
        Arc::new(VideoSender::new(source, send, observer).context("cannot start the encoder's threads")?);
    let told = figures::of_sender(Arc::clone(&sender));
    let run = Run::new(channels, args.stats.as_deref(), Some(told))?.with_service(Arc::clone(&sender) as _);
    let endpoint = Endpoint::open(settings, &[Local::towards(to)]).context("cannot open a socket")?;
    let mode = Mode::Connect { to, give_up: args.connect_timeout.is_some() };
    let remote = Remote { name: address.to_owned(), wanted: None };
    run.run(endpoint, mode, Some(&remote), signals)?;
    sender.stop();
    if let Some(Err(error)) = sender.take_end() {
        return Err(input_words(error));
    }
    let report = figures::sent(&sender.statistics());
    if args.json { output::print(&report.json()?) } else { output::print_aside(&report.text()) }
}

fn open(args: &Args) -> Result<Source> {
    let request = Request {
        paced: true,
        looped: args.looped,
        deinterlace: args.deinterlace.into(),
        length: Length { pictures: args.limit, time: args.duration },
        ..Request::default()
    };
    let source = Source::open(&args.input, &request, Clock::new()).map_err(input_words)?;
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
