//! The relay: publishers put streams in, viewers take them out.
//!
//! One worker thread a core, each with its own listening sockets (`SO_REUSEPORT`), its own epoll and its own
//! connections; a connection stays on its worker. A publisher's bytes are appended once to the stream's spool
//! by whichever worker (or thread of this process) they came to; that wakes each worker that has viewers of
//! the stream once, and the worker sends to each of them with `sendfile`, another one first each time.
//!
//! ```text
//! publisher ─► worker ─► delivery::http1 ─► Live: delivery::stream + io::spool ─┬─► worker 0 ─► viewers
//!              (or Publisher, from a thread of this process)                    └─► worker 1 ─► viewers
//! ```
//! Streams that are [pulled](Pull) come through a thread of their own, which is such a publisher.
//!
//! The data path takes one lock, the stream's own, once for each run of bytes that a publisher sends; viewers
//! take it only when they join and when they are moved forward.

mod access;
mod blocks;
mod connection;
mod fan_out;
mod hub;
mod live;
mod outgoing;
mod presence;
mod publish;
mod pull;
mod roster;
mod status;
mod telemetry;
mod viewer;
mod worker;

pub use access::Access;
pub use hub::Hub;
pub use live::PushError;
pub use publish::{ClaimError, Publisher};
pub use pull::{Pull, SourceState, SourceStatus};
pub use roster::{Client, Clients, WhyCounts};
pub use status::{StreamStatus, Totals};

use glassline_delivery::http1::Limits;
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::{PublishPolicy, StreamName, WatchPolicy};
use glassline_delivery::pull::Policy;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Pacing};
use glassline_io::clock::Clock;
use glassline_io::tcp::Listener;
use pull::Pulling;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use worker::Worker;

/// How a relay behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens. Port 0 takes a free one.
    pub listen: Vec<SocketAddr>,
    /// Worker threads; 0 is one a core.
    pub workers: usize,
    /// Limits of HTTP heads.
    pub http: Limits,
    /// Who may publish.
    pub publish: PublishPolicy,
    /// What a publisher may send, in bits a second in the mean; `None` is anything.
    pub max_publish_bps: Option<u64>,
    /// Publishers from one address at once; 0 is any number.
    pub max_publishers_per_address: usize,
    /// Who may watch.
    pub watch: WatchPolicy,
    /// The web pages that may read what is answered (`Access-Control-Allow-Origin`): an origin or `*`.
    pub allow_origin: Option<String>,
    /// A publisher that sends nothing for this long gives up its name.
    pub silence_timeout: Duration,
    /// How long viewers are kept when the publisher has gone.
    pub return_window: Duration,
    /// Streams at once.
    pub max_streams: usize,
    /// How streams are kept and sent.
    pub stream: stream::Settings,
    /// The same for those that have settings of their own.
    pub streams: BTreeMap<StreamName, stream::Settings>,
    /// How viewers are sent to.
    pub send_path: SendPath,
    /// A viewer whose socket takes nothing for this long is dropped.
    pub stall_timeout: Duration,
    /// Connections at once over all workers; 0 is as many as there are descriptors for.
    pub max_connections: usize,
    /// Streams that are fetched from elsewhere.
    pub pulls: Vec<Pull>,
    /// How patiently they are.
    pub pull_policy: Policy,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: vec![([0u16; 8], 8080).into()],
            workers: 0,
            http: Limits::DEFAULT,
            publish: PublishPolicy::default(),
            max_publish_bps: None,
            max_publishers_per_address: 0,
            watch: WatchPolicy::default(),
            allow_origin: None,
            silence_timeout: Duration::from_secs(5),
            return_window: Duration::from_secs(60),
            max_streams: 256,
            stream: stream::Settings {
                backlog: Backlog { time: Duration::from_secs(10), bytes: 64 << 20 },
                flush: FlushPolicy::Frame,
                pacing: Pacing::Factor(3.0),
            },
            streams: BTreeMap::new(),
            send_path: SendPath::Automatic,
            stall_timeout: Duration::from_secs(20),
            max_connections: 0,
            pulls: Vec::new(),
            pull_policy: Policy::default(),
        }
    }
}

