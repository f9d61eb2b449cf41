//! One peer: its channels, and the session that carries them.
//!
//! `inbound` handles datagrams, `outbound` writes them, `bulk` writes batches of them, `alone` writes those without
//! messages, `timers` has the timeouts, `channels` is what all paths have in common, `session` is the state of one path, `marking` validates ECN,
//! `mtu` searches the largest datagram, `paths` handles a link over two paths, `room` counts the memory of what came.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod alone;
mod bulk;
mod channels;
mod demand;
mod inbound;
mod marking;
mod mtu;
mod outbound;
mod paths;
mod room;
pub(crate) mod session;
mod statistics;
mod timers;

use crate::counter::count;
use bytes::Bytes;
use glassline_media::Time;
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use super::channel::fec;
use super::channel::receive::ReceiveCounters;
use super::channel::send::{Announced, SendCounters, Sender};
use super::content::Content;
use super::wire::packet::{ConnectionId, DATA_OVERHEAD};
use super::{CloseCode, CloseReason, Ecn, Error, Event, MessageId, Options, Path, Settings};
use crate::capacity::{Controller, Mode};
use channels::Channels;
use demand::Demand;
pub use paths::PathStatistics;
use session::{Agreed, Session};
pub use statistics::LinkStatistics;

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The handshake is under way; messages wait.
    Connecting,
    /// Messages pass.
    Up,
    /// The peer that connected does not answer; its link's state is kept for its return.
    Suspended {
        /// Until when.
        until: Time,
    },
    /// CLOSE was sent; until then it is sent again in answer to what comes (RFC 9000 §10.2.1).
    Closing {
        /// When it is over.
        until: Time,
    },
    /// It is over.
    Closed,
}

/// A link to one peer. Made by [`super::Endpoint::connect`] or by a peer's connect; reached by
/// [`super::Endpoint::link_mut`].
pub struct Link {
    settings: Settings,
    pub(crate) standing: Standing,
    channels: Channels,
    /// None before the handshake, then one, or two where the link has a second path: see `paths`.
    paths: Vec<Session>,
    /// The index of the path that is preferred for messages.
    preferred: usize,
    /// Where only one of two paths carries messages: whether it is the second.
    on_second: bool,
    /// Parts sent on both paths that were lost on one of them: channel, message, offset; and length.
    half_lost: BTreeMap<(u8, u64, u32), u32>,
    /// How many parts were lost on one path since `half_lost` was last cleared of what does not matter any more.
    half_lost_since: usize,
    /// The link's instances, while there is no session and its state is kept for the next one.
    kept: Option<[u64; 2]>,
    /// We connect it, and not the peer.
    pub(crate) is_ours: bool,
    /// When the peer was last asked whether it is there, for the sake of another one of its name.
    challenged_at: Option<Time>,
    /// IDs of paths that are gone.
    dropped: Vec<ConnectionId>,
    pub(crate) events: VecDeque<Event>,
    close: Option<(u64, Vec<u8>)>,
    /// Either end has closed it.
    unwanted: bool,
    /// A message that came does not decompress: the link ends at the next occasion.
    damaged: bool,
    /// The application has dropped the link: what came will not be taken.
    pub(crate) forgotten: bool,
    statistics: LinkStatistics,
    /// Whether the application sends what it is offered.
    demand: Demand,
    scratch: Vec<Content>,
}

/// The whole part of a number that was reckoned: zero of one that is negative or none, the largest of one too large.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a cast of a float saturates")]
fn rounded_down(number: f64) -> u64 {
    number as u64
}

/// The time in nanoseconds.
fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("standing", &self.standing)
            .field("statistics", &self.statistics)
            .finish()
    }
}

impl Link {
    pub(crate) fn new(settings: Settings) -> Link {
        Link {
            channels: Channels::new(&settings),
            settings,
            standing: Standing::Connecting,
            paths: Vec::new(),
            preferred: 0,
            on_second: false,
            half_lost: BTreeMap::new(),
            half_lost_since: 0,
            kept: None,
            is_ours: false,
            challenged_at: None,
            dropped: Vec::new(),
            events: VecDeque::new(),
            close: None,
            unwanted: false,
            damaged: false,
            forgotten: false,
            statistics: LinkStatistics::default(),
            demand: Demand::default(),
            scratch: Vec::new(),
        }
    }

