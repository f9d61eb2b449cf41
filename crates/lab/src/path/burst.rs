//! A train as it was sent and as it arrived.

use super::{Arrival, Sent, TrainSpec};

/// A train that was sent, and what arrived of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct BurstRecord {
    /// What it was like.
    pub spec: TrainSpec,
    /// How it was sent.
    pub sent: Sent,
    /// What arrived, in the order of arrival; each packet once.
    pub arrivals: Vec<Arrival>,
    /// Packets that arrived once more.
    pub duplicates: u16,
}

impl BurstRecord {
    /// For each packet whether it has arrived.
    pub fn has_arrived(&self) -> Vec<bool> {
        let mut has_arrived = vec![false; usize::from(self.spec.packets)];
        for arrival in &self.arrivals {
            if let Some(place) = has_arrived.get_mut(usize::from(arrival.index)) {
                *place = true;
            }
        }
        has_arrived
    }

    /// The places of the packets that have not arrived, from 0.
    pub fn lost_at(&self) -> Vec<u16> {
        let has_arrived = self.has_arrived();
        (0..self.spec.packets).filter(|index| !has_arrived[usize::from(*index)]).collect()
    }

    /// Packets that arrived after one that was sent later (RFC 4737 §3).
    pub fn reordered(&self) -> usize {
        let mut newest = None;
        let is_late = |arrival: &&Arrival| {
            let is_late = newest.is_some_and(|newest| arrival.index < newest);
            newest = newest.max(Some(arrival.index));
            is_late
        };
        self.arrivals.iter().filter(is_late).count()
    }

    /// How much longer than the quickest packet of the train each took, in the order of arrival: place, nanoseconds. The clocks of
    /// both ends need not agree.
    pub fn delays(&self) -> Vec<(u16, u64)> {
        let took = |arrival: &Arrival| i128::from(arrival.received_ns) - i128::from(arrival.sent_ns);
        let Some(least) = self.arrivals.iter().map(took).min() else { return Vec::new() };
        let delay = |arrival| u64::try_from(took(arrival) - least).unwrap_or(u64::MAX);
        self.arrivals.iter().map(|arrival| (arrival.index, delay(arrival))).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_reordering_and_delays_are_those_of_the_arrivals() {
        let arrival = |index, sent_ns, received_ns| Arrival { index, sent_ns, received_ns };
        // The receiver's clock is far behind.
        let arrivals =
            vec![arrival(0, 1_000_000, 500), arrival(3, 1_000_030, 560), arrival(1, 1_000_010, 600)];
        let train = BurstRecord { spec: TrainSpec::burst(5), arrivals, ..BurstRecord::default() };
        assert_eq!(train.lost_at(), [2, 4]);
        assert_eq!(train.reordered(), 1);
        assert_eq!(train.delays(), [(0, 0), (3, 30), (1, 90)]);
        assert_eq!(BurstRecord::default().delays(), []);
    }
}
