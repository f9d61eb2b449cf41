//! The sending end: packets to the peer of a link that is made again whenever it was lost.

use super::packets::messages;
use super::{CHANNEL, options};
use crate::link::Link;
use crate::link::session::{Served, Service};
use bytes::Bytes;
use glassline_transport::link::{Error as LinkError, Event, MessageId, Options, Outcome, PathStatistics};
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether the link is still there.
const LOOK_AGAIN: Duration = Duration::from_millis(100);
/// How often a push that waits for room looks whether it may go on waiting.
const ROOM_INTERVAL: Duration = Duration::from_millis(50);

/// Sends packets on each link of its session, one at a time.
#[derive(Debug)]
pub struct Outgoing {
    options: Options,
    /// Each message goes over a second path too, as far as that carries it, where the link's paths share what is sent.
    twice: bool,
    state: Mutex<State>,
    /// Told when a link is up or gone, and at the end.
    changed: Condvar,
    /// Told when a message has ended.
    finished: Condvar,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Link>,
    /// Messages that the link has taken and that have not ended, and when it took them.
    under_way: BTreeMap<MessageId, Instant>,
    /// The peer has got a place to join on this link, and everything since.
    has_begun: bool,
    /// Something that the peer needs was left out or given up since [`Outgoing::take_key_frame_wish`] was asked last.
    wants_key_frame: bool,
    has_ended: bool,
    figures: OutgoingFigures,
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutgoingFigures {
    /// A link is up.
    pub is_up: bool,
    /// Messages that the link has taken.
    pub messages: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Messages that were older than the deadline before they had arrived.
    pub late: u64,
    /// Runs of packets that were left out, since there was no link, no room, or no place to join yet.
    pub left_out: u64,
    /// Messages that were under way when a link was lost: the peer may lack them.
    pub torn: u64,
    /// Links that have been up.
    pub links: u64,
    /// There is nothing more to send, and each message has arrived or was given up while the link was still up.
    pub is_finished: bool,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pushed {
    /// The link has them.
    Sent,
    /// No link is up, or the peer cannot begin with them: they are left out.
    LeftOut,
    /// There was no room for all of them: the peer begins anew at the next place to join.
    Full,
}

impl Outgoing {
    /// Sends packets that are given up when they are older than `deadline`. With `twice` each goes over a second path of the link
    /// as well, as far as that carries it ([`Bonding::Sum`](glassline_transport::link::Bonding::Sum)).
    pub fn new(deadline: Duration, twice: bool) -> Arc<Outgoing> {
        Arc::new(Outgoing {
            options: Options { receipts: true, ..options(deadline) },
            twice,
            state: Mutex::default(),
            changed: Condvar::new(),
            finished: Condvar::new(),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends whole packets, or leaves them out; never waits. `joinable`: a receiver can begin with them.
    pub fn push(&self, bytes: &[u8], joinable: bool) -> Pushed {
        self.push_while(bytes, joinable, || false)
    }

    /// As [`Outgoing::push`], for a source that can wait: while `waits` says so, it waits for room on the link, and for packets that
    /// have used up half their time, so that none becomes too old in the queue.
    pub fn push_while(&self, bytes: &[u8], joinable: bool, waits: impl Fn() -> bool) -> Pushed {
        let mut state = self.lock();
        let links = state.figures.links;
        if state.link.is_none() || !(state.has_begun || joinable) {
            return state.leave_out(Pushed::LeftOut);
        }
        for message in messages(bytes) {
            loop {
                // Another link begins with a place to join, not in the midst of these packets.
                let Some(link) = state.link.as_ref().filter(|_| state.figures.links == links) else {
                    return state.leave_out(Pushed::LeftOut);
                };
                let is_behind = state.is_behind(self.options.cancel_after.unwrap_or_default() / 2);
                if !is_behind || !waits() {
                    match self.send(link, Bytes::copy_from_slice(message)) {
                        Ok(id) => {
                            state.under_way.insert(id, Instant::now());
                            break;
                        }
                        Err(LinkError::QueueFull { .. }) if waits() => {}
                        Err(_) => return state.leave_out(Pushed::Full),
                    }
                }
                let waited = self.finished.wait_timeout(state, ROOM_INTERVAL);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            state.figures.messages += 1;
            state.figures.bytes += message.len() as u64;
        }
        state.has_begun = true;
        Pushed::Sent
    }

    fn send(&self, link: &Link, message: Bytes) -> Result<MessageId, LinkError> {
        if self.twice { link.try_send_twice(CHANNEL, message) } else { link.try_send(CHANNEL, message) }
    }

    /// Whether a source that can make one should make a key frame now: the peer has just come, or has missed something.
    pub fn take_key_frame_wish(&self) -> bool {
        std::mem::take(&mut self.lock().wants_key_frame)
    }

    /// Waits until a link is up, no longer than `timeout`. Returns whether one is.
    pub fn wait_up(&self, timeout: Duration) -> bool {
        let state = self.lock();
        let waits = |state: &mut State| state.link.is_none() && !state.has_ended;
        let waited = self.changed.wait_timeout_while(state, timeout, waits);
        waited.unwrap_or_else(PoisonError::into_inner).0.link.is_some()
    }

    /// There is nothing more to send: the session ends once all has arrived or is too old.
    pub fn end(&self) {
        self.lock().has_ended = true;
        self.changed.notify_all();
    }

    /// Counts so far.
    pub fn figures(&self) -> OutgoingFigures {
        let state = self.lock();
        OutgoingFigures { is_up: state.link.is_some(), ..state.figures }
    }

    /// Measures of the paths of the link that is up.
    pub fn paths(&self) -> Vec<PathStatistics> {
        let link = self.lock().link.clone();
        link.and_then(|link| link.paths().ok()).unwrap_or_default()
    }

    fn is_of(state: &State, link: &Link) -> bool {
        state.link.as_ref().is_some_and(|own| own.id() == link.id())
    }

    fn come_up(&self, link: &Link) {
        let mut state = self.lock();
        if !Outgoing::is_of(&state, link) {
            state.tear();
            state.link = Some(link.clone());
        }
        state.figures.links += 1;
        (state.has_begun, state.wants_key_frame) = (false, true);
        drop(state);
        self.changed.notify_all();
    }

    fn go_down(&self, link: &Link) {
        let mut state = self.lock();
        if Outgoing::is_of(&state, link) {
            state.tear();
            (state.link, state.has_begun) = (None, false);
        }
        drop(state);
        self.changed.notify_all();
        self.finished.notify_all();
    }

    /// Waits until all that this link has taken has ended. What is older than the deadline is given up meanwhile.
    fn finish(&self, link: &Link) {
        let until = Instant::now() + self.options.cancel_after.unwrap_or_default() + Duration::from_secs(1);
        let mut state = self.lock();
        while !state.under_way.is_empty() && !link.has_ended() && Instant::now() < until {
            let waited = self.finished.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        state.figures.is_finished = Outgoing::is_of(&state, link) && state.under_way.is_empty();
    }
}

impl State {
    fn leave_out(&mut self, pushed: Pushed) -> Pushed {
        self.figures.left_out += 1;
        self.wants_key_frame |= self.link.is_some();
        self.has_begun &= pushed != Pushed::Full;
        pushed
    }

    /// Whether a message has been under way for so long.
    fn is_behind(&self, age: Duration) -> bool {
        self.under_way.first_key_value().is_some_and(|(_, sent)| sent.elapsed() >= age)
    }

    /// Messages that were under way on the link will not be heard of any more.
    fn tear(&mut self) {
        self.figures.torn += self.under_way.len() as u64;
        self.under_way.clear();
    }
}

impl Service for Outgoing {
    fn sends(&self) -> Vec<(u8, Options)> {
        vec![(CHANNEL, self.options)]
    }

    fn takes(&self) -> Vec<u8> {
        Vec::new()
    }

    fn serve(&self, link: &Link) -> io::Result<Served> {
        let mut state = self.lock();
        while !state.has_ended && !link.has_ended() {
            let waited = self.changed.wait_timeout(state, LOOK_AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        let (has_ended, was_up) = (state.has_ended, Outgoing::is_of(&state, link));
        drop(state);
        if has_ended && was_up {
            self.finish(link);
        }
        self.go_down(link);
        Ok(if has_ended { Served::All } else { Served::ThisLink })
    }

    fn handle_event(&self, link: &Link, event: &Event) {
        match event {
            // A peer that has restarted begins with a place to join, as a new one does.
            Event::Connected { .. } => self.come_up(link),
            Event::Closed { .. } => self.go_down(link),
            Event::Finished { channel: CHANNEL, message, outcome } => {
                let mut state = self.lock();
                if Outgoing::is_of(&state, link) {
                    state.under_way.remove(message);
                }
                if *outcome != Outcome::Delivered {
                    state.figures.late += 1;
                    state.wants_key_frame = true;
                }
                drop(state);
                self.finished.notify_all();
            }
            _ => {}
        }
    }

    fn is_input(&self) -> bool {
        true
    }
}

#[cfg(test)]
#[path = "outgoing_tests.rs"]
mod tests;
