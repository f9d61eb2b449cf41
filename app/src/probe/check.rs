//! `--check`: the rules of MPEG transport streams that the stream keeps or breaks, as people read it.

use crate::failure;
use crate::layout::grid;
use anyhow::Result;
use glassline_inspect::transport_stream::{CheckReport, RuleReport};
use glassline_media::container::ts::conformance::Rule;

/// An error where a rule is broken, so that scripts see it.
pub(super) fn verdict(report: &CheckReport) -> Result<()> {
    match report.rules_broken {
        0 => Ok(()),
        1 => Err(failure::failed("one rule is broken", "see the report")),
        count => Err(failure::failed(format!("{count} rules are broken"), "see the report")),
    }
}

/// The verdicts as people read them.
pub(super) fn table(report: &CheckReport) -> String {
    let head =
        ["Rules", "", "worst", "limit", "broken", "of", "first at packet", "clause"].map(str::to_owned);
    let mut rows = vec![head.to_vec()];
    rows.extend(report.rules.iter().map(row));
    let mut out = grid(&rows);
    if report.constant_rate != Some(true) {
        out.push_str(
            "  The rate is not constant: its clock cannot be held against the position of its bytes.\n",
        );
    }
    if report.buffers.units_decoded == 0 {
        out.push_str("  No H.264 with a known level: its buffers are not looked at.\n");
    }
    out
}

fn row(RuleReport { verdict, unit, clause }: &RuleReport) -> Vec<String> {
    let figure = |value: f64| match *unit {
        "" => String::new(),
        "bytes" | "ns" => format!("{value:.0} {unit}"),
        _ => format!("{value:.2} {unit}"),
    };
    let mark = match (verdict.checked, verdict.broken) {
        (0, 0) => "–",
        (_, 0) => "kept",
        _ => "BROKEN",
    };
    let has_limit = !unit.is_empty() && verdict.rule != Rule::ClockJump;
    vec![
        verdict.rule.words().to_owned(),
        mark.to_owned(),
        verdict.worst.map(figure).unwrap_or_default(),
        if has_limit { figure(verdict.limit) } else { String::new() },
        verdict.broken.to_string(),
        verdict.checked.to_string(),
        verdict.first_packet.map(|packet| packet.to_string()).unwrap_or_default(),
        (*clause).to_owned(),
    ]
}
