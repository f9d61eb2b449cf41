//! TLS for connections that another process serves: what a relay goes on with after its successor has taken over.
//!
//! TLS sessions cannot be moved to another process. The connection itself goes to the next process like any other, with
//! one end of a socket pair for its plain bytes. The old process keeps the session and the other end, and runs as a TLS
//! proxy between the client's socket and the pair, until the connection ends or `Settings::drain` is over. Where a
//! further upgrade follows, the next process passes its end of the pair on.
//!
//! ```text
//! peer ◄── TLS ──► socket ◄─► Session ◄─► our end │ their end ◄── plain bytes ──► the next process, or a later one
//!                     └─────────────────────────────────────── looked at, paced ──┘
//! ```
//! Bytes go through in order and wait in the pair and the sockets alone, so that a peer that reads slowly is slow for
//! the other process too. An end on either side is passed on to the other: when the other process ends, so do all its
//! connections here.

use glassline_io::clock::Clock;
use glassline_io::poll::{Poller, Waker, Wakeup, Watch};
use glassline_io::tcp::Connection as Socket;
use glassline_io::tls::{READ_BYTES_MIN, Received, Session};
use glassline_media::Time;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

/// Bytes that may wait between the two processes in either direction, about: a viewer's whole pictures, but not what
/// would make it seem nearer to live than it is.
const PAIR_BYTES: usize = 64 << 10;
/// What is read for one record of TLS: what it holds at most.
const RECORD_BYTES: usize = 16 << 10;
/// Reads of one connection in a row; then others get their turn.
const READS_A_TURN: usize = 16;
/// How often time limits are checked.
const SWEEP: Duration = Duration::from_millis(250);
/// How long a peer may take to answer our end with its own.
const DRAIN_TIME: Duration = Duration::from_secs(2);
const WAKE: u64 = u64::MAX;

/// The two ends of a socket pair for the plain bytes of a connection that leaves its TLS in this process.
#[derive(Debug)]
pub struct Pair {
    /// The end that stays in this process.
    pub ours: Socket,
    /// The end for the next process.
    pub theirs: Socket,
}

impl Pair {
    /// A new pair.
    ///
    /// # Errors
    /// The system has no descriptors left.
    pub fn new() -> io::Result<Pair> {
        let (ours, theirs) = Socket::pair(PAIR_BYTES)?;
        Ok(Pair { ours, theirs })
    }
}

/// The end for plain bytes that the next process gets with a connection, where that process does not do the TLS.
#[derive(Debug)]
pub enum PlainEnd<'a> {
    /// The end that this process has been given by an earlier one.
    Given(&'a Socket),
    /// A new pair: the other process gets one end, and ours stays here.
    Made(Pair),
}

impl AsFd for PlainEnd<'_> {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            PlainEnd::Given(socket) => socket.as_fd(),
            PlainEnd::Made(pair) => pair.theirs.as_fd(),
        }
    }
}

/// The TLS of one connection.
#[derive(Debug)]
pub struct TlsEnd {
    socket: Socket,
    session: Session,
    /// Our end of the pair.
    pair: Socket,
    /// From the peer, for the other process.
    inward: Vec<u8>,
    /// From the other process, for the peer.
    outward: Vec<u8>,
    peer_has_ended: bool,
    /// Whether the other process has no use for the connection any more; what it has left for the peer is still sent.
    is_abandoned: bool,
    /// Whether the other process has nothing more for the peer.
    is_ending: bool,
    /// When the socket has taken the last of it.
    has_said_all: Option<Time>,
    /// When the socket last took something.
    last_progress: Time,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Rests,
    Again,
    Over,
}

impl TlsEnd {
    /// The TLS `session` of a connection over `socket`, with our end of its pair.
    pub fn new(socket: Socket, session: Session, pair: Socket) -> TlsEnd {
        TlsEnd {
            socket,
            session,
            pair,
            inward: Vec::new(),
            outward: Vec::new(),
            peer_has_ended: false,
            is_abandoned: false,
            is_ending: false,
            has_said_all: None,
            last_progress: Time::ZERO,
        }
    }

    fn take_turn(&mut self, scratch: &mut [u8], timeout: Duration, now: Time) -> Turn {
        // From the peer first: its part of the handshake, without which nothing goes to it.
        let passed = self.bring_in(scratch).and_then(|more| Ok(self.bring_out(scratch, now)? | more));
        match passed {
            Ok(_) if self.is_over(timeout, now) => Turn::Over,
            Ok(true) => Turn::Again,
            Ok(false) => Turn::Rests,
            Err(error) => {
                tracing::debug!(%error, "connection over TLS lost");
                Turn::Over
            }
        }
    }

