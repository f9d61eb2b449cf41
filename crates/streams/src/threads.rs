//! The threads that stay with streams, and how they are told of news: each once until it has looked.

use crate::live::{Flushed, Live, THREADS_BESIDE};
use glassline_media::Time;
use std::sync::Arc;

/// What a thread is told of a stream.
#[derive(Debug)]
pub enum News {
    /// A stream that the thread has viewers (or outputs, or a presentation) of has grown or ended.
    Flushed(Arc<Live>),
    /// [`Live::handle_timeout`] has to be called at this time.
    FlushAt(Time, Arc<Live>),
    /// The publisher of which the connection has this token at that thread has lost its slot.
    Evicted(u64),
}

/// The threads of a program that serves streams.
pub trait Threads: Send + Sync {
    /// How many workers there are, at least one.
    fn workers(&self) -> usize;

    /// Tells thread `thread` of `news` and wakes it.
    fn tell(&self, thread: usize, news: News);
}

/// No threads: what reads streams is woken by its own waker (`Streams::subscribe`). Streams are then flushed whenever their
/// publishers push; a flush policy that waits for a deadline has no thread to keep it.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoThreads;

impl Threads for NoThreads {
    fn workers(&self) -> usize {
        1
    }

    fn tell(&self, _thread: usize, _news: News) {}
}

/// Wakes each of `threads` that has viewers, outputs or a presentation of `live` and has not been told yet, and what has subscribed
/// to it. `own` is the worker that calls, which is not woken: it serves its viewers itself if this returns true.
pub(crate) fn announce(threads: &dyn Threads, live: &Arc<Live>, own: Option<usize>) -> bool {
    let mut serve_own = false;
    for thread in 0..threads.workers() + THREADS_BESIDE {
        if live.notify(thread) {
            if own == Some(thread) {
                serve_own = true;
            } else {
                threads.tell(thread, News::Flushed(Arc::clone(live)));
            }
        }
    }
    live.subscribers.notify();
    serve_own
}

/// Does what `flushed` asks for, from a thread that is no worker: wakes those with viewers, and leaves the deadline to one worker,
/// always the same of a stream.
pub(crate) fn notify(threads: &dyn Threads, live: &Arc<Live>, flushed: Flushed) {
    if flushed.news {
        announce(threads, live, None);
    }
    if let Some(at) = flushed.wake_at {
        let worker = usize::try_from(live.id).unwrap_or_default() % threads.workers();
        threads.tell(worker, News::FlushAt(at, Arc::clone(live)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_streams::live;
    use std::sync::Mutex;

    /// Keeps what threads are told.
    struct Told {
        workers: usize,
        news: Mutex<Vec<(usize, News)>>,
    }

    impl Told {
        fn new(workers: usize) -> Told {
            Told { workers, news: Mutex::default() }
        }

        fn take(&self) -> Vec<(usize, News)> {
            std::mem::take(&mut self.news.lock().unwrap())
        }
    }

    impl Threads for Told {
        fn workers(&self) -> usize {
            self.workers
        }

        fn tell(&self, thread: usize, news: News) {
            self.news.lock().unwrap().push((thread, news));
        }
    }

    #[test]
    fn news_go_once_to_each_thread_that_has_viewers() {
        let told = Told::new(3);
        let live = live(0, "a", 3);
        live.viewer_comes_over(0);
        live.viewer_comes_over(2);
        assert!(announce(&told, &live, Some(2)), "the caller serves its own");
        assert!(!announce(&told, &live, Some(2)), "and knows of it until it has looked");
        assert!(matches!(&told.take()[..], [(0, News::Flushed(news))] if Arc::ptr_eq(news, &live)));
        live.heard(0);
        assert!(!announce(&told, &live, None));
        assert!(
            matches!(told.take()[..], [(0, News::Flushed(_))]),
            "what came after it looked is told again"
        );
    }

    #[test]
    fn outputs_are_told_as_a_worker_is() {
        let told = Told::new(2);
        let live = live(0, "a", 2);
        live.set_has_outputs(true);
        announce(&told, &live, None);
        assert!(matches!(told.take()[..], [(2, News::Flushed(_))]));
        assert_eq!(live.viewers(), 0, "an output is no viewer");
        live.set_is_packaged(true);
        announce(&told, &live, None);
        assert!(matches!(told.take()[..], [(3, News::Flushed(_))]), "the outputs' thread has not looked");
    }

    #[test]
    fn a_deadline_is_left_to_one_worker() {
        let told = Told::new(2);
        let live = live(5, "a", 2);
        let at = Time::from_millis(40);
        notify(&told, &live, Flushed { news: false, wake_at: Some(at) });
        assert!(matches!(told.take()[..], [(1, News::FlushAt(time, _))] if time == at));
        notify(&told, &live, Flushed { news: false, wake_at: None });
        assert!(told.take().is_empty());
    }
}