    /// Opens channel `id` for sending, and says how we want to receive on it.
    ///
    /// # Errors
    /// Options that make no sense. A channel that is open is opened anew only where nothing was sent on it.
    pub fn open(&mut self, id: u8, options: Options) -> Result<(), Error> {
        options.check(id)?;
        let index = usize::from(id);
        if self.channels.senders.len() <= index {
            self.channels.senders.resize_with(index.saturating_add(1), || None);
        }
        if self.channels.senders[index].as_ref().is_some_and(|sender| sender.counters.messages > 0) {
            return Err(Error::Options { channel: id, what: "it is in use" });
        }
        self.channels.senders[index] = Some(Box::new(Sender::new(id, options)));
        self.channels.own[index] = Some(options);
        if let Some(receiver) = self.channels.receivers.get_mut(index).and_then(Option::as_mut) {
            receiver.own_receive_time = options.max_receive_time;
        }
        self.channels.order.retain(|other| *other != id);
        let senders = &self.channels.senders;
        let priority =
            |id: &u8| senders[usize::from(*id)].as_ref().map_or(u8::MAX, |sender| sender.options.priority);
        let at =
            self.channels.order.partition_point(|other| (priority(other), *other) < (options.priority, id));
        self.channels.order.insert(at, id);
        Ok(())
    }

    /// Queues a message on a channel that is open here. It may be sent while the link is still connecting.
    ///
    /// # Errors
    /// The channel is not open, its queue is full, the message is too large, or the link is closed.
    /// Cost: none for the bytes, which are shared and not copied until they are sealed.
    pub fn send(&mut self, now: Time, channel: u8, message: impl Into<Bytes>) -> Result<MessageId, Error> {
        if self.is_over() {
            return Err(Error::Closed);
        }
        let index = usize::from(channel);
        let Some(sender) = self.channels.senders.get(index).and_then(Option::as_ref) else {
            return Err(Error::NotOpen { channel });
        };
        if sender.is_idle() {
            // A channel that was idle gains no credit: it starts at the least share among the active ones of its priority.
            let priority = sender.options.priority;
            let others = self.channels.senders.iter().flatten();
            let active = others.filter(|other| other.options.priority == priority && !other.is_idle());
            let least = active.map(|other| other.share).min();
            if let (Some(sender), Some(least)) = (&mut self.channels.senders[index], least) {
                sender.share = sender.share.max(least);
            }
        }
        let message = message.into();
        self.demand.handle_message(now, channel, message.len());
        match &mut self.channels.senders[index] {
            Some(sender) => sender.push(now, message, &mut self.events),
            None => Err(Error::NotOpen { channel }),
        }
    }

    /// Whether [`Link::send`] would not be refused for a full queue.
    pub fn has_room(&self, channel: u8, bytes: usize) -> bool {
        let sender = self.channels.sender(channel);
        sender.is_none_or(|sender| sender.has_room(bytes))
    }

    /// What has happened, oldest first.
    pub fn poll_event(&mut self) -> Option<Event> {
        if self.events.is_empty() {
            self.tell_passed_over();
        }
        self.events.pop_front()
    }

    /// Makes events of messages that were passed over. Only when they are asked for, so that a peer that gives up very many
    /// makes none of them wait.
    pub(crate) fn tell_passed_over(&mut self) {
        if self.channels.passed_over != 0 {
            self.channels.tell_passed_over(&mut self.events);
        }
    }

    /// Ends the link: the peer is told, nothing more is sent or taken. `reason` is for people.
    pub fn close(&mut self, now: Time, reason: &str) {
        self.close_with(now, CloseCode::Done, reason);
    }

    /// As [`Link::close`], with another code: [`CloseCode::Failed`] tells the peer that what it got may not be all.
    pub fn close_with(&mut self, now: Time, code: CloseCode, reason: &str) {
        self.end(now, code, reason, CloseReason::Local);
    }

    fn end(&mut self, now: Time, code: CloseCode, words: &str, reason: CloseReason) {
        if matches!(self.standing, Standing::Closing { .. } | Standing::Closed) {
            return;
        }
        self.events.push_back(Event::Closed { reason });
        self.unwanted = true;
        self.stop_receivers();
        let Some(session) = self.main() else {
            self.standing = Standing::Closed;
            return;
        };
        self.standing = Standing::Closing { until: now + session.recovery.probe_time().saturating_mul(3) };
        self.close = Some((code as u64, words.as_bytes().to_vec()));
        self.close_all();
    }

