//! A reader of a growing object.

use super::growing::{Growing, Reader};
use glassline_delivery::fill::Object;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

/// A reader of an object: for as long as this lives the object is filled, as far as the reader has come and some way ahead.
pub struct Reading {
    growing: Arc<Growing>,
    slot: usize,
}

impl fmt::Debug for Reading {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.growing.fmt(formatter)
    }
}

impl Deref for Reading {
    type Target = Arc<Growing>;

    fn deref(&self) -> &Arc<Growing> {
        &self.growing
    }
}

impl Reading {
    /// Reads from the begin of `growing`.
    pub fn new(growing: Arc<Growing>) -> Reading {
        let slot = growing.take_slot(0);
        Reading { growing, slot }
    }

    /// Reads whatever comes, at once, so that the whole object is fetched and kept.
    pub(super) fn of_all(growing: Arc<Growing>) -> Reading {
        let slot = growing.take_slot(u64::MAX);
        Reading { growing, slot }
    }

    /// Whether memory is short, and others that read the object wait for this one.
    pub fn holds_others_up(&self) -> bool {
        self.growing.is_held_up_by(self.slot)
    }

    /// Looks at the object as `reader`, which has read what is before byte `place`, cannot go on before byte `wants` is
    /// there, and waits from now on if `look` returns `None`.
    pub fn look_or_wait<T>(
        &self,
        reader: Reader,
        (place, wants): (u64, u64),
        look: impl FnOnce(&Object) -> Option<T>,
    ) -> Option<T> {
        self.growing.go_on(self.slot, (place, wants));
        self.growing.look_or_wait(reader, look)
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        self.growing.leave_slot(self.slot);
    }
}

#[cfg(test)]
#[path = "reading_tests.rs"]
mod tests;
