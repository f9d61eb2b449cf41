//! What comes: put in order, asked for again where it is missing, held back until its time, and given up after that (§4.4–4.6, §4.8).

use super::lines::Lines;
use super::packet::{Data, write_loss};
use super::sequence::Sequence;
use glassline_media::Time;
use std::collections::VecDeque;
use std::time::Duration;

/// Packets that are kept or missing at once, at most: at 100 Mbit/s those of more than a second.
const WINDOW: usize = 16_384;
/// Bytes of them at most.
const WINDOW_BYTES: usize = 24 << 20;
/// A time of delivery is at most so much later than that of a packet that was under way for no time: of time stamps that run ahead.
const AHEAD_MAX: Duration = Duration::from_secs(1);
/// How long after its first report a loss is reported again where the round trip is not longer, since reports are lost too.
const REPORT_AGAIN: Duration = Duration::from_millis(10);
/// Reordering that is waited for before a packet counts as lost, at most.
const REORDERING_MAX: Duration = Duration::from_millis(20);
/// By several lines, of which one may be much slower than another, the share of the latency that is waited for at most before a packet
/// counts as lost that a line may still bring; and the most of it.
const LINES_PATIENCE: u32 = 3;
const LINES_PATIENCE_MAX: Duration = Duration::from_millis(400);
/// Over this time the packet that was under way for the shortest time tells how the clocks of both ends run against each other.
const DRIFT_WINDOW: Duration = Duration::from_secs(10);
/// The clocks are followed by at most so much in each window: 500 millionths.
const DRIFT_STEP: i64 = 5_000_000;
/// Reports are so far apart at least: those of fresh losses are gathered for that time.
const REPORTS_APART: Duration = Duration::from_millis(2);
/// A packet that was reported so many times is reported half as often from then on, then a third as often.
const REPORTS_OFTEN: u32 = 10;
/// Losses that a report names at most: it is one datagram.
const REPORT_RUNS: usize = 170;

/// What has become of the packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Counts {
    /// Packets that came, also those that came again.
    pub(super) received: u64,
    /// Packets that were not there when the next one came.
    pub(super) lost: u64,
    /// Lost packets that came in time.
    pub(super) recovered: u64,
    /// Packets that never came, or too late.
    pub(super) dropped: u64,
    /// Packets that came after they had been dropped, or again.
    pub(super) late: u64,
    /// Packets that were dropped for want of room, or since their numbers are far from the others.
    pub(super) refused: u64,
    /// Reports of losses, each packet counted for itself.
    pub(super) reported: u64,
}

#[derive(Debug)]
struct Arrived {
    payload: Vec<u8>,
    came: Time,
    due: Time,
}

/// A packet that is missing.
#[derive(Clone, Copy, Debug)]
struct Missing {
    sequence: Sequence,
    since: Time,
    /// When it is reported next.
    due: Time,
    reports: u32,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Receiver {
    /// The number of the first slot: what is before it was delivered or dropped.
    first: Sequence,
    slots: VecDeque<Option<Arrived>>,
    bytes: usize,
    missing: VecDeque<Missing>,
    latency: Duration,
    /// From a time stamp, in nanoseconds, to our time, for a packet that was under way as long as the handshake.
    offset: i64,
    /// The newest time stamp, unwrapped, in microseconds.
    stamp: i64,
    drift: Drift,
    /// How long what comes out of order has been behind.
    reordering: Duration,
    /// What has come by each of several lines; `None` where there is one.
    lines: Option<Lines>,
    /// The next report leaves no earlier.
    reports_from: Time,
    /// Payloads' memory that is used again.
    spare: Vec<Vec<u8>>,
    pub(super) counts: Counts,
}

/// The least time that packets were under way, against the one of the first window.
#[derive(Debug, Default)]
struct Drift {
    since: Time,
    least: Option<i64>,
    first: Option<i64>,
}

impl Drift {
    /// A packet was under way for `transit` nanoseconds, by the clocks of both ends. Returns by how much the offset has to change.
    fn note(&mut self, transit: i64, now: Time) -> i64 {
        let least = self.least.map_or(transit, |least| least.min(transit));
        self.least = Some(least);
        if now.since(self.since) < DRIFT_WINDOW {
            return 0;
        }
        (self.since, self.least) = (now, None);
        let first = *self.first.get_or_insert(least);
        least.saturating_sub(first).clamp(-DRIFT_STEP, DRIFT_STEP)
    }
}

impl Receiver {
    /// Expects the packet `first` next. A time stamp of `stamp` microseconds stood in what came at `now`.
    pub(super) fn new(first: Sequence, latency: Duration, stamp: u32, now: Time) -> Receiver {
        let stamp = i64::from(stamp);
        let offset = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX / 2) - stamp * 1000;
        Receiver {
            first,
            slots: VecDeque::new(),
            bytes: 0,
            missing: VecDeque::new(),
            latency,
            offset,
            stamp,
            drift: Drift { since: now, ..Drift::default() },
            reordering: Duration::ZERO,
            lines: None,
            reports_from: Time::ZERO,
            spare: Vec::new(),
            counts: Counts::default(),
        }
    }

