//! Which request is next for a resource of which there is not enough.
//!
//! ```text
//! address a: 1 2 3 4 ... ─┐
//! address b: 5           ─┼─► 1 5 6 2 7 3 4 ...
//! address c: 6 7         ─┘
//! ```
//! Addresses take turns (round robin), so that an address with a thousand requests delays the single request of another one by
//! one turn. An address that waits alone gets every turn: behind it may be a hall full of people.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Requests, by number, in a line for each address `A`. A request that several addresses wait for stands in the line of
/// each, and has the first of their turns.
#[derive(Clone, Debug)]
pub struct FairQueue<A> {
    lines: BTreeMap<A, Line>,
    /// The addresses that wait, the next one first.
    turns: VecDeque<A>,
}

#[derive(Clone, Debug, Default)]
struct Line {
    order: VecDeque<u64>,
    requests: BTreeSet<u64>,
}

impl<A> Default for FairQueue<A> {
    fn default() -> FairQueue<A> {
        FairQueue { lines: BTreeMap::new(), turns: VecDeque::new() }
    }
}

impl<A: Ord + Clone> FairQueue<A> {
    /// The request of this number waits for `address`, too. Without effect where it does already.
    pub fn push(&mut self, address: A, request: u64) {
        let line = self.lines.entry(address.clone()).or_insert_with(|| {
            self.turns.push_back(address);
            Line::default()
        });
        if line.requests.insert(request) {
            line.order.push_back(request);
        }
    }

    /// Takes the next request. It may still stand in the lines of other addresses: the caller removes it there by
    /// [`FairQueue::retain`], or passes over it when it comes again.
    pub fn pop(&mut self) -> Option<u64> {
        let address = self.turns.pop_front()?;
        let line = self.lines.get_mut(&address)?;
        let request = line.order.pop_front();
        if let Some(request) = &request {
            line.requests.remove(request);
        }
        if line.order.is_empty() {
            self.lines.remove(&address);
        } else {
            self.turns.push_back(address);
        }
        request
    }

    /// Keeps the requests that `waits` says so of.
    pub fn retain(&mut self, waits: impl Fn(u64) -> bool) {
        self.lines.retain(|_, line| {
            line.order.retain(|request| waits(*request));
            line.requests.retain(|request| waits(*request));
            !line.order.is_empty()
        });
        let lines = &self.lines;
        self.turns.retain(|address| lines.contains_key(address));
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.turns.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn order(queue: &mut FairQueue<char>) -> Vec<u64> {
        std::iter::from_fn(|| queue.pop()).collect()
    }

    #[test]
    fn addresses_take_turns() {
        let mut queue = FairQueue::default();
        for request in 0..1000 {
            queue.push('a', request);
        }
        for (address, request) in [('b', 1000), ('c', 1001), ('c', 1002)] {
            queue.push(address, request);
        }
        let order = order(&mut queue);
        assert_eq!(order[..6], [0, 1000, 1001, 1, 1002, 2]);
        assert!(order.len() == 1003 && queue.is_empty());
    }

    #[test]
    fn what_two_wait_for_has_the_first_of_their_turns() {
        let mut queue = FairQueue::default();
        (0..10).for_each(|request| queue.push('a', request));
        queue.push('b', 9);
        queue.push('b', 9);
        assert_eq!((queue.pop(), queue.pop()), (Some(0), Some(9)));
        queue.retain(|request| request != 9 && request != 1);
        assert_eq!(order(&mut queue), [2, 3, 4, 5, 6, 7, 8]);
    }

    proptest! {
        /// Nothing is lost, an address' requests keep their order, and between two turns of an address that waits each other
        /// one has one turn at most.
        #[test]
        fn turns_are_fair(requests in prop::collection::vec(0u8..6, 0..100)) {
            let mut queue = FairQueue::default();
            for (number, address) in requests.iter().enumerate() {
                queue.push(*address, number as u64);
            }
            let order: Vec<u64> = std::iter::from_fn(|| queue.pop()).collect();
            prop_assert_eq!(order.len(), requests.len());
            for address in 0..6 {
                let places: Vec<usize> =
                    (0..order.len()).filter(|at| requests[order[*at] as usize] == address).collect();
                prop_assert!(places.is_sorted_by_key(|at| order[*at]));
                let mut before = 0;
                for place in places {
                    let mut between: Vec<u8> =
                        order[before..place].iter().map(|request| requests[*request as usize]).collect();
                    let count = between.len();
                    between.sort_unstable();
                    between.dedup();
                    prop_assert_eq!(between.len(), count, "address {} at {}", address, place);
                    before = place + 1;
                }
            }
        }
    }
}
