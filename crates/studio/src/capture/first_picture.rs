//! When a source's first picture was captured, for sound that begins with it.

use glassline_media::Time;
use std::sync::{Condvar, Mutex, PoisonError};

/// Told once by the thread of pictures, waited for by the one of sound.
#[derive(Debug, Default)]
pub struct FirstPicture {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum State {
    #[default]
    Waiting,
    Captured(Time),
    /// The source has ended without a picture.
    Over,
}

impl FirstPicture {
    /// A picture was captured then; of the first one that is noted.
    pub fn captured(&self, time: Time) {
        self.settle(State::Captured(time));
    }

    /// No picture will come; nothing where one has come.
    pub fn over(&self) {
        self.settle(State::Over);
    }

    /// Waits for the first picture and tells when it was captured; `None` where there will be none.
    pub fn wait(&self) -> Option<Time> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = self.changed.wait_while(state, |state| *state == State::Waiting);
        match *waited.unwrap_or_else(PoisonError::into_inner) {
            State::Captured(time) => Some(time),
            State::Waiting | State::Over => None,
        }
    }

    fn settle(&self, how: State) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        if *state == State::Waiting {
            *state = how;
            self.changed.notify_all();
        }
    }
}
