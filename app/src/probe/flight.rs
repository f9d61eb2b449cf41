//! `probe --flight`: its options, its part of the table, its picture.

use crate::failure;
use crate::layout::{facts, grid};
use crate::picture_file;
use anyhow::Result;
use glassline_inspect::Distribution;
use glassline_inspect::flight::units::{bits_per_second, bytes, count, seconds, things};
use glassline_inspect::flight::{Basis, Figures, Settings, Summary};
use glassline_inspect::pcap::Flow;
use glassline_inspect::report::flight::{Caption, draw};
use glassline_inspect::report::svg::wrap;
use glassline_inspect::transport_stream::FlightReport;
use glassline_media::quantity;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::time::Duration;

/// From a URL so much is left out at the start: servers begin at the last key frame and send what has been since at
/// once.
const URL_SKIP: Duration = Duration::from_millis(500);

/// Columns of the table that sentences fill.
const TEXT_COLUMNS: usize = 110;

/// What is asked for, and how to look.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct Options {
    /// Show how bursty the packets are, in the report and, if a file is named, as a drawing. For a URL (the reads of
    /// a TCP receiver) or a packet capture (exact; pcap or pcapng)
    #[arg(long, value_name = "FILE.svg", num_args = 0..=1, value_parser = picture_file::parse)]
    flight: Option<Option<PathBuf>>,
    /// For a capture: analyse the largest flow from or to this port (from:PORT, to:PORT: only in that direction)
    /// instead of the largest of all flows
    #[arg(long, value_name = "PORT", requires = "flight")]
    flow: Option<Choice>,
    /// Top of the drawing's rate axis, so that drawings can be compared [default: the next round number]
    #[arg(long, value_name = "RATE", requires = "flight")]
    flight_scale: Option<quantity::Bitrate>,
    /// Skip this much at the start [default: 500ms for a URL, where servers catch up; 0s for a capture]
    #[arg(long, value_name = "TIME", requires = "flight", value_parser = quantity::parse_duration)]
    flight_skip: Option<Duration>,
    /// Packets that are closer together than this belong to one burst
    #[arg(long, value_name = "TIME", requires = "flight", default_value = "100us", value_parser = burst_gap)]
    burst_gap: Duration,
}

/// Which flow of a capture to look at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    From(u16),
    To(u16),
    Either(u16),
}

impl Choice {
    pub(super) fn wants(self, flow: &Flow) -> bool {
        match self {
            Choice::From(port) => flow.from.port() == port,
            Choice::To(port) => flow.to.port() == port,
            Choice::Either(port) => flow.from.port() == port || flow.to.port() == port,
        }
    }
}

impl FromStr for Choice {
    type Err = String;
    fn from_str(text: &str) -> Result<Choice, String> {
        let (side, port) = text.split_once(':').unwrap_or(("", text));
        let port = port.parse().map_err(|_| "write a port, from:PORT or to:PORT; ports are 0 to 65535")?;
        match side {
            "" if !text.starts_with(':') => Ok(Choice::Either(port)),
            "from" => Ok(Choice::From(port)),
            "to" => Ok(Choice::To(port)),
            _ => Err("write a port, from:PORT or to:PORT".into()),
        }
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::From(port) => write!(f, "from port {port}"),
            Choice::To(port) => write!(f, "to port {port}"),
            Choice::Either(port) => write!(f, "from or to port {port}"),
        }
    }
}

fn burst_gap(text: &str) -> Result<Duration, String> {
    let gap = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_micros(1)..=Duration::from_secs(1);
    if range.contains(&gap) { Ok(gap) } else { Err("must be from 1us to 1s".into()) }
}

impl Options {
    /// Whether it is asked for at all.
    pub(super) fn is_wanted(&self) -> bool {
        self.flight.is_some()
    }

    /// Which flow of a capture is looked at; the largest of all where none is chosen.
    pub(super) fn choice(&self) -> Option<Choice> {
        self.flow
    }

    /// How to look at arrivals of this kind.
    pub(super) fn settings(&self, basis: Basis) -> Settings {
        let usual = if basis == Basis::Reads { URL_SKIP } else { Duration::ZERO };
        Settings { basis, burst_gap: self.burst_gap, skip: self.flight_skip.unwrap_or(usual) }
    }

    fn picture(&self) -> Option<&Path> {
        self.flight.as_ref()?.as_deref()
    }

    /// Fails where an option does not suit the target, or the picture could not be written: before anyone waits.
    pub(super) fn check(&self, target: &str) -> Result<()> {
        if self.flow.is_some() && target.contains("://") {
            return Err(failure::usage("--flow picks a flow of a packet capture", "leave it out for a URL"));
        }
        self.picture().map_or(Ok(()), picture_file::check)
    }

