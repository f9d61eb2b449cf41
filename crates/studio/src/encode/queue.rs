//! What stands between source and encoder: a bounded queue that never lets a live source wait. Each rendition has
//! its own; [`super::feed`] fills them.

use super::Error;
use glassline_io::queue::{self, DropPolicy, Taken};
use glassline_media::{AccessUnit, FrameRate, Picture, Stamps, Ticks};
use std::collections::VecDeque;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Pictures that wait at most. Two ride out an encoder that is late by less than a picture; with the one that is
/// being coded they are also fewer than the test pattern keeps planes for.
const MAX_PICTURES: usize = 2;
/// The same of a rendition with a look-ahead, which has no hurry: what a processor that is busy elsewhere holds up is made up for.
/// The test pattern allocates planes for them.
const MAX_PICTURES_UNHURRIED: usize = 12;
/// Packets of sound that wait at most: at 1 to 20 ms each, one second or more.
const MAX_SOUND: usize = 1000;

/// What goes to a rendition.
#[derive(Debug)]
pub(super) enum Work {
    /// A picture to code, its time stamp, when it passed what on its way here, and whether it has to become a key frame. `rate` is that
    /// of the rendition from this picture on.
    Picture { picture: Picture, pts: Ticks, stamps: Stamps, key: bool, rate: FrameRate },
    /// Coded sound.
    Sound(AccessUnit),
}

/// What came out of [`Queue::pop`].
#[derive(Debug)]
pub(super) enum Popped {
    /// The oldest piece of work.
    Work(Box<Work>),
    /// Nothing came in time.
    Timeout,
    /// Nothing will come any more.
    End,
}

/// The queue. Shared by one source and one encoder, and by those that may stop them.
#[derive(Debug)]
pub(super) struct Queue {
    live: bool,
    has_hurry: bool,
    items: queue::Queue<Box<Work>, Oldest, Error>,
    /// Whether no picture waits or is being coded.
    idle: Mutex<bool>,
    became_idle: Condvar,
}

/// Drops the oldest picture, or the oldest packet of sound, of a live source; any other source waits.
#[derive(Debug)]
struct Oldest {
    live: bool,
    max_pictures: usize,
    dropped: u64,
    /// A picture that was dropped should have become a key frame: the next one does instead.
    key_owed: bool,
}

fn is_picture(work: &Work) -> bool {
    matches!(work, Work::Picture { .. })
}

impl DropPolicy<Box<Work>> for Oldest {
    fn admit(&mut self, waiting: &mut VecDeque<Box<Work>>, item: Box<Work>) -> Option<Box<Work>> {
        let limit = if is_picture(&item) { self.max_pictures } else { MAX_SOUND };
        let is_alike = |other: &Work| is_picture(other) == is_picture(&item);
        while waiting.iter().filter(|other| is_alike(other)).count() >= limit {
            if !self.live {
                return Some(item);
            }
            let oldest = waiting.iter().position(|other| is_alike(other));
            if let Some(Work::Picture { key, .. }) = oldest.and_then(|at| waiting.remove(at)).as_deref() {
                self.dropped += 1;
                self.key_owed |= *key;
            }
        }
        waiting.push_back(item);
        None
    }

    fn hand_over(&mut self, item: &mut Box<Work>) {
        if let Work::Picture { key, .. } = &mut **item {
            *key |= std::mem::take(&mut self.key_owed);
        }
    }
}

impl Queue {
    /// An empty queue. A `live` one drops its oldest picture where there is no room; otherwise the source waits.
    pub(super) fn new(live: bool) -> Queue {
        Queue::with_room(live, true)
    }

    /// The same for a rendition in which pictures may wait for each other.
    pub(super) fn unhurried(live: bool) -> Queue {
        Queue::with_room(live, false)
    }

    fn with_room(live: bool, has_hurry: bool) -> Queue {
        let max_pictures = if has_hurry { MAX_PICTURES } else { MAX_PICTURES_UNHURRIED };
        let items = queue::Queue::new(Oldest { live, max_pictures, dropped: 0, key_owed: false });
        Queue { live, has_hurry, items, idle: Mutex::new(true), became_idle: Condvar::new() }
    }

    /// Whether the source does not wait.
    pub(super) fn is_live(&self) -> bool {
        self.live
    }

    /// Whether pictures of queues without hurry are coded behind its own.
    pub(super) fn has_hurry(&self) -> bool {
        self.has_hurry
    }

