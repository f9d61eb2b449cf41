//! What a link did over time: rates, queue and delays, in bounded memory however long it lasts.

use super::event::Event;
use glassline_media::Time;
use std::time::Duration;

/// Figures of one link, gathered from its events ([`super::Link::record_events`]).
///
/// Time is cut into at most [`Figures::MAX_BINS`] bins of equal width, 10 ms at first; when they are full, two become
/// one and the width doubles.
#[derive(Clone, Debug)]
pub struct Figures {
    start: Time,
    end: Time,
    width: Duration,
    bins: Vec<Bin>,
    waiting: Waiting,
    queue_delay: Spread,
    delay: Spread,
}

/// What lies before the bottleneck's end: queued, or in service.
#[derive(Clone, Copy, Debug, Default)]
struct Waiting {
    packets: u32,
    bytes: u64,
    since: Time,
    /// Bytes times nanoseconds, packets times nanoseconds.
    byte_time: u128,
    packet_time: u128,
    most_packets: u32,
    most_bytes: u64,
}

/// A piece of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// What a trace would have let pass. 0 with other services, which have no opportunities.
    pub capacity_bytes: u64,
    /// What came.
    pub arrived_bytes: u64,
    /// What left the bottleneck.
    pub departed_bytes: u64,
    /// Packets that were dropped, for any reason.
    pub dropped_packets: u64,
    /// The most packets that waited or were being served.
    pub most_packets: u32,
    /// The most bytes that waited or were being served.
    pub most_bytes: u64,
    /// Packets that reached the end.
    pub delivered_packets: u64,
    /// Of all of these, from arrival to the link's end.
    pub delay_sum: Duration,
    /// The longest of these.
    pub delay_max: Duration,
}

impl Bin {
    /// Several bins as one: sums, and the largest of what is a maximum.
    pub fn merged(bins: &[Bin]) -> Bin {
        let mut all = Bin::default();
        bins.iter().for_each(|bin| all.merge(bin));
        all
    }

    fn merge(&mut self, other: &Bin) {
        self.capacity_bytes += other.capacity_bytes;
        self.arrived_bytes += other.arrived_bytes;
        self.departed_bytes += other.departed_bytes;
        self.dropped_packets += other.dropped_packets;
        self.most_packets = self.most_packets.max(other.most_packets);
        self.most_bytes = self.most_bytes.max(other.most_bytes);
        self.delivered_packets += other.delivered_packets;
        self.delay_sum += other.delay_sum;
        self.delay_max = self.delay_max.max(other.delay_max);
    }

    /// The mean delay of the packets that reached the end in this bin, if any did.
    pub fn mean_delay(&self) -> Option<Duration> {
        let nanos = self.delay_sum.as_nanos().checked_div(self.delivered_packets.into())?;
        Some(Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX)))
    }
}

impl Figures {
    /// Bins that are kept; at least half as many are in use once it has gone on for a while.
    pub const MAX_BINS: usize = 2048;

    /// Of a link that began at `start`.
    pub fn new(start: Time) -> Figures {
        Figures {
            start,
            end: start,
            width: Duration::from_millis(10),
            bins: Vec::new(),
            waiting: Waiting { since: start, ..Waiting::default() },
            queue_delay: Spread::default(),
            delay: Spread::default(),
        }
    }

    /// Takes an event. They come in the order in which the link tells them: deliveries may be older than the rest.
    pub fn add(&mut self, event: &Event) {
        self.advance(event.at());
        let index = self.bin_of(event.at());
        match *event {
            Event::Opportunity { bytes, .. } => self.bins[index].capacity_bytes += u64::from(bytes),
            Event::Arrival { bytes, .. } => {
                self.waiting.packets += 1;
                self.waiting.bytes += u64::from(bytes);
                self.bins[index].arrived_bytes += u64::from(bytes);
            }
            Event::Departure { bytes, .. } => {
                self.leave(1, bytes.into());
                self.bins[index].departed_bytes += u64::from(bytes);
                self.queue_delay.add(event.delay().unwrap_or_default());
            }
            Event::Drop { packets, bytes, reason, .. } => {
                if reason.is_before_departure() {
                    self.leave(packets, bytes);
                }
                self.bins[index].dropped_packets += u64::from(packets);
            }
            Event::Delivery { .. } => {
                let delay = event.delay().unwrap_or_default();
                let bin = &mut self.bins[index];
                bin.delivered_packets += 1;
                bin.delay_sum += delay;
                bin.delay_max = bin.delay_max.max(delay);
                self.delay.add(delay);
            }
        }
    }

    /// Nothing more happened up to `now`.
    pub fn advance(&mut self, now: Time) {
        if now > self.waiting.since {
            if self.waiting.packets > 0 {
                // What came and went within no time is no peak. The last bin first: it may widen all.
                let last = self.bin_of(Time::from_nanos(now.as_nanos() - 1));
                (self.bin_of(self.waiting.since)..=last).for_each(|index| self.note_peak(index));
            }
            let nanos = now.since(self.waiting.since).as_nanos();
            self.waiting.byte_time += u128::from(self.waiting.bytes) * nanos;
            self.waiting.packet_time += u128::from(self.waiting.packets) * nanos;
            self.waiting.since = now;
        }
        self.end = self.end.max(now);
    }

