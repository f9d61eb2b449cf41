//! The boolean entropy coder (RFC 6386 §7): bits of known probability, out of bytes and into them.
//!
//! Decoding: a window of 64 bits holds what was read and not yet decoded, left aligned. The decoder compares its top byte with
//! where the probability splits the current range.

/// Decodes bits from one partition of a frame.
///
/// Behind the end of the data come zeros, as an encoder may leave zeros off; [`BoolDecoder::ran_out`] tells when
/// more was decoded than was there.
#[derive(Clone, Copy, Debug)]
pub(crate) struct BoolDecoder<'a> {
    rest: &'a [u8],
    window: u64,
    range: u32,
    /// Bits in the window behind the top 8; below zero, the window has to be filled before the next bit is decoded.
    spare: i32,
    /// Bytes of zeros that were put behind the data.
    invented: i32,
}

impl<'a> BoolDecoder<'a> {
    /// A decoder at the start of a partition.
    pub(crate) fn new(data: &'a [u8]) -> BoolDecoder<'a> {
        BoolDecoder { rest: data, window: 0, range: 255, spare: -8, invented: 0 }
    }

    /// Whether bits were decoded that the data did not hold.
    pub(crate) fn ran_out(&self) -> bool {
        8 * self.invented > self.spare + 8
    }

    #[inline(always)]
    fn fill(&mut self) {
        let valid = self.spare + 8;
        if let Some((head, _)) = self.rest.split_first_chunk::<8>() {
            // What is taken beyond whole bytes is put into the same place again later.
            self.window |= u64::from_be_bytes(*head) >> valid;
            let bytes = (64 - valid) / 8;
            self.rest = &self.rest[bytes as usize..];
            self.spare += 8 * bytes;
        } else {
            self.fill_slowly();
        }
    }

    #[cold]
    fn fill_slowly(&mut self) {
        while self.spare <= 48 {
            let byte = match self.rest.split_first() {
                Some((&byte, rest)) => {
                    self.rest = rest;
                    byte
                }
                None => {
                    // Saturation keeps a hostile frame from wrapping the count; the frame has failed long before.
                    self.invented = self.invented.saturating_add(1).min(1 << 24);
                    0
                }
            };
            self.window |= u64::from(byte) << (48 - self.spare);
            self.spare += 8;
        }
    }

    /// Sees to it that three bits can be decoded with [`BoolDecoder::ready_bool`]: each takes up to 7 out of the
    /// window.
    #[inline(always)]
    pub(crate) fn make_ready(&mut self) {
        if self.spare < 14 {
            self.fill();
        }
    }

    /// A bit that is 0 with probability `probability / 256`.
    #[inline(always)]
    pub(crate) fn bool(&mut self, probability: u8) -> bool {
        if self.spare < 0 {
            self.fill();
        }
        self.ready_bool(probability)
    }

    /// The same behind [`BoolDecoder::make_ready`].
    #[inline(always)]
    pub(crate) fn ready_bool(&mut self, probability: u8) -> bool {
        let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
        let wide = u64::from(split) << 56;
        let bit = self.window >= wide;
        if bit {
            self.range -= split;
            self.window -= wide;
        } else {
            self.range = split;
        }
        // The range is 1 to 255 here, and 128 to 255 after the shift. The lowest bit changes nothing but that no
        // processor has to ask whether there is any.
        let shift = (self.range | 1).leading_zeros() - 24;
        self.range <<= shift;
        self.window <<= shift;
        self.spare -= shift as i32;
        bit
    }

    /// A bit that is as likely 0 as 1.
    #[inline(always)]
    pub(crate) fn bit(&mut self) -> bool {
        self.bool(128)
    }

    /// An unsigned number of `bits` bits, the highest first.
    pub(crate) fn literal(&mut self, bits: u32) -> u32 {
        (0..bits).fold(0, |value, _| value << 1 | u32::from(self.bit()))
    }

    /// A magnitude of `bits` bits and a sign behind it.
    pub(crate) fn signed(&mut self, bits: u32) -> i8 {
        let value = self.literal(bits) as i8;
        if self.bit() { -value } else { value }
    }

    /// A magnitude with sign behind a flag that says whether it is there.
    pub(crate) fn optional_signed(&mut self, bits: u32) -> Option<i8> {
        if self.bit() { Some(self.signed(bits)) } else { None }
    }

    /// A leaf of `tree`, in which entry `2n + bit` says where to go from node `n`: a positive entry is twice the next
    /// node, any other the negative of a leaf (RFC 6386 §8.1).
    #[inline(always)]
    pub(crate) fn tree(&mut self, tree: &[i8], probabilities: &[u8]) -> u8 {
        let mut at = 0usize;
        loop {
            let next = tree[at + usize::from(self.bool(probabilities[at >> 1]))];
            if next <= 0 {
                return -next as u8;
            }
            at = next as usize;
        }
    }
}

/// Codes bits into one partition of a frame.
///
/// `low` holds what is not written yet: its lowest 8 bits are those that the range applies to, and the `pending` bits
/// above them wait until 32 can be written at once.
#[derive(Clone, Debug)]
pub(crate) struct BoolEncoder {
    out: Vec<u8>,
    low: u64,
    range: u32,
    pending: u32,
}

impl BoolEncoder {
    /// An encoder at the start of a partition, which writes behind what `out` holds.
    pub(crate) fn new(out: Vec<u8>) -> BoolEncoder {
        BoolEncoder { out, low: 0, range: 255, pending: 0 }
    }

