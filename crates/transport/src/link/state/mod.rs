//! One peer: its channels, and the paths that carry them.
//!
//! * One path has a `path` state: `marking` validates its ECN, `mtu` searches its largest datagram, `pacing` says when a packet
//!   may leave, `feedback` takes what acknowledgements tell, `single` writes datagrams without messages. `paths` holds one to four
//!   of them, `sum` shares messages out among them, `trial` says when an unknown one is used, `half_lost` is what one of two has lost,
//!   `parity` says which carries the parity of reliable messages, `crowd` whether copies take its place.
//! * `channels` are what all paths have in common: `windows` says how much a peer may send, `room` counts the memory of
//!   what came, `outgoing` chooses which channel writes next and what it may.
//! * [`Link`] leads from one to the other: `inbound` handles datagrams, `outbound` writes them, `bulk` writes batches of them,
//!   `timers` has the timeouts, `lifetime` is how a link comes up, is suspended and ends.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

mod bulk;
mod channels;
mod crowd;
mod demand;
mod feedback;
mod half_lost;
mod inbound;
mod lifetime;
mod marking;
mod mtu;
mod outbound;
mod outgoing;
mod pacing;
mod parity;
pub(crate) mod path;
mod paths;
mod room;
mod single;
mod statistics;
mod sum;
mod timers;
mod trial;
mod windows;

use bytes::Bytes;
use glassline_media::{Time, Utc};
use std::collections::VecDeque;
use std::time::Duration;

use super::channel::receive::{ReceiveCounters, Received};
use super::channel::send::SendCounters;
use super::content::Content;
use super::{CloseCode, CloseReason, Ecn, Error, Event, MessageId, Options, Path, Settings};
use crate::capacity::Mode;
use channels::Channels;
use demand::Demand;
use half_lost::HalfLost;
use paths::Paths;
pub use statistics::{LinkStatistics, PathStatistics};

