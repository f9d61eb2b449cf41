//! The answers to every request that is not about a stream's bytes.

use super::access_log::AccessLog;
use super::{api, assets, insight, metrics};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_engine::relay::{Access, Hub, Site};
use std::net::IpAddr;

/// The page, the API and the metrics.
pub(super) struct PageSite {
    contact: Option<String>,
    access_log: Option<AccessLog>,
}

impl PageSite {
    pub(super) fn new(contact: Option<String>, access_log: Option<AccessLog>) -> PageSite {
        PageSite { contact, access_log }
    }

    fn read(&self, request: &Request, peer: IpAddr, hub: &Hub) -> Response {
        match request.path.as_str() {
            "/healthz" | "/readyz" => Response::ok("text/plain; charset=utf-8", "ok\n"),
            "/gen204" => Response::new(204).with_header("Cache-Control", "no-store"),
            "/metrics" => Response::ok(metrics::MEDIA_TYPE, metrics::exposition(hub)),
            "/api/time" => api::json(&api::time(hub)),
            "/api/streams" => api::json(&api::streams(hub, self.contact.as_deref())),
            "/api/clients" => insight::clients(request, peer, hub),
            path => {
                if let Some(name) = path.strip_prefix("/api/streams/") {
                    if let Some(name) = name.strip_suffix("/history") {
                        let found =
                            StreamName::parse(name).and_then(|name| insight::history(request, &name, hub));
                        return found.unwrap_or_else(no_stream);
                    }
                    let found = StreamName::parse(name).and_then(|name| hub.stream(&name));
                    return found.map_or_else(no_stream, |stream| api::json(&api::stream(&stream)));
                }
                assets::serve(request).unwrap_or_else(no_page)
            }
        }
    }
}

impl Site for PageSite {
    fn respond(&self, request: &Request, peer: IpAddr, hub: &Hub) -> Response {
        let response = match request.method {
            Method::Get | Method::Head => self.read(request, peer, hub),
            _ => problem(
                405,
                "method not allowed",
                "Read with GET; publish with PUT or POST to /live/NAME.ts.",
            )
            .with_header("Allow", "GET, HEAD, OPTIONS"),
        };
        response.with_header("X-Content-Type-Options", "nosniff")
    }

    fn logs_access(&self) -> bool {
        self.access_log.is_some()
    }

    fn log_access(&self, access: Access) {
        if let Some(log) = &self.access_log {
            log.log(&access);
        }
    }
}

fn no_stream() -> Response {
    problem(404, "no such stream", "No stream of this name is known. GET /api/streams lists those that are.")
}

fn no_page() -> Response {
    problem(
        404,
        "no such address",
        "The streams are at /, a player at /watch/NAME, a stream at /live/NAME.ts.",
    )
}
