//! The packager's thread. It reads the streams that clients ask for as LL-HLS or LL-DASH, as an output does, and puts
//! what it makes of each into its [`PresentationStore`].
//!
//! ```text
//! request ─► worker ─► PresentationStore (new) ─ Package ─► thread "package"
//! Live ─ news ─► Following ─► PresentationStore ─► Growing ─► clients that wait, on their workers
//! ```
//! A presentation begins when it is first asked for, with what the stream's backlog holds, and ends some time after it was last asked
//! for, so that packaging costs nothing where no client uses it. Where `[package] on_demand` is off, it begins with its stream.

use crate::hub::Hub;
use crate::inboxes::Message;
use crate::presentation_stores::is_version_of;
use crate::settings::PackagingSettings;
use bytes::Bytes;
use glassline_delivery::packager::Guide;
use glassline_delivery::policy::StreamName;
use glassline_delivery::stream::{Mux, OffsetTime};
use glassline_edge::{CaptureVersion, Ladder, MissingSegment, PresentationStore, Wake};
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Poller, Wakeup};
use glassline_io::spool::Reader;
use glassline_media::{Time, Utc};
use glassline_streams::Live;
use glassline_streams::News;
use glassline_streams::{Entering, Next, StreamReader};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::ops::Range;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

/// How often the thread looks for presentations that clients no longer ask for.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes that are read of a stream at once.
const READ_BYTES: usize = 256 << 10;

/// What was left out of a presentation is told again after so long.
const TELL_AGAIN: Duration = Duration::from_secs(10);

/// How long the thread rests after a panic outside of any presentation.
const PAUSE_AFTER_PANIC: Duration = Duration::from_millis(100);

impl Hub {
    /// The versions of the capture `group`, all of which are packaged from now on; `None` where there are none.
    pub(super) fn ladder(&self, group: &StreamName) -> Option<Arc<Ladder>> {
        let now = self.clock.now();
        let known = self.presentations.ladder(group);
        let is_fresh = |ladder: &Arc<Ladder>| ladder.looked().is_some_and(|at| now.since(at) < LOOK);
        if let Some(ladder) = known.filter(is_fresh) {
            return Some(ladder);
        }
        let mut names = self.presentations.versions_of(group);
        // What is pulled from another server of the cluster is packaged there, under the same names with other numbers.
        let is_of_another = |live: &Live| self.demands.is_of_another(&live.name);
        let packaged = self.versions_of(group).filter(|live| live.mux.is_packaged() && !is_of_another(live));
        names.extend(packaged.map(|live| live.name.clone()));
        names.sort_by_cached_key(|name| (name.version().map(|version| version.best_first()), name.clone()));
        names.dedup();
        if names.is_empty() {
            return None;
        }
        let wake = Arc::clone(&self.inboxes) as Arc<dyn Wake>;
        let ladder = self
            .presentations
            .ladder_or_begin(group, || Ladder::new(wake, self.settings().base_path.clone()));
        let versions = names.into_iter().map(|name| {
            let store = self.presentation_store(&name);
            CaptureVersion::new(name, store)
        });
        ladder.set_versions(versions.collect(), now);
        Some(ladder)
    }

    /// The streams that are versions of the capture `group`. Strangers ask for any name: only what may be one is looked at.
    pub(super) fn versions_of(&self, group: &StreamName) -> impl Iterator<Item = Arc<Live>> {
        let prefix = StreamName::parse(&format!("{group}-"));
        let lives = prefix.map_or_else(Vec::new, |prefix| self.streams.beginning_with(&prefix));
        lives.into_iter().filter(move |live| is_version_of(&live.name, group))
    }

    /// The presentation of the stream `name` is another server's to give from now on: what there is of it here ends.
    pub(super) fn leave_presentation(&self, name: &StreamName) {
        if self.presentations.find(name).is_some() {
            self.presentations.remove(name);
            // The packager alone ends it: it would take an end that it does not know of for a fault, and begin another.
            self.inboxes.send(self.inboxes.packager(), Message::Package(name.clone()));
        }
    }

