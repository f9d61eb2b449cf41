//! The handshakes of an endpoint: its own attempts to connect, and the half-done ones of peers.

use crate::counter::count;
use glassline_media::Time;
use glassline_media::quantity::ByteRate;
use std::time::Duration;

use super::pending::{Attempt, Pending, Replaced};
use super::{AtWork, Endpoint, MAX_ANSWERS, PeerId, Route, Slot};
use crate::link::secure::gate::GATE;
use crate::link::secure::noise::{Credentials, Handshake};
use crate::link::state::path::{Agreed, PathState};
use crate::link::state::{Link, Standing};
use crate::link::wire::packet::{self, CONNECT_SIZE, Connect, ConnectionId, MAX_TOKEN, prologue};
use crate::link::wire::parameters::{Parameters, REFUSED_NAME};
use crate::link::{Bonding, CloseCode, CloseReason, Ecn, Error, Event, MAX_PATHS, Path, Random, Settings};

/// The first wait for an answer to a Connect; each further one is twice as long, up to [`LAST_WAIT`].
const FIRST_WAIT: Duration = Duration::from_millis(150);
/// How long a peer has for its first data packet.
const PENDING_LIFE: Duration = Duration::from_secs(4);
/// However often it repeats its Connect.
const LONGEST_PENDING: Duration = Duration::from_secs(16);
/// Between the first packets to two addresses of one listener (RFC 8305 §5, Connection Attempt Delay).
const ADDRESS_DELAY: Duration = Duration::from_millis(250);
/// A peer of another boot has the name of one that has been silent for so long though it was asked.
const OCCUPANT_SILENCE: Duration = Duration::from_secs(1);
/// An end that was refused connects again after so long. Each further refusal doubles the time up to [`LAST_BACKOFF`];
/// up to a quarter of it is added by chance.
const FIRST_BACKOFF: Duration = Duration::from_secs(1);
/// The longest such time, before the chance.
const LAST_BACKOFF: Duration = Duration::from_secs(30);
/// For how long the other end of a path that was replaced is told so when it sends something.
const REPLACED_LIFE: Duration = Duration::from_secs(30);
/// It is told so no more often than this.
const REPLACED_GAP: Duration = Duration::from_millis(50);
/// The most such paths.
const MAX_REPLACED: usize = 64;
/// What they are told.
const REPLACED: &str = "another process of the same name or key has connected from the same machine";
const NAME_TAKEN: &str = "another peer of the same name or key answers";
/// The most Retries that one attempt follows; it ignores further ones.
const MAX_RETRIES: u32 = 3;

/// What becomes of a Connect that is no repeated one.
enum Admission {
    /// Noise is to look at it.
    Enters,
    /// Its sender has to prove its address first.
    Retries,
    /// There is no room.
    Refused,
}

impl Endpoint {
    /// Begins a handshake for one path of the link at `index`, with each of its addresses; all others for it are over.
    pub(super) fn attempt(&mut self, now: Time, index: u32, number: u8) -> Result<(), Error> {
        let (place, role) = (index as usize, usize::from(number));
        self.slots[place].attempts[role].clear();
        let backoff = backoff(self.slots[place].refusals, &mut self.random);
        let mut begins = now + backoff;
        for path in self.slots[place].targets[role].clone() {
            let attempt = self.attempt_at(begins, index, number, path)?;
            self.slots[place].attempts[role].push(attempt);
            begins += ADDRESS_DELAY;
        }
        Ok(())
    }

    fn attempt_at(&mut self, begins: Time, index: u32, number: u8, path: Path) -> Result<Attempt, Error> {
        let slot = &mut self.slots[index as usize];
        let asked = Parameters {
            instance: Some(slot.instance),
            number,
            bonding: self.settings.bonding,
            spare: slot.spares[usize::from(number)].is_some(),
            ..own_parameters(&self.settings)
        };
        let pattern = self.settings.credentials.pattern();
        let local = self.identity.connection_id(&mut self.random);
        let prologue = prologue(pattern, local);
        let mut handshake = Handshake::initiator(&self.settings.credentials, &prologue, &mut self.random)
            .ok_or(Error::NoPeer)?;
        let mut parameters = Vec::new();
        asked.write(&mut parameters);
        let noise = handshake.write(&parameters).ok_or(Error::NoPeer)?;
        let mut attempt = Attempt {
            handshake,
            noise,
            local,
            path,
            datagram: Vec::new(),
            next_at: begins,
            wait: FIRST_WAIT,
            gives_up: begins + self.settings.connect_timeout,
            sent_at: None,
            sent: 0,
            retries: 0,
        };
        self.write_attempt(&mut attempt, &[]);
        Ok(attempt)
    }

