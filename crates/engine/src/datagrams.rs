//! Transport streams in datagrams: what all senders have in common, however they are paced.

use glassline_delivery::output::{Destination, Framing};
use glassline_io::udp::Route;
use glassline_media::container::ts::PACKET_BYTES;
use glassline_transport::rtp::HEADER_BYTES;
use glassline_transport::rtp::mpeg_ts::Packetizer;
use std::net::SocketAddr;

/// Puts TS packets into datagrams, bare or behind a header of RTP each (RFC 2250).
pub(crate) struct Framer {
    payload_bytes: usize,
    packetizer: Option<Packetizer>,
}

impl Framer {
    /// As `destination` wants it. `seed` numbers the packets of RTP, and has to differ from other senders'.
    pub(crate) fn new(destination: &Destination, seed: u64) -> Framer {
        Framer {
            payload_bytes: destination.packets * PACKET_BYTES,
            packetizer: (destination.framing == Framing::Rtp).then(|| Packetizer::new(seed)),
        }
    }

    /// A seed that tells senders apart which start together.
    pub(crate) fn seed(clock: glassline_io::clock::Clock) -> u64 {
        clock.utc().as_nanos() ^ u64::from(std::process::id()) << 32
    }

    /// What RTP's packets are numbered with, if it is RTP: [`Packetizer::numbers`].
    pub(crate) fn numbers(&self) -> Option<(u32, u16, u32)> {
        self.packetizer.as_ref().map(Packetizer::numbers)
    }

    /// Goes on as the sender of these numbers, if both are RTP.
    pub(crate) fn restore(&mut self, numbers: Option<(u32, u16, u32)>) {
        if let (Some(packetizer), Some(numbers)) = (&mut self.packetizer, numbers) {
            *packetizer = Packetizer::from_numbers(numbers);
        }
    }

    /// Writes the datagrams of whole TS packets end to end into `wire`, which it empties first. `header` makes the header
    /// of the packet that begins at this byte of `wire`.
    ///
    /// Returns the bytes of a datagram; the last one may be shorter.
    pub(crate) fn frame(
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
        self.payload_bytes + HEADER_BYTES
    }

    /// Bytes of a datagram that are not the stream's.
    pub(crate) fn header_bytes(&self) -> usize {
        if self.packetizer.is_some() { HEADER_BYTES } else { 0 }
    }
}

/// How datagrams get to `destination`, which was found at `address`.
pub(crate) fn route(destination: &Destination, address: SocketAddr) -> Route {
    let Destination { interface, source, ttl, .. } = destination.clone();
    Route { address, interface, source, ttl }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_lie_in_datagrams_end_to_end() {
        let packets: Vec<u8> = (0..16 * PACKET_BYTES).map(|index| (index / PACKET_BYTES) as u8).collect();
        let mut wire = vec![1, 2, 3];
        let bare = Destination::parse("udp://127.0.0.1:5000?packets=6").unwrap();
        let bytes = Framer::new(&bare, 1).frame(&packets, &mut wire, |_, _| unreachable!("no RTP"));
        assert_eq!((bytes, wire == packets), (6 * PACKET_BYTES, true));
        let rtp = Destination::parse("rtp://127.0.0.1:5000").unwrap();
        let (mut framer, mut starts) = (Framer::new(&rtp, 1), Vec::new());
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
