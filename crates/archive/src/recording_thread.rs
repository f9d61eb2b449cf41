//! The thread "record": it writes what is recorded into the spool, and has the store take it.

mod uploading;

use crate::keeper::Keeper;
use crate::log_files::LogFiles;
use crate::mailbox::{Mailbox, Message};
use crate::settings::RecordSettings;
use crate::status::{Published, Status};
use crate::store::Store;
use bytes::Bytes;
use glassline_delivery::archive::index::Hole;
use glassline_delivery::archive::names::Session;
use glassline_delivery::archive::spool::{Event, Recovery, Spool};
use glassline_delivery::archive::upload::Uploads;
use glassline_delivery::packager::{RenditionName, TrackInfo};
use glassline_delivery::policy::StreamName;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::{Time, Utc};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fs::File;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;
use uploading::FormerStore;

/// What was written is put onto the disk so much later; with the time that takes, it is there within a second.
const SYNC_AFTER: Duration = Duration::from_millis(500);
/// How often it is tried to have a spool that cannot be had: at first, as the process before this one may still have it, and later.
const OPEN_AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(5));
const OPEN_SOON: u32 = 50;
/// How often what is known is published, at most.
const PUBLISH: Duration = Duration::from_millis(250);
/// The same failure is logged again after so long.
const SAY_AGAIN: Duration = Duration::from_secs(60);
/// How long the end of the process waits for the store.
pub(crate) const LEAVE_WITHIN: Duration = Duration::from_secs(5);

/// A presentation that is recorded.
struct Tapped {
    name: StreamName,
    /// The segments that are taken from their first part on: of others, which had begun before the recording, nothing is.
    taken: BTreeMap<RenditionName, u64>,
    /// The newest header of each rendition: a spool that can be had only later needs them.
    inits: BTreeMap<RenditionName, (TrackInfo, Bytes)>,
    /// What the spool calls it; `None` while there is no spool.
    recording: Option<u64>,
}

/// The spool on disk.
struct Opened {
    spool: Spool,
    log: LogFiles,
}

impl Opened {
    /// A recording begins; `has_ts`: as MPEG-TS, too.
    fn begin(&mut self, name: StreamName, begun: Utc, has_ts: bool) -> u64 {
        let number = self.spool.begin(name, begun);
        if has_ts {
            self.spool.also_as_mpeg_ts(number);
        }
        number
    }
}

/// A failure that is told once in a while.
#[derive(Default)]
struct Told {
    last: Option<(String, Time)>,
}

impl Told {
    /// Whether this is to tell now.
    fn is_news(&mut self, words: &str, now: Time) -> bool {
        let is_known = |(last, at): &(String, Time)| last == words && now.since(*at) < SAY_AGAIN;
        if self.last.as_ref().is_some_and(is_known) {
            return false;
        }
        self.last = Some((words.to_owned(), now));
        true
    }
}

/// What the thread has.
pub(crate) struct RecordingThread {
    mailbox: Arc<Mailbox>,
    published: Arc<Published>,
    keeper: Arc<Keeper>,
    clock: Clock,
    settings: Option<RecordSettings>,
    store: Option<Store>,
    /// When it is tried again to have one.
    store_at: Time,
    former: Option<FormerStore>,
    opened: Option<Opened>,
    /// How often a spool was opened.
    spools: u64,
    taps: BTreeMap<u64, Tapped>,
    /// When it is tried again to have a spool, and how often it was.
    open_at: Time,
    open_tries: u32,
    sync: Sender<(u64, Vec<Arc<File>>)>,
    dirty_since: Option<Time>,
    /// What was handed to the disk last, by a number, and whether it has it.
    syncs: u64,
    is_syncing: bool,
    status: Status,
    publish_at: Time,
    told_spool: Told,
    told_store: Told,
    leave_at: Option<Time>,
    /// Which recordings the keeper was told of; `None` before it was told of any.
    running: Option<BTreeSet<(StreamName, Session)>>,
}

