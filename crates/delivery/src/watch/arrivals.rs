//! How a stream arrives: its rate, what is missing in it, and whether it is there.

use super::alarm::Alarm;
use super::board::Board;
use super::median::Recent;
use glassline_media::container::ts::Pcr;
use glassline_media::{Ticks, Time};
use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

/// Seconds that the rate is the mean of: more than the usual distance of key frames.
const RATE_SECONDS: usize = 4;
/// What the median of these means is taken over.
const SPAN: Duration = Duration::from_secs(600);
/// Means that are needed before anything is said.
const LEARNED: usize = 5;

/// Follows the bit rate, on the stream's own time.
#[derive(Clone, Debug)]
pub(super) struct BitrateMeter {
    /// When the open second began; its bytes.
    since: Option<Time>,
    bytes: u64,
    /// The first second may be a part of one, or the backlog.
    is_first: bool,
    seconds: VecDeque<u64>,
    means: Recent,
}

impl BitrateMeter {
    pub(super) fn new() -> BitrateMeter {
        BitrateMeter {
            since: None,
            bytes: 0,
            is_first: true,
            seconds: VecDeque::new(),
            means: Recent::new(SPAN, 600),
        }
    }

    /// Takes a unit of `bytes`.
    pub(super) fn push(&mut self, bytes: usize, at: Time, board: &mut Board) {
        let mut since = *self.since.get_or_insert(at);
        while at.since(since) >= Duration::from_secs(1) {
            since += Duration::from_secs(1);
            self.close(since, board);
        }
        self.since = Some(since);
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    fn close(&mut self, at: Time, board: &mut Board) {
        let bytes = std::mem::take(&mut self.bytes);
        if std::mem::take(&mut self.is_first) {
            return;
        }
        self.seconds.push_back(bytes);
        if self.seconds.len() > RATE_SECONDS {
            self.seconds.pop_front();
        }
        if self.seconds.len() < RATE_SECONDS {
            return;
        }
        let mean = self.seconds.iter().sum::<u64>() as f64 / RATE_SECONDS as f64;
        let median = self.means.median();
        self.means.push(at, mean);
        if let Some(median) = median.filter(|median| *median > 0.0 && self.means.len() > LEARNED) {
            let (ratio, limit) = (mean / median, board.rules[Alarm::Bitrate].limit);
            board.observe(Alarm::Bitrate, ratio > limit || ratio * limit < 1.0, Some(ratio), at);
        }
    }

    /// Part of the stream was left out: the open seconds are none.
    pub(super) fn forget(&mut self) {
        (self.since, self.bytes, self.is_first) = (None, 0, true);
        self.seconds.clear();
    }
}

/// A step forward that is longer by this than what the whole stream has gone forward meanwhile is a jump; every step back is one.
const JUMP_TICKS: i64 = 2 * Ticks::RATE as i64;
/// Moments with errors that are kept of a second.
const MOMENTS_MAX: usize = 1024;
const SECOND: Duration = Duration::from_secs(1);

/// Counts what is missing, and jumps of times.
#[derive(Clone, Debug, Default)]
pub(super) struct Errors {
    /// When there were some, and how many.
    moments: VecDeque<(Time, u64)>,
    /// The last time stamps, by elementary stream, and how much of the stream had passed.
    last: BTreeMap<u16, (Ticks, Time)>,
    clock: Option<Pcr>,
}

impl Errors {
    /// Errors were counted.
    pub(super) fn add(&mut self, count: u64, at: Time) {
        if count > 0 && self.moments.len() < MOMENTS_MAX {
            self.moments.push_back((at, count));
        }
    }

    /// The next time stamp of an elementary stream, before which `passed` of the stream had passed. Where it was away and
    /// others went on, it comes back without a jump. Returns whether there is one.
    pub(super) fn follow(&mut self, pid: u16, ticks: Ticks, passed: Time) -> bool {
        let Some((last, before)) = self.last.insert(pid, (ticks, passed)) else { return false };
        let step = ticks.0.saturating_sub(last.0);
        let meanwhile = Ticks::from_time(Time::from_nanos(passed.since(before).as_nanos() as u64)).0;
        step < 0 || step.saturating_sub(meanwhile) > JUMP_TICKS
    }

    /// The next value of the program's clock. One that goes back is far ahead of the one before, since it wraps.
    pub(super) fn follow_clock(&mut self, clock: Pcr, at: Time) {
        let step = self.clock.replace(clock).map_or(0, |last| clock.since(last));
        self.add(u64::from(step > 2 * Pcr::RATE), at);
    }

    /// Looks at the last second.
    pub(super) fn look(&mut self, at: Time, board: &mut Board) {
        while self.moments.front().is_some_and(|(moment, _)| at.since(*moment) >= SECOND) {
            self.moments.pop_front();
        }
        let count: u64 = self.moments.iter().map(|(_, count)| *count).sum();
        board.observe_above(Alarm::Discontinuity, count as f64, at);
    }

    /// Other elementary streams follow, or part of the stream was left out: their time stamps are no jumps.
    pub(super) fn forget(&mut self) {
        self.last.clear();
        self.clock = None;
    }
}

/// Whether anything arrives, by the caller's clock.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Arrival {
    /// When bytes came last, or when the watch began.
    newest: Option<Time>,
    /// There is no publisher: it is known to be gone.
    is_gone: bool,
}

impl Arrival {
    pub(super) fn bytes(&mut self, now: Time, board: &mut Board) {
        (self.newest, self.is_gone) = (Some(now), false);
        board.observe(Alarm::Absent, false, Some(0.0), now);
    }

    pub(super) fn gone(&mut self, now: Time) {
        self.newest.get_or_insert(now);
        self.is_gone = true;
    }

    pub(super) fn look(&mut self, now: Time, board: &mut Board) {
        let absent = now.since(*self.newest.get_or_insert(now)).as_secs_f64();
        let is_broken = self.is_gone || absent >= board.rules[Alarm::Absent].limit;
        board.observe(Alarm::Absent, is_broken, Some(absent), now);
    }
}
