//! What the thread that fetches objects is asked for, by the workers and by the thread of the disk.
//!
//! ```text
//! worker ─ a miss ──────────────► FetchMailbox ─ Waker ─► thread "fetch"
//! disk ─ not there, or damaged ─────┘
//! ```

use super::cache::Job;
use glassline_io::poll::Waker;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// A message to the thread that fetches.
pub(super) enum FetchMessage {
    /// An object has to be fetched.
    Job(Box<Job>),
    /// A client of this address waits, too, for the fetch that has this number among those that wait.
    Joins(u64, IpAddr),
}

/// The messages that the thread has not taken yet.
pub(super) struct FetchMailbox {
    messages: Mutex<Vec<FetchMessage>>,
    waker: Waker,
}

impl FetchMailbox {
    /// `waker` wakes the thread.
    pub(super) fn new(waker: Waker) -> Arc<FetchMailbox> {
        Arc::new(FetchMailbox { messages: Mutex::default(), waker })
    }

    /// Has the object of this job fetched.
    pub(super) fn send(&self, job: Box<Job>) {
        self.tell(FetchMessage::Job(job));
    }

    /// See [`FetchMessage::Joins`].
    pub(super) fn join(&self, ticket: u64, address: IpAddr) {
        self.tell(FetchMessage::Joins(ticket, address));
    }

    fn tell(&self, message: FetchMessage) {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).push(message);
        self.waker.wake();
    }

    /// Wakes the thread without a message: room was made, or addresses of a server were found.
    pub(super) fn wake(&self) {
        self.waker.wake();
    }

    /// Takes all messages.
    pub(super) fn collect(&self) -> Vec<FetchMessage> {
        self.waker.clear();
        std::mem::take(&mut *self.messages.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{cache, client, job};
    use super::*;
    use glassline_io::poll::Poller;
    use std::time::Duration;

    const WAKE: u64 = 5;

    fn mailbox() -> (Poller, Arc<FetchMailbox>) {
        let poller = Poller::new().unwrap();
        let mailbox = FetchMailbox::new(Waker::new(&poller, WAKE).unwrap());
        (poller, mailbox)
    }

    fn is_woken(poller: &Poller) -> bool {
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        ready.iter().any(|event| event.token == WAKE)
    }

    #[test]
    fn messages_come_out_once_in_the_order_in_which_they_went_in() {
        let (_poller, mailbox) = mailbox();
        let (cache, _) = cache(1 << 20);
        let growing = cache.fresh();
        mailbox.join(7, client(3));
        mailbox.send(Box::new(job(&cache, "/a", &growing)));
        mailbox.join(8, client(4));
        let told: Vec<String> = mailbox
            .collect()
            .into_iter()
            .map(|message| match message {
                FetchMessage::Job(job) => job.target.clone(),
                FetchMessage::Joins(ticket, address) => format!("{ticket} {address}"),
            })
            .collect();
        assert_eq!(told, ["7 192.0.2.3", "/a", "8 192.0.2.4"]);
        assert!(mailbox.collect().is_empty());
    }

    #[test]
    fn a_message_and_a_bare_wake_both_wake_the_thread_until_it_collects() {
        let (poller, mailbox) = mailbox();
        assert!(!is_woken(&poller));
        mailbox.join(1, client(1));
        assert!(is_woken(&poller) && is_woken(&poller), "it is told for as long as it was not taken");
        assert_eq!(mailbox.collect().len(), 1);
        assert!(!is_woken(&poller));
        mailbox.wake();
        mailbox.wake();
        assert!(is_woken(&poller));
        assert!(mailbox.collect().is_empty());
        assert!(!is_woken(&poller), "two wakes are one");
    }

    #[test]
    fn a_panic_of_another_thread_under_its_lock_loses_no_message() {
        let (poller, mailbox) = mailbox();
        mailbox.join(1, client(1));
        let held = Arc::clone(&mailbox);
        let torn = std::thread::spawn(move || {
            let _lock = held.messages.lock().unwrap();
            panic!("a test's");
        });
        assert!(torn.join().is_err());
        mailbox.join(2, client(2));
        assert!(is_woken(&poller));
        assert_eq!(mailbox.collect().len(), 2);
    }
}
