//! One live stream: its state ([`Stream`], pure), its bytes ([`Spool`]) and its publisher slot, under one lock.

use crate::counters::{HandedCounts, StreamCounters};
use crate::pieces::{Continued, EndedPiece, LeftPiece, Piece};
use crate::status::StreamStatus;
use crate::subscribers::Subscribers;
use crate::telemetry::{Telemetry, TelemetryState};
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::stream_media_type;
use glassline_delivery::stream::{
    self, Backlog, Block, Entry, FlushPolicy, Moment, Mux, OffsetTime, Pacing, Prebuffer, Stream, StreamError,
};
use glassline_delivery::telemetry;
use glassline_delivery::telemetry::stages::{PassedPicture, RelayFigures, ViewerFigures};
use glassline_delivery::telemetry::watchers::Watchers;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, inject};
use glassline_io::spool::{self, Chain, LinkFile, Spool};
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};
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

/// Threads that are told of news beside the workers: that of outputs, and the packager. Their numbers follow the workers'.
pub const THREADS_BESIDE: usize = 2;

/// How a stream is kept of which nothing is kept any more.
const OVER: stream::Settings = stream::Settings {
    backlog: Backlog { time: Duration::ZERO, bytes: 0 },
    flush: FlushPolicy::Frame,
    pacing: Pacing::Off,
    prebuffer: Prebuffer::NONE,
};

/// Where a publisher's connection is, so that it can be told to go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seat {
    /// Its worker.
    pub worker: usize,
    /// Its token there.
    pub token: u64,
}

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
    /// One for each thread that has an inbox: workers, outputs, packager.
    audiences: Box<[Audience]>,
}

/// A worker's viewers of this stream.
#[derive(Debug, Default)]
struct Audience {
    viewers: AtomicUsize,
    told: AtomicBool,
}

fn audiences(workers: usize) -> Box<[Audience]> {
    (0..workers + THREADS_BESIDE).map(|_| Audience::default()).collect()
}