    fn write_attempt(&mut self, attempt: &mut Attempt, token: &[u8]) {
        let pattern = self.settings.credentials.pattern();
        let connect = Connect { pattern, from: attempt.local, token, noise: &attempt.noise };
        attempt.datagram = packet::write_connect(&connect, GATE);
        if let Some(gate) = &self.remote_gate {
            gate.close(&mut attempt.datagram, self.random.array());
        }
    }

    /// The link, its path, and the attempt for that which waits for an answer with this ID.
    fn attempt_of(&self, to: ConnectionId) -> Option<(usize, usize, usize)> {
        let of = |attempts: &Vec<Attempt>| attempts.iter().position(|attempt| attempt.local == to);
        let roles =
            |slot: &Slot| slot.attempts.iter().map(of).enumerate().find_map(|(role, at)| Some((role, at?)));
        let waiting = |(index, slot): (usize, &Slot)| roles(slot).map(|(role, at)| (index, role, at));
        self.slots.iter().enumerate().find_map(waiting)
    }

    /// Whether an attempt waits for an answer with this ID.
    pub(super) fn is_attempt(&self, to: ConnectionId) -> bool {
        self.attempt_of(to).is_some()
    }

    pub(super) fn handle_retry(&mut self, now: Time, to: ConnectionId, token: &[u8]) {
        let Some((index, role, at)) = self.attempt_of(to).filter(|_| token.len() <= MAX_TOKEN) else {
            return count(&mut self.counters.strangers, 1);
        };
        self.at_work = AtWork::Link(slot_number(index));
        let mut attempt = self.slots[index].attempts[role].remove(at);
        if attempt.retries < MAX_RETRIES {
            attempt.retries = attempt.retries.saturating_add(1);
            self.write_attempt(&mut attempt, token);
            attempt.next_at = now;
        }
        self.slots[index].attempts[role].insert(at, attempt);
    }

    pub(super) fn handle_accept(&mut self, now: Time, from: Path, to: ConnectionId, noise: &[u8]) {
        let Some((index, role, at)) = self.attempt_of(to) else {
            return count(&mut self.counters.strangers, 1);
        };
        self.at_work = AtWork::Link(slot_number(index));
        let (asked, spare) = (self.slots[index].instance, self.slots[index].spares[role]);
        let attempt = &mut self.slots[index].attempts[role][at];
        let target = attempt.path;
        let read = attempt.handshake.read(noise).and_then(|payload| Parameters::parse(&payload));
        let Some(peer) = read else { return count(&mut self.counters.unauthenticated, 1) };
        if peer.refusal.is_some() {
            return self.handle_refusal(now, index);
        }
        let agreed = peer.connection.zip(attempt.handshake.secrets()).map(|(remote, secrets)| {
            let sent_at = attempt.sent_at.filter(|_| attempt.sent == 1);
            Agreed {
                secrets,
                local: to,
                remote,
                path: Path { via: target.via, ..from },
                instance: peer.instance.map(|given| [asked, given]),
                number: path_number(role),
                bonding: self.settings.bonding,
                spare,
                peer,
                rtt: sent_at.map(|sent_at| now - sent_at),
                random: self.random.fork(),
            }
        });
        let Some(agreed) = agreed else { return count(&mut self.counters.unauthenticated, 1) };
        let slot = &mut self.slots[index];
        // The address that has answered goes first the next time.
        slot.attempts[role].clear();
        slot.targets[role].retain(|path| *path != target);
        slot.targets[role].insert(0, target);
        slot.refusals = 0;
        let Some(link) = &mut slot.link else { return };
        let is_same = link.instance().is_some() && link.instance() == agreed.instance;
        let mut path = PathState::new(now, agreed, &self.settings);
        // The listener takes us for real with our first data packet.
        path.probe = true;
        // What was agreed on with a listener that is away is of no use any more.
        let is_back = link.is_away() && link.has_only_path(path.number);
        if is_same && (link.is_kept() || is_back && link.suspend(now, CloseReason::TimedOut)) {
            link.resume(now, path);
        } else if is_same && link.is_established() {
            link.join(now, path);
        } else {
            // The first path, or the listener has restarted since it answered on the other one.
            link.establish(now, path);
        }
        self.routes.insert(to, Route::Link(slot_number(index)));
        self.collect(now, slot_number(index));
    }

