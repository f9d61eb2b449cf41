//! What frames lie in: pgroups as they came, or planes.

use glassline_io::pages::{Block, Pool};
use glassline_media::pixels::FrameUnpacker;
use glassline_media::{Layout, Memory, Picture, PixelFormat, Plane, Size, Time};
use glassline_transport::raw_video::Format;
use std::io;
use std::sync::Arc;

/// Memory for a number of frames.
pub(super) struct FramePool {
    pixels: PixelFormat,
    size: Size,
    /// One for each plane.
    planes: Vec<Pool>,
}

impl FramePool {
    /// For `count` frames of a format in that layout.
    ///
    /// # Errors
    /// As [`Pool::new`] has them.
    pub(super) fn new(format: &Format, layout: Layout, count: usize) -> io::Result<FramePool> {
        let pixels = match layout {
            Layout::Pgroups => format.pixels(),
            Layout::Planar => format.pixels().to_planar(),
        };
        let size = format.size();
        let planes = (0..pixels.planes()).map(|plane| Pool::new(plane_bytes(pixels, size, plane), count));
        Ok(FramePool { pixels, size, planes: planes.collect::<io::Result<_>>()? })
    }

    /// Frames without any bytes, as many as are wanted: what is written to them is gone.
    pub(super) fn of_nothing(format: &Format) -> FramePool {
        FramePool { pixels: format.pixels(), size: format.size(), planes: Vec::new() }
    }

    /// Whether its frames have bytes.
    pub(super) fn has_bytes(&self) -> bool {
        !self.planes.is_empty()
    }

    /// Memory for one more frame; `None` where all of it is held.
    pub(super) fn take(&self) -> Option<FrameMemory> {
        let mut blocks = [None, None, None];
        for (block, pool) in blocks.iter_mut().zip(&self.planes) {
            *block = Some(pool.take()?);
        }
        Some(FrameMemory { pixels: self.pixels, size: self.size, blocks })
    }

    /// Frames that are free.
    pub(super) fn free(&self) -> usize {
        self.planes.iter().map(Pool::free).min().unwrap_or(0)
    }

    /// All frames.
    pub(super) fn count(&self) -> usize {
        self.planes.iter().map(Pool::count).min().unwrap_or(0)
    }

    /// Whether all of it lies in huge pages.
    pub(super) fn is_huge(&self) -> bool {
        self.planes.iter().all(Pool::is_huge)
    }
}

fn plane_bytes(pixels: PixelFormat, size: Size, plane: usize) -> usize {
    let size = pixels.plane_size(size, plane);
    size.width as usize * size.height as usize * pixels.sample_bytes()
}

/// One frame's memory.
pub(super) struct FrameMemory {
    pixels: PixelFormat,
    size: Size,
    blocks: [Option<Block>; 3],
}

impl FrameMemory {
    /// The bytes of its pgroups; none where it has planes, or nothing.
    pub(super) fn packed_mut(&mut self) -> &mut [u8] {
        match (&mut self.blocks, self.pixels.layout) {
            ([Some(block), ..], Layout::Pgroups) => block.bytes_mut(),
            _ => &mut [],
        }
    }

    /// Writes whole pgroups of the frame, which begin at byte `at` of it; `unpacker` is there where it has planes.
    pub(super) fn write(&mut self, at: usize, bytes: &[u8], unpacker: Option<&mut FrameUnpacker>) {
        match unpacker {
            None if self.blocks[0].is_none() => {}
            None => self.packed_mut()[at..at + bytes.len()].copy_from_slice(bytes),
            Some(unpacker) => {
                let [luma, blue, red] = &mut self.blocks;
                unpacker.unpack(at, bytes, [bytes_of(luma), bytes_of(blue), bytes_of(red)]);
            }
        }
    }

    /// As a picture.
    pub(super) fn into_picture(self, captured: Time) -> Picture {
        let FrameMemory { pixels, size, blocks } = self;
        let sample_bytes = pixels.sample_bytes();
        let plane = |(index, block): (usize, Block)| {
            let plane = pixels.plane_size(size, index);
            Plane::lent(Arc::new(block), plane.width as usize * sample_bytes, plane, sample_bytes)
        };
        let planes = blocks.into_iter().flatten().enumerate().map(plane).collect();
        Picture::of_planes(pixels, size, planes, captured)
    }
}

fn bytes_of(block: &mut Option<Block>) -> &mut [u8] {
    block.as_mut().map_or(&mut [], Block::bytes_mut)
}

#[cfg(test)]
#[path = "memory_tests.rs"]
mod tests;
