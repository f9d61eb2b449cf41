//! Takes blocks out of a byte stream, in any chop, and finds the next one behind garbage.

use super::{Flags, HEADER_BYTES, Metadata, SYNC, checksum};
use serde::{Deserialize, Serialize};

/// The next thing in a stream of blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A block begins; its bytes follow as [`Event::Data`]. Never metadata.
    Block {
        /// Its length in bytes.
        size: u32,
        /// What it is.
        flags: Flags,
    },
    /// Bytes of the block, never empty; borrowed.
    Data(&'a [u8]),
    /// A whole metadata block of a kind that is known.
    Metadata(Metadata),
}

/// Reads blocks. Holds 48 bytes at most, whatever comes.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Reader {
    held: [u8; HEADER_BYTES],
    held_bytes: usize,
    state: State,
    metadata: [u8; Metadata::MAX_BYTES],
    garbage_bytes: u64,
    garbage_run: u64,
    unknown_metadata: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
enum State {
    /// Gathers a header.
    #[default]
    Header,
    /// This many bytes of the block are still to come.
    Data(u32),
    /// The same of a metadata block of `size` bytes.
    Metadata { size: u32, left: u32 },
}

impl Reader {
    /// A reader before the first byte.
    pub fn new() -> Reader {
        Reader::default()
    }

    /// The next event at the front of `input`, which moves past it; `None` where all input is taken.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Option<Event<'a>> {
        loop {
            match self.state {
                State::Data(0) => self.state = State::Header,
                State::Metadata { size, left: 0 } => {
                    self.state = State::Header;
                    let payload = self.metadata.get(..size as usize);
                    match payload.and_then(Metadata::parse) {
                        Some(metadata) => return Some(Event::Metadata(metadata)),
                        None => self.unknown_metadata = self.unknown_metadata.saturating_add(1),
                    }
                }
                _ if input.is_empty() => return None,
                State::Data(left) => {
                    let (data, left) = take_of(input, left);
                    self.state = State::Data(left);
                    return Some(Event::Data(data));
                }
                State::Metadata { size, left } => {
                    let at = size.saturating_sub(left) as usize;
                    let (data, left) = take_of(input, left);
                    // What is longer than all that is known is read past.
                    if let Some(room) = self.metadata.get_mut(at..at.saturating_add(data.len())) {
                        room.copy_from_slice(data);
                    }
                    self.state = State::Metadata { size, left };
                }
                State::Header => {
                    if let Some(event) = self.take_header(input) {
                        return Some(event);
                    }
                }
            }
        }
    }

    /// Bytes dropped because they belonged to no block.
    pub fn garbage_bytes(&self) -> u64 {
        self.garbage_bytes
    }

    /// Bytes dropped since the last good header.
    pub fn garbage_run(&self) -> u64 {
        self.garbage_run
    }

    /// Metadata blocks passed over because their kind is not known.
    pub fn unknown_metadata(&self) -> u64 {
        self.unknown_metadata
    }

    /// Gathers a header; on a good one moves to its block.
    fn take_header(&mut self, input: &mut &[u8]) -> Option<Event<'static>> {
        if self.held_bytes == 0 {
            // Garbage is passed over in runs, not byte by byte.
            let begins = input.iter().position(|byte| *byte == SYNC[0]);
            let skipped = take(input, begins.unwrap_or(input.len()));
            self.count_garbage(skipped.len());
        }
        let room = self.held.get_mut(self.held_bytes..).unwrap_or_default();
        let part = take(input, room.len());
        room.iter_mut().zip(part).for_each(|(room, byte)| *room = *byte);
        self.held_bytes = self.held_bytes.saturating_add(part.len());
        self.keep_from(0);
        if self.held_bytes < HEADER_BYTES {
            return None;
        }
        let [.., size_0, size_1, size_2, size_3, flags_0, flags_1, sum_0, sum_1] = self.held;
        let size = u32::from_be_bytes([size_0, size_1, size_2, size_3]);
        let flags = Flags(u16::from_be_bytes([flags_0, flags_1]));
        if u16::from_be_bytes([sum_0, sum_1]) != checksum(size, flags) {
            // The next block may begin inside what looked like a header.
            self.keep_from(1);
            return None;
        }
        (self.held_bytes, self.garbage_run) = (0, 0);
        if flags.has(Flags::METADATA) {
            self.state = State::Metadata { size, left: size };
            None
        } else {
            self.state = State::Data(size);
            Some(Event::Block { size, flags })
        }
    }

    /// Drops the front of what is held up to the first place from `start` on where a header may begin.
    fn keep_from(&mut self, start: usize) {
        let held = &self.held[..self.held_bytes];
        let may_begin = |at: &usize| {
            let rest = &held[*at..];
            SYNC.starts_with(&rest[..rest.len().min(SYNC.len())])
        };
        let from = (start..held.len()).find(may_begin).unwrap_or(held.len());
        self.held.copy_within(from..self.held_bytes, 0);
        self.held_bytes = self.held_bytes.saturating_sub(from);
        self.count_garbage(from);
    }

    fn count_garbage(&mut self, bytes: usize) {
        self.garbage_bytes = self.garbage_bytes.saturating_add(bytes as u64);
        self.garbage_run = self.garbage_run.saturating_add(bytes as u64);
    }
}

/// Takes what is there of `left` bytes. Returns it, and how many are left.
fn take_of<'a>(input: &mut &'a [u8], left: u32) -> (&'a [u8], u32) {
    let data = take(input, usize::try_from(left).unwrap_or(usize::MAX));
    (data, u32::try_from(data.len()).map_or(0, |taken| left.saturating_sub(taken)))
}

