use super::*;
use proptest::prelude::*;

#[test]
fn a_frame_of_the_grid_that_is_a_whole_frame_late_takes_the_next_place() {
    let rate = FrameRate::new(50, 1).unwrap();
    let mut timing = Timing::Grid { first: Time::from_millis(1000), rate, slot: 0 };
    let at = Time::from_millis;
    assert_eq!(timing.begin(None, at(990)), (Some(at(1000)), false));
    assert_eq!(timing.begin(None, at(1030)), (Some(at(1020)), false), "it catches up");
    assert_eq!(timing.begin(None, at(1200)), (Some(at(1200)), true));
    assert_eq!(timing.begin(None, at(1201)), (Some(at(1220)), false));
    let mut captured = Timing::Captured { delay: Duration::from_millis(20) };
    assert_eq!(captured.begin(Some(at(1000)), at(1010)), (Some(at(1020)), false));
}

const FIFTY: FrameRate = FrameRate::new(50, 1).unwrap();

fn grid() -> Timing {
    Timing::Grid { first: Time::from_millis(1_000), rate: FIFTY, slot: 0 }
}

#[test]
fn a_frame_that_goes_as_soon_as_it_can_begins_at_no_time_in_particular() {
    let mut timing = Timing::Unlimited;
    assert_eq!(timing.begin(Some(Time::from_millis(5)), Time::from_millis(9)), (None, false));
}

#[test]
fn a_frame_whose_capture_is_not_known_was_captured_now() {
    let mut timing = Timing::Captured { delay: Duration::from_millis(20) };
    assert_eq!(timing.begin(None, Time::from_millis(1_010)), (Some(Time::from_millis(1_030)), false));
    // One that comes late keeps the time of its capture.
    let late = timing.begin(Some(Time::from_millis(500)), Time::from_millis(1_010));
    assert_eq!(late, (Some(Time::from_millis(520)), false));
}

#[test]
fn a_frame_is_late_by_a_whole_period_and_not_by_just_that() {
    let at = Time::from_millis;
    assert_eq!(grid().begin(None, at(1_020)), (Some(at(1_000)), false));
    let (began, is_skipped) = grid().begin(None, at(1_020) + Duration::from_nanos(1));
    assert_eq!((began, is_skipped), (Some(at(1_020)), true));
}

#[test]
fn whole_frames_in_some_time_are_counted_less_the_one_that_is_stepped_anyway() {
    let millis = |millis| periods(Duration::from_millis(millis), FIFTY);
    assert_eq!([0, 19, 20, 39, 40, 100].map(millis), [0, 0, 0, 0, 1, 4]);
    assert_eq!(periods(Duration::MAX, FrameRate::new(u32::MAX, 1).unwrap()), 0, "more than can be counted");
}

proptest! {
    /// Whatever holds the sender up, frames lie on the grid, each behind the one before, and none begins a whole period ago.
    #[test]
    fn frames_of_a_grid_have_different_places_that_are_not_over(
        steps in prop::collection::vec(0u64..90_000_000, 1..60), above in 1u32..200, below in 1u32..4,
    ) {
        let rate = FrameRate::new(above, below).unwrap();
        let first = Time::from_millis(1_000);
        let mut timing = Timing::Grid { first, rate, slot: 0 };
        let (mut now, mut last) = (first, None);
        for step in steps {
            now += Duration::from_nanos(step);
            let (began, is_skipped) = timing.begin(None, now);
            let began = began.expect("a grid has times");
            let number = rate.pictures_in(began.since(first));
            prop_assert_eq!(began, first + rate.time_of(number));
            prop_assert!(now.since(began) <= rate.time_of(1), "{:?} at {:?}", began, now);
            prop_assert_eq!(is_skipped, number != last.map_or(0, |last| last + 1));
            prop_assert!(last.is_none_or(|last| number > last));
            last = Some(number);
        }
    }
}
