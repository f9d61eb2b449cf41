//! Any bytes as a cue of SCTE 35: as they are, and with a right length and checksum, without which nothing behind them is read.

use glassline_media::container::ts::scte35::{SpliceInfo, TIME_WRAP};

/// The checksum of sections (13818-1 annex B).
fn crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            crc << 1 ^ if crc >> 31 == 1 { 0x04c1_1db7 } else { 0 }
        })
    })
}

/// Panics where a promise is broken: times are within their 33 bits, and there are words for each cue.
pub fn run(data: &[u8]) {
    check(data);
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
}

fn check(section: &[u8]) {
    let Ok(info) = SpliceInfo::parse(section) else { return };
    assert!(info.time().is_none_or(|time| time < TIME_WRAP), "{info:?}");
    let words = info.to_string();
    assert!(!words.is_empty() && words.len() < 64 * section.len(), "{words}");
    assert!(!words.chars().any(char::is_control), "{words:?}");
    assert!(info.segmentations().count() <= section.len() / 6, "{info:?}");
}
