//! Access units in; CMAF chunks, parts and segments out, which LL-HLS and LL-DASH share (ISO/IEC 23000-19 §7.3).
//!
//! ```text
//!              choice            start              running, follower       lane (one a rendition)
//! Program ──► which streams     first key frame    sound waits until it    samples ─► chunks ─► parts ─► segments
//! AccessUnit ► become which ──► and first sound ─► is known where video's ─►
//!              rendition        of an epoch        segments end
//! ```
//! A segment of video ends at a key frame, and those of sound at the same time, so that their numbers agree. What is
//! given out ([`Event`]) is one set of chunks for both protocols; [`Presentation`] is what their playlists are
//! rendered from. `edge` keeps the bytes and answers requests.

mod announced;
mod choice;
mod clock;
mod cues;
mod demux;
mod event;
mod follower;
mod guide;
mod lane;
mod metadata;
mod output;
mod presentation;
mod rendition_name;
mod running;
mod settings;
mod start;
mod steady;

pub use announced::Announced;
pub use demux::{Demultiplexer, Input};
pub use event::Event;
pub use guide::Guide;
pub use metadata::EventStream;
pub use presentation::later;
pub use presentation::{
    Availability, Bandwidth, DateRange, Epoch, KeyFrame, Kind, Part, Position, Presentation, Rendition,
    Segment, SegmentLength, TrackInfo,
};
pub(crate) use presentation::{duration_of, ticks_of};
pub use rendition_name::{RenditionName, UnknownRendition};
pub use settings::{PART_RANGE, SEGMENT_RANGE, Settings, SettingsError, WINDOW_RANGE};

#[cfg(test)]
pub(crate) mod testing;
#[cfg(test)]
mod tests;

use choice::Choice;
use cues::{Cue, Cues, begins_sequence};
use glassline_media::bitstream::mpeg_audio;
use glassline_media::container::ts::psi::ElementaryStream;
use glassline_media::container::ts::{DataUnit, Program};
use glassline_media::{AccessUnit, Codec, Utc};
use guide::Place;
use metadata::{Known, Metadata};
use output::World;
use running::{Over, Running};
use serde::Serialize;
use start::{Arrived, Beginning, Start};
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Tracks of sound that are taken of one program.
pub const AUDIO_MAX: u8 = 7;

/// A stream of MPEG audio is refused for its layer after so many frames in a row.
const REFUSED_AFTER: u8 = 3;
/// A part that stays open ends after so many times its length.
const STALLED_PARTS: u32 = 3;
/// Stamps beyond this many ticks (12,700 years) are none.
const STAMP_MAX: i64 = 1 << 55;
/// Between a unit's stamps lie at most so many ticks (10 s).
const REORDER_MAX: i64 = 900_000;

/// A stream of the program that no rendition is made of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct LeftOut {
    /// Its number in the source: the PID of its packets; in FLV the type of its tags (9: pictures, 8: sound).
    pub pid: u16,
    /// Its codec or format, for people.
    pub codec: Cow<'static, str>,
    /// Why, for people.
    pub why: Cow<'static, str>,
}

/// The streams of a program that no rendition is made of, as far as its table tells.
pub fn left_out_of(streams: &[ElementaryStream]) -> Vec<LeftOut> {
    Choice::of(&announced(streams)).left_out
}

fn announced(streams: &[ElementaryStream]) -> Vec<Announced> {
    streams.iter().map(Announced::from).collect()
}

/// Makes a presentation of a program's access units.
#[derive(Debug)]
pub struct Packager {
    presentation: Presentation,
    choice: Choice,
    /// The program is known.
    has_program: bool,
    /// Streams of MPEG audio that are not of layer III, which only their frames tell.
    refused: Vec<u16>,
    /// How many such frames have come in a row, of streams that are not refused yet.
    suspect: BTreeMap<u16, u8>,
    stage: Stage,
    /// Key frames of pictures that are left out, until an epoch begins that is cut at them.
    cues: Cues,
    metadata: Metadata,
    /// The number of the next epoch, and of its first segment.
    epoch: u32,
    number: u64,
    /// Tracks that came late and began an epoch for that: once each.
    late: Vec<RenditionName>,
    /// The other version of the capture that the next epoch joins.
    guide: Option<Guide>,
    /// No epoch has begun.
    is_new: bool,
    events: VecDeque<Event>,
}

