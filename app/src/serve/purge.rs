//! Lets operators remove objects from an edge: `POST /api/purge?path=/live/a/1.m4s` and
//! `POST /api/purge?prefix=/live/a/`.

use super::answers::{json, refused};
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_relay::{Hub, ListenerRole};
use serde::Serialize;
use std::net::IpAddr;

pub(super) const PATH: &str = "/api/purge";

#[derive(Serialize)]
struct Purged {
    /// Objects that were in memory. Those on the disk are removed from now on.
    purged: usize,
}

/// Executes the request.
pub(super) fn act(request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
    if let Err(refusal) = hub.is_operator(door, peer, request) {
        let words = "An edge is purged on the admin listener or, if there is none, from the server's own machine and from the \
                     [admin] networks of its configuration.";
        return refused(refusal, "may not purge", words);
    }
    let (path, is_prefix) = match (request.parameter("path"), request.parameter("prefix")) {
        (Some(path), None) => (path, false),
        (None, Some(prefix)) => (prefix, true),
        _ => {
            let words =
                "Say what: ?path=/live/a/1.m4s (with any query), or ?prefix=/live/a/ for all below it.";
            return problem(400, "nothing to purge is named", words);
        }
    };
    let Some(edge) = hub.edge() else {
        return problem(
            409,
            "no edge",
            "This server has no [upstream] servers, and keeps nothing of theirs.",
        );
    };
    match edge.purge(&path, is_prefix) {
        Some(purged) => {
            tracing::info!(%peer, path, is_prefix, purged, "objects of upstream servers were purged");
            json(&Purged { purged })
        }
        None => {
            problem(400, "no such path", "A path begins with a slash and has no query, as in /live/a/1.m4s.")
        }
    }
}
