//! The main thread of a session: makes links, and knows when it is over.

use super::account::Gone;
use super::peer::{self, Peer};
use super::shared::{Message, Shared};
use super::{CONTROL, Error, Extent, Input, Mode, SessionEvent};
use crate::link::endpoint::reaches;
use crate::link::{Endpoint, Link};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::quantity::ByteRate;
use glassline_transport::link::{CloseCode, CloseReason, LinkId, Options};
use std::net::SocketAddr;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From the end of a link to the next connect.
const RECONNECT_DELAY: Duration = Duration::from_millis(300);
/// How long outputs have to take what came, once the session is to end.
const DRAIN: Duration = Duration::from_secs(2);
/// A listener that is away when all has been said is waited for so long, where nothing of that has to arrive.
const FAREWELL: Duration = Duration::from_secs(2);
/// How often it is looked whether one is away.
const FAREWELL_TICK: Duration = Duration::from_millis(250);
/// For waits that end by messages.
const LONG: Duration = Duration::from_secs(3600);

/// What the main thread has.
pub(super) struct Run {
    shared: Arc<Shared>,
    endpoint: Arc<Endpoint>,
    /// Takes links from the endpoint, where we listen.
    acceptor: Option<JoinHandle<()>>,
    mode: Mode,
    extent: Extent,
    has_inputs: bool,
    /// Channels' inputs that have not ended.
    inputs_left: usize,
    /// Services that have not sent all.
    services_left: usize,
    /// There was a link that was up.
    served: bool,
    /// When to connect again.
    connect_at: Option<Instant>,
    /// The error that the session ends with at last: after a listener has served its other peers, or the services have gone
    /// on to their end.
    torn: Option<Error>,
    /// Since when all inputs have ended, and the listener that we were connected to is away.
    unheard_since: Option<Instant>,
}

impl Run {
    /// `inputs` of channels, and as many services that are inputs.
    pub(super) fn new(
        shared: Arc<Shared>,
        endpoint: Endpoint,
        mode: Mode,
        extent: Extent,
        inputs: usize,
        services: usize,
    ) -> Run {
        Run {
            shared,
            endpoint: Arc::new(endpoint),
            acceptor: None,
            mode,
            extent,
            has_inputs: inputs + services > 0,
            inputs_left: inputs,
            services_left: services,
            served: false,
            connect_at: None,
            torn: None,
            unheard_since: None,
        }
    }

    /// Runs the session to its end.
    pub(super) fn run(
        mut self,
        inputs: Vec<(u8, Box<dyn Input>)>,
        inbox: &Receiver<Message>,
    ) -> Result<(), Error> {
        for (channel, input) in inputs {
            let shared = Arc::clone(&self.shared);
            thread::spawn(move || {
                if let Err(panicked) = contain(Border::Link, || read(&shared, channel, input)) {
                    shared.notify(Message::Failed(panicked.into()));
                }
            });
        }
        let ended = self.begin().and_then(|()| self.work(inbox));
        let torn = self.torn.take();
        // Other peers are not told of what one of them has lost.
        self.end(inbox, ended.is_err());
        ended.and(torn.map_or(Ok(()), Err))
    }

    fn begin(&mut self) -> Result<(), Error> {
        match &self.mode {
            Mode::Connect { to, spares, .. } => self.connect(&to.clone(), &spares.clone()),
            Mode::Listen { .. } => {
                let (shared, endpoint) = (Arc::clone(&self.shared), Arc::clone(&self.endpoint));
                self.acceptor = Some(thread::spawn(move || {
                    while let Ok(link) = endpoint.accept() {
                        shared.notify(Message::Accepted(link));
                    }
                }));
                Ok(())
            }
        }
    }

    fn connect(&mut self, to: &[SocketAddr], spares: &[Option<ByteRate>]) -> Result<(), Error> {
        let link = self.endpoint.connect_any(to).map_err(Error::Connect)?;
        for (via, local) in self.endpoint.local_addresses().iter().enumerate().skip(1) {
            let reached = to.iter().find(|remote| reaches(*local, **remote)).or(to.first());
            let Some(reached) = reached else { continue };
            let spare = spares.get(via).copied().flatten();
            self.endpoint.add_path(&link, via, *reached, spare).map_err(Error::Path)?;
        }
        self.add(link)
    }

    fn add(&mut self, link: Link) -> Result<(), Error> {
        for (channel, options) in &self.shared.channels {
            if let Err(error) = link.open(*channel, *options) {
                // It has come and gone.
                if link.has_ended() {
                    return Ok(());
                }
                return Err(Error::Open(error));
            }
        }
        let control = Options { priority: u8::MAX, receipts: true, ..Options::default() };
        let _ = link.open(CONTROL, control);
        let peer = Arc::new(Peer::new(link));
        self.shared.peers.add(Arc::clone(&peer));
        peer::serve(&self.shared, &peer);
        Ok(())
    }

