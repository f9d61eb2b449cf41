//! What the threads tell each other: a list of messages and a waker for each worker, and one each for the thread of outputs
//! and that of the packager.

use crate::edge::Wake;
use crate::relay::live::{Flushed, Live, THREADS_BESIDE};
use glassline_delivery::policy::StreamName;
use glassline_io::poll::{Poller, Waker};
use glassline_media::Time;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The token under which a thread's poller reports that it was woken.
pub(super) const WAKE: u64 = u64::MAX;

/// Tells a thread something from another one.
#[derive(Debug)]
pub(super) enum Message {
    /// A stream that the thread has viewers (or outputs, or a presentation) of has grown or ended.
    Flushed(Arc<Live>),
    /// A stream's waiting bytes are to be looked after at this time.
    FlushAt(Time, Arc<Live>),
    /// The publisher at this token has lost its seat.
    Evicted(u64),
    /// Somebody asks for the stream's presentation.
    Package(StreamName),
    /// There is news of the objects that the connections at these tokens wait for.
    Grown(Vec<u64>),
}

/// The inboxes of all workers, by their numbers, and those of the outputs' thread and the packager behind them.
pub(super) struct Inboxes(Vec<Inbox>);

struct Inbox {
    messages: Mutex<Vec<Message>>,
    waker: Waker,
}

impl Inbox {
    fn new(poller: &Poller) -> io::Result<Inbox> {
        Ok(Inbox { messages: Mutex::default(), waker: Waker::new(poller, WAKE)? })
    }

    fn messages(&self) -> MutexGuard<'_, Vec<Message>> {
        // A list is whole after every single change, whatever panicked in between.
        self.messages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Inboxes {
    /// Inboxes for so many workers, for the outputs' thread and for the packager, and the poller of each, in the same order.
    pub(super) fn new(workers: usize) -> io::Result<(Inboxes, Vec<Poller>)> {
        let pollers = (0..workers + THREADS_BESIDE).map(|_| Poller::new()).collect::<io::Result<Vec<_>>>()?;
        let inboxes = pollers.iter().map(Inbox::new).collect::<io::Result<Vec<_>>>()?;
        Ok((Inboxes(inboxes), pollers))
    }

    /// How many workers there are.
    pub(super) fn workers(&self) -> usize {
        self.0.len() - THREADS_BESIDE
    }

    /// The number of the outputs' thread, where a worker's number is asked for.
    pub(super) fn outputs(&self) -> usize {
        self.workers()
    }

    /// The number of the packager, the same.
    pub(super) fn packager(&self) -> usize {
        self.workers() + 1
    }

    /// Puts `message` before thread `thread` and wakes it.
    pub(super) fn send(&self, thread: usize, message: Message) {
        let inbox = &self.0[thread];
        inbox.messages().push(message);
        inbox.waker.wake();
    }

    /// Takes what others told thread `thread`, in the order in which they did. `into` is empty and gives its memory in
    /// exchange.
    pub(super) fn collect(&self, thread: usize, into: &mut Vec<Message>) {
        let inbox = &self.0[thread];
        inbox.waker.clear();
        std::mem::swap(&mut *inbox.messages(), into);
    }

    /// Wakes all threads.
    pub(super) fn wake_all(&self) {
        for inbox in &self.0 {
            inbox.waker.wake();
        }
    }

    /// Wakes each thread that has viewers, outputs or a presentation of `live` and has not been told yet. `own` is the worker that calls,
    /// which is not woken: it serves its viewers itself if this returns true.
    pub(super) fn announce(&self, live: &Arc<Live>, own: Option<usize>) -> bool {
        let mut serve_own = false;
        for thread in 0..self.0.len() {
            if live.notify(thread) {
                if own == Some(thread) {
                    serve_own = true;
                } else {
                    self.send(thread, Message::Flushed(Arc::clone(live)));
                }
            }
        }
        live.subscribers.notify();
        serve_own
    }

    /// Does what `flushed` asks for, from a thread that is no worker: wakes those with viewers, and leaves the deadline to
    /// one worker, always the same of a stream.
    pub(super) fn notify(&self, live: &Arc<Live>, flushed: Flushed) {
        if flushed.news {
            self.announce(live, None);
        }
        if let Some(at) = flushed.wake_at {
            let worker = usize::try_from(live.id).unwrap_or_default() % self.workers();
            self.send(worker, Message::FlushAt(at, Arc::clone(live)));
        }
    }
}

impl Wake for Inboxes {
    fn wake(&self, thread: usize, readers: Vec<u64>) {
        self.send(thread, Message::Grown(readers));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::relay::test_streams::live;
    use std::time::Duration;

    fn collected(inboxes: &Inboxes, thread: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        inboxes.collect(thread, &mut messages);
        messages
    }

    fn wakes(poller: &mut Poller) -> bool {
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).expect("a poller");
        ready.iter().any(|event| event.token == WAKE)
    }

