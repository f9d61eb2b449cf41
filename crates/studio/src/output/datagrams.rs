//! Datagrams of up to 7 TS packets, bare or in RTP (RFC 2250): to a machine, or to a multicast group.
//!
//! What the socket takes leaves at once, on the encoder's thread; the rest waits for room, in order and for a bounded time,
//! and leaves by the network thread.

use super::network::{Endpoint, Network, Registration};
use super::{Demand, Error, Liveness, Output, Packets, Result, StatusHandle};
use glassline_delivery::output::{Destination, DestinationError, Framing};
use glassline_io::clock::Clock;
use glassline_io::resolve::resolve;
use glassline_io::udp::{Route, Sender};
use glassline_media::container::ts::Packet;
use glassline_media::container::ts::packet::packets as ts_packets;
use glassline_media::{Ticks, Time};
use glassline_transport::rtp::Framer;
use std::collections::VecDeque;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How long datagrams of a live stream wait for room in a socket: a key frame is more than it holds, and leaves at the
/// line's rate.
const LIVE_WAIT: Duration = Duration::from_millis(100);
/// The same where the source waits: a line that is down for longer takes nothing for a long time.
const FILE_WAIT: Duration = Duration::from_secs(10);
/// When what failed is opened anew: an interface that comes back is another one to a socket.
const REOPEN: Duration = Duration::from_secs(1);

/// A receiver, or a group of them.
pub(super) struct DatagramOutput(Arc<Line>);

/// What the encoder's thread and the network thread share.
struct Line {
    state: Mutex<State>,
    /// Told when nothing waits any longer.
    emptied: Condvar,
    registration: Registration,
    liveness: Liveness,
    status: StatusHandle,
}

struct State {
    destination: Destination,
    socket: Option<Sender>,
    /// Whether the network thread is told when the socket has room.
    watched: bool,
    framer: Framer,
    /// The clock of the stream as it was last told, from its first unit on, 90 kHz.
    clock: Ticks,
    /// When the first unit was framed.
    began: Option<Time>,
    /// What is added to the clock that is told, once one is.
    shift: Option<Ticks>,
    /// Nothing of the stream has been framed yet.
    is_first: bool,
    reopen_at: Time,
    /// The last failure that was spoken of, so that it is not told for each datagram.
    told: Option<ErrorKind>,
    waiting: VecDeque<Unit>,
    /// Memory of units that have gone.
    spare: Vec<u8>,
}

/// Datagrams of a run of packets, end to end.
struct Unit {
    wire: Vec<u8>,
    datagram_bytes: usize,
    /// Bytes that were sent.
    sent: usize,
    /// Worth nothing later.
    deadline: Time,
}

/// What became of a unit.
enum Sent {
    /// All of it has left.
    All,
    /// The socket takes nothing more now.
    Part,
}

impl DatagramOutput {
    /// Opens the socket. A live stream goes on where it takes nothing.
    pub(super) fn open(
        url: &str,
        liveness: Liveness,
        status: StatusHandle,
        network: &Network,
    ) -> Result<DatagramOutput> {
        let refused = |error| Error::Datagrams { name: url.to_owned(), error };
        let mut unresolved = None;
        let mut address = |host: &str| match resolve(host, 1) {
            Ok(addresses) => addresses.first().map(|address| address.ip()),
            Err(error) => {
                unresolved = Some(error);
                None
            }
        };
        let destination = match (Destination::parse_named(url, &mut address), unresolved) {
            (_, Some(error)) => return Err(refused(error)),
            (destination, None) => destination.map_err(|error: DestinationError| Error::from(error))?,
        };
        let socket = Sender::open(&route(&destination, destination.address)).map_err(refused)?;
        let state = State {
            framer: Framer::new(
                destination.packets,
                (destination.framing == Framing::Rtp).then(|| Clock::new().seed()),
            ),
            destination,
            socket: Some(socket),
            watched: false,
            clock: Ticks(0),
            began: None,
            shift: None,
            is_first: true,
            reopen_at: Time::ZERO,
            told: None,
            waiting: VecDeque::new(),
            spare: Vec::new(),
        };
        let (state, emptied, registration) = (Mutex::new(state), Condvar::new(), network.register());
        let line = Arc::new(Line { state, emptied, registration, liveness, status });
        line.registration.serve(&line);
        Ok(DatagramOutput(line))
    }
}

impl Output for DatagramOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let line = &*self.0;
        line.status.check_whole(line.state.is_poisoned())?;
        let mut state = line.lock();
        let now = line.registration.now();
        let unit = state.frame(packets.bytes, now, now + line.timeout());
        state.waiting.push_back(unit);
        if state.waiting.len() == 1 {
            line.send(&mut state, now);
        }
        if !state.waiting.is_empty() {
            if line.liveness.is_patient() {
                line.wait(state);
            } else {
                // The deadline may be the earliest.
                drop(state);
                line.registration.wake();
            }
        }
        Ok(Demand::Nothing)
    }

    fn finish(&mut self) -> Result<()> {
        self.0.status.check_whole(self.0.state.is_poisoned())?;
        self.0.wait(self.0.lock());
        Ok(())
    }
}

