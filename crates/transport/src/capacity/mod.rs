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
//! full. A router that marks packets (ECN) says that its queue grows before the delay shows it: see `marks`.
//!
//! A flow that only reacts to delay is starved by flows that fill the queue until it overflows (CUBIC) or keep it half
//! full (BBR). If the queue stands for several round trips, the rate is halved for two more: if the queue stands then
//! too, other flows fill it, and the link holds a share among them (`competition`). Every few seconds the window is
//! halved for two round trips, which shows whether the other flows are gone (`others`).
//!
//! An application that pauses between pictures is measured by its trains: the packets that leave one right after the
//! other between two pauses. They leave a twentieth faster than the path is known to carry, so that more room is seen.
//! What a picture may have is `budget`; an application that sends as much as its budget allows is limited by the path
//! even though it pauses ([`Feedback::wants_more`]).
//!
//! Controllers of other systems are there for comparisons ([`Controller`]): Salsify's and a fixed rate here, and below
//! `rivals` three that decide in place of all this: `gcc` (Google Congestion Control, the gradient of the delay), `scream`
//! (SCReAM v2, a window by the queue's delay) and `dither` (NDTC, the dispersion of frames that leave over dithered times).

mod arrival;
mod base_delay;
mod budget;
mod competition;
mod controller;
mod cubic;
mod marks;
mod others;
mod rivals;
mod trains;

pub use arrival::Arrival;
use base_delay::BaseDelay;
use competition::Competition;
pub use controller::Controller;
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use marks::Marks;
use others::{FIRST_TRIAL, TRIAL_AFTER};
use rivals::Rival;
use std::time::Duration;
use trains::Trains;

/// The queueing delay that is aimed at, on a path that carries a packet in far less.
pub const TARGET: Duration = Duration::from_millis(6);
/// A queue that is small for the sockets and routers that hold it, bytes: they have room for a few MB, and what stays
/// in a cache is cheaper to handle. Where the path drains it in less than [`TARGET`], above 1.4 Gbit/s, it is the queue
/// that is aimed at.
const SMALL_QUEUE: f64 = 1_048_576.0;
/// The least queueing delay that is aimed at, however fast the path: programs look at their sockets no more often.
const LEAST_TARGET: Duration = Duration::from_millis(1);
/// What may be under way before anything was answered, in packets (RFC 6928, RFC 9002 §7.2).
const INITIAL_PACKETS: f64 = 10.0;
/// The rate before anything was measured, bytes a second: ten packets in 100 ms. Less than that over the handshake's round trip
/// is no fast start.
const INITIAL_RATE: f64 = 120_000.0;
/// In startup packets leave so much faster than the path is known to carry.
const STARTUP_GAIN: f64 = 2.0;
/// The same for pictures that fill their budgets, which are what is known to pass.
const PICTURE_GAIN: f64 = 4.0;
/// A shorter handshake says no more of the rate.
const LEAST_HANDSHAKE: Duration = Duration::from_millis(5);
/// The least rate, bytes a second.
const LEAST_RATE: f64 = 4_000.0;
/// How long a smallest one-way delay counts as that of the empty path.
const BASE_LIFE: Duration = Duration::from_secs(15);
/// The same while others fill the queue, which then may not be empty for long.
const SHARED_BASE_LIFE: Duration = Duration::from_secs(120);
/// The gain for an application that pauses, where no queue stands: more room shows only in what it sends between
/// pauses.
const PAUSING_GAIN: f64 = 1.05;

/// How many times as fast as packets arrive they leave under [`Controller::Salsify`].
const SALSIFY_PACE: f64 = 5.0;
/// The highest rate that is believed of it, bytes a second: above, it is two packets that came with one interrupt.
const SALSIFY_RATE_MAX: f64 = 1.25e9;
/// Packets that may be under way though the receiver's estimate says fewer.
const LEAST_WINDOW: f64 = 2.0;
/// So much counts of each rate that an application with pauses is seen to get in competition.
const SHARE_WEIGHT: f64 = 0.1;
/// What may be under way at a fixed rate, in time.
const FIXED_WINDOW: Duration = Duration::from_secs(4);

