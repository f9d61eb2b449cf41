//! Connections to servers: a name's addresses one after the other, the handshake of TLS where it is wanted, and then bytes
//! either way, without waiting.

use crate::poll::{Poller, Watch};
use crate::resolve::resolve;
use crate::tcp::Connection;
use crate::tls::{Connector, READ_BYTES_MIN, Received, Session};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

/// A connection to a server, plain or with TLS over it. Never waits.
#[derive(Debug)]
pub enum Wire {
    /// Bytes as they are.
    Plain(Connection),
    /// TLS.
    Secured(Connection, Box<Session>),
}

/// Why there is no connection.
#[derive(Debug)]
pub struct Refused {
    /// What the system, or TLS, says.
    pub error: io::Error,
    /// It was TLS that failed: a certificate that is not trusted, or no TLS at all.
    pub by_tls: bool,
}

impl Refused {
    /// The failure of something else than TLS.
    pub fn plain(error: io::Error) -> Refused {
        Refused { error, by_tls: false }
    }
}

impl Wire {
    /// The socket, to be watched or set up.
    pub fn socket(&self) -> &Connection {
        match self {
            Wire::Plain(socket) | Wire::Secured(socket, _) => socket,
        }
    }

    /// Whether TLS is still being agreed on: [`Wire::read`] goes on with it, and nothing can be written.
    pub fn is_handshaking(&self) -> bool {
        matches!(self, Wire::Secured(_, session) if session.is_handshaking())
    }

    /// Whether a read that does not fill its room has emptied the socket.
    pub fn tells_when_empty(&self) -> bool {
        matches!(self, Wire::Plain(_))
    }

    /// Writes as much as fits: `None` where nothing does. Of TLS what was taken may still have to be [flushed](Wire::flush).
    ///
    /// # Errors
    /// The connection's.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Wire::Plain(socket) => socket.write(bytes),
            Wire::Secured(socket, session) => session.write(socket, bytes),
        }
    }

    /// Writes what was taken and still waits. Returns whether nothing does any longer.
    ///
    /// # Errors
    /// The connection's.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Wire::Plain(_) => Ok(true),
            Wire::Secured(socket, session) => Ok(session.flush(socket)?.all),
        }
    }

    /// Reads what has come into `into`, which has room for [`READ_BYTES_MIN`] where TLS is spoken: `None` where nothing waits, `Some(0)` at the
    /// end.
    ///
    /// # Errors
    /// The connection's; `InvalidData` where the other end speaks no TLS, or TLS that is not to be trusted.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        match self {
            Wire::Plain(socket) => socket.read(into),
            Wire::Secured(socket, session) => Ok(match session.read(socket, into)? {
                Received::Bytes(count) => Some(count),
                Received::Blocked => None,
                Received::End => Some(0),
                Received::PlainHttp(_) => {
                    return Err(io::Error::new(ErrorKind::InvalidData, "it speaks plain HTTP there"));
                }
            }),
        }
    }

    /// Tells the server that nothing more comes, as far as that fits.
    pub fn end(&mut self) {
        if let Wire::Secured(socket, session) = self {
            session.end(socket);
        }
    }
}

/// Connects to `host`, a name or an IP number without brackets, over TLS where there is a `connector`. **Blocks** for the
/// name's resolution, and then for at most `timeout` until one of its addresses answers, and as long again for the handshake: for
/// threads that have nothing else to do. Each address has an equal part of the time that is left.
///
/// # Errors
/// Why the last address refused, or what TLS says of the server.
pub fn connect(
    host: &str,
    port: u16,
    connector: Option<&Connector>,
    timeout: Duration,
) -> Result<Wire, Refused> {
    let peers = resolve(host, port).map_err(Refused::plain)?;
    connect_to(&peers, host, connector, timeout)
}

/// The same to one of these addresses, which the caller has resolved and may have chosen from; `host` is the name that the
/// certificate has to be for. **Blocks** as [`connect`], but for the resolution.
///
/// # Errors
/// Why the last address refused, or what TLS says of the server; `NotFound` where there is no address.
pub fn connect_to(
    peers: &[SocketAddr],
    host: &str,
    connector: Option<&Connector>,
    timeout: Duration,
) -> Result<Wire, Refused> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    let deadline = Instant::now() + timeout;
    for (&peer, left_over) in peers.iter().zip((1..=peers.len() as u32).rev()) {
        match reach(peer, deadline.saturating_duration_since(Instant::now()) / left_over) {
            Ok((socket, poller)) => {
                return match connector {
                    Some(connector) => shake_hands(socket, &poller, connector, host, timeout),
                    None => Ok(Wire::Plain(socket)),
                };
            }
            Err(error) => failure = error,
        }
    }
    Err(Refused::plain(failure))
}

/// A connected socket, and what watches it.
fn reach(peer: SocketAddr, timeout: Duration) -> io::Result<(Connection, Poller)> {
    let (poller, mut ready) = (Poller::new()?, Vec::new());
    let socket = Connection::connect_from(peer, None, None)?;
    poller.add(&socket, 0, Watch::Edges)?;
    let deadline = Instant::now() + timeout;
    loop {
        poller.wait(Some(left(deadline)?), &mut ready)?;
        if ready.iter().any(|event| event.writable || event.closed) {
            socket.connected()?;
            socket.send_at_once()?;
            return Ok((socket, poller));
        }
    }
}

fn left(deadline: Instant) -> io::Result<Duration> {
    let left = deadline.saturating_duration_since(Instant::now());
    if left.is_zero() { Err(ErrorKind::TimedOut.into()) } else { Ok(left) }
}

fn shake_hands(
    socket: Connection,
    poller: &Poller,
    connector: &Connector,
    host: &str,
    timeout: Duration,
) -> Result<Wire, Refused> {
    let by_tls = |error| Refused { error, by_tls: true };
    let mut session = connector.connect(host).map_err(|error| by_tls(io::Error::other(error)))?;
    let (mut ready, mut into) = (Vec::new(), vec![0; READ_BYTES_MIN]);
    let deadline = Instant::now() + timeout;
    session.flush(&socket).map_err(Refused::plain)?;
    while session.is_handshaking() {
        match session.read(&socket, &mut into) {
            Ok(Received::Blocked) => {
                let wait = left(deadline).map_err(Refused::plain)?;
                poller.wait(Some(wait), &mut ready).map_err(Refused::plain)?;
                // What did not fit before.
                session.flush(&socket).map_err(Refused::plain)?;
            }
            // A server says nothing before it was asked.
            Ok(Received::Bytes(_)) => {}
            Ok(Received::End) => {
                return Err(Refused::plain(io::Error::new(
                    ErrorKind::UnexpectedEof,
                    "closed in the middle of the TLS handshake",
                )));
            }
            Ok(Received::PlainHttp(_)) => return Err(by_tls(io::Error::other("it speaks plain HTTP there"))),
            Err(error) if error.kind() == ErrorKind::InvalidData => return Err(by_tls(error)),
            Err(error) => return Err(Refused::plain(error)),
        }
    }
    Ok(Wire::Secured(socket, Box::new(session)))
}
