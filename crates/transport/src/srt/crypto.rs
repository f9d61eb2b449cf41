//! Encryption: the passphrase, the keys that are wrapped with it, and payloads (§6).
//!
//! The key of payloads is made by the caller and goes to the listener in a key-material message, wrapped (RFC 3394) with a key
//! that PBKDF2 (RFC 8018) makes of the passphrase and a salt. Payloads are encrypted by AES in counter mode, of which the counter
//! begins with the salt and the packet's number: that hides them and proves nothing of their sender.

use super::sequence::Sequence;
use aes::cipher::{BlockCipherEncrypt, InnerIvInit, KeyInit, StreamCipher};
use aes::{Aes128, Aes192, Aes256};
use aes_kw::AesKw;
use ctr::{Ctr128BE, CtrCore};
use ring::pbkdf2;
use std::fmt;
use std::num::NonZeroU32;
use thiserror::Error;
use zeroize::{Zeroize, Zeroizing};

/// Bytes of the salt.
const SALT_BYTES: usize = 16;
/// Bytes in front of the salt in a key-material message (§3.2.2).
const FIXED_BYTES: usize = 16;
/// What a wrapped key is longer by.
const CHECK_BYTES: usize = 8;
/// §6.1.4.
const ITERATIONS: NonZeroU32 = NonZeroU32::new(2048).unwrap();

/// A passphrase: 10 to 79 bytes. It does not show in `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Passphrase(Zeroizing<String>);

/// Why a text is no passphrase.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a passphrase of SRT has 10 to 79 bytes, and this one has {0}")]
pub struct PassphraseError(usize);

impl Passphrase {
    /// `text`, if it is long enough and not too long.
    ///
    /// # Errors
    /// Its length.
    pub fn new(text: &str) -> Result<Passphrase, PassphraseError> {
        let fits = (10..=79).contains(&text.len());
        fits.then(|| Passphrase(Zeroizing::new(text.to_owned()))).ok_or(PassphraseError(text.len()))
    }

    /// Its text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The key that wraps keys: of the passphrase and the last 64 bits of the salt (§6.1.4).
    fn key(&self, salt: &[u8; SALT_BYTES], bytes: KeyBytes) -> Zeroizing<Vec<u8>> {
        let mut key = Zeroizing::new(vec![0; bytes.count()]);
        let salt = &salt[SALT_BYTES - 8..];
        pbkdf2::derive(pbkdf2::PBKDF2_HMAC_SHA1, ITERATIONS, salt, self.0.as_bytes(), &mut key);
        key
    }
}

impl fmt::Debug for Passphrase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(secret)")
    }
}

/// How long a key is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyBytes {
    /// AES-128.
    #[default]
    Sixteen,
    /// AES-192.
    TwentyFour,
    /// AES-256.
    ThirtyTwo,
}

impl KeyBytes {
    /// The length `bytes`, if keys have it.
    pub fn of(bytes: usize) -> Option<KeyBytes> {
        match bytes {
            16 => Some(KeyBytes::Sixteen),
            24 => Some(KeyBytes::TwentyFour),
            32 => Some(KeyBytes::ThirtyTwo),
            _ => None,
        }
    }

    /// In bytes.
    pub const fn count(self) -> usize {
        match self {
            KeyBytes::Sixteen => 16,
            KeyBytes::TwentyFour => 24,
            KeyBytes::ThirtyTwo => 32,
        }
    }
}

/// Why a key-material message is of no use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum KeyError {
    /// It is no such message, or of another cipher.
    Malformed,
    /// It was not wrapped with this passphrase.
    Passphrase,
}

#[derive(Clone)]
enum Cipher {
    Aes128(Box<Aes128>),
    Aes192(Box<Aes192>),
    Aes256(Box<Aes256>),
}

impl Cipher {
    fn new(key: &[u8]) -> Option<Cipher> {
        Some(match key.len() {
            16 => Cipher::Aes128(Box::new(Aes128::new_from_slice(key).ok()?)),
            24 => Cipher::Aes192(Box::new(Aes192::new_from_slice(key).ok()?)),
            32 => Cipher::Aes256(Box::new(Aes256::new_from_slice(key).ok()?)),
            _ => return None,
        })
    }

