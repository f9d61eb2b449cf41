use super::plant::{PICTURE, Plant};
use super::*;
use crate::capacity::Capacity;

const ALL: [Controller; 3] = [Controller::Gcc, Controller::Scream, Controller::Dither];

#[test]
fn what_left_ahead_of_the_target_is_not_handed_over_twice() {
    let mut ahead = Ahead::default();
    // 100 kB/s, and a picture of 5 kB at once: after 20 ms 3 kB of it are ahead.
    let at = Time::from_millis;
    assert_eq!(ahead.bytes(at(20), 5_000, 100_000.0), 3_000.0);
    let feedback = Feedback { acked_bytes: 2_000, in_flight: 3_000, ..Feedback::default() };
    ahead.handle_feedback(at(20), &feedback, 100_000.0);
    assert_eq!(ahead.bytes(at(40), 3_000, 100_000.0), 1_000.0);
    assert_eq!(ahead.bytes(at(60), 0, 100_000.0), 0.0, "what was not sent is not saved up");
    assert_eq!(ahead.bytes(at(60), 90_000, 100_000.0), 10_000.0, "and what was counts for 100 ms at most");
}

#[test]
fn each_sends_pictures_over_a_path_without_a_long_queue() {
    for controller in ALL {
        for (rate, way) in [(250_000.0, 20), (100_000.0, 50)] {
            let mut plant = Plant::new(controller, rate, Duration::from_millis(way));
            plant.run(15_000);
            let seen = plant.run(15_000);
            assert!(seen.rate > 0.5 * rate && seen.queue < 60.0, "{controller:?}, {rate} B/s: {seen:?}");
        }
    }
}

#[test]
fn none_is_led_astray_by_feedback_that_makes_no_sense() {
    let odd = [
        Feedback::default(),
        Feedback { acked_bytes: u64::MAX, lost_bytes: u64::MAX, in_flight: u64::MAX, ..Feedback::default() },
        Feedback { sent_at: Some(Time::NEVER), one_way_us: Some(i64::MAX), ..Feedback::default() },
        Feedback { sent_at: Some(Time::ZERO), one_way_us: Some(i64::MIN), ..Feedback::default() },
        Feedback { rtt: Duration::MAX, least_rtt: Duration::MAX, acked_bytes: 1, ..Feedback::default() },
        Feedback { lost_bytes: 1, lost_sent_at: Some(Time::NEVER), train_ended: true, ..Feedback::default() },
    ];
    for controller in ALL {
        for packet in [0, 1200] {
            let mut capacity = Capacity::new(Time::ZERO, packet, controller);
            for step in 0..600u64 {
                let now = Time::from_millis(step * 7 % 1000);
                capacity.handle_marks(step % 3, step % 2 == 0);
                capacity.handle_feedback(now, &odd[(step * 31 / 7) as usize % odd.len()]);
                let (rate, window) = (capacity.pacing_rate().bytes_per_second(), capacity.window_bytes());
                assert!(
                    rate > 0 && rate < 1_000_000_000 && window > 0,
                    "{controller:?}: {rate} B/s, {window}"
                );
                assert!(capacity.room(now, PICTURE, step).is_finite());
            }
            capacity.handle_new_path(Time::from_millis(9_000));
            assert_eq!(capacity.controller(), controller);
        }
    }
}

#[test]
fn the_links_own_controller_has_no_rival() {
    let fixed = Controller::Fixed(glassline_media::quantity::ByteRate::from_bytes_per_second(1));
    for controller in [Controller::Adaptive, Controller::SALSIFY, fixed] {
        assert!(Rival::new(Time::ZERO, 1200, controller).is_none());
    }
}