    /// The peer has broken the rules.
    fn violated(&mut self, now: Time, what: &'static str) {
        self.end(now, CloseCode::Violation, what, CloseReason::Violation(what));
    }

    /// Whether messages pass.
    pub fn is_up(&self) -> bool {
        self.standing == Standing::Up
    }

    /// Whether it ends or has ended: nothing more is sent or comes. What has come may still be taken.
    pub fn is_over(&self) -> bool {
        matches!(self.standing, Standing::Closing { .. } | Standing::Closed)
    }

    /// Whether it has ended, and the peer needs no further word of that.
    pub fn has_ended(&self) -> bool {
        self.standing == Standing::Closed
    }

    /// Whether all that was sent has ended: delivered, cancelled or lost.
    pub fn is_idle(&self) -> bool {
        self.channels.senders.iter().flatten().all(|sender| sender.is_idle() && sender.cancels.is_empty())
    }

    /// What datagrams to the peer have to be marked with: [`super::Settings::ecn`], or nothing where the path swallows
    /// them.
    pub fn ecn(&self) -> Ecn {
        self.main().map_or(Ecn::NotCapable, |session| session.marking.mark())
    }

    /// Where the peer is, once the link is up.
    pub fn path(&self) -> Option<Path> {
        self.main().map(|session| session.path)
    }

    /// The peer's name, once the link is up.
    pub fn peer_name(&self) -> Option<&[u8]> {
        self.main().map(|session| &session.peer.name[..])
    }

    /// Whether both ends hold the same [`super::Dictionary`], once the link is up; `None` too where neither has one.
    pub fn shares_dictionary(&self) -> Option<bool> {
        let session = self.main()?;
        let shared = session.dictionary.is_some();
        (shared || self.settings.dictionary.is_some() || session.peer.dictionary.is_some()).then_some(shared)
    }

    /// Goes on over another path to the same peer, at once: our own address has changed, or another socket is better.
    /// Of two paths it is the one that carries messages which goes elsewhere.
    pub fn migrate(&mut self, now: Time, path: Path) {
        if let Some(session) = self.paths.get_mut(self.preferred)
            && session.path != path
        {
            session.path = path;
            session.handle_new_path(now);
            session.probe = true;
        }
    }

    /// Counts of what was sent on `channel`.
    pub fn send_counters(&self, channel: u8) -> Option<SendCounters> {
        self.channels.sender(channel).map(|sender| sender.counters)
    }

    /// Counts of what came on `channel`.
    pub fn receive_counters(&self, channel: u8) -> Option<ReceiveCounters> {
        self.channels.receiver(channel).map(|receiver| receiver.counters)
    }

    /// Bytes of messages that wait or are not acknowledged, on all channels; and what is held of those that came and were
    /// not taken: their bytes as far as they came, and what each message and each part takes beside them.
    pub fn held_bytes(&self) -> (usize, u64) {
        let sending = self.channels.senders.iter().flatten().map(|sender| sender.held_bytes()).sum();
        let received = self.channels.receivers.iter().flatten().map(|receiver| receiver.held_bytes()).sum();
        (sending, received)
    }

    /// Bytes of memory kept on all channels for messages to come, because there were such not long ago: a second after the
    /// last of them it is none. On each channel these are at most two buffers of large messages (256 KiB or more), no more
    /// than what is held there leaves of two windows, and 1 MiB of blocks in which small messages stand that come in quick
    /// succession (more than 16 KiB in 100 ms).
    pub fn spare_bytes(&self) -> u64 {
        self.channels.receivers.iter().flatten().map(|receiver| receiver.spare_bytes()).sum()
    }

    /// Packets that are remembered because they may still be acknowledged.
    pub fn remembered_packets(&self) -> usize {
        self.main().map_or(0, |session| session.recovery.remembered())
    }

    /// How many bytes a message on `channel` may have, handed over now, to leave within `delay` as far as is known
    /// ([`Capacity::room`](crate::capacity::Capacity::room)): less what waits on channels that go first, and what waits on this
    /// one; of what channels of the same priority wait with, its share by weight is left. It falls with [`Link::silence`]: what
    /// was known of a path that does not answer grows old. Its parity is taken off. 0 where the channel is not open, or the link not up.
    pub fn budget(&mut self, now: Time, channel: u8, delay: Duration) -> u64 {
        if let Some(session) = self.paths.get_mut(self.preferred) {
            session.capacity.begin_fast();
        }
        let size = self.message_room(now, channel, delay);
        if let Some(session) = self.main() {
            let packet = session.datagram;
            self.demand.handle_offer(now, channel, size, packet);
        }
        size
    }

