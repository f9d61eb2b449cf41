//! A bottleneck with a queue, and a sender of pictures that fill what they may have, for the tests of these controllers.

use crate::capacity::{Capacity, Controller, Feedback};
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::collections::VecDeque;
use std::time::Duration;

const STEP: Duration = Duration::from_micros(250);
pub(super) const PICTURE: Duration = Duration::from_millis(33);
const PACKET: usize = 1200;

#[derive(Clone, Copy)]
struct Flying {
    left: Time,
    /// When its acknowledgement comes; of a lost one, when it would.
    back: Time,
    one_way: Duration,
    bytes: u64,
    lost: bool,
    train: u32,
    ends: bool,
}

/// What a run has shown: means over its time.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Seen {
    /// Of packets in the bottleneck's queue, ms, and the longest.
    pub(super) queue: f64,
    pub(super) longest: f64,
    /// What came, bytes a second.
    pub(super) rate: f64,
}

/// The path and its sender.
pub(super) struct Plant {
    pub(super) capacity: Capacity,
    /// Bytes a second, and how long the queue may become.
    pub(super) rate: f64,
    pub(super) most_queue: Duration,
    /// The share of packets that are lost whatever the queue.
    pub(super) loss: f64,
    /// What others send steadily through the same queue, bytes a second.
    pub(super) others: f64,
    /// The share of its budgets that a picture takes.
    pub(super) appetite: f64,
    way: Duration,
    pub(super) now: Time,
    /// When the bottleneck has sent all that waits.
    free_at: f64,
    others_at: f64,
    next_picture: Time,
    next_send: Time,
    unsent: usize,
    train: u32,
    flying: VecDeque<Flying>,
    in_flight: u64,
    random: u32,
    rtt: f64,
}

impl Plant {
    pub(super) fn new(controller: Controller, rate: f64, way: Duration) -> Plant {
        let mut capacity = Capacity::new(Time::ZERO, PACKET, controller);
        capacity.handle_handshake(way * 2);
        Plant {
            capacity,
            rate,
            most_queue: Duration::from_secs(1),
            loss: 0.0,
            others: 0.0,
            appetite: 1.0,
            way,
            now: Time::ZERO,
            free_at: 0.0,
            others_at: 0.0,
            next_picture: Time::ZERO,
            next_send: Time::ZERO,
            unsent: 0,
            train: 0,
            flying: VecDeque::new(),
            in_flight: 0,
            random: 1,
            rtt: way.as_secs_f64() * 2.0,
        }
    }

    /// What the next pictures may have, bytes a second.
    pub(super) fn target(&self) -> f64 {
        self.capacity.room(self.now, Duration::from_secs(100), self.in_flight) / 100.0
    }

    pub(super) fn run(&mut self, millis: u64) -> Seen {
        let until = self.now + Duration::from_millis(millis);
        let (mut waited, mut packets, mut bytes, mut longest) = (0.0, 0u32, 0, 0.0f64);
        while self.now < until {
            self.now += STEP;
            self.hand_over();
            self.send();
            while let Some(flying) = self.flying.front().copied().filter(|flying| flying.back <= self.now) {
                self.flying.pop_front();
                self.in_flight -= flying.bytes;
                if !flying.lost {
                    let queue = (flying.one_way - self.way).as_secs_f64() * 1e3;
                    (waited, packets, longest) = (waited + queue, packets + 1, longest.max(queue));
                    bytes += flying.bytes;
                }
                self.acknowledge(&flying);
            }
        }
        let rate = bytes as f64 * 1e3 / millis as f64;
        Seen { queue: waited / f64::from(packets.max(1)), longest, rate }
    }

    fn hand_over(&mut self) {
        if self.now < self.next_picture {
            return;
        }
        self.next_picture += PICTURE;
        let room = self.capacity.room(self.now, PICTURE, self.in_flight) * self.appetite;
        if self.unsent == 0 {
            self.train += 1;
            self.next_send = self.next_send.max(self.now);
        }
        self.unsent = self.unsent.max((room.max(0.0) as usize).max(300));
    }

    fn send(&mut self) {
        while self.unsent > 0 && self.next_send <= self.now {
            let bytes = self.unsent.min(PACKET);
            if self.in_flight + bytes as u64 > self.capacity.window_bytes() {
                return;
            }
            self.unsent -= bytes;
            let pace = self.capacity.pacing_rate().bytes_per_second() as f64;
            let left = self.next_send.max(self.now);
            self.next_send = left + Duration::from_secs_f64(bytes as f64 / pace);
            self.random = self.random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let at = left.as_nanos() as f64 / 1e9;
            while self.others > 0.0 && self.others_at <= at {
                self.free_at = self.free_at.max(self.others_at) + PACKET as f64 / self.rate;
                self.others_at += PACKET as f64 / self.others;
            }
            let full = self.free_at - at > self.most_queue.as_secs_f64();
            let lost = full || f64::from(self.random) / f64::from(u32::MAX) < self.loss;
            if !full {
                self.free_at = self.free_at.max(at) + bytes as f64 / self.rate;
            }
            let one_way = self.way + Duration::from_secs_f64((self.free_at - at).max(0.0));
            let (train, ends) = (self.train, self.unsent == 0);
            let back = left + one_way + self.way;
            self.in_flight += bytes as u64;
            self.flying.push_back(Flying { left, back, one_way, bytes: bytes as u64, lost, train, ends });
        }
    }

    fn acknowledge(&mut self, flying: &Flying) {
        let rtt = (self.now - flying.left).as_secs_f64();
        let mut feedback = Feedback {
            in_flight: self.in_flight,
            rtt: Duration::from_secs_f64(self.rtt),
            least_rtt: self.way * 2,
            ..Feedback::default()
        };
        if flying.lost {
            feedback.lost_bytes = flying.bytes;
            feedback.lost_sent_at = Some(flying.left);
        } else {
            self.rtt += (rtt - self.rtt) / 8.0;
            feedback.acked_bytes = flying.bytes;
            feedback.sent_at = Some(flying.left);
            // The receiver's clock is a second ahead.
            feedback.one_way_us = Some(1_000_000 + flying.one_way.as_micros() as i64);
            feedback.rate = Some(ByteRate::from_bytes_per_second(self.rate as u64));
            (feedback.train, feedback.train_ended) = (flying.train, flying.ends);
        }
        self.capacity.handle_feedback(self.now, &feedback);
    }
}
