//! Messages in a row of bytes, each behind its length: for carriers that know no messages.

use bytes::{Buf, Bytes, BytesMut};
use std::collections::VecDeque;

/// What stands before a message of `size` bytes.
pub(crate) fn frame(size: usize) -> [u8; 4] {
    (size as u32).to_be_bytes()
}

/// Larger messages are put together in a buffer that serves for all of them, since whoever takes messages wants them
/// whole; an empty one tells that the last byte came.
const KEPT: usize = 1 << 18;

/// Finds the messages.
#[derive(Debug, Default)]
pub(crate) struct Row {
    /// The begin of a length or of a message.
    part: BytesMut,
    /// A large message,
    large: Vec<u8>,
    /// and how much of it is still to come.
    missing: usize,
}

impl Row {
    /// Takes the next bytes; what has become whole goes into `into`.
    pub(crate) fn push(&mut self, mut bytes: Bytes, into: &mut VecDeque<Bytes>) {
        while !bytes.is_empty() {
            if self.missing > 0 {
                let taken = self.missing.min(bytes.len());
                self.large.extend_from_slice(&bytes[..taken]);
                bytes.advance(taken);
                self.missing -= taken;
                if self.missing == 0 {
                    into.push_back(Bytes::new());
                }
                continue;
            }
            // Messages that lie whole in these bytes are not copied.
            if self.part.is_empty()
                && let Some(size) = length(&bytes)
                && size <= KEPT
                && bytes.len() >= 4 + size
            {
                bytes.advance(4);
                into.push_back(bytes.split_to(size));
                continue;
            }
            let wanted = length(&self.part).map_or(4, |size| 4 + size);
            let taken = (wanted - self.part.len()).min(bytes.len());
            self.part.extend_from_slice(&bytes.split_to(taken));
            let Some(size) = length(&self.part) else { continue };
            if size > KEPT {
                self.missing = size;
                self.large.clear();
                self.large.reserve(size);
                self.part.clear();
            } else if self.part.len() == 4 + size {
                into.push_back(self.part.split_off(4).freeze());
                self.part.clear();
            }
        }
    }
}

fn length(bytes: &[u8]) -> Option<usize> {
    bytes.first_chunk().map(|size| u32::from_be_bytes(*size) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_found_however_they_come() {
        let sizes = [0, 1, 300, KEPT, KEPT + 1, 3 * KEPT, 7];
        let row: Vec<u8> =
            sizes.iter().flat_map(|&size| frame(size).into_iter().chain(vec![size as u8; size])).collect();
        let expected: Vec<usize> = sizes.iter().map(|&size| if size > KEPT { 0 } else { size }).collect();
        for step in [1, 3, 5, 1000, row.len()] {
            let (mut reader, mut found) = (Row::default(), VecDeque::new());
            row.chunks(step).for_each(|part| reader.push(Bytes::copy_from_slice(part), &mut found));
            assert_eq!(found.iter().map(Bytes::len).collect::<Vec<_>>(), expected, "by {step} bytes");
            assert!(found.iter().all(|message| message.iter().all(|byte| *byte == message.len() as u8)));
        }
    }
}
