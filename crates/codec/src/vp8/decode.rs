//! Decoding a frame: from a state and bytes to a picture and the next state.
//!
//! Rows of macroblocks go through all stages one after the other, so that a row's samples are still in the cache when
//! they are filtered and hashed. Intra prediction wants the row above as it was before the filter, so its last lines
//! are kept aside.

use super::bool_coder::BoolDecoder;
use super::error::Error;
use super::frame::{Frame, Geometry};
use super::header::{FrameHeader, FrameTag, Lasting};
use super::limits::Limits;
use super::loop_filter::{Area, LoopFilter};
use super::macroblock::Macroblock;
use super::modes::ModeReader;
use super::next_state::next;
use super::quantizer::Factors;
use super::reconstruct::Reconstruction;
use super::simd::Kernels;
use super::state::{Inner, State};
use super::tokens::{self, Context};
use super::workspace::{RowStore, Workspace};
use glassline_media::{Colour, Picture};
use std::sync::Arc;

/// What came of a frame.
#[derive(Clone, Debug)]
pub struct Decoded {
    /// The state behind the frame.
    pub state: State,
    /// The picture, where the frame is meant to be seen: I420, sharing its planes with the state. Its capture time
    /// is zero, as the stream does not carry it.
    pub picture: Option<Picture>,
    /// Whether it was a key frame.
    pub key: bool,
}

/// Decodes one frame (RFC 6386).
///
/// `state` is what the frame before this one has left, or any other state that the sender has coded against. An
/// empty frame is one that the encoder dropped: there is no new picture, and the state stays.
///
/// # Errors
/// Any [`Error`] but `Saved`. Nothing is concealed: a frame that is damaged in a way that can be told is no picture.
/// Time and memory are bounded by the picture's size, which `limits` bounds.
pub fn decode(state: &State, frame: &[u8], limits: &Limits) -> Result<Decoded, Error> {
    decode_in(state, frame, limits, &mut Workspace::new())
}

/// As [`decode`], with memory that is used again instead of being asked for: what a loop over frames wants.
///
/// # Errors
/// As [`decode`].
pub fn decode_in(
    state: &State,
    frame: &[u8],
    limits: &Limits,
    workspace: &mut Workspace,
) -> Result<Decoded, Error> {
    let kernels = workspace.kernels();
    decode_with(state, frame, limits, workspace, kernels)
}

pub(crate) fn decode_with(
    state: &State,
    frame: &[u8],
    limits: &Limits,
    workspace: &mut Workspace,
    kernels: &Kernels,
) -> Result<Decoded, Error> {
    if frame.is_empty() {
        let known = state.0.is_some();
        let dropped = Decoded { state: state.clone(), picture: None, key: false };
        return if known { Ok(dropped) } else { Err(Error::NoKeyFrame) };
    }
    let tag = FrameTag::parse(frame)?;
    let (geometry, mut lasting) = match (&tag.key, &state.0) {
        (Some(key), _) => {
            limits.check(key.width, key.height)?;
            (Geometry::new(key.width, key.height), Lasting::at_key_frame())
        }
        (None, Some(inner)) => (inner.geometry, inner.lasting()),
        (None, None) => return Err(Error::NoKeyFrame),
    };
    let (first, rest) =
        frame[tag.bytes()..].split_at_checked(tag.first_partition_bytes).ok_or_else(|| {
            let found = frame.len() - tag.bytes();
            Error::Partition { partition: 0, found, expected: tag.first_partition_bytes }
        })?;
    let mut modes = BoolDecoder::new(first);
    let header = lasting.parse(&tag, &mut modes);
    if modes.ran_out() {
        return Err(Error::Truncated { partition: 0, row: 0, rows: geometry.rows });
    }
    let partitions = token_partitions(rest, header.token_partitions)?;
    let references = if header.key { None } else { state.0.as_deref() };
    let segment_map = segment_map(&header, &geometry, state);
    let job = Job { header: &header, lasting: &lasting, geometry, references, kernels };
    let (new, segment_map) = job.run(modes, &partitions, segment_map, workspace)?;
    workspace.remember(&new);
    let picture = tag.shown.then(|| {
        let mut picture = new.picture(&geometry);
        if !lasting.colour_space {
            // BT.601 (§9.2).
            picture.colour = Colour { matrix: 6, ..Colour::UNSPECIFIED };
        }
        picture
    });
    let inner = next(state.0.as_deref(), tag.key, geometry, &header, lasting, new, segment_map);
    Ok(Decoded { state: State(Some(Arc::new(inner))), picture, key: header.key })
}

/// Cuts what follows the first partition into token partitions (§9.5).
fn token_partitions(rest: &[u8], count: usize) -> Result<Vec<&[u8]>, Error> {
    let table = 3 * (count - 1);
    let (sizes, mut rest) = rest.split_at_checked(table).ok_or(Error::Partition {
        partition: 1,
        found: rest.len(),
        expected: table,
    })?;
    let mut partitions = Vec::with_capacity(count);
    for (at, size) in sizes.as_chunks::<3>().0.iter().enumerate() {
        let expected = usize::from(size[0]) | usize::from(size[1]) << 8 | usize::from(size[2]) << 16;
        let too_long = Error::Partition { partition: at + 1, found: rest.len(), expected };
        let (partition, behind) = rest.split_at_checked(expected).ok_or(too_long)?;
        partitions.push(partition);
        rest = behind;
    }
    partitions.push(rest);
    Ok(partitions)
}