    fn leave(&mut self, packets: u32, bytes: u64) {
        self.waiting.packets = self.waiting.packets.saturating_sub(packets);
        self.waiting.bytes = self.waiting.bytes.saturating_sub(bytes);
    }

    fn note_peak(&mut self, index: usize) {
        let Waiting { packets, bytes, .. } = self.waiting;
        self.waiting.most_packets = self.waiting.most_packets.max(packets);
        self.waiting.most_bytes = self.waiting.most_bytes.max(bytes);
        let bin = &mut self.bins[index];
        bin.most_packets = bin.most_packets.max(packets);
        bin.most_bytes = bin.most_bytes.max(bytes);
    }

    /// The bin of a time, made where it is new.
    fn bin_of(&mut self, at: Time) -> usize {
        loop {
            let index = at.since(self.start).as_nanos() / self.width.as_nanos();
            if index < Self::MAX_BINS as u128 {
                let index = index as usize;
                if index >= self.bins.len() {
                    self.bins.resize(index + 1, Bin::default());
                }
                return index;
            }
            self.widen();
        }
    }

    fn widen(&mut self) {
        for index in 0..self.bins.len().div_ceil(2) {
            let mut bin = self.bins[2 * index];
            if let Some(second) = self.bins.get(2 * index + 1) {
                bin.merge(second);
            }
            self.bins[index] = bin;
        }
        self.bins.truncate(self.bins.len().div_ceil(2));
        self.width *= 2;
    }

    /// How long it has lasted.
    pub fn duration(&self) -> Duration {
        self.end.since(self.start)
    }

    /// The pieces of time, from the start on, and how long each is.
    pub fn bins(&self) -> (&[Bin], Duration) {
        (&self.bins, self.width)
    }

    /// From arrival to leaving the bottleneck.
    pub fn queue_delay(&self) -> &Spread {
        &self.queue_delay
    }

    /// From arrival to the link's end.
    pub fn delay(&self) -> &Spread {
        &self.delay
    }

    /// Packets and bytes that waited or were being served: means over time.
    pub fn mean_queue(&self) -> (f64, f64) {
        let nanos = self.waiting.since.since(self.start).as_nanos().max(1) as f64;
        (self.waiting.packet_time as f64 / nanos, self.waiting.byte_time as f64 / nanos)
    }

    /// The most packets and the most bytes that waited or were being served.
    pub fn most_queue(&self) -> (u32, u64) {
        (self.waiting.most_packets, self.waiting.most_bytes)
    }
}

/// How durations are distributed, to 3 % of each; 15 kB once it has one.
#[derive(Clone, Debug, Default)]
pub struct Spread {
    counts: Vec<u64>,
    count: u64,
    sum: u128,
    max: Duration,
}

/// Buckets of an octave.
const STEPS: u32 = 32;

impl Spread {
    /// Counts a duration.
    pub fn add(&mut self, value: Duration) {
        let bucket = bucket(u64::try_from(value.as_nanos()).unwrap_or(u64::MAX));
        if self.counts.is_empty() {
            self.counts = vec![0; bucket_of_last() + 1];
        }
        self.counts[bucket] += 1;
        self.count += 1;
        self.sum += value.as_nanos();
        self.max = self.max.max(value);
    }

    /// Counts all that another one has counted, too.
    pub fn merge(&mut self, other: &Spread) {
        if self.counts.is_empty() {
            self.counts.clone_from(&other.counts);
        } else {
            self.counts.iter_mut().zip(&other.counts).for_each(|(all, count)| *all += count);
        }
        self.count += other.count;
        self.sum += other.sum;
        self.max = self.max.max(other.max);
    }

    /// How many were counted.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The longest; zero of none.
    pub fn max(&self) -> Duration {
        self.max
    }

    /// The mean, exact; zero of none.
    pub fn mean(&self) -> Duration {
        let mean = self.sum.checked_div(self.count.into()).unwrap_or(0);
        Duration::from_nanos(u64::try_from(mean).unwrap_or(u64::MAX))
    }

    /// What this share of them (0 to 1) does not exceed, too long by at most 3 %; zero of none.
    pub fn quantile(&self, share: f64) -> Duration {
        let rank = (share.clamp(0.0, 1.0) * self.count as f64).ceil().max(1.0) as u64;
        let mut seen = 0;
        for (bucket, count) in self.counts.iter().enumerate() {
            seen += count;
            if seen >= rank {
                return Duration::from_nanos(top_of(bucket)).min(self.max);
            }
        }
        self.max
    }
}

/// Exact below 2·STEPS, then STEPS buckets for each doubling.
fn bucket(value: u64) -> usize {
    if value < u64::from(STEPS) {
        return value as usize;
    }
    let shift = value.ilog2() - STEPS.ilog2();
    (shift * STEPS) as usize + (value >> shift) as usize
}

fn bucket_of_last() -> usize {
    bucket(u64::MAX)
}

