//! The handshake: Noise (revision 34) through `snow`, of two messages, after which both ends have the same secrets.
//!
//! `Noise_NNpsk0_25519_AESGCM_SHA256` for a key that both share, `Noise_IK_25519_AESGCM_SHA256` for key pairs. Ciphers
//! and hashes are `ring`'s, the curve is `curve25519-dalek`'s, and randomness is the caller's.

use curve25519_dalek::montgomery::MontgomeryPoint;
use ring::aead::{AES_256_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::digest;
use ring::hmac;
use snow::params::{CipherChoice, DHChoice, HashChoice, NoiseParams};
use snow::resolvers::CryptoResolver;
use snow::{Builder, HandshakeState, types};
use std::sync::{Mutex, PoisonError};
use zeroize::{Zeroize, Zeroizing};

use super::expand;
use crate::link::Random;
use crate::link::wire::packet::Pattern;

/// A key of 32 bytes, which are overwritten when it is dropped. Its `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(pub [u8; 32]);

impl Key {
    /// The [`Settings::reset_secret`](crate::link::Settings::reset_secret) of the listener at `place`, made of a secret that
    /// its machine keeps. `place` tells it from other listeners of that machine, for example by its address and port.
    pub fn of_listener(&self, place: &str) -> Key {
        Key(expand(&self.0, "glassline link 1 listener", place.as_bytes()))
    }

    /// A key for another purpose that follows from this one: nothing of this one follows from it. `label` names the purpose, and
    /// `context` what it is bound to, such as nonces (HKDF-Expand with SHA-256, RFC 5869 §2.3).
    pub fn derived(&self, label: &str, context: &[u8]) -> Key {
        Key(expand(&self.0, label, context))
    }
}

impl Drop for Key {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl std::fmt::Debug for Key {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Key")
    }
}

/// By what the two ends know each other.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// Both hold this key (Noise NNpsk0).
    Shared(Key),
    /// Each has a key pair (Noise IK).
    Pair {
        /// Our private half.
        private: Key,
        /// The public halves of the ends that may link with us. An end that connects expects the first one of them.
        peers: Vec<Key>,
    },
    /// Every peer is let in: the key is a shared one that is public. For the lab.
    Insecure,
}

impl Credentials {
    /// The pattern that these follow.
    pub fn pattern(&self) -> Pattern {
        match self {
            Credentials::Shared(_) | Credentials::Insecure => Pattern::SharedKey,
            Credentials::Pair { .. } => Pattern::KeyPair,
        }
    }

    fn shared(&self) -> Key {
        match self {
            Credentials::Shared(key) => key.clone(),
            Credentials::Insecure => Key(expand(&[0; 32], "glassline link 1 insecure", &[])),
            Credentials::Pair { private, .. } => private.clone(),
        }
    }

    /// The key of our gate, which an end has to know to connect to us.
    pub(crate) fn own_gate(&self) -> Key {
        match self {
            Credentials::Pair { private, .. } => public_key(private),
            _ => self.shared(),
        }
    }

    /// The key of the gate of the listener that we connect to; `None` if no peer is given.
    pub(crate) fn remote_gate(&self) -> Option<Key> {
        match self {
            Credentials::Pair { peers, .. } => peers.first().cloned(),
            _ => Some(self.shared()),
        }
    }

    /// A secret that outlives a restart, for reset tokens. The key alone would not do: each listener that has it could
    /// reset the links of all others, and would if their peers' packets came to it.
    pub(crate) fn lasting_secret(&self, own: &Key) -> Key {
        Key(expand(&self.shared().0, "glassline link 1 lasting", &own.0))
    }
}

/// The public half of a private key (X25519, RFC 7748).
pub fn public_key(private: &Key) -> Key {
    Key(MontgomeryPoint::mul_base_clamped(private.0).to_bytes())
}

/// What both ends know after a handshake: the first secret of each direction.
#[derive(Clone)]
pub struct Secrets {
    /// Of what we send.
    pub send: Key,
    /// Of what we receive.
    pub receive: Key,
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets")
    }
}

