//! From prediction to levels and samples: transform, quantisation, and what of it is worth its bits.

use super::quantization::{Quantization, kind};
use super::rate::{BlockCosts, END, extra, token_of};
use super::tokens::Levels;
use crate::vp8::quantize::Steps;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::tokens::{BANDS, BLOCKS, Coefficients, Context, Ends, Y2, ZIGZAG};

/// What coding residues depends on.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coding<'a> {
    pub(crate) kernels: &'static EncodeKernels,
    pub(crate) quantization: &'a Quantization,
    pub(crate) costs: &'a BlockCosts,
    /// Whether levels are weighed against their bits.
    pub(crate) weigh: bool,
}

/// Planes from a macroblock's first samples on, with their strides: luma, Cb, Cr.
pub(crate) type Samples<'a> = [(&'a [u8], usize); 3];

/// What prediction leaves of a macroblock, transformed and not quantised: the same for all quantisers.
#[derive(Debug)]
pub(crate) struct Residue {
    luma: [[i16; 16]; 16],
    /// The transform of luma's DC coefficients.
    y2: [i16; 16],
    chroma: [[[i16; 16]; 4]; 2],
}

impl Residue {
    pub(crate) const ZERO: Residue = Residue { luma: [[0; 16]; 16], y2: [0; 16], chroma: [[[0; 16]; 4]; 2] };

    /// Transforms what is left of a whole macroblock. `predicted` holds the prediction.
    pub(crate) fn transform(
        &mut self,
        kernels: &EncodeKernels,
        source: &Samples<'_>,
        predicted: &Samples<'_>,
        has_y2: bool,
    ) {
        let ((src, src_stride), (prediction, stride)) = (source[0], predicted[0]);
        (kernels.forward_luma)(src, src_stride, prediction, stride, &mut self.luma);
        if has_y2 {
            let dc = self.luma.each_ref().map(|block| block[0]);
            self.y2 = (kernels.forward_wht)(&dc);
        }
        self.transform_chroma(kernels, source, predicted);
    }

    /// The same for chroma alone.
    pub(crate) fn transform_chroma(
        &mut self,
        kernels: &EncodeKernels,
        source: &Samples<'_>,
        predicted: &Samples<'_>,
    ) {
        for (plane, out) in [1, 2].into_iter().zip(&mut self.chroma) {
            let ((src, src_stride), (prediction, stride)) = (source[plane], predicted[plane]);
            (kernels.forward_chroma)(src, src_stride, prediction, stride, out);
        }
    }
}

