//! PSNR and SSIM beside FFmpeg's filters of these names.

use crate::{GLASSLINE, have};
use glassline_test_support::program::{Scratch, run};
use std::process::Command;

/// What a filter's statistics file says behind `name:` in its `line`-th line.
fn figure(stats: &str, line: usize, name: &str) -> f64 {
    let line = stats.lines().nth(line).unwrap();
    let found = line.split_whitespace().find_map(|word| word.strip_prefix(name));
    found.unwrap_or_else(|| panic!("{name} is not in {line}")).parse().unwrap()
}

#[test]
fn figures_are_those_of_ffmpeg() {
    if !have("figures_are_those_of_ffmpeg", &["ffmpeg"]) {
        return;
    }
    let scratch = Scratch::new("score-ffmpeg");
    // Sizes with and without a rest of four.
    for size in ["320x180", "175x143"] {
        let (reference, distorted) = (scratch.file("reference.y4m"), scratch.file("distorted.y4m"));
        let (psnr, ssim) = (scratch.file("psnr.txt"), scratch.file("ssim.txt"));
        let ffmpeg = |arguments: &[&str]| {
            let mut command = Command::new("ffmpeg");
            command.args(["-v", "error", "-y"]).args(arguments);
            assert!(command.status().unwrap().success(), "{command:?}");
        };
        let source = format!("testsrc2=size={size}:rate=25:duration=0.4,format=yuv420p,noise=alls=9");
        ffmpeg(&["-f", "lavfi", "-i", &source, &reference]);
        ffmpeg(&["-i", &reference, "-vf", "gblur=sigma=0.8,noise=alls=5,format=yuv420p", &distorted]);
        let filters = format!("[0][1]psnr=stats_file={psnr};[0][1]ssim=stats_file={ssim}");
        ffmpeg(&["-i", &distorted, "-i", &reference, "-lavfi", &filters, "-f", "null", "-"]);
        let outcome = run(GLASSLINE, &["lab", "score", &reference, &distorted, "--json"], 60);
        assert_eq!(outcome.status, Some(0), "{}", outcome.stderr);
        let report: serde_json::Value = serde_json::from_str(&outcome.text()).unwrap();
        let (psnr, ssim) = (std::fs::read_to_string(psnr).unwrap(), std::fs::read_to_string(ssim).unwrap());
        let frames = report["frames"].as_array().unwrap();
        assert_eq!((frames.len(), psnr.lines().count(), ssim.lines().count()), (10, 10, 10));
        for (number, frame) in frames.iter().enumerate() {
            for (ours, theirs, stats, tolerance) in [
                ("psnr_y_db", "psnr_y:", &psnr, 0.006),
                ("psnr_cb_db", "psnr_u:", &psnr, 0.006),
                ("psnr_cr_db", "psnr_v:", &psnr, 0.006),
                ("psnr_db", "psnr_avg:", &psnr, 0.006),
                ("ssim_y", "Y:", &ssim, 2e-6),
                ("ssim", "All:", &ssim, 2e-6),
            ] {
                let (ours_is, theirs_is) = (frame[ours].as_f64().unwrap(), figure(stats, number, theirs));
                assert!(
                    (ours_is - theirs_is).abs() < tolerance,
                    "{size}, picture {number}, {ours}: {ours_is}, FFmpeg says {theirs_is}"
                );
            }
        }
    }
}
