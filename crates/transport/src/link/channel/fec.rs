//! Parity for the parts of one message, so that what a burst swallows is there without a round trip.
//!
//! A message of `total` bytes is seen as k shards of `shard` bytes, the last one filled with zeros; m parity shards are
//! made of them by the Reed–Solomon code of Leopard-RS over GF(2¹⁶) (Lin, Al-Naffouri, Han: FFT Algorithm for Binary
//! Extension Finite Fields and its Application to Reed–Solomon Codes, 2016), and any k of the k + m give the message.

use bytes::Bytes;
use reed_solomon_simd::{ReedSolomonDecoder, ReedSolomonEncoder};
use std::collections::BTreeMap;
use std::ops::Range;

use super::length_of;
use crate::link::MAX_PATHS;
use crate::link::ranges::Ranges;
use crate::link::steps::step;
use crate::link::wire::frame;

/// Bytes of a shard are even in number.
const ALIGN: u32 = 2;
/// A shard has at least so many bytes.
pub(crate) const MIN_SHARD: u32 = 2;
/// What other frames in a packet leave a shard room for, most often.
const OTHER_FRAMES: usize = 48;

/// What a piece costs beside its bytes.
const PIECE_COST: u64 = 64;

/// How many shards a message of `total` bytes has.
pub(crate) fn shards(total: u32, shard: u32) -> usize {
    shards_before(total, shard) as usize
}

/// How many shards begin before `end`; none if they had no bytes.
#[inline]
fn shards_before(end: u32, shard: u32) -> u32 {
    if shard == 0 { 0 } else { end.div_ceil(shard) }
}

/// In which shard the byte at `offset` is, which is how many end before it.
#[inline]
fn shard_at(offset: u32, shard: u32) -> u32 {
    offset.checked_div(shard).unwrap_or_default()
}

/// What the frame of a parity shard takes at most.
fn frame_bytes(shard: u32) -> u64 {
    u64::from(shard).saturating_add(frame::PARITY_HEAD as u64)
}

/// Bytes of a shard, shards of the message and shards of parity, for a message of `total` bytes. `None` where there is
/// nothing to protect.
fn shape(total: u32, percent: u8, whole: usize) -> Option<(u32, usize, usize)> {
    let most = u32::try_from(whole.checked_sub(frame::PARITY_HEAD + OTHER_FRAMES)?).ok()?;
    if total == 0 || percent == 0 || most < MIN_SHARD {
        return None;
    }
    let shard = total.div_ceil(total.div_ceil(most & !(ALIGN - 1))).checked_next_multiple_of(ALIGN)?;
    let count = shards(total, shard);
    Some((shard, count, count.saturating_mul(percent.min(100).into()).div_ceil(100)))
}

/// What the parity of a message of `total` bytes takes, as [`Parity::of`] makes it: its frames.
pub(crate) fn parity_bytes(total: u32, percent: u8, whole: usize) -> u64 {
    let Some((shard, _, parity)) = shape(total, percent, whole) else { return 0 };
    frame_bytes(shard).saturating_mul(parity as u64)
}

/// The parity of a message that is being sent.
pub(crate) struct Parity {
    pub(crate) shard: u32,
    pub(crate) pieces: Vec<Bytes>,
    /// How many have been sent.
    pub(crate) sent: usize,
    pub(crate) acked: usize,
    pub(crate) lost: usize,
    /// Parts of the message that are lost and are not sent again, or not yet.
    pub(crate) gone: Ranges,
    /// Shards of the message all of which is acknowledged, and those of which something is gone.
    shards: Fates,
    /// Bytes of the message that each path has carried, by its number.
    carried: [u64; MAX_PATHS],
    /// It stands for copies of the message over a second path.
    pub(crate) is_for_copies: bool,
}

/// How many shards are acknowledged as a whole, and how many are gone at least in part.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fates {
    acked: usize,
    lost: usize,
}

