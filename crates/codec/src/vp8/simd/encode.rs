//! The encoder's inner loops, chosen like the decoder's.
//!
//! Blocks are slices that begin at the block's first sample, with their strides. A slice that is too short for its
//! block is a panic at the kernel's edge; what lies beside the block has no influence and is not written.

use crate::vp8::bool_coder::BoolEncoder;
use crate::vp8::encode::denoise::filter::{self, Level};
use crate::vp8::encode::tokens::{self, Token};
use crate::vp8::forward;
use crate::vp8::measure;
use crate::vp8::predict::intra::{Edges, SubblockEdges};
use crate::vp8::quantize::{self, Steps};
use crate::vp8::tables::coefficients::CoefficientProbs;

/// A distance between two blocks: source and stride, reference and stride.
pub(crate) type Distance = fn(&[u8], usize, &[u8], usize) -> u32;

/// The same between one source and four places in a reference, each the index of its first sample.
pub(crate) type FourDistances = fn(&[u8], usize, &[u8], usize, [usize; 4]) -> [u32; 4];

/// A [`Distance`] to a reference between whole samples: eighths (0 to 7) across and down at the end. The reference is
/// to hold a line and a column more than the block.
pub(crate) type SubPelDistance = fn(&[u8], usize, &[u8], usize, usize, usize) -> u32;

/// [`tokens::write`].
pub(crate) type WriteTokens = fn(&mut BoolEncoder, &[Token], &CoefficientProbs);

/// [`filter::block`]: source, prediction and where it goes, each with its stride.
pub(crate) type DenoiseBlock = fn(&Level, (&[u8], usize), (&[u8], usize), (&mut [u8], usize)) -> u32;

/// Coefficients of source minus prediction: source and stride, prediction and stride; blocks in raster order.
pub(crate) type Forward<Blocks> = fn(&[u8], usize, &[u8], usize, &mut Blocks);

/// The encoder's kernels of one kind of processor. Arrays of five are by [`measure::Shape`].
#[derive(Debug)]
#[allow(clippy::type_complexity, reason = "a kernel's signature is best read where the kernel is described")]
pub(crate) struct EncodeKernels {
    /// For messages of tests and benches.
    #[cfg_attr(
        not(any(test, feature = "bench")),
        allow(dead_code, reason = "tests and benches name the kernels")
    )]
    pub(crate) name: &'static str,
    /// Sum of absolute differences.
    pub(crate) sad: [Distance; 5],
    pub(crate) sad_four: [FourDistances; 5],
    /// Sum of absolute differences after 4×4 Hadamard transforms, halved.
    pub(crate) satd: [Distance; 5],
    pub(crate) sub_pel_sad: [SubPelDistance; 5],
    pub(crate) sub_pel_satd: [SubPelDistance; 5],
    /// SATD of 16×16 and of 8×8 against [`SQUARE_MODES`](crate::vp8::modes::SQUARE_MODES).
    pub(crate) square_costs: [fn(&[u8], usize, &Edges<'_>) -> [u32; 4]; 2],
    /// SATD of 4×4 against [`B_MODES`](crate::vp8::modes::B_MODES).
    pub(crate) subblock_costs: fn(&[u8], usize, &SubblockEdges) -> [u32; 10],
    pub(crate) forward_block: Forward<[i16; 16]>,
    /// 16×16 samples.
    pub(crate) forward_luma: Forward<[[i16; 16]; 16]>,
    /// 8×8 samples.
    pub(crate) forward_chroma: Forward<[[i16; 16]; 4]>,
    pub(crate) forward_wht: fn(&[i16; 16]) -> [i16; 16],
    /// [`quantize::quantize`]: levels in zigzag order, then dequantised coefficients line by line.
    pub(crate) quantize: fn(&[i16; 16], &Steps, &mut [i16; 16], &mut [i16; 16]) -> usize,
    /// [`quantize::quantize_run`].
    pub(crate) quantize_run: fn(&[[i16; 16]], &Steps, &mut [[i16; 16]], &mut [[i16; 16]], &mut [u8]) -> bool,
    pub(crate) write_tokens: WriteTokens,
    /// Asks for so many lines, as far as they begin in the slice, to be brought into the cache: stride, lines.
    pub(crate) prefetch: fn(&[u8], usize, usize),
    pub(crate) denoise: DenoiseBlock,
    /// [`measure::plane_sse`].
    pub(crate) plane_sse: fn((&[u8], usize), (&[u8], usize), usize, usize) -> u64,
}

/// One function for each shape.
macro_rules! by_shape {
    ($function:path) => {{
        use $function as function;
        [function::<16, 16>, function::<16, 8>, function::<8, 16>, function::<8, 8>, function::<4, 4>]
    }};
}

/// What runs everywhere, and what the others are measured by.
pub(crate) static SCALAR: EncodeKernels = EncodeKernels {
    name: "scalar",
    sad: by_shape!(measure::sad),
    sad_four: by_shape!(measure::sad_four),
    satd: by_shape!(measure::satd),
    sub_pel_sad: by_shape!(measure::sub_pel_sad),
    sub_pel_satd: by_shape!(measure::sub_pel_satd),
    square_costs: [measure::square_costs::<16>, measure::square_costs::<8>],
    subblock_costs: measure::subblock_costs,
    forward_block: forward::forward_block,
    forward_luma: forward::forward_blocks::<16, 4>,
    forward_chroma: forward::forward_blocks::<4, 2>,
    forward_wht: forward::forward_wht,
    quantize: quantize::quantize,
    quantize_run: quantize::quantize_run,
    write_tokens: |encoder, tokens, probs| tokens::write(encoder, tokens, probs),
    prefetch: |_, _, _| {},
    denoise: filter::block,
    plane_sse: measure::plane_sse,
};

impl EncodeKernels {
    /// The fastest kernels that this processor runs.
    pub(crate) fn best() -> &'static EncodeKernels {
        #[cfg(target_arch = "x86_64")]
        if let Some(kernels) = super::x86::encode_kernels() {
            return kernels;
        }
        &SCALAR
    }

    /// All kernels that this processor runs, the scalar ones first.
    #[cfg(feature = "bench")]
    pub(crate) fn all() -> Vec<&'static EncodeKernels> {
        let best = EncodeKernels::best();
        if std::ptr::eq(best, &SCALAR) { vec![&SCALAR] } else { vec![&SCALAR, best] }
    }
}
