//! One run of a program: what it cost, and how good what it made is.

use crate::clips::Clip;
use anyhow::{Context, Result, ensure};
use glassline_bench::machine;
use glassline_bench::process::children_cpu_time;
use serde_json::Value;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Runs `command` to its end; processor time, user and system, of it and its children. In steps of 10 ms.
pub(crate) fn cpu_time(command: &mut Command) -> Result<Duration> {
    let before = children_cpu_time()?;
    let output = command.output().with_context(|| format!("cannot start {command:?}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}:\n{told}", output.status);
    Ok(children_cpu_time()?.saturating_sub(before))
}

/// How near a stream is to its clip.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Quality {
    /// Of luma, dB.
    pub(crate) psnr_db: f64,
    /// Of luma, −10 · log10(1 − SSIM).
    pub(crate) ssim_db: f64,
}

/// What `glassline lab score` says of a stream; H.264 is decoded by FFmpeg.
pub(crate) fn quality(clip: &Clip, stream: &Path) -> Result<Quality> {
    let mut score = Command::new(machine::glassline()?);
    score.args(["lab", "score", "--json"]).arg(&clip.path);
    let is_ivf = stream.extension().is_some_and(|extension| extension == "ivf");
    let mut decoder = None;
    if is_ivf {
        score.arg(stream).stdin(Stdio::null());
    } else {
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-r", "30", "-i"]).arg(stream);
        command.args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]);
        let mut child = command.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("ffmpeg")?;
        score.arg("-").stdin(child.stdout.take().context("ffmpeg has no output")?);
        decoder = Some(child);
    }
    let output = score.output().context("cannot start glassline lab score")?;
    if let Some(mut decoder) = decoder {
        decoder.wait().context("ffmpeg")?;
    }
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{score:?} ended with {}:\n{told}", output.status);
    let report: Value = serde_json::from_slice(&output.stdout).context("lab score wrote no JSON")?;
    let figure =
        |name: &str| report["mean"][name].as_f64().with_context(|| format!("lab score says no {name}"));
    Ok(Quality { psnr_db: figure("psnr_y_db")?, ssim_db: figure("ssim_y_db")? })
}

/// Kilobits a second of a file of `clip`'s length; of IVF without its headers.
pub(crate) fn kilobits(clip: &Clip, stream: &Path) -> Result<f64> {
    let bytes = std::fs::metadata(stream).with_context(|| stream.display().to_string())?.len();
    let is_ivf = stream.extension().is_some_and(|extension| extension == "ivf");
    let container = if is_ivf { 32 + 12 * u64::from(clip.frames) } else { 0 };
    Ok(bytes.saturating_sub(container) as f64 * 8.0 / 1000.0 * clip.rate / f64::from(clip.frames))
}
