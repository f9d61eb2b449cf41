//! Opus packets (RFC 6716) and the control headers around them in MPEG-TS ("Encapsulation of Opus in MPEG-TS",
//! draft 0.1.3, which FFmpeg, GStreamer and VLC speak).
//!
//! ```text
//! 0x3ff:11 start_trim:1 end_trim:1 extension:1 reserved:2 │ size: ff… s │ [start:16] [end:16] [len:8 …] │ packet
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

/// Samples a second of Opus' clock, whatever the coded bandwidth.
pub const RATE_HZ: u32 = 48_000;
/// The longest packet (RFC 6716 §3.4): 120 ms.
pub const PACKET_MAX_SAMPLES: u32 = 5760;

/// The control header of one access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlHeader {
    /// Bytes of the header itself.
    pub header_bytes: usize,
    /// Bytes of the packet behind it.
    pub packet_bytes: usize,
    /// Samples at the beginning that are not to be played.
    pub start_trim: u16,
    /// Samples at the end that are not to be played.
    pub end_trim: u16,
}

impl ControlHeader {
    /// Parses the header at the beginning of `bytes`; `None` where there is none, or it is cut off.
    pub fn parse(bytes: &[u8]) -> Option<ControlHeader> {
        let (&[a, b], mut rest) = bytes.split_first_chunk()?;
        if a != 0x7f || b & 0xe0 != 0xe0 {
            return None;
        }
        let mut packet_bytes = 0usize;
        loop {
            let (&size, tail) = rest.split_first()?;
            rest = tail;
            packet_bytes = packet_bytes.saturating_add(size.into());
            if size != 255 {
                break;
            }
        }
        let mut trim = |present: bool| {
            if !present {
                return Some(0);
            }
            let (&samples, tail) = rest.split_first_chunk()?;
            rest = tail;
            Some(u16::from_be_bytes(samples) & 0x1fff)
        };
        let (start_trim, end_trim) = (trim(b & 0x10 != 0)?, trim(b & 0x08 != 0)?);
        if b & 0x04 != 0 {
            let (&length, tail) = rest.split_first()?;
            rest = tail.get(usize::from(length)..)?;
        }
        Some(ControlHeader {
            header_bytes: bytes.len().saturating_sub(rest.len()),
            packet_bytes,
            start_trim,
            end_trim,
        })
    }
}

/// Appends the control header, without trimming, of a packet of `packet_bytes`.
pub fn write_control_header(packet_bytes: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(&[0x7f, 0xe0]);
    out.resize(out.len().saturating_add(packet_bytes / 255), 255);
    out.push((packet_bytes % 255).to_le_bytes()[0]);
}

/// Iterates over the whole packets of `bytes`, each behind its control header; ends at the first byte that is none
/// of one, and at one that is cut off.
pub fn packets(bytes: &[u8]) -> impl Iterator<Item = (ControlHeader, &[u8])> {
    let mut rest = bytes;
    std::iter::from_fn(move || {
        let header = ControlHeader::parse(rest)?;
        let (packet, tail) = rest[header.header_bytes..].split_at_checked(header.packet_bytes)?;
        rest = tail;
        Some((header, packet))
    })
}

/// How many samples at 48 kHz a packet lasts (RFC 6716 §3.1, §3.2); `None` for one that is not valid.
pub fn duration_samples(packet: &[u8]) -> Option<u32> {
    let &toc = packet.first()?;
    let frames = match toc & 3 {
        0 => 1,
        1 | 2 => 2,
        _ => u32::from(packet.get(1)? & 0x3f),
    };
    let configuration = toc >> 3;
    let frame = match configuration {
        0..=11 => [480, 960, 1920, 2880][usize::from(configuration & 3)],
        12..=15 => [480, 960][usize::from(configuration & 1)],
        _ => 120 << (configuration & 3),
    };
    Some(u32::saturating_mul(frames, frame)).filter(|samples| (1..=PACKET_MAX_SAMPLES).contains(samples))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_follow_the_first_byte() {
        // CELT full band 20 ms, one frame; SILK 60 ms, two frames; code 3 with three frames of 2.5 ms.
        assert_eq!(duration_samples(&[31 << 3]), Some(960));
        assert_eq!(duration_samples(&[3 << 3 | 1]), Some(5760));
        assert_eq!(duration_samples(&[28 << 3 | 3, 3]), Some(360));
        assert_eq!(duration_samples(&[28 << 3 | 3, 0]), None);
        assert_eq!(duration_samples(&[]), None);
    }

    #[test]
    fn trimming_and_extensions_are_read() {
        let header = ControlHeader::parse(&[0x7f, 0xfc, 255, 5, 0x01, 0x38, 0, 7, 2, 9, 9, 1]).unwrap();
        let expected = ControlHeader { header_bytes: 11, packet_bytes: 260, start_trim: 312, end_trim: 7 };
        assert_eq!(header, expected);
    }

    proptest! {
        #[test]
        fn packets_survive(all in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 1..800), 0..5)) {
            let mut bytes = Vec::new();
            for packet in &all {
                write_control_header(packet.len(), &mut bytes);
                bytes.extend_from_slice(packet);
            }
            let found: Vec<_> = packets(&bytes).map(|(_, packet)| packet.to_vec()).collect();
            prop_assert_eq!(found, all);
        }

        #[test]
        fn hostile_headers_end(bytes in proptest::collection::vec(prop_oneof![Just(0x7fu8), Just(0xe0), any::<u8>()], 0..300)) {
            prop_assert!(packets(&bytes).count() <= bytes.len());
        }
    }
}
