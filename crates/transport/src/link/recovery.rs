//! What is under way: which packets are acknowledged, which are lost, and when to probe (RFC 9002).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::collections::VecDeque;
use std::time::Duration;

use super::content::Content;
use super::ranges::Ranges;
use super::received::{divided, max_delay};
use super::reordering::Reordering;
use super::rtt::Rtt;
use super::steps::step;
use super::wire::frame::Ack;

/// The least time that is worth a timer (RFC 9002 §6.1.2).
const GRANULARITY: Duration = Duration::from_millis(1);
/// Probes of a silent path come so often at first, so that one that is back is noticed soon,
const LEAST_PROBE_GAP: Duration = Duration::from_millis(25);
/// and never more seldom than this.
pub(crate) const MAX_PROBE_GAP: Duration = Duration::from_millis(150);
/// From then on, when new messages hardly leave any more, they come as often as this again, where the path's rate allows it
/// ([`Recovery::fit_probes`]), for as long as outages of radio last.
const OFTEN_AFTER: Duration = Duration::from_secs(1);
const OFTEN_PROBE_GAP: Duration = Duration::from_millis(33);
const OFTEN_UNTIL: Duration = Duration::from_secs(60);
/// A probe with the headers of UDP and IP, bytes; and the share of the path's rate that probes take at most.
const PROBE_BYTES: f64 = 70.0;
const PROBE_SHARE: f64 = 0.02;
/// Of a train's rate less than so many packets,
const TRAIN_PACKETS: u64 = 2;
/// or less time, says nothing.
const TRAIN_TIME: Duration = Duration::from_millis(3);
/// Packets remembered beside those of which many are under way, at most: a peer that never acknowledges one can make us
/// send many small ones, such as acknowledgements of its own.
const MAX_REMEMBERED: usize = 1 << 15;
/// A packet under way of so many bytes is remembered on top.
const LARGE_PACKET: u64 = 1000;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    InFlight,
    /// Neither asks for an acknowledgement nor counts as under way.
    NonAckEliciting,
    Acked,
    /// Others were acknowledged and it was not.
    Lost,
    /// The path was away, and it is not waited for.
    Abandoned,
}

#[derive(Clone, Copy, Debug)]
struct Sent {
    at: Time,
    bytes: u32,
    state: State,
    contents: u64,
    count: u32,
    app_limited: bool,
    train: u32,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
}

/// A rate of delivery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Delivery {
    pub(crate) rate: ByteRate,
    /// Whether the application had too little to send, so that the path may carry more.
    pub(crate) app_limited: bool,
}

/// What an acknowledgement told about the path; input to the capacity's estimate.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Sample {
    /// Bytes newly acknowledged.
    pub(crate) acked_bytes: u64,
    /// Bytes newly deemed lost, and when the newest packet of them was sent.
    pub(crate) lost_bytes: u64,
    pub(crate) lost_sent_at: Option<Time>,
    /// Packets newly acknowledged.
    pub(crate) acked_packets: u64,
    /// Packets newly deemed lost.
    pub(crate) lost_packets: u64,
    /// Of those acknowledged, packets that had been deemed lost: they were overtaken.
    pub(crate) late_packets: u64,
    /// The largest packet newly acknowledged, bytes.
    pub(crate) largest_acked: u32,
    /// The largest packet newly deemed lost, bytes.
    pub(crate) largest_lost: u32,
    /// When the largest newly acknowledged packet was sent.
    pub(crate) largest_sent_at: Option<Time>,
    /// The rate of delivery over about the last round trip.
    pub(crate) delivery: Option<Delivery>,
    /// The rate at which packets came that had left one right after the other, however little there was to send.
    pub(crate) train_rate: Option<ByteRate>,
    /// The number of the train that the newest packet left with, and whether it was the last of that.
    pub(crate) train: u32,
    pub(crate) train_ended: bool,
    /// The round trip that was measured.
    pub(crate) rtt: Option<Duration>,
}

/// Packets that leave one right after the other, from when the application had something to when it had no more: the
/// rate at which they come is that of the path if they left faster, and otherwise shows that the path carries as much.
#[derive(Clone, Copy, Debug, Default)]
struct Train {
    number: u32,
    /// When its first acknowledged packet left, and came by the receiver's clock in microseconds.
    began: Option<(Time, u64)>,
    /// Its size.
    size: u32,
    /// Bytes acknowledged since then.
    bytes: u64,
    packets: u64,
}

