//! The thread of a listening socket, which has all the peers that come to it.

use super::outlet::{Outlet, link_figures};
use super::session::{Asked, Session};
use super::waiting::Waiting;
use crate::arrival::may;
use crate::entrance::Entrance;
use crate::log_throttle::LogThrottle;
use glassline_delivery::policy::{Action, StreamName};
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Event, Poller, Waker, Watch};
use glassline_io::random;
use glassline_io::udp::{Arrivals, Local, Port};
use glassline_media::Time;
use glassline_streams::status::PeerStatus;
use glassline_transport::srt::{
    Connection, Handled, LATENCY_MAX, Life, Listener, PEER_IDLE, Rejection, Request, Settings,
};
use glassline_transport::srtla::{self, Groups};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Tokens of the poller.
const WAKER: u64 = 0;
const SOCKET: u64 = 1;
/// System calls for what has come, before what waits to leave gets its turn.
const RECEIVES: usize = 16;
/// Timers that are due within this time are handled together.
const GRAIN: Duration = Duration::from_micros(500);
/// Where publishers send fast, what comes is gathered for so long before it is looked at again: it is held back for far longer anyhow.
const GATHER: Duration = Duration::from_millis(1);
/// So many datagrams at once are fast.
const FAST: usize = 16;
/// Callers of an address of which one was refused are not heard for so long, so that none fills the logs; so many are remembered.
const REFUSED_FOR: Duration = Duration::from_millis(200);
const REFUSED_MAX: usize = 64;
/// Bytes that viewers of one socket have not acknowledged, at most, all together: the one with most of them is ended.
const UNACKNOWLEDGED_MAX: usize = 1 << 30;
/// A viewer that acknowledges nothing for so long beyond its latency is gone.
const STUCK: Duration = Duration::from_secs(2);
/// Figures are written down this often.
const FIGURES: Duration = Duration::from_millis(500);

/// What the thread shares with those that ask for its figures and with publishers of streams.
#[derive(Default)]
pub(super) struct Shared {
    is_stopping: AtomicBool,
    /// Viewers of which the stream has news.
    news: Mutex<BTreeSet<u32>>,
    peers: Mutex<BTreeMap<u32, (StreamName, PeerStatus)>>,
    accepted: AtomicU64,
    refused: AtomicU64,
    reset: AtomicU64,
    /// Other settings, until the thread takes them over.
    settings: Mutex<Option<(Settings, usize)>>,
}

impl Shared {
    fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        // Plain tables, which are whole after each change.
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Wakes the thread for one viewer.
struct News {
    shared: Arc<Shared>,
    waker: Waker,
    socket: Mutex<Option<u32>>,
}

impl Wake for News {
    fn wake(self: Arc<Self>) {
        let Some(socket) = *Shared::lock(&self.socket) else { return };
        let is_first = {
            let mut news = Shared::lock(&self.shared.news);
            news.insert(socket);
            news.len() == 1
        };
        if is_first {
            self.waker.wake();
        }
    }
}

/// The thread. Dropping it ends all its connections and waits for that.
pub(super) struct Listening {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
    address: SocketAddr,
    is_bonded: bool,
}

impl Listening {
    /// Listens at `address`, for SRT over several lines where `is_bonded`.
    ///
    /// # Errors
    /// The system's: the address is taken or none of ours.
    pub(super) fn start(
        server: &Arc<dyn Entrance>,
        address: SocketAddr,
        is_bonded: bool,
        settings: Settings,
        max_peers: usize,
    ) -> io::Result<Listening> {
        let port = Port::open(&Local::at(address))?;
        let address = port.local_address()?;
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKER)?;
        poller.add(&port, SOCKET, Watch::Edges)?;
        let shared = Arc::new(Shared::default());
        let now = server.clock().now();
        let listener = new_listener(settings, max_peers, now)?;
        let groups = if is_bonded { Some(Groups::new(max_peers, random::seed()?, now)) } else { None };
        let worker = Worker {
            server: Arc::clone(server),
            shared: Arc::clone(&shared),
            waker: waker.clone(),
            outlet: Outlet { port, groups },
            poller,
            listener,
            sessions: BTreeMap::new(),
            arrivals: Arrivals::default(),
            buffer: Vec::new(),
            out: Vec::new(),
            figures_due: Time::ZERO,
            refusals: LogThrottle::default(),
            refused: VecDeque::new(),
            waiting: Waiting::default(),
        };
        let thread = thread::Builder::new().name("srt listen".into()).spawn(move || worker.run())?;
        Ok(Listening { shared, waker, thread: Some(thread), address, is_bonded })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes on with other settings, which hold for callers to come; a passphrase too.
    pub(super) fn reconfigure(&self, settings: Settings, max_peers: usize) {
        *Shared::lock(&self.shared.settings) = Some((settings, max_peers));
        self.waker.wake();
    }

