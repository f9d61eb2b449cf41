//! A walk over elements, each a head of few bytes and a payload that is passed over, in any chop.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::boundary::{Error, HEADER_MAX_BYTES};
use serde::{Deserialize, Serialize};

/// Where a scanner is: in an element's head, which is gathered, or in its payload, which is passed over.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Walk {
    head: Vec<u8>,
    /// Bytes of the payload that are still to come.
    left: u64,
    position: u64,
    start: u64,
    /// The element's bytes so far, where they are wanted.
    kept: Option<Vec<u8>>,
}

impl Walk {
    /// Gathers the element's first `count` bytes; whether they are there. `count` may grow from call to call.
    pub(super) fn gather(&mut self, input: &mut &[u8], count: usize) -> bool {
        let lacking = count.saturating_sub(self.head.len());
        let (part, rest) = input.split_at(lacking.min(input.len()));
        self.head.extend_from_slice(part);
        self.position = self.position.saturating_add(part.len() as u64);
        *input = rest;
        part.len() == lacking
    }

    /// What was gathered.
    pub(super) fn head(&self) -> &[u8] {
        &self.head
    }

    /// Says that the element goes on for `bytes` behind what was gathered; `keep` asks for all of its bytes.
    pub(super) fn expect(&mut self, bytes: u64, keep: bool) -> Result<(), Error> {
        let all = bytes.saturating_add(self.head.len() as u64);
        if keep && all > HEADER_MAX_BYTES as u64 {
            return Err(Error::HeaderTooLong { found: all });
        }
        self.left = bytes;
        self.kept = keep.then(|| self.head.clone());
        Ok(())
    }

    /// Passes over the payload; whether all of it was there.
    pub(super) fn pass(&mut self, input: &mut &[u8]) -> bool {
        let count = usize::try_from(self.left).unwrap_or(usize::MAX).min(input.len());
        let (part, rest) = input.split_at(count);
        if let Some(kept) = &mut self.kept {
            kept.extend_from_slice(part);
        }
        self.left = self.left.saturating_sub(count as u64);
        self.position = self.position.saturating_add(count as u64);
        *input = rest;
        self.left == 0
    }

    /// The element is over, and the next one begins. Gives its bytes, where they were asked for.
    pub(super) fn next(&mut self) -> Option<Vec<u8>> {
        self.head.clear();
        self.start = self.position;
        self.kept.take()
    }

    /// The offset of the element's first byte.
    pub(super) fn start(&self) -> u64 {
        self.start
    }

    /// The offset behind all that was taken.
    pub(super) fn position(&self) -> u64 {
        self.position
    }
}
