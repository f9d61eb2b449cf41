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
mod certificates;
mod connection;
mod descriptors;
mod entitled;
mod fan_out;
#[doc(hidden)]
pub mod fuzzing;
mod handover;
mod hub;
mod listen;
mod live;
mod marking;
mod outgoing;
mod output;
mod presence;
mod publish;
mod pull;
mod roster;
mod status;
mod strain;
mod telemetry;
mod tls_ends;
mod viewer;
mod wire;
mod worker;

pub use access::Access;
pub use glassline_io::tls::CertificateFiles;
pub use handover::HandoverError;
pub use hub::Hub;
pub use listen::{Door, Listen};
pub use live::PushError;
pub use output::{Output, OutputStatus};
pub use publish::{ClaimError, Publisher};
pub use pull::{Pull, RtpCounts, SourceState, SourceStatus};
pub use roster::{Client, Clients, WhyCounts};
pub use status::{StreamStatus, Totals};
pub use tls_ends::Remains;

use certificates::Fresh;
use descriptors::Division;
use glassline_delivery::http1::Limits;
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::{Hosts, Networks, Rules, StreamName};
use glassline_delivery::pull::Policy;
use glassline_delivery::stream::{self, Backlog, FlushPolicy, Pacing, Prebuffer};
use glassline_io::clock::Clock;
use glassline_io::tcp::Listener;
use glassline_io::tls::TlsError;
use handover::Inherited;
use hub::Phase;
use output::{Feeder, Sending};
use pull::{Fetcher, Pulling};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;
use thiserror::Error;
use worker::Worker;

/// How a relay behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where it listens.
    pub listen: Vec<Listen>,
    /// Worker threads; 0 is one a core.
    pub workers: usize,
    /// Limits of HTTP heads.
    pub http: Limits,
    /// Who may publish and watch what, how much, and what is done about it.
    pub rules: Rules,
    /// The names by which clients may call it, beside those of [`Settings::certificates`], where it goes by the address
    /// that a request comes from: others may be a web page's that has its visitor's browser ask (DNS rebinding).
    pub hosts: Hosts,
    /// From where the crew looks after it, beside this machine. Empty: of a relay with an admin listener whoever reaches
    /// that, of others nobody else.
    pub admin_networks: Networks,
    /// Names under which only this process publishes.
    pub reserved: BTreeSet<StreamName>,
    /// Publishers from one address at once; 0 is any number.
    pub max_publishers_per_address: usize,
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
    /// What listeners with TLS show; the first is for who asks for a name that none has.
    pub certificates: Vec<CertificateFiles>,
    /// How often their files are looked at, whether they have changed.
    pub certificate_check: Duration,
    /// Connections from one address at once, but for those of admin listeners; 0 is any number.
    pub max_connections_per_address: usize,
    /// Connections from one address at once that have not been answered, but for those of admin listeners; 0 is any number.
    /// Half of all connections at most.
    pub max_unanswered_per_address: usize,
    /// Streams that are fetched from elsewhere.
    pub pulls: Vec<Pull>,
    /// How patiently they are.
    pub pull_policy: Policy,
    /// Streams that are sent elsewhere.
    pub outputs: Vec<Output>,
    /// How long the TLS of connections that another process has taken over goes on here at most.
    pub drain: Duration,
}

impl Settings {
    /// Whether this process can do what the settings ask of it: mark connections, which not every process may, and read
    /// the authorities that vouch for sources.
    ///
    /// # Errors
    /// [`StartError::Mark`], [`StartError::Tls`]. Settings that come later than the start are to be asked as well.
    pub fn check_means(&self) -> Result<(), StartError> {
        self.check_authorities()?;
        if self.rules.want_marks() { glassline_io::tcp::may_mark().map_err(StartError::Mark) } else { Ok(()) }
    }

    /// Whether the authorities that vouch for sources can be read.
    ///
    /// # Errors
    /// [`StartError::Tls`].
    pub fn check_authorities(&self) -> Result<(), StartError> {
        Ok(pull::check_authorities(&self.pulls)?)
    }

