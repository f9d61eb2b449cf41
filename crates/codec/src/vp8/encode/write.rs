//! A frame's bytes: header, modes and motion vectors, token partitions (RFC 6386 §9 and §19).

use super::probabilities::{self, VectorCounts, count_vector, probability};
use super::rate::{self, B_PATHS, KEY_Y_PATHS, SHORT_PATHS, UV_PATHS, Y_PATHS, intra_index};
use super::tokens::{Counts, Token};
use crate::vp8::bool_coder::BoolEncoder;
use crate::vp8::frame::Geometry;
use crate::vp8::header::{FrameHeader, Lasting, Update};
use crate::vp8::macroblock::{Macroblock, Mode, Reference, Split};
use crate::vp8::modes::{B_TREE, KEY_Y_TREE, SEGMENT_TREE, UV_TREE, Y_TREE};
use crate::vp8::motion::{Bounds, SHORT_TREE, Suggested, sub_context};
use crate::vp8::simd::encode::EncodeKernels;
use crate::vp8::state::{Filter, Probabilities, Segmentation};
use crate::vp8::tables::coefficients;
use crate::vp8::tables::modes::{
    B_MODE, KEY_B_MODE, KEY_UV_MODE, KEY_Y_MODE, MODE_CONTEXTS, SPLIT, SUB_VECTOR, UPDATE_VECTOR,
};
use crate::vp8::vector::Vector;

/// All macroblocks of a frame with a line of those outside above them, and one to the left of each row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Field<'a> {
    pub(crate) macroblocks: &'a [Macroblock],
    pub(crate) geometry: &'a Geometry,
}

impl<'a> Field<'a> {
    /// The macroblocks of a row.
    pub(crate) fn row(self, row: usize) -> &'a [Macroblock] {
        &self.rows(row).1[1..]
    }

    /// The row at `row`, from the macroblock outside on; above it that of `row` − 1.
    fn rows(self, row: usize) -> (&'a [Macroblock], &'a [Macroblock]) {
        let across = self.geometry.columns + 1;
        let (above, current) = self.macroblocks[row * across..][..2 * across].split_at(across);
        (above, current)
    }
}

/// What was counted of modes and vectors.
#[derive(Clone, Debug)]
struct ModeCounts {
    skipped: [u32; 2],
    inter: [u32; 2],
    not_last: [u32; 2],
    altref: [u32; 2],
    y: [[u32; 2]; 4],
    uv: [[u32; 2]; 3],
    vector: VectorCounts,
    segments: [u32; 4],
}

fn count_path<const NODES: usize>(
    counts: &mut [[u32; 2]; NODES],
    tree: &[i8],
    path: crate::vp8::bool_coder::Path,
) {
    let mut at = 0usize;
    for shift in (0..path.length).rev() {
        let bit = usize::from(path.bits >> shift & 1);
        counts[at >> 1][bit] += 1;
        at = tree[at + bit] as usize;
    }
}

impl ModeCounts {
    fn new(field: Field<'_>, key: bool) -> ModeCounts {
        let mut counts = ModeCounts {
            skipped: [0; 2],
            inter: [0; 2],
            not_last: [0; 2],
            altref: [0; 2],
            y: [[0; 2]; 4],
            uv: [[0; 2]; 3],
            vector: [[[0; 2]; 19]; 2],
            segments: [0; 4],
        };
        for row in 0..field.geometry.rows {
            let (above, current) = field.rows(row);
            for column in 0..field.geometry.columns {
                let macroblock = &current[column + 1];
                counts.skipped[usize::from(macroblock.skipped)] += 1;
                counts.segments[usize::from(macroblock.segment & 3)] += 1;
                if !key {
                    counts.take(macroblock, (&above[column + 1], &current[column], &above[column]), || {
                        Bounds::new(column, row, field.geometry.columns, field.geometry.rows)
                    });
                }
            }
        }
        counts
    }

    fn take(
        &mut self,
        macroblock: &Macroblock,
        (above, left, above_left): (&Macroblock, &Macroblock, &Macroblock),
        bounds: impl Fn() -> Bounds,
    ) {
        self.inter[usize::from(macroblock.reference.is_inter())] += 1;
        if !macroblock.reference.is_inter() {
            count_path(&mut self.y, &Y_TREE, Y_PATHS[intra_index(macroblock.mode)]);
            count_path(&mut self.uv, &UV_TREE, UV_PATHS[intra_index(macroblock.uv_mode)]);
            return;
        }
        self.not_last[usize::from(macroblock.reference != Reference::Last)] += 1;
        if macroblock.reference != Reference::Last {
            self.altref[usize::from(macroblock.reference == Reference::Altref)] += 1;
        }
        let best =
            || Suggested::new(macroblock.reference, above, left, above_left, [false; 2]).best(&bounds());
        match macroblock.mode {
            Mode::New => count_vector(&mut self.vector, difference(macroblock.vector, best())),
            Mode::Split => {
                let best = best();
                for piece in pieces(macroblock, above, left) {
                    if piece.kind == 3 {
                        count_vector(&mut self.vector, difference(piece.vector, best));
                    }
                }
            }
            _ => {}
        }
    }
}