    fn apply(&self, counter: [u8; 16], bytes: &mut [u8]) {
        fn with<C>(cipher: &C, counter: [u8; 16], bytes: &mut [u8])
        where
            C: BlockCipherEncrypt<BlockSize = aes::cipher::consts::U16> + Clone,
        {
            let core = CtrCore::inner_iv_init(cipher.clone(), &counter.into());
            Ctr128BE::from_core(core).apply_keystream(bytes);
        }
        match self {
            Cipher::Aes128(cipher) => with(&**cipher, counter, bytes),
            Cipher::Aes192(cipher) => with(&**cipher, counter, bytes),
            Cipher::Aes256(cipher) => with(&**cipher, counter, bytes),
        }
    }
}

/// One of the two keys.
#[derive(Clone)]
struct Key {
    bytes: Zeroizing<Vec<u8>>,
    cipher: Cipher,
}

impl Key {
    fn new(bytes: &[u8]) -> Option<Key> {
        Some(Key { cipher: Cipher::new(bytes)?, bytes: Zeroizing::new(bytes.to_vec()) })
    }
}

/// The keys of a connection, the same in both directions: an even one, an odd one, or both while one follows the other (§6.1.6).
pub(super) struct Keys {
    salt: [u8; SALT_BYTES],
    key_bytes: KeyBytes,
    /// Even, odd.
    keys: [Option<Key>; 2],
    /// The key of what is sent: 1 is the even one, 2 the odd one.
    current: u8,
    passphrase: Passphrase,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("current", &self.current).finish_non_exhaustive()
    }
}

impl Keys {
    /// A caller's own, out of random bytes.
    pub(super) fn new(
        passphrase: Passphrase,
        key_bytes: KeyBytes,
        random: &mut dyn FnMut(&mut [u8]),
    ) -> Keys {
        let mut salt = [0; SALT_BYTES];
        random(&mut salt);
        let mut keys = Keys { salt, key_bytes, keys: [None, None], current: 1, passphrase };
        keys.renew(0, random);
        keys
    }

    /// Makes key `index` (0 even, 1 odd) anew.
    fn renew(&mut self, index: usize, random: &mut dyn FnMut(&mut [u8])) {
        let mut bytes = vec![0; self.key_bytes.count()];
        random(&mut bytes);
        self.keys[index] = Key::new(&bytes);
        bytes.zeroize();
    }

    /// Makes the key that is to follow the current one. [`Keys::message`] then has both.
    pub(super) fn announce_next(&mut self, random: &mut dyn FnMut(&mut [u8])) {
        self.renew(usize::from(self.current == 1), random);
    }

    /// Goes on with the other key.
    pub(super) fn switch(&mut self) {
        self.current = 3 - self.current;
    }

    /// Forgets the key that is not current.
    pub(super) fn forget_former(&mut self) {
        self.keys[usize::from(self.current == 1)] = None;
    }

    /// The key-material message with the keys that there are (§3.2.2).
    pub(super) fn message(&self) -> Vec<u8> {
        let flags = self.keys.iter().zip([1, 2]).filter(|(key, _)| key.is_some());
        let flags = flags.fold(0, |flags, (_, flag)| flags | flag);
        let length = self.key_bytes.count();
        // Version 1, key material, "Haivision", cipher AES-CTR, no authentication, over SRT.
        let mut message = vec![0x12, 0x20, 0x29, flags, 0, 0, 0, 0, 2, 0, 2, 0, 0, 0];
        message.extend_from_slice(&[(SALT_BYTES / 4) as u8, (length / 4) as u8]);
        message.extend_from_slice(&self.salt);
        let keys = self.keys.iter().flatten().flat_map(|key| key.bytes.iter().copied());
        let keys = Zeroizing::new(keys.collect::<Vec<u8>>());
        let mut wrapped = vec![0; keys.len() + CHECK_BYTES];
        let wrapping = self.passphrase.key(&self.salt, self.key_bytes);
        if wrap(&wrapping, &keys, &mut wrapped).is_some() {
            message.extend_from_slice(&wrapped);
        }
        message
    }

