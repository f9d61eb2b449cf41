//! What stands between source and encoder: a bounded queue that never lets a live source wait.

use super::sound::Companion;
use anyhow::Error;
use glassline_media::{AudioBlock, Picture, Ticks, Time};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::Duration;

/// Pictures that wait at most. Two ride out an encoder that is late by less than a picture; with the one that is
/// being coded they are also fewer than the test pattern keeps planes for.
const MAX_PICTURES: usize = 2;
/// Blocks of sound that wait at most: at 1 to 20 ms each, one second or more.
const MAX_SOUND: usize = 1000;

/// What goes to the encoder.
#[derive(Debug)]
pub(super) enum Item {
    /// A picture, its time stamp, and when it was handed over.
    Picture { picture: Picture, pts: Ticks, queued: Time },
    /// Sound.
    Sound(AudioBlock),
}

/// What came out of [`Queue::pop`].
#[derive(Debug)]
pub(super) enum Popped {
    /// The oldest item.
    Item(Box<Item>),
    /// Nothing came in time.
    Timeout,
    /// Nothing will come any more.
    End,
}

/// The queue. Shared by one source and one encoder, and by whoever may stop them.
#[derive(Debug)]
pub(super) struct Queue {
    live: bool,
    state: Mutex<State>,
    changed: Condvar,
    /// Sound that goes along with the pictures.
    companion: Mutex<Option<Companion>>,
}

#[derive(Debug, Default)]
struct State {
    items: VecDeque<Box<Item>>,
    /// The source has given its last item, or has failed.
    ended: Option<Result<(), Error>>,
    stopped: bool,
    dropped: u64,
    /// When the first picture was captured.
    first_picture: Option<Time>,
}

impl State {
    fn waiting(&self, picture: bool) -> usize {
        self.items.iter().filter(|item| matches!(***item, Item::Picture { .. }) == picture).count()
    }
}

impl Queue {
    /// An empty queue. A `live` one drops its oldest picture where there is no room; otherwise the source waits.
    pub(super) fn new(live: bool) -> Queue {
        Queue { live, state: Mutex::default(), changed: Condvar::new(), companion: Mutex::default() }
    }

    /// Lets the sound of a file go along with the pictures: what is heard before a picture is handed over before it.
    pub(super) fn accompany(&self, companion: Companion) {
        *self.companion.lock().expect(UNPOISONED) = Some(companion);
    }

    /// Waits for the first picture and tells when it was captured; `None` where the source ends without one.
    pub(super) fn first_picture(&self) -> Option<Time> {
        let mut state = self.lock();
        while state.first_picture.is_none() && !state.stopped && state.ended.is_none() {
            state = self.changed.wait(state).expect(UNPOISONED);
        }
        state.first_picture
    }

    /// Whether the source does not wait.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Appends an item; false once the queue was stopped and the source should end.
    pub(super) fn push(&self, item: Item) -> bool {
        if let Item::Picture { pts, .. } = &item
            && let Err(error) = self.hand_over_sound(|companion| companion.before(*pts))
        {
            self.end(Err(error));
            return false;
        }
        self.append(item)
    }

    /// Hands over the companion's sound as long as `next` gives some.
    fn hand_over_sound(
        &self,
        mut next: impl FnMut(&mut Companion) -> Result<Option<AudioBlock>, Error>,
    ) -> Result<(), Error> {
        let mut companion = self.companion.lock().expect(UNPOISONED);
        let Some(companion) = companion.as_mut() else { return Ok(()) };
        while let Some(block) = next(companion)? {
            if !self.append(Item::Sound(block)) {
                break;
            }
        }
        Ok(())
    }

    fn append(&self, item: Item) -> bool {
        let is_picture = matches!(item, Item::Picture { .. });
        let limit = if is_picture { MAX_PICTURES } else { MAX_SOUND };
        let mut state = self.lock();
        while !state.stopped && state.waiting(is_picture) >= limit {
            if !self.live {
                state = self.changed.wait(state).expect(UNPOISONED);
                continue;
            }
            let oldest =
                state.items.iter().position(|item| matches!(**item, Item::Picture { .. }) == is_picture);
            if oldest.and_then(|index| state.items.remove(index)).is_some() && is_picture {
                state.dropped += 1;
            }
        }
        if state.stopped {
            return false;
        }
        if let (None, Item::Picture { picture, .. }) = (state.first_picture, &item) {
            state.first_picture = Some(picture.captured);
        }
        state.items.push_back(Box::new(item));
        drop(state);
        self.changed.notify_all();
        true
    }