/// Starts the thread, and the one beside it that waits for the disk. Returns the end of a channel that is closed when it ends.
pub(crate) fn start(
    mailbox: Arc<Mailbox>,
    published: Arc<Published>,
    keeper: Arc<Keeper>,
) -> io::Result<Receiver<()>> {
    let (ends, has_ended) = channel();
    let (sync, files) = channel();
    let of_sync = Arc::clone(&mailbox);
    thread::Builder::new().name("record-sync".into()).spawn(move || sync_files(&files, &of_sync))?;
    let thread = RecordingThread {
        mailbox,
        published,
        keeper,
        clock: Clock::new(),
        settings: None,
        store: None,
        store_at: Time::ZERO,
        former: None,
        opened: None,
        spools: 0,
        taps: BTreeMap::new(),
        open_at: Time::ZERO,
        open_tries: 0,
        sync,
        dirty_since: None,
        syncs: 0,
        is_syncing: false,
        status: Status::default(),
        publish_at: Time::ZERO,
        told_spool: Told::default(),
        told_store: Told::default(),
        leave_at: None,
        running: None,
    };
    thread::Builder::new().name("record".into()).spawn(move || {
        let _ends: Sender<()> = ends;
        thread.run();
    })?;
    Ok(has_ended)
}

/// Has the disk keep what was written, without keeping the thread that writes from writing on.
fn sync_files(files: &Receiver<(u64, Vec<Arc<File>>)>, mailbox: &Mailbox) {
    for (sync, files) in files {
        let synced = files.iter().try_for_each(|file| file.sync_data());
        mailbox.send(Message::Synced { sync, result: synced.map_err(|error| error.to_string()) });
    }
}

impl RecordingThread {
    fn run(mut self) {
        let mut messages = VecDeque::new();
        loop {
            let now = self.clock.now();
            self.mailbox.take(self.next_due(now).since(now), &mut messages);
            let turn = contain(Border::Worker, || self.handle_all(&mut messages));
            if turn.is_err() {
                // What was half-done is read from the disk as after a crash. The message that it came to this at is gone; the others
                // are taken up where that was.
                self.close("a fault");
            }
            if self.has_left() {
                self.close("the end");
                self.publish(self.clock.now());
                return;
            }
        }
    }

    fn next_due(&self, now: Time) -> Time {
        // Without a store nothing leaves, whatever waits: the turn of each second does for the rest.
        let spool = self.opened.as_ref().filter(|_| self.store.is_some());
        let spool = spool.and_then(|opened| opened.spool.next_timeout(now));
        let open = (self.opened.is_none() && self.settings.is_some()).then_some(self.open_at);
        let sync = self.dirty_since.filter(|_| !self.is_syncing).map(|since| since + SYNC_AFTER);
        let due = spool.into_iter().chain(open).chain(sync).chain(self.leave_at).min();
        due.unwrap_or(Time::NEVER).min(now + Duration::from_secs(1))
    }

    fn handle_all(&mut self, messages: &mut VecDeque<Message>) {
        let now = self.clock.now();
        self.make_store(now);
        self.open_if_due(now);
        while let Some(message) = messages.pop_front() {
            self.mailbox.release(&message);
            self.handle(message, now);
        }
        self.turn(now);
        if now >= self.publish_at {
            self.publish(now);
        }
    }

