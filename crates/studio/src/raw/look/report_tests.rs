use super::*;
use glassline_transport::raw_video::Counters;
use proptest::prelude::*;

const NARROW: Limits = Limits { c_max: 4, vrx_full: 8 };
const WIDE: Limits = Limits { c_max: u32::MAX, vrx_full: 720 };

fn verdict(class: Class) -> Verdict {
    Verdict {
        class,
        is_by_ptp: true,
        frames: 9,
        cinst_max: 3,
        gapped: Fullness { min: -1, max: 7 },
        linear: Fullness { min: 2, max: 6 },
        first_packet_offset: (-1_500, 2_250),
        narrow: NARROW,
        narrow_linear: Limits { c_max: 5, vrx_full: 9 },
        wide: WIDE,
    }
}

#[test]
fn a_verdict_is_told_in_packets_and_microseconds() {
    let report = TimingReport::from(verdict(Class::Narrow));
    assert_eq!((report.class, report.is_by_ptp, report.frames, report.cinst_max), ("narrow", true, 9, 3));
    assert_eq!((report.vrx_gapped, report.vrx_linear), ([-1, 7], [2, 6]));
    assert_eq!(report.first_packet_us, [-1.5, 2.25]);
    assert_eq!(report.narrow, LimitReport { cmax: Some(4), vrx_full: 8 });
    assert_eq!(report.narrow_linear, LimitReport { cmax: Some(5), vrx_full: 9 });
}

#[test]
fn a_type_without_a_limit_of_bursts_has_none_in_the_report() {
    assert_eq!(LimitReport::from(WIDE), LimitReport { cmax: None, vrx_full: 720 });
}

#[test]
fn each_class_is_told_by_its_name() {
    let classes = [Class::Narrow, Class::NarrowLinear, Class::Wide, Class::NotCompliant];
    let names = classes.map(|class| TimingReport::from(verdict(class)).class);
    assert_eq!(names, ["narrow", "narrow linear", "wide", "not compliant"]);
}

#[test]
fn what_a_receiver_counts_is_told_of_the_merged_stream() {
    let counters = Counters {
        packets: 100,
        lost: 2,
        reordered: 3,
        duplicates: 4,
        late: 5,
        refused: 6,
        restarts: 7,
        ..Counters::default()
    };
    let report = receive::Report { counters, kernel_drops: 8, ..receive::Report::default() };
    let wanted = Merged {
        packets: 100,
        lost: 2,
        reordered: 3,
        duplicates: 4,
        late: 5,
        refused: 6,
        restarts: 7,
        kernel_drops: 8,
    };
    assert_eq!(Merged::from(&report), wanted);
}

proptest! {
    #[test]
    fn a_range_goes_from_the_least_value_to_the_most(values in prop::collection::vec(any::<u64>(), 1..50)) {
        let range = values.iter().fold(None, |range, value| Some(Range::including(range, *value)));
        let (min, max) = (*values.iter().min().unwrap(), *values.iter().max().unwrap());
        prop_assert_eq!(range, Some(Range { min, max }));
    }

    #[test]
    fn a_spread_has_the_mean_of_all_values(values in prop::collection::vec(-1e6..1e6_f64, 1..50)) {
        let spread = values.iter().fold(None, |spread, value| Some(Spread::including(spread, *value)));
        let Spread { count, min, mean, max } = spread.unwrap();
        let wanted = values.iter().sum::<f64>() / values.len() as f64;
        prop_assert_eq!(count, values.len() as u64);
        prop_assert!((mean - wanted).abs() < 1e-6, "{mean} for {wanted}");
        prop_assert_eq!(min, values.iter().copied().fold(f64::INFINITY, f64::min));
        prop_assert_eq!(max, values.iter().copied().fold(f64::NEG_INFINITY, f64::max));
    }
}
