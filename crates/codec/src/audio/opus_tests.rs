use super::*;
use proptest::prelude::*;
use std::time::Duration;

fn tone(frames: usize, channels: u8, first: usize) -> Vec<f32> {
    let sample = |n: usize| {
        let t = (first + n) as f32 / RATE_HZ as f32;
        0.4 * (t * 440.0 * std::f32::consts::TAU).sin() + 0.1 * (t * 1760.0 * std::f32::consts::TAU).sin()
    };
    (0..frames).flat_map(|n| std::iter::repeat_n(sample(n), channels.into())).collect()
}

fn block(samples: Vec<f32>, channels: u8, captured: Time) -> AudioBlock {
    AudioBlock { samples, channels, rate_hz: RATE_HZ, captured }
}

fn at(millis: u64, frames: usize) -> AudioBlock {
    block(tone(frames, 1, 0), 1, Time::from_millis(millis))
}

fn mono() -> Encoder {
    let frame_duration = FrameDuration::Ms10;
    Encoder::new(Settings { channels: 1, bitrate_bps: 64_000, frame_duration, ..Settings::default() })
        .unwrap()
}

fn captured(units: &[AccessUnit]) -> Vec<u64> {
    use glassline_media::Stage;
    units.iter().map(|unit| unit.stamps.at(Stage::Captured).unwrap().as_nanos() / 1_000_000).collect()
}

#[test]
fn a_round_trip_keeps_the_sound() {
    for frame_duration in [FrameDuration::Ms2_5, FrameDuration::Ms5, FrameDuration::Ms10, FrameDuration::Ms20]
    {
        for channels in [1, 2] {
            let settings = Settings { channels, bitrate_bps: 160_000, frame_duration, ..Settings::default() };
            let mut encoder = Encoder::new(settings).unwrap();
            let mut decoder = Decoder::new(channels).unwrap();
            let input = tone(48_000, channels, 0);
            let units = encoder.push(&block(input.clone(), channels, Time::ZERO)).unwrap();
            assert_eq!(units.len(), 48_000 / frame_duration.samples());
            let mut output = Vec::new();
            for unit in &units {
                let sound = decoder.decode(&unit.data, Time::ZERO).unwrap();
                assert_eq!(sound.frames(), frame_duration.samples());
                assert!(unit.random_access && unit.codec == Codec::Opus);
                output.extend(sound.samples);
            }
            // What comes out lags by the look-ahead and by nothing else; the first 20 ms are the start-up.
            assert_eq!(encoder.lookahead_samples(), 120);
            let lag = 120 * usize::from(channels);
            let start = 960 * usize::from(channels);
            let pairs = || input[start..].iter().zip(&output[start + lag..]);
            let signal: f32 = pairs().map(|(x, _)| x * x).sum();
            let noise: f32 = pairs().map(|(x, y)| (x - y) * (x - y)).sum();
            let level: f32 = pairs().map(|(_, y)| y * y).sum();
            let snr_db = 10.0 * (signal / noise).log10();
            assert!(snr_db > 20.0, "{frame_duration:?}, {channels} channels: SNR {snr_db} dB");
            assert!((10.0 * (level / signal).log10()).abs() < 0.2, "level {level} against {signal}");
        }
    }
}

#[test]
fn the_bitrate_is_what_was_asked_for() {
    let mut encoder = Encoder::new(Settings::default()).unwrap();
    // Noise: a tone needs fewer bits than it may take.
    let mut state = 1u32;
    let samples = (0..2 * 2 * 48_000)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 - 0.5
        })
        .collect();
    let units = encoder.push(&block(samples, 2, Time::ZERO)).unwrap();
    let bits: usize = units.iter().map(|unit| unit.data.len() * 8).sum();
    let ratio = bits as f64 / 2.0 / 128_000.0;
    assert!((0.85..1.15).contains(&ratio), "{ratio}");
}

#[test]
fn time_does_not_drift_however_blocks_are_cut() {
    let mut encoder = mono();
    let origin = Time::from_nanos(123_456_789);
    let mut taken = 0u64;
    let mut units = Vec::new();
    // Blocks of 441 samples, each stamped up to 3 ms late: a scheduler's doing.
    for number in 0..2000u64 {
        let late = Duration::from_micros(number * 7919 % 3000);
        let time = origin + Duration::from_nanos(taken * 1_000_000_000 / 48_000) + late;
        let time = if number == 0 { origin } else { time };
        units.extend(encoder.push(&block(tone(441, 1, taken as usize), 1, time)).unwrap());
        taken += 441;
    }
    assert_eq!(units.len() as u64, taken / 480);
    for (number, unit) in (0i64..).zip(&units) {
        // What is decoded lags by 2.5 ms, and the stamp with it.
        let exact = Ticks::from_time(origin + Duration::from_millis(10 * number as u64));
        assert_eq!(unit.pts, exact - Ticks(225));
        assert_eq!(unit.dts, unit.pts);
    }
}

#[test]
fn lost_sound_moves_time_forward() {
    let mut encoder = mono();
    assert_eq!(captured(&encoder.push(&at(100, 480 + 240)).unwrap()), [100]);
    // 115 ms is where the samples end; the next block comes 85 ms later.
    assert_eq!(captured(&encoder.push(&at(200, 960)).unwrap()), [110, 200, 210]);
    assert_eq!(encoder.flush().unwrap(), None);
}

