//! The handle on a link: send and receive from any thread.

use super::core::{Shared, State};
use bytes::Bytes;
use glassline_media::{Time, Utc};
use glassline_transport::link::{
    CloseCode, CloseReason, Error, Event, LinkId, LinkStatistics, MAX_CHANNELS, MessageId, Options,
    PathStatistics, ReceiveCounters, Received, SendCounters,
};
use std::net::SocketAddr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

/// After so many messages or bytes were taken, the thread looks whether it has to tell the peer of the room.
const TELL_MESSAGES: u64 = 1024;
const TELL_BYTES: u64 = 1 << 20;
/// Bytes of messages after which [`Link::receive_all`] takes no more: what a peer has packed is much larger when it is taken.
const TAKE_BYTES: u64 = 4 << 20;
/// Messages that [`Link::send_all`] hands over before the thread is woken.
const SEND_AT_ONCE: usize = 256;
/// For waits that end by messages.
const FOREVER: Duration = Duration::MAX;

/// A set of channels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channels(u64);

impl Channels {
    /// All of them.
    pub const ALL: Channels = Channels(u64::MAX);

    /// The set without `channel`.
    #[must_use]
    pub const fn without(self, channel: u8) -> Channels {
        Channels(if (channel as usize) < MAX_CHANNELS { self.0 & !(1 << channel) } else { self.0 })
    }
}

impl FromIterator<u8> for Channels {
    fn from_iter<T: IntoIterator<Item = u8>>(channels: T) -> Channels {
        Channels(channels.into_iter().map(bit).fold(0, |set, bit| set | bit))
    }
}

/// A channel as a set; none where there is no such channel.
fn bit(channel: u8) -> u64 {
    if usize::from(channel) < MAX_CHANNELS { 1 << channel } else { 0 }
}

/// Counts of a channel, in both directions, as far as it is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ChannelStatistics {
    /// Its number.
    pub channel: u8,
    /// What was sent.
    pub sent: SendCounters,
    /// What came.
    pub received: ReceiveCounters,
}

/// One peer. Clones are handles on the same link, for any thread; when the last one is dropped, the link is closed.
#[derive(Clone, Debug)]
pub struct Link(Arc<Handle>);

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
    id: LinkId,
}

impl Drop for Handle {
    fn drop(&mut self) {
        let mut state = self.shared.lock();
        state.peers.remove(&self.id);
        let now = self.shared.clock.now();
        if let Some(link) = state.endpoint.link_mut(self.id) {
            link.close(now, "");
        }
        state.endpoint.forget(self.id);
        self.shared.hand_over(state);
    }
}

