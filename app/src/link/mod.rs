//! `glassline link`: connects files, FIFOs, datagrams and serial lines with the channels of a link, so that programs
//! in any language can send messages over a bad network.
//!
//! `channel` reads what stands on the command line, `ends` opens it, `input` and `output` are its messages, `json_lines` writes them with their times; `discovery`
//! finds listeners by name; `header` is what datagrams bear for routers; `identity` is by what peers know us; `paths` are the interfaces and addresses by which it leads; `reset` is what a listener keeps over its restarts; `session` runs an
//! `engine::link::session` and says what happens to it, `stats` writes its figures.

mod channel;
mod discovery;
mod ends;
mod header;
mod identity;
mod input;
mod json_lines;
mod output;
mod paths;
mod reset;
mod session;
mod stats;

use crate::failure;
use crate::stop::StopSignals;
use anyhow::{Context, Result};
pub(crate) use channel::{Channel, fec as parse_parity};
use discovery::{Discover, Wanted};
pub(crate) use ends::{Ends as ChannelEnds, addresses, local_towards, open as open_channels};
use glassline_call::link::session::Mode;
use glassline_call::link::{Endpoint, Local};
use glassline_io::small_file::{Accept, Bounds, SmallFile, SmallFileError};
use glassline_media::quantity;
use glassline_transport::link::{Bonding, Dictionary, Settings};
pub(crate) use header::{HeaderArgs, warn_of_flow_labels};
pub(crate) use identity::{Identity, boot, name_of, public};
pub(crate) use paths::{BondingArg, PathArgs};
pub(crate) use reset::secret as reset_secret;
pub(crate) use session::{Remote, Run};
pub(crate) use stats::{Extra, Told};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How long connecting may take before the log says that there is no answer.
const SAY_AFTER: Duration = Duration::from_secs(10);
/// The largest dictionary that is read, bytes.
const MAX_DICTIONARY: u64 = 16 << 20;

/// Carry messages over an encrypted link of channels, each with its own reliability, order, priority and deadline
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

const EXAMPLES: &str = "\
Examples:
  glassline key new drone.key       (copy it to both ends)
  glassline link listen  0.0.0.0:7000 --key drone.key --channel 1:lines,out=-
  glassline link connect ground:7000  --key drone.key --channel 1:lines,in=-

  A MAVLink autopilot on a serial line, and the ground station's program on a port:
  glassline link connect ground:7000  --key drone.key \\
      --channel 0:priority=0,in=serial:/dev/ttyACM0,57600,out=serial:/dev/ttyACM0,57600
  glassline link listen  0.0.0.0:7000 --key drone.key \\
      --channel 0:priority=0,in=udp:127.0.0.1:14551,out=udp:127.0.0.1:14550

Options of a channel, after ID: (0 to 62) and separated by commas:
  reliable | unreliable        lost data is sent again, or not                   [reliable]
  ordered | unordered          messages arrive in the order of sending, or not   [ordered]
  priority=N                   0 goes first: others wait while it has messages   [1]
  weight=N                     share among channels of the same priority         [1]
  cancel_after=200ms           messages older than this are discarded
  newest                       a new message replaces one that is still waiting
  cancel_begun                 and also one that has been sent in part
  max_receive_time=50ms        the receiver skips a message that is missing for this long
  max_size=16M                 the largest message (1200B, 64k, 16M)             [16M]
  queue=N                      messages that may wait; then reading pauses       [4096]
  compress=none|zstd|deflate   messages are compressed if they become smaller    [none]
  fec=25% | always:25%         parity, so that a picture survives losses without a resend:
                               while packets are lost, or always; reliable: when nothing else
                               waits, and what it does not restore is sent again [none]
  stamped                      each message carries the time at which it was read (8 bytes), on the clock
                               of the capture times of pictures; out= gets the message alone
  in=PLACE, out=PLACE          where messages are read from and written to
  framed | lines | raw         how they are separated there: by their length in front (4 bytes,
                               big-endian), as lines, or bytes as they come   [framed; serial: raw]
  klv=mavlink | klv=st0601     send and receive: what comes becomes KLV in the transport stream that is made of the
                               pictures (docs/metadata.md): telemetry of an autopilot, or sets of MISB ST 0601
                               as they are; with `stamped` at the other end each stands beside its picture
  json                         out= gets a line of JSON for each message: its time, that of the picture on
                               screen, and its text
