//! The figures of a load: JSON for programs, a table for people.

use super::check::Verdict;
use super::tally::{Spread, Tally, Viewers};
use serde::Serialize;
use std::fmt::Write as _;
use std::time::Duration;

/// Percentiles of something.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Percentiles {
    /// Values.
    pub count: u64,
    /// Least.
    pub min: f64,
    /// 1 % are below.
    pub p1: f64,
    /// Median.
    pub p50: f64,
    /// 95 % are below.
    pub p95: f64,
    /// 99 % are below.
    pub p99: f64,
    /// Greatest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

impl Percentiles {
    /// Of values in parts of `unit`; `None` of none.
    fn of(spread: &Spread, unit: f64) -> Option<Percentiles> {
        let at = |quantile| spread.quantile(quantile) as f64 / unit;
        (spread.count() > 0).then(|| Percentiles {
            count: spread.count(),
            min: spread.min() as f64 / unit,
            p1: at(0.01),
            p50: at(0.5),
            p95: at(0.95),
            p99: at(0.99),
            max: spread.max() as f64 / unit,
            mean: spread.mean() / unit,
        })
    }

    pub(super) fn of_times(spread: &Spread) -> Option<Percentiles> {
        Percentiles::of(spread, 1e6)
    }
}

/// Why viewers failed.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Failure {
    /// What the server or the system said.
    pub reason: String,
    /// Viewers.
    pub count: u64,
}

/// How long joining took, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Join {
    /// Until the connection stood.
    pub connect_ms: Option<Percentiles>,
    /// From the request to the body's first byte.
    pub first_byte_ms: Option<Percentiles>,
    /// From the request to the first packet of the first key frame.
    pub key_frame_ms: Option<Percentiles>,
    /// From the request until PAT, PMT and a whole key frame had come; of a stamped stream.
    pub picture_ms: Option<Percentiles>,
}

/// Waits of unlimited viewers.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Stalls {
    /// What is longer is a stall.
    pub threshold_ms: f64,
    /// Stalls.
    pub count: u64,
    /// Viewers with at least one.
    pub viewers: u64,
    /// The longest wait of any viewer.
    pub longest_gap_ms: f64,
}

/// What the packets were.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Checked {
    /// Viewers of which the packets were checked.
    pub viewers: u64,
    /// Those with a stamped stream, of which every byte is known.
    pub stamped: u64,
    /// All that was wrong, missing or repeated.
    pub errors: u64,
    /// The counts.
    #[serde(flatten)]
    pub verdict: Verdict,
}

/// Delay of a stamped stream's frames, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Delay {
    /// Of a frame's first packet.
    pub first_packet: Option<Percentiles>,
    /// Of its last packet.
    pub last_packet: Option<Percentiles>,
}

/// All figures; docs/lab.md explains each key of its JSON.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Rises when a key changes its meaning or goes.
    pub schema: u32,
    /// What was asked for.
    pub urls: Vec<String>,
    /// Viewers that were wanted at once.
    pub wanted: u64,
    /// What happened to viewers.
    pub viewers: Viewers,
    /// Why they failed, most often first.
    pub failures: Vec<Failure>,
    /// How long joining took.
    pub join: Join,
    /// How long the figures below were gathered.
    pub window_s: f64,
    /// Bytes of bodies in that time.
    pub bytes: u64,
    /// The same as a rate, bits a second.
    pub throughput_bps: f64,
    /// Mean rates of unlimited viewers.
    pub rate_bps: Option<Percentiles>,
    /// Mean rates of limited viewers.
    pub limited_rate_bps: Option<Percentiles>,
    /// Waits.
    pub stalls: Stalls,
    /// What the packets were; `None` where none were checked.
    pub check: Option<Checked>,
    /// Delay of frames; `None` where the stream carries no stamps.
    pub delay_ms: Option<Delay>,
    /// Share of its core that the load itself took in that time; the mean of several processes.
    pub load_cpu_share: f64,
    /// What to know about these figures.
    pub notes: Vec<String>,
}

/// Above this share of its core the load may be what is measured.
const SATURATED: f64 = 0.9;

