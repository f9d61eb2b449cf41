//! `glassline probe`: what is in a transport stream, how steady its timing is, and what is wrong with it.
//!
//! [`source`] brings bytes, `glassline_inspect::transport_stream` (pure) gathers a report from them: figures, what matters
//! put into sentences, how the stream keeps the rules, and how old its pictures are when they come, by the clock that
//! [`server_clock`] finds. [`table`] and [`check`] write it for people. [`flight`] tells how bursty the arrivals are, and
//! [`capture`] takes them from a packet capture. [`glass`] decodes, and tells how old pictures are then; [`budget`] tells
//! where the time went by the stages that senders say. [`relay_stages`] asks the server when pictures passed it. [`raw`]
//! looks at the flows of a session description. [`watch`] tells of alarms.

mod budget;
mod capture;
mod check;
mod datagrams;
mod flight;
pub(crate) mod glass;
mod ivf;
mod raw;
mod relay_stages;
pub(crate) mod server_clock;
pub(crate) mod source;
mod table;
mod watch;

use crate::choice::choice;
use crate::raw::ReceiveOptions;
use crate::trust::Trust;
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_inspect::flight::{Basis, Flight, TCP_PAYLOAD_BYTES, tcp_packets};
use glassline_inspect::transport_stream::{Analysis, FlightReport, Kind};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_media::container::ts::conformance::Profile;
use glassline_media::quantity;
use source::{Reader, Source};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// Bytes that are read at once.
const READ_BYTES: usize = 256 * 1024;
/// How long a URL is listened to where nothing is said.
const LISTENING: Duration = Duration::from_secs(10);
/// How often the progress line changes.
const PROGRESS_INTERVAL: Duration = Duration::from_millis(200);

/// Analyse an MPEG transport stream (or VP8 in IVF, or uncompressed video over RTP): contents, timing, errors
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Args {
    /// What to analyse: an http:// URL, udp://ADDRESS:PORT (of this machine, or of a multicast group), a file, or -
    /// for standard input; with --flight also a packet capture; rtp:FILE.sdp, the uncompressed video, audio and
    /// ancillary data of a session description
    #[arg(value_name = "URL|FILE|rtp:FILE.sdp")]
    target: String,
    /// Print the report as JSON; docs/probe.md explains each key
    #[arg(long)]
    json: bool,
    /// How long to listen to a URL; files are read to their end [default: 10s; with --watch until a signal]
    #[arg(long, value_name = "TIME", value_parser = duration)]
    duration: Option<Duration>,
    /// Check the stream against the rules of 13818-1 (--check) or of DVB (--check=dvb), including buffers; the exit
    /// status is 1 if a rule is broken
    #[arg(long, value_name = "RULES", num_args = 0..=1, require_equals = true, default_missing_value = "iso", value_parser = choice::<Profile>())]
    check: Option<Profile>,
    #[command(flatten)]
    flight: flight::Options,
    #[command(flatten)]
    budget: budget::Options,
    #[command(flatten)]
    watch: watch::Options,
    #[command(flatten)]
    trust: Trust,
    /// Show how old pictures are when they are decoded, by the barcode of the test picture; ffmpeg decodes the H.264.
    /// The first second is not counted
    #[arg(long, conflicts_with_all = ["flight", "check"])]
    glass: bool,
    /// For rtp:FILE.sdp: PTP controls this machine's wall clock, like the sender's (ptp4l, phc2sys), so that timing
    /// is judged by the periods of ST 2059
    #[arg(long)]
    ptp: bool,
    #[command(flatten, next_help_heading = "How packets of rtp:FILE.sdp are received")]
    receiving: ReceiveOptions,
}

impl Args {
    /// How long a URL is listened to for a report.
    fn listening(&self) -> Duration {
        self.duration.unwrap_or(LISTENING)
    }
}