    fn handle(&mut self, message: Message, now: Time) {
        match message {
            Message::Begin { key, name } => {
                let begun = self.new_session(&name);
                let has_ts = self.has_ts(&name);
                let recording = self.opened.as_mut().map(|it| it.begin(name.clone(), begun, has_ts));
                let (taken, inits) = (BTreeMap::new(), BTreeMap::new());
                self.taps.insert(key, Tapped { name, taken, inits, recording });
            }
            Message::Do(task) | Message::Request(task) => task(self),
            Message::Synced { sync, result } => self.synced(sync, result, now),
            Message::Stored { spool, id, is_former, result } => {
                self.stored((spool, id), is_former, &result, now);
            }
            Message::End { key } => {
                let Some(tapped) = self.taps.remove(&key) else { return };
                if let (Some(Opened { spool, log }), Some(number)) = (&mut self.opened, tapped.recording) {
                    spool.end(number, self.clock.utc(), now, log);
                }
            }
            Message::Init { key, rendition, track, bytes } => {
                let Some(tapped) = self.taps.get_mut(&key) else { return };
                tapped.inits.insert(rendition, (track.clone(), bytes.clone()));
                if let (Some(Opened { spool, log }), Some(number)) = (&mut self.opened, tapped.recording) {
                    spool.init(number, rendition, track, bytes, now, log);
                }
            }
            Message::Part { key, rendition, segment, part, chunks } => {
                let bytes: u64 = chunks.iter().map(|chunk| chunk.len() as u64).sum();
                let Some(tapped) = self.taps.get_mut(&key) else { return };
                if part == 0 && tapped.recording.is_some() {
                    tapped.taken.insert(rendition, segment.number);
                }
                let is_taken = tapped.taken.get(&rendition) == Some(&segment.number);
                match self.of(key).filter(|_| is_taken) {
                    Some((spool, log, number)) => spool.part(number, rendition, &segment, chunks, now, log),
                    None => self.status.unspooled_bytes += bytes,
                }
            }
            Message::Lost { key, rendition, segment } => {
                if let Some((spool, log, number)) = self.of(key) {
                    spool.lose(number, rendition, &segment, now, log);
                }
            }
            Message::SegmentEnd { key, rendition, segment } => {
                if let Some((spool, log, number)) = self.of(key) {
                    spool.segment_end(number, rendition, &segment, now, log);
                }
            }
            Message::Gap { key, rendition, segment } => {
                if let Some((spool, _, number)) = self.of(key) {
                    spool.gap(number, rendition, segment, now);
                }
            }
        }
    }

    fn of(&mut self, key: u64) -> Option<(&mut Spool, &mut LogFiles, u64)> {
        let number = self.taps.get(&key)?.recording?;
        let Opened { spool, log } = self.opened.as_mut()?;
        Some((spool, log, number))
    }

    /// What a recording of the stream `name` that begins now is called by: by the clock of this machine, since the times of a
    /// publisher may come again, and by none that the store has.
    fn new_session(&self, name: &StreamName) -> Utc {
        let mut utc = self.clock.utc();
        while self.keeper.has(name, Session::new(utc)) {
            utc = Utc::from_nanos(utc.as_nanos().saturating_add(1_000_000));
        }
        utc
    }

    /// Whether a recording of the stream `name` that begins now is made as MPEG-TS, too.
    fn has_ts(&self, name: &StreamName) -> bool {
        self.settings.as_ref().is_some_and(|settings| settings.has_ts(name))
    }

    /// Other settings from now on; `None`: nothing is recorded any more, and the spool is closed.
    pub(crate) fn configure(&mut self, settings: Option<RecordSettings>) {
        let before = self.settings.take();
        let is_same = |of: &dyn Fn(&RecordSettings) -> bool| before.as_ref().is_some_and(of);
        let Some(new) = settings else {
            self.close("the configuration");
            (self.store, self.former) = (None, None);
            self.published.set_store(None);
            self.keeper.configure(None);
            return;
        };
        let now = self.clock.now();
        if !is_same(&|before| before.store == new.store) {
            self.leave_store(now);
        }
        if !is_same(&|before| before.spool == new.spool) {
            self.close("the configuration");
        }
        if let Some(opened) = &mut self.opened {
            opened.spool.reconfigure(new.spool_bytes, new.upload_rate);
        }
        (self.open_at, self.open_tries) = (Time::ZERO, 0);
        if let Some(store) = &self.store {
            self.keeper.configure(Some((new.clone(), store.clone())));
        }
        self.settings = Some(new);
        self.store_at = Time::ZERO;
        self.make_store(now);
        self.open_if_due(now);
        self.begin_all(now);
    }

    /// Ends what is recorded and closes the spool: another process needs it. What is recorded after this goes nowhere.
    pub(crate) fn release(&mut self) {
        self.settings = None;
        self.close("a new process");
        (self.store, self.former) = (None, None);
        self.published.set_store(None);
        self.keeper.configure(None);
    }

    /// Ends the thread, when what waits is in the store, or some seconds later.
    pub(crate) fn leave(&mut self) {
        let now = self.clock.now();
        self.end_recordings(now);
        self.leave_at = Some(now + LEAVE_WITHIN);
    }

    fn has_left(&self) -> bool {
        let Some(leave_at) = self.leave_at else { return false };
        let waits = self.opened.as_ref().is_some_and(|opened| {
            opened.spool.recordings().next().is_some() && !opened.spool.is_store_away()
        });
        !waits || self.clock.now() >= leave_at
    }

