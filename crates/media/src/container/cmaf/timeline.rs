//! From time stamps of 90 kHz to the durations of samples: each is known when the next sample comes.

use super::chunk::Sample;
use super::track::Media;
use super::{Error, Track};
use crate::access_unit::AccessUnit;
use crate::bitstream::h264;
use crate::time::Ticks;

/// Where sound differs by no more than this from where the samples before it end, it is taken to follow them: stamps of
/// 90 kHz are rounded, and the samples themselves are the better clock.
const SOUND_TOLERANCE: Ticks = Ticks(450);
/// The longest that a sample may last: an hour. What is further away is a wrong stamp.
const SAMPLE_MAX: i64 = 3600 * Ticks::RATE as i64;

/// A sample whose duration is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Timed {
    /// When it is decoded, in ticks of the track since [`Timeline::new`]'s zero.
    pub decode_time: u64,
    /// Its place in a run.
    pub sample: Sample,
    /// What is in it.
    pub data: Vec<u8>,
}

/// One track's samples, in the order of decoding. Holds one back.
#[derive(Clone, Debug)]
pub struct Timeline {
    track: Track,
    zero: Ticks,
    /// The last unit's decoding time stamp.
    last: Ticks,
    held: Option<Timed>,
    /// How long the sample before the held one lasts: as long as a last one is taken to last.
    usual: u32,
}

impl Timeline {
    /// A track whose time begins at `zero`. Units before that are to be left out by the caller.
    pub fn new(track: Track, zero: Ticks) -> Timeline {
        let usual = match &track.media {
            Media::H264 { parsed, .. } => parsed.frame_rate.map_or(0, |rate| {
                (u64::from(Ticks::RATE) * u64::from(rate.denominator()) / u64::from(rate.numerator())) as u32
            }),
            _ => 0,
        };
        Timeline { track, zero, last: zero, held: None, usual: usual.max(1) }
    }

    /// The track.
    pub fn track(&self) -> &Track {
        &self.track
    }

    /// Takes the next unit, and returns the sample before it.
    ///
    /// # Errors
    /// [`Error::Time`] where its time does not follow; what [`Media::write_sample`] says. The unit is then left out.
    pub fn push(&mut self, unit: &AccessUnit) -> Result<Option<Timed>, Error> {
        let since_last = (unit.dts - self.last).0;
        let follows = if self.held.is_some() { since_last > 0 } else { since_last >= 0 };
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
            is_sync: !self.track.media.is_video() || h264::is_key(&unit.data),
            roll: if self.track.media.is_video() { roll(&unit.data) } else { 0 },
        };
        self.last = unit.dts;
        let mut done = self.held.replace(Timed { decode_time, sample, data });
        if let Some(done) = &mut done {
            done.sample.duration = (decode_time - done.decode_time) as u32;
            self.usual = done.sample.duration;
        }
        Ok(done)
    }

    /// The last sample: it lasts as long as it says, or as long as the one before it.
    pub fn finish(&mut self) -> Option<Timed> {
        let mut last = self.held.take()?;
        if last.sample.duration == 0 {
            last.sample.duration = self.usual;
        }
        Some(last)
    }

    /// Where the unit goes; at least a tick behind the sample before it.
    fn decode_time(&self, unit: &AccessUnit) -> u64 {
        let stamped = self.scaled((unit.dts - self.zero).0).max(0) as u64;
        let Some(held) = &self.held else { return stamped };
        let end = held.decode_time + u64::from(held.sample.duration);
        let tolerance = self.scaled(SOUND_TOLERANCE.0) as u64;
        if held.sample.duration > 0 && stamped.abs_diff(end) <= tolerance {
            end
        } else {
            stamped.max(held.decode_time + 1)
        }
    }

    /// Ticks of 90 kHz in those of the track, to the nearest.
    fn scaled(&self, ticks: i64) -> i64 {
        let (scale, rate) = (i128::from(self.track.media.timescale()), i128::from(Ticks::RATE));
        ((i128::from(ticks) * scale * 2 + rate).div_euclid(rate * 2)) as i64
    }
}

/// Pictures until all is right where decoding begins at this one, a recovery point; 0 elsewhere.
fn roll(unit: &[u8]) -> u16 {
    let settling = h264::join(unit).map_or(0, h264::Join::settling_frames);
    u16::try_from(settling).unwrap_or(0)
}
