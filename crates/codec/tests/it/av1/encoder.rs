//! What an encoder takes, what it refuses, and what it gives.

use super::{encoder, noise, pattern, settings, size, slot};
use glassline_codec::av1::{
    COARSEST, Decoder, Describer, Encoder, Error, FINEST, PictureHash, Settings, Slot, UnitDescription,
};
use glassline_media::picture::{Chroma, Colour};
use glassline_media::{FrameRate, Picture, PixelFormat, Size, Time, Utc};

/// Encodes a key picture and some more from slot to slot, and compares each with what is decoded.
fn check(settings: &Settings, pictures: &[Picture], quantizer: u8, name: &str) {
    let Size { width, height } = settings.size;
    let mut encoder = Encoder::new(settings).unwrap();
    let mut decoder = Decoder::new(settings.threads, width * height).unwrap();
    let mut describer = Describer::new();
    for (number, picture) in pictures.iter().enumerate() {
        let (source, target) = (Slot::ALL[(number + 7) % 8], Slot::ALL[number % 8]);
        let (encoded, refresh) = match number {
            0 => (encoder.encode_key(picture, quantizer).unwrap(), 255),
            _ => (encoder.encode(picture, quantizer, source, target).unwrap(), target.bit()),
        };
        let key = number == 0;
        assert_eq!(encoded.key, key);
        let expected = UnitDescription { key, shown: true, refresh };
        assert_eq!(describer.describe(&encoded.bytes), Some(expected), "{name}");
        // A temporal delimiter, and no second one.
        assert_eq!(encoded.bytes[..2], [0x12, 0], "{name}");
        let decoded = decoder.decode(&encoded.bytes).unwrap();
        assert_eq!(decoded.hash, encoded.hash, "{name}");
        assert_eq!(PictureHash::of(&decoded.picture), decoded.hash, "{name}");
        assert_eq!(decoded.picture.size(), settings.size);
    }
}

#[test]
fn each_size_speed_and_quantizer_is_coded() {
    let sizes = [(16, 16), (17, 33), (33, 17), (16, 200), (200, 16), (65, 63), (129, 131), (321, 181)];
    for (index, (width, height)) in sizes.into_iter().enumerate() {
        let size = size(width, height);
        let mut pictures = pattern(size, 3);
        pictures.extend([noise(size, 1), noise(size, 2), pictures[0].clone()]);
        for speed in 7..=10 {
            for (quantizer, threads) in [(0, 1), (1, 2), (25, 3), (COARSEST, 4)] {
                let threads = (threads + index) % 4 + 1;
                let name = format!("{size}, speed {speed}, quantizer {quantizer}, {threads} threads");
                check(&Settings { threads, speed, ..settings(size) }, &pictures, quantizer, &name);
            }
        }
    }
}

#[test]
fn large_pictures_are_coded_in_tiles() {
    let size = size(1920, 1080);
    for threads in [1, 4, 16] {
        check(&Settings { threads, ..settings(size) }, &pattern(size, 3), 40, &format!("{threads} threads"));
    }
}

#[test]
fn speed_and_quantizer_change_between_pictures() {
    let pictures = pattern(size(320, 180), 40);
    let mut encoder = Encoder::new(&Settings { speed: 10, ..settings(size(320, 180)) }).unwrap();
    let mut decoder = Decoder::new(2, 320 * 180).unwrap();
    let key = encoder.encode_key(&pictures[0], 0).unwrap();
    assert_eq!(decoder.decode(&key.bytes).unwrap().hash, key.hash);
    for (number, picture) in pictures.iter().enumerate().skip(1) {
        encoder.set_speed([7, 10, 8, 9][number % 4]).unwrap();
        let quantizer = [63, 0, 30, 1, 50][number % 5];
        let (source, target) = (slot(number as u8 % 2), slot(1 - number as u8 % 2));
        let encoded = encoder.encode(picture, quantizer, source, target).unwrap();
        assert_eq!(decoder.decode(&encoded.bytes).unwrap().hash, encoded.hash, "{number}");
    }
}

