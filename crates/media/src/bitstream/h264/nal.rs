//! NAL units in a byte stream (H.264 Annex B), and the emulation prevention inside them (§7.4.1).
//!
//! ```text
//! [00] 00 00 01 │ 0 ref:2 type:5 │ payload, 00 00 0x (x ≤ 3) written as 00 00 03 0x │ [00…] 00 00 01 │ …
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

/// What a NAL unit holds (H.264 table 7-1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NalType {
    /// 1 to 4: a slice of a picture that is no IDR, or a partition of one.
    Slice,
    /// 5: a slice of an IDR picture.
    Idr,
    /// 6: supplemental enhancement information.
    Sei,
    /// 7: sequence parameter set.
    Sps,
    /// 8: picture parameter set.
    Pps,
    /// 9: access unit delimiter.
    AccessUnitDelimiter,
    /// 10: end of sequence.
    EndOfSequence,
    /// 11: end of stream.
    EndOfStream,
    /// 12: filler data.
    Filler,
    /// Any other, by its number.
    Other(u8),
}

impl NalType {
    /// The type in a NAL unit's first byte.
    pub const fn of(header: u8) -> NalType {
        match header & 0x1f {
            1..=4 => NalType::Slice,
            5 => NalType::Idr,
            6 => NalType::Sei,
            7 => NalType::Sps,
            8 => NalType::Pps,
            9 => NalType::AccessUnitDelimiter,
            10 => NalType::EndOfSequence,
            11 => NalType::EndOfStream,
            12 => NalType::Filler,
            other => NalType::Other(other),
        }
    }

    /// Whether this is coded picture data (a VCL NAL unit).
    pub const fn is_slice(self) -> bool {
        matches!(self, NalType::Slice | NalType::Idr)
    }
}

/// A NAL unit as it lies in the byte stream, without start code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nal<'a> {
    /// Header byte and payload, emulation prevention still in; never empty.
    pub bytes: &'a [u8],
    /// Where `bytes` begins in the byte stream.
    pub offset: usize,
}

impl<'a> Nal<'a> {
    /// What it holds.
    pub fn kind(&self) -> NalType {
        NalType::of(self.bytes[0])
    }

    /// `nal_ref_idc`, 0 to 3; 0 where no other picture refers to it.
    pub fn reference(&self) -> u8 {
        self.bytes[0] >> 5 & 3
    }

    /// The payload behind the header byte, emulation prevention still in.
    pub fn payload(&self) -> &'a [u8] {
        &self.bytes[1..]
    }
}

/// Iterates over the NAL units of an Annex B byte stream: start codes of 3 or 4 bytes, zeros after a unit left
/// out, empty units skipped. What stands before the first start code is left out. About 1 ns a byte.
pub fn nals(stream: &[u8]) -> impl Iterator<Item = Nal<'_>> {
    let mut next = find_start_code(stream, 0).map(|at| at.saturating_add(3));
    std::iter::from_fn(move || {
        loop {
            let start = next?;
            let end = find_start_code(stream, start);
            next = end.map(|at| at.saturating_add(3));
            let bytes = trim_zeros(&stream[start..end.unwrap_or(stream.len())]);
            if !bytes.is_empty() {
                return Some(Nal { bytes, offset: start });
            }
        }
    })
}

/// The NAL units in front of the first one that is a slice by its first byte, and where that one's header begins; `None` where there
/// is none. Looks at no byte behind that header.
pub(in crate::bitstream) fn head(
    access_unit: &[u8],
    is_slice: impl Fn(u8) -> bool,
) -> (impl Iterator<Item = Nal<'_>>, Option<usize>) {
    let (mut from, mut end, mut slice) = (0, access_unit.len(), None);
    while let Some(at) = find_start_code(access_unit, from) {
        from = at.saturating_add(3);
        if access_unit.get(from).is_some_and(|&header| is_slice(header)) {
            (end, slice) = (at, Some(from));
            break;
        }
    }
    (nals(&access_unit[..end]), slice)
}

/// A NAL unit's last byte is never zero (§7.4.1), so zeros at its end belong to the byte stream.
fn trim_zeros(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last.saturating_add(1));
    &bytes[..end]
}

