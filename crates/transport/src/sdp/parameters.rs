//! The parameters of `a=fmtp`, and numbers in them.

use super::error::SectionError;
use glassline_media::FrameRate;
use std::str::FromStr;

/// Frames a second at most.
const MAX_RATE: u64 = 1000;
/// Seconds from a frame to the next at most: a stream that is away for longer has begun anew.
const MAX_FRAME_SECONDS: u64 = 60;

/// `name=value; name; …` (RFC 4855 §3, ST 2110-20 §7.1). Names are matched whatever their case, since senders differ in that;
/// quotes around values are no part of them.
pub(super) struct Parameters<'a> {
    text: &'a str,
    separator: char,
}

impl<'a> Parameters<'a> {
    /// What stands behind the payload type.
    pub(super) fn new(text: &'a str) -> Parameters<'a> {
        Parameters { text, separator: ';' }
    }

    /// The same of video, of which some senders write commas in between; no value has one.
    pub(super) fn of_video(text: &'a str) -> Parameters<'a> {
        let separator = if text.contains(';') { ';' } else { ',' };
        Parameters { text, separator }
    }

    /// All of them in order; those without a value have an empty one.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a str, &'a str)> {
        let is_around = |c: char| c == '"' || c == '\\' || c.is_whitespace();
        self.text.split(self.separator).map(move |entry| {
            let (name, value) = entry.split_once('=').unwrap_or((entry, ""));
            (name.trim(), value.trim_matches(is_around))
        })
    }

    /// The first of this name.
    pub(super) fn get(&self, name: &str) -> Option<&'a str> {
        self.iter().find_map(|(found, value)| found.eq_ignore_ascii_case(name).then_some(value))
    }

    /// Whether a property is there: by its name alone, or with a value that does not say no.
    pub(super) fn has(&self, name: &str) -> bool {
        let says_no = |value: &str| ["0", "false", "no"].iter().any(|no| value.eq_ignore_ascii_case(no));
        self.get(name).is_some_and(|value| !says_no(value))
    }

    /// One that must be there.
    pub(super) fn required(&self, name: &'static str) -> Result<&'a str, SectionError> {
        self.get(name).filter(|value| !value.is_empty()).ok_or(SectionError::Lacks(name))
    }

    /// A whole number, if it is there.
    pub(super) fn number<T: FromStr>(&self, name: &'static str) -> Result<Option<T>, SectionError> {
        self.get(name).map(|value| number(name, value)).transpose()
    }
}

/// A whole number.
pub(super) fn number<T: FromStr>(name: &'static str, value: &str) -> Result<T, SectionError> {
    let is_plain = value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = if is_plain { value.parse().ok() } else { None };
    parsed.ok_or_else(|| SectionError::value(name, value, "it is a whole number in range"))
}

/// Frames a second: `25`, `60000/1001`, or a decimal, which is taken for the rate over 1001 that is nearest to it.
pub(super) fn frame_rate(name: &'static str, value: &str) -> Result<FrameRate, SectionError> {
    let rate = match value.split_once('/') {
        Some((above, below)) => match (above.trim(), below.trim()) {
            // A decimal over one.
            (above, "1") => thousandths(above).and_then(|rate| u32::try_from(rate).ok()).map(over_1001),
            (above, below) => above.parse().ok().zip(below.parse().ok()),
        },
        None => thousandths(value).and_then(|rate| u32::try_from(rate).ok()).map(over_1001),
    };
    rate.and_then(|(above, below)| FrameRate::new(above, below))
        .filter(|rate| {
            let (frames, seconds) = (u64::from(rate.numerator()), u64::from(rate.denominator()));
            frames <= seconds.saturating_mul(MAX_RATE) && seconds <= frames.saturating_mul(MAX_FRAME_SECONDS)
        })
        .ok_or_else(|| {
            SectionError::value(name, value, "it is frames a second from 1/60 to 1000, as 25 or 60000/1001")
        })
}

/// ST 2110-20 §7.2: whole rates as one number.
pub(super) fn exact_rate(rate: FrameRate) -> String {
    let (above, below) = (rate.numerator(), rate.denominator());
    match above.checked_div(below) {
        Some(whole) if above.is_multiple_of(below) => whole.to_string(),
        _ => rate.to_string(),
    }
}

/// A rate in thousandths as a rational.
fn over_1001(thousandths: u32) -> (u32, u32) {
    if thousandths.is_multiple_of(1000) {
        return (thousandths / 1000, 1);
    }
    // 59.94 and 23.98 are written for 60000/1001 and 24000/1001.
    let whole = thousandths.div_ceil(1000);
    let is_near = (u64::from(whole) * 1_000_000 / 1001).abs_diff(u64::from(thousandths)) <= 5;
    if is_near && let Some(above) = whole.checked_mul(1000) { (above, 1001) } else { (thousandths, 1000) }
}

/// A decimal number with up to three digits behind the point that count; the rest is cut off.
pub(super) fn thousandths(value: &str) -> Option<u64> {
    decimal(value, 3)
}

/// A decimal number in units of `10^-places`; digits beyond are cut off.
pub(super) fn decimal(value: &str, places: u32) -> Option<u64> {
    let (whole, part) = value.split_once('.').unwrap_or((value, ""));
    let are_digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !are_digits(whole) || !are_digits(part) {
        return None;
    }
    let digits = part.bytes().map(|digit| u64::from(digit.saturating_sub(b'0'))).chain(std::iter::repeat(0));
    digits
        .take(places as usize)
        .try_fold(whole.parse::<u64>().ok()?, |sum, digit| sum.checked_mul(10)?.checked_add(digit))
}

/// A value that samples do not depend on: where it is not taken, that is told, and it counts as not said.
pub(super) fn or_ignored<T>(parsed: Result<Option<T>, SectionError>, notices: &mut Vec<String>) -> Option<T> {
    parsed.unwrap_or_else(|error| {
        notices.push(format!("{error}; it is ignored"));
        None
    })
}
