//! The frames inside a data packet. Each begins with a byte that tells its kind; integers are [`super::varint`]s.

use super::packet::MAX_DATAGRAM;
use super::row::{ROW, Row};
use super::varint::{self, Reader};
use crate::link::{MAX_CHANNELS, MAX_MESSAGE_BYTES, Options};

const PADDING: u8 = 0x00;
const PING: u8 = 0x01;
const ACK: u8 = 0x02;
const GRACE: u8 = 0x03;
const CHALLENGE: u8 = 0x04;
const RESPONSE: u8 = 0x05;
const CLOSE: u8 = 0x06;
const MARKS: u8 = 0x07;
const OPEN: u8 = 0x08;
const CONSUMED: u8 = 0x09;
const CANCEL: u8 = 0x0A;
const SKIPPED: u8 = 0x0B;
const MESSAGE: u8 = 0x10;
const FRAGMENT: u8 = 0x12;
/// Set in the kind of a MESSAGE or FRAGMENT that takes the rest of the packet and so has no length.
const TO_THE_END: u8 = 0x01;
/// Set in the kind of a MESSAGE or FRAGMENT of a compressed message.
const PACKED: u8 = 0x04;
const PARITY: u8 = 0x18;
/// Set in the kind of a PARITY of a compressed message.
const PARITY_PACKED: u8 = 0x01;

/// The longest reason that a CLOSE carries, bytes.
pub const MAX_REASON: usize = 256;
/// The most ranges that an ACK carries.
pub const MAX_RANGES: usize = 32;

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Frame<'a> {
    /// Nothing; fills a packet.
    Padding,
    /// Asks for an acknowledgement.
    Ping,
    /// What has been received.
    Ack(Ack<'a>),
    /// How long the sender paused of its own will before this packet, microseconds.
    Grace(u64),
    /// To be sent back from where it was received.
    Challenge([u8; 8]),
    /// The answer to a challenge.
    Response([u8; 8]),
    /// The link ends.
    Close {
        /// 0: as wished; the others stand in [`crate::link::CloseCode`].
        code: u64,
        /// For people; UTF-8 if well made.
        reason: &'a [u8],
    },
    /// How many packets came with each of IP's marks of congestion (RFC 3168), since the session began.
    Marks {
        /// With ECT(1).
        ect1: u64,
        /// With ECT(0).
        ect0: u64,
        /// With CE: a router's queue was growing.
        ce: u64,
    },
    /// What the sender does on a channel.
    Open {
        /// The channel's number.
        channel: u8,
        /// How messages are sent on it.
        options: Options,
    },
    /// All messages of a channel before `next` are done with: their room is free again.
    Consumed {
        /// The channel's number.
        channel: u8,
        /// The first message that still takes room, or that is still to come.
        next: u64,
    },
    /// A message that has begun will not be finished.
    Cancel {
        /// The channel's number.
        channel: u8,
        /// The message's number.
        message: u64,
    },
    /// The receiver goes on without this message.
    Skipped {
        /// The channel's number.
        channel: u8,
        /// The message's number.
        message: u64,
    },
    /// A whole message or a part of one.
    Data(Data<'a>),
    /// The same of a message that is compressed.
    Packed(Data<'a>),
    /// What puts a message together of which parts are lost.
    Parity(Parity<'a>),
    /// Whole messages one after the other.
    Row(Row<'a>),
}

/// A whole message or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Data<'a> {
    /// The channel's number.
    pub channel: u8,
    /// The message's number, counted from 0 on its channel in the order of sending.
    pub message: u64,
    /// The whole message's size, bytes.
    pub total: u32,
    /// Where in it `bytes` begin.
    pub offset: u32,
    /// The part.
    pub bytes: &'a [u8],
}

/// One parity shard of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parity<'a> {
    /// The channel's number.
    pub channel: u8,
    /// The message's number.
    pub message: u64,
    /// Whether the message is compressed.
    pub packed: bool,
    /// The whole message's size, bytes.
    pub total: u32,
    /// How many parity shards the message has.
    pub count: u32,
    /// Which of them this is, from 0.
    pub index: u32,
    /// The shard; all of a message have one size.
    pub bytes: &'a [u8],
}

/// What has been received, when, and how fast it comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ack<'a> {
    /// The largest packet number received.
    pub largest: u64,
    /// How long the acknowledgement waited after that packet, microseconds.
    pub delay_us: u64,
    /// When that packet came, by the receiver's clock, microseconds.
    pub received_us: u64,
    /// The receiver's estimate of how long 1000 bytes take to arrive, nanoseconds; 0 for none yet.
    pub arrival_ns: u64,
    /// The number of packets before `largest` that came without a gap.
    first: u64,
    /// Pairs of gap and length.
    rest: &'a [u8],
}

impl Ack<'_> {
    /// The ranges of received numbers, first and last one included, from the newest down.
    pub fn ranges(&self) -> impl Iterator<Item = (u64, u64)> {
        let mut reader = Reader::new(self.rest);
        // It was no more than that when it was parsed.
        let mut low = self.largest.saturating_sub(self.first);
        let head = (low, self.largest);
        std::iter::once(head).chain(std::iter::from_fn(move || {
            let (gap, length) = (reader.varint()?, reader.varint()?);
            let high = low.checked_sub(gap)?.checked_sub(2)?;
            low = high.checked_sub(length)?;
            Some((low, high))
        }))
    }

    fn parse<'a>(reader: &mut Reader<'a>) -> Option<Ack<'a>> {
        let (largest, delay_us) = (reader.varint()?, reader.varint()?);
        let (received_us, arrival_ns) = (reader.varint()?, reader.varint()?);
        let count = reader.length_up_to(MAX_RANGES - 1)?;
        let first = reader.varint()?;
        let (start, mut low) = (*reader, largest.checked_sub(first)?);
        for _ in 0..count {
            let high = low.checked_sub(reader.varint()?)?.checked_sub(2)?;
            low = high.checked_sub(reader.varint()?)?;
        }
        let rest = reader.taken_since(start);
        Some(Ack { largest, delay_us, received_us, arrival_ns, first, rest })
    }
}

