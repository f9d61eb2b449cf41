//! What is kept of a stream's past: its entries, and when which offset was reached.

use super::Entry;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// How much of a stream's past is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Backlog {
    /// Bytes younger than this are kept, and older ones back to the newest key frame.
    pub time: Duration,
    /// At most this many bytes are kept, even where the newest key frame is older.
    pub bytes: u64,
}

/// Between two remembered offsets: fine enough for bit rates, coarse enough to cost nothing.
const MARK_INTERVAL: Duration = Duration::from_millis(50);
/// Entries remembered; only the newest are of use.
const ENTRIES: usize = 64;

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Mark {
    offset: u64,
    at: Time,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Past {
    backlog: Backlog,
    entries: VecDeque<(Entry, Time)>,
    marks: VecDeque<Mark>,
    before_marks: Option<Mark>,
    newest: Option<Mark>,
    session_start: Mark,
    tail: u64,
    interval: Option<Duration>,
}

impl Past {
    pub(super) fn new(backlog: Backlog) -> Past {
        Past {
            backlog,
            entries: VecDeque::new(),
            marks: VecDeque::new(),
            before_marks: None,
            newest: None,
            session_start: Mark { offset: 0, at: Time::ZERO },
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
        self.session_start = Mark { offset, at: now };
        self.interval = None;
    }

    pub(super) fn add_entry(&mut self, entry: Entry, now: Time) {
        let last_in_session =
            self.entries.back().filter(|(last, _)| last.offset >= self.session_start.offset);
        self.interval = last_in_session.map(|(_, at)| now.since(*at)).or(self.interval);
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
        let mark = Mark { offset: head, at: now };
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
        self.tail = self.tail.max(head.saturating_sub(self.backlog.bytes).next_multiple_of(188));
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

    /// Whether a session that began at `began` has shown no entry for as long as `patience`.
    pub(super) fn lacks_entry_since(&self, began: Time, patience: Duration, now: Time) -> bool {
        let last = self.entries.back().map_or(Time::ZERO, |(_, at)| *at);
        now.since(last.max(began)) > patience
    }

    pub(super) fn entry_interval(&self) -> Option<Duration> {
        self.interval
    }

    pub(super) fn newest_at(&self) -> Option<Time> {
        self.newest.map(|mark| mark.at)
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
