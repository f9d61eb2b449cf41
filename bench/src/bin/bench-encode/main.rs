//! From a picture to its packets: `glassline encode` beside FFmpeg and GStreamer, all with x264, as black boxes.
//!
//! ```text
//! writer thread: y4m picture at its time ──► stdin │ encoder │ UDP ──► receiver thread: datagrams, each with its time
//! ```
//! A picture's delay runs from the moment that the pipe has all of it, since no encoder can begin before, to its first
//! and its last datagram; with the time of the write itself it is told too. A picture is what has one PTS, the k-th
//! PTS that comes is the k-th picture that went in: no encoder drops any from a pipe, and a count that doesn't fit
//! fails the run. Encoders take turns.
//!
//! Beside it what `glassline encode --stats` tells from inside, and the whole way from glass to glass: by UDP to a
//! decoder (`probe --glass`), and through `serve` to a browser (`bench/page`).

mod arrivals;
mod clip;
mod encoders;
mod glass;
mod measure;
mod patterns;
mod quantizers;

use anyhow::{Context, Result, ensure};
use clap::{Parser, ValueEnum};
use clip::{Clip, Content, RATE};
use encoders::{ALL, Who};
use glassline_bench::machine;
use glassline_bench::report::Report;
use measure::{FIRST_P50, LAST_P50, measure};
use std::path::PathBuf;
use std::process::Command;

/// From a picture to its packets, beside FFmpeg and GStreamer; from glass to glass
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each measurement
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u64).range(1..))]
    seconds: u64,
    /// Seconds before it
    #[arg(long, default_value_t = 1)]
    warm_up: u64,
    /// Measurements of each encoder
    #[arg(long, default_value_t = 2, value_parser = clap::value_parser!(u64).range(1..))]
    runs: u64,
    /// What the pictures show
    #[arg(long, value_enum, default_value_t = Content::Flower)]
    content: Content,
    /// x264's presets
    #[arg(long, value_name = "PRESET,…", value_delimiter = ',', default_values = ["ultrafast", "superfast"])]
    presets: Vec<String>,
    /// Which parts to run; all by default
    #[arg(long, value_name = "PART,…", value_delimiter = ',')]
    parts: Vec<Part>,
    /// Folder for encode.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Part {
    /// Pictures in by a pipe, packets out by UDP, beside FFmpeg and GStreamer
    Beside,
    /// Cameras that began earlier, stall, or keep another rate than their header says
    Arrivals,
    /// What --stats tells
    Inside,
    /// Predicted quantisers beside x264's rate control: time, rate, quality
    Quantizers,
    /// Glass to glass by UDP and a decoder
    Glass,
    /// Glass to glass through serve in a browser
    Page,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let wants = |part| args.parts.is_empty() || args.parts.contains(&part);
    let mut report = Report::new("encode").onto_earlier(!args.parts.is_empty());
    report.how(format!("runs of {} s", args.seconds));
    if wants(Part::Beside) {
        beside(&args, &mut report)?;
    }
    if wants(Part::Arrivals) {
        patterns::measure_all(&args, &mut report)?;
    }
    if wants(Part::Inside) {
        args.presets.iter().try_for_each(|preset| from_inside(preset, &args, &mut report))?;
    }
    if wants(Part::Quantizers) {
        match Who::Ffmpeg.missing() {
            None => quantizers::beside_each_other(&args, &mut report)?,
            Some(why) => report.note(format!("SKIPPED predicted quantisers, decoded by FFmpeg: {why}")),
        }
    }
    if wants(Part::Glass) {
        match Who::Ffmpeg.missing() {
            None => args.presets.iter().try_for_each(|preset| glass::decoded(preset, &args, &mut report))?,
            Some(why) => {
                report.note(format!("SKIPPED glass to glass by UDP, whose decoder is FFmpeg: {why}"));
            }
        }
    }
    if wants(Part::Page) {
        glass::page(&args, &mut report)?;
    }
    report.finish(&args.out)
}

