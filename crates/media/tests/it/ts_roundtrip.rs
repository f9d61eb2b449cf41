//! What is muxed comes out again, however it is chopped; what is damaged does no harm.

#![allow(clippy::unwrap_used, reason = "tests")]

use bytes::Bytes;
use glassline_media::container::ts::packet::packets;
use glassline_media::container::ts::{
    AudioFormat, ContinuityChecker, Demuxer, Event, MuxSettings, Muxer, PACKET_BYTES, Packet, Scanner,
};
use glassline_media::{AccessUnit, Codec, Stamps, Ticks};
use proptest::prelude::*;

/// A picture of `bytes`, with its delimiter, so that it comes back as it went in.
fn picture(dts: i64, pts_lag: i64, key: bool, bytes: usize) -> AccessUnit {
    let mut data = vec![0, 0, 0, 1, 9, 0xf0, 0, 0, 1, if key { 0x65 } else { 0x41 }];
    data.extend((0..bytes).map(|index| (index % 251) as u8 | 0x10));
    AccessUnit {
        codec: Codec::H264,
        data: Bytes::from(data),
        pts: Ticks(dts + pts_lag),
        dts: Ticks(dts),
        random_access: key,
        stamps: Stamps::default(),
    }
}

/// An Opus packet of 20 ms.
fn sound(pts: i64, bytes: usize) -> AccessUnit {
    let mut data = vec![31 << 3];
    data.extend((0..bytes).map(|index| index as u8));
    AccessUnit {
        codec: Codec::Opus,
        data: Bytes::from(data),
        pts: Ticks(pts),
        dts: Ticks(pts),
        random_access: true,
        stamps: Stamps::default(),
    }
}

fn muxer() -> Muxer {
    let audio = Some(AudioFormat { codec: Codec::Opus, channels: 2, language: None, he_aac: None });
    Muxer::new(MuxSettings { video: Some(Codec::H264), audio, ..MuxSettings::default() }).unwrap()
}

prop_compose! {
    fn programme()(
        start in prop_oneof![Just(0i64), Ticks::WRAP - 30_000..Ticks::WRAP + 10, any::<u32>().prop_map(i64::from)],
        sizes in proptest::collection::vec((0usize..3000, 0usize..900, 0i64..3, any::<bool>()), 1..40),
    ) -> Vec<AccessUnit> {
        let mut units = Vec::new();
        for (number, (video, audio, lag, key)) in sizes.into_iter().enumerate() {
            let time = start + number as i64 * 1800;
            units.push(picture(time, lag * 1800, key || number == 0, video));
            units.push(sound(time - 700, audio));
        }
        units
    }
}

fn mux(units: &[AccessUnit]) -> Vec<u8> {
    let (mut muxer, mut out) = (muxer(), Vec::new());
    for unit in units {
        muxer.write(unit, &mut out).unwrap();
    }
    out
}

