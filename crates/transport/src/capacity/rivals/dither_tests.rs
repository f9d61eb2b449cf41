use super::super::plant::Plant;
use super::*;
use crate::capacity::Controller;
use std::time::Duration;

fn plant(rate: f64) -> Plant {
    Plant::new(Controller::Dither, rate, Duration::from_millis(25))
}

#[test]
fn trains_tell_what_a_path_carries_that_is_not_filled() {
    for rate in [150_000.0, 500_000.0, 2_000_000.0] {
        let mut plant = plant(rate);
        plant.run(10_000);
        let seen = plant.run(10_000);
        let known = plant.capacity.bandwidth().bytes_per_second() as f64 / rate;
        assert!((0.8..1.1).contains(&known), "{rate} B/s: {known}");
        let used = seen.rate / rate;
        assert!((0.45..0.7).contains(&used), "{rate} B/s: {used}");
        // A frame's own packets behind each other, and no more.
        assert!(seen.queue < 20.0, "{rate} B/s: {seen:?}");
    }
}

#[test]
fn the_estimate_rises_fast_and_without_overshoot() {
    let mut plant = plant(1_500_000.0);
    let first = plant.target();
    let seen = plant.run(3_000);
    assert!(plant.target() > 4.0 * first, "{} of {first}", plant.target());
    assert!(seen.longest < 50.0, "{seen:?}");
}

#[test]
fn what_others_send_is_not_available() {
    let mut plant = plant(500_000.0);
    plant.others = 250_000.0;
    plant.run(20_000);
    let known = plant.capacity.bandwidth().bytes_per_second() as f64;
    assert!((180_000.0..330_000.0).contains(&known), "{known}");
    let seen = plant.run(5_000);
    assert!(seen.queue < 30.0, "{seen:?}");
}

#[test]
fn half_the_path_is_noticed() {
    let mut plant = plant(500_000.0);
    plant.run(10_000);
    plant.rate = 250_000.0;
    plant.run(3_000);
    let known = plant.capacity.bandwidth().bytes_per_second() as f64;
    assert!(known < 1.15 * 250_000.0, "{known}");
}

#[test]
fn losses_lower_the_size_of_frames_once_a_round_trip() {
    let mut dither = Dither::default();
    let before = dither.target;
    let lost = |sent| Feedback {
        lost_bytes: 1200,
        lost_sent_at: Some(Time::from_millis(sent)),
        ..Feedback::default()
    };
    let most = dither.most();
    dither.handle_feedback(Time::from_millis(100), &lost(50), 1200.0, (0, false));
    assert_eq!(dither.congestion.size, BETA * most);
    dither.handle_feedback(Time::from_millis(110), &lost(60), 1200.0, (0, false));
    assert_eq!(dither.congestion.size, BETA * most, "sent before the first was answered");
    dither.handle_feedback(Time::from_millis(190), &lost(120), 1200.0, (0, false));
    dither.handle_feedback(Time::from_millis(290), &lost(220), 1200.0, (0, false));
    assert!(dither.target < before, "{} of {before}", dither.target);
}

#[test]
fn frames_become_so_large_that_they_measure_the_path() {
    // Each frame is acknowledged at once, so that it is unknown over what time it came, and the rate is at its least.
    let mut dither = Dither { estimate: Some(1.0), ..Dither::default() };
    for frame in 0..UNMEASURED {
        assert_eq!(dither.target > LEAST_TARGET, frame == 0, "{frame}: {}", dither.target);
        let feedback = Feedback {
            acked_bytes: 2000,
            sent_at: Some(Time::from_millis(33 * u64::from(frame))),
            one_way_us: Some(20_000),
            train: frame,
            train_ended: true,
            ..Feedback::default()
        };
        dither.handle_feedback(Time::from_millis(33 * u64::from(frame) + 40), &feedback, 1200.0, (0, false));
    }
    assert_eq!(dither.target, MEASURABLE * 1200.0);
}

#[test]
fn the_pace_is_dithered_where_the_path_does_not_limit() {
    let mut dither = Dither::default();
    let paces: Vec<f64> = (0..200)
        .map(|_| {
            dither.aim();
            dither.pace / dither.period
        })
        .collect();
    let (least, most) = paces.iter().fold((1.0f64, 0.0f64), |sum, pace| (sum.0.min(*pace), sum.1.max(*pace)));
    let mean = paces.iter().sum::<f64>() / 200.0;
    assert!(least >= 0.149 && most <= 0.451 && most > 2.5 * least, "{least} to {most}");
    assert!((mean - 0.3).abs() < 0.02, "{mean}");
}

#[test]
fn the_line_finds_where_both_times_are_equal() {
    // A path of 1 MB/s, of which others take half: what leaves over 1.2 µs a byte comes over 1.6 µs.
    let mut line = Line::default();
    for step in 0..100 {
        let sent = 1e-6 * (1.0 + 0.1 * f64::from(step % 7));
        line.add(sent, 1e-6 + 0.5 * sent);
    }
    assert!((line.slope() - 0.5).abs() < 1e-6, "{}", line.slope());
    assert!((line.estimate() * 1e6 - 2.0).abs() < 0.1, "{}", line.estimate());
}