/// The components of `vector` − `best`, rows first.
pub(crate) fn difference(vector: Vector, best: Vector) -> [i32; 2] {
    [i32::from(vector.row()) - i32::from(best.row()), i32::from(vector.column()) - i32::from(best.column())]
}

/// A piece of a split macroblock: how its vector is said (0 as to the left, 1 as above, 2 zero, 3 new), and in which
/// context.
pub(crate) struct Piece {
    pub(crate) kind: usize,
    pub(crate) context: usize,
    pub(crate) vector: Vector,
}

/// The pieces of a split macroblock.
pub(crate) fn pieces(
    macroblock: &Macroblock,
    above: &Macroblock,
    left: &Macroblock,
) -> impl Iterator<Item = Piece> {
    macroblock.split.first_blocks().iter().map(move |&first| {
        let first = usize::from(first);
        let to_left =
            if first % 4 == 0 { left.block_vector(first + 3) } else { macroblock.vectors[first - 1] };
        let on_top = if first < 4 { above.block_vector(first + 12) } else { macroblock.vectors[first - 4] };
        let vector = macroblock.vectors[first];
        let kind = if vector == to_left {
            0
        } else if vector == on_top {
            1
        } else if vector == Vector::ZERO {
            2
        } else {
            3
        };
        Piece { kind, context: sub_context(to_left, on_top), vector }
    })
}

/// What a frame is written from, beside its modes.
pub(crate) struct Written<'a> {
    pub(crate) field: Field<'a>,
    /// Tokens by row of macroblocks.
    pub(crate) tokens: &'a [Vec<Token>],
    pub(crate) counts: &'a Counts,
    /// What the state in front of the frame says.
    pub(crate) before: &'a Lasting,
    pub(crate) kernels: &'static EncodeKernels,
}

/// What was chosen beside the probabilities: whether modes' probabilities are new.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Chosen {
    new_y: bool,
    new_uv: bool,
}

/// Chooses the probabilities of a frame, and completes `header` and `lasting` with them.
pub(crate) fn choose(written: &Written<'_>, header: &mut FrameHeader, lasting: &mut Lasting) -> Chosen {
    let counts = ModeCounts::new(written.field, header.key);
    let ratio = |[zeros, ones]: [u32; 2]| probability(zeros, ones);
    header.skip_prob = Some(ratio(counts.skipped));
    if header.update_segment_map {
        let [a, b, c, d] = counts.segments;
        header.segment_probs = [ratio([a + b, c + d]), ratio([a, b]), ratio([c, d])];
    }
    let mut chosen = Chosen { new_y: false, new_uv: false };
    if !header.key {
        header.intra_prob = ratio(counts.inter);
        header.last_prob = ratio(counts.not_last);
        header.golden_prob = ratio(counts.altref);
        chosen.new_y = probabilities::adapt_modes(&mut lasting.probs.y_mode, &counts.y);
        chosen.new_uv = probabilities::adapt_modes(&mut lasting.probs.uv_mode, &counts.uv);
        probabilities::adapt_vectors(&mut lasting.probs.vector, &counts.vector);
    }
    probabilities::adapt_coefficients(&mut lasting.probs.coefficients, written.counts);
    chosen
}

/// The parts of a frame's bytes.
#[derive(Debug, Default)]
pub(crate) struct Partitions {
    /// With the clear bytes in front of it.
    first: Vec<u8>,
    tokens: Vec<Vec<u8>>,
}

/// A task that has to be run once.
pub(crate) type Task<'a> = Box<dyn FnMut() + Send + 'a>;

