//! How much of a stream may leave for a viewer at once, by what the kernel tells of its connection.
//!
//! What leaves at once arrives at the first slow line of the path as one burst, and waits there. A burst of a few packets
//! does no harm; a key frame overflows a short queue. So a path of which nothing is known gets five packets at a time,
//! spread over time. Where their round trips are as short as those of the empty path, no queue has grown, and as much
//! again may leave with them; after [`STEPS`] of such steps the path is proven, and gets what there is at once. A burst that
//! waits shows as a longer round trip before it is lost: the path stays at what it has shown. Where something was sent
//! again, the path begins anew, and is not tried again for a while.

use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What a path gets at once of which nothing is known, in bytes: five packets of an Ethernet.
pub const LEAST_BURST_BYTES: u64 = 5 * 1448;
/// Times that a burst is doubled until the path is proven: 7, 14, 29 and 58 kB must have arrived without a queue.
pub const STEPS: u8 = 4;
/// A round trip that is longer than the shortest by less than this shows no queue: at 100 Mbit/s six packets take that
/// time. A path that varies by more of itself shows nothing, and stays paced.
const FLAT: Duration = Duration::from_micros(500);
/// Round trips after a burst before its acknowledgements count: they have all come by then.
const ROUND_TRIPS: u32 = 2;
/// Not sooner in any case: a timer's step.
const LEAST_WAIT: Duration = Duration::from_millis(1);
/// Samples in a row without a step; from then on they are far between.
const EAGER_SAMPLES: u8 = 32;
const SELDOM: Duration = Duration::from_secs(1);
/// A loss is believed when nothing has told for so long that there was none.
const CONFIRMED: Duration = Duration::from_millis(200);
/// How long a path is not tried on which something was lost, for the first time; each time doubles it.
const DISTRUST: Duration = Duration::from_secs(30);
const LONGEST_DISTRUST: Duration = Duration::from_secs(960);

/// Bursts of many viewers that are due within this time are sent together.
const TICK: Duration = Duration::from_micros(250);
/// What leaves late is made up for as far back as this. A sender that has been away for longer is short of time, which
/// bursts would not give it back.
const LONGEST_LATENESS: Duration = Duration::from_millis(20);

/// A sample of what the kernel tells of a connection (`TCP_INFO`, tcp(7)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TcpSample {
    /// The smoothed round trip (RFC 6298).
    pub rtt: Duration,
    /// Its mean deviation.
    pub deviation: Duration,
    /// The shortest round trip so far; `None` where the kernel does not tell it: then nothing is ever proven.
    pub min_rtt: Option<Duration>,
    /// Segments that were sent again since the connection stands, but for those that had arrived before (RFC 2883, RFC 8985):
    /// a sender that hears nothing for a moment asks by sending again.
    pub retransmitted: u32,
}

impl TcpSample {
    /// Whether no burst has waited in a queue.
    fn is_flat(&self) -> bool {
        self.min_rtt.is_some_and(|least| {
            // A burst's packets wait longer one by one: what the mean hides the deviation shows.
            self.rtt + self.deviation * 2 <= least + FLAT
        })
    }
}

/// Limits the bursts of one connection by what is known of its path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BurstLimiter {
    /// Steps taken so far.
    step: u8,
    /// Samples since the last one.
    looks: u8,
    /// Times that something was lost.
    losses: u8,
    retransmitted: u32,
    /// Since when more was sent again than is known of, if it was: that it had arrived may be told later.
    suspected_at: Option<Time>,
    /// When the path may be sampled next.
    not_before: Time,
    /// When a burst left that was longer than those before and has not been judged.
    burst_at: Option<Time>,
}

impl BurstLimiter {
    /// A path of which nothing is known but that `retransmitted` segments were sent again already.
    pub fn new(retransmitted: u32) -> BurstLimiter {
        BurstLimiter {
            step: 0,
            looks: 0,
            losses: 0,
            retransmitted,
            suspected_at: None,
            not_before: Time::ZERO,
            burst_at: None,
        }
    }

    /// Whether it takes what there is at once.
    pub fn is_proven(&self) -> bool {
        self.step >= STEPS
    }

    /// Bytes that may leave at once; `None` where there is no bound.
    pub fn burst_bytes(&self) -> Option<u64> {
        (!self.is_proven()).then(|| LEAST_BURST_BYTES << self.step)
    }