const EXAMPLES: &str = "\
Examples:
  glassline probe http://localhost:8080/live/demo.ts
                                     listen for 10 s, then print what is in it
  glassline probe --duration 1m --json http://localhost:8080/live/demo.ts > report.json
  glassline probe recording.ts       analyse a whole file
  glassline probe --check recording.ts
                                     check the rules that receivers rely on
  glassline probe call.ivf           frames, sizes and rates of VP8
  glassline probe http://localhost:8080/live/demo.ts --flight flight.svg
                                     also draw how bursty the arrivals are
  glassline probe udp://127.0.0.1:5000 --glass
                                     glass to glass: from capture to decoded picture
  glassline probe rtp:camera.sdp     uncompressed video, audio, ancillary data: loss, rates, ST 2110-21
  glassline probe http://localhost:8080/live/demo.ts --budget budget.svg
                                     latency of each stage, from capture to here
  tcpdump -i eth0 -s 128 -w a.pcap port 8080; glassline probe a.pcap --flight flight.svg
  glassline probe http://localhost:8080/live/demo.ts --watch --json
                                     one line of JSON for each alarm (silence, black, absent, ...)
  ffmpeg -i in.mp4 -c copy -f mpegts - | glassline probe -

Exit status: 0 even if the stream has defects (see the warnings), 1 if it is not a
transport stream, cannot be read, --check finds a broken rule, or an alarm is there
when --watch ends.";

fn duration(text: &str) -> Result<Duration, String> {
    let duration = quantity::parse_duration(text).map_err(|error| error.to_string())?;
    let range = Duration::from_millis(100)..=Duration::from_secs(24 * 3600);
    if range.contains(&duration) { Ok(duration) } else { Err("must be from 100ms to 24h".into()) }
}

/// The target as reports and errors have it: behind an address of SRT there may be a passphrase and a key.
fn shown(target: &str) -> &str {
    let is_srt = target.starts_with(glassline_transport::srt::address::SCHEME);
    target.split('?').next().filter(|_| is_srt).unwrap_or(target)
}

/// Reads the stream and prints the report.
pub(crate) fn run(args: &Args) -> Result<()> {
    if args.target.starts_with("rtp:") {
        return raw::run(args);
    }
    if let Some(option) = Some("--ptp").filter(|_| args.ptp).or(args.receiving.given()) {
        return Err(failure::usage(
            format!("{option} is of no use for {}", args.target),
            "it goes with rtp:FILE.sdp; leave it out",
        ));
    }
    let shown = shown(&args.target);
    args.flight.check(shown)?;
    args.budget.check(shown)?;
    if args.watch.is_wanted() {
        return watch::run(args);
    }
    if args.glass {
        return glass::run(args);
    }
    let clock = args.budget.is_wanted().then(|| server_clock::of(&args.target, &args.trust));
    let started = Clock.now();
    let source = source::open(&args.target, &args.trust, started + args.listening())?;
    let (kind, is_playlist) = (source.kind, source.playlist.is_some());
    if args.check.is_some() && (source.is_capture || source.is_ivf) {
        return Err(failure::usage(
            format!("--check: {} is no transport stream", shown),
            "its rules are those of MPEG-TS",
        ));
    }
    if source.is_capture && args.flight.is_wanted() {
        return capture::run(&args.target, source.size_bytes, &args.flight, args.json);
    }
    check_flight(args, &source)?;
    if source.is_ivf {
        return ivf::run(&args.target, source, args.json);
    }
    let mut flight = args.flight.is_wanted().then(|| Flight::new(args.flight.settings(Basis::Reads)));
    let mut analysis = Analysis::new(kind, started);
    if let Some(rules) = args.check {
        analysis.check(rules);
    }
    if let Some(clock) = clock {
        analysis.tell_budget_by(clock);
    }
    let mut analysis = analyse(source, analysis, flight.as_mut(), args.listening())
        .with_context(|| format!("cannot read {shown}"))?;
    if !analysis.is_transport_stream() {
        if args.target.ends_with(".sdp") {
            return Err(failure::usage(
                format!("{} is a session description, and no stream", args.target),
                format!("write rtp:{} to look at what it describes", args.target),
            ));
        }
        if is_playlist {
            return Err(failure::failed(
                format!("{} is a playlist, and no stream", args.target),
                "probe URL --watch follows what it lists; for a report name a segment of MPEG-TS",
            ));
        }
        return Err(failure::failed(
            format!("{} is not an MPEG transport stream", shown),
            "probe understands MPEG-TS, and VP8 in IVF (for other formats: ffprobe)",
        ));
    }
    if args.budget.is_wanted() && analysis.has_capture_times() {
        analysis.tell_relay_stages(&relay_stages::of(&args.target, &args.trust));
    }
    if kind == Kind::Url && analysis.has_capture_times() {
        analysis.tell_ages_by(server_clock::of(&args.target, &args.trust));
    }
    let mut report = analysis.report(shown);
    if let Some(summary) = flight.map(Flight::finish) {
        let notes = flight::notes(&summary.figures);
        args.flight.write_picture(&summary, shown, None, TCP_PAYLOAD_BYTES, &notes)?;
        report.flight = Some(FlightReport { figures: summary.figures, notes });
    }
    if let Some(budget) = &report.budget {
        args.budget.write_picture(budget, shown)?;
    }
    if args.json {
        let mut json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        json.push('\n');
        output::print(&json)?;
    } else {
        output::print(&table::write(&report))?;
    }
    report.check.as_ref().map_or(Ok(()), check::verdict)
}