/// Appends an ACK of `ranges` (first and last number included, from the newest down, at least one apart). At most
/// [`MAX_RANGES`] of them are written; without any nothing is.
pub fn write_ack(
    ranges: impl ExactSizeIterator<Item = (u64, u64)>,
    delay_us: u64,
    received_us: u64,
    arrival_ns: u64,
    out: &mut Vec<u8>,
) {
    let count = ranges.len().min(MAX_RANGES);
    let mut ranges = ranges.take(count);
    let Some((mut low, largest)) = ranges.next() else { return };
    out.push(ACK);
    let (rest, length) = (count.saturating_sub(1) as u64, largest.saturating_sub(low));
    for value in [largest, delay_us, received_us, arrival_ns, rest, length] {
        varint::write(value, out);
    }
    for (next_low, high) in ranges {
        varint::write(low.saturating_sub(high).saturating_sub(2), out);
        varint::write(high.saturating_sub(next_low), out);
        low = next_low;
    }
}

/// The largest size of an ACK with `ranges` ranges, bytes.
pub const fn ack_size(ranges: usize) -> usize {
    // The kind, four numbers, how many ranges follow, the first one's length, two numbers for each of the others.
    const HEAD: usize = 1 + 4 * 8 + 1 + 8;
    HEAD.saturating_add(ranges.saturating_sub(1).saturating_mul(16))
}

/// Room that a [`Data`] frame's head takes at most, bytes.
pub const DATA_HEAD: usize = 1 + 2 + 8 + 4 + 4 + 4;

/// Bytes of the head of the frame that carries `length` bytes of a message, its length given.
pub fn data_head(message: u64, total: u32, offset: u32, length: usize) -> usize {
    let whole = length == total as usize;
    let part = [u64::from(total), u64::from(offset)].map(|value| if whole { 0 } else { varint::size(value) });
    let sizes = [varint::size(message), varint::size(length as u64), part[0], part[1]];
    sizes.iter().fold(2, |head, size| head.saturating_add(*size))
}

