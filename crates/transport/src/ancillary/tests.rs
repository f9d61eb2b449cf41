//! ANC packets through payloads and datagrams.

use super::*;
use crate::rtp::source::Origin;
use glassline_media::{FrameRate, Time};
use proptest::prelude::*;
use std::time::Duration;

/// A payload of bits.
fn bytes(bits: &str) -> Vec<u8> {
    let bits: Vec<u8> = bits.bytes().filter(u8::is_ascii_digit).map(|bit| bit - b'0').collect();
    assert!(bits.len().is_multiple_of(8));
    bits.chunks(8).map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit)).collect()
}

/// As RFC 8331 draws it in §2: packets of 4 and of 5 words, on lines 9 and 10.
fn drawn() -> Payload {
    let mut first = Packet::new(0x61, 0x02, &[0x80, 0x80, 0x14, 0x2C]).unwrap();
    let mut second = Packet::new(0x41, 0x05, &[1, 2, 3, 4, 5]).unwrap();
    (first.line, first.offset) = (9, 0);
    (second.line, second.stream) = (10, Stream { is_used: true, number: 3 });
    Payload { extended_sequence: 0xABCD, field: Field::Second, reserved: 0, packets: vec![first, second] }
}

#[test]
fn a_payload_is_what_the_rfc_draws() {
    let mut written = Vec::new();
    drawn().write(&mut written);
    // 0x61 has three ones, so that its parity is one: 0x161. The sum of the words' nine bits is 0x7A7.
    let expected = bytes(
        "1010101111001101 0000000000100000 00000010 11 0000000000000000000000
         0 00000001001 000000000000 0 0000000
         0101100001 0100000010 0100000100
         0110000000 0110000000 1000010100 0100101100
         0110100111 0000000000000000
         0 00000001010 111111111111 1 0000011",
    );
    assert_eq!(written[..expected.len()], expected);
    assert_eq!(written.len(), HEADER_BYTES + 32);
    assert_eq!(Payload::parse(&written), Ok(drawn()));
}

#[test]
fn parity_and_checksum_are_checked() {
    let packet = &drawn().packets[0];
    assert_eq!((packet.parity_errors(), packet.is_checksum_right()), (0, true));
    let mut written = Vec::new();
    drawn().write(&mut written);
    // The lowest bit of the first user data word: bits 30 to 39 behind the place.
    written[HEADER_BYTES + 4 + 4] ^= 1;
    let parsed = Payload::parse(&written).unwrap();
    let packet = &parsed.packets[0];
    assert_eq!((packet.parity_errors(), packet.is_checksum_right()), (1, false));
    assert_eq!(packet.data().collect::<Vec<_>>(), [0x81, 0x80, 0x14, 0x2C]);
    let mut again = Vec::new();
    parsed.write(&mut again);
    assert_eq!(again, written, "what is wrong is passed on as it is");
}

#[test]
fn kinds_are_told_by_their_identifiers() {
    let kind = |did, sdid| Packet::new(did, sdid, &[]).unwrap().kind().to_string();
    assert_eq!(kind(0x61, 1), "CEA-708 captions");
    assert_eq!(kind(0x61, 2), "CEA-608 captions");
    assert_eq!(kind(0x60, 0x60), "time code");
    assert_eq!(kind(0x41, 5), "AFD and bar data");
    assert_eq!(kind(0x41, 7), "SCTE 104");
    assert_eq!(kind(0x43, 2), "OP-47 subtitles");
    assert_eq!(kind(0x43, 3), "OP-47 multipacket");
    assert_eq!(kind(0x45, 0x0A), "DID 0x45 SDID 0x0A");
    assert_eq!(Packet::new(0x61, 1, &[0; 256]), None);
}

#[test]
fn a_time_code_is_read() {
    // 10:23:42:15, drop frame, VITC of the first field.
    let data = [0x58, 0, 0x50, 0, 0x20, 0, 0x40, 0, 0x30, 0, 0x20, 0, 0, 0, 0x10, 0];
    let packet = Packet::new(0x60, 0x60, &data).unwrap();
    let code = packet.time_code().unwrap();
    assert_eq!((code.to_string(), code.source), ("10:23:42;15".to_owned(), Source::Vitc1));
    assert_eq!(TimeCode { is_drop_frame: false, ..code }.to_string(), "10:23:42:15");
    assert_eq!(code.packet().unwrap(), packet);
    let not_a_time = |index: usize, byte: u8| {
        let mut data = data;
        data[index] = byte;
        Packet::new(0x60, 0x60, &data).unwrap().time_code()
    };
    for (index, byte) in [(0, 0xA0), (2, 0x30), (4, 0xF0), (6, 0x60), (10, 0x70), (14, 0x30)] {
        assert_eq!(not_a_time(index, byte), None, "{index}");
    }
    assert_eq!(Packet::new(0x60, 0x60, &data[..15]).unwrap().time_code(), None);
    assert_eq!(Packet::new(0x61, 0x60, &data).unwrap().time_code(), None);
}