    /// How the stream `name` is kept and sent.
    fn of_stream(&self, name: &StreamName) -> stream::Settings {
        *self.streams.get(name).unwrap_or(&self.stream)
    }
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            listen: vec![Listen::from(SocketAddr::from(([0u16; 8], 8080)))],
            workers: 0,
            http: Limits::DEFAULT,
            rules: Rules::default(),
            hosts: Hosts::default(),
            admin_networks: Networks::default(),
            reserved: BTreeSet::new(),
            max_publishers_per_address: 0,
            allow_origin: None,
            silence_timeout: Duration::from_secs(5),
            return_window: Duration::from_secs(60),
            max_streams: 256,
            stream: stream::Settings {
                backlog: Backlog { time: Duration::from_secs(10), bytes: 64 << 20 },
                flush: FlushPolicy::Frame,
                pacing: Pacing::Factor(3.0),
                prebuffer: Prebuffer::NONE,
            },
            streams: BTreeMap::new(),
            send_path: SendPath::Automatic,
            stall_timeout: Duration::from_secs(20),
            max_connections: 0,
            certificates: Vec::new(),
            certificate_check: Duration::from_secs(60),
            max_connections_per_address: 0,
            max_unanswered_per_address: 4096,
            pulls: Vec::new(),
            pull_policy: Policy::default(),
            outputs: Vec::new(),
            drain: Duration::from_secs(12 * 3600),
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
    /// The answer to `request` of `peer`, which came in by `door`. For `HEAD` the body is left out by the relay.
    fn respond(&self, request: &Request, door: Door, peer: IpAddr, hub: &Hub) -> Response;

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
    /// A certificate cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Connections are to be marked, and the system does not let this process.
    #[error("cannot mark viewers' connections (SO_MARK): {0}")]
    Mark(std::io::Error),
    /// A worker could not be set up.
    #[error("cannot start a thread: {0}")]
    Worker(#[from] std::io::Error),
}

/// A running relay. Dropping it ends it.
pub struct Relay {
    hub: Arc<Hub>,
    workers: Vec<JoinHandle<Worker>>,
    pulling: Option<Pulling>,
    sending: Option<Sending>,
    listening: Vec<Opened>,
}

/// A listener that is open.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Opened {
    /// As the settings have it.
    listen: Listen,
    /// Where it is.
    address: SocketAddr,
}

/// All that the threads of a halted relay have.
struct Crew {
    workers: Vec<Worker>,
    fetcher: Option<Fetcher>,
    feeder: Option<Feeder>,
}

/// A relay that has taken over and not begun.
pub struct Waiting {
    relay: Relay,
    crew: Crew,
    listeners: Vec<(Opened, Vec<Listener>)>,
}

impl Waiting {
    /// Begins, where the other process has come to its end.
    pub fn start(self) -> Result<Relay, StartError> {
        let Waiting { mut relay, crew, listeners } = self;
        relay.resume(crew, listeners)?;
        for live in relay.hub.all() {
            relay.hub.announce(&live, None);
        }
        Ok(relay)
    }
}

fn worker_count(settings: &Settings) -> usize {
    if settings.workers == 0 { glassline_io::process::processors() } else { settings.workers }
}

impl Relay {
    /// Listens and starts the workers. `site` answers what is not about a stream's bytes.
    pub fn start(settings: Settings, site: Arc<dyn Site>) -> Result<Relay, StartError> {
        Relay::start_after(settings, || Ok(site))
    }

