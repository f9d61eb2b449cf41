//! From time stamps of 90 kHz to the times of samples. A sample lasts until the next one comes: [`Timeline`] waits for that,
//! [`LiveTimeline`] does not.

use super::chunk::Sample;
use super::{Error, Track};
use crate::access_unit::AccessUnit;
use crate::bitstream::{self, h264::Join};
use crate::time::Ticks;
use std::collections::VecDeque;

/// Where sound differs by no more than this from where the samples before it end, it is taken to follow them: stamps of
/// 90 kHz are rounded, and the samples themselves are the better clock.
const SOUND_TOLERANCE: Ticks = Ticks(450);
/// The longest that a sample may last: an hour. What is further away is a wrong stamp.
const SAMPLE_MAX: i64 = 3600 * Ticks::RATE as i64;
/// Pictures a second where nothing tells.
const DEFAULT_RATE_HZ: u32 = 30;
/// The slowest frame rate that a parameter set is believed, as the duration of a picture.
const NOMINAL_MAX: u64 = 10 * Ticks::RATE as u64;
/// Distances between pictures that are remembered: ten seconds at 25 a second.
const REMEMBERED: usize = 250;
/// The longest duration that is written for a picture before the next one has come.
const TOLD_MAX_S: u32 = 10;

/// A sample with a known duration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it is decoded, in ticks of the track since the timeline's zero.
    pub decode_time: u64,
    /// Its place in a run.
    pub sample: Sample,
    /// What is in it.
    pub data: Vec<u8>,
}

/// One track's samples, in the order of decoding. Holds one back, so that each lasts exactly until the next one.
#[derive(Clone, Debug)]
pub struct Timeline {
    placer: Placer,
    held: Option<Timed>,
}

impl Timeline {
    /// A timeline of `track` with its beginning at `zero`. The caller leaves out units before that.
    pub fn new(track: Track, zero: Ticks) -> Timeline {
        Timeline { placer: Placer::new(track, zero), held: None }
    }

    /// The track.
    pub fn track(&self) -> &Track {
        &self.placer.track
    }

    /// Takes the next unit, and returns the sample before it.
    ///
    /// # Errors
    /// [`Error::Time`] where its time does not follow; what [`Media::write_sample`] says. The unit is then left out.
    pub fn push(&mut self, unit: &AccessUnit) -> Result<Option<Timed>, Error> {
        let next = self.placer.place(unit)?;
        let decode_time = next.decode_time;
        let mut done = self.held.replace(next);
        if let Some(done) = &mut done {
            done.sample.duration = (decode_time - done.decode_time) as u32;
        }
        Ok(done)
    }

    /// The last sample: it lasts as long as it says, or as long as the one before it.
    pub fn finish(&mut self) -> Option<Timed> {
        let mut last = self.held.take()?;
        if last.sample.duration == 0 {
            last.sample.duration = self.placer.distances.last().unwrap_or(self.placer.nominal());
        }
        Some(last)
    }
}

/// One track's samples as they come, in the order of decoding: what a live packager has. Holds nothing back.
///
/// A picture is given out before it is known when the next one comes, so its duration is what the frame rate lets expect:
/// that of the sequence parameter set; where there is none, or pictures come at more than twice or at most half of its
/// distances, the median of the last three distances; a thirtieth of a second where nothing has told yet. What this is wrong by does not add up, since each
/// [`Timed::decode_time`] follows the stamps: it may lie before or behind the end of the sample before, and is always later
/// than that one's own. Sound lasts as long as it says, and follows the samples before it as in [`Timeline`].
#[derive(Clone, Debug)]
pub struct LiveTimeline {
    placer: Placer,
    end: u64,
}

impl LiveTimeline {
    /// A timeline of `track` with its beginning at `zero`. The caller leaves out units before that.
    pub fn new(track: Track, zero: Ticks) -> LiveTimeline {
        LiveTimeline { placer: Placer::new(track, zero), end: 0 }
    }

    /// The track.
    pub fn track(&self) -> &Track {
        &self.placer.track
    }

    /// The stamp at which the track's time begins.
    pub fn zero(&self) -> Ticks {
        self.placer.zero
    }

    /// The duration to write for the last sample, in ticks of the track, before the next one has come.
    ///
    /// A browser takes a picture that comes later than twice the duration of the one before it for a new beginning (Media
    /// Source Extensions, "coded frame processing"), and drops all up to the next key frame. So where pictures come
    /// irregularly, as of slides and screens, the longest of the last distances is written: a sample that lasts longer than
    /// until the next one is cut short by that.
    pub fn told(&self, sample: &Sample) -> u32 {
        let longest = self
            .placer
            .distances
            .longest()
            .min(self.placer.track.media.timescale().saturating_mul(TOLD_MAX_S));
        if u64::from(longest) > 2 * u64::from(sample.duration) { longest } else { sample.duration }
    }

    /// Where the last sample ends, as far as is known, in ticks of the track; 0 before the first.
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Takes the next unit, and returns its sample.
    ///
    /// # Errors
    /// [`Error::Time`] where its time does not follow; what [`Media::write_sample`] says. The unit is then left out.
    pub fn push(&mut self, unit: &AccessUnit) -> Result<Timed, Error> {
        let mut timed = self.placer.place(unit)?;
        if timed.sample.duration == 0 {
            timed.sample.duration = self.placer.expected();
        }
        self.end = timed.decode_time + u64::from(timed.sample.duration);
        Ok(timed)
    }
}

