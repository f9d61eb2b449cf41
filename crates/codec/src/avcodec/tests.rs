use super::*;
use glassline_test_support::{has_library, skip};
use proptest::prelude::*;

/// A decoder; `None` where the library is not there.
fn open<T>(test: &str, decoder: Result<T, CodecError>) -> Option<T> {
    match decoder {
        Ok(decoder) => Some(decoder),
        Err(absent @ CodecError::Absent { .. }) => {
            assert!(!has_library("libavcodec.so."), "{absent}");
            skip(test, &absent.to_string());
            None
        }
        Err(other) => panic!("{other}"),
    }
}

#[cfg(feature = "x264")]
mod pictures {
    use super::*;
    use crate::h264::x264::{Encoder, KeyInterval, Settings};
    use glassline_media::{AccessUnit, FrameRate, Picture, PixelFormat, Size, Ticks};

    /// Cb and Cr of all pictures.
    const CHROMA: [u8; 2] = [90, 160];

    /// Pictures of one colour, each brighter than the one before, with a key frame every five.
    fn coded(count: u32, size: Size) -> Vec<AccessUnit> {
        let rate = FrameRate::new(25, 1).unwrap();
        let key_interval = KeyInterval::Pictures(5);
        let mut encoder =
            Encoder::new(&Settings { key_interval, ..Settings::new(size, rate, 1_000_000) }).unwrap();
        let unit = |number: u32| {
            let captured = Time::from_millis(u64::from(number) * 40);
            let mut picture = Picture::new(PixelFormat::I420, size, captured);
            picture.planes_mut()[0].bytes_mut().fill(level(number));
            picture.planes_mut()[1].bytes_mut().fill(CHROMA[0]);
            picture.planes_mut()[2].bytes_mut().fill(CHROMA[1]);
            encoder.encode(&picture, Ticks::from_time(captured)).unwrap()
        };
        (0..count).map(unit).collect()
    }

    fn level(number: u32) -> u8 {
        40 + number as u8 * 4
    }

