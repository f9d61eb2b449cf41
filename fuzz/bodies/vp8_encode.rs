//! The VP8 encoder: any pictures, of any size, with any settings.
//!
//! Eight bytes in front choose size, frames and how pictures move; then come eight bytes of settings for each frame.
//! What is left is what pictures are made of.

use glassline_codec::vp8::{
    Denoise, Denoised, EncodeError, EncodeWorkspace, Encoded, Limits, Parallel, Quality, References, Replace,
    Request, Serial, State, Updates, decode, denoise, encode, encode_candidates_in,
};
use glassline_media::{Picture, PixelFormat, Size, Time};
use std::sync::atomic::{AtomicU32, Ordering};

const LIMITS: Limits = Limits { max_pixels: 256 * 256 };
/// Samples of a side at most: small enough for many runs a second, and for whole and cut macroblocks.
const SIDE_MAX: u32 = 72;
const FRAMES_MAX: usize = 4;

/// Encodes pictures. Panics where a decoder comes to another state or picture than the encoder did, where memory that
/// is used again, the order of tasks or a state that was saved changes a byte, and where a frame is larger than asked
/// for.
pub fn run(data: &[u8]) {
    let Some((&[width, height, frames, motion, noise, choice, _, _], rest)) = data.split_first_chunk::<8>()
    else {
        return;
    };
    let side = |byte: u8| 1 + u32::from(byte) % SIDE_MAX;
    let size = Size::new(side(width), side(height)).expect("within the range");
    let frames = 1 + usize::from(frames) % FRAMES_MAX;
    let (settings, samples) = rest.split_at((frames * 8).min(rest.len()));
    let mut run = Run {
        state: State::new(),
        workspace: EncodeWorkspace::new(),
        denoised: None,
        strength: [None, Some(Denoise::Light), Some(Denoise::Medium), Some(Denoise::Strong)]
            [usize::from(choice % 4)],
    };
    for (number, settings) in settings.chunks(8).enumerate() {
        let mut bytes = [0; 8];
        bytes[..settings.len()].copy_from_slice(settings);
        // Another size in the middle of the stream.
        let size = if choice & 0x80 != 0 && number == 2 {
            Size { width: size.height, height: size.width }
        } else {
            size
        };
        let picture = picture(size, samples, number * usize::from(motion), noise);
        run.encode(&picture, &bytes);
    }
}

struct Run {
    state: State,
    workspace: EncodeWorkspace,
    denoised: Option<Denoised>,
    strength: Option<Denoise>,
}

impl Run {
    fn encode(&mut self, picture: &Picture, settings: &[u8; 8]) {
        let (request, qualities) = request(settings);
        let picture = match self.strength {
            Some(strength) => {
                let denoised = denoise(self.denoised.as_ref(), picture, strength).expect("I420");
                self.denoised.insert(denoised).picture().clone()
            }
            None => picture.clone(),
        };
        let before = self.state.hash();
        let encoded = encode_candidates_in(
            &self.state,
            &picture,
            &request,
            &qualities,
            &mut self.workspace,
            if settings[7] & 1 == 0 { &Serial } else { &Backwards },
        );
        assert_eq!(self.state.hash(), before, "a state is a value");
        let restored = State::restore(&self.state.save(), &LIMITS).expect("what was saved is restored");
        let mut fresh = EncodeWorkspace::new();
        let again = encode_candidates_in(&restored, &picture, &request, &qualities, &mut fresh, &Serial);
        let encoded = match (encoded, again) {
            (Ok(encoded), Ok(again)) => {
                let bytes =
                    |encoded: &[Encoded]| encoded.iter().map(|one| one.bytes.clone()).collect::<Vec<_>>();
                assert_eq!(bytes(&encoded), bytes(&again), "only the arguments have an influence");
                encoded
            }
            (Err(error), Err(again)) => {
                assert_eq!(error, again);
                assert!(is_fair(&error, &request, &qualities), "{error}");
                return;
            }
            (one, other) => panic!("{:?} and {:?}", one.map(|_| ()), other.map(|_| ())),
        };
        assert_eq!(encoded.len(), qualities.len());
        for (encoded, quality) in encoded.iter().zip(&qualities) {
            self.check(encoded, *quality, &request, picture.size());
        }
        if let [quality] = qualities[..] {
            let alone = encode(&self.state, &picture, &Request { quality, ..request }).expect("as before");
            assert_eq!(alone.bytes, encoded[0].bytes);
        }
        self.hurry(&picture, &request, &qualities, settings[6]);
        let kept = usize::from(settings[7] >> 1) % encoded.len();
        self.state = encoded[kept].state.clone();
    }

    /// Whenever which row is late, what comes of it is a frame as any other. Sizes beside quantisers may be left out.
    fn hurry(&self, picture: &Picture, request: &Request, qualities: &[Quality], seed: u8) {
        let clock = Hurried(AtomicU32::new(u32::from(seed)));
        let mut workspace = EncodeWorkspace::new();
        match encode_candidates_in(&self.state, picture, request, qualities, &mut workspace, &clock) {
            Ok(encoded) if encoded.len() == qualities.len() => {
                for (encoded, quality) in encoded.iter().zip(qualities) {
                    self.check(encoded, *quality, request, picture.size());
                }
            }
            Ok(encoded) => {
                assert!(qualities.iter().any(|quality| matches!(quality, Quality::Quantizer(_))));
                for encoded in &encoded {
                    let decoded = decode(&self.state, &encoded.bytes, &LIMITS).expect("a frame of ours");
                    assert_eq!(decoded.state, encoded.state);
                }
            }
            Err(error) => assert!(is_fair(&error, request, qualities), "{error}"),
        }
    }

