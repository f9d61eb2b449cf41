use super::super::super::cache::Cache;
use super::super::super::testing::{at, cache, client, job};
use super::super::super::{Growing, Reading};
use super::*;
use std::sync::Arc;

/// What waits, and the readers of its objects.
struct Queue {
    waiting: Waiting,
    cache: Arc<Cache>,
    readings: BTreeMap<String, Reading>,
}

impl Queue {
    fn new() -> Queue {
        let (cache, _) = cache(1 << 20);
        Queue { waiting: Waiting::default(), cache, readings: BTreeMap::new() }
    }

    /// This one is asked for by the client of this number. Returns its ticket.
    fn push(&mut self, target: &str, asker: u8, group: usize) -> u64 {
        let growing: Arc<Growing> = self.cache.fresh();
        let mut job = job(&self.cache, target, &growing);
        (job.asker, job.group) = (client(asker), group);
        self.readings.insert(target.to_owned(), Reading::new(Arc::clone(&growing)));
        self.waiting.push(Fetch::new(job, at(0)));
        growing.ticket().load(Ordering::Acquire)
    }

    fn pop(&mut self, group: usize) -> Option<String> {
        let fetch = self.waiting.pop(group)?;
        assert_eq!(fetch.job.growing.ticket().load(Ordering::Acquire), 0, "it waits no longer");
        Some(fetch.job.target.clone())
    }

    fn pop_all(&mut self) -> Vec<String> {
        std::iter::from_fn(|| self.pop(0)).collect()
    }
}

#[test]
fn each_fetch_that_waits_has_a_ticket_of_its_own() {
    let mut queue = Queue::new();
    assert_eq!([queue.push("/a", 1, 0), queue.push("/b", 1, 0), queue.push("/c", 1, 3)], [1, 2, 3]);
    assert_eq!(queue.pop(0).as_deref(), Some("/a"));
    assert_eq!(queue.push("/d", 1, 0), 4, "the number of one that has gone is not given again");
}

#[test]
fn addresses_take_turns_however_many_fetches_each_has() {
    let mut queue = Queue::new();
    for target in ["/1a", "/1b", "/1c"] {
        queue.push(target, 1, 0);
    }
    queue.push("/2a", 2, 0);
    queue.push("/3a", 3, 0);
    assert_eq!(queue.pop_all(), ["/1a", "/2a", "/3a", "/1b", "/1c"]);
    assert!(!queue.waiting.has(0));
}

#[test]
fn a_fetch_that_several_addresses_wait_for_has_the_first_of_their_turns_and_is_made_once() {
    let mut queue = Queue::new();
    for target in ["/1a", "/1b", "/1c"] {
        queue.push(target, 1, 0);
    }
    let ticket = queue.push("/shared", 1, 0);
    queue.waiting.join(ticket, client(2));
    queue.waiting.join(99, client(3));
    assert_eq!(queue.pop_all(), ["/1a", "/shared", "/1b", "/1c"]);
    assert_eq!(queue.pop(0), None);
}

#[test]
fn groups_of_servers_wait_by_themselves() {
    let mut queue = Queue::new();
    queue.push("/a", 1, 0);
    queue.push("/b", 1, 2);
    assert_eq!(queue.waiting.groups(), [0, 2]);
    assert!(queue.waiting.has(2) && !queue.waiting.has(1));
    assert_eq!((queue.pop(1), queue.pop(2).as_deref()), (None, Some("/b")));
    assert_eq!(queue.waiting.groups(), [0]);
}

#[test]
fn what_no_reader_waits_for_is_taken_out_of_all_lines() {
    let mut queue = Queue::new();
    let ticket = queue.push("/gone", 1, 0);
    queue.waiting.join(ticket, client(2));
    queue.push("/read", 1, 0);
    queue.push("/alone", 3, 5);
    assert!(queue.waiting.take_unread().is_empty());
    for target in ["/gone", "/alone"] {
        queue.readings.remove(target);
    }
    let mut taken: Vec<String> =
        queue.waiting.take_unread().iter().map(|fetch| fetch.job.target.clone()).collect();
    taken.sort();
    assert_eq!(taken, ["/alone", "/gone"]);
    assert_eq!(queue.waiting.groups(), [0], "no line is left for them");
    assert_eq!(queue.pop_all(), ["/read"]);
}

#[test]
fn all_are_taken_at_the_end() {
    let mut queue = Queue::new();
    queue.push("/a", 1, 0);
    queue.push("/b", 2, 1);
    let taken: Vec<String> = queue.waiting.take_all().map(|fetch| fetch.job.target.clone()).collect();
    assert_eq!(taken, ["/a", "/b"]);
    assert!(queue.waiting.groups().is_empty() && queue.pop(0).is_none());
}