fn take<'a>(input: &mut &'a [u8], at_most: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(at_most.min(input.len()));
    *input = rest;
    taken
}

#[cfg(test)]
mod tests {
    use super::super::{write_block, write_metadata};
    use super::*;
    use glassline_media::Utc;
    use proptest::collection::vec;
    use proptest::prelude::*;

    #[derive(Clone, Debug, PartialEq)]
    enum Block {
        Data(Vec<u8>, u16),
        Metadata(Metadata),
    }

    fn write(blocks: &[Block]) -> Vec<u8> {
        let mut wire = Vec::new();
        for block in blocks {
            match block {
                Block::Data(bytes, flags) => write_block(bytes, Flags(*flags), &mut wire),
                Block::Metadata(metadata) => write_metadata(*metadata, &mut wire),
            }
        }
        wire
    }

    fn read(reader: &mut Reader, wire: &[u8], cuts: &[usize]) -> Vec<Block> {
        let (mut blocks, mut rest, mut cuts) = (Vec::new(), wire, cuts.iter().cycle());
        while !rest.is_empty() {
            let (mut chop, tail) = rest.split_at((*cuts.next().expect("cycles")).min(rest.len()));
            rest = tail;
            while let Some(event) = reader.next(&mut chop) {
                match event {
                    Event::Block { flags, .. } => blocks.push(Block::Data(Vec::new(), flags.0)),
                    Event::Metadata(metadata) => blocks.push(Block::Metadata(metadata)),
                    Event::Data(data) => match blocks.last_mut() {
                        Some(Block::Data(bytes, _)) => bytes.extend_from_slice(data),
                        other => panic!("data after {other:?}"),
                    },
                }
            }
            assert!(chop.is_empty());
        }
        blocks
    }

    fn blocks() -> impl Strategy<Value = Vec<Block>> {
        let data = (vec(any::<u8>(), 1..400), prop_oneof![Just(0u16), Just(1), Just(2)]);
        let metadata = prop_oneof![
            any::<u64>().prop_map(|nanos| Metadata::EncoderTimestamp(Utc::from_nanos(nanos))),
            any::<(i64, u64, u64)>().prop_map(|(pts, timebase_num, timebase_den)| {
                Metadata::NextBlockPts { pts, timebase_num, timebase_den }
            }),
        ];
        vec(
            prop_oneof![
                data.prop_map(|(bytes, flags)| Block::Data(bytes, flags)),
                metadata.prop_map(Block::Metadata)
            ],
            0..12,
        )
    }

    proptest! {
        #[test]
        fn blocks_survive_any_chop(blocks in blocks(), cuts in vec(1usize..60, 1..30)) {
            let mut reader = Reader::new();
            prop_assert_eq!(read(&mut reader, &write(&blocks), &cuts), blocks);
            prop_assert_eq!(reader.garbage_bytes(), 0);
        }

        #[test]
        fn blocks_are_found_behind_garbage(
            garbage in vec(prop_oneof![Just(b'c'), Just(b'u'), any::<u8>()], 0..500),
            half in 0usize..16, blocks in blocks(), cuts in vec(1usize..60, 1..30),
        ) {
            // The garbage ends in the beginning of a header, whose fields the next header then spoils.
            let garbage = [&garbage[..], &super::super::header(7, Flags::NONE)[..half]].concat();
            let wire = [&garbage[..], &write(&blocks)].concat();
            let mut reader = Reader::new();
            let found = read(&mut reader, &wire, &cuts);
            prop_assume!(!garbage.windows(16).any(|part| part.starts_with(SYNC)));
            prop_assert_eq!(found, blocks.clone());
            if !blocks.is_empty() {
                prop_assert_eq!(reader.garbage_bytes(), garbage.len() as u64);
                prop_assert_eq!(reader.garbage_run(), 0);
            }
        }

        #[test]
        fn garbage_is_counted_and_never_panics(
            wire in vec(prop_oneof![4 => any::<u8>(), 1 => Just(b'c')], 0..3000), cuts in vec(1usize..200, 1..9),
        ) {
            let mut reader = Reader::new();
            read(&mut reader, &wire, &cuts);
            prop_assert_eq!(reader.garbage_bytes() + reader.held_bytes as u64, wire.len() as u64);
        }
    }

    #[test]
    fn a_flipped_bit_costs_one_block() {
        let first = Block::Data(vec![1; 50], 0);
        let (second, third) = (Block::Data(vec![2; 50], 2), Block::Data(vec![3; 50], 0));
        let mut wire = write(&[first.clone(), second, third.clone()]);
        wire[66 + 11] ^= 1;
        let mut reader = Reader::new();
        assert_eq!(read(&mut reader, &wire, &[1000]), [first, third]);
        assert_eq!(reader.garbage_bytes(), 66);
    }

    #[test]
    fn unknown_and_endless_metadata_is_read_past() {
        let mut wire = Vec::new();
        write_block(&[9; 8], Flags::METADATA, &mut wire);
        write_block(&[9; 5000], Flags::METADATA, &mut wire);
        write_block(&[], Flags::METADATA, &mut wire);
        let good = Block::Data(vec![1; 50], 0);
        wire.extend(write(std::slice::from_ref(&good)));
        let mut reader = Reader::new();
        assert_eq!(read(&mut reader, &wire, &[7]), [good]);
        assert_eq!((reader.unknown_metadata(), reader.garbage_bytes()), (2, 0));
    }
}
