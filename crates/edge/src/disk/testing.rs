//! A disk in a test's hands: its directory, and its steps one by one, without its thread.

use super::super::cache::{Cache, Job};
use super::super::fetch_mailbox::{FetchMailbox, FetchMessage};
use super::super::reading::Reading as Reader;
use super::super::testing::{cache, job};
use super::directory::Directory;
use super::writing::Writing;
use super::{Disk, DiskSettings};
use glassline_delivery::fill::disk::Name;
use glassline_delivery::fill::{Bytes, Freshness, Head, Object};
use glassline_delivery::http1::Url;
use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Waker};
use glassline_media::Utc;
use glassline_test_support::program::Scratch;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

/// What a disk's steps need.
pub(super) struct Bench {
    _scratch: Scratch,
    pub(super) directory: Directory,
    pub(super) disk: Arc<Disk>,
    pub(super) cache: Arc<Cache>,
    pub(super) mailbox: Arc<FetchMailbox>,
    _poller: Poller,
    pub(super) clock: Clock,
}

impl Bench {
    /// A disk of so many bytes, the directory of which is open. Objects come from one server.
    pub(super) fn new(bytes: u64) -> Bench {
        let scratch = Scratch::new("disk-bench");
        let settings =
            DiskSettings { directory: scratch.path().join("kept"), bytes, timeout: Duration::from_secs(600) };
        let servers: [Url; 1] = ["http://origin.example/base/".parse().unwrap()];
        let disk = Disk::new(settings, 64 << 20, std::iter::once(&servers[..]));
        let clock = Clock::new();
        let mut directory = Directory::new(Arc::clone(&disk), clock);
        assert!(directory.open().is_some());
        let poller = Poller::new().unwrap();
        let mailbox = FetchMailbox::new(Waker::new(&poller, 1).unwrap());
        let (cache, _) = cache(64 << 20);
        Bench { _scratch: scratch, directory, disk, cache, mailbox, _poller: poller, clock }
    }

    /// The same files, as another run of the server finds them.
    pub(super) fn restart(&mut self, bytes: u64) {
        let settings = DiskSettings { bytes, ..self.disk.settings.clone() };
        let servers: [Url; 1] = ["http://origin.example/base/".parse().unwrap()];
        self.disk = Disk::new(settings, 64 << 20, std::iter::once(&servers[..]));
        self.directory = Directory::new(Arc::clone(&self.disk), self.clock);
    }

    /// A request for this target, and its one reader.
    pub(super) fn job(&self, target: &str) -> (Job, Reader) {
        let (reading, ..) = self.cache.find(target, self.clock.now());
        let growing = Arc::clone(&reading);
        (job(&self.cache, target, &growing), reading)
    }

    /// What the object of this target is kept under.
    pub(super) fn key(&self, target: &str) -> String {
        format!("http://origin.example/base{target}")
    }

    pub(super) fn name(&self, target: &str) -> Name {
        Name::of(&self.key(target))
    }

    pub(super) fn begin(
        &mut self,
        target: &str,
        object: Object,
        worth: Freshness,
        came: Utc,
    ) -> Option<Writing> {
        let (name, key) = (self.name(target), self.key(target));
        Writing::begin(&mut self.directory, name, key, object, worth, came).unwrap()
    }

    /// Writes an object that has come just now.
    pub(super) fn write(&mut self, target: &str, object: Object, worth: Freshness) {
        let mut writing = self.begin(target, object, worth, self.clock.utc());
        while let Some(at_work) = writing {
            writing = at_work.go_on(&mut self.directory);
        }
    }

    /// The file of an object.
    pub(super) fn path(&self, target: &str) -> PathBuf {
        self.directory.path_of(self.name(target))
    }

    /// What the files in the directory are called.
    pub(super) fn files(&self) -> Vec<String> {
        let mut names: Vec<String> = std::fs::read_dir(self.directory.path())
            .unwrap()
            .map(|entry| entry.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    }

    /// Changes the bytes of an object's file.
    pub(super) fn spoil(&self, target: &str, spoil: impl FnOnce(&mut Vec<u8>)) {
        let path = self.path(target);
        let mut bytes = std::fs::read(&path).unwrap();
        spoil(&mut bytes);
        std::fs::write(&path, bytes).unwrap();
    }

    /// The jobs that have to be fetched.
    pub(super) fn fetched(&self) -> Vec<Job> {
        let jobs = self.mailbox.collect().into_iter().filter_map(|message| match message {
            FetchMessage::Job(job) => Some(*job),
            FetchMessage::Joins(..) => None,
        });
        jobs.collect()
    }
}

/// A whole object of these bytes with a strong tag.
pub(super) fn tagged(bytes: Vec<u8>) -> Object {
    Object::whole(Head::new("video/mp4").with("ETag", "\"1\""), Bytes::from(bytes))
}

/// Bytes that tell places apart.
pub(super) fn pattern(count: usize) -> Vec<u8> {
    (0..count).map(|at| (at / 251 + at) as u8).collect()
}