/// One end of a handshake.
#[derive(Debug)]
pub(crate) struct Handshake {
    state: Box<HandshakeState>,
    initiator: bool,
}

impl Handshake {
    /// The end that speaks first; `None` without a peer to speak to.
    pub(crate) fn initiator(
        credentials: &Credentials,
        prologue: &[u8],
        random: &mut Random,
    ) -> Option<Handshake> {
        Handshake::new(credentials, prologue, random, true, None)
    }

    /// The end that answers.
    pub(crate) fn responder(
        credentials: &Credentials,
        prologue: &[u8],
        random: &mut Random,
    ) -> Option<Handshake> {
        Handshake::new(credentials, prologue, random, false, None)
    }

    /// `ephemeral` is for test vectors: the private key that is drawn otherwise.
    fn new(
        credentials: &Credentials,
        prologue: &[u8],
        random: &mut Random,
        initiator: bool,
        ephemeral: Option<&Key>,
    ) -> Option<Handshake> {
        let name = match credentials.pattern() {
            Pattern::SharedKey => "Noise_NNpsk0_25519_AESGCM_SHA256",
            Pattern::KeyPair => "Noise_IK_25519_AESGCM_SHA256",
        };
        let params: NoiseParams = name.parse().ok()?;
        let resolver = Resolver { random: Mutex::new(random.fork()) };
        let builder = Builder::with_resolver(params, Box::new(resolver)).prologue(prologue).ok()?;
        let shared = credentials.shared();
        let peer;
        let builder = match credentials {
            Credentials::Pair { private, peers } => {
                let builder = builder.local_private_key(&private.0).ok()?;
                if initiator {
                    peer = peers.first()?;
                    builder.remote_public_key(&peer.0).ok()?
                } else {
                    builder
                }
            }
            _ => builder.psk(0, &shared.0).ok()?,
        };
        let builder = match ephemeral {
            Some(key) => builder.fixed_ephemeral_key_for_testing_only(&key.0),
            None => builder,
        };
        let state = if initiator { builder.build_initiator() } else { builder.build_responder() }.ok()?;
        Some(Handshake { state: Box::new(state), initiator })
    }

    /// The next message, with `payload` encrypted in it.
    pub(crate) fn write(&mut self, payload: &[u8]) -> Option<Vec<u8>> {
        let mut message = vec![0; payload.len().saturating_add(256)];
        let length = self.state.write_message(payload, &mut message).ok()?;
        message.truncate(length);
        Some(message)
    }

    /// The payload of the other end's message; `None` if it was not made with the right keys. The handshake is as
    /// before then.
    pub(crate) fn read(&mut self, message: &[u8]) -> Option<Vec<u8>> {
        let mut payload = vec![0; message.len()];
        let length = self.state.read_message(message, &mut payload).ok()?;
        payload.truncate(length);
        Some(payload)
    }

    /// The other end's public key, where there are key pairs and it is known already.
    pub(crate) fn peer(&self) -> Option<Key> {
        self.state.get_remote_static().and_then(|key| key.try_into().ok()).map(Key)
    }

    /// The secrets, once both messages have passed: HKDF-Extract of Noise's two keys, salted with the handshake's
    /// hash, and expanded by the direction's name.
    pub(crate) fn secrets(&mut self) -> Option<Secrets> {
        if !self.state.is_handshake_finished() {
            return None;
        }
        let salt = hmac::Key::new(hmac::HMAC_SHA256, self.state.get_handshake_hash());
        let (forth, back) = self.state.dangerously_get_raw_split();
        let (forth, back) = (Zeroizing::new(forth), Zeroizing::new(back));
        let secret =
            |key: &[u8; 32]| Key(expand(hmac::sign(&salt, key).as_ref(), "glassline link 1 data", &[]));
        let (forth, back) = (secret(&forth), secret(&back));
        Some(if self.initiator {
            Secrets { send: forth, receive: back }
        } else {
            Secrets { send: back, receive: forth }
        })
    }
}

