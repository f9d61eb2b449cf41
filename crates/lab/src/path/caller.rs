//! The end that decides what is measured, and when.

use super::analysis::{Findings, analyse};
use super::bound::RateBound;
use super::direction::DirectionRecord;
use super::listener::{next_train_time, send_train, wire_bytes};
use super::plan::{BurstPlan, NextBurst};
use super::step::{Downward, Step, Upward};
use super::train::{TrainSender, TrainSpec};
use super::wire::{End, Message, Nonce, OpeningKey, SessionKey, Token};
use super::{MAX_BURST, MIN_PACKET_BYTES, PACKET_BYTES, PathReport, Transmit, earlier, header_bytes, nanos};
use glassline_media::Time;
use glassline_transport::link::{Key, Random};
use std::net::SocketAddr;
use std::time::Duration;
use thiserror::Error;

/// An opening message is sent again after this.
const RETRY: Duration = Duration::from_millis(300);
/// How long the listener may take to answer.
const CONNECT: Duration = Duration::from_secs(5);
/// Requests are repeated after one and a half round trips, and within these.
const REPEAT: (Duration, Duration) = (Duration::from_millis(40), Duration::from_millis(250));
/// How long the listener may be silent, beside what the queue of a burst takes.
const SILENCE: Duration = Duration::from_secs(5);
/// The time that a packet of a burst may take before the line's rate is known: that of 1 Mbit/s.
const SLOW_PACKET: Duration = Duration::from_millis(10);
/// Small packets far apart, for the path without load: a second, 205 kbit/s.
const IDLE: TrainSpec = TrainSpec { packets: 200, payload_bytes: 100, growth_bytes: 0, gap_us: 5_000 };
/// The share of the time that the search for the MTU may take: one of this.
const MTU_SHARE: u32 = 6;
/// How often the end of the session is said.
const BYES: u8 = 3;
const BETWEEN_BYES: Duration = Duration::from_millis(10);

/// What a caller is like.
#[derive(Clone, Debug)]
pub struct CallerSettings {
    /// The key that the listener has too.
    pub key: Key,
    /// The listener's address.
    pub listener: SocketAddr,
    /// The mean of any second that neither end may exceed, bits of IP packets a second.
    pub max_bps: u64,
    /// How long the measurement may take, from the listener's answer on.
    pub duration: Duration,
    /// Randomness of the system.
    pub seed: [u8; 32],
}

/// Why a measurement did not come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum Failure {
    /// Nothing came back.
    #[error("{listener} does not answer")]
    NoAnswer {
        /// The address that was called.
        listener: SocketAddr,
    },
    /// Another session is running there.
    #[error("{listener} is measuring with another caller")]
    Busy {
        /// The address that was called.
        listener: SocketAddr,
    },
    /// The listener has fallen silent after it had answered.
    #[error("{listener} has fallen silent")]
    Silent {
        /// The address that was called.
        listener: SocketAddr,
    },
}

/// A measurement as it runs.
#[derive(Debug)]
pub struct Caller {
    settings: CallerSettings,
    opening: OpeningKey,
    random: Random,
    nonce: Nonce,
    header_bytes: u64,
    phase: Phase,
    /// The first message was sent then.
    began: Option<Time>,
    retry_at: Time,
    /// The time of the opening message that was not answered yet.
    asked: Time,
    round_trip: Duration,
    session: Option<Session>,
    up: DirectionRecord,
    down: DirectionRecord,
    failure: Option<Failure>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Hello,
    Start(Token),
    Idle,
    Mtu,
    Bursts { is_up: bool },
    Bye(u8),
    Over,
}

#[derive(Debug)]
struct Session {
    key: SessionKey,
    bound: RateBound,
    max_bps: u64,
    began: Time,
    deadline: Time,
    /// The phase that runs ends then.
    phase_ends: Time,
    heard: Time,
    step: Option<Step>,
    steps: u16,
    plan: BurstPlan,
    /// What follows from the bursts of the direction that is measured.
    findings: Findings,
    /// How long the line takes for a packet, as far as is known.
    packet_time: Duration,
    sent_bytes: u64,
    received_bytes: u64,
}