#[test]
fn what_contradicts_itself_is_refused() {
    let mut written = Vec::new();
    drawn().write(&mut written);
    assert_eq!(Payload::parse(&written[..7]), Err(Error::Short { found: 7, expected: 8 }));
    assert_eq!(Payload::parse(&written[..36]), Err(Error::Length { found: 28, said: 32 }));
    let with = |at: usize, byte: u8| {
        let mut written = written.clone();
        written[at] = byte;
        Payload::parse(&written)
    };
    assert_eq!(with(4, 1), Err(Error::Length { found: 16, said: 32 }));
    assert_eq!(with(4, 3), Err(Error::Short { found: 0, expected: 12 }));
    // The second packet's count becomes 63: bits 20 to 29 behind its place.
    assert_eq!(with(HEADER_BYTES + 16 + 4 + 3, 0xFC), Err(Error::Short { found: 16, expected: 88 }));
    assert_eq!(Payload::parse(&[0; 8]), Ok(Payload::default()));
}

fn receiver() -> Depacketizer {
    let reorder = crate::rtp::Settings { window: Duration::from_millis(10), packets: 16 };
    Depacketizer::new(Settings { payload_type: 100, reorder })
}

fn sender(datagram_bytes: usize) -> Packetizer {
    Packetizer::new(PacketizerSettings {
        payload_type: 100,
        ssrc: 5,
        first_sequence: 0x1_FFFF,
        datagram_bytes,
    })
}

#[test]
fn a_frames_packets_come_in_order_and_the_last_one_is_marked() {
    let packets: Vec<Packet> = (0..40).map(|index| Packet::new(0x61, 1, &[index; 60]).unwrap()).collect();
    let (mut sender, mut receiver) = (sender(1_460), receiver());
    let mut sent = Vec::new();
    sender.frame(900, Field::First, &packets, &mut |bytes| sent.push(bytes.to_vec()));
    sender.frame(1_800, Field::Second, &[], &mut |bytes| sent.push(bytes.to_vec()));
    assert!(sent.len() == 4 && sent.iter().all(|bytes| bytes.len() <= 1_460));
    sent.swap(1, 2);
    let mut got = Vec::new();
    for bytes in &sent {
        receiver
            .handle_datagram(bytes, Origin::default(), Time::from_millis(1), &mut |received| {
                got.push(received);
            })
            .unwrap();
    }
    let found: Vec<Packet> = got.iter().flat_map(|received| received.payload.packets.clone()).collect();
    assert_eq!(found, packets);
    let ends: Vec<_> = got.iter().map(|received| (received.timestamp, received.is_last)).collect();
    assert_eq!(ends, [(900, false), (900, false), (900, true), (1_800, true)]);
    let numbers: Vec<_> = got.iter().map(|received| received.payload.extended_sequence).collect();
    assert_eq!(numbers, [1, 2, 2, 2]);
    let counters = receiver.counters();
    assert_eq!((counters.ancillary, counters.checksum_errors, counters.packets.reordered), (40, 0, 1));
}

#[test]
fn what_is_wrong_is_counted() {
    let (mut sender, mut receiver) = (sender(1_460), receiver());
    let mut sent = Vec::new();
    let packet = Packet::new(0x61, 1, &[7; 10]).unwrap();
    for _ in 0..3 {
        sender
            .frame(900, Field::First, std::slice::from_ref(&packet), &mut |bytes| sent.push(bytes.to_vec()));
    }
    // A bit of a user data word; a field that is not valid; a payload that is cut.
    sent[0][30] ^= 0x10;
    sent[1][17] = 0x40;
    sent[2].pop();
    let mut count = 0;
    let mut take =
        |bytes: &[u8]| receiver.handle_datagram(bytes, Origin::default(), Time::ZERO, &mut |_| count += 1);
    take(&sent[0]).unwrap();
    take(&sent[1]).unwrap();
    assert!(matches!(take(&sent[2]), Err(Error::Length { .. })));
    sent[2][1] = 0xE5;
    assert_eq!(take(&sent[2]), Err(Error::PayloadType { found: 101, expected: 100 }));
    assert!(matches!(take(&[]), Err(Error::Rtp(_))));
    let counters = receiver.counters();
    assert_eq!((count, counters.refused, counters.invalid_fields), (1, 3, 1));
    assert_eq!((counters.ancillary, counters.checksum_errors, counters.parity_errors), (1, 1, 1));
}