impl Coding<'_> {
    /// The levels of a macroblock that is predicted as a whole, and the dequantised coefficients that belong to them.
    /// All of `coefficients` must be zero on entry.
    pub(crate) fn macroblock(
        &self,
        residue: &Residue,
        has_y2: bool,
        (above, left): (&Context, &Context),
        levels: &mut Levels,
        coefficients: &mut Coefficients,
    ) {
        let (out, _) = coefficients.as_chunks_mut::<16>();
        let (kind, first) = if has_y2 {
            let context = above[8] + left[8];
            let place = (kind::Y2, 0, context);
            levels.ends[Y2] = self.block(&residue.y2, place, &mut levels.blocks[Y2], &mut out[Y2]);
            (kind::Y_AC, 1)
        } else {
            levels.ends[Y2] = 0;
            (kind::Y, 0)
        };
        let (mut on_top, mut to_left) = (*above, *left);
        let (run, steps) = (self.kernels.quantize_run, self.quantization.steps(kind));
        let any = run(&residue.luma, steps, &mut levels.blocks[..16], &mut out[..16], &mut levels.ends[..16]);
        if any && self.weigh {
            for (at, (block, out)) in residue.luma.iter().zip(&mut *out).enumerate() {
                let (x, y) = (at % 4, at / 4);
                let (levels, end) = (&mut levels.blocks[at], &mut levels.ends[at]);
                if *end > 0 {
                    let place = (kind, first, on_top[x] + to_left[y]);
                    self.finish(block, place, levels, out, end);
                }
                let has = u8::from(*end > 0);
                (on_top[x], to_left[y]) = (has, has);
            }
        }
        self.chroma(residue, (above, left), levels, coefficients);
    }

    /// The same for chroma alone.
    pub(crate) fn chroma(
        &self,
        residue: &Residue,
        (above, left): (&Context, &Context),
        levels: &mut Levels,
        coefficients: &mut Coefficients,
    ) {
        let (out, _) = coefficients.as_chunks_mut::<16>();
        let run = self.kernels.quantize_run;
        let chroma = residue.chroma.as_flattened();
        let any = run(
            chroma,
            &self.quantization.uv,
            &mut levels.blocks[16..24],
            &mut out[16..24],
            &mut levels.ends[16..24],
        );
        if !any || !self.weigh {
            return;
        }
        let (mut on_top, mut to_left) = (*above, *left);
        for (at, chroma) in (16..).zip(chroma) {
            let (x, y) = (4 + (at & 4) / 2 + at % 2, 4 + (at & 4) / 2 + at / 2 % 2);
            if levels.ends[at] > 0 {
                let place = (kind::UV, 0, on_top[x] + to_left[y]);
                self.finish(chroma, place, &mut levels.blocks[at], &mut out[at], &mut levels.ends[at]);
            }
            let has = u8::from(levels.ends[at] > 0);
            (on_top[x], to_left[y]) = (has, has);
        }
    }

    /// Quantises one block.
    pub(crate) fn block(
        &self,
        coefficients: &[i16; 16],
        place: (usize, usize, u8),
        levels: &mut [i16; 16],
        dequantized: &mut [i16; 16],
    ) -> u8 {
        let steps = self.quantization.steps(place.0);
        let mut end = (self.kernels.quantize)(coefficients, steps, levels, dequantized) as u8;
        self.finish(coefficients, place, levels, dequantized, &mut end);
        end
    }

    #[inline(always)]
    fn finish(
        &self,
        coefficients: &[i16; 16],
        (kind, first, context): (usize, usize, u8),
        levels: &mut [i16; 16],
        dequantized: &mut [i16; 16],
        end: &mut u8,
    ) {
        if *end == 0 || !self.weigh {
            return;
        }
        let steps = self.quantization.steps(kind);
        let weighing =
            Weighing { coefficients, steps, costs: self.costs, kind, first, price: self.price(kind) };
        let before = *levels;
        *end = weighing.run(usize::from(context), levels, usize::from(*end)) as u8;
        if *levels == before {
            return;
        }
        if *end == 0 {
            *dequantized = [0; 16];
            return;
        }
        for (at, place) in ZIGZAG.into_iter().map(usize::from).enumerate() {
            dequantized[place] = levels[at].wrapping_mul(steps.factor[place]);
        }
    }

    /// What a 256th of a bit is worth in squared error of coefficients, in 4096ths.
    fn price(&self, kind: usize) -> u64 {
        // Coefficients are twice, those of luma's DC coefficients four times what samples are.
        let scale = if kind == kind::Y2 { 16 } else { 4 };
        u64::from(self.quantization.price) * scale
    }
}

/// Where the tokens of a macroblock's blocks end, as reconstruction wants it.
pub(crate) fn ends(levels: &Levels) -> Option<Ends> {
    if levels.is_zero() { None } else { Some(Ends { blocks: levels.ends, any: true }) }
}

const _: () = assert!(BLOCKS == 25);

/// A block, and what it takes to weigh its levels against their bits.
struct Weighing<'a> {
    coefficients: &'a [i16; 16],
    steps: &'a Steps,
    costs: &'a BlockCosts,
    kind: usize,
    first: usize,
    price: u64,
}

