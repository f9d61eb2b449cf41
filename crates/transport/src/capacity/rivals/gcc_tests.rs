use super::super::plant::Plant;
use super::*;
use crate::capacity::Controller;

fn plant(rate: f64) -> Plant {
    Plant::new(Controller::Gcc, rate, Duration::from_millis(25))
}

/// Packets of a steady sender, each of which takes `more` ms longer than the one before it: the signal after so many.
fn signal_after(packets: u32, more: f64) -> Signal {
    let (mut groups, mut trend, mut detector) = (Groups::default(), Trend::default(), Detector::default());
    for packet in 0..packets {
        let left = f64::from(packet) * 6.0;
        if let Some(change) = groups.handle_packet(left, 500.0 + left + f64::from(packet) * more) {
            detector.handle_trend(trend.handle_change(&change), &change);
        }
    }
    detector.signal
}

#[test]
fn packets_that_leave_within_a_burst_are_a_group_and_what_comes_after_an_outage_is_one() {
    let mut groups = Groups::default();
    for (left, came) in [(0.0, 20.0), (4.0, 24.0), (5.0, 25.0), (10.0, 30.0), (14.0, 36.0)] {
        assert_eq!(groups.handle_packet(left, came), None);
    }
    // The second group took 2 ms longer than the first, and all of an outage of 100 ms comes with the third.
    let change = groups.handle_packet(20.0, 140.0).unwrap();
    assert_eq!(change, Change { apart: 9.0, longer: 2.0, came: 36.0 });
    for left in [30.0, 40.0, 50.0] {
        assert_eq!(groups.handle_packet(left, 140.0 + left / 50.0), None, "caught up");
    }
    assert_eq!(groups.handle_packet(45.0, 141.5), None, "overtaken");
}

#[test]
fn a_delay_that_grows_is_over_use_and_one_that_falls_is_under_use() {
    assert_eq!(signal_after(100, 0.0), Signal::Normal);
    assert_eq!(signal_after(100, 0.1), Signal::Normal, "1.7 % too fast");
    assert_eq!(signal_after(100, 1.0), Signal::OverUse, "17 % too fast");
    assert_eq!(signal_after(100, -0.9), Signal::UnderUse);
}

#[test]
fn the_threshold_follows_a_trend_within_its_range_and_no_outlier() {
    let mut detector = Detector::default();
    for group in 0..20 {
        detector.adapt(20.0, f64::from(group) * 10.0);
    }
    assert!((17.0..20.0).contains(&detector.threshold), "{}", detector.threshold);
    (20..220).for_each(|group| detector.adapt(0.0, f64::from(group) * 10.0));
    assert_eq!(detector.threshold, 6.0);
    let before = detector.threshold;
    detector.adapt(100.0, 2_300.0);
    assert_eq!(detector.threshold, before);
}

#[test]
fn the_rate_comes_near_what_the_path_carries_with_a_short_queue() {
    for rate in [100_000.0, 250_000.0] {
        let mut plant = plant(rate);
        plant.run(20_000);
        let seen = plant.run(20_000);
        assert!((0.8..1.0).contains(&(seen.rate / rate)), "{rate} B/s: {seen:?}");
        assert!(seen.queue < 30.0, "{rate} B/s: {seen:?}");
    }
}

#[test]
fn it_rises_by_eight_percent_a_second_far_from_convergence() {
    let mut plant = plant(10_000_000.0);
    plant.run(2_000);
    let before = plant.target();
    plant.run(5_000);
    let growth = (plant.target() / before).powf(0.2);
    assert!((1.07..1.09).contains(&growth), "{growth}");
}

#[test]
fn half_the_path_is_noticed_within_some_round_trips() {
    let mut plant = plant(250_000.0);
    plant.run(20_000);
    plant.rate = 125_000.0;
    plant.run(1_000);
    assert!(plant.target() < 125_000.0, "{}", plant.target());
    let seen = plant.run(5_000);
    assert!(seen.queue < 60.0, "{seen:?}");
}

#[test]
fn many_losses_lower_the_rate_and_few_do_not() {
    let with = |loss| {
        let mut plant = plant(10_000_000.0);
        plant.loss = loss;
        plant.run(10_000);
        plant.target()
    };
    let without = with(0.0);
    assert!(with(0.01) > 0.9 * without, "{} of {without}", with(0.01));
    assert!(with(0.15) < 0.25 * INITIAL_RATE, "{} of {without}", with(0.15));
}

#[test]
fn an_application_that_takes_little_does_not_raise_the_rate_for_ever() {
    let mut plant = plant(10_000_000.0);
    plant.appetite = 0.3;
    plant.run(60_000);
    assert!(plant.target() < 1.2 * INITIAL_RATE, "{}", plant.target());
}