    /// The same with a step between: `prepare` is called once the sockets listen, and before there is any thread.
    /// That is the moment to give up privileges.
    pub fn start_after<E: From<StartError>>(
        settings: Settings,
        prepare: impl FnOnce() -> Result<Arc<dyn Site>, E>,
    ) -> Result<Relay, E> {
        let count = worker_count(&settings);
        let certificates = Fresh::read(&settings.certificates).map_err(StartError::from)?;
        let opened = Relay::open(&[], &settings.listen, count)?;
        let site = prepare()?;
        settings.check_means()?;
        let (hub, mut pollers) = Hub::new(settings, site, Clock::new(), count).map_err(StartError::from)?;
        hub.certificates.show(certificates);
        let hub = Arc::new(hub);
        let feeder = pollers.pop().map(|poller| Feeder::new(&hub, poller));
        let workers = pollers.into_iter().enumerate();
        let workers = workers.map(|(index, poller)| Worker::new(Arc::clone(&hub), index, poller));
        let crew = Crew { workers: workers.collect(), fetcher: None, feeder };
        let mut relay =
            Relay { hub, workers: Vec::new(), pulling: None, sending: None, listening: Vec::new() };
        relay.resume(crew, opened)?;
        Ok(relay)
    }

    /// Takes other settings while all goes on: connections, streams and sources stay, but for those sources that
    /// `settings` no longer has. [`Settings::workers`] alone stays as it was. All comes to a halt for a moment, in
    /// the order of a millisecond.
    ///
    /// # Errors
    /// An address cannot be listened on, a privilege is missing, or a certificate is of no use: then nothing has
    /// changed.
    pub fn reload(&mut self, settings: Settings) -> Result<(), StartError> {
        settings.check_means()?;
        let certificates = Fresh::read(&settings.certificates)?;
        let opened = Relay::open(&self.listening, &settings.listen, self.workers.len())?;
        self.hub.certificates.show(certificates);
        let mut crew = self.halt();
        let wanted = |listen: &Listen| settings.listen.iter().find(|wanted| wanted.is_at(listen));
        self.listening.retain_mut(|opened| {
            let wanted = wanted(&opened.listen);
            opened.listen = wanted.unwrap_or(&opened.listen).clone();
            wanted.is_some()
        });
        for worker in &mut crew.workers {
            worker.rearrange_listeners(wanted);
        }
        self.hub.reconfigure(settings);
        self.resume(crew, opened)
    }

