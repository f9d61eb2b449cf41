//! A server that takes a stream, or one of several, from the first attempt on.
//!
//! ```text
//!            connected: head goes out, key frame asked for
//! Connecting ─────────────────────────────────────────────► Open ── key frame comes ──► sends each picture
//!     ▲  └─ failed: Waiting, again after a growing pause ─┘   │  ▲                          │ slower than the stream
//!     │                                                       │  └── key frame comes ◄── leaves pictures out
//!     └───── closed, or nothing taken for too long ───────────┘        an answer of 4xx ends it: Over
//! ```
//! With several servers ([`super::servers`] says which is asked when) the key frame is asked for when the server has said that
//! it takes the stream: each attempt that is refused would cost one.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::connection::{Connection, Gap, Reply};
use super::event::Event;
use super::follows::{FOLLOWS, FOLLOWS_FIELD};
use super::servers::{DetourError, Servers};
use super::{Answer, Loss, Policy, PushFailure};
use crate::http1::{Method, Url};
use crate::stream::Seams;
use glassline_media::Time;
use std::collections::VecDeque;

/// What to do with the server's socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Output {
    /// Open a connection to this host and port, and tell what came of it. What comes of an earlier attempt is of no use any more.
    Connect {
        /// Name or address, of IPv6 without brackets.
        host: String,
        /// Port.
        port: u16,
        /// Whether to speak TLS there.
        tls: bool,
    },
    /// Close the connection.
    Close,
}

/// What became of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// They go to the server, so many bytes of whole pictures now.
    Taken(usize),
    /// Nothing goes there now, or nothing that can begin with these.
    Waiting,
    /// They were left out.
    LeftOut,
}

/// Pushes one stream. Holds what the socket has not taken yet, at most [`Policy::pending_max_bytes`] and a picture.
pub struct Pusher {
    servers: Servers,
    key: Option<String>,
    policy: Policy,
    state: State,
    /// When a connection that had carried the stream was lost.
    lost: Option<Time>,
    /// What no server has had since then.
    gap: Option<Gap>,
    /// Whether servers are asked whether they take the stream, before it goes there.
    asks_consent: bool,
    wants_key_frame: bool,
    outputs: VecDeque<Output>,
    events: VecDeque<Event>,
}

/// How a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ending {
    /// Without a word.
    Broken,
    /// The server does not take the stream at the moment.
    NotYet,
    /// The server has led elsewhere.
    Moved,
    /// The server does not take the stream.
    Refused,
}

enum State {
    Waiting {
        until: Time,
    },
    /// Where another server can be asked, it is at this time.
    Connecting {
        until: Option<Time>,
    },
    Open(Box<Connection>),
    Over(Result<(), PushFailure>),
}

impl Pusher {
    /// A pusher to `first`, or where that does not take the stream to one of `further`, in turn; its first attempt is due at once.
    /// `key` is what publishers show; `seed` makes its waits differ from those of others.
    #[must_use]
    pub fn new(
        first: Url,
        further: Vec<Url>,
        key: Option<&str>,
        policy: Policy,
        seed: u64,
        now: Time,
    ) -> Pusher {
        let servers = Servers::new(first, further, &policy, seed);
        Pusher {
            asks_consent: servers.are_several(),
            servers,
            key: key.map(str::to_owned),
            policy,
            state: State::Waiting { until: now },
            lost: None,
            gap: None,
            wants_key_frame: false,
            outputs: VecDeque::new(),
            events: VecDeque::new(),
        }
    }

    /// How patient it is.
    #[must_use]
    pub fn policy(&self) -> &Policy {
        &self.policy
    }

    /// The place in the list, counted from 0, of the server that is asked now, or that has led elsewhere.
    #[must_use]
    pub fn place(&self) -> usize {
        self.servers.place()
    }

    /// What to do next with the socket, in order.
    pub fn poll_output(&mut self) -> Option<Output> {
        self.outputs.pop_front()
    }

    /// What has happened, in order.
    pub fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// Whether the next picture had better be a key frame; told once.
    pub fn take_demand(&mut self) -> bool {
        std::mem::take(&mut self.wants_key_frame)
    }

    /// Whether there is a connection, whether or not it takes the stream.
    #[must_use]
    pub fn is_connected(&self) -> bool {
        matches!(self.state, State::Open(_))
    }

