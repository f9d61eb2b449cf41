//! How each macroblock is predicted: segment, skipping, reference, mode, vectors (RFC 6386 §10, §11, §16 and §19.3).

use super::bool_coder::BoolDecoder;
use super::frame::Geometry;
use super::header::FrameHeader;
use super::macroblock::{BMode, Macroblock, Mode, Reference};
use super::motion::{self, Bounds, Suggested};
use super::state::Probabilities;
use super::tables::modes::{B_MODE, KEY_B_MODE, KEY_UV_MODE, KEY_Y_MODE, MODE_CONTEXTS};
use super::vector::Vector;

/// The modes that predict a square block as a whole, which are all that chroma has.
pub(crate) const SQUARE_MODES: [Mode; 4] = [Mode::Dc, Mode::Vertical, Mode::Horizontal, Mode::TrueMotion];
/// The leaves of the trees of luma and chroma.
pub(crate) const Y_MODES: [Mode; 5] = [Mode::Dc, Mode::Vertical, Mode::Horizontal, Mode::TrueMotion, Mode::B];
/// The leaves of the tree of subblocks.
pub(crate) const B_MODES: [BMode; 10] = [
    BMode::Dc,
    BMode::TrueMotion,
    BMode::Vertical,
    BMode::Horizontal,
    BMode::LeftDown,
    BMode::RightDown,
    BMode::VerticalRight,
    BMode::VerticalLeft,
    BMode::HorizontalDown,
    BMode::HorizontalUp,
];

pub(crate) const Y_TREE: [i8; 8] = [0, 2, 4, 6, -1, -2, -3, -4];
pub(crate) const KEY_Y_TREE: [i8; 8] = [-4, 2, 4, 6, 0, -1, -2, -3];
pub(crate) const UV_TREE: [i8; 6] = [0, 2, -1, 4, -2, -3];
pub(crate) const B_TREE: [i8; 18] = [0, 2, -1, 4, -2, 6, 8, 12, -3, 10, -5, -6, -4, 14, -7, 16, -8, -9];
pub(crate) const SEGMENT_TREE: [i8; 6] = [2, 4, 0, -1, -2, -3];

/// Reads the macroblocks of a frame out of its first partition.
pub(crate) struct ModeReader<'a> {
    pub(crate) decoder: BoolDecoder<'a>,
    pub(crate) header: &'a FrameHeader,
    pub(crate) probs: &'a Probabilities,
    pub(crate) sign_bias: [bool; 2],
    pub(crate) geometry: Geometry,
}

impl ModeReader<'_> {
    /// Reads row `row` into `current`. Both slices begin with the macroblock outside of the picture's left edge.
    /// `segments` is the row of the segment map, which is written to where the frame updates it.
    #[inline(always)]
    pub(crate) fn parse_row(
        &mut self,
        row: usize,
        above: &[Macroblock],
        current: &mut [Macroblock],
        segments: &mut [u8],
    ) {
        // A copy that stays in registers.
        let mut decoder = self.decoder;
        for (column, segment) in segments.iter_mut().enumerate() {
            if self.header.update_segment_map {
                *segment = decoder.tree(&SEGMENT_TREE, &self.header.segment_probs);
            }
            let skipped = self.header.skip_prob.is_some_and(|prob| decoder.bool(prob));
            let [left, macroblock] = &mut current[column..column + 2] else { return };
            macroblock.segment = *segment;
            macroblock.skipped = skipped;
            let (above_left, above) = (&above[column], &above[column + 1]);
            if self.header.key {
                parse_key(&mut decoder, macroblock, above, left);
            } else if decoder.bool(self.header.intra_prob) {
                let bounds = Bounds::new(column, row, self.geometry.columns, self.geometry.rows);
                self.parse_inter(&mut decoder, macroblock, above, left, above_left, &bounds);
            } else {
                self.parse_intra(&mut decoder, macroblock);
            }
        }
        self.decoder = decoder;
    }

    #[inline(always)]
    fn parse_intra(&self, decoder: &mut BoolDecoder<'_>, macroblock: &mut Macroblock) {
        macroblock.reference = Reference::Intra;
        macroblock.vector = Vector::ZERO;
        macroblock.mode = Y_MODES[usize::from(decoder.tree(&Y_TREE, &self.probs.y_mode))];
        if macroblock.mode == Mode::B {
            for mode in &mut macroblock.b_modes {
                *mode = B_MODES[usize::from(decoder.tree(&B_TREE, &B_MODE))];
            }
        }
        macroblock.uv_mode = Y_MODES[usize::from(decoder.tree(&UV_TREE, &self.probs.uv_mode))];
    }

    #[inline(always)]
    fn parse_inter(
        &self,
        decoder: &mut BoolDecoder<'_>,
        macroblock: &mut Macroblock,
        above: &Macroblock,
        left: &Macroblock,
        above_left: &Macroblock,
        bounds: &Bounds,
    ) {
        macroblock.reference = if !decoder.bool(self.header.last_prob) {
            Reference::Last
        } else if !decoder.bool(self.header.golden_prob) {
            Reference::Golden
        } else {
            Reference::Altref
        };
        macroblock.uv_mode = Mode::Dc;
        let near = Suggested::new(macroblock.reference, above, left, above_left, self.sign_bias);
        let prob = |at: usize| MODE_CONTEXTS[near.contexts[at]][at];
        if !decoder.bool(prob(0)) {
            (macroblock.mode, macroblock.vector) = (Mode::Zero, Vector::ZERO);
        } else if !decoder.bool(prob(1)) {
            (macroblock.mode, macroblock.vector) = (Mode::Nearest, near.nearest(bounds));
        } else if !decoder.bool(prob(2)) {
            (macroblock.mode, macroblock.vector) = (Mode::Near, near.near(bounds));
        } else if !decoder.bool(prob(3)) {
            macroblock.mode = Mode::New;
            macroblock.vector = motion::new_vector(decoder, &self.probs.vector, near.best(bounds));
        } else {
            macroblock.mode = Mode::Split;
            motion::split(decoder, &self.probs.vector, macroblock, above, left, near.best(bounds));
        }
    }
}

/// A macroblock of a key frame.
#[inline(always)]
fn parse_key(
    decoder: &mut BoolDecoder<'_>,
    macroblock: &mut Macroblock,
    above: &Macroblock,
    left: &Macroblock,
) {
    macroblock.reference = Reference::Intra;
    macroblock.vector = Vector::ZERO;
    macroblock.mode = Y_MODES[usize::from(decoder.tree(&KEY_Y_TREE, &KEY_Y_MODE))];
    if macroblock.mode == Mode::B {
        for block in 0..16 {
            let on_top = if block < 4 { above.b_mode(block + 12) } else { macroblock.b_modes[block - 4] };
            let to_left = if block % 4 == 0 { left.b_mode(block + 3) } else { macroblock.b_modes[block - 1] };
            let probs = &KEY_B_MODE[on_top as usize][to_left as usize];
            macroblock.b_modes[block] = B_MODES[usize::from(decoder.tree(&B_TREE, probs))];
        }
    }
    macroblock.uv_mode = Y_MODES[usize::from(decoder.tree(&UV_TREE, &KEY_UV_MODE))];
}
