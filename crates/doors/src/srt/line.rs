//! A connection of this process's own to an address of SRT, made again whenever it fails.

use super::end::{Calling, End, Listening};
use super::listen::{new_listener, transmit};
use glassline_delivery::backoff::Backoff;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_io::poll::{Event, Poller, Waker, Watch};
use glassline_io::udp::{Arrivals, Local, Port};
use glassline_io::{random, resolve};
use glassline_media::Time;
use glassline_transport::srt::{Address, CallerError, Connection, Ended, Mode, Rejection, Statistics};
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Tokens of the poller.
const WAKER: u64 = 0;
const SOCKET: u64 = 1;
/// From a failure to the next attempt; twice as long after each further one, up to the second.
const AGAIN: Duration = Duration::from_millis(250);
const AGAIN_MAX: Duration = Duration::from_secs(1);
/// A connection that went on for so long was a good one.
const GOOD_RUN: Duration = Duration::from_secs(10);
/// A peer that is silent for so long is gone, so that the next attempt begins soon: it says once a second that it is there,
const IDLE: Duration = Duration::from_secs(3);
/// and acknowledges what it is sent every ten milliseconds, but for the time that it waits for a lost packet.
const UNACKNOWLEDGED: Duration = Duration::from_millis(1500);
/// What is told of a connection that another one takes the place of.
const BEGAN_ANEW: &str = "the peer has begun anew";
/// Timers that are due within this time are handled together.
const GRAIN: Duration = Duration::from_micros(500);
/// Figures are written down this often.
const FIGURES: Duration = Duration::from_millis(500);
/// How long a line that is finished waits for the peer to have all.
const FAREWELL: Duration = Duration::from_secs(2);

/// What a line is used for. All calls are on its thread.
pub trait LineUse: Send {
    /// A connection has begun.
    fn begin(&mut self);

    /// Moves what there is: gives payloads to `connection`, or takes those that are due. Returns why the connection has to end, if so.
    fn work(&mut self, connection: &mut Connection, now: Time) -> Option<String>;

    /// When [`LineUse::work`] has something to do although nothing comes.
    fn poll_timeout(&self) -> Time {
        Time::NEVER
    }

    /// The connection has ended, or did not come about: `why`.
    fn end(&mut self, why: &str);

    /// Whether all is done: the line then ends once the peer has all, or does not take it in time.
    fn is_finished(&self) -> bool {
        false
    }
}

/// How a line does.
#[derive(Clone, Debug, Default)]
pub struct LineStatus {
    /// Figures of the connection, while there is one.
    pub connection: Option<Statistics>,
    /// The peer's address, while there is one.
    pub remote: Option<SocketAddr>,
    /// Connections that have begun.
    pub connections: u64,
    /// Attempts that failed and connections that ended.
    pub failures: u64,
    /// Why there is none now; `None` before the first failure.
    pub error: Option<String>,
    /// Since the connection began, in the clock's time.
    pub since: Option<Time>,
    /// Bytes that were sent or waited to be, and that the peer was not known to have when a connection ended.
    pub lost_bytes: u64,
}

#[derive(Default)]
struct Shared {
    is_stopping: AtomicBool,
    status: Mutex<LineStatus>,
}

impl Shared {
    fn status(&self) -> MutexGuard<'_, LineStatus> {
        self.status.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_stopping(&self) -> bool {
        self.is_stopping.load(Ordering::Acquire)
    }
}

/// The thread of a line. Dropping it ends the connection and waits for that.
pub struct Line {
    shared: Arc<Shared>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

impl Line {
    /// Begins to connect, and goes on for as long as it exists. `make` is given what wakes the thread.
    ///
    /// # Errors
    /// The system has no descriptors, or no thread.
    pub fn start<U: LineUse + 'static>(address: Address, make: impl FnOnce(Waker) -> U) -> io::Result<Line> {
        let poller = Poller::new()?;
        let waker = Waker::new(&poller, WAKER)?;
        let shared = Arc::new(Shared::default());
        let mut worker = Worker {
            usage: Box::new(make(waker.clone())),
            address,
            shared: Arc::clone(&shared),
            waker: waker.clone(),
            poller,
            clock: Clock::new(),
            arrivals: Arrivals::default(),
            out: Vec::new(),
        };
        let thread = thread::Builder::new().name("srt line".into()).spawn(move || {
            // A panic has been counted and logged; what the line is used for is told that it is over.
            if contain(Border::Output, || worker.run()).is_err() {
                worker.shared.status().error = Some("ended by a fault".to_owned());
            }
        })?;
        Ok(Line { shared, waker, thread: Some(thread) })
    }

