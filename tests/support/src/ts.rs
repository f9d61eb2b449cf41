//! Synthetic MPEG-TS, made without any code of the product, so that it can judge the product.

use std::collections::BTreeMap;

/// Where the program map is.
pub const PMT_PID: u16 = 0x1000;
/// Where the video is.
pub const VIDEO_PID: u16 = 0x100;

/// Writes small, valid transport streams, with counters that go on over everything it writes.
#[derive(Debug, Default)]
pub struct Source {
    counters: BTreeMap<u16, u8>,
}

impl Source {
    fn packet(&mut self, pid: u16, unit_start: bool, payload: &[u8], key: bool) -> Vec<u8> {
        let counter = self.counters.entry(pid).or_insert(0);
        let mut packet = vec![0x47, u8::from(unit_start) << 6 | (pid >> 8) as u8, pid as u8, 0x30 | *counter];
        *counter = (*counter + 1) & 0x0F;
        let stuffing = 188 - 5 - payload.len();
        packet.push(stuffing as u8);
        if stuffing > 0 {
            packet.push(if key { 0x40 } else { 0 });
            packet.resize(packet.len() + stuffing - 1, 0xFF);
        }
        packet.extend_from_slice(payload);
        assert_eq!(packet.len(), 188);
        packet
    }

    fn section(table: &[u8]) -> Vec<u8> {
        let crc = crc32(table);
        [&[0], table, &crc.to_be_bytes()].concat()
    }

    /// PAT and PMT: one packet each.
    pub fn tables(&mut self) -> Vec<u8> {
        let pat = Self::section(&[
            0x00,
            0xB0,
            0x0D,
            0,
            1,
            0xC1,
            0,
            0,
            0,
            1,
            0xE0 | (PMT_PID >> 8) as u8,
            PMT_PID as u8,
        ]);
        let (high, low) = (0xE0 | (VIDEO_PID >> 8) as u8, VIDEO_PID as u8);
        let pmt = Self::section(&[
            0x02, 0xB0, 0x12, 0, 1, 0xC1, 0, 0, high, low, 0xF0, 0, 0x1B, high, low, 0xF0, 0,
        ]);
        [self.packet(0, true, &pat, false), self.packet(PMT_PID, true, &pmt, false)].concat()
    }

    /// A picture of `packets` packets, no IDR, with parameter sets and a recovery point in front of its slice;
    /// the container announces it, or not.
    pub fn recovery_point(&mut self, announced: bool, packets: usize) -> Vec<u8> {
        let pes = [0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1];
        // Delimiter, SPS, PPS; the message: ue(4), exact, no broken link, no slice groups, the payload's end.
        let head = [0, 0, 1, 0x09, 0xF0, 0, 0, 1, 0x67, 0x42, 0xC0, 0x0A, 0, 0, 1, 0x68, 0xCE];
        let message = [0, 0, 1, 0x06, 6, 2, 0x2C, 0x40, 0x80];
        let unit = [&pes[..], &head, &message, &[0, 0, 1, 0x41, 0x9A]].concat();
        let mut bytes = self.packet(VIDEO_PID, true, &unit, announced);
        for _ in 1..packets {
            bytes.extend(self.packet(VIDEO_PID, false, &[0x55; 100], false));
        }
        bytes
    }

    /// A picture of `packets` packets. Its header says nothing of NAL units: a key frame is announced.
    pub fn picture(&mut self, key: bool, packets: usize) -> Vec<u8> {
        let start =
            [0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1, 0, 0, 1, 0x09, 0xF0, 0, 0, 1, 0x41];
        let mut bytes = self.packet(VIDEO_PID, true, &start, key);
        for _ in 1..packets {
            bytes.extend(self.packet(VIDEO_PID, false, &[0x55; 100], false));
        }
        bytes
    }
}

/// Pictures that may be wrong behind [`Source::recovery_point`].
pub const RECOVERY_FRAMES: u32 = 4;

fn crc32(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc >> 31 == 1 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 }
        })
    })
}
