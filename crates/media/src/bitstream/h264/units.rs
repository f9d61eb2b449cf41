//! A byte stream cut into access units (H.264 §7.4.1.2.3) as its bytes come.
//!
//! ```text
//! delimiter │ parameter sets, SEI │ first slice (first_mb_in_slice 0) │ more slices │ ‖ what begins the next unit
//! ```
//! A unit ends where the next one begins, and in a live stream that comes a picture later. A caller that knows that the
//! source has paused calls [`Splitter::flush`]. Slices that still follow then come as a piece of their own
//! ([`Piece::continues`]).
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::super::unit_finder::{Syntax, UnitFinder, first_begin, with_leading_zero};
use super::nal::find_start_code;
use bytes::{Bytes, BytesMut};

/// A unit that is larger than this is no unit.
pub const UNIT_BYTES_MAX: usize = 16 << 20;

/// An access unit, or the rest of one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes, start codes included.
    pub data: Bytes,
    /// It is an IDR picture, or a recovery point that brings parameter sets: decoding can begin here.
    pub key: bool,
    /// Other pictures may refer to it.
    pub reference: bool,
    /// It belongs to the picture that the last piece began.
    pub continues: bool,
}

/// Cuts a byte stream. Holds one unit at most.
#[derive(Debug)]
pub struct Splitter {
    held: BytesMut,
    finder: UnitFinder,
    /// A flush has cut a unit, and it is not known yet whether more of it follows.
    cut: bool,
    /// Bytes that were thrown away.
    dropped: u64,
}

impl Default for Splitter {
    fn default() -> Splitter {
        let finder = UnitFinder::new(Syntax::H264);
        Splitter { held: BytesMut::new(), finder, cut: false, dropped: 0 }
    }
}

impl Splitter {
    /// A splitter before the first byte.
    pub fn new() -> Splitter {
        Splitter::default()
    }

    /// Bytes that belonged to no unit: before the first start code, or to one without end.
    pub fn dropped_bytes(&self) -> u64 {
        self.dropped
    }

    /// Takes the next bytes, and appends the units that end in them.
    pub fn push(&mut self, bytes: &[u8], pieces: &mut Vec<Piece>) {
        self.held.extend_from_slice(bytes);
        while let Some(cut) = self.finder.next(&self.held, false) {
            pieces.extend(self.take(cut));
        }
        if self.held.len() > UNIT_BYTES_MAX {
            self.dropped = self.dropped.saturating_add(self.held.len() as u64);
            self.held.clear();
            self.finder.restart();
            self.cut = false;
        }
    }

    /// Gives what there is of a picture: the source has paused behind it, or ended.
    pub fn flush(&mut self, pieces: &mut Vec<Piece>) {
        while let Some(cut) = self.finder.next(&self.held, true) {
            pieces.extend(self.take(cut));
        }
        if self.finder.has_slice() {
            pieces.extend(self.take(self.held.len()));
            self.finder.restart();
            // The slices that may still follow belong to it.
            self.cut = true;
        }
    }

