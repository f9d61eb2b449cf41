//! A queue and what serves it.
//!
//! The packet in service is outside of the queue. What of it is still to be served is counted in billionths of a bit:
//! then a rate in bits a second serves that many each nanosecond, and nothing is ever rounded.

use super::config::{Discipline, Queue, Service};
use super::event::Event;
use super::packets::{Delivered, Flow};
use super::record::Record;
use super::trace::{Cursor, OPPORTUNITY_BYTES, Trace};
use glassline_media::Time;
use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Bottleneck<T> {
    service: Service,
    limits: Queue,
    waiting: VecDeque<Waiting<T>>,
    waiting_bytes: u64,
    transit: Option<Waiting<T>>,
    /// Of the packet in service.
    left: u64,
    /// Everything before has been served.
    now: Time,
    /// A trace's zero, and the place in it.
    base: Time,
    cursor: Cursor,
    /// What is left of the opportunities of the moment `now`, in bytes' billionths of bits, and how many more there are.
    budget: u64,
    more: u32,
}

#[derive(Clone, Debug)]
struct Waiting<T> {
    bytes: u32,
    arrived: Time,
    packet: T,
}

const MILLISECOND: u64 = 1_000_000;

/// Billionths of bits.
fn parts(bytes: u32) -> u64 {
    u64::from(bytes) * 8_000_000_000
}

impl<T> Bottleneck<T> {
    pub(super) fn new(service: Service, limits: Queue, start: Time) -> Bottleneck<T> {
        let mut bottleneck = Bottleneck {
            service: Service::Unlimited,
            limits,
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            transit: None,
            left: 0,
            now: start,
            base: start,
            cursor: Cursor::default(),
            budget: 0,
            more: 0,
        };
        bottleneck.set_service(start, service);
        bottleneck
    }

    pub(super) fn set_service(&mut self, now: Time, service: Service) {
        self.cursor = Cursor::new(matches!(service, Service::TraceOnce(_)));
        (self.service, self.base, self.budget, self.more) = (service, now, 0, 0);
    }

    pub(super) fn now(&self) -> Time {
        self.now
    }

    pub(super) fn queued(&self) -> Flow {
        Flow { packets: self.waiting.len() as u64, bytes: self.waiting_bytes }
    }

    pub(super) fn held(&self) -> Flow {
        let Flow { packets, bytes } = self.queued();
        let (one, size) = self.transit.as_ref().map_or((0, 0), |transit| (1, transit.bytes));
        Flow { packets: packets + one, bytes: bytes + u64::from(size) }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty() && self.transit.is_none()
    }

    /// Takes a packet, or drops it or others; returns what is dropped.
    pub(super) fn push(&mut self, now: Time, bytes: u32, packet: T) -> Flow {
        let mut gone = Flow::default();
        if self.limits.discipline == Discipline::DropTail && !self.fits(bytes, 1) {
            return Flow { packets: 1, bytes: bytes.into() };
        }
        self.waiting.push_back(Waiting { bytes, arrived: now, packet });
        self.waiting_bytes += u64::from(bytes);
        while !self.fits(0, 0) {
            let Some(first) = self.take() else { break };
            gone.packets += 1;
            gone.bytes += u64::from(first.bytes);
        }
        gone
    }

    fn fits(&self, bytes: u32, packets: usize) -> bool {
        let waits = self.waiting.len() + packets;
        self.limits.packets.is_none_or(|most| waits <= most as usize)
            && self.limits.bytes.is_none_or(|most| self.waiting_bytes + u64::from(bytes) <= most)
    }

    fn take(&mut self) -> Option<Waiting<T>> {
        let first = self.waiting.pop_front()?;
        self.waiting_bytes -= u64::from(first.bytes);
        Some(first)
    }

    /// Has the next waiting packet in service, where none is; whether there is one.
    fn begin(&mut self) -> bool {
        if self.transit.is_none() {
            self.transit = self.take();
            self.left = self.transit.as_ref().map_or(0, |transit| parts(transit.bytes));
        }
        self.transit.is_some()
    }

    fn depart(&mut self, at: Time) -> Option<Delivered<T>> {
        let Waiting { bytes, arrived, packet } = self.transit.take()?;
        Some(Delivered { at, arrived, bytes, packet })
    }