impl Data<'_> {
    /// Appends the frame; `to_the_end` leaves its length away, so that nothing may follow in the packet.
    #[inline]
    pub fn write(&self, to_the_end: bool, out: &mut Vec<u8>) {
        self.write_as(if to_the_end { TO_THE_END } else { 0 }, out);
    }

    /// Appends the frame of a message that is compressed, as [`Data::write`].
    #[inline]
    pub fn write_packed(&self, to_the_end: bool, out: &mut Vec<u8>) {
        self.write_as(PACKED | if to_the_end { TO_THE_END } else { 0 }, out);
    }

    #[inline]
    fn write_as(&self, flags: u8, out: &mut Vec<u8>) {
        let (whole, to_the_end) = (self.bytes.len() == self.total as usize, flags & TO_THE_END != 0);
        out.push(if whole { MESSAGE } else { FRAGMENT } | flags);
        out.push(self.channel);
        varint::write(self.message, out);
        if !whole {
            varint::write(u64::from(self.total), out);
            varint::write(u64::from(self.offset), out);
        }
        if !to_the_end {
            varint::write(self.bytes.len() as u64, out);
        }
        out.extend_from_slice(self.bytes);
    }

    fn parse<'a>(kind: u8, reader: &mut Reader<'a>) -> Option<Data<'a>> {
        let channel = channel(reader)?;
        let message = reader.varint()?;
        let part = if kind & FRAGMENT == FRAGMENT {
            Some((reader.u32_up_to(MAX_MESSAGE_BYTES)?, reader.u32_up_to(MAX_MESSAGE_BYTES)?))
        } else {
            None
        };
        let bytes = if kind & TO_THE_END != 0 {
            reader.take_rest()
        } else {
            let length = reader.length_up_to(MAX_DATAGRAM)?;
            reader.bytes(length)?
        };
        let length = u32::try_from(bytes.len()).ok()?;
        let Some((total, offset)) = part else {
            return Some(Data { channel, message, total: length, offset: 0, bytes });
        };
        let fits = offset.checked_add(length).is_some_and(|end| end <= total);
        // An empty part would name a message without bringing it on.
        (fits && length > 0).then_some(Data { channel, message, total, offset, bytes })
    }
}

/// Room that the head of a [`Parity`] frame takes at most, bytes.
pub const PARITY_HEAD: usize = 1 + 1 + 8 + 4 + 4 + 4 + 4;

impl Parity<'_> {
    /// Appends the frame.
    pub fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&[PARITY | if self.packed { PARITY_PACKED } else { 0 }, self.channel]);
        varint::write(self.message, out);
        self.numbers().into_iter().for_each(|value| varint::write(value, out));
        out.extend_from_slice(self.bytes);
    }

    /// How many bytes the frame takes.
    pub fn size(&self) -> usize {
        let sizes = self.numbers().map(varint::size);
        let head = sizes.iter().fold(2, |sum: usize, size| sum.saturating_add(*size));
        head.saturating_add(varint::size(self.message)).saturating_add(self.bytes.len())
    }

    /// The numbers behind that of the message, in their order on the wire.
    fn numbers(&self) -> [u64; 4] {
        [self.total.into(), self.count.into(), self.index.into(), self.bytes.len() as u64]
    }

    fn parse<'a>(kind: u8, reader: &mut Reader<'a>) -> Option<Parity<'a>> {
        let (channel, message) = (channel(reader)?, reader.varint()?);
        let total = reader.u32_up_to(MAX_MESSAGE_BYTES)?;
        let count = reader.u32_up_to(MAX_MESSAGE_BYTES)?;
        let index = reader.u32_up_to(count.checked_sub(1)?)?;
        let length = reader.length_up_to(MAX_DATAGRAM)?;
        let bytes = reader.bytes(length)?;
        Some(Parity { channel, message, packed: kind & PARITY_PACKED != 0, total, count, index, bytes })
    }
}

fn channel(reader: &mut Reader<'_>) -> Option<u8> {
    reader.byte().filter(|channel| usize::from(*channel) < MAX_CHANNELS)
}

