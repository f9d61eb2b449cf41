//! Integers of variable length as QUIC has them (RFC 9000 §16): the first two bits tell 1, 2, 4 or 8 bytes, big-endian.

/// The largest integer that fits: 2⁶² − 1.
pub const MAX: u64 = (1 << 62) - 1;

/// How many bytes `value` takes; 8 for one that does not fit.
pub const fn size(value: u64) -> usize {
    match value {
        0..0x40 => 1,
        0x40..0x4000 => 2,
        0x4000..0x4000_0000 => 4,
        _ => 8,
    }
}

/// Appends `value`; what exceeds [`MAX`] is written as [`MAX`].
#[inline]
pub fn write(value: u64, out: &mut Vec<u8>) {
    let [a, b, c, d, e, f, g, h] = value.min(MAX).to_be_bytes();
    match value {
        0..0x40 => out.push(h),
        0x40..0x4000 => out.extend_from_slice(&[0x40 | g, h]),
        0x4000..0x4000_0000 => out.extend_from_slice(&[0x80 | e, f, g, h]),
        _ => out.extend_from_slice(&[0xC0 | a, b, c, d, e, f, g, h]),
    }
}

/// Takes bytes off the front of a packet's payload.
#[derive(Clone, Copy, Debug)]
pub struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from their start.
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { rest: bytes }
    }

    /// Whether nothing is left.
    pub fn is_empty(&self) -> bool {
        self.rest.is_empty()
    }

    /// How many bytes are left.
    pub fn left(&self) -> usize {
        self.rest.len()
    }

    /// The next byte.
    #[inline]
    pub fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.rest.split_first()?;
        self.rest = rest;
        Some(*first)
    }

    /// The next `count` bytes.
    #[inline]
    pub fn bytes(&mut self, count: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.rest.split_at_checked(count)?;
        self.rest = rest;
        Some(taken)
    }

    /// The next `N` bytes.
    #[inline]
    pub fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (taken, rest) = self.rest.split_first_chunk::<N>()?;
        self.rest = rest;
        Some(*taken)
    }

    /// All that is left.
    pub fn take_rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.rest)
    }

    /// The next integer of variable length. A longer form than needed is taken too, as in QUIC.
    #[inline]
    pub fn varint(&mut self) -> Option<u64> {
        let first = *self.rest.first()?;
        Some(match first >> 6 {
            0 => u64::from(self.byte()?),
            1 => u64::from(u16::from_be_bytes(self.array()?) & 0x3FFF),
            2 => u64::from(u32::from_be_bytes(self.array()?) & 0x3FFF_FFFF),
            _ => u64::from_be_bytes(self.array()?) & MAX,
        })
    }

    /// The next integer of variable length if it is at most `limit`.
    #[inline]
    pub fn varint_up_to(&mut self, limit: u64) -> Option<u64> {
        self.varint().filter(|value| *value <= limit)
    }

    /// The same of a number that has 32 bits.
    #[inline]
    pub fn u32_up_to(&mut self, limit: u32) -> Option<u32> {
        self.varint().and_then(|value| u32::try_from(value).ok()).filter(|value| *value <= limit)
    }

    /// The same of a number that has 16 bits.
    #[inline]
    pub fn u16_up_to(&mut self, limit: u16) -> Option<u16> {
        self.varint().and_then(|value| u16::try_from(value).ok()).filter(|value| *value <= limit)
    }

    /// The same of a number of bytes, or of what is counted in memory.
    #[inline]
    pub fn length_up_to(&mut self, limit: usize) -> Option<usize> {
        self.varint().and_then(|value| usize::try_from(value).ok()).filter(|value| *value <= limit)
    }

    /// The bytes that were taken off since `start`, which is an earlier state of this reader.
    #[inline]
    pub fn taken_since(&self, start: Reader<'a>) -> &'a [u8] {
        let count = start.left().saturating_sub(self.left());
        start.rest.get(..count).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_examples_of_rfc_9000_are_read() {
        let read = |bytes: &[u8]| Reader::new(bytes).varint();
        assert_eq!(read(&[0xc2, 0x19, 0x7c, 0x5e, 0xff, 0x14, 0xe8, 0x8c]), Some(151_288_809_941_952_652));
        assert_eq!(read(&[0x9d, 0x7f, 0x3e, 0x7d]), Some(494_878_333));
        assert_eq!(read(&[0x7b, 0xbd]), Some(15_293));
        assert_eq!(read(&[0x25]), Some(37));
        assert_eq!(read(&[0x40, 0x25]), Some(37));
        assert_eq!(read(&[0x40]), None);
        assert_eq!(read(&[]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(value in 0..=MAX, narrow in 0u32..62) {
            let value = value >> narrow;
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            prop_assert_eq!(bytes.len(), size(value));
            prop_assert_eq!(Reader::new(&bytes).varint(), Some(value));
        }

        #[test]
        fn a_narrow_number_is_read_where_it_fits(value in 0..=MAX, narrow in 0u32..62, limit: u32) {
            let value = value >> narrow;
            let mut bytes = Vec::new();
            write(value, &mut bytes);
            let reader = Reader::new(&bytes);
            let fits = |limit: u64| Some(value).filter(|value| *value <= limit);
            prop_assert_eq!({ reader }.u32_up_to(limit).map(u64::from), fits(limit.into()));
            prop_assert_eq!({ reader }.u16_up_to(limit as u16).map(u64::from), fits(u64::from(limit as u16)));
            prop_assert_eq!({ reader }.length_up_to(limit as usize).map(|value| value as u64), fits(limit.into()));
            let mut after = reader;
            after.varint();
            prop_assert_eq!(after.taken_since(reader), &bytes[..]);
        }
    }
}
