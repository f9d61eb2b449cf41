//! What is sent: kept until the peer has it, sent again where the peer asks, given up when it would come too late (§4.4–4.7).

use super::sequence::Sequence;
use crate::pacing::time_of;
use glassline_media::Time;
use glassline_media::quantity::Bitrate;
use std::collections::VecDeque;
use std::time::Duration;

/// Payloads that wait or may be asked for at once, at most; and bytes of them.
const WINDOW: usize = 16_384;
const WINDOW_BYTES: usize = 24 << 20;
/// What is kept longer than the peer holds it back is kept for this long at least (§4.6, as the reference has it).
const KEPT_AT_LEAST: Duration = Duration::from_secs(1);
/// Added to that time: the reference's scheduling.
const KEPT_MORE: Duration = Duration::from_millis(20);
/// Bytes that leave at once before pacing counts: a picture of a stream of 15 Mbit/s.
const BURST_BYTES: usize = 64 << 10;
/// What is sent again takes at most as much as what is new, and this much at once.
const AGAIN_BURST_BYTES: usize = 512 << 10;
/// Where nothing follows, the last packet is sent again after the round trip and this: its loss shows to the peer by nothing else.
const TAIL: Duration = Duration::from_millis(15);
/// The tail is sent again so often at most.
const TAIL_TRIES: u32 = 6;
/// Copies of a packet that is sent again and will not be asked for once more in time: the second follows after this.
const COPY_AFTER: Duration = Duration::from_millis(4);

/// What has become of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets sent, for the first time.
    pub(super) sent: u64,
    /// Packets sent again.
    pub(super) resent: u64,
    /// Packets that the peer has reported as lost, each time counted.
    pub(super) reported: u64,
    /// Payloads that were given up before the peer had them.
    pub(super) dropped: u64,
    /// Payloads that were not taken for want of room.
    pub(super) refused: u64,
}

/// A payload that the peer may still ask for.
#[derive(Debug)]
struct Kept {
    payload: Vec<u8>,
    /// When it was handed in.
    since: Time,
    /// The flag of the key that it was encrypted with, once it was sent.
    key: u8,
    /// When it was last sent again.
    resent: Option<Time>,
    is_asked: bool,
}

/// A payload that leaves now.
#[derive(Debug)]
pub(super) struct Outgoing<'a> {
    pub(super) sequence: Sequence,
    pub(super) payload: &'a [u8],
    pub(super) since: Time,
    pub(super) key: u8,
    pub(super) is_again: bool,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Sender {
    /// The number of the first payload that is kept.
    first: Sequence,
    kept: VecDeque<Kept>,
    bytes: usize,
    /// Of the kept ones, so many have been sent.
    sent: usize,
    /// What the peer has asked for.
    asked: VecDeque<Sequence>,
    /// Second copies of what it has asked for, each with its time; the times only grow.
    copies: VecDeque<(Sequence, Time)>,
    /// When the peer last acknowledged something new, or had everything.
    progress: Time,
    /// What a payload may be old before it is given up.
    kept_for: Duration,
    /// How long the peer holds back what it gets.
    peer_latency: Duration,
    pace: Option<Bitrate>,
    /// When the line of that rate has sent all that has left.
    line_free: Time,
    /// Bytes that may be sent again now.
    again_credit: usize,
    newest_sent: Time,
    tail_tries: u32,
    /// What was given up and has to be told.
    given_up: Option<(Sequence, Sequence)>,
    spare: Vec<Vec<u8>>,
    pub(super) counts: Counts,
}