/// What one acknowledgement told.
#[derive(Clone, Copy, Debug, Default)]
pub struct Feedback {
    /// Bytes newly acknowledged.
    pub acked_bytes: u64,
    /// Bytes newly deemed lost.
    pub lost_bytes: u64,
    /// When the newest of them was sent.
    pub lost_sent_at: Option<Time>,
    /// Bytes still under way.
    pub in_flight: u64,
    /// When the newest packet acknowledged was sent.
    pub sent_at: Option<Time>,
    /// Its one-way delay in microseconds, by two clocks of unknown difference.
    pub one_way_us: Option<i64>,
    /// The rate of delivery over the last round trip.
    pub rate: Option<ByteRate>,
    /// Whether the sender had too little to send to fill that round trip.
    pub app_limited: bool,
    /// The rate at which packets came that had left one right after the other.
    pub train_rate: Option<ByteRate>,
    /// The number of the train that the newest packet acknowledged left with.
    pub train: u32,
    /// Whether it was the last of that.
    pub train_ended: bool,
    /// Whether the application pauses now and then, though not necessarily now.
    pub pausing: bool,
    /// Whether the application sends as much as it is told that it may: what it pauses is the link's doing.
    pub wants_more: bool,
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
    controller: Controller,
    /// The receiver's estimate of how long 1000 bytes take to arrive.
    arrival: Option<Duration>,
    mode: Mode,
    packet: usize,
    /// Bytes a second that the path is known to carry.
    bandwidth: f64,
    gain: f64,
    rate: f64,
    /// At what rate the first packets leave, before it is known what the path carries.
    initial_rate: f64,
    window: f64,
    base: BaseDelay,
    queue: Duration,
    /// When the packet was sent that found this queue.
    queue_at: Option<Time>,
    /// The least round-trip time.
    least_rtt: Duration,
    round: Round,
    /// Consecutive rounds in which there was room.
    roomy_rounds: u32,
    /// Consecutive rounds of a queue that stands.
    standing_rounds: u32,
    /// After how many of them a trial begins.
    trial_after: u32,
    trial: Option<Trial>,
    /// The last trial seems to have found others.
    suspects_others: bool,
    /// The largest bandwidth of the last minute without competition, and when it was measured.
    widest: (f64, Time),
    /// Competition that ended not long ago.
    shared: Option<Shared>,
    /// The share of bytes lost, over some round trips.
    loss_share: f64,
    flat_rounds: u32,
    lossy_rounds: u32,
    bandwidth_before: f64,
    competition: Option<Competition>,
    mode_since: Time,
    trial_gap: Duration,
    /// What pictures may count with.
    trains: Trains,
    /// The answer to routers' marks.
    marks: Marks,
    /// The application has pauses.
    pausing: bool,
    /// Bytes of what left before anything was answered that are not yet answered.
    first_flight: f64,
    began_fast: bool,
    /// The published controller that decides rate, window and bandwidth in place of all this.
    rival: Option<Box<Rival>>,
}

/// Half the rate for some round trips: does the queue shrink?
#[derive(Clone, Copy, Debug)]
struct Trial {
    rounds: u32,
    /// The queue's delay before, seconds.
    queue: f64,
}

/// How competition stood when it ended.
#[derive(Clone, Debug)]
struct Shared {
    ended: Time,
    competition: Competition,
    bandwidth: f64,
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
    /// The application had too little to send, and was offered more.
    idle: bool,
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
            idle: false,
        }
    }
}