impl Caller {
    /// A caller that has not sent anything.
    pub fn new(settings: CallerSettings) -> Caller {
        let mut random = Random::new(settings.seed);
        let header_bytes = header_bytes(settings.listener);
        Caller {
            opening: OpeningKey::new(&settings.key),
            nonce: random.array(),
            random,
            header_bytes,
            settings,
            phase: Phase::Hello,
            began: None,
            retry_at: Time::ZERO,
            asked: Time::ZERO,
            round_trip: RETRY,
            session: None,
            up: DirectionRecord::new(header_bytes),
            down: DirectionRecord::new(header_bytes),
            failure: None,
        }
    }

    /// Whether it has ended.
    pub fn is_over(&self) -> bool {
        self.phase == Phase::Over
    }

    /// Why it ended early, if it did.
    pub fn failure(&self) -> Option<Failure> {
        self.failure
    }

    /// How far it is, from 0 to 1, and what it does.
    pub fn progress(&self, now: Time) -> (f64, String) {
        let Some(session) = &self.session else { return (0.0, "calling".to_owned()) };
        let share = now.since(session.began).as_secs_f64() / self.settings.duration.as_secs_f64();
        let what = match self.phase {
            Phase::Idle => "the path without load".to_owned(),
            Phase::Mtu => "the largest packet".to_owned(),
            Phase::Bursts { is_up } => {
                let step = session.step.as_ref();
                let up = step.and_then(|step| Some(step.up.as_ref()?.sender.spec.packets));
                let packets = up.or(step.and_then(|step| Some(step.down.as_ref()?.spec.packets)));
                let direction = if is_up { "up" } else { "down" };
                packets.map_or(format!("bursts {direction}"), |packets| {
                    format!("{direction}: a burst of {packets}")
                })
            }
            _ => "ending".to_owned(),
        };
        (share.min(1.0), what)
    }

    /// What was measured so far.
    pub fn report(&self) -> PathReport {
        let session = self.session.as_ref();
        PathReport::new(
            &self.up,
            &self.down,
            session.map(|_| self.round_trip),
            session.map_or(self.settings.max_bps, |session| session.max_bps),
            session.map_or((0, 0), |session| (session.sent_bytes, session.received_bytes)),
        )
    }

    /// What was recorded of the way up and of the way down.
    pub fn records(&self) -> (&DirectionRecord, &DirectionRecord) {
        (&self.up, &self.down)
    }

    /// Ends the measurement with what there is.
    pub fn end(&mut self, now: Time) {
        if self.session.is_none() {
            self.phase = Phase::Over;
        } else if !matches!(self.phase, Phase::Bye(_) | Phase::Over) {
            self.give_up(now, "the measurement was ended");
        }
    }

    /// Ends the session before its time. A train that has not arrived whole tells nothing.
    fn give_up(&mut self, now: Time, reason: &str) {
        for record in [&mut self.up, &mut self.down] {
            record.stopped.get_or_insert_with(|| reason.to_owned());
        }
        if let Some(session) = &mut self.session {
            session.step = None;
        }
        self.say_bye(now);
    }

    /// A datagram has come, `received` by the system's stamp.
    pub fn handle_datagram(&mut self, now: Time, received: Time, from: SocketAddr, datagram: &[u8]) {
        if from != self.settings.listener {
            return;
        }
        if let Some(session) = &mut self.session {
            let Some(message) = session.key.open(datagram) else { return };
            session.heard = now;
            session.received_bytes += datagram.len() as u64 + self.header_bytes;
            self.handle_message(now, received, message);
            return;
        }
        match (self.opening.open(datagram), self.phase) {
            (Some(Message::Challenge { caller, token }), Phase::Hello) if caller == self.nonce => {
                self.round_trip = now.since(self.asked);
                (self.phase, self.retry_at) = (Phase::Start(token), now);
            }
            (Some(Message::Accept { caller, max_bps }), Phase::Start(token)) if caller == self.nonce => {
                self.round_trip = self.round_trip.min(now.since(self.asked));
                self.begin(now, &token, max_bps.min(self.settings.max_bps));
            }
            (Some(Message::Busy { caller }), Phase::Start(_)) if caller == self.nonce => {
                self.failure = Some(Failure::Busy { listener: from });
                self.phase = Phase::Over;
            }
            _ => {}
        }
    }

    /// How many datagrams the socket has had no room for since it was opened.
    pub fn handle_socket_drops(&mut self, count: u32) {
        self.down.socket_dropped = count;
    }

