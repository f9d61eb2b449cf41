//! Bits at the same quality (BD-rate over SSIM), at the same size and picture rate.

use anyhow::{Context, Result, ensure};
use glassline_bench::bd_rate::{Point, bd_rate};
use glassline_bench::machine;
use glassline_bench::report::Report;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Clip, pictures a second, kilobits a second.
const CLIPS: [(&str, u32, [u32; 4]); 2] =
    [("street_720p25", 25, [700, 1200, 2000, 3500]), ("people_480p30", 30, [300, 500, 800, 1400])];
/// From key frame to key frame, and how far the look-ahead reaches, seconds.
const REACH_S: u32 = 2;
const PRESET: &str = "medium";

/// Who encodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoder {
    /// Ours without delay, at the default preset.
    NoDelay,
    /// Ours without delay, at the preset of the look-ahead.
    NoDelaySlow,
    LookAhead,
    Ffmpeg,
}

impl Encoder {
    const ALL: [Encoder; 4] = [Encoder::NoDelay, Encoder::NoDelaySlow, Encoder::LookAhead, Encoder::Ffmpeg];

    fn name(self) -> String {
        match self {
            Encoder::NoDelay => "glassline veryfast, no delay".to_owned(),
            Encoder::NoDelaySlow => format!("glassline {PRESET}, no delay"),
            Encoder::LookAhead => format!("glassline {PRESET}, look-ahead {REACH_S}s"),
            Encoder::Ffmpeg => format!("ffmpeg {PRESET}, the same look-ahead"),
        }
    }

    fn command(self, clip: &Path, rate: u32, kilobits: u32, stream: &Path) -> Result<Command> {
        let bits = format!("{kilobits}k");
        if self == Encoder::Ffmpeg {
            let pictures = (REACH_S * rate).to_string();
            let settings = format!("scenecut=0:open-gop=0:rc-lookahead={pictures}:keyint={pictures}");
            let mut command = Command::new("ffmpeg");
            command.args(["-v", "error", "-y", "-i"]).arg(clip).args(["-c:v", "libx264", "-preset", PRESET]);
            command.args(["-b:v", &bits, "-maxrate", &bits, "-bufsize", &bits, "-x264-params", &settings]);
            command.arg(stream);
            return Ok(command);
        }
        let mut command = Command::new(machine::glassline()?);
        command.arg("encode").arg(clip).arg(stream).args(["--audio", "none", "--bitrate", &bits]);
        let reach = format!("{REACH_S}s");
        command.args(["--keyint", &reach]);
        match self {
            Encoder::NoDelay => command.args(["--preset", "veryfast"]),
            Encoder::NoDelaySlow => command.args(["--preset", PRESET]),
            _ => command.args(["--preset", PRESET, "--look-ahead", &reach]),
        };
        Ok(command)
    }
}

pub(crate) fn measure(seconds: u32, folder: &Path, report: &mut Report) -> Result<()> {
    for (name, rate, kilobits) in CLIPS {
        let Some(clip) = clip(name, seconds * rate, folder)? else {
            report.note(format!("SKIPPED {name}: it is not there (GLASSLINE_SHARED)"));
            continue;
        };
        let mut curves = Vec::new();
        for encoder in Encoder::ALL {
            let mut points = Vec::new();
            for rate_kbit in kilobits {
                let stream = folder.join(format!("{name}-{encoder:?}-{rate_kbit}.ts"));
                run(&mut encoder.command(&clip, rate, rate_kbit, &stream)?)?;
                points.push(point(&clip, f64::from(seconds), &stream)?);
            }
            curves.push((encoder, points));
        }
        let of =
            |wanted: Encoder| curves.iter().find(|(encoder, _)| *encoder == wanted).map(|(_, points)| points);
        let zero = of(Encoder::NoDelay).context("it is measured first")?;
        for (encoder, points) in curves.iter().skip(1) {
            let percent = bd_rate(zero, points).context("the curves have qualities in common")?;
            report.add(
                name,
                &encoder.name(),
                "BD-rate, SSIM of luma, to veryfast without delay",
                "%",
                percent,
            );
        }
        let look_ahead = of(Encoder::LookAhead).context("it is measured")?;
        let gain = bd_rate(zero, look_ahead).context("in common")?;
        report.term(
            format!("{name}: BD-rate of the look-ahead to veryfast without delay, %"),
            gain,
            -12.0,
            true,
        );
        let ffmpeg = of(Encoder::Ffmpeg).context("it is measured")?;
        let behind = bd_rate(ffmpeg, look_ahead).context("in common")?;
        report.term(format!("{name}: BD-rate of the look-ahead to FFmpeg's, %"), behind, 1.0, true);
    }
    Ok(())
}

/// The clip as y4m, over and over; `None` where it is not there.
fn clip(name: &str, pictures: u32, folder: &Path) -> Result<Option<PathBuf>> {
    let shared = std::env::var_os("GLASSLINE_SHARED").map_or_else(|| "../shared".into(), PathBuf::from);
    let file = shared.join("media").join(format!("{name}.mp4"));
    if !file.exists() {
        return Ok(None);
    }
    let made = folder.join(format!("{name}-{pictures}.y4m"));
    if !made.exists() {
        let mut command = Command::new("ffmpeg");
        command.args(["-v", "error", "-y", "-stream_loop", "-1", "-i"]).arg(&file);
        command.args(["-an", "-pix_fmt", "yuv420p", "-frames:v", &pictures.to_string()]).arg(&made);
        run(&mut command)?;
    }
    Ok(Some(made))
}

fn run(command: &mut Command) -> Result<Vec<u8>> {
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start {command:?}"))?;
    let told = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{command:?} ended with {}:\n{told}", output.status);
    Ok(output.stdout)
}

/// Bits of the pictures alone, and how near they are to the clip.
fn point(clip: &Path, seconds: f64, stream: &Path) -> Result<Point> {
    let bare = stream.with_extension("h264");
    let mut command = Command::new("ffmpeg");
    command.args(["-v", "error", "-y", "-i"]).arg(stream).args(["-c", "copy", "-f", "h264"]).arg(&bare);
    run(&mut command)?;
    let rate = std::fs::metadata(&bare)?.len() as f64 * 8.0 / seconds;
    let mut decoder = Command::new("ffmpeg");
    decoder.args(["-v", "error", "-i"]).arg(stream);
    decoder.args(["-fps_mode", "passthrough", "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe", "-"]);
    let mut decoder = decoder.stdin(Stdio::null()).stdout(Stdio::piped()).spawn().context("ffmpeg")?;
    let mut score = Command::new(machine::glassline()?);
    score.args(["lab", "score", "--json"]).arg(clip).arg("-");
    let output = score.stdin(decoder.stdout.take().context("ffmpeg has no output")?).output()?;
    decoder.wait()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).context("lab score wrote no JSON")?;
    let quality = report["mean"]["ssim_y_db"].as_f64().context("lab score says no ssim_y_db")?;
    Ok(Point { rate, quality })
}
