//! A stream to a server, or to one of several: the sockets and threads around [`Pusher`].
//!
//! What the socket takes leaves at once, on the encoder's thread; the rest, the server's answers and new attempts are the
//! network thread's. A name's resolution, connecting and handshakes take their time: each attempt has a thread for it.

use super::marked;
use super::network::{Endpoint, Network, Registration};
use super::{
    Credentials, Demand, Error, Liveness, Output, Packets, Result, State, StatusHandle, TargetError,
};
use glassline_delivery::http1::Url;
use glassline_delivery::policy::HeaderMarks;
use glassline_delivery::push::{Event, Loss, Output as Action, Policy, Pusher, Taken};
use glassline_io::client::{self, Refused, Wire};
use glassline_io::clock::Clock;
use glassline_io::tls::{Connector, READ_BYTES_MIN};
use glassline_media::{Time, printable};
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

/// What may wait unsent in the kernel: what is older than the network can take can then still be left out.
const UNSENT_MAX_BYTES: u32 = 128 << 10;
/// Attempts to connect that may wait at once, each on a thread of its own: the system's resolver has no time limit.
const WAITING_MAX: usize = 16;
/// How often a file that waits for a server looks whether the user wants to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// One stream to one server at a time.
pub(super) struct PushOutput(Arc<Line>);

/// What the encoder's thread, the network thread and a thread that connects share.
struct Line {
    shared: Mutex<Shared>,
    /// Told when a connection is there or gone, when nothing waits to be sent, and at the end.
    changed: Condvar,
    registration: Registration,
    liveness: Liveness,
    status: StatusHandle,
    /// For servers where TLS is spoken.
    connector: Option<Connector>,
    /// What packets to each server bear for routers, from the connection's handshake on.
    marks: Vec<HeaderMarks>,
    are_several: bool,
}

/// A server that is about to be connected to.
struct Attempt {
    host: String,
    port: u16,
    tls: bool,
    policy: Policy,
    marks: HeaderMarks,
}

struct Shared {
    pusher: Pusher,
    /// Attempts to connect that were begun: of the last one alone it matters what comes of it.
    attempts: u64,
    /// Those that still wait, perhaps for a resolver.
    waiting: usize,
    wire: Option<Wire>,
    buffer: Vec<u8>,
}

impl PushOutput {
    /// Begins to connect to the first of `urls`, of which there is one at least. What fails is told and tried again.
    pub(super) fn open(
        urls: &[String],
        credentials: &Credentials,
        liveness: Liveness,
        status: StatusHandle,
        network: &Network,
    ) -> Result<PushOutput> {
        let registration = network.register();
        let (mut servers, mut marks) = (Vec::new(), Vec::new());
        for text in urls {
            let wrong = |error| TargetError::Url { text: text.to_owned(), error };
            let split = marked::split(text);
            let (plain, marked) = split.map_err(|what| TargetError::Marks { text: text.to_owned(), what })?;
            servers.push(plain.parse::<Url>().map_err(wrong)?);
            marks.push(marked);
        }
        let mut servers = servers.into_iter();
        let first = servers.next().ok_or_else(|| TargetError::NoStream(String::new()))?;
        let are_several = servers.len() > 0;
        let connector = credentials.connector.clone();
        let policy = if liveness.live { Policy::LIVE } else { Policy::FILE };
        let policy = if are_several { policy.of_several() } else { policy };
        let seed = Clock::new().utc().as_nanos() ^ u64::from(std::process::id()) << 32;
        let key = credentials.key.as_ref().map(|key| key.as_str());
        let pusher = Pusher::new(first, servers.collect(), key, policy, seed, registration.now());
        let shared = Mutex::new(Shared {
            pusher,
            attempts: 0,
            waiting: 0,
            wire: None,
            buffer: vec![0; READ_BYTES_MIN],
        });
        status.set(State::Connecting);
        let changed = Condvar::new();
        let line =
            Arc::new(Line { shared, changed, registration, liveness, status, connector, marks, are_several });
        line.registration.serve(&line);
        Ok(PushOutput(line))
    }
}

