//! Time stamps of a transport stream moved in place: PCR, PTS and DTS, by one distance, so that two streams share a clock.
//!
//! Cues of SCTE 35 are moved by their `pts_adjustment`, which stands near the beginning of a section, while the checksum over all of
//! it stands at the end, where the section may be packets further on. A CRC is linear, so what the checksum changes by follows from
//! what the adjustment changes by and from the section's length: it is kept until the end comes by, and no packet is held back.
//!
//! ```text
//! packet 1: │ fc length … pts_adjustment + distance … │   packet n: │ … checksum ^ change │ next section …
//!                              └──► change ────────────────────────────────────┘
//! ```
//! What stands in other places stays: `OPCR`, and stamps in scrambled payload or in a header that a packet cuts, which no multiplexer
//! makes. Of a cue with an adjustment that a packet cuts the checksum is made wrong, so that receivers drop it: its time would be.
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
use super::{psi, scte35};
use crate::time::Ticks;
use serde::{Deserialize, Serialize};

/// The bytes of a PCR in an adaptation field (13818-1 table 2-6): behind the packet's header, the field's length and its flags.
const PCR_BYTES: std::ops::Range<usize> = 6..12;

/// The adjustment within a section of SCTE 35: seven bits of other things, then 33 bits (35 §9.6).
const ADJUSTMENT_AT: usize = 4;
const ADJUSTMENT_BYTES: usize = 5;
const CRC_BYTES: usize = 4;
/// PIDs on which a cue goes on from packet to packet at one time.
const OPEN_MAX: usize = super::demux::DATA_STREAMS_MAX;

/// Moves the stamps of a transport stream by one distance, packet by packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Shifter {
    distance: Ticks,
    /// PIDs on which a cue goes on, the newest last.
    #[serde(default)]
    open: Vec<OpenCue>,
}

/// A cue that goes on behind a packet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct OpenCue {
    pid: u16,
    /// The counter of the newest packet.
    counter: u8,
    /// What was open in front of that packet: where it is sent twice, it is moved twice.
    before: Option<Section>,
    section: Option<Section>,
}

/// A section as far as it has come.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Section {
    /// Table, length and version of the protocol.
    head: [u8; ADJUSTMENT_AT],
    /// Bytes that have gone by.
    at: usize,
    /// What the checksum changes by.
    change: [u8; CRC_BYTES],
}

impl Shifter {
    /// Moves all stamps by `distance`.
    pub fn new(distance: Ticks) -> Shifter {
        Shifter { distance, open: Vec::new() }
    }

    /// The distance.
    pub fn distance(&self) -> Ticks {
        self.distance
    }

    /// Moves the clock and the stamps of the next packet of the stream, modulo 2³³ ticks. Returns the header of the PES packet that
    /// begins in it, as it is now. A packet that cannot be parsed stays as it is.
    pub fn shift(&mut self, packet: &mut [u8; PACKET_BYTES]) -> Option<PesHeader> {
        let parsed = Packet::parse(packet).ok()?;
        if parsed.transport_error {
            return None;
        }
        let is_readable = parsed.has_payload && !parsed.scrambled;
        let begins = parsed.unit_start && is_readable;
        let (clock, payload_bytes) = (parsed.pcr(), parsed.payload.len());
        let (pid, counter) = (parsed.pid, parsed.continuity);
        let header = if begins { PesHeader::parse(parsed.payload).ok() } else { None };
        if let Some(clock) = clock {
            let moved = Ticks(i64::try_from(clock.base()).ok()?.saturating_add(self.distance.0)).wrapped();
            let ticks = moved.saturating_mul(300).saturating_add(u64::from(clock.extension()));
            packet.get_mut(PCR_BYTES)?.copy_from_slice(&Pcr::new(ticks).write());
        }
        let payload = packet.get_mut(PACKET_BYTES.checked_sub(payload_bytes)?..)?;
        let Some(header) = header else {
            if is_readable {
                self.shift_sections(payload, begins, pid, counter);
            }
            return None;
        };
        pes::shift_stamps(payload, &header, self.distance);
        PesHeader::parse(payload).ok()
    }

