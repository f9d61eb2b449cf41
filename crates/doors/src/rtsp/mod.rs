//! RTSP and RTSPS: programs publish here (ANNOUNCE, RECORD), and play (DESCRIBE, PLAY), over UDP or on the connection.
//!
//! ```text
//! sockets ─► thread "rtsp" ─► ServerSession ─┬─► units ─► Assembler ─► Contribution ─► Live
//!            (one epoll for all)             └─◄ units ◄─ Demuxer ◄─ Attendance ◄─ Live
//! ```
//! A connection that neither publishes nor plays costs little, and there are few of them: 128 from one network, 256 in all, of which
//! the oldest of the network that has most makes room for the next, and 30 s until it publishes or plays. Datagrams go to the address of a connection's other
//! end alone.

mod connection;
mod query;
mod status;
mod viewer;

pub use status::Counts;

use crate::crowd::{self, Room};
use crate::entrance::Entrance;
use crate::wire::Wire;
use connection::{Closed, Connection, Context};
use glassline_delivery::policy::StreamName;
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Event, Poller, Waker, Wakeup, Watch};
use glassline_io::random;
use glassline_io::tcp::{Connection as Socket, Listener};
use glassline_io::udp::Inbox;
use glassline_media::Time;
use glassline_streams::status::{Companion, Door, OutputStatus, PeerStatus, ServiceCount, SourceStatus};
use glassline_transport::rtp;
use glassline_transport::rtsp::server::ServerSession;
use status::{Board, count};
use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Wake;
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections of a listener that are accepted in a row.
const ACCEPTS_A_TURN: usize = 64;
/// How long nothing is accepted after the system has refused to.
const ACCEPT_PAUSE: Duration = Duration::from_millis(200);
/// Bytes of a read. A picture of 50 Mbit/s fits.
const READ_BYTES: usize = 256 << 10;
/// How long the thread rests after a panic outside of any connection.
const PAUSE_AFTER_PANIC: Duration = Duration::from_secs(1);
/// The token under which the thread is woken; those of listeners begin at `LISTENERS`, and connections have smaller ones.
const WAKE: u64 = u64::MAX;
const LISTENERS: u64 = 1 << 63;

/// Where clients connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// Whether they speak TLS (RTSPS).
    pub tls: bool,
}

/// An address cannot be listened on.
#[derive(Debug, thiserror::Error)]
#[error("cannot listen on {address}: {reason}")]
pub struct ListenError {
    /// The address.
    pub address: SocketAddr,
    /// What the system says.
    pub reason: io::Error,
}

/// Listeners that are wanted, with the sockets of those that are new.
#[derive(Debug)]
pub struct Opened(Vec<(Listen, Option<Listener>)>);

/// The door: keeps its thread running. Dropping it ends it.
pub struct Rtsp {
    server: Arc<dyn Entrance>,
    board: Arc<Board>,
    running: Mutex<Option<Running>>,
}

/// The thread, seen from outside.
struct Running {
    listens: Vec<Listen>,
    addresses: Vec<SocketAddr>,
    wanted: Sender<Opened>,
    waker: Waker,
    thread: JoinHandle<()>,
}