PLACE: a file, a FIFO, fd:N, - (standard input or output), udp:HOST:PORT (a datagram is a
message), serial:DEV,BAUD.";

#[derive(Debug, clap::Subcommand)]
enum Command {
    Listen(Listen),
    Connect(Connect),
    Discover(Discover),
}

/// Accept links: one or several peers may connect
#[derive(Debug, clap::Args)]
#[command(after_help = LISTEN_EXAMPLES)]
struct Listen {
    /// Address to listen on; with port 0 the system chooses a port
    #[arg(value_name = "ADDR:PORT")]
    address: SocketAddr,
    /// Listen only on this network interface
    #[arg(long, value_name = "IFACE")]
    interface: Option<String>,
    /// Exit when all peers that had connected have gone
    #[arg(long)]
    once: bool,
    /// Announce this name in the local network (multicast DNS), for `link discover` and `link connect mdns:NAME`
    #[arg(long, value_name = "NAME", value_parser = discovery::parse_name)]
    announce: Option<String>,
    #[command(flatten)]
    common: Common,
}

const LISTEN_EXAMPLES: &str = "\
Examples:
  glassline link listen 0.0.0.0:7000 --key drone.key --channel 1:lines,out=-
  glassline link listen '[::]:7000' --key ground.key --peer $(cat drone.pub) \\
      --channel 3:out=video.pipe --stats link.jsonl
  glassline link listen 0.0.0.0:7000 --key drone.key --announce ground --channel 1:lines,out=-

Messages that are read here go to every peer; messages from all peers are written one after another.
Reading begins when the first peer has connected. `glassline link --help` lists the options of channels.";

/// Connect to a listener, and connect again when the link is lost
#[derive(Debug, clap::Args)]
#[command(after_help = CONNECT_EXAMPLES)]
struct Connect {
    /// Address of the listener, or mdns: and the name that it announces in this network
    #[arg(value_name = "HOST:PORT|mdns:NAME")]
    address: String,
    #[command(flatten)]
    paths: PathArgs,
    /// Give up if the other end does not answer for this long; without it, connecting is retried forever
    #[arg(long, value_name = "TIME", value_parser = quantity::parse_duration)]
    connect_timeout: Option<Duration>,
    #[command(flatten)]
    common: Common,
}

const CONNECT_EXAMPLES: &str = "\
Examples:
  glassline link connect ground:7000 --key drone.key --channel 1:lines,in=-
  glassline link connect ground:7000 --key drone.key --channel 0:raw,in=film.ts \\
      --channel 1:raw,out=answer.bin
  glassline link connect 192.0.2.1:7000 --key drone.key --path wlan0 --path wwan0 \\
      --channel 3:unreliable,newest,in=video.pipe
  glassline link connect mdns:ground --key drone.key --channel 1:lines,in=-

It ends when all inputs have ended, everything is delivered and, if it has outputs, the other end has
nothing more to send. `glassline link --help` lists the options of channels.";

/// Options of both ends.
#[derive(Debug, clap::Args)]
struct Common {
    #[command(flatten)]
    identity: Identity,
    #[command(flatten)]
    header: HeaderArgs,
    /// A channel with its options; see `glassline link --help`
    #[arg(long, value_name = "ID:OPTIONS", required = true)]
    channel: Vec<Channel>,
    /// File with typical messages one after another, or a dictionary from `zstd --train`: small messages on channels
    /// with compress=zstd become much smaller; both ends need the same file
    #[arg(long, value_name = "FILE")]
    dictionary: Option<PathBuf>,
    /// How long after falling silent a peer may come back and continue where it was; 0s: messages in flight are then
    /// lost
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = quantity::parse_duration)]
    resume: Duration,
    /// Share of the rate for padding that measures the path's capacity while almost nothing is sent, so that later
    /// messages need not wait for that
    #[arg(long, value_name = "PERCENT", default_value_t = 0, hide_default_value = true, value_parser = clap::value_parser!(u8).range(0..=50))]
    probing: u8,
    /// Write measurements to this file, one line of JSON per second
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
}

