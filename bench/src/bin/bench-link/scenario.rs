//! A link that is too narrow for what is sent over it: `glassline lab link` around the load and the judge of
//! [`crate::video`], and around two flows that compete ([`crate::compete`]).

use anyhow::{Context, Result, ensure};
use glassline_bench::process::Others;
use glassline_bench::report::Report;
use serde_json::Value;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::srt;
use crate::video::read_result;
use crate::who::Who;

/// Bits a second of the narrow link.
const RATE: f64 = 3.2e6;
/// The rate of a link for two flows, and the round trip that it takes when empty.
const SHARED_RATE: f64 = 20e6;
const SHARED_RTT: Duration = Duration::from_millis(40);
/// Between 10 and 15 s the rate is halved, between 25 and 26 s nothing passes.
const HALVED: std::ops::Range<u64> = 10_000..15_000;
const BLACKOUT: std::ops::Range<u64> = 25_000..26_000;

/// A narrow link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scenario {
    Choked,
    Bursts,
    Outage,
}

impl Scenario {
    pub(crate) const ALL: [Scenario; 3] = [Scenario::Choked, Scenario::Bursts, Scenario::Outage];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Scenario::Choked => "choked: 110 % of 3.2 Mbit/s",
            Scenario::Bursts => "bursts of loss, 70 %",
            Scenario::Outage => "half the rate, blackout, 90 %",
        }
    }

    /// Video by what the link carries.
    fn load(self) -> f64 {
        match self {
            Scenario::Choked => 1.1,
            Scenario::Bursts => 0.7,
            Scenario::Outage => 0.9,
        }
    }
}

/// Opportunities of 1504 bytes in milliseconds, as Mahimahi has them: what waits during the blackout is kept.
fn trace(seconds: u64) -> String {
    let (mut text, mut carried) = (String::new(), 0.0);
    for milli in 1..=seconds * 1000 {
        let rate = match milli {
            milli if BLACKOUT.contains(&milli) => 0.0,
            milli if HALVED.contains(&milli) => RATE / 2.0,
            _ => RATE,
        };
        carried += rate / 8000.0;
        while carried >= 1504.0 {
            carried -= 1504.0;
            let _ = writeln!(text, "{milli}");
        }
    }
    text
}

/// What is needed to run a link.
pub(crate) struct Lab {
    pub(crate) glassline: PathBuf,
    pub(crate) folder: PathBuf,
    /// The compiled `srt.c`, where it could be had.
    pub(crate) srt: Option<PathBuf>,
}

/// What came of a link's use.
struct Ran {
    /// What the far side has written.
    result: Value,
    /// The link's report.
    network: Value,
    /// The share of a core that other programs had meanwhile.
    others: f64,
}

impl Lab {
    /// Why there can be no emulated network, if so.
    pub(crate) fn missing(&self) -> Option<String> {
        let tried = Command::new(&self.glassline)
            .args(["lab", "link", "--", "true"])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output();
        match tried {
            Ok(tried) if tried.status.success() => None,
            Ok(tried) => Some(String::from_utf8_lossy(&tried.stderr).trim().to_owned()),
            Err(error) => Some(error.to_string()),
        }
    }