    /// The presentation of the stream `name`, of which the packager is told where it has none yet.
    pub(super) fn presentation_store(&self, name: &StreamName) -> Arc<PresentationStore> {
        if let Some(store) = self.presentations.find(name) {
            return store;
        }
        let (settings, wake) = (self.settings(), Arc::clone(&self.inboxes) as Arc<dyn Wake>);
        let (presentation, base_path) = (settings.packaging.presentation, settings.base_path.clone());
        let mux = self.streams.find(name).map_or(Mux::default(), |live| live.mux);
        let begin =
            || PresentationStore::new(mux, presentation, wake, base_path, self.clock.now(), self.clock.utc());
        let (store, is_new) = self.presentations.find_or_begin(name, begin);
        if is_new {
            self.inboxes.send(self.inboxes.packager(), Message::Package(name.clone()));
        }
        store
    }
}

/// A stream that a presentation is made of.
struct Following {
    store: Arc<PresentationStore>,
    /// The stream; `None` while there is none.
    reader: Option<StreamReader>,
    /// When the bytes came that were there before it: a presentation tells when what is in it came, not when it was made.
    came: VecDeque<OffsetTime>,
    /// When parts that are open end, if nothing comes until then.
    stalls_at: Option<Time>,
    /// The number of the newest stream that it was made of.
    newest: Option<u64>,
    left_out: LeftOut,
}

/// Bytes that a stream no longer kept when the thread came to them.
#[derive(Default)]
struct LeftOut {
    /// The first of them, until it is known where the stream is read on.
    from: Option<u64>,
    uncounted: u64,
    untold: u64,
    told: Option<Time>,
}

impl LeftOut {
    /// The stream is read from `offset` on.
    fn end(&mut self, offset: u64) {
        self.uncounted += self.from.take().map_or(0, |from| offset.saturating_sub(from));
    }

    /// How many there are since the last call, and how many the log tells now; `is_over`: there is no later call.
    fn take(&mut self, now: Time, is_over: bool) -> (u64, Option<u64>) {
        let count = std::mem::take(&mut self.uncounted);
        self.untold += count;
        let may = self.untold > 0 && (is_over || self.told.is_none_or(|told| now.since(told) >= TELL_AGAIN));
        if may {
            self.told = Some(now);
        }
        (count, may.then(|| std::mem::take(&mut self.untold)))
    }
}

/// Why the thread goes on though no stream has news.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// Presentations that no client asks for are looked for.
    Look,
    /// Nothing has come of a stream that has an open part.
    Stall,
}

/// What the thread has.
pub(super) struct Packaging {
    hub: Arc<Hub>,
    poller: Poller,
    following: BTreeMap<StreamName, Following>,
    scratch: Vec<u8>,
    next_look: Time,
}

/// Starts the thread.
pub(super) fn start(packaging: Packaging) -> io::Result<JoinHandle<Packaging>> {
    std::thread::Builder::new().name("package".into()).spawn(move || packaging.run())
}

impl Packaging {
    /// Packages nothing yet. `poller` is the one that the packager's inbox wakes.
    pub(super) fn new(hub: &Arc<Hub>, poller: Poller) -> Packaging {
        let (hub, next_look) = (Arc::clone(hub), Time::ZERO);
        Packaging { hub, poller, following: BTreeMap::new(), scratch: vec![0; READ_BYTES], next_look }
    }

    /// Packages until the hub halts or stops the threads. Returns with all that it has, to be started again.
    fn run(mut self) -> Packaging {
        while contain(Border::Worker, || self.package_until_told()).is_err() {
            self.hub.rest(PAUSE_AFTER_PANIC);
            // News that were on their way may be lost.
            let lives: Vec<_> = self.hub.streams.all();
            lives.iter().for_each(|live| live.heard(self.hub.inboxes.packager()));
            self.next_look = Time::ZERO;
        }
        self
    }

