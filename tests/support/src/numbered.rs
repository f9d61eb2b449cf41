//! A transport stream in which every packet is known from its number: whoever reads any part of it can tell
//! whether a byte is wrong, missing or repeated. Made without any code of the product.

use crate::ts::{PMT_PID, Source, VIDEO_PID};
use std::fmt;

/// Bytes of a transport packet.
const PACKET: usize = 188;

/// The stream's shape.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Video packets of a picture.
    pub packets: u64,
    /// Pictures from one key frame to the next.
    pub group: u64,
}

impl Shape {
    /// Picture `number` (from 0), as a publisher sends it: PAT and PMT stand before a key frame.
    pub fn picture(&self, number: u64) -> Vec<u8> {
        let mut bytes = Vec::with_capacity((self.packets as usize + 2) * PACKET);
        if number.is_multiple_of(self.group) {
            bytes.extend(tables((number / self.group) as u8 & 0x0F));
        }
        for index in 0..self.packets {
            bytes.extend_from_slice(&self.packet(number * self.packets + index));
        }
        bytes
    }

    /// Whether video packet `number` is the first of a key frame.
    fn is_key(&self, number: u64) -> bool {
        number.is_multiple_of(self.packets * self.group)
    }

    /// Video packet `number`.
    fn packet(&self, number: u64) -> [u8; PACKET] {
        let start = number.is_multiple_of(self.packets);
        let mut packet = [0; PACKET];
        packet[..4].copy_from_slice(&[
            0x47,
            u8::from(start) << 6 | (VIDEO_PID >> 8) as u8,
            VIDEO_PID as u8,
            0x10 | (number & 0x0F) as u8,
        ]);
        let mut at = 4;
        if self.is_key(number) {
            packet[3] |= 0x20;
            packet[4..6].copy_from_slice(&[1, 0x40]);
            at = 6;
        }
        if start {
            // A PES header with a PTS that means nothing, an access unit delimiter, the start of a slice.
            let head =
                [0, 0, 1, 0xE0, 0, 0, 0x80, 0x80, 5, 0x21, 0, 1, 0, 1, 0, 0, 1, 0x09, 0xF0, 0, 0, 1, 0x41];
            packet[at..at + head.len()].copy_from_slice(&head);
            at += head.len();
        }
        // The number, with no byte that could be part of a start code; then bytes that depend on it.
        for shift in 0..8 {
            packet[at] = 0x80 | (number >> (7 * shift)) as u8 & 0x7F;
            at += 1;
        }
        let mut state = number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        for byte in &mut packet[at..] {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *byte = state as u8 | 0x10;
        }
        packet
    }

    fn number_of(packet: &[u8]) -> u64 {
        let mut at = 4;
        if packet[3] & 0x20 != 0 {
            at += 1 + usize::from(packet[4]);
        }
        if packet[1] & 0x40 != 0 {
            at += 23;
        }
        let digits = packet.get(at..at + 8).unwrap_or_default();
        digits.iter().rev().fold(0, |number, digit| number << 7 | u64::from(digit & 0x7F))
    }
}

/// PAT and PMT with the given continuity counter.
fn tables(counter: u8) -> Vec<u8> {
    let mut tables = Source::default().tables();
    tables[3] |= counter;
    tables[PACKET + 3] |= counter;
    tables
}

/// What a viewer must not see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// Where, in bytes of the body.
    pub offset: u64,
    /// What.
    pub what: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at byte {}: {}", self.offset, self.what)
    }
}

/// Checks every byte that a viewer gets.
#[derive(Clone, Debug)]
pub struct Check {
    shape: Shape,
    held: Vec<u8>,
    offset: u64,
    tables_seen: [bool; 2],
    counters: [Option<u8>; 3],
    announced: [bool; 3],
    last: Option<u64>,
    /// Times that it was moved forward: announced, and landed on a key frame.
    pub moves: u64,
    /// Video packets seen.
    pub packets: u64,
}

impl Check {
    /// A viewer before its first byte.
    pub fn new(shape: Shape) -> Check {
        Check {
            shape,
            held: Vec::new(),
            offset: 0,
            tables_seen: [false; 2],
            counters: [None; 3],
            announced: [false; 3],
            last: None,
            moves: 0,
            packets: 0,
        }
    }

    /// The newest video packet.
    pub fn last_packet(&self) -> Option<u64> {
        self.last
    }

