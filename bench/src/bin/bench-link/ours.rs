//! The core of our link in the bench's loop: without the handles, locks and threads by which programs have it ([`crate::handles`]).

use anyhow::{Context, Result};
use bytes::Bytes;
use glassline_media::Time;
use glassline_transport::link::{
    Credentials, Endpoint, Event, Key, LinkId, MAX_BATCH, Options, Path, Settings,
};
use std::net::SocketAddr;
use std::time::{Duration, Instant};

use crate::carrier::{Carrier, DATAGRAM, Flushed, Lane, Load, Socket, TRANSMITS};

pub(crate) const RELIABLE: u8 = 0;
pub(crate) const UNRELIABLE: u8 = 1;
/// Small messages that may wait to be sent: some hundreds of kilobytes, so that they stay in the processor's cache.
pub(crate) const SEND_QUEUE: u32 = 1 << 11;
/// Those that may wait to be taken: more than one look at the socket brings.
const RECEIVE_QUEUE: u32 = 1 << 14;

pub(crate) struct Core {
    socket: Socket,
    endpoint: Endpoint,
    link: Option<LinkId>,
    begin: Instant,
    /// The time of the last look at the clock: not one for each message.
    time: Time,
    /// A batch that the kernel had no room for.
    unsent: Vec<u8>,
    unsent_to: Option<(SocketAddr, usize)>,
    load: Load,
    queue: u32,
    closed: bool,
}

/// A clock that began at zero would make "never sent" look recent.
fn time_since(begin: Instant) -> Time {
    Time::from_millis(1000) + begin.elapsed()
}

pub(crate) fn options(load: Load, lane: Lane, queue: u32) -> Options {
    let base = Options { queue, queue_bytes: 64 << 20, ..Options::default() };
    match (load, lane) {
        (Load::Bulk, _) => base,
        (Load::Video, Lane::Reliable) => Options { priority: 0, ..Options::default() },
        (Load::Video, Lane::Unreliable) => {
            Options { reliable: false, newest: true, priority: 4, ..Options::default() }
        }
        (_, Lane::Reliable) => Options { max_size: 1 << 16, ..base },
        (_, Lane::Unreliable) => Options { max_size: 1 << 16, reliable: false, ordered: false, ..base },
    }
}

impl Core {
    pub(crate) fn listen(address: SocketAddr, load: Load) -> Result<Core> {
        Core::new(Socket::bind(address)?, true, load)
    }

    pub(crate) fn connect(address: SocketAddr, load: Load) -> Result<Core> {
        let mut core = Core::new(Socket::toward(address)?, false, load)?;
        let now = core.now();
        let id = core.endpoint.connect(now, Path { remote: address, via: 0 })?;
        core.link = Some(id);
        core.open()?;
        Ok(core)
    }

    fn new(socket: Socket, listen: bool, load: Load) -> Result<Core> {
        let seed: [u8; 32] = ring::rand::generate(&ring::rand::SystemRandom::new())
            .map_err(|_| anyhow::anyhow!("no randomness"))?
            .expose();
        let settings = Settings {
            listen,
            datagram_bytes: DATAGRAM as u16,
            ..Settings::new(Credentials::Shared(Key([7; 32])))
        };
        Ok(Core {
            socket,
            endpoint: Endpoint::new(settings, seed),
            link: None,
            begin: Instant::now(),
            time: Time::ZERO,
            unsent: Vec::with_capacity(MAX_BATCH),
            unsent_to: None,
            load,
            queue: if listen { RECEIVE_QUEUE } else { SEND_QUEUE },
            closed: false,
        })
    }

    fn now(&mut self) -> Time {
        self.time = time_since(self.begin);
        self.time
    }

    fn open(&mut self) -> Result<()> {
        let (load, queue) = (self.load, self.queue);
        let Some(link) = self.link.and_then(|id| self.endpoint.link_mut(id)) else { return Ok(()) };
        link.open(RELIABLE, options(load, Lane::Reliable, queue))?;
        link.open(UNRELIABLE, options(load, Lane::Unreliable, queue)).context("channels")
    }

    /// Sends what may leave.
    fn flush(&mut self) -> Result<Flushed> {
        for _ in 0..TRANSMITS {
            if self.unsent_to.is_none() {
                let now = self.now();
                let Some(transmit) = self.endpoint.poll_transmit(now, &mut self.unsent) else {
                    return Ok(Flushed::All);
                };
                self.unsent_to = Some((transmit.path.remote, transmit.segment_bytes));
            }
            if let Some((to, segment)) = self.unsent_to {
                if !self.socket.send(to, &self.unsent, segment)? {
                    return Ok(Flushed::Full);
                }
                self.unsent_to = None;
            }
        }
        Ok(Flushed::Some)
    }
}

impl Carrier for Core {
    fn drive(&mut self, wait: Duration) -> Result<()> {
        let (endpoint, begin) = (&mut self.endpoint, self.begin);
        let more = self.socket.receive(|from, bytes, size| {
            // A time before the receive call would be before their arrival, and make the path look shorter than it is.
            let now = time_since(begin);
            for datagram in bytes.chunks_mut(size) {
                endpoint.handle_datagram(now, Path { remote: from, via: 0 }, datagram);
            }
        })?;
        let now = self.now();
        if self.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            self.endpoint.handle_timeout(now);
        }
        let mut readable = more;
        while let Some((id, event)) = self.endpoint.poll_event() {
            match event {
                Event::Connected { .. } if self.link.is_none() => {
                    self.link = Some(id);
                    // Who listens opens the channels too: it says how much it keeps for its application.
                    self.open()?;
                }
                Event::Readable { .. } => readable = true,
                Event::Closed { .. } => self.closed = true,
                _ => {}
            }
        }
        let flushed = self.flush()?;
        let due = self.endpoint.poll_timeout().unwrap_or(Time::NEVER);
        let now = self.now();
        if readable || wait.is_zero() || due <= now || flushed == Flushed::Some {
            return Ok(());
        }
        self.socket.wait(flushed == Flushed::Full, wait.min(due - now))?;
        self.now();
        Ok(())
    }

    fn send(&mut self, lane: Lane, message: &Bytes) -> Result<bool> {
        let now = self.time;
        let Some(link) = self.link.and_then(|id| self.endpoint.link_mut(id)) else { return Ok(false) };
        let channel = if lane == Lane::Reliable { RELIABLE } else { UNRELIABLE };
        match link.send(now, channel, message.clone()) {
            Ok(_) => Ok(true),
            Err(glassline_transport::link::Error::QueueFull { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn receive(&mut self, lane: Lane) -> Option<Bytes> {
        let channel = if lane == Lane::Reliable { RELIABLE } else { UNRELIABLE };
        self.endpoint.link_mut(self.link?)?.receive(channel)
    }

    fn is_up(&self) -> bool {
        self.link.and_then(|id| self.endpoint.link(id)).is_some_and(|link| link.is_up())
    }

    fn is_idle(&mut self) -> bool {
        self.link.and_then(|id| self.endpoint.link(id)).is_none_or(|link| link.is_idle())
    }

    fn is_closed(&self) -> bool {
        self.closed
    }

    fn close(&mut self) -> Result<()> {
        let now = self.now();
        if let Some(link) = self.link.and_then(|id| self.endpoint.link_mut(id)) {
            link.close(now, "done");
        }
        self.flush().map(drop)
    }
}
