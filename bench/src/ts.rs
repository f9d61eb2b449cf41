//! A transport stream that is made to be measured: every packet says which one it is and when it was sent.
//!
//! ```text
//! frame's first │ header 4 │ adaptation 8 (PCR) │ PES 14 │ AUD, slice 9 │ …fill │ mark │ …fill │ check 8 │
//! others        │ header 4 │ …fill                                     36      53            180        188
//! mark: sequence 8 │ frame's send time 8 │ first, last 1
//! ```
//! Numbers have 7 bits a byte under a set top bit, so that no start code comes about. The sequence stands in the
//! front and enters the check at the end: a packet that is made of two is noticed.

use glassline_media::Time;
use glassline_test_support::ts::{PMT_PID, Source as Tables, VIDEO_PID};

/// Bytes of a packet.
pub const PACKET_BYTES: usize = 188;
/// Frames a second.
pub const FRAME_RATE: u32 = 50;
/// Packets of a frame that is no key frame.
const FRAME_PACKETS: usize = 63;
/// Packets of a key frame, tables aside: one frame a second.
const KEY_FRAME_PACKETS: usize = 4 * FRAME_PACKETS;
const TABLE_PACKETS: usize = 2;

/// Mean bits a second of the stream: 5.02 million.
pub const BITRATE: u64 = {
    let packets = KEY_FRAME_PACKETS + TABLE_PACKETS + (FRAME_RATE as usize - 1) * FRAME_PACKETS;
    (packets * PACKET_BYTES * 8) as u64
};

const SEQUENCE: usize = 36;
const SENT: usize = 44;
const POSITION: usize = 52;
const CHECK: usize = 180;
const FIRST: u8 = 0x81;
const LAST: u8 = 0x82;
const MIDDLE: u8 = 0x80;

/// Makes the stream.
#[derive(Debug, Default)]
pub struct Source {
    tables: Tables,
    sequence: u64,
    frame: u64,
}

impl Source {
    /// Appends the next frame, which is sent now, to `out`; a key frame each second, behind PAT and PMT.
    pub fn frame(&mut self, sent: Time, out: &mut Vec<u8>) {
        let key = self.frame.is_multiple_of(u64::from(FRAME_RATE));
        if key {
            out.extend(self.tables.tables());
        }
        let count = if key { KEY_FRAME_PACKETS } else { FRAME_PACKETS };
        for index in 0..count {
            let mut packet = [0x55; PACKET_BYTES];
            let first = index == 0;
            packet[0] = 0x47;
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
            packet[CHECK..].copy_from_slice(&spread(check(self.sequence, sent.as_nanos())));
            out.extend_from_slice(&packet);
            self.sequence += 1;
        }
        self.frame += 1;
    }

    /// Adaptation field with the clock, PES header with the time stamp, access unit delimiter, start of a slice.
    fn unit_head(&self, key: bool, packet: &mut [u8; PACKET_BYTES]) {
        // A second of lead, so that the time stamp lies ahead of the clock.
        let clock = self.frame * 90_000 / u64::from(FRAME_RATE);
        let stamp = clock + 90_000;
        packet[4..6].copy_from_slice(&[7, if key { 0x50 } else { 0x10 }]);
        packet[6..12].copy_from_slice(&((clock & 0x1_FFFF_FFFF) << 15 | 0x7E00).to_be_bytes()[2..]);
        packet[12..21].copy_from_slice(&[0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5]);
        packet[21] = 0x21 | (stamp >> 29) as u8 & 0x0E;
        packet[22] = (stamp >> 22) as u8;
        packet[23] = (stamp >> 14) as u8 | 1;
        packet[24] = (stamp >> 7) as u8;
        packet[25] = (stamp << 1) as u8 | 1;
        packet[26..35].copy_from_slice(&[0, 0, 1, 9, 0xF0, 0, 0, 1, if key { 0x65 } else { 0x41 }]);
    }
}

/// 56 bits, 7 in each byte under a set top bit.
fn spread(value: u64) -> [u8; 8] {
    let halves = value & 0x0FFF_FFFF | (value & 0x00FF_FFFF_F000_0000) << 4;
    let quarters = halves & 0x0000_3FFF_0000_3FFF | (halves & 0x0FFF_C000_0FFF_C000) << 2;
    let bytes = quarters & 0x007F_007F_007F_007F | (quarters & 0x3F80_3F80_3F80_3F80) << 1;
    (bytes | 0x8080_8080_8080_8080).to_be_bytes()
}

