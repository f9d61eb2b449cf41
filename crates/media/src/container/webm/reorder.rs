//! Decoding times of pictures that have times of presentation alone.

use crate::container::frames::Coming;
use crate::time::Ticks;
use std::collections::VecDeque;

/// Of so many pictures that may be ahead of one that is shown earlier, more than any profile allows.
const DEPTH_MAX: usize = 16;

/// Pictures that are further apart than this are not reordered: there was a pause, or another time begins.
const APART: i64 = 2 * Ticks::RATE as i64;
/// What waits at the beginning, at most.
const HELD_MAX_BYTES: usize = 16 << 20;

/// Gives each picture the decoding time that follows from the order in which pictures come: with `depth` pictures that may be ahead,
/// the earliest of the last `depth` + 1 presentation times. The first `depth` pictures wait for the next ones, since their decoding
/// times lie before all presentation times.
#[derive(Clone, Debug, Default)]
pub(super) struct Reorder {
    depth: usize,
    /// The presentation times of the last `depth` pictures that were not the earliest, in their order.
    recent: VecDeque<i64>,
    /// Pictures of the beginning.
    held: Vec<(u64, Coming)>,
    held_bytes: usize,
    has_begun: bool,
    /// The decoding time of the last picture.
    last: i64,
}

impl Reorder {
    pub(super) fn new(depth: usize) -> Reorder {
        Reorder { depth: depth.min(DEPTH_MAX), ..Reorder::default() }
    }

    /// Takes the next picture, of the block that begins `at`; gives those that have a decoding time.
    pub(super) fn push(&mut self, at: u64, mut picture: Coming, give: &mut dyn FnMut(u64, Coming)) {
        if self.has_begun {
            let since = picture.pts.0.saturating_sub(self.last);
            if since.saturating_abs() > APART {
                *self = Reorder::new(self.depth);
            } else if since < 0 {
                // More pictures are ahead than was said.
                *self = Reorder::new(self.depth.saturating_add(1));
            }
        }
        if self.depth == 0 {
            (self.has_begun, self.last) = (true, picture.pts.0);
            picture.dts = picture.pts;
            return give(at, picture);
        }
        if !self.has_begun {
            self.held_bytes = self.held_bytes.saturating_add(picture.data.len());
            self.held.push((at, picture));
            if self.held.len() > self.depth || self.held_bytes > HELD_MAX_BYTES {
                self.flush(give);
            }
            return;
        }
        let place = self.recent.partition_point(|&pts| pts <= picture.pts.0);
        self.recent.insert(place, picture.pts.0);
        let earliest = self.recent.pop_front().unwrap_or(picture.pts.0);
        // Times that are rounded may be equal.
        self.last = earliest.max(self.last.saturating_add(1)).min(picture.pts.0);
        picture.dts = Ticks(self.last);
        give(at, picture);
    }

    /// Gives what waits: no other picture comes for it, or enough have come.
    pub(super) fn flush(&mut self, give: &mut dyn FnMut(u64, Coming)) {
        let held = std::mem::take(&mut self.held);
        self.held_bytes = 0;
        let mut times: Vec<i64> = held.iter().map(|(_, picture)| picture.pts.0).collect();
        times.sort_unstable();
        let (Some(&first), Some(&last)) = (times.first(), times.last()) else { return };
        let count = i64::try_from(times.len()).unwrap_or(i64::MAX);
        let depth = i64::try_from(self.depth).unwrap_or(i64::MAX);
        let steps = count.saturating_sub(1).max(1);
        let step = last.saturating_sub(first).checked_div(steps).unwrap_or(0).max(1);
        for (index, (at, mut picture)) in (0i64..).zip(held) {
            let ahead = depth.saturating_sub(index);
            self.last = first.saturating_sub(step.saturating_mul(ahead));
            picture.dts = Ticks(self.last);
            give(at, picture);
        }
        self.recent = times.into_iter().skip(1).collect();
        self.has_begun = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    fn picture(pts: i64) -> Coming {
        Coming { data: Bytes::new(), pts: Ticks(pts), dts: Ticks(pts), random_access: false }
    }

    /// The decoding times of pictures that come in this order.
    fn decoded(depth: usize, times: &[i64]) -> Vec<i64> {
        let (mut reorder, mut found) = (Reorder::new(depth), Vec::new());
        for (at, pts) in (0..).zip(times) {
            reorder.push(at, picture(*pts), &mut |at, picture| found.push((at, picture)));
        }
        reorder.flush(&mut |at, picture| found.push((at, picture)));
        assert!(found.iter().map(|(at, _)| *at).eq(0..times.len() as u64), "each comes once, in order");
        assert!(found.iter().all(|(_, picture)| picture.dts <= picture.pts), "none is late");
        found.into_iter().map(|(_, picture)| picture.dts.0).collect()
    }

    #[test]
    fn decoding_is_as_far_ahead_as_pictures_are_reordered() {
        assert_eq!(decoded(0, &[0, 3600, 7200]), [0, 3600, 7200]);
        assert_eq!(decoded(1, &[0, 7200, 3600, 14_400, 10_800]), [-7200, 0, 3600, 7200, 10_800]);
        // A pyramid of three.
        let pyramid = [0, 14_400, 7200, 3600, 10_800, 28_800, 21_600, 18_000, 25_200];
        let steps = decoded(2, &pyramid);
        assert!(steps.windows(2).all(|pair| pair[0] < pair[1]), "{steps:?}");
        assert_eq!(steps[2..], [0, 3600, 7200, 10_800, 14_400, 18_000, 21_600]);
    }

    #[test]
    fn pictures_are_decoded_close_to_when_they_are_shown_also_behind_a_pause() {
        let (before, behind) = ([0, 7200, 3600], [2_000_000, 2_007_200, 2_003_600]);
        let times = decoded(1, &[before, behind].concat());
        assert_eq!(times[3..], [1_992_800, 2_000_000, 2_003_600]);
        // Of more pictures ahead than the parameter sets say.
        let learnt = decoded(0, &[0, 3600, 14_400, 7200, 10_800, 28_800, 18_000, 21_600]);
        assert_eq!(learnt.len(), 8);
        assert!(learnt[4..].windows(2).all(|pair| pair[0] < pair[1]), "{learnt:?}");
    }

    #[test]
    fn a_jump_begins_anew_and_an_end_leaves_nothing_behind() {
        assert_eq!(decoded(1, &[900_000, 907_200, 0, 7200, 3600]).len(), 5);
        assert_eq!(decoded(3, &[5, 9]).len(), 2);
    }
}