    #[test]
    fn pictures_come_out_with_their_times() {
        let Some(mut decoder) = open("pictures_come_out_with_their_times", PictureDecoder::new(Codec::H264))
        else {
            return;
        };
        let size = Size::new(64, 48).unwrap();
        let units = coded(12, size);
        let mut seen = Vec::new();
        let mut each = |at: Time, picture: DecodedPicture<'_>| {
            assert_eq!((picture.width_px, picture.height_px, picture.colour.full_range), (64, 48, false));
            let chroma = picture.chroma.unwrap();
            assert_eq!((chroma.width_px, chroma.height_px), (32, 24));
            for (index, expected) in CHROMA.into_iter().enumerate() {
                let mut line = Vec::new();
                chroma.line(index, 23, &mut line);
                assert_eq!(line.len(), 32);
                assert!(line.iter().all(|sample| sample.abs_diff(expected) <= 2), "{line:?}");
            }
            seen.push((at, picture.luma[47 * picture.stride + 63]));
        };
        for (number, unit) in (0u64..).zip(&units) {
            decoder.decode(&unit.data, Time::from_millis(number * 40), &mut each).unwrap();
        }
        decoder.drain(&mut each).unwrap();
        // After it, the next key frame begins anew.
        decoder.decode(&units[5].data, Time::from_millis(9000), &mut each).unwrap();
        decoder.drain(&mut each).unwrap();
        let expected = (0..12).map(|number| (Time::from_millis(u64::from(number) * 40), level(number)));
        let expected: Vec<_> = expected.chain([(Time::from_millis(9000), level(5))]).collect();
        assert_eq!(seen.len(), expected.len());
        for ((at, found), (expected_at, expected)) in seen.into_iter().zip(expected) {
            assert_eq!(at, expected_at);
            assert!(found.abs_diff(expected) <= 2, "{found}, expected {expected}");
        }
    }

    #[test]
    fn damaged_units_are_errors_and_the_next_key_frame_is_right() {
        let name = "damaged_units_are_errors_and_the_next_key_frame_is_right";
        let Some(decoder) = open(name, PictureDecoder::new(Codec::H264)) else { return };
        let decoder = std::cell::RefCell::new(decoder);
        let units = coded(6, Size::new(64, 48).unwrap());
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let damage =
            (0usize..6, proptest::collection::vec((any::<usize>(), any::<u8>()), 0..20), any::<usize>());
        runner
            .run(&damage, |(number, changes, length)| {
                let mut bytes = units[number].data.to_vec();
                for (at, value) in changes {
                    let at = at % bytes.len();
                    bytes[at] = value;
                }
                bytes.truncate(length % (bytes.len() + 1));
                let _ = decoder.borrow_mut().decode(&bytes, Time::ZERO, &mut |_, _| {});
                let _ = decoder.borrow_mut().drain(&mut |_, _| {});
                Ok(())
            })
            .unwrap();
        let mut levels = Vec::new();
        decoder
            .borrow_mut()
            .decode(&units[0].data, Time::ZERO, &mut |_, picture| levels.push(picture.luma[0]))
            .unwrap();
        decoder.borrow_mut().drain(&mut |_, picture| levels.push(picture.luma[0])).unwrap();
        assert_eq!(levels.len(), 1);
        assert!(levels[0].abs_diff(level(0)) <= 2, "{levels:?}");
        assert!(decoder.borrow_mut().decode(&[], Time::ZERO, &mut |_, _| {}).is_err());
    }

    #[test]
    fn pictures_beyond_the_limit_are_refused() {
        let name = "pictures_beyond_the_limit_are_refused";
        let Some(mut decoder) = open(name, PictureDecoder::new(Codec::H264)) else { return };
        let mut count = 0;
        for (width, pictures) in [(4096, 1), (4224, 0)] {
            let units = coded(1, Size::new(width, 2304).unwrap());
            let outcome = decoder.decode(&units[0].data, Time::ZERO, &mut |_, _| count += 1);
            let drained = decoder.drain(&mut |_, _| count += 1);
            assert_eq!(outcome.is_ok() && drained.is_ok(), pictures == 1, "{width}: {outcome:?} {drained:?}");
            assert_eq!(std::mem::take(&mut count), pictures, "{width}");
        }
    }

    #[test]
    fn pictures_beyond_the_memory_of_a_decoder_are_refused() {
        let name = "pictures_beyond_the_memory_of_a_decoder_are_refused";
        if open(name, PictureDecoder::new(Codec::H264)).is_none() {
            return;
        }
        let units = coded(6, Size::new(640, 480).unwrap());
        // Its buffers have room around the pictures: one is more than 640x480 in 4:2:0, and less than twice as much.
        let picture_bytes = 640 * 480 * 3 / 2;
        for (max_bytes, is_decoded) in [(picture_bytes, false), (16 * picture_bytes, true)] {
            let handle = ffi::Decoder::open(0, false, MAX_PIXELS, max_bytes).ok().unwrap();
            let mut decoder = PictureDecoder { codec: Codec::H264, handle };
            // What is held goes back with each key frame: otherwise the sum would pass the bound.
            for _ in 0..20 {
                let mut count = 0;
                let outcomes: Vec<bool> = units
                    .iter()
                    .map(|unit| decoder.decode(&unit.data, Time::ZERO, &mut |_, _| count += 1).is_ok())
                    .collect();
                let _ = decoder.drain(&mut |_, _| count += 1);
                assert_eq!((outcomes[0], count), (is_decoded, if is_decoded { 6 } else { 0 }), "{max_bytes}");
            }
        }
    }

    #[cfg(feature = "aac")]
    #[test]
    fn sound_comes_out_as_it_went_in() {
        use crate::audio::aac;
        use glassline_media::AudioBlock;
        let Some(mut decoder) = open("sound_comes_out_as_it_went_in", SoundDecoder::new(Codec::Aac)) else {
            return;
        };
        let Some(mut encoder) =
            open("sound_comes_out_as_it_went_in", aac::Encoder::new(aac::Settings::default()))
        else {
            return;
        };
        let tone = |n: usize| 0.5 * (n as f32 / 48.0 * std::f32::consts::TAU).sin();
        let samples = (0..48_000).flat_map(|n| [tone(n), 0.0]).collect();
        let block = AudioBlock { samples, channels: 2, rate_hz: 48_000, captured: Time::ZERO };
        // Of a tone that begins at once, the first frames have more than the tone.
        let (mut frames, mut peaks) = (0, [0f32; 2]);
        for unit in encoder.push(&block).unwrap() {
            decoder
                .decode(&unit.data, Time::from_millis(7), &mut |at, sound| {
                    assert_eq!((at, sound.channels, sound.rate_hz), (Time::from_millis(7), 2, 48_000));
                    for frame in sound.samples.chunks_exact(2).filter(|_| frames > 8192) {
                        peaks = [peaks[0].max(frame[0].abs()), peaks[1].max(frame[1].abs())];
                    }
                    frames += sound.samples.len() / 2;
                })
                .unwrap();
        }
        assert!(frames > 40_000, "{frames}");
        assert!((0.48..0.55).contains(&peaks[0]) && peaks[1] < 0.02, "{peaks:?}");
        assert!(decoder.decode(b"no sound at all", Time::ZERO, &mut |_, _| {}).is_err());
    }
}

proptest! {
    /// What a stranger's stream may hold, in each codec.
    #[test]
    fn any_bytes_are_decoded_or_refused(
        units in proptest::collection::vec(proptest::collection::vec(prop_oneof![0u8..4, any::<u8>()], 0..400), 0..8),
    ) {
        for codec in [Codec::H264, Codec::H265, Codec::Av1, Codec::Mpeg2Video] {
            let Ok(mut decoder) = PictureDecoder::new(codec) else { continue };
            for unit in &units {
                let _ = decoder.decode(unit, Time::ZERO, &mut |_, _| {});
            }
            let _ = decoder.drain(&mut |_, _| {});
        }
        for codec in [Codec::Aac, Codec::MpegAudio, Codec::Ac3, Codec::EAc3] {
            let Ok(mut decoder) = SoundDecoder::new(codec) else { continue };
            for unit in &units {
                let _ = decoder.decode(unit, Time::ZERO, &mut |_, sound| assert!(sound.channels <= 8));
            }
        }
    }
}

#[test]
fn what_is_no_codec_of_pictures_is_refused() {
    assert!(matches!(PictureDecoder::new(Codec::Opus), Err(CodecError::NotBuiltIn { codec: "Opus" })));
    assert!(matches!(SoundDecoder::new(Codec::H264), Err(CodecError::NotBuiltIn { codec: "H.264" })));
}
