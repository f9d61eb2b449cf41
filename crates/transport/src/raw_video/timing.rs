//! Whether a sender keeps to ST 2110-21, by its packets' arrivals.
//!
//! Two models are fed with each packet:
//! ```text
//!  network compatibility (§6.6.1)                 virtual receiver buffer (§6.6.2)
//!   packets ──► │ C_INST │ ──► one each T_DRAIN    packets ──► │ VRX │ ──► one at each T_PR of the read schedule
//!               at most C_MAX                                 at least 0, at most VRX_FULL
//! ```
//! ```text
//!  T_DRAIN    = T_FRAME / N_PACKETS / 1.1
//!  C_MAX      : N   max(4, ⌊N_PACKETS / (43,200 · R_ACTIVE · T_FRAME)⌋)
//!               NL  max(4, ⌊N_PACKETS / (43,200 · T_FRAME)⌋)
//!               W   max(16, ⌊N_PACKETS / (21,600 · T_FRAME)⌋), below 900,000 packets a second
//!  VRX_FULL   : N, NL  max(⌊1,500 · 8 / MAXUDP⌋, ⌊N_PACKETS / (27,000 · T_FRAME)⌋)
//!               W      max(⌊1,500 · 720 / MAXUDP⌋, ⌊N_PACKETS / (300 · T_FRAME)⌋)
//! ```
//! The limits are those of ST 2110-21 §7.1, and agree with EBU LIST's and Intel's Media Transport Library's. C_INST counts the
//! packet that enters, so it is one at least (LIST shows one less); a packet that comes within its own read slot is not late,
//! as in LIST. Type N is read with the gapped schedule, NL and W with the linear one. The bucket's drains are counted from the
//! first packet, as LIST does, and not from the epoch.
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::cast_possible_truncation,
        clippy::cast_possible_wrap,
        clippy::cast_sign_loss
    )
)]

use super::format::{Format, Scan};
use super::media_clock::wrapped;
use super::schedule::{Ratio, Schedule, SenderModel, active, second_field};
use super::verdict::{Class, FrameTiming, Fullness, Limits, Verdict};
use crate::counter::count;
use glassline_media::{FrameRate, Time};
use std::time::Duration;

/// The drain of the network's bucket is faster than the mean by this, β (ST 2110-21 §6.6.1).
const DRAIN_FACTOR: f64 = 1.1;
/// Ticks a second of video's RTP clock.
const CLOCK: u64 = 90_000;
/// How old a frame may be by its stamp, and how far in the future, in ticks, for its stamp and PTP to be believed to be one clock.
const OLDEST: i64 = CLOCK.cast_signed();
const FUTURE: i64 = OLDEST / 200;
/// By how much the sender's clock may be slower than ours. What comes late by more than this was late.
const SLOWER_PPM: i64 = 100;
/// A frame that is further away than this from where its stamp says begins the grid anew.
const JUMP: u64 = 500_000_000;
/// Reads that are counted at most: after hours of silence it does not matter how many more there were.
const READS_MAX: f64 = 1e12;

/// How our clock is related to PTP's, and stamps to both.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PtpClock {
    /// What PTP (TAI since 1970) is ahead of [`Time`].
    pub ahead: Duration,
    /// What stamps are ahead of PTP's ticks: the offset of `a=mediaclk:direct=`.
    pub direct: u32,
}

/// What is judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimingSettings {
    /// The frames' raster and scan.
    pub format: Format,
    /// Whole frames a second.
    pub rate: FrameRate,
    /// Packets of a whole frame, both fields together; at least 1.
    pub packets_per_frame: u32,
    /// The session description's MAXUDP, in bytes; 1,460, the standard size, where it has none.
    pub max_udp_bytes: u32,
    /// Where arrivals are stamped by a clock that PTP disciplines.
    pub ptp: Option<PtpClock>,
}

/// When packets are read.
#[derive(Clone, Copy, Debug)]
struct Reads {
    /// Packets a nanosecond.
    speed: f64,
    /// Packets before the gap between fields, and when it is over.
    gap: Option<(i64, i64)>,
}

