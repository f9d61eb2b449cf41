//! Tokens: proof of an address without state, and proof that a listener has lost a link's state.

use glassline_media::Time;
use ring::aead::{AES_128_GCM, Aad, LessSafeKey, Nonce, UnboundKey};
use ring::hmac;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;
use zeroize::Zeroizing;

use super::expand_with;
use super::noise::Key;
use crate::link::Random;
use crate::link::wire::packet::ConnectionId;

/// How long a Retry's token is good.
pub(crate) const TOKEN_LIFE: Duration = Duration::from_secs(5);

/// Makes and checks the tokens of Retry datagrams. Its key lives as long as the endpoint.
pub(crate) struct Tokens {
    key: LessSafeKey,
}

impl Tokens {
    pub(crate) fn new(random: &mut Random) -> Tokens {
        let key = Zeroizing::new(random.array::<16>());
        Tokens {
            key: LessSafeKey::new(
                UnboundKey::new(&AES_128_GCM, &key[..]).expect("the length is that of the algorithm"),
            ),
        }
    }

    /// A token that says: `from` was reached at `now`. 36 bytes: nonce, sealed time; the address is authenticated.
    pub(crate) fn make(&self, from: SocketAddr, now: Time, random: &mut Random) -> Vec<u8> {
        let nonce: [u8; 12] = random.array();
        let mut text = now.as_nanos().to_be_bytes();
        let aad = Aad::from(address(from));
        let tag = self
            .key
            .seal_in_place_separate_tag(Nonce::assume_unique_for_key(nonce), aad, &mut text)
            .expect("eight bytes are not too long");
        [&nonce[..], &text, tag.as_ref()].concat()
    }

    /// Whether `token` was made for `from` less than [`TOKEN_LIFE`] ago.
    pub(crate) fn is_good(&self, token: &[u8], from: SocketAddr, now: Time) -> bool {
        let Some((nonce, sealed)) = token.split_first_chunk::<12>() else { return false };
        let mut sealed = sealed.to_vec();
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let Ok(text) = self.key.open_in_place(nonce, Aad::from(address(from)), &mut sealed) else {
            return false;
        };
        <[u8; 8]>::try_from(&*text).is_ok_and(|made| {
            let made = Time::from_nanos(u64::from_be_bytes(made));
            made <= now && now.since(made) < TOKEN_LIFE
        })
    }
}

/// An address as bytes: 16 of IPv6 (IPv4 mapped), 2 of the port.
fn address(of: SocketAddr) -> [u8; 18] {
    let ip = match of.ip() {
        IpAddr::V4(ip) => ip.to_ipv6_mapped(),
        IpAddr::V6(ip) => ip,
    };
    let mut bytes = [0; 18];
    bytes[..16].copy_from_slice(&ip.octets());
    bytes[16..].copy_from_slice(&of.port().to_be_bytes());
    bytes
}

/// Connection IDs that a restarted listener still recognises as its own, and the tokens by which its Resets are
/// believed. Both come from what that listener alone has, so that a stranger's datagram with a made-up ID meets silence,
/// and so does one with the ID of another listener's link.
pub(crate) struct Identity {
    /// `None`: nothing outlives a restart.
    key: Option<hmac::Key>,
}

impl Identity {
    pub(crate) fn new(lasting_secret: Option<&Key>) -> Identity {
        Identity { key: lasting_secret.map(|secret| hmac::Key::new(hmac::HMAC_SHA256, &secret.0)) }
    }

    /// A new ID: 32 random bits, and 32 that prove it ours; 64 random ones where nothing outlives a restart.
    pub(crate) fn connection_id(&self, random: &mut Random) -> ConnectionId {
        let Some(key) = &self.key else { return ConnectionId(u64::from_be_bytes(random.array())) };
        let high: [u8; 4] = random.array();
        let mark: [u8; 4] = expand_with(key, "connection", &high);
        ConnectionId(u64::from(u32::from_be_bytes(high)) << 32 | u64::from(u32::from_be_bytes(mark)))
    }

    /// Whether an endpoint with our secret, this one or one before it, has given `id` out. Cost: a hash.
    pub(crate) fn is_ours(&self, id: ConnectionId) -> bool {
        self.key.as_ref().is_some_and(|key| {
            let [h0, h1, h2, h3, low @ ..] = id.0.to_be_bytes();
            expand_with::<4>(key, "connection", &[h0, h1, h2, h3]) == low
        })
    }

    /// What a Reset of the link with this ID holds, if there will be any.
    pub(crate) fn reset_token(&self, id: ConnectionId) -> Option<[u8; 16]> {
        self.key.as_ref().map(|key| expand_with(key, "reset", &id.0.to_be_bytes()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_is_good_for_its_address_and_for_a_while() {
        let mut random = Random::new([1; 32]);
        let (tokens, others) = (Tokens::new(&mut random), Tokens::new(&mut random));
        let (from, now): (SocketAddr, _) = ("192.0.2.1:4000".parse().unwrap(), Time::from_millis(70_000));
        let token = tokens.make(from, now, &mut random);
        assert!(tokens.is_good(&token, from, now));
        assert!(tokens.is_good(&token, from, now + Duration::from_millis(4999)));
        assert!(!tokens.is_good(&token, from, now + TOKEN_LIFE));
        assert!(!tokens.is_good(&token, "192.0.2.1:4001".parse().unwrap(), now));
        assert!(!tokens.is_good(&token, "[2001:db8::1]:4000".parse().unwrap(), now));
        assert!(!others.is_good(&token, from, now));
        assert!((0..token.len()).all(|length| !tokens.is_good(&token[..length], from, now)));
    }

    #[test]
    fn an_id_is_recognised_after_a_restart_and_a_made_up_one_is_not() {
        let mut random = Random::new([1; 32]);
        let identity = |secret| Identity::new(Some(&Key([secret; 32])));
        let (before, after) = (identity(3), identity(3));
        let id = before.connection_id(&mut random);
        assert!(after.is_ours(id));
        assert!(before.reset_token(id).is_some() && before.reset_token(id) == after.reset_token(id));
        assert!(!identity(4).is_ours(id) && identity(4).reset_token(id) != before.reset_token(id));
        let none = Identity::new(None);
        let id = none.connection_id(&mut random);
        assert!(!none.is_ours(id) && none.reset_token(id).is_none());
        assert!(!after.is_ours(ConnectionId(id.0 ^ 1)) && !after.is_ours(ConnectionId(id.0 ^ 1 << 40)));
    }
}
