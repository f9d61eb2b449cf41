//! One address, many peers: which link a datagram belongs to, which peers may connect, and which have to wait.
//!
//! A Connect passes, in this order and each step dearer than the one before: its gate (a MAC, so that strangers get no
//! answer), the bounds on half-done handshakes, a token where there are many of those (address validation, RFC 9000
//! §8.1), Noise. Its sender becomes a link with the first data packet under the new keys, which no replayed Connect can
//! carry; only then does it replace an older link of the same peer. Replays take no room from other peers: handshakes
//! from proven addresses are counted apart.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

pub(super) mod handshake;
mod links;
mod pending;

use crate::counter::count;
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use super::secure::gate::{GATE, Gate};
use super::secure::noise::Key;
use super::secure::token::{Identity, Tokens};
use super::state::{Link, Standing};
use super::wire::packet::{CONNECT_SIZE, ConnectionId, Packet};
use super::{CloseReason, Ecn, Event, MAX_PATHS, Path, Random, Settings, Transmit};
use handshake::path_numbers;
use pending::{Attempt, Pending, Replaced};

/// Answers to strangers that wait to be sent, at most; beyond, they are not made.
const MAX_ANSWERS: usize = 64;
/// A listener that does not say how many paths it takes, takes so many.
const UNTOLD_PATHS: usize = 2;

/// Names a link of an [`Endpoint`]. Never used again for another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId {
    index: u32,
    /// Of 64 bits, so that no peer can come back so often that it begins anew.
    generation: u64,
}

/// What an endpoint has turned away and let in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct EndpointCounters {
    /// Datagrams that belong to no link: no header of ours, a closed gate, an unknown connection ID.
    pub strangers: u64,
    /// Data packets of a link that were forged or replayed.
    pub refused: u64,
    /// Connects that passed the gate.
    pub connects: u64,
    /// Of these, answered with Retry.
    pub retries: u64,
    /// Of these, dropped for one of the bounds.
    pub limited: u64,
    /// Of these, refused by Noise, or from a peer that is not in the list.
    pub unauthenticated: u64,
    /// Resets sent to peers of links that we do not know any more.
    pub resets: u64,
}

struct Slot {
    generation: u64,
    link: Option<Link>,
    /// By path: an attempt for each address that is tried.
    attempts: [Vec<Attempt>; MAX_PATHS],
    /// How often the listener has refused us since the link was last up.
    refusals: u32,
    /// The peer, as far as it can be told apart: its public key, or its name.
    peer: Option<PeerId>,
    /// Where to connect, by path, the best address first; none for a link that the peer connected.
    targets: [Vec<Path>; MAX_PATHS],
    /// By number: whether a path of a link that we connect is a spare one, and below which rate of the others it is needed.
    spares: [Option<ByteRate>; MAX_PATHS],
    /// Names the state of a link that we connect.
    instance: u64,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum PeerId {
    Key(Key),
    Name(Vec<u8>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Route {
    Link(u32),
    Pending,
    /// A path that another process of the same peer has replaced.
    Replaced,
}

/// The protocol's state at one address.
///
/// ```
/// use glassline_media::Time;
/// use glassline_transport::link::{Credentials, Endpoint, Event, Key, Options, Path, Settings};
///
/// let credentials = Credentials::Shared(Key([7; 32]));
/// let mut listener = Endpoint::new(Settings { listen: true, ..Settings::new(credentials.clone()) }, [1; 32]);
/// let mut drone = Endpoint::new(Settings::new(credentials), [2; 32]);
/// let there = Path { remote: "192.0.2.1:7000".parse().unwrap(), via: 0 };
/// let here = Path { remote: "192.0.2.2:7000".parse().unwrap(), via: 0 };
///
/// let now = Time::ZERO;
/// let id = drone.connect(now, there).unwrap();
/// let link = drone.link_mut(id).unwrap();
/// link.open(3, Options::default()).unwrap();
/// link.send(now, 3, &b"hello"[..]).unwrap();
///
/// // A network that loses nothing and takes no time.
/// let mut buffer = Vec::new();
/// for _ in 0..4 {
///     while let Some(transmit) = drone.poll_transmit(now, &mut buffer) {
///         buffer.chunks_mut(transmit.segment_bytes).for_each(|bytes| listener.handle_datagram(now, here, bytes));
///     }
///     while let Some(transmit) = listener.poll_transmit(now, &mut buffer) {
///         buffer.chunks_mut(transmit.segment_bytes).for_each(|bytes| drone.handle_datagram(now, there, bytes));
///     }
/// }
/// let (peer, event) = listener.poll_event().unwrap();
/// assert_eq!(event, Event::Connected { again: false });
/// assert_eq!(listener.link_mut(peer).unwrap().receive(3).unwrap(), "hello");
/// ```
pub struct Endpoint {
    settings: Settings,
    random: Random,
    gate: Gate,
    remote_gate: Option<Gate>,
    identity: Identity,
    tokens: Tokens,
    slots: Vec<Slot>,
    routes: BTreeMap<ConnectionId, Route>,
    pending: BTreeMap<ConnectionId, Pending>,
    /// Sessions that were replaced: the other end is told so when it sends something.
    replaced: BTreeMap<ConnectionId, Replaced>,
    /// Answers to handshakes: where to, what.
    answers: VecDeque<(Path, Vec<u8>)>,
    events: VecDeque<(LinkId, Event)>,
    /// What the current call works on: its state may be half-written if the call panics.
    at_work: AtWork,
    counters: EndpointCounters,
    /// Which link is asked first for what it has to send.
    turn: u32,
    /// What all links hold of what came, at most: what applications have taken since it was last counted is in it.
    memory: u64,
}

/// What a call works on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum AtWork {
    /// A link, by its place.
    Link(u32),
    /// Handshakes of peers that have no link yet.
    Handshakes,
}

impl std::fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Endpoint")
            .field("links", &self.slots.len())
            .field("counters", &self.counters)
            .finish()
    }
}