    /// Runs this program's `near` behind the link and its `far` on the other side.
    fn run(&self, link: &[String], near: &[String], far: &[String]) -> Result<Ran> {
        let this = std::env::current_exe().context("cannot find this program")?;
        let result = self.folder.join("far.json");
        // It may be there from before.
        let _ = fs::remove_file(&result);
        let this = this.to_str().context("this program's path is not UTF-8")?;
        let quoted: Vec<String> = far.iter().map(|word| format!("'{word}'")).collect();
        let mut command = Command::new(&self.glassline);
        if let Some(srt) = &self.srt {
            command.env(srt::PROGRAM, srt);
        }
        let others = Others::begin()?;
        let output = command
            .args(["lab", "link", "--json"])
            .args(link)
            .arg("--far")
            .arg(format!("exec '{this}' {} --result '{}'", quoted.join(" "), result.display()))
            .arg("--")
            .arg(this)
            .args(near)
            .arg("--result")
            .arg(&result)
            .stdin(Stdio::null())
            .output()
            .context("cannot run glassline lab link")?;
        ensure!(output.status.success(), "it failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        let report = serde_json::from_slice(&output.stdout).context("no report of the link")?;
        let others = others.share()?;
        Ok(Ran { result: read_result(&result, Duration::ZERO)?, network: report, others })
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// One scenario with everybody, by turns.
pub(crate) fn run(
    lab: &Lab,
    scenario: Scenario,
    peers: &[Who],
    (runs, seconds): (u32, u64),
    report: &mut Report,
) -> Result<()> {
    let rate = if scenario == Scenario::Outage {
        let file = lab.folder.join("outage.trace");
        // What follows the load has a link too.
        fs::write(&file, trace(seconds + 60)).with_context(|| file.display().to_string())?;
        file.display().to_string()
    } else {
        format!("{}k", RATE / 1e3)
    };
    let mut link = words(&["--up", &rate, "--down", &rate, "--delay", "50ms", "--queue", "256p"]);
    if scenario == Scenario::Bursts {
        link.extend(words(&["--loss", "up=ge:0.0085/0.25/0.6"]));
    }
    for run in 0..runs {
        for &who in peers {
            let seeded = [&link[..], &words(&["--seed", &(run + 1).to_string()])].concat();
            let bits = (RATE * scenario.load()).to_string();
            let near = words(&["show", &who.word(), &bits, &seconds.to_string()]);
            let mut far = words(&["judge", &who.word()]);
            if scenario == Scenario::Outage {
                far.extend(words(&["--blackout-ms", &BLACKOUT.end.to_string()]));
            }
            match lab.run(&seeded, &near, &far) {
                Ok(ran) => {
                    report.disturbance(scenario.name(), who.name(), ran.others);
                    add(scenario, who, &ran.result, &ran.network, report);
                }
                Err(error) => report.note(format!("FAILED {}: {}: {error:#}", scenario.name(), who.name())),
            }
        }
    }
    terms(scenario, report);
    Ok(())
}

const P95: &str = "message p95";
const P99: &str = "message p99";
const LOST: &str = "messages lost";
const SHOWN: &str = "pictures shown";
const AGE: &str = "picture's age p95";
const QUEUE: &str = "mean queue";
const OVERHEAD: &str = "bytes on the wire by those of messages";
const FIRST: &str = "first picture after the blackout";

fn add(scenario: Scenario, who: Who, result: &Value, network: &Value, report: &mut Report) {
    let (case, who) = (scenario.name(), who.name());
    let judged = &result["judged"];
    let figure = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
    for (metric, key) in [("message p50", "delay_p50"), (P95, "delay_p95"), (P99, "delay_p99")] {
        report.add(case, who, metric, "ms", figure(&judged[key]));
    }
    report.add(case, who, LOST, "", figure(&result["messages"]) - figure(&judged["messages"]));
    report.add(case, who, SHOWN, "%", figure(&judged["shown"]) / figure(&result["pictures"]) * 100.0);
    report.add(case, who, "picture's age p50", "ms", figure(&judged["age_p50"]));
    report.add(case, who, AGE, "ms", figure(&judged["age_p95"]));
    report.add(case, who, QUEUE, "ms", figure(&network["up"]["queue"]["mean_bytes"]) * 8e3 / RATE);
    let wire = figure(&network["up"]["arrived"]["bytes"]);
    if scenario == Scenario::Bursts {
        report.add(case, who, OVERHEAD, "", wire / figure(&result["bytes"]));
    }
    // A short run ends before the blackout.
    if let Some(first) = judged["first_after"].as_f64() {
        report.add(case, who, FIRST, "ms", first);
    }
    report.add_context(case, who, "link late p99", "ms", figure(&network["lateness_ms"]["p99"]));
}

/// What ours has to be.
fn terms(scenario: Scenario, report: &mut Report) {
    let limits: &[(&str, f64, bool)] = match scenario {
        Scenario::Choked => &[
            (P99, 75.0, true),
            (LOST, 0.0, true),
            (SHOWN, 82.0, false),
            (AGE, 200.0, true),
            (QUEUE, 15.0, true),
        ],
        Scenario::Bursts => {
            &[(P99, 75.0, true), (LOST, 0.0, true), (AGE, 130.0, true), (OVERHEAD, 1.15, true)]
        }
        Scenario::Outage => &[(P95, 180.0, true), (LOST, 0.0, true), (FIRST, 120.0, true)],
    };
    for &(metric, limit, most) in limits {
        if let Some(value) = report.value(scenario.name(), Who::Ours.name(), metric) {
            report.term(format!("{}: {metric}", scenario.name()), value, limit, most);
        }
    }
}

/// Ours beside one flow of TCP, with a queue of `depth` bandwidth-delay products.
pub(crate) fn compete(
    lab: &Lab,
    who: Who,
    depth: f64,
    (runs, seconds): (u32, u64),
    report: &mut Report,
) -> Result<()> {
    let control = who.congestion().context("a flow of TCP")?;
    let product = SHARED_RATE * SHARED_RTT.as_secs_f64() / 8.0;
    let queue = format!("{}k", (product * depth / 1000.0).round());
    let delay = format!("{}ms", (SHARED_RTT / 2).as_millis());
    let shared = format!("{}k", SHARED_RATE / 1e3);
    let link = words(&["--up", &shared, "--down", &shared, "--delay", &delay]);
    let link = [link, words(&["--queue", &queue])].concat();
    let case = format!("beside {}, queue of {depth} BDP", who.name());
    for _ in 0..runs {
        let rest = words(&[control, &seconds.to_string()]);
        let near = [words(&["compete"]), rest.clone()].concat();
        let far = [words(&["referee"]), rest].concat();
        match lab.run(&link, &near, &far) {
            Ok(Ran { result, network, others }) => {
                report.disturbance(&case, Who::Ours.name(), others);
                let figure = |value: &Value| value.as_f64().unwrap_or(f64::NAN);
                let ours = Who::Ours.name();
                report.add(&case, ours, "share", "%", figure(&result["share"]) * 100.0);
                report.add(
                    &case,
                    ours,
                    "of the link used",
                    "%",
                    figure(&result["bits"]) / SHARED_RATE * 100.0,
                );
                report.add(
                    &case,
                    ours,
                    "queue delay p50",
                    "ms",
                    figure(&network["up"]["queue_delay_ms"]["p50"]),
                );
            }
            Err(error) => report.note(format!("FAILED {case}: {error:#}")),
        }
    }
    if depth <= 1.0
        && let Some(share) = report.value(&case, Who::Ours.name(), "share")
    {
        report.term(format!("{case}: share, %"), share, 30.0, false);
        report.term(format!("{case}: share, %"), share, 70.0, true);
    }
    Ok(())
}

/// Makes the folder for results of one bench.
pub(crate) fn folder(out: &Path) -> Result<PathBuf> {
    let folder = out.join("link");
    fs::create_dir_all(&folder).with_context(|| folder.display().to_string())?;
    fs::canonicalize(&folder).with_context(|| folder.display().to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trace_has_the_rate_its_half_and_nothing() {
        let text = trace(40);
        let times: Vec<u64> = text.lines().map(|line| line.parse().unwrap_or_default()).collect();
        let count =
            |range: std::ops::Range<u64>| times.iter().filter(|time| range.contains(time)).count() as f64;
        let whole = RATE / 8.0 / 1504.0;
        assert!((count(0..10_000) / 10.0 - whole).abs() < 1.0);
        assert!((count(HALVED) / 5.0 - whole / 2.0).abs() < 1.0);
        assert_eq!(count(BLACKOUT), 0.0);
    }
}
