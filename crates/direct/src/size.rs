//! At which size pictures are coded: smaller where the network takes so little that coarse quantisers cost more than what is
//! lost by scaling.
//!
//! Where that is depends on the pictures (soft ones lose nothing by a smaller size, fine text loses everything), so it is not
//! read off a table: from time to time a picture that was sent is encoded once more at the next size, with as many bytes, and
//! the one that is nearer to the source decides ([`Sender::compare_sizes`](crate::Sender::compare_sizes)). The codec is a
//! function, so that leaves no trace.

use glassline_media::{Size, Time};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Sizes as fractions of the source's: of 1080p they are 720p, 540p, 360p and 270p.
const STEPS: [(u32, u32); 5] = [(1, 1), (2, 3), (1, 2), (1, 3), (1, 4)];
/// The shorter side of the smallest picture.
const LEAST_SIDE: u32 = 96;
/// From one comparison to the next, at least, and where the same one has failed again and again.
const INTERVAL: Duration = Duration::from_millis(500);
const INTERVAL_MAX: Duration = Duration::from_secs(4);
/// A smaller size is taken only where it has this share of the distortion or less: what follows from it is better still, so a
/// smaller gain is within what the next picture may turn round.
const SMALLER_SHARE: f64 = 0.95;
/// A larger one where it has no more than this: it begins with references that lack what only it can show.
const LARGER_SHARE: f64 = 1.0;
/// A quantiser that has moved so far makes what was compared before worthless.
const MOVED: f64 = 10.0;
/// Quantisers from which a smaller size is tried alone, and up to which a larger one is.
const COARSE: f64 = 40.0;
const FINE: f64 = 10.0;
/// Up to which two steps are tried at once.
const ABUNDANT: f64 = 4.0;
/// Where there is never time for a comparison: quantisers at which the size changes all the same.
const BLIND_COARSE: f64 = 75.0;
const BLIND_FINE: f64 = 5.0;
const BLIND_AFTER: Duration = Duration::from_secs(2);
/// Quantisers from which the same bytes make a better picture one step down, and two.
const UNRECOGNISABLE: u8 = 90;
const HOPELESS: u8 = 112;
/// How much of a picture's quantiser counts.
const GAIN: f64 = 0.15;
/// Bits a sample that a picture without references wants; with fewer, the first ones are smaller.
const FIRST_BITS_PER_SAMPLE: f64 = 0.12;

/// At which size pictures are coded. They are always shown at their source's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CodedSize {
    /// Smaller where the network takes little.
    #[default]
    Adaptive,
    /// The source's own.
    Source,
    /// This one.
    Fixed(Size),
}

/// Where to from a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Direction {
    Smaller,
    Larger,
}

/// What was learned about one direction.
#[derive(Clone, Copy, Debug)]
struct Trials {
    due: Time,
    wait: Duration,
    /// The quantiser then.
    quantizer: f64,
}

const UNTRIED: Trials = Trials { due: Time::ZERO, wait: INTERVAL, quantizer: 0.0 };

/// Keeps the size.
#[derive(Clone, Debug)]
pub(crate) struct SizeControl {
    mode: CodedSize,
    source: Option<Size>,
    /// From the source's down.
    steps: Vec<Size>,
    step: usize,
    /// Of the pictures sent lately.
    quantizer: f64,
    smaller: Trials,
    larger: Trials,
    /// The comparison under way.
    asked: Option<Direction>,
    /// The next comparison, of either direction.
    due: Time,
    /// When a comparison was made last, or the size changed.
    last: Time,
}

impl SizeControl {
    pub(crate) fn new(mode: CodedSize) -> SizeControl {
        SizeControl {
            mode,
            source: None,
            steps: Vec::new(),
            step: 0,
            quantizer: 30.0,
            smaller: UNTRIED,
            larger: UNTRIED,
            asked: None,
            due: Time::ZERO,
            last: Time::ZERO,
        }
    }