/// The distances between the last samples, in ticks of the track.
#[derive(Clone, Debug, Default)]
struct Distances(VecDeque<u32>);

impl Distances {
    fn add(&mut self, distance: u32) {
        if self.0.len() == REMEMBERED {
            self.0.pop_front();
        }
        self.0.push_back(distance);
    }

    fn last(&self) -> Option<u32> {
        self.0.back().copied()
    }

    /// The median of the last three: one that is far off, where pictures were lost or came late, says nothing about the next.
    fn usual(&self) -> Option<u32> {
        let first = *self.0.front()?;
        // Where there are fewer, the first counts for those that are missing.
        let mut three = [first; 3];
        self.0.iter().rev().zip(&mut three).for_each(|(&distance, place)| *place = distance);
        three.sort_unstable();
        Some(three[1])
    }

    fn longest(&self) -> u32 {
        self.0.iter().copied().max().unwrap_or(0)
    }
}

/// Turns units into samples and says when they are decoded: what both timelines share.
#[derive(Clone, Debug)]
struct Placer {
    track: Track,
    zero: Ticks,
    /// The last unit's decoding time stamp.
    last: Ticks,
    /// When the last sample is decoded, and how long it says that it lasts; 0: it does not say.
    before: Option<(u64, u32)>,
    distances: Distances,
    /// How long a picture lasts by the sequence parameter set.
    stated: Option<u32>,
}

impl Placer {
    fn new(track: Track, zero: Ticks) -> Placer {
        let stated = track.media.pictures().and_then(|pictures| pictures.frame_rate).and_then(|rate| {
            let ticks = u64::from(Ticks::RATE) * u64::from(rate.denominator());
            let ticks = ticks / u64::from(rate.numerator());
            (1..=NOMINAL_MAX).contains(&ticks).then_some(ticks as u32)
        });
        Placer { track, zero, last: zero, before: None, distances: Distances::default(), stated }
    }

    /// The unit's sample, of duration 0 where it does not say one.
    fn place(&mut self, unit: &AccessUnit) -> Result<Timed, Error> {
        let since_last = (unit.dts - self.last).0;
        let follows = if self.before.is_some() { since_last > 0 } else { since_last >= 0 };
        let offset = (unit.pts - unit.dts).0;
        if !follows || since_last > SAMPLE_MAX || offset.abs() > SAMPLE_MAX {
            return Err(Error::Time { codec: unit.codec, found: unit.dts, last: self.last });
        }
        let mut data = Vec::with_capacity(unit.data.len() + 16);
        self.track.media.write_sample(unit, &mut data)?;
        let decode_time = self.decode_time(unit);
        let sample = Sample {
            bytes: data.len() as u32,
            duration: self.track.media.sound_ticks(unit).unwrap_or(0),
            composition_offset: self.scaled(offset) as i32,
            is_sync: !self.track.media.is_video() || bitstream::is_key(unit.codec, &unit.data),
            roll: if self.track.media.is_video() { roll(unit) } else { 0 },
        };
        self.last = unit.dts;
        if let Some((before, _)) = self.before {
            self.distances.add((decode_time - before) as u32);
        }
        self.before = Some((decode_time, sample.duration));
        Ok(Timed { decode_time, sample, data })
    }

    /// Where the unit goes; at least a tick behind the sample before it.
    fn decode_time(&self, unit: &AccessUnit) -> u64 {
        let stamped = self.scaled((unit.dts - self.zero).0).max(0) as u64;
        let Some((before, duration)) = self.before else { return stamped };
        let end = before + u64::from(duration);
        let tolerance = self.scaled(SOUND_TOLERANCE.0) as u64;
        if duration > 0 && stamped.abs_diff(end) <= tolerance { end } else { stamped.max(before + 1) }
    }

    /// How long a sample lasts of which nothing else is known.
    fn nominal(&self) -> u32 {
        self.stated.unwrap_or((self.track.media.timescale() / DEFAULT_RATE_HZ).max(1))
    }

    /// How long the last sample will have lasted when the next one comes. A frame rate that the distances contradict is not
    /// believed: players take a sample that comes later than two durations after the one before it for a new beginning.
    fn expected(&self) -> u32 {
        let nominal = self.nominal();
        let Some(usual) = self.distances.usual() else { return nominal };
        let agrees = usual > nominal / 2 && u64::from(usual) <= 2 * u64::from(nominal);
        if self.stated.is_some() && agrees { nominal } else { usual }
    }

    /// Ticks of 90 kHz in those of the track, to the nearest.
    fn scaled(&self, ticks: i64) -> i64 {
        let (scale, rate) = (i128::from(self.track.media.timescale()), i128::from(Ticks::RATE));
        ((i128::from(ticks) * scale * 2 + rate).div_euclid(rate * 2)) as i64
    }
}

/// Pictures until all is right where decoding begins at this one, a recovery point; 0 elsewhere.
fn roll(unit: &AccessUnit) -> u16 {
    let settling = bitstream::join(unit.codec, &unit.data).map_or(0, Join::settling_frames);
    u16::try_from(settling).unwrap_or(0)
}
