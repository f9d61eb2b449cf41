//! CMAF that a publisher puts, track by track, into transport streams: DASH-IF Live Media Ingest, interface 1 (a request for
//! each track, as long as the stream) and 2 (a request for each header and segment), in any mixture.
//!
//! ```text
//! PUT NAME/PATH ─► Body: which header's? ─► cmaf::Reader ─► units ─► Order, a track each ─┬─► Program: NAME
//!   any chop, requests at once                    prft ─► capture time                    └─► or NAME-720p25, NAME-360p25
//!                                                            assemble: merged by time ─► ts::Muxer ─► bytes
//! ```
//! Bytes and the time come in, packets and the next deadline go out. A chunk's units go on when its last byte has come. What
//! waits is bounded in time and in bytes:
//!
//! * a stream's beginning, until its tracks are known ([`Ingest::poll_timeout`] tells how long);
//! * a segment, a quarter of a second for one before it that comes by another request;
//! * a track that comes faster than it lasts and is far ahead of the other, half a second for that;
//! * a segment that has overtaken its header, a second.
//!
//! Called by `relay`, which has the connections and gives the packets to streams.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod body;
mod capture;
mod counters;
mod error;
mod lane;
mod order;
mod path;
mod streams;
#[cfg(test)]
mod tests;
mod unit;

pub use counters::Counters;
pub use error::IngestError;
pub use path::{PATH_MAX_BYTES, Target};
pub use streams::Output;

use body::{Body, Kind, State};
use glassline_media::Time;
use glassline_media::container::cmaf::{Chunk, Event, FourCc, ReadTrack, Reader};
use lane::Lane;
use order::Arrived;
use std::collections::BTreeMap;
use std::time::Duration;
use streams::Streams;
use unit::{QUIET_MAX, duration, lasting, lasts, unit_of};

/// Tracks of one stream.
const TRACKS_MAX: usize = 16;
/// Headers that are kept.
const HEADERS_MAX: usize = 32;
/// Requests at once.
const BODIES_MAX: usize = 64;
/// Bytes of boxes that are not complete, in all requests together. One box alone may have 64 MiB.
const HELD_MAX_BYTES: usize = 96 << 20;
/// Bytes of units that wait for others. With more of them nothing waits any longer.
const WAITING_MAX_BYTES: usize = 32 << 20;
/// Bytes of a segment that waits for its header.
const WAITING_BODY_MAX_BYTES: usize = 4 << 20;
/// How long it waits.
const HEADER_WAIT: Duration = Duration::from_secs(1);
/// How long a stream's beginning waits for further tracks where pictures and sound are there.
const SETTLE: Duration = Duration::from_millis(500);
/// How long pictures wait for sound at the beginning.
const SOUND_WAIT: Duration = Duration::from_secs(1);
/// How long sound waits for pictures, which encoders hold back for longer.
const PICTURES_WAIT: Duration = Duration::from_secs(3);
/// A track that nothing has come of for so long gives its place up to another one.
const IDLE: Duration = Duration::from_secs(3);

/// Units that are on another clock than the others', in a row, before their track is refused.
const STRAYS_MAX: u32 = 100;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// All of it was taken.
    Taken,
    /// It waits for its header: [`Ingest::outcome`] tells what becomes of it.
    Waits,
}

/// A header that was put.
#[derive(Debug)]
struct Header {
    path: String,
    /// Knows the tracks.
    reader: Reader,
    tracks: Vec<ReadTrack>,
    /// Which of its tracks is which lane.
    lanes: Vec<(u32, usize)>,
}

/// One publisher's tracks, under one name.
#[derive(Debug, Default)]
pub struct Ingest {
    headers: Vec<Header>,
    lanes: Vec<Lane>,
    bodies: BTreeMap<u64, Body>,
    next_body: u64,
    streams: Streams,
    /// When the first header came.
    began: Option<Time>,
    counters: Counters,
    quiet: Duration,
}

impl Ingest {
    /// Before the first request.
    pub fn new() -> Ingest {
        Ingest::default()
    }

