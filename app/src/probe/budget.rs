//! `probe --budget`: where the milliseconds went from capture to here, as a part of the report and as a picture.

use crate::failure;
use crate::layout::grid;
use crate::picture_file;
use anyhow::Result;
use glassline_inspect::Distribution;
use glassline_inspect::report::budget::{self, Budget, Part};
use glassline_inspect::report::svg::wrap;
use glassline_inspect::transport_stream::BudgetReport;
use glassline_media::Stage;
use std::path::{Path, PathBuf};

/// Columns of the table that sentences fill.
const TEXT_COLUMNS: usize = 110;

/// What is asked for.
#[derive(Clone, Debug, clap::Args)]
#[group(skip)]
pub(super) struct Options {
    /// Show the latency of each stage from capture to here and, if a file is named, draw it. Needs a URL of a stream
    /// with stage times in it, as glassline encode writes them. The first second is not counted
    #[arg(long, value_name = "FILE.svg", num_args = 0..=1, value_parser = picture_file::parse, conflicts_with = "glass")]
    budget: Option<Option<PathBuf>>,
}

impl Options {
    /// Whether it is asked for at all.
    pub(super) fn is_wanted(&self) -> bool {
        self.budget.is_some()
    }

    fn picture(&self) -> Option<&Path> {
        self.budget.as_ref()?.as_deref()
    }

    /// Fails where `target` has no times, or the picture could not be written: before anyone waits.
    pub(super) fn check(&self, target: &str) -> Result<()> {
        if self.is_wanted() && !target.contains("://") {
            return Err(failure::usage(
                format!("--budget: {target} is not live, and what is recorded has no time of arrival"),
                "name a udp:// or http:// URL",
            ));
        }
        self.picture().map_or(Ok(()), picture_file::check)
    }

    /// Draws the picture, if one is wanted and something is known.
    pub(super) fn write_picture(&self, report: &BudgetReport, source: &str) -> Result<()> {
        let Some(path) = self.picture() else { return Ok(()) };
        match drawn(report, source) {
            Some(svg) => picture_file::write(path, &svg),
            None => {
                tracing::warn!("{} is not written: there is nothing to draw", path.display());
                Ok(())
            }
        }
    }
}

fn part(from: Stage, to: Stage, all: &Distribution) -> Part {
    Part { from, to, p50_ms: all.p50, p99_ms: all.p99 }
}

fn drawn(report: &BudgetReport, source: &str) -> Option<String> {
    let total = report.total_ms?;
    let first = report.first_packet_ms.map(|all| part(Stage::Queued, Stage::FirstSent, &all));
    Some(budget::draw(&Budget {
        title: "Latency budget from capture to here".to_owned(),
        about: format!("{source}, {} pictures, by {}", total.count, clocks(report)),
        parts: report.steps.iter().map(|step| part(step.from, step.to, &step.ms)).collect(),
        total: part(Stage::Captured, Stage::Received, &total),
        marks: first.into_iter().collect(),
        counts: report.totals_ms.iter().map(|total| (*total, 1)).collect(),
    }))
}

/// The clock for times between two machines, and its uncertainty.
fn clocks(report: &BudgetReport) -> String {
    match (report.clock, report.clock_uncertainty_ms) {
        ("server", Some(ms)) => format!("the server's clock (± {ms:.2} ms)"),
        _ => "this machine's clock".to_owned(),
    }
}

/// The table's part.
pub(super) fn table(report: &BudgetReport) -> String {
    let row = |name: String, all: &Distribution| {
        let figures = [all.p50, all.p99, all.max].map(|figure| format!("{figure:.2}"));
        [vec![name], figures.to_vec()].concat()
    };
    let head = ["Latency budget, ms", "p50", "p99", "max"].map(str::to_owned).to_vec();
    let mut rows = vec![head];
    rows.extend(report.steps.iter().map(|step| row(step.to.label().to_owned(), &step.ms)));
    rows.extend(report.total_ms.iter().map(|all| row("captured to received".to_owned(), all)));
    rows.extend(report.first_packet_ms.iter().map(|all| row("queued to first packet".to_owned(), all)));
    let mut out = if rows.len() > 1 { grid(&rows) } else { "  Latency budget\n".to_owned() };
    let mut sentences = report.notes.clone();
    if !report.steps.is_empty() {
        sentences.insert(
            0,
            format!(
                "Each counts from the one before it. What lies between the sender and here goes by {}; {}.",
                clocks(report),
                sender(report)
            ),
        );
    }
    for line in sentences.iter().flat_map(|sentence| wrap(sentence, TEXT_COLUMNS)) {
        out.push_str(&format!("  {line}\n"));
    }
    out
}

fn sender(report: &BudgetReport) -> String {
    match (report.sender_clock, report.sender_clock_uncertainty_ms) {
        (_, Some(ms)) => format!("the sender's is right to ± {ms:.2} ms by its own estimate"),
        ("unsynchronised", None) => "the sender's runs free".to_owned(),
        _ => "of its own the sender says nothing".to_owned(),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use glassline_inspect::Samples;
    use glassline_inspect::transport_stream::StepReport;

    /// Three stages of a sender's, and the way to here.
    pub(crate) fn report() -> BudgetReport {
        let all = |value: f64| [value, value].into_iter().collect::<Samples>().distribution(|ms| ms).unwrap();
        let step = |from, to, ms| StepReport { from, to, ms: all(ms) };
        BudgetReport {
            pictures: 3,
            with_capture_time: 3,
            with_stages: 2,
            with_relay: 0,
            steps: vec![
                step(Stage::Captured, Stage::Queued, 0.5),
                step(Stage::Queued, Stage::Encoded, 8.0),
                step(Stage::Encoded, Stage::Sent, 0.25),
                step(Stage::Sent, Stage::Received, 1.25),
            ],
            total_ms: Some(all(10.0)),
            first_packet_ms: Some(all(2.0)),
            from_the_future: 0,
            future_ms_max: None,
            clock: "server",
            clock_uncertainty_ms: Some(0.25),
            sender_clock: "synchronised",
            sender_clock_uncertainty_ms: Some(1.024),
            notes: vec!["One.".to_owned()],
            totals_ms: vec![10.0, 10.0],
        }
    }

    #[test]
    fn the_table_has_each_stage_the_whole_way_and_the_clocks() {
        let text = table(&report());
        // Lines break between words.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        for part in ["last slice out", "8.00", "captured to received", "± 0.25 ms", "± 1.02 ms", "One."] {
            assert!(words.contains(part), "{part} is not in {text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn what_is_unknown_is_told_and_not_drawn() {
        let unknown = BudgetReport {
            steps: Vec::new(),
            total_ms: None,
            first_packet_ms: None,
            notes: vec!["Unknown: no picture says when it was captured.".to_owned()],
            ..report()
        };
        let text = table(&unknown);
        assert!(text.contains("Unknown:") && !text.contains("p50"), "{text}");
        assert!(drawn(&unknown, "here").is_none());
        let svg = drawn(&report(), "here").unwrap();
        assert!(svg.contains("captured to received") && svg.contains("queued to first packet"), "{svg}");
    }

    #[test]
    fn a_file_has_no_budget() {
        let error = Options { budget: Some(None) }.check("a.ts").unwrap_err().to_string();
        assert!(error.contains("not live"), "{error}");
        Options { budget: None }.check("a.ts").unwrap();
    }
}
