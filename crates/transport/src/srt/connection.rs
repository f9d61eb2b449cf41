//! A connection, once both ends have agreed: packets in and out, acknowledgements, the round trip, keys, the end (§3.2, §4.10).

mod contest;

use contest::Contest;
pub use contest::Life;

use super::crypto::Keys;
use super::handshake::Handshake;
use super::packet::{Control, Data, Kind, Packet, parse_losses, word};
use super::receiver::Receiver;
use super::sender::{Outgoing, Sender};
use super::sequence::Sequence;
use super::{HEADER_BYTES, MAX_PAYLOAD, PEER_IDLE};
use glassline_media::Time;
use glassline_media::quantity::Bitrate;
use std::collections::VecDeque;
use std::time::Duration;

/// How often what has come is acknowledged (§4.8.1).
const ACK_INTERVAL: Duration = Duration::from_millis(10);
/// Packets after which the peer is told before that time, in short.
const LIGHT_ACK_PACKETS: u32 = 64;
/// A packet leaves at least this often, so that the peer sees that the connection is there.
const KEEP_ALIVE: Duration = Duration::from_secs(1);
/// Acknowledgements that wait for their answers.
const ACKS_KEPT: usize = 128;
/// §4.10.
const FIRST_RTT: Duration = Duration::from_millis(100);
const FIRST_VARIATION: Duration = Duration::from_millis(50);
/// Round trips are believed up to this.
const RTT_MAX: Duration = Duration::from_secs(10);
/// Packets after which the key is renewed (§6.1.6), and how many before that the new key is announced, again after each so many.
const KEY_PACKETS: u64 = 1 << 24;
const KEY_ANNOUNCED: u64 = 1 << 12;
/// How often an announced key is told until the peer has answered.
const KEY_RETRY: Duration = Duration::from_millis(500);
/// Another key of the peer's is taken no sooner than this after the last one.
const KEY_APART: Duration = Duration::from_secs(1);
/// Data packets of one size that leave together.
const TOGETHER: usize = 40;
/// Control packets that wait to leave, at most: each is an answer, and a peer that asks for many gets no more.
const CONTROLS_MAX: usize = 64;
/// Losses of one report that are looked at.
const LOSSES_MAX: usize = 20_000;

/// Why a connection is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    /// The peer has said so.
    ByPeer,
    /// Nothing has come for [`PEER_IDLE`].
    Silent,
    /// [`Connection::close`] was called.
    Closed,
}

/// What [`Connection::poll_transmit`] has written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transmit {
    /// Each datagram has so many bytes, but for the last one, which may be shorter.
    pub segment_bytes: usize,
}

/// Figures of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Statistics {
    /// The round trip, smoothed.
    pub rtt: Duration,
    /// How much it varies.
    pub rtt_variation: Duration,
    /// How long what comes is held back.
    pub latency: Duration,
    /// How long the peer holds back what it gets.
    pub peer_latency: Duration,
    /// Data packets that came.
    pub received: u64,
    /// Packets that were missing when the next one came.
    pub lost: u64,
    /// Of these, those that came in time after all.
    pub recovered: u64,
    /// Packets that did not come in time, and are missing in what was delivered.
    pub dropped: u64,
    /// Packets that came too late, or again.
    pub late: u64,
    /// Packets that were refused: no key for them, no room, numbers out of range.
    pub refused: u64,
    /// Between the oldest and the newest payload that are held back.
    pub held: Duration,
    /// Data packets sent, for the first time.
    pub sent: u64,
    /// Data packets sent again.
    pub resent: u64,
    /// Packets that the peer has reported as lost, each report counted.
    pub reported_by_peer: u64,
    /// Payloads that were given up before the peer had them.
    pub given_up: u64,
    /// How old the oldest payload is that the peer does not have.
    pub unacknowledged: Duration,
    /// Whether payloads are encrypted.
    pub is_encrypted: bool,
}

/// The round trip (§4.10).
#[derive(Clone, Copy, Debug)]
struct RoundTrip {
    smoothed: Duration,
    variation: Duration,
    is_known: bool,
}

