//! Where the milliseconds go, from capture to the kernel.

use glassline_media::{Stage, Stamps, Time};
use hdrhistogram::Histogram;
use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::time::Duration;

/// Longer times are counted as this one: a minute.
const LONGEST_NANOS: u64 = 60_000_000_000;

/// Counts and times of a run, of pictures alone.
pub(crate) struct Stats {
    started: Time,
    live: Option<Live>,
    rows: Vec<(Row, Histogram<u64>)>,
    pictures: u64,
    coded_bytes: u64,
    sent_bytes: u64,
    /// When the last packets were made.
    now: Time,
    pub(super) dropped: u64,
}

/// What a line of the table measures.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Row {
    /// From the stamp before to this one.
    To(Stage),
    /// x264's own time.
    X264,
    /// From the picture's arrival in the queue to its last TS byte in the kernel, less x264's time.
    Added,
    /// From capture to the kernel.
    Total,
}

/// The line that is written again each second.
struct Live {
    told: Time,
    pictures: u64,
    bytes: u64,
}

impl Stats {
    /// Nothing yet.
    pub(super) fn new(now: Time) -> Stats {
        use Row::{Added, To, Total, X264};
        let rows =
            [To(Stage::Queued), To(Stage::Encoded), To(Stage::Muxed), To(Stage::Sent), Total, X264, Added];
        let empty = || Histogram::new_with_max(LONGEST_NANOS, 3).expect("three digits are in range");
        Stats {
            started: now,
            live: None,
            rows: rows.into_iter().map(|row| (row, empty())).collect(),
            pictures: 0,
            coded_bytes: 0,
            sent_bytes: 0,
            now,
            dropped: 0,
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
            eprintln!();
        }
    }

    /// Counts a picture that was coded and written.
    pub(super) fn picture(&mut self, stamps: &Stamps, x264: Duration, coded_bytes: usize) {
        self.pictures += 1;
        self.coded_bytes += coded_bytes as u64;
        let between = |from, to| stamps.between(from, to);
        for (row, histogram) in &mut self.rows {
            let time = match row {
                Row::To(stage) => stamps.budget().find(|(passed, _)| passed == stage).map(|(_, time)| time),
                Row::X264 => Some(x264),
                Row::Added => between(Stage::Queued, Stage::Sent).map(|time| time.saturating_sub(x264)),
                Row::Total => between(Stage::Captured, Stage::Sent),
            };
            if let Some(time) = time {
                histogram.saturating_record(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
            }
        }
        self.tell();
    }

    /// Counts bytes on their way out.
    pub(super) fn sent(&mut self, bytes: usize, now: Time) {
        self.sent_bytes += bytes as u64;
        self.now = now;
    }

    fn tell(&mut self) {
        let median = |row| self.quantile(row, 0.5);
        let (x264, added) = (median(Row::X264), median(Row::Added));
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
             added {added:.2} ms  dropped {dropped}"
        );
        *live = Live { told: self.now, pictures: self.pictures, bytes: self.sent_bytes };
    }

    /// In milliseconds.
    fn quantile(&self, row: Row, quantile: f64) -> f64 {
        let histogram = self.rows.iter().find(|(found, _)| *found == row).map(|(_, histogram)| histogram);
        histogram.map_or(0.0, |histogram| histogram.value_at_quantile(quantile) as f64 / 1e6)
    }

    /// One line on the whole run.
    pub(super) fn summary(&self, dropped: u64) -> String {
        let seconds = self.now.since(self.started).as_secs_f64();
        format!(
            "{} pictures in {seconds:.1} s, {dropped} dropped; {:.1} MB of transport stream, {:.1} MB of it coded \
             pictures",
            self.pictures,
            self.sent_bytes as f64 / 1e6,
            self.coded_bytes as f64 / 1e6
        )
    }

    /// Each stage with median, 99th percentile and maximum in milliseconds.
    pub(super) fn table(&self) -> String {
        let mut table = format!("{:<44}{:>9}{:>9}{:>9}\n", "milliseconds", "p50", "p99", "max");
        for (row, _) in &self.rows {
            let name = match row {
                Row::To(stage) => stage.name(),
                Row::X264 => "x264's own time",
                Row::Added => "added beyond x264 (queued to sent, less x264)",
                Row::Total => "captured to sent",
            };
            let cells = [0.5, 0.99, 1.0].map(|quantile| self.quantile(*row, quantile));
            let _ = writeln!(table, "{name:<46}{:>7.3}{:>9.3}{:>9.3}", cells[0], cells[1], cells[2]);
        }
        table
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_row_of_the_table_is_what_it_says() {
        let mut stats = Stats::new(Time::ZERO);
        let mut stamps = Stamps::captured_at(Time::from_millis(100));
        let stages = [(Stage::Queued, 103), (Stage::Encoded, 110), (Stage::Muxed, 111), (Stage::Sent, 113)];
        for (stage, millis) in stages {
            stamps.set(stage, Time::from_millis(millis));
        }
        stats.picture(&stamps, Duration::from_millis(6), 1000);
        let table = stats.table();
        let medians: Vec<f64> = table
            .lines()
            .skip(1)
            .map(|line| line.split_whitespace().rev().nth(2).unwrap().parse::<f64>().unwrap().round())
            .collect();
        // Queued, encoded, muxed, sent, in all, x264, and what is not x264 of the 10 ms since it was queued.
        assert_eq!(medians, [3.0, 7.0, 1.0, 2.0, 13.0, 6.0, 4.0], "{table}");
        let widths: Vec<_> = table.lines().map(str::len).collect();
        assert!(widths.iter().all(|&width| width == widths[0]), "{table}");
    }
}
