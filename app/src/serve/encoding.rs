//! Bodies of text, smaller: in Brotli or gzip for clients that ask for it.

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, preferred_coding};
use std::io::Write;

/// What is made for a single answer is compressed only between these sizes. Below, a packet carries it anyhow; above,
/// the worker's viewers would wait for more than a millisecond or so.
const ON_THE_FLY_BYTES: std::ops::RangeInclusive<usize> = 1024..=128 << 10;
/// Brotli's quality for a single answer, which takes about as long as gzip's.
const ON_THE_FLY_QUALITY: i32 = 2;
/// The same where there is time.
const BEST_QUALITY: i32 = 11;

/// A content coding (RFC 9110 §8.4.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Coding {
    /// RFC 7932.
    Brotli,
    /// RFC 1952.
    Gzip,
}

impl Coding {
    /// As HTTP calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Coding::Brotli => "br",
            Coding::Gzip => "gzip",
        }
    }

    /// The one of `available` that `request` wants most, if it wants one; of equal ones the first.
    pub(super) fn wanted(request: &Request, available: &[Coding]) -> Option<Coding> {
        let names: Vec<_> = available.iter().map(|coding| coding.name()).collect();
        let wanted = preferred_coding(&request.headers, &names)?;
        available.iter().copied().find(|coding| coding.name() == wanted)
    }

    /// `bytes`, as small as they get. For the page's script Brotli takes about a quarter of a second.
    pub(super) fn encode_well(self, bytes: &[u8]) -> Bytes {
        match self {
            Coding::Brotli => brotli(bytes, BEST_QUALITY),
            Coding::Gzip => gzip(bytes, Compression::best()),
        }
    }

    fn encode_fast(self, bytes: &[u8]) -> Bytes {
        match self {
            Coding::Brotli => brotli(bytes, ON_THE_FLY_QUALITY),
            Coding::Gzip => gzip(bytes, Compression::fast()),
        }
    }
}

fn gzip(bytes: &[u8], level: Compression) -> Bytes {
    let mut encoder = GzEncoder::new(Vec::with_capacity(bytes.len() / 3), level);
    let written = encoder.write_all(bytes).and_then(|()| encoder.finish());
    written.expect("a vector takes all that is written").into()
}

fn brotli(mut bytes: &[u8], quality: i32) -> Bytes {
    let parameters = brotli::enc::BrotliEncoderParams {
        quality,
        size_hint: bytes.len(),
        ..brotli::enc::BrotliEncoderParams::default()
    };
    let mut encoded = Vec::with_capacity(bytes.len() / 3);
    let written = brotli::BrotliCompress(&mut bytes, &mut encoded, &parameters);
    written.expect("a vector takes all that is written");
    encoded.into()
}

/// `response`, smaller if it is text and `request` asks for that.
pub(super) fn encoded(response: Response, request: &Request) -> Response {
    let has = |wanted: &str| response.headers.iter().any(|(name, _)| *name == wanted);
    let is_whole = response.status == 200 && !has("Content-Encoding") && !has("Vary");
    if !is_whole || !is_text(&response) || !ON_THE_FLY_BYTES.contains(&response.body.len()) {
        return response;
    }
    let mut response = response.with_header("Vary", "Accept-Encoding");
    if let Some(coding) = Coding::wanted(request, &[Coding::Brotli, Coding::Gzip]) {
        response.body = coding.encode_fast(&response.body);
        response = response.with_header("Content-Encoding", coding.name());
    }
    response
}

fn is_text(response: &Response) -> bool {
    let of_type = response.headers.iter().find(|(name, _)| *name == "Content-Type");
    of_type.is_some_and(|(_, kind)| kind.starts_with("text/") || kind.starts_with("application/json"))
}
