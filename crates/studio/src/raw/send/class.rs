//! How evenly packets left: the models of ST 2110-21. Pure.
//!
//! * **Cinst**, the network's model (§6.6.1): a bucket that each packet fills by one, and that loses one each
//!   `T_FRAME / N_PACKETS / 1.1`. Its highest level is how many packets the network's queues have to hold.
//! * **VRX**, the receiver's model (§6.6.2): a buffer that is read by the schedule. Its highest level is what receivers have to
//!   hold; a packet that was sent after it is read is late.

use glassline_transport::raw_video::{Limits, Schedule};
use std::time::Duration;

/// β of the network's bucket.
const BETA: f64 = 1.1;

/// Which receivers can receive what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Every receiver: as even as a sender of type N or NL, whichever the schedule is of.
    Narrow,
    /// Receivers of type W.
    Wide,
    /// None that the standard knows: larger bursts, or packets that were late.
    Beyond,
}

/// Follows both models through bursts as they are sent.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    /// Those of the narrow type that the schedule is of, and of the wide one.
    limits: [Limits; 2],
    /// When each packet is read after the frame's beginning, in nanoseconds.
    reads: Vec<u64>,
    /// Nanoseconds in which the bucket loses a packet.
    drain: f64,
    level: f64,
    last: Option<u64>,
    cinst: u32,
    vrx: u32,
}

impl Meter {
    pub(super) fn new(schedule: &Schedule, limits: [Limits; 2]) -> Meter {
        let packets = schedule.packets();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Meter {
            limits,
            reads: (0..packets).map(|index| nanos(schedule.offset(index))).collect(),
            drain: nanos(schedule.period()) as f64 / f64::from(packets) / BETA,
            level: 0.0,
            last: None,
            cinst: 0,
            vrx: 0,
        }
    }

    /// Packets `first..end` of a frame that began at `began` have left at `now`, both in nanoseconds of a clock. Returns how
    /// many of them were late, and by how much the latest.
    pub(super) fn push(&mut self, (first, end): (usize, usize), began: u64, now: u64) -> (usize, Duration) {
        let passed = self.last.map_or(0, |last| now.saturating_sub(last));
        self.last = Some(now);
        self.level = (self.level - (passed as f64 / self.drain).floor()).max(0.0) + (end - first) as f64;
        self.cinst = self.cinst.max(self.level as u32);
        let since = now.saturating_sub(began);
        let read = self.reads.partition_point(|at| *at <= since && now >= began);
        self.vrx = self.vrx.max(end.saturating_sub(read) as u32);
        let overdue = self.reads.partition_point(|at| *at < since && now >= began);
        let late = overdue.clamp(first, end) - first;
        let latest = self.reads.get(first).map_or(0, |due| since.saturating_sub(*due));
        (late, if late > 0 { Duration::from_nanos(latest) } else { Duration::ZERO })
    }

    /// The network's bucket at its highest.
    pub(super) fn cinst(&self) -> u32 {
        self.cinst
    }

    /// The receiver's buffer at its highest.
    pub(super) fn vrx(&self) -> u32 {
        self.vrx
    }

