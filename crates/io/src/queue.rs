//! A bounded queue between two threads. What becomes of items that find no room is said by a [`DropPolicy`].
//!
//! ```text
//! producer ─ push ─► policy: room? ─► waiting ─► take ─► consumer
//!                       └─ no ─► drops the new item, or older ones, or lets the producer wait
//! ```

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Which items a queue keeps. What the policy counts is read by [`Queue::look`].
pub trait DropPolicy<T> {
    /// Puts `item` among those that wait. If there is no room it drops that, or others, or returns it: its producer then waits
    /// until an item has left.
    fn admit(&mut self, waiting: &mut VecDeque<T>, item: T) -> Option<T>;

    /// The consumer is about to get this item.
    fn hand_over(&mut self, _item: &mut T) {}
}

/// Keeps every item: the number of items has a bound elsewhere.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeepAll;

impl<T> DropPolicy<T> for KeepAll {
    fn admit(&mut self, waiting: &mut VecDeque<T>, item: T) -> Option<T> {
        waiting.push_back(item);
        None
    }
}

/// Keeps the last items, up to a number: what is older than they would come too late.
#[derive(Clone, Copy, Debug)]
pub struct KeepLast {
    max: usize,
    /// Items that came.
    pub came: u64,
    /// Those of them that newer ones have replaced.
    pub replaced: u64,
}

impl KeepLast {
    /// Keeps `max` items, which is 1 or more.
    #[must_use]
    pub const fn new(max: usize) -> KeepLast {
        KeepLast { max, came: 0, replaced: 0 }
    }
}

impl<T> DropPolicy<T> for KeepLast {
    fn admit(&mut self, waiting: &mut VecDeque<T>, item: T) -> Option<T> {
        self.came += 1;
        waiting.push_back(item);
        while waiting.len() > self.max {
            waiting.pop_front();
            self.replaced += 1;
        }
        None
    }
}

/// What came out of [`Queue::take`].
#[derive(Debug, PartialEq, Eq)]
pub enum Taken<T> {
    /// The oldest item.
    Item(T),
    /// None has come in time.
    Timeout,
    /// None will come any more.
    End,
}

/// The queue. `E` is why its producer fails.
#[derive(Debug)]
pub struct Queue<T, P, E = Infallible> {
    state: Mutex<State<T, P, E>>,
    changed: Condvar,
}

#[derive(Debug)]
struct State<T, P, E> {
    waiting: VecDeque<T>,
    policy: P,
    end: Option<Result<(), E>>,
    has_ended: bool,
    is_stopped: bool,
}

impl<T, P, E> State<T, P, E> {
    fn is_over(&self) -> bool {
        self.has_ended || self.is_stopped
    }
}

impl<T, P: DropPolicy<T> + Default, E> Default for Queue<T, P, E> {
    fn default() -> Queue<T, P, E> {
        Queue::new(P::default())
    }
}

impl<T, P: DropPolicy<T>, E> Queue<T, P, E> {
    /// An empty queue.
    pub fn new(policy: P) -> Queue<T, P, E> {
        let state =
            State { waiting: VecDeque::new(), policy, end: None, has_ended: false, is_stopped: false };
        Queue { state: Mutex::new(state), changed: Condvar::new() }
    }

