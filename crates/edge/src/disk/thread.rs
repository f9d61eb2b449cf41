//! The thread that writes and reads files. It does a little of one after a little of the other: a block of an object that is
//! waited for, and, where none is or now and then all the same, one of an object to be written, or a look at files of an
//! earlier run.

use super::super::cache::Begun;
use super::super::fetch_mailbox::FetchMailbox;
use super::super::readers::Reading as Reader;
use super::super::{Cache, Growing};
use super::claims::Claim;
use super::{Disk, Task, Tasks, count, files, lock};
use glassline_delivery::fill::disk::{
    BLOCK_BYTES, FILES_MAX, FileError, FileHead, Found, HEAD_BYTES_MAX, Kept, Name, OpenSeal, Seal,
};
use glassline_delivery::fill::{Failure, Freshness, Object, Pace, Purge, Validator};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_io::regular_file;
use glassline_media::{Time, Utc};
use std::collections::VecDeque;
use std::fs::{self, File, ReadDir};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, FileExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError};
use std::time::{Duration, SystemTime};

/// Objects that are read at once, block by block in turn.
const READING_MAX: usize = 32;
/// While objects are read, something else is done after so many blocks.
const BLOCKS_BETWEEN: usize = 8;
/// How long nothing is written after the system has refused it.
const REST: Duration = Duration::from_secs(30);
/// Files of an earlier run that are looked at in one go.
const LISTED_A_TURN: usize = 256;
const LOOKED_AT_A_TURN: usize = 16;
/// How long readings rest that are all ahead of their readers, where nothing tells of a change.
const REST_OF_READS: Duration = Duration::from_millis(100);
/// Enough of a file for nearly every head.
const HEAD_BYTES: usize = 4096;
/// A file that is being written and was not for so long was left behind by a process that has ended.
const LEFT_BEHIND: Duration = Duration::from_secs(60);

/// How long the thread rests after a panic.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(100);

const WHOLE: &str = "obj";
const UNFINISHED: &str = "tmp";

/// What the thread has.
pub(super) struct DiskThread {
    disk: Arc<Disk>,
    cache: Arc<Cache>,
    fetch: Arc<FetchMailbox>,
    clock: Clock,
    is_open: bool,
    scan: Option<Scan>,
    purging: Option<Purging>,
    reading: VecDeque<Reading>,
    writing: Option<Writing>,
    /// Of those that are read, so many in a row were ahead of their readers.
    resting: usize,
    /// Blocks that were read since anything else was done.
    blocks: usize,
    /// Nothing is written until then.
    rests_until: Time,
    /// The system has refused something, and nothing was written since.
    fails: bool,
}

/// Files of an earlier run.
enum Scan {
    Listing(ReadDir, Vec<(SystemTime, Name)>),
    /// With the order of their last use.
    LookingAt(std::iter::Enumerate<std::vec::IntoIter<(SystemTime, Name)>>),
}

/// Purges, and the files that were not looked at for them yet.
struct Purging {
    purges: Vec<Purge>,
    left: std::vec::IntoIter<Name>,
    removed: usize,
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

/// An object on its way into its file.
struct Writing {
    name: Name,
    key: String,
    file: File,
    path: PathBuf,
    seal: Seal,
    object: Object,
    at: u64,
    kept: Kept,
}

/// Why a file is of no use.
enum Unread {
    /// It is not there: a server that runs beside, for an upgrade, has removed it.
    Gone,
    System(io::Error),
    Damaged(FileError),
}

impl From<io::Error> for Unread {
    fn from(error: io::Error) -> Unread {
        match error.kind() {
            ErrorKind::NotFound => Unread::Gone,
            ErrorKind::UnexpectedEof => Unread::Damaged(FileError::Short { found: 0, wanted: 0 }),
            _ => Unread::System(error),
        }
    }
}

impl From<FileError> for Unread {
    fn from(error: FileError) -> Unread {
        Unread::Damaged(error)
    }
}

impl DiskThread {
    pub(super) fn new(
        disk: Arc<Disk>,
        cache: Arc<Cache>,
        fetch: Arc<FetchMailbox>,
        clock: Clock,
    ) -> DiskThread {
        DiskThread {
            disk,
            cache,
            fetch,
            clock,
            is_open: false,
            scan: None,
            purging: None,
            reading: VecDeque::new(),
            resting: 0,
            writing: None,
            blocks: 0,
            rests_until: Time::ZERO,
            fails: false,
        }
    }

