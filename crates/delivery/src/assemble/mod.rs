//! Access units of a publisher's tracks, merged by time into one MPEG transport stream.
//!
//! ```text
//! declare: H.264, AAC, … ─► lanes, one of each kind
//! push: unit, capture time ─► TrackClock: times that only grow ─► Program: by decoding time ─► ts::Muxer ─► Written
//! ```
//! [`Assembler`] serves protocols in which a publisher sends one stream of pictures, one of sound, or both, each in decoding
//! order (RTMP, RTSP). CMAF ingest has its own order of segments in front and shares [`Program`](program::Program).
//!
//! A unit goes on in the call that brings it, whatever the other track does: a silent track does not hold the other one back,
//! and sound may come late or never. Three things wait, each bounded in time and all of them in bytes:
//!
//! * the beginning, until the tracks are known that were [expected](Assembler::expect), or for a second;
//! * a track that comes faster than it lasts and is more than 300 ms ahead of the other, for half a second: then both tracks
//!   come in bursts, and without the wait they would not be interleaved;
//! * nothing else.
//!
//! Where a track's times jump (back by more than half a second, or forward by more than ten), where its codec changes, or
//! where a kind of track comes that was not there, a [`Written::Seam`] stands in front of what follows.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod capture;
mod clock;
pub(crate) mod program;

pub(crate) use capture::with_time;
pub use program::Written;

use clock::{Step, TrackClock};
use glassline_media::container::ts::{self, AudioFormat};
use glassline_media::{AccessUnit, Codec, Ticks, Time, Utc};
use program::Program;
use std::collections::VecDeque;
use std::time::Duration;

/// How long the beginning waits for further tracks.
const START_WAIT: Duration = Duration::from_secs(1);
/// For so long after a seam, units of the other track that are still on the times before it are dropped.
const STALE_MAX: Duration = Duration::from_secs(1);
/// A unit that is no further than this from the program's clock is on the times after a seam.
const NEAR: i64 = Ticks::RATE as i64 / 2;
/// Bytes of units that wait. With more of them nothing waits any longer.
const WAITING_MAX_BYTES: usize = 16 << 20;

/// What a track carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Pictures.
    Pictures(Codec),
    /// Sound.
    Sound(AudioFormat),
}

impl Format {
    /// The codec of its units.
    pub const fn codec(self) -> Codec {
        match self {
            Format::Pictures(codec) => codec,
            Format::Sound(format) => format.codec,
        }
    }

    const fn is_pictures(self) -> bool {
        matches!(self, Format::Pictures(_))
    }
}

/// Kinds of tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Kinds {
    /// Pictures.
    pub pictures: bool,
    /// Sound.
    pub sound: bool,
}

/// Why a track is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssembleError {
    /// MPEG-TS has no place for it.
    #[error("MPEG-TS cannot carry this track: {0}")]
    Carriage(#[from] ts::Error),
    /// The stream has a track of this kind already: of each kind it has one.
    #[error("a second track of {}; a stream has one", kind_name(*.pictures))]
    Second {
        /// The kind: pictures or sound.
        pictures: bool,
    },
    /// A track of pictures cannot become one of sound, nor the other way round.
    #[error("the track carried {} and cannot become one of {}", kind_name(!.pictures), kind_name(*.pictures))]
    Kind {
        /// The kind that it was declared as now.
        pictures: bool,
    },
}

fn kind_name(pictures: bool) -> &'static str {
    if pictures { "pictures" } else { "sound" }
}

/// What was mended or dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Units with a time that was not behind the one before it, or with a presentation time before decoding: moved.
    pub moved_units: u64,
    /// Units dropped behind a seam because they belonged to the times before it.
    pub stale_units: u64,
    /// Units dropped because their track was not declared, or as another codec.
    pub undeclared_units: u64,
    /// Times that a track was on a clock more than ten seconds from the other's: it was put there by its arrival.
    pub aligned_tracks: u64,
    /// Times that the stream began anew.
    pub seams: u64,
}

/// A track.
#[derive(Debug)]
struct Lane {
    id: u16,
    format: Format,
    clock: TrackClock,
    /// The other track has jumped, and until then this one may still bring what belongs to the times before.
    stale_until: Option<Time>,
}

