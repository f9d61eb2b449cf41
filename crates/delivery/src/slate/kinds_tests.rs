//! Kinds of publishers: of variable frame rate, without key frames, without pictures for a while.

use super::*;

#[test]
fn a_publisher_of_variable_frame_rate_is_coded_for_a_few_usual_rates() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(0);
    let mut formats = Vec::new();
    for number in 0..400_i64 {
        publisher.first += (number * number * 7919) % 5000;
        stage.publish(&mut publisher, 1);
        let format = stage.gate.format();
        if formats.last() != Some(&format) {
            formats.push(format);
        }
    }
    let is_usual = |rate: FrameRate| FrameRate::USUAL.contains(&rate) || rate.denominator() == 1;
    assert!(formats.iter().all(|format| is_usual(format.frame_rate)), "{formats:?}");
    assert!(formats.len() <= 3, "{formats:?}");
    // What stands in its place says nothing of it.
    let before = stage.gate.format();
    stage.gate.end_publisher();
    stage.wait(20_000);
    assert_eq!(stage.gate.format().size, before.size);
    for (rate, usual) in
        [((1, 1), 5), ((7, 2), 5), ((9, 1), 10), ((20, 1), 20), ((90, 1), 100), ((999, 1), 120)]
    {
        let rate = FrameRate::new(rate.0, rate.1).unwrap();
        assert_eq!(Format::usual_rate(rate).numerator(), usual, "{rate:?}");
    }
}

#[test]
fn a_publisher_without_a_key_frame_is_shown_from_a_picture_on_after_its_own_12_seconds() {
    let mut stage = Stage::new();
    stage.begin();
    // It has waited for long before it sends.
    stage.wait(60_000);
    let mut publisher = Publisher::usual(7_000_000_000);
    let mut began = None;
    for number in 0..400_i64 {
        publisher.number = 1 + number + number / 24;
        // The tables and the sound in front of each picture are no place to begin at.
        let bytes = publisher.next();
        let (first, rest) = bytes.split_at(PACKET_BYTES);
        stage.push(first).unwrap();
        stage.play();
        stage.push(rest).unwrap();
        began = began.or(Some(number).filter(|_| stage.gate.is_passing()));
        stage.wait(40);
    }
    assert!(began.is_some_and(|began| (300..=330).contains(&began)), "after {began:?} pictures");
    let pictures = stage.pictures();
    let first = stage.shown().into_iter().find(|shown| shown.mark == Some(PUBLISHER)).unwrap();
    assert!(first.codec.is_video());
    assert_steady(&pictures, 2 * STEP);
}

#[test]
fn a_key_frame_behind_which_no_picture_comes_is_shown_after_a_second() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(0);
    let key = publisher.next();
    stage.push(&key).unwrap();
    for number in 1..40 {
        stage.wait(40);
        let mut out = Vec::new();
        let (data, at) = (Silence::USUAL.unit().unwrap(), Ticks(number * STEP));
        let (codec, stamps) = (Codec::Aac, Stamps::default());
        let unit = AccessUnit { codec, data, pts: at, dts: at, random_access: true, stamps };
        publisher.muxer.write(&unit, &mut out).unwrap();
        stage.push(&out).unwrap();
    }
    assert!(stage.gate.is_passing());
}

#[test]
fn the_clock_goes_on_where_pictures_stopped_before_their_publisher_left() {
    let mut stage = Stage::new();
    stage.begin();
    let mut publisher = Publisher::usual(900_000);
    stage.publish(&mut publisher, 50);
    for number in 50..250 {
        let mut out = Vec::new();
        let (data, at) = (Silence::USUAL.unit().unwrap(), Ticks(900_000 + number * STEP));
        let (codec, stamps) = (Codec::Aac, Stamps::default());
        let unit = AccessUnit { codec, data, pts: at, dts: at, random_access: true, stamps };
        publisher.muxer.write(&unit, &mut out).unwrap();
        stage.push(&out).unwrap();
        stage.wait(40);
    }
    let before = stage.shown();
    let heard = before.iter().filter(|unit| unit.codec == Codec::Aac).map(|unit| unit.dts).max().unwrap();
    stage.gate.end_publisher();
    stage.wait(1000);
    let after: Vec<_> = stage.shown().into_iter().skip(before.len()).collect();
    assert!(after.iter().any(|unit| unit.mark == Some(SLATE)));
    assert!(after.iter().all(|unit| unit.dts >= heard - 90_000), "{heard} {after:?}");
    assert!(after.iter().filter(|unit| unit.codec == Codec::Aac).all(|unit| unit.dts > heard));
}

#[test]
fn without_a_reel_a_publisher_that_is_silent_stays() {
    let mut stage = Stage::new();
    stage.gate.set_reel(None);
    stage.begin();
    stage.publish(&mut Publisher::usual(0), 10);
    stage.wait(10_000);
    assert!(stage.gate.is_passing());
    assert_eq!(stage.gate.poll_timeout(&stage.stream, stage.now), None);
    stage.gate.set_reel(Some(reel()));
    stage.play();
    assert!(!stage.gate.is_passing());
}