/// Hands `snow` its primitives.
struct Resolver {
    random: Mutex<Random>,
}

impl CryptoResolver for Resolver {
    fn resolve_rng(&self) -> Option<Box<dyn types::Random>> {
        let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Box::new(Bytes(random.fork())))
    }

    fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn types::Dh>> {
        matches!(choice, DHChoice::Curve25519).then(|| Box::new(X25519::default()) as Box<dyn types::Dh>)
    }

    fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn types::Hash>> {
        matches!(choice, HashChoice::SHA256)
            .then(|| Box::new(Sha256(digest::Context::new(&digest::SHA256))) as Box<dyn types::Hash>)
    }

    fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn types::Cipher>> {
        matches!(choice, CipherChoice::AESGCM)
            .then(|| Box::new(Aes256::of(&[0; 32])) as Box<dyn types::Cipher>)
    }
}

struct Bytes(Random);

impl types::Random for Bytes {
    fn try_fill_bytes(&mut self, out: &mut [u8]) -> Result<(), snow::Error> {
        self.0.fill(out);
        Ok(())
    }
}

#[derive(Default)]
struct X25519 {
    private: Zeroizing<[u8; 32]>,
    public: [u8; 32],
}

impl types::Dh for X25519 {
    fn name(&self) -> &'static str {
        "25519"
    }

    fn pub_len(&self) -> usize {
        32
    }

    fn priv_len(&self) -> usize {
        32
    }

    fn set(&mut self, private: &[u8]) {
        self.private.copy_from_slice(&private[..32]);
        self.public = public_key(&Key(*self.private)).0;
    }

    fn generate(&mut self, random: &mut dyn types::Random) -> Result<(), snow::Error> {
        let mut private = Zeroizing::new([0; 32]);
        random.try_fill_bytes(&mut private[..])?;
        self.set(&private[..]);
        Ok(())
    }

    fn pubkey(&self) -> &[u8] {
        &self.public
    }

    fn privkey(&self) -> &[u8] {
        &self.private[..]
    }

    fn dh(&self, public: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
        let public = public.first_chunk::<32>().ok_or(snow::Error::Input)?;
        let shared = Zeroizing::new(MontgomeryPoint(*public).mul_clamped(*self.private).to_bytes());
        // A point of small order gives a secret that everybody knows (RFC 7748 §6.1).
        if *shared == [0; 32] {
            return Err(snow::Error::Dh);
        }
        out[..32].copy_from_slice(&shared[..]);
        Ok(())
    }
}

struct Sha256(digest::Context);

impl types::Hash for Sha256 {
    fn name(&self) -> &'static str {
        "SHA256"
    }

    fn block_len(&self) -> usize {
        64
    }

    fn hash_len(&self) -> usize {
        32
    }

    fn reset(&mut self) {
        self.0 = digest::Context::new(&digest::SHA256);
    }

    fn input(&mut self, data: &[u8]) {
        self.0.update(data);
    }

    fn result(&mut self, out: &mut [u8]) {
        out[..32].copy_from_slice(self.0.clone().finish().as_ref());
    }
}

struct Aes256(LessSafeKey);

impl Aes256 {
    fn of(key: &[u8; 32]) -> Aes256 {
        Aes256(LessSafeKey::new(
            UnboundKey::new(&AES_256_GCM, key).expect("the length is that of the algorithm"),
        ))
    }

    /// Noise §12.4: 32 bits of zeros, then the counter big-endian.
    fn nonce(counter: u64) -> Nonce {
        let mut bytes = [0; 12];
        bytes[4..].copy_from_slice(&counter.to_be_bytes());
        Nonce::assume_unique_for_key(bytes)
    }
}