fn dictionary(path: &Path) -> Result<Arc<Dictionary>> {
    let advice = "make one of many typical messages, each in a file: zstd --train MESSAGES -o FILE";
    let cannot = |what: String| failure::usage(format!("the dictionary {}: {what}", path.display()), advice);
    let bounds = Bounds { max_bytes: MAX_DICTIONARY, ..Bounds::default() };
    let bytes = SmallFile::open(path, Accept::AnyFile, bounds).and_then(SmallFile::read);
    let bytes = bytes.map_err(|error| match error {
        SmallFileError::TooLong { .. } => {
            cannot("larger than 16 MiB; some 100 kB do all that can be done".into())
        }
        error => failure::usage(format!("the dictionary: {error}"), advice),
    })?;
    if bytes.is_empty() {
        return Err(cannot("it is empty".into()));
    }
    let dictionary = Dictionary::new(&bytes);
    dictionary.map(Arc::new).ok_or_else(|| cannot("it begins as those of zstd --train do and is none".into()))
}

impl Common {
    fn settings(&self) -> Result<Settings> {
        let dictionary = self.dictionary.as_deref().map(dictionary).transpose()?;
        let (probing_percent, resume) = (self.probing, self.resume);
        Ok(Settings { dictionary, probing_percent, resume, ..self.identity.settings()? })
    }
}

/// Runs the command to its end.
pub(crate) fn run(args: &Args) -> Result<()> {
    match &args.command {
        Command::Listen(listen) => run_listen(listen),
        Command::Connect(connect) => run_connect(connect),
        Command::Discover(discover) => discovery::run(discover),
    }
}

/// Opens the ends of channels beside which no pictures come.
fn open_alone(channels: &[Channel]) -> Result<Vec<ChannelEnds>> {
    match channels.iter().find(|channel| channel.has_klv()) {
        Some(channel) => Err(failure::usage(
            format!(
                "channel {}: klv= puts telemetry beside pictures, and this command takes none",
                channel.id()
            ),
            "leave it out here; glassline receive takes it",
        )),
        None => ends::open(channels),
    }
}

fn run_listen(args: &Listen) -> Result<()> {
    let settings = args.common.settings()?;
    let signals = StopSignals::catch()?;
    let run = Run::new(open_alone(&args.common.channel)?, args.common.stats.as_deref(), None, None)?;
    let reset_secret = reset::secret(args.common.identity.key(), args.address, args.interface.as_deref());
    let settings = Settings { reset_secret, ..settings };
    let local = Local { interface: args.interface.clone(), ..Local::at(args.address) };
    let local = args.common.header.mark(local);
    args.common.header.warn();
    let endpoint = Endpoint::listen(settings, &[local]).map_err(|error| {
        failure::failed(
            format!("cannot listen at {}: {error}", args.address),
            "name an address of this machine and a port that is free",
        )
    })?;
    let address = endpoint.local_addresses()[0];
    tracing::info!(%address, "listening");
    let announce = |name: &String| discovery::announce(name, address, args.interface.as_deref());
    let _announcement = args.announce.as_ref().map(announce).transpose()?;
    run.run(endpoint, Mode::Listen { once: args.once }, None, signals)
}

fn run_connect(args: &Connect) -> Result<()> {
    let paths = args.paths.check(Bonding::Failover)?;
    let settings = Settings {
        connect_timeout: args.connect_timeout.unwrap_or(SAY_AFTER),
        bonding: paths.bonding,
        ..args.common.settings()?
    };
    let wanted =
        Wanted::parse(&args.address).map(|name| Wanted { name: name.to_owned(), is_ipv4: paths.is_ipv4() });
    let opened = open_alone(&args.common.channel)?;
    let (to, signals) = match &wanted {
        Some(wanted) => {
            let mut signals = StopSignals::catch()?;
            tracing::info!(name = wanted.name, "looking for a listener of this name");
            let Some(to) = wanted.find(args.connect_timeout, || signals.poll())? else {
                return Ok(());
            };
            (vec![to], signals)
        }
        None => (ends::addresses(&args.address)?, StopSignals::catch()?),
    };
    let run = Run::new(opened, args.common.stats.as_deref(), None, None)?;
    let header = args.common.header;
    header.warn();
    let locals: Vec<_> = paths.locals(&to)?.into_iter().map(|local| header.mark(local)).collect();
    let endpoint = Endpoint::open(settings, &locals)
        .with_context(|| format!("cannot open a socket at {}", paths.names()))?;
    let mode = Mode::Connect { to, give_up: args.connect_timeout.is_some(), spares: paths.spares() };
    let remote = Remote { name: args.address.clone(), wanted };
    run.run(endpoint, mode, Some(&remote), signals)
}
