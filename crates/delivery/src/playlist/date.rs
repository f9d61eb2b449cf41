//! Dates and durations as playlists write them.

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

/// Year, month and day of so many days after 1970-01-01, by the Gregorian calendar. Years begin in March here, so that the
/// leap day is their last one.
fn civil(days: u64) -> (u64, u64, u64) {
    const DAYS_OF_400_YEARS: u64 = 146_097;
    // From 0000-03-01 to 1970-01-01.
    let days = days + 719_468;
    let (era, day) = (days / DAYS_OF_400_YEARS, days % DAYS_OF_400_YEARS);
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let (day, month) = (day - (153 * month + 2) / 5 + 1, if month < 10 { month + 3 } else { month - 9 });
    (era * 400 + year + u64::from(month <= 2), month, day)
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
    fn durations_are_rounded_down() {
        assert_eq!(seconds(Duration::from_nanos(200_199_999)), "0.200199");
        assert_eq!(xml_duration(Duration::from_secs(60)), "PT60S");
        assert_eq!(xml_duration(Duration::from_micros(1_980_700)), "PT1.980S");
    }
}
