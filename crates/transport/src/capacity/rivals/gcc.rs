//! Google Congestion Control after draft-ietf-rmcat-gcc-02 (S. Holmer, H. Lundin, G. Carlucci, L. De Cicco, S. Mascolo,
//! 2016), with both controllers at the sender (§3, first way).
//!
//! Packets that leave within 5 ms are a group; how much longer groups take than those before them gives the trend of the
//! delay; a trend above an adaptive threshold is over-use, upon which the rate falls to 85 % of what arrives. Otherwise it
//! rises by 8 % a second, or by half a packet each response time once it is near what was too much before. Losses above 10 %
//! lower it too.
//!
//! In three things it follows libwebrtc, the implementation in use, rather than the draft:
//! * The trend is a line fitted to the smoothed delay of the last twenty groups, not the mean of a Kalman filter (§5.3). That
//!   filter's output is some milliseconds for a group of 5 ms, and never reaches the least threshold of 6 ms (§5.4) below twice
//!   the path's rate. The gains of the threshold are those that go with this trend: with the draft's, which are for that
//!   filter, the threshold hardly falls again after an over-use, and a queue of some 300 ms comes up at 0.8 Mbit/s.
//! * Over-use lowers the rate at most once a round trip, of 10 to 200 ms.
//! * 1.5 times what arrives (§5.5) bounds increases alone. Otherwise any pause would lower the rate to what it left.
//!
//! Left out, as the draft has none of it: libwebrtc's probes, which find a fast path within a second where 8 % a second takes
//! half a minute, and its newer loss-based estimator.

use super::super::{Feedback, INITIAL_RATE, LEAST_RATE};
use super::{MOST_RATE, Rates};
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Packets that leave within this time are a group, ms (burst_time, §5.6).
const BURST: f64 = 5.0;
/// Packets that come in a burst after an outage are one group of this length at most, ms (libwebrtc).
const LONGEST_BURST: f64 = 100.0;
/// So many groups make a trend (libwebrtc).
const TREND_GROUPS: usize = 20;
/// The weight of the delay known before in the smoothed one (libwebrtc).
const TREND_SMOOTHING: f64 = 0.9;
/// What the slope is multiplied by for the comparison with the threshold: this, and the number of groups
const TREND_GAIN: f64 = 4.0;
/// up to this one (libwebrtc).
const TREND_MOST: u32 = 60;
/// The threshold's first value, ms, and its range (del_var_th, §5.4).
const THRESHOLD: f64 = 12.5;
const THRESHOLD_RANGE: (f64, f64) = (6.0, 600.0);
/// How fast the threshold rises and falls, a millisecond (libwebrtc; K_u and K_d, §5.6: 0.01 and 0.00018).
const THRESHOLD_UP: f64 = 0.0087;
const THRESHOLD_DOWN: f64 = 0.039;
/// It does not follow what is so far above it, ms (§5.4).
const THRESHOLD_OUTLIER: f64 = 15.0;
/// It does not move by more than in this time at once, ms (libwebrtc).
const THRESHOLD_STEP: f64 = 100.0;
/// For how long the trend is above the threshold before that is over-use, ms (overuse_time_th, §5.6).
const OVERUSE_TIME: f64 = 10.0;
/// Over what time arrivals are counted, ms (T, §5.6: 0.5 to 1 s).
const INCOMING_TIME: f64 = 500.0;
/// How often the rate rises: feedback comes each 30 to 100 ms (§3).
const UPDATE: Duration = Duration::from_millis(50);
/// By how much a second, far from convergence (§5.5).
const GROWTH: f64 = 1.08;
/// Near convergence it rises by half a packet within the round trip and this time (§5.5),
const RESPONSE: Duration = Duration::from_millis(100);
/// but by this at least, bytes a second (§5.5: 1000 bit/s).
const LEAST_GROWTH: f64 = 125.0;
/// The rate may be so many times what arrives (§5.5).
const MOST_OF_INCOMING: f64 = 1.5;
/// What is left of the rate at which packets came when there is over-use (beta, §5.6).
const BETA: f64 = 0.85;
/// The weight of what was known in the average of the rates at which there was over-use (§5.5).
const LINK_SMOOTHING: f64 = 0.95;
/// So many standard deviations around it are near convergence (§5.5).
const DEVIATIONS: f64 = 3.0;
/// The range of their variance, over the average, in bytes a second (libwebrtc: 0.4 to 2.5 kbit/s).
const LINK_VARIANCE: (f64, f64) = (50.0, 312.5);
/// Losses are judged over this time (§3: feedback comes each 100 ms at least) and so many packets.
const LOSS_TIME: Duration = Duration::from_millis(100);
const LOSS_PACKETS: f64 = 20.0;
/// Below this share of losses the rate rises, above the other it falls (§6),
const FEW_LOSSES: f64 = 0.02;
const MANY_LOSSES: f64 = 0.1;
/// by this factor (§6).
const LOSS_GROWTH: f64 = 1.05;

