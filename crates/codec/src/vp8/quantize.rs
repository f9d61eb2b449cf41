//! Coefficients to levels and back: the scalar reference of the encoder's kernels in `simd`.

use super::tokens::ZIGZAG;

/// How the 16 coefficients of a kind of block are quantised; each array line by line, as coefficients are.
///
/// With `c` the absolute value of a coefficient: its level is 0 where `c` is below `zero_bin`, else
/// `(c + round) · reciprocal / 2¹⁶`, rounded down, with the coefficient's sign. All are at least 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(32))]
pub(crate) struct Steps {
    pub(crate) zero_bin: [i16; 16],
    pub(crate) round: [i16; 16],
    pub(crate) reciprocal: [i16; 16],
    /// What levels are multiplied with.
    pub(crate) factor: [i16; 16],
}

impl Steps {
    /// Steps of the factors of DC and AC coefficients (each at least 4). `round` and `zero_bin` are 128ths of the
    /// factor, in zigzag order: rounding of 64 is to the nearest, less of it leaves a dead zone; a zero bin of 128
    /// makes 0 of all that is below the factor.
    pub(crate) fn new(factors: [i16; 2], round: &[u8; 16], zero_bin: &[u8; 16]) -> Steps {
        let mut steps = Steps { zero_bin: [0; 16], round: [0; 16], reciprocal: [0; 16], factor: [0; 16] };
        for (at, place) in ZIGZAG.into_iter().map(usize::from).enumerate() {
            let factor = i32::from(factors[usize::from(at > 0)]).max(4);
            steps.factor[place] = factor as i16;
            steps.round[place] = ((factor * i32::from(round[at])) >> 7) as i16;
            steps.zero_bin[place] = ((factor * i32::from(zero_bin[at])) >> 7) as i16;
            // One more than rounded down, so that multiples of the factor are not below themselves.
            steps.reciprocal[place] = (65_536 / factor + 1) as i16;
        }
        steps
    }

    /// The same, but that every DC coefficient gets the level 0.
    pub(crate) fn without_dc(mut self) -> Steps {
        self.reciprocal[0] = 0;
        self
    }
}

/// Quantises one block of coefficients: `levels` in zigzag order, as tokens are; `dequantized` line by line, as the
/// inverse transform takes them. Gives the position behind the last level that is not 0, in zigzag order.
pub(crate) fn quantize(
    coefficients: &[i16; 16],
    steps: &Steps,
    levels: &mut [i16; 16],
    dequantized: &mut [i16; 16],
) -> usize {
    let mut end = 0;
    for (at, place) in ZIGZAG.into_iter().map(usize::from).enumerate() {
        let value = coefficients[place];
        let size = value.saturating_abs();
        let rounded = i32::from(size.saturating_add(steps.round[place]));
        let level = ((rounded * i32::from(steps.reciprocal[place])) >> 16) as i16;
        let level = if size < steps.zero_bin[place] { 0 } else { level };
        let level = level * value.signum();
        levels[at] = level;
        dequantized[place] = level.wrapping_mul(steps.factor[place]);
        if level != 0 {
            end = at + 1;
        }
    }
    end
}

/// [`quantize`] of as many blocks as all slices have. Returns whether any level is not 0. Of a block with no level but
/// 0, only the end is written: its place in `dequantized` must be zero already.
pub(crate) fn quantize_run(
    coefficients: &[[i16; 16]],
    steps: &Steps,
    levels: &mut [[i16; 16]],
    dequantized: &mut [[i16; 16]],
    ends: &mut [u8],
) -> bool {
    let blocks = coefficients.iter().zip(levels).zip(dequantized).zip(ends);
    let mut any = false;
    for (((coefficients, levels), dequantized), end) in blocks {
        let (mut found, mut back) = ([0; 16], [0; 16]);
        *end = quantize(coefficients, steps, &mut found, &mut back) as u8;
        if *end > 0 {
            (*levels, *dequantized) = (found, back);
            any = true;
        }
    }
    any
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_rounded_and_cut_off() {
        let steps = Steps::new([10, 20], &[64; 16], &[0; 16]);
        let mut coefficients = [0; 16];
        // Zigzag positions 0, 1, 2 and 3.
        (coefficients[0], coefficients[1], coefficients[4], coefficients[8]) = (24, -30, 9, 2000);
        let (mut levels, mut back) = ([9; 16], [9; 16]);
        assert_eq!(quantize(&coefficients, &steps, &mut levels, &mut back), 4);
        assert_eq!(levels[..5], [2, -2, 0, 100, 0]);
        assert_eq!((back[0], back[1], back[4], back[8], back[15]), (20, -40, 0, 2000, 0));
        let steps = Steps::new([10, 20], &[48; 16], &[160; 16]);
        (coefficients[0], coefficients[8]) = (12, 0);
        assert_eq!(quantize(&coefficients, &steps, &mut levels, &mut back), 2);
        // Below a zero bin of 12.5, rounded down to 12, nothing is.
        assert_eq!(levels[..3], [1, -1, 0]);
        assert_eq!(quantize(&[0; 16], &steps, &mut levels, &mut back), 0);
    }

    #[test]
    fn multiples_of_every_factor_are_kept() {
        for factor in 4..=440 {
            let steps = Steps::new([factor; 2], &[0; 16], &[0; 16]);
            for level in 0..2040 / factor {
                let (mut levels, mut back) = ([0; 16], [0; 16]);
                quantize(&[-level * factor; 16], &steps, &mut levels, &mut back);
                assert_eq!((levels[9], back[9]), (-level, -level * factor), "factor {factor}");
            }
        }
    }
}
