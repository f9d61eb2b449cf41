//! A stream to a server: the sockets and threads around [`Pusher`].
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

/// How long a host may take to answer, and again to shake hands.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// What may wait unsent in the kernel: what is older than the network can take can then still be left out.
const UNSENT_MAX_BYTES: u32 = 128 << 10;
/// How often a file that waits for a server looks whether the user wants to end.
const STOP_INTERVAL: Duration = Duration::from_millis(50);

/// One stream to one server.
pub(super) struct PushOutput(Arc<Line>);

/// What the encoder's thread, the network thread and a thread that connects share.
struct Line {
    shared: Mutex<Shared>,
    /// Told when a connection is there or gone, when nothing waits to be sent, and at the end.
    changed: Condvar,
    registration: Registration,
    liveness: Liveness,
    status: StatusHandle,
    /// Where TLS is spoken.
    connector: Option<Connector>,
    /// What its packets bear for routers, from the connection's handshake on.
    marks: HeaderMarks,
}

struct Shared {
    pusher: Pusher,
    wire: Option<Wire>,
    buffer: Vec<u8>,
}

impl PushOutput {
    /// Begins to connect. What fails is told and tried again.
    pub(super) fn open(
        url: &str,
        credentials: &Credentials,
        liveness: Liveness,
        status: StatusHandle,
        network: &Network,
    ) -> Result<PushOutput> {
        let registration = network.register();
        let wrong = |error| TargetError::Url { text: url.to_owned(), error };
        let split = marked::split(url);
        let (plain, marks) = split.map_err(|what| TargetError::Marks { text: url.to_owned(), what })?;
        let url: Url = plain.parse().map_err(wrong)?;
        let connector = credentials.connector.clone().filter(|_| url.tls());
        let policy = if liveness.live { Policy::LIVE } else { Policy::FILE };
        let seed = Clock::new().utc().as_nanos() ^ u64::from(std::process::id()) << 32;
        let key = credentials.key.as_ref().map(|key| key.as_str());
        let pusher = Pusher::new(url, key, policy, seed, registration.now());
        let shared = Mutex::new(Shared { pusher, wire: None, buffer: vec![0; READ_BYTES_MIN] });
        status.set(State::Connecting);
        let changed = Condvar::new();
        let line = Arc::new(Line { shared, changed, registration, liveness, status, connector, marks });
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
            match action {
                Action::Connect { host, port, .. } => self.connect(shared, host, port),
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
            Event::Connected => {
                tracing::info!("publishing to {name}");
                self.status.set(State::Sending);
            }
            Event::Lost { why, retry_in } => {
                let said = match why {
                    Loss::Answered(answer) => explanation(&answer.body),
                    Loss::Failed(_) => String::new(),
                };
                tracing::warn!("{name}: {why}{said}; trying again in {:.1} s", retry_in.as_secs_f64());
                self.status.set(State::Connecting);
            }
            Event::Behind => {
                tracing::warn!("{name}: slower than the stream; pictures are left out there");
                self.status.set(State::Behind);
            }
            Event::CaughtUp => self.status.set(State::Sending),
        }
    }

    /// Has the connection's packets bear what routers go by. Without that they are delivered as others.
    fn mark(&self, wire: &Wire) {
        let HeaderMarks { dscp, flow_label } = self.marks;
        let of_dscp = dscp.map(|dscp| wire.socket().set_dscp(dscp));
        let of_label = flow_label.map(|has_label| wire.socket().set_flow_label(has_label));
        if let Some(error) = [of_dscp, of_label].into_iter().flatten().find_map(Result::err) {
            tracing::warn!("{}: its packets cannot be marked for routers: {error}", self.status.name());
        }
    }

    /// Connects on a thread of its own.
    fn connect(self: &Arc<Self>, shared: &mut Shared, host: String, port: u16) {
        let line = Arc::clone(self);
        let connecting = thread::Builder::new().name("connect".to_owned()).spawn(move || {
            let connected = client::connect(&host, port, line.connector.as_ref(), CONNECT_TIMEOUT);
            let ready = connected.and_then(|wire| {
                line.mark(&wire);
                let limited = wire.socket().limit_unsent(UNSENT_MAX_BYTES);
                limited.and_then(|()| line.registration.watch(wire.socket())).map_err(Refused::plain)?;
                Ok(wire)
            });
            line.connected(ready);
        });
        if let Err(error) = connecting {
            let why = format!("no thread to connect: {error}");
            shared.pusher.handle_refused(why, false, self.registration.now());
        }
    }

    /// What came of an attempt.
    fn connected(self: &Arc<Self>, result: Result<Wire, Refused>) {
        let (mut shared, now) = (self.lock(), self.registration.now());
        match result {
            Ok(wire) => {
                shared.pusher.handle_connected(now);
                // The end may have been asked for meanwhile.
                shared.wire = shared.pusher.is_open().then_some(wire);
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
                Err(error) => return pusher.handle_send_failure(words(error), now),
            }
        }
        if let Err(error) = wire.flush() {
            pusher.handle_send_failure(words(error), now);
        }
    }

    /// Takes what the server says.
    fn read(&mut self, now: Time) {
        let Shared { pusher, wire: Some(wire), buffer } = self else { return };
        loop {
            match wire.read(buffer) {
                Ok(None) => return,
                Ok(Some(0)) => return pusher.handle_end(None, now),
                Ok(Some(count)) => pusher.handle_bytes(buffer.get(..count).unwrap_or_default(), now),
                Err(error) => return pusher.handle_end(Some(words(error)), now),
            }
        }
    }
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
