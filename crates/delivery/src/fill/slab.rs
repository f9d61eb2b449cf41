//! Memory that many small objects share.

use bytes::{Bytes, BytesMut};

/// Bytes of one slab. Two seconds of a small rendition fit; a slab is given back when the last object in it goes.
const SLAB_BYTES: usize = 256 << 10;

/// Gives out memory for bytes that stay as they are.
///
/// ```
/// let mut slab = glassline_delivery::fill::Slab::default();
/// let (one, other) = (slab.store(b"one"), slab.store(b"other"));
/// assert_eq!((&one[..], &other[..]), (&b"one"[..], &b"other"[..]));
/// ```
#[derive(Debug, Default)]
pub struct Slab {
    room: BytesMut,
}

impl Slab {
    /// A copy of `bytes` that never changes. What is larger than a slab has memory of its own.
    pub fn store(&mut self, bytes: &[u8]) -> Bytes {
        if bytes.len() > SLAB_BYTES / 2 {
            return Bytes::copy_from_slice(bytes);
        }
        if self.room.capacity() - self.room.len() < bytes.len() {
            self.room = BytesMut::with_capacity(SLAB_BYTES);
        }
        self.room.extend_from_slice(bytes);
        self.room.split().freeze()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_stored_stays_as_it_was() {
        let mut slab = Slab::default();
        let stored: Vec<_> = (0..2000u32).map(|n| slab.store(&vec![n as u8; n as usize])).collect();
        for (n, bytes) in stored.iter().enumerate() {
            assert!(bytes.len() == n && bytes.iter().all(|&byte| byte == n as u8), "{n}");
        }
    }

    #[test]
    fn small_ones_lie_end_to_end() {
        let mut slab = Slab::default();
        let (one, other) = (slab.store(&[1; 100]), slab.store(&[2; 100]));
        assert_eq!(one.as_ptr() as usize + 100, other.as_ptr() as usize);
        let large = slab.store(&vec![3; SLAB_BYTES]);
        assert_eq!(large.len(), SLAB_BYTES);
    }
}