/// The state of the estimate.
#[derive(Clone, Debug)]
pub(super) struct Gcc {
    groups: Groups,
    trend: Trend,
    detector: Detector,
    incoming: Incoming,
    delays: DelayControl,
    losses: LossControl,
}

impl Gcc {
    pub(super) fn new(now: Time) -> Gcc {
        Gcc {
            groups: Groups::default(),
            trend: Trend::default(),
            detector: Detector::default(),
            incoming: Incoming::default(),
            delays: DelayControl::new(now),
            losses: LossControl { since: now, acked: 0, lost: 0, rate: INITIAL_RATE },
        }
    }

    pub(super) fn handle_feedback(&mut self, now: Time, feedback: &Feedback, packet: f64) {
        if let (Some(sent_at), Some(one_way_us)) = (feedback.sent_at, feedback.one_way_us) {
            let left = sent_at.as_nanos() as f64 / 1e6;
            let came = left + one_way_us as f64 / 1e3;
            self.incoming.handle_arrival(came, feedback.acked_bytes);
            if let Some(change) = self.groups.handle_packet(left, came) {
                let trend = self.trend.handle_change(&change);
                self.detector.handle_trend(trend, &change);
            }
        }
        self.delays.update(now, self.detector.signal, self.incoming.rate(), feedback.rtt);
        self.losses.handle_feedback(now, feedback, packet);
        // The loss-based estimate gets the delay-based one (§6), and the lesser is the rate: beyond it, it would only take
        // longer to answer to losses.
        self.losses.rate = self.losses.rate.clamp(LEAST_RATE, self.delays.rate);
    }

    pub(super) fn rates(&self, packet: f64) -> Rates {
        let rate = self.losses.rate;
        // Paced at the target (§4).
        Rates::without_window(rate, rate, rate, packet)
    }
}

/// A group of packets, all times in milliseconds.
#[derive(Clone, Copy, Debug)]
struct Group {
    /// When its first packet left and came.
    began: (f64, f64),
    /// When its last one did.
    ended: (f64, f64),
}

/// From one group to the next, milliseconds.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Change {
    /// Between their departures.
    apart: f64,
    /// By how much longer the later one took.
    longer: f64,
    /// When it came.
    came: f64,
}

/// What left together (§5.2).
#[derive(Clone, Debug, Default)]
struct Groups {
    before: Option<Group>,
    current: Option<Group>,
}

impl Groups {
    /// A packet left and came. Gives the change to the group that is complete now, from the one before it.
    fn handle_packet(&mut self, left: f64, came: f64) -> Option<Change> {
        let alone = Group { began: (left, came), ended: (left, came) };
        let current = self.current.get_or_insert(alone);
        if left < current.ended.0 {
            // Overtaken: not for this model (§5.1).
            return None;
        }
        let between = came - current.ended.1;
        let caught_up =
            between < BURST && between < left - current.ended.0 && came - current.began.1 < LONGEST_BURST;
        if left - current.began.0 <= BURST || caught_up {
            current.ended = (left, came.max(current.ended.1));
            return None;
        }
        let complete = std::mem::replace(current, alone);
        let before = self.before.replace(complete)?;
        let apart = complete.ended.0 - before.ended.0;
        let longer = complete.ended.1 - before.ended.1 - apart;
        Some(Change { apart, longer, came: complete.ended.1 })
    }
}

/// The slope of the delay over the last groups.
#[derive(Clone, Debug, Default)]
struct Trend {
    /// The sum of all changes, and its smoothed value.
    delay: f64,
    smoothed: f64,
    groups: u32,
    /// When groups came, and the smoothed delay then.
    line: VecDeque<(f64, f64)>,
    /// What was told last.
    told: f64,
}

