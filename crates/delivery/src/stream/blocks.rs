//! What an upstream's Metacube blocks say of a mux that is not known: which of them is the header, and at which a viewer
//! may begin. A block is a record.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use glassline_media::container::split::{Error, HEADER_MAX_BYTES};
use serde::{Deserialize, Serialize};

/// A block, as its flags say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// What every viewer needs first; replaces the one before.
    Header,
    /// A viewer may begin with it.
    Join,
    /// No viewer may begin with it.
    Rest,
}

/// What is known of the present block.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Blocks {
    left: u64,
    /// The header so far, while its block comes.
    header: Option<Vec<u8>>,
}

/// What some bytes are.
pub(super) enum Part<'a> {
    /// A whole header.
    Header(Vec<u8>),
    /// Bytes of a record, and whether they are its last ones.
    Data(&'a [u8], bool),
}

impl Blocks {
    /// A block of `size` bytes begins. Of an empty header, what it is.
    pub(super) fn begin(&mut self, block: Block, size: u32) -> Result<Option<Part<'static>>, Error> {
        self.left = size.into();
        self.header = (block == Block::Header).then(Vec::new);
        if block != Block::Header {
            return Ok(None);
        }
        if size as usize > HEADER_MAX_BYTES {
            return Err(Error::HeaderTooLong { found: size.into() });
        }
        Ok(if size == 0 { self.header.take().map(Part::Header) } else { None })
    }

    /// Takes bytes off the front of `input`, which is not empty. `None` where all of it is part of a header that is not
    /// whole yet, or where no block has begun that they could belong to: then some of it is left.
    pub(super) fn take<'a>(&mut self, input: &mut &'a [u8]) -> Option<Part<'a>> {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        let (part, rest) = input.split_at(count);
        *input = rest;
        self.left = self.left.saturating_sub(count as u64);
        match &mut self.header {
            None if part.is_empty() => None,
            None => Some(Part::Data(part, self.left == 0)),
            Some(header) => {
                header.extend_from_slice(part);
                if self.left > 0 { None } else { self.header.take().map(Part::Header) }
            }
        }
    }
}