impl RoundTrip {
    fn note(&mut self, sample: Duration) {
        let sample = sample.min(RTT_MAX);
        if self.is_known {
            let difference = sample.abs_diff(self.smoothed);
            self.variation = (self.variation * 3 + difference) / 4;
            self.smoothed = (self.smoothed * 7 + sample) / 8;
        } else {
            (self.smoothed, self.variation, self.is_known) = (sample, sample / 2, true);
        }
    }
}

/// What both ends have agreed on.
#[derive(Debug)]
pub(super) struct Agreed {
    /// Our socket, and the peer's.
    pub(super) own: u32,
    pub(super) peer: u32,
    /// The numbers of the first packets.
    pub(super) own_sequence: Sequence,
    pub(super) peer_sequence: Sequence,
    /// How long what comes is held back, and how long the peer does that.
    pub(super) latency: Duration,
    pub(super) peer_latency: Duration,
    pub(super) keys: Option<Keys>,
    /// When our time stamps began.
    pub(super) began: Time,
    /// The time stamp of the peer's handshake, which came at the moment.
    pub(super) peer_stamp: u32,
    /// Of the random bytes that renewed keys are made of.
    pub(super) seed: [u8; 32],
}

/// A connection. See the module.
#[derive(Debug)]
pub struct Connection {
    own: u32,
    peer: u32,
    began: Time,
    receiver: Receiver,
    sender: Sender,
    keys: Option<Keys>,
    renewal: Renewal,
    rtt: RoundTrip,
    /// Control packets that are to leave.
    controls: VecDeque<Vec<u8>>,
    acks: Acks,
    heard: Time,
    /// When a data packet came last.
    heard_data: Time,
    /// A peer that is silent for so long is gone.
    idle: Duration,
    /// One that acknowledges nothing of what it was sent is gone after this, beside the time that it may wait for a lost packet.
    unacknowledged: Duration,
    spoke: Time,
    /// The question whether the peer is there.
    contest: Option<Contest>,
    ended: Option<Ended>,
    /// The number of our first packet.
    first: Sequence,
    /// The answer to the peer's handshake, for one that comes again; none of a caller's.
    response: Option<Vec<u8>>,
}

/// What was acknowledged.
#[derive(Debug)]
struct Acks {
    due: Time,
    number: u32,
    told: Sequence,
    since_told: u32,
    /// Those that wait for their answers, with when they left.
    kept: VecDeque<(u32, Time)>,
}

/// How far the renewal of the key has come.
struct Renewal {
    seed: [u8; 32],
    drawn: u64,
    /// The count of packets sent at which the present key came.
    since: u64,
    /// The next key was announced; and when that is told again, until the peer has answered.
    announced: bool,
    told_again: Option<Time>,
    /// The last message of the peer's that was taken, and when another one is.
    taken: Vec<u8>,
    takes_from: Time,
    /// The former key is there still.
    has_former: bool,
}

/// The seed does not show.
impl std::fmt::Debug for Renewal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Renewal").field("since", &self.since).finish_non_exhaustive()
    }
}

impl Renewal {
    /// Bytes that no outsider can foresee: the seed is random, and none is given twice.
    fn random(&mut self, bytes: &mut [u8]) {
        for chunk in bytes.chunks_mut(32) {
            let key = ring::hmac::Key::new(ring::hmac::HMAC_SHA256, &self.seed);
            self.drawn += 1;
            let block = ring::hmac::sign(&key, &self.drawn.to_be_bytes());
            chunk.copy_from_slice(&block.as_ref()[..chunk.len()]);
        }
    }
}

/// The time stamp of `now` for an end that began at `began`: microseconds, modulo 2³².
pub(super) fn timestamp(began: Time, now: Time) -> u32 {
    now.since(began).as_micros() as u32
}

impl Connection {
    pub(super) fn new(agreed: Agreed, response: Option<Vec<u8>>, now: Time) -> Connection {
        let Agreed { own, peer, own_sequence, peer_sequence, latency, peer_latency, keys, began, .. } =
            agreed;
        Connection {
            own,
            peer,
            began,
            receiver: Receiver::new(peer_sequence, latency, agreed.peer_stamp, now),
            sender: Sender::new(own_sequence, peer_latency, now),
            keys,
            renewal: Renewal {
                seed: agreed.seed,
                drawn: 0,
                since: 0,
                announced: false,
                told_again: None,
                taken: Vec::new(),
                takes_from: now,
                has_former: false,
            },
            rtt: RoundTrip { smoothed: FIRST_RTT, variation: FIRST_VARIATION, is_known: false },
            controls: VecDeque::new(),
            acks: Acks {
                due: Time::NEVER,
                number: 0,
                told: peer_sequence,
                since_told: 0,
                kept: VecDeque::new(),
            },
            heard: now,
            heard_data: now,
            idle: PEER_IDLE,
            unacknowledged: PEER_IDLE,
            spoke: now,
            contest: None,
            ended: None,
            first: own_sequence,
            response,
        }
    }

