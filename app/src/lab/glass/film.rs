//! A film of two screens.

use crate::layout::{clean, facts, grid, warnings};
use crate::picture_file;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_inspect::Distribution;
use glassline_inspect::report::budget::{self, Budget, Part};
use glassline_lab::glass::{Decoder, Film, Filmed};
use glassline_media::Stage;
use serde::Serialize;
use std::path::Path;

/// What `--json` writes of a film.
#[derive(Clone, Debug, Serialize)]
struct Report<'a> {
    schema: u32,
    source: &'a str,
    opened_by: &'static str,
    frames: u64,
    both_read: u64,
    age_ms: Distribution,
    warnings: Vec<String>,
}

/// Looks through the film, and prints the report.
pub(super) fn run(path: &str, as_json: bool, svg: Option<&Path>) -> Result<()> {
    let (film, complaints) =
        Decoder::file(path, Film::default())?.finish().with_context(|| format!("cannot look at {path}"))?;
    let filmed = film.finish();
    let Some(age_ms) = filmed.delay_ms else { return Err(nothing(path, &filmed, &complaints)) };
    let mut warnings = Vec::new();
    if filmed.both * 2 < filmed.frames {
        warnings.push("In most frames not both barcodes can be read: a sharper, steadier film with short exposure helps.".into());
    }
    if let Some(first) = complaints.first() {
        warnings.push(format!("FFmpeg complains ({} lines); first: {}", complaints.len(), clean(first)));
    }
    let report = Report {
        schema: super::report::SCHEMA,
        source: path,
        opened_by: "film",
        frames: filmed.frames,
        both_read: filmed.both,
        age_ms,
        warnings,
    };
    if let Some(path) = svg {
        picture_file::write(path, &drawn(&report, &filmed))?;
    }
    if as_json {
        let json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        return output::print(&(json + "\n"));
    }
    output::print(&table(&report))
}

fn nothing(path: &str, filmed: &Filmed, complaints: &[String]) -> anyhow::Error {
    let advice = "film the source's screen and the viewer's together, both upright and whole, each cell of a barcode 6 samples of \
                  the film or more, with short exposure";
    match (filmed.frames, filmed.places, complaints.first()) {
        (0, _, Some(first)) => {
            failure::failed(format!("FFmpeg decodes nothing of {path}: {}", clean(first)), "name a film")
        }
        (0, ..) => failure::failed(format!("FFmpeg decodes nothing of {path}"), "name a film"),
        (frames, 0, _) => {
            failure::failed(format!("no barcode can be read in {frames} frames of {path}"), advice)
        }
        (frames, ..) => failure::failed(
            format!("one screen with barcodes is in {frames} frames of {path}, and no other"),
            advice,
        ),
    }
}

fn table(report: &Report<'_>) -> String {
    let lines = [("Frames", report.frames.to_string()), ("Both barcodes read", report.both_read.to_string())];
    let head = ["Glass to glass, ms", "min", "p50", "p95", "p99", "max"].map(str::to_owned).to_vec();
    let rows = [head, super::report::row("screen to screen", &report.age_ms)];
    let blocks = [facts(&lines), grid(&rows), warnings(&report.warnings)];
    format!("{}\n\n{}", clean(report.source), blocks.join("\n"))
}

fn drawn(report: &Report<'_>, filmed: &Filmed) -> String {
    let (p50_ms, p99_ms) = (report.age_ms.p50, report.age_ms.p99);
    budget::draw(&Budget {
        title: "From screen to screen, in a film".to_owned(),
        about: format!("{}, {} of {} frames", report.source, report.both_read, report.frames),
        parts: Vec::new(),
        total: Part { from: Stage::Captured, to: Stage::Shown, p50_ms, p99_ms },
        marks: Vec::new(),
        counts: filmed.delays_ms.iter().map(|delay| (delay.max(0.0), 1)).collect(),
    })
}
