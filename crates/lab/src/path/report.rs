//! What is told of a measurement: a table, JSON, and what follows for a stream.

use super::analysis::{Findings, analyse, in_megabits};
use super::burst::BurstRecord;
use super::direction::DirectionRecord;
use super::{MAX_BURST, PACKET_BYTES};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Duration;

/// The share of the rate that a stream is recommended to use: sound, headers, other traffic and what comes again are beside it.
const STREAM_SHARE: f64 = 0.7;
/// The share of the rate that viewers are recommended to be paced at.
const PACING_SHARE: f64 = 0.9;
/// The share of the queue that a burst is recommended to fill.
const BURST_SHARE: f64 = 0.5;
/// A VBV of less time than this holds no picture of 25 a second.
const SHORTEST_VBV_MS: f64 = 40.0;
/// The VBV that encoders have if nothing else is said.
const USUAL_VBV_MS: f64 = 1000.0;

/// Why values are `null`, by their names.
pub type Reasons = BTreeMap<&'static str, String>;

/// A whole measurement.
#[derive(Clone, Debug, Serialize)]
pub struct PathReport {
    /// Rises when a key changes its meaning.
    pub schema: u32,
    /// The shortest round trip of the messages before the measurement, milliseconds; `None` without an answer.
    pub round_trip_ms: Option<f64>,
    /// The bound on the mean of any second that both ends have kept, bits a second.
    pub max_rate_bps: u64,
    /// Bytes of IP packets that were sent here.
    pub sent_bytes: u64,
    /// Bytes of IP packets that have arrived here.
    pub received_bytes: u64,
    /// From the caller to the listener.
    pub up: Direction,
    /// From the listener to the caller.
    pub down: Direction,
    /// Why the measurement did not come to its end; `None` where it did.
    pub ended: Option<String>,
}

/// One direction. What could not be reached is `None`, and `reason` says why.
#[derive(Clone, Debug, Serialize)]
pub struct Direction {
    /// Rate of the bottleneck, bits of IP packets a second.
    pub bottleneck_bps: Option<u64>,
    /// Packets of a burst that the queue before it holds, beside the one that is being sent.
    pub queue_packets: Option<u64>,
    /// The same in bytes of IP packets.
    pub queue_bytes: Option<u64>,
    /// How long the last one of them waits, milliseconds.
    pub queue_ms: Option<f64>,
    /// Packets that a policer lets pass at once, where there is one.
    pub policer_packets: Option<u64>,
    /// Share of small packets without load that are lost.
    pub loss: Option<f64>,
    /// How much longer than the quickest of them the slowest but a twentieth take, milliseconds.
    pub jitter_ms: Option<f64>,
    /// Share of all packets that arrived after one that was sent later.
    pub reordered: Option<f64>,
    /// Share of all packets that arrived more than once.
    pub duplicated: Option<f64>,
    /// The largest IP packet that passes whole, bytes.
    pub mtu: Option<u64>,
    /// Why values are `null`.
    pub reason: Reasons,
    /// What passed of each burst, in the order in which they were sent.
    pub bursts: Vec<BurstFigures>,
    /// The delays within the burst of which most packets arrived.
    pub longest_burst: Option<LongestBurst>,
    /// What follows for a stream in this direction.
    pub recommendation: Option<Recommendation>,
}

/// What passed of a burst.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct BurstFigures {
    /// Packets that were sent.
    pub packets: u16,
    /// Packets that arrived.
    pub arrived: usize,
    /// The places of those that did not, from 0.
    pub lost_at: Vec<u16>,
    /// How much longer than the quickest packet the slowest took, milliseconds.
    pub delay_ms_max: Option<f64>,
    /// The speed at which it was sent, bits of IP packets a second; `None` where it was handed to the system at once.
    pub sent_bps: Option<u64>,
}

/// Delays within a burst.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LongestBurst {
    /// Packets that were sent.
    pub packets: u16,
    /// For each packet how much longer than the quickest it took, milliseconds; `None` for those that are lost.
    pub delay_ms: Vec<Option<f64>>,
}

/// What follows for a stream.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Recommendation {
    /// The bit rate of all streams together, bits a second.
    pub bit_rate_bps: u64,
    /// The longest burst, bytes: half of what the queue holds.
    pub burst_bytes: u64,
    /// The VBV of a stream of that bit rate that leaves in bursts, milliseconds; `None`: not even one picture fits.
    pub vbv_ms: Option<u64>,
    /// The rate at which viewers are paced, bits a second.
    pub pacing_bps: u64,
    /// The same in a sentence.
    pub text: String,
}

impl PathReport {
    pub(super) fn new(
        up: &DirectionRecord,
        down: &DirectionRecord,
        round_trip: Option<Duration>,
        max_rate_bps: u64,
        (sent_bytes, received_bytes): (u64, u64),
    ) -> PathReport {
        PathReport {
            schema: 1,
            round_trip_ms: round_trip.map(|time| rounded(time.as_secs_f64() * 1e3)),
            max_rate_bps,
            sent_bytes,
            received_bytes,
            up: Direction::new(up, "up"),
            down: Direction::new(down, "down"),
            ended: None,
        }
    }

