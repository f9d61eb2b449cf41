//! EBML's numbers and trees (RFC 8794 §4, §5), as far as a relay has to read them and a file has to be written.

/// An element's size that says "until something else begins" (RFC 8794 §6.2).
pub(super) const UNKNOWN: u64 = u64::MAX;

/// Bytes of a number with this first byte: 1 to 8, or 9 where no number begins so.
pub(super) fn length(first: u8) -> usize {
    (first.leading_zeros() as usize).saturating_add(1)
}

/// An element's ID at the front of `bytes`, which hold all of it, with its marker.
pub(super) fn id(bytes: &[u8]) -> u32 {
    bytes[..length(bytes[0])].iter().fold(0, |id, byte| id << 8 | u32::from(*byte))
}

/// A number at the front of `bytes`, which hold all of it, without its marker; [`UNKNOWN`] where all its bits are one.
pub(super) fn number(bytes: &[u8]) -> u64 {
    let length = length(bytes[0]);
    let bits = bytes[..length].iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte));
    // Seven bits of each byte.
    let unused = 57u32.saturating_sub(bytes[0].leading_zeros().saturating_mul(7));
    let mask = u64::MAX.checked_shr(unused).unwrap_or(0);
    if bits & mask == mask { UNKNOWN } else { bits & mask }
}

/// The element's head at the front of `bytes`, and what is behind it: ID, size, rest. `None` where it is not whole or
/// none.
pub(in crate::container) fn head(bytes: &[u8]) -> Option<(u32, u64, &[u8])> {
    let id_bytes = length(*bytes.first()?);
    let size_bytes = length(*bytes.get(id_bytes)?);
    if id_bytes > 4 || size_bytes > 8 {
        return None;
    }
    let (_, behind_id) = bytes.split_at_checked(id_bytes)?;
    let (_, payload) = behind_id.split_at_checked(size_bytes)?;
    Some((id(bytes), number(behind_id), payload))
}

/// The children in an element's payload, with what each holds. Ends at the first one that is not whole.
pub(in crate::container) fn children(mut payload: &[u8]) -> impl Iterator<Item = (u32, &[u8])> {
    std::iter::from_fn(move || {
        let (id, size, rest) = head(payload)?;
        let (inside, behind) = rest.split_at_checked(usize::try_from(size).ok()?)?;
        payload = behind;
        Some((id, inside))
    })
}

