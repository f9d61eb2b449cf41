//! A tag at the end of Connect and Retry datagrams that can only be made with the listener's key, shared or public. It
//! costs a fraction of a microsecond to check, so a flood of strangers' datagrams costs no handshakes, and the listener
//! does not answer a sender that does not know the key.
//!
//! ```text
//! datagram = body ‖ nonce (12 bytes) ‖ AES-128-GMAC over body (16 bytes)
//! ```
//! It is no authentication: a Connect that was recorded passes again. What follows is Noise's business.

use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};

use super::expand;

/// Bytes that the gate adds.
pub const GATE: usize = 28;

/// The key of one listener's gate.
#[derive(Clone, Debug)]
pub struct Gate {
    key: LessSafeKey,
}

impl Gate {
    /// The gate of the listener with this key: the shared key, or the listener's public key.
    pub fn new(known: &[u8; 32]) -> Gate {
        let key: [u8; 16] = expand(known, "glassline link 1 gate", &[]);
        Gate {
            key: LessSafeKey::new(
                UnboundKey::new(&AES_128_GCM, &key).expect("the length is that of the algorithm"),
            ),
        }
    }

    /// Appends the gate to `body`. `nonce` is random.
    pub fn close(&self, body: &mut Vec<u8>, nonce: [u8; 12]) {
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), Aad::from(&body[..]), &mut [])
            .expect("an empty text is never too long");
        body.extend_from_slice(&nonce);
        body.extend_from_slice(tag.as_ref());
    }

    /// The body, if the gate was closed with this key. Cost: the AES of its bytes.
    pub fn open<'a>(&self, datagram: &'a [u8]) -> Option<&'a [u8]> {
        let (body, gate) = datagram.split_at(datagram.len().checked_sub(GATE)?);
        let (nonce, tag) = gate.split_first_chunk::<12>()?;
        let mut tag: [u8; 16] = tag.try_into().ok()?;
        self.key.open_in_place(Nonce::assume_unique_for_key(*nonce), Aad::from(body), &mut tag).ok()?;
        Some(body)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_knows_the_key_passes_and_no_bit_may_change() {
        let (gate, other) = (Gate::new(&[1; 32]), Gate::new(&[2; 32]));
        let mut datagram = b"a body".to_vec();
        gate.close(&mut datagram, [7; 12]);
        assert_eq!(datagram.len(), 6 + GATE);
        assert_eq!(gate.open(&datagram), Some(&b"a body"[..]));
        assert_eq!(other.open(&datagram), None);
        for bit in 0..datagram.len() * 8 {
            let mut changed = datagram.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(gate.open(&changed), None);
        }
        (0..datagram.len()).for_each(|length| assert_eq!(gate.open(&datagram[..length]), None));
    }
}
