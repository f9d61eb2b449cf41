//! Encoding a frame: from a state and a picture to bytes and the next state.
//!
//! `coder` encodes a picture, once or in several qualities, `size_target` until it has the right size.
//! `frame` goes through the macroblocks; for each, `decision` says how it is predicted – with `motion_search`,
//! `reference` and `subblocks` – and `residue` codes what is left, with `quantization` and `rate` weighing errors
//! against bits; `rows` does it for rows side by side. `tokens` keeps what that gives; when all of it is counted, `probabilities` are chosen and `write`
//! makes bytes, while `filter_choice` sets the loop filter. `segments` may be finer than their
//! frame. `speed` says what a speed level switches. `denoise` takes noise out of pictures beforehand.

mod candidates;
mod coder;
mod decision;
pub(crate) mod denoise;
mod filter_choice;
mod frame;
mod job;
mod lanes;
mod motion_search;
mod parallel;
mod probabilities;
mod quantization;
mod rate;
mod reference;
mod residue;
mod rows;
mod segments;
mod size_target;
mod source;
mod speed;
mod split;
mod store;
mod subblocks;
mod task;
pub(crate) mod tokens;
mod write;

use super::frame::{Frame, Geometry};
use super::macroblock::Reference;
use super::simd::Kernels;
use super::simd::encode::EncodeKernels;
use super::state::{Inner, State};
use super::workspace::Workspace;
use coder::Coder;
pub use denoise::{Denoise, Denoised, denoise, denoise_in};
use glassline_media::{Picture, PixelFormat, Size};
pub use parallel::{Parallel, Serial};
use source::{Padding, Source};
use store::Store;
use task::Task;
use thiserror::Error;

/// The quality, or the size, that a frame is encoded for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// Quantiser index, 0 (best) to 127.
    Quantizer(u8),
    /// A size. Frames come out within 5 % of it as a rule, where a quantiser gives such a size at all.
    Bytes {
        /// Bytes that are aimed at.
        target: usize,
        /// Whether a frame that is larger than that is no use.
        never_above: bool,
    },
}

/// Which reference frames a frame may be predicted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct References {
    /// The last frame.
    pub last: bool,
    /// The golden frame.
    pub golden: bool,
    /// The alternative reference frame.
    pub altref: bool,
}

impl References {
    /// All three.
    pub const ALL: References = References { last: true, golden: true, altref: true };
}

/// What becomes of a reference that a frame may replace.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Replace {
    /// It stays.
    #[default]
    Keep,
    /// It becomes the frame that is encoded.
    ByCurrent,
    /// It becomes what the last frame was before this one.
    ByLast,
    /// It becomes what the other of golden and altref was before this frame.
    ByOther,
}

/// Which references a frame replaces; a key frame replaces all of them, whatever stands here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Updates {
    /// Whether the last frame becomes this one.
    pub last: bool,
    /// The golden frame.
    pub golden: Replace,
    /// The alternative reference frame.
    pub altref: Replace,
}

impl Default for Updates {
    /// The last frame is replaced, the other two stay.
    fn default() -> Updates {
        Updates { last: true, golden: Replace::Keep, altref: Replace::Keep }
    }
}

/// What is asked of the encoder for one frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// How good, or how large.
    pub quality: Quality,
    /// 0 (best) to 10 (fastest); higher is 10. 6 is for calls.
    pub speed: u8,
    /// What may be predicted from.
    pub references: References,
    /// What is replaced.
    pub updates: Updates,
    /// A frame that needs no other. A frame is one in any case where the state holds no picture of its size, or no
    /// reference may be used.
    pub key_frame: bool,
    /// By how many quantiser indices macroblocks that stand still are finer than their frame, up to 127: a long-term
    /// reference hands down what they gain to all frames behind it. 0 is as fine. It has no influence on key frames.
    pub still_finer: u8,
    /// Parts that the tokens are written in, which can be written and read side by side: 1, 2, 4 or 8.
    pub token_partitions: u8,
}