impl Endpoint {
    /// An endpoint that draws all its randomness from `seed`: 32 bytes of the system's, or any in a simulation.
    pub fn new(settings: Settings, seed: [u8; 32]) -> Endpoint {
        let mut random = Random::new(seed);
        let credentials = &settings.credentials;
        let lasting = settings.reset_secret.as_ref().map(|own| credentials.lasting_secret(own));
        Endpoint {
            gate: Gate::new(&credentials.own_gate().0),
            remote_gate: credentials.remote_gate().map(|known| Gate::new(&known.0)),
            identity: Identity::new(lasting.as_ref()),
            tokens: Tokens::new(&mut random),
            settings,
            random,
            slots: Vec::new(),
            routes: BTreeMap::new(),
            pending: BTreeMap::new(),
            replaced: BTreeMap::new(),
            answers: VecDeque::new(),
            events: VecDeque::new(),
            at_work: AtWork::Handshakes,
            counters: EndpointCounters::default(),
            turn: 0,
            memory: 0,
        }
    }

    /// The link `id`, if it has not gone.
    pub fn link_mut(&mut self, id: LinkId) -> Option<&mut Link> {
        let slot = self.slots.get_mut(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        self.at_work = AtWork::Link(id.index);
        slot.link.as_mut()
    }

    /// The link `id`, if it has not gone.
    pub fn link(&self, id: LinkId) -> Option<&Link> {
        let slot = self.slots.get(id.index as usize).filter(|slot| slot.generation == id.generation)?;
        slot.link.as_ref()
    }

    /// The application takes nothing more of what came on the link `id`: nothing is kept of it once it has ended.
    pub fn forget(&mut self, id: LinkId) {
        if let Some(link) = self.link_mut(id) {
            link.forgotten = true;
            if link.has_ended() {
                self.slots[id.index as usize].link = None;
            }
        }
    }

    /// All links that there are. One that has ended is there for as long as there are messages to take from it, unless
    /// another one needs its place.
    pub fn links(&self) -> impl Iterator<Item = (LinkId, &Link)> {
        let ids = (0u32..).zip(&self.slots);
        ids.filter_map(|(index, slot)| {
            Some((LinkId { index, generation: slot.generation }, slot.link.as_ref()?))
        })
    }

    /// What has been turned away and let in.
    pub fn counters(&self) -> EndpointCounters {
        self.counters
    }

    /// Half-done handshakes of peers that connect.
    pub fn pending_handshakes(&self) -> usize {
        self.pending.len()
    }

    /// A call of this endpoint, or of a link of [`Endpoint::link_mut`], has panicked: ends what the call worked on,
    /// because its state may be half-written. That is either a link, with [`CloseReason::Fault`]; its peer is not told
    /// and notices by [`Settings::idle`], or by the reset that answers its next data. Or it is the handshakes of peers
    /// that have no link yet; these try again.
    pub fn recover(&mut self) {
        match std::mem::replace(&mut self.at_work, AtWork::Handshakes) {
            AtWork::Link(index) => self.drop_broken(index),
            AtWork::Handshakes => {
                self.routes.retain(|_, route| matches!(route, Route::Link(_)));
                self.pending.clear();
                self.replaced.clear();
                self.answers.clear();
            }
        }
        self.memory = self.held_bytes();
    }

    fn drop_broken(&mut self, index: u32) {
        let Some(slot) = self.slots.get_mut(index as usize) else { return };
        slot.attempts = Default::default();
        (slot.peer, slot.targets) = (None, Default::default());
        let was_there = slot.link.take().is_some();
        // A handshake that was about to become the link is gone with it.
        let (pending, replaced) = (&self.pending, &self.replaced);
        self.routes.retain(|id, route| match route {
            Route::Link(of) => *of != index,
            Route::Pending => pending.contains_key(id),
            Route::Replaced => replaced.contains_key(id),
        });
        if was_there {
            self.events.push_back((self.id(index), Event::Closed { reason: CloseReason::Fault }));
        }
    }

    /// Takes a datagram, which is opened in place. What is not from a peer is dropped and counted.
    pub fn handle_datagram(&mut self, now: Time, from: Path, datagram: &mut [u8]) {
        self.handle_marked_datagram(now, from, Ecn::NotCapable, datagram);
    }

    /// As [`Endpoint::handle_datagram`], where it is known what mark its IP packet bore.
    pub fn handle_marked_datagram(&mut self, now: Time, from: Path, mark: Ecn, datagram: &mut [u8]) {
        self.at_work = AtWork::Handshakes;
        // What can be refused without a key is: a gate's MAC is most of what a stranger's datagram costs.
        let size = datagram.len();
        let body = if Packet::is_gated(datagram) { size.saturating_sub(GATE) } else { size };
        let opens = |gate: &Gate| gate.open(datagram).is_some();
        match Packet::parse(&datagram[..body]) {
            Some(Packet::Data { to, .. }) => self.handle_data(now, from, to, mark, datagram),
            // A Connect is gated for us, a Retry for the listener that we connect to.
            Some(Packet::Connect(connect))
                if self.settings.listen && size >= CONNECT_SIZE && opens(&self.gate) =>
            {
                self.handle_connect(now, from, connect, size);
            }
            Some(Packet::Retry { to, token })
                if self.is_attempt(to) && self.remote_gate.as_ref().is_some_and(opens) =>
            {
                self.handle_retry(now, to, token);
            }
            Some(Packet::Accept { to, noise }) => self.handle_accept(now, from, to, noise),
            Some(Packet::Reset { of, token }) => self.handle_reset(now, of, token),
            Some(Packet::Connect(_) | Packet::Retry { .. }) | None => count(&mut self.counters.strangers, 1),
        }
    }

    fn handle_data(&mut self, now: Time, from: Path, to: ConnectionId, mark: Ecn, datagram: &mut [u8]) {
        match self.routes.get(&to) {
            Some(&Route::Link(index)) => {
                self.at_work = AtWork::Link(index);
                let Some(link) = self.slots.get_mut(index as usize).and_then(|slot| slot.link.as_mut())
                else {
                    return;
                };
                let before = link.memory();
                if !link.handle_data_packet(now, from, to, datagram) {
                    count(&mut self.counters.refused, 1);
                } else if mark != Ecn::NotCapable {
                    link.handle_mark(to, mark);
                }
                self.memory = self.memory.saturating_add(link.memory().saturating_sub(before));
                if link.standing == Standing::Closed || !link.events.is_empty() {
                    self.collect(now, index);
                }
                if self.memory > self.settings.endpoint_bytes {
                    self.make_room(now);
                }
            }
            Some(Route::Pending) => self.handle_first_data(now, from, to, datagram),
            Some(Route::Replaced) => self.handle_replaced(now, from, to, datagram),
            None => self.answer_unknown(from, to, datagram.len()),
        }
    }

    /// What all links hold of what came and was not taken, and keep for messages to come, bytes; see
    /// [`Settings::endpoint_bytes`].
    pub fn held_bytes(&self) -> u64 {
        self.slots.iter().filter_map(|slot| slot.link.as_ref()).map(Link::memory).sum()
    }

    /// Links hold more than the budget, as it seems: what is kept for messages to come goes, and then the link that holds
    /// most.
    fn make_room(&mut self, now: Time) {
        let limit = self.settings.endpoint_bytes;
        self.memory = self.held_bytes();
        if self.memory <= limit {
            return;
        }
        self.slots.iter_mut().filter_map(|slot| slot.link.as_mut()).for_each(Link::forget_spares);
        self.memory = self.held_bytes();
        while self.memory > limit {
            let memory = |slot: &Slot| slot.link.as_ref().map_or(0, Link::memory);
            let most = (0u32..).zip(&self.slots).max_by_key(|(_, slot)| memory(slot));
            let Some(index) = most.map(|most| most.0) else { return };
            self.at_work = AtWork::Link(index);
            if let Some(link) = &mut self.slots[index as usize].link {
                link.end_for_room(now);
            }
            self.collect(now, index);
            self.memory = self.held_bytes();
        }
    }

    /// Writes the next datagrams to send into `out`, which is emptied before; all go to one path and have one size but
    /// the last. Call it until it gives `None`, after any input and at [`Endpoint::poll_timeout`].
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        self.at_work = AtWork::Handshakes;
        if let Some((path, bytes)) = self.answers.pop_front() {
            out.extend_from_slice(&bytes);
            return Some(Transmit { path, bytes: out.len(), segment_bytes: out.len(), ecn: Ecn::NotCapable });
        }
        let all = self.indices();
        for index in (self.turn..all.end).chain(0..self.turn.min(all.end)) {
            if let Some(transmit) = self.poll_link(now, index, out) {
                self.turn = index.saturating_add(1);
                return Some(transmit);
            }
        }
        None
    }

