//! One stream, watched: see the [module](super) for what goes in and out.

use super::alarm::Alarm;
use super::arrivals::{Arrival, BitrateMeter, Errors};
use super::av_sync::AvSync;
use super::blurred::Sharpness;
use super::board::Board;
use super::captions::Captions;
use super::event::Raised;
use super::picture::{FiguresWanted, PictureFigures};
use super::pictures::{Decision, Decoding, Pictures};
use super::rules::Rules;
use super::sound::{SILENT_DBFS, SoundMeter};
use super::timeline::Timeline;
use glassline_media::bitstream::captions;
use glassline_media::container::ts::{Pcr, Program};
use glassline_media::{AccessUnit, Time};
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// How often a stream that says nothing is looked at.
const LOOK: Duration = Duration::from_millis(250);
/// Pictures without sound for longer than this have none.
const SOUND_GONE: Duration = Duration::from_secs(1);

/// What of an access unit has to be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wanted {
    /// Nothing.
    Nothing,
    /// Nothing, and no picture until the next with which decoding begins: what the decoder of pictures holds is given.
    RunEnds,
    /// Its sound, for [`Watcher::push_sound`].
    Sound {
        /// When it is heard.
        at: Time,
    },
    /// Its picture, for [`Watcher::push_picture`].
    Picture {
        /// When it is seen.
        at: Time,
        /// Whether decoding begins with it, for which what the decoder holds is given, and forgotten.
        decoding: Decoding,
    },
}

/// An alarm that is there.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Active {
    /// Which one.
    pub alarm: Alarm,
    /// When it began, as in [`Raised::at`].
    pub since: Time,
    /// What was measured last.
    pub value: Option<f64>,
    /// The limit.
    pub limit: f64,
}

/// What a later run goes on with: the sharpness of the last key frames.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Saved {
    sharpness: Vec<f64>,
}

impl Saved {
    /// Whether nothing is known.
    pub fn is_empty(&self) -> bool {
        self.sharpness.is_empty()
    }
}

/// Watches one stream. Holds some ten kilobytes, and is bounded whatever the stream is.
#[derive(Clone, Debug)]
pub struct Watcher {
    board: Board,
    timeline: Timeline,
    pictures: Pictures,
    sound: SoundMeter,
    av_sync: AvSync,
    captions: Captions,
    bitrate: BitrateMeter,
    errors: Errors,
    arrival: Arrival,
    /// The elementary streams that are watched; `None` as long as any is the first.
    picture_pid: Option<u16>,
    sound_pid: Option<u16>,
    /// When sound was heard last, as it came and not as it was decoded.
    sound_at: Option<Time>,
    is_sound_decoded: bool,
    is_gone: bool,
    next_look: Time,
}

impl Watcher {
    /// Watches for what `rules` say, which [`Rules::check`] has passed.
    pub fn new(rules: Rules) -> Watcher {
        Watcher::restore(rules, &Saved::default())
    }

    /// Goes on with what an earlier run knew.
    pub fn restore(rules: Rules, saved: &Saved) -> Watcher {
        Watcher {
            board: Board::new(rules),
            timeline: Timeline::default(),
            pictures: Pictures::new(Sharpness::restore(&saved.sharpness)),
            sound: SoundMeter::new(),
            av_sync: AvSync::new(),
            captions: Captions::default(),
            bitrate: BitrateMeter::new(),
            errors: Errors::default(),
            arrival: Arrival::default(),
            picture_pid: None,
            sound_pid: None,
            sound_at: None,
            is_sound_decoded: false,
            is_gone: false,
            next_look: Time::ZERO,
        }
    }

    /// What a later run can go on with.
    pub fn save(&self) -> Saved {
        Saved { sharpness: self.pictures.sharpness().save() }
    }

    /// Watches for something else from now on. Alarms that are no longer watched for are over.
    pub fn set_rules(&mut self, rules: Rules) {
        self.board.set_rules(rules, self.timeline.newest());
    }

    /// Bytes of the stream have come.
    pub fn push_bytes(&mut self, now: Time) {
        self.is_gone = false;
        self.arrival.bytes(now, &mut self.board);
    }

    /// The publisher has gone. What was wrong with its stream is over, and what comes next is another stream.
    pub fn push_gone(&mut self, now: Time) {
        self.arrival.gone(now);
        if std::mem::replace(&mut self.is_gone, true) {
            return;
        }
        let at = self.timeline.newest();
        Alarm::ALL
            .into_iter()
            .filter(|alarm| *alarm != Alarm::Absent)
            .for_each(|alarm| self.board.end(alarm, at));
        self.push_left_out();
        (self.captions, self.sound_at, self.is_sound_decoded) = (Captions::default(), None, false);
    }

    /// The program is another one than before.
    pub fn push_program(&mut self, program: &Program) {
        self.picture_pid = program.video().map(|stream| stream.pid);
        self.sound_pid = program.audio().map(|stream| stream.pid);
        self.errors.forget();
    }

    /// So many packets are missing or damaged.
    pub fn push_errors(&mut self, count: u64) {
        let at = self.timeline.newest();
        self.errors.add(count, at);
        self.errors.look(at, &mut self.board);
    }

