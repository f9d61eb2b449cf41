//! The web page, embedded into the program: `web/dist` as it was built.

use bytes::Bytes;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Coding, Effort, Response};
use std::sync::{LazyLock, OnceLock};

struct Asset {
    path: &'static str,
    media_type: &'static str,
    bytes: &'static [u8],
    /// The file in gzip. Large files are compressed only after the first request that accepts compression.
    gzipped: OnceLock<Bytes>,
    /// The file in Brotli, made after the first request that accepts compression.
    brotli: OnceLock<Bytes>,
    /// Set by the first such request.
    asked: OnceLock<()>,
    hash: u64,
}

/// The page for each depth of its address, `/`, `/watch/NAME` and `/watch/NAME/`; links in it are relative to the
/// folder.
static PAGES: LazyLock<[Asset; 3]> = LazyLock::new(|| {
    ["./", "../", "../../"].map(|root| {
        let page = include_str!("../../../web/dist/index.html").replace("=\"./", &format!("=\"{root}"));
        Asset::new("/index.html", "text/html; charset=utf-8", page.leak().as_bytes())
    })
});

/// Larger files, which few viewers load, are not compressed when the program starts.
const LARGE_BYTES: usize = 512 << 10;

macro_rules! asset {
    ($path:literal, $media_type:literal) => {
        Asset::new($path, $media_type, include_bytes!(concat!("../../../web/dist", $path)))
    };
}

static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    vec![
        asset!("/assets/app.js", "text/javascript; charset=utf-8"),
        // Libraries for LL-HLS and LL-DASH, which the page loads when they are chosen.
        asset!("/assets/hls.js", "text/javascript; charset=utf-8"),
        asset!("/assets/dash.js", "text/javascript; charset=utf-8"),
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
        // FNV-1a: a validator only has to distinguish the file from that of another build.
        let hash = bytes.iter().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
            (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
        });
        let (gzipped, brotli, asked) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Asset { path, media_type, bytes, gzipped, brotli, asked, hash }
    }

    fn encoded(&self, coding: Coding) -> Option<&Bytes> {
        match coding {
            Coding::Brotli => self.brotli.get(),
            Coding::Gzip => self.gzipped.get(),
        }
    }

    /// Compresses the file once, on a thread of its own, since workers have no time for that. Requests that come
    /// meanwhile get what is ready.
    fn compress(&'static self) {
        if self.asked.set(()).is_err() {
            return;
        }
        let made = std::thread::Builder::new().name("compress".into()).spawn(move || {
            self.gzipped.get_or_init(|| Coding::Gzip.encode(self.bytes, Effort::Best));
            self.brotli.get_or_init(|| Coding::Brotli.encode(self.bytes, Effort::Best));
        });
        if let Err(error) = made {
            tracing::warn!(%error, path = self.path, "no thread to compress a file of the page");
        }
    }

    fn respond(&'static self, request: &Request) -> Response {
        if Coding::wanted(&request.headers, &Coding::ALL).is_some() {
            self.compress();
        }
        let made: Vec<_> = Coding::ALL.into_iter().filter(|coding| self.encoded(*coding).is_some()).collect();
        let wanted = Coding::wanted(&request.headers, &made);
        let response = match wanted.and_then(|coding| Some((coding, self.encoded(coding)?))) {
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

/// Whether a person reads the answer: browsers that open an address accept HTML.
pub(super) fn is_for_people(request: &Request) -> bool {
    request.headers.first("accept").is_some_and(|accept| accept.contains("text/html"))
}

/// The page at `/` if the list of streams is only for operators.
pub(super) fn closed_page(contact: Option<&str>) -> Response {
    let words =
        "The streams of this server are not listed here. Open the address that you were given for yours.";
    words_page(404, "/", "Live video is watched by its own address", words, contact)
}

/// A page of words alone, which is at `path`.
pub(super) fn words_page(
    status: u16,
    path: &str,
    heading: &str,
    words: &str,
    contact: Option<&str>,
) -> Response {
    let contact = contact.map_or_else(String::new, |contact| format!("<p>{}</p>", escaped(contact)));
    let (heading, words) = (escaped(heading), escaped(words));
    let root = match path.matches('/').count() {
        0 | 1 => "./".to_owned(),
        depth => "../".repeat(depth - 1),
    };
    let page = format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\" />\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\" /><title>Glassline</title>\
         <link rel=\"icon\" type=\"image/svg+xml\" href=\"{root}assets/favicon.svg\" />\
         <link rel=\"stylesheet\" href=\"{root}assets/app.css\" /></head>\
         <body><div class=\"page\"><div class=\"empty\"><h2>{heading}</h2>\
         <p>{words}</p>{contact}\
         </div></div></body></html>\n"
    );
    Response::new(status)
        .with_body("text/html; charset=utf-8", page)
        .with_header("Content-Security-Policy", CONTENT_SECURITY_POLICY)
        .with_header("Cache-Control", "no-cache")
        .with_header("Vary", "Accept")
}

/// Text as it stands in HTML.
fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

/// Compresses the page's own small files with gzip, so that they are ready for the first request.
pub(super) fn prepare() {
    for asset in ASSETS.iter().chain(&*PAGES).filter(|asset| asset.bytes.len() <= LARGE_BYTES) {
        asset.gzipped.get_or_init(|| Coding::Gzip.encode(asset.bytes, Effort::Best));
    }
}

/// The file at the request's path. `/`, `/cluster`, `/watch/NAME`, `/stream/NAME`, `/event/NAME` and `/crew/NAME` are the same page, which
/// looks at its own address, and finds all others by that of its script.
pub(super) fn serve(request: &Request) -> Option<Response> {
    let path = request.path.as_str();
    let pages = ["/watch/", "/stream/", "/event/", "/crew/"];
    let is_named = pages.iter().any(|page| path.starts_with(page));
    if is_named || matches!(path, "/" | "/index.html" | "/cluster") {
        let depth = path.matches('/').count().checked_sub(1)?;
        return Some(PAGES.get(depth)?.respond(request));
    }
    Some(ASSETS.iter().find(|asset| asset.path == path)?.respond(request))
}
