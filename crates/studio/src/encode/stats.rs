//! Where the milliseconds go, from capture to the kernel.

use super::picture::Written;
use glassline_media::quantity::Bitrate;
use glassline_media::{Stage, Stamps, Time};
use hdrhistogram::Histogram;
use serde::Serialize;
use std::time::Duration;

/// Longer times are counted as this one: a minute.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// How often progress is told.
const REPORT_INTERVAL: Duration = Duration::from_secs(1);

/// Counts and times of a run, of pictures alone.
pub struct Stats {
    started: Time,
    progress: Option<Reporter>,
    rows: [Histogram<u64>; Row::ALL.len()],
    pictures: u64,
    coded_bytes: u64,
    sent_bytes: u64,
    /// When the last packets were made.
    now: Time,
    pub(super) dropped: u64,
    /// Changes of the preset by `--adapt`.
    pub(super) preset_steps: u64,
}

/// What a line of the table measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Row {
    /// From capture to the queue.
    Queued,
    /// From the queue to x264.
    EncoderIn,
    /// From there to the end of its look-ahead, where it has one.
    LookAhead,
    /// From there to the first slice.
    FirstSlice,
    /// From there to the last.
    LastSlice,
    /// From there to the last packet, as it was made.
    Muxed,
    /// From there to the kernel.
    Sent,
    /// From capture to the last packet in the kernel.
    Total,
    /// From the queue to the first packet in the kernel.
    FirstPacket,
    /// From the queue to the last.
    LastPacket,
    /// From x264's last slice to the last packet in the kernel.
    AfterX264,
    /// x264's own time, after its look-ahead.
    X264,
    /// From the queue to the last packet in the kernel, less x264's time and look-ahead.
    Added,
    /// From the picture's arrival, whole, to the queue.
    Held,
}

impl Row {
    /// In the order of the table.
    pub const ALL: [Row; 14] = [
        Row::Queued,
        Row::EncoderIn,
        Row::LookAhead,
        Row::FirstSlice,
        Row::LastSlice,
        Row::Muxed,
        Row::Sent,
        Row::Total,
        Row::FirstPacket,
        Row::LastPacket,
        Row::AfterX264,
        Row::X264,
        Row::Added,
        Row::Held,
    ];
    /// The stages that make up the whole way, in order.
    pub const STAGES: [Row; 7] =
        [Row::Queued, Row::EncoderIn, Row::LookAhead, Row::FirstSlice, Row::LastSlice, Row::Muxed, Row::Sent];

