//! Frames out of damaged IVF files of VP8.
//!
//! IVF has no mark at which a reader could find its way again: behind a length that is wrong all is noise. What there is instead
//! is that headers agree with each other: a length within bounds, a time stamp a little later than the last, bytes that begin as a
//! frame of VP8 does, and behind them another such header.
//!
//! ```text
//!   header ─ is it one? ──yes──► frame, as soon as its last byte is there
//!              └─no─► search: the frame before (its length may have been too large), this one, what follows
//!                       └─► found one with another header behind it: what is in front of it is passed over
//!                       └─► found none: it is taken as it stands, and the decoder says what it is
//! ```
//! A file without damage is read as by [`Reader`](super::ivf::Reader), and as early.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::ivf::{FRAME_HEADER_BYTES, Frame, HEADER_BYTES, Header, IvfError, MAX_FRAME_BYTES, Reader};
use bytes::Bytes;

/// Stamps from a frame to the next at most, beyond which a stamp is thought to be damaged: ten minutes of 1/90000 s.
const STEP_MAX: u64 = 1 << 26;
/// Bytes of a frame that tell whether it may be one of VP8.
const TAG_BYTES: usize = 10;
/// Stamps in a row that do not follow the last one and are right all the same: time goes on from them.
const DOUBTS_MAX: u32 = 3;

/// What is found in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    /// A frame, which may be damaged within.
    Frame(Frame),
    /// Bytes that are no frame, in front of one that is. None where the frame before was longer than it should be, and what it
    /// has swallowed follows.
    Lost {
        /// How many were passed over.
        bytes: u64,
    },
    /// The file ends within a frame.
    Cut {
        /// What is there of it.
        bytes: u64,
    },
}

/// What a place in a file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Header,
    NoHeader,
    /// More bytes are needed.
    Unknown,
}

/// Reads frames, and goes on behind damage. Holds two frames at most.
#[derive(Debug, Default)]
pub struct SalvagingReader {
    header: Option<Header>,
    /// What of the header is still to be skipped.
    skip: usize,
    held: Vec<u8>,
    /// Where the last frame's bytes begin in `held`; what is in front of it is of no more use.
    before: usize,
    /// Where the next header stands.
    at: usize,
    /// Where a search goes on.
    search: Option<usize>,
    /// The last stamp that is believed.
    last_stamp: Option<u64>,
    /// The one that it followed: where `last_stamp` itself is damaged, but not enough to be seen, what comes next follows this one.
    agreed_stamp: Option<u64>,
    doubts: u32,
    /// Nothing tells where the next header is: bytes that were passed over so far.
    lost: Option<u64>,
    is_ended: bool,
}

impl SalvagingReader {
    /// A reader at the start of a stream.
    pub fn new() -> SalvagingReader {
        SalvagingReader::default()
    }

    /// The file header, once it has been read.
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Takes bytes, in order and chopped in any way.
    pub fn push(&mut self, bytes: &[u8]) {
        let done = self.before.min(self.at);
        if done > 0 {
            self.held.drain(..done);
            self.before = self.before.saturating_sub(done);
            self.at = self.at.saturating_sub(done);
            self.search = self.search.map(|search| search.saturating_sub(done));
        }
        self.held.extend_from_slice(bytes);
    }

    /// Says that no bytes follow.
    pub fn end(&mut self) {
        self.is_ended = true;
    }

    /// What comes next; `None` where more bytes are needed, or all was told.
    ///
    /// # Errors
    /// Those of the file header, without which there is nothing to go by.
    pub fn poll(&mut self) -> Result<Option<Found>, IvfError> {
        if self.header.is_none() && !self.read_header()? {
            return Ok(None);
        }
        if self.skip > 0 {
            let now = self.skip.min(self.left());
            self.move_to(self.at.saturating_add(now));
            self.skip = self.skip.saturating_sub(now);
            self.before = self.at;
        }
        if self.lost.is_some() {
            return Ok(self.search_on());
        }
        if self.left() == 0 {
            return Ok(None);
        }
        let Some((length, stamp)) = self.frame_header(self.at) else {
            return Ok(if self.is_ended { self.cut() } else { None });
        };
        if self.search.is_none() {
            match self.judge(self.at, false) {
                Verdict::Unknown => return Ok(None),
                Verdict::Header => return Ok(self.take(length, stamp, false)),
                // The frame before may have been longer than it should be.
                Verdict::NoHeader => self.search = Some(self.before.saturating_add(1)),
            }
        }
        Ok(self.search(length, stamp))
    }