    fn take(&mut self, end: usize) -> Option<Piece> {
        let data = self.held.split_to(end).freeze();
        let begin = find_start_code(&data, 0);
        let begins_anew = begin
            .is_some_and(|begin| first_begin(Syntax::H264, &data) == Some(with_leading_zero(&data, begin)));
        let continues = std::mem::take(&mut self.cut) && !begins_anew;
        let begin = begin?;
        // Zeros in front belong to the start code; anything else is no H.264.
        let begin = with_leading_zero(&data, begin);
        self.dropped = self.dropped.saturating_add(begin as u64);
        let data = data.slice(begin..);
        let reference = super::nals(&data).any(|nal| nal.kind().is_slice() && nal.reference() > 0);
        Some(Piece { key: !continues && super::join(&data).is_some(), reference, continues, data })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn nal(header: u8, rest: &[u8]) -> Vec<u8> {
        [&[0, 0, 0, 1, header][..], rest].concat()
    }

    /// Three pictures: a key frame of two slices behind its parameter sets, one of one slice, one that nobody refers to.
    fn stream() -> Vec<Vec<u8>> {
        vec![
            [nal(0x67, &[1, 2]), nal(0x68, &[3]), nal(0x65, &[0x88, 9, 9]), nal(0x65, &[0x40, 8])].concat(),
            [nal(0x06, &[5, 1, 7, 0x80]), nal(0x41, &[0x9a, 7, 7, 7])].concat(),
            nal(0x01, &[0x9a, 5, 5]),
        ]
    }

    #[test]
    fn units_are_cut_where_the_next_one_begins() {
        let units = stream();
        let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
        splitter.push(&[0xff, 0xff], &mut pieces);
        splitter.push(&units.concat(), &mut pieces);
        splitter.flush(&mut pieces);
        let found: Vec<_> =
            pieces.iter().map(|piece| (piece.data.to_vec(), piece.key, piece.reference)).collect();
        let wanted: Vec<_> = units
            .into_iter()
            .zip([(true, true), (false, true), (false, false)])
            .map(|(u, (k, r))| (u, k, r))
            .collect();
        assert_eq!(found, wanted);
        assert!(pieces.iter().all(|piece| !piece.continues));
        assert_eq!(splitter.dropped_bytes(), 2);
        splitter.flush(&mut pieces);
        assert_eq!(pieces.len(), 3);
    }

    #[test]
    fn a_pause_ends_a_unit_and_what_still_follows_is_said_to() {
        let units = stream();
        let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
        let (first, rest) = units[0].split_at(units[0].len() - 7);
        splitter.push(first, &mut pieces);
        splitter.flush(&mut pieces);
        splitter.push(rest, &mut pieces);
        splitter.push(&units[1], &mut pieces);
        splitter.flush(&mut pieces);
        splitter.push(&units[2], &mut pieces);
        splitter.flush(&mut pieces);
        let found: Vec<_> = pieces.iter().map(|piece| (piece.continues, piece.key)).collect();
        assert_eq!(found, [(false, true), (true, false), (false, false), (false, false)]);
        assert_eq!(pieces.iter().flat_map(|piece| piece.data.to_vec()).collect::<Vec<_>>(), units.concat());
    }

    #[test]
    fn what_never_ends_is_dropped() {
        let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
        splitter.push(&nal(0x65, &[0x88]), &mut pieces);
        for _ in 0..20 {
            splitter.push(&[7; 1 << 20], &mut pieces);
        }
        assert!(pieces.is_empty() && splitter.dropped_bytes() >= 16 << 20);
        splitter.push(&stream().concat(), &mut pieces);
        splitter.flush(&mut pieces);
        assert_eq!(pieces.len(), 3);
    }

    proptest! {
        #[test]
        fn any_chop_gives_the_same(cuts in prop::collection::vec(0usize..80, 0..12)) {
            let whole = stream().concat();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).chain([0, whole.len()]).collect();
            cuts.sort_unstable();
            let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
            for pair in cuts.windows(2) {
                splitter.push(&whole[pair[0]..pair[1]], &mut pieces);
            }
            splitter.flush(&mut pieces);
            let found: Vec<Vec<u8>> = pieces.iter().map(|piece| piece.data.to_vec()).collect();
            prop_assert_eq!(found, stream());
        }

        #[test]
        fn nothing_is_lost_or_made_of_any_bytes(chunks in prop::collection::vec(prop::collection::vec(0u8..4, 0..40), 0..12)) {
            let (mut splitter, mut pieces) = (Splitter::new(), Vec::new());
            let given: usize = chunks.iter().map(Vec::len).sum();
            for chunk in &chunks {
                splitter.push(chunk, &mut pieces);
                splitter.flush(&mut pieces);
            }
            let taken: usize = pieces.iter().map(|piece| piece.data.len()).sum();
            prop_assert!(taken as u64 + splitter.dropped_bytes() <= given as u64);
        }
    }
}