    /// The last train's packets of [`Caller::poll_transmit`] were not taken by the system.
    pub fn handle_refused(&mut self, packets: u16) {
        if let Some(up) = self.session.as_mut().and_then(|session| session.step.as_mut()?.up.as_mut()) {
            up.sender.handle_refused(packets);
        }
    }

    /// The next datagrams that leave now; the owner calls it until it gives `None`.
    pub fn poll_transmit(&mut self, now: Time) -> Option<Transmit> {
        match self.phase {
            Phase::Hello | Phase::Start(_) => self.poll_opening(now),
            Phase::Bye(left) => self.poll_bye(now, left),
            Phase::Over => None,
            Phase::Idle | Phase::Mtu | Phase::Bursts { .. } => {
                self.advance(now);
                self.poll_step(now)
            }
        }
    }

    /// When [`Caller::poll_transmit`] has something to do next; changes with each call of another function.
    #[must_use]
    pub fn poll_timeout(&self, now: Time) -> Option<Time> {
        let Some(session) = &self.session else { return (!self.is_over()).then_some(self.retry_at) };
        match self.phase {
            Phase::Over => None,
            Phase::Bye(_) => Some(self.retry_at),
            _ => {
                let mut next = Some(session.phase_ends.min(session.silent_at()));
                let Some(step) = &session.step else { return Some(now) };
                if let Some(up) = &step.up {
                    let due = up.sender.due().map(|due| due.max(now));
                    let train = due
                        .and_then(|due| next_train_time(&up.sender, &session.bound, due, self.header_bytes));
                    next = earlier(next, train);
                    if up.sender.is_done() && !up.is_complete() {
                        next = earlier(next, Some(up.fetch_at));
                    }
                }
                if let Some(down) = &step.down {
                    // Of two trains the one upwards may be the last, which its reports tell.
                    let complete = down
                        .complete_at(self.round_trip)
                        .filter(|at| *at > now || step.is_complete(now, self.round_trip));
                    next = earlier(next, complete);
                    if !down.is_sent() {
                        next = earlier(next, Some(down.ask_at));
                    }
                }
                next
            }
        }
    }

    /// Whether packets of a burst follow within microseconds, so that it is not worth while to sleep.
    pub fn is_in_burst(&self) -> bool {
        let up = self.session.as_ref().and_then(|session| session.step.as_ref()?.up.as_ref());
        up.is_some_and(|up| up.sender.spec.is_burst() && !up.sender.is_new() && !up.sender.is_done())
    }

    fn poll_opening(&mut self, now: Time) -> Option<Transmit> {
        let listener = self.settings.listener;
        let began = *self.began.get_or_insert(now);
        if now.since(began) >= CONNECT {
            self.failure = Some(Failure::NoAnswer { listener });
            self.phase = Phase::Over;
            return None;
        }
        if now < self.retry_at {
            return None;
        }
        (self.retry_at, self.asked) = (now + RETRY, now);
        let caller = self.nonce;
        let message = match self.phase {
            Phase::Start(token) => {
                let duration_ms = u32::try_from(self.settings.duration.as_millis()).unwrap_or(u32::MAX);
                Message::Start { caller, token, max_bps: self.settings.max_bps, duration_ms }
            }
            _ => Message::Hello { caller },
        };
        let bytes = self.opening.seal(&message, self.random.array());
        Some(Transmit { to: listener, segment_bytes: bytes.len(), bytes, is_train: false })
    }

    fn begin(&mut self, now: Time, token: &Token, max_bps: u64) {
        let bound = RateBound::new(max_bps);
        let most = bound.longest_train_bytes() / (u64::from(PACKET_BYTES) + self.header_bytes);
        let most = u16::try_from(most).unwrap_or(u16::MAX).min(MAX_BURST);
        let deadline = now + self.settings.duration;
        self.session = Some(Session {
            key: SessionKey::new(&self.settings.key, &self.nonce, token, End::Caller),
            bound,
            max_bps,
            began: now,
            deadline,
            phase_ends: deadline,
            heard: now,
            step: None,
            steps: 0,
            plan: BurstPlan::new(most),
            findings: Findings::default(),
            packet_time: SLOW_PACKET,
            sent_bytes: 0,
            received_bytes: 0,
        });
        self.phase = Phase::Idle;
    }

