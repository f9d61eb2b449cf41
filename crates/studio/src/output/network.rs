//! The thread that goes on with what sockets did not take at once, and with what servers say.
//!
//! ```text
//! encoder's thread ─► endpoint: writes at once, where nothing waits ─► socket
//!                        │ the rest waits                                ▲
//!                        └─► network thread: when the socket has room ───┘ or the endpoint's time has come
//! ```
//! An encoder's slice is thus in the kernel before its next one is looked at, without the price of waking a thread, and what
//! does not fit holds neither it nor the other outputs.

use super::{Error, Result};
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_io::poll::{Poller, Waker, Wakeup, Watch};
use glassline_media::Time;
use std::collections::BTreeMap;
use std::io;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::{self, JoinHandle};

const WAKER: u64 = u64::MAX;

/// What the thread serves. It is locked by its own means: the encoder's thread writes to it meanwhile.
pub(super) trait Endpoint: Send + Sync {
    /// Its socket is ready for something, or its time has come.
    fn handle_ready(self: Arc<Self>, now: Time);

    /// When [`Endpoint::handle_ready`] has something to do next; `None` where it waits for nothing. Code that makes this time
    /// earlier has to call [`Registration::wake`].
    fn poll_timeout(&self) -> Option<Time>;
}

/// Why the thread goes on though no socket has become ready.
#[derive(Clone, Copy, Debug)]
enum Reason {
    /// The endpoint of this token has a time limit.
    Endpoint(#[expect(dead_code, reason = "the log shows it")] u64),
}

/// The thread; ends when this is dropped.
pub(super) struct Network {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

struct Shared {
    clock: Clock,
    poller: Poller,
    waker: Waker,
    over: AtomicBool,
    endpoints: Mutex<BTreeMap<u64, Weak<dyn Endpoint>>>,
}

/// An endpoint's place with the thread.
#[derive(Clone)]
pub(super) struct Registration {
    shared: Arc<Shared>,
    token: u64,
    /// Nothing else gets the place until its endpoint is there.
    _held: Arc<Nothing>,
}

impl Network {
    /// Starts the thread, which waits.
    pub(super) fn start() -> Result<Network> {
        let started = || -> io::Result<Network> {
            let poller = Poller::new()?;
            let waker = Waker::new(&poller, WAKER)?;
            let (over, endpoints) = (AtomicBool::new(false), Mutex::default());
            let shared = Arc::new(Shared { clock: Clock::new(), poller, waker, over, endpoints });
            let theirs = Arc::clone(&shared);
            let thread = thread::Builder::new().name("network".to_owned()).spawn(move || theirs.run())?;
            Ok(Network { shared, thread: Some(thread) })
        };
        started().map_err(Error::Thread)
    }

    /// A place for an endpoint; [`Registration::serve`] says which.
    pub(super) fn register(&self) -> Registration {
        let mut endpoints = self.shared.lock();
        endpoints.retain(|_, endpoint| endpoint.strong_count() > 0);
        let token = endpoints.keys().next_back().map_or(0, |last| last + 1);
        let held = Arc::new(Nothing);
        let place: Weak<dyn Endpoint> = Arc::downgrade(&(Arc::clone(&held) as Arc<dyn Endpoint>));
        endpoints.insert(token, place);
        Registration { shared: Arc::clone(&self.shared), token, _held: held }
    }
}

/// Holds a place until its endpoint is there.
struct Nothing;

impl Endpoint for Nothing {
    fn handle_ready(self: Arc<Self>, _: Time) {}

    fn poll_timeout(&self) -> Option<Time> {
        None
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        self.shared.over.store(true, Ordering::Relaxed);
        self.shared.waker.wake();
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Registration {
    /// Has `endpoint` served at this place, as long as it lives.
    pub(super) fn serve(&self, endpoint: &Arc<impl Endpoint + 'static>) {
        let endpoint: Weak<dyn Endpoint> = Arc::downgrade(&(Arc::clone(endpoint) as Arc<dyn Endpoint>));
        self.shared.lock().insert(self.token, endpoint);
        self.wake();
    }

    /// Has the thread look at the times of all endpoints again.
    pub(super) fn wake(&self) {
        self.shared.waker.wake();
    }

    /// Now, on the clock of [`Endpoint::handle_ready`].
    pub(super) fn now(&self) -> Time {
        self.shared.clock.now()
    }

    /// Tells the endpoint each time that `socket` becomes ready for something, and once if it is. Closing it ends that.
    pub(super) fn watch(&self, socket: impl AsFd) -> io::Result<()> {
        self.shared.poller.add(socket, self.token, Watch::Edges)
    }

    /// Ends [`Registration::watch`] of a socket that stays open.
    pub(super) fn forget(&self, socket: impl AsFd) -> io::Result<()> {
        self.shared.poller.remove(socket)
    }
}

impl Shared {
    fn run(&self) {
        let mut ready = Vec::new();
        while !self.over.load(Ordering::Relaxed) {
            let now = self.clock.now();
            let mut wakeup = Wakeup::NEVER;
            for (token, endpoint) in self.all() {
                self.serve(token, || {
                    let at = endpoint.poll_timeout().unwrap_or(Time::NEVER);
                    wakeup = wakeup.or(Reason::Endpoint(token), at);
                });
            }
            if let Err(error) = self.poller.wait_until(&wakeup, now, &mut ready) {
                tracing::error!(%error, "epoll failed; what sockets do not take at once is lost from now on");
                return;
            }
            if ready.iter().any(|event| event.token == WAKER) {
                self.waker.clear();
            }
            for event in &ready {
                let endpoint = self.lock().get(&event.token).and_then(Weak::upgrade);
                if let Some(endpoint) = endpoint {
                    self.serve(event.token, || endpoint.handle_ready(self.clock.now()));
                }
            }
            for (token, endpoint) in self.all() {
                self.serve(token, || {
                    let now = self.clock.now();
                    if endpoint.poll_timeout().is_some_and(|time| time <= now) {
                        endpoint.handle_ready(now);
                    }
                });
            }
        }
    }

    /// Serves the endpoint at `token`. One at which that panics is served no more: its lock tells its writer of the fault.
    fn serve(&self, token: u64, serve: impl FnOnce()) {
        if contain(Border::Output, serve).is_err() {
            self.lock().remove(&token);
        }
    }

    fn all(&self) -> Vec<(u64, Arc<dyn Endpoint>)> {
        self.lock().iter().filter_map(|(token, endpoint)| Some((*token, endpoint.upgrade()?))).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Weak<dyn Endpoint>>> {
        self.endpoints.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
#[path = "network_tests.rs"]
mod tests;
