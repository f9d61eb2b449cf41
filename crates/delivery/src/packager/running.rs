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
use super::cues::{Cue, Cues};
use super::follower::{Cut, Follower};
use super::lane::{Lane, Opening};
use super::metadata::{Known, Metadata};
use super::output::World;
use super::presentation::{Presentation, SegmentLength, ticks_of};
use super::start::{Arrived, Beginning, FAR};
use super::steady::{Context, Steady, Verdict};
use super::{RenditionName, Settings};
use glassline_media::bitstream;
use glassline_media::container::cmaf::Error;
use glassline_media::container::ts::DataUnit;
use glassline_media::{Ticks, Utc};
use std::time::Duration;

/// A segment without a key frame is cut after so many times its length: by default at 12 s, so that the 10 s that
/// encoders without settings have between key frames are still whole.
const FORCED: u32 = 6;
/// A segment with this many bytes is cut, whatever its stamps say.
const SEGMENT_MAX_BYTES: u64 = 64 << 20;

/// The epoch cannot take these units, which have the stamps that they came with: another one is to begin with them.
#[derive(Clone, Debug)]
pub(super) struct Over {
    pub(super) units: Vec<Arrived>,
    /// What sound there is before the first picture belongs to the new epoch.
    pub(super) keeps_sound: bool,
}

/// The epoch cannot take the unit.
#[derive(Clone, Copy, Debug)]
struct Refused;

/// How far key frames of the lead are apart.
#[derive(Clone, Copy, Debug, Default)]
struct Keys {
    last: Option<Ticks>,
    /// The newest ones, in any order.
    distances: [i64; 4],
    count: usize,
}

impl Keys {
    fn add(&mut self, dts: Ticks) {
        if let Some(last) = self.last {
            self.distances[self.count % self.distances.len()] = (dts - last).0.max(0);
            self.count = self.count.wrapping_add(1);
        }
        self.last = Some(dts);
    }

    /// How much in front of the end of a segment of this length a key frame is nearer to it than the next one will be; less than half
    /// of the length in any case.
    fn nearness(&self, length: Duration) -> Duration {
        let longest = self.distances.into_iter().fold(0, i64::max) as u64;
        (super::duration_of(longest, Ticks::RATE).min(length) / 2).saturating_sub(ROUNDED)
    }
}

/// Where two key frames are as near, the later one is taken.
const ROUNDED: Duration = Duration::from_millis(1);

/// An epoch that goes on.
#[derive(Debug)]
pub(super) struct Running {
    settings: Settings,
    zero: Ticks,
    lead: Lane,
    followers: Vec<Follower>,
    /// The lead's last decoding time stamp.
    last: Option<Ticks>,
    steady: Steady,
    /// Where the lead's open segment begins in the source.
    opened_at: u64,
    clock: Clock,
    keys: Keys,
    /// Where the sound is cut that is alone because the pictures are left out.
    cues: Cues,
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
        let followers: Vec<_> = lanes.map(|lane| Follower::new(lane, beginning.sound_from)).collect();
        let arrived = beginning.arrived();
        let running = Running {
            settings,
            zero: beginning.zero,
            lead,
            followers,
            last: None,
            steady: Steady::default(),
            opened_at: 0,
            clock: Clock::new(beginning.first, arrived),
            keys: Keys::default(),
            cues: Cues::default(),
            renew: None,
        };
        running.lanes().for_each(|lane| lane.announce(number, world));
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
    ///
    /// # Errors
    /// [`Over`] where a new epoch is to begin, with the units that are for that one.
    pub(super) fn push(&mut self, arrived: Arrived, world: &mut World<'_>) -> Result<(), Over> {
        let now = arrived.now;
        if arrived.name == self.lead.name {
            let context = self.lead_context();
            let units = match self.steady.push(arrived, &context) {
                Verdict::Take(units) => units,
                Verdict::Anew(units) => return Err(self.anew(units)),
            };
            self.take_lead(units, world)?;
        } else {
            self.push_follower(arrived)?;
        }
        self.drain(now, world);
        if self.followers.iter().any(Follower::waits_too_long) {
            return Err(self.over(Vec::new()));
        }
        Ok(())
    }

    fn take_lead(&mut self, units: Vec<Arrived>, world: &mut World<'_>) -> Result<(), Over> {
        let mut units = units.into_iter();
        while let Some(arrived) = units.next() {
            if self.push_lead(&arrived, world).is_err() {
                return Err(self.over([arrived].into_iter().chain(units).collect()));
            }
        }
        Ok(())
    }

