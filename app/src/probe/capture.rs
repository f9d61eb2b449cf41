//! A packet capture as `probe --flight` reads it: once for its flows, once more for the packets of one of them.

use super::flight::{self, Choice, Options};
use super::{Progress, READ_BYTES};
use crate::layout::{self, clean, facts};
use crate::{failure, output};
use anyhow::{Context, Result};
use glassline_inspect::flight::units::{bytes, count, things};
use glassline_inspect::flight::{Basis, Flight, Summary, TCP_PAYLOAD_BYTES, UDP_PAYLOAD_BYTES};
use glassline_inspect::pcap::{self, Count, Flow, Packet, PcapError, Protocol, Reader, Survey, Unread};
use glassline_inspect::transport_stream::FlightReport;
use glassline_inspect::transport_stream::SCHEMA;
use glassline_io::clock::Clock;
use serde::Serialize;
use std::fs::File;
use std::io::{self, Read};

/// Flows that are named.
const NAMED_MAX: usize = 5;

/// What is in a capture; `--json` writes exactly this.
#[derive(Clone, Debug, Serialize)]
pub(super) struct CaptureReport {
    pub(super) schema: u32,
    pub(super) source: String,
    /// "capture".
    pub(super) kind: &'static str,
    /// Bytes of the file.
    pub(super) bytes: u64,
    /// Packets in it, of whatever kind.
    pub(super) packets: u64,
    /// How many flows of TCP and UDP carry something.
    pub(super) flow_count: u64,
    /// Those that carry the most.
    pub(super) flows: Vec<FlowReport>,
    pub(super) unread: UnreadReport,
    /// The one that is looked at.
    pub(super) flow: FlowReport,
    /// Its packets that are larger than one on Ethernet.
    pub(super) unsegmented_packets: u64,
    pub(super) flight: FlightReport,
    pub(super) warnings: Vec<String>,
}

/// Packets of unknown flows.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct UnreadReport {
    pub(super) link_type: u64,
    pub(super) other: u64,
    pub(super) fragments: u64,
    pub(super) cut: u64,
}

/// A flow.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(super) struct FlowReport {
    /// "TCP" or "UDP".
    pub(super) protocol: &'static str,
    pub(super) from: String,
    pub(super) to: String,
    pub(super) interface: u32,
    /// Packets with payload, as captured.
    pub(super) packets: u64,
    pub(super) payload_bytes: u64,
}

impl FlowReport {
    fn new((flow, amount): (Flow, Count)) -> FlowReport {
        FlowReport {
            protocol: flow.protocol.name(),
            from: flow.from.to_string(),
            to: flow.to.to_string(),
            interface: flow.interface,
            packets: amount.packets,
            payload_bytes: amount.payload_bytes,
        }
    }

    fn name(&self) -> String {
        format!("{} {} → {}", self.protocol, self.from, self.to)
    }
}

/// What the first reading found.
#[derive(Debug, Default)]
struct Census {
    bytes: u64,
    packets: u64,
    survey: Survey,
    unread: UnreadReport,
    is_cut: bool,
    damage: Option<PcapError>,
}

/// Reads the capture in the file `path` and prints what its flight is like.
pub(super) fn run(path: &str, size_bytes: Option<u64>, options: &Options, json: bool) -> Result<()> {
    let Some(size_bytes) = size_bytes else {
        return Err(failure::usage(
            format!("{path} is a packet capture that can be read only once"),
            "write it into a file first: a capture is read twice",
        ));
    };
    let (report, summary) = read(path, size_bytes, options).with_context(|| format!("cannot read {path}"))?;
    let is_udp = report.flow.protocol == Protocol::Udp.name();
    let packet_bytes = if is_udp { UDP_PAYLOAD_BYTES } else { TCP_PAYLOAD_BYTES };
    let flow = report.flow.name();
    options.write_picture(&summary, path, Some(&flow), packet_bytes, &report.flight.notes)?;
    if json {
        let mut json = serde_json::to_string_pretty(&report).context("cannot write JSON")?;
        json.push('\n');
        return output::print(&json);
    }
    output::print(&table(&report))
}