    /// A decoder comes to the same, and the frame is what was asked for.
    fn check(&self, encoded: &Encoded, quality: Quality, request: &Request, size: Size) {
        let decoded = decode(&self.state, &encoded.bytes, &LIMITS).expect("a frame of ours");
        assert_eq!(decoded.state, encoded.state, "the decoder's state is the encoder's");
        let shown = decoded.picture.expect("each frame is shown");
        assert_eq!(shown.size(), size);
        assert!(planes(&shown) == planes(&encoded.picture), "the decoder shows what the encoder says");
        assert_eq!(decoded.key, encoded.stats.key);
        assert!(!request.key_frame || decoded.key);
        let stats = &encoded.stats;
        assert_eq!(stats.macroblocks, size.width.div_ceil(16) * size.height.div_ceil(16));
        assert!(stats.intra <= stats.macroblocks && stats.skipped <= stats.macroblocks);
        assert!(stats.filter_level <= 63 && (!decoded.key || stats.intra == stats.macroblocks));
        match quality {
            Quality::Quantizer(index) => assert_eq!(stats.quantizer, index),
            Quality::Bytes { target, never_above: true } => assert!(encoded.bytes.len() <= target),
            Quality::Bytes { .. } => {}
        }
        // Even noise at the finest quantiser: what a macroblock's 400 coefficients take at most.
        assert!(
            encoded.bytes.len() <= 256 + 1600 * stats.macroblocks as usize,
            "{} bytes",
            encoded.bytes.len()
        );
    }
}

/// Whether what was refused was nothing that can be done.
fn is_fair(error: &EncodeError, request: &Request, qualities: &[Quality]) -> bool {
    match error {
        EncodeError::Quantizer { found } => *found > 127 && qualities.contains(&Quality::Quantizer(*found)),
        EncodeError::Partitions { found } => {
            *found == request.token_partitions && ![1, 2, 4, 8].contains(found)
        }
        EncodeError::Target { target, least } => least > target,
        _ => false,
    }
}

/// What eight bytes say of a frame.
fn request(bytes: &[u8; 8]) -> (Request, Vec<Quality>) {
    let [speed, quantizer, target, references, updates, finer, partitions, count] = *bytes;
    let replace = |bits: u8| match bits & 3 {
        0 => Replace::Keep,
        1 => Replace::ByCurrent,
        2 => Replace::ByLast,
        _ => Replace::ByOther,
    };
    let updates =
        Updates { last: updates & 1 == 0, golden: replace(updates >> 1), altref: replace(updates >> 3) };
    let request = Request {
        quality: Quality::Quantizer(40),
        speed: speed % 12,
        references: References {
            last: references & 1 == 0,
            golden: references & 2 == 0,
            altref: references & 4 == 0,
        },
        updates,
        key_frame: references & 0xF0 == 0xF0,
        still_finer: finer,
        // Rarely a number that is refused.
        token_partitions: if partitions == 0xFF { 3 } else { 1 << (partitions % 4) },
    };
    let first = Quality::Quantizer(if quantizer == 0xFF { 128 } else { quantizer % 128 });
    let second = Quality::Bytes { target: 16 * usize::from(target), never_above: target & 1 != 0 };
    let qualities = match count >> 4 & 3 {
        0 | 1 => vec![first],
        2 => vec![second],
        _ => vec![first, second, Quality::Quantizer(quantizer / 2)],
    };
    (request, qualities)
}

/// Samples that repeat, moved by so many, with so much noise.
fn picture(size: Size, samples: &[u8], moved: usize, noise: u8) -> Picture {
    let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
    let mut random = 0x9E37_79B9_u32 ^ moved as u32;
    for plane in picture.planes_mut() {
        for (y, line) in plane.lines_mut().enumerate() {
            for (x, sample) in line.iter_mut().enumerate() {
                random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (x + y * 17 + moved) % samples.len().max(1);
                let noise = (random >> 24) as u8 & noise;
                *sample = samples.get(at).copied().unwrap_or(0).wrapping_add(noise);
            }
        }
    }
    picture
}

fn planes(picture: &Picture) -> Vec<Vec<&[u8]>> {
    picture.planes().iter().map(|plane| plane.lines().collect()).collect()
}

/// Says that it has three threads, and runs the tasks one after the other, the last one first.
#[derive(Debug)]
struct Backwards;

impl Parallel for Backwards {
    fn threads(&self) -> usize {
        3
    }

    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        tasks.iter_mut().rev().for_each(|task| task());
    }
}

/// A clock that jumps about: of the time for a picture anything from nothing to twice as much is gone.
#[derive(Debug)]
struct Hurried(AtomicU32);

impl Parallel for Hurried {
    fn threads(&self) -> usize {
        1
    }

    fn run(&self, tasks: &mut [&mut (dyn FnMut() + Send)]) {
        Serial.run(tasks);
    }

    fn spent(&self) -> f64 {
        let next = self.0.load(Ordering::Relaxed).wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        self.0.store(next, Ordering::Relaxed);
        f64::from(next >> 24) / 128.0
    }
}