impl Parity {
    /// Parity for `message`, which leaves in packets with `whole` bytes of room. `None` where there is nothing to
    /// protect.
    pub(crate) fn of(message: &[u8], percent: u8, whole: usize) -> Option<Parity> {
        let (shard, count, parity) = shape(length_of(message), percent, whole)?;
        let mut encoder = ReedSolomonEncoder::new(count, parity, shard as usize).ok()?;
        for part in message.chunks(shard as usize) {
            add_padded(part, shard, |part| encoder.add_original_shard(part)).ok()?;
        }
        let encoded = encoder.encode().ok()?;
        let pieces = encoded.recovery_iter().map(Bytes::copy_from_slice).collect();
        let (gone, shards, carried) = (Ranges::default(), Fates::default(), [0; MAX_PATHS]);
        Some(Parity {
            shard,
            pieces,
            sent: 0,
            acked: 0,
            lost: 0,
            gone,
            shards,
            carried,
            is_for_copies: false,
        })
    }

    /// How many bytes the shard in which `offset` is has from there on.
    #[inline]
    pub(crate) fn left_of_shard(&self, offset: u32) -> u32 {
        self.shard.saturating_sub(offset.checked_rem(self.shard).unwrap_or_default())
    }

    /// Bytes of the pieces that were not sent.
    pub(crate) fn unsent_bytes(&self) -> u64 {
        let unsent = self.pieces.len().saturating_sub(self.sent);
        frame_bytes(self.shard).saturating_mul(unsent as u64)
    }

    /// What is known of those shards to which the bytes of `part` belong. Cost: by their number, which is one for a part
    /// that was sent by itself.
    pub(crate) fn fates(&self, part: &Range<u32>, acked: &Ranges, total: u32) -> Fates {
        let mut fates = Fates::default();
        for index in shard_at(part.start, self.shard)..shards_before(part.end, self.shard) {
            step();
            let (start, end) = bounds(index as usize, total, self.shard);
            let is_acked = acked.missing(start, end).next().is_none();
            fates.acked = fates.acked.saturating_add(is_acked.into());
            let is_lost = self.gone.touching(start, end).any(|range| range.0 < end && range.1 > start);
            fates.lost = fates.lost.saturating_add(is_lost.into());
        }
        fates
    }

    /// What was known of some shards has changed.
    pub(crate) fn count(&mut self, before: Fates, after: Fates) {
        let changed = |count: usize, before: usize, after: usize| {
            let sum = count.saturating_add(after);
            debug_assert!(before <= sum, "{before} go of {sum} that are counted");
            sum.saturating_sub(before)
        };
        self.shards.acked = changed(self.shards.acked, before.acked, after.acked);
        self.shards.lost = changed(self.shards.lost, before.lost, after.lost);
    }

    /// Whether the other end can put the message together.
    pub(crate) fn suffices(&self, total: u32) -> bool {
        self.acked > 0 && self.acked.saturating_add(self.shards.acked) >= shards(total, self.shard)
    }

    /// Whether it cannot any more, since too much is lost.
    pub(crate) fn is_in_vain(&self) -> bool {
        self.shards.lost.saturating_add(self.lost) > self.pieces.len()
    }

    /// How many pieces have left that have arrived or may arrive yet.
    fn usable(&self) -> usize {
        self.acked.max(self.sent.saturating_sub(self.lost))
    }

    /// The first part of the message that is gone and that those pieces do not make good which have left: they are too few
    /// for all that is gone. It is of one shard.
    pub(crate) fn first_in_vain(&self, total: u32) -> Option<(u32, u32)> {
        if self.shards.lost <= self.usable() {
            return None;
        }
        let (start, end) = self.gone.first()?;
        let (_, bound) = bounds(shard_at(start, self.shard) as usize, total, self.shard);
        Some((start, end.min(bound)))
    }

    /// Whether a further piece may be of use: there are shards of which it is not known that they have arrived, and fewer
    /// pieces.
    pub(crate) fn is_wanted(&self, total: u32) -> bool {
        self.usable().saturating_add(self.shards.acked) < shards(total, self.shard)
    }

