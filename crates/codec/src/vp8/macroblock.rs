//! What is known of a macroblock before its coefficients: reference, modes, vectors (RFC 6386 §8, §16).

use super::vector::Vector;

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
