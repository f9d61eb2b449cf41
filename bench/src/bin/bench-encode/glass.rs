//! From glass to glass on one machine: the test picture's barcode, and its age when a decoder has it.

use crate::Args;
use anyhow::{Context, Result, bail, ensure};
use glassline_bench::report::{OURS, Report};
use glassline_bench::{machine, process};
use serde_json::Value;
use std::net::{Ipv4Addr, UdpSocket};
use std::path::Path;
use std::process::Command;

/// Test source → x264 → UDP → `probe --glass`, decoded by FFmpeg.
pub(crate) fn decoded(preset: &str, args: &Args, report: &mut Report) -> Result<()> {
    let case = format!("{preset}, glass to glass by UDP");
    let glassline = machine::glassline()?;
    // Free now; whoever takes it in between makes the probe fail, which says so.
    let to = UdpSocket::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
    let (url, duration) = (format!("udp://{to}"), format!("{}s", args.seconds + 1));
    let encode = ["encode", "test:1280x720@50", &url, "--preset", preset, "--bitrate", "5M"];
    let folder = process::Server::folder("glass")?;
    let mut encoder = process::Server::start(folder, None, &glassline, encode)?;
    let probe = Command::new(&glassline)
        .args(["probe", &url, "--glass", "--json", "--duration", &duration])
        .output()
        .context("cannot start glassline probe")?;
    encoder.check_alive()?;
    let told = String::from_utf8_lossy(&probe.stderr);
    ensure!(probe.status.success(), "glassline probe --glass ended with {}:\n{told}", probe.status);
    let figures: Value = serde_json::from_slice(&probe.stdout).context("glassline probe wrote no JSON")?;
    let number = |path: &str| -> Result<f64> {
        figures.pointer(path).and_then(Value::as_f64).with_context(|| format!("no {path} in {figures}"))
    };
    for (metric, path) in [("age p50", "/age_ms/p50"), ("age p99", "/age_ms/p99")] {
        report.add(&case, OURS, metric, "ms", number(path)?);
    }
    for (metric, path) in [("pictures missing", "/missing"), ("pictures late", "/late")] {
        report.add(&case, OURS, metric, "", number(path)?);
    }
    report.term(format!("{case}, age p99, ms"), number("/age_ms/p99")?, 40.0, true);
    Ok(())
}

/// The page's own bench, whose figures come along.
pub(crate) fn page(args: &Args, report: &mut Report) -> Result<()> {
    let bench = Path::new("bench/page");
    let browser = std::env::var_os("CHROMIUM").is_some() || machine::find("chromium").is_some();
    if machine::find("node").is_none() || !browser || !bench.exists() {
        report.note("SKIPPED the page: node or chromium is not installed (apt install nodejs chromium)");
        return Ok(());
    }
    let others = process::Others::begin()?;
    let ran = Command::new(bench)
        .env("PAGE_RUNS", args.runs.to_string())
        .env("PAGE_SECONDS", args.seconds.to_string())
        .env("GLASSLINE_BIN", machine::glassline()?)
        .output()
        .context("cannot start bench/page")?;
    if !ran.status.success() {
        bail!("bench/page failed: {}", String::from_utf8_lossy(&ran.stderr));
    }
    let others = others.share()?;
    let target = std::env::var_os("CARGO_TARGET_DIR").unwrap_or_else(|| "target".into());
    let file = Path::new(&target).join("bench/page.json");
    let text = std::fs::read_to_string(&file).with_context(|| file.display().to_string())?;
    let figures: Value = serde_json::from_str(&text).with_context(|| file.display().to_string())?;
    let case = "serve --demo, glass to glass in Chromium";
    let rows = figures["rows"].as_array().context("bench/page wrote no rows")?;
    for (engine, limit) in [("webcodecs", 100.0), ("mse", 250.0)] {
        let who = if engine == "mse" { "page MSE" } else { "page WebCodecs" };
        report.disturbance(case, who, others);
        for (metric, name) in [("age p50", "glass to glass, p50"), ("age p95", "glass to glass, p95")] {
            let row = rows.iter().find(|row| row["who"] == engine && row["metric"] == name);
            let runs =
                row.and_then(|row| row["runs"].as_array()).into_iter().flatten().filter_map(Value::as_f64);
            runs.for_each(|value| report.add(case, who, metric, "ms", value));
            let value = report.value(case, who, metric);
            let value = value.with_context(|| format!("bench/page tells no {name} of {engine}"))?;
            if metric == "age p50" {
                report.term(format!("{who} through serve, age p50, ms"), value, limit, true);
            }
        }
    }
    Ok(())
}
