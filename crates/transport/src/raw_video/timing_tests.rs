//! Senders of all kinds, and what they are called.

use super::*;
use glassline_media::{Chroma, FrameRate, PixelFormat, Size, Time};
use proptest::prelude::*;
use std::time::Duration;

const START: Time = Time::from_millis(5_000);

fn settings(height: u32, scan: Scan, rate: (u32, u32), packets: u32) -> TimingSettings {
    let size = Size::new(1920, height).unwrap();
    let format = Format::new(PixelFormat::pgroups(Chroma::Yuv422, 10).unwrap(), size, scan).unwrap();
    let rate = FrameRate::new(rate.0, rate.1).unwrap();
    TimingSettings { format, rate, packets_per_frame: packets, max_udp_bytes: 1_460, ptp: None }
}

/// 1080p60 as most senders cut it.
fn usual() -> TimingSettings {
    settings(1080, Scan::Progressive, (60, 1), 4320)
}

/// A whole number of each rate's periods since the PTP epoch, in seconds: when [`START`] is.
const EPOCH: u64 = 1_748_252 * 1_001;

/// PTP's clock, for a sender whose stamps begin at −90,000 at [`START`].
fn ptp() -> PtpClock {
    let direct = ((EPOCH * 90_000) as u32).wrapping_add(90_000).wrapping_neg();
    PtpClock { ahead: Duration::from_secs(EPOCH) - START.since(Time::ZERO), direct }
}

/// A sender: its schedule, and how many packets leave at once.
struct Sender {
    settings: TimingSettings,
    schedule: Schedule,
    burst: u32,
}

impl Sender {
    fn new(settings: TimingSettings, model: SenderModel) -> Sender {
        let schedule = Schedule::new(settings.rate, settings.packets_per_frame, &settings.format, model);
        Sender { settings, schedule, burst: 1 }
    }

    /// Sends frames; `late` says by how much a packet is late, by its frame and by when it is due in it.
    fn send(
        &self,
        timing: &mut Timing,
        frames: std::ops::Range<u64>,
        late: impl Fn(u64, Duration) -> Duration,
    ) {
        let TimingSettings { rate, packets_per_frame, format, .. } = self.settings;
        let half = packets_per_frame.div_ceil(2);
        for frame in frames {
            let base = START + rate.time_of(frame);
            let mut index = 0;
            while index < packets_per_frame {
                let is_second = format.scan() == Scan::Interlaced && index >= half;
                let end =
                    if format.scan() == Scan::Interlaced && !is_second { half } else { packets_per_frame };
                let count = self.burst.min(end - index);
                let stamp = rate.time_of(2 * frame + u64::from(is_second)) / 2;
                let stamp = (stamp.as_nanos() * 90_000 / 1_000_000_000) as u32;
                let is_start = index == 0;
                let offset = self.schedule.offset(index);
                timing.push(base + offset + late(frame, offset), count, stamp.wrapping_sub(90_000), is_start);
                index += count;
            }
        }
    }

    fn verdict(&self, frames: u64, late: impl Fn(u64, Duration) -> Duration) -> Verdict {
        let mut timing = Timing::new(self.settings);
        self.send(&mut timing, 0..frames, late);
        timing.report()
    }
}

fn none(_: u64, _: Duration) -> Duration {
    Duration::ZERO
}

#[test]
fn limits_are_those_of_the_standard() {
    let verdict = Timing::new(usual()).report();
    assert_eq!(verdict.narrow, Limits { c_max: 6, vrx_full: 9 });
    assert_eq!(verdict.narrow_linear, Limits { c_max: 6, vrx_full: 9 });
    assert_eq!(verdict.wide, Limits { c_max: 16, vrx_full: 864 });
    assert_eq!((verdict.class, verdict.frames, verdict.gapped.max), (Class::NotCompliant, 0, 0));
    let uhd = Timing::new(settings(2160, Scan::Progressive, (60_000, 1_001), 17_280)).report();
    assert_eq!(uhd.narrow, Limits { c_max: 24, vrx_full: 38 });
    assert_eq!(uhd.narrow_linear, Limits { c_max: 23, vrx_full: 38 });
    assert_eq!(uhd.wide, Limits { c_max: u32::MAX, vrx_full: 3_452 });
    let small = Timing::new(settings(486, Scan::Interlaced, (30_000, 1_001), 500)).report();
    assert_eq!(
        (small.narrow, small.wide),
        (Limits { c_max: 4, vrx_full: 8 }, Limits { c_max: 16, vrx_full: 720 })
    );
    let jumbo = TimingSettings { max_udp_bytes: 8_960, packets_per_frame: 700, ..usual() };
    let jumbo = Timing::new(jumbo).report();
    assert_eq!((jumbo.narrow.vrx_full, jumbo.wide.vrx_full), (1, 140));
}

