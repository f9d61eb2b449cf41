//! What is told when one stream has news, beside the relay's own threads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Waker;

/// The subscriptions to one stream.
#[derive(Debug, Default)]
pub(crate) struct Subscribers {
    /// How many there are, for the data path: nearly always none.
    count: AtomicUsize,
    list: Mutex<Vec<Arc<Subscriber>>>,
}

#[derive(Debug)]
pub(crate) struct Subscriber {
    waker: Waker,
    told: AtomicBool,
}

impl Subscribers {
    fn lock(&self) -> MutexGuard<'_, Vec<Arc<Subscriber>>> {
        // A list is whole after every single change, whatever panicked in between.
        self.list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn add(&self, waker: Waker) -> Arc<Subscriber> {
        let subscriber = Arc::new(Subscriber { waker, told: AtomicBool::new(false) });
        let mut list = self.lock();
        list.push(Arc::clone(&subscriber));
        self.count.store(list.len(), Ordering::Release);
        fence(Ordering::SeqCst);
        subscriber
    }

    pub(crate) fn remove(&self, subscriber: &Arc<Subscriber>) {
        let mut list = self.lock();
        list.retain(|known| !Arc::ptr_eq(known, subscriber));
        self.count.store(list.len(), Ordering::Release);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count.load(Ordering::Acquire) == 0
    }

    /// Wakes those that have read since they were woken last.
    ///
    /// The fences here and in [`Subscriber::looks`] order "grow, then look which to wake" against "say that I look, then look
    /// how far it has grown", as those of [`Live::notify`](super::live::Live::notify) do.
    pub(crate) fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.is_empty() {
            return;
        }
        for subscriber in self.lock().iter() {
            if !subscriber.told.swap(true, Ordering::AcqRel) {
                subscriber.waker.wake_by_ref();
            }
        }
    }
}

impl Subscriber {
    /// It looks now: it is woken for what comes from here on.
    pub(crate) fn looks(&self) {
        self.told.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "subscribers_tests.rs"]
mod tests;
