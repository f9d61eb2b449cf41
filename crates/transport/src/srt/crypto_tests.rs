use super::*;
use proptest::prelude::*;

fn passphrase() -> Passphrase {
    Passphrase::new("correct horse").unwrap()
}

/// Not random, but each byte another.
fn random() -> impl FnMut(&mut [u8]) {
    let mut next = 0u8;
    move |bytes| bytes.iter_mut().for_each(|byte| (*byte, next) = (next, next.wrapping_add(37)))
}

fn keys(key_bytes: KeyBytes) -> Keys {
    Keys::new(passphrase(), key_bytes, &mut random())
}

const LENGTHS: [KeyBytes; 3] = [KeyBytes::Sixteen, KeyBytes::TwentyFour, KeyBytes::ThirtyTwo];

#[test]
fn a_passphrase_has_its_lengths_and_does_not_show() {
    assert_eq!(Passphrase::new("123456789"), Err(PassphraseError(9)));
    assert!(Passphrase::new(&"x".repeat(79)).is_ok() && Passphrase::new(&"x".repeat(80)).is_err());
    assert!(!format!("{:?} {:?}", passphrase(), keys(KeyBytes::Sixteen)).contains("horse"));
}

#[test]
fn a_peer_with_the_same_passphrase_reads_what_was_encrypted() {
    for length in LENGTHS {
        let own = keys(length);
        let peer = Keys::parse(&own.message(), &passphrase()).unwrap();
        let mut payload = b"a packet of MPEG-TS, say".to_vec();
        assert!(own.apply(own.current(), Sequence::new(77), &mut payload));
        assert_ne!(payload, b"a packet of MPEG-TS, say");
        assert!(peer.apply(1, Sequence::new(77), &mut payload));
        assert_eq!(payload, b"a packet of MPEG-TS, say");
        assert!(!peer.apply(2, Sequence::new(77), &mut payload), "there is no odd key yet");
        let other = Passphrase::new("battery staple").unwrap();
        assert_eq!(Keys::parse(&own.message(), &other).err(), Some(KeyError::Passphrase));
    }
}

/// RFC 3394 §4.1 and the vectors of PBKDF2 (RFC 6070) stand behind the libraries; this is what the reference puts together of
/// them: keys of one message, told apart by their flags.
#[test]
fn a_renewed_key_comes_beside_the_former_one() {
    let (mut own, mut random) = (keys(KeyBytes::Sixteen), random());
    random(&mut [0; 99]);
    let mut peer = Keys::parse(&own.message(), &passphrase()).unwrap();
    own.announce_next(&mut random);
    let message = own.message();
    assert_eq!((message[3], message.len()), (3, 16 + 16 + 8 + 32));
    peer.take(&message).unwrap();
    let through = |own: &Keys, peer: &Keys| {
        let mut payload = *b"0123456789";
        assert!(own.apply(own.current(), Sequence::new(5), &mut payload));
        peer.apply(own.current(), Sequence::new(5), &mut payload) && payload == *b"0123456789"
    };
    assert!(through(&own, &peer), "the former key goes on until the switch");
    own.switch();
    own.forget_former();
    assert!(own.current() == 2 && through(&own, &peer));
    assert!(!own.apply(1, Sequence::new(5), &mut [0; 10]));
}

proptest! {
    #[test]
    fn any_message_is_read_or_refused(message in proptest::collection::vec(any::<u8>(), 0..120)) {
        prop_assert!(Keys::parse(&message, &passphrase()).is_err());
    }

    /// A bit that is not what it was makes no key.
    #[test]
    fn a_changed_message_is_refused(bit in 0usize..72 * 8, length in prop::sample::select(&LENGTHS)) {
        let mut message = keys(length).message();
        let bit = bit % (message.len() * 8);
        message[bit / 8] ^= 1 << (bit % 8);
        // Bytes that are not looked at, and the first half of the salt, which the key does not depend on.
        let is_ignored = matches!(bit / 8, 4..=7 | 9..=13 | 16..=23) || (bit / 8 == 3 && bit % 8 >= 2);
        prop_assert!(is_ignored || Keys::parse(&message, &passphrase()).is_err());
    }
}
