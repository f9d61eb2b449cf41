//! Files in which a cache keeps objects: what a disk may give back.

use glassline_delivery::fill::disk::{BLOCK_BYTES, FileHead, HEAD_BYTES_MAX};

/// Reads a file. Panics where what was read would be written otherwise, or does not have the length that its head tells.
pub fn run(data: &[u8]) {
    let begin = &data[..data.len().min(HEAD_BYTES_MAX)];
    let Ok((head, mut seal, mut at)) = FileHead::parse(begin, data.len() as u64) else { return };
    let (written, mut again) = head.write().expect("what was read can be written");
    assert_eq!(written, &data[..at]);
    assert_eq!(head.file_bytes(), data.len() as u64);
    let mut bytes = 0;
    while seal.sealed_bytes() > 0 {
        let sealed = &data[at..at + seal.sealed_bytes()];
        let Ok(block) = seal.next(sealed) else { return };
        assert!(block.len() <= BLOCK_BYTES);
        assert_eq!([&again.next(block)[..], block].concat(), sealed);
        bytes += block.len() as u64;
        at += sealed.len();
    }
    assert_eq!((bytes, at), (head.bytes, data.len()));
}
