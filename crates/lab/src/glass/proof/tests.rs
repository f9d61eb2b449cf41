use super::*;
use glassline_measure::barcode::{Barcode, Read};
use glassline_media::bitstream::h264::sei::{USER_DATA_UNREGISTERED, write_message};
use glassline_media::bitstream::h264::{write_capture, write_capture_utc_nal};
use glassline_media::stamps::{ClockAccuracy, Previous, Record};

const UTC_AT_ZERO: u64 = 1_700_000_000_000_000_000;
const INTERVAL: u64 = 20_000;
const PICTURES: u64 = 200;

fn clock(ahead_micros: i64) -> WallClock {
    let utc = Utc::from_nanos(UTC_AT_ZERO.wrapping_add_signed(ahead_micros * 1000));
    WallClock { at: Time::ZERO, utc, whose: "server", uncertainty_ms: Some(0.5) }
}

fn micros(value: u64) -> Time {
    Time::from_nanos(value * 1000)
}

fn captured(number: u64) -> Utc {
    Utc::from_nanos(UTC_AT_ZERO + number * INTERVAL * 1000)
}

fn after(all: &[(Stage, u64)]) -> Stamps {
    all.iter().fold(Stamps::captured_at(Time::ZERO), |stamps, &(stage, at)| stamps.with(stage, micros(at)))
}

/// A picture of 50 a second that says its stages, the last of them 8 ms after capture, and says that it was captured by so much
/// later than it was.
fn unit(number: u64, late_micros: u64) -> Vec<u8> {
    let own = after(&[(Stage::Queued, 500)]);
    let stages = after(&[(Stage::Encoded, 7_000), (Stage::Sent, 8_000)]);
    let previous = (number > 0).then_some(Previous { ago: Duration::from_micros(INTERVAL), stages });
    let record = Record { clock: ClockAccuracy::Unknown, own, previous };
    let payload = write_capture(Utc::from_nanos(captured(number).as_nanos() + late_micros * 1000), &record);
    let mut unit = Vec::new();
    write_message(USER_DATA_UNREGISTERED, &payload, &mut unit);
    unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
    unit
}

fn read(number: u64) -> Read {
    let code = Some(Barcode::new(number, captured(number)));
    Read { top_left: code, bottom_right: code }
}

/// Each picture is received 10 ms and decoded 15 ms after its capture; the decoder gives those that it is to.
fn told_and_seen(clock: WallClock, late: u64, is_given: impl Fn(u64) -> bool) -> (Told, Sights) {
    let (mut told, mut sights) = (Told::default(), Sights::new(clock));
    for number in 0..PICTURES {
        told.unit(&unit(number, late), micros(number * INTERVAL + 10_000));
        if is_given(number) {
            sights.push(&read(number), micros(number * INTERVAL + 15_000));
        }
    }
    told.finish();
    (told, sights)
}

fn proof(clock: WallClock, late: u64, is_given: impl Fn(u64) -> bool) -> Proof {
    let (told, sights) = told_and_seen(clock, late, is_given);
    Proof::new(&told, &sights)
}

fn p50(all: &Option<Distribution>) -> f64 {
    all.map_or(f64::NAN, |all| (all.p50 * 1e3).round() / 1e3)
}

#[test]
fn honest_stages_add_up_to_the_age_that_barcodes_say() {
    let proof = proof(clock(0), 0, |_| true);
    let steps: Vec<_> = proof.steps.iter().map(|step| (step.to, (step.ms.p50 * 1e3).round() / 1e3)).collect();
    let expected = [
        (Stage::Queued, 0.5),
        (Stage::Encoded, 6.5),
        (Stage::Sent, 1.0),
        (Stage::Received, 2.0),
        (Stage::Decoded, 5.0),
    ];
    assert_eq!(steps, expected);
    assert_eq!((p50(&proof.sum_ms), p50(&proof.barcode_ms), p50(&proof.apart_ms)), (15.0, 15.0, 0.0));
    // The first second is left out, and the last picture waits for another one.
    assert_eq!((proof.compared, proof.without_stages, proof.paired_by), (149, 1, "order"));
}

