//! Blurred pictures: a lens out of focus, a dirty lens, an encoder that has run out of bits.
//!
//! How sharp a picture is depends on what it shows, so that it is only compared with the same stream's pictures of before. The measure
//! is the energy of the second difference of neighbours against that of samples four apart. For an edge it is 1, for
//! edges that are spread over eight pixels below 0.1, whatever their contrast: a dark scene is no less sharp than a bright slide.

use super::median::Recent;
use glassline_media::Time;
use std::time::Duration;

/// What the median is taken over.
const SPAN: Duration = Duration::from_secs(600);
/// One value for each second of it.
const VALUES_MAX: usize = 600;
/// Nothing is said before so much is known.
const QUIET: Duration = Duration::from_secs(120);
/// Samples apart in the coarse difference.
const COARSE: usize = 4;
/// The mean square of the coarse difference below which there is too little in the picture to tell.
const ENERGY_MIN: f64 = 6.0;

/// The sharpness of a picture with `height_px` lines; `None` where it shows too little. Every fourth line is looked at.
pub(super) fn sharpness<'a>(height_px: usize, line: impl Fn(usize) -> &'a [u8]) -> Option<f64> {
    let (mut fine, mut coarse, mut count) = (0u64, 0u64, 0u64);
    for y in (0..height_px).step_by(4) {
        let line = line(y);
        let windows = line.windows(2 * COARSE + 1);
        count += windows.len() as u64;
        let (mut fine_of_line, mut coarse_of_line) = (0u64, 0u64);
        for window in windows {
            let at = |index: usize| i32::from(window[index]);
            let near = at(COARSE - 1) - 2 * at(COARSE) + at(COARSE + 1);
            let far = at(0) - 2 * at(COARSE) + at(2 * COARSE);
            fine_of_line += u64::from((near * near).unsigned_abs());
            coarse_of_line += u64::from((far * far).unsigned_abs());
        }
        fine += fine_of_line;
        coarse += coarse_of_line;
    }
    let energy = coarse as f64 / count.max(1) as f64;
    (energy >= ENERGY_MIN).then(|| COARSE as f64 * fine as f64 / coarse as f64)
}

/// The sharpness of the last ten minutes' key frames.
#[derive(Clone, Debug)]
pub(super) struct Sharpness {
    recent: Recent,
    /// The values come from an earlier run, so that nothing has to be waited for.
    is_restored: bool,
}

impl Sharpness {
    pub(super) fn new() -> Sharpness {
        Sharpness { recent: Recent::new(SPAN, VALUES_MAX), is_restored: false }
    }

    /// Goes on with the values of an earlier run, oldest first.
    pub(super) fn restore(values: &[f64]) -> Sharpness {
        let mut restored = Sharpness::new();
        let kept = values.iter().rev().take(VALUES_MAX).rev();
        kept.filter(|value| value.is_finite()).for_each(|&value| restored.recent.push(Time::ZERO, value));
        restored.is_restored = restored.recent.len() as u64 >= QUIET.as_secs() / 2;
        restored
    }

    /// What [`Sharpness::restore`] takes, to four decimals: more is noise.
    pub(super) fn save(&self) -> Vec<f64> {
        self.recent.values().map(|value| (value * 1e4).round() / 1e4).collect()
    }

    /// Takes a key frame's sharpness. Returns what percent of the median it is; `None` as long as too little is known.
    pub(super) fn push(&mut self, sharpness: f64, at: Time) -> Option<f64> {
        let is_known = self.is_restored || self.recent.covered() >= QUIET;
        let median = self.recent.median();
        self.recent.push(at, sharpness);
        median.filter(|median| is_known && *median > 0.0).map(|median| sharpness * 100.0 / median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Stripes whose edges are spread over `spread` pixels, with a contrast.
    fn stripes(spread: usize, low: f64, high: f64) -> Vec<u8> {
        let sharp: Vec<f64> = (0..512).map(|x| if x / 32 % 2 == 0 { low } else { high }).collect();
        let mean = |x: usize| {
            let window = &sharp[x.saturating_sub(spread / 2)..(x + spread.div_ceil(2)).min(512)];
            window.iter().sum::<f64>() / window.len() as f64
        };
        (0..512).map(|x| mean(x).round() as u8).collect()
    }

    #[test]
    fn spread_edges_are_less_sharp_whatever_their_contrast() {
        let of = |line: &[u8]| sharpness(16, |_| line);
        let [sharp, faint] = [of(&stripes(1, 20.0, 220.0)).unwrap(), of(&stripes(1, 100.0, 140.0)).unwrap()];
        assert!((sharp - 1.0).abs() < 0.01 && (faint - 1.0).abs() < 0.01, "{sharp} {faint}");
        let blurred = of(&stripes(8, 20.0, 220.0)).unwrap();
        assert!(blurred < 0.15, "{blurred}");
        assert_eq!(of(&[100; 512]), None);
        assert_eq!(sharpness(16, |_| &[1, 2, 3][..]), None);
    }

    #[test]
    fn nothing_is_said_for_two_minutes_but_where_the_median_was_kept() {
        let mut history = Sharpness::new();
        for second in 0..=120 {
            assert_eq!(history.push(1.0, Time::from_millis(second * 1000)), None);
        }
        assert_eq!(history.push(0.25, Time::from_millis(121_000)), Some(25.0));
        let mut restored = Sharpness::restore(&history.save());
        assert_eq!(restored.push(0.5, Time::ZERO), Some(50.0));
        let mut too_few = Sharpness::restore(&history.save()[..59]);
        assert_eq!(too_few.push(0.5, Time::ZERO), None);
        assert_eq!(Sharpness::restore(&[f64::NAN; 2000]).push(1.0, Time::ZERO), None);
    }

    #[test]
    fn the_median_is_that_of_ten_minutes() {
        let mut history = Sharpness::new();
        for second in 0..2000u64 {
            let sharpness = if second < 1000 { 1.0 } else { 0.2 };
            history.push(sharpness, Time::from_millis(second * 1000));
        }
        assert_eq!(history.save().len(), VALUES_MAX);
        assert_eq!(history.push(0.2, Time::from_millis(2_000_000)), Some(100.0));
    }
}
