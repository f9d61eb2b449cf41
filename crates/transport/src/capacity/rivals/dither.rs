//! Network Delivery Time Control after draft-ageneau-ccwg-ndtc (P.-L. Ageneau, G. Armitage, S. Danahy; Netflix, 2026): its
//! estimate is Frame Dithering Available Capacity Estimation. The draft's sections are named here by their titles.
//!
//! Each frame leaves over a time that is dithered around 0.3 frame periods; over what time it comes tells what the path has left.
//! A line through the times per byte, those of sending and those of arriving, gives the time per byte at which both are equal.
//! A frame gets what that carries in 0.6 periods. What is lost or marked lowers that as Prague's congestion control would.
//!
//! A frame here is a train: what leaves from when the application has something to when it has no more. Its times are those
//! from the first packet of it that an acknowledgement names as its newest to the last such one, and its bytes those between,
//! with half of these two. The frame period is the median of the times between trains.
//!
//! Left out: the delay before a frame that aligns the ends of all (DELAY), and filler data for frames below the least size.
//! The dither changes when a frame is acknowledged, not when the next one begins, which may be in the middle of one.

use super::super::{Feedback, INITIAL_RATE};
use super::{MOST_RATE, Rates};
use glassline_media::Time;
use std::collections::VecDeque;

/// The least size of a frame that is aimed at, bytes (MIN_TARGET).
const LEAST_TARGET: f64 = 2000.0;
/// A smaller frame measures nothing, bytes. MIN_LENGTH is twice that, for frames that are filled up to the least size.
const LEAST_LENGTH: f64 = LEAST_TARGET / 4.0;
/// After so many frames that measured nothing, so many packets are the least size until one does. An acknowledgement tells when
/// one packet came of the two or more that it is for, so that a frame of two measures nothing here, and the rate would stay
/// at its least for ever: what MIN_TARGET prevents where each packet is told of.
const UNMEASURED: u32 = 8;
const MEASURABLE: f64 = 3.0;
/// Over what share of the frame period frames should come (TRECV),
const RECEIVE_SHARE: f64 = 0.6;
/// and over what share of that they leave (TSEND),
const SEND_SHARE: f64 = 0.5;
/// dithered by up to this share (DELTA).
const DITHER: f64 = 0.5;
/// How often the estimate is refined where the path's queue is shared (ITERATIONS).
const ITERATIONS: u32 = 3;
/// The weight of a frame in the line (LAMBDA).
const WEIGHT: f64 = 0.04;
/// How much the line's error takes off (KMARGIN).
const MARGIN: f64 = 0.25;
/// A frame that takes longer to come counts as one of so many periods («FDACE»).
const LONGEST: f64 = 3.0;
/// What a frame without losses adds to the size that congestion allows, bytes (ALPHA); the same after marks (EALPHA).
const MORE: f64 = 40.0;
const MORE_AFTER_MARKS: f64 = 400.0;
/// What a loss leaves of it (BETA).
const BETA: f64 = 0.7;
/// The weight of a frame in the share of marks («AIMD Logic Implementation»).
const MARKS_WEIGHT: f64 = 1.0 / 16.0;
/// The frame period before it was seen, s, and the range that is believed: what begins sooner is of the same frame.
const PERIOD: f64 = 1.0 / 30.0;
const PERIOD_RANGE: (f64, f64) = (0.008, 0.1);
/// It is the median of so many: frames that were skipped do not count.
const PERIODS: usize = 9;
/// A pause of this share of a frame period ends a frame, if it is longer than so many of its packets are apart.
const PAUSE: f64 = 0.25;
const PAUSE_PACKETS: f64 = 3.0;
/// The size of a packet before one is known, bytes.
const PACKET: f64 = 1200.0;

/// The state of the estimate, in bytes and seconds.
#[derive(Clone, Debug)]
pub(super) struct Dither {
    /// What is acknowledged of a frame so far.
    frame: Option<Frame>,
    /// When the frame before it began.
    began: Option<Time>,
    periods: VecDeque<f64>,
    period: f64,
    line: Line,
    /// Seconds a byte at which a frame would come as it leaves; `None` before a frame has told.
    estimate: Option<f64>,
    slope: f64,
    /// Frames in a row that measured nothing.
    unmeasured: u32,
    congestion: Congestion,
    /// The size of a frame (TARGET), and over what time it leaves (PACE).
    target: f64,
    pace: f64,
    /// The size of a packet.
    packet: f64,
    /// What the dither follows from.
    random: u32,
}

/// A frame that is being acknowledged.
#[derive(Clone, Copy, Debug)]
struct Frame {
    train: u32,
    /// When its first packet left, and came by the receiver's clock in seconds.
    first: (Time, f64),
    last: (Time, f64),
    /// Bytes behind the first packet, of the first and of the last one.
    bytes: f64,
    ends: (f64, f64),
    /// Acknowledgements behind the first one.
    count: u32,
    lost: bool,
    packets: f64,
    marked: f64,
}

