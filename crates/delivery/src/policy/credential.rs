//! What is shown to be let in.

use ring::hmac;
use std::borrow::Cow;
use std::fmt;

/// What a request shows to be let in. Nothing of it is true before a policy has looked at it. It does not show in `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credential<'a> {
    /// A key beside the address of what is asked for: in HTTP a bearer token or a password. In RTSP the `?key=KEY` of a viewer counts as
    /// such: its address is in the hands of one player, as one with user and password is, and in no playlist.
    pub key: Option<Cow<'a, str>>,
    /// A key inside of that address: in HTTP `?key=KEY`. It is good for publishers alone, since viewers' addresses are copied into
    /// playlists and passed around.
    pub key_in_address: Option<Cow<'a, str>>,
    /// A viewer's token.
    pub token: Option<ShownToken>,
}

/// A viewer's token as it was shown.
#[derive(Clone, PartialEq, Eq)]
pub struct ShownToken {
    /// Until when it says that it is good, in Unix seconds.
    pub expires_s: u64,
    /// Its signature.
    pub tag: Vec<u8>,
}

impl Credential<'_> {
    /// The key of a publisher: the one beside the address, or else the one in it.
    pub(super) fn publish_key(&self) -> Option<&str> {
        self.key.as_deref().or(self.key_in_address.as_deref())
    }
}

impl fmt::Debug for Credential<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Credential");
        shown.field("key", &self.key.is_some()).field("key_in_address", &self.key_in_address.is_some());
        shown.field("token", &self.token.as_ref().map(|token| token.expires_s)).finish()
    }
}

/// Whether `shown` is `key`. In constant time, whatever is shown: two texts are compared by what one key signs of them.
pub(super) fn is_key(key: &str, shown: &str) -> bool {
    let signer = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&signer, key.as_bytes());
    hmac::verify(&signer, shown.as_bytes(), tag.as_ref()).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credential_does_not_show_in_what_is_logged() {
        let token = ShownToken { expires_s: 1000, tag: b"signature".to_vec() };
        let credential = Credential {
            key: Some("s3cret".into()),
            key_in_address: Some("s3cret".into()),
            token: Some(token),
        };
        let shown = format!("{credential:?}");
        assert_eq!(shown, "Credential { key: true, key_in_address: true, token: Some(1000) }");
    }

    #[test]
    fn the_key_beside_the_address_goes_before_the_one_in_it() {
        let both = Credential { key: Some("a".into()), key_in_address: Some("b".into()), token: None };
        assert_eq!(both.publish_key(), Some("a"));
        assert_eq!(Credential { key: None, ..both }.publish_key(), Some("b"));
        assert!(is_key("a", "a") && !is_key("a", "b") && !is_key("a", ""));
    }
}