/// A unit that waits for the beginning.
#[derive(Debug)]
struct Held {
    id: u16,
    unit: AccessUnit,
    step: Step,
    at: Time,
}

/// Merges tracks into a transport stream: see the module.
#[derive(Debug, Default)]
pub struct Assembler {
    lanes: Vec<Lane>,
    program: Option<Program>,
    expected: Option<Kinds>,
    /// When the first track was declared.
    began: Option<Time>,
    held: VecDeque<Held>,
    held_bytes: usize,
    outputs: VecDeque<Written>,
    counters: Counters,
}

impl Assembler {
    /// Before the first track.
    #[must_use]
    pub fn new() -> Assembler {
        Assembler::default()
    }

    /// The publisher has said which kinds of tracks come: the stream begins when they are declared, without a wait for others.
    /// A kind that comes nevertheless is taken, behind a seam.
    pub fn expect(&mut self, kinds: Kinds, now: Time) {
        self.expected = Some(kinds).filter(|kinds| kinds.pictures || kinds.sound);
        self.advance(now);
    }

    /// There is a track `id` of this format from here on, or it is of another format than before. To be called before the
    /// track's first unit, and as often as its configuration comes: one that says nothing new changes nothing. Poll
    /// afterwards.
    ///
    /// # Errors
    /// Why it is not taken. What was declared before holds.
    pub fn declare(&mut self, id: u16, format: Format, now: Time) -> Result<(), AssembleError> {
        match format {
            Format::Pictures(codec) => program::muxer(Some(codec), None, 0)?,
            Format::Sound(sound) => program::muxer(None, Some(sound), 0)?,
        };
        let pictures = format.is_pictures();
        if let Some(lane) = self.lanes.iter_mut().find(|lane| lane.id == id) {
            if lane.format.is_pictures() != pictures {
                return Err(AssembleError::Kind { pictures });
            }
            if lane.format == format {
                return Ok(());
            }
            lane.format = format;
        } else if self.lanes.iter().any(|lane| lane.format.is_pictures() == pictures) {
            return Err(AssembleError::Second { pictures });
        } else {
            self.began = self.began.or(Some(now));
            let lane = Lane { id, format, clock: TrackClock::default(), stale_until: None };
            self.lanes.push(lane);
        }
        if let Some(program) = &mut self.program {
            let mut written = Vec::new();
            program.drain(Time::NEVER, &mut written);
            written.push(match format {
                Format::Pictures(codec) => program.change(Some(codec), None),
                Format::Sound(sound) => program.change(None, Some(sound)),
            });
            self.give(written);
        }
        self.advance(now);
        Ok(())
    }

    /// A track is over: another one of its kind may be declared. What waits of it for the stream's beginning is dropped.
    pub fn end_track(&mut self, id: u16) {
        self.lanes.retain(|lane| lane.id != id);
        let (ended, held): (VecDeque<Held>, _) =
            std::mem::take(&mut self.held).into_iter().partition(|held| held.id == id);
        self.held = held;
        for held in ended {
            self.held_bytes = self.held_bytes.saturating_sub(held.unit.data.len());
            self.counters.undeclared_units = self.counters.undeclared_units.saturating_add(1);
        }
    }

    /// Takes the next unit of a track, in decoding order within that track; `captured` is the time at which it was captured,
    /// where that is known: pictures then carry it. Poll afterwards.
    pub fn push(&mut self, id: u16, unit: AccessUnit, captured: Option<Utc>, now: Time) {
        let lane = self.lanes.iter_mut().find(|lane| lane.id == id);
        let Some(lane) = lane.filter(|lane| lane.format.codec() == unit.codec) else {
            self.counters.undeclared_units = self.counters.undeclared_units.saturating_add(1);
            return;
        };
        let mut unit = captured.and_then(|captured| with_time(&unit, captured)).unwrap_or(unit);
        let step = lane.clock.place(&mut unit);
        self.counters.moved_units = self.counters.moved_units.saturating_add(step.is_moved.into());
        self.held_bytes = self.held_bytes.saturating_add(unit.data.len());
        self.held.push_back(Held { id, unit, step, at: now });
        self.advance(now);
    }

    /// A time that [`Assembler::poll_timeout`] asked for has come.
    pub fn handle_timeout(&mut self, now: Time) {
        self.advance(now);
    }