impl Train {
    /// `packets` more of `bytes` are acknowledged, `last` the last of them, which came at `received_us`.
    fn rate(&mut self, last: &Sent, received_us: Option<u64>, packets: u64, bytes: u64) -> Option<ByteRate> {
        let Some((left, came_us)) = self.began else {
            self.began = received_us.map(|came_us| (last.at, came_us));
            self.size = last.bytes;
            return None;
        };
        self.bytes = self.bytes.saturating_add(bytes);
        self.packets = self.packets.saturating_add(packets);
        let came = Duration::from_micros(received_us?.saturating_sub(came_us)).max(last.at - left);
        // A short one at the end came as long after the one before it as a whole one would have left: it makes the
        // rate smaller than it is.
        if self.packets < TRAIN_PACKETS || came < TRAIN_TIME || last.bytes < self.size {
            return None;
        }
        Some(rate_of(self.bytes, came))
    }
}

/// The rate at which so many bytes pass in `time`.
fn rate_of(bytes: u64, time: Duration) -> ByteRate {
    let nanos = time.as_nanos().max(1);
    let rate = u128::from(bytes).saturating_mul(1_000_000_000).checked_div(nanos).unwrap_or_default();
    ByteRate::from_bytes_per_second(u64::try_from(rate).unwrap_or(u64::MAX))
}

/// The acknowledgement names a packet that was never sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NeverSent;

/// The packets under way on a link.
pub(crate) struct Recovery {
    base: u64,
    packets: VecDeque<Sent>,
    /// Numbers from `base` on that are acknowledged.
    settled: Ranges<u64>,
    gaps: Vec<(u64, u64)>,
    /// No packet before this number is under way.
    flying_from: u64,
    contents: VecDeque<Content>,
    contents_base: u64,
    in_flight: u64,
    /// Bytes of all packets that have left.
    pub(crate) sent_bytes: u64,
    pub(crate) rtt: Rtt,
    largest_acked: Option<u64>,
    /// When the packets that are behind are lost by time.
    loss_at: Time,
    /// By how much the path changes packets' order.
    reordering: Reordering,
    last_asked_at: Time,
    probes: u32,
    /// When the first probe of this silence was due.
    silent_since: Time,
    blind: bool,
    /// The time between two probes from [`OFTEN_AFTER`] to [`OFTEN_UNTIL`].
    often_gap: Duration,
    /// The size of the largest packet that was given up since it was last asked for.
    given_up: u32,
    delivered: u64,
    delivered_at: Time,
    first_sent_at: Time,
    /// Sent up to here while the application had too little.
    app_limited_until: u64,
    /// The number of the train that is leaving, and of its last packet.
    train: u32,
    train_end: u64,
    /// The train of which packets were acknowledged last.
    acked_train: Train,
    /// For the caller to work off after [`Recovery::handle_ack`] and [`Recovery::handle_timeout`].
    pub(crate) acked: Vec<Content>,
    pub(crate) lost: Vec<Content>,
}

impl Recovery {
    pub(crate) fn new(now: Time) -> Recovery {
        Recovery {
            base: 0,
            packets: VecDeque::new(),
            settled: Ranges::default(),
            gaps: Vec::new(),
            flying_from: 0,
            contents: VecDeque::new(),
            contents_base: 0,
            in_flight: 0,
            sent_bytes: 0,
            rtt: Rtt::new(),
            largest_acked: None,
            loss_at: Time::NEVER,
            reordering: Reordering::default(),
            last_asked_at: now,
            probes: 0,
            silent_since: now,
            blind: false,
            often_gap: MAX_PROBE_GAP,
            given_up: 0,
            delivered: 0,
            delivered_at: now,
            first_sent_at: now,
            app_limited_until: 0,
            train: 0,
            train_end: u64::MAX,
            acked_train: Train::default(),
            acked: Vec::new(),
            lost: Vec::new(),
        }
    }

    /// The number of the next packet.
    fn end(&self) -> u64 {
        self.base.saturating_add(self.packets.len() as u64)
    }

    /// Where in `packets` the one of this number would be.
    #[inline]
    fn index(&self, number: u64) -> Option<usize> {
        number.checked_sub(self.base).and_then(|index| usize::try_from(index).ok())
    }

    /// Bytes of packets that are under way.
    pub(crate) fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// The largest number that was acknowledged.
    pub(crate) fn largest_acked(&self) -> Option<u64> {
        self.largest_acked
    }

    /// How many probe timeouts have passed since the last acknowledgement.
    pub(crate) fn probes(&self) -> u32 {
        self.probes
    }

