//! An epoch that goes on: segments are cut by the lead (pictures, or else the first sound), and the others follow.
//!
//! ```text
//! lead      │ segment 7     key frame ─► cut at its time ─► segment 8 …
//! followers │ what is due before the lead's frontier goes to its segment; what is ahead of it waits, since a cut may
//!           │ still come before it
//! ```
//! A player needs both at a time, so what waits for the lead costs no delay.

use super::choice::Choice;
use super::clock::Clock;
use super::follower::{Cut, Follower};
use super::lane::{Lane, Opening, Output};
use super::presentation::{Presentation, ticks_of};
use super::start::{Arrived, Beginning, FAR};
use super::{Event, RenditionName, Settings};
use glassline_media::bitstream::h264;
use glassline_media::container::cmaf::{Error, Media};
use glassline_media::{AccessUnit, Ticks, Utc};
use std::collections::VecDeque;

/// Where the lead's stamps go forward by more than this (or by four pictures), a new epoch begins.
const JUMP: i64 = 2 * Ticks::RATE as i64;
/// Where they go back by more than this, as well; units that are back by less are left out.
const BACK: i64 = Ticks::RATE as i64;
/// Where sound is ahead of the last picture by more than this (or by four pictures), pictures have ceased.
const CEASED: i64 = 3 * Ticks::RATE as i64;
/// A segment without a key frame is cut after so many times its length: by default at 12 s, so that the 10 s that
/// encoders without settings have between key frames are still whole.
const FORCED: u32 = 6;
/// A segment with this many bytes is cut, whatever its stamps say.
const SEGMENT_MAX_BYTES: u64 = 64 << 20;

/// The epoch cannot take the unit: another one is to begin with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Over;

/// Where units go.
pub(super) struct World<'a> {
    pub(super) presentation: &'a mut Presentation,
    pub(super) events: &'a mut VecDeque<Event>,
}

impl World<'_> {
    pub(super) fn output(&mut self, name: RenditionName) -> Option<Output<'_>> {
        let rendition = self.presentation.rendition_mut(name)?;
        Some(Output { rendition, events: self.events })
    }
}

/// An epoch that goes on.
#[derive(Debug)]
pub(super) struct Running {
    settings: Settings,
    zero: Ticks,
    lead: Lane,
    followers: Vec<Follower>,
    /// The lead's last decoding time stamp.
    last: Option<Ticks>,
    /// Where the lead's open segment begins in the source.
    opened_at: u64,
    clock: Clock,
    /// A track has come that was not there at the beginning: the next key frame begins a new epoch.
    renew: Option<RenditionName>,
}

impl Running {
    /// Begins an epoch with segment `number`; the units that have waited are still to be pushed.
    pub(super) fn begin(
        beginning: &Beginning,
        choice: &Choice,
        epoch: u32,
        number: u64,
        world: &mut World<'_>,
    ) -> Option<Running> {
        let settings = world.presentation.settings();
        let mut lanes = beginning.tracks.iter().map(|track| {
            let language = choice.by_name(track.name).and_then(|taken| taken.language);
            Lane::new(track, beginning.zero, epoch, number, language, settings)
        });
        let lead = lanes.next()?;
        let followers: Vec<_> = lanes.map(|lane| Follower::new(lane, beginning.first)).collect();
        let arrived = beginning.units.front().map_or(Utc::default(), |first| first.now);
        let running = Running {
            settings,
            zero: beginning.zero,
            lead,
            followers,
            last: None,
            opened_at: 0,
            clock: Clock::new(beginning.first, arrived),
            renew: None,
        };
        for lane in [&running.lead].into_iter().chain(running.followers.iter().map(|follower| &follower.lane))
        {
            lane.announce(number, world);
        }
        Some(running)
    }

    /// Whether it has taken a unit of what segments are cut by.
    pub(super) fn has_taken_any(&self) -> bool {
        self.last.is_some()
    }

    /// The number that the next segment has.
    pub(super) fn next_number(&self) -> u64 {
        self.followers.iter().map(|follower| follower.lane.number).fold(self.lead.number, u64::max)
    }

    /// Takes a unit.
    pub(super) fn push(&mut self, arrived: &Arrived, world: &mut World<'_>) -> Result<(), Over> {
        if arrived.name == self.lead.name {
            self.push_lead(arrived, world)?;
        } else {
            self.push_follower(arrived)?;
        }
        self.drain(world)
    }

    fn push_lead(&mut self, arrived: &Arrived, world: &mut World<'_>) -> Result<(), Over> {
        let Arrived { unit, now, at, .. } = arrived;
        if !self.follows(unit)? {
            return Ok(());
        }
        let join = !self.lead.name.is_video() || h264::join(&unit.data).is_some();
        if self.renew.is_some() && join || self.has_changed(unit, join) {
            return Err(Over);
        }
        let timed = match self.lead.sample(unit) {
            Ok(timed) => timed,
            Err(Error::Changed) => return Err(Over),
            Err(_) => return Ok(()),
        };
        let captured = self.clock.capture(unit, *now);
        self.last = Some(unit.dts);
        if !self.lead.is_open() || self.is_due(timed.decode_time, join, world) {
            self.cut(unit, *at, timed.decode_time, join, world);
        }
        if let Some(mut out) = world.output(self.lead.name) {
            self.lead.add(&timed, join, captured, &mut out);
        }
        Ok(())
    }

    /// Whether the unit comes after the last one; [`Over`] where it is on another time.
    fn follows(&self, unit: &AccessUnit) -> Result<bool, Over> {
        let Some(last) = self.last else { return Ok(unit.dts >= self.zero) };
        let since = (unit.dts - last).0;
        if since > JUMP.max(4 * self.sample()) || since < -BACK { Err(Over) } else { Ok(since > 0) }
    }

