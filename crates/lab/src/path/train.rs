//! Trains: packets that one end sends in a row, back to back or apart, and what arrives of them.

use super::{BURST_BPS, MAX_BURST, MAX_PACKET_BYTES, MIN_PACKET_BYTES, nanos};
use glassline_media::Time;
use std::time::Duration;

/// Packets that are handed to the system at once. At the speed within a burst these are 160 µs: less than the emulator's device
/// or a network card keeps waiting, and few enough that the time of each is known well.
pub(super) const CHUNK: u16 = 16;
/// The most that packets of a train lie apart.
const MAX_GAP_US: u32 = 1_000_000;

/// What a train is like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TrainSpec {
    /// Packets, 1 to [`MAX_BURST`].
    pub packets: u16,
    /// Payload of the first packet, bytes.
    pub payload_bytes: u16,
    /// By how much every second packet is longer than the two before: sizes of a train that looks for the MTU, each twice.
    pub growth_bytes: u16,
    /// From one packet to the next, microseconds; 0: back to back.
    pub gap_us: u32,
}

impl TrainSpec {
    /// A burst of so many packets.
    pub const fn burst(packets: u16) -> TrainSpec {
        TrainSpec { packets, payload_bytes: super::PACKET_BYTES, growth_bytes: 0, gap_us: 0 }
    }

    /// Whether all of it is within the bounds above.
    pub fn is_in_range(&self) -> bool {
        let last = self.longest_payload();
        (1..=MAX_BURST).contains(&self.packets)
            && self.payload_bytes >= MIN_PACKET_BYTES
            && last <= u64::from(MAX_PACKET_BYTES)
            && self.gap_us <= MAX_GAP_US
    }

    /// Payload of the packet at this place, bytes.
    pub fn payload_at(&self, index: u16) -> u16 {
        self.payload_bytes.saturating_add(self.growth_bytes.saturating_mul(index / 2))
    }

    fn longest_payload(&self) -> u64 {
        let steps = u64::from(self.packets.saturating_sub(1) / 2);
        u64::from(self.payload_bytes) + u64::from(self.growth_bytes) * steps
    }

    /// Bytes of IP packets of the whole train.
    pub fn wire_bytes(&self, header_bytes: u64) -> u64 {
        (0..self.packets).map(|index| u64::from(self.payload_at(index)) + header_bytes).sum()
    }

    /// Whether it is sent back to back.
    pub fn is_burst(&self) -> bool {
        self.gap_us == 0
    }
}

/// How a train was sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sent {
    /// Packets that were handed to the system.
    pub packets: u16,
    /// Packets of them that the system did not take.
    pub refused: u16,
    /// When the first and the last ones were sent, nanoseconds of the sender's clock.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
}

/// A packet of a train that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Place in the train.
    pub index: u16,
    /// When it was sent, nanoseconds of the sender's clock.
    pub sent_ns: u64,
    /// When it arrived, nanoseconds of the receiver's clock, which is another one.
    pub received_ns: u64,
}

/// A train that is being sent.
#[derive(Clone, Debug)]
pub(super) struct TrainSender {
    pub(super) number: u16,
    pub(super) spec: TrainSpec,
    /// When each packet so far was sent.
    sent_at: Vec<Time>,
    refused: Vec<u16>,
    header_bytes: u64,
    /// When the next packets are due; `None` before the first.
    due: Option<Time>,
}

impl TrainSender {
    pub(super) fn new(number: u16, spec: TrainSpec, header_bytes: u64) -> TrainSender {
        let sent_at = Vec::with_capacity(usize::from(spec.packets));
        TrainSender { number, spec, sent_at, refused: Vec::new(), header_bytes, due: None }
    }

    /// Whether nothing of it was sent yet.
    pub(super) fn is_new(&self) -> bool {
        self.sent_at.is_empty()
    }

    pub(super) fn is_done(&self) -> bool {
        self.sent_at.len() >= usize::from(self.spec.packets)
    }

