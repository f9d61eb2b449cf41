//! Pictures and sound of one program, merged by decoding time, and made into a transport stream.
//!
//! What comes as fast as it lasts goes on at once, whatever the other track does: the multiplexer holds nothing back. Only
//! where a track comes faster, as in whole segments, and is further ahead of the other than [`LEAD`] does it wait for that,
//! so that segments which come one after the other are interleaved; and for no longer than [`WAIT`].

use glassline_media::container::ts::{AudioFormat, Error, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Ticks, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// How far one track may be ahead of the other without waiting for it. The stamps on the wire are later than the clock by as
/// much, so that what comes after is still in time.
pub(crate) const LEAD: Ticks = Ticks(27_000);
/// How long one track waits for the other. After that it no longer waits until the other has caught up.
pub(crate) const WAIT: Duration = Duration::from_millis(500);
/// How much more than it lasts time has to pass for what came at once to be forgotten, in percent.
const LEAK_PERCENT: i64 = 110;
/// Times that are further apart than this are not on one clock.
const FAR: i64 = 10 * Ticks::RATE as i64;

/// What goes out of a program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Written {
    /// Whole packets of a transport stream.
    Bytes(Vec<u8>),
    /// What follows does not continue what was before: another publisher might as well have come.
    Seam,
}

/// A unit on its way.
#[derive(Debug)]
struct Waiting {
    unit: AccessUnit,
    at: Time,
    /// By how much more time the track has brought than has passed, in ticks.
    ahead: i64,
}

/// One of the two tracks.
#[derive(Debug, Default)]
struct Side {
    queue: VecDeque<Waiting>,
    /// The newest unit that came: its decoding time, when it came, and by how much it was ahead.
    pace: Option<(Ticks, Time, i64)>,
    /// The decoding time of the newest unit that went on.
    newest: Option<Ticks>,
    /// It was waited for in vain.
    is_behind: bool,
}

impl Side {
    /// By how much a unit is ahead of the time that has passed: a bucket that leaks.
    fn ahead(&mut self, dts: Ticks, at: Time) -> i64 {
        let ahead = self.pace.map_or(0, |(last, last_at, ahead)| {
            let passed = Ticks::from_time(Time::ZERO + at.since(last_at)).0;
            let leaked = passed.saturating_mul(LEAK_PERCENT) / 100;
            ahead.saturating_add((dts - last).0).saturating_sub(leaked).max(0)
        });
        self.pace = Some((dts, at, ahead));
        ahead
    }
}

/// A multiplexer of a program with these tracks.
///
/// # Errors
/// As [`Muxer::new`]: MPEG-TS has no place for such a codec or so many channels, or there is no track.
pub(super) fn muxer(
    pictures: Option<Codec>,
    sound: Option<AudioFormat>,
    table_version: u8,
) -> Result<Muxer, Error> {
    let settings = MuxSettings {
        video: pictures,
        audio: sound,
        decode_delay: LEAD,
        table_version,
        ..MuxSettings::default()
    };
    Muxer::new(settings)
}

/// A program: pictures, sound, or both.
#[derive(Debug)]
pub(crate) struct Program {
    /// Pictures, then sound; `None` where there is no such track.
    sides: [Option<Side>; 2],
    pictures: Option<Codec>,
    sound: Option<AudioFormat>,
    muxer: Option<Muxer>,
    version: u8,
    /// The newest decoding time of what was written.
    clock: Option<Ticks>,
    bytes: usize,
}

impl Program {
    pub(crate) fn new(pictures: Option<Codec>, sound: Option<AudioFormat>) -> Program {
        let mut program = Program {
            sides: [pictures.map(|_| Side::default()), sound.map(|_| Side::default())],
            pictures,
            sound,
            muxer: None,
            version: 0,
            clock: None,
            bytes: 0,
        };
        program.muxer = program.new_muxer();
        program
    }

    fn new_muxer(&self) -> Option<Muxer> {
        muxer(self.pictures, self.sound, self.version).ok()
    }

    /// Whether it has pictures.
    pub(crate) fn has_pictures(&self) -> bool {
        self.pictures.is_some()
    }

    /// Its sound.
    pub(crate) fn sound(&self) -> Option<AudioFormat> {
        self.sound
    }

    /// The program has these tracks from now on, beside those that it has of the other kind, and begins anew.
    pub(crate) fn change(&mut self, pictures: Option<Codec>, sound: Option<AudioFormat>) -> Written {
        if pictures.is_some() && self.sides[0].is_none() {
            self.sides[0] = Some(Side::default());
        }
        if sound.is_some() && self.sides[1].is_none() {
            self.sides[1] = Some(Side::default());
        }
        self.pictures = pictures.or(self.pictures);
        self.sound = sound.or(self.sound);
        self.version = self.version.wrapping_add(1) % 32;
        self.muxer = self.new_muxer();
        Written::Seam
    }

