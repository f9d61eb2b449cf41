//! Quality before delay: bits at the same quality with a look-ahead and without, beside FFmpeg with the same settings of x264;
//! what the version without delay pays for one with a look-ahead beside it; a fade after a still
//! slide; and the preset that is found out.

mod auto;
mod bits;
mod fade;
mod hall;

use anyhow::Result;
use clap::{Parser, ValueEnum};
use glassline_bench::report::Report;
use std::path::PathBuf;

/// What a look-ahead is worth, and what it costs
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each clip, which is played over and over
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=60))]
    seconds: u32,
    /// Runs of the version without delay, with the other one and without, by turns
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..))]
    runs: u32,
    /// Runs of --preset auto, a minute each
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..))]
    auto_runs: u32,
    /// Which parts to run; all by default
    #[arg(long, value_enum, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Folder for quality.json, and for clips and streams
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Bits at the same quality
    Bits,
    /// The version without delay, alone and beside the other one
    Hall,
    /// A fade behind a minute of a still slide
    Fade,
    /// --preset auto beside a busy process
    Auto,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wants = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::new("quality").onto_earlier(!args.parts.is_empty());
    report.how(format!("clips of {} s, {} runs of 8 s in turns", args.seconds, args.runs));
    let folder = args.out.join("quality");
    std::fs::create_dir_all(&folder)?;
    if wants(Part::Bits) {
        bits::measure(args.seconds, &folder, &mut report)?;
    }
    if wants(Part::Hall) {
        hall::measure(args.runs, &mut report)?;
    }
    if wants(Part::Fade) {
        fade::measure(&folder, &mut report)?;
    }
    if wants(Part::Auto) {
        auto::measure(args.auto_runs, &mut report)?;
    }
    report.finish(&args.out)
}