    fn lock(&self) -> MutexGuard<'_, State<T, P, E>> {
        // A policy that panics leaves a queue that may have lost its item, and nothing worse.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts an item in, as the policy has it. Returns whether more are wanted.
    pub fn push(&self, item: T) -> bool {
        let mut state = self.lock();
        let mut next = Some(item);
        while let Some(item) = next.take() {
            if state.is_stopped {
                return false;
            }
            let State { policy, waiting, .. } = &mut *state;
            next = policy.admit(waiting, item);
            if next.is_some() {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
        let is_wanted = !state.is_over();
        drop(state);
        self.changed.notify_all();
        is_wanted
    }

    /// Takes the oldest item, and waits for one as long as `timeout` says, for ever where it is `None`. After
    /// [`Queue::stop`], items that wait are not given out.
    pub fn take(&self, timeout: Option<Duration>) -> Taken<T> {
        let until = timeout.map(|timeout| Instant::now() + timeout);
        let mut state = self.lock();
        loop {
            if state.is_stopped {
                return Taken::End;
            }
            if let Some(mut item) = state.waiting.pop_front() {
                state.policy.hand_over(&mut item);
                drop(state);
                self.changed.notify_all();
                return Taken::Item(item);
            }
            if state.has_ended {
                return Taken::End;
            }
            state = match until.map(|until| until.saturating_duration_since(Instant::now())) {
                None => self.changed.wait(state).unwrap_or_else(PoisonError::into_inner),
                Some(Duration::ZERO) => return Taken::Timeout,
                Some(left) => {
                    self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0
                }
            };
        }
    }

    /// Looks at what waits, and at the policy, or changes them.
    pub fn look<R>(&self, look: impl FnOnce(&mut VecDeque<T>, &mut P) -> R) -> R {
        let State { waiting, policy, .. } = &mut *self.lock();
        look(waiting, policy)
    }

    /// The producer has put its last item in, or has failed. What waits is still given out. The first end counts.
    pub fn end(&self, end: Result<(), E>) {
        let mut state = self.lock();
        if !std::mem::replace(&mut state.has_ended, true) {
            state.end = Some(end);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// How the producer ended, once, if it has.
    pub fn take_end(&self) -> Option<Result<(), E>> {
        self.lock().end.take()
    }

    /// No more items are wanted; those that wait are dropped.
    pub fn stop(&self) {
        let mut state = self.lock();
        state.is_stopped = true;
        let waiting = std::mem::take(&mut state.waiting);
        drop(state);
        self.changed.notify_all();
        drop(waiting);
    }

    /// Whether it was stopped.
    pub fn is_stopped(&self) -> bool {
        self.lock().is_stopped
    }

    /// Whether no other item will come, or none is wanted.
    pub fn is_over(&self) -> bool {
        self.lock().is_over()
    }

    /// Waits until `look` gives something; `None` where no other item will come before that.
    pub fn wait_for<R>(&self, mut look: impl FnMut(&mut VecDeque<T>, &mut P) -> Option<R>) -> Option<R> {
        let mut state = self.lock();
        loop {
            let State { waiting, policy, .. } = &mut *state;
            let found = look(waiting, policy);
            if found.is_some() || state.is_over() {
                return found;
            }
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Waits until something has changed, or for so long.
    pub fn wait(&self, timeout: Duration) {
        drop(self.changed.wait_timeout(self.lock(), timeout));
    }

    /// Wakes what waits: something that it looks at has changed outside of the queue.
    pub fn wake(&self) {
        self.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    /// Room for so many.
    struct Room(usize);

    impl DropPolicy<u32> for Room {
        fn admit(&mut self, waiting: &mut VecDeque<u32>, item: u32) -> Option<u32> {
            if waiting.len() >= self.0 {
                return Some(item);
            }
            waiting.push_back(item);
            None
        }

        fn hand_over(&mut self, item: &mut u32) {
            *item += 1000;
        }
    }

    #[test]
    fn a_producer_waits_for_room_and_nothing_is_lost() {
        let queue: Arc<Queue<u32, Room, &str>> = Arc::new(Queue::new(Room(2)));
        let producer = Arc::clone(&queue);
        let thread = std::thread::spawn(move || {
            (0..100).for_each(|number| assert!(producer.push(number)));
            producer.end(Err("the source is gone"));
            producer.end(Ok(()));
        });
        for number in 0..100 {
            assert_eq!(queue.take(None), Taken::Item(1000 + number));
        }
        assert_eq!(queue.take(None), Taken::End);
        assert_eq!((queue.take_end(), queue.take_end()), (Some(Err("the source is gone")), None));
        thread.join().unwrap();
    }

    #[test]
    fn stopping_ends_both_sides() {
        let queue: Arc<Queue<u32, Room>> = Arc::new(Queue::new(Room(1)));
        let producer = Arc::clone(&queue);
        let thread = std::thread::spawn(move || while producer.push(0) {});
        assert_eq!(queue.take(None), Taken::Item(1000));
        queue.stop();
        thread.join().unwrap();
        assert_eq!((queue.take(None), queue.push(1), queue.is_stopped()), (Taken::End, false, true));
    }

    #[test]
    fn the_last_items_are_kept_and_the_replaced_ones_are_counted() {
        let queue: Queue<u32, KeepLast> = Queue::new(KeepLast::new(2));
        (0..5).for_each(|number| assert!(queue.push(number)));
        assert_eq!(queue.look(|_, policy| (policy.came, policy.replaced)), (5, 3));
        assert_eq!((queue.take(None), queue.take(None)), (Taken::Item(3), Taken::Item(4)));
    }

    #[test]
    fn what_is_waited_for_is_seen_when_it_comes_and_the_end_is_no_reason_to_wait_on() {
        let queue: Arc<Queue<u32, KeepAll>> = Arc::default();
        let waiting = Arc::clone(&queue);
        let thread = std::thread::spawn(move || waiting.wait_for(|waiting, _| waiting.get(1).copied()));
        assert!(queue.push(7) && queue.push(8));
        assert_eq!(thread.join().unwrap(), Some(8));
        queue.end(Ok(()));
        assert!(queue.is_over());
        assert_eq!(queue.wait_for(|waiting, _| waiting.get(2).copied()), None);
    }

    #[test]
    fn what_waits_comes_before_the_end() {
        let queue: Queue<u32, KeepAll> = Queue::default();
        assert_eq!(queue.take(Some(Duration::from_millis(1))), Taken::Timeout);
        assert!(queue.push(1) && queue.push(2));
        queue.end(Ok(()));
        assert_eq!(queue.look(|waiting, _| waiting.len()), 2);
        assert_eq!(
            (queue.take(None), queue.take(None), queue.take(None)),
            (Taken::Item(1), Taken::Item(2), Taken::End)
        );
        // What is pushed behind the end is not wanted.
        assert!(!queue.push(3));
    }
}
