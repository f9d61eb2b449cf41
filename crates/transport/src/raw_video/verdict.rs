//! What is said of a sender's timing, and where the limits of ST 2110-21 are.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::format::Format;
use super::schedule::{Ratio, SenderModel, active};
use glassline_media::FrameRate;
use std::fmt;

/// The standard UDP size limit (ST 2110-10 §6.3), and what MAXUDP counts as where it is kept (ST 2110-21 §7.1).
const UDP_BYTES: u32 = 1_460;
const UDP_BYTES_COUNTED: u32 = 1_500;
/// Packets a second from which on type W has no C_MAX (ST 2110-21 §7.1.4).
const UNLIMITED: u32 = 900_000;

/// What a sender is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// Type N: narrow, gapped.
    Narrow,
    /// Type NL: narrow, linear.
    NarrowLinear,
    /// Type W.
    Wide,
    /// None of them, or no frame has come.
    NotCompliant,
}

impl fmt::Display for Class {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Class::Narrow => "narrow",
            Class::NarrowLinear => "narrow linear",
            Class::Wide => "wide",
            Class::NotCompliant => "not compliant",
        })
    }
}

/// What a type of senders may need at most, in packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// C_MAX; `u32::MAX` where there is none.
    pub c_max: u32,
    /// VRX_FULL.
    pub vrx_full: u32,
}

/// How full the virtual receiver buffer was, in packets: one read schedule's VRX.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fullness {
    /// The least; below zero a packet was not there when it was read.
    pub min: i64,
    /// The most.
    pub max: i64,
}

impl Fullness {
    pub(super) const NONE: Fullness = Fullness { min: i64::MAX, max: i64::MIN };

    pub(super) fn include(&mut self, other: Fullness) {
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
    }

    /// Whether a buffer of this size is enough. Without PTP it is not known when the schedule begins: then a buffer is
    /// enough that could begin to read as much later as a packet was late.
    pub(super) fn fits(&self, full: u32, is_by_ptp: bool) -> bool {
        let late = self.min.saturating_neg().max(0);
        if is_by_ptp {
            late == 0 && self.max <= i64::from(full)
        } else {
            self.max.saturating_add(late) <= i64::from(full)
        }
    }
}

/// One frame's timing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameTiming {
    /// Its RTP time stamp.
    pub timestamp: u32,
    /// The most that was in the network's bucket.
    pub cinst_max: u32,
    /// The receiver's buffer, read with the gapped schedule.
    pub gapped: Fullness,
    /// The receiver's buffer, read with the linear schedule.
    pub linear: Fullness,
    /// When its first packet came, in nanoseconds: after the beginning of the frame's period (FPT) by PTP, after where the
    /// frames' own grid begins otherwise.
    pub first_packet_offset: i64,
    /// PTP has told when it was to come.
    pub is_by_ptp: bool,
}

/// What the frames since the last one were.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The strictest type that they keep to.
    pub class: Class,
    /// Schedules are aligned by PTP. Otherwise they begin with the earliest first packet, drift aside, and the class says that
    /// there is an alignment with which they are kept: not that it is the right one.
    pub is_by_ptp: bool,
    /// Frames that are complete.
    pub frames: u64,
    /// The most that was in the network's bucket, C_PEAK.
    pub cinst_max: u32,
    /// The receiver's buffer, read with the gapped schedule; zero before there is a frame.
    pub gapped: Fullness,
    /// The receiver's buffer, read with the linear schedule.
    pub linear: Fullness,
    /// The earliest and the latest first packet, as in [`FrameTiming`].
    pub first_packet_offset: (i64, i64),
    /// What type N may need.
    pub narrow: Limits,
    /// What type NL may need.
    pub narrow_linear: Limits,
    /// What type W may need.
    pub wide: Limits,
}

/// Three of these always have room in what comes out.
fn product(factors: [u32; 3]) -> u128 {
    factors.into_iter().map(u128::from).fold(1, u128::saturating_mul)
}

impl Limits {
    /// Those of types N, NL and W (ST 2110-21 §7.1), for frames of `packets` packets and a description with this
    /// MAXUDP.
    pub fn of(format: &Format, rate: FrameRate, packets: u32, max_udp_bytes: u32) -> [Limits; 3] {
        let (periods, seconds) = (rate.numerator(), rate.denominator());
        // N_PACKETS / (times · ratio · T_FRAME), rounded down.
        let packets_in = |times: u32, Ratio(part, whole): Ratio| {
            let (above, below) = (product([packets, periods, whole]), product([times, seconds, part]));
            above.checked_div(below).and_then(|packets| u32::try_from(packets).ok()).unwrap_or(u32::MAX)
        };
        let udp = if max_udp_bytes <= UDP_BYTES { UDP_BYTES_COUNTED } else { max_udp_bytes };
        let whole = Ratio(1, 1);
        let full = |packets: u32, times| {
            packets_in(times, whole)
                .max(UDP_BYTES_COUNTED.saturating_mul(packets).checked_div(udp).unwrap_or(0))
        };
        let narrow = |model| Limits {
            c_max: packets_in(43_200, active(format, model)).max(4),
            vrx_full: full(8, 27_000),
        };
        let is_unlimited = product([packets, periods, 1]) >= product([UNLIMITED, seconds, 1]);
        let c_max = if is_unlimited { u32::MAX } else { packets_in(21_600, whole).max(16) };
        let wide = Limits { c_max, vrx_full: full(720, 300) };
        [narrow(SenderModel::Gapped), narrow(SenderModel::Linear), wide]
    }
}