    /// Until all is done, or something fails.
    fn work(&mut self, inbox: &Receiver<Message>) -> Result<(), Error> {
        loop {
            let wait = self.connect_at.map_or(LONG, |at| at.saturating_duration_since(Instant::now()));
            let wait = if self.may_leave() { wait.min(FAREWELL_TICK) } else { wait };
            match inbox.recv_timeout(wait) {
                Ok(message) => {
                    if self.handle(message)?.is_break() {
                        return Ok(());
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(()),
            }
            if self.note_unheard() {
                return Err(Error::Unheard);
            }
            if self.connect_at.is_some_and(|at| at <= Instant::now())
                && let Mode::Connect { to, spares, .. } = &self.mode
            {
                let (to, spares) = (to.clone(), spares.clone());
                self.connect_at = None;
                self.connect(&to, &spares)?;
            }
        }
    }

    /// Whether all has been said to the listener, and nothing of that waits for its return if it is away.
    fn may_leave(&self) -> bool {
        let is_connecting = matches!(self.mode, Mode::Connect { .. });
        is_connecting
            && self.served
            && self.has_inputs
            && self.have_inputs_ended()
            && (!self.shared.is_waited_for || self.is_at_its_extent())
    }

    /// Notes whether the listener is there. Returns whether it has been away for long.
    fn note_unheard(&mut self) -> bool {
        let is_there = || self.shared.peers.all().iter().any(|peer| peer.link.is_connected());
        if !self.may_leave() || is_there() {
            self.unheard_since = None;
            return false;
        }
        self.unheard_since.get_or_insert_with(Instant::now).elapsed() >= FAREWELL
    }

    /// Breaks off where the session is over.
    fn handle(&mut self, message: Message) -> Result<ControlFlow<()>, Error> {
        match message {
            Message::Stop => return Ok(ControlFlow::Break(())),
            Message::Accepted(link) => self.add(link)?,
            Message::InputEnded => {
                self.inputs_left = self.inputs_left.saturating_sub(1);
                self.finish_inputs();
            }
            Message::ServiceEnded => {
                self.services_left -= 1;
                if self.is_at_its_extent() {
                    self.inputs_left = 0;
                }
                self.finish_inputs();
            }
            Message::Over(id) => return self.over(id),
            Message::Refused => {
                if let Mode::Connect { give_up: true, .. } = self.mode {
                    return Err(Error::Refused);
                }
            }
            Message::Torn { peer, channel } => self.torn(peer, channel)?,
            Message::Unreachable { was_up } => match self.mode {
                Mode::Connect { give_up: true, .. } => return Err(Error::Unreachable { was_up }),
                Mode::Connect { .. } => self.shared.emit(SessionEvent::Unreachable { was_up }),
                Mode::Listen { .. } => {}
            },
            Message::RemoteIsAt(addresses) => self.set_remote(addresses),
            Message::Failed(error) => return Err(error),
            Message::OutputFailed(error) => {
                self.shared.emit(SessionEvent::OutputFailed { error: error.to_string() });
                self.torn.get_or_insert(error);
            }
            Message::Changed => {}
        }
        self.served |= self.shared.peers.all().iter().any(|peer| peer.was_up.load(Ordering::Relaxed));
        self.close_finished();
        Ok(ControlFlow::Continue(()))
    }

    /// Whether the services have sent all, and the session ends with them.
    fn is_at_its_extent(&self) -> bool {
        self.extent == Extent::Services && self.services_left == 0
    }

    fn have_inputs_ended(&self) -> bool {
        self.inputs_left == 0 && self.services_left == 0
    }

    /// Tells the peers that there will be no more, once that is so.
    fn finish_inputs(&self) {
        if self.have_inputs_ended() && !self.shared.inputs_ended.swap(true, Ordering::Relaxed) {
            self.shared.peers.all().iter().for_each(|peer| peer::finish(&self.shared, peer));
        }
    }

    /// Goes where the listener is, unless the link is up where it was.
    fn set_remote(&mut self, mut addresses: Vec<SocketAddr>) {
        let Mode::Connect { to, .. } = &mut self.mode else { return };
        let locals = self.endpoint.local_addresses();
        addresses.retain(|address| locals.iter().any(|local| reaches(*local, *address)));
        let Some(&first) = addresses.first() else { return };
        let peers = self.shared.peers.all();
        let is_known = addresses.len() == to.len() && addresses.iter().all(|address| to.contains(address));
        if is_known || peers.iter().any(|peer| peer.link.is_connected()) {
            return;
        }
        *to = addresses;
        for peer in peers {
            // One that is over meanwhile is made anew.
            let _ = self.endpoint.retarget(&peer.link, to);
        }
        self.shared.emit(SessionEvent::RemoteChanged(first));
    }

    /// Either end may lack something of a channel.
    fn torn(&mut self, peer: String, channel: u8) -> Result<(), Error> {
        let error = Error::Torn { channel, peer: peer.clone() };
        match self.mode {
            Mode::Connect { .. } => return Err(error),
            Mode::Listen { .. } => _ = self.torn.get_or_insert(error),
        }
        self.shared.emit(SessionEvent::Torn { peer, channel });
        Ok(())
    }

    /// Whether both ends of a link have no more to say, as far as that is known.
    fn is_finished(&self, peer: &Peer, sent: &AtomicBool) -> bool {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        is(sent) && (self.shared.outputs.is_empty() || self.is_at_its_extent() || is(&peer.end_received))
    }

    /// Ends links on which there is no more to say, once their last figures are reported. A listener that has nothing to
    /// say itself leaves the end to its peers.
    fn close_finished(&self) {
        let waits = matches!(self.mode, Mode::Listen { .. }) && !self.has_inputs;
        let peers = self.shared.peers.all();
        // Nothing is under way but the word that nothing is.
        let is_new = |peer: &&Arc<Peer>| {
            self.is_finished(peer, &peer.end_sent) && !peer.is_reported.load(Ordering::Relaxed)
        };
        let finished: Vec<_> = peers.iter().filter(is_new).collect();
        finished.iter().for_each(|peer| peer.is_reported.store(true, Ordering::Relaxed));
        if !finished.is_empty() {
            self.shared.emit(SessionEvent::Finished { statistics: self.shared.statistics() });
        }
        for peer in peers.iter().filter(|_| !waits) {
            if self.is_finished(peer, &peer.end_delivered) && !peer.link.has_ended() {
                peer.link.close("finished");
            }
        }
    }

    /// A link has ended. Breaks off where the session is over with it.
    fn over(&mut self, id: LinkId) -> Result<ControlFlow<()>, Error> {
        let Some(peer) = self.shared.peers.remove(id) else { return Ok(ControlFlow::Continue(())) };
        self.served |= peer.was_up.load(Ordering::Relaxed);
        let messages = peer.dropped.load(Ordering::Relaxed);
        if messages > 0 {
            self.shared.emit(SessionEvent::Dropped { peer: peer.name(), messages });
        }
        match self.mode {
            Mode::Connect { .. } => {
                if let Some(CloseReason::Peer { code, .. }) = peer.link.close_reason()
                    && code == CloseCode::Replaced.number()
                {
                    return Err(Error::Replaced);
                }
                if self.is_finished(&peer, &peer.end_sent) {
                    return Ok(ControlFlow::Break(()));
                }
                if let Some(channel) = peer.torn_channel(&self.shared, peer.gone()) {
                    self.torn(peer.name(), channel)?;
                }
                self.shared.emit(SessionEvent::Reconnecting);
                self.connect_at = Some(Instant::now() + RECONNECT_DELAY);
                Ok(ControlFlow::Continue(()))
            }
            Mode::Listen { once } => {
                let gone = peer.gone();
                if gone == Gone::Vanished
                    && let Some(channel) = peer.torn_channel(&self.shared, gone)
                {
                    self.torn(peer.name(), channel)?;
                }
                let is_last = self.shared.peers.all().is_empty() && self.served;
                let ended = self.has_inputs && self.have_inputs_ended();
                let is_over = is_last && (ended && self.is_finished(&peer, &peer.end_sent) || once);
                Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
            }
        }
    }

    /// Tells the peers, and lets the outputs take what has come.
    fn end(self, inbox: &Receiver<Message>, has_failed: bool) {
        let peers = self.shared.peers.all();
        self.shared.peers.end();
        self.shared.emit(SessionEvent::Ending { statistics: self.shared.statistics() });
        let (code, words) =
            if has_failed { (CloseCode::Failed, "failed") } else { (CloseCode::Done, "stopped") };
        peers.iter().for_each(|peer| peer.link.close_with(code, words));
        let deadline = Instant::now() + DRAIN;
        let mut left = peers.len();
        while left > 0 {
            match inbox.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
                Ok(Message::Over(_)) => left -= 1,
                // Asked twice.
                Ok(Message::Stop) | Err(_) => break,
                Ok(_) => {}
            }
        }
        self.endpoint.close();
        if let Some(acceptor) = self.acceptor {
            let _ = acceptor.join();
        }
        // Before the event: a program that learns of the end may open the same address again.
        drop(self.endpoint);
        self.shared.emit(SessionEvent::Ended);
    }
}

/// Reads an input to its end.
fn read(shared: &Shared, channel: u8, mut input: Box<dyn Input>) {
    let clock = Clock::new();
    loop {
        let read = input.next();
        // Now, and not when there is room to send it.
        let stamp = clock.utc();
        match read {
            Ok(Some(_)) if shared.inputs_ended.load(Ordering::Relaxed) => return,
            Ok(Some(message)) => match shared.peers.send(channel, &message, stamp) {
                Ok(true) => {}
                Ok(false) => return,
                Err(source) => return shared.notify(Message::Failed(Error::Send { channel, source })),
            },
            Ok(None) => return shared.notify(Message::InputEnded),
            Err(source) => return shared.notify(Message::Failed(Error::Input { channel, source })),
        }
    }
}
