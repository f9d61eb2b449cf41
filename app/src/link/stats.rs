//! What is reported about a run: JSON lines in a file, and a view of it on a terminal.
//!
//! A line of JSON once a second: `{"time_s", "links": [{"peer", "address", "connected", …, "channels": [{"id", …}]}]}`.
//! Counts are since the link was made, rates and delays since the line before.

use crate::logging;
use anyhow::{Context, Result};
use glassline_call::direct::LipSync;
use glassline_call::link::session::{ChannelFigures, Delays, PeerStatistics};
use glassline_media::Utc;
use glassline_transport::link::{Ecn, LinkId, PathStatistics};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, IsTerminal, Write};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Channels from here on belong to rooms of ours, which tell of them themselves.
const FIRST_OWN: u8 = glassline_direct::SOUND;

/// What is told beside the link's figures.
pub(crate) struct Extra {
    /// Its name in the line of JSON.
    pub(crate) key: &'static str,
    /// What stands there.
    pub(crate) value: serde_json::Value,
    /// For a terminal, whole lines.
    pub(crate) text: String,
}

/// Tells what stands beside the link's figures, each second.
pub(crate) type Told = Box<dyn FnMut() -> Vec<Extra>>;

/// Figures of a run, and where they go.
pub(super) struct Stats {
    extra: Option<Told>,
    file: Option<BufWriter<File>>,
    /// Standard error is a terminal.
    shown: bool,
    began: Instant,
    reported: Instant,
    before: BTreeMap<LinkId, Counts>,
    /// Says which picture is on screen, where some are shown.
    pictures: Option<Arc<LipSync>>,
}

/// What rates are reckoned from.
#[derive(Default)]
struct Counts {
    sent: u64,
    received: u64,
    channels: BTreeMap<u8, (u64, u64)>,
}

#[derive(Serialize)]
struct Line {
    time_s: f64,
    links: Vec<LinkLine>,
    #[serde(flatten)]
    extra: BTreeMap<&'static str, serde_json::Value>,
}

#[derive(Serialize)]
struct LinkLine {
    peer: String,
    address: Option<String>,
    connected: bool,
    sessions: u64,
    rtt_ms: f64,
    least_rtt_ms: f64,
    queue_ms: f64,
    send_bits: u64,
    receive_bits: u64,
    bandwidth_bits: u64,
    pacing_bits: u64,
    loss: f64,
    sent_packets: u64,
    received_packets: u64,
    lost_packets: u64,
    refused_packets: u64,
    congested_packets: u64,
    marked: bool,
    in_flight_bytes: u64,
    paths: Vec<PathLine>,
    channels: Vec<ChannelLine>,
}

#[derive(Serialize)]
struct PathLine {
    address: String,
    carries: bool,
    silent: bool,
    spare: bool,
    rtt_ms: f64,
    behind_ms: f64,
    queue_ms: f64,
    loss: f64,
    bandwidth_bits: u64,
    sent_bytes: u64,
    datagram_bytes: u16,
}

impl PathLine {
    fn of(path: &PathStatistics) -> PathLine {
        PathLine {
            address: path.path.remote.to_string(),
            carries: path.carries,
            silent: path.silent,
            spare: path.spare,
            rtt_ms: ms(path.rtt),
            behind_ms: ms(path.behind),
            queue_ms: ms(path.queue_delay),
            loss: path.loss,
            bandwidth_bits: path.bandwidth.bits_per_second(),
            sent_bytes: path.sent_bytes,
            datagram_bytes: path.datagram_bytes,
        }
    }
}

#[derive(Serialize)]
struct ChannelLine {
    id: u8,
    sent: u64,
    sent_bytes: u64,
    delivered: u64,
    cancelled: u64,
    lost: u64,
    resent_bytes: u64,
    saved_bytes: u64,
    parity_bytes: u64,
    received: u64,
    received_bytes: u64,
    skipped: u64,
    dropped: u64,
    recovered: u64,
    send_bits: u64,
    receive_bits: u64,
    delay_ms: Option<Delay>,
    /// From the peer's stamps to the output, of messages that were written.
    age_ms: Option<Delay>,
    /// By how much the message that was written last is newer than the picture on screen; negative where it is older.
    ahead_of_picture_ms: Option<f64>,
}

/// How long messages took.
#[derive(Serialize)]
struct Delay {
    p50: f64,
    p95: f64,
    p99: f64,
    max: f64,
}

impl Delay {
    fn of(delays: &Delays) -> Delay {
        Delay { p50: ms(delays.p50), p95: ms(delays.p95), p99: ms(delays.p99), max: ms(delays.max) }
    }
}

/// Bits a second.
fn rate(bytes: u64, passed: Duration) -> u64 {
    (bytes as f64 * 8.0 / passed.as_secs_f64().max(1e-3)) as u64
}

/// Milliseconds from `earlier` to `later`; negative where it is the other way round.
fn ahead_ms(later: Utc, earlier: Utc) -> f64 {
    (later.as_micros() as f64 - earlier.as_micros() as f64) / 1e3
}

