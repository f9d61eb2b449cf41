//! How much a path carries: the rate at which a link may send so that the queue on its way stays short.
//!
//! In come what acknowledgements tell (bytes delivered, one-way delay, losses), out go a pacing rate and a window.
//! Called by `link`; knows no packet.
//!
//! * [`Arrival`]: the receiver's estimate of how fast packets come (Salsify's τ).
//! * [`Capacity`]: the sender's rate.
//!
//! The rate is the delivery rate that was measured, times a gain that the queue's delay decides: above
//! [`TARGET`] it falls below 1, so that the queue drains over the next round trips; below, it rises a little above 1,
//! and more the longer there is room. While the queue is not empty the delivery rate *is* the path's capacity, so a
//! rate that has fallen is known after a round trip. Losses alone change nothing: a radio loses packets without being
//! full. A router that marks packets (ECN) says that its queue grows before the delay shows it: that counts as delay.
//!
//! One who only listens to delay is starved by those who fill the queue until it overflows (CUBIC) or who keep it
//! half full (BBR). If the queue stands for several round trips, half the rate is tried for two more: if it stands then
//! too, somebody else fills it, and the window grows and falls as CUBIC's does. Every few seconds a trial with the short
//! queue tells whether the others are gone.

mod arrival;
mod cubic;

pub use arrival::Arrival;
use cubic::Cubic;
use glassline_media::Time;
use std::time::Duration;

/// The queueing delay that is aimed at, on a path that carries a packet in far less.
pub const TARGET: Duration = Duration::from_millis(6);
/// A queue that is small for whoever keeps it, bytes: sockets and routers have room for a few MB, and what stays in a
/// cache is cheaper to handle. Above 1.4 Gbit/s this is less than [`TARGET`],
const SMALL_QUEUE: f64 = 1_048_576.0;
/// down to this: programs look at their sockets no more often.
const LEAST_TARGET: Duration = Duration::from_millis(1);
/// The rate before anything was measured, bytes a second: ten packets in 100 ms.
const INITIAL_RATE: f64 = 120_000.0;
/// The least rate, bytes a second.
const LEAST_RATE: f64 = 4_000.0;
/// How long a smallest one-way delay counts as that of the empty path.
const BASE_LIFE: Duration = Duration::from_secs(15);
/// Round trips of a queue that stands, after which it is tried whether others fill it; twice as many after each trial
/// that found nobody,
const FIRST_TRIAL: u32 = 8;
/// and so many at most.
const LAST_TRIAL: u32 = 256;
/// For how many round trips half the rate is tried.
const TRIAL_ROUNDS: u32 = 2;
/// A queue that never falls below this share of its height though packets are lost is filled by somebody who does not
/// listen to losses; neither do we then,
const DEAF: f64 = 0.8;
/// up to this share.
const TOLERABLE: f64 = 0.1;
/// How long competition goes on before a trial without.
const TRIAL_AFTER: Duration = Duration::from_secs(5);

/// By how much a mark of a router that is not of L4S lowers the rate: the queue that it speaks of may be none of ours to
/// see in the delay yet.
const CLASSIC_RELIEF: f64 = 0.15;

/// What one acknowledgement told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feedback {
    /// Bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Bytes newly deemed lost.
    pub lost_bytes: u64,
    /// Bytes still under way.
    pub in_flight: u64,
    /// When the newest packet acknowledged was sent.
    pub sent_at: Option<Time>,
    /// Its one-way delay in microseconds, by two clocks of unknown difference.
    pub one_way_us: Option<i64>,
    /// Bytes a second that were delivered over the last round trip.
    pub rate: Option<u64>,
    /// Whether the sender had too little to send to fill that round trip.
    pub app_limited: bool,
    /// The smoothed round-trip time.
    pub rtt: Duration,
    /// The least round-trip time.
    pub least_rtt: Duration,
}