impl Written<'_> {
    /// The tasks that write the partitions into `out`, in any order, with the probabilities that were chosen.
    pub(crate) fn tasks<'b>(
        &'b self,
        header: &'b FrameHeader,
        lasting: &'b Lasting,
        chosen: Chosen,
        out: &'b mut Partitions,
    ) -> Vec<Task<'b>> {
        let count = header.token_partitions;
        out.tokens.resize(count, Vec::new());
        let first = &mut out.first;
        let mut tasks: Vec<Task<'b>> = vec![Box::new(move || {
            let mut encoder = BoolEncoder::new(vec![0; if header.key { 10 } else { 3 }]);
            write_header(&mut encoder, header, lasting, self.before, (chosen.new_y, chosen.new_uv));
            let writer = ModeWriter { header, probs: &lasting.probs, field: self.field };
            (0..self.field.geometry.rows).for_each(|row| writer.row(&mut encoder, row));
            *first = encoder.finish();
        })];
        let write = self.kernels.write_tokens;
        tasks.extend(out.tokens.iter_mut().enumerate().map(|(at, partition)| -> Task<'b> {
            let rows = self.tokens.iter().skip(at).step_by(count);
            Box::new(move || {
                let tokens: usize = rows.clone().map(Vec::len).sum();
                let mut encoder = BoolEncoder::new(Vec::with_capacity(tokens / 2 + 16));
                rows.clone().for_each(|row| write(&mut encoder, row, &lasting.probs.coefficients));
                *partition = encoder.finish();
            })
        }));
        tasks
    }
}

impl Partitions {
    /// The frame, once all partitions are written. The second result is the length of one that is longer than the
    /// frame can say.
    pub(crate) fn join(self, header: &FrameHeader, geometry: &Geometry) -> (Vec<u8>, Option<usize>) {
        let mut bytes = self.first;
        let first = bytes.len() - if header.key { 10 } else { 3 };
        write_tag(&mut bytes, header.key, geometry, first);
        let mut too_long = Some(first).filter(|&bytes| bytes >= 1 << 19);
        for partition in &self.tokens[..self.tokens.len() - 1] {
            too_long = too_long.or(Some(partition.len()).filter(|&bytes| bytes >= 1 << 24));
            bytes.extend_from_slice(&(partition.len() as u32).to_le_bytes()[..3]);
        }
        self.tokens.iter().for_each(|partition| bytes.extend_from_slice(partition));
        (bytes, too_long)
    }
}

fn write_tag(bytes: &mut [u8], key: bool, geometry: &Geometry, first_partition: usize) {
    // Version 0, shown.
    let tag = u32::from(!key) | 1 << 4 | (first_partition as u32) << 5;
    bytes[..3].copy_from_slice(&tag.to_le_bytes()[..3]);
    if key {
        bytes[3..6].copy_from_slice(&[0x9d, 0x01, 0x2a]);
        bytes[6..8].copy_from_slice(&geometry.width.to_le_bytes());
        bytes[8..10].copy_from_slice(&geometry.height.to_le_bytes());
    }
}

fn write_header(
    out: &mut BoolEncoder,
    header: &FrameHeader,
    lasting: &Lasting,
    before: &Lasting,
    (new_y, new_uv): (bool, bool),
) {
    if header.key {
        out.bit(lasting.colour_space);
        out.bit(lasting.clamping_unneeded);
    }
    write_segmentation(out, header, &lasting.segmentation, &before.segmentation);
    out.bit(header.simple_filter);
    out.literal(u32::from(header.filter_level), 6);
    out.literal(u32::from(header.sharpness), 3);
    write_filter_deltas(out, &lasting.filter, &before.filter);
    out.literal(header.token_partitions.ilog2(), 2);
    out.literal(u32::from(header.quantizer.index), 7);
    let quantizer = &header.quantizer;
    for offset in [quantizer.y_dc, quantizer.y2_dc, quantizer.y2_ac, quantizer.uv_dc, quantizer.uv_ac] {
        out.optional_signed(offset, 4);
    }
    if !header.key {
        out.bit(header.golden == Update::Current);
        out.bit(header.altref == Update::Current);
        for update in [header.golden, header.altref] {
            match update {
                Update::Current => {}
                Update::Keep => out.literal(0, 2),
                Update::Last => out.literal(1, 2),
                Update::Other => out.literal(2, 2),
            }
        }
        lasting.sign_bias.iter().for_each(|&bias| out.bit(bias));
    }
    // The probabilities last.
    out.bit(true);
    if !header.key {
        out.bit(header.refresh_last);
    }
    write_coefficient_probs(out, &lasting.probs, &before.probs);
    out.bit(header.skip_prob.is_some());
    if let Some(probability) = header.skip_prob {
        out.literal(u32::from(probability), 8);
    }
    if !header.key {
        for probability in [header.intra_prob, header.last_prob, header.golden_prob] {
            out.literal(u32::from(probability), 8);
        }
        out.bit(new_y);
        if new_y {
            lasting.probs.y_mode.iter().for_each(|&prob| out.literal(u32::from(prob), 8));
        }
        out.bit(new_uv);
        if new_uv {
            lasting.probs.uv_mode.iter().for_each(|&prob| out.literal(u32::from(prob), 8));
        }
        write_vector_probs(out, &lasting.probs, &before.probs);
    }
}

