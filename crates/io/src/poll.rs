//! Readiness: epoll, edge-triggered, and a waker that ends a wait from another thread.

use glassline_media::Time;
use rustix::event::{EventfdFlags, epoll, eventfd};
use rustix::time::Timespec;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;
use std::{fmt, io};

/// What became ready.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    /// The token under which the descriptor was added.
    pub token: u64,
    /// Bytes can be read, a connection accepted, or the peer has ended its side.
    pub readable: bool,
    /// Bytes can be written.
    pub writable: bool,
    /// The connection has failed or both sides have ended.
    pub closed: bool,
}

/// How a descriptor is watched.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// A socket: each *change* to readable or writable is told once, so that a viewer needs no further call
    /// however often it is served.
    Edges,
    /// A listener: told for as long as something waits to be accepted.
    Accepts,
}

/// An epoll instance.
#[derive(Debug)]
pub struct Poller {
    epoll: OwnedFd,
}

const EVENTS_PER_WAIT: usize = 512;

impl Poller {
    /// A poller that watches nothing yet.
    pub fn new() -> io::Result<Poller> {
        Ok(Poller { epoll: epoll::create(epoll::CreateFlags::CLOEXEC)? })
    }

    /// Watches `descriptor` under `token`. Closing the descriptor ends the watch.
    pub fn add(&self, descriptor: impl AsFd, token: u64, watch: Watch) -> io::Result<()> {
        use epoll::EventFlags as Flags;
        let flags = match watch {
            Watch::Edges => Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET,
            Watch::Accepts => Flags::IN,
        };
        Ok(epoll::add(&self.epoll, descriptor, epoll::EventData::new_u64(token), flags)?)
    }

    /// Ends the watch on a descriptor that stays open.
    pub fn remove(&self, descriptor: impl AsFd) -> io::Result<()> {
        Ok(epoll::delete(&self.epoll, descriptor)?)
    }

    /// Waits until something is ready, `timeout` has passed (`None`: for ever) or a signal came, and puts what
    /// is ready into `ready`.
    pub fn wait(&self, timeout: Option<Duration>, ready: &mut Vec<Event>) -> io::Result<()> {
        ready.clear();
        let timeout = timeout.map(|wait| Timespec {
            tv_sec: wait.as_secs().try_into().unwrap_or(i64::MAX),
            tv_nsec: wait.subsec_nanos().into(),
        });
        let mut events = [const { MaybeUninit::uninit() }; EVENTS_PER_WAIT];
        let told = match epoll::wait(&self.epoll, &mut events[..], timeout.as_ref()) {
            Ok((told, _)) => told,
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(error) => return Err(error.into()),
        };
        ready.extend(told.iter().map(|event| {
            use epoll::EventFlags as Flags;
            let flags = event.flags;
            Event {
                token: event.data.u64(),
                readable: flags.intersects(Flags::IN | Flags::RDHUP | Flags::HUP | Flags::ERR),
                writable: flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR),
                closed: flags.intersects(Flags::HUP | Flags::ERR),
            }
        }));
        Ok(())
    }
}

/// When an event loop has to go on though nothing becomes ready, and why: the first of what its parts ask for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wakeup<R> {
    /// When; [`Time::NEVER`] where nothing is due.
    pub at: Time,
    /// Why; `None` where nothing is due.
    pub reason: Option<R>,
}

impl<R> Wakeup<R> {
    /// Nothing is due.
    pub const NEVER: Wakeup<R> = Wakeup { at: Time::NEVER, reason: None };

    /// This one, or `reason` where that is due before it.
    #[inline]
    #[must_use]
    pub fn or(self, reason: R, at: Time) -> Wakeup<R> {
        if at < self.at { Wakeup { at, reason: Some(reason) } } else { self }
    }
}

impl Poller {
    /// As [`Poller::wait`], until something is due at the latest. The log has the reason at its level of traces.
    pub fn wait_until<R: fmt::Debug>(
        &self,
        wakeup: &Wakeup<R>,
        now: Time,
        ready: &mut Vec<Event>,
    ) -> io::Result<()> {
        let timeout = (wakeup.at != Time::NEVER).then(|| wakeup.at.since(now));
        self.wait(timeout, ready)?;
        tracing::trace!(ready = ready.len(), ?timeout, reason = ?wakeup.reason, "an event loop goes on");
        Ok(())
    }
}

/// Ends a [`Poller::wait`] from any thread. Cloned handles wake the same poller.
#[derive(Clone, Debug)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// A waker of `poller`, told under `token`; the woken side calls [`Waker::clear`] after each.
    pub fn new(poller: &Poller, token: u64) -> io::Result<Waker> {
        let event = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?;
        poller.add(&event, token, Watch::Accepts)?;
        Ok(Waker(Arc::new(event)))
    }

    /// Wakes. Several wakes before the poller comes round are one.
    pub fn wake(&self) {
        // The only failure is a counter at its top, and then a wake is pending already.
        let _ = rustix::io::write(&*self.0, &1u64.to_ne_bytes());
    }

    /// Takes the wake back, so that the next wait sleeps.
    pub fn clear(&self) {
        let mut count = [0; 8];
        let _ = rustix::io::read(&*self.0, &mut count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_of_several_times_says_why_a_loop_goes_on() {
        let at = Time::from_millis;
        let wakeup = Wakeup::NEVER.or("sweep", at(300)).or("flush", at(20)).or("later", at(20));
        assert_eq!(wakeup, Wakeup { at: at(20), reason: Some("flush") });
        assert_eq!(Wakeup::NEVER.or("never", Time::NEVER).reason, None);
        let (poller, mut ready) = (Poller::new().unwrap(), Vec::new());
        // What was due before is no reason to wait.
        poller.wait_until(&wakeup, at(1_000_000), &mut ready).unwrap();
        assert!(ready.is_empty());
    }

    #[test]
    fn a_wake_from_another_thread_ends_a_wait() {
        let poller = Poller::new().unwrap();
        let waker = Waker::new(&poller, 7).unwrap();
        let remote = waker.clone();
        let thread = std::thread::spawn(move || remote.wake());
        let mut ready = Vec::new();
        poller.wait(Some(Duration::from_secs(10)), &mut ready).unwrap();
        thread.join().unwrap();
        assert_eq!(ready.len(), 1);
        assert!(ready[0].token == 7 && ready[0].readable);
        waker.clear();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        assert_eq!(ready, []);
    }
}