#[derive(Debug)]
enum Stage {
    /// Until an epoch can begin.
    Starting(Start),
    Running(Box<Running>),
    Ended,
}

/// Whether a frame of MPEG audio is MP3, or nothing that says otherwise.
fn is_layer_iii(unit: &AccessUnit) -> bool {
    mpeg_audio::Header::parse(&unit.data).is_none_or(|header| header.layer == 3)
}

impl Packager {
    /// A packager before the first unit. Settings that are out of their range are brought into it.
    pub fn new(settings: Settings) -> Packager {
        Packager {
            presentation: Presentation::new(settings.clamped()),
            choice: Choice::default(),
            has_program: false,
            refused: Vec::new(),
            suspect: BTreeMap::new(),
            stage: Stage::Starting(Start::default()),
            cues: Cues::default(),
            metadata: Metadata::default(),
            epoch: 1,
            number: 0,
            late: Vec::new(),
            guide: None,
            is_new: true,
            events: VecDeque::new(),
        }
    }

    /// The same, with these numbers for its first epoch and its first segment: where they grow from run to run, no cache
    /// takes the objects of one run for those of another.
    #[must_use]
    pub fn starting_at(mut self, epoch: u32, segment: u64) -> Packager {
        (self.epoch, self.number) = (epoch, segment);
        self
    }

    /// Whether the next key frame may begin an epoch: then [`Packager::follow`] has an effect.
    pub fn is_starting(&self) -> bool {
        matches!(self.stage, Stage::Starting(_))
    }

    /// The next epoch joins that of another version of the capture, where their clocks are one: its segments begin and end
    /// with the other's, and a packager that is new numbers them and its epoch alike.
    pub fn follow(&mut self, guide: Option<Guide>) {
        self.guide = guide;
    }

    /// Takes what was found in a stream's bytes, which came at `now`; `reached` is behind the last of them. Poll afterwards.
    pub fn handle_input(&mut self, input: Input, now: Utc, reached: u64) {
        match input {
            Input::Tracks(tracks) => self.handle_streams(&tracks, now, reached),
            Input::Unit { track, unit, at } => self.push(track, &unit, now, at),
            Input::Data { track, unit } => self.push_data(track, unit, now),
        }
    }

    /// The program is this from now on, `at` this place of the source: see [`Packager::handle_streams`].
    pub fn handle_program(&mut self, program: &Program, now: Utc, at: u64) {
        self.handle_streams(&announced(&program.streams), now, at);
    }

    /// The streams are these from now on, `at` this place of the source: chooses what renditions are made of. Where that is not
    /// what was chosen before, a new epoch begins.
    pub fn handle_streams(&mut self, streams: &[Announced], now: Utc, at: u64) {
        let mut choice = Choice::of(streams);
        choice.refuse(&self.refused);
        if choice.taken != self.choice.taken {
            self.discontinuity(now, at);
            self.late.clear();
        }
        self.presentation.event_streams = metadata::event_streams(&choice.data);
        self.choice = choice;
        self.has_program = true;
    }

    /// Takes the next access unit of the stream on `pid`, which was complete at `now` and begins at `at` in its source,
    /// whatever that counts. What follows from it waits in
    /// [`Packager::poll`]. Units of other streams, of another codec than the program says, and with stamps that are
    /// none are left out.
    pub fn push(&mut self, pid: u16, unit: &AccessUnit, now: Utc, at: u64) {
        if self.choice.cue_pid() == Some(pid) {
            return self.take_cue(unit, at);
        }
        let Some(taken) = self.choice.by_pid(pid).filter(|taken| taken.codec == unit.codec) else { return };
        if unit.codec == Codec::MpegAudio && !is_layer_iii(unit) {
            self.suspect(pid);
            return;
        }
        self.suspect.remove(&pid);
        let in_range = |stamp: i64| (-STAMP_MAX..STAMP_MAX).contains(&stamp);
        if !in_range(unit.pts.0) || !in_range(unit.dts.0) || (unit.pts - unit.dts).0.abs() > REORDER_MAX {
            return;
        }
        let he_aac = self.choice.he_aac(pid);
        let arrived = Arrived { name: taken.name, unit: unit.clone(), now, at, he_aac };
        if !self.is_starting() || self.choice.cue_pid().is_none() {
            self.take(arrived);
        } else if let Some(ready) = self.cues.hold(arrived) {
            ready.into_iter().for_each(|arrived| self.take(arrived));
        }
        if !self.is_starting() {
            for (pid, unit) in self.metadata.take_waiting() {
                self.push_data(pid, unit, now);
            }
        }
        if !self.events.is_empty() {
            self.presentation.changed = now;
        }
    }

