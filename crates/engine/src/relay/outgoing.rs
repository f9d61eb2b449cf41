//! Bytes that wait for room in a socket.

use bytes::Bytes;
use glassline_io::tcp::Connection;
use std::collections::VecDeque;
use std::io;

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    parts: VecDeque<Bytes>,
    bytes: usize,
}

impl Outgoing {
    pub(super) fn push(&mut self, part: impl Into<Bytes>) {
        let part = part.into();
        if !part.is_empty() {
            self.bytes += part.len();
            self.parts.push_back(part);
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Bytes that wait.
    pub(super) fn len(&self) -> usize {
        self.bytes
    }

    /// A copy of what waits, as one run of bytes.
    pub(super) fn to_bytes(&self) -> Vec<u8> {
        self.parts.iter().flatten().copied().collect()
    }

    /// What waits, as one run of bytes.
    pub(super) fn into_bytes(self) -> Vec<u8> {
        self.parts.into_iter().flatten().collect()
    }

    /// Writes what fits. Returns whether all is written.
    pub(super) fn flush(&mut self, connection: &Connection) -> io::Result<bool> {
        while let Some(part) = self.parts.front_mut() {
            let Some(written) = connection.write(part)? else { return Ok(false) };
            self.bytes -= written;
            if written == part.len() {
                self.parts.pop_front();
            } else {
                let _ = part.split_to(written);
            }
        }
        Ok(true)
    }
}

impl From<Vec<u8>> for Outgoing {
    fn from(bytes: Vec<u8>) -> Outgoing {
        let mut outgoing = Outgoing::default();
        outgoing.push(bytes);
        outgoing
    }
}