    /// Whether it is for SRT over several lines.
    pub(super) fn is_bonded(&self) -> bool {
        self.is_bonded
    }

    /// Peers that are there.
    pub(super) fn connections(&self) -> u64 {
        Shared::lock(&self.shared.peers).len() as u64
    }

    /// Peers that were let in.
    pub(super) fn accepted(&self) -> u64 {
        self.shared.accepted.load(Ordering::Relaxed)
    }

    /// Callers that were refused, and handshakes that made no sense.
    pub(super) fn refused(&self) -> u64 {
        self.shared.refused.load(Ordering::Relaxed)
    }

    /// Packets of an earlier process's connections, to which the peer was told that its own is over.
    pub(super) fn resets(&self) -> u64 {
        self.shared.reset.load(Ordering::Relaxed)
    }

    /// The peers that publish or watch `name`.
    pub(super) fn peers(&self, name: &StreamName) -> Vec<PeerStatus> {
        let peers = Shared::lock(&self.shared.peers);
        peers.values().filter(|(stream, _)| stream == name).map(|(_, peer)| peer.clone()).collect()
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A listener that tells peers of an earlier process of this machine's that their connections are over. The secret is the boot's id,
/// which each user of the machine can read. One that knows it learns nothing of use: to have a connection ended it needs the peer's
/// own id and address, and with these a SHUTDOWN in the server's name does the same.
///
/// # Errors
/// The system has no random bytes.
pub(super) fn new_listener(settings: Settings, max_peers: usize, now: Time) -> io::Result<Listener> {
    let mut listener = Listener::new(settings, max_peers, random::seed()?, now);
    if let Some(id) = random::boot_id() {
        listener.set_socket_secret(id.as_bytes());
    }
    Ok(listener)
}

/// A peer that was let in, and when it has to be looked at.
struct Guest {
    session: Session,
    remote: SocketAddr,
    due: Time,
    is_dirty: bool,
}

struct Worker {
    server: Arc<dyn Entrance>,
    shared: Arc<Shared>,
    waker: Waker,
    outlet: Outlet,
    poller: Poller,
    listener: Listener,
    sessions: BTreeMap<u32, Guest>,
    arrivals: Arrivals,
    buffer: Vec<u8>,
    out: Vec<u8>,
    figures_due: Time,
    refusals: LogThrottle,
    /// Addresses of which a caller was refused by the rules, and when.
    refused: VecDeque<(IpAddr, Time)>,
    waiting: Waiting,
}

impl Worker {
    fn run(mut self) {
        loop {
            match contain(Border::Worker, || self.work()) {
                Ok(true) => break,
                Ok(false) => {}
                // Each peer has a border of its own; this one is about what stands around them.
                Err(_) => thread::sleep(Duration::from_millis(100)),
            }
        }
        let now = self.server.clock().now();
        for (_, remote, connection) in self.listener.connections() {
            connection.close(now);
            self.outlet.transmit(connection, remote, &mut self.out, now);
        }
    }

    /// Works until it has to stop. Returns whether it has to.
    fn work(&mut self) -> bool {
        let mut ready: Vec<Event> = Vec::new();
        loop {
            if self.shared.is_stopping.load(Ordering::Acquire) {
                return true;
            }
            self.reconfigure();
            let received = self.receive();
            for socket in std::mem::take(&mut *Shared::lock(&self.shared.news)) {
                if let Some(guest) = self.sessions.get_mut(&socket) {
                    guest.is_dirty = true;
                }
            }
            let now = self.server.clock().now();
            // Before the first packets of a viewer, which would come before it knows that it is let in.
            while let Some((to, datagram)) = self.listener.poll_answer() {
                self.outlet.send(to, &datagram, 0);
            }
            self.serve(now);
            while let Some((to, datagram)) = self.listener.poll_answer() {
                self.outlet.send(to, &datagram, 0);
            }
            self.outlet.send_answers();
            if self.figures_due <= now {
                self.write_figures(now);
            }
            let due = self.sessions.values().map(|guest| guest.due).min().unwrap_or(Time::NEVER);
            let due = due.min(self.figures_due).max(now + GRAIN);
            // A viewer's packets do not wait.
            if received >= FAST && self.sessions.values().all(|guest| guest.session.publishes()) {
                thread::sleep(GATHER);
            }
            if let Err(error) = self.poller.wait(Some(due.since(now)), &mut ready) {
                tracing::error!(%error, "epoll failed; SRT is not served any more");
                return true;
            }
            if ready.iter().any(|event| event.token == WAKER) {
                self.waker.clear();
            }
        }
    }

    /// Returns how many datagrams came.
    fn receive(&mut self) -> usize {
        let mut count = 0;
        for _ in 0..RECEIVES {
            let mut arrivals = std::mem::take(&mut self.arrivals);
            let has_come = match self.outlet.port.receive(&mut arrivals) {
                Ok(has_come) => has_come,
                Err(error) => {
                    // It was about one datagram.
                    tracing::debug!("receiving SRT: {error}");
                    true
                }
            };
            if has_come {
                for arrival in arrivals.datagrams() {
                    count += 1;
                    self.handle(arrival.at, arrival.from, arrival.bytes);
                }
            }
            let is_full = arrivals.is_full();
            self.arrivals = arrivals;
            if !is_full {
                break;
            }
        }
        count
    }

    fn handle(&mut self, at: Time, from: SocketAddr, datagram: &[u8]) {
        let (from, line) = match &mut self.outlet.groups {
            None => (from, None),
            Some(groups) => match groups.handle_datagram(at, from, datagram) {
                srtla::Handled::Packet(peer, line) => (peer, Some(line)),
                srtla::Handled::Nothing => return,
            },
        };
        let listener = &mut self.listener;
        match contain(Border::Connection, || listener.handle_datagram_of_line(at, from, line, datagram)) {
            Ok(Handled::Connection(socket)) => {
                if let Some(guest) = self.sessions.get_mut(&socket) {
                    guest.is_dirty = true;
                }
            }
            Ok(Handled::Request(request)) => self.admit(at, *request),
            Ok(Handled::Refused(peer, why)) => self.tell_refusal(peer, why.words()),
            Ok(Handled::Nothing) => {}
            Err(_) => {
                let doomed: Vec<u32> = self
                    .sessions
                    .iter()
                    .filter(|(_, guest)| guest.remote == from)
                    .map(|(socket, _)| *socket)
                    .collect();
                doomed.into_iter().for_each(|socket| self.end(socket, "ended by a fault"));
            }
        }
    }

    /// A caller asks for a connection.
    fn admit(&mut self, now: Time, request: Request) {
        let peer = request.from;
        while self.refused.front().is_some_and(|(_, since)| now.since(*since) >= REFUSED_FOR) {
            self.refused.pop_front();
        }
        if self.refused.iter().any(|(address, _)| *address == peer.ip()) {
            // It asks again, and is heard then.
            return;
        }
        // A caller that comes again from the same port has lost the connection that it had.
        let former: Vec<u32> = self
            .sessions
            .iter()
            .filter(|(_, guest)| guest.remote == peer)
            .map(|(socket, _)| *socket)
            .collect();
        former.into_iter().for_each(|socket| self.end(socket, "came again"));
        if let Err(refused) = self.listener.check() {
            self.listener.reject(now, &request, refused.0);
            return self.tell_refusal(peer, refused.0.words());
        }
        let asked = match Asked::parse(peer, &request.stream_id) {
            Ok(asked) => asked,
            Err((status, words)) => return self.reject(now, &request, Rejection::of_status(status), &words),
        };
        let has_to_wait = match asked.publishes() {
            true => self.contest(now, peer, &asked),
            false => self.waiting.holds(&self.server, peer, &asked, now),
        };
        if has_to_wait {
            return;
        }
        let news = Arc::new(News {
            shared: Arc::clone(&self.shared),
            waker: self.waker.clone(),
            socket: Mutex::default(),
        });
        let waker = std::task::Waker::from(Arc::clone(&news));
        match Session::open(&self.server, &asked, waker) {
            Ok(session) => match self.listener.accept(now, request) {
                Ok(socket) => {
                    *Shared::lock(&news.socket) = Some(socket);
                    if let Some((_, connection)) = self.listener.connection(socket) {
                        connection.set_idle(PEER_IDLE, STUCK);
                    }
                    self.shared.accepted.fetch_add(1, Ordering::Relaxed);
                    let guest = Guest { session, remote: peer, due: now, is_dirty: true };
                    self.sessions.insert(socket, guest);
                    self.figures_due = now;
                }
                Err(refused) => self.tell_refusal(peer, refused.0.words()),
            },
            Err((rejection, words)) => self.reject(now, &request, rejection, &words),
        }
    }

    /// A caller would publish a name that a peer of the same address has: where that is gone, it gives the name up. Returns whether the
    /// caller has to ask again, since that is not known yet.
    fn contest(&mut self, now: Time, peer: SocketAddr, asked: &Asked) -> bool {
        let (outlet, own) = (&self.outlet, self.outlet.addresses(peer, now));
        let is_holder = |guest: &Guest| {
            let is_of_name = guest.session.publishes() && guest.session.name() == asked.name();
            is_of_name && outlet.addresses(guest.remote, now).iter().any(|address| own.contains(address))
        };
        let holder = self.sessions.iter_mut().find(|(_, guest)| is_holder(guest));
        let Some((socket, guest)) = holder.filter(|_| !asked.takes_over()) else { return false };
        let (socket, server) = (*socket, &self.server);
        if !may(server, &asked.client(), asked.name(), Action::Publish) {
            return false;
        }
        let Some((_, connection)) = self.listener.connection(socket) else { return false };
        guest.is_dirty = true;
        match connection.contest(peer, now) {
            Life::There => false,
            Life::Asked => true,
            Life::Gone => {
                // What is held back of it goes out at once: it would be lost with the connection.
                guest.session.work(connection, &mut self.buffer, now + LATENCY_MAX);
                self.end(socket, "was gone and came again");
                false
            }
        }
    }

    fn reject(&mut self, now: Time, request: &Request, rejection: Rejection, words: &str) {
        self.listener.reject(now, request, rejection);
        if self.refused.len() >= REFUSED_MAX {
            self.refused.pop_front();
        }
        self.refused.push_back((request.from.ip(), now));
        self.tell_refusal(request.from, words);
    }

    fn tell_refusal(&mut self, peer: SocketAddr, words: &str) {
        if self.refusals.should_log(words) {
            tracing::info!(%peer, "a caller of SRT was refused: {words}");
        }
    }

    /// Serves the peers that have news or for which something is due.
    fn serve(&mut self, now: Time) {
        let mut doomed = Vec::new();
        for (socket, guest) in &mut self.sessions {
            if !guest.is_dirty && guest.due > now {
                continue;
            }
            guest.is_dirty = false;
            let Some((remote, connection)) = self.listener.connection(*socket) else {
                doomed.push((*socket, "ended"));
                continue;
            };
            let (session, buffer) = (&mut guest.session, &mut self.buffer);
            let (out, outlet) = (&mut self.out, &self.outlet);
            let served = contain(Border::Connection, || {
                inject(Border::Connection, || format!("srt:{}", session.name()));
                connection.handle_timeout(now);
                let over = session.work(connection, buffer, now);
                if over.is_some() {
                    connection.close(now);
                }
                outlet.transmit(connection, remote, out, now);
                // What a publisher has sent before its end is delivered at its time.
                let has_ended = connection.ended().filter(|_| !connection.holds() || !session.publishes());
                (over.or(has_ended.map(|_| "ended")), connection.poll_timeout())
            });
            match served {
                Ok((None, due)) => guest.due = due.min(guest.session.poll_timeout()),
                Ok((Some(how), _)) => doomed.push((*socket, how)),
                Err(_) => doomed.push((*socket, "ended by a fault")),
            }
        }
        doomed.into_iter().for_each(|(socket, how)| self.end(socket, how));
    }

    fn end(&mut self, socket: u32, how: &'static str) {
        self.listener.remove(socket);
        Shared::lock(&self.shared.peers).remove(&socket);
        if let Some(guest) = self.sessions.remove(&socket) {
            guest.session.leave(how);
        }
    }

    fn write_figures(&mut self, now: Time) {
        self.figures_due = now + FIGURES;
        let refused = self.listener.refused() + self.outlet.groups.as_ref().map_or(0, Groups::refused);
        self.shared.refused.store(refused, Ordering::Relaxed);
        self.shared.reset.store(self.listener.resets(), Ordering::Relaxed);
        if let Some(groups) = &mut self.outlet.groups {
            let sessions = &self.sessions;
            groups.keep(now, |address| sessions.values().any(|guest| guest.remote == address));
        }
        self.bound_memory();
        let mut peers = Shared::lock(&self.shared.peers);
        for (socket, guest) in &self.sessions {
            if let Some((remote, connection)) = self.listener.connection(*socket) {
                let mut status = guest.session.status(remote, connection, now);
                if let Some(groups) = &self.outlet.groups {
                    status.protocol = "srtla";
                    status.figures.extend(link_figures(&groups.figures(remote, now)));
                }
                peers.insert(*socket, (guest.session.name().clone(), status));
            }
        }
    }
}

impl Worker {
    /// Ends the viewer that has acknowledged least, where all together have acknowledged too little.
    fn bound_memory(&mut self) {
        let held = self
            .listener
            .connections()
            .map(|(socket, _, connection)| (connection.unacknowledged_bytes(), socket));
        let held: Vec<_> = held.collect();
        let sum: usize = held.iter().map(|(bytes, _)| bytes).sum();
        if sum > UNACKNOWLEDGED_MAX
            && let Some((bytes, socket)) = held.into_iter().max()
        {
            tracing::warn!(bytes, "a viewer by SRT is ended, since it and others acknowledge too little");
            self.end(socket, "ended for want of memory");
        }
    }

    /// Takes over other settings, which hold for callers to come.
    fn reconfigure(&mut self) {
        if let Some((settings, max_peers)) = Shared::lock(&self.shared.settings).take() {
            self.listener.reconfigure(settings, max_peers);
        }
    }
}

/// Sends what is to leave. What the socket does not take is lost, as on the way, and goes again when it is asked for.
pub(super) fn transmit(
    port: &Port,
    connection: &mut Connection,
    remote: SocketAddr,
    out: &mut Vec<u8>,
    now: Time,
) {
    while let Some(transmit) = connection.poll_transmit(now, out) {
        if let Err(error) = port.send(remote, out, transmit.segment_bytes, 0) {
            tracing::debug!(%remote, "sending SRT: {error}");
        }
    }
}
