//! Pgroups to lines of planes.
//!
//! A shuffle puts a sample's two bytes into a lane of 16 bits, a multiplication moves it to the lane's top, a shift back to its
//! bottom. The shuffle also sorts the samples of a register's half by plane; unpacking pairs of registers joins what belongs together.

use super::*;
use crate::picture::{Chroma, PixelFormat};
use portable::Lines;

#[target_feature(enable = "avx2")]
pub(crate) fn unpack_pgroups(format: PixelFormat, groups: &[u8], lines: &mut Lines<'_>) {
    let done = match (format.chroma, format.depth_bits) {
        (Chroma::Mono, 8) => {
            lines[0][..groups.len()].copy_from_slice(groups);
            return;
        }
        (Chroma::Mono, 10) => mono::<10>(groups, lines) / 4,
        (Chroma::Mono, 12) => mono::<12>(groups, lines) / 2,
        (Chroma::Mono, 16) => mono::<16>(groups, lines),
        (Chroma::Yuv422, 8) => {
            let [luma, blue, red, _] = lines;
            let pairs = groups.len() / 4;
            super::unpack(groups, false, [&mut luma[..2 * pairs], &mut blue[..pairs], &mut red[..pairs]]);
            return;
        }
        (Chroma::Yuv422, 10) => halved::<10>(groups, lines),
        (Chroma::Yuv422, 12) => halved::<12>(groups, lines),
        (Chroma::Yuv422, 16) => halved::<16>(groups, lines),
        (Chroma::Yuv420, 8) => two_lines(groups, lines),
        (Chroma::Yuv444, 8) => bytes(groups, const { thirds([1, 0, 2]) }, lines),
        (Chroma::Rgb, 8) => bytes(groups, const { thirds([0, 1, 2]) }, lines),
        (Chroma::Yuv444, 10) => fours([1, 0, 2], groups, lines),
        (Chroma::Rgb, 10) => fours([0, 1, 2], groups, lines),
        (Chroma::Yuv444, 12) => pairs::<12>([1, 0, 2], groups, lines) / 2,
        (Chroma::Rgb, 12) => pairs::<12>([0, 1, 2], groups, lines) / 2,
        (Chroma::Yuv444, 16) => pairs::<16>([1, 0, 2], groups, lines),
        (Chroma::Rgb, 16) => pairs::<16>([0, 1, 2], groups, lines),
        _ => 0,
    };
    portable::unpack_pgroups_from(done, format, groups, lines);
}

/// Which samples of a run, counted from its first, a register's half gets, and how.
#[derive(Clone, Copy)]
struct Spread {
    shuffle: [u8; 16],
    factors: [u16; 8],
}

impl Spread {
    const fn new(depth_bits: usize, samples: [usize; 8]) -> Spread {
        let mut spread = Spread { shuffle: [0; 16], factors: [0; 8] };
        let mut lane = 0;
        while lane < 8 {
            let bit = samples[lane] * depth_bits;
            spread.shuffle[2 * lane] = (bit / 8 + 1) as u8;
            spread.shuffle[2 * lane + 1] = (bit / 8) as u8;
            spread.factors[lane] = 1 << (bit % 8);
            lane += 1;
        }
        spread
    }
}

/// A register of which each half is spread by its own table.
#[inline]
#[target_feature(enable = "avx2")]
fn spread(value: __m256i, [low, high]: &[Spread; 2], depth_bits: usize) -> __m256i {
    let bytes = |spread: &Spread| load_half(&spread.shuffle, 0);
    let factors = |spread: &Spread| load_half(spread.factors.map(u16::to_ne_bytes).as_flattened(), 0);
    let shuffled = _mm256_shuffle_epi8(value, _mm256_set_m128i(bytes(high), bytes(low)));
    let moved = _mm256_mullo_epi16(shuffled, _mm256_set_m128i(factors(high), factors(low)));
    _mm256_srl_epi16(moved, _mm_cvtsi32_si128(16 - depth_bits as i32))
}

/// Luma alone; gives the samples that are done. Eight samples take as many bytes as each has bits.
#[target_feature(enable = "avx2")]
fn mono<const DEPTH: usize>(groups: &[u8], lines: &mut Lines<'_>) -> usize {
    let table = const { [Spread::new(DEPTH, [0, 1, 2, 3, 4, 5, 6, 7]); 2] };
    let (step, reach) = (2 * DEPTH, DEPTH + 16);
    let blocks = blocks(groups.len(), step, reach);
    for (block, luma) in lines[0].as_chunks_mut::<LANE>().0.iter_mut().take(blocks).enumerate() {
        let bytes = &groups[block * step..][..reach];
        store(spread(load_halves(bytes, 0, DEPTH), &table, DEPTH), luma);
    }
    blocks * 16
}

