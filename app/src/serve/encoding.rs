//! Bodies of text, smaller: in Brotli or gzip for clients that ask for it.

use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Coding, Effort, Response};

/// What is made for a single answer is compressed only between these sizes. Below, a packet carries it anyhow; above,
/// the worker's viewers would wait for more than a millisecond or so.
const ON_THE_FLY_BYTES: std::ops::RangeInclusive<usize> = 1024..=128 << 10;

/// `response`, smaller if it is text and `request` asks for that.
pub(super) fn encoded(response: Response, request: &Request) -> Response {
    let has = |wanted: &str| response.headers.iter().any(|(name, _)| *name == wanted);
    let is_whole = response.status == 200 && !has("Content-Encoding") && !has("Vary");
    if !is_whole || !is_text(&response) || !ON_THE_FLY_BYTES.contains(&response.body.len()) {
        return response;
    }
    let mut response = response.with_header("Vary", "Accept-Encoding");
    if let Some(coding) = Coding::wanted(&request.headers, &Coding::ALL) {
        response.body = coding.encode(&response.body, Effort::Once);
        response = response.with_header("Content-Encoding", coding.name());
    }
    response
}

fn is_text(response: &Response) -> bool {
    let of_type = response.headers.iter().find(|(name, _)| *name == "Content-Type");
    of_type.is_some_and(|(_, kind)| kind.starts_with("text/") || kind.starts_with("application/json"))
}