prop_compose! {
    fn any_packet()(
        did: u8, sdid: u8, data in prop::collection::vec(any::<u8>(), 0..=255), is_color_difference: bool,
        line in 0u16..0x800, offset in 0u16..0x1000, is_used: bool, number in 0u8..128,
    ) -> Packet {
        let stream = Stream { is_used, number };
        let mut packet = Packet::new(did, sdid, &data).unwrap();
        (packet.is_color_difference, packet.line, packet.offset, packet.stream) =
            (is_color_difference, line, offset, stream);
        packet
    }
}

#[test]
fn a_time_code_is_what_is_written() {
    for (text, expected) in [("01:02:03:04", Some("01:02:03:04")), ("10:00:00;02", Some("10:00:00;02"))] {
        assert_eq!(text.parse::<TimeCode>().ok().map(|code| code.to_string()).as_deref(), expected);
    }
    assert_eq!("10:00:00.02".parse::<TimeCode>().unwrap().to_string(), "10:00:00;02");
    for text in
        ["", "1:2:3:4", "01:02:03", "24:00:00:00", "00:60:00:00", "00:00:00:60", "00:00:00:0a", "é0:00:00:00"]
    {
        assert!(text.parse::<TimeCode>().is_err(), "{text:?}");
    }
}

#[test]
fn numbers_are_dropped_and_shared_as_st_12_1_has_it() {
    let rate = |above, below| FrameRate::new(above, below).unwrap();
    let code = |text: &str| text.parse::<TimeCode>().unwrap();
    for (rate, drops, start, frames, expected) in [
        (rate(25, 1), false, "00:00:59:24", 1, "00:01:00:00"),
        (rate(25, 1), true, "23:59:59:24", 1, "00:00:00:00"),
        (rate(30_000, 1001), true, "00:00:59;29", 1, "00:01:00;02"),
        (rate(30_000, 1001), true, "00:09:59;29", 1, "00:10:00;00"),
        (rate(30_000, 1001), true, "23:59:59;29", 1, "00:00:00;00"),
        (rate(30_000, 1001), false, "00:00:59:29", 1, "00:01:00:00"),
        (rate(30, 1), true, "00:00:59:29", 1, "00:01:00:00"),
        // Two frames share a number.
        (rate(50, 1), false, "00:00:00:24", 1, "00:00:00:24"),
        (rate(50, 1), false, "00:00:00:24", 2, "00:00:01:00"),
        (rate(60_000, 1001), true, "00:00:59;29", 2, "00:01:00;02"),
        (rate(24_000, 1001), true, "00:00:00:23", 1, "00:00:01:00"),
        (rate(120, 1), false, "00:00:00:29", 3, "00:00:00:29"),
        (rate(120, 1), false, "00:00:00:29", 4, "00:00:01:00"),
        (rate(1, 2), false, "00:00:00:00", 1, "00:00:01:00"),
    ] {
        assert_eq!(Numbering::new(rate, drops).behind(code(start), frames).to_string(), expected);
    }
    let fifty = Numbering::new(rate(50, 1), false);
    assert_eq!(fifty.shared(code("00:00:00:49")).to_string(), "00:00:00:24");
    assert!(Numbering::wants_drops(rate(60_000, 1001)) && !Numbering::wants_drops(rate(24_000, 1001)));
    // An hour of the clock is an hour of drop-frame numbers, but for less than a frame's time.
    let dropping = Numbering::new(rate(30_000, 1001), true);
    assert_eq!(dropping.at(Duration::from_millis(3_600_010)).to_string(), "01:00:00;00");
    assert_eq!(fifty.at(Duration::from_millis(3_600_500)).to_string(), "01:00:00:12");
    assert_eq!(dropping.apart(code("23:59:59;29"), code("00:00:00;02")), 3);
}