    fn handle_message(&mut self, now: Time, received: Time, message: Message) {
        let round_trip = self.round_trip;
        let Some(step) = self.session.as_mut().and_then(|session| session.step.as_mut()) else { return };
        match message {
            Message::Packet { train, index, sent_ns } if train == step.number => {
                if let Some(down) = &mut step.down {
                    down.receiver.handle(index, sent_ns, received);
                }
            }
            Message::Sent { train, sent } if train == step.number => {
                if let Some(down) = &mut step.down {
                    down.handle_sent(sent, now);
                }
            }
            Message::Report(report) if report.train == step.number => {
                self.up.socket_dropped = report.dropped;
                if let Some(up) = &mut step.up {
                    up.handle_report(&report, now, round_trip);
                }
            }
            _ => {}
        }
    }

    /// Goes on to the next step, phase, or the end.
    fn advance(&mut self, now: Time) {
        let Some(session) = &mut self.session else { return };
        if now >= session.silent_at() {
            self.failure = Some(Failure::Silent { listener: self.settings.listener });
            self.give_up(now, "the listener has fallen silent");
            return;
        }
        let is_complete = session.step.as_ref().is_some_and(|step| step.is_complete(now, self.round_trip));
        let is_late = now >= session.phase_ends;
        if session.step.is_some() && !is_complete && !is_late {
            return;
        }
        if is_complete {
            self.keep_step();
        } else if let Some(session) = self.session.as_mut().filter(|session| session.step.is_some()) {
            // Of a burst that has not arrived whole within the time nothing can be told.
            session.step = None;
            let reason = "the time was over while a burst was still arriving: a longer --duration helps";
            match self.phase {
                Phase::Bursts { is_up: true } => self.up.stopped = Some(reason.to_owned()),
                Phase::Bursts { is_up: false } => self.down.stopped = Some(reason.to_owned()),
                _ => {}
            }
        }
        while self.session.as_ref().is_some_and(|session| session.step.is_none())
            && !matches!(self.phase, Phase::Bye(_) | Phase::Over)
        {
            self.next_step(now);
        }
    }

    /// Takes down what is known of the step that runs.
    fn keep_step(&mut self) {
        let Some(step) = self.session.as_mut().and_then(|session| session.step.take()) else { return };
        for (train, record) in [
            (step.up.map(|up| up.record()), &mut self.up),
            (step.down.map(|down| down.record()), &mut self.down),
        ] {
            let Some(train) = train else { continue };
            match self.phase {
                Phase::Idle => record.idle = Some(train),
                Phase::Mtu => record.mtu.take(&train),
                _ => {
                    record.bursts.push(train);
                    if let Some(session) = &mut self.session {
                        session.findings = analyse(record);
                        let seconds = session.findings.packet_seconds;
                        session.packet_time =
                            seconds.map_or(SLOW_PACKET, |time| Duration::from_secs_f64(time.clamp(0.0, 1.0)));
                    }
                }
            }
        }
    }

    /// Begins the next step of the phase, or the next phase.
    fn next_step(&mut self, now: Time) {
        let (header_bytes, round_trip) = (self.header_bytes, self.round_trip);
        let Some(session) = &mut self.session else { return };
        let is_late = now >= session.phase_ends;
        let (up, down) = match self.phase {
            Phase::Idle if self.up.idle.is_none() && self.down.idle.is_none() && !is_late => {
                session.phase_ends = now + self.settings.duration / 3;
                (Some(IDLE), Some(IDLE))
            }
            Phase::Idle => {
                self.phase = Phase::Mtu;
                session.phase_ends = now + self.settings.duration / MTU_SHARE;
                return;
            }
            Phase::Mtu => {
                let next = |record: &mut DirectionRecord| record.mtu.next().filter(|_| !is_late);
                match (next(&mut self.up), next(&mut self.down)) {
                    (None, None) => {
                        self.phase = Phase::Bursts { is_up: true };
                        session.phase_ends = now + session.deadline.since(now) / 2;
                        return;
                    }
                    next => next,
                }
            }
            Phase::Bursts { is_up } => {
                let record = if is_up { &mut self.up } else { &mut self.down };
                let left = session.phase_ends.since(now);
                match session.plan.next(&session.findings, left, round_trip) {
                    NextBurst::Send(packets) if !is_late => {
                        let spec = Some(TrainSpec::burst(packets));
                        if is_up { (spec, None) } else { (None, spec) }
                    }
                    NextBurst::Stop(reason) => {
                        record.stopped.get_or_insert(reason);
                        (None, None)
                    }
                    _ => (None, None),
                }
            }
            Phase::Bye(_) | Phase::Over | Phase::Hello | Phase::Start(_) => return,
        };
        if up.is_none() && down.is_none() {
            let Phase::Bursts { is_up: true } = self.phase else { return self.say_bye(now) };
            self.phase = Phase::Bursts { is_up: false };
            session.phase_ends = session.deadline;
            session.plan.begin_anew();
            (session.findings, session.packet_time) = (Findings::default(), SLOW_PACKET);
            return;
        }
        session.steps += 1;
        let number = session.steps;
        session.step = Some(Step {
            number,
            up: up.map(|spec| Upward::new(TrainSender::new(number, spec, header_bytes))),
            down: down.map(|spec| Downward::new(number, spec)),
        });
    }

