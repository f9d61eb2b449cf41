//! The thread of an endpoint: what comes goes into the core, what the core has goes out, and between both it sleeps.

use super::bound_socket::BoundSocket;
use super::core::Shared;
use glassline_io::containment::{Border, contain, inject};
use glassline_io::poll::{Event, Poller, Watch};
use glassline_io::timer::Timer;
use glassline_io::udp::Arrivals;
use glassline_media::Time;
use glassline_transport::link::wire::parameters::MIN_DATAGRAM;
use glassline_transport::link::{Ecn, MAX_BATCH, Path, Transmit};
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Tokens of the poller: the waker, the timer, then the ports.
pub(super) const WAKER: u64 = 0;
const TIMER: u64 = 1;
const PORTS: u64 = 2;

/// Batches that leave before the thread looks for what has come.
const TRANSMITS: usize = 8;
/// Datagrams that are handled before the lock is given to threads that wait for it.
const DATAGRAMS: usize = 96;
/// After a round that sent nothing although the core's deadline is past, the next round begins this much later.
const GRAIN: Duration = Duration::from_micros(50);
/// While a socket takes nothing, it is tried again this often even if the kernel does not tell that it does.
const RETRY: Duration = Duration::from_millis(5);
/// How long the thread stays to tell peers that links have ended.
const FAREWELL: Duration = Duration::from_millis(250);

/// What the thread has.
pub(super) struct Worker {
    shared: Arc<Shared>,
    sockets: Vec<BoundSocket>,
    poller: Poller,
    timer: Timer,
    /// What the timer is set to.
    due: Time,
    arrivals: Arrivals,
    /// The newest time that the core was told. It never goes back: what came while the thread was at work counts from when it
    /// was done, since it waited for that, as it would have in a queue on the way; what came while it slept, from when the
    /// machine got it, however late the thread was woken.
    latest: Time,
    buffer: Vec<u8>,
    /// What stands in the buffer and the socket did not take: the rest of it begins there.
    stuck: Option<(Transmit, usize)>,
    ready: Vec<Event>,
    /// When the thread ends at the latest, once it is to end.
    leaves: Time,
}

impl Worker {
    pub(super) fn new(shared: Arc<Shared>, sockets: Vec<BoundSocket>, poller: Poller) -> io::Result<Worker> {
        let timer = Timer::new()?;
        poller.add(&timer, TIMER, Watch::Accepts)?;
        for (token, socket) in (PORTS..).zip(&sockets) {
            socket.watch(&poller, token)?;
        }
        Ok(Worker {
            shared,
            sockets,
            poller,
            timer,
            due: Time::NEVER,
            arrivals: Arrivals::default(),
            latest: Time::ZERO,
            buffer: Vec::with_capacity(MAX_BATCH),
            stuck: None,
            ready: Vec::new(),
            leaves: Time::NEVER,
        })
    }

    /// Works until the endpoint is closed.
    pub(super) fn run(mut self) {
        let failed = loop {
            // A panic ends the link that was at work, as soon as the lock is taken next.
            match contain(Border::Link, || self.work()) {
                Ok(Ok(false)) | Err(_) => {}
                Ok(Ok(true)) => break None,
                Ok(Err(error)) => break Some(error),
            }
        };
        if let Some(error) = failed {
            tracing::error!("the link's thread ends: {error}");
        }
        let mut state = self.shared.lock();
        state.ended = true;
        state.peers.values().for_each(|peer| peer.wake_all());
        self.shared.accepted.notify_all();
    }

    /// Takes what has come, sends what may leave, and sleeps where there was nothing to do. `true`: all is over.
    fn work(&mut self) -> io::Result<bool> {
        let came = self.receive();
        let (left, is_over) = self.transmit();
        if !is_over && !came && left < TRANSMITS {
            self.sleep(left > 0)?;
        }
        Ok(is_over)
    }

    /// Takes what has come at each port that may have something. `true`: something came.
    fn receive(&mut self) -> bool {
        let mut came = false;
        for index in 0..self.sockets.len() {
            let mut taken = 0;
            // What has waited for the thread is taken as a whole, if it is not much, before time goes on for the core.
            while self.sockets[index].readable && taken < DATAGRAMS {
                taken += self.receive_at(index);
                came |= taken > 0;
                if !self.arrivals.is_full() {
                    break;
                }
            }
        }
        came
    }

    /// One system call for the port; how many datagrams it brought.
    fn receive_at(&mut self, index: usize) -> usize {
        let socket = &mut self.sockets[index];
        match socket.port().map_or(Ok(false), |port| port.receive(&mut self.arrivals)) {
            Ok(true) => {}
            Ok(false) => {
                socket.readable = false;
                return 0;
            }
            Err(error) => {
                // It stays readable: the error was about one datagram.
                tracing::debug!("receiving: {error}");
                return 0;
            }
        }
        let (via, mut taken) = (index as u8, 0);
        let mut datagrams = self.arrivals.datagrams().peekable();
        while datagrams.peek().is_some() {
            let mut state = self.shared.lock();
            for arrival in datagrams.by_ref().take(DATAGRAMS) {
                let (from, mark) = (Path { remote: arrival.from, via }, Ecn::from_bits(arrival.mark));
                self.latest = self.latest.max(arrival.at);
                state.endpoint.handle_marked_datagram(self.latest, from, mark, arrival.bytes);
                inject(Border::Link, || format!("from {}", arrival.from));
                taken += 1;
            }
            if state.distribute() {
                self.shared.accepted.notify_all();
            }
        }
        taken
    }

