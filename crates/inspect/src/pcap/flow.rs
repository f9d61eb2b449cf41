//! Which address sends how much to which other.

use super::segment::{Flow, Segment};
use std::collections::BTreeMap;

/// Flows that are told apart. When there are more, the half with the least bytes is forgotten.
pub const FLOWS_MAX: usize = 16_384;

/// What a flow amounts to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Count {
    /// Packets with payload, as captured.
    pub packets: u64,
    /// Their payload.
    pub payload_bytes: u64,
}

/// Counts the flows of a capture. Memory: about 2 MiB at most.
#[derive(Clone, Debug, Default)]
pub struct Survey {
    flows: BTreeMap<Flow, Count>,
    forgotten: u64,
}

impl Survey {
    /// Counts a packet; one without payload is none.
    pub fn push(&mut self, segment: &Segment) {
        if segment.payload_bytes == 0 {
            return;
        }
        if self.flows.len() == FLOWS_MAX && !self.flows.contains_key(&segment.flow) {
            self.forget();
        }
        let count = self.flows.entry(segment.flow).or_default();
        count.packets = count.packets.saturating_add(1);
        count.payload_bytes = count.payload_bytes.saturating_add(segment.payload_bytes);
    }

    fn forget(&mut self) {
        let mut sizes: Vec<u64> = self.flows.values().map(|count| count.payload_bytes).collect();
        let (_, &mut middle, _) = sizes.select_nth_unstable(FLOWS_MAX / 2);
        let before = self.flows.len();
        self.flows.retain(|_, count| count.payload_bytes > middle);
        let forgotten = before.saturating_sub(self.flows.len()) as u64;
        self.forgotten = self.forgotten.saturating_add(forgotten);
    }

    /// The flow with the most payload of those that are `wanted`; the first of equals.
    pub fn largest(&self, wanted: impl Fn(&Flow) -> bool) -> Option<(Flow, Count)> {
        let flows = self.flows.iter().filter(|(flow, _)| wanted(flow));
        let largest = flows.min_by_key(|(_, count)| std::cmp::Reverse(count.payload_bytes));
        largest.map(|(flow, count)| (*flow, *count))
    }

    /// Every flow that is known, those with the most payload first.
    pub fn flows(&self) -> Vec<(Flow, Count)> {
        let mut flows: Vec<_> = self.flows.iter().map(|(flow, count)| (*flow, *count)).collect();
        flows.sort_by_key(|(_, count)| std::cmp::Reverse(count.payload_bytes));
        flows
    }

    /// How many flows were seen, those included that were forgotten.
    pub fn len(&self) -> u64 {
        self.forgotten.saturating_add(self.flows.len() as u64)
    }

    /// Whether no packet had a payload.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
