use super::*;
use proptest::prelude::*;

fn path(to: &str, failed_packets: u64, failure: Option<&str>) -> PathStatistics {
    PathStatistics { to: to.to_owned(), failed_packets, failure: failure.map(str::to_owned) }
}

fn sound(packets: u64, failed_packets: u64) -> Option<SoundStatistics> {
    let failure = Some("192.0.2.1:5006: no route".to_owned());
    Some(SoundStatistics { packets, failed_packets, failure, ..SoundStatistics::default() })
}

fn ancillary(packets: u64, failed_packets: u64) -> Option<AncillaryStatistics> {
    let failure = Some("192.0.2.1:5008: no route".to_owned());
    Some(AncillaryStatistics { packets, failed_packets, failure, captions: None })
}

#[test]
fn what_failed_of_all_paths_is_added_up_and_the_first_reason_is_told() {
    let mut statistics = Statistics::new();
    assert_eq!((statistics.failed_packets(), statistics.failure()), (0, None));
    statistics.paths =
        vec![path("one", 0, None), path("two", 3, Some("no route")), path("three", 4, Some("x"))];
    assert_eq!(statistics.failed_packets(), 7);
    assert_eq!(statistics.failure().as_deref(), Some("two: no route"));
}

#[test]
fn sound_is_lost_when_no_packet_has_left_by_any_path() {
    let mut statistics = Statistics::new();
    statistics.sound = sound(10, 19);
    assert!(statistics.lost_beside([2, 1]).is_none(), "one packet has left by one of two paths");
    statistics.sound = sound(10, 20);
    let error = statistics.lost_beside([2, 1]).expect("nothing has left").to_string();
    assert_eq!(error, "no sound could be sent to 192.0.2.1:5006: no route");
    statistics.sound = sound(0, 0);
    assert!(statistics.lost_beside([2, 1]).is_none(), "there was nothing to send");
}

#[test]
fn lost_ancillary_data_is_named_by_what_it_has() {
    let mut statistics = Statistics::new();
    statistics.sound = sound(10, 0);
    statistics.ancillary = ancillary(5, 5);
    let error =
        |statistics: &Statistics| statistics.lost_beside([1, 1]).expect("nothing has left").to_string();
    assert_eq!(error(&statistics), "no time code could be sent to 192.0.2.1:5008: no route");
    statistics.ancillary.as_mut().unwrap().captions = Some(CaptionStatistics::default());
    assert_eq!(error(&statistics), "no ancillary data could be sent to 192.0.2.1:5008: no route");
}

#[test]
fn of_two_that_are_lost_the_sound_is_told() {
    let mut statistics = Statistics::new();
    (statistics.sound, statistics.ancillary) = (sound(1, 1), ancillary(1, 1));
    assert!(matches!(statistics.lost_beside([1, 1]), Some(Error::Beside { what: "sound", .. })));
}

#[test]
fn the_rate_is_that_of_payloads_over_the_time_they_took() {
    let mut statistics = Statistics::new();
    let least = Bitrate::from_bits_per_second(0);
    assert_eq!(statistics.rate().bits_per_second(), least.bits_per_second(), "no time has passed");
    (statistics.bytes, statistics.duration) = (1_500_000, Duration::from_millis(500));
    assert_eq!(statistics.rate().bits_per_second(), 24_000_000);
}

#[test]
fn a_lateness_beyond_all_measure_counts_as_ten_seconds() {
    let mut lateness = Lateness::new();
    assert_eq!(lateness.quantile(0.5), Duration::ZERO, "nothing was late yet");
    lateness.push(Duration::from_secs(3_600));
    let most = lateness.quantile(1.0);
    assert!(most >= Duration::from_secs(10) && most < Duration::from_millis(10_100), "{most:?}");
}

#[test]
fn all_monitors_of_a_sender_look_at_the_same_figures() {
    let monitor = Monitor::new();
    let other = monitor.clone();
    monitor.update(|statistics| statistics.frames = 7);
    monitor.update_sound(|sound| sound.packets += 2);
    monitor.update_sound(|sound| sound.packets += 3);
    let statistics = other.statistics();
    assert_eq!((statistics.frames, statistics.sound.map(|sound| sound.packets)), (7, Some(5)));
}

proptest! {
    /// Beside the sorted list of all of them. Two digits are kept: one part in a hundred.
    #[test]
    fn a_quantile_is_that_of_the_sorted_latenesses(
        mut micros in prop::collection::vec(0..5_000_000_u64, 1..200), percent in 1..=100_u32,
    ) {
        let mut lateness = Lateness::new();
        micros.iter().for_each(|micros| lateness.push(Duration::from_micros(*micros)));
        micros.sort_unstable();
        let rank = (micros.len() * percent as usize).div_ceil(100);
        // A share that is no exact number may be a hair above the rank: the next one is then as right.
        let least = Duration::from_micros(micros[rank - 1]).mul_f64(0.99);
        let most = Duration::from_micros(micros[rank.min(micros.len() - 1)]).mul_f64(1.01);
        let found = lateness.quantile(f64::from(percent) / 100.0);
        prop_assert!(found >= least && found <= most, "{found:?}, {least:?} to {most:?}");
    }
}
