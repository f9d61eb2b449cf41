//! Keys that requests show.

use crate::http1::server::Request;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use ring::hmac;

/// The secret in a request's `Authorization` field: a bearer token (RFC 6750 §2.1) or a Basic password (RFC 7617 §2), which
/// is what `http://user:KEY@host/` becomes in FFmpeg, in curl and in addresses of servers here.
pub(super) fn shown(request: &Request) -> Option<String> {
    let (scheme, value) = request.headers.first("authorization")?.split_once(' ')?;
    let value = value.trim();
    if scheme.eq_ignore_ascii_case("bearer") {
        return Some(value.to_owned());
    }
    if !scheme.eq_ignore_ascii_case("basic") {
        return None;
    }
    let decoded = String::from_utf8(BASE64_STANDARD.decode(value).ok()?).ok()?;
    decoded.split_once(':').map(|(_, password)| password.to_owned())
}

/// Whether `shown` is `key`. In constant time, whatever is shown: two texts are compared by what one key signs of them.
pub(super) fn is_key(key: &str, shown: &str) -> bool {
    let signer = hmac::Key::new(hmac::HMAC_SHA256, key.as_bytes());
    let tag = hmac::sign(&signer, key.as_bytes());
    hmac::verify(&signer, shown.as_bytes(), tag.as_ref()).is_ok()
}
