//! The addresses of a peer that has a name. The resolver may block for many seconds, so a thread of its own asks it, one at a
//! time, and an end does not wait for that thread.

use glassline_io::resolve;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What a resolver's thread calls with what it has found.
pub(super) type Answer = Box<dyn FnOnce(io::Result<Vec<SocketAddr>>) + Send>;
/// Resolves host and port elsewhere. Fails where there is no thread for it.
pub(super) type Resolver = Box<dyn Fn(String, u16, Answer) -> io::Result<()> + Send + Sync>;

/// Looks for the addresses of `HOST:PORT`.
pub(super) struct Lookup {
    resolver: Resolver,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    has_ended: bool,
    is_asking: bool,
    /// Of the last lookup, until it is taken.
    found: Option<io::Result<Vec<SocketAddr>>>,
}

impl Lookup {
    /// With the system's resolver.
    pub(super) fn new() -> Arc<Lookup> {
        Lookup::with(Box::new(resolve::in_background))
    }

    pub(super) fn with(resolver: Resolver) -> Arc<Lookup> {
        Arc::new(Lookup { resolver, state: Mutex::default(), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// All addresses of `to`, in the order in which the link tries them; waits for them. `None` after the [end](Lookup::end).
    ///
    /// # Errors
    /// The name has none, the resolver does not answer, or there is no thread to ask it.
    pub(super) fn wait(self: &Arc<Lookup>, to: &str) -> Option<io::Result<Vec<SocketAddr>>> {
        if let Ok(address) = to.parse() {
            return Some(Ok(vec![address]));
        }
        if let Err(error) = self.ask(to, |_| {}) {
            return Some(Err(error));
        }
        let waits = |state: &mut State| !state.has_ended && state.is_asking;
        let waited = self.changed.wait_while(self.lock(), waits);
        let mut state = waited.unwrap_or_else(PoisonError::into_inner);
        if state.has_ended { None } else { state.found.take() }
    }

    /// Asks for the addresses of `to`, and calls `found` with them. Does nothing while it is asking already, for what only looks
    /// whether a known address has changed.
    ///
    /// # Errors
    /// `to` is not `HOST:PORT`, or there is no thread.
    pub(super) fn ask(
        self: &Arc<Lookup>,
        to: &str,
        found: impl FnOnce(&[SocketAddr]) + Send + 'static,
    ) -> io::Result<()> {
        let wrong = || io::Error::new(io::ErrorKind::InvalidInput, "write HOST:PORT");
        let (host, port) = to.rsplit_once(':').ok_or_else(wrong)?;
        let port = port.parse().map_err(|_| wrong())?;
        {
            let mut state = self.lock();
            if state.is_asking {
                return Ok(());
            }
            (state.is_asking, state.found) = (true, None);
        }
        let own = Arc::clone(self);
        let answer = move |answer: io::Result<Vec<SocketAddr>>| {
            let answer = answer.map(|addresses| resolve::in_turns(&addresses));
            if let Ok(addresses) = &answer {
                found(addresses);
            }
            let mut state = own.lock();
            (state.is_asking, state.found) = (false, Some(answer));
            drop(state);
            own.changed.notify_all();
        };
        let asked = (self.resolver)(host.to_owned(), port, Box::new(answer));
        if asked.is_err() {
            self.lock().is_asking = false;
        }
        asked
    }

    /// Nothing waits for addresses any more.
    pub(super) fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_test_support::wait::PATIENCE;
    use std::sync::mpsc;
    use std::thread;

    #[test]
    fn addresses_stand_for_themselves_and_names_are_resolved() {
        let lookup = Lookup::new();
        let address = "127.0.0.1:9".parse().unwrap();
        assert_eq!(lookup.wait("127.0.0.1:9").unwrap().unwrap(), [address]);
        assert!(lookup.wait("localhost:9").unwrap().unwrap().iter().all(|found| found.ip().is_loopback()));
        for bad in ["localhost", "localhost:x"] {
            assert_eq!(lookup.wait(bad).unwrap().unwrap_err().kind(), io::ErrorKind::InvalidInput, "{bad}");
        }
    }

    #[test]
    fn one_lookup_runs_at_a_time_and_the_next_one_after_its_answer() {
        let (asked, questions) = mpsc::channel();
        let resolver = move |_, _, answer| {
            asked.send(answer).unwrap();
            Ok(())
        };
        let lookup = Lookup::with(Box::new(resolver));
        let (told, found) = mpsc::channel();
        for number in 0..3 {
            let told = told.clone();
            lookup.ask("name:9", move |addresses| told.send((number, addresses.to_vec())).unwrap()).unwrap();
        }
        let answer: Answer = questions.try_recv().unwrap();
        assert!(questions.try_recv().is_err(), "a second lookup runs");
        let address: SocketAddr = "127.0.0.1:9".parse().unwrap();
        answer(Ok(vec![address]));
        assert_eq!(found.try_iter().collect::<Vec<_>>(), [(0, vec![address])]);
        lookup.ask("name:9", |_| {}).unwrap();
        assert!(questions.try_recv().is_ok());
    }

    #[test]
    fn without_a_thread_the_name_is_unreachable_and_asked_for_again_later() {
        let (sender, count) = mpsc::channel();
        let resolver = move |_, _, _| {
            sender.send(()).unwrap();
            Err(io::ErrorKind::WouldBlock.into())
        };
        let lookup = Lookup::with(Box::new(resolver));
        for _ in 0..2 {
            assert_eq!(lookup.wait("name:9").unwrap().unwrap_err().kind(), io::ErrorKind::WouldBlock);
        }
        assert_eq!(count.try_iter().count(), 2);
    }

    #[test]
    fn the_end_does_not_wait_for_a_resolver_that_does_not_answer() {
        let (asked, questions) = mpsc::channel();
        let resolver = move |_, _, answer| {
            asked.send(answer).unwrap();
            Ok(())
        };
        let lookup = Lookup::with(Box::new(resolver));
        let waiting = Arc::clone(&lookup);
        let (told, ended) = mpsc::channel();
        thread::spawn(move || told.send(waiting.wait("name:9").is_none()));
        let _unanswered: Answer = questions.recv_timeout(PATIENCE).unwrap();
        lookup.end();
        assert!(ended.recv_timeout(PATIENCE).unwrap());
    }
}
