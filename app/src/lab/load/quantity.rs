//! Quantities that only a load has, as they stand on the command line.

use glassline_lab::load::{Check, Limit};
use glassline_media::quantity::{self, Bitrate};
use std::str::FromStr;
use std::time::Duration;

/// How viewers come: so many a second, or all within a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Ramp {
    PerSecond(f64),
    Within(Duration),
}

impl Ramp {
    /// Viewers a second, of `viewers`.
    pub(super) fn rate(self, viewers: usize) -> f64 {
        match self {
            Ramp::PerSecond(rate) => rate,
            // All at once in no time.
            Ramp::Within(time) => viewers as f64 / time.as_secs_f64(),
        }
    }
}

impl FromStr for Ramp {
    type Err = String;
    fn from_str(text: &str) -> Result<Ramp, String> {
        match text.strip_suffix("/s") {
            Some(_) => per_second(text).map(Ramp::PerSecond),
            None => quantity::parse_duration(text)
                .map(Ramp::Within)
                .map_err(|error| format!("{error}; or a rate, for example 500/s")),
        }
    }
}

/// `500/s`, `0.5/s`.
pub(super) fn per_second(text: &str) -> Result<f64, String> {
    let number = text.strip_suffix("/s").and_then(|number| number.trim().parse::<f64>().ok());
    match number {
        Some(rate) if rate > 0.0 && rate <= 1e6 => Ok(rate),
        Some(_) => Err(format!("{text:?} is outside of what a rate can be (above 0/s, up to 1000000/s)")),
        None => Err(format!("{text:?} is not a rate; write for example 500/s")),
    }
}

/// `500k` or `50%` of the stream's rate.
fn limit(text: &str) -> Result<Limit, String> {
    match text.strip_suffix('%') {
        Some(number) => match number.trim().parse::<f64>() {
            Ok(percent) if percent > 0.0 && percent <= 1000.0 => Ok(Limit::Share(percent / 100.0)),
            _ => Err(format!("{text:?} is not a share of the stream's rate; write for example 50%")),
        },
        None => text
            .parse()
            .map(|rate: Bitrate| Limit::Rate(rate.bits_per_second()))
            .map_err(|error| format!("{error}; or a share of the stream's rate, for example 50%")),
    }
}

/// Some viewers that read slowly: `10@500k`, `10@50%`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Slow {
    pub(super) viewers: usize,
    pub(super) limit: Limit,
}

impl FromStr for Slow {
    type Err = String;
    fn from_str(text: &str) -> Result<Slow, String> {
        let parts = text.split_once('@').and_then(|(count, rate)| Some((count.parse().ok()?, rate)));
        let (viewers, rate) = parts.ok_or_else(|| {
            format!("{text:?} does not say how many read how fast; write for example 10@50% or 10@500k")
        })?;
        Ok(Slow { viewers, limit: limit(rate)? })
    }
}

/// `all`, `none`, or a number of viewers.
pub(super) fn check(text: &str) -> Result<Check, String> {
    match text {
        "all" => Ok(Check::All),
        "none" => Ok(Check::None),
        number => number
            .parse()
            .map(Check::Sample)
            .map_err(|_| format!("{text:?} is neither all, none nor a number of viewers")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ramps_are_rates_or_times() {
        let rate = |text: &str| text.parse::<Ramp>().map(|ramp| ramp.rate(100));
        assert_eq!(rate("500/s"), Ok(500.0));
        assert_eq!(rate("10s"), Ok(10.0));
        assert_eq!(rate("0s"), Ok(f64::INFINITY));
        for (text, complaint) in
            [("500", "500/s"), ("0/s", "above 0/s"), ("NaN/s", "above 0/s"), ("x/s", "not a rate")]
        {
            let error = rate(text).unwrap_err();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn slow_viewers_read_at_a_rate_or_a_share() {
        assert_eq!("3@500k".parse(), Ok(Slow { viewers: 3, limit: Limit::Rate(500_000) }));
        assert_eq!("3@50%".parse(), Ok(Slow { viewers: 3, limit: Limit::Share(0.5) }));
        for text in ["3", "@50%", "3@", "3@50", "3@-1%", "3@0%", "x@50%"] {
            assert!(text.parse::<Slow>().is_err(), "{text}");
        }
    }

    #[test]
    fn checks_are_of_all_some_or_none() {
        assert_eq!(
            (check("all"), check("7"), check("none")),
            (Ok(Check::All), Ok(Check::Sample(7)), Ok(Check::None))
        );
        assert!(check("some").is_err());
    }
}
