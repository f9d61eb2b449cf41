use super::*;
use glassline_codec::h264::x264::LookAhead;
use glassline_media::bitstream::h264::{Sei, nals};
use glassline_media::stamps::Record;
use glassline_media::{FrameRate, PixelFormat, Size};

const RATE: FrameRate = FrameRate::new(25, 1).unwrap();

fn delayed() -> Delayed {
    let settings = x264::Settings {
        look_ahead: Some(LookAhead { pictures: 5, b_pictures: Some(2) }),
        threads: 1,
        ..x264::Settings::new(Size::new(64, 64).unwrap(), RATE, 200_000)
    };
    Delayed::open(settings, true, Time::ZERO).unwrap()
}

/// Takes in picture `number`, which was captured when its time was.
fn push(delayed: &mut Delayed, number: u64) -> Option<Unit> {
    let time = Time::ZERO + RATE.time_of(number);
    let mut picture = Picture::new(PixelFormat::I420, Size::new(64, 64).unwrap(), time);
    picture.captured_utc = Some(Utc::from_nanos(number));
    delayed.push(&picture, Ticks::from_time(time), Stamps::captured_at(time), time).unwrap()
}

fn sound(dts: i64) -> AccessUnit {
    let (pts, dts, stamps) = (Ticks(dts), Ticks(dts), Stamps::default());
    AccessUnit { codec: Codec::Opus, data: vec![1].into(), pts, dts, random_access: true, stamps }
}

#[test]
fn a_unit_that_comes_out_has_the_stamps_of_its_own_picture() {
    let mut delayed = delayed();
    let mut units: Vec<Unit> = (0..40).filter_map(|number| push(&mut delayed, number)).collect();
    while let Some(unit) = delayed.flush(Time::from_millis(9_000)).unwrap() {
        units.push(unit);
    }
    assert_eq!(units.len(), 40);
    for unit in &units {
        let number = unit.captured.unwrap().as_nanos();
        assert_eq!(unit.pts, Ticks::from_time(Time::ZERO + RATE.time_of(number)));
        assert_eq!(unit.stamps.at(Stage::Captured), Some(Time::ZERO + RATE.time_of(number)));
        let waited = unit.stamps.between(Stage::Captured, Stage::LookAhead).unwrap();
        assert!(waited >= RATE.time_of(3), "{waited:?}");
    }
    assert!(delayed.behind() >= RATE.time_of(6), "{:?}", delayed.behind());
    let unit = units.swap_remove(3);
    let (captured, stamps) = (unit.captured.unwrap(), unit.stamps.rebased(Time::ZERO));
    let record = Record { own: stamps, ..Record::default() };
    let said = glassline_media::bitstream::h264::write_capture(captured, &record);
    let bytes = unit.into_bytes(Some(&said));
    let first_slice = nals(&bytes).position(|nal| nal.kind().is_slice()).unwrap();
    let mut seis = nals(&bytes).take(first_slice).map(|nal| Sei::parse(nal.payload()));
    let told = seis.find_map(|sei| Some((sei.capture_utc()?, sei.stamp_record()?))).unwrap();
    assert_eq!(told.0, captured);
    assert_eq!(
        told.1.own.between(Stage::Captured, Stage::LookAhead),
        stamps.between(Stage::Captured, Stage::LookAhead)
    );
}

#[test]
fn sound_waits_for_the_pictures_of_its_time() {
    let mut delayed = delayed();
    let at = Time::from_millis(1_000);
    for dts in [0, 450, 900] {
        delayed.hold_sound(sound(dts), at);
    }
    let before = |delayed: &mut Delayed, dts| delayed.sound_before(Ticks(dts)).map(|unit| unit.dts.0);
    assert_eq!(before(&mut delayed, 449), Some(0));
    assert_eq!(before(&mut delayed, 449), None);
    assert_eq!(before(&mut delayed, 450), Some(450));
    // Without pictures it waits as long as they would, and a margin.
    let due = delayed.poll_timeout().unwrap();
    assert_eq!(due, at + delayed.behind() + SOUND_MARGIN);
    assert!(delayed.sound_overdue(Time::from_nanos(due.as_nanos() - 1)).is_none());
    assert_eq!(delayed.sound_overdue(due).map(|unit| unit.dts.0), Some(900));
    assert!(delayed.sound_left().is_none() && delayed.poll_timeout().is_none());
}

#[test]
fn what_waits_when_the_source_stops_comes_out_and_decoding_times_go_on_behind_it() {
    let mut delayed = delayed();
    let mut units: Vec<Unit> = (0..20).filter_map(|number| push(&mut delayed, number)).collect();
    let last = Time::ZERO + RATE.time_of(19);
    assert!(!delayed.is_stalled(last + STALL.mul_f64(0.999)) && delayed.is_stalled(last + STALL));
    while let Some(unit) = delayed.flush(last + STALL).unwrap() {
        units.push(unit);
    }
    assert!(!delayed.is_stalled(Time::from_millis(99_000)), "nothing waits");
    delayed.begin_again().unwrap();
    // The very next picture: its first decoding time would be that of one that is gone.
    units.extend((20..40).filter_map(|number| push(&mut delayed, number)));
    while let Some(unit) = delayed.flush(Time::from_millis(9_000)).unwrap() {
        units.push(unit);
    }
    assert_eq!(units.len(), 40);
    assert!(units.windows(2).all(|pair| pair[0].dts < pair[1].dts));
    assert!(units.iter().all(|unit| unit.dts <= unit.pts));
    let begins = units.iter().find(|unit| unit.captured == Some(Utc::from_nanos(20))).unwrap();
    assert!(begins.random_access);
}
