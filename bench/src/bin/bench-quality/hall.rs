//! First and last packet of a version without delay, 720p25, alone and beside one with a look-ahead.

use anyhow::{Context, Result, ensure};
use glassline_bench::machine;
use glassline_bench::report::Report;
use serde_json::Value;
use std::process::{Command, Stdio};

const HALL: &str = "1280x720@25:5M;preset=superfast";
const OUTSIDE: &str = "1280x720@25:2M;preset=medium;look-ahead=1s";
const CASE: &str = "the hall's version, 720p25";
const METRICS: [(&str, &str); 4] = [
    ("first packet, p50", "first_packet_after_queued"),
    ("last packet, p50", "last_packet_after_queued"),
    ("first packet, p99", "first_packet_after_queued"),
    ("last packet, p99", "last_packet_after_queued"),
];

pub(crate) fn measure(runs: u32, report: &mut Report) -> Result<()> {
    for _ in 0..runs {
        for (who, renditions) in [("glassline alone", &[HALL][..]), ("glassline beside it", &[HALL, OUTSIDE])]
        {
            let tables = run(renditions)?;
            let hall = &tables[0];
            for (metric, row) in METRICS {
                let value = figure(hall, row, if metric.ends_with("p50") { "p50" } else { "p99" })?;
                report.add(CASE, who, metric, "ms", value);
            }
            let left_out = |table: &Value| table["dropped"].as_f64().unwrap_or(f64::NAN);
            report.add_context(CASE, who, "pictures left out", "", left_out(hall));
            if let Some(outside) = tables.get(1) {
                report.add_context(CASE, who, "pictures left out outside", "", left_out(outside));
            }
        }
    }
    for (metric, _) in &METRICS[..2] {
        let value = |who| report.value(CASE, who, metric).context("it was measured");
        let (alone, beside) = (value("glassline alone")?, value("glassline beside it")?);
        report.term(format!("{metric}: beside the other one to alone"), beside / alone, 1.1, true);
        report.term(format!("{metric}: later beside the other one, ms"), beside - alone, 1.0, true);
    }
    Ok(())
}

fn figure(table: &Value, row: &str, quantile: &str) -> Result<f64> {
    let rows = table["milliseconds"].as_array().context("--stats has rows")?;
    let found = rows.iter().find(|found| found["name"] == row).context("--stats has the row")?;
    found[quantile].as_f64().context("it is a number")
}

/// The tables of --stats, one for each rendition.
fn run(renditions: &[&str]) -> Result<Vec<Value>> {
    let mut command = Command::new(machine::glassline()?);
    command.args(["encode", "test:1280x720@25", "null:", "--duration", "8s", "--stats", "--json"]);
    command.args(["--keyint", "1s"]);
    for rendition in renditions {
        command.args(["--rendition", rendition]);
    }
    let output = command.stdin(Stdio::null()).output().context("cannot start glassline encode")?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let lines = String::from_utf8(output.stdout)?;
    let tables = lines.lines().map(serde_json::from_str).collect::<Result<Vec<Value>, _>>()?;
    ensure!(tables.len() == renditions.len(), "a table for each rendition: {lines}");
    Ok(tables)
}