    /// A bit that is 0 with probability `probability / 256`.
    #[inline(always)]
    pub(crate) fn bool(&mut self, bit: bool, probability: u8) {
        let split = 1 + (((self.range - 1) * u32::from(probability)) >> 8);
        let (range, low) = if bit { (self.range - split, u64::from(split)) } else { (split, 0) };
        let shift = (range | 1).leading_zeros() - 24;
        self.range = range << shift;
        self.low = (self.low + low) << shift;
        self.pending += shift;
        if self.pending >= 32 {
            self.write_out();
        }
    }

    #[cold]
    #[inline(never)]
    fn write_out(&mut self) {
        // 8 bits stay for the range, and what is pending above 32.
        let keep = self.pending - 24;
        let word = self.low >> keep;
        self.low &= (1 << keep) - 1;
        self.pending -= 32;
        if word >> 32 != 0 {
            self.carry();
        }
        self.out.extend_from_slice(&(word as u32).to_be_bytes());
    }

    #[cold]
    fn carry(&mut self) {
        for byte in self.out.iter_mut().rev() {
            *byte = byte.wrapping_add(1);
            if *byte != 0 {
                break;
            }
        }
    }

    /// A bit that is as likely 0 as 1.
    pub(crate) fn bit(&mut self, bit: bool) {
        self.bool(bit, 128);
    }

    /// An unsigned number of `bits` bits, the highest first.
    pub(crate) fn literal(&mut self, value: u32, bits: u32) {
        for at in (0..bits).rev() {
            self.bit(value >> at & 1 != 0);
        }
    }

    /// A flag that says whether a value is there, then its magnitude of `bits` bits and its sign.
    pub(crate) fn optional_signed(&mut self, value: i8, bits: u32) {
        self.bit(value != 0);
        if value != 0 {
            self.literal(u32::from(value.unsigned_abs()), bits);
            self.bit(value < 0);
        }
    }

    /// A leaf of `tree`; `path` is that of [`paths`].
    #[inline(always)]
    pub(crate) fn tree(&mut self, tree: &[i8], probabilities: &[u8], path: Path) {
        let mut at = 0usize;
        for shift in (0..path.length).rev() {
            let bit = path.bits >> shift & 1;
            self.bool(bit != 0, probabilities[at >> 1]);
            at = tree[at + usize::from(bit)] as usize;
        }
    }

    /// The partition, with as many bytes as decoding it looks at, and a bit more: FFmpeg takes a partition as cut where
    /// many macroblocks, each of them a small fraction of a bit, come behind its last whole byte.
    pub(crate) fn finish(mut self) -> Vec<u8> {
        let valid = self.pending + 8;
        let bytes = valid / 8 + 1;
        let word = self.low << (8 * bytes - valid);
        if word >> (8 * bytes) != 0 {
            self.carry();
        }
        self.out.extend_from_slice(&word.to_be_bytes()[8 - bytes as usize..]);
        self.out
    }
}

/// The way to a leaf of a tree: the bits, the first the highest.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Path {
    pub(crate) bits: u16,
    pub(crate) length: u8,
}

