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
#![forbid(unsafe_code)]
// A byte index within a letter panics, and text comes from outside: `get` and `split_at_checked` say that there is none.
#![cfg_attr(not(test), warn(clippy::string_slice))]

mod access;
mod blocks;
mod carrying;
mod certificates;
mod configuration;
mod connection;
mod counters;
mod demand;
mod descent;
mod descriptors;
mod draining;
mod entitled;
mod entrance;
mod fan_out;
mod first_bytes;
#[doc(hidden)]
pub mod fuzzing;
mod handover;
mod hub;
mod inboxes;
mod ingest;
mod listen;
mod long_answers;
mod marking;
mod memory;
mod packaging;
mod presentation_stores;
mod recorder;
mod refuge;
mod resting;
mod roster;
mod settings;
mod status;
#[cfg(test)]
mod test_connections;
#[cfg(test)]
mod test_streams;
mod turn;
mod viewer;
mod whereabouts;
mod worker;
mod worker_load;

pub use access::Access;
pub use descent::Pulled;
pub use descriptors::DescriptorNeed;
pub use draining::DrainCounts;
pub use first_bytes::FirstByteReport;
pub use glassline_doors::output::Output;
pub use glassline_doors::pull::Pull;
pub use glassline_doors::tls_ends::DrainingTls;
pub use glassline_doors::webhook;
pub use glassline_io::tls::CertificateFiles;
pub use handover::HandoverError;
pub use hub::Hub;
pub use listen::{Listen, ListenerRole};
pub use recorder::Recorder;
pub use roster::{Client, Clients};
pub use settings::{PackagingSettings, SendPath, Settings};
pub use status::{IngestCounts, Totals};

use certificates::Fresh;
use descriptors::Division;
use glassline_delivery::http1::Response;
use glassline_delivery::http1::server::Request;
use glassline_delivery::policy::StreamName;
use glassline_doors::output::{Destinations, Feeder, Sending};
use glassline_doors::pull::{Fetcher, Pulling, Sources};
use glassline_doors::{outgoing, output, pull, tls_ends, wire};
use glassline_edge::FetcherError;
use glassline_io::clock::Clock;
use glassline_io::small_file::Accept;
use glassline_io::tcp::Listener;
use glassline_io::tls::TlsError;
use glassline_media::quantity::in_seconds;
use glassline_streams::{AcquireError, Publisher};
use handover::Inherited;
use hub::Phase;
use packaging::Packaging;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{BorrowedFd, OwnedFd};
use std::sync::Arc;
use std::thread::JoinHandle;
use thiserror::Error;
use worker::Worker;

