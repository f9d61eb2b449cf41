//! What a quantiser index means for a frame: steps of each kind of block, and the price of a bit.

use crate::vp8::header::Quantizer;
use crate::vp8::quantize::Steps;
use crate::vp8::quantizer::Factors;

/// Kinds of blocks, as probabilities of coefficients know them.
pub(crate) mod kind {
    /// Luma without its DC coefficient.
    pub(crate) const Y_AC: usize = 0;
    /// Luma's DC coefficients.
    pub(crate) const Y2: usize = 1;
    /// Chroma.
    pub(crate) const UV: usize = 2;
    /// Luma with its DC coefficient.
    pub(crate) const Y: usize = 3;
}

/// By segment.
pub(crate) type Quantizations = [Quantization; 4];

/// Everything that follows from a quantiser index.
#[derive(Clone, Debug)]
pub(crate) struct Quantization {
    pub(crate) y: Steps,
    /// As `y`, but that of DC coefficients nothing is left: they are coded as `y2`.
    pub(crate) y_ac: Steps,
    pub(crate) y2: Steps,
    pub(crate) uv: Steps,
    /// What a bit is worth in SATD or SAD, in 16ths.
    pub(crate) satd_price: u32,
    /// What a bit is worth in squared error of samples, in 16ths.
    pub(crate) price: u32,
    /// The step of luma's AC coefficients.
    pub(crate) step: u32,
}

/// Rounding of inter blocks in 128ths of a step, by position.
const ROUND: [u8; 16] = [60, 50, 50, 50, 48, 48, 45, 45, 43, 43, 43, 41, 41, 41, 39, 39];
/// Rounding of luma's DC coefficients.
const ROUND_Y2: [u8; 16] = [45, 38, 38, 38, 38, 38, 36, 36, 36, 36, 36, 36, 36, 36, 36, 36];
/// No zero bin beyond what rounding leaves.
const NO_BIN: [u8; 16] = [0; 16];

/// Steps of the quantiser below which the SATD of a macroblock's luma is not worth a level. Below a third of a step
/// there is none; up to here a residue made for it would get levels of four in all, real video hardly ever any.
const STILL: u32 = 2;

impl Quantization {
    /// `thrift` is how much a bit is worth when levels are weighed, in percent of what it is as a rule.
    pub(crate) fn new(quantizer: &Quantizer, thrift: u32) -> Quantization {
        let factors = Factors::new(i32::from(quantizer.index), quantizer);
        let step = factors.y[1] as u32;
        let price = u64::from((step * step * 16 * 14 / 1000).max(8)) * u64::from(thrift) / 100;
        Quantization {
            y: Steps::new(factors.y, &ROUND, &NO_BIN),
            y_ac: Steps::new(factors.y, &ROUND, &NO_BIN).without_dc(),
            y2: Steps::new(factors.y2, &ROUND_Y2, &NO_BIN),
            uv: Steps::new(factors.uv, &ROUND, &NO_BIN),
            satd_price: (step * 16 * 22 / 100).max(8),
            price: price.min(u64::from(u32::MAX)) as u32,
            step,
        }
    }

    /// Whether nothing of a macroblock's luma is coded where so much SATD is left of it.
    pub(crate) fn is_still(&self, distance: u32) -> bool {
        distance < STILL * self.step
    }

    /// The steps of a kind of block.
    pub(crate) fn steps(&self, kind: usize) -> &Steps {
        match kind {
            kind::Y2 => &self.y2,
            kind::UV => &self.uv,
            kind::Y_AC => &self.y_ac,
            _ => &self.y,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vp8::forward::{forward_blocks, forward_wht};
    use crate::vp8::measure::satd;
    use crate::vp8::quantize::quantize;

    /// The sum of absolute levels that the luma of a macroblock with one vector gets.
    fn levels(quantization: &Quantization, src: &[u8; 256], prediction: &[u8; 256]) -> u32 {
        let mut blocks = [[0; 16]; 16];
        forward_blocks::<16, 4>(src, 16, prediction, 16, &mut blocks);
        let sum = |block: &[i16; 16], steps: &Steps| {
            let mut levels = [0; 16];
            quantize(block, steps, &mut levels, &mut [0; 16]);
            levels.iter().map(|level| u32::from(level.unsigned_abs())).sum::<u32>()
        };
        let luma: u32 = blocks.iter().map(|block| sum(block, &quantization.y_ac)).sum();
        luma + sum(&forward_wht(&blocks.map(|block| block[0])), &quantization.y2)
    }

    /// Residues with all they have in few coefficients: a sample, a block, a line, a column, a checkerboard, all.
    fn concentrated() -> impl Iterator<Item = fn(usize, usize) -> i32> {
        let shapes: [fn(usize, usize) -> i32; 8] = [
            |x, y| i32::from((x, y) == (5, 9)),
            |x, y| i32::from(x < 4 && y < 4),
            |x, y| i32::from(x < 4 && y == 2),
            |x, y| i32::from(x == 3 && y < 4),
            |x, y| if x < 4 && y < 4 { 1 - 2 * ((x + y) as i32 & 1) } else { 0 },
            |x, y| if x < 4 && y < 4 { 1 - 2 * i32::from(x >= 2) } else { 0 },
            |x, _| 1 - 2 * i32::from(x >= 8),
            |_, _| 1,
        ];
        shapes.into_iter()
    }

    #[test]
    fn what_stands_still_would_get_levels_of_four_in_all_and_below_a_third_of_a_step_none() {
        let mut most = 0;
        for index in 0..=127 {
            let quantization = Quantization::new(&Quantizer { index, ..Quantizer::default() }, 100);
            for (shape, height) in
                concentrated().flat_map(|shape| (1..=120).map(move |height| (shape, height)))
            {
                for sign in [-1, 1] {
                    let at = |at: usize| (128 + sign * height * shape(at % 16, at / 16)) as u8;
                    let (src, prediction) = (std::array::from_fn(at), [128; 256]);
                    let distance = satd::<16, 16>(&src, 16, &prediction, 16);
                    if !quantization.is_still(distance) {
                        continue;
                    }
                    let levels = levels(&quantization, &src, &prediction);
                    assert!(levels == 0 || 3 * distance >= quantization.step, "{index} {distance} {levels}");
                    most = most.max(levels);
                }
            }
        }
        assert_eq!(most, 4);
    }
}
