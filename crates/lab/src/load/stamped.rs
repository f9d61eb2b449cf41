//! A transport stream that is made to be measured: every packet says which one it is and when it was sent.
//!
//! ```text
//! frame's first │ header 4 │ adaptation 8 (PCR) │ PES 14 │ AUD, slice 9 │ fill │ mark │ fill      │ check 8 │
//! others        │ header 4 │ fill                                       36     53          180       188
//! mark: sequence 8 │ frame's send time 8 │ position in the frame 1
//! ```
//! Numbers have 7 bits a byte under a set top bit, so that no start code comes about. The check is over sequence,
//! time, the bytes in front of them and those beside the position; the rest is a constant: no byte of a packet can
//! change unseen, and a packet that is made of two is noticed.

use glassline_media::container::ts::{PACKET_BYTES, SYNC_BYTE};
use glassline_media::{FrameRate, Ticks, Time};

/// The PID of the stream's video.
pub const VIDEO_PID: u16 = 0x100;
/// The PID of its program map.
pub const PMT_PID: u16 = 0x1000;

const TABLE_PACKETS: u64 = 2;
/// A key frame has as many packets as this many others.
const KEY_FRAME_WEIGHT: u64 = 4;

const HEAD: usize = 4;
const SEQUENCE: usize = 36;
const SENT: usize = 44;
const POSITION: usize = 52;
const FILL: usize = 60;
const CHECK: usize = 180;
const FIRST: u8 = 0x81;
const LAST: u8 = 0x82;
const MIDDLE: u8 = 0x80;
const FILLER: u8 = 0x55;
const TOP_BITS: u64 = 0x8080_8080_8080_8080;

/// The stream's shape: frames of one size, a key frame of four times that size each second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    frames: FrameRate,
    /// Frames from one key frame to the next.
    group: u64,
    /// Packets of a frame that is no key frame.
    packets: u64,
}

impl Shape {
    /// The shape with the mean rate that is nearest to `bitrate` (bits a second).
    ///
    /// # Errors
    /// The least rate that is possible at `frames` frames a second, in bits a second: a frame has at least two
    /// packets, a first and a last one.
    pub fn new(bitrate: u64, frames: FrameRate) -> Result<Shape, u64> {
        let group = (frames.as_f64().round() as u64).max(1);
        let weight = group - 1 + KEY_FRAME_WEIGHT;
        let group_seconds = frames.time_of(group).as_secs_f64();
        let group_packets = bitrate as f64 * group_seconds / (PACKET_BYTES * 8) as f64;
        let packets = ((group_packets - TABLE_PACKETS as f64) / weight as f64).round().max(0.0) as u64;
        let least = Shape { frames, group, packets: 2 };
        if packets < 2 { Err(least.bitrate()) } else { Ok(Shape { packets, ..least }) }
    }

    /// Mean bits a second.
    pub fn bitrate(&self) -> u64 {
        let packets = TABLE_PACKETS + (self.group - 1 + KEY_FRAME_WEIGHT) * self.packets;
        let bits = packets * (PACKET_BYTES * 8) as u64;
        (bits as f64 / self.frames.time_of(self.group).as_secs_f64()).round() as u64
    }

    /// Frames a second.
    pub fn frames(&self) -> FrameRate {
        self.frames
    }
}

impl Default for Shape {
    /// 5.02 Mbit/s, 50 frames a second.
    fn default() -> Shape {
        let frames = FrameRate::new(50, 1).expect("both parts are above zero");
        Shape { frames, group: 50, packets: 63 }
    }
}

/// Makes the stream.
#[derive(Clone, Debug, Default)]
pub struct Source {
    shape: Shape,
    sequence: u64,
    frame: u64,
}

impl Source {
    /// A source at its first frame.
    pub fn new(shape: Shape) -> Source {
        Source { shape, sequence: 0, frame: 0 }
    }

    /// The stream's shape.
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Number of the next frame, from 0.
    pub fn next_frame(&self) -> u64 {
        self.frame
    }