    #[test]
    fn a_message_wakes_its_thread_alone_and_is_collected_once() {
        let (inboxes, mut pollers) = Inboxes::new(2).expect("pollers");
        assert_eq!((inboxes.workers(), inboxes.outputs(), inboxes.packager(), pollers.len()), (2, 2, 3, 4));
        inboxes.send(1, Message::Evicted(7));
        inboxes.send(1, Message::Evicted(8));
        let woken: Vec<_> = pollers.iter_mut().map(wakes).collect();
        assert_eq!(woken, [false, true, false, false]);
        assert!(matches!(collected(&inboxes, 1)[..], [Message::Evicted(7), Message::Evicted(8)]));
        assert!(collected(&inboxes, 1).is_empty());
        assert!(!wakes(&mut pollers[1]), "collecting clears the waker");
    }

    #[test]
    fn all_threads_are_woken_without_a_message() {
        let (inboxes, mut pollers) = Inboxes::new(1).expect("pollers");
        inboxes.wake_all();
        assert!(pollers.iter_mut().all(wakes));
        assert!((0..=1).all(|thread| collected(&inboxes, thread).is_empty()));
    }

    #[test]
    fn news_go_once_to_each_thread_that_has_viewers() {
        let (inboxes, _pollers) = Inboxes::new(3).expect("pollers");
        let live = live(0, "a", 3);
        live.viewer_sits(0);
        live.viewer_sits(2);
        assert!(inboxes.announce(&live, Some(2)), "the caller serves its own");
        assert!(!inboxes.announce(&live, Some(2)), "and knows of it until it has looked");
        assert!(matches!(&collected(&inboxes, 0)[..], [Message::Flushed(told)] if Arc::ptr_eq(told, &live)));
        assert!((1..=3).all(|thread| collected(&inboxes, thread).is_empty()));
        live.heard(0);
        assert!(!inboxes.announce(&live, None));
        assert_eq!(collected(&inboxes, 0).len(), 1, "what came after it looked is told again");
    }

    #[test]
    fn outputs_are_told_as_a_worker_is() {
        let (inboxes, _pollers) = Inboxes::new(2).expect("pollers");
        let live = live(0, "a", 2);
        live.set_has_outputs(true);
        inboxes.announce(&live, None);
        assert!(matches!(collected(&inboxes, inboxes.outputs())[..], [Message::Flushed(_)]));
        assert_eq!(live.viewers(), 0, "an output is no viewer");
    }

    #[test]
    fn a_deadline_is_left_to_one_worker() {
        let (inboxes, _pollers) = Inboxes::new(2).expect("pollers");
        let live = live(5, "a", 2);
        let at = Time::from_millis(40);
        inboxes.notify(&live, Flushed { news: false, wake_at: Some(at) });
        assert!(collected(&inboxes, 0).is_empty());
        assert!(matches!(collected(&inboxes, 1)[..], [Message::FlushAt(time, _)] if time == at));
        inboxes.notify(&live, Flushed { news: false, wake_at: None });
        assert!(collected(&inboxes, 1).is_empty());
    }
}
