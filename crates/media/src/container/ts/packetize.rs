//! Cuts the payload of PES packets into transport packets.

use super::packet::{NULL_PID, PACKET_BYTES, Pcr, SYNC_BYTE};
use crate::bitstream::h264::END_OF_UNIT;

/// What the adaptation field of a unit's first packet says.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Field {
    pub(super) discontinuity: bool,
    pub(super) random_access: bool,
    pub(super) pcr: Option<Pcr>,
}

impl Field {
    /// Bytes behind the length byte; 0: no field needed.
    fn bytes(self) -> usize {
        match self.pcr {
            Some(_) => 7,
            None => usize::from(self.discontinuity || self.random_access),
        }
    }

    /// Bytes of payload beside it.
    fn room(self) -> usize {
        let bytes = self.bytes();
        PACKET_BYTES - 4 - if bytes > 0 { 1 + bytes } else { 0 }
    }

    fn flags(self) -> u8 {
        u8::from(self.discontinuity) << 7
            | u8::from(self.random_access) << 6
            | u8::from(self.pcr.is_some()) << 4
    }
}

/// Appends the packets of one PES packet, which is its header and what follows it, in `parts`; the last one is filled by its
/// adaptation field.
pub(super) fn packetize(
    pid: u16,
    continuity: &mut u8,
    field: Field,
    mut parts: [&[u8]; 3],
    out: &mut Vec<u8>,
) {
    out.reserve((length(&parts) + 8).div_ceil(184) * PACKET_BYTES);
    let mut first = Some(field);
    while first.is_some() || parts.iter().any(|part| !part.is_empty()) {
        append_packet(pid, continuity, first.take(), &mut parts, usize::MAX, out);
    }
}

fn length(parts: &[&[u8]]) -> usize {
    parts.iter().map(|part| part.len()).sum()
}

/// Appends one packet with the next bytes of `parts`, at most `limit_bytes` of them, filled by its adaptation field.
/// `first` is there for the packet with which the PES packet begins.
fn append_packet(
    pid: u16,
    continuity: &mut u8,
    first: Option<Field>,
    parts: &mut [&[u8]],
    limit_bytes: usize,
    out: &mut Vec<u8>,
) {
    let start = out.len();
    let field = first.unwrap_or_default();
    let left = length(parts).min(limit_bytes);
    let payload = left.min(field.room());
    let adaptation = PACKET_BYTES - 4 - payload;
    let [high, low] = (pid & NULL_PID | if first.is_some() { 0x4000 } else { 0 }).to_be_bytes();
    let control = if adaptation > 0 { 0x30 } else { 0x10 };
    out.extend_from_slice(&[SYNC_BYTE, high, low, control | *continuity & 0x0f]);
    if adaptation > 0 {
        out.push((adaptation - 1) as u8);
    }
    if adaptation > 1 {
        out.push(field.flags());
        if let Some(pcr) = field.pcr {
            out.extend_from_slice(&pcr.write());
        }
        out.resize(start + 4 + adaptation, 0xff);
    }
    for part in parts {
        let (now, later) = part.split_at(part.len().min(start + PACKET_BYTES - out.len()));
        out.extend_from_slice(now);
        *part = later;
    }
    *continuity = (*continuity + 1) & 0x0f;
}

/// A packet with the clock alone. Without payload the counter does not move on: `continuity` is the stream's last one.
pub(super) fn clock_packet(pid: u16, continuity: u8, clock: Pcr, jump: bool) -> [u8; PACKET_BYTES] {
    let mut packet = [0xff; PACKET_BYTES];
    let [high, low] = (pid & NULL_PID).to_be_bytes();
    let flags = 0x10 | u8::from(jump) << 7;
    packet[..6].copy_from_slice(&[SYNC_BYTE, high, low, 0x20 | continuity & 0x0f, 183, flags]);
    packet[6..12].copy_from_slice(&clock.write());
    packet
}