    /// Appends the next frame, which is sent now, to `out`; a key frame each second, behind PAT and PMT.
    pub fn frame(&mut self, sent: Time, out: &mut Vec<u8>) {
        let key = self.frame.is_multiple_of(self.shape.group);
        if key {
            tables((self.frame / self.shape.group) as u8, out);
        }
        let count = if key { KEY_FRAME_WEIGHT * self.shape.packets } else { self.shape.packets };
        for index in 0..count {
            let mut packet = [FILLER; PACKET_BYTES];
            let first = index == 0;
            packet[0] = SYNC_BYTE;
            packet[1] = u8::from(first) << 6 | (VIDEO_PID >> 8) as u8;
            packet[2] = VIDEO_PID as u8;
            packet[3] = if first { 0x30 } else { 0x10 } | (self.sequence & 0x0F) as u8;
            if first {
                self.unit_head(key, &mut packet);
            }
            packet[SEQUENCE..SENT].copy_from_slice(&spread(self.sequence));
            packet[SENT..POSITION].copy_from_slice(&spread(sent.as_nanos()));
            packet[POSITION] = match index {
                0 => FIRST,
                index if index + 1 == count => LAST,
                _ => MIDDLE,
            };
            let check = check(&packet, self.sequence, sent.as_nanos());
            packet[CHECK..].copy_from_slice(&spread(check));
            out.extend_from_slice(&packet);
            self.sequence += 1;
        }
        self.frame += 1;
    }

    /// Adaptation field with the clock, PES header with the time stamp, access unit delimiter or parameter sets, start of a slice.
    fn unit_head(&self, key: bool, packet: &mut [u8; PACKET_BYTES]) {
        // A second of lead, so that the time stamp lies ahead of the clock.
        let due = Time::ZERO + self.shape.frames.time_of(self.frame);
        let clock = Ticks::from_time(due).wrapped();
        let stamp = Ticks(Ticks::from_time(due).0 + i64::from(Ticks::RATE)).wrapped();
        packet[4..6].copy_from_slice(&[7, if key { 0x50 } else { 0x10 }]);
        packet[6..12].copy_from_slice(&(clock << 15 | 0x7E00).to_be_bytes()[2..]);
        packet[12..21].copy_from_slice(&[0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5]);
        packet[21] = 0x21 | (stamp >> 29) as u8 & 0x0E;
        packet[22] = (stamp >> 22) as u8;
        packet[23] = (stamp >> 14) as u8 | 1;
        packet[24] = (stamp >> 7) as u8;
        packet[25] = (stamp << 1) as u8 | 1;
        if key {
            // Parameter sets, the second of which goes on over the mark, and the slice behind it.
            packet[26..SEQUENCE].copy_from_slice(&[0, 0, 1, 0x67, 1, 0, 0, 1, 0x68, 1]);
            packet[POSITION + 1..POSITION + 6].copy_from_slice(&[0, 0, 1, 0x65, 0x88]);
        } else {
            packet[26..SEQUENCE].copy_from_slice(&[0, 0, 1, 9, 0xF0, 0, 0, 1, 0x41, 0x88]);
        }
    }
}

/// Appends PAT and PMT (ISO/IEC 13818-1 §2.4.4.4, §2.4.4.9): program 1, one H.264 stream.
fn tables(counter: u8, out: &mut Vec<u8>) {
    let [pmt_high, pmt_low] = (0xE000 | PMT_PID).to_be_bytes();
    let [high, low] = (0xE000 | VIDEO_PID).to_be_bytes();
    let pat = [0x00, 0xB0, 13, 0, 1, 0xC1, 0, 0, 0, 1, pmt_high, pmt_low];
    let pmt = [0x02, 0xB0, 18, 0, 1, 0xC1, 0, 0, high, low, 0xF0, 0, 0x1B, high, low, 0xF0, 0];
    for (pid, section) in [(0, &pat[..]), (PMT_PID, &pmt[..])] {
        let [pid_high, pid_low] = pid.to_be_bytes();
        let start = out.len();
        out.extend_from_slice(&[SYNC_BYTE, 0x40 | pid_high, pid_low, 0x10 | counter & 0x0F, 0]);
        out.extend_from_slice(section);
        out.extend_from_slice(&section_crc(section).to_be_bytes());
        out.resize(start + PACKET_BYTES, 0xFF);
    }
}