/// The largest value of a bucket.
fn top_of(bucket: usize) -> u64 {
    let steps = STEPS as usize;
    if bucket < 2 * steps {
        return bucket as u64;
    }
    let shift = bucket / steps - 1;
    let first = ((bucket - shift * steps) as u64) << shift;
    first + ((1u64 << shift) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::emulator::DropReason;
    use proptest::prelude::*;

    #[test]
    fn rates_queue_and_delays_add_up() {
        let ms = Time::from_millis;
        let mut figures = Figures::new(ms(1000));
        for event in [
            Event::Arrival { at: ms(1000), bytes: 500 },
            Event::Arrival { at: ms(1005), bytes: 1500 },
            Event::Arrival { at: ms(1005), bytes: 100 },
            Event::Drop { at: ms(1005), packets: 1, bytes: 100, reason: DropReason::Queue },
            Event::Opportunity { at: ms(1010), bytes: 1504 },
            Event::Departure { at: ms(1010), bytes: 500, arrived: ms(1000) },
            Event::Departure { at: ms(1040), bytes: 1500, arrived: ms(1005) },
            Event::Drop { at: ms(1040), packets: 1, bytes: 1500, reason: DropReason::Loss },
            Event::Delivery { at: ms(1050), bytes: 500, arrived: ms(1000) },
        ] {
            figures.add(&event);
        }
        figures.advance(ms(1080));
        let (bins, width) = figures.bins();
        assert_eq!((width, bins.len()), (Duration::from_millis(10), 6));
        let first = Bin {
            arrived_bytes: 2100,
            dropped_packets: 1,
            most_packets: 2,
            most_bytes: 2000,
            ..Bin::default()
        };
        assert_eq!(bins[0], first);
        assert_eq!((bins[1].capacity_bytes, bins[1].departed_bytes), (1504, 500));
        assert_eq!((bins[2].most_bytes, bins[3].most_bytes), (1500, 1500), "it waited meanwhile");
        assert_eq!((bins[4].departed_bytes, bins[4].dropped_packets), (1500, 1));
        assert_eq!(bins[5].mean_delay(), Some(Duration::from_millis(50)));
        assert_eq!(figures.most_queue(), (2, 2000));
        // 500 bytes for 10 ms and 1500 for 35 ms, of 80 ms.
        let (packets, bytes) = figures.mean_queue();
        assert!((bytes - 57_500.0 / 80.0).abs() < 1e-6 && (packets - 45.0 / 80.0).abs() < 1e-6, "{bytes}");
        assert_eq!(figures.queue_delay().max(), Duration::from_millis(35));
        assert_eq!((figures.delay().count(), figures.duration()), (1, Duration::from_millis(80)));
    }

    #[test]
    fn hours_fit_into_the_same_bins() {
        let mut figures = Figures::new(Time::ZERO);
        for second in 0..20_000 {
            figures.add(&Event::Arrival { at: Time::from_millis(second * 1000), bytes: 10 });
            figures.add(&Event::Departure {
                at: Time::from_millis(second * 1000),
                bytes: 10,
                arrived: Time::from_millis(second * 1000),
            });
        }
        let (bins, width) = figures.bins();
        assert!(bins.len() <= Figures::MAX_BINS && bins.len() > Figures::MAX_BINS / 4, "{}", bins.len());
        assert_eq!(bins.iter().map(|bin| bin.arrived_bytes).sum::<u64>(), 200_000);
        assert_eq!(width, Duration::from_millis(10 << 10));
        // As far as time goes.
        figures.add(&Event::Arrival { at: Time::NEVER, bytes: 10 });
        assert!(figures.bins().0.len() <= Figures::MAX_BINS);
    }

    #[test]
    fn what_two_have_counted_is_one_distribution() {
        let of = |values: &[u64]| {
            let mut spread = Spread::default();
            values.iter().for_each(|&value| spread.add(Duration::from_millis(value)));
            spread
        };
        let figures = |spread: &Spread| {
            (spread.count(), spread.mean(), spread.max(), [0.3, 0.5, 0.9].map(|share| spread.quantile(share)))
        };
        let all = of(&[1, 2, 3, 40, 50]);
        for (one, other) in
            [(&[1, 50][..], &[2, 3, 40][..]), (&[], &[1, 2, 3, 40, 50]), (&[1, 2, 3, 40, 50], &[])]
        {
            let mut merged = of(one);
            merged.merge(&of(other));
            assert_eq!(figures(&merged), figures(&all));
        }
    }

    proptest! {
        #[test]
        fn quantiles_are_within_three_percent(mut values in prop::collection::vec(0u64.., 1..200), share in 0.0..1.0f64) {
            let mut spread = Spread::default();
            values.iter().for_each(|&value| spread.add(Duration::from_nanos(value)));
            values.sort_unstable();
            let rank = ((share * values.len() as f64).ceil() as usize).max(1);
            let (found, right) = (spread.quantile(share).as_nanos() as f64, values[rank - 1] as f64);
            prop_assert!(found >= right && found <= right * (1.0 + 1.0 / 31.0), "{found} {right}");
            prop_assert_eq!(spread.quantile(1.0), Duration::from_nanos(values[values.len() - 1]));
        }
    }
}