/// Where the next 00 00 01 at or after `from` begins.
#[expect(
    clippy::arithmetic_side_effects,
    reason = "at is at least 2, and below the stream's length plus 3: every byte of every stream passes here"
)]
pub fn find_start_code(stream: &[u8], from: usize) -> Option<usize> {
    let mut at = from.saturating_add(2);
    while at < stream.len() {
        match stream[at] {
            // Neither this byte nor the two after it can end a start code that began earlier.
            2.. => at += 3,
            1 if stream[at - 1] == 0 && stream[at - 2] == 0 => return Some(at - 2),
            _ => at += 1,
        }
    }
    None
}

/// Removes the emulation prevention of a NAL unit's payload into `out`, which is cleared; stops at `limit_bytes`.
pub fn unescape(payload: &[u8], limit_bytes: usize, out: &mut Vec<u8>) {
    out.clear();
    let mut zeros = 0;
    for &byte in payload {
        if out.len() >= limit_bytes {
            return;
        }
        if zeros >= 2 && byte == 3 {
            zeros = 0;
            continue;
        }
        zeros = if byte == 0 { u32::saturating_add(zeros, 1) } else { 0 };
        out.push(byte);
    }
}

/// Appends `payload` with emulation prevention put in, so that no start code shows inside. It must end as every
/// payload does: with its stop bit, so not with a zero byte, or with the zero words that CABAC may add.
pub fn escape(payload: &[u8], out: &mut Vec<u8>) {
    let mut zeros = 0;
    for &byte in payload {
        if zeros >= 2 && byte <= 3 {
            out.push(3);
            zeros = 0;
        }
        zeros = if byte == 0 { u32::saturating_add(zeros, 1) } else { 0 };
        out.push(byte);
    }
    if zeros >= 2 {
        out.push(3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn start_codes_of_both_lengths_and_trailing_zeros() {
        let stream = [9, 0, 0, 0, 1, 0x67, 1, 0, 0, 0, 0, 1, 0x68, 2, 0, 0, 1, 0, 0, 1, 0x65, 3, 0, 0];
        let found: Vec<_> = nals(&stream).map(|nal| (nal.kind(), nal.bytes, nal.offset)).collect();
        let expected: [(NalType, &[u8], usize); 3] =
            [(NalType::Sps, &[0x67, 1], 5), (NalType::Pps, &[0x68, 2], 12), (NalType::Idr, &[0x65, 3], 20)];
        assert_eq!(found, expected);
    }

    fn mostly_zero() -> impl Strategy<Value = Vec<u8>> {
        proptest::collection::vec(prop_oneof![4 => Just(0u8), 3 => 0u8..5, 1 => any::<u8>()], 0..300)
    }

    fn payload() -> impl Strategy<Value = Vec<u8>> {
        (mostly_zero(), any::<bool>()).prop_map(|(mut bytes, zero_word)| {
            bytes.push(0x80);
            bytes.resize(bytes.len() + if zero_word { 2 } else { 0 }, 0);
            bytes
        })
    }

    proptest! {
        #[test]
        fn escaping_hides_start_codes_and_is_undone(payload in payload()) {
            let (mut escaped, mut back) = (Vec::new(), Vec::new());
            escape(&payload, &mut escaped);
            prop_assert_eq!(find_start_code(&escaped, 0), None);
            prop_assert_ne!(escaped.last(), Some(&0));
            unescape(&escaped, usize::MAX, &mut back);
            prop_assert_eq!(back, payload);
        }

        #[test]
        fn written_units_are_found(units in proptest::collection::vec(payload(), 0..8)) {
            let mut stream = Vec::new();
            for unit in &units {
                stream.extend_from_slice(&[0, 0, 1, 0x61]);
                escape(unit, &mut stream);
            }
            let mut found = Vec::new();
            for nal in nals(&stream) {
                let mut back = Vec::new();
                unescape(nal.payload(), usize::MAX, &mut back);
                found.push(back);
            }
            prop_assert_eq!(found, units);
        }

        #[test]
        fn the_search_agrees_with_the_plain_one(stream in mostly_zero(), from in 0usize..310) {
            let plain = (from..stream.len().max(from)).find(|&at| stream[at..].starts_with(&[0, 0, 1]));
            prop_assert_eq!(find_start_code(&stream, from), plain);
        }
    }
}
