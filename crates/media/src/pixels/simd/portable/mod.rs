//! The kernels as they are defined: plain loops, which the compiler may vectorise as it can.

mod matrix;
mod pgroups;

pub(super) use matrix::{matrix, matrix_inline};
pub(crate) use pgroups::{Lines, ReadLines};
pub(super) use pgroups::{pack_pgroups, pack_pgroups_from, unpack_pgroups, unpack_pgroups_from};

pub(super) fn narrow(deep: &[u8], shift: u32, out: &mut [u8]) {
    let round = 1u16 << (shift - 1);
    for (sample, out) in deep.as_chunks::<2>().0.iter().zip(out) {
        let value = u16::from_le_bytes(*sample).saturating_add(round) >> shift;
        *out = value.min(255) as u8;
    }
}

pub(super) fn average(one: &[u8], other: &[u8], out: &mut [u8]) {
    for ((&one, &other), out) in one.iter().zip(other).zip(out) {
        *out = (u16::from(one) + u16::from(other)).div_ceil(2) as u8;
    }
}

pub(super) fn average_deep(one: &[u8], other: &[u8], shift: u32, out: &mut [u8]) {
    let round = 1u16 << (shift - 1);
    let (one, other) = (one.as_chunks::<2>().0, other.as_chunks::<2>().0);
    for ((one, other), out) in one.iter().zip(other).zip(out) {
        let sum = u32::from(u16::from_le_bytes(*one)) + u32::from(u16::from_le_bytes(*other));
        let value = (sum.div_ceil(2) as u16).saturating_add(round) >> shift;
        *out = value.min(255) as u8;
    }
}

pub(super) fn quarter(one: &[u8], other: &[u8], out: &mut [u8]) {
    quarter_from(0, one, other, out);
}

/// The same from output sample `start` on; the ends of the line stand for what lies beyond them.
pub(super) fn quarter_from(start: usize, one: &[u8], other: &[u8], out: &mut [u8]) {
    let last = one.len().min(other.len()).saturating_sub(1);
    let column = |x: usize| u16::from(one[x.min(last)]) + u16::from(other[x.min(last)]);
    for (x, out) in out.iter_mut().enumerate().skip(start) {
        let x = 2 * x;
        *out = ((column(x.saturating_sub(1)) + 2 * column(x) + column(x + 1) + 4) >> 3) as u8;
    }
}

pub(super) fn unpack(packed: &[u8], luma_first: bool, lines: [&mut [u8]; 3]) {
    let [luma, blue, red] = lines;
    let (first, chroma) = if luma_first { (0, 1) } else { (1, 0) };
    for (bytes, luma) in packed.as_chunks::<2>().0.iter().zip(luma.iter_mut()) {
        *luma = bytes[first];
    }
    for ((bytes, blue), red) in packed.as_chunks::<4>().0.iter().zip(blue).zip(red) {
        (*blue, *red) = (bytes[chroma], bytes[chroma + 2]);
    }
}

pub(super) fn split(pairs: &[u8], one: &mut [u8], other: &mut [u8]) {
    for ((pair, one), other) in pairs.as_chunks::<2>().0.iter().zip(one).zip(other) {
        [*one, *other] = *pair;
    }
}

/// The lines around one that a field lacks, all of one length. "Same" is the field that is completed, "before" the
/// one before it (half a picture earlier, which has just the missing lines), "old" those a whole picture earlier.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FieldLines<'a> {
    /// Above the missing line, in the same field.
    pub(crate) above: &'a [u8],
    /// Below it.
    pub(crate) below: &'a [u8],
    /// What is known of earlier fields; without it the line is made from its neighbours alone.
    pub(crate) past: Option<PastLines<'a>>,
}

/// See [`FieldLines`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct PastLines<'a> {
    /// The missing line in the field before, and that field's lines two above and two below.
    pub(crate) before: &'a [u8],
    pub(crate) before_above: &'a [u8],
    pub(crate) before_below: &'a [u8],
    /// The missing line a whole picture before `before`.
    pub(crate) old: &'a [u8],
    /// `above` and `below` a whole picture earlier.
    pub(crate) old_above: &'a [u8],
    pub(crate) old_below: &'a [u8],
}

