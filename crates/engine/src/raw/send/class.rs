//! How evenly packets left: the models of ST 2110-21. Pure.
//!
//! * **Cinst**, the network's model (§6.6.1): a bucket that each packet fills by one, and that loses one each
//!   `T_FRAME / N_PACKETS / 1.1`. Its highest level is how many packets the network's queues have to hold.
//! * **VRX**, the receiver's model (§6.6.2): a buffer that is read by the schedule. Its highest level is what receivers have to
//!   hold; a packet that was sent after it is read is late.

use glassline_transport::raw_video::Schedule;
use std::time::Duration;

/// β of the network's bucket.
const BETA: f64 = 1.1;

/// Who can receive what was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Every receiver: as even as a sender of type N or NL, whose schedule it is.
    Narrow,
    /// Receivers of type W.
    Wide,
    /// None that the standard knows: larger bursts, or packets that were late.
    Beyond,
}

/// What the two kinds of senders may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// Cinst at most, of senders of type N and of type W.
    pub(super) cmax: [u32; 2],
    /// VRX at most.
    pub(super) vrx_full: [u32; 2],
}

impl Limits {
    /// For frames of `packets` packets (`schedule`) that are datagrams of up to `datagram_bytes`.
    pub(super) fn new(schedule: &Schedule, datagram_bytes: usize) -> Limits {
        let packets = f64::from(schedule.packets());
        let period = schedule.period().as_secs_f64();
        // The schedule's own step knows R_ACTIVE.
        let active = schedule.step().as_secs_f64() * packets;
        let a_second = packets / period.max(1e-9);
        let datagram = datagram_bytes.max(1) as f64;
        let most = |least: f64, found: f64| least.max(found.floor()) as u32;
        Limits {
            cmax: [most(4.0, packets / (43_200.0 * active.max(1e-9))), most(16.0, a_second / 21_600.0)],
            vrx_full: [
                most((1500.0 * 8.0 / datagram).floor(), a_second / 27_000.0),
                most((1500.0 * 300.0 / datagram).floor(), a_second / 300.0),
            ],
        }
    }
}

/// Follows both models through bursts as they are sent.
#[derive(Clone, Debug)]
pub(super) struct Meter {
    limits: Limits,
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
    pub(super) fn new(schedule: &Schedule, datagram_bytes: usize) -> Meter {
        let packets = schedule.packets();
        let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        Meter {
            limits: Limits::new(schedule, datagram_bytes),
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
        let keeps =
            |kind: usize| self.cinst <= self.limits.cmax[kind] && self.vrx <= self.limits.vrx_full[kind];
        match late_packets {
            0 if keeps(0) => Class::Narrow,
            0 if keeps(1) => Class::Wide,
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
    fn schedule() -> Schedule {
        let pixels = PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap();
        let format = Format::new(pixels, Size::new(1920, 1080).unwrap(), Scan::Progressive).unwrap();
        Schedule::new(FrameRate::new(60, 1).unwrap(), 4320, &format, SenderModel::Gapped)
    }

    /// Three frames in bursts of so many packets, each so many nanoseconds before the first of it is read.
    fn send(burst: usize, lead: i64) -> (Meter, u64) {
        let schedule = schedule();
        let mut meter = Meter::new(&schedule, 1220);
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
    fn limits_are_those_of_the_standard() {
        let limits = Limits::new(&schedule(), 1220);
        assert_eq!(limits.cmax, [6, 16].map(|least: u32| least.max(4)), "{limits:?}");
        assert_eq!(limits.vrx_full, [9, 864]);
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
        let mut meter = Meter::new(&schedule(), 1220);
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
}