impl Rtsp {
    /// Listens nowhere yet.
    pub fn new(server: Arc<dyn Entrance>) -> Rtsp {
        Rtsp { server, board: Arc::default(), running: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the sockets of `wanted` that are not open yet. Nothing else changes before [`Rtsp::arrange`].
    ///
    /// # Errors
    /// The first address that cannot be listened on.
    pub fn open(&self, wanted: &[Listen]) -> Result<Opened, ListenError> {
        let running = self.lock();
        let is_open = |address| {
            running
                .as_ref()
                .is_some_and(|running| running.listens.iter().any(|listen| listen.address == address))
        };
        let open = |listen: &Listen| {
            let Listen { address, .. } = *listen;
            if is_open(address) {
                return Ok((*listen, None));
            }
            let group = Listener::bind_group(address, 1).map_err(|reason| ListenError { address, reason })?;
            Ok((*listen, group.into_iter().next()))
        };
        wanted.iter().map(open).collect::<Result<_, _>>().map(Opened)
    }

    /// Listens where [`Rtsp::open`] was asked to, and nowhere else. Connections that are there go on.
    ///
    /// # Errors
    /// The thread cannot be started.
    pub fn arrange(&self, opened: Opened) -> io::Result<()> {
        let mut running = self.lock();
        if opened.0.is_empty() {
            return running.take().map_or(Ok(()), |running| {
                running.end();
                Ok(())
            });
        }
        if running.is_none() {
            *running = Some(Running::start(&self.server, &self.board)?);
        }
        let Some(running) = running.as_mut() else { return Ok(()) };
        let address = |(listen, listener): &(Listen, Option<Listener>)| {
            let known = || running.listens.iter().position(|known| known.address == listen.address);
            let known = || known().and_then(|at| running.addresses.get(at).copied());
            let opened = listener.as_ref().and_then(|listener| listener.local_address().ok());
            opened.or_else(known).unwrap_or(listen.address)
        };
        running.addresses = opened.0.iter().map(address).collect();
        running.listens = opened.0.iter().map(|(listen, _)| *listen).collect();
        // The thread has gone only where it has panicked beyond help, and then it has said so.
        let _ = running.wanted.send(opened);
        running.waker.wake();
        Ok(())
    }

    /// Where it listens, in the order of what was opened.
    pub fn addresses(&self) -> Vec<SocketAddr> {
        self.lock().as_ref().map_or_else(Vec::new, |running| running.addresses.clone())
    }

    /// Ends all connections and listens nowhere.
    pub fn end(&self) {
        if let Some(running) = self.lock().take() {
            running.end();
        }
    }

    /// What has taken place.
    pub fn counts(&self) -> Counts {
        self.board.counts()
    }
}

impl Drop for Rtsp {
    fn drop(&mut self) {
        self.end();
    }
}

impl Companion for Rtsp {
    fn sources(&self) -> BTreeMap<StreamName, SourceStatus> {
        BTreeMap::new()
    }

    fn outputs(&self, _name: &StreamName) -> Vec<OutputStatus> {
        Vec::new()
    }

    fn peers(&self, name: &StreamName) -> Vec<PeerStatus> {
        self.board.peers(name, self.server.clock().now())
    }

    fn doors(&self) -> Vec<Door> {
        let running = self.lock();
        let Some(running) = running.as_ref() else { return Vec::new() };
        let all = running.listens.iter().zip(&running.addresses);
        let door = |(listen, address): (&Listen, &SocketAddr)| Door {
            protocol: if listen.tls { "rtsps" } else { "rtsp" },
            port: address.port(),
        };
        all.map(door).collect()
    }

    fn counts(&self) -> Vec<ServiceCount> {
        if self.lock().is_none() {
            return Vec::new();
        }
        let Counts {
            publishing,
            watching,
            connections,
            crowded_out,
            broken,
            timed_out,
            refused,
            publishers,
            viewers,
        } = Rtsp::counts(self);
        let total = |name, help, value| ServiceCount { name, is_gauge: false, help, value };
        let gauge = |name, help, value| ServiceCount { name, is_gauge: true, help, value };
        vec![
            gauge("rtsp_publishers", "Current publishers over RTSP.", publishing),
            gauge("rtsp_viewers", "Current viewers over RTSP.", watching),
            total("rtsp_connections_total", "Connections to the listeners of RTSP.", connections),
            total("rtsp_publishers_total", "Publishers over RTSP that were let in.", publishers),
            total("rtsp_viewers_total", "Viewers over RTSP that were let in.", viewers),
            total("rtsp_refused_total", "Clients over RTSP that were refused.", refused),
            total(
                "rtsp_crowded_out_total",
                "Connections over RTSP closed before they were let in, to make room.",
                crowded_out,
            ),
            total("rtsp_broken_total", "Connections over RTSP that spoke no TLS or read nothing.", broken),
            total("rtsp_timed_out_total", "Publishers over RTSP that fell silent.", timed_out),
        ]
    }
}

impl Running {
    fn start(server: &Arc<dyn Entrance>, board: &Arc<Board>) -> io::Result<Running> {
        let (wanted, commands) = channel();
        let door = Listening::new(Arc::clone(server), Arc::clone(board), commands)?;
        let waker = door.waker.clone();
        let thread = std::thread::Builder::new().name("rtsp".into()).spawn(move || door.run())?;
        Ok(Running { listens: Vec::new(), addresses: Vec::new(), wanted, waker, thread })
    }

    fn end(self) {
        let Running { wanted, waker, thread, .. } = self;
        // The thread ends where there is no more to hear.
        drop(wanted);
        waker.wake();
        let _ = thread.join();
    }
}

/// Why the thread goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read than it got a turn for.
    Unfinished,
    /// A connection has a time limit.
    Connection,
    /// Accepting was paused.
    Accept,
}

/// What the thread has.
struct Listening {
    server: Arc<dyn Entrance>,
    board: Arc<Board>,
    poller: Poller,
    waker: Waker,
    wanted: Receiver<Opened>,
    /// By the numbers in their tokens, which are never given again.
    listeners: BTreeMap<u64, (Listen, Listener)>,
    next_listener: u64,
    connections: BTreeMap<u64, Connection>,
    next_connection: u64,
    scratch: Vec<u8>,
    inbox: Inbox,
    /// Connections of which the streams have news.
    calls: Arc<Mutex<BTreeSet<u64>>>,
    again: BTreeSet<u64>,
    next_timeout: Time,
    /// Nothing is accepted until then.
    paused_until: Option<Time>,
    has_ended: bool,
}

impl Listening {
    fn new(server: Arc<dyn Entrance>, board: Arc<Board>, wanted: Receiver<Opened>) -> io::Result<Listening> {
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKE)?;
        Ok(Listening {
            server,
            board,
            poller,
            waker,
            wanted,
            listeners: BTreeMap::new(),
            next_listener: LISTENERS,
            connections: BTreeMap::new(),
            next_connection: 0,
            scratch: vec![0; READ_BYTES],
            inbox: Inbox::default(),
            calls: Arc::default(),
            again: BTreeSet::new(),
            next_timeout: Time::NEVER,
            paused_until: None,
            has_ended: false,
        })
    }

