//! What is kept of a stream's past: its entries, and when which offset was reached.

use super::entry::{Entry, Point};
use glassline_media::Time;
use glassline_media::quantity::{self, ByteSize, QuantityError};
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

/// How much of a stream's past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Bytes younger than this are kept, and older ones back to the newest key frame.
    pub time: Duration,
    /// At most this many bytes are kept, even where the newest key frame is older.
    pub bytes: u64,
}

/// How far back a viewer begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prebuffer {
    /// At the newest entry that came at least this long ago.
    Time(Duration),
    /// At the newest entry with at least this many bytes behind it.
    Bytes(u64),
}

impl FromStr for Prebuffer {
    type Err = QuantityError;

    /// Reads a time, as `2s`, or a size, as `1MiB`.
    fn from_str(text: &str) -> Result<Prebuffer, QuantityError> {
        // Units of sizes end with B, units of times do not.
        if text.trim_end().ends_with('B') {
            text.parse().map(|size: ByteSize| Prebuffer::Bytes(size.bytes()))
        } else {
            quantity::parse_duration(text).map(Prebuffer::Time)
        }
    }
}

impl Prebuffer {
    /// At the newest entry.
    pub const NONE: Prebuffer = Prebuffer::Time(Duration::ZERO);
}

/// Between two remembered offsets: fine enough for bit rates, coarse enough to cost nothing.
const MARK_INTERVAL: Duration = Duration::from_millis(50);
/// Between two entries that are remembered beside the newest one.
const ENTRY_INTERVAL: Duration = Duration::from_millis(100);
/// Entries remembered: ten minutes' worth, the longest backlog.
const ENTRIES: usize = 6000;

/// The file reached to `offset` at this time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OffsetTime {
    /// The offset behind the last byte that was there.
    pub offset: u64,
    /// When.
    pub at: Time,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Past {
    backlog: Backlog,
    /// What the tail is a multiple of.
    record_bytes: u64,
    entries: VecDeque<(Entry, Time)>,
    marks: VecDeque<OffsetTime>,
    before_marks: Option<OffsetTime>,
    newest: Option<OffsetTime>,
    session_start: OffsetTime,
    tail: u64,
    interval: Option<Duration>,
}

impl Past {
    pub(super) fn new(backlog: Backlog, record_bytes: u64) -> Past {
        Past {
            backlog,
            record_bytes,
            entries: VecDeque::new(),
            marks: VecDeque::new(),
            before_marks: None,
            newest: None,
            session_start: OffsetTime { offset: 0, at: Time::ZERO },
            tail: 0,
            interval: None,
        }
    }

    /// What is too old by another measure goes when the next bytes come; what has gone does not come back.
    pub(super) fn reconfigure(&mut self, backlog: Backlog) {
        self.backlog = backlog;
    }

    pub(super) fn begin_session(&mut self, now: Time) {
        let offset = self.newest.map_or(0, |mark| mark.offset);
        self.session_start = OffsetTime { offset, at: now };
        self.interval = None;
    }

    pub(super) fn add_entry(&mut self, entry: Entry, now: Time) {
        let last_in_session =
            self.entries.back().filter(|(last, _)| last.offset >= self.session_start.offset);
        self.interval = last_in_session.map(|(_, at)| now.since(*at)).or(self.interval);
        // Many entries in a row are of no use: the one that was the newest is dropped where it is close behind the one
        // before it.
        let at = |back: usize| self.entries.len().checked_sub(back).map(|index| self.entries[index].1);
        if at(2).zip(at(1)).is_some_and(|(before, last)| last.since(before) < ENTRY_INTERVAL) {
            self.entries.pop_back();
        }
        self.entries.push_back((entry, now));
        if self.entries.len() > ENTRIES {
            self.entries.pop_front();
        }
    }