    /// Appends an item; false once the queue was stopped and the source should end.
    pub(super) fn push(&self, item: Work) -> bool {
        if is_picture(&item) {
            *self.idle() = false;
        }
        self.items.push(Box::new(item))
    }

    /// Pictures that wait.
    pub(super) fn pictures(&self) -> usize {
        self.items.look(|waiting, _| waiting.iter().filter(|work| is_picture(work)).count())
    }

    /// Whether both sides have ended.
    pub(super) fn is_stopped(&self) -> bool {
        self.items.is_stopped()
    }

    /// Waits until every picture that was pushed has been coded, `timeout` at most.
    pub(super) fn wait_until_idle(&self, timeout: Duration) {
        let waited = self.became_idle.wait_timeout_while(self.idle(), timeout, |idle| !*idle);
        drop(waited);
    }

    fn idle(&self) -> MutexGuard<'_, bool> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The consumer is done with what it took last.
    fn note_idle(&self) {
        let mut idle = self.idle();
        // Under the lock: a picture that is pushed now sets it again.
        let none_waits = self.items.look(|waiting, _| !waiting.iter().any(|work| is_picture(work)));
        if none_waits && !*idle {
            *idle = true;
            self.became_idle.notify_all();
        }
    }

    /// Counts pictures that the source itself left out because it was late.
    pub(super) fn count_dropped(&self, pictures: u64) {
        self.items.look(|_, policy| policy.dropped += pictures);
    }

    /// Pictures dropped so far.
    pub(super) fn dropped(&self) -> u64 {
        self.items.look(|_, policy| policy.dropped)
    }

    /// The source has given its last item; what waits is still coded. Its failure, if it failed, comes after that.
    pub(super) fn end(&self, ended: Result<(), Error>) {
        self.items.end(ended);
    }

    /// Ends both sides; what waits is dropped.
    pub(super) fn stop(&self) {
        self.items.stop();
        *self.idle() = true;
        self.became_idle.notify_all();
    }

    /// Takes the oldest item, and waits for one as long as `timeout` says (for ever where it is `None`).
    ///
    /// # Errors
    /// The source's failure, after its last item.
    pub(super) fn pop(&self, timeout: Option<Duration>) -> Result<Popped, Error> {
        self.note_idle();
        match self.items.take(timeout) {
            Taken::Item(work) => Ok(Popped::Work(work)),
            Taken::Timeout => Ok(Popped::Timeout),
            Taken::End if self.items.is_stopped() => Ok(Popped::End),
            Taken::End => self.items.take_end().unwrap_or(Ok(())).map(|()| Popped::End),
        }
    }