/// Refuses what has no arrival times to look at.
fn check_flight(args: &Args, source: &Source) -> Result<()> {
    let target = shown(&args.target);
    if source.is_capture {
        return Err(failure::usage(
            format!("{target} is a packet capture, no transport stream"),
            "--flight shows how bursty its packets are",
        ));
    }
    if args.flight.is_wanted()
        && (source.kind != Kind::Url || matches!(source.reader, Reader::Datagrams(_) | Reader::Srt(_)))
    {
        return Err(failure::usage(
            format!("--flight: {target} has no arrival times"),
            "name a http:// URL or a packet capture (tcpdump -w FILE.pcap)",
        ));
    }
    Ok(())
}

/// Reads to the end, or from a URL for `duration` after its first byte.
fn analyse(
    mut source: Source,
    mut analysis: Analysis,
    mut flight: Option<&mut Flight>,
    duration: Duration,
) -> Result<Analysis> {
    let is_live = source.kind == Kind::Url;
    let mut progress = Progress::new(&source);
    let mut buffer = vec![0; READ_BYTES];
    let mut deadline = Clock.now() + duration;
    let mut bytes = 0;
    loop {
        let count = match source.reader.read(&mut buffer, deadline) {
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) if error.kind() == io::ErrorKind::TimedOut && bytes > 0 => break,
            Err(error) if error.kind() == io::ErrorKind::TimedOut => {
                return Err(match source.reader {
                    Reader::Datagrams(_) => {
                        failure::failed("no datagram came in time", "are they sent, and to here?")
                    }
                    _ => failure::failed("the server answered, but sent nothing in time", "is it published?"),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let now = Clock.now();
        if count == 0 {
            analysis.finish(now);
            break;
        }
        if bytes == 0 {
            deadline = now + duration;
        }
        bytes += count as u64;
        if let Some(flight) = &mut flight {
            let arrival = source.reader.received().unwrap_or(now);
            flight.push(arrival, count as u64, tcp_packets(count as u64));
        }
        analysis.push(&buffer[..count], source.reader.received().unwrap_or(now));
        progress.update(bytes, now);
        if analysis.is_hopeless() || (is_live && now >= deadline) {
            break;
        }
    }
    if bytes == 0 {
        return Err(failure::failed("it is empty", "name a stream that has something in it"));
    }
    Ok(analysis)
}

/// A line on standard error that says how far a file is read; only on a terminal.
struct Progress {
    size_bytes: u64,
    shown: Option<Time>,
}

impl Progress {
    fn new(source: &Source) -> Progress {
        Progress::of_file(source.size_bytes.filter(|_| source.kind == Kind::File))
    }

    /// For this many bytes of a file; none where it is not known.
    fn of_file(size_bytes: Option<u64>) -> Progress {
        let wanted = io::stderr().is_terminal();
        Progress { size_bytes: size_bytes.filter(|_| wanted).unwrap_or(0), shown: None }
    }

    fn update(&mut self, bytes: u64, now: Time) {
        let first = *self.shown.get_or_insert(now);
        if self.size_bytes > 0 && now.since(first) >= PROGRESS_INTERVAL {
            let percent = bytes.min(self.size_bytes) * 100 / self.size_bytes;
            output::show_progress(&format!("{percent:3} % of {} MiB", self.size_bytes >> 20));
            self.shown = Some(now);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.size_bytes > 0 {
            output::clear_progress();
        }
    }
}

#[cfg(test)]
mod tests;
