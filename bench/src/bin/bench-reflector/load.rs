//! The load: one source and many viewers in one thread, on one epoll instance.
//!
//! The source's frames are due by the clock; between any two reads of viewers the thread looks whether one is. A
//! frame's send time is taken just before it is written, so a late frame is no delay of the server's.

use anyhow::{Context, Result, bail, ensure};
use glassline_bench::ts::{BITRATE, Checker, Edge, FRAME_RATE, PACKET_BYTES, Source, Verdict};
use glassline_io::clock::Clock;
use glassline_io::poll::{Event, Poller, Watch};
use glassline_media::{FrameRate, Time};
use hdrhistogram::Histogram;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::time::Duration;

/// Where the source's connection is told; viewers are told under their number.
const FEED: u64 = u64::MAX;
/// A read of a viewer's socket: several frames, small enough for the processor's cache.
const READ_BYTES: usize = 64 << 10;
const LONGEST_NANOS: u64 = 60_000_000_000;
/// The server's answer must fit.
const HEAD_LIMIT_BYTES: usize = 8 << 10;

/// The source's side: a publisher, or a server that is asked for the stream.
pub(crate) struct Feed {
    listener: Option<TcpListener>,
    connection: Option<TcpStream>,
    chunked: bool,
    /// Answered: for a server that asks, its request has been read.
    open: bool,
    pending: Vec<u8>,
}

impl Feed {
    /// Publishes with `PUT` and chunks.
    pub(crate) fn publish(mut connection: TcpStream, path: &str) -> Result<Feed> {
        let head = format!(
            "PUT {path} HTTP/1.1\r\nHost: bench\r\nContent-Type: video/mp2t\r\nTransfer-Encoding: chunked\r\n\r\n"
        );
        connection.write_all(head.as_bytes()).context("cannot publish")?;
        connection.set_nonblocking(true)?;
        connection.set_nodelay(true)?;
        Ok(Feed {
            listener: None,
            connection: Some(connection),
            chunked: true,
            open: true,
            pending: Vec::new(),
        })
    }

    /// Waits to be asked for the stream.
    pub(crate) fn serve(listener: TcpListener) -> Result<Feed> {
        listener.set_nonblocking(true)?;
        Ok(Feed {
            listener: Some(listener),
            connection: None,
            chunked: false,
            open: false,
            pending: Vec::new(),
        })
    }

    fn watched(&self, poller: &Poller) -> Result<()> {
        match (&self.listener, &self.connection) {
            (Some(listener), None) => poller.add(listener, FEED, Watch::Accepts)?,
            (_, Some(connection)) => poller.add(connection, FEED, Watch::Edges)?,
            (None, None) => {}
        }
        Ok(())
    }

    fn handle(&mut self, poller: &Poller) -> Result<()> {
        if let (Some(listener), None) = (&self.listener, &self.connection) {
            let (connection, _) = match listener.accept() {
                Ok(accepted) => accepted,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).context("cannot accept the server's request"),
            };
            connection.set_nonblocking(true)?;
            connection.set_nodelay(true)?;
            poller.remove(listener)?;
            poller.add(&connection, FEED, Watch::Edges)?;
            self.connection = Some(connection);
        }
        let Some(connection) = &mut self.connection else { return Ok(()) };
        let mut answer = [0; 2048];
        match connection.read(&mut answer) {
            Ok(0) => bail!("the server closed the source's connection"),
            Ok(_) if !self.open => {
                self.open = true;
                self.pending.extend_from_slice(b"HTTP/1.0 200 OK\r\nContent-Type: video/mp2t\r\n\r\n");
            }
            Ok(length) => {
                bail!("the server answers the source: {}", String::from_utf8_lossy(&answer[..length]))
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error).context("the source's connection"),
        }
        self.flush()
    }

    fn flush(&mut self) -> Result<()> {
        let Some(connection) = &mut self.connection else { return Ok(()) };
        while self.open && !self.pending.is_empty() {
            match connection.write(&self.pending) {
                Ok(length) => drop(self.pending.drain(..length)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error).context("the server takes no more of the source"),
            }
        }
        Ok(())
    }

    /// One frame in one write, where the socket takes it.
    fn send(&mut self, frame: &[u8]) -> Result<()> {
        if !self.open {
            return Ok(());
        }
        if self.chunked {
            write!(self.pending, "{:x}\r\n", frame.len())?;
        }
        self.pending.extend_from_slice(frame);
        if self.chunked {
            self.pending.extend_from_slice(b"\r\n");
        }
        self.flush()
    }
}

