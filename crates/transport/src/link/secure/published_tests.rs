//! Noise as others have it: published vectors of our two patterns, made by another implementation (see
//! tests/vectors/CREDITS.md). Ours go through the same code, with the ephemeral keys that the vectors name.

use super::*;

const FILE: &str = include_str!("../../../tests/vectors/noise.txt");

/// One vector: its lines' names and values.
type Vector<'a> = Vec<(&'a str, &'a str)>;

fn vectors() -> Vec<Vector<'static>> {
    let vectors = FILE.split("\n\n").skip(1);
    vectors.map(|vector| vector.lines().map(|line| line.split_once(": ").unwrap()).collect()).collect()
}

/// The values of all lines of this name.
fn all(vector: &Vector<'_>, name: &str) -> Vec<Vec<u8>> {
    let digits = |value: &str| -> Vec<u8> {
        let pairs = value.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
        pairs.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
    };
    vector.iter().filter(|line| line.0 == name).map(|line| digits(line.1)).collect()
}

fn one(vector: &Vector<'_>, name: &str) -> Option<Vec<u8>> {
    all(vector, name).pop()
}

fn key(vector: &Vector<'_>, name: &str) -> Option<Key> {
    one(vector, name).map(|bytes| Key(bytes.try_into().unwrap()))
}

/// One end's credentials: the shared key, or its private key and the other end's public one.
fn credentials(vector: &Vector<'_>, end: &str, other: &str) -> Credentials {
    let own = |what: &str| key(vector, &format!("{end}_{what}"));
    own("psk").map_or_else(
        || Credentials::Pair {
            private: own("static").unwrap(),
            peers: vec![public_key(&key(vector, &format!("{other}_static")).unwrap())],
        },
        Credentials::Shared,
    )
}

fn check(vector: &Vector<'_>) {
    let mut random = Random::new([0; 32]);
    let mut end = |own: &str, other: &str, initiator| {
        let prologue = one(vector, &format!("{own}_prologue")).unwrap();
        let ephemeral = key(vector, &format!("{own}_ephemeral")).unwrap();
        let credentials = credentials(vector, own, other);
        Handshake::new(&credentials, &prologue, &mut random, initiator, Some(&ephemeral)).unwrap()
    };
    let (mut near, mut far) = (end("init", "resp", true), end("resp", "init", false));
    let messages: Vec<_> = all(vector, "payload").into_iter().zip(all(vector, "ciphertext")).collect();
    assert_eq!(messages.len(), 6);
    let (handshake, transport) = messages.split_at(2);
    for ((payload, ciphertext), near_speaks) in handshake.iter().zip([true, false]) {
        let (from, to) = if near_speaks { (&mut near, &mut far) } else { (&mut far, &mut near) };
        let written = from.write(payload).unwrap();
        assert_eq!(&written, ciphertext);
        assert_eq!(&to.read(&written).unwrap(), payload);
    }
    if let Some(remote) = key(vector, "init_remote_static") {
        assert_eq!(remote, public_key(&key(vector, "resp_static").unwrap()));
        assert_eq!(far.peer(), Some(public_key(&key(vector, "init_static").unwrap())));
    }
    for end in [&near, &far] {
        assert_eq!(end.state.get_handshake_hash(), one(vector, "handshake_hash").unwrap());
    }
    // The keys of Split, which a link's secrets are made of, are those that the vectors go on with.
    let (forth, back) = near.state.dangerously_get_raw_split();
    assert_eq!(far.state.dangerously_get_raw_split(), (forth, back));
    for (index, (payload, ciphertext)) in transport.iter().enumerate() {
        use types::Cipher;
        let cipher = Aes256::of(if index % 2 == 0 { &forth } else { &back });
        let mut sealed = vec![0; payload.len() + 16];
        assert_eq!(cipher.encrypt(index as u64 / 2, &[], payload, &mut sealed), sealed.len());
        assert_eq!(&sealed, ciphertext);
    }
}

#[test]
fn handshakes_are_those_of_the_published_vectors() {
    let vectors = vectors();
    let names: Vec<_> = vectors.iter().map(|vector| vector[0]).collect();
    let name = |pattern| ("protocol", pattern);
    assert_eq!(names, [name("Noise_IK_25519_AESGCM_SHA256"), name("Noise_NNpsk0_25519_AESGCM_SHA256")]);
    vectors.iter().for_each(check);
}