    /// Our socket's number, which the peer's packets bear.
    pub fn socket(&self) -> u32 {
        self.own
    }

    /// The answer to the peer's handshake, with the time stamp of the moment: the peer reckons with its arrival.
    pub(super) fn response(&self, now: Time) -> Option<Vec<u8>> {
        let mut response = self.response.clone()?;
        let stamp = timestamp(self.began, now).to_be_bytes();
        response.get_mut(8..12)?.copy_from_slice(&stamp);
        Some(response)
    }

    /// Why it is over, if it is.
    pub fn ended(&self) -> Option<Ended> {
        self.ended
    }

    /// How it does.
    pub fn statistics(&self, now: Time) -> Statistics {
        let (received, sent) = (self.receiver.counts, self.sender.counts);
        Statistics {
            rtt: self.rtt.smoothed,
            rtt_variation: self.rtt.variation,
            latency: self.receiver.latency(),
            peer_latency: self.sender.peer_latency(),
            received: received.received,
            lost: received.lost,
            recovered: received.recovered,
            dropped: received.dropped,
            late: received.late,
            refused: received.refused,
            held: self.receiver.held(),
            sent: sent.sent,
            resent: sent.resent,
            reported_by_peer: sent.reported,
            given_up: sent.dropped + sent.refused,
            unacknowledged: self.sender.held(now),
            is_encrypted: self.keys.is_some(),
        }
    }

    /// Takes a datagram of the peer's.
    pub fn handle_datagram(&mut self, now: Time, datagram: &[u8]) {
        self.handle_datagram_of_line(now, None, datagram);
    }

    /// Takes a datagram of the peer's, which came by this one of its lines where it has several.
    pub(super) fn handle_datagram_of_line(&mut self, now: Time, line: Option<u8>, datagram: &[u8]) {
        let Some(packet) = Packet::parse(datagram).filter(|packet| packet.destination() == self.own) else {
            return;
        };
        if self.ended.is_some() {
            return;
        }
        self.heard = now;
        match packet {
            Packet::Data(data) => self.handle_data(&data, line, now),
            Packet::Control(control) => self.handle_control(&control, now),
        }
    }

    fn handle_data(&mut self, data: &Data<'_>, line: Option<u8>, now: Time) {
        let (keys, key, sequence) = (&self.keys, data.key, data.sequence);
        let open = |payload: &mut Vec<u8>| match (keys, key) {
            (_, 0) => keys.is_none(),
            (Some(keys), key) => keys.apply(key, sequence, payload),
            (None, _) => false,
        };
        self.heard_data = now;
        if let Some(line) = line {
            self.receiver.note_line(line, data, now);
        }
        let has_gap = self.receiver.handle(data, now, open);
        if self.acks.due == Time::NEVER {
            self.acks.due = now + ACK_INTERVAL;
        }
        self.acks.since_told += 1;
        if self.acks.since_told >= LIGHT_ACK_PACKETS {
            self.acks.since_told = 0;
            let next = self.receiver.acknowledged();
            self.control(Kind::Ack, 0, &next.value().to_be_bytes(), now);
        }
        if has_gap {
            self.report(now);
        }
    }

