//! Pictures and sound of one program, merged by decoding time, and made into a transport stream.
//!
//! What comes as fast as it lasts goes on at once, whatever the other track does: the multiplexer holds nothing back. Only
//! where a track comes faster, as in whole segments, and is further ahead of the other than [`LEAD`] does it wait for that,
//! so that segments which come one after the other are interleaved; and for no longer than [`WAIT`].

use super::counters::Counters;
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer};
use glassline_media::{AccessUnit, Codec, Ticks, Time};
use std::collections::VecDeque;
use std::time::Duration;

/// How far one track may be ahead of the other without waiting for it. The stamps on the wire are later than the clock by as
/// much, so that what comes after is still in time.
pub(super) const LEAD: Ticks = Ticks(27_000);
/// How long one track waits for the other. After that it no longer waits until the other has caught up.
pub(super) const WAIT: Duration = Duration::from_millis(500);
/// How much more than it lasts time has to pass for what came at once to be forgotten, in percent.
const LEAK_PERCENT: i64 = 110;
/// Times that are further apart than this are not on one clock.
const FAR: i64 = 10 * Ticks::RATE as i64;

/// What goes out of a program.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Written {
    /// Packets.
    Bytes(Vec<u8>),
    /// What follows does not continue what was before.
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

/// A program: pictures, sound, or both.
#[derive(Debug)]
pub(super) struct Program {
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
    pub(super) fn new(pictures: Option<Codec>, sound: Option<AudioFormat>) -> Program {
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
        let settings = MuxSettings {
            video: self.pictures,
            audio: self.sound,
            decode_delay: LEAD,
            table_version: self.version,
            ..MuxSettings::default()
        };
        Muxer::new(settings).ok()
    }

    /// Whether it has pictures.
    pub(super) fn has_pictures(&self) -> bool {
        self.pictures.is_some()
    }

    /// Its sound.
    pub(super) fn sound(&self) -> Option<AudioFormat> {
        self.sound
    }

