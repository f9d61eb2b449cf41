//! RTMP and RTMPS: publishers come in here (OBS, FFmpeg, GStreamer, phones).
//!
//! ```text
//! sockets ─► thread "rtmp" ─► ServerSession ─► Feed: FLV tags ─► units ─► Assembler ─► Contribution ─► Live
//!            (one epoll for all)   transport::rtmp              delivery::assemble      entrance
//! ```
//! A connection that has not been let in costs little, and there are few of them (`crowd`): 128 from one network, 256 in all; it
//! has 5 s for the handshake and 10 s until it publishes. Playing is not offered.

mod connection;
mod feed;
mod status;
mod target;

pub use status::Counts;

use crate::crowd::{self, Room};
use crate::entrance::Entrance;
use crate::wire::Wire;
use connection::{Closed, Connection, Context};
use glassline_delivery::policy::StreamName;
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Event, Poller, Waker, Wakeup, Watch};
use glassline_io::tcp::{Connection as Socket, Listener};
use glassline_media::Time;
use glassline_streams::status::{Companion, Door, OutputStatus, PeerStatus, ServiceCount, SourceStatus};
use glassline_transport::rtmp::ServerSession;
use glassline_transport::rtmp::handshake::RANDOM_BYTES;
use status::{Board, count};
use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Connections at once.
const CONNECTIONS_MAX: usize = 1024;
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

/// Where publishers connect to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Listen {
    /// The address.
    pub address: SocketAddr,
    /// Whether they speak TLS (RTMPS).
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
pub struct Rtmp {
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

impl Rtmp {
    /// Listens nowhere yet.
    pub fn new(server: Arc<dyn Entrance>) -> Rtmp {
        Rtmp { server, board: Arc::default(), running: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Opens the sockets of `wanted` that are not open yet. Nothing else changes before [`Rtmp::arrange`].
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

    /// Listens where [`Rtmp::open`] was asked to, and nowhere else. Connections that are there go on.
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

impl Drop for Rtmp {
    fn drop(&mut self) {
        self.end();
    }
}

impl Companion for Rtmp {
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
            protocol: if listen.tls { "rtmps" } else { "rtmp" },
            port: address.port(),
        };
        all.map(door).collect()
    }

    fn counts(&self) -> Vec<ServiceCount> {
        let Counts { publishing, connections, crowded_out, broken, timed_out, refused, publishers } =
            Rtmp::counts(self);
        if connections == 0 && self.lock().is_none() {
            return Vec::new();
        }
        let total = |name, help, value| ServiceCount { name, is_gauge: false, help, value };
        vec![
            ServiceCount {
                name: "rtmp_publishers",
                is_gauge: true,
                help: "Current publishers over RTMP.",
                value: publishing,
            },
            total("rtmp_connections_total", "Connections to the listeners of RTMP.", connections),
            total("rtmp_publishers_total", "Publishers over RTMP that were let in.", publishers),
            total("rtmp_refused_total", "Clients over RTMP that were refused.", refused),
            total(
                "rtmp_crowded_out_total",
                "Connections over RTMP closed before they published, to make room.",
                crowded_out,
            ),
            total("rtmp_broken_total", "Connections ended because what came is not RTMP.", broken),
            total(
                "rtmp_timed_out_total",
                "Connections over RTMP ended because nothing came in time.",
                timed_out,
            ),
        ]
    }
}

impl Running {
    fn start(server: &Arc<dyn Entrance>, board: &Arc<Board>) -> io::Result<Running> {
        let (wanted, commands) = channel();
        let door = Listening::new(Arc::clone(server), Arc::clone(board), commands)?;
        let waker = door.waker.clone();
        let thread = std::thread::Builder::new().name("rtmp".into()).spawn(move || door.run())?;
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
    again: Vec<u64>,
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
            again: Vec::new(),
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
                tracing::error!(%error, "epoll failed; RTMP is not served any more");
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
                tracing::error!(address = %listen.address, %error, "RTMP is not served here");
                continue;
            }
            let protocol = if listen.tls { "RTMPS" } else { "RTMP" };
            let address = listener.local_address().unwrap_or(listen.address);
            tracing::info!(%address, "{protocol} publishers are served");
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
                    tracing::warn!(%error, "RTMP: a connection could not be accepted");
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
        let room = crowd::room(waiting.map(|(id, connection)| (*id, connection.peer().ip())), peer.ip());
        match room {
            Room::Free if self.connections.len() < CONNECTIONS_MAX => {}
            Room::Free | Room::None => return count(&self.board.counters.crowded_out),
            Room::InPlaceOf(oldest) => {
                count(&self.board.counters.crowded_out);
                self.connections.remove(&oldest);
            }
        }
        let session = tls.then(|| self.server.accept_tls()).transpose();
        let wire = match session {
            Ok(Some(session)) => Wire::secured(socket, session),
            Ok(None) => Wire::plain(socket),
            Err(error) => {
                tracing::error!(%peer, %error, "RTMPS: no TLS");
                return;
            }
        };
        let _ = wire.tcp().send_at_once();
        let (id, now) = (self.next_connection, self.server.clock().now());
        if let Err(error) = self.poller.add(&wire, id, Watch::Edges) {
            tracing::warn!(%peer, %error, "RTMP: a connection could not be watched");
            return;
        }
        self.next_connection += 1;
        let session = ServerSession::new(noise(self.server.clock().seed() ^ id), now);
        let connection = Connection::new(id, wire, peer, session, now);
        self.next_timeout = self.next_timeout.min(connection.poll_timeout());
        self.connections.insert(id, connection);
    }

    fn turn(&mut self, id: u64) {
        if self.with(id, Connection::take_turn).unwrap_or(false) {
            self.again.push(id);
        }
    }

    /// Lets a connection do something, which may end it, by a panic too.
    fn with<T>(
        &mut self,
        id: u64,
        work: impl FnOnce(&mut Connection, &mut Context<'_>) -> Result<T, Closed>,
    ) -> Option<T> {
        let mut connection = self.connections.remove(&id)?;
        let Listening { server, board, scratch, .. } = self;
        let now = server.clock().now();
        let mut context = Context { server, board, scratch, now };
        let worked = contain(Border::Connection, || {
            inject(Border::Connection, || format!("rtmp {}", connection.peer()));
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
                self.with(id, Connection::handle_timeout);
            } else {
                self.next_timeout = self.next_timeout.min(at);
            }
        }
    }
}

/// Bytes for a handshake, which have to differ from others and need not be secret (splitmix64).
fn noise(mut state: u64) -> [u8; RANDOM_BYTES] {
    let mut bytes = [0; RANDOM_BYTES];
    for piece in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        piece.copy_from_slice(&(mixed ^ (mixed >> 31)).to_le_bytes()[..piece.len()]);
    }
    bytes
}

#[cfg(test)]
#[path = "rtmp_tests.rs"]
mod tests;
