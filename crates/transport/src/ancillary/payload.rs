//! What an RTP packet carries (RFC 8331 §2.1).

use super::{Error, HEADER_BYTES, Packet};

/// The field that a payload's time stamp is of (F).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Field {
    /// Progressive video, or no field in particular.
    #[default]
    Unspecified,
    /// No valid value (0b01): receivers should ignore the packet.
    Invalid,
    /// The first field.
    First,
    /// The second one.
    Second,
}

/// ANC packets, and what stands in front of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Payload {
    /// The high half of the 32-bit sequence number.
    pub extended_sequence: u16,
    /// The field.
    pub field: Field,
    /// Bits that mean nothing yet, 22.
    pub reserved: u32,
    /// At most 255, and at most 65,535 bytes. None at all keeps the stream alive.
    pub packets: Vec<Packet>,
}

impl Payload {
    /// Reads a payload. Wrong parity and checksums are no error: [`Packet`] tells.
    ///
    /// # Errors
    /// [`Error::Short`] where it ends too early, [`Error::Length`] where its length is not that of its ANC packets.
    pub fn parse(payload: &[u8]) -> Result<Payload, Error> {
        let short = Error::Short { found: payload.len(), expected: HEADER_BYTES };
        let (head, rest) = payload.split_first_chunk::<HEADER_BYTES>().ok_or(short)?;
        let [e0, e1, l0, l1, count, flags @ ..] = *head;
        let [f0, f1, f2] = flags;
        let flags = u32::from_be_bytes([0, f0, f1, f2]);
        let said = usize::from(u16::from_be_bytes([l0, l1]));
        if rest.len() != said {
            return Err(Error::Length { found: rest.len(), said });
        }
        // No room is made for packets that are only promised.
        let (mut packets, mut left) = (Vec::new(), rest);
        for _ in 0..count {
            let (packet, behind) = Packet::read(left)?;
            packets.push(packet);
            left = behind;
        }
        if !left.is_empty() {
            return Err(Error::Length { found: said.saturating_sub(left.len()), said });
        }
        Ok(Payload {
            extended_sequence: u16::from_be_bytes([e0, e1]),
            field: match f0 >> 6 {
                0 => Field::Unspecified,
                1 => Field::Invalid,
                2 => Field::First,
                _ => Field::Second,
            },
            reserved: flags & 0x3F_FFFF,
            packets,
        })
    }

    /// Appends the payload's bytes; what was parsed gives the same bytes again. Packets beyond what a payload can have are left
    /// out.
    pub fn write(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend([0; HEADER_BYTES]);
        let mut length = 0u16;
        let mut count = 0u8;
        for packet in self.packets.iter().take(usize::from(u8::MAX)) {
            let with = u16::try_from(packet.bytes()).ok().and_then(|bytes| length.checked_add(bytes));
            let Some(with) = with else { break };
            packet.write(out);
            length = with;
            count = count.saturating_add(1);
        }
        let field = match self.field {
            Field::Unspecified => 0,
            Field::Invalid => 1,
            Field::First => 2,
            Field::Second => 3,
        };
        let flags = u32::from(count) << 24 | field << 22 | self.reserved & 0x3F_FFFF;
        let ([e0, e1], [l0, l1]) = (self.extended_sequence.to_be_bytes(), length.to_be_bytes());
        let [f0, f1, f2, f3] = flags.to_be_bytes();
        for (slot, byte) in out.iter_mut().skip(start).zip([e0, e1, l0, l1, f0, f1, f2, f3]) {
            *slot = byte;
        }
    }
}