    /// The listener has another peer of our name: we come again later.
    fn handle_refusal(&mut self, now: Time, index: usize) {
        let slot = &mut self.slots[index];
        let until = slot.attempts.iter().flatten().map(|attempt| attempt.gives_up).max().unwrap_or(now);
        slot.refusals = slot.refusals.saturating_add(1);
        for number in path_numbers() {
            if !self.slots[index].attempts[usize::from(number)].is_empty() {
                let _ = self.attempt(now, slot_number(index), number);
            }
        }
        let slot = &mut self.slots[index];
        let begins = slot.attempts.iter().flatten().map(|attempt| attempt.next_at).min().unwrap_or(now);
        // How long a listener is tried counts from the first time.
        slot.attempts.iter_mut().flatten().for_each(|attempt| attempt.gives_up = until.max(now));
        if let Some(link) = &mut slot.link {
            link.events.push_back(Event::Refused { retry_after: begins.since(now) });
        }
        self.collect(now, slot_number(index));
    }

    /// A Connect with a valid gate: its sender knows our key, or repeats a datagram that was recorded from an end that
    /// does.
    pub(super) fn handle_connect(&mut self, now: Time, from: Path, connect: Connect<'_>, size: usize) {
        count(&mut self.counters.connects, 1);
        if connect.pattern != self.settings.credentials.pattern() || size < CONNECT_SIZE {
            return count(&mut self.counters.unauthenticated, 1);
        }
        self.expire_pending(now);
        // The same Connect again: its answer was lost.
        let again =
            self.pending.values_mut().find(|pending| pending.noise == connect.noise && pending.path == from);
        if let Some(pending) = again {
            if self.answers.len() < MAX_ANSWERS {
                pending.answers = pending.answers.saturating_add(1);
                // The end that gets this answer needs time to come with its first packet. A replayed Connect gains a
                // bounded one.
                pending.expires = (now + PENDING_LIFE).min(pending.answered_at + LONGEST_PENDING);
                self.answers.push_back((from, pending.accept.clone()));
            }
            return;
        }
        if self.answers.len() >= MAX_ANSWERS {
            return count(&mut self.counters.limited, 1);
        }
        let is_proven = self.tokens.is_good(connect.token, from.remote, now);
        match self.admit(from, connect.noise, is_proven) {
            Admission::Refused => count(&mut self.counters.limited, 1),
            Admission::Retries => {
                count(&mut self.counters.retries, 1);
                let token = self.tokens.make(from.remote, now, &mut self.random);
                let mut retry = packet::write_retry(connect.from, &token);
                self.gate.close(&mut retry, self.random.array());
                self.answers.push_back((from, retry));
            }
            Admission::Enters => match self.accept(now, from, &connect, is_proven) {
                Some((local, accept)) => {
                    self.routes.insert(local, Route::Pending);
                    self.answers.push_back((from, accept));
                }
                None => count(&mut self.counters.unauthenticated, 1),
            },
        }
    }

    /// Whether there is room for one more handshake from `from`. A sender that has not proven its address may have
    /// written any. So such senders never take the room of those that have: at their bounds a Retry asks them to prove
    /// it.
    fn admit(&mut self, from: Path, noise: &[u8], is_proven: bool) -> Admission {
        let (ip, most) = (from.remote.ip(), self.settings.max_pending);
        let of_address = self
            .pending
            .values()
            .filter(|pending| pending.is_proven == is_proven && pending.path.remote.ip() == ip);
        let is_crowded = of_address.count() >= self.settings.max_pending_per_address;
        if !is_proven {
            // A Noise message is never made twice. Of two addresses that send one, at most one is where it was made.
            let is_copy = self.pending.values().any(|pending| pending.noise == noise);
            let is_full = self.pending.len() >= self.settings.retry_above.min(most);
            return if is_copy || is_crowded || is_full { Admission::Retries } else { Admission::Enters };
        }
        if is_crowded {
            return Admission::Refused;
        }
        if self.pending.len() >= most {
            let others = self.pending.iter().filter(|(_, pending)| !pending.is_proven);
            let Some((&oldest, _)) = others.min_by_key(|(_, pending)| pending.answered_at) else {
                return Admission::Refused;
            };
            self.pending.remove(&oldest);
            self.routes.remove(&oldest);
        }
        Admission::Enters
    }

