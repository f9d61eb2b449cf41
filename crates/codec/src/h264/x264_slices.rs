//! NAL units as x264's threads finish them, put back into the order of the stream.
//!
//! ```text
//! x264's threads ─► write (each on its own thread) ─► Order (under a lock) ─► sink: in order, one at a time
//! ```

use glassline_media::bitstream::h264::NalType;
use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A finished NAL unit of the picture that is being encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NalUnit<'a> {
    /// Start code (3 or 4 bytes), header and payload.
    pub bytes: &'a [u8],
    /// What it holds.
    pub kind: NalType,
    /// No other unit of this picture follows.
    pub last: bool,
}

/// Takes the NAL units of a picture.
pub type Sink<'a> = dyn FnMut(NalUnit<'_>) + Send + 'a;

/// What x264 says of a NAL unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    pub(super) kind: NalType,
    /// The first and last macroblock, where it is a slice.
    pub(super) first_mb: u32,
    pub(super) last_mb: u32,
}

#[derive(Debug, PartialEq, Eq)]
struct Piece {
    head: Head,
    bytes: Vec<u8>,
}

/// Puts the NAL units of one picture in order. Headers come first and in order, from one thread; slices as they are
/// finished; filler, where there is any, after the last slice.
#[derive(Debug)]
struct Order {
    /// The macroblock with which the next slice begins.
    next_mb: u32,
    /// Macroblocks of the picture.
    end_mb: u32,
    /// Filler may follow the last slice, so nothing but the encoder's return tells which unit is the last.
    filler_may_follow: bool,
    early: BTreeMap<u32, Piece>,
    held: Option<Piece>,
}

impl Order {
    fn push(&mut self, piece: Piece, give: &mut dyn FnMut(Piece, bool)) {
        if !piece.head.kind.is_slice() {
            if self.next_mb == 0 {
                give(piece, false);
            } else if let Some(before) = self.held.replace(piece) {
                give(before, false);
            }
            return;
        }
        self.early.insert(piece.head.first_mb, piece);
        while let Some(piece) = self.early.remove(&self.next_mb) {
            self.next_mb = piece.head.last_mb.saturating_add(1);
            let ends = self.next_mb >= self.end_mb;
            if ends && self.filler_may_follow {
                self.held = Some(piece);
            } else {
                give(piece, ends);
            }
        }
    }

    /// The picture is encoded: nothing more comes.
    fn finish(&mut self, give: &mut dyn FnMut(Piece, bool)) {
        if let Some(piece) = self.held.take().filter(|_| self.filler_may_follow) {
            give(piece, true);
        }
    }
}

/// Takes a picture's NAL units from x264's threads and hands them to a sink.
pub(super) struct Collector<'a, 'b> {
    state: Mutex<State<'a, 'b>>,
}

struct State<'a, 'b> {
    order: Order,
    sink: &'a mut Sink<'b>,
    /// Room for units, used again.
    buffers: Vec<Vec<u8>>,
    bytes: usize,
    panic: Option<Box<dyn Any + Send>>,
}

/// What is left of a picture when it is encoded.
pub(super) struct Collected {
    /// The buffers, for the next picture.
    pub(super) buffers: Vec<Vec<u8>>,
    /// Bytes that went to the sink.
    pub(super) bytes: usize,
}

impl<'a, 'b> Collector<'a, 'b> {
    pub(super) fn new(
        macroblocks: u32,
        filler_may_follow: bool,
        buffers: Vec<Vec<u8>>,
        sink: &'a mut Sink<'b>,
    ) -> Collector<'a, 'b> {
        let order =
            Order { next_mb: 0, end_mb: macroblocks, filler_may_follow, early: BTreeMap::new(), held: None };
        Collector { state: Mutex::new(State { order, sink, buffers, bytes: 0, panic: None }) }
    }