/// Ours and the peers by turns.
fn beside(args: &Args, report: &mut Report) -> Result<()> {
    let (clip, why) = Clip::load(args.content)?;
    let shown = if why.is_some() { Content::Pattern } else { args.content };
    if let Some(why) = why {
        report.note(why);
    }
    report.note(format!(
        "1280x720 at {RATE} pictures/s ({shown}), 5 Mbit/s, VBV and key frames of 1 s, datagrams of up to 7 packets; \
         nobody is pinned"
    ));
    let mut present = Vec::new();
    for who in ALL {
        match who.missing() {
            None => present.push(who),
            Some(why) => report.note(format!("SKIPPED {}: {why}", who.name())),
        }
    }
    let folder = args.out.join("encode");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let (reference, stream) = (folder.join("received.y4m"), folder.join("received.ts"));
    let decodes = Who::Ffmpeg.missing().is_none();
    if decodes {
        clip.save(&reference, (args.warm_up + args.seconds) * u64::from(RATE))?;
    } else {
        report.note("SKIPPED quality of what was received, which FFmpeg decodes");
    }
    for preset in &args.presets {
        let case = format!("{preset}, from the picture");
        for _ in 0..args.runs {
            for who in &present {
                let received = measure(*who, preset, &case, &clip, args, report)?;
                if decodes {
                    std::fs::write(&stream, received).with_context(|| stream.display().to_string())?;
                    match quantizers::add_score(who.name(), &case, &reference, &stream, report) {
                        // Every picture has arrived; what a peer's stream lacks all the same is told, and no more.
                        Err(error) if who.is_peer() => {
                            report.note(format!("SKIPPED quality of {}: {error:#}", who.name()));
                        }
                        scored => scored?,
                    }
                }
            }
        }
        terms(preset, &case, report);
    }
    if decodes {
        for file in [&reference, &stream] {
            std::fs::remove_file(file).with_context(|| file.display().to_string())?;
        }
    }
    Ok(())
}

/// What ours have to be beside the better of FFmpeg's two.
fn terms(preset: &str, case: &str, report: &mut Report) {
    for (who, metric, limit) in [
        (Who::Slices, FIRST_P50, 0.4),
        (Who::Threads, LAST_P50, 0.8),
        (Who::Default, FIRST_P50, 0.4),
        (Who::Default, LAST_P50, 0.8),
    ] {
        let peers = [Who::Ffmpeg, Who::FfmpegOneThread];
        let theirs = peers.iter().filter_map(|peer| report.value(case, peer.name(), metric)).reduce(f64::min);
        let Some((ours, theirs)) = report.value(case, who.name(), metric).zip(theirs) else { continue };
        let text = format!("{preset}, {} {metric} by the better ffmpeg's", who.name());
        report.term(text, ours / theirs, limit, true);
    }
    for who in [Who::Slices, Who::Default].into_iter().filter(|_| preset == "ultrafast") {
        if let Some(first) = report.value(case, who.name(), FIRST_P50) {
            let text = format!("{preset}, {} {FIRST_P50}, ms (to reach for)", who.name());
            report.term(text, first, 2.0, true);
        }
    }
}

/// What the encoder tells of itself, with the live test pattern.
fn from_inside(preset: &str, args: &Args, report: &mut Report) -> Result<()> {
    let case = format!("{preset}, told by --stats");
    let pictures = (args.seconds * u64::from(RATE)).to_string();
    for (who, how) in [
        (Who::Slices, ["--slices", "8", "--threads", "1"]),
        (Who::Threads, ["--slices", "2", "--threads", "2"]),
    ] {
        let output = Command::new(machine::glassline()?)
            .args(["encode", "test:1280x720@50", "udp://127.0.0.1:9", "--stats", "--audio", "none"])
            .args(["--preset", preset, "--bitrate", "5M", "--limit", &pictures])
            .args(how)
            .output()
            .context("cannot start glassline")?;
        let told = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "glassline encode ended with {}:\n{told}", output.status);
        for (line, p50, p99) in [
            ("x264's own time", "x264's own time p50", "x264's own time p99"),
            ("last packet after x264 ended", "last packet after x264 p50", "last packet after x264 p99"),
            ("first packet after queued", "first packet p50", "first packet p99"),
        ] {
            let [median, high] = find_quantiles(&told, line)
                .with_context(|| format!("glassline encode --stats tells nothing of {line:?}:\n{told}"))?;
            report.add(&case, who.name(), p50, "ms", median);
            report.add(&case, who.name(), p99, "ms", high);
            if line.starts_with("last packet") {
                report.term(format!("{preset}, {} {p50}, ms", who.name()), median, 0.2, true);
                report.term(format!("{preset}, {} {p99}, ms", who.name()), high, 1.0, true);
            }
        }
    }
    Ok(())
}

/// Median and 99th percentile of a line that ends with p50, p99 and maximum.
fn find_quantiles(table: &str, line: &str) -> Option<[f64; 2]> {
    let line = table.lines().find(|found| found.starts_with(line))?;
    let mut cells = line.split_whitespace().rev().skip(1).map(str::parse::<f64>);
    let (high, median) = (cells.next()?.ok()?, cells.next()?.ok()?);
    Some([median, high])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_found_in_the_table() {
        let table = "milliseconds   p50   p99   max\nx264's own time    6.100   9.400   12.000\n";
        assert_eq!(find_quantiles(table, "x264's own time"), Some([6.1, 9.4]));
        assert_eq!(find_quantiles(table, "added"), None);
    }
}
