//! Quantities as people write them, on the command line and in the configuration alike: rates of bits (`5M`),
//! sizes in memory (`16MiB`), durations (`200ms`), picture sizes (`1280x720`) and frame rates (`60000/1001`).
//!
//! A unit is always asked for: `5000` might be bits, kilobits or bytes, and a guess would be wrong for someone.

use crate::picture::Size;
use crate::time::FrameRate;
use serde::de::{self, Deserialize, Deserializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Why a text is no quantity. The message names what was found and what would be right.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuantityError {
    /// There is a number but no unit.
    #[error("{found:?} has no unit, and it could be meant in several; write for example {example}")]
    NoUnit {
        /// The text.
        found: String,
        /// A right one.
        example: &'static str,
    },
    /// Neither a number with a unit nor anything near it.
    #[error("{found:?} is not a {what}; write for example {example}")]
    Malformed {
        /// The text.
        found: String,
        /// The kind of quantity.
        what: &'static str,
        /// A right one.
        example: &'static str,
    },
    /// A number with a unit that is none of this kind's.
    #[error("{found:?}: {unit:?} is no unit of a {what}; there are {}", units.join(", "))]
    Unit {
        /// The text.
        found: String,
        /// What stands behind the number.
        unit: String,
        /// The kind of quantity.
        what: &'static str,
        /// Those that there are, the smallest first.
        units: Vec<&'static str>,
    },
    /// Outside of what the type can hold, or zero where zero means nothing.
    #[error("{found:?} is outside of what a {what} can be ({range})")]
    OutOfRange {
        /// The text.
        found: String,
        /// The kind of quantity.
        what: &'static str,
        /// What it can be.
        range: String,
    },
}

/// What a kind of quantity looks like.
struct Kind {
    what: &'static str,
    example: &'static str,
    /// Unit and its worth in the kind's base unit.
    units: &'static [(&'static str, u64)],
}

const BITRATE: Kind = Kind {
    what: "bit rate",
    example: "5M or 500k (bit/s)",
    units: &[("k", 1_000), ("M", 1_000_000), ("G", 1_000_000_000)],
};
const BYTE_SIZE: Kind = Kind {
    what: "size",
    example: "16MiB or 512KiB",
    units: &[("B", 1), ("KiB", 1 << 10), ("MiB", 1 << 20), ("GiB", 1 << 30)],
};
/// In nanoseconds.
const DURATION: Kind = Kind {
    what: "duration",
    example: "5s, 200ms or 1m",
    units: &[
        ("us", 1_000),
        ("ms", 1_000_000),
        ("s", 1_000_000_000),
        ("m", 60_000_000_000),
        ("h", 3_600_000_000_000),
        ("d", 86_400_000_000_000),
    ],
};

impl Kind {
    /// The quantity in base units, rounded down. Accepts `DIGITS[.DIGITS]UNIT`, a space before the unit allowed.
    fn parse(&self, text: &str) -> Result<u64, QuantityError> {
        let malformed =
            || QuantityError::Malformed { found: text.into(), what: self.what, example: self.example };
        let trimmed = text.trim();
        let split = trimmed.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(trimmed.len());
        let (number, unit) = trimmed.split_at(split);
        let unit = unit.trim_start();
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        // More than nine decimals are below every base unit, more than 20 digits above every u64.
        if whole.is_empty() || whole.len() > 20 || fraction.len() > 9 || fraction.contains('.') {
            return Err(malformed());
        }
        if unit.is_empty() {
            return Err(QuantityError::NoUnit { found: text.into(), example: self.example });
        }
        let unknown = || QuantityError::Unit {
            found: text.into(),
            unit: unit.into(),
            what: self.what,
            units: self.units.iter().map(|(name, _)| *name).collect(),
        };
        let worth = self.units.iter().find(|(name, _)| *name == unit).ok_or_else(unknown)?.1;
        let digits: u128 = format!("{whole}{fraction}").parse().map_err(|_| malformed())?;
        let value = digits.saturating_mul(worth.into()) / 10u128.pow(fraction.len() as u32);
        u64::try_from(value).map_err(|_| self.out_of_range(text, "at most 64 bits"))
    }

    fn out_of_range(&self, text: &str, range: &str) -> QuantityError {
        QuantityError::OutOfRange { found: text.into(), what: self.what, range: range.into() }
    }
}

/// Bits a second; never zero. Written `5M`, `2.5M`, `500k`: decimal multiples; a bare number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bitrate(u64);

impl Bitrate {
    /// `bits` a second, at least one.
    pub const fn from_bits_per_second(bits: u64) -> Bitrate {
        Bitrate(if bits == 0 { 1 } else { bits })
    }

    /// Bits a second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }
}

impl FromStr for Bitrate {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<Bitrate, QuantityError> {
        match BITRATE.parse(text)? {
            0 => Err(BITRATE.out_of_range(text, "above zero")),
            bits => Ok(Bitrate(bits)),
        }
    }
}

