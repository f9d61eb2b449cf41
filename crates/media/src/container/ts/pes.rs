//! Headers of PES packets, which frame an elementary stream (13818-1 §2.4.3.6).
//!
//! ```text
//! 00 00 01 id │ length:16 │ 10 … align:1 … │ pts dts:2 … │ header length:8 │ [PTS:5] [DTS:5] … │ payload
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

use super::Error;
use crate::time::Ticks;

/// The stream id of the first video stream.
pub const STREAM_ID_VIDEO: u8 = 0xe0;
/// The stream id of the first MPEG audio stream.
pub const STREAM_ID_AUDIO: u8 = 0xc0;
/// The stream id of formats that 13818-1 does not know, such as Opus.
pub const STREAM_ID_PRIVATE: u8 = 0xbd;

/// Bytes up to and including the header's length.
pub const FIXED_BYTES: usize = 9;

/// A PES header, parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PesHeader {
    /// The kind of stream.
    pub stream_id: u8,
    /// Bytes of the whole PES packet, header included; `None` where it is left open.
    pub packet_bytes: Option<usize>,
    /// Where the payload begins.
    pub payload_start: usize,
    /// 33 bits, if it is there.
    pub pts: Option<u64>,
    /// 33 bits, if it is there (only beside a PTS).
    pub dts: Option<u64>,
}

impl PesHeader {
    /// Bytes of the whole packet that begins with `bytes`, read from its length field; `None` where it is left
    /// open or not there yet.
    pub fn packet_bytes(bytes: &[u8]) -> Option<usize> {
        let length = u16::from_be_bytes([*bytes.get(4)?, *bytes.get(5)?]);
        (length > 0).then_some(6 + usize::from(length))
    }

    /// Parses the header at the beginning of `bytes`.
    ///
    /// # Errors
    /// [`Error::Unexpected`] without start code, or for a kind of stream that has no such header (padding,
    /// program maps, …); [`Error::Truncated`] where the header is not whole.
    pub fn parse(bytes: &[u8]) -> Result<PesHeader, Error> {
        let truncated = |expected| Error::Truncated { what: "PES header", found: bytes.len(), expected };
        let &[a, b, c, stream_id, _, _, flags, contents, header_length, ..] = bytes else {
            return Err(truncated(FIXED_BYTES));
        };
        let found = u32::from_be_bytes([0, a, b, c]);
        if found != 1 {
            return Err(Error::Unexpected { what: "PES start code", found, expected: 1 });
        }
        if matches!(stream_id, 0xbc | 0xbe | 0xbf | 0xf0..=0xf2 | 0xf8 | 0xff) || flags & 0xc0 != 0x80 {
            let found = u32::from(stream_id) << 8 | u32::from(flags);
            return Err(Error::Unexpected { what: "PES stream id and marker", found, expected: 0xe080 });
        }
        let payload_start = usize::from(header_length).saturating_add(FIXED_BYTES);
        let optional = bytes.get(FIXED_BYTES..payload_start).ok_or(truncated(payload_start))?;
        let stamp = |index: usize| optional.as_chunks().0.get(index).map(parse_stamp);
        let pts = if contents & 0x80 != 0 { stamp(0) } else { None };
        let dts = if contents & 0xc0 == 0xc0 { stamp(1) } else { None };
        Ok(PesHeader { stream_id, packet_bytes: Self::packet_bytes(bytes), payload_start, pts, dts })
    }
}

impl PesHeader {
    /// PTS and DTS, where there is a PTS: unwrapped to what lies nearest to `reference`, the last DTS of the program, which this
    /// one's takes the place of.
    pub(super) fn stamps(&self, reference: &mut Option<Ticks>) -> Option<(Ticks, Ticks)> {
        let pts = self.pts?;
        let near = |wrapped: u64, reference: Option<Ticks>| {
            Ticks::unwrap_near(wrapped, reference.unwrap_or(Ticks(wrapped.cast_signed())))
        };
        let dts = near(self.dts.unwrap_or(pts), *reference);
        *reference = Some(dts);
        Some((near(pts, *reference), dts))
    }
}

