//! One transport packet (13818-1 §2.4.3.2) and its adaptation field (§2.4.3.4).
//!
//! ```text
//!  0x47 │ E S P  pid:13 │ scr:2 afc:2 cc:4 │ [adaptation: length, flags, [PCR:6], …] │ payload
//!   1   │       2       │        1         │            if afc & 2                   │ if afc & 1
//! ```
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::Error;
use crate::time::Ticks;

/// Bytes of a transport packet.
pub const PACKET_BYTES: usize = 188;
/// The first byte of every transport packet.
pub const SYNC_BYTE: u8 = 0x47;
/// The PID of packets that only fill a constant rate.
pub const NULL_PID: u16 = 0x1fff;

/// A program clock reference: 27 MHz ticks modulo 2³³·300 (13818-1 §2.4.3.5), about 26.5 hours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pcr(u64);

impl Pcr {
    /// Ticks a second.
    pub const RATE: u64 = 27_000_000;
    /// References count modulo this.
    pub const WRAP: u64 = (1 << 33) * 300;

    /// The reference with `ticks` of 27 MHz, wrapped.
    pub const fn new(ticks: u64) -> Pcr {
        Pcr(ticks % Self::WRAP)
    }

    /// The reference at a 90 kHz stamp.
    pub const fn from_ticks(ticks: Ticks) -> Pcr {
        Pcr(ticks.wrapped().saturating_mul(300))
    }

    /// 27 MHz ticks, below [`Pcr::WRAP`].
    pub const fn ticks(self) -> u64 {
        self.0
    }

    /// The 90 kHz part, 33 bits.
    pub const fn base(self) -> u64 {
        self.0 / 300
    }

    /// The 27 MHz part, 0 to 299.
    pub const fn extension(self) -> u16 {
        (self.0 % 300) as u16
    }

    /// How many 27 MHz ticks after `earlier` this is, over the wrap.
    pub const fn since(self, earlier: Pcr) -> u64 {
        (self.0.saturating_add(Self::WRAP).saturating_sub(earlier.0)) % Self::WRAP
    }

    /// Reads the six bytes; an extension of 300 or more counts as it stands, wrapped.
    pub const fn parse(bytes: [u8; 6]) -> Pcr {
        let [a, b, c, d, e, f] = bytes;
        let word = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        Pcr::new((word >> 15).saturating_mul(300).saturating_add(word & 0x1ff))
    }

    /// The six bytes: 33 bits of base, six reserved ones, 9 bits of extension.
    pub const fn write(self) -> [u8; 6] {
        let word = self.base() << 15 | 0x3f << 9 | self.extension() as u64;
        let [_, _, a, b, c, d, e, f] = word.to_be_bytes();
        [a, b, c, d, e, f]
    }
}

/// What an adaptation field says, as far as it matters here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Adaptation {
    /// Continuity counter (and, on the PCR's PID, the clock) may jump here.
    pub discontinuity: bool,
    /// Decoding can start with the next unit of this PID.
    pub random_access: bool,
    /// The program's clock at the arrival of this packet.
    pub pcr: Option<Pcr>,
}

/// A transport packet, parsed in place. About 5 ns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'a> {
    /// Which stream the packet belongs to, 13 bits.
    pub pid: u16,
    /// A PES packet or a table section begins in the payload.
    pub unit_start: bool,
    /// Someone on the way knows that bits of the packet are wrong.
    pub transport_error: bool,
    /// 4 bits, one more with each packet of the PID that has a payload.
    pub continuity: u8,
    /// The payload is encrypted.
    pub scrambled: bool,
    /// The header announces a payload. False for adaptation-only packets and the reserved value 0.
    pub has_payload: bool,
    /// The payload; may be empty even where it is announced.
    pub payload: &'a [u8],
    /// The adaptation field, if it is there and not empty.
    pub adaptation: Option<Adaptation>,
}