    /// A picture of the source comes; whether it has the size of those before.
    pub(crate) fn begin(&mut self, source: Size) -> bool {
        let is_same = self.source == Some(source);
        if !is_same {
            self.source = Some(source);
            (self.steps, self.step) = (steps(source), 0);
        }
        is_same
    }

    /// The size at which pictures are coded now.
    pub(crate) fn coded(&self) -> Size {
        match self.mode {
            CodedSize::Fixed(size) => size,
            CodedSize::Adaptive | CodedSize::Source => self.steps[self.step],
        }
    }

    /// A picture that needs no other comes next, and may take so many bytes.
    pub(crate) fn begin_key(&mut self, bytes: u64) {
        if self.mode == CodedSize::Adaptive {
            let is_enough = |size: &Size| {
                bytes as f64 * 8.0 >= FIRST_BITS_PER_SAMPLE * f64::from(size.width * size.height)
            };
            self.step = self.steps.iter().position(is_enough).unwrap_or(self.steps.len() - 1);
        }
    }

    /// The size at which a picture that would go with this quantiser is coded once more, if it should be.
    pub(crate) fn rescue(&self, quantizer: u8) -> Option<Size> {
        if self.mode != CodedSize::Adaptive || quantizer < UNRECOGNISABLE {
            return None;
        }
        let down = if quantizer < HOPELESS { 1 } else { 2 };
        let step = (self.step + down).min(self.steps.len() - 1);
        (step > self.step).then(|| self.steps[step])
    }

    /// It is, with this quantiser. Returns by how much the area of the next is another.
    pub(crate) fn rescued(&mut self, size: Size, quantizer: u8) -> f64 {
        let step = self.steps.iter().position(|step| *step == size).unwrap_or(self.step);
        let factor = self.change(step);
        self.quantizer = f64::from(quantizer);
        (self.smaller, self.larger) = (UNTRIED, UNTRIED);
        factor
    }

    /// A picture was sent with this quantiser. Returns by how much the area of the next is another, where it changes.
    pub(crate) fn sent(&mut self, now: Time, quantizer: u8) -> Option<f64> {
        self.quantizer += GAIN * (f64::from(quantizer) - self.quantizer);
        if self.mode != CodedSize::Adaptive || now.since(self.last) < BLIND_AFTER {
            return None;
        }
        let direction = match self.quantizer {
            coarse if coarse > BLIND_COARSE => Direction::Smaller,
            fine if fine < BLIND_FINE => Direction::Larger,
            _ => return None,
        };
        let to = self.neighbour(direction)?;
        self.last = now;
        Some(self.change(to))
    }

    fn neighbour(&self, direction: Direction) -> Option<usize> {
        match direction {
            Direction::Smaller => Some(self.step + 1).filter(|step| *step < self.steps.len()),
            Direction::Larger if self.quantizer < ABUNDANT => {
                (self.step > 0).then(|| self.step.saturating_sub(2))
            }
            Direction::Larger => self.step.checked_sub(1),
        }
    }

    fn change(&mut self, step: usize) -> f64 {
        let area = |step: usize| f64::from(self.steps[step].width * self.steps[step].height);
        let factor = area(step) / area(self.step);
        self.step = step;
        // A larger picture takes a coarser quantiser.
        self.quantizer *= factor.sqrt();
        factor
    }

    fn trials(&mut self, direction: Direction) -> &mut Trials {
        match direction {
            Direction::Smaller => &mut self.smaller,
            Direction::Larger => &mut self.larger,
        }
    }

    /// Another size that is worth to be compared now, if any.
    pub(crate) fn poll_comparison(&mut self, now: Time) -> Option<Size> {
        if self.mode != CodedSize::Adaptive || now < self.due {
            return None;
        }
        let wanted: &[Direction] = match self.quantizer {
            coarse if coarse > COARSE => &[Direction::Smaller],
            fine if fine < FINE => &[Direction::Larger, Direction::Smaller],
            _ => &[Direction::Smaller, Direction::Larger],
        };
        let quantizer = self.quantizer;
        for &direction in wanted {
            let Some(step) = self.neighbour(direction) else { continue };
            let trials = self.trials(direction);
            if now >= trials.due || (quantizer - trials.quantizer).abs() > MOVED {
                self.asked = Some(direction);
                return Some(self.steps[step]);
            }
        }
        None
    }

