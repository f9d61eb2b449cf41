//! Which streams are versions of one capture. Their names say so, as `glassline encode --rendition` and `[encode.NAME]` give
//! them; which client publishes them, and from where, does not count.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::StreamName;
use std::cmp::Reverse;

/// What the name of a version says: `hall-720p50`, and with its bit rate `hall-360p25-2.5M`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Version {
    /// What the versions of one capture share: `hall`.
    pub group: StreamName,
    /// Height, pixels.
    pub height_px: u32,
    /// Pictures a second.
    pub rate: u32,
    /// Bits a second, where it is said.
    pub bitrate_bps: Option<u64>,
}

impl Version {
    pub(super) fn of(name: &str) -> Option<Version> {
        let (mut group, mut last) = name.rsplit_once('-')?;
        let bitrate_bps = bits(last);
        if bitrate_bps.is_some() {
            (group, last) = group.rsplit_once('-')?;
        }
        let (height, rate) = last.split_once('p')?;
        let group = StreamName::parse(group)?;
        Some(Version { group, height_px: number(height)?, rate: number(rate)?, bitrate_bps })
    }

    /// A key by which the best of the versions of a capture comes first, always in the same order.
    pub fn best_first(&self) -> impl Ord + use<> {
        Reverse((self.height_px, self.rate, self.bitrate_bps))
    }
}

fn number(digits: &str) -> Option<u32> {
    digits.bytes().all(|byte| byte.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// `500k`, `2.5M`.
fn bits(text: &str) -> Option<u64> {
    let (digits, unit) = match text.strip_suffix('k') {
        Some(digits) => (digits, 1e3),
        None => (text.strip_suffix('M')?, 1e6),
    };
    let mut parts = digits.splitn(2, '.');
    parts.all(|part| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit())).then_some(())?;
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a cast of a floating-point number saturates, and its digits have no sign"
    )]
    let bits = (digits.parse::<f64>().ok()? * unit).round() as u64;
    Some(bits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_tell_versions() {
        let told = |name: &str| {
            Version::of(name).map(|it| (it.group.as_str().to_owned(), it.height_px, it.rate, it.bitrate_bps))
        };
        let some = |group: &str, height, rate, bps| Some((group.to_owned(), height, rate, bps));
        assert_eq!(told("hall-720p50"), some("hall", 720, 50, None));
        assert_eq!(told("main-hall-360p25-500k"), some("main-hall", 360, 25, Some(500_000)));
        assert_eq!(told("hall-360p25-2.5M"), some("hall", 360, 25, Some(2_500_000)));
        for name in [
            "hall",
            "hall-720p",
            "hall-500k",
            "-720p50",
            "720p50",
            "hall-p50",
            "hall-720p50-",
            "hall-720p50-M",
            "hall-720p50-.5M",
            "hall-720p50-1.2.3M",
            "hall-99999999999p50",
            "hall-7 0p50",
            ".hall-720p50",
        ] {
            assert_eq!(told(name), None, "{name}");
        }
    }

    #[test]
    fn the_best_comes_first() {
        let mut names = ["a-360p25", "a-720p50-2M", "a-1080p25", "a-720p50-8M", "a-720p25"];
        names.sort_by_key(|name| Version::of(name).unwrap().best_first());
        assert_eq!(names, ["a-1080p25", "a-720p50-8M", "a-720p50-2M", "a-720p25", "a-360p25"]);
    }
}