fn write_segmentation(
    out: &mut BoolEncoder,
    header: &FrameHeader,
    segmentation: &Segmentation,
    before: &Segmentation,
) {
    out.bit(segmentation.enabled);
    if !segmentation.enabled {
        return;
    }
    let same = Segmentation { enabled: before.enabled, ..segmentation.clone() } == *before;
    out.bit(header.update_segment_map);
    out.bit(!same);
    if !same {
        out.bit(segmentation.absolute);
        segmentation.quantizer.iter().for_each(|&value| out.optional_signed(value, 7));
        segmentation.filter_level.iter().for_each(|&value| out.optional_signed(value, 6));
    }
    if header.update_segment_map {
        for probability in header.segment_probs {
            out.bit(probability != 255);
            if probability != 255 {
                out.literal(u32::from(probability), 8);
            }
        }
    }
}

fn write_filter_deltas(out: &mut BoolEncoder, filter: &Filter, before: &Filter) {
    out.bit(filter.deltas_enabled);
    if !filter.deltas_enabled {
        return;
    }
    let changed = filter.reference != before.reference || filter.mode != before.mode;
    out.bit(changed);
    if !changed {
        return;
    }
    let new = filter.reference.iter().chain(&filter.mode);
    for (&value, &old) in new.zip(before.reference.iter().chain(&before.mode)) {
        out.bit(value != old);
        if value != old {
            out.literal(u32::from(value.unsigned_abs()), 6);
            out.bit(value < 0);
        }
    }
}

fn write_coefficient_probs(out: &mut BoolEncoder, probs: &Probabilities, before: &Probabilities) {
    let flat =
        |probs: &Probabilities| probs.coefficients.as_flattened().as_flattened().as_flattened().to_vec();
    let flags = coefficients::UPDATE.as_flattened().as_flattened().as_flattened();
    for ((new, old), &flag) in flat(probs).into_iter().zip(flat(before)).zip(flags) {
        out.bool(new != old, flag);
        if new != old {
            out.literal(u32::from(new), 8);
        }
    }
}

fn write_vector_probs(out: &mut BoolEncoder, probs: &Probabilities, before: &Probabilities) {
    let (new, old) = (probs.vector.as_flattened(), before.vector.as_flattened());
    for ((&new, &old), &flag) in new.iter().zip(old).zip(UPDATE_VECTOR.as_flattened()) {
        out.bool(new != old, flag);
        if new != old {
            out.literal(u32::from(new >> 1), 7);
        }
    }
}

/// Writes how macroblocks are predicted (§19.3).
struct ModeWriter<'a> {
    header: &'a FrameHeader,
    probs: &'a Probabilities,
    field: Field<'a>,
}

