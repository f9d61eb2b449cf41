//! Reads the index of a recording from the store, part by part.

use super::super::{Done, Shared};
use crate::store::{Listed, StoreError, StoreErrorKind};
use bytes::Bytes;
use glassline_delivery::archive::index::{Line, Part, Recording};
use glassline_delivery::archive::names::{Session, SessionObject, StoredObject};
use glassline_delivery::policy::StreamName;
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, PoisonError, mpsc};
use std::time::Duration;

/// How often it is asked for new parts of an index that is not at its end.
pub(super) const PARTS_EVERY: Duration = Duration::from_secs(4);
/// The same for one that nothing was added to for long.
pub(super) const PARTS_SELDOM: Duration = Duration::from_secs(60);
/// Parts that are fetched at once: those of a quarter of an hour.
pub(super) const AT_ONCE: usize = 96;
/// How long the store may take for one answer; then it is held to be away.
pub(super) const STORE_WITHIN: Duration = Duration::from_secs(5);
/// How long an object may take that is waited for: 64 MiB at 18 Mbit/s.
pub(in crate::reading) const OBJECT_WITHIN: Duration = Duration::from_secs(30);
/// How long it is not asked again after that by what would wait for it.
pub(super) const AWAY_FOR: Duration = Duration::from_secs(10);
/// How long a part that the store does not have is not asked for again: it may be on its way.
pub(super) const ABSENT_FOR: Duration = Duration::from_secs(10);
/// The most parts of an index.
pub(super) const PARTS_MAX: usize = 1 << 20;

/// A recording, as far as its index was read.
#[derive(Clone)]
pub(super) struct Loaded {
    pub(super) recording: Arc<Recording>,
    /// When it was asked which parts there are, and when each was written.
    pub(super) listed_at: Option<Time>,
    pub(super) listing: Arc<BTreeMap<u32, Utc>>,
    pub(super) newest_written: Utc,
    pub(super) used_at: Time,
    /// When what parts tell of begins.
    pub(super) starts: BTreeMap<u32, Utc>,
    /// Parts that cannot be read.
    pub(super) refused: BTreeSet<u32>,
    /// Parts that the store does not have, and when they may be asked for again.
    pub(super) absent: BTreeMap<u32, Time>,
}

pub(super) fn new(name: &StreamName, session: Session, now: Time) -> Loaded {
    Loaded {
        recording: Arc::new(Recording::new(name.clone(), session)),
        listed_at: None,
        listing: Arc::default(),
        newest_written: Utc::default(),
        used_at: now,
        starts: BTreeMap::new(),
        refused: BTreeSet::new(),
        absent: BTreeMap::new(),
    }
}

/// When what a line tells of begins.
pub(super) fn begins(line: &Line) -> Option<Utc> {
    match line {
        Line::Segment(_, segment) => Some(segment.utc),
        _ => None,
    }
}

/// A part of an index: its number, and what the store answered.
type Fetched = (u32, Result<Bytes, StoreError>);

/// Reads an index from the store.
pub(super) struct Reader<'a> {
    pub(super) shared: &'a Shared,
    /// The folder of the parts.
    pub(super) folder: &'a str,
    pub(super) deadline: Time,
}