impl types::Cipher for Aes256 {
    fn name(&self) -> &'static str {
        "AESGCM"
    }

    fn set(&mut self, key: &[u8; 32]) {
        *self = Aes256::of(key);
    }

    fn encrypt(&self, nonce: u64, clear: &[u8], plain: &[u8], out: &mut [u8]) -> usize {
        let (text, rest) = out.split_at_mut(plain.len());
        text.copy_from_slice(plain);
        let tag = self.0.seal_in_place_separate_tag(Aes256::nonce(nonce), Aad::from(clear), text);
        rest[..16].copy_from_slice(tag.expect("Noise's messages are short").as_ref());
        plain.len().saturating_add(16)
    }

    fn decrypt(&self, nonce: u64, clear: &[u8], sealed: &[u8], out: &mut [u8]) -> Result<usize, snow::Error> {
        let mut text = sealed.to_vec();
        let plain = self
            .0
            .open_in_place(Aes256::nonce(nonce), Aad::from(clear), &mut text)
            .map_err(|_| snow::Error::Decrypt)?;
        out.get_mut(..plain.len()).ok_or(snow::Error::Input)?.copy_from_slice(plain);
        Ok(plain.len())
    }
}

#[cfg(test)]
#[path = "published_tests.rs"]
mod published;

#[cfg(test)]
mod tests {
    use super::*;

    fn shake(one: &Credentials, two: &Credentials) -> Option<(Secrets, Secrets, Option<Key>)> {
        let (mut first, mut second) = (Random::new([1; 32]), Random::new([2; 32]));
        let mut initiator = Handshake::initiator(one, b"prologue", &mut first)?;
        let hello = initiator.write(b"hello")?;
        let mut responder = Handshake::responder(two, b"prologue", &mut second)?;
        assert_eq!(responder.read(&hello)?, b"hello");
        let peer = responder.peer();
        let answer = responder.write(b"welcome")?;
        assert!(answer.len() < 200 && hello.len() < 200);
        let mut changed = answer.clone();
        changed[40] ^= 1;
        assert_eq!(initiator.read(&changed), None, "a forged answer is no answer");
        assert_eq!(initiator.read(&answer)?, b"welcome", "and does not hinder the right one");
        Some((initiator.secrets()?, responder.secrets()?, peer))
    }

    #[test]
    fn both_ends_of_a_shared_key_have_the_same_secrets() {
        let key = Credentials::Shared(Key([3; 32]));
        let (one, two, peer) = shake(&key, &key).unwrap();
        assert_eq!((&one.send, &one.receive), (&two.receive, &two.send));
        assert_ne!(one.send, one.receive);
        assert_eq!(peer, None);
        assert!(shake(&key, &Credentials::Shared(Key([4; 32]))).is_none());
        assert!(shake(&Credentials::Insecure, &Credentials::Insecure).is_some());
    }

    #[test]
    fn key_pairs_tell_who_connects() {
        let (one, two) = (Key([5; 32]), Key([6; 32]));
        let initiator = Credentials::Pair { private: one.clone(), peers: vec![public_key(&two)] };
        let responder = Credentials::Pair { private: two, peers: vec![public_key(&one)] };
        let (here, there, peer) = shake(&initiator, &responder).unwrap();
        assert_eq!((&here.send, &here.receive), (&there.receive, &there.send));
        assert_eq!(peer, Some(public_key(&one)));
        let stranger = Credentials::Pair { private: one.clone(), peers: vec![public_key(&Key([7; 32]))] };
        assert!(shake(&stranger, &responder).is_none(), "another listener's key");
    }

    #[test]
    fn the_public_half_is_that_of_rfc_7748() {
        // Section 6.1, Alice.
        let private = Key([
            0x77, 0x07, 0x6d, 0x0a, 0x73, 0x18, 0xa5, 0x7d, 0x3c, 0x16, 0xc1, 0x72, 0x51, 0xb2, 0x66, 0x45,
            0xdf, 0x4c, 0x2f, 0x87, 0xeb, 0xc0, 0x99, 0x2a, 0xb1, 0x77, 0xfb, 0xa5, 0x1d, 0xb9, 0x2c, 0x2a,
        ]);
        assert_eq!(public_key(&private).0[..8], [0x85, 0x20, 0xf0, 0x09, 0x89, 0x30, 0xa7, 0x54]);
    }
}
