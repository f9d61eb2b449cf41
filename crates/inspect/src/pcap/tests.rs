//! Captures made here byte by byte, and what comes out of them.

use super::*;
use glassline_test_support::capture::{Capture, Format, ethernet, tcp, udp};
use proptest::prelude::*;
use std::net::SocketAddr;

const START_NANOS: u64 = 1_700_000_000_000_000_000;

/// What a [`Packet`] said.
type Seen = (u64, u32, u16, u32, Vec<u8>);

fn seen(packet: Packet<'_>) -> Seen {
    let Packet { time, interface, link_type, original_bytes, head } = packet;
    (time.as_nanos(), interface, link_type.0, original_bytes, head.to_vec())
}

/// Reads `bytes` in pieces of `chop`.
fn read(bytes: &[u8], chop: usize) -> (Vec<Seen>, Reader, Option<PcapError>) {
    let (mut reader, mut packets) = (Reader::new(), Vec::new());
    let mut parts = bytes.chunks(chop.max(1));
    let error = parts.find_map(|part| reader.push(part, &mut |packet| packets.push(seen(packet))).err());
    (packets, reader, error)
}

fn address(text: &str) -> SocketAddr {
    text.parse().unwrap()
}

/// The segment of a packet whose first bytes are `head`.
fn segment(link_type: LinkType, head: &[u8]) -> Result<Segment, Unread> {
    let time = glassline_media::Time::ZERO;
    let original_bytes = head.len() as u32;
    let head = &head[..head.len().min(HEAD_BYTES)];
    segment::parse(&Packet { time, interface: 0, link_type, original_bytes, head })
}

#[test]
fn a_capture_of_tcpdump_reads_as_it_is() {
    // tcpdump 4.99: magic, 2.4, snap length 262,144, Ethernet; one packet of 60 bytes, 54 kept.
    let mut bytes = vec![0xd4, 0xc3, 0xb2, 0xa1, 2, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 1, 0, 0, 0];
    bytes.extend([0x00, 0xf1, 0x53, 0x65, 0x40, 0xe2, 0x01, 0x00, 54, 0, 0, 0, 60, 0, 0, 0]);
    bytes.extend(ethernet(&tcp(address("10.0.0.1:8080"), address("10.0.0.2:5000"), 0))[..54].iter());
    let (packets, reader, error) = read(&bytes, 7);
    assert_eq!((error, reader.is_cut(), reader.packets()), (None, false, 1));
    assert_eq!(packets, [(1_700_000_000_123_456_000, 0, 1, 60, bytes[40..].to_vec())]);
}

#[test]
fn sections_start_anew_and_other_blocks_are_passed_over() {
    let mut first = Capture::new(Format::Ng(9), false, 1);
    first.packet(START_NANOS + 1, 20, &[1; 20]);
    let mut second = Capture::new(Format::Ng(6), true, 101);
    second.packet(START_NANOS + 5000, 30, &[2; 10]);
    let (packets, reader, error) = read(&[first.bytes(), second.bytes()].concat(), 5);
    assert_eq!((error, reader.is_cut()), (None, false));
    let expected = [(START_NANOS + 1, 0, 1, 20, vec![1; 20]), (START_NANOS + 5000, 0, 101, 30, vec![2; 10])];
    assert_eq!(packets, expected);
}

#[test]
fn damage_is_named_with_its_place() {
    let mut classic = Capture::new(Format::Nanos, true, 1);
    classic.packet(START_NANOS, 4, &[0; 4]);
    let mut giant = classic.bytes().to_vec();
    giant.extend([0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1]);
    assert_eq!(read(&giant, 1).2, Some(PcapError::Record { found: u32::MAX, at: 44 }));
    let mut later = classic.bytes().to_vec();
    later[5] = 3;
    assert_eq!(read(&later, 1).2, Some(PcapError::Version(3, 4, 4)));
    assert_eq!(read(b"GIF89a", 1).2, Some(PcapError::Magic(*b"GIF8")));
    assert_eq!(read(&[0xa1, 0xb2, 0xcd, 0x34].repeat(10), 9).2, Some(PcapError::Modified));
    let next = Capture::new(Format::Ng(6), false, 1).bytes().to_vec();
    let block = |fields: &[u32]| -> Vec<u8> {
        next.iter().copied().chain(fields.iter().flat_map(|field| field.to_le_bytes())).collect()
    };
    let at = next.len() as u64;
    let odd = block(&[5, 13]);
    assert_eq!(read(&odd, 3).2, Some(PcapError::Block { kind: 5, found: 13, least: 12, at }));
    let unknown = block(&[6, 32, 7, 0, 0, 0, 0, 32]);
    assert_eq!(read(&unknown, 3).2, Some(PcapError::Interface { found: 7, known: 1, at }));
    let too_much = block(&[6, 36, 0, 0, 0, 5, 5, 0, 36]);
    assert_eq!(read(&too_much, 3).2, Some(PcapError::Block { kind: 6, found: 36, least: 37, at }));
    let mut order = next.clone();
    order[8] = 0;
    assert_eq!(read(&order, 3).2, Some(PcapError::ByteOrder { found: [0, 0x3c, 0x2b, 0x1a], at: 0 }));
    for error in [odd, unknown, too_much, order].iter().filter_map(|bytes| read(bytes, 64).2) {
        assert!(error.to_string().starts_with("damaged: "), "{error}");
    }
}

