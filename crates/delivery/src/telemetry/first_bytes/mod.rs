//! How long requests for objects waited for their first byte, by the stream that they are of.
//!
//! Comes in: each answer's [`Begun`] with its wait and the time, from the worker that gave it, into that worker's
//! [`FirstBytes`]. Goes out: a [`Summary`] of one name, put together from those of all workers, as windows of time with
//! histograms, which give curves of percentiles and a distribution.

mod histogram;
mod kind;
mod summary;

pub use histogram::{WAIT_BUCKETS, WaitHistogram};
pub use kind::ObjectKind;
pub use summary::Summary;

use crate::policy::StreamName;
use glassline_media::Time;
use kind::{is_blocking_reload, presentation_name};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// From one window to the next.
pub const WINDOW: Duration = Duration::from_secs(10);
/// Windows that are kept: those of ten minutes, and the one that runs.
pub const WINDOWS: usize = 61;
/// The newest of them that stand for the last minute: 50 to 60 s.
pub const LAST_MINUTE: usize = 6;
/// Names that are kept: at one more, the one that was asked for longest ago goes.
pub const NAMES: usize = 256;
/// Sources that are told apart at most.
pub const SOURCES: usize = 8;
/// The name under which all is counted that is of no stream's presentation. No stream is called so.
pub const OTHER_NAME: &str = "(other)";

/// An answer of which the first byte is there.
#[derive(Clone, Copy, Debug)]
pub struct Begun<'a> {
    /// What was asked for.
    pub path: &'a str,
    /// With what behind it.
    pub query: &'a str,
    /// Where it came from: below [`SOURCES`], by the caller's own list.
    pub source: usize,
    /// It is made here, not fetched.
    pub is_made_here: bool,
    /// It had not begun when it was asked for.
    pub was_waited_for: bool,
    /// It is an error. Such an answer makes no name known, or else strangers would, at random.
    pub is_refusal: bool,
}

impl Begun<'_> {
    /// Whether it was asked for before it was made, as blocking reload and preload hints are meant to do: its wait says
    /// when it was made, not how well it is served. What is fetched does not tell; of that it is taken to be so for what
    /// is commonly asked for early.
    fn is_awaited(&self, kind: ObjectKind) -> bool {
        let is_early = match kind {
            ObjectKind::Playlist => is_blocking_reload(self.query),
            ObjectKind::Part => true,
            _ => false,
        };
        self.was_waited_for && (self.is_made_here || is_early)
    }
}

/// Requests of some time: 664 bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Window {
    /// Waits for what was there, or had to be fetched.
    pub ready: WaitHistogram,
    /// Waits for what was not made yet.
    pub awaited: WaitHistogram,
    /// All requests by where objects came from, as the caller numbers it.
    pub by_source: [u32; SOURCES],
    /// All requests by what they were for, in the order of [`ObjectKind::ALL`].
    pub by_kind: [u32; ObjectKind::ALL.len()],
    /// Those of them for what was not made yet.
    pub awaited_by_kind: [u32; ObjectKind::ALL.len()],
}

impl Window {
    fn record(&mut self, begun: &Begun<'_>, wait: Duration) {
        let kind = ObjectKind::of(begun.path);
        let index = kind as usize;
        self.by_kind[index] = self.by_kind[index].saturating_add(1);
        if let Some(count) = self.by_source.get_mut(begun.source) {
            *count = count.saturating_add(1);
        }
        if begun.is_awaited(kind) {
            self.awaited.record(wait);
            self.awaited_by_kind[index] = self.awaited_by_kind[index].saturating_add(1);
        } else {
            self.ready.record(wait);
        }
    }

    /// Adds what `other` has counted.
    pub fn add(&mut self, other: &Window) {
        self.ready.add(&other.ready);
        self.awaited.add(&other.awaited);
        let sum = |mine: &mut [u32], theirs: &[u32]| {
            for (mine, theirs) in mine.iter_mut().zip(theirs) {
                *mine = mine.saturating_add(*theirs);
            }
        };
        sum(&mut self.by_source, &other.by_source);
        sum(&mut self.by_kind, &other.by_kind);
        sum(&mut self.awaited_by_kind, &other.awaited_by_kind);
    }