    /// How long what comes is held back.
    pub(super) fn latency(&self) -> Duration {
        self.latency
    }

    /// The next data packet has come by `line` of several. From then on a packet counts as lost once each line has brought a later one.
    pub(super) fn note_line(&mut self, line: u8, data: &Data<'_>, now: Time) {
        if data.sequence.minus(self.first) >= WINDOW as i32 {
            return;
        }
        let lines = self.lines.get_or_insert_default();
        lines.note(line, data.sequence, data.is_retransmitted, now);
        let Some(passed) = lines.passed(now) else { return };
        for missing in self.missing.iter_mut().rev().take_while(|missing| missing.reports == 0) {
            if missing.sequence.minus(passed) < 0 {
                missing.due = missing.due.min(now);
            }
        }
    }

    /// A data packet has come; `open` decrypts its payload, and returns whether that was possible. Returns whether losses have to be
    /// reported.
    pub(super) fn handle(
        &mut self,
        data: &Data<'_>,
        now: Time,
        open: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        self.counts.received += 1;
        let at = data.sequence.minus(self.first);
        let Ok(at) = usize::try_from(at) else {
            self.counts.late += 1;
            return false;
        };
        if at >= WINDOW && self.slots.is_empty() {
            // All between was lost in an outage, and would never be asked for: the stream goes on behind it.
            self.counts.lost += at as u64;
            self.counts.dropped += at as u64;
            self.first = data.sequence;
            return self.handle_next(0, data, now, open);
        }
        self.handle_next(at, data, now, open)
    }

    /// A data packet for the slot `at`.
    fn handle_next(
        &mut self,
        at: usize,
        data: &Data<'_>,
        now: Time,
        open: impl FnOnce(&mut Vec<u8>) -> bool,
    ) -> bool {
        let is_full = self.bytes + data.payload.len() > WINDOW_BYTES;
        if at >= WINDOW || is_full {
            self.counts.refused += 1;
            return false;
        }
        if self.slots.get(at).is_some_and(Option::is_some) {
            self.counts.late += 1;
            return false;
        }
        let due = self.due(data.timestamp, data.is_retransmitted, now);
        let mut payload = self.spare.pop().unwrap_or_default();
        payload.extend_from_slice(data.payload);
        if !open(&mut payload) {
            self.counts.refused += 1;
            return false;
        }
        self.bytes += payload.len();
        let arrived = Some(Arrived { payload, came: now, due });
        if at < self.slots.len() {
            self.fill(data, now);
            self.slots[at] = arrived;
            return false;
        }
        let has_gap = at > self.slots.len();
        let passed = self.lines.as_ref().and_then(|lines| lines.passed(now));
        let patience = match &self.lines {
            None => self.reordering,
            Some(_) => (self.latency / LINES_PATIENCE).min(LINES_PATIENCE_MAX),
        };
        for number in self.slots.len()..at {
            let sequence = self.first.plus(number as u32);
            let is_lost = passed.is_some_and(|passed| sequence.minus(passed) < 0);
            let due = if is_lost { now } else { now + patience };
            self.missing.push_back(Missing { sequence, since: now, due, reports: 0 });
            self.counts.lost += 1;
        }
        self.slots.resize_with(at, || None);
        self.slots.push_back(arrived);
        has_gap
    }

    /// A missing packet has come.
    fn fill(&mut self, data: &Data<'_>, now: Time) {
        let first = self.first;
        let place = |missing: &Missing| missing.sequence.minus(first);
        let Ok(index) = self.missing.binary_search_by_key(&data.sequence.minus(first), place) else { return };
        if let Some(missing) = self.missing.remove(index) {
            self.counts.recovered += 1;
            if !data.is_retransmitted && self.lines.is_none() {
                // It was not lost but late: the next gap is given as much time before it is reported.
                self.reordering = self.reordering.max(now.since(missing.since)).min(REORDERING_MAX);
            }
        }
    }

    /// When a packet with this time stamp is due.
    fn due(&mut self, timestamp: u32, is_retransmitted: bool, now: Time) -> Time {
        let ahead = timestamp.wrapping_sub(self.stamp as u32) as i32;
        let stamp = self.stamp + i64::from(ahead);
        self.stamp = self.stamp.max(stamp);
        let sent = self.offset.saturating_add(stamp.saturating_mul(1000));
        let nanos = i64::try_from(now.as_nanos()).unwrap_or(i64::MAX);
        if !is_retransmitted {
            let step = self.drift.note(nanos.saturating_sub(sent), now);
            self.offset = self.offset.saturating_add(step);
        }
        let sent = Time::from_nanos(u64::try_from(sent).unwrap_or(0));
        (sent + self.latency).min(now + self.latency + AHEAD_MAX)
    }