    fn poll_link(&mut self, now: Time, index: u32, out: &mut Vec<u8>) -> Option<Transmit> {
        self.at_work = AtWork::Link(index);
        let slot = self.slots.get_mut(index as usize)?;
        for attempt in slot.attempts.iter_mut().flatten() {
            if let Some(transmit) = attempt.poll_transmit(now, out) {
                return Some(transmit);
            }
        }
        slot.link.as_mut()?.poll_transmit(now, out)
    }

    /// What has happened on which link, oldest first.
    pub fn poll_event(&mut self) -> Option<(LinkId, Event)> {
        if self.events.is_empty() {
            for index in self.indices() {
                self.at_work = AtWork::Link(index);
                if let Some(link) = &mut self.slots[index as usize].link {
                    link.tell_passed_over();
                }
                self.gather(index);
            }
        }
        self.events.pop_front()
    }

    /// When to call [`Endpoint::handle_timeout`] and then [`Endpoint::poll_transmit`] though nothing came:
    /// [`Time::ZERO`] where a datagram waits for [`Endpoint::poll_transmit`], `None` where there is nothing to wait
    /// for.
    ///
    /// Every call that takes `&mut self` may change it, and so may every such call on a link of
    /// [`Endpoint::link_mut`], as [`Link::send`], [`Link::receive`] and [`Link::close`]: ask again after them.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        if !self.answers.is_empty() {
            return Some(Time::ZERO);
        }
        let links = self.slots.iter().map(|slot| {
            let attempts = slot.attempts.iter().flatten().map(|attempt| attempt.next_timeout());
            slot.link
                .as_ref()
                .map(Link::next_timeout)
                .into_iter()
                .chain(attempts)
                .min()
                .unwrap_or(Time::NEVER)
        });
        let pending = self.pending.values().map(|pending| pending.expires);
        let replaced = self.replaced.values().map(|replaced| replaced.expires);
        links.chain(pending).chain(replaced).min().filter(|due| *due != Time::NEVER)
    }

    /// Does what is due by `now`.
    pub fn handle_timeout(&mut self, now: Time) {
        self.at_work = AtWork::Handshakes;
        self.expire_pending(now);
        for index in self.indices() {
            self.at_work = AtWork::Link(index);
            let slot = &mut self.slots[index as usize];
            if let Some(link) = &mut slot.link
                && link.next_timeout() <= now
            {
                link.handle_timeout(now);
            }
            let before = slot.attempts.iter().flatten().count();
            for attempts in &mut slot.attempts {
                attempts.retain(|attempt| attempt.gives_up > now);
            }
            let left = slot.attempts.iter().flatten().count();
            if before > 0
                && left == 0
                && let Some(link) = &mut slot.link
                && (link.standing == Standing::Connecting || link.is_away())
            {
                let refused = slot.refusals > 0;
                let reason = if refused { CloseReason::Refused } else { CloseReason::Unreachable };
                link.events.push_back(Event::Closed { reason });
                // The paths of a peer that is away stay, whether or not a further handshake is tried.
                if !link.is_away() {
                    link.standing = Standing::Closed;
                }
            }
            self.collect(now, index);
        }
    }

    /// Of all places for links; [`Endpoint::add_link`] makes no more than these numbers have room for.
    fn indices(&self) -> Range<u32> {
        0..u32::try_from(self.slots.len()).unwrap_or(u32::MAX)
    }

    fn id(&self, index: u32) -> LinkId {
        LinkId { index, generation: self.slots[index as usize].generation }
    }

    /// There is no place for a link: the suspended link that has waited longest for its peer is ended.
    fn end_longest_suspended(&mut self, now: Time) {
        let suspended = (0u32..)
            .zip(&self.slots)
            .filter_map(|(index, slot)| Some((slot.link.as_ref()?.waits_until()?, index)));
        let Some((_, index)) = suspended.min() else { return };
        self.at_work = AtWork::Link(index);
        if let Some(link) = &mut self.slots[index as usize].link {
            link.end_timed_out();
        }
        self.collect(now, index);
    }

    /// Takes over a link's events.
    fn gather(&mut self, index: u32) {
        let id = self.id(index);
        if let Some(link) = &mut self.slots[index as usize].link {
            self.events.extend(link.events.drain(..).map(|event| (id, event)));
        }
    }

    /// Takes over a link's events, and ends it if it is closed: it goes, or is connected again.
    fn collect(&mut self, now: Time, index: u32) {
        self.gather(index);
        let slot = &mut self.slots[index as usize];
        let Some(link) = &mut slot.link else { return };
        if link.standing == Standing::Closed {
            let again = !slot.targets[0].is_empty() && self.settings.reconnect && link.is_wanted();
            let is_kept = link.is_kept();
            if again && !is_kept {
                link.restart();
            } else if !again {
                link.drop_paths();
            }
            link.take_dropped().iter().for_each(|local| _ = self.routes.remove(local));
            slot.attempts = Default::default();
            if again {
                link.standing = Standing::Connecting;
                if !is_kept {
                    slot.instance = u64::from_be_bytes(self.random.array());
                }
            } else {
                (slot.peer, slot.targets) = (None, Default::default());
                if link.forgotten || !link.has_unread() {
                    slot.link = None;
                }
                return;
            }
        } else {
            link.take_dropped().iter().for_each(|local| _ = self.routes.remove(local));
            if link.is_up() {
                // The peer is back on a path that a handshake was to replace.
                for (attempts, number) in slot.attempts.iter_mut().zip(path_numbers()) {
                    if link.has_path(number) {
                        attempts.clear();
                    }
                }
            }
        }
        self.connect_missing(now, index);
    }

    /// Begins a handshake for each path of a link of ours that has none, or on which the peer is away.
    pub(super) fn connect_missing(&mut self, now: Time, index: u32) {
        for number in path_numbers() {
            let slot = &self.slots[index as usize];
            let Some(link) = &slot.link else { return };
            let role = usize::from(number);
            let wanted = matches!(link.standing, Standing::Up | Standing::Connecting);
            if wanted
                && !slot.targets[role].is_empty()
                && slot.attempts[role].is_empty()
                && (!link.has_path(number) || link.is_away())
                && (role < UNTOLD_PATHS || link.peer_paths() > role)
            {
                let _ = self.attempt(now, index, number);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::link::Credentials;

    #[test]
    fn no_id_comes_again_however_many_links_a_place_has_had() {
        let credentials = Credentials::Shared(Key([7; 32]));
        let mut endpoint = Endpoint::new(Settings::new(credentials), [1; 32]);
        let path = Path { remote: "192.0.2.1:7000".parse().unwrap(), via: 0 };
        let mut ids = Vec::new();
        for generation in [0, u32::MAX - 1, u32::MAX] {
            if let Some(slot) = endpoint.slots.first_mut() {
                (slot.link, slot.generation) = (None, generation.into());
            }
            ids.push(endpoint.connect(Time::ZERO, path).unwrap());
        }
        assert!(ids.is_sorted_by(|earlier, later| earlier < later), "{ids:?}");
        assert_eq!(endpoint.links().map(|link| link.0).collect::<Vec<_>>(), ids[2..]);
    }
}