impl Trend {
    /// What is compared with the threshold, ms.
    fn handle_change(&mut self, change: &Change) -> f64 {
        self.groups = self.groups.saturating_add(1).min(TREND_MOST);
        self.delay += change.longer;
        self.smoothed = TREND_SMOOTHING * self.smoothed + (1.0 - TREND_SMOOTHING) * self.delay;
        if self.line.len() >= TREND_GROUPS {
            self.line.pop_front();
        }
        self.line.push_back((change.came, self.smoothed));
        if self.line.len() == TREND_GROUPS
            && let Some(slope) = slope(&self.line)
        {
            self.told = f64::from(self.groups) * slope * TREND_GAIN;
        }
        self.told
    }
}

/// Of the line that fits these points best; `None` where all are at one place.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let count = points.len().max(1) as f64;
    let (x, y) = points.iter().fold((0.0, 0.0), |sum, point| (sum.0 + point.0, sum.1 + point.1));
    let (x, y) = (x / count, y / count);
    let (above, below) = points.iter().fold((0.0, 0.0), |sum, point| {
        (sum.0 + (point.0 - x) * (point.1 - y), sum.1 + (point.0 - x) * (point.0 - x))
    });
    (below > 0.0).then(|| above / below)
}

/// What the detector says of the path (§5.4).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Signal {
    #[default]
    Normal,
    OverUse,
    UnderUse,
}

#[derive(Clone, Debug)]
struct Detector {
    threshold: f64,
    /// When the last group came, ms.
    came: Option<f64>,
    /// For how long the trend has been above the threshold, ms, over how many groups.
    above: f64,
    groups: u32,
    before: f64,
    signal: Signal,
}

impl Default for Detector {
    fn default() -> Detector {
        Detector {
            threshold: THRESHOLD,
            came: None,
            above: 0.0,
            groups: 0,
            before: 0.0,
            signal: Signal::Normal,
        }
    }
}

impl Detector {
    fn handle_trend(&mut self, trend: f64, change: &Change) {
        if trend > self.threshold {
            // Of the time to the group before, the trend was above it for half.
            self.above += if self.groups == 0 { change.apart / 2.0 } else { change.apart };
            self.groups = self.groups.saturating_add(1);
            if self.above > OVERUSE_TIME && self.groups > 1 && trend >= self.before {
                (self.above, self.groups) = (0.0, 0);
                self.signal = Signal::OverUse;
            }
        } else {
            (self.above, self.groups) = (0.0, 0);
            self.signal = if trend < -self.threshold { Signal::UnderUse } else { Signal::Normal };
        }
        self.before = trend;
        self.adapt(trend.abs(), change.came);
    }

    fn adapt(&mut self, trend: f64, came: f64) {
        let before = self.came.replace(came).unwrap_or(came);
        if trend - self.threshold > THRESHOLD_OUTLIER {
            return;
        }
        let gain = if trend < self.threshold { THRESHOLD_DOWN } else { THRESHOLD_UP };
        let time = (came - before).clamp(0.0, THRESHOLD_STEP);
        let (least, most) = THRESHOLD_RANGE;
        self.threshold = (self.threshold + time * gain * (trend - self.threshold)).clamp(least, most);
    }
}

/// The rate at which packets come (R̂, §5.5), by the receiver's clock.
#[derive(Clone, Debug, Default)]
struct Incoming {
    arrivals: VecDeque<(f64, u64)>,
    bytes: u64,
    /// When the first of all came.
    began: Option<f64>,
}

impl Incoming {
    fn handle_arrival(&mut self, came: f64, bytes: u64) {
        self.began.get_or_insert(came);
        self.arrivals.push_back((came, bytes));
        self.bytes = self.bytes.saturating_add(bytes);
        while let Some(&(first, bytes)) = self.arrivals.front()
            && came - first > INCOMING_TIME
        {
            self.arrivals.pop_front();
            self.bytes = self.bytes.saturating_sub(bytes);
        }
    }

    /// Bytes a second; `None` before a whole window has passed.
    fn rate(&self) -> Option<f64> {
        let (newest, began) = (self.arrivals.back()?.0, self.began?);
        (newest - began >= INCOMING_TIME).then(|| self.bytes as f64 * 1e3 / INCOMING_TIME)
    }
}

/// What the rate does (§5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Increase,
    Hold,
    Decrease,
}

