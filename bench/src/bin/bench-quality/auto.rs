//! `--preset auto` while something else takes a processor for ten seconds of a minute.

use anyhow::{Context, Result, bail};
use glassline_bench::machine;
use glassline_bench::process::Server;
use glassline_bench::report::Report;
use serde_json::Value;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

/// When the busy process begins and ends, seconds from the beginning, and the length of a run.
const BUSY_FROM_S: u64 = 20;
const BUSY_UNTIL_S: u64 = 30;
const LENGTH_S: u64 = 60;
/// How long the encoder has to become fast enough.
const GRACE_S: u64 = 2;
const CASE: &str = "--preset auto, 720p25, one busy process for 10 s of a minute";
const WHO: &str = "glassline";

pub(crate) fn measure(runs: u32, report: &mut Report) -> Result<()> {
    let (mut without_loss, mut as_before) = (0, 0);
    for number in 0..runs {
        let seen = run(number)?;
        report.add(CASE, WHO, "pictures left out from two seconds on", "", seen.late);
        report.add(CASE, WHO, "pictures left out before that", "", seen.early);
        report.add(
            CASE,
            WHO,
            "the same preset at the end, 1: yes",
            "",
            f64::from(u8::from(seen.is_as_before)),
        );
        report.note(format!("run {}: {}", number + 1, seen.presets.join(", ")));
        without_loss += u32::from(seen.late == 0.0);
        as_before += u32::from(seen.is_as_before);
    }
    let share = |count: u32| f64::from(count) / f64::from(runs);
    report.term(
        "runs in which no picture is left out from two seconds on, share",
        share(without_loss),
        0.95,
        false,
    );
    report.term("runs with the same preset at the end, share", share(as_before), 0.95, false);
    Ok(())
}

struct Seen {
    early: f64,
    late: f64,
    is_as_before: bool,
    presets: Vec<String>,
}

/// Ends with what holds it.
struct Busy(Child);

impl Drop for Busy {
    fn drop(&mut self) {
        // It may have been ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn run(number: u32) -> Result<Seen> {
    let folder = Server::folder(&format!("auto-{number}"))?;
    let socket = folder.join("control");
    let length = format!("{}s", LENGTH_S + 5);
    let arguments = [
        "encode",
        "test:1280x720@25",
        "null:",
        "--preset",
        "auto",
        "--duration",
        &length,
        "--control",
        "control",
    ];
    let glassline = machine::glassline()?;
    let begun = Instant::now();
    let mut encoder = Server::start(folder, None, &glassline, arguments)?;
    let at =
        |second: u64| sleep((begun + Duration::from_secs(second)).saturating_duration_since(Instant::now()));
    at(BUSY_FROM_S);
    let (before, dropped) = status(&socket)?;
    let busy = Command::new("sh").args(["-c", "while :; do :; done"]).stdin(Stdio::null()).spawn();
    let busy = Busy(busy.context("sh")?);
    at(BUSY_FROM_S + GRACE_S);
    let (_, after_grace) = status(&socket)?;
    at(BUSY_UNTIL_S);
    let (meanwhile, after_busy) = status(&socket)?;
    drop(busy);
    at(LENGTH_S);
    let (after, _) = status(&socket)?;
    encoder.stop()?;
    let is_as_before = before == after;
    let presets =
        vec![format!("before {before}"), format!("meanwhile {meanwhile}"), format!("after {after}")];
    Ok(Seen { early: after_grace - dropped, late: after_busy - after_grace, is_as_before, presets })
}

/// Preset, and pictures left out so far.
fn status(socket: &Path) -> Result<(String, f64)> {
    let mut stream = UnixStream::connect(socket).context("the encoder's control socket")?;
    writeln!(stream, "status")?;
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line)?;
    let status: Value = serde_json::from_str(&line)?;
    let rendition = &status["renditions"][0];
    match (rendition["preset"].as_str(), rendition["dropped"].as_f64()) {
        (Some(preset), Some(dropped)) => Ok((preset.to_owned(), dropped)),
        _ => bail!("no status: {line}"),
    }
}
