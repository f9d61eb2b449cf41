//! Any bytes as a cue of SCTE 35: as they are, and with a right length and checksum, without which nothing behind them is read.
//! Packets of both are moved in time.

use glassline_media::Ticks;
use glassline_media::container::ts::psi::{SectionReader, write_packets};
use glassline_media::container::ts::scte35::{SECTION_MAX_BYTES, SpliceInfo, TIME_WRAP};
use glassline_media::container::ts::{PACKET_BYTES, Packet, Shifter};

/// The checksum of sections (13818-1 annex B).
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    })
}

/// What cues are moved by.
const DISTANCE: Ticks = Ticks(-123_456_789);

/// Panics where a promise is broken: times are within their 33 bits, there are words for each cue, and a cue that is moved is right.
pub fn run(data: &[u8]) {
    check(data);
    let mut shifter = Shifter::new(DISTANCE);
    for packet in data.as_chunks::<PACKET_BYTES>().0 {
        shifter.shift(&mut packet.clone());
    }
    let Some(covered) = data.len().checked_sub(4).filter(|covered| (4..=4092).contains(covered)) else {
        return;
    };
    let mut section = data[..covered].to_vec();
    section[0] = 0xfc;
    section[1] = section[1] & 0xf0 | ((covered + 1) >> 8) as u8;
    section[2] = (covered + 1) as u8;
    section[3] = 0;
    let crc = crc(&section).to_be_bytes();
    section.extend_from_slice(&crc);
    check(&section);
    check_moved(&section);
}

/// A section with a right checksum, moved as packets of it, however many they are.
fn check_moved(section: &[u8]) {
    let mut bytes = Vec::new();
    write_packets(0x100, section, &mut 0, &mut bytes);
    let mut shifter = Shifter::new(DISTANCE);
    let (mut reader, mut moved) = (SectionReader::of_at_most(SECTION_MAX_BYTES), None);
    for packet in bytes.as_chunks_mut::<PACKET_BYTES>().0 {
        shifter.shift(packet);
        let packet = Packet::parse(packet).expect("a packet stays one");
        reader.push(packet.payload, packet.unit_start, &mut |found, _| moved = Some(found.to_vec()));
    }
    let moved = moved.expect("a section stays one");
    let Ok(before) = SpliceInfo::parse(section) else { return };
    let adjustment = Ticks(before.pts_adjustment as i64 + DISTANCE.0).wrapped();
    let expected = SpliceInfo { pts_adjustment: adjustment, ..before };
    assert_eq!(SpliceInfo::parse(&moved), Ok(expected));
}

fn check(section: &[u8]) {
    let Ok(info) = SpliceInfo::parse(section) else { return };
    assert!(info.time().is_none_or(|time| time < TIME_WRAP), "{info:?}");
    let words = info.to_string();
    assert!(!words.is_empty() && words.len() < 64 * section.len(), "{words}");
    assert!(!words.chars().any(char::is_control), "{words:?}");
    assert!(info.segmentations().count() <= section.len() / 6, "{info:?}");
}