impl Endpoint for Line {
    fn handle_ready(self: Arc<Self>, now: Time) {
        self.send(&mut self.lock(), now);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.lock().waiting.front().map(|unit| unit.deadline)
    }
}

impl Line {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn timeout(&self) -> Duration {
        if self.liveness.live { LIVE_WAIT } else { FILE_WAIT }
    }

    /// Waits until nothing waits: each unit has its deadline, which the network thread sees to.
    fn wait(&self, state: MutexGuard<'_, State>) {
        self.registration.wake();
        let none = |state: &mut State| !state.waiting.is_empty();
        let waited = self.emptied.wait_timeout_while(state, FILE_WAIT, none);
        drop(waited.unwrap_or_else(PoisonError::into_inner));
    }

    /// Sends what waits, as far as the socket takes it, and leaves out what is too late or fails.
    fn send(&self, state: &mut State, now: Time) {
        while let Some(mut unit) = state.waiting.pop_front() {
            match state.send(&mut unit, &self.status, now) {
                Ok(Sent::Part) if now < unit.deadline => {
                    state.waiting.push_front(unit);
                    break;
                }
                Ok(Sent::Part) => {
                    let error = io::Error::new(ErrorKind::TimedOut, "the line takes nothing");
                    self.fail(state, &error);
                }
                Ok(Sent::All) if state.socket.is_some() => state.told = None,
                // It has been told why there is no socket.
                Ok(Sent::All) => self.status.left_out(),
                Err(error) => {
                    state.socket = None;
                    state.watched = false;
                    self.fail(state, &error);
                }
            }
            state.spare = unit.wire;
        }
        if let Err(error) = state.watch(&self.registration) {
            self.fail(state, &error);
        }
        if state.waiting.is_empty() {
            self.emptied.notify_all();
        }
    }

    /// Leaves a unit, or its rest, out. The network may come back, and a live stream goes on.
    fn fail(&self, state: &mut State, error: &io::Error) {
        self.status.left_out();
        if state.told.replace(error.kind()) != Some(error.kind()) {
            tracing::warn!("cannot send to {}: {error}; going on", self.status.name());
        }
    }
}

impl State {
    /// Puts the packets into datagrams.
    fn frame(&mut self, bytes: &[u8], now: Time, deadline: Time) -> Unit {
        let mut wire = std::mem::take(&mut self.spare);
        // All of it leaves now, which is when the clock in it says.
        let clock = ts_packets(bytes).find_map(|packet| Packet::parse(packet).ok()?.pcr());
        // What comes before the first clock is stamped by the time that passes, which the clock goes on from: a receiver takes
        // a leap for another stream.
        let passed = Ticks::from_time(Time::ZERO + now.since(*self.began.get_or_insert(now)));
        if let Some(clock) = clock {
            let clock = Ticks(clock.base() as i64);
            self.clock = clock + *self.shift.get_or_insert(passed - clock);
        } else if self.shift.is_none() {
            self.clock = passed;
        }
        let (clock, is_first) = (self.clock, &mut self.is_first);
        let datagram_bytes = self.framer.frame(bytes, &mut wire, |packetizer, _| {
            packetizer.next_header_at(clock, std::mem::take(is_first))
        });
        Unit { wire, datagram_bytes, sent: 0, deadline }
    }

    /// Sends of a unit what the socket takes.
    fn send(&mut self, unit: &mut Unit, status: &StatusHandle, now: Time) -> io::Result<Sent> {
        if self.socket.is_none() && now >= self.reopen_at {
            self.reopen_at = now + REOPEN;
            self.socket = Some(Sender::open(&route(&self.destination, self.destination.address))?);
        }
        let Some(socket) = &self.socket else { return Ok(Sent::All) };
        while unit.sent < unit.wire.len() {
            let datagrams: Vec<&[u8]> = unit.wire[unit.sent..].chunks(unit.datagram_bytes).collect();
            let Some(count) = socket.send(&datagrams)? else { return Ok(Sent::Part) };
            let bytes = datagrams.iter().take(count).map(|datagram| datagram.len()).sum::<usize>();
            unit.sent += bytes;
            status.sent(bytes);
        }
        Ok(Sent::All)
    }

    /// Has the network thread look at the socket while something waits, and only then: each datagram that has left would
    /// wake it.
    fn watch(&mut self, registration: &Registration) -> io::Result<()> {
        let wanted = !self.waiting.is_empty();
        let Some(socket) = self.socket.as_ref().filter(|_| wanted != self.watched) else { return Ok(()) };
        if wanted {
            registration.watch(socket)?;
        } else {
            registration.forget(socket)?;
        }
        self.watched = wanted;
        Ok(())
    }
}

/// How datagrams get to `destination`, which was found at `address`.
fn route(destination: &Destination, address: SocketAddr) -> Route {
    let Destination { interface, source, ttl, marks, .. } = destination.clone();
    Route { address, interface, source, ttl, dscp: marks.dscp, flow_label: marks.flow_label }
}

#[cfg(test)]
#[path = "datagrams_tests.rs"]
mod tests;
