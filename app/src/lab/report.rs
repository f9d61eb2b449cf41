//! `glassline lab report`: a page of the results of `lab experiment --paper`.

use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_lab::experiment::Record;
use glassline_lab::experiment::paper::CASES;
use glassline_lab::report::experiment;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  glassline lab report experiment                    experiment/report.html
  glassline lab report experiment page.html
  glassline lab report experiment - > page.html

The page is a single file: delay against quality on the paper's axes, with the paper's own points; delays; parts
of the runs over time; what was chosen, and states held. Results that do not exist yet are left out.

Exit status: 0 success, 1 if there is no result, 2 wrong usage.";

/// Make an HTML page of the results of `lab experiment --paper`
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The folder that `lab experiment --paper --results` was given
    #[arg(value_name = "DIR")]
    results: PathBuf,
    /// The page; - for standard output [default: DIR/report.html]
    #[arg(value_name = "OUT.html")]
    out: Option<PathBuf>,
}

/// Reads what is there and writes the page.
pub(super) fn run(args: &Args) -> Result<()> {
    let mut records: Vec<Record> = Vec::new();
    for case in CASES {
        let file = args.results.join(case.name).with_extension("json");
        let Ok(text) = std::fs::read(&file) else { continue };
        let record = serde_json::from_slice(&text).map_err(|error| {
            let advice = "remove it, and run the experiment again";
            failure::failed(format!("{} is no result: {error}", file.display()), advice)
        })?;
        records.push(record);
    }
    let folder = args.results.display();
    if records.is_empty() {
        return Err(failure::failed(
            format!("there is no result in {folder}"),
            format!("glassline lab experiment --paper --results {folder} measures for hours"),
        ));
    }
    let page = experiment::page(&records);
    let out = args.out.clone().unwrap_or_else(|| args.results.join("report.html"));
    if out.as_os_str() == "-" {
        return output::print(&page);
    }
    std::fs::write(&out, page).with_context(|| format!("cannot write {}", out.display()))?;
    output::print_to_stderr(&format!(
        "{}: {} of {} experiments\n",
        out.display(),
        records.len(),
        CASES.len()
    ));
    Ok(())
}
