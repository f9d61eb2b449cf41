//! How long after their capture pictures are shown, so that sound is played as long after its own; and which picture is on
//! screen, so that other data can be compared with it.

use glassline_media::Utc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// What one picture counts, in parts of all: some sixteen pictures' memory.
const PARTS: u64 = 16;

/// Shared by the display, which writes it, and what goes beside the pictures, which reads it.
#[derive(Debug, Default)]
pub struct LipSync {
    /// Nanoseconds; 0 before the first picture.
    delay: AtomicU64,
    /// The capture time of the picture that was shown last, nanoseconds since 1970; 0 before the first picture.
    captured: AtomicU64,
}

impl LipSync {
    /// A picture was shown so long after its capture.
    pub(super) fn shown(&self, delay: Duration) {
        let delay = u64::try_from(delay.as_nanos()).unwrap_or(u64::MAX / PARTS).max(1);
        let before = self.delay.load(Ordering::Relaxed);
        let mean = if before == 0 { delay } else { before - before / PARTS + delay / PARTS };
        self.delay.store(mean, Ordering::Relaxed);
    }

    /// The picture that is shown now was captured then, by its sender's wall clock.
    pub(super) fn on_screen(&self, captured: Utc) {
        self.captured.store(captured.as_nanos(), Ordering::Relaxed);
    }

    /// When the picture on screen was captured, by its sender's wall clock; `None` before the first picture, or where its sender
    /// does not tell.
    pub fn captured(&self) -> Option<Utc> {
        Some(self.captured.load(Ordering::Relaxed)).filter(|nanos| *nanos > 0).map(Utc::from_nanos)
    }

    /// How long that is in the mean; `None` before the first picture.
    #[cfg(any(test, feature = "opus"))]
    pub(super) fn delay(&self) -> Option<Duration> {
        Some(self.delay.load(Ordering::Relaxed)).filter(|nanos| *nanos > 0).map(Duration::from_nanos)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_follows_what_is_shown() {
        let sync = LipSync::default();
        assert_eq!(sync.delay(), None);
        sync.shown(Duration::from_millis(40));
        assert_eq!(sync.delay(), Some(Duration::from_millis(40)));
        for _ in 0..200 {
            sync.shown(Duration::from_millis(90));
        }
        assert!(sync.delay().unwrap().abs_diff(Duration::from_millis(90)) < Duration::from_millis(1));
    }

    #[test]
    fn no_delay_at_all_is_one_that_is_known() {
        let sync = LipSync::default();
        sync.shown(Duration::ZERO);
        assert_eq!(sync.delay(), Some(Duration::from_nanos(1)));
    }

    #[test]
    fn one_picture_that_is_late_moves_the_mean_by_a_sixteenth() {
        let sync = LipSync::default();
        sync.shown(Duration::from_millis(160));
        sync.shown(Duration::from_millis(320));
        assert_eq!(sync.delay(), Some(Duration::from_millis(170)));
        sync.shown(Duration::MAX);
        assert!(
            sync.delay().is_some_and(|delay| delay > Duration::from_secs(3600)),
            "and is not a short one by overflow"
        );
    }

    proptest::proptest! {
        #[test]
        fn the_mean_lies_among_what_was_shown(millis in proptest::collection::vec(1u64..5000, 1..100)) {
            let sync = LipSync::default();
            millis.iter().for_each(|delay| sync.shown(Duration::from_millis(*delay)));
            let mean = sync.delay().unwrap();
            let [least, most] = [millis.iter().min(), millis.iter().max()].map(|it| Duration::from_millis(*it.unwrap()));
            // Each step rounds down twice.
            let rounding = Duration::from_nanos(2 * 16 * millis.len() as u64);
            proptest::prop_assert!(mean + rounding >= least && mean <= most, "{mean:?} of {least:?} to {most:?}");
        }
    }
}