    /// A request for a track at `path` begins. Returns its number, for the calls below.
    ///
    /// # Errors
    /// [`IngestError::TooManyBodies`].
    pub fn begin(&mut self, path: &str, now: Time) -> Result<u64, IngestError> {
        if self.bodies.len() >= BODIES_MAX {
            return Err(IngestError::TooManyBodies { limit: BODIES_MAX });
        }
        let id = self.next_body;
        self.next_body = self.next_body.wrapping_add(1);
        self.bodies.insert(id, Body::new(path, now));
        Ok(id)
    }

    /// Takes the next bytes of a request, in any chop. Poll afterwards, also where there is an error.
    ///
    /// # Errors
    /// Why the request is refused. Nothing more of it is taken.
    pub fn push(&mut self, id: u64, bytes: &[u8], now: Time) -> Result<(), IngestError> {
        let Some(mut body) = self.bodies.remove(&id) else { return Ok(()) };
        body.bytes = body.bytes.saturating_add(bytes.len() as u64);
        let taken = self.take(id, &mut body, bytes, now);
        if let Err(error) = &taken {
            self.fail(id, &mut body, error.clone());
        }
        self.bodies.insert(id, body);
        self.advance(now);
        taken
    }

    /// The last byte of a request has come.
    ///
    /// # Errors
    /// Why it is refused: it is cut off, or what was wrong with it before.
    pub fn end(&mut self, id: u64, now: Time) -> Result<Ended, IngestError> {
        let Some(body) = self.bodies.get_mut(&id) else { return Ok(Ended::Taken) };
        body.is_whole = true;
        if matches!(body.state, State::Waits(_)) {
            return Ok(Ended::Waits);
        }
        let checked = body.check_end();
        self.finish(id, now);
        self.advance(now);
        checked.map(|()| Ended::Taken)
    }

    /// What has become of a request since [`Ingest::push`] and [`Ingest::end`]; `None` while nothing has.
    pub fn outcome(&self, id: u64) -> Option<Result<(), IngestError>> {
        match &self.bodies.get(&id)?.state {
            State::Over(result) => Some(result.clone()),
            _ => None,
        }
    }

    /// Forgets a request, wherever it is. To be called once for each.
    pub fn close(&mut self, id: u64, now: Time) {
        self.finish(id, now);
        self.bodies.remove(&id);
        self.advance(now);
    }

