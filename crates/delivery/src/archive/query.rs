//! From when to when viewers want to see, as they write it behind a playlist's address: `?from=T&to=T`.

use crate::playlist::{date_time_micros, parse_date_time};
use glassline_media::Utc;
use std::fmt;
use std::time::Duration;

/// The names of the parameters.
pub const FROM: &str = "from";
/// See [`FROM`].
pub const TO: &str = "to";
/// The furthest that a relative time may lie back.
const RELATIVE_MAX: Duration = Duration::from_secs(366 * 86_400);
/// The longest text of a time.
const TEXT_MAX_BYTES: usize = 64;

/// A time that was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Moment {
    /// By the clock.
    At(Utc),
    /// So long before now.
    Ago(Duration),
}

/// From when to when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// From then on.
    pub from: Utc,
    /// Before then; `None`: whatever comes.
    pub to: Option<Utc>,
}

/// Why a time that was asked for is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadSpan {
    /// One of the two is no time.
    #[error(
        "{parameter}={text} is no time: write it as RFC 3339 has it (2026-11-30T02:25:52Z), as seconds since 1970 \
         (1796005552.5), or as a time before now (-30s, -5m, -2h, -1d)"
    )]
    Time {
        /// `from` or `to`.
        parameter: &'static str,
        /// What was given, its beginning at least.
        text: String,
    },
    /// It ends before it begins.
    #[error("to={to} is not later than from={from}: what lies between them has no length")]
    Backwards {
        /// The beginning.
        from: String,
        /// The end.
        to: String,
    },
    /// An end and no beginning.
    #[error("there is a to and no from: say when it begins, as in ?from=-10m&to=-5m")]
    NoFrom,
}

impl Moment {
    /// Understands RFC 3339, seconds since 1970 with or without decimals, and `-30s`, `-5m`, `-2h`, `-1d`. A plus sign of an offset
    /// that a query has made a space of is one again.
    pub fn parse(text: &str) -> Option<Moment> {
        if text.len() > TEXT_MAX_BYTES {
            return None;
        }
        if let Some(ago) = text.strip_prefix('-') {
            let (digits, unit) = ago.split_at_checked(ago.len().checked_sub(1)?)?;
            let unit = match unit {
                "s" => 1.0,
                "m" => 60.0,
                "h" => 3600.0,
                "d" => 86_400.0,
                _ => return None,
            };
            let ago = Duration::try_from_secs_f64(decimal(digits)? * unit).ok()?;
            return (ago <= RELATIVE_MAX).then_some(Moment::Ago(ago));
        }
        if let Some(at) = text.len().checked_sub(6).filter(|at| text.get(*at..=*at) == Some(" "))
            && let (Some(before), Some(behind)) = (text.get(..at), text.get(at + 1..))
            && let Some(utc) = parse_date_time(&format!("{before}+{behind}"))
        {
            return Some(Moment::At(utc));
        }
        if let Some(utc) = parse_date_time(text) {
            return Some(Moment::At(utc));
        }
        unix_seconds(text).map(Moment::At)
    }

    /// When that is.
    pub fn utc(self, now: Utc) -> Utc {
        match self {
            Moment::At(utc) => utc,
            Moment::Ago(ago) => {
                let nanos = u64::try_from(ago.as_nanos()).unwrap_or(u64::MAX);
                Utc::from_nanos(now.as_nanos().saturating_sub(nanos))
            }
        }
    }
}

/// Digits with or without a decimal point.
fn decimal(text: &str) -> Option<f64> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.');
    if is_plain && text.starts_with(|letter: char| letter.is_ascii_digit()) {
        text.parse().ok()
    } else {
        None
    }
}

/// Seconds since 1970, exactly: a float would round what lies behind the microsecond.
fn unix_seconds(text: &str) -> Option<Utc> {
    decimal(text)?;
    let (whole, decimals) = text.split_once('.').unwrap_or((text, ""));
    let nanos: String = decimals.chars().chain(std::iter::repeat('0')).take(9).collect();
    let seconds = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?;
    seconds.checked_add(nanos.parse().ok()?).map(Utc::from_nanos)
}

impl Span {
    /// What a query asks for; `None` where it says nothing of a time.
    ///
    /// # Errors
    /// [`BadSpan`], in words for the one that asked.
    pub fn of(query: &str, now: Utc) -> Result<Option<Span>, BadSpan> {
        let find = |wanted: &str| {
            form_urlencoded::parse(query.as_bytes())
                .find(|(name, _)| name == wanted)
                .map(|(_, value)| value.into_owned())
        };
        Span::between(find(FROM).as_deref(), find(TO).as_deref(), now)
    }

    /// Whether one of its times is told by now: the same query is another time a moment later.
    pub fn is_relative(query: &str) -> bool {
        form_urlencoded::parse(query.as_bytes())
            .filter(|(name, _)| name == FROM || name == TO)
            .any(|(_, value)| matches!(Moment::parse(&value), Some(Moment::Ago(_))))
    }