    /// The name that people read.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Row::Queued
            | Row::EncoderIn
            | Row::LookAhead
            | Row::FirstSlice
            | Row::LastSlice
            | Row::Muxed
            | Row::Sent => self.ends(false).1.label(),
            Row::Total => "captured to sent",
            Row::FirstPacket => "first packet after queued",
            Row::LastPacket => "last packet after queued",
            Row::AfterX264 => "last packet after x264 ended",
            Row::X264 => "x264's own time",
            Row::Added => "added beyond x264 (queued to sent, less x264)",
            Row::Held => "held before queued",
        }
    }

    /// The name that programs read.
    #[must_use]
    pub const fn key(self) -> &'static str {
        match self {
            Row::Queued => "queued",
            Row::EncoderIn => "encoder_in",
            Row::LookAhead => "look_ahead",
            Row::FirstSlice => "first_slice",
            Row::LastSlice => "last_slice",
            Row::Muxed => "muxed",
            Row::Sent => "sent",
            Row::Total => "total",
            Row::FirstPacket => "first_packet_after_queued",
            Row::LastPacket => "last_packet_after_queued",
            Row::AfterX264 => "last_packet_after_x264",
            Row::X264 => "x264",
            Row::Added => "added",
            Row::Held => "held",
        }
    }

    /// From which stage to which it counts, for pictures that have passed a look-ahead or not.
    #[must_use]
    pub const fn ends(self, has_look_ahead: bool) -> (Stage, Stage) {
        let coding = if has_look_ahead { Stage::LookAhead } else { Stage::EncoderIn };
        match self {
            Row::Queued => (Stage::Captured, Stage::Queued),
            Row::EncoderIn => (Stage::Queued, Stage::EncoderIn),
            Row::LookAhead => (Stage::EncoderIn, Stage::LookAhead),
            Row::FirstSlice => (coding, Stage::FirstSlice),
            Row::LastSlice => (Stage::FirstSlice, Stage::Encoded),
            Row::Muxed => (Stage::Encoded, Stage::Muxed),
            Row::Sent => (Stage::Muxed, Stage::Sent),
            Row::Total => (Stage::Captured, Stage::Sent),
            Row::FirstPacket => (Stage::Queued, Stage::FirstSent),
            Row::LastPacket | Row::Added => (Stage::Queued, Stage::Sent),
            Row::AfterX264 => (Stage::Encoded, Stage::Sent),
            Row::X264 => (coding, Stage::Encoded),
            Row::Held => (Stage::Arrived, Stage::Queued),
        }
    }

    /// How long it took, where its stages are known. `outside` is what muxer and outputs took of x264's time.
    fn of(self, stamps: &Stamps, outside: Duration) -> Option<Duration> {
        let (from, to) = self.ends(stamps.at(Stage::LookAhead).is_some());
        let time = stamps.between(from, to)?;
        match self {
            Row::X264 => Some(time.saturating_sub(outside)),
            Row::Added => {
                let ahead = Row::LookAhead.of(stamps, outside).unwrap_or_default();
                Some(time.saturating_sub(Row::X264.of(stamps, outside)? + ahead))
            }
            _ => Some(time),
        }
    }
}

/// How a rendition does, over the last second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Since the beginning.
    pub elapsed: Duration,
    /// Pictures coded a second.
    pub pictures_per_second: f64,
    /// Of the transport stream.
    pub bitrate: Bitrate,
    /// Medians of [`Row::X264`], [`Row::FirstPacket`] and [`Row::LastPacket`] since the beginning, in milliseconds.
    pub x264_ms: f64,
    /// The same.
    pub first_packet_ms: f64,
    /// The same.
    pub last_packet_ms: f64,
    /// Pictures left out since the beginning.
    pub dropped: u64,
}

/// Tells each second how it goes.
struct Reporter {
    report: Box<dyn FnMut(&Progress) + Send>,
    told: Time,
    pictures: u64,
    bytes: u64,
}

/// All figures of a run, for programs.
#[derive(Serialize)]
pub struct Report<'a> {
    rendition: &'a str,
    seconds: f64,
    pictures: u64,
    dropped: u64,
    preset_steps: u64,
    stream_bytes: u64,
    coded_bytes: u64,
    milliseconds: Vec<Line>,
}

/// A row of the table.
#[derive(Serialize)]
pub struct Line {
    /// [`Row::key`].
    name: &'static str,
    /// Median, in milliseconds.
    pub p50: f64,
    /// 99th percentile, in milliseconds.
    pub p99: f64,
    /// The longest, in milliseconds.
    pub max: f64,
}

impl Stats {
    /// Nothing yet.
    pub(super) fn new(now: Time) -> Stats {
        let empty = |_| Histogram::new_with_max(LONGEST_NANOS, 3).expect("three digits are in range");
        Stats {
            started: now,
            progress: None,
            rows: Row::ALL.map(empty),
            pictures: 0,
            coded_bytes: 0,
            sent_bytes: 0,
            now,
            dropped: 0,
            preset_steps: 0,
        }
    }

    /// Has `report` called each second of the run with how it goes.
    pub(super) fn report_progress(&mut self, report: Box<dyn FnMut(&Progress) + Send>) {
        self.progress = Some(Reporter { report, told: self.started, pictures: 0, bytes: 0 });
    }

    /// Counts a picture that was coded and written.
    pub(super) fn picture(&mut self, written: &Written, coded_bytes: usize) {
        self.pictures += 1;
        self.coded_bytes += coded_bytes as u64;
        for (row, histogram) in Row::ALL.into_iter().zip(&mut self.rows) {
            if let Some(time) = row.of(&written.stamps, written.outside) {
                histogram.saturating_record(time.as_nanos() as u64);
            }
        }
        self.sent(written.bytes, written.stamps.at(Stage::Sent).unwrap_or(self.now));
        self.report_due();
    }

