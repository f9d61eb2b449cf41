//! The part of a server in a cluster: begun and ended as the configuration says, and told of at `/api/cluster` and in `/metrics`.

use super::answers::{json, refused};
use crate::config::Cluster;
use glassline_delivery::http1::server::Request;
use glassline_delivery::http1::{Method, Response, problem};
#[cfg(feature = "cluster")]
use glassline_delivery::ownership::HOPS_MAX;
use glassline_media::quantity::parse_duration;
#[cfg(feature = "cluster")]
use glassline_relay::DrainCounts;
use glassline_relay::{Hub, ListenerRole, Pulled};
use serde::Serialize;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[cfg(feature = "cluster")]
use glassline_cluster::{Cluster as Running, Figures, Member, Status};
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
    /// Viewers of streams, over any protocol, other servers among them.
    viewers: u64,
    /// Streams that have their publisher here.
    publishers: usize,
    /// Streams that are pulled from other servers.
    pulls: usize,
    /// Addresses of players that have read a playlist or manifest here in the last 30 seconds, and were mostly sent elsewhere.
    players: usize,
}

impl Drain {
    fn of(hub: &Hub) -> Drain {
        Drain {
            draining: hub.is_draining(),
            viewers: hub.viewers(),
            publishers: hub.own_publishers().len(),
            pulls: hub.pulled().len(),
            players: hub.drain_counts().players,
        }
    }
}

/// Running viewers are sent on within this time, where nothing else is said.
const DRAIN_OVER: Duration = Duration::from_secs(10);
/// The longest such time.
const DRAIN_OVER_MAX: Duration = Duration::from_secs(3600);

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
        let over = match request.parameter("over").as_deref().map(parse_duration) {
            None => DRAIN_OVER,
            Some(Ok(over)) if over <= DRAIN_OVER_MAX => over,
            Some(_) => {
                let words = "Ask for ?over=TIME, from 0s to 1h, as in ?over=30s: running viewers are sent on in that time.";
                return problem(400, "bad over", words);
            }
        };
        hub.drain(drains.then_some(over));
        tracing::info!(%peer, drains, ?over, "the server is told to be emptied, or not any more");
        json(&Drain::of(hub))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes part as `config` says, in nothing where it names no NATS. What is so already goes on. One thread alone calls this.
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
        let former = std::mem::take(&mut *state);
        // Workers look at the state, and the former one may take a while to leave. It goes before the next begins, which may have the same
        // name. Until then streams are found by what it has heard: a player takes "not found" for the end.
        drop(state);
        // Where the next one takes its place, the others are not told that its streams have ended.
        let is_same = |begun: &Cluster, wanted: &Cluster| {
            begun.node == wanted.node && begun.bucket == wanted.bucket && begun.nats == wanted.nats
        };
        let goes_on = former.begun.as_ref().zip(wanted).is_some_and(|(begun, wanted)| is_same(begun, wanted));
        former.end(goes_on);
        let Some(config) = wanted else { return hub.set_directory(None) };
        let begun = State::start(config, hub);
        if begun.begun.is_none() {
            hub.set_directory(None);
        }
        *self.lock() = begun;
    }

    /// Another process goes on under the name of this one: the others are told nothing. Until it does, streams are found by what was heard
    /// last.
    pub(super) fn pause(&self) {
        let former = std::mem::take(&mut *self.lock());
        former.end(true);
    }

    /// The server ends, which the others are told.
    pub(super) fn end(&self) {
        let former = std::mem::take(&mut *self.lock());
        // Others may look at the state while this one takes leave.
        former.end(false);
    }

    /// What is known of the cluster is told of without the state's lock.
    #[cfg(feature = "cluster")]
    fn member(&self) -> Option<Arc<Member>> {
        self.lock().running.as_ref().map(|running| Arc::clone(running.member()))
    }

    fn status(&self) -> Option<Status> {
        #[cfg(feature = "cluster")]
        return self.member().map(|member| member.status());
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
        #[cfg(feature = "cluster")]
        if let Some(member) = self.member() {
            expose(&member.figures(), text);
            expose_pulls(hub, text);
            expose_drain(hub, text);
        }
        #[cfg(not(feature = "cluster"))]
        let _ = (self, hub, text);
    }
}