#[test]
fn a_capture_that_was_stopped_is_good_up_to_there() {
    for format in [Format::Micros, Format::Ng(6)] {
        let mut capture = Capture::new(format, false, 1);
        capture.packet(START_NANOS, 100, &[7; 100]);
        let one = capture.bytes().len();
        capture.packet(START_NANOS, 100, &[8; 100]);
        for end in [one - 1, one + 1, one + 40, capture.bytes().len() - 1] {
            let (packets, reader, error) = read(&capture.bytes()[..end], 50);
            assert!(error.is_none() && reader.is_cut(), "{format:?} {end}");
            assert!(end < one || !packets.is_empty(), "{format:?} {end}");
        }
        assert!(!read(&capture.bytes()[..one], 50).1.is_cut());
    }
}

#[test]
fn every_link_type_leads_to_the_same_segment() {
    for (from, to) in [("10.0.0.1:8080", "10.0.0.2:5000"), ("[fd00::1]:8080", "[fd00::2]:5000")] {
        let (from, to) = (address(from), address(to));
        let six = from.is_ipv6();
        let ether_type: [u8; 2] = if six { [0x86, 0xdd] } else { [8, 0] };
        let family: u32 = if six { 30 } else { 2 };
        for (ip, protocol) in [(tcp(from, to, 1000), Protocol::Tcp), (udp(from, to, 1000), Protocol::Udp)] {
            let behind = |front: &[u8]| [front, &ip].concat();
            let tagged = [&[0; 12][..], &[0x88, 0xa8, 0, 1, 0x81, 0, 0, 2], &ether_type].concat();
            let packets = [
                (LinkType::ETHERNET, ethernet(&ip)),
                (LinkType::ETHERNET, behind(&tagged)),
                (LinkType::SLL, behind(&[&[0; 14][..], &ether_type].concat())),
                (LinkType::SLL2, behind(&[&ether_type[..], &[0; 18]].concat())),
                (LinkType::RAW, ip.clone()),
                (if six { LinkType::IPV6 } else { LinkType::IPV4 }, ip.clone()),
                (LinkType::NULL, behind(&family.to_le_bytes())),
                (LinkType::LOOP, behind(&family.to_be_bytes())),
            ];
            let flow = Flow { interface: 0, protocol, from, to };
            for (link_type, packet) in packets {
                let found = segment(link_type, &packet);
                assert_eq!(found, Ok(Segment { flow, payload_bytes: 1000 }), "{link_type:?} {flow}");
            }
        }
    }
}

#[test]
fn what_has_no_flow_is_told_apart() {
    let ip = udp(address("10.0.0.1:1"), address("10.0.0.2:2"), 100);
    let with = |at: usize, value: u8| {
        let mut ip = ip.clone();
        ip[at] = value;
        segment(LinkType::RAW, &ip)
    };
    assert!(with(8, 1).is_ok());
    assert_eq!(with(7, 1), Err(Unread::Fragment));
    assert_eq!(with(9, 1), Err(Unread::Other));
    assert_eq!(with(0, 0x44), Err(Unread::Cut));
    assert_eq!(with(3, 10), Err(Unread::Cut), "shorter than its headers");
    assert_eq!(segment(LinkType(147), &ip), Err(Unread::LinkType));
    assert_eq!(segment(LinkType::ETHERNET, &[0; 13]), Err(Unread::Cut));
    assert_eq!(segment(LinkType::ETHERNET, &[8; 60]), Err(Unread::Other));
}

#[test]
fn extension_headers_of_ipv6_are_gone_through() {
    let mut ip = tcp(address("[fd00::1]:80"), address("[fd00::2]:81"), 500);
    // Hop-by-hop options of 16 bytes, then an atomic fragment header.
    let extensions: &[u8] = &[44, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0, 0, 0, 0, 0, 1];
    ip.splice(40..40, extensions.iter().copied());
    ip[6] = 0;
    let length = (ip.len() - 40) as u16;
    ip[4..6].copy_from_slice(&length.to_be_bytes());
    assert_eq!(segment(LinkType::RAW, &ip).unwrap().payload_bytes, 500);
    ip[58] = 8;
    assert_eq!(segment(LinkType::RAW, &ip), Err(Unread::Fragment));
}

#[test]
fn what_was_captured_before_segmentation_counts_as_its_packets() {
    let (from, to) = (address("10.0.0.1:8080"), address("10.0.0.2:5000"));
    let packets = |ip: Vec<u8>| {
        let found = segment(LinkType::RAW, &ip).unwrap();
        (found.is_unsegmented(), found.packets())
    };
    assert_eq!(packets(tcp(from, to, 1448)), (false, 1));
    assert_eq!(packets(tcp(from, to, 1460)), (false, 1));
    assert_eq!(packets(tcp(from, to, 14_480)), (true, 10));
    assert_eq!(packets(tcp(from, to, 14_481)), (true, 11));
    assert_eq!(packets(udp(from, to, 1316)), (false, 1));
    assert_eq!(packets(udp(from, to, 1316 * 7)), (true, 7));
    // Larger than the header can say: its length is zero, the capture's counts.
    let mut ip = tcp(from, to, 60_000);
    ip[2..4].fill(0);
    assert_eq!(segment(LinkType::RAW, &ip).unwrap().payload_bytes, 60_000);
}

