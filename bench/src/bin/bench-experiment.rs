//! The experiments of Salsify's paper, by `glassline lab experiment --paper`, beside the paper's own figures; and the page of them.
//!
//! Virtual time: each machine gives the same figures, whatever else it does. They take hours: what was finished before this was
//! stopped is not run again.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use glassline_bench::machine;
use glassline_bench::report::Report;
use glassline_lab::clip;
use glassline_lab::experiment::paper::{CASES, CHOSEN, Case, FIGURES, Figure, STATES, Scheme};
use glassline_lab::experiment::{Record, Summary};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The experiments of Salsify's paper, in virtual time, beside its figures
#[derive(Debug, Parser)]
struct Args {
    /// No more seconds of each; otherwise as long as the traces are, and ten minutes
    #[arg(long, value_name = "S")]
    seconds: Option<u32>,
    /// Only these, as `glassline lab experiment --only` has them
    #[arg(long, value_name = "NAMES")]
    only: Option<String>,
    /// Folder for experiment.json, and for experiment/ with the results and the page
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// What is told of each run.
const METRICS: [Metric; 8] = [
    ("delay p50", "ms", |summary| Some(summary.delay_p50_ms)),
    (DELAY, "ms", |summary| Some(summary.delay_p95_ms)),
    ("delay p99", "ms", |summary| Some(summary.delay_p99_ms)),
    (QUALITY, "dB", |summary| summary.ssim_daala_db),
    ("SSIM of luma", "dB", |summary| summary.ssim_y_db),
    ("of the way used", "%", |summary| summary.used.map(|used| used * 100.0)),
    ("queue p50", "ms", |summary| Some(summary.queue_p50_ms)),
    ("pictures shown", "/s", |summary| Some(summary.shown_per_s)),
];
type Metric = (&'static str, &'static str, fn(&Summary) -> Option<f64>);

const DELAY: &str = "delay p95";
const QUALITY: &str = "SSIM of luma (Daala)";

/// The most that the 95th percentile of the delay may be, by figure, ms.
const DELAYS: [(&str, f64); 3] = [("att", 200.0), ("umts", 1_953.0), ("intermittent", 130.0)];

fn main() -> Result<()> {
    let args = Args::parse();
    let results = args.out.join("experiment");
    let clip = clip::people_720p30(&clip::shared(), &args.out.join("direct"))?;
    let mut run = Command::new(machine::glassline()?);
    run.args(["lab", "experiment", "--paper", "--results"]).arg(&results);
    run.args(args.only.iter().map(|names| format!("--only={names}")));
    run.args(args.seconds.map(|seconds| format!("--duration={seconds}s"))).arg(&clip);
    let ended = run.status().context("the program cannot be started")?;
    ensure!(ended.success(), "glassline lab experiment ended with {ended}");
    let made = Command::new(machine::glassline()?)
        .args(["lab", "report"])
        .arg(&results)
        .status()
        .context("the program cannot be started")?;
    ensure!(made.success(), "glassline lab report ended with {made}");
    let records = records(&results)?;
    let mut report = Report::new("experiment");
    report.how(match args.seconds {
        Some(seconds) => format!("virtual time, people_480p30 at 1280x720, at most {seconds} s of each"),
        None => "virtual time, people_480p30 at 1280x720, whole traces and ten minutes".to_owned(),
    });
    if records.len() < CASES.len() {
        report.note(format!("{} of {} runs are there", records.len(), CASES.len()));
    }
    for figure in FIGURES {
        add(&mut report, figure, &records);
        // What is asked is of whole traces.
        if figure.is_comparable && args.seconds.is_none() {
            ask(&mut report, figure, &records);
        }
    }
    choices(&mut report, &records);
    report.finish(&args.out)
}

/// What is there, in the order of the cases.
fn records(results: &Path) -> Result<Vec<(&'static Case, Record)>> {
    let mut records = Vec::new();
    for case in CASES {
        let file = results.join(case.name).with_extension("json");
        let Ok(text) = std::fs::read(&file) else { continue };
        let record = serde_json::from_slice(&text).with_context(|| file.display().to_string())?;
        records.push((case, record));
    }
    Ok(records)
}

fn who(case: &Case) -> String {
    match (case.scheme, case.processors) {
        (Scheme::Ours, 1) => "glassline (1 core)".to_owned(),
        (Scheme::Ours, count) => format!("glassline ({count} cores)"),
        (scheme, _) => scheme.name().replace("Glassline", "glassline"),
    }
}

/// A figure's runs, and the paper's systems beside them where both are on the same network; Salsify on two cores first, with which
/// ours are compared.
fn add(report: &mut Report, figure: &Figure, records: &[(&Case, Record)]) {
    let runs: Vec<_> = records.iter().filter(|(case, _)| figure.cases.contains(&case.name)).collect();
    for (case, record) in &runs {
        for (metric, unit, of) in METRICS {
            if let Some(value) = of(&record.summary) {
                report.add(figure.title, &who(case), metric, unit, value);
            }
        }
    }
    if runs.is_empty() || !figure.is_comparable {
        return;
    }
    let is_first = |who: &str| who == "Salsify-2c";
    let first = figure.points.iter().filter(|point| is_first(point.who));
    for point in first.chain(figure.points.iter().filter(|point| !is_first(point.who))) {
        let who = format!("{} (paper)", point.who);
        report.add(figure.title, &who, DELAY, "ms", point.delay_p95_ms);
        report.add(figure.title, &who, QUALITY, "dB", point.ssim_daala_db);
    }
}

/// What is asked of ours on two cores.
fn ask(report: &mut Report, figure: &Figure, records: &[(&Case, Record)]) {
    let found = |(case, _): &&(&Case, Record)| figure.cases.contains(&case.name) && case.processors > 1;
    let Some((_, record)) = records.iter().find(found) else { return };
    let (delay, quality) = (record.summary.delay_p95_ms, record.summary.ssim_daala_db.unwrap_or_default());
    for (_, limit) in DELAYS.iter().filter(|(key, _)| *key == figure.key) {
        report.term(format!("{}: {DELAY}", figure.title), delay, *limit, true);
    }
    if let Some(salsify) = figure.points.iter().find(|point| point.who == "Salsify-2c") {
        let text = format!("{}: {QUALITY}, Salsify-2c's", figure.title);
        report.term(text, quality, salsify.ssim_daala_db, false);
        let better = figure
            .points
            .iter()
            .filter(|point| point.delay_p95_ms <= delay && point.ssim_daala_db >= quality)
            .count();
        let text = format!("{}: systems of the paper's that are as quick and as good", figure.title);
        report.term(text, better as f64, 0.0, true);
    }
}

/// What was chosen, and the states that both ends held.
fn choices(report: &mut Report, records: &[(&Case, Record)]) {
    const TITLE: &str = "What is sent of a picture, and states held";
    let runs = records.iter().filter(|(case, _)| case.scheme == Scheme::Ours && case.name.ends_with("-2c"));
    let names = ["finest", "between", "coarsest", "none"];
    let mut told = false;
    for (case, record) in runs {
        let who = format!("glassline, {}", case.network_name);
        for (name, share) in names.into_iter().zip(record.summary.chosen) {
            report.add(TITLE, &who, name, "%", share * 100.0);
        }
        report.add(TITLE, &who, "sender's states", "mean", record.summary.sender_states.0);
        report.add(TITLE, &who, "receiver's states", "mean", record.summary.receiver_states.0);
        told = true;
    }
    if !told {
        return;
    }
    let [better, worse, none] = CHOSEN.map(|share| share * 100.0);
    for (name, share) in [("finest", better), ("coarsest", worse), ("none", none)] {
        report.add(TITLE, "Salsify (paper)", name, "%", share);
    }
    for (name, count) in ["sender's states", "receiver's states"].into_iter().zip(STATES) {
        report.add(TITLE, "Salsify (paper)", name, "mean", f64::from(count));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn what_is_asked_is_of_figures_that_are_there() {
        for (key, _) in DELAYS {
            let figure = FIGURES.iter().find(|figure| figure.key == key).unwrap();
            assert!(figure.is_comparable, "{key}");
        }
    }

    #[test]
    fn runs_of_a_figure_have_names_of_their_own() {
        for figure in FIGURES {
            let names: BTreeSet<String> =
                figure.cases.iter().filter_map(|name| Case::named(name)).map(who).collect();
            assert_eq!(names.len(), figure.cases.len(), "{}", figure.key);
            assert!(names.iter().all(|name| name.split(' ').next() == Some("glassline")), "{names:?}");
        }
    }
}