/// How far an edge is followed to either side, with what its score looks at: the ends of a line are made without.
const REACH: usize = 3;

pub(super) fn interpolate(lines: &FieldLines<'_>, out: &mut [u8]) {
    interpolate_inline(lines, out);
}

/// Inlined, so that it is compiled once for each level.
#[inline(always)]
pub(super) fn interpolate_inline(lines: &FieldLines<'_>, out: &mut [u8]) {
    along_edges(lines.above, lines.below, out);
    if let Some(past) = &lines.past {
        towards_past(lines, past, out);
    }
}

/// The spatial guess: the mean of the two samples above and below along the direction in which they differ least,
/// of five directions (ELA, as in yadif).
#[inline(always)]
fn along_edges(above: &[u8], below: &[u8], out: &mut [u8]) {
    let width = out.len();
    let (above, below) = (&above[..width], &below[..width]);
    for ((out, &above), &below) in out.iter_mut().zip(above).zip(below) {
        *out = ((i16::from(above) + i16::from(below)) >> 1) as u8;
    }
    let Some(inner) = width.checked_sub(2 * REACH).filter(|&inner| inner > 0) else { return };
    let above: [&[u8]; 7] = std::array::from_fn(|shift| &above[shift..shift + inner]);
    let below: [&[u8]; 7] = std::array::from_fn(|shift| &below[shift..shift + inner]);
    let out = &mut out[REACH..REACH + inner];
    for x in 0..inner {
        let above = above.map(|line| i16::from(line[x]));
        let below = below.map(|line| i16::from(line[x]));
        let score = |lean: usize, back: usize| {
            (above[lean - 1] - below[back - 1]).abs()
                + (above[lean] - below[back]).abs()
                + (above[lean + 1] - below[back + 1]).abs()
        };
        let guess = |lean: usize, back: usize| (above[lean] + below[back]) >> 1;
        // Straight down wins a draw.
        let (mut best, mut value) = (score(3, 3) - 1, guess(3, 3));
        for [near, far] in [[2usize, 1], [4, 5]] {
            let near_score = score(near, 6 - near);
            let near_better = near_score < best;
            best = if near_better { near_score } else { best };
            value = if near_better { guess(near, 6 - near) } else { value };
            let far_score = score(far, 6 - far);
            let far_better = near_better & (far_score < best);
            best = if far_better { far_score } else { best };
            value = if far_better { guess(far, 6 - far) } else { value };
        }
        out[x] = value as u8;
    }
}

/// Holds the spatial guess as near to the field before as the picture stands still: where nothing moved, the line is
/// that field's.
#[inline(always)]
fn towards_past(lines: &FieldLines<'_>, past: &PastLines<'_>, out: &mut [u8]) {
    let width = out.len();
    let (above, below) = (&lines.above[..width], &lines.below[..width]);
    let (before, old) = (&past.before[..width], &past.old[..width]);
    let (before_above, before_below) = (&past.before_above[..width], &past.before_below[..width]);
    let (old_above, old_below) = (&past.old_above[..width], &past.old_below[..width]);
    for x in 0..width {
        let wide = |line: &[u8]| i16::from(line[x]);
        let (above, below, before) = (wide(above), wide(below), wide(before));
        let around = ((wide(old_above) - above).abs() + (wide(old_below) - below).abs()) >> 1;
        let moved = (before - wide(old)).abs().max(around);
        // Where the field before would stand out as a comb, it is trusted less (yadif's spatial check).
        let (up, down) = (before - above, before - below);
        let (further_up, further_down) = (wide(before_above) - above, wide(before_below) - below);
        let most = up.max(down).max(further_up.min(further_down));
        let least = up.min(down).min(further_up.max(further_down));
        let moved = moved.max(least).max(-most);
        out[x] = i16::from(out[x]).clamp(before - moved, before + moved) as u8;
    }
}
