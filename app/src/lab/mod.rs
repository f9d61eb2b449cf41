//! `glassline lab`: measures servers, streams and codecs from outside, including other products.

mod experiment;
mod glass;
mod lines;
mod link;
mod load;
mod path;
mod real_time;
mod report;
mod score;
mod slots;
mod stages;

use anyhow::Result;
use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  glassline lab load http http://127.0.0.1:8080/live/test.ts --viewers 1000
                                     a thousand viewers, and whether what they receive is right
  glassline lab load source http://127.0.0.1:8080/live/load.ts --rate 5M
                                     a stream for them to watch, made for measuring delay
  glassline lab link --up 3M --down 3M --delay 20ms --queue 256p -- bash
                                     a shell behind a slow link
  glassline lab experiment people.y4m --up lte.down --down lte.up --delay 20ms --queue 256p
                                     direct video over a mobile network, in virtual time
  glassline lab experiment --paper --results experiment && glassline lab report experiment
                                     the experiments of Salsify's paper, and a page of them
  glassline lab score film.y4m film.ivf
                                     picture quality: PSNR and SSIM of each
  glassline lab glass rtsp://server:8554/a
                                     latency at the end of any chain, by the test pattern's barcode
  glassline lab path --listen --key venue.key
  glassline lab path server.example --key venue.key
                                     a line before it carries anything: rate, queue, loss, and what a stream should use";

/// Measure servers, streams and codecs from outside, and emulate networks
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES, arg_required_else_help = true)]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Load(load::Args),
    Link(link::Args),
    Experiment(Box<experiment::Args>),
    Report(report::Args),
    Score(score::Args),
    Glass(glass::Args),
    Path(path::Args),
}

/// Runs the command to its end.
pub(crate) fn run(args: Args) -> Result<()> {
    match args.command {
        Command::Load(args) => load::run(args),
        Command::Link(args) => link::run(&args),
        Command::Experiment(args) => experiment::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Score(args) => score::run(&args),
        Command::Glass(args) => glass::run(&args),
        Command::Path(args) => path::run(&args),
    }
}
