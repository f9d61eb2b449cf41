//! One link of a session: the threads that take what comes on it, and what is measured of it.

use super::account::{Account, Gone};
use super::delays::{AgeMeter, DelayMeter, Delays};
use super::shared::{Message, Shared};
use super::{CONTROL, Continuity, Error, SessionEvent};
use crate::link::{ChannelStatistics, Channels, Link};
use bytes::Bytes;
use glassline_io::clock::Clock;
use glassline_io::containment::{Border, contain};
use glassline_media::{Utc, printable};
use glassline_transport::link::{
    CloseCode, CloseReason, Error as LinkError, Event, LinkId, LinkStatistics, Options, Outcome,
    PathStatistics, Received,
};
use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// What sessions tell each other on [`CONTROL`]: all inputs here have ended, and what they gave has arrived.
const END: &[u8] = b"end";
/// What the peer is told of a link that a fault of ours has ended.
const FAULT: &str = "an internal fault of the peer has ended the link";
/// For waits that end by events.
const LONG: Duration = Duration::from_secs(3600);

/// Figures of a peer.
#[derive(Clone, Debug)]
pub struct PeerStatistics {
    /// Names its link among those of the session.
    pub id: LinkId,
    /// The name that it gives itself, without control characters; `"?"` before it is known.
    pub name: String,
    /// Where it is, once the link was up.
    pub address: Option<SocketAddr>,
    /// Messages pass.
    pub is_connected: bool,
    /// Counts and measures of the link.
    pub link: LinkStatistics,
    /// What is known of its paths.
    pub paths: Vec<PathStatistics>,
    /// Of each of the session's channels, in the order of opening.
    pub channels: Vec<ChannelFigures>,
}

/// Figures of a channel.
#[derive(Clone, Copy, Debug)]
pub struct ChannelFigures {
    /// Counts since the link was made.
    pub counts: ChannelStatistics,
    /// Delays of the messages that were acknowledged since the figures before; `None` where there were none.
    pub delays: Option<Delays>,
    /// How long after their stamps messages of the peer were written to the output, of those since the figures before; `None`
    /// where there were none with a stamp. By both machines' wall clocks, which have to agree; 0 where the peer's is ahead.
    pub ages: Option<Delays>,
    /// The stamp of the message that was written last.
    pub last_stamp: Option<Utc>,
}

/// A link and what is known of it.
pub(super) struct Peer {
    pub(super) link: Link,
    name: Mutex<String>,
    /// The other end has no more to say.
    pub(super) end_received: AtomicBool,
    /// It knows that we have no more to say.
    pub(super) end_delivered: AtomicBool,
    /// We have said so.
    pub(super) end_sent: AtomicBool,
    pub(super) was_up: AtomicBool,
    /// [`SessionEvent::Finished`] has had its last figures.
    pub(super) is_reported: AtomicBool,
    delays: Mutex<BTreeMap<u8, DelayMeter>>,
    /// Of channels with outputs, on which stamps come.
    ages: Mutex<BTreeMap<u8, AgeMeter>>,
    /// Messages on channels without an output.
    pub(super) dropped: AtomicU64,
    /// Nothing comes from it, and its link waits for its return.
    pub(super) is_away: AtomicBool,
    /// It was away and held others up.
    pub(super) was_given_up: AtomicBool,
    accounts: Mutex<BTreeMap<u8, Account>>,
}

impl Peer {
    pub(super) fn new(link: Link) -> Peer {
        Peer {
            link,
            name: Mutex::new(String::from("?")),
            end_received: AtomicBool::new(false),
            end_delivered: AtomicBool::new(false),
            end_sent: AtomicBool::new(false),
            was_up: AtomicBool::new(false),
            is_reported: AtomicBool::new(false),
            delays: Mutex::new(BTreeMap::new()),
            ages: Mutex::default(),
            dropped: AtomicU64::new(0),
            is_away: AtomicBool::new(false),
            was_given_up: AtomicBool::new(false),
            accounts: Mutex::default(),
        }
    }

    pub(super) fn id(&self) -> LinkId {
        self.link.id()
    }