    fn run(mut self) {
        while contain(Border::Worker, || self.serve()).is_err() {
            self.server.rest(PAUSE_AFTER_PANIC);
            // What has come meanwhile is not told again.
            self.again = self.connections.keys().copied().collect();
        }
        for (_, connection) in std::mem::take(&mut self.connections) {
            let board = &self.board;
            let _ = contain(Border::Connection, || connection.close(&Closed::Ending, board));
        }
        self.board.clear();
    }

    fn serve(&mut self) {
        let mut ready = Vec::new();
        while !self.has_ended {
            let now = self.server.clock().now();
            let mut wakeup = Wakeup::NEVER.or(Reason::Connection, self.next_timeout);
            wakeup = wakeup.or(Reason::Accept, self.paused_until.unwrap_or(Time::NEVER));
            if !self.again.is_empty() {
                wakeup = wakeup.or(Reason::Unfinished, now);
            }
            if let Err(error) = self.poller.wait_until(&wakeup, now, &mut ready) {
                tracing::error!(%error, "epoll failed; RTSP is not served any more");
                return;
            }
            for event in &ready {
                self.handle(*event);
            }
            for id in std::mem::take(&mut self.again) {
                self.turn(id);
            }
            self.handle_timeouts();
        }
    }

    fn handle(&mut self, event: Event) {
        match event.token {
            WAKE => {
                self.waker.clear();
                self.rearrange();
                let calls = std::mem::take(&mut *self.calls.lock().unwrap_or_else(PoisonError::into_inner));
                self.again.extend(calls);
            }
            token if token >= LISTENERS => self.accept(token),
            token => self.turn(token),
        }
    }

    /// Takes the newest listeners that are wanted.
    fn rearrange(&mut self) {
        loop {
            match self.wanted.try_recv() {
                Ok(Opened(wanted)) => self.listen(wanted),
                Err(std::sync::mpsc::TryRecvError::Empty) => return,
                Err(std::sync::mpsc::TryRecvError::Disconnected) => {
                    self.has_ended = true;
                    return;
                }
            }
        }
    }

    fn listen(&mut self, wanted: Vec<(Listen, Option<Listener>)>) {
        self.listeners.retain(|_, (listen, _)| {
            let known = wanted.iter().find(|(wanted, _)| wanted.address == listen.address);
            listen.tls = known.map_or(listen.tls, |(wanted, _)| wanted.tls);
            known.is_some()
        });
        for (listen, listener) in wanted {
            let Some(listener) = listener else { continue };
            let token = self.next_listener;
            self.next_listener += 1;
            if let Err(error) = self.poller.add(&listener, token, Watch::Accepts) {
                tracing::error!(address = %listen.address, %error, "RTSP is not served here");
                continue;
            }
            let protocol = if listen.tls { "RTSPS" } else { "RTSP" };
            let address = listener.local_address().unwrap_or(listen.address);
            tracing::info!(%address, "{protocol} publishers and viewers are served");
            self.listeners.insert(token, (listen, listener));
        }
    }

    fn accept(&mut self, token: u64) {
        for _ in 0..ACCEPTS_A_TURN {
            let Some((listen, listener)) = self.listeners.get(&token) else { return };
            let tls = listen.tls;
            match listener.accept() {
                Ok(Some((socket, peer))) => self.admit(socket, peer, tls),
                Ok(None) => return,
                Err(error) => {
                    tracing::warn!(%error, "RTSP: a connection could not be accepted");
                    self.pause();
                    return;
                }
            }
        }
    }

