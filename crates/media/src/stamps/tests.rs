//! Whatever was stamped: what is told of it is possible.

use super::*;
use proptest::prelude::*;

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

fn step(from: Stage, to: Stage, millis: u64) -> Step {
    Step { from, to, time: Duration::from_millis(millis) }
}

#[test]
fn the_budget_skips_stages_that_were_not_passed() {
    let stamps = Stamps::captured_at(at(10)).with(Stage::Encoded, at(17)).with(Stage::Sent, at(18));
    let budget: Vec<_> = stamps.budget().collect();
    let expected = [step(Stage::Captured, Stage::Encoded, 7), step(Stage::Encoded, Stage::Sent, 1)];
    assert_eq!(budget, expected);
    assert_eq!(stamps.between(Stage::Captured, Stage::Sent), Some(Duration::from_millis(8)));
    assert_eq!(stamps.between(Stage::Captured, Stage::Shown), None);
}

#[test]
fn a_stage_before_its_predecessor_or_a_minute_behind_it_is_unknown() {
    let early = Stamps::captured_at(at(10)).with(Stage::Queued, at(9)).with(Stage::Encoded, at(15));
    assert_eq!(early.between(Stage::Captured, Stage::Queued), None);
    assert_eq!(early.budget().collect::<Vec<_>>(), [step(Stage::Captured, Stage::Encoded, 5)]);
    let late = Stamps::captured_at(at(10)).with(Stage::Queued, at(60_011)).with(Stage::Encoded, at(15));
    assert_eq!(late.budget().collect::<Vec<_>>(), [step(Stage::Captured, Stage::Encoded, 5)]);
}

#[test]
fn what_lies_in_the_future_is_forgotten() {
    let stamps = Stamps::captured_at(at(10)).with(Stage::Sent, at(21)).with(Stage::FirstSent, at(12));
    let checked = stamps.checked(at(20));
    assert_eq!(checked, Stamps::captured_at(at(10)).with(Stage::FirstSent, at(12)));
    assert_eq!(stamps.checked(at(70_011)).at(Stage::Captured), None);
}

#[test]
fn stamps_move_to_another_clock_with_what_lies_before_capture() {
    let stamps = Stamps::captured_at(at(10)).with(Stage::Arrived, at(7)).with(Stage::Queued, at(12));
    let moved = stamps.rebased(at(1_000));
    assert_eq!(
        moved,
        Stamps::captured_at(at(1_000)).with(Stage::Arrived, at(997)).with(Stage::Queued, at(1_002))
    );
    assert_eq!(stamps.rebased(at(2)).at(Stage::Arrived), None);
    assert_eq!(Stamps::default().with(Stage::Queued, at(3)).rebased(at(2)), Stamps::default());
    assert_eq!(
        moved.or(&Stamps::default().with(Stage::Sent, at(9)).with(Stage::Queued, at(1))).at(Stage::Queued),
        Some(at(1_002))
    );
}

#[test]
fn stages_stand_where_their_stamps_do_and_have_names_and_numbers_of_their_own() {
    for (index, stage) in Stage::ALL.into_iter().enumerate() {
        assert_eq!(stage as usize, index);
        assert_eq!(Stage::from_code(stage.code()), Some(stage));
        let same = |other: &&Stage| other.name() == stage.name() || other.label() == stage.label();
        assert_eq!(Stage::ALL.iter().filter(same).count(), 1, "{stage:?}");
    }
    assert_eq!(Stage::from_code(Stage::ALL.len() as u8), None);
    assert_eq!((Stage::way().next(), Stage::way().last()), (Some(Stage::Captured), Some(Stage::Shown)));
    // `send` and `receive` of before have these.
    assert_eq!((Stage::Encoded.code(), Stage::Shown.code()), (2, 8));
}

proptest! {
    #[test]
    fn whatever_was_stamped_steps_are_possible_and_add_up(
        times in proptest::collection::vec(proptest::option::of(prop_oneof![0u64..1_000, 0u64..200_000, any::<u64>()]), 19),
        now: u64,
    ) {
        let mut stamps = Stamps::default();
        for (stage, time) in Stage::ALL.into_iter().zip(times) {
            stamps.set(stage, time.map_or(Time::NEVER, |millis| Time::from_nanos(millis.saturating_mul(1_000_000))));
        }
        let steps: Vec<_> = stamps.budget().collect();
        for pair in steps.windows(2) {
            prop_assert_eq!(pair[0].to, pair[1].from);
        }
        if let (Some(first), Some(last)) = (steps.first(), steps.last()) {
            let sum: Duration = steps.iter().map(|step| step.time).sum();
            prop_assert_eq!(stamps.at(first.from).unwrap() + sum, stamps.at(last.to).unwrap());
            prop_assert!(steps.iter().all(|step| step.time <= STAGE_LONGEST));
        }
        let now = Time::from_nanos(now);
        let checked = stamps.checked(now);
        let known: Vec<Time> = Stage::way().filter_map(|stage| checked.at(stage)).collect();
        prop_assert!(known.is_sorted() && known.iter().all(|time| *time <= now));
        prop_assert_eq!(checked.checked(now), checked);
        prop_assert_eq!(checked.budget().count(), known.len().saturating_sub(1));
    }
}
