//! The access units of a video stream, out of its PES packets.
//!
//! ```text
//! PES packets   │ PTS 1       │ PTS 2             │         │ PTS 4
//! bytes         ├─────────────┼──────────┬────────┼─────────┼──────
//! access units  │ 1           │ 2        │ 3      …    3    │ 4
//! ```
//! A PES packet is no picture: a picture may lie in several of them, and several pictures in one (13818-1 §2.14.1). Units are cut
//! where the bitstream says ([`UnitFinder`]); the time stamp of a PES packet is that of the first unit that begins in it
//! (§2.4.3.7). Units without one are spaced evenly, by what lies between the stamps, or by what the stream says of its rate.
//!
//! A unit is given with its last byte where that shows: at the mark that our own muxer ends units with, and at the end of a PES
//! packet with a length, once several of them were ends of units and none was not, and where one of those was longer. Otherwise
//! it is given with the first bytes of the next one, or when the caller says that the source pauses ([`Pictures::pause`]).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::parameter_sets::{ParameterSets, ShownSets, first_slice};
use super::pes::PesHeader;
use super::picture_times::{
    Cut, DEFAULT_PICTURE_TICKS, Follows, Given, PICTURE_TICKS, Times, UNIT_MAX_BYTES, given,
};
use crate::access_unit::Codec;
use crate::bitstream::h264::{self, END_OF_UNIT};
use crate::bitstream::unit_finder::{Syntax, UnitFinder, first_begin, with_leading_zero};
use crate::time::Ticks;
use bytes::{Bytes, BytesMut};
use std::collections::VecDeque;

/// The header of a PES packet at most.
const PES_HEADER_MAX_BYTES: usize = 9 + 255;
/// A PES packet of about the length that its field can say was cut for it.
const PES_FULL_BYTES: usize = 60_000;
/// So many ends of PES packets that were ends of units make the next ones trusted.
const WHOLE_ENDS: u8 = 3;
/// PES packets that begin in one unit at most; of more, those that say nothing are not remembered, nor then the first ones.
const MARKS_MAX: usize = 64;
/// Bytes of the rest of a unit that are given before its end shows: all that is held is looked through for that each time.
const REST_BYTES: usize = 16 << 10;

/// What went wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Damage {
    /// Units that are not whole, or of which no time is known.
    pub(super) damaged: u64,
    pub(super) oversized: u64,
}

/// A PES packet that begins within what is held.
#[derive(Clone, Copy, Debug)]
struct Mark {
    /// Where its first byte lies; 0 also for one before what is held.
    at: usize,
    /// PTS and DTS, until a unit has taken them.
    stamps: Option<(Ticks, Ticks)>,
    /// It came with stamps, whether a unit has taken them or not.
    has_stamps: bool,
    /// It was announced as a place to begin, and no unit has begun there yet.
    announced: bool,
    packet: u64,
}

/// The PES packet that is being read.
#[derive(Clone, Copy, Debug)]
enum Pes {
    None,
    Header {
        packet: u64,
        announced: bool,
    },
    /// Bytes that are still to come; `None`: an open length.
    Payload {
        left: Option<usize>,
        bytes: usize,
    },
}

/// What the ends of PES packets with a length have shown of the ends of units.
#[derive(Clone, Copy, Debug, Default)]
struct Ends {
    /// A unit went on beyond one.
    is_crossed: bool,
    /// Behind so many of them a unit began.
    whole: u8,
    /// The longest of those.
    longest: usize,
    /// The last one of which nothing is known yet: how long its packet was, and where it lies in what is held.
    last: Option<(usize, usize)>,
}

impl Ends {
    /// A unit begins at `at` of what is held.
    fn unit_begins(&mut self, at: usize) {
        let Some((bytes, end)) = self.last.filter(|(_, end)| *end <= at.saturating_add(1)) else { return };
        self.last = None;
        // A zero of its start code may be taken for one of those that may stand behind a unit.
        if end.abs_diff(at) <= 1 {
            self.longest = self.longest.max(bytes);
            self.whole = self.whole.saturating_add(1);
        } else {
            self.is_crossed = true;
        }
    }