impl fmt::Display for Bitrate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            bits if bits.is_multiple_of(1_000_000) => write!(f, "{}M", bits / 1_000_000),
            bits if bits.is_multiple_of(1_000) => write!(f, "{}k", bits / 1_000),
            bits => write!(f, "{}.{:03}k", bits / 1_000, bits % 1_000),
        }
    }
}

/// Bytes a second, as transports count what a path carries; zero while nothing is known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteRate(u64);

impl ByteRate {
    /// `bytes` a second.
    pub const fn from_bytes_per_second(bytes: u64) -> ByteRate {
        ByteRate(bytes)
    }

    /// Bytes a second.
    pub const fn bytes_per_second(self) -> u64 {
        self.0
    }

    /// Bits a second; the largest number where it is too small.
    pub const fn bits_per_second(self) -> u64 {
        self.0.saturating_mul(8)
    }

    /// How many bytes pass at this rate in `time`.
    pub fn bytes_in(self, time: Duration) -> f64 {
        self.0 as f64 * time.as_secs_f64()
    }
}

/// Seconds for a log, rounded to milliseconds.
#[must_use]
pub fn in_seconds(time: Duration) -> f64 {
    (time.as_secs_f64() * 1000.0).round() / 1000.0
}

/// Bytes of memory. Written `64MiB`, `512KiB`, `1500B`: binary multiples; a bare number is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ByteSize(u64);

impl ByteSize {
    /// So many bytes.
    #[must_use]
    pub const fn from_bytes(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// `mebibytes` × 2²⁰ bytes.
    #[must_use]
    pub const fn from_mebibytes(mebibytes: u64) -> ByteSize {
        ByteSize(mebibytes << 20)
    }

    /// Bytes.
    pub const fn bytes(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = QuantityError;
    fn from_str(text: &str) -> Result<ByteSize, QuantityError> {
        BYTE_SIZE.parse(text).map(ByteSize)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = BYTE_SIZE.units.iter().rev();
        let (unit, worth) = units
            .copied()
            .find(|(_, worth)| self.0.is_multiple_of(*worth) && self.0 >= *worth)
            .unwrap_or(("B", 1));
        write!(f, "{}{unit}", self.0 / worth)
    }
}

/// A duration: `5s`, `200ms`, `1.5m`; units `us`, `ms`, `s`, `m` (minutes), `h`, `d`. A bare number is refused.
pub fn parse_duration(text: &str) -> Result<Duration, QuantityError> {
    DURATION.parse(text).map(Duration::from_nanos)
}

/// A duration as [`parse_duration`] reads it, in the largest unit that divides it.
pub fn format_duration(duration: Duration) -> String {
    let nanos = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    if nanos == 0 {
        return "0s".into();
    }
    // Minutes only where they are many: "60s" reads better than "1m".
    let fits = |(unit, worth): &(&str, u64)| nanos.is_multiple_of(*worth) && (nanos > *worth || *unit == "s");
    match DURATION.units.iter().rev().find(|unit| fits(unit)) {
        Some((unit, worth)) => format!("{}{unit}", nanos / worth),
        None => format!("{}us", nanos / 1_000),
    }
}

/// A picture's size: `1280x720` (width by height).
pub fn parse_size(text: &str) -> Result<Size, QuantityError> {
    let what = "picture size";
    let sides = text.split_once('x').and_then(|(w, h)| Some((w.parse().ok()?, h.parse().ok()?)));
    let (width, height) =
        sides.ok_or(QuantityError::Malformed { found: text.into(), what, example: "1280x720" })?;
    let range = || format!("each side 1 to {} pixels", Size::MAX_SIDE);
    Size::new(width, height).map_err(|_| QuantityError::OutOfRange {
        found: text.into(),
        what,
        range: range(),
    })
}

/// Pictures a second: `50`, `60000/1001`, or `29.97` with up to three decimals (the rates of NTSC, `23.976`,
/// `29.97`, `59.94`, are taken as the rationals that they stand for).
pub fn parse_frame_rate(text: &str) -> Result<FrameRate, QuantityError> {
    let malformed = || QuantityError::Malformed {
        found: text.into(),
        what: "frame rate",
        example: "50, 60000/1001 or 29.97",
    };
    let rational = |n: &str, d: &str| FrameRate::new(n.parse().ok()?, d.parse().ok()?);
    let rate = match text {
        "23.976" | "23.98" => FrameRate::new(24_000, 1001),
        "29.97" => FrameRate::new(30_000, 1001),
        "59.94" => FrameRate::new(60_000, 1001),
        _ => match (text.split_once('/'), text.split_once('.')) {
            (Some((numerator, denominator)), _) => rational(numerator, denominator),
            (None, Some((whole, decimals))) if (1..=3).contains(&decimals.len()) => {
                rational(&format!("{whole}{decimals}"), &10u32.pow(decimals.len() as u32).to_string())
            }
            _ => rational(text, "1"),
        },
    };
    rate.ok_or_else(malformed)
}

/// Deserialises a quantity that stands as a text. A bare number goes through `parse` too, so that the error says what
/// is missing.
pub fn deserialize_text<'de, D, T, E>(
    deserializer: D,
    what: &'static str,
    parse: impl Fn(&str) -> Result<T, E>,
) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    E: fmt::Display,
{
    struct Text<P>(&'static str, P);
    impl<T, E: fmt::Display, P: Fn(&str) -> Result<T, E>> de::Visitor<'_> for Text<P> {
        type Value = T;
        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            write!(f, "a {} in quotes", self.0)
        }
        fn visit_str<A: de::Error>(self, text: &str) -> Result<T, A> {
            (self.1)(text).map_err(A::custom)
        }
        fn visit_i64<A: de::Error>(self, number: i64) -> Result<T, A> {
            self.visit_str(&number.to_string())
        }
    }
    deserializer.deserialize_any(Text(what, parse))
}

