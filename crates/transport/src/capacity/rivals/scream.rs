//! SCReAM v2 after draft-johansson-ccwg-rfc8298bis-screamv2 (I. Johansson, M. Westerlund, M. Kühlewind, 2025) and its
//! reference implementation (github.com/EricssonResearch/scream, BSD; read, not copied). The draft's sections are named here by
//! their titles.
//!
//! A window of bytes in flight: a loss scales it by 0.7, a mark of a classic router by 0.8, marks of L4S by half of their
//! smoothed share; and where the smoothed delay of the queue is above half of its target of 60 ms, virtual marks do as those of
//! L4S would. It grows by a packet a round trip and, the longer ago congestion was, by up to 2 % of itself; slowly near the size
//! at which there was congestion. The rate is the window over the round trip; packets leave 1.5 times as fast.
//!
//! Where text and pseudocode of the draft differ, text and reference implementation agree, and are followed: the virtual share
//! of marks rises to 1 at the target, spread over the reactions in a round trip; a loss counts once a round trip.
//!
//! Left out: the compensation for competing flows, which raises the target and which the draft lets be turned off; the
//! correction of clock drift; the histogram of frames' sizes, since pictures here have the size that they are allowed; and the
//! overhead of packets, since all rates are of whole datagrams.

use super::super::base_delay::BaseDelay;
use super::super::{Feedback, LEAST_RATE};
use super::{MOST_RATE, Rates};
use glassline_media::Time;
use std::time::Duration;

/// The queue's delay that is aimed at, s (QDELAY_TARGET_LO).
const QUEUE_TARGET: f64 = 0.06;
/// For how long a one-way delay counts as that of the empty path; to twice that (RFC 6817: ten minutes).
const BASE_LIFE: Duration = Duration::from_secs(300);
/// The least window, bytes (MIN_REF_WND).
const LEAST_WINDOW: f64 = 3000.0;
/// The window grows up to so many times what was under way (BYTES_IN_FLIGHT_HEAD_ROOM).
const HEADROOM: f64 = 1.5;
/// What a loss and a classic mark leave of it (BETA_LOSS, BETA_ECN).
const BETA_LOSS: f64 = 0.7;
const BETA_ECN: f64 = 0.8;
/// So many times the window may be under way, so that large frames need not wait (REF_WND_OVERHEAD).
const OVERHEAD: f64 = 5.0;
/// For how many round trips after congestion growth is slower (POST_CONGESTION_DELAY_RTT).
const CAUTIOUS_ROUNDS: f64 = 100.0;
/// By this part of itself the window grows in a round trip (MUL_INCREASE_FACTOR).
const GROWTH: f64 = 0.02;
/// There is a reaction each round trip, or so often where those are longer, s (VIRTUAL_RTT).
const VIRTUAL_RTT: f64 = 0.025;
/// The weights of a larger share of marks, and of a smaller one (L4S_AVG_G_UP, L4S_AVG_G_DOWN).
const MARKS_UP: f64 = 1.0 / 8.0;
const MARKS_DOWN: f64 = 1.0 / 128.0;
/// How often that share is taken at the latest, s.
const MARKS_TIME: f64 = 0.01;
/// With a smaller share there are no marks.
const NO_MARKS: f64 = 0.0001;
/// The weight of a longer queue; a shorter one counts at once (QDELAY_AVG_G).
const QUEUE_WEIGHT: f64 = 0.25;
/// The size at which there was congestion is noted once in so many round trips.
const NOTED_ROUNDS: f64 = 10.0;
/// Above this share of the window under way the rate is lowered, if the queue is above a quarter of its target,
/// (BYTES_IN_FLIGHT_LIMIT)
const FULL: f64 = 0.9;
/// by this factor at most (BYTES_IN_FLIGHT_LIMIT_COMPENSATION).
const FULL_MOST: f64 = 1.5;
/// How much faster than the target packets leave (PACKET_PACING_HEADROOM), and their least rate before that, bytes a second
/// (RATE_PACE_MIN).
const PACING: f64 = 1.5;
const LEAST_PACE: f64 = 6250.0;
/// The round trip before it was measured, s (the reference implementation's).
const FIRST_RTT: f64 = 0.05;

/// The state of the window, in bytes and seconds.
#[derive(Clone, Debug)]
pub(super) struct Scream {
    window: f64,
    /// Its size when there was congestion (ref_wnd_i), and when that was noted.
    congested: Option<(f64, Time)>,
    rtt: f64,
    base: BaseDelay,
    /// Of the newest packet, and smoothed.
    queue: f64,
    smoothed_queue: f64,
    smoothed_at: Time,
    /// The most under way in this round trip and in the one before.
    under_way: [f64; 2],
    round_began: Time,
    marks: MarkedShare,
    /// When the window was last lowered, and when for a loss.
    lowered: Option<Time>,
    lost: Option<Time>,
    target: f64,
}

