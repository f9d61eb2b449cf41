//! The part of a server in a cluster: begun and ended as the configuration says, and told of at `/api/cluster` and in `/metrics`.

use super::answers::{json, refused};
use crate::config::Cluster;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
use glassline_delivery::ownership::HOPS_MAX;
use glassline_relay::{Hub, ListenerRole, Pulled};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

#[cfg(feature = "cluster")]
use glassline_cluster::{Cluster as Running, Status};
#[cfg(not(feature = "cluster"))]
use without::Status;

/// See the module.
#[derive(Default)]
pub(super) struct Membership {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// What it was begun with.
    begun: Option<Cluster>,
    #[cfg(feature = "cluster")]
    running: Option<Running>,
    /// What the cluster asks of this server; the cluster itself does not keep it.
    #[cfg(feature = "cluster")]
    server: Option<Arc<dyn glassline_cluster::Server>>,
}

/// Streams that the configuration places at another server.
#[derive(Serialize)]
struct StaticPlace {
    /// A name, or what names begin with and a `*`.
    pattern: String,
    server: String,
}

/// `GET /api/cluster`.
#[derive(Serialize)]
pub(super) struct Report {
    #[serde(rename = "static")]
    places: Vec<StaticPlace>,
    #[serde(flatten)]
    status: Option<Status>,
    /// From which server each stream is pulled here.
    pulled: Vec<Pulled>,
    drain: Drain,
}

/// How far this server is emptied.
#[derive(Serialize)]
struct Drain {
    draining: bool,
    /// Viewers over HTTP of streams, other servers among them.
    viewers: u64,
    /// Streams that have their publisher here.
    publishers: usize,
    /// Streams that are pulled from other servers.
    pulls: usize,
}

impl Drain {
    fn of(hub: &Hub) -> Drain {
        Drain {
            draining: hub.is_draining(),
            viewers: hub.viewers(),
            publishers: hub.own_publishers().len(),
            pulls: hub.pulled().len(),
        }
    }
}

/// The path by which operators have the server emptied.
pub(super) const DRAIN: &str = "/api/cluster/drain";