    fn message_room(&self, now: Time, channel: u8, delay: Duration) -> u64 {
        let (Some(session), Some(own)) = (self.main(), self.channels.sender(channel)) else { return 0 };
        let in_flight = session.recovery.in_flight();
        let room = session.capacity.room(now, delay, in_flight) * self.freshness(session, now);
        let (lossy, whole) = (now < session.lossy_until, session.datagram.saturating_sub(DATA_OVERHEAD));
        let (mut first, mut equal, mut weights) = (0.0, 0.0, f64::from(own.options.weight));
        for other in self.channels.senders.iter().flatten() {
            let goes_first = other.options.priority < own.options.priority;
            if std::ptr::eq(&raw const **other, own) || other.options.priority > own.options.priority {
                continue;
            }
            let unsent = other.unsent_bytes(lossy, whole, false) as f64;
            if goes_first {
                first += unsent;
            } else if unsent > 0.0 {
                equal += unsent;
                weights += f64::from(other.options.weight);
            }
        }
        let left = (room - first).max(0.0);
        let left = (left - equal).max(left * f64::from(own.options.weight) / weights);
        let left = rounded_down(left - own.unsent_bytes(lossy, whole, true) as f64);
        let percent = own.options.fec.percent(lossy);
        let with_parity = 100u64.saturating_add(percent.into());
        let mut size = left.saturating_mul(100).checked_div(with_parity).unwrap_or(0);
        // Parity comes in whole pieces.
        loop {
            let parity = fec::parity_bytes(u32::try_from(size).unwrap_or(u32::MAX), percent, whole);
            match size.saturating_add(parity).checked_sub(left) {
                Some(over @ 1..) => size = size.saturating_sub(over),
                _ => return size,
            }
        }
    }

    /// Messages that wait on a channel and have not begun to leave: one more would replace them where the channel is of
    /// [`newest`](crate::link::Options::newest) messages. 0 where it is not open.
    pub fn waiting(&self, channel: u8) -> usize {
        self.channels.sender(channel).map_or(0, |sender| sender.waiting())
    }

    /// How long nothing that was sent has been answered, on the path that is preferred, beyond the time that answers take there;
    /// zero where answers come, or nothing is under way.
    pub fn silence(&self, now: Time) -> Duration {
        self.main().map_or(Duration::ZERO, |session| {
            let since = session.unanswered_since.map_or(Duration::ZERO, |since| now.since(since));
            since.saturating_sub(session.recovery.probe_time())
        })
    }

    /// What is left of an estimate, 1 to 0: of one that is as old again as answers take, a half.
    fn freshness(&self, session: &Session, now: Time) -> f64 {
        if matches!(session.capacity.controller(), Controller::Fixed(_)) {
            return 1.0;
        }
        let (usual, silence) = (session.recovery.probe_time(), self.silence(now));
        usual.as_secs_f64() / usual.saturating_add(silence).as_secs_f64().max(1e-9)
    }

    /// Counts and measures.
    pub fn statistics(&self) -> LinkStatistics {
        let mut statistics = self.statistics;
        if let Some(session) = self.main() {
            let (rtt, capacity) = (&session.recovery.rtt, &session.capacity);
            statistics.rtt = rtt.smoothed;
            statistics.least_rtt = rtt.least.min(rtt.smoothed);
            statistics.queue_delay = capacity.queue_delay();
            statistics.bandwidth = capacity.bandwidth();
            statistics.pacing_rate = capacity.pacing_rate();
            statistics.window_bytes = capacity.window_bytes();
            statistics.in_flight_bytes = session.recovery.in_flight();
            statistics.datagram_bytes = session.mtu.size();
            statistics.loss = session.loss;
            statistics.congested_packets = session.marking.congested();
            statistics.mark = session.marking.mark();
            statistics.competitive = capacity.mode() == Mode::Competitive;
            statistics.arrival_per_kilobyte =
                (session.peer_arrival_ns > 0).then(|| Duration::from_nanos(session.peer_arrival_ns));
        }
        statistics
    }

    /// The link's sessions, one for each path.
    pub(crate) fn sessions(&self) -> impl Iterator<Item = &Session> {
        self.paths.iter()
    }