/// The share of packets that are marked (l4s_alpha).
#[derive(Clone, Copy, Debug)]
struct MarkedShare {
    share: f64,
    since: Time,
    packets: f64,
    marked: f64,
    /// Marked packets that no reaction has answered yet.
    unanswered: u64,
    /// They were marked by a router of L4S.
    scalable: bool,
}

impl MarkedShare {
    fn handle_packets(&mut self, now: Time, packets: f64, marks: (u64, bool), rtt: f64) {
        let (marked, scalable) = marks;
        self.packets += packets;
        self.marked += marked as f64;
        self.unanswered = self.unanswered.saturating_add(marked);
        if marked > 0 {
            self.scalable = scalable;
        }
        if now.since(self.since).as_secs_f64() < rtt.min(MARKS_TIME) || self.packets <= 0.0 {
            return;
        }
        let share = (self.marked / self.packets).min(1.0);
        self.share = if share >= self.share {
            MARKS_UP * share + (1.0 - MARKS_UP) * self.share
        } else {
            (1.0 - MARKS_DOWN) * self.share
        };
        (self.since, self.packets, self.marked) = (now, 0.0, 0.0);
    }
}

/// Why the window is lowered.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Cause {
    Loss,
    Mark,
    /// The queue's delay, as this share of marks.
    Queue(f64),
}

impl Scream {
    pub(super) fn new(now: Time) -> Scream {
        let marks =
            MarkedShare { share: 0.0, since: now, packets: 0.0, marked: 0.0, unanswered: 0, scalable: false };
        let mut scream = Scream {
            window: LEAST_WINDOW,
            congested: None,
            rtt: FIRST_RTT,
            base: BaseDelay::new(now),
            queue: 0.0,
            smoothed_queue: 0.0,
            smoothed_at: now,
            under_way: [0.0; 2],
            round_began: now,
            marks,
            lowered: None,
            lost: None,
            target: 0.0,
        };
        scream.set_target(0.0, 1.0);
        scream
    }

    pub(super) fn handle_handshake(&mut self, rtt: Duration) {
        self.rtt = rtt.as_secs_f64().max(0.0005);
        self.set_target(0.0, 1.0);
    }

    pub(super) fn handle_feedback(
        &mut self,
        now: Time,
        feedback: &Feedback,
        packet: f64,
        marks: (u64, bool),
    ) {
        let packet = packet.max(1.0);
        self.rtt = feedback.rtt.as_secs_f64().max(0.0005);
        let settled = feedback.acked_bytes.saturating_add(feedback.lost_bytes);
        let under_way = feedback.in_flight.saturating_add(settled) as f64;
        self.note_under_way(now, under_way);
        if let Some(one_way_us) = feedback.one_way_us {
            self.base.update(now, one_way_us, BASE_LIFE);
            self.queue = self.base.queue(one_way_us).as_secs_f64();
        }
        self.smooth_queue(now);
        self.marks.handle_packets(now, feedback.acked_bytes as f64 / packet, marks, self.rtt);
        let nearness = self.nearness();
        match self.cause(now, feedback, packet) {
            Some(cause) => self.lower(now, cause, nearness, packet),
            None => self.grow(now, feedback, nearness, packet, marks.0 as f64 * packet),
        }
        self.set_target(under_way, packet);
    }

    pub(super) fn rates(&self) -> Rates {
        let pacing = self.target.max(LEAST_PACE) * PACING;
        Rates { target: self.target, pacing, window: self.window * OVERHEAD, carried: self.target }
    }

    fn note_under_way(&mut self, now: Time, under_way: f64) {
        if now.since(self.round_began).as_secs_f64() >= self.rtt {
            self.round_began = now;
            self.under_way = [0.0, self.under_way[0]];
        }
        self.under_way[0] = self.under_way[0].max(under_way);
    }

    /// «Detecting Increased Queue Delay».
    fn smooth_queue(&mut self, now: Time) {
        if now.since(self.smoothed_at).as_secs_f64() < self.rtt.min(VIRTUAL_RTT) {
            return;
        }
        self.smoothed_at = now;
        let weight = if self.queue < self.smoothed_queue { 1.0 } else { QUEUE_WEIGHT };
        self.smoothed_queue += weight * (self.queue - self.smoothed_queue);
    }

