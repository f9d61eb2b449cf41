//! The sending end of access units.

use super::wire::UnitHeader;
use crate::shown::Shown;
use crate::wire::{Report, WireError};
use bytes::Bytes;
use glassline_media::{FrameRate, Stamps, Utc};
use glassline_transport::link::{MessageId, Outcome};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Messages without an outcome yet, at most.
const UNDER_WAY_MAX: usize = 1024;
/// After a loss a key frame or a recovery point is waited for so long. A stream that has none then goes on with damaged
/// pictures, which its intra refresh heals, if it has one.
pub const KEY_REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// An access unit, or the rest of one.
#[derive(Clone, Debug)]
pub struct Unit {
    /// Annex B.
    pub data: Bytes,
    /// Decoding can begin here.
    pub key: bool,
    /// Others may refer to it.
    pub reference: bool,
    /// It is the rest of the unit before it.
    pub continues: bool,
    /// When it was captured, or came.
    pub captured: Utc,
    /// The stages that it has passed since, on a clock that is zero at its capture.
    pub passed: Stamps,
}

/// Counts since the beginning.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CodedCounters {
    /// Units that were offered.
    pub offered: u64,
    /// Units that were sent.
    pub sent: u64,
    /// Of them, those where decoding can begin.
    pub key: u64,
    /// Units that no other unit refers to and that did not fit.
    pub skipped: u64,
    /// Units that were not sent, since what they need is not there: until a key frame.
    pub dropped: u64,
    /// Units that were lost, or that a newer one replaced.
    pub lost: u64,
    /// Times that the stream went on after a loss without a key frame, since none had come for [`KEY_REQUEST_TIMEOUT`].
    pub resumed: u64,
    /// Units that were shown, as receivers say.
    pub shown: u64,
    /// Bytes of what was sent.
    pub bytes: u64,
}

/// A unit that others refer to and that was sent.
#[derive(Clone, Copy, Debug)]
struct SentReference {
    number: u64,
    key: bool,
    delivered: bool,
}

/// Decides of access units in the order of decoding.
#[derive(Debug)]
pub struct CodedSender {
    epoch: u32,
    rate: Option<FrameRate>,
    number: u64,
    /// The newest unit that others refer to; `None`: nothing but a key frame makes sense.
    reference: Option<u64>,
    newest_key: u64,
    /// A key frame is worth asking for.
    wants_key: bool,
    /// When the first unit was captured that was not sent for want of a key frame.
    waits_since: Option<Utc>,
    /// The newest unit that others refer to and that the receiver has been able to decode.
    decodable: Option<u64>,
    /// Later units that others refer to: those without an outcome yet, and those that need one of these.
    chain: VecDeque<SentReference>,
    under_way: BTreeMap<MessageId, (u64, bool)>,
    /// The message that was made last.
    last: Option<(u64, bool)>,
    shown: Shown,
    counters: CodedCounters,
}

impl CodedSender {
    /// A sender of a run that is named `epoch`.
    pub fn new(epoch: u32, rate: Option<FrameRate>) -> CodedSender {
        CodedSender {
            epoch,
            rate,
            number: 0,
            reference: None,
            newest_key: 0,
            wants_key: true,
            waits_since: None,
            decodable: None,
            chain: VecDeque::new(),
            under_way: BTreeMap::new(),
            last: None,
            shown: Shown::default(),
            counters: CodedCounters::default(),
        }
    }

    /// Pictures a second, once they are known.
    pub fn set_rate(&mut self, rate: FrameRate) {
        self.rate = Some(rate);
    }

    /// The message of a unit; `None` where the unit is left out. The link takes `budget` bytes now. The caller then
    /// calls [`CodedSender::sent`] or [`CodedSender::not_sent`].
    pub fn message(&mut self, unit: &Unit, budget: u64) -> Option<Bytes> {
        self.counters.offered += u64::from(!unit.continues);
        let needs = match (unit.key, self.reference) {
            (true, _) => None,
            (false, Some(reference)) => Some(reference),
            (false, None) => match self.resumption(unit) {
                Some(reference) => Some(reference),
                None => {
                    self.counters.dropped += 1;
                    return None;
                }
            },
        };
        self.waits_since = None;
        if !unit.reference && !unit.key && unit.data.len() as u64 > budget {
            self.counters.skipped += 1;
            return None;
        }
        let header = UnitHeader {
            epoch: self.epoch,
            number: self.number,
            needs,
            continues: unit.continues,
            reference: unit.reference,
            captured: unit.captured,
            rate: self.rate,
            passed: unit.passed,
        };
        let mut message = Vec::with_capacity(unit.data.len() + 64);
        header.write(&mut message);
        message.extend_from_slice(&unit.data);
        self.last = Some((self.number, unit.reference));
        if unit.key {
            (self.newest_key, self.wants_key) = (self.number, false);
            self.counters.key += 1;
        }
        if unit.reference {
            self.reference = Some(self.number);
            self.chain.push_back(SentReference { number: self.number, key: unit.key, delivered: false });
            if self.chain.len() > UNDER_WAY_MAX {
                self.chain.pop_front();
            }
        }
        self.number += 1;
        self.counters.sent += 1;
        self.counters.bytes += unit.data.len() as u64;
        Some(message.into())
    }

