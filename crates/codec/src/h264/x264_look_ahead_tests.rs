use super::super::x264::{Encoder, Level, Profile, RateControl, Tune};
use super::*;
use crate::h264::x264::Crf;
use glassline_media::bitstream::h264::{self, NalType, Sps};
use glassline_media::{FrameRate, Time};
use proptest::prelude::*;

fn settings(pictures: u32, b_pictures: u32) -> Settings {
    let size = Size::new(192, 112).unwrap();
    Settings {
        threads: 2,
        look_ahead: Some(LookAhead { pictures, b_pictures: Some(b_pictures) }),
        ..Settings::new(size, FrameRate::new(25, 1).unwrap(), 300_000)
    }
}

/// A texture that moves.
fn picture(number: u64) -> Picture {
    let mut picture = Picture::new(PixelFormat::I420, Size::new(192, 112).unwrap(), Time::ZERO);
    for (y, line) in picture.planes_mut()[0].lines_mut().enumerate() {
        for (x, sample) in line.iter_mut().enumerate() {
            let place = (x as u64 + 2 * number) / 4 * 7919 + y as u64 / 4 * 104_729;
            *sample = (40 + (place.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 57)) as u8;
        }
    }
    picture
}

struct Unit {
    coded: Coded,
    bytes: Vec<u8>,
    head_bytes: usize,
    /// Pictures that had gone in.
    behind: usize,
}

/// What comes out for pictures with these time stamps, of which those in `keys` are asked to be key frames.
fn run(encoder: &mut LookAheadEncoder, stamps: &[i64], keys: &[usize]) -> Vec<Unit> {
    let mut units = Vec::new();
    for (number, pts) in stamps.iter().enumerate() {
        if keys.contains(&number) {
            encoder.force_key_frame();
        }
        let mut taken = None;
        let mut take = |unit: DelayedUnit<'_>| taken = Some((unit.bytes.to_vec(), unit.head_bytes));
        let coded = encoder.push(&picture(number as u64), Ticks(*pts), &mut take).unwrap();
        assert_eq!(coded.is_some(), taken.is_some());
        if let (Some(coded), Some((bytes, head_bytes))) = (coded, taken) {
            units.push(Unit { coded, bytes, head_bytes, behind: number + 1 });
        }
    }
    loop {
        let mut taken = None;
        let mut take = |unit: DelayedUnit<'_>| taken = Some((unit.bytes.to_vec(), unit.head_bytes));
        let Some(coded) = encoder.flush(&mut take).unwrap() else { return units };
        let (bytes, head_bytes) = taken.unwrap();
        units.push(Unit { coded, bytes, head_bytes, behind: stamps.len() });
    }
}

fn kinds(bytes: &[u8]) -> Vec<NalType> {
    h264::nals(bytes).map(|nal| nal.kind()).collect()
}

#[test]
fn each_picture_comes_out_once_after_as_many_as_it_looks_ahead() {
    let mut encoder = LookAheadEncoder::new(&settings(20, 3)).unwrap();
    let stamps: Vec<i64> = (0..100).map(|number| 3600 * number).collect();
    let units = run(&mut encoder, &stamps, &[0, 50]);
    let mut pts: Vec<i64> = units.iter().map(|unit| unit.coded.pts.0).collect();
    assert!(!pts.is_sorted(), "there are B-pictures");
    pts.sort_unstable();
    assert_eq!(pts, stamps);
    assert!(units[0].behind > 20, "{} pictures", units[0].behind);
    assert!(units[0].behind <= encoder.delay_pictures() as usize + 1);
    let keys: Vec<i64> =
        units.iter().filter(|unit| unit.coded.random_access).map(|unit| unit.coded.pts.0 / 3600).collect();
    assert_eq!(keys, [0, 25, 50, 75]);
    for unit in &units {
        let Unit { coded, bytes, head_bytes, .. } = unit;
        assert_eq!(bytes.len(), coded.bytes);
        let (head, slices) = (kinds(&bytes[..*head_bytes]), kinds(&bytes[*head_bytes..]));
        assert!(head[0] == NalType::AccessUnitDelimiter && head.iter().all(|kind| !kind.is_slice()));
        assert_eq!(head.contains(&NalType::Sps), coded.random_access);
        assert_eq!((slices.len(), slices[0].is_slice()), (1, true), "one slice: they cost bits");
    }
}

#[test]
fn without_pictures_to_look_at_they_wait_for_b_pictures_alone() {
    let mut settings = settings(0, 2);
    settings.threads = 1;
    let mut encoder = LookAheadEncoder::new(&settings).unwrap();
    assert!(encoder.delay_pictures() <= 3, "{}", encoder.delay_pictures());
    let units = run(&mut encoder, &(0..30).map(|number| 3600 * number).collect::<Vec<_>>(), &[]);
    assert_eq!(units.len(), 30);
    assert!(units[0].behind <= 4, "{}", units[0].behind);
}