    /// When the next packet leaves if nothing comes.
    pub(super) fn next_departure(&self) -> Time {
        if self.is_empty() {
            return Time::NEVER;
        }
        match &self.service {
            Service::Unlimited => self.now,
            Service::Rate(0) => Time::NEVER,
            Service::Rate(rate) => {
                let first = self.waiting.front().map_or(0, |waiting| parts(waiting.bytes));
                let left = if self.transit.is_some() { self.left } else { first };
                after(self.now, left.div_ceil(*rate))
            }
            Service::Trace(trace) | Service::TraceOnce(trace) => self.next_opportunity(trace),
        }
    }

    fn next_opportunity(&self, trace: &Trace) -> Time {
        let millis = self.cursor.peek(trace).map(|(millis, _)| millis);
        millis.map_or(Time::NEVER, |millis| after(self.base, millis.saturating_mul(MILLISECOND)))
    }

    /// The next packet that leaves up to `until`; `None` once all that is due by then has left.
    pub(super) fn serve(&mut self, until: Time, record: &mut Record) -> Option<Delivered<T>> {
        match self.service.clone() {
            Service::Unlimited => {
                // What waits has waited for an outage to end, or for this call.
                if self.begin() {
                    return self.depart(self.now);
                }
                self.now = self.now.max(until);
                None
            }
            Service::Rate(rate) => self.serve_rate(until, rate),
            Service::Trace(trace) | Service::TraceOnce(trace) => self.serve_trace(until, &trace, record),
        }
    }

    fn serve_rate(&mut self, until: Time, rate: u64) -> Option<Delivered<T>> {
        if rate == 0 || !self.begin() {
            self.now = self.now.max(until);
            return None;
        }
        let end = after(self.now, self.left.div_ceil(rate));
        if end > until {
            // Less than what is left, which fits.
            let served = u128::from(rate) * u128::from(nanos(self.now, until));
            self.left -= u64::try_from(served).unwrap_or(u64::MAX).min(self.left);
            self.now = self.now.max(until);
            return None;
        }
        // The nanosecond in which it ends serves the next packet too, where one waits.
        let beyond = (u128::from(rate) * u128::from(nanos(self.now, end))).saturating_sub(self.left.into());
        self.now = end;
        let departed = self.depart(end);
        if self.begin() {
            self.left = self.left.saturating_sub(u64::try_from(beyond).unwrap_or(u64::MAX));
        }
        departed
    }

    fn serve_trace(&mut self, until: Time, trace: &Trace, record: &mut Record) -> Option<Delivered<T>> {
        loop {
            while self.budget > 0 && self.begin() {
                let served = self.budget.min(self.left);
                self.budget -= served;
                self.left -= served;
                if self.left == 0 {
                    return self.depart(self.now);
                }
            }
            // What of it finds the queue empty is gone.
            self.budget = 0;
            if self.more > 0 {
                self.more -= 1;
                self.budget = parts(OPPORTUNITY_BYTES);
                record.add(Event::Opportunity { at: self.now, bytes: OPPORTUNITY_BYTES });
                continue;
            }
            if self.is_empty() && !record.is_wanted() {
                self.cursor.skip(trace, nanos(self.base, until) / MILLISECOND);
            }
            let at = self.next_opportunity(trace);
            if at > until || at == Time::NEVER {
                self.now = self.now.max(until);
                return None;
            }
            self.more = self.cursor.peek(trace).map_or(0, |(_, count)| count);
            self.cursor.pass(trace);
            self.now = self.now.max(at);
        }
    }

    /// Lets time pass up to `until` without serving.
    pub(super) fn stand_still(&mut self, until: Time, record: &mut Record) {
        if let Service::Trace(trace) | Service::TraceOnce(trace) = &self.service {
            while record.is_wanted() && self.next_opportunity(trace) <= until {
                let at = self.next_opportunity(trace);
                let Some((_, count)) = self.cursor.peek(trace) else { break };
                let opportunity = Event::Opportunity { at, bytes: OPPORTUNITY_BYTES };
                (0..count).for_each(|_| record.add(opportunity));
                self.cursor.pass(trace);
            }
            self.cursor.skip(trace, nanos(self.base, until) / MILLISECOND);
        }
        self.now = self.now.max(until);
    }
}

fn after(time: Time, nanos: u64) -> Time {
    Time::from_nanos(time.as_nanos().saturating_add(nanos))
}

fn nanos(from: Time, to: Time) -> u64 {
    to.as_nanos().saturating_sub(from.as_nanos())
}
