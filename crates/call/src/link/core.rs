//! What the thread of an endpoint and the handles share.

use glassline_io::clock::Clock;
use glassline_io::poll::Waker;
use glassline_transport::link::{CloseReason, Endpoint, Error, Event, Link, LinkId};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, LockResult, Mutex, MutexGuard, PoisonError};

/// Events that wait for [`super::Link::events`], at most; beyond, the oldest go.
const MAX_EVENTS: usize = 1 << 16;

/// An endpoint's state behind its lock, and what wakes its thread.
pub(super) struct Shared {
    state: Mutex<State>,
    waker: Waker,
    pub(super) clock: Clock,
    /// Notified when a peer has connected, or the endpoint has ended.
    pub(super) accepted: Condvar,
}

/// What stands behind the lock.
pub(super) struct State {
    pub(super) endpoint: Endpoint,
    pub(super) peers: BTreeMap<LinkId, Peer>,
    /// Links that peers have made and that were not accepted yet.
    pub(super) waiting: VecDeque<LinkId>,
    /// The handles have handed over something since the thread last looked.
    dirty: bool,
    /// The thread waits in the kernel and was not woken.
    asleep: bool,
    /// The endpoint is being closed: the thread ends its links, and then itself.
    pub(super) stopping: bool,
    /// The thread has ended, or has to end without telling peers: nothing passes.
    pub(super) ended: bool,
}

/// What the core does not keep of a link.
pub(super) struct Peer {
    pub(super) wakes: Arc<Wakes>,
    pub(super) events: VecDeque<Event>,
    pub(super) lost_events: u64,
    /// Channels that may have something to take.
    pub(super) readable: u64,
    /// Channels that threads wait to take from.
    pub(super) readers: u64,
    /// How many threads wait for room, for an event, for the link to be up or idle.
    pub(super) senders: usize,
    pub(super) watchers: usize,
    /// Of what was taken since the thread was last told: messages, bytes.
    pub(super) taken: (u64, u64),
    pub(super) closed: Option<CloseReason>,
    /// There is a handle.
    pub(super) held: bool,
}

/// Where threads wait for a link.
#[derive(Default)]
pub(super) struct Wakes {
    pub(super) readable: Condvar,
    pub(super) writable: Condvar,
    pub(super) changed: Condvar,
}

impl Peer {
    fn new() -> Peer {
        Peer {
            wakes: Arc::default(),
            events: VecDeque::new(),
            lost_events: 0,
            readable: 0,
            readers: 0,
            senders: 0,
            watchers: 0,
            taken: (0, 0),
            closed: None,
            held: false,
        }
    }

    fn handle_event(&mut self, event: Event) {
        match &event {
            Event::Readable { channel } => {
                let bit = 1 << channel;
                self.readable |= bit;
                if self.readers & bit != 0 {
                    // Threads that still wait for another channel set their bits again.
                    self.readers = 0;
                    self.wakes.readable.notify_all();
                }
                return;
            }
            // A link that is tried again goes on; its handles learn that it is gone for good where the core has dropped it.
            Event::Closed { reason } | Event::Suspended { reason } => self.closed = Some(reason.clone()),
            Event::Connected { .. } | Event::Resumed => self.closed = None,
            _ => {}
        }
        if self.events.len() >= MAX_EVENTS {
            self.events.pop_front();
            self.lost_events += 1;
        }
        self.events.push_back(event);
        if self.watchers > 0 {
            self.wakes.changed.notify_all();
        }
    }

    /// Wakes all threads that wait, so that they look again.
    pub(super) fn wake_all(&self) {
        self.wakes.readable.notify_all();
        self.wakes.writable.notify_all();
        self.wakes.changed.notify_all();
    }
}

impl Shared {
    pub(super) fn new(endpoint: Endpoint, waker: Waker) -> Shared {
        let state = State {
            endpoint,
            peers: BTreeMap::new(),
            waiting: VecDeque::new(),
            dirty: false,
            asleep: false,
            stopping: false,
            ended: false,
        };
        Shared { state: Mutex::new(state), waker, clock: Clock::new(), accepted: Condvar::new() }
    }

