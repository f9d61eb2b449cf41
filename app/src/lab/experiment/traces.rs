//! `glassline lab experiment --traces DIR`: the same experiment over each trace of a folder, with one controller or several.

use super::{Args, ControllerName, clear_progress, open, run_shown, setup_of, tell, threads};
use crate::lab::link::quantity::{Speed, read_trace};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_lab::experiment::{SetFigures, SetRun, SetSummary, Setup, floor_p95, summarize};
use glassline_lab::report::experiment::set;
use glassline_transport::emulator::Service;
use serde_json::json;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What is asked beside the options that one experiment has too.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "A set of traces")]
pub(super) struct SetRequest {
    /// Run the experiment over each trace in this folder, and print a line for each, the medians and the worst figures. Of
    /// two files NAME.down and NAME.up the first is the direction of the video and the second the opposite one; any other
    /// trace is the direction of the video, with --down as the opposite one. Files that are no traces are left out
    #[arg(
        long,
        value_name = "DIR",
        conflicts_with_all = ["up", "paper", "slots", "decisions", "real_time", "peer"]
    )]
    traces: Option<PathBuf>,
    /// Run each trace with these controllers too, as --controller takes them
    #[arg(long, value_name = "WHICH,...", value_delimiter = ',', requires = "traces")]
    beside: Vec<ControllerName>,
}

impl SetRequest {
    pub(super) fn is_asked_for(&self) -> bool {
        self.traces.is_some()
    }
}

/// A network of the set.
struct Network {
    name: String,
    up: Speed,
    /// The opposite direction, where the set has it.
    down: Option<Speed>,
}

/// What a folder has.
struct Found {
    networks: Vec<Network>,
    /// Names of files that are no traces.
    left_out: Vec<String>,
}

