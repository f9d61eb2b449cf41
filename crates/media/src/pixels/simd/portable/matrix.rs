//! Three components to three others, in whole numbers.

use crate::pixels::matrix::Matrix;

pub(in super::super) fn matrix(matrix: &Matrix, from: [&[u8]; 3], to: [&mut [u8]; 3]) {
    matrix_inline(matrix, from, to);
}

/// Inlined, so that it is compiled once for each level.
#[inline(always)]
pub(in super::super) fn matrix_inline(matrix: &Matrix, from: [&[u8]; 3], to: [&mut [u8]; 3]) {
    for (row, out) in to.into_iter().enumerate() {
        match (matrix.from_bytes, matrix.to_bytes) {
            (1, 1) => component::<1, 1>(matrix, row, from, out),
            (1, _) => component::<1, 2>(matrix, row, from, out),
            (_, 1) => component::<2, 1>(matrix, row, from, out),
            _ => component::<2, 2>(matrix, row, from, out),
        }
    }
}

#[inline(always)]
fn component<const FROM: usize, const TO: usize>(
    matrix: &Matrix,
    row: usize,
    from: [&[u8]; 3],
    out: &mut [u8],
) {
    let Matrix { shift, max, .. } = *matrix;
    let (factors, added) = (matrix.factors[row], matrix.added[row]);
    let [one, two, three] = from.map(|line| line.as_chunks::<FROM>().0);
    // Little endian, of one byte or two.
    let sample =
        |bytes: [u8; FROM]| i32::from(bytes[0]) | if FROM > 1 { i32::from(bytes[FROM - 1]) << 8 } else { 0 };
    for (((one, two), three), out) in one.iter().zip(two).zip(three).zip(out.as_chunks_mut::<TO>().0) {
        // Only bits above the depth, which should not be, could make it wrap.
        let sum = factors[0]
            .wrapping_mul(sample(*one))
            .wrapping_add(factors[1].wrapping_mul(sample(*two)))
            .wrapping_add(factors[2].wrapping_mul(sample(*three)))
            .wrapping_add(added);
        let value = (sum >> shift).clamp(0, max);
        out[0] = value as u8;
        if TO > 1 {
            out[TO - 1] = (value >> 8) as u8;
        }
    }
}
