//! Direct video over emulated networks, by `glassline lab experiment`: ours, and with its parts switched off one by one.
//!
//! Virtual time: each machine gives the same figures, whatever else it does. With `--real-time` ours beside WebRTC
//! ([`real_time`]), which is another matter.

mod real_time;

use anyhow::{Context, Result, ensure};
use clap::Parser;
use glassline_bench::machine;
use glassline_bench::report::{OURS, Report};
use glassline_lab::clip;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Delay and quality of direct video over recorded and made-up networks, in virtual time or in real time beside WebRTC
#[derive(Debug, Parser)]
struct Args {
    /// Seconds of each run
    #[arg(long, value_name = "S", default_value_t = 60)]
    seconds: u32,
    /// Of each case: verizon, att, umts, intermittent, outage, loss, reorder
    #[arg(long, value_name = "CASES", value_delimiter = ',')]
    cases: Vec<String>,
    /// In real time, ours beside WebRTC in Chromium; the cases are verizon, att, umts and, without a network, none
    #[arg(long)]
    real_time: bool,
    /// Of whom, in real time: glassline (VP8), glassline-av1, glassline-auto, vp8, vp9, av1 (the last three are WebRTC)
    #[arg(long, value_name = "WHO", value_delimiter = ',', requires = "real_time")]
    who: Vec<String>,
    /// Folder for direct.json, or direct-real-time.json
    #[arg(long, value_name = "FOLDER", default_value = "target/bench")]
    out: PathBuf,
}

/// A network.
struct Case {
    key: &'static str,
    name: &'static str,
    /// Options of `lab experiment`; `TRACES/` stands for the folder of the traces.
    network: &'static str,
    /// The most that the 95th percentile of the delay may be, ms, and the least quality, dB.
    asked: Option<(f64, f64)>,
}

const CASES: [Case; 7] = [
    Case {
        key: "verizon",
        name: "Verizon LTE, short",
        network: "--up TRACES/Verizon-LTE-short.down --down TRACES/Verizon-LTE-short.up --queue 256p",
        asked: Some((240.0, 21.0)),
    },
    Case {
        key: "att",
        name: "AT&T LTE from 210 s",
        network: "--up TRACES/ATT-LTE-driving.down --down TRACES/ATT-LTE-driving.up --from 210s --queue 256p",
        asked: Some((160.0, 21.0)),
    },
    Case {
        key: "umts",
        name: "T-Mobile UMTS from 500 s",
        network: "--up TRACES/TMobile-UMTS-driving.down --down TRACES/TMobile-UMTS-driving.up --from 500s --queue 256p",
        asked: Some((165.0, 17.8)),
    },
    Case {
        key: "intermittent",
        name: "12 Mbit/s, 5 s on and 0.2 s off by chance",
        network: "--up 12M --down 12M --outage random:5s/200ms --queue 256p",
        asked: None,
    },
    Case {
        key: "outage",
        name: "500 kbit/s, off for a second",
        network: "--up 500k --down 500k --outage once:20s/1s --queue 256p",
        asked: None,
    },
    Case {
        key: "loss",
        name: "6 Mbit/s, 5 % of packets lost",
        network: "--up 6M --down 6M --loss up=5% --queue 256p",
        asked: None,
    },
    Case {
        key: "reorder",
        name: "6 Mbit/s, 10 % of packets 5 ms late",
        network: "--up 6M --down 6M --reorder up=10%:5ms --queue 256p",
        asked: None,
    },
];

/// Who is tried, and with which options.
const WHO: [(&str, &str); 9] = [
    (OURS, ""),
    ("glassline (AV1)", "--codec av1"),
    ("glassline (auto)", "--codec auto"),
    ("glassline (no parity)", "--fec none"),
    ("glassline (the source's size)", "--size source"),
    ("glassline (2 candidates)", "--candidates 2"),
    ("glassline (Salsify's controller)", "--controller salsify"),
    ("glassline (the same, no grace periods)", "--controller salsify-no-grace"),
    ("glassline (conventional encoder)", "--conventional"),
];

/// What is told of each run: the key in the program's report, and what it is called here.
const METRICS: [(&str, &str, &str, f64); 7] = [
    ("delay_p50_ms", "delay p50", "ms", 1.0),
    ("delay_p95_ms", "delay p95", "ms", 1.0),
    ("delay_p99_ms", "delay p99", "ms", 1.0),
    ("ssim_y_db", "SSIM of luma", "dB", 1.0),
    ("used", "of the way used", "%", 100.0),
    ("queue_p50_ms", "queue p50", "ms", 1.0),
    ("shown_per_s", "pictures shown", "/s", 1.0),
];

fn main() -> Result<()> {
    let args = Args::parse();
    if args.real_time {
        return real_time::run(&args);
    }
    let unknown = args.cases.iter().find(|asked| !CASES.iter().any(|case| case.key == asked.as_str()));
    ensure!(unknown.is_none(), "no case {:?}; --help names them", unknown.map_or("", |case| case));
    let shared = clip::shared();
    let clip = clip::people_720p30(&shared, &args.out.join("direct"))?;
    let traces = format!("{}/", shared.join("traces").display());
    let mut report = Report::new("direct").onto_earlier(!args.cases.is_empty());
    report.how(format!("virtual time, {} s of people_480p30 at 1280x720, 20 ms each way", args.seconds));
    for case in
        CASES.iter().filter(|case| args.cases.is_empty() || args.cases.iter().any(|key| key == case.key))
    {
        for (who, options) in WHO {
            let network = case.network.replace("TRACES/", &traces);
            let figures = measure(&clip, &network, options, args.seconds)
                .with_context(|| format!("{}, {who}", case.name))?;
            for (key, metric, unit, factor) in METRICS {
                if let Some(value) = figures[key].as_f64() {
                    report.add(case.name, who, metric, unit, value * factor);
                }
            }
            eprintln!(
                "{}, {who}: delay p95 {} ms, {} dB",
                case.name, figures["delay_p95_ms"], figures["ssim_y_db"]
            );
        }
        if let Some((delay, quality)) = case.asked {
            for (metric, limit, most) in [("delay p95", delay, true), ("SSIM of luma", quality, false)] {
                if let Some(value) = report.value(case.name, OURS, metric) {
                    report.term(format!("{}: {metric}", case.name), value, limit, most);
                }
            }
        }
    }
    report.finish(&args.out)
}

fn measure(clip: &Path, network: &str, options: &str, seconds: u32) -> Result<Value> {
    let words = network.split(' ').chain(options.split(' ')).filter(|word| !word.is_empty());
    let run = Command::new(machine::glassline()?)
        .args(["lab", "experiment", "--json", "--delay=20ms"])
        .arg(format!("--duration={seconds}s"))
        .args(words)
        .arg(clip)
        .output()
        .context("the program cannot be started")?;
    ensure!(run.status.success(), "{}", String::from_utf8_lossy(&run.stderr));
    serde_json::from_slice(&run.stdout).context("its report is no JSON")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_and_tries_have_names_of_their_own() {
        let keys: std::collections::BTreeSet<_> = CASES.iter().map(|case| case.key).collect();
        let names: std::collections::BTreeSet<_> = WHO.iter().map(|(who, _)| who).collect();
        assert_eq!((keys.len(), names.len()), (CASES.len(), WHO.len()));
    }
}
