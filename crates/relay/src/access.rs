//! What an access log is told of an exchange that is over.

use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Version};
use glassline_edge::ObjectSource;
use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::time::Duration;

/// An exchange that is over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Access {
    /// The client's address.
    pub peer: IpAddr,
    /// What was asked: a method of HTTP; `PUBLISH` or `WATCH` at other doors.
    pub verb: &'static str,
    /// The path, without the query: that may hold keys and tokens.
    pub path: String,
    /// The protocol, with its version where that is HTTP's.
    pub protocol: String,
    /// What was answered; 499 where the peer was gone before there was an answer.
    pub status: u16,
    /// Bytes of the body: what a viewer was sent, or a publisher has sent.
    pub bytes: u64,
    /// How long it took, from the request's head to its end.
    pub took: Duration,
    /// What the peer calls itself.
    pub user_agent: Option<String>,
    /// Of an object that may have been waited for: where it came from, and how long its first byte took.
    pub object: Option<(ObjectSource, Duration)>,
}

/// The peer was gone before there was an answer; nginx's number, no standard has one.
pub(super) const GONE: u16 = 499;

/// An exchange that is not over, by its request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct OpenRequest {
    method: Method,
    path: String,
    version: Version,
    user_agent: Option<String>,
    since: Time,
    /// See [`Access::object`]; processes do not tell each other.
    #[serde(skip)]
    object: Option<(ObjectSource, Duration)>,
}

impl OpenRequest {
    pub(super) fn new(request: &Request, now: Time) -> OpenRequest {
        OpenRequest {
            method: request.method,
            path: request.path.clone(),
            version: request.version,
            user_agent: request.headers.first("user-agent").map(str::to_owned),
            since: now,
            object: None,
        }
    }

    /// The first byte of an object was there after `wait`.
    pub(super) fn first_byte(&mut self, source: ObjectSource, wait: Duration) {
        self.object = Some((source, wait));
    }

    pub(super) fn over(self, peer: IpAddr, status: u16, bytes: u64, now: Time) -> Access {
        let OpenRequest { method, path, version, user_agent, since, object } = self;
        let protocol = if version == Version::Http11 { "HTTP/1.1" } else { "HTTP/1.0" };
        let (verb, protocol, took) = (method.name(), protocol.to_owned(), now.since(since));
        Access { peer, verb, path, protocol, status, bytes, took, user_agent, object }
    }
}

#[cfg(test)]
#[path = "access_tests.rs"]
mod tests;
