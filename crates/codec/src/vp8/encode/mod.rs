//! Encoding a frame: from a state and a picture to bytes and the next state.
//!
//! `frame` goes through the macroblocks; for each, `decision` says how it is predicted – with `motion_search`,
//! `reference` and `subblocks` – and `residue` codes what is left, with `quantization` and `rate` weighing errors
//! against bits. `tokens` keeps what that gives; when all of it is counted, `probabilities` are chosen and `write`
//! makes bytes. `speed` says what a speed level switches.

mod decision;
mod filter_choice;
mod frame;
mod motion_search;
mod parallel;
mod probabilities;
mod quantization;
mod rate;
mod reference;
mod residue;
mod source;
mod speed;
mod subblocks;
mod tokens;
mod write;

use super::decode::next;
use super::frame::{Frame, FrameHash, Geometry, Unfinished, Workspace};
use super::header::{FrameHeader, KeyTag, Lasting, Quantizer, Update};
use super::loop_filter::{Area, LoopFilter};
use super::modes::Reference;
use super::simd::Kernels;
use super::simd::encode::EncodeKernels;
use super::state::{Inner, State};
use frame::{Job, Store};
use glassline_media::{Colour, Picture, PixelFormat, Size};
pub use parallel::{Parallel, Serial};
use source::{Padding, Source};
use std::sync::Arc;
use thiserror::Error;

/// How good, or how large, a frame is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    /// Quantiser index, 0 (best) to 127.
    Quantizer(u8),
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
    /// A number of token partitions that the frame header cannot name.
    #[error("vp8: {found} token partitions; 1, 2, 4 or 8 is asked for")]
    Partitions {
        /// What was asked for.
        found: u8,
    },
    /// A partition that the frame header cannot name, as only enormous pictures have them.
    #[error("vp8: a first partition of {found} bytes; the most is 524287")]
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
    let geometry = check(picture, request)?;
    let EncodeWorkspace { frames, padding, store } = workspace;
    let source = Source::new(picture, &geometry, padding);
    let inner = state.0.as_deref().filter(|inner| inner.geometry == geometry);
    let references = inner.map(|inner| usable(inner, request.references)).unwrap_or_default();
    let key = request.key_frame || references.is_empty();
    let inner = inner.filter(|_| !key);
    let Quality::Quantizer(index) = request.quality;
    let start = inner.map_or_else(Lasting::at_key_frame, Inner::lasting);
    let coder = Coder { geometry, source, inner, references: &references, key, start: &start, request };
    coder.run(index, frames, store, parallel)
}

