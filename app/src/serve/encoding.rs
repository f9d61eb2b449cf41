//! Bodies of text, smaller: gzip for clients that ask for it.

use flate2::Compression;
use flate2::write::GzEncoder;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, prefers_coding};
use std::io::Write;

/// What is made for a single answer is compressed only between these sizes. Below, a packet carries it anyhow; above,
/// the worker's viewers would wait for more than a millisecond or so.
const ON_THE_FLY_BYTES: std::ops::RangeInclusive<usize> = 1024..=128 << 10;

/// `bytes` in gzip (RFC 1952).
pub(super) fn gzip(bytes: &[u8], level: Compression) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), level);
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("a vector takes all that is written")
}

/// `response`, smaller if it is text and `request` asks for that.
pub(super) fn encoded(response: Response, request: &Request) -> Response {
    let has = |wanted: &str| response.headers.iter().any(|(name, _)| *name == wanted);
    let is_whole = response.status == 200 && !has("Content-Encoding") && !has("Vary");
    if !is_whole || !is_text(&response) || !ON_THE_FLY_BYTES.contains(&response.body.len()) {
        return response;
    }
    let mut response = response.with_header("Vary", "Accept-Encoding");
    if prefers_coding(&request.headers, "gzip") {
        response.body = gzip(&response.body, Compression::fast()).into();
        response = response.with_header("Content-Encoding", "gzip");
    }
    response
}

fn is_text(response: &Response) -> bool {
    let of_type = response.headers.iter().find(|(name, _)| *name == "Content-Type");
    of_type.is_some_and(|(_, kind)| kind.starts_with("text/") || kind.starts_with("application/json"))
}