    /// The state. Where a thread has panicked with it, the link that it was at work for has ended.
    pub(super) fn lock(&self) -> MutexGuard<'_, State> {
        self.whole(self.state.lock())
    }

    fn whole<'a>(&'a self, locked: LockResult<MutexGuard<'a, State>>) -> MutexGuard<'a, State> {
        locked.unwrap_or_else(|poisoned| {
            let mut state = poisoned.into_inner();
            state.endpoint.recover();
            state.distribute();
            state.peers.values().for_each(Peer::wake_all);
            self.accepted.notify_all();
            self.state.clear_poison();
            state
        })
    }

    /// Waits at `condvar`, once; the wake may be spurious, so that the caller has to look again.
    pub(super) fn wait<'a>(
        &'a self,
        condvar: &Condvar,
        state: MutexGuard<'a, State>,
        until: glassline_media::Time,
    ) -> MutexGuard<'a, State> {
        if until == glassline_media::Time::NEVER {
            return self.whole(condvar.wait(state));
        }
        let left = until - self.clock.now();
        match condvar.wait_timeout(state, left) {
            Ok((state, _)) => state,
            Err(poisoned) => self.whole(Err(PoisonError::new(poisoned.into_inner().0))),
        }
    }

    /// Lets the state go; the thread sees what has changed in it.
    pub(super) fn hand_over(&self, mut state: MutexGuard<'_, State>) {
        state.dirty = true;
        let wakes = std::mem::take(&mut state.asleep);
        drop(state);
        if wakes {
            self.waker.wake();
        }
    }

    /// Has the thread look at the state. The caller waits with the same lock next, so that no other thread has it in between.
    pub(super) fn nudge(&self, state: &mut State) {
        state.dirty = true;
        if std::mem::take(&mut state.asleep) {
            self.waker.wake();
        }
    }

    pub(super) fn clear_wake(&self) {
        self.waker.clear();
    }
}

impl State {
    /// The core's link.
    ///
    /// # Errors
    /// It has gone.
    pub(super) fn link(&mut self, id: LinkId) -> Result<&mut Link, Error> {
        if self.ended {
            return Err(Error::Closed);
        }
        self.endpoint.link_mut(id).ok_or(Error::Closed)
    }

    /// The entry of a link that has a handle, or is to get one.
    pub(super) fn peer(&mut self, id: LinkId) -> &mut Peer {
        self.peers.entry(id).or_insert_with(Peer::new)
    }

    /// The thread is about to wait; `false` where it has something to do.
    pub(super) fn falls_asleep(&mut self) -> bool {
        self.asleep = !std::mem::take(&mut self.dirty);
        self.asleep
    }

    pub(super) fn wakes_up(&mut self) {
        self.asleep = false;
        self.dirty = false;
    }

    /// Hands the core's events to the links that they are about. `true`: a new peer has connected.
    pub(super) fn distribute(&mut self) -> bool {
        let mut is_new = false;
        while let Some((id, event)) = self.endpoint.poll_event() {
            if !self.peers.contains_key(&id) {
                if !matches!(event, Event::Connected { .. }) {
                    // The link has no handle any more.
                    continue;
                }
                self.peer(id);
                self.waiting.push_back(id);
                is_new = true;
            }
            let is_end = matches!(event, Event::Closed { .. });
            let is_gone = is_end && self.endpoint.link(id).is_none_or(Link::is_over);
            let peer = self.peer(id);
            peer.handle_event(event);
            if is_gone {
                peer.wake_all();
                if !peer.held && self.endpoint.link(id).is_none() {
                    // It came and went before it was accepted.
                    self.peers.remove(&id);
                    self.waiting.retain(|waiting| *waiting != id);
                }
            }
        }
        is_new
    }

    /// Wakes the threads that wait for room.
    pub(super) fn wake_senders(&mut self) {
        for peer in self.peers.values().filter(|peer| peer.senders > 0) {
            peer.wakes.writable.notify_all();
        }
    }
}

#[cfg(test)]
#[path = "core_tests.rs"]
mod tests;