impl Capacity {
    /// An estimate that knows nothing yet, for packets of `packet_bytes`.
    pub fn new(now: Time, packet_bytes: usize, controller: Controller) -> Capacity {
        let mut capacity = Capacity {
            controller,
            arrival: None,
            mode: Mode::Startup,
            packet: packet_bytes,
            bandwidth: INITIAL_RATE / STARTUP_GAIN,
            widest: (0.0, Time::ZERO),
            gain: STARTUP_GAIN,
            rate: INITIAL_RATE,
            initial_rate: INITIAL_RATE,
            window: 12.0 * packet_bytes as f64,
            base: BaseDelay::new(now),
            queue: Duration::ZERO,
            queue_at: None,
            least_rtt: Duration::ZERO,
            round: Round::new(now),
            roomy_rounds: 0,
            standing_rounds: 0,
            trial_after: FIRST_TRIAL,
            suspects_others: false,
            trial: None,
            shared: None,
            loss_share: 0.0,
            flat_rounds: 0,
            lossy_rounds: 0,
            bandwidth_before: 0.0,
            competition: None,
            mode_since: now,
            trial_gap: TRIAL_AFTER,
            trains: Trains::default(),
            marks: Marks::default(),
            pausing: false,
            first_flight: 0.0,
            began_fast: false,
            rival: Rival::new(now, packet_bytes, controller),
        };
        capacity.follow_rival();
        capacity
    }

    /// Takes over what a published controller decides, where one does.
    fn follow_rival(&mut self) {
        if let Some(rival) = &self.rival {
            (self.rate, self.window, self.bandwidth) = (rival.pacing(), rival.window(), rival.carried());
        }
    }

    /// The handshake took so long.
    pub fn handle_handshake(&mut self, rtt: Duration) {
        self.least_rtt = rtt;
        if let Some(rival) = &mut self.rival {
            rival.handle_handshake(rtt);
        }
        self.follow_rival();
    }

    /// The application fits messages to the path, of which nothing is known yet: the first packets, as many as may be under way
    /// before anything is answered, leave within the handshake's round trip (RFC 6928, RFC 9002 §7.2 and §7.7), and their train
    /// tells what the path carries. Does nothing once something was measured.
    pub fn begin_fast(&mut self) {
        let measured = self.mode != Mode::Startup
            || self.bandwidth > INITIAL_RATE / STARTUP_GAIN
            || self.rival.is_some();
        if measured || self.least_rtt.is_zero() || std::mem::replace(&mut self.began_fast, true) {
            return;
        }
        self.first_flight = INITIAL_PACKETS * self.packet as f64;
        self.window = self.first_flight;
        let rate = self.first_flight / self.least_rtt.max(LEAST_HANDSHAKE).as_secs_f64();
        self.initial_rate = rate.max(INITIAL_RATE);
        self.rate = self.initial_rate;
    }

    /// The path now takes packets of `packet_bytes`.
    pub fn resize_packets(&mut self, packet_bytes: usize) {
        self.packet = packet_bytes;
    }

    /// The rate at which packets should leave.
    pub fn pacing_rate(&self) -> ByteRate {
        match self.controller {
            Controller::Adaptive | Controller::Gcc | Controller::Scream | Controller::Dither => {
                ByteRate::from_bytes_per_second(self.rate as u64)
            }
            Controller::Salsify { .. } => {
                ByteRate::from_bytes_per_second((SALSIFY_PACE * self.arrival_rate()) as u64)
            }
            Controller::Fixed(rate) => rate,
        }
    }

    /// How many bytes may be under way.
    pub fn window_bytes(&self) -> u64 {
        match self.controller {
            Controller::Adaptive | Controller::Gcc | Controller::Scream | Controller::Dither => {
                self.window as u64
            }
            Controller::Salsify { delay, .. } => {
                (self.arrival_rate() * delay.as_secs_f64()).max(LEAST_WINDOW * self.packet as f64) as u64
            }
            // What the sender remembers bounds it: some seconds' worth.
            Controller::Fixed(rate) => (rate.bytes_in(FIXED_WINDOW) as u64).max(12 * self.packet as u64),
        }
    }

    /// The rate that the path carries, as far as is known.
    pub fn bandwidth(&self) -> ByteRate {
        match self.controller {
            Controller::Adaptive | Controller::Gcc | Controller::Scream | Controller::Dither => {
                ByteRate::from_bytes_per_second(self.bandwidth as u64)
            }
            Controller::Salsify { .. } => ByteRate::from_bytes_per_second(self.arrival_rate() as u64),
            Controller::Fixed(rate) => rate,
        }
    }

