//! Our end of a line's connection, as caller or as listener, and what takes its place where the peer's program begins anew.
//!
//! A peer that was killed says nothing. Where it listens, it is called again beside the connection as soon as that is silent: a
//! listener that answers, while the connection's peer does not, has begun anew. Where it calls, its next call asks for the place that
//! the dead connection has. Either way the peer is asked first whether it is there ([`Connection::contest`]).

use glassline_io::udp::Port;
use glassline_media::Time;
use glassline_transport::srt::{
    Address, Caller, CallerError, Connection, Handled, Life, Listener, Rejection, Request,
};
use std::net::SocketAddr;
use std::time::Duration;

/// A peer says once a second that it is there: one that is silent for so long may be gone.
const SILENT: Duration = Duration::from_millis(1100);
/// How often a silent one is asked.
const ASK_EVERY: Duration = Duration::from_millis(250);

/// Our end of the connection.
pub(super) enum End {
    Calling(Box<Calling>),
    Listening(Box<Listening>),
}

/// The end that calls.
pub(super) struct Calling {
    address: Address,
    caller: Caller,
    /// Calls again, beside a connection that is silent.
    again: Option<Caller>,
    ask_at: Time,
    /// Bytes that the peer of a connection did not have when another one took its place; not told yet.
    replaced: Option<usize>,
}

/// The end that is called, by one peer at a time.
pub(super) struct Listening {
    listener: Listener,
    socket: Option<u32>,
    replaced: Option<usize>,
}

fn is_same(one: SocketAddr, other: SocketAddr) -> bool {
    one.ip().to_canonical() == other.ip().to_canonical() && one.port() == other.port()
}

impl Calling {
    pub(super) fn new(address: &Address, to: SocketAddr, seed: [u8; 32], now: Time) -> Calling {
        let caller = Caller::new(address.settings(), &address.stream_id, to, seed, now);
        Calling { address: address.clone(), caller, again: None, ask_at: Time::ZERO, replaced: None }
    }

    /// Calls again where the connection is silent, and goes on with that call once a listener has answered it and the connection's peer
    /// does not answer. `seed` is random.
    fn look(&mut self, now: Time, seed: &mut dyn FnMut() -> Option<[u8; 32]>) {
        let to = self.caller.remote();
        let Some(connection) = self.caller.connection().filter(|connection| connection.ended().is_none())
        else {
            self.again = None;
            return;
        };
        if now.since(connection.heard()) < SILENT {
            self.again = None;
            return;
        }
        if let Some(again) = &mut self.again {
            again.handle_timeout(now);
        } else if let Some(seed) = seed() {
            let again = Caller::new(self.address.settings(), &self.address.stream_id, to, seed, now);
            (self.again, self.ask_at) = (Some(again), now);
        }
        if self.ask_at > now {
            return;
        }
        self.ask_at = now + ASK_EVERY;
        let is_gone = connection.contest(to, now) == Life::Gone;
        let unacknowledged = connection.unacknowledged_bytes();
        if let Some(again) = self.again.take_if(|again| is_gone && again.is_answered()) {
            (self.caller, self.replaced) = (again, Some(unacknowledged));
        }
    }

    /// Sends what calls have to say.
    fn call(&mut self, port: &Port, now: Time, out: &mut Vec<u8>) {
        let is_connected = self.caller.connection().is_some();
        let first = (!is_connected).then_some(&mut self.caller);
        // Once it is answered it waits until the connection is given up.
        let again = self.again.as_mut().filter(|again| !again.is_answered());
        for caller in first.into_iter().chain(again) {
            while let Some(transmit) = caller.poll_transmit(now, out) {
                if let Err(error) = port.send(caller.remote(), out, transmit.segment_bytes, 0) {
                    tracing::debug!("calling by SRT: {error}");
                }
            }
        }
    }