    /// All requests.
    pub fn requests(&self) -> u64 {
        self.by_kind.iter().map(|count| u64::from(*count)).sum()
    }
}

/// The number of the window that `now` is in.
fn window_at(now: Time) -> u64 {
    now.as_nanos() / WINDOW.as_nanos() as u64
}

/// One name's windows. Only those with requests take memory: 43 kB where all have some.
#[derive(Clone, Debug)]
struct Record {
    since: Time,
    asked: Time,
    /// By their numbers, the oldest first.
    windows: VecDeque<(u64, Window)>,
}

impl Record {
    fn new(now: Time) -> Record {
        Record { since: now, asked: now, windows: VecDeque::new() }
    }

    fn record(&mut self, begun: &Begun<'_>, wait: Duration, now: Time) {
        self.asked = now;
        let number = window_at(now);
        if self.windows.back().is_none_or(|(newest, _)| *newest < number) {
            if self.windows.len() == WINDOWS {
                self.windows.pop_front();
            }
            self.windows.push_back((number, Window::default()));
        }
        if let Some((_, window)) = self.windows.back_mut() {
            window.record(begun, wait);
        }
    }

    fn requests(&self, from: u64) -> u64 {
        self.windows
            .iter()
            .rev()
            .take_while(|(number, _)| *number >= from)
            .map(|(_, window)| window.requests())
            .sum()
    }
}

/// What one worker has seen, by name. At most 11 MB, where each of [`NAMES`] was asked for in each window.
#[derive(Clone, Debug, Default)]
pub struct FirstBytes {
    names: BTreeMap<Box<str>, Record>,
}

impl FirstBytes {
    /// Counts an answer of which the first byte took `wait` to come. Allocates only for a name that is new, and once in a
    /// [`WINDOW`].
    pub fn record(&mut self, begun: &Begun<'_>, wait: Duration, now: Time) {
        let name = presentation_name(begun.path);
        if let Some(record) = name.and_then(|name| self.names.get_mut(name)) {
            record.record(begun, wait, now);
            return;
        }
        let name = name.filter(|name| !begun.is_refusal && StreamName::parse(name).is_some());
        let name = name.unwrap_or(OTHER_NAME);
        if !self.names.contains_key(name) && self.names.len() == NAMES {
            self.forget_one();
        }
        let record = self.names.entry(name.into()).or_insert_with(|| Record::new(now));
        record.record(begun, wait, now);
    }

    fn forget_one(&mut self) {
        let oldest = self.names.iter().min_by_key(|(_, record)| record.asked).map(|(name, _)| name.clone());
        if let Some(name) = oldest {
            self.names.remove(&name);
        }
    }

    /// The names that had requests in the last ten minutes, and how many requests they had in the newest
    /// `windows`, the running one among them.
    pub fn names(&self, now: Time, windows: usize) -> impl Iterator<Item = (&str, u64)> {
        let first = |count: usize| (window_at(now) + 1).saturating_sub(count as u64);
        let (kept_from, from) = (first(WINDOWS), first(windows));
        let is_kept =
            move |record: &Record| record.windows.back().is_some_and(|(newest, _)| *newest >= kept_from);
        let known = self.names.iter().filter(move |(_, record)| is_kept(record));
        known.map(move |(name, record)| (&**name, record.requests(from)))
    }

    /// Adds what is known of `name` to `summary`.
    pub fn add_to(&self, name: &str, summary: &mut Summary) {
        if let Some(record) = self.names.get(name) {
            summary.begins(record.since);
            record.windows.iter().for_each(|(number, window)| summary.add(*number, window));
        }
    }
}

#[cfg(test)]
mod tests;
