//! The figures of viewers of segmented video: JSON for programs, a table for people. [`report::live`](crate::report::live) draws them.

use super::LiveTally;
use crate::load::report::{Failure, Percentiles, heads, line, percentiles, rate};
use serde::Serialize;
use std::time::Duration;

/// What a report says beside what was seen.
#[derive(Clone, Debug)]
pub struct Labels {
    /// What was asked for, without its query.
    pub url: String,
    /// `hls` or `dash`.
    pub protocol: &'static str,
    /// Viewers that were to come.
    pub wanted: usize,
    /// When a chunk is presented, after its capture.
    pub latency: Duration,
    /// Requests of the server to its upstream while figures were gathered, where it tells.
    pub upstream_fetches: Option<f64>,
}

/// Viewers, each by its chunks' delays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct ByViewer {
    /// Means.
    pub mean_ms: Option<Percentiles>,
    /// Longest delays.
    pub worst_ms: Option<Percentiles>,
    /// Viewers with a stall.
    pub stalled: u64,
}

/// All figures. Suffixes are units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct LiveReport {
    /// Rises when a key changes its meaning or goes.
    pub schema: u32,
    /// What was asked for.
    pub url: String,
    /// `hls` or `dash`.
    pub protocol: &'static str,
    /// Viewers that were wanted, that have begun, and that have got media.
    pub wanted: u64,
    /// See `wanted`.
    pub begun: u64,
    /// See `wanted`.
    pub playing: u64,
    /// From a viewer's begin to its first whole chunk of media.
    pub join_ms: Option<Percentiles>,
    /// From a request to the first byte of its answer; of what does not wait for what is due.
    pub first_byte_ms: Option<Percentiles>,
    /// From capture, by the chunk's `prft` and the server's wall clock, to its last byte here, by this machine's.
    pub chunk_delay_ms: Option<Percentiles>,
    /// The same by viewer.
    pub viewers: ByViewer,
    /// When a chunk is presented, after its capture.
    pub latency_ms: f64,
    /// Chunks that came later.
    pub stalls: u64,
    /// Chunks; of them without a time of capture, and with one of another clock.
    pub chunks: u64,
    /// See `chunks`.
    pub unstamped: u64,
    /// See `chunks`.
    pub foreign: u64,
    /// Requests while figures were gathered.
    pub requests: u64,
    /// Answers of 300 and above since the start.
    pub http_errors: u64,
    /// Hinted parts that were answered 404 since the start: the segment ended before them, which the standard allows (RFC 8216bis,
    /// section 4.4.5.3).
    pub hints_unmet: u64,
    /// Connections that failed, and requests without an answer in time.
    pub lost: u64,
    /// Playlists and media that are none.
    pub malformed: u64,
    /// What failed, most often first.
    pub failures: Vec<Failure>,
    /// Requests of the server to its upstream, where `/metrics` tells.
    pub upstream_fetches: Option<f64>,
    /// How long figures were gathered, and bytes of bodies meanwhile.
    pub window_s: f64,
    /// See `window_s`.
    pub bytes: u64,
    /// Of the load's own core.
    pub load_cpu_share: f64,
    /// Sentences on what spoils figures.
    pub notes: Vec<String>,
    /// Chunks by their delay: milliseconds below which they lie, and how many.
    pub delays: Vec<(f64, u64)>,
}

/// Below which delays are counted together, milliseconds; what is longer is in the last of [`LiveReport::delays`].
pub(crate) const STEPS_MS: &[f64] = &[
    1.0, 1.5, 2.0, 3.0, 5.0, 7.0, 10.0, 15.0, 20.0, 30.0, 50.0, 70.0, 100.0, 150.0, 200.0, 300.0, 500.0,
    700.0, 1e3, 1.5e3, 2e3, 3e3, 5e3, 7e3, 10e3,
];
/// Above this share of its core the load may be what is measured.
const SATURATED: f64 = 0.9;

impl LiveReport {
    /// Of what was seen.
    pub fn new(tally: &LiveTally, labels: Labels) -> LiveReport {
        let mut failures: Vec<Failure> =
            tally.reasons.iter().map(|(reason, &count)| Failure { reason: reason.clone(), count }).collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        let share = if tally.run_seconds > 0.0 { tally.cpu_seconds / tally.run_seconds } else { 0.0 };
        LiveReport {
            schema: 1,
            url: labels.url,
            protocol: labels.protocol,
            wanted: labels.wanted as u64,
            begun: tally.begun,
            playing: tally.playing,
            join_ms: Percentiles::of_times(&tally.join),
            first_byte_ms: Percentiles::of_times(&tally.first_byte),
            chunk_delay_ms: Percentiles::of_times(&tally.chunk_delay),
            viewers: ByViewer {
                mean_ms: Percentiles::of_times(&tally.viewer_mean),
                worst_ms: Percentiles::of_times(&tally.viewer_worst),
                stalled: tally.stalled_viewers,
            },
            latency_ms: labels.latency.as_secs_f64() * 1e3,
            stalls: tally.stalls,
            chunks: tally.chunks,
            unstamped: tally.unstamped,
            foreign: tally.foreign,
            requests: tally.requests,
            http_errors: tally.http_errors,
            hints_unmet: tally.hints_unmet,
            lost: tally.lost,
            malformed: tally.malformed,
            failures,
            upstream_fetches: labels.upstream_fetches,
            window_s: tally.seconds,
            bytes: tally.bytes,
            load_cpu_share: share,
            notes: notes(tally, share),
            delays: tally.chunk_delay.steps(STEPS_MS),
        }
    }

