use super::super::plant::Plant;
use super::*;
use crate::capacity::Controller;

fn plant(rate: f64) -> Plant {
    Plant::new(Controller::Scream, rate, Duration::from_millis(25))
}

/// A window of 60 kB, and an acknowledgement of a packet at 1 s; none was lost or marked before.
fn grown() -> (Scream, Feedback) {
    let scream = Scream { window: 60_000.0, rtt: 0.05, ..Scream::new(Time::ZERO) };
    let feedback = Feedback {
        acked_bytes: 1200,
        in_flight: 58_800,
        rtt: Duration::from_millis(50),
        one_way_us: Some(1_025_000),
        ..Feedback::default()
    };
    (scream, feedback)
}

#[test]
fn the_queue_stays_below_its_target_and_the_path_is_used() {
    for rate in [100_000.0, 250_000.0, 1_000_000.0] {
        let mut plant = plant(rate);
        plant.run(10_000);
        let seen = plant.run(20_000);
        assert!(seen.queue < 1e3 * QUEUE_TARGET && seen.longest < 2e3 * QUEUE_TARGET, "{rate} B/s: {seen:?}");
        assert!(seen.rate > 0.7 * rate, "{rate} B/s: {seen:?}");
    }
}

#[test]
fn it_ramps_up_within_seconds() {
    let mut plant = plant(1_000_000.0);
    let first = plant.target();
    plant.run(6_000);
    assert!(plant.target() > 8.0 * first && plant.target() > 500_000.0, "{} of {first}", plant.target());
}

#[test]
fn half_the_path_shortens_the_window() {
    let mut plant = plant(250_000.0);
    plant.run(10_000);
    plant.rate = 125_000.0;
    plant.run(2_000);
    let seen = plant.run(5_000);
    assert!(seen.queue < 1e3 * QUEUE_TARGET, "{seen:?}");
}

#[test]
fn a_loss_leaves_seven_tenths_of_the_window_and_counts_once_a_round_trip() {
    let (mut scream, acked) = grown();
    let lost = Feedback { lost_bytes: 1200, ..acked };
    scream.handle_feedback(Time::from_millis(1000), &lost, 1200.0, (0, false));
    assert_eq!(scream.window, 42_000.0);
    scream.handle_feedback(Time::from_millis(1040), &lost, 1200.0, (0, false));
    assert!((42_000.0..42_100.0).contains(&scream.window), "{}", scream.window);
    scream.handle_feedback(Time::from_millis(1060), &lost, 1200.0, (0, false));
    assert!((29_400.0..29_500.0).contains(&scream.window), "{}", scream.window);
}

#[test]
fn marks_lower_the_window_by_their_kind() {
    let (mut classic, acked) = grown();
    classic.handle_feedback(Time::from_millis(1000), &acked, 1200.0, (1, false));
    assert_eq!(classic.window, 48_000.0);
    let (mut scalable, _) = grown();
    scalable.handle_feedback(Time::from_millis(1000), &acked, 1200.0, (1, true));
    // All were marked for the first time: half of an eighth.
    let expected = 60_000.0 * (1.0 - 0.125 / 2.0 * (1.0 - 1200.0 / 60_000.0));
    assert!((scalable.window - expected).abs() < 1.0, "{} and {expected}", scalable.window);
}

#[test]
fn a_long_queue_lowers_the_window_and_a_spike_does_not() {
    let (mut scream, acked) = grown();
    scream.handle_feedback(Time::from_millis(1000), &acked, 1200.0, (0, false));
    let before = scream.window;
    let late = Feedback { one_way_us: Some(1_025_000 + 90_000), ..acked };
    scream.handle_feedback(Time::from_millis(1030), &late, 1200.0, (0, false));
    assert!(scream.window >= before, "one packet: {} of {before}", scream.window);
    for step in 2..20 {
        scream.handle_feedback(Time::from_millis(1000 + 30 * step), &late, 1200.0, (0, false));
    }
    assert!(scream.window < 0.4 * before, "{} of {before}", scream.window);
}

#[test]
fn the_window_does_not_grow_far_beyond_what_is_sent() {
    let mut plant = plant(10_000_000.0);
    plant.appetite = 0.3;
    plant.run(30_000);
    let seen = plant.run(5_000);
    assert!(plant.target() < 10.0 * seen.rate, "{} of {seen:?}", plant.target());
}
