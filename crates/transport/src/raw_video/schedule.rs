//! When each packet of a frame is to leave, or is read: the packet read schedules of ST 2110-21.
//!
//! ```text
//!  n · T_FRAME     T_VD                              (n + 1) · T_FRAME
//!   │◄─ TR_OFFSET ─►│0│1│2│3│ … │N−1│◄────────── gap ──────────►│           gapped (narrow)
//!   │◄─ TR_OFFSET ─►│0 │1 │2 │3 │ …                      │N−1 │           linear (narrow linear, wide)
//! ```
//! Periods are counted from the PTP epoch. A gapped schedule leaves the vertical blanking empty, as SDI does; a linear one
//! spreads packets over the whole period. The fields of a gapped frame are two such rows, half a period and half a line apart.

use super::format::{Format, Scan};
use glassline_media::FrameRate;
use std::time::Duration;

/// How a sender spreads a frame's packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SenderModel {
    /// Within the time of the active lines (ST 2110-21 §6.3): senders of type N.
    #[default]
    Gapped,
    /// Evenly over the frame's period (ST 2110-21 §6.4): senders of type NL and W.
    Linear,
}

/// A fraction of a frame's period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Ratio(pub(super) u32, pub(super) u32);

/// The part of a frame's period in which packets are read, R_ACTIVE (ST 2110-21 §6.3.2, §6.3.3; of interlaced video the
/// fixed values of the edition of 2017, which EBU LIST has too).
pub(super) fn active(format: &Format, model: SenderModel) -> Ratio {
    match (model, format.scan(), format.size().height) {
        (SenderModel::Linear, _, _) => Ratio(1, 1),
        (_, Scan::Interlaced | Scan::Segmented, 0..576) => Ratio(487, 525),
        (_, Scan::Interlaced | Scan::Segmented, 576..1080) => Ratio(576, 625),
        (_, Scan::Progressive, _) | (_, _, 1080..) => Ratio(1080, 1125),
    }
}

/// What lies between the beginning of a frame's period and the first packet, TRO_DEFAULT (ST 2110-21 §6.3.2, §6.3.3).
fn offset_default(format: &Format) -> Ratio {
    match (format.scan(), format.size().height) {
        (Scan::Progressive, 0..1080) => Ratio(28, 750),
        (Scan::Progressive, 1080..) => Ratio(43, 1125),
        (_, 0..576) => Ratio(20, 525),
        (_, 576..1080) => Ratio(26, 625),
        (_, 1080..) => Ratio(22, 1125),
    }
}

/// From the first field's packets to the second one's of a gapped frame: half of it and half a line (ST 2110-21 §6.3.3).
pub(super) fn second_field(format: &Format) -> Ratio {
    match format.size().height {
        0..576 => Ratio(526, 2 * 525),
        576..1080 => Ratio(626, 2 * 625),
        1080.. => Ratio(1126, 2 * 1125),
    }
}

/// The times of a frame's packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    rate: FrameRate,
    packets: u32,
    /// Packets before the gap between fields; more than there are where there is no such gap.
    first_field: u32,
    active: Ratio,
    offset: Ratio,
    second_field: Ratio,
}

impl Schedule {
    /// The schedule of frames of `packets` packets, both fields together; `rate` counts whole frames.
    pub fn new(rate: FrameRate, packets: u32, format: &Format, model: SenderModel) -> Schedule {
        let packets = packets.max(1);
        let has_gap = model == SenderModel::Gapped && format.scan() != Scan::Progressive;
        Schedule {
            rate,
            packets,
            first_field: if has_gap { packets.div_ceil(2) } else { u32::MAX },
            active: active(format, model),
            offset: offset_default(format),
            second_field: second_field(format),
        }
    }

    /// When packet `index` is due, after the beginning of the frame's period; rounded down to the nanosecond.
    ///
    /// It is when a receiver reads it (T_PR), so the last moment to send it. A sender may be earlier by a few packets
    /// (VRX_FULL less one), and should be if its timer is not exact. A packet behind the frame's last one goes on in
    /// its step.
    pub fn offset(&self, index: u32) -> Duration {
        let (Ratio(part, whole), Ratio(above, below)) = (self.active, self.offset);
        let (field, index) = match index.checked_sub(self.first_field) {
            Some(index) => (self.second_field, index),
            None => (Ratio(0, 1), index),
        };
        let [part, whole, above, below, later, than] =
            [part, whole, above, below, field.0, field.1].map(u128::from);
        // All over one denominator, so that it is rounded once.
        let steps = whole * u128::from(self.packets);
        let numerator =
            above * than * steps + later * below * steps + below * than * u128::from(index) * part;
        self.part(numerator, below * than * steps)
    }