    fn package_until_told(&mut self) {
        let (mut ready, mut messages) = (Vec::new(), Vec::new());
        while self.hub.is_running() {
            let stalls = self.following.values().filter_map(|following| following.stalls_at);
            let wakeup = Wakeup::NEVER.or(Reason::Look, self.next_look);
            let wakeup = stalls.fold(wakeup, |wakeup, at| wakeup.or(Reason::Stall, at));
            if let Err(error) = self.poller.wait_until(&wakeup, self.hub.clock.now(), &mut ready) {
                tracing::error!(%error, "epoll failed; nothing is packaged any more");
                break;
            }
            if !ready.is_empty() {
                self.hub.inboxes.collect(self.hub.inboxes.packager(), &mut messages);
                for message in messages.drain(..) {
                    match message {
                        Message::Stream(News::Flushed(live)) => {
                            self.of_stream(&live.name, |it| it.handle_news(&live));
                        }
                        Message::Package(name) => self.of_stream(&name, |it| it.begin(&name)),
                        Message::Stream(News::FlushAt(..) | News::Evicted(_)) | Message::Grown(_) => {}
                    }
                }
            }
            let now = self.hub.clock.now();
            let has_stalled = |following: &Following| following.stalls_at.is_some_and(|at| at <= now);
            let stalled = self.following.iter().filter(|(_, following)| has_stalled(following));
            for name in stalled.map(|(name, _)| name.clone()).collect::<Vec<_>>() {
                self.of_stream(&name, |it| it.handle_stall(&name));
            }
            if now >= self.next_look {
                self.look(now);
                self.next_look = now + LOOK;
            }
        }
    }

    /// Does something with the presentation of the stream `name`. Where that panics, this presentation ends and no other.
    fn of_stream(&mut self, name: &StreamName, act: impl FnOnce(&mut Packaging)) {
        if contain(Border::Output, || act(self)).is_ok() {
            return;
        }
        self.hub.presentations.remove(name);
        let Some(following) = self.following.remove(name) else { return };
        let _ = contain(Border::Output, || following.store.finish(self.hub.clock.utc()));
        if let Some(reader) = &following.reader {
            reader.live().set_is_packaged(false);
        }
        tracing::error!(stream = %name, "its presentation was ended by a fault; the next request begins another");
        for live in self.hub.streams.take_broken() {
            self.hub.streams.announce(&live, None);
        }
    }

    /// Begins to package the stream `name` into the presentation that is in the store.
    fn begin(&mut self, name: &StreamName) {
        let store = self.hub.presentations.find(name);
        let is_current =
            |following: &Following| store.as_ref().is_some_and(|store| Arc::ptr_eq(&following.store, store));
        if self.following.get(name).is_some_and(is_current) {
            return;
        }
        if let Some(former) = self.following.remove(name) {
            // No request finds it any more: another server gives the stream's objects now, or another presentation has begun since.
            former.end(&self.hub);
        }
        let Some(store) = store else { return };
        tracing::info!(stream = %name, "packaging begins");
        self.following.insert(
            name.clone(),
            Following {
                store,
                reader: None,
                came: VecDeque::new(),
                stalls_at: None,
                newest: None,
                left_out: LeftOut::default(),
            },
        );
        if let Some(live) = self.hub.streams.find(name) {
            self.follow(&live);
        }
    }

    /// The stream `live` is the one of its name from now on.
    fn follow(&mut self, live: &Arc<Live>) {
        let Some(following) = self.following.get_mut(&live.name) else { return };
        if !live.mux.is_packaged() {
            return;
        }
        live.set_is_packaged(true);
        following.store.begin(live.mux, self.hub.clock.utc());
        record(&self.hub, &live.name, &following.store);
        following.reader = Some(StreamReader::new(Arc::clone(live), Entering::Oldest));
        following.newest = Some(live.id);
        self.handle_news(live);
    }