    fn left(&self) -> usize {
        self.held.len().saturating_sub(self.at)
    }

    fn move_to(&mut self, at: usize) {
        (self.at, self.search) = (at, None);
    }

    fn read_header(&mut self) -> Result<bool, IvfError> {
        let mut reader = Reader::new();
        let head = &self.held[..self.held.len().min(HEADER_BYTES)];
        let mut rest = head;
        reader.parse(&mut rest)?;
        let Some((header, [.., low, high])) = reader.header().zip(head.first_chunk::<8>()) else {
            return if self.is_ended { reader.finish().map(|()| false) } else { Ok(false) };
        };
        self.header = Some(*header);
        self.skip = usize::from(u16::from_le_bytes([*low, *high])).saturating_sub(HEADER_BYTES);
        self.at = HEADER_BYTES;
        self.before = HEADER_BYTES;
        Ok(true)
    }

    /// The length and time stamp that stand at a place.
    fn frame_header(&self, at: usize) -> Option<(usize, u64)> {
        let bytes: &[u8; FRAME_HEADER_BYTES] = self.held.get(at..)?.first_chunk()?;
        let (length, stamp) = (bytes.first_chunk()?, bytes.last_chunk()?);
        Some((usize::try_from(u32::from_le_bytes(*length)).ok()?, u64::from_le_bytes(*stamp)))
    }

    /// Whether a header stands at a place. `is_sought`: nothing led there, so that it has to agree with what follows, too.
    fn judge(&self, at: usize, is_sought: bool) -> Verdict {
        let more = if self.is_ended { Verdict::NoHeader } else { Verdict::Unknown };
        let Some((length, stamp)) = self.frame_header(at) else { return more };
        if length > MAX_FRAME_BYTES || !self.follows(stamp, is_sought) || (is_sought && length == 0) {
            return Verdict::NoHeader;
        }
        let start = at.saturating_add(FRAME_HEADER_BYTES);
        let Some(tag) = self.held.get(start..start.saturating_add(length.min(TAG_BYTES))) else {
            return more;
        };
        if !is_vp8(tag, length) {
            return Verdict::NoHeader;
        }
        if !is_sought {
            return Verdict::Header;
        }
        let end = start.saturating_add(length);
        if end == self.held.len() && self.is_ended {
            return Verdict::Header;
        }
        let Some((next_length, next_stamp)) = self.frame_header(end) else { return more };
        let goes_on = next_length <= MAX_FRAME_BYTES
            && next_stamp.checked_sub(stamp).is_some_and(|step| step <= STEP_MAX);
        if goes_on { Verdict::Header } else { Verdict::NoHeader }
    }

    fn follows(&self, stamp: u64, is_sought: bool) -> bool {
        let Some(last) = self.last_stamp else { return stamp <= STEP_MAX || !is_sought };
        let is_behind = |before: u64| {
            stamp.checked_sub(before).is_some_and(|step| step <= STEP_MAX && (step > 0 || !is_sought))
        };
        is_behind(last) || self.agreed_stamp.map_or(stamp <= STEP_MAX, is_behind)
    }

    fn believe(&mut self, stamp: u64) {
        let follows = |last: &u64| stamp.checked_sub(*last).is_some_and(|step| step <= STEP_MAX);
        if let Some(last) = self.last_stamp.filter(follows) {
            self.agreed_stamp = Some(last);
        }
        self.last_stamp = Some(stamp);
    }

