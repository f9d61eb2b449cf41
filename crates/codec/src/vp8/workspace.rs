//! Memory that frames are decoded in, used again from frame to frame.

use super::frame::{Frame, Geometry, Unfinished};
use super::macroblock::Macroblock;
use super::reconstruct::TopLines;
use super::simd::encode::EncodeKernels;
use super::simd::{self, Kernels};
use super::tokens::Context;
use std::sync::Arc;

/// What decoding remembers of the row above, kept so that its memory need not be asked for again.
#[derive(Debug, Default)]
pub(crate) struct RowStore {
    pub(crate) above: Vec<Macroblock>,
    pub(crate) current: Vec<Macroblock>,
    pub(crate) contexts: Vec<Context>,
    pub(crate) top: TopLines,
}

/// With which kernels frames are worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum KernelChoice {
    /// The fastest that this processor runs.
    #[default]
    Best,
    /// Those that every processor runs.
    Portable,
}

/// Memory that decoding needs and that need not be asked of the system for every frame.
///
/// It keeps planes of frames that it has given out. Where nothing else refers to them any more – no state, no picture –
/// the next frame is decoded into them; a caller that keeps one state and drops it for the next one decodes in the same
/// few frames of memory for good. A workspace has no influence on any result.
#[derive(Debug, Default)]
pub struct Workspace {
    kernels: KernelChoice,
    given: Vec<[Arc<[u8]>; 3]>,
    pub(crate) rows: RowStore,
}

/// Frames that a workspace remembers: three references, one in the making, and some that are being shown.
const REMEMBERED_FRAMES: usize = 8;

impl Workspace {
    /// A workspace that holds nothing yet.
    pub fn new() -> Workspace {
        Workspace::default()
    }

    /// A workspace that decodes with the portable kernels alone, as on a processor without vector units that we know:
    /// the same bits, several times slower. For tests and measurements.
    pub fn portable() -> Workspace {
        Workspace { kernels: KernelChoice::Portable, ..Workspace::default() }
    }

    /// The kernels that work on its frames.
    pub(crate) fn kernels(&self) -> &'static Kernels {
        match self.kernels {
            KernelChoice::Best => Kernels::best(),
            KernelChoice::Portable => &simd::SCALAR,
        }
    }

    /// The kernels that encode with it.
    pub(crate) fn encode_kernels(&self) -> &'static EncodeKernels {
        match self.kernels {
            KernelChoice::Best => EncodeKernels::best(),
            KernelChoice::Portable => &simd::encode::SCALAR,
        }
    }

    /// A frame to be filled; its content is whatever an earlier one left.
    pub(crate) fn frame(&mut self, geometry: &Geometry) -> Unfinished {
        let fits =
            |planes: &[Arc<[u8]>; 3]| (0..3).all(|index| planes[index].len() == geometry.plane_bytes(index));
        let free = |planes: &mut [Arc<[u8]>; 3]| planes.iter_mut().all(|plane| Arc::get_mut(plane).is_some());
        if let Some(at) = self.given.iter_mut().position(|planes| fits(planes) && free(planes)) {
            return Unfinished { planes: self.given.swap_remove(at) };
        }
        let plane = |index| std::iter::repeat_n(0, geometry.plane_bytes(index)).collect();
        Unfinished { planes: [plane(0), plane(1), plane(2)] }
    }

    /// Keeps a reference to a frame's memory, to use it again when it is the only one left.
    pub(crate) fn remember(&mut self, frame: &Frame) {
        if self.given.len() == REMEMBERED_FRAMES {
            self.given.remove(0);
        }
        self.given.push(frame.planes.clone());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_portable_workspace_has_the_scalar_kernels_on_every_processor() {
        let workspace = Workspace::portable();
        assert_eq!((workspace.kernels().name, workspace.encode_kernels().name), ("scalar", "scalar"));
    }
}