    /// Leaves everything to another process: comes to a halt and has a message with descriptors delivered, of which
    /// [`Relay::take_over`] there makes a relay. `deliver` returns when that process has said that it is ready, and
    /// then this relay has nothing any more but to be dropped. What is returned goes on with the TLS of connections,
    /// for [`Settings::drain`].
    ///
    /// # Errors
    /// Those of `deliver`; the relay then goes on as if nothing had been.
    pub fn hand_over(
        &mut self,
        deliver: impl FnOnce(&[u8], &[BorrowedFd<'_>]) -> io::Result<()>,
    ) -> io::Result<Remains> {
        let mut crew = self.halt();
        match handover::pack(&self.hub, &crew, deliver) {
            Ok(staying) => {
                let groups = staying.part(&mut crew);
                let settings = self.hub.settings();
                let remains = Remains::start(groups, self.hub.clock, settings.drain, settings.stall_timeout);
                crew.workers.iter_mut().for_each(Worker::dismiss);
                Ok(remains)
            }
            Err(error) => {
                self.resume(crew, Vec::new()).map_err(io::Error::other)?;
                Err(error)
            }
        }
    }

    /// Makes a relay of what another process leaves ([`Relay::hand_over`]). Until [`Waiting::start`] nothing is done to
    /// what has come, and the other process may still go on with it.
    ///
    /// # Errors
    /// Where it is not understood, or `settings` have an address that cannot be listened on.
    pub fn take_over(
        settings: Settings,
        site: Arc<dyn Site>,
        message: &[u8],
        descriptors: Vec<OwnedFd>,
    ) -> Result<Waiting, HandoverError> {
        settings.check_means()?;
        let count = worker_count(&settings);
        let listen = settings.listen.clone();
        let certificates = Fresh::read(&settings.certificates).map_err(StartError::from)?;
        let Inherited { hub, crew, listeners } =
            handover::unpack(settings, site, count, message, descriptors)?;
        hub.certificates.show(certificates);
        let listening: Vec<_> = listeners.iter().map(|(opened, _)| opened.clone()).collect();
        let opened = Relay::open(&listening, &listen, count)?;
        let relay = Relay { hub, workers: Vec::new(), pulling: None, sending: None, listening: Vec::new() };
        Ok(Waiting { relay, crew, listeners: listeners.into_iter().chain(opened).collect() })
    }

    /// Listens on the addresses of `listen` that are not `listening` yet: a socket for each of `workers`.
    fn open(
        listening: &[Opened],
        listen: &[Listen],
        workers: usize,
    ) -> Result<Vec<(Opened, Vec<Listener>)>, StartError> {
        let mut opened = Vec::new();
        for listen in listen {
            if listening.iter().any(|opened| opened.listen.is_at(listen)) {
                continue;
            }
            let refuse = |reason| StartError::Listen { address: listen.address, reason };
            let group = Listener::bind_group(listen.address, workers).map_err(refuse)?;
            let address = group[0].local_address().map_err(refuse)?;
            opened.push((Opened { listen: listen.clone(), address }, group));
        }
        Ok(opened)
    }

    /// Lets the threads run, with all that they had and the listeners that were `opened` for them.
    fn resume(&mut self, mut crew: Crew, opened: Vec<(Opened, Vec<Listener>)>) -> Result<(), StartError> {
        let mut listeners: Vec<Vec<(Listen, Listener)>> = crew.workers.iter().map(|_| Vec::new()).collect();
        for (opened, group) in opened {
            // What another process left may be more than one for a worker.
            for (index, listener) in group.into_iter().enumerate() {
                listeners[index % crew.workers.len()].push((opened.listen.clone(), listener));
            }
            self.listening.push(opened);
        }
        let settings = self.hub.settings();
        self.listening
            .sort_by_key(|opened| settings.listen.iter().position(|wanted| *wanted == opened.listen));
        let division = Division::of(glassline_io::process::raise_descriptor_limit(), &settings);
        if let Some(complaint) = division.complaint() {
            tracing::warn!("{complaint}");
        }
        let limit = division.connections.div_ceil(crew.workers.len().max(1));
        if crew.fetcher.is_none() && !self.hub.boards().is_empty() {
            crew.fetcher = Some(Fetcher::new(&self.hub)?);
        }
        self.hub.enter(Phase::Running);
        for (index, (mut worker, listeners)) in crew.workers.into_iter().zip(listeners).enumerate() {
            worker.reconfigure(listeners, limit);
            let thread = std::thread::Builder::new().name(format!("relay-{index}"));
            self.workers.push(thread.spawn(move || worker.run())?);
        }
        if let Some(mut fetcher) = crew.fetcher {
            fetcher.rearrange();
            self.pulling = Some(Pulling::start(fetcher)?);
        }
        if let Some(mut feeder) = crew.feeder {
            feeder.rearrange();
            self.sending = Some(Sending::start(feeder)?);
        }
        Ok(())
    }

    /// Brings the threads to a halt. What panicked is lost, and has been told on standard error.
    fn halt(&mut self) -> Crew {
        self.hub.enter(Phase::Halted);
        let fetcher = self.pulling.take().and_then(Pulling::join);
        let feeder = self.sending.take().and_then(Sending::join);
        let workers = self.workers.drain(..).filter_map(|thread| thread.join().ok()).collect();
        Crew { workers, fetcher, feeder }
    }

    /// Where it listens, in the order of [`Settings::listen`].
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.listening.iter().map(|opened| opened.address).collect()
    }

    /// What runs through it.
    pub fn hub(&self) -> &Arc<Hub> {
        &self.hub
    }

    /// Publishes a stream of MPEG-TS from inside this process.
    pub fn publish(&self, name: &StreamName) -> Result<Publisher, ClaimError> {
        self.hub.publish(name)
    }

    /// Ends all connections and waits for the workers.
    pub fn shutdown(mut self) {
        self.stop();
    }

    fn stop(&mut self) {
        self.hub.enter(Phase::Stopping);
        drop(self.pulling.take().and_then(Pulling::join));
        drop(self.sending.take().and_then(Sending::join));
        for thread in self.workers.drain(..) {
            // A worker that panicked has said so on standard error; the others are still to be joined.
            drop(thread.join());
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop();
    }
}