/// CRC-32 of a table's section (ISO/IEC 13818-1 annex A); over a section with its checksum it is 0. Bit by bit: tables
/// are rare.
pub(super) fn section_crc(bytes: &[u8]) -> u32 {
    bytes.iter().fold(u32::MAX, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte) << 24, |crc, _| {
            if crc >> 31 == 1 { crc << 1 ^ 0x04C1_1DB7 } else { crc << 1 }
        })
    })
}

/// Where in its frame a packet stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// The first packet: what a decoder waits for to begin.
    First,
    /// Neither.
    Middle,
    /// The last packet: what a decoder waits for to finish.
    Last,
}

/// What a packet says of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketStamp {
    /// Number of the packet, tables not counted.
    pub sequence: u64,
    /// When its frame was sent, by the source's monotonic clock.
    pub sent: Time,
    /// Its place in the frame.
    pub position: Position,
}

impl PacketStamp {
    /// The mark of a packet on [`VIDEO_PID`] that carries payload, or `None` where any byte of it is not as
    /// [`Source::frame`] made it; a `discontinuity_indicator` may have been set since. About 10 ns.
    #[inline]
    pub fn read(packet: &[u8; PACKET_BYTES]) -> Option<PacketStamp> {
        let (sequence, sent) = (gather(word(packet, SEQUENCE))?, gather(word(packet, SENT))?);
        let position = match packet[POSITION] {
            FIRST => Position::First,
            LAST => Position::Last,
            MIDDLE => Position::Middle,
            _ => return None,
        };
        let first = position == Position::First;
        let header = [
            SYNC_BYTE,
            u8::from(first) << 6 | (VIDEO_PID >> 8) as u8,
            VIDEO_PID as u8,
            if first { 0x30 } else { 0x10 } | (sequence & 0x0F) as u8,
        ];
        let whole = packet[..HEAD] == header
            && packet[FILL..CHECK] == [FILLER; CHECK - FILL]
            && word(packet, CHECK) == spread(check(packet, sequence, sent));
        whole.then_some(PacketStamp { sequence, sent: Time::from_nanos(sent), position })
    }

    /// Whether this mark's packet is the first of a key frame: its `random_access_indicator` is set.
    #[inline]
    pub fn begins_key_frame(&self, packet: &[u8; PACKET_BYTES]) -> bool {
        self.position == Position::First && packet[5] & 0x40 != 0
    }
}

/// 56 bits, 7 in each byte under a set top bit.
fn spread(value: u64) -> [u8; 8] {
    let halves = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) << 4;
    let quarters = halves & 0x0000_3FFF_0000_3FFF | (halves & 0x0FFF_C000_0FFF_C000) << 2;
    let bytes = quarters & 0x007F_007F_007F_007F | (quarters & 0x3F80_3F80_3F80_3F80) << 1;
    (bytes | TOP_BITS).to_be_bytes()
}

/// What [`spread`] spread, or `None` where that gives no such bytes.
fn gather(bytes: [u8; 8]) -> Option<u64> {
    let bytes = u64::from_be_bytes(bytes);
    let low = bytes & !TOP_BITS;
    let quarters = low & 0x007F_007F_007F_007F | (low >> 1) & 0x3F80_3F80_3F80_3F80;
    let halves = quarters & 0x0000_3FFF_0000_3FFF | (quarters >> 2) & 0x0FFF_C000_0FFF_C000;
    (bytes & TOP_BITS == TOP_BITS).then_some(halves & 0x0FFF_FFFF | (halves >> 4) & 0x00FF_FFFF_F000_0000)
}

