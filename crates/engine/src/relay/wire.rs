//! A connection's socket, plain or with TLS over it.
//!
//! Plain is the path whose price counts: there each call is the socket's own. Through TLS the same calls encrypt and
//! decrypt, and up to 32 KiB of what was taken may wait for [`Wire::flush`].

use glassline_io::spool::{Reader, Sent};
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{Flushed, Received, Session};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

#[derive(Debug)]
pub(super) struct Wire {
    socket: Socket,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    Plain,
    Secured(Box<Session>),
    /// The peer speaks plain HTTP to a listener for TLS; it is answered in kind.
    Mistaken,
}

impl Wire {
    /// What is read and written goes over the wire as it is.
    pub(super) fn plain(socket: Socket) -> Wire {
        Wire { socket, kind: Kind::Plain }
    }

    /// What is read and written goes through `session`.
    pub(super) fn secured(socket: Socket, session: Session) -> Wire {
        // The messages of a handshake are small, and each waits for the other side's.
        let _ = socket.send_at_once();
        Wire { socket, kind: Kind::Secured(Box::new(session)) }
    }

    /// The socket, for its options.
    pub(super) fn tcp(&self) -> &Socket {
        &self.socket
    }

    /// Whether bytes may be sent to the socket by other ways than this.
    pub(super) fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Plain)
    }

    /// Whether it is TLS and the handshake is not over.
    pub(super) fn is_handshaking(&self) -> bool {
        match &self.kind {
            Kind::Plain => false,
            Kind::Secured(session) => session.is_handshaking(),
            Kind::Mistaken => true,
        }
    }

    /// Whether the peer speaks plain HTTP where TLS is spoken.
    pub(super) fn is_mistaken(&self) -> bool {
        matches!(self.kind, Kind::Mistaken)
    }

    /// Reads what has come: `None` where nothing waits, `Some(0)` at the peer's end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        let Kind::Secured(session) = &mut self.kind else { return self.socket.read(into) };
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
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match &mut self.kind {
            Kind::Secured(session) => session.write(&self.socket, bytes),
            Kind::Plain | Kind::Mistaken => self.socket.write(bytes),
        }
    }

    /// Sends bytes of a spool, up to `end`, as [`Reader::send`] does.
    pub(super) fn send(&mut self, reader: &mut Reader, end: u64) -> io::Result<Sent> {
        match &mut self.kind {
            Kind::Secured(session) => reader.hand(end, |bytes| session.write(&self.socket, bytes)),
            Kind::Plain | Kind::Mistaken => reader.send(&self.socket, end),
        }
    }

    /// Writes what was taken and still waits: nothing where it is plain.
    pub(super) fn flush(&mut self) -> io::Result<Flushed> {
        match &mut self.kind {
            Kind::Secured(session) => session.flush(&self.socket),
            Kind::Plain | Kind::Mistaken => Ok(Flushed { bytes: 0, all: true }),
        }
    }

    /// Whether the socket has all that was taken.
    pub(super) fn is_flushed(&self) -> bool {
        match &self.kind {
            Kind::Secured(session) => session.is_flushed(),
            Kind::Plain | Kind::Mistaken => true,
        }
    }

    /// Tells a peer over TLS that nothing more comes: without it, it could not tell our end from a cut. May have to
    /// be flushed. Nothing where it is plain.
    pub(super) fn take_leave(&mut self) {
        if let Kind::Secured(session) = &mut self.kind {
            session.end(&self.socket);
        }
    }
}

impl AsFd for Wire {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}