#[test]
fn what_does_not_go_with_a_look_ahead_is_refused_with_what_does() {
    let refused = |settings: Settings| LookAheadEncoder::new(&settings).err().unwrap().to_string();
    let base = settings(20, 3);
    let far = refused(settings(251, 3));
    assert!(far.contains("251") && far.contains("10 s of 25 pictures a second, 5 s of 50"), "{far}");
    assert!(refused(settings(20, 17)).contains("between 0 and 16"));
    assert!(refused(Settings { intra_refresh: true, ..base.clone() }).contains("no delay"));
    assert!(refused(Settings { filler: true, ..base.clone() }).contains("no delay"));
    assert!(
        refused(Settings { rate_control: RateControl::Predicted, ..base.clone() }).contains("x264's own")
    );
    assert!(refused(Settings { profile: Some(Profile::Baseline), ..base.clone() }).contains("main or high"));
    assert!(refused(Settings { references: Some(17), ..base.clone() }).contains("between 1 and 16"));
    assert!(refused(Settings { look_ahead: None, ..base.clone() }).contains("0 to 250"));
    let level: Level = "1.1".parse().unwrap();
    let low = refused(Settings { level: Some(level), ..base.clone() });
    assert!(low.contains("kbit/s of 240") && low.contains("1.2 or more"), "{low}");
    assert!(Encoder::new(&base).err().unwrap().to_string().contains("without delay"));
}

#[test]
fn the_parameter_sets_say_profile_level_and_references() {
    for (profile, idc) in [(Profile::Main, 77), (Profile::High, 100)] {
        let settings = Settings {
            profile: Some(profile),
            level: Some("2.1".parse().unwrap()),
            references: Some(5),
            tune: Some(Tune::Film),
            crf: Crf::from_hundredths(2_350),
            ..settings(10, 2)
        };
        let mut encoder = LookAheadEncoder::new(&settings).unwrap();
        let unit = &run(&mut encoder, &[0, 3600], &[])[0];
        let sps = h264::nals(&unit.bytes).find(|nal| nal.kind() == NalType::Sps).unwrap();
        let sps = Sps::parse(sps.payload()).unwrap();
        assert_eq!((sps.profile, sps.level, sps.reference_frames), (idc, 21, 5));
    }
}

#[test]
fn a_picture_of_another_size_or_time_harms_nothing() {
    let mut encoder = LookAheadEncoder::new(&settings(5, 1)).unwrap();
    let mut none = |_: DelayedUnit<'_>| panic!("no unit comes out");
    encoder.push(&picture(0), Ticks(10), &mut none).unwrap();
    assert!(matches!(
        encoder.push(&picture(1), Ticks(10), &mut none),
        Err(CodecError::TimeStamp { found: Ticks(10), last: Ticks(10), .. })
    ));
    let other = Picture::new(PixelFormat::I420, Size::new(64, 64).unwrap(), Time::ZERO);
    assert!(matches!(encoder.push(&other, Ticks(11), &mut none), Err(CodecError::Input { .. })));
    assert!(encoder.set_bitrate(5).is_err() && encoder.set_preset("fastest").is_err());
    encoder.set_bitrate(400_000).unwrap();
    encoder.set_preset("ultrafast").unwrap();
    assert_eq!(encoder.bitrate_bps(), 400_000);
    assert_eq!(run(&mut encoder, &[20, 30], &[]).len(), 3);
}

#[test]
fn a_panic_of_what_takes_a_unit_waits_for_x264() {
    let mut settings = settings(0, 0);
    settings.threads = 1;
    let mut encoder = LookAheadEncoder::new(&settings).unwrap();
    let pushed = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        (0..9).for_each(|number| {
            let _ = encoder.push(&picture(number), Ticks(number as i64), &mut |_| panic!("the taker's own"));
        });
    }));
    assert_eq!(pushed.unwrap_err().downcast_ref::<&str>(), Some(&"the taker's own"));
    assert!(encoder.push(&picture(20), Ticks(20), &mut |_| ()).is_ok());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]
    /// Pictures that are missing, and jumps, move both stamps, and never one behind the other.
    #[test]
    fn units_come_in_the_order_of_decoding_whatever_the_time_stamps(
        steps in proptest::collection::vec(1i64..20_000, 1..60),
        look_ahead in 0u32..30,
        b_pictures in 0u32..5,
        key in 0usize..60,
    ) {
        let mut encoder = LookAheadEncoder::new(&settings(look_ahead, b_pictures)).unwrap();
        let stamps: Vec<i64> = steps.iter().scan(-50_000, |at, step| { *at += step; Some(*at) }).collect();
        let units = run(&mut encoder, &stamps, &[key]);
        let mut pts: Vec<i64> = units.iter().map(|unit| unit.coded.pts.0).collect();
        pts.sort_unstable();
        prop_assert_eq!(pts, stamps);
        prop_assert!(units.iter().all(|unit| unit.coded.dts <= unit.coded.pts));
        prop_assert!(units.windows(2).all(|pair| pair[0].coded.dts < pair[1].coded.dts));
    }
}
