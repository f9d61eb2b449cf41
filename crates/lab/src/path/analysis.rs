//! From the arrivals of bursts to rate and queue.
//!
//! * **Rate.** While the bottleneck's queue is not empty, packets leave it one service time apart: the slope of arrival times over
//!   their number (least squares, so that network cards that report several packets at once do no harm), the median of the longest
//!   bursts. (Dovrolis et al., "What do packet dispersion techniques measure?", INFOCOM 2001, has what cross traffic does to it.)
//! * **Queue.** A burst that is longer than a drop-tail queue fills it: from a place on, nearly all packets are lost. A packet that
//!   arrives and is followed by a lost one took the last place: what it waited beyond the burst's first packet, in service times, is
//!   the length of the queue. The packet that is being sent is not counted.
//! * **Policers** drop as well, but their packets have not waited. Then there is no queue to measure, and the rate is what passes of
//!   the part of the burst that is behind the first loss.

use super::burst::BurstRecord;
use super::direction::DirectionRecord;
use super::train::CHUNK;
use super::{BURST_BPS, PACKET_BYTES};

/// Fewer arrivals have no slope that is worth anything.
const LEAST_ARRIVALS: usize = 8;
/// Packets at the end of a burst that must be nearly all lost.
const LEAST_TAIL: usize = 8;
/// The share of the expected losses that they must have.
const TAIL_SHARE: f64 = 0.7;
/// A line that is faster than this share of the speed within a burst cannot be told from the sender.
const FASTEST_SHARE: f64 = 0.8;
/// Packets that have waited for fewer packets than this have met no queue.
const LEAST_QUEUE: f64 = 1.5;
/// The same in the time in which packets that are handed over together leave the sender: what they wait for each other there.
const LEAST_CHUNKS: f64 = 1.5;

/// What follows from the bursts of a direction.
#[derive(Clone, Debug, PartialEq)]
pub struct Findings {
    /// Bits of IP packets a second; or why it is not known.
    pub rate_bps: Result<f64, String>,
    /// Packets of a burst that the queue holds beside the one that is being sent; or why it is not known.
    pub queue_packets: Result<f64, String>,
    /// Packets that a policer lets pass at once.
    pub policer_packets: Option<f64>,
    /// From one arrival to the next in the longest bursts, seconds, whatever the reason.
    pub packet_seconds: Option<f64>,
    /// How many packets pass before nearly all are lost, of a queue or of a policer.
    pub depth_packets: Option<f64>,
    /// Bursts that were longer than the queue.
    pub overflows: usize,
}

impl Default for Findings {
    fn default() -> Findings {
        let unknown = || Err("no burst was sent".to_owned());
        Findings {
            rate_bps: unknown(),
            queue_packets: unknown(),
            policer_packets: None,
            packet_seconds: None,
            depth_packets: None,
            overflows: 0,
        }
    }
}

/// A burst with what follows from it alone.
struct Burst<'a> {
    record: &'a BurstRecord,
    /// Bits a second by the slope of its arrivals.
    slope_bps: Option<f64>,
    /// Bits a second at which it was sent; that of the fastest device where it was sent at once.
    speed_bps: f64,
}