    /// Noise's part: the answer, and what is kept until the peer's first data packet.
    fn accept(
        &mut self,
        now: Time,
        from: Path,
        connect: &Connect<'_>,
        is_proven: bool,
    ) -> Option<(ConnectionId, Vec<u8>)> {
        let prologue = prologue(connect.pattern, connect.from);
        let mut handshake = Handshake::responder(&self.settings.credentials, &prologue, &mut self.random)?;
        let peer = Parameters::parse(&handshake.read(connect.noise)?)?;
        let identity = match (&self.settings.credentials, handshake.peer()) {
            (Credentials::Pair { peers, .. }, Some(key)) => {
                peers.contains(&key).then_some(PeerId::Key(key))?
            }
            (Credentials::Pair { .. }, None) => return None,
            _ => PeerId::Name(peer.name.clone()),
        };
        let mut local = self.identity.connection_id(&mut self.random);
        while self.routes.contains_key(&local) {
            local = self.identity.connection_id(&mut self.random);
        }
        let reset = self.identity.reset_token(local);
        let is_taken = self.ask_occupant(now, &identity, &peer);
        let instance = peer.instance.map(|asked| [asked, self.instance_for(&identity, asked)]);
        let parameters = Parameters {
            connection: Some(local).filter(|_| !is_taken),
            reset: reset.filter(|_| !is_taken),
            instance: instance.map(|instance| instance[1]).filter(|_| !is_taken),
            refusal: is_taken.then_some(REFUSED_NAME),
            paths: (peer.bonding == Bonding::Sum).then_some(path_number(MAX_PATHS)),
            ..own_parameters(&self.settings)
        };
        let mut payload = Vec::new();
        parameters.write(&mut payload);
        let accept = packet::write_accept(connect.from, &handshake.write(&payload)?);
        let agreed = Agreed {
            secrets: handshake.secrets()?,
            local,
            remote: connect.from,
            path: from,
            instance,
            number: peer.number,
            bonding: peer.bonding,
            spare: peer.spare.then_some(ByteRate::from_bytes_per_second(0)),
            peer,
            rtt: None,
            random: self.random.fork(),
        };
        let pending = Pending {
            path_state: (!is_taken).then(|| PathState::new(now, agreed, &self.settings)),
            path: from,
            noise: connect.noise.to_vec(),
            accept: accept.clone(),
            peer: identity,
            is_proven,
            expires: now + PENDING_LIFE,
            answered_at: now,
            answers: 1,
        };
        self.pending.insert(local, pending);
        Some((local, accept))
    }

    /// Where a peer that wants to come in has the name of another one, on a machine of another boot, that one is asked whether it is
    /// there. Returns whether it answers.
    fn ask_occupant(&mut self, now: Time, identity: &PeerId, peer: &Parameters) -> bool {
        let Some(index) = self.occupant(identity) else { return false };
        let Some(link) = &mut self.slots[index].link else { return false };
        let is_same = peer.instance.is_some() && link.instance().map(|instance| instance[0]) == peer.instance;
        let boots = link.peer_boot().zip(peer.boot);
        if is_same || boots.is_none_or(|(one, other)| one == other) {
            return false;
        }
        let before = std::mem::replace(&mut self.at_work, AtWork::Link(slot_number(index)));
        let is_answering = link.challenge(now, OCCUPANT_SILENCE);
        self.at_work = before;
        is_answering
    }

    /// The place of the link that is up of the peer of this name or key.
    fn occupant(&self, identity: &PeerId) -> Option<usize> {
        let is_up = |slot: &Slot| slot.link.as_ref().is_some_and(Link::is_up);
        self.slots.iter().position(|slot| slot.peer.as_ref() == Some(identity) && is_up(slot))
    }

