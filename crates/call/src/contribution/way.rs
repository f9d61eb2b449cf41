//! A link that runs: its session, opened again whenever it has failed.

use super::lookup::Lookup;
use crate::link::session::{Extent, Mode, Service, Session, SessionEvent, Stopper};
use crate::link::{Endpoint, Local};
use glassline_media::printable;
use glassline_media::quantity::ByteRate;
use glassline_transport::link::{CloseReason, Settings};
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// From a failure to the next attempt; twice as long after each further one,
const AGAIN: Duration = Duration::from_millis(500);
/// up to this.
const AGAIN_MAX: Duration = Duration::from_secs(10);
/// An attempt that went on for so long was a good one.
const GOOD_RUN: Duration = Duration::from_secs(30);
/// How long one wait for events takes.
const TICK: Duration = Duration::from_secs(1);

/// By which addresses and interfaces a link leads to a peer at these addresses.
pub type Locals = Arc<dyn Fn(&[SocketAddr]) -> Result<Vec<Local>, String> + Send + Sync>;

/// Which end of a link it is.
#[derive(Clone)]
pub enum Direction {
    /// Peers connect here.
    Listen(Local),
    /// It connects.
    Connect {
        /// `HOST:PORT`.
        to: String,
        /// The paths.
        locals: Locals,
        /// Below which rate of the others a path is used that is a spare one, by the numbers of `locals`.
        spares: Vec<Option<ByteRate>>,
    },
}

/// A link.
#[derive(Clone)]
pub struct Way {
    /// For the log.
    pub name: String,
    /// Keys, names, and how several paths are used.
    pub settings: Settings,
    /// Which end it is.
    pub direction: Direction,
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Way").field("name", &self.name).finish_non_exhaustive()
    }
}

/// The thread of a link. Dropping it ends the link and waits for that.
pub(super) struct Runner {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    lookup: Arc<Lookup>,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    is_stopping: bool,
    has_ended: bool,
    stopper: Option<Stopper>,
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// No session is opened any more, and one that is up goes on.
    fn stop_attempts(&self) {
        self.lock().is_stopping = true;
        self.lookup.end();
        self.changed.notify_all();
    }
}

/// Tells the end of a thread, whatever it comes from.
struct EndTold(Arc<Shared>);

impl Drop for EndTold {
    fn drop(&mut self) {
        self.0.lock().has_ended = true;
        self.0.changed.notify_all();
    }
}

impl Runner {
    /// Runs `service` on the link. `failed` is told why an attempt has ended.
    pub(super) fn start(
        way: Way,
        service: Arc<dyn Service>,
        failed: impl Fn(&str) + Send + 'static,
    ) -> Runner {
        Runner::start_with(way, service, failed, Lookup::new())
    }

    /// The same with a lookup of names that is not the system's.
    pub(super) fn start_with(
        way: Way,
        service: Arc<dyn Service>,
        failed: impl Fn(&str) + Send + 'static,
        lookup: Arc<Lookup>,
    ) -> Runner {
        let shared = Arc::new(Shared { lookup, state: Mutex::default(), changed: Condvar::new() });
        let own = EndTold(Arc::clone(&shared));
        let thread = thread::Builder::new().name("link way".into());
        let thread = thread.spawn(move || {
            let own = own;
            live(&way, &service, &own.0, &failed);
        });
        let thread = thread.inspect_err(|error| tracing::error!(%error, "no thread for a link")).ok();
        Runner { shared, thread }
    }

    /// Waits until the session has ended by itself, since its service has sent all.
    pub(super) fn wait(&mut self) {
        // A link that is not up has nothing to wait for.
        self.shared.stop_attempts();
        self.join();
    }

    /// Has the link end, and does not wait for that.
    pub(super) fn stop(&self) {
        self.shared.stop_attempts();
        if let Some(stopper) = &self.shared.lock().stopper {
            stopper.stop();
        }
    }

    /// Waits for the end until `until`. A thread that has not ended by then goes on by itself, and nothing waits for it any more;
    /// returns false then.
    pub(super) fn join_until(&mut self, until: Instant) -> bool {
        let patience = until.saturating_duration_since(Instant::now());
        let state = self.shared.lock();
        let waited = self.shared.changed.wait_timeout_while(state, patience, |state| !state.has_ended);
        let has_ended = waited.unwrap_or_else(PoisonError::into_inner).0.has_ended;
        if has_ended {
            self.join();
        }
        self.thread = None;
        has_ended
    }