/// The state of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The handshake is under way; messages wait.
    Connecting,
    /// Messages pass, or would if the peer were not [away](Link::is_away).
    Up,
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
    paths: Paths,
    half_lost: HalfLost,
    /// The link's instances, while there is no path and its state is kept for the next handshake.
    kept: Option<[u64; 2]>,
    /// The peer has been silent for [`Settings::idle`]. Until then the paths stay as they are: whichever packet of the peer
    /// comes first, an old path's or a handshake's, has the link go on.
    away_until: Option<Time>,
    /// We connect it, and not the peer.
    pub(crate) is_ours: bool,
    /// When the peer was last asked whether it is there, for the sake of another one of its name.
    challenged_at: Option<Time>,
    pub(crate) events: VecDeque<Event>,
    close: Option<(u64, Vec<u8>)>,
    /// Either end has closed it.
    unwanted: bool,
    /// A message that came does not decompress, or its stamp is cut off: the link ends at the next occasion.
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
            paths: Paths::default(),
            half_lost: HalfLost::default(),
            kept: None,
            away_until: None,
            is_ours: false,
            challenged_at: None,
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
        self.channels.open(id, options.with_room_for_stamps())
    }

    /// Queues a message on a channel that is open here. It may be sent while the link is still connecting.
    ///
    /// # Errors
    /// The channel is not open, its queue is full, the message is too large, or the link is closed.
    /// Cost: none for the bytes, which are shared and not copied until they are sealed.
    pub fn send(&mut self, now: Time, channel: u8, message: impl Into<Bytes>) -> Result<MessageId, Error> {
        self.send_as(now, channel, message.into(), None, false)
    }

    /// As [`Link::send`], with a time for the other end, such as that at which what the message says was so or was read. It stays
    /// the same however long the message waits. On a channel that is not [`Options::stamped`] it is left out. Whole
    /// microseconds are kept. Cost: a copy of the bytes.
    ///
    /// # Errors
    /// As those of [`Link::send`].
    pub fn send_stamped(
        &mut self,
        now: Time,
        channel: u8,
        message: impl Into<Bytes>,
        stamp: Utc,
    ) -> Result<MessageId, Error> {
        self.send_as(now, channel, message.into(), Some(stamp), false)
    }

    /// As [`Link::send`], for a message on which much depends: under [`Bonding::Sum`](super::Bonding::Sum) each of its parts goes over a second path
    /// too, behind what waits there.
    ///
    /// # Errors
    /// As those of [`Link::send`].
    pub fn send_twice(
        &mut self,
        now: Time,
        channel: u8,
        message: impl Into<Bytes>,
    ) -> Result<MessageId, Error> {
        self.send_as(now, channel, message.into(), None, true)
    }

    fn send_as(
        &mut self,
        now: Time,
        channel: u8,
        message: Bytes,
        stamp: Option<Utc>,
        twice: bool,
    ) -> Result<MessageId, Error> {
        if self.is_over() {
            return Err(Error::Closed);
        }
        if self.channels.sender(channel).is_none() {
            return Err(Error::NotOpen { channel });
        }
        self.demand.handle_message(now, channel, message.len());
        self.channels.push(now, channel, message, stamp, twice, &mut self.events)
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

    /// Whether messages pass.
    pub fn is_up(&self) -> bool {
        self.is_established() && !self.is_away()
    }

    /// Whether it has paths, on which the peer may be [away](Link::is_away).
    pub(crate) fn is_established(&self) -> bool {
        self.standing == Standing::Up
    }

    /// Whether the peer is silent, and what was agreed on with it stays as it is for its return.
    pub(crate) fn is_away(&self) -> bool {
        self.away_until.is_some()
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
        self.channels.are_idle()
    }

    /// What datagrams to the peer have to be marked with: [`super::Settings::ecn`], or nothing where the path swallows
    /// them.
    pub fn ecn(&self) -> Ecn {
        self.paths.main().map_or(Ecn::NotCapable, |path| path.marking.mark())
    }

    /// Where the peer is, once the link is up.
    pub fn path(&self) -> Option<Path> {
        self.paths.main().map(|path| path.address)
    }

    /// The peer's name, once the link is up.
    pub fn peer_name(&self) -> Option<&[u8]> {
        self.paths.main().map(|path| &path.peer.name[..])
    }

    /// Whether both ends hold the same [`super::Dictionary`], once the link is up; `None` too where neither has one.
    pub fn shares_dictionary(&self) -> Option<bool> {
        let path = self.paths.main()?;
        let shared = path.dictionary.is_some();
        (shared || self.settings.dictionary.is_some() || path.peer.dictionary.is_some()).then_some(shared)
    }

    /// Whether the peer takes messages with stamps ([`Options::stamped`]), once the link is up.
    pub fn takes_stamps(&self) -> Option<bool> {
        self.paths.main().map(|path| path.peer.stamps)
    }

    /// Whether the peer takes parity on reliable channels ([`Options::fec`]), once the link is up.
    pub fn takes_parity(&self) -> Option<bool> {
        self.paths.main().map(|path| path.peer.parity)
    }

    /// As if the peer were of a version that takes no parity on reliable channels.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn forget_parity_of_peer(&mut self) {
        for on in 0..self.paths.count() {
            self.paths[on].peer.parity = false;
        }
    }

    /// As if the peer were of a version that knows of no stamps.
    #[cfg(feature = "fuzzing")]
    pub(crate) fn forget_stamps_of_peer(&mut self) {
        for on in 0..self.paths.count() {
            self.paths[on].peer.stamps = false;
        }
    }

    /// Goes on over another path to the same peer, at once: our own address has changed, or another socket is better.
    /// Of two paths it is the one that carries messages which goes elsewhere.
    pub fn migrate(&mut self, now: Time, path: Path) {
        if let Some(main) = self.paths.main_mut()
            && main.address != path
        {
            main.address = path;
            main.handle_new_path(now);
            main.probe = true;
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
        (sending, self.channels.held_bytes())
    }

    /// Bytes of memory kept on all channels for messages to come, because there were such not long ago: a second after the
    /// last of them it is none. On each channel these are at most two buffers of large messages (256 KiB or more), no more
    /// than what is held there leaves of two windows, and 1 MiB of blocks in which small messages stand that come in quick
    /// succession (more than 16 KiB in 100 ms).
    pub fn spare_bytes(&self) -> u64 {
        self.channels.spare_bytes()
    }

    /// Packets that are remembered because they may still be acknowledged.
    pub fn remembered_packets(&self) -> usize {
        self.paths.main().map_or(0, |path| path.recovery.remembered())
    }

    /// How many bytes a message on `channel` may have, handed over now, to leave within `delay` as far as is known
    /// ([`Capacity::room`](crate::capacity::Capacity::room)): less what waits on channels that go first, and what waits on this
    /// one; of what channels of the same priority wait with, its share by weight is left. It falls with [`Link::silence`]: what
    /// was known of a path that does not answer grows old. Its parity is taken off. 0 where the channel is not open, or the link not up.
    pub fn budget(&mut self, now: Time, channel: u8, delay: Duration) -> u64 {
        self.paths.begin_fast();
        self.paths.try_unused(now, delay);
        let Some(room) = self.paths.room(now, delay) else { return 0 };
        let size = self.channels.message_budget(room, channel);
        self.demand.handle_offer(now, channel, size, room.datagram);
        size
    }

    /// Whether each message leaves by several paths: then one that waits for a quick path keeps that busy.
    pub fn is_shared(&self) -> bool {
        self.paths.are_summed()
    }

    /// What [`Link::budget`] will be `after` so long, where nothing is sent until then: what is under way leaves meanwhile. For
    /// an application that makes a message in that time. Where several paths share messages it is the budget now.
    pub fn budget_ahead(&self, now: Time, after: Duration, channel: u8, delay: Duration) -> u64 {
        let after = if self.paths.are_summed() { Duration::ZERO } else { after };
        self.paths.room(now + after, delay).map_or(0, |room| self.channels.message_budget(room, channel))
    }

    /// Messages that wait on a channel and have not begun to leave: one more would replace them where the channel is of
    /// [`newest`](crate::link::Options::newest) messages. 0 where it is not open.
    pub fn waiting(&self, channel: u8) -> usize {
        self.channels.sender(channel).map_or(0, |sender| sender.waiting())
    }

    /// How long nothing that was sent has been answered, on the path that is preferred, or under [`Bonding::Sum`](super::Bonding::Sum) on any, beyond the
    /// time that answers take there; zero where answers come, or nothing is under way.
    pub fn silence(&self, now: Time) -> Duration {
        self.paths.silence(now)
    }

    /// Counts and measures.
    pub fn statistics(&self) -> LinkStatistics {
        let mut statistics = self.statistics;
        if let Some(path) = self.paths.main() {
            let (rtt, capacity) = (&path.recovery.rtt, &path.capacity);
            statistics.rtt = rtt.smoothed;
            statistics.least_rtt = rtt.least.min(rtt.smoothed);
            statistics.queue_delay = capacity.queue_delay();
            statistics.bandwidth = capacity.bandwidth();
            statistics.pacing_rate = capacity.pacing_rate();
            statistics.window_bytes = capacity.window_bytes();
            statistics.in_flight_bytes = path.recovery.in_flight();
            statistics.datagram_bytes = path.mtu.size();
            statistics.loss = path.loss;
            statistics.congested_packets = path.marking.congested();
            statistics.mark = path.marking.mark();
            statistics.competitive = capacity.mode() == Mode::Competitive;
            self.paths.add_up(&mut statistics);
            statistics.arrival_per_kilobyte =
                (path.peer_arrival_ns > 0).then(|| Duration::from_nanos(path.peer_arrival_ns));
        }
        statistics
    }

    /// Measures of the link's paths, the one that goes first in front.
    pub fn paths(&self) -> impl Iterator<Item = PathStatistics> {
        self.paths.statistics()
    }

    /// What the link takes of the endpoint's budget: all that came and was not taken, and what is kept for messages to come.
    pub(crate) fn memory(&self) -> u64 {
        self.channels.memory
    }

    /// Keeps nothing for messages to come.
    pub(crate) fn forget_spares(&mut self) {
        self.channels.forget_spares();
    }

    /// Whether messages came that the application has not taken.
    pub(crate) fn has_unread(&self) -> bool {
        self.channels.has_unread()
    }

    /// Takes the next message that came on `channel`. Small ones that came in quick succession share blocks of 16 KiB, each
    /// of which is there for as long as one of its messages is.
    pub fn receive(&mut self, channel: u8) -> Option<Bytes> {
        self.receive_message(channel).map(|message| message.bytes)
    }

    /// As [`Link::receive`], with the message's number and when it came, and how many before it will not come; of those
    /// [`Event::PassedOver`] tells as soon as it is known.
    pub fn receive_message(&mut self, channel: u8) -> Option<Received> {
        self.channels.receive(channel, &mut self.damaged)
    }
}