impl Output for PushOutput {
    fn write(&mut self, packets: &Packets<'_>) -> Result<Demand> {
        let line = &self.0;
        line.check_whole()?;
        let mut shared = line.wait_for_server(line.lock());
        let Packets { bytes, joinable, ends_picture } = *packets;
        match shared.pusher.push(bytes, joinable, ends_picture, line.registration.now()) {
            Taken::Taken(bytes) => line.status.sent(bytes),
            Taken::Waiting => {}
            Taken::LeftOut => line.status.left_out(),
        }
        line.drive(&mut shared);
        if !shared.pusher.transmit().is_empty() {
            // Its deadline may be the earliest.
            line.registration.wake();
            shared = line.wait_for_room(shared);
        }
        line.check(&shared)?;
        let wants = shared.pusher.take_demand();
        Ok(if wants { Demand::KeyFrame } else { Demand::Nothing })
    }

    fn finish(&mut self) -> Result<()> {
        let line = &self.0;
        line.check_whole()?;
        let mut shared = line.lock();
        shared.pusher.finish(line.liveness.is_stopped(), line.registration.now());
        line.drive(&mut shared);
        line.registration.wake();
        while shared.pusher.result().is_none() {
            // The pusher's own deadlines end it.
            shared = line.changed.wait(shared).unwrap_or_else(PoisonError::into_inner);
            line.check_whole()?;
        }
        line.check(&shared)
    }
}

impl Endpoint for Line {
    fn handle_ready(self: Arc<Self>, now: Time) {
        let mut shared = self.lock();
        shared.read(now);
        shared.pusher.handle_timeout(now);
        self.drive(&mut shared);
    }

    fn poll_timeout(&self) -> Option<Time> {
        self.lock().pusher.poll_timeout()
    }
}

impl Line {
    /// A panic under the lock ends the output: what it has left half-written is sent no more.
    fn check_whole(&self) -> Result<()> {
        self.status.check_whole(self.shared.is_poisoned())
    }