    /// Whether there is a connection that takes the stream.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(&self.state, State::Open(connection) if connection.is_open())
    }

    /// How it has ended, once it has: nothing is done any more.
    #[must_use]
    pub fn result(&self) -> Option<&Result<(), PushFailure>> {
        match &self.state {
            State::Over(result) => Some(result),
            _ => None,
        }
    }

    /// When [`Pusher::handle_timeout`] has something to do. Every other call but the `poll_` ones may change it.
    #[must_use]
    pub fn poll_timeout(&self) -> Option<Time> {
        match &self.state {
            State::Waiting { until } => Some(*until),
            State::Connecting { until } => *until,
            State::Over(_) => None,
            State::Open(connection) => {
                // Once an answer comes, or nothing more can be sent, it alone is waited for.
                let answer = connection.reply.since.map(|since| since + self.policy.answer_timeout);
                let blocked = connection.blocked_since.map(|since| since + self.policy.blocked_max);
                answer.or_else(|| connection.consent_until.into_iter().chain(blocked).min())
            }
        }
    }

    /// The time of [`Pusher::poll_timeout`] may have come.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.poll_timeout().is_none_or(|due| now < due) {
            return;
        }
        match &mut self.state {
            State::Waiting { .. } => {
                let url = self.servers.url();
                let (host, port, tls) = (url.host().to_owned(), url.port(), url.tls());
                self.outputs.push_back(Output::Connect { host, port, tls });
                let until = self.servers.are_several().then(|| now + self.policy.attempt(tls));
                self.state = State::Connecting { until };
            }
            State::Connecting { .. } => {
                self.servers.note_silence();
                let time = self.policy.attempt(self.servers.url().tls()).as_secs_f64();
                self.retry(Loss::Failed(format!("no connection within {time} s")), 0, now);
            }
            State::Open(connection) if connection.reply.since.is_none() => {
                if connection.consent_until.is_some_and(|until| until <= now) {
                    // It does not know the question.
                    return self.begin_stream(now);
                }
                connection.expect_end("the server takes nothing of the stream".to_owned(), now);
                // Another one may take it: the rest of an answer is not waited for.
                if connection.finishing || self.servers.are_several() {
                    self.conclude(now);
                }
            }
            State::Open(_) => self.conclude(now),
            State::Over(_) => {}
        }
    }

    /// The connection is open.
    pub fn handle_connected(&mut self, now: Time) {
        if !matches!(self.state, State::Connecting { .. }) {
            return;
        }
        let url = self.servers.url();
        let mut request = url.request(Method::Put).with_header("Content-Type", "video/mp2t");
        let key = self.key.as_ref().filter(|_| self.servers.may_show_key() && url.authorization().is_none());
        if let Some(key) = key {
            request = request.with_header("Authorization", &format!("Bearer {key}"));
        }
        if self.asks_consent {
            request = request.with_header("Expect", "100-continue");
        }
        let has_key = self.key.is_some() || url.authorization().is_some();
        if self.servers.are_several() || !has_key {
            // One server alone has the key: another one would refuse what it had taken.
            request = request.with_header(FOLLOWS_FIELD, FOLLOWS);
        }
        let consent_until = self.asks_consent.then(|| now + self.policy.consent_timeout);
        self.state = State::Open(Box::new(Connection::new(request, consent_until, now)));
        self.servers.reached();
        if consent_until.is_none() {
            self.begin_stream(now);
        }
    }

    /// The server takes the stream, as far as is known.
    fn begin_stream(&mut self, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        connection.consent_until = None;
        connection.began = now;
        self.wants_key_frame = true;
        self.events.push_back(Event::Connected { url: self.servers.url().to_string() });
    }

    /// There is no connection; `by_tls`: because the server is not trusted.
    pub fn handle_refused(&mut self, why: String, by_tls: bool, now: Time) {
        if !matches!(self.state, State::Connecting { .. }) {
            return;
        }
        self.servers.note_silence();
        // What was wrong from the beginning does not mend itself.
        if by_tls && !self.servers.was_reached() && !self.servers.is_detour() {
            self.refuse(PushFailure::Untrusted(why.clone()), Loss::Failed(why), now);
        } else {
            self.retry(Loss::Failed(why), 0, now);
        }
    }

    /// The server's bytes, in any chop.
    pub fn handle_bytes(&mut self, bytes: &[u8], now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        if connection.take_answer(bytes, now) {
            self.conclude(now);
        } else if connection.consent_until.is_some() && connection.is_answered_by_consent() {
            self.begin_stream(now);
        }
    }

    /// The connection has ended: closed by the server, or for this reason.
    pub fn handle_end(&mut self, why: Option<String>, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        let why = why.unwrap_or_else(|| "the connection was closed".to_owned());
        connection.reply.ended.get_or_insert(why);
        self.conclude(now);
    }

    /// The server's machine has taken nothing for [`Policy::blocked_max`], so that the system has given the connection up.
    pub fn handle_silence(&mut self, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        // What was sent meanwhile is lost, too.
        let since = Time::ZERO + now.since(Time::ZERO).saturating_sub(self.policy.blocked_max);
        connection.waits_since = Some(connection.waits_since.map_or(since, |waits| waits.min(since)));
        let time = self.policy.blocked_max.as_secs_f64();
        connection.reply.failed.get_or_insert(format!("the server has taken nothing for {time} s"));
        self.conclude(now);
    }

    /// Nothing more can be sent, for this reason. What the server said before it closed tells more: it may still come.
    pub fn handle_send_failure(&mut self, why: String, now: Time) {
        if let State::Open(connection) = &mut self.state {
            connection.expect_end(why, now);
        }
    }

    /// Takes packets of the stream: whole packets of 188 bytes. A viewer can join where `joinable`; nothing of a picture is
    /// still to come where `ends_picture`.
    pub fn push(&mut self, packets: &[u8], joinable: bool, ends_picture: bool, now: Time) -> Taken {
        let State::Open(connection) = &mut self.state else {
            self.gap.iter_mut().for_each(Gap::count);
            return Taken::LeftOut;
        };
        if connection.finishing {
            return Taken::LeftOut;
        }
        if packets.is_empty() && connection.picture.is_empty() {
            // A picture without bytes begins nothing.
            return Taken::Taken(0);
        }
        if !connection.started && !joinable || !connection.is_open() {
            let had_it_before = connection.started || self.gap.is_some();
            connection.left_out = connection.left_out.saturating_add(u64::from(connection.started));
            self.gap.iter_mut().for_each(Gap::count);
            return if had_it_before { Taken::LeftOut } else { Taken::Waiting };
        }
        if joinable {
            self.wants_key_frame = false;
        }
        connection.started = true;
        if let Some(gap) = self.gap.take() {
            connection.gap = Some((gap, now));
            connection.seams = Some(Seams::new());
        }
        // A server that has not agreed may refuse the stream when it has had some of it.
        if let Some((gap, resumed)) = connection.gap
            && now.since(resumed) >= self.policy.retry_min
        {
            connection.gap = None;
            self.events.push_back(gap.told(resumed, true));
        }
        if connection.behind_since.is_some() {
            let is_sent = connection.unsent().is_empty();
            if !is_sent || !joinable {
                // Once what waited has gone, the next picture may as well be one to go on with.
                self.wants_key_frame |= is_sent;
                connection.left_out = connection.left_out.saturating_add(1);
                return Taken::LeftOut;
            }
            (connection.behind_since, connection.left_out) = (None, 0);
            connection.seams = Some(Seams::new());
            self.events.push_back(Event::CaughtUp);
        }
        connection.picture.extend_from_slice(packets);
        if !ends_picture {
            return Taken::Taken(0);
        }
        let bytes = connection.write_picture();
        connection.note_waiting(now);
        let waits = connection.waits_since.is_some_and(|since| now.since(since) > self.policy.behind_after);
        if waits || connection.unsent().len() > self.policy.pending_max_bytes {
            connection.behind_since = Some(now);
            self.events.push_back(Event::Behind);
        }
        Taken::Taken(bytes)
    }

    /// The bytes to send; empty where nothing waits.
    #[must_use]
    pub fn transmit(&self) -> &[u8] {
        match &self.state {
            State::Open(connection) if connection.reply.failed.is_none() => connection.unsent(),
            _ => &[],
        }
    }

    /// The first `bytes` of [`Pusher::transmit`] were sent; 0 where the socket takes nothing.
    pub fn handle_sent(&mut self, bytes: usize, now: Time) {
        if let State::Open(connection) = &mut self.state {
            connection.note_sent(bytes, now);
        }
    }

    /// The stream has ended. `hurried`: the user wants to end, and a server that is not there is not missed.
    /// [`Pusher::result`] tells how that went once the server has answered, or was given its time.
    pub fn finish(&mut self, hurried: bool, now: Time) {
        match &mut self.state {
            State::Over(_) => {}
            State::Waiting { .. } | State::Connecting { .. } => {
                self.end(if hurried { Ok(()) } else { Err(PushFailure::NotReached) }, now);
            }
            // Nothing of the stream, or of what is behind the gap, has gone there.
            State::Open(connection)
                if connection.consent_until.is_some() || !connection.started && self.gap.is_some() =>
            {
                self.end(if hurried { Ok(()) } else { Err(PushFailure::NotReached) }, now);
            }
            // Said again, it is no other end; and where the answer has begun, nothing more is sent.
            State::Open(connection) if connection.finishing || connection.reply.since.is_some() => {
                connection.finishing = true;
            }
            State::Open(connection) => connection.write_end(now),
        }
    }

    /// The server has answered, has gone, or was given enough time.
    fn conclude(&mut self, now: Time) {
        let State::Open(connection) = &mut self.state else { return };
        let (finishing, all_sent) = (connection.finishing, connection.unsent().is_empty());
        let Reply { head, body, ended, failed, .. } = std::mem::take(&mut connection.reply);
        let answer = head.map(|head| Answer {
            status: head.status,
            reason: head.reason,
            location: head.headers.first("Location").map(str::to_owned),
            body,
        });
        let gone = failed.clone().or(ended).unwrap_or_else(|| "no answer came".to_owned());
        if finishing {
            self.outputs.push_back(Output::Close);
            let result = match answer {
                Some(answer) if answer.status >= 300 => Err(PushFailure::RefusedAtEnd(answer)),
                Some(_) => Ok(()),
                None if all_sent && failed.is_none() => Ok(()),
                None => Err(PushFailure::Unfinished(gone)),
            };
            return self.end(result, now);
        }
        let Some(answer) = answer else {
            self.servers.note_silence();
            return self.lose(Loss::Failed(gone), now);
        };
        let lasted = now.since(connection.began);
        let had_stream = connection.started && lasted >= self.policy.retry_min;
        // A server that gives the name back to a publisher which it had lost does so soon. Later, or where this one has taken the name
        // over, it is another publisher's, and to go on elsewhere would be to take it back.
        let is_settled = had_stream && (lasted > self.policy.retry_max || self.servers.takes_over());
        let is_early = self.lost.is_some_and(|lost| now.since(lost) < self.policy.name_held);
        let name_held = answer.status == 409 && is_early && !is_settled;
        match answer.status {
            300..=399 => self.follow(answer, now),
            // Another publisher has taken the name over: elsewhere this one would take it back.
            409 if had_stream && !name_held => {
                self.note_loss(Ending::Refused, now);
                self.end(Err(PushFailure::Refused(answer)), now);
            }
            417 if self.asks_consent => {
                self.asks_consent = false;
                self.lose(Loss::Answered(answer), now);
            }
            // Too slow, too many: these pass.
            400..=499 if !name_held && !matches!(answer.status, 408 | 429) => {
                self.refuse(PushFailure::Refused(answer.clone()), Loss::Answered(answer), now);
            }
            status => {
                if matches!(status, 409 | 503) {
                    self.servers.note_not_yet();
                } else {
                    self.servers.note_silence();
                }
                self.lose(Loss::Answered(answer), now);
            }
        }
    }

    /// The server has led elsewhere. A PUT remains one behind 307 and 308 alone (RFC 9110 §15.4).
    fn follow(&mut self, answer: Answer, now: Time) {
        let moved = |answer: &Answer| PushFailure::Moved(answer.clone());
        let Some(location) = answer.location.as_ref().filter(|_| matches!(answer.status, 307 | 308)) else {
            return self.refuse(moved(&answer), Loss::Answered(answer), now);
        };
        let unsent = self.note_loss(Ending::Moved, now);
        match self.servers.redirect(location) {
            Ok(()) => {
                self.events.push_back(Event::Redirected { to: self.servers.url().to_string(), unsent });
                self.outputs.push_back(Output::Close);
                self.state = State::Waiting { until: now };
            }
            Err(DetourError::TooMany) => {
                self.servers.note_silence();
                self.outputs.push_back(Output::Close);
                self.retry(Loss::Failed(DetourError::TooMany.to_string()), unsent, now);
            }
            Err(_) => self.refuse(moved(&answer), Loss::Answered(answer), now),
        }
    }

    /// The server does not take the stream: the others may.
    fn refuse(&mut self, failure: PushFailure, why: Loss, now: Time) {
        let unsent = self.note_loss(Ending::Refused, now);
        if matches!(self.state, State::Open(_)) {
            self.outputs.push_back(Output::Close);
        }
        if self.servers.is_detour() {
            // That says nothing of the server which has led there.
            let is_keyless = self.key.is_some() && !self.servers.may_show_key();
            self.servers.note_silence();
            let why = match why {
                Loss::Answered(answer) if is_keyless && matches!(answer.status, 401 | 403) => {
                    Loss::Failed(format!("{answer}; the key is shown to servers that were named alone"))
                }
                other => other,
            };
            return self.retry(why, unsent, now);
        }
        match self.servers.note_refusal(failure) {
            Err(failure) => self.end(Err(failure), now),
            Ok(()) => self.retry(why, unsent, now),
        }
    }

    /// Gives the connection up, and tries again.
    fn lose(&mut self, why: Loss, now: Time) {
        let ending = if matches!(why, Loss::Failed(_)) { Ending::Broken } else { Ending::NotYet };
        let unsent = self.note_loss(ending, now);
        self.outputs.push_back(Output::Close);
        self.retry(why, unsent, now);
    }

    /// Notes what a connection that ends leaves behind. Returns how many runs of packets it has not sent.
    fn note_loss(&mut self, ending: Ending, now: Time) -> u64 {
        let State::Open(connection) = &mut self.state else { return 0 };
        let lasted = now.since(connection.began);
        // A server that takes the stream and drops it at once is not asked every half second for ever.
        let is_long = lasted > self.policy.retry_max;
        if is_long {
            self.servers.reset_pauses();
        }
        if !connection.started {
            return 0;
        }
        let unsent = connection.unsent_chunks().saturating_add(u64::from(!connection.picture.is_empty()));
        let missing = unsent.saturating_add(connection.left_out);
        // Before a refusal comes, something of the stream may have gone: that was not taken.
        let was_taken = ending == Ending::Moved && lasted >= self.policy.retry_min;
        let had_stream = ending == Ending::Broken || was_taken || is_long;
        if had_stream && ending != Ending::Refused {
            self.lost = Some(now);
        }
        self.gap = Some(match connection.gap.take() {
            Some((gap, _)) if !had_stream => Gap { left_out: gap.left_out.saturating_add(missing), ..gap },
            told => {
                self.events.extend(told.map(|(gap, resumed)| gap.told(resumed, true)));
                let since = connection.behind_since.or(connection.waits_since).unwrap_or(now);
                Gap { since, left_out: missing }
            }
        });
        if is_long || ending == Ending::Broken && lasted >= self.policy.retry_min {
            self.servers.begin_round();
        }
        unsent
    }

    fn retry(&mut self, why: Loss, unsent: u64, now: Time) {
        let url = self.servers.url().to_string();
        let repeats = self.servers.repeats();
        let retry_in = self.servers.go_on(self.lost.map(|lost| now.since(lost)));
        let next = self.servers.url().to_string();
        let is_eager = repeats && retry_in <= self.policy.eager_pause;
        self.events.push_back(Event::Lost { url, why, retry_in, next, unsent, is_eager });
        self.state = State::Waiting { until: now + retry_in };
    }

    fn end(&mut self, result: Result<(), PushFailure>, now: Time) {
        if let State::Open(connection) = &mut self.state {
            self.events.extend(connection.gap.take().map(|(gap, resumed)| gap.told(resumed, true)));
        }
        self.events.extend(self.gap.take().map(|gap| gap.told(now, false)));
        if matches!(self.state, State::Open(_)) && self.outputs.back() != Some(&Output::Close) {
            self.outputs.push_back(Output::Close);
        }
        self.state = State::Over(result);
    }
}

#[cfg(test)]
#[path = "pusher_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "several_tests.rs"]
mod several_tests;