    /// Takes a unit of a stream of data, which was complete at `now`: it becomes an event in a chunk of the rendition that segments
    /// are cut by. Of streams that the program does not have none is taken.
    pub fn push_data(&mut self, pid: u16, unit: DataUnit, now: Utc) {
        let Some(stream) = self.presentation.event_streams.iter().find(|stream| stream.pid == pid) else {
            return;
        };
        let running = match &mut self.stage {
            Stage::Running(running) => running,
            Stage::Starting(_) => {
                let dropped = self.metadata.wait(pid, unit);
                return self.presentation.drop_events(dropped);
            }
            Stage::Ended => return,
        };
        if let Some(known) = Known::new(unit, stream) {
            running.take_data(&known, &mut self.metadata, &mut self.presentation);
            if known.cue.is_some() {
                self.presentation.changed = now;
            }
        }
    }

    /// A picture has come that no rendition is made of.
    fn take_cue(&mut self, unit: &AccessUnit, at: u64) {
        if !begins_sequence(unit) {
            return;
        }
        let cue = Cue { pts: unit.pts, at };
        match &mut self.stage {
            Stage::Starting(_) => self.cues.push(cue),
            Stage::Running(running) => running.take_cue(cue),
            Stage::Ended => {}
        }
    }

    /// A frame of MPEG audio that no rendition is made of has come on `pid`. One is left out, since behind a loss something else
    /// can look like a frame; several in a row tell what the stream is.
    fn suspect(&mut self, pid: u16) {
        let count = self.suspect.entry(pid).or_default();
        *count = count.saturating_add(1);
        if *count < REFUSED_AFTER {
            return;
        }
        self.suspect.remove(&pid);
        self.refused.push(pid);
        self.choice.refuse(&self.refused);
    }

    /// Takes a unit and, where it begins an epoch, what has waited with it. Each beginning uses up at least one unit, so this
    /// ends: see [`Packager::run`].
    fn take(&mut self, arrived: Arrived) {
        let mut queue = VecDeque::from([arrived]);
        while let Some(arrived) = queue.pop_front() {
            let mut next = if self.is_starting() { [arrived].into() } else { self.run(arrived) };
            while let Some(arrived) = next.pop_front() {
                if let Some(mut waited) = self.start(arrived) {
                    waited.append(&mut next);
                    next = waited;
                    break;
                }
            }
            next.append(&mut queue);
            queue = next;
        }
    }

    /// Gives a unit to the epoch that goes on. Returns what is for the next one.
    fn run(&mut self, arrived: Arrived) -> VecDeque<Arrived> {
        let Stage::Running(running) = &mut self.stage else { return [arrived].into() };
        let came_late = !running.has(arrived.name) && self.late.contains(&arrived.name);
        if came_late && !arrived.name.is_video() {
            return VecDeque::new();
        }
        let is_unused = !running.has_taken_any();
        let mut world = World { presentation: &mut self.presentation, events: &mut self.events };
        let at = arrived.at;
        let Err(Over { units, keeps_sound }) = running.push(arrived, &mut world) else {
            return VecDeque::new();
        };
        self.end_epoch(at, keeps_sound);
        // A unit that an epoch does not take which has taken none yet would begin the same epoch again, without end.
        if is_unused { VecDeque::new() } else { units.into() }
    }

    /// Adds a unit to what waits for an epoch. Where it begins, returns what has waited.
    fn start(&mut self, arrived: Arrived) -> Option<VecDeque<Arrived>> {
        let Stage::Starting(start) = &mut self.stage else { return None };
        let beginning = start.push(arrived, &self.choice, self.guide.as_ref())?;
        let arrived = beginning.arrived();
        let epoch = self.next_epoch(&beginning);
        self.presentation.begin_epoch(epoch, arrived);
        let mut world = World { presentation: &mut self.presentation, events: &mut self.events };
        let mut running = Running::begin(&beginning, &self.choice, self.epoch, self.number, &mut world)?;
        running.follow_cues(std::mem::take(&mut self.cues));
        (self.epoch, self.is_new) = (self.epoch.saturating_add(1), false);
        self.presentation.forget_epochs();
        self.stage = Stage::Running(Box::new(running));
        Some(beginning.units)
    }

