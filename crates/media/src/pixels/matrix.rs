//! Between RGB and luma with colour differences (ITU-R BT.601 §2.5, BT.709 §3, BT.2020 table 4), in whole numbers.
//!
//! A matrix takes samples of one depth to another, over all code values or the limited range on either side, and rounds once. Depth
//! and fraction of a coefficient take 29 bits together, so that all sums stay within 32.

/// Bits of a sample and of its coefficient's fraction together.
const BITS: u32 = 29;

/// Depth and range of samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Codes {
    /// Bits a sample, 8 to 16.
    pub(crate) depth_bits: u8,
    /// See [`Colour::full_range`].
    pub(crate) is_full: bool,
}

/// What the code values of a component mean: its value 0 stands at `zero`, and 1 that much higher.
#[derive(Clone, Copy, Debug)]
struct Scale {
    zero: i32,
    one: i32,
}

impl Codes {
    fn max(self) -> i32 {
        (1 << self.depth_bits) - 1
    }

    /// Of luma, red, green and blue.
    fn luma(self) -> Scale {
        let shift = self.depth_bits - 8;
        if self.is_full {
            Scale { zero: 0, one: self.max() }
        } else {
            Scale { zero: 16 << shift, one: 219 << shift }
        }
    }

    /// Of colour differences, which run from −½ to ½.
    fn chroma(self) -> Scale {
        let shift = self.depth_bits - 8;
        Scale { zero: 128 << shift, one: if self.is_full { self.max() } else { 224 << shift } }
    }
}

/// Three components to three others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Matrix {
    /// A row for each component that comes out.
    pub(crate) factors: [[i32; 3]; 3],
    /// What is added to a row's sum, with the half for rounding.
    pub(crate) added: [i32; 3],
    /// By how much it is shifted right then.
    pub(crate) shift: u32,
    /// The largest value that comes out.
    pub(crate) max: i32,
    /// Bytes of a sample that goes in.
    pub(crate) from_bytes: usize,
    /// Bytes of a sample that comes out.
    pub(crate) to_bytes: usize,
}

/// The shares of red, green and blue in luma.
fn shares(code_point: u8) -> [f64; 3] {
    let (red, blue) = match code_point {
        4 => (0.30, 0.11),
        5 | 6 => (0.299, 0.114),
        7 => (0.212, 0.087),
        // Constant luminance (10) is no matrix; this one is the nearest.
        9 | 10 => (0.2627, 0.0593),
        _ => (0.2126, 0.0722),
    };
    [red, 1.0 - red - blue, blue]
}

impl Matrix {
    /// RGB to luma, Cb and Cr. What is grey stays without colour.
    pub(super) fn to_ycbcr(code_point: u8, from: Codes, to: Codes) -> Matrix {
        let [red, green, blue] = shares(code_point);
        let difference = |component: usize, share: f64| {
            let mut row = [-red, -green, -blue];
            row[component] += 1.0;
            row.map(|factor| factor / (2.0 * (1.0 - share)))
        };
        let rows = [[red, green, blue], difference(2, blue), difference(0, red)];
        let (inputs, outputs) = ([from.luma(); 3], [to.luma(), to.chroma(), to.chroma()]);
        Matrix::new(rows, (from, inputs), (to, outputs))
    }

    /// Luma, Cb and Cr to RGB.
    pub(super) fn to_rgb(code_point: u8, from: Codes, to: Codes) -> Matrix {
        let [red, green, blue] = shares(code_point);
        let (of_blue, of_red) = (2.0 * (1.0 - blue), 2.0 * (1.0 - red));
        let rows =
            [[1.0, 0.0, of_red], [1.0, -of_blue * blue / green, -of_red * red / green], [1.0, of_blue, 0.0]];
        let (inputs, outputs) = ([from.luma(), from.chroma(), from.chroma()], [to.luma(); 3]);
        Matrix::new(rows, (from, inputs), (to, outputs))
    }