fn check(picture: &Picture, request: &Request) -> Result<Geometry, EncodeError> {
    if picture.format() != PixelFormat::I420 {
        return Err(EncodeError::Format { found: picture.format() });
    }
    let size = picture.size();
    if !(1..1 << 14).contains(&size.width) || !(1..1 << 14).contains(&size.height) {
        return Err(EncodeError::Size { found: size });
    }
    let Quality::Quantizer(index) = request.quality;
    if index > 127 {
        return Err(EncodeError::Quantizer { found: index });
    }
    if !matches!(request.token_partitions, 1 | 2 | 4 | 8) {
        return Err(EncodeError::Partitions { found: request.token_partitions });
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

/// What all encodings of one picture have in common.
struct Coder<'a> {
    geometry: Geometry,
    source: Source<'a>,
    inner: Option<&'a Inner>,
    references: &'a [Reference],
    key: bool,
    start: &'a Lasting,
    request: &'a Request,
}

impl Coder<'_> {
    fn run(
        &self,
        index: u8,
        frames: &mut Workspace,
        store: &mut Store,
        parallel: &dyn Parallel,
    ) -> Result<Encoded, EncodeError> {
        let geometry = &self.geometry;
        let mut lasting = self.start.clone();
        filter_choice::deltas(&mut lasting.filter);
        lasting.segmentation.enabled = false;
        lasting.sign_bias = [false; 2];
        let mut header = self.header(index);
        let job = Job {
            key: self.key,
            geometry: *geometry,
            source: self.source,
            state: self.inner,
            references: self.references,
            quantization: quantization::Quantization::new(&header.quantizer),
            block_costs: rate::BlockCosts::new(&self.start.probs),
            mode_costs: rate::ModeCosts::new(self.key, &self.start.probs),
            tools: speed::Tools::new(self.request.speed),
            kernels: Kernels::best(),
            encode_kernels: EncodeKernels::best(),
        };
        let mut unfinished = frames.frame(geometry);
        let mut counts = Box::new(tokens::NO_COUNTS);
        job.run(store, &mut counts, &mut unfinished.planes_mut(), false);
        header.filter_level = filter_choice::level(self.key, index);
        let field = write::Field { macroblocks: &store.macroblocks, geometry };
        let filter = LoopFilter::new(&header, &lasting.segmentation, &lasting.filter);
        let (mut new, mut bytes) = (None, Vec::new());
        {
            // Bytes do not depend on what the filter makes of the samples, so both go side by side.
            let mut unfinished = Some(unfinished);
            let mut finish =
                || new = unfinished.take().map(|frame| self.filtered(frame, filter.as_ref(), field));
            let written =
                write::Written { field, tokens: &store.tokens, counts: &counts, before: self.start };
            let mut write = || bytes = write::frame(&written, &mut header, &mut lasting, &Serial);
            parallel.run(&mut [&mut finish, &mut write]);
        }
        let Some(new) = new else { unreachable!("a task that was run has filled it") };
        frames.remember(&new);
        let tag = super::header::FrameTag::parse(&bytes).map_or(0, |tag| tag.first_partition_bytes);
        if tag >= 1 << 19 {
            return Err(EncodeError::TooLong { found: tag });
        }
        let stats = self.stats(&header, store);
        let mut picture = new.picture(geometry);
        if !lasting.colour_space {
            picture.colour = Colour { matrix: 6, ..Colour::UNSPECIFIED };
        }
        let key_tag =
            KeyTag { width: geometry.width, height: geometry.height, horizontal_scale: 0, vertical_scale: 0 };
        let segments = match self.inner {
            Some(inner) => inner.segment_map.clone(),
            None => vec![0; geometry.columns * geometry.rows].into(),
        };
        let key_tag = self.key.then_some(key_tag);
        let state = next(self.inner, key_tag, *geometry, &header, lasting, new, segments);
        Ok(Encoded { bytes, state: State(Some(Arc::new(state))), picture, stats })
    }

    fn header(&self, index: u8) -> FrameHeader {
        let replace = |replace: Replace| match replace {
            _ if self.key => Update::Current,
            Replace::Keep => Update::Keep,
            Replace::ByCurrent => Update::Current,
            Replace::ByLast => Update::Last,
            Replace::ByOther => Update::Other,
        };
        FrameHeader {
            key: self.key,
            version: 0,
            update_segment_map: false,
            segment_probs: [255; 3],
            simple_filter: false,
            filter_level: 0,
            sharpness: 0,
            token_partitions: usize::from(self.request.token_partitions),
            quantizer: Quantizer { index, ..Quantizer::default() },
            golden: replace(self.request.updates.golden),
            altref: replace(self.request.updates.altref),
            refresh_last: self.key || self.request.updates.last,
            skip_prob: None,
            intra_prob: 0,
            last_prob: 0,
            golden_prob: 0,
        }
    }

    fn filtered(
        &self,
        mut unfinished: Unfinished,
        filter: Option<&LoopFilter>,
        field: write::Field<'_>,
    ) -> Frame {
        let geometry = &self.geometry;
        let mut hash = FrameHash::new(geometry);
        let mut planes = unfinished.planes_mut();
        for row in 0..geometry.rows {
            if let Some(filter) = filter {
                let [y, u, v] = &mut planes;
                let (y_stride, uv_stride) = (geometry.y_stride, geometry.uv_stride);
                let mut area = Area { y, u, v, y_stride, uv_stride };
                filter.row(&mut area, geometry, row, field.row(row), Kernels::best());
            }
            hash.take_row(geometry, row, &planes);
        }
        unfinished.finish(hash.finish())
    }

    fn stats(&self, header: &FrameHeader, store: &Store) -> Stats {
        let geometry = &self.geometry;
        let field = write::Field { macroblocks: &store.macroblocks, geometry };
        let macroblocks = || (0..geometry.rows).flat_map(|row| field.row(row));
        Stats {
            key: self.key,
            quantizer: header.quantizer.index,
            filter_level: header.filter_level,
            macroblocks: (geometry.rows * geometry.columns) as u32,
            intra: macroblocks().filter(|macroblock| !macroblock.reference.is_inter()).count() as u32,
            skipped: macroblocks().filter(|macroblock| macroblock.skipped).count() as u32,
        }
    }
}
