//! A file of one object.
//!
//! ```text
//!  0  8  "GLOBJ", two zeros, version 1
//!  8  4  bytes of the head: where the first block begins
//! 12  8  bytes of the object
//! 20  8  when it came, nanoseconds of UTC
//! 28  8  how long it is fresh, milliseconds
//! 36  8  stale-while-revalidate, milliseconds
//! 44  8  stale-if-error, milliseconds
//! 52  4  bytes of the key
//! 56  4  bytes of the fields
//! 60     key, then the answer's fields as lines
//!    16  SHA-256 of all that, its first half
//!        blocks: 16 bytes of SHA-256 over (the head's digest, the block's number, its bytes), then up to 128 KiB of the object
//! ```
//! Numbers are big-endian. A block's digest covers the head's digest and the block's number, so that a block of another file,
//! or from another place, is refused. A reader checks each block before it hands on the block's first byte. The status is not
//! written: only answers of status 200 are kept.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::super::freshness::Freshness;
use super::super::head::Head;
use glassline_media::Utc;
use ring::digest::{Context, SHA256};
use std::time::Duration;
use thiserror::Error;

/// Bytes of the object in each block but the last one.
pub const BLOCK_BYTES: usize = 128 << 10;
/// Bytes of a block in the file, but of the last one.
pub const SEALED_BLOCK_BYTES: usize = BLOCK_BYTES + DIGEST_BYTES;
/// A longer head is not written, and not read.
pub const HEAD_BYTES_MAX: usize = 64 << 10;

const MAGIC: &[u8; 8] = b"GLOBJ\0\0\x01";
const FIXED_BYTES: usize = 60;
const DIGEST_BYTES: usize = 16;

type Digest = [u8; DIGEST_BYTES];

/// Why bytes are no file of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FileError {
    /// It begins otherwise.
    #[error("it is no file of an object, or one of another version")]
    Magic,
    /// It ends too early.
    #[error("it has {found} bytes where {wanted} have to be")]
    Short {
        /// Bytes that there are.
        found: u64,
        /// Bytes that have to be.
        wanted: u64,
    },
    /// It says of itself what cannot be.
    #[error("the lengths in its head do not fit together")]
    Lengths,
    /// Its bytes are other ones than were written.
    #[error("its bytes are not those that were written")]
    Digest,
    /// Its key or fields are no text.
    #[error("its key or its fields cannot be read")]
    Text,
}

/// What stands in a file before the object's bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileHead {
    /// What the object is kept under.
    pub key: String,
    /// When it came.
    pub came: Utc,
    /// What it was worth then.
    pub freshness: Freshness,
    /// What is said before the object's bytes; of status 200.
    pub head: Head,
    /// Bytes of the object.
    pub bytes: u64,
}

