//! Events of a link that wait for its user.

use super::event::Event;
use std::collections::VecDeque;

/// Events that wait to be polled; they are recorded only once the caller has asked for them.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    wanted: bool,
    events: VecDeque<Event>,
    missed: u64,
}

/// Events that may wait; later ones are counted only.
const MAX_EVENTS: usize = 1 << 20;

impl Record {
    /// Records events from now on.
    pub(super) fn begin(&mut self) {
        self.wanted = true;
    }

    /// The oldest event.
    pub(super) fn pop(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    /// How many events there was no room for.
    pub(super) fn missed(&self) -> u64 {
        self.missed
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.wanted && self.events.len() < MAX_EVENTS
    }

    pub(super) fn add(&mut self, event: Event) {
        if self.is_wanted() {
            self.events.push_back(event);
        } else if self.wanted {
            self.missed += 1;
        }
    }
}