#[test]
fn sound_whose_time_is_taken_is_dropped() {
    let mut encoder = mono();
    assert_eq!(captured(&encoder.push(&at(100, 4800)).unwrap()).len(), 10);
    // Begins 50 ms before the end of the last one: 50 ms of it are dropped.
    assert_eq!(captured(&encoder.push(&at(150, 4800)).unwrap()), [200, 210, 220, 230, 240]);
    assert_eq!(captured(&encoder.push(&at(150, 480)).unwrap()), [0u64; 0]);
    assert_eq!(encoder.push(&at(0, 480)).unwrap(), []);
    let mut late = mono();
    late.push(&at(5000, 480)).unwrap();
    assert!(matches!(late.push(&at(0, 480)), Err(CodecError::TimeStamp { .. })));
}

#[test]
fn flush_fills_the_last_packet_with_silence() {
    let mut encoder = mono();
    assert_eq!(encoder.push(&at(0, 479)).unwrap(), []);
    assert_eq!(captured(&[encoder.flush().unwrap().unwrap()]), [0]);
    assert_eq!(encoder.flush().unwrap(), None);
}

#[test]
fn wrong_settings_and_blocks_are_refused() {
    for channels in [0, 3] {
        assert!(Encoder::new(Settings { channels, ..Settings::default() }).is_err());
        assert!(Decoder::new(channels).is_err());
    }
    for bitrate_bps in [5_999, 510_001, u32::MAX] {
        let refused = Encoder::new(Settings { bitrate_bps, ..Settings::default() }).err().unwrap();
        assert!(refused.to_string().contains("between 6000 and 510000"));
    }
    let mut encoder = Encoder::new(Settings::default()).unwrap();
    let refused = encoder.push(&at(0, 480)).unwrap_err().to_string();
    assert!(refused.contains("1 channels") && refused.contains("2 channels"), "{refused}");
    assert!(encoder.push(&AudioBlock { rate_hz: 44_100, channels: 2, ..at(0, 480) }).is_err());
    assert!(encoder.push(&AudioBlock { channels: 2, ..at(0, 481) }).is_err());
}

#[test]
fn a_loss_is_concealed_at_its_length() {
    let mut encoder = mono();
    let mut decoder = Decoder::new(1).unwrap();
    for unit in encoder.push(&at(0, 4800)).unwrap() {
        decoder.decode(&unit.data, Time::ZERO).unwrap();
    }
    let sound = decoder.conceal(FrameDuration::Ms5, Time::from_millis(7)).unwrap();
    assert_eq!((sound.frames(), sound.captured), (240, Time::from_millis(7)));
    assert!(sound.samples.iter().any(|sample| sample.abs() > 0.05), "goes on, not silent");
}

#[test]
fn a_lost_packet_of_speech_is_in_the_next_one() {
    let settings = Settings {
        channels: 1,
        bitrate_bps: 24_000,
        frame_duration: FrameDuration::Ms20,
        mode: Mode::Speech { loss_percent: 20 },
    };
    // Syllables of 200 ms, whose pitch glides: concealment cannot know where to.
    let voice = |n: usize| {
        let at = (n % 19_200) as f32 / 48_000.0;
        let pitch = 120.0 + 400.0 * at;
        let level = if at < 0.2 { 0.15 } else { 0.003 };
        level * (1..12).map(|k| (k as f32 * pitch * at * std::f32::consts::TAU).sin()).sum::<f32>()
    };
    let samples: Vec<f32> = (0..960 * 200).map(voice).collect();
    let block = AudioBlock { samples, channels: 1, rate_hz: RATE_HZ, captured: Time::from_millis(10) };
    let mut encoder = Encoder::new(settings).unwrap();
    assert!(encoder.lookahead_samples() > 120);
    let units = encoder.push(&block).unwrap();
    let decoders = || Decoder::new(1).unwrap();
    let (mut whole, mut recovering, mut concealing) = (decoders(), decoders(), decoders());
    // How far what was made for lost packets is from what they were.
    let (mut recovered, mut concealed) = (0.0, 0.0);
    for (number, unit) in units.iter().enumerate() {
        let sound = whole.decode(&unit.data, Time::ZERO).unwrap();
        if number >= 20 && number % 20 == 5 {
            let next = &units[number + 1].data;
            let error = |made: AudioBlock| {
                let pairs = made.samples.iter().zip(&sound.samples);
                pairs.map(|(a, b)| (a - b) * (a - b)).sum::<f32>()
            };
            recovered += error(recovering.recover(next, FrameDuration::Ms20, Time::ZERO).unwrap());
            concealed += error(concealing.conceal(FrameDuration::Ms20, Time::ZERO).unwrap());
        } else {
            recovering.decode(&unit.data, Time::ZERO).unwrap();
            concealing.decode(&unit.data, Time::ZERO).unwrap();
        }
    }
    assert!(recovered < 0.6 * concealed, "{recovered} {concealed}");
    let short = Settings { frame_duration: FrameDuration::Ms5, ..settings };
    assert!(Encoder::new(short).is_err());
}

proptest! {
    #[test]
    fn any_bytes_decode_or_are_refused(packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..8)) {
        let mut decoder = Decoder::new(2).unwrap();
        for packet in &packets {
            let _ = decoder.recover(packet, FrameDuration::Ms10, Time::ZERO);
            if let Ok(sound) = decoder.decode(packet, Time::ZERO) {
                prop_assert!(sound.frames() >= 120 && sound.frames() <= MAX_PACKET_SAMPLES);
            }
        }
    }

    /// Every sample that is not dropped comes out once, and stamps grow, whatever the blocks' times.
    #[test]
    fn stamps_always_grow(blocks in prop::collection::vec((0usize..2000, 0u64..60), 1..40)) {
        let mut encoder = mono();
        let mut now = Time::from_millis(500);
        let mut last = None;
        for (frames, step) in blocks {
            let block = AudioBlock { captured: now, ..at(0, frames) };
            for unit in encoder.push(&block).unwrap() {
                prop_assert!(last < Some(unit.pts));
                last = Some(unit.pts);
            }
            now += Duration::from_millis(step);
        }
    }
}
