//! MPEG-TS in RTP: payload type 33 (RFC 3551 §6), whole packets of 188 bytes, a clock of 90 kHz (RFC 2250 §2).

use super::source::Origin;
use super::{Counters, Error, HEADER_BYTES, Header, Packet, Reorder, Settings};
use glassline_media::container::ts::{PACKET_BYTES, SYNC_BYTE};
use glassline_media::{Ticks, Time};
use serde::{Deserialize, Serialize};

/// MPEG-TS.
pub const PAYLOAD_TYPE: u8 = 33;

/// Takes the TS packets out of RTP, in their order.
///
/// A packet of our sender with a payload that is no row of TS packets keeps its place in the order, with nothing in it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Depacketizer {
    reorder: Reorder,
    refused: u64,
    refused_bytes: u64,
}

impl Depacketizer {
    /// Before the first datagram.
    pub fn new(settings: Settings) -> Depacketizer {
        Depacketizer { reorder: Reorder::new(settings), refused: 0, refused_bytes: 0 }
    }

    /// Applies new settings.
    pub fn reconfigure(&mut self, settings: Settings) {
        self.reorder.reconfigure(settings);
    }

    /// Takes a datagram that came from `from` at `now`, and calls `out` with each row of TS packets that is next in the
    /// order.
    ///
    /// # Errors
    /// Why the datagram is of no use; it is counted.
    pub fn handle_datagram(
        &mut self,
        datagram: &[u8],
        from: Origin,
        now: Time,
        out: &mut dyn FnMut(&[u8]),
    ) -> Result<(), Error> {
        let parsed = Packet::parse(datagram).and_then(|packet| match packet.header.payload_type {
            PAYLOAD_TYPE => Ok(packet),
            found => Err(Error::PayloadType { found }),
        });
        let taken = parsed.and_then(|packet| {
            let checked = check(packet.payload);
            self.reorder.push(&packet.header, checked.unwrap_or_default(), from, now, out);
            checked
        });
        match taken {
            Ok([]) => {}
            Ok(_) => self.refused_bytes = 0,
            Err(_) => {
                self.refused = self.refused.saturating_add(1);
                // What others send says nothing of the source.
                if self.reorder.listens_to(from) {
                    self.refused_bytes = self.refused_bytes.saturating_add(datagram.len() as u64);
                }
            }
        }
        taken.map(|_| ())
    }

    /// When [`Depacketizer::handle_timeout`] gives up packets that are missing; `None` while nothing is held. Changes with
    /// [`Depacketizer::handle_datagram`], [`Depacketizer::handle_timeout`] and [`Depacketizer::reset`].
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        self.reorder.poll_timeout()
    }

    /// Gives up packets that do not come.
    pub fn handle_timeout(&mut self, now: Time, out: &mut dyn FnMut(&[u8])) {
        self.reorder.handle_timeout(now, out);
    }

    /// The sender is gone: the next packet begins anew. What is held is dropped with it; the counters stay.
    pub fn reset(&mut self) {
        self.reorder.flush(&mut |_| {});
        self.refused_bytes = 0;
    }

    /// What has come.
    pub fn counters(&self) -> Counters {
        self.reorder.counters()
    }

    /// Datagrams of no use.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes of datagrams of no use since the last good one, those of other senders than its own left out.
    pub fn refused_bytes_in_a_row(&self) -> u64 {
        self.refused_bytes
    }
}

/// Whether a datagram that may as well be bare MPEG-TS is surely RTP: a plain header of MPEG-TS's payload type, and
/// behind it whole packets, each with its sync byte. A piece of a bare stream looks so only where it was cut 12 bytes
/// before a packet's end, at a length that bare streams do not have, and those bytes say so by chance.
pub fn is_surely_rtp(datagram: &[u8]) -> bool {
    let plain = datagram.first() == Some(&(2 << 6));
    let packet = Packet::parse(datagram).ok().filter(|_| plain);
    packet.is_some_and(|packet| {
        let is_ts = packet.header.payload_type == PAYLOAD_TYPE && check(packet.payload).is_ok();
        is_ts && !packet.payload.is_empty()
    })
}

