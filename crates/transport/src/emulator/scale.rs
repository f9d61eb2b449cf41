//! By how much the capacity of a trace is scaled.

use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// A positive factor as a fraction of whole numbers, so that what is scaled by it is the same on every machine.
///
/// ```
/// use glassline_transport::emulator::{Scale, Trace};
/// let trace: Trace = "1\n2\n3\n4\n5\n6\n".parse()?;
/// let third = trace.scaled("1/3".parse()?)?;
/// assert_eq!((third.opportunities(), third.period()), (2, trace.period()));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    numerator: u64,
    denominator: u64,
}

/// A text that is no scale.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ScaleError {
    /// Neither a fraction nor a decimal number.
    #[error("{found:?} is no scale; write a fraction or a decimal number, for example 1/30 or 0.5")]
    Malformed {
        /// The text.
        found: String,
    },
    /// Too small or too large.
    #[error("a scale of {found}; expected {} to {}", Scale::MIN, Scale::MAX)]
    Range {
        /// The text.
        found: String,
    },
}

/// The largest number in a fraction, and the finest decimal: products with the opportunities of a trace fit into 64 bits.
const NUMBER_MAX: u64 = 1_000_000;

impl Scale {
    /// The smallest: a thousandth, below which no trace carries video.
    pub const MIN: Scale = Scale { numerator: 1, denominator: 1000 };
    /// The largest.
    pub const MAX: Scale = Scale { numerator: 100, denominator: 1 };

    /// So much of `count`, rounded up; at least 1 of what is not 0.
    pub(super) fn of_rounded_up(self, count: u64) -> u64 {
        count.saturating_mul(self.numerator).div_ceil(self.denominator)
    }

    /// How many times `count` it takes until the scale gives a whole number of them.
    pub(super) fn whole_multiple(self, count: u64) -> u64 {
        self.denominator / greatest_common_divisor(count.saturating_mul(self.numerator), self.denominator)
    }

    /// How many times `count`, which is not 0, it takes until the scale gives `wanted` of them at least.
    pub(super) fn multiple_for(self, count: u64, wanted: u64) -> u64 {
        wanted.saturating_mul(self.denominator).div_ceil(count.saturating_mul(self.numerator).max(1))
    }

    /// Of numbers above 0, where the result is in the range.
    fn of(numerator: u64, denominator: u64) -> Option<Scale> {
        let is_within = denominator > 0
            && numerator.saturating_mul(Scale::MIN.denominator) >= denominator
            && numerator <= denominator.saturating_mul(Scale::MAX.numerator);
        let divisor = greatest_common_divisor(numerator, denominator);
        is_within.then(|| Scale { numerator: numerator / divisor, denominator: denominator / divisor })
    }
}

/// By Euclid's algorithm; that of 0 and 0 is taken as 1.
fn greatest_common_divisor(mut one: u64, mut other: u64) -> u64 {
    while other > 0 {
        (one, other) = (other, one % other);
    }
    one.max(1)
}

impl FromStr for Scale {
    type Err = ScaleError;
    fn from_str(text: &str) -> Result<Scale, ScaleError> {
        let number = |digits: &str| -> Option<u64> {
            let are_digits = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
            digits.parse().ok().filter(|number| are_digits && *number <= NUMBER_MAX)
        };
        let fraction = || {
            if let Some((numerator, denominator)) = text.split_once('/') {
                return Some((number(numerator)?, number(denominator)?));
            }
            let (whole, decimals) = text.split_once('.').unwrap_or((text, "0"));
            let denominator = 10_u64.checked_pow(u32::try_from(decimals.len()).ok()?)?;
            let is_fine = denominator <= NUMBER_MAX;
            is_fine.then_some((number(whole)? * denominator + number(decimals)?, denominator))
        };
        let (numerator, denominator) =
            fraction().ok_or_else(|| ScaleError::Malformed { found: text.to_owned() })?;
        Scale::of(numerator, denominator).ok_or_else(|| ScaleError::Range { found: text.to_owned() })
    }
}

impl fmt::Display for Scale {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.denominator {
            1 => write!(f, "{}", self.numerator),
            denominator => write!(f, "{}/{denominator}", self.numerator),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::{Trace, TraceError};
    use proptest::prelude::*;
    use std::time::Duration;