    /// What is held begins so many bytes later.
    fn skip(&mut self, bytes: usize) {
        self.last = self.last.map(|(length, end)| (length, end.saturating_sub(bytes)));
    }

    fn are_trusted(&self, bytes: usize) -> bool {
        !self.is_crossed && self.whole >= WHOLE_ENDS && bytes < self.longest && bytes < PES_FULL_BYTES
    }
}

/// Cuts one video stream. Holds one unit, up to [`UNIT_MAX_BYTES`], and about as much that waits for its times.
#[derive(Clone, Debug)]
pub(super) struct Pictures {
    codec: Codec,
    syntax: Option<Syntax>,
    pes: Pes,
    header: Vec<u8>,
    held: BytesMut,
    finder: UnitFinder,
    marks: VecDeque<Mark>,
    /// What is held begins with a unit; otherwise in the middle of one.
    is_aligned: bool,
    /// What was given last was taken as whole at the end of its PES packet, or when the source paused.
    is_guess: bool,
    /// It was taken so when the source paused, and with which packet its PES packet began: what follows of it is given.
    paused: Option<u64>,
    /// What was before the next unit is not all there.
    has_gap: bool,
    /// Nor what is before the one behind that.
    has_gap_behind: bool,
    ends: Ends,
    sets: ParameterSets,
    times: Times,
    damage: Damage,
}

impl Pictures {
    pub(super) fn new(codec: Codec) -> Pictures {
        let syntax = Syntax::of(codec);
        Pictures {
            codec,
            syntax,
            pes: Pes::None,
            header: Vec::new(),
            held: BytesMut::new(),
            finder: UnitFinder::new(syntax.unwrap_or(Syntax::H264)),
            marks: VecDeque::new(),
            is_aligned: false,
            is_guess: false,
            paused: None,
            has_gap: false,
            has_gap_behind: false,
            ends: Ends::default(),
            sets: ParameterSets::default(),
            times: Times::default(),
            damage: Damage::default(),
        }
    }

    /// What went wrong since the last call.
    pub(super) fn take_damage(&mut self) -> Damage {
        std::mem::take(&mut self.damage)
    }

    /// What follows may not continue what was before: neither does the unit behind the one that has begun, if one has.
    pub(super) fn note_gap(&mut self) {
        if self.held.is_empty() {
            self.has_gap = true;
        } else {
            self.has_gap_behind = true;
        }
    }

    /// Packets are missing: what is begun is no whole unit, and the next unit begins where it shows.
    pub(super) fn lose(&mut self) {
        // Of one that was given when the source paused, the rest may be what is missing.
        let is_open = self.paused.is_some() && !matches!(self.pes, Pes::None);
        if !self.held.is_empty() || is_open || matches!(self.pes, Pes::Header { .. }) {
            self.count_damaged();
        }
        self.has_gap = true;
        self.forget();
        self.times.forget();
    }

    fn forget(&mut self) {
        self.held.clear();
        self.header.clear();
        self.marks.clear();
        self.finder.restart();
        (self.pes, self.is_aligned, self.is_guess, self.ends.last) = (Pes::None, false, false, None);
        (self.paused, self.has_gap_behind) = (None, false);
    }

    /// A PES packet begins with the transport packet of this number.
    pub(super) fn begin(&mut self, packet: u64, announced: bool) {
        match self.pes {
            // It ends before its header does, or before the length that it says.
            Pes::Header { .. } => self.count_damaged(),
            Pes::Payload { left: Some(left), .. } if left > 0 => {
                self.count_damaged();
                self.forget();
            }
            _ => {}
        }
        self.header.clear();
        self.pes = Pes::Header { packet, announced };
    }