    /// What came of it: the distortion as pictures are coded now, and at the other size with as many bytes. Returns by how much
    /// the area of the next is another, where it changes.
    pub(crate) fn compared(&mut self, now: Time, ours: f64, other: f64) -> Option<f64> {
        let direction = self.asked.take()?;
        (self.due, self.last) = (now + INTERVAL / 2, now);
        let step = self.neighbour(direction)?;
        let share = if direction == Direction::Smaller { SMALLER_SHARE } else { LARGER_SHARE };
        let quantizer = self.quantizer;
        if other <= ours * share {
            let factor = self.change(step);
            // On in that direction at once; back only where there is reason to.
            let quantizer = self.quantizer;
            *self.trials(direction) = UNTRIED;
            let back = match direction {
                Direction::Smaller => Direction::Larger,
                Direction::Larger => Direction::Smaller,
            };
            let trials = self.trials(back);
            trials.wait = (trials.wait * 2).min(INTERVAL_MAX);
            (trials.due, trials.quantizer) = (now + trials.wait, quantizer);
            return Some(factor);
        }
        let trials = self.trials(direction);
        trials.wait = (trials.wait * 2).min(INTERVAL_MAX);
        (trials.due, trials.quantizer) = (now + trials.wait, quantizer);
        None
    }

    /// The encoder's speed at the size of now, where `speed` is asked for at the source's: a picture of fewer samples is coded with
    /// more care in the same time.
    pub(crate) fn speed(&self, speed: u8) -> u8 {
        self.speed_at(self.coded(), speed)
    }

    /// The same at another size.
    pub(crate) fn speed_at(&self, size: Size, speed: u8) -> u8 {
        let area = |size: Size| f64::from(size.width) * f64::from(size.height);
        let source = self.source.map_or(1.0, area);
        match area(size) / source {
            share if share < 0.3 => speed.saturating_sub(4),
            share if share < 0.6 => speed.saturating_sub(2),
            _ => speed,
        }
    }
}

/// The sizes for a source.
pub(crate) fn steps(source: Size) -> Vec<Size> {
    let of = |side: u32, (part, whole): (u32, u32)| {
        // Even, as 4:2:0 wants it, where it is not the source's own.
        if part == whole {
            side
        } else {
            (f64::from(side * part) / f64::from(whole) / 2.0).round() as u32 * 2
        }
    };
    let sizes = STEPS.map(|step| Size { width: of(source.width, step), height: of(source.height, step) });
    let is_large = |size: &Size| size.width.min(size.height) >= LEAST_SIDE;
    sizes
        .into_iter()
        .enumerate()
        .filter(|(step, size)| *step == 0 || is_large(size))
        .map(|(_, size)| size)
        .collect()
}

impl fmt::Display for CodedSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CodedSize::Adaptive => f.write_str("auto"),
            CodedSize::Source => f.write_str("source"),
            CodedSize::Fixed(size) => write!(f, "{size}"),
        }
    }
}

impl FromStr for CodedSize {
    type Err = String;