/// Runs all of them, one after another.
pub(super) fn run(args: &Args) -> Result<()> {
    let (Some(folder), Some(input)) = (&args.set.traces, &args.input) else {
        return Err(failure::usage("there is no video", "name one, such as people.y4m"));
    };
    let Found { networks, left_out } = find(folder)?;
    if !left_out.is_empty() {
        tell(&format!("no traces, and left out: {}\n", left_out.join(", ")));
    }
    let mut controllers: Vec<&ControllerName> = vec![&args.controller];
    for controller in &args.set.beside {
        if !controllers.contains(&controller) {
            controllers.push(controller);
        }
    }
    let (threads, all) = (threads()?, networks.len() * controllers.len());
    let width = networks.iter().map(|network| network.name.chars().count()).max().unwrap_or(0).max(8);
    if !args.json {
        output::print(&heading(width, controllers.len() > 1))?;
    }
    let mut runs: Vec<SetRun> = Vec::with_capacity(all);
    for network in &networks {
        for controller in &controllers {
            let down = network.down.as_ref().unwrap_or(&args.down);
            let mut pictures = open(input)?;
            let over = args.line_of(&network.up, down);
            let mut setup = setup_of(args, &[over], pictures.format().rate)?;
            setup.controller = controller.0;
            let place = format!("{} ({} of {all}): ", network.name, runs.len() + 1);
            let outcome = run_shown(&setup, &mut pictures, &threads, &place)?;
            let summary = outcome.summary();
            let figures = SetFigures { ideal_p95_ms: ideal_p95_ms(&setup), ..SetFigures::from(&summary) };
            let run = SetRun { network: network.name.clone(), sender: controller.to_string(), figures };
            clear_progress();
            output::print(&if args.json {
                let ideal = run.figures.ideal_p95_ms;
                json!({ "network": run.network, "controller": run.sender, "ideal_p95_ms": ideal, "summary": summary })
                    .to_string()
                    + "\n"
            } else {
                line(&run.network, &run.sender, &run.figures, width, controllers.len() > 1)
            })?;
            runs.push(run);
        }
    }
    let summaries = summarize(&runs);
    output::print(&if args.json {
        json!({ "set": folder, "left_out": left_out, "controllers": summaries }).to_string() + "\n"
    } else {
        table_end(&summaries, width, controllers.len() > 1)
    })?;
    if let Some(path) = &args.svg {
        let title = folder
            .file_name()
            .map_or_else(|| folder.display().to_string(), |name| name.to_string_lossy().into());
        std::fs::write(path, set::draw(&title, &runs))
            .with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(())
}

/// The least 95th percentile of the delay that the trace allows, ms.
fn ideal_p95_ms(setup: &Setup) -> Option<f64> {
    // Of one line: with several, what a picture takes of each is the sender's choice.
    let [line] = &setup.lines[..] else { return None };
    match &line.up.service {
        Service::Trace(trace) | Service::TraceOnce(trace) => {
            let ideal = floor_p95(trace, setup.rate, setup.duration, line.up.delay);
            Some((ideal.as_secs_f64() * 1e4).round() / 10.0)
        }
        Service::Unlimited | Service::Rate(_) => None,
    }
}

/// The traces of a folder, by their names.
fn find(folder: &Path) -> Result<Found> {
    let cannot = |error: std::io::Error| {
        failure::usage(format!("{}: {error}", folder.display()), "--traces takes a folder of trace files")
    };
    let mut files = BTreeSet::new();
    let mut left_out = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(cannot)? {
        let path = entry.map_err(cannot)?.path();
        let name = path.file_name().map_or_else(String::new, |name| name.to_string_lossy().into_owned());
        // A FIFO would be waited for.
        if name.starts_with('.') || !path.is_file() {
            continue;
        }
        if begins_with_number(&path).map_err(cannot)? {
            files.insert(name);
        } else {
            left_out.push(name);
        }
    }
    left_out.sort();
    let mut networks = Vec::new();
    for name in &files {
        let partner = |from: &str, to: &str| name.strip_suffix(from).map(|stem| format!("{stem}{to}"));
        // Told with its pair.
        if partner(".up", ".down").is_some_and(|down| files.contains(&down)) {
            continue;
        }
        let up = partner(".down", ".up").filter(|up| files.contains(up));
        let stem = name.strip_suffix(".down").filter(|_| up.is_some()).unwrap_or(name);
        let down = up.map(|up| speed(folder, &up)).transpose()?;
        networks.push(Network { name: stem.to_owned(), up: speed(folder, name)?, down });
    }
    if networks.is_empty() {
        return Err(failure::usage(
            format!("{} has no trace", folder.display()),
            "a trace is a text file in Mahimahi's format, a number of milliseconds on each line",
        ));
    }
    Ok(Found { networks, left_out })
}

/// Whether a file may be a trace. One that is and has an error further on is an error, and not left out.
fn begins_with_number(path: &Path) -> std::io::Result<bool> {
    let mut first = [0; 32];
    let length = std::fs::File::open(path)?.read(&mut first)?;
    let line = first[..length].split(|byte| *byte == b'\n').next().unwrap_or_default().trim_ascii();
    Ok(!line.is_empty() && line.iter().all(u8::is_ascii_digit))
}

fn speed(folder: &Path, name: &str) -> Result<Speed> {
    let path = folder.join(name).to_string_lossy().into_owned();
    let trace = read_trace(&path)
        .map_err(|error| failure::usage(error, "take the file out of the folder, or mend it"))?;
    Ok(Speed::Trace { path, trace: Arc::new(trace) })
}

fn heading(width: usize, are_several: bool) -> String {
    let controller = if are_several { format!("{:18}", "controller") } else { String::new() };
    format!(
        "{:width$}  {controller}{:>9}{:>9}{:>11}{:>10}{:>7}{:>11}{:>8}\n",
        "trace", "p50, ms", "p95, ms", "ideal, ms", "SSIM, dB", "used", "queue, ms", "shown"
    )
}

fn line(name: &str, controller: &str, figures: &SetFigures, width: usize, are_several: bool) -> String {
    let controller = if are_several { format!("{controller:18}") } else { String::new() };
    let or_dash = |value: Option<String>| value.unwrap_or_else(|| "-".to_owned());
    let percent = |share: f64| format!("{:.0} %", share * 100.0);
    format!(
        "{name:width$}  {controller}{:>9.1}{:>9.1}{:>11}{:>10}{:>7}{:>11.1}{:>8}\n",
        figures.delay_p50_ms,
        figures.delay_p95_ms,
        or_dash(figures.ideal_p95_ms.map(|ms| format!("{ms:.1}"))),
        or_dash(figures.ssim_y_db.map(|db| format!("{db:.2}"))),
        or_dash(figures.used.map(percent)),
        figures.queue_p50_ms,
        percent(figures.shown),
    )
}

fn table_end(summaries: &[SetSummary], width: usize, are_several: bool) -> String {
    let mut text = String::new();
    for SetSummary { sender, median, worst, .. } in summaries {
        text += &line("median", sender, median, width, are_several);
        text += &line("worst", sender, worst, width, are_several);
    }
    for summary in summaries {
        // Writing to a String does not fail.
        let _ = writeln!(text, "longest delay (p95) of {}: {}", summary.sender, summary.slowest);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::program::Scratch;

    #[test]
    fn pairs_are_one_network_and_what_is_no_trace_is_left_out() {
        let scratch = Scratch::new("traces");
        for (name, text) in [
            ("lte.down", "0\n10\n"),
            ("lte.up", "5\n20\n"),
            ("alone.up", "1\n2\n"),
            ("bus", "3\n4\n"),
            ("README.md", "# Traces\n"),
            (".hidden", "1\n"),
            ("empty", ""),
        ] {
            scratch.write(name, text);
        }
        std::fs::create_dir(scratch.path().join("more")).unwrap();
        // To open it would wait for a writer.
        assert!(std::process::Command::new("mkfifo").arg(scratch.file("fifo")).status().unwrap().success());
        let found = find(scratch.path()).unwrap();
        let networks: Vec<_> =
            found.networks.iter().map(|network| (network.name.as_str(), network.down.is_some())).collect();
        assert_eq!(networks, [("alone.up", false), ("bus", false), ("lte", true)]);
        assert_eq!(found.left_out, ["README.md", "empty"]);
        // Which way is which.
        assert!(matches!(&found.networks[2].up, Speed::Trace { path, .. } if path.ends_with("lte.down")));
    }

    #[test]
    fn a_damaged_trace_and_a_folder_without_one_are_errors() {
        let scratch = Scratch::new("damaged");
        let words = |scratch: &Scratch| find(scratch.path()).err().unwrap().to_string();
        assert!(words(&scratch).contains("has no trace"));
        scratch.write("bus", "1\n2\nthree\n");
        assert!(words(&scratch).contains("bus is no trace"), "{}", words(&scratch));
        let missing = find(&scratch.path().join("missing")).err().unwrap().to_string();
        assert!(missing.contains("--traces takes a folder"), "{missing}");
    }

    #[test]
    fn lines_stand_below_their_heading() {
        let figures = SetFigures {
            delay_p50_ms: 70.0,
            delay_p95_ms: 1_234.5,
            used: Some(0.625),
            shown: 0.9,
            ..Default::default()
        };
        for several in [false, true] {
            let (heading, line) = (heading(12, several), line("taxi", "salsify", &figures, 12, several));
            assert_eq!(heading.len(), line.len(), "{heading}{line}");
            assert!(line.contains("1234.5") && line.contains("62 %") || line.contains("63 %"), "{line}");
        }
    }
}
