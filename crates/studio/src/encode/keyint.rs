//! How far apart key frames stand.

use super::ParseError;
use glassline_codec::h264::x264::KeyInterval;
use glassline_media::FrameRate;
use glassline_media::quantity;
use std::str::FromStr;
use std::time::Duration;

/// How far apart key frames stand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keyint {
    /// This long, rounded to whole pictures.
    Time(Duration),
    /// So many pictures, at least one.
    Pictures(u32),
    /// The first picture is one, and what is asked for later.
    Infinite,
}

impl Keyint {
    /// In time, at `rate`; the longest that there is for [`Keyint::Infinite`].
    #[must_use]
    pub fn time(self, rate: FrameRate) -> Duration {
        match self {
            Keyint::Time(time) => time,
            Keyint::Pictures(pictures) => rate.time_of(pictures.into()),
            Keyint::Infinite => Duration::MAX,
        }
    }

    /// In pictures, at least one; `None` for [`Keyint::Infinite`].
    #[must_use]
    pub fn pictures(self, rate: FrameRate) -> Option<u32> {
        match self {
            Keyint::Time(time) => Some((time.as_secs_f64() * rate.as_f64()).round().max(1.0) as u32),
            Keyint::Pictures(pictures) => Some(pictures),
            Keyint::Infinite => None,
        }
    }

    /// As x264 takes it.
    pub(super) fn x264(self) -> KeyInterval {
        match self {
            Keyint::Time(time) => KeyInterval::Time(time),
            Keyint::Pictures(pictures) => KeyInterval::Pictures(pictures),
            Keyint::Infinite => KeyInterval::Time(Duration::MAX),
        }
    }
}

impl FromStr for Keyint {
    type Err = ParseError;
    fn from_str(text: &str) -> Result<Keyint, ParseError> {
        if text == "infinite" {
            return Ok(Keyint::Infinite);
        }
        if text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            return match text.parse() {
                Ok(pictures @ 1..) => Ok(Keyint::Pictures(pictures)),
                _ => Err(ParseError(format!(
                    "{text:?} pictures: from 1 to {}, a time as in 10s, or infinite",
                    u32::MAX
                ))),
            };
        }
        Ok(Keyint::Time(quantity::parse_duration(text)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn key_frames_come_by_time_by_number_or_not_at_all() {
        let rate = FrameRate::new(30_000, 1001).unwrap();
        let read = |text: &str| text.parse::<Keyint>();
        assert_eq!(read("10s").unwrap().pictures(rate), Some(300));
        assert_eq!(read("1ms").unwrap().pictures(rate), Some(1));
        assert_eq!(read("250"), Ok(Keyint::Pictures(250)));
        assert_eq!(read("30").unwrap().time(rate), Duration::from_millis(1001));
        assert_eq!((read("infinite"), Keyint::Infinite.pictures(rate)), (Ok(Keyint::Infinite), None));
        assert_eq!(read("25").unwrap().x264(), KeyInterval::Pictures(25));
        for wrong in ["0", "99999999999", "", "often", "-1", "1.5"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