    /// Takes the payload of a transport packet.
    pub(super) fn push(&mut self, bytes: &[u8], reference: &mut Option<Ticks>, give: &mut dyn FnMut(Given)) {
        match self.pes {
            Pes::None => {}
            Pes::Payload { left, bytes: came } => self.payload(bytes, left, came, give),
            Pes::Header { packet, announced } => {
                let room = PES_HEADER_MAX_BYTES.saturating_sub(self.header.len());
                let before = self.header.len();
                self.header.extend_from_slice(&bytes[..bytes.len().min(room)]);
                let header = match PesHeader::parse(&self.header) {
                    Ok(header) => header,
                    Err(super::Error::Truncated { .. }) if room > bytes.len() => return,
                    Err(_) => {
                        self.count_damaged();
                        self.forget();
                        return;
                    }
                };
                let stamps = header.stamps(reference);
                // Of a stream that is not looked into, a stamp shows where a picture begins.
                if self.syntax.is_none() && stamps.is_some() {
                    self.take_all(give);
                }
                let has_stamps = stamps.is_some();
                self.mark(Mark { at: self.held.len(), stamps, has_stamps, announced, packet });
                let left = header.packet_bytes.map(|bytes| bytes.checked_sub(header.payload_start));
                if left == Some(None) {
                    self.count_damaged();
                    self.forget();
                    return;
                }
                let payload = bytes.get(header.payload_start.saturating_sub(before)..).unwrap_or_default();
                self.payload(payload, left.flatten(), 0, give);
            }
        }
    }

    fn mark(&mut self, mark: Mark) {
        let says_nothing = mark.stamps.is_none() && !mark.announced;
        if self.marks.len() >= MARKS_MAX {
            if says_nothing {
                return;
            }
            let plain = self.marks.iter().position(|mark| mark.stamps.is_none() && !mark.announced);
            self.marks.remove(plain.unwrap_or(0));
        }
        self.marks.push_back(mark);
    }

    fn payload(&mut self, bytes: &[u8], left: Option<usize>, came: usize, give: &mut dyn FnMut(Given)) {
        let bytes = &bytes[..bytes.len().min(left.unwrap_or(usize::MAX))];
        let left = left.map(|left| left.saturating_sub(bytes.len()));
        let came = came.saturating_add(bytes.len());
        self.pes = Pes::Payload { left, bytes: came };
        if self.held.len().saturating_add(bytes.len()) > UNIT_MAX_BYTES {
            self.damage.oversized = self.damage.oversized.saturating_add(1);
            self.has_gap = true;
            self.forget();
            return;
        }
        self.held.extend_from_slice(bytes);
        if self.syntax.is_some() {
            self.cut(false, give);
        }
        // Neither an open end nor one within a unit says anything by itself.
        let is_marked = self.codec == Codec::H264 && self.held.ends_with(&END_OF_UNIT);
        if is_marked && left.is_none_or(|left| left == 0) {
            self.take_all(give);
        } else if left == Some(0) && self.ends.are_trusted(came) {
            self.take_all(give);
            self.is_guess = true;
        } else if left == Some(0) {
            // Within a unit that has gone on beyond an end already.
            self.ends.is_crossed |= self.ends.last.is_some();
            self.ends.last = Some((came, self.held.len()));
        }
        if left == Some(0) {
            self.pes = Pes::None;
        }
    }

    /// Bytes of the picture that has begun.
    pub(super) fn begun_bytes(&self) -> usize {
        self.held.len()
    }

    /// Whether what comes may still be the rest of a picture that was given when the source paused.
    pub(super) fn is_behind_pause(&self) -> bool {
        self.paused.is_some()
    }

    /// The source pauses, and a picture is whole as far as one can know: it is given. What follows of it nevertheless is given as
    /// [`Follows::Rest`].
    pub(super) fn pause(&mut self, give: &mut dyn FnMut(Given)) {
        let is_open = match self.pes {
            Pes::None => true,
            Pes::Header { .. } => false,
            Pes::Payload { left, .. } => left.is_none_or(|left| left == 0),
        };
        if self.syntax.is_none() || !is_open {
            return;
        }
        let packet = self.marks.iter().rev().find(|mark| mark.at == 0).map_or(0, |mark| mark.packet);
        let had_bytes = self.held.len();
        self.take_all(give);
        if self.held.is_empty() && had_bytes > 0 {
            // Its rest has its times, which therefore have to be known.
            let (codec, ticks) = (self.codec, self.times.ticks().unwrap_or(DEFAULT_PICTURE_TICKS));
            self.times.release(codec, ticks, give);
            self.is_guess = true;
            self.paused = self.paused.or(Some(packet));
        }
    }