    /// The path of this number carries so many bytes of the message.
    pub(crate) fn count_carried(&mut self, path: u8, bytes: u32) {
        if let Some(carried) = self.carried.get_mut(usize::from(path)) {
            *carried = carried.saturating_add(bytes.into());
        }
    }

    /// How many bytes of the message each path has carried, by its number.
    pub(crate) fn carried(&self) -> [u64; MAX_PATHS] {
        self.carried
    }
}

/// The parity that has come of a message that is being received.
pub(crate) struct Gathered {
    shard: u32,
    count: usize,
    pieces: BTreeMap<u32, Box<[u8]>>,
    /// How many shards of the message have come as a whole.
    covered: usize,
}

impl Gathered {
    /// None yet. `None`: no message of `total` bytes has such parity.
    pub(crate) fn new(total: u32, shard: u32, count: u32) -> Option<Gathered> {
        let sensible = total > 0 && shard >= MIN_SHARD && shard.is_multiple_of(ALIGN) && count > 0;
        let count = count as usize;
        if !sensible || count > shards(total, shard) || shard > total.checked_next_multiple_of(ALIGN)? {
            return None;
        }
        ReedSolomonDecoder::supports(shards(total, shard), count).then_some(Gathered {
            shard,
            count,
            pieces: BTreeMap::new(),
            covered: 0,
        })
    }

    /// How many shards the ranges of `have` hold as a whole that lie at `start..end`. Cost: by the number of those.
    pub(crate) fn covered(&self, have: &Ranges, start: u32, end: u32, total: u32) -> usize {
        let whole = |(low, high): (u32, u32)| {
            let shards = if high == total { shards_before } else { shard_at };
            shards(high, self.shard).saturating_sub(shards_before(low, self.shard)) as usize
        };
        have.touching(start, end).map(whole).sum()
    }

    /// So many more shards have come as a whole.
    pub(crate) fn count_covered(&mut self, more: usize) {
        self.covered = self.covered.saturating_add(more);
    }

    /// Whether there is enough of it to make what is missing of the message.
    pub(crate) fn suffices(&self, total: u32) -> bool {
        self.covered.saturating_add(self.pieces.len()) >= shards(total, self.shard)
    }

    /// Whether a frame speaks of the same shards.
    pub(crate) fn is_of(&self, shard: u32, count: u32) -> bool {
        (self.shard, self.count) == (shard, count as usize)
    }

    /// What is held: bytes, and what each piece costs beside them.
    pub(crate) fn memory(&self) -> u64 {
        u64::from(self.shard).saturating_add(PIECE_COST).saturating_mul(self.pieces.len() as u64)
    }

    /// Adds a piece; `false` if it was there.
    pub(crate) fn insert(&mut self, index: u32, piece: &[u8]) -> bool {
        if self.pieces.contains_key(&index) {
            return false;
        }
        self.pieces.insert(index, piece.into());
        true
    }

    /// Fills what is missing in `message`, which has all of `have`. It can be done if [`Gathered::suffices`]; cost: some
    /// multiple of the message.
    pub(crate) fn recover(&self, message: &mut Vec<u8>, have: &Ranges, total: u32) -> bool {
        let (count, shard) = (shards(total, self.shard), self.shard as usize);
        // As many as are wanted, and one more tells that it is in vain.
        let missing: Vec<usize> =
            missing_shards(have, total, self.shard).take(self.pieces.len().saturating_add(1)).collect();
        if missing.len() > self.pieces.len() {
            return false;
        }
        message.resize(total as usize, 0);
        let Ok(mut decoder) = ReedSolomonDecoder::new(count, self.count, shard) else { return false };
        let mut gone = missing.iter().copied().peekable();
        for (index, part) in message.chunks(shard).enumerate() {
            if gone.next_if_eq(&index).is_some() {
                continue;
            }
            if add_padded(part, self.shard, |part| decoder.add_original_shard(index, part)).is_err() {
                return false;
            }
        }
        for (index, piece) in &self.pieces {
            if decoder.add_recovery_shard(*index as usize, piece).is_err() {
                return false;
            }
        }
        let Ok(restored) = decoder.decode() else { return false };
        for (index, part) in restored.restored_original_iter() {
            let (start, end) = bounds(index, total, self.shard);
            let Some(gap) = message.get_mut(start as usize..end as usize) else { return false };
            let Some(part) = part.get(..gap.len()) else { return false };
            gap.copy_from_slice(part);
        }
        true
    }
}

