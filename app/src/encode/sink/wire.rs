//! A connection to a server, plain or with TLS over it. Never waits.

use glassline_io::tcp::Connection;
use glassline_io::tls::{READ_BYTES_MIN, Received, Session};
use std::io::{self, ErrorKind};

/// The socket and what is spoken over it.
#[derive(Debug)]
pub(super) enum Wire {
    /// Bytes as they are.
    Plain(Connection),
    /// TLS, whose handshake is over.
    Secured(Connection, Box<Session>),
}

impl Wire {
    /// Writes as much as fits: `None` where nothing does.
    pub(super) fn write(&mut self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match self {
            Wire::Plain(socket) => socket.write(bytes),
            Wire::Secured(socket, session) => session.write(socket, bytes),
        }
    }

    /// Writes what was taken and still waits. Returns whether nothing does any longer.
    pub(super) fn flush(&mut self) -> io::Result<bool> {
        match self {
            Wire::Plain(_) => Ok(true),
            Wire::Secured(socket, session) => Ok(session.flush(socket)?.all),
        }
    }

    /// Reads what has come into `into`, which has room for 64 KiB: `None` where nothing waits, `Some(0)` at the end.
    pub(super) fn read(&mut self, into: &mut [u8]) -> io::Result<Option<usize>> {
        debug_assert!(into.len() >= READ_BYTES_MIN);
        match self {
            Wire::Plain(socket) => socket.read(into),
            Wire::Secured(socket, session) => Ok(match session.read(socket, into)? {
                Received::Bytes(count) => Some(count),
                Received::Blocked => None,
                Received::End => Some(0),
                Received::PlainHttp(_) => {
                    return Err(io::Error::new(ErrorKind::InvalidData, "plain HTTP where TLS was spoken"));
                }
            }),
        }
    }

    /// Tells the server that nothing more comes, as far as that fits.
    pub(super) fn end(&mut self) {
        if let Wire::Secured(socket, session) = self {
            session.end(socket);
        }
    }
}
