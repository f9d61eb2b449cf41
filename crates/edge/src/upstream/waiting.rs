//! Fetches that wait for a connection: addresses take turns.

use super::exchange::Fetch;
use glassline_delivery::fill::FairQueue;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::Ordering;

/// See the module. Each fetch has a number, by which other requests for its object put it into the queues of their addresses,
/// too.
#[derive(Default)]
pub(super) struct Waiting {
    fetches: BTreeMap<u64, Fetch>,
    /// By group of servers.
    queues: BTreeMap<usize, FairQueue<IpAddr>>,
    last: u64,
}

impl Waiting {
    pub(super) fn push(&mut self, fetch: Fetch) {
        self.last += 1;
        fetch.job.growing.ticket().store(self.last, Ordering::Release);
        self.queues.entry(fetch.job.group).or_default().push(fetch.job.asker, self.last);
        self.fetches.insert(self.last, fetch);
    }

    /// `address` waits for this one, too.
    pub(super) fn join(&mut self, ticket: u64, address: IpAddr) {
        if let Some(fetch) = self.fetches.get(&ticket) {
            self.queues.entry(fetch.job.group).or_default().push(address, ticket);
        }
    }

    /// The next one for a group of servers.
    pub(super) fn pop(&mut self, group: usize) -> Option<Fetch> {
        let queue = self.queues.get_mut(&group)?;
        loop {
            let ticket = queue.pop()?;
            if let Some(fetch) = self.fetches.remove(&ticket) {
                fetch.job.growing.ticket().store(0, Ordering::Release);
                return Some(fetch);
            }
        }
    }

    /// Takes out the fetches of objects that have no reader any more.
    pub(super) fn take_unread(&mut self) -> Vec<Fetch> {
        let is_unread = |fetch: &Fetch| fetch.job.growing.readers() == 0;
        let unread: Vec<u64> =
            self.fetches.iter().filter(|(_, fetch)| is_unread(fetch)).map(|(ticket, _)| *ticket).collect();
        let taken = unread.iter().filter_map(|ticket| self.fetches.remove(ticket)).collect();
        if !unread.is_empty() {
            let fetches = &self.fetches;
            self.queues.values_mut().for_each(|queue| queue.retain(|ticket| fetches.contains_key(&ticket)));
        }
        taken
    }

    /// Groups of servers for which something waits.
    pub(super) fn groups(&self) -> Vec<usize> {
        self.queues.iter().filter(|(_, queue)| !queue.is_empty()).map(|(group, _)| *group).collect()
    }

    pub(super) fn has(&self, group: usize) -> bool {
        self.queues.get(&group).is_some_and(|queue| !queue.is_empty())
    }

    pub(super) fn take_all(&mut self) -> impl Iterator<Item = Fetch> {
        self.queues.clear();
        std::mem::take(&mut self.fetches).into_values()
    }
}

#[cfg(test)]
#[path = "waiting_tests.rs"]
mod tests;