    /// Takes the oldest packet of sound of a live source, whatever pictures wait before it. That of a file keeps its
    /// place, so that the same file gives the same stream.
    pub(super) fn take_sound(&self) -> Option<AccessUnit> {
        if !self.live {
            return None;
        }
        let item = self.items.look(|waiting, _| {
            let at = waiting.iter().position(|item| !is_picture(item))?;
            waiting.remove(at)
        });
        match item.map(|item| *item) {
            Some(Work::Sound(unit)) => Some(unit),
            Some(Work::Picture { .. }) | None => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture;
    use bytes::Bytes;
    use glassline_media::{Codec, PixelFormat, Size, Time};
    use proptest::prelude::*;
    use std::sync::Arc;

    const FIFTY: FrameRate = FrameRate::new(50, 1).unwrap();

    fn picture(number: i64) -> Work {
        let picture = Picture::new(PixelFormat::I420, Size::new(2, 2).unwrap(), Time::ZERO);
        let stamps = Stamps::captured_at(Time::ZERO);
        Work::Picture { picture, pts: Ticks(number), stamps, key: number == 1, rate: FIFTY }
    }

    fn sound() -> Work {
        Work::Sound(AccessUnit {
            codec: Codec::Opus,
            data: Bytes::new(),
            pts: Ticks(0),
            dts: Ticks(0),
            random_access: true,
            stamps: Stamps::default(),
        })
    }

    fn pop(queue: &Queue) -> Option<i64> {
        match queue.pop(Some(Duration::ZERO)).unwrap() {
            Popped::Work(item) => match *item {
                Work::Picture { pts, .. } => Some(pts.0),
                Work::Sound(_) => Some(-1),
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
        assert!((0..2000).all(|_| queue.push(sound())));
        assert_eq!(std::iter::from_fn(|| pop(&queue)).count(), MAX_SOUND);
    }

    #[test]
    fn live_sound_overtakes_pictures_and_a_file_s_does_not() {
        let (live, file) = (Queue::new(true), Queue::new(false));
        for queue in [&live, &file] {
            assert!(queue.push(picture(1)) && queue.push(sound()));
        }
        assert!(live.take_sound().is_some() && live.take_sound().is_none());
        assert_eq!([pop(&live), pop(&live)], [Some(1), None]);
        assert!(file.take_sound().is_none());
        assert_eq!([pop(&file), pop(&file)], [Some(1), Some(-1)]);
    }

    #[test]
    fn a_file_waits_for_the_encoder_and_loses_nothing() {
        let queue = Arc::new(Queue::new(false));
        let source = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            (0..100).for_each(|number| assert!(source.push(picture(number))));
            source.end(Err(capture::Error::NotAFile.into()));
        });
        for number in 0..100 {
            let Popped::Work(item) = queue.pop(None).unwrap() else { panic!("ended early") };
            assert!(matches!(*item, Work::Picture { pts, .. } if pts == Ticks(number)));
        }
        assert_eq!(queue.pop(None).unwrap_err().to_string(), capture::Error::NotAFile.to_string());
        thread.join().unwrap();
        assert_eq!(queue.dropped(), 0);
    }

    #[test]
    fn stopping_ends_both_sides() {
        let queue = Arc::new(Queue::new(false));
        let source = Arc::clone(&queue);
        let thread = std::thread::spawn(move || while source.push(picture(0)) {});
        assert!(matches!(queue.pop(None).unwrap(), Popped::Work(_)));
        queue.stop();
        thread.join().unwrap();
        assert!(matches!(queue.pop(None).unwrap(), Popped::End));
    }

    #[test]
    fn a_key_frame_that_is_dropped_is_made_up_for_by_the_next() {
        let queue = Queue::new(true);
        assert!((0..5).all(|number| queue.push(picture(number))));
        let mut keys = Vec::new();
        while let Popped::Work(work) = queue.pop(Some(Duration::ZERO)).unwrap() {
            let Work::Picture { pts, key, .. } = *work else { panic!("only pictures went in") };
            keys.push((pts.0, key));
        }
        assert_eq!(keys, [(3, true), (4, false)]);
    }
    fn frame(number: i64, key: bool) -> Work {
        match picture(number) {
            Work::Picture { picture, pts, stamps, .. } => {
                Work::Picture { picture, pts, stamps, key, rate: FIFTY }
            }
            other @ Work::Sound(_) => other,
        }
    }

    fn packet(number: i64) -> Work {
        match sound() {
            Work::Sound(unit) => Work::Sound(AccessUnit { pts: Ticks(number), ..unit }),
            other @ Work::Picture { .. } => other,
        }
    }

    #[test]
    fn the_pictures_that_the_source_left_out_itself_count_as_dropped_too() {
        let queue = Queue::new(true);
        queue.count_dropped(4);
        assert!((0..3).all(|number| queue.push(picture(number))));
        assert_eq!(queue.dropped(), 5);
    }

    #[test]
    fn what_waits_is_still_given_after_the_end_and_the_failure_comes_once() {
        let queue = Queue::new(true);
        assert!(queue.push(picture(7)) && queue.push(packet(8)));
        queue.end(Err(capture::Error::NotAFile.into()));
        assert_eq!([pop(&queue), pop(&queue)], [Some(7), Some(-1)]);
        assert_eq!(queue.pop(None).unwrap_err().to_string(), capture::Error::NotAFile.to_string());
        assert!(matches!(queue.pop(None), Ok(Popped::End)), "the failure was told already");
    }

    #[test]
    fn a_queue_that_was_stopped_gives_no_picture_that_waited_and_no_failure() {
        let queue = Queue::new(true);
        assert!(queue.push(picture(1)));
        queue.end(Err(capture::Error::NotAFile.into()));
        queue.stop();
        assert!(matches!(queue.pop(None), Ok(Popped::End)));
        assert!(!queue.push(picture(2)), "the source is told to end");
    }

    #[test]
    fn it_is_idle_when_the_last_picture_is_done_with_and_not_when_it_is_taken() {
        let queue = Queue::new(true);
        let is_idle = || *queue.idle();
        assert!(is_idle());
        assert!(queue.push(packet(7)));
        assert!(is_idle(), "sound is no picture");
        assert!(queue.push(picture(1)) && queue.push(picture(2)));
        pop(&queue);
        assert_eq!((pop(&queue), is_idle()), (Some(1), false));
        assert_eq!((pop(&queue), is_idle()), (Some(2), false));
        std::thread::scope(|scope| {
            let waits = scope.spawn(|| queue.wait_until_idle(Duration::from_secs(60)));
            assert_eq!(pop(&queue), None);
            waits.join().unwrap();
        });
        assert!(is_idle());
        assert!(queue.push(picture(3)));
        // One that never gets done keeps nothing waiting for longer than it may.
        queue.wait_until_idle(Duration::from_millis(1));
        queue.stop();
        queue.wait_until_idle(Duration::from_secs(60));
    }

    #[test]
    fn pictures_that_have_no_hurry_have_more_room() {
        let queue = Queue::unhurried(true);
        for number in 0..=MAX_PICTURES_UNHURRIED as i64 {
            assert_eq!(queue.dropped(), 0);
            assert!(queue.push(picture(number)));
        }
        assert_eq!((queue.dropped(), pop(&queue)), (1, Some(1)));
    }

    #[test]
    fn a_dropped_packet_of_sound_is_no_dropped_picture() {
        let queue = Queue::new(true);
        for number in 0..=MAX_SOUND as i64 {
            assert!(queue.push(packet(number)));
        }
        assert_eq!((queue.dropped(), queue.take_sound().map(|unit| unit.pts)), (0, Some(Ticks(1))));
    }

    #[test]
    fn a_file_s_full_queue_of_pictures_still_takes_sound() {
        let queue = Queue::new(false);
        assert!((0..MAX_PICTURES as i64).all(|number| queue.push(picture(number))));
        assert!(queue.push(packet(9)), "a push that waited here would never return");
        assert_eq!([pop(&queue), pop(&queue), pop(&queue)], [Some(0), Some(1), Some(-1)]);
    }

    #[derive(Clone, Copy, Debug)]
    enum Step {
        Picture(bool),
        Sound,
        Pop,
        TakeSound,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => any::<bool>().prop_map(Step::Picture),
            2 => Just(Step::Sound),
            3 => Just(Step::Pop),
            1 => Just(Step::TakeSound),
        ]
    }

    proptest! {
        /// The model is a list, of which the oldest picture goes where a third would wait.
        #[test]
        fn a_live_queue_keeps_two_pictures_and_makes_up_for_the_key_frames_that_it_lost(
            steps in prop::collection::vec(step(), 0..200),
        ) {
            let queue = Queue::new(true);
            // Number, and of a picture whether it has to become a key frame.
            let mut list: Vec<(i64, Option<bool>)> = Vec::new();
            let (mut dropped, mut owed) = (0, false);
            for (number, step) in (0..).zip(steps) {
                match step {
                    Step::Picture(key) => {
                        prop_assert!(queue.push(frame(number, key)));
                        if list.iter().filter(|(_, key)| key.is_some()).count() == MAX_PICTURES {
                            let at = list.iter().position(|(_, key)| key.is_some()).unwrap();
                            owed |= list.remove(at).1 == Some(true);
                            dropped += 1;
                        }
                        list.push((number, Some(key)));
                    }
                    Step::Sound => {
                        prop_assert!(queue.push(packet(number)));
                        list.push((number, None));
                    }
                    Step::Pop => {
                        let expected = (!list.is_empty()).then(|| list.remove(0));
                        let expected = expected.map(|(number, key)| {
                            (number, key.map(|key| key | std::mem::take(&mut owed)))
                        });
                        let popped = match queue.pop(Some(Duration::ZERO)).unwrap() {
                            Popped::Work(work) => Some(match *work {
                                Work::Picture { pts, key, .. } => (pts.0, Some(key)),
                                Work::Sound(unit) => (unit.pts.0, None),
                            }),
                            Popped::Timeout => None,
                            Popped::End => panic!("it has not ended"),
                        };
                        prop_assert_eq!(popped, expected);
                    }
                    Step::TakeSound => {
                        let at = list.iter().position(|(_, key)| key.is_none());
                        let expected = at.map(|at| list.remove(at).0);
                        prop_assert_eq!(queue.take_sound().map(|unit| unit.pts.0), expected);
                    }
                }
                prop_assert_eq!(queue.dropped(), dropped);
            }
        }
    }
}
