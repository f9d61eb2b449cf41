//! Flicker: flashes as the guidelines against photosensitive seizures count them (WCAG 2.2 "general flash thresholds", ITU-R
//! BT.1702-3).
//!
//! A flash is a pair of opposing changes of relative luminance by a tenth or more, where the darker side is below 0.80, over a quarter
//! of the picture at once. More than three within a second are too many for viewers, and what no camera sees but of a fault: a lamp
//! that fails, an exposure that hunts, fields in the wrong order.

use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Cells of the grid by which brightness is compared.
pub(super) const CELL_COLUMNS: usize = 16;
/// See [`CELL_COLUMNS`].
pub(super) const CELL_ROWS: usize = 9;
/// Cells in all.
pub(super) const CELLS: usize = CELL_COLUMNS * CELL_ROWS;

/// A change of relative luminance that counts.
const CHANGE: f32 = 0.1;
/// Changes between brighter ones than this do not count.
const DARKER_BELOW: f32 = 0.8;
/// Cells that must change alike.
const AREA: usize = CELLS / 4;
const SECOND: Duration = Duration::from_secs(1);
/// Of more than three flashes a second, at least two turns stand in so long a time.
pub(super) const GLANCE: Duration = Duration::from_millis(400);

/// Counts the flashes of a run of pictures.
#[derive(Clone, Debug)]
pub(super) struct Flashes {
    /// Of each cell: the extreme since the last change, and whether that change was upwards.
    cells: Vec<(f32, Option<bool>)>,
    /// The last change of a quarter of the picture: whether it was upwards.
    upwards: Option<bool>,
    /// When a quarter of the picture changed the other way than before.
    turns: VecDeque<Time>,
    first: Option<Time>,
}

impl Flashes {
    pub(super) fn new() -> Flashes {
        Flashes { cells: Vec::new(), upwards: None, turns: VecDeque::new(), first: None }
    }

    /// Takes the next picture's cells (0 to 1, as coded). Returns the flashes of the last second; `None` where there has been less
    /// than a second and too few to know.
    pub(super) fn push(&mut self, luma: &[f32; CELLS], at: Time) -> Option<f64> {
        if self.cells.is_empty() {
            self.cells = luma.iter().map(|&cell| (luminance(cell), None)).collect();
            self.first = Some(at);
        }
        let (mut up, mut down) = (0, 0);
        for ((extreme, upwards), &cell) in self.cells.iter_mut().zip(luma) {
            let now = luminance(cell);
            let changed = change(*extreme, now);
            if let Some(is_up) = changed
                && *upwards != changed
            {
                *upwards = changed;
                *extreme = now;
                if is_up { up += 1 } else { down += 1 }
            } else {
                // The extreme goes on in the direction of the last change.
                match *upwards {
                    Some(true) => *extreme = extreme.max(now),
                    Some(false) => *extreme = extreme.min(now),
                    None => {}
                }
            }
        }
        let turned = if up >= AREA && up >= down {
            Some(true)
        } else if down >= AREA {
            Some(false)
        } else {
            None
        };
        if let Some(upwards) = turned
            && self.upwards != Some(upwards)
        {
            self.upwards = Some(upwards);
            self.turns.push_back(at);
        }
        while self.turns.front().is_some_and(|turn| at.since(*turn) >= SECOND) {
            self.turns.pop_front();
        }
        // Two turns are a flash.
        let flashes = self.turns.len() as f64 / 2.0;
        let is_whole = self.first.is_some_and(|first| at.since(first) + Duration::from_millis(50) >= SECOND);
        (is_whole || flashes > 3.0).then_some(flashes)
    }
}

impl Flashes {
    /// Whether the last pictures may be part of flashes that are too many: two turns or more within [`GLANCE`].
    pub(super) fn are_suspect(&self, at: Time) -> bool {
        self.turns.iter().filter(|turn| at.since(**turn) < GLANCE).count() >= 2
    }
}

/// Whether a quarter of the picture or more is brighter in one of two pictures than in the other, by as much as in a flash: pictures
/// of a stream that flickers are, where they were taken at its extremes. What moves makes some cells brighter and others darker.
pub(super) fn may_be_of_flash(before: &[f32; CELLS], now: &[f32; CELLS]) -> bool {
    let (mut up, mut down) = (0, 0);
    for (&before, &now) in before.iter().zip(now) {
        match change(luminance(before), luminance(now)) {
            Some(true) => up += 1,
            Some(false) => down += 1,
            None => {}
        }
    }
    up >= AREA || down >= AREA
}

/// Whether relative luminance has changed by so much that it counts, and then whether it was upwards.
fn change(before: f32, now: f32) -> Option<bool> {
    let counts = (now - before).abs() >= CHANGE && now.min(before) < DARKER_BELOW;
    counts.then_some(now > before)
}

/// Relative luminance of a coded level, by the gamma that displays have.
fn luminance(cell: f32) -> f32 {
    cell.clamp(0.0, 1.0).powf(2.2)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(pictures: usize, fps: u64, cell: impl Fn(usize, usize) -> f32) -> Option<f64> {
        let mut flashes = Flashes::new();
        let mut last = None;
        for picture in 0..pictures {
            let cells = std::array::from_fn(|index| cell(picture, index));
            last = flashes.push(&cells, Time::from_millis(picture as u64 * 1000 / fps)).or(last);
        }
        last
    }

    #[test]
    fn flashes_are_pairs_of_changes_of_a_quarter_of_the_picture() {
        // 25 pictures a second, dark and bright by turns: 25 changes.
        let strobe = |picture: usize, _: usize| if picture.is_multiple_of(2) { 0.1 } else { 0.9 };
        assert!(count(50, 25, strobe).unwrap() > 12.0);
        // Three flashes a second: a change every four pictures.
        let slow = |picture: usize, _: usize| if (picture / 5).is_multiple_of(2) { 0.1 } else { 0.9 };
        assert!(count(50, 25, slow).unwrap() <= 3.0);
        // Only a fifth of the picture.
        let small = |picture: usize, index: usize| {
            if index < CELLS / 5 && picture.is_multiple_of(2) { 0.1 } else { 0.9 }
        };
        assert_eq!(count(50, 25, small), Some(0.0));
        // By too little.
        let faint = |picture: usize, _: usize| if picture.is_multiple_of(2) { 0.50 } else { 0.53 };
        assert_eq!(count(50, 25, faint), Some(0.0));
        // A cut, and a fade, are no flashes.
        assert!(count(50, 25, |picture, _| if picture < 20 { 0.1 } else { 0.9 }).unwrap() <= 0.5);
        assert!(count(50, 25, |picture, _| picture as f32 / 50.0).unwrap() <= 0.5);
    }

    #[test]
    fn half_a_second_says_nothing_but_of_many() {
        assert_eq!(count(12, 25, |_, _| 0.5), None);
        assert!(count(12, 25, |picture, _| (picture % 2) as f32).is_some());
    }
}