    /// How long a burst keeps the next one waiting on a connection that is paced at `pace_bps` bits a second. A path that
    /// has shown that it takes longer bursts gets them as often.
    pub fn interval(&self, pace_bps: u64) -> Duration {
        Duration::from_nanos(LEAST_BURST_BYTES * 8 * 1_000_000_000 / pace_bps.max(1))
    }

    /// `bytes` have left at once.
    pub fn sent(&mut self, bytes: u64, now: Time) {
        // More than the last step has shown; few streams have pictures of just this size.
        if self.burst_bytes().is_some_and(|burst| bytes * 2 > burst) {
            self.burst_at.get_or_insert(now);
        }
    }

    /// Whether a sample would tell something now. Cheap; a sample is a system call.
    pub fn wants_sample(&self, now: Time) -> bool {
        self.burst_at.is_some_and(|at| now >= at + LEAST_WAIT) && now >= self.not_before
    }

    /// Takes a sample. To be called where one is wanted, and now and then for a path that is proven, too. Returns whether
    /// something was lost that was not known of.
    pub fn handle_sample(&mut self, sample: TcpSample, now: Time) -> bool {
        if sample.retransmitted > self.retransmitted {
            let since = *self.suspected_at.get_or_insert(now);
            if now.since(since) < CONFIRMED.max(sample.rtt * ROUND_TRIPS) {
                return false;
            }
            let distrust = DISTRUST * 2u32.pow(u32::from(self.losses.min(5)));
            *self = BurstLimiter {
                losses: self.losses.saturating_add(1),
                not_before: now + distrust.min(LONGEST_DISTRUST),
                ..BurstLimiter::new(sample.retransmitted)
            };
            return true;
        }
        (self.retransmitted, self.suspected_at) = (sample.retransmitted, None);
        let Some(at) = self.burst_at.filter(|_| !self.is_proven() && now >= self.not_before) else {
            return false;
        };
        let answered = at + sample.rtt * ROUND_TRIPS;
        if now < answered {
            self.not_before = answered;
            return false;
        }
        self.burst_at = None;
        if sample.is_flat() {
            (self.step, self.looks) = (self.step + 1, 0);
        } else {
            self.looks = self.looks.saturating_add(1);
            if self.looks >= EAGER_SAMPLES {
                self.not_before = now + SELDOM;
            }
        }
        false
    }
}

/// When the bursts of one connection may leave.
///
/// A sender has others to serve and comes late. Bursts that were due meanwhile leave together then, or a fast stream would
/// get less than its rate for as long as its path is paced.
#[derive(Clone, Copy, Debug, Default)]
pub struct BurstSchedule {
    next: Time,
    /// Whether there was more to send when the last burst had left: only then is a late burst late by the sender's fault.
    is_waiting: bool,
}

impl BurstSchedule {
    /// When the next burst may leave, on a grid that all connections share.
    pub fn next(&self) -> Time {
        Time::from_nanos(self.next.as_nanos().next_multiple_of(TICK.as_nanos() as u64))
    }

    /// How late a burst is at `now` that could have left before.
    fn lateness(&self, now: Time) -> Duration {
        if self.is_waiting { now.since(self.next).min(LONGEST_LATENESS) } else { Duration::ZERO }
    }

    /// How many bursts may leave at `now`, one each `interval`; not to be asked before [`BurstSchedule::next`].
    pub fn bursts(&self, interval: Duration, now: Time) -> u64 {
        1 + (self.lateness(now).as_nanos() / interval.as_nanos().max(1)) as u64
    }

    /// So many bursts have left, or a part of one, which takes a part of its time.
    pub fn sent(&mut self, bursts: f64, interval: Duration, now: Time) {
        let due = Time::from_nanos(now.as_nanos() - self.lateness(now).as_nanos() as u64);
        self.next = now.max(due + interval.mul_f64(bursts));
        self.is_waiting = false;
    }

