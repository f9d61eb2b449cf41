//! The search for the highest value at which nothing is lost.

use anyhow::Result;

/// What came of a trial.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Outcome {
    /// Nothing was lost.
    pub(crate) is_clean: bool,
    /// What really was done where more was asked for; else what was asked for.
    pub(crate) reached: f64,
}

/// What a search has found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Found {
    /// The highest value at which nothing was lost; `None`: none.
    pub(crate) best: Option<f64>,
    /// Whoever asked could do no more: the true value is this or higher.
    pub(crate) is_at_least: bool,
}

/// What is asked for is not done where less than this of it was.
const DONE: f64 = 0.97;

/// Looks between `low` and `high`, both above 0, by halving the ratio of the two `steps` times. Nothing is assumed of `low`:
/// where all trials lose something, nothing is found.
///
/// # Errors
/// A trial's.
pub(crate) fn highest(
    (low, high): (f64, f64),
    steps: u32,
    mut trial: impl FnMut(f64) -> Result<Outcome>,
) -> Result<Found> {
    let mut found = Found { best: None, is_at_least: false };
    let (mut low, mut high, mut was_short) = (low, high, false);
    for _ in 0..steps {
        let asked = (low * high).sqrt();
        let outcome = trial(asked)?;
        let is_done = outcome.reached >= asked * DONE;
        if outcome.is_clean {
            if found.best.is_none_or(|best| outcome.reached > best) {
                found = Found { best: Some(outcome.reached), is_at_least: !is_done };
            }
            if !is_done && was_short {
                // Higher values would do no more; once alone may be the machine's doing.
                break;
            }
            was_short = !is_done;
            low = asked;
        } else {
            // What was lost was lost at what was done.
            high = asked.min(outcome.reached.max(low));
        }
        if high <= low {
            break;
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::bail;

    /// Loses from `capacity` on, at a sender that does no more than `most`.
    fn search(capacity: f64, most: f64, steps: u32) -> (Found, u32) {
        let mut trials = 0;
        let found = highest((0.5, 40.0), steps, |asked| {
            trials += 1;
            let reached = f64::min(asked, most);
            Ok(Outcome { is_clean: reached <= capacity, reached })
        });
        (found.unwrap(), trials)
    }

    #[test]
    fn the_highest_clean_rate_is_found_within_two_percent() {
        for capacity in [0.6, 1.0, 3.36, 21.0, 39.0] {
            let (found, trials) = search(capacity, 100.0, 8);
            let best = found.best.unwrap();
            assert!(best <= capacity && best > capacity * 0.98, "{capacity}: {best}");
            assert!(!found.is_at_least && trials == 8);
        }
    }

    #[test]
    fn a_sender_that_can_do_no_more_ends_the_search() {
        let (found, trials) = search(100.0, 10.0, 8);
        assert_eq!((found.best, found.is_at_least), (Some(10.0), true));
        assert!(trials < 8);
        // Lost at what the sender could do: the search goes on below that.
        let (found, _) = search(9.0, 10.0, 8);
        let best = found.best.unwrap();
        assert!(best > 8.7 && best <= 9.0 && !found.is_at_least, "{found:?}");
    }

    #[test]
    fn nothing_is_found_where_all_is_lost() {
        assert_eq!(search(0.1, 100.0, 8).0, Found { best: None, is_at_least: false });
        assert!(highest((1.0, 2.0), 3, |_| bail!("no receiver")).is_err());
    }
}