    /// When a frame's first packet is due after the beginning of the frame's period (T_VD after it): TRO_DEFAULT.
    pub fn first_offset(&self) -> Duration {
        let Ratio(part, whole) = self.offset;
        self.part(u128::from(part), u128::from(whole))
    }

    /// From one frame to the next, T_FRAME; rounded down to the nanosecond. [`FrameRate::time_of`] does not drift.
    pub fn period(&self) -> Duration {
        self.part(1, 1)
    }

    /// From one packet to the next within a field, T_RS; rounded down to the nanosecond.
    pub fn step(&self) -> Duration {
        let Ratio(part, whole) = self.active;
        self.part(u128::from(part), u128::from(whole) * u128::from(self.packets))
    }

    /// Packets of a frame.
    pub fn packets(&self) -> u32 {
        self.packets
    }

    /// This part of a frame's period.
    fn part(&self, numerator: u128, denominator: u128) -> Duration {
        let second = 1_000_000_000 * u128::from(self.rate.denominator());
        let whole = u128::from(self.rate.numerator()) * denominator;
        let nanos = numerator * second / whole;
        Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use glassline_media::{Chroma, PixelFormat, Size};
    use proptest::prelude::*;

    fn schedule(height: u32, scan: Scan, rate: (u32, u32), packets: u32, model: SenderModel) -> Schedule {
        let size = Size::new(1920, height).unwrap();
        let format = Format::new(PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap(), size, scan).unwrap();
        Schedule::new(FrameRate::new(rate.0, rate.1).unwrap(), packets, &format, model)
    }

    fn nanos(schedule: &Schedule, index: u32) -> u128 {
        schedule.offset(index).as_nanos()
    }

    #[test]
    fn a_gapped_frame_leaves_the_blanking_empty_and_a_linear_one_does_not() {
        let gapped = schedule(1080, Scan::Progressive, (50, 1), 4320, SenderModel::Gapped);
        assert_eq!(gapped.period(), Duration::from_millis(20));
        assert_eq!(nanos(&gapped, 0), 20_000_000 * 43 / 1125);
        assert_eq!(gapped.offset(4320) - gapped.offset(0), Duration::from_micros(19_200));
        assert_eq!(gapped.step(), Duration::from_nanos(4_444));
        let linear = schedule(1080, Scan::Progressive, (50, 1), 4320, SenderModel::Linear);
        assert_eq!(linear.offset(0), gapped.offset(0));
        assert_eq!(linear.offset(4320) - linear.offset(0), linear.period());
    }

    #[test]
    fn the_fields_of_a_gapped_frame_are_half_a_period_and_half_a_line_apart() {
        for (scan, height, offset, active) in [
            (Scan::Interlaced, 1080, (22, 1125), (1080, 1125)),
            (Scan::Segmented, 1080, (22, 1125), (1080, 1125)),
            (Scan::Interlaced, 576, (26, 625), (576, 625)),
            (Scan::Interlaced, 486, (20, 525), (487, 525)),
        ] {
            let gapped = schedule(height, scan, (25, 1), 2000, SenderModel::Gapped);
            assert_eq!(nanos(&gapped, 0), 40_000_000 * offset.0 / offset.1, "{height}");
            let field = nanos(&gapped, 1000) - nanos(&gapped, 0);
            assert!(field.abs_diff(20_000_000 + 20_000_000 / active.1) <= 1, "half a line more");
            let last = nanos(&gapped, 999) - nanos(&gapped, 0);
            assert!(last.abs_diff(40_000_000 * 999 * active.0 / active.1 / 2000) <= 1);
            let linear = schedule(height, scan, (25, 1), 2000, SenderModel::Linear);
            assert!((nanos(&linear, 1000) - nanos(&linear, 999)).abs_diff(20_000) <= 1);
        }
        assert_eq!(
            nanos(&schedule(720, Scan::Progressive, (50, 1), 2000, SenderModel::Gapped), 0),
            20_000_000 * 28 / 750,
        );
    }

    proptest! {
        #[test]
        fn packets_are_in_order_and_end_before_the_next_frame(
            height in 16u32..4320, kind in 0usize..3, is_linear: bool,
            rate in (1u32..240_000, prop::sample::select(vec![1u32, 1000, 1001])), packets in 1u32..50_000,
        ) {
            let scan = [Scan::Progressive, Scan::Interlaced, Scan::Segmented][kind];
            let model = if is_linear { SenderModel::Linear } else { SenderModel::Gapped };
            let schedule = schedule(height * 2, scan, rate, packets, model);
            let step = (packets / 50).max(1);
            for index in (0..packets).step_by(step as usize) {
                prop_assert!(schedule.offset(index) <= schedule.offset(index + 1));
            }
            let last = schedule.offset(packets - 1) - schedule.offset(0);
            prop_assert!(last <= schedule.period() + Duration::from_nanos(1));
        }
    }
}
