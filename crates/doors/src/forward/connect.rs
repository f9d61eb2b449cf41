//! A connection to a service: a name's addresses, one after the other, and the handshake of TLS. It waits on the thread's poller, so
//! that a thread that has to end does so at once.

use super::status::Board;
use glassline_io::client::Wire;
use glassline_io::clock::Clock;
use glassline_io::poll::{Event, Poller, Waker, Watch};
use glassline_io::resolve;
use glassline_io::small_file::Accept;
use glassline_io::tcp::Connection;
use glassline_io::tls::{Connector, READ_BYTES_MIN, Roots};
use glassline_media::Time;
use glassline_transport::rtmp::Address;
use std::io::{self, ErrorKind};
use std::net::{IpAddr, SocketAddr};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::time::Duration;

/// Tokens of the poller.
pub(super) const WAKER: u64 = 0;
pub(super) const SOCKET: u64 = 1;
/// How long a name is resolved, an address is connected to, and TLS is agreed on.
const RESOLVE_TIMEOUT: Duration = Duration::from_secs(20);
const ADDRESS_TIMEOUT: Duration = Duration::from_secs(5);
const TLS_TIMEOUT: Duration = Duration::from_secs(10);
/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// Why there is no connection.
#[derive(Debug)]
pub(super) enum NoConnection {
    /// The thread has to end.
    Stopped,
    /// In words.
    Failed(String),
}

impl From<io::Error> for NoConnection {
    fn from(error: io::Error) -> NoConnection {
        NoConnection::Failed(error.to_string())
    }
}

/// What a thread waits on.
pub(super) struct Waiting {
    pub(super) poller: Poller,
    pub(super) waker: Waker,
    pub(super) clock: Clock,
    ready: Vec<Event>,
}

impl Waiting {
    pub(super) fn new(poller: Poller, waker: Waker, clock: Clock) -> Waiting {
        Waiting { poller, waker, clock, ready: Vec::new() }
    }

    /// Waits for news of the socket or of another thread, until `until` at the latest.
    ///
    /// # Errors
    /// The thread has to end, or the system cannot wait.
    pub(super) fn wait(&mut self, until: Time, board: &Board) -> Result<(), NoConnection> {
        if board.is_stopping() {
            return Err(NoConnection::Stopped);
        }
        let timeout = (until != Time::NEVER).then(|| until.since(self.clock.now()));
        self.poller.wait(timeout, &mut self.ready)?;
        if self.ready.iter().any(|event| event.token == WAKER) {
            self.waker.clear();
        }
        if board.is_stopping() { Err(NoConnection::Stopped) } else { Ok(()) }
    }

    /// Whether the socket has news.
    fn has_news(&self) -> bool {
        self.ready.iter().any(|event| event.token == SOCKET)
    }
}

type Found = Receiver<io::Result<Vec<SocketAddr>>>;

/// What is kept from one attempt to the next.
#[derive(Default)]
pub(super) struct Connecting {
    /// A name that is being resolved: a resolver that hangs must not take more and more threads.
    resolving: Option<(String, u16, Found)>,
    /// The authorities are read when they are first needed.
    connector: Option<Connector>,
}

impl Connecting {
    /// Connects to `address`.
    pub(super) fn connect(
        &mut self,
        address: &Address,
        roots: &Roots,
        waiting: &mut Waiting,
        board: &Board,
    ) -> Result<Wire, NoConnection> {
        let peers = self.resolve(address, waiting, board)?;
        let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for peer in resolve::in_turns(&peers).into_iter().take(ADDRESSES_MAX) {
            match reach(peer, waiting, board) {
                Ok(Ok(socket)) => {
                    board.connected(peer);
                    return if address.tls {
                        self.secure(socket, address, roots, waiting, board)
                    } else {
                        Ok(Wire::Plain(socket))
                    };
                }
                Ok(Err(error)) => failure = error,
                Err(stopped) => return Err(stopped),
            }
        }
        Err(NoConnection::Failed(format!("cannot connect: {failure}")))
    }

