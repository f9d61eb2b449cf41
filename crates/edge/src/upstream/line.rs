//! A connection to an upstream server: opened, handed a request, and read from as fast as its object may fill.

use super::super::cache::Cache;
use super::super::fetch_mailbox::FetchMailbox;
use super::exchange::{Exchange, Origin, Stands};
use super::{FetchCounters, UpstreamSettings};
use glassline_delivery::fill::{Failure, Pace};
use glassline_delivery::http1::Url;
use glassline_io::client::Wire;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, inject};
use glassline_io::tcp::Connection;
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::Time;
use std::io;
use std::time::Duration;

/// Bytes of a read.
pub(super) const READ_BYTES: usize = 128 << 10;
/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 8;
/// How long an idle connection is kept.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);

/// How far a connection is.
enum Link {
    /// TCP is being connected.
    Opening(Connection),
    /// It is connected; TLS may still be in its handshake.
    Open(Wire),
}

/// See the module.
pub(super) struct Line {
    /// The number of its server.
    pub(super) server: usize,
    /// Tells it from earlier ones in the same slot.
    pub(super) generation: u32,
    link: Link,
    /// What has to be written yet.
    pub(super) out: Vec<u8>,
    /// What it is for; `None` while it is idle.
    pub(super) exchange: Option<Exchange>,
    /// It has carried an exchange already, so the server may have given it up just now.
    pub(super) is_used: bool,
    /// When something last happened.
    pub(super) since: Time,
    /// It is not read from: its object is far enough ahead, or memory is short.
    pub(super) is_paused: bool,
    /// Since when its object has no reader.
    pub(super) unread_since: Option<Time>,
}

/// What the thread lends to a connection for a turn.
pub(super) struct Around<'a> {
    /// The connection's server.
    pub(super) server: &'a Url,
    pub(super) connector: Option<&'a Connector>,
    /// What is read into: [`READ_BYTES`].
    pub(super) scratch: &'a mut [u8],
    pub(super) counters: &'a FetchCounters,
    pub(super) cache: &'a Cache,
    pub(super) mailbox: &'a FetchMailbox,
    pub(super) clock: &'a Clock,
    pub(super) settings: &'a UpstreamSettings,
    pub(super) now: Time,
}

/// What came of a turn.
pub(super) enum Turned {
    /// There is nothing to do before the next event, or it is paused.
    Waits,
    /// It had more to read than a turn's share. Edges do not come again: another turn is due, after the others'.
    HasMore,
    /// The answer is whole.
    Done {
        /// The connection can carry another exchange.
        keeps: bool,
    },
    /// The server does not have the object, or not now.
    TryNext,
    /// The object cannot be fetched from any server.
    Failed(Failure),
}

impl Line {
    /// A connection to the server of this number that is being opened.
    pub(super) fn new(server: usize, generation: u32, connection: Connection, now: Time) -> Line {
        Line {
            server,
            generation,
            link: Link::Opening(connection),
            out: Vec::new(),
            exchange: None,
            is_used: false,
            since: now,
            is_paused: false,
            unread_since: None,
        }
    }

    /// What epoll calls it while it is in `slot`.
    pub(super) fn token(&self, slot: usize) -> u64 {
        token(slot, self.generation)
    }

    /// How long it may be without any event.
    pub(super) fn timeout(&self, settings: &UpstreamSettings) -> Duration {
        match (&self.link, &self.exchange) {
            (Link::Opening(_), _) => settings.connect_timeout,
            (Link::Open(wire), _) if wire.is_handshaking() => settings.connect_timeout,
            (Link::Open(_), Some(_)) => settings.silence_timeout,
            (Link::Open(_), None) => IDLE_TIMEOUT,
        }
    }

    /// Does what its socket is ready for.
    ///
    /// # Errors
    /// The connection is of no use any more.
    pub(super) fn turn(&mut self, around: Around<'_>) -> io::Result<Turned> {
        let Around { server, scratch, counters, cache, mailbox, clock, settings, now, .. } = around;
        if let Link::Opening(connection) = &self.link {
            match connection.connected() {
                Ok(()) => {}
                Err(error) if error.kind() == io::ErrorKind::NotConnected => return Ok(Turned::Waits),
                Err(error) => return Err(error),
            }
            connection.send_at_once()?;
            self.secure(server, around.connector)?;
        }
        let Link::Open(wire) = &mut self.link else { return Ok(Turned::Waits) };
        wire.flush()?;
        for _ in 0..READS_A_TURN {
            while !self.out.is_empty() && !wire.is_handshaking() {
                let Some(written) = wire.write(&self.out)? else { break };
                self.out.drain(..written);
                self.since = now;
            }
            wire.flush()?;
            let mut read_bytes = READ_BYTES;
            if let Some(exchange) = &self.exchange {
                match cache.pace(&exchange.download.job.growing, exchange.taken_bytes()) {
                    Pace::Fill(bytes) => {
                        read_bytes =
                            usize::try_from(bytes).unwrap_or(READ_BYTES).clamp(READ_BYTES_MIN, READ_BYTES);
                    }
                    pace => {
                        self.is_paused = true;
                        if pace == Pace::WaitForRoom {
                            // Behind this turn another one makes room.
                            mailbox.wake();
                        }
                        return Ok(Turned::Waits);
                    }
                }
            }
            let Some(count) = wire.read(&mut scratch[..read_bytes])? else { return Ok(Turned::Waits) };
            self.since = now;
            let Some(exchange) = &mut self.exchange else {
                // An idle connection has ended, or brings what was not asked for.
                return Err(io::ErrorKind::ConnectionAborted.into());
            };
            if count == 0 {
                if exchange.handle_end() {
                    return Ok(Turned::Done { keeps: false });
                }
                return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it broke off"));
            }
            inject(Border::Exchange, || exchange.download.job.target.clone());
            FetchCounters::add(&counters.bytes, count as u64);
            let mut input = &scratch[..count];
            let origin = Origin { settings, server, utc: clock.utc(), now };
            match exchange.take(&mut input, origin).map_err(io::Error::other)? {
                Stands::Goes => {}
                Stands::Done => {
                    return Ok(Turned::Done { keeps: exchange.keeps_alive() && input.is_empty() });
                }
                Stands::TryNext => return Ok(Turned::TryNext),
                Stands::Failed(failure) => return Ok(Turned::Failed(failure)),
            }
        }
        Ok(Turned::HasMore)
    }

    /// TCP is connected: what follows is TLS where the server's address says so.
    fn secure(&mut self, server: &Url, connector: Option<&Connector>) -> io::Result<()> {
        // The variant is left for a moment; the error below closes the connection.
        let placeholder = Connection::pair(1)?.0;
        let Link::Opening(connection) = std::mem::replace(&mut self.link, Link::Opening(placeholder)) else {
            return Ok(());
        };
        self.link = Link::Open(match (server.tls(), connector) {
            (true, Some(connector)) => {
                let session = connector.connect(server.host()).map_err(io::Error::other)?;
                Wire::Secured(connection, Box::new(session))
            }
            // What is asked for over TLS is never asked for in the open.
            (true, None) => return Err(io::Error::other("there is no TLS to reach it by")),
            _ => Wire::Plain(connection),
        });
        Ok(())
    }
}

/// What epoll calls the connection in `slot`.
pub(super) fn token(slot: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | (slot as u64 & 0xFFFF_FFFF)
}

#[cfg(test)]
#[path = "line_tests.rs"]
mod tests;
