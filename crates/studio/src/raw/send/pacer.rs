//! When bursts go that could not go when they were due. Pure.
//!
//! A burst that was held up goes at once. If those behind it did so too, all of them would be one large burst to the network; so
//! these catch up by going a little faster than the schedule, for as long as none of their packets is late by it.

use glassline_media::Time;
use glassline_transport::raw_video::Schedule;
use std::time::Duration;

/// A thread that sleeps is woken so late without being held up.
const TOLERANCE: Duration = Duration::from_micros(20);
/// The network's bucket empties by this much faster than frames are sent (β of ST 2110-21 §6.6.1), in percent.
const BETA_PERCENT: u32 = 110;

/// Keeps bursts apart.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pacer {
    /// Before this the next burst adds to what the network still holds.
    next: Time,
    /// The time in which the network sends a thousand packets on.
    thousand: Duration,
    /// How much later than it is due a burst may go.
    slack: Duration,
}

impl Pacer {
    /// For bursts that go by `schedule`, each `lead` before its first packet is read.
    pub(super) fn new(schedule: &Schedule, lead: Duration) -> Pacer {
        let thousand = schedule.period() * 1000 / schedule.packets() * 100 / BETA_PERCENT;
        Pacer { next: Time::ZERO, thousand, slack: lead * 3 / 4 }
    }

    /// When a burst goes that is due at `due`.
    pub(super) fn at(&self, due: Time) -> Time {
        due.max(self.next.min(due + self.slack))
    }

    /// A burst of so many packets, which was to go at `at`, has gone at `now`.
    pub(super) fn sent(&mut self, at: Time, now: Time, packets: usize) {
        let held = Time::from_nanos(now.as_nanos().saturating_sub(TOLERANCE.as_nanos() as u64));
        self.next = at.max(held) + self.thousand * u32::try_from(packets).unwrap_or(u32::MAX) / 1000;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Chroma, FrameRate, PixelFormat, Size};
    use glassline_transport::raw_video::{Format, Scan, SenderModel};

    #[test]
    fn what_was_held_up_catches_up_without_a_large_burst() {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
        let schedule = Schedule::new(FrameRate::new(60, 1).unwrap(), 4320, &format, SenderModel::Gapped);
        let mut pacer = Pacer::new(&schedule, Duration::from_micros(400));
        let due = |burst: u32| Time::from_millis(1000) + schedule.offset(8 * burst);
        let (mut last, mut behind) = (Time::ZERO, Vec::new());
        for burst in 0..500 {
            let at = pacer.at(due(burst));
            // Woken 10 µs late each time, and once held up for 250 µs.
            let now = at + Duration::from_micros(if burst == 100 { 250 } else { 10 });
            pacer.sent(at, now, 8);
            assert!(burst == 101 || now.since(last) > Duration::from_micros(25), "{burst}");
            last = now;
            behind.push(now.since(due(burst)));
        }
        assert!(behind[99] < Duration::from_micros(11), "{:?}", behind[99]);
        assert!(behind[101] > Duration::from_micros(200), "{:?}", behind[101]);
        assert!(behind.iter().all(|late| *late <= Duration::from_micros(310)), "none is read too early");
        assert!(behind[400] < Duration::from_micros(12), "{:?}", behind[400]);
    }

    #[test]
    fn what_would_be_late_goes_at_once() {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
        let schedule = Schedule::new(FrameRate::new(60, 1).unwrap(), 4320, &format, SenderModel::Gapped);
        let mut pacer = Pacer::new(&schedule, Duration::from_micros(400));
        let due = Time::from_millis(1000);
        pacer.sent(due, due + Duration::from_millis(5), 8);
        assert_eq!(pacer.at(due), due + Duration::from_micros(300));
    }

    fn pacer() -> Pacer {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
        let schedule = Schedule::new(FrameRate::new(60, 1).unwrap(), 4320, &format, SenderModel::Gapped);
        Pacer::new(&schedule, Duration::from_micros(400))
    }

    #[test]
    fn a_burst_that_is_not_held_up_goes_when_it_is_due() {
        let due = Time::from_millis(1_000);
        assert_eq!(pacer().at(due), due);
        let mut pacer = pacer();
        pacer.sent(due, due + TOLERANCE, 8);
        let next = due + Duration::from_micros(31);
        assert_eq!(pacer.at(next), next, "a thread that is woken a little late was not held up");
    }

    #[test]
    fn behind_a_burst_the_next_one_waits_until_the_network_has_sent_it_on() {
        let (mut pacer, due) = (pacer(), Time::from_millis(1_000));
        pacer.sent(due, due + Duration::from_micros(120), 1_000);
        // A thousand packets take 3.507 ms, and the burst was held up by 100 µs beyond what a thread may be woken late.
        let next = pacer.next.since(due);
        assert!(next.abs_diff(Duration::from_micros(100 + 3_507)) < Duration::from_micros(1), "{next:?}");
        assert_eq!(pacer.at(due), due + Duration::from_micros(300), "but no packet is late by it");
        let later = due + Duration::from_millis(4);
        assert_eq!(pacer.at(later), later);
    }
}