/// What the estimate is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Doubling the rate each round trip until the queue grows.
    Startup,
    /// Holding the queue short.
    Delay,
    /// Holding its share among flows that fill the queue.
    Competitive,
}

/// The state of one path's estimate.
#[derive(Clone, Debug)]
pub struct Capacity {
    mode: Mode,
    packet: usize,
    /// Bytes a second that the path is known to carry.
    bandwidth: f64,
    gain: f64,
    rate: f64,
    window: f64,
    base: BaseDelay,
    queue: Duration,
    round: Round,
    /// Consecutive rounds in which there was room.
    roomy_rounds: u32,
    /// Consecutive rounds of a queue that stands.
    standing_rounds: u32,
    /// After how many of them a trial begins.
    trial_after: u32,
    trial: Option<Trial>,
    /// When competition ended last, and its window.
    shared: Option<(Time, f64)>,
    /// Between what the queue's delay has swayed since the window was last lowered.
    sway: (Duration, Duration),
    /// The share of bytes lost, over some round trips.
    loss_share: f64,
    flat_rounds: u32,
    lossy_rounds: u32,
    bandwidth_before: f64,
    cubic: Option<Cubic>,
    mode_since: Time,
    trial_gap: Duration,
    /// The smoothed share of packets that routers mark (DCTCP's α, RFC 8257 §3.3).
    marked_share: f64,
    /// By how much the rate stays below what is delivered, for the sake of marks of the last round.
    relief: f64,
}

/// Half the rate for some round trips: does the queue shrink?
#[derive(Clone, Copy, Debug)]
struct Trial {
    rounds: u32,
    /// The queue's delay before, seconds.
    queue: f64,
}

/// What was seen during a round trip.
#[derive(Clone, Copy, Debug)]
struct Round {
    began: Time,
    least_queue: Duration,
    fastest: f64,
    last_rate: f64,
    acked: u64,
    lost: u64,
    marked: u64,
    scalable: bool,
    app_limited: bool,
}

impl Round {
    fn new(now: Time) -> Round {
        Round {
            began: now,
            least_queue: Duration::MAX,
            fastest: 0.0,
            last_rate: 0.0,
            acked: 0,
            lost: 0,
            marked: 0,
            scalable: false,
            app_limited: false,
        }
    }
}

/// The least one-way delay of the last [`BASE_LIFE`] to twice that.
#[derive(Clone, Copy, Debug)]
struct BaseDelay {
    before: i64,
    now: i64,
    since: Time,
}

impl BaseDelay {
    fn update(&mut self, now: Time, one_way_us: i64) {
        if now - self.since > BASE_LIFE {
            (self.before, self.now, self.since) = (self.now, one_way_us, now);
        }
        self.now = self.now.min(one_way_us);
    }

    fn us(&self) -> i64 {
        self.before.min(self.now)
    }
}

impl Capacity {
    /// An estimate that knows nothing yet, for packets of `packet_bytes`.
    pub fn new(now: Time, packet_bytes: usize) -> Capacity {
        Capacity {
            mode: Mode::Startup,
            packet: packet_bytes,
            bandwidth: INITIAL_RATE / 2.0,
            gain: 2.0,
            rate: INITIAL_RATE,
            window: 12.0 * packet_bytes as f64,
            base: BaseDelay { before: i64::MAX, now: i64::MAX, since: now },
            queue: Duration::ZERO,
            round: Round::new(now),
            roomy_rounds: 0,
            standing_rounds: 0,
            trial_after: FIRST_TRIAL,
            trial: None,
            shared: None,
            sway: (Duration::ZERO, Duration::ZERO),
            loss_share: 0.0,
            flat_rounds: 0,
            lossy_rounds: 0,
            bandwidth_before: 0.0,
            cubic: None,
            mode_since: now,
            trial_gap: TRIAL_AFTER,
            marked_share: 0.0,
            relief: 0.0,
        }
    }

    /// The path now takes packets of `packet_bytes`.
    pub fn resize_packets(&mut self, packet_bytes: usize) {
        self.packet = packet_bytes;
    }