#[test]
fn the_flow_with_the_most_payload_is_found_among_very_many() {
    let mut survey = Survey::default();
    let flow = |port: u32| Flow {
        interface: port >> 16,
        protocol: Protocol::Tcp,
        from: address("10.0.0.1:8080"),
        to: SocketAddr::new([10, 0, 0, 2].into(), port as u16),
    };
    for port in 0..3 * FLOWS_MAX as u32 {
        survey.push(&Segment { flow: flow(port), payload_bytes: 1 + u64::from(port % 97) });
        survey.push(&Segment { flow: flow(4711), payload_bytes: 200 });
        survey.push(&Segment { flow: flow(1), payload_bytes: 0 });
    }
    let (largest, count) = survey.largest(|_| true).unwrap();
    assert_eq!((largest, count.packets), (flow(4711), 3 * FLOWS_MAX as u64 + 1));
    assert!(survey.flows().len() <= FLOWS_MAX && survey.len() >= 3 * FLOWS_MAX as u64);
    assert_eq!(survey.flows()[0].0, largest);
    assert_eq!(survey.largest(|flow| flow.from.port() == 8080).unwrap().0, largest);
    assert_eq!(survey.largest(|flow| flow.from.port() == 9), None);
    assert_eq!(largest.to_string(), "TCP 10.0.0.1:8080 → 10.0.0.2:4711");
}

fn formats() -> impl Strategy<Value = Format> {
    prop_oneof![Just(Format::Micros), Just(Format::Nanos), Just(Format::Ng(6)), Just(Format::Ng(9))]
}

proptest! {
    #[test]
    fn what_is_written_is_read_at_any_chop(
        format in formats(),
        big_endian in any::<bool>(),
        link_type in prop_oneof![Just(1u16), Just(101), Just(276)],
        packets in proptest::collection::vec((0u64..1 << 60, 0usize..700, 0usize..2000), 0..20),
        chop in 1usize..900,
    ) {
        let mut capture = Capture::new(format, big_endian, link_type);
        let mut expected = Vec::new();
        for (nanos, captured, more) in packets {
            // 32 bits of seconds.
            let nanos = nanos % (1 << 62);
            let data: Vec<u8> = (0..captured).map(|at| at as u8).collect();
            capture.packet(nanos, captured + more, &data);
            let unit = if matches!(format, Format::Micros | Format::Ng(6)) { 1000 } else { 1 };
            let head = data[..captured.min(HEAD_BYTES)].to_vec();
            expected.push((nanos / unit * unit, 0, link_type, (captured + more) as u32, head));
        }
        let (found, reader, error) = read(capture.bytes(), chop);
        prop_assert_eq!(error, None);
        prop_assert!(!reader.is_cut());
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn no_bytes_make_it_panic_and_chops_do_not_matter(
        start in prop_oneof![
            Just(vec![]),
            (formats(), any::<bool>(), prop_oneof![0u16..2, Just(101u16), Just(113), Just(276)])
                .prop_map(|(format, big, link)| Capture::new(format, big, link).bytes().to_vec()),
        ],
        rest in proptest::collection::vec(prop_oneof![0u8..8, any::<u8>()], 0..600),
        chop in 1usize..100,
    ) {
        let bytes = [start, rest].concat();
        let (whole, reader, error) = read(&bytes, bytes.len());
        let (chopped, again, other) = read(&bytes, chop);
        prop_assert_eq!(&whole, &chopped);
        prop_assert_eq!((error, reader.is_cut()), (other, again.is_cut()));
        for (nanos, interface, link_type, original_bytes, head) in &whole {
            let time = glassline_media::Time::from_nanos(*nanos);
            let packet = Packet { time, interface: *interface, link_type: LinkType(*link_type), original_bytes: *original_bytes, head };
            if let Ok(found) = segment::parse(&packet) {
                prop_assert!(found.packets() >= 1);
            }
        }
    }

    #[test]
    fn no_headers_make_it_panic(
        link_type in prop_oneof![0u16..2, Just(12u16), Just(101), Just(108), Just(113), Just(228), Just(276)],
        mut head in proptest::collection::vec(any::<u8>(), 0..200),
        original_bytes in any::<u32>(),
        six in any::<bool>(),
    ) {
        if let Some(first) = head.first_mut().filter(|_| link_type >= 12) {
            *first = if six { 0x60 } else { 0x45 };
        }
        let time = glassline_media::Time::ZERO;
        let packet = Packet { time, interface: 0, link_type: LinkType(link_type), original_bytes, head: &head };
        if let Ok(found) = segment::parse(&packet) {
            prop_assert!(found.payload_bytes <= u64::from(original_bytes.max(65_535)) + 40);
        }
    }
}
