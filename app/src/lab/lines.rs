//! What is told of an experiment's lines, in virtual and in real time: a row for each of several, and a drawing.

use glassline_lab::experiment::{LineSummary, Outcome, Summary};
use glassline_lab::report::link as picture;
use glassline_studio::capture::Input;
use std::path::Path;

pub(super) fn percent(share: f64) -> String {
    format!("{:.1} %", share * 100.0)
}

/// One of several lines.
fn row(number: usize, line: &LineSummary) -> String {
    format!(
        "{:<31}{:.2} Mbit/s, {} of what it carries; queue p50 {:.1}  p95 {:.1} ms; {} packets lost\n",
        format!("line {number}"),
        line.bits_per_s / 1e6,
        line.used.map_or_else(|| "an unknown share".to_owned(), percent),
        line.queue_p50_ms,
        line.queue_p95_ms,
        line.dropped_packets,
    )
}

/// A row for each line; nothing of a single one, of which the other figures are.
pub(super) fn rows(summary: &Summary) -> String {
    (1..).zip(&summary.lines).map(|(number, line)| row(number, line)).collect()
}

/// What each line has carried over time, as an SVG file. `names` has a name for each line's capacity in the direction of the
/// video, `when` says which time is drawn.
pub(super) fn drawing(
    input: &Input,
    names: &[String],
    when: &str,
    outcome: &Outcome,
    summary: &Summary,
) -> String {
    let headings: Vec<String> =
        (1..).zip(names).map(|(number, name)| format!("Line {number}: {name}")).collect();
    let directions = outcome.lines.iter().map(|line| &line.direction);
    let ways: Vec<_> = headings.iter().map(String::as_str).zip(directions).collect();
    let file = input.path().and_then(Path::file_name);
    let name = file.map_or_else(|| "Video".to_owned(), |name| name.to_string_lossy().into_owned());
    let title = match ways.len() {
        1 => format!("{name} over one line"),
        several => format!("{name} over {several} lines"),
    };
    let about = format!("The direction of the video, from {when}.");
    let verdict = format!(
        "{:.2} Mbit/s of video; {} of {} pictures shown, delay p50 {:.0}, p95 {:.0} ms.",
        summary.bits_per_s / 1e6,
        summary.shown,
        summary.pictures,
        summary.delay_p50_ms,
        summary.delay_p95_ms
    );
    picture::draw_ways(&title, &about, &verdict, &ways)
}
