//! The stamped stream's way to a server: published with `PUT`, or served to one that asks for it.

use super::stamped::{Shape, Source};
use super::tally::Spread;
use super::target::Target;
use anyhow::{Context, Result, bail, ensure};
use glassline_delivery::http1::Method;
use glassline_delivery::http1::body::LAST_CHUNK;
use glassline_io::client::{Wire, connect};
use glassline_io::poll::{Poller, Watch};
use glassline_io::tcp::Connection;
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::Time;
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

/// A server that does not take so much of the stream has failed.
const PENDING_LIMIT_BYTES: usize = 16 << 20;
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What a server answers is told up to here.
const ANSWER_BYTES: usize = 400;

/// The source's side of its connection.
#[derive(Debug)]
pub struct Feed {
    listener: Option<TcpListener>,
    connection: Option<Wire>,
    chunked: bool,
    /// For a server that asks: its request has been read.
    open: bool,
    pending: Vec<u8>,
}

impl Feed {
    /// Connects to a server and publishes there, over TLS where the URL says so, which needs `trust`.
    ///
    /// # Errors
    /// Where it cannot be connected to.
    pub fn publish(target: &Target, trust: Option<&Connector>) -> Result<Feed> {
        let url = target.url();
        let trust = trust.filter(|_| url.tls());
        ensure!(trust.is_some() || !url.tls(), "no certificates are trusted, and {url} wants TLS");
        let wire = connect(url.host(), url.port(), trust, CONNECT_TIMEOUT)
            .map_err(|refused| refused.error)
            .with_context(|| format!("cannot connect to {}", url.authority()))?;
        Feed::publish_over(wire, target)
    }

    /// Publishes over a connection that stands, with `PUT` and chunks.
    ///
    /// # Errors
    /// Where the connection fails.
    pub fn publish_over(wire: Wire, target: &Target) -> Result<Feed> {
        let request = target.url().request(Method::Put);
        let head = request.with_header("Content-Type", "video/mp2t").chunked();
        let mut feed =
            Feed { listener: None, connection: Some(wire), chunked: true, open: true, pending: head };
        feed.flush().context("cannot publish")?;
        Ok(feed)
    }

    /// Waits to be asked for the stream, whatever the path; one request is answered.
    ///
    /// # Errors
    /// Where the listener fails.
    pub fn serve(listener: TcpListener) -> Result<Feed> {
        listener.set_nonblocking(true)?;
        Ok(Feed {
            listener: Some(listener),
            connection: None,
            chunked: false,
            open: false,
            pending: Vec::new(),
        })
    }

    pub(super) fn watch(&self, poller: &Poller, token: u64) -> Result<()> {
        match (&self.listener, &self.connection) {
            (Some(listener), None) => poller.add(listener, token, Watch::Accepts)?,
            (_, Some(wire)) => poller.add(wire.socket(), token, Watch::Edges)?,
            (None, None) => {}
        }
        Ok(())
    }

    /// Takes what the poller told.
    pub(super) fn handle(&mut self, poller: &Poller, token: u64) -> Result<()> {
        if let (Some(listener), None) = (&self.listener, &self.connection) {
            let (connection, _) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot accept the server's request"),
            };
            connection.set_nodelay(true)?;
            poller.remove(listener)?;
            poller.add(&connection, token, Watch::Edges)?;
            self.connection = Some(plain(connection)?);
        }
        let Some(wire) = &mut self.connection else { return Ok(()) };
        let mut answer = vec![0; READ_BYTES_MIN];
        match wire.read(&mut answer).context("the source's connection")? {
            Some(0) => bail!("the server closed the source's connection"),
            Some(_) if !self.open => {
                self.open = true;
                self.pending.extend_from_slice(b"HTTP/1.0 200 OK\r\nContent-Type: video/mp2t\r\n\r\n");
            }
            Some(length) => {
                let answer = String::from_utf8_lossy(&answer[..length.min(ANSWER_BYTES)]);
                bail!("the server answers the source: {}", answer.trim());
            }
            None => {}
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let Some(wire) = &mut self.connection else { return Ok(()) };
        let failed = "the server takes no more of the source";
        while self.open && !self.pending.is_empty() {
            match wire.write(&self.pending).context(failed)? {
                Some(length) => drop(self.pending.drain(..length)),
                None => break,
            }
        }
        wire.flush().context(failed)?;
        Ok(())
    }

