//! `glassline lab`: measures servers, streams and codecs from outside, other products' too.

mod experiment;
mod glass;
mod link;
mod load;
mod real_time;
mod report;
mod score;

use anyhow::Result;
use clap::Subcommand;

const EXAMPLES: &str = "\
Examples:
  glassline lab load http http://127.0.0.1:8080/live/test.ts --viewers 1000
                                     a thousand viewers, each checked or sampled
  glassline lab load source http://127.0.0.1:8080/live/load.ts --rate 5M
                                     a stream that tells its delay, for them to watch
  glassline lab link --up 3M --down 3M --delay 20ms --queue 256p -- bash
                                     a shell behind a slow line
  glassline lab experiment people.y4m --up lte.down --down lte.up --delay 20ms --queue 256p
                                     direct video over that line, in virtual time
  glassline lab experiment --paper --results experiment && glassline lab report experiment
                                     the experiments of Salsify's paper, and a page of them
  glassline lab score film.y4m film.ivf
                                     how good the pictures are: PSNR and SSIM of each
  glassline lab glass rtsp://server:8554/a
                                     how old the test pattern is at the end of any chain, by its barcode";

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
    }
}