/// One viewer.
struct Viewer {
    connection: TcpStream,
    /// Of the answer until its head is over; then of a packet.
    rest: Vec<u8>,
    answered: bool,
    aligned: bool,
    checker: Checker,
    last_read: Time,
    longest_gap: Duration,
}

impl Viewer {
    fn connect(address: SocketAddr, path: &str, now: Time) -> Result<Viewer> {
        let mut connection = TcpStream::connect(address).context("a viewer cannot connect")?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: bench\r\nUser-Agent: bench-reflector\r\n\r\n");
        connection.write_all(request.as_bytes()).context("a viewer cannot ask")?;
        connection.set_nonblocking(true)?;
        Ok(Viewer {
            connection,
            rest: Vec::new(),
            answered: false,
            aligned: false,
            checker: Checker::default(),
            last_read: now,
            longest_gap: Duration::ZERO,
        })
    }

    /// Takes what was read, behind what was left of the read before. `found` gets the edges of frames.
    fn take(&mut self, bytes: &[u8], found: &mut impl FnMut(Edge)) -> Result<()> {
        let mut bytes = bytes;
        if !self.answered {
            let Some(end) = bytes.windows(4).position(|window| window == b"\r\n\r\n") else {
                ensure!(bytes.len() <= HEAD_LIMIT_BYTES, "the answer to a viewer has no end");
                self.rest.extend_from_slice(bytes);
                return Ok(());
            };
            let head = String::from_utf8_lossy(&bytes[..end]);
            ensure!(head.split(' ').nth(1) == Some("200"), "a viewer was answered: {head}");
            self.answered = true;
            bytes = &bytes[end + 4..];
        }
        while bytes.len() >= PACKET_BYTES {
            if !self.aligned {
                let Some(start) = find_packets(bytes) else { break };
                self.aligned = true;
                bytes = &bytes[start..];
                continue;
            }
            let (packets, _) = bytes.as_chunks::<PACKET_BYTES>();
            let mut good = 0;
            for packet in packets {
                let edge = self.checker.check(packet);
                if packet[0] != 0x47 {
                    self.aligned = false;
                    break;
                }
                if let Some(edge) = edge {
                    found(edge);
                }
                good += 1;
            }
            bytes = &bytes[good * PACKET_BYTES..];
        }
        self.rest.extend_from_slice(bytes);
        Ok(())
    }
}

/// Where packets begin: three sync bytes at their distance, since one may stand anywhere.
fn find_packets(bytes: &[u8]) -> Option<usize> {
    (0..bytes.len().saturating_sub(2 * PACKET_BYTES))
        .find(|&start| (0..3).all(|packet| bytes[start + packet * PACKET_BYTES] == 0x47))
}

/// What was seen between [`Load::begin`] and [`Load::window`].
pub(crate) struct Window {
    /// How long it was.
    pub(crate) time: Duration,
    /// What all viewers read.
    pub(crate) bytes: u64,
    /// Send to read of a frame's first packet.
    pub(crate) first: Histogram<u64>,
    /// Send to read of a frame's last packet.
    pub(crate) last: Histogram<u64>,
    /// The longest time between two reads of one viewer.
    pub(crate) longest_gap: Duration,
}

/// The source and all viewers.
pub(crate) struct Load {
    clock: Clock,
    poller: Poller,
    feed: Feed,
    source: Source,
    started: Time,
    frames: u64,
    frame: Vec<u8>,
    viewers: Vec<Viewer>,
    buffer: Vec<u8>,
    ready: Vec<Event>,
    began: Time,
    bytes: u64,
    first: Histogram<u64>,
    last: Histogram<u64>,
}

impl Load {
    /// The source alone; it begins at once.
    pub(crate) fn new(feed: Feed) -> Result<Load> {
        let poller = Poller::new()?;
        feed.watched(&poller)?;
        let empty = || Histogram::new_with_max(LONGEST_NANOS, 3).context("histogram");
        let clock = Clock::new();
        Ok(Load {
            clock,
            poller,
            feed,
            source: Source::default(),
            started: clock.now(),
            frames: 0,
            frame: Vec::new(),
            viewers: Vec::new(),
            buffer: vec![0; READ_BYTES],
            ready: Vec::new(),
            began: clock.now(),
            bytes: 0,
            first: empty()?,
            last: empty()?,
        })
    }

