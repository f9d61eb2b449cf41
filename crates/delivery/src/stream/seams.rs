//! Where packets do not go on where those before them ended, and it is meant so: `discontinuity_indicator`
//! (ISO/IEC 13818-1 §2.4.3.5) says it on each PID.

use glassline_media::container::ts::{NULL_PID, PACKET_BYTES, Packet, discontinuity_packet};

const WORDS: usize = 8192 / 64;

/// Announces, once on each PID, that what follows there is not continuous with what was sent before.
#[derive(Clone, Debug)]
pub struct Seams(Box<[u64; WORDS]>);

impl Seams {
    /// Nothing is announced yet.
    #[allow(clippy::new_without_default)]
    pub fn new() -> Seams {
        let mut announced = Box::new([0; WORDS]);
        // Null packets count nothing.
        announced[usize::from(NULL_PID / 64)] |= 1 << (NULL_PID % 64);
        Seams(announced)
    }

    /// The PIDs on which it has been announced, a bit each: what another process needs to go on.
    pub fn announced(&self) -> &[u64] {
        &self.0[..]
    }

    /// Goes on from what [`Seams::announced`] was; `None` where it cannot have been that.
    pub fn from_announced(announced: &[u64]) -> Option<Seams> {
        Some(Seams(Box::new(announced.try_into().ok()?)))
    }

    /// Puts a packet before the first of `packets`, which are whole ones, on each PID.
    pub fn announce(&mut self, packets: &mut Vec<u8>) {
        let mut at = 0;
        while let Some(packet) = packets.get(at..).and_then(|rest| rest.first_chunk::<PACKET_BYTES>()) {
            let pid = u16::from_be_bytes([packet[1] & 0x1F, packet[2]]);
            let word = &mut self.0[usize::from(pid / 64)];
            if *word >> (pid % 64) & 1 == 0 {
                *word |= 1 << (pid % 64);
                let seam = seam_packet(packet);
                packets.splice(at..at, seam);
                at += seam.len();
            }
            at += PACKET_BYTES;
        }
    }
}

/// A packet to stand before `packet`, the first of a new publisher on its PID: what follows is not continuous
/// with what went before, and is meant so.
pub(super) fn seam_packet(packet: &[u8; PACKET_BYTES]) -> [u8; PACKET_BYTES] {
    let (pid, continuity) = match Packet::parse(packet) {
        // A packet without payload repeats the counter, one with payload advances it (ISO 13818-1 §2.4.3.3).
        Ok(packet) if packet.has_payload => (packet.pid, packet.continuity.wrapping_sub(1) & 0x0F),
        Ok(packet) => (packet.pid, packet.continuity),
        Err(_) => (NULL_PID, 0),
    };
    discontinuity_packet(pid, continuity)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pid: u16, continuity: u8) -> [u8; PACKET_BYTES] {
        let mut packet = [0xff; PACKET_BYTES];
        let [high, low] = pid.to_be_bytes();
        packet[..4].copy_from_slice(&[0x47, high, low, 0x10 | continuity]);
        packet
    }

    #[test]
    fn each_pid_is_announced_once() {
        let mut packets = [packet(256, 3), packet(257, 0), packet(256, 4), packet(NULL_PID, 0)].concat();
        let mut seams = Seams::new();
        seams.announce(&mut packets);
        let parsed: Vec<_> =
            packets.as_chunks().0.iter().map(|packet| Packet::parse(packet).unwrap()).collect();
        let told: Vec<_> =
            parsed.iter().map(|packet| (packet.pid, packet.continuity, packet.discontinuity())).collect();
        let expected = [
            (256, 2, true),
            (256, 3, false),
            (257, 15, true),
            (257, 0, false),
            (256, 4, false),
            (NULL_PID, 0, false),
        ];
        assert_eq!(told, expected);
        let mut seams = Seams::from_announced(seams.announced()).unwrap();
        let mut more = packet(257, 1).to_vec();
        seams.announce(&mut more);
        assert_eq!(more.len(), PACKET_BYTES);
        assert!(Seams::from_announced(&[0; 3]).is_none());
    }
}
