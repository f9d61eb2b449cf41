//! `glassline lab experiment --paper`: the experiments of Salsify's paper, one after another, each into a file of its own.

use super::{open, run_shown, tell, threads};
use crate::failure;
use crate::lab::link::quantity::read_trace;
use anyhow::{Context, Result};
use glassline_call::direct::SenderSettings;
use glassline_lab::clip;
use glassline_lab::experiment::paper::{CASES, Case, FIGURES, Options};
use glassline_lab::experiment::{Record, Settings, Summary};
use glassline_studio::capture::Input;
use glassline_transport::emulator::Trace;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// What is asked beside the options that one experiment has too.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "The experiments of Salsify's paper")]
pub(super) struct Request {
    /// Run the paper's experiments one after another, with its networks and senders. Experiments with results in DIR
    /// are not run again. Traces, and the video if none is named, come from the shared test data (GLASSLINE_SHARED,
    /// or ../shared)
    #[arg(
        long,
        requires = "results",
        conflicts_with_all = [
            "up", "down", "from", "delay", "queue", "loss", "reorder", "outage", "candidates", "bitrate", "audio_bitrate", "fec",
            "controller", "probing", "conventional", "codec", "cost", "slots", "decisions", "json",
        ]
    )]
    paper: bool,
    /// The folder for the results, NAME.json for each experiment; `glassline lab report DIR` makes a page of them
    #[arg(long, value_name = "DIR", requires = "paper")]
    results: Option<PathBuf>,
    /// Only these: one run (att-2c), or all runs of a network (verizon, att, umts, intermittent, wifi)
    #[arg(long, value_name = "NAME,...", value_delimiter = ',', requires = "paper")]
    only: Vec<String>,
}

impl Request {
    pub(super) fn is_asked_for(&self) -> bool {
        self.paper
    }
}

/// Runs what is not there yet.
pub(super) fn run(args: &super::Args) -> Result<()> {
    let Some(results) = &args.paper.results else {
        return Err(failure::usage("there is no folder for the results", "name one: --results DIR"));
    };
    let cases = chosen(&args.paper.only)?;
    std::fs::create_dir_all(results).with_context(|| format!("cannot make {}", results.display()))?;
    let traces = traces(&cases)?;
    let (input, video) = match &args.input {
        Some(input) => (input.clone(), name(input)),
        None => (Input::File(clip::people_720p30(&clip::shared(), results)?), clip::NAME.to_owned()),
    };
    let (threads, mut done) = (threads()?, 0);
    for (index, case) in cases.iter().enumerate() {
        let mut pictures = open(&input)?;
        let format = pictures.format();
        let options = Options {
            rate: format.rate,
            longest: args.duration,
            seed: args.seed,
            speed: args.speed.unwrap_or(SenderSettings::DEFAULT_SPEED),
        };
        let setup = case.setup(&traces, &options);
        let version = env!("CARGO_PKG_VERSION");
        let settings = Settings::new(case, &setup, &options, (&video, format.size), version);
        let file = results.join(case.name).with_extension("json");
        let place = format!("{} ({} of {})", case.name, index + 1, cases.len());
        if let Some(record) = read(&file).filter(|record| record.settings == settings) {
            tell(&format!("{place}: is there already; {}\n", figures(&record.summary)));
            continue;
        }
        tell(&format!("{place}: {:.0} s of video over {}\n", setup.duration.as_secs_f64(), case.network));
        let begun = Instant::now();
        let outcome = run_shown(&setup, &mut pictures, &threads, &format!("{place}: "))?;
        let record = Record::new(case, settings, &setup, &outcome);
        write(&file, &record)?;
        done += 1;
        let took = begun.elapsed().as_secs_f64();
        tell(&format!("{place}: {}; took {took:.0} s\n", figures(&record.summary)));
    }
    let folder = results.display();
    tell(&format!("{done} were run, {} are in {folder}: glassline lab report {folder}\n", cases.len()));
    Ok(())
}

/// The cases that are asked for, in their order.
fn chosen(only: &[String]) -> Result<Vec<&'static Case>> {
    let mut names: Vec<&str> = Vec::new();
    for asked in only {
        let figure = FIGURES.iter().find(|figure| figure.key == asked);
        match (Case::named(asked), figure) {
            (Some(case), _) => names.push(case.name),
            (None, Some(figure)) => names.extend(figure.cases),
            (None, None) => {
                let all: Vec<&str> = CASES.iter().map(|case| case.name).collect();
                return Err(failure::usage(
                    format!("there is no experiment {asked:?}"),
                    format!("there are {}", all.join(", ")),
                ));
            }
        }
    }
    Ok(CASES.iter().filter(|case| only.is_empty() || names.contains(&case.name)).collect())
}

/// The traces of all these, by their names.
fn traces(cases: &[&Case]) -> Result<BTreeMap<String, Arc<Trace>>> {
    let folder = clip::shared().join("traces");
    let mut traces = BTreeMap::new();
    for name in cases.iter().flat_map(|case| case.traces()) {
        if !traces.contains_key(name) {
            let trace = read_trace(&folder.join(name).to_string_lossy()).map_err(|error| {
                failure::usage(error, "GLASSLINE_SHARED names the folder of the shared test data")
            })?;
            traces.insert(name.to_owned(), Arc::new(trace));
        }
    }
    Ok(traces)
}

/// A video's name in the results, without the folder that it is in.
fn name(input: &Input) -> String {
    match (input, input.path().and_then(Path::file_name)) {
        (_, Some(name)) => name.to_string_lossy().into_owned(),
        (Input::Test { .. }, None) => "test pattern".to_owned(),
        (_, None) => "video".to_owned(),
    }
}

/// What is there; none where it is not whole, or of another kind.
fn read(file: &Path) -> Option<Record> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}

/// Writes a result that is whole whenever it is there.
fn write(file: &Path, record: &Record) -> Result<()> {
    let part = file.with_extension("part");
    let text = serde_json::to_string(record).context("the result does not fit into JSON")?;
    std::fs::write(&part, text + "\n")
        .and_then(|()| std::fs::rename(&part, file))
        .with_context(|| format!("cannot write {}", file.display()))
}

fn figures(summary: &Summary) -> String {
    let quality =
        summary.ssim_daala_db.map_or_else(|| "nothing shown".to_owned(), |db| format!("{db:.1} dB"));
    format!("delay p95 {:.0} ms, {quality} (Daala)", summary.delay_p95_ms)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_chosen_by_their_name_or_by_their_network() {
        let names = |only: &[&str]| -> Vec<&str> {
            let only: Vec<String> = only.iter().map(|name| (*name).to_owned()).collect();
            chosen(&only).unwrap().iter().map(|case| case.name).collect()
        };
        assert_eq!(names(&[]).len(), CASES.len());
        assert_eq!(names(&["wifi-2c", "att"]), ["wifi-2c", "att-1c", "att-2c"]);
        assert_eq!(names(&["outage"]), ["outage"]);
        let error = chosen(&["sprint".to_owned()]).unwrap_err().to_string();
        assert!(error.contains("sprint") && error.contains("att-2c"), "{error}");
    }
}