    /// Gives the frame at the next header, once all of it is there.
    fn take(&mut self, length: usize, stamp: u64, is_doubtful: bool) -> Option<Found> {
        let start = self.at.saturating_add(FRAME_HEADER_BYTES);
        let end = start.saturating_add(length);
        let Some(bytes) = self.held.get(start..end) else {
            if !self.is_ended {
                return None;
            }
            // Its length may be what is wrong.
            return match self.seek(self.at.saturating_add(1), self.held.len()) {
                Ok(found) => self.pass_over(found),
                Err(_) => self.cut(),
            };
        };
        let frame = Frame { time_stamp: stamp, bytes: Bytes::copy_from_slice(bytes) };
        self.doubts = if is_doubtful { self.doubts.saturating_add(1) } else { 0 };
        if !is_doubtful || self.doubts >= DOUBTS_MAX || self.last_stamp.is_none() {
            self.believe(stamp);
        }
        self.before = start;
        self.move_to(end);
        Some(Found::Frame(frame))
    }

    /// Goes on with a search for a header, since none stands where one should: in the frame before, and in this one, as far as its
    /// length makes any sense.
    fn search(&mut self, length: usize, stamp: u64) -> Option<Found> {
        let is_bounded = length <= MAX_FRAME_BYTES;
        let end = self.at.saturating_add(FRAME_HEADER_BYTES).saturating_add(length);
        let until = if is_bounded { end.min(self.held.len()) } else { self.held.len() };
        let at = match self.seek(self.search.unwrap_or(self.at), until) {
            Ok(found) => return self.pass_over(found),
            Err(at) => at,
        };
        self.search = Some(at);
        if is_bounded {
            let is_there = at >= end && end <= self.held.len();
            return if is_there || self.is_ended { self.take(length, stamp, true) } else { None };
        }
        if at <= self.at && !self.is_ended {
            return None;
        }
        self.lost = Some(at.saturating_sub(self.at) as u64);
        (self.before, self.at, self.search) = (at, at, None);
        self.search_on()
    }

    /// Goes on with a search of which nothing tells where it ends. What was searched is not kept.
    fn search_on(&mut self) -> Option<Found> {
        let passed = self.lost?;
        let (to, is_over) = match self.seek(self.at, self.held.len()) {
            Ok(found) => (found, true),
            Err(_) if self.is_ended => (self.held.len(), true),
            Err(at) => (at, false),
        };
        let bytes = passed.saturating_add(to.saturating_sub(self.at) as u64);
        self.move_to(to);
        self.before = to;
        self.lost = Some(bytes).filter(|_| !is_over);
        is_over.then_some(Found::Lost { bytes })
    }

    /// The first header at a place from `from` on and below `until`; otherwise where to go on once there is more.
    fn seek(&self, from: usize, until: usize) -> Result<usize, usize> {
        for at in from..until {
            match self.judge(at, true) {
                Verdict::Header => return Ok(at),
                Verdict::NoHeader => {}
                Verdict::Unknown => return Err(at),
            }
        }
        Err(until.max(from))
    }

    fn pass_over(&mut self, found: usize) -> Option<Found> {
        let bytes = found.saturating_sub(self.at);
        self.move_to(found);
        self.before = found;
        Some(Found::Lost { bytes: bytes as u64 })
    }

    fn cut(&mut self) -> Option<Found> {
        let bytes = self.left();
        self.move_to(self.held.len());
        self.before = self.at;
        Some(Found::Cut { bytes: bytes as u64 })
    }
}

