//! What was measured, as a table, JSON and a picture.

use crate::layout::{clean, facts, grid, warnings};
use crate::output;
use crate::picture_file;
use crate::probe::glass::nothing_seen;
use anyhow::{Context, Result};
use glassline_inspect::Distribution;
use glassline_inspect::report::budget::{self, Budget, Part};
use glassline_inspect::transport_stream::WallClock;
use glassline_io::clock::Clock;
use glassline_lab::glass::{Proof, Seen, Sights, age_ms};
use glassline_media::Stage;
use serde::Serialize;
use std::path::Path;

/// The version of the JSON.
pub(super) const SCHEMA: u32 = 1;

/// The measured source.
#[derive(Clone, Copy, Debug)]
pub(super) struct Opened<'a> {
    /// As it was named on the command line.
    pub(super) source: &'a str,
    /// "glassline", "ffmpeg" or "chromium".
    pub(super) by: &'static str,
    /// Access units that went to the decoder, if Glassline and not FFmpeg opened the stream.
    pub(super) units: Option<u64>,
}

/// The report, which serialises as what `--json` writes.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Measured {
    schema: u32,
    source: String,
    opened_by: &'static str,
    units: Option<u64>,
    #[serde(flatten)]
    seen: Seen,
    clock: &'static str,
    clock_offset_ms: f64,
    clock_uncertainty_ms: Option<f64>,
    proof: Option<Proof>,
    warnings: Vec<String>,
    #[serde(skip)]
    ages_ms: Vec<f64>,
}

impl Measured {
    /// Fails with advice if no barcode was read.
    pub(super) fn new(
        opened: Opened<'_>,
        clock: WallClock,
        sights: Sights,
        proof: Option<Proof>,
        complaints: &[String],
        mut warnings: Vec<String>,
    ) -> Result<Measured> {
        let seen =
            sights.figures().ok_or_else(|| nothing_seen(sights.pictures(), sights.unread(), complaints))?;
        if seen.age_ms.min < 0.0 {
            warnings.push(
                "Pictures come from the future: the barcodes' clock and this machine's disagree.".into(),
            );
        }
        if let Some(proof) = &proof {
            warnings.extend(proof.notes());
        }
        if let Some(first) = complaints.first() {
            warnings.push(format!("FFmpeg complains ({} lines); first: {}", complaints.len(), clean(first)));
        }
        Ok(Measured {
            schema: SCHEMA,
            source: opened.source.to_owned(),
            opened_by: opened.by,
            units: opened.units,
            seen,
            clock: clock.whose,
            clock_offset_ms: age_ms(clock.utc, Clock.utc_at(clock.at)),
            clock_uncertainty_ms: clock.uncertainty_ms,
            proof,
            warnings,
            ages_ms: sights.ages_ms().collect(),
        })
    }

    /// Draws and prints it.
    pub(super) fn tell(&self, as_json: bool, svg: Option<&Path>) -> Result<()> {
        if let Some(path) = svg {
            picture_file::write(path, &self.drawn())?;
        }
        if as_json {
            let json = serde_json::to_string_pretty(self).context("cannot write JSON")?;
            return output::print(&(json + "\n"));
        }
        output::print(&self.table())
    }

    /// The clock that ages are measured by, and its uncertainty.
    fn clock(&self) -> String {
        match self.clock_uncertainty_ms {
            Some(ms) => {
                format!("the server's, {:+.1} ms from this machine's (± {ms:.2} ms)", self.clock_offset_ms)
            }
            None => "this machine's".to_owned(),
        }
    }

