//! A stream that is published to a service over RTMP: access units in, tags out, in the order and at the times that services want.
//!
//! ```text
//! program ─► choice of tracks          begins at a key frame; sound is waited for, for a second
//! units ─► ForwardClock (one time from 0 on, over jumps) ─► flv::mux ─► ForwardQueue (tracks by time; bounded) ─► Item
//! ```
//! Nothing here holds the stream: what the service does not take in time is dropped up to a key frame, and counted.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod clock;
mod queue;

pub use queue::{BACKLOG, Described, Item};

use clock::{ForwardClock, Placed};
use glassline_media::container::cmaf::{Error, Media};
use glassline_media::container::flv::mux::{TagFormat, TagWriter, Written};
use glassline_media::container::ts::{ElementaryStream, Program};
use glassline_media::{AccessUnit, Codec, Time};
use queue::{Entry, ForwardQueue, Kind};
use std::collections::VecDeque;
use std::time::Duration;
use thiserror::Error;

/// How long pictures wait for the first sound, which the beginning has to describe.
const SOUND_WAIT: Duration = Duration::from_secs(1);
/// What is held meanwhile, at most.
const HELD_UNITS: usize = 1000;
const HELD_BYTES: usize = 8 << 20;
/// What the length of a message can tell (24 bits).
const BODY_MAX: usize = 0xff_ffff;

/// Why a program cannot be published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ForwardError {
    /// The server does not take what pictures or sound are coded in, or RTMP does not carry it.
    #[error("the stream's {} {codec}, which the server does not take; publish H.264 with AAC, as an [encode.NAME] with audio = \"aac\" makes it", if *.is_video { "pictures are" } else { "sound is" })]
    NotTaken {
        /// Pictures; otherwise sound.
        is_video: bool,
        /// The codec's name, or the number of the stream's type.
        codec: &'static str,
    },
    /// There is nothing that a server could be sent.
    #[error("the stream has neither pictures nor sound")]
    Empty,
}

/// What was sent, and what was not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ForwardCounters {
    /// Pictures that were handed over.
    pub pictures: u64,
    /// Units of sound that were handed over.
    pub sounds: u64,
    /// Pictures that were dropped since the server took too little, that came before a key frame after that, or that waited at the end.
    pub dropped_pictures: u64,
    /// Units of sound that were dropped with them.
    pub dropped_sounds: u64,
    /// Units that cannot be read.
    pub damaged: u64,
    /// Times that the stream's clock has jumped.
    pub jumps: u64,
}

/// A track.
#[derive(Debug)]
struct Track {
    pid: u16,
    codec: Codec,
    writer: Option<TagWriter>,
    /// Its sequence header was queued.
    has_header: bool,
}

/// One connection's stream: see the module.
#[derive(Debug)]
pub struct Feed {
    takes: Vec<Codec>,
    program: Option<Program>,
    /// Streams of the program that are of a kind of their codec that no tag carries, which only their units tell.
    unfit: Vec<(u16, &'static str)>,
    video: Option<Track>,
    audio: Option<Track>,
    /// What waits for the beginning, since when; `None` once it has begun.
    held: Option<Held>,
    /// It has begun before: what is not sent from then on is missing.
    has_begun: bool,
    /// What comes has to begin with a key frame.
    awaits_key: bool,
    clock: ForwardClock,
    queue: ForwardQueue,
    counters: ForwardCounters,
}

#[derive(Debug, Default)]
struct Held {
    units: VecDeque<(bool, AccessUnit, Time)>,
    bytes: usize,
}

impl Feed {
    /// Before the first unit, for a server that takes these codecs.
    pub fn new(takes: &[Codec]) -> Feed {
        Feed {
            takes: takes.to_vec(),
            program: None,
            unfit: Vec::new(),
            video: None,
            audio: None,
            held: Some(Held::default()),
            has_begun: false,
            awaits_key: true,
            clock: ForwardClock::default(),
            queue: ForwardQueue::default(),
            counters: ForwardCounters::default(),
        }
    }

