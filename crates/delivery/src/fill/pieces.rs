//! Bytes that grow at their end and are read at any place.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::memory::Memory;
use bytes::Bytes;

/// Neighbours up to this many bytes together become one: a source that sends byte by byte shall not cost a piece a byte,
/// nor a reader behind it a system call.
const MERGED_BYTES: usize = 64 << 10;

/// Runs of bytes, end to end.
#[derive(Clone, Debug, Default)]
pub(super) struct Pieces {
    /// Where each begins, and its bytes; none is empty.
    runs: Vec<(u64, Bytes)>,
    end: u64,
    /// What counts the memory of runs that are made here.
    memory: Option<Memory>,
}

impl Pieces {
    /// No bytes yet; `memory` counts the runs that are made here.
    pub(super) fn counted(memory: Option<Memory>) -> Pieces {
        Pieces { memory, ..Pieces::default() }
    }

    /// What counts their memory, if anything does.
    pub(super) fn memory(&self) -> Option<&Memory> {
        self.memory.as_ref()
    }

    /// How many bytes there are.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Takes the next bytes. Costs a copy of each byte a few times at most, however they are chopped, and none where they
    /// come in pieces of 64 kB.
    pub(super) fn append(&mut self, bytes: Bytes) {
        if bytes.is_empty() {
            return;
        }
        let begin = self.end;
        self.end = end_of(begin, &bytes);
        self.runs.push((begin, bytes));
        // Like the carry of a binary counter: a run is copied only into one that is twice as long.
        while let [.., (begin, one), (_, other)] = &self.runs[..]
            && one.len() <= other.len().saturating_mul(2)
            && one.len().saturating_add(other.len()) <= MERGED_BYTES
        {
            let both = [&one[..], &other[..]].concat();
            let both = match &self.memory {
                Some(memory) => memory.hold(both),
                None => Bytes::from(both),
            };
            let merged = (*begin, both);
            self.runs.truncate(self.runs.len().saturating_sub(2));
            self.runs.push(merged);
        }
    }

    /// Lets go the runs that end at `before` at the latest.
    pub(super) fn trim(&mut self, before: u64) {
        let past = self.runs.partition_point(|(begin, bytes)| end_of(*begin, bytes) <= before);
        self.runs.drain(..past);
    }

    /// Appends to `into` what is there from `from` up to `to`, or up to the end. Returns how many bytes that is: none where
    /// byte `from` was let go.
    pub(super) fn read(&self, from: u64, to: u64, into: &mut Vec<Bytes>) -> u64 {
        let to = to.min(self.end);
        let first = self.runs.partition_point(|(begin, bytes)| end_of(*begin, bytes) <= from);
        if self.runs.get(first).is_some_and(|(begin, _)| *begin > from) {
            return 0;
        }
        let mut at = from;
        for (begin, bytes) in &self.runs[first..] {
            if at >= to {
                break;
            }
            // Both lie in this run or, the second, behind it.
            let inside = |place: u64| {
                let offset = usize::try_from(place.saturating_sub(*begin));
                offset.unwrap_or(usize::MAX).min(bytes.len())
            };
            into.push(bytes.slice(inside(at)..inside(to)));
            at = end_of(*begin, bytes).min(to);
        }
        at.saturating_sub(from)
    }

    /// How many runs they are.
    #[cfg(test)]
    pub(super) fn runs(&self) -> usize {
        self.runs.len()
    }
}

/// Behind the last byte of a run that begins at `begin`.
fn end_of(begin: u64, bytes: &Bytes) -> u64 {
    begin.saturating_add(bytes.len() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn byte_by_byte_costs_few_runs() {
        let mut pieces = Pieces::default();
        for n in 0..300_000u32 {
            pieces.append(Bytes::copy_from_slice(&[n as u8]));
        }
        assert!(pieces.runs() <= 40, "{}", pieces.runs());
    }

    #[test]
    fn what_was_let_go_is_not_read_and_not_counted() {
        let memory = Memory::default();
        let mut pieces = Pieces::counted(Some(memory.clone()));
        for n in 0..100u8 {
            pieces.append(memory.hold(vec![n; 3000]));
        }
        assert_eq!((pieces.end(), memory.bytes()), (300_000, 300_000));
        pieces.trim(200_000);
        let (mut got, kept) = (Vec::new(), memory.bytes());
        assert!((100_000..=100_000 + MERGED_BYTES as u64).contains(&kept), "{kept}");
        assert_eq!(pieces.read(0, 300_000, &mut got), 0);
        assert_eq!(pieces.read(200_000, 300_000, &mut got), 100_000);
        assert_eq!((got[0][0], pieces.end()), (66, 300_000));
        drop((pieces, got));
        assert_eq!(memory.bytes(), 0);
    }

    proptest! {
        #[test]
        fn any_chop_reads_the_same(
            chops in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..3000), 0..40),
            cuts in prop::collection::vec((0u64..60_000, 0u64..60_000), 1..20),
        ) {
            let mut pieces = Pieces::default();
            chops.iter().for_each(|chop| pieces.append(Bytes::copy_from_slice(chop)));
            let whole = chops.concat();
            prop_assert_eq!(pieces.end(), whole.len() as u64);
            for (from, to) in cuts {
                let mut got = Vec::new();
                let count = pieces.read(from, to, &mut got);
                let (from, to) = ((from as usize).min(whole.len()), (to as usize).min(whole.len()));
                let wanted = whole.get(from..to).unwrap_or_default();
                prop_assert_eq!(got.concat(), wanted);
                prop_assert_eq!(count, wanted.len() as u64);
                prop_assert!(got.iter().all(|piece| !piece.is_empty()));
            }
        }
    }
}