    /// A time that [`Ingest::poll_timeout`] asked for has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.settle_waiting(now);
        self.advance(now);
    }

    /// When [`Ingest::handle_timeout`] wants to be called. Any other call may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        let waiting = |body: &Body| match &body.state {
            State::Waits(_) => Some(body.began + HEADER_WAIT),
            _ => None,
        };
        let bodies = self.bodies.values().filter_map(waiting);
        let start = self.streams.is_empty().then(|| self.starts_at()).flatten();
        let placed = !self.streams.is_empty();
        let lanes = self.lanes.iter().filter(|_| placed).filter_map(|lane| lane.order.waits_until());
        bodies.chain(start).chain(lanes).chain(self.streams.waits_until()).min()
    }

    /// A stream of [`Output::Begin`] is not to be had: its pictures are taken no longer, which their requests are told.
    pub fn refuse_stream(&mut self, stream: usize, name: &str, reason: &str) {
        if let Some(at) = self.streams.pictures_of(stream) {
            let error = IngestError::Stream { name: name.to_owned(), reason: reason.to_owned() };
            self.lanes[at].refuse(error, &mut self.counters);
        }
    }

    /// What goes out, in order. Poll until `None` after each call above.
    pub fn poll(&mut self) -> Option<Output> {
        self.streams.poll()
    }

    /// Whether every track has said that it is over, and no request goes on.
    pub fn is_over(&self) -> bool {
        !self.lanes.is_empty() && self.bodies.is_empty() && self.lanes.iter().all(|lane| lane.has_ended)
    }

    /// How long nothing may come by the length of the segments that came, each at once: up to 30 s.
    pub fn expected_quiet(&self) -> Duration {
        self.quiet
    }

    /// What was taken so far, and what was not.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes that are held, by boxes that are not complete and by units that wait.
    pub fn held_bytes(&self) -> usize {
        sum(self.bodies.values().map(Body::held_bytes)).saturating_add(self.waiting_bytes())
    }

    fn waiting_bytes(&self) -> usize {
        let lanes = self.lanes.iter().map(|lane| lane.order.bytes());
        sum(lanes.chain(self.streams.waiting_bytes()))
    }

    fn take(&mut self, id: u64, body: &mut Body, bytes: &[u8], now: Time) -> Result<(), IngestError> {
        let others = self.bodies.values().map(Body::held_bytes);
        if sum(others.chain([body.held_bytes(), bytes.len()])) > HELD_MAX_BYTES {
            return Err(IngestError::TooMuch { limit: HELD_MAX_BYTES });
        }
        match &mut body.state {
            State::Begins(_) => match body.begin(bytes)? {
                None => Ok(()),
                Some((Kind::Header, head)) => {
                    body.state = State::Reads(Box::new(Reader::new()));
                    self.read(id, body, &head, now)
                }
                Some((Kind::Segment, head)) => {
                    body.state = State::Waits(head);
                    self.find_header(id, body, now)
                }
            },
            State::Waits(waiting) => {
                if waiting.len().saturating_add(bytes.len()) > WAITING_BODY_MAX_BYTES {
                    return Err(IngestError::NoHeader);
                }
                waiting.extend_from_slice(bytes);
                Ok(())
            }
            State::Reads(_) => self.read(id, body, bytes, now),
            State::Over(result) => result.clone(),
        }
    }

    /// Reads a segment on that waits for its header, if that is there.
    fn find_header(&mut self, id: u64, body: &mut Body, now: Time) -> Result<(), IngestError> {
        // A header has no more segments once other headers have taken over all of its tracks.
        let likeness =
            |header: &Header| (!header.lanes.is_empty()).then(|| path::likeness(&header.path, &body.path));
        let Some(best) = self.headers.iter().filter_map(likeness).max() else { return Ok(()) };
        let alike: Vec<usize> =
            (0..self.headers.len()).filter(|&at| likeness(&self.headers[at]) == Some(best)).collect();
        // At the beginning its own header may be on another connection still.
        let is_settled = |since: Time| now >= since + HEADER_WAIT;
        let is_early = !is_settled(body.began) && !self.began.is_some_and(is_settled);
        let found = match alike[..] {
            [one] if !is_early || path::fits(&self.headers[one].path, &body.path) => one,
            _ if is_early => return Ok(()),
            _ => return Err(IngestError::Ambiguous),
        };
        let State::Waits(waiting) = &mut body.state else { return Ok(()) };
        let waiting = std::mem::take(waiting);
        body.header = Some(found);
        body.state = State::Reads(Box::new(self.headers[found].reader.of_segment()));
        self.read(id, body, &waiting, now)
    }

    /// Looks after the segments that wait for a header.
    fn settle_waiting(&mut self, now: Time) {
        let waits = |body: &Body| matches!(body.state, State::Waits(_));
        let waiting: Vec<u64> =
            self.bodies.iter().filter(|(_, body)| waits(body)).map(|(id, _)| *id).collect();
        for id in waiting {
            let Some(mut body) = self.bodies.remove(&id) else { continue };
            let mut found = self.find_header(id, &mut body, now);
            if found.is_ok() && waits(&body) && now >= body.began + HEADER_WAIT {
                found = Err(IngestError::NoHeader);
            }
            if found.is_ok() && body.is_whole && !waits(&body) {
                found = body.check_end();
                if found.is_ok() {
                    body.state = State::Over(Ok(()));
                }
            }
            if let Err(error) = found {
                self.fail(id, &mut body, error);
            }
            let is_over = matches!(body.state, State::Over(_));
            self.bodies.insert(id, body);
            if is_over {
                self.finish(id, now);
            }
        }
    }

    fn fail(&mut self, id: u64, body: &mut Body, error: IngestError) {
        body.state = State::Over(Err(error));
        self.lanes.iter_mut().for_each(|lane| lane.order.end(id));
    }

    /// A request brings no more.
    fn finish(&mut self, id: u64, now: Time) {
        self.lanes.iter_mut().for_each(|lane| lane.order.end(id));
        if let Some(body) = self.bodies.get(&id)
            && let Some((first, end)) = body.span
        {
            // What came faster than it lasts has come at once, and so may what follows.
            let lasts = duration(end - first);
            if now.since(body.began).saturating_mul(2) < lasts {
                self.quiet = self.quiet.max(lasts.min(QUIET_MAX));
            }
        }
    }

    fn read(&mut self, id: u64, body: &mut Body, mut bytes: &[u8], now: Time) -> Result<(), IngestError> {
        while let Some(event) = body.read(&mut bytes)? {
            self.handle(id, body, event, now)?;
            // With each, so that it makes no difference how the bytes are chopped.
            self.advance(now);
        }
        Ok(())
    }

    fn handle(&mut self, id: u64, body: &mut Body, event: Event, now: Time) -> Result<(), IngestError> {
        match event {
            Event::Init(tracks) => {
                let State::Reads(reader) = &body.state else { return Ok(()) };
                let reader = reader.of_segment();
                body.header = Some(self.register(&body.path, reader, tracks, now)?);
                self.settle_waiting(now);
            }
            Event::SegmentType(brands) if brands.contains(&FourCc(*b"lmsg")) => self.end_tracks(body),
            Event::End => self.end_tracks(body),
            Event::Chunk(chunk) => self.take_chunk(id, body, &chunk, now)?,
            _ => {}
        }
        Ok(())
    }

    /// The tracks of a body's header say that they are over.
    fn end_tracks(&mut self, body: &Body) {
        let Some(header) = body.header.and_then(|at| self.headers.get(at)) else { return };
        for (_, lane) in &header.lanes {
            self.lanes[*lane].has_ended = true;
        }
    }

    /// Takes a header. Returns its place.
    fn register(
        &mut self,
        path: &str,
        reader: Reader,
        tracks: Vec<ReadTrack>,
        now: Time,
    ) -> Result<usize, IngestError> {
        let known = self.headers.iter().position(|header| header.path == path);
        if let Some(at) = known
            && self.headers[at].tracks == tracks
        {
            self.headers[at].reader = reader;
            return Ok(at);
        }
        let is_free = |at: &usize| {
            self.headers[*at].lanes.is_empty() && self.bodies.values().all(|body| body.header != Some(*at))
        };
        let free = || (0..self.headers.len()).find(is_free).filter(|_| self.headers.len() >= HEADERS_MAX);
        let known = known.or_else(free);
        if known.is_none() && self.headers.len() >= HEADERS_MAX {
            self.counters.refuse(tracks.len());
            return Err(IngestError::TooManyTracks { limit: HEADERS_MAX });
        }
        // The tracks that this header had go on as those that it has now.
        let mut own: Vec<usize> =
            known.iter().flat_map(|&at| self.headers[at].lanes.iter().map(|(_, lane)| *lane)).collect();
        let (mut lanes, mut refusal) = (Vec::new(), None);
        for track in &tracks {
            match self.place(track, &mut own, &lanes, now) {
                Ok(lane) => lanes.push((track.id, lane)),
                Err(error) => {
                    self.counters.refuse(1);
                    refusal = refusal.or(Some(error));
                }
            }
        }
        if lanes.is_empty() {
            let none = IngestError::Codec { sample_entry: FourCc(*b"none") };
            return Err(refusal.unwrap_or(none));
        }
        self.began = self.began.or(Some(now));
        // A track that was another header's is no longer.
        for header in &mut self.headers {
            header.lanes.retain(|(_, lane)| !lanes.iter().any(|(_, other)| other == lane));
        }
        let header = Header { path: path.to_owned(), reader, tracks, lanes };
        match known {
            Some(at) => {
                self.headers[at] = header;
                Ok(at)
            }
            None => {
                let at = self.headers.len();
                self.headers.push(header);
                Ok(at)
            }
        }
    }

    /// Finds a lane for a track: one of those that its header had, one that is idle, or a new one.
    fn place(
        &mut self,
        track: &ReadTrack,
        own: &mut Vec<usize>,
        taken: &[(u32, usize)],
        now: Time,
    ) -> Result<usize, IngestError> {
        let unknown = IngestError::Codec { sample_entry: track.sample_entry };
        let codec = track.codec().ok_or(unknown)?;
        let is_video = codec.is_video();
        let mine = own.iter().position(|&lane| self.lanes[lane].is_video() == is_video);
        let idle = |at: usize| {
            let lane = &self.lanes[at];
            let is_mine = lane.is_video() == is_video && !taken.iter().any(|(_, other)| *other == at);
            is_mine && now.since(lane.newest_at) >= IDLE && lane.order.bytes() == 0
        };
        let at = match mine {
            Some(mine) => Some(own.remove(mine)),
            None => (0..self.lanes.len()).find(|&at| idle(at)),
        };
        if let Some(at) = at {
            let before = (self.lanes[at].codec, self.lanes[at].sound());
            let lane = &mut self.lanes[at];
            (lane.track, lane.codec, lane.newest_at) = (track.clone(), codec, now);
            (lane.has_ended, lane.refused, lane.strays) = (false, None, 0);
            let sound = self.lanes[at].sound();
            if is_video && codec != before.0 {
                self.streams.change_pictures(at, codec);
            } else if !is_video && sound != before.1 {
                self.streams.change_sound(sound);
            }
            return Ok(at);
        }
        if !is_video && self.lanes.iter().any(|lane| !lane.is_video()) {
            return Err(IngestError::SecondSound);
        }
        if self.lanes.len() >= TRACKS_MAX {
            return Err(IngestError::TooManyTracks { limit: TRACKS_MAX });
        }
        let at = self.lanes.len();
        self.lanes.push(Lane::new(track.clone(), codec, now));
        Ok(at)
    }

    fn take_chunk(&mut self, id: u64, body: &mut Body, chunk: &Chunk, now: Time) -> Result<(), IngestError> {
        self.counters.chunks = self.counters.chunks.saturating_add(1);
        let State::Reads(reader) = &body.state else { return Ok(()) };
        let mut span = body.span;
        for run in &chunk.runs {
            let Some(header) = body.header.and_then(|at| self.headers.get(at)) else { break };
            let Some(&(_, at)) = header.lanes.iter().find(|(track, _)| *track == run.track_id) else {
                continue;
            };
            let Some(track) = reader.track(run.track_id) else { continue };
            let lane = &mut self.lanes[at];
            (lane.newest_at, lane.has_ended) = (now, false);
            if let Some(error) = &lane.refused {
                return Err(error.clone());
            }
            if lane.strays > STRAYS_MAX {
                return Err(IngestError::OtherClock);
            }
            for sample in &run.samples {
                let duration = lasting(sample, track);
                let Some(unit) = unit_of(sample, track, chunk) else {
                    self.counters.bad_samples = self.counters.bad_samples.saturating_add(1);
                    continue;
                };
                if lane.unit_ticks.0 == 0 {
                    lane.unit_ticks = duration;
                }
                let end = unit.dts + duration;
                span =
                    Some(span.map_or((unit.dts, end), |(first, last)| (first.min(unit.dts), last.max(end))));
                let arrived = Arrived { unit, duration, body: id, at: now, jumps: false };
                lane.order.push(arrived, &mut self.counters);
            }
            self.quiet = self.quiet.max(lasts(run, track));
        }
        body.span = span;
        Ok(())
    }

    /// When the first stream begins, with the tracks that are there then.
    fn starts_at(&self) -> Option<Time> {
        let has = |video: bool| self.lanes.iter().any(|lane| lane.is_video() == video);
        let is_one = self.headers.len() == 1 && self.headers.first()?.tracks.len() > 1;
        let wait = match (has(true), has(false)) {
            (true, true) if is_one => Duration::ZERO,
            (true, true) => SETTLE,
            (true, false) => SOUND_WAIT,
            (false, _) => PICTURES_WAIT,
        };
        Some(self.began? + wait)
    }

    /// Does all that can be done at `now`.
    fn advance(&mut self, now: Time) {
        // With too much that waits, nothing waits any longer.
        let now = if self.waiting_bytes() > WAITING_MAX_BYTES { Time::NEVER } else { now };
        let has_begun = !self.streams.is_empty() || self.starts_at().is_some_and(|at| now >= at);
        if has_begun {
            self.streams.arrange(&mut self.lanes, &mut self.counters);
        }
        if !self.streams.is_empty() {
            for (at, lane) in self.lanes.iter_mut().enumerate() {
                self.streams.distribute(at, lane, now, &mut self.counters);
            }
        }
        self.streams.drain(now);
    }
}

/// Of lengths that come from outside.
fn sum(bytes: impl Iterator<Item = usize>) -> usize {
    bytes.fold(0, usize::saturating_add)
}