impl<'de> Deserialize<'de> for Bitrate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Bitrate, D::Error> {
        deserialize_text(deserializer, BITRATE.what, Bitrate::from_str)
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<ByteSize, D::Error> {
        deserialize_text(deserializer, BYTE_SIZE.what, ByteSize::from_str)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_rates_count_bits_and_what_passes_in_a_time() {
        let rate = ByteRate::from_bytes_per_second(1_250_000);
        assert_eq!((rate.bytes_per_second(), rate.bits_per_second()), (1_250_000, 10_000_000));
        assert_eq!(rate.bytes_in(Duration::from_millis(20)), 25_000.0);
        assert_eq!(ByteRate::default().bytes_in(Duration::MAX), 0.0);
        assert_eq!(ByteRate::from_bytes_per_second(u64::MAX).bits_per_second(), u64::MAX);
    }

    #[test]
    fn bit_rates() {
        let bits = |text: &str| text.parse().map(Bitrate::bits_per_second);
        assert_eq!(bits("5M"), Ok(5_000_000));
        assert_eq!(bits("2.5M"), Ok(2_500_000));
        assert_eq!(bits("500 k"), Ok(500_000));
        assert_eq!(bits("1G"), Ok(1_000_000_000));
        for (text, complaint) in [
            ("5000", "has no unit"),
            ("5m", "\"m\" is no unit of a bit rate; there are k, M, G"),
            ("5Mbit", "is no unit"),
            ("M", "is not a bit rate"),
            ("", "is not a bit rate"),
            ("-5M", "is not a bit rate"),
            ("1.2.3M", "is not a bit rate"),
            (".5M", "is not a bit rate"),
            ("5٣M", "is no unit"),
            ("0k", "above zero"),
            ("99999999999999999999G", "at most 64 bits"),
            ("999999999999999999999999999999999999999999999999G", "is not a bit rate"),
        ] {
            let error = text.parse::<Bitrate>().unwrap_err().to_string();
            assert!(error.contains(complaint), "{text}: {error}");
        }
    }

    #[test]
    fn sizes_and_durations() {
        assert_eq!("16MiB".parse().map(ByteSize::bytes), Ok(16 << 20));
        assert_eq!("0.5GiB".parse().map(ByteSize::bytes), Ok(512 << 20));
        let decimal = "16MB".parse::<ByteSize>().unwrap_err().to_string();
        assert_eq!(decimal, "\"16MB\": \"MB\" is no unit of a size; there are B, KiB, MiB, GiB");
        assert_eq!(parse_duration("5s"), Ok(Duration::from_secs(5)));
        assert_eq!(parse_duration("200ms"), Ok(Duration::from_millis(200)));
        assert_eq!(parse_duration("1m"), Ok(Duration::from_secs(60)));
        assert_eq!(parse_duration("1.5d"), Ok(Duration::from_secs(36 * 3600)));
        assert_eq!(parse_duration("0.25s"), Ok(Duration::from_millis(250)));
        assert!(parse_duration("5").unwrap_err().to_string().contains("5s, 200ms or 1m"));
        assert!(parse_duration("soon").is_err());
    }

    #[test]
    fn what_is_written_reads_back() {
        for bits in [1, 999, 1_000, 1_500, 5_000_000, 1_234_567] {
            let rate = Bitrate::from_bits_per_second(bits);
            assert_eq!(rate.to_string().parse(), Ok(rate));
        }
        for bytes in [0, 1, 1023, 1024, 1536, 16 << 20, 3 << 30] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
        for text in ["0s", "5s", "200ms", "60s", "10m", "1s", "24h", "3d"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
    }

    #[test]
    fn picture_sizes_and_frame_rates() {
        assert_eq!(parse_size("1280x720"), Ok(Size::new(1280, 720).unwrap()));
        assert!(parse_size("1280").is_err());
        assert!(parse_size("0x720").unwrap_err().to_string().contains("16384"));
        let rate = |n, d| Ok(FrameRate::new(n, d).unwrap());
        assert_eq!(parse_frame_rate("50"), rate(50, 1));
        assert_eq!(parse_frame_rate("60000/1001"), rate(60_000, 1001));
        assert_eq!(parse_frame_rate("29.97"), rate(30_000, 1001));
        assert_eq!(parse_frame_rate("12.5"), rate(125, 10));
        assert!(parse_frame_rate("0").is_err());
        assert!(parse_frame_rate("50/0").is_err());
        assert!(parse_frame_rate("fast").is_err());
    }
}
