//! The run: inputs to links, links to outputs, and when it is over.
//!
//! A command whose inputs have ended and are delivered says so to its peer ([`super::channel::CONTROL`]). It is done once
//! it has said so and, where it has outputs, the peer has said the same. A peer that goes without that was stopped or
//! has failed: who connects tries again, who listens waits for the next one.

use super::channel::CONTROL;
use super::discovery::Wanted;
use super::ends::{Ends, Prepared};
use super::output::Output;
use super::peer::{self, Peer};
use super::shared::{News, Shared};
use super::stats::Stats;
use crate::failure;
use crate::output::ReaderGone;
use anyhow::{Context, Result};
use bytes::Bytes;
use glassline_engine::link::{Endpoint, Link};
use glassline_transport::link::{LinkId, Options};
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How often figures are told.
const TICK: Duration = Duration::from_secs(1);
/// A peer that has ended the link is not connected to again before.
const AGAIN: Duration = Duration::from_millis(300);
/// How long outputs have to take what came, once the run is to end.
const DRAIN: Duration = Duration::from_secs(2);

/// Which end this is.
pub(super) enum Mode {
    Listen {
        once: bool,
    },
    Connect {
        to: SocketAddr,
        /// As it was given.
        name: String,
        /// The name by which `to` was found in the network, and may be found elsewhere.
        wanted: Option<Wanted>,
        /// It is an error that nobody answers.
        fails: bool,
    },
}

/// The peers that are there.
#[derive(Default)]
struct Crowd {
    peers: Mutex<Vec<Arc<Peer>>>,
    /// There is a peer.
    arrived: Condvar,
}

impl Crowd {
    fn peers(&self) -> MutexGuard<'_, Vec<Arc<Peer>>> {
        self.peers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, peer: Arc<Peer>) {
        self.peers().push(peer);
        self.arrived.notify_all();
    }

    /// Sends a message to all peers; waits for the first one.
    fn send(&self, channel: u8, message: &Bytes) {
        loop {
            let peers = {
                let mut peers = self.peers();
                while peers.is_empty() {
                    peers = self.arrived.wait(peers).unwrap_or_else(PoisonError::into_inner);
                }
                peers.clone()
            };
            let sent = peers.iter().filter(|peer| peer.send(channel, message.clone())).count();
            if sent > 0 {
                return;
            }
            // All of them have just ended; the main thread is about to learn it.
            thread::sleep(Duration::from_millis(1));
        }
    }
}

/// Signals are caught from now on.
pub(super) fn signals() -> Result<Signals> {
    Signals::new([SIGINT, SIGTERM]).context("cannot wait for signals")
}

/// Whether a signal has come that ends us, which is said.
pub(super) fn is_ending(signals: &mut Signals) -> bool {
    let came = signals.pending().next();
    if let Some(signal) = came {
        tracing::info!(signal, "ending");
    }
    came.is_some()
}

/// A run that is about to begin.
pub(super) struct Session {
    channels: Vec<(u8, Options)>,
    inputs: Vec<(u8, Prepared)>,
    outputs: BTreeMap<u8, Mutex<Output>>,
    stats: Stats,
}

impl Session {
    pub(super) fn new(ends: Vec<Ends>, stats: Option<&Path>) -> Result<Session> {
        let stats = Stats::new(stats)?;
        let (mut channels, mut inputs, mut outputs) = (Vec::new(), Vec::new(), BTreeMap::new());
        for Ends { channel, input, output } in ends {
            channels.push((channel.id, Options { receipts: true, ..channel.options }));
            inputs.extend(input.map(|input| (channel.id, input)));
            outputs.extend(output.map(|output| (channel.id, Mutex::new(output))));
        }
        Ok(Session { channels, inputs, outputs, stats })
    }

    /// Runs to the end.
    pub(super) fn run(self, endpoint: Endpoint, mode: Mode, mut signals: Signals) -> Result<()> {
        let (sender, news) = mpsc::channel();
        let remote = match &mode {
            Mode::Connect { name, .. } => name.clone(),
            Mode::Listen { .. } => String::new(),
        };
        let shared = Arc::new(Shared {
            news: Mutex::new(sender),
            outputs: self.outputs,
            inputs_ended: AtomicBool::new(self.inputs.is_empty()),
            remote,
        });
        let crowd = Arc::new(Crowd::default());
        let of_signals = Arc::clone(&shared);
        thread::spawn(move || signals.forever().for_each(|signal| of_signals.tell(News::Signal(signal))));
        let inputs = self.inputs.len();
        for (channel, input) in self.inputs {
            let (shared, crowd) = (Arc::clone(&shared), Arc::clone(&crowd));
            thread::spawn(move || read(&shared, &crowd, channel, input));
        }
        let mut run = Run {
            shared,
            crowd,
            endpoint: Arc::new(endpoint),
            mode,
            channels: self.channels,
            stats: self.stats,
            has_inputs: inputs > 0,
            inputs_left: inputs,
            served: false,
            connect_at: None,
        };
        let ended = run.begin().and_then(|()| run.go_on(&news));
        run.end(&news);
        ended
    }
}

