//! Two whole pictures of the two fields of one: 50i becomes 50p, each picture at its field's own time.
//!
//! Motion-adaptive and **without delay**: in the manner of yadif, but a field is completed from what came before it
//! alone, never from a field to come, so that no picture waits.
//!
//! ```text
//!   field n−3      n−2        n−1        n            the missing line y of field n:
//!       ·       y−1 ───         ·     y−1 ───           where it stood still: line y of field n−1
//!    y ───         ·         y ───       ?              where it moved: from y−1 and y+1 of field n,
//!       ·       y+1 ───         ·     y+1 ───             along the edge that runs through there
//! ```
//! How far it moved is how much `n` differs from `n−2` and `n−1` from `n−3`; between both the result slides. The
//! first two pictures are made from their own fields alone.

use super::simd::{FieldLines, PastLines, Simd};
use crate::picture::{FieldOrder, Picture, PicturePool, Plane};
use std::time::Duration;

/// Whether the first line is of the field that was captured first (0) or second (1).
fn first_line(order: FieldOrder) -> usize {
    usize::from(order == FieldOrder::BottomFirst)
}

/// Completes fields. Keeps the two pictures before.
#[derive(Clone, Debug)]
pub struct Deinterlacer {
    simd: Simd,
    order: FieldOrder,
    /// The last picture, and the one before it.
    past: [Option<Picture>; 2],
    pool: PicturePool,
}

impl Deinterlacer {
    /// With the fastest instructions that there are.
    pub fn new(order: FieldOrder) -> Deinterlacer {
        Deinterlacer::with(Simd::best(), order)
    }

    /// With given instructions. The result is the same.
    pub fn with(simd: Simd, order: FieldOrder) -> Deinterlacer {
        Deinterlacer { simd, order, past: [None, None], pool: PicturePool::default() }
    }

    /// The picture at its first field's time, which is its own, and the one `field_time` later.
    ///
    /// # Panics
    /// Where `picture` is not of 8 bits in planes ([`Converter`](super::Converter) makes it so).
    pub fn push(&mut self, picture: Picture, field_time: Duration) -> [Picture; 2] {
        assert!(picture.format().is_planar_8bit(), "planes of 8 bits");
        // Of another size or format: what went before is of no use.
        for kept in &mut self.past {
            kept.take_if(|kept| kept.format() != picture.format() || kept.size() != picture.size());
        }
        let [last, older] = &self.past;
        let first_line = first_line(self.order);
        let first = last.as_ref().zip(older.as_ref()).map(|(last, older)| [last, last, older]);
        let second = last.as_ref().map(|last| [&picture, last, last]);
        let fields = [(first_line, first, Duration::ZERO), (1 - first_line, second, field_time)];
        let out = fields.map(|(parity, past, later)| {
            let mut out = self.pool.take(picture.format(), picture.size(), picture.captured + later);
            out.colour = picture.colour;
            out.captured_utc = picture
                .captured_utc
                .map(|utc| crate::Utc::from_nanos(utc.as_nanos().saturating_add(later.as_nanos() as u64)));
            for (index, plane) in out.planes_mut().iter_mut().enumerate() {
                let past = past.map(|pictures| pictures.map(|picture| &picture.planes()[index]));
                complete(self.simd, parity, &picture.planes()[index], past, plane);
            }
            self.pool.keep(&out);
            out
        });
        self.past = [Some(picture), self.past[0].take()];
        out
    }
}