#[test]
fn a_capture_time_that_is_wrong_is_found_even_by_whole_pictures() {
    for late in [3_000, INTERVAL, 2 * INTERVAL] {
        let proof = proof(clock(100_000), late, |_| true);
        assert_eq!(p50(&proof.difference_ms), -(late as f64) / 1e3, "{late}");
        assert_eq!(p50(&proof.apart_ms), late as f64 / 1e3, "{late}");
    }
}

#[test]
fn where_the_decoder_leaves_pictures_out_capture_times_pair_and_it_is_said() {
    let proof = proof(clock(0), 3_000, |number| number != 70 && number != 2);
    assert_eq!((proof.compared, proof.paired_by), (148, "capture_time"));
    assert_eq!((p50(&proof.difference_ms), proof.apart_ms.unwrap().max.round()), (-3.0, 3.0));
    assert!(
        proof.notes().iter().any(|note| note.contains("nearest to their capture")),
        "{:?}",
        proof.notes()
    );
}

#[test]
fn pictures_from_the_future_are_counted_and_not_compared() {
    let proof = proof(clock(-30_000), 0, |_| true);
    assert_eq!((proof.compared, proof.from_the_future, proof.sum_ms), (0, 149, None));
    assert_eq!(proof.future_ms_max.map(f64::round), Some(28.0));
    let notes = proof.notes();
    assert!(notes.iter().all(|note| !note.contains("Nothing is compared")), "{notes:?}");
    assert!(notes.iter().any(|note| note.contains("from the future")), "{notes:?}");
}

#[test]
fn a_sender_that_says_late_that_it_has_sent_is_compared_all_the_same() {
    // Here it came 4 ms before it was sent, and was decoded 1 ms after that.
    let proof = proof(clock(-6_000), 0, |_| true);
    assert_eq!((proof.compared, proof.from_the_future), (149, 149));
    assert!(proof.steps.iter().all(|step| step.to != Stage::Received), "{:?}", proof.steps);
    assert_eq!((p50(&proof.sum_ms), p50(&proof.apart_ms)), (9.0, 0.0));
}

#[test]
fn what_a_stream_leaves_out_is_said() {
    let sights = told_and_seen(clock(0), 0, |_| true).1;
    for (says_capture, note) in [(true, "does not say its stages"), (false, "Nothing is compared")] {
        let mut told = Told::default();
        for number in 0..PICTURES {
            let mut unit = Vec::new();
            if says_capture {
                write_capture_utc_nal(captured(number), &mut unit);
            }
            unit.extend_from_slice(&[0, 0, 1, 0x41, 0x9a]);
            told.unit(&unit, micros(number * INTERVAL + 10_000));
        }
        told.finish();
        assert_eq!(told.units(), PICTURES);
        let proof = Proof::new(&told, &sights);
        assert!(proof.notes().iter().any(|found| found.contains(note)), "{:?}", proof.notes());
        assert_eq!(proof.compared, if says_capture { 150 } else { 0 });
        if says_capture {
            let steps: Vec<_> = proof.steps.iter().map(|step| step.to).collect();
            assert_eq!((steps, p50(&proof.apart_ms)), (vec![Stage::Received, Stage::Decoded], 0.0));
        }
    }
}

#[test]
fn ages_come_from_barcodes_alone() {
    let sights = told_and_seen(clock(0), 5_000, |_| true).1;
    assert_eq!((sights.pictures(), sights.unread(), sights.ages_ms().count()), (200, 0, 150));
    assert!(sights.ages_ms().all(|age| (age - 15.0).abs() < 0.01));
    assert_eq!(sights.figures().unwrap().age_ms.count, 150);
}
