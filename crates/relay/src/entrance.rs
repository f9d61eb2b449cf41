//! The rules and limits that other doors than the workers' let clients in by.

use crate::access::Access;
use crate::hub::Hub;
use glassline_delivery::fill::Via;
use glassline_delivery::http1::Url;
use glassline_delivery::policy::{AccessRequest, Action, Full, Load, Refusal, Secret, StreamName};
use glassline_delivery::stream::Mux;
use glassline_doors::entrance::{Arriving, Entrance, PublishLimits, Visit};
use glassline_edge::Growing;
use glassline_io::tls::{Session, TlsError};
use glassline_streams::presence::Presence;
use glassline_streams::{Live, Whereabouts};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// A stream that requests wait for.
struct Fetched(Arc<Growing>);

impl Arriving for Fetched {
    fn has_failed(&self) -> bool {
        self.0.look(|object| object.is_over())
    }
}

impl Entrance for Hub {
    fn check(&self, asked: &AccessRequest<'_>) -> Result<(), Refusal> {
        self.settings().rules.check(asked, self.clock.utc())
    }

    fn check_load(&self, live: &Live, of_address: Load, in_all: Load, bps: u64) -> Result<(), Full> {
        self.settings().rules.of(&live.name).watch.check_load(live.viewers(), of_address, in_all, bps)
    }

    fn publish_limits(&self, name: &StreamName) -> PublishLimits {
        let settings = self.settings();
        PublishLimits {
            max_per_address: settings.max_publishers_per_address,
            max_bps: settings.rules.of(name).max_publish_bps,
            silence_timeout: settings.silence_timeout,
        }
    }

    fn make_way(&self, name: &StreamName, take_over: bool) -> bool {
        self.ingests.make_way(name, take_over, self, self.clock.now())
    }

    fn fetch(&self, name: &StreamName) -> Option<Arc<dyn Arriving>> {
        // What is served elsewhere while this server is emptied is not fetched here first.
        if matches!(self.whereabouts(name), Whereabouts::Away { .. }) || self.refuge_of(name, false).is_some()
        {
            return None;
        }
        let begins = self.demand(name, Mux::MpegTs, &Via::default(), self.clock.now())?;
        Some(Arc::new(Fetched(begins)))
    }

    fn refuge(&self, name: &StreamName) -> Option<Url> {
        // A client of these protocols is told in words alone.
        let refuge = self.refuge_of(name, false)?;
        self.draining.viewers_refused.fetch_add(1, Ordering::Relaxed);
        Some(refuge)
    }

    fn presence(&self) -> &Presence {
        &self.presence
    }

    fn accept_tls(&self) -> Result<Session, TlsError> {
        self.certificates.accept()
    }

    fn key(&self, name: &StreamName, action: Action) -> Option<Secret> {
        let settings = self.settings();
        let rules = settings.rules.of(name);
        match action {
            Action::Publish => rules.publish.key.clone(),
            Action::Watch => rules.watch.key.clone(),
        }
    }

    fn log(&self, visit: Visit) {
        let Visit { peer, name, action, protocol, status, bytes, took, program } = visit;
        let verb = match action {
            Action::Publish => "PUBLISH",
            Action::Watch => "WATCH",
        };
        let (path, protocol) = (format!("/live/{name}"), protocol.to_string().to_uppercase());
        let user_agent = program;
        self.log_access(Access { peer, verb, path, protocol, status, bytes, took, user_agent, object: None });
    }
}

#[cfg(test)]
#[path = "entrance_tests.rs"]
mod tests;
