//! The server of growing objects: chunked transfer over kept-alive connections, in one thread on one epoll instance.
//!
//! It is the origin behind a cache, and, asked directly, the floor beneath all caches: each chunk is made once, with its
//! framing, and written once for each connection.

use super::{Bytes, Timeline, fixed_path, path_of};
use anyhow::{Context, Result};
use glassline_delivery::http1::server::{Event, Request, Server};
use glassline_delivery::http1::{Limits, Method};
use glassline_io::clock::Clock;
use glassline_io::poll::{self, Poller, Watch};
use glassline_io::tcp::{Connection, Listener};
use glassline_media::Time;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// What was asked of an origin, readable from other threads.
#[derive(Debug, Default)]
pub struct Served {
    /// Requests for growing objects.
    pub fetches: AtomicU64,
    /// Growing objects that were asked for at least once.
    pub objects: AtomicU64,
    /// Requests for anything that is not there.
    pub misses: AtomicU64,
}

/// Objects that are kept after they are whole.
const KEPT: usize = 3;
const LISTENER: u64 = u64::MAX;
const READ_BYTES: usize = 8 << 10;
/// How soon it is seen that it is to end.
const STEP: Duration = Duration::from_millis(50);
const HEAD: &str = "HTTP/1.1 200 OK\r\nContent-Type: video/mp4\r\nCache-Control: public, max-age=60\r\n";

/// A growing object as it goes over the wire: chunks in their framing.
#[derive(Debug)]
struct Growing {
    number: u64,
    chunks: u32,
    wire: Vec<u8>,
    asked: bool,
}

/// What a connection is being sent.
#[derive(Clone, Debug, Default)]
enum Sending {
    #[default]
    Nothing,
    /// A growing object, from this place of its wire bytes.
    Object(u64, usize),
    /// Bytes that are all there, from this place.
    Whole(Arc<[u8]>, usize),
}

#[derive(Debug)]
struct Peer {
    connection: Connection,
    server: Server,
    sending: Sending,
    /// Requests that have been read while an answer is being sent.
    unread: Vec<u8>,
}

/// The server.
#[derive(Debug)]
pub struct Origin {
    timeline: Timeline,
    bytes: Bytes,
    clock: Clock,
    poller: Poller,
    listener: Listener,
    growing: VecDeque<Growing>,
    fixed: BTreeMap<String, Arc<[u8]>>,
    peers: Vec<Option<Peer>>,
    free: Vec<usize>,
    buffer: Vec<u8>,
    served: Arc<Served>,
}

impl Origin {
    /// A server on `listener`, of growing objects and of fixed ones of these sizes.
    ///
    /// # Errors
    /// Where the system gives no epoll instance.
    pub fn new(listener: Listener, timeline: Timeline, bytes: Bytes, fixed: &[usize]) -> Result<Origin> {
        let poller = Poller::new().context("cannot watch sockets")?;
        poller.add(&listener, LISTENER, Watch::Accepts)?;
        let fixed = fixed.iter().map(|&size| (fixed_path(size), whole(bytes.fixed(size)))).collect();
        Ok(Origin {
            timeline,
            bytes,
            clock: Clock::new(),
            poller,
            listener,
            growing: VecDeque::new(),
            fixed,
            peers: Vec::new(),
            free: Vec::new(),
            buffer: vec![0; READ_BYTES],
            served: Arc::default(),
        })
    }

    /// What is asked of it.
    pub fn served(&self) -> Arc<Served> {
        Arc::clone(&self.served)
    }

