//! The alarms of one stream: what was measured goes in, and what has begun or is over comes out.

use super::alarm::{Alarm, Source};
use super::event::{Raised, State};
use super::latch::Latch;
use super::rules::Rules;
use glassline_media::Time;
use std::collections::VecDeque;

/// A latch for each alarm, and the events that are not taken yet.
#[derive(Clone, Debug)]
pub(super) struct Board {
    pub(super) rules: Rules,
    latches: [Latch; Alarm::ALL.len()],
    /// The newest value of each alarm.
    values: [Option<f64>; Alarm::ALL.len()],
    /// When each began, of those that are there.
    begun: [Option<Time>; Alarm::ALL.len()],
    raised: VecDeque<Raised>,
}

impl Board {
    pub(super) fn new(rules: Rules) -> Board {
        Board {
            rules,
            latches: [Latch::default(); Alarm::ALL.len()],
            values: [None; Alarm::ALL.len()],
            begun: [None; Alarm::ALL.len()],
            raised: VecDeque::new(),
        }
    }

    /// Takes what was measured for `alarm`; nothing where it is not watched for.
    pub(super) fn observe(&mut self, alarm: Alarm, is_broken: bool, value: Option<f64>, at: Time) {
        let rule = self.rules[alarm];
        if !rule.enabled {
            return;
        }
        let index = alarm as usize;
        self.values[index] = value;
        if let Some(state) = self.latches[index].observe(is_broken, at, &rule) {
            self.begun[index] = (state == State::Begun).then_some(at);
            self.raised.push_back(Raised { alarm, state, at, value, limit: rule.limit });
        }
    }

    /// As [`Board::observe`], where the limit is broken by values above it.
    pub(super) fn observe_above(&mut self, alarm: Alarm, value: f64, at: Time) {
        self.observe(alarm, value > self.rules[alarm].limit, Some(value), at);
    }

    /// As [`Board::observe`], where the limit is broken by values below it.
    pub(super) fn observe_below(&mut self, alarm: Alarm, value: f64, at: Time) {
        self.observe(alarm, value < self.rules[alarm].limit, Some(value), at);
    }

    /// Whether the next observations of `alarm` decide something.
    pub(super) fn is_undecided(&self, alarm: Alarm) -> bool {
        self.latches[alarm as usize].is_undecided()
    }

    pub(super) fn is_active(&self, alarm: Alarm) -> bool {
        self.latches[alarm as usize].is_active()
    }

    /// Those that are there: the alarm, when it began, the newest value.
    pub(super) fn active(&self) -> impl Iterator<Item = (Alarm, Time, Option<f64>)> {
        Alarm::ALL.into_iter().filter_map(|alarm| {
            let index = alarm as usize;
            Some((alarm, self.begun[index]?, self.values[index]))
        })
    }

    /// Part of the stream was left out: what was begun before proves nothing, but for alarms on arrival.
    pub(super) fn forget(&mut self) {
        for alarm in Alarm::ALL {
            if alarm.source() != Source::Stream {
                self.latches[alarm as usize].forget();
            }
        }
    }

    /// Ends what is there: the stream is no longer watched, or there is nothing left to measure.
    pub(super) fn end(&mut self, alarm: Alarm, at: Time) {
        let index = alarm as usize;
        if std::mem::take(&mut self.latches[index]).is_active() {
            let limit = self.rules[alarm].limit;
            self.begun[index] = None;
            self.raised.push_back(Raised { alarm, state: State::Over, at, value: None, limit });
        }
    }

    /// Goes on with other rules. Alarms that are no longer watched for are over.
    pub(super) fn set_rules(&mut self, rules: Rules, at: Time) {
        for alarm in Alarm::ALL {
            if !rules[alarm].enabled {
                self.end(alarm, at);
            }
        }
        self.rules = rules;
    }

    /// What has begun or is over and is not taken yet, oldest first.
    pub(super) fn raised(&self) -> impl ExactSizeIterator<Item = &Raised> {
        self.raised.iter()
    }

    pub(super) fn poll(&mut self) -> Option<Raised> {
        self.raised.pop_front()
    }
}
