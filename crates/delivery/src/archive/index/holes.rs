//! What is told not to be there, so that one look says it of a segment.

use super::{HOLES_MAX, Hole};
use crate::packager::RenditionName;
use std::collections::BTreeMap;

/// Holes as they were told, and which numbers they cover together: pieces that do not overlap, by their first number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Holes {
    told: BTreeMap<(RenditionName, u64, u64), Hole>,
    covered: BTreeMap<RenditionName, BTreeMap<u64, Piece>>,
}

/// Numbers up to `last`, which part `part` was the last one to tell of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Piece {
    last: u64,
    part: u32,
}

impl Holes {
    /// Adds a hole, not backwards, that part `part` tells of. Returns false where there are too many: it is left out then.
    pub(super) fn add(&mut self, part: u32, hole: Hole) -> bool {
        let Hole { rendition, first, last, .. } = hole;
        if self.told.len() >= HOLES_MAX && !self.told.contains_key(&(rendition, first, last)) {
            return false;
        }
        self.told.insert((rendition, first, last), hole);
        cover(self.covered.entry(rendition).or_default(), first, Piece { last, part });
        true
    }

    /// The last part that tells of a hole which has this segment.
    pub(super) fn told_in(&self, rendition: RenditionName, number: u64) -> Option<u32> {
        let (_, piece) = self.covered.get(&rendition)?.range(..=number).next_back()?;
        (piece.last >= number).then_some(piece.part)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Hole> {
        self.told.values()
    }
}

/// Lays `new` over the pieces from `first` on: of two parts the later one counts. Pieces of one part that touch become one, so that a
/// hole which grows from part to part stays one piece.
fn cover(pieces: &mut BTreeMap<u64, Piece>, first: u64, new: Piece) {
    // Those that overlap or touch it: the one that begins before it, and those that begin in it.
    let before = pieces.range(..first).next_back().map(|(at, _)| *at);
    let end = new.last.saturating_add(1);
    let touched: Vec<(u64, Piece)> =
        pieces.range(before.unwrap_or(first)..=end).map(|(at, piece)| (*at, *piece)).collect();
    let mut laid: Vec<(u64, Piece)> = Vec::with_capacity(touched.len().saturating_mul(2).saturating_add(1));
    // Where `new` is still to be laid from; `None` behind its end.
    let mut rest = Some(first);
    for (at, piece) in touched {
        pieces.remove(&at);
        let is_beside = piece.last < first || at > new.last;
        if piece.part <= new.part && !is_beside {
            // What stands out at both ends.
            if at < first {
                laid.push((at, Piece { last: first.saturating_sub(1), part: piece.part }));
            }
            if piece.last > new.last {
                if let Some(from) = rest.take() {
                    laid.push((from, new));
                }
                laid.push((end, piece));
            }
            continue;
        }
        if let Some(from) = rest.filter(|from| *from < at) {
            laid.push((from, Piece { last: new.last.min(at.saturating_sub(1)), part: new.part }));
        }
        laid.push((at, piece));
        rest = rest.filter(|_| piece.last < new.last).map(|from| from.max(piece.last.saturating_add(1)));
        if at > new.last {
            rest = None;
        }
    }
    if let Some(from) = rest {
        laid.push((from, new));
    }
    let mut joined: Vec<(u64, Piece)> = Vec::with_capacity(laid.len());
    for (at, piece) in laid {
        match joined.last_mut() {
            Some((_, last)) if last.part == piece.part && last.last.checked_add(1) == Some(at) => {
                last.last = piece.last;
            }
            _ => joined.push((at, piece)),
        }
    }
    pieces.extend(joined);
}

#[cfg(test)]
mod tests {
    use super::super::HoleReason;
    use super::*;
    use glassline_media::Utc;
    use proptest::prelude::*;

    const VIDEO: RenditionName = RenditionName::Video;

    fn hole(first: u64, last: u64) -> Hole {
        let (from, to) = (Utc::default(), Utc::default());
        Hole { rendition: VIDEO, first, last, from, to, reason: HoleReason::Spool }
    }

    proptest! {
        /// A look says the same as a walk over all holes.
        #[test]
        fn the_last_part_that_tells_of_a_segment_is_found(
            told in proptest::collection::vec((0..6u32, 0..40u64, 0..12u64), 0..30),
        ) {
            let mut holes = Holes::default();
            for (part, first, length) in &told {
                prop_assert!(holes.add(*part, hole(*first, first + length)));
            }
            for number in 0..60 {
                let walked = told.iter().filter(|(_, first, length)| (*first..=first + length).contains(&number));
                prop_assert_eq!(holes.told_in(VIDEO, number), walked.map(|(part, ..)| *part).max(), "{}", number);
            }
            let pieces: Vec<_> = holes.covered.get(&VIDEO).into_iter().flatten().collect();
            prop_assert!(pieces.iter().all(|(at, piece)| **at <= piece.last));
            prop_assert!(pieces.windows(2).all(|pair| pair[0].1.last < *pair[1].0), "{:?}", pieces);
        }
    }

    #[test]
    fn a_hole_that_grows_is_one_piece_and_too_many_are_left_out() {
        let mut holes = Holes::default();
        for number in 0..HOLES_MAX as u64 {
            assert!(holes.add(1, hole(number, number)));
        }
        assert_eq!(holes.covered[&VIDEO].len(), 1);
        assert!(!holes.add(2, hole(7, 9)) && holes.add(2, hole(7, 7)));
        assert_eq!((holes.told_in(VIDEO, 7), holes.told_in(VIDEO, 8)), (Some(2), Some(1)));
        holes.add(3, hole(7, 7));
        assert!(!holes.add(3, hole(0, u64::MAX)));
    }
}
