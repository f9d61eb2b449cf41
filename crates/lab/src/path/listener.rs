//! The end that answers: it sends nothing that a holder of the key has not asked for, and to no address that has not shown that
//! it receives.

use super::bound::RateBound;
use super::train::{TrainReceiver, TrainSender};
use super::wire::{End, Message, Nonce, OpeningKey, REPORT_ARRIVALS, Report, SessionKey, TOKEN, Token};
use super::{Transmit, earlier, header_bytes};
use glassline_media::Time;
use glassline_transport::link::secure::gate::{GATE, Gate};
use glassline_transport::link::{Key, Random};
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// How long a token is good.
const TOKEN_LIFE: Duration = Duration::from_secs(5);
/// A session is over when its caller is silent for this long: longer than any queue holds a request back.
const SILENCE: Duration = Duration::from_secs(20);
/// The longest session, whatever the caller asks for.
const LONGEST: Duration = Duration::from_secs(900);
/// How much longer than it was asked for a session lasts, for the messages at its end.
const GRACE: Duration = Duration::from_secs(10);
/// Answers that wait to be sent.
const MAX_WAITING: usize = 32;
/// Pages of arrivals that one Fetch brings.
const PAGES: usize = 8;
/// Nonces of sessions that are over, which a Start that is sent once more must not begin again.
const MAX_USED: usize = 64;

/// What a listener is like.
#[derive(Clone, Debug)]
pub struct ListenerSettings {
    /// The key that callers have too.
    pub key: Key,
    /// The mean of any second that is not exceeded, bits of IP packets a second.
    pub max_bps: u64,
    /// Randomness of the system.
    pub seed: [u8; 32],
}

/// What a listener tells its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenerEvent {
    /// A session has begun.
    Began {
        /// The caller's address.
        from: SocketAddr,
        /// The bound on both ends, bits a second.
        max_bps: u64,
    },
    /// It is over.
    Ended {
        /// The caller's address.
        from: SocketAddr,
        /// Bytes of IP packets that were sent.
        sent_bytes: u64,
        /// Bytes of IP packets that have arrived.
        received_bytes: u64,
        /// Whether the caller has said so; otherwise it fell silent.
        is_orderly: bool,
    },
}

/// A listener: one session at a time.
#[derive(Debug)]
pub struct Listener {
    settings: ListenerSettings,
    opening: OpeningKey,
    tokens: Gate,
    random: Random,
    session: Option<Session>,
    /// Sessions that have begun in the life of their tokens.
    used: VecDeque<(Nonce, Time)>,
    waiting: VecDeque<Transmit>,
    events: VecDeque<ListenerEvent>,
    /// Datagrams that were no message for a listener with this key.
    rejected: u64,
    /// What the socket has counted.
    socket_dropped: u32,
}

#[derive(Debug)]
struct Session {
    caller: Nonce,
    address: SocketAddr,
    key: SessionKey,
    bound: RateBound,
    max_bps: u64,
    header_bytes: u64,
    heard: Time,
    ends: Time,
    receiver: Option<TrainReceiver>,
    sender: Option<TrainSender>,
    sent_bytes: u64,
    received_bytes: u64,
    /// The socket's count when it began.
    dropped_before: u32,
}

