//! What a picture is encoded from and with.

use super::Request;
use super::parallel::Parallel;
use super::source::Source;
use crate::vp8::frame::Geometry;
use crate::vp8::macroblock::Reference;
use crate::vp8::simd::Kernels;
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::state::Inner;

/// What all encodings of one picture have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Task<'a> {
    pub(crate) geometry: Geometry,
    pub(crate) source: Source<'a>,
    /// What is predicted from, unless it is a key frame.
    pub(crate) inner: Option<&'a Inner>,
    pub(crate) references: &'a [Reference],
    pub(crate) key: bool,
    pub(crate) request: &'a Request,
    pub(crate) parallel: &'a dyn Parallel,
    pub(crate) kernels: &'static Kernels,
    pub(crate) encode_kernels: &'static EncodeKernels,
}
