//! The thread that writes and reads files. It does a little of one after a little of the other: a block of an object that is
//! waited for, and, where none is or now and then all the same, one of an object to be written, or a look at files of an
//! earlier run.

use super::super::Cache;
use super::super::fetch_mailbox::FetchMailbox;
use super::directory::Directory;
use super::purging::Purging;
use super::reading::Reads;
use super::scanning::Scan;
use super::writing::Writing;
use super::{Disk, Task, Tasks, count, lock};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// While objects are read, something else is done after so many blocks.
const BLOCKS_BETWEEN: usize = 8;
/// How long readings rest that are all ahead of their readers, where nothing tells of a change.
const REST_OF_READS: Duration = Duration::from_millis(100);
/// How long the thread rests after a panic.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(100);

/// What the thread has.
pub(super) struct DiskThread {
    directory: Directory,
    scan: Option<Scan>,
    purging: Option<Purging>,
    reads: Reads,
    writing: Option<Writing>,
    /// Blocks that were read since anything else was done.
    blocks: usize,
}

impl DiskThread {
    pub(super) fn new(
        disk: Arc<Disk>,
        cache: Arc<Cache>,
        fetch: Arc<FetchMailbox>,
        clock: Clock,
    ) -> DiskThread {
        DiskThread {
            directory: Directory::new(disk, clock),
            scan: None,
            purging: None,
            reads: Reads::new(cache, fetch),
            writing: None,
            blocks: 0,
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
        if !self.directory.is_open() {
            self.open();
        }
        while let Some(write) = self.next_tasks() {
            self.directory.begin_step();
            if let Some(task) = write {
                self.begin_write(task);
            }
            if !self.reads.is_empty() {
                self.blocks += 1;
                self.reads.read_next(&mut self.directory);
                if self.blocks < BLOCKS_BETWEEN && !self.reads.is_empty() {
                    continue;
                }
            }
            self.blocks = 0;
            if let Some(writing) = self.writing.take() {
                self.directory.begin_step();
                self.writing = writing.go_on(&mut self.directory);
            }
            self.directory.begin_step();
            if let Some(scan) = self.scan.take() {
                self.scan = scan.go_on(&mut self.directory);
            } else if let Some(purging) = self.purging.take().or_else(|| self.next_purges()) {
                self.purging = purging.go_on(&mut self.directory);
            }
        }
    }

    fn end(mut self) {
        if let Some(writing) = self.writing.take() {
            writing.abandon();
        }
        self.reads.fail_all(&self.directory);
    }

    /// Looks for files of an earlier run.
    fn open(&mut self) {
        if let Some(listing) = self.directory.open() {
            self.scan = Some(Scan::new(listing));
        }
    }

    /// Begins to read what is asked for, and returns what to write or remove next, if anything. Waits where there is nothing
    /// to do at all; `None` where the thread has to end.
    fn next_tasks(&mut self) -> Option<Option<Task>> {
        let disk = Arc::clone(&self.directory.disk);
        let mut tasks = lock(&disk.tasks);
        loop {
            if tasks.ends {
                return None;
            }
            let count = tasks.reads.len().min(self.reads.room());
            let reads: Vec<Task> = tasks.reads.drain(..count).collect();
            let may_write = self.writing.is_none() && !self.waits_for_purge(&tasks);
            let write = if may_write { tasks.writes.pop_front() } else { None };
            if let Some(Task::Write { object, .. }) = &write {
                tasks.unwritten_bytes -= object.filled();
            }
            let has_files_to_look_at = self.scan.is_some() || self.has_purges();
            let is_busy = self.reads.is_busy() || self.writing.is_some() || has_files_to_look_at;
            if is_busy || write.is_some() || !reads.is_empty() {
                drop(tasks);
                for task in reads {
                    if let Task::Read { name, found, claim } = task {
                        self.reads.begin(name, found, claim, &mut self.directory);
                    }
                }
                return Some(write);
            }
            disk.end_step();
            if self.reads.take_resting() {
                let waited = disk.news.wait_timeout(tasks, REST_OF_READS);
                tasks = waited.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                tasks = disk.news.wait(tasks).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    /// Whether there are files to be looked at for a purge. Where the directory could not be opened yet, purges wait for it.
    fn has_purges(&self) -> bool {
        self.directory.is_open() && !lock(&self.directory.disk.purges).is_empty()
    }

    /// Whether the next object to be written came after a purge of its key that has not begun: it is written once the purge has
    /// its list of files, which it would otherwise stand in.
    fn waits_for_purge(&self, tasks: &Tasks) -> bool {
        let Some(Task::Write { key, .. }) = tasks.writes.front() else { return false };
        let purges = lock(&self.directory.disk.purges);
        self.directory.is_open()
            && purges.iter().any(|it| !it.is_begun && self.directory.disk.is_meant(&it.purge, key))
    }

    /// Begins with the purges that wait.
    fn next_purges(&mut self) -> Option<Purging> {
        if !self.has_purges() {
            return None;
        }
        Some(Purging::begin(&mut self.writing, &mut self.directory))
    }

    fn begin_write(&mut self, task: Task) {
        let (name, key, object, freshness, came) = match task {
            Task::Write { name, key, object, freshness, came } => (name, key, object, freshness, came),
            Task::Remove(name) => return self.directory.remove(name),
            Task::Read { .. } => return,
        };
        if self.directory.rests() {
            return count(&self.directory.disk.counters.skipped);
        }
        if !self.directory.is_open() {
            self.open();
            if !self.directory.is_open() {
                return count(&self.directory.disk.counters.skipped);
            }
        }
        match Writing::begin(&mut self.directory, name, key, object, freshness, came) {
            Ok(writing) => self.writing = writing,
            Err(error) => self.directory.complain(&error),
        }
    }
}