    /// When [`Assembler::handle_timeout`] wants to be called. Any other call may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.program {
            Some(program) => program.waits_until(),
            None => self.starts_at(),
        }
    }

    /// What goes out, in order. Poll until `None` after each call above.
    pub fn poll(&mut self) -> Option<Written> {
        self.outputs.pop_front()
    }

    /// The publisher is over: what waits goes out.
    pub fn finish(&mut self) {
        self.advance(Time::NEVER);
    }

    /// What was mended or dropped so far.
    #[must_use]
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Bytes of units that wait.
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        self.held_bytes.saturating_add(self.program.as_ref().map_or(0, Program::bytes))
    }

    /// When the stream begins with the tracks that are there.
    fn starts_at(&self) -> Option<Time> {
        let began = self.began.filter(|_| !self.lanes.is_empty())?;
        let has = |pictures: bool| self.lanes.iter().any(|lane| lane.format.is_pictures() == pictures);
        let expected = self.expected.unwrap_or(Kinds { pictures: true, sound: true });
        let is_complete = (has(true) || !expected.pictures) && (has(false) || !expected.sound);
        Some(if is_complete { began } else { began + START_WAIT })
    }

    /// Does all that can be done at `now`.
    fn advance(&mut self, now: Time) {
        let now = if self.held_bytes() > WAITING_MAX_BYTES { Time::NEVER } else { now };
        if self.program.is_none() {
            if self.starts_at().is_none_or(|at| now < at) {
                return;
            }
            self.start();
        }
        while let Some(held) = self.held.pop_front() {
            self.held_bytes = self.held_bytes.saturating_sub(held.unit.data.len());
            self.enter(held);
        }
        let mut written = Vec::new();
        if let Some(program) = &mut self.program {
            program.drain(now, &mut written);
        }
        self.give(written);
    }

    fn start(&mut self) {
        let (mut pictures, mut sound) = (None, None);
        for lane in &self.lanes {
            match lane.format {
                Format::Pictures(codec) => pictures = Some(codec),
                Format::Sound(format) => sound = Some(format),
            }
        }
        self.program = Some(Program::new(pictures, sound));
    }

    /// Gives a unit to the program, on its clock.
    fn enter(&mut self, held: Held) {
        let Held { id, mut unit, step, at } = held;
        let lane = self.lanes.iter_mut().find(|lane| lane.id == id);
        let lane = lane.filter(|lane| lane.format.codec() == unit.codec);
        let (Some(program), Some(lane)) = (&mut self.program, lane) else {
            self.counters.undeclared_units = self.counters.undeclared_units.saturating_add(1);
            return;
        };
        let behind = program.clock().map_or(Ticks(0), |clock| clock - unit.dts);
        let mut jumps = step.jumps;
        let is_far = program.is_far(unit.dts);
        if let Some(until) = lane.stale_until {
            if !jumps && behind.0.saturating_abs() > NEAR && at < until {
                self.counters.stale_units = self.counters.stale_units.saturating_add(1);
                return;
            }
            // Both tracks have jumped: one seam is enough, also where they are no longer on one clock.
            jumps &= !is_far;
            lane.stale_until = None;
        }
        if is_far && !jumps {
            lane.clock.shift(behind);
            (unit.dts, unit.pts) = (unit.dts + behind, unit.pts + behind);
            self.counters.aligned_tracks = self.counters.aligned_tracks.saturating_add(1);
        }
        let mut written = Vec::new();
        program.push(unit, at, jumps, &mut written);
        if written.contains(&Written::Seam) {
            for other in self.lanes.iter_mut().filter(|lane| lane.id != id) {
                other.stale_until = Some(at + STALE_MAX);
            }
        }
        self.give(written);
    }

    fn give(&mut self, written: Vec<Written>) {
        for written in written {
            match (written, self.outputs.back_mut()) {
                (Written::Bytes(bytes), Some(Written::Bytes(packets))) => packets.extend_from_slice(&bytes),
                // What nothing came between is one.
                (Written::Seam, Some(Written::Seam)) => {}
                (Written::Seam, _) => {
                    self.counters.seams = self.counters.seams.saturating_add(1);
                    self.outputs.push_back(Written::Seam);
                }
                (written, _) => self.outputs.push_back(written),
            }
        }
    }
}

#[cfg(test)]
mod tests;
