//! Finds pictures in the datagrams of a transport stream: a picture is what has one PTS.

use anyhow::{Context, Result};
use glassline_media::Time;
use glassline_media::container::ts::{PACKET_BYTES, Packet};

/// When a picture's packets came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Arrival {
    /// 33 bits.
    pts: u64,
    /// The datagram with its first packet.
    pub(crate) first: Time,
    /// The datagram with its last packet.
    pub(crate) last: Time,
}

/// Takes datagrams in the order in which they came.
#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    video: Option<u16>,
    pictures: Vec<Arrival>,
}

impl Arrivals {
    /// Takes a datagram: whole packets. A PES packet without a PTS goes on with the picture before it.
    pub(crate) fn push(&mut self, datagram: &[u8], now: Time) -> Result<()> {
        let (packets, rest) = datagram.as_chunks::<PACKET_BYTES>();
        anyhow::ensure!(rest.is_empty(), "a datagram of {} bytes holds no whole packets", datagram.len());
        for bytes in packets {
            let packet = Packet::parse(bytes).context("the encoder sends no transport stream")?;
            let starts_video = packet.unit_start && matches!(packet.payload, [0, 0, 1, 0xE0..=0xEF, ..]);
            if starts_video && self.video.is_none() {
                self.video = Some(packet.pid);
            }
            if self.video != Some(packet.pid) || !packet.has_payload {
                continue;
            }
            let new = pts(packet.payload).filter(|_| starts_video);
            let new = new.filter(|pts| self.pictures.last().is_none_or(|picture| picture.pts != *pts));
            match (new, self.pictures.last_mut()) {
                (Some(pts), _) => self.pictures.push(Arrival { pts, first: now, last: now }),
                (None, Some(picture)) => picture.last = now,
                (None, None) => {}
            }
        }
        Ok(())
    }

    /// The pictures in the order in which they came, which is that of the encoder's input.
    pub(crate) fn pictures(self) -> Vec<Arrival> {
        self.pictures
    }
}

/// The PTS in a PES header (ISO/IEC 13818-1 §2.4.3.6).
fn pts(pes: &[u8]) -> Option<u64> {
    let stamp = pes.get(9..14)?;
    let bits = |at: usize| u64::from(stamp[at]);
    (pes[7] & 0x80 != 0).then_some(
        (bits(0) >> 1 & 7) << 30 | bits(1) << 22 | (bits(2) >> 1) << 15 | bits(3) << 7 | bits(4) >> 1,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(pid: u8, counter: u8, pts: Option<u8>) -> [u8; PACKET_BYTES] {
        let mut packet = [0xFF; PACKET_BYTES];
        packet[..4].copy_from_slice(&[0x47, u8::from(pts.is_some()) << 6, pid, 0x10 | counter]);
        if let Some(pts) = pts {
            let flags = if pts == 0 { 0 } else { 0x80 };
            packet[4..18].copy_from_slice(&[
                0,
                0,
                1,
                0xE0,
                0,
                0,
                0x80,
                flags,
                5,
                0x21,
                0,
                1,
                0,
                pts << 1 | 1,
            ]);
        }
        packet
    }

    #[test]
    fn pictures_are_told_apart_by_their_pts() {
        let (at, mut arrivals) = (Time::from_millis, Arrivals::default());
        arrivals.push(&[packet(9, 0, Some(3)), packet(9, 1, None)].concat(), at(1)).unwrap();
        // Another PES packet of the same picture, and one of its slices without a PTS.
        arrivals.push(&packet(9, 2, Some(3)), at(2)).unwrap();
        arrivals.push(&[packet(8, 0, None), packet(9, 3, Some(0))].concat(), at(3)).unwrap();
        arrivals.push(&packet(9, 4, Some(7)), at(4)).unwrap();
        let found: Vec<_> = arrivals.pictures().iter().map(|it| (it.pts, it.first, it.last)).collect();
        assert_eq!(found, [(3, at(1), at(3)), (7, at(4), at(4))]);
    }

    #[test]
    fn torn_datagrams_are_refused() {
        assert!(Arrivals::default().push(&packet(9, 0, Some(3))[1..], Time::ZERO).is_err());
        assert!(Arrivals::default().push(&[0; PACKET_BYTES], Time::ZERO).is_err());
    }
}