proptest! {
    #[test]
    fn what_is_written_is_read(
        extended_sequence: u16, field in 0usize..4, reserved in 0u32..1 << 22,
        packets in prop::collection::vec(any_packet(), 0..6),
    ) {
        let field = [Field::Unspecified, Field::Invalid, Field::First, Field::Second][field];
        let payload = Payload { extended_sequence, field, reserved, packets };
        let mut written = Vec::new();
        payload.write(&mut written);
        let parsed = Payload::parse(&written);
        prop_assert_eq!(parsed.as_ref(), Ok(&payload));
        for packet in &payload.packets {
            prop_assert!(packet.is_checksum_right() && packet.parity_errors() == 0);
        }
        for end in 0..written.len() {
            prop_assert!(Payload::parse(&written[..end]).is_err());
        }
    }

    /// Any bits behind a right length and count: wrong parity, any alignment.
    #[test]
    fn what_is_parsed_is_written_again_bit_for_bit(
        head: [u8; 4], packets in prop::collection::vec((prop::collection::vec(any::<u8>(), 340), 0u8..=255), 0..5),
    ) {
        let mut data = vec![head[0], head[1], 0, 0, packets.len() as u8, head[2], head[3], head[0]];
        for (noise, count) in &packets {
            let bytes = 4 + (10 * (4 + usize::from(*count))).div_ceil(32) * 4;
            let mut packet = noise[..bytes].to_vec();
            packet[6] = packet[6] & 0xF0 | noise[6] & 0x0C | count >> 6;
            packet[7] = count << 2 | packet[7] & 0x3;
            data.extend(packet);
        }
        let length = (data.len() - HEADER_BYTES) as u16;
        data[2..4].copy_from_slice(&length.to_be_bytes());
        let parsed = Payload::parse(&data).unwrap();
        let mut again = Vec::new();
        parsed.write(&mut again);
        prop_assert_eq!(again, data);
    }

    #[test]
    fn a_frame_has_the_number_that_its_count_says(
        above in 1u32..200, is_slowed: bool, drops: bool, hours in 0u8..24, minutes in 0u8..60, seconds in 0u8..60,
        frames in 0u8..60, one in 0u64..5_000_000, other in 0u64..5_000_000,
    ) {
        let rate = if is_slowed { FrameRate::new(above * 1000, 1001) } else { FrameRate::new(above, 1) };
        let numbering = Numbering::new(rate.unwrap(), drops);
        let code = TimeCode { hours, minutes, seconds, frames, is_drop_frame: drops, source: Source::Ltc };
        let start = numbering.behind(numbering.shared(code), 0);
        // One step and two steps come to the same, and every time code can be sent and read again.
        let both = numbering.behind(start, one + other);
        let (first, per) = (numbering.behind(start, one), numbering.behind(start, 1000));
        prop_assert_eq!(both.packet().unwrap().time_code(), Some(both));
        prop_assert!(numbering.apart(numbering.behind(first, other), both) <= 1, "{first} {both} {per}");
        prop_assert_eq!(start.to_string().parse::<TimeCode>().unwrap(), start);
        // What was skipped is no time code of the day.
        let skipped = both.is_drop_frame && both.frames < 2 && both.seconds == 0 && !both.minutes.is_multiple_of(10);
        prop_assert!(!skipped, "{both}");
    }

    #[test]
    fn time_codes_are_read_as_they_are_written(
        hours in 0u8..24, minutes in 0u8..60, seconds in 0u8..60, frames in 0u8..30, is_drop_frame: bool, source in 3u8..,
    ) {
        let source = Source::Other(source);
        let code = TimeCode { hours, minutes, seconds, frames, is_drop_frame, source };
        prop_assert_eq!(code.packet().unwrap().time_code(), Some(code));
    }

    #[test]
    fn no_bytes_panic(bytes in prop::collection::vec(any::<u8>(), 0..200), count in 0u8..6) {
        let _ = Payload::parse(&bytes);
        let mut data = vec![0, 0, 0, bytes.len() as u8, count, 0, 0, 0];
        data.extend(&bytes);
        if let Ok(payload) = Payload::parse(&data) {
            let mut again = Vec::new();
            payload.write(&mut again);
            prop_assert_eq!(again, data);
        }
    }
}