    /// What has been kept so far.
    pub(super) fn class(&self, late_packets: u64) -> Class {
        let [narrow, wide] =
            self.limits.map(|limits| self.cinst <= limits.c_max && self.vrx <= limits.vrx_full);
        match late_packets {
            0 if narrow => Class::Narrow,
            0 if wide => Class::Wide,
            _ => Class::Beyond,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Chroma, FrameRate, PixelFormat, Size};
    use glassline_transport::raw_video::{Format, Scan, SenderModel};

    /// 1080p60 in 4:2:2 of 10 bits.
    fn meter() -> (Schedule, Meter) {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
        let rate = FrameRate::new(60, 1).unwrap();
        let schedule = Schedule::new(rate, 4320, &format, SenderModel::Gapped);
        let [narrow, _, wide] = Limits::of(&format, rate, 4320, 1460);
        let meter = Meter::new(&schedule, [narrow, wide]);
        (schedule, meter)
    }

    /// Three frames in bursts of so many packets, each so many nanoseconds before the first of it is read.
    fn send(burst: usize, lead: i64) -> (Meter, u64) {
        let (schedule, mut meter) = meter();
        let mut late = 0;
        for frame in 0..3u64 {
            let began = 1_000_000_000 + frame * 16_666_666;
            for first in (0..4320).step_by(burst) {
                let due = began + schedule.offset(first as u32).as_nanos() as u64;
                let end = (first + burst).min(4320);
                late += meter.push((first, end), began, due.saturating_add_signed(-lead)).0 as u64;
            }
        }
        (meter, late)
    }

    #[test]
    fn a_burst_of_k_packets_has_cinst_k() {
        for (burst, class) in [(1, Class::Narrow), (4, Class::Narrow), (12, Class::Wide), (53, Class::Beyond)]
        {
            let (meter, late) = send(burst, 100);
            assert_eq!((meter.cinst() as usize, late), (burst, 0), "bursts of {burst}");
            assert_eq!(meter.class(late), class, "bursts of {burst}, VRX {}", meter.vrx());
        }
    }

    #[test]
    fn what_is_sent_after_it_is_read_is_late() {
        let (meter, late) = send(4, -5_000);
        assert!(late > 3 * 1000, "{late}");
        assert_eq!(meter.class(late), Class::Beyond);
        let (_, mut meter) = self::meter();
        let (late, by) = meter.push((0, 8), 0, 16_000_000);
        assert_eq!(late, 8);
        assert!(by > Duration::from_millis(15), "{by:?}");
    }

    #[test]
    fn sending_far_ahead_fills_the_receivers_buffer() {
        let (meter, late) = send(4, 100_000);
        assert!(late == 0 && (28..=36).contains(&meter.vrx()), "{}", meter.vrx());
        assert_eq!(meter.class(0), Class::Wide);
    }

    #[test]
    fn one_late_packet_is_beyond_all_types_however_even_the_others_are() {
        let (meter, late) = send(1, 100);
        assert_eq!((late, meter.class(0), meter.class(1)), (0, Class::Narrow, Class::Beyond));
    }

    #[test]
    fn a_meter_that_saw_nothing_is_narrow_and_empty() {
        let (_, meter) = meter();
        assert_eq!((meter.cinst(), meter.vrx(), meter.class(0)), (0, 0, Class::Narrow));
    }

    #[test]
    fn the_networks_bucket_empties_between_bursts_and_keeps_its_highest_level() {
        let (_, mut meter) = meter();
        meter.push((0, 10), 1_000_000_000, 1_000_000_000);
        assert_eq!(meter.cinst(), 10);
        // It loses a packet each 3,507 ns: 16.67 ms of 4,320 packets, at 1.1 times their rate.
        meter.push((10, 14), 1_000_000_000, 1_000_035_100);
        assert_eq!((meter.level as u32, meter.cinst()), (4, 10));
        meter.push((14, 24), 1_000_000_000, 1_000_035_100);
        assert_eq!(meter.cinst(), 14, "what comes at once adds up");
    }

    #[test]
    fn a_burst_is_late_by_its_first_packet_and_in_time_when_it_is_read_just_then() {
        let (schedule, mut meter) = meter();
        let due = |index: u32| schedule.offset(index).as_nanos() as u64;
        let (late, by) = meter.push((4, 6), 0, due(4));
        assert_eq!((late, by), (0, Duration::ZERO));
        let (late, by) = meter.push((6, 8), 0, due(6) + 700);
        assert_eq!((late, by), (1, Duration::from_nanos(700)));
        let (late, by) = meter.push((8, 10), 0, due(9) + 1);
        assert_eq!((late, by), (2, Duration::from_nanos(due(9) + 1 - due(8))));
    }
}