    fn poll_step(&mut self, now: Time) -> Option<Transmit> {
        let (to, header_bytes) = (self.settings.listener, self.header_bytes);
        let repeat = (self.round_trip * 3 / 2).clamp(REPEAT.0, REPEAT.1);
        let session = self.session.as_mut()?;
        let step = session.step.as_mut()?;
        let mut message = None;
        if let Some(up) = &mut step.up {
            let due = up.sender.due().map(|due| due.max(now));
            let at = due.and_then(|due| next_train_time(&up.sender, &session.bound, due, header_bytes));
            if at.is_some_and(|at| at <= now) {
                let transmit =
                    send_train(&mut up.sender, &mut session.key, &mut session.bound, now, header_bytes, to);
                session.sent_bytes += wire_bytes(&transmit, header_bytes);
                if up.sender.is_done() {
                    up.fetch_at = now;
                }
                return Some(transmit);
            }
            if up.sender.spec.is_burst() && !up.sender.is_new() && !up.sender.is_done() {
                return None;
            }
            if up.sender.is_done() && !up.is_complete() && now >= up.fetch_at {
                up.fetch_at = now + repeat;
                message = Some(Message::Fetch { train: step.number, first: up.first_missing() });
            }
        }
        if let Some(down) =
            step.down.as_mut().filter(|down| message.is_none() && !down.is_sent() && now >= down.ask_at)
        {
            let takes = Duration::from_micros(u64::from(down.spec.gap_us) * u64::from(down.spec.packets));
            let is_first = down.ask_at == Time::ZERO;
            down.ask_at = now + if is_first { repeat.max(takes) } else { repeat };
            message = Some(Message::Ask { train: step.number, spec: down.spec });
        }
        let mut bytes = Vec::new();
        session.key.seal(&message?, usize::from(MIN_PACKET_BYTES), &mut bytes);
        let wire = bytes.len() as u64 + header_bytes;
        if !session.bound.allows(now, wire) {
            return None;
        }
        session.bound.note(now, wire, false);
        session.sent_bytes += wire;
        Some(Transmit { to, segment_bytes: bytes.len(), bytes, is_train: false })
    }

    fn say_bye(&mut self, now: Time) {
        (self.phase, self.retry_at) = (Phase::Bye(BYES), now);
    }

    fn poll_bye(&mut self, now: Time, left: u8) -> Option<Transmit> {
        if now < self.retry_at {
            return None;
        }
        let session = self.session.as_mut()?;
        let mut bytes = Vec::new();
        session.key.seal(&Message::Bye, 0, &mut bytes);
        session.sent_bytes += bytes.len() as u64 + self.header_bytes;
        self.retry_at = now + BETWEEN_BYES;
        self.phase = if left <= 1 { Phase::Over } else { Phase::Bye(left - 1) };
        Some(Transmit { to: self.settings.listener, segment_bytes: bytes.len(), bytes, is_train: false })
    }
}

impl Session {
    /// When a listener that has not been heard by then has gone.
    fn silent_at(&self) -> Time {
        let packets = self.step.as_ref().map_or(0, |step| {
            let up = step.up.as_ref().map_or(0, |up| up.sender.spec.packets);
            up.max(step.down.as_ref().map_or(0, |down| down.spec.packets))
        });
        let queued = self.packet_time.saturating_mul(packets.into());
        // A bound on the rate may hold a burst back for a second.
        Time::from_nanos(self.heard.as_nanos().saturating_add(nanos(SILENCE + queued)))
            + Duration::from_secs(1)
    }
}