    /// A stream has grown, ended or begun.
    fn handle_news(&mut self, live: &Arc<Live>) {
        live.heard(self.hub.inboxes.packager());
        inject(Border::Output, || format!("package:{}", live.name));
        let Some(following) = self.following.get(&live.name) else {
            live.set_is_packaged(false);
            return;
        };
        match following.reader.as_ref().map(StreamReader::live) {
            // A fault on a worker has ended what was made of it.
            Some(known) if Arc::ptr_eq(known, live) && following.store.has_ended() => {
                tracing::error!(stream = %live.name, "its presentation was ended by a fault; another one begins");
                self.begin_anew(&live.name);
                return self.follow(live);
            }
            Some(known) if Arc::ptr_eq(known, live) => {}
            Some(known) if !known.has_ended() => return,
            // An end is told of more than once, perhaps behind the beginning of the next stream: what was made of it stays.
            _ if following.newest >= Some(live.id) => return,
            _ => {
                self.begin_anew(&live.name);
                return self.follow(live);
            }
        }
        if following.store.is_starting() {
            let guide = self.guide_for(&live.name);
            let Some(following) = self.following.get(&live.name) else { return };
            following.store.follow(guide);
        }
        let Some(following) = self.following.get_mut(&live.name) else { return };
        let (now, utc) = (self.hub.clock.now(), self.hub.clock.utc());
        let has_all = following.read(&mut self.scratch, now, utc).unwrap_or_else(|error| {
            tracing::warn!(stream = %live.name, %error, "cannot read a stream to package it");
            live.has_ended()
        });
        following.stalls_at = following.store.stall_timeout().map(|timeout| now + timeout);
        let (left_out, told) = following.left_out.take(now, has_all);
        self.hub.counters.unpackaged_bytes.add(left_out);
        if let Some(bytes) = told {
            tracing::warn!(
                stream = %live.name, bytes,
                "the stream comes faster than it can be packaged: these bytes are in no segment of LL-HLS, LL-DASH or a recording"
            );
        }
        self.keep_mpeg_ts(&live.name);
        let Some(following) = self.following.get_mut(&live.name) else { return };
        if has_all {
            following.reader = None;
            following.store.finish(utc);
        }
    }

    /// Makes the segments of MPEG-TS that are asked for, of what the stream keeps.
    fn keep_mpeg_ts(&mut self, name: &StreamName) {
        let Some(Following { store, reader: Some(reader), .. }) = self.following.get(name) else { return };
        let idle = self.hub.settings().packaging.idle;
        for MissingSegment { segment, source } in store.missing_mpeg_ts(self.hub.clock.now(), idle) {
            let bytes = mpeg_ts_segment(reader.live(), source, &mut self.scratch).unwrap_or_else(|error| {
                tracing::warn!(stream = %name, %error, "cannot read a stream to make segments of MPEG-TS of it");
                None
            });
            store.put_mpeg_ts(segment, bytes);
        }
    }

    /// Nothing has come of the stream for a while.
    fn handle_stall(&mut self, name: &StreamName) {
        let Some(following) = self.following.get_mut(name) else { return };
        following.stalls_at = None;
        following.store.handle_stall(self.hub.clock.utc());
    }

    /// Where another version of the stream's capture is that is being packaged.
    fn guide_for(&self, name: &StreamName) -> Option<Guide> {
        let group = name.version()?.group;
        let others =
            self.following.iter().filter(|(other, _)| *other != name && is_version_of(other, &group));
        others.filter_map(|(_, following)| following.store.guide()).next()
    }

    /// Ends the presentations that clients no longer ask for, and does what needs no news of a stream.
    fn look(&mut self, now: Time) {
        let PackagingSettings { idle, on_demand, .. } = self.hub.settings().packaging;
        let hub = &self.hub;
        self.following.retain(|name, following| {
            let lives = following.reader.is_some();
            let is_kept =
                lives && (!on_demand || hub.recorder_of(name).is_some()) && !hub.demands.is_of_another(name);
            let is_wanted = now.since(following.store.wanted_at()) < idle || is_kept;
            if lives {
                // Which streams are recorded may have changed.
                record(hub, name, &following.store);
            }
            if !is_wanted {
                hub.presentations.remove(name);
                following.end(hub);
                tracing::info!(stream = %name, "packaging ends: no client asks for it");
            }
            is_wanted
        });
        // Of a stream that stands still no news come, and its segments may be asked for all the same.
        for name in self.following.keys().cloned().collect::<Vec<_>>() {
            self.of_stream(&name, |it| it.keep_mpeg_ts(&name));
        }
        self.hub.presentations.forget_ladders();
        if !on_demand || self.hub.has_recorder() {
            // One that a fault has ended begins again.
            let lives = self.hub.streams.all().into_iter();
            for live in lives.filter(|live| live.mux.is_packaged() && !live.has_ended()) {
                let is_kept = !on_demand || self.hub.recorder_of(&live.name).is_some();
                if is_kept && !self.hub.is_presented_upstream(&live.name) {
                    drop(self.hub.presentation_store(&live.name));
                }
            }
        }
    }