    fn poll_timeout(&mut self) -> Time {
        let due = self.caller.poll_timeout();
        let again = self.again.as_ref().filter(|again| !again.is_answered()).map(Caller::poll_timeout);
        let Some(connection) = self.caller.connection().filter(|connection| connection.ended().is_none())
        else {
            return due;
        };
        let ask_at = (connection.heard() + SILENT).max(self.ask_at);
        due.min(ask_at).min(again.unwrap_or(Time::NEVER))
    }
}

impl Listening {
    pub(super) fn new(listener: Listener) -> Listening {
        Listening { listener, socket: None, replaced: None }
    }

    fn admit(&mut self, now: Time, request: Request) {
        let Some(socket) = self.socket else {
            self.socket = self.listener.accept(now, request).ok();
            return;
        };
        let (life, unacknowledged) = match self.listener.connection(socket) {
            None => (Life::Gone, 0),
            Some((remote, connection)) => {
                let life = match () {
                    // It has lost the connection that it had.
                    () if is_same(remote, request.from) => Life::Gone,
                    () if remote.ip() == request.from.ip() => connection.contest(request.from, now),
                    () => Life::There,
                };
                (life, connection.unacknowledged_bytes())
            }
        };
        match life {
            Life::There => self.listener.reject(now, &request, Rejection::OVERLOAD),
            // It asks again.
            Life::Asked => {}
            Life::Gone => {
                self.listener.remove(socket);
                (self.socket, self.replaced) =
                    (self.listener.accept(now, request).ok(), Some(unacknowledged));
            }
        }
    }
}

impl End {
    /// The connection, with where its peer is.
    pub(super) fn connection(&mut self) -> Option<(SocketAddr, &mut Connection)> {
        match self {
            End::Calling(calling) => {
                let remote = calling.caller.remote();
                calling.caller.connection().map(|connection| (remote, connection))
            }
            End::Listening(listening) => listening.listener.connection(listening.socket?),
        }
    }

    /// Takes a datagram that came from `from`.
    pub(super) fn handle_datagram(&mut self, now: Time, from: SocketAddr, datagram: &[u8]) {
        match self {
            End::Calling(calling) => {
                if !is_same(from, calling.caller.remote()) {
                    return;
                }
                // Each takes what is for its socket.
                calling.caller.handle_datagram(now, datagram);
                if let Some(again) = &mut calling.again {
                    again.handle_datagram(now, datagram);
                }
            }
            End::Listening(listening) => {
                if let Handled::Request(request) = listening.listener.handle_datagram(now, from, datagram) {
                    listening.admit(now, *request);
                }
            }
        }
    }

    /// Where another connection has taken the place of the one before since this was asked last: bytes that the peer of that one did not
    /// have.
    pub(super) fn take_replaced(&mut self) -> Option<usize> {
        match self {
            End::Calling(calling) => calling.replaced.take(),
            End::Listening(listening) => listening.replaced.take(),
        }
    }

    /// Does what is due but for the connection's own, and sends what there is to say before and beside a connection. `seed` is random.
    ///
    /// # Errors
    /// Why no connection comes about.
    pub(super) fn work(
        &mut self,
        port: &Port,
        now: Time,
        out: &mut Vec<u8>,
        seed: &mut dyn FnMut() -> Option<[u8; 32]>,
    ) -> Result<(), CallerError> {
        match self {
            End::Calling(calling) => {
                calling.caller.handle_timeout(now);
                if let Some(error) = calling.caller.error() {
                    return Err(error);
                }
                calling.look(now, seed);
                calling.call(port, now, out);
            }
            End::Listening(listening) => {
                while let Some((to, datagram)) = listening.listener.poll_answer() {
                    let _ = port.send(to, &datagram, 0, 0);
                }
            }
        }
        Ok(())
    }

    /// When there is something to do although nothing comes.
    pub(super) fn poll_timeout(&mut self) -> Time {
        match self {
            End::Calling(calling) => calling.poll_timeout(),
            End::Listening(_) => {
                self.connection().map_or(Time::NEVER, |(_, connection)| connection.poll_timeout())
            }
        }
    }
}
