//! Inverse transforms (RFC 6386 §14.3 to §14.5): the scalar reference of the kernels in `simd`.
//!
//! All arithmetic is modulo 2¹⁶, as vector units do it; a stream that an encoder made never gets there.

/// cos(π/8)·√2 − 1 and sin(π/8)·√2, times 2¹⁶.
const COSINE: i32 = 20_091;
const SINE: i32 = 35_468;

fn scaled(value: i16, factor: i32) -> i16 {
    ((i32::from(value) * factor) >> 16) as i16
}

/// One dimension of the inverse DCT.
fn idct(input: [i16; 4]) -> [i16; 4] {
    let a = input[0].wrapping_add(input[2]);
    let b = input[0].wrapping_sub(input[2]);
    let cosine = |value: i16| value.wrapping_add(scaled(value, COSINE));
    let c = scaled(input[1], SINE).wrapping_sub(cosine(input[3]));
    let d = cosine(input[1]).wrapping_add(scaled(input[3], SINE));
    [a.wrapping_add(d), b.wrapping_add(c), b.wrapping_sub(c), a.wrapping_sub(d)]
}

/// The residue of a block of coefficients, line by line.
pub(crate) fn inverse_dct(coefficients: &[i16; 16]) -> [i16; 16] {
    let mut half = [0; 16];
    for x in 0..4 {
        let column = idct([0, 4, 8, 12].map(|y| coefficients[x + y]));
        for (y, value) in column.into_iter().enumerate() {
            half[4 * y + x] = value;
        }
    }
    let mut out = [0; 16];
    for (line, input) in out.as_chunks_mut::<4>().0.iter_mut().zip(half.as_chunks::<4>().0) {
        *line = idct(*input).map(|value| value.wrapping_add(4) >> 3);
    }
    out
}

/// The DC coefficients of 16 blocks of luma out of the block that codes them.
pub(crate) fn inverse_wht(input: &[i16]) -> [i16; 16] {
    let Some(input) = input.first_chunk::<16>() else { return [0; 16] };
    let pass = |input: [i16; 4]| {
        let (a, b) = (input[0].wrapping_add(input[3]), input[1].wrapping_add(input[2]));
        let (c, d) = (input[1].wrapping_sub(input[2]), input[0].wrapping_sub(input[3]));
        [a.wrapping_add(b), c.wrapping_add(d), a.wrapping_sub(b), d.wrapping_sub(c)]
    };
    let mut half = [0; 16];
    for x in 0..4 {
        let column = pass([0, 4, 8, 12].map(|y| input[x + y]));
        for (y, value) in column.into_iter().enumerate() {
            half[4 * y + x] = value;
        }
    }
    let mut out = [0; 16];
    for (line, input) in out.as_chunks_mut::<4>().0.iter_mut().zip(half.as_chunks::<4>().0) {
        *line = pass(*input).map(|value| value.wrapping_add(3) >> 3);
    }
    out
}

fn add(sample: &mut u8, residue: i16) {
    *sample = (i32::from(*sample) + i32::from(residue)).clamp(0, 255) as u8;
}

/// Adds the residue of one block to 4×4 samples, and clears the coefficients.
pub(crate) fn add_block(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 16]) {
    let residue = inverse_dct(coefficients);
    for (line, residue) in dst.chunks_mut(stride).zip(residue.as_chunks::<4>().0) {
        for (sample, &value) in line.iter_mut().zip(residue) {
            add(sample, value);
        }
    }
    coefficients.fill(0);
}

/// Adds the residue of a block that has a DC coefficient alone, and clears it.
fn add_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 16]) {
    let value = coefficients[0].wrapping_add(4) >> 3;
    for line in dst.chunks_mut(stride).take(4) {
        for sample in line.iter_mut().take(4) {
            add(sample, value);
        }
    }
    coefficients[0] = 0;
}

fn four(
    dst: &mut [u8],
    stride: usize,
    coefficients: &mut [i16; 64],
    across: usize,
    one: fn(&mut [u8], usize, &mut [i16; 16]),
) {
    for (at, block) in coefficients.as_chunks_mut::<16>().0.iter_mut().enumerate() {
        one(&mut dst[at / across * 4 * stride + at % across * 4..], stride, block);
    }
}

/// Adds the residues of four blocks beside each other to 16×4 samples, and clears the coefficients.
pub(crate) fn add_four(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    four(dst, stride, coefficients, 4, add_block);
}

/// The same for four blocks that have DC coefficients alone.
pub(crate) fn add_four_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    four(dst, stride, coefficients, 4, add_dc);
}

/// Adds the residues of four blocks in a square to 8×8 samples, and clears the coefficients.
pub(crate) fn add_square(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    four(dst, stride, coefficients, 2, add_block);
}

/// The same for four blocks that have DC coefficients alone.
pub(crate) fn add_square_dc(dst: &mut [u8], stride: usize, coefficients: &mut [i16; 64]) {
    four(dst, stride, coefficients, 2, add_dc);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dc_coefficient_alone_is_the_same_by_both_ways() {
        for dc in [-32_768, -2000, -5, -4, 0, 3, 4, 900, 32_767] {
            let mut coefficients = [0; 64];
            coefficients[0] = dc;
            let (mut a, mut b) = ([100; 64], [100; 64]);
            add_four(&mut a, 16, &mut coefficients.clone());
            add_four_dc(&mut b, 16, &mut coefficients);
            assert_eq!(a, b, "{dc}");
            assert_eq!(coefficients, [0; 64]);
        }
    }

    #[test]
    fn the_transforms_spread_a_constant() {
        let mut input = [0; 16];
        input[0] = 80;
        assert_eq!(inverse_wht(&input), [10; 16]);
        assert_eq!(inverse_dct(&input), [10; 16]);
    }
}