    /// At how many bytes a second packets should leave.
    pub fn pacing_rate(&self) -> u64 {
        self.rate as u64
    }

    /// How many bytes may be under way.
    pub fn window_bytes(&self) -> u64 {
        self.window as u64
    }

    /// How many bytes a second the path carries, as far as is known.
    pub fn bandwidth(&self) -> u64 {
        self.bandwidth as u64
    }

    /// Whether the path carries so much that what a packet costs the processor matters more than what it costs the path.
    pub fn is_fast(&self) -> bool {
        self.haste() < 1.0
    }

    /// How long the newest packet known of waited in queues.
    pub fn queue_delay(&self) -> Duration {
        self.queue
    }

    /// What the estimate is doing.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// The delay that is aimed at: [`TARGET`], on fast paths what [`SMALL_QUEUE`] takes, but at least what two packets
    /// take.
    fn target(&self) -> f64 {
        (self.haste() * TARGET.as_secs_f64())
            .max(2.0 * self.packet as f64 / self.bandwidth.max(LEAST_RATE))
            .min(0.05)
    }

    /// The share of the usual times within which a queue is to be filled and emptied: 1, but less on fast paths.
    fn haste(&self) -> f64 {
        let small = SMALL_QUEUE / self.bandwidth.max(LEAST_RATE) / TARGET.as_secs_f64();
        small.clamp(LEAST_TARGET.as_secs_f64() / TARGET.as_secs_f64(), 1.0)
    }

    /// Routers have marked `packets` more of ours: their queue grows, whatever the delay says. `scalable`: they do so
    /// early, as those of L4S do for ECT(1), and what counts is the share that is marked (RFC 9331 §4.3); otherwise one
    /// mark means as much as a loss to those who listen to losses (RFC 8511).
    pub fn handle_marks(&mut self, packets: u64, scalable: bool) {
        self.round.marked += packets;
        self.round.scalable = scalable;
    }

    /// Takes what an acknowledgement told.
    pub fn handle_feedback(&mut self, now: Time, feedback: &Feedback) {
        if let Some(one_way) = feedback.one_way_us {
            self.base.update(now, one_way);
            self.queue = Duration::from_micros(one_way.saturating_sub(self.base.us()).max(0) as u64);
        }
        let round = &mut self.round;
        round.least_queue = round.least_queue.min(self.queue);
        round.acked += feedback.acked_bytes;
        round.lost += feedback.lost_bytes;
        round.app_limited |= feedback.app_limited;
        if let Some(rate) = feedback.rate {
            round.fastest = round.fastest.max(rate as f64);
            round.last_rate = rate as f64;
        }
        match &mut self.cubic {
            Some(cubic) => {
                let sway = &mut self.sway;
                *sway = (sway.0.min(self.queue), sway.1.max(self.queue));
                let deaf = sway.0 > sway.1.mul_f64(DEAF) && self.loss_share < TOLERABLE;
                if feedback.lost_bytes > 0 && (!deaf || cubic.is_starting()) {
                    cubic.handle_lost(now, feedback.sent_at.unwrap_or(now));
                    *sway = (self.queue, self.queue);
                } else if !feedback.app_limited {
                    cubic.handle_acked(now, feedback.acked_bytes, feedback.rtt);
                }
                if let Some(rate) = feedback.rate {
                    self.bandwidth =
                        if feedback.app_limited { self.bandwidth.max(rate as f64) } else { rate as f64 };
                }
            }
            None => self.measure(feedback),
        }
        if now - self.round.began >= feedback.rtt.max(Duration::from_millis(1)) {
            self.end_round(now, feedback);
        }
        self.steer(now, feedback);
    }

