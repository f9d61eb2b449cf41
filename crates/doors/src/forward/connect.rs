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
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
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

/// What an address is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    /// The configuration's own.
    Configured,
    /// A service has redirected to it.
    Redirected,
}

type Found = Receiver<io::Result<Vec<SocketAddr>>>;

/// What is kept from one attempt to the next.
#[derive(Default)]
pub(super) struct Connecting {
    /// A name that is being resolved: a resolver that hangs must not take more and more threads.
    resolving: Option<(String, u16, Found)>,
    /// The authorities are read when they are first needed, and anew after a handshake that failed: their file may be another one then.
    connector: Option<Connector>,
    /// The configured address is one of this host or its network.
    is_near: bool,
}

impl Connecting {
    /// Connects to `address`. A service may not redirect into this host's own network, where its word counts for nothing, unless it
    /// stands there itself.
    pub(super) fn connect(
        &mut self,
        address: &Address,
        target: Target,
        roots: &Roots,
        waiting: &mut Waiting,
        board: &Board,
    ) -> Result<Wire, NoConnection> {
        let mut peers = self.resolve(address, waiting, board)?;
        if target == Target::Redirected && !self.is_near {
            peers.retain(|peer| !is_near(peer.ip()));
            if peers.is_empty() {
                let words = "the server redirects to a loopback, private or link-local address";
                return Err(NoConnection::Failed(words.to_owned()));
            }
        }
        let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
        for peer in resolve::in_turns(&peers).into_iter().take(ADDRESSES_MAX) {
            match reach(peer, waiting, board) {
                Ok(Ok(socket)) => {
                    board.connected(peer);
                    if target == Target::Configured {
                        self.is_near = is_near(peer.ip());
                    }
                    if !address.tls {
                        return Ok(Wire::Plain(socket));
                    }
                    let secured = self.secure(socket, address, roots, waiting, board);
                    if secured.is_err() {
                        self.connector = None;
                    }
                    return secured;
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

/// Whether an address is of this host or its network: loopback, unspecified, private (RFC 1918, and RFC 6598 of providers), unique local
/// (RFC 4193) and link-local ones, also within IPv6 (RFC 4291 §2.5.5.2, RFC 6052).
fn is_near(ip: IpAddr) -> bool {
    match ip.to_canonical() {
        IpAddr::V4(ip) => {
            let is_shared = matches!(ip.octets(), [100, 64..=127, ..]);
            let is_this = ip.octets()[0] == 0;
            is_this || is_shared || ip.is_loopback() || ip.is_private() || ip.is_link_local()
        }
        IpAddr::V6(ip) => match ip.segments() {
            [0x64, 0xff9b, 0, 0, 0, 0, high, low] => {
                is_near(Ipv4Addr::from_bits(u32::from(high) << 16 | u32::from(low)).into())
            }
            _ => {
                ip.is_loopback() || ip.is_unspecified() || ip.is_unique_local() || ip.is_unicast_link_local()
            }
        },
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_elsewhere_leads_no_connection_into_this_host_s_network() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let address = Address::parse(&format!("rtmp://{}/live/key", listener.local_addr().unwrap())).unwrap();
        let poller = Poller::new().unwrap();
        let waker = Waker::new(&poller, WAKER).unwrap();
        let (mut waiting, board) = (Waiting::new(poller, waker, Clock::new()), Board::default());
        let mut connecting = Connecting::default();
        let mut connect =
            |target| connecting.connect(&address, target, &Roots::System, &mut waiting, &board).map(drop);
        let refused = connect(Target::Redirected).unwrap_err();
        assert!(
            matches!(&refused, NoConnection::Failed(words) if words.contains("redirects to a loopback")),
            "{refused:?}"
        );
        // One that stands there itself may.
        connect(Target::Configured).unwrap();
        connect(Target::Redirected).unwrap();
    }

    #[test]
    fn addresses_of_this_host_and_its_network_are_near() {
        for near in [
            "127.0.0.1",
            "127.9.9.9",
            "0.0.0.0",
            "10.1.2.3",
            "172.16.0.1",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "::1",
            "::",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "64:ff9b::a00:1",
        ] {
            assert!(is_near(near.parse().unwrap()), "{near}");
        }
        for far in
            ["8.8.8.8", "172.32.0.1", "100.128.0.1", "2001:4860::1", "::ffff:8.8.8.8", "64:ff9b::808:808"]
        {
            assert!(!is_near(far.parse().unwrap()), "{far}");
        }
    }
}
