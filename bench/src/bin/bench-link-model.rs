//! The figures that tests of the link tell in virtual time, out of what they print: `cargo test … -- --nocapture |
//! bench-link-model`.
//!
//! ```text
//! figure: CASE | WHO | METRIC | UNIT | VALUE
//! ```
//! Chance has seeds there and no time passes: the same code gives the same figures on each machine, whatever else it does.
//! A run is a seed, or another time at which something begins.

use anyhow::{Context, Result, ensure};
use clap::Parser;
use glassline_bench::report::Report;
use std::path::PathBuf;

/// Gathers the figures that the link's tests print
#[derive(Debug, Parser)]
struct Args {
    /// Folder for link-model.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// A line's figure.
#[derive(Debug, PartialEq)]
struct Figure<'a> {
    case: &'a str,
    who: &'a str,
    metric: &'a str,
    unit: &'a str,
    value: f64,
}

/// The figure that a line tells, which may stand behind the name of the test; `None` where it tells none.
fn parse(line: &str) -> Option<Result<Figure<'_>>> {
    let (_, told) = line.split_once("figure: ")?;
    let fields: Vec<&str> = told.split('|').map(str::trim).collect();
    let figure = match fields[..] {
        [case, who, metric, unit, value] => {
            value.parse().ok().map(|value| Figure { case, who, metric, unit, value })
        }
        _ => None,
    };
    Some(figure.with_context(|| format!("a figure is CASE | WHO | METRIC | UNIT | VALUE, and not {told:?}")))
}

fn main() -> Result<()> {
    let args = Args::parse();
    let mut report = Report::new("link-model");
    report.how("virtual time: a run is a seed");
    let mut count = 0;
    for line in std::io::stdin().lines() {
        let line = line.context("what the tests print")?;
        let Some(figure) = parse(&line) else { continue };
        let Figure { case, who, metric, unit, value } = figure?;
        // They live as long as this program, which reads some dozens of them.
        let (metric, unit): (&'static str, &'static str) = (metric.to_owned().leak(), unit.to_owned().leak());
        report.add(case, who, metric, unit, value);
        count += 1;
    }
    ensure!(count > 0, "the tests tell no figure");
    report.finish(&args.out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_found_behind_the_name_of_a_test() {
        let line = "test a_name ... figure: a link, 40 % | ours |  delay p50 | ms | 12.5";
        let figure =
            Figure { case: "a link, 40 %", who: "ours", metric: "delay p50", unit: "ms", value: 12.5 };
        assert_eq!(parse(line).unwrap().unwrap(), figure);
        assert!(parse("figure: a | b | c | ms | many").unwrap().is_err());
        assert!(parse("figure: a | b").unwrap().is_err());
        assert!(parse("test a_name ... ok").is_none());
    }
}