#[test]
fn an_even_sender_is_narrow() {
    let verdict = Sender::new(usual(), SenderModel::Gapped).verdict(20, none);
    assert_eq!((verdict.class, verdict.frames, verdict.is_by_ptp), (Class::Narrow, 19, false));
    assert!(verdict.cinst_max <= 1 && verdict.gapped.min >= 0 && verdict.gapped.max <= 1, "{verdict:?}");
    assert_eq!(verdict.class.to_string(), "narrow");
    let verdict = Sender::new(usual(), SenderModel::Linear).verdict(20, none);
    assert_eq!(verdict.class, Class::NarrowLinear);
    assert!(verdict.gapped.min < -100, "the gapped schedule is done sooner: {verdict:?}");
}

#[test]
fn bursts_of_12_are_wide_and_of_48_nothing() {
    for model in [SenderModel::Gapped, SenderModel::Linear] {
        let verdict = |burst| Sender { burst, ..Sender::new(usual(), model) }.verdict(10, none);
        let (twelve, many) = (verdict(12), verdict(48));
        assert_eq!((twelve.class, twelve.cinst_max), (Class::Wide, 12));
        assert_eq!(many.class, Class::NotCompliant);
        assert!(many.cinst_max >= 48);
        assert_eq!(verdict(4).class, Sender::new(usual(), model).verdict(10, none).class);
    }
}

#[test]
fn a_late_frame_finds_the_buffer_empty() {
    let late = |frame, _| if frame == 5 { Duration::from_micros(500) } else { Duration::ZERO };
    let sender = Sender::new(usual(), SenderModel::Gapped);
    let verdict = sender.verdict(10, late);
    assert!((-135..-130).contains(&verdict.gapped.min), "{verdict:?}");
    assert_eq!(verdict.class, Class::Wide, "a wide receiver may wait as long");
    assert!((490_000..=500_000).contains(&verdict.first_packet_offset.1));
}

#[test]
fn a_sender_that_stalls_is_not_compliant_until_the_bucket_is_empty_again() {
    let sender = Sender::new(usual(), SenderModel::Gapped);
    let mut timing = Timing::new(usual());
    let stall =
        |frame, due| if frame == 5 { Duration::from_millis(6).saturating_sub(due) } else { Duration::ZERO };
    sender.send(&mut timing, 0..8, stall);
    let verdict = timing.take();
    assert_eq!((verdict.class, verdict.frames), (Class::NotCompliant, 7));
    assert!(verdict.gapped.min < -1_000 && verdict.cinst_max > 1_000);
    assert!(timing.frame().unwrap().gapped.min >= 0, "the next frames are in time again");
    // The network's bucket loses a tenth of a frame each period.
    sender.send(&mut timing, 8..14, none);
    let _ = timing.take();
    sender.send(&mut timing, 14..18, none);
    assert_eq!(timing.take().class, Class::Narrow);
}