    /// Brings the bandwidth up to date: while packets queue it is what is delivered, otherwise at least that.
    fn measure(&mut self, feedback: &Feedback) {
        let Some(rate) = feedback.rate else { return };
        let rate = rate as f64;
        if rate > self.bandwidth {
            self.bandwidth = rate;
        } else if (self.queue.as_secs_f64() > self.target() || self.relief > 0.0)
            && !feedback.app_limited
            && self.mode != Mode::Startup
            && self.trial.is_none()
        {
            // Toward the measured rate within about a round trip.
            let window = (self.bandwidth * feedback.rtt.as_secs_f64()).max(self.packet as f64);
            let weight = (2.0 * feedback.acked_bytes as f64 / window).min(1.0);
            self.bandwidth += weight * (rate - self.bandwidth);
        }
        self.bandwidth = self.bandwidth.max(LEAST_RATE);
    }

    fn end_round(&mut self, now: Time, feedback: &Feedback) {
        let round = std::mem::replace(&mut self.round, Round::new(now));
        let target = self.target();
        let least =
            if round.least_queue == Duration::MAX { self.queue } else { round.least_queue }.as_secs_f64();
        // There is room if the queue was short at some time of the round, and more was not for want of data.
        let roomy = least < target / 2.0;
        self.roomy_rounds = if roomy && !round.app_limited { self.roomy_rounds + 1 } else { 0 };
        self.end_marked_round(now, &round, feedback);
        let share = round.lost as f64 / (round.acked + round.lost).max(1) as f64;
        self.loss_share += (share - self.loss_share) / 4.0;
        let lossy = round.lost > (round.acked + round.lost) / 6 && round.lost > 3 * self.packet as u64;
        self.lossy_rounds = if lossy { self.lossy_rounds + 1 } else { 0 };
        if self.lossy_rounds >= 2 && round.last_rate > 0.0 && !round.app_limited {
            // A policer, or a queue shorter than our aim: what gets through is what there is.
            self.bandwidth = self.bandwidth.min(round.fastest.max(LEAST_RATE));
        }
        match self.mode {
            Mode::Startup => {
                let grown = self.bandwidth >= self.bandwidth_before * 1.25;
                self.flat_rounds = if grown || round.app_limited { 0 } else { self.flat_rounds + 1 };
                self.bandwidth_before = self.bandwidth_before.max(self.bandwidth);
                if self.flat_rounds >= 3 || lossy || round.marked > 0 {
                    self.enter(Mode::Delay, now);
                }
            }
            Mode::Delay => self.look_for_others(now, &round, feedback, least),
            Mode::Competitive => {
                let since = now - self.mode_since;
                // Losses of both at once empty a short queue, too: that alone says nothing of who is there.
                let alone = least < TARGET.as_secs_f64() && since > TRIAL_AFTER;
                if alone || since > self.trial_gap {
                    self.trial_gap =
                        if alone { TRIAL_AFTER } else { (self.trial_gap * 2).min(TRIAL_AFTER * 4) };
                    self.shared = self.cubic.as_ref().map(|cubic| (now, cubic.window_bytes()));
                    self.enter(Mode::Delay, now);
                    self.trial_after = FIRST_TRIAL / 2;
                }
            }
        }
    }

    /// Whether somebody else fills the queue: it stands, and at half our rate it stands as well.
    fn look_for_others(&mut self, now: Time, round: &Round, feedback: &Feedback, least: f64) {
        let long = 1.5 * TARGET.as_secs_f64();
        let Some(trial) = &mut self.trial else {
            let stands = least > long && !round.app_limited;
            self.standing_rounds = if stands { self.standing_rounds + 1 } else { 0 };
            if self.standing_rounds >= self.trial_after {
                self.trial = Some(Trial { rounds: 0, queue: least });
            }
            return;
        };
        trial.rounds += 1;
        if trial.rounds == TRIAL_ROUNDS + 1 && !round.app_limited && least > long.max(0.6 * trial.queue) {
            let window = (self.bandwidth * feedback.rtt.as_secs_f64()).max(4.0 * self.packet as f64);
            let shared = self.shared.filter(|shared| now - shared.0 < TRIAL_AFTER * 2);
            self.cubic = Some(match shared {
                Some((_, before)) => Cubic::new(now, window.max(before), self.packet),
                None => Cubic::starting(now, window * 1.2, self.packet),
            });
            self.enter(Mode::Competitive, now);
        } else if trial.rounds > TRIAL_ROUNDS + 1 {
            self.trial = None;
            self.sway = (self.queue, self.queue);
            self.standing_rounds = 0;
            self.trial_after = (self.trial_after * 2).min(LAST_TRIAL);
        }
    }

