//! How a stream was: a point for each second of the last ten minutes, and for each ten seconds of the last six hours.

use glassline_media::Time;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// A stream's running totals, and how its viewers are, at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Moment {
    /// Bytes from publishers, ever.
    pub bytes_in: u64,
    /// Bytes to viewers, ever.
    pub bytes_out: u64,
    /// Times that a viewer was moved forward, ever.
    pub moved_forward: u64,
    /// TCP segments that were sent again, ever.
    pub retransmitted: u64,
    /// Viewers now.
    pub viewers: u32,
    /// Of them those that are slow.
    pub slow: u32,
    /// Median and 95th percentile of how far they are behind live, milliseconds.
    pub behind_ms: Option<(u32, u32)>,
}

/// What a stream was like for a step of time. Serialised as a bare list: there are thousands of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "Listed", into = "Listed")]
pub struct Point {
    /// Bits a second from the publisher.
    pub in_bps: u64,
    /// Bits a second to all viewers.
    pub out_bps: u64,
    /// Viewers: the most.
    pub viewers: u32,
    /// Slow ones: the most.
    pub slow: u32,
    /// Times that a viewer was moved forward.
    pub moved_forward: u32,
    /// Segments that were sent again.
    pub retransmitted: u32,
    /// How far the median viewer and the 95th of a hundred were behind live, milliseconds: the most. `None` without
    /// viewers.
    pub behind_ms: Option<(u32, u32)>,
}

type Listed = (u64, u64, u32, u32, u32, u32, Option<(u32, u32)>);

impl From<Point> for Listed {
    fn from(point: Point) -> Listed {
        let Point { in_bps, out_bps, viewers, slow, moved_forward, retransmitted, behind_ms } = point;
        (in_bps, out_bps, viewers, slow, moved_forward, retransmitted, behind_ms)
    }
}

impl From<Listed> for Point {
    fn from(listed: Listed) -> Point {
        let (in_bps, out_bps, viewers, slow, moved_forward, retransmitted, behind_ms) = listed;
        Point { in_bps, out_bps, viewers, slow, moved_forward, retransmitted, behind_ms }
    }
}

/// Points that follow each other without a gap.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Series {
    step: Duration,
    capacity: usize,
    points: VecDeque<Point>,
    /// Points that there ever were.
    count: u64,
}

impl Series {
    const fn new(step: Duration, capacity: usize) -> Series {
        Series { step, capacity, points: VecDeque::new(), count: 0 }
    }

    fn push(&mut self, point: Point) {
        if self.points.len() == self.capacity {
            self.points.pop_front();
        }
        self.points.push_back(point);
        self.count += 1;
    }

    /// From one point to the next.
    pub fn step(&self) -> Duration {
        self.step
    }

    /// The newest `limit` points, the oldest first, and the number of the first of them: points are numbered without a
    /// gap from the stream's begin on, so that a client that asks again can join new points to those that it has.
    pub fn newest(&self, limit: usize) -> (u64, impl Iterator<Item = &Point>) {
        let skipped = self.points.len().saturating_sub(limit);
        (self.count - (self.points.len() - skipped) as u64, self.points.iter().skip(skipped))
    }
}

/// A stream's past, in two steps. Takes at most 180 kB. What a process leaves to the next one is half of that.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct History {
    began: Time,
    last: Option<(Time, Moment)>,
    /// A point a second, for ten minutes.
    pub fine: Series,
    /// A point in ten seconds, for six hours.
    pub coarse: Series,
    /// The seconds that the next coarse point is made of.
    gathered: Vec<Point>,
}

/// Fine points in a coarse one.
const FINE_IN_COARSE: usize = 10;

impl History {
    /// A stream that begins now.
    pub fn new(now: Time) -> History {
        History {
            began: now,
            last: None,
            fine: Series::new(Duration::from_secs(1), 600),
            coarse: Series::new(Duration::from_secs(FINE_IN_COARSE as u64), 2160),
            gathered: Vec::new(),
        }
    }

