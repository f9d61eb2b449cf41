//! Rows of MPEG-TS packets as datagrams, bare or in RTP.

use super::HEADER_BYTES;
use super::mpeg_ts::Packetizer;
use glassline_media::container::ts::PACKET_BYTES;

/// Puts TS packets into datagrams, bare or behind a header of RTP each (RFC 2250).
#[derive(Debug)]
pub struct Framer {
    payload_bytes: usize,
    packetizer: Option<Packetizer>,
}

impl Framer {
    /// So many TS packets a datagram: in RTP where there is a `seed`, which numbers its packets and has to differ from other
    /// senders'; else bare.
    pub fn new(packets: usize, seed: Option<u64>) -> Framer {
        Framer { payload_bytes: packets.saturating_mul(PACKET_BYTES), packetizer: seed.map(Packetizer::new) }
    }

    /// What RTP's packets are numbered with, if it is RTP: [`Packetizer::numbers`].
    pub fn numbers(&self) -> Option<(u32, u16, u32)> {
        self.packetizer.as_ref().map(Packetizer::numbers)
    }

    /// Goes on as the sender of these numbers, if both are RTP.
    pub fn restore(&mut self, numbers: Option<(u32, u16, u32)>) {
        if let (Some(packetizer), Some(numbers)) = (&mut self.packetizer, numbers) {
            *packetizer = Packetizer::from_numbers(numbers);
        }
    }

    /// Writes the datagrams of whole TS packets end to end into `wire`, which it empties first. `header` makes the header
    /// of the packet that begins at this byte of `wire`.
    ///
    /// Returns the bytes of a datagram; the last one may be shorter.
    pub fn frame(
        &mut self,
        packets: &[u8],
        wire: &mut Vec<u8>,
        mut header: impl FnMut(&mut Packetizer, usize) -> [u8; HEADER_BYTES],
    ) -> usize {
        wire.clear();
        let Some(packetizer) = &mut self.packetizer else {
            wire.extend_from_slice(packets);
            return self.payload_bytes;
        };
        for payload in packets.chunks(self.payload_bytes) {
            let header = header(packetizer, wire.len());
            wire.extend_from_slice(&header);
            wire.extend_from_slice(payload);
        }
        self.payload_bytes.saturating_add(HEADER_BYTES)
    }

    /// Bytes of a datagram that are not the stream's.
    pub fn header_bytes(&self) -> usize {
        if self.packetizer.is_some() { HEADER_BYTES } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_lie_in_datagrams_end_to_end() {
        let packets: Vec<u8> = (0..16 * PACKET_BYTES).map(|index| (index / PACKET_BYTES) as u8).collect();
        let mut wire = vec![1, 2, 3];
        let bytes = Framer::new(6, None).frame(&packets, &mut wire, |_, _| unreachable!("no RTP"));
        assert_eq!((bytes, wire == packets), (6 * PACKET_BYTES, true));
        let (mut framer, mut starts) = (Framer::new(7, Some(1)), Vec::new());
        let bytes = framer.frame(&packets, &mut wire, |_, start| {
            starts.push(start);
            [7; HEADER_BYTES]
        });
        assert_eq!((bytes, framer.header_bytes()), (7 * PACKET_BYTES + 12, 12));
        assert_eq!(starts, [0, bytes, 2 * bytes]);
        let payload: Vec<u8> = wire.chunks(bytes).flat_map(|datagram| datagram[12..].to_vec()).collect();
        assert!(payload == packets);
    }
}
