//! TCP's congestion controls as they matter at a shared queue: CUBIC (RFC 9438) and BBR's first version (Cardwell et
//! al., ACM Queue 2016; draft-cardwell-iccrg-bbr-congestion-control-00). A flow always has data; its segments are
//! datagrams of one size, each acknowledged; what an acknowledgement overtakes is lost, since nothing is reordered.
#![allow(dead_code, unreachable_pub)]

use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Bytes of a segment.
pub const SEGMENT: usize = 1200;
/// The first byte of a segment, by which the world tells it from the link's datagrams.
pub const FOREIGN: u8 = 0xFF;

/// What an acknowledgement tells.
pub struct Acked {
    pub now: Time,
    pub rtt: Duration,
    /// Segments that it shows to be lost, and the newest of them.
    pub lost: u64,
    pub lost_number: u64,
    /// Segments still under way.
    pub in_flight: u64,
    /// The number of the next segment to be sent.
    pub next: u64,
    /// The number that was next when the acknowledged segment was sent: a round has passed once it is acknowledged.
    pub number: u64,
    /// Segments a second that were delivered since the segment was sent.
    pub rate: f64,
}

pub trait Control {
    fn handle_ack(&mut self, acked: &Acked);
    /// Segments that may be under way.
    fn window(&self) -> f64;
    /// Segments a second; `None` for all at once.
    fn pace(&self) -> Option<f64>;
}

impl Control for Box<dyn Control> {
    fn handle_ack(&mut self, acked: &Acked) {
        (**self).handle_ack(acked);
    }
    fn window(&self) -> f64 {
        (**self).window()
    }
    fn pace(&self) -> Option<f64> {
        (**self).pace()
    }
}

struct Segment {
    number: u64,
    at: Time,
    delivered: u64,
    delivered_at: Time,
}

/// A sender that always has data, and the way back of its acknowledgements.
pub struct Flow<C> {
    control: C,
    next: u64,
    flying: VecDeque<Segment>,
    acks: VecDeque<(Time, u64)>,
    delivered: u64,
    delivered_at: Time,
    credit: f64,
    paced_at: Time,
    /// Segments that arrived.
    pub arrived: u64,
}

impl<C: Control> Flow<C> {
    pub fn new(control: C) -> Flow<C> {
        Flow {
            control,
            next: 0,
            flying: VecDeque::new(),
            acks: VecDeque::new(),
            delivered: 0,
            delivered_at: Time::ZERO,
            credit: 0.0,
            paced_at: Time::ZERO,
            arrived: 0,
        }
    }

    /// A segment has arrived; its acknowledgement is back at `back`.
    pub fn handle_arrival(&mut self, back: Time, bytes: &[u8]) {
        let number = bytes[1..9].try_into().map(u64::from_be_bytes).unwrap_or(0);
        self.arrived += 1;
        self.acks.push_back((back, number));
    }

    /// What leaves by `now`.
    pub fn poll_transmit(&mut self, now: Time) -> Vec<Vec<u8>> {
        while let Some(&(at, number)) = self.acks.front().filter(|ack| ack.0 <= now) {
            self.acks.pop_front();
            self.handle_ack(at, number);
        }
        // Time-out: all is lost.
        if self.flying.back().is_some_and(|last| last.at + Duration::from_secs(1) < now) {
            self.flying.clear();
        }
        let room = (self.control.window() as u64).saturating_sub(self.flying.len() as u64);
        let count = match self.control.pace() {
            None => room,
            Some(pace) => {
                self.credit = (self.credit + pace * (now - self.paced_at).as_secs_f64()).min(20.0);
                room.min(self.credit as u64)
            }
        };
        self.paced_at = now;
        self.credit -= count as f64;
        (0..count).map(|_| self.segment(now)).collect()
    }

    fn segment(&mut self, now: Time) -> Vec<u8> {
        if self.flying.is_empty() {
            self.delivered_at = now;
        }
        let (number, delivered, delivered_at) = (self.next, self.delivered, self.delivered_at);
        self.flying.push_back(Segment { number, at: now, delivered, delivered_at });
        self.next += 1;
        let mut bytes = vec![FOREIGN; SEGMENT];
        bytes[1..9].copy_from_slice(&number.to_be_bytes());
        bytes
    }

    fn handle_ack(&mut self, now: Time, number: u64) {
        let (mut lost, mut lost_number) = (0, 0);
        while self.flying.front().is_some_and(|segment| segment.number < number) {
            lost_number = self.flying.pop_front().map_or(0, |segment| segment.number);
            lost += 1;
        }
        if self.flying.front().is_none_or(|segment| segment.number != number) {
            return;
        }
        let Some(segment) = self.flying.pop_front() else { return };
        self.delivered += 1;
        self.delivered_at = now;
        let interval = (now - segment.delivered_at).as_secs_f64().max(1e-6);
        self.control.handle_ack(&Acked {
            now,
            rtt: now - segment.at,
            lost,
            lost_number,
            in_flight: self.flying.len() as u64,
            next: self.next,
            number,
            rate: (self.delivered - segment.delivered) as f64 / interval,
        });
    }
}

/// CUBIC with fast convergence and the region friendly to Reno; slow start until the first loss.
pub struct Cubic {
    window: f64,
    threshold: f64,
    before: f64,
    reno: f64,
    since: Option<Time>,
    origin: f64,
    k: f64,
    /// Losses of segments before this one belong to a reduction that was made.
    recovery: u64,
}

