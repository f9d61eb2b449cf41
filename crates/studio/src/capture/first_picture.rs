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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    #[test]
    fn the_first_of_all_pictures_counts() {
        let first = FirstPicture::default();
        first.captured(Time::from_millis(40));
        first.captured(Time::from_millis(80));
        first.over();
        assert_eq!(first.wait(), Some(Time::from_millis(40)));
        assert_eq!(first.wait(), Some(Time::from_millis(40)), "it may be asked again");
    }

    #[test]
    fn a_source_that_ended_without_a_picture_has_none_later_either() {
        let first = FirstPicture::default();
        first.over();
        first.captured(Time::from_millis(40));
        assert_eq!(first.wait(), None);
    }

    #[test]
    fn those_that_wait_on_other_threads_are_all_woken() {
        // In some round at least all of them sleep when it comes.
        for round in 0..50 {
            let time = (round % 2 == 0).then(|| Time::from_millis(7));
            let first = Arc::new(FirstPicture::default());
            let ((begin, begun), (tell, told)) = (channel(), channel());
            for _ in 0..3 {
                let (first, begin, tell) = (Arc::clone(&first), begin.clone(), tell.clone());
                std::thread::spawn(move || {
                    begin.send(()).unwrap();
                    tell.send(first.wait()).unwrap();
                });
            }
            (0..3).for_each(|_| begun.recv_timeout(Duration::from_secs(20)).unwrap());
            match time {
                Some(time) => first.captured(time),
                None => first.over(),
            }
            for _ in 0..3 {
                assert_eq!(told.recv_timeout(Duration::from_secs(20)), Ok(time));
            }
        }
    }
}
