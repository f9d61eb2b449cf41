//! Pictures in datagrams, for carriers whose unreliable messages are no larger than a packet: the one that has begun is
//! finished, only the newest waits.
//!
//! ```text
//! number of the picture (4) | its size (4) | offset (4) | bytes
//! ```

use bytes::{BufMut, Bytes, BytesMut};
use std::collections::BTreeMap;

const HEAD: usize = 12;
/// The largest picture that is joined, bytes.
const LARGEST: usize = 1 << 24;

/// Cuts pictures.
#[derive(Debug, Default)]
pub(crate) struct Cutter {
    begun: Option<(u32, Bytes, usize)>,
    waiting: Option<Bytes>,
    next: u32,
}

impl Cutter {
    /// A new picture, in place of one that waits.
    pub(crate) fn replace(&mut self, picture: Bytes) {
        self.waiting = Some(picture);
    }

    pub(crate) fn has_more(&self) -> bool {
        self.begun.is_some() || self.waiting.is_some()
    }

    /// The next datagram, of at most `size` bytes.
    pub(crate) fn next(&mut self, size: usize) -> Option<Bytes> {
        if self.begun.is_none() {
            self.begun = Some((self.next, self.waiting.take()?, 0));
            self.next += 1;
        }
        let (number, picture, offset) = self.begun.as_mut()?;
        let length = (size - HEAD).min(picture.len() - *offset);
        let mut out = BytesMut::with_capacity(HEAD + length);
        out.put_u32(*number);
        out.put_u32(picture.len() as u32);
        out.put_u32(*offset as u32);
        out.extend_from_slice(&picture[*offset..*offset + length]);
        *offset += length;
        if *offset == picture.len() {
            self.begun = None;
        }
        Some(out.freeze())
    }
}

/// Joins them again.
#[derive(Debug, Default)]
pub(crate) struct Joiner {
    parts: BTreeMap<u32, (Vec<u8>, usize)>,
    /// Pictures before this number are too old.
    next: u32,
}

impl Joiner {
    /// Takes a datagram; gives the picture that it completes.
    pub(crate) fn push(&mut self, datagram: Bytes) -> Option<Bytes> {
        let field = |at: usize| {
            datagram.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_be_bytes)
        };
        let (number, size, offset) = (field(0)?, field(4)? as usize, field(8)? as usize);
        if number < self.next || size > LARGEST {
            return None;
        }
        let (picture, have) = self.parts.entry(number).or_insert_with(|| (vec![0; size], 0));
        let bytes = &datagram[HEAD..];
        picture.get_mut(offset..offset + bytes.len())?.copy_from_slice(bytes);
        *have += bytes.len();
        if *have < picture.len() {
            return None;
        }
        let (picture, _) = self.parts.remove(&number)?;
        self.next = number + 1;
        self.parts = self.parts.split_off(&self.next);
        Some(picture.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pictures_come_whole_and_the_newest_waits() {
        let (mut cutter, mut joiner) = (Cutter::default(), Joiner::default());
        cutter.replace(vec![1; 100].into());
        let first = cutter.next(50).unwrap();
        assert_eq!(first.len(), 50);
        assert_eq!(joiner.push(first), None);
        cutter.replace(vec![2; 10].into());
        cutter.replace(vec![3; 10].into());
        let rest: Vec<Bytes> =
            std::iter::from_fn(|| cutter.next(50)).filter_map(|part| joiner.push(part)).collect();
        assert_eq!(rest, [Bytes::from(vec![1; 100]), Bytes::from(vec![3; 10])]);
        assert!(!cutter.has_more());
        let strange = Bytes::from_static(&[0; 5]);
        assert_eq!(joiner.push(strange), None);
    }
}