impl Reads {
    /// How many packets are read so long after the first one is due.
    fn until(&self, elapsed: i64) -> i64 {
        let count = |elapsed: i64| match elapsed {
            ..0 => 0,
            0.. => floor((elapsed as f64 * self.speed).min(READS_MAX)).saturating_add(1),
        };
        match self.gap {
            Some((first, over)) if elapsed >= over => {
                first.saturating_add(count(elapsed.saturating_sub(over)))
            }
            Some((first, _)) => count(elapsed).min(first),
            None => count(elapsed),
        }
    }
}

/// What is summed up of frames.
#[derive(Clone, Copy, Debug)]
struct Sum {
    frames: u64,
    by_ptp: u64,
    cinst_max: u32,
    gapped: Fullness,
    linear: Fullness,
    first: (i64, i64),
}

impl Sum {
    const NONE: Sum = Sum {
        frames: 0,
        by_ptp: 0,
        cinst_max: 0,
        gapped: Fullness::NONE,
        linear: Fullness::NONE,
        first: (i64::MAX, i64::MIN),
    };
}

/// The frame that is coming.
#[derive(Clone, Copy, Debug)]
struct Current {
    timing: FrameTiming,
    /// When its first packet is read, in nanoseconds of [`Time`].
    due: i64,
    received: i64,
}

/// The grid of the frames themselves: by their stamps, as early as the earliest of them.
#[derive(Clone, Copy, Debug)]
struct Grid {
    /// When frame 0 begins, in nanoseconds of [`Time`].
    base: i64,
    /// The last frame's number and stamp.
    last: (u64, u32),
}

/// Judges one path's packets, live. Bounded memory: one frame's state.
///
/// Cost: about ten nanoseconds a call (one core at 3 GHz), so packets that came at the same time are best put in with one. Of two paths that carry the
/// same packets (ST 2022-7) each has its own.
#[derive(Clone, Debug)]
pub struct Timing {
    settings: TimingSettings,
    limits: [Limits; 3],
    gapped: Reads,
    linear: Reads,
    /// T_RO, in nanoseconds.
    offset: i64,
    /// Packets a nanosecond that the network's bucket loses.
    drain: f64,
    /// What is in the bucket, the part of a packet that it will lose, and until when that is known.
    bucket: (i64, f64, Time),
    grid: Option<Grid>,
    current: Option<Current>,
    frame: Option<FrameTiming>,
    sum: Sum,
}

impl Timing {
    /// Before the first packet.
    pub fn new(settings: TimingSettings) -> Timing {
        let TimingSettings { format, rate, packets_per_frame, .. } = settings;
        let packets = packets_per_frame.max(1);
        let frame_nanos = 1e9 / rate.as_f64();
        let mean = f64::from(packets) / frame_nanos;
        let reads = |model| {
            let Ratio(part, whole) = active(&format, model);
            let has_gap = model == SenderModel::Gapped && format.scan() != Scan::Progressive;
            let Ratio(later, than) = second_field(&format);
            let second = floor(frame_nanos * f64::from(later) / f64::from(than));
            let gap = has_gap.then_some((i64::from(packets.div_ceil(2)), second));
            Reads { speed: mean * f64::from(whole) / f64::from(part), gap }
        };
        let schedule = Schedule::new(rate, packets, &format, SenderModel::Gapped);
        Timing {
            settings: TimingSettings { packets_per_frame: packets, ..settings },
            limits: Limits::of(&settings.format, settings.rate, packets, settings.max_udp_bytes),
            gapped: reads(SenderModel::Gapped),
            linear: reads(SenderModel::Linear),
            offset: i64::try_from(schedule.first_offset().as_nanos()).unwrap_or(i64::MAX),
            drain: mean * DRAIN_FACTOR,
            bucket: (0, 0.0, Time::ZERO),
            grid: None,
            current: None,
            frame: None,
            sum: Sum::NONE,
        }
    }

    /// How our clock is related to PTP's from the next frame on; `None` where that is no longer known.
    pub fn set_ptp(&mut self, ptp: Option<PtpClock>) {
        self.settings.ptp = ptp;
    }

