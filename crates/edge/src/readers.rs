//! Where the readers of an object are: how far it may fill ahead of them, and what of it all have read.

use glassline_delivery::fill::{Object, Standing};

/// Fills objects, and pauses while an object is far enough ahead of its readers or memory is short.
pub(super) trait Feeder: Send + Sync {
    /// Readers of an object that was paused have gone on, or left, or memory was released. Called from any thread, perhaps
    /// under locks of that thread: it must not look at objects itself.
    fn resume(&self);
}

/// The readers of one object.
#[derive(Debug, Default)]
pub(super) struct Readers {
    /// Where each reads; `None`: a slot that is free.
    places: Vec<Option<u64>>,
    free: Vec<usize>,
    count: usize,
    furthest: u64,
    /// The place of a reader at which the object's feeder has to be resumed.
    resume_at: Option<u64>,
    pub(super) is_sliding: bool,
}

impl Readers {
    pub(super) fn count(&self) -> usize {
        self.count
    }

    pub(super) fn take_slot(&mut self, place: u64) -> usize {
        self.count += 1;
        self.furthest = self.furthest.max(place);
        if let Some(slot) = self.free.pop() {
            self.places[slot] = Some(place);
            return slot;
        }
        self.places.push(Some(place));
        self.places.len() - 1
    }

    /// Returns whether the feeder has to be resumed.
    pub(super) fn leave(&mut self, slot: usize, object: &mut Object) -> bool {
        self.places[slot] = None;
        self.free.push(slot);
        self.count -= 1;
        self.slide_on(object);
        self.resume_at.take().is_some()
    }

    /// The reader in `slot` is at `place`, and cannot go on before `wants`. Returns whether the feeder has to be resumed.
    pub(super) fn go_on(&mut self, slot: usize, place: u64, wants: u64, object: &mut Object) -> bool {
        self.furthest = self.furthest.max(wants);
        let before = self.places[slot].replace(place);
        if before != Some(place) {
            self.slide_on(object);
        }
        let is_due = self
            .resume_at
            .is_some_and(|at| if self.is_sliding { self.slowest(at) >= at } else { self.furthest >= at });
        is_due && self.resume_at.take().is_some()
    }

    pub(super) fn await_reader(&mut self, place: u64) {
        self.resume_at = Some(place);
    }

    /// Whether the object slides and others wait for the reader in `slot`.
    pub(super) fn are_held_up_by(&self, slot: usize) -> bool {
        let place = self.places[slot];
        self.is_sliding
            && self.resume_at.is_some()
            && self.count > 1
            && place.is_some_and(|place| place <= self.slowest(place) && place < self.furthest)
    }

    fn slowest(&self, where_none: u64) -> u64 {
        self.places.iter().flatten().copied().min().unwrap_or(where_none)
    }

    /// Lets go what all have read, where the object slides.
    pub(super) fn slide_on(&mut self, object: &mut Object) {
        if self.is_sliding {
            object.trim(self.slowest(object.filled()));
        }
    }

    pub(super) fn standing(&self, filled: u64) -> Standing {
        let slowest = if self.is_sliding { self.slowest(filled) } else { 0 };
        let Readers { count, furthest, is_sliding, .. } = *self;
        Standing { filled, readers: count, slowest, furthest, is_sliding }
    }
}