impl FileHead {
    /// The bytes at the file's begin, and what seals the blocks that follow; `None` where they would be too many.
    pub fn write(&self) -> Option<(Vec<u8>, Seal)> {
        let (key, fields) = (self.key.as_bytes(), self.head.lines().as_bytes());
        let head_bytes = head_length(key.len(), fields.len());
        if head_bytes > HEAD_BYTES_MAX {
            return None;
        }
        let length = |bytes: usize| Some(u32::try_from(bytes).ok()?.to_be_bytes());
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let Freshness { fresh, stale_while_revalidate, stale_if_error } = self.freshness;
        let mut out = Vec::with_capacity(head_bytes);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&length(head_bytes)?);
        let durations = [fresh, stale_while_revalidate, stale_if_error].map(millis);
        for number in [self.bytes, self.came.as_nanos()].into_iter().chain(durations) {
            out.extend_from_slice(&number.to_be_bytes());
        }
        for text in [key, fields] {
            out.extend_from_slice(&length(text.len())?);
        }
        out.extend_from_slice(key);
        out.extend_from_slice(fields);
        let digest = digest([&out[..]]);
        out.extend_from_slice(&digest);
        Some((out, Seal { file: digest, number: 0 }))
    }

    /// Reads the head of a file that begins with `bytes`, of which [`HEAD_BYTES_MAX`] are enough, and has `file_bytes` in
    /// all. Returns it, what opens the blocks, and where the first one begins.
    ///
    /// # Errors
    /// [`FileError`].
    pub fn parse(bytes: &[u8], file_bytes: u64) -> Result<(FileHead, OpenSeal, usize), FileError> {
        let fixed = bytes
            .get(..FIXED_BYTES)
            .ok_or(FileError::Short { found: bytes.len() as u64, wanted: FIXED_BYTES as u64 })?;
        if !fixed.starts_with(MAGIC) {
            return Err(FileError::Magic);
        }
        let [head_bytes, key_bytes, field_bytes] =
            [8, 52, 56].map(|at| usize::try_from(number::<4>(fixed, at)).unwrap_or(usize::MAX));
        let wanted = head_length(key_bytes, field_bytes);
        if head_bytes != wanted || wanted > HEAD_BYTES_MAX {
            return Err(FileError::Lengths);
        }
        let head = bytes
            .get(..head_bytes)
            .ok_or(FileError::Short { found: bytes.len() as u64, wanted: wanted as u64 })?;
        let (told, written) = head.split_last_chunk::<DIGEST_BYTES>().ok_or(FileError::Lengths)?;
        let digest = digest([told]);
        if digest != *written {
            return Err(FileError::Digest);
        }
        let [bytes, came, fresh, revalidate, error] = [12, 20, 28, 36, 44].map(|at| number::<8>(fixed, at));
        let wanted = file_length(head_bytes, bytes).ok_or(FileError::Lengths)?;
        if wanted != file_bytes {
            return Err(FileError::Short { found: file_bytes, wanted });
        }
        let text = |from: usize, to: usize| {
            told.get(from..to).and_then(|text| std::str::from_utf8(text).ok()).ok_or(FileError::Text)
        };
        let fields_at = FIXED_BYTES.saturating_add(key_bytes);
        let head = FileHead {
            key: text(FIXED_BYTES, fields_at)?.to_owned(),
            came: Utc::from_nanos(came),
            freshness: Freshness {
                fresh: Duration::from_millis(fresh),
                stale_while_revalidate: Duration::from_millis(revalidate),
                stale_if_error: Duration::from_millis(error),
            },
            head: Head::of_lines(200, text(fields_at, told.len())?).ok_or(FileError::Text)?,
            bytes,
        };
        Ok((head, OpenSeal { file: digest, number: 0, left: bytes }, head_bytes))
    }

    /// Bytes of the whole file.
    pub fn file_bytes(&self) -> u64 {
        let head = head_length(self.key.len(), self.head.lines().len());
        file_length(head, self.bytes).unwrap_or(u64::MAX)
    }

    /// What is left of its freshness `now`. Where it came later than `now`, the clock was set back and its age is not known:
    /// it then counts as old.
    pub fn left(&self, now: Utc) -> Freshness {
        match now.as_nanos().checked_sub(self.came.as_nanos()) {
            Some(age) => self.freshness.after(Duration::from_nanos(age)),
            None => Freshness::default(),
        }
    }
}

/// Seals the blocks of one file, in their order.
#[derive(Clone, Debug)]
pub struct Seal {
    file: Digest,
    number: u64,
}

impl Seal {
    /// What stands in front of the next block, [`BLOCK_BYTES`] of the object but for the last one.
    pub fn next(&mut self, block: &[u8]) -> [u8; DIGEST_BYTES] {
        let digest = digest([&self.file[..], &self.number.to_be_bytes(), block]);
        self.number = self.number.saturating_add(1);
        digest
    }
}

/// Opens the blocks of one file, in their order.
#[derive(Clone, Debug)]
pub struct OpenSeal {
    file: Digest,
    number: u64,
    /// Bytes of the object that are to come.
    left: u64,
}

impl OpenSeal {
    /// Bytes of the next block in the file; zero behind the last one.
    pub fn sealed_bytes(&self) -> usize {
        match self.left {
            0 => 0,
            left => {
                let block = usize::try_from(left).unwrap_or(usize::MAX).min(BLOCK_BYTES);
                DIGEST_BYTES.saturating_add(block)
            }
        }
    }

    /// The object's bytes in the next block, of which `sealed` are all the bytes in the file.
    ///
    /// # Errors
    /// [`FileError::Short`], [`FileError::Digest`].
    pub fn next<'a>(&mut self, sealed: &'a [u8]) -> Result<&'a [u8], FileError> {
        let wanted = self.sealed_bytes();
        let is_whole = sealed.len() == wanted && wanted > 0;
        let (told, block) = sealed
            .split_at_checked(DIGEST_BYTES)
            .filter(|_| is_whole)
            .ok_or(FileError::Short { found: sealed.len() as u64, wanted: wanted as u64 })?;
        if digest([&self.file[..], &self.number.to_be_bytes(), block]) != told {
            return Err(FileError::Digest);
        }
        self.number = self.number.saturating_add(1);
        self.left = self.left.saturating_sub(block.len() as u64);
        Ok(block)
    }
}

fn digest<const PARTS: usize>(parts: [&[u8]; PARTS]) -> Digest {
    let mut context = Context::new(&SHA256);
    parts.iter().for_each(|part| context.update(part));
    let mut half = Digest::default();
    half.copy_from_slice(&context.finish().as_ref()[..DIGEST_BYTES]);
    half
}

