//! The loop that sends: a frame, its stamps, its bursts at their times.

use super::ancillary::{AncillarySender, Place};
use super::class::Meter;
use super::pacer::Pacer;
use super::path::{Path, due};
use super::plan::{Burst, Plan};
use super::queue::Queue;
use super::stamps::Stamps;
use super::statistics::Monitor;
use super::supply::{Next, Supply};
use super::waiter::Waiter;
use super::{Error, Result};
use glassline_io::clock::Clock;
use glassline_media::{FrameRate, Time};
use glassline_transport::raw_video::Packetizer;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Bursts that one system call takes.
const CALL_BURSTS: usize = 32;
/// Bursts with launch times are handed over so much earlier.
const AHEAD: Duration = Duration::from_millis(2);
/// Where the end is asked for, the frame on its way is cut off if its next burst is due later than this.
const END_WITHIN: Duration = Duration::from_millis(200);

/// Ends a sender, from any thread.
#[derive(Clone, Debug)]
pub struct Stopper(pub(super) Arc<Queue>);

impl Stopper {
    /// Has it end after the frame that is on its way.
    pub fn stop(&self) {
        self.0.stop();
    }
}

/// When frames begin.
#[derive(Clone, Copy, Debug)]
pub(super) enum Timing {
    /// So long after they were captured.
    Captured { delay: Duration },
    /// On a grid that begins then, so many a second.
    Grid { first: Time, rate: FrameRate, slot: u64 },
    /// As soon as they can.
    Unlimited,
}

/// All that the sending thread works with.
pub(super) struct Running {
    pub(super) clock: Clock,
    pub(super) queue: Arc<Queue>,
    pub(super) monitor: Monitor,
    pub(super) packetizer: Packetizer,
    pub(super) plan: Plan,
    /// Without a schedule there is nothing to measure.
    pub(super) meter: Option<Meter>,
    pub(super) pacer: Pacer,
    pub(super) paths: Vec<Path>,
    pub(super) stamps: Stamps,
    pub(super) timing: Timing,
    /// From the first field to the second, where they are of two times.
    pub(super) field: Option<Duration>,
    pub(super) waiter: Waiter,
    pub(super) ancillary: Option<AncillarySender>,
    /// Frames at most.
    pub(super) limit: Option<u64>,
}

/// What became of a frame.
#[derive(Default)]
struct Report {
    packets: u64,
    bytes: u64,
    late_packets: u64,
    latest: Duration,
    lateness: Vec<Duration>,
    full: u64,
    /// By path: packets that could not be sent, and why the last one could not.
    failures: [(u64, Option<io::Error>); 2],
}

impl Running {
    /// Sends until the supply ends, the limit is reached or the queue is stopped.
    pub(super) fn run(mut self, mut supply: Supply) -> Result<()> {
        let (mut number, mut first) = (0, None);
        while self.limit.is_none_or(|limit| number < limit) && !self.queue.is_stopped() {
            let (bytes, captured, ready, in_file) = match supply.next() {
                Next::Frame { bytes, captured, ready, number } => (bytes, captured, ready, number),
                Next::Nothing => continue,
                Next::End => break,
            };
            let now = self.clock.now();
            let (began, is_skipped) = self.timing.begin(captured, now);
            // The first burst was due before there was anything to send.
            let due = began.zip(self.plan.bursts.first()).map(|(began, first)| due(began, first));
            let is_late = is_skipped || due.zip(ready).is_some_and(|(due, ready)| due < ready);
            let captured = captured.or(began).unwrap_or(now);
            self.stamps.follow(now, self.clock.utc());
            let timestamps = self.stamps.of_frame(captured, self.field.map(|field| captured + field));
            let place = Place { number: in_file, captured, utc: self.clock.utc_at(captured) };
            let report = self.frame(bytes, began, timestamps, place);
            number += 1;
            let first = *first.get_or_insert(began.map_or(now, |began| began.max(now)));
            self.tell(report, is_late, self.clock.now().since(first))?;
        }
        Ok(())
    }

