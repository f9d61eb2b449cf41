//! A viewer's stream: bytes of the stream become access units of the tracks that it was offered.
//!
//! ```text
//! Attendance::read ─► Demuxer ─► units ─┬─► first ones: what is offered
//!                                       ├─► held from the newest key frame on, until PLAY
//!                                       └─► sent
//! ```

use crate::entrance::Attendance;
use glassline_media::bitstream;
use glassline_media::container::ts::{Demuxer, Event, Program};
use glassline_media::{AccessUnit, Codec, Ticks, Time, Utc};
use glassline_streams::Read;
use glassline_transport::rtsp::offer::OfferedTrack;
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// How long the first unit of each track is waited for.
const OFFER_TIME: Duration = Duration::from_secs(5);
/// Bytes that are held until PLAY; beyond that what is held begins anew.
const HELD_BYTES_MAX: usize = 8 << 20;
/// Units of sound that are held where there are no pictures.
const HELD_SOUND_MAX: usize = 50;
/// How far a capture time may be from where those before it have it, until it is believed as another clock's.
const DRIFT_MAX: i64 = 90_000;

/// What a look at the stream has come to.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Look {
    /// There is no more now.
    Pending,
    /// There is more to read.
    More,
    /// The stream is over, or has other tracks than those that were offered.
    Ended,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Viewer {
    attendance: Attendance,
    demuxer: Demuxer,
    program: Option<Program>,
    deadline: Time,
    offered: Vec<OfferedTrack>,
    is_offered: bool,
    /// The client plays: units go out as they come, and nothing of them is left out.
    plays: bool,
    held: VecDeque<(usize, AccessUnit)>,
    held_bytes: usize,
    /// When a time of the stream was captured.
    anchor: Option<(Ticks, Utc)>,
}

impl Viewer {
    pub(super) fn new(attendance: Attendance, now: Time) -> Viewer {
        Viewer {
            attendance,
            demuxer: Demuxer::new(),
            program: None,
            deadline: now + OFFER_TIME,
            offered: Vec::new(),
            is_offered: false,
            plays: false,
            held: VecDeque::new(),
            held_bytes: 0,
            anchor: None,
        }
    }

    pub(super) fn name(&self) -> String {
        self.attendance.name().to_string()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.attendance.bytes()
    }

    /// Until when the offer waits for tracks.
    pub(super) fn poll_timeout(&self) -> Time {
        if self.is_offered { Time::NEVER } else { self.deadline }
    }

    /// What is offered, once: where all tracks of the program have shown what they are, or time is up. Empty: nothing can be.
    pub(super) fn offer(&mut self, now: Time) -> Option<Vec<OfferedTrack>> {
        let wanted = self.program.as_ref().map_or(usize::MAX, wanted_tracks);
        if self.is_offered || (self.offered.len() < wanted && now < self.deadline) {
            return None;
        }
        self.is_offered = true;
        Some(self.offered.clone())
    }

    /// Reads once.
    pub(super) fn read(&mut self, scratch: &mut [u8]) -> io::Result<Look> {
        match self.attendance.read(scratch)? {
            Read::Entered { prelude, .. } => {
                // What follows is another place of the stream.
                self.demuxer = Demuxer::new();
                self.demuxer.push(&prelude);
            }
            Read::Bytes(count) => self.demuxer.push(&scratch[..count]),
            Read::FellBehind => {}
            Read::Pending => return Ok(Look::Pending),
            Read::Ended => return Ok(Look::Ended),
        }
        while let Some(event) = self.demuxer.poll() {
            match event {
                Event::Program(program) if self.has_other_tracks(&program) => return Ok(Look::Ended),
                Event::Program(program) => self.program = Some(program),
                Event::AccessUnit { unit, .. } => self.take(unit),
                Event::Pcr { .. } => {}
            }
        }
        Ok(Look::More)
    }

    fn has_other_tracks(&self, program: &Program) -> bool {
        let has = |codec: Codec| program.streams.iter().any(|stream| stream.codec == Some(codec));
        self.is_offered && !self.offered.iter().all(|track| has(track.codec()))
    }

    fn take(&mut self, unit: AccessUnit) {
        let place = self.offered.iter().position(|track| track.codec() == unit.codec);
        let place = place.or_else(|| {
            // One of each kind. Of AV1 any unit would say enough, and a key frame is what decoding begins with.
            let has_kind = self.offered.iter().any(|track| track.codec().is_video() == unit.codec.is_video());
            if self.is_offered || has_kind || (unit.codec == Codec::Av1 && !unit.random_access) {
                return None;
            }
            let number = self.offered.len();
            self.offered.push(OfferedTrack::of(&unit, u8::try_from(number).ok()?)?);
            Some(number)
        });
        let Some(place) = place else { return };
        let has_pictures = self.offered.iter().any(|track| track.codec().is_video());
        let begins_anew = match unit.codec.is_video() {
            true => unit.random_access && !self.plays,
            false => !has_pictures && !self.plays && self.held.len() >= HELD_SOUND_MAX,
        };
        if begins_anew || (self.held_bytes > HELD_BYTES_MAX && !self.plays) {
            self.held.clear();
            self.held_bytes = 0;
        }
        self.held_bytes += unit.data.len();
        self.held.push_back((place, unit));
    }

    /// The client plays: what is held goes out, and all that comes.
    pub(super) fn play(&mut self) {
        self.plays = true;
    }

    /// The next unit, with its track and when it was captured by what the stream says of its pictures, or when it came where it does
    /// not say it.
    pub(super) fn next(&mut self, utc: Utc) -> Option<(usize, AccessUnit, Utc)> {
        if !self.plays {
            return None;
        }
        let (place, unit) = self.held.pop_front()?;
        self.held_bytes = self.held_bytes.saturating_sub(unit.data.len());
        if let Some(said) = captured(&unit) {
            self.anchor = Some((unit.pts, said));
        }
        let (at, anchor) = *self.anchor.get_or_insert((unit.pts, utc));
        let mut captured = later(anchor, unit.pts - at);
        if captured.as_nanos().abs_diff(utc.as_nanos()) > 3600 * 1_000_000_000
            || (unit.pts - at).0.abs() > 60 * DRIFT_MAX
        {
            self.anchor = Some((unit.pts, utc));
            captured = utc;
        }
        Some((place, unit, captured))
    }
}

/// Tracks of a program that can be offered: one of pictures, one of sound.
fn wanted_tracks(program: &Program) -> usize {
    let codecs = || program.streams.iter().filter_map(|stream| stream.codec);
    let is_known = |codec: &Codec| !matches!(codec, Codec::Ac3 | Codec::EAc3 | Codec::Mpeg2Video);
    let has = |is_video: bool| codecs().filter(is_known).any(|codec| codec.is_video() == is_video);
    usize::from(has(true)) + usize::from(has(false))
}

/// What a picture says of when it was captured.
fn captured(unit: &AccessUnit) -> Option<Utc> {
    let (mut head, _) = bitstream::head(unit.codec, &unit.data);
    unit.codec
        .is_video()
        .then(|| head.find_map(|nal| bitstream::messages(unit.codec, &nal)?.capture_utc()))?
}

fn later(utc: Utc, ticks: Ticks) -> Utc {
    let nanos = i128::from(utc.as_nanos()) + i128::from(ticks.0) * 100_000 / 9;
    Utc::from_nanos(u64::try_from(nanos).unwrap_or(0))
}