    /// One frame in one write, where the socket takes it.
    fn send(&mut self, frame: &[u8]) -> Result<()> {
        if !self.open {
            return Ok(());
        }
        ensure!(
            self.pending.len() <= PENDING_LIMIT_BYTES,
            "the server takes no more of the source: {} MiB wait for it",
            PENDING_LIMIT_BYTES >> 20
        );
        if self.chunked {
            write!(self.pending, "{:x}\r\n", frame.len())?;
        }
        self.pending.extend_from_slice(frame);
        if self.chunked {
            self.pending.extend_from_slice(b"\r\n");
        }
        self.flush()
    }

    /// Ends the stream, as far as the socket takes it at once.
    fn end(&mut self) {
        if self.chunked {
            self.pending.extend_from_slice(LAST_CHUNK);
        }
        // A server that has gone needs no end.
        let _ = self.flush();
    }
}

/// A connection that the standard library has made, without TLS.
///
/// # Errors
/// Those of `fcntl`.
pub fn plain(connection: TcpStream) -> Result<Wire> {
    connection.set_nonblocking(true)?;
    Ok(Wire::Plain(Connection::from_descriptor(connection.into())))
}

/// Sends the stream's frames when they are due.
#[derive(Debug)]
pub(super) struct Feeder {
    feed: Feed,
    source: Source,
    started: Time,
    frame: Vec<u8>,
    bytes: u64,
    /// Since when a frame waits for room at the server.
    waiting_since: Option<Time>,
    waits: Spread,
}

impl Feeder {
    pub(super) fn new(feed: Feed, shape: Shape, now: Time) -> Feeder {
        Feeder {
            feed,
            source: Source::new(shape),
            started: now,
            frame: Vec::new(),
            bytes: 0,
            waiting_since: None,
            waits: Spread::default(),
        }
    }

    /// Waits count from now on.
    pub(super) fn begin_window(&mut self) {
        self.waits.reset();
    }

    /// How long frames waited for room at the server, nanoseconds; frames that wait at once count together.
    pub(super) fn waits(&self) -> &Spread {
        &self.waits
    }

    fn note_wait(&mut self, now: Time) {
        if self.feed.pending.is_empty()
            && let Some(since) = self.waiting_since.take()
        {
            self.waits.record_time(now.since(since));
        }
    }

    pub(super) fn handle(&mut self, poller: &Poller, token: u64, now: Time) -> Result<()> {
        self.feed.handle(poller, token)?;
        self.note_wait(now);
        Ok(())
    }

    /// When the next frame is due.
    pub(super) fn due(&self) -> Time {
        self.started + self.source.shape().frames().time_of(self.source.next_frame())
    }

    /// Sends the next frame, stamped with `now`: a late frame is no delay of the server's.
    pub(super) fn send(&mut self, now: Time) -> Result<()> {
        self.frame.clear();
        self.source.frame(now, &mut self.frame);
        self.bytes += self.frame.len() as u64;
        if self.feed.open {
            self.waiting_since.get_or_insert(now);
        }
        self.feed.send(&self.frame)?;
        self.note_wait(now);
        Ok(())
    }

    /// Frames and bytes so far, and bytes that the server has not taken.
    pub(super) fn sent(&self) -> (u64, u64, usize) {
        (self.source.next_frame(), self.bytes, self.feed.pending.len())
    }
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.feed.end();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn a_server_that_takes_nothing_has_failed() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::at(listener.local_addr().unwrap(), "/live/x.ts");
        let mut feed = Feed::publish(&target, None).unwrap();
        let frame = vec![0; 1 << 20];
        let error = (0..1000).find_map(|_| feed.send(&frame).err()).unwrap().to_string();
        assert!(error.contains("16 MiB wait"), "{error}");
    }

    #[test]
    fn what_the_server_answers_is_told() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let target = Target::at(listener.local_addr().unwrap(), "/live/x.ts");
        let mut feed = Feed::publish(&target, None).unwrap();
        let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        let mut server = listener.accept().unwrap().0;
        let mut head = [0; 1024];
        let length = server.read(&mut head).unwrap();
        assert!(head[..length].starts_with(b"PUT /live/x.ts HTTP/1.1\r\n"));
        server.write_all(b"HTTP/1.1 403 Forbidden\r\n\r\n").unwrap();
        feed.watch(&poller, 1).unwrap();
        while !ready.iter().any(|event: &glassline_io::poll::Event| event.readable) {
            poller.wait(Some(Duration::from_secs(10)), &mut ready).unwrap();
        }
        let error = feed.handle(&poller, 1).unwrap_err().to_string();
        assert!(error.contains("403 Forbidden"), "{error}");
    }
}