    /// Sends one frame that begins at `began`, or now.
    fn frame(&mut self, bytes: &[u8], began: Option<Time>, timestamps: [u32; 2], place: Place) -> Report {
        let mut report = Report::default();
        let launches = self.paths.iter().all(|path| path.launch.is_used);
        let ahead = if launches { AHEAD } else { Duration::ZERO };
        let Running { clock, queue, packetizer, plan, meter, pacer, paths, waiter, ancillary, .. } = self;
        let mut packets = packetizer.frame(timestamps);
        let mut next = 0;
        while next < plan.bursts.len() {
            let rest = &plan.bursts[next..];
            let now = clock.now();
            let count = match began {
                Some(began) => {
                    let go = |burst: &&Burst| {
                        let at = pacer.at(due(began, burst));
                        let goes = at <= now + ahead;
                        if goes {
                            pacer.sent(at, now, burst.packets);
                        }
                        goes
                    };
                    rest.iter().take(CALL_BURSTS).take_while(go).count()
                }
                None => rest.len().min(CALL_BURSTS),
            };
            if let (0, Some(began)) = (count, began) {
                let at = pacer.at(due(began, &rest[0]));
                if at.since(now) > END_WITHIN && queue.is_stopped() {
                    break;
                }
                waiter.wait(Time::from_nanos(at.as_nanos().saturating_sub(ahead.as_nanos() as u64)));
                continue;
            }
            let bursts = &rest[..count];
            for (path, failures) in paths.iter_mut().zip(&mut report.failures) {
                let sent = path.send(bursts, packets.clone(), bytes, began);
                report.full += sent.full;
                failures.0 += sent.failed_packets;
                failures.1 = sent.failure.or(failures.1.take());
            }
            for burst in bursts {
                if let Some(began) = began {
                    let own = due(began, burst);
                    // With a launch time it leaves at its own, if that is not over.
                    let left = if launches { now.max(own) } else { now };
                    report.lateness.push(left.since(own));
                    if let Some(meter) = meter {
                        let range = (burst.first, burst.first + burst.packets);
                        let (late, by) = meter.push(range, began.as_nanos(), left.as_nanos());
                        report.late_packets += late as u64;
                        report.latest = report.latest.max(by);
                    }
                }
                report.packets += burst.packets as u64;
                report.bytes += burst.bytes as u64;
            }
            if next == 0
                && let Some(ancillary) = ancillary
            {
                ancillary.frame(place, timestamps);
            }
            let gone = bursts.iter().map(|burst| burst.packets).sum::<usize>();
            packets.by_ref().take(gone).for_each(drop);
            next += count;
        }
        report
    }

    /// Writes down what became of a frame.
    fn tell(&self, report: Report, is_late: bool, duration: Duration) -> Result<()> {
        let all = report.packets * self.paths.len() as u64;
        let launch_errors: u64 = self.paths.iter().map(Path::launch_errors).sum();
        self.monitor.update(|statistics| {
            statistics.frames += 1;
            statistics.packets += report.packets;
            statistics.bytes += report.bytes;
            statistics.duration = duration;
            statistics.late_packets += report.late_packets;
            statistics.latest = statistics.latest.max(report.latest);
            report.lateness.iter().for_each(|late| statistics.bursts.push(*late));
            statistics.late_frames += u64::from(is_late);
            statistics.full_sockets += report.full;
            statistics.launch_errors += launch_errors;
            statistics.clock_steps = self.stamps.steps();
            for (path, (failed, why)) in statistics.paths.iter_mut().zip(&report.failures) {
                path.failed_packets += failed;
                path.failure = why.as_ref().map(ToString::to_string).or(path.failure.take());
            }
            if let Some(meter) = &self.meter {
                (statistics.cinst, statistics.vrx) = (meter.cinst(), meter.vrx());
                statistics.class = Some(meter.class(statistics.late_packets));
            }
        });
        let failed: u64 = report.failures.iter().map(|(failed, _)| failed).sum();
        let mut failures = self.paths.iter().zip(report.failures);
        match failures.find_map(|(path, (_, why))| Some((path.to.clone(), why?))) {
            Some((to, error)) if failed >= all => Err(Error::Send { to, error }),
            _ => Ok(()),
        }
    }
}

impl Timing {
    /// When a frame begins that is to go at `now` and was captured at `captured`, and whether it has lost its place to be in time.
    /// `None` where it begins at once.
    fn begin(&mut self, captured: Option<Time>, now: Time) -> (Option<Time>, bool) {
        match self {
            Timing::Unlimited => (None, false),
            Timing::Captured { delay } => (Some(captured.unwrap_or(now) + *delay), false),
            Timing::Grid { first, rate, slot } => {
                let due = *first + rate.time_of(*slot);
                let mut began = due;
                // What is a whole frame late does not catch up: the frames behind it have their own times.
                while now.since(began) > rate.time_of(1) {
                    *slot += 1 + periods(now.since(began), *rate);
                    began = *first + rate.time_of(*slot);
                }
                *slot += 1;
                (Some(began), began != due)
            }
        }
    }
}

/// Whole frames in some time, less one.
fn periods(time: Duration, rate: FrameRate) -> u64 {
    let period = rate.time_of(1).as_nanos().max(1);
    u64::try_from(time.as_nanos() / period).unwrap_or(0).saturating_sub(1)
}

#[cfg(test)]
#[path = "running_tests.rs"]
mod tests;
