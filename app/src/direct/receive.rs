//! `glassline receive`.

use super::{figures, sink};
use crate::failure;
use crate::link::{self, Channel, Identity, Run};
use crate::output::{self, ReaderGone};
use crate::stop::StopSignals;
use anyhow::{Context, Result};
use glassline_codec::vp8::Limits;
use glassline_engine::direct::VideoReceiver;
use glassline_engine::link::session::Mode;
use glassline_engine::link::{Endpoint, Local};
use glassline_transport::link::Settings;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Receive what `glassline send` sends, and show it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    /// Where to listen; port 0 has the system choose
    #[arg(value_name = "link://ADDR:PORT")]
    listen: String,
    /// Where the pictures go: FILE.y4m, FILE.ivf (encoded again, since what comes depends on what the receiver holds), - (y4m on
    /// standard output, each picture when it is to be shown), or null: for nowhere
    #[arg(value_name = "OUTPUT")]
    output: String,
    #[command(flatten)]
    identity: Identity,
    /// End when the sender has gone
    #[arg(long)]
    once: bool,
    /// A channel beside the video, as in `glassline link`: ID:OPTIONS, where ID is 0 to 59
    #[arg(long, value_name = "ID:OPTIONS")]
    channel: Vec<Channel>,
    /// Write what is measured once a second, a line of JSON each
    #[arg(long, value_name = "FILE")]
    stats: Option<PathBuf>,
    /// Print the report at the end as JSON: on standard output, or on standard error where pictures go there
    #[arg(long)]
    json: bool,
}

const EXAMPLES: &str = "\
Examples:
  glassline receive link://0.0.0.0:7000 - --key drone.key | ffplay -fflags nobuffer -
  glassline receive link://0.0.0.0:7000 flight.y4m --key drone.key --stats flight.jsonl
  glassline receive 'link://[::]:7000' null: --key ground.key --peer $(cat drone.pub) --once --json
  glassline receive link://0.0.0.0:7000 flight.ivf --key drone.key --channel 0:out=udp:127.0.0.1:14550

A picture that was not sent, or was lost, is left out: the picture before it stands until the next one comes. The delay
that is told is by the wall clocks of both machines; it means something where they agree (NTP, PTP, or one machine).";

/// Receives until the sender has gone (`--once`) or a signal asks for the end.
pub(crate) fn run(args: &Args) -> Result<()> {
    let address = super::address(&args.listen)?;
    let address: SocketAddr = address.parse().map_err(|_| {
        failure::usage(
            format!("{address:?} is no address of this machine and a port"),
            "write link://0.0.0.0:7000, or link://[::]:7000 for IPv6 too",
        )
    })?;
    let settings = args.identity.settings()?;
    let signals = StopSignals::catch()?;
    let channels = link::open_channels(&args.channel)?;
    let (sink, to_stdout) = sink::open(&args.output)?;
    let reset_secret = link::reset_secret(args.identity.key(), address, None);
    let local = Local::at(address);
    let endpoint = Endpoint::listen(Settings { reset_secret, ..settings }, &[local]).map_err(|error| {
        failure::failed(
            format!("cannot listen at {address}: {error}"),
            "name an address of this machine and a port that is free",
        )
    })?;
    tracing::info!(address = %endpoint.local_addresses()[0], "listening");
    let receiver = VideoReceiver::new(sink, Limits::default()).context("cannot start a thread")?;
    let receiver = Arc::new(receiver);
    let told = figures::of_receiver(Arc::clone(&receiver));
    let run = Run::new(channels, args.stats.as_deref(), Some(told))?.with_service(Arc::clone(&receiver) as _);
    run.run(endpoint, Mode::Listen { once: args.once }, None, signals)?;
    receiver.finish().map_err(explain)?;
    let report = figures::received(&receiver.statistics());
    match (args.json, to_stdout) {
        (true, false) => output::print(&report.json()?),
        (true, true) => output::print_aside(&report.json()?),
        (false, _) => output::print_aside(&report.text()),
    }
}

fn explain(error: io::Error) -> anyhow::Error {
    if error.kind() == io::ErrorKind::BrokenPipe { ReaderGone.into() } else { error.into() }
}