    /// The program is this one from here on. The first pictures and the first sound that the server takes are sent.
    ///
    /// # Errors
    /// There is none of them that the server takes.
    pub fn program(&mut self, program: &Program) -> Result<(), ForwardError> {
        if self.program.as_ref().is_none_or(|known| known.streams != program.streams) {
            self.unfit.clear();
        }
        self.program = Some(program.clone());
        self.choose_tracks()
    }

    fn choose_tracks(&mut self) -> Result<(), ForwardError> {
        let (video, audio) = (self.choose(true)?, self.choose(false)?);
        if video.is_none() && audio.is_none() {
            return Err(ForwardError::Empty);
        }
        let known = |track: &Option<Track>| track.as_ref().map(|track| (track.pid, track.codec));
        let (has_new_video, has_new_audio) = (known(&self.video) != video, known(&self.audio) != audio);
        let track = |(pid, codec)| Track { pid, codec, writer: None, has_header: false };
        if has_new_audio {
            self.audio = audio.map(track);
            self.drop_held(false);
        }
        if has_new_video {
            self.video = video.map(track);
            self.drop_held(true);
            self.drop_held(false);
        }
        if has_new_video || has_new_audio && self.video.is_none() {
            // Pictures that are the same go on, whatever becomes of the sound.
            (self.held, self.awaits_key) = (Some(self.held.take().unwrap_or_default()), true);
        }
        self.queue.set_tracks(self.video.is_some(), self.audio.is_some());
        Ok(())
    }

    /// The first pictures, or the first sound, that the server takes.
    fn choose(&self, is_video: bool) -> Result<Option<(u16, Codec)>, ForwardError> {
        let of_kind = |stream: &&ElementaryStream| {
            if is_video { stream.is_video() } else { stream.is_audio() }
        };
        let unfit = |pid| self.unfit.iter().find(|(unfit, _)| *unfit == pid);
        let takes = |codec: &Codec| TagFormat::of(*codec).is_some() && self.takes.contains(codec);
        let taken = |stream: &ElementaryStream| {
            let codec = stream.codec.filter(takes).filter(|_| unfit(stream.pid).is_none());
            Some((stream.pid, codec?))
        };
        let all = self.program.iter().flat_map(|program| &program.streams);
        let mut streams = all.filter(of_kind);
        let first = streams.clone().next();
        match (streams.find_map(taken), first) {
            (None, Some(stream)) => {
                let told = unfit(stream.pid).map(|(_, codec)| *codec);
                let codec = told.or(stream.codec.map(Codec::name)).or(stream.format_name());
                Err(ForwardError::NotTaken { is_video, codec: codec.unwrap_or("of an unknown codec") })
            }
            (taken, _) => Ok(taken),
        }
    }

    /// Leaves out the stream of sound that `unit` is of where it is of a layer that no tag carries; the next one that the server takes
    /// is sent instead. Returns whether it was left out.
    fn leave_out(&mut self, pid: u16, unit: &AccessUnit) -> Result<bool, ForwardError> {
        let codec = match Media::of(unit, false) {
            Err(Error::Layer { found: 1 }) => "MPEG audio of layer I",
            Err(Error::Layer { .. }) => "MPEG audio of layer II",
            _ => return Ok(false),
        };
        self.unfit.push((pid, codec));
        self.choose_tracks().map(|()| true)
    }

