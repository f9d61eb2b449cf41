//! Chance from a seed, and what it does to bytes.

/// A generator of numbers (SplitMix64; Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators, 2014): quick, and
/// no secret.
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Dice {
        Dice(seed)
    }

    /// The seed of another one, which shares nothing with this.
    pub(crate) fn fork(&mut self, salt: u64) -> u64 {
        self.next() ^ salt.wrapping_mul(0x9E37_79B9_7F4A_7C15)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    /// Less than `end`, which is at least 1.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// True once in `times`.
    pub(crate) fn once_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    /// A number that parsers are wrong about: small, at a power of two or beside it, or any.
    pub(crate) fn odd_number(&mut self) -> u64 {
        match self.below(4) {
            0 => self.next() % 4,
            1 => (1u64 << self.below(62)).wrapping_add(self.next() % 3).wrapping_sub(1),
            2 => self.next() >> (2 + self.below(62)),
            _ => self.next() % 3000,
        }
    }
}

/// Changes `bytes` once or some times: bits, bytes, its end, its order, and parts of `other`.
pub(crate) fn mutate(dice: &mut Dice, bytes: &mut Vec<u8>, other: &[u8]) {
    for _ in 0..=dice.below(3) {
        if bytes.is_empty() {
            bytes.extend_from_slice(other);
            continue;
        }
        let at = dice.below(bytes.len());
        match dice.below(8) {
            0 | 1 => bytes[at] ^= 1 << dice.below(8),
            2 => bytes[at] = [0, 1, 0x3f, 0x40, 0x7f, 0x80, 0xc0, 0xff][dice.below(8)],
            3 => bytes.truncate(at),
            4 => {
                let from = dice.below(other.len().max(1)).min(other.len());
                bytes.truncate(at);
                bytes.extend_from_slice(&other[from..]);
            }
            5 => {
                let end = at + dice.below(bytes.len() - at + 1).min(16);
                let part = bytes[at..end].to_vec();
                let to = dice.below(bytes.len() + 1);
                bytes.splice(to..to, part);
            }
            6 => {
                let end = at + dice.below(bytes.len() - at + 1).min(16);
                bytes.drain(at..end);
            }
            _ => {
                let end = (at + 8).min(bytes.len());
                let number = dice.odd_number().to_be_bytes();
                bytes[at..end].copy_from_slice(&number[..end - at]);
            }
        }
    }
    bytes.truncate(65_535);
}