    /// The file now reaches to `head`: remembers when, and moves the tail.
    pub(super) fn advance(&mut self, head: u64, now: Time) {
        if self.newest.is_some_and(|mark| mark.offset == head) {
            return;
        }
        let mark = OffsetTime { offset: head, at: now };
        self.newest = Some(mark);
        if self.marks.back().is_none_or(|last| now.since(last.at) >= MARK_INTERVAL) {
            self.marks.push_back(mark);
        }
        while self.marks.front().is_some_and(|mark| now.since(mark.at) > self.backlog.time) {
            if let Some(old) = self.marks.pop_front() {
                self.before_marks = Some(old);
                let newest_entry = self.newest_entry().map_or(u64::MAX, |entry| entry.offset);
                self.tail = self.tail.max(old.offset.min(newest_entry));
            }
        }
        // Rounded up to a packet's start: viewers are moved from one to another.
        let oldest = head.saturating_sub(self.backlog.bytes).next_multiple_of(self.record_bytes);
        self.tail = self.tail.max(oldest);
        while self.entries.front().is_some_and(|(entry, _)| entry.offset < self.tail) {
            self.entries.pop_front();
        }
    }

    pub(super) fn tail(&self) -> u64 {
        self.tail
    }

    pub(super) fn newest_entry(&self) -> Option<&Entry> {
        self.entries.back().map(|(entry, _)| entry)
    }

    /// The newest entry that is as far back as `prebuffer` says, or the oldest one.
    pub(super) fn entry_back(&self, prebuffer: Prebuffer, now: Time) -> Option<&Entry> {
        let head = self.newest.map_or(0, |mark| mark.offset);
        let is_far_back = |(entry, at): &(Entry, Time)| match prebuffer {
            Prebuffer::Time(time) => now.since(*at) >= time,
            Prebuffer::Bytes(bytes) => head.saturating_sub(entry.offset) >= bytes,
        };
        let found = self.entries.partition_point(is_far_back).saturating_sub(1);
        self.entries.get(found).map(|(entry, _)| entry)
    }

    /// The newest entry that is not behind `offset`.
    pub(super) fn entry_at(&self, offset: u64) -> Option<&Entry> {
        let before = self.entries.partition_point(|(entry, _)| entry.offset <= offset);
        before.checked_sub(1).and_then(|found| self.entries.get(found)).map(|(entry, _)| entry)
    }

    /// Gives the entries from `since` on their header; older ones had another and go.
    pub(super) fn restore_headers(&mut self, header: &Arc<[u8]>, since: u64) {
        self.entries.retain(|(entry, _)| entry.offset >= since);
        for (entry, _) in &mut self.entries {
            entry.point = Point::Header(Arc::clone(header));
        }
    }

    /// No viewer can begin any more at what came so far.
    pub(super) fn forget_entries(&mut self) {
        self.entries.clear();
    }

    /// Whether a session that began at `began` has shown no entry for as long as `timeout`.
    pub(super) fn lacks_entry_since(&self, began: Time, timeout: Duration, now: Time) -> bool {
        let last = self.entries.back().map_or(Time::ZERO, |(_, at)| *at);
        now.since(last.max(began)) > timeout
    }

    pub(super) fn entry_interval(&self) -> Option<Duration> {
        self.interval
    }

    /// When which offset was reached, the oldest first and the newest last; some 50 ms apart.
    pub(super) fn marks(&self) -> impl Iterator<Item = OffsetTime> {
        let newest = self.newest.filter(|newest| self.marks.back() != Some(newest));
        self.before_marks.into_iter().chain(self.marks.iter().copied()).chain(newest)
    }

    pub(super) fn newest_at(&self) -> Option<Time> {
        self.newest.map(|mark| mark.at)
    }

    /// For how long the session has gone on.
    pub(super) fn session_age(&self, now: Time) -> Duration {
        now.since(self.session_start.at)
    }

    /// Bits a second over the last `span`, or since the session began.
    pub(super) fn bitrate_bps(&self, span: Duration, now: Time) -> u64 {
        let Some(newest) = self.newest else { return 0 };
        let from = Time::from_nanos(now.as_nanos().saturating_sub(span.as_nanos() as u64));
        // The last mark before the span begins, or the session's start if that is younger.
        let inside = self.marks.partition_point(|mark| mark.at < from);
        let before = inside.checked_sub(1).map(|index| self.marks[index]).or(self.before_marks);
        let start = before.filter(|mark| mark.at >= self.session_start.at).unwrap_or(self.session_start);
        let span = now.since(start.at).max(MARK_INTERVAL);
        let bits = newest.offset.saturating_sub(start.offset) * 8;
        (bits as f64 / span.as_secs_f64()) as u64
    }
}
