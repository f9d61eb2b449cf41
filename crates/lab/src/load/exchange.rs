//! Requests on kept-alive connections: very many of them in one thread on one epoll instance.
//!
//! ```text
//!            next ─► Next::Ask ─► connect, request ─► [ the server ]
//!   Crowd ◄─ head, data, end | failed ◄────────────── response
//!       └──► poll_wake: which other connection has something to ask now
//! ```
//! An [`Exchange`] moves bytes and keeps the clock; what is asked when, and what an answer means, is its [`Crowd`]'s
//! decision. A connection is opened when there is something to ask and stays for as long as the server keeps it. For
//! viewers that ask once and read an endless body there is [`Load`](super::Load).

use super::generator::open;
use super::target::Target;
use anyhow::{Context, Result};
use glassline_delivery::http1::client::{Client, Event, Head, Request};
use glassline_delivery::http1::{Limits, Method};
use glassline_io::client::Wire;
use glassline_io::clock::Clock;
use glassline_io::poll::{self, Poller, Wakeup, Watch};
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::io;
use std::net::IpAddr;
use std::time::Duration;

/// What a connection does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It asks for this path (with query) with `GET`.
    Ask(String),
    /// Nothing before this time.
    At(Time),
    /// Nothing until it is woken.
    Rest,
}

/// The clients that ask. Their connections are told apart by an index, from 0 on.
pub trait Crowd {
    /// What a connection without a request does at `now`.
    fn next(&mut self, index: usize, now: Time) -> Next;
    /// A response's head came.
    fn head(&mut self, index: usize, head: &Head, now: Time);
    /// Bytes of its body came.
    fn data(&mut self, index: usize, bytes: &[u8], now: Time);
    /// The response is whole.
    fn end(&mut self, index: usize, now: Time);
    /// The request, or the connection that it needs, has failed; it is not repeated.
    fn failed(&mut self, index: usize, reason: &str, now: Time);
    /// A connection that rests, or waits for a time, and has something to ask sooner.
    fn poll_wake(&mut self) -> Option<usize> {
        None
    }
}

/// Where connections lead to, and how long they may take.
#[derive(Clone, Debug)]
pub struct Ends {
    /// The server; paths are the crowd's.
    pub target: Target,
    /// The certificates that an `https://` server's is checked by.
    pub trust: Option<Connector>,
    /// Addresses to connect from, in turn; the system's choice where there are none.
    pub sources: Vec<IpAddr>,
    /// A request without a word of its answer after this time has failed.
    pub timeout: Duration,
}

/// Where a connection stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It is being opened, or TLS agreed on; its request waits.
    Opening,
    Idle,
    /// The request is sent.
    Asked,
    /// The response has begun.
    Answered,
}

#[derive(Debug)]
struct Link {
    wire: Wire,
    state: State,
    client: Client,
    /// It has carried a whole response: if it closes before the next one begins, the request goes over a new one.
    used: bool,
}

#[derive(Debug, Default)]
struct Slot {
    link: Option<Link>,
    /// Tells events of the slot's connection from those of one before.
    generation: u32,
    /// The request that waits for its connection or its answer, and since when.
    request: Option<(String, Time)>,
    /// When the crowd wants to be asked again.
    wake: Option<Time>,
}

/// Why the loop goes on though nothing has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// A connection has more to read or to send than it got a turn for.
    Unfinished,
    /// Its time is over.
    End,
    /// A client's next request is due.
    Request,
    /// Time limits are checked.
    Sweep,
}

/// All connections of a crowd.
#[derive(Debug)]
pub struct Exchange<C> {
    crowd: C,
    ends: Ends,
    clock: Clock,
    now: Time,
    poller: Poller,
    slots: Vec<Slot>,
    timers: BinaryHeap<Reverse<(Time, usize)>>,
    buffer: Vec<u8>,
    ready: Vec<poll::Event>,
    /// Connections with more to read than one turn takes.
    again: Vec<(usize, u32)>,
    swept: Time,
}

const READ_BYTES: usize = 64 << 10;
/// Reads of one connection before another one's turn.
const READS: usize = 16;
/// How many connections with a due timer are served before what is ready is read.
const TIMERS: usize = 64;
const SWEEP: Duration = Duration::from_secs(1);

impl<C: Crowd> Exchange<C> {
    /// `connections` of them, none of which is open. It belongs to the thread that made it.
    ///
    /// # Errors
    /// Where the system gives no epoll instance.
    pub fn new(crowd: C, ends: Ends, connections: usize) -> Result<Exchange<C>> {
        let now = Clock::new().now();
        Ok(Exchange {
            crowd,
            ends,
            clock: Clock::new(),
            now,
            poller: Poller::new().context("cannot watch sockets")?,
            slots: (0..connections).map(|_| Slot { wake: Some(now), ..Slot::default() }).collect(),
            timers: (0..connections).map(|index| Reverse((now, index))).collect(),
            buffer: vec![0; READ_BYTES],
            ready: Vec::new(),
            again: Vec::new(),
            swept: now,
        })
    }