    /// There is more to send, and only the next burst's time is waited for.
    pub fn wait(&mut self) {
        self.is_waiting = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn micros(micros: u64) -> Duration {
        Duration::from_micros(micros)
    }

    fn sample(rtt: u64, deviation: u64, retransmitted: u32) -> TcpSample {
        TcpSample {
            rtt: micros(rtt),
            deviation: micros(deviation),
            min_rtt: Some(micros(100)),
            retransmitted,
        }
    }

    #[test]
    fn an_empty_path_is_proven_burst_by_burst() {
        let (mut path, mut now, mut bursts) = (BurstLimiter::new(3), Time::ZERO, Vec::new());
        while let Some(burst) = path.burst_bytes() {
            bursts.push(burst);
            path.sent(burst / 2, now);
            assert!(!path.wants_sample(now + micros(5000)), "a burst like the last one's shows nothing");
            path.sent(burst / 2 + 1, now);
            assert!(!path.wants_sample(now));
            now += micros(3900);
            assert!(path.wants_sample(now));
            assert!(!path.handle_sample(sample(150, 40, 3), now));
        }
        assert_eq!(bursts, [7240, 14_480, 28_960, 57_920]);
        assert!(path.is_proven());
        // It is trusted until something is lost, and then for long no more.
        assert!(!path.handle_sample(sample(90_000, 40_000, 3), now) && path.is_proven());
        for (losses, distrust) in [(4, 30), (5, 60), (6, 120)] {
            assert!(!path.handle_sample(sample(150, 40, losses), now));
            now += Duration::from_millis(200);
            assert!(path.handle_sample(sample(150, 40, losses), now));
            assert_eq!(path.burst_bytes(), Some(LEAST_BURST_BYTES));
            path.sent(LEAST_BURST_BYTES, now);
            assert!(!path.wants_sample(now + Duration::from_secs(distrust - 1)));
            now += Duration::from_secs(distrust);
            assert!(path.wants_sample(now));
            path.handle_sample(sample(150, 40, losses), now);
            assert_eq!(path.burst_bytes(), Some(2 * LEAST_BURST_BYTES));
        }
    }

    /// Sends at a burst each 400 µs what it is let, and comes back at each of these moments. Returns how many bursts left at each.
    fn bursts_at(moments: &[u64]) -> Vec<u64> {
        let interval = micros(400);
        let mut schedule = BurstSchedule::default();
        let sent = moments.iter().map(|at| {
            let now = Time::from_millis(1000) + micros(*at);
            if now < schedule.next() {
                return 0;
            }
            let bursts = schedule.bursts(interval, now);
            schedule.sent(bursts as f64, interval, now);
            schedule.wait();
            bursts
        });
        sent.collect()
    }

    #[test]
    fn bursts_keep_their_rate_however_late_their_sender_comes() {
        assert_eq!(bursts_at(&[0, 250, 500, 1000, 1250, 1500, 1750]), [1, 0, 1, 1, 1, 0, 1]);
        // A round of others takes 5 ms; a second is not made up for.
        assert_eq!(bursts_at(&[0, 5000, 5250]), [1, 12, 1]);
        assert_eq!(bursts_at(&[0, 1_000_000, 1_000_250]), [1, 51, 0]);
        let each_millisecond: Vec<u64> = (0..=100).map(|at| at * 1000).collect();
        assert_eq!(bursts_at(&each_millisecond).iter().sum::<u64>(), 251);
    }

    #[test]
    fn who_had_nothing_to_send_was_not_late() {
        let (mut schedule, interval) = (BurstSchedule::default(), micros(400));
        let now = Time::from_millis(1000);
        assert_eq!(schedule.bursts(interval, now), 1);
        schedule.sent(0.5, interval, now);
        assert_eq!(schedule.next(), now + micros(250));
        assert_eq!(schedule.bursts(interval, now + micros(9000)), 1);
    }

    #[test]
    fn what_had_arrived_before_it_was_sent_again_was_not_lost() {
        let mut path = BurstLimiter::new(0);
        path.step = STEPS;
        assert!(!path.handle_sample(sample(150, 40, 1), Time::from_millis(0)));
        assert!(!path.handle_sample(sample(150, 40, 0), Time::from_millis(100)));
        assert!(!path.handle_sample(sample(150, 40, 1), Time::from_millis(300)) && path.is_proven());
        assert!(path.handle_sample(sample(150, 40, 1), Time::from_millis(500)) && !path.is_proven());
    }

    #[test]
    fn acknowledgements_that_may_not_have_come_prove_nothing() {
        let mut path = BurstLimiter::new(0);
        path.sent(LEAST_BURST_BYTES, Time::ZERO);
        let far = TcpSample { min_rtt: Some(micros(40_000)), ..sample(40_000, 100, 0) };
        path.handle_sample(far, Time::from_millis(79));
        assert_eq!(path.burst_bytes(), Some(LEAST_BURST_BYTES));
        path.handle_sample(far, Time::from_millis(80));
        assert_eq!(path.burst_bytes(), Some(2 * LEAST_BURST_BYTES));
        let mut silent = BurstLimiter::new(0);
        silent.sent(LEAST_BURST_BYTES, Time::ZERO);
        silent.handle_sample(TcpSample { min_rtt: None, ..far }, Time::from_millis(80));
        assert_eq!(silent.burst_bytes(), Some(LEAST_BURST_BYTES));
    }

    #[test]
    fn a_path_that_stays_long_is_asked_seldom() {
        let (mut path, mut now, mut looks) = (BurstLimiter::new(0), Time::ZERO, 0);
        while now < Time::from_millis(20_000) {
            path.sent(LEAST_BURST_BYTES, now);
            if path.wants_sample(now) {
                looks += 1;
                path.handle_sample(sample(5000, 0, 0), now);
            }
            now += micros(4000);
        }
        assert!(looks < 100, "{looks}");
    }

    /// A line of `bps` behind a queue of `queue` bytes, and the sender's estimate of the round trip (RFC 6298), as a
    /// burst's packets are acknowledged one by one. Times in seconds.
    struct Line {
        bps: f64,
        queue: u64,
        base: f64,
        free_at: f64,
        srtt: f64,
        deviation: f64,
        lost: u32,
    }

    impl Line {
        fn burst(&mut self, bytes: u64, now: f64) {
            for _ in 0..bytes.div_ceil(1448) {
                let waits = (self.free_at - now).max(0.0);
                if waits * self.bps / 8.0 > self.queue as f64 {
                    self.lost += 1;
                    continue;
                }
                self.free_at = self.free_at.max(now) + 1500.0 * 8.0 / self.bps;
                let (rtt, error) =
                    (self.free_at - now + self.base, self.free_at - now + self.base - self.srtt);
                self.deviation += (error.abs() - self.deviation) / 4.0;
                self.srtt += (rtt - self.srtt) / 8.0;
            }
        }
    }

    proptest! {
        /// Who watches over a line that carries the pace, with a queue of 30 kB, or 4 ms where the line is fast, loses nothing:
        /// neither of what it begins with nor of any key frame.
        #[test]
        fn a_short_queue_never_overflows(
            megabits in 16.0f64..4000.0, base_us in 50u64..60_000, pace in 12_000_000u64..15_000_000,
        ) {
            let base = base_us as f64 / 1e6;
            let mut line = Line {
                bps: megabits * 1e6, queue: (megabits * 1e6 / 8.0 * 0.004).max(30_000.0) as u64, base, free_at: 0.0, srtt: base, deviation: base / 2.0, lost: 0,
            };
            let (mut path, mut waiting, mut now) = (BurstLimiter::new(0), 400_000u64, Time::ZERO);
            let mut next_picture = Time::ZERO;
            for picture in 0..1000u64 {
                while now < next_picture {
                    if path.wants_sample(now) {
                        let duration = Duration::from_secs_f64;
                        let min_rtt = Some(micros(base_us));
                        path.handle_sample(
                            TcpSample { rtt: duration(line.srtt), deviation: duration(line.deviation), min_rtt, retransmitted: line.lost },
                            now,
                        );
                    }
                    let burst = waiting.min(path.burst_bytes().unwrap_or(u64::MAX));
                    if burst > 0 {
                        line.burst(burst, now.as_nanos() as f64 / 1e9);
                        path.sent(burst, now);
                        waiting -= burst;
                    }
                    now += path.interval(pace);
                }
                waiting += if picture % 50 == 49 { 48_000 } else { 12_000 };
                next_picture += Duration::from_millis(20);
            }
            prop_assert_eq!(line.lost, 0, "proven: {}", path.is_proven());
            // A path with room to spare is found to have it.
            prop_assert!(megabits < 2000.0 || base_us > 500 || path.is_proven(), "{:?}", path);
        }
    }
}
