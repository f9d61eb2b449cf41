//! What a load has seen: sums and distributions that several processes' add up.

use super::check::Verdict;
use hdrhistogram::Histogram;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::collections::BTreeMap;
use std::time::Duration;

/// A distribution of whole numbers (nanoseconds, bits a second), to three digits.
#[derive(Clone, Debug)]
pub struct Spread(Histogram<u64>);

/// Above it a value counts as this one: an hour in nanoseconds, 3.6 Tbit/s.
const HIGHEST: u64 = 3_600_000_000_000;

impl Default for Spread {
    fn default() -> Spread {
        // It grows with what is recorded.
        let mut histogram = Histogram::new_with_bounds(1, 1000, 3).expect("three digits are allowed");
        histogram.auto(true);
        Spread(histogram)
    }
}

impl Spread {
    /// Adds a value; what is above an hour in nanoseconds counts as that.
    #[inline]
    pub fn record(&mut self, value: u64) {
        self.add(value, 1);
    }

    fn add(&mut self, value: u64, count: u64) {
        // Fails only where it may not grow.
        let _ = self.0.record_n(value.min(HIGHEST), count);
    }

    /// Adds a time.
    #[inline]
    pub fn record_time(&mut self, time: Duration) {
        self.record(u64::try_from(time.as_nanos()).unwrap_or(HIGHEST));
    }

    /// Adds another's values.
    pub fn merge(&mut self, other: &Spread) {
        for value in other.0.iter_recorded() {
            self.add(value.value_iterated_to(), value.count_at_value());
        }
    }

    /// Number of values.
    pub fn count(&self) -> u64 {
        self.0.len()
    }

    /// The value below which the share `quantile` (0 to 1) of all lies; 0 of none.
    pub fn quantile(&self, quantile: f64) -> u64 {
        self.0.value_at_quantile(quantile)
    }

    /// The least value, 0 of none.
    pub fn min(&self) -> u64 {
        self.0.min()
    }

    /// The greatest value, 0 of none.
    pub fn max(&self) -> u64 {
        self.0.max()
    }

    /// How many times lie below each of `steps_ms`, milliseconds, and not below the one before; in the end those above all.
    pub fn steps(&self, steps_ms: &[f64]) -> Vec<(f64, u64)> {
        let mut steps: Vec<(f64, u64)> =
            steps_ms.iter().chain([&f64::INFINITY]).map(|step| (*step, 0)).collect();
        for value in self.0.iter_recorded() {
            let millis = value.value_iterated_to() as f64 / 1e6;
            if let Some((_, count)) = steps.iter_mut().find(|(below, _)| millis < *below) {
                *count += value.count_at_value();
            }
        }
        steps
    }

    /// The mean, 0 of none.
    pub fn mean(&self) -> f64 {
        self.0.mean()
    }

    /// Forgets all values.
    pub fn reset(&mut self) {
        self.0.reset();
    }
}

impl Serialize for Spread {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(
            self.0.iter_recorded().map(|value| (value.value_iterated_to(), value.count_at_value())),
        )
    }
}

impl<'de> Deserialize<'de> for Spread {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Spread, D::Error> {
        let mut spread = Spread::default();
        for (value, count) in Vec::<(u64, u64)>::deserialize(deserializer)? {
            spread.add(value, count);
        }
        Ok(spread)
    }
}

/// What happened to viewers. All but `receiving` are sums since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Viewers {
    /// Connections begun.
    pub asked: u64,
    /// TCP connections that stood.
    pub connected: u64,
    /// Watching at the end.
    pub receiving: u64,
    /// Not let in: no connection, an answer other than 2xx, no answer in time.
    pub refused: u64,
    /// Let in, and then cut off or failed by the server.
    pub dropped: u64,
    /// Got a body that has an end, up to it.
    pub finished: u64,
    /// Left, as `churn` wanted.
    pub left: u64,
}

impl Viewers {
    /// Adds another process'.
    pub fn merge(&mut self, other: &Viewers) {
        self.asked += other.asked;
        self.connected += other.connected;
        self.receiving += other.receiving;
        self.refused += other.refused;
        self.dropped += other.dropped;
        self.finished += other.finished;
        self.left += other.left;
    }
}

/// Reasons of failures that are told apart; more are counted as others.
const REASONS: usize = 20;

/// Counts a reason of a failure.
pub(super) fn count_reason(reasons: &mut BTreeMap<String, u64>, reason: &str, count: u64) {
    let known = reasons.contains_key(reason) || reasons.len() < REASONS;
    *reasons.entry(if known { reason } else { "other reasons" }.to_owned()).or_default() += count;
}

/// All that a load has seen.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Tally {
    /// What happened to viewers.
    pub viewers: Viewers,
    /// Why they were refused or dropped, and how often.
    pub reasons: BTreeMap<String, u64>,
    /// From the begin of a connection until it stood, nanoseconds.
    pub connect: Spread,
    /// From the request to the body's first byte, nanoseconds.
    pub first_byte: Spread,
    /// From the request to the first packet of the first key frame, nanoseconds.
    pub first_key_frame: Spread,
    /// From the request until PAT, PMT and a whole key frame had come, nanoseconds; of a stamped stream.
    pub first_picture: Spread,
    /// What the window held.
    pub window: Window,
    /// What the checked viewers found since the start.
    pub verdict: Verdict,
    /// Viewers of which the packets were checked.
    pub checked: u64,
    /// Those of them with a stamped stream.
    pub stamped: u64,
    /// Viewers with a body that was no transport stream: nothing of it was checked.
    pub other_bodies: u64,
    /// Processor time of the load's own thread in the window, in seconds.
    pub cpu_seconds: f64,
    /// How long that was; of several processes the sum, as of `cpu_seconds`.
    pub run_seconds: f64,
}

