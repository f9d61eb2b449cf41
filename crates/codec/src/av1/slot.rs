//! The eight places where a decoder keeps pictures.

use std::fmt;

/// One of the eight reference slots of a decoder (AV1 specification §7.20).
///
/// All that decoding a picture depends on, beside its bytes and the sequence header, lies in the slots that it names: a slot
/// holds a picture, and with it the probabilities and filter deltas that go on from it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(u8);

impl Slot {
    /// All slots, from 0 to 7.
    pub const ALL: [Slot; 8] = [Slot(0), Slot(1), Slot(2), Slot(3), Slot(4), Slot(5), Slot(6), Slot(7)];

    /// The slot of a number from 0 to 7, or `None`.
    pub const fn new(index: u8) -> Option<Slot> {
        if index < 8 { Some(Slot(index)) } else { None }
    }

    /// Its number, 0 to 7.
    pub const fn index(self) -> u8 {
        self.0
    }

    /// The bit that stands for it in `refresh_frame_flags`.
    pub const fn bit(self) -> u8 {
        1 << self.0
    }
}

impl fmt::Display for Slot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