    /// How far the window is from its size at congestion: 1, down to 0.1 nearby (scl_t).
    fn nearness(&self) -> f64 {
        let Some((congested, _)) = self.congested else { return 1.0 };
        let away = 8.0 * (self.window - congested) / congested.max(1.0);
        (away * away).clamp(0.1, 1.0)
    }

    /// Whether the window has to be lowered now («Reference Window Reduction»).
    fn cause(&self, now: Time, feedback: &Feedback, packet: f64) -> Option<Cause> {
        let since = |at: Option<Time>| at.map_or(f64::INFINITY, |at| now.since(at).as_secs_f64());
        if feedback.lost_bytes > 0 && since(self.lost) >= self.rtt {
            return Some(Cause::Loss);
        }
        let reaction = self.rtt.min(VIRTUAL_RTT);
        if since(self.lowered) < reaction {
            return None;
        }
        if self.marks.unanswered > 0 {
            return Some(Cause::Mark);
        }
        let above = (self.smoothed_queue - QUEUE_TARGET / 2.0) / (QUEUE_TARGET / 2.0);
        // Where routers of L4S mark as they should, their marks tell it better.
        let is_marked = self.marks.share >= 2.0 * packet / self.window;
        if above <= 0.0 || is_marked {
            return None;
        }
        Some(Cause::Queue(above.min(1.0) * reaction / self.rtt))
    }

    fn lower(&mut self, now: Time, cause: Cause, nearness: f64, packet: f64) {
        let noted = self.congested.map_or(f64::INFINITY, |(_, at)| now.since(at).as_secs_f64());
        if noted > NOTED_ROUNDS * self.rtt {
            self.congested = Some((self.window, now));
        }
        // Where there are few packets, each mark says less.
        let steady = (1.0 - (packet / self.window).min(1.0)).max(0.5);
        match cause {
            Cause::Loss => {
                self.window *= BETA_LOSS;
                self.lost = Some(now);
            }
            Cause::Mark if self.marks.scalable => {
                let near = if self.queue < QUEUE_TARGET / 4.0 { nearness.max(0.25) } else { 1.0 };
                let since = self.lowered.map_or(0.0, |at| now.since(at).as_secs_f64());
                if since > CAUTIOUS_ROUNDS * self.rtt.max(VIRTUAL_RTT) {
                    // It may have grown far above what was sent.
                    self.window = self.window.min(self.under_way[1]);
                }
                self.window *= 1.0 - self.marks.share / 2.0 * steady * near;
            }
            Cause::Mark => self.window *= BETA_ECN,
            Cause::Queue(share) => self.window *= 1.0 - share / 2.0 * steady,
        }
        self.window = self.window.max(LEAST_WINDOW);
        self.marks.unanswered = 0;
        self.lowered = Some(now);
    }

    /// «Reference Window Increase».
    fn grow(&mut self, now: Time, feedback: &Feedback, nearness: f64, packet: f64, marked_bytes: f64) {
        let settled = feedback.acked_bytes.saturating_add(feedback.lost_bytes) as f64;
        let ratio = (packet / self.window).min(1.0);
        let short = (self.rtt / VIRTUAL_RTT).min(1.0);
        let mut more = (settled - marked_bytes).max(0.0) * ratio * short * short;
        more *= nearness.max(0.25) * (1.0 - ratio).max(0.5);
        if self.marks.share < NO_MARKS {
            more *= (1.0 - self.smoothed_queue / (QUEUE_TARGET / 4.0)).max(0.1);
        }
        let rounds = self.lowered.map_or(f64::INFINITY, |at| {
            now.since(at).as_secs_f64() / (CAUTIOUS_ROUNDS * self.rtt.max(VIRTUAL_RTT))
        });
        more *= 1.0 + GROWTH * self.window / packet * rounds.min(1.0) * nearness;
        let most = packet + self.under_way[0].max(self.under_way[1]) * HEADROOM;
        if self.window + more <= most && self.target < MOST_RATE {
            self.window += more;
        }
    }

    /// «Media Rate Control», while `under_way` bytes are.
    fn set_target(&mut self, under_way: f64, packet: f64) {
        let mut share = 1.0;
        let full = under_way / self.window / FULL;
        if self.queue > QUEUE_TARGET / 4.0 && full > 1.0 {
            share /= full.min(FULL_MOST);
        }
        // A window of a few packets is never quite full.
        share *= 1.0 - ((packet / self.window).min(1.0) - 0.1).clamp(0.0, 0.2);
        self.target = (share * self.window / self.rtt).clamp(LEAST_RATE, MOST_RATE);
    }
}

#[cfg(test)]
#[path = "scream_tests.rs"]
mod tests;