/// Whether the server is emptied, and what was sent elsewhere.
#[cfg(feature = "cluster")]
fn expose_drain(hub: &Hub, text: &mut String) {
    use std::fmt::Write as _;
    let counts = hub.drain_counts();
    let DrainCounts { publishers_sent, viewers_sent, viewers_ended, .. } = counts;
    let name = "glassline_cluster_draining";
    let _ = write!(text, "# HELP {name} Whether this server is emptied.\n# TYPE {name} gauge\n");
    let _ = writeln!(text, "{name} {}", u8::from(hub.is_draining()));
    let name = "glassline_cluster_sent_on_total";
    let _ = write!(
        text,
        "# HELP {name} Publishers and requests of viewers that were answered by the address of another server, and responses to viewers that \
         were ended for that.\n# TYPE {name} counter\n"
    );
    for (what, count) in [
        ("publisher", publishers_sent),
        ("viewer", viewers_sent),
        ("running_viewer", viewers_ended),
        ("refused_publisher", counts.publishers_refused),
        ("refused_viewer", counts.viewers_refused),
    ] {
        let _ = writeln!(text, "{name}{{what=\"{what}\"}} {count}");
    }
}

/// What is pulled from other servers, and why some of them were passed over.
#[cfg(feature = "cluster")]
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

#[cfg(feature = "cluster")]
fn expose(figures: &Figures, text: &mut String) {
    use std::fmt::Write as _;
    let registry = &figures.registry;
    for (name, kind, help, value) in [
        ("up", "gauge", "Whether the cluster's registry is heard.", u64::from(registry.heard)),
        ("sessions_total", "counter", "Connections to the registry that stood.", registry.sessions),
        ("nodes", "gauge", "Servers of the cluster that are alive.", figures.nodes_alive),
        (
            "streams_here",
            "gauge",
            "Live streams of the cluster that have their publisher at this server.",
            figures.streams_here,
        ),
        (
            "streams_elsewhere",
            "gauge",
            "Live streams of the cluster that have it at another one.",
            figures.streams_elsewhere,
        ),
        ("claims_total", "counter", "Streams that the registry has given this server.", registry.claims),
        ("lost_total", "counter", "Streams of this server that went to another one.", registry.lost),
        ("conflicts_total", "counter", "Claims of this server that came too late.", registry.conflicts),
        ("requests_failed_total", "counter", "Requests to the registry that failed.", registry.failed),
        (
            "entries_unread",
            "gauge",
            "Streams with an entry that this version does not read.",
            figures.entries_unread,
        ),
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
    fn start(_config: &Cluster, _hub: &Arc<Hub>) -> State {
        State::default()
    }

    fn end(self, _goes_on: bool) {}
}

#[cfg(feature = "cluster")]
impl State {
    /// Begins as `config` says. What has not begun is not noted as begun, so that the next reload tries again.
    fn start(config: &Cluster, hub: &Arc<Hub>) -> State {
        let node = config.node.as_deref().and_then(glassline_cluster::NodeName::parse);
        let (Some(node), Some(address)) = (node, config.address.clone()) else { return State::default() };
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
                State { begun: Some(config.clone()), running: Some(running), server: Some(server) }
            }
            Err(error) => {
                tracing::error!(%error, "this server takes no part in the cluster: its thread cannot be started");
                State::default()
            }
        }
    }

    /// Ends it. The others are told that this server leaves, unless it `goes_on`: another part of the same name begins.
    fn end(self, goes_on: bool) {
        let State { running, server, .. } = self;
        match running {
            Some(running) if goes_on => running.pause(),
            running => drop(running),
        }
        // Its thread, which asks for this, has ended.
        drop(server);
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