/// Infers rate and queue. Cost: in proportion to all packets.
pub fn analyse(record: &DirectionRecord) -> Findings {
    let packet_bits = (u64::from(PACKET_BYTES) + record.header_bytes) as f64 * 8.0;
    let complete = record.bursts.iter().filter(|burst| burst.sent.refused == 0);
    let bursts: Vec<Burst<'_>> = complete.map(|record| Burst::new(record, packet_bits)).collect();
    let mut findings = Findings::default();
    let most = bursts.iter().map(|burst| burst.record.arrivals.len()).max().unwrap_or(0);
    if most == 0 {
        if !record.bursts.is_empty() {
            let nothing = "no packet of a burst has arrived".to_owned();
            (findings.rate_bps, findings.queue_packets) = (Err(nothing.clone()), Err(nothing));
        }
        return findings;
    }
    let longest = bursts.iter().filter(|burst| burst.record.arrivals.len() * 2 >= most);
    let slopes: Vec<f64> = longest.clone().filter_map(|burst| burst.slope_bps).collect();
    let speed_bps = median(longest.map(|burst| burst.speed_bps)).unwrap_or(BURST_BPS as f64);
    let slope_bps = median(slopes.iter().copied());
    findings.packet_seconds = slope_bps.map(|slope| packet_bits / slope);
    findings.rate_bps = match slope_bps {
        None => Err(format!("{most} packets of one burst have arrived at most, too few for a rate")),
        Some(slope) if slope >= FASTEST_SHARE * speed_bps => Err(format!(
            "packets arrive as fast as they are sent, {}: the line is no slower than this end",
            in_megabits(speed_bps)
        )),
        Some(slope) => Ok(slope),
    };
    let expected = 1.0 - (slope_bps.unwrap_or(0.0) / speed_bps).min(0.5);
    let overflowing: Vec<(&Burst<'_>, u16)> =
        bursts.iter().filter_map(|burst| Some((burst, burst.overflow(expected)?))).collect();
    findings.overflows = overflowing.len();
    find_queue(&mut findings, &overflowing, packet_bits, record);
    if record.socket_dropped > 0 && findings.queue_packets.is_ok() {
        findings.queue_packets = Err(format!(
            "the receiver's socket had no room for {} packets, so that losses are not the line's; its machine allows more by \
             sysctl net.core.rmem_max",
            record.socket_dropped
        ));
    }
    findings
}

fn find_queue(
    findings: &mut Findings,
    overflowing: &[(&Burst<'_>, u16)],
    packet_bits: f64,
    record: &DirectionRecord,
) {
    if overflowing.is_empty() {
        findings.queue_packets = Err(no_overflow(record));
        return;
    }
    // Where no packet has waited, the slope is that of the sender, and what passes behind the first loss is the rate.
    let passed: f64 = overflowing.iter().map(|(burst, first)| burst.passed_behind(*first)).sum();
    let took: f64 = overflowing.iter().map(|(burst, first)| burst.seconds_behind(*first, packet_bits)).sum();
    let tail_bps = if took > 0.0 { passed / took * packet_bits } else { 0.0 };
    let waits = overflowing.iter().filter_map(|(burst, first)| burst.longest_wait(*first));
    let wait_seconds = median(waits).unwrap_or(0.0);
    let has_waited = |rate: f64| {
        let chunk_seconds = f64::from(CHUNK) * packet_bits / BURST_BPS as f64;
        wait_seconds * rate / packet_bits >= LEAST_QUEUE && wait_seconds >= LEAST_CHUNKS * chunk_seconds
    };
    let rate = match &findings.rate_bps {
        Ok(rate) if has_waited(tail_bps.max(*rate)) => *rate,
        Err(reason) if has_waited(tail_bps) => {
            findings.queue_packets = Err(reason.clone());
            return;
        }
        _ => {
            let bucket = median(overflowing.iter().map(|(_, first)| f64::from(*first))).unwrap_or(0.0);
            findings.policer_packets = Some(bucket);
            findings.depth_packets = Some(bucket);
            findings.rate_bps =
                if tail_bps > 0.0 { Ok(tail_bps) } else { Err("too few packets passed".to_owned()) };
            findings.queue_packets = Err(format!(
                "packets are dropped without having waited: a policer, which lets {bucket:.0} packets pass at once"
            ));
            return;
        }
    };
    let packets = wait_seconds * rate / packet_bits;
    findings.depth_packets = Some(packets);
    findings.queue_packets = Ok(packets);
}

/// Why no queue was found where no burst was longer than it.
fn no_overflow(record: &DirectionRecord) -> String {
    let whole = record.bursts.iter().filter(|burst| !burst.arrivals.is_empty());
    let longest = whole.clone().map(|burst| burst.spec.packets).max().unwrap_or(0);
    let is_dropping = whole.clone().any(|burst| burst.lost_at().len() >= LEAST_TAIL);
    let what = if is_dropping {
        "bursts lose packets, but not all from a place on: the queue drops early, or the line loses packets by itself".to_owned()
    } else {
        format!("bursts of up to {longest} packets pass")
    };
    match &record.stopped {
        Some(reason) => format!("{what}; {reason}"),
        None => what,
    }
}

impl<'a> Burst<'a> {
    fn new(record: &'a BurstRecord, packet_bits: f64) -> Burst<'a> {
        let received: Vec<f64> = {
            let first = record.arrivals.first().map_or(0, |arrival| arrival.received_ns);
            record.arrivals.iter().map(|arrival| seconds(arrival.received_ns.saturating_sub(first))).collect()
        };
        // What a shaper lets pass at once at first is no part of its rate.
        let skipped = if received.len() >= 4 * LEAST_ARRIVALS { received.len() / 4 } else { 0 };
        let slope = slope(&received[skipped..]).filter(|_| received.len() >= LEAST_ARRIVALS);
        let whole_chunks = (record.sent.packets.saturating_sub(1)) / CHUNK * CHUNK;
        let took = seconds(record.sent.last_ns.saturating_sub(record.sent.first_ns));
        let speed_bps =
            if took > 0.0 { f64::from(whole_chunks) * packet_bits / took } else { BURST_BPS as f64 };
        Burst { record, slope_bps: slope.map(|seconds| packet_bits / seconds), speed_bps }
    }

    /// The place from which on nearly all packets were lost; `None` where the burst was not longer than the queue. `expected` is the
    /// share of packets that a full queue drops.
    fn overflow(&self, expected: f64) -> Option<u16> {
        let has_arrived = self.record.has_arrived();
        let mut lost = 0;
        let mut begins = None;
        for (index, has_arrived) in has_arrived.iter().enumerate().rev() {
            if *has_arrived {
                continue;
            }
            lost += 1;
            let behind = has_arrived_behind(self.record.spec.packets, index);
            if behind >= LEAST_TAIL
                && lost >= LEAST_TAIL
                && f64::from(lost as u16) >= TAIL_SHARE * expected * behind as f64
            {
                begins = u16::try_from(index).ok();
            }
        }
        begins
    }

    /// How long the packets waited that took the last place of the queue, seconds.
    fn longest_wait(&self, first_lost: u16) -> Option<f64> {
        let has_arrived = self.record.has_arrived();
        let delays = self.record.delays();
        // The first packet has waited for nothing; where it was lost, the quickest one stands for it.
        let base = delays.iter().find(|(index, _)| *index == 0).map_or(0, |(_, delay)| *delay);
        let took_the_last_place = |index: u16| {
            index + 1 >= first_lost && has_arrived.get(usize::from(index) + 1).is_some_and(|arrived| !arrived)
        };
        let waits = delays.iter().filter(|(index, _)| took_the_last_place(*index));
        let at_the_end = median(waits.map(|(_, delay)| seconds(delay.saturating_sub(base))));
        // A queue that drops at its head has no such packets: there the last packet waits longest.
        let at_all = delays.iter().map(|(_, delay)| seconds(delay.saturating_sub(base))).fold(0.0, f64::max);
        Some(at_the_end.filter(|wait| *wait >= TAIL_SHARE * at_all).unwrap_or(at_all))
    }

    /// Packets that arrived although a packet before them was lost at a full queue.
    fn passed_behind(&self, first_lost: u16) -> f64 {
        self.record.arrivals.iter().filter(|arrival| arrival.index > first_lost).count() as f64
    }

    /// How long sending the packets behind the first lost one took, seconds.
    fn seconds_behind(&self, first_lost: u16, packet_bits: f64) -> f64 {
        f64::from(self.record.spec.packets.saturating_sub(first_lost + 1)) * packet_bits / self.speed_bps
    }
}

/// Packets of a burst from the place `index` on.
fn has_arrived_behind(packets: u16, index: usize) -> usize {
    usize::from(packets).saturating_sub(index)
}

/// The slope of values over their places, by least squares; `None` of fewer than two, or where it is not positive.
fn slope(values: &[f64]) -> Option<f64> {
    let count = values.len() as f64;
    if values.len() < 2 {
        return None;
    }
    let middle = (count - 1.0) / 2.0;
    let mean = values.iter().sum::<f64>() / count;
    let (mut across, mut square) = (0.0, 0.0);
    for (place, value) in values.iter().enumerate() {
        let distance = place as f64 - middle;
        across += distance * (value - mean);
        square += distance * distance;
    }
    Some(across / square).filter(|slope| *slope > 0.0)
}

/// The value in the middle, the mean of two.
pub(super) fn median(values: impl Iterator<Item = f64>) -> Option<f64> {
    let mut sorted: Vec<f64> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        count if count % 2 == 1 => Some(sorted[middle]),
        _ => Some((sorted[middle - 1] + sorted[middle]) / 2.0),
    }
}

fn seconds(nanos: u64) -> f64 {
    nanos as f64 / 1e9
}

/// For people: `12.3 Mbit/s`.
pub(super) fn in_megabits(bits_per_second: f64) -> String {
    let megabits = bits_per_second / 1e6;
    match megabits {
        100.0.. => format!("{megabits:.0} Mbit/s"),
        10.0.. => format!("{megabits:.1} Mbit/s"),
        _ => format!("{megabits:.2} Mbit/s"),
    }
}

#[cfg(test)]
#[path = "analysis_tests.rs"]
mod tests;
