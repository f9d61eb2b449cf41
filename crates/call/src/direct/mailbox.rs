//! The newest picture of a source: a reader that is late finds no queue of old ones.

use glassline_io::queue::{DropPolicy, KeepLast, Queue, Taken};
use glassline_media::{Picture, Stamps, Time};
use glassline_studio::capture::Error;
use std::collections::VecDeque;
use std::time::Duration;

/// A picture with its stamps.
pub(super) type Captured = (Picture, Stamps);

/// Holds one picture.
pub(super) struct Mailbox(Queue<Captured, NewestPicture, Error>);

/// Keeps the newest picture, and remembers when the first one was captured.
struct NewestPicture {
    last: KeepLast,
    first: Option<Time>,
}

impl DropPolicy<Captured> for NewestPicture {
    fn admit(&mut self, waiting: &mut VecDeque<Captured>, item: Captured) -> Option<Captured> {
        self.first.get_or_insert(item.0.captured);
        self.last.admit(waiting, item)
    }
}

impl Default for Mailbox {
    fn default() -> Mailbox {
        Mailbox(Queue::new(NewestPicture { last: KeepLast::new(1), first: None }))
    }
}

impl Mailbox {
    /// The newest picture; waits for one.
    pub(super) fn take(&self, timeout: Duration) -> Taken<Captured> {
        self.0.take(Some(timeout))
    }

    /// Puts a picture in; false where no more are wanted.
    pub(super) fn push(&self, picture: Picture, stamps: Stamps) -> bool {
        self.0.push((picture, stamps))
    }

    /// The first picture was captured then, and goes another way.
    pub(super) fn begin(&self, captured: Time) {
        self.0.look(|_, policy| _ = policy.first.get_or_insert(captured));
        self.0.wake();
    }

    /// Waits for the first picture and tells when it was captured; `None` where there will be none.
    pub(super) fn first_picture(&self) -> Option<Time> {
        self.0.wait_for(|_, policy| policy.first)
    }

    /// Pictures that the source itself left out.
    pub(super) fn count_dropped(&self, pictures: u64) {
        self.0.look(|_, policy| {
            policy.last.came += pictures;
            policy.last.replaced += pictures;
        });
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.0.is_stopped()
    }

    /// Whether no other picture will come.
    pub(super) fn has_ended(&self) -> bool {
        self.0.is_over()
    }

    /// No other picture will come.
    pub(super) fn end(&self, ended: Result<(), Error>) {
        self.0.end(ended);
    }

    /// No more pictures are wanted.
    pub(super) fn stop(&self) {
        self.0.stop();
    }

    /// Pictures that came, and those of them that a newer one has replaced.
    pub(super) fn counts(&self) -> (u64, u64) {
        self.0.look(|_, policy| (policy.last.came, policy.last.replaced))
    }

    /// How the source ended, once.
    pub(super) fn take_end(&self) -> Option<Result<(), Error>> {
        self.0.take_end()
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
        assert!(matches!(mailbox.take(Duration::ZERO), Taken::Timeout));
        assert!(push(&mailbox, 1) && push(&mailbox, 2));
        mailbox.end(Ok(()));
        let Taken::Item((picture, _)) = mailbox.take(Duration::ZERO) else { panic!("a picture is there") };
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
            let Taken::Item((picture, _)) = reader.join().unwrap() else { panic!("a picture came") };
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
        assert!(matches!(mailbox.take(Duration::ZERO), Taken::Item(_)));
        push(&mailbox, 2);
        assert_eq!(mailbox.counts(), (6, 4), "one that was taken was not replaced");
    }
}
