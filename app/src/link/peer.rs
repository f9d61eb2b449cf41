//! One link of a run: the threads that take what comes on it, and what is measured of it.

use super::channel::CONTROL;
use super::shared::{News, Shared};
use glassline_engine::link::{Channels, Link};
use glassline_io::clock::Clock;
use glassline_media::Time;
use glassline_transport::link::{CloseReason, Event, LinkId, MessageId, Outcome};
use hdrhistogram::Histogram;
use std::collections::{BTreeMap, VecDeque};
use std::io::ErrorKind;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// What commands tell each other on [`CONTROL`]: all inputs here have ended, and what they gave has arrived.
const END: &[u8] = b"end";
/// For waits that end by events.
const LONG: Duration = Duration::from_secs(3600);
/// Longer delays are counted as this one: a minute.
const LONGEST_MICROS: u64 = 60_000_000;

/// A link and what is known of it.
pub(super) struct Peer {
    pub(super) link: Link,
    /// For people: its name and address.
    name: Mutex<String>,
    /// The other end has no more to say.
    pub(super) end_received: AtomicBool,
    /// It knows that we have no more to say.
    pub(super) end_delivered: AtomicBool,
    /// We have said so.
    pub(super) end_sent: AtomicBool,
    pub(super) was_up: AtomicBool,
    /// Its last figures are told.
    pub(super) is_told: AtomicBool,
    delays: Mutex<BTreeMap<u8, Delays>>,
    /// Messages on channels without an output.
    pub(super) unwanted: AtomicU64,
}

/// How long messages of a channel took until their acknowledgement came.
struct Delays {
    /// The number of the first in `sent`.
    first: u64,
    /// When messages were handed over; `None` for those that have ended.
    sent: VecDeque<Option<Time>>,
    /// Microseconds.
    histogram: Histogram<u64>,
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
            is_told: AtomicBool::new(false),
            delays: Mutex::new(BTreeMap::new()),
            unwanted: AtomicU64::new(0),
        }
    }

    pub(super) fn id(&self) -> LinkId {
        self.link.id()
    }

    /// For people.
    pub(super) fn name(&self) -> String {
        self.name.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn learn_name(&self) {
        let name = self.link.peer_name().unwrap_or_default();
        let name: String = String::from_utf8_lossy(&name).chars().filter(|c| !c.is_control()).collect();
        *self.name.lock().unwrap_or_else(PoisonError::into_inner) = name;
    }

    /// Sends a message and remembers when; waits while the channel's queue is full. `false`: the link has ended.
    pub(super) fn send(&self, channel: u8, message: bytes::Bytes) -> bool {
        let now = Clock::new().now();
        {
            let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
            delays.entry(channel).or_insert_with(Delays::new).sent.push_back(Some(now));
        }
        let sent = self.link.send(channel, message).is_ok();
        if !sent
            && let Some(delays) = self.delays.lock().unwrap_or_else(PoisonError::into_inner).get_mut(&channel)
        {
            delays.sent.pop_back();
        }
        sent
    }

    fn finished(&self, channel: u8, message: MessageId, outcome: Outcome) {
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(delays) = delays.get_mut(&channel) else { return };
        let at = message.0.checked_sub(delays.first).and_then(|at| delays.sent.get_mut(at as usize));
        if let Some(sent) = at.and_then(Option::take)
            && outcome == Outcome::Delivered
        {
            let micros = (Clock::new().now() - sent).as_micros() as u64;
            delays.histogram.saturating_record(micros.clamp(1, LONGEST_MICROS));
        }
        while delays.sent.front().is_some_and(Option::is_none) {
            delays.sent.pop_front();
            delays.first += 1;
        }
    }

    /// The delays of a channel's delivered messages since it was last asked, if there were any.
    pub(super) fn take_delays(&self, channel: u8) -> Option<Histogram<u64>> {
        let mut delays = self.delays.lock().unwrap_or_else(PoisonError::into_inner);
        let histogram = &mut delays.get_mut(&channel)?.histogram;
        (!histogram.is_empty()).then(|| {
            let taken = histogram.clone();
            histogram.reset();
            taken
        })
    }
}

impl Delays {
    fn new() -> Delays {
        let histogram = Histogram::new_with_bounds(1, LONGEST_MICROS, 3).expect("the bounds are in order");
        Delays { first: 0, sent: VecDeque::new(), histogram }
    }
}

/// Serves a link until it has ended: a thread for what happens to it, one for each output, one for the rest.
pub(super) fn serve(shared: &Arc<Shared>, peer: &Arc<Peer>) {
    let (shared, peer) = (Arc::clone(shared), Arc::clone(peer));
    thread::spawn(move || {
        let mut rest = Channels::ALL;
        let mut takers = Vec::new();
        for &channel in shared.outputs.keys() {
            rest = rest.without(channel);
            let (shared, peer) = (Arc::clone(&shared), Arc::clone(&peer));
            takers.push(thread::spawn(move || take(&shared, &peer, channel)));
        }
        takers.push({
            let (shared, peer) = (Arc::clone(&shared), Arc::clone(&peer));
            thread::spawn(move || take_rest(&shared, &peer, rest))
        });
        while !peer.link.has_ended() {
            if let Some(event) = peer.link.wait_event(LONG) {
                handle(&shared, &peer, event);
            }
        }
        peer.link.events().into_iter().for_each(|event| handle(&shared, &peer, event));
        // All that came is written before it counts as over.
        for taker in takers {
            let _ = taker.join();
        }
        shared.tell(News::Over(peer.id()));
    });
}