    /// The recordings that go on end; those that streams still bring are recorded anew when there is a spool.
    fn end_recordings(&mut self, now: Time) {
        let utc = self.clock.utc();
        let Some(Opened { spool, log }) = &mut self.opened else { return };
        for tapped in self.taps.values_mut() {
            tapped.taken.clear();
            if let Some(number) = tapped.recording.take() {
                spool.end(number, utc, now, log);
            }
        }
    }

    fn close(&mut self, why: &str) {
        let now = self.clock.now();
        let _ = contain(Border::Worker, || self.end_recordings(now));
        for tapped in self.taps.values_mut() {
            tapped.recording = None;
            tapped.taken.clear();
        }
        if let Some(mut opened) = self.opened.take() {
            let synced = opened.log.take_dirty().iter().try_for_each(|file| file.sync_data());
            if synced.is_ok() && !self.is_syncing {
                opened.log.synced();
            }
            tracing::debug!("the spool was closed: {why}");
        }
        // What is under way is of a spool that is closed.
        self.syncs += 1;
        (self.dirty_since, self.is_syncing, self.former) = (None, false, None);
        self.open_at = now + OPEN_AGAIN.0;
    }

    /// Has a store, where one is configured and there is none.
    fn make_store(&mut self, now: Time) {
        let is_wanted = self.store.is_none() && now >= self.store_at;
        let Some(settings) = self.settings.as_ref().filter(|_| is_wanted) else { return };
        if let Some(folder) = settings.store_folder() {
            // Its last part is made now, and never again: where a disk was, nothing else is filled.
            let _ = std::fs::create_dir(folder);
        }
        match Store::start(settings.store.clone()) {
            Ok(store) => {
                self.keeper.configure(Some((settings.clone(), store.clone())));
                self.published.set_store(Some(store.clone()));
                self.store = Some(store);
            }
            Err(error) => {
                self.store_at = now + OPEN_AGAIN.1;
                let words = format!("the store's thread cannot be started: {error}");
                if self.told_store.is_news(&words, now) {
                    tracing::error!("{words}");
                }
            }
        }
    }

    /// Has a spool, where one is configured and there is none.
    fn open_if_due(&mut self, now: Time) {
        let Some(settings) = &self.settings else { return };
        if self.opened.is_some() || now < self.open_at {
            return;
        }
        match open(settings, now, self.clock.seed()) {
            Ok(opened) => {
                let waiting = opened.spool.recordings().count();
                tracing::info!(spool = %settings.spool.display(), waiting, "the spool is open");
                self.status.spool_error = None;
                self.opened = Some(opened);
                self.spools += 1;
                self.dirty_since.get_or_insert(now);
                self.begin_all(now);
            }
            Err(words) => {
                let is_last = self.open_tries == OPEN_SOON;
                self.open_at = now + if self.open_tries < OPEN_SOON { OPEN_AGAIN.0 } else { OPEN_AGAIN.1 };
                self.open_tries = self.open_tries.saturating_add(1);
                if (self.open_tries == 1 || is_last) && self.told_spool.is_news(&words, now) {
                    tracing::error!("nothing is recorded: {words}");
                }
                self.status.spool_error = Some(words);
            }
        }
    }

    /// All that streams bring and that is not recorded yet is, from here on.
    fn begin_all(&mut self, now: Time) {
        let begin = |Tapped { name, .. }: &Tapped| (name.clone(), self.new_session(name), self.has_ts(name));
        let begun: BTreeMap<u64, _> = self.taps.iter().map(|(key, tapped)| (*key, begin(tapped))).collect();
        let Some(opened) = &mut self.opened else { return };
        for (key, tapped) in self.taps.iter_mut().filter(|(_, tapped)| tapped.recording.is_none()) {
            let Some((name, utc, has_ts)) = begun.get(key).cloned() else { continue };
            let number = opened.begin(name, utc, has_ts);
            let Opened { spool, log } = opened;
            tapped.taken.clear();
            tapped.recording = Some(number);
            for (rendition, (track, bytes)) in &tapped.inits {
                spool.init(number, *rendition, track.clone(), bytes.clone(), now, log);
            }
        }
    }

