//! The program's clock (PCR): how often it comes, how steadily, and what time it is at a packet.

use super::report::{ClockReport, Jitter};
use crate::samples::Samples;
use glassline_media::Time;
use glassline_media::container::ts::Pcr;
use std::time::Duration;

/// A step beyond this is a jump of the clock, not an interval.
const JUMP_TICKS: u64 = 10 * Pcr::RATE;
/// Where a tenth to nine tenths of the intervals have rates this near, the rate counts as constant.
const CONSTANT_RATE_SPREAD: f64 = 0.05;
/// So long after its first reference a stream may catch up: servers begin at the last key frame, and send what has
/// been since at once.
const OPENING: Duration = Duration::from_millis(500);
/// References in the opening that are looked at.
const OPENING_MAX: usize = 4096;
const NANOS_PER_TICK: f64 = 1e9 / Pcr::RATE as f64;

/// One reference, where it was seen.
#[derive(Clone, Copy, Debug)]
struct Seen {
    pcr: Pcr,
    packet: u64,
    arrival: Time,
}

/// Follows the PCR.
#[derive(Clone, Debug, Default)]
pub(super) struct ClockTrack {
    last: Option<Seen>,
    /// 27 MHz ticks between neighbours.
    intervals: Samples,
    /// Ticks a packet, interval by interval.
    paces: Samples,
    /// What each interval deviates with: ticks and packets. Kept alike, so that they stay pairs.
    steps: Samples,
    step_packets: Samples,
    first_arrival: Option<Time>,
    /// Arrival less clock, nanoseconds, counted from the first reference: in the opening, and after it.
    opening: Vec<f64>,
    lateness: Samples,
    lateness_now: f64,
    jumps: u64,
    /// Ticks from the last reference but one to the last.
    last_interval: u64,
    /// Ticks and packets within unbroken stretches.
    span_ticks: u64,
    span_packets: u64,
}

impl ClockTrack {
    /// Takes a reference on packet number `packet` that came at `arrival`; `announced`: the packet says that the
    /// clock jumps.
    /// Returns whether it does.
    pub(super) fn push(&mut self, pcr: Pcr, packet: u64, arrival: Time, announced: bool) -> bool {
        let seen = Seen { pcr, packet, arrival };
        let Some(last) = self.last.replace(seen) else {
            self.note_lateness(arrival);
            return false;
        };
        let (ticks, packets) = (pcr.since(last.pcr), packet.saturating_sub(last.packet));
        if announced || ticks > JUMP_TICKS {
            self.jumps += 1;
            return true;
        }
        self.last_interval = ticks;
        self.span_ticks += ticks;
        self.span_packets += packets;
        self.intervals.push(ticks as f64);
        self.steps.push(ticks as f64);
        self.step_packets.push(packets as f64);
        if packets > 0 {
            self.paces.push(ticks as f64 / packets as f64);
        }
        let arrived = arrival.since(last.arrival).as_nanos() as f64;
        self.lateness_now += arrived - ticks as f64 * NANOS_PER_TICK;
        self.note_lateness(arrival);
        false
    }

    fn note_lateness(&mut self, arrival: Time) {
        let first = *self.first_arrival.get_or_insert(arrival);
        if arrival.since(first) <= OPENING && self.opening.len() < OPENING_MAX {
            self.opening.push(self.lateness_now);
        } else {
            self.lateness.push(self.lateness_now);
        }
    }

    /// How far the stream caught up in its opening, nanoseconds, and the lateness of all that came since.
    fn settled(&self) -> Option<(f64, Samples)> {
        let by_value = |a: &(usize, &f64), b: &(usize, &f64)| a.1.total_cmp(b.1);
        let (caught_up, least) = self.opening.iter().enumerate().min_by(by_value)?;
        let mut settled = self.lateness.clone();
        self.opening[caught_up..].iter().for_each(|late| settled.push(*late));
        Some((self.opening[0] - least, settled))
    }

    /// The clock at packet `packet`, extrapolated from the last reference with the stream's mean pace; `None`
    /// before the second reference, which is the first to show a pace.
    pub(super) fn at(&self, packet: u64) -> Option<Pcr> {
        let last = self.last?;
        let (ticks, packets) = (self.span_ticks as f64, self.span_packets as f64);
        let pace = (packets > 0.0).then_some(ticks / packets)?;
        // No further than the next reference is due. A large picture has more packets than the mean before that, and
        // comes sooner than the mean pace says.
        let due = self.last_interval.min(Pcr::RATE / 10) as f64;
        let ahead = (packet.saturating_sub(last.packet) as f64 * pace).min(due);
        Some(Pcr::new(last.pcr.ticks() + ahead as u64))
    }

    /// Seconds and packets between the first and the last reference, jumps left out.
    pub(super) fn span(&self) -> Option<(f64, u64)> {
        (self.span_ticks > 0).then(|| (self.span_ticks as f64 / Pcr::RATE as f64, self.span_packets))
    }

    /// The report; `live`: arrival times mean something.
    pub(super) fn report(&self, pid: u16, live: bool) -> ClockReport {
        let to_ms = |ticks: f64| ticks * NANOS_PER_TICK / 1e6;
        ClockReport {
            pid,
            interval_ms: self.intervals.distribution(to_ms),
            jumps: self.jumps,
            start_burst_ms: self.settled().filter(|_| live).map(|(burst, _)| burst / 1e6),
            jitter: if live { self.jitter_of_arrival() } else { self.jitter_of_position() },
            constant_rate: self.is_constant_rate(),
        }
    }

    fn is_constant_rate(&self) -> bool {
        match (self.paces.quantile(0.1), self.paces.median(), self.paces.quantile(0.9)) {
            (Some(low), Some(middle), Some(high)) => high - low <= CONSTANT_RATE_SPREAD * middle,
            _ => false,
        }
    }

    fn jitter_of_arrival(&self) -> Option<Jitter> {
        let (_, lateness) = self.settled().filter(|(_, lateness)| lateness.count() > 1)?;
        let earliest = lateness.min()?;
        let later_ms = lateness.distribution(|late| (late - earliest) / 1e6)?;
        Some(Jitter { basis: "arrival", ms: later_ms })
    }

    fn jitter_of_position(&self) -> Option<Jitter> {
        if !self.is_constant_rate() {
            return None;
        }
        let pace = self.paces.median()?;
        let pairs = self.steps.kept().zip(self.step_packets.kept());
        let errors: Samples =
            pairs.map(|(ticks, packets)| (ticks - packets * pace).abs() * NANOS_PER_TICK / 1e6).collect();
        Some(Jitter { basis: "position", ms: errors.distribution(|error| error)? })
    }
}