/// How many blocks `step` bytes apart can be read, of each of which `reach` bytes are looked at.
pub(super) fn blocks(bytes: usize, step: usize, reach: usize) -> usize {
    bytes.checked_sub(reach).map_or(0, |rest| rest / step + 1)
}

/// 4:2:2 of more than 8 bits; gives the groups that are done. Two groups take as many bytes as a sample has bits.
#[target_feature(enable = "avx2")]
fn halved<const DEPTH: usize>(groups: &[u8], lines: &mut Lines<'_>) -> usize {
    // Of `Cb Y Cr Y Cb Y Cr Y`: four of luma, two of each chroma.
    let table = const { [Spread::new(DEPTH, [1, 3, 5, 7, 0, 4, 2, 6]); 2] };
    let (step, reach) = (4 * DEPTH, 3 * DEPTH + 16);
    let blocks = blocks(groups.len(), step, reach);
    let [luma, blue, red, _] = lines;
    let places = luma
        .as_chunks_mut::<LANE>()
        .0
        .iter_mut()
        .zip(blue.as_chunks_mut::<16>().0.iter_mut().zip(red.as_chunks_mut::<16>().0));
    for (block, (luma, (blue, red))) in places.take(blocks).enumerate() {
        let bytes = &groups[block * step..][..reach];
        let even = spread(load_halves(bytes, 0, 2 * DEPTH), &table, DEPTH);
        let odd = spread(load_halves(bytes, DEPTH, 3 * DEPTH), &table, DEPTH);
        store(_mm256_unpacklo_epi64(even, odd), luma);
        let chroma = _mm256_shuffle_epi32::<0b11_01_10_00>(_mm256_unpackhi_epi64(even, odd));
        let [blues, reds] = halves(_mm256_permute4x64_epi64::<0b11_01_10_00>(chroma));
        store_half(blues, blue, 0);
        store_half(reds, red, 0);
    }
    blocks * 8
}

/// By which bytes of twelve a half has those of three planes one behind the other.
const fn thirds(order: [u8; 3]) -> [u8; 16] {
    let mut shuffle = [0x80; 16];
    let mut at = 0;
    while at < 12 {
        shuffle[at] = order[at / 4] + 3 * (at as u8 % 4);
        at += 1;
    }
    shuffle
}

/// 96 bytes, of which each twelve were shuffled into three fours: the first, second and third of them.
#[inline]
#[target_feature(enable = "avx2")]
fn three(bytes: &[u8], shuffle: __m256i) -> [__m256i; 3] {
    let at = |first| _mm256_shuffle_epi8(load_halves(bytes, first, first + 48), shuffle);
    let [one, two, three, four] = [at(0), at(12), at(24), at(36)];
    let (low, further_low) = (_mm256_unpacklo_epi32(one, two), _mm256_unpacklo_epi32(three, four));
    let (high, further_high) = (_mm256_unpackhi_epi32(one, two), _mm256_unpackhi_epi32(three, four));
    [
        _mm256_unpacklo_epi64(low, further_low),
        _mm256_unpackhi_epi64(low, further_low),
        _mm256_unpacklo_epi64(high, further_high),
    ]
}

/// Three planes of 8 bits; gives the groups that are done.
#[target_feature(enable = "avx2")]
fn bytes(groups: &[u8], shuffle: [u8; 16], lines: &mut Lines<'_>) -> usize {
    let shuffle = _mm256_broadcastsi128_si256(load_half(&shuffle, 0));
    let blocks = blocks(groups.len(), 96, 100);
    let [one, two, third, _] = lines;
    let places = one
        .as_chunks_mut::<LANE>()
        .0
        .iter_mut()
        .zip(two.as_chunks_mut::<LANE>().0.iter_mut().zip(third.as_chunks_mut::<LANE>().0));
    for (block, (one, (two, third))) in places.take(blocks).enumerate() {
        let found = three(&groups[block * 96..][..100], shuffle);
        store(found[0], one);
        store(found[1], two);
        store(found[2], third);
    }
    blocks * 32
}

