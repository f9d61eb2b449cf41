//! `glassline probe rtp:FILE.sdp`: the flows of a session description, by [`glassline_studio::raw::look`].

mod table;
#[cfg(test)]
mod tests;
mod warnings;

use super::Args;
use crate::raw::{cannot_receive, describe};
use crate::stop::StopSignals;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_inspect::transport_stream::SCHEMA;
use glassline_io::clock::Clock;
use glassline_studio::raw::look::{FlowReport, Look, Settings};
use serde::Serialize;
use std::io::{self, IsTerminal};
use std::thread;
use std::time::Duration;

/// How often it is looked whether it is to end.
const TICK: Duration = Duration::from_millis(50);
/// How often the line is written.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// What was found; `--json` writes exactly this.
#[derive(Clone, Debug, Serialize)]
struct RawReport {
    schema: u32,
    source: String,
    /// "rtp".
    kind: &'static str,
    /// The session's name.
    name: String,
    /// How long was looked.
    duration_s: f64,
    flows: Vec<FlowReport>,
    /// Sections of the description that are of other kinds.
    skipped: Vec<String>,
    warnings: Vec<String>,
}

/// Looks for a time and prints the report.
pub(super) fn run(args: &Args) -> Result<()> {
    for (option, is_given) in [
        ("--glass", args.glass),
        ("--check", args.check.is_some()),
        ("--flight", args.flight.is_wanted()),
        ("--budget", args.budget.is_wanted()),
    ] {
        if is_given {
            return Err(failure::usage(
                format!("{option} is of no use for {}", args.target),
                "it is for transport streams; leave it out",
            ));
        }
    }
    let description = describe(&args.target)?;
    if description.flows.is_empty() {
        return Err(failure::usage(
            format!("{}: nothing in it is uncompressed: {}", args.target, description.skipped.join(", ")),
            "coded pictures and sound are received by glassline serve (source = \"rtp:FILE.sdp\"), MPEG-TS in RTP by source = \"rtp://ADDRESS:PORT\"; probe the stream there",
        ));
    }
    let options = args.receiving.options()?;
    let settings = Settings { options, is_ptp: args.ptp, rate: None };
    let clock = Clock::new();
    let mut signals = StopSignals::catch()?;
    let look = Look::start(&description, &settings, clock)
        .map_err(|error| cannot_receive(&error.error, &error.addresses))?;
    let mut line = Line { is_shown: io::stderr().is_terminal(), is_written: false };
    let began = clock.now();
    let mut written = began;
    while clock.now().since(began) < args.listening() && !signals.poll() {
        thread::sleep(TICK.min(args.listening()));
        let now = clock.now();
        if now.since(written) >= LINE_INTERVAL {
            written = now;
            line.show(&look, now.since(began));
        }
    }
    line.clear();
    let duration = clock.now().since(began);
    let report = report(args, &description, look.stop(), duration);
    if args.json {
        let mut text = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        text.push('\n');
        output::print(&text)?;
    } else {
        output::print(&table::write(&report))?;
    }
    nothing(&report).map_or(Ok(()), Err)
}

fn report(
    args: &Args,
    description: &glassline_transport::sdp::Description,
    flows: Vec<FlowReport>,
    duration: Duration,
) -> RawReport {
    RawReport {
        schema: SCHEMA,
        source: args.target.clone(),
        kind: "rtp",
        name: description.name.clone(),
        duration_s: duration.as_secs_f64(),
        warnings: flows.iter().flat_map(warnings::of).collect(),
        flows,
        skipped: description.skipped.clone(),
    }
}

/// An error where no packet of any flow has come.
fn nothing(report: &RawReport) -> Option<anyhow::Error> {
    let is_empty = |flow: &FlowReport| flow.paths.iter().all(|path| path.packets == 0);
    report.flows.iter().all(is_empty).then(|| {
        failure::failed(
            format!("{}: no packet of the description has come", report.source),
            "is the sender on, does the group reach this interface (--interface), does a firewall drop it?",
        )
    })
}

/// The line that changes while it is listened.
struct Line {
    is_shown: bool,
    is_written: bool,
}

impl Line {
    fn show(&mut self, look: &Look, passed: Duration) {
        if self.is_shown {
            self.is_written = true;
            let text = table::line(&look.report());
            output::show_progress(&format!("{:4} s  {text}", passed.as_secs()));
        }
    }

    fn clear(&self) {
        if self.is_written {
            output::clear_progress();
        }
    }
}
