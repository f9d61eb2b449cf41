//! The answers to every request that is not about a stream's bytes.

use super::access_log::AccessLog;
use super::encoders::Encoders;
use super::{api, assets, control, encoding, insight, metrics};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_engine::relay::{Access, Door, Hub, Site};
use std::net::IpAddr;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

/// The page, the API and the metrics.
pub(super) struct PageSite {
    arrangement: RwLock<Arrangement>,
    encoders: Arc<Encoders>,
}

/// What a reload may change.
#[derive(Default)]
pub(super) struct Arrangement {
    pub(super) contact: Option<String>,
    pub(super) access_log: Option<AccessLog>,
}

impl PageSite {
    pub(super) fn new(arrangement: Arrangement, encoders: Arc<Encoders>) -> PageSite {
        assets::prepare();
        PageSite { arrangement: RwLock::new(arrangement), encoders }
    }

    /// Takes another arrangement. The last access log is written to its end.
    pub(super) fn rearrange(&self, arrangement: Arrangement) {
        let mut now = self.arrangement.write().unwrap_or_else(PoisonError::into_inner);
        let former = std::mem::replace(&mut *now, arrangement);
        drop(now);
        drop(former);
    }

    fn now(&self) -> RwLockReadGuard<'_, Arrangement> {
        self.arrangement.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn read(&self, request: &Request, door: Door, peer: IpAddr, hub: &Hub) -> Response {
        if door == Door::Public && is_the_crews(&request.path) {
            return not_here();
        }
        match request.path.as_str() {
            "/healthz" | "/readyz" => Response::ok("text/plain; charset=utf-8", "ok\n"),
            "/gen204" => Response::new(204).with_header("Cache-Control", "no-store"),
            "/metrics" => {
                Response::ok(metrics::MEDIA_TYPE, metrics::exposition(hub, &self.encoders.report()))
            }
            "/api/time" => api::json(&api::time(hub)),
            "/api/contact" => api::json(&api::Contact { contact: self.now().contact.as_deref() }),
            "/api/streams" => api::json(&api::streams(hub, self.now().contact.as_deref())),
            "/api/clients" => insight::clients(request, door, peer, hub),
            "/api/encoders" => api::json(&self.encoders.report()),
            path => {
                if let Some(name) = path.strip_prefix("/api/streams/") {
                    if let Some(name) = name.strip_suffix("/history") {
                        let found =
                            StreamName::parse(name).and_then(|name| insight::history(request, &name, hub));
                        return found.unwrap_or_else(no_stream);
                    }
                    if control::is_action(path) {
                        return control::post_alone();
                    }
                    let found = StreamName::parse(name).and_then(|name| api::stream_named(hub, &name, door));
                    return found.map_or_else(no_stream, |stream| api::json(&stream));
                }
                assets::serve(request).unwrap_or_else(no_page)
            }
        }
    }
}

impl Site for PageSite {
    fn respond(&self, request: &Request, door: Door, peer: IpAddr, hub: &Hub) -> Response {
        let response = match request.method {
            Method::Get | Method::Head => self.read(request, door, peer, hub),
            Method::Post if control::is_action(&request.path) => match door {
                Door::Public if is_the_crews(&request.path) => not_here(),
                _ => control::act(request, door, peer, hub, &self.encoders),
            },
            _ => problem(
                405,
                "method not allowed",
                "Read with GET; publish with PUT or POST to /live/NAME.ts.",
            )
            .with_header("Allow", "GET, HEAD, OPTIONS"),
        };
        let response = encoding::encoded(response, request).for_request(request);
        response.with_header("X-Content-Type-Options", "nosniff")
    }

    fn logs_access(&self) -> bool {
        self.now().access_log.is_some()
    }

    fn log_access(&self, access: Access) {
        if let Some(log) = &self.now().access_log {
            log.log(&access);
        }
    }
}

/// Whether what is at `path` concerns the crew alone. Viewers need a stream's page, what the page asks about that
/// stream, the server's clock, how to reach the crew, and `/gen204`; what is new is the crew's until it is named here.
fn is_the_crews(path: &str) -> bool {
    match path {
        "/" | "/index.html" | "/metrics" | "/healthz" | "/readyz" => true,
        "/api/time" | "/api/contact" => false,
        path if path.starts_with("/stream/") => true,
        path => match path.strip_prefix("/api/streams/") {
            Some(name) => StreamName::parse(name).is_none(),
            None => path.starts_with("/api"),
        },
    }
}

fn not_here() -> Response {
    problem(
        404,
        "not at this address",
        "The list of streams, API, metrics and probes are on the admin listener; a player is at /watch/NAME.",
    )
}

pub(super) fn no_stream() -> Response {
    problem(404, "no such stream", "No stream of this name is known. GET /api/streams lists those that are.")
}

fn no_page() -> Response {
    problem(
        404,
        "no such address",
        "The streams are at /, a player at /watch/NAME, a stream at /live/NAME.ts.",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn viewers_get_the_player_and_what_it_asks() {
        for path in ["/watch/a", "/assets/app.js", "/api/time", "/api/contact", "/api/streams/a", "/gen204"] {
            assert!(!is_the_crews(path), "{path}");
        }
        for path in [
            "/",
            "/metrics",
            "/healthz",
            "/api/streams",
            "/api/streams/",
            "/api/streams/a/b",
            "/api/new",
            "/api/clients",
            "/api/encoders",
            "/api/streams/a/keyframe",
            "/api/streams/a/bitrate",
            "/stream/a",
        ] {
            assert!(is_the_crews(path), "{path}");
        }
    }
}
