use super::*;
use proptest::prelude::*;

const KINDS: [Compression; 2] = [Compression::Deflate, Compression::Zstd];

/// Numbers that look random and are the same each time.
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.next() as u8).collect()
    }
}

/// What a flight controller tells in a tenth of a second: attitude, position, motors, battery, each with its time, as
/// little-endian integers and floats with the noise of their sensors.
fn telemetry(step: u64, noise: &mut Noise) -> Bytes {
    let mut out = Vec::new();
    for part in 0..8u64 {
        let time = step * 100_000 + part * 12_500;
        out.extend_from_slice(&[0xFD, 28, 0, 0, (step * 8 + part) as u8, 1, 1, 30, 0, 0]);
        out.extend_from_slice(&(time as u32).to_le_bytes());
        for axis in 0..6 {
            let value = (step as f32 / 50.0 + axis as f32).sin() * 0.3 + (noise.next() % 1000) as f32 * 1e-6;
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&[0xFD, 28, 0, 0, (step * 8 + part) as u8, 1, 1, 33, 0, 0]);
        out.extend_from_slice(&(time as u32).to_le_bytes());
        let position = [473_977_418 + step as i32 * 3, 85_455_939 + step as i32 * 5, 488_000, 12_000];
        for value in position {
            out.extend_from_slice(&(value + (noise.next() % 20) as i32).to_le_bytes());
        }
        for value in [12i16, -40, 3, 180] {
            out.extend_from_slice(&(value + (noise.next() % 8) as i16).to_le_bytes());
        }
        out.extend_from_slice(&[0xFD, 16, 0, 0, (step * 8 + part) as u8, 1, 1, 36, 0, 0]);
        for _ in 0..4 {
            out.extend_from_slice(&(1500 + (noise.next() % 64) as u16).to_le_bytes());
        }
        out.extend_from_slice(b"battery 15.8V 12.1A 71% link 98% gps 14 sats fix 3d ");
    }
    Bytes::from(out)
}

#[test]
fn telemetry_shrinks_and_with_a_dictionary_it_shrinks_more() {
    let mut noise = Noise(1);
    let known: Vec<u8> = (0..40).flat_map(|step| telemetry(step, &mut noise)).collect();
    let dictionary = Arc::new(Dictionary::new(&known).unwrap());
    for (how, dictionary, most) in [
        (Compression::Deflate, None, 0.75),
        (Compression::Zstd, None, 0.75),
        (Compression::Zstd, Some(dictionary), 0.60),
    ] {
        let mut packer = Packer::new(how);
        let mut unpacker = Unpacker::new(how, dictionary.clone());
        // One sensor's packet, too: the smaller a message, the more a dictionary tells of it.
        for (part, most) in [(1, most), (8, if dictionary.is_some() { 0.75 } else { 1.0 })] {
            let (mut before, mut after) = (0, 0);
            for step in 1000..1200 {
                let message = telemetry(step, &mut noise);
                let message = message.slice(..message.len() / part);
                before += message.len();
                match packer.pack(&message, dictionary.as_deref()) {
                    Some(packed) => {
                        after += packed.len();
                        assert_eq!(unpacker.unpack(&packed, 4096).unwrap(), message);
                    }
                    None => after += message.len(),
                }
            }
            let ratio = after as f64 / before as f64;
            // For `bench/link-model` and the pages.
            let words = if dictionary.is_some() { ", dictionary" } else { "" };
            let size = if part == 1 { "a tenth of a second in a message" } else { "an eighth of that" };
            println!(
                "figure: telemetry of a flight controller, left of it | {how:?}{words} | {size} | % | {}",
                ratio * 100.0
            );
            assert!(ratio <= most, "{how:?} {dictionary:?} 1/{part}: {ratio}");
        }
    }
}

#[test]
fn what_does_not_shrink_is_seldom_tried() {
    let mut noise = Noise(2);
    for how in KINDS {
        let mut packer = Packer::new(how);
        let random = Bytes::from(noise.bytes(1200));
        let mut tried = 0;
        for _ in 0..6400 {
            tried += u32::from(packer.messages == 0);
            assert_eq!(packer.pack(&random, None), None);
        }
        assert!(tried <= 110, "{tried}");
        // Of a large one no more than the sample.
        let large = Bytes::from(noise.bytes(1 << 20));
        let mut packer = Packer::new(how);
        assert_eq!(packer.pack(&large, None), None);
        let zeros = Bytes::from(vec![0; 1 << 20]);
        let packed = (0..4).find_map(|_| packer.pack(&zeros, None));
        assert!(packed.is_some_and(|packed| packed.len() < 5000), "{how:?}: it is tried again soon");
    }
}

#[test]
fn no_message_becomes_larger_than_the_limit() {
    for how in KINDS {
        let zeros = Bytes::from(vec![0; 100_000]);
        let packed = Packer::new(how).pack(&zeros, None).unwrap();
        let mut unpacker = Unpacker::new(how, None);
        assert_eq!(unpacker.unpack(&packed, 99_999), None);
        assert_eq!(unpacker.unpack(&packed, 100_000).unwrap(), zeros);
        // It says less than it holds, or more.
        for claim in [0u64, 10, 99_999, 100_001] {
            let mut forged = Vec::new();
            varint::write(claim, &mut forged);
            forged.extend_from_slice(&packed[varint::size(100_000)..]);
            assert_eq!(unpacker.unpack(&forged, 1 << 20), None, "{how:?} {claim}");
        }
        assert_eq!(unpacker.unpack(&packed, 100_000).unwrap(), zeros, "no harm done");
    }
}

proptest! {
    #[test]
    fn packed_messages_are_read_as_they_were(
        runs in prop::collection::vec((any::<u8>(), 1usize..400), 1..60), with in any::<bool>(), zstd in any::<bool>(),
    ) {
        let message: Vec<u8> = runs.iter().flat_map(|(byte, count)| vec![*byte; *count]).collect();
        let message = Bytes::from(message);
        let how = KINDS[usize::from(zstd)];
        let dictionary = with.then(|| Arc::new(Dictionary::new(&message[..message.len() / 2]).unwrap()));
        if let Some(packed) = Packer::new(how).pack(&message, dictionary.as_deref()) {
            prop_assert!(packed.len() < message.len());
            let found = Unpacker::new(how, dictionary).unpack(&packed, message.len() as u32);
            prop_assert_eq!(found.unwrap(), message);
        }
    }

    #[test]
    fn any_bytes_are_unpacked_without_panic(
        bytes in prop::collection::vec(any::<u8>(), 0..300), flip in prop::collection::vec((0usize..200, any::<u8>()), 0..4),
    ) {
        for how in KINDS {
            let mut unpacker = Unpacker::new(how, None);
            prop_assert!(unpacker.unpack(&bytes, 5000).is_none_or(|message| message.len() <= 5000));
            let message = Bytes::from(b"some words, some words, and some more words ".repeat(20));
            let mut packed = Packer::new(how).pack(&message, None).unwrap().to_vec();
            let length = packed.len();
            flip.iter().for_each(|(at, by)| packed[at % length] ^= by);
            prop_assert!(unpacker.unpack(&packed, 5000).is_none_or(|message| message.len() <= 5000));
        }
    }
}