    fn resolve(
        &mut self,
        address: &Address,
        waiting: &mut Waiting,
        board: &Board,
    ) -> Result<Vec<SocketAddr>, NoConnection> {
        if let Ok(ip) = address.host.parse::<IpAddr>() {
            return Ok(vec![SocketAddr::new(ip, address.port)]);
        }
        let is_same = |(host, port, _): &(String, u16, Found)| *host == address.host && *port == address.port;
        if !self.resolving.as_ref().is_some_and(is_same) {
            let (answer, found) = channel();
            let waker = waiting.waker.clone();
            resolve::in_background(address.host.clone(), address.port, move |addresses| {
                let _ = answer.send(addresses);
                waker.wake();
            })?;
            self.resolving = Some((address.host.clone(), address.port, found));
        }
        let deadline = waiting.clock.now() + RESOLVE_TIMEOUT;
        while let Some((host, _, found)) = &self.resolving {
            match found.try_recv() {
                Ok(addresses) => {
                    let host = host.clone();
                    self.resolving = None;
                    return addresses
                        .map_err(|error| NoConnection::Failed(format!("cannot find {host}: {error}")));
                }
                Err(TryRecvError::Disconnected) => self.resolving = None,
                Err(TryRecvError::Empty) if waiting.clock.now() >= deadline => break,
                Err(TryRecvError::Empty) => waiting.wait(deadline, board)?,
            }
        }
        Err(NoConnection::Failed(format!("cannot find {}: the resolver does not answer", address.host)))
    }

    fn secure(
        &mut self,
        socket: Connection,
        address: &Address,
        roots: &Roots,
        waiting: &mut Waiting,
        board: &Board,
    ) -> Result<Wire, NoConnection> {
        let by_tls = |error: &dyn std::fmt::Display| NoConnection::Failed(format!("TLS failed: {error}"));
        if self.connector.is_none() {
            let connector = Connector::new(roots, Accept::RegularFile).map_err(|error| by_tls(&error))?;
            self.connector = Some(connector.without_protocol());
        }
        let connector = self.connector.as_ref().ok_or_else(|| by_tls(&"there are no authorities"))?;
        let session = connector.connect(&address.host).map_err(|error| by_tls(&error))?;
        let mut wire = Wire::Secured(socket, Box::new(session));
        let mut room = vec![0; READ_BYTES_MIN];
        let deadline = waiting.clock.now() + TLS_TIMEOUT;
        wire.flush().map_err(|error| by_tls(&error))?;
        while wire.is_handshaking() {
            match wire.read(&mut room) {
                Ok(None) => {
                    if waiting.clock.now() >= deadline {
                        return Err(by_tls(&"no answer in time"));
                    }
                    waiting.wait(deadline, board)?;
                    wire.flush().map_err(|error| by_tls(&error))?;
                }
                // A server says nothing before it was asked.
                Ok(Some(1..)) => {}
                Ok(Some(0)) => {
                    return Err(by_tls(&"the connection was closed in the middle of the handshake"));
                }
                Err(error) => return Err(by_tls(&error)),
            }
        }
        Ok(wire)
    }
}

/// A socket that is connected to `peer`, or why there is none; fails where the thread has to end.
fn reach(
    peer: SocketAddr,
    waiting: &mut Waiting,
    board: &Board,
) -> Result<io::Result<Connection>, NoConnection> {
    let opened = Connection::connect_from(peer, None, None).and_then(|socket| {
        waiting.poller.add(&socket, SOCKET, Watch::Edges)?;
        Ok(socket)
    });
    let socket = match opened {
        Ok(socket) => socket,
        Err(error) => return Ok(Err(error)),
    };
    let deadline = waiting.clock.now() + ADDRESS_TIMEOUT;
    loop {
        waiting.wait(deadline, board)?;
        if waiting.has_news() {
            match socket.connected() {
                Err(error) if error.kind() == ErrorKind::NotConnected => {}
                Err(error) => return Ok(Err(error)),
                Ok(()) => return Ok(socket.send_at_once().map(|()| socket)),
            }
        }
        if waiting.clock.now() >= deadline {
            return Ok(Err(ErrorKind::TimedOut.into()));
        }
    }
}
