//! What the threads tell each other: a list of messages and a waker for each worker, and one each for the thread of outputs
//! and that of the packager.

use glassline_delivery::policy::StreamName;
use glassline_edge::Wake;
use glassline_io::poll::{Poller, Waker};
use glassline_streams::{News, THREADS_BESIDE, Threads};
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The token under which a thread's poller reports that it was woken.
pub(super) const WAKE: u64 = u64::MAX;

/// Tells a thread something from another one.
#[derive(Debug)]
pub(super) enum Message {
    /// What there is of a stream.
    Stream(News),
    /// A client asks for the stream's presentation.
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
}

impl Threads for Inboxes {
    fn workers(&self) -> usize {
        Inboxes::workers(self)
    }

    fn tell(&self, thread: usize, news: News) {
        self.send(thread, Message::Stream(news));
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
        inboxes.tell(1, News::Evicted(7));
        inboxes.tell(1, News::Evicted(8));
        let woken: Vec<_> = pollers.iter_mut().map(wakes).collect();
        assert_eq!(woken, [false, true, false, false]);
        assert!(matches!(
            collected(&inboxes, 1)[..],
            [Message::Stream(News::Evicted(7)), Message::Stream(News::Evicted(8))]
        ));
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
    fn messages_from_many_threads_all_arrive_and_each_senders_are_in_order() {
        let (inboxes, _pollers) = Inboxes::new(1).expect("pollers");
        std::thread::scope(|scope| {
            for sender in 0..4_u64 {
                let inboxes = &inboxes;
                scope.spawn(move || (0..500).for_each(|number| inboxes.wake(0, vec![sender, number])));
            }
        });
        let mut next = [0; 4];
        for message in collected(&inboxes, 0) {
            let Message::Grown(tokens) = message else { panic!("{message:?}") };
            let sender = tokens[0] as usize;
            assert_eq!(tokens[1], next[sender]);
            next[sender] += 1;
        }
        assert_eq!(next, [500; 4]);
    }

    #[test]
    fn the_list_that_is_given_in_exchange_is_used_for_what_comes_next() {
        let (inboxes, _pollers) = Inboxes::new(1).expect("pollers");
        let mut messages = Vec::with_capacity(100);
        inboxes.collect(0, &mut messages);
        assert_eq!(messages.capacity(), 0);
        inboxes.wake(0, vec![1]);
        inboxes.collect(0, &mut messages);
        assert_eq!((messages.len(), messages.capacity()), (1, 100));
    }

    #[test]
    fn a_thread_that_is_woken_many_times_wakes_once() {
        let (inboxes, pollers) = Inboxes::new(1).expect("pollers");
        (0..1000).for_each(|token| inboxes.wake(0, vec![token]));
        let mut ready = Vec::new();
        pollers[0].wait(Some(Duration::ZERO), &mut ready).expect("a poller");
        assert_eq!(ready.len(), 1);
        assert_eq!(collected(&inboxes, 0).len(), 1000);
    }

    #[test]
    fn an_inbox_takes_messages_after_a_panic_under_its_lock() {
        let (inboxes, _pollers) = Inboxes::new(1).expect("pollers");
        inboxes.wake(0, vec![1]);
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _held = inboxes.0[0].messages();
            panic!("a test's");
        }));
        assert!(panicked.is_err());
        inboxes.wake(0, vec![2]);
        assert_eq!(collected(&inboxes, 0).len(), 2);
    }
}
