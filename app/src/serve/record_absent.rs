//! In place of recordings, in a program that was built without them: the configuration refuses to name a store.

use super::exposition::Exposition;
use crate::config::Config;
use anyhow::Result;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Response, problem};
use glassline_delivery::policy::StreamName;
use glassline_relay::{Hub, ListenerRole};
use serde::Serialize;
use std::net::IpAddr;

/// Before the name of a recording.
pub(super) const FOLDER: &str = "/api/recordings/";

/// What recordings take of memory.
pub(super) fn memory_bytes(_config: &Config) -> u64 {
    0
}

/// Records nothing.
pub(super) struct Recording;

impl Recording {
    pub(super) fn start(_config: &Config) -> Result<Recording> {
        Ok(Recording)
    }

    pub(super) fn attach(&self, _hub: &Hub) {}

    pub(super) fn configure(&self, _config: &Config) {}

    pub(super) fn release(&self) {}

    pub(super) fn end(&self) {}

    pub(super) fn list(&self, _may_know: impl Fn(&StreamName) -> bool, _may_clip: bool) -> impl Serialize {
        [(); 0]
    }

    pub(super) fn act(&self, _request: &Request, _door: ListenerRole, _peer: IpAddr, _hub: &Hub) -> Response {
        problem(404, "no recordings", "This program was built without recordings.")
    }

    pub(super) fn expose(&self, _text: &mut Exposition) {}
}