    fn handle_control(&mut self, control: &Control<'_>, now: Time) {
        match control.kind {
            Kind::Ack => self.handle_ack(control, now),
            Kind::AckAck => {
                let number = control.information;
                if let Some(at) = self.acks.kept.iter().position(|(kept, _)| *kept == number) {
                    let (_, left) = self.acks.kept[at];
                    self.acks.kept.drain(..=at);
                    self.rtt.note(now.since(left));
                    self.contest.iter_mut().for_each(|contest| contest.handle_answer(number));
                }
            }
            Kind::LossReport => {
                let (rtt, mut budget) = (self.rtt.smoothed, LOSSES_MAX);
                let mut gone = None;
                for run in parse_losses(control.body) {
                    gone = self.sender.handle_loss(run, &mut budget, now, rtt).or(gone);
                }
                if let Some((first, last)) = gone {
                    self.tell_given_up(first, last, now);
                }
            }
            Kind::DropRequest => {
                let run = word(control.body).and_then(|(first, rest)| Some((first, word(rest)?.0)));
                if let Some((first, last)) = run {
                    self.receiver.forget(Sequence::new(first), Sequence::new(last));
                }
            }
            Kind::Shutdown => self.ended = Some(Ended::ByPeer),
            Kind::Handshake => {
                let is_conclusion = Handshake::parse(control.body).is_some();
                if let Some(response) = self.response(now).filter(|_| is_conclusion) {
                    self.queue(response);
                }
            }
            Kind::User(3) => self.handle_key(control, now),
            Kind::User(4) => self.renewal.told_again = None,
            Kind::KeepAlive | Kind::User(_) | Kind::Other(_) => {}
        }
    }

    /// The peer renews the key. To take one costs a thousandth of a second, so the same one is only answered again.
    fn handle_key(&mut self, control: &Control<'_>, now: Time) {
        let Some(keys) = &mut self.keys else { return };
        let is_same = self.renewal.taken == control.body;
        if !is_same {
            if now < self.renewal.takes_from || keys.take(control.body).is_err() {
                self.renewal.takes_from = self.renewal.takes_from.max(now + KEY_APART);
                return;
            }
            self.renewal.takes_from = now + KEY_APART;
            self.renewal.taken = control.body.to_vec();
        }
        self.control(Kind::User(4), 0, control.body, now);
    }

    fn handle_ack(&mut self, control: &Control<'_>, now: Time) {
        let Some((next, rest)) = word(control.body) else { return };
        self.sender.acknowledge(Sequence::new(next), now);
        // A short one has nothing else, and is not answered.
        if let Some((rtt, rest)) = word(rest) {
            self.control(Kind::AckAck, control.information, &[], now);
            let variation = word(rest).map_or(0, |(variation, _)| variation);
            if self.receiver.counts.received == 0 {
                // It gets nothing itself, and has the round trip from the end that does.
                self.rtt.smoothed = Duration::from_micros(u64::from(rtt)).min(RTT_MAX);
                self.rtt.variation = Duration::from_micros(u64::from(variation)).min(RTT_MAX);
            }
        }
    }

    fn tell_given_up(&mut self, first: Sequence, last: Sequence, now: Time) {
        let body = [first.value().to_be_bytes(), last.value().to_be_bytes()];
        self.control(Kind::DropRequest, 0, body.as_flattened(), now);
    }

    fn queue(&mut self, datagram: Vec<u8>) {
        if self.controls.len() < CONTROLS_MAX {
            self.controls.push_back(datagram);
        }
    }

    fn control(&mut self, kind: Kind, information: u32, body: &[u8], now: Time) {
        let timestamp = timestamp(self.began, now);
        let control = Control { kind, information, timestamp, destination: self.peer, body };
        let mut datagram = Vec::with_capacity(HEADER_BYTES + body.len().max(4));
        control.write(&mut datagram);
        self.queue(datagram);
    }

    fn report(&mut self, now: Time) {
        let body = self.receiver.report(now, self.rtt.smoothed, self.rtt.variation);
        if !body.is_empty() {
            self.control(Kind::LossReport, 0, &body, now);
        }
    }

    fn acknowledge(&mut self, now: Time) {
        let next = self.receiver.acknowledged();
        let has_news = next != self.acks.told;
        self.acks.due = Time::NEVER;
        let waits = self
            .acks
            .kept
            .back()
            .is_some_and(|(_, left)| now.since(*left) < self.rtt.smoothed + self.rtt.variation * 4);
        if !has_news && waits {
            self.acks.due = now + ACK_INTERVAL;
            return;
        }
        if !has_news && self.acks.kept.is_empty() {
            return;
        }
        self.send_ack(now);
    }