/// The big-endian number of `BYTES` bytes at `at`, which are there.
fn number<const BYTES: usize>(bytes: &[u8], at: usize) -> u64 {
    bytes[at..].iter().take(BYTES).fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// Bytes of a file's head, where its key and its fields have this many bytes.
fn head_length(key_bytes: usize, field_bytes: usize) -> usize {
    key_bytes.saturating_add(field_bytes).saturating_add(FIXED_BYTES + DIGEST_BYTES)
}

fn file_length(head_bytes: usize, bytes: u64) -> Option<u64> {
    let digests = bytes.div_ceil(BLOCK_BYTES as u64).checked_mul(DIGEST_BYTES as u64)?;
    bytes.checked_add(digests)?.checked_add(head_bytes as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn file_head(key: &str, bytes: u64) -> FileHead {
        let secs = Duration::from_secs;
        FileHead {
            key: key.to_owned(),
            came: Utc::from_nanos(7_000_000_000),
            freshness: Freshness {
                fresh: secs(60),
                stale_while_revalidate: secs(1),
                stale_if_error: secs(9),
            },
            head: Head::new("video/mp4").with("ETag", "\"1\""),
            bytes,
        }
    }

    fn write(head: &FileHead, body: &[u8]) -> Vec<u8> {
        let (mut file, mut seal) = head.write().unwrap();
        for block in body.chunks(BLOCK_BYTES) {
            file.extend_from_slice(&seal.next(block));
            file.extend_from_slice(block);
        }
        file
    }

    fn read(file: &[u8]) -> Result<(FileHead, Vec<u8>), FileError> {
        let (head, mut seal, mut at) = FileHead::parse(file, file.len() as u64)?;
        let mut body = Vec::new();
        while seal.sealed_bytes() > 0 {
            let end = (at + seal.sealed_bytes()).min(file.len());
            body.extend_from_slice(seal.next(&file[at..end])?);
            at = end;
        }
        Ok((head, body))
    }

    #[test]
    fn what_is_left_is_counted_from_when_it_came() {
        let head = file_head("/a", 0);
        let left = |secs: u64| head.left(Utc::from_nanos(secs * 1_000_000_000));
        assert_eq!((left(17).fresh.as_secs(), left(17).stale_if_error.as_secs()), (50, 9));
        assert_eq!((left(70).fresh.as_secs(), left(70).stale_if_error.as_secs()), (0, 6));
        assert_eq!(left(6), Freshness::default(), "the clock was set back");
    }

    #[test]
    fn a_head_that_is_too_long_is_not_written() {
        assert!(file_head(&"k".repeat(HEAD_BYTES_MAX), 0).write().is_none());
    }

    #[test]
    fn blocks_of_other_files_and_places_are_none() {
        let body = vec![7; BLOCK_BYTES * 2];
        let (one, other) =
            (write(&file_head("/a", body.len() as u64), &body), file_head("/b", body.len() as u64));
        let mut mixed = write(&other, &body);
        let at = mixed.len() - 2 * SEALED_BLOCK_BYTES;
        mixed[at..].copy_from_slice(&one[at..]);
        assert_eq!(read(&mixed), Err(FileError::Digest));
        let mut swapped = one.clone();
        swapped[at..].rotate_left(SEALED_BLOCK_BYTES);
        assert_eq!(read(&swapped), Err(FileError::Digest));
        assert!(read(&one).is_ok());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_as_the_same(
            key in "\\PC{0,60}",
            bytes in prop_oneof![Just(0usize), 1usize..4000, BLOCK_BYTES - 2..BLOCK_BYTES + 3, Just(3 * BLOCK_BYTES)],
            came: u64,
            lasts in prop::array::uniform3(any::<u32>()),
            value in "[ -~]{0,40}",
        ) {
            let [fresh, revalidate, error] = lasts.map(|millis| Duration::from_millis(millis.into()));
            let head = FileHead {
                key,
                came: Utc::from_nanos(came),
                freshness: Freshness { fresh, stale_while_revalidate: revalidate, stale_if_error: error },
                head: Head::of_status(200).with("X-Some", &value),
                bytes: bytes as u64,
            };
            let body: Vec<u8> = (0..bytes).map(|at| (at * 31 + at / 251) as u8).collect();
            let file = write(&head, &body);
            prop_assert_eq!(file.len() as u64, head.file_bytes());
            prop_assert_eq!(read(&file), Ok((head, body)));
        }

        /// Never is a file read that was cut, or in which a bit has changed.
        #[test]
        fn a_damaged_file_is_told(bytes in 0usize..2000, at: prop::sample::Index, bit in 0u8..8, cut: prop::sample::Index) {
            let body = vec![5; bytes];
            let file = write(&file_head("/live/a/1.m4s", bytes as u64), &body);
            let mut changed = file.clone();
            changed[at.index(file.len())] ^= 1 << bit;
            prop_assert!(read(&changed).is_err());
            prop_assert!(read(&file[..cut.index(file.len())]).is_err());
            prop_assert!(read(&[&file[..], &[0]].concat()).is_err());
        }

        #[test]
        fn garbage_is_refused(garbage in prop::collection::vec(any::<u8>(), 0..300), with_magic: bool) {
            let file = if with_magic { [&MAGIC[..], &garbage].concat() } else { garbage };
            prop_assert!(read(&file).is_err());
        }
    }
}
