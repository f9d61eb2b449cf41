//! Bytes that wait for room in a socket.

use crate::wire::Wire;
use bytes::{Buf, Bytes};
use std::collections::VecDeque;
use std::io::{self, IoSlice};

/// Parts that are written by one call at most.
const RUNS_A_WRITE: usize = 16;

/// Bytes that wait, in parts.
#[derive(Debug, Default)]
pub struct Outgoing {
    parts: VecDeque<Bytes>,
    bytes: usize,
}

impl Outgoing {
    /// Puts `part` behind what waits.
    pub fn push(&mut self, part: impl Into<Bytes>) {
        let part = part.into();
        if !part.is_empty() {
            self.bytes += part.len();
            self.parts.push_back(part);
        }
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that wait.
    pub fn len(&self) -> usize {
        self.bytes
    }

    /// A copy of what waits, as one run of bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        self.parts.iter().flatten().copied().collect()
    }

    /// What waits, as one run of bytes.
    pub fn into_bytes(self) -> Vec<u8> {
        self.parts.into_iter().flatten().collect()
    }

    /// Gives back the memory of what has been written: for one that is seldom used, and of which there are very many.
    pub fn release(&mut self) {
        if self.parts.is_empty() {
            self.parts = VecDeque::new();
        }
    }

    /// Writes what fits. Returns whether all is written.
    pub fn flush(&mut self, wire: &mut Wire) -> io::Result<bool> {
        while !self.parts.is_empty() {
            let written = if let [part] = self.parts.make_contiguous() {
                wire.write(part)?
            } else {
                let mut runs = [IoSlice::new(&[]); RUNS_A_WRITE];
                let count = self.parts.len().min(RUNS_A_WRITE);
                for (run, part) in runs.iter_mut().zip(&self.parts) {
                    *run = IoSlice::new(part);
                }
                wire.write_vectored(&runs[..count])?
            };
            let Some(written) = written else { return Ok(false) };
            self.advance(written);
        }
        Ok(wire.flush()?.all)
    }

    /// The first `bytes` are written.
    fn advance(&mut self, mut bytes: usize) {
        self.bytes -= bytes;
        while let Some(part) = self.parts.front_mut()
            && bytes > 0
        {
            if bytes < part.len() {
                part.advance(bytes);
                return;
            }
            bytes -= part.len();
            self.parts.pop_front();
        }
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(bytes: Vec<u8>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        outgoing.push(bytes);
        outgoing
    }
}