    /// A handshake is done: the link is up, or up again with a peer that has forgotten everything.
    pub(crate) fn establish(&mut self, now: Time, agreed: Agreed) {
        let session = Session::new(now, agreed, &self.settings);
        self.resume(now, session);
    }

    /// As [`Link::establish`], with a session that stood ready.
    pub(crate) fn resume(&mut self, now: Time, mut session: Session) {
        let again = self.statistics.sessions > 0;
        self.forget_session();
        session.last_received = now;
        self.close = None;
        (self.preferred, self.on_second) = (0, session.second);
        self.paths = vec![session];
        count(&mut self.statistics.sessions, 1);
        self.standing = Standing::Up;
        self.events.push_back(Event::Connected { again });
    }

    /// The peer is silent, or does not know the session any more: what is under way is given up, and all else is kept for
    /// the next session. `false`: nothing can be kept, and the link is to end.
    pub(crate) fn suspend(&mut self, now: Time, reason: CloseReason) -> bool {
        let goes_on = !self.settings.resume.is_zero() && self.is_wanted();
        let Some(instance) = self.instance().filter(|_| goes_on) else { return false };
        if self.is_ours && !self.settings.reconnect {
            return false;
        }
        while !self.paths.is_empty() {
            self.remove_path(now, 0);
        }
        self.release_half_lost();
        self.half_lost.clear();
        self.kept = Some(instance);
        self.standing = match self.is_ours {
            true => Standing::Connecting,
            false => Standing::Suspended { until: now + self.settings.resume },
        };
        self.events.push_back(Event::Suspended { reason });
        true
    }

    /// Asks the peer for a sign, unless it has been asked. Returns whether it answers: `false` once it has been silent for `patience`.
    pub(crate) fn challenge(&mut self, now: Time, patience: Duration) -> bool {
        let Some(heard) = self.paths.iter().map(|session| session.last_received).max() else { return false };
        match self.challenged_at.filter(|at| *at >= heard) {
            Some(at) => at + patience > now,
            None => {
                self.challenged_at = Some(now);
                self.knock();
                true
            }
        }
    }

    /// The boot that the peer's machine has named.
    pub(crate) fn peer_boot(&self) -> Option<u64> {
        self.main().and_then(|session| session.peer.boot)
    }

    /// Takes the sessions out, for a farewell on them. The link is to get another one.
    pub(crate) fn take_sessions(&mut self) -> Vec<Session> {
        self.preferred = 0;
        std::mem::take(&mut self.paths)
    }

    /// Whether the link's state waits for a session of the same instances.
    pub(crate) fn is_kept(&self) -> bool {
        self.kept.is_some()
    }

    /// A handshake with a peer that has kept its state as we have ours is done.
    pub(crate) fn go_on(&mut self, now: Time, mut session: Session) {
        session.last_received = now;
        session.well_since = now;
        (self.preferred, self.on_second, self.kept) = (0, session.second, None);
        self.paths = vec![session];
        count(&mut self.statistics.sessions, 1);
        self.standing = Standing::Up;
        self.events.push_back(Event::Resumed);
    }

    /// As [`Link::go_on`], for the end that connected.
    pub(crate) fn go_on_agreed(&mut self, now: Time, agreed: Agreed) {
        let session = Session::new(now, agreed, &self.settings);
        self.go_on(now, session);
    }

    /// Has a packet leave that asks for an answer.
    pub(crate) fn knock(&mut self) {
        if let Some(session) = self.paths.get_mut(self.preferred) {
            session.probe = true;
        }
    }

    /// Whether the application has not ended the link itself.
    pub(crate) fn is_wanted(&self) -> bool {
        self.close.is_none() && !self.unwanted
    }

    /// Nothing is sent or comes any more.
    pub(crate) fn drop_sessions(&mut self) {
        self.stop_receivers();
        self.dropped.extend(self.paths.drain(..).map(|session| session.local));
        self.preferred = 0;
    }

    /// The session is lost. What waited still waits, what had begun is lost.
    pub(crate) fn forget_session(&mut self) {
        self.drop_sessions();
        self.kept = None;
        self.half_lost.clear();
        for sender in self.channels.senders.iter_mut().flatten() {
            sender.restart(&mut self.events);
        }
        self.keep_leftovers();
    }

    /// Whether a channel's options are known to the peer; they are told with its data until then.
    fn is_announced(sender: &Sender) -> bool {
        sender.announced == Announced::Yes
    }
}