    /// What is due now.
    fn turn(&mut self, now: Time) {
        let Some(Opened { spool, log }) = &mut self.opened else { return };
        spool.handle_timeout(now, log);
        self.upload(now);
        let Some(Opened { spool, log }) = &mut self.opened else { return };
        if let Some(words) = log.take_failure() {
            self.status.spool_errors += 1;
            if self.told_spool.is_news(&words, now) {
                tracing::error!("what is recorded has holes: {words}");
            }
            self.status.spool_error = Some(words);
            self.status.spool_failed_at = Some(now);
        }
        for event in spool.take_events() {
            tell(&event);
            if let Event::Complete(name, session, is_recovered) = event {
                self.keeper.complete(name, session, is_recovered);
            }
        }
        self.sync_if_due(now);
    }

    fn sync_if_due(&mut self, now: Time) {
        let Some(Opened { log, .. }) = &mut self.opened else { return };
        let since = *self.dirty_since.get_or_insert(now);
        if self.is_syncing || now < since + SYNC_AFTER {
            return;
        }
        let files = log.take_dirty();
        self.dirty_since = None;
        if files.is_empty() {
            return log.synced();
        }
        self.syncs += 1;
        self.is_syncing = self.sync.send((self.syncs, files)).is_ok();
    }

    fn synced(&mut self, sync: u64, result: Result<(), String>, now: Time) {
        if sync != self.syncs {
            return;
        }
        self.is_syncing = false;
        if let Some(Opened { log, .. }) = &mut self.opened {
            if result.is_ok() { log.synced() } else { log.sync_failed() }
        }
        if let Err(words) = result {
            let words = format!("the spool's disk cannot keep what was written: {words}");
            if self.told_spool.is_news(&words, now) {
                tracing::error!("{words}");
            }
            self.status.spool_errors += 1;
            self.status.spool_error = Some(words);
            self.status.spool_failed_at = Some(now);
        }
    }

    fn publish(&mut self, now: Time) {
        self.publish_at = now + PUBLISH;
        let recent = |at: Time| now.since(at) < Duration::from_secs(10);
        if self.opened.is_some() && !self.status.spool_failed_at.is_some_and(recent) {
            self.status.spool_error = None;
        }
        self.status.queue_dropped_bytes = self.mailbox.dropped_bytes();
        self.status.recordings.clear();
        if let Some(Opened { spool, .. }) = &self.opened {
            self.status.take_spool(spool, now);
            let running = self.status.recordings.iter().map(|it| (it.name.clone(), it.session));
            let running: BTreeSet<_> = running.collect();
            if self.running.as_ref() != Some(&running) {
                self.keeper.set_running(running.clone());
                self.running = Some(running);
            }
        } else {
            (self.status.waiting_bytes, self.status.oldest_waiting) = (0, None);
        }
        self.published.set(&self.status);
    }

    /// The spool and its files, for readers.
    pub(crate) fn spool(&mut self) -> Option<(&mut Spool, &mut LogFiles)> {
        self.opened.as_mut().map(|Opened { spool, log }| (spool, log))
    }
}

/// Opens the spool, with what a former process has left in it.
fn open(settings: &RecordSettings, now: Time, seed: u64) -> Result<Opened, String> {
    let mut log = LogFiles::open(&settings.spool)?;
    let mut recovery = Recovery::new(settings.spool_bytes, Uploads::new(settings.upload_rate, seed));
    log.recover(&mut recovery)?;
    let spool = recovery.finish(now, &mut log);
    Ok(Opened { spool, log })
}

fn tell(event: &Event) {
    match event {
        Event::Hole(name, Hole { rendition, first, last, reason, .. }) => {
            let (rendition, reason) = (rendition.to_string(), reason.name());
            tracing::warn!(stream = %name, rendition, first, last, reason, "segments are not recorded");
        }
        Event::NoMpegTs(name, words) => {
            tracing::warn!(stream = %name, "the recording has no MPEG-TS from here on: {words}");
        }
        Event::Refused(object) => tracing::error!(%object, "the store refuses an object, which is given up"),
        Event::Complete(name, session, _) => {
            tracing::info!(stream = %name, %session, "a recording is complete in the store");
        }
    }
}

#[cfg(test)]
#[path = "recording_thread_tests.rs"]
mod tests;