impl Default for Request {
    /// Quantiser 40, speed 6, all references, one token partition.
    fn default() -> Request {
        Request {
            quality: Quality::Quantizer(40),
            speed: 6,
            references: References::ALL,
            updates: Updates::default(),
            key_frame: false,
            still_finer: 0,
            token_partitions: 1,
        }
    }
}

/// An encoded frame.
#[derive(Clone, Debug)]
pub struct Encoded {
    /// The frame.
    pub bytes: Vec<u8>,
    /// The state behind it: what [`decode`](super::decode()) makes of the same state and the bytes.
    pub state: State,
    /// The picture as a decoder shows it, sharing its planes with the state.
    pub picture: Picture,
    /// How it was encoded.
    pub stats: Stats,
}

/// How a frame was encoded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Whether it needs no other.
    pub key: bool,
    /// Quantiser index.
    pub quantizer: u8,
    /// Loop filter level, 0 to 63.
    pub filter_level: u8,
    /// Macroblocks.
    pub macroblocks: u32,
    /// Of them, those predicted from their own picture.
    pub intra: u32,
    /// Of them, those without coefficients.
    pub skipped: u32,
    /// Of them, those that are finer than the frame.
    pub finer: u32,
}

/// Why a picture was not encoded.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum EncodeError {
    /// A picture in another format than I420.
    #[error("vp8: a picture of {found:?}; 8-bit 4:2:0 is encoded")]
    Format {
        /// What it is.
        found: PixelFormat,
    },
    /// A picture that the frame header cannot name.
    #[error("vp8: a picture of {found}; a side is 1 to 16383")]
    Size {
        /// Its size.
        found: Size,
    },
    /// A quantiser index that does not exist.
    #[error("vp8: quantiser {found}; 0 to 127 is asked for")]
    Quantizer {
        /// What was asked for.
        found: u8,
    },
    /// A frame that is too large even without any coefficient.
    #[error("vp8: at most {target} bytes are asked for; a frame of this picture takes {least} or more")]
    Target {
        /// What was asked for.
        target: usize,
        /// What the least frame takes.
        least: usize,
    },
    /// A number of token partitions that the frame header cannot name.
    #[error("vp8: {found} token partitions; 1, 2, 4 or 8 is asked for")]
    Partitions {
        /// What was asked for.
        found: u8,
    },
    /// A partition that the frame header cannot name, as only enormous pictures have them.
    #[error("vp8: a partition of {found} bytes; the most is 524287 of modes, 16777215 of tokens")]
    TooLong {
        /// Its bytes.
        found: usize,
    },
}

/// Memory that encoding needs and that need not be asked of the system for every frame. It has no influence on any
/// result.
#[derive(Debug, Default)]
pub struct EncodeWorkspace {
    frames: Workspace,
    padding: Padding,
    store: Store,
}

impl EncodeWorkspace {
    /// A workspace that holds nothing yet.
    pub fn new() -> EncodeWorkspace {
        EncodeWorkspace::default()
    }

    /// A workspace that encodes and denoises with the portable kernels alone; see [`Workspace::portable`].
    pub fn portable() -> EncodeWorkspace {
        EncodeWorkspace { frames: Workspace::portable(), ..EncodeWorkspace::default() }
    }

    fn kernels(&self) -> (&'static Kernels, &'static EncodeKernels) {
        (self.frames.kernels(), self.frames.encode_kernels())
    }
}

/// Encodes one picture (I420, any size from 1×1 to 16383×16383) against `state`.
///
/// The result depends on the arguments alone, on every processor.
///
/// # Errors
/// Any [`EncodeError`].
pub fn encode(state: &State, picture: &Picture, request: &Request) -> Result<Encoded, EncodeError> {
    encode_in(state, picture, request, &mut EncodeWorkspace::new(), &Serial)
}

