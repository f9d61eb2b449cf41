//! Which threads have viewers of a stream, and which of them were told of its news: a thread is woken once, however much comes
//! before it looks.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering, fence};

/// Threads that are told of news beside the workers: that of outputs, and the packager. Their numbers follow the workers'.
pub const THREADS_BESIDE: usize = 2;

/// The threads that have an inbox: workers, outputs, packager; and the viewers at other doors, which are woken by their
/// subscriptions.
#[derive(Debug)]
pub(super) struct Audiences(Box<[Audience]>, AtomicUsize);

/// A thread's viewers of the stream.
#[derive(Debug, Default)]
struct Audience {
    viewers: AtomicUsize,
    told: AtomicBool,
}

impl Audiences {
    /// Of a stream that has no viewers yet, for `workers` threads that can have some.
    pub(super) fn new(workers: usize) -> Audiences {
        let threads = (0..workers + THREADS_BESIDE).map(|_| Audience::default());
        Audiences(threads.collect(), AtomicUsize::new(0))
    }

    /// A viewer has come to worker `worker`.
    pub(super) fn join(&self, worker: usize) {
        self.0[worker].viewers.fetch_add(1, Ordering::AcqRel);
        fence(Ordering::SeqCst);
    }

    /// A viewer of worker `worker` has gone.
    pub(super) fn leave(&self, worker: usize) {
        self.0[worker].viewers.fetch_sub(1, Ordering::AcqRel);
    }

    /// A viewer has come to another door.
    pub(super) fn join_at_door(&self) {
        self.1.fetch_add(1, Ordering::AcqRel);
    }

    /// A viewer of another door has gone.
    pub(super) fn leave_door(&self) {
        self.1.fetch_sub(1, Ordering::AcqRel);
    }

    /// Viewers on all workers and at other doors.
    pub(super) fn viewers(&self) -> usize {
        let of_workers = self.0[..self.workers()].iter().map(|audience| &audience.viewers);
        of_workers.chain([&self.1]).map(|viewers| viewers.load(Ordering::Acquire)).sum()
    }

    fn workers(&self) -> usize {
        self.0.len() - THREADS_BESIDE
    }

    /// Whether the thread of outputs is told of news, like a worker with a viewer.
    pub(super) fn set_has_outputs(&self, listens: bool) {
        self.set_listens(self.workers(), listens);
    }

    /// The same of the packager.
    pub(super) fn set_is_packaged(&self, listens: bool) {
        self.set_listens(self.workers() + 1, listens);
    }

    /// Whether the packager is told of news.
    pub(super) fn is_packaged(&self) -> bool {
        self.0[self.workers() + 1].viewers.load(Ordering::Acquire) > 0
    }

    fn set_listens(&self, thread: usize, listens: bool) {
        self.0[thread].viewers.store(usize::from(listens), Ordering::Release);
        fence(Ordering::SeqCst);
    }

    /// Whether worker `worker` has viewers that were not told of news yet; from now on they count as told.
    ///
    /// The fences here, in [`Audiences::heard`] and in [`Audiences::join`] order "grow, then look which worker to tell"
    /// against "say that I look, then look how far it has grown": without them each side could miss the other, and a
    /// viewer would wait for bytes that are there.
    pub(super) fn notify(&self, worker: usize) -> bool {
        fence(Ordering::SeqCst);
        let audience = &self.0[worker];
        audience.viewers.load(Ordering::Acquire) > 0 && !audience.told.swap(true, Ordering::AcqRel)
    }

    /// The worker looks at the news now; it is told again of what comes from here on.
    pub(super) fn heard(&self, worker: usize) {
        self.0[worker].told.store(false, Ordering::Release);
        fence(Ordering::SeqCst);
    }
}

#[cfg(test)]
#[path = "audiences_tests.rs"]
mod tests;