    /// Takes the next unit of the elementary stream `pid`, at the time at which it came.
    ///
    /// # Errors
    /// It is the first unit that tells that the server cannot take the stream: MPEG audio of another layer than III.
    pub fn push(&mut self, pid: u16, unit: AccessUnit, now: Time) -> Result<(), ForwardError> {
        let is = |track: &Option<Track>| track.as_ref().is_some_and(|track| track.pid == pid);
        let (is_video, is_audio) = (is(&self.video), is(&self.audio));
        let is_of_layer = is_audio && unit.codec == Codec::MpegAudio;
        if is_of_layer && self.leave_out(pid, &unit)? {
            self.count_dropped(queue::Dropped { sounds: 1, ..queue::Dropped::default() });
        } else if is_video || is_audio {
            match self.held {
                Some(_) => self.hold(is_video, unit, now),
                None => self.place(is_video, &unit, now),
            }
        }
        let dropped = self.queue.bound(now);
        self.count_dropped(dropped);
        Ok(())
    }

    /// Units are missing here: the next ones begin with a key frame.
    pub fn skip(&mut self) {
        self.awaits_key = true;
        // What is held would otherwise go on over what is missing.
        self.drop_held(true);
        self.drop_held(false);
    }

    /// Nothing is sent any more: what waits counts as dropped.
    pub fn finish(&mut self) {
        self.has_begun = true;
        self.drop_held(true);
        self.drop_held(false);
        let dropped = self.queue.clear();
        self.count_dropped(dropped);
    }

    /// Drops what is held of a track, and counts it where the stream has begun before.
    fn drop_held(&mut self, of_video: bool) {
        let Some(held) = &mut self.held else { return };
        let mut count = 0u64;
        held.units.retain(|(is_video, unit, _)| {
            let stays = *is_video != of_video;
            if !stays {
                count = count.saturating_add(1);
                held.bytes = held.bytes.saturating_sub(unit.data.len());
            }
            stays
        });
        self.count_missing(of_video, count);
    }

    /// Counts units that are not sent, which before the beginning are not missing.
    fn count_missing(&mut self, is_video: bool, count: u64) {
        if self.has_begun {
            let (pictures, sounds) = if is_video { (count, 0) } else { (0, count) };
            self.count_dropped(queue::Dropped { pictures, sounds, awaits_key: false });
        }
    }

    /// What is sent next; `None` where nothing is, or what there is waits for the other track.
    pub fn poll(&mut self, now: Time) -> Option<Item> {
        let item = self.queue.pop(now)?;
        match &item {
            (Item::Tag { is_video: true, .. }, Kind::Key | Kind::Frame) => {
                self.counters.pictures = self.counters.pictures.saturating_add(1);
            }
            (Item::Tag { is_video: false, .. }, Kind::Key | Kind::Frame) => {
                self.counters.sounds = self.counters.sounds.saturating_add(1);
            }
            _ => {}
        }
        Some(item.0)
    }

    /// When [`Feed::poll`] has something although nothing comes; [`Time::NEVER`] where that is not so.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        self.queue.poll_timeout()
    }

    /// How long the oldest unit waits that was not handed over.
    pub fn behind(&self, now: Time) -> Duration {
        self.queue.oldest().map_or(Duration::ZERO, |oldest| now.since(oldest))
    }

    /// What was sent, and what was not.
    pub fn counters(&self) -> ForwardCounters {
        ForwardCounters { jumps: self.clock.jumps(), ..self.counters }
    }

    fn count_dropped(&mut self, dropped: queue::Dropped) {
        let queue::Dropped { pictures, sounds, awaits_key } = dropped;
        self.counters.dropped_pictures = self.counters.dropped_pictures.saturating_add(pictures);
        self.counters.dropped_sounds = self.counters.dropped_sounds.saturating_add(sounds);
        self.awaits_key |= awaits_key;
    }