/// How a stream's bytes get into the viewers' sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendPath {
    /// Many sends by one `io_uring` call, or [`SendPath::Sendfile`] where the system bars it.
    #[default]
    Automatic,
    /// One `sendfile` a viewer.
    Sendfile,
}

/// Answers every request that is not about a stream's bytes: pages, API, metrics. Called on a worker; must
/// not block.
pub trait Site: Send + Sync {
    /// The answer to `request` of `peer`. For `HEAD` the body is left out by the relay.
    fn respond(&self, request: &Request, peer: IpAddr, hub: &Hub) -> Response;

    /// Whether [`Site::log_access`] wants to be called; what it would be told is kept only then.
    fn logs_access(&self) -> bool {
        false
    }

    /// Takes note of an exchange that is over. Called on a worker; must not block.
    fn log_access(&self, access: Access) {
        drop(access);
    }
}

/// Why a relay does not start.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum StartError {
    /// An address cannot be listened on.
    #[error("cannot listen on {address}: {reason}")]
    Listen {
        /// The address.
        address: SocketAddr,
        /// What the system says.
        reason: std::io::Error,
    },
    /// A worker could not be set up.
    #[error("cannot start a thread: {0}")]
    Worker(#[from] std::io::Error),
}

/// A running relay. Dropping it ends it.
pub struct Relay {
    hub: Arc<Hub>,
    threads: Vec<JoinHandle<()>>,
    pulling: Option<Pulling>,
    addresses: Vec<SocketAddr>,
}

/// Descriptors that are kept free of connections: spools, listeners, logs, files that a page is made of.
const SPARE_DESCRIPTORS: u64 = 256;

impl Relay {
    /// Listens and starts the workers. `site` answers what is not about a stream's bytes.
    pub fn start(settings: Settings, site: Arc<dyn Site>) -> Result<Relay, StartError> {
        let workers =
            if settings.workers == 0 { glassline_io::process::processors() } else { settings.workers };
        let descriptors = glassline_io::process::raise_descriptor_limit().saturating_sub(SPARE_DESCRIPTORS);
        let descriptors = usize::try_from(descriptors).unwrap_or(usize::MAX);
        let connections = match settings.max_connections {
            0 => descriptors,
            limit => limit.min(descriptors),
        };

        let mut listeners: Vec<Vec<Listener>> = (0..workers).map(|_| Vec::new()).collect();
        let mut addresses = Vec::new();
        for &address in &settings.listen {
            let refuse = |reason| StartError::Listen { address, reason };
            let group = Listener::bind_group(address, workers).map_err(refuse)?;
            addresses.push(group[0].local_address().map_err(refuse)?);
            for (worker, listener) in listeners.iter_mut().zip(group) {
                worker.push(listener);
            }
        }

        let (hub, pollers) = Hub::new(settings, site, Clock::new(), workers)?;
        let hub = Arc::new(hub);
        let mut threads = Vec::new();
        for (index, (poller, listeners)) in pollers.into_iter().zip(listeners).enumerate() {
            let worker =
                Worker::new(Arc::clone(&hub), index, poller, listeners, connections.div_ceil(workers))?;
            let name = format!("relay-{index}");
            threads.push(std::thread::Builder::new().name(name).spawn(move || worker.run())?);
        }
        let mut relay = Relay { hub, threads, pulling: None, addresses };
        relay.pulling = Pulling::start(&relay.hub)?;
        Ok(relay)
    }

    /// Where it listens, in the order of [`Settings::listen`].
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// What runs through it.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Publishes a stream from inside this process.
    pub fn publish(&self, name: &StreamName) -> Result<Publisher, ClaimError> {
        Publisher::claim(&self.hub, name)
    }

    /// Ends all connections and waits for the workers.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.hub.stop();
        if let Some(pulling) = self.pulling.take() {
            pulling.join();
        }
        for thread in self.threads.drain(..) {
            // A worker that panicked has said so on standard error; the others are still to be joined.
            let _ = thread.join();
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}
