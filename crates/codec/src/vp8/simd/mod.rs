//! The inner loops, chosen by what the processor can do.
//!
//! Every kernel has a scalar reference, in safe code, beside the stage that it belongs to; vector versions give the
//! same bits, which `tests` checks for all of them. This module alone may use `unsafe`.

use super::loop_filter::{self, EdgeFilters};
use super::macroblock::Macroblock;
use super::modes::ModeReader;
use super::predict::inter;
use super::tokens::{self, ReadMacroblock};
use super::transform;

pub(crate) mod encode;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

/// [`ModeReader::parse_row`].
pub(crate) type ParseModes = fn(&mut ModeReader<'_>, usize, &[Macroblock], &mut [Macroblock], &mut [u8]);

/// Predicts a square block from a reference between whole samples. Arguments: the block's first sample and stride;
/// the reference from two samples above and left of the block on, and its stride; eighths of a sample across and
/// down, not both zero.
///
/// The reference is to hold the block with two samples before and three behind it in each direction, and three more
/// bytes.
pub(crate) type SubPel = fn(&mut [u8], usize, &[u8], usize, usize, usize);

/// As [`SubPel`] for blocks at the same place of two planes.
pub(crate) type SubPelTwo = fn([&mut [u8]; 2], usize, [&[u8]; 2], usize, usize, usize);

/// Copies a square block: its first sample and stride, the first sample and stride of what is copied.
pub(crate) type Copy = fn(&mut [u8], usize, &[u8], usize);

/// Adds the residue of coefficients to samples from the first sample on, and clears the coefficients.
pub(crate) type AddFour = fn(&mut [u8], usize, &mut [i16; 64]);

/// The kernels of one kind of processor.
#[derive(Debug)]
pub(crate) struct Kernels {
    /// For messages of tests.
    #[cfg_attr(
        not(any(test, feature = "bench")),
        allow(dead_code, reason = "tests name the kernels that differ")
    )]
    pub(crate) name: &'static str,
    pub(crate) parse_modes: ParseModes,
    /// Tokens of a macroblock.
    pub(crate) read_macroblock: ReadMacroblock,
    /// For blocks of 16, 8 and 4.
    pub(crate) copy: [Copy; 3],
    /// For blocks of 16, 8 and 4.
    pub(crate) six_tap: [SubPel; 3],
    /// For two blocks of 8, and two of 4.
    pub(crate) six_tap_two: [SubPelTwo; 2],
    /// For blocks of 16, 8 and 4.
    pub(crate) bilinear: [SubPel; 3],
    /// For two blocks of 8, and two of 4.
    pub(crate) bilinear_two: [SubPelTwo; 2],
    /// One block.
    pub(crate) add_block: fn(&mut [u8], usize, &mut [i16; 16]),
    /// Four blocks beside each other.
    pub(crate) add_four: AddFour,
    pub(crate) add_four_dc: AddFour,
    /// Four blocks in a square.
    pub(crate) add_square: AddFour,
    pub(crate) add_square_dc: AddFour,
    pub(crate) normal_filter: EdgeFilters,
    pub(crate) simple_filter: EdgeFilters,
}

/// What runs everywhere, and what the others are measured by.
pub(crate) static SCALAR: Kernels = Kernels {
    name: "scalar",
    parse_modes: |reader, row, above, current, segments| reader.parse_row(row, above, current, segments),
    read_macroblock: |decoder, probs, has_y2, factors, contexts, out| {
        tokens::macroblock(decoder, probs, has_y2, factors, contexts, out)
    },
    copy: [inter::copy::<16>, inter::copy::<8>, inter::copy::<4>],
    six_tap: [inter::six_tap::<16>, inter::six_tap::<8>, inter::six_tap::<4>],
    six_tap_two: [inter::six_tap_two::<8>, inter::six_tap_two::<4>],
    bilinear: [inter::bilinear::<16>, inter::bilinear::<8>, inter::bilinear::<4>],
    bilinear_two: [inter::bilinear_two::<8>, inter::bilinear_two::<4>],
    add_block: transform::add_block,
    add_four: transform::add_four,
    add_four_dc: transform::add_four_dc,
    add_square: transform::add_square,
    add_square_dc: transform::add_square_dc,
    normal_filter: loop_filter::NORMAL,
    simple_filter: loop_filter::SIMPLE,
};

impl Kernels {
    /// The fastest kernels that this processor runs.
    pub(crate) fn best() -> &'static Kernels {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = x86::kernels() {
            return kernels;
        }
        &SCALAR
    }

    /// All kernels that this processor runs, the scalar ones first.
    #[cfg(any(test, feature = "bench"))]
    pub(crate) fn all() -> Vec<&'static Kernels> {
        let best = Kernels::best();
        if std::ptr::eq(best, &SCALAR) { vec![&SCALAR] } else { vec![&SCALAR, best] }
    }
}