    /// What we call the state that a peer calls `asked`: there is a link of it, or a handshake on another path, or it is
    /// new.
    fn instance_for(&mut self, peer: &PeerId, asked: u64) -> u64 {
        let links = self.slots.iter().filter(|slot| slot.peer.as_ref() == Some(peer));
        let goes_on = |link: &&Link| link.is_established() || link.is_kept();
        let links = links.filter_map(|slot| slot.link.as_ref().filter(goes_on)?.instance());
        let pending = self.pending.values().filter(|pending| pending.peer == *peer);
        let pending = pending.filter_map(|pending| pending.path_state.as_ref()?.instance);
        let known = links.chain(pending).find(|instance| instance[0] == asked);
        known.map_or_else(|| u64::from_be_bytes(self.random.array()), |instance| instance[1])
    }

    /// A data packet for a handshake that is half done: if it opens, the peer is real and not a replay.
    pub(super) fn handle_first_data(&mut self, now: Time, from: Path, to: ConnectionId, datagram: &mut [u8]) {
        let Some(pending) = self.pending.get_mut(&to) else { return };
        let Some(path) = &mut pending.path_state else { return };
        if !path.opener.would_open(datagram) {
            return count(&mut self.counters.refused, 1);
        }
        let Some(mut pending) = self.pending.remove(&to) else { return };
        let Some(mut path) = pending.path_state.take() else { return };
        // Others may have come meanwhile.
        if self.ask_occupant(now, &pending.peer, &path.peer) {
            return self.say_farewell(now, vec![path], CloseCode::NameTaken, NAME_TAKEN);
        }
        if pending.answers == 1 {
            path.recovery.rtt.update(now - pending.answered_at, Duration::ZERO);
        }
        // The address stays the one that the Accept went to: only the end that got it can have sent this packet,
        // but another machine may have forwarded it from an address that is not the peer's.
        // The peer's older link, if there is one, goes on with this path.
        let known = self.slots.iter().position(|slot| {
            let goes_on = slot.link.as_ref().is_some_and(|link| !link.is_over());
            goes_on && slot.peer.as_ref() == Some(&pending.peer)
        });
        let index = match known {
            Some(index) => slot_number(index),
            None => match self.add_link(now, &[]) {
                Ok(index) => index,
                Err(_) => {
                    self.routes.remove(&to);
                    return count(&mut self.counters.limited, 1);
                }
            },
        };
        self.at_work = AtWork::Link(index);
        let slot = &mut self.slots[index as usize];
        slot.peer = Some(pending.peer);
        let Some(link) = &mut slot.link else { return };
        let mut replaced = Vec::new();
        let is_same = link.instance().is_some() && link.instance() == path.instance;
        // The peer has given its only path up before we have noticed any silence.
        let is_back = link.is_established() && is_same && link.has_only_path(path.number);
        if is_same && (link.is_kept() || is_back && link.suspend(now, CloseReason::TimedOut)) {
            link.resume(now, path);
        } else if is_same && link.is_established() {
            link.join(now, path);
        } else {
            let is_of_one_boot = path.peer.boot.is_some() && link.peer_boot() == path.peer.boot;
            if link.is_established() && is_of_one_boot {
                replaced = link.take_path_states();
            }
            link.establish(now, path);
        }
        self.say_farewell(now, replaced, CloseCode::Replaced, REPLACED);
        self.collect(now, index);
        self.routes.insert(to, Route::Link(index));
        self.handle_data(now, from, to, Ecn::NotCapable, datagram);
        self.gather(index);
    }

    /// Tells the peer of paths that no link has any more why that is, and again when it sends something.
    fn say_farewell(&mut self, now: Time, paths: Vec<PathState>, code: CloseCode, words: &str) {
        for mut path in paths {
            let local = path.local;
            if self.answers.len() < MAX_ANSWERS {
                self.answers.push_back((path.address, path.write_close(code, words)));
            }
            self.routes.remove(&local);
            if self.replaced.len() < MAX_REPLACED {
                self.routes.insert(local, Route::Replaced);
                let (expires, next_at) = (now + REPLACED_LIFE, now + REPLACED_GAP);
                self.replaced.insert(local, Replaced { path, expires, next_at, code });
            }
        }
    }