    /// Takes a unit of one of its tracks; `jumps` where that track's times begin anew with it. Returns whether it is on the
    /// program's clock; one that is not is dropped.
    pub(crate) fn push(&mut self, unit: AccessUnit, at: Time, jumps: bool, out: &mut Vec<Written>) -> bool {
        let own = usize::from(!unit.codec.is_video());
        let is_far = self.is_far(unit.dts);
        // The other track may have jumped before: then this one has written nothing since.
        let is_back = self.newest(own).is_some_and(|newest| unit.dts < newest);
        if jumps && (is_far || is_back) {
            // What waits belongs to the times before.
            self.drain(Time::NEVER, out);
            self.clock = None;
            for side in self.sides.iter_mut().flatten() {
                (side.newest, side.is_behind, side.pace) = (None, false, None);
            }
            out.push(self.change(None, None));
        } else if is_far {
            return false;
        }
        let ahead = self.newest(own ^ 1).map_or(i64::MIN, |newest| (newest - LEAD).0);
        let Some(side) = &mut self.sides[own] else { return true };
        side.is_behind &= unit.dts.0 < ahead;
        self.bytes = self.bytes.saturating_add(unit.data.len());
        // The clock that others are compared with begins with what comes first.
        self.clock = self.clock.or(Some(unit.dts));
        let ahead = side.ahead(unit.dts, at);
        side.queue.push_back(Waiting { unit, at, ahead });
        true
    }

    /// Whether a time has nothing to do with those of what was written.
    pub(super) fn is_far(&self, dts: Ticks) -> bool {
        self.clock.is_some_and(|clock| (dts - clock).0.saturating_abs() > FAR)
    }

    /// The newest decoding time that came, of either track.
    pub(super) fn clock(&self) -> Option<Ticks> {
        self.clock
    }

    fn newest(&self, side: usize) -> Option<Ticks> {
        let side = self.sides[side].as_ref()?;
        side.queue.back().map(|waiting| waiting.unit.dts).or(side.newest)
    }

    /// Writes what may go on.
    pub(crate) fn drain(&mut self, now: Time, out: &mut Vec<Written>) {
        let mut bytes = Vec::new();
        while let Some(index) = self.next_side() {
            let waits = self.waits_for(index).is_some_and(|until| now < until);
            if waits {
                break;
            }
            if self.waits_for(index).is_some()
                && let Some(other) = &mut self.sides[index ^ 1]
            {
                other.is_behind = true;
            }
            let Some(side) = &mut self.sides[index] else { break };
            let Some(Waiting { unit, .. }) = side.queue.pop_front() else { break };
            self.bytes = self.bytes.saturating_sub(unit.data.len());
            side.newest = Some(unit.dts);
            self.clock = self.clock.max(Some(unit.dts));
            if let Some(muxer) = &mut self.muxer {
                // The program has both codecs by its making; what still comes of one that it had before is none of it.
                let _ = muxer.write(&unit, &mut bytes);
            }
        }
        if !bytes.is_empty() {
            out.push(Written::Bytes(bytes));
        }
    }

    /// The side with the unit that is decoded first.
    fn next_side(&self) -> Option<usize> {
        let front = |side: usize| self.sides[side].as_ref()?.queue.front().map(|waiting| waiting.unit.dts);
        match (front(0), front(1)) {
            (Some(pictures), Some(sound)) => Some(usize::from(sound < pictures)),
            (Some(_), None) => Some(0),
            (None, Some(_)) => Some(1),
            (None, None) => None,
        }
    }

    /// Until when the first unit of a side waits for the other one, if it does.
    fn waits_for(&self, side: usize) -> Option<Time> {
        let Waiting { unit, at, ahead } = self.sides[side].as_ref()?.queue.front()?;
        let other = self.sides[side ^ 1].as_ref()?;
        let is_near = other.newest.is_some_and(|newest| (unit.dts - newest).0 <= LEAD.0);
        (*ahead > LEAD.0 && other.queue.is_empty() && !other.is_behind && !is_near).then(|| *at + WAIT)
    }

    /// When [`Program::drain`] writes what it does not write yet.
    pub(crate) fn waits_until(&self) -> Option<Time> {
        self.waits_for(self.next_side()?)
    }

    /// Bytes that wait.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
#[path = "program_tests.rs"]
mod tests;