fn demux(bytes: &[u8], chop: usize) -> (Vec<AccessUnit>, Demuxer) {
    let (mut demuxer, mut units) = (Demuxer::new(), Vec::new());
    for part in bytes.chunks(chop) {
        demuxer.push(part);
        while let Some(event) = demuxer.poll() {
            units.extend(if let Event::AccessUnit { unit, .. } = event { Some(unit) } else { None });
        }
    }
    demuxer.finish();
    while let Some(event) = demuxer.poll() {
        units.extend(if let Event::AccessUnit { unit, .. } = event { Some(unit) } else { None });
    }
    (units, demuxer)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn units_come_back(units in programme(), chop in 1usize..2000) {
        let bytes = mux(&units);
        prop_assert_eq!(bytes.len() % PACKET_BYTES, 0);
        let mut checker = ContinuityChecker::new();
        for packet in packets(&bytes) {
            checker.check(&Packet::parse(packet).unwrap());
        }
        prop_assert_eq!(checker.errors(), 0);
        let (found, demuxer) = demux(&bytes, chop);
        prop_assert_eq!(demuxer.counters().damaged_units, 0);
        prop_assert_eq!(found.len(), units.len());
        // The first stamp decides on which turn of the 33 bits the scale lies.
        let delay = found[0].dts.0 - units[0].dts.0;
        prop_assert_eq!((delay - 4500).rem_euclid(Ticks::WRAP), 0);
        for (found, unit) in found.iter().zip(&units) {
            prop_assert_eq!(found.pts.0, unit.pts.0 + delay);
            prop_assert_eq!(found.dts.0, unit.dts.0 + delay);
            prop_assert_eq!(&found.data, &unit.data);
            prop_assert_eq!((found.codec, found.random_access), (unit.codec, unit.random_access));
        }
    }

    #[test]
    fn a_unit_is_there_with_its_last_byte(units in programme()) {
        let (mut muxer, mut demuxer, mut out) = (muxer(), Demuxer::new(), Vec::new());
        for unit in &units {
            out.clear();
            muxer.write(unit, &mut out).unwrap();
            demuxer.push(&out);
            let given = std::iter::from_fn(|| demuxer.poll())
                .filter(|event| matches!(event, Event::AccessUnit { .. }))
                .count();
            prop_assert_eq!(given, 1);
        }
    }

    #[test]
    fn the_scanner_finds_each_key_frame(units in programme()) {
        let bytes = mux(&units);
        let mut scanner = Scanner::new();
        let mut places = Vec::new();
        for (number, packet) in packets(&bytes).enumerate() {
            if let Some(entry) = scanner.scan(packet).entry {
                places.push(number - entry.packets_back as usize);
            }
        }
        prop_assert_eq!(places.len(), units.iter().filter(|unit| unit.codec == Codec::H264 && unit.random_access).count());
        for place in places {
            let packet = Packet::parse(packets(&bytes).nth(place).unwrap()).unwrap();
            prop_assert!(packet.unit_start && packet.random_access() && packet.pid == 0x100);
        }
    }

    #[test]
    fn loss_costs_units_and_never_invents_one(units in programme(), lost in proptest::collection::vec(any::<prop::sample::Index>(), 1..4)) {
        let bytes = mux(&units);
        let mut whole: Vec<_> = packets(&bytes).copied().collect();
        for index in lost {
            whole.remove(index.index(whole.len()));
        }
        let (found, _) = demux(whole.as_flattened(), 1316);
        for unit in found {
            prop_assert!(units.iter().any(|sent| sent.data == unit.data));
        }
    }

    #[test]
    fn damage_does_no_harm(
        units in programme(),
        flips in proptest::collection::vec((any::<prop::sample::Index>(), 0u8..8), 0..200),
        cut in any::<prop::sample::Index>(),
        chop in 1usize..2000,
    ) {
        let mut bytes = mux(&units);
        for (index, bit) in flips {
            let at = index.index(bytes.len());
            bytes[at] ^= 1 << bit;
        }
        bytes.truncate(cut.index(bytes.len()));
        let (_, demuxer) = demux(&bytes, chop);
        prop_assert!(demuxer.counters().packets <= (bytes.len() / PACKET_BYTES) as u64);
        let mut scanner = Scanner::new();
        for packet in packets(&bytes) {
            if let Some(entry) = scanner.scan(packet).entry {
                prop_assert_eq!(entry.point.prelude(true).len() % PACKET_BYTES, 0);
            }
        }
    }

    #[test]
    fn garbage_does_no_harm(bytes in proptest::collection::vec(prop_oneof![Just(0x47u8), Just(0), any::<u8>()], 0..6000)) {
        demux(&bytes, 500);
        let mut scanner = Scanner::new();
        for packet in packets(&bytes) {
            scanner.scan(packet);
        }
        prop_assert!(scanner.entry_here().is_none() || scanner.program().is_some());
    }
}

#[test]
fn an_open_length_is_bounded() {
    let mut out = Vec::new();
    let mut muxer = muxer();
    muxer.write(&picture(0, 0, true, 9 << 20), &mut out).unwrap();
    muxer.write(&picture(3600, 0, false, 70_000), &mut out).unwrap();
    muxer.write(&picture(7200, 0, false, 100), &mut out).unwrap();
    let (found, demuxer) = demux(&out, 1316);
    assert_eq!(demuxer.counters().oversized_units, 1);
    assert_eq!(found.iter().map(|unit| unit.dts.0).collect::<Vec<_>>(), [3600 + 4500, 7200 + 4500]);
}

#[test]
fn a_slice_behind_a_long_message_is_found_across_packets() {
    // No random access flag, 700 bytes of SEI in front, audio in between.
    for message_bytes in 0..700 {
        let mut unit = picture(0, 0, true, 2000);
        let mut data = vec![0, 0, 0, 1, 9, 0xf0, 0, 0, 1, 6];
        data.resize(data.len() + message_bytes, 0x55);
        data.extend_from_slice(&[0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 1, 0, 0, 1, 0x65, 0x88]);
        data.extend_from_slice(&unit.data[11..]);
        unit.data = Bytes::from(data);
        unit.random_access = false;
        let mut out = Vec::new();
        let mut muxer = muxer();
        muxer.write(&picture(-3600, 0, false, 10), &mut out).unwrap();
        let start = out.len() / PACKET_BYTES;
        muxer.write(&unit, &mut out).unwrap();
        let mut sent: Vec<_> = packets(&out).copied().collect();
        let mut between = Vec::new();
        muxer.write(&sound(0, 10), &mut between).unwrap();
        sent.insert(start + 1, *packets(&between).next().unwrap());
        let mut scanner = Scanner::new();
        let found: Vec<_> = sent
            .iter()
            .enumerate()
            .filter_map(|(number, packet)| Some((number, scanner.scan(packet).entry?)))
            .collect();
        assert_eq!(found.len(), 1, "{message_bytes}");
        assert_eq!(found[0].0 - found[0].1.packets_back as usize, start, "{message_bytes}");
    }
}
