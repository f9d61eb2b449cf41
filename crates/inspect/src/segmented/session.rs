//! A stream of a playlist or manifest, followed: a thread for each rendition that loads what there is, and one order of what comes.

use super::caller::{CallFailure, Caller};
use super::dash::{Carries, Manifest, Representation};
use super::follow::{Follower, Step};
use super::hls::{Playlist, Variant};
use super::listing::{Address, Listing, Object};
use super::merge::Merge;
use super::units::{Piece, SegmentReader, Wanted};
use glassline_delivery::http1::Url;
use glassline_delivery::playlist::rewrite::{PLAYLIST_BYTES_MAX, PlaylistKind};
use glassline_io::clock::Clock;
use glassline_io::tls::Connector;
use glassline_media::{Time, Utc, printable};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;
use thiserror::Error;

/// Bytes of one rendition that wait: its thread loads nothing more then.
const HELD_BYTES: usize = 8 << 20;
/// Bytes of an initialisation segment.
const INIT_BYTES: usize = 4 << 20;
/// Bytes that are read at once.
const READ_BYTES: usize = 64 << 10;
/// How long a server has for the head of an answer; one that waits with it has longer.
const ANSWER: Duration = Duration::from_secs(10);
const BLOCKED: Duration = Duration::from_secs(30);
/// The longest that a thread waits before it looks whether it is wanted.
const NAP: Duration = Duration::from_millis(200);
/// How long a rendition waits for another one at the least and at most, and at the beginning.
const WAIT: [Duration; 2] = [Duration::from_secs(2), Duration::from_secs(20)];
const WAIT_FIRST: Duration = Duration::from_secs(10);
/// While bytes come, nothing is missing for so long.
const FLOWING: Duration = Duration::from_secs(1);
/// How often a manifest that needs no news is loaded all the same.
const MANIFEST_AGAIN: Duration = Duration::from_secs(10);
/// A clock that differs by less is the same one: fields of HTTP have whole seconds.
const CLOCK_APART: u64 = 2;