    fn join(&mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Runner {
    fn drop(&mut self) {
        self.stop();
        self.join();
    }
}

fn live(way: &Way, service: &Arc<dyn Service>, shared: &Shared, failed: &dyn Fn(&str)) {
    let mut pause = AGAIN;
    loop {
        let begun = Instant::now();
        let ended = run(way, service, shared);
        if shared.lock().is_stopping {
            return;
        }
        if begun.elapsed() >= GOOD_RUN {
            pause = AGAIN;
        }
        let why = ended.err().unwrap_or_else(|| "the link has ended".to_owned());
        failed(&why);
        tracing::warn!(link = way.name, "{why}; trying again in {:.1} s", pause.as_secs_f64());
        let state = shared.lock();
        let waited = shared.changed.wait_timeout_while(state, pause, |state| !state.is_stopping);
        if waited.unwrap_or_else(PoisonError::into_inner).0.is_stopping {
            return;
        }
        pause = (pause * 2).min(AGAIN_MAX);
    }
}

/// One session, from its sockets to its end.
fn run(way: &Way, service: &Arc<dyn Service>, shared: &Shared) -> Result<(), String> {
    let settings = way.settings.clone();
    let words = |error: io::Error| error.to_string();
    let (endpoint, mode) = match &way.direction {
        Direction::Listen(local) => {
            let endpoint = Endpoint::listen(settings, std::slice::from_ref(local));
            let wrong = |error| format!("cannot listen at {}: {error}", local.address);
            (endpoint.map_err(wrong)?, Mode::Listen { once: false })
        }
        Direction::Connect { to, locals, spares } => {
            let Some(found) = shared.lookup.wait(to) else { return Ok(()) };
            let found = found.map_err(|error| format!("cannot find {to}: {error}"))?;
            let endpoint = Endpoint::open(settings, &locals(&found)?).map_err(words)?;
            (endpoint, Mode::Connect { to: found, give_up: false, spares: spares.clone() })
        }
    };
    if let Direction::Listen(_) = way.direction {
        tracing::info!(link = way.name, address = %endpoint.local_addresses()[0], "waiting for a sender");
    }
    let services = vec![Arc::clone(service)];
    let session = Session::open_with(endpoint, mode, Vec::new(), services, Extent::Services);
    let session = session.map_err(|error| error.to_string())?;
    {
        let mut state = shared.lock();
        if state.is_stopping {
            return Ok(());
        }
        state.stopper = Some(session.stopper());
    }
    let mut was_told = false;
    loop {
        match session.next_event(TICK) {
            Some(SessionEvent::Ended) => break,
            Some(event) => log(way, shared, &session, event, &mut was_told),
            None => {
                // A source that has ended before there was a link has nothing to send on it.
                let is_up = session.statistics().iter().any(|peer| peer.is_connected);
                if !is_up && shared.lock().is_stopping {
                    session.stopper().stop();
                }
            }
        }
    }
    shared.lock().stopper = None;
    session.join().map_err(|error| error.to_string())
}

/// Says what has happened. A listener that does not answer is looked for anew by its name.
fn log(way: &Way, shared: &Shared, session: &Session, event: SessionEvent, was_told: &mut bool) {
    let link = &way.name;
    match event {
        SessionEvent::Connected { peer, address, .. } => {
            *was_told = false;
            let address = address.map(|address| address.to_string());
            tracing::info!(link, peer, address, "the link is up");
        }
        SessionEvent::Resumed { peer, .. } => tracing::info!(link, peer, "the link is up again"),
        SessionEvent::Silent { peer, .. } => {
            tracing::warn!(link, peer, "nothing comes from the peer any more");
            look_again(way, shared, session);
        }
        SessionEvent::Unreachable { .. } => {
            if !std::mem::replace(was_told, true) {
                tracing::warn!(
                    link,
                    "the listener does not answer: is it running, is its port open, is the key the same? Trying on"
                );
            }
            look_again(way, shared, session);
        }
        SessionEvent::Refused { .. } if !std::mem::replace(was_told, true) => {
            tracing::warn!(
                link,
                "the listener has another peer of this name or key, which answers; trying on"
            );
        }
        SessionEvent::Lost { peer, reason } => match reason {
            CloseReason::Peer { reason, .. } => {
                let reason = printable::line(&reason).into_owned();
                tracing::info!(link, peer, reason, "the peer has ended the link");
            }
            CloseReason::Local | CloseReason::Unreachable | CloseReason::Refused => {}
            reason => tracing::warn!(link, peer, ?reason, "the link has ended"),
        },
        SessionEvent::PathUp { peer, address } => {
            tracing::info!(link, peer, %address, "a further path is there");
        }
        SessionEvent::PathDown { peer, address } => {
            tracing::warn!(link, peer, %address, "a path has gone; the others go on");
        }
        SessionEvent::PathTooNarrow { peer, address } => {
            tracing::error!(link, peer, %address, "the path carries no datagrams of the 1200 bytes that a link needs");
        }
        SessionEvent::NoOutput { channel } => {
            tracing::warn!(
                link,
                channel,
                "the peer sends on a channel that is not taken here; what comes is dropped"
            );
        }
        _ => {}
    }
}

fn look_again(way: &Way, shared: &Shared, session: &Session) {
    let Direction::Connect { to, .. } = &way.direction else { return };
    if to.parse::<SocketAddr>().is_ok() {
        return;
    }
    let set_remote = session.remote_setter();
    // The resolver may be away with the network.
    if let Err(error) = shared.lookup.ask(to, move |found| set_remote(found.to_vec())) {
        tracing::warn!(link = way.name, %error, "the listener's name is not looked for anew");
    }
}

#[cfg(test)]
#[path = "way_tests.rs"]
mod tests;
