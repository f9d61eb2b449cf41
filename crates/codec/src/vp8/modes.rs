//! How each macroblock is predicted: segment, skipping, reference, mode, vectors (RFC 6386 §10, §11, §16 and §19.3).

use super::bool_coder::BoolDecoder;
use super::frame::Geometry;
use super::header::FrameHeader;
use super::motion::{self, Bounds, Suggested, Vector};
use super::state::Probabilities;
use super::tables::modes::{B_MODE, KEY_B_MODE, KEY_UV_MODE, KEY_Y_MODE, MODE_CONTEXTS};

/// How the luma of a macroblock is predicted; the first four also serve for chroma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// The mean of the samples above and to the left.
    Dc,
    /// The line above.
    Vertical,
    /// The column to the left.
    Horizontal,
    /// Above plus left minus the corner.
    TrueMotion,
    /// 16 subblocks with modes of their own.
    B,
    /// Inter: no motion.
    Zero,
    /// Inter: the vector that weighs most among the neighbours'.
    Nearest,
    /// Inter: the second.
    Near,
    /// Inter: a vector of its own.
    New,
    /// Inter: pieces with vectors of their own.
    Split,
}

/// How a subblock of 4×4 is predicted, in the order of the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BMode {
    Dc,
    TrueMotion,
    Vertical,
    Horizontal,
    LeftDown,
    RightDown,
    VerticalRight,
    VerticalLeft,
    HorizontalDown,
    HorizontalUp,
}

/// What a macroblock is predicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reference {
    /// Its own picture.
    Intra,
    /// The last frame.
    Last,
    /// The golden frame.
    Golden,
    /// The alternative reference frame.
    Altref,
}

impl Reference {
    pub(crate) fn is_inter(self) -> bool {
        self != Reference::Intra
    }

    /// Whether vectors into it are mirrored.
    pub(crate) fn bias(self, sign_bias: [bool; 2]) -> bool {
        match self {
            Reference::Golden => sign_bias[0],
            Reference::Altref => sign_bias[1],
            Reference::Intra | Reference::Last => false,
        }
    }
}

/// Into which pieces a split macroblock is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Split {
    /// Two of 16×8.
    TopBottom,
    /// Two of 8×16.
    LeftRight,
    /// Four of 8×8.
    Quarters,
    /// Sixteen of 4×4.
    Sixteenths,
}

impl Split {
    /// The first subblock of each piece.
    pub(crate) fn first_blocks(self) -> &'static [u8] {
        match self {
            Split::TopBottom => &[0, 8],
            Split::LeftRight => &[0, 2],
            Split::Quarters => &[0, 2, 8, 10],
            Split::Sixteenths => &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15],
        }
    }

    /// Width and height of a piece in subblocks.
    pub(crate) fn blocks(self) -> (usize, usize) {
        match self {
            Split::TopBottom => (4, 2),
            Split::LeftRight => (2, 4),
            Split::Quarters => (2, 2),
            Split::Sixteenths => (1, 1),
        }
    }
}

/// What is known of a macroblock before its coefficients.
#[derive(Clone, Debug)]
pub(crate) struct Macroblock {
    pub(crate) mode: Mode,
    pub(crate) uv_mode: Mode,
    pub(crate) reference: Reference,
    pub(crate) segment: u8,
    /// Whether the stream says that it has no coefficients.
    pub(crate) skipped: bool,
    /// Whether it turned out to have coefficients.
    pub(crate) coded: bool,
    /// Of [`Mode::Split`] alone.
    pub(crate) split: Split,
    /// Zero where it is intra; of a split one the last piece's.
    pub(crate) vector: Vector,
    /// Of [`Mode::Split`] alone.
    pub(crate) vectors: [Vector; 16],
    /// Of [`Mode::B`] alone.
    pub(crate) b_modes: [BMode; 16],
}

impl Macroblock {
    /// What stands beyond the picture's left and upper edge.
    pub(crate) const OUTSIDE: Macroblock = Macroblock {
        mode: Mode::Dc,
        uv_mode: Mode::Dc,
        reference: Reference::Intra,
        segment: 0,
        skipped: false,
        coded: false,
        split: Split::Quarters,
        vector: Vector::ZERO,
        vectors: [Vector::ZERO; 16],
        b_modes: [BMode::Dc; 16],
    };

    /// Whether its luma's DC coefficients have a block of their own.
    pub(crate) fn has_y2(&self) -> bool {
        !matches!(self.mode, Mode::B | Mode::Split)
    }

    pub(crate) fn block_vector(&self, block: usize) -> Vector {
        if self.mode == Mode::Split { self.vectors[block] } else { self.vector }
    }

    /// The mode of a subblock as its neighbours in a key frame see it.
    pub(crate) fn b_mode(&self, block: usize) -> BMode {
        match self.mode {
            Mode::B => self.b_modes[block],
            Mode::Vertical => BMode::Vertical,
            Mode::Horizontal => BMode::Horizontal,
            Mode::TrueMotion => BMode::TrueMotion,
            _ => BMode::Dc,
        }
    }
}

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