    /// What the epoch that begins so is. Numbers that were begun go on: in a playlist they have no gaps.
    fn next_epoch(&mut self, beginning: &Beginning) -> Epoch {
        let zero = beginning.zero;
        let Some(Place { epoch, number }) = beginning.place else {
            let first_ticks = (beginning.first - zero).0.max(0) as u64;
            let (number, first_segment) = (self.epoch, self.number);
            return Epoch {
                number,
                start: Duration::ZERO,
                zero,
                first_ticks,
                first_segment,
                segment_length: None,
            };
        };
        if std::mem::take(&mut self.is_new) {
            (self.epoch, self.number) = (epoch.number, number);
        }
        // Where numbers differ, the times that they stand for do not.
        let first_segment = self.number.saturating_add(epoch.first_segment).saturating_sub(number);
        Epoch { number: self.epoch, first_segment, ..epoch }
    }

    /// Ends the epoch, if one goes on: what comes next is the beginning of another.
    fn end_epoch(&mut self, at: u64, keeps_sound: bool) {
        let before = std::mem::replace(&mut self.stage, Stage::Starting(Start::keeping_sound(keeps_sound)));
        let Stage::Running(mut running) = before else { return };
        let mut world = World { presentation: &mut self.presentation, events: &mut self.events };
        running.finish(at, &mut world);
        self.number = running.next_number();
        self.cues = running.take_cues();
        // A cue that came behind the last picture is for the first chunk of the next epoch.
        let (cues, mut dropped) = running.take_held();
        for (pid, unit) in cues {
            dropped += self.metadata.wait(pid, unit);
        }
        self.presentation.drop_events(dropped);
        self.late.extend(running.renewed_for());
    }

    /// What comes next has nothing to do with what came before, which ends at `at` in the source: a publisher has returned.
    pub fn discontinuity(&mut self, now: Utc, at: u64) {
        if matches!(self.stage, Stage::Ended) {
            return;
        }
        self.end_epoch(at, false);
        self.cues = Cues::default();
        let forgotten = self.metadata.forget();
        self.presentation.drop_events(forgotten);
        self.refused.clear();
        self.suspect.clear();
        self.presentation.changed = now;
    }

    /// Nothing comes any more behind `at` in the source: the playlists end. What is pushed afterwards is left out.
    pub fn finish(&mut self, now: Utc, at: u64) {
        if matches!(self.stage, Stage::Ended) {
            return;
        }
        self.end_epoch(at, false);
        let forgotten = self.metadata.forget();
        self.presentation.drop_events(forgotten);
        self.stage = Stage::Ended;
        self.presentation.ended = true;
        self.presentation.changed = now;
        self.events.push_back(Event::Ended);
    }

    /// How long after the last unit [`Packager::handle_stall`] is due: three times a part's time; `None` where no part is open.
    pub fn stall_timeout(&self) -> Option<Duration> {
        let Stage::Running(running) = &self.stage else { return None };
        running.has_open_part().then(|| self.presentation.settings().part * STALLED_PARTS)
    }

    /// Nothing has come for that long: ends the open parts as they are, so that viewers do not wait for pictures that are there
    /// already.
    pub fn handle_stall(&mut self, now: Utc) {
        let Stage::Running(running) = &mut self.stage else { return };
        let mut world = World { presentation: &mut self.presentation, events: &mut self.events };
        running.end_open_parts(&mut world);
        self.presentation.changed = now;
    }

    /// The next event. Poll until `None` after each call above, or they pile up.
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// What there is to play.
    pub fn presentation(&self) -> &Presentation {
        &self.presentation
    }

    /// Whether the program is known, and no rendition is made of any of its streams: there will be nothing to play.
    pub fn takes_nothing(&self) -> bool {
        self.has_program && self.choice.taken.is_empty()
    }

    /// The program's streams that no rendition is made of.
    pub fn left_out(&self) -> &[LeftOut] {
        &self.choice.left_out
    }
}
