//! The web page, embedded into the program: `web/dist` as it was built.

use super::encoding::Coding;
use bytes::Bytes;
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use std::sync::{LazyLock, OnceLock};

struct Asset {
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    /// The same, smaller.
    gzipped: Bytes,
    /// Smaller still, once somebody has asked for it and it is made.
    brotli: OnceLock<Bytes>,
    hash: u64,
}

macro_rules! asset {
    ($path:literal, $media_type:literal) => {
        Asset::new($path, $media_type, include_bytes!(concat!("../../../web/dist", $path)))
    };
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    vec![
        asset!("/index.html", "text/html; charset=utf-8"),
        asset!("/assets/app.js", "text/javascript; charset=utf-8"),
        asset!("/assets/app.css", "text/css; charset=utf-8"),
        asset!("/assets/audio-worklet.js", "text/javascript; charset=utf-8"),
        asset!("/assets/favicon.svg", "image/svg+xml"),
    ]
});

/// The page may load nothing from elsewhere, and no other page may frame it but its own pop-out.
const CONTENT_SECURITY_POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; \
     img-src 'self' data:; connect-src 'self'; media-src 'self' blob:; worker-src 'self'; base-uri 'none'; \
     form-action 'none'; frame-ancestors 'self'";

impl Asset {
    fn new(path: &'static str, media_type: &'static str, bytes: &'static [u8]) -> Asset {
        // FNV-1a: tells one build's file from another's, which is all that a validator of ours must do.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let gzipped = Coding::Gzip.encode_well(bytes);
        Asset { path, media_type, bytes, gzipped, brotli: OnceLock::new(), hash }
    }

    fn respond(&self, request: &Request) -> Response {
        let mut wanted = Coding::wanted(request, &[Coding::Brotli, Coding::Gzip]);
        if wanted == Some(Coding::Brotli) && self.brotli.get().is_none() {
            make_brotli();
            wanted = Coding::wanted(request, &[Coding::Gzip]);
        }
        let encoded = match wanted {
            Some(Coding::Brotli) => self.brotli.get(),
            Some(Coding::Gzip) => Some(&self.gzipped),
            None => None,
        };
        let response = match wanted.zip(encoded) {
            Some((coding, encoded)) => Response::ok(self.media_type, encoded.clone())
                .with_header("Content-Encoding", coding.name())
                .with_header("ETag", format!("\"{:016x}-{}\"", self.hash, coding.name())),
            None => Response::ok(self.media_type, self.bytes)
                .with_header("ETag", format!("\"{:016x}\"", self.hash)),
        };
        response
            .with_header("Vary", "Accept-Encoding")
            .with_header("Accept-Ranges", "bytes")
            .with_header("Cache-Control", "no-cache")
            .with_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
            .with_header("Referrer-Policy", "no-referrer")
    }
}

/// Has the files compressed by Brotli, once, on a thread of its own: a worker has no time for that. Who asks meanwhile
/// gets gzip.
fn make_brotli() {
    static ASKED: OnceLock<()> = OnceLock::new();
    if ASKED.set(()).is_err() {
        return;
    }
    let made = std::thread::Builder::new().name("brotli".into()).spawn(|| {
        for asset in ASSETS.iter() {
            asset.brotli.get_or_init(|| Coding::Brotli.encode_well(asset.bytes));
        }
    });
    if let Err(error) = made {
        tracing::warn!(%error, "no thread to compress the page's files; they are sent in gzip");
    }
}

/// Compresses the files by gzip, once, which the first request would have to wait for otherwise.
pub(super) fn prepare() {
    LazyLock::force(&ASSETS);
}

/// The file at the request's path. `/`, `/watch/NAME` and `/stream/NAME` are the same page, which looks at its own
/// address.
pub(super) fn serve(request: &Request) -> Option<Response> {
    let is_page =
        request.path == "/" || ["/watch/", "/stream/"].iter().any(|page| request.path.starts_with(page));
    let path = if is_page { "/index.html" } else { request.path.as_str() };
    Some(ASSETS.iter().find(|asset| asset.path == path)?.respond(request))
}