    /// What a unit says that it needs, where no key frame has come for long enough after a loss: the newest reference that the
    /// receiver has, though it is not the one that the unit was coded against.
    fn resumption(&mut self, unit: &Unit) -> Option<u64> {
        let since = *self.waits_since.get_or_insert(unit.captured);
        let waited = unit.captured.as_micros().saturating_sub(since.as_micros());
        if !unit.reference || unit.continues || u128::from(waited) < KEY_REQUEST_TIMEOUT.as_micros() {
            return None;
        }
        let decodable = self.decodable?;
        // What was lost before does not matter any more.
        (self.newest_key, self.wants_key) = (self.number, false);
        self.counters.resumed += 1;
        Some(decodable)
    }

    /// A reference has arrived: it can be decoded if all before it back to a key frame have.
    fn handle_delivered(&mut self, number: u64) {
        let Some(place) = self.chain.iter().position(|link| link.number == number) else { return };
        self.chain[place].delivered = true;
        if self.chain[place].key {
            self.chain.drain(..place);
        }
        while let Some(link) = self.chain.front().copied().filter(|link| link.delivered) {
            self.chain.pop_front();
            self.decodable = Some(link.number);
        }
    }

    /// A unit would take the place of one that it needs and that waits: it is left out, and what needs it with it.
    pub fn leave_out(&mut self, unit: &Unit) {
        self.counters.offered += u64::from(!unit.continues);
        self.counters.skipped += 1;
        if unit.reference {
            self.reference = None;
            self.wants_key = true;
        }
    }

    /// A unit was lost before it came here: the next ones may need it, so that only a key frame makes sense.
    pub fn handle_gap(&mut self) {
        self.reference = None;
        self.wants_key = true;
    }

    /// The last message is under way by this name.
    pub fn sent(&mut self, id: MessageId) {
        if let Some(last) = self.last.take() {
            self.under_way.insert(id, last);
            while self.under_way.len() > UNDER_WAY_MAX {
                self.under_way.pop_first();
            }
        }
    }

    /// The link has not taken the last message.
    pub fn not_sent(&mut self) {
        if let Some((number, reference)) = self.last.take() {
            self.lose(number, reference);
        }
    }

    /// Takes what became of a message.
    pub fn handle_outcome(&mut self, id: MessageId, outcome: Outcome) {
        match (self.under_way.remove(&id), outcome) {
            (Some((number, true)), Outcome::Delivered) => self.handle_delivered(number),
            (Some((_, false)), Outcome::Delivered) | (None, _) => {}
            (Some((number, reference)), _) => self.lose(number, reference),
        }
    }

    fn lose(&mut self, number: u64, reference: bool) {
        self.counters.lost += 1;
        self.break_chain(number);
        if reference && number >= self.newest_key {
            self.reference = None;
            self.wants_key = true;
        }
    }

    /// A reference will not be decoded, and so none of those behind it before the next key frame.
    fn break_chain(&mut self, lost: u64) {
        let mut is_behind = false;
        self.chain.retain(|link| {
            is_behind = link.number >= lost
                && (is_behind || link.number == lost)
                && !(link.key && link.number > lost);
            !is_behind
        });
    }

    /// Takes a message of channel [`REPORTS`](crate::REPORTS).
    ///
    /// # Errors
    /// It is none.
    pub fn handle_report(&mut self, message: &[u8]) -> Result<(), WireError> {
        let report = Report::parse(message)?;
        if report.epoch != self.epoch {
            return Ok(());
        }
        self.shown.handle_report(report.shown);
        self.counters.shown = self.shown.total().min(self.counters.sent);
        if let Some(lacking) = report.lacking.filter(|lacking| lacking.number < self.number)
            && lacking.number >= self.newest_key
        {
            self.break_chain(lacking.source);
            self.reference = None;
            self.wants_key = true;
        }
        Ok(())
    }

    /// The peer is another one, or has begun anew: it has nothing.
    pub fn handle_reset(&mut self) {
        self.reference = None;
        self.wants_key = true;
        self.shown.handle_reset();
        self.under_way.clear();
        self.chain.clear();
        (self.decodable, self.waits_since) = (None, None);
    }

    /// Nothing can be sent but a key frame: an encoder that can be asked for one should be.
    pub fn wants_key(&self) -> bool {
        self.wants_key
    }

    /// Counts.
    pub fn counters(&self) -> CodedCounters {
        self.counters
    }
}