    /// Holds units back until it is known what all tracks are.
    fn hold(&mut self, is_video: bool, unit: AccessUnit, now: Time) {
        let track = if is_video { &mut self.video } else { &mut self.audio };
        let Some(track) = track else { return };
        if track.writer.is_none() && (unit.random_access || !is_video) {
            match TagWriter::new(&unit) {
                Ok(writer) => track.writer = Some(writer),
                Err(_) => {
                    self.counters.damaged = self.counters.damaged.saturating_add(1);
                    return;
                }
            }
        }
        let is_ready = |track: &Option<Track>| track.as_ref().is_none_or(|track| track.writer.is_some());
        let is_first = self.held.as_ref().is_some_and(|held| held.units.is_empty());
        let begins = self.video.is_none() || is_video && unit.random_access;
        if !is_ready(&self.video) || is_first && !begins {
            // Sound and pictures that come before a key frame are nowhere.
            return self.count_missing(is_video, 1);
        }
        let Some(held) = &mut self.held else { return };
        held.bytes = held.bytes.saturating_add(unit.data.len());
        held.units.push_back((is_video, unit, now));
        let since = held.units.front().map_or(now, |(.., since)| *since);
        let is_full = held.units.len() >= HELD_UNITS || held.bytes >= HELD_BYTES;
        if !is_ready(&self.audio) && !is_full && now.since(since) < SOUND_WAIT {
            return;
        }
        let held = self.held.take().unwrap_or_default();
        self.has_begun = true;
        self.describe();
        for (is_video, unit, arrived) in held.units {
            self.place(is_video, &unit, arrived);
        }
    }

    /// Puts a unit at its time into the queue.
    fn place(&mut self, is_video: bool, unit: &AccessUnit, now: Time) {
        let Some(Placed { time_ms, composition_ms }) = self.clock.place(is_video, unit, now) else {
            // Sound from before the beginning is not missing; pictures behind one that is missing cannot be decoded.
            let dropped = queue::Dropped { pictures: u64::from(is_video), sounds: 0, awaits_key: is_video };
            return self.count_dropped(dropped);
        };
        let is_alone = self.video.is_none();
        if self.awaits_key && (is_alone || is_video && unit.random_access) {
            self.awaits_key = false;
        }
        if self.awaits_key {
            let (pictures, sounds) = (u64::from(is_video), u64::from(!is_video));
            return self.count_dropped(queue::Dropped { pictures, sounds, awaits_key: true });
        }
        let track = if is_video { &mut self.video } else { &mut self.audio };
        let Some(track) = track else { return };
        let is_new = track.writer.is_none();
        if is_new {
            track.writer = TagWriter::new(unit).ok();
        }
        let written = track.writer.as_mut().map(|writer| writer.write(unit, composition_ms));
        let Some((written, body)) = written.and_then(Result::ok).filter(|(_, body)| body.len() <= BODY_MAX)
        else {
            self.counters.damaged = self.counters.damaged.saturating_add(1);
            return;
        };
        let is_headless = !std::mem::replace(&mut track.has_header, true);
        if is_new {
            self.describe();
        }
        if is_headless || written == Written::AfterHeader {
            self.push_header(is_video, time_ms, now);
        }
        let kind = if is_video && unit.random_access || is_alone { Kind::Key } else { Kind::Frame };
        self.queue.push(Entry { is_video, kind, time_ms, body, arrived: now });
    }

    fn push_header(&mut self, is_video: bool, time_ms: i64, now: Time) {
        let track = if is_video { &self.video } else { &self.audio };
        let header = track.as_ref().and_then(|track| track.writer.as_ref()?.header());
        if let Some(body) = header {
            self.queue.push(Entry { is_video, kind: Kind::Header, time_ms, body, arrived: now });
        }
    }

    /// Metadata of what is known now.
    fn describe(&mut self) {
        let writer = |track: &Option<Track>| track.as_ref().and_then(|track| track.writer.clone());
        let video =
            writer(&self.video).and_then(|writer| Some((writer.format().id(), writer.media().pictures()?)));
        let of_sound = |writer: TagWriter| {
            let media: &Media = writer.media();
            Some((writer.format().id(), media.timescale(), media.channels()?))
        };
        let audio = writer(&self.audio).and_then(of_sound);
        self.queue.describe(Described { video, audio });
    }
}

#[cfg(test)]
#[path = "forward_tests.rs"]
mod tests;