impl ModeWriter<'_> {
    fn row(&self, out: &mut BoolEncoder, row: usize) {
        let (above, current) = self.field.rows(row);
        for column in 0..self.field.geometry.columns {
            let macroblock = &current[column + 1];
            let around = (&above[column + 1], &current[column], &above[column]);
            if self.header.update_segment_map {
                let segment = u16::from(macroblock.segment & 3);
                let path = crate::vp8::bool_coder::Path { bits: segment, length: 2 };
                out.tree(&SEGMENT_TREE, &self.header.segment_probs, path);
            }
            if let Some(probability) = self.header.skip_prob {
                out.bool(macroblock.skipped, probability);
            }
            if self.header.key {
                write_key_modes(out, macroblock, around.0, around.1);
                continue;
            }
            out.bool(macroblock.reference.is_inter(), self.header.intra_prob);
            if macroblock.reference.is_inter() {
                self.inter(out, macroblock, around, (column, row));
            } else {
                self.intra(out, macroblock);
            }
        }
    }

    fn intra(&self, out: &mut BoolEncoder, macroblock: &Macroblock) {
        out.tree(&Y_TREE, &self.probs.y_mode, Y_PATHS[intra_index(macroblock.mode)]);
        if macroblock.mode == Mode::B {
            for &mode in &macroblock.b_modes {
                out.tree(&B_TREE, &B_MODE, B_PATHS[mode as usize]);
            }
        }
        out.tree(&UV_TREE, &self.probs.uv_mode, UV_PATHS[intra_index(macroblock.uv_mode)]);
    }

    fn inter(
        &self,
        out: &mut BoolEncoder,
        macroblock: &Macroblock,
        (above, left, above_left): (&Macroblock, &Macroblock, &Macroblock),
        (column, row): (usize, usize),
    ) {
        out.bool(macroblock.reference != Reference::Last, self.header.last_prob);
        if macroblock.reference != Reference::Last {
            out.bool(macroblock.reference == Reference::Altref, self.header.golden_prob);
        }
        let near = Suggested::new(macroblock.reference, above, left, above_left, [false; 2]);
        let geometry = self.field.geometry;
        let best = || near.best(&Bounds::new(column, row, geometry.columns, geometry.rows));
        let prob = |at: usize| MODE_CONTEXTS[near.contexts[at]][at];
        let steps = match macroblock.mode {
            Mode::Nearest => 1,
            Mode::Near => 2,
            Mode::New => 3,
            Mode::Split => 4,
            _ => 0,
        };
        for at in 0..4.min(steps + 1) {
            out.bool(at < steps, prob(at));
        }
        if macroblock.mode == Mode::New {
            self.vector(out, macroblock.vector, best());
        } else if macroblock.mode == Mode::Split {
            let best = best();
            let (whole, quarters) = (SPLIT[0], SPLIT[1]);
            out.bool(macroblock.split != Split::Sixteenths, whole);
            if macroblock.split != Split::Sixteenths {
                out.bool(macroblock.split != Split::Quarters, quarters);
                if macroblock.split != Split::Quarters {
                    out.bool(macroblock.split == Split::LeftRight, SPLIT[2]);
                }
            }
            for piece in pieces(macroblock, above, left) {
                let probs = &SUB_VECTOR[piece.context];
                for (at, &prob) in probs.iter().enumerate().take(piece.kind + 1) {
                    out.bool(at < piece.kind, prob);
                }
                if piece.kind == 3 {
                    self.vector(out, piece.vector, best);
                }
            }
        }
    }

    fn vector(&self, out: &mut BoolEncoder, vector: Vector, best: Vector) {
        for (value, probs) in difference(vector, best).into_iter().zip(&self.probs.vector) {
            let size = value.unsigned_abs();
            out.bool(size > 7, probs[0]);
            if size > 7 {
                for at in [0, 1, 2, 9, 8, 7, 6, 5, 4] {
                    out.bool(size >> at & 1 != 0, probs[9 + at]);
                }
                if size > 15 {
                    out.bool(size & 8 != 0, probs[12]);
                }
            } else {
                out.tree(&SHORT_TREE, &probs[2..9], SHORT_PATHS[size as usize]);
            }
            if size > 0 {
                out.bool(value < 0, probs[1]);
            }
        }
    }
}

fn write_key_modes(out: &mut BoolEncoder, macroblock: &Macroblock, above: &Macroblock, left: &Macroblock) {
    out.tree(&KEY_Y_TREE, &KEY_Y_MODE, KEY_Y_PATHS[intra_index(macroblock.mode)]);
    if macroblock.mode == Mode::B {
        for block in 0..16 {
            let on_top = if block < 4 { above.b_mode(block + 12) } else { macroblock.b_modes[block - 4] };
            let to_left = if block % 4 == 0 { left.b_mode(block + 3) } else { macroblock.b_modes[block - 1] };
            let probs = &KEY_B_MODE[on_top as usize][to_left as usize];
            out.tree(&B_TREE, probs, B_PATHS[macroblock.b_modes[block] as usize]);
        }
    }
    out.tree(&UV_TREE, &KEY_UV_MODE, UV_PATHS[intra_index(macroblock.uv_mode)]);
}

/// The cost of saying how a split macroblock is cut, and its pieces' vectors.
pub(crate) fn split_cost(
    macroblock: &Macroblock,
    (above, left): (&Macroblock, &Macroblock),
    best: Vector,
    costs: &rate::ModeCosts,
) -> rate::Cost {
    let cut = match macroblock.split {
        Split::Sixteenths => rate::bit(false, SPLIT[0]),
        Split::Quarters => rate::bit(true, SPLIT[0]) + rate::bit(false, SPLIT[1]),
        Split::LeftRight | Split::TopBottom => {
            let last = rate::bit(macroblock.split == Split::LeftRight, SPLIT[2]);
            rate::bit(true, SPLIT[0]) + rate::bit(true, SPLIT[1]) + last
        }
    };
    let pieces = pieces(macroblock, above, left).map(|piece| {
        let probs = &SUB_VECTOR[piece.context];
        let kind: rate::Cost =
            (0..3.min(piece.kind + 1)).map(|at| rate::bit(at < piece.kind, probs[at])).sum();
        kind + if piece.kind == 3 { costs.vector(piece.vector, best) } else { 0 }
    });
    cut + pieces.sum::<rate::Cost>()
}
