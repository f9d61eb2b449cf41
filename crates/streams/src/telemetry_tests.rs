use super::*;
use std::time::Duration;

fn audience(behind: &[u32], slow: u32) -> Audience {
    let mut audience = Audience { behind_ms: behind.to_vec(), ..Audience::default() };
    behind.iter().for_each(|millis| audience.behind.observe(*millis));
    audience.why[Why::Network as usize] = slow;
    audience.why[Why::Fine as usize] = behind.len() as u32 - slow;
    audience
}

fn at(millis: u64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn a_second_is_due_when_it_is_over() {
    let telemetry = Telemetry::new(at(0));
    assert!(!telemetry.is_due(at(999)) && telemetry.is_due(at(1_000)));
    telemetry.record(at(1_000), Audience::default(), Moment::default());
    assert!(!telemetry.is_due(at(1_001)) && telemetry.is_due(at(2_000)));
}

#[test]
fn viewers_of_the_last_second_are_told_and_those_of_all_seconds_add_up() {
    let telemetry = Telemetry::new(at(0));
    telemetry.record(at(1_000), audience(&[10, 20, 4_000], 1), Moment::default());
    telemetry.record(at(2_000), audience(&[30], 0), Moment::default());
    let (why, behind, ever) = telemetry.figures();
    assert_eq!((why[Why::Fine as usize], why[Why::Network as usize]), (1, 0));
    assert_eq!((behind.count(), behind.sum_ms), (1, 30));
    assert_eq!((ever.count(), ever.sum_ms), (4, 4_060));
}

#[test]
fn another_process_goes_on_with_what_was_counted() {
    let before = Telemetry::new(at(0));
    before.record(at(1_000), audience(&[10, 20], 1), Moment { bytes_in: 5_000, ..Moment::default() });
    let bytes = rmp_serde::to_vec_named(&before.state()).unwrap();
    let after = Telemetry::restore(rmp_serde::from_slice(&bytes).unwrap());
    assert_eq!(after.figures(), before.figures());
    assert_eq!(after.read(History::began), before.read(History::began));
    assert!(!after.is_due(at(1_999)) && after.is_due(at(2_000)));
    after.record(at(2_000), audience(&[40], 0), Moment::default());
    assert_eq!(after.figures().2.sum_ms, 70);
}

#[test]
fn a_panic_under_the_lock_costs_no_more_than_its_second() {
    let telemetry = std::sync::Arc::new(Telemetry::new(at(0)));
    telemetry.record(at(1_000), audience(&[10], 0), Moment::default());
    let read = std::sync::Arc::clone(&telemetry);
    let torn = std::thread::spawn(move || read.read(|_| panic!("a test's"))).join();
    assert!(torn.is_err());
    assert_eq!(telemetry.figures().1.sum_ms, 10);
    telemetry.record(at(1_000) + Duration::from_secs(1), audience(&[20], 0), Moment::default());
    assert_eq!(telemetry.figures().2.sum_ms, 30);
}
