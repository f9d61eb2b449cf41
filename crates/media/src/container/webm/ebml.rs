//! EBML's numbers and trees (RFC 8794 §4, §5), as far as a relay has to read them.

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
