//! What goes of the recordings in the store, and requests of which many are made at once.

use super::{AT_ONCE, DELETE_MAX, LOCK, PARTS_MAX, Worker, locked};
use crate::store::{Listed, Store, StoreError, StoreErrorKind};
use glassline_delivery::archive::index::{Line, Part};
use glassline_delivery::archive::names::{Session, SessionObject, StoredObject};
use glassline_delivery::archive::retention::{Removal, removals};
use glassline_delivery::policy::StreamName;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::mpsc::channel;

impl Worker {
    /// Deletes what is not kept, where all that the store has was read, and it is known what goes on here.
    pub(super) fn remove_what_is_not_kept(&mut self) {
        let Some((settings, store)) = self.place.clone() else { return };
        if !self.looked || self.running.is_none() || !settings.keep.has_any() {
            return;
        }
        let (rules, now) = match self.rules_now(&store, &settings.keep) {
            Ok(judged) => judged,
            Err(error) => {
                self.count(&error);
                (settings.keep.without_age(), self.store_utc())
            }
        };
        let removals = removals(&self.kept(now), &rules, now);
        for some in removals.chunks(AT_ONCE) {
            self.remove_some(&store, some);
        }
    }

    /// Whether a recording is locked, in the store or by a request that the store has not got yet.
    pub(super) fn is_spared(&self, store: &Store, key: &(StreamName, Session)) -> Result<bool, StoreError> {
        let wanted = locked(&self.wanted).get(key).copied();
        match wanted {
            Some(is_wanted) => Ok(is_wanted),
            None => is_locked(store, &format!("{}/{}", key.0, key.1)),
        }
    }

    fn remove_some(&mut self, store: &Store, removals: &[Removal]) {
        // Another server, or a request a moment ago, may have locked it.
        let of: BTreeSet<(StreamName, Session)> = removals.iter().map(Removal::recording).collect();
        let mut spared = BTreeSet::new();
        for key in of {
            match self.is_spared(store, &key) {
                Ok(false) => continue,
                Ok(true) => {
                    if let Some(entry) = locked(&self.known).get_mut(&key) {
                        entry.is_locked = true;
                    }
                }
                Err(error) => self.count(&error),
            }
            spared.insert(key);
        }
        let removals = removals.iter().filter(|removal| !spared.contains(&removal.recording()));
        let removals: Vec<&Removal> = removals.collect();
        self.remove_parts(store, &removals, &mut spared);
        for removal in removals {
            let Removal::Recording(name, session) = removal else { continue };
            if spared.contains(&removal.recording()) {
                continue;
            }
            tracing::info!(stream = %name, %session, "a recording was deleted: it is not kept any longer");
            if let Err(error) = self.remove_recording(name, *session) {
                self.count(&error);
            }
        }
    }

    /// Deletes the segments that parts of an index tell of, and then the parts: after a crash between them it is done again. A
    /// recording with which something fails is added to `spared`.
    fn remove_parts(
        &mut self,
        store: &Store,
        removals: &[&Removal],
        spared: &mut BTreeSet<(StreamName, Session)>,
    ) {
        let part = |removal: &&Removal| match removal {
            Removal::Part(name, session, part) => Some((name.clone(), *session, *part)),
            Removal::Recording(..) => None,
        };
        let parts: Vec<_> = removals.iter().filter_map(part).collect();
        let path = |(name, session, part): &(StreamName, Session, u32)| {
            let object = SessionObject::Index { part: *part };
            StoredObject { name: name.clone(), session: *session, object }.to_string()
        };
        let texts = at_once(&parts, |part, done| store.get(&path(part), None, done));
        let mut segments: Vec<(usize, String)> = Vec::new();
        let mut failed: BTreeMap<usize, StoreError> = BTreeMap::new();
        for (index, ((name, session, _), text)) in parts.iter().zip(texts).enumerate() {
            let text = match text {
                Ok(text) => text,
                Err(error) if error.kind() == StoreErrorKind::NotFound => continue,
                Err(error) => {
                    failed.insert(index, error);
                    continue;
                }
            };
            for line in Part::read(&text).map(|part| part.lines).unwrap_or_default() {
                let object = match line {
                    Line::Segment(rendition, segment) if !segment.is_gap() => {
                        Some(SessionObject::Segment { rendition, segment: segment.number })
                    }
                    Line::MpegTs(segment) => Some(SessionObject::MpegTs { segment: segment.number }),
                    _ => None,
                };
                if let Some(object) = object {
                    let object = StoredObject { name: name.clone(), session: *session, object };
                    segments.push((index, object.to_string()));
                }
            }
        }
        for some in segments.chunks(AT_ONCE) {
            let deleted = at_once(some, |(_, path), done| store.delete(path, done));
            let errors = some.iter().zip(deleted).filter_map(|((index, _), it)| Some((*index, it.err()?)));
            failed.extend(errors);
        }
        let whole: Vec<_> =
            parts.iter().enumerate().filter(|(index, _)| !failed.contains_key(index)).collect();
        let deleted = at_once(&whole, |(_, part), done| store.delete(&path(part), done));
        for ((index, (name, session, part)), deleted) in whole.into_iter().zip(deleted) {
            if let Err(error) = deleted {
                failed.insert(index, error);
            } else if let Some(entry) = locked(&self.known).get_mut(&(name.clone(), *session)) {
                entry.remove(*part);
            }
        }
        for (index, error) in failed {
            self.count(&error);
            spared.extend(parts.get(index).map(|(name, session, _)| (name.clone(), *session)));
        }
    }