    /// Takes packets that came at `at`, all of one frame. `is_start`: the first of them begins a frame, with its first
    /// field where it has two. Packets before the first start fill the network's bucket only. Times are not to go back.
    pub fn push(&mut self, at: Time, packets: u32, timestamp: u32, is_start: bool) {
        if packets == 0 {
            return;
        }
        let cinst = self.fill(at, packets);
        if is_start {
            self.begin(at, timestamp);
        }
        let Some(current) = &mut self.current else { return };
        let elapsed = nanos(at).saturating_sub(current.due);
        let (first, last) =
            (current.received.saturating_add(1), current.received.saturating_add(i64::from(packets)));
        current.received = last;
        let after = |read: i64| Fullness { min: first.saturating_sub(read), max: last.saturating_sub(read) };
        let timing = &mut current.timing;
        timing.cinst_max = timing.cinst_max.max(cinst);
        timing.gapped.include(after(self.gapped.until(elapsed)));
        timing.linear.include(after(self.linear.until(elapsed)));
    }

    /// Packets of the current frame that are lost: they are no reason for the buffer to be empty.
    pub fn skip(&mut self, packets: u32) {
        if let Some(current) = &mut self.current {
            current.received = current.received.saturating_add(i64::from(packets));
        }
    }

    /// The last frame that is complete.
    pub fn frame(&self) -> Option<FrameTiming> {
        self.frame
    }

    /// What the frames were, since the beginning or the last [`Timing::take`].
    pub fn report(&self) -> Verdict {
        let (sum, [narrow, narrow_linear, wide]) = (&self.sum, self.limits);
        let is_by_ptp = sum.frames > 0 && sum.by_ptp == sum.frames;
        let keeps = |limits: Limits, fullness: &Fullness| {
            sum.cinst_max <= limits.c_max && fullness.fits(limits.vrx_full, is_by_ptp)
        };
        let class = if sum.frames == 0 {
            Class::NotCompliant
        } else if keeps(narrow, &sum.gapped) {
            Class::Narrow
        } else if keeps(narrow_linear, &sum.linear) {
            Class::NarrowLinear
        } else if keeps(wide, &sum.linear) {
            Class::Wide
        } else {
            Class::NotCompliant
        };
        let known = |fullness| if sum.frames > 0 { fullness } else { Fullness { min: 0, max: 0 } };
        Verdict {
            class,
            is_by_ptp,
            frames: sum.frames,
            cinst_max: sum.cinst_max,
            gapped: known(sum.gapped),
            linear: known(sum.linear),
            first_packet_offset: if sum.frames > 0 { sum.first } else { (0, 0) },
            narrow,
            narrow_linear,
            wide,
        }
    }

    /// The same, and the next report begins with the next complete frame.
    pub fn take(&mut self) -> Verdict {
        let verdict = self.report();
        self.sum = Sum::NONE;
        verdict
    }

    /// Puts packets into the network's bucket, and returns what is in it.
    fn fill(&mut self, at: Time, packets: u32) -> u32 {
        let (level, part, until) = self.bucket;
        let drained = at.as_nanos().saturating_sub(until.as_nanos()) as f64 * self.drain + part;
        let whole = floor(drained);
        let level = level.saturating_sub(whole).max(0).saturating_add(i64::from(packets));
        self.bucket = (level, drained - whole as f64, until.max(at));
        u32::try_from(level).unwrap_or(u32::MAX)
    }

    /// A frame begins, and the one before it is complete.
    fn begin(&mut self, at: Time, timestamp: u32) {
        if let Some(Current { timing, .. }) = self.current.take() {
            count(&mut self.sum.frames, 1);
            count(&mut self.sum.by_ptp, timing.is_by_ptp.into());
            self.sum.cinst_max = self.sum.cinst_max.max(timing.cinst_max);
            self.sum.gapped.include(timing.gapped);
            self.sum.linear.include(timing.linear);
            let offset = timing.first_packet_offset;
            self.sum.first = (self.sum.first.0.min(offset), self.sum.first.1.max(offset));
            self.frame = Some(timing);
        }
        let own = self.by_grid(at, timestamp);
        let ptp = self.by_ptp(at, timestamp);
        let due = ptp.map_or(own, |begin| begin.saturating_add(self.offset));
        let timing = FrameTiming {
            timestamp,
            cinst_max: 0,
            gapped: Fullness::NONE,
            linear: Fullness::NONE,
            first_packet_offset: nanos(at).saturating_sub(ptp.unwrap_or(own)),
            is_by_ptp: ptp.is_some(),
        };
        self.current = Some(Current { timing, due, received: 0 });
    }

