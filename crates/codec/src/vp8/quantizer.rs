//! From quantiser indices to the factors that coefficients are multiplied with (RFC 6386 §9.6 and §14.1).

use super::header::Quantizer;
use super::state::Segmentation;

/// The highest quantiser index.
pub(crate) const MAX_INDEX: i32 = 127;

const DC: [i16; 128] = [
    4, 5, 6, 7, 8, 9, 10, 10, 11, 12, 13, 14, 15, 16, 17, 17, 18, 19, 20, 20, 21, 21, 22, 22, 23, 23, 24, 25,
    25, 26, 27, 28, 29, 30, 31, 32, 33, 34, 35, 36, 37, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 46, 47, 48,
    49, 50, 51, 52, 53, 54, 55, 56, 57, 58, 59, 60, 61, 62, 63, 64, 65, 66, 67, 68, 69, 70, 71, 72, 73, 74,
    75, 76, 76, 77, 78, 79, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 91, 93, 95, 96, 98, 100, 101, 102, 104,
    106, 108, 110, 112, 114, 116, 118, 122, 124, 126, 128, 130, 132, 134, 136, 138, 140, 143, 145, 148, 151,
    154, 157,
];

const AC: [i16; 128] = [
    4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31,
    32, 33, 34, 35, 36, 37, 38, 39, 40, 41, 42, 43, 44, 45, 46, 47, 48, 49, 50, 51, 52, 53, 54, 55, 56, 57,
    58, 60, 62, 64, 66, 68, 70, 72, 74, 76, 78, 80, 82, 84, 86, 88, 90, 92, 94, 96, 98, 100, 102, 104, 106,
    108, 110, 112, 114, 116, 119, 122, 125, 128, 131, 134, 137, 140, 143, 146, 149, 152, 155, 158, 161, 164,
    167, 170, 173, 177, 181, 185, 189, 193, 197, 201, 205, 209, 213, 217, 221, 225, 229, 234, 239, 245, 249,
    254, 259, 264, 269, 274, 279, 284,
];

/// The factor of luma's AC coefficients at quantiser index `index`, which stands for how coarse it is.
pub(crate) fn ac_factor(index: u8) -> i16 {
    AC[usize::from(index).min(MAX_INDEX as usize)]
}

/// Factors of DC and AC coefficients by kind of block.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Factors {
    pub(crate) y: [i16; 2],
    pub(crate) y2: [i16; 2],
    pub(crate) uv: [i16; 2],
}

impl Factors {
    /// The factors at quantiser index `index`, with a frame's offsets.
    pub(crate) fn new(index: i32, offsets: &Quantizer) -> Factors {
        let at = |offset: i8| (index + i32::from(offset)).clamp(0, MAX_INDEX) as usize;
        Factors {
            y: [DC[at(offsets.y_dc)], AC[at(0)]],
            y2: [DC[at(offsets.y2_dc)] * 2, (i32::from(AC[at(offsets.y2_ac)]) * 155 / 100).max(8) as i16],
            uv: [DC[at(offsets.uv_dc)].min(132), AC[at(offsets.uv_ac)]],
        }
    }

    /// The factors of each segment.
    pub(crate) fn of_segments(quantizer: &Quantizer, segmentation: &Segmentation) -> [Factors; 4] {
        let base = i32::from(quantizer.index);
        segmentation.quantizer.map(|value| {
            let index = match (segmentation.enabled, segmentation.absolute) {
                (false, _) => base,
                (true, true) => i32::from(value),
                (true, false) => base + i32::from(value),
            };
            Factors::new(index.clamp(0, MAX_INDEX), quantizer)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factors_follow_index_offsets_and_segment() {
        let lowest = Factors::new(0, &Quantizer::default());
        assert_eq!(lowest, Factors { y: [4, 4], y2: [8, 8], uv: [4, 4] });
        let highest = Factors::new(127, &Quantizer::default());
        assert_eq!(highest, Factors { y: [157, 284], y2: [314, 440], uv: [132, 284] });
        let quantizer = Quantizer { index: 10, y_dc: -15, ..Quantizer::default() };
        let mut segmentation =
            Segmentation { enabled: true, quantizer: [0, 120, -20, 5], ..Segmentation::default() };
        let factors = Factors::of_segments(&quantizer, &segmentation);
        assert_eq!(factors.map(|factors| factors.y[1]), [14, 284, 4, 19]);
        assert_eq!(factors[0].y[0], 4);
        segmentation.absolute = true;
        assert_eq!(Factors::of_segments(&quantizer, &segmentation)[3].y[1], 9);
        segmentation.enabled = false;
        assert_eq!(Factors::of_segments(&quantizer, &segmentation)[3].y[1], 14);
    }
}