impl<'a> Packet<'a> {
    /// Parses one packet.
    ///
    /// # Errors
    /// [`Error::Sync`] where the first byte is not 0x47, [`Error::AdaptationField`] where the adaptation field
    /// reaches beyond the packet.
    #[inline]
    pub fn parse(bytes: &'a [u8; PACKET_BYTES]) -> Result<Packet<'a>, Error> {
        if bytes[0] != SYNC_BYTE {
            return Err(Error::Sync { found: bytes[0] });
        }
        let control = bytes[3] >> 4 & 3;
        let has_payload = control & 1 != 0;
        let (adaptation, start) = if control & 2 == 0 {
            (None, 4)
        } else {
            let length = bytes[4];
            let limit = if has_payload { 182 } else { 183 };
            if length > limit {
                return Err(Error::AdaptationField { found: length, limit });
            }
            (Self::parse_adaptation(bytes, length), 5 + usize::from(length))
        };
        Ok(Packet {
            pid: u16::from_be_bytes([bytes[1] & 0x1f, bytes[2]]),
            unit_start: bytes[1] & 0x40 != 0,
            transport_error: bytes[1] & 0x80 != 0,
            continuity: bytes[3] & 0x0f,
            scrambled: bytes[3] & 0xc0 != 0,
            has_payload,
            payload: if has_payload { &bytes[start..] } else { &[] },
            adaptation,
        })
    }

    fn parse_adaptation(bytes: &[u8; PACKET_BYTES], length: u8) -> Option<Adaptation> {
        if length == 0 {
            return None;
        }
        let flags = bytes[5];
        let pcr = (flags & 0x10 != 0 && length >= 7)
            .then(|| Pcr::parse([bytes[6], bytes[7], bytes[8], bytes[9], bytes[10], bytes[11]]));
        Some(Adaptation { discontinuity: flags & 0x80 != 0, random_access: flags & 0x40 != 0, pcr })
    }

    /// The clock that the packet carries, if any.
    pub fn pcr(&self) -> Option<Pcr> {
        self.adaptation.and_then(|field| field.pcr)
    }

    /// Whether the packet announces a jump of its counter.
    pub fn discontinuity(&self) -> bool {
        self.adaptation.is_some_and(|field| field.discontinuity)
    }

    /// Whether decoding can start with the unit that begins here.
    pub fn random_access(&self) -> bool {
        self.adaptation.is_some_and(|field| field.random_access)
    }
}

/// Iterates over the whole packets of `bytes`, which begin at its first byte; a rest is left out.
pub fn packets(bytes: &[u8]) -> impl Iterator<Item = &[u8; PACKET_BYTES]> {
    bytes.as_chunks::<PACKET_BYTES>().0.iter()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_packet_with_pcr_is_read() {
        let mut bytes = [0xff; PACKET_BYTES];
        bytes[..12].copy_from_slice(&[0x47, 0x41, 0x00, 0x37, 7, 0x50, 0, 0, 0, 1, 0x7e, 5]);
        let packet = Packet::parse(&bytes).unwrap();
        assert_eq!((packet.pid, packet.unit_start, packet.continuity), (0x100, true, 7));
        assert_eq!(packet.pcr(), Some(Pcr::new(2 * 300 + 5)));
        assert!(packet.random_access() && !packet.discontinuity());
        assert_eq!(packet.payload.len(), 176);
    }

    #[test]
    fn an_adaptation_field_beyond_the_packet_is_refused() {
        let mut bytes = [0; PACKET_BYTES];
        bytes[..5].copy_from_slice(&[0x47, 0, 0, 0x30, 183]);
        assert_eq!(Packet::parse(&bytes), Err(Error::AdaptationField { found: 183, limit: 182 }));
        bytes[3] = 0x20;
        assert!(Packet::parse(&bytes).unwrap().payload.is_empty());
        bytes[0] = 0;
        assert_eq!(Packet::parse(&bytes), Err(Error::Sync { found: 0 }));
    }

    proptest! {
        #[test]
        fn a_pcr_survives_the_wire(ticks in 0..Pcr::WRAP) {
            prop_assert_eq!(Pcr::parse(Pcr::new(ticks).write()), Pcr::new(ticks));
        }

        #[test]
        fn no_packet_panics(header in proptest::array::uniform12(any::<u8>())) {
            let mut bytes = [0x47; PACKET_BYTES];
            bytes[1..13].copy_from_slice(&header);
            if let Ok(packet) = Packet::parse(&bytes) {
                prop_assert!(packet.payload.len() <= 184);
            }
        }
    }
}
