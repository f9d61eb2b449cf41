//! What is measured of a decoded picture.

use super::blurred;
use super::flicker::{CELL_COLUMNS, CELL_ROWS, CELLS};

/// Luma of a decoded picture.
#[derive(Clone, Copy, Debug)]
pub struct Luma<'a> {
    /// Samples of 8 bits, line by line, `stride` apart.
    pub samples: &'a [u8],
    /// Width in pixels.
    pub width_px: usize,
    /// Height in pixels.
    pub height_px: usize,
    /// Bytes from a line to the next.
    pub stride: usize,
    /// Whether black is 0 and white 255 (`video_full_range_flag`); otherwise 16 and 235.
    pub is_full_range: bool,
}

impl<'a> Luma<'a> {
    /// Line `y`, `width_px` long.
    fn line(&self, y: usize) -> &'a [u8] {
        let from = y * self.stride;
        &self.samples[from..from + self.width_px]
    }

    /// Whether the samples are as many as it says, and enough to measure.
    fn is_whole(&self) -> bool {
        let last = (self.height_px.max(1) - 1).checked_mul(self.stride);
        let needed = last.and_then(|last| last.checked_add(self.width_px));
        self.width_px >= 2 * CELL_COLUMNS
            && self.height_px >= 2 * CELL_ROWS
            && self.stride >= self.width_px
            && needed.is_some_and(|needed| self.samples.len() >= needed)
    }
}

/// What the alarms need of a picture.
#[derive(Clone, Debug, PartialEq)]
pub struct PictureFigures {
    /// 98 percent of the samples are at most this bright, in percent of the luma range.
    pub brightest_percent: f64,
    /// The detail in it, a number that only compares with others; `None` where it has too little of anything, and where it was not
    /// wanted.
    pub sharpness: Option<f64>,
    /// The mean difference of its samples from those of the picture before, in levels; `None` where there was none of this size, and where it
    /// was not wanted.
    pub difference: Option<f64>,
    /// The mean of each cell of a grid, 0 (black) to 1.
    pub(super) cells: [f32; CELLS],
}

/// Which figures are taken of a picture beside its brightness. Both cost about as much as that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FiguresWanted {
    /// Its sharpness, which is looked at of key frames.
    pub sharpness: bool,
    /// Its difference from the one before, which is looked at where frozen pictures are watched for.
    pub difference: bool,
}

impl FiguresWanted {
    /// All that there are.
    pub const ALL: FiguresWanted = FiguresWanted { sharpness: true, difference: true };
}

/// Takes figures of pictures, one after the other. Holds a copy of the last one's luma where differences are wanted.
#[derive(Clone, Debug, Default)]
pub struct PictureMeter {
    last: Vec<u8>,
    size: (usize, usize),
    is_known: bool,
}

impl PictureMeter {
    /// A meter before the first picture.
    pub fn new() -> PictureMeter {
        PictureMeter::default()
    }

    /// The next picture is not the one that followed: nothing is compared with the last one.
    pub fn forget(&mut self) {
        self.is_known = false;
    }

    /// Measures a picture; `None` where it is smaller than 32x18, or its samples are fewer than it says. About a nanosecond for each
    /// pixel where all is wanted.
    pub fn measure(&mut self, luma: &Luma<'_>, wanted: FiguresWanted) -> Option<PictureFigures> {
        if !luma.is_whole() {
            return None;
        }
        self.is_known &= wanted.difference;
        let difference = if wanted.difference { self.compare(luma) } else { None };
        let sharpness = || blurred::sharpness(luma.height_px, |y| luma.line(y));
        Some(PictureFigures {
            brightest_percent: brightest_percent(luma),
            sharpness: if wanted.sharpness { sharpness() } else { None },
            difference,
            cells: cells(luma),
        })
    }

    /// The mean difference from the last picture. This one is kept in its place.
    fn compare(&mut self, luma: &Luma<'_>) -> Option<f64> {
        let size = (luma.width_px, luma.height_px);
        let is_known = std::mem::replace(&mut self.is_known, true) && self.size == size;
        self.size = size;
        if !is_known {
            self.last.clear();
            (0..luma.height_px).for_each(|y| self.last.extend_from_slice(luma.line(y)));
            return None;
        }
        let mut sum = 0u64;
        for (y, kept) in self.last.chunks_exact_mut(luma.width_px).enumerate() {
            let line = luma.line(y);
            let differences = line.iter().zip(&*kept).map(|(a, b)| u32::from(a.abs_diff(*b)));
            sum += u64::from(differences.sum::<u32>());
            kept.copy_from_slice(line);
        }
        Some(sum as f64 / self.last.len().max(1) as f64)
    }
}

/// A level as a part of the luma range.
fn part(level: f64, is_full_range: bool) -> f64 {
    let (black, range) = if is_full_range { (0.0, 255.0) } else { (16.0, 219.0) };
    ((level - black) / range).clamp(0.0, 1.0)
}

/// Every second line is looked at: black is no matter of single lines.
fn brightest_percent(luma: &Luma<'_>) -> f64 {
    // Neighbours are often alike: each of four has a count of its own, so that no count waits for the one before.
    let mut counts = [[0u32; 256]; 4];
    let mut total = 0u64;
    for y in (0..luma.height_px).step_by(2) {
        let line = luma.line(y);
        let (fours, rest) = line.as_chunks::<4>();
        for four in fours {
            counts.iter_mut().zip(four).for_each(|(of_one, &level)| of_one[usize::from(level)] += 1);
        }
        rest.iter().for_each(|&level| counts[0][usize::from(level)] += 1);
        total += line.len() as u64;
    }
    let counts: [u32; 256] = std::array::from_fn(|level| counts.iter().map(|of_one| of_one[level]).sum());
    let mut left = total - total * 98 / 100;
    let mut level = 255;
    for (at, &count) in counts.iter().enumerate().rev() {
        level = at;
        if u64::from(count) > left {
            break;
        }
        left -= u64::from(count);
    }
    part(level as f64, luma.is_full_range) * 100.0
}

fn cells(luma: &Luma<'_>) -> [f32; CELLS] {
    let mut cells = [0.0; CELLS];
    let bound = |index: usize, of: usize, size: usize| index * size / of;
    for row in 0..CELL_ROWS {
        let (top, bottom) =
            (bound(row, CELL_ROWS, luma.height_px), bound(row + 1, CELL_ROWS, luma.height_px));
        let mut sums = [0u64; CELL_COLUMNS];
        let mut lines = 0u64;
        for y in (top..bottom).step_by(2) {
            let line = luma.line(y);
            for (column, sum) in sums.iter_mut().enumerate() {
                let of_cell = &line[bound(column, CELL_COLUMNS, luma.width_px)
                    ..bound(column + 1, CELL_COLUMNS, luma.width_px)];
                *sum += u64::from(of_cell.iter().map(|&level| u32::from(level)).sum::<u32>());
            }
            lines += 1;
        }
        for (column, sum) in sums.into_iter().enumerate() {
            let width =
                bound(column + 1, CELL_COLUMNS, luma.width_px) - bound(column, CELL_COLUMNS, luma.width_px);
            let mean = sum as f64 / (lines * width as u64).max(1) as f64;
            cells[row * CELL_COLUMNS + column] = part(mean, luma.is_full_range) as f32;
        }
    }
    cells
}

#[cfg(test)]
#[path = "picture_tests.rs"]
mod tests;
