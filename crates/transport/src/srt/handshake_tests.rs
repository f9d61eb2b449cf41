use super::super::packet::Packet;
use super::*;
use proptest::prelude::*;

fn handshake() -> Handshake {
    Handshake {
        version: VERSION,
        encryption: 2,
        extension: 7,
        sequence: Sequence::new(99),
        mtu: 1500,
        window: 8192,
        kind: CONCLUSION,
        socket: 0x1234,
        cookie: 0xcafe,
    }
}

fn extensions() -> Extensions {
    Extensions {
        live: Some(Live::new(Duration::from_millis(120), Duration::from_millis(80))),
        keys: Some(vec![7; 72]),
        stream_id: Some(b"#!::r=stage,m=publish".to_vec()),
        ..Extensions::default()
    }
}

fn read(datagram: &[u8]) -> (Handshake, Extensions) {
    match Packet::parse(datagram) {
        Some(Packet::Control(Control { kind: Kind::Handshake, body, .. })) => Handshake::parse(body).unwrap(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_handshake_is_read_as_it_was_written() {
    let peer = "192.0.2.7".parse().unwrap();
    let datagram = handshake().write(&extensions(), false, 5, 6, peer);
    assert_eq!(read(&datagram), (handshake(), extensions()));
    // The address and texts stand in words of reversed bytes.
    assert_eq!(datagram[48..52], [7, 2, 0, 192]);
    assert!(datagram.windows(8).any(|bytes| bytes == b"::!#ts=r"), "a stream id");
}

#[test]
fn a_refusal_has_its_number() {
    let refused = handshake().refused(Rejection::FORBIDDEN);
    assert_eq!((refused.kind, refused.rejection()), (2403, Some(Rejection::FORBIDDEN)));
    assert_eq!(handshake().rejection(), None);
    assert_eq!(Handshake { kind: INDUCTION, ..handshake() }.rejection(), None);
}

#[test]
fn what_is_not_offered_is_refused_by_its_reason() {
    let live = extensions();
    assert!(live.check().is_ok());
    let with =
        |flags| Extensions { live: live.live.map(|live| Live { flags, ..live }), ..Extensions::default() };
    assert_eq!(Extensions::default().check(), Err(Rejection::ROGUE));
    assert_eq!(with(FLAGS | STREAM).check(), Err(Rejection::MESSAGE_API));
    assert!(with(FLAGS | FILTER).check().is_ok(), "it only says that it knows filters");
    let congestion = |name: &[u8]| Extensions { congestion: Some(name.to_vec()), ..live.clone() };
    assert!(congestion(b"live").check().is_ok());
    assert_eq!(congestion(b"file").check(), Err(Rejection::CONGESTION));
    assert_eq!(Extensions { has_group: true, ..live.clone() }.check(), Err(Rejection::GROUP));
    assert_eq!(Extensions { has_filter: true, ..live }.check(), Err(Rejection::FILTER));
}

proptest! {
    #[test]
    fn any_body_is_read_or_refused(body in proptest::collection::vec(any::<u8>(), 0..200)) {
        prop_assert_eq!(Handshake::parse(&body).is_some(), body.len() >= 48);
    }

    #[test]
    fn any_extensions_are_read(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = parse_extensions(&bytes).check();
    }

    #[test]
    fn a_text_is_read_as_it_was_written(stream_id in "[ -~]{1,80}") {
        let stream_id = stream_id.into_bytes();
        let written = Extensions { stream_id: Some(stream_id), ..Extensions::default() };
        let datagram = handshake().write(&written, false, 0, 0, "::1".parse().unwrap());
        prop_assert_eq!(read(&datagram).1, written);
    }
}
