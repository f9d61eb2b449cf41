use super::*;
use crate::path::{MAX_BURST, MAX_PACKET_BYTES, MIN_PACKET_BYTES};
use proptest::prelude::*;

fn spec() -> impl Strategy<Value = TrainSpec> {
    let parts = (1..=MAX_BURST, MIN_PACKET_BYTES..=MAX_PACKET_BYTES, 0u16..2, 0u32..=1_000_000);
    parts
        .prop_map(|(packets, payload_bytes, growth_bytes, gap_us)| TrainSpec {
            packets,
            payload_bytes,
            growth_bytes,
            gap_us,
        })
        .prop_filter("in range", TrainSpec::is_in_range)
}

fn token() -> impl Strategy<Value = Token> {
    prop::collection::vec(any::<u8>(), TOKEN).prop_map(|bytes| bytes.try_into().unwrap())
}

fn sent() -> impl Strategy<Value = Sent> {
    (any::<u16>(), any::<u16>(), any::<u64>(), any::<u64>())
        .prop_map(|(packets, refused, first_ns, last_ns)| Sent { packets, refused, first_ns, last_ns })
}

fn report() -> impl Strategy<Value = Report> {
    let arrivals = prop::collection::vec((any::<u16>(), any::<u64>()), 0..=REPORT_ARRIVALS);
    (any::<u16>(), any::<u64>(), any::<u16>(), any::<u16>(), any::<u32>(), any::<u16>(), arrivals).prop_map(
        |(train, now_ns, arrived, duplicates, dropped, first, arrivals)| Report {
            train,
            now_ns,
            arrived,
            duplicates,
            dropped,
            first,
            arrivals,
        },
    )
}

fn opening() -> impl Strategy<Value = Message> {
    prop_oneof![
        any::<Nonce>().prop_map(|caller| Message::Hello { caller }),
        (any::<Nonce>(), token()).prop_map(|(caller, token)| Message::Challenge { caller, token }),
        (any::<Nonce>(), token(), any::<u64>(), any::<u32>()).prop_map(
            |(caller, token, max_bps, duration_ms)| {
                Message::Start { caller, token, max_bps, duration_ms }
            }
        ),
        (any::<Nonce>(), any::<u64>()).prop_map(|(caller, max_bps)| Message::Accept { caller, max_bps }),
        any::<Nonce>().prop_map(|caller| Message::Busy { caller }),
    ]
}

fn of_session() -> impl Strategy<Value = Message> {
    prop_oneof![
        (any::<u16>(), any::<u16>(), any::<u64>()).prop_map(|(train, index, sent_ns)| Message::Packet {
            train,
            index,
            sent_ns
        }),
        (any::<u16>(), spec()).prop_map(|(train, spec)| Message::Ask { train, spec }),
        (any::<u16>(), prop::option::of(sent())).prop_map(|(train, sent)| Message::Sent { train, sent }),
        (any::<u16>(), any::<u16>()).prop_map(|(train, first)| Message::Fetch { train, first }),
        report().prop_map(Message::Report),
        Just(Message::Bye),
    ]
}

proptest! {
    #[test]
    fn openings_read_back_and_no_answer_is_longer_than_its_question(message in opening(), nonce: [u8; 12]) {
        let (key, other) = (OpeningKey::new(&Key([1; 32])), OpeningKey::new(&Key([2; 32])));
        let datagram = key.seal(&message, nonce);
        prop_assert_eq!(key.open(&datagram), Some(message.clone()));
        prop_assert_eq!(other.open(&datagram), None);
        let asks = matches!(message, Message::Hello { .. } | Message::Start { .. });
        let is_right = if asks { datagram.len() == OPENING_BYTES } else { datagram.len() < OPENING_BYTES };
        prop_assert!(is_right, "{} bytes", datagram.len());
    }

    #[test]
    fn messages_of_a_session_read_back_at_the_other_end_alone(message in of_session(), bytes in 0usize..1300) {
        let shared = Key([1; 32]);
        let key = |end| SessionKey::new(&shared, &[3; NONCE], &[4; TOKEN], end);
        let (mut caller, listener) = (key(End::Caller), key(End::Listener));
        let mut datagram = Vec::new();
        caller.seal(&message, bytes, &mut datagram);
        prop_assert!(datagram.len() >= bytes && datagram.len() <= bytes.max(1200));
        prop_assert_eq!(listener.open(&datagram), Some(message));
        prop_assert_eq!(caller.open(&datagram), None, "it does not come back");
        let of_another = SessionKey::new(&shared, &[5; NONCE], &[4; TOKEN], End::Listener);
        prop_assert_eq!(of_another.open(&datagram), None);
        prop_assert_eq!(OpeningKey::new(&shared).open(&datagram), None);
    }

    #[test]
    fn no_bytes_do_harm_and_what_is_read_is_written_so(bytes in prop::collection::vec(any::<u8>(), 0..1300), kind in 0u8..14) {
        parse_untagged(&bytes);
        parse_untagged(&[&[kind], &bytes[..]].concat());
        let key = SessionKey::new(&Key([1; 32]), &[3; NONCE], &[4; TOKEN], End::Caller);
        prop_assert_eq!(key.open(&bytes), None);
        prop_assert_eq!(OpeningKey::new(&Key([1; 32])).open(&bytes), None);
    }
}

#[test]
fn a_hello_that_is_shorter_than_its_answer_is_no_hello() {
    let key = OpeningKey::new(&Key([1; 32]));
    let mut short = Vec::new();
    Message::Hello { caller: [9; NONCE] }.write(&mut short);
    key.0.close(&mut short, [1; 12]);
    assert_eq!(key.open(&short), None);
}

#[test]
fn trains_that_no_end_may_be_asked_for_are_no_message() {
    let good = TrainSpec { packets: 10, payload_bytes: 1200, growth_bytes: 3, gap_us: 10 };
    let reads = |spec: TrainSpec| {
        let mut bytes = Vec::new();
        Message::Ask { train: 1, spec }.write(&mut bytes);
        Message::parse(7, &bytes[5..]).is_some()
    };
    assert!(reads(good));
    for bad in [
        TrainSpec { packets: 0, ..good },
        TrainSpec { packets: MAX_BURST + 1, ..good },
        TrainSpec { payload_bytes: MIN_PACKET_BYTES - 1, ..good },
        TrainSpec { growth_bytes: 2000, ..good },
        TrainSpec { gap_us: 1_000_001, ..good },
    ] {
        assert!(!reads(bad), "{bad:?}");
    }
}
