//! `glassline lab score`: how close decoded pictures are to the originals.

mod source;

use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_inspect::report::score as plot;
use glassline_inspect::score::{Figures, Score};
use glassline_media::Size;
use serde::Serialize;
use source::Source;
use std::fmt::Write;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  glassline lab score film.y4m film.ivf              PSNR and SSIM of each picture, and of all
  glassline lab score film.y4m film.ivf --json --svg score.svg
  ffmpeg -v error -i film.mp4 -f yuv4mpegpipe - | glassline lab score film.y4m -

SSIM is computed as in FFmpeg: windows of 8x8, every 4 samples; in decibels it is -10 log10(1 - SSIM). The last
column is the SSIM of luma as Daala's tools compute it, the measure of the Salsify paper; the two cannot be
compared. Averages are taken over squared errors and over SSIM, not over decibels.

Exit status: 0 success, 1 if the two differ in size, format or number of pictures, 2 wrong usage.";

/// Compare decoded pictures with the originals: PSNR and SSIM of each picture and of all
#[derive(Clone, Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The original: a y4m file
    #[arg(value_name = "REFERENCE.y4m")]
    reference: String,
    /// The decoded pictures: a y4m file, - (y4m on standard input), or an IVF file with VP8
    #[arg(value_name = "DISTORTED")]
    distorted: String,
    /// Print the report as JSON; docs/lab.md explains each key
    #[arg(long)]
    json: bool,
    /// Draw the SSIM and PSNR of each picture
    #[arg(long, value_name = "FILE.svg")]
    svg: Option<PathBuf>,
}

/// What `--json` writes.
#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    reference: &'a str,
    distorted: &'a str,
    width: u32,
    height: u32,
    pictures: usize,
    mean: Figures,
    frames: &'a [Figures],
}

/// Compares to the end of both.
pub(super) fn run(args: &Args) -> Result<()> {
    let mut reference = Source::reference(&args.reference)?;
    let mut distorted = Source::distorted(&args.distorted)?;
    let (mut score, mut size) = (Score::default(), None);
    loop {
        let number = score.pictures().len();
        let (one, other) = match (reference.next()?, distorted.next()?) {
            (Some(one), Some(other)) => (one, other),
            (None, None) => break,
            (Some(_), None) => return Err(shorter(args, &args.distorted, number)),
            (None, Some(_)) => return Err(shorter(args, &args.reference, number)),
        };
        score.push(&one, &other).map_err(|error| {
            failure::failed(format!("picture {number}: {error}"), "scale or convert one of them before")
        })?;
        size = Some(one.size());
    }
    let Some(size) = size else {
        return Err(failure::failed("there are no pictures to compare", "are both files whole?"));
    };
    if let Some(path) = &args.svg {
        let about = format!("{} beside {}, {size}", args.distorted, args.reference);
        let svg = plot::draw(&score, "How near the pictures are", &about);
        std::fs::write(path, svg).with_context(|| format!("cannot write {}", path.display()))?;
    }
    let text = if args.json { json(args, &score, size)? } else { table(&score, size) };
    output::print(&text)
}

fn shorter(args: &Args, which: &str, pictures: usize) -> anyhow::Error {
    let other = if which == args.reference { &args.distorted } else { &args.reference };
    failure::failed(
        format!("{which} ends after {pictures} pictures, {other} goes on"),
        "compare what was made of the same pictures, none left out",
    )
}

fn json(args: &Args, score: &Score, size: Size) -> Result<String> {
    let report = Report {
        schema: 1,
        reference: &args.reference,
        distorted: &args.distorted,
        width: size.width,
        height: size.height,
        pictures: score.pictures().len(),
        mean: score.mean(),
        frames: score.pictures(),
    };
    Ok(serde_json::to_string_pretty(&report).context("cannot write JSON")? + "\n")
}

fn table(score: &Score, size: Size) -> String {
    let mut table = format!(
        "{size}, dB{:>13}{:>9}{:>9}{:>9}{:>9}{:>9}\n",
        "PSNR Y", "Cb", "Cr", "SSIM Y", "all", "Daala Y"
    );
    let label = format!("{size}, dB").len();
    let rows = score.pictures().iter().enumerate();
    let rows = rows.map(|(number, figures)| (number.to_string(), *figures));
    for (name, figures) in rows.chain([("mean".to_owned(), score.mean())]) {
        let _ = write!(table, "{name:>label$}    ");
        for value in [
            figures.psnr_y_db,
            figures.psnr_cb_db,
            figures.psnr_cr_db,
            figures.ssim_y_db,
            figures.ssim_db,
            figures.ssim_daala_y_db,
        ] {
            let value = value.map_or("-".into(), |value| format!("{value:.2}"));
            let _ = write!(table, "{value:>9}");
        }
        table.push('\n');
    }
    table
}
