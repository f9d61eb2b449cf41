//! `glassline lab load`: very many viewers of a server, and the stream that they watch.
//!
//! [`http`] is the viewers' command, [`live`] that of viewers of segments, [`source`] the stream's. [`session`] drives a load in this process,
//! [`workers`] in several; [`quantity`] reads what only loads have.

mod http;
mod live;
mod quantity;
mod session;
mod source;
mod workers;

use anyhow::Result;
use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  glassline lab load source http://127.0.0.1:8080/live/load.ts &
  glassline lab load http http://127.0.0.1:8080/live/load.ts --viewers 2000 --duration 30s
  glassline lab load live http://127.0.0.1:8080/live/demo/index.m3u8 --viewers 500

docs/lab.md explains the report, and how to use more than one process.";

/// Load a server with viewers, and check what they receive
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Http(http::Args),
    Live(live::Args),
    Source(source::Args),
}

/// Runs the command to its end.
pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Http(args) => http::run(&args),
        Command::Live(args) => live::run(&args),
        Command::Source(args) => source::run(&args),
    }
}