    /// A stream has begun under the name of one that has ended: it gets a presentation of its own in place of that
    /// one's.
    fn begin_anew(&mut self, name: &StreamName) {
        let Some(following) = self.following.get_mut(name).filter(|it| it.store.has_ended()) else { return };
        self.hub.presentations.remove(name);
        following.store = self.hub.presentation_store(name);
    }
}

/// Has the stream's presentation recorded, where the stream is recorded, and not where it is not. What is pulled from another server that
/// has it is that one's to record.
fn record(hub: &Hub, name: &StreamName, store: &PresentationStore) {
    let recorder = hub.recorder_of(name).filter(|_| !hub.demands.is_of_another(name));
    match (recorder, store.has_chunk_observer()) {
        (Some(recorder), false) => store.set_chunk_observer(Some(recorder.begin(name))),
        (None, true) => store.set_chunk_observer(None),
        _ => {}
    }
}

impl Following {
    /// Ends the presentation, and what is recorded of it.
    fn end(&self, hub: &Hub) {
        if let Some(reader) = &self.reader {
            reader.live().set_is_packaged(false);
        }
        self.store.finish(hub.clock.utc());
    }

    /// Takes what is new of its stream. Returns whether there will be no more of it.
    fn read(&mut self, scratch: &mut [u8], now: Time, utc: Utc) -> io::Result<bool> {
        let Some(reader) = &mut self.reader else { return Ok(false) };
        loop {
            let head = match reader.poll(now) {
                Next::Pending => return Ok(false),
                Next::Ended if reader.is_at_seam() => {
                    // Another publisher's header is needed from here on.
                    self.store.discontinuity(utc);
                    *reader = StreamReader::new(Arc::clone(reader.live()), Entering::Oldest);
                    continue;
                }
                Next::Ended => {
                    self.left_out.end(reader.live().chain.head());
                    return Ok(true);
                }
                Next::Entered { entry, .. } => {
                    self.left_out.end(reader.offset());
                    self.came = reader.live().marks().into();
                    self.store.push(&entry.prelude(false), utc, None);
                    continue;
                }
                // What is still there of it is read.
                Next::Data { until } | Next::Behind { until } => until,
            };
            while self.came.front().is_some_and(|mark| mark.offset <= reader.offset()) {
                self.came.pop_front();
            }
            let (end, ago) = match self.came.front() {
                Some(mark) => (mark.offset.min(head), now.since(mark.at)),
                None => (head, Duration::ZERO),
            };
            let came = Utc::from_nanos(utc.as_nanos().saturating_sub(ago.as_nanos() as u64));
            let at = reader.offset();
            match reader.read(scratch, end)? {
                Some(count) => {
                    self.store.push(&scratch[..count], came, Some(at));
                    if let Some(words) = self.store.news_of_left_out() {
                        tracing::warn!(stream = %reader.live().name, "left out of LL-HLS and LL-DASH: {words}");
                    }
                }
                None => {
                    // It has fallen behind what is kept.
                    self.left_out.from.get_or_insert(reader.offset());
                    self.store.discontinuity(utc);
                    reader.lose_place();
                }
            }
        }
    }
}

/// A segment of MPEG-TS out of what the stream keeps; `None` where that is gone.
fn mpeg_ts_segment(live: &Live, source: Range<u64>, scratch: &mut [u8]) -> io::Result<Option<Bytes>> {
    let Some(prelude) = live.prelude_at(source.start) else { return Ok(None) };
    let mut bytes = Vec::with_capacity(prelude.len() + (source.end - source.start) as usize);
    bytes.extend_from_slice(&prelude);
    let mut reader = Reader::new(live.chain.clone(), source.start);
    while reader.offset() < source.end {
        match reader.read(scratch, source.end)? {
            Some(count) => bytes.extend_from_slice(&scratch[..count]),
            None => return Ok(None),
        }
    }
    Ok(Some(bytes.into()))
}

#[cfg(test)]
#[path = "packaging_tests.rs"]
mod tests;