    /// Does what is due and sends what may leave, up to a bound: how many batches left. And whether all is over.
    fn transmit(&mut self) -> (usize, bool) {
        let shared = Arc::clone(&self.shared);
        let mut state = shared.lock();
        let mut now = shared.clock.now();
        self.latest = now;
        if state.ended {
            return (0, true);
        }
        if state.stopping && self.leaves == Time::NEVER {
            self.leaves = now + FAREWELL;
            let ids: Vec<_> = state.endpoint.links().map(|(id, _)| id).collect();
            for id in ids {
                if let Some(link) = state.endpoint.link_mut(id) {
                    link.close(now, "the program has ended the link");
                }
            }
        }
        if state.endpoint.poll_timeout().is_some_and(|due| due <= now) {
            state.endpoint.handle_timeout(now);
        }
        let mut left = 0;
        while left < TRANSMITS {
            if let Some((transmit, from)) = self.stuck.take() {
                drop(state);
                let is_through = self.send(transmit, from);
                state = shared.lock();
                if !is_through {
                    break;
                }
            }
            let Some(transmit) = state.endpoint.poll_transmit(now, &mut self.buffer) else { break };
            drop(state);
            let is_through = self.send(transmit, 0);
            left += 1;
            state = shared.lock();
            now = shared.clock.now();
            self.latest = now;
            if !is_through {
                break;
            }
        }
        if state.distribute() {
            shared.accepted.notify_all();
        }
        state.wake_senders();
        let is_over = self.leaves <= now
            || self.leaves != Time::NEVER && state.endpoint.links().all(|(_, link)| link.has_ended());
        (left, is_over)
    }

    /// Sends what stands in the buffer from `from` on. `false`: the socket takes nothing more now, and the rest is kept.
    fn send(&mut self, transmit: Transmit, mut from: usize) -> bool {
        let has_others = self.sockets.len() > 1;
        let index = usize::from(transmit.path.via).min(self.sockets.len() - 1);
        let socket = &mut self.sockets[index];
        let (to, mark, token) = (transmit.path.remote, transmit.ecn.bits(), PORTS + index as u64);
        if socket.port().is_none() {
            socket.look_again(self.latest, &self.poller, token);
        }
        while from < transmit.bytes {
            let rest = &self.buffer[from..transmit.bytes];
            let Some(port) = socket.port() else { return true };
            match port.send(to, rest, transmit.segment_bytes, mark) {
                Ok(Some(sent)) => {
                    socket.handle_sent(to);
                    from += sent;
                }
                // Its device has stopped: the network loses them, and other paths are not held up.
                Ok(None) if socket.is_full_for_long(self.latest) && has_others => return true,
                Ok(None) => {
                    self.stuck = Some((transmit, from));
                    return false;
                }
                Err(error) => {
                    // The network loses them, whatever the reason; the core knows what to do about that.
                    let number = Some((to, error.raw_os_error().unwrap_or(0)));
                    let is_too_large = glassline_io::udp::is_too_large(&error);
                    // Larger ones are sent to find out whether they pass.
                    let is_probe = is_too_large && transmit.segment_bytes > usize::from(MIN_DATAGRAM);
                    if socket.complaint != number && !is_probe {
                        socket.complaint = number;
                        tracing::warn!(%to, "datagrams cannot be sent: {error}");
                    }
                    if !is_too_large {
                        socket.look_again(self.latest, &self.poller, token);
                    }
                    return true;
                }
            }
        }
        true
    }

    /// Sleeps until something comes, the core's deadline, or a handle hands something over.
    fn sleep(&mut self, has_sent: bool) -> io::Result<()> {
        let due = {
            let mut state = self.shared.lock();
            let now = self.shared.clock.now();
            let due = state.endpoint.poll_timeout().unwrap_or(Time::NEVER).min(self.leaves);
            let due = match (self.stuck, has_sent) {
                (Some(_), _) => due.max(now + RETRY),
                (None, false) => due.max(now + GRAIN),
                (None, true) => due,
            };
            if due <= now || !state.falls_asleep() {
                return Ok(());
            }
            due
        };
        if due != self.due {
            self.timer.set(due)?;
            self.due = due;
        }
        let waited = self.poller.wait(None, &mut self.ready);
        self.shared.lock().wakes_up();
        waited?;
        for event in &self.ready {
            match event.token {
                WAKER => self.shared.clear_wake(),
                TIMER => {
                    self.timer.take()?;
                    self.due = Time::NEVER;
                }
                token => {
                    if let Some(socket) = self.sockets.get_mut((token - PORTS) as usize) {
                        socket.readable |= event.readable;
                    }
                }
            }
        }
        Ok(())
    }
}