impl Listener {
    /// A listener without a session.
    pub fn new(settings: ListenerSettings) -> Listener {
        let mut random = Random::new(settings.seed);
        Listener {
            opening: OpeningKey::new(&settings.key),
            tokens: Gate::new(&random.array()),
            random,
            settings,
            session: None,
            used: VecDeque::new(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            rejected: 0,
            socket_dropped: 0,
        }
    }

    /// A datagram has come, `received` by the system's stamp.
    pub fn handle_datagram(&mut self, now: Time, received: Time, from: SocketAddr, datagram: &[u8]) {
        self.handle_timeout(now);
        let is_of_session = match &self.session {
            Some(session) if session.address == from => session.key.open(datagram),
            _ => None,
        };
        if let Some(message) = is_of_session {
            return self.handle_session(now, received, datagram.len(), message);
        }
        match self.opening.open(datagram) {
            Some(Message::Hello { caller }) => {
                let token = self.token(from, &caller, now);
                self.answer_opening(from, &Message::Challenge { caller, token });
            }
            Some(Message::Start { caller, token, max_bps, duration_ms }) => {
                if self.is_good(&token, from, &caller, now) {
                    self.start(now, from, caller, token, max_bps, duration_ms);
                } else {
                    self.rejected += 1;
                }
            }
            _ => self.rejected += 1,
        }
    }

    /// How many datagrams the socket has had no room for since it was opened.
    pub fn handle_socket_drops(&mut self, count: u32) {
        self.socket_dropped = count;
    }

    /// The last train's packets of [`Listener::poll_transmit`] were not taken by the system.
    pub fn handle_refused(&mut self, packets: u16) {
        if let Some(sender) = self.session.as_mut().and_then(|session| session.sender.as_mut()) {
            sender.handle_refused(packets);
        }
    }

    /// Datagrams that were no message of a holder of the key.
    pub fn rejected(&self) -> u64 {
        self.rejected
    }

    /// What has happened.
    pub fn poll_event(&mut self) -> Option<ListenerEvent> {
        self.events.pop_front()
    }

    /// The next datagrams that leave now; the owner calls it until it gives `None`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        self.handle_timeout(now);
        if let Some(session) = &mut self.session {
            if let Some(transmit) = session.poll_train(now) {
                return Some(transmit);
            }
            // An answer within a burst would be a packet of it.
            if session
                .sender
                .as_ref()
                .is_some_and(|sender| !sender.is_new() && !sender.is_done() && sender.spec.is_burst())
            {
                return None;
            }
        }
        let transmit = self.waiting.pop_front()?;
        if let Some(session) = self.session.as_mut().filter(|session| session.address == transmit.to) {
            let bytes = transmit.bytes.len() as u64 + session.header_bytes;
            if !session.bound.allows(now, bytes) {
                // The caller asks again.
                return None;
            }
            session.note_sent(now, bytes, false);
        }
        Some(transmit)
    }