impl Link {
    pub(super) fn new(shared: &Arc<Shared>, id: LinkId) -> Link {
        Link(Arc::new(Handle { shared: Arc::clone(shared), id }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.shared.lock()
    }

    fn now(&self) -> Time {
        self.0.shared.clock.now()
    }

    /// Names the link among those of its endpoint.
    pub fn id(&self) -> LinkId {
        self.0.id
    }

    /// Opens channel `channel` for sending, and says how we want to receive on it.
    ///
    /// # Errors
    /// Options that make no sense, a channel that is in use, or the link has ended.
    pub fn open(&self, channel: u8, options: Options) -> Result<(), Error> {
        self.lock().link(self.0.id)?.open(channel, options)
    }

    /// Sends a message; waits while the channel's queue is full. While the link connects, messages wait in the queue.
    ///
    /// # Errors
    /// The channel is not open, the message is too large, or the link has ended.
    pub fn send(&self, channel: u8, message: impl Into<Bytes>) -> Result<MessageId, Error> {
        self.send_until(channel, message.into(), None, Time::NEVER)
    }

    /// As [`Link::send`], and waits no longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::QueueFull`] where there was no room until then, and those of [`Link::send`].
    pub fn send_timeout(
        &self,
        channel: u8,
        message: impl Into<Bytes>,
        timeout: Duration,
    ) -> Result<MessageId, Error> {
        self.send_until(channel, message.into(), None, self.now() + timeout)
    }

    /// As [`Link::send_timeout`], with a time for the other end on a channel that is [`Options::stamped`]; on any other it is
    /// left out.
    ///
    /// # Errors
    /// As those of [`Link::send_timeout`].
    pub fn send_stamped(
        &self,
        channel: u8,
        message: impl Into<Bytes>,
        stamp: Utc,
        timeout: Duration,
    ) -> Result<MessageId, Error> {
        self.send_until(channel, message.into(), Some(stamp), self.now() + timeout)
    }

    fn send_until(
        &self,
        channel: u8,
        message: Bytes,
        stamp: Option<Utc>,
        until: Time,
    ) -> Result<MessageId, Error> {
        let mut state = self.lock();
        loop {
            let link = state.link(self.0.id)?;
            if link.has_room(channel, message.len()) {
                let now = self.now();
                let sent = match stamp {
                    Some(stamp) => link.send_stamped(now, channel, message, stamp),
                    None => link.send(now, channel, message),
                };
                self.0.shared.hand_over(state);
                return sent;
            }
            if until <= self.now() {
                return Err(Error::QueueFull { channel });
            }
            state = self.wait_for_room(state, until);
        }
    }

    /// Sends a message if the channel has room for it now.
    ///
    /// # Errors
    /// [`Error::QueueFull`], and those of [`Link::send`].
    pub fn try_send(&self, channel: u8, message: impl Into<Bytes>) -> Result<MessageId, Error> {
        self.try_sending(|link, now| link.send(now, channel, message))
    }

    /// As [`Link::try_send`], for a message on which much depends: of several paths two carry it.
    ///
    /// # Errors
    /// As those of [`Link::try_send`].
    pub fn try_send_twice(&self, channel: u8, message: impl Into<Bytes>) -> Result<MessageId, Error> {
        self.try_sending(|link, now| link.send_twice(now, channel, message))
    }

    fn try_sending(
        &self,
        send: impl FnOnce(&mut glassline_transport::link::Link, Time) -> Result<MessageId, Error>,
    ) -> Result<MessageId, Error> {
        let mut state = self.lock();
        let sent = send(state.link(self.0.id)?, self.now());
        if sent.is_ok() {
            self.0.shared.hand_over(state);
        }
        sent
    }

    /// Sends messages in a row, as [`Link::send`] would each, and takes the lock once for many of them. Returns how many.
    ///
    /// # Errors
    /// As those of [`Link::send`]; those before the one that failed were sent.
    pub fn send_all(&self, channel: u8, messages: impl IntoIterator<Item = Bytes>) -> Result<u64, Error> {
        let mut messages = messages.into_iter().peekable();
        let mut count = 0;
        while messages.peek().is_some() {
            let mut state = self.lock();
            let now = self.now();
            for _ in 0..SEND_AT_ONCE {
                let Some(message) = messages.peek() else { break };
                while !state.link(self.0.id)?.has_room(channel, message.len()) {
                    state = self.wait_for_room(state, Time::NEVER);
                }
                let Some(message) = messages.next() else { break };
                state.link(self.0.id)?.send(now, channel, message)?;
                count += 1;
            }
            self.0.shared.hand_over(state);
        }
        Ok(count)
    }

    /// Has the thread make room, and waits for it until `until`.
    fn wait_for_room<'a>(&'a self, mut state: MutexGuard<'a, State>, until: Time) -> MutexGuard<'a, State> {
        self.0.shared.nudge(&mut state);
        let peer = state.peer(self.0.id);
        peer.senders += 1;
        let wakes = Arc::clone(&peer.wakes);
        let mut state = self.0.shared.wait(&wakes.writable, state, until);
        state.peer(self.0.id).senders -= 1;
        state
    }

    /// Takes the next message that came on `channel`; waits for one. Small ones that came in quick succession share
    /// blocks of 16 KiB, each of which is there for as long as one of its messages is.
    ///
    /// # Errors
    /// [`Error::Closed`] once the link has ended and all that came was taken.
    pub fn receive(&self, channel: u8) -> Result<Bytes, Error> {
        loop {
            if let Some((_, message)) = self.receive_until(bit(channel), Time::NEVER)? {
                return Ok(message);
            }
        }
    }

    /// As [`Link::receive`], for no longer than `timeout`, which may be zero.
    ///
    /// # Errors
    /// As those of [`Link::receive`].
    pub fn receive_timeout(&self, channel: u8, timeout: Duration) -> Result<Option<Bytes>, Error> {
        let received = self.receive_until(bit(channel), self.now() + timeout)?;
        Ok(received.map(|(_, message)| message))
    }

    /// As [`Link::receive_timeout`], with what is known of the message's way.
    ///
    /// # Errors
    /// As those of [`Link::receive`].
    pub fn receive_message(&self, channel: u8, timeout: Duration) -> Result<Option<Received>, Error> {
        let until = self.now() + timeout;
        let mut state = self.lock();
        loop {
            let link = state.link(self.0.id)?;
            if let Some(message) = link.receive_message(channel) {
                self.account(state, 1, message.bytes.len() as u64);
                return Ok(Some(message));
            }
            let is_over = link.is_over();
            let peer = state.peer(self.0.id);
            peer.readable &= !bit(channel);
            if is_over {
                return Err(Error::Closed);
            }
            if until <= self.now() {
                return Ok(None);
            }
            peer.readers |= bit(channel);
            let wakes = Arc::clone(&peer.wakes);
            state = self.0.shared.wait(&wakes.readable, state, until);
        }
    }

    /// Takes the next message of any of `channels`, the lowest number first; waits no longer than `timeout`.
    ///
    /// # Errors
    /// As those of [`Link::receive`].
    pub fn receive_any(&self, channels: Channels, timeout: Duration) -> Result<Option<(u8, Bytes)>, Error> {
        self.receive_until(channels.0, self.now() + timeout)
    }

    /// Takes the messages that wait on `channel` and appends them to `into`, until they come to 4 MiB; waits for the first
    /// one. Returns how many.
    ///
    /// # Errors
    /// As those of [`Link::receive`].
    pub fn receive_all(&self, channel: u8, into: &mut Vec<Bytes>) -> Result<usize, Error> {
        self.take_all(channel, into, |message| message.bytes)
    }

    /// As [`Link::receive_all`], with what is known of each message's way, and its stamp.
    ///
    /// # Errors
    /// As those of [`Link::receive`].
    pub fn receive_all_messages(&self, channel: u8, into: &mut Vec<Received>) -> Result<usize, Error> {
        self.take_all(channel, into, |message| message)
    }

    fn take_all<T>(
        &self,
        channel: u8,
        into: &mut Vec<T>,
        of: impl Fn(Received) -> T,
    ) -> Result<usize, Error> {
        let before = into.len();
        let message = loop {
            if let Some(message) = self.receive_message(channel, FOREVER)? {
                break message;
            }
        };
        let first = message.bytes.len() as u64;
        into.push(of(message));
        let mut state = self.lock();
        let mut bytes = 0;
        if let Ok(link) = state.link(self.0.id) {
            while first + bytes < TAKE_BYTES
                && let Some(message) = link.receive_message(channel)
            {
                bytes += message.bytes.len() as u64;
                into.push(of(message));
            }
        }
        let count = into.len() - before;
        self.account(state, count as u64 - 1, bytes);
        Ok(count)
    }

    fn receive_until(&self, channels: u64, until: Time) -> Result<Option<(u8, Bytes)>, Error> {
        let mut state = self.lock();
        loop {
            let mut open = state.peer(self.0.id).readable & channels;
            let link = state.link(self.0.id)?;
            let mut emptied = 0;
            let mut taken = None;
            while open != 0 {
                let channel = open.trailing_zeros() as u8;
                taken = link.receive(channel).map(|message| (channel, message));
                if taken.is_some() {
                    break;
                }
                emptied |= 1 << channel;
                open &= open - 1;
            }
            let is_over = link.is_over();
            let peer = state.peer(self.0.id);
            peer.readable &= !emptied;
            if let Some((channel, message)) = taken {
                let bytes = message.len() as u64;
                self.account(state, 1, bytes);
                return Ok(Some((channel, message)));
            }
            if is_over {
                return Err(Error::Closed);
            }
            if until != Time::NEVER && until <= self.now() {
                return Ok(None);
            }
            peer.readers |= channels;
            let wakes = Arc::clone(&peer.wakes);
            state = self.0.shared.wait(&wakes.readable, state, until);
        }
    }

    /// Messages were taken: the thread is told now and then, so that the peer learns of the room.
    fn account(&self, mut state: MutexGuard<'_, State>, messages: u64, bytes: u64) {
        let taken = &mut state.peer(self.0.id).taken;
        (taken.0, taken.1) = (taken.0 + messages, taken.1 + bytes);
        if taken.0 >= TELL_MESSAGES || taken.1 >= TELL_BYTES {
            *taken = (0, 0);
            self.0.shared.hand_over(state);
        }
    }

    /// What has happened since it was last asked, oldest first. That there is something to take is not told here.
    pub fn events(&self) -> Vec<Event> {
        self.lock().peer(self.0.id).events.drain(..).collect()
    }

    /// The next event; waits no longer than `timeout`.
    pub fn wait_event(&self, timeout: Duration) -> Option<Event> {
        let until = self.now() + timeout;
        let mut state = self.lock();
        loop {
            let ended = state.ended;
            let peer = state.peer(self.0.id);
            let event = peer.events.pop_front();
            if event.is_some() || ended || until <= self.now() {
                return event;
            }
            peer.watchers += 1;
            let wakes = Arc::clone(&peer.wakes);
            state = self.0.shared.wait(&wakes.changed, state, until);
            state.peer(self.0.id).watchers -= 1;
        }
    }

    /// Whether messages pass.
    pub fn is_connected(&self) -> bool {
        self.lock().link(self.0.id).is_ok_and(|link| link.is_up())
    }

    /// Waits until messages pass, no longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has ended.
    pub fn wait_connected(&self, timeout: Duration) -> Result<bool, Error> {
        self.wait_until(timeout, |link| link.is_up())
    }

    /// Waits until all that was sent has ended (delivered, cancelled or lost), no longer than `timeout`.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has ended.
    pub fn flush(&self, timeout: Duration) -> Result<bool, Error> {
        self.wait_until(timeout, |link| link.is_idle())
    }

    fn wait_until(
        &self,
        timeout: Duration,
        is_so: impl Fn(&glassline_transport::link::Link) -> bool,
    ) -> Result<bool, Error> {
        let until = self.now() + timeout;
        let mut state = self.lock();
        loop {
            let link = state.link(self.0.id)?;
            if is_so(link) {
                return Ok(true);
            }
            if link.is_over() {
                return Err(Error::Closed);
            }
            if until <= self.now() {
                return Ok(false);
            }
            state = self.wait_for_room(state, until);
        }
    }

    /// Why the link ended last; `None` while it is up or was never. A link that we connected may be on its way up again.
    pub fn close_reason(&self) -> Option<CloseReason> {
        self.lock().peer(self.0.id).closed.clone()
    }

    /// Whether it has ended for good. What came may still be taken.
    pub fn has_ended(&self) -> bool {
        !self.lock().link(self.0.id).is_ok_and(|link| !link.is_over())
    }

    /// Ends the link: the peer is told, nothing more is sent. `reason` is for people.
    pub fn close(&self, reason: &str) {
        self.close_with(CloseCode::Done, reason);
    }

    /// As [`Link::close`], with another code: [`CloseCode::Failed`] tells the peer that what it got may not be all.
    pub fn close_with(&self, code: CloseCode, reason: &str) {
        let mut state = self.lock();
        let now = self.now();
        if let Ok(link) = state.link(self.0.id) {
            link.close_with(now, code, reason);
        }
        self.0.shared.hand_over(state);
    }

    /// Where the peer is, once the link is up.
    pub fn remote_address(&self) -> Option<SocketAddr> {
        let mut state = self.lock();
        let path = state.link(self.0.id).ok()?.path()?;
        Some(SocketAddr::new(path.remote.ip().to_canonical(), path.remote.port()))
    }

    /// The peer's name, once the link is up.
    pub fn peer_name(&self) -> Option<Vec<u8>> {
        self.lock().link(self.0.id).ok()?.peer_name().map(<[u8]>::to_vec)
    }

    /// Whether the peer takes messages with stamps ([`Options::stamped`]), once the link is up. To one that does not they go
    /// without.
    pub fn takes_stamps(&self) -> Option<bool> {
        self.lock().link(self.0.id).ok()?.takes_stamps()
    }

    /// Whether both ends hold the same dictionary, once the link is up; `None` too where neither has one.
    pub fn shares_dictionary(&self) -> Option<bool> {
        self.lock().link(self.0.id).ok()?.shares_dictionary()
    }

    /// Counts and measures.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn statistics(&self) -> Result<LinkStatistics, Error> {
        Ok(self.lock().link(self.0.id)?.statistics())
    }

    /// What is known of each of its paths, the one that it was connected over first.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn paths(&self) -> Result<Vec<PathStatistics>, Error> {
        Ok(self.lock().link(self.0.id)?.paths().collect())
    }

