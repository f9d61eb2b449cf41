//! The bitstream itself, by a stored hash: the same on every machine, with every kind of kernel and any threads.
//!
//! Where the encoder is changed on purpose, the failing test prints the new hash; what the change is worth stands in
//! `quality`.

use super::encode::picture;
use super::samples;
use glassline_codec::vp8::{
    Denoise, Denoised, EncodeWorkspace, Parallel, Quality, Replace, Request, Serial, State, Updates,
    denoise_in, encode_candidates_in,
};
use glassline_media::Picture;
use md5::{Digest, Md5};
use std::fmt::Write;

/// Of the pictures that are encoded: integers alone draw them.
const PICTURES: &str = "49613b162ce770034c14f4499588787e";
/// Of each frame's length, bytes and state.
const FRAMES: &str = "39af8e4a9d236f4b5fc560025321583a";

/// Runs tasks in turn from the last to the first, as threads might.
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

/// The pictures of the stream with this number: of odd size, moving, with and without noise, with a cut.
fn pictures(stream: u32) -> Vec<Picture> {
    let size = [(176, 144), (131, 75)][stream as usize % 2];
    let noise = [0, 12, 40][stream as usize % 3];
    (0..6).map(|at| picture(size, stream + at / 5, 3 * at, noise)).collect()
}

/// How picture `at` of stream `stream` is encoded. Together the streams use each speed and tool.
fn request(stream: u32, at: u32) -> (Request, Vec<Quality>) {
    let updates = Updates {
        last: at != 3,
        golden: if at == 1 { Replace::ByCurrent } else { Replace::Keep },
        altref: if at == 2 { Replace::ByLast } else { Replace::Keep },
    };
    let request = Request {
        speed: stream as u8,
        updates,
        key_frame: stream % 4 == 1 && at == 4,
        still_finer: if stream.is_multiple_of(3) { 12 } else { 0 },
        token_partitions: [1, 2, 4, 8][stream as usize % 4],
        ..Request::default()
    };
    let quantizer = Quality::Quantizer([4, 30, 60, 110][(stream + at) as usize % 4]);
    let qualities = match at {
        2 => vec![quantizer, Quality::Bytes { target: 1500, never_above: false }],
        _ => vec![quantizer],
    };
    (request, qualities)
}

fn add(hash: &mut Md5, bytes: &[u8]) {
    hash.update((bytes.len() as u64).to_le_bytes());
    hash.update(bytes);
}

fn text(hash: Md5) -> String {
    hash.finalize().iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// Encodes a stream for each speed; the last two are denoised first.
fn hash_of_frames(mut workspace: EncodeWorkspace, parallel: &dyn Parallel) -> String {
    let mut hash = Md5::new();
    for stream in 0..=10 {
        let (mut state, mut denoised) = (State::new(), None::<Denoised>);
        for (at, picture) in (0..).zip(pictures(stream)) {
            if stream >= 9 {
                let before = denoised.as_ref();
                denoised =
                    Some(denoise_in(before, &picture, Denoise::Medium, &mut workspace, parallel).unwrap());
            }
            let source = denoised.as_ref().map_or(&picture, Denoised::picture);
            let (request, qualities) = request(stream, at);
            let encoded =
                encode_candidates_in(&state, source, &request, &qualities, &mut workspace, parallel).unwrap();
            for candidate in &encoded {
                add(&mut hash, &candidate.bytes);
                add(&mut hash, &candidate.state.hash().to_bytes());
            }
            state = encoded.into_iter().next_back().unwrap().state;
        }
    }
    text(hash)
}

#[test]
fn the_bitstream_is_the_same_on_every_machine() {
    let mut hash = Md5::new();
    (0..=10).flat_map(pictures).for_each(|picture| add(&mut hash, &samples(&picture)));
    assert_eq!(text(hash), PICTURES, "the pictures themselves are others");
    assert_eq!(hash_of_frames(EncodeWorkspace::new(), &Serial), FRAMES, "this processor's kernels");
    assert_eq!(hash_of_frames(EncodeWorkspace::portable(), &Serial), FRAMES, "portable kernels");
    assert_eq!(hash_of_frames(EncodeWorkspace::new(), &Backwards), FRAMES, "several threads");
}
