//! How a presentation is cut, and how much of it is kept.

use std::ops::RangeInclusive;
use std::time::Duration;

/// How long a segment may be asked to last.
pub const SEGMENT_RANGE: RangeInclusive<Duration> = Duration::from_millis(500)..=Duration::from_secs(10);
/// How long a part may be asked to last; it is at most half a segment besides.
pub const PART_RANGE: RangeInclusive<Duration> = Duration::from_millis(50)..=Duration::from_secs(2);
/// How long a window, in which viewers can go back, may be asked for; it is at least six segments besides, since players
/// of plain HLS begin three segments behind the end.
pub const WINDOW_RANGE: RangeInclusive<Duration> = Duration::from_secs(6)..=Duration::from_secs(3600);
/// Segments that a window has at least.
const WINDOW_SEGMENTS_MIN: u32 = 6;

/// How a presentation is cut, and how much of it is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// A segment ends at the first key frame or recovery point after this long. Default: 2 s; see [`SEGMENT_RANGE`].
    pub segment: Duration,
    /// A part lasts about this long: the whole number of pictures, or of frames of sound, that is nearest. Default:
    /// 200 ms; see [`PART_RANGE`].
    pub part: Duration,
    /// Segments stay in the playlist for this long. Default: 60 s; see [`WINDOW_RANGE`].
    pub window: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            segment: Duration::from_secs(2),
            part: Duration::from_millis(200),
            window: Duration::from_secs(60),
        }
    }
}

/// A setting that is out of its range.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{what} is {found:?}, expected {min:?} to {max:?}")]
pub struct SettingsError {
    /// The setting.
    pub what: &'static str,
    /// Its value.
    pub found: Duration,
    /// The least allowed.
    pub min: Duration,
    /// The most allowed.
    pub max: Duration,
}

impl Settings {
    /// The settings, if each is within its range.
    ///
    /// # Errors
    /// [`SettingsError`] names the first that is not.
    pub fn checked(self) -> Result<Settings, SettingsError> {
        let settings = self.clamped();
        let pairs = [
            ("segment", self.segment, settings.segment, SEGMENT_RANGE),
            ("part", self.part, settings.part, self.part_range()),
            ("window", self.window, settings.window, self.window_range()),
        ];
        for (what, found, clamped, range) in pairs {
            if found != clamped {
                return Err(SettingsError { what, found, min: *range.start(), max: *range.end() });
            }
        }
        Ok(self)
    }

    /// The settings, each brought into its range.
    #[must_use]
    pub fn clamped(self) -> Settings {
        let clamp =
            |value: Duration, range: RangeInclusive<Duration>| value.clamp(*range.start(), *range.end());
        let segment = clamp(self.segment, SEGMENT_RANGE);
        let settings = Settings { segment, ..self };
        Settings {
            segment,
            part: clamp(self.part, settings.part_range()),
            window: clamp(self.window, settings.window_range()),
        }
    }

    fn part_range(&self) -> RangeInclusive<Duration> {
        let half = (self.segment / 2).max(*PART_RANGE.start());
        *PART_RANGE.start()..=half.min(*PART_RANGE.end())
    }

    fn window_range(&self) -> RangeInclusive<Duration> {
        let least = self.segment.saturating_mul(WINDOW_SEGMENTS_MIN).max(*WINDOW_RANGE.start());
        least.min(*WINDOW_RANGE.end())..=*WINDOW_RANGE.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_is_within_the_ranges() {
        assert_eq!(Settings::default().checked(), Ok(Settings::default()));
    }

    #[test]
    fn what_is_out_of_range_is_named_and_brought_into_it() {
        let part = Duration::from_millis(1500);
        let settings = Settings { part, ..Settings::default() };
        let error = settings.checked().unwrap_err();
        assert_eq!(error.to_string(), "part is 1.5s, expected 50ms to 1s");
        assert_eq!(settings.clamped().part, Duration::from_secs(1));
        let zero = Settings { segment: Duration::ZERO, part: Duration::ZERO, window: Duration::MAX };
        let clamped = zero.clamped();
        assert_eq!(clamped.checked(), Ok(clamped));
        assert_eq!(clamped.window, *WINDOW_RANGE.end());
    }
}