fn ms(time: Duration) -> f64 {
    (time.as_secs_f64() * 1e6).round() / 1e3
}

impl Stats {
    pub(super) fn new(
        file: Option<&Path>,
        extra: Option<Told>,
        pictures: Option<Arc<LipSync>>,
    ) -> Result<Stats> {
        let open = |path: &Path| {
            let file = File::create(path).with_context(|| format!("cannot write {}", path.display()))?;
            anyhow::Ok(BufWriter::new(file))
        };
        let now = Instant::now();
        Ok(Stats {
            extra,
            file: file.map(open).transpose()?,
            shown: std::io::stderr().is_terminal(),
            began: now,
            reported: now,
            before: BTreeMap::new(),
            pictures,
        })
    }

    /// Whether there is a line.
    pub(super) fn has_reported(&self) -> bool {
        self.reported > self.began
    }

    /// Whether anybody sees them.
    pub(super) fn is_wanted(&self) -> bool {
        self.file.is_some() || self.shown
    }

    /// Tells what is so now.
    ///
    /// # Errors
    /// The file cannot be written.
    pub(super) fn report(&mut self, peers: &[PeerStatistics]) -> Result<()> {
        if !self.is_wanted() {
            return Ok(());
        }
        let passed = self.reported.elapsed();
        self.reported = Instant::now();
        let links = peers.iter().map(|peer| self.link(peer, passed)).collect();
        self.before.retain(|id, _| peers.iter().any(|peer| peer.id == *id));
        let extras = self.extra.as_mut().map(|extra| extra()).unwrap_or_default();
        let text: String = extras.iter().map(|extra| extra.text.as_str()).collect();
        let extra = extras.into_iter().map(|extra| (extra.key, extra.value)).collect();
        let line = Line { time_s: (self.began.elapsed().as_secs_f64() * 1e3).round() / 1e3, links, extra };
        if let Some(file) = &mut self.file {
            let mut written = || {
                serde_json::to_writer(&mut *file, &line)?;
                file.write_all(b"\n")?;
                file.flush()
            };
            written().context("cannot write the statistics")?;
        }
        if self.shown {
            logging::show(&(table(&line) + &text));
        }
        Ok(())
    }

    fn link(&mut self, peer: &PeerStatistics, passed: Duration) -> LinkLine {
        let picture = self.pictures.as_ref().and_then(|pictures| pictures.captured());
        let counted = &peer.link;
        let before = self.before.entry(peer.id).or_default();
        let send_bits = rate(counted.sent_bytes.saturating_sub(before.sent), passed);
        let receive_bits = rate(counted.received_bytes.saturating_sub(before.received), passed);
        (before.sent, before.received) = (counted.sent_bytes, counted.received_bytes);
        LinkLine {
            peer: peer.name.clone(),
            address: peer.address.map(|address| address.to_string()),
            connected: peer.is_connected,
            sessions: counted.sessions,
            rtt_ms: ms(counted.rtt),
            least_rtt_ms: ms(counted.least_rtt),
            queue_ms: ms(counted.queue_delay),
            send_bits,
            receive_bits,
            bandwidth_bits: counted.bandwidth.bits_per_second(),
            pacing_bits: counted.pacing_rate.bits_per_second(),
            loss: counted.loss,
            sent_packets: counted.sent_packets,
            received_packets: counted.received_packets,
            lost_packets: counted.lost_packets,
            refused_packets: counted.refused_packets,
            congested_packets: counted.congested_packets,
            marked: counted.mark != Ecn::NotCapable,
            in_flight_bytes: counted.in_flight_bytes,
            paths: peer.paths.iter().map(PathLine::of).collect(),
            channels: peer.channels.iter().map(|figures| channel(before, figures, passed, picture)).collect(),
        }
    }
}

fn channel(
    before: &mut Counts,
    figures: &ChannelFigures,
    passed: Duration,
    picture: Option<Utc>,
) -> ChannelLine {
    let counts = figures.counts;
    let (id, sent, received) = (counts.channel, counts.sent, counts.received);
    let (sent_before, received_before) = before.channels.entry(id).or_default();
    // A peer that has restarted counts anew.
    let send_bits = rate(sent.bytes.saturating_sub(*sent_before), passed);
    let receive_bits = rate(received.bytes.saturating_sub(*received_before), passed);
    (*sent_before, *received_before) = (sent.bytes, received.bytes);
    ChannelLine {
        id,
        sent: sent.messages,
        sent_bytes: sent.bytes,
        delivered: sent.delivered,
        cancelled: sent.cancelled,
        lost: sent.lost,
        resent_bytes: sent.resent_bytes,
        saved_bytes: sent.saved_bytes,
        parity_bytes: sent.parity_bytes,
        received: received.messages,
        received_bytes: received.bytes,
        skipped: received.skipped,
        dropped: received.dropped,
        recovered: received.recovered,
        send_bits,
        receive_bits,
        delay_ms: figures.delays.as_ref().map(Delay::of),
        age_ms: figures.ages.as_ref().map(Delay::of),
        ahead_of_picture_ms: figures.last_stamp.zip(picture).map(|(stamp, picture)| ahead_ms(stamp, picture)),
    }
}