    /// Counts bytes on their way out.
    pub(super) fn sent(&mut self, bytes: usize, now: Time) {
        self.sent_bytes += bytes as u64;
        self.now = now;
    }

    fn report_due(&mut self) {
        let Some(reporter) = &self.progress else { return };
        let passed = self.now.since(reporter.told);
        if passed < REPORT_INTERVAL {
            return;
        }
        let bits = (self.sent_bytes - reporter.bytes) as f64 * 8.0 / passed.as_secs_f64();
        let progress = Progress {
            elapsed: self.now.since(self.started),
            pictures_per_second: (self.pictures - reporter.pictures) as f64 / passed.as_secs_f64(),
            bitrate: Bitrate::from_bits_per_second(bits as u64),
            x264_ms: self.quantile(Row::X264, 0.5),
            first_packet_ms: self.quantile(Row::FirstPacket, 0.5),
            last_packet_ms: self.quantile(Row::LastPacket, 0.5),
            dropped: self.dropped,
        };
        let (told, pictures, bytes) = (self.now, self.pictures, self.sent_bytes);
        if let Some(reporter) = &mut self.progress {
            (reporter.report)(&progress);
            (reporter.told, reporter.pictures, reporter.bytes) = (told, pictures, bytes);
        }
    }

    /// In milliseconds.
    #[must_use]
    pub fn quantile(&self, row: Row, quantile: f64) -> f64 {
        self.histogram(row).value_at_quantile(quantile) as f64 / 1e6
    }

    /// The nanoseconds of a row.
    #[must_use]
    pub fn histogram(&self, row: Row) -> &Histogram<u64> {
        &self.rows[row as usize]
    }

    /// Pictures coded.
    #[must_use]
    pub fn pictures(&self) -> u64 {
        self.pictures
    }

    /// Pictures left out because encoder or outputs could not keep up.
    #[must_use]
    pub fn dropped(&self) -> u64 {
        self.dropped
    }

    /// How often the preset was changed to keep up.
    #[must_use]
    pub fn preset_steps(&self) -> u64 {
        self.preset_steps
    }

    /// Bytes of transport stream.
    #[must_use]
    pub fn stream_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes of coded pictures.
    #[must_use]
    pub fn coded_bytes(&self) -> u64 {
        self.coded_bytes
    }

    /// From the beginning to the last packets.
    #[must_use]
    pub fn duration(&self) -> Duration {
        self.now.since(self.started)
    }