    /// Gives the first `bytes` of what is held as the rest of the unit that was given when the source paused, if they are that.
    fn give_rest(&mut self, bytes: usize, give: &mut dyn FnMut(Given)) {
        let (Some(packet), Some((pts, dts))) = (self.paused, self.times.latest()) else { return };
        if is_rest(&self.held[..bytes]) {
            let data = self.split(bytes);
            let cut = Cut { packet, follows: Follows::Rest, data, key: false };
            give(given(self.codec, cut, pts, dts));
        }
    }

    /// The stream pauses, or ends: what is held is a whole unit as far as one can know.
    pub(super) fn finish(&mut self, give: &mut dyn FnMut(Given)) {
        match self.pes {
            Pes::Payload { left: Some(left), .. } if left > 0 => self.count_damaged(),
            Pes::Header { .. } => {
                self.count_damaged();
                self.take_all(give);
            }
            _ => self.take_all(give),
        }
        self.forget();
        let (codec, ticks) = (self.codec, self.times.ticks().unwrap_or(DEFAULT_PICTURE_TICKS));
        self.times.release(codec, ticks, give);
        self.has_gap = true;
    }

    fn count_damaged(&mut self) {
        self.damage.damaged = self.damage.damaged.saturating_add(1);
        self.has_gap = true;
    }

    /// Gives the units behind which others have begun; with `is_whole` nothing follows what is held for now.
    fn cut(&mut self, is_whole: bool, give: &mut dyn FnMut(Given)) {
        let Some(syntax) = self.syntax else { return };
        if !self.is_aligned && !self.align(syntax, give) {
            return;
        }
        while let Some(cut) = self.finder.next(&self.held, is_whole) {
            if cut > 0 {
                self.ends.unit_begins(cut);
                self.give(cut, give);
            }
        }
    }

    /// Drops what lies before the first unit that begins. Returns whether one does.
    fn align(&mut self, syntax: Syntax, give: &mut dyn FnMut(Given)) -> bool {
        let Some(mut begin) = first_begin(syntax, &self.held) else {
            // What may be the beginning of a start code, and what stands behind one, stays.
            let behind = |held: &BytesMut| held.len().saturating_sub(8);
            if self.paused.is_some() {
                if self.held.len() < REST_BYTES {
                    return false;
                }
                self.give_rest(behind(&self.held), give);
            }
            self.split(behind(&self.held));
            return false;
        };
        if self.is_guess && is_rest(&self.held[..begin]) {
            if self.paused.is_some() {
                let before = self.held.len();
                self.give_rest(begin, give);
                begin = begin.saturating_sub(before.saturating_sub(self.held.len()));
            } else {
                self.ends.is_crossed = true;
                self.count_damaged();
            }
        }
        self.split(begin);
        self.is_aligned = true;
        self.is_guess = false;
        self.paused = None;
        self.finder.restart();
        true
    }

    /// Takes the first `bytes` of what is held away.
    fn split(&mut self, bytes: usize) -> Bytes {
        self.ends.skip(bytes);
        for mark in &mut self.marks {
            mark.at = mark.at.saturating_sub(bytes);
        }
        self.held.split_to(bytes).freeze()
    }

    /// Gives everything that is held, cut where it has to be.
    fn take_all(&mut self, give: &mut dyn FnMut(Given)) {
        self.cut(true, give);
        let is_marked = self.codec == Codec::H264 && self.held.ends_with(&END_OF_UNIT);
        let mark = if is_marked { END_OF_UNIT.len() } else { 0 };
        if self.syntax.is_none() || self.is_aligned && self.finder.has_slice() {
            self.give(self.held.len().saturating_sub(mark), give);
            self.split(self.held.len());
            self.finder.restart();
            self.is_aligned = self.syntax.is_none();
        } else if !self.is_aligned && self.paused.is_some() {
            self.give_rest(self.held.len().saturating_sub(mark), give);
        }
    }