    /// What the new epoch gets: the sound that waits for it, then these units of the lead.
    fn over(&mut self, lead: Vec<Arrived>) -> Over {
        let keeps_sound = self.followers.iter().any(Follower::is_changed);
        let mut units = Vec::new();
        units.extend(self.followers.iter_mut().flat_map(Follower::take_changed));
        let shift = self.steady.shift();
        units.extend(lead.into_iter().map(|unit| unit.moved(-shift)));
        Over { units, keeps_sound }
    }

    /// What the new epoch gets behind a jump: the sound that has jumped already, then these units of the lead.
    fn anew(&mut self, lead: Vec<Arrived>) -> Over {
        let lead_shift = self.steady.shift();
        let sound = self.followers.iter_mut().flat_map(|follower| follower.take_jumped(lead_shift));
        let units = sound.chain(lead).collect();
        Over { units, keeps_sound: false }
    }

    fn lead_context(&self) -> Context {
        let reached = self.followers.iter().filter_map(|follower| follower.reached()).max();
        let shifts = self.followers.iter().map(|follower| follower.steady.shift());
        let own = self.steady.shift();
        Context {
            duration: self.sample(),
            reached,
            gap_max: self.gap_max(),
            other_shift: shifts.into_iter().find(|&shift| shift != own).unwrap_or(own),
            leads: true,
        }
    }

    /// A gap that is longer than this is a new beginning: as long as a segment that no key frame ends.
    fn gap_max(&self) -> i64 {
        let longest = ticks_of(self.settings.segment * FORCED, Ticks::RATE) as i64;
        longest.max(4 * self.sample())
    }

    fn push_lead(&mut self, arrived: &Arrived, world: &mut World<'_>) -> Result<(), Refused> {
        let Arrived { unit, now, at, .. } = arrived;
        if unit.dts < self.last.unwrap_or(self.zero) {
            return Ok(());
        }
        let join = !self.lead.name.is_video() || bitstream::join(unit.codec, &unit.data).is_some();
        let is_renewed = self.renew.is_some() || self.followers.iter().any(Follower::is_changed);
        if is_renewed && join || self.has_changed(arrived, join) {
            return Err(Refused);
        }
        let timed = match self.lead.sample(unit) {
            Ok(timed) => timed,
            Err(Error::Changed) => return Err(Refused),
            Err(_) => return Ok(()),
        };
        let captured = self.clock.capture(unit, *now);
        self.last = Some(unit.dts);
        let cue = self.cues.reached(unit.pts);
        let may_cut = join && (cue.is_some() || !self.cues.has_begun());
        if may_cut {
            self.keys.add(unit.dts);
        }
        if !self.lead.is_open() || self.is_due(timed.decode_time, may_cut, world) {
            // A segment that had to be cut before may have had the key frame's beginning.
            let place = cue.map(|cue| cue.at).filter(|&place| place > self.opened_at);
            self.cut(arrived, place.unwrap_or(*at), timed.decode_time, join, world);
        }
        if let Some(mut out) = world.output(self.lead.name) {
            self.lead.add(&timed, join, captured, &mut out);
        }
        Ok(())
    }

    /// Follows the key frames of pictures that are left out, those that have come included.
    pub(super) fn follow_cues(&mut self, cues: Cues) {
        self.cues = cues;
    }

    /// A key frame of pictures that are left out, of the time that it came with.
    pub(super) fn take_cue(&mut self, cue: Cue) {
        self.cues.push(Cue { pts: cue.pts + Ticks(self.steady.shift()), ..cue });
    }

    /// A unit of a stream of data: an event of the lead, and of a cue that is new a date range.
    pub(super) fn take_data(
        &mut self,
        known: &Known,
        metadata: &mut Metadata,
        presentation: &mut Presentation,
    ) {
        let frontier = self.frontier();
        let at = known.time(self.steady.shift(), frontier);
        let (date, now) = (self.clock.date_of(at).utc, self.clock.date_of(frontier).utc);
        let (id, is_new) = metadata.number(known, date, now);
        let event = known.event(self.lead.info.timescale, self.lead.scaled(at - self.zero), id);
        let unit = known.cue.as_ref().map(|_| (known.stream.pid, known.unit.clone()));
        presentation.drop_events(self.lead.hold(event, unit));
        if let Some(cue) = known.cue.as_ref().filter(|_| is_new) {
            presentation.take_cue(cue, &known.unit.data, date, now);
        }
    }