    fn lock(&self) -> MutexGuard<'_, Shared> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits as long as the source waits for a server that is not there.
    fn wait_for_server<'a>(&self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        while self.liveness.is_patient() && !shared.pusher.is_open() && shared.pusher.result().is_none() {
            shared = self.wait(shared);
        }
        shared
    }

    /// Waits as long as the source waits for a server that is slow.
    fn wait_for_room<'a>(&self, mut shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        while self.liveness.is_patient() && !shared.pusher.transmit().is_empty() {
            shared = self.wait(shared);
        }
        shared
    }

    fn wait<'a>(&self, shared: MutexGuard<'a, Shared>) -> MutexGuard<'a, Shared> {
        self.changed.wait_timeout(shared, STOP_INTERVAL).unwrap_or_else(PoisonError::into_inner).0
    }

    /// The failure, if it has ended with one.
    fn check(&self, shared: &Shared) -> Result<()> {
        match shared.pusher.result() {
            Some(Err(failure)) => Err(Error::Push {
                name: self.status.name().to_owned(),
                failure: Box::new(failure.clone()),
                said: failure.answer().map_or(String::new(), |answer| explanation(&answer.body)),
            }),
            Some(Ok(())) | None => Ok(()),
        }
    }

    /// Does what the pusher asks for, and sends what the socket takes.
    fn drive(self: &Arc<Self>, shared: &mut Shared) {
        shared.send(self.registration.now());
        while let Some(action) = shared.pusher.poll_output() {
            // The time of the next attempt may be earlier than what the network thread waits for.
            self.registration.wake();
            match action {
                Action::Connect { host, port, tls } => {
                    let marks = self.marks.get(shared.pusher.place()).copied().unwrap_or_default();
                    let policy = *shared.pusher.policy();
                    self.connect(shared, Attempt { host, port, tls, policy, marks });
                }
                Action::Close => {
                    if let Some(mut wire) = shared.wire.take() {
                        wire.end();
                    }
                }
            }
        }
        while let Some(event) = shared.pusher.poll_event() {
            self.log(&event);
        }
        self.changed.notify_all();
    }

    fn log(&self, event: &Event) {
        let name = self.status.name();
        match event {
            Event::Connected { url } => {
                tracing::info!("publishing to {}", if self.are_several { url } else { name });
                self.status.set(State::Sending);
                self.status.set_server(Some(url.clone()));
            }
            Event::Lost { url, why, retry_in, next, unsent, is_eager } => {
                self.status.set(State::Connecting);
                self.status.set_server(None);
                self.status.left_out_more(*unsent);
                if *is_eager {
                    return;
                }
                let said = match why {
                    Loss::Answered(answer) => explanation(&answer.body),
                    Loss::Failed(_) => String::new(),
                };
                let (name, next) = if self.are_several {
                    (url.as_str(), format!("trying {next}"))
                } else {
                    (name, "trying again".to_owned())
                };
                if retry_in.is_zero() {
                    tracing::warn!("{name}: {why}{said}; {next} at once");
                } else {
                    tracing::warn!("{name}: {why}{said}; {next} in {:.1} s", retry_in.as_secs_f64());
                }
            }
            Event::Redirected { to, unsent } => {
                self.status.left_out_more(*unsent);
                tracing::info!("{name}: the server has led to {to}");
                self.status.set(State::Connecting);
                self.status.set_server(None);
            }
            Event::Gap { resumed, missing, left_out } => {
                self.status.missing(*missing, *resumed);
                let seconds = missing.as_secs_f64();
                if !resumed {
                    tracing::warn!(
                        "{name}: the stream has ended in a gap of {seconds:.2} s; {left_out} parts of it were left out"
                    );
                    return;
                }
                tracing::warn!(
                    "{name}: goes on behind a gap of {seconds:.2} s; {left_out} parts of the stream were left out"
                );
            }
            Event::Behind => {
                tracing::warn!("{name}: slower than the stream; pictures are left out there");
                self.status.set(State::Behind);
            }
            Event::CaughtUp => self.status.set(State::Sending),
        }
    }

    /// Has the connection's packets bear what routers go by. Without that they are delivered as others.
    fn mark(&self, wire: &Wire, marks: HeaderMarks) {
        let HeaderMarks { dscp, flow_label } = marks;
        let of_dscp = dscp.map(|dscp| wire.socket().set_dscp(dscp));
        let of_label = flow_label.map(|has_label| wire.socket().set_flow_label(has_label));
        if let Some(error) = [of_dscp, of_label].into_iter().flatten().find_map(Result::err) {
            tracing::warn!("{}: its packets cannot be marked for routers: {error}", self.status.name());
        }
    }

    /// Connects on a thread of its own.
    fn connect(self: &Arc<Self>, shared: &mut Shared, attempt: Attempt) {
        let line = Arc::clone(self);
        if shared.waiting >= WAITING_MAX {
            let why = format!("{WAITING_MAX} attempts wait for their servers' names still");
            return shared.pusher.handle_refused(why, false, self.registration.now());
        }
        shared.attempts += 1;
        let number = shared.attempts;
        let connecting = thread::Builder::new().name("connect".to_owned()).spawn(move || {
            let Attempt { host, port, tls, policy, marks } = attempt;
            let connector = line.connector.as_ref().filter(|_| tls);
            let connected = if tls && connector.is_none() {
                Err(Refused { error: io::Error::other("no TLS is spoken here"), by_tls: true })
            } else {
                client::connect(&host, port, connector, policy.connect_timeout)
            };
            let ready = connected.and_then(|wire| {
                line.mark(&wire, marks);
                let socket = wire.socket();
                let limited = socket.limit_unsent(UNSENT_MAX_BYTES);
                // A machine that has lost its power says nothing.
                let bounded = limited.and_then(|()| socket.give_up_after(policy.blocked_max));
                bounded.and_then(|()| line.registration.watch(socket)).map_err(Refused::plain)?;
                Ok(wire)
            });
            line.connected(number, ready);
        });
        match connecting {
            Ok(_) => shared.waiting += 1,
            Err(error) => {
                let why = format!("no thread to connect: {error}");
                shared.pusher.handle_refused(why, false, self.registration.now());
            }
        }
    }

    /// What came of an attempt.
    fn connected(self: &Arc<Self>, number: u64, result: Result<Wire, Refused>) {
        let (mut shared, now) = (self.lock(), self.registration.now());
        shared.waiting = shared.waiting.saturating_sub(1);
        if number != shared.attempts {
            // Another server was asked since.
            return;
        }
        match result {
            Ok(wire) => {
                shared.pusher.handle_connected(now);
                // The end may have been asked for meanwhile.
                shared.wire = shared.pusher.is_connected().then_some(wire);
            }
            Err(Refused { error, by_tls }) => shared.pusher.handle_refused(error.to_string(), by_tls, now),
        }
        self.drive(&mut shared);
        self.registration.wake();
    }
}

