//! A reel as it runs: its units on the clock of the stream, each when it is due.

use super::reel::Reel;
use crate::stream::Reached;
use bytes::Bytes;
use glassline_media::bitstream::silence::Silence;
use glassline_media::container::ts::{AudioFormat, MuxSettings, Muxer, ProgramNumbers};
use glassline_media::{AccessUnit, Stamps, Ticks, Time};
use std::sync::Arc;
use std::time::Duration;

/// Where the clock of a stream begins that has shown nothing yet: high enough for stamps in front of it.
const FIRST: Ticks = Ticks(900_000);
/// What was missed is made up for this long at most; behind a longer gap the stamps jump.
const MISSED_MAX: Duration = Duration::from_secs(10);
/// How much later than its clock a picture is decoded: at least and at most, and where the stream has shown none.
const LEAD: std::ops::RangeInclusive<i64> = 4_500..=135_000;
const USUAL_LEAD: Ticks = Ticks(9_000);
/// Pictures that stand in front of a publisher's first one, at most: as many as H.264 can reorder.
const BRIDGE_MAX: i64 = 16;

/// From a stream's stamps to the time at which they are due.
#[derive(Clone, Copy, Debug)]
struct Clock {
    at: Time,
    dts: Ticks,
}

impl Clock {
    fn due(&self, dts: Ticks) -> Time {
        let nanos = (dts - self.dts).0.saturating_mul(100_000) / 9;
        Time::from_nanos(self.at.as_nanos().saturating_add_signed(nanos))
    }
}

/// Silence beside pictures that bring no sound.
#[derive(Debug)]
struct Quiet {
    silence: Silence,
    unit: Bytes,
    first: Ticks,
    count: u64,
}

impl Quiet {
    fn next(&self) -> Ticks {
        self.first + Ticks(self.silence.ticks_of(self.count))
    }
}

/// See the module.
#[derive(Debug)]
pub(super) struct Run {
    reel: Arc<Reel>,
    muxer: Muxer,
    lead: Ticks,
    clock: Clock,
    /// The DTS of the reel's first picture, this time round, and how much later than it would be a PTS is.
    base: Ticks,
    order: Ticks,
    /// The next unit.
    index: usize,
    /// DTS and PTS of the last picture.
    last: (Ticks, Ticks),
    quiet: Option<Quiet>,
}

impl Run {
    /// When the first picture is due that follows what a stream has shown.
    pub(super) fn begins_at(reached: Option<&Reached>, now: Time) -> Time {
        let due = reached.and_then(|reached| reached.due(reached.next_dts(now)?));
        due.filter(|due| due.since(now) <= MISSED_MAX).unwrap_or(now)
    }

    /// Begins behind what a stream has shown. `None` where the reel is of what MPEG-TS has no place for.
    pub(super) fn begin(reel: &Arc<Reel>, reached: Option<&Reached>, now: Time) -> Option<Run> {
        let end = reached.and_then(Reached::lead_track);
        let due =
            |dts| reached.and_then(|reached| reached.due(dts)).filter(|due| due.since(now) <= MISSED_MAX);
        // A publisher with reordered pictures has shown those up to `pts`, and decoded those up to `dts`.
        let (mut base, mut order) = match end.zip(reached.and_then(|reached| reached.next_dts(now))) {
            Some((end, next)) => {
                let order = ((end.pts - end.dts).0 - reel.order().0).clamp(0, 90_000);
                (next, Ticks(order))
            }
            None => (FIRST, Ticks(0)),
        };
        if !reel.is_still {
            (base, order) = (base + order, Ticks(0));
        }
        let mut clock = Clock { at: due(base).unwrap_or(now), dts: base };
        if now.since(clock.at) > MISSED_MAX {
            base = base + Ticks::from_time(Time::from_nanos(now.since(clock.at).as_nanos() as u64));
            clock = Clock { at: now, dts: base };
        }
        let last_program = reached.and_then(Reached::program);
        let silence = match last_program {
            None => Some(Silence::USUAL),
            Some(_) => reached.and_then(Reached::silence),
        };
        let quiet = silence.filter(|_| reel.sound.is_none()).and_then(|silence| {
            let heard = reached.and_then(Reached::sound_end);
            // Sound that has stopped long before the pictures, or runs far ahead of them, is on no clock of theirs.
            let first = heard.filter(|heard| (heard.0 - base.0).abs() <= 90_000).unwrap_or(base);
            Some(Quiet { silence, unit: silence.unit()?, first, count: 0 })
        });
        let sound = reel.sound.or_else(|| {
            let silence = quiet.as_ref()?.silence;
            let (codec, channels) = (silence.codec(), silence.channels());
            Some(AudioFormat { codec, channels, language: None, he_aac: None })
        });
        // Its descriptors may be others even where its codecs are the same.
        let version = last_program.map_or(0, |last| last.version.wrapping_add(1));
        let lead = reached
            .and_then(Reached::lead)
            .map_or(USUAL_LEAD, |lead| Ticks(lead.0.clamp(*LEAD.start(), *LEAD.end())));
        let settings = MuxSettings {
            video: Some(reel.codec),
            audio: sound,
            decode_delay: lead,
            table_version: version,
            numbers: last_program.map_or(ProgramNumbers::default(), |last| last.numbers),
            ..MuxSettings::default()
        };
        let muxer = Muxer::new(settings).ok()?;
        let last = (base - reel.step, base - reel.step + order);
        Some(Run { reel: Arc::clone(reel), muxer, lead, clock, base, order, index: 0, last, quiet })
    }

