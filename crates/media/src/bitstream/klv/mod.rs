//! Metadata as keys, lengths and values (SMPTE ST 336), as drones and other sensors send them beside their pictures (MISB ST 0107).
//!
//! ```text
//! packet: universal key:16 bytes │ length (BER) │ value: a local set
//! local set: (tag (BER-OID) │ length (BER) │ value)*
//! ```
//! [`uas`] reads and writes the set of drones, MISB ST 0601.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub mod uas;

/// Bytes of a universal key.
pub const KEY_BYTES: usize = 16;
/// What all universal keys of SMPTE begin with.
pub const KEY_PREFIX: [u8; 4] = [0x06, 0x0e, 0x2b, 0x34];
/// A length has at most so many bytes behind its first one: sets of 4 GiB are more than there are.
const LENGTH_BYTES_MAX: usize = 4;
/// A tag has at most so many bytes.
const TAG_BYTES_MAX: usize = 4;

/// A packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// What its value is.
    pub key: [u8; KEY_BYTES],
    /// The value.
    pub value: &'a [u8],
    /// All of it: key, length and value.
    pub bytes: &'a [u8],
}

/// The packets in `bytes`, end to end. What is cut off, or is none, ends them.
pub fn packets(mut bytes: &[u8]) -> impl Iterator<Item = Packet<'_>> {
    std::iter::from_fn(move || {
        let packet = Packet::parse(bytes)?;
        bytes = bytes.get(packet.bytes.len()..)?;
        Some(packet)
    })
}

impl<'a> Packet<'a> {
    /// Parses the packet that `bytes` begin with. `None` where they begin with no universal key of SMPTE, or it is cut off.
    pub fn parse(bytes: &'a [u8]) -> Option<Packet<'a>> {
        let (&key, rest) = bytes.split_first_chunk::<KEY_BYTES>()?;
        if !key.starts_with(&KEY_PREFIX) {
            return None;
        }
        let (length, rest) = ber_length(rest)?;
        let value = rest.get(..length)?;
        let whole = bytes.len().checked_sub(rest.len())?.checked_add(length)?;
        Some(Packet { key, value, bytes: bytes.get(..whole)? })
    }

    /// What its value is, for people, where the key is one of those that are common.
    pub fn name(&self) -> Option<&'static str> {
        name_of(&self.key)
    }
}

/// The name of a common set by its universal key (MISB ST 0807).
pub fn name_of(key: &[u8; KEY_BYTES]) -> Option<&'static str> {
    // The sixth byte tells how the set is coded (0x01: items with universal keys; 0x03 and 0x0b: with local tags), and the eighth the
    // version of the registry: they name no other set.
    let name = match key[8..] {
        [0x0e, 0x01, 0x03, 0x01, 0x01, 0x00, 0x00, 0x00] => "UAS datalink local set (ST 0601)",
        [0x0e, 0x01, 0x01, 0x02, 0x01, 0x01, 0x00, 0x00] => "predator UAV basic universal set (EG 0104)",
        [0x02, 0x08, 0x02, 0x00, 0x00, 0x00, 0x00, 0x00] => "security universal set (ST 0102)",
        [0x0e, 0x01, 0x03, 0x03, 0x02, 0x00, 0x00, 0x00] => "security local set (ST 0102)",
        [0x0e, 0x01, 0x03, 0x03, 0x06, 0x00, 0x00, 0x00] => "moving targets local set (ST 0903)",
        [0x0e, 0x01, 0x03, 0x01, 0x02, 0x00, 0x00, 0x00] => "remote video terminal local set (ST 0806)",
        _ => return None,
    };
    Some(name)
}

/// The items of a local set: tag and value. What is cut off ends them.
pub fn items(mut set: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let (tag, rest) = ber_oid(set)?;
        let (length, rest) = ber_length(rest)?;
        let (value, rest) = rest.split_at_checked(length)?;
        set = rest;
        Some((tag, value))
    })
}

/// A length by the basic encoding rules (ISO/IEC 8825-1 §8.1.3), and what is behind it. The indefinite form is none.
fn ber_length(bytes: &[u8]) -> Option<(usize, &[u8])> {
    let (&first, rest) = bytes.split_first()?;
    if first & 0x80 == 0 {
        return Some((first.into(), rest));
    }
    let count = usize::from(first & 0x7f);
    let (digits, rest) = rest.split_at_checked(count)?;
    // Leading zeros are allowed, and some writers have them.
    let zeros = digits.iter().take_while(|&&digit| digit == 0).count();
    let digits = digits.get(zeros..)?;
    if count == 0 || digits.len() > LENGTH_BYTES_MAX {
        return None;
    }
    let length = digits.iter().fold(0u64, |length, &digit| length << 8 | u64::from(digit));
    Some((usize::try_from(length).ok()?, rest))
}