    /// The program's clock has come.
    pub fn push_clock(&mut self, pcr: Pcr) {
        self.errors.follow_clock(pcr, self.timeline.newest());
    }

    /// A subtitle has come.
    pub fn push_subtitle(&mut self) {
        self.captions.push_subtitle(self.timeline.newest());
    }

    /// Takes an access unit. Says what of it has to be decoded, which is pushed before the next unit where it can be.
    pub fn push_unit(&mut self, pid: u16, unit: &AccessUnit) -> Wanted {
        let jumps = self.errors.follow(pid, unit.dts, self.timeline.newest());
        let at = self.timeline.place(unit.pts);
        let decoded_at = self.timeline.place(unit.dts);
        let passed = self.timeline.newest();
        self.errors.add(jumps.into(), passed);
        self.errors.look(passed, &mut self.board);
        self.bitrate.push(unit.data.len(), passed, &mut self.board);
        if unit.codec.is_video() {
            if self.picture_pid.is_some_and(|watched| watched != pid) {
                return Wanted::Nothing;
            }
            self.av_sync.push_picture(unit.dts, decoded_at, &mut self.board);
            if self.board.rules[Alarm::Captions].enabled {
                let has_captions = captions::are_in(unit.codec, &unit.data);
                self.captions.push_picture(has_captions, decoded_at, &mut self.board);
            }
            self.look_for_sound(decoded_at);
            return match self.pictures.decide(unit.random_access, at, &self.board) {
                Decision::Decode(decoding) => Wanted::Picture { at, decoding },
                Decision::LeaveOut => Wanted::Nothing,
                Decision::RunEnds => Wanted::RunEnds,
            };
        }
        if self.sound_pid.is_some_and(|watched| watched != pid) {
            return Wanted::Nothing;
        }
        self.sound_at = Some(at);
        self.av_sync.push_sound(unit.pts);
        let of_sound = [Alarm::Silence, Alarm::Clipping, Alarm::Phase, Alarm::Loudness];
        if !self.is_sound_decoded {
            // Sound that cannot be decoded is sound, for all that is known.
            self.board.observe(Alarm::Silence, false, None, at);
        }
        if self.board.rules.any(&of_sound) { Wanted::Sound { at } } else { Wanted::Nothing }
    }

    /// Pictures go on and sound does not.
    fn look_for_sound(&mut self, at: Time) {
        if self.sound_at.is_some_and(|sound| at.since(sound) > SOUND_GONE) {
            self.board.observe(Alarm::Silence, true, Some(SILENT_DBFS), at);
        }
    }

    /// Takes decoded sound: interleaved `samples` (-1 to 1) of `channels` at `rate_hz`, the first heard at `at`.
    pub fn push_sound(&mut self, samples: &[f32], channels: u8, rate_hz: u32, at: Time) {
        self.is_sound_decoded = true;
        self.sound.push(samples, channels, rate_hz, at, &mut self.board);
    }

    /// Which figures it looks at of a picture that it wanted, which is a key frame or another one.
    pub fn figures_wanted(&self, is_key: bool) -> FiguresWanted {
        FiguresWanted { sharpness: is_key, difference: self.board.rules[Alarm::Frozen].enabled }
    }

    /// Takes the figures of a decoded picture, in the order in which pictures are seen.
    pub fn push_picture(&mut self, figures: &PictureFigures, at: Time) {
        self.pictures.push(figures, at, &mut self.board);
    }

    /// Part of the stream was left out before what comes next, which says nothing of the stream.
    pub fn push_left_out(&mut self) {
        self.board.forget();
        self.pictures.forget();
        self.sound.forget();
        self.av_sync.forget();
        self.bitrate.forget();
        self.errors.forget();
        // Sound that was there is missed from here on.
        self.sound_at = self.sound_at.map(|_| self.timeline.newest());
    }

    /// When [`Watcher::handle_timeout`] has to be called. Changes with that call alone.
    #[must_use]
    pub fn poll_timeout(&self) -> Time {
        self.next_look
    }

    /// Looks whether anything arrives at all. Not called for files.
    pub fn handle_timeout(&mut self, now: Time) {
        if now >= self.next_look {
            self.next_look = now + LOOK;
            self.arrival.look(now, &mut self.board);
        }
    }

    /// The alarms that have begun or are over and that [`Watcher::poll`] has not given yet, oldest first.
    pub fn raised(&self) -> impl ExactSizeIterator<Item = &Raised> {
        self.board.raised()
    }

    /// The next alarm that has begun or is over.
    pub fn poll(&mut self) -> Option<Raised> {
        self.board.poll()
    }

    /// How much of the stream has passed.
    pub fn passed(&self) -> Time {
        self.timeline.newest()
    }

    /// The alarms that are there.
    pub fn active(&self) -> impl Iterator<Item = Active> {
        self.board.active().map(|(alarm, since, value)| {
            let limit = self.board.rules[alarm].limit;
            Active { alarm, since, value, limit }
        })
    }

    /// Ends all alarms: the stream is no longer watched.
    pub fn end(&mut self) {
        let at = self.timeline.newest();
        Alarm::ALL.into_iter().for_each(|alarm| self.board.end(alarm, at));
    }
}