    /// Reads a peer's message: the keys of a connection that begins.
    pub(super) fn parse(message: &[u8], passphrase: &Passphrase) -> Result<Keys, KeyError> {
        let (fixed, rest) = message.split_first_chunk::<FIXED_BYTES>().ok_or(KeyError::Malformed)?;
        let (salt, wrapped) = rest.split_first_chunk::<SALT_BYTES>().ok_or(KeyError::Malformed)?;
        let flags = fixed[3] & 3;
        let key_bytes = KeyBytes::of(usize::from(fixed[15]) * 4).ok_or(KeyError::Malformed)?;
        let is_known = fixed[..3] == [0x12, 0x20, 0x29] && fixed[8] == 2 && fixed[14] == 4 && flags != 0;
        let count = flags.count_ones() as usize;
        let wrapped = wrapped.get(..count * key_bytes.count() + CHECK_BYTES).filter(|_| is_known);
        let wrapped = wrapped.ok_or(KeyError::Malformed)?;
        let wrapping = passphrase.key(salt, key_bytes);
        let mut bytes = Zeroizing::new(vec![0; wrapped.len() - CHECK_BYTES]);
        unwrap(&wrapping, wrapped, &mut bytes).ok_or(KeyError::Passphrase)?;
        let mut each = bytes.chunks_exact(key_bytes.count());
        let mut keys = [None, None];
        for (index, key) in keys.iter_mut().enumerate() {
            if flags & 1 << index != 0 {
                *key = each.next().and_then(Key::new);
            }
        }
        let current = if keys[0].is_some() { 1 } else { 2 };
        Ok(Keys { salt: *salt, key_bytes, keys, current, passphrase: passphrase.clone() })
    }

    /// Takes the keys of a peer's message in the place of those of the same parity. What is sent keeps its key.
    pub(super) fn take(&mut self, message: &[u8]) -> Result<(), KeyError> {
        let newer = Keys::parse(message, &self.passphrase)?;
        if newer.salt != self.salt {
            // Another salt makes other counters: no key of the former one goes on.
            self.keys = [None, None];
            (self.salt, self.key_bytes, self.current) = (newer.salt, newer.key_bytes, newer.current);
        }
        for (key, newer) in self.keys.iter_mut().zip(newer.keys) {
            *key = newer.or(key.take());
        }
        Ok(())
    }

    /// The flag of the key of what is sent.
    pub(super) fn current(&self) -> u8 {
        self.current
    }

    /// Encrypts or decrypts a payload in place. `false` where there is no such key.
    pub(super) fn apply(&self, flag: u8, sequence: Sequence, payload: &mut [u8]) -> bool {
        let key = match flag {
            1 => &self.keys[0],
            2 => &self.keys[1],
            _ => &None,
        };
        let Some(key) = key else { return false };
        // §6.2.2: the salt's first 112 bits, with the number over the last 32 of them; the rest counts blocks.
        let mut counter = [0; 16];
        counter[..14].copy_from_slice(&self.salt[..14]);
        for (byte, number) in counter[10..14].iter_mut().zip(sequence.value().to_be_bytes()) {
            *byte ^= number;
        }
        key.cipher.apply(counter, payload);
        true
    }
}

fn wrap(key: &[u8], keys: &[u8], into: &mut [u8]) -> Option<()> {
    match key.len() {
        16 => AesKw::<Aes128>::new_from_slice(key).ok()?.wrap_key(keys, into).ok().map(drop),
        24 => AesKw::<Aes192>::new_from_slice(key).ok()?.wrap_key(keys, into).ok().map(drop),
        _ => AesKw::<Aes256>::new_from_slice(key).ok()?.wrap_key(keys, into).ok().map(drop),
    }
}

fn unwrap(key: &[u8], wrapped: &[u8], into: &mut [u8]) -> Option<()> {
    match key.len() {
        16 => AesKw::<Aes128>::new_from_slice(key).ok()?.unwrap_key(wrapped, into).ok().map(drop),
        24 => AesKw::<Aes192>::new_from_slice(key).ok()?.unwrap_key(wrapped, into).ok().map(drop),
        _ => AesKw::<Aes256>::new_from_slice(key).ok()?.unwrap_key(wrapped, into).ok().map(drop),
    }
}

#[cfg(test)]
#[path = "crypto_tests.rs"]
mod tests;