    /// Moves the cues in the payload of a packet that begins no PES packet.
    fn shift_sections(&mut self, payload: &mut [u8], begins: bool, pid: u16, counter: u8) {
        let known = self.open.iter().position(|open| open.pid == pid).map(|at| self.open.remove(at));
        if known.is_none() && !begins {
            return;
        }
        let before = known.and_then(|open| match counter.wrapping_sub(open.counter) & 0x0f {
            0 => open.before,
            1 => open.section,
            // Packets are missing: of what was open the rest is not known.
            _ => None,
        });
        let section = shift_payload(payload, begins, before, self.distance);
        if before.is_some() || section.is_some() {
            if self.open.len() >= OPEN_MAX {
                self.open.remove(0);
            }
            self.open.push(OpenCue { pid, counter, before, section });
        }
    }
}

/// Moves the sections in a packet's payload, of which the first goes on with `open`. Returns the cue that goes on behind it.
fn shift_payload(
    payload: &mut [u8],
    begins: bool,
    open: Option<Section>,
    distance: Ticks,
) -> Option<Section> {
    if !begins {
        let mut section = open?;
        section.shift(payload, distance);
        return (!section.is_whole()).then_some(section);
    }
    let (pointer, rest) = payload.split_first_mut()?;
    let (tail, mut heads) = rest.split_at_mut_checked(usize::from(*pointer))?;
    if let Some(mut section) = open {
        section.shift(tail, distance);
    }
    while heads.first().is_some_and(|&table| table != 0xff) {
        let mut section = Section::default();
        let taken = section.shift(heads, distance);
        if !section.is_whole() {
            // What begins with another table is no cue, whatever follows.
            return Some(section).filter(|section| section.head[0] == scte35::TABLE_ID);
        }
        heads = heads.get_mut(taken..)?;
    }
    None
}

impl Section {
    /// Bytes of all of it; `None` while that is not known.
    fn bytes(&self) -> Option<usize> {
        let [_, high, low, _] = self.head;
        (self.at >= 3).then(|| usize::from(u16::from_be_bytes([high & 0x0f, low])).saturating_add(3))
    }

    fn is_whole(&self) -> bool {
        self.bytes().is_some_and(|bytes| self.at >= bytes)
    }

    /// Goes on with `bytes`, which it may end in. Returns how many of them are its own.
    fn shift(&mut self, bytes: &mut [u8], distance: Ticks) -> usize {
        let mut taken = 0usize;
        while let Some(rest) = bytes.get_mut(taken..).filter(|rest| !rest.is_empty() && !self.is_whole()) {
            if self.at == ADJUSTMENT_AT {
                self.adjust(rest, distance);
            }
            let Some(byte) = rest.first_mut() else { break };
            if let Some(place) = self.head.get_mut(self.at) {
                *place = *byte;
            }
            let check = self.bytes().and_then(|bytes| self.at.checked_sub(bytes.checked_sub(CRC_BYTES)?));
            if let Some(change) = check.and_then(|at| self.change.get(at)) {
                *byte ^= change;
            }
            self.at = self.at.saturating_add(1);
            taken = taken.saturating_add(1);
        }
        taken
    }

