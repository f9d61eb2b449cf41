//! Where the milliseconds go, from capture to the kernel.

use super::feed::Handed;
use super::picture::Written;
use glassline_media::Time;
use hdrhistogram::Histogram;
use serde::Serialize;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

/// Longer times are counted as this one: a minute.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Counts and times of a run, of pictures alone.
pub(crate) struct Stats {
    started: Time,
    live: Option<Live>,
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

/// When a picture passed what on its way.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    /// Its own time.
    pub(super) captured: Time,
    /// There, and handed to the encoder's queue.
    pub(super) when: Handed,
    /// Handed to x264.
    pub(super) begun: Time,
    /// The rest of the way.
    pub(super) written: Written,
}

/// What a line of the table measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Row {
    /// From capture to the queue.
    Queued,
    /// From the queue to x264.
    EncoderIn,
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
    /// x264's own time.
    X264,
    /// From the queue to the last packet in the kernel, less x264's time.
    Added,
    /// From the picture's arrival, whole, to the queue.
    Held,
}

impl Row {
    /// In the order of the table.
    pub(super) const ALL: [Row; 13] = [
        Row::Queued,
        Row::EncoderIn,
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
    pub(super) const STAGES: [Row; 6] =
        [Row::Queued, Row::EncoderIn, Row::FirstSlice, Row::LastSlice, Row::Muxed, Row::Sent];

    /// The name that people read.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Row::Queued => "queued",
            Row::EncoderIn => "encoder in",
            Row::FirstSlice => "first slice out",
            Row::LastSlice => "last slice out",
            Row::Muxed => "muxed",
            Row::Sent => "sent",
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
    pub(super) const fn key(self) -> &'static str {
        match self {
            Row::Queued => "queued",
            Row::EncoderIn => "encoder_in",
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

    fn of(self, times: &Times) -> Duration {
        let Times { captured, when: Handed { arrived, queued }, begun, written } = times;
        let x264 = || written.last_slice.since(*begun).saturating_sub(written.outside);
        match self {
            Row::Queued => queued.since(*captured),
            Row::EncoderIn => begun.since(*queued),
            Row::FirstSlice => written.first_slice.since(*begun),
            Row::LastSlice => written.last_slice.since(written.first_slice),
            Row::Muxed => written.muxed.since(written.last_slice),
            Row::Sent => written.sent.since(written.muxed),
            Row::Total => written.sent.since(*captured),
            Row::FirstPacket => written.first_sent.since(*queued),
            Row::LastPacket => written.sent.since(*queued),
            Row::AfterX264 => written.sent.since(written.last_slice),
            Row::X264 => x264(),
            Row::Added => written.sent.since(*queued).saturating_sub(x264()),
            Row::Held => queued.since(*arrived),
        }
    }
}

/// The line that is written again each second.
struct Live {
    told: Time,
    pictures: u64,
    bytes: u64,
}

/// What `--json` prints.
#[derive(Serialize)]
struct Report<'a> {
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
struct Line {
    name: &'static str,
    p50: f64,
    p99: f64,
    max: f64,
}

impl Stats {
    /// Nothing yet.
    pub(super) fn new(now: Time) -> Stats {
        let empty = |_| Histogram::new_with_max(LONGEST_NANOS, 3).expect("three digits are in range");
        Stats {
            started: now,
            live: None,
            rows: Row::ALL.map(empty),
            pictures: 0,
            coded_bytes: 0,
            sent_bytes: 0,
            now,
            dropped: 0,
            preset_steps: 0,
        }
    }

    /// From now on a line tells each second how it goes, where standard error is a terminal.
    pub(super) fn report_live(&mut self) {
        if std::io::stderr().is_terminal() {
            self.live = Some(Live { told: self.started, pictures: 0, bytes: 0 });
        }
    }

    /// Leaves the live line, so that what follows has lines of its own.
    pub(super) fn end_live(&mut self) {
        if self.live.take().is_some() {
            crate::output::tell("\n");
        }
    }

    /// Counts a picture that was coded and written.
    pub(super) fn picture(&mut self, times: &Times, coded_bytes: usize) {
        self.pictures += 1;
        self.coded_bytes += coded_bytes as u64;
        for (row, histogram) in Row::ALL.into_iter().zip(&mut self.rows) {
            let nanos = u64::try_from(row.of(times).as_nanos()).unwrap_or(u64::MAX);
            histogram.saturating_record(nanos);
        }
        self.sent(times.written.bytes, times.written.sent);
        self.tell();
    }

    /// Counts bytes on their way out.
    pub(super) fn sent(&mut self, bytes: usize, now: Time) {
        self.sent_bytes += bytes as u64;
        self.now = now;
    }

    fn tell(&mut self) {
        let median = |row| self.quantile(row, 0.5);
        let (x264, first, last) = (median(Row::X264), median(Row::FirstPacket), median(Row::LastPacket));
        let Some(live) = &mut self.live else { return };
        let passed = self.now.since(live.told).as_secs_f64();
        if passed < 1.0 {
            return;
        }
        let rate = (self.pictures - live.pictures) as f64 / passed;
        let megabits = (self.sent_bytes - live.bytes) as f64 * 8e-6 / passed;
        let elapsed = self.now.since(self.started).as_secs();
        let dropped = self.dropped;
        // A terminal that went away is no reason to end.
        let _ = write!(
            std::io::stderr(),
            "\r\x1b[K{elapsed} s  {rate:.1} pictures/s  {megabits:.2} Mbit/s  x264 {x264:.2} ms  \
             first packet {first:.2} ms  last {last:.2} ms  dropped {dropped}"
        );
        *live = Live { told: self.now, pictures: self.pictures, bytes: self.sent_bytes };
    }

    /// In milliseconds.
    pub(super) fn quantile(&self, row: Row, quantile: f64) -> f64 {
        self.histogram(row).value_at_quantile(quantile) as f64 / 1e6
    }

    /// The nanoseconds of a row.
    pub(super) fn histogram(&self, row: Row) -> &Histogram<u64> {
        &self.rows[row as usize]
    }

    /// Pictures coded.
    pub(super) fn pictures(&self) -> u64 {
        self.pictures
    }

    /// One line on the whole run.
    pub(super) fn summary(&self, dropped: u64) -> String {
        let seconds = self.now.since(self.started).as_secs_f64();
        let steps = match self.preset_steps {
            0 => String::new(),
            steps => format!(", the preset changed {steps} times"),
        };
        format!(
            "{} pictures in {seconds:.1} s, {dropped} dropped{steps}; {:.1} MB of transport stream, {:.1} MB of it \
             coded pictures",
            self.pictures,
            self.sent_bytes as f64 / 1e6,
            self.coded_bytes as f64 / 1e6
        )
    }

    /// Each stage with median, 99th percentile and maximum in milliseconds.
    pub(super) fn table(&self) -> String {
        let mut table = format!("{:<44}{:>9}{:>9}{:>9}\n", "milliseconds", "p50", "p99", "max");
        for row in Row::ALL {
            let Line { p50, p99, max, .. } = self.line(row);
            let _ = writeln!(table, "{:<46}{p50:>7.3}{p99:>9.3}{max:>9.3}", row.name());
        }
        table
    }

    /// The same and the counts as JSON, one line.
    pub(super) fn json(&self, rendition: &str, dropped: u64) -> String {
        let report = Report {
            rendition,
            seconds: self.now.since(self.started).as_secs_f64(),
            pictures: self.pictures,
            dropped,
            preset_steps: self.preset_steps,
            stream_bytes: self.sent_bytes,
            coded_bytes: self.coded_bytes,
            milliseconds: Row::ALL.map(|row| self.line(row)).into(),
        };
        serde_json::to_string(&report).expect("numbers and plain names are JSON")
    }

    fn line(&self, row: Row) -> Line {
        let [p50, p99, max] = [0.5, 0.99, 1.0].map(|quantile| self.quantile(row, quantile));
        Line { name: row.key(), p50, p99, max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::encode::pipeline::Demand;

    fn stats() -> Stats {
        let at = |millis: u64| Time::from_millis(100 + millis);
        let written = Written {
            first_slice: at(6),
            first_sent: at(7),
            last_slice: at(11),
            muxed: at(12),
            sent: at(15),
            outside: Duration::from_millis(2),
            bytes: 188,
            demand: Demand::Nothing,
        };
        let mut stats = Stats::new(Time::ZERO);
        let when = Handed { arrived: at(1), queued: at(3) };
        stats.picture(&Times { captured: at(0), when, begun: at(4), written }, 100);
        stats
    }

    #[test]
    fn each_row_of_the_table_is_what_it_says() {
        let table = stats().table();
        let medians: Vec<f64> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().rev().nth(2).unwrap().parse::<f64>().unwrap().round())
            .collect();
        // x264 had seven milliseconds, less two in muxer and outputs; queued to sent were twelve.
        assert_eq!(medians, [3.0, 1.0, 2.0, 5.0, 1.0, 3.0, 15.0, 4.0, 12.0, 4.0, 5.0, 7.0, 2.0], "{table}");
        let widths: Vec<_> = table.lines().map(str::len).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{table}");
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
        let report: serde_json::Value = serde_json::from_str(&stats().json("2x2@1", 4)).unwrap();
        assert_eq!((&report["rendition"], &report["dropped"]), (&"2x2@1".into(), &4.into()));
        assert_eq!(report["milliseconds"][7]["name"], "first_packet_after_queued");
        assert!((report["milliseconds"][7]["p50"].as_f64().unwrap() - 4.0).abs() < 0.01);
    }
}