/// A tag in base 128 (ISO/IEC 8825-1 §8.19), and what is behind it.
fn ber_oid(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let mut tag = 0u32;
    for (&byte, at) in bytes.iter().zip(1..=TAG_BYTES_MAX) {
        tag = tag << 7 | u32::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((tag, bytes.get(at..)?));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_and_tags_of_all_forms_are_read_and_no_others() {
        assert_eq!(ber_length(&[0x7f, 9]), Some((127, &[9][..])));
        assert_eq!(ber_length(&[0x81, 0x80, 9]), Some((128, &[9][..])));
        assert_eq!(ber_length(&[0x85, 0, 0, 0, 1, 2]), Some((258, &[][..])));
        assert_eq!(ber_length(&[0x84, 0xff, 0xff, 0xff, 0xff]), Some((0xffff_ffff, &[][..])));
        for bad in [&[0x80][..], &[0x82, 1], &[0x85, 1, 2, 3, 4, 5], &[0xff; 40], &[]] {
            assert_eq!(ber_length(bad), None, "{bad:x?}");
        }
        assert_eq!(ber_oid(&[0x41]), Some((65, &[][..])));
        assert_eq!(ber_oid(&[0x81, 0x0d, 7]), Some((141, &[7][..])));
        for bad in [&[0x80][..], &[0xff, 0xff, 0xff, 0xff, 1], &[]] {
            assert_eq!(ber_oid(bad), None, "{bad:x?}");
        }
    }

    #[test]
    fn packets_lie_end_to_end_and_end_with_what_is_none() {
        let mut bytes = uas::KEY.to_vec();
        bytes.extend_from_slice(&[2, 65, 0]);
        let one = bytes.len();
        bytes.extend_from_slice(&[6, 0x0e, 0x2b, 0x34, 2, 1, 1, 1, 2, 8, 2, 0, 0, 0, 0, 0, 0x81, 1, 9]);
        bytes.extend_from_slice(&[6, 0x0e, 0x2b, 0x34, 1]);
        let found: Vec<_> = packets(&bytes).collect();
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].bytes, found[1].value), (&bytes[..one], &[9][..]));
        assert_eq!(found[0].name(), Some("UAS datalink local set (ST 0601)"));
        assert_eq!(found[1].name(), Some("security universal set (ST 0102)"));
        assert_eq!(items(found[0].value).collect::<Vec<_>>(), [(65, &[][..])]);
    }

    /// As the standards print them.
    #[test]
    fn sets_are_named_by_their_keys() {
        let keys = [
            ("060e2b34020b01010e01030101000000", "UAS datalink local set (ST 0601)"),
            ("060e2b34020101010e01010201010000", "predator UAV basic universal set (EG 0104)"),
            ("060e2b34020101010208020000000000", "security universal set (ST 0102)"),
            ("060e2b34020301010e01030302000000", "security local set (ST 0102)"),
            ("060e2b34020b01010e01030306000000", "moving targets local set (ST 0903)"),
            ("060e2b34020b01010e01030102000000", "remote video terminal local set (ST 0806)"),
        ];
        for (key, name) in keys {
            let key = u128::from_str_radix(key, 16).unwrap().to_be_bytes();
            assert_eq!(name_of(&key), Some(name));
            let other = u128::from_be_bytes(key) + (1 << 16);
            assert_eq!(name_of(&other.to_be_bytes()), None);
        }
        assert_eq!(uas::KEY, u128::from_str_radix(keys[0].0, 16).unwrap().to_be_bytes());
    }

    proptest! {
        #[test]
        fn any_bytes_are_looked_through(bytes in proptest::collection::vec(any::<u8>(), 0..200), prefixed in any::<bool>()) {
            let bytes = if prefixed { [&uas::KEY[..], &bytes].concat() } else { bytes };
            let mut whole = 0;
            for packet in packets(&bytes) {
                whole += packet.bytes.len();
                prop_assert!(items(packet.value).map(|(_, value)| value.len()).sum::<usize>() <= packet.value.len());
                let _ = uas::Set::parse(&packet);
            }
            prop_assert!(whole <= bytes.len());
        }
    }
}
