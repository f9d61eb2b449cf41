//! What `encode` tells of a run: a line each second, a summary, a table, JSON, a picture.

use super::{Args, budget};
use crate::output;
use anyhow::{Context, Result};
use glassline_studio::encode::{Controls, Encoding, Line, Progress, Report, Stats};
use glassline_studio::output::{Status, StatusHandle};
use serde::Serialize;
use std::fmt::Write as _;
use std::io::IsTerminal;

/// Has a line tell each second how it goes, where standard error is a terminal.
pub(super) fn show_progress(encoding: &mut Encoding) {
    if std::io::stderr().is_terminal() {
        encoding.report_progress(|progress| output::show_progress(&line(progress)));
    }
}

fn line(progress: &Progress) -> String {
    let Progress { x264_ms, first_packet_ms, last_packet_ms, dropped, .. } = progress;
    format!(
        "{} s  {:.1} pictures/s  {:.2} Mbit/s  x264 {x264_ms:.2} ms  first packet {first_packet_ms:.2} ms  \
         last {last_packet_ms:.2} ms  dropped {dropped}",
        progress.elapsed.as_secs(),
        progress.pictures_per_second,
        progress.bitrate.bits_per_second() as f64 / 1e6,
    )
}

/// What is written of a rendition as JSON.
#[derive(Serialize)]
struct Written<'a> {
    #[serde(flatten)]
    report: Report<'a>,
    outputs: Vec<Status>,
}

/// Tells how the run went, as the arguments have it. `outputs` are those of each rendition.
pub(super) fn print_at_end(
    args: &Args,
    controls: &Controls,
    all: &[Stats],
    outputs: &[Vec<StatusHandle>],
) -> Result<()> {
    if args.stats && std::io::stderr().is_terminal() {
        // Leaves the line of the progress, so that what follows has lines of its own.
        output::print_to_stderr("\n");
    }
    // Nothing was coded: the error says why, and zeros would stand in front of it.
    if all.iter().all(|stats| stats.pictures() == 0 && stats.stream_bytes() == 0) {
        return Ok(());
    }
    let mut budgets = Vec::new();
    for ((stats, status), outputs) in all.iter().zip(controls.status()).zip(outputs) {
        let outputs: Vec<Status> = outputs.iter().map(StatusHandle::get).collect();
        let which = if all.len() > 1 { format!("{}: ", status.name) } else { String::new() };
        tracing::info!("{which}{}", summary(stats));
        for gaps in outputs.iter().filter_map(gaps) {
            tracing::warn!("{gaps}");
        }
        if args.json {
            let written = Written { report: stats.report(&status.name), outputs };
            let json = serde_json::to_string(&written).context("cannot write JSON")?;
            output::print(&format!("{json}\n"))?;
        } else if args.stats {
            output::print_aside(&format!("{which}{}", table(stats)))?;
        }
        let steps = match stats.preset_steps() {
            0 => String::new(),
            steps => format!(" at the end, changed {steps} times"),
        };
        budgets.push(budget::draw(stats, &format!("{}, preset {}{steps}", status.name, status.preset)));
    }
    args.budget.as_ref().map_or(Ok(()), |path| budget::write(path, &budgets))
}

/// One line on the whole run.
fn summary(stats: &Stats) -> String {
    let steps = match stats.preset_steps() {
        0 => String::new(),
        steps => format!(", the preset changed {steps} times"),
    };
    format!(
        "{} pictures in {:.1} s, {} dropped{steps}; {:.1} MB of transport stream, {:.1} MB of it coded pictures",
        stats.pictures(),
        stats.duration().as_secs_f64(),
        stats.dropped(),
        stats.stream_bytes() as f64 / 1e6,
        stats.coded_bytes() as f64 / 1e6
    )
}

/// What is missing at a server to which the connection was lost.
fn gaps(output: &Status) -> Option<String> {
    let Status { output, left_out, resumed, missing_s, .. } = output;
    if *resumed == 0 && *missing_s == 0.0 {
        return None;
    }
    let gone_on = match resumed {
        0 => "it has not gone on".to_owned(),
        1 => "it has gone on once".to_owned(),
        times => format!("it has gone on {times} times"),
    };
    Some(format!(
        "{output}: {missing_s:.2} s of the stream are missing there; {gone_on}; {left_out} parts of it were left out"
    ))
}

/// Each stage with median, 99th percentile and maximum in milliseconds.
fn table(stats: &Stats) -> String {
    let mut table = format!("{:<44}{:>9}{:>9}{:>9}\n", "milliseconds", "p50", "p99", "max");
    for row in stats.rows() {
        let Line { p50, p99, max, .. } = stats.line(row);
        let _ = writeln!(table, "{:<46}{p50:>7.3}{p99:>9.3}{max:>9.3}", row.name());
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::quantity::Bitrate;
    use glassline_studio::output::State;
    use std::time::Duration;

    #[test]
    fn what_is_missing_at_a_server_is_told_where_something_is() {
        let status = |resumed, missing_s| Status {
            output: "http://a/live/x.ts,http://b/live/x.ts".to_owned(),
            state: State::Sending,
            bytes: 1,
            left_out: 7,
            server: None,
            resumed,
            missing_s,
        };
        assert_eq!(gaps(&status(0, 0.0)), None, "what was left out before the first connection is no gap");
        let told = gaps(&status(2, 1.234)).unwrap();
        let expected = "1.23 s of the stream are missing there; it has gone on 2 times; 7 parts";
        assert!(told.contains(expected), "{told}");
        assert!(gaps(&status(0, 0.5)).unwrap().contains("it has not gone on"));
    }

    #[test]
    fn the_line_has_the_figures_of_the_last_second() {
        let progress = Progress {
            elapsed: Duration::from_millis(12_345),
            pictures_per_second: 49.98,
            bitrate: Bitrate::from_bits_per_second(5_123_000),
            x264_ms: 3.456,
            first_packet_ms: 2.0,
            last_packet_ms: 4.0,
            dropped: 7,
        };
        let expected =
            "12 s  50.0 pictures/s  5.12 Mbit/s  x264 3.46 ms  first packet 2.00 ms  last 4.00 ms  dropped 7";
        assert_eq!(line(&progress), expected);
    }
}