    /// Draws the picture, if one is wanted. `flow` is what was picked, `packet_bytes` its full packets, `notes` what
    /// its readers should know.
    pub(super) fn write_picture(
        &self,
        summary: &Summary,
        source: &str,
        flow: Option<&str>,
        packet_bytes: u64,
        notes: &[String],
    ) -> Result<()> {
        let Some(path) = self.picture() else { return Ok(()) };
        let scale_bps = self.flight_scale.map(|scale| scale.bits_per_second() as f64);
        let svg = draw(summary, &Caption { source, flow, packet_bytes, scale_bps, notes });
        picture_file::write(path, &svg)
    }
}

/// What someone should know about the figures.
pub(super) fn notes(figures: &Figures) -> Vec<String> {
    let mut out = Vec::new();
    if figures.basis == Basis::Reads.name() {
        out.push(
            "These are a TCP receiver's reads, which join packets that came close together; a capture \
             (tcpdump -w) is exact."
                .into(),
        );
    }
    let start = figures.start_left_out;
    if start.arrivals > 0 {
        out.push(format!(
            "The first {} ({}) are left out.",
            seconds(start.seconds),
            bytes(start.bytes as f64)
        ));
    }
    let is_outlier = figures.largest_burst.zip(figures.burst_bytes).is_some_and(|(largest, all)| {
        largest.at_s < URL_SKIP.as_secs_f64() && largest.bytes as f64 > 2.0 * all.p99
    });
    if is_outlier && start.seconds == 0.0 {
        out.push(
            "The largest burst is at the start, where servers send what they have kept: --flight-skip 500ms \
             leaves that out."
                .into(),
        );
    }
    if figures.backward_stamps > 0 {
        out.push(format!(
            "{} an earlier time stamp than the one before and counts as coming with it: where these are many, sort \
             the capture first (reordercap).",
            match figures.backward_stamps {
                1 => "1 packet has".into(),
                many => format!("Each of {} packets has", count(many)),
            }
        ));
    }
    out
}

/// The table's part.
pub(super) fn table(report: &FlightReport) -> String {
    let figures = &report.figures;
    let what = if figures.basis == Basis::Reads.name() { "reads of a TCP receiver" } else { "packets" };
    let mut lines: Vec<_> =
        wrap(&figures.verdict, TEXT_COLUMNS - 16).into_iter().map(|line| ("", line)).collect();
    if let Some(first) = lines.first_mut() {
        first.0 = "Verdict";
    }
    lines.extend([(
        "Arrived",
        format!(
            "{} in {}, within {}",
            bytes(figures.bytes as f64),
            things(figures.arrivals, figures.basis.trim_end_matches('s')),
            seconds(figures.duration_s)
        ),
    )]);
    if let Some(largest) = figures.largest_burst {
        let size = format!("{} ({})", bytes(largest.bytes as f64), things(largest.packets, "packet"));
        let when =
            format!("{} after the start, lasts {}", seconds(largest.at_s), seconds(largest.lasts_ms / 1e3));
        lines.push(("Largest burst", format!("{size}, {when}")));
    }
    let notes = report.notes.iter().flat_map(|note| wrap(note, TEXT_COLUMNS - 2));
    let notes = notes.map(|line| format!("  {line}\n")).collect();
    let parts =
        [format!("Flight, {what}\n{}", facts(&lines)), distributions(figures), queues(figures), notes];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("\n")
}

fn distributions(figures: &Figures) -> String {
    let row = |name: String, all: &Distribution, unit: &dyn Fn(f64) -> String| {
        let figures = [all.min, all.mean, all.p50, all.p99, all.max];
        std::iter::once(name).chain(figures.iter().map(|figure| unit(*figure))).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for window in &figures.windows {
        rows.push(row(format!("rate in each {} ms", window.window_ms), &window.rate_bps, &bits_per_second));
    }
    rows.extend(figures.burst_bytes.iter().map(|all| row("burst".into(), all, &bytes)));
    let packets = |value: f64| format!("{value:.0}");
    rows.extend(figures.burst_packets.iter().map(|all| row("burst, packets".into(), all, &packets)));
    let in_ms = |millis: f64| seconds(millis / 1e3);
    rows.extend(figures.gap_ms.iter().map(|all| row("gap between bursts".into(), all, &in_ms)));
    if rows.is_empty() {
        return String::new();
    }
    rows.insert(0, ["Flight", "min", "mean", "p50", "p99", "max"].map(str::to_owned).to_vec());
    grid(&rows)
}

fn queues(figures: &Figures) -> String {
    let rows = figures.lines.iter().map(|line| {
        vec![
            bits_per_second(line.line_bps as f64),
            bytes(line.queue_bytes as f64),
            seconds(line.delay_ms / 1e3),
        ]
    });
    let head = ["Before a line of", "must wait", "for"].map(str::to_owned).to_vec();
    let rows: Vec<_> = std::iter::once(head).chain(rows).collect();
    if rows.len() > 1 { grid(&rows) } else { String::new() }
}
