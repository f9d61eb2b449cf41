//! The newest picture of a source: a reader that is late finds no queue of old ones.

use super::UNPOISONED;
use glassline_direct::Newest;
use glassline_media::{Picture, Stamps, Time};
use glassline_studio::capture::Error;
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

/// Holds one picture.
#[derive(Default)]
pub(super) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    pictures: Newest<(Picture, Stamps)>,
    first: Option<Time>,
    ended: Option<Result<(), Error>>,
    is_over: bool,
    stopped: bool,
}

/// What came out of [`Mailbox::take`].
pub(super) enum Taken {
    Picture(Box<Picture>, Stamps),
    Nothing,
    /// No picture will come any more.
    End,
}

impl Mailbox {
    /// The newest picture; waits for one.
    pub(super) fn take(&self, timeout: Duration) -> Taken {
        let until = Instant::now() + timeout;
        let mut state = self.state.lock().expect(UNPOISONED);
        loop {
            if let Some((picture, stamps)) = state.pictures.take() {
                return Taken::Picture(Box::new(picture), stamps);
            }
            if state.is_over || state.stopped {
                return Taken::End;
            }
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Taken::Nothing;
            }
            state = self.changed.wait_timeout(state, left).expect(UNPOISONED).0;
        }
    }

    /// Puts a picture in; false where no more are wanted.
    pub(super) fn push(&self, picture: Picture, stamps: Stamps) -> bool {
        let mut state = self.state.lock().expect(UNPOISONED);
        state.first.get_or_insert(picture.captured);
        state.pictures.push((picture, stamps));
        self.changed.notify_all();
        !state.stopped
    }

    /// The first picture was captured then, and goes another way.
    pub(super) fn begin(&self, captured: Time) {
        let mut state = self.state.lock().expect(UNPOISONED);
        if state.first.is_none() {
            state.first = Some(captured);
            self.changed.notify_all();
        }
    }

    /// Waits for the first picture and tells when it was captured; `None` where there will be none.
    pub(super) fn first_picture(&self) -> Option<Time> {
        let mut state = self.state.lock().expect(UNPOISONED);
        while state.first.is_none() && !state.is_over && !state.stopped {
            state = self.changed.wait(state).expect(UNPOISONED);
        }
        state.first
    }

    /// Pictures that the source itself left out.
    pub(super) fn count_dropped(&self, pictures: u64) {
        self.state.lock().expect(UNPOISONED).pictures.count_dropped(pictures);
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.state.lock().expect(UNPOISONED).stopped
    }

    /// Whether no other picture will come.
    pub(super) fn has_ended(&self) -> bool {
        let state = self.state.lock().expect(UNPOISONED);
        state.is_over || state.stopped
    }

    /// No other picture will come.
    pub(super) fn end(&self, ended: Result<(), Error>) {
        let mut state = self.state.lock().expect(UNPOISONED);
        state.ended = Some(ended);
        state.is_over = true;
        self.changed.notify_all();
    }

    /// No more pictures are wanted.
    pub(super) fn stop(&self) {
        self.state.lock().expect(UNPOISONED).stopped = true;
        self.changed.notify_all();
    }

    /// Pictures that came, and those of them that a newer one has replaced.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.state.lock().expect(UNPOISONED).pictures.counts()
    }

    /// How the source ended, once.
    pub(super) fn take_end(&self) -> Option<Result<(), Error>> {
        self.state.lock().expect(UNPOISONED).ended.take()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{PixelFormat, Size};

    fn push(mailbox: &Mailbox, millis: u64) -> bool {
        let size = Size::new(16, 16).unwrap();
        let picture = Picture::new(PixelFormat::I420, size, Time::from_millis(millis));
        mailbox.push(picture, Stamps::default())
    }

    #[test]
    fn the_newest_picture_is_taken_and_the_end_comes_behind_it() {
        let mailbox = Mailbox::default();
        assert!(matches!(mailbox.take(Duration::ZERO), Taken::Nothing));
        assert!(push(&mailbox, 1) && push(&mailbox, 2));
        mailbox.end(Ok(()));
        let Taken::Picture(picture, _) = mailbox.take(Duration::ZERO) else { panic!("a picture is there") };
        assert_eq!(picture.captured, Time::from_millis(2));
        assert!(matches!(mailbox.take(Duration::from_secs(9)), Taken::End));
        assert_eq!((mailbox.counts(), mailbox.first_picture()), ((2, 1), Some(Time::from_millis(1))));
        assert!(mailbox.take_end().is_some() && mailbox.take_end().is_none());
        mailbox.stop();
        assert!(!push(&mailbox, 3));
    }

    #[test]
    fn a_reader_that_waits_gets_the_picture_that_comes() {
        let mailbox = Mailbox::default();
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| mailbox.take(Duration::from_secs(60)));
            push(&mailbox, 5);
            let Taken::Picture(picture, _) = reader.join().unwrap() else { panic!("a picture came") };
            assert_eq!(picture.captured, Time::from_millis(5));
        });
        assert_eq!(mailbox.counts(), (1, 0));
    }

    #[test]
    fn readers_that_wait_are_told_of_the_end_and_of_a_stop() {
        for ends in [true, false] {
            let mailbox = Mailbox::default();
            assert!(!mailbox.has_ended());
            std::thread::scope(|scope| {
                let picture = scope.spawn(|| matches!(mailbox.take(Duration::from_secs(60)), Taken::End));
                let first = scope.spawn(|| mailbox.first_picture());
                if ends {
                    mailbox.end(Ok(()));
                } else {
                    mailbox.stop();
                }
                assert!(picture.join().unwrap());
                assert_eq!(first.join().unwrap(), None);
            });
            assert_eq!((mailbox.has_ended(), mailbox.is_stopped()), (true, !ends));
            assert_eq!(mailbox.take_end().is_some(), ends);
        }
    }

    #[test]
    fn a_first_picture_that_goes_another_way_is_the_first_one() {
        let mailbox = Mailbox::default();
        std::thread::scope(|scope| {
            let first = scope.spawn(|| mailbox.first_picture());
            mailbox.begin(Time::from_millis(7));
            assert_eq!(first.join().unwrap(), Some(Time::from_millis(7)));
        });
        mailbox.begin(Time::from_millis(1));
        push(&mailbox, 2);
        assert_eq!(mailbox.first_picture(), Some(Time::from_millis(7)));
    }

    #[test]
    fn what_a_source_left_out_counts_as_replaced() {
        let mailbox = Mailbox::default();
        push(&mailbox, 1);
        mailbox.count_dropped(4);
        assert_eq!(mailbox.counts(), (5, 4));
        assert!(matches!(mailbox.take(Duration::ZERO), Taken::Picture(..)));
        push(&mailbox, 2);
        assert_eq!(mailbox.counts(), (6, 4), "one that was taken was not replaced");
    }
}