    fn new(
        rows: [[f64; 3]; 3],
        (from, inputs): (Codes, [Scale; 3]),
        (to, outputs): (Codes, [Scale; 3]),
    ) -> Matrix {
        let shift = BITS - u32::from(to.depth_bits);
        let bytes = |codes: Codes| if codes.depth_bits > 8 { 2 } else { 1 };
        let (from_bytes, to_bytes) = (bytes(from), bytes(to));
        let (factors, added) = ([[0; 3]; 3], [0; 3]);
        let mut matrix = Matrix { factors, added, shift, max: to.max(), from_bytes, to_bytes };
        for (index, (row, output)) in rows.into_iter().zip(outputs).enumerate() {
            let whole = |factor: f64, one: i32| {
                (factor * f64::from(output.one) / f64::from(one) * f64::from(1u32 << shift)).round() as i32
            };
            let mut factors = [0, 1, 2].map(|column| whole(row[column], inputs[column].one));
            // Where all that goes in is of one kind, rounding must not make grey coloured, nor white grey: green makes it good.
            if inputs[0].one == inputs[1].one && inputs[0].zero == inputs[1].zero {
                let sum = whole(row.iter().sum::<f64>().round(), inputs[0].one);
                factors[1] = sum - factors[0] - factors[2];
            }
            let zeros: i32 = factors.iter().zip(inputs).map(|(factor, input)| factor * input.zero).sum();
            matrix.factors[index] = factors;
            matrix.added[index] = (output.zero << shift) + (1 << (shift - 1)) - zeros;
        }
        matrix
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::picture::{Colour, Size};
    use crate::pixels::Simd;
    use proptest::prelude::*;

    const CODE_POINTS: [u8; 5] = [1, 4, 6, 7, 9];

    fn applied(matrix: &Matrix, samples: [u16; 3]) -> [u16; 3] {
        let from = samples.map(|sample| sample.to_le_bytes());
        let mut to = [[0; 2]; 3];
        let [one, two, three] = &mut to;
        let to_bytes = matrix.to_bytes;
        let out = [&mut one[..to_bytes], &mut two[..to_bytes], &mut three[..to_bytes]];
        Simd::PORTABLE.matrix(matrix, from.each_ref().map(|sample| &sample[..matrix.from_bytes]), out);
        to.map(u16::from_le_bytes)
    }

    /// By the formulas of the standards, in floating point: R, G and B from 0 to 1 to luma from 0 to 1 and differences from −½ to ½.
    fn textbook([red, green, blue]: [f64; 3], code_point: u8) -> [f64; 3] {
        let [of_red, of_green, of_blue] = shares(code_point);
        let luma = of_red * red + of_green * green + of_blue * blue;
        [luma, (blue - luma) / (2.0 - 2.0 * of_blue), (red - luma) / (2.0 - 2.0 * of_red)]
    }

    #[test]
    fn the_matrix_is_that_of_the_colour_or_of_the_size() {
        let size = |width, height| Size::new(width, height).unwrap();
        let of = |matrix, primaries| Colour { matrix, primaries, ..Colour::UNSPECIFIED };
        assert_eq!(of(2, 2).matrix_of(size(720, 576)), 6);
        assert_eq!(of(2, 2).matrix_of(size(1280, 720)), 1);
        assert_eq!(of(0, 9).matrix_of(size(1280, 720)), 9);
        assert_eq!(of(6, 1).matrix_of(size(1280, 720)), 6);
        assert_eq!(of(0, 1).matrix_of(size(320, 180)), 1);
    }

    #[test]
    fn colour_bars_are_those_of_television() {
        // BT.709 in 8 bits, of red, green and blue at 100 %.
        let full = Codes { depth_bits: 8, is_full: true };
        let limited = Codes { depth_bits: 8, is_full: false };
        let (to, back) = (Matrix::to_ycbcr(1, full, limited), Matrix::to_rgb(1, limited, full));
        for (rgb, ycbcr) in [
            ([0, 0, 0], [16, 128, 128]),
            ([255, 255, 255], [235, 128, 128]),
            ([255, 0, 0], [63, 102, 240]),
            ([0, 255, 0], [173, 42, 26]),
            ([0, 0, 255], [32, 240, 118]),
        ] {
            assert_eq!(applied(&to, rgb), ycbcr);
            let near = applied(&back, ycbcr).into_iter().zip(rgb).all(|(a, b)| a.abs_diff(b) <= 2);
            assert!(near, "{ycbcr:?} {:?}", applied(&back, ycbcr));
        }
        assert_eq!(applied(&back, [0, 128, 128]), [0; 3], "what is below black is black");
        assert_eq!(applied(&back, [255, 128, 128]), [255; 3]);
    }

    proptest! {
        #[test]
        fn it_is_the_textbooks(
            code_point in proptest::sample::select(&CODE_POINTS[..]),
            (from_bits, to_bits) in (8u8..=16, 8u8..=16),
            is_full: bool,
            is_full_out: bool,
            noise: [u16; 3],
        ) {
            let from = Codes { depth_bits: from_bits, is_full };
            let to = Codes { depth_bits: to_bits, is_full: is_full_out };
            let samples = noise.map(|sample| sample >> (16 - from_bits));
            let value = |sample: u16, scale: Scale| {
                (f64::from(sample) - f64::from(scale.zero)) / f64::from(scale.one)
            };
            let code = |value: f64, scale: Scale| {
                (f64::from(scale.zero) + value * f64::from(scale.one)).clamp(0.0, f64::from(to.max()))
            };
            // Of deep samples that come from deep ones, coefficients have fewer bits than the result.
            let slack = 0.51 + f64::from(1u32 << to_bits) * f64::from(1u32 << from_bits) / f64::from(1u32 << 29);
            let found = applied(&Matrix::to_ycbcr(code_point, from, to), samples);
            let expected = textbook(samples.map(|sample| value(sample, from.luma())), code_point);
            for ((found, expected), scale) in found.into_iter().zip(expected).zip([to.luma(), to.chroma(), to.chroma()]) {
                prop_assert!((f64::from(found) - code(expected, scale)).abs() < slack, "{found} {}", code(expected, scale));
            }
            let found = applied(&Matrix::to_rgb(code_point, from, to), samples);
            let [of_red, of_green, of_blue] = shares(code_point);
            let [luma, blue, red] = [
                value(samples[0], from.luma()), value(samples[1], from.chroma()), value(samples[2], from.chroma()),
            ];
            let (red, blue) = (luma + (2.0 - 2.0 * of_red) * red, luma + (2.0 - 2.0 * of_blue) * blue);
            let green = (luma - of_red * red - of_blue * blue) / of_green;
            for (found, expected) in found.into_iter().zip([red, green, blue]) {
                let expected = code(expected, to.luma());
                prop_assert!((f64::from(found) - expected).abs() < slack, "{found} {expected}");
            }
        }

        #[test]
        fn grey_has_no_colour(
            code_point in proptest::sample::select(&CODE_POINTS[..]),
            (from_bits, to_bits) in (8u8..=16, 8u8..=16),
            is_full: bool,
            noise: u16,
        ) {
            let from = Codes { depth_bits: from_bits, is_full };
            let to = Codes { depth_bits: to_bits, is_full: false };
            let found = applied(&Matrix::to_ycbcr(code_point, from, to), [noise >> (16 - from_bits); 3]);
            prop_assert_eq!(found[1..].to_vec(), vec![128u16 << (to_bits - 8); 2]);
            let white = from.luma().zero + from.luma().one;
            let found = applied(&Matrix::to_ycbcr(code_point, from, to), [white as u16; 3]);
            let slack = if from_bits + to_bits <= 28 { 0 } else { 1 << (from_bits + to_bits - 29) };
            prop_assert!(found[0].abs_diff(235 << (to_bits - 8)) <= slack, "{found:?}");
        }
    }
}
