//! Frames that are not out yet.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::coverage::Coverage;
use glassline_media::Time;

/// A frame in the making.
#[derive(Debug, Default)]
pub(super) struct Frame {
    /// Its name, for plans.
    pub(super) number: u64,
    /// Its memory; `None` where there was none, so that it is lost as a whole.
    pub(super) slot: Option<usize>,
    /// The time stamp of each field.
    pub(super) timestamps: [Option<u32>; 2],
    /// The sequence number of its first packet.
    pub(super) base: u64,
    /// That of its last one, where that is known.
    pub(super) end: Option<u64>,
    /// The lowest one that has come, and the highest one.
    pub(super) lowest: u64,
    pub(super) highest: u64,
    /// Packets that brought something.
    pub(super) unique: u64,
    /// The sequence numbers of those without samples that came, at most [`Frame::EMPTY_MAX`].
    pub(super) empty: Vec<u64>,
    pub(super) coverage: Coverage,
    /// When its first packet came, and its newest one.
    pub(super) began: Time,
    pub(super) latest: Time,
}

impl Frame {
    /// Packets without samples that are known of a frame: one that closes each field, and some more.
    const EMPTY_MAX: usize = 16;

    /// Notes a packet without samples; false where it has come before.
    pub(super) fn note_empty(&mut self, sequence: u64) -> bool {
        let is_new = self.empty.len() < Frame::EMPTY_MAX && !self.empty.contains(&sequence);
        if is_new {
            self.empty.push(sequence);
        }
        is_new
    }

    /// Whether both its fields have one time stamp.
    pub(super) fn has_one_stamp(&self) -> bool {
        self.timestamps[0].is_some() && self.timestamps[0] == self.timestamps[1]
    }

    /// Its first packet comes.
    pub(super) fn begin(&mut self, (timestamp, field): (u32, usize), sequence: u64, at: Time) {
        self.timestamps[field] = Some(timestamp);
        (self.base, self.lowest, self.highest) = (sequence, sequence, sequence);
        (self.began, self.latest) = (at, at);
    }

    /// The time stamp of its first field.
    pub(super) fn timestamp(&self) -> u32 {
        self.timestamps[0].or(self.timestamps[1]).unwrap_or(0)
    }

    /// The time stamp of its last field that has come.
    pub(super) fn newest_timestamp(&self) -> u32 {
        self.timestamps[1].or(self.timestamps[0]).unwrap_or(0)
    }
}
