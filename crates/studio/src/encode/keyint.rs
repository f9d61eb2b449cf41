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
    #[test]
    fn a_time_is_rounded_to_the_nearest_picture_and_is_at_least_one() {
        let rate = FrameRate::new(25, 1).unwrap();
        let pictures = |millis| Keyint::Time(Duration::from_millis(millis)).pictures(rate);
        assert_eq!([0, 19, 59, 60, 61, 499, 2000].map(pictures).map(Option::unwrap), [1, 1, 1, 2, 2, 12, 50]);
    }

    #[test]
    fn a_time_without_end_is_no_more_pictures_than_can_be_counted() {
        let rate = FrameRate::new(50, 1).unwrap();
        assert_eq!(Keyint::Time(Duration::MAX).pictures(rate), Some(u32::MAX));
        assert_eq!(Keyint::Infinite.time(rate), Duration::MAX);
        assert_eq!(Keyint::Infinite.x264(), KeyInterval::Time(Duration::MAX));
    }

    #[test]
    fn the_largest_number_of_pictures_is_read_and_the_next_is_refused_with_the_limit() {
        assert_eq!("4294967295".parse(), Ok(Keyint::Pictures(u32::MAX)));
        let refused = "4294967296".parse::<Keyint>().unwrap_err().to_string();
        assert!(refused.contains("from 1 to 4294967295"), "{refused}");
    }

    #[test]
    fn only_the_word_itself_is_infinite() {
        for text in ["Infinite", "infinite ", "inf", "∞"] {
            assert!(text.parse::<Keyint>().is_err(), "{text}");
        }
    }
}