    /// The program has these tracks from now on, beside those that it has of the other kind, and begins anew.
    pub(super) fn change(&mut self, pictures: Option<Codec>, sound: Option<AudioFormat>) -> Written {
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
    /// program's clock; one that is not is dropped and counted.
    pub(super) fn push(
        &mut self,
        unit: AccessUnit,
        at: Time,
        jumps: bool,
        counters: &mut Counters,
        out: &mut Vec<Written>,
    ) -> bool {
        let is_far = self.clock.is_some_and(|clock| (unit.dts - clock).0.saturating_abs() > FAR);
        if is_far && jumps {
            // What waits belongs to the times before.
            self.drain(Time::NEVER, out);
            self.clock = None;
            for side in self.sides.iter_mut().flatten() {
                (side.newest, side.is_behind, side.pace) = (None, false, None);
            }
            out.push(self.change(None, None));
        } else if is_far {
            counters.stray_units = counters.stray_units.saturating_add(1);
            return false;
        }
        let (own, other) = if unit.codec.is_video() { (0, 1) } else { (1, 0) };
        let ahead = self.newest(other).map_or(i64::MIN, |newest| (newest - LEAD).0);
        let Some(side) = &mut self.sides[own] else { return true };
        side.is_behind &= unit.dts.0 < ahead;
        self.bytes = self.bytes.saturating_add(unit.data.len());
        // The clock that others are compared with begins with what comes first.
        self.clock = self.clock.or(Some(unit.dts));
        let ahead = side.ahead(unit.dts, at);
        side.queue.push_back(Waiting { unit, at, ahead });
        true
    }

    fn newest(&self, side: usize) -> Option<Ticks> {
        let side = self.sides[side].as_ref()?;
        side.queue.back().map(|waiting| waiting.unit.dts).or(side.newest)
    }

    /// Writes what may go on.
    pub(super) fn drain(&mut self, now: Time, out: &mut Vec<Written>) {
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
    pub(super) fn waits_until(&self) -> Option<Time> {
        self.waits_for(self.next_side()?)
    }

    /// Bytes that wait.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::packager::testing::{PICTURE, opus, picture};
    use glassline_media::container::ts::{Demuxer, Event};

    const OPUS: AudioFormat = AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None };

    struct Run {
        program: Program,
        counters: Counters,
        demuxer: Demuxer,
        seams: usize,
    }

    impl Run {
        fn new() -> Run {
            let program = Program::new(Some(Codec::H264), Some(OPUS));
            Run { program, counters: Counters::default(), demuxer: Demuxer::new(), seams: 0 }
        }

        fn push(&mut self, unit: AccessUnit, at_ms: u64, jumps: bool) -> Vec<(bool, i64)> {
            let mut out = Vec::new();
            let at = Time::from_millis(at_ms);
            self.program.push(unit, at, jumps, &mut self.counters, &mut out);
            self.look(at, out)
        }

        /// What goes on: whether it is a picture, and when it is decoded, in milliseconds.
        fn look(&mut self, now: Time, mut out: Vec<Written>) -> Vec<(bool, i64)> {
            self.program.drain(now, &mut out);
            let mut found = Vec::new();
            for written in out {
                match written {
                    Written::Bytes(bytes) => self.demuxer.push(&bytes),
                    Written::Seam => {
                        self.seams += 1;
                        self.demuxer = Demuxer::new();
                    }
                }
                found.extend(std::iter::from_fn(|| self.demuxer.poll()).filter_map(|event| match event {
                    Event::AccessUnit { unit, .. } => Some((unit.codec.is_video(), (unit.dts - LEAD).0 / 90)),
                    _ => None,
                }));
            }
            found
        }

        fn poll(&mut self, at_ms: u64) -> Vec<(bool, i64)> {
            self.look(Time::from_millis(at_ms), Vec::new())
        }
    }

    #[test]
    fn what_is_not_far_ahead_goes_on_at_once() {
        let mut run = Run::new();
        assert_eq!(run.push(opus(9, 0), 0, false), [(false, 0)]);
        assert_eq!(run.push(picture(true, 9, 0), 1, false), [(true, 0)]);
        for number in 1..=7 {
            let expected = [(true, number * 40)];
            assert_eq!(run.push(picture(false, 9, number * PICTURE), 2, false), expected);
        }
        assert_eq!(run.push(picture(false, 9, 8 * PICTURE), 3, false), [], "320 ms ahead");
        assert_eq!(run.program.waits_until(), Some(Time::from_millis(503)));
        assert_eq!(run.push(opus(9, 1800), 4, false), [(false, 20), (true, 320)]);
        assert_eq!(run.program.bytes(), 0);
    }

    #[test]
    fn a_track_that_has_stopped_is_waited_for_but_once() {
        let mut run = Run::new();
        assert_eq!(run.push(picture(true, 9, 0), 0, false), [(true, 0)]);
        assert_eq!(run.push(picture(false, 9, 50 * PICTURE), 1, false), []);
        assert_eq!(run.poll(500), []);
        assert_eq!(run.poll(501), [(true, 2000)]);
        assert_eq!(run.push(opus(9, 0), 502, false), [(false, 0)], "late as it is");
        assert_eq!(run.push(picture(false, 9, 51 * PICTURE), 503, false), [(true, 2040)]);
        assert_eq!(run.push(opus(9, 180_000), 504, false), [(false, 2000)]);
        assert_eq!(run.push(picture(false, 9, 60 * PICTURE), 505, false), [], "it has caught up");
    }

    #[test]
    fn pictures_that_come_in_time_wait_for_no_sound() {
        let mut run = Run::new();
        for number in 0..200 {
            let at_ms = 1000 + number as u64 * 40;
            // Sound comes a second at a time, and no more after four.
            if number % 25 == 24 && number < 100 {
                for packet in 0..50 {
                    run.push(opus(9, (number - 24) * PICTURE + packet * 1800), at_ms - 1, false);
                }
            }
            let unit = picture(number % 25 == 0, 9, number * PICTURE);
            assert_eq!(run.push(unit, at_ms, false), [(true, number * 40)]);
        }
        assert_eq!(run.program.bytes(), 0);
    }

    #[test]
    fn segments_of_two_tracks_are_interleaved() {
        let mut run = Run::new();
        let mut out = Vec::new();
        for number in 0..10 {
            let unit = picture(number == 0, 9, number * PICTURE);
            out.extend(run.push(unit, 0, false));
        }
        assert_eq!(out.len(), 8, "not more than the lead");
        for number in 0..20 {
            out.extend(run.push(opus(9, number * 1800), 1, false));
        }
        let mut newest = 0;
        for (_, at) in &out {
            newest = newest.max(*at);
            assert!(newest - at <= LEAD.0 / 90, "{out:?}");
        }
        assert_eq!(out.len(), 30);
    }

    #[test]
    fn a_clock_that_jumps_makes_a_seam_and_stray_units_are_dropped() {
        let mut run = Run::new();
        assert_eq!(run.push(opus(9, 0), 0, false).len(), 1);
        assert_eq!(run.push(picture(true, 9, 0), 0, false).len(), 1);
        let later = 1000 * PICTURE;
        assert_eq!(run.push(picture(true, 9, later), 1, true), [(true, 40_000)]);
        assert_eq!(run.seams, 1);
        assert_eq!(run.push(opus(9, 1800), 1, false), []);
        assert_eq!(run.counters.stray_units, 1);
        assert_eq!(run.push(opus(9, later), 2, true), [(false, 40_000)]);
        assert_eq!(run.seams, 1, "one for both");
    }
}