    /// Serves until `stop`.
    ///
    /// # Errors
    /// Where epoll or the listener fails.
    pub fn run(&mut self, stop: &AtomicBool) -> Result<()> {
        let mut ready = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let next = self.grow();
            let wait = next.since(self.clock.now()).min(STEP);
            self.poller.wait(Some(wait), &mut ready)?;
            self.grow();
            for event in &ready {
                if event.token == LISTENER { self.accept()? } else { self.handle(event) }
            }
        }
        Ok(())
    }

    /// Makes what is due and sends it to the peers that wait for it. Returns when the next chunk is due.
    fn grow(&mut self) -> Time {
        let shape = self.timeline.shape;
        loop {
            let now = self.clock.now();
            let (number, chunk) = match self.growing.back() {
                Some(last) if last.chunks < shape.chunks => (last.number, last.chunks),
                Some(last) => (last.number + 1, 0),
                None => (self.timeline.object_at(now), 0),
            };
            let due = self.timeline.time_of(number, chunk);
            if due > now {
                return due;
            }
            if chunk == 0 {
                self.growing.push_back(Growing { number, chunks: 0, wire: Vec::new(), asked: false });
                if self.growing.len() > KEPT + 1 {
                    self.growing.pop_front();
                }
            }
            if let Some(last) = self.growing.back_mut() {
                last.wire.extend_from_slice(format!("{:x}\r\n", shape.chunk_bytes).as_bytes());
                self.bytes.write(shape, number, chunk, now, &mut last.wire);
                last.wire.extend_from_slice(b"\r\n");
                last.chunks += 1;
                if last.chunks == shape.chunks {
                    last.wire.extend_from_slice(b"0\r\n\r\n");
                }
            }
            for index in 0..self.peers.len() {
                let waits =
                    |peer: &Peer| matches!(peer.sending, Sending::Object(which, _) if which == number);
                if self.peers[index].as_ref().is_some_and(waits) {
                    self.serve(index);
                }
            }
        }
    }

    fn accept(&mut self) -> Result<()> {
        while let Some((connection, _)) = self.listener.accept()? {
            // It may have gone again.
            if connection.send_at_once().is_err() {
                continue;
            }
            let index = self.free.pop().unwrap_or(self.peers.len());
            self.poller.add(&connection, index as u64, Watch::Edges)?;
            let server = Server::new(Limits::DEFAULT, self.clock.now());
            let peer = Some(Peer { connection, server, sending: Sending::Nothing, unread: Vec::new() });
            if index < self.peers.len() { self.peers[index] = peer } else { self.peers.push(peer) }
        }
        Ok(())
    }

    fn handle(&mut self, event: &poll::Event) {
        let index = event.token as usize;
        let Some(Some(peer)) = self.peers.get_mut(index) else { return };
        if event.readable {
            loop {
                match peer.connection.read(&mut self.buffer) {
                    Ok(Some(0)) | Err(_) => return self.close(index),
                    Ok(Some(length)) => peer.unread.extend_from_slice(&self.buffer[..length]),
                    Ok(None) => break,
                }
            }
        }
        self.serve(index);
    }

    fn close(&mut self, index: usize) {
        self.peers[index] = None;
        self.free.push(index);
    }

    /// Sends what can be sent, and takes the next request when an answer is out.
    fn serve(&mut self, index: usize) {
        loop {
            match self.send(index) {
                Ok(true) => {}
                Ok(false) => return,
                Err(_) => return self.close(index),
            }
            let Some(peer) = &mut self.peers[index] else { return };
            let (now, mut request) = (self.clock.now(), None);
            let mut input = &peer.unread[..];
            loop {
                match peer.server.next(&mut input, now) {
                    Ok(Some(Event::Request(head))) => request = Some(head),
                    Ok(Some(_)) => {}
                    Ok(None) => break,
                    Err(_) => return self.close(index),
                }
            }
            let left = input.len();
            peer.unread.drain(..peer.unread.len() - left);
            let Some(request) = request else { return };
            if self.answer(index, &request).is_err() {
                return self.close(index);
            }
        }
    }

    fn answer(&mut self, index: usize, request: &Request) -> Result<(), ()> {
        let path = request.path.as_str();
        let growing = self.growing.iter_mut().find(|object| path_of(object.number) == path);
        let Some(peer) = &mut self.peers[index] else { return Err(()) };
        peer.sending = match growing {
            Some(object) if request.method == Method::Get => {
                self.served.fetches.fetch_add(1, Ordering::Relaxed);
                self.served.objects.fetch_add(u64::from(!object.asked), Ordering::Relaxed);
                object.asked = true;
                // Head and chunks that are there leave together.
                let head = format!("{HEAD}Transfer-Encoding: chunked\r\n\r\n");
                let parts = [std::io::IoSlice::new(head.as_bytes()), std::io::IoSlice::new(&object.wire)];
                let sent = peer.connection.write_vectored(&parts).map_err(drop)?.unwrap_or(0);
                Sending::Object(object.number, sent.checked_sub(head.len()).ok_or(())?)
            }
            _ => match self.fixed.get(path) {
                Some(bytes) => Sending::Whole(Arc::clone(bytes), 0),
                None => {
                    self.served.misses.fetch_add(1, Ordering::Relaxed);
                    let refusal =
                        "HTTP/1.1 404 Not Found\r\nCache-Control: no-store\r\nContent-Length: 0\r\n\r\n";
                    Sending::Whole(refusal.as_bytes().into(), 0)
                }
            },
        };
        Ok(())
    }

    /// Sends what is there. Returns whether the connection can take the next request.
    fn send(&mut self, index: usize) -> std::io::Result<bool> {
        let now = self.clock.now();
        let Some(peer) = &mut self.peers[index] else { return Ok(false) };
        let (wire, position, chunks_left) = match &peer.sending {
            Sending::Nothing => return Ok(true),
            Sending::Whole(bytes, position) => (&bytes[..], *position, false),
            Sending::Object(number, position) => {
                let object = self.growing.iter().find(|object| object.number == *number);
                // A peer that is several objects behind cannot be helped.
                let object = object.ok_or(std::io::ErrorKind::TimedOut)?;
                (&object.wire[..], *position, object.chunks < self.timeline.shape.chunks)
            }
        };
        let mut at = position;
        while at < wire.len() {
            match peer.connection.write(&wire[at..])? {
                Some(count) => at += count,
                None => break,
            }
        }
        let is_over = at == wire.len() && !chunks_left;
        match &mut peer.sending {
            Sending::Object(_, position) | Sending::Whole(_, position) => *position = at,
            Sending::Nothing => {}
        }
        if is_over {
            peer.sending = Sending::Nothing;
            peer.server.done(now);
        }
        Ok(is_over)
    }
}

/// A fixed object with its head.
fn whole(body: &[u8]) -> Arc<[u8]> {
    let mut wire = format!("{HEAD}Content-Length: {}\r\n\r\n", body.len()).into_bytes();
    wire.extend_from_slice(body);
    wire.into()
}

#[cfg(test)]
#[path = "origin_tests.rs"]
mod tests;
