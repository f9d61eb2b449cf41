//! What is written down of one line while an experiment runs: what it was sent, how its queue stood, what it carried.

use super::outcome::{LineOutcome, Slot};
use super::traffic::Traffic;
use crate::link::Direction;
use glassline_media::{FrameRate, Time};
use glassline_transport::emulator::{
    Datagram, Event, Figures, Link, LinkConfig, OPPORTUNITY_BYTES, Service, Spread,
};
use std::time::Duration;

/// Of the way of the video.
pub(super) struct LineRecord {
    traffic: Traffic,
    figures: Figures,
    start: Time,
    /// Bytes that it had carried at the start.
    carried_before: u64,
    /// Those that it has carried since, and what had happened, when the last picture was captured.
    carried: u64,
    until_end: Figures,
}

impl LineRecord {
    /// Begins now with a line.
    pub(super) fn new(link: &mut Link<Datagram>, now: Time, rate: FrameRate, slots: u64) -> LineRecord {
        link.record_events();
        LineRecord {
            traffic: Traffic::new(now, rate, slots),
            figures: Figures::new(now),
            start: now,
            carried_before: link.counters().delivered.bytes,
            carried: 0,
            until_end: Figures::new(now),
        }
    }

    /// Takes down what has happened on the line, and adds to `queue_delay` how long packets have waited there.
    pub(super) fn take_events(&mut self, link: &mut Link<Datagram>, queue_delay: &mut Spread) {
        while let Some(event) = link.poll_event() {
            if let Event::Departure { at, arrived, .. } = event {
                queue_delay.add(at.since(arrived));
            }
            self.figures.add(&event);
            self.traffic.add(&event);
        }
    }

    /// Whether the line is there, for all of the first `slots` pictures of which that has not been said.
    pub(super) fn note(&mut self, slots: usize, link: &Link<Datagram>) {
        self.traffic.note(slots, link.is_on());
    }

    /// Measures what was carried so far: all pictures are captured. Those behind are waited for, with an empty line.
    pub(super) fn note_carried(&mut self, link: &Link<Datagram>) {
        self.carried = link.counters().delivered.bytes - self.carried_before;
        self.until_end = self.figures.clone();
    }

    /// Adds to each picture's slot what the line was sent then.
    pub(super) fn tell(&self, slots: &mut [Slot], way: &LinkConfig) {
        self.traffic.tell(slots, &way.service);
    }

    /// The line's figures; `duration` is how long pictures were captured.
    pub(super) fn outcome(&self, link: &Link<Datagram>, way: &LinkConfig, duration: Duration) -> LineOutcome {
        let constant_bps = match &way.service {
            Service::Rate(rate) => Some(*rate as f64),
            _ => None,
        };
        LineOutcome {
            capacity_bytes: capacity(way, self.start, duration),
            carried_bytes: self.carried,
            duration,
            queue_p50: self.figures.queue_delay().quantile(0.5),
            queue_p95: self.figures.queue_delay().quantile(0.95),
            dropped_packets: link.counters().dropped().packets,
            direction: Direction::new(link.counters(), self.until_end.clone(), constant_bps),
        }
    }
}

/// What a line could carry in a time; `None` where it has no bound.
fn capacity(way: &LinkConfig, start: Time, length: Duration) -> Option<f64> {
    match &way.service {
        Service::Unlimited => None,
        Service::Rate(rate) => Some(*rate as f64 / 8.0 * length.as_secs_f64()),
        Service::Trace(trace) | Service::TraceOnce(trace) => {
            let begun = start.since(Time::ZERO);
            let count = trace.opportunities_within(begun + length) - trace.opportunities_within(begun);
            Some(count as f64 * f64::from(OPPORTUNITY_BYTES))
        }
    }
}
