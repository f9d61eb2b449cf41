//! Transport packets with something around each: the 4 bytes of arrival time in front that discs and camcorders write (192 bytes,
//! `.m2ts`, `.MTS`), and the 16 bytes of Reed-Solomon parity behind that receivers of DVB may write (204 bytes).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::packet::{PACKET_BYTES, SYNC_BYTE};

/// So many packets in a row must have their sync bytes where a framing puts them.
const CONFIRMATIONS: usize = 5;
/// What is looked at before it is decided.
const LOOK_BYTES: usize = CONFIRMATIONS * Framing::Parity.stride();

/// What stands around packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framing {
    /// Nothing: 188 bytes.
    Plain,
    /// Four bytes in front of each: 192 bytes.
    ArrivalTime,
    /// Sixteen bytes behind each: 204 bytes.
    Parity,
}

impl Framing {
    /// Bytes from one packet to the next.
    pub const fn stride(self) -> usize {
        match self {
            Framing::Plain => PACKET_BYTES,
            Framing::ArrivalTime => PACKET_BYTES + 4,
            Framing::Parity => PACKET_BYTES + 16,
        }
    }

    const fn lead(self) -> usize {
        if let Framing::ArrivalTime = self { 4 } else { 0 }
    }

    /// The framing of a stream that begins so; `None` where more bytes are needed to tell.
    fn of(first: &[u8]) -> Option<Framing> {
        let is_sync = |at: usize| first.get(at).map(|&byte| byte == SYNC_BYTE);
        let agrees = |framing: Framing| {
            let at = |packet: usize| packet.saturating_mul(framing.stride()).saturating_add(framing.lead());
            (0..CONFIRMATIONS).all(|packet| is_sync(at(packet)).unwrap_or(false))
        };
        // A plain stream is not held up: its second packet decides.
        if is_sync(0)? && is_sync(PACKET_BYTES)? {
            return Some(Framing::Plain);
        }
        let found = [Framing::ArrivalTime, Framing::Parity].into_iter().find(|&framing| agrees(framing));
        found.or((first.len() >= LOOK_BYTES).then_some(Framing::Plain))
    }
}

/// Takes away what stands around packets. Bytes that fit no framing pass as they are.
#[derive(Clone, Debug, Default)]
pub struct Unframer {
    framing: Option<Framing>,
    /// What came before the framing was known.
    first: Vec<u8>,
    /// Where in a stride the next byte lies.
    at: usize,
}

impl Unframer {
    /// At the first byte of a stream.
    pub fn new() -> Unframer {
        Unframer::default()
    }

    /// The framing, once it is known.
    pub fn framing(&self) -> Option<Framing> {
        self.framing
    }

    /// Takes the next bytes, chopped anywhere, and calls `give` with what belongs to packets.
    pub fn push(&mut self, bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        if let Some(framing) = self.framing {
            return self.strip(framing, bytes, give);
        }
        self.first.extend_from_slice(bytes);
        let Some(framing) = Framing::of(&self.first) else { return };
        self.framing = Some(framing);
        let first = std::mem::take(&mut self.first);
        self.strip(framing, &first, give);
    }

    /// The stream has ended: what was held until its framing would be known is given as it is.
    pub fn finish(&mut self, give: &mut dyn FnMut(&[u8])) {
        let first = std::mem::take(&mut self.first);
        if !first.is_empty() {
            self.framing = Some(Framing::Plain);
            give(&first);
        }
    }

    fn strip(&mut self, framing: Framing, mut bytes: &[u8], give: &mut dyn FnMut(&[u8])) {
        if framing == Framing::Plain {
            return give(bytes);
        }
        let (lead, end) = (framing.lead(), framing.lead().saturating_add(PACKET_BYTES));
        while !bytes.is_empty() {
            let is_packet = (lead..end).contains(&self.at);
            let until = if self.at < lead {
                lead
            } else if is_packet {
                end
            } else {
                framing.stride()
            };
            let (part, rest) = bytes.split_at(bytes.len().min(until.saturating_sub(self.at)));
            if is_packet {
                give(part);
            }
            self.at = self.at.saturating_add(part.len());
            if self.at >= framing.stride() {
                self.at = 0;
            }
            bytes = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packets(count: usize) -> Vec<[u8; PACKET_BYTES]> {
        (0..count)
            .map(|number| {
                let mut packet = [number as u8; PACKET_BYTES];
                packet[0] = SYNC_BYTE;
                packet
            })
            .collect()
    }

    fn unframed(bytes: &[u8], chop: usize) -> (Vec<u8>, Option<Framing>) {
        let (mut unframer, mut out) = (Unframer::new(), Vec::new());
        bytes.chunks(chop).for_each(|part| unframer.push(part, &mut |part| out.extend_from_slice(part)));
        unframer.finish(&mut |part| out.extend_from_slice(part));
        (out, unframer.framing())
    }

    proptest! {
        #[test]
        fn what_stands_around_packets_is_taken_away(count in 6usize..20, chop in 1usize..700, around in any::<[u8; 16]>()) {
            let plain = packets(count);
            let expected = plain.concat();
            prop_assert_eq!(unframed(&expected, chop), (expected.clone(), Some(Framing::Plain)));
            prop_assume!(around[0] != SYNC_BYTE);
            let timed: Vec<u8> = plain.iter().flat_map(|packet| [&around[..4], packet].concat()).collect();
            prop_assert_eq!(unframed(&timed, chop), (expected.clone(), Some(Framing::ArrivalTime)));
            let coded: Vec<u8> = plain.iter().flat_map(|packet| [packet, &around[..]].concat()).collect();
            prop_assert_eq!(unframed(&coded, chop), (expected, Some(Framing::Parity)));
        }

        #[test]
        fn any_bytes_pass(bytes in prop::collection::vec(prop_oneof![Just(SYNC_BYTE), any::<u8>()], 0..3000), chop in 1usize..700) {
            let (out, framing) = unframed(&bytes, chop);
            prop_assert!(framing.is_none_or(|framing| framing != Framing::Plain) || out == bytes);
            prop_assert!(out.len() <= bytes.len());
        }
    }

    #[test]
    fn a_plain_stream_is_not_held_up() {
        let (mut unframer, mut out) = (Unframer::new(), Vec::new());
        unframer.push(&packets(2).concat()[..=PACKET_BYTES], &mut |part| out.extend_from_slice(part));
        assert_eq!(out.len(), PACKET_BYTES + 1);
    }
}