impl Sender {
    /// Begins with the number `first`; the peer holds back for `peer_latency`.
    pub(super) fn new(first: Sequence, peer_latency: Duration, now: Time) -> Sender {
        Sender {
            first,
            kept: VecDeque::new(),
            bytes: 0,
            sent: 0,
            asked: VecDeque::new(),
            copies: VecDeque::new(),
            progress: now,
            kept_for: (peer_latency + peer_latency / 4).max(KEPT_AT_LEAST) + KEPT_MORE,
            peer_latency,
            pace: None,
            line_free: now,
            again_credit: AGAIN_BURST_BYTES,
            newest_sent: now,
            tail_tries: 0,
            given_up: None,
            spare: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// New payloads leave no faster than this in the mean from now on.
    pub(super) fn set_pace(&mut self, pace: Option<Bitrate>) {
        self.pace = pace;
    }

    /// Whether one more payload would be taken.
    pub(super) fn has_room(&self) -> bool {
        self.kept.len() < WINDOW && self.bytes < WINDOW_BYTES
    }

    /// Takes a payload. Returns whether there was room.
    pub(super) fn push(&mut self, payload: &[u8], now: Time) -> bool {
        if !self.has_room() {
            self.counts.refused += 1;
            return false;
        }
        let mut kept = self.spare.pop().unwrap_or_default();
        kept.extend_from_slice(payload);
        self.bytes += payload.len();
        self.kept.push_back(Kept { payload: kept, since: now, key: 0, resent: None, is_asked: false });
        true
    }

    /// How long the peer holds back what it gets.
    pub(super) fn peer_latency(&self) -> Duration {
        self.peer_latency
    }

    /// Payloads that have not left.
    pub(super) fn unsent(&self) -> usize {
        self.kept.len() - self.sent
    }

    /// Bytes that the peer does not have, as far as is known.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// How old the oldest payload is that the peer does not have.
    pub(super) fn held(&self, now: Time) -> Duration {
        self.kept.front().map_or(Duration::ZERO, |kept| now.since(kept.since))
    }

    /// The number of the next new packet.
    pub(super) fn next(&self) -> Sequence {
        self.first.plus(self.sent as u32)
    }

    /// The peer has all before `sequence`.
    pub(super) fn acknowledge(&mut self, sequence: Sequence, now: Time) {
        let count = sequence.minus(self.first);
        // One that acknowledges what was never sent is no reason to give it up.
        let Some(count) = usize::try_from(count).ok().filter(|count| *count <= self.sent) else { return };
        if count > 0 {
            (self.tail_tries, self.progress) = (0, now);
        }
        self.remove(count);
    }

    /// How long the peer has acknowledged nothing of what it was sent.
    pub(super) fn stuck(&self, now: Time) -> Duration {
        if self.sent == 0 { Duration::ZERO } else { now.since(self.progress) }
    }

    /// The flag of the key of the oldest payload that may have to be sent again; `None` where there is none.
    pub(super) fn oldest_key(&self) -> Option<u8> {
        self.kept.front().filter(|_| self.sent > 0).map(|kept| kept.key)
    }

    fn remove(&mut self, count: usize) {
        for _ in 0..count {
            let Some(Kept { mut payload, .. }) = self.kept.pop_front() else { break };
            self.bytes -= payload.len();
            self.first = self.first.plus(1);
            self.sent = self.sent.saturating_sub(1);
            if self.spare.len() < 256 {
                payload.clear();
                self.spare.push(payload);
            }
        }
    }

    /// The peer lacks the packets from `first` to `last`, of which at most `budget` are looked at; that is reduced by their number.
    /// Returns a run of them that is not there any more.
    pub(super) fn handle_loss(
        &mut self,
        (first, last): (Sequence, Sequence),
        budget: &mut usize,
        now: Time,
        rtt: Duration,
    ) -> Option<(Sequence, Sequence)> {
        let (from, to) = (first.minus(self.first), last.minus(self.first));
        let gone = (from < 0).then(|| (first, if to < 0 { last } else { self.first.plus(0x7fff_ffff) }));
        let to = usize::try_from(to).ok().map(|to| to.min(self.sent.wrapping_sub(1)));
        let Some(to) = to.filter(|_| self.sent > 0) else { return gone };
        for at in usize::try_from(from).unwrap_or(0)..=to {
            let Some(kept) = self.kept.get_mut(at).filter(|_| *budget > 0) else { break };
            *budget -= 1;
            self.counts.reported += 1;
            // What was sent again less than a round trip ago is under way.
            let is_under_way = kept.resent.is_some_and(|resent| now.since(resent) < rtt * 4 / 5);
            if kept.is_asked || is_under_way {
                continue;
            }
            kept.is_asked = true;
            let sequence = self.first.plus(at as u32);
            self.asked.push_back(sequence);
            // A further report would come too late: the second copy makes up for the loss of the first.
            let age = now.since(kept.since) + rtt / 2;
            if kept.resent.is_some() || age + rtt > self.peer_latency {
                self.copies.push_back((sequence, now + COPY_AFTER));
            }
        }
        gone
    }

    /// Gives up what is too old, whether it has left or not.
    pub(super) fn drop_late(&mut self, now: Time) {
        let is_late = |kept: &&Kept| now.since(kept.since) > self.kept_for;
        let count = self.kept.iter().take_while(is_late).count();
        if count == 0 {
            return;
        }
        let unsent = count.saturating_sub(self.sent);
        let last = self.first.plus(count as u32 - 1);
        let first = self.given_up.map_or(self.first, |(first, _)| first);
        self.given_up = Some((first, last));
        self.counts.dropped += count as u64;
        // Numbers of what never left are not used: the peer would miss them.
        let skipped = unsent as u32;
        self.remove(count);
        if skipped > 0 {
            self.first = Sequence::new(self.first.value().wrapping_sub(skipped));
            let last = Sequence::new(last.value().wrapping_sub(skipped));
            self.given_up = (last.minus(first) >= 0).then_some((first, last));
        }
    }

    /// A run of numbers that was given up, to be told to the peer.
    pub(super) fn take_given_up(&mut self) -> Option<(Sequence, Sequence)> {
        self.given_up.take()
    }

    /// When something leaves or is given up next.
    pub(super) fn poll_timeout(&self, rtt: Duration) -> Option<Time> {
        let asked = if self.asked.is_empty() { None } else { Some(Time::ZERO) };
        let copy = self.copies.front().map(|(_, at)| *at);
        let unsent = (self.unsent() > 0).then(|| self.may_leave_at());
        let late = self.kept.front().map(|kept| kept.since + self.kept_for + Duration::from_nanos(1));
        [asked, copy, unsent, late, self.tail_at(rtt)].into_iter().flatten().min()
    }

    /// When the tail is sent again, since nothing follows it.
    fn tail_at(&self, rtt: Duration) -> Option<Time> {
        let waits = self.sent > 0 && self.unsent() == 0 && self.asked.is_empty();
        let tries = self.tail_tries.min(TAIL_TRIES);
        (waits && tries < TAIL_TRIES).then(|| self.newest_sent + (rtt + TAIL) * (1 << tries.min(4)))
    }

    fn may_leave_at(&self) -> Time {
        match self.pace {
            Some(pace) => {
                let burst = time_of(BURST_BYTES, Some(pace));
                Time::from_nanos(self.line_free.as_nanos().saturating_sub(burst.as_nanos() as u64))
            }
            None => Time::ZERO,
        }
    }

    /// What leaves now: first what the peer has asked for. `key` is the flag of the key for what is new. `None` also where
    /// the payload has more than `bytes_max`.
    pub(super) fn poll(
        &mut self,
        now: Time,
        rtt: Duration,
        key: u8,
        bytes_max: usize,
    ) -> Option<Outgoing<'_>> {
        if self.tail_at(rtt).is_some_and(|at| at <= now) {
            self.tail_tries += 1;
            self.newest_sent = now;
            let last = self.first.plus(self.sent as u32 - 1);
            self.asked.push_back(last);
        }
        while self.copies.front().is_some_and(|(_, at)| *at <= now) {
            self.asked.extend(self.copies.pop_front().map(|(sequence, _)| sequence));
        }
        while let Some(sequence) = self.asked.pop_front() {
            let at = sequence.minus(self.first);
            let Some(at) = usize::try_from(at).ok().filter(|at| *at < self.sent) else { continue };
            let kept = &mut self.kept[at];
            let bytes = kept.payload.len();
            if bytes > bytes_max {
                self.asked.push_front(sequence);
                return None;
            }
            kept.is_asked = false;
            if bytes > self.again_credit {
                // All else that is asked for would not leave either; the peer asks again.
                for sequence in self.asked.drain(..) {
                    let at = usize::try_from(sequence.minus(self.first)).ok();
                    if let Some(kept) = at.and_then(|at| self.kept.get_mut(at)) {
                        kept.is_asked = false;
                    }
                }
                self.copies.clear();
                break;
            }
            self.again_credit -= bytes;
            kept.resent = Some(now);
            self.counts.resent += 1;
            let Kept { payload, since, key, .. } = &self.kept[at];
            return Some(Outgoing { sequence, payload, since: *since, key: *key, is_again: true });
        }
        if self.unsent() == 0 || self.may_leave_at() > now {
            return None;
        }
        let sequence = self.next();
        let at = self.sent;
        let bytes = self.kept[at].payload.len();
        if bytes > bytes_max {
            return None;
        }
        self.line_free = self.line_free.max(now) + time_of(bytes, self.pace);
        self.again_credit = (self.again_credit + bytes).min(AGAIN_BURST_BYTES);
        self.newest_sent = now;
        self.tail_tries = 0;
        if self.sent == 0 {
            self.progress = now;
        }
        self.sent += 1;
        self.counts.sent += 1;
        self.kept[at].key = key;
        let Kept { payload, since, .. } = &self.kept[at];
        Some(Outgoing { sequence, payload, since: *since, key, is_again: false })
    }
}

#[cfg(test)]
#[path = "sender_tests.rs"]
mod tests;