/// 56 bits that change with any bit of sequence, time and the bytes from 4 to 36 and 52 to 60, but not with the
/// `discontinuity_indicator`, which a server may set.
fn check(packet: &[u8; PACKET_BYTES], sequence: u64, sent: u64) -> u64 {
    const ODD: u64 = 0x9E37_79B9_7F4A_7C15;
    let has_adaptation = packet[3] & 0x20 != 0;
    let flags = u64::from_be_bytes(word(packet, 4)) & if has_adaptation { !(0x80 << 48) } else { u64::MAX };
    let mut sum = (sequence ^ sent.rotate_left(17)).wrapping_mul(ODD);
    // Products that don't wait for each other.
    for (index, part) in [(1, flags), (2, at(packet, 12)), (3, at(packet, 20)), (4, at(packet, 28))] {
        sum = sum.wrapping_add(part.wrapping_mul(ODD.rotate_left(index * 11) | 1));
    }
    sum.wrapping_add(at(packet, POSITION).wrapping_mul(ODD.rotate_left(55) | 1)) >> 8
}

fn at(packet: &[u8; PACKET_BYTES], at: usize) -> u64 {
    u64::from_be_bytes(word(packet, at))
}

fn word(packet: &[u8; PACKET_BYTES], at: usize) -> [u8; 8] {
    packet[at..at + 8].try_into().expect("eight bytes inside a packet")
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::container::ts::Scanner;
    use proptest::prelude::*;

    fn stream(shape: Shape, frames: u64) -> Vec<[u8; PACKET_BYTES]> {
        let (mut source, mut bytes) = (Source::new(shape), Vec::new());
        for frame in 0..frames {
            source.frame(Time::from_millis(frame * 20 + 5), &mut bytes);
        }
        bytes.as_chunks().0.to_vec()
    }

    #[test]
    fn numbers_survive_and_make_no_start_code() {
        for value in [0, 1, 0x7F, 0x80, 0x3FFF_4000, 0x0123_4567_89AB_CDEF & ((1 << 56) - 1), (1 << 56) - 1] {
            assert_eq!(gather(spread(value)), Some(value), "{value:x}");
            assert!(spread(value).iter().all(|byte| *byte >= 0x80));
        }
    }

    #[test]
    fn the_rate_is_what_was_asked_for() {
        for (bitrate, frames, denominator) in
            [(5_000_000, 50, 1), (2_000_000, 25, 1), (20_000_000, 60_000, 1001)]
        {
            let frames = FrameRate::new(frames, denominator).unwrap();
            let shape = Shape::new(bitrate, frames).unwrap();
            let error = shape.bitrate() as f64 / bitrate as f64 - 1.0;
            assert!(error.abs() < 0.02, "{shape:?} has {} bits a second", shape.bitrate());
        }
        let fifty = FrameRate::new(50, 1).unwrap();
        assert_eq!(Shape::new(5_000_000, fifty), Ok(Shape::default()));
        assert_eq!(Shape::default().bitrate(), stream(Shape::default(), 50).len() as u64 * 188 * 8);
        let least = Shape::new(1, fifty).unwrap_err();
        assert!(Shape::new(least, fifty).is_ok());
    }

    #[test]
    fn our_scanner_finds_a_key_frame_each_second() {
        let mut scanner = Scanner::new();
        let packets = stream(Shape::default(), 101);
        let entries = packets.iter().filter(|packet| scanner.scan(packet).entry.is_some()).count();
        assert_eq!((entries, scanner.continuity_errors(), scanner.malformed_packets()), (3, 0, 0));
    }

    #[test]
    fn tables_carry_their_checksum() {
        let mut bytes = Vec::new();
        tables(3, &mut bytes);
        for (start, length) in [(5, 16), (PACKET_BYTES + 5, 21)] {
            assert_eq!(section_crc(&bytes[start..start + length]), 0);
        }
    }

    #[test]
    fn an_announcement_may_be_added() {
        let mut first = stream(Shape::default(), 1)[2];
        first[5] |= 0x80;
        assert!(PacketStamp::read(&first).is_some());
    }

    proptest! {
        #[test]
        fn no_bit_of_a_packet_changes_unseen(index in 2usize..400, bit in 0usize..PACKET_BYTES * 8) {
            let packets = stream(Shape::default(), 5);
            let mut packet = packets[index];
            prop_assert!(PacketStamp::read(&packet).is_some());
            let announces = packet[3] & 0x20 != 0 && bit == 5 * 8 + 7;
            packet[bit / 8] ^= 1 << (bit % 8);
            prop_assert_eq!(PacketStamp::read(&packet).is_some(), announces);
        }
    }
}