impl Weighing<'_> {
    fn cost(&self, at: usize, context: usize, behind_zero: bool, token: usize) -> u32 {
        let table = if behind_zero { &self.costs.behind_zero } else { &self.costs.open };
        u32::from(table[self.kind][usize::from(BANDS[at]) & 7][context][token])
    }

    /// How much squared error grows when the coefficient at `at` gets `to` instead of `from`.
    fn error(&self, at: usize, from: i16, to: i16) -> i64 {
        let place = usize::from(ZIGZAG[at & 15]);
        let (value, factor) = (i64::from(self.coefficients[place]), i64::from(self.steps.factor[place]));
        let square = |level: i16| (value - i64::from(level) * factor).pow(2);
        square(to) - square(from)
    }

    /// Lowers levels as long as that saves more than it costs; gives where the block ends then.
    fn run(&self, context: usize, levels: &mut [i16; 16], end: usize) -> usize {
        // Levels that were rounded up are those that may go down; from the back, so that the end is settled first.
        let mut end = self.cut(context, levels, end);
        if end == 0 {
            return 0;
        }
        let context_of = |levels: &[i16; 16], at: usize| {
            if at == self.first { context } else { usize::from(levels[at - 1].unsigned_abs().min(2)) }
        };
        for at in (self.first..end).rev() {
            let level = levels[at];
            if level == 0 {
                continue;
            }
            let lower = level - level.signum();
            let grown = self.error(at, level, lower);
            // What was rounded down would be off by more than a step.
            let factor = i64::from(self.steps.factor[usize::from(ZIGZAG[at])]);
            if grown > factor * factor || (at + 1 == end && lower == 0) {
                continue;
            }
            let own = context_of(levels, at);
            let behind_zero = at > self.first && levels[at - 1] == 0;
            let size = level.unsigned_abs();
            let mut saved = i64::from(self.cost(at, own, behind_zero, token_of(size)) + extra(size));
            saved -= i64::from(self.cost(at, own, behind_zero, token_of(size - 1)) + extra(size - 1));
            if size <= 2 && at < 15 {
                let token = if at + 1 == end { END } else { token_of(levels[at + 1].unsigned_abs()) };
                saved += i64::from(self.cost(at + 1, usize::from(size), false, token));
                let after = self.cost(at + 1, usize::from(size - 1), size == 1, token);
                saved -= i64::from(after);
            }
            if saved > 0 && grown * 4096 < saved * self.price as i64 {
                levels[at] = lower;
            }
        }
        while end > 0 && levels[end - 1] == 0 {
            end -= 1;
        }
        end
    }

    /// Cuts off the last levels where they are small and not worth their bits.
    fn cut(&self, context: usize, levels: &mut [i16; 16], end: usize) -> usize {
        let mut end = end;
        while end > self.first {
            let last = levels[end - 1];
            if last.unsigned_abs() > 1 {
                break;
            }
            // The next level in front of it, behind which the block could end as well.
            let previous = (self.first..end - 1).rev().find(|&at| levels[at] != 0);
            let (from, before) = match previous {
                Some(at) => (at + 1, usize::from(levels[at].unsigned_abs().min(2))),
                None => (self.first, context),
            };
            let mut with = 0;
            let (mut own, mut behind_zero) = (before, false);
            for at in from..end - 1 {
                with += self.cost(at, own, behind_zero, 0);
                (own, behind_zero) = (0, true);
            }
            with += self.cost(end - 1, own, behind_zero, 1) + 256;
            if end < 16 {
                with += self.cost(end, 1, false, END);
            }
            let without = self.cost(from, before, false, END);
            let saved = i64::from(with) - i64::from(without);
            if self.error(end - 1, last, 0) * 4096 >= saved * self.price as i64 {
                break;
            }
            levels[end - 1] = 0;
            end = previous.map_or(0, |at| at + 1);
        }
        if end <= self.first { 0 } else { end }
    }
}