impl Report {
    /// The figures of `tally`.
    pub fn new(tally: &Tally, urls: &[String], wanted: usize, stall: Duration) -> Report {
        let window = &tally.window;
        let mut failures: Vec<_> =
            tally.reasons.iter().map(|(reason, &count)| Failure { reason: reason.clone(), count }).collect();
        failures.sort_by_key(|failure| std::cmp::Reverse(failure.count));
        let check = (tally.checked > 0).then_some(Checked {
            viewers: tally.checked,
            stamped: tally.stamped,
            errors: tally.verdict.errors(),
            verdict: tally.verdict,
        });
        let (first, last) = (&window.first_packet, &window.last_packet);
        let delay_ms = (first.count() + last.count() > 0).then(|| Delay {
            first_packet: Percentiles::of_times(first),
            last_packet: Percentiles::of_times(last),
        });
        Report {
            schema: 1,
            urls: urls.to_vec(),
            wanted: wanted as u64,
            viewers: tally.viewers,
            failures,
            join: Join {
                connect_ms: Percentiles::of_times(&tally.connect),
                first_byte_ms: Percentiles::of_times(&tally.first_byte),
                key_frame_ms: Percentiles::of_times(&tally.first_key_frame),
                picture_ms: Percentiles::of_times(&tally.first_picture),
            },
            window_s: window.seconds,
            bytes: window.bytes,
            throughput_bps: if window.seconds > 0.0 {
                window.bytes as f64 * 8.0 / window.seconds
            } else {
                0.0
            },
            rate_bps: Percentiles::of(&window.rate, 1.0),
            limited_rate_bps: Percentiles::of(&window.limited_rate, 1.0),
            stalls: Stalls {
                threshold_ms: stall.as_secs_f64() * 1e3,
                count: window.stalls,
                viewers: window.stalled_viewers,
                longest_gap_ms: window.longest_gap.as_secs_f64() * 1e3,
            },
            check,
            delay_ms,
            load_cpu_share: share(tally),
            notes: notes(tally),
        }
    }

    /// Whether every packet that was checked is right.
    pub fn is_right(&self) -> bool {
        self.check.is_none_or(|check| check.errors == 0)
    }

    /// The figures as a table.
    pub fn table(&self) -> String {
        let mut out = String::new();
        let viewers = &self.viewers;
        line(&mut out, "viewers", &format!("{} of {} at the end", viewers.receiving, self.wanted));
        let counts = [
            (viewers.connected, "connected"),
            (viewers.refused, "refused"),
            (viewers.dropped, "dropped by the server"),
            (viewers.finished, "finished"),
            (viewers.left, "left"),
        ];
        let counts: Vec<_> = counts
            .iter()
            .filter(|(count, name)| *count > 0 || matches!(*name, "refused" | "dropped by the server"))
            .map(|(count, name)| format!("{count} {name}"))
            .collect();
        line(&mut out, "", &counts.join(", "));
        for failure in &self.failures {
            line(&mut out, "", &format!("{} × {}", failure.count, failure.reason));
        }
        heads(&mut out, "join, ms");
        percentiles(&mut out, "connection", self.join.connect_ms);
        percentiles(&mut out, "request to first byte", self.join.first_byte_ms);
        percentiles(&mut out, "request to key frame", self.join.key_frame_ms);
        percentiles(&mut out, "request to whole picture", self.join.picture_ms);
        out.push('\n');
        let (rate, unit) = rate(self.throughput_bps);
        line(&mut out, "throughput", &format!("{rate} {unit} over {:.1} s", self.window_s));
        rates(&mut out, "per viewer", self.rate_bps);
        rates(&mut out, "per limited viewer", self.limited_rate_bps);
        let stalls = &self.stalls;
        let text = format!(
            "{} of {} viewers waited longer than {} ms, {} times; longest gap {:.1} ms",
            stalls.viewers,
            self.rate_bps.map_or(0, |rate| rate.count),
            stalls.threshold_ms,
            stalls.count,
            stalls.longest_gap_ms
        );
        line(&mut out, "stalls", &text);
        self.check_lines(&mut out);
        if let Some(delay) = self.delay_ms {
            heads(&mut out, "delay, ms");
            percentiles(&mut out, "frame's first packet", delay.first_packet);
            percentiles(&mut out, "frame's last packet", delay.last_packet);
        }
        out.push('\n');
        line(&mut out, "load's own CPU", &format!("{:.0} % of its core", self.load_cpu_share * 100.0));
        for note in &self.notes {
            line(&mut out, "note", note);
        }
        out
    }

    fn check_lines(&self, out: &mut String) {
        let Some(check) = &self.check else {
            return line(out, "check", "nothing was checked");
        };
        let verdict = &check.verdict;
        let how = match check.stamped {
            0 => "by continuity counters",
            all if all == check.viewers => "every byte",
            _ => "every byte of stamped streams, continuity counters of others",
        };
        let text = format!("{} packets of {} viewers, {how}", verdict.packets, check.viewers);
        line(out, "check", &text);
        let text = if check.errors == 0 {
            "none wrong, missing or repeated".to_owned()
        } else {
            format!("{} WRONG, {} MISSING, {} REPEATED", verdict.wrong, verdict.missing, verdict.repeated)
        };
        line(out, "", &text);
        if verdict.announced > 0 {
            let skipped = match verdict.skipped {
                0 => String::new(),
                skipped => format!(", {skipped} packets skipped by them"),
            };
            line(out, "", &format!("{} discontinuities, announced{skipped}", verdict.announced));
        }
        if verdict.misplaced > 0 {
            line(out, "", &format!("{} of them lead elsewhere than to a key frame", verdict.misplaced));
        }
    }
}