    /// Whether nothing has arrived, neither here nor at the other end.
    pub fn is_empty(&self) -> bool {
        [&self.up, &self.down]
            .iter()
            .all(|way| way.loss.is_none_or(|loss| loss >= 1.0) && way.longest_burst.is_none())
    }

    /// The report for people, with a line's end at its end.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let trip = self.round_trip_ms.map_or("–".to_owned(), |ms| format!("{ms:.1} ms"));
        let _ = writeln!(
            out,
            "round trip {trip}; sent {}, received {}",
            in_megabytes(self.sent_bytes),
            in_megabytes(self.received_bytes)
        );
        for (name, way) in
            [("up: from here to the listener", &self.up), ("down: from the listener to here", &self.down)]
        {
            let _ = writeln!(out, "\n{name}");
            way.write(&mut out);
        }
        if let Some(reason) = &self.ended {
            let _ = writeln!(out, "\nended early: {reason}");
        }
        out
    }
}

impl Direction {
    fn new(record: &DirectionRecord, name: &str) -> Direction {
        let findings = analyse(record);
        let packet_bytes = u64::from(PACKET_BYTES) + record.header_bytes;
        let mut reason = Reasons::new();
        let mut keep = |key, value: &Result<f64, String>| match value {
            Ok(value) => Some(*value),
            Err(why) => {
                reason.insert(key, why.clone());
                None
            }
        };
        let rate = keep("bottleneck_bps", &findings.rate_bps);
        let queue = keep("queue", &findings.queue_packets).map(|packets| packets.round() as u64);
        let queue_ms =
            queue.zip(rate).map(|(packets, rate)| (packets * packet_bytes * 8) as f64 / rate * 1e3);
        let idle = record.idle.as_ref();
        let loss = idle.map(|idle| 1.0 - idle.arrivals.len() as f64 / f64::from(idle.spec.packets.max(1)));
        if loss.is_none() {
            reason.insert("loss", "the packets without load were not all sent in time".to_owned());
        }
        let mtu = record.mtu.result().map_err(|why| reason.insert("mtu", why)).ok();
        let trains: Vec<&BurstRecord> = idle.into_iter().chain(&record.bursts).collect();
        let arrived: usize = trains.iter().map(|train| train.arrivals.len()).sum();
        let share = |count: usize| (arrived > 0).then(|| count as f64 / arrived as f64);
        if arrived == 0 {
            reason.insert("reordered", "nothing has arrived".to_owned());
        }
        let longest = record.bursts.iter().max_by_key(|burst| burst.arrivals.len());
        Direction {
            bottleneck_bps: rate.map(|rate| rate.round() as u64),
            queue_packets: queue,
            queue_bytes: queue.map(|packets| packets * packet_bytes),
            queue_ms: queue_ms.map(rounded),
            policer_packets: findings.policer_packets.map(|packets| packets.round() as u64),
            loss: loss.map(|loss| (loss * 1e6).round() / 1e6),
            jitter_ms: idle.and_then(jitter_ms),
            reordered: share(trains.iter().map(|train| train.reordered()).sum()),
            duplicated: share(trains.iter().map(|train| usize::from(train.duplicates)).sum()),
            mtu,
            recommendation: rate.and_then(|rate| Recommendation::new(rate, &findings, record, name)),
            reason,
            bursts: record.bursts.iter().map(|burst| BurstFigures::new(burst, packet_bytes)).collect(),
            longest_burst: longest.filter(|burst| !burst.arrivals.is_empty()).map(LongestBurst::new),
        }
    }

    fn write(&self, out: &mut String) {
        let why = |key: &str| self.reason.get(key).map_or(String::new(), |reason| format!(" ({reason})"));
        let rate = self.bottleneck_bps.map(|rate| in_megabits(rate as f64));
        let queue = match (self.queue_packets, self.queue_bytes, self.queue_ms) {
            (Some(packets), Some(bytes), Some(ms)) => {
                Some(format!("{packets} packets, {}, {ms:.1} ms", in_kilobytes(bytes)))
            }
            _ => None,
        };
        let share = |share: f64| format!("{:.2} %", share * 100.0);
        let rows = [
            ("bottleneck", rate, why("bottleneck_bps")),
            ("queue", queue, why("queue")),
            ("loss without load", self.loss.map(share), why("loss")),
            ("jitter without load", self.jitter_ms.map(|ms| format!("{ms:.1} ms")), String::new()),
            ("reordered", self.reordered.map(share), why("reordered")),
            ("duplicated", self.duplicated.filter(|share| *share > 0.0).map(share), String::new()),
            ("MTU", self.mtu.map(|bytes| format!("{bytes} bytes")), why("mtu")),
        ];
        for (name, value, reason) in rows {
            if value.is_some() || !reason.is_empty() {
                let _ =
                    writeln!(out, "  {name:<20} {}{reason}", value.unwrap_or_else(|| "not known".to_owned()));
            }
        }
        if !self.bursts.is_empty() {
            let _ = writeln!(out, "  bursts               packets  arrived  first lost at  longest wait");
        }
        for burst in &self.bursts {
            let first = burst.lost_at.first().map_or("–".to_owned(), |first| (first + 1).to_string());
            let wait = burst.delay_ms_max.map_or("–".to_owned(), |ms| format!("{ms:.1} ms"));
            let _ = writeln!(out, "  {:>27}  {:>7}  {first:>13}  {wait:>12}", burst.packets, burst.arrived);
        }
        if let Some(recommendation) = &self.recommendation {
            let _ = writeln!(out, "  {}", recommendation.text);
        }
    }
}

