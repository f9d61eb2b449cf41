//! Which burst comes next: they grow until one is longer than the queue, then some of three times the queue are sent.

use super::analysis::Findings;
use super::{MAX_BURST, PACKET_BYTES};
use std::time::Duration;

/// Bursts longer than the queue that are sent: the median of their figures is reported.
const CONFIRMATIONS: usize = 5;
/// The shortest of them: their arrivals show the rate.
const SHORTEST_CONFIRMATION: u16 = 64;
/// Where a burst of twice the length would take longer than this to arrive, the next one has four times the length.
const LONG_BURST: Duration = Duration::from_millis(500);
/// What a burst takes beside its own time: the round trip comes on top.
const OVERHEAD: Duration = Duration::from_millis(120);

/// The bursts of one direction.
#[derive(Clone, Debug)]
pub(super) struct BurstPlan {
    /// The longest burst that is allowed.
    max: u16,
    largest: u16,
}

/// What to do next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum NextBurst {
    /// A burst of so many packets.
    Send(u16),
    /// Nothing: enough is known.
    Enough,
    /// Nothing, though no burst was longer than the queue, for this reason.
    Stop(String),
}

impl BurstPlan {
    /// For bursts of up to `max` packets.
    pub(super) fn new(max: u16) -> BurstPlan {
        BurstPlan { max: max.min(MAX_BURST), largest: 0 }
    }

    /// Forgets the bursts, for the other direction.
    pub(super) fn begin_anew(&mut self) {
        self.largest = 0;
    }

    /// The next burst.
    pub(super) fn next(
        &mut self,
        findings: &Findings,
        time_left: Duration,
        round_trip: Duration,
    ) -> NextBurst {
        let takes = |packets: f64| {
            let own = findings.packet_seconds.unwrap_or(0.0) * packets;
            Duration::from_secs_f64(own.clamp(0.0, 3600.0)) + OVERHEAD + round_trip
        };
        if let Some(queue) = findings.depth_packets {
            let size = (3.0 * queue).min(f64::from(self.max)) as u16;
            let size = size.max(SHORTEST_CONFIRMATION.min(self.max));
            let fits = takes(queue) <= time_left;
            return if findings.overflows < CONFIRMATIONS && fits {
                NextBurst::Send(size)
            } else {
                NextBurst::Enough
            };
        }
        if self.largest >= self.max {
            return NextBurst::Stop(if self.max < MAX_BURST {
                format!("the bound on the rate allows no longer burst than {} packets", self.max)
            } else {
                format!("no longer burst than {MAX_BURST} packets is sent")
            });
        }
        let factor =
            if takes(2.0 * f64::from(self.largest)) > LONG_BURST + OVERHEAD + round_trip { 4 } else { 2 };
        let size = (self.largest.saturating_mul(factor)).clamp(1, self.max);
        // More than this never arrives of a burst that is longer than the queue; how much is not known beforehand.
        if takes(f64::from(size)) > time_left {
            return NextBurst::Stop("the time was over: a longer --duration allows longer bursts".to_owned());
        }
        self.largest = size;
        NextBurst::Send(size)
    }
}

/// The most bytes of IP packets that a measurement sends in each direction, headers of IPv6 counted.
pub fn volume_bound(max_bps: u64, duration: Duration) -> u64 {
    let growth: u64 = (0..=10).map(|step| 1u64 << step).sum::<u64>() + u64::from(MAX_BURST);
    let confirmed = CONFIRMATIONS as u64 * u64::from(MAX_BURST);
    // Idle packets, sizes, and messages.
    let others = 600_000;
    let planned = (growth + confirmed) * (u64::from(PACKET_BYTES) + 48) + others;
    planned.min((max_bps as f64 / 8.0 * (duration.as_secs_f64() + 1.0)) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);
    const TRIP: Duration = Duration::from_millis(40);

    fn sizes(plan: &mut BurstPlan, findings: &Findings) -> Vec<u16> {
        std::iter::from_fn(|| match plan.next(findings, LONG, TRIP) {
            NextBurst::Send(size) => Some(size),
            _ => None,
        })
        .collect()
    }

    #[test]
    fn bursts_grow_twofold_and_on_slow_lines_fourfold() {
        let fast = Findings { packet_seconds: Some(0.0001), ..Findings::default() };
        assert_eq!(
            sizes(&mut BurstPlan::new(MAX_BURST), &fast),
            [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 1500]
        );
        let slow = Findings { packet_seconds: Some(0.0049), ..Findings::default() };
        assert_eq!(sizes(&mut BurstPlan::new(MAX_BURST), &slow), [1, 2, 4, 8, 16, 32, 64, 256, 1024, 1500]);
        assert_eq!(sizes(&mut BurstPlan::new(100), &fast).last(), Some(&100));
    }

    #[test]
    fn a_queue_that_is_found_is_measured_with_three_times_its_length() {
        let mut plan = BurstPlan::new(MAX_BURST);
        let found = |depth, overflows| Findings {
            packet_seconds: Some(0.001),
            depth_packets: Some(depth),
            overflows,
            ..Findings::default()
        };
        assert_eq!(plan.next(&found(100.0, 1), LONG, TRIP), NextBurst::Send(300));
        assert_eq!(plan.next(&found(5.0, 4), LONG, TRIP), NextBurst::Send(64));
        assert_eq!(plan.next(&found(900.0, 4), LONG, TRIP), NextBurst::Send(1500));
        assert_eq!(plan.next(&found(100.0, 5), LONG, TRIP), NextBurst::Enough);
        assert_eq!(plan.next(&found(100.0, 1), TRIP, TRIP), NextBurst::Enough, "no time is left");
    }

    #[test]
    fn what_ends_the_growth_is_told() {
        let fast = Findings { packet_seconds: Some(0.0001), ..Findings::default() };
        let reason = |max, time| {
            let mut plan = BurstPlan::new(max);
            loop {
                match plan.next(&fast, time, TRIP) {
                    NextBurst::Send(_) => {}
                    NextBurst::Stop(reason) => return reason,
                    NextBurst::Enough => panic!("no queue was found"),
                }
            }
        };
        assert!(reason(100, LONG).contains("bound on the rate") && reason(1500, LONG).contains("1500"));
        assert!(reason(1500, Duration::from_millis(170)).contains("--duration"));
    }

    #[test]
    fn the_volume_is_bounded_by_the_plan_and_by_the_rate() {
        let ten = Duration::from_secs(18);
        assert!(volume_bound(1_000_000_000, ten) < 15_000_000);
        assert_eq!(volume_bound(1_000_000, ten), 2_375_000);
    }
}