    /// The clients.
    pub fn crowd(&self) -> &C {
        &self.crowd
    }

    /// The clients, to change what they do from now on.
    pub fn crowd_mut(&mut self) -> &mut C {
        &mut self.crowd
    }

    /// Connections that stand.
    pub fn connected(&self) -> usize {
        let stands = |slot: &&Slot| slot.link.as_ref().is_some_and(|link| link.state != State::Opening);
        self.slots.iter().filter(stands).count()
    }

    /// Goes on for `time`.
    ///
    /// # Errors
    /// Where epoll fails; what happens to requests is the crowd's to know.
    pub fn run(&mut self, time: Duration) -> Result<()> {
        self.now = self.clock.now();
        let end = self.now + time;
        loop {
            self.do_what_is_due();
            if self.now >= end {
                return Ok(());
            }
            let due = self.timers.peek().map_or(Time::NEVER, |Reverse((time, _))| *time);
            let mut wakeup = Wakeup::NEVER
                .or(Reason::End, end)
                .or(Reason::Request, due)
                .or(Reason::Sweep, self.swept + SWEEP);
            if !self.again.is_empty() {
                wakeup = wakeup.or(Reason::Unfinished, self.now);
            }
            let mut ready = std::mem::take(&mut self.ready);
            self.poller.wait_until(&wakeup, self.now, &mut ready)?;
            self.now = self.clock.now();
            for event in &ready {
                self.handle(event);
            }
            self.ready = ready;
            for (index, generation) in std::mem::take(&mut self.again) {
                if self.slots[index].generation == generation {
                    self.read(index);
                }
            }
        }
    }

    fn do_what_is_due(&mut self) {
        for _ in 0..TIMERS {
            let Some(&Reverse((time, index))) = self.timers.peek() else { break };
            if time > self.now {
                break;
            }
            self.timers.pop();
            if self.slots[index].wake == Some(time) {
                self.advance(index);
            }
        }
        self.wake_others();
        if self.now >= self.swept + SWEEP {
            self.swept = self.now;
            self.sweep();
        }
    }

    fn wake_others(&mut self) {
        while let Some(index) = self.crowd.poll_wake() {
            if self.slots.get(index).is_some_and(|slot| slot.request.is_none()) {
                self.advance(index);
            }
        }
    }

    /// Asks the crowd what this connection does next, and does it.
    fn advance(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.wake = None;
        match self.crowd.next(index, self.now) {
            Next::Ask(path) => {
                slot.request = Some((path, self.now));
                if slot.link.is_some() { self.ask(index) } else { self.connect(index) }
            }
            Next::At(time) => {
                slot.wake = Some(time);
                self.timers.push(Reverse((time, index)));
            }
            Next::Rest => {}
        }
    }

    fn connect(&mut self, index: usize) {
        let sources = &self.ends.sources;
        let source = (!sources.is_empty()).then(|| sources[index % sources.len()]);
        let slot = &mut self.slots[index];
        slot.generation = slot.generation.wrapping_add(1);
        let token = token(index, slot.generation);
        let wire = open(&self.ends.target, source, None, self.ends.trust.as_ref())
            .and_then(|wire| self.poller.add(wire.socket(), token, Watch::Edges).map(|()| wire));
        match wire {
            Ok(wire) => {
                let client = Request::new(Method::Get, "", "").client(Limits::DEFAULT);
                slot.link = Some(Link { wire, state: State::Opening, client, used: false });
            }
            Err(error) => self.fail(index, &error.to_string()),
        }
    }

    /// Sends the request that waits over a connection that stands.
    fn ask(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        let (Some(link), Some((path, _))) = (&mut slot.link, &slot.request) else { return };
        let url = self.ends.target.url();
        let request = Request::kept_alive(Method::Get, &url.authority(), path);
        link.client = request.client(Limits::DEFAULT);
        let bytes = request.without_body();
        match link.wire.write(&bytes) {
            Ok(Some(count)) if count == bytes.len() => link.state = State::Asked,
            // It fits into any socket once its last response has been read.
            Ok(_) => self.lose(index, "the request was not taken"),
            Err(error) => self.lose(index, &error.to_string()),
        }
    }

    fn handle(&mut self, event: &poll::Event) {
        let index = event.token as u32 as usize;
        let Some(slot) =
            self.slots.get_mut(index).filter(|slot| token(index, slot.generation) == event.token)
        else {
            return;
        };
        let Some(link) = &mut slot.link else { return };
        if link.state == State::Opening {
            let opened = if event.writable || event.closed { link.open(&mut self.buffer) } else { Ok(false) };
            match opened {
                Ok(false) => return,
                Ok(true) => self.ask(index),
                Err(error) => return self.lose(index, &error.to_string()),
            }
        }
        if event.readable {
            self.read(index);
        }
    }

