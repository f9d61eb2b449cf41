use super::*;
use glassline_test_support::skip;

fn open(test: &str, settings: Settings) -> Option<Encoder> {
    match Encoder::new(settings) {
        Ok(encoder) => Some(encoder),
        Err(absent @ CodecError::Absent { .. }) => {
            // Where the library lies, it must open.
            assert!(!glassline_test_support::has_library("libavcodec.so."), "{absent}");
            skip(test, &absent.to_string());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

fn tone(frames: usize, channels: u8, captured: Time) -> AudioBlock {
    let sample = |n: usize| 0.4 * (n as f32 / 48_000.0 * 440.0 * std::f32::consts::TAU).sin();
    let samples = (0..frames).flat_map(|n| std::iter::repeat_n(sample(n), channels.into())).collect();
    AudioBlock { samples, channels, rate_hz: RATE_HZ, captured }
}

#[test]
fn every_frame_is_one_adts_frame_with_its_time() {
    for channels in [1, 2] {
        let settings = Settings { channels, bitrate_bps: 64_000 * u32::from(channels) };
        let Some(mut encoder) = open("every_frame_is_one_adts_frame_with_its_time", settings) else { return };
        assert_eq!((encoder.lag_samples(), encoder.delay_samples()), (1024, 3072));
        let origin = Time::from_millis(1000);
        let mut units = Vec::new();
        for block in 0..100u64 {
            let captured = origin + Duration::from_millis(10 * block);
            let before = units.len();
            units.extend(encoder.push(&tone(480, channels, captured)).unwrap());
            // A packet is given as soon as what it needs is there, and that is what delay_samples says.
            for unit in &units[before..] {
                let gone_in = Ticks::from_time(captured + Duration::from_millis(10));
                let since = (gone_in - unit.pts).0;
                assert!((5760..5760 + 900).contains(&since), "{since} ticks");
            }
        }
        units.extend(encoder.flush().unwrap());
        // 47 frames, the last one filled up, and the overlap behind it.
        assert_eq!(units.len(), 48);
        for (number, unit) in (0i64..).zip(&units) {
            assert_eq!(unit.pts, Ticks(90_000 + 1920 * (number - 1)), "unit {number}");
            let header = adts::Header::parse(&unit.data).unwrap();
            assert_eq!((header.rate_hz, header.channels, header.object_type), (48_000, channels, 2));
            assert_eq!((header.frame_bytes, header.blocks), (unit.data.len(), 1));
        }
    }
}

#[test]
fn the_bitrate_is_what_was_asked_for() {
    let Some(mut encoder) = open("the_bitrate_is_what_was_asked_for", Settings::default()) else { return };
    let mut state = 1u32;
    let samples = (0..2 * 4 * 48_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect();
    let block = AudioBlock { samples, channels: 2, rate_hz: RATE_HZ, captured: Time::ZERO };
    let units = encoder.push(&block).unwrap();
    let bits: usize = units.iter().map(|unit| unit.data.len() * 8).sum();
    let ratio = bits as f64 / 4.0 / 128_000.0;
    assert!((0.8..1.2).contains(&ratio), "{ratio}");
}

#[test]
fn lost_sound_moves_time_forward_and_an_empty_stream_ends() {
    let name = "lost_sound_moves_time_forward_and_an_empty_stream_ends";
    let Some(mut encoder) = open(name, Settings::default()) else { return };
    let mut units = encoder.push(&tone(4096, 2, Time::from_millis(100))).unwrap();
    units.extend(encoder.push(&tone(4096, 2, Time::from_millis(900))).unwrap());
    units.extend(encoder.flush().unwrap());
    assert!(units.windows(2).all(|pair| pair[0].pts < pair[1].pts));
    assert_eq!(units.len(), 9);
    // Four frames from 100 ms on, four from 900 ms on: packet k makes frame k - 1 audible, the fifth the last one before the jump.
    let heard: Vec<i64> = units.iter().map(|unit| unit.pts.0).collect();
    let frames = |start: i64| (0..4).map(move |frame| start + 1920 * frame);
    let expected: Vec<i64> = [9_000 - 1920].into_iter().chain(frames(9_000)).chain(frames(81_000)).collect();
    assert_eq!(heard, expected);
    let Some(mut empty) = open(name, Settings::default()) else { return };
    assert_eq!(empty.flush().unwrap(), []);
}

#[test]
fn wrong_settings_and_blocks_are_refused() {
    for settings in [
        Settings { channels: 0, ..Settings::default() },
        Settings { channels: 3, ..Settings::default() },
        Settings { bitrate_bps: 31_999, ..Settings::default() },
        Settings { bitrate_bps: 576_001, ..Settings::default() },
    ] {
        assert!(matches!(Encoder::new(settings), Err(CodecError::Setting { .. })), "{settings:?}");
    }
    let Some(mut encoder) = open("wrong_settings_and_blocks_are_refused", Settings::default()) else {
        return;
    };
    assert!(encoder.push(&tone(480, 1, Time::ZERO)).is_err());
}