/// Reads an input to its end.
fn read(shared: &Shared, crowd: &Crowd, channel: u8, input: Prepared) {
    let read = || -> std::io::Result<()> {
        let mut input = input.open()?;
        while let Some(message) = input.next()? {
            crowd.send(channel, &message);
        }
        Ok(())
    };
    match read() {
        // A terminal device whose other side is closed says so (pseudo-terminals).
        Err(error) if error.raw_os_error() == Some(HUNG_UP) => shared.tell(News::InputEnded),
        Err(error) => shared.tell(News::Failed { channel, error, what: "cannot read" }),
        Ok(()) => shared.tell(News::InputEnded),
    }
}

/// `EIO`.
const HUNG_UP: i32 = 5;

struct Run {
    shared: Arc<Shared>,
    crowd: Arc<Crowd>,
    endpoint: Arc<Endpoint>,
    mode: Mode,
    channels: Vec<(u8, Options)>,
    stats: Stats,
    has_inputs: bool,
    inputs_left: usize,
    /// There was a link that was up.
    served: bool,
    /// When to connect again.
    connect_at: Option<Instant>,
}

impl Run {
    fn begin(&mut self) -> Result<()> {
        match &self.mode {
            Mode::Connect { .. } => self.connect(),
            Mode::Listen { .. } => {
                let (shared, endpoint) = (Arc::clone(&self.shared), Arc::clone(&self.endpoint));
                thread::spawn(move || {
                    while let Ok(link) = endpoint.accept() {
                        shared.tell(News::Accepted(link));
                    }
                });
                Ok(())
            }
        }
    }

    fn connect(&mut self) -> Result<()> {
        self.connect_at = None;
        let Mode::Connect { to, .. } = self.mode else { return Ok(()) };
        let link = self.endpoint.connect(to).context("cannot connect")?;
        for via in 1..self.endpoint.local_addresses().len() {
            self.endpoint.add_path(&link, via, to).context("cannot add the second path")?;
        }
        self.add(link)
    }

    fn add(&mut self, link: Link) -> Result<()> {
        for (channel, options) in &self.channels {
            if let Err(error) = link.open(*channel, *options) {
                // It has come and gone.
                if link.has_ended() {
                    return Ok(());
                }
                return Err(error.into());
            }
        }
        let control = Options { priority: u8::MAX, receipts: true, ..Options::default() };
        let _ = link.open(CONTROL, control);
        let peer = Arc::new(Peer::new(link));
        self.crowd.add(Arc::clone(&peer));
        peer::serve(&self.shared, &peer);
        Ok(())
    }