/// Both readings.
pub(super) fn read(path: &str, size_bytes: u64, options: &Options) -> Result<(CaptureReport, Summary)> {
    let mut progress = Progress::of_file(Some(size_bytes.saturating_mul(2)));
    let mut census = Census::default();
    let reader = each_packet(path, &mut progress, 0, |packet| census.count(packet))?;
    (census.bytes, census.packets, census.is_cut) = (reader.bytes, reader.packets, reader.is_cut);
    census.damage = reader.damage;
    let picked @ (flow, amount) = pick(&census, options.choice())?;

    let mut flight = Flight::new(options.settings(Basis::Packets));
    let mut unsegmented = 0;
    each_packet(path, &mut progress, census.bytes, |packet| {
        if let Ok(segment) = pcap::segment::parse(packet)
            && segment.flow == flow
        {
            unsegmented += u64::from(segment.is_unsegmented());
            flight.push(packet.time, segment.payload_bytes, segment.packets());
        }
    })?;
    let summary = flight.finish();
    let mut notes = flight::notes(&summary.figures);
    if unsegmented > 0 {
        notes.push(format!(
            "{} of {} packets were captured before segmentation (larger than 1,500 bytes); each counts as the packets \
             that it makes on Ethernet, all at once. Capture at the receiver, or with tso and gso off, to see them \
             apart.",
            count(unsegmented),
            count(amount.packets),
        ));
    }
    let flows = census.survey.flows();
    let report = CaptureReport {
        schema: SCHEMA,
        source: path.to_owned(),
        kind: "capture",
        bytes: census.bytes,
        packets: census.packets,
        flow_count: census.survey.len(),
        flows: flows.into_iter().take(NAMED_MAX).map(FlowReport::new).collect(),
        unread: census.unread,
        flow: FlowReport::new(picked),
        unsegmented_packets: unsegmented,
        flight: FlightReport { figures: summary.figures.clone(), notes },
        warnings: warnings(&census),
    };
    Ok((report, summary))
}

/// How a reading went.
struct Reading {
    bytes: u64,
    packets: u64,
    is_cut: bool,
    /// Where it could not go on, having given some packets.
    damage: Option<PcapError>,
}

/// Calls `each` with every packet of the capture. What stands before a damaged place is good.
fn each_packet(
    path: &str,
    progress: &mut Progress,
    read_before: u64,
    mut each: impl FnMut(&Packet<'_>),
) -> Result<Reading> {
    let mut file = File::open(path)?;
    let mut reader = Reader::new();
    let mut buffer = vec![0; READ_BYTES];
    let (mut bytes, mut damage) = (0, None);
    while damage.is_none() {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return Err(error.into()),
        };
        bytes += count as u64;
        progress.update(read_before + bytes, Clock.now());
        match reader.push(&buffer[..count], &mut |packet| each(&packet)) {
            Err(error) if reader.packets() == 0 => {
                return Err(failure::failed(error, "capture anew with tcpdump -w"));
            }
            outcome => damage = outcome.err(),
        }
    }
    Ok(Reading { bytes, packets: reader.packets(), is_cut: reader.is_cut() && damage.is_none(), damage })
}

impl Census {
    fn count(&mut self, packet: &Packet<'_>) {
        match pcap::segment::parse(packet) {
            Ok(segment) => self.survey.push(&segment),
            Err(Unread::LinkType) => self.unread.link_type += 1,
            Err(Unread::Other) => self.unread.other += 1,
            Err(Unread::Fragment) => self.unread.fragments += 1,
            Err(Unread::Cut) => self.unread.cut += 1,
        }
    }
}

/// The flow to look at.
fn pick(census: &Census, choice: Option<Choice>) -> Result<(Flow, Count)> {
    if let Some(largest) = census.survey.largest(|flow| choice.is_none_or(|choice| choice.wants(flow))) {
        return Ok(largest);
    }
    let unread = census.unread;
    Err(match choice {
        Some(choice) if !census.survey.is_empty() => {
            let flows = census.survey.flows();
            let named: Vec<String> = flows.iter().take(NAMED_MAX).map(|(flow, _)| flow.to_string()).collect();
            failure::failed(
                format!("nothing in it goes {choice}"),
                format!("of {} the largest are: {}", things(flows.len() as u64, "flow"), named.join(", ")),
            )
        }
        _ if census.packets == 0 => failure::failed("there is no packet in it", "capture again"),
        _ if unread.link_type > 0 => failure::failed(
            "its link type is not known",
            "Ethernet, Linux cooked, raw IP and loopback are: capture with tcpdump -i INTERFACE -w",
        ),
        _ if unread.cut > 0 => failure::failed(
            "too little of each packet was captured",
            "capture at least 128 bytes (tcpdump -s 128)",
        ),
        _ => failure::failed("there is no TCP or UDP with payload in it", "capture while the stream runs"),
    })
}

fn warnings(census: &Census) -> Vec<String> {
    let mut out = Vec::new();
    if let Some(damage) = census.damage {
        out.push(format!("The capture is read up to a damaged place: {damage}."));
    }
    if census.is_cut {
        out.push("The capture ends within a packet: its writer was stopped.".into());
    }
    if census.unread.fragments > 0 {
        out.push(format!(
            "{} not counted: only the first tells its ports.",
            match census.unread.fragments {
                1 => "1 later fragment of an IP packet is".to_owned(),
                many => format!("{} later fragments of IP packets are", count(many)),
            }
        ));
    }
    out
}