    /// How long a sample of the lead lasts, in ticks of 90 kHz.
    fn sample(&self) -> i64 {
        ticks_of(self.lead.half_sample() * 2, Ticks::RATE) as i64
    }

    /// Whether what a decoder has to know is no longer what the epoch's header says. Of pictures that is asked where
    /// decoding can begin; elsewhere making a sample tells.
    fn has_changed(&self, unit: &AccessUnit, join: bool) -> bool {
        join && Media::of(unit, false).is_ok_and(|media| media != self.lead.timeline.track().media)
    }

    /// Whether a segment ends before the sample at `decode_time`.
    fn is_due(&self, decode_time: u64, join: bool, world: &World<'_>) -> bool {
        let elapsed = self.lead.elapsed(decode_time) + self.lead.half_sample();
        let open = world.presentation.rendition(self.lead.name).and_then(|rendition| rendition.open());
        let is_large = open.is_some_and(|open| open.size_bytes > SEGMENT_MAX_BYTES);
        let is_due = match open.zip(world.presentation.current_epoch()) {
            // By the epoch's time and not by the segment's: where key frames come a little late, as they do when pictures
            // are left out, segments would come later and later than players of DASH reckon by their numbers.
            Some((open, epoch)) => {
                let first = super::duration_of(epoch.first_ticks, Ticks::RATE);
                let since = open.start_time().saturating_sub(first) + elapsed;
                let count =
                    u32::try_from(open.number.saturating_sub(epoch.first_segment)).unwrap_or(u32::MAX);
                let due = self.settings.segment.saturating_mul(count.saturating_add(1));
                elapsed >= self.settings.segment / 2 && since >= due
            }
            None => elapsed >= self.settings.segment,
        };
        join && is_due || elapsed >= self.settings.segment * FORCED || is_large
    }

    /// Ends the lead's segment before `unit`, which begins at `at` in the source, and begins the next one with it.
    fn cut(&mut self, unit: &AccessUnit, at: u64, decode_time: u64, join: bool, world: &mut World<'_>) {
        let was_open = self.lead.is_open();
        let pts = unit.pts.max(unit.dts);
        let offset = self.lead.scaled(pts - unit.dts);
        let date = self.clock.date_of(pts);
        let opening = Opening { decode_time, offset, date, independent: join };
        let Some(mut out) = world.output(self.lead.name) else { return };
        self.lead.end_segment(Some(decode_time), &mut out);
        out.rendition.is_made_of(std::mem::replace(&mut self.opened_at, at)..at);
        out.rendition.trim(self.settings.window, out.events);
        self.lead.begin_segment(opening, &mut out);
        if was_open {
            world.presentation.learn_length(self.lead.name);
            let cut = Cut { segment: self.lead.number, pts };
            self.followers.iter_mut().for_each(|follower| follower.cuts.push_back(cut));
        }
    }

    fn push_follower(&mut self, arrived: &Arrived) -> Result<(), Over> {
        let ahead = (arrived.unit.pts - self.frontier()).0;
        let ceased = CEASED.max(4 * self.sample());
        let Some(follower) = self.followers.iter_mut().find(|follower| follower.lane.name == arrived.name)
        else {
            return self.handle_unknown(arrived, ahead);
        };
        if ahead.abs() > FAR {
            // Another clock. Where the lead follows it, that begins the new epoch.
            return Ok(());
        }
        if self.lead.name.is_video() && self.last.is_some() && ahead > ceased {
            return Err(Over);
        }
        follower.hold(arrived.clone());
        Ok(())
    }

    /// A track that was announced, but not there when the epoch began.
    fn handle_unknown(&mut self, arrived: &Arrived, ahead: i64) -> Result<(), Over> {
        if arrived.name.is_video() {
            return if super::start::begins(&arrived.unit) { Err(Over) } else { Ok(()) };
        }
        if ahead.abs() <= FAR && Media::of(&arrived.unit, false).is_ok() {
            self.renew = Some(arrived.name);
        }
        Ok(())
    }

    /// Behind which no cut can come any more: the lead's next sample is not before it.
    fn frontier(&self) -> Ticks {
        self.last.map_or(self.zero, |last| last + Ticks(self.sample()))
    }

    fn drain(&mut self, world: &mut World<'_>) -> Result<(), Over> {
        let frontier = self.frontier();
        for follower in &mut self.followers {
            follower.drain(frontier, self.zero, &self.clock, world)?;
        }
        Ok(())
    }

    /// Ends all segments, at `at` in the source: the numbers of all renditions agree afterwards.
    pub(super) fn finish(&mut self, at: u64, world: &mut World<'_>) {
        let window = self.settings.window;
        let end = self.lead.is_open().then(|| self.zero + Ticks(self.lead.end_ticks()));
        for follower in &mut self.followers {
            // What is wrong with what is left begins no new epoch any more.
            let _ = follower.drain(Ticks(i64::MAX), self.zero, &self.clock, world);
            follower.finish(self.lead.number, end, self.zero, &self.clock, world);
        }
        if let Some(mut out) = world.output(self.lead.name) {
            self.lead.end_segment(None, &mut out);
            out.rendition.is_made_of(self.opened_at..at);
            out.rendition.trim(window, out.events);
        }
        world.presentation.learn_length(self.lead.name);
    }

    /// Whether a rendition is written in this epoch.
    pub(super) fn has(&self, name: RenditionName) -> bool {
        self.lead.name == name || self.followers.iter().any(|follower| follower.lane.name == name)
    }

    /// The track for whose sake the epoch ends at the next key frame.
    pub(super) fn renewed_for(&self) -> Option<RenditionName> {
        self.renew
    }
}
