//! A connection's socket, plain or with TLS over it.
//!
//! The plain path has to be cheap: there each call is the socket's own. With TLS the same calls encrypt and decrypt,
//! and up to 32 KiB of what was taken may wait for [`Wire::flush`]. Where a replaced process does the TLS
//! ([`tls_ends`](super::tls_ends)), they read and write plain bytes on a socket pair between the two processes.

use crate::tls_ends::{Pair, PlainEnd};
use glassline_delivery::policy::Protocol;
use glassline_io::spool::{Reader, Sent};
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{Flushed, Received, Session};
use serde::{Deserialize, Serialize};
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, BorrowedFd};

/// A socket, as a connection reads and writes it.
#[derive(Debug)]
pub struct Wire {
    socket: Socket,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Plain,
    Secured(Box<Session>),
    /// The peer speaks plain HTTP to a listener for TLS; it is answered in kind.
    Mistaken,
    /// TLS is done elsewhere, and `plain` is where its plain bytes come from and go to.
    Apart {
        plain: Socket,
        is_handshaking: bool,
    },
}

/// A wire as one process leaves it to the next, but for its sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum WireState {
    /// Without TLS.
    #[default]
    Plain,
    /// The peer speaks plain HTTP to a listener for TLS.
    Mistaken,
    /// TLS is not done there: the next process gets a socket for the plain bytes, too.
    Apart {
        /// The handshake is not over.
        is_handshaking: bool,
    },
}

impl Wire {
    /// What is read and written goes over the wire as it is.
    pub fn plain(socket: Socket) -> Wire {
        Wire { socket, kind: Kind::Plain }
    }

    /// What is read and written goes through `session`.
    pub fn secured(socket: Socket, session: Session) -> Wire {
        // The messages of a handshake are small, and each waits for the other side's.
        let _ = socket.send_at_once();
        Wire { socket, kind: Kind::Secured(Box::new(session)) }
    }

    /// The socket, for its options.
    pub fn tcp(&self) -> &Socket {
        &self.socket
    }

    /// What the next process needs of it beside the socket; where that is [`WireState::Apart`] also the end for its
    /// plain bytes. Nothing is done to the wire itself.
    ///
    /// # Errors
    /// Where the system has no descriptors left for such an end.
    pub fn state(&self) -> io::Result<(WireState, Option<PlainEnd<'_>>)> {
        Ok(match &self.kind {
            Kind::Plain => (WireState::Plain, None),
            Kind::Mistaken => (WireState::Mistaken, None),
            Kind::Apart { plain, is_handshaking } => {
                (WireState::Apart { is_handshaking: *is_handshaking }, Some(PlainEnd::Given(plain)))
            }
            Kind::Secured(session) => {
                let is_handshaking = session.is_handshaking();
                (WireState::Apart { is_handshaking }, Some(PlainEnd::Made(Pair::new()?)))
            }
        })
    }

    /// The wire that another process left. `plain` is given where its state is [`WireState::Apart`].
    pub fn restore(state: WireState, socket: Socket, plain: Option<Socket>) -> Wire {
        let kind = match (state, plain) {
            (WireState::Apart { is_handshaking }, Some(plain)) => Kind::Apart { plain, is_handshaking },
            (WireState::Mistaken, _) => Kind::Mistaken,
            (WireState::Plain | WireState::Apart { .. }, _) => Kind::Plain,
        };
        Wire { socket, kind }
    }

    /// The parts of a wire with TLS that is done here; `None` for others.
    pub fn into_session(self) -> Option<(Socket, Session)> {
        match self.kind {
            Kind::Secured(session) => Some((self.socket, *session)),
            Kind::Plain | Kind::Mistaken | Kind::Apart { .. } => None,
        }
    }