    /// Cues that no chunk has, as they came, and how many units of KLV there are beside them.
    pub(super) fn take_held(&mut self) -> (Vec<(u16, DataUnit)>, u64) {
        self.lead.take_held()
    }

    /// The key frames that the sound has not reached, with the times that they came with.
    pub(super) fn take_cues(&mut self) -> Cues {
        std::mem::take(&mut self.cues).moved(-self.steady.shift())
    }

    /// How long a sample of the lead lasts, in ticks of 90 kHz.
    fn sample(&self) -> i64 {
        ticks_of(self.lead.half_sample() * 2, Ticks::RATE) as i64
    }

    /// Whether what a decoder has to know is no longer what the epoch's header says. Of pictures that is asked where
    /// decoding can begin; elsewhere making a sample tells.
    fn has_changed(&self, arrived: &Arrived, join: bool) -> bool {
        join && arrived.media().is_some_and(|media| !self.lead.timeline.track().media.covers(&media))
    }

    /// Whether a segment ends before the sample at `decode_time`.
    fn is_due(&self, decode_time: u64, join: bool, world: &World<'_>) -> bool {
        let mut elapsed = self.lead.elapsed(decode_time) + self.lead.half_sample();
        if self.cues.has_begun() {
            // Sound reaches a key frame up to a frame late, the one before it as well.
            elapsed += self.lead.half_sample() + ROUNDED;
        }
        let open = world.presentation.rendition(self.lead.name).and_then(|rendition| rendition.open());
        let is_large = open.is_some_and(|open| open.size_bytes > SEGMENT_MAX_BYTES);
        let is_due = match open.zip(world.presentation.current_epoch()) {
            // By the epoch's time and not by the segment's: where key frames come a little late, as they do when pictures
            // are left out, segments would come later and later than players of DASH reckon by their numbers.
            Some((open, epoch)) => {
                let first = super::duration_of(epoch.first_ticks, Ticks::RATE);
                let since = open.start_time().saturating_sub(first) + elapsed;
                let count = open.number.saturating_sub(epoch.first_segment).saturating_add(1);
                // Once a length was told it holds, or what players reckon and what there is would drift apart.
                let length = epoch.segment_length.unwrap_or(self.usual_length());
                // Of two key frames the one that is nearer to where a segment is reckoned to end.
                let nearness =
                    epoch.segment_length.map_or(Duration::ZERO, |_| self.keys.nearness(length.times(1)));
                elapsed >= length.times(1) / 2 && since + nearness >= length.times(count)
            }
            None => elapsed >= self.settings.segment,
        };
        join && is_due || elapsed >= self.settings.segment * FORCED || is_large
    }

    fn usual_length(&self) -> SegmentLength {
        SegmentLength::new(self.settings.segment.as_millis() as u64, 1000)
    }

    /// Ends the lead's segment before the unit, which begins at `at` in the source, and begins the next one with it.
    fn cut(&mut self, arrived: &Arrived, at: u64, decode_time: u64, join: bool, world: &mut World<'_>) {
        let Arrived { unit, now, .. } = arrived;
        let was_open = self.lead.is_open();
        let pts = unit.pts.max(unit.dts);
        let offset = self.lead.scaled(pts - unit.dts);
        let date = self.clock.date_of(pts);
        let opening = Opening { decode_time, offset, date, independent: join };
        let Some(mut out) = world.output(self.lead.name) else { return };
        self.lead.end_segment(Some(decode_time), &mut out);
        out.rendition.set_source(std::mem::replace(&mut self.opened_at, at)..at);
        out.rendition.trim(self.settings.window, out.events);
        self.lead.begin_segment(opening, &mut out);
        if was_open {
            world.presentation.learn_length(self.lead.name);
            let cut = Cut { segment: self.lead.number, pts, now: *now };
            self.followers.iter_mut().for_each(|follower| follower.cuts.push_back(cut));
        }
    }

