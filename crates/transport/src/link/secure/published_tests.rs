//! Noise as others have it: published vectors of our two patterns, made by another implementation (see
//! tests/vectors/CREDITS.md). Ours go through the same code, with the ephemeral keys that the vectors name.

use super::*;
use serde_json::Value;

const FILE: &str = include_str!("../../../tests/vectors/noise.json");

fn bytes(vector: &Value, name: &str) -> Vec<u8> {
    let text = vector[name].as_str().unwrap_or_else(|| panic!("no {name} in {vector:#}"));
    text.as_bytes()
        .chunks(2)
        .map(|digits| u8::from_str_radix(std::str::from_utf8(digits).unwrap(), 16).unwrap())
        .collect()
}

fn key(vector: &Value, name: &str) -> Key {
    Key(bytes(vector, name).try_into().unwrap())
}

/// One end's credentials: the shared key, or its private key and the other end's public one.
fn credentials(vector: &Value, end: &str, other: &str) -> Credentials {
    if let Some(psk) = vector[format!("{end}_psks")].get(0) {
        return Credentials::Shared(key(&serde_json::json!({ "psk": psk }), "psk"));
    }
    Credentials::Pair {
        private: key(vector, &format!("{end}_static")),
        peers: vec![public_key(&key(vector, &format!("{other}_static")))],
    }
}

fn check(vector: &Value) {
    let mut random = Random::new([0; 32]);
    let mut end = |own: &str, other: &str, initiator| {
        let prologue = bytes(vector, &format!("{own}_prologue"));
        let ephemeral = key(vector, &format!("{own}_ephemeral"));
        let credentials = credentials(vector, own, other);
        Handshake::new(&credentials, &prologue, &mut random, initiator, Some(&ephemeral)).unwrap()
    };
    let (mut near, mut far) = (end("init", "resp", true), end("resp", "init", false));
    let messages = vector["messages"].as_array().unwrap();
    let (handshake, transport) = messages.split_at(2);
    for (message, near_speaks) in handshake.iter().zip([true, false]) {
        let (from, to) = if near_speaks { (&mut near, &mut far) } else { (&mut far, &mut near) };
        let payload = bytes(message, "payload");
        let written = from.write(&payload).unwrap();
        assert_eq!(written, bytes(message, "ciphertext"));
        assert_eq!(to.read(&written).unwrap(), payload);
    }
    if let Some(remote) = vector["init_remote_static"].as_str() {
        assert!(!remote.is_empty());
        assert_eq!(key(vector, "init_remote_static"), public_key(&key(vector, "resp_static")));
        assert_eq!(far.peer(), Some(public_key(&key(vector, "init_static"))));
    }
    assert_eq!(near.state.get_handshake_hash(), bytes(vector, "handshake_hash"));
    assert_eq!(far.state.get_handshake_hash(), bytes(vector, "handshake_hash"));
    // The keys of Split, which a link's secrets are made of, are those that the vectors go on with.
    let (forth, back) = near.state.dangerously_get_raw_split();
    assert_eq!(far.state.dangerously_get_raw_split(), (forth, back));
    for (index, message) in transport.iter().enumerate() {
        use types::Cipher;
        let cipher = Aes256::of(if index % 2 == 0 { &forth } else { &back });
        let payload = bytes(message, "payload");
        let mut sealed = vec![0; payload.len() + 16];
        assert_eq!(cipher.encrypt(index as u64 / 2, &[], &payload, &mut sealed), sealed.len());
        assert_eq!(sealed, bytes(message, "ciphertext"));
    }
}

#[test]
fn handshakes_are_those_of_the_published_vectors() {
    let file: Value = serde_json::from_str(FILE).unwrap();
    let vectors = file["vectors"].as_array().unwrap();
    let names: Vec<_> = vectors.iter().map(|vector| vector["protocol_name"].as_str().unwrap()).collect();
    assert_eq!(names, ["Noise_IK_25519_AESGCM_SHA256", "Noise_NNpsk0_25519_AESGCM_SHA256"]);
    assert!(vectors.iter().all(|vector| vector["messages"].as_array().is_some_and(|all| all.len() == 6)));
    vectors.iter().for_each(check);
}
