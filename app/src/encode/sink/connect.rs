//! Connecting: names, hosts and handshakes take their time, so each attempt has a thread of its own.

use super::wire::Wire;
use crate::encode::output::Address;
use glassline_io::poll::{Poller, Watch};
use glassline_io::resolve::resolve;
use glassline_io::tcp::Connection;
use glassline_io::tls::{Connector, READ_BYTES_MIN, Received};
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// How long a host may take to answer, and again to shake hands.
const TIMEOUT: Duration = Duration::from_secs(5);
/// What may wait unsent in the kernel: what is older than the network can take can then still be left out.
const UNSENT_MAX_BYTES: u32 = 128 << 10;

/// Why there is no connection.
#[derive(Debug)]
pub(super) struct Refused {
    /// What the system, or TLS, says.
    pub(super) error: io::Error,
    /// It was TLS that failed: a certificate that is not trusted, or no TLS at all.
    pub(super) by_tls: bool,
}

impl Refused {
    /// The failure of something else than TLS.
    pub(super) fn plain(error: io::Error) -> Refused {
        Refused { error, by_tls: false }
    }
}

/// Connects to `address` after `pause`, over TLS where there is a `connector`.
pub(super) fn connect(
    address: Address,
    connector: Option<Connector>,
    pause: Duration,
) -> Receiver<Result<Wire, Refused>> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        thread::sleep(pause);
        // Nobody receives where the command has ended meanwhile.
        let _ = sender.send(attempt(&address, connector.as_ref()));
    });
    receiver
}

fn attempt(address: &Address, connector: Option<&Connector>) -> Result<Wire, Refused> {
    let mut failure = io::Error::new(ErrorKind::NotFound, "the name has no address");
    for peer in resolve(&address.host, address.port).map_err(Refused::plain)? {
        match reach(peer) {
            Ok((socket, poller)) => {
                return match connector {
                    Some(connector) => shake_hands(socket, &poller, connector, &address.host),
                    None => Ok(Wire::Plain(socket)),
                };
            }
            Err(error) => failure = error,
        }
    }
    Err(Refused::plain(failure))
}

/// A connected socket, and what watches it.
fn reach(peer: SocketAddr) -> io::Result<(Connection, Poller)> {
    let (poller, mut ready) = (Poller::new()?, Vec::new());
    let socket = Connection::connect_from(peer, None, None)?;
    poller.add(&socket, 0, Watch::Edges)?;
    let deadline = Instant::now() + TIMEOUT;
    loop {
        poller.wait(Some(left(deadline)?), &mut ready)?;
        if ready.iter().any(|event| event.writable || event.closed) {
            socket.connected()?;
            socket.send_at_once()?;
            socket.limit_unsent(UNSENT_MAX_BYTES)?;
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
) -> Result<Wire, Refused> {
    let by_tls = |error| Refused { error, by_tls: true };
    let mut session = connector.connect(host).map_err(|error| by_tls(io::Error::other(error)))?;
    let (mut ready, mut into) = (Vec::new(), vec![0; READ_BYTES_MIN]);
    let deadline = Instant::now() + TIMEOUT;
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