fn bounds(index: usize, total: u32, shard: u32) -> (u32, u32) {
    let start = u32::try_from(index).unwrap_or(u32::MAX).saturating_mul(shard).min(total);
    (start, start.saturating_add(shard).min(total))
}

/// The numbers of those shards of which not all is in `have`, ascending.
fn missing_shards(have: &Ranges, total: u32, shard: u32) -> impl Iterator<Item = usize> {
    let mut next = 0;
    have.missing(0, total).flat_map(move |(start, end)| {
        step();
        let range = shard_at(start, shard).max(next)..shards_before(end, shard);
        next = range.end.max(next);
        range.map(|index| index as usize)
    })
}

fn add_padded<T>(part: &[u8], shard: u32, mut add: impl FnMut(&[u8]) -> T) -> T {
    if part.len() == shard as usize {
        return add(part);
    }
    let mut padded = part.to_vec();
    padded.resize(shard as usize, 0);
    add(&padded)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn any_shards_as_many_as_the_message_has_give_it(
            size in 1usize..20_000, percent in 1u8..=100, whole in 100usize..1500, seed in any::<u64>(),
        ) {
            let message: Vec<u8> = (0..size).map(|at| (at as u64 ^ seed).wrapping_mul(0x9E37_79B9) as u8).collect();
            let total = size as u32;
            let parity = Parity::of(&message, percent, whole).unwrap();
            prop_assert!(parity.shard as usize <= whole);
            let count = shards(total, parity.shard);
            let mut gathered = Gathered::new(total, parity.shard, parity.pieces.len() as u32).unwrap();
            let (mut have, mut out) = (Ranges::default(), vec![0; size]);
            // So many shards are lost, some of the parity among them, chosen by the seed.
            let mut kept: Vec<usize> = (0..count + parity.pieces.len()).collect();
            for step in 0..parity.pieces.len() as u64 {
                kept.remove((seed.rotate_left(step as u32) % kept.len() as u64) as usize);
            }
            for (step, index) in kept.iter().copied().enumerate() {
                if index < count {
                    let (start, end) = bounds(index, total, parity.shard);
                    out[start as usize..end as usize].copy_from_slice(&message[start as usize..end as usize]);
                    have.insert(start, end);
                } else {
                    prop_assert!(gathered.insert((index - count) as u32, &parity.pieces[index - count]));
                }
                let whole = have.covers(total) || gathered.recover(&mut out, &have, total);
                prop_assert_eq!(whole, step + 1 == kept.len() || have.covers(total), "{} of {}", step + 1, kept.len());
            }
            prop_assert_eq!(out, message);
        }

        #[test]
        fn nothing_that_is_told_of_parity_breaks_it(
            total in 0u32..5000, shard in 0u32..6000, count in 0u32..6000, parts in prop::collection::vec((0u32..5000, 0u32..3000), 0..8),
        ) {
            let Some(mut gathered) = Gathered::new(total, shard, count) else { return Ok(()) };
            let mut have = Ranges::default();
            for (start, length) in parts {
                have.insert(start.min(total), (start + length).min(total));
                gathered.insert(start % count, &vec![7; shard as usize]);
                gathered.recover(&mut Vec::new(), &have, total);
            }
            prop_assert!(gathered.memory() <= u64::from(total) + u64::from(shard) + PIECE_COST * u64::from(count));
        }
    }
}
