//! A viewer that wants its stream in Metacube2 blocks: another relay.
//!
//! The bytes of a block come from the spool as they do for everyone; only headers are put between. What a header has
//! promised is kept: a viewer of MPEG-TS that loses its place inside a block gets the rest of it filled with null
//! packets; one of another mux gets to the block's end, or its connection is ended.

use glassline_delivery::metacube::{Flags, HEADER_BYTES, header, write_block};
use glassline_media::container::ts::{NULL_PID, PACKET_BYTES, SYNC_BYTE};
use serde::{Deserialize, Serialize};

/// The longest block, in bytes. At most this much filling is made, and kept for a viewer with a full socket.
const BLOCK_BYTES: u64 = 348 * PACKET_BYTES as u64;

/// Where a viewer is in its blocks. Offsets are the stream's.
#[derive(Clone, Copy, Debug, Default, Serialize, Deserialize)]
pub(super) struct Blocks {
    /// Where the present block ends; no block has begun where the viewer is there or beyond.
    end: u64,
    /// The key frame at which the viewer entered.
    entered_at: Option<u64>,
}

impl Blocks {
    /// The viewer goes on at `offset`, a key frame. Returns the block that is sent before, which holds `prelude`:
    /// marked as the header that every viewer needs first, or, where the viewer is `moved`, as a part of the stream
    /// that announces the seam. Empty where there is no prelude.
    pub(super) fn enter(&mut self, offset: u64, prelude: &[u8], moved: bool) -> Vec<u8> {
        (self.end, self.entered_at) = (offset, Some(offset));
        if prelude.is_empty() {
            return Vec::new();
        }
        let mut block = Vec::with_capacity(HEADER_BYTES + prelude.len());
        let flags = if moved { Flags::NOT_SUITABLE_FOR_STREAM_START } else { Flags::HEADER };
        write_block(prelude, flags, &mut block);
        block
    }

    /// Whether the next block has to begin before the byte at `offset` is sent.
    pub(super) fn is_between(&self, offset: u64) -> bool {
        offset >= self.end
    }

    /// Begins a block at `offset`, where there are bytes up to `head` and the newest key frame is at `key_frame`.
    /// Blocks end before a key frame, so that each one can be told as a place to begin at. Returns the header.
    pub(super) fn begin(&mut self, offset: u64, head: u64, key_frame: Option<u64>) -> [u8; HEADER_BYTES] {
        let is_entry = self.entered_at == Some(offset) || key_frame == Some(offset);
        let ahead = key_frame.filter(|key_frame| *key_frame > offset);
        self.end = head.min(offset + BLOCK_BYTES).min(ahead.unwrap_or(u64::MAX));
        let flags = if is_entry { Flags::NONE } else { Flags::NOT_SUITABLE_FOR_STREAM_START };
        header((self.end - offset) as u32, flags)
    }