    /// What decides how fast the link sends.
    pub fn controller(&self) -> Controller {
        self.controller
    }

    /// The receiver says that 1000 of our bytes take so long to arrive (Salsify's τ).
    pub fn handle_arrival(&mut self, per_kilobyte: Duration) {
        self.arrival = Some(per_kilobyte);
    }

    /// 1/τ, bytes a second; the initial rate before anything is known.
    fn arrival_rate(&self) -> f64 {
        let rate = self.arrival.map(|time| 1000.0 / time.as_secs_f64().max(1e-9));
        rate.unwrap_or(INITIAL_RATE).clamp(LEAST_RATE, SALSIFY_RATE_MAX)
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

    /// The share of the usual times within which the link fills and drains a queue: 1, but less on fast paths.
    fn haste(&self) -> f64 {
        let small = SMALL_QUEUE / self.bandwidth.max(LEAST_RATE) / TARGET.as_secs_f64();
        small.clamp(LEAST_TARGET.as_secs_f64() / TARGET.as_secs_f64(), 1.0)
    }

    /// Routers have marked `packets` more of ours: their queue grows, whatever the delay says. `scalable`: they do so
    /// early, as those of L4S do for ECT(1), and what counts is the share that is marked (RFC 9331 §4.3); otherwise one
    /// mark counts as a loss does for a loss-based controller (RFC 8511).
    pub fn handle_marks(&mut self, packets: u64, scalable: bool) {
        self.round.marked += packets;
        self.round.scalable = scalable;
        if let Some(rival) = &mut self.rival {
            rival.handle_marks(packets, scalable);
        }
    }

    /// Takes what an acknowledgement told.
    pub fn handle_feedback(&mut self, now: Time, feedback: &Feedback) {
        if let Some(one_way) = feedback.one_way_us {
            let shared = self.competition.is_some() || self.shared.is_some();
            let life = if shared { SHARED_BASE_LIFE } else { BASE_LIFE };
            self.base.update(now, one_way, life);
            self.queue = self.base.queue(one_way);
            self.queue_at = feedback.sent_at;
            self.least_rtt = feedback.least_rtt;
        }
        if let Some(rival) = &mut self.rival {
            rival.handle_feedback(now, feedback, self.packet);
            return self.follow_rival();
        }
        self.first_flight = (self.first_flight - feedback.acked_bytes as f64).max(0.0);
        let round = &mut self.round;
        round.least_queue = round.least_queue.min(self.queue);
        round.acked += feedback.acked_bytes;
        round.lost += feedback.lost_bytes;
        round.app_limited |= feedback.app_limited;
        round.idle |= feedback.app_limited && !feedback.wants_more;
        self.pausing = feedback.pausing;
        let delivered = feedback.rate.map(|rate| rate.bytes_per_second() as f64);
        if let Some(rate) = delivered {
            round.fastest = round.fastest.max(rate);
            round.last_rate = rate;
        }
        match &mut self.competition {
            Some(competition) => {
                competition.handle_feedback(now, feedback);
                if let Some(rate) = delivered {
                    self.bandwidth = match (feedback.app_limited, feedback.wants_more) {
                        (false, _) => rate,
                        // Over its pauses: trains would tell how fast the path is, not what of it is ours.
                        (true, true) => self.bandwidth + SHARE_WEIGHT * (rate - self.bandwidth),
                        (true, false) => self.bandwidth.max(rate),
                    };
                }
            }
            None => {
                self.trains.handle_feedback(now, feedback);
                self.measure(feedback);
            }
        }
        if now - self.round.began >= feedback.rtt.max(Duration::from_millis(1)) {
            self.end_round(now, feedback);
        }
        self.steer(now, feedback);
    }

    /// Updates the bandwidth: while packets queue it is what is delivered, otherwise at least that.
    fn measure(&mut self, feedback: &Feedback) {
        // An application that pauses is measured by the trains that it sends between its pauses.
        let app_limited = feedback.app_limited && feedback.train_rate.is_none();
        let train = feedback.train_rate.filter(|_| feedback.app_limited);
        let Some(rate) = train.max(feedback.rate) else { return };
        let rate = rate.bytes_per_second() as f64;
        if rate > self.bandwidth {
            self.bandwidth = rate;
        } else if self.first_flight > 0.0 && self.queue.as_secs_f64() > self.target() {
            // The path was never as fast as was assumed.
            self.bandwidth = rate;
        } else if (self.queue.as_secs_f64() > self.target() || self.marks.are_heeded())
            && !app_limited
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
            Mode::Delay => {
                self.note_widest(now);
                self.look_for_others(now, &round, feedback, least);
            }
            Mode::Competitive => self.look_for_nobody(now, &round, feedback, least),
        }
    }

