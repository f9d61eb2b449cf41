//! What the way of the video was sent and could carry, picture by picture, on one line.

use super::outcome::Slot;
use glassline_media::{FrameRate, Time};
use glassline_transport::emulator::{Event, Service};

/// What a line's way of the video was sent and could carry, by picture of the source.
pub(super) struct Traffic {
    start: Time,
    rate: FrameRate,
    /// Bytes of packets that came, and of opportunities of a trace.
    sent: Vec<u64>,
    opportunities: Vec<u64>,
    /// Whether the way was there.
    is_on: Vec<bool>,
}

impl Traffic {
    pub(super) fn new(start: Time, rate: FrameRate, slots: u64) -> Traffic {
        let none = vec![0; slots as usize];
        Traffic { start, rate, sent: none.clone(), opportunities: none, is_on: Vec::new() }
    }

    pub(super) fn add(&mut self, event: &Event) {
        let (counts, bytes) = match event {
            Event::Arrival { bytes, .. } => (&mut self.sent, *bytes),
            Event::Opportunity { bytes, .. } => (&mut self.opportunities, *bytes),
            _ => return,
        };
        let slot = (event.at().since(self.start).as_secs_f64() * self.rate.as_f64()) as usize;
        if let Some(count) = counts.get_mut(slot) {
            *count += u64::from(bytes);
        }
    }

    /// Whether the way is there, for all of the first `slots` of which that has not been said.
    pub(super) fn note(&mut self, slots: usize, is_on: bool) {
        self.is_on.resize(slots, is_on);
    }

    /// Adds what came of it to what other lines have told. They begin with no bytes, and a capacity of none.
    pub(super) fn tell(&self, slots: &mut [Slot], service: &Service) {
        let interval = self.rate.time_of(1).as_secs_f64();
        for (index, slot) in slots.iter_mut().enumerate() {
            slot.sent_bytes += self.sent[index];
            let capacity = match service {
                Service::Unlimited => None,
                Service::Rate(rate) => Some(*rate as f64 / 8.0 * interval),
                Service::Trace(_) | Service::TraceOnce(_) => Some(self.opportunities[index] as f64),
            };
            let capacity = capacity.map(|bytes| if self.is_on[index] { bytes } else { 0.0 });
            // Together they have no bound where one of them has none.
            slot.capacity_bytes = slot.capacity_bytes.zip(capacity).map(|(others, own)| others + own);
        }
    }
}