    /// Sends a full acknowledgement, which the peer answers.
    fn send_ack(&mut self, now: Time) {
        let next = self.receiver.acknowledged();
        self.acks.number = self.acks.number.wrapping_add(1).max(1);
        (self.acks.told, self.acks.since_told) = (next, 0);
        if self.acks.kept.len() >= ACKS_KEPT {
            self.acks.kept.pop_front();
        }
        self.acks.kept.push_back((self.acks.number, now));
        let micros = |time: Duration| u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        let (rtt, variation) = (micros(self.rtt.smoothed), micros(self.rtt.variation));
        let body = [next.value(), rtt, variation, self.receiver.room(), 0, 0, 0].map(u32::to_be_bytes);
        self.control(Kind::Ack, self.acks.number, body.as_flattened(), now);
        self.acks.due = now + ACK_INTERVAL;
    }

    /// When [`Connection::handle_timeout`], [`Connection::deliver`] or [`Connection::poll_transmit`] has something to do next.
    pub fn poll_timeout(&self) -> Time {
        if self.ended.is_some() {
            let next_due = self.receiver.next_due().unwrap_or(Time::NEVER);
            return if self.controls.is_empty() { next_due } else { Time::ZERO };
        }
        if !self.controls.is_empty() {
            return Time::ZERO;
        }
        let sender = self.sender.poll_timeout(self.rtt.smoothed);
        let parts = [
            Some(self.acks.due),
            self.receiver.next_due(),
            self.receiver.report_due(),
            sender,
            self.renewal.told_again,
            Some(self.heard + self.idle),
            Some(self.spoke + KEEP_ALIVE),
        ];
        parts.into_iter().flatten().min().unwrap_or(Time::NEVER)
    }

    /// Does what is due.
    pub fn handle_timeout(&mut self, now: Time) {
        if self.ended.is_some() {
            return;
        }
        let is_stuck = self.sender.stuck(now) >= self.unacknowledged + self.sender.peer_latency();
        if now.since(self.heard) >= self.idle || is_stuck {
            self.ended = Some(Ended::Silent);
            self.control(Kind::Shutdown, 0, &[], now);
            return;
        }
        if self.acks.due <= now {
            self.acknowledge(now);
        }
        if self.receiver.report_due().is_some_and(|due| due <= now) {
            self.report(now);
        }
        self.sender.drop_late(now);
        if let Some((first, last)) = self.sender.take_given_up() {
            self.tell_given_up(first, last, now);
        }
        if self.renewal.told_again.is_some_and(|at| at <= now) {
            self.announce_key(now);
        }
        if now.since(self.spoke) >= KEEP_ALIVE {
            self.control(Kind::KeepAlive, 0, &[], now);
        }
    }

    fn announce_key(&mut self, now: Time) {
        let Some(keys) = &self.keys else { return };
        let message = keys.message();
        self.renewal.told_again = Some(now + KEY_RETRY);
        self.control(Kind::User(3), 0, &message, now);
    }

    /// Gives the payloads that are due to `take`, in order, each with when it came, without those that did not come in time. Returns whether there were any.
    pub fn deliver(&mut self, now: Time, take: impl FnMut(&[u8], Time)) -> bool {
        let dropped = self.receiver.counts.dropped;
        let has_delivered = self.receiver.deliver(now, take);
        if self.receiver.counts.dropped > dropped && self.acks.due == Time::NEVER {
            self.acks.due = now;
        }
        has_delivered
    }

    /// A peer that is silent for `idle` is gone, in place of [`PEER_IDLE`]; so is one that has acknowledged nothing of what it was sent
    /// for `unacknowledged` beyond its latency.
    pub fn set_idle(&mut self, idle: Duration, unacknowledged: Duration) {
        (self.idle, self.unacknowledged) = (idle, unacknowledged);
    }

    /// When a data packet came last; at first when the connection began.
    pub fn heard_data(&self) -> Time {
        self.heard_data
    }

    /// Whether payloads of the peer are held back until their time.
    pub fn holds(&self) -> bool {
        self.receiver.holds()
    }

    /// New payloads leave no faster than this in the mean from now on; `None`: at once.
    pub fn set_pace(&mut self, pace: Option<Bitrate>) {
        self.sender.set_pace(pace);
    }

    /// Whether one more payload would be taken.
    pub fn has_room(&self) -> bool {
        self.ended.is_none() && self.sender.has_room()
    }