    /// When the oldest packet under way was sent behind which nothing is acknowledged.
    pub(crate) fn oldest_unanswered(&self) -> Option<Time> {
        let first = self.largest_acked.map_or(0, |largest| largest.saturating_add(1)).max(self.flying_from);
        let from = self.index(first).unwrap_or_default().min(self.packets.len());
        let mut behind = self.packets.range(from..);
        behind.find(|packet| packet.state == State::InFlight).map(|packet| packet.at)
    }

    /// Whether the path has been silent for so long that what is under way says nothing about it.
    pub(crate) fn is_blind(&self) -> bool {
        self.blind
    }

    /// How long the path has been silent since the first probe was due; nothing while it is not.
    pub(crate) fn silence(&self, now: Time) -> Duration {
        if self.probes == 0 { Duration::ZERO } else { now - self.silent_since }
    }

    /// Packets remembered: 32,768, and as many as may be under way of 1,000 bytes each, at most.
    pub(crate) fn remembered(&self) -> usize {
        self.packets.len()
    }

    /// A packet has left. Numbers come without gaps.
    pub(crate) fn handle_sent(
        &mut self,
        now: Time,
        number: u64,
        bytes: usize,
        eliciting: bool,
        contents: &[Content],
    ) {
        debug_assert_eq!(number, self.end());
        let bytes = u32::try_from(bytes).unwrap_or(u32::MAX);
        self.sent_bytes = self.sent_bytes.saturating_add(bytes.into());
        if eliciting {
            if self.in_flight == 0 {
                (self.first_sent_at, self.delivered_at) = (now, now);
                // What is delivered in the round trip that begins is not the path's rate.
                self.app_limited_until = self.app_limited_until.max(number.saturating_add(1));
            }
            self.in_flight = self.in_flight.saturating_add(bytes.into());
            self.last_asked_at = now;
        }
        let unacked_from = self.largest_acked.map_or(0, |largest| largest.saturating_add(1));
        self.packets.push_back(Sent {
            at: now,
            bytes,
            state: if eliciting { State::InFlight } else { State::NonAckEliciting },
            contents: self.contents_base.saturating_add(self.contents.len() as u64),
            count: u32::try_from(contents.len()).unwrap_or(u32::MAX),
            app_limited: unacked_from < self.app_limited_until,
            train: self.train,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
        });
        self.contents.extend(contents);
        if number == self.train_end {
            self.train = self.train.wrapping_add(1);
        }
        // An end that only receives gets no acknowledgements, at which packets are forgotten otherwise.
        if number.is_multiple_of(64) {
            self.retire(now);
        }
    }

    /// The application has nothing more to send though it might: rates measured until all of this is acknowledged
    /// say little about the path.
    pub(crate) fn mark_app_limited(&mut self) {
        self.train_end = self.end();
        self.app_limited_until = self.train_end.saturating_add(1);
    }

    /// Takes an acknowledgement. What it settles stands in `acked` and `lost` then.
    pub(crate) fn handle_ack(&mut self, now: Time, ack: &Ack<'_>) -> Result<Sample, NeverSent> {
        if ack.largest >= self.end() {
            return Err(NeverSent);
        }
        let mut sample = Sample::default();
        let mut newest: Option<Sent> = None;
        let mut gaps = std::mem::take(&mut self.gaps);
        for (low, high) in ack.ranges() {
            if high < self.base {
                break;
            }
            // Only what is new: an acknowledgement names what others named before.
            let (low, end) = (low.max(self.base), high.saturating_add(1));
            gaps.clear();
            gaps.extend(self.settled.missing(low, end));
            for number in gaps.iter().rev().flat_map(|gap| (gap.0..gap.1).rev()) {
                self.handle_acked(now, number, ack.largest, &mut newest, &mut sample);
            }
            self.settled.insert(low, end);
        }
        self.gaps = gaps;
        self.largest_acked = self.largest_acked.max(Some(ack.largest));
        if let Some(rtt) = sample.rtt {
            self.rtt.update(rtt, Duration::from_micros(ack.delay_us));
        }
        if let Some(packet) = newest {
            (self.probes, self.blind) = (0, false);
            self.delivered_at = now;
            self.first_sent_at = packet.at;
            let interval = (packet.at - packet.first_sent_at).max(now - packet.delivered_at);
            let delivered = self.delivered.saturating_sub(packet.delivered);
            if self.acked_train.number != packet.train {
                self.acked_train = Train { number: packet.train, ..Train::default() };
            }
            // Only of the largest number is told when it came.
            let received_us = sample.rtt.map(|_| ack.received_us);
            let (packets, bytes) = (sample.acked_packets, sample.acked_bytes);
            sample.train_rate = self.acked_train.rate(&packet, received_us, packets, bytes);
            sample.train = packet.train;
            sample.train_ended = self.train_after(ack.largest) != packet.train;
            if interval >= self.rtt.least.min(Duration::from_millis(1)) {
                sample.delivery =
                    Some(Delivery { rate: rate_of(delivered, interval), app_limited: packet.app_limited });
            }
        }
        self.retire(now);
        self.detect_losses(now, &mut sample);
        Ok(sample)
    }