/// The segments of macroblocks, before a frame that may change them.
enum SegmentMap {
    Kept(Arc<[u8]>),
    Changing(Vec<u8>),
}

fn segment_map(header: &FrameHeader, geometry: &Geometry, state: &State) -> SegmentMap {
    let kept = state.0.as_ref().filter(|_| !header.key).map(|inner| &inner.segment_map);
    match (kept, header.update_segment_map) {
        (Some(map), false) => SegmentMap::Kept(map.clone()),
        // All of it is written; a map is only kept where nothing is.
        _ => SegmentMap::Changing(vec![0; geometry.columns * geometry.rows]),
    }
}

/// All that the rows of a frame have in common.
struct Job<'a> {
    header: &'a FrameHeader,
    lasting: &'a Lasting,
    geometry: Geometry,
    references: Option<&'a Inner>,
    kernels: &'a Kernels,
}

impl Job<'_> {
    fn run(
        &self,
        modes: BoolDecoder<'_>,
        partitions: &[&[u8]],
        mut segment_map: SegmentMap,
        workspace: &mut Workspace,
    ) -> Result<(Frame, Arc<[u8]>), Error> {
        let geometry = &self.geometry;
        let mut unfinished = workspace.frame(geometry);
        let rows = &mut workspace.rows;
        for macroblocks in [&mut rows.above, &mut rows.current] {
            macroblocks.clear();
            macroblocks.resize(geometry.columns + 1, Macroblock::OUTSIDE);
        }
        rows.contexts.clear();
        rows.contexts.resize(geometry.columns, [0; 9]);
        rows.top.reset(geometry);
        let mut modes = ModeReader {
            decoder: modes,
            header: self.header,
            probs: &self.lasting.probs,
            sign_bias: self.lasting.sign_bias,
            geometry: *geometry,
        };
        let mut tokens: Vec<BoolDecoder<'_>> =
            partitions.iter().map(|&data| BoolDecoder::new(data)).collect();
        let filter = LoopFilter::new(self.header, &self.lasting.segmentation, &self.lasting.filter);
        let factors = Factors::of_segments(&self.header.quantizer, &self.lasting.segmentation);
        let mut planes = unfinished.planes_mut();
        let mut no_segments = vec![0; geometry.columns];
        for row in 0..geometry.rows {
            let segments = match &mut segment_map {
                SegmentMap::Changing(map) => &mut map[row * geometry.columns..][..geometry.columns],
                SegmentMap::Kept(map) => {
                    no_segments.copy_from_slice(&map[row * geometry.columns..][..geometry.columns]);
                    &mut no_segments
                }
            };
            (self.kernels.parse_modes)(&mut modes, row, &rows.above, &mut rows.current, segments);
            self.check(modes.decoder, 0, row)?;
            let partition = row % tokens.len();
            self.decode_row(row, rows, &mut tokens[partition], &factors, &mut planes);
            self.check(tokens[partition], partition + 1, row)?;
            rows.top.keep(geometry, row, &planes);
            if let Some(filter) = &filter {
                let [y, u, v] = &mut planes;
                let (y_stride, uv_stride) = (geometry.y_stride, geometry.uv_stride);
                let mut area = Area { y, u, v, y_stride, uv_stride };
                filter.row(&mut area, geometry, row, &rows.current[1..], self.kernels);
            }
            std::mem::swap(&mut rows.above, &mut rows.current);
        }
        let segment_map = match segment_map {
            SegmentMap::Kept(map) => map,
            SegmentMap::Changing(map) => map.into(),
        };
        Ok((unfinished.finish(), segment_map))
    }

    fn check(&self, decoder: BoolDecoder<'_>, partition: usize, row: usize) -> Result<(), Error> {
        let rows = self.geometry.rows;
        if decoder.ran_out() { Err(Error::Truncated { partition, row, rows }) } else { Ok(()) }
    }

    fn decode_row(
        &self,
        row: usize,
        rows: &mut RowStore,
        decoder: &mut BoolDecoder<'_>,
        factors: &[Factors; 4],
        planes: &mut [&mut [u8]; 3],
    ) {
        let mut left: Context = [0; 9];
        let mut coefficients = [0; tokens::BLOCKS * 16];
        let mut reconstruction = Reconstruction {
            geometry: &self.geometry,
            top: &rows.top,
            references: self.references,
            version: self.header.version,
            kernels: self.kernels,
            row,
            first_row: 0,
        };
        for (column, (macroblock, above)) in rows.current[1..].iter_mut().zip(&mut rows.contexts).enumerate()
        {
            let has_y2 = macroblock.has_y2();
            let ends = if macroblock.skipped {
                tokens::skip(has_y2, above, &mut left);
                None
            } else {
                let factors = &factors[usize::from(macroblock.segment & 3)];
                let probs = &self.lasting.probs.coefficients;
                let read = self.kernels.read_macroblock;
                let ends = read(decoder, probs, has_y2, factors, (above, &mut left), &mut coefficients);
                Some(ends).filter(|ends| ends.any)
            };
            macroblock.coded = ends.is_some();
            reconstruction.macroblock(column, macroblock, ends.as_ref(), &mut coefficients, planes);
        }
    }
}