fn handle(shared: &Arc<Shared>, peer: &Arc<Peer>, event: Event) {
    let remote =
        || peer.link.remote_address().map_or_else(|| shared.remote.clone(), |address| address.to_string());
    match event {
        Event::Connected { again } => {
            peer.learn_name();
            peer.was_up.store(true, Ordering::Relaxed);
            if again {
                tracing::info!(
                    peer = peer.name(),
                    address = remote(),
                    "the link is up again; what was on its way is lost"
                );
                // Who has restarted knows nothing of what was said before.
                peer.end_received.store(false, Ordering::Relaxed);
                peer.end_delivered.store(false, Ordering::Relaxed);
                peer.is_told.store(false, Ordering::Relaxed);
            } else {
                tracing::info!(peer = peer.name(), address = remote(), "the link is up");
            }
            if peer.link.shares_dictionary() == Some(false) {
                tracing::warn!(
                    peer = peer.name(),
                    "the two ends have different dictionaries, or one has none; messages are packed without; give \
                     both the same --dictionary"
                );
            }
            shared.tell(News::Changed);
            if shared.inputs_ended.load(Ordering::Relaxed) {
                finish(shared, peer);
            }
        }
        Event::Finished { channel: CONTROL, outcome, .. } => {
            peer.end_delivered.store(outcome == Outcome::Delivered, Ordering::Relaxed);
            shared.tell(News::Changed);
        }
        Event::Finished { channel, message, outcome } => peer.finished(channel, message, outcome),
        Event::PathChanged { path } => {
            tracing::info!(peer = peer.name(), address = %path.remote, "the peer's address has changed");
        }
        Event::PathUp { path } => {
            tracing::info!(peer = peer.name(), address = %path.remote, "a second path is there");
        }
        Event::PathDown { path } => {
            tracing::warn!(peer = peer.name(), address = %path.remote, "a path has gone; the other one goes on");
        }
        Event::Closed { reason } => closed(shared, peer, &reason),
        Event::Opened { channel, .. } if channel != CONTROL && !shared.outputs.contains_key(&channel) => {
            tracing::warn!(
                channel,
                "the peer sends on a channel that has no output here; what comes is dropped; --channel {channel}:out=…"
            );
        }
        _ => {}
    }
}

fn closed(shared: &Shared, peer: &Peer, reason: &CloseReason) {
    let name = peer.name();
    match reason {
        CloseReason::Unreachable => {
            let was_up = peer.was_up.load(Ordering::Relaxed);
            shared.tell(News::Unreachable { was_up });
        }
        CloseReason::Local => {}
        CloseReason::Peer { reason, .. } => {
            let reason: String = reason.chars().filter(|c| !c.is_control()).collect();
            tracing::info!(peer = name, reason, "the peer has ended the link");
        }
        CloseReason::TimedOut => {
            tracing::warn!(peer = name, "nothing comes from the peer any more");
            shared.tell(News::Lost);
        }
        CloseReason::Reset => tracing::warn!(peer = name, "the peer has restarted; connecting again"),
        CloseReason::NoRoom => tracing::error!(
            peer = name,
            "all links together hold more than there is room for, and this one most; it has ended: are its outputs taken from?"
        ),
        CloseReason::Violation(what) => tracing::error!(peer = name, "the peer breaks the protocol: {what}"),
    }
}

/// Tells the peer that there will be no more, once all is delivered.
pub(super) fn finish(shared: &Arc<Shared>, peer: &Arc<Peer>) {
    let (shared, peer) = (Arc::clone(shared), Arc::clone(peer));
    thread::spawn(move || {
        while let Ok(is_idle) = peer.link.flush(LONG) {
            if is_idle {
                peer.end_sent.store(true, Ordering::Relaxed);
                // A link that has ended needs no end.
                let _ = peer.link.send(CONTROL, END);
                shared.tell(News::Changed);
                return;
            }
        }
    });
}

/// Writes what comes on a channel to its output.
fn take(shared: &Shared, peer: &Peer, channel: u8) {
    let Some(output) = shared.outputs.get(&channel) else { return };
    let mut messages = Vec::new();
    while peer.link.receive_all(channel, &mut messages).is_ok() {
        let mut output = output.lock().unwrap_or_else(PoisonError::into_inner);
        let written =
            messages.drain(..).try_for_each(|message| output.write(&message)).and_then(|()| output.flush());
        if let Err(error) = written {
            let is_gone = error.kind() == ErrorKind::BrokenPipe;
            shared.tell(if is_gone {
                News::ReaderGone
            } else {
                News::Failed { channel, error, what: "cannot write" }
            });
            return;
        }
    }
}

/// Takes what nobody wants, so that it holds up nothing, and what commands tell each other.
fn take_rest(shared: &Shared, peer: &Peer, channels: Channels) {
    loop {
        match peer.link.receive_any(channels, LONG) {
            Ok(Some((CONTROL, message))) if message == END => {
                peer.end_received.store(true, Ordering::Relaxed);
                shared.tell(News::Changed);
            }
            Ok(Some(_)) => _ = peer.unwanted.fetch_add(1, Ordering::Relaxed),
            Ok(None) => {}
            Err(_) => return,
        }
    }
}