    /// Works until it is told to end.
    pub(super) fn run(mut self) {
        // A panic ends the read or write at work. The claim of a read stays; once it is overdue, the object is fetched.
        while contain(Border::Worker, || self.work_until_told()).is_err() {
            std::thread::sleep(PAUSE_AFTER_PANIC);
        }
        self.end();
    }

    fn work_until_told(&mut self) {
        if !self.is_open {
            self.open();
        }
        while let Some(write) = self.next_tasks() {
            self.disk.begin_step(self.clock.now());
            if let Some(task) = write {
                self.begin_write(task);
            }
            if let Some(reading) = self.reading.pop_front() {
                self.blocks += 1;
                self.disk.begin_step(self.clock.now());
                self.read_on(reading);
                if self.blocks < BLOCKS_BETWEEN && !self.reading.is_empty() {
                    continue;
                }
            }
            self.blocks = 0;
            if let Some(writing) = self.writing.take() {
                self.disk.begin_step(self.clock.now());
                self.write_on(writing);
            }
            self.disk.begin_step(self.clock.now());
            if let Some(scan) = self.scan.take() {
                self.scan_on(scan);
            } else if let Some(purging) = self.purging.take().or_else(|| self.next_purges()) {
                self.purge_on(purging);
            }
        }
    }

    fn end(mut self) {
        if let Some(writing) = self.writing.take() {
            // The file is incomplete, and not in the index.
            drop(fs::remove_file(&writing.path));
        }
        let unread: Vec<Claim> = lock(&self.disk.claims).take_all().collect();
        for Claim { job, .. } in unread {
            self.cache.forget(&job.key, &job.growing);
            job.growing.change(|object| object.fail(Failure::Upstream));
        }
    }

