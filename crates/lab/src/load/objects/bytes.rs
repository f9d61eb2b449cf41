//! What objects consist of, and whether they are so.
//!
//! ```text
//! chunk: magic u64 │ object u64 │ chunk u64 │ available u64, ns │ check u64 │ a piece of the pattern …
//! ```
//! Numbers are little-endian. The pattern's pieces begin elsewhere in each chunk, so that a chunk in another one's place
//! is wrong in its body, too.

use super::Shape;
use glassline_media::Time;
use std::sync::Arc;

/// Bytes of a chunk's stamp; no chunk is shorter.
pub const STAMP_BYTES: usize = 40;
const MAGIC: u64 = u64::from_le_bytes(*b"GLSTAMP1");
/// Pieces of the pattern begin at one of so many places.
const PLACES: usize = 4093;

/// The pattern of which all objects are made. Copies share it.
#[derive(Clone, Debug)]
pub struct Bytes {
    pattern: Arc<[u8]>,
}

impl Bytes {
    /// For chunks and fixed objects of at most `most` bytes.
    pub fn new(most: usize) -> Bytes {
        let words = (most + PLACES).div_ceil(8) as u64;
        Bytes { pattern: (0..words).flat_map(|word| mix(word).to_le_bytes()).collect() }
    }

    /// An object of `bytes` that is no stamped one.
    ///
    /// # Panics
    /// Where it is larger than was promised.
    pub fn fixed(&self, bytes: usize) -> &[u8] {
        &self.pattern[..bytes]
    }

    /// Appends chunk `chunk` of object `number`, which became available at `now`.
    pub fn write(&self, shape: Shape, number: u64, chunk: u32, now: Time, out: &mut Vec<u8>) {
        out.extend_from_slice(&stamp(number, chunk, now));
        out.extend_from_slice(self.body(shape, number, chunk));
    }

    fn body(&self, shape: Shape, number: u64, chunk: u32) -> &[u8] {
        let place = (mix(number << 16 ^ u64::from(chunk)) % PLACES as u64) as usize;
        &self.pattern[place..place + shape.chunk_bytes - STAMP_BYTES]
    }
}