    /// From `from` to `to`, as people write them; `None` where neither is given.
    ///
    /// # Errors
    /// [`BadSpan`], in words for the one that asked.
    pub fn between(from: Option<&str>, to: Option<&str>, now: Utc) -> Result<Option<Span>, BadSpan> {
        let read = |parameter: &'static str, text: Option<&str>| {
            let bad = |text: &str| BadSpan::Time { parameter, text: text.chars().take(40).collect() };
            text.map(|text| Moment::parse(text).map(|it| it.utc(now)).ok_or_else(|| bad(text))).transpose()
        };
        match (read(FROM, from)?, read(TO, to)?) {
            (None, None) => Ok(None),
            (None, Some(_)) => Err(BadSpan::NoFrom),
            (Some(from), Some(to)) if to <= from => {
                let [from, to] = [from, to].map(date_time_micros);
                Err(BadSpan::Backwards { from, to })
            }
            (Some(from), to) => Ok(Some(Span { from, to })),
        }
    }
}

impl fmt::Display for Span {
    /// As a query has it: `from=…&to=…`, by the clock.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{FROM}={}", date_time_micros(self.from))?;
        self.to.map_or(Ok(()), |to| write!(f, "&{TO}={}", date_time_micros(to)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const NOW: Utc = Utc::from_nanos(1_796_005_552_000_000_000);

    fn of(query: &str) -> Result<Option<Span>, BadSpan> {
        Span::of(query, NOW)
    }

    #[test]
    fn times_are_written_in_three_ways() {
        let from = |text: &str| of(&format!("a=1&from={text}")).unwrap().unwrap().from.as_nanos();
        assert_eq!(from("2026-11-30T02:25:52Z"), NOW.as_nanos());
        assert_eq!(from("2026-11-30T04:25:52%2B02:00"), NOW.as_nanos());
        assert_eq!(from("2026-11-30T04:25:52+02:00"), NOW.as_nanos(), "a plus that a query made a space of");
        assert_eq!(from("1796005552"), NOW.as_nanos());
        assert_eq!(from("1796005552.123456789"), NOW.as_nanos() + 123_456_789);
        assert_eq!(from("-30s"), NOW.as_nanos() - 30_000_000_000);
        assert_eq!(from("-1.5h"), NOW.as_nanos() - 5_400_000_000_000);
        assert_eq!(of("x=1&_HLS_msn=2"), Ok(None));
        let both = of("from=-2m&to=-1m").unwrap().unwrap();
        assert_eq!(both.to_string(), "from=2026-11-30T02:23:52.000000Z&to=2026-11-30T02:24:52.000000Z");
        assert_eq!(of(&both.to_string()), Ok(Some(both)));
        assert!(Span::is_relative("a=1&from=1796005552&to=-1s") && Span::is_relative("from=-1h"));
        assert!(!Span::is_relative(&both.to_string()) && !Span::is_relative("t=-1h"));
    }

    #[test]
    fn what_is_no_time_is_refused_with_a_sentence() {
        for bad in [
            "",
            "now",
            "-30",
            "30s",
            "-1y",
            "-s",
            "--1s",
            "1e9",
            "NaN",
            "inf",
            "-infs",
            ".5",
            "2026-11-30",
            "99999999999",
            "-9999d",
            "+5",
        ] {
            let error = of(&format!("from={bad}")).unwrap_err().to_string();
            assert!(error.contains("is no time: write it as RFC 3339"), "{bad}: {error}");
        }
        let error = of("from=-1m&to=-2m").unwrap_err().to_string();
        assert!(error.contains("is not later than"), "{error}");
        assert_eq!(of("from=-1m&to=-1m").map_err(|error| error.to_string().is_empty()), Err(false));
        assert!(of("to=-1m").unwrap_err().to_string().contains("no from"));
        let long = format!("from={}", "9".repeat(10_000));
        assert!(of(&long).unwrap_err().to_string().len() < 300);
    }

    proptest! {
        #[test]
        fn no_query_panics_and_what_is_understood_is_understood_again(query in "\\PC{0,60}|from=[-0-9.:TZ+smhd]{0,30}(&to=[-0-9.:TZ+smhd]{0,30})?", now: u64) {
            if let Ok(Some(span)) = Span::of(&query, Utc::from_nanos(now)) {
                let written = Span::of(&span.to_string(), Utc::default());
                let micros = |utc: Utc| Utc::from_micros(utc.as_micros());
                let rounded = Span { from: micros(span.from), to: span.to.map(micros) };
                // Less than a microsecond has no length when it is written.
                prop_assert!(written == Ok(Some(rounded)) || rounded.to == Some(rounded.from), "{:?}", written);
            }
        }
    }
}