    /// Passes on what the peer sends. Returns whether there may be more.
    fn bring_in(&mut self, scratch: &mut [u8]) -> io::Result<bool> {
        for _ in 0..READS_A_TURN {
            if !self.inward.is_empty() {
                let waiting = std::mem::take(&mut self.inward);
                self.give(&waiting);
                if self.inward.len() == waiting.len() {
                    return Ok(false);
                }
                continue;
            }
            if self.peer_has_ended {
                return Ok(false);
            }
            match self.session.read(&self.socket, scratch)? {
                Received::Bytes(count) => self.give(&scratch[..count]),
                Received::Blocked => return Ok(false),
                Received::End => self.end_inward(),
                Received::PlainHttp(_) => {
                    return Err(io::Error::new(io::ErrorKind::InvalidData, "plain HTTP where TLS is spoken"));
                }
            }
        }
        Ok(true)
    }

    /// Gives the other process as many of `bytes` as it takes now, and keeps the rest for later. Where it listens no
    /// more, its end is seen by [`TlsEnd::bring_out`].
    fn give(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match self.pair.write(bytes) {
                Ok(Some(count)) => bytes = &bytes[count..],
                Ok(None) => {
                    self.inward = bytes.to_vec();
                    return;
                }
                Err(_) => return,
            }
        }
    }

    /// Nothing more comes from the peer.
    fn end_inward(&mut self) {
        self.peer_has_ended = true;
        // The other process may be gone already.
        let _ = self.pair.end();
    }

    /// Passes on what the other process sends. Returns whether there may be more.
    fn bring_out(&mut self, scratch: &mut [u8], now: Time) -> io::Result<bool> {
        for _ in 0..READS_A_TURN {
            let flushed = self.session.flush(&self.socket)?;
            if flushed.bytes > 0 {
                self.last_progress = now;
            }
            if !flushed.all {
                return Ok(false);
            }
            if !self.outward.is_empty() {
                let Some(count) = self.session.write(&self.socket, &self.outward)? else { return Ok(false) };
                self.outward.drain(..count);
                self.last_progress = now;
                continue;
            }
            if self.is_ending {
                if self.has_said_all.is_none() {
                    self.has_said_all = Some(now);
                    let _ = self.socket.end();
                }
                return Ok(false);
            }
            match self.pair.read(&mut scratch[..RECORD_BYTES]) {
                Ok(None) => return Ok(false),
                Ok(Some(count @ 1..)) => {
                    let taken = self.session.write(&self.socket, &scratch[..count])?.unwrap_or(0);
                    self.outward = scratch[taken..count].to_vec();
                    self.last_progress = now;
                }
                Ok(Some(0)) | Err(_) => {
                    self.is_ending = true;
                    self.session.end(&self.socket);
                }
            }
        }
        Ok(true)
    }

    /// The other process has closed its end: from now on the peer has to take what is left, or to lose it.
    fn abandon(&mut self, now: Time) {
        if !std::mem::replace(&mut self.is_abandoned, true) {
            self.last_progress = now;
        }
    }

    fn is_over(&self, timeout: Duration, now: Time) -> bool {
        match self.has_said_all {
            Some(since) => self.peer_has_ended || now.since(since) >= DRAIN_TIME,
            None if self.is_ending && self.session.is_handshaking() => true,
            None => self.is_abandoned && now.since(self.last_progress) >= timeout,
        }
    }
}

/// Why the thread goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read or to send than it got a turn for.
    Unfinished,
    /// Time limits are checked.
    Sweep,
}

/// TLS that goes on for the process that has taken over, on threads of its own.
#[derive(Debug)]
pub struct DrainingTls {
    shared: Arc<Shared>,
    wakers: Vec<Waker>,
    threads: Mutex<Vec<JoinHandle<()>>>,
}

#[derive(Debug, Default)]
struct Shared {
    connections: AtomicUsize,
    is_ending: AtomicBool,
}

impl DrainingTls {
    /// Goes on with `groups`, each on a thread, until their last connection is over, or `bound` has passed.
    /// A peer that takes nothing for `timeout` of what the other process has left for it is given up.
    pub fn start(groups: Vec<Vec<TlsEnd>>, clock: Clock, bound: Duration, timeout: Duration) -> DrainingTls {
        let shared = Arc::new(Shared::default());
        let (mut wakers, mut threads) = (Vec::new(), Vec::new());
        let until = clock.now() + bound;
        for (index, group) in groups.into_iter().filter(|group| !group.is_empty()).enumerate() {
            let kept = Keeper::new(group, Arc::clone(&shared), clock, until, timeout);
            let started = kept.and_then(|(keeper, waker)| {
                wakers.push(waker);
                let thread = std::thread::Builder::new().name(format!("tls-{index}"));
                thread.spawn(move || keeper.run())
            });
            match started {
                Ok(thread) => threads.push(thread),
                Err(error) => tracing::error!(%error, "cannot go on with connections over TLS; they end"),
            }
        }
        DrainingTls { shared, wakers, threads: Mutex::new(threads) }
    }