    /// The train of the packet that left after this one, or of the next that will.
    fn train_after(&self, number: u64) -> u32 {
        let next = self.index(number.saturating_add(1)).and_then(|index| self.packets.get(index));
        next.map_or(self.train, |next| next.train)
    }

    /// A packet is acknowledged that was not before.
    #[inline]
    fn handle_acked(
        &mut self,
        now: Time,
        number: u64,
        largest: u64,
        newest: &mut Option<Sent>,
        sample: &mut Sample,
    ) {
        step();
        let Some(index) = self.index(number) else { return };
        let Some(&packet) = self.packets.get(index) else { return };
        let bytes = u64::from(packet.bytes);
        if packet.state != State::NonAckEliciting {
            if packet.state == State::InFlight {
                self.land(&packet);
            } else if packet.state == State::Lost {
                self.reordering.handle_late(largest.saturating_sub(number), &self.rtt);
                sample.late_packets = sample.late_packets.saturating_add(1);
            }
            self.delivered = self.delivered.saturating_add(bytes);
            sample.acked_bytes = sample.acked_bytes.saturating_add(bytes);
            sample.acked_packets = sample.acked_packets.saturating_add(1);
            sample.largest_acked = sample.largest_acked.max(packet.bytes);
            newest.get_or_insert(packet);
        }
        if number == largest {
            let asked = packet.state != State::NonAckEliciting;
            sample.rtt = asked.then(|| now - packet.at);
            sample.largest_sent_at = Some(packet.at);
        }
        self.settle(&packet, true);
        self.packets[index].state = State::Acked;
    }

    /// A packet is under way no more.
    #[inline]
    fn land(&mut self, packet: &Sent) {
        let bytes = u64::from(packet.bytes);
        debug_assert!(bytes <= self.in_flight, "{bytes} go of {} under way", self.in_flight);
        self.in_flight = self.in_flight.saturating_sub(bytes);
    }

    /// Hands a packet's contents to the caller.
    fn settle(&mut self, packet: &Sent, acked: bool) {
        // What a remembered packet carried is remembered, too.
        let start = usize::try_from(packet.contents.saturating_sub(self.contents_base)).unwrap_or(usize::MAX);
        if acked && packet.count == 1 {
            let content = self.contents[start];
            if !self.acked.last_mut().is_some_and(|last| last.join(content)) {
                self.acked.push(content);
            }
            return;
        }
        let contents = self.contents.range(start..start.saturating_add(packet.count as usize));
        if acked { &mut self.acked } else { &mut self.lost }.extend(contents);
    }

    /// How long a packet may be behind later ones (RFC 9002 §6.1.2).
    fn loss_delay(&self) -> Duration {
        let usual = self.rtt.smoothed.max(self.rtt.latest);
        divided(usual.saturating_mul(9), 8).max(GRANULARITY).saturating_add(self.reordering.time)
    }

    fn detect_losses(&mut self, now: Time, sample: &mut Sample) {
        self.loss_at = Time::NEVER;
        let Some(largest) = self.largest_acked else { return };
        let (delay, before) = (self.loss_delay(), sample.lost_packets);
        let end = largest.min(self.end());
        self.flying_from = self.flying_from.max(self.base);
        // What is not under way is not looked at again.
        while self.flying_from < end {
            step();
            let number = self.flying_from;
            let Some(index) = self.index(number) else { break };
            let Some(&packet) = self.packets.get(index) else { break };
            if packet.state != State::InFlight {
                self.flying_from = number.saturating_add(1);
                continue;
            }
            let is_behind = largest.saturating_sub(number) >= self.reordering.packets;
            if is_behind || packet.at + delay <= now {
                self.packets[index].state = State::Lost;
                self.land(&packet);
                sample.lost_bytes = sample.lost_bytes.saturating_add(packet.bytes.into());
                sample.lost_sent_at = Some(packet.at);
                sample.lost_packets = sample.lost_packets.saturating_add(1);
                sample.largest_lost = sample.largest_lost.max(packet.bytes);
                self.settle(&packet, false);
                self.flying_from = number.saturating_add(1);
            } else {
                self.loss_at = packet.at + delay;
                break;
            }
        }
        if sample.lost_packets > before {
            self.reordering.handle_loss();
        }
    }

