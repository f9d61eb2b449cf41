//! The programs themselves in real time over recorded lines, beside WebRTC in Chromium over the same lines, one after the other: two
//! cores carry one call, not four.

use super::{Args, CASES, Case, METRICS, measure};
use anyhow::{Context, Result, ensure};
use glassline_bench::machine;
use glassline_bench::process::Others;
use glassline_bench::report::{OURS, Report};
use glassline_lab::clip;
use glassline_lab::experiment::floor_p95;
use glassline_media::FrameRate;
use glassline_transport::emulator::Trace;
use std::path::Path;
use std::time::Duration;

/// On each way.
const DELAY: Duration = Duration::from_millis(20);
/// Of the clip.
const PICTURES_PER_SECOND: u32 = 30;
/// So far above the least that the line allows a delay may be, where that is more than what is asked.
const ABOVE_FLOOR: f64 = 1.1;
/// Which of the cases are recorded lines.
const RECORDED: [&str; 3] = ["verizon", "att", "umts"];
/// The case without a network: its key, its name.
const NONE: (&str, &str) = ("none", "no network");
/// What is asked of ours on each line beside delay and quality: share of the way, percent; queue p50, ms.
const USED_LEAST: f64 = 70.0;
const QUEUE_MOST: f64 = 15.0;

/// Key, name and options of who is tried.
const WHO: [(&str, &str, &str); 6] = [
    ("glassline", OURS, "--real-time"),
    ("glassline-av1", "glassline (AV1)", "--real-time --codec av1"),
    ("glassline-auto", "glassline (auto)", "--real-time --codec auto"),
    ("vp8", "WebRTC VP8", "--peer webrtc-vp8"),
    ("vp9", "WebRTC VP9-SVC", "--peer webrtc-vp9"),
    ("av1", "WebRTC AV1", "--peer webrtc-av1"),
];

fn is_asked(asked: &[String], key: &str) -> bool {
    asked.is_empty() || asked.iter().any(|asked| asked == key)
}

/// Measures what `args` ask for.
pub(super) fn run(args: &Args) -> Result<()> {
    let known = |key: &str| RECORDED.contains(&key) || key == NONE.0;
    ensure!(
        args.cases.iter().all(|key| known(key)),
        "in real time the cases are verizon, att, umts and none"
    );
    ensure!(
        args.who.iter().all(|key| WHO.iter().any(|(known, ..)| known == key)),
        "there are glassline, glassline-av1, glassline-auto, vp8, vp9 and av1"
    );
    let shared = clip::shared();
    let clip = clip::people_720p30(&shared, &args.out.join("direct"))?;
    let traces = format!("{}/traces/", shared.display());
    let has_browser = std::env::var_os("CHROMIUM").is_some() || machine::find("chromium").is_some();
    let mut report = Report::new("direct-real-time").onto_earlier(!args.cases.is_empty());
    report.how(format!(
        "real time, {} s of people_480p30 at 1280x720, 20 ms each way, one after the other",
        args.seconds
    ));
    if !has_browser {
        report.note("chromium is not installed: no WebRTC beside ours");
    }
    let who: Vec<_> = WHO
        .into_iter()
        .filter(|(key, _, options)| {
            is_asked(&args.who, key) && (has_browser || options.starts_with("--real-time"))
        })
        .collect();
    if is_asked(&args.cases, NONE.0) {
        try_all(args, &who, &mut report, NONE.1, &clip, "--up unlimited", "--delay 0ms")?;
    }
    for case in CASES.iter().filter(|case| RECORDED.contains(&case.key) && is_asked(&args.cases, case.key)) {
        let network = case.network.replace("TRACES/", &traces);
        let floor = floor(&network, args.seconds)?;
        eprintln!("{}: the least delay p95 with ideal sizes is {floor:.0} ms", case.name);
        report.add_context(case.name, "ideal sizes", "delay p95", "ms", floor);
        try_all(args, &who, &mut report, case.name, &clip, &network, "--delay 20ms")?;
        ask(&mut report, case, floor);
    }
    report.finish(&args.out)
}

fn try_all(
    args: &Args,
    all: &[(&str, &str, &str)],
    report: &mut Report,
    case: &str,
    clip: &Path,
    network: &str,
    delay: &str,
) -> Result<()> {
    for (_, who, options) in all {
        let others = Others::begin()?;
        let options = format!("{options} --testbed none {delay}");
        let figures =
            measure(clip, network, &options, args.seconds).with_context(|| format!("{case}, {who}"))?;
        report.disturbance(case, who, others.share()?);
        for (key, metric, unit, factor) in METRICS {
            if let Some(value) = figures[key].as_f64() {
                report.add(case, who, metric, unit, value * factor);
            }
        }
        for (key, metric, unit, factor) in
            [("bits_per_s", "video", "Mbit/s", 1e-6), ("dropped_packets", "packets lost", "", 1.0)]
        {
            if let Some(value) = figures[key].as_f64() {
                report.add(case, who, metric, unit, value * factor);
            }
        }
        let real_time = &figures["real_time"];
        for (key, metric, unit) in
            [("judged", "pictures judged", ""), ("lateness_p99_ms", "emulator late p99", "ms")]
        {
            if let Some(value) = real_time[key].as_f64() {
                report.add_context(case, who, metric, unit, value);
            }
        }
        eprintln!("{case}, {who}: delay p95 {} ms, {} dB", figures["delay_p95_ms"], figures["ssim_y_db"]);
    }
    Ok(())
}

/// What is asked of ours.
fn ask(report: &mut Report, case: &Case, floor: f64) {
    let Some((delay, quality)) = case.asked else { return };
    let delay = delay.max(ABOVE_FLOOR * floor);
    let terms = [
        ("delay p95", delay, true),
        ("SSIM of luma", quality, false),
        ("of the way used", USED_LEAST, false),
        ("queue p50", QUEUE_MOST, true),
    ];
    for (metric, limit, most) in terms {
        if let Some(value) = report.value(case.name, OURS, metric) {
            report.term(format!("{}: {metric}", case.name), value, limit, most);
        }
    }
}

/// The least 95th percentile of the delay that a network's trace allows, ms.
fn floor(network: &str, seconds: u32) -> Result<f64> {
    let words: Vec<&str> = network.split(' ').collect();
    let value = |name: &str| words.iter().position(|word| *word == name).and_then(|at| words.get(at + 1));
    let path = value("--up").context("the network has no trace")?;
    let text = std::fs::read(path).with_context(|| format!("cannot read {path}"))?;
    let trace = Trace::parse(&text).with_context(|| format!("{path} is no trace"))?;
    let from = value("--from").map_or(Ok(Duration::ZERO), |text| seconds_of(text))?;
    let rate = FrameRate::new(PICTURES_PER_SECOND, 1).context("no rate")?;
    Ok(floor_p95(&trace.from(from), rate, Duration::from_secs(seconds.into()), DELAY).as_secs_f64() * 1e3)
}

fn seconds_of(text: &str) -> Result<Duration> {
    let seconds: Option<u64> = text.strip_suffix('s').and_then(|number| number.parse().ok());
    seconds.map(Duration::from_secs).with_context(|| format!("{text:?} is no number of seconds"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn recorded_lines_are_among_the_cases() {
        let found = CASES.iter().filter(|case| RECORDED.contains(&case.key) && case.asked.is_some()).count();
        assert_eq!(found, RECORDED.len());
        assert_eq!(seconds_of("210s").unwrap(), Duration::from_secs(210));
        assert!(seconds_of("210").is_err());
    }
}
