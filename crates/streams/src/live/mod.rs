//! One live stream: its state ([`Stream`], pure), its bytes ([`Spool`]) and its publisher slot, under one lock.

mod audiences;
mod hand_over;
mod intake;
mod publisher_slot;
mod slate;
mod status;

pub use audiences::THREADS_BESIDE;
pub use hand_over::LiveState;
pub use publisher_slot::{Acquisition, ConnectionId};
pub use slate::{SlatePlayed, SlateSettings};

use crate::counters::StreamCounters;
use crate::pieces::{EndedPiece, Piece};
use crate::subscribers::Subscribers;
use crate::telemetry::Telemetry;
use audiences::Audiences;
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::stream_media_type;
use glassline_delivery::stream::{
    self, Backlog, Entry, FlushPolicy, Moment, Mux, OffsetTime, Pacing, Prebuffer, Stream, StreamError,
};
use glassline_delivery::telemetry::stages::ViewerFigures;
use glassline_delivery::telemetry::watchers::Watchers;
use glassline_io::clock::Clock;
use glassline_io::spool::{self, Chain, Spool};
use glassline_media::Time;
use publisher_slot::{IntoStream, PublisherSlot};
use slate::Slate;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;
use thiserror::Error;

/// Why a publisher's bytes were not taken. The publisher has to go.
#[derive(Debug, Error)]
pub enum PushError {
    /// Another publisher has taken the name over, or it was given up after a silence.
    #[error("another publisher has taken the name over")]
    Evicted,
    /// The bytes are not the stream's mux.
    #[error(transparent)]
    Refused(#[from] StreamError),
    /// The system has no room for more.
    #[error("no room for the stream's bytes: {0}")]
    Spool(#[from] io::Error),
}

/// How a stream is kept of which nothing is kept any more.
const OVER: stream::Settings = stream::Settings {
    backlog: Backlog { time: Duration::ZERO, bytes: 0 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

/// One live stream. Publishers push into it under a session, readers follow its [`chain`](Live::chain) of bytes.
#[derive(Debug)]
pub struct Live {
    /// Its number; no other stream of this server gets it.
    pub id: u64,
    /// Its name. Another stream may get it after this one has ended.
    pub name: StreamName,
    /// What its bytes are.
    pub mux: Mux,
    /// The bytes.
    pub chain: Chain,
    /// What is counted of it.
    pub counters: StreamCounters,
    /// How it and its viewers were.
    pub telemetry: Telemetry,
    pub(crate) subscribers: Subscribers,
    viewer_figures: Mutex<ViewerFigures>,
    /// Where viewers are, of this process alone: they are counted anew as they come.
    watchers: Mutex<Watchers>,
    began: Time,
    core: Mutex<Core>,
    tail: AtomicU64,
    newest_seam: AtomicU64,
    /// What a viewer has to have been given for [`Live::note_sent`] to tell something new.
    unsent_end: AtomicU64,
    pace_bps: AtomicU64,
    flush_bytes: AtomicU64,
    /// Whether viewers are paced whatever their paths take.
    paces_all: AtomicBool,
    holds_pictures_back: AtomicBool,
    ended: AtomicBool,
    /// A panic under the lock has ended it.
    is_broken: AtomicBool,
    is_broken_told: AtomicBool,
    audiences: Audiences,
}

#[derive(Debug)]
struct Core {
    stream: Stream,
    spool: Spool,
    media_type: Option<String>,
    slot: PublisherSlot,
    slate: Option<Slate>,
    /// A worker will call [`Live::handle_timeout`] at this time.
    armed: Option<Time>,
}

impl Core {
    /// What a look at the clock came to, once viewers see what is due.
    fn flushed(&mut self, is_time: bool) -> Flushed {
        let wanted = self.stream.poll_timeout();
        let at = wanted.filter(|&at| self.armed.is_none_or(|armed| at < armed));
        self.armed = at.or(self.armed);
        Flushed { news: is_time, wake_at: at }
    }
}

/// What the caller has to do after a publisher's pause.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Viewers have news.
    pub news: bool,
    /// A worker has to call [`Live::handle_timeout`] at this time.
    pub wake_at: Option<Time>,
}

impl Live {
    /// A stream that has no publisher yet, for `workers` threads with viewers.
    pub fn new(
        id: u64,
        name: StreamName,
        mux: Mux,
        settings: stream::Settings,
        workers: usize,
        now: Time,
    ) -> Live {
        // What links are made of is the same for all muxes, but for what of a record is not split.
        let spool =
            Spool::new(spool::Settings { record_bytes: mux.record_bytes(), ..spool::Settings::MPEG_TS });
        let chain = spool.chain();
        let paces_all = matches!(settings.pacing, Pacing::Rate(_));
        let holds_pictures_back = settings.flush != FlushPolicy::Frame;
        let stream = Stream::new(mux, settings, now);
        Live {
            id,
            name,
            mux,
            chain,
            counters: StreamCounters::default(),
            telemetry: Telemetry::new(now),
            subscribers: Subscribers::default(),
            viewer_figures: Mutex::default(),
            watchers: Mutex::default(),
            began: now,
            core: Mutex::new(Core {
                stream,
                spool,
                media_type: None,
                slot: PublisherSlot::new(now),
                slate: None,
                armed: None,
            }),
            tail: AtomicU64::new(0),
            newest_seam: AtomicU64::new(0),
            unsent_end: AtomicU64::new(u64::MAX),
            pace_bps: AtomicU64::new(0),
            flush_bytes: AtomicU64::new(0),
            paces_all: AtomicBool::new(paces_all),
            holds_pictures_back: AtomicBool::new(holds_pictures_back),
            ended: AtomicBool::new(false),
            is_broken: AtomicBool::new(false),
            is_broken_told: AtomicBool::new(false),
            audiences: Audiences::new(workers),
        }
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(|poisoned| self.end_broken(poisoned.into_inner()))
    }

    /// A panic has left the stream's state half-written: the stream ends with what viewers were shown before. The caller of
    /// [`Live::take_broken`] tells the workers.
    #[cold]
    fn end_broken<'a>(&self, mut core: MutexGuard<'a, Core>) -> MutexGuard<'a, Core> {
        let now = Clock::new().now();
        self.is_broken.store(true, Ordering::Release);
        self.end();
        core.stream = Stream::new(self.mux, OVER, now);
        core.slot.end(now);
        core.slate = None;
        core.armed = None;
        self.core.clear_poison();
        core
    }

    /// Whether a panic has ended the stream since the last call.
    pub fn take_broken(&self) -> bool {
        if self.core.is_poisoned() {
            drop(self.lock());
        }
        self.is_broken.load(Ordering::Acquire) && !self.is_broken_told.swap(true, Ordering::AcqRel)
    }

    /// Lets viewers see all that was appended.
    fn flush(&self, core: &mut Core) {
        if self.is_broken.load(Ordering::Acquire) {
            // Part of what was appended may be missing.
            return;
        }
        core.stream.flushed();
        if core.stream.wants_moment() {
            let clock = Clock::new();
            core.stream.pictures_flushed(Moment { at: clock.now(), utc: clock.utc() });
            // Before viewers see the picture, so that the first `note_sent` of it notes the time.
            self.note_unsent(core);
        }
        let before = self.chain.head();
        core.spool.publish();
        let brought = self.chain.head() - before;
        if brought > 0 {
            // A running mean: key frames come seldom. The stream's lock is held.
            let mean = self.flush_bytes.load(Ordering::Relaxed);
            let mean = if mean == 0 { brought } else { mean - mean / 32 + brought / 32 };
            self.flush_bytes.store(mean, Ordering::Relaxed);
        }
    }

    /// The same where it is time. Returns what the caller has to do.
    fn flush_if(&self, core: &mut Core, is_time: bool) -> Flushed {
        if is_time {
            self.flush(core);
        }
        core.flushed(is_time)
    }

    fn note_unsent(&self, core: &Core) {
        self.unsent_end.store(core.stream.unsent_end(), Ordering::Relaxed);
    }

    /// A viewer that entered at the offset `from` has been given all in front of `to`. Nearly always that tells nothing,
    /// which is known without the lock: each picture's first viewer alone tells when it was sent.
    pub fn note_sent(&self, from: u64, to: u64) {
        if to >= self.unsent_end.load(Ordering::Relaxed) {
            let mut core = self.lock();
            core.stream.pictures_sent(from, to, Clock::new().now());
            self.note_unsent(&core);
        }
    }

    /// Keeps and sends the stream as `settings` say from now on. What waited is shown; the caller then tells the
    /// workers.
    pub fn reconfigure(&self, settings: stream::Settings) {
        let mut core = self.lock();
        self.flush(&mut core);
        core.stream.reconfigure(settings);
        if settings.pacing == Pacing::Off {
            self.pace_bps.store(0, Ordering::Relaxed);
        }
        self.paces_all.store(matches!(settings.pacing, Pacing::Rate(_)), Ordering::Relaxed);
        self.holds_pictures_back.store(settings.flush != FlushPolicy::Frame, Ordering::Relaxed);
    }

    /// The publisher of `session` has come from another process, at `connection` from now on. Returns
    /// whether the slot is its.
    pub fn reclaim(&self, session: u64, connection: Option<ConnectionId>) -> bool {
        self.lock().slot.reclaim(session, connection)
    }

    /// Frees the slot of a publisher that has not come over from the other process.
    pub fn release_absent(&self, now: Time) {
        let absent = self.lock().slot.absent_session();
        if let Some(session) = absent {
            self.release(session, now);
        }
    }

    /// Takes the publisher slot, if it is free or `take_over` is asked, or where `piece` is of the publisher that the
    /// slot is kept for between two pieces.
    pub fn acquire(
        &self,
        connection: Option<ConnectionId>,
        take_over: bool,
        piece: Option<&Piece>,
        now: Time,
    ) -> Acquisition {
        let mut core = self.lock();
        core.settle(&self.name, now);
        if !take_over && !core.slot.is_free_for(piece) {
            return Acquisition::Taken;
        }
        // What another publisher left is whole as it is.
        self.flush(&mut core);
        let Core { stream, slot, slate, .. } = &mut *core;
        let gate = slate.as_mut().map(|slate| &mut slate.gate);
        let acquisition = slot.grant(connection, piece, IntoStream { stream, gate }, now);
        core.wake_where_left();
        acquisition
    }

    /// `piece` has ended: keeps the publisher slot until `until` for the next piece, if `session` still has it. Returns
    /// whether it is kept. Nothing shows that others follow the first piece: after that the slot is free, and
    /// [`Live::release`] has nothing more to do. The caller then tells the workers.
    pub fn rest(&self, session: u64, piece: &EndedPiece<'_>, until: Time, now: Time) -> bool {
        let mut core = self.lock();
        if !core.slot.is_held_by(session) {
            return false;
        }
        self.flush(&mut core);
        let Core { stream, slot, .. } = &mut *core;
        let is_kept = slot.rest(piece, stream, until, now);
        if !is_kept {
            core.rest_publisher(now);
        }
        is_kept
    }

    /// Ends the stream for another one under its name. Returns where its publisher is; the caller tells that to go, and
    /// the workers that there is news.
    pub fn end_replaced(&self) -> Option<ConnectionId> {
        let mut core = self.lock();
        self.flush(&mut core);
        self.end();
        core.slot.vacate()
    }

    /// Frees the publisher slot, if `session` still has it. The caller then tells the workers.
    pub fn release(&self, session: u64, now: Time) {
        let mut core = self.lock();
        if core.slot.is_held_by(session) {
            self.flush(&mut core);
            core.slot.release(now);
            core.end_publisher();
        }
    }

    /// Frees the slot of the publisher at `connection`, which could not do so itself. Returns whether
    /// there was one; the caller then tells the workers.
    pub fn release_connection(&self, connection: ConnectionId, now: Time) -> bool {
        let session = self.lock().slot.session_at(connection);
        session.inspect(|session| self.release(*session, now)).is_some()
    }

    /// What the publisher of `session` sends from here on does not continue what it has sent. Returns its session from now
    /// on; `None` where the slot is no longer its. The caller then tells the workers.
    pub fn begin_anew(&self, session: u64, now: Time) -> Option<u64> {
        let mut core = self.lock();
        if !core.slot.is_held_by(session) {
            return None;
        }
        self.flush(&mut core);
        match &mut core.slate {
            Some(slate) => slate.gate.begin_anew(),
            None => core.stream.begin_session(now),
        }
        core.wake_where_left();
        Some(core.slot.begin_anew())
    }

    /// Whether the publisher of `session` has the slot, and the stream goes on.
    pub fn is_held_by(&self, session: u64) -> bool {
        self.lock().slot.is_held_by(session) && !self.has_ended()
    }

    /// Whether the publisher has been gone for as long as `window`.
    pub fn is_abandoned(&self, window: Duration, now: Time) -> bool {
        let mut core = self.lock();
        core.settle(&self.name, now);
        if core.slate.is_some() {
            return false;
        }
        // A stream that never had a byte has nothing that viewers could wait for.
        let window = if core.stream.head() == 0 { Duration::ZERO } else { window };
        !core.slot.is_held() && now.since(core.slot.gone_since()) > window
    }

    /// Since when its publisher is there; `None` where it has none.
    pub fn published_since(&self) -> Option<Time> {
        self.lock().slot.published_since()
    }

    /// Since when it waits for a publisher, and is neither watched nor subscribed to; `None` where it does not.
    pub fn waits_since(&self) -> Option<Time> {
        let core = self.lock();
        let is_read = self.viewers() > 0 || !self.subscribers.is_empty();
        (!core.slot.is_held() && !is_read && core.slate.is_none()).then_some(core.slot.gone_since())
    }

    /// Sets what its bytes are called in HTTP, where that is a media type of streams; otherwise they are called as its
    /// mux is.
    pub fn call(&self, media_type: Option<&str>) {
        self.lock().media_type = media_type.and_then(stream_media_type).map(str::to_owned);
    }

    /// What its bytes are called in HTTP.
    pub fn media_type(&self) -> String {
        self.lock().media_type.clone().unwrap_or_else(|| self.mux.media_type().to_owned())
    }

    /// The publisher has nothing more for now.
    pub fn pause(&self, now: Time) -> Flushed {
        let mut core = self.lock();
        let is_time = core.stream.pause(now);
        self.flush_if(&mut core, is_time)
    }

    /// A time that [`Flushed::wake_at`] asked for has come.
    pub fn handle_timeout(&self, now: Time) -> Flushed {
        let mut core = self.lock();
        if core.armed.is_none_or(|armed| armed > now) {
            // An earlier time was asked for since, and has been: answered again, each would ask for one more.
            return Flushed { news: false, wake_at: None };
        }
        core.armed = None;
        let is_time = core.stream.poll_timeout().is_some_and(|at| at <= now);
        self.flush_if(&mut core, is_time)
    }

    /// When a worker has to call [`Live::handle_timeout`].
    pub fn armed(&self) -> Option<Time> {
        self.lock().armed
    }

    /// Where a viewer begins that is moved.
    pub fn newest_entry(&self) -> Option<Entry> {
        self.lock().stream.newest_entry().cloned()
    }

    /// Bits a second from the publisher, over the last two seconds.
    pub fn bitrate_bps(&self, now: Time) -> u64 {
        self.lock().stream.bitrate_bps(now)
    }

    /// Where a viewer that comes now begins, as far back as it or the stream's settings say.
    pub fn entry_to_join(&self, prebuffer: Option<Prebuffer>, now: Time) -> Option<Entry> {
        self.lock().stream.entry_to_join(prebuffer, now).cloned()
    }

    /// What a reader needs in front of the bytes from `offset` on, where a picture begins there.
    pub fn prelude_at(&self, offset: u64) -> Option<Vec<u8>> {
        self.lock().stream.prelude_at(offset)
    }

    /// Where the record ends that the byte at `offset` is in, or as far as it has come.
    pub fn record_end(&self, offset: u64) -> u64 {
        self.lock().stream.record_end(offset)
    }

    /// Where the stream ends for a viewer that entered at `offset`, if another header is needed behind.
    pub fn seam_behind(&self, offset: u64) -> Option<u64> {
        // Nearly always there is none, which is known without the lock.
        let newest = self.newest_seam.load(Ordering::Acquire);
        (offset < newest).then(|| self.lock().stream.seam_behind(offset).unwrap_or(newest))
    }

    /// When which offset was reached.
    pub fn marks(&self) -> Vec<OffsetTime> {
        self.lock().stream.marks().collect()
    }

    /// Bytes that publishers sent.
    pub fn bytes_in(&self) -> u64 {
        self.lock().stream.counters().bytes_in
    }

    /// The oldest offset that is kept.
    pub fn tail(&self) -> u64 {
        self.tail.load(Ordering::Acquire)
    }

    /// What viewers' connections are paced at, in bits a second; 0 where they are not.
    pub fn pace_bps(&self) -> u64 {
        self.pace_bps.load(Ordering::Relaxed)
    }

    /// What leaves at once, a mean of bytes; 0 where nothing has.
    pub fn flush_bytes(&self) -> u64 {
        self.flush_bytes.load(Ordering::Relaxed)
    }

    /// Whether viewers are paced even where their paths have shown that they need not be: at a rate that was given.
    pub fn paces_all(&self) -> bool {
        self.paces_all.load(Ordering::Relaxed)
    }

    /// Whether its flush policy lets pictures wait for others.
    pub fn holds_pictures_back(&self) -> bool {
        self.holds_pictures_back.load(Ordering::Relaxed)
    }

    /// Whether it has ended: no more bytes will come, and viewers that have read all leave.
    pub fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the stream. The caller then tells the workers.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
    }

