//! The search for the largest packet that passes whole: trains of packets of several sizes, each narrowing the range.
//! (RFC 8899 has such probes; here nothing depends on the answer, so that all sizes of a round are sent at once.)

use super::burst::BurstRecord;
use super::{MAX_PACKET_BYTES, PACKET_BYTES, TrainSpec};

/// From one packet to the next: no queue grows on lines of 2.4 Mbit/s and more.
const GAP_US: u32 = 5_000;
/// Sizes of a round, each sent twice.
const SIZES: u16 = 9;
/// Packets that show that the smallest size which did not pass was not lost by chance.
const CONFIRMATIONS: u16 = 6;
/// Eight rounds find one byte among all sizes; some more where packets are lost by chance.
const MAX_ROUNDS: u8 = 14;
/// The usual MTU.
const ETHERNET: u64 = 1500;

/// A search in one direction.
#[derive(Clone, Debug)]
pub(super) struct MtuSearch {
    header_bytes: u64,
    /// The largest payload that has passed; 0: none yet.
    passed: u16,
    /// The smallest payload that has not.
    failed: u16,
    is_confirmed: bool,
    rounds: u8,
}

impl MtuSearch {
    pub(super) fn new(header_bytes: u64) -> MtuSearch {
        let failed = MAX_PACKET_BYTES + 1;
        MtuSearch { header_bytes, passed: 0, failed, is_confirmed: false, rounds: 0 }
    }

    /// The next train; `None` where nothing is left to find.
    pub(super) fn next(&mut self) -> Option<TrainSpec> {
        if self.rounds >= MAX_ROUNDS || self.rounds > 0 && self.passed == 0 {
            return None;
        }
        self.rounds += 1;
        let spec = |payload_bytes, growth_bytes, packets| TrainSpec {
            packets,
            payload_bytes,
            growth_bytes,
            gap_us: GAP_US,
        };
        if self.passed == 0 {
            let widest = u16::try_from(ETHERNET - self.header_bytes).unwrap_or(u16::MAX) - PACKET_BYTES;
            return Some(spec(PACKET_BYTES, widest / (SIZES - 1), 2 * SIZES));
        }
        let between = self.failed - self.passed - 1;
        if between > 0 {
            let sizes = between.min(SIZES);
            let growth = between / sizes;
            return Some(spec(self.passed + growth, growth, 2 * sizes));
        }
        (!self.is_confirmed && self.failed <= MAX_PACKET_BYTES).then(|| spec(self.failed, 0, CONFIRMATIONS))
    }

    /// What came of the train.
    pub(super) fn take(&mut self, train: &BurstRecord) {
        let spec = &train.spec;
        let is_confirmation = spec.growth_bytes == 0 && spec.payload_bytes == self.failed;
        let arrived = train.arrivals.iter().map(|arrival| spec.payload_at(arrival.index)).max().unwrap_or(0);
        if arrived >= self.failed {
            // It was lost by chance before.
            self.failed = MAX_PACKET_BYTES + 1;
        } else if is_confirmation {
            self.is_confirmed = true;
        }
        self.passed = self.passed.max(arrived);
        let larger = (0..spec.packets).map(|index| spec.payload_at(index)).filter(|size| *size > self.passed);
        self.failed = larger.min().unwrap_or(self.failed).min(self.failed);
    }

    /// The largest packet of IP that passes, bytes; or why it is not known.
    pub(super) fn result(&self) -> Result<u64, String> {
        let whole = |payload: u16| u64::from(payload) + self.header_bytes;
        if self.passed == 0 {
            return Err(match self.rounds {
                0 => "the time was over before it was looked for".to_owned(),
                _ => format!("no packet of {} bytes or more has passed", whole(PACKET_BYTES)),
            });
        }
        if self.failed - self.passed > 1 {
            return Err(format!(
                "it is at least {} bytes and less than {}; the time was over before it was found exactly",
                whole(self.passed),
                whole(self.failed)
            ));
        }
        Ok(whole(self.passed))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::path::{Arrival, Sent};

    /// Searches on a path that takes packets up to `mtu`; `lose` says which of all packets are lost by chance.
    fn search(header_bytes: u64, mtu: u64, mut lose: impl FnMut(u32) -> bool) -> (Result<u64, String>, u8) {
        let mut search = MtuSearch::new(header_bytes);
        let mut count = 0;
        while let Some(spec) = search.next() {
            assert!(spec.is_in_range(), "{spec:?}");
            let passes = |index: &u16| {
                count += 1;
                u64::from(spec.payload_at(*index)) + header_bytes <= mtu && !lose(count)
            };
            let arrivals = (0..spec.packets).filter(passes);
            let arrivals = arrivals.map(|index| Arrival { index, sent_ns: 0, received_ns: 0 }).collect();
            search.take(&BurstRecord { spec, sent: Sent::default(), arrivals, duplicates: 0 });
        }
        (search.result(), search.rounds)
    }

    #[test]
    fn every_mtu_is_found_to_the_byte() {
        for header in [28, 48] {
            for mtu in (1248..1520).chain([1600, 2000, 4352, 8999, 9000]) {
                let (found, rounds) = search(header, mtu, |_| false);
                assert_eq!(found, Ok(mtu.min(u64::from(MAX_PACKET_BYTES) + header)));
                assert!(rounds <= 8, "{mtu}: {rounds}");
            }
        }
    }

    #[test]
    fn packets_lost_by_chance_do_not_make_it_smaller() {
        // One of ten, in an order that has no period of the trains.
        for seed in 0..50 {
            let mut random = glassline_transport::emulator::Random::new(seed);
            let (found, _) = search(28, 1420, |_| random.next_u64().is_multiple_of(10));
            assert_eq!(found, Ok(1420), "seed {seed}");
        }
    }

    #[test]
    fn what_is_not_known_has_its_reason() {
        assert!(search(28, 1000, |_| false).0.unwrap_err().contains("1228"));
        assert!(MtuSearch::new(28).result().unwrap_err().contains("time"));
    }
}
