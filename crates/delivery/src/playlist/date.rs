//! Dates and durations as playlists write them.

use crate::calendar::{civil, days_of};
use glassline_media::Utc;
use std::time::Duration;

/// `2026-05-04T03:02:01.123Z` (RFC 3339; ISO/IEC 8601), rounded down to the millisecond.
pub fn date_time(utc: Utc) -> String {
    let millis = utc.as_nanos() / 1_000_000;
    format!("{}.{:03}Z", to_the_second(millis / 1000), millis % 1000)
}

/// `2026-05-04T03:02:01.123456Z` (RFC 3339), rounded down to the microsecond.
pub fn date_time_micros(utc: Utc) -> String {
    let micros = utc.as_micros();
    format!("{}.{:06}Z", to_the_second(micros / 1_000_000), micros % 1_000_000)
}

/// The same of so many seconds after 1970, without a fraction and `Z`.
fn to_the_second(seconds: u64) -> String {
    let (days, second) = (seconds / 86_400, seconds % 86_400);
    let (year, month, day) = civil(days);
    let (hour, minute, second) = (second / 3600, second / 60 % 60, second % 60);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}")
}

/// `20260504T030201.123Z` (ISO/IEC 8601, basic format), rounded down to the millisecond.
pub fn basic_date_time(utc: Utc) -> String {
    date_time(utc).chars().filter(|letter| !matches!(letter, '-' | ':')).collect()
}

/// The time that [`basic_date_time`] writes so; `None` where it is another text, or no time.
pub fn parse_basic_date_time(text: &str) -> Option<Utc> {
    let (date, time) = text.split_once('T').filter(|_| text.is_ascii())?;
    let [year, month, day] = [date.get(..4)?, date.get(4..6)?, date.get(6..)?];
    let [hour, minute, rest] = [time.get(..2)?, time.get(2..4)?, time.get(4..)?];
    parse_date_time(&format!("{year}-{month}-{day}T{hour}:{minute}:{rest}"))
}

/// Reads a date and time of RFC 3339 §5.6, with any offset and up to any number of decimals, of which nine count. `None` where it
/// is none, or before 1970 or after 2554, which [`Utc`] has no value for. A leap second is the first one of the next minute.
pub fn parse_date_time(text: &str) -> Option<Utc> {
    // "2026-05-04T03:02:01", then decimals and the offset.
    let (civil_time, rest) = text.split_at_checked(19)?;
    let shape = civil_time.bytes().zip(b"0000-00-00T00:00:00");
    let is_shaped = |(found, wanted): (u8, &u8)| match wanted {
        b'0' => found.is_ascii_digit(),
        b'T' => matches!(found, b'T' | b't' | b' '),
        _ => found == *wanted,
    };
    if !shape.into_iter().all(is_shaped) {
        return None;
    }
    let number = |from: usize, to: usize| civil_time.get(from..to)?.parse::<u32>().ok();
    let (year, month, day) = (number(0, 4)?, number(5, 7)?, number(8, 10)?);
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if hour > 23 || minute > 59 || second > 60 {
        return None;
    }
    let (nanos, offset) = decimals(rest)?;
    let days = days_of(year, month, day)?;
    let seconds = days.checked_mul(86_400)?.checked_add(i64::from(hour * 3600 + minute * 60 + second))?;
    let seconds = u64::try_from(seconds.checked_sub(offset)?).ok()?;
    seconds.checked_mul(1_000_000_000)?.checked_add(nanos).map(Utc::from_nanos)
}

/// Nanoseconds and the offset in seconds of `.123Z`, `+02:00` and the like.
fn decimals(rest: &str) -> Option<(u64, i64)> {
    let (nanos, zone) = match rest.strip_prefix('.') {
        Some(behind) => {
            let count = behind.bytes().take_while(u8::is_ascii_digit).count();
            let (digits, zone) = behind.split_at_checked(count).filter(|_| count > 0)?;
            let nanos: String = digits.chars().chain(std::iter::repeat('0')).take(9).collect();
            (nanos.parse().ok()?, zone)
        }
        None => (0, rest),
    };
    if matches!(zone, "Z" | "z") {
        return Some((nanos, 0));
    }
    let (sign, hours_minutes) = match zone.strip_prefix('+') {
        Some(behind) => (1, behind),
        None => (-1, zone.strip_prefix('-')?),
    };
    let (hours, minutes) = hours_minutes.split_once(':')?;
    let of_two = |digits: &str| {
        let is_two = digits.len() == 2 && digits.bytes().all(|byte| byte.is_ascii_digit());
        if is_two { digits.parse::<i64>().ok() } else { None }
    };
    let (hours, minutes) = (of_two(hours)?, of_two(minutes)?);
    (hours < 24 && minutes < 60).then_some((nanos, sign * (hours * 3600 + minutes * 60)))
}

