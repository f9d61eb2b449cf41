//! Units that were damaged, or made to do damage.

use super::{Random, encoder, noise, pattern, size, slot};
use glassline_codec::av1::{Decoder, Encoded, Error};

const PIXELS: u32 = 64 * 48;

/// A key unit and one that is predicted from it.
fn units() -> [Encoded; 2] {
    let pictures = pattern(size(64, 48), 2);
    let mut encoder = encoder(size(64, 48));
    [
        encoder.encode_key(&pictures[0], 10).unwrap(),
        encoder.encode(&pictures[1], 10, slot(0), slot(1)).unwrap(),
    ]
}

/// Whether the decoder begins anew with the key unit.
fn begins_anew(decoder: &mut Decoder, [key, inter]: &[Encoded; 2]) -> bool {
    decoder.decode(&key.bytes).unwrap().hash == key.hash
        && decoder.decode(&inter.bytes).unwrap().hash == inter.hash
}

#[test]
fn a_decoder_needs_a_key_unit_at_first_and_after_an_error() {
    let units = units();
    let [key, inter] = &units;
    let mut decoder = Decoder::new(2, PIXELS).unwrap();
    assert_eq!(decoder.decode(&inter.bytes).unwrap_err(), Error::NoPicture);
    assert!(begins_anew(&mut decoder, &units));
    assert!(matches!(decoder.decode(&inter.bytes[..inter.bytes.len() - 1]), Err(Error::Unit { .. })));
    assert_eq!(decoder.decode(&inter.bytes).unwrap_err(), Error::NoPicture);
    assert!(begins_anew(&mut decoder, &units));
    // A key unit in mid-stream too.
    assert_eq!(decoder.decode(&key.bytes).unwrap().hash, key.hash);
}

#[test]
fn units_that_are_cut_off_are_errors() {
    let units = units();
    for threads in [1, 3] {
        let mut decoder = Decoder::new(threads, PIXELS).unwrap();
        for unit in &units {
            for end in 0..unit.bytes.len() {
                assert!(begins_anew(&mut decoder, &units));
                assert!(decoder.decode(&unit.bytes[..end]).is_err(), "{end} of {}", unit.bytes.len());
            }
        }
        assert!(begins_anew(&mut decoder, &units));
    }
}

#[test]
fn damaged_units_are_errors_or_pictures() {
    let units = units();
    let seed = 7;
    let mut random = Random(seed);
    let mut decoder = Decoder::new(2, PIXELS).unwrap();
    let (mut errors, mut pictures) = (0, 0);
    for round in 0..3000 {
        let unit = &units[round % 2].bytes;
        let mut damaged = unit.clone();
        for _ in 0..1 + random.below(4) {
            let at = random.below(damaged.len());
            match random.below(4) {
                0 => damaged[at] = random.next() as u8,
                1 => damaged.truncate(at + 1),
                2 => damaged.insert(at, random.next() as u8),
                _ => damaged[at] ^= 1 << random.below(8),
            }
        }
        match decoder.decode(&damaged) {
            Ok(decoded) => {
                pictures += 1;
                let size = decoded.picture.size();
                assert!(size.width * size.height <= PIXELS);
            }
            Err(_) => errors += 1,
        }
        if round % 2 == 1 {
            assert!(begins_anew(&mut decoder, &units), "round {round} of seed {seed}");
        }
    }
    assert!(errors > 300 && pictures > 300, "{errors} errors, {pictures} pictures");
}

#[test]
fn random_bytes_are_errors() {
    let units = units();
    let mut random = Random(3);
    let mut decoder = Decoder::new(1, PIXELS).unwrap();
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.next() as u8).collect();
        assert!(decoder.decode(&bytes).is_err());
    }
    assert!(begins_anew(&mut decoder, &units));
    let frame = |bytes: &[u8]| [&[0x12, 0, 0x32, bytes.len() as u8], bytes].concat();
    for _ in 0..2000 {
        let bytes: Vec<u8> = (0..random.below(120)).map(|_| random.next() as u8).collect();
        let _ = decoder.decode(&frame(&bytes));
        assert!(begins_anew(&mut decoder, &units));
    }
}

#[test]
fn a_unit_has_one_frame() {
    let units = units();
    let [key, inter] = &units;
    let mut decoder = Decoder::new(1, PIXELS).unwrap();
    for unit in [
        [&key.bytes[..], &inter.bytes].concat(),
        [&inter.bytes[..], &inter.bytes].concat(),
        [&key.bytes[..], &key.bytes].concat(),
        key.bytes[..2].to_vec(),
        Vec::new(),
        // A frame that is shown again.
        vec![0x12, 0, 0x1a, 1, 0x80, 0x1a, 1, 0x80],
    ] {
        assert!(begins_anew(&mut decoder, &units));
        assert!(matches!(decoder.decode(&unit), Err(Error::Unit { .. })), "{} bytes", unit.len());
    }
    assert!(begins_anew(&mut decoder, &units));
}

#[test]
fn sizes_are_limited() {
    let units = units();
    let mut decoder = Decoder::new(1, PIXELS - 1).unwrap();
    let expected = Error::TooLarge { width: 64, height: 48, max_pixels: PIXELS - 1 };
    assert_eq!(decoder.decode(&units[0].bytes).unwrap_err(), expected);
    let mut decoder = Decoder::new(1, PIXELS).unwrap();
    assert!(begins_anew(&mut decoder, &units));
    let large = encoder(size(64, 49)).encode_key(&noise(size(64, 49), 1), 50).unwrap();
    assert!(matches!(decoder.decode(&large.bytes), Err(Error::TooLarge { height: 49, .. })));
    assert!(begins_anew(&mut decoder, &units));
    for (threads, max_pixels) in [(0, PIXELS), (17, PIXELS), (1, 0)] {
        assert!(matches!(Decoder::new(threads, max_pixels), Err(Error::Setting { .. })));
    }
}

/// Sequence headers of 10 bits, of luma alone, and of 65,536×65,536 samples.
#[test]
fn other_formats_are_refused_before_they_take_memory() {
    let mut decoder = Decoder::new(1, u32::MAX).unwrap();
    let unit =
        |sequence: &[u8]| [&[0x12, 0, 0x0a, sequence.len() as u8], sequence, &[0x32, 2, 0x10, 0]].concat();
    let ten_bits = [0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xfb, 0xf9, 0x50, 0x91, 0x00, 0x90, 0x40];
    assert!(matches!(decoder.decode(&unit(&ten_bits)), Err(Error::Format { bits: 10, .. })));
    let mono = [0x00, 0x00, 0x00, 0x04, 0x3c, 0xfe, 0xcc, 0xfb, 0xf9, 0x20, 0x40];
    assert!(matches!(decoder.decode(&unit(&mono)), Err(Error::Format { bits: 8, chroma: "luma alone" })));
    // Sides of sixteen bits, all ones.
    let huge = [0x00, 0x00, 0x00, 0x07, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf9, 0x00, 0x40];
    assert!(matches!(decoder.decode(&unit(&huge)), Err(Error::TooLarge { width: 65_536, .. })));
}
