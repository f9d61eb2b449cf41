//! Who chooses the quantisers: our prediction beside x264's own rate control, on the same pictures. Time, rate, quality.

use crate::clip::{Clip, Content, RATE};
use crate::{Args, find_quantiles};
use anyhow::{Context, Result, ensure};
use glassline_bench::machine;
use glassline_bench::report::Report;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// As `--rate-control` names them.
const CONTROLS: [&str; 2] = ["predicted", "x264"];
const OURS: &str = "glassline predicted";
const X264: &str = "x264's rate control";
/// The case that says what the others come to.
const SAVED: &str = "what predicted quantisers save";
const FIRST_SLICE: &str = "first slice p50";
const X264_TIME: &str = "x264's own time p50";
const TS_RATE: &str = "TS rate by the pictures' asked";
const PSNR: &str = "PSNR";
const SSIM: &str = "SSIM";
/// The bit rate that is asked for, kbit/s.
const ASKED_KBPS: f64 = 5000.0;

/// Codes both clips with each preset as fast as it goes, one picture after the other, and looks at what came out.
pub(crate) fn beside_each_other(args: &Args, report: &mut Report) -> Result<()> {
    let folder = args.out.join("encode");
    std::fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    let pictures = args.seconds * u64::from(RATE);
    for content in [Content::Flower, Content::People] {
        let (clip, why) = Clip::load(content)?;
        if let Some(why) = why {
            report.note(format!("SKIPPED predicted quantisers with {content}: {why}"));
            continue;
        }
        let reference = folder.join("clip.y4m");
        clip.save(&reference, pictures)?;
        for preset in &args.presets {
            let case = format!("{preset}, {content}, predicted quantisers and x264's");
            for _ in 0..args.runs {
                for control in CONTROLS {
                    measure(&reference, preset, control, &case, pictures, report)?;
                }
            }
            add_saved(&format!("{preset}, {content}"), &case, report);
        }
        std::fs::remove_file(&reference).with_context(|| reference.display().to_string())?;
    }
    Ok(())
}

fn measure(
    reference: &Path,
    preset: &str,
    control: &'static str,
    case: &str,
    pictures: u64,
    report: &mut Report,
) -> Result<()> {
    let who = if control == "x264" { X264 } else { OURS };
    let stream: PathBuf = reference.with_file_name(format!("{control}.ts"));
    let output = Command::new(machine::glassline()?)
        .arg("encode")
        .args([reference, &stream])
        .args(["--no-realtime", "--audio", "none", "--stats", "--slices", "8", "--threads", "1"])
        .args(["--bitrate", "5M", "--vbv", "1s", "--keyint", "1s"])
        .args(["--preset", preset, "--rate-control", control])
        .output()
        .context("cannot start glassline")?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "glassline encode ended with {}:\n{told}", output.status);
    for (line, metric) in [("first slice out", FIRST_SLICE), ("x264's own time", X264_TIME)] {
        let [median, _] = find_quantiles(&told, line)
            .with_context(|| format!("glassline encode --stats tells nothing of {line:?}:\n{told}"))?;
        report.add(case, who, metric, "ms", median);
    }
    let bytes = std::fs::metadata(&stream).with_context(|| stream.display().to_string())?.len();
    let kilobits = bytes as f64 * 8.0 / 1000.0 * f64::from(RATE) / pictures as f64;
    report.add(case, who, TS_RATE, "x", kilobits / ASKED_KBPS);
    add_score(who, case, reference, &stream, report)?;
    std::fs::remove_file(&stream).with_context(|| stream.display().to_string())
}

/// Adds how near what FFmpeg decodes of `stream` is to `reference`.
pub(crate) fn add_score(
    who: &str,
    case: &str,
    reference: &Path,
    stream: &Path,
    report: &mut Report,
) -> Result<()> {
    let mean = score(reference, stream)?;
    for (metric, name) in [(PSNR, "psnr_y_db"), (SSIM, "ssim_y_db")] {
        let value = mean[name].as_f64().with_context(|| format!("lab score says no {name}"))?;
        report.add(case, who, metric, "dB", value);
    }
    Ok(())
}

/// What our prediction saves beside x264's rate control, in a case of its own.
fn add_saved(who: &str, case: &str, report: &mut Report) {
    for (metric, of) in [
        ("less of x264's own time", X264_TIME),
        ("less time to the first slice", FIRST_SLICE),
        ("less rate", TS_RATE),
    ] {
        if let Some(ratio) = report.ratio_of(case, OURS, of) {
            report.add(SAVED, who, metric, "%", (1.0 - ratio) * 100.0);
        }
    }
    for (metric, of) in [("more PSNR", PSNR), ("more SSIM", SSIM)] {
        let values = report.value(case, OURS, of).zip(report.value(case, X264, of));
        if let Some((ours, theirs)) = values {
            report.add(SAVED, who, metric, "dB", ours - theirs);
        }
    }
}

/// The means that `glassline lab score` finds for what FFmpeg decodes.
fn score(reference: &Path, stream: &Path) -> Result<Value> {
    let mut decoder = Command::new("ffmpeg")
        .args(["-v", "error", "-i"])
        .arg(stream)
        .args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"])
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context("cannot start ffmpeg")?;
    let pictures = decoder.stdout.take().context("ffmpeg has no output")?;
    let output = Command::new(machine::glassline()?)
        .args(["lab", "score", "--json"])
        .arg(reference)
        .arg("-")
        .stdin(pictures)
        .output()
        .context("cannot start glassline lab score");
    decoder.wait().context("ffmpeg")?;
    let output = output?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "glassline lab score ended with {}:\n{told}", output.status);
    let mut report: Value = serde_json::from_slice(&output.stdout).context("lab score wrote no JSON")?;
    Ok(report["mean"].take())
}