    /// Frames, in so many seconds.
    fn pace(&self) -> (u128, u128) {
        let TimingSettings { rate, .. } = self.settings;
        (u128::from(rate.numerator()), u128::from(rate.denominator()))
    }

    /// When period `number` begins, in nanoseconds after the first one, rounded down.
    fn begin_of(&self, number: u128) -> u64 {
        let (periods, seconds) = self.pace();
        let nanos = number.saturating_mul(seconds).saturating_mul(1_000_000_000).checked_div(periods);
        nanos.and_then(|nanos| u64::try_from(nanos).ok()).unwrap_or(u64::MAX)
    }

    /// When a frame's period begins by PTP, in nanoseconds of [`Time`]: the multiple of the period that puts the first
    /// packet nearest to the one that came. The stamp alone does not tell: it is of capture, and a sender's work takes
    /// whole frames. `None` where PTP is not known, or the stamp is not of its clock.
    fn by_ptp(&self, at: Time, timestamp: u32) -> Option<i64> {
        let PtpClock { ahead, direct } = self.settings.ptp?;
        let tai = at.as_nanos().checked_add(u64::try_from(ahead.as_nanos()).ok()?)?;
        let (periods, seconds) = self.pace();
        let first = u128::from(tai.checked_sub(self.offset.unsigned_abs())?);
        let number = rounded(first.saturating_mul(periods), seconds.saturating_mul(1_000_000_000));
        let begin = self.begin_of(number);
        let ticks = wrapped(u128::from(begin).saturating_mul(u128::from(CLOCK)) / 1_000_000_000);
        let age = i64::from(ticks.wrapping_add(direct).wrapping_sub(timestamp).cast_signed());
        let (begin, ahead) = (i64::try_from(begin).ok()?, i64::try_from(ahead.as_nanos()).ok()?);
        (-FUTURE..=OLDEST).contains(&age).then(|| begin.checked_sub(ahead))?
    }

    /// When a frame's first packet was to come by the frames' own grid, in nanoseconds of [`Time`].
    fn by_grid(&mut self, at: Time, timestamp: u32) -> i64 {
        let at = nanos(at);
        let (periods, seconds) = self.pace();
        let anew = Grid { base: at, last: (0, timestamp) };
        let Some(Grid { base, last: (before, stamp) }) = self.grid else {
            self.grid = Some(anew);
            return at;
        };
        let step = u128::from(timestamp.wrapping_sub(stamp));
        let passed = rounded(step.saturating_mul(periods), seconds.saturating_mul(u128::from(CLOCK)));
        let number = before.saturating_add(u64::try_from(passed).unwrap_or(u64::MAX));
        let [begin_before, begin] =
            [before, number].map(|number| i64::try_from(self.begin_of(number.into())).unwrap_or(i64::MAX));
        let expected = base.saturating_add(begin);
        if at.abs_diff(expected) > JUMP {
            self.grid = Some(anew);
            return at;
        }
        let passed = begin.saturating_sub(begin_before);
        let allowed = (passed / 1_000_000).saturating_mul(SLOWER_PPM);
        let base = base.saturating_add(at.saturating_sub(expected).min(allowed));
        self.grid = Some(Grid { base, last: (number, timestamp) });
        base.saturating_add(begin)
    }
}

/// How many parts a value is, to the nearest; a rate has no part that is 0.
fn rounded(value: u128, part: u128) -> u128 {
    value.saturating_add(part / 2).checked_div(part).unwrap_or(0)
}

/// The whole part of a number that is not below 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "a cast of a float saturates, and makes zero of what is no number"
)]
fn floor(value: f64) -> i64 {
    value as i64
}

fn nanos(at: Time) -> i64 {
    i64::try_from(at.as_nanos()).unwrap_or(i64::MAX)
}