    /// Accepts nothing for a while: a listener is told again for as long as something waits.
    fn pause(&mut self) {
        for (_, listener) in self.listeners.values() {
            let _ = self.poller.remove(listener);
        }
        self.paused_until = Some(self.server.clock().now() + ACCEPT_PAUSE);
    }

    fn resume(&mut self) {
        self.paused_until = None;
        for (token, (_, listener)) in &self.listeners {
            // One that came meanwhile is watched already.
            let _ = self.poller.add(listener, *token, Watch::Accepts);
        }
    }

    /// Takes a connection, where there is room for it.
    fn admit(&mut self, socket: Socket, peer: SocketAddr, tls: bool) {
        count(&self.board.counters.connections);
        let waiting = self.connections.iter().filter(|(_, connection)| connection.is_waiting());
        match crowd::room(waiting.map(|(id, connection)| (*id, connection.peer().ip())), peer.ip()) {
            Room::Free => {}
            Room::None => return count(&self.board.counters.crowded_out),
            Room::InPlaceOf(oldest) => {
                count(&self.board.counters.crowded_out);
                let _ = self.with(oldest, |_, _| Err::<(), _>(Closed::CrowdedOut));
            }
        }
        let session = tls.then(|| self.server.accept_tls()).transpose();
        let wire = match session {
            Ok(Some(session)) => Wire::secured(socket, session),
            Ok(None) => Wire::plain(socket),
            Err(error) => {
                tracing::error!(%peer, %error, "RTSPS: no TLS");
                return;
            }
        };
        let _ = wire.tcp().send_at_once();
        let (id, now) = (self.next_connection, self.server.clock().now());
        if let Err(error) = self.poller.add(&wire, id, Watch::Edges) {
            tracing::warn!(%peer, %error, "RTSP: a connection could not be watched");
            return;
        }
        self.next_connection += 1;
        let seed = random::seed().ok().and_then(|seed| seed.first_chunk().copied().map(u64::from_le_bytes));
        let seed = seed.unwrap_or(self.server.clock().seed() ^ id);
        let session = ServerSession::new(seed, rtp::Settings::default(), now);
        let connection = Connection::new(id, wire, peer, session, now);
        self.next_timeout = self.next_timeout.min(connection.poll_timeout());
        self.connections.insert(id, connection);
    }

    fn turn(&mut self, id: u64) {
        if self.with(id, Connection::take_turn).unwrap_or(false) {
            self.again.insert(id);
        }
    }

    /// Lets a connection do something, which may end it, by a panic too.
    fn with<T>(
        &mut self,
        id: u64,
        work: impl FnOnce(&mut Connection, &mut Context<'_>) -> Result<T, Closed>,
    ) -> Option<T> {
        let mut connection = self.connections.remove(&id)?;
        let call = Call { id, calls: Arc::clone(&self.calls), waker: self.waker.clone() };
        let waker = Arc::new(call).into();
        let Listening { server, board, scratch, inbox, poller, .. } = self;
        let now = server.clock().now();
        let mut context = Context { server, board, poller, scratch, inbox, waker, now };
        let worked = contain(Border::Connection, || {
            inject(Border::Connection, || format!("rtsp {}", connection.peer()));
            let worked = work(&mut connection, &mut context);
            match worked {
                Ok(done) => Some((connection, done)),
                Err(why) => {
                    connection.close(&why, board);
                    None
                }
            }
        });
        match worked {
            Ok(Some((connection, done))) => {
                self.next_timeout = self.next_timeout.min(connection.poll_timeout());
                self.connections.insert(id, connection);
                Some(done)
            }
            Ok(None) => None,
            Err(_) => {
                self.board.leave(id);
                None
            }
        }
    }

    fn handle_timeouts(&mut self) {
        let now = self.server.clock().now();
        if self.paused_until.is_some_and(|until| now >= until) {
            self.resume();
        }
        if now < self.next_timeout {
            return;
        }
        self.next_timeout = Time::NEVER;
        let due = |connection: &Connection| connection.poll_timeout();
        let timeouts: Vec<(u64, Time)> =
            self.connections.iter().map(|(id, connection)| (*id, due(connection))).collect();
        for (id, at) in timeouts {
            if now >= at {
                if self.with(id, Connection::handle_timeout).unwrap_or(false) {
                    self.again.insert(id);
                }
            } else {
                self.next_timeout = self.next_timeout.min(at);
            }
        }
    }
}

/// A call for one connection: its stream has news.
struct Call {
    id: u64,
    calls: Arc<Mutex<BTreeSet<u64>>>,
    waker: Waker,
}

impl Wake for Call {
    fn wake(self: Arc<Self>) {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner).insert(self.id);
        self.waker.wake();
    }
}
