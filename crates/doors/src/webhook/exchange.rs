//! One attempt: a name's addresses, a connection, a request, the head of its answer. Bounded in time and in bytes.

use glassline_delivery::http1::Url;
use glassline_delivery::webhook::{AnswerError, AnswerReader, Destinations, Message, Outcome, WebhookSecret};
use glassline_io::client::{Refused, Wire, connect_to};
use glassline_io::clock::Clock;
use glassline_io::containment::Panicked;
use glassline_io::poll::{Poller, Watch};
use glassline_io::resolve;
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::Time;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// Addresses of a name that are tried.
const ADDRESSES_MAX: usize = 4;

/// How messages are exchanged with a receiver.
pub(super) struct Exchange {
    pub(super) secret: WebhookSecret,
    pub(super) destinations: Destinations,
    pub(super) connector: Option<Connector>,
    pub(super) timeout: Duration,
}

/// Why there is no answer.
#[derive(Debug, Error)]
pub(super) enum Failure {
    /// The name leads nowhere.
    #[error("cannot find the host: {0}")]
    Unknown(io::Error),
    /// All of its addresses are inside of networks that are not listed.
    #[error("{0} is an address inside of a network; list that in webhook_networks if it is meant")]
    NotAllowed(std::net::IpAddr),
    /// No address took the connection, or TLS failed.
    #[error("cannot connect: {0}")]
    Unreachable(io::Error),
    /// The connection broke.
    #[error("the connection was lost: {0}")]
    Lost(io::Error),
    /// Not all was done in time.
    #[error("no answer in time")]
    Late,
    /// What came is no answer.
    #[error(transparent)]
    Answer(AnswerError),
    /// A fault of this program.
    #[error(transparent)]
    Fault(Panicked),
}

impl Exchange {
    /// Gives `message` to `url` and waits for the head of the answer.
    pub(super) fn deliver(&self, url: &Url, message: &Message) -> Result<Outcome, Failure> {
        let clock = Clock::new();
        // Before the deadline: the system's resolver has bounds of its own.
        let peers = self.peers(url)?;
        let deadline = clock.now() + self.timeout;
        let mut wire = self.connect(url, &peers, deadline)?;
        let poller = Poller::new().map_err(Failure::Lost)?;
        poller.add(wire.socket(), 0, Watch::Edges).map_err(Failure::Lost)?;
        let request = message.request(url, &self.secret, clock.utc().as_nanos() / 1_000_000_000);
        write_all(&mut wire, &poller, &request, deadline)?;
        let outcome = read_answer(&mut wire, &poller, deadline)?;
        wire.end();
        Ok(outcome)
    }

    /// The addresses that may be connected to. What is judged here is what is connected to: the name is not resolved again.
    fn peers(&self, url: &Url) -> Result<Vec<SocketAddr>, Failure> {
        let found = resolve::resolve(url.host(), url.port()).map_err(Failure::Unknown)?;
        let allowed = |address: &SocketAddr| self.destinations.allow(address.ip());
        let mut peers: Vec<SocketAddr> = resolve::in_turns(&found).into_iter().filter(allowed).collect();
        peers.truncate(ADDRESSES_MAX);
        match (peers.is_empty(), found.first()) {
            (true, Some(address)) => Err(Failure::NotAllowed(address.ip())),
            _ => Ok(peers),
        }
    }

    fn connect(&self, url: &Url, peers: &[SocketAddr], deadline: Time) -> Result<Wire, Failure> {
        let connector = if url.tls() {
            let none = || Failure::Unreachable(io::Error::other("no certificate authority is trusted"));
            Some(self.connector.as_ref().ok_or_else(none)?)
        } else {
            None
        };
        let mut failure = None;
        for (index, peer) in peers.iter().enumerate() {
            // Each address gets its share of the time that is left, so that a dead first one leaves some for the others.
            let share = u32::try_from(peers.len() - index).unwrap_or(u32::MAX);
            let time = left(deadline)? / share;
            // Connecting and the handshake may take that long each.
            match connect_to(&[*peer], url.host(), connector, time / 2) {
                Ok(wire) => return Ok(wire),
                Err(Refused { error, by_tls: true }) => return Err(Failure::Unreachable(error)),
                Err(refused) => failure = Some(refused.error),
            }
        }
        Err(Failure::Unreachable(failure.unwrap_or_else(|| ErrorKind::NotFound.into())))
    }
}

/// The time until `deadline`.
fn left(deadline: Time) -> Result<Duration, Failure> {
    let left = deadline.since(Clock::new().now());
    if left.is_zero() { Err(Failure::Late) } else { Ok(left) }
}

fn wait(poller: &Poller, deadline: Time) -> Result<(), Failure> {
    let mut ready = Vec::new();
    poller.wait(Some(left(deadline)?), &mut ready).map_err(Failure::Lost)
}

fn write_all(wire: &mut Wire, poller: &Poller, mut bytes: &[u8], deadline: Time) -> Result<(), Failure> {
    while !bytes.is_empty() {
        match wire.write(bytes).map_err(Failure::Lost)? {
            Some(count) => bytes = bytes.get(count..).unwrap_or_default(),
            None => wait(poller, deadline)?,
        }
    }
    while !wire.flush().map_err(Failure::Lost)? {
        wait(poller, deadline)?;
    }
    Ok(())
}

/// Reads until the answer's head is whole. Bytes that come all the time end by their number, others by the deadline.
fn read_answer(wire: &mut Wire, poller: &Poller, deadline: Time) -> Result<Outcome, Failure> {
    let (mut reader, mut room) = (AnswerReader::new(), vec![0; READ_BYTES_MIN]);
    loop {
        let count = match wire.read(&mut room).map_err(Failure::Lost)? {
            None => {
                wait(poller, deadline)?;
                continue;
            }
            Some(0) => return Err(Failure::Answer(reader.ended())),
            Some(count) => count,
        };
        let bytes = room.get(..count).unwrap_or_default();
        if let Some(outcome) = reader.push(bytes, Clock::new().utc()).map_err(Failure::Answer)? {
            return Ok(outcome);
        }
    }
}