    fn end_marked_round(&mut self, now: Time, round: &Round, feedback: &Feedback) {
        if round.marked == 0 && self.marked_share == 0.0 {
            return;
        }
        let packets = (round.acked / self.packet as u64).max(round.marked).max(1);
        let share = round.marked as f64 / packets as f64;
        self.marked_share += (share - self.marked_share) / 16.0;
        if self.marked_share < 1e-4 {
            self.marked_share = 0.0;
        }
        self.relief = match round.marked {
            0 => 0.0,
            _ if round.scalable => self.marked_share.max(share / 4.0) / 2.0,
            _ => CLASSIC_RELIEF,
        };
        if round.marked > 0 {
            self.roomy_rounds = 0;
            if let Some(cubic) = &mut self.cubic {
                cubic.handle_lost(now, feedback.sent_at.unwrap_or(now));
            }
        }
    }

    fn enter(&mut self, mode: Mode, now: Time) {
        self.mode = mode;
        self.mode_since = now;
        (self.standing_rounds, self.roomy_rounds, self.flat_rounds) = (0, 0, 0);
        self.trial = None;
        if mode != Mode::Competitive {
            self.cubic = None;
        }
    }

    /// Sets rate and window.
    fn steer(&mut self, now: Time, feedback: &Feedback) {
        let (target, queue) = (self.target(), self.queue.as_secs_f64());
        let rtt = feedback.rtt.as_secs_f64().max(0.0005);
        if self.mode == Mode::Startup && queue > 1.5 * target {
            self.enter(Mode::Delay, now);
        }
        let least_rtt = feedback.least_rtt.min(feedback.rtt).as_secs_f64();
        let haste = self.haste();
        let slack = 4.0 * self.packet as f64 + self.bandwidth * 0.012 * haste;
        match self.mode {
            Mode::Startup => {
                self.gain = 2.0;
                self.window = 2.0 * self.bandwidth * (least_rtt + 0.02 * haste) + 12.0 * self.packet as f64;
            }
            Mode::Delay => {
                let horizon = (2.0 * rtt).max(0.04 * haste);
                let room = (target - queue) / horizon;
                let boost = 2f64.powi(self.roomy_rounds.saturating_sub(2).min(4) as i32);
                self.gain =
                    if room > 0.0 { 1.0 + (room.max(0.01) * boost).min(0.5) } else { (1.0 + room).max(0.5) };
                if self.trial.is_some_and(|trial| trial.rounds < TRIAL_ROUNDS) {
                    self.gain = 0.5;
                }
                if self.relief > 0.0 {
                    self.gain = self.gain.min(1.0 - self.relief);
                }
                self.window = 1.25 * self.bandwidth * (least_rtt + 2.0 * target) + slack;
            }
            Mode::Competitive => {
                let window = self.cubic.as_ref().map_or(self.window, Cubic::window_bytes);
                self.window = window;
                self.rate = (1.1 * window / rtt).max(LEAST_RATE);
                return;
            }
        }
        self.rate = (self.bandwidth * self.gain).max(LEAST_RATE);
    }

    /// Nothing was acknowledged for so long that the path is believed away, or it has changed: what was known of the
    /// delay may be wrong.
    pub fn handle_new_path(&mut self, now: Time) {
        *self = Capacity { packet: self.packet, ..Capacity::new(now, self.packet) };
    }
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