    pub(super) fn remove_recording(&self, name: &StreamName, session: Session) -> Result<(), StoreError> {
        let Some(store) = self.store() else { return Ok(()) };
        let folder = format!("{name}/{session}");
        if self.is_spared(&store, &(name.clone(), session))? {
            let words = format!("the recording {folder} is locked, and is not deleted");
            return Err(StoreError::new(StoreErrorKind::Denied, words));
        }
        // The index first, so that what is half gone is not shown; but its last part last: by that a recording is found again which a
        // crash has left half deleted.
        let index = store.list_blocking(&format!("{folder}/index"), PARTS_MAX)?;
        let last = index.last().map(|listed| listed.path.clone());
        let is_last = |listed: &Listed| Some(&listed.path) == last.as_ref();
        delete_all(&store, &index.into_iter().filter(|listed| !is_last(listed)).collect::<Vec<_>>())?;
        let mut before = None;
        loop {
            let listed = store.list_blocking(&folder, DELETE_MAX)?;
            let listed: Vec<_> = listed.into_iter().filter(|listed| !is_last(listed)).collect();
            let Some(first) = listed.first().map(|listed| listed.path.clone()) else { break };
            if before.as_ref() == Some(&first) {
                let words = format!("the store goes on listing {first}, which was deleted");
                return Err(StoreError::new(StoreErrorKind::Other, words));
            }
            delete_all(&store, &listed)?;
            before = Some(first);
        }
        if let Some(last) = last {
            store.delete_blocking(&last)?;
            // A picture of the recording may have been written since: what writes it looks whether the index is still there.
            delete_all(&store, &store.list_blocking(&folder, DELETE_MAX)?)?;
        }
        store.sweep_blocking(&folder)?;
        locked(&self.known).remove(&(name.clone(), session));
        Ok(())
    }
}

fn delete_all(store: &Store, objects: &[Listed]) -> Result<(), StoreError> {
    for some in objects.chunks(AT_ONCE) {
        let deleted = at_once(some, |listed, done| store.delete(&listed.path, done));
        deleted.into_iter().collect::<Result<(), _>>()?;
    }
    Ok(())
}

/// Whether the recording in this folder of the store is locked.
fn is_locked(store: &Store, folder: &str) -> Result<bool, StoreError> {
    match store.get_blocking(&format!("{folder}/{LOCK}"), None) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == StoreErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Is called with what became of a request.
type Done<T> = Box<dyn FnOnce(Result<T, StoreError>) + Send>;

/// Makes a request for each of `items`, all at once, and waits for the answers.
pub(super) fn at_once<I, T: Send + 'static>(
    items: &[I],
    mut ask: impl FnMut(&I, Done<T>),
) -> Vec<Result<T, StoreError>> {
    let (sender, receiver) = channel();
    for (index, item) in items.iter().enumerate() {
        let sender = sender.clone();
        ask(item, Box::new(move |result| drop(sender.send((index, result)))));
    }
    drop(sender);
    let mut answers: BTreeMap<usize, _> = receiver.into_iter().collect();
    let answer = |index| answers.remove(&index).unwrap_or_else(|| Err(StoreError::thread_ended()));
    (0..items.len()).map(answer).collect()
}