    fn next_unit(&self) -> (Ticks, &AccessUnit) {
        let unit = &self.reel.units[self.index];
        (self.base + unit.dts, unit)
    }

    /// When the next picture is due. Sound that is due before goes with it, which halves the times that anything is woken.
    pub(super) fn poll_timeout(&self) -> Time {
        self.clock.due(self.next_unit().0)
    }

    /// Whether a unit is due.
    fn is_due(&self, now: Time) -> bool {
        let (dts, _) = self.next_unit();
        let sound = self.quiet.as_ref().map_or(dts, Quiet::next);
        self.clock.due(sound.min(dts)) <= now
    }

    /// Appends the packets of all that is due.
    pub(super) fn play(&mut self, now: Time, out: &mut Vec<u8>) {
        let (missed, due) = (now.since(self.poll_timeout()), self.poll_timeout());
        if missed > MISSED_MAX {
            // The machine slept: what was missed is of no use to viewers.
            self.clock.at = Time::from_nanos(self.clock.at.as_nanos() + now.since(due).as_nanos() as u64);
        }
        while self.is_due(now) {
            let (dts, unit) = self.next_unit();
            let (unit, pts) = (unit.clone(), self.base + unit.pts);
            match &mut self.quiet {
                Some(quiet) if quiet.next() < dts => {
                    let at = quiet.next();
                    quiet.count += 1;
                    let (codec, data) = (quiet.silence.codec(), quiet.unit.clone());
                    let unit = AccessUnit {
                        codec,
                        data,
                        pts: at,
                        dts: at,
                        random_access: true,
                        stamps: Stamps::default(),
                    };
                    self.write(&unit, at, at, out);
                }
                _ => {
                    let order = if unit.codec.is_video() { self.order } else { Ticks(0) };
                    self.write(&unit, dts, pts + order, out);
                    self.advance();
                }
            }
        }
    }

    /// Appends pictures that stand in front of a publisher's first one, which is decoded at `dts` and presented at `pts`: there are
    /// some where the publisher reorders its pictures and this reel does not.
    pub(super) fn bridge(&mut self, dts: Ticks, pts: Ticks, out: &mut Vec<u8>) {
        let step = self.reel.step;
        let missing = ((pts - self.last.1).0 - step.0 / 2) / step.0.max(1);
        let missing = missing.clamp(0, BRIDGE_MAX);
        // Each is decoded in its own time, all in front of the publisher's.
        let room = (dts - self.last.0).0;
        if !self.reel.is_still || room <= missing {
            return;
        }
        let (before, shown) = self.last;
        for number in 1..=missing {
            let (_, unit) = self.next_unit();
            let unit = unit.clone();
            let dts = before + Ticks(room * number / (missing + 1));
            self.write(&unit, dts, shown + Ticks(step.0 * number), out);
            self.advance();
        }
    }

    fn advance(&mut self) {
        self.index += 1;
        if self.index == self.reel.units.len() {
            (self.index, self.base) = (0, self.base + self.reel.period);
        }
    }

    /// Writes a unit that is decoded and presented at these times, by the stamps on the wire.
    fn write(&mut self, unit: &AccessUnit, dts: Ticks, pts: Ticks, out: &mut Vec<u8>) {
        let at = dts - self.lead;
        if unit.codec.is_video() {
            self.muxer.fill_up(at, out);
            self.last = (dts, pts);
        }
        let unit = AccessUnit { dts: at, pts: pts - self.lead, ..unit.clone() };
        // Its codec is the program's.
        let _ = self.muxer.write(&unit, out);
    }
}
