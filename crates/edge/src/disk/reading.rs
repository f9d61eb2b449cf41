//! Objects on their way from their files, block by block in turn: each fills an object that readers wait for, or an old one
//! that a server is asked about. What a file does not give is fetched.

use super::super::cache::Begun;
use super::super::fetch_mailbox::FetchMailbox;
use super::super::reading::Reading as Reader;
use super::super::{Cache, Growing};
use super::claims::Claim;
use super::directory::{Directory, Unread};
use super::{count, lock};
use glassline_delivery::fill::disk::{FileHead, Found, Name, OpenSeal};
use glassline_delivery::fill::{Failure, Freshness, Pace};
use glassline_media::Time;
use std::collections::VecDeque;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::SystemTime;

/// Objects that are read at once, block by block in turn.
const READING_MAX: usize = 32;

/// The objects that are read.
pub(super) struct Reads {
    cache: Arc<Cache>,
    fetch: Arc<FetchMailbox>,
    reading: VecDeque<Reading>,
    /// Of those, so many in a row were ahead of their readers.
    resting: usize,
}

/// An object on its way from its file.
struct Reading {
    name: Name,
    /// The number of its job among the disk's claims: that is the thread's for as long as it is there.
    claim: u64,
    found: Found,
    file: File,
    head: FileHead,
    seal: OpenSeal,
    /// Where the next block is.
    at: u64,
    left: Freshness,
    /// What is filled: the object that is waited for, or the old one that is asked about.
    into: Arc<Growing>,
    /// What is asked about is wanted as a whole.
    _whole: Option<Reader>,
    filled: u64,
}

impl Reads {
    /// None yet. What cannot be read is fetched by `fetch`.
    pub(super) fn new(cache: Arc<Cache>, fetch: Arc<FetchMailbox>) -> Reads {
        Reads { cache, fetch, reading: VecDeque::new(), resting: 0 }
    }

    /// How many more may begin.
    pub(super) fn room(&self) -> usize {
        READING_MAX - self.reading.len().min(READING_MAX)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reading.is_empty()
    }

    /// Whether there is one that was not found to be ahead of its readers.
    pub(super) fn is_busy(&self) -> bool {
        self.reading.len() > self.resting
    }

    /// All are ahead of their readers, if there are any: they are asked again from now on. Returns whether there are any.
    pub(super) fn take_resting(&mut self) -> bool {
        std::mem::take(&mut self.resting) > 0
    }

    /// Nothing is read any more: objects that are waited for fail.
    pub(super) fn fail_all(&self, directory: &Directory) {
        let unread: Vec<Claim> = lock(&directory.disk.claims).take_all().collect();
        for Claim { job, .. } in unread {
            self.cache.forget(&job.key, &job.growing);
            job.growing.change(|object| object.fail(Failure::Upstream));
        }
    }

    /// Opens the file of an object that is asked for.
    pub(super) fn begin(&mut self, name: Name, found: Found, claim: u64, directory: &mut Directory) {
        // It may have been taken back by now.
        let Some(key) = lock(&directory.disk.claims).find(claim).map(|claim| directory.disk.key(&claim.job))
        else {
            return;
        };
        directory.begin_step();
        let (file, head, seal, at) = match directory.open_file(name) {
            Ok((_, head, ..)) if head.key != key => {
                // Two keys of one name: the later one takes the file.
                return self.fetch_claimed(claim, directory);
            }
            Ok(opened) => opened,
            Err(why) => {
                directory.discard(name, &why);
                return self.fetch_claimed(claim, directory);
            }
        };
        let left = head.left(directory.clock.utc());
        let found = if left.fresh.is_zero() { Found::Old } else { found };
        let Some(growing) =
            lock(&directory.disk.claims).find(claim).map(|claim| Arc::clone(&claim.job.growing))
        else {
            return;
        };
        let (into, _whole) = match found {
            Found::Fresh => (growing, None),
            Found::Old => {
                let old = self.cache.fresh();
                (Arc::clone(&old), Some(Reader::of_all(old)))
            }
        };
        let at = at as u64;
        self.reading.push_back(Reading {
            name,
            claim,
            found,
            file,
            head,
            seal,
            at,
            left,
            into,
            _whole,
            filled: 0,
        });
    }

    /// The disk does not give it: it is fetched, unless it was too late and a fetch has the claim already.
    fn fetch_claimed(&self, claim: u64, directory: &Directory) {
        let claim = lock(&directory.disk.claims).take(claim);
        match claim.map(Claim::into_fetch) {
            Some(Ok(job)) => self.fetch.send(job),
            Some(Err(job)) => {
                self.cache.forget(&job.key, &job.growing);
                job.growing.change(|object| object.fail(Failure::Malformed));
            }
            None => {}
        }
    }

