//! Sends what is new of a stream to a worker's viewers: the one loop in which each viewer's cost counts. What is short
//! leaves for many viewers in one `io_uring` call, everything else for each viewer by itself.

use crate::SendPath;
use crate::connection::Slot;
use crate::viewer::{Allowance, Fed};
use glassline_io::batch::{BATCH_SENDS, Batch, Outcome, Send};
use glassline_io::containment::{Border, contain, inject};
use glassline_io::spool::Piece;
use glassline_media::Time;
use std::os::fd::AsFd;

/// Above this many bytes the copy into a socket costs more than `sendfile`'s walk over the pages, large ones above all:
/// measured with 12 kB, where they are alike, and with 25 and 50 kB.
const COPIED_BYTES: usize = 20 << 10;

/// How a worker sends.
pub(super) struct FanOut {
    batch: Option<Batch>,
    waiting: Vec<(usize, Piece)>,
    outcomes: Vec<Outcome>,
    pub(super) allowance: Allowance,
}

/// What came of serving viewers: the slots of those for which the worker has something to do.
#[derive(Debug, Default)]
pub(super) struct Served {
    /// The worker has to close them.
    pub(super) over: Vec<usize>,
    /// They have had their share, and there is more for them.
    pub(super) unfinished: Vec<usize>,
    /// They have had their burst, and there is more for them then.
    pub(super) paced: Vec<(Time, usize)>,
    /// A panic was stopped while they were served: the worker has to close them as well.
    pub(super) broken: Vec<usize>,
}

impl Served {
    /// Serves the viewer in `slot`. Where that panics, this viewer is noted as broken, and the others go on.
    fn one(&mut self, slot: usize, serve: impl FnOnce(&mut Served)) {
        if contain(Border::Connection, || serve(self)).is_err() {
            self.broken.push(slot);
        }
    }
}

impl FanOut {
    /// Sends one by one.
    pub(super) fn one_by_one() -> FanOut {
        FanOut { batch: None, waiting: Vec::new(), outcomes: Vec::new(), allowance: Allowance::new(true, 0) }
    }

    /// For the thread that calls: a queue to the kernel belongs to it.
    pub(super) fn new(path: SendPath, worker: usize) -> FanOut {
        let batch = match path {
            SendPath::Sendfile => None,
            SendPath::Automatic => Batch::new()
                .inspect_err(|error| {
                    tracing::info!(worker, %error, "no io_uring here; sending to viewers one by one");
                })
                .ok(),
        };
        FanOut { batch, ..FanOut::one_by_one() }
    }

    /// Sends what is new to the viewers in the slots of `order`.
    pub(super) fn serve(
        &mut self,
        order: impl Iterator<Item = usize>,
        slots: &mut [Slot],
        now: Time,
    ) -> Served {
        let mut served = Served::default();
        for slot in order {
            served.one(slot, |served| self.begin(slot, slots, now, served));
            if self.waiting.len() == BATCH_SENDS {
                self.send_waiting(slots, now, &mut served);
            }
        }
        self.send_waiting(slots, now, &mut served);
        served
    }

    /// Sends what there is for the viewer in `slot`, or has it wait for the batch.
    fn begin(&mut self, slot: usize, slots: &mut [Slot], now: Time, served: &mut Served) {
        let connection = slots.get_mut(slot).and_then(|slot| slot.connection.as_mut());
        let Some((viewer, wire)) = connection.and_then(|connection| connection.viewer()) else {
            return;
        };
        inject(Border::Connection, || format!("serve:{}", viewer.live().name));
        // One that its worker comes back to anyway needs no more than that.
        if viewer.is_expected || (viewer.is_blocked() && !viewer.live().has_ended()) {
            return;
        }
        viewer.try_path(wire.tcp(), now);
        if let Some(at) = viewer.waits_until(self.allowance.pacing, now) {
            served.paced.push((at, slot));
            return;
        }
        let batch = self.batch.as_ref().filter(|_| wire.is_direct());
        match batch.and_then(|_| viewer.next_piece(COPIED_BYTES, self.allowance.pacing, now)) {
            Some(piece) => self.waiting.push((slot, piece)),
            None => feed(slot, slots, now, self.allowance, served),
        }
    }

    fn send_waiting(&mut self, slots: &mut [Slot], now: Time, served: &mut Served) {
        let Some(batch) = self.batch.as_mut().filter(|_| !self.waiting.is_empty()) else { return };
        let socket = |slot: usize| {
            let connection = slots[slot].connection.as_ref();
            connection.expect("no connection is closed while its news wait to be sent").socket.as_fd()
        };
        let sends: Vec<_> =
            self.waiting.iter().map(|(slot, piece)| Send { socket: socket(*slot), piece }).collect();
        let carried = batch.send(&sends, &mut self.outcomes);
        for ((slot, piece), outcome) in self.waiting.iter().zip(&self.outcomes) {
            served.one(*slot, |served| take(*slot, piece, outcome, slots, now, self.allowance, served));
        }
        self.waiting.clear();
        if let Err(error) = carried {
            tracing::warn!(%error, "io_uring failed; sending to viewers one by one");
            self.batch = None;
        }
    }
}

/// Does what came of sending `piece` to the viewer in `slot`.
fn take(
    slot: usize,
    piece: &Piece,
    outcome: &Outcome,
    slots: &mut [Slot],
    now: Time,
    allowance: Allowance,
    served: &mut Served,
) {
    let Some((viewer, _)) = slots[slot].connection.as_mut().and_then(|connection| connection.viewer()) else {
        return;
    };
    match outcome {
        Outcome::Bytes(bytes) => {
            viewer.took(Some(*bytes), allowance.pacing, now);
            if *bytes < piece.len() || viewer.has_news() {
                feed(slot, slots, now, allowance, served);
            }
        }
        Outcome::Blocked => viewer.took(None, allowance.pacing, now),
        Outcome::NotTried => feed(slot, slots, now, allowance, served),
        Outcome::Failed(_) => served.over.push(slot),
    }
}

/// Gives one viewer all that there is for it.
fn feed(slot: usize, slots: &mut [Slot], now: Time, allowance: Allowance, served: &mut Served) {
    let Some((viewer, wire)) = slots[slot].connection.as_mut().and_then(|connection| connection.viewer())
    else {
        return;
    };
    match viewer.feed(wire, allowance, now) {
        Ok(Fed::Stays) => {}
        Ok(Fed::Paced) => served.paced.push((viewer.next_burst(), slot)),
        Ok(Fed::HasMore) => served.unfinished.push(slot),
        Ok(Fed::Finished) | Err(_) => served.over.push(slot),
    }
}

#[cfg(test)]
#[path = "fan_out_tests.rs"]
mod tests;