impl Default for Dither {
    fn default() -> Dither {
        let mut dither = Dither {
            frame: None,
            began: None,
            periods: VecDeque::new(),
            period: PERIOD,
            line: Line::default(),
            estimate: None,
            slope: 1.0,
            unmeasured: 0,
            congestion: Congestion {
                size: MOST_RATE * PERIOD,
                share: 1.0,
                lowered: None,
                lowered_for_marks: None,
            },
            target: 0.0,
            pace: 0.0,
            packet: PACKET,
            random: 1,
        };
        dither.aim();
        dither
    }
}

impl Dither {
    pub(super) fn handle_feedback(
        &mut self,
        now: Time,
        feedback: &Feedback,
        packet: f64,
        marks: (u64, bool),
    ) {
        self.packet = packet;
        if let Some(lost_at) = feedback.lost_sent_at.filter(|_| feedback.lost_bytes > 0) {
            self.congestion.handle_loss(now, lost_at, self.most());
            if let Some(frame) = &mut self.frame {
                frame.lost = true;
            }
            self.aim();
        }
        let (Some(left), Some(one_way_us)) = (feedback.sent_at, feedback.one_way_us) else { return };
        let came = left.as_nanos() as f64 / 1e9 + one_way_us as f64 / 1e6;
        let bytes = feedback.acked_bytes as f64;
        let begun = Frame {
            train: feedback.train,
            first: (left, came),
            last: (left, came),
            bytes: 0.0,
            ends: (bytes.min(packet), bytes.min(packet)),
            count: 0,
            lost: feedback.lost_bytes > 0,
            packets: bytes / packet.max(1.0),
            marked: marks.0 as f64,
        };
        match &mut self.frame {
            Some(frame) if frame.goes_on(feedback.train, left, self.period) => {
                frame.last = (left, came.max(frame.last.1));
                frame.bytes += bytes;
                frame.ends.1 = bytes.min(packet);
                frame.count = frame.count.saturating_add(1);
                frame.packets += begun.packets;
                frame.marked += begun.marked;
            }
            frame => {
                if let Some(before) = frame.replace(begun) {
                    self.end_frame(now, &before);
                }
            }
        }
        if feedback.train_ended
            && let Some(frame) = self.frame.take()
        {
            self.end_frame(now, &frame);
        }
    }

    pub(super) fn rates(&self, packet: f64) -> Rates {
        let target = self.target / self.period;
        let carried = self.estimate.map_or(target / RECEIVE_SHARE, |time| 1.0 / time);
        Rates::without_window(target, self.target / self.pace.max(1e-6), carried.min(MOST_RATE), packet)
    }

    /// A frame began then, or what is left of it.
    fn note_period(&mut self, began: Time) {
        let (least, most) = PERIOD_RANGE;
        let period = self.began.map_or(f64::INFINITY, |before| began.since(before).as_secs_f64());
        if period < least {
            return;
        }
        self.began = Some(began);
        if period > most {
            return;
        }
        if self.periods.len() >= PERIODS {
            self.periods.pop_front();
        }
        self.periods.push_back(period);
        let mut sorted: Vec<f64> = self.periods.iter().copied().collect();
        sorted.sort_by(f64::total_cmp);
        if sorted.len() == PERIODS {
            self.period = sorted[PERIODS / 2];
        }
    }

    /// The largest frame that the estimate allows to be sent at its highest pace (CMAX).
    fn most(&self) -> f64 {
        self.estimated_target() / SEND_SHARE
    }

    /// What is left of the path in the time over which a frame should come («Target Frame Size from Available Capacity»).
    fn estimated_target(&self) -> f64 {
        let rate = self.estimate.map_or(INITIAL_RATE / RECEIVE_SHARE, |time| 1.0 / time);
        (RECEIVE_SHARE * self.period * rate).min(MOST_RATE * self.period)
    }

    fn end_frame(&mut self, now: Time, frame: &Frame) {
        self.note_period(frame.first.0);
        let length = frame.length();
        self.unmeasured = self.unmeasured.saturating_add(1);
        if frame.count > 0 && length >= LEAST_LENGTH && !frame.lost {
            let sent = frame.last.0.since(frame.first.0).as_secs_f64();
            let received = (frame.last.1 - frame.first.1).clamp(0.0, LONGEST * self.period);
            self.unmeasured = 0;
            self.line.add(sent / length, received / length);
            self.slope = self.line.slope();
            self.estimate = Some(self.line.estimate().max(1.0 / MOST_RATE));
        }
        self.congestion.handle_frame(now, frame, self.most());
        self.aim();
    }