    /// A viewer has come to worker `worker`.
    pub fn viewer_joins(&self, worker: usize) {
        self.audiences.join(worker);
        self.counters.joined.increment();
    }

    /// The same for one that has joined already, in another process.
    pub fn viewer_comes_over(&self, worker: usize) {
        self.audiences.join(worker);
    }

    /// A viewer of worker `worker` has gone.
    pub fn viewer_leaves(&self, worker: usize) {
        self.audiences.leave(worker);
    }

    /// A viewer has come to another door than the workers'; it reads by a subscription.
    pub fn viewer_joins_at_door(&self) {
        self.audiences.join_at_door();
        self.counters.joined.increment();
    }

    /// A viewer of another door has gone.
    pub fn viewer_leaves_door(&self) {
        self.audiences.leave_door();
    }

    /// Viewers on all workers and at other doors.
    pub fn viewers(&self) -> usize {
        self.audiences.viewers()
    }

    /// Sets whether it is sent to outputs (which take MPEG-TS alone): their thread is then told of news like a worker
    /// with a viewer.
    pub fn set_has_outputs(&self, has_outputs: bool) {
        self.audiences.set_has_outputs(has_outputs && self.mux == Mux::MpegTs);
    }

    /// The same of the packager, which makes a presentation of it where it can of its mux.
    pub fn set_is_packaged(&self, is_packaged: bool) {
        self.audiences.set_is_packaged(is_packaged && self.mux.is_packaged());
    }

    /// Whether the packager makes a presentation of it now.
    pub fn is_packaged(&self) -> bool {
        self.audiences.is_packaged()
    }

    /// Whether worker `worker` has viewers that were not told of news yet; from now on they count as told.
    pub fn notify(&self, worker: usize) -> bool {
        self.audiences.notify(worker)
    }

    /// The worker looks at the news now; it is told again of what comes from here on.
    pub fn heard(&self, worker: usize) {
        self.audiences.heard(worker);
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
mod publishers_tests;
