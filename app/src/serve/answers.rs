//! Answers that several pages give.

use glassline_delivery::http1::{Response, access, problem};
use glassline_delivery::policy::{Action, Refusal};
use serde::Serialize;

pub(super) fn json(value: &impl Serialize) -> Response {
    match serde_json::to_vec(value) {
        Ok(mut body) => {
            body.push(b'\n');
            Response::ok("application/json", body).with_header("Cache-Control", "no-store")
        }
        Err(error) => Response::new(500).with_body("text/plain", error.to_string()),
    }
}

/// A refusal. `words` say which clients have access; if the client would have it, but not by the way of its request,
/// the refusal's own words say what to change.
pub(super) fn refused(refusal: Refusal, title: &str, words: &str) -> Response {
    let (status, own_words) = access::explain(refusal, Action::Publish);
    let is_about_how = matches!(refusal, Refusal::Host | Refusal::Proxied | Refusal::ForeignPage);
    problem(status, title, if is_about_how { own_words } else { words })
}

pub(super) fn no_stream() -> Response {
    let words = "No stream of this name is known, or watching it needs a signed address. \
                 GET /api/streams lists those that may be watched.";
    problem(404, "no such stream", words)
}
