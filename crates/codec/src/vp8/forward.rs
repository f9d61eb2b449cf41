//! Forward transforms, the ones that §14.3 and §14.4 of RFC 6386 undo: the scalar reference of the encoder's kernels
//! in `simd`.
//!
//! A coefficient is twice what an orthonormal transform gives; with residues of ±255, all values of both passes fit
//! 16 bits.

/// cos(π/8)·√2 and sin(π/8)·√2, times 2¹².
pub(crate) const COSINE: i32 = 5352;
pub(crate) const SINE: i32 = 2217;

/// One dimension: the even coefficients, and the odd ones times 2¹².
fn pass(input: [i32; 4]) -> [i32; 4] {
    let (a, b) = (input[0] + input[3], input[1] + input[2]);
    let (c, d) = (input[1] - input[2], input[0] - input[3]);
    [a + b, SINE * c + COSINE * d, a - b, SINE * d - COSINE * c]
}

/// What is added to the odd coefficients of the first pass before they are divided by 2¹², and to those of the second
/// before 2¹⁶. The inverse rounds its products down (RFC 6386 §14.3); these make up for it: residues come back with a
/// seventh of the squared error that rounding to the nearest gives.
pub(crate) const FIRST_BIAS: [i32; 2] = [14_500, 7_500];
pub(crate) const SECOND_BIAS: [i32; 2] = [12_000, 51_000];

/// The coefficients of 4×4 residues, both line by line.
pub(crate) fn dct(residue: &[i16; 16]) -> [i16; 16] {
    let mut half = [[0; 4]; 4];
    for (out, line) in half.iter_mut().zip(residue.as_chunks::<4>().0) {
        let line = pass(line.map(|value| 8 * i32::from(value)));
        *out = [line[0], (line[1] + FIRST_BIAS[0]) >> 12, line[2], (line[3] + FIRST_BIAS[1]) >> 12];
    }
    let mut out = [0; 16];
    for x in 0..4 {
        let column = pass(half.map(|line| line[x]));
        out[x] = ((column[0] + 7) >> 4) as i16;
        // One more where outermost lines differ, which is where a flat column must not get a coefficient.
        let differ = i32::from(half[0][x] != half[3][x]);
        out[x + 4] = (((column[1] + SECOND_BIAS[0]) >> 16) + differ) as i16;
        out[x + 8] = ((column[2] + 7) >> 4) as i16;
        out[x + 12] = ((column[3] + SECOND_BIAS[1]) >> 16) as i16;
    }
    out
}

/// The coefficients of a source block minus its prediction, 4×4 samples each.
pub(crate) fn forward_block(
    src: &[u8],
    src_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    out: &mut [i16; 16],
) {
    let mut residue = [0; 16];
    for (y, line) in residue.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let (src, prediction) = (&src[y * src_stride..][..4], &prediction[y * prediction_stride..][..4]);
        *line = std::array::from_fn(|x| i16::from(src[x]) - i16::from(prediction[x]));
    }
    *out = dct(&residue);
}

/// The coefficients of `COUNT` blocks, `ACROSS` a line: 16 and 4 for a macroblock's luma, 4 and 2 for its Cb or Cr.
pub(crate) fn forward_blocks<const COUNT: usize, const ACROSS: usize>(
    src: &[u8],
    src_stride: usize,
    prediction: &[u8],
    prediction_stride: usize,
    out: &mut [[i16; 16]; COUNT],
) {
    for (at, out) in out.iter_mut().enumerate() {
        let (x, y) = (at % ACROSS * 4, at / ACROSS * 4);
        let (src, prediction) = (&src[y * src_stride + x..], &prediction[y * prediction_stride + x..]);
        forward_block(src, src_stride, prediction, prediction_stride, out);
    }
}

/// The coefficients of 16 blocks' DC coefficients, both line by line; half of what the sums give, rounded away from
/// zero.
pub(crate) fn forward_wht(input: &[i16; 16]) -> [i16; 16] {
    let pass = |input: [i32; 4]| {
        let (a, b) = (input[0] + input[3], input[1] + input[2]);
        let (c, d) = (input[1] - input[2], input[0] - input[3]);
        [a + b, c + d, a - b, d - c]
    };
    let mut half = [[0; 4]; 4];
    for (out, line) in half.iter_mut().zip(input.as_chunks::<4>().0) {
        *out = pass(line.map(i32::from));
    }
    let mut out = [0; 16];
    for x in 0..4 {
        for (y, value) in pass(half.map(|line| line[x])).into_iter().enumerate() {
            out[4 * y + x] = ((value + i32::from(value > 0)) >> 1) as i16;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vp8::transform;

    #[test]
    fn the_inverse_gives_residues_back() {
        let (mut state, mut squares, mut worst) = (9u32, 0, 0);
        for round in 0..2000 {
            let range = [4, 32, 256][round % 3];
            let residue: [i16; 16] = std::array::from_fn(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                ((state >> 16) % (2 * range - 1)) as i16 - (range as i16 - 1)
            });
            let back = transform::inverse_dct(&dct(&residue));
            for (a, b) in residue.into_iter().zip(back) {
                squares += u32::from(a.abs_diff(b)).pow(2);
                worst = worst.max(a.abs_diff(b));
            }
        }
        assert!(worst <= 1, "{worst}");
        // A hundredth of a squared step a sample.
        assert!(squares < 400, "{squares}");
    }

    #[test]
    fn the_inverse_gives_dc_coefficients_back() {
        for step in [1, 7, 255] {
            let input: [i16; 16] = std::array::from_fn(|at| (at as i16 * 5 % 16 - 8) * step);
            let back = transform::inverse_wht(&forward_wht(&input));
            for (a, b) in input.into_iter().zip(back) {
                assert!(a.abs_diff(b) <= 1, "{input:?} became {back:?}");
            }
        }
    }

    #[test]
    fn extreme_residues_fit() {
        let all = dct(&[255; 16]);
        assert_eq!(all[0], 2040);
        // What makes up for the inverse's rounding is less than half of the finest step.
        assert!(all[1..].iter().all(|value| value.abs() <= 1), "{all:?}");
        assert_eq!(dct(&[-255; 16])[0], -2040);
        assert_eq!(forward_wht(&[2040; 16])[0], 16_320);
        assert_eq!(forward_wht(&[-2040; 16])[0], -16_320);
    }
}