    /// Begins to read what is asked for, and returns what to write or remove next, if anything. Waits where there is nothing
    /// to do at all; `None` where the thread has to end.
    fn next_tasks(&mut self) -> Option<Option<Task>> {
        let disk = Arc::clone(&self.disk);
        let mut tasks = lock(&disk.tasks);
        loop {
            if tasks.ends {
                return None;
            }
            let room = READING_MAX - self.reading.len().min(READING_MAX);
            let count = tasks.reads.len().min(room);
            let reads: Vec<Task> = tasks.reads.drain(..count).collect();
            let may_write = self.writing.is_none() && !self.waits_for_purge(&tasks);
            let write = if may_write { tasks.writes.pop_front() } else { None };
            if let Some(Task::Write { object, .. }) = &write {
                tasks.unwritten_bytes -= object.filled();
            }
            let has_files_to_look_at = self.scan.is_some() || self.has_purges();
            let is_busy = self.reading.len() > self.resting || self.writing.is_some() || has_files_to_look_at;
            if is_busy || write.is_some() || !reads.is_empty() {
                drop(tasks);
                for task in reads {
                    if let Task::Read { name, found, claim } = task {
                        self.begin_read(name, found, claim);
                    }
                }
                return Some(write);
            }
            disk.end_step();
            let is_resting = std::mem::take(&mut self.resting) > 0;
            if is_resting {
                let waited = disk.news.wait_timeout(tasks, REST_OF_READS);
                tasks = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                tasks = disk.news.wait(tasks).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Whether there are files to be looked at for a purge. Where the directory could not be opened yet, purges wait for it.
    fn has_purges(&self) -> bool {
        self.is_open && !lock(&self.disk.purges).is_empty()
    }

    /// Whether the next object to be written came after a purge of its key that has not begun: it is written once the purge has
    /// its list of files, which it would otherwise stand in.
    fn waits_for_purge(&self, tasks: &Tasks) -> bool {
        let Some(Task::Write { key, .. }) = tasks.writes.front() else { return false };
        let purges = lock(&self.disk.purges);
        self.is_open && purges.iter().any(|it| !it.is_begun && self.disk.is_meant(&it.purge, key))
    }

    /// All purges that wait, and all files that there are. Those of an earlier run are known by now.
    fn next_purges(&mut self) -> Option<Purging> {
        if !self.has_purges() {
            return None;
        }
        let mut standing = lock(&self.disk.purges);
        standing.iter_mut().for_each(|standing| standing.is_begun = true);
        let purges = standing.iter().map(|standing| standing.purge.clone()).collect();
        drop(standing);
        // What began to be written before them is not of use either.
        if let Some(writing) = self.writing.take_if(|writing| self.disk.is_purged(&writing.key)) {
            drop(fs::remove_file(&writing.path));
            self.remove(writing.name);
        }
        let left = lock(&self.disk.index).names().into_iter();
        Some(Purging { purges, left, removed: 0 })
    }

    fn purge_on(&mut self, mut purging: Purging) {
        for name in purging.left.by_ref().take(LOOKED_AT_A_TURN) {
            let opened = files::open(&self.path(name)).map_err(Unread::from);
            let is_meant = |key: &str| purging.purges.iter().any(|purge| self.disk.is_meant(purge, key));
            match opened.and_then(|file| read_head(&file)) {
                Ok((head, ..)) if !is_meant(&head.key) => continue,
                Ok(_) => self.remove(name),
                // It may be one of those.
                Err(why) => self.discard(name, &why),
            }
            purging.removed += 1;
        }
        if purging.left.len() > 0 {
            self.purging = Some(purging);
            return;
        }
        lock(&self.disk.purges).retain(|standing| !standing.is_begun);
        tracing::info!(removed = purging.removed, "files of the cache were purged");
    }

    fn directory(&self) -> &Path {
        &self.disk.settings.directory
    }

    fn path(&self, name: Name) -> PathBuf {
        self.directory().join(format!("{name}.{WHOLE}"))
    }

    /// Looks for files of an earlier run.
    fn open(&mut self) {
        let directory = self.directory();
        let listing = fs::DirBuilder::new().recursive(true).mode(0o700).create(directory);
        match listing.and_then(|()| fs::read_dir(directory)) {
            Ok(listing) => {
                self.scan = Some(Scan::Listing(listing, Vec::new()));
                self.is_open = true;
            }
            Err(error) => self.complain(&error),
        }
    }

    /// The system has refused something: that is told once, until something works again.
    fn complain(&mut self, error: &io::Error) {
        count(&self.disk.counters.errors);
        let directory = self.directory().display();
        if self.fails {
            tracing::debug!(%directory, %error, "the cache's directory fails again");
        } else {
            tracing::warn!(
                %directory, %error,
                "the cache's directory fails: what comes is kept in memory alone until it works again"
            );
        }
        self.fails = true;
        self.rests_until = self.clock.now() + REST;
    }

    /// The file of this name is of no use any more.
    fn remove(&mut self, name: Name) {
        lock(&self.disk.index).remove(name);
        match fs::remove_file(self.path(name)) {
            Err(error) if error.kind() != ErrorKind::NotFound => self.complain(&error),
            _ => {}
        }
    }

    /// A file cannot be used.
    fn discard(&mut self, name: Name, why: &Unread) {
        match why {
            Unread::Gone => {}
            Unread::System(error) => self.complain(error),
            Unread::Damaged(error) => {
                count(&self.disk.counters.damaged);
                let file = self.path(name);
                tracing::warn!(file = %file.display(), %error, "a file of the cache is damaged, and is dropped");
            }
        }
        self.remove(name);
    }

    fn begin_read(&mut self, name: Name, found: Found, claim: u64) {
        // It may have been taken back by now.
        let Some(key) = lock(&self.disk.claims).find(claim).map(|claim| self.disk.key(&claim.job)) else {
            return;
        };
        self.disk.begin_step(self.clock.now());
        let opened = files::open(&self.path(name)).map_err(Unread::from).and_then(|file| {
            let (head, seal, at) = read_head(&file)?;
            Ok((file, head, seal, at))
        });
        let (file, head, seal, at) = match opened {
            Ok((_, head, ..)) if head.key != key => {
                // Two keys of one name: the later one takes the file.
                return self.fetch_claimed(claim);
            }
            Ok(opened) => opened,
            Err(why) => {
                self.discard(name, &why);
                return self.fetch_claimed(claim);
            }
        };
        let left = head.left(self.clock.utc());
        let found = if left.fresh.is_zero() { Found::Old } else { found };
        let Some(growing) = lock(&self.disk.claims).find(claim).map(|claim| Arc::clone(&claim.job.growing))
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
    fn fetch_claimed(&self, claim: u64) {
        let claim = lock(&self.disk.claims).take(claim);
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
    fn admit_read(&mut self, reading: Reading) -> Option<Reading> {
        let disk = Arc::clone(&self.disk);
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
                    (false, if claim.is_resting { self.clock.now() } else { claim.since });
                return Some(reading);
            }
            // What is only asked about gives way.
            Pace::WaitForRoom if reading.found == Found::Old => {
                drop(claims);
                self.fetch_claimed(reading.claim);
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

    /// Reads a block, and hands it on.
    fn read_on(&mut self, reading: Reading) {
        let Some(mut reading) = self.admit_read(reading) else { return };
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
            Err(why) => return self.give_back(reading, &why),
        };
        let disk = Arc::clone(&self.disk);
        let mut claims = lock(&disk.claims);
        // It was too late: another one fills the object.
        let Some(claim) = claims.find(reading.claim) else { return };
        claim.since = self.clock.now();
        reading.at += length as u64;
        let is_first = reading.filled == 0;
        reading.filled += block.len() as u64;
        let is_whole = reading.seal.sealed_bytes() == 0;
        if is_whole && reading.found == Found::Fresh {
            // Before its readers see its end: a request that follows then finds it.
            let (key, bytes, now) = (&claim.job.key, reading.filled, self.clock.now());
            self.cache.keep(key, &reading.into, bytes, reading.left, now);
        }
        let head = is_first.then(|| reading.head.head.for_clients());
        let on_disk = self.clock.utc().as_nanos().saturating_sub(reading.head.came.as_nanos());
        let came = Time::from_nanos(self.clock.now().as_nanos().saturating_sub(on_disk));
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
            self.end_read(reading, claim);
        } else {
            self.reading.push_back(reading);
        }
    }

    fn end_read(&mut self, reading: Reading, claim: Option<Claim>) {
        let Reading { name, found, file, left, into, .. } = reading;
        count(&self.disk.counters.read);
        lock(&self.disk.index).touch(name);
        // The order of use outlives the process by this; where it does not, another file goes first.
        drop(file.set_modified(SystemTime::now()));
        if found == Found::Old
            && let Some(Claim { mut job, .. }) = claim
        {
            job.old_until = left.until(self.clock.now())[2];
            job.old = Some(into);
            self.fetch.send(job);
        }
    }

    /// What the file does not give is fetched: the rest of it where a part was handed on already.
    fn give_back(&mut self, reading: Reading, why: &Unread) {
        self.discard(reading.name, why);
        self.fetch_claimed(reading.claim);
    }

    fn begin_write(&mut self, task: Task) {
        let (name, key, object, freshness, came) = match task {
            Task::Write { name, key, object, freshness, came } => (name, key, object, freshness, came),
            Task::Remove(name) => return self.remove(name),
            Task::Read { .. } => return,
        };
        if self.clock.now() < self.rests_until {
            return count(&self.disk.counters.skipped);
        }
        if !self.is_open {
            self.open();
            if !self.is_open {
                return count(&self.disk.counters.skipped);
            }
        }
        match self.try_begin_write(name, key, object, freshness, came) {
            Ok(writing) => self.writing = writing,
            Err(error) => self.complain(&error),
        }
    }

    fn try_begin_write(
        &mut self,
        name: Name,
        key: String,
        object: Object,
        freshness: Freshness,
        came: Utc,
    ) -> io::Result<Option<Writing>> {
        let Some(head) = object.progress().head else { return Ok(None) };
        let can_be_asked_about = Validator::of(&head).is_some();
        let head =
            FileHead { key: key.clone(), came, freshness, head: (*head).clone(), bytes: object.filled() };
        let file_bytes = head.file_bytes();
        let room = lock(&self.disk.index).make_room(file_bytes);
        let (Some(evicted), Some((bytes, seal))) = (room, head.write()) else {
            count(&self.disk.counters.skipped);
            self.remove(name);
            return Ok(None);
        };
        for evicted in evicted {
            count(&self.disk.counters.evicted);
            self.remove(evicted);
        }
        let path = self.directory().join(format!("{name}.{}.{UNFINISHED}", std::process::id()));
        let mut file = regular_file::create(&path)?;
        if let Err(error) = file.write_all(&bytes) {
            drop(fs::remove_file(&path));
            return Err(error);
        }
        let kept = Kept { file_bytes, came, freshness, can_be_asked_about };
        Ok(Some(Writing { name, key, file, path, seal, object, at: 0, kept }))
    }

    /// Writes a block; behind the last one, the file gets its name.
    fn write_on(&mut self, mut writing: Writing) {
        match self.try_write_on(&mut writing) {
            Ok(false) => self.writing = Some(writing),
            Ok(true) => {
                let Writing { name, kept, object, .. } = writing;
                lock(&self.disk.index).insert(name, kept);
                count(&self.disk.counters.written);
                let bytes = &self.disk.counters.written_bytes;
                bytes.fetch_add(object.filled(), std::sync::atomic::Ordering::Relaxed);
                if std::mem::take(&mut self.fails) {
                    tracing::info!(directory = %self.directory().display(), "the cache's directory works again");
                }
            }
            Err(error) => {
                drop(fs::remove_file(&writing.path));
                // A file of an earlier object may be there.
                self.remove(writing.name);
                self.complain(&error);
            }
        }
    }

    fn try_write_on(&self, writing: &mut Writing) -> io::Result<bool> {
        let mut pieces = Vec::new();
        let count = writing.object.read(writing.at, writing.at + BLOCK_BYTES as u64, &mut pieces);
        if count > 0 {
            let block = pieces.concat();
            let digest = writing.seal.next(&block);
            writing.file.write_all(&[&digest[..], &block].concat())?;
            writing.at += count;
        }
        if writing.at < writing.object.filled() {
            return Ok(false);
        }
        fs::rename(&writing.path, self.path(writing.name))?;
        Ok(true)
    }

    fn scan_on(&mut self, scan: Scan) {
        match scan {
            Scan::Listing(listing, found) => self.list_on(listing, found),
            Scan::LookingAt(mut files) => {
                for (order, (_, name)) in files.by_ref().take(LOOKED_AT_A_TURN) {
                    self.look_at(name, order as u64);
                }
                if files.len() > 0 {
                    self.scan = Some(Scan::LookingAt(files));
                } else {
                    self.end_scan();
                }
            }
        }
    }

    fn list_on(&mut self, mut listing: ReadDir, mut found: Vec<(SystemTime, Name)>) {
        for _ in 0..LISTED_A_TURN {
            let Some(entry) = listing.next() else {
                found.sort_unstable();
                // Of too many those go that were used longest ago.
                let surplus = found.len().saturating_sub(FILES_MAX);
                for (_, name) in found.drain(..surplus) {
                    self.remove(name);
                }
                self.scan = Some(Scan::LookingAt(found.into_iter().enumerate()));
                return;
            };
            let Ok(entry) = entry else { continue };
            let (path, modified) = (entry.path(), entry.metadata().and_then(|it| it.modified()));
            let (Some(stem), Ok(modified)) = (path.file_stem().and_then(|stem| stem.to_str()), modified)
            else {
                continue;
            };
            let extension = path.extension().and_then(|extension| extension.to_str());
            let name = stem.split('.').next().and_then(|stem| stem.parse::<Name>().ok());
            match (extension, name) {
                (Some(WHOLE), Some(name)) => found.push((modified, name)),
                (Some(UNFINISHED), Some(_)) => {
                    // A clock that was set back makes it young: then it goes at another start.
                    let is_old = modified.elapsed().is_ok_and(|age| age > LEFT_BEHIND);
                    if is_old && let Err(error) = fs::remove_file(&path) {
                        self.complain(&error);
                    }
                }
                // Whatever it is, it is not ours.
                _ => {}
            }
        }
        self.scan = Some(Scan::Listing(listing, found));
    }

    /// Takes a file of an earlier run into the index, where it is of use.
    fn look_at(&mut self, name: Name, order: u64) {
        if lock(&self.disk.index).has(name) {
            return;
        }
        let opened = files::open(&self.path(name)).map_err(Unread::from);
        match opened.and_then(|file| read_head(&file)) {
            Ok((head, ..)) if Name::of(&head.key) == name => {
                let can_be_asked_about = Validator::of(&head.head).is_some();
                let kept = Kept {
                    file_bytes: head.file_bytes(),
                    came: head.came,
                    freshness: head.freshness,
                    can_be_asked_about,
                };
                let is_of_use = {
                    let mut index = lock(&self.disk.index);
                    index.insert_former(name, order, kept);
                    index.find(name, self.clock.utc()).is_some()
                };
                if !is_of_use {
                    self.remove(name);
                }
            }
            Ok(_) => self.discard(name, &Unread::Damaged(FileError::Text)),
            Err(why) => self.discard(name, &why),
        }
    }

    fn end_scan(&mut self) {
        // What there may be has perhaps become less.
        let evicted = lock(&self.disk.index).make_room(0).unwrap_or_default();
        for name in evicted {
            count(&self.disk.counters.evicted);
            self.remove(name);
        }
        let (objects, bytes) = {
            let index = lock(&self.disk.index);
            (index.files(), index.bytes())
        };
        if objects > 0 {
            let directory = self.directory().display();
            tracing::info!(%directory, objects, bytes, "the cache's files of an earlier run are used again");
        }
    }
}

/// The head of a file, what opens its blocks, and where the first of them is.
fn read_head(file: &File) -> Result<(FileHead, OpenSeal, usize), Unread> {
    let file_bytes = file.metadata()?.len();
    let mut bytes = Vec::new();
    for most in [HEAD_BYTES, HEAD_BYTES_MAX] {
        let wanted = most.min(usize::try_from(file_bytes).unwrap_or(most));
        bytes.resize(wanted, 0);
        file.read_exact_at(&mut bytes, 0)?;
        match FileHead::parse(&bytes, file_bytes) {
            Err(FileError::Short { wanted, .. }) if most < HEAD_BYTES_MAX && wanted <= file_bytes => {}
            parsed => return Ok(parsed?),
        }
    }
    Err(Unread::Damaged(FileError::Lengths))
}