/// Answers every request that is not about a stream's bytes: pages, API, metrics. Called on a worker, where it must
/// not block, or on the thread of long answers.
pub trait Site: Send + Sync {
    /// The answer to `request` of `peer`, which came in by `door`. For `HEAD` the body is left out by the relay.
    fn respond(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> Response;

    /// Whether the answer to `request` may take milliseconds, as that of metrics of many streams does: [`Site::respond`] is then
    /// called on a thread that makes such answers, one after the other, and no viewer waits for it. Not where `peer` gets a refusal
    /// instead: that thread makes answers alone.
    fn takes_long(&self, request: &Request, door: ListenerRole, peer: IpAddr, hub: &Hub) -> bool {
        let _ = (request, door, peer, hub);
        false
    }

    /// Whether what is at `path` is this server's own, whatever it answers: upstream servers are not asked for it.
    fn owns(&self, path: &str) -> bool {
        let _ = path;
        false
    }

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
    /// The settings ask for marks on connections, and the system does not let this process set them.
    #[error("cannot mark viewers' connections (SO_MARK): {0}")]
    Mark(std::io::Error),
    /// Nothing can be fetched from upstream servers.
    #[error("cannot fetch from upstream servers: {0}")]
    Upstream(#[from] FetcherError),
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
    packaging: Option<JoinHandle<Packaging>>,
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
struct Threads {
    workers: Vec<Worker>,
    fetcher: Option<Fetcher>,
    feeder: Option<Feeder>,
    packager: Option<Packaging>,
}

/// A relay that has taken over and not begun.
pub struct Waiting {
    relay: Relay,
    threads: Threads,
    listeners: Vec<(Opened, Vec<Listener>)>,
}

impl Waiting {
    /// Begins, where the other process has come to its end. `prepare` is called before any worker answers.
    pub fn start_after(self, prepare: impl FnOnce(&Arc<Hub>)) -> Result<Relay, StartError> {
        let Waiting { mut relay, threads, listeners } = self;
        relay.hub.arrange_edge()?;
        prepare(&relay.hub);
        relay.resume(threads, listeners)?;
        for live in relay.hub.streams.all() {
            relay.hub.streams.announce(&live, None);
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
        let certificates = Fresh::read(&settings.certificates, Accept::AnyFile).map_err(StartError::from)?;
        let opened = Relay::open(&[], &settings.listen, count)?;
        let site = prepare()?;
        settings.check_means()?;
        let (hub, mut pollers) = Hub::new(settings, site, Clock::new(), count).map_err(StartError::from)?;
        hub.certificates.show(certificates);
        let hub = hub.into_shared();
        let packager = pollers.pop().map(|poller| Packaging::new(&hub, poller));
        let feeder =
            pollers.pop().map(|poller| Feeder::new(Arc::clone(&hub) as Arc<dyn Destinations>, poller));
        let workers = pollers.into_iter().enumerate();
        let workers = workers.map(|(index, poller)| Worker::new(Arc::clone(&hub), index, poller));
        let threads = Threads { workers: workers.collect(), fetcher: None, feeder, packager };
        let mut relay = Relay::halted(hub);
        relay.resume(threads, opened)?;
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
        let certificates = Fresh::read(&settings.certificates, Accept::RegularFile)?;
        let opened = Relay::open(&self.listening, &settings.listen, self.workers.len())?;
        self.hub.certificates.show(certificates);
        let mut threads = self.halt();
        let wanted = |listen: &Listen| settings.listen.iter().find(|wanted| wanted.is_at(listen));
        self.listening.retain_mut(|opened| {
            let wanted = wanted(&opened.listen);
            opened.listen = wanted.unwrap_or(&opened.listen).clone();
            wanted.is_some()
        });
        for worker in &mut threads.workers {
            worker.rearrange_listeners(wanted);
        }
        let former = self.hub.places();
        self.hub.reconfigure(settings);
        self.hub.arrange_edge()?;
        self.hub.follow_map(&former);
        self.resume(threads, opened)
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
    ) -> io::Result<DrainingTls> {
        let mut threads = self.halt();
        match handover::pack(&self.hub, &threads, deliver) {
            Ok(staying) => {
                let groups = staying.part(&mut threads);
                let settings = self.hub.settings();
                let draining =
                    DrainingTls::start(groups, self.hub.clock, settings.drain, settings.stall_timeout);
                threads.workers.iter_mut().for_each(Worker::dismiss);
                Ok(draining)
            }
            Err(error) => {
                self.resume(threads, Vec::new()).map_err(io::Error::other)?;
                Err(error)
            }
        }
    }

    /// Makes a relay of what another process leaves ([`Relay::hand_over`]). Until [`Waiting::start_after`] nothing is done to
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
        let certificates = Fresh::read(&settings.certificates, Accept::AnyFile).map_err(StartError::from)?;
        let Inherited { hub, threads, listeners } =
            handover::unpack(settings, site, count, message, descriptors)?;
        hub.certificates.show(certificates);
        let listening: Vec<_> = listeners.iter().map(|(opened, _)| opened.clone()).collect();
        let opened = Relay::open(&listening, &listen, count)?;
        let relay = Relay::halted(hub);
        Ok(Waiting { relay, threads, listeners: listeners.into_iter().chain(opened).collect() })
    }

    /// A relay without threads.
    fn halted(hub: Arc<Hub>) -> Relay {
        Relay {
            hub,
            workers: Vec::new(),
            pulling: None,
            sending: None,
            packaging: None,
            listening: Vec::new(),
        }
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
    fn resume(
        &mut self,
        mut threads: Threads,
        opened: Vec<(Opened, Vec<Listener>)>,
    ) -> Result<(), StartError> {
        let mut listeners: Vec<Vec<(Listen, Listener)>> =
            threads.workers.iter().map(|_| Vec::new()).collect();
        for (opened, group) in opened {
            // What another process left may be more than one for a worker.
            for (index, listener) in group.into_iter().enumerate() {
                listeners[index % threads.workers.len()].push((opened.listen.clone(), listener));
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
        let limit = division.connections.div_ceil(threads.workers.len().max(1));
        let may_pull = !self.hub.pulls().is_empty() || settings.upstream.is_some();
        if threads.fetcher.is_none() && may_pull {
            threads.fetcher = Some(Fetcher::new(Arc::clone(&self.hub) as Arc<dyn Sources>)?);
        }
        self.hub.arrange_edge()?;
        // This server may have another name among servers from now on.
        self.hub.rearrange_pulls();
        self.hub.enter(Phase::Running);
        for (index, (mut worker, listeners)) in threads.workers.into_iter().zip(listeners).enumerate() {
            worker.reconfigure(listeners, limit);
            let thread = std::thread::Builder::new().name(format!("relay-{index}"));
            self.workers.push(thread.spawn(move || worker.run())?);
        }
        if let Some(mut fetcher) = threads.fetcher {
            fetcher.rearrange();
            self.pulling = Some(Pulling::start(fetcher)?);
        }
        if let Some(mut feeder) = threads.feeder {
            feeder.rearrange();
            self.sending = Some(Sending::start(feeder)?);
        }
        self.packaging = threads.packager.map(packaging::start).transpose()?;
        Ok(())
    }

    /// Brings the threads to a halt. What panicked is lost, and has been told on standard error.
    fn halt(&mut self) -> Threads {
        self.hub.enter(Phase::Halted);
        let fetcher = self.pulling.take().and_then(Pulling::join);
        let feeder = self.sending.take().and_then(Sending::join);
        let packager = self.packaging.take().and_then(|thread| thread.join().ok());
        let workers = self.workers.drain(..).filter_map(|thread| thread.join().ok()).collect();
        Threads { workers, fetcher, feeder, packager }
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
    pub fn publish(&self, name: &StreamName) -> Result<Publisher, AcquireError> {
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
        drop(self.packaging.take().map(JoinHandle::join));
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
