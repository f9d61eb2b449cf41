//! Denoising: clips with noise laid over them, encoded at fixed quantisers with each strength; sizes, how near the pictures
//! are to the clip *without* noise, and processor time.

use crate::clips::Clip;
use crate::codecs::INDICES;
use crate::measure::{cpu_time, quality};
use anyhow::{Context, Result, ensure};
use glassline_bench::machine;
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

/// Gaussian noise with a standard deviation of 6, new in each picture; FFmpeg's filter has a seed, so that it is the same
/// each time.
const NOISE: &str = "noise=alls=11:allf=t:all_seed=1";
const STRENGTHS: [&str; 4] = ["0", "1", "2", "3"];
/// By the quantisers of [`INDICES`].
const SIZES: [&str; 4] = ["size at index 15", "size at index 29", "size at index 51", "size at index 82"];
const PSNRS: [&str; 4] = [
    "PSNR of luma at index 15",
    "PSNR of luma at index 29",
    "PSNR of luma at index 51",
    "PSNR of luma at index 82",
];
const CPU: &str = "CPU for a picture at index 29";
/// The quantiser at which processor time is told, and clips without noise are looked at.
const MIDDLE: usize = 1;

/// One clip, noisy at all quantisers and clean at one.
pub(crate) fn run(clip: &Clip, speed: u8, runs: u32, folder: &Path, report: &mut Report) -> Result<()> {
    let noisy = Clip { path: clip.path.with_extension("noisy.y4m"), ..clip.clone() };
    let made = Command::new("ffmpeg")
        .args(["-v", "error", "-y", "-i"])
        .arg(&clip.path)
        .args(["-vf", NOISE, "-pix_fmt", "yuv420p", "-f", "yuv4mpegpipe"])
        .arg(&noisy.path)
        .stdin(Stdio::null())
        .output()
        .context("cannot start ffmpeg")?;
    ensure!(made.status.success(), "ffmpeg lays no noise: {}", String::from_utf8_lossy(&made.stderr));
    for (what, source, quantizers) in
        [("with noise", &noisy, 0..INDICES.len()), ("as it is", clip, MIDDLE..MIDDLE + 1)]
    {
        let case = format!("{}, denoising it {what}, speed {speed}", clip.name);
        for run in 0..runs {
            for strength in STRENGTHS {
                let others = Others::begin()?;
                let mut figures = Vec::new();
                // Sizes and pictures are the same each time.
                for at in quantizers.clone().filter(|&at| run == 0 || at == MIDDLE) {
                    let stream = folder.join("denoise.ivf");
                    let took = cpu_time(&mut command(source, at, strength, speed, &stream)?)?;
                    if run == 0 {
                        let bytes =
                            fs::metadata(&stream).with_context(|| stream.display().to_string())?.len();
                        figures.push((SIZES[at], "kB", bytes as f64 / 1e3));
                        figures.push((PSNRS[at], "dB", quality(clip, &stream)?.psnr_db));
                    }
                    if at == MIDDLE {
                        figures.push((CPU, "ms", took.as_secs_f64() * 1e3 / f64::from(clip.frames)));
                    }
                    fs::remove_file(&stream).with_context(|| stream.display().to_string())?;
                }
                let who =
                    if strength == "0" { "not denoised".to_owned() } else { format!("strength {strength}") };
                report.disturbance(&case, &who, others.share()?);
                for (metric, unit, value) in figures {
                    report.add(&case, &who, metric, unit, value);
                }
            }
        }
    }
    fs::remove_file(&noisy.path).with_context(|| noisy.path.display().to_string())
}

/// Ours at the `at`-th fixed quantiser, in one thread.
fn command(clip: &Clip, at: usize, strength: &str, speed: u8, to: &Path) -> Result<Command> {
    let mut command = Command::new(machine::glassline()?);
    command.arg("encode").arg(&clip.path).arg(to).args(["--codec", "vp8", "--threads", "1"]);
    command.args(["--speed", &speed.to_string(), "--keyint", "infinite"]);
    command.args(["--quantizer", &INDICES[at].to_string(), "--denoise", strength]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    Ok(command)
}