/// The payload, if it is whole TS packets; none at all keep a connection alive.
fn check(payload: &[u8]) -> Result<&[u8], Error> {
    let (packets, rest) = payload.as_chunks::<PACKET_BYTES>();
    if rest.is_empty() && packets.iter().all(|packet| packet[0] == SYNC_BYTE) {
        Ok(payload)
    } else {
        Err(Error::Payload { bytes: payload.len() })
    }
}

/// Makes the headers of one sender's packets.
#[derive(Debug)]
pub struct Packetizer {
    ssrc: u32,
    sequence: u16,
    /// What is added to the time, so that a stamp does not show how long the machine has run (RFC 3550 §5.1).
    offset: u32,
}

impl Packetizer {
    /// A sender; SSRC and the first numbers come from `seed`, which has to differ from other senders'.
    pub fn new(seed: u64) -> Packetizer {
        // SplitMix64 (Steele, Lea, Flood 2014): seeds that differ little give numbers that differ much.
        let mix = |seed: u64| {
            let mixed = (seed ^ seed >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
            let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
            mixed ^ mixed >> 31
        };
        let step = 0x9E37_79B9_7F4A_7C15;
        let (one, two) = (mix(seed.wrapping_add(step)), mix(seed.wrapping_add(step).wrapping_add(step)));
        let ([s0, s1, s2, s3, _, _, n0, n1], [o0, o1, o2, o3, ..]) = (one.to_le_bytes(), two.to_le_bytes());
        let (ssrc, offset) = (u32::from_le_bytes([s0, s1, s2, s3]), u32::from_le_bytes([o0, o1, o2, o3]));
        Packetizer { ssrc, sequence: u16::from_le_bytes([n0, n1]), offset }
    }

    /// SSRC, the next sequence number and what is added to the time: what another process needs to go on as this sender.
    pub fn numbers(&self) -> (u32, u16, u32) {
        (self.ssrc, self.sequence, self.offset)
    }

    /// The sender of these [`Packetizer::numbers`].
    pub fn from_numbers((ssrc, sequence, offset): (u32, u16, u32)) -> Packetizer {
        Packetizer { ssrc, sequence, offset }
    }

    /// The header of the next packet. Its time stamp says when the packet's first byte leaves, `at`, in ticks of 90 kHz
    /// (RFC 2250 §2). `jumps` says that what it carries does not go on where the last one ended.
    pub fn next_header(&mut self, at: Time, jumps: bool) -> [u8; HEADER_BYTES] {
        self.next_header_at(Ticks::from_time(at), jumps)
    }

    /// The same, for a caller that has the time in ticks: on the clock of the stream itself, its PCR.
    pub fn next_header_at(&mut self, at: Ticks, jumps: bool) -> [u8; HEADER_BYTES] {
        let header = Header {
            marker: jumps,
            payload_type: PAYLOAD_TYPE,
            sequence: self.sequence,
            timestamp: ((at.0.cast_unsigned() & 0xFFFF_FFFF) as u32).wrapping_add(self.offset),
            ssrc: self.ssrc,
        };
        self.sequence = self.sequence.wrapping_add(1);
        header.write()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn datagram(sender: &mut Packetizer, packets: usize, at: Time) -> Vec<u8> {
        let mut datagram = sender.next_header(at, false).to_vec();
        (0..packets).for_each(|_| datagram.extend([&[SYNC_BYTE], &[0; 187][..]].concat()));
        datagram
    }

    #[test]
    fn what_is_sent_is_received_and_stamped_with_90_khz() {
        let mut sender = Packetizer { sequence: 0xFFFF, offset: 0x1234_5678, ..Packetizer::new(7) };
        let ssrc = sender.ssrc;
        assert_ne!(ssrc, Packetizer::new(8).ssrc);
        let mut receiver = Depacketizer::new(Settings::default());
        let mut bytes = 0;
        for number in 0..3u32 {
            // Another process may go on.
            sender = Packetizer::from_numbers(sender.numbers());
            let at = Time::from_millis(u64::from(number) * 20);
            let datagram = datagram(&mut sender, 7, at);
            let header = Packet::parse(&datagram).unwrap().header;
            assert_eq!(header.timestamp, 0x1234_5678 + number * 1800);
            assert_eq!((header.sequence, header.ssrc), (0xFFFF_u16.wrapping_add(number as u16), ssrc));
            receiver
                .handle_datagram(&datagram, Origin::default(), at, &mut |payload| bytes += payload.len())
                .unwrap();
        }
        assert_eq!((bytes, receiver.counters().lost, receiver.refused()), (3 * 1316, 0, 0));
        assert!(Packet::parse(&sender.next_header(Time::ZERO, true)).unwrap().header.marker);
    }

    #[test]
    fn rtp_is_told_from_bare_packets() {
        let mut sender = Packetizer::new(7);
        let packet = datagram(&mut sender, 7, Time::ZERO);
        assert!(is_surely_rtp(&packet));
        let changed = |at: usize, byte: u8| {
            let mut packet = packet.clone();
            packet[at] = byte;
            is_surely_rtp(&packet)
        };
        assert!(changed(1, 0xA1) && changed(5, 9));
        assert!(!changed(0, 0x47) && !changed(0, 0x81) && !changed(1, 96) && !changed(HEADER_BYTES + 188, 0));
        for other in [&packet[HEADER_BYTES..], &packet[..HEADER_BYTES], &packet[..packet.len() - 1], &[]] {
            assert!(!is_surely_rtp(other));
        }
    }

    #[test]
    fn what_others_send_is_refused_and_says_nothing_of_the_source() {
        let (from, now) = (|address: &str| Origin::of(address.parse().ok()), Time::from_millis(1));
        let (source, other) = (from("10.0.0.5:5004"), from("10.0.0.9:5004"));
        let mut sender = Packetizer::new(7);
        let mut receiver = Depacketizer::new(Settings::default());
        assert!(receiver.handle_datagram(&[0; 500], other, now, &mut |_| {}).is_err());
        assert_eq!(receiver.refused_bytes_in_a_row(), 500, "nothing is listened to yet");
        receiver.handle_datagram(&datagram(&mut sender, 1, Time::ZERO), source, now, &mut |_| {}).unwrap();
        for _ in 0..1_000 {
            assert!(receiver.handle_datagram(&[0; 1_316], other, now, &mut |_| {}).is_err());
        }
        assert_eq!((receiver.refused(), receiver.refused_bytes_in_a_row()), (1_001, 0));
        assert!(receiver.handle_datagram(&[0; 188], source, now, &mut |_| {}).is_err());
        assert_eq!(receiver.refused_bytes_in_a_row(), 188);
    }

    #[test]
    fn what_is_no_ts_is_refused_counted_and_no_loss() {
        let mut sender = Packetizer::new(7);
        let mut receiver = Depacketizer::new(Settings::default());
        let mut out = Vec::new();
        let mut take = |bytes: &[u8]| {
            receiver.handle_datagram(bytes, Origin::default(), Time::ZERO, &mut |payload| {
                out.push(payload.len());
            })
        };
        take(&datagram(&mut sender, 1, Time::ZERO)).unwrap();
        assert_eq!(take(&[SYNC_BYTE; 188]), Err(Error::Version { found: 1 }));
        let mut other = datagram(&mut sender, 1, Time::ZERO);
        other.pop();
        assert_eq!(take(&other), Err(Error::Payload { bytes: 187 }));
        let mut other = datagram(&mut sender, 2, Time::ZERO);
        other[HEADER_BYTES + 188] = 0;
        assert_eq!(take(&other), Err(Error::Payload { bytes: 376 }));
        let mut audio = datagram(&mut sender, 1, Time::ZERO);
        audio[1] = 96;
        assert_eq!(take(&audio), Err(Error::PayloadType { found: 96 }));
        take(&datagram(&mut sender, 0, Time::ZERO)).unwrap();
        // The packet of another type has left a gap, which another payload type may well have to itself.
        assert_eq!(receiver.refused(), 4);
        assert_eq!(receiver.refused_bytes_in_a_row(), 188 + 199 + 388 + 200);
        receiver.reset();
        assert_eq!((out.len(), receiver.refused_bytes_in_a_row(), receiver.counters().lost), (3, 0, 1));
    }
}
