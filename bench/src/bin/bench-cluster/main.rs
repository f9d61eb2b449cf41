//! A cluster on NATS: what a hop from one server to another adds to a picture's delay, how soon a viewer has a picture of a stream that
//! another server has, and what the registry costs a server that has nothing to do.
//!
//! All of it is on one machine, over loopback: no round trip lies between the servers, so what is measured is theirs alone.

mod idle;
mod servers;
mod viewers;

use anyhow::{Context, Result};
use clap::{Parser, ValueEnum};
use glassline_bench::machine::find;
use glassline_bench::report::Report;
use std::path::PathBuf;

/// What a second server of a cluster adds, and what the registry costs
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(2..))]
    seconds: u64,
    /// Measurements of each case, in turns
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// Joins of streams that no viewer has asked for
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u64).range(1..=500))]
    joins: u64,
    /// Streams in the registry
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = clap::value_parser!(u32).range(50..=5000))]
    streams: u32,
    /// Streams that come or go in a second
    #[arg(long, value_name = "N", default_value_t = 50, value_parser = clap::value_parser!(u32).range(2..=500))]
    changes: u32,
    /// Which parts to run; all by default
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Folder for cluster.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// The delay of pictures at the publisher's server and a hop away
    Hop,
    /// The first picture of a stream that no viewer has asked for
    Join,
    /// A server with no stream, beside one of which streams come and go
    Idle,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let runs = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::new("cluster").onto_earlier(!args.parts.is_empty());
    report.how(format!("{} runs of {} s", args.runs, args.seconds));
    find("nats-server").context("nats-server is not installed (apt install nats-server)")?;
    glassline_io::process::raise_descriptor_limit();
    if runs(Part::Hop) {
        viewers::hop(args.seconds, args.runs, &mut report)?;
    }
    if runs(Part::Join) {
        viewers::joins(args.joins, &mut report)?;
    }
    if runs(Part::Idle) {
        idle::run(args.streams, args.changes, args.seconds, args.runs, &mut report)?;
    }
    report.finish(&args.out)
}