    /// Takes the next bytes.
    ///
    /// # Errors
    /// The first byte that should not have come.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Wrong> {
        self.held.extend_from_slice(bytes);
        let held = std::mem::take(&mut self.held);
        let (packets, rest) = held.as_chunks::<PACKET>();
        for packet in packets {
            self.packet(packet).map_err(|what| Wrong { offset: self.offset, what })?;
            self.offset += PACKET as u64;
        }
        self.held = rest.to_vec();
        Ok(())
    }

    fn packet(&mut self, packet: &[u8; PACKET]) -> Result<(), String> {
        if packet[0] != 0x47 {
            return Err(format!("{:02x} where a packet should begin", packet[0]));
        }
        let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
        let slot = match pid {
            0 => 0,
            PMT_PID => 1,
            VIDEO_PID => 2,
            _ => return Err(format!("PID {pid:#x} is not of this stream")),
        };
        let (control, counter) = (packet[3] >> 4 & 3, packet[3] & 0x0F);
        if control == 2 {
            // Nothing but an adaptation field: only to announce a jump to somebody who has seen an earlier part.
            if packet[4] != 183 || packet[5] & 0x80 == 0 {
                return Err("a packet without payload that announces no discontinuity".into());
            }
            if self.last.is_none() {
                return Err("a discontinuity before the first picture".into());
            }
            self.announced[slot] = true;
            self.counters[slot] = Some(counter);
            return Ok(());
        }
        let follows = self.counters[slot].is_none_or(|last| counter == (last + 1) & 0x0F);
        if !follows {
            return Err(format!("PID {pid:#x}: counter {counter} after {:?}", self.counters[slot]));
        }
        self.counters[slot] = Some(counter);
        if slot < 2 {
            let expected = &tables(counter)[slot * PACKET..][..PACKET];
            if packet != expected {
                return Err(format!("the table on PID {pid:#x} is not the one that was sent"));
            }
            if slot == 1 && !self.tables_seen[0] {
                return Err("PMT before PAT".into());
            }
            self.tables_seen[slot] = true;
            return Ok(());
        }
        self.video(packet)
    }

    fn video(&mut self, packet: &[u8; PACKET]) -> Result<(), String> {
        let number = Shape::number_of(packet);
        if *packet != self.shape.packet(number) {
            return Err(format!("video packet {number} has wrong bytes"));
        }
        let announced = std::mem::take(&mut self.announced[2]);
        match self.last {
            None if self.tables_seen != [true; 2] => return Err("a picture before PAT and PMT".into()),
            None if !self.shape.is_key(number) => {
                return Err(format!("begins at packet {number}, no key frame"));
            }
            None => {}
            Some(last) if announced => {
                if number <= last || !self.shape.is_key(number) {
                    return Err(format!("moved from {last} to {number}, which is no later key frame"));
                }
                self.moves += 1;
            }
            Some(last) if number != last + 1 => return Err(format!("packet {number} after {last}")),
            Some(_) => {}
        }
        self.last = Some(number);
        self.packets += 1;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { packets: 3, group: 4 };

    fn stream(pictures: std::ops::Range<u64>) -> Vec<u8> {
        pictures.flat_map(|number| SHAPE.picture(number)).collect()
    }

    #[test]
    fn what_was_sent_is_right_in_any_chop() {
        for chop in [1, 187, 188, 1000] {
            let mut check = Check::new(SHAPE);
            stream(4..20).chunks(chop).for_each(|bytes| check.push(bytes).unwrap());
            assert_eq!((check.packets, check.moves), (48, 0));
        }
    }

    #[test]
    fn everything_else_is_found() {
        let good = stream(0..20);
        let without = |range: std::ops::Range<usize>| {
            [&good[..range.start * PACKET], &good[range.end * PACKET..]].concat()
        };
        let mut flipped = good.clone();
        flipped[40 * PACKET + 100] ^= 1;
        let repeated = [&good[..6 * PACKET], &good[5 * PACKET..]].concat();
        for (what, bytes) in [
            ("a bit", flipped),
            ("a missing packet", without(9..10)),
            ("sixteen missing packets", without(9..25)),
            ("a missing table", without(0..1)),
            ("a start beside a key frame", without(2..5)),
            ("a repeated packet", repeated),
            ("a torn packet", good[1..].to_vec()),
            ("a lost group", [&good[..14 * PACKET], &good[56 * PACKET..]].concat()),
        ] {
            assert!(Check::new(SHAPE).push(&bytes).is_err(), "{what}");
        }
    }
}