    /// Sends `payload`, of [`MAX_PAYLOAD`] bytes at most. Returns whether it was taken; it is not where the peer is so far behind
    /// that there is no room, and that is counted.
    pub fn send(&mut self, now: Time, payload: &[u8]) -> bool {
        self.ended.is_none() && payload.len() <= MAX_PAYLOAD && self.sender.push(payload, now)
    }

    /// Payloads that wait to leave.
    pub fn unsent(&self) -> usize {
        self.sender.unsent()
    }

    /// Bytes that the peer does not have, as far as is known.
    pub fn unacknowledged_bytes(&self) -> usize {
        self.sender.bytes()
    }

    /// Ends the connection; the peer is told by the next [`Connection::poll_transmit`].
    pub fn close(&mut self, now: Time) {
        if self.ended.is_none() {
            self.controls.clear();
            self.control(Kind::Shutdown, 0, &[], now);
            self.ended = Some(Ended::Closed);
        }
    }

    /// Writes the next datagrams into `out`, which is emptied before: one, or several data packets end to end. `None` where nothing is
    /// to leave now.
    pub fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<Transmit> {
        out.clear();
        if let Some(control) = self.controls.pop_front() {
            out.extend_from_slice(&control);
            self.spoke = now;
            return Some(Transmit { segment_bytes: out.len() });
        }
        if self.ended.is_some() {
            return None;
        }
        let mut segment = 0;
        for _ in 0..TOGETHER {
            let current = self.keys.as_ref().map_or(0, Keys::current);
            let before = out.len();
            // The kernel cuts what leaves together into datagrams of one size, of which the last may be shorter.
            let bytes_max = if segment == 0 { MAX_PAYLOAD } else { segment - HEADER_BYTES };
            let outgoing = self.sender.poll(now, self.rtt.smoothed, current, bytes_max);
            let Some(Outgoing { sequence, payload, since, key, is_again }) = outgoing else { break };
            // Each packet is a message. Messages are counted from 1, and 1 follows the greatest number (§3.1).
            let count = sequence.value().wrapping_sub(self.first.value()) & 0x7fff_ffff;
            let header = Data {
                sequence,
                key,
                is_retransmitted: is_again,
                message: count % 0x03ff_ffff + 1,
                timestamp: timestamp(self.began, since),
                destination: self.peer,
                payload: &[],
            };
            header.write_header(out);
            let body = out.len();
            out.extend_from_slice(payload);
            if let Some(keys) = &self.keys
                && !keys.apply(key, sequence, &mut out[body..])
            {
                // Its key is gone, and in clear it does not leave.
                out.truncate(before);
                continue;
            }
            let bytes = out.len() - before;
            segment = segment.max(bytes);
            if self.renews_key(now) || bytes != segment {
                break;
            }
        }
        if segment == 0 {
            return None;
        }
        self.spoke = now;
        Some(Transmit { segment_bytes: segment })
    }

    /// Renews the key where that is time. Returns whether the peer has to hear of it.
    fn renews_key(&mut self, now: Time) -> bool {
        if self.keys.is_none() {
            return false;
        }
        let count = self.sender.counts.sent.saturating_sub(self.renewal.since);
        if !self.renewal.announced && count >= KEY_PACKETS - KEY_ANNOUNCED {
            self.renewal.announced = true;
            let mut keys = self.keys.take();
            if let Some(keys) = &mut keys {
                keys.announce_next(&mut |bytes| self.renewal.random(bytes));
            }
            self.keys = keys;
            self.announce_key(now);
            return true;
        }
        if self.renewal.announced && count >= KEY_PACKETS {
            (self.renewal.announced, self.renewal.since) = (false, self.sender.counts.sent);
            self.renewal.has_former = true;
            if let Some(keys) = &mut self.keys {
                keys.switch();
            }
        }
        // What was sent with the former key may be asked for until the oldest payload that is kept has the present one.
        let current = self.keys.as_ref().map(Keys::current);
        let is_over = count >= KEY_ANNOUNCED && self.sender.oldest_key() == current;
        if self.renewal.has_former && !self.renewal.announced && is_over {
            self.renewal.has_former = false;
            self.keys.iter_mut().for_each(Keys::forget_former);
        }
        false
    }
}

#[cfg(test)]
#[path = "connection_tests.rs"]
mod tests;