    fn push_follower(&mut self, arrived: Arrived) -> Result<(), Over> {
        let (frontier, gap_max) = (self.frontier(), self.gap_max());
        let (reached, lead_shift) = (self.last, self.steady.shift());
        let Some(follower) = self.followers.iter_mut().find(|follower| follower.lane.name == arrived.name)
        else {
            return self.handle_unknown(arrived);
        };
        let lasts = follower.lane.timeline.track().media.sound_ticks(&arrived.unit).unwrap_or(0);
        let duration =
            ticks_of(super::duration_of(lasts.into(), follower.lane.info.timescale), Ticks::RATE) as i64;
        // Silence may last as long as it will: the pictures go on.
        let gap_max_of_sound = i64::MAX;
        let context =
            Context { duration, reached, gap_max: gap_max_of_sound, other_shift: lead_shift, leads: false };
        if follower.reached().is_none() {
            // Before its first unit its clock is the lead's, which may have jumped before the sound's does.
            let away = |shift: i64| (arrived.unit.pts + Ticks(shift) - frontier).0.saturating_abs();
            let shift = if away(lead_shift) < away(0) { lead_shift } else { 0 };
            if away(shift) > FAR {
                return Ok(());
            }
            follower.steady.begin_with(shift);
        }
        let (Verdict::Take(units) | Verdict::Anew(units)) = follower.steady.push(arrived, &context);
        let ceased = self.lead.name.is_video()
            && self.last.is_some()
            && units.last().is_some_and(|newest| (newest.unit.pts - frontier).0 > gap_max);
        if ceased {
            let shift = follower.steady.shift();
            let units = units.into_iter().map(|unit| unit.moved(-shift)).collect();
            return Err(Over { units, keeps_sound: false });
        }
        units.into_iter().for_each(|unit| follower.hold(unit));
        Ok(())
    }

    /// A track that was announced, but not there when the epoch began.
    fn handle_unknown(&mut self, arrived: Arrived) -> Result<(), Over> {
        let ahead = (arrived.unit.pts + Ticks(self.steady.shift()) - self.frontier()).0;
        if arrived.name.is_video() {
            let units = vec![arrived];
            return if super::start::begins(&units[0].unit) {
                Err(Over { units, keeps_sound: false })
            } else {
                Ok(())
            };
        }
        if ahead.saturating_abs() <= FAR && arrived.media().is_some() {
            self.renew = Some(arrived.name);
        }
        Ok(())
    }

    /// Behind which no cut can come any more: the lead's next sample is not before it.
    fn frontier(&self) -> Ticks {
        self.last.map_or(self.zero, |last| last + Ticks(self.sample()))
    }

    fn drain(&mut self, now: Utc, world: &mut World<'_>) {
        let frontier = self.frontier();
        for follower in &mut self.followers {
            follower.drain(frontier, self.zero, &self.clock, world);
            follower.leave_behind(now, self.zero, &self.clock, world);
        }
    }

    /// Whether a part is open.
    pub(super) fn has_open_part(&self) -> bool {
        self.lanes().any(Lane::has_open_part)
    }

    fn lanes(&self) -> impl Iterator<Item = &Lane> {
        [&self.lead].into_iter().chain(self.followers.iter().map(|follower| &follower.lane))
    }

    /// Ends the open parts where their last samples do.
    pub(super) fn end_open_parts(&mut self, world: &mut World<'_>) {
        for lane in
            [&mut self.lead].into_iter().chain(self.followers.iter_mut().map(|follower| &mut follower.lane))
        {
            if let Some(mut out) = world.output(lane.name) {
                lane.end_open_part(&mut out);
            }
        }
    }

    /// Ends all segments, at `at` in the source: the numbers of all renditions agree afterwards.
    pub(super) fn finish(&mut self, at: u64, world: &mut World<'_>) {
        let window = self.settings.window;
        // Nothing will tell any more what their stamps mean. What another header is needed for is left.
        let units = self.steady.flush();
        let _ = self.take_lead(units, world);
        let end = self.lead.is_open().then(|| self.zero + Ticks(self.lead.end_ticks()));
        for follower in &mut self.followers {
            follower.flush();
            follower.drain(Ticks(i64::MAX), self.zero, &self.clock, world);
            follower.finish(self.lead.number, end, self.zero, &self.clock, world);
        }
        if let Some(mut out) = world.output(self.lead.name) {
            self.lead.end_segment(None, &mut out);
            out.rendition.set_source(self.opened_at..at);
            out.rendition.trim(window, out.events);
        }
        world.presentation.learn_length(self.lead.name);
    }

    /// Whether a rendition is written in this epoch.
    pub(super) fn has(&self, name: RenditionName) -> bool {
        self.lead.name == name || self.followers.iter().any(|follower| follower.lane.name == name)
    }

    /// The new track, if there is one, for which the epoch ends at the next key frame.
    pub(super) fn renewed_for(&self) -> Option<RenditionName> {
        self.renew
    }
}
