//! What the viewers of one stream report, added up; how often an address may report.

use super::part::Part;
use super::steps::{Percentiles, Step, Steps, Tally};
use super::viewer_report::{BUCKETS, ViewerReport};
use glassline_media::Time;
use glassline_media::stamps::{STAGE_EDGES_MICROS, StageCount};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::time::Duration;

/// Reports of a stream that are taken in one second: each of 2,000 viewers reports once in ten.
pub const REPORTS_A_SECOND: u32 = 200;
/// Those of one address, behind which may be a household.
pub const REPORTS_A_SECOND_OF_ADDRESS: u32 = 10;

/// Counts of a step's reports.
#[derive(Clone, Debug, Default)]
pub struct Reported {
    reports: u32,
    parts: [[u64; BUCKETS]; Part::ALL.len()],
}

impl Tally for Reported {
    fn parts(&self) -> Vec<(Part, Percentiles)> {
        let estimate = |(part, counts)| Some((part, percentiles_of_counts(counts)?));
        Part::ALL.into_iter().zip(&self.parts).filter_map(estimate).collect()
    }

    fn reports(&self) -> u32 {
        self.reports
    }
}

/// Percentiles of what was only counted, as if each bucket's pictures lay evenly in it; those of the last one lie at its
/// edge.
fn percentiles_of_counts(counts: &[u64; BUCKETS]) -> Option<Percentiles> {
    let all = counts.iter().fold(0, |sum: u64, count| sum.saturating_add(*count));
    if all == 0 {
        return None;
    }
    let estimate = |hundredths: u64| {
        let rank = all as f64 * hundredths as f64 / 100.0;
        let mut below = 0.0;
        for (bucket, count) in counts.iter().enumerate() {
            let count = *count as f64;
            if count > 0.0 && below + count >= rank {
                let (low, high) = bucket_ends(bucket);
                return whole(low + (high - low) * (rank - below) / count);
            }
            below += count;
        }
        whole(bucket_ends(BUCKETS - 1).1)
    };
    Some(Percentiles { p50_us: estimate(50), p99_us: estimate(99) })
}

/// Whole microseconds; what does not fit is the largest number.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a cast of a floating-point number saturates"
)]
fn whole(micros: f64) -> u32 {
    micros as u32
}

/// Where a bucket begins and ends, in microseconds; the last one is taken for its lower edge.
fn bucket_ends(bucket: usize) -> (f64, f64) {
    const LAST: usize = STAGE_EDGES_MICROS.len() - 1;
    let edge = |index: usize| STAGE_EDGES_MICROS[index.min(LAST)] as f64;
    (bucket.checked_sub(1).map_or(0.0, edge), edge(bucket))
}

/// The reports of the running second, by address.
#[derive(Clone, Debug, Default)]
struct Second {
    number: u64,
    reports: u32,
    addresses: BTreeMap<IpAddr, u32>,
}

/// What viewers of one stream report. Nothing of it identifies them: their addresses are known for a second, to keep one
/// from reporting for all.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct ViewerFigures {
    #[serde(deserialize_with = "counts_by_place")]
    counts: [StageCount; Part::ALL.len()],
    steps: Steps<Reported>,
    #[serde(skip)]
    second: Second,
}

/// An earlier version has fewer parts, a later one more.
fn counts_by_place<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<[StageCount; Part::ALL.len()], D::Error> {
    let mut counts = [StageCount::default(); Part::ALL.len()];
    let told = Vec::<StageCount>::deserialize(deserializer)?;
    counts.iter_mut().zip(told).for_each(|(count, told)| *count = told);
    Ok(counts)
}

impl ViewerFigures {
    /// Whether a report from `address` is taken at `now`: at most [`REPORTS_A_SECOND`] are, and
    /// [`REPORTS_A_SECOND_OF_ADDRESS`] of one address. It counts as one then.
    pub fn admit(&mut self, address: IpAddr, now: Time) -> bool {
        self.forget(now);
        if self.second.reports >= REPORTS_A_SECOND {
            return false;
        }
        let of_address = self.second.addresses.entry(address.to_canonical()).or_default();
        if *of_address >= REPORTS_A_SECOND_OF_ADDRESS {
            return false;
        }
        *of_address = of_address.saturating_add(1);
        self.second.reports = self.second.reports.saturating_add(1);
        true
    }