#[test]
fn by_ptp_the_schedule_is_known() {
    let (clock, ptp) = (ptp(), Some(ptp()));
    let sender = Sender::new(TimingSettings { ptp, ..usual() }, SenderModel::Gapped);
    let verdict = sender.verdict(10, none);
    assert_eq!((verdict.class, verdict.is_by_ptp), (Class::Narrow, true));
    let first = sender.schedule.offset(0).as_nanos() as i64;
    assert!((verdict.first_packet_offset.0 - first).abs() <= 1, "{verdict:?}");
    // All frames are late: their own grid does not show it.
    let late = sender.verdict(10, |_, _| Duration::from_micros(50));
    assert_eq!((late.class, late.is_by_ptp), (Class::NotCompliant, true));
    assert!(late.gapped.min < 0);
    // A stamp of another clock: back to the grid.
    let ptp = Some(PtpClock { direct: clock.direct ^ 1 << 30, ..clock });
    let other = Sender::new(TimingSettings { ptp, ..usual() }, SenderModel::Gapped);
    let verdict = other.verdict(10, |_, _| Duration::from_micros(50));
    assert_eq!((verdict.class, verdict.is_by_ptp), (Class::Narrow, false));
}

#[test]
fn a_clock_that_differs_and_lost_packets_are_no_lateness() {
    for ppm in [-80i64, 80] {
        let sender = Sender::new(usual(), SenderModel::Gapped);
        let mut timing = Timing::new(usual());
        let drift =
            |frame: u64, _| Duration::from_nanos((10_000_000 + frame as i64 * 16_667 * ppm / 1_000) as u64);
        sender.send(&mut timing, 0..200, drift);
        assert_eq!(timing.report().class, Class::Narrow, "{ppm} ppm: {:?}", timing.report());
    }
    let mut timing = Timing::new(usual());
    let schedule = Schedule::new(usual().rate, 4320, &usual().format, SenderModel::Gapped);
    for frame in 0..5u64 {
        for index in (0..4320).filter(|index| !(1_000..1_100).contains(index)) {
            if index == 1_100 {
                timing.skip(100);
            }
            let at = START + usual().rate.time_of(frame) + schedule.offset(index);
            timing.push(at, 1, frame as u32 * 1_500, index == 0);
        }
    }
    assert_eq!(timing.report().class, Class::Narrow);
}

proptest! {
    #[test]
    fn who_keeps_to_the_schedule_is_compliant(
        raster in prop::sample::select(vec![
            (486, Scan::Interlaced), (576, Scan::Interlaced), (1080, Scan::Interlaced), (1080, Scan::Segmented),
            (720, Scan::Progressive), (1080, Scan::Progressive), (2160, Scan::Progressive),
        ]),
        rate in prop::sample::select(vec![
            (24, 1), (24_000, 1_001), (25, 1), (30, 1), (30_000, 1_001), (50, 1), (60, 1), (60_000, 1_001), (120, 1),
        ]),
        packets in 4u32..6_000, is_linear: bool, has_ptp: bool,
    ) {
        let model = if is_linear { SenderModel::Linear } else { SenderModel::Gapped };
        let ptp = has_ptp.then_some(ptp());
        let settings = TimingSettings { ptp, ..settings(raster.0, raster.1, rate, packets) };
        let sender = Sender::new(settings, model);
        let verdict = sender.verdict(6, none);
        let expected = if is_linear { Class::NarrowLinear } else { Class::Narrow };
        // Of few packets the schedules are hardly two.
        let is_either = packets < 450 && verdict.class == Class::Narrow;
        prop_assert!(verdict.class == expected || is_either, "{:?}", verdict);
        prop_assert_eq!(verdict.is_by_ptp, has_ptp);
        prop_assert!(verdict.cinst_max <= 2);
    }

    #[test]
    fn no_packets_panic(
        packets in 0u32..100, calls in prop::collection::vec((any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>()), 0..50),
        ahead in any::<u64>(), segmented: bool,
    ) {
        let scan = if segmented { Scan::Segmented } else { Scan::Interlaced };
        let ptp = Some(PtpClock { ahead: Duration::from_nanos(ahead), direct: 7 });
        let mut timing = Timing::new(TimingSettings { ptp, ..settings(1080, scan, (u32::MAX, 1), packets) });
        for (at, packets, timestamp, is_start) in calls {
            timing.push(Time::from_nanos(at), packets, timestamp, is_start);
            timing.skip(packets);
        }
        let _ = timing.take();
    }
}