    /// Moves the adjustment, which `bytes` begin with, where this is a cue.
    fn adjust(&mut self, bytes: &mut [u8], distance: Ticks) {
        let covered = self.bytes().and_then(|bytes| bytes.checked_sub(CRC_BYTES));
        let behind = covered.and_then(|covered| covered.checked_sub(ADJUSTMENT_AT + ADJUSTMENT_BYTES));
        let (Some(behind), [scte35::TABLE_ID, _, _, 0]) = (behind, self.head) else { return };
        let Some(field) = bytes.first_chunk_mut::<ADJUSTMENT_BYTES>() else {
            if distance.wrapped() != 0 {
                self.change = [0xff; CRC_BYTES];
            }
            return;
        };
        let before = *field;
        *field = scte35::adjusted(before, distance);
        // Of both the checksum over the same bytes behind them: zeros.
        let check = |field: [u8; ADJUSTMENT_BYTES]| {
            let mut bytes = field.to_vec();
            bytes.resize(ADJUSTMENT_BYTES.saturating_add(behind), 0);
            psi::crc(&bytes)
        };
        self.change = (check(before) ^ check(*field)).to_be_bytes();
    }
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
               let mut shifter = Shifter::new(Ticks(distance));
               for packet in packets.as_chunks_mut::<PACKET_BYTES>().0 {
                   shifter.shift(packet);
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
               let mut shifter = Shifter::new(Ticks(distance));
               let header = shifter.shift(&mut packet);
               let has_cue = Packet::parse(&before).is_ok_and(|packet| packet.payload.contains(&scte35::TABLE_ID));
               if header.is_none() && !has_cue {
                   prop_assert_eq!(&packet[12..], &before[12..]);
               }
           }

           /// Whatever comes on a PID of sections: lengths, places and all that is not of a cue stay, and what is kept is bounded.
           #[test]
           fn no_payload_of_sections_does_harm(
               payloads in proptest::collection::vec((proptest::collection::vec(prop_oneof![Just(0xfcu8), Just(0), any::<u8>()], 184), any::<bool>(), 0u16..20, 0u8..3), 1..60),
               distance: i64,
           ) {
               let mut shifter = Shifter::new(Ticks(distance));
               let mut counter = 0;
               for (payload, start, pid, step) in payloads {
                   counter = (counter + step) & 0x0f;
                   let mut packet = [0; PACKET_BYTES];
                   packet[..4].copy_from_slice(&[0x47, if start { 0x40 } else { 0 }, pid as u8, 0x10 | counter]);
                   packet[4..].copy_from_slice(&payload);
                   let head = packet[..4].to_vec();
                   shifter.shift(&mut packet);
                   prop_assert_eq!(&packet[..4], &head[..]);
                   prop_assert!(shifter.open.len() <= OPEN_MAX);
               }
           }

