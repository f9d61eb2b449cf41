//! The program's clock (PCR): how often it comes, how steadily, and what time it is at a packet.

use super::report::{ClockReport, Jitter};
use super::samples::Samples;
use glassline_media::Time;
use glassline_media::container::ts::Pcr;

/// A step beyond this is a jump of the clock, not an interval.
const JUMP_TICKS: u64 = 10 * Pcr::RATE;
/// Where a tenth to nine tenths of the intervals have rates this near, the rate counts as constant.
const CONSTANT_RATE_SPREAD: f64 = 0.05;
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
    /// Arrival less clock, nanoseconds, from the first reference on.
    lateness: Samples,
    lateness_now: f64,
    jumps: u64,
    /// Ticks and packets within unbroken stretches.
    span_ticks: u64,
    span_packets: u64,
}

impl ClockTrack {
    /// Takes a reference on packet number `packet` that came at `arrival`; `announced`: the packet says that the
    /// clock jumps.
    pub(super) fn push(&mut self, pcr: Pcr, packet: u64, arrival: Time, announced: bool) {
        let seen = Seen { pcr, packet, arrival };
        let Some(last) = self.last.replace(seen) else {
            self.lateness.push(0.0);
            return;
        };
        let (ticks, packets) = (pcr.since(last.pcr), packet.saturating_sub(last.packet));
        if announced || ticks > JUMP_TICKS {
            self.jumps += 1;
            return;
        }
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
        self.lateness.push(self.lateness_now);
    }

    /// The clock at packet `packet`, extrapolated from the last reference with the stream's mean pace.
    pub(super) fn at(&self, packet: u64) -> Option<Pcr> {
        let last = self.last?;
        let pace = match self.span_packets {
            0 => 0.0,
            packets => self.span_ticks as f64 / packets as f64,
        };
        // No further than the time within which the next reference must come (100 ms).
        let ahead = (packet.saturating_sub(last.packet) as f64 * pace).min(Pcr::RATE as f64 / 10.0);
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
        let earliest = self.lateness.min()?;
        (self.lateness.count() > 1).then_some(())?;
        let later_ms = self.lateness.distribution(|late| (late - earliest) / 1e6)?;
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