/// As [`encode`], with memory that is used again and tasks that may run side by side: what a loop over frames wants.
///
/// # Errors
/// As [`encode`].
pub fn encode_in(
    state: &State,
    picture: &Picture,
    request: &Request,
    workspace: &mut EncodeWorkspace,
    parallel: &dyn Parallel,
) -> Result<Encoded, EncodeError> {
    let qualities = [request.quality];
    let mut encoded = encode_candidates_in(state, picture, request, &qualities, workspace, parallel)?;
    // One quality was asked for, so one frame is there.
    Ok(encoded.swap_remove(0))
}

/// Encodes one picture several times, in each of `qualities` (that of `request` has no influence), for little more
/// than the price of one: motion is searched and modes are decided once, at the quality in the middle.
///
/// Each frame is as good as any other continuation of `state`; the sender keeps one. Frames come in the order of
/// `qualities`; with a [`Parallel`] that bounds the time, sizes beside quantisers may be left out.
///
/// # Errors
/// As [`encode`].
pub fn encode_candidates(
    state: &State,
    picture: &Picture,
    request: &Request,
    qualities: &[Quality],
) -> Result<Vec<Encoded>, EncodeError> {
    let mut workspace = EncodeWorkspace::new();
    encode_candidates_in(state, picture, request, qualities, &mut workspace, &Serial)
}

/// As [`encode_candidates`], with memory that is used again and tasks that may run side by side.
///
/// # Errors
/// As [`encode`].
pub fn encode_candidates_in(
    state: &State,
    picture: &Picture,
    request: &Request,
    qualities: &[Quality],
    workspace: &mut EncodeWorkspace,
    parallel: &dyn Parallel,
) -> Result<Vec<Encoded>, EncodeError> {
    let kernels = workspace.kernels();
    encode_with(state, picture, request, qualities, workspace, (parallel, kernels))
}

/// What encoding is done with: threads, and kernels.
type Means<'a> = (&'a dyn Parallel, (&'static Kernels, &'static EncodeKernels));

fn encode_with(
    state: &State,
    picture: &Picture,
    request: &Request,
    qualities: &[Quality],
    workspace: &mut EncodeWorkspace,
    (parallel, (kernels, encode_kernels)): Means<'_>,
) -> Result<Vec<Encoded>, EncodeError> {
    let geometry = check(picture, request, qualities)?;
    let EncodeWorkspace { frames, padding, store } = workspace;
    let source = Source::new(picture, &geometry, padding);
    let inner = state.0.as_deref().filter(|inner| inner.geometry == geometry);
    let references = inner.map(|inner| usable(inner, request.references)).unwrap_or_default();
    let key = request.key_frame || references.is_empty();
    let inner = inner.filter(|_| !key);
    let task = Task {
        geometry,
        source,
        inner,
        references: &references,
        key,
        request,
        parallel,
        kernels,
        encode_kernels,
    };
    candidates::candidates(&mut Coder::new(task, frames, store), qualities)
}

fn check(picture: &Picture, request: &Request, qualities: &[Quality]) -> Result<Geometry, EncodeError> {
    for &quality in qualities {
        if let Quality::Quantizer(found @ 128..) = quality {
            return Err(EncodeError::Quantizer { found });
        }
    }
    if !matches!(request.token_partitions, 1 | 2 | 4 | 8) {
        return Err(EncodeError::Partitions { found: request.token_partitions });
    }
    check_picture(picture)
}

fn check_picture(picture: &Picture) -> Result<Geometry, EncodeError> {
    if picture.format() != PixelFormat::I420 {
        return Err(EncodeError::Format { found: picture.format() });
    }
    let size = picture.size();
    if !(1..1 << 14).contains(&size.width) || !(1..1 << 14).contains(&size.height) {
        return Err(EncodeError::Size { found: size });
    }
    Ok(Geometry::new(size.width as u16, size.height as u16))
}