    /// Connections that it goes on with.
    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::Acquire)
    }

    /// Ends them, in a moment.
    pub fn end(&self) {
        self.shared.is_ending.store(true, Ordering::Release);
        self.wakers.iter().for_each(Waker::wake);
    }

    /// Waits until all are over.
    pub fn wait(&self) {
        let threads = std::mem::take(&mut *self.threads.lock().unwrap_or_else(PoisonError::into_inner));
        for thread in threads {
            // One that panicked has said so on standard error, and its connections are over.
            let _ = thread.join();
        }
    }
}

/// One thread's connections.
struct Keeper {
    shared: Arc<Shared>,
    clock: Clock,
    until: Time,
    timeout: Duration,
    poller: Poller,
    waker: Waker,
    /// By half their tokens, which are not given again.
    ends: Vec<Option<TlsEnd>>,
    again: Vec<usize>,
    scratch: Vec<u8>,
}

impl Keeper {
    fn new(
        ends: Vec<TlsEnd>,
        shared: Arc<Shared>,
        clock: Clock,
        until: Time,
        timeout: Duration,
    ) -> io::Result<(Keeper, Waker)> {
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKE)?;
        for (number, end) in (0..).zip(&ends) {
            poller.add(&end.socket, 2 * number, Watch::Edges)?;
            poller.add(&end.pair, 2 * number + 1, Watch::Edges)?;
        }
        shared.connections.fetch_add(ends.len(), Ordering::AcqRel);
        let ends = ends.into_iter().map(Some).collect();
        let (again, scratch) = (Vec::new(), vec![0; 2 * READ_BYTES_MIN]);
        let handle = waker.clone();
        Ok((Keeper { shared, clock, until, timeout, poller, waker, ends, again, scratch }, handle))
    }

    fn run(mut self) {
        let (mut ready, mut next_sweep, mut are_told) = (Vec::new(), Time::ZERO, false);
        while self.ends.iter().any(Option::is_some) {
            let now = self.clock.now();
            let mut wakeup = Wakeup::NEVER.or(Reason::Sweep, next_sweep);
            if !self.again.is_empty() {
                wakeup = wakeup.or(Reason::Unfinished, now);
            }
            if let Err(error) = self.poller.wait_until(&wakeup, now, &mut ready) {
                tracing::error!(%error, "epoll failed; connections over TLS end");
                break;
            }
            for event in &ready {
                match event.token {
                    WAKE => {
                        self.waker.clear();
                        next_sweep = Time::ZERO;
                    }
                    token => self.handle(token, event.closed),
                }
            }
            for slot in std::mem::take(&mut self.again) {
                self.turn(slot);
            }
            let now = self.clock.now();
            if now < next_sweep {
                continue;
            }
            next_sweep = now + SWEEP;
            if self.shared.is_ending.load(Ordering::Acquire) {
                self.until = self.until.min(now);
            }
            if now >= self.until && !std::mem::replace(&mut are_told, true) {
                // The other process ends them, as if their peers had gone: a publisher slot is free at once.
                self.ends.iter_mut().flatten().for_each(TlsEnd::end_inward);
            }
            if now >= self.until + 2 * DRAIN_TIME {
                break;
            }
            for slot in 0..self.ends.len() {
                if self.ends[slot].as_ref().is_some_and(|end| end.is_over(self.timeout, now)) {
                    self.close(slot);
                }
            }
        }
        for slot in 0..self.ends.len() {
            self.close(slot);
        }
    }

    /// A socket or an end has news: whichever it is, all is passed on that can be.
    fn handle(&mut self, token: u64, is_closed: bool) {
        let (slot, is_pair) = (usize::try_from(token / 2).unwrap_or(usize::MAX), token % 2 == 1);
        if let Some(end) = self.ends.get_mut(slot).and_then(Option::as_mut)
            && is_pair
            && is_closed
        {
            end.abandon(self.clock.now());
        }
        self.turn(slot);
    }

    fn turn(&mut self, slot: usize) {
        let Some(end) = self.ends.get_mut(slot).and_then(Option::as_mut) else { return };
        match end.take_turn(&mut self.scratch, self.timeout, self.clock.now()) {
            Turn::Rests => {}
            Turn::Again => self.again.push(slot),
            Turn::Over => self.close(slot),
        }
    }

    fn close(&mut self, slot: usize) {
        if let Some(end) = self.ends[slot].take() {
            // The other process may still have the socket, and then its watch would stay.
            let _ = self.poller.remove(&end.socket);
            self.shared.connections.fetch_sub(1, Ordering::AcqRel);
        }
    }
}

#[cfg(test)]
#[path = "tls_ends_tests.rs"]
mod tests;