/// The report as people read it.
pub(super) fn table(report: &CaptureReport) -> String {
    let amount = |flow: &FlowReport| {
        let packets = things(flow.packets, "captured packet");
        format!("{}: {} in {packets}", flow.name(), bytes(flow.payload_bytes as f64))
    };
    let mut lines = vec![
        ("Capture", format!("{}, {}", bytes(report.bytes as f64), things(report.packets, "packet"))),
        ("Flow", amount(&report.flow)),
    ];
    let others = report.flows.iter().filter(|flow| **flow != report.flow);
    lines.extend(others.map(|flow| ("Not looked at", amount(flow))));
    let unnamed = report.flow_count.saturating_sub(report.flows.len() as u64);
    if unnamed > 0 {
        lines.push(("", format!("and {}", things(unnamed, "smaller flow"))));
    }
    let warnings = layout::warnings(&report.warnings);
    format!("{}\n\n{}\n{}\n{warnings}", clean(&report.source), facts(&lines), flight::table(&report.flight))
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use clap::Parser;
    use glassline_test_support::capture::{Capture, Format, ethernet, tcp, udp};
    use glassline_test_support::program::Scratch;
    use std::net::SocketAddr;

    #[derive(Debug, Parser)]
    struct Command {
        #[command(flatten)]
        options: Options,
    }

    fn options(arguments: &[&str]) -> Options {
        Command::parse_from(std::iter::once(&"probe").chain(arguments)).options
    }

    fn read_bytes(bytes: &[u8], arguments: &[&str]) -> Result<CaptureReport> {
        let scratch = Scratch::new("capture");
        let path = scratch.write("a.pcap", bytes);
        read(&path, bytes.len() as u64, &options(arguments)).map(|(report, _)| report)
    }

    /// Ten large packets of TCP, ten of UDP, a fragment, and a packet that is neither; then the file is cut.
    fn mixed() -> Vec<u8> {
        let [a, b]: [SocketAddr; 2] = ["192.0.2.1:80", "192.0.2.2:5000"].map(|text| text.parse().unwrap());
        let mut capture = Capture::new(Format::Micros, true, 1);
        for n in 0..10 {
            for ip in [tcp(a, b, 14_480), udp(a, b, 1316)] {
                let packet = ethernet(&ip);
                capture.packet(1_000_000_000 + n * 200_000_000, packet.len(), &packet[..80]);
            }
        }
        let mut fragment = ethernet(&udp(a, b, 1316));
        fragment[21] = 1;
        capture.packet(3_000_000_000, fragment.len(), &fragment);
        capture.packet(3_000_000_000, 60, &[6; 60]);
        capture.packet(3_000_000_000, 60, &[6; 60]);
        capture.bytes()[..capture.bytes().len() - 1].to_vec()
    }

    /// A report with every key.
    pub(in super::super) fn report() -> CaptureReport {
        read_bytes(&mixed(), &["--flight"]).unwrap()
    }

    #[test]
    fn what_is_in_a_capture_is_counted_and_said() {
        let report = report();
        assert_eq!((report.packets, report.flow_count, report.flow.protocol), (22, 2, "TCP"));
        assert_eq!((report.unread.fragments, report.unread.other), (1, 1));
        assert_eq!((report.unsegmented_packets, report.flight.figures.packets), (10, 100));
        assert!(
            report.flight.notes.iter().any(|note| note.contains("10 of 10 packets were captured before"))
        );
        assert_eq!(report.warnings.len(), 2, "{:?}", report.warnings);
        assert!(report.warnings[0].starts_with("The capture ends within a packet"), "{:?}", report.warnings);
        let text = table(&report);
        for words in [
            "TCP 192.0.2.1:80 → 192.0.2.2:5000: 145 kB in 10 captured packets",
            "Not looked at",
            "Before a line of",
            "1 later fragment of an IP packet is not counted",
        ] {
            assert!(text.contains(words), "{words:?} is not in\n{text}");
        }
        assert!(text.lines().all(|line| line.chars().count() <= 120), "{text}");
    }

    #[test]
    fn what_cannot_be_looked_at_says_what_to_do() {
        let error = |bytes: &[u8]| format!("{:#}", read_bytes(bytes, &["--flight"]).unwrap_err());
        let of = |link_type, packet: &[u8]| {
            let mut capture = Capture::new(Format::Ng(6), false, link_type);
            capture.packet(0, 100, packet);
            error(capture.bytes())
        };
        assert!(of(147, &[0; 100]).contains("its link type is not known"));
        assert!(of(1, &[0; 100]).contains("no TCP or UDP"));
        assert!(of(101, b"\x45\0\0\0\0\0\0\0\0\x06\0\0\0\0\0").contains("tcpdump -s 128"));
        assert!(error(Capture::new(Format::Micros, false, 1).bytes()).contains("no packet in it"));
        assert!(
            error(b"\x0a\x0d\x0d\x0a\0\0\0\x1c\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0").contains("byte-order magic")
        );
    }

    #[test]
    fn choices_of_flows() {
        let choice = |text: &str| text.parse::<Choice>();
        assert_eq!(choice("80"), Ok(Choice::Either(80)));
        assert_eq!((choice("from:80"), choice("to:80")), (Ok(Choice::From(80)), Ok(Choice::To(80))));
        for bad in ["", ":80", "80:", "at:80", "65536", "from:", "to:x"] {
            assert!(choice(bad).is_err(), "{bad}");
        }
        let udp = read_bytes(&mixed(), &["--flight", "--flow", "from:80"]).unwrap();
        assert_eq!(udp.flow.protocol, "TCP", "of both on the port the larger one");
    }
}
