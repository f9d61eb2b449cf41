//! Measures a sound source's clock against the capture clock, by when its samples arrive.
//!
//! Samples are counted; each arrival says that the last of them was captured at that time *or before*: a scheduler, a
//! pipe or a bus makes them late, never early. So of each second only the arrival that came earliest against the model
//! counts. Through these points, one a second, a phase-locked loop of second order draws a line: it begins as a
//! least-squares fit over all points so far, and goes on as one that forgets over half a minute (an α-β filter with a
//! growing memory). Its phase error stays near the floor of the jitter, and its frequency follows a crystal that warms
//! up.

use crate::Time;

/// Seconds of sound until the first estimate.
const SETTLE: f64 = 0.5;
/// Seconds of sound of which the earliest arrival counts.
const WINDOW: f64 = 1.0;
/// Points over which the loop remembers.
const MEMORY: f64 = 30.0;
/// A crystal is within 100 ppm; this is for the worst of them. As a ratio.
const MAX_OFFSET: f64 = 0.002;
/// What a single point may move the line by, in seconds, once it is known.
const MAX_ERROR: f64 = 0.002;
/// A point that is further off than this, in seconds, belongs to another line…
const BROKEN: f64 = 0.02;
/// …once so many have come one after the other.
const BROKEN_POINTS: u32 = 3;

/// The model: which sample was captured when.
#[derive(Clone, Debug)]
pub struct SourceClock {
    rate_hz: f64,
    /// The capture clock at which counting began. Seconds below count from here.
    origin: Option<Time>,
    /// Samples of each channel so far.
    count: u64,
    line: Option<Line>,
    /// Where the window began, in seconds of sound.
    window: f64,
    /// The earliest arrival in it: seconds of sound, and how much later than that it came.
    earliest: Option<(f64, f64)>,
}

/// `time = sound + phase + frequency × (sound − reference)`, all in seconds.
#[derive(Clone, Copy, Debug)]
struct Line {
    phase: f64,
    frequency: f64,
    reference: f64,
    points: u32,
    broken: u32,
}

impl Line {
    fn at(&self, sound: f64) -> f64 {
        self.phase + self.frequency * (sound - self.reference)
    }
}

impl SourceClock {
    /// A clock of nominally `rate_hz` samples a second.
    pub fn new(rate_hz: u32) -> SourceClock {
        let rate_hz = f64::from(rate_hz.max(1));
        SourceClock { rate_hz, origin: None, count: 0, line: None, window: 0.0, earliest: None }
    }

    /// Samples of each channel that were pushed.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Counts `frames` samples of each channel, of which the last had arrived at `end`. Those of the first call are
    /// not counted: with them, counting begins.
    pub fn push(&mut self, frames: usize, end: Time) {
        self.count += frames as u64;
        let sound = self.count as f64 / self.rate_hz;
        let Some(origin) = self.origin else {
            // Counting begins behind what came first.
            (self.origin, self.count) = (Some(end), 0);
            return;
        };
        let late = (end.as_nanos() as i128 - origin.as_nanos() as i128) as f64 / 1e9 - sound;
        let model = |sound| self.line.map_or(0.0, |line| line.at(sound));
        if self.earliest.is_none_or(|(at, least)| late - model(sound) < least - model(at)) {
            self.earliest = Some((sound, late));
        }
        // What had piled up somewhere comes at once: half a second of sound is not enough, half a second has to pass.
        let length = if self.line.is_some() { WINDOW } else { SETTLE };
        if sound - self.window >= length && sound + late >= length {
            self.window = sound;
            if let Some((sound, late)) = self.earliest.take() {
                self.point(sound, late);
            }
        }
    }

    fn point(&mut self, sound: f64, late: f64) {
        let Some(line) = &mut self.line else {
            // As if three points had gone by: a crystal's offset is small, and a single second's jitter not yet known.
            self.line = Some(Line { phase: late, frequency: 0.0, reference: sound, points: 3, broken: 0 });
            return;
        };
        let expected = line.at(sound);
        let mut error = late - expected;
        let known = line.points > 5;
        if known && error.abs() > BROKEN {
            line.broken += 1;
            if line.broken >= BROKEN_POINTS {
                self.line = None;
                return;
            }
        } else {
            line.broken = 0;
        }
        if known {
            error = error.clamp(-MAX_ERROR, MAX_ERROR);
        }
        line.points += 1;
        let memory = f64::from(line.points).min(MEMORY);
        let span = memory * (memory + 1.0);
        line.phase = expected + error * 2.0 * (2.0 * memory - 1.0) / span;
        line.frequency += error / WINDOW * 6.0 / span;
        line.frequency = line.frequency.clamp(-MAX_OFFSET, MAX_OFFSET);
        line.reference = sound;
    }

    /// Whether the model stands: after half a second, and until arrivals contradict it for some seconds.
    pub fn is_known(&self) -> bool {
        self.line.is_some()
    }

    /// When the sample at `position` (counted from 0, fractions between samples) was captured, in seconds from
    /// [`SourceClock::origin`].
    pub fn time_of(&self, position: f64) -> f64 {
        let sound = position / self.rate_hz;
        sound + self.line.map_or(0.0, |line| line.at(sound))
    }

    /// Which position was captured so many seconds from the origin.
    pub fn position_at(&self, time: f64) -> f64 {
        let sound = match self.line {
            Some(Line { phase, frequency, reference, .. }) => {
                (time - phase + frequency * reference) / (1.0 + frequency)
            }
            None => time,
        };
        sound * self.rate_hz
    }

    /// Samples that the source gives in a second of the capture clock.
    pub fn samples_per_second(&self) -> f64 {
        self.rate_hz / (1.0 + self.line.map_or(0.0, |line| line.frequency))
    }

    /// The capture clock from which seconds count.
    pub fn origin(&self) -> Time {
        self.origin.unwrap_or(Time::ZERO)
    }

    /// Samples were lost: what was measured of them says nothing of those to come.
    pub fn restart(&mut self) {
        (self.origin, self.count, self.line, self.window, self.earliest) = (None, 0, None, 0.0, None);
    }
}