    /// The first packet that there is, and when it is due.
    fn next_arrived(&self) -> Option<(usize, Time)> {
        self.slots.iter().enumerate().find_map(|(at, slot)| Some((at, slot.as_ref()?.due)))
    }

    /// When the next payload is due, whatever is missing before it.
    pub(super) fn next_due(&self) -> Option<Time> {
        self.next_arrived().map(|(_, due)| due)
    }

    /// Gives the payloads that are due to `take`, in order, each with when it came. What is missing before them is dropped. Returns whether there were any.
    pub(super) fn deliver(&mut self, now: Time, mut take: impl FnMut(&[u8], Time)) -> bool {
        let mut has_delivered = false;
        while let Some((at, due)) = self.next_arrived() {
            if due > now {
                break;
            }
            if at > 0 {
                self.drop_first(at);
            }
            let Some(Some(Arrived { mut payload, came, .. })) = self.slots.pop_front() else { break };
            self.first = self.first.plus(1);
            self.bytes -= payload.len();
            take(&payload, came);
            has_delivered = true;
            if self.spare.len() < 256 {
                payload.clear();
                self.spare.push(payload);
            }
        }
        has_delivered
    }

    /// Gives up the first `count` slots, which are empty.
    fn drop_first(&mut self, count: usize) {
        self.slots.drain(..count);
        self.first = self.first.plus(count as u32);
        self.counts.dropped += count as u64;
        while self.missing.front().is_some_and(|missing| missing.sequence.minus(self.first) < 0) {
            self.missing.pop_front();
        }
    }

    /// The sender has dropped what is missing up to `last`: that is not asked for any more.
    pub(super) fn forget(&mut self, first: Sequence, last: Sequence) {
        self.missing.retain(|missing| missing.sequence.minus(first) < 0 || missing.sequence.minus(last) > 0);
    }

    /// The number of the next packet that has not come (§3.2.4).
    pub(super) fn acknowledged(&self) -> Sequence {
        let at = self.slots.iter().position(Option::is_none).unwrap_or(self.slots.len());
        self.first.plus(at as u32)
    }

    /// Packets for which there is room.
    pub(super) fn room(&self) -> u32 {
        (WINDOW - self.slots.len()) as u32
    }

    /// When losses have to be reported next.
    pub(super) fn report_due(&self) -> Option<Time> {
        let due = self.missing.iter().map(|missing| missing.due).min()?;
        Some(due.max(self.reports_from))
    }

    /// The body of a report of the losses that are due for one, given the round trip and its variation; empty where there are none.
    ///
    /// A packet is asked for again when what was asked before would have come. A report may be lost like any packet: the first one
    /// of a packet is sent twice, so that a lost report costs no round trip. The reference sends a packet again at most once in a
    /// round trip, and so do we, so that the second report costs nothing else.
    pub(super) fn report(&mut self, now: Time, rtt: Duration, variation: Duration) -> Vec<u8> {
        let mut body = Vec::new();
        if now < self.reports_from {
            return body;
        }
        let mut runs = 0;
        let mut run: Option<(Sequence, Sequence)> = None;
        // Of several lines each report goes by two, and the way of what is sent again is as uncertain as their difference.
        let cycle = match self.lines {
            None => rtt + variation.max(REPORT_AGAIN / 2),
            Some(_) => rtt + (variation * 4).max(REPORT_AGAIN),
        };
        let twice = if self.lines.is_some() { cycle } else { REPORT_AGAIN.min(cycle) };
        let again =
            if self.lines.is_some() { cycle } else { cycle.saturating_sub(twice).max(REPORT_AGAIN / 2) };
        for missing in &mut self.missing {
            if missing.due > now || runs >= REPORT_RUNS {
                continue;
            }
            missing.reports += 1;
            let wait = if missing.reports % 2 == 1 { twice } else { again };
            // What has been asked for so often will hardly come: it is asked for ever more seldom.
            missing.due = now + wait * (missing.reports / REPORTS_OFTEN + 1);
            self.counts.reported += 1;
            run = match run {
                Some((first, last)) if last.plus(1) == missing.sequence => Some((first, missing.sequence)),
                Some((first, last)) => {
                    write_loss(first, last, &mut body);
                    runs += 1;
                    Some((missing.sequence, missing.sequence))
                }
                None => Some((missing.sequence, missing.sequence)),
            };
        }
        if let Some((first, last)) = run {
            write_loss(first, last, &mut body);
            self.reports_from = now + REPORTS_APART;
        }
        body
    }

    /// Whether payloads are held back.
    pub(super) fn holds(&self) -> bool {
        self.bytes > 0
    }

    /// Between the oldest and the newest payload that are held back.
    pub(super) fn held(&self) -> Duration {
        let mut dues = self.slots.iter().flatten().map(|arrived| arrived.due);
        let oldest = dues.next();
        let newest = dues.next_back().or(oldest);
        oldest.zip(newest).map_or(Duration::ZERO, |(oldest, newest)| newest.since(oldest))
    }
}

#[cfg(test)]
#[path = "receiver_tests.rs"]
mod tests;