impl Default for Cubic {
    fn default() -> Cubic {
        let threshold = f64::INFINITY;
        Cubic {
            window: 10.0,
            threshold,
            before: 0.0,
            reno: 0.0,
            since: None,
            origin: 0.0,
            k: 0.0,
            recovery: 0,
        }
    }
}

impl Control for Cubic {
    fn handle_ack(&mut self, acked: &Acked) {
        const BETA: f64 = 0.7;
        const C: f64 = 0.4;
        if acked.lost > 0 && acked.lost_number >= self.recovery {
            self.before =
                if self.window < self.before { self.window * (1.0 + BETA) / 2.0 } else { self.window };
            self.window = (self.window * BETA).max(2.0);
            self.threshold = self.window;
            self.since = None;
            self.recovery = acked.next;
            return;
        }
        if self.window < self.threshold {
            self.window += 1.0;
            return;
        }
        let since = *self.since.get_or_insert_with(|| {
            self.origin = self.before.max(self.window);
            self.k = ((self.origin - self.window).max(0.0) / C).cbrt();
            self.reno = self.window;
            acked.now
        });
        let t = (acked.now - since + acked.rtt).as_secs_f64();
        let target = (self.origin + C * (t - self.k).powi(3)).clamp(self.window, 1.5 * self.window);
        self.reno += 3.0 * (1.0 - BETA) / (1.0 + BETA) / self.window;
        self.window += (target - self.window) / self.window;
        self.window = self.window.max(self.reno);
    }

    fn window(&self) -> f64 {
        self.window
    }

    fn pace(&self) -> Option<f64> {
        None
    }
}

#[derive(Clone, Copy, PartialEq)]
enum Phase {
    Startup,
    Drain,
    ProbeBandwidth { step: usize, since: Time },
    ProbeRtt { until: Option<Time> },
}

/// BBR, first version.
pub struct Bbr {
    phase: Phase,
    /// The fastest rate of each of the last ten rounds.
    rates: VecDeque<f64>,
    round_end: u64,
    full: f64,
    flat: u32,
    least: Duration,
    least_at: Time,
}

const HIGH: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];

impl Default for Bbr {
    fn default() -> Bbr {
        Bbr {
            phase: Phase::Startup,
            rates: VecDeque::from([0.0]),
            round_end: 0,
            full: 0.0,
            flat: 0,
            least: Duration::MAX,
            least_at: Time::ZERO,
        }
    }
}

impl Bbr {
    fn bandwidth(&self) -> f64 {
        self.rates.iter().copied().fold(0.0, f64::max)
    }

    /// The bandwidth-delay product, segments.
    fn product(&self) -> f64 {
        if self.least == Duration::MAX { 10.0 } else { self.bandwidth() * self.least.as_secs_f64() }
    }

    fn end_round(&mut self) {
        if self.phase == Phase::Startup {
            if self.bandwidth() >= 1.25 * self.full {
                (self.full, self.flat) = (self.bandwidth(), 0);
            } else {
                self.flat += 1;
            }
            if self.flat >= 3 {
                self.phase = Phase::Drain;
            }
        }
        self.rates.push_back(0.0);
        if self.rates.len() > 10 {
            self.rates.pop_front();
        }
    }
}

impl Control for Bbr {
    fn handle_ack(&mut self, acked: &Acked) {
        let stale = acked.now - self.least_at > Duration::from_secs(10);
        if acked.rtt <= self.least || stale {
            (self.least, self.least_at) = (acked.rtt, acked.now);
        }
        if let Some(newest) = self.rates.back_mut() {
            *newest = newest.max(acked.rate);
        }
        if acked.number >= self.round_end {
            self.round_end = acked.next;
            self.end_round();
        }
        let in_flight = acked.in_flight as f64;
        match self.phase {
            Phase::Startup => {}
            Phase::Drain if in_flight <= self.product() => {
                self.phase = Phase::ProbeBandwidth { step: 2, since: acked.now };
            }
            Phase::Drain => {}
            Phase::ProbeBandwidth { step, since } => {
                let long = acked.now - since > self.least;
                let over = match step {
                    0 => long && (acked.lost > 0 || in_flight >= 1.25 * self.product()),
                    1 => long || in_flight <= self.product(),
                    _ => long,
                };
                if over {
                    self.phase = Phase::ProbeBandwidth { step: (step + 1) % CYCLE.len(), since: acked.now };
                }
            }
            Phase::ProbeRtt { until } => {
                if until.is_none() && acked.in_flight <= 4 {
                    self.phase = Phase::ProbeRtt { until: Some(acked.now + Duration::from_millis(200)) };
                }
                if until.is_some_and(|until| until <= acked.now) {
                    self.least_at = acked.now;
                    self.phase = Phase::ProbeBandwidth { step: 2, since: acked.now };
                }
            }
        }
        if stale && !matches!(self.phase, Phase::ProbeRtt { .. }) {
            self.phase = Phase::ProbeRtt { until: None };
        }
    }

    fn window(&self) -> f64 {
        match self.phase {
            Phase::ProbeRtt { .. } => 4.0,
            Phase::Startup => (HIGH * self.product()).max(10.0),
            _ => (2.0 * self.product()).max(4.0),
        }
    }

    fn pace(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => HIGH,
            Phase::Drain => 1.0 / HIGH,
            Phase::ProbeBandwidth { step, .. } => CYCLE[step],
            Phase::ProbeRtt { .. } => 1.0,
        };
        (self.bandwidth() > 0.0).then(|| gain * self.bandwidth())
    }
}