    /// Whether bytes may be sent to its descriptor by other ways than this.
    pub fn is_direct(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Apart { .. })
    }

    /// What is spoken over it.
    pub fn protocol(&self) -> Protocol {
        if self.is_secured() { Protocol::Https } else { Protocol::Http }
    }

    /// Whether the peer speaks TLS, with this process or with another one.
    pub fn is_secured(&self) -> bool {
        matches!(self.kind, Kind::Secured(_) | Kind::Apart { .. })
    }

    /// Whether its TLS is done by another process.
    pub fn is_apart(&self) -> bool {
        matches!(self.kind, Kind::Apart { .. })
    }

    /// Ends our side: the peer reads what was written and then the end.
    pub fn end(&self) -> io::Result<()> {
        match &self.kind {
            Kind::Apart { plain, .. } => plain.end(),
            Kind::Plain | Kind::Secured(_) | Kind::Mistaken => self.socket.end(),
        }
    }

    /// Whether it is TLS and the handshake is not over.
    pub fn is_handshaking(&self) -> bool {
        match &self.kind {
            Kind::Plain => false,
            Kind::Secured(session) => session.is_handshaking(),
            Kind::Apart { is_handshaking, .. } => *is_handshaking,
            Kind::Mistaken => true,
        }
    }

    /// Whether the peer speaks plain HTTP where TLS is spoken.
    pub fn is_mistaken(&self) -> bool {
        matches!(self.kind, Kind::Mistaken)
    }

    /// Reads what has come: `None` where nothing waits, `Some(0)` at the peer's end.
    pub fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let session = match &mut self.kind {
            Kind::Plain | Kind::Mistaken => return self.socket.read(into),
            Kind::Apart { plain, is_handshaking } => {
                let received = plain.read(into)?;
                // Nothing comes before the handshake's end.
                *is_handshaking &= received.unwrap_or(0) == 0;
                return Ok(received);
            }
            Kind::Secured(session) => session,
        };
        Ok(match session.read(&self.socket, into)? {
            Received::Bytes(count) => Some(count),
            Received::Blocked => None,
            Received::End => Some(0),
            Received::PlainHttp(count) => {
                self.kind = Kind::Mistaken;
                Some(count)
            }
        })
    }

    /// Writes as much as fits: `None` where nothing does.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match &mut self.kind {
            Kind::Secured(session) => session.write(&self.socket, bytes),
            Kind::Apart { plain, .. } => plain.write(bytes),
            Kind::Plain | Kind::Mistaken => self.socket.write(bytes),
        }
    }

    /// The same of several runs of bytes, end to end: in one call where it is plain.
    pub fn write_vectored(&mut self, runs: &[IoSlice<'_>]) -> io::Result<Option<usize>> {
        match &mut self.kind {
            Kind::Apart { plain, .. } => plain.write_vectored(runs),
            Kind::Plain | Kind::Mistaken => self.socket.write_vectored(runs),
            Kind::Secured(session) => match runs.first() {
                Some(run) => session.write(&self.socket, run),
                None => Ok(Some(0)),
            },
        }
    }

    /// Sends bytes of a spool, up to `end` and about `most` of them, as [`Reader::send`] does.
    pub fn send(&mut self, reader: &mut Reader, end: u64, most: u64) -> io::Result<Sent> {
        match &mut self.kind {
            Kind::Secured(session) => reader.hand(end, |bytes| session.write(&self.socket, bytes)),
            Kind::Apart { plain, .. } => reader.send(plain, end, most),
            Kind::Plain | Kind::Mistaken => reader.send(&self.socket, end, most),
        }
    }

    /// Writes what was taken and still waits: nothing where it is plain.
    pub fn flush(&mut self) -> io::Result<Flushed> {
        match &mut self.kind {
            Kind::Secured(session) => session.flush(&self.socket),
            Kind::Plain | Kind::Mistaken | Kind::Apart { .. } => Ok(Flushed { bytes: 0, all: true }),
        }
    }

    /// Whether the socket has all that was taken.
    pub fn is_flushed(&self) -> bool {
        match &self.kind {
            Kind::Secured(session) => session.is_flushed(),
            Kind::Plain | Kind::Mistaken | Kind::Apart { .. } => true,
        }
    }

    /// Tells a peer over TLS that nothing more comes: without it, it could not tell our end from a cut. May have to
    /// be flushed. Nothing where TLS is not done here.
    pub fn take_leave(&mut self) {
        if let Kind::Secured(session) = &mut self.kind {
            session.end(&self.socket);
        }
    }
}

impl AsFd for Wire {
    /// The descriptor that a poller watches, and that sends may go to where the wire [is direct](Wire::is_direct).
    fn as_fd(&self) -> BorrowedFd<'_> {
        match &self.kind {
            Kind::Apart { plain, .. } => plain.as_fd(),
            Kind::Plain | Kind::Secured(_) | Kind::Mistaken => self.socket.as_fd(),
        }
    }
}

#[cfg(test)]
#[path = "wire_tests.rs"]
mod tests;
