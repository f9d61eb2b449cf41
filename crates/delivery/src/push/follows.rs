//! What a publisher says of itself, so that a server which is emptied may lead it to another one in the middle of its request.

use crate::http1::Headers;

/// The field of a request by which a publisher says that it reads the server's answer while it still sends, and that it goes on where a
/// 307 (RFC 9110 §15.4.8) with `Location` leads, from a key frame on. Others read no answer before their end.
pub const FOLLOWS_FIELD: &str = "Glassline-Follows";
/// Its value: the status code that is followed.
pub(super) const FOLLOWS: &str = "307";

/// Whether a request's fields say so.
pub fn follows(headers: &Headers) -> bool {
    headers.has_token(FOLLOWS_FIELD, FOLLOWS)
}