    /// When its next packets are due; `None` where it has none, [`Time::ZERO`] where it may begin at any time.
    pub(super) fn due(&self) -> Option<Time> {
        (!self.is_done()).then(|| self.due.unwrap_or(Time::ZERO))
    }

    /// The places of the packets that are sent together now, with their payloads' size.
    pub(super) fn next(&mut self, now: Time) -> (std::ops::Range<u16>, u16) {
        let first = u16::try_from(self.sent_at.len()).unwrap_or(u16::MAX);
        let left = self.spec.packets - first;
        let count =
            if self.spec.is_burst() && self.spec.growth_bytes == 0 { left.min(CHUNK) } else { left.min(1) };
        let payload = self.spec.payload_at(first);
        let takes = if self.spec.is_burst() {
            let bits = u64::from(count) * (u64::from(payload) + self.header_bytes) * 8;
            Duration::from_nanos(bits * 1_000_000_000 / BURST_BPS)
        } else {
            Duration::from_micros(self.spec.gap_us.into())
        };
        // Never faster than that after a delay: the queue of the sender's device would be measured.
        self.due = Some(now + takes);
        self.sent_at.extend((0..count).map(|_| now));
        (first..first + count, payload)
    }

    /// The system did not take the last `packets` ones.
    pub(super) fn handle_refused(&mut self, packets: u16) {
        let end = u16::try_from(self.sent_at.len()).unwrap_or(u16::MAX);
        self.refused.extend(end.saturating_sub(packets)..end);
    }

    /// Whether the system did not take the packet at this place.
    pub(super) fn is_refused(&self, index: u16) -> bool {
        self.refused.contains(&index)
    }

    /// When the packet at this place was sent.
    pub(super) fn sent_at(&self, index: u16) -> Option<Time> {
        self.sent_at.get(usize::from(index)).copied()
    }

    pub(super) fn sent(&self) -> Sent {
        let at = |time: Option<&Time>| time.map_or(0, |time| time.as_nanos());
        Sent {
            packets: u16::try_from(self.sent_at.len()).unwrap_or(u16::MAX),
            refused: u16::try_from(self.refused.len()).unwrap_or(u16::MAX),
            first_ns: at(self.sent_at.first()),
            last_ns: at(self.sent_at.last()),
        }
    }
}

/// A train that is being received. It holds each packet once, [`MAX_BURST`] at most.
#[derive(Clone, Debug)]
pub(super) struct TrainReceiver {
    pub(super) number: u16,
    pub(super) arrivals: Vec<Arrival>,
    has_come: Vec<bool>,
    pub(super) duplicates: u16,
}

impl TrainReceiver {
    pub(super) fn new(number: u16) -> TrainReceiver {
        TrainReceiver {
            number,
            arrivals: Vec::new(),
            has_come: vec![false; usize::from(MAX_BURST)],
            duplicates: 0,
        }
    }

    /// A packet of the train has arrived. One with a place that no train has is ignored.
    pub(super) fn handle(&mut self, index: u16, sent_ns: u64, received: Time) {
        let Some(has_come) = self.has_come.get_mut(usize::from(index)) else { return };
        if std::mem::replace(has_come, true) {
            self.duplicates = self.duplicates.saturating_add(1);
        } else {
            self.arrivals.push(Arrival { index, sent_ns, received_ns: received.as_nanos() });
        }
    }
}

/// How long nothing more of a train may arrive, once a message that was sent after it has, before it is complete: what such a
/// message may overtake on the way. A quarter of the round trip where that is longer.
pub(super) fn settle_time(round_trip: Duration) -> Duration {
    let quarter = Duration::from_nanos(nanos(round_trip) / 4);
    quarter.clamp(Duration::from_millis(25), Duration::from_millis(250))
}

#[cfg(test)]
#[path = "train_tests.rs"]
mod tests;