/// A PES packet of open length that is written piece by piece.
#[derive(Clone, Debug)]
pub(super) struct OpenPes {
    /// Still there until the first packet is written.
    field: Option<Field>,
    /// What does not fill a packet yet: less than one.
    rest: Vec<u8>,
}

impl OpenPes {
    /// Begins with `head`, the PES header, which is shorter than a packet.
    pub(super) fn new(field: Field, head: &[u8]) -> OpenPes {
        OpenPes { field: Some(field), rest: head.to_vec() }
    }

    /// Appends the packets that `bytes` fill; what does not fill one waits.
    pub(super) fn push(&mut self, pid: u16, continuity: &mut u8, bytes: &[u8], out: &mut Vec<u8>) {
        let mut parts = [&self.rest[..], bytes];
        out.reserve((self.rest.len() + bytes.len() + 8) / 184 * PACKET_BYTES);
        while length(&parts) >= self.field.unwrap_or_default().room() {
            append_packet(pid, continuity, self.field.take(), &mut parts, usize::MAX, out);
        }
        let rest = parts.concat();
        self.rest = rest;
    }

    /// Appends the last packets. They end with [`END_OF_UNIT`], which is never cut in two.
    pub(super) fn finish(mut self, pid: u16, continuity: &mut u8, out: &mut Vec<u8>) {
        self.rest.extend_from_slice(&END_OF_UNIT);
        let mut parts = [&self.rest[..], &[]];
        while !parts[0].is_empty() {
            let fits = parts[0].len() <= self.field.unwrap_or_default().room();
            let limit = if fits { usize::MAX } else { parts[0].len() - END_OF_UNIT.len() };
            append_packet(pid, continuity, self.field.take(), &mut parts, limit, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access_unit::{AccessUnit, Codec};
    use crate::bitstream::h264::ACCESS_UNIT_DELIMITER;
    use crate::container::ts::mux::{AudioFormat, MuxSettings, Muxer, UnitHead, VIDEO_PID};
    use crate::container::ts::packet::packets;
    use crate::container::ts::{Demuxer, Event, Packet};
    use crate::{Stamps, Ticks};
    use bytes::Bytes;
    use proptest::prelude::*;

    fn muxer() -> Muxer {
        let audio = Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
        Muxer::new(MuxSettings { video: Some(Codec::H264), audio, ..MuxSettings::default() }).unwrap()
    }

    fn sound(dts: i64) -> AccessUnit {
        AccessUnit {
            codec: Codec::Opus,
            data: Bytes::from_static(&[0xf8; 40]),
            pts: Ticks(dts),
            dts: Ticks(dts),
            random_access: true,
            stamps: Stamps::default(),
        }
    }

    /// A delimiter and slices of these sizes, none of which looks like a start code.
    fn unit(sizes: &[usize], key: bool) -> Vec<Vec<u8>> {
        let head = u8::from(key) * 0x20 + 0x41 + u8::from(key) * 4;
        sizes
            .iter()
            .enumerate()
            .map(|(index, &size)| {
                let before = if index == 0 { &ACCESS_UNIT_DELIMITER[..] } else { &[] };
                [before, &[0, 0, 1, head], &vec![0x5a; size]].concat()
            })
            .collect()
    }

    fn poll(demuxer: &mut Demuxer) -> Vec<AccessUnit> {
        std::iter::from_fn(|| demuxer.poll())
            .filter_map(|event| match event {
                Event::AccessUnit { unit, .. } => Some(unit),
                _ => None,
            })
            .collect()
    }

    proptest! {
        #[test]
        fn a_picture_by_the_slice_is_the_picture(
            pictures in proptest::collection::vec(proptest::collection::vec(0usize..700, 1..9), 1..8),
            lag in 0i64..2,
        ) {
            let (mut muxer, mut demuxer, mut out) = (muxer(), Demuxer::new(), Vec::new());
            for (number, sizes) in pictures.iter().enumerate() {
                let dts = number as i64 * 1800;
                let head = UnitHead {
                    pts: Ticks(dts + lag),
                    dts: Ticks(dts),
                    random_access: number % 3 == 0,
                    captured: None,
                };
                let slices = unit(sizes, head.random_access);
                muxer.begin(&head, &mut out).unwrap();
                for slice in &slices {
                    let before = out.len();
                    muxer.slice(slice, &mut out);
                    // Less than a packet stays behind.
                    prop_assert!(out.len() + PACKET_BYTES > before + slice.len());
                    muxer.write(&sound(dts), &mut out).unwrap();
                }
                muxer.end(&mut out);
                let last = packets(&out).filter(|bytes| Packet::parse(bytes).unwrap().pid == VIDEO_PID).last();
                prop_assert!(last.unwrap().ends_with(&END_OF_UNIT));
                demuxer.push(&out);
                out.clear();
                // All of it is there before the next picture, and nothing else.
                let units = poll(&mut demuxer);
                let video: Vec<_> = units.iter().filter(|unit| unit.codec == Codec::H264).collect();
                prop_assert_eq!(video.len(), 1);
                prop_assert_eq!(&video[0].data[..], &slices.concat()[..]);
                prop_assert_eq!(video[0].random_access, head.random_access);
                prop_assert_eq!(video[0].pts - video[0].dts, Ticks(lag));
                prop_assert_eq!(units.len() - 1, slices.len());
            }
            let counters = demuxer.counters();
            prop_assert_eq!((counters.continuity_errors, counters.damaged_units), (0, 0));
        }
    }

    #[test]
    fn the_first_packets_leave_before_the_unit_is_known() {
        let (mut muxer, mut out) = (muxer(), Vec::new());
        let head = UnitHead { pts: Ticks(900), dts: Ticks(900), random_access: true, captured: None };
        muxer.begin(&head, &mut out).unwrap();
        muxer.slice(&unit(&[400], true)[0], &mut out);
        let found: Vec<_> = packets(&out).map(|bytes| Packet::parse(bytes).unwrap()).collect();
        let [_, _, first, ..] = found[..] else { panic!("tables and a packet") };
        assert_eq!(
            (first.pid, first.random_access(), first.pcr().map(Pcr::base)),
            (VIDEO_PID, true, Some(900))
        );
        assert_eq!(found.len(), 4, "two tables, two whole packets");
    }

    #[test]
    fn a_large_unit_does_not_wait_for_the_next_either() {
        let data = unit(&[70_000], true).concat();
        let mut unit = sound(0);
        (unit.codec, unit.data) = (Codec::H264, Bytes::from(data.clone()));
        let (mut demuxer, mut out) = (Demuxer::new(), Vec::new());
        muxer().write(&unit, &mut out).unwrap();
        demuxer.push(&out);
        assert_eq!(poll(&mut demuxer)[0].data, data);
    }

    #[test]
    fn what_comes_out_of_turn_does_no_harm() {
        let (mut muxer, mut out) = (muxer(), Vec::new());
        muxer.slice(&[0, 0, 1, 0x65, 7], &mut out);
        muxer.end(&mut out);
        assert!(out.is_empty());
        let head = UnitHead { pts: Ticks(0), dts: Ticks(0), random_access: true, captured: None };
        muxer.begin(&head, &mut out).unwrap();
        muxer.slice(&[0, 0, 1, 0x65, 7], &mut out);
        // The next one ends it.
        muxer.begin(&UnitHead { dts: Ticks(1), pts: Ticks(1), ..head }, &mut out).unwrap();
        muxer.slice(&[0, 0, 1, 0x41, 8], &mut out);
        let mut demuxer = Demuxer::new();
        demuxer.push(&out);
        let with_delimiter = [&ACCESS_UNIT_DELIMITER[..], &[0, 0, 1, 0x65, 7]].concat();
        assert_eq!(poll(&mut demuxer)[0].data, with_delimiter);
        let none = MuxSettings { video: None, ..MuxSettings::default() };
        let audio = Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
        assert!(Muxer::new(MuxSettings { audio, ..none }).unwrap().begin(&head, &mut out).is_err());
    }
}