    /// Forgets packets at the front that are settled; lost ones a while later, since they may only be late.
    fn retire(&mut self, now: Time) {
        let late = self.rtt.smoothed.saturating_mul(2).saturating_add(Duration::from_millis(20));
        let large = usize::try_from(self.in_flight / LARGE_PACKET).unwrap_or(usize::MAX);
        let most = MAX_REMEMBERED.saturating_add(large);
        let before = self.base;
        while let Some(&packet) = self.packets.front() {
            let over = match packet.state {
                State::Acked => true,
                State::Lost | State::Abandoned | State::NonAckEliciting => packet.at + late < now,
                State::InFlight => false,
            };
            if !over && self.packets.len() <= most {
                break;
            }
            if packet.state == State::InFlight {
                self.land(&packet);
                self.settle(&packet, false);
            }
            self.contents.drain(..packet.count as usize);
            self.contents_base = self.contents_base.saturating_add(packet.count.into());
            self.packets.pop_front();
            self.base = self.base.saturating_add(1);
        }
        if self.base > before {
            self.settled.remove(0, self.base);
        }
    }

    /// How long to wait for an acknowledgement before probing (RFC 9002 §6.2.1).
    pub(crate) fn probe_time(&self) -> Duration {
        let variation = self.rtt.variation.saturating_mul(4).max(GRANULARITY);
        self.rtt.smoothed.saturating_add(variation).saturating_add(max_delay(self.rtt.smoothed))
    }

    /// Fits the time between probes to the rate that the path is known to carry. To be called when a probe is due: where the network
    /// keeps what is sent into an outage, a slow path would otherwise have a queue of probes at its end.
    pub(crate) fn fit_probes(&mut self, rate: ByteRate) {
        let share = (rate.bytes_per_second() as f64 * PROBE_SHARE).max(1.0);
        self.often_gap = Duration::from_secs_f64(PROBE_BYTES / share).clamp(OFTEN_PROBE_GAP, MAX_PROBE_GAP);
    }

    /// From one probe of a silence to the next.
    fn probe_gap(&self) -> Duration {
        let silence = self.last_asked_at - self.silent_since;
        match silence {
            silence if (OFTEN_AFTER..OFTEN_UNTIL).contains(&silence) => self.often_gap,
            silence => divided(silence, 8).clamp(LEAST_PROBE_GAP, MAX_PROBE_GAP),
        }
    }

    /// When [`Recovery::handle_timeout`] has something to do.
    pub(crate) fn next_timeout(&self) -> Time {
        if self.in_flight == 0 {
            return Time::NEVER;
        }
        if self.loss_at != Time::NEVER {
            return self.loss_at;
        }
        let gap = match self.probes {
            0 => self.probe_time(),
            _ => self.probe_gap(),
        };
        self.last_asked_at + gap
    }

    /// Deems lost what is late; `true` if the caller has to send a probe, because the probe timeout (RFC 9002 §6.2) has
    /// passed.
    pub(crate) fn handle_timeout(&mut self, now: Time) -> (Sample, bool) {
        let mut sample = Sample::default();
        if self.next_timeout() > now {
            return (sample, false);
        }
        if self.loss_at != Time::NEVER {
            self.detect_losses(now, &mut sample);
            self.retire(now);
            if self.next_timeout() > now {
                return (sample, false);
            }
        }
        if self.probes == 0 {
            self.silent_since = now;
        }
        self.probes = self.probes.saturating_add(1);
        self.blind |= now - self.silent_since >= self.probe_time();
        // The next one is reckoned from here, whether or not the probe can leave.
        self.last_asked_at = now;
        self.retire(now);
        (sample, true)
    }

    /// The size of the largest packet that was given up since the last call; 0 for none.
    pub(crate) fn take_given_up(&mut self) -> u32 {
        std::mem::take(&mut self.given_up)
    }

    /// Deems all lost that is under way longer than `age`: the path was away, and waiting for what it swallowed would
    /// cost another round trip.
    pub(crate) fn give_up_older(&mut self, now: Time, age: Duration) -> u64 {
        let mut bytes = 0u64;
        for index in self.index(self.flying_from).unwrap_or_default()..self.packets.len() {
            let packet = self.packets[index];
            if packet.at + age > now {
                break;
            }
            if packet.state == State::InFlight {
                self.packets[index].state = State::Abandoned;
                self.given_up = self.given_up.max(packet.bytes);
                self.land(&packet);
                bytes = bytes.saturating_add(packet.bytes.into());
                self.settle(&packet, false);
            }
        }
        self.retire(now);
        bytes
    }
}

#[cfg(test)]
#[path = "recovery_tests.rs"]
mod tests;