#[derive(Debug)]
struct Core {
    stream: Stream,
    spool: Spool,
    media_type: Option<String>,
    holder: Option<Holder>,
    /// The last request of the present publisher, or of the last one, has ended as a piece does.
    left: Option<LeftPiece>,
    /// How many publishers had come when the present one's request began.
    sessions_at_claim: u64,
    sessions: u64,
    gone_since: Time,
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

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Holder {
    session: u64,
    /// Where its connection is; processes do not tell each other.
    #[serde(skip)]
    seat: Option<Seat>,
    /// Whether it is in this process.
    #[serde(skip)]
    is_here: bool,
    since: Time,
    /// It sends piece by piece, and the next one has to begin until then; processes do not tell each other.
    #[serde(skip)]
    rests_until: Option<Time>,
}

/// A stream as one process leaves it to the next, but for its links.
#[derive(Debug, Serialize, Deserialize)]
pub struct LiveState {
    /// [`Live::id`].
    pub id: u64,
    /// [`Live::name`].
    pub name: String,
    /// Whether it has ended.
    pub ended: bool,
    began: Time,
    pace_bps: u64,
    counts: HandedCounts,
    telemetry: TelemetryState,
    /// An earlier version knew none.
    #[serde(default)]
    viewer_figures: ViewerFigures,
    stream: Stream,
    media_type: Option<String>,
    spool: spool::Settings,
    head: u64,
    first_link: u64,
    holder: Option<Holder>,
    sessions: u64,
    gone_since: Time,
}

/// What a claim of the publisher slot came to.
pub enum Claim {
    /// The caller has it.
    Granted {
        /// What it pushes under.
        session: u64,
        /// The publisher that had the slot before; the caller tells it to go.
        evicted: Option<Seat>,
        /// It is the next piece of what was sent before.
        continued: Option<Continued>,
    },
    /// Another publisher has it.
    Taken,
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
                holder: None,
                left: None,
                sessions_at_claim: 0,
                sessions: 0,
                gone_since: now,
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
            audiences: audiences(workers),
        }
    }

    /// What the next process needs of it, and the links. What waited is shown.
    pub fn state(&self) -> (LiveState, Vec<LinkFile>) {
        let mut core = self.lock();
        self.flush(&mut core);
        let Core { stream, spool, media_type, holder, sessions, gone_since, .. } = &*core;
        let state = LiveState {
            id: self.id,
            name: self.name.to_string(),
            ended: self.has_ended(),
            began: self.began,
            pace_bps: self.pace_bps(),
            counts: self.counters.state(),
            telemetry: self.telemetry.state(),
            viewer_figures: self.viewer_figures().clone(),
            stream: stream.clone(),
            media_type: media_type.clone(),
            spool: spool.settings().clone(),
            head: spool.head(),
            first_link: spool.first_link(),
            holder: *holder,
            sessions: *sessions,
            gone_since: *gone_since,
        };
        (state, spool.links())
    }

    /// The stream that another process left, with its links. Its publisher has to take the slot by [`Live::reclaim`],
    /// or [`Live::release_absent`] frees it.
    pub fn restore(
        state: LiveState,
        name: StreamName,
        links: Vec<OwnedFd>,
        workers: usize,
    ) -> io::Result<Live> {
        let spool = Spool::restore(state.spool, state.head, state.first_link, links)?;
        let LiveState { stream, media_type, holder, sessions, gone_since, .. } = state;
        let stream = stream.restored();
        // An earlier version passed on whatever its source said.
        let media_type = media_type.filter(|media_type| stream_media_type(media_type).is_some());
        let paces_all = matches!(stream.pacing(), Pacing::Rate(_));
        let holds_pictures_back = stream.flush_policy() != FlushPolicy::Frame;
        let (chain, tail, newest_seam) = (spool.chain(), stream.tail(), stream.newest_seam());
        Ok(Live {
            id: state.id,
            name,
            mux: stream.mux(),
            chain,
            counters: StreamCounters::restore(&state.counts).map_err(io::Error::other)?,
            telemetry: Telemetry::restore(state.telemetry),
            subscribers: Subscribers::default(),
            viewer_figures: Mutex::new(state.viewer_figures),
            watchers: Mutex::default(),
            began: state.began,
            core: Mutex::new(Core {
                stream,
                spool,
                media_type,
                holder,
                left: None,
                sessions_at_claim: 0,
                sessions,
                gone_since,
                armed: None,
            }),
            tail: AtomicU64::new(tail),
            newest_seam: AtomicU64::new(newest_seam),
            unsent_end: AtomicU64::new(u64::MAX),
            pace_bps: AtomicU64::new(state.pace_bps),
            flush_bytes: AtomicU64::new(0),
            paces_all: AtomicBool::new(paces_all),
            holds_pictures_back: AtomicBool::new(holds_pictures_back),
            ended: AtomicBool::new(state.ended),
            is_broken: AtomicBool::new(false),
            is_broken_told: AtomicBool::new(false),
            audiences: audiences(workers),
        })
    }

    /// The publisher of `session` has come from another process, with its connection at `seat` from now on. Returns
    /// whether the slot is its.
    pub fn reclaim(&self, session: u64, seat: Option<Seat>) -> bool {
        let mut core = self.lock();
        match &mut core.holder {
            Some(holder) if holder.session == session => {
                (holder.seat, holder.is_here) = (seat, true);
                true
            }
            _ => false,
        }
    }

    /// Frees the slot of a publisher that has not come over from the other process.
    pub fn release_absent(&self, now: Time) {
        let absent = self.lock().holder.filter(|holder| !holder.is_here);
        if let Some(holder) = absent {
            self.release(holder.session, now);
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
        core.holder = None;
        core.armed = None;
        core.gone_since = now;
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

    /// Gives `read` the pictures of the last ten seconds that say when they were captured, in the order in which they came.
    pub fn passed_pictures<T>(
        &self,
        now: Time,
        read: impl FnOnce(&mut dyn Iterator<Item = &PassedPicture>) -> T,
    ) -> T {
        read(&mut self.lock().stream.passed_pictures(now))
    }

    /// Gives `read` what the stages of all pictures add up to; nothing of other muxes than MPEG-TS.
    pub fn relay_figures<T>(&self, read: impl FnOnce(&RelayFigures) -> T) -> Option<T> {
        self.lock().stream.relay_figures().map(read)
    }

    /// Where its viewers are, by subscribers' addresses ([`crate::presence::subscriber`]).
    pub fn watchers(&self) -> MutexGuard<'_, Watchers> {
        // They are as good after each change as before it, whatever panicked in between.
        self.watchers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What viewers report.
    pub fn viewer_figures(&self) -> MutexGuard<'_, ViewerFigures> {
        // Figures: the worst that a panic in between can do is a report that is half counted.
        self.viewer_figures.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Takes the publisher slot, if it is free or `take_over` is asked, or where `piece` is of the publisher that the
    /// slot is kept for between two pieces.
    pub fn claim(&self, seat: Option<Seat>, take_over: bool, piece: Option<&Piece>, now: Time) -> Claim {
        let mut core = self.lock();
        self.settle(&mut core, now);
        let left =
            core.left.clone().filter(|left| piece.is_some_and(|piece| piece.publisher == left.publisher));
        let is_its = core.holder.is_some_and(|holder| holder.rests_until.is_some()) && left.is_some();
        if core.holder.is_some() && !is_its && !take_over {
            return Claim::Taken;
        }
        // What another publisher left is whole as it is.
        self.flush(&mut core);
        core.sessions += 1;
        let session = core.sessions;
        let from = piece.and_then(|piece| piece.from);
        // Where it says at which place it begins, that counts; else its packets have to show that they follow.
        let left = left.filter(|left| now <= left.until && from.is_none_or(|from| from == left.end));
        let continues = left.is_some() && core.stream.return_session(from.is_none());
        let continued = left.filter(|_| continues).map(|left| Continued {
            count: left.count,
            from: from.unwrap_or(left.end),
            meter: left.meter,
        });
        if continued.is_none() {
            core.stream.begin_session(now);
        }
        core.left = None;
        core.sessions_at_claim = core.stream.counters().sessions;
        let since = core.holder.filter(|_| continued.is_some()).map_or(now, |holder| holder.since);
        let evicted = core
            .holder
            .replace(Holder { session, seat, is_here: true, since, rests_until: None })
            .and_then(|holder| holder.seat);
        Claim::Granted { session, evicted, continued }
    }

    /// Frees the slot of a publisher that sends piece by piece and has not gone on in time.
    fn settle(&self, core: &mut Core, now: Time) {
        if let Some(until) = core.holder.and_then(|holder| holder.rests_until).filter(|until| now > *until) {
            core.holder = None;
            core.gone_since = until;
            tracing::info!(stream = %self.name, "publisher sent no further piece and gave up its name");
        }
    }

    /// `piece` has ended: keeps the publisher slot until `until` for the next piece, if `session` still has it. Returns
    /// whether it is kept. Nothing shows that others follow the first piece: after that the slot is free, and
    /// [`Live::release`] has nothing more to do. The caller then tells the workers.
    pub fn rest(&self, session: u64, piece: &EndedPiece<'_>, until: Time, now: Time) -> bool {
        let mut core = self.lock();
        let Some(holder) = core.holder.filter(|holder| holder.session == session) else { return false };
        self.flush(&mut core);
        let has_gone_on = core.stream.counters().sessions == core.sessions_at_claim;
        // Its packets may have shown that it is the first piece of another publisher.
        let before = if has_gone_on { piece.before } else { 0 };
        let count = before.saturating_add(1);
        let end = piece.from.saturating_add(piece.bytes);
        let (publisher, meter) = (piece.publisher.clone(), piece.meter);
        core.left = Some(LeftPiece { publisher, end, meter, until, count });
        core.holder = (count > 1).then_some(Holder { seat: None, rests_until: Some(until), ..holder });
        core.gone_since = now;
        core.holder.is_some()
    }

    /// Ends the stream for another one under its name. Returns where its publisher is; the caller tells that to go, and
    /// the workers that there is news.
    pub fn give_way(&self) -> Option<Seat> {
        let mut core = self.lock();
        self.flush(&mut core);
        self.end();
        core.holder.take().and_then(|holder| holder.seat)
    }

    /// Frees the publisher slot, if `session` still has it. The caller then tells the workers.
    pub fn release(&self, session: u64, now: Time) {
        let mut core = self.lock();
        if core.holder.as_ref().is_some_and(|holder| holder.session == session) {
            self.flush(&mut core);
            core.holder = None;
            core.left = None;
            core.gone_since = now;
        }
    }

    /// Frees the slot of the publisher with its connection at `seat`, which could not do so itself. Returns whether
    /// there was one; the caller then tells the workers.
    pub fn release_seat(&self, seat: Seat, now: Time) -> bool {
        let holder = self.lock().holder.filter(|holder| holder.seat == Some(seat));
        holder.inspect(|holder| self.release(holder.session, now)).is_some()
    }

    /// What the publisher of `session` sends from here on does not continue what it has sent. Returns its session from now
    /// on; `None` where the slot is no longer its. The caller then tells the workers.
    pub fn begin_anew(&self, session: u64, now: Time) -> Option<u64> {
        let mut core = self.lock();
        let holder = core.holder.filter(|holder| holder.session == session)?;
        self.flush(&mut core);
        core.sessions += 1;
        let session = core.sessions;
        core.stream.begin_session(now);
        core.holder = Some(Holder { session, ..holder });
        Some(session)
    }

    /// Whether the publisher of `session` has the slot, and the stream goes on.
    pub fn is_held_by(&self, session: u64) -> bool {
        let is_its = |core: &Core| core.holder.is_some_and(|holder| holder.session == session);
        is_its(&self.lock()) && !self.has_ended()
    }

    /// Appends what a publisher sent. Returns whether viewers have news; [`Live::pause`] has to follow in any case once
    /// the publisher has nothing more for now.
    pub fn push(&self, session: u64, bytes: &[u8], now: Time) -> Result<bool, PushError> {
        self.append(&mut self.lock(), session, bytes, now)
    }

    /// [`Live::push`] and [`Live::pause`] at once, for a publisher that pushes all that it has. What the caller has to
    /// do is returned beside an error too: the stream may have ended by it.
    pub fn push_all(&self, session: u64, bytes: &[u8], now: Time) -> (Result<(), PushError>, Flushed) {
        let mut core = self.lock();
        let pushed = self.append(&mut core, session, bytes, now);
        let is_time = core.stream.pause(now);
        let paused = self.flush_if(&mut core, is_time);
        let news = paused.news || !matches!(pushed, Ok(false));
        (pushed.map(drop), Flushed { news, ..paused })
    }

    fn append(&self, core: &mut Core, session: u64, bytes: &[u8], now: Time) -> Result<bool, PushError> {
        if core.holder.as_ref().is_none_or(|holder| holder.session != session) || self.has_ended() {
            return Err(PushError::Evicted);
        }
        inject(Border::Connection, || format!("append:{}", self.name));
        let Core { stream, spool, .. } = core;
        let mut appended = Ok(());
        let pushed = stream.push(bytes, now, &mut |run| {
            if appended.is_ok() {
                appended = spool.append(run);
            }
        });
        if let Err(error) = appended {
            // Offsets and bytes no longer agree: this stream is over, and a new one may begin under its name.
            self.end();
            return Err(error.into());
        }
        self.tail.store(stream.tail(), Ordering::Release);
        self.newest_seam.store(stream.newest_seam(), Ordering::Release);
        spool.drop_before(stream.tail());
        if let Some(pace) = stream.poll_pace(now) {
            self.pace_bps.store(pace, Ordering::Relaxed);
        }
        let has_enough = pushed?;
        if has_enough {
            self.flush(core);
        }
        Ok(has_enough)
    }

    /// A block begins in what the publisher sends. Only [`Mux::Raw`] needs that: other muxes say themselves what has to
    /// be known.
    pub fn begin_block(&self, session: u64, block: Block, size: u32, now: Time) -> Result<(), PushError> {
        let mut core = self.lock();
        if core.holder.as_ref().is_none_or(|holder| holder.session != session) || self.has_ended() {
            return Err(PushError::Evicted);
        }
        core.stream.begin_block(block, size, now)?;
        self.newest_seam.store(core.stream.newest_seam(), Ordering::Release);
        Ok(())
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

    /// Whether the publisher has been gone for as long as `window`.
    pub fn is_abandoned(&self, window: Duration, now: Time) -> bool {
        let mut core = self.lock();
        self.settle(&mut core, now);
        // A stream that never had a byte has nothing that viewers could wait for.
        let window = if core.stream.head() == 0 { Duration::ZERO } else { window };
        core.holder.is_none() && now.since(core.gone_since) > window
    }

    /// Since when its publisher is there; `None` where it has none.
    pub fn published_since(&self) -> Option<Time> {
        self.lock().holder.as_ref().map(|holder| holder.since)
    }

    /// Since when it waits for a publisher, and is neither watched nor subscribed to; `None` where it does not.
    pub fn waits_since(&self) -> Option<Time> {
        let core = self.lock();
        let is_read = self.viewers() > 0 || !self.subscribers.is_empty();
        (core.holder.is_none() && !is_read).then_some(core.gone_since)
    }

    /// A viewer has come to worker `worker`.
    pub fn viewer_joins(&self, worker: usize) {
        self.viewer_sits(worker);
        self.counters.joined.increment();
    }

    /// The same for one that has joined already, in another process.
    pub fn viewer_sits(&self, worker: usize) {
        self.audiences[worker].viewers.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// A viewer of worker `worker` has gone.
    pub fn viewer_leaves(&self, worker: usize) {
        self.audiences[worker].viewers.fetch_sub(1, Ordering::AcqRel);
    }

    /// Viewers on all workers.
    pub fn viewers(&self) -> usize {
        let workers = self.audiences.len() - THREADS_BESIDE;
        self.audiences[..workers].iter().map(|audience| audience.viewers.load(Ordering::Acquire)).sum()
    }

    /// Sets whether it is sent to outputs (which take MPEG-TS alone): their thread is then told of news like a worker
    /// with a viewer.
    pub fn set_has_outputs(&self, has_outputs: bool) {
        let listens = has_outputs && self.mux == Mux::MpegTs;
        self.set_listens(self.audiences.len() - THREADS_BESIDE, listens);
    }

    /// The same of the packager, which makes a presentation of it where it can of its mux.
    pub fn set_is_packaged(&self, is_packaged: bool) {
        let listens = is_packaged && self.mux.is_packaged();
        self.set_listens(self.audiences.len() - THREADS_BESIDE + 1, listens);
    }

    fn set_listens(&self, thread: usize, listens: bool) {
        self.audiences[thread].viewers.store(usize::from(listens), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether worker `worker` has viewers that were not told of news yet; from now on they count as told.
    ///
    /// The fences here, in [`Live::heard`] and in [`Live::viewer_joins`] order "grow, then look which worker to tell"
    /// against "say that I look, then look how far it has grown": without them each side could miss the other, and a
    /// viewer would wait for bytes that are there.
    pub fn notify(&self, worker: usize) -> bool {
        fence(Ordering::SeqCst);
        let audience = &self.audiences[worker];
        audience.viewers.load(Ordering::Acquire) > 0 && !audience.told.swap(true, Ordering::AcqRel)
    }

    /// The worker looks at the news now; it is told again of what comes from here on.
    pub fn heard(&self, worker: usize) {
        self.audiences[worker].told.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// What its history takes of this moment, but for what viewers tell.
    pub fn moment(&self) -> telemetry::Moment {
        telemetry::Moment {
            bytes_in: self.bytes_in(),
            bytes_out: self.counters.bytes_out.value(),
            moved_forward: self.counters.moved_forward.value(),
            retransmitted: self.counters.retransmitted.value(),
            viewers: u32::try_from(self.viewers()).unwrap_or(u32::MAX),
            slow: 0,
            behind_ms: None,
        }
    }

    /// What is known of it now, but for its source, its outputs, and what is left out of its presentations.
    pub fn status(&self, now: Time) -> StreamStatus {
        let core = self.lock();
        let stream = &core.stream;
        let counters = stream.counters();
        let (why, behind, behind_ever) = self.telemetry.figures();
        StreamStatus {
            source: None,
            outputs: Vec::new(),
            name: self.name.clone(),
            mux: self.mux,
            live: core.holder.is_some(),
            bitrate_bps: stream.bitrate_bps(now),
            viewers: self.viewers(),
            viewers_joined: self.counters.joined.value(),
            left_out: Vec::new(),
            streams: stream.program().map(|program| program.streams.clone()).unwrap_or_default(),
            video: stream.video_details().cloned(),
            carried: stream.carried_tracks(),
            uptime: core.holder.as_ref().map_or(Duration::ZERO, |holder| now.since(holder.since)),
            age: now.since(self.began),
            newest_byte_age: stream.newest_at().map(|at| now.since(at)),
            key_frame_interval: stream.key_frame_interval(),
            join: stream.join(),
            backlog_bytes: stream.head() - stream.tail(),
            spool_bytes: self.chain.held_bytes(),
            bytes_in: counters.bytes_in,
            bytes_out: self.counters.bytes_out.value(),
            garbage_bytes: counters.garbage_bytes,
            continuity_errors: counters.continuity_errors,
            sessions: counters.sessions,
            moved_forward: self.counters.moved_forward.value(),
            dropped_behind: self.counters.dropped_behind.value(),
            stalled: self.counters.stalled.value(),
            cut_off: self.counters.cut_off.value(),
            retransmitted: self.counters.retransmitted.value(),
            unpaced: self.counters.unpaced.value(),
            pace_bps: Some(self.pace_bps()).filter(|bps| *bps > 0),
            why,
            behind,
            behind_ever,
        }
    }
}

#[cfg(test)]
#[path = "live_tests.rs"]
mod tests;
