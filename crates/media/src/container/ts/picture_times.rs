//! When pictures are shown and decoded, of units with a time stamp and of those without one.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use crate::access_unit::{AccessUnit, Codec};
use crate::time::Ticks;
use bytes::Bytes;

/// A unit that grows beyond this is dropped.
pub(super) const UNIT_MAX_BYTES: usize = 8 << 20;
/// Units that wait at most for a time stamp that tells how far they lie apart, as long as they have fewer bytes than one may have.
const WAITING_MAX: usize = 64;
/// Ticks of a picture that are believed: 1 to 300 a second.
pub(super) const PICTURE_TICKS: std::ops::RangeInclusive<i64> = 300..=90_000;
/// Ticks of a picture of which nothing else is known.
pub(super) const DEFAULT_PICTURE_TICKS: i64 = 3600;

/// How an access unit of pictures follows the one before it in its elementary stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Follows {
    /// Directly, as far as the packets show.
    #[default]
    Directly,
    /// Units before it are missing or damaged, or a discontinuity was announced: it may need pictures that never come.
    Gap,
    /// It is the rest of that unit, of which [`Demuxer::pause`](super::demux::Demuxer::pause) gave the beginning. It has the
    /// times of that, and may begin within a NAL unit.
    Rest,
}

/// A unit, with the packet that its PES packet began with.
pub(super) struct Given {
    pub(super) packet: u64,
    pub(super) follows: Follows,
    pub(super) unit: AccessUnit,
}

/// A unit that has no times yet.
#[derive(Clone, Debug)]
pub(super) struct Cut {
    pub(super) packet: u64,
    pub(super) follows: Follows,
    pub(super) data: Bytes,
    pub(super) key: bool,
}

/// Gives units their times.
#[derive(Clone, Debug, Default)]
pub(super) struct Times {
    /// Of the last unit that brought some.
    last: Option<(Ticks, Ticks)>,
    /// Units since then.
    since: i64,
    /// Ticks of a picture, as the stamps have it.
    measured: Option<i64>,
    /// Ticks of a picture, as the last parameter set has it.
    pub(super) stated: Option<i64>,
    /// What came since then, and waits for the next stamp; its bytes.
    waiting: Vec<Cut>,
    waiting_bytes: usize,
}

impl Times {
    /// What follows lies at no known distance from what was.
    pub(super) fn forget(&mut self) {
        (self.last, self.waiting_bytes) = (None, 0);
        self.waiting.clear();
    }

    /// How far pictures lie apart, if that is known.
    pub(super) fn ticks(&self) -> Option<i64> {
        self.measured.or(self.stated)
    }

    /// Of the newest unit.
    pub(super) fn latest(&self) -> Option<(Ticks, Ticks)> {
        let (pts, dts) = self.last?;
        let later = Ticks(self.ticks().unwrap_or(DEFAULT_PICTURE_TICKS).saturating_mul(self.since));
        Some((pts + later, dts + later))
    }

    /// Gives a unit with its time, or keeps it until that is known. Returns false where it never will be.
    pub(super) fn give(
        &mut self,
        codec: Codec,
        unit: Cut,
        stamps: Option<(Ticks, Ticks)>,
        give: &mut dyn FnMut(Given),
    ) -> bool {
        let Some((pts, dts)) = stamps else {
            let Some((last_pts, last_dts)) = self.last else { return false };
            self.since = self.since.saturating_add(1);
            match self.ticks() {
                Some(ticks) if self.waiting.is_empty() => {
                    let later = Ticks(ticks.saturating_mul(self.since));
                    give(given(codec, unit, last_pts + later, last_dts + later));
                }
                _ => {
                    self.waiting_bytes = self.waiting_bytes.saturating_add(unit.data.len());
                    self.waiting.push(unit);
                    if self.waiting.len() >= WAITING_MAX || self.waiting_bytes > UNIT_MAX_BYTES {
                        self.measured = Some(DEFAULT_PICTURE_TICKS);
                        self.release(codec, DEFAULT_PICTURE_TICKS, give);
                    }
                }
            }
            return true;
        };
        if let Some((_, last_dts)) = self.last {
            let between = (dts - last_dts).0.checked_div(self.since.saturating_add(1)).unwrap_or(0);
            self.measured = Some(between).filter(|ticks| PICTURE_TICKS.contains(ticks)).or(self.measured);
            self.release(codec, self.ticks().unwrap_or(DEFAULT_PICTURE_TICKS), give);
        }
        (self.last, self.since) = (Some((pts, dts)), 0);
        give(given(codec, unit, pts, dts));
        true
    }

    /// Gives what waits, so far apart.
    pub(super) fn release(&mut self, codec: Codec, ticks: i64, give: &mut dyn FnMut(Given)) {
        let Some((pts, dts)) = self.last else { return };
        let first = self.since.saturating_sub(i64::try_from(self.waiting.len()).unwrap_or(0));
        self.waiting_bytes = 0;
        for (number, unit) in (first.saturating_add(1)..).zip(self.waiting.drain(..)) {
            let later = Ticks(ticks.saturating_mul(number));
            give(given(codec, unit, pts + later, dts + later));
        }
    }
}

pub(super) fn given(codec: Codec, cut: Cut, pts: Ticks, dts: Ticks) -> Given {
    let Cut { packet, follows, data, key } = cut;
    let stamps = crate::Stamps::default();
    Given { packet, follows, unit: AccessUnit { codec, data, pts, dts, random_access: key, stamps } }
}