    fn end_marked_round(&mut self, now: Time, round: &Round, feedback: &Feedback) {
        let rtt = feedback.rtt.as_secs_f64().max(0.0005);
        self.marks.end_round(round, self.packet as f64, rtt, self.bandwidth);
        if round.marked > 0 {
            self.roomy_rounds = 0;
            if let Some(competition) = &mut self.competition {
                competition.handle_congestion_mark(now, feedback);
            }
        }
    }

    fn enter(&mut self, mode: Mode, now: Time) {
        self.mode = mode;
        self.mode_since = now;
        (self.standing_rounds, self.roomy_rounds, self.flat_rounds) = (0, 0, 0);
        (self.trial, self.suspects_others) = (None, false);
        if mode != Mode::Competitive {
            self.competition = None;
        }
    }

    /// Sets rate and window.
    fn steer(&mut self, now: Time, feedback: &Feedback) {
        let (target, queue) = (self.target(), self.queue.as_secs_f64());
        let rtt = feedback.rtt.as_secs_f64().max(0.0005);
        if self.mode == Mode::Startup && (queue > 1.5 * target || self.round.marked > 0) {
            self.enter(Mode::Delay, now);
        }
        let least_rtt = feedback.least_rtt.min(feedback.rtt).as_secs_f64();
        let haste = self.haste();
        let slack = 4.0 * self.packet as f64 + self.bandwidth * 0.012 * haste;
        match self.mode {
            Mode::Startup => {
                // A picture of what is known to pass leaves all the faster: it is over before much of a queue can grow.
                let probes = feedback.wants_more && self.first_flight <= 0.0;
                self.gain = if probes { PICTURE_GAIN } else { STARTUP_GAIN };
                self.window = 2.0 * self.bandwidth * (least_rtt + 0.02 * haste) + 12.0 * self.packet as f64;
            }
            Mode::Delay => {
                let horizon = (2.0 * rtt).max(0.04 * haste);
                let room = (target - queue) / horizon;
                let boost = 2f64.powi(self.roomy_rounds.saturating_sub(2).min(4) as i32);
                self.gain =
                    if room > 0.0 { 1.0 + (room.max(0.01) * boost).min(0.5) } else { (1.0 + room).max(0.5) };
                if feedback.app_limited && queue < target / 2.0 {
                    // What it sends is over before much of a queue can grow.
                    self.gain = self.gain.max(PAUSING_GAIN);
                }
                if self.is_trying() {
                    self.gain = 0.5;
                }
                self.window = 1.25 * self.bandwidth * (least_rtt + 2.0 * target) + slack;
            }
            Mode::Competitive => {
                let share = if self.is_trying() { 0.5 } else { 1.0 };
                if let Some(competition) = &self.competition {
                    self.window = share * competition.window(feedback);
                    self.rate = (share * competition.rate(feedback)).max(LEAST_RATE);
                }
                return;
            }
        }
        self.rate = self.marks.limit(self.bandwidth * self.gain).max(LEAST_RATE);
        if self.mode == Mode::Startup && self.first_flight > 0.0 {
            self.rate = self.rate.max(self.initial_rate);
        }
    }

    /// Nothing was acknowledged for so long that the path is believed away, or it has changed: what was known of the
    /// delay may be wrong.
    pub fn handle_new_path(&mut self, now: Time) {
        *self = Capacity { packet: self.packet, ..Capacity::new(now, self.packet, self.controller) };
    }
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