/// Why a stream cannot be followed.
#[derive(Debug, Error)]
pub enum SessionError {
    /// What is at its address does not come.
    #[error(transparent)]
    Call(#[from] CallFailure),
    /// It is no playlist, or a manifest of which nothing can be followed.
    #[error("{0}")]
    Content(&'static str),
    /// Its segments are encrypted.
    #[error("its segments are encrypted, and cannot be decoded without the player's key")]
    Encrypted,
    /// The system starts no thread.
    #[error(transparent)]
    Thread(io::Error),
}

/// A stream that is followed. Dropping it ends it.
#[derive(Debug)]
pub struct Session {
    shared: Arc<Shared>,
    about: String,
    is_recording: bool,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// Something has come.
    news: Condvar,
    /// There is room again, or nothing more is wanted.
    room: Condvar,
}

#[derive(Debug)]
struct State {
    merge: Merge,
    notes: VecDeque<String>,
    /// Until when nothing of the first rendition is missing.
    due: Time,
    /// The server says that there is no such stream, or that it is over.
    is_gone: bool,
    is_stopped: bool,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Where a rendition is found.
enum Found {
    Hls(Url),
    Dash { url: Url, carries: Carries, manifest: Option<(Manifest, Time)>, ahead_s: i64 },
}

impl Session {
    /// Loads what is at `url`, which is of this `kind`, and begins to follow it.
    ///
    /// # Errors
    /// [`SessionError`].
    pub fn open(
        url: &Url,
        kind: PlaylistKind,
        trust: Option<Connector>,
        deadline: Time,
    ) -> Result<Session, SessionError> {
        let mut caller = Caller::new(trust.clone());
        let opened = match kind {
            PlaylistKind::Hls => open_hls(url, &mut caller, deadline)?,
            PlaylistKind::Dash => open_dash(url, &mut caller, deadline)?,
        };
        let Opened { renditions, about, is_recording } = opened;
        let now = Clock.now();
        let merge = Merge::new(renditions.len(), WAIT_FIRST, now);
        let state =
            State { merge, notes: VecDeque::new(), due: now + WAIT_FIRST, is_gone: false, is_stopped: false };
        let shared =
            Arc::new(Shared { state: Mutex::new(state), news: Condvar::new(), room: Condvar::new() });
        let session = Session { shared, about, is_recording };
        for (lane, (found, wanted)) in renditions.into_iter().enumerate() {
            let rendition = Rendition {
                found,
                lane,
                caller: Caller::new(trust.clone()),
                follower: Follower::default(),
                units: SegmentReader::new(wanted),
                shared: Arc::clone(&session.shared),
                open_segment: None,
                is_gone: false,
            };
            // Nothing waits for its end: it may be within an answer that does not come.
            thread::Builder::new()
                .name("rendition".into())
                .spawn(move || rendition.run())
                .map_err(SessionError::Thread)?;
        }
        Ok(session)
    }

    /// Which of the versions is followed.
    pub fn about(&self) -> &str {
        &self.about
    }

    /// All of it is there already, and is read to its end.
    pub fn is_recording(&self) -> bool {
        self.is_recording
    }

    /// The next piece, if one is known by `until`.
    pub fn take(&self, until: Time) -> Option<Piece> {
        let mut state = self.shared.lock();
        loop {
            let now = Clock.now();
            if let Some(piece) = state.merge.pop(now) {
                drop(state);
                self.shared.room.notify_all();
                return Some(piece);
            }
            let left = until.since(now);
            if left.is_zero() || state.merge.is_over() && self.is_recording {
                return None;
            }
            let waited = self.shared.news.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// A recording has been read to its end.
    pub fn is_over(&self) -> bool {
        self.is_recording && self.shared.lock().merge.is_over()
    }

    /// The server says that there is no such stream, or that it is over.
    pub fn is_gone(&self) -> bool {
        self.shared.lock().is_gone
    }

    /// Nothing is missing at `now`: new segments are not due yet.
    pub fn is_in_time(&self, now: Time) -> bool {
        now < self.shared.lock().due
    }

    /// What cannot be read of it, each said once.
    pub fn take_note(&self) -> Option<String> {
        self.shared.lock().notes.pop_front()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.room.notify_all();
    }
}

struct Opened {
    renditions: Vec<(Found, Wanted)>,
    about: String,
    is_recording: bool,
}

const BOTH: Wanted = Wanted { pictures: true, sound: true };
const PICTURES: Wanted = Wanted { pictures: true, sound: false };
const SOUND: Wanted = Wanted { pictures: false, sound: true };

fn load_hls(url: &Url, caller: &mut Caller, deadline: Time) -> Result<(Playlist, Url), SessionError> {
    let address = Address { url: url.clone(), range: None };
    let (body, found, _) = caller.whole(&address, PLAYLIST_BYTES_MAX, deadline)?;
    let playlist = Playlist::parse(&String::from_utf8_lossy(&body));
    Ok((playlist.ok_or(SessionError::Content("it is no playlist of HLS"))?, found))
}

fn open_hls(url: &Url, caller: &mut Caller, deadline: Time) -> Result<Opened, SessionError> {
    let (playlist, found) = load_hls(url, caller, deadline)?;
    let (renditions, about, media) = match playlist {
        Playlist::Media(media) => {
            (vec![(Found::Hls(url.clone()), BOTH)], "one media playlist".to_owned(), media)
        }
        Playlist::Multivariant(variants) => {
            let count = variants.len();
            let best = variants
                .into_iter()
                .reduce(|best, next| if next.bandwidth_bps > best.bandwidth_bps { next } else { best });
            let Variant { uri, bandwidth_bps, resolution, sound } =
                best.ok_or(SessionError::Content("it lists no versions"))?;
            let address = |uri: &str| {
                found.redirected(uri).map_err(|_| SessionError::Content("it lists an address that is none"))
            };
            let pictures = address(&uri)?;
            let mut about = version(count, resolution.as_deref(), bandwidth_bps);
            let mut renditions =
                vec![(Found::Hls(pictures.clone()), if sound.is_some() { PICTURES } else { BOTH })];
            if let Some((name, uri)) = sound {
                about += &format!(", with the sound {}", printable::line(&name));
                renditions.push((Found::Hls(address(&uri)?), SOUND));
            }
            match load_hls(&pictures, caller, deadline)?.0 {
                Playlist::Media(media) => (renditions, about, media),
                Playlist::Multivariant(_) => {
                    return Err(SessionError::Content("a version of it is no media playlist"));
                }
            }
        }
    };
    if media.is_encrypted {
        return Err(SessionError::Encrypted);
    }
    Ok(Opened { renditions, about, is_recording: media.has_ended })
}

fn version(count: usize, size: Option<&str>, bandwidth_bps: u64) -> String {
    let size = size.map(|size| format!(" {}", printable::line(size))).unwrap_or_default();
    let which =
        if count == 1 { "the only version,".to_owned() } else { format!("the best of {count} versions,") };
    format!("{which}{size} with {} kbit/s", bandwidth_bps / 1000)
}

fn load_dash(url: &Url, caller: &mut Caller, deadline: Time) -> Result<(Manifest, i64), SessionError> {
    let address = Address { url: url.clone(), range: None };
    let (body, found, date) = caller.whole(&address, PLAYLIST_BYTES_MAX, deadline)?;
    let manifest = Manifest::parse(&String::from_utf8_lossy(&body), &found).map_err(SessionError::Content)?;
    // Segments are found by the server's clock. Where it differs, that is known to a second.
    let here = Clock.utc().as_nanos() / 1_000_000_000;
    let ahead = date
        .filter(|date| date.abs_diff(here) > CLOCK_APART)
        .map_or(0, |date| i64::try_from(date).unwrap_or(0).saturating_sub(i64::try_from(here).unwrap_or(0)));
    Ok((manifest, ahead))
}

fn open_dash(url: &Url, caller: &mut Caller, deadline: Time) -> Result<Opened, SessionError> {
    let (manifest, _) = load_dash(url, caller, deadline)?;
    let of = |carries| manifest.version(carries);
    let (pictures, sound) = (of(Carries::Pictures), of(Carries::Sound));
    if [pictures, sound].into_iter().flatten().any(|version| version.is_encrypted) {
        return Err(SessionError::Encrypted);
    }
    let say = |version: &Representation| {
        let size = version.size.map(|(width, height)| format!(" of {width}x{height}")).unwrap_or_default();
        format!("{}{size} with {} kbit/s", printable::line(&version.id), version.bandwidth_bps / 1000)
    };
    let said = [("video", pictures), ("audio", sound)];
    let said = said.into_iter().filter_map(|(kind, version)| Some(format!("{kind} {}", say(version?))));
    let about = said.collect::<Vec<_>>().join(", ");
    let found = |carries| Found::Dash { url: url.clone(), carries, manifest: None, ahead_s: 0 };
    let renditions = [
        pictures.map(|_| (found(Carries::Pictures), PICTURES)),
        sound.map(|_| (found(Carries::Sound), SOUND)),
    ];
    let renditions = renditions.into_iter().flatten().collect();
    Ok(Opened { renditions, about, is_recording: !manifest.is_live() })
}

/// One rendition, loaded by its own thread.
struct Rendition {
    found: Found,
    lane: usize,
    caller: Caller,
    follower: Follower,
    units: SegmentReader,
    shared: Arc<Shared>,
    /// The segment of which a part came last.
    open_segment: Option<u64>,
    is_gone: bool,
}

impl Rendition {
    fn run(mut self) {
        loop {
            let now = Clock.now();
            if self.shared.lock().is_stopped {
                return;
            }
            match self.follower.next(now) {
                Step::Wait(until) => thread::sleep(until.since(now).min(NAP)),
                Step::Over => {
                    self.shared.lock().merge.expect(self.lane, false);
                    self.shared.news.notify_all();
                    return;
                }
                Step::Break => {
                    self.units.forget();
                    self.give(vec![Piece::Break]);
                }
                Step::Look(ask) => self.look(ask),
                Step::Init(address) => {
                    match self.caller.whole(&address, INIT_BYTES, now + ANSWER) {
                        Ok((bytes, _, _)) => {
                            self.units.set_init(&bytes);
                            self.follower.has_init(address);
                        }
                        Err(error) => self.refused(&error),
                    }
                    self.tell_notes();
                }
                Step::Get(object) => self.get(&object),
            }
        }
    }

    /// Loads the listing.
    fn look(&mut self, ask: Option<Url>) {
        let listing = self.listing(ask);
        let now = Clock.now();
        match listing {
            Ok(listing) if self.is_gone && listing.has_ended => self.follower.is_lost(now),
            Ok(listing) => {
                if std::mem::take(&mut self.is_gone) {
                    self.set_gone(false);
                    self.follower.begin_anew();
                    self.units.forget();
                    self.give(vec![Piece::Break]);
                }
                let missing = self.follower.update(listing, now);
                if missing > 0 {
                    self.give(vec![Piece::Errors(missing)]);
                }
                let [least, most] = WAIT;
                let wait = self.follower.patience().saturating_mul(2).clamp(least, most);
                let wait = if self.follower.is_recording() { most } else { wait };
                self.shared.lock().merge.set_wait(self.lane, wait);
                if self.follower.has_ended() && !self.follower.is_recording() {
                    self.set_gone(true);
                }
            }
            Err(error) => {
                if matches!(&error, SessionError::Call(failure) if failure.is_absence()) {
                    self.set_gone(true);
                }
                self.follower.is_lost(now);
            }
        }
    }

    fn listing(&mut self, ask: Option<Url>) -> Result<Listing, SessionError> {
        let now = Clock.now();
        match &mut self.found {
            Found::Hls(url) => {
                let deadline = now + if ask.is_some() { BLOCKED } else { ANSWER };
                let (playlist, found) = load_hls(ask.as_ref().unwrap_or(url), &mut self.caller, deadline)?;
                match playlist {
                    Playlist::Media(media) => Ok(Listing::of_hls(&media, url, &found)),
                    Playlist::Multivariant(_) => {
                        Err(SessionError::Content("it is no media playlist any more"))
                    }
                }
            }
            Found::Dash { url, carries, manifest, ahead_s } => {
                let is_fresh = manifest
                    .as_ref()
                    .is_some_and(|(known, at)| now.since(*at) < known.fresh_for().min(MANIFEST_AGAIN));
                if !is_fresh {
                    let (loaded, ahead) = load_dash(url, &mut self.caller, now + ANSWER)?;
                    (*manifest, *ahead_s) = (Some((loaded, now)), ahead);
                }
                let utc = Clock.utc().as_nanos().saturating_add_signed(ahead_s.saturating_mul(1_000_000_000));
                let (manifest, _) = manifest.as_ref().ok_or(SessionError::Content("there is no manifest"))?;
                Ok(manifest.listing(*carries, Utc::from_nanos(utc)))
            }
        }
    }

    /// Loads an object, and gives what is in it while it comes.
    fn get(&mut self, object: &Object) {
        let mut answer = match self.caller.ask(&object.at, Clock.now() + ANSWER) {
            Ok(answer) => answer,
            Err(error) => return self.refused(&error),
        };
        let segment = object.is_part.then_some(object.id.0);
        let is_same = segment.is_some() && self.open_segment == segment;
        if !is_same && self.open_segment.is_some() {
            let mut pieces = Vec::new();
            self.units.end(false, &mut pieces);
            self.give(pieces);
        }
        self.open_segment = segment;
        self.units.begin(is_same);
        let (mut buffer, mut has_pieces) = (vec![0; READ_BYTES], false);
        let outcome = loop {
            match answer.read(&mut buffer) {
                Ok(0) => break Ok(()),
                Ok(count) => {
                    let mut pieces = Vec::new();
                    self.units.push(&buffer[..count], &mut pieces);
                    has_pieces |= !pieces.is_empty();
                    // A page of an error that never ends is no segment that comes.
                    if has_pieces || !self.units.is_unknown() {
                        self.in_time(FLOWING);
                    }
                    if !self.give(pieces) {
                        return;
                    }
                }
                Err(error) => break Err(error),
            }
        };
        let mut pieces = Vec::new();
        self.units.end(segment.is_some(), &mut pieces);
        match outcome {
            Ok(()) => self.caller.done(answer),
            // What is missing at its end.
            Err(_) => pieces.push(Piece::Errors(1)),
        }
        has_pieces |= !pieces.is_empty();
        self.give(pieces);
        self.tell_notes();
        self.follower.done();
        if has_pieces || !self.units.is_unknown() {
            self.in_time(self.follower.patience());
        }
        if self.follower.has_ended() && !self.follower.is_recording() {
            self.set_gone(true);
        }
    }

    /// Something that is listed is not there.
    fn refused(&mut self, error: &CallFailure) {
        if self.follower.refused(Clock.now()) {
            let note = format!("a segment that is listed cannot be had: {error}");
            self.shared.lock().notes.push_back(note);
            self.give(vec![Piece::Errors(1)]);
        }
    }

    /// Nothing is missing for so long.
    fn in_time(&self, time: Duration) {
        if self.lane == 0 {
            let until = Clock.now() + time;
            let mut state = self.shared.lock();
            state.due = state.due.max(until);
        }
    }

    fn set_gone(&mut self, is_gone: bool) {
        self.is_gone = is_gone;
        let mut state = self.shared.lock();
        state.merge.expect(self.lane, !is_gone);
        if self.lane == 0 {
            state.is_gone = is_gone;
        }
        drop(state);
        self.shared.news.notify_all();
    }

    /// Gives pieces, and waits while too much of this rendition does. Returns whether more is wanted.
    fn give(&self, pieces: Vec<Piece>) -> bool {
        let mut state = self.shared.lock();
        // Bytes of which nothing comes are not read for ever either.
        if state.is_stopped {
            return false;
        }
        for piece in pieces {
            while state.merge.held_bytes(self.lane) > HELD_BYTES && !state.is_stopped {
                self.shared.news.notify_all();
                state = self.shared.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if state.is_stopped {
                return false;
            }
            state.merge.push(self.lane, piece);
        }
        drop(state);
        self.shared.news.notify_all();
        true
    }

    fn tell_notes(&mut self) {
        while let Some(note) = self.units.take_note() {
            self.shared.lock().notes.push_back(note);
        }
    }
}

#[cfg(test)]
#[path = "session_tests.rs"]
mod tests;