/// Whether a frame of `length` bytes may begin so (RFC 6386 §9.1). Frames without bytes are those that an encoder dropped.
fn is_vp8(tag: &[u8], length: usize) -> bool {
    let Some(&[b0, b1, b2]) = tag.first_chunk::<3>() else { return length == 0 };
    let is_key = b0 & 1 == 0;
    let partition = u32::from_le_bytes([b0, b1, b2, 0]) >> 5;
    let head: usize = if is_key { 10 } else { 3 };
    let is_start = !is_key || tag.get(3..6) == Some(&[0x9D, 0x01, 0x2A]);
    let fits = usize::try_from(partition).is_ok_and(|partition| partition <= length.saturating_sub(head));
    (b0 >> 1) & 7 <= 3 && is_start && partition > 0 && length >= head && fits
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::FrameRate;
    use proptest::prelude::*;

    fn frame(number: u64, bytes: usize) -> Frame {
        // A first partition of 5 bytes, and noise.
        let mut all = if number == 0 {
            vec![5 << 5 | 0x10, 0, 0, 0x9D, 0x01, 0x2A, 16, 0, 16, 0]
        } else {
            vec![5 << 5 | 0x11, 0, 0]
        };
        let mut state = number * 977 + 1;
        while all.len() < bytes {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            all.push((state >> 56) as u8);
        }
        Frame { time_stamp: number * 40, bytes: all.into() }
    }

    fn frames() -> Vec<Frame> {
        (0..12).map(|number| frame(number, 60 + 37 * (number as usize % 5))).collect()
    }

    fn file(frames: &[Frame]) -> Vec<u8> {
        let rate = FrameRate::new(1_000, 1).unwrap();
        let mut out = Vec::new();
        Header { codec: Header::VP8, width: 16, height: 16, rate, frames: 0 }.write(&mut out);
        frames.iter().for_each(|frame| frame.write(&mut out).unwrap());
        out
    }

    /// Where the header of a frame stands.
    fn header_at(frames: &[Frame], number: usize) -> usize {
        HEADER_BYTES
            + frames[..number].iter().map(|frame| FRAME_HEADER_BYTES + frame.bytes.len()).sum::<usize>()
    }

    fn read(bytes: &[u8], chop: usize) -> Result<Vec<Found>, IvfError> {
        let (mut reader, mut out) = (SalvagingReader::new(), Vec::new());
        for chunk in bytes.chunks(chop) {
            reader.push(chunk);
            while let Some(found) = reader.poll()? {
                out.push(found);
            }
        }
        reader.end();
        while let Some(found) = reader.poll()? {
            out.push(found);
        }
        Ok(out)
    }

    /// Which of `frames` are found as they are, and what else is told.
    fn whole(frames: &[Frame], found: &[Found]) -> (Vec<u64>, Vec<Found>) {
        let is_whole = |found: &&Found| matches!(found, Found::Frame(frame) if frames.contains(frame));
        let numbers = found.iter().filter(is_whole).map(|found| match found {
            Found::Frame(frame) => frame.time_stamp / 40,
            _ => 0,
        });
        let rest = found.iter().filter(|found| !matches!(found, Found::Frame(_)));
        (numbers.collect(), rest.cloned().collect())
    }

    #[test]
    fn a_file_without_damage_is_read_as_it_is_and_at_once() {
        let frames = frames();
        let bytes = file(&frames);
        for chop in [1, 7, 64, 10_000] {
            let expected: Vec<Found> = frames.iter().cloned().map(Found::Frame).collect();
            assert_eq!(read(&bytes, chop).unwrap(), expected);
        }
        let mut reader = SalvagingReader::new();
        for (number, frame) in frames.iter().enumerate() {
            let from = if number == 0 { 0 } else { header_at(&frames, number) };
            reader.push(&bytes[from..header_at(&frames, number + 1)]);
            assert_eq!(reader.poll().unwrap(), Some(Found::Frame(frame.clone())), "with its last byte");
            assert_eq!(reader.poll().unwrap(), None);
        }
    }

    #[test]
    fn behind_a_length_that_is_wrong_the_next_frames_are_found() {
        let frames = frames();
        let real = frames[4].bytes.len() as u32;
        // Beyond all bounds; beyond the end; over the next two frames; a little too long or short; nothing.
        for length in [u32::MAX, 1 << 20, real + 150, real + 1, real - 1, 20, 0] {
            let mut bytes = file(&frames);
            let at = header_at(&frames, 4);
            bytes[at..at + 4].copy_from_slice(&length.to_le_bytes());
            for chop in [1, 50, 10_000] {
                let found = read(&bytes, chop).unwrap();
                let (numbers, told) = whole(&frames, &found);
                assert_eq!(
                    numbers,
                    [0, 1, 2, 3, 5, 6, 7, 8, 9, 10, 11],
                    "{length} for {real}, {chop}: {told:?}"
                );
                assert!(matches!(told[..], [Found::Lost { .. }]), "{length}: {told:?}");
            }
        }
    }

    #[test]
    fn bytes_that_are_missing_or_too_many_lose_one_frame() {
        let frames = frames();
        let at = header_at(&frames, 6) + 30;
        let mut fewer = file(&frames);
        fewer.drain(at..at + 9);
        let mut more = file(&frames);
        more.splice(at..at, [0x5A; 100]);
        let mut header_less = file(&frames);
        header_less.drain(header_at(&frames, 6)..header_at(&frames, 6) + 12);
        for bytes in [fewer, more, header_less] {
            let (numbers, told) = whole(&frames, &read(&bytes, 100).unwrap());
            assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11], "{told:?}");
            assert_eq!(told.len(), 1, "{told:?}");
        }
    }

    #[test]
    fn a_stamp_or_tag_that_is_wrong_loses_nothing_else() {
        let frames = frames();
        for offset in [4, 9, 12] {
            let mut bytes = file(&frames);
            bytes[header_at(&frames, 6) + offset] ^= 0xFF;
            let found = read(&bytes, 100).unwrap();
            let (numbers, told) = whole(&frames, &found);
            assert_eq!(numbers, [0, 1, 2, 3, 4, 5, 7, 8, 9, 10, 11], "{offset}");
            assert_eq!(
                (found.len(), told.len()),
                (12, 0),
                "{offset}: the frame is given, and the decoder says what it is"
            );
        }
        // Time that begins anew is a file that was put together.
        let twice: Vec<Frame> = frames.iter().chain(&frames).cloned().collect();
        let found = read(&file(&twice), 100).unwrap();
        assert_eq!(found, twice.into_iter().map(Found::Frame).collect::<Vec<_>>());
    }

    #[test]
    fn a_first_stamp_that_is_wrong_does_not_hide_what_follows_damage() {
        let frames = frames();
        for wrong in [0, 5] {
            let mut bytes = file(&frames);
            // Small enough to be believed, and a length beyond all bounds behind it.
            bytes[header_at(&frames, wrong) + 4 + 3] = 2;
            bytes[header_at(&frames, wrong + 1)..][..4].copy_from_slice(&u32::MAX.to_le_bytes());
            let (numbers, told) = whole(&frames, &read(&bytes, 100).unwrap());
            let expected: Vec<u64> =
                (0..12).filter(|n| *n != wrong as u64 && *n != wrong as u64 + 1).collect();
            assert_eq!(numbers, expected, "{told:?}");
        }
    }

    #[test]
    fn a_file_that_is_cut_says_so() {
        let frames = frames();
        let bytes = file(&frames);
        for (left, expected) in [(5, 5), (12, 12), (70, 70)] {
            let (numbers, told) = whole(&frames, &read(&bytes[..header_at(&frames, 11) + left], 33).unwrap());
            assert_eq!(numbers.len(), 11);
            assert_eq!(told, [Found::Cut { bytes: expected }]);
        }
        let mut garbage = bytes.clone();
        garbage.truncate(header_at(&frames, 8));
        garbage.extend([0xEE; 5_000]);
        let (numbers, told) = whole(&frames, &read(&garbage, 33).unwrap());
        assert_eq!((numbers.len(), told), (8, vec![Found::Lost { bytes: 5_000 }]));
        let cut = IvfError::Truncated { place: "the file header", frame: 0 };
        assert_eq!(read(&bytes[..20], 7), Err(cut));
        assert!(matches!(read(&bytes[1..], 7), Err(IvfError::Magic { .. })));
    }

    proptest! {
        #[test]
        fn whatever_is_changed_most_frames_are_found(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4), chop in 1usize..500,
        ) {
            let frames = frames();
            let mut bytes = file(&frames);
            let length = bytes.len() - HEADER_BYTES;
            for (at, value) in &changes {
                bytes[HEADER_BYTES + at.index(length)] = *value;
            }
            let (numbers, _) = whole(&frames, &read(&bytes, chop).unwrap());
            // A change damages the frame that it is in, and at the worst its neighbours.
            prop_assert!(numbers.len() + 3 * changes.len() >= frames.len(), "{:?} {:?}", changes, numbers);
        }

        #[test]
        fn garbage_never_panics(bytes in prop::collection::vec(any::<u8>(), 0..400), good_start: bool, chop in 1usize..50) {
            let bytes = if good_start { [file(&frames()[..2]), bytes].concat() } else { bytes };
            let _ = read(&bytes, chop);
        }
    }
}
