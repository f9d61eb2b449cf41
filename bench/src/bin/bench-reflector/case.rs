//! A load: how many viewers of what stream.

use glassline_lab::load::stamped::Shape;
use glassline_lab::load::{Check, Settings, Target};
use glassline_media::FrameRate;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// So many viewers of a stream of this rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Case {
    pub(crate) viewers: usize,
    /// Mean bits a second.
    pub(crate) bitrate: u64,
    /// Frames a second.
    pub(crate) frames: u32,
}

/// A viewer must be answered within this time.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);
/// So much of the stream is checked, bits a second, over all viewers: more would be load on the load generator.
const CHECKED_BPS: u64 = 5_500_000_000;
/// Pictures a second where nothing else is said.
const FRAMES: u32 = 50;

impl Case {
    /// With 50 frames a second.
    pub(crate) const fn new(viewers: usize, megabits: u64) -> Case {
        Case { viewers, bitrate: megabits * 1_000_000, frames: FRAMES }
    }

    /// The stream; [`Case::from_str`] has seen to it that there is one.
    pub(crate) fn shape(self) -> Shape {
        FrameRate::new(self.frames, 1)
            .and_then(|frames| Shape::new(self.bitrate, frames).ok())
            .unwrap_or_default()
    }

    /// A viewer each quarter of a millisecond; every packet is checked, or as many viewers as one thread can check.
    pub(crate) fn settings(self, target: Target) -> Settings {
        let checked = (CHECKED_BPS / self.bitrate.max(1)) as usize;
        let check = if checked >= self.viewers { Check::All } else { Check::Sample(checked.max(1)) };
        Settings { ramp: 4000.0, timeout: ANSWER_TIMEOUT, check, ..Settings::new(target, self.viewers) }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} viewers × {} Mbit/s", self.viewers, self.bitrate as f64 / 1e6)?;
        if self.frames == FRAMES { Ok(()) } else { write!(f, ", {} frames/s", self.frames) }
    }
}

impl FromStr for Case {
    type Err = String;

    fn from_str(text: &str) -> Result<Case, String> {
        let parts = || {
            let (viewers, rest) = text.split_once('x')?;
            let (rate, frames) = rest.split_once('@').unwrap_or((rest, "50"));
            let rate = rate.parse::<f64>().ok().filter(|rate| (0.01..=1e4).contains(rate))?;
            let (viewers, frames) = (viewers.parse().ok()?, frames.parse().ok()?);
            Some(Case { viewers, bitrate: (rate * 1e6) as u64, frames })
        };
        let case = parts().filter(|case| case.viewers > 0);
        let case = case.ok_or("write VIEWERSxMBIT or VIEWERSxMBIT@FRAMES, as in 1000x5")?;
        let frames = FrameRate::new(case.frames, 1).ok_or("frames a second are above zero")?;
        match Shape::new(case.bitrate, frames) {
            Ok(_) => Ok(case),
            Err(least) => Err(format!("{} frames a second need at least {least} bits", case.frames)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_are_written_as_viewers_and_megabits() {
        assert_eq!("1000x5".parse(), Ok(Case::new(1000, 5)));
        let small: Case = "19000x0.5@5".parse().unwrap();
        assert_eq!(small.to_string(), "19000 viewers × 0.5 Mbit/s, 5 frames/s");
        for wrong in ["5", "0x5", "x5", "5x", "1000x0.1", "1x5@0", "1xinf"] {
            assert!(wrong.parse::<Case>().is_err(), "{wrong}");
        }
    }
}
