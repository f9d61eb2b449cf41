//! What playlists and manifests are written in: attributes, durations, times.

use glassline_media::Utc;
use std::time::Duration;

/// The value of an attribute of a line of HLS, without its quotes. A quoted value may hold commas.
pub fn attribute_of_list<'a>(line: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = line.split_once(':')?.1;
    loop {
        let (key, behind) = rest.split_once('=')?;
        let (value, behind) = match behind.strip_prefix('"') {
            Some(quoted) => quoted.split_once('"')?,
            None => behind.split_at_checked(behind.find(',').unwrap_or(behind.len()))?,
        };
        if key.trim() == name {
            return Some(value);
        }
        rest = behind.strip_prefix(',')?;
    }
}

/// A number of seconds, of less than an hour.
pub fn seconds(text: &str) -> Option<Duration> {
    Duration::try_from_secs_f64(text.trim().parse().ok()?)
        .ok()
        .filter(|time| *time < Duration::from_secs(3600))
}

/// The value of an attribute of a tag of XML, as it is written; `tag` is what stands between `<` and `>`.
pub fn attribute_of_tag<'a>(tag: &'a str, name: &str) -> Option<&'a str> {
    let mut rest = tag;
    loop {
        let (before, behind) = rest.split_once('=')?;
        let behind = behind.trim_start();
        let quote = behind.chars().next().filter(|letter| matches!(letter, '"' | '\''))?;
        let (value, behind) = behind.get(1..)?.split_once(quote)?;
        if before.split_whitespace().next_back() == Some(name) {
            return Some(value);
        }
        rest = behind;
    }
}

/// A text of XML without the entities that every document has.
pub fn unescaped(text: &str) -> String {
    text.replace("&quot;", "\"")
        .replace("&apos;", "'")
        .replace("&lt;", "<")
        .replace("&gt;", ">")
        .replace("&amp;", "&")
}

/// `PT1M2.5S` (ISO 8601); days at most.
pub fn parse_duration(text: &str) -> Option<Duration> {
    let (mut seconds, mut number) = (0.0, String::new());
    for letter in text.strip_prefix('P')?.chars() {
        let unit = match letter {
            'T' => continue,
            '0'..='9' | '.' => {
                number.push(letter);
                continue;
            }
            'D' => 86_400.0,
            'H' => 3_600.0,
            'M' => 60.0,
            'S' => 1.0,
            _ => return None,
        };
        seconds += number.parse::<f64>().ok()? * unit;
        number.clear();
    }
    Duration::try_from_secs_f64(seconds).ok()
}

/// `2026-11-24T12:46:28.112Z`; without a zone it is UTC, too.
pub fn parse_utc(text: &str) -> Option<Utc> {
    let (date, time) = text.trim().trim_end_matches('Z').split_once('T')?;
    let time = time.strip_suffix("+00:00").unwrap_or(time);
    let date: Vec<i64> = date.split('-').map(|part| part.parse().ok()).collect::<Option<_>>()?;
    let [year, month, day] = date[..] else { return None };
    if !(1970..=9999).contains(&year) || !(1..=12).contains(&month) || !(1..=31).contains(&day) {
        return None;
    }
    // Days since 1970 of the proleptic Gregorian calendar, years counted from March.
    let (shifted, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days =
        365 * shifted + shifted / 4 - shifted / 100 + shifted / 400 + (153 * month + 2) / 5 + day - 719_469;
    let mut parts = time.split(':');
    let mut next = || parts.next()?.parse::<f64>().ok().filter(|value| (0.0..100.0).contains(value));
    let (hours, minutes, seconds) = (next()?, next()?, next().unwrap_or(0.0));
    let within = Duration::try_from_secs_f64(hours * 3_600.0 + minutes * 60.0 + seconds).ok()?;
    let days = u64::try_from(days).ok()?;
    Some(Utc::from_nanos(
        days.checked_mul(86_400_000_000_000)?.checked_add(u64::try_from(within.as_nanos()).ok()?)?,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_calendar() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", 0),
            ("2000-02-29T12:00:00Z", 951_825_600),
            ("2026-11-24T12:46:28Z", 1_795_524_388),
            ("2026-11-24T12:46:28+00:00", 1_795_524_388),
        ] {
            assert_eq!(parse_utc(text), Some(Utc::from_nanos(seconds * 1_000_000_000)), "{text}");
        }
        assert_eq!(parse_duration("PT1M2.5S"), Some(Duration::from_millis(62_500)));
        for wrong in
            ["2026-13-01T00:00:00Z", "x", "2026-01-01", "1900-01-01T00:00:00Z", "9999-01-01T00:00:00Z"]
        {
            assert_eq!(parse_utc(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn attributes_are_found_by_their_whole_name() {
        let tag = "S xt = '5' t=\"a='b'\" d='2'";
        assert_eq!(
            ["t", "d", "xt", "b"].map(|name| attribute_of_tag(tag, name)),
            [Some("a='b'"), Some("2"), Some("5"), None]
        );
        assert_eq!(attribute_of_list("#X:A=\"1,B=2\",B=3", "B"), Some("3"));
        assert_eq!(unescaped("a&amp;lt;&quot;"), "a&lt;\"");
    }
}
