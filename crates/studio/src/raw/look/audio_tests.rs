use super::*;
use glassline_media::AudioBlock;

const RATE_HZ: u32 = 48_000;

fn levels(channels: usize) -> Levels {
    Levels {
        clock: Clock::new(),
        media_clock: MediaClock::with_rate(None, RATE_HZ),
        clocks: Clocks::default(),
        peaks: vec![0.0; channels],
        run: None,
        last_timestamp: 0,
        ticks: 0,
    }
}

fn block(samples: &[f32], channels: u8) -> Block {
    let captured = Time::from_millis(1_000);
    let audio = AudioBlock { samples: samples.to_vec(), channels, rate_hz: RATE_HZ, captured };
    Block { audio, timestamp: 0, is_silence: false }
}

fn millis(millis: u64) -> Time {
    Time::from_millis(millis)
}

#[test]
fn a_peak_is_the_largest_sample_of_its_channel_whatever_its_sign() {
    let mut levels = levels(2);
    levels.push(&block(&[0.25, -0.5, -0.125, 0.0], 2));
    levels.push(&block(&[0.0, 0.25], 2));
    assert_eq!(levels.peaks, [0.25, 0.5]);
}

#[test]
fn decibels_are_below_full_scale_and_silence_has_none() {
    assert_eq!((decibels(1.0), decibels(0.0)), (Some(0.0), None));
    let half = decibels(0.5).expect("it is no silence");
    assert!((half + 6.020_599_913).abs() < 1e-6, "{half}");
}

#[test]
fn sound_without_a_clock_in_common_is_dated_by_its_arrival() {
    let mut levels = levels(1);
    levels.push(&block(&[0.0; 48], 1));
    assert_eq!((levels.clocks.captured_by, levels.clocks.age_ms), (Some("arrivals"), None));
}

#[test]
fn the_senders_clock_is_followed_by_its_stamps_over_their_arrivals() {
    let mut levels = levels(1);
    for packet in 0..=100_u32 {
        levels.follow(u32::MAX.wrapping_add(48 * packet), millis(2 * u64::from(packet)), RATE_HZ);
    }
    assert_eq!((levels.ticks, levels.run), (4_800, Some((millis(0), millis(200)))));
}

#[test]
fn a_leap_of_stamps_begins_the_run_anew() {
    let mut levels = levels(1);
    levels.follow(0, millis(0), RATE_HZ);
    levels.follow(48, millis(1), RATE_HZ);
    levels.follow(48 + RATE_HZ, millis(2), RATE_HZ);
    assert_eq!((levels.ticks, levels.run), (0, Some((millis(2), millis(2)))));
    levels.follow(96 + RATE_HZ, millis(3), RATE_HZ);
    assert_eq!((levels.ticks, levels.run), (48, Some((millis(2), millis(3)))));
}

#[test]
fn a_packet_that_comes_late_changes_nothing_of_the_run() {
    let mut levels = levels(1);
    levels.follow(960, millis(0), RATE_HZ);
    levels.follow(1_056, millis(2), RATE_HZ);
    levels.follow(1_008, millis(3), RATE_HZ);
    assert_eq!((levels.ticks, levels.run), (96, Some((millis(0), millis(2)))));
    levels.follow(1_104, millis(3), RATE_HZ);
    assert_eq!(levels.ticks, 144, "the next one goes on from the newest");
}

#[test]
fn packets_that_are_of_no_use_are_not_among_those_that_came_once() {
    let counters =
        rtp::Counters { received: 100, duplicate: 10, late: 3, stray: 2, lost: 5, reordered: 4, restarts: 1 };
    let found = merged(&counters, 7);
    assert_eq!((found.packets, found.duplicates, found.late), (85, 10, 3));
    assert_eq!((found.lost, found.reordered, found.refused, found.restarts), (5, 4, 7, 1));
    assert_eq!(found.kernel_drops, 0, "that is counted by path");
}