    /// Where the present block ends.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Of MPEG-TS, the bytes at `offset` are gone, or not worth sending: ends the present block. Returns what it still lacks.
    pub(super) fn fill(&mut self, offset: u64) -> Vec<u8> {
        let lacking = self.end.saturating_sub(offset) as usize;
        self.end = 0;
        // A packet that was cut off is filled up first.
        let mut filling = vec![0xFF; lacking % PACKET_BYTES];
        let [high, low] = NULL_PID.to_be_bytes();
        while filling.len() < lacking {
            filling.extend_from_slice(&[SYNC_BYTE, high, low, 0x10]);
            filling.resize(filling.len() + PACKET_BYTES - 4, 0xFF);
        }
        filling
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_delivery::metacube::{Event, Reader};

    const PACKET: u64 = PACKET_BYTES as u64;

    fn read(mut bytes: &[u8]) -> (u32, Flags) {
        match Reader::new().next(&mut bytes) {
            Some(Event::Block { size, flags }) => (size, flags),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn blocks_begin_at_key_frames_and_say_so() {
        let mut blocks = Blocks::default();
        assert_eq!(read(&blocks.enter(5 * PACKET, &[0x47; 376], false)), (376, Flags::HEADER));
        // A newer key frame than the one at which it entered is known already.
        let not = Flags::NOT_SUITABLE_FOR_STREAM_START;
        for (offset, head, key_frame, packets, flags) in [
            (5, 9, Some(7), 2, Flags::NONE),
            (7, 9, Some(7), 2, Flags::NONE),
            (9, 12, Some(7), 3, not),
            (12, 1000, Some(7), 348, not),
            (360, 1000, Some(900), 348, not),
            (708, 1000, Some(900), 192, not),
            (900, 1000, Some(900), 100, Flags::NONE),
        ] {
            assert!(blocks.is_between(offset * PACKET));
            let begun = blocks.begin(offset * PACKET, head * PACKET, key_frame.map(|at: u64| at * PACKET));
            assert_eq!(read(&begun), ((packets * PACKET) as u32, flags), "{offset}");
            assert!(!blocks.is_between((offset + packets) * PACKET - 1));
        }
    }

    #[test]
    fn a_block_that_is_broken_off_is_filled_with_null_packets() {
        let mut blocks = Blocks::default();
        blocks.enter(0, &[], false);
        blocks.begin(0, 10 * PACKET, None);
        let filling = blocks.fill(7 * PACKET + 100);
        assert_eq!(filling.len() as u64, 3 * PACKET - 100);
        let packets = filling[88..].chunks(PACKET_BYTES);
        assert!(packets.into_iter().all(|packet| packet[..4] == [0x47, 0x1F, 0xFF, 0x10]));
        assert!(blocks.is_between(0) && blocks.fill(99).is_empty());
        assert_eq!(read(&blocks.enter(50, &[1], true)), (1, Flags::NOT_SUITABLE_FOR_STREAM_START));
    }

    #[test]
    fn a_stream_without_a_prelude_is_entered_without_a_block() {
        let mut blocks = Blocks::default();
        assert!(blocks.enter(7 * PACKET, &[], false).is_empty());
        assert_eq!(blocks.end(), 7 * PACKET);
        // Where it entered is a place to begin at, though a newer key frame is known by now.
        assert_eq!(
            read(&blocks.begin(7 * PACKET, 9 * PACKET, Some(8 * PACKET))),
            (PACKET as u32, Flags::NONE)
        );
    }

    #[test]
    fn filling_of_a_block_that_is_whole_is_nothing() {
        let mut blocks = Blocks::default();
        blocks.enter(0, &[], false);
        blocks.begin(0, 3 * PACKET, None);
        assert!(blocks.fill(3 * PACKET).is_empty());
        assert!(blocks.is_between(0), "and the next one begins wherever its viewer goes on");
    }

    proptest::proptest! {
        #[test]
        fn blocks_say_beforehand_how_many_bytes_they_hold_and_end_before_each_key_frame(
            steps in proptest::collection::vec((1u64..800, proptest::option::of(0u64..800)), 1..30),
        ) {
            let (mut blocks, mut head) = (Blocks::default(), 0);
            blocks.enter(0, &[], false);
            let mut offset = 0;
            for (packets, key) in steps {
                let key_frame = key.map(|back| (head / PACKET + packets).saturating_sub(back) * PACKET);
                head += packets * PACKET;
                while offset < head {
                    proptest::prop_assert!(blocks.is_between(offset));
                    let (size, _) = read(&blocks.begin(offset, head, key_frame));
                    proptest::prop_assert!(size > 0 && u64::from(size) <= BLOCK_BYTES);
                    let end = offset + u64::from(size);
                    proptest::prop_assert_eq!(blocks.end(), end);
                    proptest::prop_assert!(key_frame.is_none_or(|at| at <= offset || at >= end));
                    proptest::prop_assert!(!blocks.is_between(end - 1) && blocks.is_between(end));
                    offset = end;
                }
            }
        }

        #[test]
        fn what_fills_a_block_has_the_length_that_it_lacks_and_is_null_packets_behind_the_begun_one(
            packets in 1u64..300,
            sent in 0u64..300 * 188,
        ) {
            let mut blocks = Blocks::default();
            blocks.enter(0, &[], false);
            blocks.begin(0, packets * PACKET, None);
            let filling = blocks.fill(sent);
            proptest::prop_assert_eq!(filling.len() as u64, (packets * PACKET).saturating_sub(sent));
            let (begun, nulls) = filling.split_at(filling.len() % PACKET_BYTES);
            proptest::prop_assert!(begun.iter().all(|byte| *byte == 0xFF));
            for packet in nulls.chunks(PACKET_BYTES) {
                proptest::prop_assert_eq!(&packet[..4], &[0x47, 0x1F, 0xFF, 0x10]);
                proptest::prop_assert!(packet[4..].iter().all(|byte| *byte == 0xFF));
            }
        }
    }
}