    /// Adds viewers, a few each millisecond, and waits until each has got something.
    pub(crate) fn connect(&mut self, address: SocketAddr, path: &str, count: usize) -> Result<()> {
        const AT_ONCE: usize = 4;
        let patience = Duration::from_secs(20);
        while self.viewers.len() < count {
            for _ in 0..AT_ONCE.min(count - self.viewers.len()) {
                let viewer = Viewer::connect(address, path, self.clock.now())?;
                self.poller.add(&viewer.connection, self.viewers.len() as u64, Watch::Edges)?;
                self.viewers.push(viewer);
            }
            self.run(Duration::from_millis(1))?;
        }
        let started = self.clock.now();
        loop {
            let waiting = self.viewers.iter().filter(|viewer| !viewer.aligned).count();
            if waiting == 0 {
                return Ok(());
            }
            ensure!(self.clock.now().since(started) < patience, "{waiting} of {count} viewers get nothing");
            self.run(Duration::from_millis(50))?;
        }
    }

    /// Goes on for `time`.
    pub(crate) fn run(&mut self, time: Duration) -> Result<()> {
        let end = self.clock.now() + time;
        loop {
            let now = self.send_due_frame()?;
            if now >= end {
                return Ok(());
            }
            let next = end.min(self.next_frame());
            let mut ready = std::mem::take(&mut self.ready);
            self.poller.wait(Some(next.since(now)), &mut ready)?;
            for event in &ready {
                match usize::try_from(event.token) {
                    Ok(index) if event.token != FEED => self.read(index)?,
                    _ => self.feed.handle(&self.poller)?,
                }
                self.send_due_frame()?;
            }
            self.ready = ready;
        }
    }

    fn next_frame(&self) -> Time {
        let rate = FrameRate::new(FRAME_RATE, 1).expect("both parts are above zero");
        self.started + rate.time_of(self.frames)
    }

    fn send_due_frame(&mut self) -> Result<Time> {
        let now = self.clock.now();
        if now < self.next_frame() {
            return Ok(now);
        }
        self.frame.clear();
        self.source.frame(now, &mut self.frame);
        self.feed.send(&self.frame)?;
        self.frames += 1;
        Ok(self.clock.now())
    }

    fn read(&mut self, index: usize) -> Result<()> {
        let viewer = &mut self.viewers[index];
        loop {
            let kept = viewer.rest.len();
            if self.buffer.len() < kept + READ_BYTES {
                self.buffer.resize(kept + READ_BYTES, 0);
            }
            self.buffer[..kept].copy_from_slice(&viewer.rest);
            let room = READ_BYTES;
            let length = match viewer.connection.read(&mut self.buffer[kept..kept + room]) {
                Ok(0) => bail!("the server dropped viewer {index}"),
                Ok(length) => length,
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error).with_context(|| format!("viewer {index}")),
            };
            let now = self.clock.now();
            viewer.longest_gap = viewer.longest_gap.max(now.since(viewer.last_read));
            viewer.last_read = now;
            viewer.rest.clear();
            self.bytes += length as u64;
            let (first, last) = (&mut self.first, &mut self.last);
            viewer.take(&self.buffer[..kept + length], &mut |edge| {
                let (histogram, sent) = match edge {
                    Edge::First(sent) => (&mut *first, sent),
                    Edge::Last(sent) => (&mut *last, sent),
                };
                histogram.saturating_record(now.since(sent).as_nanos() as u64);
            })?;
            // A short read has emptied the socket, and what comes is told.
            if length < room {
                return Ok(());
            }
        }
    }

    /// A window begins.
    pub(crate) fn begin(&mut self) {
        let now = self.clock.now();
        self.began = now;
        self.bytes = 0;
        self.first.reset();
        self.last.reset();
        for viewer in &mut self.viewers {
            viewer.longest_gap = Duration::ZERO;
            viewer.last_read = now;
        }
    }

    /// The window so far. A viewer that waits since long counts with its wait.
    pub(crate) fn window(&self) -> Window {
        let now = self.clock.now();
        let gaps = self.viewers.iter().map(|viewer| viewer.longest_gap.max(now.since(viewer.last_read)));
        Window {
            time: now.since(self.began),
            bytes: self.bytes,
            first: self.first.clone(),
            last: self.last.clone(),
            longest_gap: gaps.max().unwrap_or_default(),
        }
    }

    /// What all viewers found since they connected.
    pub(crate) fn verdict(&self) -> Verdict {
        let mut sum = Verdict::default();
        for viewer in &self.viewers {
            sum.merge(&viewer.checker.verdict);
        }
        sum
    }

    /// What `viewers` viewers should read in `time`, in bytes.
    pub(crate) fn expected_bytes(viewers: usize, time: Duration) -> f64 {
        viewers as f64 * BITRATE as f64 / 8.0 * time.as_secs_f64()
    }
}