/// The ways to the leaves of `tree`.
pub(crate) const fn paths<const LEAVES: usize>(tree: &[i8]) -> [Path; LEAVES] {
    let mut paths = [Path { bits: 0, length: 0 }; LEAVES];
    let mut entry = 0;
    while entry < tree.len() {
        if tree[entry] <= 0 {
            let path = &mut paths[-tree[entry] as usize];
            let mut at = entry;
            loop {
                path.bits |= ((at & 1) as u16) << path.length;
                path.length += 1;
                let node = at & !1;
                if node == 0 {
                    break;
                }
                at = 0;
                while tree[at] != node as i8 {
                    at += 1;
                }
            }
        }
        entry += 1;
    }
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn what_is_coded_is_decoded(bits in prop::collection::vec((any::<bool>(), 1u8..=255), 0..2000)) {
            let mut encoder = BoolEncoder::new(Vec::new());
            for &(bit, probability) in &bits {
                encoder.bool(bit, probability);
            }
            let coded = encoder.finish();
            let mut decoder = BoolDecoder::new(&coded);
            for &(bit, probability) in &bits {
                prop_assert_eq!(decoder.bool(probability), bit);
            }
            prop_assert!(!decoder.ran_out());
        }
    }

    #[test]
    fn a_carry_runs_through_bytes_of_255() {
        // The least likely bits push the interval to its upper end, and one more over it.
        for ones in 0..60 {
            let bits = [vec![true; ones], vec![false; 3], vec![true; 40]].concat();
            let mut encoder = BoolEncoder::new(Vec::new());
            bits.iter().for_each(|&bit| encoder.bool(bit, if bit { 255 } else { 1 }));
            let coded = encoder.finish();
            let mut decoder = BoolDecoder::new(&coded);
            for &bit in &bits {
                assert_eq!(decoder.bool(if bit { 255 } else { 1 }), bit);
            }
        }
    }

    #[test]
    fn paths_lead_to_their_leaves() {
        const TREE: [i8; 6] = [0, 2, -1, 4, -2, -3];
        const PATHS: [Path; 4] = paths(&TREE);
        let probabilities = [10, 100, 200];
        for (leaf, path) in PATHS.into_iter().enumerate() {
            let mut encoder = BoolEncoder::new(Vec::new());
            encoder.tree(&TREE, &probabilities, path);
            let coded = encoder.finish();
            assert_eq!(usize::from(BoolDecoder::new(&coded).tree(&TREE, &probabilities)), leaf);
        }
    }

    #[test]
    fn zeros_follow_the_data_and_are_noticed() {
        let mut decoder = BoolDecoder::new(&[0x55]);
        decoder.literal(7);
        assert!(!decoder.ran_out());
        decoder.literal(24);
        assert!(decoder.ran_out());
        for _ in 0..100_000 {
            decoder.bool(1);
        }
        assert!(decoder.ran_out());
    }

    #[test]
    fn the_window_is_filled_alike_fast_and_slowly() {
        let data: Vec<u8> = (0..64u32).map(|byte| (byte * 167 + 13) as u8).collect();
        let probabilities: Vec<u8> = (0..300u32).map(|at| (at * 73 % 255 + 1) as u8).collect();
        let decode = |mut decoder: BoolDecoder<'_>| -> Vec<bool> {
            probabilities.iter().map(|&probability| decoder.bool(probability)).collect()
        };
        // A decoder that never sees 8 bytes at once fills slowly; it gets the data in a chain of its own.
        let whole = decode(BoolDecoder::new(&data));
        let mut slow = BoolDecoder::new(&data);
        let mut bits = Vec::new();
        for &probability in &probabilities {
            if slow.spare < 0 {
                slow.fill_slowly();
            }
            bits.push(slow.bool(probability));
        }
        assert_eq!(whole, bits);
    }
}