    /// When [`Listener::poll_transmit`] has something to do next; changes with each call of another function.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        if !self.waiting.is_empty() {
            return Some(now);
        }
        let session = self.session.as_ref()?;
        let over = session.ends.min(session.heard + SILENCE);
        earlier(Some(over), session.train_at(now))
    }

    /// Whether packets of a burst follow within microseconds, so that it is not worth while to sleep.
    pub fn is_in_burst(&self) -> bool {
        let sender = self.session.as_ref().and_then(|session| session.sender.as_ref());
        sender.is_some_and(|sender| sender.spec.is_burst() && !sender.is_new() && !sender.is_done())
    }

    fn handle_timeout(&mut self, now: Time) {
        while self.used.front().is_some_and(|(_, at)| now.since(*at) >= TOKEN_LIFE * 2) {
            self.used.pop_front();
        }
        if self
            .session
            .as_ref()
            .is_some_and(|session| now >= session.ends || now.since(session.heard) >= SILENCE)
        {
            self.end(false);
        }
    }

    fn end(&mut self, is_orderly: bool) {
        let Some(session) = self.session.take() else { return };
        self.events.push_back(ListenerEvent::Ended {
            from: session.address,
            sent_bytes: session.sent_bytes,
            received_bytes: session.received_bytes,
            is_orderly,
        });
    }

    /// What a token authenticates: the address, the caller's nonce and the time.
    fn token_body(from: SocketAddr, caller: &Nonce, made: [u8; 8]) -> Vec<u8> {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        [&ip.octets()[..], &from.port().to_be_bytes(), caller, &made].concat()
    }

    fn token(&mut self, from: SocketAddr, caller: &Nonce, now: Time) -> Token {
        let made = now.as_nanos().to_be_bytes();
        let mut body = Listener::token_body(from, caller, made);
        let length = body.len();
        self.tokens.close(&mut body, self.random.array());
        let mut token = [0; TOKEN];
        token[..8].copy_from_slice(&made);
        token[8..].copy_from_slice(&body[length..]);
        token
    }

    fn is_good(&self, token: &Token, from: SocketAddr, caller: &Nonce, now: Time) -> bool {
        const { assert!(TOKEN == 8 + GATE) };
        let (made, seal) = token.split_at(8);
        let Ok(made) = <[u8; 8]>::try_from(made) else { return false };
        let mut body = Listener::token_body(from, caller, made);
        body.extend_from_slice(seal);
        let made = Time::from_nanos(u64::from_be_bytes(made));
        self.tokens.open(&body).is_some() && made <= now && now.since(made) < TOKEN_LIFE
    }

    fn answer_opening(&mut self, to: SocketAddr, message: &Message) {
        let bytes = self.opening.seal(message, self.random.array());
        self.push(Transmit { to, segment_bytes: bytes.len(), bytes, is_train: false });
    }

    fn push(&mut self, transmit: Transmit) {
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back(transmit);
        }
    }

    fn start(
        &mut self,
        now: Time,
        from: SocketAddr,
        caller: Nonce,
        token: Token,
        max_bps: u64,
        duration_ms: u32,
    ) {
        if let Some(session) = &self.session {
            let message = if session.caller == caller && session.address == from {
                Message::Accept { caller, max_bps: session.max_bps }
            } else {
                Message::Busy { caller }
            };
            return self.answer_opening(from, &message);
        }
        if self.used.iter().any(|(used, _)| *used == caller) {
            self.rejected += 1;
            return;
        }
        if self.used.len() >= MAX_USED {
            self.used.pop_front();
        }
        self.used.push_back((caller, now));
        let max_bps = max_bps.min(self.settings.max_bps);
        let duration = Duration::from_millis(duration_ms.into()).min(LONGEST);
        self.session = Some(Session {
            caller,
            address: from,
            key: SessionKey::new(&self.settings.key, &caller, &token, End::Listener),
            bound: RateBound::new(max_bps),
            max_bps,
            header_bytes: header_bytes(from),
            heard: now,
            ends: now + duration + GRACE,
            receiver: None,
            sender: None,
            sent_bytes: 0,
            received_bytes: 0,
            dropped_before: self.socket_dropped,
        });
        self.events.push_back(ListenerEvent::Began { from, max_bps });
        self.answer_opening(from, &Message::Accept { caller, max_bps });
    }

    fn handle_session(&mut self, now: Time, received: Time, length: usize, message: Message) {
        let Some(session) = &mut self.session else { return };
        session.heard = now;
        session.received_bytes += length as u64 + session.header_bytes;
        match message {
            Message::Packet { train, index, sent_ns } => {
                session.handle_packet(train, index, sent_ns, received);
            }
            Message::Ask { train, spec } => {
                let newest = session.sender.as_ref().map(|sender| sender.number);
                let bytes = spec.wire_bytes(session.header_bytes);
                let fits = !spec.is_burst() || bytes <= session.bound.longest_train_bytes();
                if newest.is_none_or(|newest| train > newest) && fits {
                    session.sender = Some(TrainSender::new(train, spec, session.header_bytes));
                } else if let Some(sender) = session.sender.as_ref().filter(|sender| sender.number == train) {
                    // While it is being sent there is no answer: it would be a packet of the burst.
                    let sent = sender.is_done().then(|| sender.sent());
                    if sender.is_new() || sender.is_done() {
                        self.answer(&Message::Sent { train, sent });
                    }
                }
            }
            Message::Fetch { train, first } => self.report(now, train, first),
            Message::Bye => self.end(true),
            _ => {}
        }
    }

    fn answer(&mut self, message: &Message) {
        let Some(session) = &mut self.session else { return };
        let mut bytes = Vec::new();
        session.key.seal(message, 0, &mut bytes);
        let transmit = Transmit { to: session.address, segment_bytes: bytes.len(), bytes, is_train: false };
        self.push(transmit);
    }

    /// Answers a Fetch: some pages of arrivals, or an empty one.
    fn report(&mut self, now: Time, train: u16, first: u16) {
        let Some(session) = &self.session else { return };
        let receiver = session.receiver.as_ref().filter(|receiver| receiver.number == train);
        let arrivals = receiver.map_or(&[][..], |receiver| &receiver.arrivals);
        let count = |length: usize| u16::try_from(length).unwrap_or(u16::MAX);
        let wanted = arrivals.get(usize::from(first)..).unwrap_or_default();
        let report = |first: u16, page: &[super::Arrival]| {
            Message::Report(Report {
                train,
                now_ns: now.as_nanos(),
                arrived: count(arrivals.len()),
                duplicates: receiver.map_or(0, |receiver| receiver.duplicates),
                dropped: self.socket_dropped.wrapping_sub(session.dropped_before),
                first,
                arrivals: page.iter().map(|arrival| (arrival.index, arrival.received_ns)).collect(),
            })
        };
        let mut messages: Vec<Message> = Vec::new();
        let mut place = first;
        for page in wanted.chunks(REPORT_ARRIVALS).take(PAGES) {
            messages.push(report(place, page));
            place = place.saturating_add(count(page.len()));
        }
        if messages.is_empty() {
            messages.push(report(first, &[]));
        }
        messages.iter().for_each(|message| self.answer(message));
    }
}