#[test]
fn a_coarser_quantizer_takes_fewer_bytes() {
    let pictures = pattern(size(640, 360), 30);
    let mut encoder = encoder(size(640, 360));
    encoder.encode_key(&pictures[0], 20).unwrap();
    let bytes: Vec<usize> = (FINEST..=COARSEST)
        .map(|quantizer| encoder.encode(&pictures[29], quantizer, slot(0), slot(1)).unwrap().bytes.len())
        .collect();
    let falls = bytes.windows(2).filter(|pair| pair[1] < pair[0]).count();
    assert!(falls >= 58 && bytes[0] > 10 * bytes[61], "{falls} of 61: {bytes:?}");
}

/// libaom's rate control, which is not used, has its own mind about the first pictures of a stream.
#[test]
fn each_quantizer_holds_for_whole_streams() {
    let size = size(64, 48);
    let pictures = [noise(size, 1), noise(size, 2)];
    for quantizer in [0, 1, 2, 3, 20, 45] {
        let mut encoder = encoder(size);
        let key = encoder.encode_key(&pictures[0], quantizer).unwrap().bytes.len();
        for number in 1..40 {
            let (source, target) = (Slot::ALL[(number + 7) % 8], Slot::ALL[number % 8]);
            let bytes = encoder.encode(&pictures[number % 2], quantizer, source, target).unwrap().bytes.len();
            assert!((key / 2..key * 2).contains(&bytes), "quantizer {quantizer}, {number}: {bytes} of {key}");
        }
        let again = encoder.encode_key(&pictures[0], quantizer).unwrap().bytes.len();
        assert!((key * 9 / 10..=key * 11 / 10).contains(&again), "quantizer {quantizer}: {again} of {key}");
    }
}

#[test]
fn the_reconstruction_is_what_is_decoded() {
    let size = size(161, 91);
    let mut pictures = pattern(size, 3);
    let mut encoder = encoder(size);
    let mut decoder = Decoder::new(2, 161 * 91).unwrap();
    assert_eq!(encoder.reconstruction().unwrap_err(), Error::NoPicture);
    for (number, picture) in pictures.iter_mut().enumerate() {
        picture.captured = Time::from_millis(7 + number as u64);
        picture.captured_utc = Some(Utc::default());
        let encoded = match number {
            0 => encoder.encode_key(picture, 45).unwrap(),
            _ => encoder.encode(picture, 45, slot(0), slot(1)).unwrap(),
        };
        let reconstruction = encoder.reconstruction().unwrap();
        let decoded = decoder.decode(&encoded.bytes).unwrap();
        assert!(decoded.picture.planes() == reconstruction.planes());
        assert!(reconstruction.planes() != picture.planes(), "a quantizer loses something");
        assert_eq!(PictureHash::of(&reconstruction), encoded.hash);
        assert_eq!(
            (reconstruction.captured, reconstruction.captured_utc, reconstruction.colour),
            (picture.captured, picture.captured_utc, picture.colour)
        );
    }
}

#[test]
fn the_same_calls_give_the_same_bytes() {
    let pictures = pattern(size(320, 180), 12);
    let run = |pictures: &[Picture]| {
        let mut encoder = encoder(size(320, 180));
        let mut units = vec![encoder.encode_key(&pictures[0], 40).unwrap()];
        for (number, picture) in pictures.iter().enumerate().skip(1) {
            let (source, target) = (Slot::ALL[(number + 7) % 8], Slot::ALL[number % 8]);
            units.push(encoder.encode(picture, 40, source, target).unwrap());
        }
        units
    };
    assert!(run(&pictures) == run(&pictures));
}

#[test]
fn colour_comes_with_key_pictures() {
    let size = size(64, 64);
    let mut picture = noise(size, 1);
    let (mut encoder, mut decoder) = (encoder(size), Decoder::new(1, 64 * 64).unwrap());
    let bt_709 = Colour { primaries: 1, transfer: 1, matrix: 1, full_range: false };
    let hdr = Colour { primaries: 9, transfer: 16, matrix: 9, full_range: true };
    // A matrix of RGB that 4:2:0 cannot have, and numbers that are reserved.
    let srgb = Colour { primaries: 1, transfer: 13, matrix: 0, full_range: true };
    let odd = Colour { primaries: 200, transfer: 3, matrix: 255, full_range: false };
    let unknown = |colour: Colour| Colour { matrix: 2, ..colour };
    for (given, expected) in [
        (Colour::UNSPECIFIED, Colour::UNSPECIFIED),
        (bt_709, bt_709),
        (hdr, hdr),
        (srgb, unknown(srgb)),
        (odd, Colour::UNSPECIFIED),
    ] {
        picture.colour = given;
        let key = encoder.encode_key(&picture, 40).unwrap();
        let decoded = decoder.decode(&key.bytes).unwrap();
        assert_eq!((decoded.picture.colour, decoded.hash), (expected, key.hash));
        let inter = encoder.encode(&picture, 40, slot(0), slot(1)).unwrap();
        assert_eq!(decoder.decode(&inter.bytes).unwrap().picture.colour, expected);
    }
    for primaries in 0..=255 {
        picture.colour = Colour { primaries, transfer: primaries, matrix: primaries, full_range: false };
        encoder.encode_key(&picture, 60).unwrap();
    }
}