    fn scaled(text: &str, scale: &str) -> Trace {
        text.parse::<Trace>().unwrap().scaled(scale.parse().unwrap()).unwrap()
    }

    #[test]
    fn a_scale_is_a_fraction_or_a_decimal_number() {
        let name = |text: &str| text.parse::<Scale>().map(|scale| scale.to_string());
        for (text, expected) in [
            ("1/30", "1/30"),
            ("2/60", "1/30"),
            ("0.5", "1/2"),
            ("3", "3"),
            ("1.25", "5/4"),
            ("0.001", "1/1000"),
        ] {
            assert_eq!(name(text).as_deref(), Ok(expected));
        }
        for text in
            ["", "x", "-1", "+1", "1/", "/2", ".5", "1.", "1e-3", "1/2/3", "NaN", "0.0000001", "1/10000000"]
        {
            assert!(matches!(name(text), Err(ScaleError::Malformed { .. })), "{text}");
        }
        for text in ["0", "0.0", "0/5", "5/0", "0/0", "1/1001", "100.1", "101", "1000000"] {
            assert!(matches!(name(text), Err(ScaleError::Range { .. })), "{text}");
        }
        assert_eq!(name("0").unwrap_err().to_string(), "a scale of 0; expected 1/1000 to 100");
    }

    #[test]
    fn a_scaled_trace_keeps_its_length_and_spreads_what_is_left() {
        let trace = scaled("1\n2\n3\n4\n5\n6\n7\n8\n9\n10\n", "0.2");
        assert_eq!(trace, "5\n10\n".parse().unwrap());
        // One line a round: every thirtieth round has it.
        let trace = scaled("1\n", "1/30");
        assert_eq!((trace.opportunities(), trace.period()), (1, Duration::from_millis(30)));
        assert_eq!(scaled("0\n2\n5\n", "3"), "0\n0\n0\n2\n2\n2\n5\n5\n5\n".parse().unwrap());
        assert_eq!(scaled("0\n2\n5\n", "1"), "0\n2\n5\n".parse().unwrap());
    }

    #[test]
    fn rounding_up_in_each_round_does_not_add_up() {
        // 5.14 of 53 are left: 6 of a round alone, and not 6 of each.
        let lines = "0\n".repeat(52) + "1\n";
        let (trace, scaled) = (lines.parse::<Trace>().unwrap(), scaled(&lines, "19/196"));
        let share = scaled.mean_bits_per_second() / trace.mean_bits_per_second();
        assert!((share / (19.0 / 196.0) - 1.0).abs() < 0.001, "{share}");
    }

    #[test]
    fn what_a_millisecond_cannot_hold_is_an_error() {
        let trace: Trace = "7\n".repeat(101).parse().unwrap();
        let error = trace.scaled(Scale::MAX).unwrap_err();
        assert!(matches!(error, TraceError::Scaled { at: 7, .. }), "{error}");
        assert!(error.to_string().starts_with("100 times the trace"), "{error}");
    }

    proptest! {
        #[test]
        fn the_capacity_is_scaled(
            steps in prop::collection::vec(0u32..6, 1..60),
            numerator in 1u64..200,
            denominator in 1u64..200,
        ) {
            let mut at = 0;
            let text: String = steps.iter().map(|step| { at += step; format!("{at}\n") }).collect();
            let (Ok(trace), Ok(scale)) =
                (text.parse::<Trace>(), format!("{numerator}/{denominator}").parse::<Scale>())
            else {
                return Ok(());
            };
            let scaled = trace.scaled(scale).unwrap();
            let wanted = trace.mean_bits_per_second() * numerator as f64 / denominator as f64;
            let found = scaled.mean_bits_per_second();
            prop_assert!((found / wanted - 1.0).abs() < 0.00101, "{} is not {}", found, wanted);
            // Whole rounds, and as many opportunities as are counted.
            let rounds = scaled.period().as_millis() / trace.period().as_millis();
            prop_assert_eq!(scaled.period(), trace.period() * rounds as u32);
            prop_assert_eq!(scaled.opportunities_within(scaled.period() + Duration::from_millis(1)) >= scaled.opportunities(), true);
        }
    }
}
