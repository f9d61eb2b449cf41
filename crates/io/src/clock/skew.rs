//! A wall clock that is wrong on purpose: for tests of two machines with clocks that do not agree, or that are set while the
//! machines run.
//!
//! `GLASSLINE_TEST_WALL_CLOCK=30ms` is 30 ms ahead; `-30ms` is behind; `0ms,2s@3s` is right at first, and 2 s ahead from 3 s after
//! the process has first asked for it. The variable is read once. No system clock is touched, and the monotonic clock is not either.

use glassline_media::{Time, Utc, quantity};
use std::sync::OnceLock;
use std::time::Duration;

const VARIABLE: &str = "GLASSLINE_TEST_WALL_CLOCK";

/// How wrong, and from when on.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Skew {
    /// How long after the start, and how far ahead then, in nanoseconds; in order, the first from the start on.
    steps: Vec<(Duration, i64)>,
}

/// `utc` as the variable wants it to be at `now`.
///
/// # Panics
/// Where the variable says nothing that can be understood: a test that has it so tests something else.
pub(super) fn applied(utc: Utc, now: Time) -> Utc {
    static SKEW: OnceLock<Option<(Skew, Time)>> = OnceLock::new();
    let skew = SKEW.get_or_init(|| {
        let text = std::env::var(VARIABLE).ok()?;
        match Skew::parse(&text) {
            Ok(skew) => Some((skew, now)),
            Err(error) => panic!("{VARIABLE}={text}: {error}"),
        }
    });
    skew.as_ref().map_or(utc, |(skew, began)| skew.apply(utc, now.since(*began)))
}

impl Skew {
    fn parse(text: &str) -> Result<Skew, String> {
        let mut steps: Vec<(Duration, i64)> = Vec::new();
        for part in text.split(',') {
            let (ahead, after) =
                part.split_once('@').map_or((part, None), |(ahead, after)| (ahead, Some(after)));
            let duration = |text: &str| quantity::parse_duration(text).map_err(|error| error.to_string());
            let (sign, size) = ahead.strip_prefix('-').map_or((1, ahead), |size| (-1, size));
            let ahead = i64::try_from(duration(size)?.as_nanos()).map_err(|error| error.to_string())? * sign;
            let after = after.map_or(Ok(Duration::ZERO), duration)?;
            if steps.last().is_some_and(|(last, _)| *last >= after) {
                return Err(format!("{part} does not come later than what is in front of it"));
            }
            steps.push((after, ahead));
        }
        Ok(Skew { steps })
    }

    /// What a clock says that is `utc` and has run for `run`.
    fn apply(&self, utc: Utc, run: Duration) -> Utc {
        let ahead = self.steps.iter().rev().find(|(after, _)| *after <= run).map_or(0, |(_, ahead)| *ahead);
        Utc::from_nanos(utc.as_nanos().saturating_add_signed(ahead))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_clock_is_wrong_as_it_is_told_to_be() {
        let ahead = |text: &str, seconds: u64| {
            let utc = Utc::from_nanos(10_000_000_000);
            let skewed = Skew::parse(text).unwrap().apply(utc, Duration::from_secs(seconds));
            skewed.as_nanos() as i64 - utc.as_nanos() as i64
        };
        assert_eq!((ahead("30ms", 0), ahead("-30ms", 9)), (30_000_000, -30_000_000));
        assert_eq!(
            [0, 2, 3, 5].map(|seconds| ahead("0ms,2s@3s,-1s@5s", seconds)),
            [0, 0, 2_000_000_000, -1_000_000_000]
        );
        assert_eq!(ahead("2s@3s", 2), 0, "nothing is said of the time before");
        assert_eq!(ahead("-1h", 0), -10_000_000_000, "no time is before 1970");
        for wrong in ["", "30", "1s@", "1s@2s,2s@1s", "2s,3s", "--1s", "x@1s"] {
            assert!(Skew::parse(wrong).is_err(), "{wrong}");
        }
    }
}