    /// «Encoder Target Frame Size» and «Adaptive Frame Pacer».
    fn aim(&mut self) {
        let most = self.most();
        let measurable = if self.unmeasured < UNMEASURED { 0.0 } else { MEASURABLE * self.packet };
        let least = LEAST_TARGET.max(measurable);
        let allowed = self.congestion.size.min(most).max(1.0);
        self.target = self.estimated_target().min(allowed).max(least);
        let congestion_slope = (1.0 - SEND_SHARE * most / allowed).max(0.0) / (1.0 - SEND_SHARE);
        let slope = self.slope.min(congestion_slope);
        // Numerical Recipes' quick generator; its high bits are random enough.
        self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let dither = f64::from(self.random) / f64::from(u32::MAX) * 2.0 - 1.0;
        let receive = RECEIVE_SHARE * self.period;
        let send = SEND_SHARE * receive;
        self.pace = slope * send * (1.0 + DITHER * dither) + (1.0 - slope) * receive;
    }
}

impl Frame {
    /// Of the first and the last packet one does not count, and it is unknown which («Frame Size Calculation»).
    fn length(&self) -> f64 {
        self.bytes + (self.ends.0 - self.ends.1) / 2.0
    }

    /// Whether a packet of `train` that left at `left` belongs to it.
    fn goes_on(&self, train: u32, left: Time, period: f64) -> bool {
        let gap = left.since(self.last.0).as_secs_f64();
        let apart = self.last.0.since(self.first.0).as_secs_f64() / f64::from(self.count.max(1));
        let pause = (PAUSE * period).max(PAUSE_PACKETS * apart);
        train == self.train && (gap < pause || self.count == 0 && gap < RECEIVE_SHARE * period)
    }
}

/// The line through the frames' times per byte («Dual-variable EWMA Process Implementation»).
#[derive(Clone, Copy, Debug, Default)]
struct Line {
    count: u32,
    /// Means, and their variances.
    sent: (f64, f64),
    received: (f64, f64),
    covariance: f64,
}

impl Line {
    fn add(&mut self, sent: f64, received: f64) {
        self.count = self.count.saturating_add(1);
        let weight = (1.0 / f64::from(self.count)).max(WEIGHT);
        let (more_sent, more_received) = (sent - self.sent.0, received - self.received.0);
        let smoothed = |before: f64, product: f64| (1.0 - weight) * (before + weight * product);
        self.covariance = smoothed(self.covariance, more_sent * more_received);
        self.sent = (self.sent.0 + weight * more_sent, smoothed(self.sent.1, more_sent * more_sent));
        self.received = (
            self.received.0 + weight * more_received,
            smoothed(self.received.1, more_received * more_received),
        );
    }

    /// How much a longer time to send makes that of arriving longer: 0 at a bottleneck of our own, 1 on a path that does not
    /// limit.
    fn slope(&self) -> f64 {
        if self.sent.1 > 0.0 && self.covariance > 0.0 {
            (self.covariance / self.sent.1).min(1.0)
        } else {
            0.0
        }
    }

    /// Seconds a byte that a frame would take to come if it left over the same time, with a margin for the line's error.
    fn estimate(&self) -> f64 {
        let slope = self.slope();
        let intercept = (self.received.0 - slope * self.sent.0).max(0.0);
        let estimate = (0..ITERATIONS).fold(self.received.0, |estimate, _| slope * estimate + intercept);
        let margin = if self.sent.1 > 0.0 && self.received.1 > 0.0 {
            let explained = self.covariance * self.covariance / (self.sent.1 * self.received.1);
            MARGIN * self.received.1.sqrt() * (1.0 - explained).max(0.0)
        } else {
            0.0
        };
        estimate + margin
    }
}

/// The size of a frame that congestion allows («Combined AIMD Congestion Control»).
#[derive(Clone, Copy, Debug)]
struct Congestion {
    /// Bytes (CSIZE).
    size: f64,
    /// The smoothed share of packets that are marked.
    share: f64,
    lowered: Option<Time>,
    lowered_for_marks: Option<Time>,
}

impl Congestion {
    /// A packet is lost that left at `left`.
    fn handle_loss(&mut self, now: Time, left: Time, most: f64) {
        if self.lowered.is_none_or(|at| at <= left) {
            self.size = self.size.min(most) * BETA;
            self.lowered = Some(now);
        }
    }

    fn handle_frame(&mut self, now: Time, frame: &Frame, most: f64) {
        let began = frame.first.0;
        let share = (frame.marked / frame.packets.max(1.0)).min(1.0);
        self.share += MARKS_WEIGHT * (share - self.share);
        if self.lowered.is_some_and(|at| at > began) {
            return;
        }
        if frame.marked > 0.0 && self.lowered_for_marks.is_none_or(|at| at <= began) {
            self.size = self.size.min(most) * (1.0 - self.share * (1.0 - BETA));
            self.lowered_for_marks = Some(now);
        }
        if self.size < most {
            let more =
                if self.lowered_for_marks <= self.lowered { MORE } else { MORE_AFTER_MARKS * (1.0 - share) };
            self.size = (self.size + more).min(most);
        }
    }
}

#[cfg(test)]
#[path = "dither_tests.rs"]
mod tests;
