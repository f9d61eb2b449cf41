//! What answers have in common.

use crate::Settings;
use glassline_delivery::http1::{Response, problem};

/// No browser looks at the bytes to find out what they are.
pub(super) const NO_SNIFFING: (&str, &str) = ("X-Content-Type-Options", "nosniff");
/// A page runs no scripts, and has an origin of its own.
pub(super) const SANDBOX: (&str, &str) = ("Content-Security-Policy", "sandbox");

/// `response`, such that no browser makes a page of it: neither by looking at its bytes (Fetch standard, `nosniff`) nor
/// by what a source calls them (Content Security Policy Level 3, `sandbox`: no scripts, an origin of its own). Streams'
/// bytes come from others, under this server's name.
pub(super) fn guarded(response: Response) -> Response {
    let mut response = response;
    for (name, value) in [NO_SNIFFING, SANDBOX] {
        if !response.headers.iter().any(|(known, _)| *known == name) {
            response = response.with_header(name, value);
        }
    }
    response
}

/// Fields that players of other origins read: those that the Fetch standard does not show them unasked.
const EXPOSED: &str = "Accept-Ranges, Age, Cache-Status, CMSD-Dynamic, CMSD-Static, Content-Length, Content-Range, Date, ETag, Location, \
                       Retry-After, Server-Timing";
/// `response`, readable with its fields and its timing for the web pages that the configuration names (Fetch standard, CORS
/// protocol; Resource Timing).
pub(super) fn shared_with(settings: &Settings, response: Response) -> Response {
    match &settings.allow_origin {
        Some(origin) => response
            .with_header("Access-Control-Allow-Origin", origin)
            .with_header("Access-Control-Expose-Headers", EXPOSED)
            .with_header("Timing-Allow-Origin", origin),
        None => response,
    }
}

/// The answer where there is no such stream, or where it is not for the one that asks to know.
pub(super) fn absent() -> Response {
    let words = "No stream of this name is live, or it is watched by a signed address alone. \
                 GET /api/streams lists those that may be watched.";
    problem(404, "no such stream", words)
}
