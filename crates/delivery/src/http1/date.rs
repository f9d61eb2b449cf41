//! Times in fields of HTTP (RFC 9110 §5.6.7).
//!
//! ```text
//! Sun, 06 Nov 1994 08:49:37 GMT       what is written
//! Sunday, 06-Nov-94 08:49:37 GMT      what old servers write (RFC 850)
//! Sun Nov  6 08:49:37 1994            and what C's asctime() does
//! ```

use crate::calendar::days_of;

const MONTHS: [&str; 12] =
    ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const DAYS: [&str; 7] = ["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"];

/// Seconds since 1970 of a time in any of the three forms, from 1970 to 9999; `None` of anything else. A year of two digits is of
/// this century, but for 70 to 99. Which day of the week is told does not matter, if it is one.
pub fn parse_date(text: &str) -> Option<u64> {
    let words: Vec<&str> = text.trim().split(' ').filter(|word| !word.is_empty()).collect();
    let (year, month, day, time) = match words.as_slice() {
        [name, day, month, year, time, "GMT"] if is_day(name.strip_suffix(',')?, 3) => {
            (number(year, 4)?, *month, number(day, 2)?, *time)
        }
        [name, date, time, "GMT"] if is_day(name.strip_suffix(',')?, 9) => {
            let mut parts = date.split('-');
            let (day, month, year) = (parts.next()?, parts.next()?, number(parts.next()?, 2)?);
            let century = if year >= 70 { 1900 } else { 2000 };
            if parts.next().is_some() {
                return None;
            }
            (year.checked_add(century)?, month, number(day, 2)?, *time)
        }
        [name, month, day, time, year] if is_day(name, 3) => {
            (number(year, 4)?, *month, number(day, day.len().clamp(1, 2))?, *time)
        }
        _ => return None,
    };
    let month = MONTHS.iter().position(|known| *known == month)?;
    let mut parts = time.split(':').map(|part| number(part, 2));
    let (hour, minute, second) = (parts.next()??, parts.next()??, parts.next()??);
    // A second of 60 is one that was put in.
    let is_time = parts.next().is_none() && hour < 24 && minute < 60 && second <= 60;
    if !is_time || year < 1970 {
        return None;
    }
    let of = |number: u64| u32::try_from(number).ok();
    let month = u32::try_from(month).ok()?.checked_add(1)?;
    let days = u64::try_from(days_of(of(year)?, month, of(day)?)?).ok()?;
    let minutes = days.checked_mul(24)?.checked_add(hour)?.checked_mul(60)?.checked_add(minute)?;
    minutes.checked_mul(60)?.checked_add(second)
}

/// Whether `name` is a day's, of which `letters` at most are written.
fn is_day(name: &str, letters: usize) -> bool {
    DAYS.iter().any(|day| day.get(..letters).unwrap_or(day) == name)
}

/// A number of so many digits.
fn number(text: &str, digits: usize) -> Option<u64> {
    let is_number = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_three_forms_are_read() {
        for text in
            ["Sun, 06 Nov 1994 08:49:37 GMT", "Sunday, 06-Nov-94 08:49:37 GMT", "Sun Nov  6 08:49:37 1994"]
        {
            assert_eq!(parse_date(text), Some(784_111_777), "{text}");
        }
        assert_eq!(parse_date("Thu, 01 Jan 1970 00:00:00 GMT"), Some(0));
        assert_eq!(parse_date("Tue, 29 Feb 2000 23:59:59 GMT"), Some(951_868_799));
        assert_eq!(parse_date("Thu, 26 Nov 2026 00:00:00 GMT"), Some(1_795_651_200));
    }

    #[test]
    fn what_is_no_time_is_none() {
        for text in [
            "",
            "0",
            "-1",
            "now",
            "Sun, 06 Nov 1994 08:49:37",
            "Sun, 06 Nov 1994 08:49:37 CET",
            "Sun, 6 Nov 1994 08:49:37 GMT",
            "Xyz, 06 Nov 1994 08:49:37 GMT",
            "Sun, 31 Nov 1994 08:49:37 GMT",
            "Sun, 29 Feb 2026 08:49:37 GMT",
            "Sun, 06 Nov 1994 24:00:00 GMT",
            "Sun, 06 Nov 1994 08:60:37 GMT",
            "Sun, 06 Nov 1994 08:49:37:1 GMT",
            "Sun, 06 nov 1994 08:49:37 GMT",
            "Sun, 06 Nov 1969 08:49:37 GMT",
            "Sun, 00 Nov 1994 08:49:37 GMT",
            "Sunday, 06-Nov-1994 08:49:37 GMT",
            "Sun Nov 006 08:49:37 1994",
        ] {
            assert_eq!(parse_date(text), None, "{text}");
        }
    }

    proptest! {
        /// Each second has one time, and later ones have larger numbers.
        #[test]
        fn a_time_that_is_written_is_read(seconds in 0u64..200_000_000_000) {
            let (days, of_day) = (seconds / 86_400, seconds % 86_400);
            let (year, month, date) = crate::calendar::civil(days);
            let day = DAYS[((days + 3) % 7) as usize].get(..3).unwrap();
            let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
            let month = MONTHS[month as usize - 1];
            let written = format!("{day}, {date:02} {month} {year} {hour:02}:{minute:02}:{second:02} GMT");
            prop_assert_eq!(parse_date(&written), Some(seconds), "{}", written);
            let written = format!("{day} {month} {date:2} {hour:02}:{minute:02}:{second:02} {year}");
            prop_assert_eq!(parse_date(&written), Some(seconds), "{}", written);
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,40}", words in "[A-Za-z0-9:, -]{0,40}") {
            let _ = (parse_date(&text), parse_date(&words));
        }
    }
}
