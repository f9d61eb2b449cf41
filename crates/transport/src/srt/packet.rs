//! Packets: their headers, read and written (§3).

use super::sequence::Sequence;

/// Bytes of the header of any packet.
pub const HEADER_BYTES: usize = 16;

/// The bit of the first word that tells a control packet.
const CONTROL: u32 = 1 << 31;

/// A packet as it came.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet<'a> {
    /// One with a payload.
    Data(Data<'a>),
    /// One with which the ends agree.
    Control(Control<'a>),
}

/// A data packet (§3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Data<'a> {
    pub(super) sequence: Sequence,
    /// 0: not encrypted; 1: with the even key, 2: with the odd one.
    pub(super) key: u8,
    pub(super) is_retransmitted: bool,
    /// The number of the message, 26 bits.
    pub(super) message: u32,
    /// When it was handed in, in microseconds since the sender began, modulo 2³².
    pub(super) timestamp: u32,
    /// The socket that it is for.
    pub(super) destination: u32,
    pub(super) payload: &'a [u8],
}

/// What a control packet is (§3.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Handshake.
    Handshake,
    /// Keep-alive.
    KeepAlive,
    /// Acknowledgement.
    Ack,
    /// Loss report.
    LossReport,
    /// End of the connection.
    Shutdown,
    /// Acknowledgement of an acknowledgement.
    AckAck,
    /// The sender has dropped messages.
    DropRequest,
    /// A key is renewed (user-defined, subtype 3) or the answer to that (4); the subtypes 1 and 2 are version 4's handshakes.
    User(u16),
    /// Another one.
    Other(u16),
}

impl Kind {
    const fn of(kind: u16, subtype: u16) -> Kind {
        match kind {
            0 => Kind::Handshake,
            1 => Kind::KeepAlive,
            2 => Kind::Ack,
            3 => Kind::LossReport,
            5 => Kind::Shutdown,
            6 => Kind::AckAck,
            7 => Kind::DropRequest,
            0x7fff => Kind::User(subtype),
            other => Kind::Other(other),
        }
    }

    const fn word(self) -> u32 {
        let (kind, subtype) = match self {
            Kind::Handshake => (0, 0),
            Kind::KeepAlive => (1, 0),
            Kind::Ack => (2, 0),
            Kind::LossReport => (3, 0),
            Kind::Shutdown => (5, 0),
            Kind::AckAck => (6, 0),
            Kind::DropRequest => (7, 0),
            Kind::User(subtype) => (0x7fff, subtype),
            Kind::Other(kind) => (kind & 0x7fff, 0),
        };
        CONTROL | (kind as u32) << 16 | subtype as u32
    }
}

/// A control packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Control<'a> {
    pub(super) kind: Kind,
    /// What it means depends on the kind.
    pub(super) information: u32,
    pub(super) timestamp: u32,
    pub(super) destination: u32,
    pub(super) body: &'a [u8],
}

/// The word of 32 bits at the beginning of `bytes`, and the rest.
pub(super) fn word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let (word, rest) = bytes.split_first_chunk::<4>()?;
    Some((u32::from_be_bytes(*word), rest))
}

impl Packet<'_> {
    /// Reads a datagram; `None` where it is too short for a packet.
    pub(super) fn parse(datagram: &[u8]) -> Option<Packet<'_>> {
        let (first, rest) = word(datagram)?;
        let (second, rest) = word(rest)?;
        let (timestamp, rest) = word(rest)?;
        let (destination, rest) = word(rest)?;
        if first & CONTROL != 0 {
            let kind = Kind::of((first >> 16) as u16 & 0x7fff, first as u16);
            return Some(Packet::Control(Control {
                kind,
                information: second,
                timestamp,
                destination,
                body: rest,
            }));
        }
        Some(Packet::Data(Data {
            sequence: Sequence::new(first),
            key: (second >> 27 & 3) as u8,
            is_retransmitted: second >> 26 & 1 == 1,
            message: second & 0x03ff_ffff,
            timestamp,
            destination,
            payload: rest,
        }))
    }

    /// The socket that a packet is for; 0 for one that has none yet.
    pub(super) fn destination(&self) -> u32 {
        match self {
            Packet::Data(data) => data.destination,
            Packet::Control(control) => control.destination,
        }
    }
}

