//! The dial: a hand that sweeps round once a second, with a tail that fades.

use super::canvas::{Area, Mask, Yuv, blend};
use glassline_media::picture::Picture;
use std::f32::consts::TAU;

/// Steps of the hand in a turn.
const STEPS: usize = 2048;

/// The ring in which the hand sweeps.
#[derive(Clone, Debug)]
pub(super) struct Dial {
    area: Area,
    ring: Mask,
    ground: Yuv,
    /// The step at which the hand passes each sample, for luma and chroma.
    steps: [Vec<u16>; 2],
    /// Colours from the hand backwards round the turn, by plane.
    tail: [Vec<u8>; 3],
}

impl Dial {
    /// A dial on `ground` that fills `area`, which is square with even corners. Its ring idles in one colour, the
    /// tail and the hand have theirs.
    pub(super) fn new(area: Area, ground: Yuv, [idle, tail, hand]: [Yuv; 3]) -> Dial {
        let radius = area.width as f32 / 2.0;
        let steps_at = |shift: u32| {
            let side = area.width >> shift;
            let middle = side as f32 / 2.0;
            (0..side * side)
                .map(|index| {
                    let (x, y) = ((index % side) as f32 + 0.5 - middle, (index / side) as f32 + 0.5 - middle);
                    let turn = (x.atan2(-y) / TAU).rem_euclid(1.0);
                    (turn * STEPS as f32) as u16 % STEPS as u16
                })
                .collect()
        };
        let tail_of = |plane: usize| {
            let [idle, tail, hand] = [idle, tail, hand].map(|colour| f32::from(colour.0[plane]));
            (0..STEPS)
                .map(|step| {
                    let behind = step as f32 / STEPS as f32;
                    let glow = (1.0 - behind / 0.8).max(0.0).powi(2);
                    let value = idle + (tail - idle) * glow;
                    let head = if behind < 0.012 { 1.0 } else { (1.0 - (behind - 0.012) / 0.006).max(0.0) };
                    (value + (hand - value) * head) as u8
                })
                .collect()
        };
        Dial {
            area,
            ground,
            ring: ring(area.width, 0.62 * radius, 0.84 * radius),
            steps: [steps_at(0), steps_at(1)],
            tail: [0, 1, 2].map(tail_of),
        }
    }

    /// Draws the dots of the scale, a stronger one each tenth of a second.
    pub(super) fn draw_scale(&self, picture: &mut Picture, strong: Yuv, weak: Yuv) {
        let radius = self.area.width as f32 / 2.0;
        let scale = |count: u32, reach: f32, size: f32| {
            Mask::of(self.area.width, self.area.width, |x, y| {
                let (x, y) = (x - radius, y - radius);
                let turn = (x.atan2(-y) / TAU * count as f32).round() / count as f32 * TAU;
                size - (x - reach * turn.sin()).hypot(y + reach * turn.cos()) + 0.5
            })
        };
        blend(picture, &scale(50, 0.93 * radius, 0.008 * radius), (self.area.x, self.area.y), weak);
        blend(picture, &scale(10, 0.93 * radius, 0.022 * radius), (self.area.x, self.area.y), strong);
    }

    /// Draws the ring with the hand at `turn` (0 to 1, clockwise from the top) over its own earlier state.
    pub(super) fn draw(&self, picture: &mut Picture, turn: f64) {
        let hand = (turn * STEPS as f64) as usize % STEPS;
        for (index, plane) in picture.planes_mut().iter_mut().enumerate() {
            let shift = usize::from(index > 0);
            let side = self.area.width as usize >> shift;
            let (left, top) = (self.area.x as usize >> shift, self.area.y as usize >> shift);
            let tail = &self.tail[index];
            for row in 0..side {
                let line = &mut plane.line_mut(top + row)[left..left + side];
                let steps = &self.steps[shift][row * side..][..side];
                for ((sample, &cover), &step) in line.iter_mut().zip(self.ring.line(index, row)).zip(steps) {
                    // Mixed with the known ground, not with what the last picture left there.
                    if cover > 0 {
                        let (cover, ground) =
                            (u32::from(cover) + u32::from(cover >> 7), u32::from(self.ground.0[index]));
                        let value = u32::from(tail[(hand + STEPS - usize::from(step)) % STEPS]);
                        *sample = ((value * cover + ground * (256 - cover)) >> 8) as u8;
                    }
                }
            }
        }
    }
}

fn ring(side: u32, inner: f32, outer: f32) -> Mask {
    let middle = side as f32 / 2.0;
    Mask::of(side, side, |x, y| {
        let radius = (x - middle).hypot(y - middle);
        (outer - radius + 0.5).min(radius - inner + 0.5)
    })
}