    /// All of it for programs, of the rendition of this name.
    #[must_use]
    pub fn report<'a>(&self, rendition: &'a str) -> Report<'a> {
        Report {
            rendition,
            seconds: self.duration().as_secs_f64(),
            pictures: self.pictures,
            dropped: self.dropped,
            preset_steps: self.preset_steps,
            stream_bytes: self.sent_bytes,
            coded_bytes: self.coded_bytes,
            milliseconds: self.rows().map(|row| self.line(row)).collect(),
        }
    }

    /// The rows of the table: that of the look-ahead where there is one.
    pub fn rows(&self) -> impl Iterator<Item = Row> + use<> {
        let has_look_ahead = self.has_look_ahead();
        Row::ALL.into_iter().filter(move |row| has_look_ahead || *row != Row::LookAhead)
    }

    /// Whether pictures have passed a look-ahead.
    #[must_use]
    pub fn has_look_ahead(&self) -> bool {
        !self.histogram(Row::LookAhead).is_empty()
    }

    /// Median, 99th percentile and maximum of a row.
    #[must_use]
    pub fn line(&self, row: Row) -> Line {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|quantile| self.quantile(row, quantile));
        Line { name: row.key(), p50, p99, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::Demand;

    fn stats() -> Stats {
        let at = |millis: u64| Time::from_millis(100 + millis);
        let stamps = Stamps::captured_at(at(0))
            .with(Stage::Arrived, at(1))
            .with(Stage::Queued, at(3))
            .with(Stage::EncoderIn, at(4))
            .with(Stage::FirstSlice, at(6))
            .with(Stage::FirstSent, at(7))
            .with(Stage::Encoded, at(11))
            .with(Stage::Muxed, at(12))
            .with(Stage::Sent, at(15));
        let written =
            Written { stamps, outside: Duration::from_millis(2), bytes: 188, demand: Demand::Nothing };
        let mut stats = Stats::new(Time::ZERO);
        stats.picture(&written, 100);
        stats
    }

    #[test]
    fn each_row_of_the_table_is_what_it_says() {
        let medians: Vec<f64> = stats().rows().map(|row| stats().line(row).p50.round()).collect();
        // x264 had seven milliseconds, less two in muxer and outputs; queued to sent were twelve.
        assert_eq!(medians, [3.0, 1.0, 2.0, 5.0, 1.0, 3.0, 15.0, 4.0, 12.0, 4.0, 5.0, 7.0, 2.0]);
    }

    #[test]
    fn a_look_ahead_has_a_row_of_its_own_and_is_no_time_of_x264() {
        let at = |millis: u64| Time::from_millis(100 + millis);
        let stamps = Stamps::captured_at(at(0)).with(Stage::Queued, at(1)).with(Stage::EncoderIn, at(2));
        let stamps = stamps.with(Stage::LookAhead, at(802)).with(Stage::FirstSlice, at(810));
        let stamps =
            stamps.with(Stage::Encoded, at(810)).with(Stage::Muxed, at(811)).with(Stage::Sent, at(813));
        let mut stats = Stats::new(Time::ZERO);
        let outside = Duration::ZERO;
        stats.picture(&Written { stamps, outside, bytes: 188, demand: Demand::Nothing }, 100);
        let median = |row| stats.line(row).p50.round();
        let of =
            [Row::EncoderIn, Row::LookAhead, Row::FirstSlice, Row::X264, Row::Added, Row::Total].map(median);
        assert_eq!(of, [1.0, 800.0, 8.0, 8.0, 4.0, 813.0]);
        assert!(stats.rows().any(|row| row == Row::LookAhead));
    }

    #[test]
    fn progress_is_told_each_second() {
        let told = std::sync::Arc::<std::sync::Mutex<Vec<Progress>>>::default();
        let into = std::sync::Arc::clone(&told);
        let mut stats = Stats::new(Time::ZERO);
        stats.report_progress(Box::new(move |progress| into.lock().unwrap().push(*progress)));
        for number in 0..50 {
            stats.pictures += 1;
            stats.sent(1_000, Time::from_millis(number * 50));
            stats.report_due();
        }
        let told = told.lock().unwrap();
        assert_eq!(told.len(), 2);
        assert_eq!(told[1].elapsed, Duration::from_secs(2));
        assert!((told[1].pictures_per_second - 20.0).abs() < 0.1, "{told:?}");
        assert_eq!(told[1].bitrate, Bitrate::from_bits_per_second(160_000));
    }

    #[test]
    fn rows_stand_where_their_histograms_do_and_stages_add_up() {
        for (index, row) in Row::ALL.into_iter().enumerate() {
            assert_eq!(row as usize, index);
        }
        let stats = stats();
        let sum: f64 = Row::STAGES.map(|row| stats.quantile(row, 0.5)).iter().sum();
        assert!((sum - stats.quantile(Row::Total, 0.5)).abs() < 0.1, "{sum}");
    }

    #[test]
    fn the_report_is_json() {
        let report: serde_json::Value =
            serde_json::to_value(Stats { dropped: 4, ..stats() }.report("2x2@1")).unwrap();
        assert_eq!((&report["rendition"], &report["dropped"]), (&"2x2@1".into(), &4.into()));
        assert_eq!(report["milliseconds"][7]["name"], "first_packet_after_queued");
        assert!((report["milliseconds"][7]["p50"].as_f64().unwrap() - 4.0).abs() < 0.01);
    }
}