impl Data<'_> {
    /// Appends the header. The payload is to follow it.
    pub(super) fn write_header(&self, out: &mut Vec<u8>) {
        // The packet is a message by itself, and messages are given to the application in order.
        let second = 0b111 << 29
            | u32::from(self.key & 3) << 27
            | u32::from(self.is_retransmitted) << 26
            | self.message & 0x03ff_ffff;
        for word in [self.sequence.value(), second, self.timestamp, self.destination] {
            out.extend_from_slice(&word.to_be_bytes());
        }
    }
}

impl Control<'_> {
    /// Appends it.
    pub(super) fn write(&self, out: &mut Vec<u8>) {
        for word in [self.kind.word(), self.information, self.timestamp, self.destination] {
            out.extend_from_slice(&word.to_be_bytes());
        }
        out.extend_from_slice(self.body);
        if self.body.is_empty() {
            // The reference writes and expects a word here, which means nothing.
            out.extend_from_slice(&[0; 4]);
        }
    }
}

/// The numbers that a loss report names, in runs of first and last (§3.2.5, appendix A). Runs that end before they begin are left
/// out.
pub(super) fn parse_losses(mut body: &[u8]) -> impl Iterator<Item = (Sequence, Sequence)> {
    std::iter::from_fn(move || {
        loop {
            let (first, rest) = word(body)?;
            body = rest;
            if first & CONTROL == 0 {
                return Some((Sequence::new(first), Sequence::new(first)));
            }
            let (last, rest) = word(body)?;
            body = rest;
            let (first, last) = (Sequence::new(first), Sequence::new(last));
            if last.minus(first) >= 0 {
                return Some((first, last));
            }
        }
    })
}

/// Appends a run of numbers to a loss report.
pub(super) fn write_loss(first: Sequence, last: Sequence, body: &mut Vec<u8>) {
    if first == last {
        body.extend_from_slice(&first.value().to_be_bytes());
    } else {
        body.extend_from_slice(&(first.value() | CONTROL).to_be_bytes());
        body.extend_from_slice(&last.value().to_be_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_data_packet_is_as_the_draft_draws_it() {
        let data = Data {
            sequence: Sequence::new(0x1234_5678),
            key: 1,
            is_retransmitted: true,
            message: 5,
            timestamp: 0x0102_0304,
            destination: 0x0a0b_0c0d,
            payload: b"xy",
        };
        let mut out = Vec::new();
        data.write_header(&mut out);
        out.extend_from_slice(data.payload);
        assert_eq!(out[..8], [0x12, 0x34, 0x56, 0x78, 0b1110_1100, 0, 0, 5]);
        assert_eq!(out[8..], [1, 2, 3, 4, 10, 11, 12, 13, b'x', b'y']);
        assert_eq!(Packet::parse(&out), Some(Packet::Data(data)));
    }

    proptest! {
        #[test]
        fn any_datagram_is_read_or_refused(datagram in proptest::collection::vec(any::<u8>(), 0..64)) {
            let is_long = datagram.len() >= HEADER_BYTES;
            prop_assert_eq!(Packet::parse(&datagram).is_some(), is_long);
        }

        #[test]
        fn what_is_written_is_read(
            kind in prop_oneof![
                Just(Kind::Handshake), Just(Kind::KeepAlive), Just(Kind::Ack), Just(Kind::LossReport), Just(Kind::Shutdown),
                Just(Kind::AckAck), Just(Kind::DropRequest), any::<u16>().prop_map(Kind::User)
            ],
            words in any::<[u32; 3]>(), body in proptest::collection::vec(any::<u8>(), 1..40),
        ) {
            let [information, timestamp, destination] = words;
            let control = Control { kind, information, timestamp, destination, body: &body };
            let mut out = Vec::new();
            control.write(&mut out);
            prop_assert_eq!(Packet::parse(&out), Some(Packet::Control(control)));
        }

        #[test]
        fn losses_are_read_as_they_were_written(runs in proptest::collection::vec((any::<u32>(), 0u32..1000), 0..20)) {
            let runs: Vec<_> = runs.into_iter().map(|(first, more)| (Sequence::new(first), Sequence::new(first).plus(more))).collect();
            let mut body = Vec::new();
            runs.iter().for_each(|(first, last)| write_loss(*first, *last, &mut body));
            prop_assert_eq!(parse_losses(&body).collect::<Vec<_>>(), runs);
        }

        #[test]
        fn any_report_is_read(body in proptest::collection::vec(any::<u8>(), 0..100)) {
            prop_assert!(parse_losses(&body).all(|(first, last)| last.minus(first) >= 0));
        }
    }
}