/// For a terminal.
fn table(line: &Line) -> String {
    let mut text = String::new();
    for link in &line.links {
        let state = if link.connected { "up" } else { "connecting" };
        let _ = writeln!(
            text,
            "{:>6.0} s  {} {}  {state}  out {} in {} of {}  RTT {:.1} ms  queue {:.1} ms  lost {:.1} %",
            line.time_s,
            link.peer,
            link.address.as_deref().unwrap_or("-"),
            bits(link.send_bits),
            bits(link.receive_bits),
            bits(link.bandwidth_bits),
            link.rtt_ms,
            link.queue_ms,
            link.loss * 100.0,
        );
        for channel in link.channels.iter().filter(|channel| channel.id < FIRST_OWN) {
            let delay = channel.delay_ms.as_ref().map_or_else(String::new, |delay| {
                format!("  delay p50 {:.1} p95 {:.1} p99 {:.1} ms", delay.p50, delay.p95, delay.p99)
            });
            let age = channel
                .age_ms
                .as_ref()
                .map_or_else(String::new, |age| format!("  age p50 {:.1} p95 {:.1} ms", age.p50, age.p95));
            let ahead = channel
                .ahead_of_picture_ms
                .map_or_else(String::new, |ahead| format!("  ahead of the picture {ahead:.1} ms"));
            let _ = writeln!(
                text,
                "   channel {:>2}  out {} in {}  resent {} B  cancelled {} lost {} skipped {}{delay}{age}{ahead}",
                channel.id,
                bits(channel.send_bits),
                bits(channel.receive_bits),
                channel.resent_bytes,
                channel.cancelled,
                channel.lost,
                channel.skipped + channel.dropped,
            );
        }
    }
    if line.links.is_empty() {
        let _ = writeln!(text, "{:>6.0} s  no peer", line.time_s);
    }
    text
}

/// A rate for people.
fn bits(rate: u64) -> String {
    match rate as f64 {
        rate if rate >= 1e9 => format!("{:.2} Gbit/s", rate / 1e9),
        rate if rate >= 1e6 => format!("{:.2} Mbit/s", rate / 1e6),
        rate => format!("{:.1} kbit/s", rate / 1e3),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_readable() {
        assert_eq!(rate(1000, Duration::from_millis(500)), 16_000);
        assert_eq!(bits(1_500), "1.5 kbit/s");
        assert_eq!(bits(2_500_000), "2.50 Mbit/s");
        assert_eq!(bits(7_000_000_000), "7.00 Gbit/s");
    }

    #[test]
    fn the_view_names_what_there_is() {
        let millis = Duration::from_millis;
        let delays =
            Delays { p50: millis(50), p95: millis(95), p99: millis(99), max: Duration::from_micros(100_500) };
        let delay = Delay::of(&delays);
        assert_eq!((delay.p50, delay.p99, delay.max), (50.0, 99.0, 100.5));
        let channel = ChannelLine {
            id: 7,
            sent: 1,
            sent_bytes: 1,
            delivered: 1,
            cancelled: 2,
            lost: 3,
            resent_bytes: 4,
            saved_bytes: 0,
            parity_bytes: 0,
            received: 0,
            received_bytes: 0,
            skipped: 0,
            dropped: 0,
            recovered: 0,
            send_bits: 8000,
            receive_bits: 0,
            delay_ms: Some(delay),
            age_ms: Some(Delay::of(&delays)),
            ahead_of_picture_ms: Some(ahead_ms(Utc::from_micros(1000), Utc::from_micros(3500))),
        };
        let link = LinkLine {
            peer: "drone".into(),
            address: Some("192.0.2.1:7000".into()),
            connected: true,
            sessions: 1,
            rtt_ms: 12.5,
            least_rtt_ms: 12.0,
            queue_ms: 0.5,
            send_bits: 9000,
            receive_bits: 0,
            bandwidth_bits: 1_000_000,
            pacing_bits: 0,
            loss: 0.02,
            sent_packets: 1,
            received_packets: 1,
            lost_packets: 0,
            refused_packets: 0,
            congested_packets: 0,
            marked: true,
            in_flight_bytes: 0,
            paths: vec![],
            channels: vec![channel],
        };
        let text = table(&Line { time_s: 3.0, links: vec![link], extra: BTreeMap::new() });
        for part in [
            "drone 192.0.2.1:7000  up",
            "age p50 50.0",
            "ahead of the picture -2.5 ms",
            "RTT 12.5 ms",
            "channel  7",
            "cancelled 2 lost 3",
            "p50",
            "2.0 %",
        ] {
            assert!(text.contains(part), "{part} in {text}");
        }
        assert!(table(&Line { time_s: 0.0, links: vec![], extra: BTreeMap::new() }).contains("no peer"));
    }
}