/// 4:2:0 of 8 bits; gives the groups that are done.
#[target_feature(enable = "avx2")]
fn two_lines(groups: &[u8], lines: &mut Lines<'_>) -> usize {
    // Of `Y00 Y01 Y10 Y11 Cb Cr` twice: luma of the upper line, of the lower one, and chroma.
    let shuffle = [0, 1, 6, 7, 2, 3, 8, 9, 4, 10, 5, 11, 0x80, 0x80, 0x80, 0x80];
    let sort = [0, 1, 4, 5, 8, 9, 12, 13, 2, 3, 6, 7, 10, 11, 14, 15];
    let [shuffle, sort] = [shuffle, sort].map(|table| _mm256_broadcastsi128_si256(load_half(&table, 0)));
    let blocks = blocks(groups.len(), 96, 100);
    let [upper, blue, red, lower] = lines;
    let luma = upper.as_chunks_mut::<LANE>().0.iter_mut().zip(lower.as_chunks_mut::<LANE>().0);
    let chroma = blue.as_chunks_mut::<16>().0.iter_mut().zip(red.as_chunks_mut::<16>().0);
    for (block, ((upper, lower), (blue, red))) in luma.zip(chroma).take(blocks).enumerate() {
        let [above, below, chroma] = three(&groups[block * 96..][..100], shuffle);
        store(above, upper);
        store(below, lower);
        let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_shuffle_epi8(chroma, sort));
        let [blues, reds] = halves(sorted);
        store_half(blues, blue, 0);
        store_half(reds, red, 0);
    }
    blocks * 16
}

/// Three planes of 10 bits, in groups of four samples of each plane; `order` is each plane's place among the three. Gives the
/// groups that are done.
#[inline]
#[target_feature(enable = "avx2")]
fn fours(order: [usize; 3], groups: &[u8], lines: &mut Lines<'_>) -> usize {
    let at = |plane: usize, number: usize| 3 * number + order[plane];
    let four = |plane| [at(plane, 0), at(plane, 1), at(plane, 2), at(plane, 3)];
    let both = |one: [usize; 4], other: [usize; 4]| {
        Spread::new(10, std::array::from_fn(|lane| if lane < 4 { one[lane] } else { other[lane - 4] }))
    };
    let table = [both(four(0), four(1)), both(four(2), four(2))];
    let blocks = blocks(groups.len(), 30, 31);
    let [one, two, third, _] = lines;
    let places = one
        .as_chunks_mut::<16>()
        .0
        .iter_mut()
        .zip(two.as_chunks_mut::<16>().0.iter_mut().zip(third.as_chunks_mut::<16>().0));
    for (block, (one, (two, third))) in places.take(blocks).enumerate() {
        let bytes = &groups[block * 30..][..31];
        let [even, odd] =
            [0, 15].map(|first| spread(_mm256_broadcastsi128_si256(load_half(bytes, first)), &table, 10));
        let [ones, thirds] = halves(_mm256_unpacklo_epi64(even, odd));
        store_half(ones, one, 0);
        store_half(_mm256_castsi256_si128(_mm256_unpackhi_epi64(even, odd)), two, 0);
        store_half(thirds, third, 0);
    }
    blocks * 2
}

/// Three planes of 12 or 16 bits; gives the samples of a plane that are done. Two of each plane take ¾ of as many bytes as a sample
/// has bits.
#[inline]
#[target_feature(enable = "avx2")]
fn pairs<const DEPTH: usize>(order: [usize; 3], groups: &[u8], lines: &mut Lines<'_>) -> usize {
    let [one, two, three] = order;
    let table = [Spread::new(DEPTH, [one, one + 3, two, two + 3, three, three + 3, 0, 0]); 2];
    let half = DEPTH * 3 / 4;
    let (step, reach) = (4 * half, 3 * half + 16);
    let blocks = blocks(groups.len(), step, reach);
    let [one, two, third, _] = lines;
    let places = one
        .as_chunks_mut::<16>()
        .0
        .iter_mut()
        .zip(two.as_chunks_mut::<16>().0.iter_mut().zip(third.as_chunks_mut::<16>().0));
    for (block, (one, (two, third))) in places.take(blocks).enumerate() {
        let bytes = &groups[block * step..][..reach];
        let even = spread(load_halves(bytes, 0, 2 * half), &table, DEPTH);
        let odd = spread(load_halves(bytes, half, 3 * half), &table, DEPTH);
        let sorted = _mm256_permute4x64_epi64::<0b11_01_10_00>(_mm256_unpacklo_epi32(even, odd));
        let [ones, twos] = halves(sorted);
        store_half(ones, one, 0);
        store_half(twos, two, 0);
        let thirds = _mm256_permute4x64_epi64::<0b00_00_10_00>(_mm256_unpackhi_epi32(even, odd));
        store_half(_mm256_castsi256_si128(thirds), third, 0);
    }
    blocks * 8
}
