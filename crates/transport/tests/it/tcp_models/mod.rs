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

/// BBR, first version, as Linux has it (net/ipv4/tcp_bbr.c).
pub struct Bbr {
    phase: Phase,
    /// The fastest rate of each of the last ten rounds.
    rates: VecDeque<f64>,
    round_end: u64,
    full: f64,
    flat: u32,
    least: Duration,
    least_at: Time,
    window: f64,
    /// The window before losses or a probe of the round trip narrowed it.
    prior: f64,
    /// Losses are being made good up to this segment; in the first round of that only what has arrived is sent again.
    recovery: Option<u64>,
    conserve_until: u64,
    /// Segments acknowledged since when, as long as they come faster than the bandwidth; by how much they were ahead in
    /// the last rounds.
    epoch: (Time, f64),
    extra: VecDeque<f64>,
}

const HIGH: f64 = 2.885;
const CYCLE: [f64; 8] = [1.25, 0.75, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0];
const CYCLES_BEGIN: usize = 2;
/// Rounds after which what was seen is forgotten.
const ROUNDS: usize = 10;
/// Three bursts of two segments each, for what the kernel sends and acknowledges at once.
const BURSTS: f64 = 6.0;

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
            window: 10.0,
            prior: 10.0,
            recovery: None,
            conserve_until: 0,
            epoch: (Time::ZERO, 0.0),
            extra: VecDeque::from([0.0]),
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
        for seen in [&mut self.rates, &mut self.extra] {
            seen.push_back(0.0);
            if seen.len() > ROUNDS {
                seen.pop_front();
            }
        }
    }

    /// How many segments came ahead of the bandwidth, in one go.
    fn aggregate(&mut self, now: Time) {
        let expected = self.bandwidth() * (now - self.epoch.0).as_secs_f64();
        if self.epoch.1 <= expected {
            self.epoch = (now, 0.0);
        }
        self.epoch.1 += 1.0;
        let expected = self.bandwidth() * (now - self.epoch.0).as_secs_f64();
        let ahead = (self.epoch.1 - expected).clamp(0.0, self.window);
        if let Some(newest) = self.extra.back_mut() {
            *newest = newest.max(ahead);
        }
    }

    fn save_window(&mut self) {
        let probing = matches!(self.phase, Phase::ProbeRtt { .. });
        let narrowed = self.recovery.is_some() || probing;
        self.prior = if narrowed { self.prior.max(self.window) } else { self.window };
    }

    fn update_window(&mut self, acked: &Acked) {
        let kept = acked.in_flight as f64 + 1.0;
        self.window = (self.window - acked.lost as f64).max(1.0);
        if acked.lost > 0 && self.recovery.is_none() {
            self.save_window();
            (self.recovery, self.conserve_until) = (Some(acked.next), acked.next);
            self.window = kept;
        } else if self.recovery.is_some_and(|end| acked.number >= end) {
            self.recovery = None;
            self.window = self.window.max(self.prior);
        }
        if self.recovery.is_some() && acked.number < self.conserve_until {
            self.window = self.window.max(kept).max(4.0);
            return;
        }
        let extra = self.extra.iter().copied().fold(0.0, f64::max).min(self.bandwidth() * 0.1);
        let gain = if matches!(self.phase, Phase::Startup | Phase::Drain) { HIGH } else { 2.0 };
        let mut target = gain * self.product() + extra + BURSTS;
        if let Phase::ProbeBandwidth { step: 0, .. } = self.phase {
            target += 2.0;
        }
        if self.phase != Phase::Startup {
            self.window = (self.window + 1.0).min(target);
        } else if self.window < target {
            self.window += 1.0;
        }
        self.window = self.window.max(4.0);
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
        self.aggregate(acked.now);
        let in_flight = (acked.in_flight + 1) as f64;
        match self.phase {
            Phase::Startup => {}
            Phase::Drain if in_flight <= self.product() => {
                self.phase = Phase::ProbeBandwidth { step: CYCLES_BEGIN, since: acked.now };
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
                    self.phase = Phase::ProbeBandwidth { step: CYCLES_BEGIN, since: acked.now };
                    self.window = self.window.max(self.prior);
                }
            }
        }
        if stale && !matches!(self.phase, Phase::ProbeRtt { .. }) {
            self.save_window();
            self.phase = Phase::ProbeRtt { until: None };
        }
        self.update_window(acked);
    }

    fn window(&self) -> f64 {
        if let Phase::ProbeRtt { .. } = self.phase { self.window.min(4.0) } else { self.window }
    }

    fn pace(&self) -> Option<f64> {
        let gain = match self.phase {
            Phase::Startup => HIGH,
            Phase::Drain => 1.0 / HIGH,
            Phase::ProbeBandwidth { step, .. } => CYCLE[step],
            Phase::ProbeRtt { .. } => 1.0,
        };
        // The kernel stays a hundredth below.
        (self.bandwidth() > 0.0).then(|| gain * self.bandwidth() * 0.99)
    }
}