impl<'a> Frame<'a> {
    /// Takes the next frame off `reader`, which is not empty. `None`: it is malformed, and with it the packet.
    #[inline]
    pub fn parse(reader: &mut Reader<'a>) -> Option<Frame<'a>> {
        let kind = reader.byte()?;
        Some(match kind {
            MESSAGE..=0x13 => Frame::Data(Data::parse(kind, reader)?),
            0x14..=0x17 => Frame::Packed(Data::parse(kind, reader)?),
            PARITY | 0x19 => Frame::Parity(Parity::parse(kind, reader)?),
            ROW => Frame::Row(Row::parse(reader)?),
            ACK => Frame::Ack(Ack::parse(reader)?),
            PADDING => Frame::Padding,
            PING => Frame::Ping,
            GRACE => Frame::Grace(reader.varint()?),
            MARKS => Frame::Marks { ect1: reader.varint()?, ect0: reader.varint()?, ce: reader.varint()? },
            CHALLENGE => Frame::Challenge(reader.array()?),
            RESPONSE => Frame::Response(reader.array()?),
            CLOSE => {
                let (code, length) = (reader.varint()?, reader.length_up_to(MAX_REASON)?);
                Frame::Close { code, reason: reader.bytes(length)? }
            }
            OPEN => Frame::Open { channel: channel(reader)?, options: Options::parse(reader)? },
            CONSUMED => Frame::Consumed { channel: channel(reader)?, next: reader.varint()? },
            CANCEL => Frame::Cancel { channel: channel(reader)?, message: reader.varint()? },
            SKIPPED => Frame::Skipped { channel: channel(reader)?, message: reader.varint()? },
            _ => return None,
        })
    }

    /// Whether the frame asks for an acknowledgement of its packet (RFC 9000 §13.2).
    pub fn is_eliciting(&self) -> bool {
        !matches!(
            self,
            Frame::Padding | Frame::Ack(_) | Frame::Grace(_) | Frame::Marks { .. } | Frame::Close { .. }
        )
    }

    /// Appends the frame. An ACK is written by [`write_ack`], not here: here it is left out.
    pub fn write(&self, out: &mut Vec<u8>) {
        let numbered = |kind: u8, channel: u8, number: u64, out: &mut Vec<u8>| {
            out.extend_from_slice(&[kind, channel]);
            varint::write(number, out);
        };
        match *self {
            Frame::Padding => out.push(PADDING),
            Frame::Ping => out.push(PING),
            Frame::Ack(_) => {}
            Frame::Grace(micros) => {
                out.push(GRACE);
                varint::write(micros, out);
            }
            Frame::Marks { ect1, ect0, ce } => {
                out.push(MARKS);
                [ect1, ect0, ce].into_iter().for_each(|count| varint::write(count, out));
            }
            Frame::Challenge(data) => {
                out.push(CHALLENGE);
                out.extend_from_slice(&data);
            }
            Frame::Response(data) => {
                out.push(RESPONSE);
                out.extend_from_slice(&data);
            }
            Frame::Close { code, reason } => {
                let reason = &reason[..reason.len().min(MAX_REASON)];
                out.push(CLOSE);
                varint::write(code, out);
                varint::write(reason.len() as u64, out);
                out.extend_from_slice(reason);
            }
            Frame::Open { channel, options } => {
                out.extend_from_slice(&[OPEN, channel]);
                options.write(out);
            }
            Frame::Consumed { channel, next } => numbered(CONSUMED, channel, next, out),
            Frame::Cancel { channel, message } => numbered(CANCEL, channel, message, out),
            Frame::Skipped { channel, message } => numbered(SKIPPED, channel, message, out),
            Frame::Data(data) => data.write(false, out),
            Frame::Packed(data) => data.write_packed(false, out),
            Frame::Parity(parity) => parity.write(out),
            Frame::Row(row) => row.write(out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Compression;
    use proptest::prelude::*;

    fn frames() -> impl Strategy<Value = Frame<'static>> {
        let numbered = (0..MAX_CHANNELS as u8, 0..=varint::MAX);
        prop_oneof![
            Just(Frame::Padding),
            Just(Frame::Ping),
            (0..=varint::MAX).prop_map(Frame::Grace),
            any::<[u8; 8]>().prop_map(Frame::Challenge),
            (0..=varint::MAX, 0u64..70).prop_map(|(ect0, ce)| Frame::Marks { ect1: 0, ect0, ce }),
            any::<[u8; 8]>().prop_map(Frame::Response),
            (0..=varint::MAX).prop_map(|code| Frame::Close { code, reason: b"done" }),
            numbered.clone().prop_map(|(channel, next)| Frame::Consumed { channel, next }),
            numbered.clone().prop_map(|(channel, message)| Frame::Cancel { channel, message }),
            numbered.clone().prop_map(|(channel, message)| Frame::Skipped { channel, message }),
            (0..MAX_CHANNELS as u8, any::<bool>(), any::<bool>(), any::<u8>(), 0..5000u16).prop_map(
                |(channel, reliable, ordered, priority, weight)| {
                    let options =
                        Options { reliable, ordered, priority, weight: weight.max(1), ..Options::default() };
                    let options = Options {
                        compression: Compression::from_code(priority % 3).unwrap_or_default(),
                        stamped: weight % 2 == 0,
                        ..options
                    };
                    Frame::Open { channel, options: options.on_the_wire() }
                }
            ),
            (numbered, 1usize..40, 0u32..1000, 0u32..1000).prop_map(
                |((channel, message), size, before, after)| {
                    let bytes = &[7u8; 40][..size];
                    let total = before + after + size as u32;
                    let data = Data { channel, message, total, offset: before, bytes };
                    let (packed, count) = (after % 2 == 0, after + 1);
                    match before % 3 {
                        0 => Frame::Data(data),
                        1 => Frame::Packed(data),
                        _ => {
                            Frame::Parity(Parity { channel, message, packed, total, count, index: 0, bytes })
                        }
                    }
                }
            ),
        ]
    }

    proptest! {
        #[test]
        fn frames_are_read_as_they_were_written(frames in prop::collection::vec(frames(), 0..20)) {
            let mut bytes = Vec::new();
            frames.iter().for_each(|frame| frame.write(&mut bytes));
            let mut reader = Reader::new(&bytes);
            for frame in &frames {
                prop_assert_eq!(&Frame::parse(&mut reader).unwrap(), frame);
            }
            prop_assert!(reader.is_empty());
        }

        #[test]
        fn acks_are_read_as_they_were_written(
            steps in prop::collection::vec((0u64..1000, 0u64..1000), 1..=MAX_RANGES), far in 0u32..40,
            top in 1u64 << 58..varint::MAX,
        ) {
            let (mut ranges, mut high) = (Vec::new(), top);
            // A peer may leave out as many numbers as it likes.
            let steps = steps.into_iter().map(|(length, gap)| (length << far, gap << far));
            for (length, gap) in steps {
                ranges.push((high - length, high));
                high -= length + gap + 2;
            }
            let mut bytes = Vec::new();
            write_ack(ranges.iter().copied(), 1, 2, 3, &mut bytes);
            prop_assert!(bytes.len() <= ack_size(ranges.len()));
            let mut reader = Reader::new(&bytes);
            let Some(Frame::Ack(ack)) = Frame::parse(&mut reader) else { panic!("no ACK") };
            prop_assert!(reader.is_empty());
            prop_assert_eq!((ack.largest, ack.delay_us, ack.received_us, ack.arrival_ns), (top, 1, 2, 3));
            prop_assert_eq!(ack.ranges().collect::<Vec<_>>(), ranges);
        }

        #[test]
        fn any_bytes_are_read_without_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), kind in 0u8..0x1C) {
            let bytes = [&[kind][..], &bytes].concat();
            let mut reader = Reader::new(&bytes);
            while !reader.is_empty() {
                match Frame::parse(&mut reader) {
                    Some(Frame::Ack(ack)) => prop_assert!(ack.ranges().count() <= MAX_RANGES),
                    Some(Frame::Data(data)) => prop_assert!(data.offset as usize + data.bytes.len() <= data.total as usize),
                    Some(_) => {}
                    None => break,
                }
            }
        }
    }

    #[test]
    fn a_frame_to_the_end_takes_all_that_is_left() {
        let data = Data { channel: 3, message: 70, total: 9, offset: 4, bytes: b"12345" };
        let mut bytes = Vec::new();
        data.write(true, &mut bytes);
        let mut reader = Reader::new(&bytes);
        assert_eq!(Frame::parse(&mut reader), Some(Frame::Data(data)));
        assert!(reader.is_empty());
        bytes.push(0);
        assert_eq!(Frame::parse(&mut Reader::new(&bytes)), None, "it would reach beyond its message");
    }

    #[test]
    fn the_room_for_a_head_is_what_it_takes() {
        for (message, total, offset, length) in
            [(0, 10, 0, 10), (5000, 1 << 24, 1 << 20, 1200), (9, 100, 50, 50)]
        {
            let bytes = vec![0; length];
            let mut out = Vec::new();
            Data { channel: 1, message, total, offset, bytes: &bytes }.write(false, &mut out);
            assert_eq!(out.len(), data_head(message, total, offset, length) + length);
        }
    }
}