    /// How it does.
    pub fn status(&self) -> LineStatus {
        self.shared.status().clone()
    }

    /// Waits until the thread has ended by itself: [`LineUse::is_finished`], or `until`.
    pub fn wait(&mut self, until: Time) {
        self.waker.wake();
        let clock = Clock::new();
        while self.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && clock.now() < until {
            thread::sleep(Duration::from_millis(5));
        }
    }

    /// Has it end, and does not wait for that.
    pub fn stop(&self) {
        self.shared.is_stopping.store(true, Ordering::Release);
        self.waker.wake();
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.stop();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Worker {
    usage: Box<dyn LineUse>,
    address: Address,
    shared: Arc<Shared>,
    waker: Waker,
    poller: Poller,
    clock: Clock,
    arrivals: Arrivals,
    out: Vec<u8>,
}

impl Worker {
    fn run(&mut self) {
        let mut backoff = Backoff::new(AGAIN, AGAIN_MAX, self.clock.seed());
        let mut port = None;
        while !self.shared.is_stopping() && !self.usage.is_finished() {
            let began = self.clock.now();
            let why = match self.open(&mut port) {
                Ok((port, end)) => self.connect(port, end),
                Err(why) => Some(why),
            };
            let Some(why) = why else { return };
            if self.clock.now().since(began) >= GOOD_RUN {
                backoff.reset();
            }
            {
                let mut status = self.shared.status();
                status.failures += 1;
                (status.connection, status.remote, status.since) = (None, None, None);
                status.error = Some(why.clone());
            }
            self.usage.end(&why);
            self.rest(backoff.fail());
        }
    }

    /// Sleeps, unless the line has to stop.
    fn rest(&mut self, pause: Duration) {
        let until = self.clock.now() + pause;
        let mut ready = Vec::new();
        while !self.shared.is_stopping() && self.clock.now() < until {
            if self.poller.wait(Some(until.since(self.clock.now())), &mut ready).is_err() {
                thread::sleep(pause);
            }
            self.waker.clear();
        }
    }

    /// The first address of the host. The thread that asks for it may take long, and is not waited for where the line has to stop.
    fn look_up(&self) -> Result<SocketAddr, String> {
        let (host, port) = (self.address.host.clone(), self.address.port);
        let (answer, found) = channel();
        let waker = self.waker.clone();
        resolve::in_background(host.clone(), port, move |addresses| {
            let _ = answer.send(addresses);
            waker.wake();
        })
        .map_err(|error| error.to_string())?;
        let mut ready = Vec::new();
        while !self.shared.is_stopping() {
            if let Ok(addresses) = found.try_recv() {
                let addresses = addresses.map_err(|error| format!("{host}: {error}"))?;
                return addresses.first().copied().ok_or_else(|| format!("{host} has no address"));
            }
            if self.poller.wait(None, &mut ready).is_err() {
                thread::sleep(AGAIN);
            }
            self.waker.clear();
        }
        Err("the line ends".to_owned())
    }

    /// Our end, on a socket that is kept from one attempt to the next: a peer that still has the former connection sees by the port
    /// that this one takes its place.
    fn open<'a>(&self, port: &'a mut Option<Port>) -> Result<(&'a Port, End), String> {
        let now = self.clock.now();
        let seed = random::seed().map_err(|error| error.to_string())?;
        let (local, end) = match self.address.mode {
            Mode::Caller => {
                let to = self.look_up()?;
                let calling = Calling::new(&self.address, to, seed, now);
                (Local::towards(to), End::Calling(Box::new(calling)))
            }
            Mode::Listener => {
                let any = IpAddr::V6(Ipv6Addr::UNSPECIFIED);
                let ip = match self.address.host.as_str() {
                    "" => any,
                    "0.0.0.0" => Ipv4Addr::UNSPECIFIED.into(),
                    host => host
                        .parse()
                        .map_err(|_| format!("{host} is no address of this machine to listen at"))?,
                };
                let listener =
                    new_listener(self.address.settings(), 1, now).map_err(|error| error.to_string())?;
                let listening = End::Listening(Box::new(Listening::new(listener)));
                (Local::at(SocketAddr::new(ip, self.address.port)), listening)
            }
        };
        let is_same_family = |port: &Port| {
            port.local_address().is_ok_and(|address| address.is_ipv4() == local.address.is_ipv4())
        };
        if !port.as_ref().is_some_and(is_same_family) {
            *port = None;
            let opened = Port::open(&local).map_err(|error| error.to_string())?;
            self.poller.add(&opened, SOCKET, Watch::Edges).map_err(|error| error.to_string())?;
            *port = Some(opened);
        }
        let port = port.as_ref().ok_or("there is no socket")?;
        Ok((port, end))
    }

    /// Runs a connection until it ends. Returns why; `None` where the line has to stop, or all is done.
    fn connect(&mut self, port: &Port, mut end: End) -> Option<String> {
        let (mut ready, mut has_begun, mut figures_due): (Vec<Event>, _, _) = (Vec::new(), false, Time::ZERO);
        let mut leaves: Option<Time> = None;
        loop {
            self.receive(port, &mut end);
            let now = self.clock.now();
            let is_leaving = self.shared.is_stopping() || self.usage.is_finished();
            if is_leaving && leaves.is_none() {
                leaves = Some(now + if self.shared.is_stopping() { Duration::ZERO } else { FAREWELL });
            }
            // Before the first packets of a connection, which would come before the peer knows that it is let in.
            if let Err(error) = end.work(port, now, &mut self.out, &mut || random::seed().ok()) {
                return Some(advice(error));
            }
            if let Some(lost) = end.take_replaced().filter(|_| has_begun) {
                has_begun = false;
                {
                    let mut status = self.shared.status();
                    status.failures += 1;
                    status.lost_bytes += lost as u64;
                    (status.connection, status.remote, status.since) = (None, None, None);
                }
                self.usage.end(BEGAN_ANEW);
            }
            if let Some((remote, connection)) = end.connection() {
                if !has_begun {
                    has_begun = true;
                    connection.set_idle(IDLE, UNACKNOWLEDGED);
                    self.usage.begin();
                    let mut status = self.shared.status();
                    status.connections += 1;
                    (status.remote, status.since, status.error) = (Some(remote), Some(now), None);
                }
                connection.handle_timeout(now);
                let over = self.usage.work(connection, now);
                if figures_due <= now {
                    figures_due = now + FIGURES;
                    self.shared.status().connection = Some(connection.statistics(now));
                }
                let has_left = leaves.is_some_and(|at| at <= now || connection.unacknowledged_bytes() == 0);
                let unacknowledged = connection.unacknowledged_bytes();
                if has_left || over.is_some() {
                    connection.close(now);
                }
                transmit(port, connection, remote, &mut self.out, now);
                match connection.ended() {
                    _ if has_left => {
                        self.shared.status().lost_bytes += unacknowledged as u64;
                        return None;
                    }
                    None => {}
                    // What has come before the end is delivered at its time.
                    Some(_) if connection.holds() && over.is_none() && leaves.is_none() => {}
                    Some(ended) => {
                        self.shared.status().lost_bytes += unacknowledged as u64;
                        return Some(over.unwrap_or_else(|| words(ended).to_owned()));
                    }
                }
            } else if leaves.is_some_and(|at| at <= now) {
                return None;
            }
            let due = end.poll_timeout().min(self.usage.poll_timeout()).min(leaves.unwrap_or(Time::NEVER));
            let due = if has_begun { due.min(figures_due) } else { due };
            let wait = (due != Time::NEVER).then(|| due.max(now + GRAIN).since(now));
            if let Err(error) = self.poller.wait(wait, &mut ready) {
                return Some(error.to_string());
            }
            if ready.iter().any(|event| event.token == WAKER) {
                self.waker.clear();
            }
        }
    }

    fn receive(&mut self, port: &Port, end: &mut End) {
        loop {
            match port.receive(&mut self.arrivals) {
                Ok(true) => {}
                Ok(false) => return,
                Err(error) => {
                    tracing::debug!("receiving SRT: {error}");
                    return;
                }
            }
            for arrival in self.arrivals.datagrams() {
                end.handle_datagram(arrival.at, arrival.from, arrival.bytes);
            }
            if !self.arrivals.is_full() {
                return;
            }
        }
    }
}

fn words(ended: Ended) -> &'static str {
    match ended {
        Ended::ByPeer => "the peer has ended the connection",
        Ended::Silent => "nothing comes from the peer any more",
        Ended::Closed => "it was ended here",
    }
}

/// The failure, and what to do about it.
fn advice(error: CallerError) -> String {
    match error {
        CallerError::Rejected(Rejection::UNSECURE) => {
            format!("{error}: give ?passphrase= on both ends, or on none")
        }
        CallerError::Rejected(Rejection::UNAUTHORIZED) => {
            format!("{error}: write ?streamid=publish:NAME:KEY, or #!::r=NAME,m=publish,s=KEY")
        }
        error => error.to_string(),
    }
}