    pub(super) fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn_name(&self) {
        let name = self.link.peer_name().unwrap_or_default();
        let name = printable::line(&String::from_utf8_lossy(&name)).into_owned();
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    fn delays(&self) -> MutexGuard<'_, BTreeMap<u8, DelayMeter>> {
        self.delays.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ages(&self) -> MutexGuard<'_, BTreeMap<u8, AgeMeter>> {
        self.ages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn account<T>(&self, channel: u8, act: impl FnOnce(&mut Account) -> T) -> T {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        act(accounts.entry(channel).or_default())
    }

    /// Sends a message that was read at `stamp` and remembers when; waits while the channel's queue is full, no longer than
    /// `timeout`.
    ///
    /// # Errors
    /// The link has ended, the channel does not take such a message, or there was no room.
    pub(super) fn send(
        &self,
        channel: u8,
        message: Bytes,
        stamp: Utc,
        timeout: Duration,
    ) -> Result<(), LinkError> {
        self.delays().entry(channel).or_insert_with(DelayMeter::new).push(Clock::new().now());
        // Before its end can be told.
        self.account(channel, Account::handle_sent);
        let sent = self.link.send_stamped(channel, message, stamp, timeout);
        if sent.is_err() {
            self.account(channel, Account::handle_not_sent);
            if let Some(meter) = self.delays().get_mut(&channel) {
                meter.pop();
            }
        }
        sent.map(|_| ())
    }

    /// The first channel of which either end may lack something, now that the peer has gone so.
    pub(super) fn torn_channel(&self, shared: &Shared, gone: Gone) -> Option<u8> {
        let is = |flag: &AtomicBool| flag.load(Ordering::Relaxed);
        let (has_all, is_all) = (is(&self.end_delivered), is(&self.end_received));
        let torn = |(channel, [sends, takes]): (&u8, &[Continuity; 2])| {
            let is_torn = self.account(*channel, |account| {
                !has_all && account.is_sending_torn(*sends, gone)
                    || !is_all && account.is_receiving_torn(*takes, gone)
            });
            is_torn.then_some(*channel)
        };
        shared.continuity.iter().find_map(torn)
    }

    /// How it has gone.
    pub(super) fn gone(&self) -> Gone {
        match self.link.close_reason() {
            _ if self.was_given_up.load(Ordering::Relaxed) => Gone::Vanished,
            None | Some(CloseReason::Local) => Gone::Left,
            Some(CloseReason::Peer { code, .. }) if code == CloseCode::Done.number() => Gone::Left,
            Some(_) => Gone::Vanished,
        }
    }

    /// Figures now, of these channels; `None` where the link has gone.
    pub(super) fn statistics(&self, channels: &[(u8, Options)]) -> Option<PeerStatistics> {
        let link = self.link.statistics().ok()?;
        let figures = |channel: u8| {
            let counts = self.link.channel_statistics(channel);
            let counts = counts.unwrap_or(ChannelStatistics { channel, ..Default::default() });
            let delays = self.delays().get_mut(&channel).and_then(DelayMeter::take);
            let (ages, last_stamp) =
                self.ages().get_mut(&channel).map_or((None, None), |meter| (meter.take(), meter.last()));
            ChannelFigures { counts, delays, ages, last_stamp }
        };
        Some(PeerStatistics {
            id: self.id(),
            name: self.name(),
            address: self.link.remote_address(),
            is_connected: self.was_up.load(Ordering::Relaxed) && self.link.is_connected(),
            link,
            paths: self.link.paths().unwrap_or_default(),
            channels: channels.iter().map(|(id, _)| figures(*id)).collect(),
        })
    }
}

/// Serves a link until it has ended: a thread for what happens to it, one for each output, one for the rest.
pub(super) fn serve(shared: &Arc<Shared>, peer: &Arc<Peer>) {
    let (shared, peer) = (Arc::clone(shared), Arc::clone(peer));
    let link = Arc::clone(&peer);
    spawn(&link, move || {
        let mut rest = Channels::ALL;
        let mut writers = Vec::new();
        for index in 0..shared.services.len() {
            rest = shared.services[index].service.takes().into_iter().fold(rest, Channels::without);
            let (shared, own) = (Arc::clone(&shared), Arc::clone(&peer));
            writers.push(spawn(&peer, move || shared.services[index].serve(&shared, &own.link)));
        }
        for &channel in shared.outputs.keys() {
            rest = rest.without(channel);
            let (shared, own) = (Arc::clone(&shared), Arc::clone(&peer));
            writers.push(spawn(&peer, move || write(&shared, &own, channel)));
        }
        writers.push({
            let (shared, own) = (Arc::clone(&shared), Arc::clone(&peer));
            spawn(&peer, move || take_rest(&shared, &own, rest))
        });
        let handled = contain(Border::Link, || {
            while !peer.link.has_ended() {
                if let Some(event) = peer.link.wait_event(LONG) {
                    handle(&shared, &peer, event);
                }
            }
            peer.link.events().into_iter().for_each(|event| handle(&shared, &peer, event));
        });
        if handled.is_err() {
            peer.link.close(FAULT);
        }
        // All that came is written before it counts as over.
        for writer in writers {
            let _ = writer.join();
        }
        shared.notify(Message::Over(peer.id()));
    });
}

/// Runs something for a link on a thread of its own. Where that panics, the link ends and no other.
fn spawn(peer: &Arc<Peer>, run: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let peer = Arc::clone(peer);
    thread::spawn(move || {
        if contain(Border::Link, run).is_err() {
            peer.link.close(FAULT);
        }
    })
}

fn handle(shared: &Arc<Shared>, peer: &Arc<Peer>, event: Event) {
    shared.services.iter().for_each(|running| running.service.handle_event(&peer.link, &event));
    if let Event::Opened { channel, options } = &event {
        shared.tell_of_opened(&peer.name(), *channel, options.stamped);
    }
    match event {
        Event::Connected { again } => connected(shared, peer, again),
        Event::Finished { channel: CONTROL, outcome, .. } => {
            peer.end_delivered.store(outcome == Outcome::Delivered, Ordering::Relaxed);
            shared.notify(Message::Changed);
        }
        Event::Finished { channel, message, outcome } => {
            peer.account(channel, |account| account.handle_end(outcome));
            if let Some(meter) = peer.delays().get_mut(&channel) {
                meter.handle_end(message.0, outcome == Outcome::Delivered, Clock::new().now());
            }
        }
        Event::PathChanged { path } => {
            shared.emit(SessionEvent::PathChanged { peer: peer.name(), address: path.remote });
        }
        Event::PathTooNarrow { path } => {
            shared.emit(SessionEvent::PathTooNarrow { peer: peer.name(), address: path.remote });
        }
        Event::PathUp { path } => {
            shared.emit(SessionEvent::PathUp { peer: peer.name(), address: path.remote });
        }
        Event::PathDown { path } => {
            shared.emit(SessionEvent::PathDown { peer: peer.name(), address: path.remote });
        }
        Event::Closed { reason: CloseReason::Unreachable } => {
            shared.notify(Message::Unreachable { was_up: peer.was_up.load(Ordering::Relaxed) });
        }
        Event::Closed { reason: CloseReason::Refused } => shared.notify(Message::Refused),
        Event::Refused { retry_after } => shared.emit(SessionEvent::Refused { retry_after }),
        Event::Suspended { reason } => {
            peer.is_away.store(true, Ordering::Relaxed);
            shared.emit(SessionEvent::Silent { peer: peer.name(), reason });
        }
        Event::Resumed => {
            peer.is_away.store(false, Ordering::Relaxed);
            let address = peer.link.remote_address();
            shared.emit(SessionEvent::Resumed { peer: peer.name(), address });
        }
        Event::Closed { reason: CloseReason::Local } => {}
        Event::Closed { reason } => shared.emit(SessionEvent::Lost { peer: peer.name(), reason }),
        Event::Opened { channel, .. } if shared.takes_nothing_of(channel) => {
            shared.emit(SessionEvent::NoOutput { channel });
        }
        Event::Opened { channel, options } if options.reliable && channel != CONTROL => {
            peer.account(channel, |account| account.came = true);
        }
        _ => {}
    }
}

fn connected(shared: &Arc<Shared>, peer: &Arc<Peer>, again: bool) {
    peer.learn_name();
    peer.was_up.store(true, Ordering::Relaxed);
    peer.is_away.store(false, Ordering::Relaxed);
    if again {
        if let Some(channel) = peer.torn_channel(shared, Gone::Restarted) {
            shared.notify(Message::Torn { peer: peer.name(), channel });
        }
        let mut accounts = peer.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.values_mut().for_each(Account::begin_anew);
        drop(accounts);
        // A peer that has restarted knows nothing of what was said before.
        peer.end_received.store(false, Ordering::Relaxed);
        peer.end_delivered.store(false, Ordering::Relaxed);
        peer.is_reported.store(false, Ordering::Relaxed);
    }
    shared.emit(SessionEvent::Connected {
        peer: peer.name(),
        address: peer.link.remote_address(),
        again,
        shares_dictionary: peer.link.shares_dictionary(),
    });
    shared.tell_of_connected(&peer.name(), peer.link.takes_stamps());
    shared.notify(Message::Changed);
    if shared.inputs_ended.load(Ordering::Relaxed) {
        finish(shared, peer);
    }
}

/// Tells the peer that there will be no more, once all is delivered.
pub(super) fn finish(shared: &Arc<Shared>, peer: &Arc<Peer>) {
    let (shared, link) = (Arc::clone(shared), Arc::clone(peer));
    spawn(&link.clone(), move || {
        let peer = link;
        while let Ok(is_idle) = peer.link.flush(LONG) {
            if is_idle {
                peer.end_sent.store(true, Ordering::Relaxed);
                // A link that has ended needs no end.
                let _ = peer.link.send(CONTROL, END);
                shared.notify(Message::Changed);
                return;
            }
        }
    });
}

/// Writes what comes on a channel to its output.
fn write(shared: &Shared, peer: &Peer, channel: u8) {
    let Some(output) = shared.outputs.get(&channel) else { return };
    let (mut messages, mut stamps) = (Vec::new(), Vec::new());
    while peer.link.receive_all_messages(channel, &mut messages).is_ok() {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let write = |message: Received| {
            stamps.extend(message.stamp);
            output.write_received(&message, &peer.link)
        };
        let written = messages.drain(..).try_for_each(write).and_then(|()| output.flush());
        if !stamps.is_empty() {
            let now = Clock::new().utc();
            let mut ages = peer.ages();
            let meter = ages.entry(channel).or_insert_with(AgeMeter::new);
            stamps.drain(..).for_each(|stamp| meter.record(stamp, now));
        }
        if let Err(source) = written {
            drop(output);
            let is_gone = source.kind() == ErrorKind::BrokenPipe;
            let error =
                if is_gone { Error::OutputClosed { channel } } else { Error::Output { channel, source } };
            if shared.services.is_empty() {
                return shared.notify(Message::Failed(error));
            }
            shared.notify(Message::OutputFailed(error));
            break;
        }
    }
    // What still comes holds up nothing else.
    let mut messages = Vec::new();
    while peer.link.receive_all(channel, &mut messages).is_ok() {
        peer.dropped.fetch_add(messages.drain(..).len() as u64, Ordering::Relaxed);
    }
}

/// Takes what has no output, so that it holds up nothing, and what sessions tell each other.
fn take_rest(shared: &Shared, peer: &Peer, channels: Channels) {
    loop {
        match peer.link.receive_any(channels, LONG) {
            Ok(Some((CONTROL, message))) if message == END => {
                peer.end_received.store(true, Ordering::Relaxed);
                shared.notify(Message::Changed);
            }
            Ok(Some(_)) => _ = peer.dropped.fetch_add(1, Ordering::Relaxed),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}

#[cfg(test)]
#[path = "peer_tests.rs"]
mod tests;