    /// Takes a unit that `write` appends to an empty buffer. Never panics: a panic of `write` or of the sink is kept until
    /// [`Collector::finish`], since it must not run through x264.
    pub(super) fn take(&self, head: Head, write: impl FnOnce(&mut Vec<u8>)) {
        let mut bytes = self.lock().buffers.pop().unwrap_or_default();
        bytes.clear();
        // Outside of the lock: x264's threads write their slices at the same time.
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| write(&mut bytes))) {
            self.lock().panic.get_or_insert(panic);
            return;
        }
        self.lock().give(|order, give| order.push(Piece { head, bytes }, give));
    }

    /// The picture is encoded. Panics if the sink has.
    pub(super) fn finish(self) -> Collected {
        let mut state = self.state.into_inner().unwrap_or_else(PoisonError::into_inner);
        state.give(Order::finish);
        if let Some(panic) = state.panic {
            resume_unwind(panic);
        }
        Collected { buffers: state.buffers, bytes: state.bytes }
    }

    fn lock(&self) -> MutexGuard<'_, State<'a, 'b>> {
        // Nothing under the lock leaves a state that others could not go on from.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State<'_, '_> {
    fn give(&mut self, feed: impl FnOnce(&mut Order, &mut dyn FnMut(Piece, bool))) {
        if self.panic.is_some() {
            return;
        }
        let State { order, sink, buffers, bytes: sum, .. } = self;
        let given = catch_unwind(AssertUnwindSafe(|| {
            feed(order, &mut |Piece { head, bytes }, last| {
                *sum += bytes.len();
                sink(NalUnit { bytes: &bytes, kind: head.kind, last });
                buffers.push(bytes);
            });
        }));
        if let Err(panic) = given {
            self.panic = Some(panic);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SLICE: NalType = NalType::Slice;

    fn head(kind: NalType, first_mb: u32, last_mb: u32) -> Head {
        Head { kind, first_mb, last_mb }
    }

    /// Feeds units, each with its index as its byte, and gives the order in which they came out and which was last.
    fn play(units: &[Head], macroblocks: u32, filler: bool) -> Vec<(u8, bool)> {
        let mut out = Vec::new();
        let mut sink = |unit: NalUnit<'_>| out.push((unit.bytes[0], unit.last));
        let collector = Collector::new(macroblocks, filler, Vec::new(), &mut sink);
        for (index, unit) in (0..).zip(units) {
            collector.take(*unit, |bytes| bytes.push(index));
        }
        assert_eq!(collector.finish().bytes, out.len());
        out
    }

    #[test]
    fn a_unit_leaves_as_soon_as_all_before_it_have() {
        let mut out = Vec::new();
        let mut sink = |unit: NalUnit<'_>| out.push(unit.bytes.to_vec());
        let collector = Collector::new(30, false, Vec::new(), &mut sink);
        let given = |collector: &Collector<'_, '_>| collector.lock().bytes;
        collector.take(head(NalType::Sps, 0, 0), |bytes| bytes.push(0));
        assert_eq!(given(&collector), 1);
        collector.take(head(SLICE, 10, 19), |bytes| bytes.push(2));
        assert_eq!(given(&collector), 1);
        collector.take(head(SLICE, 0, 9), |bytes| bytes.push(1));
        assert_eq!(given(&collector), 3);
        collector.take(head(SLICE, 20, 29), |bytes| bytes.push(3));
        collector.finish();
        assert_eq!(out, [[0], [1], [2], [3]]);
    }

    #[test]
    fn filler_is_the_last_where_it_comes() {
        let slices = [head(NalType::Idr, 0, 9), head(NalType::Idr, 10, 19)];
        let filler = head(NalType::Filler, 0, 0);
        assert_eq!(play(&slices, 20, false), [(0, false), (1, true)]);
        assert_eq!(play(&slices, 20, true), [(0, false), (1, true)]);
        let with_filler = [slices[0], slices[1], filler, filler];
        assert_eq!(play(&with_filler, 20, true), [(0, false), (1, false), (2, false), (3, true)]);
    }

    #[test]
    fn a_panic_of_the_sink_waits_for_the_end() {
        let mut calls = 0;
        let mut sink = |_: NalUnit<'_>| {
            calls += 1;
            panic!("the sink's own");
        };
        let collector = Collector::new(20, false, Vec::new(), &mut sink);
        for first in [0, 10] {
            collector.take(head(SLICE, first, first + 9), |bytes| bytes.push(0));
        }
        let panic = catch_unwind(AssertUnwindSafe(|| collector.finish().bytes)).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the sink's own"));
        assert_eq!(calls, 1);
    }

    #[test]
    fn a_panic_of_what_writes_a_unit_waits_for_the_end_too() {
        let mut sink = |_: NalUnit<'_>| {};
        let collector = Collector::new(20, false, Vec::new(), &mut sink);
        collector.take(head(SLICE, 0, 9), |_| panic!("the writer's own"));
        collector.take(head(SLICE, 10, 19), |bytes| bytes.push(0));
        let panic = catch_unwind(AssertUnwindSafe(|| collector.finish().bytes)).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the writer's own"));
    }

    proptest! {
        #[test]
        fn any_order_of_slices_comes_out_in_order(
            lengths in proptest::collection::vec(1u32..50, 1..20),
            keys in proptest::collection::vec(any::<u32>(), 20),
            filler in any::<bool>(),
        ) {
            let mut next = 0;
            let mut slices: Vec<(u32, Head)> = keys.iter().zip(&lengths).map(|(&key, &length)| {
                next += length;
                (key, head(SLICE, next - length, next - 1))
            }).collect();
            slices.sort_by_key(|&(key, _)| key);
            let slices: Vec<Head> = slices.into_iter().map(|(_, slice)| slice).collect();
            let out = play(&slices, next, filler);
            let firsts: Vec<u32> = out.iter().map(|&(index, _)| slices[usize::from(index)].first_mb).collect();
            prop_assert_eq!(out.len(), slices.len());
            prop_assert!(firsts.is_sorted());
            let lasts: Vec<bool> = out.iter().map(|&(_, last)| last).collect();
            prop_assert_eq!(lasts.iter().position(|&last| last), Some(out.len() - 1));
        }
    }
}