    fn from_str(text: &str) -> Result<CodedSize, String> {
        match text {
            "auto" => Ok(CodedSize::Adaptive),
            "source" => Ok(CodedSize::Source),
            size => size
                .split_once('x')
                .and_then(|(width, height)| Size::new(width.parse().ok()?, height.parse().ok()?).ok())
                .filter(|size| size.width < 1 << 14 && size.height < 1 << 14)
                .map(CodedSize::Fixed)
                .ok_or_else(|| format!("{text:?} is none of auto, source and a size (640x360)")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(width: u32, height: u32) -> Size {
        Size::new(width, height).unwrap()
    }

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    fn control() -> SizeControl {
        let mut control = SizeControl::new(CodedSize::Adaptive);
        assert!(!control.begin(size(1280, 720)) && control.begin(size(1280, 720)));
        control
    }

    #[test]
    fn sizes_are_those_that_people_know() {
        let heights = |width, height| -> Vec<u32> {
            steps(size(width, height)).iter().map(|size| size.height).collect()
        };
        assert_eq!(heights(1920, 1080), [1080, 720, 540, 360, 270]);
        assert_eq!(heights(1280, 720), [720, 480, 360, 240, 180]);
        assert_eq!(steps(size(1280, 720))[1], size(854, 480));
        assert_eq!(heights(321, 241), [241, 160, 120], "even, and none too small");
        assert_eq!(steps(size(16, 16)), [size(16, 16)]);
    }

    #[test]
    fn what_is_nearer_to_the_source_wins_and_is_not_tried_again_at_once() {
        let mut control = control();
        assert_eq!(control.poll_comparison(at(0)), Some(size(854, 480)));
        assert_eq!(control.compared(at(0), 0.10, 0.098), None, "a small gain is none");
        assert_eq!(control.poll_comparison(at(600)), None, "it has just failed");
        assert_eq!(control.poll_comparison(at(1_100)), Some(size(854, 480)));
        let factor = control.compared(at(1_100), 0.10, 0.05).unwrap();
        assert!((0.44..0.45).contains(&factor) && control.coded() == size(854, 480));
        assert_eq!(control.poll_comparison(at(1_400)), Some(size(640, 360)), "on in that direction");
        assert_eq!(control.compared(at(1_400), 0.05, 0.2), None);
        // Back, once a while has passed, as it is no worse.
        assert_eq!(control.poll_comparison(at(1_700)), None);
        assert_eq!(control.poll_comparison(at(3_000)), Some(size(640, 360)));
        control.compared(at(3_000), 0.05, 0.2);
        assert_eq!(control.poll_comparison(at(3_300)), Some(size(1280, 720)));
        assert!(control.compared(at(3_300), 0.05, 0.05).is_some() && control.coded() == size(1280, 720));
    }

    #[test]
    fn a_quantiser_that_moves_makes_old_comparisons_worthless() {
        let mut control = control();
        control.poll_comparison(at(0)).unwrap();
        control.compared(at(0), 0.1, 0.2);
        for number in 0..8 {
            assert_eq!(control.sent(at(20 * number), 70), None);
        }
        assert_eq!(control.poll_comparison(at(300)), Some(size(854, 480)));
    }

    #[test]
    fn where_there_is_no_time_to_compare_the_quantiser_decides() {
        let mut control = control();
        let mut sent = |from: u64, quantizer| {
            (0..120).filter_map(|n| control.sent(at(from + 33 * n), quantizer)).count()
        };
        assert_eq!(sent(0, 110), 1);
        sent(4_000, 40);
        assert_eq!((sent(8_000, 40), sent(12_000, 0)), (0, 2));
    }

    #[test]
    fn a_first_picture_fits_and_one_beyond_recognition_shrinks_at_once() {
        let mut control = control();
        control.begin_key(12_000);
        assert_eq!(control.coded(), size(854, 480));
        control.begin_key(1_000_000);
        assert_eq!(control.coded(), size(1280, 720));
        assert_eq!((control.rescue(60), control.rescue(100)), (None, Some(size(854, 480))));
        assert_eq!(control.rescue(127), Some(size(640, 360)));
        assert_eq!((control.rescued(size(640, 360), 50), control.coded()), (0.25, size(640, 360)));
        assert_eq!((control.speed(6), control.speed_at(size(1280, 720), 6), control.speed(3)), (2, 6, 0));
    }

    #[test]
    fn a_size_is_read_as_it_is_written() {
        for text in ["auto", "source", "640x360"] {
            assert_eq!(text.parse::<CodedSize>().unwrap().to_string(), text);
        }
        for text in ["", "640", "0x360", "640x99999", "x"] {
            assert!(text.parse::<CodedSize>().unwrap_err().contains("640x360"), "{text}");
        }
    }
}