/// What was seen since the window began.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Window {
    /// How long it was.
    pub seconds: f64,
    /// Bytes of bodies that all viewers read.
    pub bytes: u64,
    /// Mean rate of each unlimited viewer that watched for a second or more, bits a second.
    pub rate: Spread,
    /// The same of the limited ones.
    pub limited_rate: Spread,
    /// Times for which an unlimited viewer got nothing, longer than the threshold.
    pub stalls: u64,
    /// Unlimited viewers with at least one.
    pub stalled_viewers: u64,
    /// Checked, unlimited viewers of a stamped stream that got their newest frame half a second or more after it was
    /// sent, or that have had none for so long.
    #[serde(default)]
    pub viewers_behind: u64,
    /// The longest time between two reads of one unlimited viewer.
    pub longest_gap: Duration,
    /// From send to read of a stamped frame's first packet, nanoseconds: frames sent after the viewer asked.
    pub first_packet: Spread,
    /// The same of its last packet.
    pub last_packet: Spread,
    /// Stamps of the future, or of hours ago: another machine's clock.
    pub foreign_stamps: u64,
}

impl Tally {
    /// Forgets how long joins took.
    pub(super) fn forget_joins(&mut self) {
        let joins =
            [&mut self.connect, &mut self.first_byte, &mut self.first_key_frame, &mut self.first_picture];
        joins.into_iter().for_each(Spread::reset);
    }

    /// Counts a failure's reason.
    pub(super) fn count_reason(&mut self, reason: &str, count: u64) {
        count_reason(&mut self.reasons, reason, count);
    }

    /// Adds what another process has seen at the same time.
    pub fn merge(&mut self, other: &Tally) {
        self.viewers.merge(&other.viewers);
        for (reason, count) in &other.reasons {
            self.count_reason(reason, *count);
        }
        self.connect.merge(&other.connect);
        self.first_byte.merge(&other.first_byte);
        self.first_key_frame.merge(&other.first_key_frame);
        self.first_picture.merge(&other.first_picture);
        self.window.merge(&other.window);
        self.verdict.merge(&other.verdict);
        self.checked += other.checked;
        self.stamped += other.stamped;
        self.other_bodies += other.other_bodies;
        self.cpu_seconds += other.cpu_seconds;
        self.run_seconds += other.run_seconds;
    }

    /// Viewers that were refused or dropped.
    pub fn failed(&self) -> u64 {
        self.viewers.refused + self.viewers.dropped
    }
}

impl Window {
    fn merge(&mut self, other: &Window) {
        self.seconds = self.seconds.max(other.seconds);
        self.bytes += other.bytes;
        self.rate.merge(&other.rate);
        self.limited_rate.merge(&other.limited_rate);
        self.stalls += other.stalls;
        self.stalled_viewers += other.stalled_viewers;
        self.viewers_behind += other.viewers_behind;
        self.longest_gap = self.longest_gap.max(other.longest_gap);
        self.first_packet.merge(&other.first_packet);
        self.last_packet.merge(&other.last_packet);
        self.foreign_stamps += other.foreign_stamps;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_two_processes_saw_adds_up_over_json() {
        let mut all = Tally::default();
        for part in 0..2 {
            let mut tally = Tally::default();
            tally.viewers.asked = 5;
            tally.count_reason("answered 503", 2);
            tally.window.longest_gap = Duration::from_millis(3 - part);
            (0..500).for_each(|value| tally.first_byte.record(1_000_000 * (part * 500 + value)));
            let json = serde_json::to_string(&tally).unwrap();
            all.merge(&serde_json::from_str(&json).unwrap());
        }
        assert_eq!((all.viewers.asked, all.reasons["answered 503"]), (10, 4));
        assert_eq!(all.window.longest_gap, Duration::from_millis(3));
        assert_eq!(all.first_byte.count(), 1000);
        let median = all.first_byte.quantile(0.5) as f64 / 1e6;
        assert!((498.0..501.0).contains(&median), "{median}");
    }

    #[test]
    fn a_hostile_server_makes_no_more_reasons_than_fit() {
        let mut tally = Tally::default();
        (0..1000).for_each(|number| tally.count_reason(&format!("answered {number}"), 1));
        assert_eq!(
            (tally.reasons.len(), tally.reasons["other reasons"]),
            (REASONS + 1, 1000 - REASONS as u64)
        );
    }

    #[test]
    fn any_value_can_be_recorded() {
        let mut spread = Spread::default();
        [0, 1, u64::MAX].into_iter().for_each(|value| spread.record(value));
        assert_eq!((spread.count(), spread.min()), (3, 0));
        assert!(spread.max() >= HIGHEST);
    }
}