/// Writes a plane of which the lines of `parity` are known. `past`: the planes that hold the field before, the known
/// lines a picture earlier, and the missing ones a picture before the field before.
fn complete(simd: Simd, parity: usize, plane: &Plane, past: Option<[&Plane; 3]>, out: &mut Plane) {
    let height = plane.size().height as usize;
    // The nearest line of the same field that there is.
    let near = |y: usize, by: isize| {
        let wished = y.checked_add_signed(by).filter(|&y| y < height);
        wished.or_else(|| y.checked_add_signed(-by).filter(|&y| y < height)).unwrap_or(y)
    };
    for (y, line) in out.lines_mut().enumerate() {
        if y % 2 == parity || height == 1 {
            line.copy_from_slice(plane.line(y));
            continue;
        }
        let past = past.map(|[before, same, old]| PastLines {
            before: before.line(y),
            before_above: before.line(near(y, -2)),
            before_below: before.line(near(y, 2)),
            old: old.line(y),
            old_above: same.line(near(y, -1)),
            old_below: same.line(near(y, 1)),
        });
        let lines = FieldLines { above: plane.line(near(y, -1)), below: plane.line(near(y, 1)), past };
        simd.interpolate(&lines, line);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{PixelFormat, Size};
    use crate::time::Time;
    use proptest::prelude::*;

    const FIELD: Duration = Duration::from_millis(20);

    fn picture(size: (u32, u32), of: impl Fn(usize, usize) -> u8) -> Picture {
        let size = Size::new(size.0, size.1).unwrap();
        let mut picture = Picture::new(PixelFormat::I420, size, Time::from_millis(100));
        for plane in picture.planes_mut() {
            for (y, line) in plane.lines_mut().enumerate() {
                line.iter_mut().enumerate().for_each(|(x, sample)| *sample = of(x, y));
            }
        }
        picture
    }

    fn luma(picture: &Picture) -> Vec<Vec<u8>> {
        picture.planes()[0].lines().map(<[u8]>::to_vec).collect()
    }

    #[test]
    fn what_stands_still_keeps_every_line() {
        let still = picture((40, 12), |x, y| (x * 2 + y * 3) as u8);
        let mut deinterlacer = Deinterlacer::new(FieldOrder::TopFirst);
        for _ in 0..2 {
            deinterlacer.push(still.clone(), FIELD);
        }
        for out in deinterlacer.push(still.clone(), FIELD) {
            assert_eq!(luma(&out), luma(&still));
        }
    }

    #[test]
    fn fields_come_in_their_order_and_at_their_times() {
        // All of the top field is 200, all of the bottom field 20: a flash between both.
        let flash = picture((16, 8), |_, y| if y % 2 == 0 { 200 } else { 20 });
        for (order, values) in [(FieldOrder::TopFirst, [200, 20]), (FieldOrder::BottomFirst, [20, 200])] {
            let outs = Deinterlacer::new(order).push(flash.clone(), FIELD);
            for (out, value) in outs.iter().zip(values) {
                // Known lines are kept, and the field's neighbours alone make up the others.
                assert_eq!(luma(out), vec![vec![value; 16]; 8], "{order:?}");
            }
            assert_eq!(outs.map(|out| out.captured.as_nanos() / 1_000_000), [100, 120]);
        }
    }

    /// A bright bar moves by eight samples a field over a dark ground.
    fn moving(frame: usize) -> (Picture, [Vec<u8>; 2]) {
        let bar = move |field: usize, x: usize| {
            let left = (2 * frame + field) * 8;
            if (left..left + 16).contains(&x) { 220 } else { 30 }
        };
        let line = |field| (0..160).map(|x| bar(field, x)).collect();
        (picture((160, 16), |x, y| bar(y % 2, x)), [line(0), line(1)])
    }

    #[test]
    fn what_moves_has_no_combs() {
        let mut deinterlacer = Deinterlacer::new(FieldOrder::TopFirst);
        for frame in 0..8 {
            let (interlaced, lines) = moving(frame);
            for (out, line) in deinterlacer.push(interlaced, FIELD).iter().zip(lines) {
                for (y, found) in luma(out).into_iter().enumerate() {
                    assert_eq!(found, line, "frame {frame}, line {y}");
                }
            }
        }
    }

    #[test]
    fn edges_are_followed() {
        // A diagonal edge, one sample further right each line, seen for the first time.
        let slope = |x: usize, y: usize| if x >= 10 + y { 200 } else { 40 };
        let [first, _] = Deinterlacer::new(FieldOrder::TopFirst).push(picture((48, 16), slope), FIELD);
        for (y, line) in luma(&first).iter().enumerate().take(15) {
            let expected: Vec<u8> = (0..48).map(|x| slope(x, y)).collect();
            assert_eq!(*line, expected, "line {y}");
        }
    }

    proptest! {
        #[test]
        fn every_level_gives_the_same_pictures(
            (width, height) in (1u32..90, 1u32..14),
            top: bool,
            seeds in proptest::collection::vec(0u32.., 1..5),
        ) {
            let order = if top { FieldOrder::TopFirst } else { FieldOrder::BottomFirst };
            let mut levels: Vec<Deinterlacer> = [Some(Simd::PORTABLE), Simd::avx2()]
                .into_iter()
                .flatten()
                .map(|simd| Deinterlacer::with(simd, order))
                .collect();
            for seed in seeds {
                let noise = |x: usize, y: usize| {
                    ((seed ^ (x * 7919 + y * 104_729) as u32).wrapping_mul(2_654_435_761) >> 24) as u8
                };
                let interlaced = picture((width, height), noise);
                let outs: Vec<_> =
                    levels.iter_mut().map(|level| level.push(interlaced.clone(), FIELD).map(|out| luma(&out))).collect();
                prop_assert!(outs.windows(2).all(|pair| pair[0] == pair[1]));
                // Lines that were captured stay what they are.
                for (field, out) in outs[0].iter().enumerate() {
                    let parity = (first_line(order) + field) % 2;
                    for y in (parity..height as usize).step_by(2) {
                        prop_assert_eq!(&out[y], &luma(&interlaced)[y]);
                    }
                }
            }
        }
    }
}
