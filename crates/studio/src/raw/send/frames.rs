//! Pictures to frames as they go out: in the samples of the packets, and packed.

use super::{Error, Result};
use crate::capture::{Input, Length, Pictures};
use glassline_io::pages::{Block, Pool};
use glassline_media::pixels::{Expander, Packer};
use glassline_media::{Layout, Memory, Picture};
use glassline_transport::raw_video::Format;
use std::fs;

/// Frames that memory is allocated for at a time.
const CHUNK_FRAMES: usize = 16;

/// Makes frames of pictures.
#[derive(Debug)]
pub(super) struct FramePacker {
    format: Format,
    packer: Packer,
    expander: Expander,
}

impl FramePacker {
    /// To frames of `format`.
    pub(super) fn new(format: Format) -> FramePacker {
        FramePacker { format, packer: Packer::new(), expander: Expander::new(format.pixels()) }
    }

    /// Packs a picture, whichever samples it has. Cost: of converting it, where it has others, and of copying it once.
    pub(super) fn pack(&mut self, picture: Picture, block: &mut Block) {
        let picture =
            if picture.format() == self.format.pixels() { picture } else { self.expander.expand(picture) };
        let lines = block.bytes_mut()[..self.format.frame_bytes()].chunks_exact_mut(self.format.line_bytes());
        for (y, line) in lines.enumerate() {
            match picture.format().layout {
                Layout::Planar => self.packer.pack_line(&picture, y, line),
                Layout::Pgroups => line.copy_from_slice(picture.planes()[0].line(y)),
            }
        }
    }
}

/// The frames of `input`, packed, where they take no more than `memory_bytes`; `None` where they take more.
///
/// # Errors
/// The input's, and where there is no memory.
pub(super) fn keep(input: &Input, format: Format, memory_bytes: usize) -> Result<Option<Vec<Block>>> {
    let most = memory_bytes / format.frame_bytes().max(1);
    let mut pictures = Pictures::open_as_they_are(input, false, Length::default())?;
    // A file in planes tells its length; it is not read in vain.
    let size = pictures.pixels().packed_bytes(pictures.format().size);
    if let Input::File(path) = input
        && fs::metadata(path).is_ok_and(|file| file.len() / size.max(1) as u64 > most as u64)
    {
        return Ok(None);
    }
    let mut packer = FramePacker::new(format);
    let (mut blocks, mut pool) = (Vec::new(), None::<Pool>);
    let children = pictures.children();
    let kept = loop {
        let Some(picture) = pictures.next_picture()? else { break Some(blocks) };
        if blocks.len() == most {
            break None;
        }
        let mut block = match pool.as_ref().and_then(Pool::take) {
            Some(block) => block,
            None => {
                let count = CHUNK_FRAMES.min(most - blocks.len());
                let more =
                    Pool::new(format.frame_bytes(), count).map_err(Error::system("memory for frames"))?;
                let block = more.take();
                pool = Some(more);
                let Some(block) = block else { break None };
                block
            }
        };
        packer.pack(picture, &mut block);
        blocks.push(block);
    };
    if let Some(children) = children {
        children.end();
    }
    Ok(kept)
}

#[cfg(test)]
#[path = "frames_tests.rs"]
mod tests;
