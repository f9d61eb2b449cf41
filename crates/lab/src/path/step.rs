//! One step of a measurement as the caller sees it: a train upwards, a train downwards, or both at a time, and how they end.

use super::burst::BurstRecord;
use super::train::{TrainReceiver, TrainSender, TrainSpec, settle_time};
use super::wire::{REPORT_ARRIVALS, Report};
use super::{Arrival, Sent};
use glassline_media::Time;
use std::time::Duration;

/// A train to the listener: it is sent here, and its arrivals are fetched.
#[derive(Clone, Debug)]
pub(super) struct Upward {
    pub(super) sender: TrainSender,
    /// When the next Fetch is due, once the train was sent.
    pub(super) fetch_at: Time,
    /// What is known of the arrivals, in their order; `None` for those that were not fetched yet.
    arrivals: Vec<Option<(u16, u64)>>,
    duplicates: u16,
    /// When the listener first said that nothing had arrived.
    empty_since: Option<Time>,
    is_complete: bool,
}

impl Upward {
    pub(super) fn new(sender: TrainSender) -> Upward {
        Upward {
            sender,
            fetch_at: Time::ZERO,
            arrivals: Vec::new(),
            duplicates: 0,
            empty_since: None,
            is_complete: false,
        }
    }

    pub(super) fn is_complete(&self) -> bool {
        self.is_complete
    }

    /// The place of the first arrival that was not fetched yet.
    pub(super) fn first_missing(&self) -> u16 {
        let place = self.arrivals.iter().position(Option::is_none).unwrap_or(self.arrivals.len());
        u16::try_from(place).unwrap_or(u16::MAX)
    }

    /// The listener has reported arrivals. More are fetched at once where pages are missing that it was not asked for yet.
    pub(super) fn handle_report(&mut self, report: &Report, now: Time, round_trip: Duration) {
        let count = usize::from(report.arrived.min(self.sender.spec.packets));
        if self.arrivals.len() < count {
            self.arrivals.resize(count, None);
        }
        let places = self.arrivals.iter_mut().skip(usize::from(report.first));
        places.zip(&report.arrivals).for_each(|(place, arrival)| *place = Some(*arrival));
        self.duplicates = self.duplicates.max(report.duplicates);
        let settles = settle_time(round_trip);
        if count == 0 {
            let since = *self.empty_since.get_or_insert(now);
            self.is_complete = self.sender.is_done() && now.since(since) >= settles;
            return;
        }
        let page = u16::try_from(REPORT_ARRIVALS).unwrap_or(u16::MAX);
        if self.first_missing() == report.first.saturating_add(page) {
            // The page was whole, and the next one is wanted too: where the listener has not sent it already, it is asked now.
            self.fetch_at = self.fetch_at.min(now + settles);
        }
        let newest = self.arrivals.iter().flatten().map(|(_, at_ns)| *at_ns).max().unwrap_or(0);
        let quiet = Duration::from_nanos(report.now_ns.saturating_sub(newest));
        let is_whole = self.arrivals.iter().all(Option::is_some);
        let sent = self.sender.sent();
        let has_all = report.arrived >= sent.packets.saturating_sub(sent.refused);
        self.is_complete = self.sender.is_done() && is_whole && (has_all || quiet >= settles);
    }

    /// What is known of the train.
    pub(super) fn record(&self) -> BurstRecord {
        let arrival = |(index, received_ns): (u16, u64)| {
            let sent_ns = self.sender.sent_at(index).filter(|_| !self.sender.is_refused(index))?.as_nanos();
            Some(Arrival { index, sent_ns, received_ns })
        };
        BurstRecord {
            spec: self.sender.spec,
            sent: self.sender.sent(),
            arrivals: self.arrivals.iter().flatten().copied().filter_map(arrival).collect(),
            duplicates: self.duplicates,
        }
    }
}

/// A train from the listener: it is asked for, and arrives here.
#[derive(Clone, Debug)]
pub(super) struct Downward {
    pub(super) spec: TrainSpec,
    /// When the next Ask is due.
    pub(super) ask_at: Time,
    pub(super) receiver: TrainReceiver,
    /// How it was sent, and when that was heard.
    sent: Option<(Sent, Time)>,
}

impl Downward {
    pub(super) fn new(number: u16, spec: TrainSpec) -> Downward {
        Downward { spec, ask_at: Time::ZERO, receiver: TrainReceiver::new(number), sent: None }
    }

    /// The listener has said how it sent the train.
    pub(super) fn handle_sent(&mut self, sent: Option<Sent>, now: Time) {
        if let (Some(sent), None) = (sent, self.sent) {
            self.sent = Some((sent, now));
        }
    }

    pub(super) fn is_sent(&self) -> bool {
        self.sent.is_some()
    }

    /// When it is complete if nothing more arrives; `None` where the listener has not sent all of it yet.
    pub(super) fn complete_at(&self, round_trip: Duration) -> Option<Time> {
        let (sent, heard) = self.sent?;
        if self.receiver.arrivals.len() >= usize::from(sent.packets.saturating_sub(sent.refused)) {
            return Some(heard);
        }
        let last = self.receiver.arrivals.last().map_or(0, |arrival| arrival.received_ns);
        Some(Time::from_nanos(last).max(heard) + settle_time(round_trip))
    }

    /// What is known of the train.
    pub(super) fn record(&self) -> BurstRecord {
        BurstRecord {
            spec: self.spec,
            sent: self.sent.map(|(sent, _)| sent).unwrap_or_default(),
            arrivals: self.receiver.arrivals.clone(),
            duplicates: self.receiver.duplicates,
        }
    }
}

/// One step.
#[derive(Clone, Debug)]
pub(super) struct Step {
    pub(super) number: u16,
    pub(super) up: Option<Upward>,
    pub(super) down: Option<Downward>,
}

impl Step {
    /// Whether all of it is known.
    pub(super) fn is_complete(&self, now: Time, round_trip: Duration) -> bool {
        self.up.as_ref().is_none_or(Upward::is_complete)
            && self.down.as_ref().is_none_or(|down| down.complete_at(round_trip).is_some_and(|at| at <= now))
    }
}
