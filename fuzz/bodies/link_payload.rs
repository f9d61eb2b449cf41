//! What a data packet holds after decryption: frames are read, written, and read as the same.

use glassline_transport::link::wire::frame::{self, Data, Frame, MAX_RANGES};
use glassline_transport::link::wire::packet::MAX_DATAGRAM;
use glassline_transport::link::wire::row::{MAX_ROW, Row, row_head};
use glassline_transport::link::wire::varint::{self, Reader};

/// Takes the bytes as the frames of one packet. Panics and writing that reads as something else fail.
pub fn run(data: &[u8]) {
    let data = &data[..data.len().min(MAX_DATAGRAM)];
    let frames = parse(data);
    let mut written = Vec::with_capacity(2 * data.len());
    frames.iter().for_each(|frame| write(frame, &mut written));
    let again = parse(&written);
    assert!(frames.len() == again.len());
    assert!(frames.iter().zip(&again).all(|(one, two)| is_same(one, two)), "{frames:?} became {again:?}");
    let mut twice = Vec::with_capacity(written.len());
    again.iter().for_each(|frame| write(frame, &mut twice));
    assert_eq!(written, twice);
    if let Some(Frame::Data(data) | Frame::Packed(data)) = frames.last() {
        check_last(data);
    }
}

/// The frames up to the first malformed one.
fn parse(bytes: &[u8]) -> Vec<Frame<'_>> {
    let (mut frames, mut reader) = (Vec::new(), Reader::new(bytes));
    while !reader.is_empty() {
        let Some(frame) = Frame::parse(&mut reader) else { break };
        frames.push(frame);
    }
    frames
}

/// Appends the frame, whose size is the one that was reckoned with.
fn write(frame: &Frame<'_>, out: &mut Vec<u8>) {
    let before = out.len();
    match frame {
        Frame::Ack(ack) => {
            let ranges: Vec<_> = ack.ranges().collect();
            assert!(ranges.len() <= MAX_RANGES && ranges.iter().all(|(low, high)| low <= high));
            frame::write_ack(ranges.into_iter(), ack.delay_us, ack.received_us, ack.arrival_ns, out);
            assert!(out.len() - before <= frame::ack_size(MAX_RANGES));
        }
        Frame::Data(data) | Frame::Packed(data) => {
            frame.write(out);
            let head = frame::data_head(data.message, data.total, data.offset, data.bytes.len());
            assert_eq!(out.len() - before, head + data.bytes.len());
        }
        Frame::Parity(parity) => {
            frame.write(out);
            assert_eq!(out.len() - before, parity.size());
        }
        Frame::Row(row) => {
            frame.write(out);
            let lengths: Vec<_> = row.lengths().collect();
            assert!((1..=MAX_ROW).contains(&lengths.len()) && lengths.len() == usize::from(row.count));
            assert_eq!(lengths.iter().sum::<usize>(), row.bytes.len());
            let sizes: usize = lengths.iter().map(|length| varint::size(*length as u64)).sum();
            // Lengths that were written longer than need be are written so again.
            assert!(out.len() - before >= row_head(row.first) + sizes + row.bytes.len());
        }
        _ => frame.write(out),
    }
}

/// Whether they say the same. Of ACKs the ranges count and of rows the lengths, not how their numbers were written.
fn is_same(one: &Frame<'_>, two: &Frame<'_>) -> bool {
    match (one, two) {
        (Frame::Ack(one), Frame::Ack(two)) => {
            let rest = |ack: &frame::Ack<'_>| (ack.delay_us, ack.received_us, ack.arrival_ns);
            rest(one) == rest(two) && one.ranges().eq(two.ranges())
        }
        (Frame::Row(one), Frame::Row(two)) => {
            let rest = |row: &Row<'_>| (row.channel, row.first);
            rest(one) == rest(two) && one.lengths().eq(two.lengths()) && one.bytes == two.bytes
        }
        _ => one == two,
    }
}

/// The same part as the last frame of a packet, without its length.
fn check_last(data: &Data<'_>) {
    let (mut plain, mut packed) = (Vec::new(), Vec::new());
    data.write(true, &mut plain);
    data.write_packed(true, &mut packed);
    assert_eq!(parse(&plain), [Frame::Data(*data)]);
    assert_eq!(parse(&packed), [Frame::Packed(*data)]);
}