    /// A data packet for a path that was replaced: its peer has not heard of that.
    pub(super) fn handle_replaced(&mut self, now: Time, from: Path, to: ConnectionId, datagram: &mut [u8]) {
        let Some(replaced) = self.replaced.get_mut(&to) else { return };
        if !replaced.path.opener.would_open(datagram) {
            return count(&mut self.counters.refused, 1);
        }
        if replaced.next_at > now || self.answers.len() >= MAX_ANSWERS {
            return;
        }
        replaced.next_at = now + REPLACED_GAP;
        let words = if replaced.code == CloseCode::Replaced { REPLACED } else { NAME_TAKEN };
        let close = replaced.path.write_close(replaced.code, words);
        // No more than came.
        if close.len() <= datagram.len() || from == replaced.path.address {
            self.answers.push_back((from, close));
        }
    }

    /// A data packet with an ID that we do not know. If it was ours before a restart, its sender is told so.
    pub(super) fn answer_unknown(&mut self, from: Path, to: ConnectionId, size: usize) {
        count(&mut self.counters.strangers, 1);
        // The cheap questions first: strangers' datagrams may be many.
        if self.settings.listen
            && self.answers.len() < MAX_ANSWERS
            && self.identity.is_ours(to)
            && let Some(token) = self.identity.reset_token(to)
        {
            let reset = packet::write_reset(to, token);
            if reset.len() < size {
                count(&mut self.counters.resets, 1);
                self.answers.push_back((from, reset));
            }
        }
    }

    /// The listener says that it does not know our link any more.
    pub(super) fn handle_reset(&mut self, now: Time, of: ConnectionId, token: [u8; 16]) {
        let lost = self.slots.iter().position(|slot| {
            // All bytes are compared whatever the first ones are: time tells nothing about the token.
            slot.link.iter().flat_map(Link::path_states).any(|path| {
                path.remote == of
                    && path.peer.reset.is_some_and(|reset| {
                        reset.iter().zip(&token).fold(0, |difference, (one, two)| difference | (one ^ two))
                            == 0
                    })
            })
        });
        let Some(index) = lost else { return count(&mut self.counters.strangers, 1) };
        self.at_work = AtWork::Link(slot_number(index));
        if let Some(link) = &mut self.slots[index].link
            && link.standing == Standing::Up
            && !link.suspend(now, CloseReason::Reset)
        {
            link.events.push_back(Event::Closed { reason: CloseReason::Reset });
            link.standing = Standing::Closed;
        }
        self.collect(now, slot_number(index));
    }

    pub(super) fn expire_pending(&mut self, now: Time) {
        let routes = &mut self.routes;
        self.pending.retain(|local, pending| {
            let stays = pending.expires > now;
            if !stays {
                routes.remove(local);
            }
            stays
        });
        self.replaced.retain(|local, replaced| {
            let stays = replaced.expires > now;
            if !stays {
                routes.remove(local);
            }
            stays
        });
    }
}

/// How long an end waits that was refused so often.
fn backoff(refusals: u32, random: &mut Random) -> Duration {
    let Some(doublings) = refusals.checked_sub(1) else { return Duration::ZERO };
    let wait = FIRST_BACKOFF.saturating_mul(1 << doublings.min(5)).min(LAST_BACKOFF);
    let [chance] = random.array();
    let step = wait.checked_div(4 * 255).unwrap_or_default();
    wait.saturating_add(step.saturating_mul(u32::from(chance)))
}

/// The numbers that paths of a link may have.
pub(super) fn path_numbers() -> impl Iterator<Item = u8> {
    (0..MAX_PATHS).map(path_number)
}

/// The number of a path by its place; there are [`MAX_PATHS`] at most.
pub(super) fn path_number(role: usize) -> u8 {
    u8::try_from(role).unwrap_or(u8::MAX)
}

/// The number of a slot by its place; there are as many as [`Settings::max_links`] at most.
fn slot_number(index: usize) -> u32 {
    u32::try_from(index).unwrap_or(u32::MAX)
}

/// What we tell a peer about ourselves.
pub(in crate::link) fn own_parameters(settings: &Settings) -> Parameters {
    Parameters {
        max_datagram: settings.datagram_bytes.max(1200),
        window_bytes: settings.window_bytes,
        idle_ms: u64::try_from(settings.idle.as_millis()).unwrap_or(u64::MAX),
        name: settings.name.clone(),
        connection: None,
        reset: None,
        dictionary: settings.dictionary.as_ref().map(|dictionary| dictionary.id()),
        instance: None,
        number: 0,
        bonding: Bonding::Failover,
        spare: false,
        paths: None,
        boot: settings.boot,
        refusal: None,
        stamps: true,
        parity: true,
    }
}