    fn table(&self) -> String {
        let seen = &self.seen;
        let limit = seen.late_after_ms.map_or(String::new(), |limit| format!(" (older than {limit:.1} ms)"));
        let mut lines = vec![
            ("Opened by", self.opened_by.to_owned()),
            (
                if self.opened_by == "chromium" { "Pictures shown" } else { "Pictures decoded" },
                format!("{}, {} of them looked at", seen.pictures, seen.age_ms.count),
            ),
            ("Missing", seen.missing.to_string()),
            ("Late", format!("{}{limit}", seen.late)),
            ("Without barcode", seen.unread.to_string()),
            ("Torn", seen.torn.to_string()),
            ("Clock", self.clock()),
        ];
        if let Some(units) = self.units {
            lines.insert(1, ("Access units received", units.to_string()));
        }
        let head = ["Glass to glass, ms", "min", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        if let Some(proof) = &self.proof {
            rows.extend(proof.steps.iter().map(|step| row(step.to.label(), &step.ms)));
            rows.extend(proof.sum_ms.iter().map(|all| row("sum of stages", all)));
        }
        rows.push(row("barcode to barcode", &seen.age_ms));
        if let Some(proof) = &self.proof {
            rows.extend(proof.apart_ms.iter().map(|all| row("apart, either way", all)));
        }
        let blocks = [facts(&lines), grid(&rows), self.verdict(), warnings(&self.warnings)];
        let blocks: Vec<_> = blocks.into_iter().filter(|block| !block.is_empty()).collect();
        format!("{}\n\n{}", clean(&self.source), blocks.join("\n"))
    }

    /// What the comparison says, in a sentence.
    fn verdict(&self) -> String {
        let Some((proof, apart)) = self.proof.as_ref().and_then(|proof| Some((proof, proof.apart_ms?)))
        else {
            return String::new();
        };
        format!(
            "Of {} pictures the sum of stages is {:.3} ms (median) and {:.3} ms (p99) from barcode to barcode.\n",
            proof.compared, apart.p50, apart.p99
        )
    }

    fn drawn(&self) -> String {
        let part = |from, to, all: &Distribution| Part { from, to, p50_ms: all.p50, p99_ms: all.p99 };
        let parts = self.proof.iter().flat_map(|proof| &proof.steps);
        let verdict = self.verdict();
        let about = if verdict.is_empty() {
            format!("{}, {} pictures, by {} clock", self.source, self.seen.age_ms.count, self.clock())
        } else {
            format!("{}. {}", self.source, verdict.trim_end())
        };
        budget::draw(&Budget {
            title: "From glass to glass, by barcodes".to_owned(),
            about,
            parts: parts.map(|step| part(step.from, step.to, &step.ms)).collect(),
            total: part(Stage::Captured, Stage::Decoded, &self.seen.age_ms),
            marks: Vec::new(),
            counts: self.ages_ms.iter().map(|age| (age.max(0.0), 1)).collect(),
        })
    }
}

pub(super) fn row(name: &str, all: &Distribution) -> Vec<String> {
    let cells = [all.min, all.p50, all.p95, all.p99, all.max].map(|age| format!("{age:.2}"));
    [vec![name.to_owned()], cells.to_vec()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_inspect::Samples;
    use glassline_inspect::transport_stream::StepReport;

    fn distribution(values: [f64; 2]) -> Distribution {
        values.into_iter().collect::<Samples>().distribution(|value| value).unwrap()
    }

    fn measured() -> Measured {
        let age_ms = distribution([20.0, 21.0]);
        let step = |from, to, ms| StepReport { from, to, ms: distribution([ms, ms]) };
        Measured {
            schema: SCHEMA,
            source: "udp://127.0.0.1:5000".to_owned(),
            opened_by: "glassline",
            units: Some(100),
            seen: Seen {
                pictures: 100,
                missing: 0,
                late: 1,
                late_after_ms: Some(40.0),
                unread: 0,
                torn: 0,
                age_ms,
            },
            clock: "server",
            clock_offset_ms: 30.0,
            clock_uncertainty_ms: Some(0.25),
            proof: Some(Proof {
                compared: 2,
                without_stages: 0,
                paired_by: "order",
                steps: vec![
                    step(Stage::Captured, Stage::Sent, 12.0),
                    step(Stage::Sent, Stage::Received, 3.0),
                    step(Stage::Received, Stage::Decoded, 5.5),
                ],
                sum_ms: Some(age_ms),
                barcode_ms: Some(age_ms),
                difference_ms: Some(distribution([0.0, 0.0])),
                apart_ms: Some(distribution([0.001, 0.002])),
                from_the_future: 0,
                future_ms_max: None,
            }),
            warnings: vec!["One.".to_owned()],
            ages_ms: vec![20.0, 21.0],
        }
    }

    #[test]
    fn every_key_of_the_json_is_documented() {
        let manual = include_str!("../../../../docs/lab.md");
        let report = serde_json::to_value(measured()).unwrap();
        let keys = report.as_object().unwrap().keys().chain(report["proof"].as_object().unwrap().keys());
        for key in keys {
            assert!(manual.contains(&format!("`{key}`")), "docs/lab.md lacks {key}");
        }
    }

    #[test]
    fn the_table_and_the_picture_tell_stages_sum_and_barcode() {
        let text = measured().table();
        for part in [
            "received",
            "sum of stages",
            "barcode to barcode",
            "apart, either way",
            "+30.0 ms",
            "p99",
            "- One.",
        ] {
            assert!(text.contains(part), "{part} is not in {text}");
        }
        let svg = measured().drawn();
        assert!(svg.contains("From glass to glass") && svg.contains("captured to decoded"), "{svg}");
        let plain = Measured { proof: None, units: None, clock_uncertainty_ms: None, ..measured() };
        let text = plain.table();
        assert!(!text.contains("sum of stages") && text.contains("this machine's"), "{text}");
        assert!(
            plain.drawn().contains("this machine&apos;s clock")
                || plain.drawn().contains("this machine's clock")
        );
    }
}