/// splitmix64's mixing step.
pub(super) fn mix(value: u64) -> u64 {
    let value = value.wrapping_add(0x9E37_79B9_7F4A_7C15);
    let mixed = (value ^ value >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    mixed ^ mixed >> 31
}

fn stamp(number: u64, chunk: u32, now: Time) -> [u8; STAMP_BYTES] {
    let words = [MAGIC, number, u64::from(chunk), now.as_nanos()];
    let check = words.iter().fold(0, |sum, word| mix(sum ^ word));
    let mut bytes = [0; STAMP_BYTES];
    for (place, word) in bytes.chunks_exact_mut(8).zip(words.into_iter().chain([check])) {
        place.copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// When the chunk of this stamp became available, where it is that of `chunk` of object `number`.
fn parse_stamp(bytes: &[u8; STAMP_BYTES], number: u64, chunk: u32) -> Option<Time> {
    let word = bytes[24..32].try_into().ok()?;
    let time = Time::from_nanos(u64::from_le_bytes(word));
    (stamp(number, chunk, time) == *bytes).then_some(time)
}

/// Reads one object as it comes.
#[derive(Clone, Debug)]
pub struct Reader {
    number: u64,
    position: usize,
    stamp: [u8; STAMP_BYTES],
    wrong_bytes: u64,
}

impl Reader {
    /// Before the first byte of object `number`.
    pub fn new(number: u64) -> Reader {
        Reader { number, position: 0, stamp: [0; STAMP_BYTES], wrong_bytes: 0 }
    }

    /// Bytes so far.
    pub fn position(&self) -> usize {
        self.position
    }

    /// Bytes so far that are not as they should be; a stamp is wrong as a whole.
    pub fn wrong_bytes(&self) -> u64 {
        self.wrong_bytes
    }

    /// Takes what comes next and calls `found` for each chunk that ends in it, with the time at which it became
    /// available, where its stamp is right.
    pub fn push(
        &mut self,
        bytes: &Bytes,
        shape: Shape,
        mut input: &[u8],
        found: &mut impl FnMut(Option<Time>),
    ) {
        while !input.is_empty() {
            let chunk = (self.position / shape.chunk_bytes) as u32;
            let within = self.position % shape.chunk_bytes;
            if chunk >= shape.chunks {
                self.wrong_bytes += input.len() as u64;
                self.position += input.len();
                return;
            }
            let end = if within < STAMP_BYTES { STAMP_BYTES } else { shape.chunk_bytes };
            let (piece, rest) = input.split_at(input.len().min(end - within));
            if within < STAMP_BYTES {
                self.stamp[within..within + piece.len()].copy_from_slice(piece);
                let is_whole = within + piece.len() == STAMP_BYTES;
                let is_wrong = is_whole && parse_stamp(&self.stamp, self.number, chunk).is_none();
                self.wrong_bytes += if is_wrong { STAMP_BYTES as u64 } else { 0 };
            } else {
                let from = within - STAMP_BYTES;
                let right = &bytes.body(shape, self.number, chunk)[from..from + piece.len()];
                if piece != right {
                    self.wrong_bytes +=
                        piece.iter().zip(right).filter(|(one, other)| one != other).count() as u64;
                }
            }
            self.position += piece.len();
            if self.position.is_multiple_of(shape.chunk_bytes) {
                found(parse_stamp(&self.stamp, self.number, chunk));
            }
            input = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::time::Duration;

    const SHAPE: Shape = Shape { chunks: 3, step: Duration::from_millis(10), chunk_bytes: 100 };

    fn object(bytes: &Bytes, number: u64) -> Vec<u8> {
        let mut out = Vec::new();
        (0..SHAPE.chunks)
            .for_each(|chunk| bytes.write(SHAPE, number, chunk, Time::from_millis(chunk.into()), &mut out));
        out
    }

    /// Wrong bytes, and the chunks that were told.
    fn read(number: u64, wire: &[u8], cut: usize) -> (u64, Vec<Option<Time>>) {
        let (bytes, mut reader, mut found) = (Bytes::new(100), Reader::new(number), Vec::new());
        let (first, second) = wire.split_at(cut.min(wire.len()));
        for piece in [first, second] {
            reader.push(&bytes, SHAPE, piece, &mut |time| found.push(time));
        }
        (reader.wrong_bytes(), found)
    }

    #[test]
    fn an_object_is_not_another_one() {
        let wire = object(&Bytes::new(100), 7);
        assert!(read(8, &wire, 0).0 > 250);
        let mut swapped = wire.clone();
        swapped.rotate_left(100);
        assert!(read(7, &swapped, 0).0 > 250, "chunks in another order");
    }

    proptest! {
        #[test]
        fn each_byte_and_each_chunk_is_seen(cut in 0usize..300, at in 0usize..300, bit in 0u8..8, more in 0usize..50) {
            let mut wire = object(&Bytes::new(100), 7);
            let times: Vec<_> = (0..3).map(|chunk| Some(Time::from_millis(chunk))).collect();
            prop_assert_eq!(read(7, &wire, cut), (0, times));
            wire[at] ^= 1 << bit;
            prop_assert!(read(7, &wire, cut).0 > 0);
            wire[at] ^= 1 << bit;
            wire.extend(vec![0; more]);
            prop_assert_eq!(read(7, &wire, cut).0, more as u64);
        }

        #[test]
        fn garbage_is_wrong_and_no_more(wire in proptest::collection::vec(any::<u8>(), 0..500), cut in 0usize..500) {
            let (wrong, found) = read(1, &wire, cut);
            prop_assert!(wrong <= wire.len() as u64 && found.iter().all(Option::is_none));
        }
    }
}