impl Membership {
    /// `POST` and `DELETE` of [`DRAIN`].
    pub(super) fn act(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response {
        if let Err(refusal) = hub.is_operator(door, peer, request) {
            let words = "A server is emptied from its own machine, from the [admin] networks of its configuration, or by its admin listener.";
            return refused(refusal, "may not empty the server", words);
        }
        let drains = match request.method {
            Method::Post => true,
            Method::Delete => false,
            _ => {
                let words = "Empty the server with POST; DELETE undoes it.";
                return problem(405, "method not allowed", words)
                    .with_header("Allow", "POST, DELETE, OPTIONS");
            }
        };
        if drains && self.status().is_none() {
            let words = "It is not one of several that find each other by [cluster] nats: what comes would have no other place.";
            return problem(409, "this server is alone", words);
        }
        hub.drain(drains);
        tracing::info!(%peer, drains, "the server is told to be emptied, or not any more");
        json(&Drain::of(hub))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part as `config` says, in nothing where it names no NATS. What is so already goes on.
    pub(super) fn arrange(&self, config: &Cluster, hub: &Arc<Hub>) {
        let wanted = Some(config).filter(|config| !config.nats.is_empty());
        let mut state = self.lock();
        // The map is the relay's own business.
        let is_like = |begun: &Cluster, wanted: &Cluster| {
            Cluster { places: wanted.places.clone(), ca: wanted.ca.clone(), ..begun.clone() } == *wanted
        };
        match (&state.begun, wanted) {
            (None, None) => return,
            (Some(begun), Some(wanted)) if is_like(begun, wanted) => return,
            _ => {}
        }
        hub.set_directory(None);
        let former = std::mem::take(&mut *state);
        if let Some(config) = wanted {
            state.begun = Some(config.clone());
            // The former one takes leave first: it may have the same name.
            drop(former);
            state.start(config, hub);
        }
    }

    /// Another process goes on under the name of this one: the others are told nothing.
    pub(super) fn pause(&self, hub: &Hub) {
        let mut state = self.lock();
        #[cfg(feature = "cluster")]
        state.running.take().into_iter().for_each(Running::pause);
        hub.set_directory(None);
        *state = State::default();
    }

    /// The server ends, which the others are told.
    pub(super) fn end(&self, hub: &Hub) {
        let former = std::mem::take(&mut *self.lock());
        hub.set_directory(None);
        // Others may look at the state while this one takes leave.
        drop(former);
    }

    fn status(&self) -> Option<Status> {
        #[cfg(feature = "cluster")]
        return self.lock().running.as_ref().map(|running| running.member().status());
        #[cfg(not(feature = "cluster"))]
        return None;
    }

    /// What there is to tell operators.
    pub(super) fn report(&self, hub: &Hub) -> Report {
        let directory = hub.places();
        let places =
            directory.entries().map(|(pattern, server)| StaticPlace { pattern, server: server.to_string() });
        Report {
            places: places.collect(),
            status: self.status(),
            drain: Drain::of(hub),
            pulled: hub.pulled(),
        }
    }

    /// Adds its metrics to those of the server.
    pub(super) fn expose(&self, hub: &Hub, text: &mut String) {
        let Some(status) = self.status() else { return };
        expose(&status, text);
        expose_pulls(hub, text);
    }
}

/// What is pulled from other servers, and why some of them were passed over.
fn expose_pulls(hub: &Hub, text: &mut String) {
    use std::fmt::Write as _;
    let pulled = hub.pulled();
    let name = "glassline_cluster_streams_pulled";
    let _ = write!(
        text,
        "# HELP {name} Streams that come from other servers, by how many of those they have passed.\n# TYPE {name} gauge\n"
    );
    for hops in 1..=HOPS_MAX {
        let count = pulled.iter().filter(|pulled| pulled.hops == Some(hops)).count();
        let _ = writeln!(text, "{name}{{hops=\"{hops}\"}} {count}");
    }
    let name = "glassline_cluster_passed_over_total";
    let _ = write!(
        text,
        "# HELP {name} Times that a server which carries a stream gave nothing of it, so that the one with its publisher was asked.\n\
         # TYPE {name} counter\n"
    );
    for (reason, count) in hub.passed_over() {
        let _ = writeln!(text, "{name}{{reason=\"{reason}\"}} {count}");
    }
}

#[cfg(not(feature = "cluster"))]
fn expose(_status: &Status, _text: &mut String) {}

#[cfg(feature = "cluster")]
fn expose(status: &Status, text: &mut String) {
    use std::fmt::Write as _;
    let registry = &status.registry;
    let live = |own: bool| {
        let of_node = |node: &str| (node == status.node) == own;
        status.streams.iter().filter(|stream| stream.live && of_node(&stream.node)).count() as u64
    };
    let alive = status.nodes.iter().filter(|node| node.alive).count() as u64;
    let unread = status.unread.len() as u64;
    for (name, kind, help, value) in [
        ("up", "gauge", "Whether the cluster's registry is heard.", u64::from(registry.heard)),
        ("sessions_total", "counter", "Connections to the registry that stood.", registry.sessions),
        ("nodes", "gauge", "Servers of the cluster that are alive.", alive),
        (
            "streams_here",
            "gauge",
            "Live streams of the cluster that have their publisher at this server.",
            live(true),
        ),
        (
            "streams_elsewhere",
            "gauge",
            "Live streams of the cluster that have it at another one.",
            live(false),
        ),
        ("claims_total", "counter", "Streams that the registry has given this server.", registry.claims),
        ("lost_total", "counter", "Streams of this server that went to another one.", registry.lost),
        ("conflicts_total", "counter", "Claims of this server that came too late.", registry.conflicts),
        ("requests_failed_total", "counter", "Requests to the registry that failed.", registry.failed),
        ("entries_unread", "gauge", "Streams with an entry that this version does not read.", unread),
        (
            "entries_dropped_total",
            "counter",
            "Entries of others in the registry that were passed over.",
            registry.dropped,
        ),
    ] {
        let _ =
            write!(text, "# HELP glassline_cluster_{name} {help}\n# TYPE glassline_cluster_{name} {kind}\n");
        let _ = writeln!(text, "glassline_cluster_{name} {value}");
    }
}

#[cfg(not(feature = "cluster"))]
impl State {
    // The configuration refuses it before.
    fn start(&mut self, _config: &Cluster, _hub: &Arc<Hub>) {}
}

#[cfg(feature = "cluster")]
impl State {
    fn start(&mut self, config: &Cluster, hub: &Arc<Hub>) {
        let node = config.node.as_deref().and_then(glassline_cluster::NodeName::parse);
        let (Some(node), Some(address)) = (node, config.address.clone()) else { return };
        let settings = glassline_cluster::Settings {
            servers: config.nats.clone(),
            credentials: config.credentials_file.clone(),
            ca: config.nats_ca.clone(),
            bucket: config.bucket.clone(),
            replicas: config.replicas,
            node,
            address,
            public: config.public_address(),
            zone: config.zone.clone(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
        };
        let server = Arc::new(Here(Arc::clone(hub))) as Arc<dyn glassline_cluster::Server>;
        match Running::start(settings, Arc::downgrade(&server), hub.clock()) {
            Ok(running) => {
                hub.set_directory(Some(Arc::clone(running.member()) as _));
                (self.running, self.server) = (Some(running), Some(server));
            }
            Err(error) => {
                tracing::error!(%error, "this server takes no part in the cluster: its thread cannot be started");
            }
        }
    }
}

/// This server, as its cluster sees it.
#[cfg(feature = "cluster")]
struct Here(Arc<Hub>);

#[cfg(feature = "cluster")]
impl glassline_cluster::Server for Here {
    fn publishers(&self) -> Vec<glassline_delivery::policy::StreamName> {
        self.0.own_publishers()
    }

    fn viewers(&self) -> u64 {
        self.0.viewers()
    }

    fn is_draining(&self) -> bool {
        self.0.is_draining()
    }

    fn carried(
        &self,
    ) -> std::collections::BTreeMap<glassline_delivery::policy::StreamName, glassline_cluster::Carried> {
        self.0.carried()
    }

    fn give_up(&self, name: &glassline_delivery::policy::StreamName) {
        self.0.give_up(name);
    }

    fn follow(&self, name: &glassline_delivery::policy::StreamName) {
        self.0.follow_stream(name);
    }
}

/// A program that was built without it.
#[cfg(not(feature = "cluster"))]
mod without {
    /// There is none.
    #[derive(serde::Serialize)]
    pub(super) enum Status {}
}