    /// Gives the first `bytes` of what is held as a unit.
    fn give(&mut self, bytes: usize, give: &mut dyn FnMut(Given)) {
        let before = self.marks.iter().rposition(|mark| mark.at == 0);
        let mut stamps = None;
        let (mut packet, mut announced, mut had_stamps) = (0, false, false);
        for mark in self.marks.iter_mut().take(before.map_or(0, |last| last.saturating_add(1))) {
            stamps = mark.stamps.take().or(stamps);
            announced |= std::mem::take(&mut mark.announced);
            (packet, had_stamps) = (mark.packet, mark.has_stamps);
        }
        // Parameter sets in a PES packet of their own, without a stamp: the picture's is theirs.
        let slice = first_slice(self.codec, &self.held[..bytes]).0;
        let head = |mark: &&mut Mark| mark.at > 0 && mark.at <= slice;
        if stamps.is_none()
            && !had_stamps
            && let Some(mark) = self.marks.iter_mut().find(head)
        {
            stamps = mark.stamps.take();
            announced |= std::mem::take(&mut mark.announced);
        }
        if self.codec == Codec::Av1 {
            // Frames of a unit may have a PES packet each: when the unit is shown, the last one says.
            for mark in self.marks.iter_mut().filter(|mark| mark.at > 0 && mark.at < bytes) {
                let shown = mark.stamps.take().zip(stamps).map(|((pts, _), (_, dts))| (pts, dts));
                stamps = shown.or(stamps);
            }
        }
        let data = self.split(bytes);
        let last = self.marks.iter().rposition(|mark| mark.at == 0).unwrap_or(0);
        // Of those before it nothing is wanted any more but a stamp that no unit has taken.
        let untaken = self.marks.iter().take(last).rev().find_map(|mark| mark.stamps);
        self.marks.drain(..last);
        if let Some(mark) = self.marks.front_mut().filter(|mark| mark.at == 0) {
            mark.stamps = mark.stamps.or(untaken);
        }
        if data.is_empty() {
            return;
        }
        let (data, key) = self.complete(data);
        let follows = if self.has_gap { Follows::Gap } else { Follows::Directly };
        self.has_gap = std::mem::take(&mut self.has_gap_behind);
        let cut = Cut { packet, follows, data, key: key || announced };
        if !self.times.give(self.codec, cut, stamps, give) {
            self.count_damaged();
        }
    }

    /// A unit with the parameter sets that a decoder needs to begin with it, and whether one can, by what it says itself.
    fn complete(&mut self, unit: Bytes) -> (Bytes, bool) {
        if self.syntax.is_none() {
            return (unit, false);
        }
        let (shown, is_key) = ShownSets::of(self.codec, &unit);
        if shown.has_sequence && self.codec == Codec::H264 {
            self.times.stated = stated_ticks(&shown.bytes);
        }
        self.sets.learn(&shown);
        if is_key && !shown.are_whole() && !self.sets.bytes().is_empty() {
            // Behind the delimiter, which comes first.
            let behind = if self.codec == Codec::H264 && h264::begins_with_delimiter(&unit) {
                let first = h264::find_start_code(&unit, 0).unwrap_or(0).saturating_add(3);
                h264::find_start_code(&unit, first).map_or(0, |at| with_leading_zero(&unit, at))
            } else {
                0
            };
            let (head, rest) = unit.split_at(behind);
            return (Bytes::from([head, self.sets.bytes(), rest].concat()), true);
        }
        let key = is_key || self.codec == Codec::H264 && h264::join(&unit).is_some();
        (unit, key)
    }
}

/// Ticks of a picture, by the last sequence parameter set.
fn stated_ticks(sets: &[u8]) -> Option<i64> {
    let set = h264::nals(sets).filter(|nal| nal.kind() == h264::NalType::Sps).last()?;
    let rate = h264::Sps::parse(set.payload()).ok()?.frame_rate?;
    let ticks = i64::from(Ticks::RATE).saturating_mul(rate.denominator().into());
    ticks.checked_div(rate.numerator().into()).filter(|ticks| PICTURE_TICKS.contains(ticks))
}

/// Whether what stands before the first unit belongs to a picture that was given already.
fn is_rest(bytes: &[u8]) -> bool {
    let begins = h264::find_start_code(bytes, 0).is_some_and(|at| bytes[..at].iter().all(|&byte| byte == 0));
    bytes.iter().any(|&byte| byte != 0) && (!begins || h264::nals(bytes).any(|nal| nal.kind().is_slice()))
}
