//! AV1 from a stranger: units, each behind two bytes of length, decoded one after the other.

use glassline_codec::av1::{Decoder, Describer, Encoded, Encoder, PictureHash, Settings, describe};
use glassline_media::{FrameRate, Picture, PixelFormat, Size, Time};
use std::sync::OnceLock;

/// Large enough for whatever a few bytes say, small enough for many runs a second.
const MAX_PIXELS: u32 = 256 * 256;
/// Units of one input that are looked at: time is bounded by them and the picture's size.
const UNITS: usize = 12;

/// Decodes `data`. Panics where two decoders do not agree, a picture is larger than allowed or is not the one that its hash
/// names, or a decoder does not begin anew with a key unit.
pub fn run(data: &[u8]) {
    let mut rest = data;
    let mut describer = Describer::new();
    let [mut first, mut second] = [1, 2].map(|threads| Decoder::new(threads, MAX_PIXELS).expect("it opens"));
    for _ in 0..UNITS {
        let Some((length, behind)) = rest.split_first_chunk::<2>() else { break };
        let length = usize::from(u16::from_le_bytes(*length)).min(behind.len());
        let (unit, behind) = behind.split_at(length);
        rest = behind;
        let (alone, described) = (describe(unit), describer.describe(unit));
        assert!(alone.is_none() || alone == described);
        match (first.decode(unit), second.decode(unit)) {
            (Ok(first), Ok(second)) => {
                let Size { width, height } = first.picture.size();
                assert!(width * height <= MAX_PIXELS);
                assert_eq!(first.hash, PictureHash::of(&first.picture));
                assert_eq!(first.hash, second.hash);
            }
            (Err(_), Err(_)) => {}
            (first, second) => panic!(
                "{:?} with one thread, {:?} with two",
                first.map(|decoded| decoded.hash),
                second.map(|decoded| decoded.hash)
            ),
        }
    }
    let key = key();
    for decoder in [&mut first, &mut second] {
        assert_eq!(decoder.decode(&key.bytes).expect("a key unit is decoded").hash, key.hash);
    }
}

/// A key unit that is as it should be.
fn key() -> &'static Encoded {
    static KEY: OnceLock<Encoded> = OnceLock::new();
    KEY.get_or_init(|| {
        let size = Size { width: 32, height: 24 };
        let frame_rate = FrameRate::new(30, 1).expect("a rate");
        let settings = Settings { size, frame_rate, threads: 1, speed: 10 };
        let picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        Encoder::new(&settings).and_then(|mut encoder| encoder.encode_key(&picture, 40)).expect("a unit")
    })
}