impl Session {
    fn handle_packet(&mut self, train: u16, index: u16, sent_ns: u64, received: Time) {
        if self.receiver.as_ref().is_none_or(|receiver| receiver.number < train) {
            self.receiver = Some(TrainReceiver::new(train));
        }
        // Packets of a train before this one come too late.
        if let Some(receiver) = self.receiver.as_mut().filter(|receiver| receiver.number == train) {
            receiver.handle(index, sent_ns, received);
        }
    }

    fn note_sent(&mut self, now: Time, bytes: u64, is_train: bool) {
        self.sent_bytes += bytes;
        self.bound.note(now, bytes, is_train);
    }

    /// When the next packets of the train may be sent.
    fn train_at(&self, now: Time) -> Option<Time> {
        let sender = self.sender.as_ref()?;
        let due = sender.due()?.max(now);
        next_train_time(sender, &self.bound, due, self.header_bytes)
    }

    fn poll_train(&mut self, now: Time) -> Option<Transmit> {
        if self.train_at(now)? > now {
            return None;
        }
        let sender = self.sender.as_mut()?;
        let transmit =
            send_train(sender, &mut self.key, &mut self.bound, now, self.header_bytes, self.address);
        self.sent_bytes += wire_bytes(&transmit, self.header_bytes);
        Some(transmit)
    }
}

/// When a train goes on that is due at `due`, by the bound: a burst begins where all of it may follow.
pub(super) fn next_train_time(
    sender: &TrainSender,
    bound: &RateBound,
    due: Time,
    header_bytes: u64,
) -> Option<Time> {
    if !sender.spec.is_burst() {
        let longest = sender.spec.payload_at(sender.spec.packets.saturating_sub(1));
        return bound.train_at(due, u64::from(longest) + header_bytes);
    }
    if sender.is_new() { bound.train_at(due, sender.spec.wire_bytes(header_bytes)) } else { Some(due) }
}

/// The next packets of a train.
pub(super) fn send_train(
    sender: &mut TrainSender,
    key: &mut SessionKey,
    bound: &mut RateBound,
    now: Time,
    header_bytes: u64,
    to: SocketAddr,
) -> Transmit {
    if sender.is_new() && sender.spec.is_burst() {
        bound.reserve(sender.spec.wire_bytes(header_bytes));
    }
    let (places, payload) = sender.next(now);
    let payload = usize::from(payload);
    let mut bytes = Vec::with_capacity(places.len() * payload);
    for index in places {
        let message = Message::Packet { train: sender.number, index, sent_ns: now.as_nanos() };
        key.seal(&message, payload, &mut bytes);
    }
    let transmit = Transmit { to, segment_bytes: payload, bytes, is_train: true };
    bound.note(now, wire_bytes(&transmit, header_bytes), sender.spec.is_burst());
    transmit
}

/// Bytes of the IP packets of datagrams.
pub(super) fn wire_bytes(transmit: &Transmit, header_bytes: u64) -> u64 {
    let datagrams = transmit.bytes.len().div_ceil(transmit.segment_bytes.max(1)) as u64;
    transmit.bytes.len() as u64 + datagrams * header_bytes
}