    /// Forgets the addresses of a second that is over.
    pub fn forget(&mut self, now: Time) {
        let number = now.as_nanos() / 1_000_000_000;
        if self.second.number != number {
            self.second = Second { number, ..Second::default() };
        }
    }

    /// Adds a report.
    pub fn add(&mut self, report: &ViewerReport, now: Time) {
        let running = self.steps.running(now);
        running.reports = running.reports.saturating_add(1);
        for (part, counts) in &report.0 {
            let ever = &mut self.counts[*part as usize];
            for (bucket, count) in counts.iter().enumerate() {
                let running = &mut running.parts[*part as usize][bucket];
                *running = running.saturating_add(*count);
                ever.buckets[bucket] = ever.buckets[bucket].saturating_add(*count);
                let (low, high) = bucket_ends(bucket);
                let each = Duration::from_micros(whole((low + high) / 2.0).into());
                let times = u32::try_from(*count).unwrap_or(u32::MAX);
                ever.sum = ever.sum.saturating_add(each.saturating_mul(times));
            }
        }
    }

    /// How long parts took, of all reports. Sums are as if each picture lay in the middle of its bucket.
    pub fn parts(&self) -> impl Iterator<Item = (Part, &StageCount)> {
        let known = |(_, count): &(Part, &StageCount)| count.buckets.iter().any(|count| *count > 0);
        Part::ALL.into_iter().zip(&self.counts).filter(known)
    }

    /// The last ten minutes.
    pub fn steps(&self, now: Time) -> Vec<Step> {
        self.steps.all(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn counts(bucket: usize, count: u64) -> String {
        let counts: Vec<_> = (0..BUCKETS).map(|at| if at == bucket { count } else { 0 }).collect();
        format!("{counts:?}")
    }

    #[test]
    fn reports_are_added_up() {
        let good =
            format!("{{\"stages\": {{\"network\": {}, \"total\": {}}}}}", counts(3, 500), counts(8, 500));
        let good = ViewerReport::parse(good.as_bytes()).unwrap();
        let mut figures = ViewerFigures::default();
        figures.add(&good, Time::from_millis(5));
        figures.add(&good, Time::from_millis(6));
        let steps = figures.steps(Time::from_millis(9));
        assert_eq!((steps.len(), steps[0].reports), (1, 2));
        // Half of the way through the bucket from 500 µs to 1 ms, and of that from 20 to 50 ms.
        let expected = [(Part::Network, 750, 995), (Part::Total, 35_000, 49_700)];
        let told: Vec<_> = steps[0].parts.iter().map(|(part, all)| (*part, all.p50_us, all.p99_us)).collect();
        assert_eq!(told, expected);
        let (part, count) = figures.parts().next().unwrap();
        assert_eq!(
            (part, count.buckets[3], count.sum),
            (Part::Network, 1000, Duration::from_micros(750_000))
        );
    }

    #[test]
    fn neither_an_address_nor_all_report_too_often() {
        let mut figures = ViewerFigures::default();
        let address = |number: u32| IpAddr::from(number.to_be_bytes());
        let mut taken = |number, at| figures.admit(address(number), Time::from_millis(at));
        assert_eq!((0..100).filter(|_| taken(1, 500)).count(), 10);
        assert_eq!((0..1000).filter(|number| taken(100 + number, 600)).count(), 190);
        assert!(!taken(7, 999) && taken(7, 1000), "a second later");
        assert_eq!(figures.second.addresses.len(), 1, "and the others are forgotten");
        figures.forget(Time::from_millis(2000));
        assert!(figures.second.addresses.is_empty());
    }

    proptest! {
        #[test]
        fn percentiles_of_counts_lie_within_their_buckets(counts: [u16; BUCKETS]) {
            let counts = counts.map(u64::from);
            if let Some(Percentiles { p50_us, p99_us }) = percentiles_of_counts(&counts) {
                prop_assert!(p50_us <= p99_us && p99_us <= 500_000);
                let bucket = StageCount::bucket(Duration::from_micros(p50_us.into())).min(BUCKETS - 2);
                let near = bucket.saturating_sub(1)..=(bucket + 1).min(BUCKETS - 1);
                prop_assert!(counts[near].iter().any(|count| *count > 0), "{p50_us} of {counts:?}");
            }
        }
    }
}
