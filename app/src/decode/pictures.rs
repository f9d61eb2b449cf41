//! The shown pictures of an IVF file, for callers that need nothing else from it.

use super::input::{Damage, Input};
use super::{Decoder, default_limits, undecodable};
use anyhow::{Context, Result};
use glassline_media::Picture;
use glassline_media::container::ivf_salvage::Found;

/// Gives the shown pictures of a file one by one.
pub(crate) struct Pictures {
    name: String,
    input: Input,
    decoder: Decoder,
    frames: u64,
}

impl Pictures {
    /// Opens a file, or standard input for `-`.
    pub(crate) fn open(name: &str) -> Result<Pictures> {
        let input = Input::open(name, Damage::Ends, false)?;
        Ok(Pictures { name: name.to_owned(), input, decoder: Decoder::new(default_limits()), frames: 0 })
    }

    /// The next shown picture; none at the end.
    pub(crate) fn next(&mut self) -> Result<Option<Picture>> {
        let reads = || format!("cannot decode {}", self.name);
        while let Some(found) = self.input.next().with_context(reads)? {
            let Found::Frame(frame) = found else { continue };
            let decoded = self.decoder.decode(&frame.bytes);
            let decoded = decoded.map_err(|error| undecodable(self.frames, &error)).with_context(reads)?;
            self.frames += 1;
            if decoded.picture.is_some() {
                return Ok(decoded.picture);
            }
        }
        Ok(None)
    }
}
