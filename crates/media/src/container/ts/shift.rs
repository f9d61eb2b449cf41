//! Time stamps of a transport stream moved in place: PCR, PTS and DTS, by one distance, so that two streams share a clock.
//!
//! A cue of SCTE 35 that lies in one packet is moved by its adjustment. What stands in other places stays: longer cues, `OPCR`, and stamps in scrambled payload or in a header that a
//! packet cuts, which no multiplexer makes.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::packet::{PACKET_BYTES, Packet, Pcr};
use super::pes::{self, PesHeader};
use super::scte35;
use crate::time::Ticks;

/// The bytes of a PCR in an adaptation field (13818-1 table 2-6): behind the packet's header, the field's length and its flags.
const PCR_BYTES: std::ops::Range<usize> = 6..12;

/// Moves the clock and the stamps of `packet` by `distance`, modulo 2³³ ticks. Returns the header of the PES packet that begins
/// in it, as it is now. A packet that cannot be parsed stays as it is.
pub fn shift_packet(packet: &mut [u8; PACKET_BYTES], distance: Ticks) -> Option<PesHeader> {
    let parsed = Packet::parse(packet).ok()?;
    if parsed.transport_error {
        return None;
    }
    let begins = parsed.unit_start && parsed.has_payload && !parsed.scrambled;
    let (clock, payload_bytes) = (parsed.pcr(), parsed.payload.len());
    let header = if begins { PesHeader::parse(parsed.payload).ok() } else { None };
    if let Some(clock) = clock {
        let moved = Ticks(i64::try_from(clock.base()).ok()?.saturating_add(distance.0)).wrapped();
        let ticks = moved.saturating_mul(300).saturating_add(u64::from(clock.extension()));
        packet.get_mut(PCR_BYTES)?.copy_from_slice(&Pcr::new(ticks).write());
    }
    let payload = packet.get_mut(PACKET_BYTES.checked_sub(payload_bytes)?..)?;
    if begins && header.is_none() {
        let pointer = usize::from(payload.first().copied()?);
        let section = payload.get_mut(pointer.checked_add(1)?..)?;
        let _ = scte35::shift(section, distance);
        return None;
    }
    let header = header?;
    pes::shift_stamps(payload, &header, distance);
    PesHeader::parse(payload).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_unit::{AccessUnit, Codec};
    use crate::container::ts::{MuxSettings, Muxer};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn stream(dts: i64, order: i64) -> Vec<u8> {
        let settings = MuxSettings { video: Some(Codec::H265), ..MuxSettings::default() };
        let (mut muxer, mut out) = (Muxer::new(settings).unwrap(), Vec::new());
        for number in 0..3 {
            let dts = Ticks(dts + number * 3600);
            let data = Bytes::from(vec![0x55; 400]);
            let stamps = crate::Stamps::default();
            let pts = dts + Ticks(order);
            let unit = AccessUnit { codec: Codec::H265, data, pts, dts, random_access: true, stamps };
            muxer.write(&unit, &mut out).unwrap();
        }
        out
    }

    fn stamps(packets: &[u8]) -> Vec<u64> {
        let mut found = Vec::new();
        for packet in packets.as_chunks::<PACKET_BYTES>().0 {
            let packet = Packet::parse(packet).unwrap();
            found.extend(packet.pcr().map(Pcr::base));
            if let Some(header) = PesHeader::parse(packet.payload).ok().filter(|_| packet.unit_start) {
                found.extend([header.pts.unwrap(), header.dts.or(header.pts).unwrap()]);
            }
        }
        found
    }

    proptest! {
        #[test]
        fn all_stamps_move_by_the_distance(dts in 0..Ticks::WRAP, order in 0i64..20_000, distance in -Ticks::WRAP..Ticks::WRAP) {
            let mut packets = stream(dts, order);
            let before = stamps(&packets);
            for packet in packets.as_chunks_mut::<PACKET_BYTES>().0 {
                shift_packet(packet, Ticks(distance));
            }
            let moved: Vec<_> =
                before.iter().map(|&stamp| Ticks(stamp as i64 + distance).wrapped()).collect();
            prop_assert_eq!(before.len(), 9);
            prop_assert_eq!(stamps(&packets), moved);
        }

        #[test]
        fn what_is_no_packet_does_no_harm(bytes in proptest::collection::vec(any::<u8>(), PACKET_BYTES), start: bool, distance: i64) {
            let mut packet: [u8; PACKET_BYTES] = bytes.try_into().unwrap();
            packet[0] = 0x47;
            if start {
                (packet[1], packet[3]) = (0x41, 0x10);
                packet[4..8].copy_from_slice(&[0, 0, 1, 0xe0]);
                packet[10] = 0x80;
            }
            let before = packet;
            let header = shift_packet(&mut packet, Ticks(distance));
            if header.is_none() {
                prop_assert_eq!(&packet[12..], &before[12..]);
            }
        }
    }
}