/// The 95th percentile of the delays, milliseconds.
fn jitter_ms(idle: &BurstRecord) -> Option<f64> {
    let mut delays: Vec<u64> = idle.delays().into_iter().map(|(_, delay)| delay).collect();
    delays.sort_unstable();
    let place = (delays.len() * 95).div_ceil(100).checked_sub(1)?;
    delays.get(place).map(|nanos| rounded(*nanos as f64 / 1e6))
}

impl BurstFigures {
    fn new(burst: &BurstRecord, packet_bytes: u64) -> BurstFigures {
        let most = burst.delays().into_iter().map(|(_, delay)| delay).max();
        let took = burst.sent.last_ns.saturating_sub(burst.sent.first_ns);
        let before_the_last = u64::from(burst.spec.packets.saturating_sub(1)) / 16 * 16;
        BurstFigures {
            packets: burst.spec.packets,
            arrived: burst.arrivals.len(),
            lost_at: burst.lost_at(),
            delay_ms_max: most.map(|nanos| rounded(nanos as f64 / 1e6)),
            sent_bps: (before_the_last * packet_bytes * 8 * 1_000_000_000).checked_div(took),
        }
    }
}

impl LongestBurst {
    fn new(burst: &BurstRecord) -> LongestBurst {
        let mut delay_ms = vec![None; usize::from(burst.spec.packets)];
        for (index, delay) in burst.delays() {
            if let Some(place) = delay_ms.get_mut(usize::from(index)) {
                *place = Some(rounded(delay as f64 / 1e6));
            }
        }
        LongestBurst { packets: burst.spec.packets, delay_ms }
    }
}

impl Recommendation {
    fn new(rate: f64, findings: &Findings, record: &DirectionRecord, name: &str) -> Option<Recommendation> {
        // Where no burst was too long, the longest one is what is known of the queue.
        let whole = record.bursts.iter().filter(|burst| burst.lost_at().is_empty());
        let passed = whole.map(|burst| burst.spec.packets).max().unwrap_or(0);
        let depth = findings.depth_packets.unwrap_or(f64::from(passed.min(MAX_BURST)));
        let packet_bytes = (u64::from(PACKET_BYTES) + record.header_bytes) as f64;
        let burst_bytes = (depth * BURST_SHARE * packet_bytes).max(packet_bytes) as u64;
        let bit_rate = round_down(rate * STREAM_SHARE);
        let pacing = round_down(rate * PACING_SHARE);
        if bit_rate == 0 {
            return None;
        }
        let vbv = (burst_bytes as f64 * 8.0 / bit_rate as f64 * 1e3).min(USUAL_VBV_MS);
        let vbv_ms = (vbv >= SHORTEST_VBV_MS).then_some(vbv as u64);
        let (rate_text, pacing_text) = (in_option(bit_rate), in_option(pacing));
        let buffer = match vbv_ms {
            Some(ms) => format!(
                "--vbv {ms}ms: no burst of it is longer than {}, half of the queue",
                in_kilobytes(burst_bytes)
            ),
            None => format!(
                "--vbv 1frame --intra-refresh: the queue holds no key frame, since {} are half of it",
                in_kilobytes(burst_bytes)
            ),
        };
        let text = format!(
            "For streams {name} of {} in all: encode --bitrate {rate_text} {buffer}. With serve, [viewer] pacing = \
             \"{pacing_text}\" keeps bursts out of the queue; several viewers on this line share that rate.",
            in_megabits(bit_rate as f64)
        );
        Some(Recommendation { bit_rate_bps: bit_rate, burst_bytes, vbv_ms, pacing_bps: pacing, text })
    }
}

/// Two digits, and at least hundreds of kilobits from 1 Mbit/s on.
fn round_down(bits_per_second: f64) -> u64 {
    let step = if bits_per_second >= 10e6 {
        1e6
    } else if bits_per_second >= 1e6 {
        1e5
    } else {
        1e4
    };
    (bits_per_second / step).floor() as u64 * step as u64
}

/// As options are written: `1400k`, `12M`.
fn in_option(bits_per_second: u64) -> String {
    if bits_per_second.is_multiple_of(1_000_000) {
        format!("{}M", bits_per_second / 1_000_000)
    } else {
        format!("{}k", bits_per_second / 1_000)
    }
}

fn in_kilobytes(bytes: u64) -> String {
    format!("{:.0} kB", bytes as f64 / 1e3)
}

/// For people: `12.3 MB`.
pub(super) fn in_megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// Microseconds of milliseconds.
fn rounded(millis: f64) -> f64 {
    (millis * 1e3).round() / 1e3
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
