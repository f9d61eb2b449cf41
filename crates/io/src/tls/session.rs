//! One connection's TLS.

use super::TlsError;
use crate::tcp::{Connection, wait_is_none};
use rustls::pki_types::ServerName;
use rustls::{ClientConfig, ClientConnection, ServerConfig, ServerConnection};
use std::io::{self, Read, Write};
use std::sync::Arc;

/// Bytes of records that may wait for room in the socket: two full ones. What waits has left the stream and can no
/// longer be skipped.
const WAITING_BYTES: usize = 32 << 10;
/// The longest record on the wire (RFC 8446 §5.2, RFC 5246 §6.2.3).
const RECORD_BYTES: usize = (16 << 10) + 2048 + 5;
/// Bytes that a peer may send in a row without any plaintext in them. The longest handshake has far fewer.
const EMPTY_BYTES: usize = 1 << 20;
/// The least room that [`Session::read`] works with.
pub const READ_BYTES_MIN: usize = 64 << 10;
/// A record with a handshake message begins so (RFC 8446 §5.1): with it begins every TLS connection.
const HANDSHAKE_RECORD: u8 = 0x16;

/// What came of a [`Session::read`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// This many bytes of plaintext.
    Bytes(usize),
    /// Nothing for now.
    Blocked,
    /// The peer's end.
    End,
    /// The peer does not speak TLS but, by its first letter, plain HTTP: this many bytes of it.
    PlainHttp(usize),
}

/// What came of a [`Session::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flushed {
    /// Bytes that the socket took.
    pub bytes: usize,
    /// Whether nothing waits any longer.
    pub all: bool,
}

/// TLS over one socket: the caller passes the same one to each call. Takes about 10 kB of memory at rest, and up to
/// 32 KiB more while its socket is full.
pub struct Session {
    tls: rustls::Connection,
    has_begun: bool,
    has_ended: bool,
}

impl Session {
    pub(super) fn of_server(config: Arc<ServerConfig>) -> Result<Session, TlsError> {
        Ok(Session::new(ServerConnection::new(config).map_err(TlsError::setup)?.into()))
    }

    pub(super) fn of_client(
        config: Arc<ClientConfig>,
        name: ServerName<'static>,
    ) -> Result<Session, TlsError> {
        Ok(Session::new(ClientConnection::new(config, name).map_err(TlsError::setup)?.into()))
    }

    fn new(mut tls: rustls::Connection) -> Session {
        tls.set_buffer_limit(Some(WAITING_BYTES));
        Session { tls, has_begun: false, has_ended: false }
    }

    /// Whether the handshake is not over yet.
    pub fn is_handshaking(&self) -> bool {
        self.tls.is_handshaking()
    }

    /// Reads what has come, and answers what is TLS's own business in it. `into` has room for [`READ_BYTES_MIN`] at
    /// least; beyond what is returned its content is undefined.
    ///
    /// # Errors
    /// Those of the socket; `InvalidData` where the peer breaks the protocol (it is told by an alert, if that fits).
    pub fn read(&mut self, socket: &Connection, into: &mut [u8]) -> io::Result<Received> {
        assert!(into.len() >= READ_BYTES_MIN, "{} bytes of room, less than {READ_BYTES_MIN}", into.len());
        // Ciphertext is read into the room's end. Its plaintext, with that of a record that had begun before, is
        // never longer than the rest of the room.
        let cipher_bytes = (into.len() - RECORD_BYTES) / 2;
        let (plain, cipher) = into.split_at_mut(into.len() - cipher_bytes);
        let mut empty_bytes = 0;
        while !self.has_ended {
            let Some(count) = socket.read(cipher)? else { return Ok(Received::Blocked) };
            if count == 0 {
                self.has_ended = true;
                break;
            }
            if !std::mem::replace(&mut self.has_begun, true)
                && cipher[0] != HANDSHAKE_RECORD
                && cipher[0].is_ascii_uppercase()
            {
                plain[..count].copy_from_slice(&cipher[..count]);
                return Ok(Received::PlainHttp(count));
            }
            let taken = self.take(&cipher[..count], plain);
            // Answers to a handshake, tickets, alerts. Where they do not fit, the socket's next edge brings us back.
            let flushed = self.flush(socket);
            match taken? {
                0 => empty_bytes += count,
                taken => return flushed.map(|_| Received::Bytes(taken)),
            }
            flushed?;
            if empty_bytes > EMPTY_BYTES {
                return Err(io::Error::new(io::ErrorKind::InvalidData, "records without content"));
            }
        }
        Ok(Received::End)
    }

    /// Decrypts `cipher` into `plain`.
    fn take(&mut self, mut cipher: &[u8], plain: &mut [u8]) -> io::Result<usize> {
        let mut taken = 0;
        while !cipher.is_empty() && !self.has_ended {
            self.tls.read_tls(&mut cipher)?;
            let state = self.tls.process_new_packets();
            let state = state.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            // What follows the peer's close_notify is no longer looked at.
            self.has_ended = state.peer_has_closed();
            while taken < plain.len() {
                match wait_is_none(|| self.tls.reader().read(&mut plain[taken..]))? {
                    None | Some(0) => break,
                    Some(count) => taken += count,
                }
            }
        }
        Ok(taken)
    }

    /// Encrypts and writes as much of `bytes` as fits: `None` where nothing does. What is returned as taken may in
    /// part wait for [`Session::flush`].
    pub fn write(&mut self, socket: &Connection, bytes: &[u8]) -> io::Result<Option<usize>> {
        if self.is_handshaking() || !self.flush(socket)?.all {
            return Ok(None);
        }
        let taken = self.tls.writer().write(bytes)?;
        self.flush(socket)?;
        Ok((taken > 0).then_some(taken))
    }

    /// Writes what waits.
    pub fn flush(&mut self, socket: &Connection) -> io::Result<Flushed> {
        let mut bytes = 0;
        while self.tls.wants_write() {
            match wait_is_none(|| self.tls.write_tls(&mut socket.stream()))? {
                Some(0) => return Err(io::ErrorKind::WriteZero.into()),
                Some(count) => bytes += count,
                None => return Ok(Flushed { bytes, all: false }),
            }
        }
        Ok(Flushed { bytes, all: true })
    }

    /// Whether nothing waits for room in the socket.
    pub fn is_flushed(&self) -> bool {
        !self.tls.wants_write()
    }

    /// Says that nothing more comes (`close_notify`), as far as the socket takes it.
    pub fn end(&mut self, socket: &Connection) {
        self.tls.send_close_notify();
        // The peer may be gone already; then it is told nothing.
        let _ = self.flush(socket);
    }
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("handshaking", &self.is_handshaking()).finish_non_exhaustive()
    }
}