    fn read(&mut self, index: usize) {
        for turn in 0.. {
            let Some(link) = &mut self.slots[index].link else { return };
            if link.state == State::Opening {
                return;
            }
            if turn == READS {
                self.again.push((index, self.slots[index].generation));
                return;
            }
            let is_plain = link.wire.tells_when_empty();
            let length = match link.wire.read(&mut self.buffer) {
                Ok(Some(length)) => length,
                Ok(None) => return,
                Err(error) => return self.lose(index, &error.to_string()),
            };
            self.now = self.clock.now();
            let buffer = std::mem::take(&mut self.buffer);
            let goes_on = self.take(index, &buffer[..length]);
            self.buffer = buffer;
            self.wake_others();
            if !goes_on || (is_plain && length < READ_BYTES.max(READ_BYTES_MIN)) {
                return;
            }
        }
    }

    /// Takes what was read; nothing is the connection's end. Returns whether there may be more.
    fn take(&mut self, index: usize, mut bytes: &[u8]) -> bool {
        if bytes.is_empty() {
            self.closed(index);
            return false;
        }
        let generation = self.slots[index].generation;
        loop {
            let slot = &mut self.slots[index];
            let Some(link) = slot.link.as_mut().filter(|_| slot.generation == generation) else {
                return false;
            };
            if link.state == State::Idle {
                if bytes.is_empty() {
                    return true;
                }
                self.lose(index, "it speaks without being asked");
                return false;
            }
            match link.client.next(&mut bytes) {
                Ok(None) => return true,
                Ok(Some(Event::Head(head))) => {
                    link.state = State::Answered;
                    self.crowd.head(index, &head, self.now);
                }
                Ok(Some(Event::Data(data))) => self.crowd.data(index, data, self.now),
                Ok(Some(Event::End)) => self.ended(index),
                Err(error) => {
                    let reason = error.to_string();
                    self.lose(index, &reason);
                    return false;
                }
            }
        }
    }

    /// The response is whole.
    fn ended(&mut self, index: usize) {
        let slot = &mut self.slots[index];
        slot.request = None;
        if let Some(link) = &mut slot.link {
            (link.state, link.used) = (State::Idle, true);
            if !link.client.keeps_alive() {
                slot.link = None;
            }
        }
        self.crowd.end(index, self.now);
        self.advance(index);
    }

    /// The server has closed the connection.
    fn closed(&mut self, index: usize) {
        let Some(link) = &mut self.slots[index].link else { return };
        match link.state {
            State::Answered if link.client.end().is_ok() => {
                // A body without a length ends with its connection.
                self.slots[index].link = None;
                self.ended(index);
            }
            _ => self.lose(index, "the server closed the connection"),
        }
    }

    /// The connection is of no use any more. A request that it has not begun to answer, after others that it did answer,
    /// goes over a new one: the server had closed it before it was asked (RFC 9112 §9.3.1).
    fn lose(&mut self, index: usize, reason: &str) {
        let slot = &mut self.slots[index];
        let Some(link) = slot.link.take() else { return };
        slot.generation = slot.generation.wrapping_add(1);
        match (link.state, slot.request.is_some()) {
            (_, false) => {}
            (State::Asked | State::Idle, true) if link.used => self.connect(index),
            _ => self.fail(index, reason),
        }
    }

    fn fail(&mut self, index: usize, reason: &str) {
        self.slots[index].request = None;
        self.crowd.failed(index, reason, self.now);
        // Whatever it wants, not within this turn: a server that refuses is not asked in a loop.
        let slot = &mut self.slots[index];
        let later = self.now + AFTER_FAILURE;
        slot.wake = Some(later);
        self.timers.push(Reverse((later, index)));
    }

    /// Once a second: gives up requests that have waited for their answer for too long.
    fn sweep(&mut self) {
        for index in 0..self.slots.len() {
            let slot = &mut self.slots[index];
            let begun = slot.link.as_ref().is_some_and(|link| link.state == State::Answered);
            let late = |since: Time| self.now.since(since) >= self.ends.timeout;
            if !begun && slot.request.as_ref().is_some_and(|(_, since)| late(*since)) {
                slot.link = None;
                slot.generation = slot.generation.wrapping_add(1);
                let reason = format!("no answer within {} s", self.ends.timeout.as_secs_f64());
                self.fail(index, &reason);
            }
        }
    }
}

/// How long a connection rests at least after its request has failed.
const AFTER_FAILURE: Duration = Duration::from_millis(100);

impl Link {
    /// Goes on with opening it. Returns whether it stands.
    fn open(&mut self, room: &mut [u8]) -> io::Result<bool> {
        self.wire.socket().connected()?;
        self.wire.flush()?;
        if self.wire.is_handshaking() && self.wire.read(room)?.is_some() {
            return Err(io::Error::other("closed before TLS was agreed on"));
        }
        let stands = !self.wire.is_handshaking();
        if stands {
            self.wire.socket().send_at_once()?;
            self.state = State::Idle;
        }
        Ok(stands)
    }
}

fn token(index: usize, generation: u32) -> u64 {
    u64::from(generation) << 32 | index as u64
}