/// Moves the stamps of `header`, which stands at the beginning of `bytes`, by `distance`, modulo 2³³ ticks.
pub(super) fn shift_stamps(bytes: &mut [u8], header: &PesHeader, distance: Ticks) {
    let Some(optional) = bytes.get_mut(FIXED_BYTES..) else { return };
    let stamps = [header.pts, header.dts];
    for (place, stamp) in optional.as_chunks_mut::<5>().0.iter_mut().zip(stamps) {
        let Some(stamp) = stamp else { return };
        let moved = Ticks(stamp.cast_signed().saturating_add(distance.0)).wrapped();
        *place = stamp_bytes(place[0] >> 4, moved);
    }
}

/// Appends a PES header for `payload_bytes` that are aligned with an access unit; the length is left open where it
/// does not fit 16 bits (which only video may do). The DTS is written only where it differs from the PTS.
pub fn write_header(stream_id: u8, pts: Ticks, dts: Ticks, payload_bytes: usize, out: &mut Vec<u8>) {
    let length = stated_length(pts, dts, payload_bytes).unwrap_or(0);
    write(stream_id, pts, dts, length, out);
}

/// Appends a PES header as [`write_header`] does, but of open length: for video of which more bytes are still to come.
pub fn write_open_header(stream_id: u8, pts: Ticks, dts: Ticks, out: &mut Vec<u8>) {
    write(stream_id, pts, dts, 0, out);
}

/// Whether the length of a PES packet with `payload_bytes` behind such a header fits 16 bits.
pub fn fits_length(pts: Ticks, dts: Ticks, payload_bytes: usize) -> bool {
    stated_length(pts, dts, payload_bytes).is_some()
}

/// What the length field says, if it can.
fn stated_length(pts: Ticks, dts: Ticks, payload_bytes: usize) -> Option<u16> {
    let head = usize::from(stamps_bytes(pts, dts)).saturating_add(3);
    u16::try_from(payload_bytes.saturating_add(head)).ok()
}

fn stamps_bytes(pts: Ticks, dts: Ticks) -> u8 {
    if pts.wrapped() == dts.wrapped() { 5 } else { 10 }
}

fn write(stream_id: u8, pts: Ticks, dts: Ticks, length: u16, out: &mut Vec<u8>) {
    let optional = stamps_bytes(pts, dts);
    let both = optional == 10;
    let [high, low] = length.to_be_bytes();
    let contents = if both { 0xc0 } else { 0x80 };
    out.extend_from_slice(&[0, 0, 1, stream_id, high, low, 0x84, contents, optional]);
    write_stamp(if both { 3 } else { 2 }, pts.wrapped(), out);
    if both {
        write_stamp(1, dts.wrapped(), out);
    }
}

fn parse_stamp(bytes: &[u8; 5]) -> u64 {
    let [a, b, c, d, e] = bytes.map(u64::from);
    (a >> 1 & 7) << 30 | b << 22 | (c >> 1) << 15 | d << 7 | e >> 1
}

fn write_stamp(prefix: u8, stamp: u64, out: &mut Vec<u8>) {
    out.extend_from_slice(&stamp_bytes(prefix, stamp));
}

fn stamp_bytes(prefix: u8, stamp: u64) -> [u8; 5] {
    let low = |value: u64| (value & 0xff) as u8;
    [
        prefix << 4 | low(stamp >> 30 & 7) << 1 | 1,
        low(stamp >> 22),
        low(stamp >> 14) | 1,
        low(stamp >> 7),
        low(stamp << 1) | 1,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_header_survives(pts in -Ticks::WRAP..Ticks::WRAP, lag in 0i64..90_000, bytes in 0usize..100_000) {
            let (pts, dts) = (Ticks(pts), Ticks(pts - lag));
            let mut out = Vec::new();
            write_header(STREAM_ID_VIDEO, pts, dts, bytes, &mut out);
            let header = PesHeader::parse(&out).unwrap();
            prop_assert_eq!(header.pts, Some(pts.wrapped()));
            prop_assert_eq!(header.dts, (lag > 0).then_some(dts.wrapped()));
            prop_assert_eq!(header.payload_start, out.len());
            let whole = out.len() + bytes;
            prop_assert_eq!(header.packet_bytes, (whole - 6 <= 0xffff).then_some(whole));
        }

        #[test]
        fn hostile_headers_do_no_harm(bytes in proptest::collection::vec(prop_oneof![Just(0u8), Just(1), any::<u8>()], 0..40)) {
            if let Ok(header) = PesHeader::parse(&bytes) {
                prop_assert!(header.payload_start <= bytes.len());
            }
        }
    }
}
