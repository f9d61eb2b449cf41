//! Reads bits and Exp-Golomb codes (H.264 §9.1).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// Reads a payload bit by bit, the most significant first. Every read past the end gives `None`.
#[derive(Clone, Debug)]
pub struct BitReader<'a> {
    bytes: &'a [u8],
    position_bits: usize,
}

impl<'a> BitReader<'a> {
    /// A reader at the first bit of `bytes`, from which emulation prevention was removed.
    pub const fn new(bytes: &'a [u8]) -> BitReader<'a> {
        BitReader { bytes, position_bits: 0 }
    }

    /// Bits that are left.
    pub fn left_bits(&self) -> usize {
        self.bytes.len().saturating_mul(8).saturating_sub(self.position_bits)
    }

    /// One bit.
    pub fn bit(&mut self) -> Option<bool> {
        let byte = self.bytes.get(self.position_bits / 8)?;
        let mask = 0x80 >> (self.position_bits % 8);
        self.position_bits = self.position_bits.saturating_add(1);
        Some(byte & mask != 0)
    }

    /// An unsigned number of `count` bits, 0 to 32.
    pub fn bits(&mut self, count: u32) -> Option<u32> {
        if self.left_bits() < count as usize {
            return None;
        }
        let mut value = 0u32;
        for _ in 0..count.min(32) {
            value = value << 1 | u32::from(self.bit()?);
        }
        Some(value)
    }

    /// `ue(v)`: an unsigned Exp-Golomb code, up to 2³² − 2. Longer codes give `None`.
    pub fn ue(&mut self) -> Option<u32> {
        let mut zeros = 0;
        while !self.bit()? {
            zeros = u32::saturating_add(zeros, 1);
            if zeros > 31 {
                return None;
            }
        }
        1u32.checked_shl(zeros)?.saturating_sub(1).checked_add(self.bits(zeros)?)
    }

    /// `se(v)`: a signed Exp-Golomb code.
    pub fn se(&mut self) -> Option<i32> {
        let code = self.ue()?;
        // Up to 2³² − 2, so half of it rounded up is an i32.
        let magnitude = i32::try_from(code.div_ceil(2)).ok()?;
        Some(if code % 2 == 1 { magnitude } else { magnitude.saturating_neg() })
    }

    /// `ue(v)` that must not exceed `limit`.
    pub fn ue_up_to(&mut self, limit: u32) -> Option<u32> {
        self.ue().filter(|&value| value <= limit)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn write_ue(value: u32) -> Vec<u8> {
        let code = u64::from(value) + 1;
        let length = 64 - code.leading_zeros();
        let total = 2 * length - 1;
        let shifted = code << (64 - total);
        shifted.to_be_bytes().to_vec()
    }

    proptest! {
        #[test]
        fn exp_golomb_is_read(value in 0u32..=u32::MAX - 1) {
            prop_assert_eq!(BitReader::new(&write_ue(value)).ue(), Some(value));
        }

        #[test]
        fn reads_end(bytes in proptest::collection::vec(any::<u8>(), 0..20)) {
            let mut reader = BitReader::new(&bytes);
            while reader.ue().is_some() || reader.bit().is_some() {}
            prop_assert_eq!(reader.left_bits(), 0);
        }
    }

    #[test]
    fn signed_codes_alternate() {
        let read = |value| BitReader::new(&write_ue(value)).se();
        assert_eq!([0, 1, 2, 3, 4].map(read), [0, 1, -1, 2, -2].map(Some));
    }
}