    /// When the stream began: where point 0 begins.
    pub fn began(&self) -> Time {
        self.began
    }

    /// Whether a second is over and [`History::record`] has something to do.
    pub fn is_due(&self, now: Time) -> bool {
        self.seconds(now) > self.fine.count
    }

    /// Takes how the stream is now. Where whole seconds were missed each of them gets the mean of the time since the
    /// last call.
    pub fn record(&mut self, now: Time, moment: Moment) {
        let missed = self.seconds(now).saturating_sub(self.fine.count);
        if missed == 0 {
            return;
        }
        let (since, before) = self.last.unwrap_or((self.began, Moment::default()));
        let elapsed = now.since(since).as_secs_f64().max(1e-3);
        let rate = |to: u64, from: u64| (to.saturating_sub(from) as f64 * 8.0 / elapsed) as u64;
        let grown = |to: u64, from: u64| u32::try_from(to.saturating_sub(from)).unwrap_or(u32::MAX);
        let mean = Point {
            in_bps: rate(moment.bytes_in, before.bytes_in),
            out_bps: rate(moment.bytes_out, before.bytes_out),
            viewers: moment.viewers,
            slow: moment.slow,
            moved_forward: 0,
            retransmitted: 0,
            behind_ms: moment.behind_ms,
        };
        // Older ones than are kept need not be made one by one.
        let kept = (self.coarse.capacity * FINE_IN_COARSE) as u64;
        let skipped = missed.saturating_sub(kept) / FINE_IN_COARSE as u64;
        self.fine.count += skipped * FINE_IN_COARSE as u64;
        self.coarse.count += skipped;
        for _ in skipped * FINE_IN_COARSE as u64..missed - 1 {
            self.push(mean);
        }
        self.push(Point {
            moved_forward: grown(moment.moved_forward, before.moved_forward),
            retransmitted: grown(moment.retransmitted, before.retransmitted),
            ..mean
        });
        self.last = Some((now, moment));
    }

    fn seconds(&self, now: Time) -> u64 {
        now.since(self.began).as_secs()
    }

    fn push(&mut self, point: Point) {
        self.fine.push(point);
        self.gathered.push(point);
        if self.gathered.len() == FINE_IN_COARSE {
            self.coarse.push(together(&self.gathered));
            self.gathered.clear();
        }
    }
}