/// Seconds with six decimals, rounded down: what is no longer than something else stays so.
pub(super) fn seconds(duration: Duration) -> String {
    format!("{}.{:06}", duration.as_secs(), duration.subsec_micros())
}

/// `PT2.5S` (XML Schema part 2 §3.2.6), rounded down to the millisecond.
pub(super) fn xml_duration(duration: Duration) -> String {
    match duration.subsec_millis() {
        0 => format!("PT{}S", duration.as_secs()),
        millis => format!("PT{}.{millis:03}S", duration.as_secs()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        let of = |secs: u64| date_time(Utc::from_nanos(secs * 1_000_000_000));
        assert_eq!(of(0), "1970-01-01T00:00:00.000Z");
        assert_eq!(of(951_782_400), "2000-02-29T00:00:00.000Z");
        assert_eq!(of(1_709_251_199), "2024-02-29T23:59:59.000Z");
        assert_eq!(of(1_709_251_200), "2024-03-01T00:00:00.000Z");
        assert_eq!(of(4_107_542_400), "2100-03-01T00:00:00.000Z");
        assert_eq!(date_time(Utc::from_nanos(1_798_761_599_999_999_999)), "2026-12-31T23:59:59.999Z");
        assert_eq!(date_time(Utc::from_nanos(u64::MAX)), "2554-07-21T23:34:33.709Z");
        assert_eq!(date_time_micros(Utc::from_nanos(951_782_400_000_012_999)), "2000-02-29T00:00:00.000012Z");
    }

    #[test]
    fn dates_are_read_as_they_are_written() {
        let read = |text: &str| parse_date_time(text).map(Utc::as_nanos);
        assert_eq!(read("1970-01-01T00:00:00Z"), Some(0));
        assert_eq!(read("2026-11-30T04:25:52.123+02:00"), read("2026-11-30T02:25:52.123Z"));
        assert_eq!(read("2026-11-29T21:55:52.5-04:30"), read("2026-11-30T02:25:52.500000000999Z"));
        assert_eq!(read("2016-12-31T23:59:60Z"), read("2017-01-01T00:00:00Z"));
        assert_eq!(read("2024-02-29t23:59:59z"), Some(1_709_251_199_000_000_000));
        for bad in [
            "",
            "2026",
            "2026-11-30",
            "2026-11-30T02:25:52",
            "2026-11-31T02:25:52Z",
            "2023-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-00-01T00:00:00Z",
            "2026-01-00T00:00:00Z",
            "2026-11-30T24:00:00Z",
            "2026-11-30T02:60:00Z",
            "2026-11-30T02:25:61Z",
            "2026-11-30T02:25:52.Z",
            "2026-11-30T02:25:52+2:00",
            "2026-11-30T02:25:52+0200",
            "2026-11-30T02:25:52+24:00",
            "1969-12-31T23:59:59Z",
            "2555-01-01T00:00:00Z",
            "+026-11-30T02:25:52Z",
            "2026-11-30T02:25:52Zx",
            "２026-11-30T02:25:5Z",
            "9999-12-31T23:59:59.999Z",
        ] {
            assert_eq!(read(bad), None, "{bad}");
        }
        assert_eq!(
            parse_basic_date_time("20261130T022552.123Z").map(Utc::as_nanos),
            read("2026-11-30T02:25:52.123Z")
        );
    }

    proptest::proptest! {
        #[test]
        fn every_time_is_read_back(micros in 0..u64::MAX / 1000) {
            let utc = Utc::from_micros(micros);
            proptest::prop_assert_eq!(parse_date_time(&date_time_micros(utc)), Some(utc));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}|[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[.+Z0-9:-]{0,12}") {
            let _ = (parse_date_time(&text), parse_basic_date_time(&text));
        }
    }

    #[test]
    fn durations_are_rounded_down() {
        assert_eq!(seconds(Duration::from_nanos(200_199_999)), "0.200199");
        assert_eq!(xml_duration(Duration::from_secs(60)), "PT60S");
        assert_eq!(xml_duration(Duration::from_micros(1_980_700)), "PT1.980S");
    }
}