    /// Until all is done, or something fails.
    fn go_on(&mut self, news: &Receiver<News>) -> Result<()> {
        let mut tick = Instant::now() + TICK;
        loop {
            let next = self.connect_at.map_or(tick, |at| at.min(tick));
            match news.recv_timeout(next.saturating_duration_since(Instant::now())) {
                Ok(News::Signal(signal)) => {
                    tracing::info!(signal, "ending");
                    return Ok(());
                }
                Ok(news) => {
                    if self.handle(news)? {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.connect_at.is_some_and(|at| at <= Instant::now()) {
                self.connect()?;
            }
            if tick <= Instant::now() {
                tick = Instant::now() + TICK;
                let peers = self.crowd.peers().clone();
                self.stats.tell(&peers, &self.channels)?;
            }
        }
    }

    /// `true`: the run is over.
    fn handle(&mut self, news: News) -> Result<bool> {
        match news {
            News::Accepted(link) => self.add(link)?,
            News::InputEnded => {
                self.inputs_left -= 1;
                if self.inputs_left == 0 {
                    self.shared.inputs_ended.store(true, Ordering::Relaxed);
                    self.crowd.peers().iter().for_each(|peer| peer::finish(&self.shared, peer));
                }
            }
            News::Over(id) => return self.over(id),
            News::Unreachable { was_up } => {
                self.unreachable(was_up)?;
                self.look_again();
            }
            News::Lost => self.look_again(),
            News::Located(address) => self.located(address),
            News::Failed { channel, error, what } => {
                return Err(failure::failed(
                    format!("channel {channel}: {what}: {error}"),
                    "the link is ended",
                ));
            }
            News::ReaderGone => return Err(ReaderGone.into()),
            News::Signal(_) | News::Changed => {}
        }
        self.served |= self.crowd.peers().iter().any(|peer| peer.was_up.load(Ordering::Relaxed));
        self.end_finished()?;
        Ok(false)
    }

    fn unreachable(&self, was_up: bool) -> Result<()> {
        let Mode::Connect { name, fails, .. } = &self.mode else { return Ok(()) };
        let what = format!("nobody answers at {name}");
        let why =
            "is the listener running, does its port pass, is the key the same? A wrong key meets silence";
        if *fails {
            return Err(failure::failed(what, why));
        }
        if was_up {
            tracing::warn!("{what} any more; trying on");
        } else {
            tracing::warn!("{what}; {why}; trying on");
        }
        Ok(())
    }

    /// Looks whether a listener that was found by name is somewhere else now.
    fn look_again(&self) {
        let Mode::Connect { wanted: Some(wanted), .. } = &self.mode else { return };
        let (wanted, shared) = (wanted.clone(), Arc::clone(&self.shared));
        thread::spawn(move || {
            if let Some(address) = wanted.look_again() {
                shared.tell(News::Located(address));
            }
        });
    }

    /// Goes where the listener is, unless the link is well where it was.
    fn located(&mut self, address: SocketAddr) {
        let Mode::Connect { to, wanted: Some(wanted), .. } = &mut self.mode else { return };
        let reaches = to.is_ipv4() == address.is_ipv4();
        if *to == address || !reaches || self.crowd.peers().iter().any(|peer| peer.link.is_connected()) {
            return;
        }
        tracing::info!(name = wanted.name, %address, "the listener is at another address now");
        *to = address;
        // A new one is made when it is over.
        self.crowd.peers().iter().for_each(|peer| peer.link.close("the listener has moved"));
    }

    /// Whether both ends of a link have no more to say, as far as that is known.
    fn is_finished(&self, peer: &Peer, sent: &AtomicBool) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is(sent) && (self.shared.outputs.is_empty() || is(&peer.end_received))
    }

    /// Ends links on which there is no more to say, once their last figures are told. A listener that has nothing to say
    /// itself leaves the end to its peers.
    fn end_finished(&mut self) -> Result<()> {
        let waits = matches!(self.mode, Mode::Listen { .. }) && !self.has_inputs;
        let peers = self.crowd.peers().clone();
        // Nothing is under way but the word that nothing is.
        let is_new = |peer: &&Arc<Peer>| {
            self.is_finished(peer, &peer.end_sent) && !peer.is_told.load(Ordering::Relaxed)
        };
        let finished: Vec<_> = peers.iter().filter(is_new).collect();
        finished.iter().for_each(|peer| peer.is_told.store(true, Ordering::Relaxed));
        if !finished.is_empty() {
            self.stats.tell(&peers, &self.channels)?;
        }
        for peer in peers.iter().filter(|_| !waits) {
            if self.is_finished(peer, &peer.end_delivered) && !peer.link.has_ended() {
                peer.link.close("finished");
            }
        }
        Ok(())
    }

    /// A link has ended. `true`: the run is over with it.
    fn over(&mut self, id: LinkId) -> Result<bool> {
        let peer = {
            let mut peers = self.crowd.peers();
            let Some(at) = peers.iter().position(|peer| peer.id() == id) else { return Ok(false) };
            peers.remove(at)
        };
        self.served |= peer.was_up.load(Ordering::Relaxed);
        let unwanted = peer.unwanted.load(Ordering::Relaxed);
        if unwanted > 0 {
            tracing::warn!(peer = peer.name(), messages = unwanted, "messages came that had no output");
        }
        match self.mode {
            Mode::Connect { .. } => {
                if self.is_finished(&peer, &peer.end_sent) {
                    return Ok(true);
                }
                tracing::info!("connecting again");
                self.connect_at = Some(Instant::now() + AGAIN);
                Ok(false)
            }
            Mode::Listen { once } => {
                let is_last = self.crowd.peers().is_empty() && self.served;
                let ended = self.has_inputs && self.inputs_left == 0;
                Ok(is_last && (ended && self.is_finished(&peer, &peer.end_sent) || once))
            }
        }
    }

    /// Tells the peers, and lets the outputs take what has come.
    fn end(self, news: &Receiver<News>) {
        let Run { crowd, endpoint, mut stats, channels, .. } = self;
        let peers = crowd.peers().clone();
        if !(peers.is_empty() && stats.has_told())
            && let Err(error) = stats.tell(&peers, &channels)
        {
            tracing::warn!("{error:#}");
        }
        peers.iter().for_each(|peer| peer.link.close("stopped"));
        let deadline = Instant::now() + DRAIN;
        let mut left = peers.len();
        while left > 0 {
            match news.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(News::Over(_)) => left -= 1,
                // Asked twice.
                Ok(News::Signal(_)) | Err(_) => break,
                Ok(_) => {}
            }
        }
        endpoint.close();
    }
}