fn gather(bytes: [u8; 8]) -> u64 {
    let bytes = u64::from_be_bytes(bytes) & 0x7F7F_7F7F_7F7F_7F7F;
    let quarters = bytes & 0x007F_007F_007F_007F | (bytes >> 1) & 0x3F80_3F80_3F80_3F80;
    let halves = quarters & 0x0000_3FFF_0000_3FFF | (quarters >> 2) & 0x0FFF_C000_0FFF_C000;
    halves & 0x0FFF_FFFF | (halves >> 4) & 0x00FF_FFFF_F000_0000
}

fn check(sequence: u64, sent: u64) -> u64 {
    (sequence ^ sent.rotate_left(17)).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 8
}

fn word(packet: &[u8; PACKET_BYTES], at: usize) -> [u8; 8] {
    packet[at..at + 8].try_into().expect("eight bytes inside a packet")
}

/// What a viewer found wrong, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Verdict {
    /// No packet of the stream: the bytes are not those that were sent.
    pub wrong: u64,
    /// Left out, though no discontinuity was announced.
    pub missing: u64,
    /// Sent again.
    pub repeated: u64,
    /// Continuity counters that jump unannounced, on the tables.
    pub discontinuous: u64,
    /// Left out where a discontinuity was announced: allowed.
    pub skipped: u64,
}

impl Verdict {
    /// All that is not allowed.
    pub fn errors(&self) -> u64 {
        self.wrong + self.missing + self.repeated + self.discontinuous
    }

    /// Adds another viewer's.
    pub fn merge(&mut self, other: &Verdict) {
        self.wrong += other.wrong;
        self.missing += other.missing;
        self.repeated += other.repeated;
        self.discontinuous += other.discontinuous;
        self.skipped += other.skipped;
    }
}

/// A packet at the edge of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Edge {
    /// The frame's first packet, and when it was sent.
    First(Time),
    /// The frame's last packet, and when it was sent.
    Last(Time),
}

/// Follows one viewer's packets. About 5 ns each.
#[derive(Clone, Debug, Default)]
pub struct Checker {
    expected: Option<u64>,
    jump_announced: bool,
    /// Of PAT and PMT: the next continuity counter.
    tables: [Option<u8>; TABLE_PACKETS],
    /// What was found so far.
    pub verdict: Verdict,
}

impl Checker {
    /// Takes the next packet.
    #[inline]
    pub fn check(&mut self, packet: &[u8; PACKET_BYTES]) -> Option<Edge> {
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        if packet[0] != 0x47 || packet[1] & 0x80 != 0 {
            self.verdict.wrong += 1;
            return None;
        }
        let announced = packet[3] & 0x20 != 0 && packet[4] > 0 && packet[5] & 0x80 != 0;
        match pid {
            VIDEO_PID => {
                self.jump_announced |= announced;
                // Without payload: a server's own packet, which carries the announcement.
                if packet[3] & 0x10 == 0 { None } else { self.check_video(packet) }
            }
            0 => self.check_table(0, packet, announced),
            PMT_PID => self.check_table(1, packet, announced),
            _ => {
                self.verdict.wrong += 1;
                None
            }
        }
    }

    #[inline]
    fn check_video(&mut self, packet: &[u8; PACKET_BYTES]) -> Option<Edge> {
        let (sequence, sent) = (gather(word(packet, SEQUENCE)), gather(word(packet, SENT)));
        let whole = word(packet, CHECK) == spread(check(sequence, sent));
        if !whole || packet[3] & 0x0F != (sequence & 0x0F) as u8 {
            self.verdict.wrong += 1;
            self.expected = self.expected.map(|expected| expected + 1);
            return None;
        }
        if let Some(expected) = self.expected
            && sequence != expected
        {
            match sequence.checked_sub(expected) {
                Some(left_out) if self.jump_announced => self.verdict.skipped += left_out,
                Some(left_out) => self.verdict.missing += left_out,
                None => self.verdict.repeated += 1,
            }
        }
        self.jump_announced = false;
        self.expected = Some(sequence + 1);
        match packet[POSITION] {
            FIRST => Some(Edge::First(Time::from_nanos(sent))),
            LAST => Some(Edge::Last(Time::from_nanos(sent))),
            _ => None,
        }
    }