/// An unsigned integer of up to eight bytes.
pub(in crate::container) fn unsigned(payload: &[u8]) -> Option<u64> {
    (payload.len() <= 8).then(|| payload.iter().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

/// A string: a zero byte ends it (RFC 8794 §7.4), as GStreamer writes them.
pub(in crate::container) fn text(payload: &[u8]) -> &[u8] {
    payload.split(|byte| *byte == 0).next().unwrap_or_default()
}

/// Bytes of a size that is put in later ([`write_open`], [`size_later`]).
pub(super) const LATER_BYTES: usize = 8;

/// Appends an element's ID, its marker included, in as many bytes as it has.
fn write_id(id: u32, out: &mut Vec<u8>) {
    out.extend(id.to_be_bytes().into_iter().skip_while(|byte| *byte == 0));
}

/// Appends a number with its marker in as few bytes as take it, at most eight (RFC 8794 §4). That of all ones is [`UNKNOWN`], so
/// each length holds one number less.
pub(super) fn write_number(value: u64, out: &mut Vec<u8>) {
    let marker = |bytes: u8| 1u64.checked_shl(u32::from(bytes).saturating_mul(7)).unwrap_or(0);
    let bytes = (1..8).find(|&bytes| value < marker(bytes).saturating_sub(1)).unwrap_or(8);
    let marked = value.min(LARGEST) | marker(bytes);
    out.extend(marked.to_be_bytes().into_iter().skip(8usize.saturating_sub(bytes.into())));
}

/// The largest size of eight bytes; all ones would say that it is not known.
const LARGEST: u64 = (1 << 56) - 2;

/// A size in the eight bytes that [`write_open`] has left for it.
pub(super) fn size_later(size: u64) -> [u8; LATER_BYTES] {
    (size.min(LARGEST) | 1 << 56).to_be_bytes()
}

/// Appends the head of an element with a payload of so many bytes.
pub(super) fn write_element_head(id: u32, payload_bytes: u64, out: &mut Vec<u8>) {
    write_id(id, out);
    write_number(payload_bytes, out);
}

/// Appends an element with this payload.
pub(super) fn write_element(id: u32, payload: &[u8], out: &mut Vec<u8>) {
    write_element_head(id, payload.len() as u64, out);
    out.extend_from_slice(payload);
}

/// Appends an element with what `inside` appends.
pub(super) fn write_master(id: u32, out: &mut Vec<u8>, inside: impl FnOnce(&mut Vec<u8>)) {
    let mut payload = Vec::new();
    inside(&mut payload);
    write_element(id, &payload, out);
}

/// Appends an unsigned integer in as few bytes as take it, at least one (RFC 8794 §7.2).
pub(super) fn write_unsigned(id: u32, value: u64, out: &mut Vec<u8>) {
    let bytes = value.to_be_bytes();
    let unused = (value.leading_zeros() as usize / 8).min(7);
    write_element(id, &bytes[unused..], out);
}

/// Appends a number of eight bytes with a fraction (RFC 8794 §7.3).
pub(super) fn write_float(id: u32, value: f64, out: &mut Vec<u8>) {
    write_element(id, &value.to_be_bytes(), out);
}

/// Appends the head of an element of unknown size; eight bytes are left for the size. Returns where they begin in `out`.
pub(super) fn write_open(id: u32, out: &mut Vec<u8>) -> usize {
    write_id(id, out);
    let at = out.len();
    out.extend_from_slice(&[0x01, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF]);
    at
}

/// Appends an element without meaning (RFC 8794 §11.3.2) of so many bytes with its head, 2 to 128: room for one that is put in
/// later.
pub(super) fn write_void(bytes: usize, out: &mut Vec<u8>) {
    write_element(VOID, &[0; 126][..bytes.clamp(2, 128).saturating_sub(2)], out);
}

const VOID: u32 = 0xEC;

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_take_as_few_bytes_as_they_can_and_never_say_that_they_are_unknown() {
        let written = |value| {
            let mut out = Vec::new();
            write_number(value, &mut out);
            out
        };
        assert_eq!(written(0), [0x80]);
        assert_eq!(written(126), [0xFE]);
        assert_eq!(written(127), [0x40, 0x7F]);
        assert_eq!(written((1 << 14) - 2), [0x7F, 0xFE]);
        assert_eq!(written((1 << 14) - 1), [0x20, 0x3F, 0xFF]);
        assert_eq!(written((1 << 49) - 1).len(), 8);
        assert_eq!(size_later(0), [1, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(number(&size_later(u64::MAX)), LARGEST);
    }

    #[test]
    fn room_for_an_element_is_an_element_of_exactly_so_many_bytes() {
        for bytes in 2..=128 {
            let mut out = Vec::new();
            write_void(bytes, &mut out);
            let (id, size, rest) = head(&out).unwrap();
            assert_eq!((out.len(), id, size), (bytes, VOID, rest.len() as u64));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(value in 0..=LARGEST, payload in prop::collection::vec(any::<u8>(), 0..300)) {
            let mut out = Vec::new();
            write_number(value, &mut out);
            prop_assert_eq!((number(&out), length(out[0])), (value, out.len()));
            prop_assert_eq!(number(&size_later(value)), value);
            out.clear();
            write_element(0x1F43_B675, &payload, &mut out);
            write_unsigned(0xE7, value, &mut out);
            let found: Vec<_> = children(&out).collect();
            prop_assert_eq!(found.len(), 2);
            prop_assert_eq!(found[0], (0x1F43_B675, &payload[..]));
            prop_assert_eq!((found[1].0, unsigned(found[1].1)), (0xE7, Some(value)));
        }
    }
}
