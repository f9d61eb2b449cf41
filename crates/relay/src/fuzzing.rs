//! What fuzz targets and the test of their corpus want of the hand-over: a process that takes over what a message says,
//! and leaves it to the next one at once. Nothing else calls it, and the linker leaves it out of programs.

use super::handover::{self, HandoverError, Inherited};
use super::tls_ends::Pair;
use super::{Hub, ListenerRole, Pull, Settings, Site};
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::StreamName;
use glassline_delivery::pull::Source;
use std::net::IpAddr;
use std::os::fd::AsFd;
use std::sync::Arc;

/// Descriptors that come with a message at most, whatever it says.
const DESCRIPTORS_MAX: usize = 64;

/// A site without pages.
struct Nothing;

impl Site for Nothing {
    fn respond(&self, _request: &Request, _door: ListenerRole, _peer: IpAddr, _hub: &Hub) -> Response {
        Response::new(404)
    }
}

/// What a server of two workers, which pulls `http://127.0.0.1:9/pulled.ts` and listens nowhere, leaves to the next one
/// when it has taken over what `message` says, with sockets for all descriptors.
///
/// # Errors
/// Where it cannot take over.
pub fn passed_on(message: &[u8]) -> Result<Vec<u8>, HandoverError> {
    let pulled = Source::parse("http://127.0.0.1:9/pulled.ts").ok().zip(StreamName::parse("pulled"));
    let pulls = pulled.map(|(source, name)| Pull {
        name,
        source,
        alternates: Vec::new(),
        mux: None,
        ca: None,
        via: None,
        renewed: 0,
    });
    let settings = Settings {
        listen: Vec::new(),
        workers: 2,
        pulls: pulls.into_iter().collect(),
        ..Settings::default()
    };
    let pair = Pair::new()?;
    let count = handover::descriptor_count(message)?.min(DESCRIPTORS_MAX);
    let copies = (0..count).map(|_| pair.ours.as_fd().try_clone_to_owned());
    let descriptors = copies.collect::<Result<Vec<_>, _>>()?;
    let Inherited { hub, threads, .. } =
        handover::unpack(settings.clone(), Arc::new(Nothing), settings.workers, message, descriptors)?;
    let mut left = Vec::new();
    handover::pack(&hub, &threads, |bytes, _| {
        left = bytes.to_vec();
        Ok(())
    })?;
    Ok(left)
}