    fn check_table(&mut self, which: usize, packet: &[u8; PACKET_BYTES], announced: bool) -> Option<Edge> {
        let counter = packet[3] & 0x0F;
        let carries = packet[3] & 0x10 != 0;
        // A packet without payload repeats the counter of the one before, or announces another one.
        let expected =
            self.tables[which].map(|next| if carries { next } else { next.wrapping_sub(1) & 0x0F });
        if !announced && expected.is_some_and(|expected| expected != counter) {
            self.verdict.discontinuous += 1;
        }
        self.tables[which] = Some((counter + 1) & 0x0F);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(frames: u64) -> Vec<[u8; PACKET_BYTES]> {
        let (mut source, mut bytes) = (Source::default(), Vec::new());
        for frame in 0..frames {
            source.frame(Time::from_millis(frame * 20 + 5), &mut bytes);
        }
        bytes.as_chunks().0.to_vec()
    }

    fn verdict<'a>(packets: impl IntoIterator<Item = &'a [u8; PACKET_BYTES]>) -> Verdict {
        let mut checker = Checker::default();
        for packet in packets {
            checker.check(packet);
        }
        checker.verdict
    }

    #[test]
    fn numbers_survive_and_make_no_start_code() {
        for value in [0, 1, 0x7F, 0x80, 0x3FFF_4000, 0x0123_4567_89AB_CDEF & ((1 << 56) - 1), (1 << 56) - 1] {
            assert_eq!(gather(spread(value)), value, "{value:x}");
            assert!(spread(value).iter().all(|byte| *byte >= 0x80));
        }
    }

    #[test]
    fn a_whole_stream_is_right_and_its_edges_carry_the_time() {
        let packets = stream(102);
        assert_eq!(verdict(&packets), Verdict::default());
        let mut checker = Checker::default();
        let edges: Vec<_> = packets.iter().filter_map(|packet| checker.check(packet)).collect();
        let (first, last) = (Time::from_millis(25), Time::from_millis(25));
        assert_eq!(edges[2..4], [Edge::First(first), Edge::Last(last)]);
        assert_eq!(edges.len(), 204);
        assert_eq!(BITRATE, stream(50).len() as u64 * 188 * 8);
    }

    #[test]
    fn our_scanner_finds_a_key_frame_each_second() {
        let mut scanner = glassline_media::container::ts::Scanner::new();
        let packets = stream(101);
        let entries = packets.iter().filter(|packet| scanner.scan(packet).entry.is_some()).count();
        assert_eq!((entries, scanner.continuity_errors(), scanner.malformed_packets()), (3, 0, 0));
    }

    #[test]
    fn every_kind_of_damage_is_counted() {
        let packets = stream(60);
        let missing = [&packets[..100], &packets[130..]].concat();
        assert_eq!(verdict(&missing), Verdict { missing: 30, ..Verdict::default() });
        let repeated = [&packets[..100], &packets[99..]].concat();
        assert_eq!(verdict(&repeated), Verdict { repeated: 1, ..Verdict::default() });
        let mut torn = packets.clone();
        torn[50][120..].copy_from_slice(&packets[1000][120..]);
        torn[60][3] ^= 1;
        torn[70][0] = 0;
        torn[80][2] ^= 7;
        let found = verdict(&torn);
        assert_eq!((found.wrong, found.repeated), (4, 0), "{found:?}");
        let tables_lost =
            packets.iter().enumerate().filter(|(index, _)| *index != 0).map(|(_, packet)| packet);
        assert_eq!(verdict(tables_lost), Verdict::default());
        let mut jump = [0xFF; PACKET_BYTES];
        jump[..6].copy_from_slice(&[0x47, (VIDEO_PID >> 8) as u8, VIDEO_PID as u8, 0x20, 183, 0x80]);
        let announced = [&packets[..100], &[jump], &packets[130..]].concat();
        assert_eq!(verdict(&announced), Verdict { skipped: 30, ..Verdict::default() });
    }
}