impl Reader<'_> {
    /// Asks which parts there are, where that may have changed.
    pub(super) fn list(&self, loaded: &mut Loaded, now: Time, utc: Utc) -> Result<(), StoreError> {
        let age = Duration::from_nanos(utc.as_nanos().saturating_sub(loaded.newest_written.as_nanos()));
        let every = if age > PARTS_SELDOM { PARTS_SELDOM } else { PARTS_EVERY };
        if loaded.listed_at.is_some_and(|at| now.since(at) < every || loaded.recording.ended().is_some()) {
            return Ok(());
        }
        let listed = wait(self.shared, |done| self.shared.objects.list(self.folder, PARTS_MAX, done));
        let listed = match listed {
            Err(error) if error.kind() == StoreErrorKind::NotFound => Vec::new(),
            listed => listed?,
        };
        let mut listing = BTreeMap::new();
        for Listed { path, modified, .. } in listed {
            let Ok(StoredObject { object: SessionObject::Index { part }, .. }) = path.parse() else {
                continue;
            };
            loaded.newest_written = loaded.newest_written.max(modified);
            listing.insert(part, modified);
        }
        loaded.listing = Arc::new(listing);
        loaded.listed_at = Some(now);
        Ok(())
    }

    /// Reads these parts, as far as they are not known; how many were asked for.
    pub(super) fn read(&self, loaded: &mut Loaded, parts: &[u32]) -> Result<usize, StoreError> {
        let now = self.shared.clock.now();
        let is_wanted = |part: &u32| {
            !loaded.recording.has_part(*part)
                && !loaded.refused.contains(part)
                && loaded.absent.get(part).is_none_or(|until| now >= *until)
        };
        let wanted: Vec<u32> = parts.iter().copied().filter(is_wanted).collect();
        for parts in wanted.chunks(AT_ONCE) {
            if self.shared.clock.now() >= self.deadline {
                return Err(StoreError::no_answer());
            }
            for (number, bytes) in self.get_all(parts)? {
                self.take(loaded, number, bytes)?;
            }
        }
        Ok(wanted.len())
    }

    fn take(
        &self,
        loaded: &mut Loaded,
        number: u32,
        bytes: Result<Bytes, StoreError>,
    ) -> Result<(), StoreError> {
        let folder = self.folder;
        match bytes.map(|bytes| Part::read(&bytes)) {
            Ok(Ok(part)) => {
                let start = part.lines.iter().filter_map(begins).min();
                match Arc::make_mut(&mut loaded.recording).add_part(part) {
                    Ok(()) => loaded.starts.extend(start.map(|start| (number, start))),
                    Err(refused) => {
                        tracing::warn!(folder, number, error = %refused, "a part of an index is left out");
                        loaded.refused.insert(number);
                    }
                }
            }
            Ok(Err(error)) => {
                tracing::warn!(folder, number, %error, "a part of an index cannot be read and is left out");
                loaded.refused.insert(number);
            }
            // It was deleted meanwhile, or is on its way.
            Err(error) if error.kind() == StoreErrorKind::NotFound => {
                loaded.absent.insert(number, self.shared.clock.now() + ABSENT_FOR);
            }
            Err(error) => return Err(error),
        }
        Ok(())
    }

    /// Fetches parts at once.
    fn get_all(&self, parts: &[u32]) -> Result<Vec<Fetched>, StoreError> {
        is_there(self.shared)?;
        let (sender, receiver) = mpsc::channel();
        for number in parts {
            let (sender, number) = (sender.clone(), *number);
            let path = format!("{}/{number:08}.jsonl", self.folder);
            let done = move |result| {
                let _ = sender.send((number, result));
            };
            self.shared.objects.get(&path, Box::new(done));
        }
        drop(sender);
        let mut found = Vec::with_capacity(parts.len());
        while found.len() < parts.len() {
            match receiver.recv_timeout(STORE_WITHIN) {
                Ok(answer) => found.push(answer),
                Err(error) => return Err(no_answer(self.shared, error)),
            }
        }
        found.sort_by_key(|(number, _)| *number);
        Ok(found)
    }
}

/// Waits for the store, as long as that may take; where it gave no answer a moment ago, it is not waited for.
pub(super) fn wait<T: Send + 'static>(shared: &Shared, ask: impl FnOnce(Done<T>)) -> Result<T, StoreError> {
    is_there(shared)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    ask(Box::new(move |result| {
        let _ = sender.send(result);
    }));
    receiver.recv_timeout(STORE_WITHIN).unwrap_or_else(|error| Err(no_answer(shared, error)))
}

/// Waits for an object of any size, as long as a slow line may take: to `deadline`. That is no sign of a store that is away.
pub(in crate::reading) fn wait_for_object(
    shared: &Shared,
    path: &str,
    deadline: Time,
) -> Result<Bytes, StoreError> {
    wait_until(shared, deadline, |done| shared.objects.get(path, done))
}

/// Waits for the store to `deadline`; where it gave no answer a moment ago, it is not waited for.
pub(in crate::reading) fn wait_until<T: Send + 'static>(
    shared: &Shared,
    deadline: Time,
    ask: impl FnOnce(Done<T>),
) -> Result<T, StoreError> {
    is_there(shared)?;
    let (sender, receiver) = mpsc::sync_channel(1);
    ask(Box::new(move |result| {
        let _ = sender.send(result);
    }));
    let within = deadline.since(shared.clock.now());
    receiver.recv_timeout(within).unwrap_or_else(|_| Err(StoreError::no_answer()))
}

fn is_there(shared: &Shared) -> Result<(), StoreError> {
    let until = *shared.away_until.lock().unwrap_or_else(PoisonError::into_inner);
    if shared.clock.now() < until { Err(StoreError::no_answer()) } else { Ok(()) }
}

fn no_answer(shared: &Shared, error: mpsc::RecvTimeoutError) -> StoreError {
    if error == mpsc::RecvTimeoutError::Timeout {
        let until = shared.clock.now() + AWAY_FOR;
        *shared.away_until.lock().unwrap_or_else(PoisonError::into_inner) = until;
    }
    StoreError::no_answer()
}