/// The controller of the delay (§5.5).
#[derive(Clone, Debug)]
struct DelayControl {
    state: State,
    /// Bytes a second (Â).
    rate: f64,
    updated: Time,
    decreased: Option<Time>,
    /// The average of the rates at which there was over-use, and their variance over it.
    link: Option<(f64, f64)>,
}

impl DelayControl {
    fn new(now: Time) -> DelayControl {
        DelayControl { state: State::Increase, rate: INITIAL_RATE, updated: now, decreased: None, link: None }
    }

    fn update(&mut self, now: Time, signal: Signal, incoming: Option<f64>, rtt: Duration) {
        if signal == Signal::OverUse {
            self.state = State::Decrease;
            self.decrease(now, incoming, rtt);
        }
        let since = now - self.updated;
        if since < UPDATE {
            return;
        }
        self.updated = now;
        self.state = match (signal, self.state) {
            (Signal::OverUse, _) => State::Decrease,
            (Signal::Normal, State::Decrease) | (Signal::UnderUse, _) => State::Hold,
            (Signal::Normal, State::Hold | State::Increase) => State::Increase,
        };
        if self.state == State::Increase {
            self.increase(since, incoming, rtt);
        }
    }

    fn decrease(&mut self, now: Time, incoming: Option<f64>, rtt: Duration) {
        let again = rtt.clamp(Duration::from_millis(10), Duration::from_millis(200));
        if self.decreased.is_some_and(|at| now - at < again) {
            return;
        }
        self.decreased = Some(now);
        let incoming = incoming.unwrap_or(self.rate);
        self.rate = self.rate.min(BETA * incoming).max(LEAST_RATE);
        let (average, variance) = self.link.unwrap_or((incoming, LINK_VARIANCE.0));
        let average = LINK_SMOOTHING * average + (1.0 - LINK_SMOOTHING) * incoming;
        let error = (incoming - average) * (incoming - average) / average.max(1.0);
        let variance = LINK_SMOOTHING * variance + (1.0 - LINK_SMOOTHING) * error;
        self.link = Some((average, variance.clamp(LINK_VARIANCE.0, LINK_VARIANCE.1)));
    }

    fn increase(&mut self, since: Duration, incoming: Option<f64>, rtt: Duration) {
        let near = match (self.link, incoming) {
            (Some((average, variance)), Some(incoming)) => {
                let within = DEVIATIONS * (variance * average).sqrt();
                if incoming > average + within {
                    // The path carries more than it did.
                    self.link = None;
                }
                (incoming - average).abs() <= within
            }
            _ => false,
        };
        let more = if near {
            let response = rtt + RESPONSE;
            let share = 0.5 * (since.as_secs_f64() / response.as_secs_f64()).min(1.0);
            (share * packet_at(self.rate)).max(LEAST_GROWTH)
        } else {
            self.rate * (GROWTH.powf(since.as_secs_f64().min(1.0)) - 1.0)
        };
        let most = incoming.map_or(MOST_RATE, |incoming| MOST_OF_INCOMING * incoming).min(MOST_RATE);
        self.rate = (self.rate + more).min(most.max(self.rate));
    }
}

/// How many bytes a packet may be expected to have at this rate (§5.5: 30 frames a second, packets of 1200 bytes at most).
fn packet_at(rate: f64) -> f64 {
    let frame = rate / 30.0;
    frame / (frame / 1200.0).ceil().max(1.0)
}

/// The controller of losses (§6).
#[derive(Clone, Debug)]
struct LossControl {
    since: Time,
    acked: u64,
    lost: u64,
    /// Bytes a second (Âₛ).
    rate: f64,
}

impl LossControl {
    fn handle_feedback(&mut self, now: Time, feedback: &Feedback, packet: f64) {
        self.acked = self.acked.saturating_add(feedback.acked_bytes);
        self.lost = self.lost.saturating_add(feedback.lost_bytes);
        let settled = self.acked.saturating_add(self.lost) as f64;
        if now - self.since < LOSS_TIME || settled < LOSS_PACKETS * packet {
            return;
        }
        let share = self.lost as f64 / settled;
        if share > MANY_LOSSES {
            self.rate *= 1.0 - 0.5 * share;
        } else if share < FEW_LOSSES {
            self.rate *= LOSS_GROWTH;
        }
        (self.since, self.acked, self.lost) = (now, 0, 0);
    }
}

#[cfg(test)]
#[path = "gcc_tests.rs"]
mod tests;