fn share(tally: &Tally) -> f64 {
    if tally.run_seconds > 0.0 { tally.cpu_seconds / tally.run_seconds } else { 0.0 }
}

fn notes(tally: &Tally) -> Vec<String> {
    let mut notes = Vec::new();
    if tally.other_bodies > 0 {
        notes.push(format!(
            "{} viewers got a body that is no MPEG transport stream: nothing of it was checked",
            tally.other_bodies
        ));
    }
    if tally.window.foreign_stamps > 0 {
        notes.push(
            "the stream's time stamps are by another machine's clock: they give no delay (run source and load on \
             one machine)"
                .into(),
        );
    }
    if share(tally) > SATURATED {
        notes.push(format!(
            "the load took {:.0} % of its core: rates, gaps and delays are partly its own (use more --processes, \
             or check fewer viewers)",
            share(tally) * 100.0
        ));
    }
    notes
}

pub(super) fn line(out: &mut String, name: &str, text: &str) {
    let _ = writeln!(out, "{name:<20}{text}");
}

pub(super) fn heads(out: &mut String, name: &str) {
    let heads = ["min", "p50", "p95", "p99", "max"].map(|head| format!("{head:>10}")).concat();
    let _ = writeln!(out, "\n{name:<28}{heads}");
}

pub(super) fn percentiles(out: &mut String, name: &str, values: Option<Percentiles>) {
    let Some(values) = values else { return };
    let _ = write!(out, "  {name:<26}");
    for value in [values.min, values.p50, values.p95, values.p99, values.max] {
        let _ = write!(out, "{value:>10.2}");
    }
    out.push('\n');
}

fn rates(out: &mut String, name: &str, values: Option<Percentiles>) {
    let Some(values) = values else { return };
    let [slowest, p1, median] = [values.min, values.p1, values.p50].map(|value| {
        let (number, unit) = rate(value);
        format!("{number} {unit}")
    });
    line(out, name, &format!("slowest {slowest}, p1 {p1}, median {median}"));
}

/// Three digits and a unit.
pub(super) fn rate(bits_per_second: f64) -> (String, &'static str) {
    let (value, unit) = match bits_per_second {
        high if high >= 1e9 => (high / 1e9, "Gbit/s"),
        mid if mid >= 1e6 => (mid / 1e6, "Mbit/s"),
        low => (low / 1e3, "kbit/s"),
    };
    let digits = if value >= 100.0 {
        0
    } else if value >= 10.0 {
        1
    } else {
        2
    };
    (format!("{value:.digits$}"), unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tally() -> Tally {
        let mut tally = Tally { checked: 2, ..Tally::default() };
        tally.viewers = Viewers { asked: 5, connected: 4, receiving: 2, refused: 1, ..Viewers::default() };
        tally.reasons.insert("answered 503 Service Unavailable".into(), 1);
        tally.window.seconds = 4.0;
        tally.window.bytes = 5_000_000;
        [4_000_000, 5_000_000].into_iter().for_each(|rate| tally.window.rate.record(rate));
        tally.first_byte.record_time(Duration::from_millis(2));
        tally.verdict.packets = 1000;
        tally
    }

    #[test]
    fn the_table_says_what_matters() {
        let stall = Duration::from_millis(500);
        let report = Report::new(&tally(), &["http://h/x.ts".into()], 5, stall);
        let table = report.table();
        for words in [
            "2 of 5 at the end",
            "1 × answered 503 Service Unavailable",
            "10.0 Mbit/s over 4.0 s",
            "slowest 4.00 Mbit/s, p1 4.00 Mbit/s",
            "none wrong, missing or repeated",
            "1000 packets of 2 viewers, by continuity counters",
        ] {
            assert!(table.contains(words), "{words:?} is not in:\n{table}");
        }
        assert!(report.is_right() && report.notes.is_empty());
        let json = serde_json::to_value(&report).unwrap();
        assert_eq!(json["check"]["wrong"], 0);
        assert_eq!(json["delay_ms"], serde_json::Value::Null);
        assert!((1.9..2.1).contains(&json["join"]["first_byte_ms"]["p50"].as_f64().unwrap()), "{json}");
    }

    #[test]
    fn errors_and_what_spoils_figures_are_said() {
        let mut tally = tally();
        tally.verdict.missing = 3;
        (tally.cpu_seconds, tally.run_seconds) = (9.9, 10.0);
        tally.other_bodies = 1;
        tally.window.foreign_stamps = 1;
        let report = Report::new(&tally, &[], 5, Duration::from_millis(500));
        assert!(!report.is_right() && report.notes.len() == 3, "{:?}", report.notes);
        assert!(report.table().contains("0 WRONG, 3 MISSING, 0 REPEATED"));
    }
}