    /// Counts of `channel`; zeros where nothing was sent or came.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn channel_statistics(&self, channel: u8) -> Result<ChannelStatistics, Error> {
        let mut state = self.lock();
        let link = state.link(self.0.id)?;
        let (sent, received) = (link.send_counters(channel), link.receive_counters(channel));
        Ok(ChannelStatistics {
            channel,
            sent: sent.unwrap_or_default(),
            received: received.unwrap_or_default(),
        })
    }

    /// Bytes of messages that wait or are not acknowledged.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn queued_bytes(&self) -> Result<usize, Error> {
        Ok(self.lock().link(self.0.id)?.held_bytes().0)
    }

    /// Messages that wait on a channel and have not begun to leave.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn waiting(&self, channel: u8) -> Result<usize, Error> {
        Ok(self.lock().link(self.0.id)?.waiting(channel))
    }

    /// How many bytes a message on `channel` may have, handed over now, to leave within `delay` as far as is known: the budget
    /// of a frame. What waits on channels that go first is taken off, and the message's own parity.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn budget(&self, channel: u8, delay: Duration) -> Result<u64, Error> {
        let now = self.now();
        Ok(self.lock().link(self.0.id)?.budget(now, channel, delay))
    }

    /// Whether each message leaves by several paths.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn is_shared(&self) -> Result<bool, Error> {
        Ok(self.lock().link(self.0.id)?.is_shared())
    }

    /// What [`Link::budget`] will be `after` so long, where nothing is sent until then.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn budget_ahead(&self, after: Duration, channel: u8, delay: Duration) -> Result<u64, Error> {
        let now = self.now();
        Ok(self.lock().link(self.0.id)?.budget_ahead(now, after, channel, delay))
    }

    /// How long nothing that was sent has been answered, beyond the time that answers take; zero while they come.
    ///
    /// # Errors
    /// [`Error::Closed`] if the link has gone.
    pub fn silence(&self) -> Result<Duration, Error> {
        let now = self.now();
        Ok(self.lock().link(self.0.id)?.silence(now))
    }
}

#[cfg(test)]
#[path = "handle_tests.rs"]
mod tests;