           /// Cues of any length, several in a packet and over several, beside tables and repeated packets.
           #[test]
           fn all_cues_move_by_the_distance_however_packets_cut_them(
               cues in proptest::collection::vec((0u64..1 << 33, 0usize..600), 1..12),
               repeated in proptest::collection::vec(any::<bool>(), 64),
               distance in -Ticks::WRAP..Ticks::WRAP,
           ) {
               let sections: Vec<_> = cues.iter().map(|&(adjustment, bytes)| cue(adjustment, bytes)).collect();
               let mut packets = Vec::new();
               for (packet, is_repeated) in packed(&sections).into_iter().zip(repeated.iter().cycle()) {
                   packets.push(packet);
                   packets.extend(is_repeated.then_some(packet));
               }
               let mut shifter = Shifter::new(Ticks(distance));
               for packet in &mut packets {
    let _ = shifter.shift(packet);
    }
               prop_assert!(packets.windows(2).all(|pair| pair[0][3] != pair[1][3] || pair[0] == pair[1]), "repeats stay repeats");
               let mut found = Vec::new();
               let mut reader = psi::SectionReader::of_at_most(scte35::SECTION_MAX_BYTES);
               packets.dedup();
               for packet in &packets {
                   let packet = Packet::parse(packet).unwrap();
                   reader.push(packet.payload, packet.unit_start, &mut |section, _| found.push(section.to_vec()));
               }
               prop_assert_eq!(found.len(), sections.len());
               for (found, before) in found.iter().zip(&sections) {
                   let before = scte35::SpliceInfo::parse(before).unwrap();
                   match scte35::SpliceInfo::parse(found) {
                       Ok(moved) => {
                           let expected = Ticks(before.pts_adjustment as i64 + distance).wrapped();
                           prop_assert_eq!(moved, scte35::SpliceInfo { pts_adjustment: expected, ..before });
                       }
                       // A packet has cut its adjustment.
                       Err(error) => prop_assert!(matches!(error, crate::container::ts::Error::Crc { .. }), "{error}"),
                   }
               }
               prop_assert!(scte35::SpliceInfo::parse(&found[0]).is_ok(), "the first begins at the packet's beginning");
           }
       }

    /// A `time_signal` with a descriptor of so many bytes.
    fn cue(adjustment: u64, bytes: usize) -> Vec<u8> {
        let mut section = vec![0xfc, 0x30, 0, 0];
        section.extend_from_slice(&adjustment.to_be_bytes()[3..]);
        section.extend_from_slice(&[0, 0xff, 0xf0, 5, 6, 0xfe, 0, 1, 2, 3]);
        let parts: Vec<_> = vec![7; bytes].chunks(200).map(<[u8]>::to_vec).collect();
        let length = bytes + 2 * parts.len();
        section.extend_from_slice(&(length as u16).to_be_bytes());
        for part in parts {
            section.extend_from_slice(&[9, part.len() as u8]);
            section.extend_from_slice(&part);
        }
        let length = section.len() + 4 - 3;
        (section[1], section[2]) = (0x30 | (length >> 8) as u8, length as u8);
        let check = psi::crc(&section);
        section.extend_from_slice(&check.to_be_bytes());
        section
    }

    /// The sections end to end on one PID, as few packets as there can be.
    fn packed(sections: &[Vec<u8>]) -> Vec<[u8; PACKET_BYTES]> {
        let bytes = sections.concat();
        let starts: Vec<_> =
            sections.iter().scan(0, |at, section| Some(std::mem::replace(at, *at + section.len()))).collect();
        let (mut packets, mut at) = (Vec::new(), 0);
        while at < bytes.len() {
            let mut packet = [0xff; PACKET_BYTES];
            let next = starts.iter().find(|start| **start >= at).map(|start| start - at);
            let pointer = next.filter(|next| *next < 183);
            packet[..4].copy_from_slice(&[0x47, if pointer.is_some() { 0x41 } else { 0x01 }, 0xf1, 0x10]);
            packet[3] |= packets.len() as u8 & 0x0f;
            let from = 4 + usize::from(pointer.is_some());
            if let Some(pointer) = pointer {
                packet[4] = pointer as u8;
            }
            let most = if pointer.is_none() { next.unwrap_or(usize::MAX) } else { usize::MAX };
            let taken = (bytes.len() - at).min(PACKET_BYTES - from).min(most);
            packet[from..from + taken].copy_from_slice(&bytes[at..at + taken]);
            packets.push(packet);
            at += taken;
        }
        packets
    }

    #[test]
    fn a_cue_over_three_packets_is_right_behind_the_change_and_a_lost_packet_changes_nothing_else() {
        let mut packets = packed(&[cue(77, 400), cue(99, 10)]);
        assert_eq!(packets.len(), 3);
        let before = packets.clone();
        let mut shifter = Shifter::new(Ticks(-1000));
        for packet in &mut packets {
            let _ = shifter.shift(packet);
        }
        assert!(shifter.open.iter().all(|open| open.section.is_none()));
        let changed: Vec<_> = packets
            .iter()
            .zip(&before)
            .map(|(new, old)| new.iter().zip(old).filter(|(new, old)| new != old).count())
            .collect();
        // The adjustment; nothing; two checksums and the second adjustment.
        assert!(
            changed[0] > 0 && changed[0] <= 5 && changed[1] == 0 && changed[2] > 5 && changed[2] <= 13,
            "{changed:?}"
        );
        let mut shifter = Shifter::new(Ticks(-1000));
        let mut lost = before.clone();
        lost.remove(1);
        for packet in &mut lost {
            let _ = shifter.shift(packet);
        }
        let tail = usize::from(before[2][4]);
        assert_eq!(lost[1][..5 + tail], before[2][..5 + tail], "what is left of the cut cue");
        assert_eq!(lost[1][5 + tail..], packets[2][5 + tail..], "the cue behind it");
    }
}