/// The references that may be used, each frame once.
fn usable(inner: &Inner, asked: References) -> Vec<Reference> {
    let mut frames: Vec<&Frame> = Vec::with_capacity(3);
    let mut references = Vec::with_capacity(3);
    for (asked, reference, frame) in [
        (asked.last, Reference::Last, &inner.last),
        (asked.golden, Reference::Golden, &inner.golden),
        (asked.altref, Reference::Altref, &inner.altref),
    ] {
        if asked && !frames.iter().any(|known| known.same(frame)) {
            frames.push(frame);
            references.push(reference);
        }
    }
    references
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vp8::simd;
    use glassline_media::Time;

    /// Moving stripes with some noise.
    fn picture(number: u32) -> Picture {
        picture_of(Size::new(120, 90).unwrap(), number)
    }

    fn picture_of(size: Size, number: u32) -> Picture {
        let mut picture = Picture::new(PixelFormat::I420, size, Time::ZERO);
        let mut noise = number.wrapping_mul(77_777) | 1;
        for plane in picture.planes_mut() {
            for (y, line) in plane.lines_mut().enumerate() {
                for (x, sample) in line.iter_mut().enumerate() {
                    noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    let stripe = (x as u32 + 3 * number + y as u32 / 3) % 29 * 7;
                    *sample = (stripe + (noise >> 28)) as u8;
                }
            }
        }
        picture
    }

    #[test]
    fn every_processor_gives_the_same_bytes() {
        let best = (Kernels::best(), EncodeKernels::best());
        let scalar = (&simd::SCALAR, &simd::encode::SCALAR);
        for speed in [0, 3, 6, 10] {
            let mut state = State::new();
            for number in 0..3 {
                let request = Request { speed, ..Request::default() };
                let qualities = [Quality::Quantizer(12), Quality::Bytes { target: 900, never_above: true }];
                let encode = |kernels| {
                    let (mut workspace, picture) = (EncodeWorkspace::new(), picture(number));
                    encode_with(&state, &picture, &request, &qualities, &mut workspace, (&Serial, kernels))
                        .unwrap()
                };
                let (fast, slow) = (encode(best), encode(scalar));
                for (fast, slow) in fast.iter().zip(&slow) {
                    assert_eq!(fast.bytes, slow.bytes, "speed {speed}, picture {number}");
                    assert_eq!(fast.state, slow.state);
                }
                state = fast[0].state.clone();
            }
        }
    }

    #[test]
    fn what_stands_still_costs_next_to_nothing_and_what_changes_is_seen() {
        for speed in [0, 6, 10] {
            let request = Request { speed, quality: Quality::Quantizer(30), ..Request::default() };
            // Whole macroblocks: what lies beyond the picture's edges changes as well.
            let picture = picture_of(Size::new(128, 96).unwrap(), 0);
            let first = encode(&State::new(), &picture, &request).unwrap();
            // Once more, so that what the key frame left is coded.
            let second = encode(&first.state, &picture, &request).unwrap();
            let same = encode(&second.state, &second.picture, &request).unwrap();
            assert_eq!(same.stats.skipped, same.stats.macroblocks, "speed {speed}");
            assert!(same.bytes.len() < 60, "speed {speed}: {} bytes", same.bytes.len());
            // A change of one macroblock, by no more than fourteen: of luma, then of chroma alone.
            for plane in [0, 1] {
                let mut changed = second.picture.clone();
                let side = if plane == 0 { 16 } else { 8 };
                for line in changed.planes_mut()[plane].lines_mut().skip(2 * side).take(side) {
                    line[3 * side..4 * side].iter_mut().for_each(|sample| *sample = sample.wrapping_add(14));
                }
                let next = encode(&second.state, &changed, &request).unwrap();
                let coded = next.stats.macroblocks - next.stats.skipped;
                assert!((1..=4).contains(&coded), "speed {speed}, plane {plane}: {coded} macroblocks");
            }
        }
    }
}