    /// Counts pictures that the source itself left out because it was late.
    pub(super) fn count_dropped(&self, pictures: u64) {
        self.lock().dropped += pictures;
    }

    /// Pictures dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.lock().dropped
    }

    /// The source has given its last item; what waits is still coded. Its failure, if it failed, comes after that.
    pub(super) fn end(&self, ended: Result<(), Error>) {
        let ended = ended.and_then(|()| self.hand_over_sound(Companion::rest));
        self.lock().ended.get_or_insert(ended);
        self.changed.notify_all();
    }

    /// Ends both sides; what waits is dropped.
    pub(super) fn stop(&self) {
        let mut state = self.lock();
        state.stopped = true;
        state.items.clear();
        drop(state);
        self.changed.notify_all();
    }

    /// Whether [`Queue::stop`] was called.
    pub(super) fn is_stopped(&self) -> bool {
        self.lock().stopped
    }

    /// Takes the oldest item, and waits for one as long as `timeout` says (for ever where it is `None`).
    ///
    /// # Errors
    /// The source's failure, after its last item.
    pub(super) fn pop(&self, timeout: Option<Duration>) -> Result<Popped, Error> {
        let mut state = self.lock();
        let mut waited = false;
        loop {
            if state.stopped {
                return Ok(Popped::End);
            }
            if let Some(item) = state.items.pop_front() {
                drop(state);
                self.changed.notify_all();
                return Ok(Popped::Item(item));
            }
            if let Some(ended) = &mut state.ended {
                return std::mem::replace(ended, Ok(())).map(|()| Popped::End);
            }
            state = match timeout {
                None => self.changed.wait(state).expect(UNPOISONED),
                Some(_) if waited => return Ok(Popped::Timeout),
                Some(timeout) => {
                    let (state, result) = self.changed.wait_timeout(state, timeout).expect(UNPOISONED);
                    waited = result.timed_out();
                    state
                }
            };
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "no thread panics while it holds the queue";

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{PixelFormat, Size};
    use std::sync::Arc;

    fn picture(number: i64) -> Item {
        let picture = Picture::new(PixelFormat::I420, Size::new(2, 2).unwrap(), Time::ZERO);
        Item::Picture { picture, pts: Ticks(number), queued: Time::ZERO }
    }

    fn sound() -> Item {
        Item::Sound(AudioBlock { samples: vec![], channels: 1, rate_hz: 48_000, captured: Time::ZERO })
    }

    fn pop(queue: &Queue) -> Option<i64> {
        match queue.pop(Some(Duration::ZERO)).unwrap() {
            Popped::Item(item) => match *item {
                Item::Picture { pts, .. } => Some(pts.0),
                Item::Sound(_) => Some(-1),
            },
            Popped::Timeout | Popped::End => None,
        }
    }

    #[test]
    fn a_live_queue_drops_its_oldest_pictures_and_keeps_the_sound() {
        let queue = Queue::new(true);
        assert!(queue.push(sound()));
        assert!((0..5).all(|number| queue.push(picture(number))));
        assert_eq!(queue.dropped(), 3);
        assert_eq!([pop(&queue), pop(&queue), pop(&queue), pop(&queue)], [Some(-1), Some(3), Some(4), None]);
        assert!((0..1000).all(|_| queue.push(sound())));
        assert_eq!(std::iter::from_fn(|| pop(&queue)).count(), MAX_SOUND);
    }

    #[test]
    fn a_file_waits_for_the_encoder_and_loses_nothing() {
        let queue = Arc::new(Queue::new(false));
        let source = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            (0..100).for_each(|number| assert!(source.push(picture(number))));
            source.end(Err(anyhow::anyhow!("cut short")));
        });
        for number in 0..100 {
            let Popped::Item(item) = queue.pop(None).unwrap() else { panic!("ended early") };
            assert!(matches!(*item, Item::Picture { pts, .. } if pts == Ticks(number)));
        }
        assert_eq!(queue.pop(None).unwrap_err().to_string(), "cut short");
        thread.join().unwrap();
        assert_eq!(queue.dropped(), 0);
    }

    #[test]
    fn stopping_ends_both_sides() {
        let queue = Arc::new(Queue::new(false));
        let source = Arc::clone(&queue);
        let thread = std::thread::spawn(move || while source.push(picture(0)) {});
        assert!(matches!(queue.pop(None).unwrap(), Popped::Item(_)));
        queue.stop();
        thread.join().unwrap();
        assert!(matches!(queue.pop(None).unwrap(), Popped::End));
    }
}