impl Shared {
    /// Gives the socket what it takes.
    fn send(&mut self, now: Time) {
        let Shared { pusher, wire: Some(wire), .. } = self else { return };
        while !pusher.transmit().is_empty() {
            match wire.write(pusher.transmit()) {
                Ok(Some(0)) => {
                    return pusher.handle_send_failure(words(io::ErrorKind::WriteZero.into()), now);
                }
                Ok(Some(bytes)) => pusher.handle_sent(bytes, now),
                Ok(None) => {
                    pusher.handle_sent(0, now);
                    break;
                }
                Err(error) => return fail_to_send(pusher, error, now),
            }
        }
        if let Err(error) = wire.flush() {
            fail_to_send(pusher, error, now);
        }
    }

    /// Takes what the server says.
    fn read(&mut self, now: Time) {
        let Shared { pusher, wire: Some(wire), buffer, .. } = self else { return };
        loop {
            match wire.read(buffer) {
                Ok(None) => return,
                Ok(Some(0)) => return pusher.handle_end(None, now),
                Ok(Some(count)) => pusher.handle_bytes(buffer.get(..count).unwrap_or_default(), now),
                Err(error) if is_silence(&error) => return pusher.handle_silence(now),
                Err(error) => return pusher.handle_end(Some(words(error)), now),
            }
        }
    }
}

fn fail_to_send(pusher: &mut Pusher, error: io::Error, now: Time) {
    if is_silence(&error) {
        pusher.handle_silence(now);
    } else {
        pusher.handle_send_failure(words(error), now);
    }
}

/// Whether the system has given a connection up since nothing came back: where a router has said meanwhile that it does not reach
/// the machine, Linux tells that in place of the time.
fn is_silence(error: &io::Error) -> bool {
    use io::ErrorKind::{HostUnreachable, NetworkUnreachable, TimedOut};
    matches!(error.kind(), TimedOut | HostUnreachable | NetworkUnreachable)
}

fn words(error: io::Error) -> String {
    error.to_string()
}

/// What a body says in words: title and detail of problem details (RFC 9457), or a text's first line.
fn explanation(body: &[u8]) -> String {
    let problem: serde_json::Value = serde_json::from_slice(body).unwrap_or_default();
    let field = |name: &str| problem.get(name).and_then(|value| value.as_str()).map(str::to_owned);
    let words = match (field("title"), field("detail")) {
        (Some(title), Some(detail)) => format!("{title}: {detail}"),
        (title, detail) => title.or(detail).unwrap_or_else(|| {
            let text = String::from_utf8_lossy(body);
            let line = text.lines().find(|line| !line.trim().is_empty()).unwrap_or("").trim();
            if line.starts_with(['<', '{']) { String::new() } else { line.chars().take(300).collect() }
        }),
    };
    if words.is_empty() { words } else { format!(" ({})", printable::line(&words)) }
}

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;