    /// Whether nothing failed and all wanted viewers play.
    pub fn is_right(&self) -> bool {
        self.http_errors + self.lost + self.malformed == 0 && self.playing == self.wanted
    }

    /// The figures as a table.
    pub fn table(&self) -> String {
        let mut out = String::new();
        line(&mut out, "viewers", &format!("{} of {} play, by {}", self.playing, self.wanted, self.protocol));
        for failure in &self.failures {
            line(&mut out, "", &format!("{} × {}", failure.count, failure.reason));
        }
        heads(&mut out, "ms");
        percentiles(&mut out, "begin to first chunk", self.join_ms);
        percentiles(&mut out, "request to first byte", self.first_byte_ms);
        percentiles(&mut out, "chunk: capture to last byte", self.chunk_delay_ms);
        percentiles(&mut out, "a viewer's mean", self.viewers.mean_ms);
        percentiles(&mut out, "a viewer's longest", self.viewers.worst_ms);
        out.push('\n');
        let stalls = format!(
            "{} of {} chunks came later than {} ms after capture, to {} viewers",
            self.stalls, self.chunks, self.latency_ms, self.viewers.stalled
        );
        line(&mut out, "stalls", &stalls);
        let (bits, unit) = rate(self.bytes as f64 * 8.0 / self.window_s.max(1e-3));
        let requests = self.requests as f64 / self.window_s.max(1e-3);
        line(
            &mut out,
            "traffic",
            &format!("{bits} {unit}, {requests:.0} requests a second, over {:.1} s", self.window_s),
        );
        if let Some(fetches) = self.upstream_fetches {
            line(&mut out, "upstream", &format!("{fetches} fetches by the server meanwhile"));
        }
        line(&mut out, "load's own CPU", &format!("{:.0} % of its core", self.load_cpu_share * 100.0));
        for note in &self.notes {
            line(&mut out, "note", note);
        }
        out
    }
}

fn notes(tally: &LiveTally, share: f64) -> Vec<String> {
    let mut notes = Vec::new();
    if tally.unstamped > 0 {
        notes.push(format!(
            "{} chunks do not say when they were captured (prft): no delay of theirs is known",
            tally.unstamped
        ));
    }
    if tally.foreign > 0 {
        notes.push(format!("{} chunks were captured by a clock that is not this machine's", tally.foreign));
    }
    if tally.hints_unmet > 0 {
        notes.push(format!(
            "{} hinted parts never came: their segments ended before them, as where the encoder leaves pictures out",
            tally.hints_unmet
        ));
    }
    if share > SATURATED {
        notes.push(format!(
            "the load took {:.0} % of its core: delays are partly its own (use more --processes)",
            share * 100.0
        ));
    }
    notes
}

/// Requests of a server to its upstream since it began, as its metrics (in Prometheus' text format) tell: the sum of
/// all counters of upstream fetches or requests. `None` where they tell nothing of it.
pub fn upstream_fetches(metrics: &str) -> Option<f64> {
    let counts = metrics.lines().filter(|line| !line.starts_with('#')).filter_map(|line| {
        let name = line.split(['{', ' ']).next()?;
        let is_it = name.contains("upstream") && (name.contains("fetch") || name.contains("request"));
        let value = line.rsplit_once(' ')?.1;
        value.parse::<f64>().ok().filter(|_| is_it && name.ends_with("_total"))
    });
    counts.fold(None, |sum, count| Some(sum.unwrap_or(0.0) + count))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(tally: &LiveTally) -> LiveReport {
        let labels = Labels {
            url: "http://h/<x>.m3u8".into(),
            protocol: "hls",
            wanted: 2,
            latency: Duration::from_secs(1),
            upstream_fetches: Some(3.0),
        };
        LiveReport::new(tally, labels)
    }

    #[test]
    fn table_and_json_say_what_matters() {
        let mut tally =
            LiveTally { begun: 2, playing: 2, chunks: 3, stalls: 1, seconds: 2.0, ..LiveTally::default() };
        [20, 30, 1200]
            .into_iter()
            .for_each(|millis| tally.chunk_delay.record_time(Duration::from_millis(millis)));
        let report = report(&tally);
        assert!(report.is_right());
        let table = report.table();
        for words in ["2 of 2 play, by hls", "1 of 3 chunks came later than 1000 ms", "3 fetches"] {
            assert!(table.contains(words), "{words} in {table}");
        }
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!((&json["schema"], &json["join_ms"]), (&1.into(), &serde_json::Value::Null));
        assert_eq!(report.delays.iter().map(|(_, count)| count).sum::<u64>(), 3);
    }

    #[test]
    fn what_failed_is_said() {
        let mut tally =
            LiveTally { http_errors: 2, hints_unmet: 1, unstamped: 1, foreign: 1, ..LiveTally::default() };
        tally.fail("answered 404");
        let report = report(&tally);
        assert!(!report.is_right() && report.notes.len() == 3 && report.table().contains("1 × answered 404"));
    }

    #[test]
    fn counters_of_the_upstream_are_added_up() {
        let text = "# HELP x\na_upstream_fetches_total{server=\"1\"} 3\na_upstream_fetches_total{server=\"2\"} 4\nb_total 9\n";
        assert_eq!((upstream_fetches(text), upstream_fetches("b_total 9\n")), (Some(7.0), None));
    }
}