    /// Returns `reading` where its next block may be read now. Otherwise the read rests, or ends where no reader waits for
    /// it.
    fn admit(&mut self, reading: Reading, directory: &Directory) -> Option<Reading> {
        let disk = Arc::clone(&directory.disk);
        let mut claims = lock(&disk.claims);
        let claim = claims.find(reading.claim)?;
        let pace = self.cache.pace(&reading.into, 0);
        if reading.found == Found::Fresh && self.cache.abandon(&claim.job.key, &reading.into) {
            claims.take(reading.claim);
            return None;
        }
        match pace {
            Pace::Fill(_) => {
                (claim.is_resting, claim.since) =
                    (false, if claim.is_resting { directory.clock.now() } else { claim.since });
                return Some(reading);
            }
            // What is only asked about gives way.
            Pace::WaitForRoom if reading.found == Found::Old => {
                drop(claims);
                self.fetch_claimed(reading.claim, directory);
            }
            pace => {
                if pace == Pace::WaitForRoom {
                    self.cache.slide(&claim.job.key, &reading.into);
                }
                claim.is_resting = true;
                self.resting += 1;
                self.reading.push_back(reading);
            }
        }
        None
    }

    /// Reads a block of the object that is next, and hands it on.
    pub(super) fn read_next(&mut self, directory: &mut Directory) {
        if let Some(reading) = self.reading.pop_front() {
            directory.begin_step();
            self.read_on(reading, directory);
        }
    }

    fn read_on(&mut self, reading: Reading, directory: &mut Directory) {
        let Some(mut reading) = self.admit(reading, directory) else { return };
        self.resting = 0;
        let length = reading.seal.sealed_bytes();
        let mut sealed = vec![0; length];
        let read = reading.file.read_exact_at(&mut sealed, reading.at).map_err(Unread::from);
        let block = read.and_then(|()| {
            // An object may have no bytes, and no block.
            let bytes = if length == 0 { 0 } else { reading.seal.next(&sealed)?.len() };
            Ok(reading.into.hold(sealed).slice(length - bytes..))
        });
        let block = match block {
            Ok(block) => block,
            Err(why) => return self.give_back(reading, &why, directory),
        };
        let disk = Arc::clone(&directory.disk);
        let mut claims = lock(&disk.claims);
        // It was too late: another one fills the object.
        let Some(claim) = claims.find(reading.claim) else { return };
        claim.since = directory.clock.now();
        reading.at += length as u64;
        let is_first = reading.filled == 0;
        reading.filled += block.len() as u64;
        let is_whole = reading.seal.sealed_bytes() == 0;
        if is_whole && reading.found == Found::Fresh {
            // Before its readers see its end: a request that follows then finds it.
            let (key, bytes, now) = (&claim.job.key, reading.filled, directory.clock.now());
            self.cache.keep(key, &reading.into, bytes, reading.left, now);
        }
        let head = is_first.then(|| reading.head.head.for_clients());
        let on_disk = directory.clock.utc().as_nanos().saturating_sub(reading.head.came.as_nanos());
        let came = Time::from_nanos(directory.clock.now().as_nanos().saturating_sub(on_disk));
        reading.into.change(|object| {
            if let Some(head) = head {
                object.begin(head, Some(reading.head.bytes));
                object.set_sent(came);
            }
            object.append(block);
            if is_whole {
                object.finish();
            }
        });
        if reading.found == Found::Fresh && reading.filled > 0 {
            let etag = reading.head.head.field("etag").unwrap_or_default().to_owned();
            let (filled, total, freshness) = (reading.filled, reading.head.bytes, reading.left);
            claim.begun = Some(Begun { etag, filled, total, freshness });
        }
        if is_whole {
            let claim = claims.take(reading.claim);
            drop(claims);
            self.end_read(reading, claim, directory);
        } else {
            self.reading.push_back(reading);
        }
    }

    fn end_read(&self, reading: Reading, claim: Option<Claim>, directory: &Directory) {
        let Reading { name, found, file, left, into, .. } = reading;
        count(&directory.disk.counters.read);
        lock(&directory.disk.index).touch(name);
        // The order of use outlives the process by this; where it does not, another file goes first.
        drop(file.set_modified(SystemTime::now()));
        if found == Found::Old
            && let Some(Claim { mut job, .. }) = claim
        {
            job.old_until = left.until(directory.clock.now())[2];
            job.old = Some(into);
            self.fetch.send(job);
        }
    }

    /// What the file does not give is fetched: the rest of it where a part was handed on already.
    fn give_back(&self, reading: Reading, why: &Unread, directory: &mut Directory) {
        directory.discard(reading.name, why);
        self.fetch_claimed(reading.claim, directory);
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