#[test]
fn slots_that_cannot_be_are_refused() {
    let picture = noise(size(32, 32), 1);
    let mut encoder = encoder(size(32, 32));
    assert_eq!(encoder.encode(&picture, 40, slot(0), slot(1)).unwrap_err(), Error::Slots);
    encoder.encode_key(&picture, 40).unwrap();
    for slot in Slot::ALL {
        assert_eq!(encoder.encode(&picture, 40, slot, slot).unwrap_err(), Error::Slots);
    }
    encoder.encode(&picture, 40, slot(0), slot(1)).unwrap();
    assert_eq!((Slot::new(8), Slot::new(7)), (None, Some(Slot::ALL[7])));
}

#[test]
fn pictures_of_another_size_or_format_are_refused() {
    let mut encoder = encoder(size(64, 48));
    let others = [
        Picture::new(PixelFormat::I420, size(48, 64), Time::ZERO),
        Picture::new(PixelFormat::I420, size(64, 47), Time::ZERO),
        Picture::new(PixelFormat::planar(Chroma::Yuv422, 8), size(64, 48), Time::ZERO),
        Picture::new(PixelFormat::planar(Chroma::Yuv420, 10), size(64, 48), Time::ZERO),
        Picture::new(PixelFormat::planar(Chroma::Mono, 8), size(64, 48), Time::ZERO),
        Picture::new(PixelFormat::pgroups(Chroma::Yuv420, 8).unwrap(), size(64, 48), Time::ZERO),
    ];
    let right = noise(size(64, 48), 1);
    encoder.encode_key(&right, 40).unwrap();
    for other in &others {
        assert!(matches!(encoder.encode_key(other, 40), Err(Error::Input { .. })));
        assert!(matches!(encoder.encode(other, 40, slot(0), slot(1)), Err(Error::Input { .. })));
    }
    assert!(matches!(encoder.encode_key(&right, 64), Err(Error::Setting { .. })));
    encoder.encode(&right, 63, slot(0), slot(1)).unwrap();
}

#[test]
fn settings_out_of_range_are_refused() {
    let right = settings(size(64, 48));
    let sides = |width, height| Settings { size: size(width, height), ..right };
    for wrong in [
        sides(15, 48),
        sides(64, 1),
        sides(8193, 64),
        Settings { threads: 0, ..right },
        Settings { threads: 17, ..right },
        Settings { speed: 6, ..right },
        Settings { speed: 11, ..right },
    ] {
        assert!(matches!(Encoder::new(&wrong), Err(Error::Setting { .. })), "{wrong:?}");
    }
    let mut encoder = Encoder::new(&right).unwrap();
    assert!(matches!(encoder.set_speed(6), Err(Error::Setting { .. })));
    // Rates as headers may say them.
    for (numerator, denominator) in
        [(1, 10), (30_000, 1001), (u32::MAX, 1), (u32::MAX, u32::MAX), (1, u32::MAX)]
    {
        let frame_rate = FrameRate::new(numerator, denominator).unwrap();
        let mut encoder = Encoder::new(&Settings { frame_rate, ..right }).unwrap();
        encoder.encode_key(&noise(right.size, 1), 40).unwrap();
        encoder.encode(&noise(right.size, 2), 40, slot(0), slot(1)).unwrap();
    }
}

#[test]
fn encoders_and_decoders_go_from_thread_to_thread() {
    fn is_send<T: Send>() {}
    is_send::<Encoder>();
    is_send::<Decoder>();
}