fn together(points: &[Point]) -> Point {
    let mean = |of: fn(&Point) -> u64| points.iter().map(of).sum::<u64>() / points.len().max(1) as u64;
    let most = |of: fn(&Point) -> u32| points.iter().map(of).max().unwrap_or(0);
    let sum = |of: fn(&Point) -> u32| points.iter().map(of).fold(0, u32::saturating_add);
    let most_behind = |of: fn((u32, u32)) -> u32| points.iter().filter_map(|p| p.behind_ms).map(of).max();
    Point {
        in_bps: mean(|point| point.in_bps),
        out_bps: mean(|point| point.out_bps),
        viewers: most(|point| point.viewers),
        slow: most(|point| point.slow),
        moved_forward: sum(|point| point.moved_forward),
        retransmitted: sum(|point| point.retransmitted),
        behind_ms: most_behind(|(p50, _)| p50).zip(most_behind(|(_, p95)| p95)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream of 1 MB a second whose second `n` ends with `n` viewers.
    fn moment(second: u64) -> Moment {
        Moment {
            bytes_in: second * 1_000_000,
            bytes_out: second * 3_000_000,
            moved_forward: second / 5,
            retransmitted: second * 2,
            viewers: second as u32,
            slow: 1,
            behind_ms: Some((second as u32, 2 * second as u32)),
        }
    }

    fn secs(seconds: u64) -> Time {
        Time::from_millis(seconds * 1000)
    }

    fn numbers(series: &Series, limit: usize) -> (u64, Vec<u32>) {
        let (first, points) = series.newest(limit);
        (first, points.map(|point| point.viewers).collect())
    }

    #[test]
    fn a_second_makes_a_point() {
        let began = Time::from_millis(7_700);
        let mut history = History::new(began);
        let at = |ms| began + Duration::from_millis(ms);
        assert!(!history.is_due(at(999)) && history.is_due(at(1000)));
        history.record(at(999), moment(1));
        assert_eq!(numbers(&history.fine, 10), (0, vec![]));
        history.record(at(1000), moment(1));
        history.record(at(1250), moment(1));
        history.record(at(2100), moment(2));
        assert_eq!(numbers(&history.fine, 10), (0, vec![1, 2]));
        assert_eq!(numbers(&history.fine, 1), (1, vec![2]));
        let (_, mut points) = history.fine.newest(2);
        let first = points.next().unwrap();
        assert_eq!((first.in_bps, first.out_bps, first.retransmitted), (8_000_000, 24_000_000, 2));
        // The second call came after 1.1 s: the rate is that of this time.
        assert_eq!(points.next().unwrap().in_bps, 7_272_727);
    }

    #[test]
    fn ten_seconds_make_a_coarse_point() {
        let mut history = History::new(Time::ZERO);
        for second in 1..=20 {
            history.record(secs(second), moment(second));
        }
        let (first, points) = history.coarse.newest(10);
        let points: Vec<_> = points.copied().collect();
        assert_eq!((first, points.len()), (0, 2));
        assert_eq!((points[0].viewers, points[1].viewers), (10, 20));
        assert_eq!((points[0].moved_forward, points[1].moved_forward), (2, 2));
        assert_eq!((points[1].retransmitted, points[1].in_bps), (20, 8_000_000));
        assert_eq!((points[1].slow, points[1].behind_ms), (1, Some((20, 40))));
    }

    #[test]
    fn missed_seconds_are_filled_and_no_count_is_doubled() {
        let mut history = History::new(Time::ZERO);
        history.record(secs(1), moment(1));
        history.record(secs(5), moment(5));
        let (first, points) = history.fine.newest(600);
        let points: Vec<_> = points.copied().collect();
        assert_eq!((first, points.len()), (0, 5));
        assert!(points.iter().all(|point| point.in_bps == 8_000_000));
        assert_eq!(points.iter().map(|point| point.moved_forward).sum::<u32>(), 1);
        assert_eq!(points.iter().map(|point| point.retransmitted).sum::<u32>(), 10);
    }

    #[test]
    fn it_goes_on_in_another_process() {
        let mut history = History::new(Time::ZERO);
        for second in 1..=25 {
            history.record(secs(second), moment(second));
        }
        let bytes = serde_json::to_vec(&history).unwrap();
        let mut restored: History = serde_json::from_slice(&bytes).unwrap();
        for history in [&mut history, &mut restored] {
            history.record(secs(31), moment(31));
        }
        assert_eq!(numbers(&restored.fine, 100), numbers(&history.fine, 100));
        assert_eq!(numbers(&restored.coarse, 100), (0, vec![10, 20, 31]));
    }

    #[test]
    fn it_is_bounded_and_points_keep_their_numbers() {
        let mut history = History::new(Time::ZERO);
        for second in 1..=30_000 {
            history.record(secs(second), moment(second));
        }
        let (first, points) = history.fine.newest(usize::MAX);
        assert_eq!((first, points.count()), (29_400, 600));
        let (first, points) = history.coarse.newest(usize::MAX);
        assert_eq!((first, points.count()), (3000 - 2160, 2160));
        // A machine that slept for a year does not make each of its seconds.
        history.record(secs(30_000_007), moment(30_001));
        assert_eq!(numbers(&history.fine, 1), (30_000_006, vec![30_001]));
        let (first, points) = history.coarse.newest(usize::MAX);
        assert_eq!(first + points.count() as u64, 3_000_000);
    }
}
