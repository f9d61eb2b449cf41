//! Where units of coded pictures are handed over.

use super::Length;
use super::source::sleep_until;
use glassline_io::clock::Clock;
use glassline_media::bitstream::h264::units::Piece;
use glassline_media::bitstream::h264::{NalType, Sps, nals};
use glassline_media::{FrameRate, Time, Utc};

/// Where parameter sets name no rate.
pub(super) const ASSUMED_RATE: FrameRate = match FrameRate::new(25, 1) {
    Some(rate) => rate,
    None => unreachable!(),
};

/// An access unit, or the rest of one.
#[derive(Clone, Debug)]
pub struct CodedItem {
    /// The unit.
    pub piece: Piece,
    /// When it was captured, or came.
    pub captured: Time,
    /// The same by the wall clock.
    pub captured_utc: Utc,
    /// Pictures a second, where that is known.
    pub rate: Option<FrameRate>,
    /// Units were lost between the encoder and here, and this one may need them.
    pub follows_gap: bool,
}

/// Hands units to `take` until the length is reached.
pub(super) struct Outlet<'a> {
    take: &'a dyn Fn(CodedItem) -> bool,
    pub(super) clock: Clock,
    pub(super) length: Length,
    /// Pictures so far.
    pub(super) number: u64,
    pub(super) rate: Option<FrameRate>,
    /// When the first one was.
    start: Option<Time>,
    /// Units were lost since the last one.
    pub(super) follows_gap: bool,
}

impl<'a> Outlet<'a> {
    pub(super) fn new(take: &'a dyn Fn(CodedItem) -> bool, clock: Clock, length: Length) -> Outlet<'a> {
        Outlet { take, clock, length, number: 0, rate: None, start: None, follows_gap: false }
    }
}

impl Outlet<'_> {
    /// Hands a unit over; false where that was the last.
    pub(super) fn push(&mut self, piece: Piece, captured: Time) -> bool {
        if !piece.continues {
            if self.length.ends_before(self.number, self.rate.unwrap_or(ASSUMED_RATE)) {
                return false;
            }
            self.number += 1;
        }
        self.look(&piece);
        let captured_utc = self.clock.utc_at(captured);
        let follows_gap = std::mem::take(&mut self.follows_gap);
        (self.take)(CodedItem { piece, captured, captured_utc, rate: self.rate, follows_gap })
    }

    /// Hands a unit of a file over when its time has come.
    pub(super) fn push_timed(&mut self, piece: Piece) -> bool {
        self.look(&piece);
        let start = *self.start.get_or_insert(self.clock.now());
        let due = start + self.rate.unwrap_or(ASSUMED_RATE).time_of(self.number);
        sleep_until(due, self.clock);
        self.push(piece, due)
    }

    /// The rate that parameter sets name.
    fn look(&mut self, piece: &Piece) {
        if self.rate.is_none() && piece.key {
            let sps = nals(&piece.data).find(|nal| nal.kind() == NalType::Sps);
            self.rate = sps.and_then(|nal| Sps::parse(nal.payload()).ok()).and_then(|sps| sps.frame_rate);
        }
    }
}
