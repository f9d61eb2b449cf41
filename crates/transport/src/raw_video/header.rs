//! The payload header (RFC 4175 §4.2).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use thiserror::Error;

/// Bytes of the extended sequence number.
pub(super) const EXTENSION_BYTES: usize = 2;
/// Bytes of a segment's header.
pub(super) const SEGMENT_BYTES: usize = 6;
/// Segments that a packet may have: as many lines as any sender puts into the largest one, and far more.
pub(super) const SEGMENTS_MAX: usize = 256;

/// A run of pgroups of one line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Bytes of its pgroups.
    pub length: u16,
    /// Of the second field, or the second segment of a frame.
    pub field: bool,
    /// The line within the frame or field, from 0; 15 bits.
    pub line: u16,
    /// The first luma sample, from 0; 15 bits.
    pub offset: u16,
}

impl Segment {
    /// The header. `continues`: another one follows in the same packet.
    pub fn write(&self, continues: bool) -> [u8; SEGMENT_BYTES] {
        let line = (u16::from(self.field) << 15 | self.line & 0x7FFF).to_be_bytes();
        let offset = (u16::from(continues) << 15 | self.offset & 0x7FFF).to_be_bytes();
        let length = self.length.to_be_bytes();
        [length[0], length[1], line[0], line[1], offset[0], offset[1]]
    }

    /// Whether the first of these headers is of the second field.
    pub(super) fn is_second_field(heads: &[u8]) -> bool {
        heads.get(2).is_some_and(|byte| byte & 0x80 != 0)
    }

    /// A segment, and whether another one follows.
    pub(super) fn read(bytes: &[u8; SEGMENT_BYTES]) -> (Segment, bool) {
        let [l0, l1, n0, n1, o0, o1] = *bytes;
        let (line, offset) = (u16::from_be_bytes([n0, n1]), u16::from_be_bytes([o0, o1]));
        let segment = Segment {
            length: u16::from_be_bytes([l0, l1]),
            field: line >> 15 != 0,
            line: line & 0x7FFF,
            offset: offset & 0x7FFF,
        };
        (segment, offset >> 15 != 0)
    }
}

/// What the header of a payload says, for a caller that looks at packets without taking their samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PayloadHeader {
    /// The high half of the 32-bit sequence number.
    pub extended_sequence: u16,
    /// The first segment.
    pub first: Segment,
    /// The last one; the same where there is one.
    pub last: Segment,
    /// Bytes of the header; samples follow.
    pub bytes: usize,
}

impl PayloadHeader {
    /// Reads the header at the beginning of `payload`, whether its samples are there or not; `None` where it ends within the
    /// header, or has more segments than any sender's.
    pub fn parse(payload: &[u8]) -> Option<PayloadHeader> {
        let (extension, rest) = payload.split_first_chunk::<EXTENSION_BYTES>()?;
        let mut segments = rest.as_chunks::<SEGMENT_BYTES>().0.iter().take(SEGMENTS_MAX).map(Segment::read);
        let (first, mut continues) = segments.next()?;
        let (mut last, mut bytes) = (first, EXTENSION_BYTES + SEGMENT_BYTES);
        while continues {
            (last, continues) = segments.next()?;
            bytes = bytes.saturating_add(SEGMENT_BYTES);
        }
        let extended_sequence = u16::from_be_bytes(*extension);
        Some(PayloadHeader { extended_sequence, first, last, bytes })
    }
}

/// Why a payload is no raw video.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
pub(super) enum HeaderError {
    /// It ends within its header.
    #[error("a payload of {bytes} bytes ends within its header")]
    Short {
        /// Bytes of the payload.
        bytes: usize,
    },
    /// It ends before the samples that its header promises do.
    #[error("a payload has {found} bytes of samples where its header says {said}")]
    Samples {
        /// Bytes behind the header.
        found: usize,
        /// The sum of the segments' lengths.
        said: usize,
    },
    /// More segments than any sender has.
    #[error("a payload has more than {SEGMENTS_MAX} segments")]
    Segments,
}

/// Reads the header of a payload: the extended sequence number, and the bytes of the segments' headers. The segments go to
/// `segments`, which is cleared first; their samples follow the header one after the other.
pub(super) fn parse<'a>(
    payload: &'a [u8],
    segments: &mut Vec<Segment>,
) -> Result<(u16, &'a [u8], &'a [u8]), HeaderError> {
    segments.clear();
    let short = HeaderError::Short { bytes: payload.len() };
    let (extension, rest) = payload.split_first_chunk::<EXTENSION_BYTES>().ok_or(short)?;
    let mut said = 0usize;
    for bytes in rest.as_chunks::<SEGMENT_BYTES>().0 {
        let (segment, continues) = Segment::read(bytes);
        said = said.saturating_add(segment.length.into());
        segments.push(segment);
        if !continues {
            let heads_bytes = segments.len().saturating_mul(SEGMENT_BYTES);
            let (heads, samples) = rest.split_at_checked(heads_bytes).ok_or(short)?;
            if samples.len() < said {
                return Err(HeaderError::Samples { found: samples.len(), said });
            }
            return Ok((u16::from_be_bytes(*extension), heads, samples));
        }
        if segments.len() == SEGMENTS_MAX {
            return Err(HeaderError::Segments);
        }
    }
    Err(short)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_header_is_what_the_rfc_draws() {
        let first = Segment { length: 4, field: false, line: 539, offset: 1918 };
        let second = Segment { length: 8, field: true, line: 1, offset: 0 };
        let mut bytes = vec![0xAB, 0xCD];
        bytes.extend(first.write(true));
        bytes.extend(second.write(false));
        assert_eq!(bytes, [0xAB, 0xCD, 0, 4, 0x02, 0x1B, 0x87, 0x7E, 0, 8, 0x80, 1, 0, 0]);
        bytes.extend([7; 12]);
        let mut segments = Vec::new();
        let (extension, heads, samples) = parse(&bytes, &mut segments).unwrap();
        assert_eq!((extension, heads.len(), samples), (0xABCD, 12, &[7; 12][..]));
        assert_eq!(segments, [first, second]);
        let header = PayloadHeader { extended_sequence: 0xABCD, first, last: second, bytes: 14 };
        assert_eq!(PayloadHeader::parse(&bytes[..14]), Some(header));
        assert_eq!(PayloadHeader::parse(&bytes[..13]), None);
        assert_eq!(parse(&bytes[..25], &mut segments), Err(HeaderError::Samples { found: 11, said: 12 }));
        assert_eq!(parse(&bytes[..13], &mut segments), Err(HeaderError::Short { bytes: 13 }));
    }

    proptest! {
        #[test]
        fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..3000)) {
            let mut segments = Vec::new();
            let header = PayloadHeader::parse(&bytes);
            prop_assert!(header.is_none_or(|header| header.bytes <= bytes.len()));
            if let Ok((extension, heads, samples)) = parse(&bytes, &mut segments) {
                let [first, .., last] = [&segments[..], &segments[..]].concat()[..] else { panic!("none") };
                let bytes = 2 + heads.len();
                prop_assert_eq!(header, Some(PayloadHeader { extended_sequence: extension, first, last, bytes }));
                prop_assert_eq!(heads.len(), 6 * segments.len());
                let said: usize = segments.iter().map(|segment| usize::from(segment.length)).sum();
                prop_assert!(said <= samples.len());
            }
        }
    }
}
